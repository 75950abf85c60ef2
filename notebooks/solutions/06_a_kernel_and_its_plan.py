"""Answers to lesson 6; after each, a wrong one that many write first."""

import cute_py as cute


# -- 6.1
@cute.kernel
def scale(x, y):
    cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
    i = cute.block_idx() * 128 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        y[i] = 2 * x[i] + 1


# -- 6.1 wrong: one block alone
@cute.kernel
def scale(x, y):
    cute.launch(grid=1, block=128)
    i = cute.thread_idx()
    with cute.when(i < x.shape[0]):
        y[i] = 2 * x[i] + 1


# -- 6.2
@cute.kernel
def add_rows(x, out):
    M, N = x.shape
    cute.launch(grid=cute.ceil_div(M, 32), block=32)
    m = cute.block_idx() * 32 + cute.thread_idx()
    with cute.when(m < M):
        total = cute.rmem("f32", 1)
        total.fill(0)
        for n in cute.range(N):
            total[0] = total[0] + x[m, n]
        out[m] = total[0]


# -- 6.2 wrong: a loop from 1 on
@cute.kernel
def add_rows(x, out):
    M, N = x.shape
    cute.launch(grid=cute.ceil_div(M, 32), block=32)
    m = cute.block_idx() * 32 + cute.thread_idx()
    with cute.when(m < M):
        total = cute.rmem("f32", 1)
        total.fill(0)
        for n in cute.range(N - 1):
            total[0] = total[0] + x[m, n + 1]
        out[m] = total[0]


# -- 6.3
@cute.kernel
def copy_matrix(x, y):
    cute.launch(grid=64, block=64)
    i, j = cute.block_idx(), cute.thread_idx()
    y[i, j] = x[i, j]


# -- 6.3 wrong: reads are coalesced, but the result is transposed
@cute.kernel
def copy_matrix(x, y):
    cute.launch(grid=64, block=64)
    i, j = cute.block_idx(), cute.thread_idx()
    y[j, i] = x[i, j]
