"""new here: vectors, warp tiling and double buffers: sgemm_128x128, 8x8 elements a thread, BK = 8.

- Each thread loads 4 elements of A and of B at a time where they are neighbours, and holds them in
  registers while the tile before is multiplied. They are stored transposed, so that the outer
  products read along M and N; four elements of padding avoid bank conflicts between the stores.
- A warp computes 32x64: its 4x8 lanes read 4 neighbours of A and of B at a time, twice.
- Two stages of shared memory: one barrier a tile. Two fragments: the loads for the next k run under
  the products of this one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import tile_copy

BM, BN, BK = 128, 128, 8
PAD = 4
# lane, warp, neighbours, repeats -> index in the tile
ROWS = cute.Layout((4, 4, 4, 2), (4, 32, 1, 16))
COLUMNS = cute.Layout((8, 2, 4, 2), (4, 64, 1, 32))
LANES = cute.Layout(((4, 4), (8, 2), 1), ((1, 32), (4, 128), 0))


@dataclass(frozen=True, slots=True)
class Loads:
    """The copies of tiles of A and B from global memory."""

    a: cute.TiledCopy
    b: cute.TiledCopy


@cute.kernel
def sgemm_128x128(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor, loads: Loads) -> None:
    """C (M,N) = A (M,K) * B (N,K) transposed, added up in the type of C."""
    cute.assume_shapes("MK NK MN", A, B, C)
    (M, K), (N, _k) = A.shape, B.shape
    fma = f"UniversalFMA<{C.dtype.name},{A.dtype.name},{B.dtype.name},{C.dtype.name}>"
    mma = cute.make_tiled_mma(fma, LANES, (ROWS, COLUMNS, 1))
    cute.launch(grid=(cute.ceil_div(M, BM), cute.ceil_div(N, BN)), block=mma.size())
    (bx, by), tid = cute.block_idx(), cute.thread_idx()
    gA = cute.local_tile(A, (BM, BK), (bx, _))  # (BM,BK,k)
    gB = cute.local_tile(B, (BN, BK), (by, _))  # (BN,BK,k)
    gC = cute.local_tile(C, (BM, BN), (bx, by))  # (BM,BN)
    sA = cute.smem(A.dtype, cute.Layout((BM, BK, 2), (1, BM + PAD, (BM + PAD) * BK)))
    sB = cute.smem(B.dtype, cute.Layout((BN, BK, 2), (1, BN + PAD, (BN + PAD) * BK)))

    load_a, load_b = loads.a.get_slice(tid), loads.b.get_slice(tid)
    tAgA, tAsA = load_a.partition_S(gA), load_a.partition_D(sA)  # (CPY,CPY_M,CPY_K,k or 2)
    tBgB, tBsB = load_b.partition_S(gB), load_b.partition_D(sB)  # (CPY,CPY_N,CPY_K,k or 2)
    tArA = cute.make_rmem_tensor(tAgA[_, _, _, 0].shape, A.dtype)  # (CPY,CPY_M,CPY_K)
    tBrB = cute.make_rmem_tensor(tBgB[_, _, _, 0].shape, B.dtype)  # (CPY,CPY_N,CPY_K)

    thread = mma.get_slice(tid)
    tCsA = thread.partition_A(sA)  # (1,8,BK,2)
    tCsB = thread.partition_B(sB)  # (1,8,BK,2)
    tCgC = thread.partition_C(gC)  # (1,8,8)
    tCrA = cute.rmem(A.dtype, (1, 8, 2))  # (1,8,2): the fragments of two k
    tCrB = cute.rmem(B.dtype, (1, 8, 2))  # (1,8,2)
    acc = thread.make_fragment_C(tCgC)  # (1,8,8)
    acc.fill(0)

    def fetch(tile: int) -> None:
        cute.copy(loads.a, tAgA[_, _, _, tile], tArA)
        cute.copy(loads.b, tBgB[_, _, _, tile], tBrB)

    def store(stage: int) -> None:
        cute.copy(tArA, tAsA[_, _, _, stage])
        cute.copy(tBrB, tBsB[_, _, _, stage])

    def read(k: int, stage: int) -> None:
        cute.copy(tCsA[_, _, k, stage], tCrA[_, _, k % 2])
        cute.copy(tCsB[_, _, k, stage], tCrB[_, _, k % 2])

    fetch(0)
    store(0)
    for tile in cute.range(cute.ceil_div(K, BK)):
        cute.syncthreads()  # the stage is stored, and all have read the other one
        fetch(tile + 1)  # zeros beyond the last one
        read(0, tile % 2)
        for k in range(BK):
            if k + 1 < BK:
                read(k + 1, tile % 2)
            cute.gemm(mma, acc, tCrA[_, _, k % 2], tCrB[_, _, k % 2])
        store((tile + 1) % 2)
    cute.copy(acc, tCgC)


def choose(A: np.ndarray, B: np.ndarray) -> Loads:
    """Return the copies for arrays: vectors along their contiguous modes."""
    return Loads(tile_copy((BM, BK), 256, A), tile_copy((BN, BK), 256, B))


def check() -> None:
    """Multiply ragged matrices of small integers, A along K and B along N."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((130, 36), (36, 132)))
    c = np.full((130, 132), np.nan, np.float32)
    sgemm_128x128(a, b.T, c, choose(a, b.T))
    assert (c == a @ b).all()


if __name__ == "__main__":
    check()
