"""`Formula`: a function of registers as a graph, which is priced, differentiated and computed.

Its steps apply functions of `FUNCTIONS` to inputs, numbers and earlier steps; equal steps are one.
`replay` computes it with any rules: those that record ops in a kernel, Python's numbers, arrays.

A derivative follows from the `slopes` of the rows, forwards from the inputs, so a branch of `where`
that is not taken gives no NaN. Three forms have rules of their own. Two need the result alone:
`where(x < c, c, x)` and its like, whose derivative at the bound is 0; and 1 / (exp(u) + c), whose
derivative is -y (1 - c y) u'. These and rows like tanh leave derivatives that read no input. The
third is `where(x == 0, 0, x * y)`, which is the product of finite numbers, and has its derivative.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

from cute_py.dtypes.table import b1
from cute_py.plan.functions import FUNCTIONS
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeAlias

    from cute_py.dtypes.table import Dtype

    Rule: TypeAlias = Callable[..., Any]  # (fn, dtype, *values) -> the value

CONVERT = "to"  # the step that changes the type; its sources: a value, the rounding, saturate
FIRST, SECOND, JOIN = "first", "second", "join"  # steps of neighbouring columns; see `pairs`
PRICES = {CONVERT: 2, FIRST: 0, SECOND: 0, JOIN: 0}  # of steps that are no rows of `FUNCTIONS`
# comparisons that a bound does not pass, or passes, on the side of the result
LOOSE, TIGHT = {"lt": "le", "gt": "ge"}, {"le": "lt", "ge": "gt"}
RATES = {"exp": 1.0, "exp2": log(2)}
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


class Place(NamedTuple):
    """The value of a formula with this number: inputs come first, steps follow."""

    n: int


class Step(NamedTuple):
    """A value: fn of values and numbers, a row of `FUNCTIONS` or `to`, of type `dtype`."""

    fn: str
    dtype: Dtype
    sources: tuple[Any, ...]

    @property
    def reads(self) -> Iterator[Place]:
        """The values that it is computed from."""
        return (x for x in self.sources if x.__class__ is Place)


class Formula(Value):
    """A function of registers; equal functions have equal formulas.

    Attributes:
        inputs: their names.
        dtype: of the inputs.
        steps: what is computed, in an order in which that is possible.
        result: the value, or number, that it returns; or a tuple of several.
        outputs: the names of several.
        reductions: (name, function, mode) of results that are combined over all elements.
    """

    __slots__ = ("_facts", "dtype", "inputs", "outputs", "reductions", "result", "steps")
    __match_args__ = ("inputs", "dtype", "steps", "result")

    inputs: tuple[str, ...]
    dtype: Dtype
    steps: tuple[Step, ...]
    result: Any
    outputs: tuple[str, ...]
    reductions: tuple[tuple[str, str, int | None], ...]
    _facts: str

    def __init__(
        self,
        inputs: tuple[str, ...],
        dtype: Dtype,
        steps: tuple[Step, ...],
        result: Any,
        outputs: tuple[str, ...] = (),
        reductions: tuple[tuple[str, str, int | None], ...] = (),
    ) -> None:
        self.inputs, self.dtype, self.steps, self.result = inputs, dtype, steps, result
        self.outputs, self.reductions = outputs, reductions
        self._facts = self._shown(tuple([f"x{i}" for i in range(len(inputs))]))

    def _key(self) -> tuple[Any, ...]:
        return (self._facts,)  # which tells 0.0 from -0.0 and from 0; names are no facts

    @property
    def named(self) -> str:
        """The same facts, with the names: formulas with equal ones are equal in all."""
        return repr((self.inputs, self._facts))

    def __str__(self) -> str:
        return self._shown(self.inputs)

    def _shown(self, inputs: tuple[str, ...]) -> str:
        stem = "t"
        while any(x.startswith(stem) and x[len(stem) :].isdigit() for x in inputs):
            stem += "t"
        names = [*inputs, *[f"{stem}{i}" for i in range(len(self.steps))]]

        def shown(x: Any) -> str:
            return names[x.n] if x.__class__ is Place else repr(x)

        lines = [
            f"{name}: {step.dtype} = {step.fn}({', '.join(map(shown, step.sources))})"
            for name, step in zip(names[len(inputs) :], self.steps, strict=True)
        ]
        head = f"({', '.join(inputs)}): {self.dtype}"
        said = [f"{x}=" for x in self.outputs] or [""] * len(self.results)
        found = [f"{name}{shown(x)}" for name, x in zip(said, self.results, strict=True)]
        return "\n".join([head, *lines, f"return {', '.join(found)}"])

    @property
    def results(self) -> tuple[Any, ...]:
        """The values, or numbers, that it returns."""
        return self.result if self.result.__class__ is tuple else (self.result,)

    # -- facts

    @property
    def price(self) -> int:
        """About how many instructions it takes of a GPU's time; see `Function.price`."""
        return sum(PRICES[x.fn] if x.fn in PRICES else FUNCTIONS[x.fn].price for x in self.steps)

    @property
    def held(self) -> int:
        """The most values that are needed at once; conditions are predicates, and count 0."""
        return self.holds(len(self.inputs))

    def holds(self, count: int) -> int:
        """Return the same, without inputs but the first ones, of this number."""
        wide = [i < count for i in range(len(self.inputs))]
        wide += [x.dtype is not b1 for x in self.steps]
        last = {x.n: len(wide) for x in self.results if x.__class__ is Place}
        first = len(self.inputs)
        for i, step in reversed(tuple(enumerate(self.steps, first))):
            for x in step.reads:
                last.setdefault(x.n, i)
        counts = [sum(wide[n] and n <= i < last[n] for n in last) for i in range(len(wide))]
        return max(counts[first - 1 :], default=0)

    def reads(self, n: int) -> bool:
        """Tell whether a result depends on input n."""
        place = Place(n)
        return place in self.results or any(place in step.reads for step in self.steps)

    # -- values

    def replay(self, rule: Rule, *given: Any) -> Any:
        """Return the result for values of the inputs, each step by `rule(fn, dtype, *values)`. An
        input that is `Later` is made where it is first read.
        """
        values = list(given)

        def value(x: Any) -> Any:
            if x.__class__ is not Place:
                return x
            if values[x.n].__class__ is Later:
                values[x.n] = values[x.n].make()
            return values[x.n]

        for step in self.steps:
            values.append(rule(step.fn, step.dtype, *map(value, step.sources)))
        found = tuple(map(value, self.results))
        return found if self.result.__class__ is tuple else found[0]

    def number(self, *given: float) -> float:
        """Return the result for Python's numbers."""
        return float(self.replay(_number, *given))

    def derivative(self, n: int = 0) -> Formula:
        """Return the gradient of input n, whose inputs are those of this formula, the result, and
        its gradient. It reads the result alone where that is possible, else not the result.
        """
        found, count = _differentiated(self, n, of_result=True), len(self.inputs)
        enough = not any(map(found.reads, range(count)))
        return found if enough else _differentiated(self, n, of_result=False)

    def gradients(self, wanted: Sequence[int], used: Sequence[bool] | None = None) -> Formula:
        """Return the gradients of some inputs, whose inputs are those of this formula, then the
        gradient of each result; `used`: of which results there is one, if not of all.
        """
        first, results = len(self.inputs), self.results
        if used is not None:
            results = tuple([x for x, there in zip(results, used, strict=True) if there])
        names = tuple([f"gradient{j}" for j in range(len(results))])
        f = Builder((*self.inputs, *names), self.dtype)
        values = [f.input(i) for i in range(first)]
        found = []
        for n in wanted:
            total: Any = 0.0
            by_x = _changes(f, self, n, values)
            for j, x in enumerate(results):
                change = by_x.get(_bare(_value(values, x)), 0.0)
                total = f.add(total, f.mul(change, f.input(first + j)))
            found.append(_bare(total))
        return f.formula(tuple(found))

    def reordered(
        self, inputs: Sequence[str], order: Sequence[int], outputs: tuple[str, ...]
    ) -> Formula:
        """Return the same function with its inputs in another order, `order`, and other names."""
        moved = {Place(n): Place(i) for i, n in enumerate(order)}

        def at(x: Any) -> Any:
            return moved.get(x, x) if x.__class__ is Place else x

        steps = [x._replace(sources=tuple(map(at, x.sources))) for x in self.steps]
        results = tuple(map(at, self.results))
        return Formula(tuple(inputs), self.dtype, tuple(steps), results, outputs)


