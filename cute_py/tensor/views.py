"""Views of a tensor: partitions, the part of a block or a thread, and `recast`, the same memory in
another dtype.

A partition divides the tensor by a tiler into ((tile...), (rest...)) and slices: an inner partition
keeps the tile at one coordinate, an outer partition keeps one element of every tile. All map a
Tensor to a Tensor, or a layout to (layout, offset), as `slice_and_offset` does. Source: cutlass
include/cute/tensor_impl.hpp, pointer_base.hpp.
"""

from __future__ import annotations

from math import gcd

from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import AbstractTensor
from cute_py.layout.algebra.divide import zipped_divide
from cute_py.layout.algebra.recast import downcast, upcast
from cute_py.layout.layout import INTS, Layout
from cute_py.layout.modes import slice_and_offset, unflatten
from cute_py.layout.queries import get_flat_coord, rank, size
from cute_py.layout.tuples import _, is_underscore, product_each, show, transform_leaf
from cute_py.tensor.tensor import Tensor, derived, require_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import overload

    from cute_py.dtypes.table import DtypeLike
    from cute_py.layout.types import Alike, AnyInt, AnyLayout, IntTuple, Leaf, Tiler


if TYPE_CHECKING:

    @overload
    def inner_partition(x: Tensor, tiler: Tiler, coord: IntTuple) -> Tensor: ...
    @overload
    def inner_partition(x: Layout, tiler: Tiler, coord: IntTuple) -> tuple[Layout, AnyInt]: ...
    @overload
    def inner_partition(
        x: AnyLayout, tiler: Tiler, coord: IntTuple
    ) -> tuple[AnyLayout, AnyInt]: ...


def inner_partition(x: AnyLayout, tiler: Tiler, coord: IntTuple) -> Alike:
    """Return the tile at `coord` of the rest: all elements inside the tiler.

    Args:
        x: a Tensor, Layout or ComposedLayout.
        tiler: a tiler, as for `zipped_divide`.
        coord: an index of the rest, or a tuple with one entry per mode; missing entries are `_`.

    Law: inner_partition(x, tiler, r)[t] == zipped_divide(x, tiler)[t, r].

    >>> print(*inner_partition(Layout((8, 6)), (4, 3), (1, 0)))
    (4,3):(1,8) 4
    """
    tiled = zipped_divide(x, tiler)
    tile, rest = rank(tiled, 0), rank(tiled, 1)
    return _part((_whole(tile), _filled(coord, rest)), tiled)


if TYPE_CHECKING:

    @overload
    def outer_partition(x: Tensor, tiler: Tiler, coord: IntTuple) -> Tensor: ...
    @overload
    def outer_partition(x: Layout, tiler: Tiler, coord: IntTuple) -> tuple[Layout, AnyInt]: ...
    @overload
    def outer_partition(
        x: AnyLayout, tiler: Tiler, coord: IntTuple
    ) -> tuple[AnyLayout, AnyInt]: ...


def outer_partition(x: AnyLayout, tiler: Tiler, coord: IntTuple) -> Alike:
    """Return the element at `coord` of every tile.

    Arguments as for `inner_partition`, with a coordinate of the tile.
    Law: outer_partition(x, tiler, t)[r] == zipped_divide(x, tiler)[t, r].

    >>> print(*outer_partition(Layout((8, 6)), (4, 3), (1, 0)))
    (2,2):(4,24) 1
    """
    tiled = zipped_divide(x, tiler)
    tile, rest = rank(tiled, 0), rank(tiled, 1)
    return _part((_filled(coord, tile), _whole(rest)), tiled)


if TYPE_CHECKING:

    @overload
    def local_tile(x: Tensor, tiler: Tiler, coord: IntTuple, proj: IntTuple = ...) -> Tensor: ...
    @overload
    def local_tile(
        x: Layout, tiler: Tiler, coord: IntTuple, proj: IntTuple = ...
    ) -> tuple[Layout, AnyInt]: ...
    @overload
    def local_tile(
        x: AnyLayout, tiler: Tiler, coord: IntTuple, proj: IntTuple = ...
    ) -> tuple[AnyLayout, AnyInt]: ...


