"""Operators of `cute.ops` as operators of torch, `torch.ops.cute_py.NAME`, by their declaration.

The arguments are the parameters of the public function in their order, and `out` by name. What
torch has no type for is text: `WORDS` says how parameters of a type are written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from inspect import Parameter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cute_py.calls.arrays import TypedArray, dtype_of, unwrapped
from cute_py.calls.torch_tensors import NAMES, OPERATORS, dtype_of_torch
from cute_py.dtypes.table import Dtype
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import CuteError, refusal
from cute_py.ops import operators
from cute_py.ops.libraries import reading
from cute_py.torch.operators import Gradient, cast, define, public
from cute_py.torch.shapes import described

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cute_py.ops.operator import Operator

CONFIGS: dict[str, Any] = {}  # by their text: an operator of torch takes no objects
CAUSAL = {"False": False, "True": True}  # the words of torch that are flags
DECLARED: dict[str, Declared] = {}  # by the name within `cute.ops`


class Word(NamedTuple):
    """How a parameter is written in a schema, and read.

    Attributes:
        schema: its type.
        ours: our argument as an expression of torch's, `x`.
        theirs: torch's argument of ours; in a graph also, where `plain` tells whether it has one.
        plain: the types of our argument that `torch.compile` may see.
    """

    schema: str
    ours: str = "x"
    theirs: Callable[[Any], Any] = lambda x: x
    plain: tuple[type, ...] = (object,)

    def is_misread(self, x: Any) -> bool:
        """Return whether torch would take a value as another: True as the mode 1, 5 as True."""
        if self.schema == "bool":
            return x not in (0, 1)
        several = x if isinstance(x, Sequence) else (x,)
        return self.schema.startswith("int") and any(isinstance(i, bool) for i in several)

    def may_be_traced(self, x: Any) -> bool:
        """Return whether `torch.compile` may see a value."""
        return isinstance(x, self.plain) and not self.is_misread(x)


def _config_text(x: Any) -> str | None:
    """Return a configuration as text, which is remembered."""
    if x is None or isinstance(x, str):
        return x
    CONFIGS[str(x)] = x
    return str(x)


def _checks_text(x: bool | str) -> str:
    """Return the checks of the emulator as text."""
    if isinstance(x, str) or not x:
        return x or ""
    from cute_py.emulate.faults import CHECKS

    return ",".join(CHECKS)


def _type_name(x: Any) -> str | None:
    """Return the name of an element type."""
    return None if x is None else _known_name(x.name if isinstance(x, Dtype) else x)


def _known_name(name: str) -> str:
    return as_dtype(name).name


def _torch_type(operation: str, x: Any) -> Any:
    """Return the torch.dtype of an element type."""
    return None if x is None else torch_dtype(operation, x.name if isinstance(x, Dtype) else x)


def torch_dtype(operation: str, name: str) -> Any:
    """Return the torch.dtype of an element type, by its name."""
    found = as_dtype(name)
    if found.name not in NAMES:
        facts: dict[str, Any] = {"name": "out_dtype", "dtype": found, "known": ", ".join(NAMES)}
        raise refusal("ops-out-dtype", operation=operation, **facts)
    return getattr(torch, NAMES[found.name])


# `torch.compile` calls these where it traces
torch_dtype._dynamo_marked_constant = True  # type: ignore[attr-defined]
_known_name._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _modes(x: Any) -> Any:
    return x if x is None else tuple(x) if isinstance(x, Sequence) else (x,)


def _no_function(x: Any) -> None:
    """Refuse a function of the user, which no operator of torch takes."""
    if x is not None:
        facts: dict[str, Any] = {"name": "function", "value": x}
        raise refusal("torch-function", operation="torch.ops.cute_py", **facts)


def _pair(x: Any) -> Any:
    return list(x) if isinstance(x, Sequence) else [x, x]


def _padding(x: Any) -> Any:
    """Return a padding as numbers: one for all sides, two, or top, bottom, left and right; -1 for
    "same".
    """
    if isinstance(x, str):
        return {"same": [-1], "valid": [0]}.get(x, [-2])
    if isinstance(x, Sequence) and any(isinstance(n, Sequence) for n in x):
        return [n for pair in x for n in _pair(pair)]
    return list(x) if isinstance(x, Sequence) else [x]


def _padding_of(x: Any) -> Any:
    """Return the padding that these numbers are."""
    x = tuple(x)
    if x == (-1,):
        return "same"
    return (x[:2], x[2:]) if len(x) == 4 else x if len(x) == 2 else x[0]


NAMED = (str, Dtype, torch.dtype, type(None))
# annotation of a parameter, or its name -> its word
WORDS = {
    "bool": Word("bool", theirs=bool, plain=(int,)),
    "int": Word("int"),
    "float": Word("Scalar"),
    "str": Word("str"),
    "str | None": Word("str?"),
    "bool | str": Word("str", "x or False", _checks_text, (bool,)),
    "DtypeLike | None": Word("str?", "x", _type_name, NAMED),
    "config": Word(
        "str?", "None if x is None else _CONFIGS.get(x, x)", _config_text, (str, type(None))
    ),
    "float | None": Word("float?"),
    "int | None": Word("int?"),
    "tuple[int, int]": Word("int[2]", "tuple(x)", list, (tuple, list)),
    "causal": Word("str", "_CAUSAL.get(x, x)", str, (bool, str)),
    "score": Word("str?", "None", _no_function, (type(None),)),
    "mask": Word("str?", "None", _no_function, (type(None),)),
    "epilogue": Word("str?", "None", _no_function, (type(None),)),
    "int | tuple[int, int]": Word("int[2]", "tuple(x)", _pair, (int, tuple, list)),
    "int | str | tuple[Any, Any]": Word(
        "int[1]", "_padding_of(x)", _padding, (int, str, tuple, list)
    ),
    "Sequence[int]": Word("SymInt[4]", "tuple(x)", list, (tuple, list)),
    "int | Sequence[int] | None": Word("int[1]?", "None if x is None else tuple(x)", _modes),
}


def theirs(name: str) -> str:
    """Return the name of an argument in a schema: torch calls what it wraps with a `mode`."""
    return "mode_" if name == "mode" else name


class Declared:
    """One operator of `cute.ops` as one of torch.

    Attributes:
        op: the operator of torch; `into` the one of `out=`.
        names: its arguments but `out`, arrays of `cute.ops` among them.
        given: (arguments of torch) -> those of ours, in the order of a request.
        computed: (arguments of torch) -> the result.
        numbers: the schema of the arguments, without parentheses.
    """

    op: Any
    into: Any

    def __init__(self, ours: Operator) -> None:
        self.ours = ours
        found = {name: p for name, p in ours.parameters.items() if name not in ours.outputs}
        self.names = tuple(found)
        self.words = {name: self._word(name, p) for name, p in found.items()}
        self.arrays = [name for name in self.names if name in ours.arrays]
        self.needed = [name for name in self.arrays if found[name].default is Parameter.empty]
        self.defaults = {name: self._default(name, p) for name, p in found.items()}
        self.numbers = ", ".join(map(self._argument, self.names))
        self.given, self.computed = self._made()

    def _word(self, name: str, p: Parameter) -> Word:
        if name in self.ours.problem.mutates:
            return Word(f"Tensor(w_{name}!)")
        if name in self.ours.arrays:
            return Word("Tensor" if p.default is Parameter.empty else "Tensor?")
        if name == "out_dtype":
            theirs = partial(_torch_type, self.ours.name)
            return Word("ScalarType?", "None if x is None else _dtype_of_torch(x)", theirs, NAMED)
        if str(p.annotation) == "float":  # a name of the user's, perhaps one in the table
            return WORDS["float"]
        return WORDS[name if name in WORDS else str(p.annotation)]

    def _default(self, name: str, p: Parameter) -> Any:
        if p.default is Parameter.empty:
            return p.default
        found = self.words[name].theirs(p.default)
        return float(found) if self.words[name].schema == "Scalar" else found

    def _argument(self, name: str) -> str:
        default = self.defaults[name]
        text = "" if default is Parameter.empty else f"={default!r}"
        return f"{self.words[name].schema} {theirs(name)}{text}"

    def _made(self) -> tuple[Any, Any]:
        """Return `given` and `computed`, generated: the latter is on the way of a known call."""
        parts = [
            theirs(name) + ("" if (x := self.defaults[name]) is Parameter.empty else f"={x!r}")
            for name in self.names
        ]
        parts += ["*", *[f"{name}=None" for name in self.ours.outputs]]
        values = [
            re.sub(r"\bx\b", theirs(name), self.words[name].ours) if name in self.words else name
            for name in self.ours.request._fields
        ]
        text = f"""
