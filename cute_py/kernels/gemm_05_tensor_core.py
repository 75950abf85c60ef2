"""new here: tensor cores. A `TiledMMA` says which thread holds which elements of A, B and C.

The instruction multiplies 16x16 by 16x8 (f16); the tiled MMA repeats it over 2x2 warps, and each
thread partitions tiles by it. Everything else is as in gemm_03.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.config import MultistageConfig, choose


@cute.kernel
def gemm_tensor_core(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor, cfg: MultistageConfig) -> None:
    """C (M,N) = A (M,K) * B (N,K) transposed."""
    cute.assume_shapes("MK NK MN", A, B, C)
    (M, K), (N, _k) = A.shape, B.shape
    bM, bN, bK = cfg.tile
    mma, (a, b) = cfg.tiled_mma(), cfg.operands()
    grid = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    cute.launch(grid=grid, block=cfg.threads, allow_emulated=cfg.emulated)
    (bx, by), tid = cute.block_idx(), cute.thread_idx()
    gA = cute.local_tile(A, (bM, bK), (bx, _))  # (BM,BK,k)
    gB = cute.local_tile(B, (bN, bK), (by, _))  # (BN,BK,k)
    gC = cute.local_tile(C, (bM, bN), (bx, by))  # (BM,BN)
    sA = cute.smem(A.dtype, a.smem(_, _, 0))  # (BM,BK)
    sB = cute.smem(B.dtype, b.smem(_, _, 0))  # (BN,BK)

    load_a, load_b = a.g2s.get_slice(tid), b.g2s.get_slice(tid)
    tAgA, tAsA = load_a.partition_S(gA), load_a.partition_D(sA)  # (CPY,CPY_M,CPY_K,k), no k
    tBgB, tBsB = load_b.partition_S(gB), load_b.partition_D(sB)  # (CPY,CPY_N,CPY_K,k), no k

    thr = mma.get_slice(tid)
    tCsA, tCsB = thr.partition_A(sA), thr.partition_B(sB)  # (MMA,MMA_M,MMA_K), (MMA,MMA_N,MMA_K)
    tCrA, tCrB = thr.make_fragment_A(tCsA), thr.make_fragment_B(tCsB)
    tCgC = thr.partition_C(gC)  # (MMA,MMA_M,MMA_N)
    acc = thr.make_fragment_C(tCgC)  # (MMA,MMA_M,MMA_N)
    acc.fill(0)

    for k in cute.range(cute.ceil_div(K, bK)):
        cute.copy(a.g2s, tAgA[_, _, _, k], tAsA)
        cute.copy(b.g2s, tBgB[_, _, _, k], tBsB)
        cute.syncthreads()
        cute.copy(tCsA, tCrA)
        cute.copy(tCsB, tCrB)
        cute.gemm(mma, acc, tCrA, tCrB)
        cute.syncthreads()
    cute.copy(acc.to(C.dtype), tCgC)


def check() -> None:
    """Multiply ragged matrices of small integers, which is exact."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 77)).astype(np.float16) for n in (130, 70))
    c = np.full((130, 70), np.nan, np.float32)
    gemm_tensor_core(a, b, c, choose(a, b, (64, 64), 2, ldmatrix=False, asynchronous=False))
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()


if __name__ == "__main__":
    check()
