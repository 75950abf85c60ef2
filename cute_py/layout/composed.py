"""`ComposedLayout`: outer o offset o inner, for maps that no single layout computes, mainly
swizzled layouts.

The domain is the inner layout's, so operations on modes act on it alone. Source: cutlass
include/cute/layout_composed.hpp.
"""

from __future__ import annotations

import cute_py
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import AbstractComposed, AbstractF2, AbstractTensor, modes, queries, special
from cute_py.layout.basis import add_coordinates
from cute_py.layout.bits.f2 import F2Map
from cute_py.layout.bits.swizzle import Swizzle, compose_swizzles
from cute_py.layout.coords import crd2idx
from cute_py.layout.layout import Layout, on_inner
from cute_py.layout.modes import slice_, slice_and_offset
from cute_py.layout.tuples import canonical, has_underscore, is_underscore, show
from cute_py.records import Text, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from cute_py.dtypes.table import Array
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Mode, OffsetMap, Tiler


class ComposedLayout(Value, AbstractComposed):
    """The map c -> outer(offset + inner(c)).

    Args:
        outer: a Swizzle, Layout or F2 map, applied last.
        offset: an integer added to the inner offset (elements); a coordinate of the outer layout
            where the inner one yields coordinates.
        inner: a Layout (or ComposedLayout), which gives the domain: shape, size and rank.

    There is no stride: the map is not linear. Raises LayoutError or LeafTypeError for parts of
    other kinds.

    >>> tile = ComposedLayout(Swizzle(2, 0, 3), 0, Layout((8, 8), (8, 1)))
    >>> print(tile, tile(1, 0), tile(1, 1))
    Sw<2,0,3> o 0 o (8,8):(8,1) 9 8
    >>> from cute_py import make_identity_layout
    >>> print(ComposedLayout(Layout((6, 8)), (2, 4), make_identity_layout((4, 4)))(1, 1))
    33
    """

    __slots__ = ("inner", "offset", "outer")
    __match_args__ = ("outer", "offset", "inner")
    outer: Any
    offset: Any
    inner: Any

    def __init__(self, outer: OffsetMap, offset: IntTuple, inner: AnyLayout) -> None:
        if not callable(outer) or isinstance(outer, type):
            raise refusal(
                "composed-outer", operation="ComposedLayout", value=outer, type=type(outer).__name__
            )
        if inner.__class__ not in (Layout, ComposedLayout):
            raise refusal(
                "not-a-layout", operation="ComposedLayout", value=inner, type=type(inner).__name__
            )
        self.outer = outer
        read = ints.normalize if isinstance(outer, F2Map) else canonical
        self.offset = read(offset, "ComposedLayout")
        self.inner = inner

    def __str__(self) -> str:
        outer = f"({self.outer})" if self.outer.__class__ is ComposedLayout else str(self.outer)
        return f"{outer} o {show(self.offset)} o {self.inner}"

    def why(self) -> Text:
        """Return, step by step as text, how this layout was derived; see `explain`."""
        return cute_py.explain(self)

    @property
    def shape(self) -> IntTuple:
        """The shape of the inner layout."""
        return self.inner.shape

    @property
    def stride(self) -> NoReturn:
        """Refuse: outer o offset o inner has no strides."""
        raise refusal("no-stride", operation="stride", layout=self)

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, mode: Mode) -> Alike:
        """Return one mode (int or path) or a run of modes (slice), still under the outer map."""
        return composed(self.outer, self.offset, self.inner[mode])

    def __call__(self, *coord: IntTuple) -> IntTuple:
        """Return outer(offset + inner(coord)), or the sublayout where the coordinate has `_`."""
        c = coord[0] if len(coord) == 1 else coord
        if has_underscore(c):
            return slice_composed(c, self)[0]
        return ints.given(applied(self.outer, add_coordinates(self.offset, self.inner(c))))

    def size(self) -> IntTuple:
        """Return the number of coordinates (elements)."""
        return self.inner.size()

    def cosize(self) -> IntTuple:
        """Return one more than the largest offset; see `cosize`."""
        return query_composed("cosize", self)

    def offsets(self) -> Array:
        """Return all offsets as a NumPy int64 array in colexicographical order; see
        `tools.offsets`.
        """
        return cute_py.offsets(self)

    def changed(self, change: Callable[[Any], Any], operation: str) -> Alike:
        """Return the layout with `change` made to the inner one."""
        return composed(self.outer, self.offset, change(self.inner))

    def compose(self, *tilers: Tiler) -> Alike:
        """Return composition(self, tiler); several arguments form a by-mode tiler."""
        return composed(self.outer, self.offset, self.inner.compose(*tilers))

    def with_shape(self, *shape: IntTuple) -> Alike:
        """Return this layout read with another shape."""
        return composed(self.outer, self.offset, self.inner.with_shape(*shape))

    def tile(self, *tilers: Tiler) -> Alike:
        """Return tiled_divide(self, tiler); several arguments form a by-mode tiler."""
        return composed(self.outer, self.offset, self.inner.tile(*tilers))


def make_composed_layout(outer: OffsetMap, offset: IntTuple, inner: AnyLayout) -> ComposedLayout:
    """Return outer o offset o inner as it is, even if a plain layout would do; see
    `ComposedLayout`.

    >>> print(make_composed_layout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    """
    return ComposedLayout(outer, offset, inner)


def composed(outer: OffsetMap, offset: IntTuple, inner: AnyLayout) -> Alike:
    """Return outer o offset o inner; the inner layout itself where outer is Sw<0,...> and the
    offset 0, as in CuTe.
    """
    identity = outer.__class__ is Swizzle and outer.num_bits == 0
    if identity and ints.is_zero(offset):
        return inner
    return ComposedLayout(outer, offset, inner)


