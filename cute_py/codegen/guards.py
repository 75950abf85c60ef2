"""The guards of an access: which of its vectors lie inside of the array.

Most are rows of comparisons `start + constant < extent`. What they share, `extent - start`, is
computed once, clamped to 32 bits: a row costs one comparison with a constant in place of a register
pair that lives through the loop.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.scalars import varies
from cute_py.codegen.storage import I32, I64
from cute_py.integers import ints
from cute_py.integers.symbol_bounds import bounds
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan.conditions import Compare

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Cond, Scalar

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


class Guards:
    """The guards of an access as 32-bit flags, each computed once."""

    def __init__(self, e: Emit, x: Access) -> None:
        """Keep the emitter and the access; find what its guards share."""
        self.e, self.x = e, x
        self.known: dict[tuple[int, ...], Any] = {}
        self.limits: dict[Scalar, Any] = {}
        self.rows = [_row(guard) for guard in x.guards]
        self.shared = Counter(row[0] for row in self.rows if row)

    def __getitem__(self, vector: int) -> Any:  # noqa: ANN401  (a flag of 32 bits, or None)
        mask = self.x.masks[vector] if self.x.masks else ()
        if not mask:
            return None
        if mask not in self.known:
            total = self._holds(mask[0])
            for number in mask[1:]:
                total = self.e.b.and_(total, self._holds(number))
            self.known[mask] = self.e.b.zext(total, I32)
        return self.known[mask]

    def _holds(self, number: int) -> Any:  # noqa: ANN401
        row = self.rows[number]
        if row is None or self.shared[row[0]] < 2:
            return self.e.scalars.holds(self.x.guards[number])
        limit, threshold = row
        if limit not in self.limits:
            self.limits[limit] = self._clamped(limit)
        return self.e.b.icmp_signed(">", self.limits[limit], ir.Constant(I32, threshold))

    def _clamped(self, x: Scalar) -> Any:  # noqa: ANN401
        """Return a scalar as 32 bits, the nearest such number where it does not fit."""
        b, value = self.e.b, self.e.scalars.value(x)
        low, high = bounds(terms_of(x)) if isinstance(x, SymInt) else (x, x)
        for sign, end, known in (("<", _LEAST, low), (">", _MOST, high)):
            if known is None or not _LEAST <= known <= _MOST:
                constant = ir.Constant(I64, end)
                value = b.select(b.icmp_signed(sign, value, constant), constant, value)
        return b.trunc(value, I32)


def _row(guard: Cond) -> tuple[Scalar, int] | None:
    """Return (limit, threshold) where the guard is limit > threshold, with all constants in the
    threshold; None for what a loop moves, and for other conditions.
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
