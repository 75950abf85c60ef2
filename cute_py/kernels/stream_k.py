"""new here: stream-K, blocks with equal shares of all K tiles of all output tiles.

The K tiles of C are numbered tile by tile, and each block takes a contiguous range of them. So a
block ends one tile of C, computes some as a whole, and begins another one. The block with the first
K tile of a tile of C adds the sums of the others to its own, in the order of K, and writes C. The
others did their part at the start of their range, so it hardly waits.

Source: Osama et al., Stream-K (2023), arXiv 2301.03598.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import require_kind
from cute_py.kernels.config import GemmConfig, MultistageConfig, choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


MOST = 2**31 - 1  # tiles of K


def shares(tiles: Any, depth: Any, blocks: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield each tile of C that the block has a part of: the tile, its first K tile and how many,
    and the block that has the last K tile.
    """
    units, block = tiles * depth, cute.block_idx()
    begin, end = units * block // blocks, units * (block + 1) // blocks
    for tile in cute.range(begin // depth, cute.ceil_div(end, depth)):
        first: Any = cute.var(cute.max_(begin - tile * depth, 0), 0, MOST, uniform="block").get()
        stop: Any = cute.var(cute.min_(end - tile * depth, depth), 1, MOST, uniform="block").get()
        yield tile, first, stop - first, ((tile + 1) * depth * blocks - 1) // units


def assume_shared_sums(operation: str, cfg: GemmConfig, words: str, *arrays: Any) -> None:
    """State the shapes of arrays, by words as those of `cute.assume_shapes`, and what `owned` needs
    of the last two: the sums (blocks, BM*BN) and flags (blocks) of blocks.
    """
    partial, flags = arrays[-2:]
    require_kind(operation, ("s32",), flags=flags)
    cute.assume_shapes(f"{words} BP B", *arrays)
    cute.assume(partial.shape[1] == cfg.tile[0] * cfg.tile[1])
    cute.assume_compact(partial[0, _])


@contextmanager
def owned(mma: Any, acc: Any, span: Any, partial: Any, flags: Any) -> Iterator[None]:
    """Run the body in the block with the first K tile, with the sums of all blocks up to the last
    one; the others leave theirs in memory. `span` is (first K tile of this block, last block).
    """
    (first, last), block, tid = span, cute.block_idx(), cute.thread_idx()
    warp_k, part = mma.get_slice(tid).thr_vmnk[3], (4, cute.size(acc) // 4)
    threads = mma.size() // cute.size(mma.thr_layout_vmnk, 3)  # others have the same sums
    slots = cute.Layout((part, threads, flags.shape[0]), ((1, 4 * threads), 4, partial.stride[0]))
    slots = cute.make_tensor(partial.data, slots)[_, tid % threads, _]  # (part,blocks)
    sums, more = cute.composition(acc, cute.Layout(part)), cute.make_rmem_tensor(part, acc.dtype)
    with cute.when(first > 0):
        cute.copy(sums, slots[_, block], pred=warp_k < 1)
        cute.syncthreads()
        with cute.when(tid == 0):
            cute.store_release(cute.local_tile(flags, (1,), (block,)), 1)
    with cute.otherwise():
        for other in cute.range(block + 1, last + 1):
            with cute.when(tid == 0):
                cute.wait_until(cute.local_tile(flags, (1,), (other,)), "eq", 1)
                flags[other] = 0  # for the next launch
            cute.syncthreads()
            cute.copy(slots[_, other], more)
            sums += more
        with cute.when(warp_k < 1):
            yield


@cute.kernel
def gemm_stream_k(A: Any, B: Any, C: Any, partial: Any, flags: Any, cfg: MultistageConfig) -> None:
    """C (M,N) = A (M,K) * B (N,K) transposed. There are as many blocks as `flags` (s32, zeros) has
    elements, each with a row of `partial` (blocks, BM*BN); as they wait for each other, a GPU must
    have room for all of them at once.
    """
    assume_shared_sums("gemm_stream_k", cfg, "MK NK MN", A, B, C, partial, flags)
    (M, K), (N, _k), (bM, bN, bK) = A.shape, B.shape, cfg.tile
    cute.launch(grid=flags.shape[0], block=cfg.threads, resident=True)
    mma, (of_a, of_b) = cfg.tiled_mma(), cfg.operands()
    sA, sB = cute.smem(A.dtype, of_a.smem), cute.smem(B.dtype, of_b.smem)  # (BM or BN,BK,stages)
    s2r_a, s2r_b = cute.make_tiled_copy_A(of_a.s2r, mma), cute.make_tiled_copy_B(of_b.s2r, mma)
    thr, m, n = mma.get_slice(cute.thread_idx()), cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    for tile, first, count, last in shares(m * n, cute.ceil_div(K, bK), flags.shape[0]):
        tCgC = thr.partition_C(cute.local_tile(C, (bM, bN), (tile % m, tile // m)))
        acc = thr.make_fragment_C(tCgC)  # (MMA,MMA_M,MMA_N)
        acc.fill(0)
        gA = cute.local_tile(A, (bM, bK), (tile % m, _))  # (BM,BK,k)
        gB = cute.local_tile(B, (bN, bK), (tile // m, _))  # (BN,BK,k)
        a, b = cute.Operand(gA, sA, of_a.g2s, s2r_a), cute.Operand(gB, sB, of_b.g2s, s2r_b)
        cute.syncthreads()  # all have read the stages of the tile before
        cute.mainloop(mma, acc, a, b, first, count)
        with owned(mma, acc, (first, last), partial, flags):
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
