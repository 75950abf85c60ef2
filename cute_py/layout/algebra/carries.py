"""Composition where divisibility does not decide: fit a mode to its values, check a carry, find the
first coordinate that departs.

With A coalesced to (S_0..S_n):(D_0..D_n), A(x) = D_0 x + sum over k of g_k floor(x / P_k), where
P_k = S_0...S_{k-1} and g_k = D_k - S_{k-1} D_{k-1} is not 0. So the modes of B add up wherever no
digit carries, and a first carry departs unless several g_k cancel there. So finding the first
coordinate that departs means finding the first carry. All leaves are ints here.
"""

from __future__ import annotations

from math import prod

from cute_py.errors import refusal
from cute_py.layout.layout import Layout, offset_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Array
    from cute_py.errors import CuteError

    Modes = list[tuple[int, int]]  # (extent, stride)

ENUMERATED = 1 << 12  # up to this many coordinates of B are tried one by one
CANCELLED = 1 << 16  # carries of a run that may cancel
ENUMERATED_AT_MOST = 1 << 20  # the same by arrays, where cancelling carries leave no other way


class Departs(Exception):
    """Composition does not exist: A o B is `got` where the modes fitted before give `fitted`.

    The place is a coordinate of B, one index per leaf.
    """

    def __init__(self, got: int, fitted: int, coord: list[int]) -> None:
        super().__init__(got, fitted, coord)
        self.got, self.fitted, self.coord = got, fitted, coord

    def of_leaf(self, leaf: int, b: Layout) -> Departs:
        """Return this departure of a single mode as one of B, of which the mode is a leaf."""
        coord = [0] * len(b._s)
        coord[leaf] = self.coord[0]
        sign = -1 if b._d[leaf] < 0 else 1  # the mode of positive stride was tried
        return Departs(sign * self.got, sign * self.fitted, coord)


def odd_offset(index: int, extents: list[int], strides: list[int]) -> int:
    """Return A(index), with A(-index) = -A(index) as C++'s truncating division has it."""
    return -offset_of(-index, extents, strides) if index < 0 else offset_of(index, extents, strides)


# -- one mode


