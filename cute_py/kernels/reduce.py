"""new here: registers that accumulate in a run-time loop, `warp_reduce`, and a result across warps.

One block reduces one row: its threads combine columns, the lanes of a warp combine in a butterfly,
and the warps through shared memory. `row_reduce` loads its part of a row in vectors, all at once,
and combines them afterwards; where a row fits in the registers. `reduce_columns` has a thread for
each of 32 neighbouring rows, which suits arrays that are contiguous along them.
"""

from __future__ import annotations

import math
import operator
from string import ascii_uppercase
from typing import Any

import numpy as np

import cute_py as cute
from cute_py.kernels.arrays import require, require_row_copy, require_threads, row_copy

THREADS = 128
WARPS = THREADS // 32
FUNCTIONS = ("add", "mul", "min", "max", "and", "or", "xor")


@cute.kernel
def reduce_rows(
    A: cute.Tensor,
    out: cute.Tensor,
    fn: str = "add",
    kind: Any = None,
    kept: int = 1,
    threads: int = THREADS,
) -> None:
    """out[m] = A[m, :] combined by `fn` in the type `kind` (that of `out`); M are the first `kept`
    modes. With out (M,P) each of P blocks combines a part of a row.
    """
    _assume_kept("reduce_rows", A, out, kept, threads, in_parts=True)
    A, out = matrix(A, kept), cute.group_modes(out, 0, kept)
    M, N = cute.size(A, 0), cute.size(A, 1)
    kind, in_parts = cute.dtype(kind or out.dtype), cute.rank(out) > 1
    cute.launch(grid=(M, cute.size(out, 1)) if in_parts else M, block=threads)
    tid, block = cute.thread_idx(), cute.block_idx()
    row, first, end = block, tid, N
    if in_parts:
        row, part = block
        each = cute.ceil_div(N, cute.size(out, 1))
        first, end = tid + part * each, cute.min_(N, (part + 1) * each)
    total = started(fn, kind)
    for j in cute.range(first, end, threads):
        total[0] = combined(fn, total, A[row, j].to(kind, "to_nearest"))
    total = over_block(fn, total, cute.smem(kind, threads // 32), "propagate")
    with cute.when(tid == 0):
        out[block] = total.to(out.dtype, "to_nearest")


def _assume_kept(
    operation: str,
    A: cute.Tensor,
    out: cute.Tensor,
    kept: int,
    threads: int,
    in_parts: bool = False,
) -> None:
    """State that `out` has the first modes of A, and perhaps one more: that of parts."""
    require_threads(operation, threads)
    most = cute.rank(A) - 1
    require(1 <= kept <= most, operation, "kept", kept, f"a number of modes from 1 to {most}")
    word = ascii_uppercase[: most + 1]
    parts = "p" if in_parts and cute.rank(out) > kept else ""
    cute.assume_shapes(f"{word} {word[:kept]}{parts}", A, out)


def matrix(A: cute.Tensor, kept: int) -> cute.Tensor:
    """Return A as (M,N): M are its first `kept` modes, N the others."""
    grouped: cute.Tensor = cute.group_modes(cute.group_modes(A, kept), 0, kept)
    return grouped


def sum_type(kind: cute.Dtype) -> cute.Dtype:
    """Return the type of sums and products of elements: integers have 32 bits at least."""
    wider = {"s8": "s32", "s16": "s32", "u8": "u32", "u16": "u32"}
    return cute.dtype(wider.get(kind.name, kind.name))


def wide_type(kind: cute.Dtype) -> cute.Dtype:
    """Return the type that a reduction to some type is computed in."""
    return kind if kind.bits == 64 else cute.dtype("f32") if kind.is_float else sum_type(kind)


def combined(fn: str, x: Any, y: Any) -> Any:
    """Return `fn` of elements in registers; NaN stays."""
    if fn in ("min", "max"):
        return (cute.minimum if fn == "min" else cute.maximum)(x, y, nan="propagate")
    names = {"and": "and_", "or": "or_"}
    return getattr(operator, names.get(fn, fn))(x, y)


def started(fn: str, kind: cute.Dtype) -> cute.Tensor:
    """Return one element in registers from which a reduction starts."""
    total = cute.rmem(kind, 1)
    total.fill(identity(fn, kind))
    return total


def identity(fn: str, kind: cute.Dtype) -> float:
    """Return the element that `fn` leaves others as they are with.

    >>> from cute_py.dtypes import f32, s8
    >>> identity("mul", f32), identity("max", f32), identity("min", s8), identity("and", s8)
    (1, -inf, 127, -1)
    """
    require(fn in FUNCTIONS, "reduce", "fn", repr(fn), f"one of {', '.join(FUNCTIONS)}")
    if fn in ("min", "max"):
        least = fn == "max"
        if kind.is_float:
            return -math.inf if least else math.inf
        return int(kind.min if least else kind.max)
    if fn == "and":
        return -1 if kind.is_signed else int(kind.max)
    return int(fn == "mul")


def over_block(fn: str, x: cute.Tensor, partial: cute.Tensor, nan: str = "ignore") -> cute.Tensor:
    """Return x combined over the threads of a block; every thread gets it.

    Args:
        fn: as in `cute.reduce`.
        x: one element in registers.
        partial: shared memory, an element for each warp.
        nan: what extremes do with it, as in `cute.maximum`.

    """
    x = over_lanes(fn, x, nan)
    with cute.when(cute.lane_idx() == 0):
        partial[cute.warp_idx()] = x
    cute.syncthreads()
    held = cute.rmem(x.dtype, partial.shape)  # (WARPS)
    cute.copy(partial, held)
    return over_elements(fn, held, nan)


def over_lanes(fn: str, x: cute.Tensor, nan: str) -> cute.Tensor:
    """Return x combined over the lanes of a warp; `nan` as in `over_block`."""
    if nan == "ignore" or not _has_nan(fn, x):
        return cute.warp_reduce(fn, x)
    for distance in (16, 8, 4, 2, 1):
        x = combined(fn, x, cute.shuffle(x, distance, "bfly"))
    return x


def over_elements(fn: str, x: cute.Tensor, nan: str) -> cute.Tensor:
    """Return the elements of x combined, from left to right; `nan` as in `over_block`."""
    if nan == "ignore" or not _has_nan(fn, x):
        return cute.reduce(fn, x)
    total = started(fn, x.dtype)
    for i in range(cute.size(x)):
        total = combined(fn, total, x[i])
    return total


def _has_nan(fn: str, x: cute.Tensor) -> bool:
    return fn in ("min", "max") and x.dtype.is_float


@cute.kernel
def row_reduce(
    A: cute.Tensor,
    out: cute.Tensor,
    tile: tuple[int, int],
    copy: cute.TiledCopy,
    fn: str = "add",
    kind: Any = None,
) -> None:
    """out[m] = A[m, :] combined by `fn` in the type `kind`.

    A block keeps a tile (1,BN) in registers, or each of its warps a row of several.
    """
    cute.assume_shapes("MN M", A, out)
    require_row_copy("row_reduce", tile, copy, A.shape[1])
    M, rows = A.shape[0], tile[0]
    cute.launch(grid=cute.ceil_div(M, rows), block=copy.size())
    row, tid = cute.block_idx(), cute.thread_idx()
    part = copy.get_slice(tid).partition_S(cute.local_tile(A, tile, (row, 0)))  # (CPY,1,CPY_N)
    held = cute.make_rmem_tensor(part.shape, A.dtype)
    start, kind = identity(fn, A.dtype), cute.dtype(kind or out.dtype)
    cute.copy(part, held, fill=start) if start else cute.copy(part, held)
    total = over_elements(fn, held.to(kind, "to_nearest"), "propagate")
    if rows > 1:
        row, total = row * rows + cute.warp_idx(), over_lanes(fn, total, "propagate")
        with cute.when((cute.lane_idx() == 0) & (row < M)):
            out[row] = total.to(out.dtype, "to_nearest")
        return
    total = over_block(fn, total, cute.smem(kind, copy.size() // 32), "propagate")
    with cute.when(tid == 0):
        out[row] = total.to(out.dtype, "to_nearest")


@cute.kernel
def reduce_columns(
    A: cute.Tensor, out: cute.Tensor, fn: str, kind: Any, kept: int, threads: int = THREADS
) -> None:
    """out[m] = A[m, :] combined by `fn` in the type `kind`, 32 neighbouring rows in a block."""
    _assume_kept("reduce_columns", A, out, kept, threads)
    A, out, kind = matrix(A, kept), cute.group_modes(out, 0, kept), cute.dtype(kind)
    M, N = cute.size(A, 0), cute.size(A, 1)
    warps = threads // 32
    cute.launch(grid=cute.ceil_div(M, 32), block=(32, warps))
    lane, warp = cute.thread_idx()
    row, partial = cute.block_idx() * 32 + lane, cute.smem(kind, (32, warps))
    total = started(fn, kind)
    with cute.when(row < M):
        for j in cute.range(warp, N, warps):
            total[0] = combined(fn, total, A[row, j].to(kind, "to_nearest"))
    total = over_warps(fn, total, partial[lane, cute._], warp, "propagate")
    with cute.when((warp == 0) & (row < M)):
        out[row] = total.to(out.dtype, "to_nearest")


def over_warps(
    fn: str, x: cute.Tensor, partial: cute.Tensor, warp: Any, nan: str = "ignore"
) -> cute.Tensor:
    """Return x combined over the warps of a block, lane by lane; every warp gets it.

    Args:
        fn: as in `cute.reduce`.
        x: one element in registers.
        partial: shared memory of the lane, an element for each warp.
        warp: which of them it is.
        nan: as in `over_block`.

    """
    partial[warp] = x
    cute.syncthreads()
    held = cute.rmem(x.dtype, partial.shape)  # (WARPS)
    cute.copy(partial, held)
    return over_elements(fn, held, nan)


def sum_any(A: Any, out: Any) -> None:
    """out[m] = the sum of A[m, :], added up in the type of `out`."""
    chosen = row_copy(A)
    if chosen is None:
        reduce_rows(A, out)
    else:
        row_reduce(A, out, *chosen)


def check() -> None:
    """Sum rows of integers, which is exact."""
    a = np.random.default_rng(0).integers(-9, 10, (33, 257)).astype(np.float32)
    for kernel in (reduce_rows, sum_any):
        out = np.full(33, np.nan, np.float32)
        kernel(a, out)
        assert (out == a.sum(1)).all()
    out = np.full(257, np.nan, np.float32)
    reduce_columns(a.T, out, "max", "f32", 1)
    assert (out == a.max(0)).all()


if __name__ == "__main__":
    check()
