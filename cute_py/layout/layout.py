"""`Layout`: a shape and a congruent stride, the map from coordinates to offsets (in elements).

A layout is immutable, including its leaves, and hashable. All-int layouts, the common case, keep
their leaves in two flat lists and take fast paths; `_kind` distinguishes the others. Source: Cecka,
"CuTe Layout Representation and Algebra" (arXiv 2603.02298); cutlass include/cute/layout.hpp.
"""

from __future__ import annotations

from functools import wraps
from math import prod

import cute_py  # the methods call its functions
from cute_py.errors import CuteError, refusal, shorten
from cute_py.integers import ints
from cute_py.layout import AbstractComposed, AbstractTensor, Mapped
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.coords import LayoutLeft, Major, check_coordinate, offset_at, packed_strides
from cute_py.layout.tuples import (
    MAX_DEPTH,
    canonical,
    has_underscore,
    leaves,
    nested_like,
    product,
    show,
)
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf, Mode, Tiler
    from cute_py.records import Text

    Function = TypeVar("Function", bound=Callable[..., Any])

# _kind: all int; int extents with coordinate strides; symbols somewhere
INTS, BASIS, SYMBOLS = 0, 1, 2


class Layout(Value, Mapped):
    """The map `shape:stride`: the offset of coordinate c is the sum of coordinate times stride over
    the leaves.

    Args:
        shape: an int tuple of extents, each at least 1 (elements).
        stride: a congruent int tuple (elements per step, or coordinate strides `E(i)`); by default
            the compact column-major strides; `LayoutLeft` or `LayoutRight` for either compact
            order.

    Law: layout(i) == layout(idx2crd(i, layout.shape)) for every index i. Raises LayoutError for
    extents below 1, a stride that is not congruent, or nests deeper than 64; LeafTypeError for
    leaves that are not integers.

    >>> row_major = Layout((4, 8), (8, 1))
    >>> print(row_major, row_major(2, 3), row_major(14), row_major[1])
    (4,8):(8,1) 19 19 8:1
    """

    __slots__ = ("_d", "_hash", "_kind", "_s", "_why", "shape", "stride")
    __match_args__ = ("shape", "stride")
    shape: Any
    stride: Any
    _s: list[Any]
    _d: list[Any]
    _kind: int
    _hash: int
    _why: tuple[str, tuple[Any, ...]] | None  # the operation and operands that made it

    def __init__(self, shape: IntTuple, stride: IntTuple = None) -> None:
        if stride is None or stride.__class__ is Major:
            shape, stride = _compact(shape, stride)
        s: list[Any] = []
        d: list[Any] = []
        kind = _walk(shape, stride, s, d, 0)
        if kind is None:
            shape, stride, s, d, kind = _checked(shape, stride)
        _set_shape(self, shape)
        _set_stride(self, stride)
        _set_s(self, s)
        _set_d(self, d)
        _set_kind(self, kind)
        _set_why(self, None)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not Layout:
            return NotImplemented
        return bool(self.shape == other.shape and self.stride == other.stride)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.shape, self.stride)))
            return self._hash

    def __str__(self) -> str:
        return f"{show(self.shape)}:{show(self.stride)}"

    def __len__(self) -> int:
        return len(self.shape) if self.shape.__class__ is tuple else 1

    def __iter__(self) -> Iterator[Layout]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, mode: Mode) -> Layout:
        """Return one mode (int, or a path such as (1, 0)), or a run of modes (slice)."""
        if isinstance(mode, slice):
            begin, end, step = mode.indices(len(self))
            return cute_py.select(self, list(range(begin, end, step)))
        return cute_py.get(self, mode)

    def __call__(self, *coord: IntTuple) -> IntTuple:
        """Return the offset of a coordinate or index, or the sublayout where the coordinate has
        `_`.

        A coordinate must be in the shape; an index past the size continues along the last mode, as
        in CuTe. Raises CoordinateError for negative or out-of-range coordinates, LayoutError for
        another profile.
        """
        c = coord[0] if len(coord) == 1 else coord
        if not self._kind:
            if c.__class__ is int:
                if c >= 0:
                    return offset_of(c, self._s, self._d)
            elif c.__class__ is tuple:
                offset = _offset_inside(c, self.shape, self.stride)
                if offset is not None:
                    return offset
        return ints.given(self._at(c))

    def _at(self, coord: IntTuple) -> IntTuple:
        if has_underscore(coord):
            return cute_py.slice_and_offset(coord, self)[0]
        return offset_at(check_coordinate(coord, self.shape), self.shape, self.stride)

    def size(self) -> IntTuple:
        """Return the number of coordinates (elements)."""
        return prod(self._s) if self._kind != SYMBOLS else product(self.shape)

    def cosize(self) -> IntTuple:
        """Return one more than the largest |offset| that the strides can reach; see `cosize`."""
        return cute_py.cosize(self)

    def offsets(self) -> IntTuple:
        """Return all offsets as a NumPy int64 array in colexicographical order; see
        `tools.offsets`.
        """
        return cute_py.offsets(self)

    def formula(self) -> Any:  # SymPy ships no types
        """Return the offset as a SymPy expression of the coordinates; see `proofs.formula`."""
        return cute_py.formula(self)

    def why(self) -> Text:
        """Return, step by step as text, how this layout was derived; see `explain`."""
        return cute_py.explain(self)

    def compose(self, *tilers: Tiler) -> Layout:
        """Return composition(self, tiler); several arguments form a by-mode tiler."""
        return cute_py.compose(self, *tilers)

    def with_shape(self, *shape: IntTuple) -> Layout:
        """Return this layout read with another shape: composition(self, Layout(shape))."""
        other = Layout(shape[0] if len(shape) == 1 else shape)
        return cute_py.composition(self, other)

    def tile(self, *tilers: Tiler) -> Layout:
        """Return tiled_divide(self, tiler); several arguments form a by-mode tiler."""
        tiler = tilers[0] if len(tilers) == 1 else tilers
        return cute_py.tiled_divide(self, tiler)

    def get_hier_coord(self, index: Leaf) -> IntTuple:
        """Return the coordinate, congruent to the shape, whose offset is `index`. The layout must
        be compact.
        """
        return cute_py.get_hier_coord(self, index)

    def get_flat_coord(self, index: Leaf) -> IntTuple:
        """Return the coordinate with one index per mode whose offset is `index`. The layout must be
        compact.
        """
        return cute_py.get_flat_coord(self, index)

    def get_1d_coord(self, index: Leaf) -> IntTuple:
        """Return the index whose offset is `index`. The layout must be compact."""
        return cute_py.get_1d_coord(self, index)

    @staticmethod
    def fit(table: object, shape: IntTuple = None, coshape: IntTuple = None) -> Alike:
        """Return the layout or map that computes `table` (offsets in colexicographical order, or an
        n-d array); see `fit`.
        """
        return cute_py.fit(table, shape, coshape)