def given({", ".join(parts)}):
    return {", ".join(values)},
def computed({", ".join(parts)}):
    _given = {", ".join(values)},
    _found = _known.replay(_given)
    return _asked(_given) if _found is None else _found
"""
        scope = {"_dtype_of_torch": dtype_of_torch, "_CONFIGS": CONFIGS, "_CAUSAL": CAUSAL}
        scope |= {"_padding_of": _padding_of}
        scope |= {"_known": self.ours.known, "_asked": self.ours.asked}
        exec(compile(text, f"<torch.ops.cute_py.{self.ours.short}>", "exec"), scope)
        return scope["given"], scope["computed"]

    # -- registration

    def define(
        self,
        computed: Callable[..., Any] | None = None,
        gradient: Gradient | None = None,
        vmap: Callable[..., Any] | None = None,
        autocast: Callable[..., Any] | None = None,
    ) -> None:
        """Register the operator, with rules of its own or by its declaration."""
        run, problem = computed or self.computed, self.ours.problem
        if gradient is None and problem.gradient is not None:
            count = len(self.ours.outputs)
            gradient = Gradient(self._forward, self._backward, keeps=True, results=count)
        rules = {"lower": cast, "f32": _widened, None: lambda args, _dtype: args}
        schema, results = f"cute_py::{self.ours.short}", len(self.ours.outputs)
        result = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
        self.op = define(
            f"{schema}({self.numbers}) -> {result}",
            run,
            self.described,
            gradient=gradient,
            vmap=vmap or self._vmapped,
            autocast=autocast or rules[problem.autocast],
        )
        outs = ", ".join([f"Tensor(a{i}!) {x}" for i, x in enumerate(self.ours.outputs)])
        # torch.compile has it back as a pure function
        self.into = define(
            f"{schema}.out({self.numbers}, *, {outs}) -> ()",
            lambda *args, **named: void(run(*args, **named)),
            lambda *args, **named: void(self.described(*args, **named)),
            autocast=lambda args, _dtype: args,  # as torch.mm
        )
        DECLARED[self.ours.short] = self
        OPERATORS[self.ours.short] = self.by_operator, self.in_graph

    def described(self, *args: Any, **named: Any) -> Any:
        """Return the empty result, for tensors without memory."""
        return described(self.ours, self.ours.request(*self.given(*args, **named)))

    def call(self, args: list[Any], given: Any) -> Any:
        """Return the result of the operator, or of the one of `out=`."""
        outs = {x: getattr(given, x) for x in self.ours.outputs}
        if all(x is None for x in outs.values()):
            return self.op(*args)
        self.into(*args, **outs)
        return next(iter(outs.values())) if len(outs) == 1 else tuple(outs.values())

    # -- calls of `cute.ops`

    def by_operator(self, given: Any) -> Any:
        """Return the result of a request with an operand that autograd follows, or in a mode."""
        self.ours.require_known(given)
        typed = self._types(given)
        args = []
        for name in self.names:
            x = getattr(given, name)
            if name in self.arrays:
                args.append(self._tensor(x, name))
            elif name in self.ours.numbers:
                is_symbol = isinstance(x, (torch.SymInt, torch.SymFloat))  # of export and make_fx
                args.append(x if is_symbol else self.ours.problem.number(name, x))
            else:
                if self.words[name].is_misread(x):
                    described(self.ours, given)
                args.append(self.words[name].theirs(typed if name == "dtype" and typed else x))
        try:
            return self.call(args, given)
        except (RuntimeError, TypeError) as error:
            if not isinstance(error, CuteError):  # a value that the schema has no type for
                described(self.ours, given)
            raise

    def _types(self, given: Any) -> Dtype | None:
        """Return the type that arrays are read as which hold another; refuse that where an operator
        has no parameter for it.
        """
        if getattr(given, "dtype", None) is not None:
            return None
        held = [x for name in self.arrays if isinstance(x := getattr(given, name), TypedArray)]
        if not held:
            return None
        kinds = [dtype_of(getattr(given, name)) for name in self.needed]
        if "dtype" not in self.names:
            value = f"elements read as {held[0].dtype}"
            facts = {"name": self.needed[0], "value": value}
            raise refusal("ops-array", operation=self.ours.name, **facts)
        if any(kind is not kinds[0] for kind in kinds):
            known = ", ".join(self.ours.problem.types)
            a, b = kinds
            raise refusal("ops-dtype", operation=self.ours.name, a=a, b=b, known=known)
        return kinds[0]

    def _tensor(self, x: Any, name: str) -> Any:
        """Return an operand as a tensor."""
        x = unwrapped(x)
        if x is None or isinstance(x, torch.Tensor):
            return x
        with reading(x, name, self.ours.name):
            return torch.as_tensor(x)

    def in_graph(self, given: Any) -> Any:
        """Return the result of a request that torch.compile traces; None where no operator takes
        it.
        """
        args = []
        for name in self.ours.outputs:
            x = getattr(given, name)
            if x is not None and not isinstance(x, torch.Tensor):
                return None
        for name in self.names:
            x, word = getattr(given, name), self.words[name]
            if name in self.arrays:
                if not isinstance(x, torch.Tensor) and (x is not None or name in self.needed):
                    return None
                args.append(x)
            elif isinstance(x, torch.Tensor) or not word.may_be_traced(x):
                return None
            elif name == "checks":
                if x:
                    return None
                args.append("")
            else:
                args.append(word.theirs(x))
        return self.call(args, given)

    # -- rules by the declaration

    def _forward(self, ctx: Any, run: Callable[..., Any], *args: Any) -> Any:
        """Return the results; keep what the derivative reads."""
        request = self.ours.request(*self.given(*args))
        if not self.ours.problem.is_differentiable(request):
            raise refusal("torch-twice", operation=public(f"cute_py::{self.ours.short}"))
        result = run(*args)
        results = result if isinstance(result, tuple) else (result,)
        held = dict(zip((*self.names, *self.ours.outputs), (*args, *results), strict=True))
        ctx.save_for_backward(*[held[x] for x in self.ours.problem.keeping(request)])
        ctx.set_materialize_grads(False)
        ctx.types = {x: held[x].dtype for x in self.arrays if held[x] is not None}
        ctx.given = [x.shape if isinstance(x, torch.Tensor) else x for x in args]
        return results

    def _backward(self, ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        """Return the gradients of the arrays."""
        if all(g is None for g in gradients):
            return tuple([None] * len(self.names))
        request = self.ours.request(*self.given(*ctx.given))
        kept = dict(zip(self.ours.problem.keeping(request), ctx.saved_tensors, strict=True))
        derivative = self.ours.problem.gradient
        assert derivative is not None
        plain = [g if g is None else g.resolve_neg() for g in gradients]
        found = derivative(request, *plain, **kept)
        return tuple([found[x].to(ctx.types[x]) if x in found else None for x in self.names])

    def _vmapped(self, info: Any, dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
        """Return the results of a batch, whose mode is the first of each."""
        named = self.defaults | dict(zip(self.names, args, strict=False))
        for written, name in self.ours.problem.mutates.items():
            if named[name] is not None:
                facts: dict[str, Any] = {"name": name, "written": written}
                raise refusal(
                    "torch-vmap", operation=public(f"cute_py::{self.ours.short}"), **facts
                )
        places, ranks = dict(zip(self.names, dims, strict=False)), {}
        for name in self.arrays:
            x, place = named[name], places.get(name)
            if x is not None:
                moved = place is not None
                named[name] = x.movedim(place, 0) if moved else x.expand(info.batch_size, *x.shape)
                ranks[name] = named[name].dim() - 1
        if not self.ours.problem.takes_more_modes:
            return self._looped(named, ranks, info.batch_size)
        self._require_one(named)
        named |= self.ours.problem.batched(named, ranks)
        result = self.op(*[named[x] for x in self.names])
        return result, 0 if isinstance(result, torch.Tensor) else (0,) * len(result)

    def _looped(self, named: dict[str, Any], arrays: Iterable[str], count: int) -> tuple[Any, Any]:
        """Return the results of a batch whose elements are computed one after the other."""
        found = []
        for i in range(count):
            one = named | {x: named[x][i].contiguous() for x in arrays}
            result = self.op(*[one[x] for x in self.names])
            found.append(result if isinstance(result, tuple) else (result,))
        results = tuple([torch.stack(x) for x in zip(*found, strict=True)])
        return (results[0], 0) if len(results) == 1 else (results, (0,) * len(results))

    def _require_one(self, named: dict[str, Any]) -> None:
        """Refuse what an element of a batch is refused for, whose modes are not the batch's."""
        made = dict(named)
        for name in self.arrays:
            if (x := named[name]) is not None:
                made[name] = x.new_empty(()).expand(x.shape[1:])
        request = self.ours.request(*self.given(*[made[x] for x in self.names]))
        described(self.ours, request._replace(**{"config": None} if "config" in made else {}))


def void(_result: object) -> None:
    """Return nothing."""


def _widened(args: tuple[Any, ...], _dtype: Any) -> tuple[Any, ...]:
    """Return arguments with 16-bit floats of a GPU as f32, as torch.softmax and torch.sum treat
    theirs; autocast on the CPU leaves them.
    """
    return tuple([x.float() if isinstance(x, torch.Tensor) and _is_low(x) else x for x in args])


def _is_low(x: Any) -> bool:
    return bool(x.is_cuda and x.dtype in (torch.float16, torch.bfloat16))


def declare_all() -> None:
    """Register the operators that have no rules of torch of their own."""
    for found in operators().values():
        for ours in (found, *(found.variants.others if found.variants else ())):
            if ours.short not in DECLARED:
                Declared(ours).define()
