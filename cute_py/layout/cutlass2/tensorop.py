"""Shared-memory tiles of tensor-core operands in CUTLASS 2.x: the TensorOpMultiplicand layouts.

A line is 128 bytes, eight chunks of 128 bits, all 32 banks. A tile has `crosswise` contiguous
elements, so that F = line/crosswise rows share a line, and T = ld/crosswise tiles are side by side.
The eight chunks of a line are permuted by XOR with row//F, which puts the same chunk of eight rows
into eight different bank groups. Where T is a power of two that is a Swizzle of offsets.

Coordinates are (contiguous, strided), or (row, column) in the functions that name a major.
Source: cutlass/layout/tensor_op_multiplicand_sm75.h.
"""

from __future__ import annotations

from functools import wraps
from inspect import signature

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.cutlass2.classical import permuted
from cute_py.layout.layout import Layout, make_layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from cute_py.layout.types import Leaf

    Form = Callable[["_Tile", int | None], ComposedLayout]
    F = TypeVar("F", bound=Callable[..., ComposedLayout])

CHUNK_BITS = 128  # accessed by a thread at once
LINE_CHUNKS = 8  # 128 bytes
WIDEST = 32  # bits of an element; CUTLASS has other layouts for 64 and 128


# -- the rule


def tensor_op_swizzle(bits: int, crosswise: int, tiles: int = 1) -> Swizzle | None:
    """Return the Swizzle of TensorOpMultiplicand<bits, crosswise>, None if no Swizzle exists.

    Args:
        bits: width of an element, a power of two of at most 32.
        crosswise: contiguous elements of a tile: 128, 64 or 32 bytes.
        tiles: T, tiles side by side (ld // crosswise).

    It is Swizzle(B, log2 E, 3 + log2 T) for E = 128/bits elements in a chunk, where B is 3 if a row
    of the tile fills a line, and 2 otherwise. The XOR takes row//F out of the offset, where lines
    count as row//F * T + tile: only if T is a power of two is row//F a field of its bits.

    Raises LayoutError for other widths and other crosswise. Source: cutlass
    tensor_op_multiplicand_sm75.h `TensorOpMultiplicand`; cute/swizzle.hpp.

    >>> print(tensor_op_swizzle(16, 64), tensor_op_swizzle(16, 32, 4), tensor_op_swizzle(16, 32, 3))
    Sw<3,3,3> Sw<2,3,5> None
    """
    bits, crosswise, tiles = _integers("tensor_op_swizzle", bits, crosswise, tiles)
    chunk, rows = _chunk_and_rows("tensor_op_swizzle", bits, crosswise)
    return _swizzle(chunk, rows, tiles) if _is_power_of_two(tiles) else None


def _swizzle(chunk: int, rows: int, tiles: int) -> Swizzle:
    return Swizzle(_xor_bits(rows), _log2(chunk), _log2(LINE_CHUNKS) + _log2(tiles))


def _xor_bits(rows: int) -> int:
    """Return B: rows that share a line differ in their position in it, which saves a bit."""
    return 3 if rows == 1 else 2


# -- the tile


def tensor_op_multiplicand(
    bits: int,
    crosswise: int,
    contiguous: int,
    strided: int,
    ld: int | None = None,
    stages: int | None = None,
) -> ComposedLayout:
    """Return the shared-memory tile of a tensor-core operand, Swizzle o (contiguous, strided).

    Args:
        bits: width of an element, a power of two of at most 32.
        crosswise: contiguous elements of a tile: 128, 64 or 32 bytes.
        contiguous: extent of the contiguous mode (elements), a multiple of crosswise.
        strided: extent of the other mode (rows), a multiple of the rows that share a line.
        ld: elements from row to row, a multiple of crosswise (default: contiguous).
        stages: if given, a third mode of this extent, outermost: copies of the same map.

    Law: with E = 128//bits, F = 8*E//crosswise, x = c//E % (8//F) + s % F * (8//F) and
    y = s//F % max(8//F, 4), offset(c, s) == (c//crosswise*8 + (x ^ y))*E + c % E + s//F*ld*F. The
    capacity is strided*ld. Raises LayoutError where the extents do not fit the tile, and where
    ld//crosswise is not a power of two (see `tensor_op_swizzle`). Source: cutlass
    tensor_op_multiplicand_sm75.h `TensorOpMultiplicand`.

    >>> print(tensor_op_multiplicand(16, 64, 128, 32))
    Sw<3,3,4> o 0 o (128,32):(1,128)
    >>> print(tensor_op_multiplicand(16, 32, 32, 64, stages=3))
    Sw<2,3,3> o 0 o (32,64,3):(1,32,2048)
    """
    tile = _Tile("tensor_op_multiplicand", bits, crosswise, contiguous, strided, ld)
    return _multiplicand(tile, stages)


