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
    x0 = load_0(A_shape0, A_shape1, A_stride0, bid_x, bid_y, tid, A, x0)  # line 46  x0[0] = load A[32*A_stride0*b ...
    n0 = let_and_0(tid)  # line 46  n0 = and(tid, 992)
    n1 = let_xor_0(n0, tid)  # line 46  n1 = xor(tid, n0//32)
    store_0(n1, smem, x0)  # line 46  store s0[n1 + [0]] = x0[0]
    x1 = load_1(A_shape0, A_shape1, A_stride0, bid_x, bid_y, tid, A, x1)  # line 46  x1[0] = load A[32*A_stride0*b ...
    n2 = let_and_1(tid)  # line 46  n2 = and(tid+256, 992)
    n3 = let_xor_1(n2, tid)  # line 46  n3 = xor(tid+256, n2//32)
    store_1(n3, smem, x1)  # line 46  store s0[n3 + [0]] = x1[0]
    x2 = load_2(A_shape0, A_shape1, A_stride0, bid_x, bid_y, tid, A, x2)  # line 46  x2[0] = load A[32*A_stride0*b ...
    n4 = let_and_2(tid)  # line 46  n4 = and(tid+512, 992)
    n5 = let_xor_2(n4, tid)  # line 46  n5 = xor(tid+512, n4//32)
    store_2(n5, smem, x2)  # line 46  store s0[n5 + [0]] = x2[0]
    x3 = load_3(A_shape0, A_shape1, A_stride0, bid_x, bid_y, tid, A, x3)  # line 46  x3[0] = load A[32*A_stride0*b ...
    n6 = let_and_3(tid)  # line 46  n6 = and(tid+768, 992)
    n7 = let_xor_3(n6, tid)  # line 46  n7 = xor(tid+768, n6//32)
    store_3(n7, smem, x3)  # line 46  store s0[n7 + [0]] = x3[0]
    barrier_0()  # line 47  barrier block sync
    n8 = let_and_4(tid)  # line 49  n8 = and(32*tid-1023*(tid//32), 992)
    n9 = let_xor_4(n8, tid)  # line 49  n9 = xor(32*tid-1023*(tid//32), n8//32)
    x4 = load_4(n9, smem, x4)  # line 49  x4[0] = load s0[n9 + [0]]
    store_4(B_shape0, B_shape1, B_stride0, bid_x, bid_y, tid, B, x4)  # line 49  store B[32*B_stride0*bid_y+B_stri ...
    n10 = let_and_5(tid)  # line 49  n10 = and(32*tid+8-1023*(tid//32), 992)
    n11 = let_xor_5(n10, tid)  # line 49  n11 = xor(32*tid+8-1023*(tid//32), n10//32)
    x5 = load_5(n11, smem, x5)  # line 49  x5[0] = load s0[n11 + [0]]
    store_5(B_shape0, B_shape1, B_stride0, bid_x, bid_y, tid, B, x5)  # line 49  store B[32*B_stride0*bid_y+B_stri ...
    n12 = let_and_6(tid)  # line 49  n12 = and(32*tid+16-1023*(tid//32), 992)
    n13 = let_xor_6(n12, tid)  # line 49  n13 = xor(32*tid+16-1023*(tid//32), n12//32)
    x6 = load_6(n13, smem, x6)  # line 49  x6[0] = load s0[n13 + [0]]
    store_6(B_shape0, B_shape1, B_stride0, bid_x, bid_y, tid, B, x6)  # line 49  store B[32*B_stride0*bid_y+B_stri ...
    n14 = let_and_7(tid)  # line 49  n14 = and(32*tid+24-1023*(tid//32), 992)
    n15 = let_xor_7(n14, tid)  # line 49  n15 = xor(32*tid+24-1023*(tid//32), n14//32)
    x7 = load_7(n15, smem, x7)  # line 49  x7[0] = load s0[n15 + [0]]
    store_7(B_shape0, B_shape1, B_stride0, bid_x, bid_y, tid, B, x7)  # line 49  store B[32*B_stride0*bid_y+B_stri ...
