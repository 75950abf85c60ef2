"""Tensors of torch: their element types, gradients and host memory, and `torch.compile`.

torch is imported here only where a tensor is given, so it is loaded already.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import import_module

from cute_py.dtypes.table import Dtype
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from cute_py.dtypes.table import Array

NAMES = {  # element type -> the name that torch gives it
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "s8": "int8",
    "u8": "uint8",
    "s16": "int16",
    "u16": "uint16",
    "s32": "int32",
    "u32": "uint32",
    "s64": "int64",
    "u64": "uint64",
    "b1": "bool",
}
FORWARD = "torch.autograd.forward_ad"
_KINDS = {torch: ours for ours, torch in NAMES.items()}


@lru_cache(maxsize=64)
def dtype_of_torch(kind: object) -> Dtype:
    """Return the element type that a torch.dtype is."""
    name = str(kind).removeprefix("torch.")
    return as_dtype(_KINDS.get(name, str(kind)))


def is_tensor(x: object) -> bool:
    """Return whether x is a tensor of torch, or of a type derived from it."""
    return _is_tensor_type(type(x))  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _is_tensor_type(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] == "torch" for base in kind.__mro__)


def require_dense(x: Any) -> None:
    """Refuse a tensor whose elements are not in memory of its own: sparse, meta, a wrapper ..."""
    try:
        x.stride()
        is_plain = (x.data_ptr() != 0 or (0 in x.shape and not x.is_meta)) and not _is_wrapped(x)
    except (RuntimeError, TypeError):
        is_plain = False
    if not is_plain or getattr(x, "is_quantized", False) or getattr(x, "is_nested", False):
        raise refusal("argument-tensor", operation="kernel", type=type(x).__name__)


def _is_wrapped(x: object) -> bool:
    """Return whether torch.func transforms a tensor; its memory is that of another one."""
    module: Any = sys.modules.get("torch._C._functorch")
    return module is not None and bool(module.is_functorch_wrapped_tensor(x))


def in_type(x: Any, kind: Dtype) -> Any:
    """Return a tensor in the type that stores another element type, rounded and clamped as
    `convert` does: to nearest even; e4m3 gets NaN for what is too large; floats clamp to the range
    of integers, where NaN becomes 0, or 1 << (bits - 1) from f64; integers wrap.
    """
    import torch

    found = getattr(torch, NAMES["f32" if kind.name == "tf32" else kind.name])
    if kind.is_integer and x.is_floating_point():
        low, high = float(kind.min), float(kind.max)
        nan = float(1 << (kind.bits - 1)) if x.dtype is torch.float64 else 0.0
        nan = low if nan > high else nan
        x = torch.nan_to_num(x.double().round().clamp(low, high), nan=nan)
    if kind.name == "e4m3":  # which has no inf; versions of torch differ in what they do
        x = x.masked_fill(x.abs() > ROUNDED_UP, float("nan")) if x.is_floating_point() else x
    return x.to(found)


ROUNDED_UP = 464.0  # beyond this, numbers are rounded to one that e4m3 does not have


# -- gradients


def has_gradient(x: object) -> bool:
    """Return whether autograd follows a tensor while grad mode is on."""
    return bool(getattr(getattr(x, "array", x), "requires_grad", False))


def require_no_gradient(x: object, name: str, operation: str) -> None:
    """Refuse a tensor that autograd follows, or with a tangent: a kernel's results have neither."""
    if has_gradient(x) and _grad_mode()():
        raise refusal("argument-gradient", operation=operation, name=name)
    if is_dual_level() and has_tangent(x):
        raise refusal("argument-tangent", operation=operation, name=name)


def is_dual_level() -> bool:
    """Return whether forward-mode differentiation is on; the level is the same for all threads."""
    forward: Any = sys.modules.get(FORWARD)
    return forward is not None and forward._current_level >= 0


def has_tangent(x: object) -> bool:
    """Return whether forward-mode differentiation follows a tensor."""
    x = getattr(x, "array", x)
    return is_tensor(x) and sys.modules[FORWARD].unpack_dual(x).tangent is not None


def is_followed(arrays: Iterable[object]) -> bool:
    """Return whether grad mode is on and autograd follows an array."""
    return _grad_mode()() and any(map(has_gradient, arrays))


def outside_autograd(
    arrays: Iterable[object],
    function: Callable[..., Any],
    otherwise: Callable[..., Any] = lambda *args: None,
) -> Callable[..., Any]:
    """Return a function that calls `otherwise` while grad mode is on if autograd follows an array;
    else the function itself.
    """
    if not any(map(has_gradient, arrays)):
        return function
    is_on = _grad_mode()
    return lambda *args: otherwise(*args) if is_on() else function(*args)


