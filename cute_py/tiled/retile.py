"""`retile`: registers in the order in which a copy moves them. Source: cutlass copy_atom.hpp."""

from __future__ import annotations

from cute_py.errors import LayoutError, refusal
from cute_py.layout import tuples
from cute_py.layout.algebra.coalesce import coalesce
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.divide import zipped_divide
from cute_py.layout.algebra.inverse import right_inverse
from cute_py.layout.algebra.product import logical_product
from cute_py.layout.algebra.recast import upcast
from cute_py.layout.composed import on_inner
from cute_py.layout.layout import Layout
from cute_py.layout.modes import prepend
from cute_py.layout.queries import size
from cute_py.layout.slicing import slice_
from cute_py.layout.tuples import _

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import CuteError
    from cute_py.layout.types import Alike, AnyLayout
    from cute_py.tiled.tiled_copy import TiledCopy


def retile_layout(copy: TiledCopy, layout: AnyLayout) -> Alike:
    """Return a fragment (V,RestM,RestN,...) in the order in which `copy` moves it.

    Law: a fragment that `partition_fragment_C` of an MMA makes, retiled by `make_tiled_copy_C` of
    it, has its values where partition_S and partition_D of the copy have them. Raises LayoutError
    where a thread moves the blocks of its fragment in another order than that of their coordinates
    (CuTe's map knows no permutation of an MMA and would mix them up), where its values neither
    divide those of a thread of the copy nor are a multiple of them, or its rest is no whole tiles.
    """
    if layout.__class__ is not Layout:
        return on_inner("retile", lambda inner: retile_layout(copy, inner), layout)
    values, held = size(layout, 0), size(copy.layout_tv, 1)
    if len(layout) <= len(copy.tiler_mn) or (held % values and values % held):
        raise _not_whole(copy, layout)
    shape = tuple([tuples.shape_of(part) for part in copy.tiler_mn])
    by_tile = upcast(right_inverse(copy.layout_tv).with_shape(shape), copy.size() * values)
    blocks = coalesce(right_inverse(by_tile))
    if blocks != Layout(size(blocks)) and size(blocks) > 1:
        raise refusal("retile-order", operation="retile", tv=copy.layout_tv, layout=layout)
    order = logical_product(Layout(values), blocks)
    by_atom = zipped_divide(order, Layout(copy.atom.num_values))
    tile = prepend(tuples.product_each(by_tile.shape), values)
    try:
        moved = composition(zipped_divide(layout, tile), (by_atom, _))
    except LayoutError:
        raise _not_whole(copy, layout) from None
    if size(moved) != size(layout):
        raise _not_whole(copy, layout)
    return slice_((_, (0, *[_] * (len(layout) - 1))), moved)


def _not_whole(copy: TiledCopy, layout: AnyLayout) -> CuteError:
    return refusal(
        "retile-values",
        operation="retile",
        layout=layout,
        atom=copy.atom,
        held=size(copy.layout_tv, 1),
        rank=1 + len(copy.tiler_mn),
    )
