"""The kernels that are measured, by name: those of the library, and an empty one."""

from __future__ import annotations

import cute_py as cute
from cute_py.kernels.copy import copy_tiles, copy_vectors
from cute_py.kernels.gemm import gemm
from cute_py.kernels.gemm_04_double_buffer import sgemm_128x128
from cute_py.kernels.reduce import row_reduce
from cute_py.kernels.softmax import row_softmax
from cute_py.kernels.transpose import transpose_shared, transpose_vectors


@cute.kernel
def add_one(A, B, C):
    """Write one element: a launch and hardly more."""
    cute.launch(grid=1, block=32)
    with cute.when(cute.thread_idx() == 0):
        C[0] = A[0] + B[0]


KERNELS = {
    "gemm": gemm,
    "sgemm_04": sgemm_128x128,
    "copy_tiles": copy_tiles,
    "copy_vectors": copy_vectors,
    "transpose_shared": transpose_shared,
    "transpose_vectors": transpose_vectors,
    "row_softmax": row_softmax,
    "row_reduce": row_reduce,
    "add_one": add_one,
}