class Later(NamedTuple):
    """An input of a formula that is made where it is first read."""

    make: Callable[[], Any]


def _number(fn: str, _dtype: Dtype, *values: Any) -> Any:
    return values[0] if fn == CONVERT else FUNCTIONS[fn].model(*values)  # not rounded


# -- building


class Builder:
    """A formula that is being made; as an attribute, each function of `FUNCTIONS` on its terms."""

    def __init__(self, inputs: tuple[str, ...], dtype: Dtype) -> None:
        self._inputs, self.dtype = inputs, dtype
        self._steps: list[Step] = []
        self._known: dict[Any, Place] = {}

    def input(self, n: int) -> Term:
        """Return an input."""
        return Term(self, Place(n))

    def step(self, fn: str, dtype: Dtype, sources: tuple[Any, ...]) -> Place:
        """Return the value of a step, which may be known."""
        key = fn, dtype, tuple([x if x.__class__ is Place else repr(x) for x in sources])
        if key not in self._known:
            self._known[key] = Place(len(self._inputs) + len(self._steps))
            self._steps.append(Step(fn, dtype, sources))
        return self._known[key]

    def made(self, place: Any) -> Step | None:
        """Return the step that makes a value; None for an input or a number."""
        n = place.n - len(self._inputs) if place.__class__ is Place else -1
        return self._steps[n] if n >= 0 else None

    def formula(self, result: Any) -> Formula:
        """Return the formula, without the steps that the result, or several, do not need."""
        first, steps = len(self._inputs), self._steps
        several = result if result.__class__ is tuple else (result,)
        used = {x.n for x in several if x.__class__ is Place}
        for i in range(len(steps) - 1, -1, -1):
            if first + i in used:
                used |= {x.n for x in steps[i].reads}
        kept = [i for i in range(len(steps)) if first + i in used]
        moved = {n: Place(n) for n in range(first)}
        moved |= {first + i: Place(first + j) for j, i in enumerate(kept)}

        def at(x: Any) -> Any:
            return moved[x.n] if x.__class__ is Place else x

        short = tuple([steps[i]._replace(sources=tuple(map(at, steps[i].sources))) for i in kept])
        moved_to = tuple(map(at, several))
        found = moved_to if result.__class__ is tuple else moved_to[0]
        return Formula(self._inputs, self.dtype, short, found)

    def __getattr__(self, fn: str) -> Callable[..., Any]:
        if fn not in FUNCTIONS:
            raise AttributeError(fn)
        return lambda *values: self._apply(fn, values)

    def _apply(self, fn: str, values: tuple[Any, ...]) -> Any:
        """Return a function of terms and numbers: a number, a known term, or a new one."""
        if not any(x.__class__ is Term for x in values):
            return FUNCTIONS[fn].model(*values)
        simple = _SIMPLE.get(fn)
        found = None if simple is None else simple(self, *values)
        if found is not None:
            return found
        sources = tuple([x.place if x.__class__ is Term else x for x in values])
        kinds = [x.dtype for x in values[fn == "where" :] if x.__class__ is Term]
        kind = b1 if FUNCTIONS[fn].compares else kinds[0] if kinds else self.dtype
        return Term(self, self.step(fn, kind, sources))