def _grad_mode() -> Callable[[], bool]:
    """Return the function that returns whether grad mode is on."""
    torch: Any = sys.modules.get("torch")
    return bool if torch is None else torch.is_grad_enabled


def note_written(x: object) -> None:
    """Raise the version of a tensor, by which autograd notices writes to what it has saved."""
    note = getattr(sys.modules["torch"].autograd.graph, "increment_version", None)  # torch 2.2
    if note is not None:
        note(x)


# -- memory of the host


def numpy_view(x: Any) -> Array:
    """Return a NumPy array on the memory of a dense tensor of the host."""
    import torch

    kind, plain = dtype_of_torch(x.dtype), x.detach()
    if not kind.numpy_name.startswith("ml_dtypes"):
        return plain.numpy()  # type: ignore[no-any-return]
    return plain.view(getattr(torch, _IMAGES[kind.bits])).numpy().view(kind.numpy)  # type: ignore[no-any-return]


def tensor_view(x: Array, kind: Dtype) -> Any:  # a torch.Tensor
    """Return a tensor on the memory of a NumPy array with elements of a type."""
    import torch

    if not kind.numpy_name.startswith("ml_dtypes"):
        return torch.from_numpy(x)
    return torch.from_numpy(x.view(_IMAGES[kind.bits])).view(getattr(torch, NAMES[kind.name]))


_IMAGES = {8: "uint8", 16: "int16"}  # bits -> the integers that NumPy and torch both have


# -- operators of torch

# Filled by `cute_py.torch`, a layer above: name -> the functions of an operator, by
# (request with an operand that autograd follows) and by (request traced by torch.compile).
OPERATORS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}


# (function, arguments of other names, the operator's own) -> the result, as a graph has it
IN_GRAPHS: dict[str, Callable[[Any, dict[str, Any], tuple[Any, ...]], Any]] = {}
DECLARE: list[Callable[[Any], None]] = []  # registers an operator that is made later


def load_operators() -> bool:
    """Register the operators of torch; `torch.compile` calls this where it traces a call of it."""
    import_module("cute_py.torch")
    return True


load_operators._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_traced() -> bool:
    """Return whether `torch.compile` traces the call."""
    compiler: Any = sys.modules.get("torch.compiler")
    return compiler is not None and compiler.is_dynamo_compiling()


def is_in_mode(x: object) -> bool:
    """Return whether a mode of torch is on that changes or records calls of operators of x and
    other tensors: autocast, or one with `__torch_dispatch__` (FakeTensorMode, make_fx ...).
    """
    inner: Any = sys.modules.get("torch._C")
    if inner is None:
        return False
    if inner._len_torch_dispatch_stack():
        return True
    keys = inner.DispatchKey
    key = keys.AutocastCUDA if getattr(x, "is_cuda", False) else keys.AutocastCPU
    return not inner._dispatch_tls_is_dispatch_key_excluded(key)


def is_by_rules(x: Any) -> bool:
    """Return whether only operators of torch take a tensor, by their rules: one without memory, or
    one that torch.func or a class with `__torch_dispatch__` stands behind.
    """
    inner: Any = getattr(sys.modules.get("torch"), "_C", None)
    if inner is None or x.is_meta or _is_wrapped(x):
        return inner is not None
    return bool(inner._dispatch_keys(x).has(inner.DispatchKey.Python))


# -- torch.compile

_called: list[Any] = []  # the code of the functions that graphs call


def graph_break(function: Any) -> Any:
    """Let `torch.compile` call a function between two graphs instead of tracing it."""
    return not_compiled(not_inlined(function))


def not_inlined(function: Any) -> Any:
    """Let `torch.compile` end a graph before a call of a function.

    `torch.compiler.disable` would import torch._dynamo, and cost a microsecond a call.
    """
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = "cute_py runs between the graphs"
    return function


def not_compiled(function: Any) -> Any:
    """Let `torch.compile` skip a function that is called between two graphs; one that is called in
    a graph is traced.
    """
    _called.append(function.__code__)
    leave_graphs()
    return function


def leave_graphs() -> None:
    """Once torch is loaded, let it skip the frames of these functions and all below them, which it
    would trace one by one. A function that may be the first to see a tensor calls this, then one
    that is skipped.
    """
    frames: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    if hasattr(frames, "_FrameExecStrategy"):  # torch 2.7
        skip = frames._FrameAction.SKIP
        for code in _called:
            frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))


graph_break(leave_graphs)
