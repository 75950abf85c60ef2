"""SM61: dot products of packed bytes by one thread.

Source: PTX ISA, "Integer Arithmetic Instructions: dp4a, dp2a"; cutlass
include/cute/arch/mma_sm61.hpp.
"""

from __future__ import annotations

from cute_py.atoms.fragments import operands, read_types
from cute_py.atoms.mma import MMA_Atom
from cute_py.layout.layout import Layout


def _dot(name: str, depth: int, types: str, ptx: str | None) -> MMA_Atom:
    dtypes = read_types(types)
    packed = Layout((1, depth))
    return MMA_Atom(
        name,
        (1, 1, depth),
        Layout(1, 0),
        (packed, packed, Layout((1, 1), (0, 0))),
        dtypes,
        ptx=ptx,
        registers=operands("1 1 1 1", dtypes, vector=False) if ptx else (),
        min_arch="sm_61",
        source="PTX ISA, Integer Arithmetic Instructions: dp4a, dp2a; cute/arch/mma_sm61.hpp",
        runnable=ptx is not None,
    )


ROWS = (
    _dot("SM61_DP4A", 4, "s32 s8 s8 s32", "dp4a.s32.s32 {d}, {a}, {b}, {c};"),
    # Data only: CuTe gives B two 16-bit values, but PTX's dp2a multiplies two 16-bit values of A by
    # the two lower (.lo) or upper (.hi) of four bytes of B; CuTe's text, without either, is no PTX.
    _dot("SM61_DP2A", 2, "s32 s16 s16 s32", None),
)
