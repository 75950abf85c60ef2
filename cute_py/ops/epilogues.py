"""Products whose epilogue is a function: `gemm(a, b, epilogue=function, bias=bias, ...)`.

Each function gets an operator of its own, whose arrays, numbers and outputs are the function's
parameters and results. So known calls, refusals, rules of torch and `explain` are those of every
operator. Its gradient is a product too: one kernel computes the sums again, and from them the
gradients of all that the function reads.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from inspect import Parameter, Signature, signature
from keyword import iskeyword
from math import prod
from textwrap import indent
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from cute_py.calls.arrays import dtype_of
from cute_py.calls.fingerprint.dependencies import Dependencies
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.dtypes.table import f32, f64, s32
from cute_py.epilogues import linear_combination
from cute_py.errors import CuteError, refusal
from cute_py.kernels.config import GemmConfig
from cute_py.kernels.epilogue import EpilogueFunction, PairedFunction, kernel_with
from cute_py.ops.call import overlap
from cute_py.ops.combination import OUT, are_whole, compute_type
from cute_py.ops.operands import broadcast
from cute_py.ops.operator import Operator, Variants
from cute_py.ops.product import GEMM, Product
from cute_py.ops.reductions import reduce
from cute_py.ops.wrapping import require_alike
from cute_py.plan.formula import CONVERT, Formula
from cute_py.plan.functions import FUNCTIONS
from cute_py.plan.pairs import (
    ANY,
    PAIRED,
    WHOLE,
    MixedError,
    gradients,
    has_pairs,
    is_wide,
    split,
)
from cute_py.records import Text
from cute_py.trace.formulas import formula

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cute_py.calls.memo import Answer
    from cute_py.dtypes.table import Dtype
    from cute_py.trace.kernel import Kernel

OPTIONAL = ("c", "alpha", "beta", "bias", "activation")  # those of gemm that a function may have
KEPT = ("deterministic", "stream", "workspace")  # for arguments that gemm may have
TAKEN = (*[x for x in GEMM.parameters if x not in OPTIONAL], "epilogue", "D", *KEPT)
OWN = tuple(GEMM.parameters)  # a, b, those of `OPTIONAL`, and others
BACKEND, CHECKS = OWN.index("backend"), OWN.index("checks")
MODES = {0: -2, 1: -1, None: (-2, -1)}  # of `cute.reduce`, as `reduce` counts them
FIRST, LAST = OWN.index("c"), OWN.index("activation") + 1  # where those are
INSIDE = ("A", "B", "blocks", "band")  # parameters of kernels
CODE = FunctionType, BuiltinFunctionType, ModuleType, type
KINDS = (f32, f64, s32)  # in which an epilogue may compute
# the columns of a product that an element of an array stands for
COLUMNS: dict[str | None, int] = {
    "matrix": WHOLE,
    "row": WHOLE,
    "matrix of pairs": PAIRED,
    "row of pairs": PAIRED,
}


class FusedProduct(Product):
    """The arrays of a request as the kernel reads them.

    Attributes:
        formulas: the function by the type in which it computes; None, and the refusal, where it is
            none of that type.
        reads, numbers: the names of what it reads: arrays, and numbers.
        more: the names of its results after D.
        combined: those of which all elements are combined next; they have the type of the steps.
        ways: how, as `Function.combined` has it.
        pairs: whether the function combines neighbouring columns.
        wide: for each result whether it has N columns, not N / 2.
    """

    combined: ClassVar[tuple[str, ...]]
    ways: ClassVar[tuple[tuple[str, str, Any], ...]]
    formulas: ClassVar[dict[Dtype, Formula | CuteError]]
    reads: ClassVar[tuple[str, ...]]
    numbers: ClassVar[tuple[str, ...]]
    more: ClassVar[tuple[str, ...]]
    pairs: ClassVar[bool]
    hint = "; it is spread over the result as NumPy does: (M,N), (N), (M,1) or ()"

    def _read_epilogue(self, shape: tuple[int, ...], kind: Dtype) -> None:
        """Read what the function reads, and say in which type it computes, and what it gives."""
        request, found = self.request, {}
        if self.pairs and shape[-1] % 2:
            raise _refused_pairs(self.operation, f"{shape[-1]} columns")
        for name in self.reads:
            x, own = self.library.read(getattr(request, name), name)
            found[name] = x, own, self._spread(name, tuple(x.shape), shape)
        self.factors = {x: self.number(x, getattr(request, x)) for x in self.numbers}
        self.spreads = tuple([spread for _x, _own, spread in found.values()])
        self.wide = self._wide()
        half = (*shape[:-1], shape[-1] // 2)
        for name, wide in zip(("out", *self.more), self.wide, strict=True):
            given = None if name == "out" else getattr(request, name)
            own = kind if given is None else self._type_of(name, given)
            self.results[name] = shape if wide else half, own
        self.compute = self._computed_in([own for _x, own, _spread in found.values()])
        if self.compute == s32:
            kinds = {name: own for name, (_x, own, _spread) in found.items()}
            combined = [(name, fn) for name, fn, _of in self.ways]
            require_alike(self.operation, self.formula(s32), kinds, combined)
        for name in self.combined:
            self.results[name] = self.results[name][0], self.compute
        self.terms = {name: self._known(x, own) for name, (x, own, _spread) in found.items()}
        for name in self.results:
            self.require_out(name)
        self._require_apart()

    def _type_of(self, name: str, x: Any) -> Dtype:
        with_type = getattr(x, "dtype", None)
        if with_type is None:
            raise refusal("ops-array", operation=self.operation, name=name, value=type(x).__name__)
        return dtype_of(x)

    def _spread(self, name: str, given: tuple[int, ...], shape: tuple[int, ...]) -> str:
        """Return how an array is spread over the result; refuse one that cannot be."""
        found = spread_of(given, shape, self.pairs)
        if found is None:
            raise self.wrong_shape(name, given, shape)
        return found

    def _wide(self) -> tuple[bool, ...]:
        """Return which results have N columns; refuse values of N that meet others of N / 2."""
        if not self.pairs:
            return (True,) * (1 + len(self.more))
        try:
            function = next(x for x in self.formulas.values() if isinstance(x, Formula))
            return is_wide(function, self.columns(self.spreads))
        except MixedError as error:
            raise _mixed(self.operation, error) from None

    @classmethod
    def columns(cls, spreads: Sequence[str | None]) -> list[int]:
        """Return the columns that each input of the function stands for, as `plan.pairs` does."""
        return [WHOLE, *[COLUMNS.get(x, ANY) for x in spreads], *[ANY for _x in cls.numbers]]

    def _computed_in(self, kinds: list[Dtype]) -> Dtype:
        """Return the type in which the function computes."""
        kinds = [*kinds, *[kind for _shape, kind in self.results.values()]]
        if f64 in (self.kinds[0], *kinds):
            return f64
        integers = not any(x.is_float for x in kinds)
        found = compute_type(self.kinds[0], tuple(self.factors.values()), None, integers)
        return found if isinstance(self.formulas.get(found), Formula) else f32

    def _require_apart(self) -> None:
        """Refuse outputs that share memory with each other."""
        given = [(x, y) for x in self.results if (y := getattr(self.request, x)) is not None]
        for i, (name, x) in enumerate(given):
            for other, y in given[:i]:
                if overlap(x, y):
                    raise refusal(
                        "epilogue-overlap", operation=self.operation, name=name, other=other
                    )

    @classmethod
    def _outputs_combined(cls, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays that are given for results which are combined over elements."""
        return {x: named[x] for x in cls.combined if named.get(x) is not None}

    def require_whole(self, ours: Operator, request: Any, named: dict[str, Any]) -> None:
        """Refuse arrays among the arguments of a call for results that they cannot take."""
        outputs = self._outputs_combined(named)
        if outputs:
            _require_combined(ours, request, outputs)

    def whole(self, result: Any, named: dict[str, Any]) -> Any:
        """Return the results of a call of `gemm` with these arguments, by what a kernel gave."""
        if not self.more:
            return result
        found = dict(zip(("D", *self.more), result, strict=True))
        outputs, request = self._outputs_combined(named), self.request
        return with_combined(found, self.ways, outputs, request.backend, request.checks)

    def require_combined(self, outputs: dict[str, Any]) -> None:
        """Refuse arrays for results that are combined over elements which cannot take them: before
        anything is computed.
        """
        modes = {name: (fn, of) for name, fn, of in self.ways}
        for name, x in outputs.items():
            shape, (fn, of), kind = self.results[name][0], modes[name], self._type_of(name, x)
            if self.compute.is_float and fn in ("add", "mul") and not kind.is_float:
                known = ", ".join(x for x in OUT if as_dtype(x).is_float)
                facts: dict[str, Any] = {"name": name, "dtype": kind, "known": known}
                raise refusal("ops-out-dtype", operation=self.operation, **facts)
            places = of if of.__class__ is tuple else (of,)
            kept = [n for i, n in enumerate(shape) if i - len(shape) not in places]
            self.results[name] = tuple(kept), kind
        self.request = self.request._replace(**outputs)
        for name in outputs:
            self.require_out(name)
        self._require_apart()

    def as_read(self, x: Any, spread: str) -> Any:
        """Return a matrix as [L, M, N]; else the elements, as [n], or as [L, n] of a batch."""
        if spread.startswith("matrix"):
            return super().as_read(x, "matrix")
        n = 1 if spread == "one" else x.shape[-2 if spread == "column" else -1]
        if prod(x.shape[:-2]) == 1:
            return super().as_read(x.reshape((n,)), spread)
        x = self.library.spread(x.reshape((*x.shape[:-2], n)), (*self.batch, n))
        return self.library.contiguous(x.reshape((prod(self.batch), n)))

    # -- how it is computed

    @classmethod
    def formula(cls, kind: Dtype) -> Formula:
        """Return the function in a type."""
        found = cls.formulas[kind]
        if isinstance(found, CuteError):
            raise found
        return found

    def epilogue(self) -> EpilogueFunction:
        """Return the epilogue."""
        function = self.formula(self.compute)
        if not self.pairs:
            return EpilogueFunction(function, self.spreads)
        pairs = split(function, self.columns(self.spreads))
        return PairedFunction(pairs, self.spreads, self.wide)

    @property
    def source(self) -> Any:
        """The first matrix that the epilogue reads; None also where it combines columns."""
        return None if self.pairs else super().source

    def kernel(self, of_family: Kernel) -> Kernel:
        """Return the kernel of a family, with the arrays, outputs and numbers of the function."""
        names = [
            tuple([f"{x}_" if x.rstrip("_") in INSIDE else x for x in some])
            for some in (self.reads, ("D", *self.more), self.numbers)
        ]
        found: Kernel = kernel_with(of_family, *names)
        return found

    def in_places(self, arrays: list[Any]) -> list[Any]:
        """Return the arrays in the places that they have in a request: all are there."""
        return arrays

    def guarded(self, answer: Answer) -> Answer:
        """Return an answer that checks whether numbers are whole, where that decides the type."""
        count = len(self.numbers)
        if self.kinds[0].is_float or not count:
            return answer
        whole = are_whole(tuple(self.factors.values()))
        return lambda args, values: (
            answer(args, values) if are_whole(values[-count:]) is whole else None
        )

    def explained(self) -> Text:
        """Return how the product is computed, and the function with its price."""
        last = self.epilogue()
        head = f"epilogue, about {last.price} instructions an element:"
        lines = "\n".join([f"  {line}" for line in str(self.formula(self.compute)).splitlines()])
        return Text(f"{super().explained()}\n{head}\n{lines}")

    def values(self, a: Any, b: Any, terms: dict[str, Any], factors: dict[str, float]) -> Any:
        """Return the first result for operands and terms of float64, by NumPy."""
        return self.all_values(a @ b, terms, factors)[0]

    def all_values(
        self, sums: Any, terms: Mapping[str, Any], factors: Mapping[str, float]
    ) -> tuple[Any, ...]:
        """Return all results for arrays of float64 that fit each other."""
        found = self.formula(f64 if isinstance(self.formulas[f64], Formula) else f32)
        given = [sums, *[terms[x] for x in self.reads], *[factors[x] for x in self.numbers]]
        return by_numpy(found, self.columns(self.spreads), given)

    # -- rules of torch

    @staticmethod
    def batched(named: dict[str, Any], ranks: dict[str, int]) -> dict[str, Any]:
        """Return arrays of a batch with two modes at least next to it."""
        found = {}
        for name, rank in ranks.items():
            if rank < 2:
                x = named[name]
                found[name] = x.reshape((x.shape[0], *[1] * (2 - rank), *x.shape[1:]))
        return found


