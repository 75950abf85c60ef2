"""row_reduce: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of reduce.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (A_shape0, 1, 1)
    block: (32, 1, 1)
    shared memory: 4 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    out: address of f32 (out_shape0):(1), a multiple of 16 bytes

Shared memory:
    s0: f32[1] at byte 0

Registers:
    fragment0, r0: f32[32] in 32 words
    r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14: f32[1] in 1 word

Calls:
    holds_*: whether a condition is true
    map_*: element by element
    reduce_*: combines runs of elements, from left to right
    shuffle_*: shfl.sync: elements of another lane of the warp
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def row_reduce(A, A_shape0, A_shape1, A_stride0, out, out_shape0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(32)
    r1 = undefined(1)
    r2 = undefined(1)
    r4 = undefined(1)
    r6 = undefined(1)
    r8 = undefined(1)
    r10 = undefined(1)
    r12 = undefined(1)
    r13 = undefined(1)
    fragment0 = load_0(A_shape1, A_stride0, bid_x, tid, A, fragment0)  # line 187  fragment0[0:32] = load A[A_stri ...
    r0 = map_copy_0(fragment0)  # line 188  r0[0:32] = copy.f32(fragment0[0:32])
    r1 = reduce_add_0(r0, r1)  # line 155  reduce add r1[0] r0[0:32]
    r2 = shuffle_bfly_0(r1, r2)  # line 146  shuffle bfly r2[0] r1[0] 16 32
    r3 = map_add_0(r1, r2)  # line 146  r3[0] = add.f32(r1[0], r2[0])
    r4 = shuffle_bfly_1(r3, r4)  # line 146  shuffle bfly r4[0] r3[0] 8 32
    r5 = map_add_1(r3, r4)  # line 146  r5[0] = add.f32(r3[0], r4[0])
    r6 = shuffle_bfly_2(r5, r6)  # line 146  shuffle bfly r6[0] r5[0] 4 32
    r7 = map_add_2(r5, r6)  # line 146  r7[0] = add.f32(r5[0], r6[0])
    r8 = shuffle_bfly_3(r7, r8)  # line 146  shuffle bfly r8[0] r7[0] 2 32
    r9 = map_add_3(r7, r8)  # line 146  r9[0] = add.f32(r7[0], r8[0])
    r10 = shuffle_bfly_4(r10, r9)  # line 146  shuffle bfly r10[0] r9[0] 1 32
    r11 = map_add_4(r10, r9)  # line 146  r11[0] = add.f32(r9[0], r10[0])
    if holds_0(tid):  # line 135  if tid == 0 (thread)
        store_0(smem, r11)  # line 136  store s0[0 + [0]] = r11[0]
    barrier_0()  # line 137  barrier block sync
    r12 = load_1(smem, r12)  # line 139  r12[0] = load s0[0 + [0]]
    r13 = reduce_add_1(r12, r13)  # line 155  reduce add r13[0] r12[0]
    if holds_1(tid):  # line 195  if tid == 0 (thread)
        r14 = map_copy_1(r13)  # line 196  r14[0] = copy.f32(r13[0])
        store_1(bid_x, out, r14)  # line 196  store out[bid_x + [0]] = r14[0]
