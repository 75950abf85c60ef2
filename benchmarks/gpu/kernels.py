"""Kernels of the benchmark: what `cute_py.kernels` has no form of yet.

Each is plain text of the DSL. `KERNELS` has them by name, with those of the library.
"""

from __future__ import annotations

import math

import cute_py as cute
from cute_py.kernels import gemm as library
from cute_py.kernels.copy import copy_tiles
from cute_py.kernels.gemm_04_double_buffer import sgemm_128x128
from cute_py.kernels.transpose import transpose_shared

LOG2_E = math.log2(math.e)


@cute.kernel
def copy_vectors(A, B, tile, threads):
    """B = A: all loads of a thread's part of a tile are under way before the first store."""
    M, N = A.shape
    (bM, bN), width = tile, 128 // A.dtype.bits
    cute.launch(grid=(cute.ceil_div(N, bN), cute.ceil_div(M, bM)), block=threads)
    bx, by = cute.block_idx()
    across = min(bN // width, threads)
    lanes = cute.Layout((threads // across, across), (across, 1))
    atom = cute.Copy_Atom("UniversalCopy<128>", A.dtype)
    copy = cute.make_tiled_copy(atom, lanes, cute.Layout((1, width)))
    part = copy.get_slice(cute.thread_idx())
    source = part.partition_S(cute.local_tile(A, tile, (by, bx)))  # (CPY,CPY_M,CPY_N)
    held = cute.make_rmem_tensor(source.shape, A.dtype)
    cute.copy(source, held)
    cute.copy(held, part.partition_D(cute.local_tile(B, tile, (by, bx))))


@cute.kernel
def transpose_vectors(A, B, threads):
    """B (N,M) = transposed A (M,N), f32: vectors of 4 on both sides, tiles of 64x64."""
    M, N = A.shape
    cute.launch(grid=(cute.ceil_div(N, 64), cute.ceil_div(M, 64)), block=threads)
    (bx, by), tid = cute.block_idx(), cute.thread_idx()
    # chunks of 4 columns change places by groups of 4 rows: neither side has bank conflicts
    swizzle = cute.Swizzle(4, 2, 6)
    s = cute.smem(A.dtype, cute.composition(swizzle, cute.Layout((64, 64), (64, 1))))
    turned = s.with_layout(cute.composition(swizzle, cute.Layout((64, 64), (1, 64))))
    atom = cute.Copy_Atom("UniversalCopy<128>", A.dtype)
    lanes = cute.Layout((threads // 16, 16), (16, 1))
    copy = cute.make_tiled_copy(atom, lanes, cute.Layout((1, 4))).get_slice(tid)
    gA = cute.local_tile(A, (64, 64), (by, bx))
    gB = cute.local_tile(B, (64, 64), (bx, by))
    cute.copy(copy.partition_S(gA), copy.partition_D(s))
    cute.syncthreads()
    out = copy.partition_D(gB)
    held = cute.make_rmem_tensor(out.shape, A.dtype)
    cute.copy(copy.partition_S(turned), held)
    cute.copy(held, out)


# -- rows that stay in registers


def row_of(X, row, columns, threads):
    """Return this thread's part of a row, in vectors of 16 bytes."""
    width = 128 // X.dtype.bits
    atom = cute.Copy_Atom("UniversalCopy<128>", X.dtype)
    copy = cute.make_tiled_copy(atom, cute.Layout((1, threads)), cute.Layout((1, width)))
    tile = cute.local_tile(X, (1, columns), (row, 0))  # (1,columns)
    return copy.get_slice(cute.thread_idx()).partition_S(tile)  # (CPY,1,CPY_N)


def held_row(part):
    """Return a part of a row in registers, in f32."""
    held = cute.make_rmem_tensor(part.shape, part.dtype)
    cute.copy(part, held)
    return library.converted(held, "f32")


def over_block(fn, x, threads):
    """Return one number of each thread combined over the block."""
    partial = cute.smem("f32", threads // 32)
    x = cute.warp_reduce(fn, x)
    with cute.when(cute.lane_idx() == 0):
        partial[cute.warp_idx()] = x
    cute.syncthreads()
    held = cute.rmem("f32", threads // 32)
    cute.copy(partial, held)
    return cute.reduce(fn, held)


@cute.kernel
def row_softmax(A, B, columns, threads):
    """B[m, :] = exp(A[m, :] - max) / sum; each row is read once."""
    cute.launch(grid=A.shape[0], block=threads)
    row = cute.block_idx()
    x = held_row(row_of(A, row, columns, threads))
    most = over_block("max", cute.reduce("max", x), threads)
    e = cute.exp2((x - most) * LOG2_E)
    scale = cute.rcp(over_block("add", cute.reduce("add", e), threads))
    cute.copy(library.converted(e * scale, B.dtype), row_of(B, row, columns, threads))


@cute.kernel
def row_sum(A, out, columns, threads):
    """out[m] = the sum of A[m, :]."""
    cute.launch(grid=A.shape[0], block=threads)
    row = cute.block_idx()
    x = held_row(row_of(A, row, columns, threads))
    total = over_block("add", cute.reduce("add", x), threads)
    with cute.when(cute.thread_idx() == 0):
        out[row] = library.converted(total, out.dtype)


@cute.kernel
def add_one(A, B, C):
    """Write one element: a launch and hardly more."""
    cute.launch(grid=1, block=32)
    with cute.when(cute.thread_idx() == 0):
        C[0] = A[0] + B[0]


KERNELS = {
    "gemm": library.gemm,
    "sgemm_04": sgemm_128x128,
    "copy_tiles": copy_tiles,
    "copy_vectors": copy_vectors,
    "transpose_shared": transpose_shared,
    "transpose_vectors": transpose_vectors,
    "row_softmax": row_softmax,
    "row_sum": row_sum,
    "add_one": add_one,
}
