"""What TMA and wgmma read in shared memory, compared with what the plan says.

Both compute addresses themselves: TMA from a box, wgmma from a descriptor. A swizzle is a pattern
of the bits of absolute addresses, so it depends on where a storage begins. The emulator follows the
accesses of the plan. Source: PTX ISA, "Swizzling Modes", "wgmma: Strides", "Matrix descriptor".
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod

from cute_py.errors import refusal
from cute_py.integers.polynomial import divisors_of, evaluate, symbols_of
from cute_py.integers.polynomial import period as period_of
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import bounds_of
from cute_py.plan.ops import UNITS, Tile, TmaLoad, TmaStore, Wgmma
from cute_py.plan.walk import every

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.ops import Block


MOST_VALUES = 1 << 12  # of the symbols of a scalar, that are tried one by one


def require_shared_operands(body: Block, starts: dict[str, int]) -> None:
    """Refuse a box of TMA that does not start at a multiple of 8 rows of its swizzle, and an
    operand of wgmma whose descriptor leads to other elements than its access; `starts`: of the
    storages in shared memory (bytes).
    """
    for op in every(body):
        if isinstance(op, (TmaLoad, TmaStore)):
            box, start = op.box, starts[op.box.tile.storage]
            if not _starts_at(box.tile, start, box.period):
                facts = {"box": box, "start": start, "period": box.period}
                raise refusal("plan-box", operation=op.call, where=op.where, **facts)
        elif isinstance(op, Wgmma):
            m, n, k = op.atom.shape_mnk
            sides = (op.a, m, op.atom.major_a), (op.b, n, op.atom.major_b)
            for which, (tile, rows, major) in enumerate(sides):
                if not isinstance(tile, Tile):
                    continue
                start = starts[tile.access.storage]
                for fragment in sorted({step[1 + which] for step in op.steps}):
                    wrong = _difference(tile, fragment, (rows, k, major), start)
                    if wrong:
                        facts = {"side": "AB"[which], "tile": tile, "start": start, "wrong": wrong}
                        facts["period"] = 128 * UNITS[tile.mode]
                        raise refusal("plan-descriptor", operation=op.call, where=op.where, **facts)


def _starts_at(x: Access, start: int, period: int) -> bool:
    """Return whether the elements of an access start at a multiple of `period` (bytes)."""
    residues = _residues(x.bases[0], period * 8 // x.dtype.bits)
    return start % period == 0 and residues == [0]


def _residues(x: Scalar, period: int) -> list[int]:
    """Return the values of a scalar, modulo a power of two, as far as its bounds tell."""
    if isinstance(x, int):
        return [x % period]
    found = _by_factors(x, period)
    if len(found) == 1:
        return found
    return _by_values(x, period) or found


def _by_values(x: Scalar, period: int) -> list[int]:
    """Return these values one by one; [] where they are too many, or there may be others: the
    quotients of a sum belong together.
    """
    rest = {m: c % period for m, c in terms_of(x).items() if c % period}
    count = period_of(rest) * period
    # those of a minimum, or of a quotient by a symbol, do not repeat after so many
    repeats = not any("min(" in atom.key for m in rest for atom in m)
    repeats = repeats and not any(divisors_of(rest))
    symbols, ranges = symbols_of(rest), []
    for s in symbols:
        if repeats and (s.lo is None or s.hi is None or s.hi - s.lo >= count):
            ranges.append(range(count))
        elif s.lo is None or s.hi is None:
            return []
        else:
            ranges.append(range(s.lo, s.hi + 1))
    if prod(map(len, ranges)) > MOST_VALUES:
        return []
    names = [s.name for s in symbols]
    at = (dict(zip(names, values, strict=True)) for values in product(*ranges))
    return sorted({evaluate(rest, each) % period for each in at})


def _by_factors(x: Scalar, period: int) -> list[int]:
    """Return what the factors of the terms allow, each for itself."""
    step, terms = period, terms_of(x)
    for monomial, factor in terms.items():
        while monomial and factor % step:
            step //= 2
    first = terms.get((), 0)
    low, high = bounds_of(x)
    count = period // step
    if low is not None and high is not None:
        first, count = low + (first - low) % step, min(count, (high - low) // step + 1)
    return sorted({(first + i * step) % period for i in range(count)})


def _difference(tile: Tile, fragment: int, shape: tuple[int, int, str], start: int) -> str:
    """Return the first element of a fragment that a descriptor does not lead to, or ""."""
    x, (rows, k, major) = tile.access, shape
    size, each = x.dtype.bits // 8, rows * k
    held = x.table[fragment * each : (fragment + 1) * each]
    (base, first), period = held[0], 128 * UNITS[tile.mode] // size
    if len(held) < each or any(b != base for b, _s in held):
        return "a fragment that is not at one place"
    wanted = _linear(tile.mode, tile.lbo, tile.sbo, size, rows, k, major)
    linear = tuple([s - first for _b, s in held])
    swizzle = None if tile.mode == "INTER" else _standard(tile.mode, size)
    for outside in _residues(x.bases[base], period):
        at = (start // size + outside) % period
        for inside in _residues(x.inner, period):
            begin = (inside + first) % period
            # the first row of the pattern: the swizzle keeps its addresses
            plain = at == 0 and begin * size < 16 * UNITS[tile.mode] and x.swizzle == swizzle
            if plain and linear == wanted and begin * size % 16 == 0:
                continue
            found = _read(x, tile.mode, at, inside, held, wanted)
            wrong = next((i for i, same in enumerate(found) if not same), None)
            if wrong is not None:
                return f"element {(wrong % rows, wrong // rows)} of fragment {fragment}"
    return ""


def _standard(mode: str, size: int) -> tuple[int, int, int]:
    """Return the swizzle of a mode, in elements of `size` bytes."""
    bits = UNITS[mode].bit_length() - 1
    return bits, 4 - (size.bit_length() - 1), 3


@lru_cache(maxsize=64)
def _linear(
    mode: str, lbo: int, sbo: int, size: int, rows: int, k: int, major: str
) -> tuple[int, ...]:
    """Return the elements that a descriptor leads to, from the first one on and before the swizzle:
    those of (row, k), the rows fastest.
    """
    units, each = UNITS[mode], 16 // size

    def byte(row: int, column: int) -> int:
        if major == "K" and units == 1:
            at = row % 8 * 16 + row // 8 * sbo
            return at + column // each * lbo + column % each * size
        if major == "K":
            return row % 8 * 16 * units + row // 8 * sbo + column * size
        at = row % each * size + column % 8 * 16 * units
        if units == 1:
            return at + row // each * sbo + column // 8 * lbo
        return at + row // each % units * 16 + row // (each * units) * lbo + column // 8 * sbo

    return tuple([byte(row, column) // size for column in range(k) for row in range(rows)])


def _read(
    x: Access,
    mode: str,
    at: int,
    inside: int,
    held: tuple[tuple[int, int], ...],
    wanted: tuple[int, ...],
) -> Iterator[bool]:
    """Yield for each element of a fragment whether the hardware reads it where the access has it.

    A descriptor has the address of the first element before the swizzle, which is applied to the
    sum of it and the step to an element: so a tile may begin at any row of the pattern.

    `at`: the elements before the access, modulo the pattern; `inside`: those before its swizzle.
    """
    size = x.dtype.bits // 8
    begin = (at + inside + held[0][1]) * size
    bits = UNITS[mode] - 1
    for (_base, s), step in zip(held, wanted, strict=True):
        address = begin // 16 * 16 + step * size
        address ^= (address >> 7 & bits) << 4
        yield address == (at + x.swizzled(inside + s)) * size
