"""gemm: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of epilogue.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(D_shape0,64), ceil_div(D_shape1,64), D_shape2)
    block: (128, 1, 1)
    shared memory: 24576 bytes

Parameters:
    A: address of bf16 (A_shape0,A_shape1,A_shape2):(A_stride0,1,0), a multiple of 16 bytes
    B: address of bf16 (B_shape0,B_shape1,B_shape2):(1,B_stride1,0), a multiple of 16 bytes
    C: address of bf16 (C_shape0,C_shape1,C_shape2):(C_stride0,1,0), a multiple of 16 bytes
    bias: address of bf16 (bias_shape0):(1), a multiple of 16 bytes
    D: address of bf16 (D_shape0,D_shape1,D_shape2):(D_stride0,1,D_stride2), a multiple of 16 bytes
    alpha: f64
    beta: f64

Shared memory:
    sA0: bf16[6144] at byte 0
    sB0: bf16[6144] at byte 12288

Registers:
    x0, x1: f64[1] in 2 words
    fragment0: f32[32] in 32 words
    fragment1, fragment2: bf16[32] in 16 words
    r0, r3, r11, r14, r22, r25, r33, r36: f32[1] in 1 word
    r1, r2, r4, r5, r7, r9, r12, r13, r15, r16, r18, r20, r23, r24, r26, r27,
    r29, r31, r34, r35, r37, r38, r40, r42: f32[8] in 8 words
    fragment3, r10, fragment5, r21, fragment7, r32, fragment9, r43: bf16[8] in 4 words
    fragment4, fragment6, fragment8, fragment10: bf16[2] in 1 word
    r6, r17, r28, r39: f32[2] in 2 words
    r8, r19, r30, r41: b1[8] in 8 words

Calls:
    let_*: an integer that no sum of products describes
    holds_*: whether a condition is true
    value_*: an integer expression
    begin_*: the address that a loop begins with
    advance_*: the address of the next iteration
    next_*: the counter of the next iteration
    fill_*: all elements become a number
    map_*: element by element
    to_*: conversion to a type
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    cp_async_*: global to shared memory, one instruction for each vector
    cp_async_commit_*: cp.async.commit_group
    cp_async_wait_*: cp.async.wait_group
    ldmatrix_*: 8x8 matrices from shared memory, one for each row address
    mma_*: d += a * b, one instruction of the atom for each step
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def gemm(
    A, A_shape0, A_shape1, A_shape2, A_stride0,
    B, B_shape0, B_shape1, B_shape2, B_stride1,
    C, C_shape0, C_shape1, C_shape2, C_stride0,
    bias, bias_shape0,
    D, D_shape0, D_shape1, D_shape2, D_stride0, D_stride2,
    alpha,
    beta,
):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(32)
    fragment1 = undefined(16)
    fragment2 = undefined(16)
    fragment3 = undefined(4)
    fragment4 = undefined(1)
    r8 = undefined(8)
    fragment5 = undefined(4)
    fragment6 = undefined(1)
    r19 = undefined(8)
    fragment7 = undefined(4)
    fragment8 = undefined(1)
    r30 = undefined(8)
    fragment9 = undefined(4)
    fragment10 = undefined(1)
    r41 = undefined(8)
    turn0 = int32(0)
    turn1 = int32(0)
    x0 = map_copy_0(alpha)  # gemm.py:32  x0[0] = copy.f64(alpha)
    x1 = map_copy_1(beta)  # gemm.py:32  x1[0] = copy.f64(beta)
    fragment0 = fill_0(fragment0)  # gemm.py:154  fragment0[0:32] = 0.0
    cp_async_0(A_shape0, A_shape1, A_stride0, bid_x, tid, A, smem)  # gemm.py:85  cp_async sA0[0 + Sw<2,3,3>(8*tid ...
    cp_async_1(B_shape0, B_shape1, B_stride1, bid_y, tid, B, smem)  # gemm.py:85  cp_async sB0[0 + Sw<3,3,3>(8*tid ...
    cp_async_commit_0()  # gemm.py:85  cp_async_commit
    cp_async_2(A_shape0, A_shape1, A_stride0, bid_x, tid, A, smem)  # gemm.py:85  cp_async sA0[2048 + Sw<2,3,3>(8* ...
    cp_async_3(B_shape0, B_shape1, B_stride1, bid_y, tid, B, smem)  # gemm.py:85  cp_async sB0[2048 + Sw<3,3,3>(8* ...
    cp_async_commit_0()  # gemm.py:85  cp_async_commit
    cp_async_wait_0()  # gemm.py:85  cp_async_wait 1
    barrier_0()  # gemm.py:85  barrier block sync
    fragment1 = ldmatrix_0(tid, smem, fragment1)  # gemm.py:85  fragment1[0:8,16:24] = ldmatrix sA0[-1024*(tid//64 ...
    fragment2 = ldmatrix_1(tid, smem, fragment2)  # gemm.py:85  fragment2[0:16] = ldmatrix sB0[0 + Sw<3,3,3>(8*(ti ...
    turn0 = int32(0)  # gemm.py:85  turn0 := 0
    turn1 = int32(2)  # gemm.py:85  turn1 := 2
    A_at = begin_0(A_stride0, bid_x, tid, A)
    B_at = begin_1(B_stride1, bid_y, tid, B)
    k0 = int32(0)  # gemm.py:85  for k0 in 0 .. ceil_div(A_shape1,32)-1
    while holds_0(A_shape1, k0):  # gemm.py:85  for k0 in 0 .. ceil_div(A_shape1,32)-1
        n0 = turn0  # gemm.py:85  n0 = var(turn0)
        n1 = turn1  # gemm.py:85  n1 = var(turn1)
        fragment1 = ldmatrix_2(n0, tid, smem, fragment1)  # gemm.py:85  fragment1[8:16,24:32] = ldmatrix sA0[2048* ...
        fragment2 = ldmatrix_3(n0, tid, smem, fragment2)  # gemm.py:85  fragment2[16:32] = ldmatrix sB0[2048*n0+10 ...
        A_at = cp_async_4(A_shape0, A_shape1, A_stride0, bid_x, k0, n1, tid, A, A_at, smem)  # gemm.py:85
        B_at = cp_async_5(B_shape0, B_shape1, B_stride1, bid_y, k0, n1, tid, B, B_at, smem)  # gemm.py:85
        cp_async_commit_0()  # gemm.py:85  cp_async_commit
        fragment0 = mma_0(fragment0, fragment1, fragment2)  # gemm.py:85  fragment0[0:32] += fragment1[0:8,16:24] ...
        cp_async_wait_0()  # gemm.py:85  cp_async_wait 1
        barrier_0()  # gemm.py:85  barrier block sync
        fragment1 = ldmatrix_4(n0, tid, smem, fragment1)  # gemm.py:85  fragment1[0:8,16:24] = ldmatrix sA0[2048*( ...
        fragment2 = ldmatrix_5(n0, tid, smem, fragment2)  # gemm.py:85  fragment2[0:16] = ldmatrix sB0[2048*((n0+1 ...
        fragment0 = mma_1(fragment0, fragment1, fragment2)  # gemm.py:85  fragment0[0:32] += fragment1[8:16,24:32] ...
        n2 = let_where_0(n0)  # gemm.py:85  n2 = where(3 <= n0+1, 0, n0+1)
        turn0 = int32(value_0(n2))  # gemm.py:85  turn0 := n2
        turn1 = int32(value_1(n0))  # gemm.py:85  turn1 := n0
        A_at = advance_0(A_stride0, A_at)
        B_at = advance_1(B_stride1, B_at)
        k0 = next_0(k0)  # gemm.py:85  for k0 in 0 .. ceil_div(A_shape1,32)-1
    cp_async_wait_1()  # gemm.py:85  cp_async_wait 0
    fragment1 = ldmatrix_6(A_shape1, tid, smem, fragment1)  # gemm.py:85  fragment1[8:16,24:32] = ldmatrix sA0[204 ...
    fragment2 = ldmatrix_7(A_shape1, tid, smem, fragment2)  # gemm.py:85  fragment2[16:32] = ldmatrix sB0[2048*cei ...
    fragment0 = mma_0(fragment0, fragment1, fragment2)  # gemm.py:85  fragment0[0:32] += fragment1[0:8,16:24] * fr ...
    fragment0 = mma_1(fragment0, fragment1, fragment2)  # gemm.py:85  fragment0[0:32] += fragment1[8:16,24:32] * f ...
    r0 = to_f32_0(x0)  # line 271  r0[0] = to.f32(x0[0]) rn
    r1 = map_mul_0(fragment0, r0)  # line 271  r1[0:8] = mul.f32(fragment0[0:8], r0[0])
    fragment3 = load_0(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, fragment3)  # line 306  fragment3[0:8] ...
    r2 = to_f32_1(fragment3)  # line 300  r2[0:8] = to.f32(fragment3[0:8]) rn
    r3 = to_f32_2(x1)  # line 271  r3[0] = to.f32(x1[0]) rn
    r4 = map_mul_1(r2, r3)  # line 271  r4[0:8] = mul.f32(r2[0:8], r3[0])
    r5 = map_add_0(r1, r4)  # line 271  r5[0:8] = add.f32(r1[0:8], r4[0:8])
    fragment4 = load_1(bias_shape0, bid_y, tid, bias, fragment4)  # line 306  fragment4[0,1] = load bias[64*bid_y+ ...
    r6 = to_f32_3(fragment4)  # line 300  r6[0,1] = to.f32(fragment4[0,1]) rn
    r7 = map_add_1(r5, r6)  # line 271  r7[0:8] = add.f32(r5[0:8], r6[0,1,0,1,0,1,0,1])
    r8 = map_lt_0(r7, r8)  # line 271  r8[0:8] = lt.f32(r7[0:8], 0.0)
    r9 = map_where_0(r7, r8)  # line 271  r9[0:8] = where.f32(r8[0:8], 0.0, r7[0:8])
    r10 = to_bf16_0(r9)  # line 300  r10[0:8] = to.bf16(r9[0:8]) rn
    store_0(D_shape0, D_shape1, D_stride0, D_stride2, bid_x, bid_y, bid_z, tid, D, r10)  # gemm.py:184
    r11 = to_f32_4(x0)  # line 271  r11[0] = to.f32(x0[0]) rn
    r12 = map_mul_2(fragment0, r11)  # line 271  r12[0:8] = mul.f32(fragment0[8:16], r11[0])
    fragment5 = load_2(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, fragment5)  # line 306  fragment5[0:8] ...
    r13 = to_f32_5(fragment5)  # line 300  r13[0:8] = to.f32(fragment5[0:8]) rn
    r14 = to_f32_6(x1)  # line 271  r14[0] = to.f32(x1[0]) rn
    r15 = map_mul_3(r13, r14)  # line 271  r15[0:8] = mul.f32(r13[0:8], r14[0])
    r16 = map_add_2(r12, r15)  # line 271  r16[0:8] = add.f32(r12[0:8], r15[0:8])
    fragment6 = load_3(bias_shape0, bid_y, tid, bias, fragment6)  # line 306  fragment6[0,1] = load bias[64*bid_y+ ...
    r17 = to_f32_7(fragment6)  # line 300  r17[0,1] = to.f32(fragment6[0,1]) rn
    r18 = map_add_3(r16, r17)  # line 271  r18[0:8] = add.f32(r16[0:8], r17[0,1,0,1,0,1,0,1])
    r19 = map_lt_1(r18, r19)  # line 271  r19[0:8] = lt.f32(r18[0:8], 0.0)
    r20 = map_where_1(r18, r19)  # line 271  r20[0:8] = where.f32(r19[0:8], 0.0, r18[0:8])
    r21 = to_bf16_1(r20)  # line 300  r21[0:8] = to.bf16(r20[0:8]) rn
    store_1(D_shape0, D_shape1, D_stride0, D_stride2, bid_x, bid_y, bid_z, tid, D, r21)  # gemm.py:184
    r22 = to_f32_8(x0)  # line 271  r22[0] = to.f32(x0[0]) rn
    r23 = map_mul_4(fragment0, r22)  # line 271  r23[0:8] = mul.f32(fragment0[16:24], r22[0])
    fragment7 = load_4(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, fragment7)  # line 306  fragment7[0:8] ...
    r24 = to_f32_9(fragment7)  # line 300  r24[0:8] = to.f32(fragment7[0:8]) rn
    r25 = to_f32_10(x1)  # line 271  r25[0] = to.f32(x1[0]) rn
    r26 = map_mul_5(r24, r25)  # line 271  r26[0:8] = mul.f32(r24[0:8], r25[0])
    r27 = map_add_4(r23, r26)  # line 271  r27[0:8] = add.f32(r23[0:8], r26[0:8])
    fragment8 = load_5(bias_shape0, bid_y, tid, bias, fragment8)  # line 306  fragment8[0,1] = load bias[64*bid_y+ ...
    r28 = to_f32_11(fragment8)  # line 300  r28[0,1] = to.f32(fragment8[0,1]) rn
    r29 = map_add_5(r27, r28)  # line 271  r29[0:8] = add.f32(r27[0:8], r28[0,1,0,1,0,1,0,1])
    r30 = map_lt_2(r29, r30)  # line 271  r30[0:8] = lt.f32(r29[0:8], 0.0)
    r31 = map_where_2(r29, r30)  # line 271  r31[0:8] = where.f32(r30[0:8], 0.0, r29[0:8])
    r32 = to_bf16_2(r31)  # line 300  r32[0:8] = to.bf16(r31[0:8]) rn
    store_2(D_shape0, D_shape1, D_stride0, D_stride2, bid_x, bid_y, bid_z, tid, D, r32)  # gemm.py:184
    r33 = to_f32_12(x0)  # line 271  r33[0] = to.f32(x0[0]) rn
    r34 = map_mul_6(fragment0, r33)  # line 271  r34[0:8] = mul.f32(fragment0[24:32], r33[0])
    fragment9 = load_6(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, fragment9)  # line 306  fragment9[0:8] ...
    r35 = to_f32_13(fragment9)  # line 300  r35[0:8] = to.f32(fragment9[0:8]) rn
    r36 = to_f32_14(x1)  # line 271  r36[0] = to.f32(x1[0]) rn
    r37 = map_mul_7(r35, r36)  # line 271  r37[0:8] = mul.f32(r35[0:8], r36[0])
    r38 = map_add_6(r34, r37)  # line 271  r38[0:8] = add.f32(r34[0:8], r37[0:8])
    fragment10 = load_7(bias_shape0, bid_y, tid, bias, fragment10)  # line 306  fragment10[0,1] = load bias[64*bid ...
    r39 = to_f32_15(fragment10)  # line 300  r39[0,1] = to.f32(fragment10[0,1]) rn
    r40 = map_add_7(r38, r39)  # line 271  r40[0:8] = add.f32(r38[0:8], r39[0,1,0,1,0,1,0,1])
    r41 = map_lt_3(r40, r41)  # line 271  r41[0:8] = lt.f32(r40[0:8], 0.0)
    r42 = map_where_3(r40, r41)  # line 271  r42[0:8] = where.f32(r41[0:8], 0.0, r40[0:8])
    r43 = to_bf16_3(r42)  # line 300  r43[0:8] = to.bf16(r42[0:8]) rn
    store_3(D_shape0, D_shape1, D_stride0, D_stride2, bid_x, bid_y, bid_z, tid, D, r43)  # gemm.py:184
