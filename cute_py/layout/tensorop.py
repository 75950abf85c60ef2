"""Shared-memory layouts of tensor-core operands in CUTLASS 2.x: TensorOpMultiplicand, congruous and crosswise.

A line is 128 bytes, eight chunks of 128 bits. `Crosswise` elements of one row are contiguous; F = line/Crosswise rows share
a line, and the lines of T = ld/Crosswise tiles stand side by side. The chunks of line (row//F, tile) are permuted by XOR
with row//F, so that eight rows of one chunk lie in eight different bank groups. With T a power of two that is a Swizzle of
offsets. Coordinates are (contiguous, strided), or (row, column) in the functions named after a major.
Source: cutlass/layout/tensor_op_multiplicand_sm75.h.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout import ints
from cute_py.layout.classical import permuted
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import Layout, make_layout
from cute_py.layout.swizzle import Swizzle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK_BITS = 128  # one shared-memory access of a thread
LINE_CHUNKS = 8  # 128 bytes, all 32 banks


def tensor_op_swizzle(bits: Any, crosswise: Any, tiles: Any = 1) -> Swizzle | None:
    """Return the Swizzle of a TensorOpMultiplicand<bits, crosswise> with `tiles` tiles side by side; None if there is none.

    It is Swizzle(B, log2 E, 3 + log2 T) with E = 128/bits elements in a chunk, T = tiles, and B = 3 where a row fills a line
    (crosswise == 8*E), else 2. The XOR needs the number of the row out of the offset's bits, and with T lines a row those
    are row*T + tile: only where T is a power of two does a field of bits hold the row.

    Args:
        bits: width of an element, a power of two of at most 32.
        crosswise: contiguous elements of a tile, 8*E, 4*E or 2*E.
        tiles: T, tiles side by side, ld // crosswise.

    Raises LayoutError for other widths and for another crosswise. Source: cutlass
    tensor_op_multiplicand_sm75.h `TensorOpMultiplicand`, cute/swizzle.hpp.

    >>> print(tensor_op_swizzle(16, 64), tensor_op_swizzle(16, 32, 4), tensor_op_swizzle(16, 32, 3))
    Sw<3,3,3> Sw<2,3,5> None
    """
    name = "tensor_op_swizzle"
    chunk, rows = _chunk_and_rows(name, *_integers(name, bits, crosswise))
    (count,) = _integers(name, tiles)
    if not _is_power_of_two(count):
        return None
    return Swizzle(_xor_bits(rows), _log2(chunk), _log2(LINE_CHUNKS) + _log2(count))


def tensor_op_multiplicand(
    bits: Any, crosswise: Any, contiguous: Any, strided: Any, ld: Any = None, stages: Any = None
) -> ComposedLayout:
    """Return Swizzle o (contiguous, strided), the shared-memory tile of a tensor-core operand.

    Args:
        bits: width of an element, a power of two of at most 32.
        crosswise: contiguous elements of a tile: 128, 64 or 32 bytes.
        contiguous: extent along the contiguous mode (elements), a multiple of crosswise.
        strided: extent along the other mode, a multiple of the rows in a line.
        ld: elements from row to row of the tile, a multiple of crosswise (default: contiguous).
        stages: adds a third mode of that extent outermost, each stage a copy of the same map.

    Law: with E = 128//bits, F = 8*E//crosswise, x = (c//E) % (8//F) + (s % F)*(8//F), y = s//F % max(8//F, 4),
    offset(c, s) == (c//crosswise*8 + (x ^ y))*E + c % E + s//F*ld*F, and capacity is strided*ld.
    Raises LayoutError where the extents do not fit the tile, and where ld//crosswise is no power of two.
    Source: cutlass tensor_op_multiplicand_sm75.h `TensorOpMultiplicand`.

    >>> print(tensor_op_multiplicand(16, 64, 128, 32))
    Sw<3,3,4> o 0 o (128,32):(1,128)
    >>> print(tensor_op_multiplicand(16, 32, 32, 64, stages=3))
    Sw<2,3,3> o 0 o (32,64,3):(1,32,2048)
    """
    return _multiplicand("tensor_op_multiplicand", bits, crosswise, contiguous, strided, ld, stages)


def tensor_op_multiplicand_in_coordinates(
    bits: Any, crosswise: Any, contiguous: Any, strided: Any, ld: Any = None
) -> ComposedLayout:
    """Return the same map as `tensor_op_multiplicand` for any number of tiles side by side, as Layout o Swizzle o Layout.

    The inner layout puts the tiles one after the other, where the one-tile Swizzle holds, and the outer one puts them side
    by side again: the addresses are CUTLASS's also for three stages in a row. Arguments and law as there.

    Raises LayoutError unless strided is a multiple of the rows that the swizzle goes through.

    >>> print(tensor_op_multiplicand_in_coordinates(16, 32, 96, 16))
    (64,8,3):(1,192,64) o 0 o Sw<2,3,3> o 0 o ((32,3),(2,8)):((1,512),(32,64))
    """
    tile = _Tile("tensor_op_multiplicand_in_coordinates", bits, crosswise, contiguous, strided, ld)
    tile.require_period()
    tiles, stack = tile.contiguous // tile.crosswise, tile.line * tile.lines
    swizzle = tensor_op_swizzle(tile.bits, tile.crosswise)
    inner = Layout(
        ((tile.crosswise, tiles), (tile.rows, tile.lines)),
        ((1, stack), (tile.crosswise, tile.line)),
    )
    side_by_side = Layout((tile.line, tile.lines, tiles), (1, tile.ld * tile.rows, tile.line))
    return ComposedLayout(side_by_side, 0, ComposedLayout(swizzle, 0, inner))


def tensor_op_multiplicand_congruous(
    bits: Any, crosswise: Any, contiguous: Any, strided: Any, ld: Any = None, stages: Any = None
) -> ComposedLayout:
    """Return the tile of an operand whose M or N is contiguous (A column-major, B row-major), read by ldmatrix.trans.

    Arguments and law as `tensor_op_multiplicand`, save for 32 bits: ldmatrix cannot transpose those, and CUTLASS reads them
    one by one from offset(c, s) == c + s*ld with chunk c//4 % 8 XORed by 2*(s % 4), for ld a power of two of at least 32.
    Raises LayoutError as there. Source: cutlass tensor_op_multiplicand_sm75.h `TensorOpMultiplicandCongruous`.

    >>> print(tensor_op_multiplicand_congruous(16, 64, 128, 32), tensor_op_multiplicand_congruous(32, 32, 64, 8))
    Sw<3,3,4> o 0 o (128,32):(1,128) Sw<2,3,3> o 0 o (64,8):(1,64)
    """
    name = "tensor_op_multiplicand_congruous"
    return _congruous(name, bits, crosswise, contiguous, strided, ld, stages)


def column_major_tensor_op_multiplicand_congruous(
    bits: Any, crosswise: Any, rows: Any, columns: Any, ld: Any = None, stages: Any = None
) -> ComposedLayout:
    """Return the congruous tile over (row, column) with the rows contiguous: the M-major A operand; ld defaults to rows.

    Source: cutlass tensor_op_multiplicand_sm75.h `ColumnMajorTensorOpMultiplicandCongruous`.

    >>> print(column_major_tensor_op_multiplicand_congruous(16, 64, 128, 32))
    Sw<3,3,4> o 0 o (128,32):(1,128)
    """
    name = "column_major_tensor_op_multiplicand_congruous"
    return _congruous(name, bits, crosswise, rows, columns, ld, stages)


def row_major_tensor_op_multiplicand_congruous(
    bits: Any, crosswise: Any, rows: Any, columns: Any, ld: Any = None, stages: Any = None
) -> ComposedLayout:
    """Return the congruous tile over (row, column) with the columns contiguous: the N-major B operand; ld defaults to columns.

    Source: cutlass tensor_op_multiplicand_sm75.h `RowMajorTensorOpMultiplicandCongruous`.

    >>> print(row_major_tensor_op_multiplicand_congruous(16, 64, 32, 128))
    Sw<3,3,4> o 0 o (32,128):(128,1)
    """
    name = "row_major_tensor_op_multiplicand_congruous"
    return _transposed(_congruous(name, bits, crosswise, columns, rows, ld, stages))


def tensor_op_multiplicand_crosswise(
    bits: Any, crosswise: Any, contiguous: Any, strided: Any, ld: Any = None, stages: Any = None
) -> ComposedLayout:
    """Return the tile of an operand whose K is contiguous, read by ldmatrix without .trans; crosswise is the tile's K.

    Arguments and law as `tensor_op_multiplicand`. CUTLASS puts the stages side by side, ld = crosswise*stages; here they
    go outermost (`stages=`): other addresses, just as free of conflicts, and a Swizzle for every number of stages.
    Source: cutlass tensor_op_multiplicand_sm75.h `TensorOpMultiplicandCrosswise`.

    >>> print(tensor_op_multiplicand_crosswise(16, 32, 32, 8))
    Sw<2,3,3> o 0 o (32,8):(1,32)
    """
    name = "tensor_op_multiplicand_crosswise"
    return _multiplicand(name, bits, crosswise, contiguous, strided, ld, stages)


def column_major_tensor_op_multiplicand_crosswise(
    bits: Any, crosswise: Any, rows: Any, columns: Any, ld: Any = None, stages: Any = None
) -> ComposedLayout:
    """Return the crosswise tile over (row, column) with the rows contiguous: the K-major B operand (K, N).

    Source: cutlass tensor_op_multiplicand_sm75.h `ColumnMajorTensorOpMultiplicandCrosswise`.

    >>> print(column_major_tensor_op_multiplicand_crosswise(16, 32, 32, 128))
    Sw<2,3,3> o 0 o (32,128):(1,32)
    """
    name = "column_major_tensor_op_multiplicand_crosswise"
    return _multiplicand(name, bits, crosswise, rows, columns, ld, stages)


def row_major_tensor_op_multiplicand_crosswise(
    bits: Any, crosswise: Any, rows: Any, columns: Any, ld: Any = None, stages: Any = None
) -> ComposedLayout:
    """Return the crosswise tile over (row, column) with the columns contiguous: the K-major A operand (M, K).

    Source: cutlass tensor_op_multiplicand_sm75.h `RowMajorTensorOpMultiplicandCrosswise`.

    >>> print(row_major_tensor_op_multiplicand_crosswise(16, 32, 128, 32, stages=3))
    Sw<2,3,3> o 0 o (128,32,3):(32,1,4096)
    """
    name = "row_major_tensor_op_multiplicand_crosswise"
    return _transposed(_multiplicand(name, bits, crosswise, columns, rows, ld, stages))


# -- how they are made


def _multiplicand(
    name: str, bits: Any, crosswise: Any, contiguous: Any, strided: Any, ld: Any, stages: Any
) -> ComposedLayout:
    tile = _Tile(name, bits, crosswise, contiguous, strided, ld)
    swizzle = tensor_op_swizzle(tile.bits, tile.crosswise, tile.tiles)
    if swizzle is None:
        also = ", or keep these addresses with tensor_op_multiplicand_in_coordinates"
        facts = {"tiles": tile.tiles, "crosswise": tile.crosswise, "also": also}
        raise refusal("tensor-op-tiles", operation=name, **facts)
    along, across = Layout(tile.contiguous, 1), Layout(tile.strided, tile.ld)
    if tile.rows > 1 and tile.contiguous > tile.crosswise:
        along = Layout((tile.crosswise, tile.contiguous // tile.crosswise), (1, tile.line))
    if tile.rows > 1 and tile.tiles > 1:
        across = Layout((tile.rows, tile.lines), (tile.crosswise, tile.ld * tile.rows))
    return _staged(tile, swizzle, along, across, stages)


def _congruous(
    name: str, bits: Any, crosswise: Any, contiguous: Any, strided: Any, ld: Any, stages: Any
) -> ComposedLayout:
    """Return the general map, or CUTLASS's own for 32 bits, which XORs the row mod 4 onto pairs of chunks."""
    if _integers(name, bits) != (32,):
        return _multiplicand(name, bits, crosswise, contiguous, strided, ld, stages)
    tile = _Tile(name, 32, 32, contiguous, strided, ld)
    if not _is_power_of_two(tile.tiles):
        facts = {"tiles": tile.tiles, "crosswise": tile.crosswise, "also": ""}
        raise refusal("tensor-op-tiles", operation=name, **facts)
    swizzle = Swizzle(2, 3, _log2(tile.ld) - 3)
    along, across = Layout(tile.contiguous, 1), Layout(tile.strided, tile.ld)
    return _staged(tile, swizzle, along, across, stages)


def _staged(
    tile: _Tile, swizzle: Swizzle, along: Layout, across: Layout, stages: Any
) -> ComposedLayout:
    """Return the swizzled modes, with the stages as a third one where they are asked for."""
    if stages is None:
        return ComposedLayout(swizzle, 0, make_layout(along, across))
    (count,) = _integers(tile.name, stages)
    if count != 1:
        tile.require_period()
    outermost = Layout(count, tile.strided * tile.ld)
    return ComposedLayout(swizzle, 0, make_layout(along, across, outermost))


def _transposed(tile: ComposedLayout) -> Any:
    return permuted(tile, (1, 0, *range(2, len(tile))))


class _Tile:
    """The checked arguments of a TensorOpMultiplicand, and the numbers that follow from them (elements)."""

    __slots__ = (
        "bits",
        "chunk",
        "contiguous",
        "crosswise",
        "ld",
        "line",
        "name",
        "rows",
        "strided",
    )

    def __init__(
        self, name: str, bits: Any, crosswise: Any, contiguous: Any, strided: Any, ld: Any
    ) -> None:
        self.name = name
        self.bits, self.crosswise = _integers(name, bits, crosswise)
        self.chunk, self.rows = _chunk_and_rows(name, self.bits, self.crosswise)
        self.line = LINE_CHUNKS * self.chunk
        self.contiguous, self.strided = _integers(name, contiguous, strided)
        (self.ld,) = _integers(name, self.contiguous if ld is None else ld)
        whole = self.contiguous % self.crosswise == self.ld % self.crosswise == 0
        if (
            not whole
            or self.strided % self.rows
            or not 0 < self.contiguous <= self.ld
            or self.strided < 1
        ):
            facts = {
                key: getattr(self, key)
                for key in ("contiguous", "strided", "ld", "crosswise", "rows")
            }
            raise refusal("tensor-op-tile", operation=name, **facts)

    @property
    def tiles(self) -> int:
        """How many tiles a row of lines holds side by side."""
        return self.ld // self.crosswise

    @property
    def lines(self) -> int:
        """How many lines a column of tiles holds."""
        return self.strided // self.rows

    def require_period(self) -> None:
        """Refuse a strided extent after which the XOR would not start anew."""
        period = self.rows << _xor_bits(self.rows)
        if self.strided % period:
            facts = {
                "strided": self.strided,
                "period": period,
                "padded": -(-self.strided // period) * period,
            }
            raise refusal("tensor-op-period", operation=self.name, **facts)


def _chunk_and_rows(name: str, bits: int, crosswise: int) -> tuple[int, int]:
    """Return E, the elements of a chunk, and F, the rows that share a line."""
    if not (_is_power_of_two(bits) and bits <= 32):
        raise refusal("tensor-op-bits", operation=name, bits=bits)
    chunk = CHUNK_BITS // bits
    rows = {LINE_CHUNKS * chunk // f: f for f in (1, 2, 4)}
    if crosswise not in rows:
        facts = {"bits": bits, "crosswise": crosswise, "choices": ", ".join(map(str, rows))}
        raise refusal("tensor-op-crosswise", operation=name, **facts)
    return chunk, rows[crosswise]


def _xor_bits(rows: int) -> int:
    """Return B: eight rows are told apart by 3 bits of the line's number, or by 2 and their place in the line."""
    return 3 if rows == 1 else 2


def _integers(name: str, *values: Any) -> tuple[int, ...]:
    return tuple([ints.as_int(ints.normalize(value, name), name) for value in values])


def _is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _log2(n: int) -> int:
    return n.bit_length() - 1
