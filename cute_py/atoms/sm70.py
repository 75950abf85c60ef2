"""SM70 (Volta): 8x8x4 by a quad-pair, the threads 0-3 and 16-19 of a warp and the like.

The warp's four quad-pairs each do their own 8x8x4 with one instruction, so a row describes eight
threads. Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type"; cutlass
include/cute/atom/mma_traits_sm70.hpp.
"""

from __future__ import annotations

from cute_py.atoms.arch import only
from cute_py.atoms.fragments import operands, read_types, type_code
from cute_py.atoms.mma import MMA_Atom
from cute_py.layout.layout import Layout

QUAD_PAIR = Layout((4, 2), (1, 16))
# (thread, value) -> row + 8 k: each thread has a row of 4 k, or for one k 4 rows of its half.
_ROW = Layout((8, 4), (1, 8))
_COL = Layout(((4, 2), 4), ((8, 4), 1))
_ACCUMULATORS = {
    "f16": Layout((8, 8), (1, 8)),
    "f32": Layout(((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32))),
}
_COUNTS = {"f16": "4 2 2 4", "f32": "8 2 2 8"}


def _quad_pair_mma(accumulator: str, transposes: str) -> MMA_Atom:
    """Return the row for "TN", "NT", "NN" or "TT": T is a row-major A, a row-major B is N's
    opposite.
    """
    dtypes = read_types(f"{accumulator} f16 f16 {accumulator}")
    major_a = "row" if transposes[0] == "T" else "col"
    major_b = "col" if transposes[1] == "N" else "row"
    return MMA_Atom(
        f"SM70_8x8x4_{''.join(type_code(dtype) for dtype in dtypes)}_{transposes}",
        (8, 8, 4),
        QUAD_PAIR,
        (
            _ROW if major_a == "row" else _COL,
            _ROW if major_b == "col" else _COL,
            _ACCUMULATORS[accumulator],
        ),
        dtypes,
        ptx=f"mma.sync.aligned.m8n8k4.{major_a}.{major_b}.{accumulator}.f16.f16.{accumulator} "
        "{d}, {a}, {b}, {c};",
        registers=operands(_COUNTS[accumulator], dtypes),
        min_arch="sm_70",
        native=only(70, 75),
        source="PTX ISA, Matrix Fragments for mma.m8n8k4 with .f16 floating point type; "
        "cute/arch/mma_sm70.hpp",
    )


ROWS = tuple(
    _quad_pair_mma(accumulator, transposes)
    for accumulator in ("f16", "f32")
    for transposes in ("TN", "NT", "NN", "TT")
)
