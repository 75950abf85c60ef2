"""Queries of layouts and int tuples: shape, stride, size, rank, depth, cosize, coshape, and
coordinates of offsets.

Source: cutlass include/cute/layout.hpp.
"""

from __future__ import annotations

from cute_py.errors import LeafTypeError, refusal
from cute_py.integers import ints
from cute_py.layout import AbstractComposed, AbstractF2, AbstractTensor, Mapped, special, tuples
from cute_py.layout.basis import ScaledBasis, sum_steps
from cute_py.layout.coords import crd2idx, idx2crd
from cute_py.layout.layout import INTS, Layout, require_layout
from cute_py.layout.tuples import is_underscore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.types import Alike, AnyInt, AnyLayout, IntTuple, LayoutLike, Leaf, Mode


def shape(x: LayoutLike, mode: Mode = ()) -> IntTuple:
    """Return the shape of a layout (or an int tuple itself), or of the mode at a path.

    >>> shape(Layout((4, (2, 3))), (1, 0))
    2
    """
    return at_path(tuples.read(x, "shape"), mode, x)


def stride(layout: AnyLayout, mode: Mode = ()) -> IntTuple:
    """Return the stride of a layout, or of the mode at a path.

    >>> stride(Layout((4, 8), (8, 1)), 0)
    8
    """
    if not tuples.is_shaped(layout):
        require_layout(layout, "stride")
    return at_path(layout.stride, mode, layout)


def size(x: LayoutLike, mode: Mode = ()) -> AnyInt:
    """Return the number of coordinates of a layout or shape (elements), or of the mode at a path.

    >>> size(Layout((4, 8))), size((4, (2, 3)), 1)
    (32, 6)
    """
    if x.__class__ is Layout:
        if mode.__class__ is tuple and not mode:
            return x.size()
        if mode.__class__ is int and x.shape.__class__ is tuple and 0 <= mode < len(x.shape):
            return tuples.product(x.shape[mode])
    return tuples.product(shape(x, mode))


def rank(x: LayoutLike, mode: Mode = ()) -> int:
    """Return the number of modes of a layout or int tuple, or of the mode at a path; an integer has
    rank 1.

    >>> rank(Layout((4, (2, 3)))), rank(Layout((4, (2, 3))), 1)
    (2, 2)
    """
    return tuples.rank(shape(x, mode))


def depth(x: LayoutLike, mode: Mode = ()) -> int:
    """Return the nesting depth of a layout or int tuple: 0 for an integer, 1 for a flat tuple.

    >>> depth(Layout((4, (2, 3)))), depth(7)
    (2, 0)
    """
    return tuples.depth(shape(x, mode))


def coshape(layout: AnyLayout, mode: Mode = ()) -> IntTuple:
    """Return the smallest coordinate that is above every offset the strides can reach, taken in
    magnitude.

    Law: product(coshape(L)) == cosize(L). Source: cutlass layout.hpp `coshape`.

    >>> from cute_py import make_identity_layout
    >>> coshape(Layout((4, 8), (8, 1))), coshape(make_identity_layout((4, 8)))
    (32, (4, 8))
    """
    if layout.__class__ is not Layout:
        return special.query_composed("coshape", layout, mode)
    parts = zip(*map(tuples.leaves, (shape(layout, mode), stride(layout, mode))), strict=True)
    reach = [(ints.sub(s, 1), _magnitude(d)) for s, d in parts]
    return tuples.transform_leaf(lambda c: ints.add(c, 1), sum_steps(reach))


def _magnitude(step: Leaf) -> IntTuple:
    if step.__class__ is ScaledBasis:
        return step.__class__(ints.abs_(step.value), step.path)
    return ints.abs_(step)


def cosize(layout: AnyLayout, mode: Mode = ()) -> AnyInt:
    """Return one more than the largest offset that the strides can reach, taken in magnitude
    (elements).

    With strides >= 0 that is max(offsets) + 1, the size of an allocation. For a ComposedLayout CuTe
    gives the inner layout's cosize; here the outer map counts, too. Source: cutlass layout.hpp
    `cosize`.

    >>> cosize(Layout((4, 8), (8, 1))), cosize(Layout((4, 2), (-1, 4)))
    (32, 8)
    """
    if layout.__class__ is not Layout:
        return special.query_composed("cosize", layout, mode)
    if layout._kind == INTS and mode.__class__ is tuple and not mode:
        return 1 + sum([(s - 1) * abs(d) for s, d in zip(layout._s, layout._d, strict=True)])
    return tuples.product(coshape(layout, mode))


def coprofile(layout: AnyLayout, mode: Mode = ()) -> IntTuple:
    """Return zeros in the profile of the layout's codomain: 0 for offsets, a tuple for coordinates.

    >>> from cute_py import make_identity_layout
    >>> coprofile(Layout((4, 8))), coprofile(make_identity_layout((4, (2, 3))))
    (0, (0, (0, 0)))
    """
    return tuples.repeat_like(coshape(layout, mode), 0)


