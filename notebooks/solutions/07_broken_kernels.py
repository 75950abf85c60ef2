"""Answers to lesson 7; after each, a fix that does not fix it."""

import cute_py as cute


# -- 7.1
@cute.kernel
def reverse(x, out):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    s = cute.smem("f32", 64)
    s[t] = x[t]
    cute.syncthreads()
    out[t] = s[63 - t]


# -- 7.1 wrong: orders the lanes of each warp alone
@cute.kernel
def reverse(x, out):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    s = cute.smem("f32", 64)
    s[t] = x[t]
    cute.syncwarp()
    out[t] = s[63 - t]


# -- 7.2
@cute.kernel
def increment(x, out):
    cute.launch(grid=cute.ceil_div(x.shape[0], 32), block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        out[i] = x[i] + 1


# -- 7.2 wrong: one thread too many
@cute.kernel
def increment(x, out):
    cute.launch(grid=cute.ceil_div(x.shape[0], 32), block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    with cute.when(i <= x.shape[0]):
        out[i] = x[i] + 1


# -- 7.3
@cute.kernel
def reverse_rows(x, out):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    s = cute.smem("f32", 64)
    for k in cute.range(3):
        s[t] = x[k, t]
        cute.syncthreads()
        out[k, t] = s[63 - t]
        cute.syncthreads()


# -- 7.3 wrong: the barrier moved, and the first one is missing now
@cute.kernel
def reverse_rows(x, out):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    s = cute.smem("f32", 64)
    for k in cute.range(3):
        s[t] = x[k, t]
        out[k, t] = s[63 - t]
        cute.syncthreads()


# -- 7.4
@cute.kernel
def fold(x, out):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    s = cute.smem("f32", 64)
    s[t] = x[t]
    cute.syncthreads()
    with cute.when(t < 32):
        out[t] = s[t] + s[t + 32]


# -- 7.4 wrong: without the barrier, nothing orders the warps
@cute.kernel
def fold(x, out):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    s = cute.smem("f32", 64)
    s[t] = x[t]
    with cute.when(t < 32):
        out[t] = s[t] + s[t + 32]


# -- 7.5
@cute.kernel
def reverse_vectors(x, out):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    s = cute.smem("f32", (4, 64))
    cute.copy(ASYNC, cute.local_tile(x, (4,), (t,)), s[cute._, t])
    cute.cp_async_fence()
    cute.cp_async_wait(0)
    cute.syncthreads()
    cute.copy(s[cute._, 63 - t], cute.local_tile(out, (4,), (t,)))


# -- 7.5 wrong: each thread waits for its own copy, and reads another's
@cute.kernel
def reverse_vectors(x, out):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    s = cute.smem("f32", (4, 64))
    cute.copy(ASYNC, cute.local_tile(x, (4,), (t,)), s[cute._, t])
    cute.cp_async_fence()
    cute.cp_async_wait(0)
    cute.copy(s[cute._, 63 - t], cute.local_tile(out, (4,), (t,)))
