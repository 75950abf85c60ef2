"""new here: `ldmatrix` and a swizzled shared-memory layout.

A tiled copy derived from the TiledMMA (`make_tiled_copy_A`) loads four 8x8 matrices at a time into
the same fragments, seen in the copy's order (`retile_D`). Rows 64 bytes apart would conflict in
the banks; the swizzle of the layout prevents it, and nothing else in the kernel changes.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.config import MultistageConfig, choose


@cute.kernel
def gemm_ldmatrix(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor, cfg: MultistageConfig) -> None:
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
    sA = cute.smem(A.dtype, a.smem(_, _, 0))  # (BM,BK), swizzled
    sB = cute.smem(B.dtype, b.smem(_, _, 0))  # (BN,BK), swizzled

    load_a, load_b = a.g2s.get_slice(tid), b.g2s.get_slice(tid)
    tAgA, tAsA = load_a.partition_S(gA), load_a.partition_D(sA)  # (CPY,CPY_M,CPY_K,k), no k
    tBgB, tBsB = load_b.partition_S(gB), load_b.partition_D(sB)  # (CPY,CPY_N,CPY_K,k), no k

    thr = mma.get_slice(tid)
    tCrA = thr.partition_fragment_A(sA)  # (MMA,MMA_M,MMA_K)
    tCrB = thr.partition_fragment_B(sB)  # (MMA,MMA_N,MMA_K)
    tCgC = thr.partition_C(gC)  # (MMA,MMA_M,MMA_N)
    acc = thr.make_fragment_C(tCgC)  # (MMA,MMA_M,MMA_N)
    acc.fill(0)

    s2r_a = cute.make_tiled_copy_A(a.s2r, mma)
    s2r_b = cute.make_tiled_copy_B(b.s2r, mma)
    read_a, read_b = s2r_a.get_slice(tid), s2r_b.get_slice(tid)
    tXsA, tXrA = read_a.partition_S(sA), read_a.retile_D(tCrA)  # (CPY,CPY_M,CPY_K)
    tXsB, tXrB = read_b.partition_S(sB), read_b.retile_D(tCrB)  # (CPY,CPY_N,CPY_K)

    for k in cute.range(cute.ceil_div(K, bK)):
        cute.copy(a.g2s, tAgA[_, _, _, k], tAsA)
        cute.copy(b.g2s, tBgB[_, _, _, k], tBsB)
        cute.syncthreads()
        for block in range(int(cute.size(tCrA.layout, 2))):
            cute.copy(s2r_a, tXsA[_, _, block], tXrA[_, _, block])
            cute.copy(s2r_b, tXsB[_, _, block], tXrB[_, _, block])
            cute.gemm(mma, acc, tCrA[_, _, block], tCrB[_, _, block])
        cute.syncthreads()
    cute.copy(acc.to(C.dtype), tCgC)


def check() -> None:
    """Multiply ragged matrices of small integers, A along K and B along N."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((130, 80), (80, 72)))
    c = np.full((130, 72), np.nan, np.float32)
    gemm_ldmatrix(a, b.T, c, choose(a, b.T, (64, 64), 2, asynchronous=False))
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


if __name__ == "__main__":
    check()