def tensor_op_multiplicand_in_coordinates(
    bits: int, crosswise: int, contiguous: int, strided: int, ld: int | None = None
) -> ComposedLayout:
    """Return the map of `tensor_op_multiplicand` for any number of tiles side by side.

    It is Layout o Swizzle o Layout: the inner layout stacks the tiles, where the Swizzle of one
    tile is valid, and the outer one puts them side by side. So three stages side by side have
    CUTLASS's addresses, although no Swizzle computes those. Arguments, law as
    `tensor_op_multiplicand`.

    Raises LayoutError as there, and unless strided is a multiple of the XOR's period in rows.

    >>> print(tensor_op_multiplicand_in_coordinates(16, 32, 96, 16))
    (64,8,3):(1,192,64) o 0 o Sw<2,3,3> o 0 o ((32,3),(2,8)):((1,512),(32,64))
    """
    name = "tensor_op_multiplicand_in_coordinates"
    tile = _Tile(name, bits, crosswise, contiguous, strided, ld)
    tile.require_period()
    line, lines, tiles = tile.line, tile.lines, tile.contiguous // tile.crosswise
    along = Layout((tile.crosswise, tiles), (1, line * lines))
    across = Layout((tile.rows, lines), (tile.crosswise, line))
    stacked = ComposedLayout(_swizzle(tile.chunk, tile.rows, 1), 0, make_layout(along, across))
    return ComposedLayout(Layout((line, lines, tiles), (1, tile.ld * tile.rows, line)), 0, stacked)


