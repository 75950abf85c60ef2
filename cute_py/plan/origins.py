"""`Origins`: what the values that a plan stores are made of, whatever its arrays hold.

Threads that nothing orders may store to one place only if all of them store one value. That their
bits are equal in a run does not say so, since other data may differ: `out[0] = x[b]` by all blocks
is wrong, though all elements of x may be equal. `out[0] = 2*x[0] + alpha` is right: its value is
made of numbers, arguments, integers, and elements of arrays that the kernel does not write.

Such a value has an `Origin`: an expression, and leaves: integers that depend on threads, blocks and
loops, those that say which elements are loaded among them. Law: values of one expression whose
leaves are equal have the same bits. Values are followed through registers, variables and branches.
What a loop changes is a function of all that it may be computed from there. Nothing is known of
what comes from shared memory, from arrays that the kernel writes, or from other threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cute_py.integers.polynomial import FloorDiv, polynomial_key, symbols_of
from cute_py.integers.symbols import SymInt, sym, terms_of
from cute_py.plan import ops
from cute_py.plan.params import ScalarParam, TensorParam
from cute_py.plan.recipes import (
    Address,
    Element,
    Key,
    Makers,
    Named,
    Part,
    Recipe,
    Together,
    address,
    conditions,
    controls,
    needs,
    recipe,
    results,
)
from cute_py.plan.walk import arrays, blocks_of, every

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cute_py.integers.polynomial import Atom, Monomial, Polynomial
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.op import Block, Op
    from cute_py.plan.plan import Plan

MOST = 16  # leaves of a value


class Origin(NamedTuple):
    """The number of an expression, its leaves, and the arrays that it loads from."""

    number: int
    leaves: tuple[Address, ...] = ()
    arrays: frozenset[str] = frozenset()


class Stored(NamedTuple):
    """The origins of the elements that an op stores; of an element that is loaded from the same
    place of another array, without that leaf. `arrays`: all that they load from.
    """

    elements: tuple[Origin, ...]
    arrays: frozenset[str]


class Origins:
    """The origins of the values that the ops of a plan store: all are found at once."""

    def __init__(self, plan: Plan, space: str) -> None:
        """Find those of the ops that store to `space`: gmem or smem."""
        every_op = plan.ops
        self.around: dict[int, tuple[Op, ...]] = {}
        self._place(plan.body, ())
        self.fixed = {p.name for p in plan.params if isinstance(p, ScalarParam)}
        for p in plan.params:
            if isinstance(p, TensorParam):
                self.fixed |= {name for x in (*p.shape, *p.stride) for name in _names(x)}
        self.unsteady = {name for op in every_op for name in arrays(op, written=True)}
        self.pointers = {op.name for op in every_op if isinstance(op, ops.MakePtr)}
        self.unsteady |= self.pointers
        self.lets = {op.var for op in every_op if isinstance(op, ops.Let)}
        self.makers = Makers(plan)
        self.together = Together(every_op, self.around, self.makers)
        self.numbers: dict[object, int] = {}
        self.now: dict[Key, Origin | _Later | None] = {}
        self.stored: dict[int, Stored | None] = {}
        self.visited: set[int] = set()
        stores: list[Op] = []
        for op in every_op:
            if isinstance(op, STORES) and op.dst.space == space:
                stores.append(op)
        self.needed = self._needed(stores)
        self.relevant = {id(op) for key in self.needed for op, _ in self.makers.of(key)}
        if stores:
            self._block(plan.body)

    def of(self, op: Op) -> Stored | None:
        """Return what an op stores; None if that depends on data in another way."""
        return self.stored.get(id(op))

    # -- which values matter

    def _place(self, block: Block, around: tuple[Op, ...]) -> None:
        """Keep what each op is inside of."""
        for op in block:
            self.around[id(op)] = around
            for inner in blocks_of(op):
                self._place(inner, (*around, op))

    def _needed(self, stores: list[Op]) -> set[Key]:
        """Return what the values of stores are computed from, if nothing opaque is among it; the
        other stores are known to be opaque.
        """
        reads: dict[Key | int, list[Key]] = {}  # of a value, or of a store
        for op in stores:
            made = _stored(op)
            if None not in made:
                reads[id(op)] = [key for x in made if x for key in self.keys(x.parts)]
            self.stored[id(op)] = None
        left = [key for keys in reads.values() for key in keys]
        self.known, needed = set(reads), set[Key]()
        opaque: set[Key | int] = set()
        while left:
            while left:
                key = left.pop()
                if key not in reads:
                    found = self._read(key)
                    reads[key] = found or []
                    left += reads[key]
                    if found is None:
                        opaque.add(key)
            while more := [
                x for x, keys in reads.items() if x not in opaque and not opaque.isdisjoint(keys)
            ]:
                opaque.update(more)
            self.known = reads.keys() - opaque
            needed = {x for x in self.known if not isinstance(x, int)}
            left = [x for key in needed for x in self._controls(key) if x not in reads]
        return needed

    def _read(self, key: Key) -> list[Key] | None:
        """Return the values that all ops that define one read; None if one of these is opaque."""
        found: list[Key] = []
        for op, at in (makers := self.makers.of(key)):
            made = self.recipe(op, at)
            if made is None:
                return None
            found += self.keys(made.parts)
        return found if makers else None

    def _controls(self, key: Key) -> Iterator[Key]:
        """Yield what decides whether ops that define a value run. It makes another value of it only
        after a branch or loop, not in it: that is found in the flow.
        """
        for op, _ in self.makers.of(key):
            yield from self.keys(x for outer in self.around[id(op)] for x in controls(outer))

    def recipe(self, op: Op, at: int) -> Recipe | None:
        """Return what a result of an op is computed from, alone or together with other threads;
        None if that depends on data in another way.
        """
        found = self.together.recipe(op, at) or recipe(op, at)
        return None if found is not None and found.array in self.unsteady else found

    def keys(self, parts: Iterable[Part]) -> Iterator[Key]:
        """Yield the elements and named values that parts read."""
        for x in (x for part in parts for x in needs(part)):
            if isinstance(x, Named | Element):
                yield x
            else:
                yield from (Named("let", name) for name in _names(x) if name in self.lets)

    # -- origins

    def number(self, what: object) -> int:
        """Return the number of an expression."""
        return self.numbers.setdefault(what, len(self.numbers))

    def _made(self, what: object, *parts: Origin | None, array: str = "") -> Origin | None:
        """Return the origin of a function of others."""
        leaves: dict[Address, int] = {}
        shape: list[object] = [what]
        loaded = {array} - {""}
        for part in parts:
            if part is None:
                return None
            shape.append((part.number, *[leaves.setdefault(x, len(leaves)) for x in part.leaves]))
            loaded |= part.arrays
        kept = tuple(leaves)
        if (
            len(kept) > MOST
        ):  # how leaves differ by numbers and arguments is a part of the expression
            split = [(*self.split(terms_of(x.base)), x.offset) for x in leaves]
            bases = [Address(SymInt(p)) for p, _, _ in split]
            kept = tuple(dict.fromkeys(bases))
            shape += [
                (kept.index(base), polynomial_key(fixed), offset)
                for base, (_, fixed, offset) in zip(bases, split, strict=True)
            ]
        if len(kept) > MOST:
            return None
        return Origin(self.number(tuple(shape)), kept, frozenset(loaded))

    def _origin(self, part: Part) -> Origin | None:
        """Return the origin of a part of a recipe, as the values are now."""
        if isinstance(part, Named | Element):
            return _found(self.now.get(part))
        if isinstance(part, Address):
            return self._integer(*part)
        name, parts = conditions(part)
        return self._made(("condition", name), *map(self._origin, parts))

    def _integer(self, x: Scalar, offset: int = 0) -> Origin | None:
        """Return the origin of an integer: a leaf, if nothing in it is a `let`."""
        p = terms_of(x)
        names = _names(x)
        if names <= self.fixed:
            return Origin(self.number(("fixed", polynomial_key(p), offset)))
        named = sorted(names & self.lets)
        if not named:
            return Origin(self.number("integer"), (Address(x, offset),))
        given = [_found(self.now.get(Named("let", name))) for name in named]
        outer = [self._integer(y) for y in self.sums(p, self.lets)]
        return self._made(("sum", polynomial_key(p), offset), *given, *outer)

    def sums(self, p: Polynomial, without: set[str]) -> list[SymInt]:
        """Return the sums that a polynomial is computed from, but for numbers, arguments and these
        names: the factor of each product that has one of these, the terms without, and what is
        inside of such atoms.
        """
        factors: dict[Monomial, Polynomial] = {}
        found: dict[SymInt, None] = {}
        for m, count in self.split(p)[0].items():
            moving = [x for x in m if not without.isdisjoint(s.name for s in x.symbols)]
            still = tuple([x for x in m if x not in moving])
            factors.setdefault(tuple(moving), {})[still] = count
            inside = [q for x in moving for q in _inside(x)]
            found |= dict.fromkeys(x for q in inside for x in self.sums(q, without))
        terms = [self.split(q)[0] for q in factors.values()]
        return list(found | {SymInt(q): None for q in terms if q})

    def split(self, p: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Return the terms of a polynomial that are not made of arguments alone, and those that
        are.
        """
        parts: tuple[Polynomial, Polynomial] = {}, {}
        for m, count in p.items():
            parts[all(s.name in self.fixed for x in m for s in x.symbols)][m] = count
        return parts

    def _result(self, made: Recipe | None) -> Origin | None:
        if made is None or made.array in self.unsteady:
            return None
        return self._made(made.name, *map(self._origin, made.parts), array=made.array)

    # -- flow

    def _block(self, block: Block) -> None:
        """Follow the values through a block."""
        for op in block:
            if isinstance(op, ops.If):
                self._branch(op)
            elif isinstance(op, ops.Loop | ops.While):
                self._loop(op)
            elif id(op) in self.known:
                found = self._store(op)
                again = id(op) in self.visited and self.stored[id(op)] != found
                self.stored[id(op)] = None if again else found
                self.visited.add(id(op))
            elif id(op) in self.relevant:
                given = [(key, at) for key, at in results(op) if key in self.needed]
                self.now |= {key: self._result(self.recipe(op, at)) for key, at in given}

    def _branch(self, op: ops.If) -> None:
        before = self.now
        ends = []
        for block in (op.then, op.other):
            self.now = dict(before)
            self._block(block)
            ends.append(self.now)
        self.now, (a, b) = dict(before), ends
        changed = [k for k in a.keys() | b.keys() if a.get(k) != b.get(k)]
        for key in changed:
            self.now[key] = None
            if key in a and key in b:
                ends_of = _found(a[key]), _found(b[key])
                self.now[key] = self._made(("if", id(op)), *ends_of, self._origin(op.cond))
        self.now |= {k: a[k] for k in a.keys() & b.keys() if a[k] == b[k]}

    def _loop(self, op: ops.Loop | ops.While) -> None:
        """Follow the values through a loop: what it changes is known by what that depends on."""
        inner = _Loop(self, op)
        for key in inner.changed:
            self.now[key] = _Later(inner, key, True) if isinstance(op, ops.Loop) else None
        for block in blocks_of(op):
            self._block(block)
        self.now |= {key: _Later(inner, key, False) for key in inner.changed}

    def _store(self, op: Op) -> Stored | None:
        """Return what an op stores now."""
        assert isinstance(op, STORES)
        found = []
        for at, made in enumerate(_stored(op)):
            origin, place = self._result(made), address(op.dst, at)
            if origin is None:
                return None
            if place in origin.leaves and op.dst.storage not in self.pointers:
                leaves = tuple([x for x in origin.leaves if x != place])
                number = self.number((origin.number, origin.leaves.index(place)))
                origin = origin._replace(number=number, leaves=leaves)
            found.append(origin)
        return Stored(tuple(found), frozenset().union(*[x.arrays for x in found]))


