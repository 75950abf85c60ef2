"""The complement: the ordered layout that fills the offsets that another layout leaves out.

Modes sorted by stride leave gaps: below a mode of stride d, if `filled` offsets are filled, d //
filled copies of them fit. A coordinate stride fills its own component, so each component has a
separate complement, and the result is nested like the coordinates. Source: cutlass
include/cute/layout.hpp `complement`; Cecka, arXiv 2603.02298; the exact condition (sorted by
stride, every extent*stride divides the next stride) is Shah's, "A note on the algebra of CuTe
layouts"; for coordinates NVIDIA's cutlass_compiler, test/Dialect `complement.mlir`.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

from cute_py.errors import CuteError, refusal
from cute_py.integers import ints
from cute_py.layout import special
from cute_py.layout.basis import ScaledBasis, sum_steps
from cute_py.layout.layout import INTS, SYMBOLS, Layout, made, nested_in, raw_flat
from cute_py.layout.one_to_one import first_gap, is_one_to_one, steps_of, window
from cute_py.layout.queries import leaf_path
from cute_py.layout.tuples import leaves, product, read, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.one_to_one import Steps
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf

    Modes = list[tuple[Any, Any]]  # (extent, stride)
    Moving = list[tuple[Any, Any, Any]]  # (extent, stride, prefix), see components
    Leaves = tuple[list[Any], list[Any]]


def complement(layout: AnyLayout, target: IntTuple = None) -> Layout:
    """Return the ordered layout R that fills the offsets that `layout` leaves out: (layout, R) is
    one-to-one and reaches `target`.

    Args:
        layout: a Layout. Stride-0 and extent-1 modes are ignored.
        target: the size to cover (elements): an integer, a shape (rounded up mode by mode, as CuTe
            does) or a layout's shape; by default the cosize of the layout. For coordinate strides a
            shape is that of the coordinates, and an integer is reached along the last of them.

    Law: the offsets layout(i) + R(j) are distinct, R increases strictly, and the cosize of
    (layout, R) is at least `target`. Where every stride is a multiple of the offsets filled below
    it, the two fill [0, n) without holes. Raises LayoutError, naming the modes, where two indices
    of layout have the same offset, and UndecidedError where a symbol that may be 1 makes a
    difference. Source: cutlass layout.hpp `complement`.

    >>> print(complement(Layout(4, 2), 24), complement(Layout((2, 2), (1, 6)), 24))
    (2,3):(1,8) (3,2):(2,12)
    >>> print(complement(Layout((2, 3), (5, 3)), 24), complement(Layout(4, -1), 8))
    2:12 2:4
    >>> from cute_py import make_identity_layout
    >>> print(complement(make_identity_layout((4, 5)), (8, 15)))
    (2,3):(4@0,5@1)
    """
    if layout.__class__ is not Layout:
        return special.complement_of(layout, target)
    if target is not None and target.__class__ is not int:
        target = read(target, "complement")
    for extent in () if target is None else leaves(target):
        if ints.less(extent, 1):
            raise refusal("extent-not-positive", operation="complement", value=extent, mode=())
    result = _plain(layout, target) if layout._kind == INTS else None
    if result is None:
        result = filling(layout, target, [])
    return made(result, "complement", layout, target)


def _plain(layout: Layout, target: IntTuple) -> Layout | None:
    """The fast path for ints whose gaps are whole; None if the general path must decide."""
    gaps = _whole_gaps(layout)
    if gaps is None:
        return None
    s, d, filled = gaps
    copies = _copies(filled, target)
    if not ints.is_one(copies):
        s.append(copies)
        d.append(filled)
    return raw_flat(s or [1], d or [0], INTS if copies.__class__ is int else SYMBOLS)


def _whole_gaps(layout: Layout) -> tuple[list[Any], list[Any], int] | None:
    s, d, filled = [], [], 1
    for stride, extent in sorted(zip(layout._d, layout._s)):  # noqa: B905 (hot; equal lengths)
        if stride != 0 and extent != 1:
            if stride < filled or stride % filled:
                return None
            if stride > filled:
                s.append(stride // filled)
                d.append(filled)
            filled = stride * extent
    return s, d, filled


def without_ones(s: list[Any], d: list[Any]) -> Layout:
    """Return the flat layout of the modes whose extents are not 1, or 1:0."""
    if any(map(ints.is_one, s)):
        kept = [k for k, extent in enumerate(s) if not ints.is_one(extent)]
        s, d = [s[k] for k in kept] or [1], [d[k] for k in kept] or [0]
    return raw_flat(s, d)


# -- the general path: component by component, through the integer protocol


def filling(layout: Layout, target: IntTuple, told: list[str]) -> Layout:
    """Return the complement of each component of the layout's coordinates, nested like these;
    `told` receives the decisions.
    """
    by_path = components(layout, "complement")
    if list(by_path) in ([], [()]):
        modes = _filled_up(layout, by_path.get((), []), target, told)
        return without_ones([s for s, _ in modes], [d for _, d in modes])
    paths = _component_paths(list(by_path), target)
    results: dict[tuple[int, ...], Modes] = {}
    covered: Any = 1
    for k, path in enumerate(paths):
        wanted = _part(target, path)
        if target.__class__ is not tuple and target is not None:
            wanted = ints.ceil_div(target, covered) if k == len(paths) - 1 else None
        modes = _filled_up(layout, by_path.get(path, []), wanted, told)
        extent, step = modes[-1]
        covered = ints.mul(covered, ints.mul(extent, step))
        kept = [mode for mode in modes if not ints.is_one(mode[0])] or [(1, step)]
        results[path] = [(s, ScaledBasis(d, path)) for s, d in kept]
    nest = nested_in(results)
    return (
        nested_in({path[1:]: modes for path, modes in results.items()}) if len(nest) == 1 else nest
    )


def components(
    layout: Layout, operation: str, leaves: Leaves | None = None, *, zeros: bool = False
) -> dict[tuple[int, ...], Moving]:
    """Return path -> (extent, stride, prefix) of the modes that move along it, in the order of the
    paths; plain offsets have the path (). `prefix` is the product of the extents before the mode.

    Args:
        layout: a Layout.
        operation: the public name that the user called.
        leaves: other extents and strides of the same function, such as the coalesced ones.
        zeros: whether broadcasts count as modes, too.

    Raises LayoutError for strides of different codomains.
    """
    found: dict[tuple[int, ...], Moving] = {
        step.path: [] for step in layout._d if step.__class__ is ScaledBasis
    }
    prefix: Any = 1
    for extent, step in zip(*(leaves or (layout._s, layout._d)), strict=True):
        path, stride = getattr(step, "path", ()), getattr(step, "value", step)
        if not ints.is_one(extent) and (zeros or not ints.is_zero(stride)):
            found.setdefault(path, []).append((extent, stride, prefix))
        prefix = ints.mul(prefix, extent)
    paths = sorted(found)
    for path, after in pairwise(paths):
        if path == after[: len(path)]:
            value: Leaf = ScaledBasis(1, path) if path else 1
            other = ScaledBasis(1, after)
            raise refusal("mixed-strides", operation=operation, value=value, basis=other)
    return {path: found[path] for path in paths}


def _component_paths(paths: list[tuple[int, ...]], target: IntTuple) -> list[tuple[int, ...]]:
    """Return the paths of all components of the coordinates in order, including components that
    only the target has.
    """

    def visit(own: list[tuple[int, ...]], part: IntTuple, at: tuple[int, ...]) -> list[Any]:
        count = 1 + max([path[0] for path in own if path], default=-1)
        count = max(count, len(part)) if part.__class__ is tuple and () not in own else count
        if not count:
            return [at]
        modes = part if part.__class__ is tuple else ()
        found = []
        for k in range(count):
            inner = [path[1:] for path in own if path[:1] == (k,)]
            found += visit(inner, modes[k] if k < len(modes) else None, (*at, k))
        return found

    return visit(paths, target if target.__class__ is tuple else None, ())


def _part(target: IntTuple, path: tuple[int, ...]) -> IntTuple:
    """Return a shape's entry for the component at a path; None if it has none."""
    for step in path:
        if target.__class__ is not tuple or step >= len(target):
            return None
        target = target[step]
    return target