def _multiplicand(tile: _Tile, stages: int | None) -> ComposedLayout:
    if not _is_power_of_two(tile.tiles):
        tile.refuse_tiles(", or keep these addresses: tensor_op_multiplicand_in_coordinates")
    along, across = Layout(tile.contiguous, 1), Layout(tile.strided, tile.ld)
    if tile.rows > 1 and tile.contiguous > tile.crosswise:
        along = Layout((tile.crosswise, tile.contiguous // tile.crosswise), (1, tile.line))
    if tile.rows > 1 and tile.tiles > 1:
        across = Layout((tile.rows, tile.lines), (tile.crosswise, tile.ld * tile.rows))
    return _staged(tile, _swizzle(tile.chunk, tile.rows, tile.tiles), along, across, stages)


def _staged(
    tile: _Tile, swizzle: Swizzle, along: Layout, across: Layout, stages: int | None
) -> ComposedLayout:
    """Return the swizzled modes, and the stages as a third mode if requested."""
    if stages is None:
        return ComposedLayout(swizzle, 0, make_layout(along, across))
    (count,) = _integers(tile.name, stages)
    if count != 1:
        tile.require_period()
    outermost = Layout(count, tile.strided * tile.ld)
    return ComposedLayout(swizzle, 0, make_layout(along, across, outermost))


def _congruous(tile: _Tile, stages: int | None) -> ComposedLayout:
    if tile.bits != 32:
        return _multiplicand(tile, stages)
    tile = _Tile(tile.name, 32, 32, tile.contiguous, tile.strided, tile.ld)
    if not _is_power_of_two(tile.tiles):
        tile.refuse_tiles("")
    along, across = Layout(tile.contiguous, 1), Layout(tile.strided, tile.ld)
    return _staged(tile, Swizzle(2, 3, _log2(tile.ld) - 3), along, across, stages)


# -- the operands by name: like which function each is called, the form of its tile, and whether the
# second extent is the contiguous one


def _named(like: F, form: Form, transposed: bool = False) -> Callable[[Callable[[], None]], F]:
    """Return what makes a name and its docstring the function of a tile."""
    call = signature(like)

    def make(row: Callable[[], None]) -> F:
        name = row.__name__

        def tile(*args: int, **named: int) -> ComposedLayout:
            try:
                given = call.bind(*args, **named)
            except TypeError as error:
                raise TypeError(f"{name}() {error}") from None
            given.apply_defaults()
            bits, crosswise, first, second, ld, stages = given.args
            lines = (second, first) if transposed else (first, second)
            made = form(_Tile(name, bits, crosswise, *lines, ld), stages)
            return permuted(made, (1, 0, *range(2, len(made)))) if transposed else made

        done: Any = wraps(row)(tile)
        done.__signature__, done.__annotations__ = call, like.__annotations__
        return done

    return make


# -- congruous: M or N is contiguous in shared memory


@_named(tensor_op_multiplicand, _congruous)
def tensor_op_multiplicand_congruous() -> None:
    """Return the tile of an operand whose M or N is contiguous, which ldmatrix.trans reads.

    Arguments, law and errors as for `tensor_op_multiplicand`, except for 32 bits. ldmatrix cannot
    transpose 32-bit elements, so CUTLASS arranges them for loads of single elements: offset c +
    s*ld with chunk c//4 % 8 XORed by 2*(s % 4), for contiguous and ld multiples of 32, ld a power
    of two. Source: cutlass tensor_op_multiplicand_sm75.h `TensorOpMultiplicandCongruous`.

    >>> print(tensor_op_multiplicand_congruous(16, 64, 128, 32))
    Sw<3,3,4> o 0 o (128,32):(1,128)
    >>> print(tensor_op_multiplicand_congruous(32, 32, 64, 8))
    Sw<2,3,3> o 0 o (64,8):(1,64)
    """


def column_major_tensor_op_multiplicand_congruous(
    bits: int,
    crosswise: int,
    rows: int,
    columns: int,
    ld: int | None = None,
    stages: int | None = None,
) -> ComposedLayout:
    """Return the congruous tile over (row, column), rows contiguous: an M-major A operand.

    Law: offset(r, c) is that of (contiguous=r, strided=c). Source: cutlass
    tensor_op_multiplicand_sm75.h `ColumnMajorTensorOpMultiplicandCongruous`.

    >>> print(column_major_tensor_op_multiplicand_congruous(16, 64, 128, 32))
    Sw<3,3,4> o 0 o (128,32):(1,128)
    """
    name = "column_major_tensor_op_multiplicand_congruous"
    return _congruous(_Tile(name, bits, crosswise, rows, columns, ld), stages)


@_named(column_major_tensor_op_multiplicand_congruous, _congruous, transposed=True)
def row_major_tensor_op_multiplicand_congruous() -> None:
    """Return the congruous tile over (row, column), columns contiguous: an N-major B operand.

    Law: offset(r, c) is that of (contiguous=c, strided=r). Source: cutlass
    tensor_op_multiplicand_sm75.h `RowMajorTensorOpMultiplicandCongruous`.

    >>> print(row_major_tensor_op_multiplicand_congruous(16, 64, 32, 128))
    Sw<3,3,4> o 0 o (32,128):(128,1)
    """


# -- crosswise: K is contiguous in shared memory


@_named(tensor_op_multiplicand, _multiplicand)
def tensor_op_multiplicand_crosswise() -> None:
    """Return the tile of an operand whose K is contiguous, which ldmatrix reads; crosswise is K.

    Arguments, law and errors as for `tensor_op_multiplicand`. CUTLASS puts stages side by side,
    ld = crosswise*stages. With `stages=` they are outermost: the addresses differ, are equally
    conflict-free, and a Swizzle exists for every number of stages. Source: cutlass
    tensor_op_multiplicand_sm75.h `TensorOpMultiplicandCrosswise`.

    >>> print(tensor_op_multiplicand_crosswise(16, 32, 32, 8))
    Sw<2,3,3> o 0 o (32,8):(1,32)
    """


@_named(column_major_tensor_op_multiplicand_congruous, _multiplicand)
def column_major_tensor_op_multiplicand_crosswise() -> None:
    """Return the crosswise tile over (row, column), rows contiguous: a K-major B operand (K, N).

    Law: offset(r, c) is that of (contiguous=r, strided=c). Source: cutlass
    tensor_op_multiplicand_sm75.h `ColumnMajorTensorOpMultiplicandCrosswise`.

    >>> print(column_major_tensor_op_multiplicand_crosswise(16, 32, 32, 128))
    Sw<2,3,3> o 0 o (32,128):(1,32)
    """


@_named(column_major_tensor_op_multiplicand_congruous, _multiplicand, transposed=True)
def row_major_tensor_op_multiplicand_crosswise() -> None:
    """Return the crosswise tile over (row, column), columns contiguous: a K-major A operand (M, K).

    Law: offset(r, c) is that of (contiguous=c, strided=r). Source: cutlass
    tensor_op_multiplicand_sm75.h `RowMajorTensorOpMultiplicandCrosswise`.

    >>> print(row_major_tensor_op_multiplicand_crosswise(16, 32, 128, 32, stages=3))
    Sw<2,3,3> o 0 o (128,32,3):(32,1,4096)
    """


# -- the checked arguments


class _Tile:
    """The arguments of a TensorOpMultiplicand, checked, and what follows from them (elements)."""

    def __init__(
        self, name: str, bits: int, crosswise: int, contiguous: int, strided: int, ld: int | None
    ) -> None:
        self.name = name
        self.bits, self.crosswise = _integers(name, bits, crosswise)
        self.contiguous, self.strided = _integers(name, contiguous, strided)
        (self.ld,) = _integers(name, self.contiguous if ld is None else ld)
        self.chunk, self.rows = _chunk_and_rows(name, self.bits, self.crosswise)
        self.line = LINE_CHUNKS * self.chunk
        self.lines = self.strided // self.rows
        self.tiles = self.ld // self.crosswise
        self._require_whole_lines()

    def _require_whole_lines(self) -> None:
        positive = 0 < self.contiguous <= self.ld and self.strided > 0
        whole = self.contiguous % self.crosswise == self.ld % self.crosswise == 0
        if not (positive and whole and self.strided % self.rows == 0):
            raise refusal(
                "tensor-op-tile",
                operation=self.name,
                contiguous=self.contiguous,
                strided=self.strided,
                ld=self.ld,
                crosswise=self.crosswise,
                rows=self.rows,
            )

    def require_period(self) -> None:
        """Refuse a number of rows after which the XOR pattern does not repeat."""
        period = self.rows << _xor_bits(self.rows)
        if self.strided % period:
            padded = -(-self.strided // period) * period
            facts: dict[str, Leaf] = {"strided": self.strided, "period": period, "padded": padded}
            raise refusal("tensor-op-period", operation=self.name, **facts)

    def refuse_tiles(self, also: str) -> None:
        """Refuse a number of tiles side by side for which no Swizzle exists."""
        facts: dict[str, Leaf] = {"tiles": self.tiles, "crosswise": self.crosswise, "also": also}
        raise refusal("tensor-op-tiles", operation=self.name, **facts)


def _chunk_and_rows(name: str, bits: int, crosswise: int) -> tuple[int, int]:
    """Return E, the elements of a chunk, and F, the rows that share a line."""
    if not (_is_power_of_two(bits) and bits <= WIDEST):
        raise refusal("tensor-op-bits", operation=name, bits=bits)
    line = LINE_CHUNKS * CHUNK_BITS // bits
    rows = {line // f: f for f in (1, 2, 4)}
    if crosswise not in rows:
        choices = ", ".join(map(str, rows))
        facts: dict[str, Leaf] = {"bits": bits, "crosswise": crosswise, "choices": choices}
        raise refusal("tensor-op-crosswise", operation=name, **facts)
    return CHUNK_BITS // bits, rows[crosswise]


def _integers(name: str, *values: Leaf) -> tuple[int, ...]:
    return tuple([ints.as_int(ints.normalize(value, name), name) for value in values])


def _is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _log2(n: int) -> int:
    return n.bit_length() - 1
