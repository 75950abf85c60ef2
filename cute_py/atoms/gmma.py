"""Shared memory of warpgroup matrix instructions: the eight layout atoms, and the descriptors of
tiles made of them.

An atom has 8 rows of 16, 32, 64 or 128 bytes (INTER, SW32, SW64, SW128). K-major: a row runs along
K, shape (8, row); MN-major: along M or N, shape (row, 8). SW<n> XORs the 16-byte chunks of a row
with the row's number, on byte addresses Sw<log2(n / 16), 4, 3>. In elements that is the same
swizzle with a smaller base: `byte_swizzle` returns the byte form. Build a tile with
`tile_to_shape(atom, shape, order)`.

A descriptor consists of the tile's address, a swizzle and two strides, so it can describe only the
tiles below (T elements are 16 bytes, W = 1, 2, 4, 8 for INTER, SW32, SW64, SW128):

    MN-major, INTER   ((T,1,m),(8,k)):((1,T,SBO),(T,LBO))
    MN-major          ((T,W,m),(8,k)):((1,T,LBO),(WT,SBO))
    K-major, INTER    ((8,m),(T,2)):((T,SBO),(1,LBO))
    K-major           ((8,m),(T,2)):((WT,SBO),(1,T))

Source: cutlass include/cute/atom/mma_traits_sm90_gmma.hpp; PTX ISA, "wgmma: Shared Memory Matrix
Layout", "wgmma: Matrix descriptor".
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.atoms.copy import value_type
from cute_py.errors import LayoutError, refusal
from cute_py.layout.algebra.divide import logical_divide
from cute_py.layout.algebra.recast import downcast, recast_layout, upcast
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout, composed
from cute_py.layout.layout import Layout
from cute_py.layout.modes import get, replace
from cute_py.layout.queries import rank, size
from cute_py.layout.tuples import congruent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import DtypeLike
    from cute_py.layout.types import AnyLayout

# name of the swizzle -> B of Sw<B,4,3> on byte addresses; a row is 16 << B bytes
SWIZZLES = {"INTER": 0, "SW32": 1, "SW64": 2, "SW128": 3}
MAJORS = ("K", "MN")


def gmma_layout_atom(major: str, swizzle: str, dtype: DtypeLike | int) -> Layout | ComposedLayout:
    """Return the shared-memory layout atom of a warpgroup matrix instruction.

    Args:
        major: "K" or "MN", the mode that is contiguous.
        swizzle: "INTER", "SW32", "SW64" or "SW128".
        dtype: the element type, or its width in bits; 128 bits at most, a power of two.

    Result: 8 rows of (128 << B) / bits elements, as Swizzle o 0 o Layout in elements; for INTER a
    plain layout. Raises LayoutError for other majors, swizzles and widths.

    >>> from cute_py.dtypes import bf16
    >>> print(gmma_layout_atom("K", "SW128", bf16), gmma_layout_atom("MN", "INTER", bf16))
    Sw<3,3,3> o 0 o (8,64):(64,1) (8,8):(1,8)
    """
    if major not in MAJORS or swizzle not in SWIZZLES:
        raise refusal("gmma-atom", operation="gmma_layout_atom", major=major, swizzle=swizzle)
    bits = value_type(dtype, "gmma_layout_atom").bits
    row = 128 << SWIZZLES[swizzle]  # bits
    in_bits = Layout((8, row), (row, 1)) if major == "K" else Layout((row, 8), (1, row))
    swizzle_of_bits = downcast(Swizzle(SWIZZLES[swizzle], 4, 3), 8)
    return composed(upcast(swizzle_of_bits, bits), 0, upcast(in_bits, bits))  # type: ignore[no-any-return]


def byte_swizzle(layout: AnyLayout, dtype: DtypeLike | int) -> Swizzle:
    """Return the swizzle of an element layout on byte addresses.

    Args:
        layout: in elements, swizzled or plain.
        dtype: the element type, or its width in bits.

    Law: for whole bytes, byte_swizzle(L)(bytes * i) == bytes * L.outer(i). A plain layout gives
    Sw<0,4,3>. Raises LayoutError if the outer function is not a Swizzle, or if the swizzle splits
    bytes.

    >>> print(byte_swizzle(gmma_layout_atom("K", "SW64", 16), 16))
    Sw<2,4,3>
    """
    if layout.__class__ is not ComposedLayout:
        return Swizzle(0, 4, 3)
    if layout.outer.__class__ is not Swizzle:
        raise refusal("smem-swizzle", operation="byte_swizzle", layout=layout)
    in_bits = downcast(layout.outer, value_type(dtype, "byte_swizzle").bits)
    if in_bits.num_base < 3:
        raise refusal("smem-swizzle", operation="byte_swizzle", layout=layout)
    in_bytes: Swizzle = upcast(in_bits, 8)
    return in_bytes


def is_standard(swizzle: Swizzle) -> bool:
    """Return whether tensor maps and descriptors have a swizzle of byte addresses.

    >>> is_standard(Swizzle(3, 4, 3)), is_standard(Swizzle(3, 5, 3))
    (True, False)
    """
    known = swizzle.num_bits in _LAYOUT_TYPES
    return not swizzle.num_bits or (known and (swizzle.num_base, swizzle.num_shft) == (4, 3))


# -- CuTe's names


def Layout_K_INTER_Atom(dtype: DtypeLike | int) -> Layout | ComposedLayout:
    """Return the K-major atom without swizzle; see `gmma_layout_atom`.

    >>> print(Layout_K_INTER_Atom("f16"))
    (8,8):(8,1)
    """
    return gmma_layout_atom("K", "INTER", dtype)


def Layout_K_SW32_Atom(dtype: DtypeLike | int) -> Layout | ComposedLayout:
    """Return the K-major atom of 32-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_K_SW32_Atom("f16"))
    Sw<1,3,3> o 0 o (8,16):(16,1)
    """
    return gmma_layout_atom("K", "SW32", dtype)


def Layout_K_SW64_Atom(dtype: DtypeLike | int) -> Layout | ComposedLayout:
    """Return the K-major atom of 64-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_K_SW64_Atom("f16"))
    Sw<2,3,3> o 0 o (8,32):(32,1)
    """
    return gmma_layout_atom("K", "SW64", dtype)


def Layout_K_SW128_Atom(dtype: DtypeLike | int) -> Layout | ComposedLayout:
    """Return the K-major atom of 128-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_K_SW128_Atom("f16"))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    """
    return gmma_layout_atom("K", "SW128", dtype)


def Layout_MN_INTER_Atom(dtype: DtypeLike | int) -> Layout | ComposedLayout:
    """Return the MN-major atom without swizzle; see `gmma_layout_atom`.

    >>> print(Layout_MN_INTER_Atom("f16"))
    (8,8):(1,8)
    """
    return gmma_layout_atom("MN", "INTER", dtype)


def Layout_MN_SW32_Atom(dtype: DtypeLike | int) -> Layout | ComposedLayout:
    """Return the MN-major atom of 32-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_MN_SW32_Atom("f16"))
    Sw<1,3,3> o 0 o (16,8):(1,16)
    """
    return gmma_layout_atom("MN", "SW32", dtype)


def Layout_MN_SW64_Atom(dtype: DtypeLike | int) -> Layout | ComposedLayout:
    """Return the MN-major atom of 64-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_MN_SW64_Atom("f16"))
    Sw<2,3,3> o 0 o (32,8):(1,32)
    """
    return gmma_layout_atom("MN", "SW64", dtype)


def Layout_MN_SW128_Atom(dtype: DtypeLike | int) -> Layout | ComposedLayout:
    """Return the MN-major atom of 128-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_MN_SW128_Atom("f16"))
    Sw<3,3,3> o 0 o (64,8):(1,64)
    """
    return gmma_layout_atom("MN", "SW128", dtype)


# -- descriptors

UNIT_BITS = 128  # addresses and offsets of a descriptor count 16 bytes
_LAYOUT_TYPES = {0: 0, 1: 3, 2: 2, 3: 1}  # B of the byte swizzle -> code in the descriptor
_FIELD = 1 << 14  # offsets are 14 bits wide


@dataclass(frozen=True, slots=True)
class GmmaDescriptor:
    """The fields of a matrix descriptor, except the address.

    Attributes:
        layout_type: 0 no swizzle, 1 128 bytes, 2 64 bytes, 3 32 bytes.
        leading_byte_offset: LBO, in units of 16 bytes.
        stride_byte_offset: SBO, in units of 16 bytes.
        base_offset: 0 for tiles aligned to the period of the swizzle.

    >>> GmmaDescriptor(1, 1, 64).encode(0x400) == 1 << 62 | 64 << 32 | 1 << 16 | 0x40
    True
    """

    layout_type: int
    leading_byte_offset: int
    stride_byte_offset: int
    base_offset: int = 0

    def encode(self, address: int = 0) -> int:
        """Return the 64 bits of the descriptor.

        Args:
            address: the address of the tile in shared memory (bytes), a multiple of 16.

        Bits 0-13 address / 16, 16-29 LBO, 32-45 SBO, 49-51 base offset, 62-63 layout type. Raises
        LayoutError for an address that is not a multiple of 16 or beyond 256 KiB.
        """
        if address % 16 or not 0 <= address < 16 * _FIELD:
            raise refusal("gmma-address", operation="GmmaDescriptor.encode", address=address)
        return (
            address >> 4
            | self.leading_byte_offset << 16
            | self.stride_byte_offset << 32
            | self.base_offset << 49
            | self.layout_type << 62
        )


def make_gmma_desc(tile: AnyLayout, dtype: DtypeLike | int, major: str) -> GmmaDescriptor:
    """Return the descriptor of a tile in shared memory.

    Args:
        tile: the layout of (MN, K), rank 2, in elements, swizzled or not, such as mode 0 of a
            partition, or the first tile of `tile_to_shape(Layout_K_SW128_Atom(dtype), shape)`.
        dtype: the element type, or its width in bits.
        major: "K" or "MN", the mode that is contiguous.

    Raises LayoutError, with the required form, if no descriptor can describe the tile. Source:
    cutlass mma_traits_sm90_gmma.hpp `make_gmma_desc`.

    >>> from cute_py.atoms.gmma import Layout_K_SW128_Atom
    >>> from cute_py.layout.algebra.product import tile_to_shape
    >>> smem = tile_to_shape(Layout_K_SW128_Atom("f16"), (128, 64))
    >>> make_gmma_desc(smem.compose(64, 16), "f16", "K")
    GmmaDescriptor(layout_type=1, leading_byte_offset=1, stride_byte_offset=64, base_offset=0)
    """
    if major not in MAJORS:
        raise refusal("gmma-major", operation="make_gmma_desc", major=major)
    bits = value_type(dtype, "make_gmma_desc").bits
    code = _swizzle_bits(tile, bits)
    canonical = _canonical(tile, bits, major, 1 << code)
    (s00, s01), (s10, s11) = canonical.stride
    width = 1 << code
    if major == "MN":
        fits = s10 == width and (code == 0 or s00 == 1)
        leading, stride = (s11, s01) if code == 0 else (s01, s11)
    else:
        fits = s00 == width and (code == 0 or s10 == 1)
        leading, stride = s10, s01
    if not fits:
        raise _not_canonical(tile, bits, major, f"strides {canonical.stride} in units of 16 bytes")
    if max(leading, stride) >= _FIELD:
        raise _not_canonical(tile, bits, major, f"an offset of {16 * max(leading, stride)} bytes")
    return GmmaDescriptor(_LAYOUT_TYPES[code], leading, stride)


def gmma_fragment(
    partition: AnyLayout, dtype: DtypeLike | int, major: str
) -> tuple[GmmaDescriptor, Layout]:
    """Return the descriptor of the first tile of a partition, and the offsets of the others.

    Args:
        partition: the layout of ((MN, K), rest...) of one operand in shared memory, in elements, as
            `partition_A` or `partition_B` of a warpgroup instruction makes it.
        dtype: the element type, or its width in bits.
        major: "K" or "MN".

    Result: the layout (1, rest...) counts 16 bytes; the descriptor of tile c is the first one with
    layout(0, c) added to its address. Raises LayoutError as `make_gmma_desc` does. Source: cutlass
    mma_traits_sm90_gmma.hpp `MakeTensor<smem_desc>`.

    >>> from cute_py.layout.composed import ComposedLayout
    >>> from cute_py.layout.bits.swizzle import Swizzle
    >>> tiles = ComposedLayout(Swizzle(3, 3, 3), 0, Layout(((64, 16), 2, 4), ((64, 1), 4096, 16)))
    >>> print(gmma_fragment(tiles, "f16", "K")[1])
    (1,2,4):(0,512,2)
    """
    bits = value_type(dtype, "gmma_fragment").bits
    descriptor = make_gmma_desc(get(partition, 0), bits, major)
    units = _in_units(partition, bits, major)
    fragment: Layout = replace(units, 0, Layout(1, 0))
    return descriptor, fragment


def _swizzle_bits(tile: AnyLayout, bits: int) -> int:
    """Return B of the swizzle on byte addresses; refuse a swizzle that descriptors do not have."""
    swizzle = byte_swizzle(tile, bits)
    if not is_standard(swizzle):
        raise refusal("smem-swizzle", operation="make_gmma_desc", layout=tile)
    return swizzle.num_bits


def _canonical(tile: AnyLayout, bits: int, major: str, width: int) -> Layout:
    """Return the tile in units of 16 bytes as ((width, n), (8, k)), K-major ((8, n), (2, k))."""
    if rank(tile) != 2:
        raise _not_canonical(tile, bits, major, f"rank {rank(tile)}")
    units = _in_units(tile, bits, major)
    if major == "MN":
        extents, steps = [n // bits for n in (256, 128, 512)], (width, 8)  # K: dense, sparse A, B
        wrong = size(units, 1) not in extents
    else:
        extents, steps = [2, 4], (8, 2)  # K of dense and sparse instructions, 16 bytes each
        wrong = size(units, 1) not in extents or size(units, 0) % 8 != 0
    if wrong:
        raise _not_canonical(tile, bits, major, f"extents {size(units, 0)} and {size(units, 1)}")
    try:
        canonical: Layout = logical_divide(units, (Layout(steps[0], 1), Layout(steps[1], 1)))
    except LayoutError as error:
        raise _not_canonical(tile, bits, major, "modes that do not divide") from error
    if not congruent(canonical.shape, ((1, 1), (1, 1))):
        raise _not_canonical(tile, bits, major, f"{canonical} in units of 16 bytes")
    return canonical


def _in_units(layout: AnyLayout, bits: int, major: str) -> Layout:
    """Return the unswizzled layout in units of 16 bytes."""
    inner = layout
    if layout.__class__ is ComposedLayout:
        if layout.offset != 0:
            raise _not_canonical(layout, bits, major, f"offset {layout.offset} inside the swizzle")
        inner = layout.inner
    try:
        units = recast_layout(inner, bits, UNIT_BITS)
    except LayoutError as error:
        raise _not_canonical(layout, bits, major, "runs shorter than 16 bytes") from error
    return units  # type: ignore[return-value]


def _not_canonical(tile: AnyLayout, bits: int, major: str, found: str) -> Exception:
    return refusal(
        "gmma-canonical",
        operation="make_gmma_desc",
        layout=tile,
        bits=bits,
        major=major,
        found=found,
    )
