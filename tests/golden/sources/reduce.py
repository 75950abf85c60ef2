"""sum_rows: a Numba kernel, printed by cute_py from a plan.

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
    r0, x0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r13: f32[1] in 1 word
    r12: f32[4] in 4 words

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


def sum_rows(A, A_shape0, A_shape1, A_stride0, out, out_shape0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    r0 = undefined(1)
    x0 = undefined(1)
    r2 = undefined(1)
    r4 = undefined(1)
    r6 = undefined(1)
    r8 = undefined(1)
    r10 = undefined(1)
    r12 = undefined(4)
    r13 = undefined(1)
    r0 = fill_0(r0)  # line 28  r0[0] = 0.0
    A_at = begin_0(A_stride0, bid_x, tid, A)
    for k0 in range(int32(value_0(tid)), int32(value_1(A_shape1)), int32(128)):  # line 29  for k0 in tid .. A_sha ...
        x0, A_at = load_0(A_stride0, bid_x, k0, A, A_at, x0)  # line 30  x0[0] = load A[A_stride0*bid_x+k0 + [0]]
        r1 = map_copy_0(x0)  # line 30  r1[0] = copy.f32(x0[0])
        r0 = map_add_0(r0, r1)  # line 30  r0[0] = add.f32(r0[0], r1[0])
        A_at = advance_0(A_at)
    r2 = shuffle_bfly_0(r0, r2)  # line 44  shuffle bfly r2[0] r0[0] 16 32
    r3 = map_add_1(r0, r2)  # line 44  r3[0] = add.f32(r0[0], r2[0])
    r4 = shuffle_bfly_1(r3, r4)  # line 44  shuffle bfly r4[0] r3[0] 8 32
    r5 = map_add_2(r3, r4)  # line 44  r5[0] = add.f32(r3[0], r4[0])
    r6 = shuffle_bfly_2(r5, r6)  # line 44  shuffle bfly r6[0] r5[0] 4 32
    r7 = map_add_3(r5, r6)  # line 44  r7[0] = add.f32(r5[0], r6[0])
    r8 = shuffle_bfly_3(r7, r8)  # line 44  shuffle bfly r8[0] r7[0] 2 32
    r9 = map_add_4(r7, r8)  # line 44  r9[0] = add.f32(r7[0], r8[0])
    r10 = shuffle_bfly_4(r10, r9)  # line 44  shuffle bfly r10[0] r9[0] 1 32
    r11 = map_add_5(r10, r9)  # line 44  r11[0] = add.f32(r9[0], r10[0])
    if holds_0(tid):  # line 45  if tid%32 == 0 (thread)
        store_0(tid, smem, r11)  # line 46  store s0[tid//32 + [0]] = r11[0]
    barrier_0()  # line 47  barrier block sync
    r12 = load_1(smem, r12)  # line 49  r12[0:4] = load s0[0 + [0]] x4
    r13 = reduce_add_0(r12, r13)  # line 50  reduce add r13[0] r12[0:4]
    if holds_1(tid):  # line 32  if tid == 0 (thread)
        store_1(bid_x, out, r13)  # line 33  store out[bid_x + [0]] = r13[0]
