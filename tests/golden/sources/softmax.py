"""softmax: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of reduce.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (A_shape0, 1, 1)
    block: (128, 1, 1)
    shared memory: 32 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f32 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes

Shared memory:
    s0: f32[8] at byte 0

Registers:
    r0, x0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r14, r15, x1, r16,
    r17, r18, r19, r20, r21, r22, r23, r24, r25, r26, r27, r28, r29, r31, r32,
    x2, r33, r34, r35, r36, r37, r38: f32[1] in 1 word
    r13, r30: f32[4] in 4 words

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


def softmax(A, A_shape0, A_shape1, A_stride0, B, B_shape0, B_shape1, B_stride0):
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
    r15 = undefined(1)
    x1 = undefined(1)
    r20 = undefined(1)
    r22 = undefined(1)
    r24 = undefined(1)
    r26 = undefined(1)
    r28 = undefined(1)
    r30 = undefined(4)
    r31 = undefined(1)
    x2 = undefined(1)
    r0 = fill_0(r0)  # line 102  r0[0] = -inf
    A_at = begin_0(A_stride0, bid_x, tid, A)
    for k0 in range(int32(value_0(tid)), int32(value_1(A_shape1)), int32(128)):  # softmax.py:46  for k0 in tid .. ...
        x0, A_at = load_0(A_stride0, bid_x, k0, A, A_at, x0)  # softmax.py:47  x0[0] = load A[A_stride0*bid_x+k0 + ...
        r1 = map_copy_0(x0)  # softmax.py:47  r1[0] = copy.f32(x0[0])
        r2 = map_max_0(r0, r1)  # softmax.py:47  r2[0] = max.f32(r0[0], r1[0])
        r0 = map_copy_1(r0, r2)  # softmax.py:47  r0[0] = copy.f32(r2[0])
        A_at = advance_0(A_at)
    r3 = shuffle_bfly_0(r0, r3)  # line 146  shuffle bfly r3[0] r0[0] 16 32
    r4 = map_max_1(r0, r3)  # line 146  r4[0] = max.f32(r0[0], r3[0])
    r5 = shuffle_bfly_1(r4, r5)  # line 146  shuffle bfly r5[0] r4[0] 8 32
    r6 = map_max_2(r4, r5)  # line 146  r6[0] = max.f32(r4[0], r5[0])
    r7 = shuffle_bfly_2(r6, r7)  # line 146  shuffle bfly r7[0] r6[0] 4 32
    r8 = map_max_3(r6, r7)  # line 146  r8[0] = max.f32(r6[0], r7[0])
    r9 = shuffle_bfly_3(r8, r9)  # line 146  shuffle bfly r9[0] r8[0] 2 32
    r10 = map_max_4(r8, r9)  # line 146  r10[0] = max.f32(r8[0], r9[0])
    r11 = shuffle_bfly_4(r10, r11)  # line 146  shuffle bfly r11[0] r10[0] 1 32
    r12 = map_max_5(r10, r11)  # line 146  r12[0] = max.f32(r10[0], r11[0])
    if holds_0(tid):  # line 135  if tid%32 == 0 (thread)
        store_0(tid, smem, r12)  # line 136  store s0[tid//32 + [0]] = r12[0]
    barrier_0()  # line 137  barrier block sync
    r13 = load_1(smem, r13)  # line 139  r13[0:4] = load s0[0 + [0]] x4
    r14 = reduce_max_0(r13, r14)  # line 155  reduce max r14[0] r13[0:4]
    r15 = fill_1(r15)  # line 102  r15[0] = 0.0
    A_at_ = begin_1(A_stride0, bid_x, tid, A)
    for k1 in range(int32(value_2(tid)), int32(value_3(A_shape1)), int32(128)):  # softmax.py:51  for k1 in tid .. ...
        x1, A_at_ = load_2(A_stride0, bid_x, k1, A, A_at_, x1)  # softmax.py:52  x1[0] = load A[A_stride0*bid_x+k1 ...
        r16 = map_copy_2(x1)  # softmax.py:52  r16[0] = copy.f32(x1[0])
        r17 = map_sub_0(r14, r16)  # softmax.py:52  r17[0] = sub.f32(r16[0], r14[0])
        r18 = map_mul_0(r17)  # softmax.py:52  r18[0] = mul.f32(r17[0], 1.4426950408889634)
        r19 = map_exp2_0(r18)  # softmax.py:52  r19[0] = exp2.f32(r18[0])
        r15 = map_add_0(r15, r19)  # softmax.py:52  r15[0] = add.f32(r15[0], r19[0])
        A_at_ = advance_1(A_at_)
    r20 = shuffle_bfly_5(r15, r20)  # line 146  shuffle bfly r20[0] r15[0] 16 32
    r21 = map_add_1(r15, r20)  # line 146  r21[0] = add.f32(r15[0], r20[0])
    r22 = shuffle_bfly_6(r21, r22)  # line 146  shuffle bfly r22[0] r21[0] 8 32
    r23 = map_add_2(r21, r22)  # line 146  r23[0] = add.f32(r21[0], r22[0])
    r24 = shuffle_bfly_7(r23, r24)  # line 146  shuffle bfly r24[0] r23[0] 4 32
    r25 = map_add_3(r23, r24)  # line 146  r25[0] = add.f32(r23[0], r24[0])
    r26 = shuffle_bfly_8(r25, r26)  # line 146  shuffle bfly r26[0] r25[0] 2 32
    r27 = map_add_4(r25, r26)  # line 146  r27[0] = add.f32(r25[0], r26[0])
    r28 = shuffle_bfly_9(r27, r28)  # line 146  shuffle bfly r28[0] r27[0] 1 32
    r29 = map_add_5(r27, r28)  # line 146  r29[0] = add.f32(r27[0], r28[0])
    if holds_1(tid):  # line 135  if tid%32 == 0 (thread)
        store_1(tid, smem, r29)  # line 136  store s0[tid//32+4 + [0]] = r29[0]
    barrier_0()  # line 137  barrier block sync
    r30 = load_3(smem, r30)  # line 139  r30[0:4] = load s0[4 + [0]] x4
    r31 = reduce_add_0(r30, r31)  # line 155  reduce add r31[0] r30[0:4]
    r32 = map_rcp_0(r31)  # softmax.py:53  r32[0] = rcp.f32(r31[0])
    A_at__ = begin_2(A_stride0, bid_x, tid, A)
    B_at = begin_3(B_stride0, bid_x, tid, B)
    for k2 in range(int32(value_4(tid)), int32(value_5(A_shape1)), int32(128)):  # softmax.py:55  for k2 in tid .. ...
        x2, A_at__ = load_4(A_stride0, bid_x, k2, A, A_at__, x2)  # softmax.py:56  x2[0] = load A[A_stride0*bid_x+ ...
        r33 = map_copy_3(x2)  # softmax.py:56  r33[0] = copy.f32(x2[0])
        r34 = map_sub_1(r14, r33)  # softmax.py:56  r34[0] = sub.f32(r33[0], r14[0])
        r35 = map_mul_1(r34)  # softmax.py:56  r35[0] = mul.f32(r34[0], 1.4426950408889634)
        r36 = map_exp2_1(r35)  # softmax.py:56  r36[0] = exp2.f32(r35[0])
        r37 = map_mul_2(r32, r36)  # softmax.py:56  r37[0] = mul.f32(r36[0], r32[0])
        r38 = map_copy_4(r37)  # softmax.py:57  r38[0] = copy.f32(r37[0])
        B_at = store_2(B_stride0, bid_x, k2, B, B_at, r38)  # softmax.py:57  store B[B_stride0*bid_x+k2 + [0]] = r ...
        A_at__ = advance_2(A_at__)
        B_at = advance_3(B_at)
