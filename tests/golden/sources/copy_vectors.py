"""copy_vectors: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of copy.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,4)*ceil_div(A_shape1,1024), 1, 1)
    block: (256, 1, 1)
    shared memory: 0 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f32 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    multiplier0: divides by ceil_div(A_shape1,1024)

Registers:
    fragment0: f32[16] in 16 words

Calls:
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
"""


def copy_vectors(A, A_shape0, A_shape1, A_stride0, B, B_shape0, B_shape1, B_stride0, multiplier0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    fragment0 = undefined(16)
    fragment0 = load_0(A_shape0, A_shape1, A_stride0, bid_x, multiplier0, tid, A, fragment0)  # line 63
    store_0(A_shape1, B_shape0, B_shape1, B_stride0, bid_x, multiplier0, tid, B, fragment0)  # line 64
