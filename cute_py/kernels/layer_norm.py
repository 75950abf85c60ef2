"""new here: a mean and a variance of rows that stay in registers, and columns that all rows share.

A block reads its row once, in vectors. The variance is the mean of (x - mean)^2, computed from the
row in registers after the mean is known, in f32: so numbers far from 0 lose no digits, as they
would in E(x^2) - mean^2. `layer_norm_long` reads a row that is too long for registers three times;
`layer_norm_any` chooses between the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cute_py as cute
from cute_py.kernels.arrays import Tile, require_row_copy, row_copy
from cute_py.kernels.reduce import THREADS, WARPS, over_block


@cute.kernel
def layer_norm(
    A: Any, weight: Any, bias: Any, B: Any, eps: cute.f32, tile: Tile, copy: cute.TiledCopy
) -> None:
    """B[m, :] = (A[m, :] - mean) / sqrt(variance + eps) * weight + bias, computed in f32.

    Args:
        A: (M,N) of f16, bf16 or f32.
        weight: (N) of the type of A, or None for 1.
        bias: (N) of the type of A, or None for 0.
        B: the result (M,N), of any of these types.
        eps: added to the variance, which is that of all N numbers.
        tile: that holds a row, (1,BN).
        copy: how the threads of a block share it: `row_copy(A, B)` returns both, or None where
            a row is too long for the registers.

    """
    cute.assume_shapes("MN N? N? MN", A, weight, bias, B)
    require_row_copy("layer_norm", tile, copy, A.shape[1])
    M, N = A.shape
    cute.launch(grid=M, block=copy.size())
    row, thread = cute.block_idx(), copy.get_slice(cute.thread_idx())
    partial = cute.smem("f32", (copy.size() // 32, 2))
    at = thread.partition_S(cute.make_identity_tensor(tile))  # (row, column) of each element

    def part(X: cute.Tensor, row: Any) -> Any:  # a tensor
        """Return the thread's part of a row in f32; 0 beyond the end."""
        held = cute.make_rmem_tensor(at.shape, X.dtype)  # (CPY,1,CPY_N)
        cute.copy(thread.partition_S(cute.local_tile(X, tile, (row, 0))), held)
        return held.to("f32")

    def shared(X: Any) -> Any:  # tensors
        """Return the thread's part of a vector that all rows share."""
        return part(cute.make_tensor(X.data, cute.Layout((1, *X.shape), (0, *X.stride))), 0)

    def mean(x: cute.Tensor, which: int) -> Any:  # a tensor
        """Return the sum of x over the block, divided by N."""
        return over_block("add", cute.reduce("add", x), partial[cute._, which]) / N.to("f32")

    x = part(A, row)
    x[...] = x - mean(x, 0)
    for i in range(cute.size(x)):  # beyond the end, x is 0 again
        x[i] = cute.where(at[i][1] < N, x[i], 0.0)
    x[...] = x * cute.rsqrt(mean(x * x, 1) + eps)
    x[...] = x if weight is None else x * shared(weight)
    x[...] = x if bias is None else x + shared(bias)
    cute.copy(x.to(B.dtype), thread.partition_D(cute.local_tile(B, tile, (row, 0))))


@cute.kernel
def layer_norm_long(A: Any, weight: Any, bias: Any, B: Any, eps: cute.f32) -> None:
    """`layer_norm` for rows of any length."""
    cute.assume_shapes("MN N? N? MN", A, weight, bias, B)
    M, N = A.shape
    cute.launch(grid=M, block=THREADS)
    row, tid = cute.block_idx(), cute.thread_idx()
    partial = cute.smem("f32", (WARPS, 2))

    def mean(term: Any, which: int) -> Any:  # a function of an element; a tensor
        """Return the sum of a function of all elements of the row, divided by N."""
        total = cute.rmem("f32", 1)
        total.fill(0)
        for j in cute.range(tid, N, THREADS):
            total += term(A[row, j].to("f32"))
        return over_block("add", total, partial[cute._, which]) / N.to("f32")

    middle = mean(lambda x: x, 0)
    scale = cute.rsqrt(mean(lambda x: (x - middle) * (x - middle), 1) + eps)
    for j in cute.range(tid, N, THREADS):
        x = (A[row, j].to("f32") - middle) * scale
        x = x if weight is None else x * weight[j].to("f32")
        x = x if bias is None else x + bias[j].to("f32")
        B[row, j] = x.to(B.dtype)


def layer_norm_any(A: Any, weight: Any, bias: Any, B: Any, eps: float) -> None:
    """Normalize rows of any length: they stay in registers if they fit."""
    chosen = row_copy(A, B)
    if chosen is None:
        layer_norm_long(A, weight, bias, B, eps)
    else:
        layer_norm(A, weight, bias, B, eps, *chosen)


def reference(a: Any, weight: Any, bias: Any, eps: float) -> Any:  # arrays
    """Return the result in f64."""
    a, weight, bias = (np.asarray(x, np.float64) for x in (a, weight, bias))
    return (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + eps) * weight + bias


def check() -> None:
    """Compare with NumPy in f64."""
    rng = np.random.default_rng(0)
    a, weight, bias = (rng.normal(100, 4, n).astype(np.float32) for n in ((33, 257), 257, 257))
    b = np.full_like(a, np.nan)
    layer_norm_any(a, weight, bias, b, 1e-5)
    assert np.abs(b - reference(a, weight, bias, 1e-5)).max() < 1e-3


if __name__ == "__main__":
    check()
