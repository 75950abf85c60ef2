"""new here: TMA and wgmma. One thread asks for whole tiles, and a warpgroup multiplies them.

TMA copies a box of a tensor to shared memory, swizzles it, and fills what is past the arrays with
zeros. It needs no partition, and no registers. An mbarrier counts its bytes. wgmma reads both
operands from shared memory through descriptors, so that no fragment of A or B is loaded.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _

WARPGROUP = 128


@cute.kernel
def gemm_tma(
    A: cute.Tensor,
    B: cute.Tensor,
    C: cute.Tensor,
    tile: tuple[int, int, int] = (128, 128, 64),
    stages: int = 3,
) -> None:
    """C (M,N) = A (M,K) * B (N,K) transposed, for f16 and bf16 with K contiguous."""
    cute.assume_shapes("MK NK MN", A, B, C)
    (M, K), (N, _k) = A.shape, B.shape
    bM, bN, bK = tile
    cute.launch(grid=(cute.ceil_div(M, bM), cute.ceil_div(N, bN)), block=WARPGROUP + 32)
    (bx, by), tid = cute.block_idx(), cute.thread_idx()
    mma = cute.make_tiled_mma(f"SM90_64x{bN}x16_F32{str(A.dtype).upper() * 2}_SS")
    gA = cute.local_tile(cute.tma_tensor(A), (bM, bK), (bx, _))  # (BM,BK,k)
    gB = cute.local_tile(cute.tma_tensor(B), (bN, bK), (by, _))  # (BN,BK,k)
    gC = cute.local_tile(C, (bM, bN), (bx, by))  # (BM,BN)
    atom = cute.atoms.Layout_K_SW128_Atom(A.dtype)
    sA = cute.smem(A.dtype, cute.tile_to_shape(atom, (bM, bK, stages)), 1024)  # (BM,BK,stages)
    sB = cute.smem(B.dtype, cute.tile_to_shape(atom, (bN, bK, stages)), 1024)  # (BN,BK,stages)
    ring = cute.pipeline(stages, tiles=(sA, sB), consumers="warpgroup")
    tiles = cute.ceil_div(K, bK)

    with cute.when(cute.warp_idx() == 4), cute.elect():
        for k in cute.range(tiles):
            stage = ring.acquire()  # wait until it is empty
            ring.load(gA[_, _, k], sA[_, _, stage])
            ring.load(gB[_, _, k], sB[_, _, stage])
            ring.commit()
    with cute.otherwise():
        thr = mma.get_slice(tid % WARPGROUP)
        tCsA, tCsB = thr.partition_A(sA), thr.partition_B(sB)  # (MMA,MMA_M or _N,MMA_K,stages)
        tCgC = thr.partition_C(gC)  # (MMA,MMA_M,MMA_N)
        acc = thr.make_fragment_C(tCgC)  # (MMA,MMA_M,MMA_N)
        acc.fill(0)
        for _tile in cute.range(tiles):
            stage = ring.wait()  # until its bytes are there
            cute.warpgroup_fence()
            cute.warpgroup_gemm(mma, acc, tCsA[_, _, _, stage], tCsB[_, _, _, stage])
            cute.warpgroup_commit()
            cute.warpgroup_wait(0)
            ring.release()
        cute.copy(acc.to(C.dtype), tCgC)


def check() -> None:
    """Multiply ragged matrices of small integers."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 136)).astype(np.float16) for n in (130, 257))
    c = np.full((130, 257), np.nan, np.float32)
    gemm_tma(a, b, c)
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()


if __name__ == "__main__":
    check()
