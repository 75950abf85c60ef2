"""The complement: the ordered layout that fills what another one leaves out of a codomain.

Source: cutlass include/cute/layout.hpp `complement`; Cecka, arXiv 2603.02298; the exact condition
(sorted by stride, every extent*stride divides the next stride) is Shah's, "A note on the algebra of
CuTe layouts".
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.layout import INTS, Layout, made, raw_flat
from cute_py.layout.tuples import ceil_div, leaves, product, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf


def complement(layout: AnyLayout, target: IntTuple = None) -> Alike:
    """Return the ordered layout R that fills what `layout` leaves out: (layout, R) is one-to-one
    and reaches `target`.

    Args:
        layout: a Layout without coordinate strides. Stride-0 and extent-1 modes are left out of
            account.
        target: the size to cover (elements): an integer, a shape (rounded up mode by mode, as CuTe
            does) or a layout's shape; left out, the cosize of the layout.

    Law: the offsets layout(i) + R(j) are distinct, R increases strictly, and there are at least
    `target` of them. Where every gap between modes is a multiple of what lies below, they fill [0,
    n) without holes. Raises LayoutError, naming the modes, where layout overlaps itself.
    Source: cutlass layout.hpp `complement`.

    >>> print(complement(Layout(4, 2), 24), complement(Layout((2, 2), (1, 6)), 24))
    (2,3):(1,8) (3,2):(2,12)
    """
    if layout.__class__ is not Layout:
        from cute_py.layout.bits.swizzled import complement_of

        return complement_of(layout, target)
    if target is not None and target.__class__ is not int:
        target = _checked_target(read(target, "complement"))
    if layout._kind != INTS or not _all_int(target):
        return made(_complement_leaves(layout, target), "complement", layout, target)
    extents: list[int] = []
    strides: list[int] = []
    filled = 1
    for stride, extent in sorted(zip(layout._d, layout._s)):  # noqa: B905 (hot; equal lengths)
        if stride == 0 or extent == 1:
            continue
        gap, rest = divmod(stride, filled)
        if gap < 1:
            _refuse(layout, stride, extent, filled)
        if rest:
            return made(_complement_leaves(layout, target), "complement", layout, target)
        if gap > 1:
            extents.append(gap)
            strides.append(filled)
        filled = stride * extent
    copies = 1 if target is None else _int_copies(filled, target)
    if copies > 1:
        extents.append(copies)
        strides.append(filled)
    if not extents:
        return made(raw_flat([1], [0]), "complement", layout, target)
    return made(raw_flat(extents, strides), "complement", layout, target)


def _refuse(layout: Layout, stride: IntTuple, extent: Leaf, filled: Leaf) -> None:
    from cute_py.layout.queries import leaf_path

    pairs = list(zip(layout._s, layout._d, strict=True))
    mode = leaf_path(layout.shape, pairs.index((extent, stride)))
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


def _complement_leaves(layout: Layout, target: IntTuple) -> Layout:
    """Build the complement leaf by leaf: symbols, a shape as target, or gaps that leave holes."""
    gaps, filled, loose = _gaps(layout)
    rest = _copies(filled, target)
    if loose is not None:
        missing = _missing_copies(layout, [rest, *[gap[0] for gap in gaps]], target)
        rest = ints.mul(rest, missing)
    return _layout_of([*gaps, (rest, filled)])


def require_gapless(tiler: Layout, target: IntTuple) -> None:
    """Refuse a tiler whose complement would leave elements of `target` in no tile: those between
    the last multiple of what the modes below a loose mode fill and its stride.
    """
    _, _, loose = _gaps(tiler)
    if loose is None:
        return
    stride, extent, filled = loose
    covered = ints.mul(filled, ints.div(stride, filled))
    if not ints.settle(ints.leq, product(target), covered, "complement"):
        _refuse(tiler, stride, extent, filled)


def hull(block: Layout, count: Leaf) -> Layout:
    """Return positions 0, 1, ... count - 1 (and on) for copies of `block` that do not overlap: its
    complement, open-ended.

    Raises LayoutError where block overlaps itself. Gaps that are no multiples only leave holes
    between the copies.
    """
    gaps, filled, _ = _gaps(block)
    rest = ints.ceil_div(ints.mul(block.size(), count), filled)
    enough = ints.ceil_div(count, product(tuple([gap[0] for gap in gaps])))
    return _layout_of([*gaps, (enough if ints.less(rest, enough) else rest, filled)])


def _gaps(layout: Layout) -> tuple[list[tuple[Any, Any]], Any, Any]:
    """Return the modes that fit between those of `layout`, the offsets that are filled, and the
    first loose mode.

    A mode is loose, (stride, extent, filled), where its stride is no multiple of what lies below.
    """
    modes = [
        (s, d)
        for s, d in zip(layout._s, layout._d, strict=True)
        if not ints.is_one(s) and not ints.is_zero(d)
    ]
    gaps: list[tuple[Any, Any]] = []
    filled: Any = 1
    loose = None
    for extent, stride in by_stride(modes):
        if stride.__class__ is ScaledBasis:
            raise refusal(
                "coordinate-strides", operation="complement", layout=layout, stride=stride
            )
        if not ints.settle(ints.leq, filled, stride, "complement"):
            _refuse(layout, stride, extent, filled)
        if not ints.settle(ints.divides, filled, stride, "complement"):
            loose = loose or (stride, extent, filled)
        gaps.append((ints.div(stride, filled), filled))
        filled = ints.mul(stride, extent)
    return gaps, filled, loose


def _layout_of(modes: list[tuple[Any, Any]]) -> Layout:
    kept = [mode for mode in modes if not ints.is_one(mode[0])] or [(1, 0)]
    if len(kept) == 1:
        return Layout(*kept[0])
    return Layout(tuple([mode[0] for mode in kept]), tuple([mode[1] for mode in kept]))


def _checked_target(target: IntTuple) -> IntTuple:
    for extent in leaves(target):
        if ints.less(extent, 1):
            raise refusal("extent-not-positive", operation="complement", value=extent, mode=())
    return target


def _all_int(target: IntTuple) -> bool:
    """Return whether the target is None, an int or a flat tuple of ints."""
    if target.__class__ is tuple:
        return all(extent.__class__ is int for extent in target)
    return target is None or target.__class__ is int


def _int_copies(filled: int, target: IntTuple) -> int:
    """Return `_copies` of ints."""
    if target.__class__ is int:
        if target < 1:
            raise refusal("extent-not-positive", operation="complement", value=target, mode=())
        return -(-target // filled)
    by_mode = size = 1
    left = filled
    for extent in target:
        size *= extent
        by_mode *= -(-extent // left)
        left = -(-left // extent)
    return max(by_mode, -(-size // filled))


def _copies(filled: Leaf, target: IntTuple) -> IntTuple:
    """Return how often `filled` offsets must repeat; a shape is rounded up mode by mode if that is
    enough.
    """
    if target is None:
        return 1
    whole = ints.ceil_div(product(target), filled)
    if target.__class__ is not tuple:
        return whole
    by_mode = product(ceil_div(target, filled))
    return whole if ints.less(by_mode, whole) else by_mode


def _missing_copies(layout: Layout, repeats: list[Any], target: IntTuple) -> Leaf:
    """Return how often the complement must be repeated to reach `target`; 1 if it reaches it."""
    from cute_py.layout.algebra.coalesce import filter_zeros
    from cute_py.layout.queries import cosize

    dense = filter_zeros(layout)
    needed = cosize(dense) if target is None else product(target)
    return ints.ceil_div(needed, ints.mul(dense.size(), product(tuple(repeats))))


def by_stride(modes: list[Any]) -> list[Any]:
    """Sort modes (extent, stride, ...) by stride with the protocol's comparison alone (insertion: a
    few modes at most).
    """
    done: list[Any] = []
    for mode in modes:
        place = len(done)
        while place and _below(mode, done[place - 1]):
            place -= 1
        done.insert(place, mode)
    return done


def _below(mode: tuple[Leaf, ...], other: tuple[Leaf, ...]) -> bool:
    if mode[1].__class__ is ScaledBasis or other[1].__class__ is ScaledBasis:
        return False
    return ints.settle(ints.less, mode[1], other[1], "complement")