def _filled_up(layout: Layout, modes: Moving, target: IntTuple, told: list[str]) -> Modes:
    """Return the gaps between modes, and how often all of it is repeated to reach `target`."""
    modes = modes if layout._kind == SYMBOLS else sorted(modes)
    gaps, filled, loose, below = _gaps_or_window(layout, modes, told)
    copies = _copies(filled, target)
    for (extent, stride), before in reversed(below):
        if ints.is_one(extent) is False:
            break
        # without a mode whose extent may be 1, the modes below it would be repeated
        same = ints.mul(ints.div(stride, before), _copies(stride, target))
        if not ints.same(same, _copies(before, target)):
            ints.settle(ints.less, 1, extent, "complement")
    if loose is not None and target is not None:
        steps = [*[mode[:2] for mode in modes], *gaps]
        reach: Any = sum_steps([(ints.sub(s, 1), d) for s, d in steps])
        missing = ints.sub(ints.sub(product(target), 1), reach)
        if not ints.leq(missing, 0):
            least = ints.add(1, ints.ceil_div(missing, filled))
            copies = least if ints.less(copies, least) else copies
    if target is not None:
        told.append(f"offsets filled: {filled}; {copies} of these reach {show(target)}")
    return [*gaps, (copies, filled)]


def _steps(modes: Moving) -> Steps:
    return steps_of([mode[:2] for mode in modes])


