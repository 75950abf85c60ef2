"""new here: two reductions that depend on each other, and functions of registers (`exp2`, `rcp`).

A row is read three times: for its maximum, for the sum of exp(x - maximum), and for the result.
NaN anywhere makes its row NaN, as in NumPy. `row_softmax` reads a row once: it stays in registers,
in vectors; `softmax_any` chooses between the two. `softmax_columns` suits other strides.
"""

from __future__ import annotations

import math
from string import ascii_uppercase
from typing import Any

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import (
    FLOATS,
    facts_of,
    require,
    require_kind,
    require_row_copy,
    require_threads,
    row_copy,
)
from cute_py.kernels.reduce import THREADS, matrix, over_block, over_warps, started

LOG2_E = math.log2(math.e)


@cute.kernel
def softmax(A: cute.Tensor, B: cute.Tensor, threads: int = THREADS) -> None:
    """B[m, :] = exp(A[m, :] - max) / sum, computed in f32 (f64 in f64), a block for each row.

    M are all modes but the last.
    """
    _assume_same("softmax", A, B, threads)
    A, B = (matrix(x, cute.rank(x) - 1) for x in (A, B))
    M, N = cute.size(A, 0), cute.size(A, 1)
    cute.launch(grid=M, block=threads)
    row, tid, kind = cute.block_idx(), cute.thread_idx(), computed(A)
    partial = cute.smem(kind, (threads // 32, 2))

    most = started("max", kind)
    for j in cute.range(tid, N, threads):
        most[0] = cute.maximum(most, A[row, j].to(kind))
    most = over_block("max", most, partial[_, 0])

    total = started("add", kind)
    for j in cute.range(tid, N, threads):
        total += cute.exp2((A[row, j].to(kind) - most) * LOG2_E)
    scale = cute.rcp(over_block("add", total, partial[_, 1]))

    for j in cute.range(tid, N, threads):
        p = cute.exp2((A[row, j].to(kind) - most) * LOG2_E) * scale
        B[row, j] = p.to(B.dtype)


def _assume_same(operation: str, A: cute.Tensor, B: cute.Tensor, threads: int) -> None:
    require_threads(operation, threads)
    rank = cute.rank(A)
    require(rank > 1, operation, "A", f"an array of {rank} mode", "two modes or more")
    word = ascii_uppercase[:rank]
    cute.assume_shapes(f"{word} {word}", A, B)


def computed(A: cute.Tensor) -> cute.Dtype:
    """Return the type that a softmax of A is computed in."""
    return A.dtype if A.dtype.bits == 64 else cute.dtype("f32")


@cute.kernel
def softmax_columns(A: cute.Tensor, B: cute.Tensor, threads: int = THREADS) -> None:
    """The same for arrays that are contiguous along M: 32 neighbouring rows in a block."""
    _assume_same("softmax_columns", A, B, threads)
    A, B = (matrix(x, cute.rank(x) - 1) for x in (A, B))
    M, N = cute.size(A, 0), cute.size(A, 1)
    warps = threads // 32
    cute.launch(grid=cute.ceil_div(M, 32), block=(32, warps))
    lane, warp = cute.thread_idx()
    row, kind = cute.block_idx() * 32 + lane, computed(A)
    partial = cute.smem(kind, (32, warps, 2))

    def exponential(j: Any) -> cute.Tensor:
        return cute.exp2((A[row, j].to(kind) - most) * LOG2_E)

    most, total = started("max", kind), started("add", kind)
    with cute.when(row < M):
        for j in cute.range(warp, N, warps):
            most[0] = cute.maximum(most, A[row, j].to(kind))
    most = over_warps("max", most, partial[lane, _, 0], warp)
    with cute.when(row < M):
        for j in cute.range(warp, N, warps):
            total += exponential(j)
    scale = cute.rcp(over_warps("add", total, partial[lane, _, 1], warp))
    with cute.when(row < M):
        for j in cute.range(warp, N, warps):
            B[row, j] = (exponential(j) * scale).to(B.dtype)


@cute.kernel
def row_softmax(
    A: cute.Tensor, B: cute.Tensor, tile: tuple[int, int], copy: cute.TiledCopy
) -> None:
    """The same; a block keeps a tile (1,BN) in registers, or each of its warps a row of several."""
    cute.assume_shapes("MN MN", A, B)
    require_row_copy("row_softmax", tile, copy, A.shape[1])
    require_kind("row_softmax", FLOATS, A=A)  # those with -inf
    cute.launch(grid=cute.ceil_div(A.shape[0], tile[0]), block=copy.size())
    row, thread = cute.block_idx(), copy.get_slice(cute.thread_idx())
    partial = cute.smem(computed(A), (copy.size() // 32, 2))
    tAgA = thread.partition_S(cute.local_tile(A, tile, (row, 0)))  # (CPY,1,CPY_N)
    tBgB = thread.partition_D(cute.local_tile(B, tile, (row, 0)))  # (CPY,1,CPY_N)
    held = cute.make_rmem_tensor(tAgA.shape, A.dtype)
    cute.copy(tAgA, held, fill=-math.inf)
    x = held.to(computed(A))

    def over_row(fn: str, x: cute.Tensor, which: int) -> cute.Tensor:
        x = cute.reduce(fn, x)
        return cute.warp_reduce(fn, x) if tile[0] > 1 else over_block(fn, x, partial[_, which])

    e = cute.exp2((x - over_row("max", x, 0)) * LOG2_E)
    cute.copy((e * cute.rcp(over_row("add", e, 1))).to(B.dtype), tBgB)


def softmax_any(A: Any, B: Any) -> None:
    """B[m, :] = exp(A[m, :] - max) / sum: rows stay in registers if they fit and A has -inf."""
    dtype, chosen = facts_of(A)[0], row_copy(A, B)
    if chosen is None or dtype.name not in FLOATS:
        softmax(A, B)
    else:
        row_softmax(A, B, *chosen)


def check() -> None:
    """Compare with NumPy in f64."""
    a = np.random.default_rng(0).normal(0, 4, (33, 257)).astype(np.float32)
    b = np.full_like(a, np.nan)
    c, e = b.copy(), np.exp(a.astype(np.float64) - a.max(1, keepdims=True))
    softmax(a, b)
    softmax_any(a, c)
    assert np.abs(b - e / e.sum(1, keepdims=True)).max() < 1e-6
    assert np.abs(c - e / e.sum(1, keepdims=True)).max() < 1e-6


if __name__ == "__main__":
    check()