class Term:
    """A value of a `Builder`, with Python's operators."""

    __slots__ = ("f", "place")

    def __init__(self, f: Builder, place: Place) -> None:
        self.f, self.place = f, place

    @property
    def dtype(self) -> Dtype:
        """Its type."""
        step = self.f.made(self.place)
        return self.f.dtype if step is None else step.dtype

    def __neg__(self) -> Any:
        return self.f.neg(self)

    def __add__(self, other: Any) -> Any:
        return self.f.add(self, other)

    def __sub__(self, other: Any) -> Any:
        return self.f.sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.f.sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return self.f.mul(self, other)


def _is(x: Any, number: float) -> bool:
    return x.__class__ is not Term and x == number


def _same(a: Any, b: Any) -> bool:
    """Tell whether two terms or numbers are the same."""
    if a.__class__ is Term and b.__class__ is Term:
        return bool(a.place == b.place)
    return a.__class__ is b.__class__ and repr(a) == repr(b)


def _added(f: Builder, a: Any, b: Any) -> Any:
    return b if _is(a, 0) else a if _is(b, 0) else None


def _subtracted(f: Builder, a: Any, b: Any) -> Any:
    return a if _is(b, 0) else f.neg(b) if _is(a, 0) else None


def _branches(f: Builder, x: Any) -> tuple[Any, Any, Any] | None:
    """Return the condition and the branches of a `where` that has a number; else None."""
    step = f.made(_bare(x))
    if step is None or step.fn != "where":
        return None
    condition, a, b = [Term(f, each) if each.__class__ is Place else each for each in step.sources]
    return None if a.__class__ is b.__class__ is Term else (condition, a, b)


