"""gemm_ldmatrix: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of gemm_06_ldmatrix.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,64), ceil_div(B_shape0,64), 1)
    block: (128, 1, 1)
    shared memory: 8192 bytes

Parameters:
    A: address of f16 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f16 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    C: address of f32 (C_shape0,C_shape1):(C_stride0,1), a multiple of 16 bytes

Shared memory:
    s0: f16[2048] at byte 0
    s1: f16[2048] at byte 4096

Registers:
    fragment0, fragment1: f16[32] in 16 words
    fragment2, r0: f32[32] in 32 words
    t0, t1: f16[16] in 8 words

Calls:
    holds_*: whether a condition is true
    begin_*: the address that a loop begins with
    advance_*: the address of the next iteration
    next_*: the counter of the next iteration
    fill_*: all elements become a number
    map_*: element by element
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    ldmatrix_*: 8x8 matrices from shared memory, one for each row address
    mma_*: d += a * b, one instruction of the atom for each step
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def gemm_ldmatrix(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    C, C_shape0, C_shape1, C_stride0,
):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(16)
    fragment1 = undefined(16)
    fragment2 = undefined(32)
    t0 = undefined(8)
    t1 = undefined(8)
    fragment2 = fill_0(fragment2)  # line 42  fragment2[0:32] = 0.0
    A_at = begin_0(A_stride0, bid_x, tid, A)
    B_at = begin_1(B_stride0, bid_y, tid, B)
    k0 = int32(0)  # line 50  for k0 in 0 .. ceil_div(A_shape1,32)
    while holds_0(A_shape1, k0):  # line 50  for k0 in 0 .. ceil_div(A_shape1,32)
        t0, A_at = load_0(A_shape0, A_shape1, A_stride0, bid_x, k0, tid, A, A_at, t0)  # line 51  t0[0:16] = load ...
        store_0(tid, smem, t0)  # line 51  store s0[0 + Sw<2,3,3>(8*tid + [0,1024])] x8 = t0[0:16]
        t1, B_at = load_1(B_shape0, B_shape1, B_stride0, bid_y, k0, tid, B, B_at, t1)  # line 52  t1[0:16] = load ...
        store_1(tid, smem, t1)  # line 52  store s1[0 + Sw<2,3,3>(8*tid + [0,1024])] x8 = t1[0:16]
        barrier_0()  # line 53  barrier block sync
        fragment0 = ldmatrix_0(tid, smem, fragment0)  # line 55  fragment0[0:8,16:24] = ldmatrix s0[-1024*(tid//64 ...
        fragment1 = ldmatrix_1(tid, smem, fragment1)  # line 56  fragment1[0:4,8:12,16:20,24:28] = ldmatrix s1[256 ...
        fragment2 = mma_0(fragment0, fragment1, fragment2)  # line 57  fragment2[0:32] += fragment0[0:8,16:24] * f ...
        fragment0 = ldmatrix_2(tid, smem, fragment0)  # line 55  fragment0[8:16,24:32] = ldmatrix s0[-1024*(tid//6 ...
        fragment1 = ldmatrix_3(tid, smem, fragment1)  # line 56  fragment1[4:8,12:16,20:24,28:32] = ldmatrix s1[25 ...
        fragment2 = mma_1(fragment0, fragment1, fragment2)  # line 57  fragment2[0:32] += fragment0[8:16,24:32] * ...
        barrier_0()  # line 58  barrier block sync
        A_at = advance_0(A_stride0, A_at)
        B_at = advance_1(B_stride0, B_at)
        k0 = next_0(k0)  # line 50  for k0 in 0 .. ceil_div(A_shape1,32)
    r0 = map_copy_0(fragment2)  # line 59  r0[0:32] = copy.f32(fragment2[0:32])
    store_2(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, r0)  # line 59  store C[64*C_stride0*bid_x+8*C_st ...
