"""gemm_multistage: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of gemm_07_multistage.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,64), ceil_div(B_shape0,64), 1)
    block: (128, 1, 1)
    shared memory: 49152 bytes

Parameters:
    A: address of f64 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f64 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    C: address of f64 (C_shape0,C_shape1):(C_stride0,1), a multiple of 16 bytes

Shared memory:
    s0: f64[3072] at byte 0
    s1: f64[3072] at byte 24576

Registers:
    fragment0, fragment1: f64[16] in 32 words
    fragment2, r0: f64[32] in 64 words

Calls:
    let_*: an integer that no sum of products describes
    holds_*: whether a condition is true
    value_*: an integer expression
    begin_*: the address that a loop begins with
    advance_*: the address of the next iteration
    next_*: the counter of the next iteration
    fill_*: all elements become a number
    map_*: element by element
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    cp_async_*: global to shared memory, one instruction for each vector
    cp_async_commit_*: cp.async.commit_group
    cp_async_wait_*: cp.async.wait_group
    mma_*: d += a * b, one instruction of the atom for each step
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def gemm_multistage(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    C, C_shape0, C_shape1, C_stride0,
):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(32)
    fragment1 = undefined(32)
    fragment2 = undefined(64)
    turn0 = int32(0)
    turn1 = int32(0)
    fragment2 = fill_0(fragment2)  # line 41  fragment2[0:32] = 0.0
    cp_async_0(A_shape0, A_shape1, A_stride0, bid_x, tid, A, smem)  # line 58  cp_async s0[0 + Sw<2,2,2>(2*tid + [ ...
    cp_async_1(B_shape0, B_shape1, B_stride0, bid_y, tid, B, smem)  # line 59  cp_async s1[0 + Sw<2,2,2>(2*tid + [ ...
    cp_async_commit_0()  # line 60  cp_async_commit
    if holds_0(A_shape1):  # line 58  if 1 < ceil_div(A_shape1,16)
        cp_async_2(A_shape0, A_shape1, A_stride0, bid_x, tid, A, smem)  # line 58  cp_async s0[1024 + Sw<2,2,2>(2* ...
    if holds_1(A_shape1):  # line 59  if 1 < ceil_div(A_shape1,16)
        cp_async_3(B_shape0, B_shape1, B_stride0, bid_y, tid, B, smem)  # line 59  cp_async s1[1024 + Sw<2,2,2>(2* ...
    cp_async_commit_0()  # line 60  cp_async_commit
    turn0 = int32(0)  # line 68  turn0 := 0
    turn1 = int32(2)  # line 68  turn1 := 2
    A_at = begin_0(A_stride0, bid_x, tid, A)
    B_at = begin_1(B_stride0, bid_y, tid, B)
    k0 = int32(0)  # line 68  for k0 in 0 .. ceil_div(A_shape1,16)
    while holds_2(A_shape1, k0):  # line 68  for k0 in 0 .. ceil_div(A_shape1,16)
        n0 = turn0  # line 68  n0 = var(turn0)
        n1 = turn1  # line 68  n1 = var(turn1)
        cp_async_wait_0()  # line 69  cp_async_wait 1
        barrier_0()  # line 70  barrier block sync
        fragment0 = load_0(n0, tid, smem, fragment0)  # line 63  fragment0[0:16:4] = load s0[1024*n0-256*(tid//64) ...
        fragment1 = load_1(n0, tid, smem, fragment1)  # line 64  fragment1[0:16:4] = load s1[1024*n0+128*(tid//64) ...
        if holds_3(A_shape1, k0):  # line 58  if k0+2 < ceil_div(A_shape1,16)
            cp_async_4(A_shape0, A_shape1, A_stride0, bid_x, k0, n1, tid, A, A_at, smem)  # line 58  cp_async s0[1 ...
        if holds_4(A_shape1, k0):  # line 59  if k0+2 < ceil_div(A_shape1,16)
            cp_async_5(B_shape0, B_shape1, B_stride0, bid_y, k0, n1, tid, B, B_at, smem)  # line 59  cp_async s1[1 ...
        cp_async_commit_0()  # line 60  cp_async_commit
        fragment0 = load_2(n0, tid, smem, fragment0)  # line 63  fragment0[1:17:4] = load s0[1024*n0-256*(tid//64) ...
        fragment1 = load_3(n0, tid, smem, fragment1)  # line 64  fragment1[1:17:4] = load s1[1024*n0+128*(tid//64) ...
        fragment2 = mma_0(fragment0, fragment1, fragment2)  # line 76  fragment2[0:32] += fragment0[0:16:4] * frag ...
        fragment0 = load_4(n0, tid, smem, fragment0)  # line 63  fragment0[2:18:4] = load s0[1024*n0-256*(tid//64) ...
        fragment1 = load_5(n0, tid, smem, fragment1)  # line 64  fragment1[2:18:4] = load s1[1024*n0+128*(tid//64) ...
        fragment2 = mma_1(fragment0, fragment1, fragment2)  # line 76  fragment2[0:32] += fragment0[1:17:4] * frag ...
        fragment0 = load_6(n0, tid, smem, fragment0)  # line 63  fragment0[3:19:4] = load s0[1024*n0-256*(tid//64) ...
        fragment1 = load_7(n0, tid, smem, fragment1)  # line 64  fragment1[3:19:4] = load s1[1024*n0+128*(tid//64) ...
        fragment2 = mma_2(fragment0, fragment1, fragment2)  # line 76  fragment2[0:32] += fragment0[2:18:4] * frag ...
        fragment2 = mma_3(fragment0, fragment1, fragment2)  # line 76  fragment2[0:32] += fragment0[3:19:4] * frag ...
        n2 = let_where_0(n0)  # line 68  n2 = where(3 <= n0+1, 0, n0+1)
        turn0 = int32(value_0(n2))  # line 68  turn0 := n2
        turn1 = int32(value_1(n0))  # line 68  turn1 := n0
        A_at = advance_0(A_at)
        B_at = advance_1(B_at)
        k0 = next_0(k0)  # line 68  for k0 in 0 .. ceil_div(A_shape1,16)
    r0 = map_copy_0(fragment2)  # line 77  r0[0:32] = copy.f64(fragment2[0:32])
    store_0(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, r0)  # line 77  store C[64*C_stride0*bid_x+64*bid ...
