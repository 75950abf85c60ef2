"""new here: blocks that stay. Each computes tile after tile, and loads one while it stores another.

There is one block a multiprocessor, or fewer where that takes no more waves. Both roles take tiles
from the same schedule: in groups of M, so that blocks that run together share rows of A and B in
the L2 cache. The sums leave through shared memory: stmatrix writes what a warpgroup holds, and TMA
stores it during the next tile.
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
def gemm_persistent(
    A: cute.Tensor,
    B: cute.Tensor,
    D: cute.Tensor,
    blocks: Annotated[cute.s32, cute.s32(min=1, max=65535)],
    tile: tuple[int, int, int] = (128, 256, 64),
    stages: int = 3,
    group: int = 8,
    epilogue: Any = None,
) -> None:
    """D (M,N) = A (M,K) * B (N,K) transposed, for f16 and bf16 with K and N contiguous.

    `epilogue(sums, at)` returns what is stored in place of the sums (MMA,MMA_M,MMA_N); `at`, of the
    same shape, has their coordinates in D. K is not 0, and rows are multiples of 16 bytes; see
    `fewest` for the number of blocks.
    """
    cute.assume_shapes("MK NK MN", A, B, D)
    (M, K), (N, _k) = A.shape, B.shape
    bM, bN, bK = tile
    m, n, depth = cute.ceil_div(M, bM), cute.ceil_div(N, bN), cute.ceil_div(K, bK)
    cute.launch(grid=blocks, block=3 * WARPGROUP)
    tid = cute.thread_idx()
    mma = cute.make_tiled_mma(f"SM90_64x{bN}x16_F32{str(A.dtype).upper() * 2}_SS", (2, 1, 1))
    tA, tB, tD = (cute.tma_tensor(x) for x in (A, B, D))
    atom = cute.atoms.Layout_K_SW128_Atom(A.dtype)
    sA = cute.smem(A.dtype, cute.tile_to_shape(atom, (bM, bK, stages)), 1024)  # (BM,BK,stages)
    sB = cute.smem(B.dtype, cute.tile_to_shape(atom, (bN, bK, stages)), 1024)  # (BN,BK,stages)
    sD = cute.smem(D.dtype, cute.tile_to_shape(atom, (bM, bN)), 1024)  # (BM,BN)
    ring = cute.pipeline(stages, tiles=(sA, sB), consumers="warpgroup", count=2)

    with cute.role("multiply", warps=range(8), registers=232):
        thr, half = mma.get_slice(tid), cute.warp_idx() // 4
        tCsA, tCsB = thr.partition_A(sA), thr.partition_B(sB)  # (MMA,MMA_M or _N,MMA_K,stages)
        acc = thr.make_fragment_C(thr.partition_C(sD))  # (MMA,MMA_M,MMA_N)
        stmatrix = cute.make_tiled_copy_C(cute.Copy_Atom("SM90_U32x4_STSM_N", D.dtype), mma)
        mine = stmatrix.get_slice(tid)
        store = cute.PipelineTmaStore(barrier=1 + half)  # each warpgroup stores its 64 rows
        for i, j in cute.tiles(m, n, group=group):
            acc.fill(0)
            for _tile in cute.range(depth):
                stage = ring.wait()
                cute.warpgroup_fence()
                cute.warpgroup_gemm(mma, acc, tCsA[_, _, _, stage], tCsB[_, _, _, stage])
                cute.warpgroup_commit()
                cute.warpgroup_wait(1)
                ring.release(behind=1)
            cute.warpgroup_wait(0)
            ring.release_rest()
            at = cute.local_tile(cute.make_identity_tensor(D.shape), (bM, bN), (i, j))
            x = acc if epilogue is None else epilogue(acc, thr.partition_C(at))
            store.acquire()
            cute.copy(stmatrix, mine.retile_S(x.to(D.dtype)), mine.partition_D(sD))
            gD = cute.local_tile(tD, (64, WIDE), (_, _))  # (64,WIDE,m,n)
            pieces = [cute.local_tile(sD, (64, WIDE), (half, p)) for p in range(bN // WIDE)]
            places = [gD[_, _, 2 * i + half, bN // WIDE * j + p] for p in range(bN // WIDE)]
            store.commit(*zip(pieces, places, strict=True))
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


def fewest(D: Any, multiprocessors: int = 132, tile: tuple[int, int] = (128, 256)) -> int:
    """Return the fewest blocks that take no more waves than one block a multiprocessor: blocks
    without a tile in the last wave would only take power from the others.
    """
    tiles = cute.ceil_div(D.shape[0], tile[0]) * cute.ceil_div(D.shape[1], tile[1])
    return int(cute.fewest_blocks(tiles, multiprocessors))


def check() -> None:
    """Multiply ragged matrices of small integers with blocks for three multiprocessors."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 136)).astype(np.float16) for n in (130, 520))
    d = np.full((130, 520), np.nan, np.float16)
    gemm_persistent(a, b, d, fewest(d, 3))
    assert (d == (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)).all()


if __name__ == "__main__":
    check()