def is_static(x: LayoutLike) -> bool:
    """Return whether every leaf of an int tuple or layout is known, that is, contains no symbol.

    >>> is_static(Layout((4, 8)))
    True
    """
    if x.__class__ is Layout:
        return all(_known(leaf) for leaf in (*x._s, *x._d))
    if isinstance(x, AbstractTensor):
        return is_static(x.layout)
    if isinstance(x, AbstractF2):
        return True
    if isinstance(x, AbstractComposed):
        parts = [x.inner, x.outer] if isinstance(x.outer, Mapped) else [x.inner]
        return all(map(is_static, parts)) and all(map(ints.is_static, tuples.leaves(x.offset)))
    leaves = [leaf for leaf in tuples.leaves(x) if not is_underscore(leaf)]
    return all(_known(ints.normalize(leaf, "is_static")) for leaf in leaves)


def _known(leaf: Leaf) -> bool:
    return ints.is_static(leaf.value if leaf.__class__ is ScaledBasis else leaf)


def at_path(part: IntTuple, mode: Mode, whole: IntTuple) -> IntTuple:
    """Return the part of an int tuple at an index or path; refuse a path that is not in `whole`."""
    for step in mode if mode.__class__ is tuple else (mode,):
        modes = part if part.__class__ is tuple else (part,)
        step = step if step.__class__ is int else _mode_index(step)
        if step is None or not -len(modes) <= step < len(modes):
            text = tuples.show(whole) if whole.__class__ is tuple else str(whole)
            raise refusal(
                "mode-range",
                operation="get",
                mode=mode,
                layout=text,
                rank=len(modes),
                last=len(modes) - 1,
            )
        part = modes[step]
    return part


def leaf_path(shape: IntTuple, leaf: int) -> tuple[int, ...]:
    """Return the mode path of the leaf-th leaf of `shape`."""
    paths: list[tuple[int, ...]] = []

    def visit(part: IntTuple, path: tuple[int, ...]) -> None:
        if part.__class__ is tuple:
            for i, mode in enumerate(part):
                visit(mode, (*path, i))
        else:
            paths.append(path)

    visit(shape, ())
    return paths[leaf]


def _mode_index(step: object) -> int | None:
    """Return a NumPy integer as int, None for anything that is not an index."""
    try:
        return ints.as_int(ints.normalize(step, "get"), "get")
    except LeafTypeError:
        return None


def inner_of(layout: Alike) -> Alike:
    """Return the inner layout of a composed layout, and a plain layout as it is."""
    return layout.inner if isinstance(layout, AbstractComposed) else layout


# -- the inverse direction, for compact layouts


def get_hier_coord(layout: Layout, index: Leaf) -> IntTuple:
    """Return the coordinate congruent to the shape with layout(coordinate) == index.

    Raises LayoutError when no coordinate is found: the layout has no such offset, or overlaps
    itself. Source: cutlass layout.hpp `get_hier_coord` (compact layouts only).

    >>> get_hier_coord(Layout((4, (2, 4)), (8, (4, 1))), 11)
    (1, (0, 3))
    """
    require_layout(layout, "get_hier_coord")
    index = ints.normalize(index, "get_hier_coord")
    coord = idx2crd(index, layout.shape, layout.stride) if _compact(layout) else None
    if coord is None or ints.same(crd2idx(coord, layout.shape, layout.stride), index) is False:
        coord = _by_remainders(layout, index)
        if coord is None or crd2idx(coord, layout.shape, layout.stride) != index:
            raise refusal("not-compact", operation="get_hier_coord", layout=layout, index=index)
    return coord


def _by_remainders(layout: Layout, index: Leaf) -> IntTuple:
    """Return the coordinate found greedily from the largest stride down: correct for modes that do
    not overlap, with or without gaps. None where a stride is negative.
    """
    modes = [k for k, extent in enumerate(layout._s) if extent != 1]
    if layout._kind != INTS or index.__class__ is not int or any(layout._d[k] < 1 for k in modes):
        return None
    coord = [0] * len(layout._s)
    for k in sorted(modes, key=layout._d.__getitem__, reverse=True):
        coord[k] = max(0, min(index // layout._d[k], layout._s[k] - 1))
        index -= coord[k] * layout._d[k]
    return tuples.nested_like(layout.shape, coord)


def _compact(layout: Layout) -> bool:
    return all(
        ints.is_zero(d) is not True or ints.is_one(s)
        for s, d in zip(layout._s, layout._d, strict=True)
    )


def get_flat_coord(layout: Layout, index: Leaf) -> IntTuple:
    """Return the coordinate with one index per top-level mode and layout(coordinate) == index.

    >>> get_flat_coord(Layout((4, (2, 4)), (8, (4, 1))), 11)
    (1, 6)
    """
    require_layout(layout, "get_flat_coord")
    coord = get_hier_coord(layout, index)
    modes = zip(tuples.wrap(coord), tuples.wrap(layout.shape), strict=True)
    flat = tuple([crd2idx(c, s) for c, s in modes])
    return flat if len(flat) > 1 else flat[0]


def get_1d_coord(layout: Layout, index: Leaf) -> AnyInt:
    """Return the index i with layout(i) == index.

    >>> get_1d_coord(Layout((4, 8), (8, 1)), 11)
    13
    """
    require_layout(layout, "get_1d_coord")
    return crd2idx(get_hier_coord(layout, index), layout.shape)
