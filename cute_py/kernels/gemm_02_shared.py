"""new here: tiles of A and B in shared memory, so that each element is loaded once for 16 threads.

`local_tile` cuts all tiles along K that a block needs: (TILE,TILE,k). Those at the edges are filled
with zeros by the loads, which add nothing to the product.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _

TILE = 16


@cute.kernel
def gemm_shared(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor) -> None:
    """C (M,N) = A (M,K) * B (N,K) transposed, added up in the type of C."""
    cute.assume_shapes("MK NK MN", A, B, C)
    (M, K), (N, _k) = A.shape, B.shape
    cute.launch(grid=(cute.ceil_div(M, TILE), cute.ceil_div(N, TILE)), block=(TILE, TILE))
    (bx, by), (tx, ty) = cute.block_idx(), cute.thread_idx()
    gA = cute.local_tile(A, (TILE, TILE), (bx, _))  # (TILE,TILE,k)
    gB = cute.local_tile(B, (TILE, TILE), (by, _))  # (TILE,TILE,k)
    gC = cute.local_tile(C, (TILE, TILE), (bx, by))  # (TILE,TILE)
    sA = cute.smem(A.dtype, cute.Layout((TILE, TILE), (TILE + 1, 1)))  # (m,k), padded
    sB = cute.smem(B.dtype, cute.Layout((TILE, TILE), (TILE + 1, 1)))  # (n,k), padded
    acc = cute.rmem(C.dtype, 1)
    acc.fill(0)
    for tile in cute.range(cute.ceil_div(K, TILE)):
        sA[ty, tx] = gA[ty, tx, tile]
        sB[ty, tx] = gB[ty, tx, tile]
        cute.syncthreads()
        for k in range(TILE):
            acc[0] = cute.fma(sA[ty, k].to(C.dtype), sB[tx, k].to(C.dtype), acc)
        cute.syncthreads()
    gC[ty, tx] = acc


def check() -> None:
    """Multiply ragged matrices of small integers, which is exact."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 33)).astype(np.float32) for n in (17, 40))
    c = np.full((17, 40), np.nan, np.float32)
    gemm_shared(a, b, c)
    assert (c == a @ b.T).all()


if __name__ == "__main__":
    check()
