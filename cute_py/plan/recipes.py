"""`recipe`: what an op computes one element of registers, or one integer, from.

A `Recipe` is a function, named by what distinguishes it from others, of parts: registers of one
element, integers, named values and conditions. An op without one is opaque: its result depends on
memory that the kernel writes, or on other threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from cute_py.integers.symbols import SymInt, sym
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare, Logic, Not, Reg, Scalar, Test
from cute_py.plan.functions import REDUCTIONS
from cute_py.plan.walk import parts, reads, writes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cute_py.plan.op import Op
    from cute_py.plan.plan import Plan


class Address(NamedTuple):
    """An integer: an expression plus a number."""

    base: Scalar
    offset: int = 0


class Named(NamedTuple):
    """An integer of the plan: a `let`, or the present value of a `var`."""

    kind: str
    name: str


class Element(NamedTuple):
    """An element of a register storage."""

    storage: str
    at: int


Key: TypeAlias = Named | Element
Part: TypeAlias = Any  # an Address, a Named, an Element, or a condition


class Recipe(NamedTuple):
    """What distinguishes a function, its parts, and the array that it loads from, if it does."""

    name: tuple[object, ...]
    parts: tuple[Part, ...] = ()
    array: str = ""


def recipe(op: Op, at: int) -> Recipe | None:
    """Return what element `at` of what an op defines, or stores, is computed from; None if that is
    opaque.
    """
    found = _RECIPES.get(type(op))
    return None if found is None else found(op, at)


def results(op: Op) -> Iterator[tuple[Key, int]]:
    """Yield what an op defines, each with its number among the elements of its result."""
    if isinstance(op, ops.Let):
        yield Named("let", op.var), 0
    elif isinstance(op, ops.Set):
        yield Named("var", op.var), 0
    else:
        yield from ((x, at) for reg in writes(op) for at, x in enumerate(elements(reg)))


def controls(op: Op) -> tuple[Part, ...]:
    """Return what decides how often the blocks of an op run, and which."""
    if isinstance(op, ops.Loop):
        return Address(op.start), Address(op.stop)
    return (op.cond,) if isinstance(op, ops.If | ops.While | ops.Leave) else ()


class Makers:
    """Which ops of a plan define a value. Nothing is known of registers that are accessed as
    elements of another width.
    """

    def __init__(self, plan: Plan) -> None:
        bits = {row.name: row.dtype.bits for row in plan.storages}
        self.ops: dict[str | Named, list[Op]] = {}
        recast = set()
        for op in plan.ops:
            written = writes(op)
            keys: list[str | Named] = [*dict.fromkeys([reg.storage for reg in written])]
            keys += [x for x, _ in results(op) if isinstance(x, Named)]
            for key in keys:
                self.ops.setdefault(key, []).append(op)
            regs = (*reads(op), *written)
            recast |= {reg.storage for reg in regs if reg.dtype.bits != bits[reg.storage]}
        for storage in recast:
            self.ops.pop(storage, None)
        self.found: dict[str | Named, dict[Key, list[tuple[Op, int]]]] = {}

    def of(self, key: Key) -> list[tuple[Op, int]]:
        """Return the ops that define a value, and which of their results it is."""
        storage = key.storage if isinstance(key, Element) else key
        if storage not in self.found:
            found = self.found[storage] = {}
            for op in self.ops.get(storage, ()):
                for x, at in results(op):
                    found.setdefault(x, []).append((op, at))
        return self.found[storage].get(key, [])


def element(reg: Reg, at: int) -> Element:
    """Return one element of a register operand."""
    return Element(reg.storage, reg.index[at])


def elements(reg: Reg) -> list[Element]:
    """Return the elements of a register operand."""
    return [Element(reg.storage, i) for i in reg.index]


def needs(part: Part) -> Iterator[Key | Scalar]:
    """Yield the elements, named values and integers that a part reads."""
    if isinstance(part, Named | Element):
        yield part
    elif isinstance(part, Address):
        yield part.base
    else:
        for each in parts(part):
            if isinstance(each, Reg):
                yield from elements(each)
            elif isinstance(each, SymInt):
                yield each


def conditions(part: Compare | Logic | Not | Test) -> tuple[str, tuple[Part, ...]]:
    """Return what a condition is called, and its parts."""
    if isinstance(part, Compare):
        return part.test, (Address(part.a), Address(part.b))
    if isinstance(part, Logic):
        return part.test, part.terms
    if isinstance(part, Not):
        return "not", (part.term,)
    return "test", (element(part.reg, 0),)


def address(x: Access, at: int) -> Address | None:
    """Return the place of an element of an access; None where a swizzle permutes them."""
    if x.swizzle is not None:
        return None
    b, start = x.table[at // x.width]
    base = x.bases[b] + x.inner if x.inner.__class__ is not int or x.inner else x.bases[b]
    return Address(base, start + at % x.width)


def loaded(x: Access, at: int, dtype: object) -> Recipe | None:
    """Return what an element of an access to global memory is."""
    place = address(x, at) if x.space == "gmem" else None
    if place is None:
        return None
    mask = x.masks[at // x.width] if x.masks else ()
    guards = tuple([x.guards[k] for k in mask])
    name = "load", x.storage, x.dtype.name, str(dtype), repr(x.fill) if guards else ""
    return Recipe(name, (place, *guards), x.storage)


def _fill(op: ops.Fill, _at: int) -> Recipe | None:
    return None if op.value is None else Recipe(("fill", op.dst.dtype.name, repr(op.value)))


def _map(op: ops.Map, at: int) -> Recipe | None:
    name: list[object] = ["map", op.fn, op.dtype.name, op.dst.dtype.name]
    found: list[Part] = []
    for x in op.sources:
        if isinstance(x, Reg):
            found.append(element(x, at if len(x) > 1 else 0))
        elif isinstance(x, SymInt):
            found.append(Address(x))
        name.append("" if isinstance(x, Reg | SymInt) else repr(x))
    return Recipe(tuple(name), tuple(found))


def _convert(op: ops.Convert, at: int) -> Recipe | None:
    name = "to", op.src.dtype.name, op.dst.dtype.name, op.rounding, op.saturate
    return Recipe(name, (element(op.src, at),))


def _reduce(op: ops.Reduce, at: int) -> Recipe | None:
    n = len(op.src) // len(op.dst)
    terms = [element(op.src, i) for i in range(at * n, at * n + n)]
    return Recipe(("reduce", op.fn, op.src.dtype.name), tuple(terms))


def _load(op: ops.Load, at: int) -> Recipe | None:
    x = op.src
    if op.order != "weak" or x.count * x.width != len(op.dst):
        return None
    found = loaded(x, at, op.dst.dtype)
    if found is None or x.fill is not None or len(found.parts) == 1:
        return found
    return found._replace(parts=(*found.parts, element(op.dst, at)))  # what it was before


def _copy(op: ops.CpAsync, at: int) -> Recipe | None:
    return loaded(op.src, at, op.dst.dtype) if op.src.dtype.bits == op.dst.dtype.bits else None


def _store(op: ops.Store, at: int) -> Recipe | None:
    return Recipe(("store", op.dst.dtype.name), (element(op.src, at),))


def _let(op: ops.Let, _at: int) -> Recipe | None:
    kind, first, rest = op.kind, op.operands[0], op.operands[1:]
    if isinstance(first, Reg):
        return Recipe((kind, first.dtype.name), (element(first, 0),))
    if kind == "var":
        return Recipe((kind,), (Named("var", str(first)),))
    given: list[Any] = [*map(Address, rest)]  # type: ignore[arg-type]
    if kind == "table":
        return Recipe((kind, first), tuple(given))
    return Recipe((kind,), (first if kind == "where" else Address(first), *given))  # type: ignore[arg-type]


def _set(op: ops.Set, _at: int) -> Recipe | None:
    return Recipe(("set",), (Address(op.value),))


_RECIPES: dict[type[Op], Callable[[Any, int], Recipe | None]] = {
    ops.Fill: _fill,
    ops.Map: _map,
    ops.Convert: _convert,
    ops.Reduce: _reduce,
    ops.Load: _load,
    ops.CpAsync: _copy,
    ops.Store: _store,
    ops.Let: _let,
    ops.Set: _set,
}


# -- what threads compute together

THREAD = sym("tid", min=0)
BLOCK = tuple([Address(sym(f"bid_{axis}", min=0)) for axis in "xyz"])


class Together:
    """Values that threads of a plan share because they compute or read them together.

    All lanes of a warp get one result of redux, vote, a shuffle from one lane, or a butterfly of
    shuffles, whatever the data. The threads of a block read one value from a place of shared
    memory, if only barriers of whole blocks and warps order them: between two of these nobody
    writes what somebody reads. Such a value is known by the op, the iterations of the loops around
    it, the block, and the warp or the place.

    Attributes:
        around: the ops that each op is inside of, by its id.
        makers: the ops that define a value, and which of their results it is.
        in_step: whether only barriers of whole blocks and warps order threads.
    """

    def __init__(
        self,
        every_op: tuple[Op, ...],
        around: Mapping[int, tuple[Op, ...]],
        makers: Makers,
    ) -> None:
        self.around, self.makers = around, makers
        self.in_step = all(map(self._keeps_step, every_op))

    def recipe(self, op: Op, at: int) -> Recipe | None:
        """Return how threads together compute element `at` of the result of an op, if they do."""
        outer, places = self.around[id(op)], self._places(op, at)
        if places is None or any(isinstance(x, ops.While) for x in outer):
            return None
        times = [sym(x.var, min=None) for x in outer if isinstance(x, ops.Loop)]
        return Recipe(("together", id(op), at), (*map(Address, (*places, *times)), *BLOCK))

    def _places(self, op: Op, at: int) -> tuple[Scalar, ...] | None:
        """Return what threads that share the value agree on, next to the block."""
        if isinstance(op, ops.Redux | ops.Vote):
            return (THREAD // 32,)
        if isinstance(op, ops.Shuffle):
            fixed = op.kind == "idx" and op.lane.__class__ is int
            return (THREAD // op.width,) if fixed else None
        if isinstance(op, ops.Map):
            lanes = self._alike_lanes(op, at)
            return (THREAD // (lanes + 1),) if lanes and lanes & (lanes + 1) == 0 else None
        if isinstance(op, ops.Load) and op.src.space == "smem" and self.in_step:
            x = op.src
            plain = op.order == "weak" and not x.guards and x.rank is None
            b, start = x.table[at // x.width]
            return (x.bases[b], x.inner, start + at % x.width) if plain else None
        return None

    def _alike_lanes(self, op: Op, at: int) -> int:
        """Return the bits of a lane that a butterfly reduction has combined: lanes that differ only
        in these have one value.
        """
        if not isinstance(op, ops.Map) or op.fn not in REDUCTIONS or len(op.sources) != 2:
            return 0
        if not all(isinstance(x, Reg) for x in op.sources):
            return 0
        a, b = [element(x, at if len(x) > 1 else 0) for x in op.sources if isinstance(x, Reg)]
        bits = self._distance(op, a, b) or self._distance(op, b, a)
        made = self._only_maker(op, a if self._distance(op, a, b) else b)
        return bits | (self._alike_lanes(*made) if bits and made else 0)

    def _distance(self, op: Op, x: Element, y: Element) -> int:
        """Return the distance of a shuffle by which y is x of another lane, in a butterfly."""
        made = self._only_maker(op, y)
        if made is None or not isinstance(made[0], ops.Shuffle) or made[0].kind != "bfly":
            return 0
        lane, width = made[0].lane, made[0].width
        fits = isinstance(lane, int) and 0 < lane < width and element(made[0].src, made[1]) == x
        return int(lane) if fits and self._only_maker(op, x) else 0

    def _only_maker(self, op: Op, key: Element) -> tuple[Op, int] | None:
        """Return the op that defines a value, if it is the only one, in the block of an op."""
        makers = self.makers.of(key)
        here = len(makers) == 1 and self.around[id(makers[0][0])] == self.around[id(op)]
        return makers[0] if here else None

    def _keeps_step(self, op: Op) -> bool:
        """Tell whether an op orders threads, if it does, with all others of its block or warp."""
        if isinstance(op, ops.Barrier):
            branches = [x for x in self.around[id(op)] if getattr(x, "scope", "") == "thread"]
            return op.scope == "block" or (op.scope == "warp" and not branches)
        acquires = isinstance(op, ops.Load) and op.order != "weak"
        return not (op.waits or acquires or (isinstance(op, ops.Atomic) and op.old is not None))
