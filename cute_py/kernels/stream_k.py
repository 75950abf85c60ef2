"""new here: stream-K, blocks with equal shares of all K tiles of all output tiles.

The K tiles of C are numbered tile by tile, and each block takes a contiguous range of them. So a
block ends one tile of C, computes some as a whole, and begins another one. The block with the first
K tile of a tile of C adds the sums of the others to its own, in the order of K, and writes C. The
others did their part at the start of their range, so it hardly waits.

Source: Osama et al., Stream-K (2023), arXiv 2301.03598.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.config import GemmConfig, choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@cute.kernel
def gemm_stream_k(
    A: cute.Tensor,
    B: cute.Tensor,
    C: cute.Tensor,
    partial: cute.Tensor,
    flags: cute.Tensor,
    cfg: GemmConfig,
) -> None:
    """C (M,N) = A (M,K) * B (N,K) transposed. There are as many blocks as `flags` (s32, zeros) has
    elements, each with a row of `partial` (blocks, BM*BN).
    """
    (M, K), (N, _k), blocks = A.shape, B.shape, flags.shape[0]
    bM, bN, bK = cfg.tile
    m, n, depth = cute.ceil_div(M, bM), cute.ceil_div(N, bN), cute.ceil_div(K, bK)
    cute.launch(grid=blocks, block=cfg.threads)
    block, tid = cute.block_idx(), cute.thread_idx()
    mma, (of_a, of_b) = cfg.tiled_mma(), cfg.operands()
    sA, sB = cute.smem(A.dtype, of_a.smem), cute.smem(B.dtype, of_b.smem)  # (BM or BN,BK,stages)
    s2r_a, s2r_b = cute.make_tiled_copy_A(of_a.s2r, mma), cute.make_tiled_copy_B(of_b.s2r, mma)
    thr, part = mma.get_slice(tid), (4, bM * bN // cfg.threads // 4)  # sums of a thread
    slots = cute.Layout((part, cfg.threads, blocks), ((1, 4 * cfg.threads), 4, partial.stride[0]))
    slots = cute.make_tensor(partial.data, slots)[_, tid, _]  # (part,blocks)

    units = m * n * depth
    begin, end = units * block // blocks, units * (block + 1) // blocks
    for tile in cute.range(begin // depth, cute.ceil_div(end, depth)):
        before: Any = cute.min_(tile * depth - begin, 0)
        stop: Any = cute.min_(end - tile * depth, depth)
        tCgC = thr.partition_C(cute.local_tile(C, (bM, bN), (tile % m, tile // m)))
        acc = thr.make_fragment_C(tCgC)  # (MMA,MMA_M,MMA_N)
        acc.fill(0)
        gA = cute.local_tile(A, (bM, bK), (tile % m, _))  # (BM,BK,k)
        gB = cute.local_tile(B, (bN, bK), (tile // m, _))  # (BN,BK,k)
        a, b = cute.Operand(gA, sA, of_a.g2s, s2r_a), cute.Operand(gB, sB, of_b.g2s, s2r_b)
        cute.syncthreads()  # all have read the stages of the tile before
        cute.mainloop(mma, acc, a, b, -before, stop + before)
        sums = cute.composition(acc, cute.Layout(part))
        with cute.when(before < 0):
            cute.copy(sums, slots[_, block])
            cute.syncthreads()
            with cute.when(tid == 0):
                cute.store_release(cute.local_tile(flags, (1,), (block,)), 1)
        with cute.otherwise():
            final = ((tile + 1) * depth * blocks - 1) // units  # the block with the last K tile
            for other in cute.range(block + 1, final + 1):
                with cute.when(tid == 0):
                    cute.wait_until(cute.local_tile(flags, (1,), (other,)), "eq", 1)
                    flags[other] = 0  # for the next launch
                cute.syncthreads()
                more = cute.make_rmem_tensor(part, acc.dtype)
                cute.copy(slots[_, other], more)
                sums += more
            cute.copy(acc.to(C.dtype), tCgC)


def check() -> None:
    """Multiply ragged matrices of small integers with 5 blocks."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 200)).astype(np.float16) for n in (130, 72))
    c = np.full((130, 72), np.nan, np.float32)
    config = choose(a, b, (64, 64))
    partial, flags = np.zeros((5, 64 * 64), np.float32), np.zeros(5, np.int32)
    gemm_stream_k(a, b, c, partial, flags, config)
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()
    assert not flags.any()


if __name__ == "__main__":
    check()