def _gaps_or_window(layout: Layout, modes: Moving, told: list[str]) -> tuple[Any, Any, Any, Any]:
    """Return `gaps_of`; of modes that do so step into each other, or down, but never meet, the gap
    below their common step, and their window.
    """
    try:
        return gaps_of(layout, modes, told)
    except CuteError:
        if layout._kind == SYMBOLS or not is_one_to_one(_steps(modes)):
            raise
    step, filled = window(_steps(modes))
    told.append(f"but no two offsets are the same: one copy has {filled} offsets for itself")
    return [(step, 1)], filled, None, []


def gaps_of(layout: Layout, modes: Moving, told: list[str]) -> tuple[Any, Any, Any, Any]:
    """Return the modes that fit between the given ones, the number of filled offsets, the first
    loose mode, and each mode with the offsets filled below it.

    A mode is loose, (stride, extent, filled), where its stride is not a multiple of the offsets
    filled below. Each decision is recorded in `told`. Raises LayoutError where modes overlap.
    """
    gaps: Modes = []
    filled: Any = 1
    loose = None
    below = []
    for extent, stride, _ in by_stride(modes):
        if not ints.settle(ints.leq, filled, stride, "complement"):
            told.append(f"{filled} offsets are filled, past stride {stride}: the modes overlap")
            for mode in modes:
                ints.settle(ints.less, 1, mode[0], "complement")
            _refuse(layout, stride, extent, filled)
        if not ints.settle(ints.divides, filled, stride, "complement"):
            loose = loose or (stride, extent, filled)
            if ints.is_one(extent) is None:  # without it there would be no hole
                ints.settle(ints.less, 1, extent, "complement")
        gap = ints.div(stride, filled)
        room = "follows at once" if ints.is_one(gap) else f"leaves room: mode {gap}:{filled}"
        told.append(f"offsets filled: {filled}; stride {stride} {room}")
        gaps.append((gap, filled))
        below.append(((extent, stride), filled))
        filled = ints.mul(stride, extent)
    return gaps, filled, loose, below


def _refuse(layout: Layout, stride: Leaf, extent: Leaf, filled: Leaf) -> None:
    values = [getattr(step, "value", step) for step in layout._d]
    mode = leaf_path(
        layout.shape, list(zip(layout._s, values, strict=True)).index((extent, stride))
    )
    code = "complement-gap" if stride > 0 and stride >= filled else "complement-overlap"
    below = stride // filled * filled
    raise refusal(
        code,
        operation="complement",
        layout=layout,
        mode=mode,
        stride=stride,
        filled=filled,
        lower=below,
        upper=below + filled,
    )


def _copies(filled: Leaf, target: IntTuple) -> Leaf:
    """Return how often `filled` offsets must repeat; a shape is rounded up mode by mode if that is
    enough.
    """
    if target is None:
        return 1
    if target.__class__ is not tuple:
        return ints.ceil_div(target, filled)
    by_mode: Any = 1
    size: Any = 1
    left = filled
    for extent in leaves(target):
        by_mode = ints.mul(by_mode, ints.ceil_div(extent, left))
        left = ints.ceil_div(left, extent)
        size = ints.mul(size, extent)
    whole = ints.ceil_div(size, filled)
    return whole if ints.settle(ints.less, by_mode, whole, "complement") else by_mode