def _negated(f: Builder, x: Any) -> Any:
    step, found = f.made(x.place), _branches(f, x)
    if step is not None and step.fn == "neg":
        return Term(f, step.sources[0])
    return found and f.where(found[0], f.neg(found[1]), f.neg(found[2]))


def _multiplied(f: Builder, a: Any, b: Any) -> Any:
    """Multiply by 0, 1 and -1 exactly; take a factor into a `where` that has numbers."""
    for x, other in ((a, b), (b, a)):
        if _is(x, 0):
            return 0.0
        if _is(x, 1) or _is(x, -1):
            return other if x == 1 else f.neg(other)
    for x, other in ((a, b), (b, a)):
        found = _branches(f, x)
        if found is not None:
            return f.where(found[0], f.mul(found[1], other), f.mul(found[2], other))
    return None


def _chosen(f: Builder, condition: Any, a: Any, b: Any) -> Any:
    if condition.__class__ is not Term:
        return a if condition else b
    return a if _same(a, b) else None


_SIMPLE: dict[str, Callable[..., Any]] = {
    "add": _added,
    "sub": _subtracted,
    "neg": _negated,
    "mul": _multiplied,
    "where": _chosen,
}


# -- derivatives


def _differentiated(given: Formula, n: int, of_result: bool) -> Formula:
    """Return the derivative by input n times the gradient of the result; `of_result`: the result is
    the input that holds it.
    """
    f, first = Builder((*given.inputs, "result", "gradient"), given.dtype), len(given.inputs)
    values = [f.input(i) for i in range(first)]
    by_x = _changes(f, given, n, values, f.input(first) if of_result else None)
    result = _value(values, given.result)
    return f.formula(_bare(f.mul(by_x.get(_bare(result), 0.0), f.input(first + 1))))


def _changes(
    f: Builder, given: Formula, n: int, values: list[Any], known: Any = None
) -> dict[Any, Any]:
    """Return the derivatives of all values by input n; `values` are those of the inputs, and get
    those of the steps. `known`: the result, where it is an input.
    """
    first = len(given.inputs)
    by_x: dict[Any, Any] = {Place(n): 1.0}
    for i, step in enumerate(given.steps, first):
        terms = [_value(values, x) for x in step.sources]
        made = Term(f, f.step(step.fn, step.dtype, tuple(map(_bare, terms))))
        y = known if known is not None and given.result == Place(i) else made
        values[i:] = [y]
        by_x[y.place] = _change(f, step.fn, y, terms, by_x)
    return by_x


