"""registers: a Numba kernel, printed by cute_py from a plan.

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
    x0, r6: f32[1] in 1 word
    r0, r2, r3: b1[1] in 1 word
    r1, r4, r5: u32[1] in 1 word

Calls:
    holds_*: whether a condition is true
    map_*: element by element
    to_*: conversion to a type
    vote_*: vote.sync over the lanes of the warp
    redux_*: redux.sync: combines an integer of all lanes of the warp
    inline_ptx_*: PTX of the kernel's author, on registers
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
"""


def registers(x, x_shape0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    x0 = undefined(1)
    r0 = undefined(1)
    r1 = undefined(1)
    r2 = undefined(1)
    r3 = undefined(1)
    r4 = undefined(1)
    r5 = undefined(1)
    x0 = load_0(tid, x, x0)  # line 31  x0[0] = load x[tid + [0]]
    r0 = map_gt_0(r0, x0)  # line 32  r0[0] = gt.f32(x0[0], 1.0)
    r1 = vote_ballot_0(r0, r1)  # line 32  vote ballot r1[0] r0[0]
    r2 = map_gt_1(r2, x0)  # line 33  r2[0] = gt.f32(x0[0], 9.0)
    r3 = vote_any_0(r2, r3)  # line 33  vote any r3[0] r2[0]
    if holds_0(r3):  # line 33  if r3[0] (thread)
        r4 = redux_add_0(r1, r4)  # line 34  redux add r4[0] r1[0]
        r5 = inline_ptx_0(r4, r5)  # line 36  r5[0] = inline_ptx(r4[0]) 'bfind.u32 %0, %1;'
        r6 = to_f32_0(r5)  # line 36  r6[0] = to.f32(r5[0]) rn
        store_0(tid, x, r6)  # line 36  store x[tid + [0]] = r6[0]
