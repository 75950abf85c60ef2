"""`recipe`: what an op computes one element of registers, or one integer, from.

A `Recipe` is a function, named by what distinguishes it from others, of parts: registers of one
element, integers, named values and conditions. An op without one is opaque: its result depends on
memory that the kernel writes, or on other threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from cute_py.integers.symbols import SymInt
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare, Logic, Not, Reg, Scalar, Test
from cute_py.plan.walk import parts, reads, writes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
