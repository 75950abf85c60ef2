"""gemm_registers: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of gemm_03_registers.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,128), ceil_div(B_shape0,128), 1)
    block: (256, 1, 1)
    shared memory: 8348 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f32 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    C: address of f32 (C_shape0,C_shape1):(C_stride0,1), a multiple of 16 bytes

Shared memory:
    s0: f32[1031] at byte 0
    s1: f32[1031] at byte 4224

Registers:
    fragment0, fragment1, fragment2: f32[64] in 64 words
    t0, t1: f32[4] in 4 words

Calls:
    holds_*: whether a condition is true
    begin_*: the address that a loop begins with
    advance_*: the address of the next iteration
    next_*: the counter of the next iteration
    fill_*: all elements become a number
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    mma_*: d += a * b, one instruction of the atom for each step
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def gemm_registers(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    C, C_shape0, C_shape1, C_stride0,
):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(64)
    fragment1 = undefined(64)
    fragment2 = undefined(64)
    t0 = undefined(4)
    t1 = undefined(4)
    fragment2 = fill_0(fragment2)  # line 46  fragment2[0:64] = 0.0
    A_at = begin_0(A_stride0, bid_x, tid, A)
    B_at = begin_1(B_stride0, bid_y, tid, B)
    k0 = int32(0)  # line 47  for k0 in 0 .. ceil_div(A_shape1,8)
    while holds_0(A_shape1, k0):  # line 47  for k0 in 0 .. ceil_div(A_shape1,8)
        t0, A_at = load_0(A_shape0, A_shape1, A_stride0, bid_x, k0, tid, A, A_at, t0)  # line 48  t0[0:4] = load A ...
        store_0(tid, smem, t0)  # line 48  store s0[129*tid-1031*(tid//8) + [0:128:32]] = t0[0:4]
        t1, B_at = load_1(B_shape0, B_shape1, B_stride0, bid_y, k0, tid, B, B_at, t1)  # line 49  t1[0:4] = load B ...
        store_1(tid, smem, t1)  # line 49  store s1[129*tid-1031*(tid//8) + [0:128:32]] = t1[0:4]
        barrier_0()  # line 50  barrier block sync
        fragment0 = load_2(tid, smem, fragment0)  # line 52  fragment0[0:8] = load s0[tid%16 + [0:128:16]]
        fragment1 = load_3(tid, smem, fragment1)  # line 53  fragment1[0:8] = load s1[tid//16 + [0:128:16]]
        fragment2 = mma_0(fragment0, fragment1, fragment2)  # line 54  fragment2[0:64] += fragment0[0:8] * fragmen ...
        fragment0 = load_4(tid, smem, fragment0)  # line 52  fragment0[8:16] = load s0[tid%16+129 + [0:128:16]]
        fragment1 = load_5(tid, smem, fragment1)  # line 53  fragment1[8:16] = load s1[tid//16+129 + [0:128:16]]
        fragment2 = mma_1(fragment0, fragment1, fragment2)  # line 54  fragment2[0:64] += fragment0[8:16] * fragme ...
        fragment0 = load_6(tid, smem, fragment0)  # line 52  fragment0[16:24] = load s0[tid%16+258 + [0:128:16]]
        fragment1 = load_7(tid, smem, fragment1)  # line 53  fragment1[16:24] = load s1[tid//16+258 + [0:128:16]]
        fragment2 = mma_2(fragment0, fragment1, fragment2)  # line 54  fragment2[0:64] += fragment0[16:24] * fragm ...
        fragment0 = load_8(tid, smem, fragment0)  # line 52  fragment0[24:32] = load s0[tid%16+387 + [0:128:16]]
        fragment1 = load_9(tid, smem, fragment1)  # line 53  fragment1[24:32] = load s1[tid//16+387 + [0:128:16]]
        fragment2 = mma_3(fragment0, fragment1, fragment2)  # line 54  fragment2[0:64] += fragment0[24:32] * fragm ...
        fragment0 = load_10(tid, smem, fragment0)  # line 52  fragment0[32:40] = load s0[tid%16+516 + [0:128:16]]
        fragment1 = load_11(tid, smem, fragment1)  # line 53  fragment1[32:40] = load s1[tid//16+516 + [0:128:16]]
        fragment2 = mma_4(fragment0, fragment1, fragment2)  # line 54  fragment2[0:64] += fragment0[32:40] * fragm ...
        fragment0 = load_12(tid, smem, fragment0)  # line 52  fragment0[40:48] = load s0[tid%16+645 + [0:128:16]]
        fragment1 = load_13(tid, smem, fragment1)  # line 53  fragment1[40:48] = load s1[tid//16+645 + [0:128:16]]
        fragment2 = mma_5(fragment0, fragment1, fragment2)  # line 54  fragment2[0:64] += fragment0[40:48] * fragm ...
        fragment0 = load_14(tid, smem, fragment0)  # line 52  fragment0[48:56] = load s0[tid%16+774 + [0:128:16]]
        fragment1 = load_15(tid, smem, fragment1)  # line 53  fragment1[48:56] = load s1[tid//16+774 + [0:128:16]]
        fragment2 = mma_6(fragment0, fragment1, fragment2)  # line 54  fragment2[0:64] += fragment0[48:56] * fragm ...
        fragment0 = load_16(tid, smem, fragment0)  # line 52  fragment0[56:64] = load s0[tid%16+903 + [0:128:16]]
        fragment1 = load_17(tid, smem, fragment1)  # line 53  fragment1[56:64] = load s1[tid//16+903 + [0:128:16]]
        fragment2 = mma_7(fragment0, fragment1, fragment2)  # line 54  fragment2[0:64] += fragment0[56:64] * fragm ...
        barrier_0()  # line 55  barrier block sync
        A_at = advance_0(A_stride0, A_at)
        B_at = advance_1(B_stride0, B_at)
        k0 = next_0(k0)  # line 47  for k0 in 0 .. ceil_div(A_shape1,8)
    store_2(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, fragment2)  # line 56  store C[128*C_stride0*bid_ ...