# the slots' own setters: the fastest way to fill an object
_set_shape, _set_stride, _set_s, _set_d, _set_kind, _set_why = [
    vars(Layout)[name].__set__ for name in ("shape", "stride", "_s", "_d", "_kind", "_why")
]


def require_layout(x: object, operation: str) -> None:
    """Refuse anything that is not a Layout."""
    if x.__class__ is not Layout:
        raise refusal("not-a-layout", operation=operation, value=x)


def on_inner(operation: str, change: Callable[[Any], Any], x: AnyLayout) -> Alike:
    """Return x, a composed layout or a tensor, with its layout changed; refuse anything else."""
    if isinstance(x, (AbstractComposed, AbstractTensor)):
        return x.changed(change, operation)
    raise refusal("not-a-layout", operation=operation, value=x)


def raw(shape: IntTuple, stride: IntTuple, s: list[Any], d: list[Any], kind: int = INTS) -> Layout:
    """Return the layout of parts that are known to be well formed: s and d are the leaves of shape
    and stride.
    """
    layout = Layout.__new__(Layout)
    _set_shape(layout, shape)
    _set_stride(layout, stride)
    _set_s(layout, s)
    _set_d(layout, d)
    _set_kind(layout, kind)
    _set_why(layout, None)
    return layout


def raw_flat(s: list[Any], d: list[Any], kind: int | None = None) -> Layout:
    """Return the depth-1 layout of the leaves, an integer shape if there is only one."""
    kind = kind_of(s, d) if kind is None else kind
    if len(s) == 1:
        return raw(s[0], d[0], s, d, kind)
    return raw(tuple(s), tuple(d), s, d, kind)


def with_strides(layout: Layout, d: list[Any], kind: int | None = None) -> Layout:
    """Return the shape of a layout with other strides, leaf by leaf."""
    kind = kind_of(layout._s, d) if kind is None else kind
    return raw(layout.shape, nested_like(layout.shape, d), layout._s, d, kind)


