"""Copies by plain assignment: UniversalCopy, the auto-vectorizing copies, and loads and stores.

Source: cutlass include/cute/arch/copy.hpp, atom/copy_traits.hpp; PTX ISA, "ld", "st".
"""

from __future__ import annotations

from functools import lru_cache

from cute_py.atoms.copy import (
    ADDRESS_32,
    ADDRESS_64,
    ONE_THREAD,
    Copy_Op,
    between,
    of_one_thread,
    require_width,
)
from cute_py.atoms.mma import Operand
from cute_py.errors import refusal
from cute_py.layout.layout import Layout

_WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SOURCE = "cutlass arch/copy.hpp, atom/copy_traits.hpp"


@lru_cache(maxsize=None, typed=True)
def UniversalCopy(bits: int) -> Copy_Op:
    """Return the copy of one value of `bits` bits by assignment, between any two memories.

    Args:
        bits: 1 to 256, a power of two.

    Raises LayoutError for other widths. For an instruction, see `move`.

    >>> print(UniversalCopy(128), UniversalCopy(128).src_tv)
    UniversalCopy<128> (1,128):(0,1)
    """
    require_width("UniversalCopy", bits, _WIDTHS)
    return of_one_thread("UniversalCopy", bits, ("any", "any"), "sm_61", _SOURCE)


@lru_cache(maxsize=None, typed=True)
def AutoVectorizingCopyWithAssumedAlignment(bits: int) -> Copy_Op:
    """Return the copy that is vectorized to the longest common vector of both tensors.

    Args:
        bits: the widest vector, and the assumed alignment of addresses and run-time strides: 8 to
            256, a power of two.

    Raises LayoutError for other widths.

    >>> print(AutoVectorizingCopyWithAssumedAlignment(64))
    AutoVectorizingCopyWithAssumedAlignment<64>
    """
    name = "AutoVectorizingCopyWithAssumedAlignment"
    require_width(name, bits, _WIDTHS[3:])
    tv = Layout((1, 1), (0, 0))
    return Copy_Op(name, ONE_THREAD, tv, tv, tv, "any", "any", bits, "sm_61", _SOURCE, (bits,))


AutoVectorizingCopy = AutoVectorizingCopyWithAssumedAlignment(128)
DefaultCopy = AutoVectorizingCopyWithAssumedAlignment(8)  # assumes no alignment


_REGISTERS = {
    8: ("b8", Operand(1, "b32", vector=False)),
    16: ("b16", Operand(1, "b16", vector=False)),
    32: ("b32", Operand(1, "b32", vector=False)),
    64: ("v2.b32", Operand(2, "b32")),
    128: ("v4.b32", Operand(4, "b32")),
}
_SPACES = {"gmem": ("global", ADDRESS_64), "smem": ("shared", ADDRESS_32)}


@lru_cache(maxsize=None, typed=True)
def move(bits: int, src_space: str, dst_space: str) -> Copy_Op:
    """Return UniversalCopy between registers and a memory as one load or store.

    Args:
        bits: 8, 16, 32, 64 or 128; above 32 in 32-bit registers.
        src_space: gmem, smem or rmem.
        dst_space: the same; exactly one of the two is rmem.

    Raises LayoutError for other widths or memories.

    >>> move(64, "gmem", "rmem").ptx, move(128, "rmem", "smem").ptx
    ('ld.global.v2.b32 {dst}, [{src}];', 'st.shared.v4.b32 [{dst}], {src};')
    """
    require_width("move", bits, tuple(_REGISTERS))
    load = dst_space == "rmem" and src_space in _SPACES
    if not load and not (src_space == "rmem" and dst_space in _SPACES):
        raise refusal("copy-spaces", operation="move", src=src_space, dst=dst_space)
    kind, registers = _REGISTERS[bits]
    space, address = _SPACES[src_space if load else dst_space]
    text = (
        f"ld.{space}.{kind} {{dst}}, [{{src}}];"
        if load
        else f"st.{space}.{kind} [{{dst}}], {{src}};"
    )
    return of_one_thread(
        "UniversalCopy",
        bits,
        (src_space, dst_space),
        "sm_61",
        "PTX ISA, ld, st",
        ptx=text,
        operands=between(registers, address, load),
    )


FAMILIES = {
    "UniversalCopy": (UniversalCopy, tuple((bits,) for bits in _WIDTHS[3:8])),
    "AutoVectorizingCopyWithAssumedAlignment": (
        AutoVectorizingCopyWithAssumedAlignment,
        tuple((bits,) for bits in _WIDTHS[3:8]),
    ),
}
ROWS = {"AutoVectorizingCopy": AutoVectorizingCopy, "DefaultCopy": DefaultCopy}