def fit_mode(extents: list[int], strides: list[int], extent: int, step: int) -> Modes:
    """Return the modes of i -> A(i*step), i < extent; raise Departs if no layout computes them.

    The first mode is the longest linear run; the others are the modes of every run-th value, once
    the run is known to add up with them. Both are found in closed form.
    """

    def value(i: int) -> int:
        return offset_of(i * step, extents, strides)

    modes: Modes = []
    found: list[int] = []  # indices that depart; the modes of the rest may depart before a carry
    hop, rest = 1, extent
    while rest > 1:
        run = _linear_run(hop * step, rest, extents, strides)
        modes.append((run, value(hop)))
        if rest % run:
            found.append(hop * run)
            break
        pair = [run, rest // run], [hop * step, hop * run * step]
        carried = departure(*pair, extents, strides)
        if carried is not None:
            found.append(hop * (carried[0] + run * carried[1]))
        hop, rest = hop * run, rest // run
    if found:
        s, d = [m[0] for m in modes], [m[1] for m in modes]
        index = next(i for i in sorted(found) if value(i) != offset_of(i, s, d))
        raise Departs(value(index), offset_of(index, s, d), [index])
    return modes


def _linear_run(step: int, count: int, extents: list[int], strides: list[int]) -> int:
    """Return the largest n <= count with A(i*step) == i*A(step) for all i < n.

    With r_k = step mod P_k, A departs first where some floor(r_k i / P_k) becomes 1, unless several
    cancel there.
    """
    run, period, stride = count, 1, offset_of(step, extents, strides)
    for size in extents[:-1]:
        period *= size
        if step % period:
            run = min(run, -(-period // (step % period)))
    last = min(count, run + CANCELLED)
    while run < last and offset_of(run * step, extents, strides) == run * stride:
        run += 1
    if run == last < count:
        raise _cancels(step, extents, CANCELLED)
    return run


def _cancels(step: int, extents: list[int], limit: int) -> CuteError:
    return refusal(
        "composition-cancels",
        operation="composition",
        step=step,
        digits=",".join([*map(str, extents[:-1]), "..."]),
        limit=limit,
    )


# -- several modes


def departure(
    s: list[int], d: list[int], extents: list[int], strides: list[int]
) -> list[int] | None:
    """Return the colexicographically first coordinate c of s:d with A(sum of c_k d_k) other than
    the sum of A(c_k d_k), or None.
    """
    size = prod(s)
    if size > ENUMERATED and len({step > 0 for extent, step in zip(s, d, strict=True) if step}) < 2:
        carry = first_carry(s, d, extents)
        if carry is None:
            return None
        moves = [c * step for c, step in zip(carry, d, strict=True)]
        parts = [odd_offset(move, extents, strides) for move in moves]
        if odd_offset(sum(moves), extents, strides) != sum(parts):
            return carry
    if size > ENUMERATED_AT_MOST:
        raise refusal(
            "composition-too-large",
            operation="composition",
            a=Layout(tuple(extents), tuple(strides)),
            b=Layout(tuple(s), tuple(d)),
            limit=ENUMERATED_AT_MOST,
        )
    index = _first_misfit(s, d, extents, strides)
    return None if index is None else digits(index, s)


def _first_misfit(s: list[int], d: list[int], extents: list[int], strides: list[int]) -> int | None:
    """Try all indices of s:d, by arrays if there are many and they fit in int64."""
    reach = sum([(extent - 1) * abs(step) for extent, step in zip(s, d, strict=True)])
    if prod(s) > ENUMERATED and reach * (1 + max(map(abs, strides))) < 1 << 62:
        return _first_misfit_of_arrays(s, d, extents, strides)
    moves, sums = [0], [0]
    for extent, step in zip(s, d, strict=True):
        own = [odd_offset(i * step, extents, strides) for i in range(extent)]
        moves = [move + i * step for i in range(extent) for move in moves]
        sums = [total + part for part in own for total in sums]
    pairs = enumerate(zip(moves, sums, strict=True))
    return next((i for i, (x, y) in pairs if odd_offset(x, extents, strides) != y), None)


def _first_misfit_of_arrays(
    s: list[int], d: list[int], extents: list[int], strides: list[int]
) -> int | None:
    import numpy as np

    from cute_py.layout.offsets import look_up, outer_sums

    def values(moves: Array) -> Array:
        found = look_up(extents, strides, np.abs(moves))
        return np.where(moves < 0, -found, found)

    sums = np.zeros(1, dtype=np.int64)
    for extent, step in zip(s, d, strict=True):
        sums = np.add.outer(values(np.arange(extent, dtype=np.int64) * step), sums).reshape(-1)
    wrong = values(outer_sums(s, d)) != sums
    return int(wrong.argmax()) if wrong.any() else None


def first_carry(s: list[int], d: list[int], extents: list[int]) -> list[int] | None:
    """Return the colexicographically first coordinate of s:d at which a digit of A overflows, or
    None.

    The strides have one sign. Fixes the slowest mode first, each as low as a carry further down
    still allows.
    """
    radices = extents[:-1]
    steps = [abs(step) for step in d]
    tops = [peaks(extent, step, radices) for extent, step in zip(s, steps, strict=True)]
    coord = [0] * len(steps)
    fixed = [0] * len(radices)
    below = [sum(peak) for peak in zip(*tops, strict=True)]
    for j in reversed(range(len(steps))):
        below = [total - top for total, top in zip(below, tops[j], strict=True)]
        room = [size - f - low for size, f, low in zip(radices, fixed, below, strict=True)]
        index = _first_filling(s[j], steps[j], radices, room)
        if index is None:
            return None
        coord[j] = index
        fixed = [f + x for f, x in zip(fixed, digits(index * steps[j], radices), strict=True)]
    return coord


def digits(x: int, radices: list[int]) -> list[int]:
    """Return the digits of x in a mixed radix, without what is beyond the last one."""
    found = []
    for size in radices:
        x, digit = divmod(x, size)
        found.append(digit)
    return found


def peaks(extent: int, step: int, radices: list[int]) -> list[int]:
    """Return, digit by digit, the largest value that i*step takes for i < extent."""
    tops = []
    period = 1
    for size in radices:
        low, high = 0, size - 1
        while low < high:  # the largest t with some i*step mod (period*size) >= t*period
            middle = (low + high + 1) // 2
            i = first_in_window(step, period * size, middle * period, period * size - 1)
            if i is not None and i < extent:
                low = middle
            else:
                high = middle - 1
        tops.append(low)
        period *= size
    return tops


def _first_filling(extent: int, step: int, radices: list[int], room: list[int]) -> int | None:
    """Return the first i < extent at which some digit of i*step is at least its room."""
    best: int | None = None
    period = 1
    for size, need in zip(radices, room, strict=True):
        if need <= 0:
            return 0
        if need < size:
            i = first_in_window(step, period * size, need * period, period * size - 1)
            if i is not None and i < extent and (best is None or i < best):
                best = i
        period *= size
    return best


def first_in_window(step: int, modulus: int, low: int, high: int) -> int | None:
    """Return the least i >= 0 with low <= i*step mod modulus <= high, or None; 0 <= low <= high <
    modulus.

    Euclid's scheme: either the first lap hits, or the laps' starting points pose the same question
    modulo the step. A step above half the modulus is replaced by its negative, so that the modulus
    halves at each level.

    >>> first_in_window(7, 10, 2, 2), first_in_window(10**9, 10**9 + 1, 5, 6)
    (6, 999999995)
    """
    laps: list[tuple[int, int, int]] = []
    while True:
        step %= modulus
        if low == 0:
            found = 0
            break
        if step == 0:
            return None
        if 2 * step > modulus:
            step, low, high = modulus - step, modulus - high, modulus - low
        found = -(-low // step)
        if found * step <= high:
            break
        laps.append((low, modulus, step))
        step, modulus, low, high = -modulus % step, step, low % step, high % step
    for start, length, hop in reversed(laps):
        found = -(-(start + length * found) // hop)
    return found
