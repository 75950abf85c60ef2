"""transpose_vectors: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of transpose.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,64), ceil_div(A_shape1,64), 1)
    block: (256, 1, 1)
    shared memory: 16384 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f32 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes

Shared memory:
    s0: f32[4096] at byte 0

Registers:
    fragment0, fragment1: f32[16] in 16 words

Calls:
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def transpose_vectors(A, A_shape0, A_shape1, A_stride0, B, B_shape0, B_shape1, B_stride0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(16)
    fragment1 = undefined(16)
    fragment0 = load_0(A_shape0, A_shape1, A_stride0, bid_x, bid_y, tid, A, fragment0)  # line 79  fragment0[0:16] ...
    store_0(tid, smem, fragment0)  # line 80  store s0[0 + Sw<3,2,6>(4*tid+32*(tid//8) + [0,2048,32,2080])] x4 = f ...
    barrier_0()  # line 81  barrier block sync
    fragment1 = load_1(tid, smem, fragment1)  # line 82  fragment1[0:16] = load s0[0 + Sw<3,2,6>(256*tid-2047*(tid ...
    store_1(B_shape0, B_shape1, B_stride0, bid_x, bid_y, tid, B, fragment1)  # line 83  store B[64*B_stride0*bid_y ...