def local_tile(x: AnyLayout, tiler: Tiler, coord: IntTuple, proj: IntTuple = None) -> Alike:
    """Return the tile of a block: `inner_partition` at its coordinate.

    Args:
        x: a Tensor, Layout or ComposedLayout.
        tiler: a tiler, as for `zipped_divide`, before `proj` is applied.
        coord: the block's coordinate among the tiles; `_` keeps the tiles of that mode.
        proj: a tuple in which `_` drops that entry of tiler and coord, so that all operands can
            share one tiler and one coordinate of the problem (M, N, K); 1 keeps the entry.

    Law: the tiles of all coordinates cover x once if the tiler divides it.

    >>> from cute_py.layout.tuples import _
    >>> print(*local_tile(Layout((128, 64)), (32, 64, 16), (1, 0, _), (1, _, 1)))
    (32,16,4):(1,128,2048) 32
    """
    if proj is not None:
        tiler, coord = (_projected("local_tile", proj, entries) for entries in (tiler, coord))
    return inner_partition(x, tiler, coord)


if TYPE_CHECKING:

    @overload
    def local_partition(
        x: Tensor, thr_layout: Layout, index: Leaf, proj: IntTuple = ...
    ) -> Tensor: ...
    @overload
    def local_partition(
        x: Layout, thr_layout: Layout, index: Leaf, proj: IntTuple = ...
    ) -> tuple[Layout, AnyInt]: ...
    @overload
    def local_partition(
        x: AnyLayout, thr_layout: Layout, index: Leaf, proj: IntTuple = ...
    ) -> tuple[AnyLayout, AnyInt]: ...


def local_partition(x: AnyLayout, thr_layout: Layout, index: Leaf, proj: IntTuple = None) -> Alike:
    """Return the elements of a thread if the shape of `thr_layout` is repeated over x.

    Args:
        x: a Tensor, Layout or ComposedLayout.
        thr_layout: a compact layout of thread indices.
        index: the thread, from 0, below the size of thr_layout.
        proj: a tuple in which `_` drops that mode of thr_layout, as in `local_tile`.

    Law: the partitions of all threads cover x once if the shape divides it and `proj` drops
    nothing. Raises CoordinateError for a thread out of range, LayoutError if thr_layout is not
    compact.

    >>> print(*local_partition(Layout((8, 32)), Layout((2, 16), (16, 1)), 18))
    (4,2):(2,128) 17
    """
    if thr_layout.__class__ is not Layout:
        raise refusal("not-a-layout", operation="local_partition", value=thr_layout)
    index = ints.normalize(index, "local_partition")
    count = size(thr_layout)
    if ints.less(index, 0) or ints.leq(count, index):
        facts = {"index": index, "layout": thr_layout, "count": count}
        raise refusal("thread-range", operation="local_partition", **facts)
    coord, tile = get_flat_coord(thr_layout, index), product_each(thr_layout.shape)
    if proj is not None:
        tile, coord = (_projected("local_partition", proj, part) for part in (tile, coord))
    return outer_partition(x, tile, coord)


def _projected(operation: str, proj: IntTuple, entries: Tiler) -> IntTuple:
    """Return the entries that the projection keeps; refuse a projection of another profile."""
    entries = entries if entries.__class__ is tuple else (entries,)
    if proj.__class__ is not tuple or len(entries) != len(proj):
        raise refusal("profile-mismatch", operation=operation, a=show(proj), b=show(entries))
    return tuple([entry for p, entry in zip(proj, entries, strict=True) if not is_underscore(p)])


def _part(coord: IntTuple, tiled: AnyLayout) -> Alike:
    if isinstance(tiled, AbstractTensor):
        return tiled.slice(coord)
    return slice_and_offset(coord, tiled)


def _whole(modes: int) -> IntTuple:
    """Return the coordinate that keeps all modes; a single mode keeps its brackets, as in CuTe."""
    return _ if modes == 1 else (_,) * modes


def _filled(coord: IntTuple, modes: int) -> IntTuple:
    """Pad a tuple with `_` to the number of modes; return an index unchanged."""
    if coord.__class__ is not tuple or is_underscore(coord):
        return coord
    return coord + (_,) * (modes - len(coord))


# -- recast


