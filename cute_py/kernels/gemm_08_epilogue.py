"""new here: an epilogue, activation(alpha * acc + beta * C + bias), through shared memory.

The fragments of an MMA are scattered over C: in pairs, eight rows at a time. The accumulators go
to shared memory, in the place of the tiles of A and B, and come back as rows: C and D are then
read and written in vectors of neighbours. The main loop is that of gemm_07, by `cute.mainloop`.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.activations import activated
from cute_py.kernels.config import MultistageConfig, choose


@cute.kernel
def gemm_epilogue(
    A: cute.Tensor,
    B: cute.Tensor,
    C: cute.Tensor,
    D: cute.Tensor,
    bias: cute.Tensor | None,
    alpha: cute.f64,
    beta: cute.f64,
    cfg: MultistageConfig,
    activation: str | None = None,
) -> None:
    """D (M,N) = activation(alpha * A (M,K) * B (N,K) transposed + beta * C (M,N) + bias (N))."""
    cute.assume_shapes("MK NK MN MN N?", A, B, C, D, bias)
    M, N = D.shape
    bM, bN, bK = cfg.tile
    mma, (of_a, of_b) = cfg.tiled_mma(), cfg.operands()
    grid = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    cute.launch(grid=grid, block=cfg.threads, allow_emulated=cfg.emulated)
    (bx, by), tid = cute.block_idx(), cute.thread_idx()
    gA = cute.local_tile(A, (bM, bK), (bx, _))  # (BM,BK,k)
    gB = cute.local_tile(B, (bN, bK), (by, _))  # (BN,BK,k)
    kind = mma.atom.d_type
    with cute.union():
        with cute.struct():
            sA = cute.smem(A.dtype, of_a.smem)  # (BM,BK,stages)
            sB = cute.smem(B.dtype, of_b.smem)  # (BN,BK,stages)
        sC = cute.smem(kind, cfg.store_layout(kind))  # (BM,BN)

    tCsC = mma.get_slice(tid).partition_C(sC)  # (MMA,MMA_M,MMA_N)
    acc = mma.get_slice(tid).make_fragment_C(tCsC)  # (MMA,MMA_M,MMA_N)
    acc.fill(0)
    a = cute.Operand(gA, sA, of_a.g2s, cute.make_tiled_copy_A(of_a.s2r, mma))
    b = cute.Operand(gB, sB, of_b.g2s, cute.make_tiled_copy_B(of_b.s2r, mma))
    cute.mainloop(mma, acc, a, b)

    cute.syncthreads()  # all have read sA and sB
    cute.copy(acc, tCsC)
    cute.syncthreads()
    out = cfg.store_copy(D.dtype).get_slice(tid)
    wide = "f64" if kind.name == "f64" else "f32"
    tDsC = out.partition_S(sC)  # (CPY,CPY_M,CPY_N)
    tDgC = out.partition_S(cute.local_tile(C, (bM, bN), (bx, by)))  # (CPY,CPY_M,CPY_N)
    tDgD = out.partition_D(cute.local_tile(D, (bM, bN), (bx, by)))  # (CPY,CPY_M,CPY_N)
    held = cute.make_rmem_tensor(tDsC.shape, kind)  # (CPY,CPY_M,CPY_N)
    cute.copy(tDsC, held)
    result = held.to(wide) * alpha.to(wide)
    with cute.when(beta != 0):  # else C is not even read
        before = cute.make_rmem_tensor(tDsC.shape, C.dtype)
        cute.copy(tDgC, before)
        result += before.to(wide) * beta.to(wide)
    if bias is not None:
        rows = cute.make_tensor(bias.data, cute.Layout((M, N), (0, *bias.stride)))  # of all rows
        tDgb = out.partition_S(cute.local_tile(rows, (bM, bN), (bx, by)))
        added = cute.make_rmem_tensor(tDsC.shape, bias.dtype)
        cute.copy(tDgb, added)
        result += added.to(wide)
    cute.copy(activated(result, activation).to(D.dtype, "to_nearest"), tDgD)


def check() -> None:
    """Apply everything to ragged matrices of small integers."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 80)).astype(np.float16) for n in (130, 76))
    c = rng.integers(-9, 10, (130, 76)).astype(np.float32)
    bias = rng.integers(-99, 100, 76).astype(np.float32)
    d = np.full_like(c, np.nan)
    cfg = choose(a, b, (64, 64), outputs=(c, d))
    gemm_epilogue(a, b, c, d, bias, 0.5, 2.0, cfg, "relu")
    product = a.astype(np.float32) @ b.astype(np.float32).T
    assert (d == np.maximum(0.5 * product + 2.0 * c + bias, 0)).all()


if __name__ == "__main__":
    check()
