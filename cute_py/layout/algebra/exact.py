"""What composition does when divisibility does not settle it: fit a mode to its values, judge a
carry, find the witness.

With A coalesced to (S_0..S_n):(D_0..D_n), A(x) = D_0 x + sum over k of g_k floor(x / P_k), where
P_k = S_0...S_{k-1} and g_k = D_k - S_{k-1} D_{k-1} is not 0. So the modes of B add up wherever no
digit carries, and a first carry departs unless several g_k cancel there. That makes "first
coordinate that departs" a search for the first carry.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout.layout import Layout, offset_of, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cute_py.errors import CuteError

ENUMERATED = 1 << 16  # coordinates of B that are simply tried one by one
ENUMERATED_AT_MOST = 1 << 24  # the same, where cancelling carries leave no other way


class Departs(Exception):
    """Composition does not exist: A o B is `got` where what fits before says `fitted`.

    The place is a coordinate of B, one index a leaf, or (extent, step, index) of one mode of B.
    """

    def __init__(
        self,
        got: int,
        fitted: int,
        coord: list[int] | None = None,
        mode: tuple[int, int, int] | None = None,
    ) -> None:
        super().__init__(got, fitted, coord, mode)
        self.got = got
        self.fitted = fitted
        self.coord = coord
        self.mode = mode


class Misfit:
    """Values are no layout: `index` is the first to depart, with value `got` where `fitted` would
    continue.
    """

    __slots__ = ("fitted", "got", "index")

    def __init__(self, index: int, got: int, fitted: int) -> None:
        self.index = index
        self.got = got
        self.fitted = fitted


def fit_values(value: Callable[[int], int], count: int) -> list[tuple[int, int]] | Misfit:
    """Return the modes (extent, stride) of the layout i -> value(i), i < count, with value(0) == 0,
    or the misfit.

    The first mode of a coalesced layout is its longest linear run from 0; the rest is the layout of
    every run-th value. So the fit is unique, and one pass over all values decides.
    """
    modes: list[tuple[int, int]] = []
    hop = 1
    while hop < count:
        stride = value(hop)
        run = 2
        while run * hop < count and value(run * hop) == run * stride:
            run += 1
        modes.append((run, stride))
        if count // hop % run:
            break
        hop *= run
    return _misfit(value, modes, count) or modes


def _misfit(value: Callable[[int], int], modes: list[tuple[int, int]], count: int) -> Misfit | None:
    """Return the first index < count that departs from the modes, the last one running on."""
    s, d = [m[0] for m in modes], [m[1] for m in modes]
    for index in range(count):
        fitted, got = offset_of(index, s, d), value(index)
        if got != fitted:
            return Misfit(index, got, fitted)
    return None


def fit_mode(
    extents: list[int], strides: list[int], extent: int, step: int
) -> list[tuple[int, int]]:
    """Return the modes of i -> A(i*step), i < extent; raise Departs where they are no layout.

    The first mode is the longest linear run; the others are the modes of every run-th value, once
    the run is known to add up with them. Both are found in closed form.
    """

    def value(i: int) -> int:
        return offset_of(i * step, extents, strides)

    modes: list[tuple[int, int]] = []
    found: list[int] = []  # indices that depart; the modes of the rest may depart before a carry
    hop, rest = 1, extent
    while rest > 1:
        stride = value(hop)
        run = _linear_run(lambda i, hop=hop: value(hop * i), extents, hop * step, rest)  # type: ignore[misc]
        modes.append((run, stride))
        if rest % run:
            found.append(hop * run)
            break
        pair = raw((run, rest // run), (1, run), [run, rest // run], [hop * step, hop * run * step])
        for i, j in _doubtful(pair, extents):
            if value(hop * (i + run * j)) != value(hop * i) + value(hop * run * j):
                found.append(hop * (i + run * j))
                break
        hop, rest = hop * run, rest // run
    if found:
        s, d = [m[0] for m in modes], [m[1] for m in modes]
        index = next(i for i in sorted(found) if value(i) != offset_of(i, s, d))
        raise Departs(value(index), offset_of(index, s, d), mode=(extent, step, index))
    return modes


def _linear_run(value: Callable[[int], int], extents: list[int], step: int, count: int) -> int:
    """Return the largest n <= count with value(i) == i*value(1) for all i < n.

    With r_k = step mod P_k, value departs first where some floor(r_k i / P_k) becomes 1, unless
    several cancel there.
    """
    run, period = count, 1
    for size in extents[:-1]:
        period *= size
        if step % period:
            run = min(run, -(-period // (step % period)))
    last = min(count, run + ENUMERATED)
    while run < last and value(run) == run * value(1):
        run += 1
    if run == last < count:
        raise _cancels(step, extents, ENUMERATED)
    return run


def _doubtful(pair: Layout, extents: list[int]) -> Iterator[list[int]]:
    """Yield the coordinates of `pair` at which its two modes may not add up: the first that
    carries, and if that cancels, all of them.
    """
    carry = first_carry(pair, extents)
    if carry is None:
        return
    yield carry
    if pair.size() > ENUMERATED_AT_MOST:
        raise _cancels(pair._d[0], extents, ENUMERATED_AT_MOST)
    yield from _coordinates(pair._s)


def _cancels(step: int, extents: list[int], limit: int) -> CuteError:
    return refusal(
        "composition-cancels",
        operation="composition",
        step=step,
        digits=",".join([*map(str, extents[:-1]), "..."]),
        limit=limit,
    )


def check_carry(b: Layout, extents: list[int], strides: list[int], result: Layout) -> None:
    """Raise Departs unless result(c) == A(b(c)) for every c; the modes of `result` are right one by
    one.
    """
    one_sign = len({d > 0 for s, d in zip(b._s, b._d, strict=True) if s > 1 and d}) <= 1
    if b.size() > ENUMERATED and one_sign:
        carry = first_carry(b, extents)
        if carry is None:
            return
        _try_coordinate(carry, b, extents, strides, result)
    if b.size() > ENUMERATED_AT_MOST:
        raise refusal(
            "composition-too-large",
            operation="composition",
            a=Layout(tuple(extents), tuple(strides)),
            b=b,
            limit=ENUMERATED_AT_MOST,
        )
    for coord in _coordinates(b._s):
        _try_coordinate(coord, b, extents, strides, result)


def _try_coordinate(
    coord: list[int], b: Layout, extents: list[int], strides: list[int], result: Layout
) -> None:
    got = oddoffset_of(_dot(coord, b._d), extents, strides)
    fitted = _at(coord, result, b)
    if got != fitted:
        raise Departs(got, fitted, coord)


def oddoffset_of(index: int, extents: list[int], strides: list[int]) -> int:
    """Return A(index), with A(-index) = -A(index) as C++'s truncating division has it."""
    return -offset_of(-index, extents, strides) if index < 0 else offset_of(index, extents, strides)


