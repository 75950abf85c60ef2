"""transpose_shared: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of transpose.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,32), ceil_div(A_shape1,32), 1)
    block: (32, 8, 1)
    shared memory: 4096 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f32 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes

Shared memory:
    s0: f32[1024] at byte 0

Registers:
    x0, x1, x2, x3, x4, x5, x6, x7: f32[1] in 1 word

Calls:
    let_*: an integer that no sum of products describes
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def transpose_shared(A, A_shape0, A_shape1, A_stride0, B, B_shape0, B_shape1, B_stride0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    x0 = undefined(1)
    x1 = undefined(1)
    x2 = undefined(1)
    x3 = undefined(1)
    x4 = undefined(1)
    x5 = undefined(1)
    x6 = undefined(1)
    x7 = undefined(1)
    x0 = load_0(A_shape0, A_shape1, A_stride0, bid_x, bid_y, tid, A, x0)  # line 50  x0[0] = load A[32*A_stride0*b ...
    m0 = let_and_0(tid)  # line 50  m0 = and(tid, 992)
    m1 = let_xor_0(m0, tid)  # line 50  m1 = xor(tid, m0//32)
    store_0(m1, smem, x0)  # line 50  store s0[m1 + [0]] = x0[0]
    x1 = load_1(A_shape0, A_shape1, A_stride0, bid_x, bid_y, tid, A, x1)  # line 50  x1[0] = load A[32*A_stride0*b ...
    m2 = let_and_1(tid)  # line 50  m2 = and(tid+256, 992)
    m3 = let_xor_1(m2, tid)  # line 50  m3 = xor(tid+256, m2//32)
    store_1(m3, smem, x1)  # line 50  store s0[m3 + [0]] = x1[0]
    x2 = load_2(A_shape0, A_shape1, A_stride0, bid_x, bid_y, tid, A, x2)  # line 50  x2[0] = load A[32*A_stride0*b ...
    m4 = let_and_2(tid)  # line 50  m4 = and(tid+512, 992)
    m5 = let_xor_2(m4, tid)  # line 50  m5 = xor(tid+512, m4//32)
    store_2(m5, smem, x2)  # line 50  store s0[m5 + [0]] = x2[0]
    x3 = load_3(A_shape0, A_shape1, A_stride0, bid_x, bid_y, tid, A, x3)  # line 50  x3[0] = load A[32*A_stride0*b ...
    m6 = let_and_3(tid)  # line 50  m6 = and(tid+768, 992)
    m7 = let_xor_3(m6, tid)  # line 50  m7 = xor(tid+768, m6//32)
    store_3(m7, smem, x3)  # line 50  store s0[m7 + [0]] = x3[0]
    barrier_0()  # line 51  barrier block sync
    m8 = let_and_4(tid)  # line 53  m8 = and(32*tid-1023*(tid//32), 992)
    m9 = let_xor_4(m8, tid)  # line 53  m9 = xor(32*tid-1023*(tid//32), m8//32)
    x4 = load_4(m9, smem, x4)  # line 53  x4[0] = load s0[m9 + [0]]
    store_4(B_shape0, B_shape1, B_stride0, bid_x, bid_y, tid, B, x4)  # line 53  store B[32*B_stride0*bid_y+B_stri ...
    m10 = let_and_5(tid)  # line 53  m10 = and(32*tid+8-1023*(tid//32), 992)
    m11 = let_xor_5(m10, tid)  # line 53  m11 = xor(32*tid+8-1023*(tid//32), m10//32)
    x5 = load_5(m11, smem, x5)  # line 53  x5[0] = load s0[m11 + [0]]
    store_5(B_shape0, B_shape1, B_stride0, bid_x, bid_y, tid, B, x5)  # line 53  store B[32*B_stride0*bid_y+B_stri ...
    m12 = let_and_6(tid)  # line 53  m12 = and(32*tid+16-1023*(tid//32), 992)
    m13 = let_xor_6(m12, tid)  # line 53  m13 = xor(32*tid+16-1023*(tid//32), m12//32)
    x6 = load_6(m13, smem, x6)  # line 53  x6[0] = load s0[m13 + [0]]
    store_6(B_shape0, B_shape1, B_stride0, bid_x, bid_y, tid, B, x6)  # line 53  store B[32*B_stride0*bid_y+B_stri ...
    m14 = let_and_7(tid)  # line 53  m14 = and(32*tid+24-1023*(tid//32), 992)
    m15 = let_xor_7(m14, tid)  # line 53  m15 = xor(32*tid+24-1023*(tid//32), m14//32)
    x7 = load_7(m15, smem, x7)  # line 53  x7[0] = load s0[m15 + [0]]
    store_7(B_shape0, B_shape1, B_stride0, bid_x, bid_y, tid, B, x7)  # line 53  store B[32*B_stride0*bid_y+B_stri ...
