"""gemm_splitk: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of splitk_serial.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,64), ceil_div(B_shape0,64), 2)
    block: (128, 1, 1)
    shared memory: 8192 bytes

Parameters:
    A: address of f16 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f16 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    C: address of f32 (C_shape0,C_shape1):(C_stride0,1), a multiple of 16 bytes
    turns: address of s32 (turns_shape0,turns_shape1):(turns_stride0,1), a multiple of 16 bytes

Shared memory:
    s0: f16[2048] at byte 0
    s1: f16[2048] at byte 4096

Registers:
    fragment0, fragment1: f16[32] in 16 words
    fragment2, fragment3: f32[32] in 32 words
    t0, t1: f16[16] in 8 words
    x0: s32[1] in 1 word

Calls:
    holds_*: whether a condition is true
    value_*: an integer expression
    begin_*: the address that a loop begins with
    advance_*: the address of the next iteration
    fill_*: all elements become a number
    map_*: element by element
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    mma_*: d += a * b, one instruction of the atom for each step
    barrier_*: bar.sync, of the block, a warp or some warps
    wait_until_*: reads with acquire order until the element compares
"""


def gemm_splitk(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    C, C_shape0, C_shape1, C_stride0,
    turns, turns_shape0, turns_shape1, turns_stride0,
):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(16)
    fragment1 = undefined(16)
    fragment2 = undefined(32)
    t0 = undefined(8)
    t1 = undefined(8)
    fragment3 = undefined(32)
    fragment2 = fill_0(fragment2)  # line 52  fragment2[0:32] = 0.0
    A_at = begin_0(A_stride0, bid_x, bid_z, tid, A)
    B_at = begin_1(B_stride0, bid_y, bid_z, tid, B)
    for k0 in range(int32(value_0(bid_z)), int32(value_1(A_shape1)), int32(2)):  # line 54  for k0 in bid_z .. cei ...
        t0, A_at = load_0(A_shape0, A_shape1, A_stride0, bid_x, k0, tid, A, A_at, t0)  # line 55  t0[0:16] = load ...
        store_0(tid, smem, t0)  # line 55  store s0[8*tid + [0,1024]] x8 = t0[0:16]
        t1, B_at = load_1(B_shape0, B_shape1, B_stride0, bid_y, k0, tid, B, B_at, t1)  # line 56  t1[0:16] = load ...
        store_1(tid, smem, t1)  # line 56  store s1[8*tid + [0,1024]] x8 = t1[0:16]
        barrier_0()  # line 57  barrier block sync
        fragment0 = load_2(tid, smem, fragment0)  # line 58  fragment0[0:8,16:24,8:16,24:32] = load s0[2*tid+256*( ...
        fragment1 = load_3(tid, smem, fragment1)  # line 59  fragment1[0:4,8:12,16:20,24:28,4:8,12:16,20:24,28:32] ...
        fragment2 = mma_0(fragment0, fragment1, fragment2)  # line 60  fragment2[0:32] += fragment0[0:8,16:24,8:16 ...
        barrier_0()  # line 61  barrier block sync
        A_at = advance_0(A_stride0, A_at)
        B_at = advance_1(B_stride0, B_at)
    if holds_0(tid):  # line 64  if tid == 0 (thread)
        wait_until_0(bid_x, bid_y, bid_z, turns_shape0, turns_shape1, turns_stride0, turns)  # line 64
    barrier_0()  # line 64  barrier block sync
    if holds_1(bid_z):  # line 65  if 0 < bid_z
        fragment3 = load_4(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, fragment3)  # line 67
        fragment2 = map_add_0(fragment2, fragment3)  # line 68  fragment2[0:32] = add.f32(fragment2[0:32], fragmen ...
    store_2(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, fragment2)  # line 69  store C[64*C_stride0*bid_x ...
    barrier_0()  # line 70  barrier block sync
    if holds_2(tid):  # line 70  if tid == 0 (thread)
        x0 = map_copy_0(bid_z)  # line 70  x0[0] = copy.s32((bid_z+1)%2)
        store_3(bid_x, bid_y, turns_shape0, turns_shape1, turns_stride0, turns, x0)  # line 70  store turns[bid_x* ...
