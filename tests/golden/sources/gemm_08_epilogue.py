"""gemm_epilogue: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of gemm_08_epilogue.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(D_shape0,64), ceil_div(D_shape1,64), 1)
    block: (128, 1, 1)
    shared memory: 24576 bytes

Parameters:
    A: address of f16 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f16 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    C: address of f32 (C_shape0,C_shape1):(C_stride0,1), a multiple of 16 bytes
    D: address of f32 (D_shape0,D_shape1):(D_stride0,1), a multiple of 16 bytes
    bias: address of f32 (bias_shape0):(1), a multiple of 16 bytes
    alpha: f64
    beta: f64

Shared memory:
    s0: f16[6144] at byte 0
    s1: f16[6144] at byte 12288
    s2: f32[4600] at byte 0

Registers:
    x0, x1: f64[1] in 2 words
    fragment0, fragment3, r0, r2, fragment4, r4, r6, fragment5, r7, r9, r10: f32[32] in 32 words
    fragment1, fragment2: f16[32] in 16 words
    r1, r5: f32[1] in 1 word
    r3: b1[1] in 1 word
    r8: b1[32] in 1 word

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


def gemm_epilogue(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    C, C_shape0, C_shape1, C_stride0,
    D, D_shape0, D_shape1, D_stride0,
    bias, bias_shape0,
    alpha,
    beta,
):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(32)
    fragment1 = undefined(16)
    fragment2 = undefined(16)
    fragment3 = undefined(32)
    r2 = undefined(32)
    r3 = undefined(1)
    fragment4 = undefined(32)
    fragment5 = undefined(32)
    turn0 = int32(0)
    turn1 = int32(0)
    x0 = map_copy_0(alpha)  # line 18  x0[0] = copy.f64(alpha)
    x1 = map_copy_1(beta)  # line 18  x1[0] = copy.f64(beta)
    fragment0 = fill_0(fragment0)  # line 49  fragment0[0:32] = 0.0
    cp_async_0(A_shape0, A_shape1, A_stride0, bid_x, tid, A, smem)  # line 52  cp_async s0[0 + Sw<2,3,3>(8*tid + [ ...
    cp_async_1(B_shape0, B_shape1, B_stride0, bid_y, tid, B, smem)  # line 52  cp_async s1[0 + Sw<2,3,3>(8*tid + [ ...
    cp_async_commit_0()  # line 52  cp_async_commit
    cp_async_2(A_shape0, A_shape1, A_stride0, bid_x, tid, A, smem)  # line 52  cp_async s0[2048 + Sw<2,3,3>(8*tid ...
    cp_async_3(B_shape0, B_shape1, B_stride0, bid_y, tid, B, smem)  # line 52  cp_async s1[2048 + Sw<2,3,3>(8*tid ...
    cp_async_commit_0()  # line 52  cp_async_commit
    cp_async_wait_0()  # line 52  cp_async_wait 1
    barrier_0()  # line 52  barrier block sync
    fragment1 = ldmatrix_0(tid, smem, fragment1)  # line 52  fragment1[0:8,16:24] = ldmatrix s0[-1024*(tid//64) + ...
    fragment2 = ldmatrix_1(tid, smem, fragment2)  # line 52  fragment2[0:4,8:12,16:20,24:28] = ldmatrix s1[256*(ti ...
    turn0 = int32(0)  # line 52  turn0 := 0
    turn1 = int32(2)  # line 52  turn1 := 2
    A_at = begin_0(A_stride0, bid_x, tid, A)
    B_at = begin_1(B_stride0, bid_y, tid, B)
    k0 = int32(0)  # line 52  for k0 in 0 .. ceil_div(A_shape1,32)-1
    while holds_0(A_shape1, k0):  # line 52  for k0 in 0 .. ceil_div(A_shape1,32)-1
        n0 = turn0  # line 52  n0 = var(turn0)
        n1 = turn1  # line 52  n1 = var(turn1)
        fragment1 = ldmatrix_2(n0, tid, smem, fragment1)  # line 52  fragment1[8:16,24:32] = ldmatrix s0[2048*n0-1 ...
        fragment2 = ldmatrix_3(n0, tid, smem, fragment2)  # line 52  fragment2[4:8,12:16,20:24,28:32] = ldmatrix s ...
        A_at = cp_async_4(A_shape0, A_shape1, A_stride0, bid_x, k0, n1, tid, A, A_at, smem)  # line 52
        B_at = cp_async_5(B_shape0, B_shape1, B_stride0, bid_y, k0, n1, tid, B, B_at, smem)  # line 52
        cp_async_commit_0()  # line 52  cp_async_commit
        fragment0 = mma_0(fragment0, fragment1, fragment2)  # line 52  fragment0[0:32] += fragment1[0:8,16:24] * f ...
        cp_async_wait_0()  # line 52  cp_async_wait 1
        barrier_0()  # line 52  barrier block sync
        fragment1 = ldmatrix_4(n0, tid, smem, fragment1)  # line 52  fragment1[0:8,16:24] = ldmatrix s0[2048*((n0+ ...
        fragment2 = ldmatrix_5(n0, tid, smem, fragment2)  # line 52  fragment2[0:4,8:12,16:20,24:28] = ldmatrix s1 ...
        fragment0 = mma_1(fragment0, fragment1, fragment2)  # line 52  fragment0[0:32] += fragment1[8:16,24:32] * ...
        n2 = let_where_0(n0)  # line 52  n2 = where(3 <= n0+1, 0, n0+1)
        turn0 = int32(value_0(n2))  # line 52  turn0 := n2
        turn1 = int32(value_1(n0))  # line 52  turn1 := n0
        A_at = advance_0(A_stride0, A_at)
        B_at = advance_1(B_stride0, B_at)
        k0 = next_0(k0)  # line 52  for k0 in 0 .. ceil_div(A_shape1,32)-1
    cp_async_wait_1()  # line 52  cp_async_wait 0
    fragment1 = ldmatrix_6(A_shape1, tid, smem, fragment1)  # line 52  fragment1[8:16,24:32] = ldmatrix s0[2048*ce ...
    fragment2 = ldmatrix_7(A_shape1, tid, smem, fragment2)  # line 52  fragment2[4:8,12:16,20:24,28:32] = ldmatrix ...
    fragment0 = mma_0(fragment0, fragment1, fragment2)  # line 52  fragment0[0:32] += fragment1[0:8,16:24] * fragm ...
    fragment0 = mma_1(fragment0, fragment1, fragment2)  # line 52  fragment0[0:32] += fragment1[8:16,24:32] * frag ...
    barrier_0()  # line 54  barrier block sync
    store_0(tid, smem, fragment0)  # line 55  store s2[2*tid+576*(tid//32)+64*(tid//4)-2296*(tid//64) + [0,576,230 ...
    barrier_0()  # line 56  barrier block sync
    fragment3 = load_0(tid, smem, fragment3)  # line 63  fragment3[0:32] = load s2[4*tid+8*(tid//16) + [0:4608:576 ...
    r0 = map_copy_2(fragment3)  # line 64  r0[0:32] = copy.f32(fragment3[0:32])
    r1 = to_f32_0(x0)  # line 64  r1[0] = to.f32(x0[0]) rn
    r2 = map_mul_0(r0, r1, r2)  # line 64  r2[0:32] = mul.f32(r0[0:32], r1[0])
    r3 = map_ne_0(r3, x1)  # line 65  r3[0] = ne.f64(x1[0], 0.0)
    if holds_1(r3):  # line 65  if r3[0] (thread)
        fragment4 = load_1(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, fragment4)  # line 67
        r4 = map_copy_3(fragment4)  # line 68  r4[0:32] = copy.f32(fragment4[0:32])
        r5 = to_f32_1(x1)  # line 68  r5[0] = to.f32(x1[0]) rn
        r6 = map_mul_1(r4, r5)  # line 68  r6[0:32] = mul.f32(r4[0:32], r5[0])
        r2 = map_add_0(r2, r6)  # line 68  r2[0:32] = add.f32(r2[0:32], r6[0:32])
    fragment5 = load_2(D_shape0, D_shape1, bid_x, bid_y, tid, bias, fragment5)  # line 73  fragment5[0:32] = load ...
    r7 = map_copy_4(fragment5)  # line 74  r7[0:32] = copy.f32(fragment5[0:32])
    r2 = map_add_1(r2, r7)  # line 74  r2[0:32] = add.f32(r2[0:32], r7[0:32])
    r8 = map_lt_0(r2)  # activations.py:108  r8[0:32] = lt.f32(r2[0:32], 0.0)
    r9 = map_where_0(r2, r8)  # activations.py:108  r9[0:32] = where.f32(r8[0:32], 0.0, r2[0:32])
    r10 = map_copy_5(r9)  # line 75  r10[0:32] = copy.f32(r9[0:32])
    store_1(D_shape0, D_shape1, D_stride0, bid_x, bid_y, tid, D, r10)  # line 75  store D[64*D_stride0*bid_x+D_str ...
