"""`register`: an operator of torch made of a kernel."""

from __future__ import annotations

import warnings
from inspect import Parameter
from typing import TYPE_CHECKING, Any

import torch

from cute_py.calls.torch_tensors import note_written
from cute_py.dtypes.table import Dtype, Promised
from cute_py.errors import refusal
from cute_py.plan.ops.memory import Atomic
from cute_py.plan.walk import arrays, every
from cute_py.torch.operators import Gradient, cast, define, public
from cute_py.trace.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.plan.plan import Plan

OPERATION = "cute_py.torch.register"
WORDS = {int: "SymInt", float: "float", bool: "bool", str: "str"}  # of Python -> of a schema


def register(
    kernel: Kernel,
    *,
    outputs: Sequence[str] | str,
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
        outputs: the names of all parameters that it writes, or the only one.
        fake: (the other arguments) -> new tensors, one for each output: the operator returns them,
            and torch.compile learns their shapes from it. None: the outputs are arguments of the
            operator, which it changes in place, and it returns nothing.
        name: "space::name"; None: "cute_kernels::" and the kernel's name.
        schema: its arguments, "(Tensor x, float alpha=1) -> Tensor", where the parameters do not
            say it. A float becomes a Scalar, for which torch refuses tensors.
        backward: (ctx, *gradients of the outputs) -> a gradient or None for each argument; where
            there are several, a tuple. None: operands that autograd follows are refused.
        setup_context: (ctx, inputs, output), saves what `backward` needs.
        vmap: the rule of torch.vmap, as `torch.library.register_vmap` takes it; None: a loop.
        autocast: whether floats of 16 and 32 bits are cast in an autocast region.
        constants: values of parameters that the operator does not have, such as configurations.

    Second derivatives are refused. The first call of a shape traces and compiles the kernel, so it
    comes before the capture of a CUDA graph. Raises CuteError (docs/errors.md).
    """
    rules = {"backward": backward, "autocast": autocast or None, "setup_context": setup_context}
    for rule, other in (("backward", fake), ("autocast", fake), ("setup_context", backward)):
        if rules[rule] is not None and other is None:
            needed = "backward" if rule == "setup_context" else "fake"
            raise refusal("torch-rules", operation=OPERATION, names=rule, other=needed)
    called = _Called(kernel, name, outputs, fake, constants)
    if schema is not None:
        called.require_schema(schema)
    by_user = None if backward is None else _gradient(setup_context, backward)
    return define(
        called.name + (schema or called.schema()),
        called.change if fake is None else called.make,
        fake or (lambda *_args: None),
        gradient=by_user,
        vmap=vmap,
        autocast=cast if autocast else None,
    )


def _gradient(setup_context: Callable[..., Any] | None, backward: Callable[..., Any]) -> Gradient:
    """Return a derivative by functions as `torch.library.register_autograd` takes them."""

    def forward(ctx: Any, run: Callable[..., Any], *args: Any) -> Any:
        result = run(*args)
        if setup_context is not None:
            setup_context(ctx=ctx, inputs=args, output=result)
        return result

    return Gradient(forward, backward)


class _Called:
    """A kernel as it is called by the operator `name`.

    What it writes is compared with the outputs once for each plan, whoever had it traced; how it
    adds, with what `torch.use_deterministic_algorithms` asks for, at each call in that mode.
    """

    def __init__(
        self,
        kernel: Kernel,
        name: str | None,
        outputs: Sequence[str] | str,
        fake: Callable[..., Any] | None,
        constants: dict[str, Any],
    ) -> None:
        """Refuse what is no kernel, and names that are no parameters."""
        if not isinstance(kernel, Kernel):
            raise refusal("kernel-function", operation=OPERATION, type=type(kernel).__name__)
        self.kernel, self.fake, self.constants = kernel, fake, constants
        self.name = name or f"cute_kernels::{kernel.__name__}"
        if not all(map(str.isidentifier, parts := self.name.split("::"))) or len(parts) != 2:
            raise refusal("torch-name", operation=OPERATION, name=name)
        self.outputs = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        self.parameters = kernel.signature.parameters
        self.checked: Plan | None = None  # the kernel's newest plan when all were last checked
        made = () if fake is None else self.outputs
        self.given = [x for x in self.parameters if x not in constants and x not in made]
        for place, names in (("outputs", self.outputs), ("the constants", constants)):
            for each in names:
                if each not in self.parameters:
                    facts = {"name": each, "place": place}
                    signature = f"{kernel.__name__}{kernel.signature}"
                    raise refusal(
                        "torch-parameter", operation=OPERATION, signature=signature, **facts
                    )

    def schema(self) -> str:
        """Return "(Tensor x, Tensor(a1!) y, float alpha=1) -> ()"."""
        notes, parts = self.kernel.notes(), list[str]()
        for name in self.given:
            parameter = self.parameters[name]
            word = _word(notes.get(name), parameter)
            if name in self.outputs:
                word = f"Tensor(a{len(parts)}!)"
            default = parameter.default
            parts.append(f"{word} {name}" + ("" if default is parameter.empty else f"={default}"))
        results = ["Tensor"] * (0 if self.fake is None else len(self.outputs))
        result = results[0] if len(results) == 1 else f"({', '.join(results)})"
        return f"({', '.join(parts)}) -> {result}"

    def require_schema(self, schema: str) -> None:
        """Refuse a schema that says of arguments or results what does not hold."""
        found, ours = (torch._C.parse_schema(self.name + x) for x in (schema, self.schema()))
        writes = [
            [x.alias_info is not None and x.alias_info.is_write for x in y.arguments]
            for y in (found, ours)
        ]
        count = len(found.arguments)
        rest = [self.parameters[x].default for x in self.given[count:]]
        if (
            count > len(self.given)
            or writes[0] != writes[1][:count]
            or any(x is Parameter.empty for x in rest)
            or any(x.kwarg_only for x in found.arguments)
            or len(found.returns) != len(ours.returns)
        ):
            facts = {"schema": schema, "wanted": self.schema()}
            raise refusal("torch-schema", operation=OPERATION, **facts)

    # -- the implementation

    def change(self, *args: Any) -> None:
        """Run the kernel on outputs that the caller has."""
        values = dict(zip(self.given, args, strict=False))
        self.launch(values)
        for x in self.outputs:
            note_written(values[x])

    def make(self, *args: Any) -> Any:
        """Run the kernel on new outputs."""
        assert self.fake is not None
        result = self.fake(*args)
        new = result if isinstance(result, tuple) else (result,)
        tensors = [isinstance(x, torch.Tensor) for x in new]
        shared = self.shared(args, new) if all(tensors) else [False] * len(new)
        if len(new) != len(self.outputs) or any(shared) or not all(tensors):
            pairs = zip(new, shared, strict=True)
            found = ["a view of another tensor" if y else type(x).__name__ for x, y in pairs]
            wanted = ", ".join(self.outputs)
            raise refusal("torch-result", operation=public(self.name), found=found, wanted=wanted)
        values = dict(zip(self.given, args, strict=False))
        self.launch(values | dict(zip(self.outputs, new, strict=True)))
        return result

    def shared(self, args: tuple[Any, ...], new: tuple[Any, ...]) -> list[bool]:
        """Tell which new tensors share memory with an argument or one another. All memory is
        compared where the kernel's newest plan is not known, as that costs a fifth of a call, and
        where one is a view, perhaps of a tensor that is new too.
        """
        is_known = self.checked is not None and self._newest() is self.checked
        if is_known and not any(x._is_view() for x in new):
            known = [id(x) for x in (*args, *new)]
            return [id(x) in known[:i] for i, x in enumerate(new, start=len(args))]
        places = [_memory(x) for x in (*args, *new)]
        return [x in places[:i] for i, x in enumerate(places)][len(args) :]

    def launch(self, values: dict[str, Any]) -> None:
        """Run the kernel; values that are left out are the defaults of its parameters."""
        known = values | self.constants
        args = [known.get(x, parameter.default) for x, parameter in self.parameters.items()]
        strict = torch.are_deterministic_algorithms_enabled()
        checked = self.checked is not None and self._newest() is self.checked and not strict
        if not checked or not self.kernel.replayed(*args):  # of a known call all plans are checked
            self.require(args, strict)
            self.kernel(*args)

    def require(self, args: list[Any], strict: bool) -> None:
        """Refuse a call that writes other arrays, or with `strict` that adds in any order."""
        plan = self.kernel.plan(*args)
        if not _written(plan) <= set(self.outputs):
            facts = {
                "outputs": ", ".join(self.outputs),
                "written": ", ".join(sorted(_written(plan))),
            }
            raise refusal("torch-writes", operation=public(self.name), **facts)
        if all(_written(x) <= set(self.outputs) for x in self.kernel.plans.values()):
            self.checked = self._newest()
        if strict:
            for op in every(plan.body):
                if isinstance(op, Atomic) and op.fn == "add" and op.dst.dtype.is_float:
                    self._require_order(op)

    def _newest(self) -> Plan | None:
        return next(reversed(self.kernel.plans.values()), None)

    def _require_order(self, op: Atomic) -> None:
        error = refusal(
            "torch-order", operation=public(self.name), dtype=op.dst.dtype, line=op.where
        )
        if not torch.is_deterministic_algorithms_warn_only_enabled():
            raise error
        warnings.warn(str(error), stacklevel=2)


def _memory(x: Any) -> object:
    """Return what two tensors have in common if they share memory, and what nothing else has."""
    if not isinstance(x, torch.Tensor) or not x.numel():
        return object()
    return x.untyped_storage().data_ptr() or object()


def _written(plan: Plan) -> set[str]:
    """Return the names of the arrays that a plan writes."""
    return set().union(*[arrays(op, written=True) for op in every(plan.body)])


def _word(note: object, parameter: Parameter) -> str:
    """Return the type of an argument in a schema."""
    kind = note.dtype if isinstance(note, Promised) else note
    if isinstance(kind, Dtype):
        return "float" if kind.is_float else "bool" if kind.name == "b1" else "SymInt"
    if isinstance(kind, type) and kind in WORDS:
        return WORDS[kind]
    return "Tensor?" if parameter.default is None else "Tensor"