def nested(layout: Layout, modes: list[list[tuple[Any, Any]]], kind: int | None = None) -> Layout:
    """Return the profile of a layout with each leaf replaced by modes (extent, stride), a tuple if
    there are several.
    """
    s = [extent for mode in modes for extent, _ in mode]
    d = [step for mode in modes for _, step in mode]
    kind = kind_of(s, d) if kind is None else kind
    if len(s) == len(modes):
        return raw(nested_like(layout.shape, s), nested_like(layout.shape, d), s, d, kind)
    pairs = [mode[0] if len(mode) == 1 else tuple(zip(*mode, strict=True)) for mode in modes]
    shape = nested_like(layout.shape, [pair[0] for pair in pairs])
    return raw(shape, nested_like(layout.shape, [pair[1] for pair in pairs]), s, d, kind)


def nested_in(by_path: dict[tuple[int, ...], list[tuple[Any, Any]]]) -> Layout:
    """Return the layout whose mode at each path has these modes (extent, stride); a path that is
    missing has extent 1.

    >>> print(nested_in({(0,): [(4, 1)], (2, 1): [(2, 4), (3, 8)]}))
    (4,1,(1,(2,3))):(1,0,(0,(4,8)))
    """
    if () in by_path:
        return of_modes(by_path[()])
    modes = []
    for k in range(1 + max(path[0] for path in by_path)):
        inner = {path[1:]: mode for path, mode in by_path.items() if path[0] == k}
        modes.append(nested_in(inner or {(): [(1, 0)]}))
    shape, stride = tuple([m.shape for m in modes]), tuple([m.stride for m in modes])
    s, d = [x for m in modes for x in m._s], [x for m in modes for x in m._d]
    return raw(shape, stride, s, d, kind_of(s, d))


def kind_of(s: list[Any], d: list[Any]) -> int:
    """Return the kind of a layout with these leaves."""
    kinds = {*map(type, s), *map(type, d)}
    if kinds <= {int}:
        return INTS
    return max(map(_leaf_kind, s, d))


def of_modes(modes: list[tuple[Any, Any]]) -> Layout:
    """Return the flat layout of modes (extent, stride)."""
    return raw_flat([extent for extent, _ in modes], [step for _, step in modes])


def made(layout: Layout, operation: str, *operands: object) -> Layout:
    """Record on a new layout how it was made, for `why`; equality and hash ignore it.

    The operands live as long as the result: half a kilobyte for each step of its history.
    """
    _set_why(layout, (operation, operands))
    return layout


def operation(function: Function) -> Function:
    """Make a function of a Layout, and of other operands, a public operation.

    It changes the inner layout of a composed layout, and the layout of a tensor. Its result records
    the history, and a refusal inside it is reported as part of the call.
    """
    name = function.__name__
    body: Callable[..., Alike] = function

    @wraps(function)
    def call(*operands: Any, **named: Any) -> Alike:
        if named:
            from inspect import signature

            operands = signature(function).bind(*operands, **named).args
        if operands and operands[0].__class__ is not Layout:
            x, *others = operands
            return on_inner(name, lambda inner: call(inner, *others), x)
        try:
            result = body(*operands)
        except CuteError as error:
            if error.facts.get("operation") == name:
                shorten(error)
                raise
            raise error.inside(f"{name}({', '.join(map(show, operands))})") from None
        new = result.__class__ is Layout and result is not operands[0]
        return made(result, name, *operands) if new else result

    return call


def make_layout(first: object, *parts: object) -> Layout:
    """Return the layout of a shape (and stride or order), or the layout whose modes are the given
    layouts.

    Args:
        first: a shape, or the first layout.
        parts: a stride, `LayoutLeft` or `LayoutRight`; or more layouts.

    Raises what `Layout` raises. Source: cutlass layout.hpp `make_layout`.

    >>> print(make_layout((4, 8)), make_layout(Layout(4, 1), Layout((2, 2), (4, 8))))
    (4,8):(1,4) (4,(2,2)):(1,(4,8))
    """
    if first.__class__ is not Layout and len(parts) < 2:
        return Layout(first, *parts)
    s: list[Any] = []
    d: list[Any] = []
    kind = 0
    layouts: Any = (first, *parts)
    for part in layouts:
        if part.__class__ is not Layout:
            require_layout(part, "make_layout")
        s += part._s
        d += part._d
        kind |= part._kind
    shape = tuple([part.shape for part in layouts])
    stride = tuple([part.stride for part in layouts])
    if tuple in map(type, shape) and _too_deep(shape):
        raise refusal("too-deep", operation="make_layout", limit=MAX_DEPTH)
    return raw(shape, stride, s, d, kind if kind < SYMBOLS else SYMBOLS)


def _too_deep(shape: tuple[Any, ...]) -> bool:
    """Return whether the tuple nests deeper than MAX_DEPTH levels."""
    level = shape
    for _ in range(MAX_DEPTH):
        level = tuple([inner for part in level if part.__class__ is tuple for inner in part])
        if not level:
            return False
    return True


