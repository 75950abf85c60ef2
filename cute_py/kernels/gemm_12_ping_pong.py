"""new here: ping-pong. Two warpgroups compute a tile each, and take turns with the tensor cores.

While one multiplies, the other one converts its sums and stores them. So the tensor cores do not
wait for an epilogue, which pays where K is short. Each warpgroup takes every second tile of the
block, and skips the stages of the other one. It hands the turn over when its last product is
issued, before it is complete.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

import cute_py as cute
from cute_py import _

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WARPGROUP, WIDE = 128, 64  # threads; columns of a row of 128 bytes


@cute.kernel
def gemm_ping_pong(
    A: cute.Tensor,
    B: cute.Tensor,
    D: cute.Tensor,
    blocks: Annotated[cute.s32, cute.s32(min=1, max=65535)],
    tile: tuple[int, int, int] = (128, 192, 64),
    stages: int = 4,
    group: int = 8,
) -> None:
    """D (M,N) = A (M,K) * B (N,K) transposed, for f16 and bf16 with K and N contiguous.

    K is not 0, and rows are multiples of 16 bytes; see `fewest` for the number of blocks.
    """
    cute.assume_shapes("MK NK MN", A, B, D)
    (M, K), (N, _k) = A.shape, B.shape
    bM, bN, bK = tile
    m, n, depth = cute.ceil_div(M, bM), cute.ceil_div(N, bN), cute.ceil_div(K, bK)
    cute.launch(grid=blocks, block=3 * WARPGROUP)
    bid, tid = cute.block_idx(), cute.thread_idx()
    mma = cute.make_tiled_mma(f"SM90_64x{bN}x16_F32{str(A.dtype).upper() * 2}_SS")
    tA, tB, tD = (cute.tma_tensor(x) for x in (A, B, D))
    atom = cute.atoms.Layout_K_SW128_Atom(A.dtype)
    sA = cute.smem(A.dtype, cute.tile_to_shape(atom, (bM, bK, stages)), 1024)  # (BM,BK,stages)
    sB = cute.smem(B.dtype, cute.tile_to_shape(atom, (bN, bK, stages)), 1024)  # (BN,BK,stages)
    sD = cute.smem(D.dtype, cute.tile_to_shape(atom, (64, bN, 2)), 1024)  # (64,BN,warpgroups)
    ring = cute.pipeline(stages, tiles=(sA, sB), consumers="warpgroup")
    turns = cute.mbarriers(2)  # a warpgroup may multiply
    with cute.elect("block"):
        turns.init(4)  # of each warp
        cute.fence_mbarrier_init()
    cute.syncthreads()

    with cute.role("multiply", warps=range(8), registers=232):
        me = cute.warp_idx() // 4  # of two warpgroups
        thr, turn = mma.get_slice(tid % WARPGROUP), cute.var(0, 0, 1)
        tCsA, tCsB = thr.partition_A(sA), thr.partition_B(sB)  # (MMA,MMA_M or _N,MMA_K,stages)
        acc = thr.make_fragment_C(thr.partition_C(cute.local_tile(D, (bM, bN), (0, 0))))
        stmatrix = cute.make_tiled_copy_C_atom(cute.Copy_Atom("SM90_U32x4_STSM_N", D.dtype), mma)
        mine = stmatrix.get_slice(tid % WARPGROUP)
        store = cute.PipelineTmaStore(barrier=1 + me)
        with cute.when((me == 0) & cute.elect_one("warp")):
            turns.arrive(0)  # the first turn
        with cute.when(me == 1):
            ring.skip(depth)
        for i, j in cute.tiles(m, n, group=group, start=bid + me * blocks, step=2 * blocks):
            acc.fill(0)
            turns.wait(me, turn.get())
            turn.set(1 - turn.get())
            for _tile in cute.range(depth):
                stage = ring.wait()
                cute.warpgroup_fence()
                cute.warpgroup_gemm(mma, acc, tCsA[_, _, _, stage], tCsB[_, _, _, stage])
                cute.warpgroup_commit()
                cute.warpgroup_wait(1)
                ring.release(behind=1)
            with cute.elect("warp"):
                turns.arrive(1 - me)
            cute.warpgroup_wait(0)
            ring.release_rest()
            ring.skip(depth)  # the tile of the other one
            rows = cute.logical_divide(acc, (_, 1))  # (MMA,(1,MMA_M),MMA_N)
            for half in range(bM // 64):
                store.acquire()
                gD, stores = cute.local_tile(tD, (64, WIDE), (bM // 64 * i + half, _)), []
                for p in range(bN // WIDE):  # few registers next to the sums
                    sP = cute.local_tile(sD, (64, WIDE, 1), (0, p, me))[_, _, 0]
                    part = mma.columns_C(rows[_, (_, half), _], WIDE * p, WIDE).to(D.dtype)
                    cute.copy(stmatrix, mine.retile_S(part), mine.partition_D(sP))
                    stores.append((sP, gD[_, _, bN // WIDE * j + p]))
                store.commit(*stores)
        store.tail()
    with cute.role("load", warps=range(8, 12), registers=40), cute.elect("role"):
        for i, j in cute.tiles(m, n, group=group):
            gA = cute.local_tile(tA, (bM, bK), (i, _))  # (BM,BK,k)
            gB = cute.local_tile(tB, (bN, bK), (j, _))  # (BN,BK,k)
            for k in cute.range(depth):
                stage = ring.acquire()
                ring.load(gA[_, _, k], sA[_, _, stage])
                ring.load(gB[_, _, k], sB[_, _, stage])
                ring.commit()


def fewest(D: Any, multiprocessors: int = 132, tile: tuple[int, int] = (128, 192)) -> int:
    """Return the fewest blocks that take no more waves than one block a multiprocessor: blocks
    without a tile in the last wave would only take power from the others.
    """
    tiles = cute.ceil_div(D.shape[0], tile[0]) * cute.ceil_div(D.shape[1], tile[1])
    return int(cute.fewest_blocks(tiles, multiprocessors))


def check() -> None:
    """Multiply ragged matrices of small integers with blocks for two multiprocessors."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 136)).astype(np.float16) for n in (200, 264))
    d = np.full((200, 264), np.nan, np.float16)
    gemm_ping_pong(a, b, d, fewest(d, 2))
    assert (d == (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)).all()


if __name__ == "__main__":
    check()