def applied(outer: OffsetMap, at: IntTuple) -> IntTuple:
    """Return outer(at); a coordinate may exceed the shape of a layout, and may omit last modes."""
    if at.__class__ is not tuple:
        return outer(at)
    if outer.__class__ is ComposedLayout:
        return applied(outer.outer, add_coordinates(outer.offset, applied(outer.inner, at)))
    if outer.__class__ is not Layout:
        return outer(at)
    missing = len(outer) - len(at)
    return crd2idx(at + (0,) * missing, outer.shape, outer.stride)


def require_composed(x: object, operation: str) -> ComposedLayout:
    """Return x if it is a ComposedLayout, otherwise refuse it."""
    if x.__class__ is not ComposedLayout:
        raise refusal("not-a-layout", operation=operation, value=x)
    return x


# -- composition


def compose_special(a: AnyLayout | F2Map, b: Tiler) -> Alike:
    """Return composition(a, b) where a or b is not a plain Layout (see `composition`)."""
    if isinstance(a, AbstractF2) or isinstance(b, AbstractF2):
        return special.compose_f2(a, Layout(b) if b.__class__ is int else b)
    if isinstance(a, F2Map):
        return _after_map(a, b)
    if isinstance(a, AbstractTensor):
        return on_inner("composition", lambda layout: layout.compose(b), a)
    if a.__class__ is ComposedLayout:
        return composed(a.outer, a.offset, cute_py.composition(a.inner, b))
    if a.__class__ is not Layout:
        raise refusal("not-a-layout", operation="composition", value=a)
    if isinstance(b, ComposedLayout):
        return special.composed_after(a, b)
    if isinstance(b, F2Map):
        return special.through(a, b, a.size())
    from cute_py.layout.algebra.divide import as_layout

    return cute_py.composition(a, Layout(as_layout(b, "composition").shape, 1))


def _after_map(a: F2Map, b: Tiler) -> Alike:
    if b.__class__ is Layout:
        return composed(a, 0, b)
    if b.__class__ is ComposedLayout:
        if isinstance(b.outer, F2Map):
            return composed(compose_swizzles(a, b.outer), b.offset, b.inner)
        return composed(a, 0, b)
    if isinstance(b, F2Map):
        return compose_swizzles(a, b)
    raise refusal("tiler-type", operation="composition", value=b, type=type(b).__name__)


# -- slicing


def slice_composed(coord: IntTuple, x: AnyLayout) -> tuple[Any, Any]:
    """Return (sublayout, offset) of a composed layout for a coordinate with `_` (see
    `modes.slice_and_offset`).

    Law: x(c with i for _) == sub(i) + offset. Where the offset bits and the free modes' bits are
    disjoint and the free modes do not reach both ends of a swizzled bit pair, the result is a
    plain Layout. Otherwise the swizzle stays.
    """
    x = require_composed(x, "slice_")
    free, fixed = slice_and_offset(coord, x.inner)
    total = add_coordinates(x.offset, fixed)
    if is_underscore(coord) or (coord.__class__ is tuple and _all_free(coord)):
        return composed(x.outer, x.offset, slice_(coord, x.inner)), 0
    if x.outer.__class__ is Swizzle and free.__class__ is Layout and total.__class__ is int:
        return special.sliced(x.outer, total, free)
    return composed(x.outer, total, free), 0


def _all_free(coord: IntTuple) -> bool:
    if coord.__class__ is tuple:
        return all(_all_free(c) for c in coord)
    return is_underscore(coord)


def offset_composed(coord: IntTuple, x: AnyLayout) -> tuple[Any, int]:
    """Return the layout with its origin moved to `coord`, and the offset 0: the move stays inside
    the outer map.
    """
    x = require_composed(x, "domain_offset")
    return ComposedLayout(x.outer, add_coordinates(x.offset, x.inner(coord)), x.inner), 0


# -- queries and inverses


def query_composed(name: str, x: AnyLayout, mode: Mode = ()) -> IntTuple:
    """Return cosize or coshape of the offsets that a composed layout actually reaches."""
    if name == "cosize" and isinstance(x, AbstractF2):
        return x.cosize() if mode == () else x[mode].cosize()
    x = x.layout if isinstance(x, AbstractTensor) else x
    x = x if x.__class__ is Layout else require_composed(x, name)
    whole: Alike = x
    part: Alike = modes.get(whole, mode) if mode != () else whole
    if part.__class__ is Layout:
        return getattr(queries, name)(part)
    return special.reach_of(part, name)


def inverse_composed(name: str, x: AnyLayout | F2Map) -> Alike:
    """Return the right_inverse or left_inverse, by name, of a layout that is not plain."""
    if is_underscore(x):
        return x
    if isinstance(x, F2Map):
        return x.inverse()
    if isinstance(x, AbstractF2):
        return getattr(x, name)()
    x = _merged(require_composed(x, name))
    if x.__class__ is Layout:
        return getattr(cute_py, name)(x)
    return getattr(special, f"{name}_of")(x)


def _merged(x: ComposedLayout) -> Alike:
    """Return the layout with two consecutive maps merged if no offset is between them."""
    below = x.inner
    both = below.__class__ is ComposedLayout and isinstance(below.outer, F2Map)
    if not both or not isinstance(x.outer, F2Map) or not ints.is_zero(x.offset):
        return x
    merged = composed(compose_swizzles(x.outer, below.outer), below.offset, below.inner)
    return _merged(merged) if merged.__class__ is ComposedLayout else merged