class _Loop:
    """What the values that a loop changes depend on."""

    def __init__(self, origins: Origins, op: ops.Loop | ops.While) -> None:
        self.origins, self.op = origins, op
        self.entry = dict(origins.now)
        inside = [x for block in blocks_of(op) for x in every(block)]
        self.inside = {id(x) for x in inside}
        known = [x for x in inside if id(x) in origins.relevant]
        self.changed = {key for x in known for key, _ in results(x) if key in origins.needed}
        self.loops = {x.var: x for x in (op, *inside) if isinstance(x, ops.Loop)}
        leaves = [x for x in inside if isinstance(x, ops.Leave) and x.target == "loop"]
        self.known: dict[Key, tuple[tuple[Address, ...], set[str]] | None] = {}
        self.ends = [part for x in (op, *leaves) for part in controls(x)]

    def origin(self, key: Key, inside: bool) -> Origin | None:
        """Return the origin of a value at the head of the loop, or after it."""
        if key not in self.known:
            self.known[key] = self._leaves(key)
        found = self.known[key]
        if found is None:
            return None
        leaves = found[0]
        if inside and isinstance(self.op, ops.Loop):
            leaves = (*leaves, Address(sym(self.op.var, min=None)))
        number = self.origins.number(("loop", inside, id(self.op), key))
        return Origin(number, leaves, frozenset(found[1]))

    def _leaves(self, key: Key) -> tuple[tuple[Address, ...], set[str]] | None:
        """Return all leaves that a value may depend on, and arrays; None if anything else."""
        origins, leaves, loaded = self.origins, dict[Address, None](), set[str]()
        seen, left = set[Any](), [*self._read(self.ends), key]
        while left:
            x = left.pop()
            if x in seen:
                continue
            if len(leaves) >= MOST:
                return None
            seen.add(x)
            if not isinstance(x, Named | Element):
                leaves[Address(x)] = None
                continue
            if x in self.entry or x not in self.changed:
                before = _found(self.entry.get(x))
                if before is None:
                    return None
                leaves |= dict.fromkeys(before.leaves)
                loaded |= before.arrays
            for op, at in origins.makers.of(x) if x in self.changed else ():
                if id(op) in self.inside:
                    made = origins.recipe(op, at)
                    if made is None:
                        return None
                    loaded |= {made.array} - {""}
                    left += self._read((*made.parts, *self._controls(op)))
        return tuple(leaves), loaded

    def _controls(self, op: Op) -> Iterator[Part]:
        """Yield what decides, in the loop, whether an op runs, and how often."""
        for outer in self.origins.around[id(op)]:
            if id(outer) in self.inside:
                yield from controls(outer)

    def _read(self, parts: Iterable[Part]) -> Iterator[Key | SymInt]:
        """Yield the values that parts read, and the atoms of their integers that do not change in
        the loop; of its own loops, what bounds them.
        """
        origins = self.origins
        yield from origins.keys(parts := list(parts))
        moving = origins.lets | self.loops.keys()
        for x in (x for part in parts for x in needs(part)):
            if not isinstance(x, Named | Element):
                yield from origins.sums(terms_of(x), moving)
                for name in _names(x) & (self.loops.keys() - {getattr(self.op, "var", "")}):
                    yield from self._read(controls(self.loops[name]))


class _Later(NamedTuple):
    """The origin of a value that a loop changes, found if it is asked for."""

    loop: _Loop
    key: Key
    inside: bool


def _found(x: Origin | _Later | None) -> Origin | None:
    return x.loop.origin(x.key, x.inside) if isinstance(x, _Later) else x


STORES = (ops.Store, ops.CpAsync)


def _stored(op: Op) -> list[Recipe | None]:
    """Return what the elements that an op stores are computed from."""
    assert isinstance(op, STORES)
    return [recipe(op, at) for at in range(op.dst.count * op.dst.width)]


def _names(x: Scalar) -> set[str]:
    return {s.name for s in symbols_of(terms_of(x))}


def _inside(atom: Atom) -> tuple[Polynomial, ...]:
    """Return the polynomials in an atom."""
    if isinstance(atom, FloorDiv):
        return atom.numerator, atom.divisor
    return getattr(atom, "options", ())
