"""Shared-memory layouts of warpgroup matrix instructions: the eight atoms that their descriptors
can describe.

An atom is 8 rows of 16, 32, 64 or 128 bytes (INTER, SW32, SW64, SW128). K-major: a row runs along
K, shape (8, row); MN-major: along M or N, shape (row, 8). SW<n> XORs the 16-byte chunks of a row
with the row's number, on byte addresses Sw<log2(n / 16), 4, 3>. In elements that is the same
swizzle with a smaller base: `byte_swizzle` gives the byte form back. Build a tile with
`tile_to_shape(atom, shape, order)`. Source: cutlass include/cute/atom/mma_traits_sm90_gmma.hpp; PTX
ISA, "wgmma: Shared Memory Matrix Layout".
"""

from __future__ import annotations

from cute_py.atoms.copy import value_type
from cute_py.errors import refusal
from cute_py.layout.algebra.recast import downcast, upcast
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout, composed
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import DtypeLike
    from cute_py.layout.types import Alike, AnyLayout

# name of the swizzle -> B of Sw<B,4,3> on byte addresses; a row is 16 << B bytes
SWIZZLES = {"INTER": 0, "SW32": 1, "SW64": 2, "SW128": 3}
MAJORS = ("K", "MN")


def gmma_layout_atom(major: str, swizzle: str, dtype: DtypeLike | int) -> Alike:
    """Return the shared-memory layout atom of a warpgroup matrix instruction.

    Args:
        major: "K" or "MN", the mode that is contiguous.
        swizzle: "INTER", "SW32", "SW64" or "SW128".
        dtype: the element type, or its width in bits; 128 bits at most, a power of two.

    Result: 8 rows of (128 << B) / bits elements, as Swizzle o 0 o Layout in elements; of INTER the
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
    return composed(upcast(swizzle_of_bits, bits), 0, upcast(in_bits, bits))


def byte_swizzle(layout: AnyLayout, dtype: DtypeLike | int) -> Swizzle:
    """Return the swizzle of an element layout as it acts on byte addresses.

    Args:
        layout: in elements, swizzled or plain.
        dtype: the element type, or its width in bits.

    Law: for whole bytes, byte_swizzle(L)(bytes * i) == bytes * L.outer(i). A plain layout gives
    Sw<0,4,3>. Raises LayoutError where the layout is swizzled by anything but a Swizzle, or where
    the swizzle divides bytes.

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


# -- CuTe's names


def Layout_K_INTER_Atom(dtype: DtypeLike | int) -> Alike:
    """Return the K-major atom without swizzle; see `gmma_layout_atom`.

    >>> print(Layout_K_INTER_Atom("f16"))
    (8,8):(8,1)
    """
    return gmma_layout_atom("K", "INTER", dtype)


def Layout_K_SW32_Atom(dtype: DtypeLike | int) -> Alike:
    """Return the K-major atom of 32-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_K_SW32_Atom("f16"))
    Sw<1,3,3> o 0 o (8,16):(16,1)
    """
    return gmma_layout_atom("K", "SW32", dtype)


def Layout_K_SW64_Atom(dtype: DtypeLike | int) -> Alike:
    """Return the K-major atom of 64-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_K_SW64_Atom("f16"))
    Sw<2,3,3> o 0 o (8,32):(32,1)
    """
    return gmma_layout_atom("K", "SW64", dtype)


def Layout_K_SW128_Atom(dtype: DtypeLike | int) -> Alike:
    """Return the K-major atom of 128-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_K_SW128_Atom("f16"))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    """
    return gmma_layout_atom("K", "SW128", dtype)


def Layout_MN_INTER_Atom(dtype: DtypeLike | int) -> Alike:
    """Return the MN-major atom without swizzle; see `gmma_layout_atom`.

    >>> print(Layout_MN_INTER_Atom("f16"))
    (8,8):(1,8)
    """
    return gmma_layout_atom("MN", "INTER", dtype)


def Layout_MN_SW32_Atom(dtype: DtypeLike | int) -> Alike:
    """Return the MN-major atom of 32-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_MN_SW32_Atom("f16"))
    Sw<1,3,3> o 0 o (16,8):(1,16)
    """
    return gmma_layout_atom("MN", "SW32", dtype)


def Layout_MN_SW64_Atom(dtype: DtypeLike | int) -> Alike:
    """Return the MN-major atom of 64-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_MN_SW64_Atom("f16"))
    Sw<2,3,3> o 0 o (32,8):(1,32)
    """
    return gmma_layout_atom("MN", "SW64", dtype)


def Layout_MN_SW128_Atom(dtype: DtypeLike | int) -> Alike:
    """Return the MN-major atom of 128-byte rows; see `gmma_layout_atom`.

    >>> print(Layout_MN_SW128_Atom("f16"))
    Sw<3,3,3> o 0 o (64,8):(1,64)
    """
    return gmma_layout_atom("MN", "SW128", dtype)