def _value(values: list[Any], x: Any) -> Any:
    return values[x.n] if x.__class__ is Place else x


def _bare(x: Any) -> Any:
    return x.place if x.__class__ is Term else x


def _change(f: Builder, fn: str, y: Term, terms: list[Any], by_x: dict[Any, Any]) -> Any:
    """Return the derivative of a step with the result y, for its sources and the derivatives of
    these.
    """
    changes = [by_x.get(_bare(x), 0.0) for x in terms]
    slopes = None if fn == CONVERT else FUNCTIONS[fn].slopes
    if fn == "where":
        condition, a, b = terms
        if _is(a, 0) and _is_guarded(f, condition, b):
            return changes[2]
        return f.where(_passed(f, condition, a, b, y), *changes[1:])
    if fn == CONVERT:
        if y.dtype.is_integer:  # in steps
            return 0.0
        place = _bare(changes[0])
        return place if place.__class__ is not Place else _converted(f, place, y.dtype)
    if slopes is None or all(_is(x, 0) for x in changes):
        return 0.0
    inner = _logistic(f, fn, terms)
    if inner is not None:
        u, c, rate = inner
        return f.mul(f.mul(y, f.sub(1.0, f.mul(y, c))), f.mul(by_x.get(u, 0.0), -rate))
    found: Any = 0.0
    for slope, x in zip(slopes(f, y, *terms), changes, strict=True):
        found = f.add(found, f.mul(slope, x))
    return found


def _converted(f: Builder, place: Place, dtype: Dtype) -> Term:
    return Term(f, f.step(CONVERT, dtype, (place, "rn", False)))


def _passed(f: Builder, condition: Any, a: Any, b: Any, y: Term) -> Any:
    """Return the condition of a `where`; of a value and its bound, as a condition of the result."""
    test = f.made(_bare(condition))
    if test is None or test.fn not in SWAPPED or (a.__class__ is Term) is (b.__class__ is Term):
        return condition
    fn, (p, q) = test.fn, test.sources
    if p.__class__ is not Place:
        fn, p, q = SWAPPED[fn], q, p
    value, bound = (b, a) if b.__class__ is Term else (a, b)
    if p != value.place or q.__class__ is Place or q != bound:
        return condition
    return getattr(f, (LOOSE if value is b else TIGHT).get(fn, fn))(y, bound)


def _is_guarded(f: Builder, condition: Any, product: Any) -> bool:
    """Tell whether a condition is that a factor of a product is 0."""
    test, made = f.made(_bare(condition)), f.made(_bare(product))
    if test is None or made is None or (test.fn, made.fn) != ("eq", "mul"):
        return False
    factor, zero = test.sources if test.sources[0].__class__ is Place else test.sources[::-1]
    return zero.__class__ is not Place and zero == 0 and factor in made.sources


def _logistic(f: Builder, fn: str, terms: list[Any]) -> tuple[Place, float, float] | None:
    """Return (u, c, the slope of log(e(u))) for 1 / (e(u) + c), where e is exp or exp2; else None.

    With y the result, its derivative is -y (1 - c y) times that of log(e(u)), as e(u) is 1 / y - c;
    e(u) itself may be infinite.
    """
    if fn != "rcp" and not (fn == "div" and _is(terms[0], 1)):
        return None
    total = f.made(_bare(terms[-1]))
    if total is None or total.fn != "add":
        return None
    for e, c in (total.sources, total.sources[::-1]):
        power = f.made(e)
        if power is not None and power.fn in RATES and c.__class__ is not Place:
            return power.sources[0], c, RATES[power.fn]
    return None
