"""control: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of kernels_of_ops.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (1, 1, 1)
    block: (32, 1, 1)
    shared memory: 0 bytes

Parameters:
    x: address of f32 (x_shape0):(1), a multiple of 16 bytes

Registers:
    r0: s64[1] in 2 words
    r1: f32[1] in 1 word

Calls:
    holds_*: whether a condition is true
    value_*: an integer expression
    map_*: element by element
    to_*: conversion to a type
    store_*: st.global or st.shared, one for each vector
"""


def control(x, x_shape0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    v0 = int64(0)
    v0 = int64(value_0(tid))  # line 17  v0 := tid
    while True:  # line 18  while n0 < 40
        n0 = v0  # line 18  n0 = var(v0)
        if not holds_0(n0):
            break
        n1 = v0  # line 19  n1 = var(v0)
        v0 = int64(value_1(n1))  # line 19  v0 := n1+3
    m0 = v0  # line 20  m0 = var(v0)
    if holds_1(m0):  # line 20  leave m0 == 41 kernel thread
        return
    m1 = v0  # line 21  m1 = var(v0)
    r0 = map_copy_0(m1)  # line 21  r0[0] = copy.s64(m1)
    r1 = to_f32_0(r0)  # line 21  r1[0] = to.f32(r0[0]) rn
    store_0(tid, x, r1)  # line 21  store x[tid + [0]] = r1[0]
