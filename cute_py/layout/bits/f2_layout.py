"""`F2Layout`: a layout whose offset is the XOR of one image for every set bit of the index.

Swizzled and plain layouts of powers of two, Triton's linear layouts and every bit matrix have this
form. Source: Zhou et al., "Linear Layouts" (arXiv 2505.23819).
"""

from __future__ import annotations

import cute_py
from cute_py.errors import refusal
from cute_py.layout import AbstractF2, tuples
from cute_py.layout.bits import gf2
from cute_py.layout.bits.f2 import images
from cute_py.layout.coords import check_coordinate, crd2idx, inside
from cute_py.layout.modes import slice_, with_zeros
from cute_py.layout.tuples import canonical, has_underscore, is_underscore, leaves, show
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import NoReturn

    from cute_py.dtypes.table import Array
    from cute_py.layout.types import IntTuple, Mode, Tiler


class F2Layout(Value, AbstractF2):
    """The map i -> offset ^ (XOR of bases[b] over the set bits b of i) on the indices of a shape.

    Args:
        shape: an int tuple whose extents are powers of two.
        bases: the images of the index bits 1, 2, 4, ... (offsets of at least 0), one for each.
        offset: the offset of index 0, XORed onto every image.

    Law: f(i ^ j) == f(i) ^ f(j) ^ f(0). Raises LayoutError for other extents, too few or too many
    bases, and negative images. It prints its bases leaf by leaf, like strides.

    >>> tile = F2Layout((2, 4), (1, 3, 6))
    >>> print(tile, tile(1, 2), tile(5), tile.right_inverse())
    (2,4):F2((1),(3,6)) 7 7 8:F2((1,3,7))
    """

    __slots__ = ("bases", "offset", "shape")
    __match_args__ = ("shape", "bases", "offset")
    shape: IntTuple
    bases: tuple[int, ...]
    offset: int

    def __init__(self, shape: IntTuple, bases: Iterable[int], offset: int = 0) -> None:
        shape = canonical(shape, "F2Layout")
        bits = sum([_bits(extent, shape) for extent in leaves(shape)])
        checked = images(bases, "F2Layout")
        if len(checked) != bits:
            raise refusal(
                "f2-bases", operation="F2Layout", shape=show(shape), count=len(checked), bits=bits
            )
        self.shape = shape
        self.bases = tuple(checked)
        self.offset = images([offset], "F2Layout")[0]

    def __repr__(self) -> str:
        offset = f", {self.offset}" if self.offset else ""
        return f"F2Layout({self.shape!r}, {self.bases!r}{offset})"

    def __str__(self) -> str:
        nested = self._nested()
        text = show(nested if self.shape.__class__ is tuple else (nested,))
        return f"{show(self.shape)}:F2{text}" + (f"^{self.offset}" if self.offset else "")

    def __len__(self) -> int:
        return tuples.rank(self.shape)

    def __iter__(self) -> Iterator[F2Layout]:
        rest = self.bases
        for shape in tuples.wrap(self.shape):
            bits = tuples.product(shape).bit_length() - 1
            yield F2Layout(shape, rest[:bits], self.offset)
            rest = rest[bits:]

    def __getitem__(self, mode: Mode) -> F2Layout:
        """Return one mode (int, or a path such as (1, 0)), with the same offset of index 0."""
        from cute_py.layout.modes import get

        shape = get(self.shape, mode)
        bases = self._nested()
        for step in mode if mode.__class__ is tuple else (mode,):
            bases = bases[step] if self.shape.__class__ is tuple else bases
        return F2Layout(shape, leaves(bases), self.offset)

    def _nested(self) -> IntTuple:
        """Return the bases, those of one leaf of the shape in one tuple."""
        rest = iter(self.bases)

        def take(extent: int) -> tuple[int, ...]:
            return tuple([next(rest) for _ in range(extent.bit_length() - 1)])

        return tuples.transform_leaf(take, self.shape)

    def __call__(self, *coord: IntTuple) -> IntTuple:
        """Return the offset of a coordinate or index, or the sublayout where it has `_`.

        The fixed part of the coordinate goes into the sublayout's offset. Raises CoordinateError
        outside of the shape: a bit past the size has no image.
        """
        c = check_coordinate(coord[0] if len(coord) == 1 else coord, self.shape)
        if has_underscore(c):
            return self._slice(c)
        index = crd2idx(c, self.shape)
        if index >= self.size():
            raise refusal(
                "coordinate-range",
                operation="F2Layout",
                coord=show(c),
                shape=show(self.shape),
                value=index,
                mode=(),
                size=self.size(),
                how=inside(index),
            )
        return self.offset ^ gf2.apply(self.bases, index)

    def _slice(self, coord: IntTuple) -> F2Layout:
        if is_underscore(coord):
            return self
        fixed = crd2idx(with_zeros(coord), self.shape)
        origin = self.offset ^ gf2.apply(self.bases, fixed)
        bases = leaves(slice_(coord, self._nested()))
        return F2Layout(slice_(coord, self.shape), bases, origin)

    @property
    def stride(self) -> NoReturn:
        """Refuse: a map of bits has no strides."""
        raise refusal("no-stride", operation="stride", layout=self)

    def size(self) -> int:
        """Return the number of coordinates (elements)."""
        return 1 << len(self.bases)

    def cosize(self) -> int:
        """Return one more than the largest offset."""
        return 1 + gf2.largest(gf2.eliminate(self.bases)[0], self.offset)

    def offsets(self) -> Array:
        """Return all offsets as a NumPy int64 array in colexicographical order; see `offsets`."""
        return cute_py.offsets(self)

    def compose(self, inner: Tiler) -> F2Layout:
        """Return the layout c -> self(inner(c)); see `compose_f2`."""
        return cute_py.compose_f2(self, inner)

    def right_inverse(self) -> F2Layout:
        """Return the R of the most offsets with self(R(k)) == k for every k < R.size().

        Raises LayoutError where offset 0 is not reached.
        """
        pivots = gf2.eliminate(self.bases)[0]
        origin = gf2.solve(pivots, self.offset)
        if origin is None:
            raise refusal("f2-origin", operation="right_inverse", layout=self, offset=self.offset)
        bases: list[int] = []
        while (index := gf2.solve(pivots, 1 << len(bases))) is not None:
            bases.append(index)
        return F2Layout(1 << len(bases), bases, origin)

    def left_inverse(self) -> F2Layout:
        """Return the R, on offsets below a power of two, with R(self(i)) == i for every index i.

        Raises LayoutError, naming two indices with one offset, where the layout is not injective.
        """
        pivots, kernel = gf2.eliminate(self.bases)
        if kernel:
            raise refusal("f2-singular", operation="left_inverse", map=self, other=kernel[0])
        bases = gf2.left_inverse(pivots, (self.cosize() - 1).bit_length())
        return F2Layout(1 << len(bases), bases, gf2.apply(bases, self.offset))

    def inverse(self) -> F2Layout:
        """Return the two-sided inverse layout.

        Raises LayoutError unless this is a bijection of the offsets below its size.
        """
        result = self.left_inverse()
        if result.size() != self.size():
            size, reach = self.size(), self.cosize()
            raise refusal("f2-not-onto", operation="inverse", layout=self, size=size, reach=reach)
        return result


def _bits(extent: int, shape: IntTuple) -> int:
    if extent.__class__ is not int or extent < 1 or extent & (extent - 1):
        raise refusal("f2-extent", operation="F2Layout", shape=show(shape), extent=extent)
    return extent.bit_length() - 1
