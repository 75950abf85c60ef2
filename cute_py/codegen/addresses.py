"""The vectors of an access: their byte addresses, and the guards that keep them in bounds.

Most guards are comparisons `start + constant < extent` that differ only in the constant. The common
`extent - start` is computed once and clamped to 32 bits. Each guard then costs one comparison with
an immediate, instead of a register pair that is live through the loop.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.passes.strength import split_constant, split_variant, varies
from cute_py.codegen.storage import I32, I64
from cute_py.integers import ints
from cute_py.integers.polynomial import plus
from cute_py.integers.symbol_decisions import bounds
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan.conditions import Compare, fits

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit, Link
    from cute_py.codegen.passes.strength import Induction
    from cute_py.integers.polynomial import Polynomial
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Cond, Scalar

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


# -- addresses


class Addresses:
    """The byte addresses of an access; what its vectors share is computed once.

    A base is an address of 64 bits in global memory, of 32 bits in shared memory. In an array whose
    offsets fit 32 bits, it is such an offset (elements), which is scaled and added to the address
    of the array by one instruction, `mad.wide`.
    """

    def __init__(self, e: Emit, x: Access, chain: Link | None = None) -> None:
        """Keep the emitter and the access; `chain` is the base that the previous op left."""
        self.e, self.x = e, x
        if x.dtype.bits < 8 and x.space == "gmem" and not x.packed:
            raise e.unsupported(f"access to {x.dtype} elements in global memory")
        if x.vector_bits < 8 or (x.dtype.bits < 8 and x.vector_bits % 8):
            raise e.unsupported(f"access to single {x.dtype} elements")
        self.small = x.storage in e.small and x.dtype.bits >= 8
        self.wide = x.space == "gmem" and not self.small
        self.bits = x.dtype.bits
        self.parts = [self._split(base) for base in x.bases]
        self.bases: dict[int, Any] = {}
        self.inside: dict[int, Any] = {}
        self.whole: dict[tuple[int, int, bool], Any] = {}
        if chain is not None:
            before, self.bases[-1] = chain
            self.parts.append(self._split(before))  # found as number -1

    def _split(self, base: Scalar) -> tuple[Scalar, int]:
        """Return the varying part and the constant; both must be whole bytes."""
        parts = split_constant(base)
        return parts if parts[1] * self.bits % 8 == 0 else (base, 0)

    def last(self) -> Any:
        """Return the last base."""
        return self.base(len(self.x.bases) - 1)

    def base(self, number: int) -> Any:
        """Return one base without its constant part."""
        if number not in self.bases:
            e, x = self.e, self.x
            step = self._step(number)
            if step is not None:
                self.bases[number] = e.b.add(self.bases[number - 1], self.bytes(step))
                return self.bases[number]
            base = self.start(self.bytes(self.parts[number][0]))
            if x.space == "gmem" and varies(x.bases[number]):
                base = e.opaque(base)
            self.bases[number] = base
        return self.bases[number]

    def start(self, offset: Any) -> Any:
        """Return the base at an offset (bytes)."""
        return offset if self.small else self._from_start(offset)

    def _from_start(self, offset: Any) -> Any:
        return self.e.b.add(self.origin, offset)

    @cached_property
    def origin(self) -> Any:
        """The address of the storage's first element, in the block that has it."""
        own, rank = self.e.address(self.x.space, self.x.storage), self.x.rank
        if rank is None:
            return own
        (there,) = self.e.emit("mapa", own, self.e.scalars.narrow(rank))
        return there

    def bytes(self, offset: Scalar) -> Any:
        """Return an offset in bytes, as wide as a base; of a small array in elements."""
        scalars = self.e.scalars
        evaluate = scalars.value if self.wide else scalars.narrow
        if self.small:
            return evaluate(offset)
        if self.bits < 8:
            return self._packed(evaluate(offset))
        in_bytes: Any = ints.mul(offset, self.bits // 8)
        return evaluate(in_bytes)

    def _packed(self, elements: Any) -> Any:
        """Convert sub-byte elements to bytes; their vectors begin at whole bytes."""
        shift = (8 // self.bits).bit_length() - 1
        return self.e.b.ashr(elements, ir.Constant(elements.type, shift))

    def _step(self, number: int) -> Scalar | None:
        """Return the distance from the previous base, if it is loop-invariant.

        Addresses that change in a loop then need one addition each, instead of a register pair
        each.
        """
        fixed = self.x.space != "gmem" or not varies(self.parts[number][0])
        if fixed or number - 1 not in self.bases:
            return None
        step: Any = ints.sub(self.parts[number][0], self.parts[number - 1][0])
        return None if varies(step) else step

    def swizzled(self, static: int) -> Any:
        """Return swizzle(inner + static) in bytes, for a static part below the period."""
        if static not in self.inside:
            e = self.e
            bits, base, shift = self.x.swizzle  # type: ignore[misc]
            inner = e.scalars.value(self.x.inner) if self.wide else e.scalars.narrow(self.x.inner)
            kind = inner.type
            offset = e.b.add(inner, ir.Constant(kind, static))
            mask = ((1 << bits) - 1) << (base + max(0, shift))
            active = e.b.and_(offset, ir.Constant(kind, mask))
            move = e.b.lshr if shift >= 0 else e.b.shl
            offset = e.b.xor(offset, move(active, ir.Constant(kind, abs(shift))))
            if self.bits < 8:
                offset = self._packed(offset)
            elif not self.small:
                offset = e.b.mul(offset, ir.Constant(kind, self.bits // 8))
            self.inside[static] = offset
        return self.inside[static]

    def __getitem__(self, vector: int) -> tuple[Any, int]:
        """Return the address of a vector as (value, immediate offset in bytes)."""
        number, static = self.x.table[vector]
        beyond = self.parts[number][1]
        if self.x.swizzle is None:
            return self._address(number, -1, (static + beyond) * self.bits // 8)
        bits, base, shift = self.x.swizzle
        period = 1 << (bits + base + abs(shift))
        outside, inside = static // period * period, static % period
        return self._address(number, inside, (outside + beyond) * self.bits // 8)

    def _address(self, number: int, inside: int, immediate: int) -> tuple[Any, int]:
        """Return the address of a base, plus the swizzled part unless `inside` is -1."""
        key = number, inside, self.small and immediate < 0
        if key not in self.whole:
            if inside < 0:
                address = self.base(number)
            elif self.x.space == "gmem" or self.bits < 8 or varies(self.x.inner):
                address = self.e.b.add(self.base(number), self.swizzled(inside))
            else:
                address = self._invariant_first(number, inside)
            self.whole[key] = address if not self.small else self._widened(address, *key)
        address, folds = self.whole[key] if self.small else (self.whole[key], False)
        if not folds:
            return address, immediate
        return self._scaled(self.e.b.add(address, ir.Constant(I32, immediate * 8 // self.bits))), 0

    def _widened(self, offset: Any, number: int, inside: int, less: bool) -> tuple[Any, bool]:
        """Return the address at an offset, or the offset if the immediate is to be added first.

        With its immediate an offset is from 0 to 2**31 - 1. Without it, it is at least 0 where that
        is proven, and else fits 32 signed bits if the immediate is positive.
        """
        parts = (self.parts[number][0], self.x.inner if inside >= 0 else 0)
        if all(_is_positive(terms_of(x)) for x in parts):
            return self._scaled(offset), False
        return (offset, True) if less else (self._scaled(offset, signed=True), False)

    def _scaled(self, offset: Any, signed: bool = False) -> Any:
        """Return the address at a 32-bit offset (elements)."""
        b = self.e.b
        wide = (b.sext if signed else b.zext)(offset, I64)
        return self._from_start(b.mul(wide, ir.Constant(I64, self.bits // 8)))

    def _invariant_first(self, number: int, inside: int) -> Any:
        """Return an address in shared memory, its loop-variant terms added last: all others are
        hoisted together.
        """
        fixed, moving = split_variant(self.parts[number][0])
        address = self.e.b.add(self._from_start(self.bytes(fixed)), self.swizzled(inside))
        return self.e.b.add(address, self.bytes(moving))


def _is_positive(p: Polynomial) -> bool:
    """Return whether the linear terms, and the products, of an offset are at least 0."""
    products = {m: c for m, c in p.items() if len(m) > 1}
    lows = [bounds(part)[0] for part in (products, plus(p, products, -1))]
    return all(low is not None and low >= 0 for low in lows)


def begin(e: Emit, induction: Induction) -> Any:
    """Return the base where an induction variable begins, without its constant part."""
    addresses = Addresses(e, induction.source)
    return addresses.start(addresses.bytes(induction.begin))


def advance(e: Emit, induction: Induction) -> Any:
    """Return the base of the next iteration. It is opaque to the compiler, which would otherwise
    keep a register pair per row.
    """
    assert e.link is not None
    return e.opaque(e.b.add(e.link[1], Addresses(e, induction.source).bytes(induction.step)))


# -- guards


class Guards:
    """The guards of an access as 32-bit flags, each computed once."""

    def __init__(self, e: Emit, x: Access) -> None:
        """Keep the emitter and the access; find what its guards share."""
        self.e, self.x = e, x
        self.known: dict[tuple[int, ...], Any] = {}
        self.limits: dict[Scalar, Any] = {}
        self.rows = [_row(guard) for guard in x.guards]
        self.shared = Counter(row[0] for row in self.rows if row)

    def __getitem__(self, vector: int) -> Any:  # a flag of 32 bits, or None
        mask = self.x.masks[vector] if self.x.masks else ()
        if not mask:
            return None
        if mask not in self.known:
            total = self._holds(mask[0])
            for number in mask[1:]:
                total = self.e.b.and_(total, self._holds(number))
            self.known[mask] = self.e.b.zext(total, I32)
        return self.known[mask]

    def _holds(self, number: int) -> Any:
        row = self.rows[number]
        if row is None or self.shared[row[0]] < 2:
            return self.e.scalars.holds(self.x.guards[number])
        limit, threshold = row
        if limit not in self.limits:
            self.limits[limit] = self._clamped(limit)
        return self.e.b.icmp_signed(">", self.limits[limit], ir.Constant(I32, threshold))

    def _clamped(self, x: Scalar) -> Any:
        """Return a scalar clamped to 32 bits."""
        if fits(terms_of(x)):
            return self.e.scalars.narrow(x)
        b, value = self.e.b, self.e.scalars.value(x)
        low, high = bounds(terms_of(x)) if isinstance(x, SymInt) else (x, x)
        for sign, end, known in (("<", _LEAST, low), (">", _MOST, high)):
            if known is None or not _LEAST <= known <= _MOST:
                constant = ir.Constant(I64, end)
                value = b.select(b.icmp_signed(sign, value, constant), constant, value)
        return b.trunc(value, I32)


def _row(guard: Cond) -> tuple[Scalar, int] | None:
    """Return (limit, threshold) where the guard is limit > threshold, with all constants in the
    threshold; None if it varies in a loop, and for other conditions.
    """
    if not isinstance(guard, Compare) or guard.test not in ("lt", "le"):
        return None
    difference: Any = ints.sub(guard.b, guard.a)
    if not isinstance(difference, SymInt) or varies(difference):
        return None
    constant = terms_of(difference).get((), 0)
    threshold = -constant - (guard.test == "le")
    if not _LEAST < threshold < _MOST:
        return None
    limit: Any = ints.sub(difference, constant)
    return limit, threshold
