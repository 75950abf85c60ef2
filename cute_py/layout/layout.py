"""`Layout`: a shape and a congruent stride, the map from coordinates to offsets (in elements).

A layout is frozen to the leaves and hashable. All-int layouts, the common case, keep their leaves
in two flat lists and take fast paths; `_kind` tells the others apart. Source: Cecka, "CuTe Layout
Representation and Algebra" (arXiv 2603.02298); cutlass include/cute/layout.hpp.
"""

from __future__ import annotations

from cute_py.errors import CuteError, refusal
from cute_py.integers import ints
from cute_py.layout import Mapped
from cute_py.layout.tuples import MAX_DEPTH, has_underscore, show
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.layout.coords import Major
    from cute_py.layout.types import Alike, IntTuple, Leaf, Mode, Tiler

# _kind: all int; int extents with coordinate strides; symbols somewhere
INTS, BASIS, SYMBOLS = 0, 1, 2
WHY_DEPTH = 32  # how many steps of provenance a layout keeps alive


class Layout(Value, Mapped):
    """The map of `shape:stride`: coordinate c goes to the sum of coordinate times stride over the
    leaves.

    Args:
        shape: an int tuple of extents, each at least 1 (elements).
        stride: a congruent int tuple (elements per step, or coordinate strides `E(i)`); left out,
            the compact column-major strides; `LayoutLeft` or `LayoutRight` for either compact
            order.

    Law: layout(i) == layout(idx2crd(i, layout.shape)) for every index i. Raises LayoutError for
    extents below 1, a stride that is not congruent, or nests deeper than 64; LeafTypeError for
    leaves that are no integers.

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
    _why: tuple[Any, ...] | None

    def __init__(self, shape: IntTuple, stride: IntTuple = None) -> None:
        if stride is None or stride.__class__.__name__ == "Major":
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
        from cute_py.layout import modes

        if isinstance(mode, slice):
            begin, end, step = mode.indices(len(self))
            mode = list(range(begin, end, step))
            return modes.select(self, mode)  # type: ignore[no-any-return]
        return modes.get(self, mode)  # type: ignore[no-any-return]

    def __call__(self, *coord: IntTuple) -> IntTuple:
        """Return the offset of a coordinate or index, or the sublayout where the coordinate has
        `_`.

        A coordinate must lie in the shape; an index past the size runs on along the last mode, as
        in CuTe. Raises CoordinateError for negative or out-of-range coordinates, LayoutError for
        another profile.
        """
        c = coord[0] if len(coord) == 1 else coord
        if c.__class__ is int and c >= 0 and not self._kind:
            return _offset(c, self._s, self._d)
        return self._at(c)

    def _at(self, coord: IntTuple) -> IntTuple:
        if has_underscore(coord):
            from cute_py.layout.slicing import slice_and_offset

            return slice_and_offset(coord, self)[0]
        from cute_py.layout.coords import crd2idx
        from cute_py.layout.slicing import check_coordinate

        return crd2idx(check_coordinate(coord, self.shape), self.shape, self.stride)

    def size(self) -> IntTuple:
        """Return the number of coordinates (elements)."""
        if self._kind == SYMBOLS:
            total: Any = 1
            for s in self._s:
                total = ints.mul(total, s)
            return total
        return _product(self._s)

    def cosize(self) -> IntTuple:
        """Return one more than the largest |offset| that the strides can reach; see `cosize`."""
        from cute_py.layout.queries import cosize

        return cosize(self)

    def offsets(self) -> IntTuple:
        """Return all offsets as a NumPy int64 array in colexicographical order; see
        `tools.offsets`.
        """
        from cute_py.layout.tools import offsets

        return offsets(self)

    def formula(self) -> Any:  # SymPy ships no types
        """Return the offset as a SymPy expression of the coordinates; see `proofs.formula`."""
        from cute_py.layout.algebra.proofs import formula

        return formula(self)

    def why(self) -> str:
        """Return, step by step as text, how this layout was derived; see `explain`."""
        from cute_py.layout.algebra.explain import why

        return why(self)

    def compose(self, *tilers: Tiler) -> Layout:
        """Return composition(self, tiler); several arguments are a by-mode tiler."""
        from cute_py.layout.algebra.composition import composition

        tiler = tilers[0] if len(tilers) == 1 else tilers
        return composition(self, tiler)  # type: ignore[no-any-return]

    def with_shape(self, *shape: IntTuple) -> Layout:
        """Return this layout read with another shape: composition(self, Layout(shape))."""
        from cute_py.layout.algebra.composition import composition

        other = Layout(shape[0] if len(shape) == 1 else shape)
        return composition(self, other)  # type: ignore[no-any-return]

    def tile(self, *tilers: Tiler) -> Layout:
        """Return tiled_divide(self, tiler); several arguments are a by-mode tiler."""
        from cute_py.layout.algebra.divide import tiled_divide

        tiler = tilers[0] if len(tilers) == 1 else tilers
        return tiled_divide(self, tiler)  # type: ignore[no-any-return]

    def get_hier_coord(self, index: Leaf) -> IntTuple:
        """Return the coordinate, congruent to the shape, whose offset is `index`. The layout must
        be compact.
        """
        from cute_py.layout.queries import get_hier_coord

        return get_hier_coord(self, index)

    def get_flat_coord(self, index: Leaf) -> IntTuple:
        """Return the coordinate with one index per mode whose offset is `index`. The layout must be
        compact.
        """
        from cute_py.layout.queries import get_flat_coord

        return get_flat_coord(self, index)

    def get_1d_coord(self, index: Leaf) -> IntTuple:
        """Return the index whose offset is `index`. The layout must be compact."""
        from cute_py.layout.queries import get_1d_coord

        return get_1d_coord(self, index)

    @staticmethod
    def fit(table: object, shape: IntTuple = None, coshape: IntTuple = None) -> Alike:
        """Return what computes `table` (offsets in colexicographical order, or an n-d array); see
        `fit`.
        """
        from cute_py.layout.algebra.fit import fit

        return fit(table, shape, coshape)


# the slots' own setters: the fastest way to fill an object
_set_shape, _set_stride, _set_s, _set_d, _set_kind, _set_why = [
    vars(Layout)[name].__set__ for name in ("shape", "stride", "_s", "_d", "_kind", "_why")
]


def require_layout(x: object, operation: str) -> None:
    """Refuse what is no Layout."""
    if x.__class__ is not Layout:
        raise refusal("not-a-layout", operation=operation, value=x, type=type(x).__name__)


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


def raw_flat(s: list[Any], d: list[Any], kind: int = INTS) -> Layout:
    """Return the depth-1 layout of the leaves, an integer shape if there is only one."""
    if len(s) == 1:
        return raw(s[0], d[0], s, d, kind)
    return raw(tuple(s), tuple(d), s, d, kind)


def made(layout: Layout, operation: str, *operands: object) -> Layout:
    """Note on a fresh layout how it was made, for `why`; equality and hash do not see it."""
    level = 0
    for operand in operands:
        if operand.__class__ is Layout and operand._why is not None:
            level = max(level, operand._why[0])
    if level >= WHY_DEPTH:
        operands = tuple([_forgotten(operand) for operand in operands])
        level = 0
    _set_why(layout, (level + 1, operation, operands))
    return layout


def step(operation: str, operands: tuple[Any, ...], compute: Callable[[], Layout]) -> Layout:
    """Return `compute()` as the result of a public operation: it has that history, and what is
    refused inside of it is reported as part of that call.
    """
    try:
        result = compute()
        return made(result, operation, *operands) if result.__class__ is Layout else result
    except CuteError as error:
        shown = ", ".join(show(operand) for operand in operands)
        raise error.inside(f"{operation}({shown})") from None


def _forgotten(x: object) -> IntTuple:
    return raw(x.shape, x.stride, x._s, x._d, x._kind) if x.__class__ is Layout else x


def make_layout(*parts: object) -> Layout:
    """Return the layout of a shape (and stride or order), or the layout whose modes are the given
    layouts.

    Args:
        parts: `shape`, `shape, stride`, `shape, LayoutLeft | LayoutRight`, or one or more layouts.

    Raises what `Layout` raises. Source: cutlass layout.hpp `make_layout`.

    >>> print(make_layout((4, 8)), make_layout(Layout(4, 1), Layout((2, 2), (4, 8))))
    (4,8):(1,4) (4,(2,2)):(1,(4,8))
    """
    if not parts or parts[0].__class__ is not Layout:
        return Layout(*parts)
    s: list[Any] = []
    d: list[Any] = []
    kind = 0
    layouts: Any = parts
    for part in layouts:
        require_layout(part, "make_layout")
        s += part._s
        d += part._d
        kind |= part._kind
    shape = tuple([part.shape for part in layouts])
    stride = tuple([part.stride for part in layouts])
    if _too_deep(shape):
        raise refusal("too-deep", operation="make_layout", limit=MAX_DEPTH)
    return raw(shape, stride, s, d, min(kind, SYMBOLS))


def _too_deep(shape: tuple[Any, ...]) -> bool:
    """Return whether the tuple nests deeper than MAX_DEPTH levels."""
    level = shape
    for _ in range(MAX_DEPTH):
        level = tuple([inner for part in level if part.__class__ is tuple for inner in part])
        if not level:
            return False
    return True


def _offset(index: int, s: list[int], d: list[int]) -> int:
    offset = 0
    if not s:
        return 0
    for k in range(len(s) - 1):
        index, digit = divmod(index, s[k])
        offset += digit * d[k]
    return offset + index * d[-1]


def _product(s: list[int]) -> int:
    total = 1
    for extent in s:
        total *= extent
    return total


def _walk(shape: IntTuple, stride: IntTuple, s: list[Any], d: list[Any], level: int) -> int | None:
    """Collect the leaves of well-formed parts and return their kind; None sends the parts to the
    slow checks.
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
    from cute_py.layout.coords import LayoutLeft, compact_major
    from cute_py.layout.tuples import canonical

    shape = canonical(shape, "Layout")
    return shape, compact_major(shape, 1, LayoutLeft if major is None else major)