def offset_of(index: int, s: list[int], d: list[int]) -> int:
    """Return the offset of an index of at least 0 in flat leaves; the last mode is unbounded."""
    offset = 0
    if not s:
        return 0
    for k in range(len(s) - 1):
        index, digit = divmod(index, s[k])
        offset += digit * d[k]
    return offset + index * d[-1]


def _offset_inside(coord: tuple[Any, ...], shape: IntTuple, stride: IntTuple) -> int | None:
    """Return the offset of a coordinate of ints inside of the shape; None for any other."""
    if shape.__class__ is not tuple or len(coord) != len(shape):
        return None
    offset = 0
    for c, extent, step in zip(coord, shape, stride):  # noqa: B905 (hot; equal lengths)
        if c.__class__ is int:
            if extent.__class__ is not int:
                inner, c = _nested_offset(c, extent, step)
                if c:
                    return None
                offset += inner
            elif 0 <= c < extent:
                offset += c * step
            else:
                return None
        else:
            part = _offset_inside(c, extent, step) if c.__class__ is tuple else None
            if part is None:
                return None
            offset += part
    return offset


def _nested_offset(index: int, shape: tuple[Any, ...], stride: tuple[Any, ...]) -> tuple[int, int]:
    """Return the offset of an index in a nested mode, and how far the index is past the mode."""
    offset = 0
    for extent, step in zip(shape, stride):  # noqa: B905 (hot; equal lengths)
        if extent.__class__ is int:
            index, digit = divmod(index, extent)
            offset += digit * step
        else:
            inner, index = _nested_offset(index, extent, step)
            offset += inner
    return offset, index


def _walk(shape: IntTuple, stride: IntTuple, s: list[Any], d: list[Any], level: int) -> int | None:
    """Collect the leaves of well-formed parts and return their kind; None means that the parts need
    the slow checks.
    """
    if shape.__class__ is not tuple:
        if shape.__class__ is int and stride.__class__ is int and shape > 0:
            s.append(shape)
            d.append(stride)
            return INTS
        return None
    if stride.__class__ is not tuple or len(stride) != len(shape) or level >= MAX_DEPTH:
        return None
    for extent, step in zip(shape, stride, strict=True):
        if extent.__class__ is int and step.__class__ is int and extent > 0:
            s.append(extent)
            d.append(step)
        elif _walk(extent, step, s, d, level + 1) is None:
            return None
    return INTS


def _compact(shape: IntTuple, major: Major | None) -> tuple[Any, Any]:
    if major is None and shape.__class__ is int and shape > 0:
        return shape, 1 if shape > 1 else 0
    _refuse_texts(shape)
    shape = canonical(shape, "Layout")
    return shape, packed_strides(shape, 1, LayoutLeft if major is None else major)


def _refuse_texts(*parts: object) -> None:
    """Refuse a text or a list, which other functions convert to a layout."""
    for part in parts:
        if isinstance(part, str):
            raise refusal("layout-text", operation="Layout", value=part)
        if isinstance(part, list):
            raise refusal("layout-list", operation="Layout", value=part)


def _checked(shape: IntTuple, stride: IntTuple) -> tuple[Any, Any, list[Any], list[Any], int]:
    """Normalise and check the parts leaf by leaf; raise for the first invalid one, by its mode."""
    _refuse_texts(shape, stride)
    shape, stride = canonical(shape, "Layout"), canonical(stride, "Layout")
    _check_modes(shape, stride, ())
    s, d = list(leaves(shape)), list(leaves(stride))
    return shape, stride, s, d, kind_of(s, d)


def _check_modes(shape: IntTuple, stride: IntTuple, mode: tuple[int, ...]) -> None:
    if shape.__class__ is tuple or stride.__class__ is tuple:
        if shape.__class__ is not stride.__class__ or len(shape) != len(stride):
            at = f" in mode {'.'.join(map(str, mode))}" if mode else ""
            raise refusal(
                "not-congruent", operation="Layout", shape=show(shape), stride=show(stride), at=at
            )
        for i, pair in enumerate(zip(shape, stride, strict=True)):
            _check_modes(*pair, (*mode, i))
    elif not ints.settle(ints.leq, 1, shape, "Layout"):
        raise refusal("extent-not-positive", operation="Layout", value=shape, mode=mode)


def _leaf_kind(extent: Leaf, stride: IntTuple) -> int:
    """Return BASIS for a leaf of ints, whose stride may be one of coordinates, or SYMBOLS."""
    step = stride.value if stride.__class__ is ScaledBasis else stride
    return BASIS if extent.__class__ is int and step.__class__ is int else SYMBOLS