def spread_of(given: tuple[int, ...], shape: tuple[int, ...], pairs: bool) -> str | None:
    """Return how an array is spread over a result of a shape, or with `pairs` over one of half as
    many columns, as NumPy does; None where it cannot be.
    """
    forms = [shape, (*shape[:-1], shape[-1] // 2)][: 1 + pairs]
    for form, of_pairs in zip(forms, ("", " of pairs"), strict=False):
        with suppress(ValueError):
            if broadcast(given, form) == form:
                m, n = (1, 1, *given)[-2:]
                if m == 1 and n == 1:
                    return "one"
                return ("row" if m == 1 else "column" if n == 1 else "matrix") + of_pairs
    return None


def by_numpy(formula: Formula, columns: Sequence[int], given: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of an epilogue by NumPy, each of all its elements.

    Args:
        formula: the function.
        columns: those that each input stands for, as `plan.pairs` has it.
        given: the sums, and the other inputs: arrays and numbers of float64.

    """
    *batch, m, n = np.shape(given[0])
    if not has_pairs(formula):
        found = formula.replay(_by_numpy, *given)
        several = found if found.__class__ is tuple else (found,)
        return tuple([np.broadcast_to(x, (*batch, m, n)) for x in several])
    inputs: list[Any] = []
    for x, kind in zip(given, columns, strict=True):
        inputs += [x[..., ::2], x[..., 1::2]] if kind == WHOLE else [x]
    found = split(formula, columns).replay(_by_numpy, *inputs)
    several = found if found.__class__ is tuple else (found,)
    values = iter([np.broadcast_to(x, (*batch, m, n // 2)) for x in several])
    return tuple(
        [
            np.stack([next(values), next(values)], -1).reshape((*batch, m, n))
            if wide
            else next(values)
            for wide in is_wide(formula, columns)
        ]
    )


def _by_numpy(fn: str, _dtype: Dtype, *values: Any) -> Any:
    if fn == CONVERT:
        return values[0]
    model = FUNCTIONS[fn].model
    if not any(isinstance(x, np.ndarray) for x in values):
        return model(*values)
    kind = bool if FUNCTIONS[fn].compares else np.float64
    return np.vectorize(model, otypes=[kind])(*values)


# -- operators

MOST = 1024  # functions and operators that are kept; when there are more, all are forgotten
_functions: dict[Any, Function] = {}
_operators: dict[Any, Operator] = {}


class Function:
    """An epilogue, traced.

    Attributes:
        first: the name of its first parameter, the sums.
        names: those of its other parameters; `needed` of those without default.
        more: the names of its results after D.
        combined: those that are combined over elements: name, function, modes.
        unchanged: tells whether all that it depends on is as it was.
        depends_on_code: whether that is functions, classes and modules alone.
        forms: its operators by what they are given, and which of it are numbers.
        plans: how known calls are made, by the names and types of what they are given.
    """

    def __init__(self, function: Any) -> None:
        """Read the parameters, and trace the function in f32."""
        self.function: Any = function
        self.forms: dict[Any, Operator] = {}
        self.plans: dict[Any, Plan] = {}
        self.unchanged: Callable[[], bool] = lambda: True
        self.combined: tuple[tuple[str, str, Any], ...] = ()
        self.more: tuple[str, ...] = ()
        if isinstance(function, Formula):
            self.first, *names = function.inputs
            self.names = self.needed = tuple(names)
            self.more, self.depends_on_code = function.outputs[1:], True
            return
        self.depends_on_code, self.unchanged = False, bool
        if type(function) is FunctionType:  # others are read anew in each call
            seen = Dependencies(function).snapshot()
            values = [*[x for _get, _name, x in seen.items], *[x for _of, _at, x in seen.looked]]
            self.depends_on_code = seen.complete and all(isinstance(x, CODE) for x in values)
            self.unchanged = seen.checker() if seen.stable and seen.complete else bool
        self._read_parameters(function)
        self._read_results(function)

    def _read_parameters(self, function: Any) -> None:
        """Read the parameters; refuse those that are none of a product."""
        try:
            parameters = list(signature(function).parameters.values())
        except ValueError:  # of NumPy's functions, say
            raise _refused("epilogue-parameters", function) from None
        kinds = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
        named = {Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
        plain = parameters and parameters[0].kind in kinds
        if not plain or any(x.kind not in named for x in parameters[1:]):
            raise _refused("epilogue-parameters", function)
        self.first, self.names = parameters[0].name, tuple([x.name for x in parameters[1:]])
        self.needed = tuple([x.name for x in parameters[1:] if x.default is x.empty])
        for x in parameters[1:]:
            self._require_name(x.name, TAKEN, "gemm has or keeps an argument of that name")
            if x.name in USUAL and x.default not in (x.empty, USUAL[x.name]):
                why = f"gemm has a default of its own for it, {USUAL[x.name]}"
                raise _refused("epilogue-name", function, name=x.name, why=why)

    def _read_results(self, function: Any) -> None:
        """Read the results; refuse names that are none of a product."""
        first = _first(function, (self.first, *self.needed))
        results = first.outputs
        self.combined = tuple([(name, fn, MODES[mode]) for name, fn, mode in first.reductions])
        if any(x[0] == "D" for x in self.combined) or (results and "D" not in results):
            raise _refused("epilogue-results", function, names=", ".join(map(str, results)))
        self.more = tuple([x for x in results if x != "D"])
        for name in self.more:
            why = "gemm or the function has a parameter of that name"
            self._require_name(name, (*TAKEN, *self.names), why)

    def _require_name(self, name: Any, taken: tuple[str, ...], why: str) -> None:
        """Refuse the name of a parameter or a result that is taken, or no plain name."""
        plain = isinstance(name, str) and name.isidentifier() and name.isascii()
        if not plain or name.startswith("_") or iskeyword(name):
            why = "names are ASCII letters, digits and _, a letter first"
        elif name not in taken:
            return
        raise _refused("epilogue-name", self.function, name=name, why=why)

    def traced(self, kind: Dtype, reads: tuple[str, ...]) -> Formula:
        """Return the function in a type, with D as its first result."""
        if isinstance(self.function, Formula):
            return self.function
        found = formula(self.function, kind, (self.first, *reads))
        if not found.outputs:
            return found
        by_name = dict(zip(found.outputs, found.results, strict=True))
        names = ("D", *self.more)
        results = tuple([by_name[x] for x in names])
        return Formula(found.inputs, found.dtype, found.steps, results, names)

    def operator(self, arrays: tuple[str, ...], numbers: tuple[str, ...]) -> Operator:
        """Return the operator, for parameters that are arrays and numbers; others have their
        defaults.
        """
        formulas: dict[Dtype, Any] = {}
        for kind in KINDS:
            try:
                formulas[kind] = self.traced(kind, (*arrays, *numbers))
            except CuteError as error:
                formulas[kind] = error
        if not any(isinstance(x, Formula) for x in formulas.values()):
            raise formulas[f32]
        return _operator(formulas, arrays, numbers, self.more, self.combined)


def _first(function: Any, inputs: tuple[str, ...]) -> Formula:
    """Return a function as a formula in f32, or in s32 if it computes with integers alone."""
    try:
        return formula(function, f32, inputs)
    except CuteError as error:
        try:
            return formula(function, s32, inputs)
        except CuteError:
            raise error from None


def _mixed(operation: str, error: MixedError) -> CuteError:
    return _refused_pairs(operation, f"values of N and of N/2 columns in `{error}`")


def _refused_pairs(operation: str, given: str) -> CuteError:
    return refusal("epilogue-pairs", operation=operation, given=given)


def _refused(code: str, function: Any, **facts: Any) -> CuteError:
    name = getattr(function, "__name__", type(function).__name__)
    return refusal(code, operation=GEMM.name, function=name, **facts)


def _operator(
    formulas: dict[Dtype, Any],
    arrays: tuple[str, ...],
    numbers: tuple[str, ...],
    more: tuple[str, ...],
    ways: tuple[tuple[str, str, Any], ...],
) -> Operator:
    """Return the operator of an epilogue; equal ones have the same."""
    texts = [x.named for x in formulas.values() if isinstance(x, Formula)]
    key = "\n".join([*texts, repr((arrays, numbers, more, ways))])
    if key in _operators:
        return _operators[key]
    if len(_operators) >= MOST:
        _operators.clear()
    short = f"gemm_{sha256(key.encode()).hexdigest()[:12]}"
    facts: dict[str, Any] = {
        "formulas": formulas,
        "reads": arrays,
        "numbers": numbers,
        "more": more,
    }
    facts |= {"ways": ways, "combined": tuple([x[0] for x in ways])}
    facts |= {"pairs": any(isinstance(x, Formula) and has_pairs(x) for x in formulas.values())}
    problem: Any = type("FusedProduct", (FusedProduct,), {**facts, "__module__": __name__})
    made = FunctionType(_template.__code__, globals(), short)
    made.__doc__ = _template.__doc__
    made.__signature__ = _signature(arrays, numbers, more)  # type: ignore[attr-defined]
    outputs = ("out", *more)
    found = _operators[key] = Operator(
        made,
        problem,
        ("a", "b", *arrays, *outputs),
        dict.fromkeys(numbers, 1.0),
        {},
        GemmConfig,
        GEMM.words,
        name=GEMM.name,
        outputs=outputs,
    )
    return found


def _signature(
    arrays: tuple[str, ...], numbers: tuple[str, ...], more: tuple[str, ...]
) -> Signature:
    """Return the signature of the operator of an epilogue."""
    either = Parameter.POSITIONAL_OR_KEYWORD
    own = [Parameter(x, either, annotation="Any") for x in arrays]
    own += [Parameter(x, either, annotation="float") for x in numbers]
    a, b, *rest = [x for name, x in GEMM.parameters.items() if name not in OPTIONAL]
    rest = [x.replace(kind=either) for x in rest]
    outputs = [Parameter(x, either, default=None, annotation="Any") for x in more]
    return Signature([a, b, *own, *rest, *outputs])


def _template() -> Any:
    """Return f(a @ b, ...), where f is the function of an epilogue; see `cute.ops.gemm`."""


# -- requests


USUAL = {name: GEMM.parameters[name].default for name in GEMM.numbers}
NUMBERS = int, float, np.number, np.bool_
BETAS = "beta_ptr_array", "beta_ptr"  # of `linear_combination`, the first goes before the others


def bound(function: Any, terms: dict[str, Any], named: dict[str, Any]) -> tuple[Operator, Any]:
    """Return the operator for an epilogue, and the arguments that it gets.

    Args:
        function: the epilogue.
        terms: the arguments that `gemm` does not have itself.
        named: those that it has.

    """
    named = without_source(function, terms, named)
    form, given, rest = arguments_of(parameters_of(function), terms, named)
    combined = [x[0] for x in combined_of(function)]  # whose outputs are not the product's
    return operator_for(function, form), rest | {
        x: y for x, y in given.items() if x not in combined
    }


class Plan(NamedTuple):
    """How a call is made.

    Attributes:
        public: the function of the operator.
        names: what it takes after a and b.
        more: its outputs after D.
        own: which of `OPTIONAL` it takes, each with its place in a call.
        usual: numbers of `OPTIONAL` that it does not take, which have their defaults: (place in a
            call, default).
        combined: as `Function` has it.
    """

    public: Callable[..., Any]
    names: tuple[str, ...]
    more: tuple[str, ...]
    own: tuple[tuple[str, int], ...]
    usual: tuple[tuple[int, float], ...]
    combined: tuple[tuple[str, str, Any], ...]


def call(function: Any, terms: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """Return the result of `gemm` with an epilogue: D, or all results by name.

    Args:
        function: the epilogue.
        terms: the arguments that `gemm` does not have itself.
        given: those that it has, in the order of `OWN`.

    """
    if function is linear_combination:
        named = without_source(function, terms, dict(zip(OWN, given, strict=True)))
        given = tuple(named.values())
    known = _known(function)
    key = (*terms, *map(type, terms.values()), *map(type, given[FIRST:LAST]))
    plan = known.plans.get(key)
    if plan is None:
        plan = known.plans[key] = _planned(function, known, terms, given)
    public, names, more, own, usual, combined = plan
    for i, number in usual:
        if given[i] != number:
            raise _refused("epilogue-name", function, name=OWN[i], why="the function has none")
    held = terms
    if own:
        held = terms.copy()
        for x, i in own:
            held[x] = given[i]
    values = [held[x] for x in names]
    if not more:
        return public(*given[:FIRST], *values, *given[LAST:])
    hidden = [x[0] for x in combined]
    outputs = [None if x in hidden else held.get(x) for x in more]
    arguments = (*given[:FIRST], *values, *given[LAST:], *outputs)
    wanted = {x: held[x] for x in hidden if held.get(x) is not None}
    if wanted:
        ours: Operator = public.operator  # type: ignore[attr-defined]
        _require_combined(ours, ours.bound(*arguments), wanted)
    result = public(*arguments)
    found = dict(zip(("D", *more), result, strict=True))
    if not combined:
        return found
    return with_combined(found, combined, wanted, given[BACKEND], given[CHECKS])


def _require_combined(ours: Operator, request: Any, outputs: dict[str, Any]) -> None:
    """Refuse arrays for results that are combined over elements which cannot take them."""
    for name, x in outputs.items():
        if not hasattr(x, "dtype") or not hasattr(x, "shape"):
            value = type(x).__name__
            raise refusal("ops-array", operation=ours.name, name=name, value=value)
    request, library = ours.taken(request._replace(**outputs))
    own = {x: getattr(request, x) for x in outputs}
    with library.inside():
        problem: Any = ours.problem(request._replace(**dict.fromkeys(outputs)), library)
        problem.require_combined(own)


def with_combined(
    found: dict[str, Any],
    combined: Any,
    outputs: dict[str, Any],
    backend: str,
    checks: bool | str = False,
) -> dict[str, Any]:
    """Return results by name, some with their elements combined, in the arrays that are given."""
    for name, fn, modes in combined:
        out = outputs.get(name)
        kind = None if out is None else dtype_of(out)
        how: dict[str, Any] = {"out_dtype": kind, "out": out, "backend": backend, "checks": checks}
        found[name] = reduce(found[name], fn, modes, **how)
    return found


def _planned(function: Any, known: Function, terms: dict[str, Any], given: tuple[Any, ...]) -> Plan:
    """Return how calls like this one are made."""
    named = dict(zip(OWN, given, strict=True))
    ours, arguments = bound(function, terms, named)
    problem: Any = ours.problem
    own = tuple([(x, OWN.index(x)) for x in OPTIONAL if x in arguments])
    usual = [(OWN.index(x), y) for x, y in USUAL.items() if x not in arguments]
    names = (*problem.reads, *problem.numbers)
    return Plan(ours.public, names, problem.more, own, tuple(usual), known.combined)


def without_source(function: Any, terms: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that `gemm` has itself, without c where `linear_combination` leaves it
    unread: beta is the number 0. Refuse another beta without c.
    """
    if function is not linear_combination:
        return named
    beta = next((x for n in BETAS if (x := terms.get(n)) is not None), named["beta"])
    if isinstance(beta, NUMBERS) and beta == 0:
        return named | {"c": None}
    if named["c"] is None:
        said = beta if isinstance(beta, NUMBERS) else "an array"
        raise refusal("ops-no-c", operation=GEMM.name, beta=said)
    return named


def arguments_of(
    own: tuple[str, ...], terms: dict[str, Any], named: dict[str, Any]
) -> tuple[tuple[tuple[str, bool], ...], dict[str, Any], dict[str, Any]]:
    """Return the form of a call, as `operator_for` has it, what the function gets, and the rest;
    `own`: the names of its parameters.
    """
    given = {name: x for name, x in terms.items() if x is not None}
    rest = {name: x for name, x in named.items() if name not in OPTIONAL}
    for name in OPTIONAL:
        x = named[name]
        is_usual = x is None or (isinstance(x, NUMBERS) and x == USUAL.get(name))
        if x is not None and (name in own or not is_usual):
            given[name] = x
    return tuple([(name, isinstance(x, NUMBERS)) for name, x in given.items()]), given, rest


def parameters_of(function: Any) -> tuple[str, ...]:
    """Return the names of the parameters of an epilogue, after the first."""
    return _known(function).names


def operator_for(function: Any, form: tuple[tuple[str, bool], ...]) -> Operator:
    """Return the operator for an epilogue that is given what has these names; True: a number."""
    known = _known(function)
    found = known.forms.get(form)
    if found is None:
        found = known.forms[form] = _checked(known, form)
    return found


def depends_on_code(function: Any) -> bool:
    """Return whether an epilogue depends on code alone: on no numbers of globals or closures, whose
    changes a graph would not notice.
    """
    return _known(function).depends_on_code


def combined_of(function: Any) -> tuple[tuple[str, str, Any], ...]:
    """Return the results of an epilogue that are combined over elements: name, function, modes."""
    return _known(function).combined


def described(function: Any, given: tuple[str, ...] = ()) -> Text:
    """Return what an epilogue computes, as text: its steps, their price, and its gradients.

    Args:
        function: the epilogue.
        given: the parameters with defaults that it is given.

    """
    known = _known(function)
    for name in given:
        if name not in known.names:
            raise _refused("epilogue-name", function, name=name, why="it has no such parameter")
    reads = [x for x in known.names if x in (*known.needed, *USUAL, *given)]
    found, columns = _first(function, (known.first, *reads)), [WHOLE, *[ANY for _x in reads]]
    try:
        price = (split(found, columns).price + 1) // 2 if has_pairs(found) else found.price
    except MixedError as error:
        raise _mixed(GEMM.name, error) from None
    name = getattr(function, "__name__", "function")
    parts = [(f"{name}, about {price} instructions an element", str(found))]
    over = {-2: "rows", -1: "columns", (-2, -1): "rows and columns"}
    combined = [f"{x}: {fn} over {over[of]}" for x, fn, of in known.combined]
    if combined:
        parts.append(("combined by a second kernel", "\n".join(combined)))
    if found.dtype.is_float:
        wanted, used = range(1 + len(reads)), [True] * len(found.results)
        made = gradients(found, columns, wanted, used)
        outputs = tuple([f"of_{x}" for x in found.inputs])
        made = made.reordered(made.inputs, range(len(made.inputs)), outputs)
        parts.append(("gradients", str(made)))
    return Text("\n".join([f"{head}:\n{indent(text, '  ')}" for head, text in parts]))


# `torch.compile` calls these where it traces
combined_of._dynamo_marked_constant = True  # type: ignore[attr-defined]
parameters_of._dynamo_marked_constant = True  # type: ignore[attr-defined]
depends_on_code._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _checked(known: Function, form: tuple[tuple[str, bool], ...]) -> Operator:
    """Return the same; refuse names that the function has not, and some without an argument."""
    given, function = dict(form), known.function
    missing = [x for x in known.needed if x not in given]
    if missing:
        raise _refused("epilogue-missing", function, name=missing[0])
    for name in given:
        if name not in known.names and name not in known.more:
            why = "the function has no such parameter or result"
            raise _refused("epilogue-name", function, name=name, why=why)
    reads = [x for x in known.names if x in given]
    numbers = tuple([x for x in reads if given[x]])
    return known.operator(tuple([x for x in reads if not given[x]]), numbers)


def _known(function: Any) -> Function:
    key: Any = function
    if isinstance(function, Formula):
        key = function, function.inputs, function.outputs
    elif type(function) is not FunctionType:
        if not callable(function):
            raise _refused("epilogue-parameters", function)
        return Function(function)
    known = _functions.get(key)
    if known is None or not known.unchanged():
        if len(_functions) >= MOST:
            _functions.clear()
        known = _functions[key] = Function(function)
    return known


# the next calls come here at once
GEMM.variants = Variants("epilogue", "terms", bound, call)
