"""new here: a product. Each thread reads a row of A and a row of B, and writes one element of C.

All GEMM kernels here compute C (M,N) = A (M,K) * B (N,K) transposed: K is the second mode of both
operands, as in CuTe. Which mode is contiguous is up to the strides of the arrays.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute

BM, BN = 8, 32


@cute.kernel
def gemm_naive(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor) -> None:
    """C (M,N) = A (M,K) * B (N,K) transposed, added up in the type of C."""
    cute.assume_shapes("MK NK MN", A, B, C)
    (M, K), (N, _k) = A.shape, B.shape
    cute.launch(grid=(cute.ceil_div(M, BM), cute.ceil_div(N, BN)), block=(BN, BM))
    (bx, by), (tx, ty) = cute.block_idx(), cute.thread_idx()
    m, n = bx * BM + ty, by * BN + tx
    with cute.when((m < M) & (n < N)):
        acc = cute.rmem(C.dtype, 1)
        acc.fill(0)
        for k in cute.range(K):
            acc[0] = cute.fma(A[m, k].to(C.dtype), B[n, k].to(C.dtype), acc)
        C[m, n] = acc


def check() -> None:
    """Multiply ragged matrices of small integers, which is exact."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 33)).astype(np.float32) for n in (17, 40))
    c = np.full((17, 40), np.nan, np.float32)
    gemm_naive(a, b, c)
    assert (c == a @ b.T).all()


if __name__ == "__main__":
    check()
