"""transpose_naive: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of transpose.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape1,32), ceil_div(A_shape0,8), 1)
    block: (32, 8, 1)
    shared memory: 0 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f32 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes

Registers:
    x0: f32[1] in 1 word

Calls:
    holds_*: whether a condition is true
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
"""


def transpose_naive(A, A_shape0, A_shape1, A_stride0, B, B_shape0, B_shape1, B_stride0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    x0 = undefined(1)
    if holds_0(A_shape0, A_shape1, bid_x, bid_y, tid):  # line 33  if (8*bid_y+tid//32 < A_shape0 and 32*bid_x+tid ...
        x0 = load_0(A_stride0, bid_x, bid_y, tid, A, x0)  # line 34  x0[0] = load A[8*A_stride0*bid_y+A_stride0*(t ...
        store_0(B_stride0, bid_x, bid_y, tid, B, x0)  # line 34  store B[32*B_stride0*bid_x+8*bid_y+tid//32+B_stri ...
