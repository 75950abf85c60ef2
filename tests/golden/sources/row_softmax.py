"""row_softmax: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of reduce.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (A_shape0, 1, 1)
    block: (32, 1, 1)
    shared memory: 8 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f32 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes

Shared memory:
    s0: f32[2] at byte 0

Registers:
    fragment0, r0, r14, r15, r16, r31, r32: f32[32] in 32 words
    r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r17, r18, r19, r20,
    r21, r22, r23, r24, r25, r26, r27, r28, r29, r30: f32[1] in 1 word

Calls:
    holds_*: whether a condition is true
    map_*: element by element
    reduce_*: combines runs of elements, from left to right
    shuffle_*: shfl.sync: elements of another lane of the warp
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def row_softmax(A, A_shape0, A_shape1, A_stride0, B, B_shape0, B_shape1, B_stride0):
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
    r17 = undefined(1)
    r18 = undefined(1)
    r20 = undefined(1)
    r22 = undefined(1)
    r24 = undefined(1)
    r26 = undefined(1)
    r28 = undefined(1)
    r29 = undefined(1)
    fragment0 = load_0(A_shape1, A_stride0, bid_x, tid, A, fragment0)  # softmax.py:116  fragment0[0:32] = load A[ ...
    r0 = map_copy_0(fragment0)  # softmax.py:117  r0[0:32] = copy.f32(fragment0[0:32])
    r1 = reduce_max_0(r0, r1)  # softmax.py:120  reduce max r1[0] r0[0:32]
    r2 = shuffle_bfly_0(r1, r2)  # line 146  shuffle bfly r2[0] r1[0] 16 32
    r3 = map_max_0(r1, r2)  # line 146  r3[0] = max.f32(r1[0], r2[0])
    r4 = shuffle_bfly_1(r3, r4)  # line 146  shuffle bfly r4[0] r3[0] 8 32
    r5 = map_max_1(r3, r4)  # line 146  r5[0] = max.f32(r3[0], r4[0])
    r6 = shuffle_bfly_2(r5, r6)  # line 146  shuffle bfly r6[0] r5[0] 4 32
    r7 = map_max_2(r5, r6)  # line 146  r7[0] = max.f32(r5[0], r6[0])
    r8 = shuffle_bfly_3(r7, r8)  # line 146  shuffle bfly r8[0] r7[0] 2 32
    r9 = map_max_3(r7, r8)  # line 146  r9[0] = max.f32(r7[0], r8[0])
    r10 = shuffle_bfly_4(r10, r9)  # line 146  shuffle bfly r10[0] r9[0] 1 32
    r11 = map_max_4(r10, r9)  # line 146  r11[0] = max.f32(r9[0], r10[0])
    if holds_0(tid):  # line 135  if tid == 0 (thread)
        store_0(smem, r11)  # line 136  store s0[0 + [0]] = r11[0]
    barrier_0()  # line 137  barrier block sync
    r12 = load_1(smem, r12)  # line 139  r12[0] = load s0[0 + [0]]
    r13 = reduce_max_1(r12, r13)  # line 155  reduce max r13[0] r12[0]
    r14 = map_sub_0(r0, r13)  # softmax.py:123  r14[0:32] = sub.f32(r0[0:32], r13[0])
    r15 = map_mul_0(r14)  # softmax.py:123  r15[0:32] = mul.f32(r14[0:32], 1.4426950408889634)
    r16 = map_exp2_0(r15)  # softmax.py:123  r16[0:32] = exp2.f32(r15[0:32])
    r17 = reduce_add_0(r16, r17)  # softmax.py:120  reduce add r17[0] r16[0:32]
    r18 = shuffle_bfly_5(r17, r18)  # line 146  shuffle bfly r18[0] r17[0] 16 32
    r19 = map_add_0(r17, r18)  # line 146  r19[0] = add.f32(r17[0], r18[0])
    r20 = shuffle_bfly_6(r19, r20)  # line 146  shuffle bfly r20[0] r19[0] 8 32
    r21 = map_add_1(r19, r20)  # line 146  r21[0] = add.f32(r19[0], r20[0])
    r22 = shuffle_bfly_7(r21, r22)  # line 146  shuffle bfly r22[0] r21[0] 4 32
    r23 = map_add_2(r21, r22)  # line 146  r23[0] = add.f32(r21[0], r22[0])
    r24 = shuffle_bfly_8(r23, r24)  # line 146  shuffle bfly r24[0] r23[0] 2 32
    r25 = map_add_3(r23, r24)  # line 146  r25[0] = add.f32(r23[0], r24[0])
    r26 = shuffle_bfly_9(r25, r26)  # line 146  shuffle bfly r26[0] r25[0] 1 32
    r27 = map_add_4(r25, r26)  # line 146  r27[0] = add.f32(r25[0], r26[0])
    if holds_1(tid):  # line 135  if tid == 0 (thread)
        store_1(smem, r27)  # line 136  store s0[1 + [0]] = r27[0]
    barrier_0()  # line 137  barrier block sync
    r28 = load_2(smem, r28)  # line 139  r28[0] = load s0[1 + [0]]
    r29 = reduce_add_1(r28, r29)  # line 155  reduce add r29[0] r28[0]
    r30 = map_rcp_0(r29)  # softmax.py:124  r30[0] = rcp.f32(r29[0])
    r31 = map_mul_1(r16, r30)  # softmax.py:124  r31[0:32] = mul.f32(r16[0:32], r30[0])
    r32 = map_copy_1(r31)  # softmax.py:124  r32[0:32] = copy.f32(r31[0:32])
    store_2(B_shape0, B_shape1, B_stride0, bid_x, tid, B, r32)  # softmax.py:124  store B[B_stride0*bid_x+4*tid + ...
