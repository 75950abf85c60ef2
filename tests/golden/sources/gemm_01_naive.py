"""gemm_naive: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of gemm_01_naive.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,8), ceil_div(B_shape0,32), 1)
    block: (32, 8, 1)
    shared memory: 0 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f32 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    C: address of f32 (C_shape0,C_shape1):(C_stride0,1), a multiple of 16 bytes

Registers:
    r0, x0, r1, x1, r2, r3: f32[1] in 1 word

Calls:
    holds_*: whether a condition is true
    begin_*: the address that a loop begins with
    advance_*: the address of the next iteration
    next_*: the counter of the next iteration
    fill_*: all elements become a number
    map_*: element by element
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
"""


def gemm_naive(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    C, C_shape0, C_shape1, C_stride0,
):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    r0 = undefined(1)
    x0 = undefined(1)
    x1 = undefined(1)
    if holds_0(A_shape0, B_shape0, bid_x, bid_y, tid):  # line 24  if (8*bid_x+tid//32 < A_shape0 and 32*bid_y+tid ...
        r0 = fill_0(r0)  # line 26  r0[0] = 0.0
        A_at = begin_0(A_stride0, bid_x, tid, A)
        B_at = begin_1(B_stride0, bid_y, tid, B)
        k0 = int32(0)  # line 27  for k0 in 0 .. A_shape1
        while holds_1(A_shape1, k0):  # line 27  for k0 in 0 .. A_shape1
            x0, A_at = load_0(A_stride0, bid_x, k0, tid, A, A_at, x0)  # line 28  x0[0] = load A[8*A_stride0*bid_x ...
            r1 = map_copy_0(x0)  # line 28  r1[0] = copy.f32(x0[0])
            x1, B_at = load_1(B_stride0, bid_y, k0, tid, B, B_at, x1)  # line 28  x1[0] = load B[32*B_stride0*bid_ ...
            r2 = map_copy_1(x1)  # line 28  r2[0] = copy.f32(x1[0])
            r3 = map_fma_0(r0, r1, r2)  # line 28  r3[0] = fma.f32(r1[0], r2[0], r0[0])
            r0 = map_copy_2(r0, r3)  # line 28  r0[0] = copy.f32(r3[0])
            A_at = advance_0(A_at)
            B_at = advance_1(B_at)
            k0 = next_0(k0)  # line 27  for k0 in 0 .. A_shape1
        store_0(C_stride0, bid_x, bid_y, tid, C, r0)  # line 29  store C[8*C_stride0*bid_x+C_stride0*(tid//32)+32* ...