def _dot(coord: list[int], strides: list[int]) -> int:
    return sum([c * d for c, d in zip(coord, strides, strict=True)])


def _at(coord: list[int], result: Layout, b: Layout) -> int:
    """Return result at a coordinate given by the leaves of b, which the leaves of `result` refine
    in order.
    """
    offset, leaf = 0, 0
    for c, extent in zip(coord, b._s, strict=True):
        first, size = leaf, 1
        while size < extent or leaf == first:
            size *= result._s[leaf]
            leaf += 1
        offset += offset_of(c, result._s[first:leaf], result._d[first:leaf])
    return offset


def _coordinates(extents: list[int]) -> Iterator[list[int]]:
    coord = [0] * len(extents)
    while True:
        yield list(coord)
        for k, extent in enumerate(extents):
            coord[k] += 1
            if coord[k] < extent:
                break
            coord[k] = 0
        else:
            return


def first_carry(b: Layout, extents: list[int]) -> list[int] | None:
    """Return the colexicographically first coordinate of b at which a digit of A overflows, or
    None.

    b's strides have one sign. Fixes the slowest mode first, each as low as a carry further down
    still allows.
    """
    radices = extents[:-1]
    steps = [abs(d) for d in b._d]
    tops = [peaks(s, d, radices) for s, d in zip(b._s, steps, strict=True)]
    coord = [0] * len(steps)
    fixed = [0] * len(radices)
    for j in reversed(range(len(steps))):
        below = [sum(peak) for peak in zip(*tops[:j], strict=True)] or [0] * len(radices)
        room = [size - f - low for size, f, low in zip(radices, fixed, below, strict=True)]
        index = _first_filling(b._s[j], steps[j], radices, room)
        if index is None:
            return None
        coord[j] = index
        fixed = [f + x for f, x in zip(fixed, _digits(index * steps[j], radices), strict=True)]
    return coord


def _digits(x: int, radices: list[int]) -> list[int]:
    digits = []
    for size in radices:
        x, digit = divmod(x, size)
        digits.append(digit)
    return digits


def peaks(extent: int, step: int, radices: list[int]) -> list[int]:
    """Return, digit by digit, the largest value that i*step takes for i < extent."""
    tops = []
    period = 1
    for size in radices:
        low, high = (
            0,
            size - 1,
        )  # bisect for the largest t with some i*step mod (period*size) >= t*period
        while low < high:
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
    modulo the step.
    """
    step %= modulus
    if low == 0:
        return 0
    if step == 0:
        return None
    i = -(-low // step)
    if i * step <= high:
        return i
    lap = first_in_window(-modulus % step, step, low % step, high % step)
    if lap is None:
        return None
    return -(-(low + modulus * lap) // step)
