"""new here: blocks that wait for each other, with a semaphore.

K is split over `splits` blocks for each tile of C. They add their parts in turn: block z waits
until the semaphore of the tile is z, adds to what the others left in C, and passes the turn on. The
last one sets it to 0 for the next launch. The order of the sums is always the same.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import require_count, require_kind
from cute_py.kernels.config import MultistageConfig, choose


@cute.kernel
def gemm_splitk(
    A: cute.Tensor,
    B: cute.Tensor,
    C: cute.Tensor,
    turns: cute.Tensor,
    splits: int,
    cfg: MultistageConfig,
) -> None:
    """C (M,N) = A (M,K) * B (N,K) transposed; `turns` has a zero (s32) for each tile of C."""
    cute.assume_shapes("MK NK MN XY", A, B, C, turns)
    require_kind("gemm_splitk", ("s32",), turns=turns)
    require_count("gemm_splitk", splits=splits)
    (M, K), (N, _k) = A.shape, B.shape
    bM, bN, bK = cfg.tile
    m, n = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    cute.assume((turns.shape[0] >= m) & (turns.shape[1] >= n))
    mma, (a, b) = cfg.tiled_mma(), cfg.operands()
    cute.launch(grid=(m, n, splits), block=cfg.threads, allow_emulated=cfg.emulated)
    (bx, by, z), tid = cute.block_idx(), cute.thread_idx()
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

    for k in cute.range(z, cute.ceil_div(K, bK), splits):  # tiles z, z + splits, ...
        cute.copy(a.g2s, tAgA[_, _, _, k], tAsA)
        cute.copy(b.g2s, tBgB[_, _, _, k], tBsB)
        cute.syncthreads()
        cute.copy(tCsA, tCrA)
        cute.copy(tCsB, tCrB)
        cute.gemm(mma, acc, tCrA, tCrB)
        cute.syncthreads()

    turn = cute.Semaphore(cute.local_tile(turns, (1, 1), (bx, by)))
    turn.wait(z)
    with cute.when(z > 0):
        before = thr.make_fragment_C(tCgC)  # (MMA,MMA_M,MMA_N)
        cute.copy(tCgC, before)
        acc += before
    cute.copy(acc, tCgC)
    turn.release((z + 1) % splits)  # 0 after the last one, for the next launch


def check() -> None:
    """Split K of ragged matrices of small integers in three."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 200)).astype(np.float16) for n in (70, 40))
    c = np.full((70, 40), np.nan, np.float32)
    turns = np.zeros((2, 1), np.int32)
    gemm_splitk(a, b, c, turns, 3, choose(a, b, (64, 64), 2, ldmatrix=False, asynchronous=False))
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()
    assert not turns.any()


if __name__ == "__main__":
    check()
