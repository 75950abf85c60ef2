"""Composition, exact or refused: R(c) == A(B(c)) for every c in B.

With A coalesced, a mode of B steps through the mixed-radix digits of A. (1) Where extents and
strides divide, the result is read off mode by mode (`walk`). (2) Otherwise the mode is fitted to
its values. (3) Modes add up if no digit of A carries; each carry is checked: it is harmless, or
there is a first coordinate that departs. (2) and (3) are `carries`, and need numbers. Source:
Cecka, arXiv 2603.02298, section 3.3; cutlass layout.hpp `composition_impl`; architecture.md for (2)
and (3).
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from operator import lt, mul

from cute_py.errors import CuteError, format_mode, refusal, shorten
from cute_py.integers import ints
from cute_py.layout import special
from cute_py.layout.algebra.carries import Departs, departure, fit_mode, odd_offset, peaks
from cute_py.layout.algebra.coalesce import coalesce, coalesced_beyond
from cute_py.layout.algebra.complement import components
from cute_py.layout.basis import ScaledBasis, sum_steps
from cute_py.layout.layout import (
    BASIS,
    INTS,
    Layout,
    made,
    make_layout,
    nested,
    of_modes,
    raw,
    with_strides,
)
from cute_py.layout.modes import get, modes_of
from cute_py.layout.queries import leaf_path
from cute_py.layout.tuples import is_underscore, nested_like, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from cute_py.layout.bits.swizzle import Swizzle
    from cute_py.layout.types import Kind, Leaf, Tiler

    Modes = list[tuple[Any, Any]]  # (extent, stride)
    Told = list[tuple[list[str], list[Any]]]  # see walked


def composition(a: Kind | Swizzle, b: Tiler) -> Kind:
    """Return the layout R with R(c) == a(b(c)) for every coordinate c of b.

    R's shape refines b's: each leaf of b is kept or split into nested modes. b may reach past a,
    whose last mode is unbounded.

    Args:
        a: Layout, ComposedLayout or Swizzle.
        b: a layout or a Swizzle; an integer n (short for n:1); `_` (all of a); or a by-mode tiler,
            a tuple of these, which composes mode by mode and drops the remaining modes of a.

    Raises LayoutError, with the first coordinate that departs and both values, exactly when no
    layout whose shape refines b's computes a(b(c)). For a swizzled b the result always exists:
    swizzle o offset o layout, or the pair a o 0 o b. Source: cutlass layout.hpp `composition`.

    >>> print(composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))))
    ((2,2),3):((24,2),8)
    >>> composition(Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    cute_py.errors.LayoutError: composition: given a=(6,2):(1,7) and b=(3,2):(2,3): at ...
    """
    try:
        if a.__class__ is Layout:
            if b.__class__ is Layout:
                return made(_composed(a, b), "composition", a, b)
            if b.__class__ is int:
                return composition(a, Layout(b, 1))
            if b.__class__ is tuple:
                return _by_mode(a, b)
            if is_underscore(b):
                return a
        return special.compose_special(a, b)
    except CuteError as error:
        shorten(error)
        raise


def compose(layout: Kind | Swizzle, *tilers: Tiler) -> Kind:
    """Return composition(layout, tiler); several tilers form a by-mode tiler, as in
    `Layout.compose`.

    >>> print(compose(Layout((8, 6)), 4, 3), compose(Layout((8, 6)), Layout(4, 2)))
    (4,3):(1,8) 4:2
    """
    return composition(layout, tilers[0] if len(tilers) == 1 else tilers)


def _by_mode(a: Layout, tiler: tuple[Any, ...]) -> Layout:
    if len(tiler) > len(a):
        raise refusal(
            "tiler-rank", operation="composition", tiler=len(tiler), layout=a, rank=len(a)
        )
    if not tiler:
        return raw((), (), [], [])
    single = a._kind == INTS and len(a._s) == len(a)
    if single and all(part.__class__ is Layout and part._kind == INTS for part in tiler):
        pairs = zip(a._d, tiler, strict=False)
        modes = [with_strides(b, [step * d for d in b._d], INTS) for step, b in pairs]
    else:
        modes = [composition(mode, b) for mode, b in zip(modes_of(a), tiler, strict=False)]
    return made(make_layout(*modes), "composition", a, tiler)


def _composed(a: Layout, b: Layout) -> Layout:
    if a._kind == INTS == b._kind:
        plain = _plain(a, b)
        if plain is not None:
            return plain
    return composed_leaves(a, b)


def _plain(a: Layout, b: Layout) -> Layout | None:
    """The fast path for ints that divide and do not carry; None if the general path must decide."""
    extents, strides = coalesced_beyond(a)
    if len(extents) == 1:
        return with_strides(b, [step * strides[0] for step in b._d], INTS)
    used, modes = [0] * len(extents), []
    below = list(accumulate(extents[:-1], mul, initial=1)) if len(extents) > MANY else []
    for extent, step in zip(b._s, b._d):  # noqa: B905 (hot; equal lengths)
        mode = _split(extent, step, extents, strides, used, below) if step else [(extent, 0)]
        if not mode:
            return None
        modes.append(mode)
    return nested(b, modes, INTS) if all(map(lt, used[:-1], extents)) else None


MANY = 16  # digits, from which on a stride's digit is found by bisection


def _split(
    extent: int,
    step: int,
    extents: list[int],
    strides: list[int],
    used: list[int],
    below: list[int],
) -> Modes | None:
    """`walk` for ints where every extent and stride divides; otherwise None, or no modes. The
    products of the extents below each digit find the first digit, if they are given.
    """
    modes, k, last = [], 0, len(extents) - 1
    if below and extent > 1 and step > 0:
        k = bisect_left(below, True, key=lambda size: step % size != 0) - 1
        step //= below[k]
    while extent > 1 and step > 0:
        while k < last and step % extents[k] == 0:
            step, k = step // extents[k], k + 1
        run = extent if k == last or (extent - 1) * step < extents[k] else extents[k] // step
        if run < extent and (extents[k] % step or extent % run):
            return None
        modes.append((run, step * strides[k]))
        used[k] += (run - 1) * step
        extent, step, k = extent // run, 1, k + 1
    return modes


def composed_leaves(a: Layout, b: Layout) -> Layout:
    """The general path: walk a's digits with each leaf of b, then check the carries; coordinate
    strides are packed into numbers.
    """
    if any(step.__class__ is ScaledBasis for step in b._d):
        return _by_path(a, b)
    packed, unpack = a, None
    shown: Callable[[int], object] = int
    if a._kind == BASIS and b._kind == INTS:
        packed, unpack, shown = _packed(a, b)
    try:
        result = walked(packed, b)
    except Departs as departs:
        _refuse(packed, b, departs, a, shown)
    return result if unpack is None else with_strides(result, [unpack(step) for step in result._d])


def compose_or_none(a: Layout, b: Layout) -> Layout | None:
    """Return composition(a, b) of all-int layouts, or None where it does not exist."""
    try:
        return walked(a, b)
    except Departs:
        return None


def walked(a: Layout, b: Layout, told: Told | None = None) -> Layout:
    """Walk a's digits with each leaf of b. `told` receives, for each leaf, the decisions in words
    and how much of each digit of a the leaf uses.
    """
    numbers = a._kind == INTS == b._kind
    extents, strides = coalesced_beyond(a)
    used: list[Any] = [0] * (len(extents) - 1)  # per digit of a, the largest sum of b's modes
    modes = []
    for leaf, (s, d) in enumerate(zip(b._s, b._d, strict=True)):
        words: list[str] = []
        grown: list[Any] = []
        before = list(used)
        if told is not None:
            told.append((words, grown))
        try:
            modes.append(walk(extents, strides, s, d, used, numbers, words))
        except Departs as departs:
            raise departs.of_leaf(leaf, b) from None
        if told is not None:
            words[-1] += f" -> {of_modes(modes[-1])}"
            grown += map(ints.sub, used, before)
    result = nested(b, modes)
    carried = None
    for k, x in enumerate(used):
        if not ints.settle(ints.less, x, extents[k], "composition"):
            carried = k
            break
    if carried is None and (not used or not _of_both_signs(b)):
        return result
    if not numbers:
        k = carried or 0
        assumption = f"{used[k]} < {extents[k]}"
        facts = {"used": used[k], "size": extents[k], "assumption": assumption}
        raise refusal("composition-carry", operation="composition", a=a, b=b, **facts)
    coord = departure(b._s, b._d, extents, strides)
    if coord is not None:
        moves = [c * step for c, step in zip(coord, b._d, strict=True)]
        parts = [odd_offset(move, extents, strides) for move in moves]
        raise Departs(odd_offset(sum(moves), extents, strides), sum(parts), coord)
    return result


def _of_both_signs(b: Layout) -> bool:
    """Return whether the modes have strides of both signs."""
    down = [ints.less(d, 0) for s, d in zip(b._s, b._d, strict=True) if not ints.is_one(s)]
    if True not in down:
        return False
    return any(ints.is_zero(d) is not True and not ints.less(d, 0) for d in b._d)


def walk(
    extents: list[Any],
    strides: list[Any],
    extent: Leaf,
    step: Leaf,
    used: list[Any],
    numbers: bool,
    told: list[str],
) -> Modes:
    """Return the modes of i -> A(i*step), i < extent, and add the digits that it fills to `used`.

    While step is a multiple of a digit's extent, all multiples have 0 there. Otherwise the mode
    stays within the digit, or covers all of it and continues in the next with step 1. Each decision
    is recorded in `told`. Raises Departs or, for undecided symbols, LayoutError.
    """
    note = told.append
    if ints.is_zero(step):
        note("visits index 0 only: stride 0 stays" if not ints.is_one(extent) else VISITS_ZERO)
        return [(extent, 0)]
    if numbers and extent == 1:
        note(VISITS_ZERO)
        return [(1, _stride_of_one(extents, strides, step))]
    if not ints.settle(ints.leq, 0, step, "composition"):
        note("mirrors the mode of positive stride")
        mirror = walk(extents, strides, extent, ints.neg(step), used, numbers, [])
        return [(s, ints.neg(d)) for s, d in mirror]
    modes: Modes = []
    left, hop, before = extent, step, list(used)
    for k in range(len(extents) - 1):
        size = extents[k]
        if ints.divides(size, hop):
            note(f"skip digit {k} (extent {size})")
            hop = ints.div(hop, size)
            continue
        reach = ints.mul(ints.sub(left, 1), hop)
        run = left
        if ints.less(reach, size):
            note(f"steps of {hop} stay inside digit {k} (extent {size})")
        else:
            run = ints.div(size, hop)
            if not (_divides(hop, size, numbers) and _divides(run, left, numbers)):
                note(_unsettled(hop, size, k))
                used[:] = before
                return _fitted(extents, strides, extent, step, used)
            note(f"steps of {hop} cross digit {k} (extent {size}) in runs of {run}")
            reach = ints.sub(size, hop)
        modes.append((run, ints.mul(hop, strides[k])))
        used[k] = ints.add(used[k], reach)
        if run is left:
            return modes
        left, hop = ints.div(left, run), 1
        if ints.is_one(left):
            return modes
    last = len(extents) - 1
    note(f"then digit {last}" if last else f"{hop} steps of the only digit")
    return [*modes, (left, ints.mul(hop, strides[last]))]


VISITS_ZERO = "visits index 0 alone"


def _stride_of_one(extents: list[int], strides: list[int], step: int) -> int:
    """Return the stride of an extent-1 mode: it has no effect; CuTe divides it down the digits."""
    magnitude = abs(step)
    for size in extents[:-1]:
        magnitude = -(-magnitude // size)
    return (magnitude if step > 0 else -magnitude) * strides[-1]


def _divides(a: Leaf, b: Leaf, numbers: bool) -> bool:
    """Decide whether b is a multiple of a; refuse symbols for which this is unknown."""
    if numbers:
        return bool(ints.divides(a, b))
    if ints.settle(ints.divides, a, b, "composition"):
        return True
    facts = {"step": a, "size": b, "assumption": f"{a} divides {b}"}
    raise refusal("composition-symbols", operation="composition", **facts)


def _unsettled(hop: Leaf, size: Leaf, k: int) -> str:
    if hop >= size:
        return f"{hop} and extent {size} of digit {k} do not divide, so it is fitted"
    return f"steps of {hop} do not fill digit {k} (extent {size}) evenly"


def _fitted(
    extents: list[int], strides: list[int], extent: int, step: int, used: list[int]
) -> Modes:
    modes = fit_mode(extents, strides, extent, step)
    for k, peak in enumerate(peaks(extent, step, extents[:-1])):
        used[k] += peak
    return modes


# -- coordinate strides


def _by_path(a: Layout, b: Layout) -> Layout:
    """Compose each leaf of b with the mode of a that it names; leaves that name the same mode must
    add up in it.
    """
    results: dict[tuple[int, ...], Layout] = {}
    for path in components(b, "composition"):
        _require_mode(a, b, path)
        # leaves of other paths become broadcasts, so that one composition checks the carries
        # of this mode
        values = [step.value if getattr(step, "path", None) == path else 0 for step in b._d]
        results[path] = composition(get(a, path), with_strides(b, values))
    parts = [
        get(results[step.path], leaf_path(b.shape, k))
        if step.__class__ is ScaledBasis
        else Layout(b._s[k], step)
        for k, step in enumerate(b._d)
    ]
    return nested(b, [list(zip(part._s, part._d, strict=True)) for part in parts])


def _require_mode(a: Layout, b: Layout, path: tuple[int, ...]) -> None:
    """Refuse the path of a coordinate stride of b that is not a mode of a."""
    shape = a.shape
    for index in path:
        if shape.__class__ is not tuple or index >= len(shape):
            stride = next(step for step in b._d if getattr(step, "path", None) == path)
            facts: dict[str, Any] = {"stride": stride, "mode": path, "rank": len(a)}
            raise refusal("composition-codomain", operation="composition", a=a, b=b, **facts)
        shape = shape[index]


def _packed(a: Layout, b: Layout) -> tuple[Layout, Callable[[int], Any], Callable[[int], str]]:
    """Return a with component k of its coordinates as the k-th digit, in a radix that no value
    reaches; the function that unpacks strides of the result; and the function that formats a
    coordinate.
    """
    paths = sorted({step.path for step in a._d if step.__class__ is ScaledBasis})
    places = {path: k for k, path in enumerate(paths)}
    odd = next((step for step in a._d if step.__class__ is not ScaledBasis and step), None)
    if odd is not None:
        raise refusal("mixed-strides", operation="composition", value=odd, basis=a)
    reach = 1 + sum(s * abs(d) for s, d in zip(b._s, b._d, strict=True))
    largest = max(abs(step.value) for step in a._d if step.__class__ is ScaledBasis)
    bits = (4 * reach * (largest + 1)).bit_length()
    half = 1 << bits - 1

    def pack(step: Leaf) -> int:
        return step.value << bits * places[step.path] if step.__class__ is ScaledBasis else 0

    def nonzero(packed: int) -> dict[int, int]:
        digits = {}  # signed, each between -half and half
        while packed:
            k = ((packed & -packed).bit_length() - 1) // bits
            digits[k] = ((packed >> bits * k) + half) % (2 * half) - half
            packed -= digits[k] << bits * k
        return digits

    def steps(packed: int) -> list[tuple[int, ScaledBasis]]:
        digits = nonzero(packed)
        return [(digits.get(k, 0), ScaledBasis(1, path)) for k, path in enumerate(paths)]

    def unpack(packed: int) -> Leaf:
        parts = [ScaledBasis(digit, paths[k]) for k, digit in nonzero(packed).items()]
        if len(parts) > 1:
            shown = " + ".join(map(str, parts))
            raise refusal("composition-diagonal", operation="composition", a=a, strides=shown)
        return parts[0] if parts else 0

    packed = with_strides(a, [pack(step) for step in a._d])
    return packed, unpack, lambda value: show(sum_steps(steps(value)))


# -- the refusal: its witness, and the repairs that were tried and work

TRIED_REPAIRS = 64
REPAIRED = 1 << 16  # repairs are searched for up to this many coordinates of b


def _refuse(
    a: Layout, b: Layout, departs: Departs, given: Layout, shown: Callable[[int], object]
) -> NoReturn:
    """Raise the refusal of composition(a, b), with its witness and the repairs that were tried and
    work. `given` is the user's argument if a replaces it, `shown` converts a's values back.
    """
    coord = departs.coord
    mode = next((k for k in reversed(range(len(coord))) if coord[k]), 0)
    index = 0
    for c, extent in zip(reversed(coord), reversed(b._s), strict=True):
        index = index * extent + c
    path = leaf_path(b.shape, mode)
    pair = f"make_composed_layout({given}, 0, {b})"
    repairs = [*_repairs(a, b, mode, given), (f"keep the pair as {pair}", pair)]
    raise refusal(
        "composition-departs",
        operation="composition",
        a=given,
        b=b,
        mode=path,
        place=f"mode {format_mode(path)} of b" if path else "b",
        index=index,
        visited=sum(c * d for c, d in zip(coord, b._d, strict=True)),
        got=shown(departs.got),
        fitted=shown(departs.fitted),
        repairs=", or ".join([text for text, _ in repairs]),
        expressions=tuple([expression for _, expression in repairs if expression]),
    ) from None


def _repairs(a: Layout, b: Layout, leaf: int, given: Layout) -> Iterator[tuple[str, str]]:
    """Yield changes of one extent, in b or in coalesced a, that make the composition exist: as text
    and as an expression ("": none, where `given` is not a).
    """
    path = leaf_path(b.shape, leaf)
    where = f"mode {format_mode(path)} of b" if path else "b"
    old = b._s[leaf]
    for sizes, word in ((range(old - 1, 1, -1), "shrink"), (range(old + 1, 2 * old + 1), "pad")):
        for size in sizes[:TRIED_REPAIRS]:
            changed = _with_extent(b, leaf, size)
            if _composes(a, changed):
                text = f"{word} {where} from {old} to {size}"
                yield text, f"composition({given}, {changed})"
                break
    flat = coalesce(a)
    for k, extent in enumerate(flat._s[:-1]):
        for size in range(extent + 1, 2 * extent + 1)[:TRIED_REPAIRS]:
            changed = _with_extent(flat, k, size)
            if _composes(changed, b):
                text = f"pad extent {extent} of a to {size}"
                yield text, f"composition({changed}, {b})" if given is a else ""
                break


def _with_extent(layout: Layout, leaf: int, extent: int) -> Layout:
    s = [*layout._s[:leaf], extent, *layout._s[leaf + 1 :]]
    return raw(nested_like(layout.shape, s), layout.stride, s, layout._d)


def _composes(a: Layout, b: Layout) -> bool:
    """Return whether composition(a, b) exists; for small b only, to be cheap."""
    return b.size() <= REPAIRED and compose_or_none(a, b) is not None
