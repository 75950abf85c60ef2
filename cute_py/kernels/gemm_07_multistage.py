"""new here: cp.async and several stages, so that later tiles load while this one is multiplied.

`stages - 1` tiles are in flight while one is multiplied, and the fragments of the next block of K
are loaded before the product of this one. `config.flagship` is CuTe's configuration of it.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.config import MultistageConfig, flagship


@cute.kernel
def gemm_multistage(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor, cfg: MultistageConfig) -> None:
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
    sA = cute.smem(A.dtype, a.smem)  # (BM,BK,stages)
    sB = cute.smem(B.dtype, b.smem)  # (BN,BK,stages)

    load_a, load_b = a.g2s.get_slice(tid), b.g2s.get_slice(tid)
    tAgA, tAsA = load_a.partition_S(gA), load_a.partition_D(sA)  # (CPY,CPY_M,CPY_K,k or stages)
    tBgB, tBsB = load_b.partition_S(gB), load_b.partition_D(sB)  # (CPY,CPY_N,CPY_K,k or stages)

    thr = mma.get_slice(tid)
    tCrA = thr.partition_fragment_A(sA[_, _, 0])  # (MMA,MMA_M,MMA_K)
    tCrB = thr.partition_fragment_B(sB[_, _, 0])  # (MMA,MMA_N,MMA_K)
    tCgC = thr.partition_C(gC)  # (MMA,MMA_M,MMA_N)
    acc = thr.make_fragment_C(tCgC)  # (MMA,MMA_M,MMA_N)
    acc.fill(0)
    s2r_a = cute.make_tiled_copy_A(a.s2r, mma)
    s2r_b = cute.make_tiled_copy_B(b.s2r, mma)
    read_a, read_b = s2r_a.get_slice(tid), s2r_b.get_slice(tid)
    tXsA, tXrA = (
        read_a.partition_S(sA),
        read_a.retile_D(tCrA),
    )  # (CPY,CPY_M,CPY_K,stages), no stages
    tXsB, tXrB = (
        read_b.partition_S(sB),
        read_b.retile_D(tCrB),
    )  # (CPY,CPY_N,CPY_K,stages), no stages

    stages, tiles, blocks = cfg.stages, cute.ceil_div(K, bK), int(cute.size(tCrA.layout, 2))

    def fetch(tile: int) -> None:
        stage = tile % stages
        cute.copy(a.g2s, tAgA[_, _, _, tile], tAsA[_, _, _, stage], pred=tile < tiles)
        cute.copy(b.g2s, tBgB[_, _, _, tile], tBsB[_, _, _, stage], pred=tile < tiles)
        cute.cp_async_fence()

    def read(block: int, stage: int) -> None:
        cute.copy(s2r_a, tXsA[_, _, block, stage], tXrA[_, _, block])
        cute.copy(s2r_b, tXsB[_, _, block, stage], tXrB[_, _, block])

    for tile in range(stages - 1):
        fetch(tile)
    for tile in cute.range(tiles):
        cute.cp_async_wait(stages - 2)
        cute.syncthreads()
        read(0, tile % stages)
        fetch(tile + stages - 1)
        for block in range(blocks):
            if block + 1 < blocks:
                read(block + 1, tile % stages)
            cute.gemm(mma, acc, tCrA[_, _, block], tCrB[_, _, block])
    cute.copy(acc.to(C.dtype), tCgC)


def check() -> None:
    """Multiply ragged matrices of small integers."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 136)).astype(np.float16) for n in (130, 257))
    c = np.full((130, 257), np.nan, np.float32)
    gemm_multistage(a, b, c, flagship())
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()


if __name__ == "__main__":
    check()
