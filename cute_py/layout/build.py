"""More ways to build a layout: by order, like another, identity, composed.

Source: cutlass include/cute/layout.hpp.
"""

from __future__ import annotations

from cute_py.layout import tuples
from cute_py.layout.algebra.coalesce import filter_zeros
from cute_py.layout.basis import make_basis_like
from cute_py.layout.coords import compact_col_major, compact_order
from cute_py.layout.layout import Layout, made, require_layout
from cute_py.layout.modes import get, take
from cute_py.layout.queries import inner_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.types import AnyLayout, IntTuple


def make_ordered_layout(shape: IntTuple, order: IntTuple) -> Layout:
    """Return the compact layout of `shape` whose modes are ranked by `order`, smallest first.

    Raises LayoutError unless order is weakly congruent to shape. Source: cutlass layout.hpp
    `make_ordered_layout`.

    >>> print(make_ordered_layout((2, 3, 4, 5), (0, 2, 3, 1)))
    (2,3,4,5):(1,10,30,2)
    """
    shape = tuples.read(shape, "make_ordered_layout")
    return Layout(shape, compact_order(shape, order))


def make_layout_like(layout: AnyLayout) -> Layout:
    """Return the compact layout with the shape of `layout` and its order of strides; stride-0 modes
    stay broadcast.

    Source: cutlass layout.hpp `make_layout_like`.

    >>> print(make_layout_like(Layout((2, 2, 2, 2), (0, 2, 4, 1))))
    (2,2,2,2):(0,2,4,1)
    """
    inner = inner_of(layout)
    require_layout(inner, "make_layout_like")
    stride = compact_order(filter_zeros(inner).shape, inner.stride)
    return made(Layout(inner.shape, stride), "make_layout_like", inner)


def fragment_layout(inner: Layout) -> Layout:
    """Return the layout of registers for `inner`; see `tensor.make_fragment_like`."""
    from cute_py.layout.algebra.product import tiled_product

    if len(inner) == 1:
        return Layout(inner.shape)
    first, others = get(inner, 0), take(inner, 1, len(inner))
    block = Layout(first.shape, compact_col_major(filter_zeros(first).shape))
    copies = make_ordered_layout(others.shape, others.stride)
    return made(tiled_product(block, copies), "make_fragment_like", inner)


def make_identity_layout(shape: IntTuple) -> Layout:
    """Return the layout that maps every coordinate of `shape` to itself.

    >>> print(make_identity_layout((4, (2, 3))), make_identity_layout((4, 8))(9))
    (4,(2,3)):(1@0,(1@0@1,1@1@1)) (1, 2)
    """
    shape = tuples.read(shape, "make_identity_layout")
    return Layout(shape, make_basis_like(shape))