def recast(tensor: Tensor, dtype: DtypeLike) -> Tensor:
    """Return the tensor that reads the same memory in elements of `dtype`.

    Args:
        tensor: a Tensor of any engine except coordinates.
        dtype: the new type of the elements; its size may differ, also by less than a byte.

    Law: the bits of element c of the result are the bits of the elements of `tensor` at c // group
    (wider) or c * group (narrower), lowest first. Raises what `upcast` and `downcast` raise, and
    LayoutError for an origin inside a new element. Source: cutlass tensor_impl.hpp `recast`,
    layout.hpp `recast_layout`.

    >>> import numpy as np
    >>> from cute_py import make_tensor
    >>> words = make_tensor(np.array([0x03020100, 0x07060504], np.uint32))
    >>> print(recast(words, "u8").to_numpy(), recast(words, "u4").layout)
    [0 1 2 3 4 5 6 7] (16):(1)
    """
    require_tensor(tensor, "recast")
    row = as_dtype(dtype)
    if row.kind == "void":
        raise refusal("dtype-void", operation="recast")
    if tensor.dtype is None:
        raise refusal("recast-engine", operation="recast", engine=tensor.engine)
    old, new = tensor.dtype.bits, row.bits
    up, down = new // gcd(old, new), old // gcd(old, new)
    layout, offset = tensor.layout, tensor.engine.offset
    if up > 1:
        offset = _coarser_origin(tensor, layout, offset, up)
        layout = upcast(layout, up)
    if down > 1:
        layout = _one_unit(layout)
        offset = _finer_origin(layout, offset, down)
        layout = _finer(layout, down)
    return derived(tensor.engine.recast(row, offset), layout)


def _coarser_origin(tensor: Tensor, layout: AnyLayout, offset: Leaf, n: int) -> Leaf:
    """Return the origin in elements n times as large. If a stride is negative inside a new element,
    the old origin is not its first part.
    """
    first = ints.sub(offset, _backwards(layout, n))
    if ints.divides(n, first) is not True:
        raise refusal("recast-origin", operation="recast", tensor=tensor, offset=first, n=n)
    return ints.div(first, n)


def _backwards(layout: Alike, n: int) -> int:
    """Return how far negative strides reach back inside a new element (old elements)."""
    plain = layout
    while plain.__class__ is not Layout:
        plain = plain.inner
    if plain._kind != INTS:
        return 0
    back = 0
    for extent, step in zip(plain._s, plain._d, strict=True):
        if -n < step < 0:
            back += (min(extent, n // -step) - 1) * -step
    if back and layout is not plain:
        raise refusal("recast-backwards", operation="recast", layout=layout, n=n)
    return back


def _one_unit(layout: AnyLayout) -> Alike:
    """Return the layout with stride 1 in one mode, which `downcast` splits.

    The stride of a mode of extent 1 has no meaning: it becomes 0 where another mode has stride 1,
    and 1 where none has.
    """
    if layout.__class__ is not Layout or layout._kind != INTS:
        return layout
    units = [k for k, step in enumerate(layout._d) if abs(step) == 1]
    single = [k for k, extent in enumerate(layout._s) if extent == 1]
    kept = max(units or single[:1], key=lambda k: layout._s[k], default=None)
    changed = [k for k in single if k in units or k == kept]
    steps = tuple([int(k == kept) if k in changed else d for k, d in enumerate(layout._d)])
    return (
        layout
        if list(steps) == list(layout._d)
        else Layout(layout.shape, unflatten(steps, layout.shape))
    )


def _runs_back(layout: AnyLayout) -> bool:
    """Return whether the mode of unit stride goes from the end of memory to its start."""
    return layout.__class__ is Layout and -1 in layout._d


def _finer(layout: AnyLayout, n: int) -> Alike:
    """Return the layout of parts of elements. A mode of stride -1 goes through them backwards, too,
    where `downcast` has them in rising order.
    """
    if not _runs_back(layout):
        return downcast(layout, n)
    return _mirrored(downcast(_mirrored(layout), n))


def _mirrored(layout: Alike) -> Layout:
    """Return the layout with every stride negated."""
    return Layout(layout.shape, transform_leaf(ints.neg, layout.stride))


def _finer_origin(layout: AnyLayout, offset: Leaf, n: int) -> Leaf:
    """Return the origin in elements n times as small: the first part of an old element, or the last
    part if the mode of stride -1 is split.
    """
    return ints.add(ints.mul(offset, n), n - 1 if _runs_back(layout) else 0)
