"""copy_tiles: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of copy.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,16), ceil_div(A_shape1,32), 1)
    block: (128, 1, 1)
    shared memory: 0 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f32 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes

Registers:
    t0: f32[4] in 4 words

Calls:
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
"""


def copy_tiles(A, A_shape0, A_shape1, A_stride0, B, B_shape0, B_shape1, B_stride0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    t0 = undefined(4)
    t0 = load_0(A_shape0, A_shape1, A_stride0, bid_x, bid_y, tid, A, t0)  # line 46  t0[0:4] = load A[16*A_stride0 ...
    store_0(B_shape0, B_shape1, B_stride0, bid_x, bid_y, tid, B, t0)  # line 46  store B[16*B_stride0*bid_x+B_stri ...
