"""reduce_rows: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of reduce.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (A_shape0, 1, 1)
    block: (128, 1, 1)
    shared memory: 16 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    out: address of f32 (out_shape0):(1), a multiple of 16 bytes

Shared memory:
    s0: f32[4] at byte 0

Registers:
    r0, x0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r14, r15: f32[1] in 1 word
    r13: f32[4] in 4 words

Calls:
    holds_*: whether a condition is true
    value_*: an integer expression
    begin_*: the address that a loop begins with
    advance_*: the address of the next iteration
    fill_*: all elements become a number
    map_*: element by element
    reduce_*: combines runs of elements, from left to right
    shuffle_*: shfl.sync: elements of another lane of the warp
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def reduce_rows(A, A_shape0, A_shape1, A_stride0, out, out_shape0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    r0 = undefined(1)
    x0 = undefined(1)
    r3 = undefined(1)
    r5 = undefined(1)
    r7 = undefined(1)
    r9 = undefined(1)
    r11 = undefined(1)
    r13 = undefined(4)
    r14 = undefined(1)
    r0 = fill_0(r0)  # line 102  r0[0] = 0.0
    A_at = begin_0(A_stride0, bid_x, tid, A)
    for k0 in range(int32(value_0(tid)), int32(value_1(A_shape1)), int32(128)):  # line 50  for k0 in tid .. A_sha ...
        x0, A_at = load_0(A_stride0, bid_x, k0, A, A_at, x0)  # line 51  x0[0] = load A[A_stride0*bid_x+k0 + [0]]
        r1 = map_copy_0(x0)  # line 51  r1[0] = copy.f32(x0[0])
        r2 = map_add_0(r0, r1)  # line 96  r2[0] = add.f32(r0[0], r1[0])
        r0 = map_copy_1(r0, r2)  # line 51  r0[0] = copy.f32(r2[0])
        A_at = advance_0(A_at)
    r3 = shuffle_bfly_0(r0, r3)  # line 146  shuffle bfly r3[0] r0[0] 16 32
    r4 = map_add_1(r0, r3)  # line 146  r4[0] = add.f32(r0[0], r3[0])
    r5 = shuffle_bfly_1(r4, r5)  # line 146  shuffle bfly r5[0] r4[0] 8 32
    r6 = map_add_2(r4, r5)  # line 146  r6[0] = add.f32(r4[0], r5[0])
    r7 = shuffle_bfly_2(r6, r7)  # line 146  shuffle bfly r7[0] r6[0] 4 32
    r8 = map_add_3(r6, r7)  # line 146  r8[0] = add.f32(r6[0], r7[0])
    r9 = shuffle_bfly_3(r8, r9)  # line 146  shuffle bfly r9[0] r8[0] 2 32
    r10 = map_add_4(r8, r9)  # line 146  r10[0] = add.f32(r8[0], r9[0])
    r11 = shuffle_bfly_4(r10, r11)  # line 146  shuffle bfly r11[0] r10[0] 1 32
    r12 = map_add_5(r10, r11)  # line 146  r12[0] = add.f32(r10[0], r11[0])
    if holds_0(tid):  # line 135  if tid%32 == 0 (thread)
        store_0(tid, smem, r12)  # line 136  store s0[tid//32 + [0]] = r12[0]
    barrier_0()  # line 137  barrier block sync
    r13 = load_1(smem, r13)  # line 139  r13[0:4] = load s0[0 + [0]] x4
    r14 = reduce_add_0(r13, r14)  # line 155  reduce add r14[0] r13[0:4]
    if holds_1(tid):  # line 53  if tid == 0 (thread)
        r15 = map_copy_2(r14)  # line 54  r15[0] = copy.f32(r14[0])
        store_1(bid_x, out, r15)  # line 54  store out[bid_x + [0]] = r15[0]