def by_stride(modes: list[Any]) -> list[Any]:
    """Sort modes (extent, stride, ...) by stride, using only the protocol's comparison (insertion
    sort: there are few modes).
    """
    done: list[Any] = []
    for mode in modes:
        place = len(done)
        while place and ints.settle(ints.less, mode[1], done[place - 1][1], "complement"):
            place -= 1
        done.insert(place, mode)
    return done


# -- for divides and products


def rest_of(tiler: Layout, target: IntTuple) -> Layout:
    """Return complement(tiler, target) for a divide, which must not lose an element.

    Refuses a tiler that would leave elements of `target` in no tile: the elements between a loose
    mode's stride and the last multiple of the offsets filled below it.
    """
    plain = _plain(tiler, target) if tiler._kind == INTS else None
    if plain is not None:
        return plain
    for path, modes in components(tiler, "complement").items():
        wanted = _part(target, path)
        try:
            _, _, loose, _ = gaps_of(tiler, modes, [])
        except CuteError:
            if tiler._kind == SYMBOLS or not _is_reached(modes, wanted):
                raise
            continue
        if loose is not None and wanted is not None:
            stride, extent, filled = loose
            covered = ints.mul(filled, ints.div(stride, filled))
            if not ints.settle(ints.leq, product(wanted), covered, "complement"):
                _refuse(tiler, stride, extent, filled)
    return filling(tiler, target, [])


def _is_reached(modes: Moving, wanted: IntTuple) -> bool:
    """Return whether modes of ints that step into each other, with the offsets below their common
    step, reach all that is wanted.
    """
    up = all(stride > 0 for _, stride, _ in modes)
    steps = _steps(modes)
    step, _ = window(steps)
    filled = first_gap(steps, step) if up else step
    return wanted is None or (is_one_to_one(steps) and bool(ints.leq(product(wanted), filled)))


def tiles_over(tiler: AnyLayout, target: IntTuple) -> Alike:
    """Return complement(tiler, target), of a plain layout as `rest_of` does."""
    return rest_of(tiler, target) if isinstance(tiler, Layout) else complement(tiler, target)


def hull(block: Layout, count: Leaf) -> Layout:
    """Return positions 0, 1, ... count - 1 (and on) for copies of `block` that do not overlap: its
    complement, open-ended, along the last component where block yields coordinates.

    Raises LayoutError where two indices of block have the same offset. Gaps that are not multiples
    only leave holes between the copies.
    """
    plain = _plain_hull(block, count) if block._kind == INTS else None
    return _open_ended(block, count) if plain is None else plain


def apart(block: Layout, count: Leaf) -> Layout:
    """Return positions for `count` copies of a block of ints that leave its gaps alone: every
    tiler of them is a layout.
    """
    modes = components(block, "complement").get((), [])
    return raw_flat([count], [window(_steps(modes))[1]])


def _plain_hull(block: Layout, count: Leaf) -> Layout | None:
    """The fast path for ints whose gaps are whole; None if the general path must decide."""
    gaps = _whole_gaps(block)
    if gaps is None or count.__class__ is not int:
        return None
    s, d, filled = gaps
    copies = max(-(-block.size() * count // filled), -(-count // prod(s)))
    s, d = (s, d) if copies == 1 else ([*s, copies], [*d, filled])
    return raw_flat(s or [1], d or [0], INTS)


def _open_ended(block: Layout, count: Leaf) -> Layout:
    found: Modes = []
    for path, modes in (components(block, "complement") or {(): []}).items():
        gaps, filled, _, _ = _gaps_or_window(block, modes, [])
        found += [(s, ScaledBasis(d, path) if path else d) for s, d in gaps]
    fitting = product(tuple([gap[0] for gap in found]))
    enough = ints.ceil_div(count, fitting)
    if not path:
        rest = ints.ceil_div(ints.mul(block.size(), count), filled)
        enough = enough if ints.less(rest, enough) else rest
    found.append((enough, ScaledBasis(filled, path) if path else filled))
    return without_ones([s for s, _ in found], [d for _, d in found])
