"""`inline_ptx`: PTX of the kernel's author on registers, with a function of NumPy arrays that the
emulator runs in its place.
"""

from __future__ import annotations

from cute_py.calls.fingerprint.names import names_in
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal_here
from cute_py.plan.conditions import Reg
from cute_py.plan.inline_ptx import problem_of
from cute_py.plan.ops import InlinePtx
from cute_py.plan.ops.registers import PTX_BITS, Emulation
from cute_py.tensor.tensor import Tensor, require_tensor
from cute_py.trace.arithmetic import common_shape, new_registers, repeated
from cute_py.trace.lower import register
from cute_py.trace.state import emit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, overload

    from cute_py.dtypes.table import DtypeLike

_HERE = "cute.inline_ptx"


if TYPE_CHECKING:

    @overload
    def inline_ptx(
        text: str,
        outputs: tuple[DtypeLike, ...],
        inputs: Tensor | tuple[Tensor, ...] = ...,
        *,
        emulate: Callable[..., Any],
    ) -> tuple[Tensor, ...]: ...
    @overload
    def inline_ptx(
        text: str,
        outputs: DtypeLike,
        inputs: Tensor | tuple[Tensor, ...] = ...,
        *,
        emulate: Callable[..., Any],
    ) -> Tensor: ...


def inline_ptx(
    text: str,
    outputs: DtypeLike | tuple[DtypeLike, ...],
    inputs: Tensor | tuple[Tensor, ...] = (),
    *,
    emulate: Callable[..., Any],
) -> Any:  # a Tensor, or a tuple of them
    """Run PTX for each element of register tensors, and return the outputs in new registers.

    Args:
        text: instructions on registers, each with its `;`. Operands are those of CUDA's `asm`:
            `%0` on are the outputs, then the inputs; `%%laneid` is a special register. `.reg`
            declares more registers. Memory, labels, branches, calls, barriers and exits are
            errors, and so are instructions that the PTX ISA 9.0 does not have.
        outputs: the type of the output, or a tuple of types, of 16, 32 or 64 bits.
        inputs: the input registers, or a tuple of them; their shapes are repeated as in `x + y`.
        emulate: a function that computes the same on the emulator. It gets a NumPy array for each
            input, of shape (warps, 32) and the NumPy type of its dtype, lanes along the last mode,
            and returns an array of that shape for each output, in its type. It must not keep state.

    Text and function are part of the plan and of its keys, and so are the numbers and text that the
    function reads of its defaults, closure and globals. A saved plan has no function: it compiles,
    but cannot be emulated. The instructions run in order, together with all lanes of a warp
    that reach them, and are not left out if no output is used. Source: PTX ISA.

    >>> # y = cute.inline_ptx("add.sat.s32 %0, %1, %2;", "s32", (a, b), emulate=add_sat)
    """
    kinds = tuple([as_dtype(x) for x in (outputs if isinstance(outputs, tuple) else (outputs,))])
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    for x in given:
        register(require_tensor(x, _HERE), _HERE)
    for kind in (*kinds, *[x.dtype for x in given]):
        if kind.bits not in PTX_BITS:
            raise refusal_here(
                "kernel-domain", operation=_HERE, dtype=kind, domain="16, 32, 64 bits"
            )
    found = problem_of(text, len(kinds), len(given))
    if found is not None or not kinds:
        token, why = found or ("no output", "its results are its only effect")
        raise refusal_here("kernel-ptx", operation=_HERE, token=token, why=why)
    shape = common_shape(_HERE, given)
    values = [repeated(x, register(x, _HERE), shape) for x in given]
    results = tuple([new_registers(kind, shape) for kind in kinds])
    regs = tuple([register(x, _HERE) for x in results])
    sources = tuple([x for x in values if isinstance(x, Reg)])
    emit(InlinePtx, text, regs, sources, _emulation(emulate))
    return results if isinstance(outputs, tuple) else results[0]


def _emulation(function: object) -> Emulation:
    code = getattr(function, "__code__", None)
    if code is None:
        raise refusal_here("kernel-emulate", operation=_HERE, type=type(function).__name__)
    return Emulation(function.__name__, _fingerprint(function), function)  # type: ignore[attr-defined,arg-type]


def _fingerprint(function: Any) -> str:
    """Return a hash of a function's code and of the numbers and text that it depends on."""
    from hashlib import sha256

    return sha256(repr(_described(function, set())).encode()).hexdigest()[:32]


def _described(x: Any, seen: set[int]) -> object:
    """Return what a value does, as text and tuples: of a function its code and what it reads."""
    if isinstance(x, (int, float, str, bytes, type(None))):
        return type(x).__name__, repr(x)
    if isinstance(x, (tuple, list)):
        return type(x).__name__, *[_described(each, seen) for each in x]
    code = getattr(x, "__code__", None)
    if code is None or id(x) in seen:
        return type(x).__name__, getattr(x, "__module__", ""), getattr(x, "__qualname__", "")
    seen.add(id(x))
    cells = [cell.cell_contents for cell in x.__closure__ or ()]
    read = [x.__globals__.get(name) for name in names_in(code).globals]
    more = [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values(), *cells, *read]
    return _of_code(code), *[_described(each, seen) for each in more]


def _of_code(code: CodeType) -> object:
    consts = [_of_code(c) if hasattr(c, "co_code") else repr(c) for c in code.co_consts]
    return code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, tuple(consts)
