"""new here: each thread computes 8x8 elements, an outer product of 8 and 8 for each k.

64 multiply-adds for 16 loads from shared memory, instead of one for two. The tiled MMA of a scalar
instruction, 16x16 threads, says which elements a thread has: partition them, make fragments, and
multiply with `cute.gemm`.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _

BM, BN, BK = 128, 128, 8


@cute.kernel
def gemm_registers(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor) -> None:
    """C (M,N) = A (M,K) * B (N,K) transposed, added up in the type of C."""
    cute.assume_shapes("MK NK MN", A, B, C)
    (M, K), (N, _k) = A.shape, B.shape
    fma = f"UniversalFMA<{C.dtype.name},{A.dtype.name},{B.dtype.name},{C.dtype.name}>"
    mma = cute.make_tiled_mma(fma, (16, 16, 1))
    cute.launch(grid=(cute.ceil_div(M, BM), cute.ceil_div(N, BN)), block=mma.size())
    (bx, by), tid = cute.block_idx(), cute.thread_idx()
    gA = cute.local_tile(A, (BM, BK), (bx, _))  # (BM,BK,k)
    gB = cute.local_tile(B, (BN, BK), (by, _))  # (BN,BK,k)
    gC = cute.local_tile(C, (BM, BN), (bx, by))  # (BM,BN)
    sA = cute.smem(A.dtype, cute.Layout((BM, BK), (1, BM + 1)))  # (BM,BK), padded
    sB = cute.smem(B.dtype, cute.Layout((BN, BK), (1, BN + 1)))  # (BN,BK), padded

    threads = cute.Layout((32, 8), (8, 1))  # neighbours load along K
    tAgA = cute.local_partition(gA, threads, tid)  # (4,1,k)
    tAsA = cute.local_partition(sA, threads, tid)  # (4,1)
    tBgB = cute.local_partition(gB, threads, tid)  # (4,1,k)
    tBsB = cute.local_partition(sB, threads, tid)  # (4,1)

    thread = mma.get_slice(tid)
    tCsA = thread.partition_A(sA)  # (1,8,BK)
    tCsB = thread.partition_B(sB)  # (1,8,BK)
    tCgC = thread.partition_C(gC)  # (1,8,8)
    tCrA = thread.make_fragment_A(tCsA)  # (1,8,BK)
    tCrB = thread.make_fragment_B(tCsB)  # (1,8,BK)
    acc = thread.make_fragment_C(tCgC)  # (1,8,8)
    acc.fill(0)
    for tile in cute.range(cute.ceil_div(K, BK)):
        cute.copy(tAgA[_, _, tile], tAsA)
        cute.copy(tBgB[_, _, tile], tBsB)
        cute.syncthreads()
        for k in range(BK):
            cute.copy(tCsA[_, _, k], tCrA[_, _, k])
            cute.copy(tCsB[_, _, k], tCrB[_, _, k])
            cute.gemm(mma, acc, tCrA[_, _, k], tCrB[_, _, k])
        cute.syncthreads()
    cute.copy(acc, tCgC)


def check() -> None:
    """Multiply ragged matrices of small integers, which is exact."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 33)).astype(np.float32) for n in (130, 40))
    c = np.full((130, 40), np.nan, np.float32)
    gemm_registers(a, b, c)
    assert (c == a @ b.T).all()


if __name__ == "__main__":
    check()