def _checked(shape: IntTuple, stride: IntTuple) -> tuple[Any, Any, list[Any], list[Any], int]:
    """Normalise and check the parts leaf by leaf; raise for the first offence, naming its mode."""
    from cute_py.layout.tuples import canonical

    shape, stride = canonical(shape, "Layout"), canonical(stride, "Layout")
    s: list[Any] = []
    d: list[Any] = []
    kind = _check_modes(shape, stride, s, d, ())
    return shape, stride, s, d, kind


def _check_modes(
    shape: IntTuple, stride: IntTuple, s: list[Any], d: list[Any], mode: tuple[int, ...]
) -> int:
    if shape.__class__ is tuple or stride.__class__ is tuple:
        if shape.__class__ is not stride.__class__ or len(shape) != len(stride):
            at = f" in mode {'.'.join(map(str, mode))}" if mode else ""
            raise refusal(
                "not-congruent", operation="Layout", shape=show(shape), stride=show(stride), at=at
            )
        kinds = [
            _check_modes(*pair, s, d, (*mode, i))
            for i, pair in enumerate(zip(shape, stride, strict=True))
        ]
        return max(kinds, default=INTS)
    if not ints.settle(ints.leq, 1, shape, "Layout"):
        raise refusal("extent-not-positive", operation="Layout", value=shape, mode=mode)
    s.append(shape)
    d.append(stride)
    return leaf_kind(shape, stride)


def leaf_kind(extent: Leaf, stride: IntTuple) -> int:
    """Return the kind of a leaf pair: INTS, BASIS (a coordinate stride of ints) or SYMBOLS."""
    if extent.__class__ is int and stride.__class__ is int:
        return INTS
    from cute_py.layout.basis import ScaledBasis

    step = stride.value if stride.__class__ is ScaledBasis else stride
    return BASIS if extent.__class__ is int and step.__class__ is int else SYMBOLS
