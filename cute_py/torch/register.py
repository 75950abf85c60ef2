"""`register`: an operator of torch made of a kernel."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

from cute_py.calls.torch_tensors import note_written
from cute_py.dtypes.table import Dtype, Promised
from cute_py.errors import refusal
from cute_py.plan.ops.memory import Atomic
from cute_py.plan.walk import arrays, every
from cute_py.torch.operators import Gradient, cast, define

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from inspect import Parameter

    from cute_py.plan.plan import Plan
    from cute_py.trace.kernel import Kernel

WORDS = {int: "SymInt", float: "float", bool: "bool", str: "str"}  # of Python -> of a schema


def register(
    kernel: Kernel,
    *,
    outputs: Sequence[str],
    fake: Callable[..., Any] | None = None,
    name: str | None = None,
    schema: str | None = None,
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., Any] | None = None,
    vmap: Callable[..., Any] | None = None,
    autocast: bool = False,
    **constants: Any,
) -> Any:  # a torch._ops.OpOverload
    """Make an operator of torch out of a kernel, and return it.

    Args:
        kernel: a `@cute.kernel`. Parameters annotated with a dtype, or with int, float, bool or
            str, are numbers and text; the others are tensors.
        outputs: the names of all parameters that it writes.
        fake: (the other arguments) -> new tensors, one for each output: the operator returns them,
            and torch.compile learns their shapes from it. None: the outputs are arguments of the
            operator, which it changes in place, and it returns nothing.
        name: "space::name"; None: "cute_kernels::" and the kernel's name.
        schema: its arguments, "(Tensor x, float alpha=1) -> Tensor", where the parameters do not
            say it.
        backward: (ctx, *gradients of the outputs) -> a gradient or None for each argument; where
            there are several, a tuple. None: operands that autograd follows are refused.
        setup_context: (ctx, inputs, output), saves what `backward` needs.
        vmap: the rule of torch.vmap, as `torch.library.register_vmap` takes it; None: a loop.
        autocast: whether floats of 16 and 32 bits are cast in an autocast region.
        constants: values of parameters that the operator does not have, such as configurations.

    Second derivatives are refused. The first call of a shape traces and compiles the kernel, so it
    comes before the capture of a CUDA graph. Raises CuteError (docs/errors.md).
    """
    full, names = name or f"cute_kernels::{kernel.__name__}", tuple(outputs)
    order = [x for x in kernel.signature.parameters if x not in constants]
    _require_names(kernel, names, constants)
    given = order if fake is None else [x for x in order if x not in names]
    text = schema or _schema(kernel, given, names if fake is None else (), len(names))
    require = _Outputs(kernel, full, names).require

    def launch(values: dict[str, Any]) -> None:
        args = [values[x] for x in kernel.signature.parameters]
        require(args)
        kernel(*args)

    def change(*args: Any) -> None:
        values = dict(zip(given, args, strict=True)) | constants
        launch(values)
        for x in names:
            note_written(values[x])

    def make(*args: Any) -> Any:
        assert fake is not None
        result = fake(*args)
        new = result if isinstance(result, tuple) else (result,)
        if len(new) != len(names) or not all(isinstance(x, torch.Tensor) for x in new):
            found, wanted = [type(x).__name__ for x in new], ", ".join(names)
            raise refusal("torch-result", operation=full, found=found, wanted=wanted)
        launch(dict(zip((*given, *names), (*args, *new), strict=True)) | constants)
        return result

    by_user = None if backward is None or fake is None else _gradient(setup_context, backward)
    return define(
        full + text,
        change if fake is None else make,
        fake or (lambda *_args: None),
        gradient=by_user,
        vmap=vmap,
        autocast=cast if autocast and fake is not None else None,
    )


def _gradient(setup_context: Callable[..., Any] | None, backward: Callable[..., Any]) -> Gradient:
    """Return a derivative by functions as `torch.library.register_autograd` takes them."""

    def forward(ctx: Any, run: Callable[..., Any], *args: Any) -> Any:
        result = run(*args)
        if setup_context is not None:
            setup_context(ctx=ctx, inputs=args, output=result)
        return result

    return Gradient(forward, backward)


# -- what the operator takes


def _require_names(kernel: Kernel, outputs: Sequence[str], constants: dict[str, Any]) -> None:
    """Refuse names that are no parameters."""
    for place, names in (("outputs", outputs), ("the constants", constants)):
        for name in names:
            if name not in kernel.signature.parameters:
                signature = f"{kernel.__name__}{kernel.signature}"
                facts = {"name": name, "place": place, "signature": signature}
                raise refusal("torch-parameter", operation="cute_py.torch.register", **facts)


def _schema(kernel: Kernel, given: Sequence[str], changed: Sequence[str], results: int) -> str:
    """Return the schema of an operator: "(Tensor x, Tensor(a0!) y, float alpha=1) -> ()"."""
    notes, parameters = kernel.notes(), kernel.signature.parameters
    parts: list[str] = []
    for name in given:
        word = _word(notes.get(name), parameters[name])
        if name in changed:
            word = f"Tensor(a{len(parts)}!)"
        default = parameters[name].default
        parts.append(
            f"{word} {name}" + ("" if default is parameters[name].empty else f"={default}")
        )
    result = (
        "()" if changed else "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
    )
    return f"({', '.join(parts)}) -> {result}"


def _word(note: object, parameter: Parameter) -> str:
    """Return the type of an argument in a schema."""
    kind = note.dtype if isinstance(note, Promised) else note
    if isinstance(kind, Dtype):
        return "float" if kind.is_float else "bool" if kind.name == "b1" else "SymInt"
    if isinstance(kind, type) and kind in WORDS:
        return WORDS[kind]
    return "Tensor?" if parameter.default is None else "Tensor"


# -- what the kernel does


class _Outputs:
    """Compares what a kernel writes with the outputs of its operator, once for each plan, and how
    it adds with what `torch.use_deterministic_algorithms` asks for, at each call in that mode.
    """

    def __init__(self, kernel: Kernel, name: str, outputs: tuple[str, ...]) -> None:
        self.kernel, self.name, self.outputs = kernel, name, outputs
        self.plans = -1  # of the kernel, when the last of them was checked

    def require(self, args: list[Any]) -> None:
        """Refuse a call that writes other arrays, or that may add in any order in that mode."""
        strict = torch.are_deterministic_algorithms_enabled()
        if self.plans == len(self.kernel.plans) and not strict:
            return
        plan = self.kernel.plan(*args)
        self.plans = len(self.kernel.plans)
        written = sorted(set().union(*[arrays(op, written=True) for op in every(plan.body)]))
        if not set(written) <= set(self.outputs):
            named = ", ".join(self.outputs)
            raise refusal(
                "torch-writes", operation=self.name, outputs=named, written=", ".join(written)
            )
        if strict:
            self._require_order(plan)

    def _require_order(self, plan: Plan) -> None:
        for op in every(plan.body):
            if not isinstance(op, Atomic) or op.fn != "add" or not op.dst.dtype.is_float:
                continue
            error = refusal("torch-order", operation=self.name, dtype=op.dst.dtype, line=op.where)
            if not torch.is_deterministic_algorithms_warn_only_enabled():
                raise error
            warnings.warn(str(error), stacklevel=2)
