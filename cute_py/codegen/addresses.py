"""The vectors of an access: their byte addresses, and the guards that keep them in bounds.

Most guards are comparisons `start + constant < extent` that differ only in the constant. The common
`extent - start` is computed once and clamped to 32 bits. Each guard then costs one comparison with
an immediate, instead of a register pair that is live through the loop.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.passes.strength import split_constant, varies
from cute_py.codegen.storage import I32, I64
from cute_py.integers import ints
from cute_py.integers.symbol_decisions import bounds
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan.conditions import Compare

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit, Link
    from cute_py.codegen.passes.strength import Induction
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Cond, Scalar

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


# -- addresses


class Addresses:
    """The byte addresses of an access; what its vectors share is computed once."""

    def __init__(self, e: Emit, x: Access, chain: Link | None = None) -> None:
        """Keep the emitter and the access; `chain` is the address that the previous op left."""
        self.e, self.x = e, x
        if x.dtype.bits < 8 and x.space == "gmem" and not x.packed:
            raise e.unsupported(f"access to {x.dtype} elements in global memory")
        if x.vector_bits < 8 or (x.dtype.bits < 8 and x.vector_bits % 8):
            raise e.unsupported(f"access to single {x.dtype} elements")
        self.wide = x.space == "gmem"
        self.bits = x.dtype.bits
        self.parts = [self._split(base) for base in x.bases]
        self.bases: dict[int, Any] = {}
        self.inside: dict[int, Any] = {}
        if chain is not None:
            before, self.bases[-1] = chain
            self.parts.append(self._split(before))  # found as number -1

    def _split(self, base: Scalar) -> tuple[Scalar, int]:
        """Return the varying part and the constant; both must be whole bytes."""
        parts = split_constant(base)
        return parts if parts[1] * self.bits % 8 == 0 else (base, 0)

    def last(self) -> Any:
        """Return the address of the last base."""
        return self.base(len(self.x.bases) - 1)

    def base(self, number: int) -> Any:
        """Return the address of one base without its constant part: 64 bits in global memory,
        32 bits in shared memory.
        """
        if number not in self.bases:
            e, x = self.e, self.x
            step = self._step(number)
            if step is not None:
                self.bases[number] = e.b.add(self.bases[number - 1], self.bytes(step))
                return self.bases[number]
            address = e.b.add(e.address(x.space, x.storage), self.bytes(self.parts[number][0]))
            if self.wide and varies(x.bases[number]):
                address = e.opaque(address)
            self.bases[number] = address
        return self.bases[number]

    def bytes(self, offset: Scalar) -> Any:
        """Return an offset in bytes, as wide as an address."""
        scalars = self.e.scalars
        return self._scaled(scalars.value(offset) if self.wide else scalars.narrow(offset))

    def _scaled(self, elements: Any) -> Any:
        """Convert elements to bytes; vectors of sub-byte elements begin at whole bytes."""
        b, kind = self.e.b, elements.type
        if self.bits >= 8:
            return b.mul(elements, ir.Constant(kind, self.bits // 8))
        return b.ashr(elements, ir.Constant(kind, (8 // self.bits).bit_length() - 1))

    def _step(self, number: int) -> Scalar | None:
        """Return the distance from the previous base, if it is loop-invariant.

        Addresses that change in a loop then need one addition each, instead of a register pair
        each.
        """
        if not self.wide or number - 1 not in self.bases or not varies(self.parts[number][0]):
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
            self.inside[static] = self._scaled(offset)
        return self.inside[static]

    def __getitem__(self, vector: int) -> tuple[Any, int]:
        """Return the address of a vector as (value, immediate offset in bytes)."""
        number, static = self.x.table[vector]
        beyond = self.parts[number][1]
        if self.x.swizzle is None:
            return self.base(number), (static + beyond) * self.bits // 8
        bits, base, shift = self.x.swizzle
        period = 1 << (bits + base + abs(shift))
        outside, inside = static // period * period, static % period
        address = self.e.b.add(self.base(number), self.swizzled(inside))
        return address, (outside + beyond) * self.bits // 8


def begin(e: Emit, induction: Induction) -> Any:
    """Return the address where an induction variable begins, without its constant part."""
    addresses = Addresses(e, induction.source)
    return e.b.add(e.address("gmem", induction.source.storage), addresses.bytes(induction.begin))


def advance(e: Emit, induction: Induction) -> Any:
    """Return the address of the next iteration. It is opaque to the compiler, which would otherwise
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
