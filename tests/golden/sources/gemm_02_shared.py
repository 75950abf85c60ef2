"""gemm_shared: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of gemm_02_shared.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,16), ceil_div(B_shape0,16), 1)
    block: (16, 16, 1)
    shared memory: 2236 bytes

Parameters:
    A: address of f32 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f32 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    C: address of f32 (C_shape0,C_shape1):(C_stride0,1), a multiple of 16 bytes

Shared memory:
    s0: f32[271] at byte 0
    s1: f32[271] at byte 1152

Registers:
    r0, x0, x1, x2, r1, x3, r2, r3, x4, r4, x5, r5, r6, x6, r7, x7, r8, r9, x8,
    r10, x9, r11, r12, x10, r13, x11, r14, r15, x12, r16, x13, r17, r18, x14,
    r19, x15, r20, r21, x16, r22, x17, r23, r24, x18, r25, x19, r26, r27, x20,
    r28, x21, r29, r30, x22, r31, x23, r32, r33, x24, r34, x25, r35, r36, x26,
    r37, x27, r38, r39, x28, r40, x29, r41, r42, x30, r43, x31, r44, r45, x32,
    r46, x33, r47, r48: f32[1] in 1 word

Calls:
    holds_*: whether a condition is true
    begin_*: the address that a loop begins with
    advance_*: the address of the next iteration
    next_*: the counter of the next iteration
    fill_*: all elements become a number
    map_*: element by element
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def gemm_shared(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    C, C_shape0, C_shape1, C_stride0,
):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    r0 = undefined(1)
    x0 = undefined(1)
    x1 = undefined(1)
    x2 = undefined(1)
    x3 = undefined(1)
    x4 = undefined(1)
    x5 = undefined(1)
    x6 = undefined(1)
    x7 = undefined(1)
    x8 = undefined(1)
    x9 = undefined(1)
    x10 = undefined(1)
    x11 = undefined(1)
    x12 = undefined(1)
    x13 = undefined(1)
    x14 = undefined(1)
    x15 = undefined(1)
    x16 = undefined(1)
    x17 = undefined(1)
    x18 = undefined(1)
    x19 = undefined(1)
    x20 = undefined(1)
    x21 = undefined(1)
    x22 = undefined(1)
    x23 = undefined(1)
    x24 = undefined(1)
    x25 = undefined(1)
    x26 = undefined(1)
    x27 = undefined(1)
    x28 = undefined(1)
    x29 = undefined(1)
    x30 = undefined(1)
    x31 = undefined(1)
    x32 = undefined(1)
    x33 = undefined(1)
    r0 = fill_0(r0)  # line 30  r0[0] = 0.0
    A_at = begin_0(A_stride0, bid_x, tid, A)
    B_at = begin_1(B_stride0, bid_y, tid, B)
    k0 = int32(0)  # line 31  for k0 in 0 .. ceil_div(A_shape1,16)
    while holds_0(A_shape1, k0):  # line 31  for k0 in 0 .. ceil_div(A_shape1,16)
        x0, A_at = load_0(A_shape0, A_shape1, A_stride0, bid_x, k0, tid, A, A_at, x0)  # line 32  x0[0] = load A[1 ...
        store_0(tid, smem, x0)  # line 32  store s0[17*tid//16 + [0]] = x0[0]
        x1, B_at = load_1(B_shape0, B_shape1, B_stride0, bid_y, k0, tid, B, B_at, x1)  # line 33  x1[0] = load B[1 ...
        store_1(tid, smem, x1)  # line 33  store s1[17*tid//16 + [0]] = x1[0]
        barrier_0()  # line 34  barrier block sync
        x2 = load_2(tid, smem, x2)  # line 36  x2[0] = load s0[17*(tid//16) + [0]]
        r1 = map_copy_0(x2)  # line 36  r1[0] = copy.f32(x2[0])
        x3 = load_3(tid, smem, x3)  # line 36  x3[0] = load s1[17*(tid%16) + [0]]
        r2 = map_copy_1(x3)  # line 36  r2[0] = copy.f32(x3[0])
        r3 = map_fma_0(r0, r1, r2)  # line 36  r3[0] = fma.f32(r1[0], r2[0], r0[0])
        r0 = map_copy_2(r0, r3)  # line 36  r0[0] = copy.f32(r3[0])
        x4 = load_4(tid, smem, x4)  # line 36  x4[0] = load s0[17*(tid//16)+1 + [0]]
        r4 = map_copy_3(x4)  # line 36  r4[0] = copy.f32(x4[0])
        x5 = load_5(tid, smem, x5)  # line 36  x5[0] = load s1[17*(tid%16)+1 + [0]]
        r5 = map_copy_4(x5)  # line 36  r5[0] = copy.f32(x5[0])
        r6 = map_fma_1(r0, r4, r5)  # line 36  r6[0] = fma.f32(r4[0], r5[0], r0[0])
        r0 = map_copy_5(r0, r6)  # line 36  r0[0] = copy.f32(r6[0])
        x6 = load_6(tid, smem, x6)  # line 36  x6[0] = load s0[17*(tid//16)+2 + [0]]
        r7 = map_copy_6(x6)  # line 36  r7[0] = copy.f32(x6[0])
        x7 = load_7(tid, smem, x7)  # line 36  x7[0] = load s1[17*(tid%16)+2 + [0]]
        r8 = map_copy_7(x7)  # line 36  r8[0] = copy.f32(x7[0])
        r9 = map_fma_2(r0, r7, r8)  # line 36  r9[0] = fma.f32(r7[0], r8[0], r0[0])
        r0 = map_copy_8(r0, r9)  # line 36  r0[0] = copy.f32(r9[0])
        x8 = load_8(tid, smem, x8)  # line 36  x8[0] = load s0[17*(tid//16)+3 + [0]]
        r10 = map_copy_9(x8)  # line 36  r10[0] = copy.f32(x8[0])
        x9 = load_9(tid, smem, x9)  # line 36  x9[0] = load s1[17*(tid%16)+3 + [0]]
        r11 = map_copy_10(x9)  # line 36  r11[0] = copy.f32(x9[0])
        r12 = map_fma_3(r0, r10, r11)  # line 36  r12[0] = fma.f32(r10[0], r11[0], r0[0])
        r0 = map_copy_11(r0, r12)  # line 36  r0[0] = copy.f32(r12[0])
        x10 = load_10(tid, smem, x10)  # line 36  x10[0] = load s0[17*(tid//16)+4 + [0]]
        r13 = map_copy_12(x10)  # line 36  r13[0] = copy.f32(x10[0])
        x11 = load_11(tid, smem, x11)  # line 36  x11[0] = load s1[17*(tid%16)+4 + [0]]
        r14 = map_copy_13(x11)  # line 36  r14[0] = copy.f32(x11[0])
        r15 = map_fma_4(r0, r13, r14)  # line 36  r15[0] = fma.f32(r13[0], r14[0], r0[0])
        r0 = map_copy_14(r0, r15)  # line 36  r0[0] = copy.f32(r15[0])
        x12 = load_12(tid, smem, x12)  # line 36  x12[0] = load s0[17*(tid//16)+5 + [0]]
        r16 = map_copy_15(x12)  # line 36  r16[0] = copy.f32(x12[0])
        x13 = load_13(tid, smem, x13)  # line 36  x13[0] = load s1[17*(tid%16)+5 + [0]]
        r17 = map_copy_16(x13)  # line 36  r17[0] = copy.f32(x13[0])
        r18 = map_fma_5(r0, r16, r17)  # line 36  r18[0] = fma.f32(r16[0], r17[0], r0[0])
        r0 = map_copy_17(r0, r18)  # line 36  r0[0] = copy.f32(r18[0])
        x14 = load_14(tid, smem, x14)  # line 36  x14[0] = load s0[17*(tid//16)+6 + [0]]
        r19 = map_copy_18(x14)  # line 36  r19[0] = copy.f32(x14[0])
        x15 = load_15(tid, smem, x15)  # line 36  x15[0] = load s1[17*(tid%16)+6 + [0]]
        r20 = map_copy_19(x15)  # line 36  r20[0] = copy.f32(x15[0])
        r21 = map_fma_6(r0, r19, r20)  # line 36  r21[0] = fma.f32(r19[0], r20[0], r0[0])
        r0 = map_copy_20(r0, r21)  # line 36  r0[0] = copy.f32(r21[0])
        x16 = load_16(tid, smem, x16)  # line 36  x16[0] = load s0[17*(tid//16)+7 + [0]]
        r22 = map_copy_21(x16)  # line 36  r22[0] = copy.f32(x16[0])
        x17 = load_17(tid, smem, x17)  # line 36  x17[0] = load s1[17*(tid%16)+7 + [0]]
        r23 = map_copy_22(x17)  # line 36  r23[0] = copy.f32(x17[0])
        r24 = map_fma_7(r0, r22, r23)  # line 36  r24[0] = fma.f32(r22[0], r23[0], r0[0])
        r0 = map_copy_23(r0, r24)  # line 36  r0[0] = copy.f32(r24[0])
        x18 = load_18(tid, smem, x18)  # line 36  x18[0] = load s0[17*(tid//16)+8 + [0]]
        r25 = map_copy_24(x18)  # line 36  r25[0] = copy.f32(x18[0])
        x19 = load_19(tid, smem, x19)  # line 36  x19[0] = load s1[17*(tid%16)+8 + [0]]
        r26 = map_copy_25(x19)  # line 36  r26[0] = copy.f32(x19[0])
        r27 = map_fma_8(r0, r25, r26)  # line 36  r27[0] = fma.f32(r25[0], r26[0], r0[0])
        r0 = map_copy_26(r0, r27)  # line 36  r0[0] = copy.f32(r27[0])
        x20 = load_20(tid, smem, x20)  # line 36  x20[0] = load s0[17*(tid//16)+9 + [0]]
        r28 = map_copy_27(x20)  # line 36  r28[0] = copy.f32(x20[0])
        x21 = load_21(tid, smem, x21)  # line 36  x21[0] = load s1[17*(tid%16)+9 + [0]]
        r29 = map_copy_28(x21)  # line 36  r29[0] = copy.f32(x21[0])
        r30 = map_fma_9(r0, r28, r29)  # line 36  r30[0] = fma.f32(r28[0], r29[0], r0[0])
        r0 = map_copy_29(r0, r30)  # line 36  r0[0] = copy.f32(r30[0])
        x22 = load_22(tid, smem, x22)  # line 36  x22[0] = load s0[17*(tid//16)+10 + [0]]
        r31 = map_copy_30(x22)  # line 36  r31[0] = copy.f32(x22[0])
        x23 = load_23(tid, smem, x23)  # line 36  x23[0] = load s1[17*(tid%16)+10 + [0]]
        r32 = map_copy_31(x23)  # line 36  r32[0] = copy.f32(x23[0])
        r33 = map_fma_10(r0, r31, r32)  # line 36  r33[0] = fma.f32(r31[0], r32[0], r0[0])
        r0 = map_copy_32(r0, r33)  # line 36  r0[0] = copy.f32(r33[0])
        x24 = load_24(tid, smem, x24)  # line 36  x24[0] = load s0[17*(tid//16)+11 + [0]]
        r34 = map_copy_33(x24)  # line 36  r34[0] = copy.f32(x24[0])
        x25 = load_25(tid, smem, x25)  # line 36  x25[0] = load s1[17*(tid%16)+11 + [0]]
        r35 = map_copy_34(x25)  # line 36  r35[0] = copy.f32(x25[0])
        r36 = map_fma_11(r0, r34, r35)  # line 36  r36[0] = fma.f32(r34[0], r35[0], r0[0])
        r0 = map_copy_35(r0, r36)  # line 36  r0[0] = copy.f32(r36[0])
        x26 = load_26(tid, smem, x26)  # line 36  x26[0] = load s0[17*(tid//16)+12 + [0]]
        r37 = map_copy_36(x26)  # line 36  r37[0] = copy.f32(x26[0])
        x27 = load_27(tid, smem, x27)  # line 36  x27[0] = load s1[17*(tid%16)+12 + [0]]
        r38 = map_copy_37(x27)  # line 36  r38[0] = copy.f32(x27[0])
        r39 = map_fma_12(r0, r37, r38)  # line 36  r39[0] = fma.f32(r37[0], r38[0], r0[0])
        r0 = map_copy_38(r0, r39)  # line 36  r0[0] = copy.f32(r39[0])
        x28 = load_28(tid, smem, x28)  # line 36  x28[0] = load s0[17*(tid//16)+13 + [0]]
        r40 = map_copy_39(x28)  # line 36  r40[0] = copy.f32(x28[0])
        x29 = load_29(tid, smem, x29)  # line 36  x29[0] = load s1[17*(tid%16)+13 + [0]]
        r41 = map_copy_40(x29)  # line 36  r41[0] = copy.f32(x29[0])
        r42 = map_fma_13(r0, r40, r41)  # line 36  r42[0] = fma.f32(r40[0], r41[0], r0[0])
        r0 = map_copy_41(r0, r42)  # line 36  r0[0] = copy.f32(r42[0])
        x30 = load_30(tid, smem, x30)  # line 36  x30[0] = load s0[17*(tid//16)+14 + [0]]
        r43 = map_copy_42(x30)  # line 36  r43[0] = copy.f32(x30[0])
        x31 = load_31(tid, smem, x31)  # line 36  x31[0] = load s1[17*(tid%16)+14 + [0]]
        r44 = map_copy_43(x31)  # line 36  r44[0] = copy.f32(x31[0])
        r45 = map_fma_14(r0, r43, r44)  # line 36  r45[0] = fma.f32(r43[0], r44[0], r0[0])
        r0 = map_copy_44(r0, r45)  # line 36  r0[0] = copy.f32(r45[0])
        x32 = load_32(tid, smem, x32)  # line 36  x32[0] = load s0[17*(tid//16)+15 + [0]]
        r46 = map_copy_45(x32)  # line 36  r46[0] = copy.f32(x32[0])
        x33 = load_33(tid, smem, x33)  # line 36  x33[0] = load s1[17*(tid%16)+15 + [0]]
        r47 = map_copy_46(x33)  # line 36  r47[0] = copy.f32(x33[0])
        r48 = map_fma_15(r0, r46, r47)  # line 36  r48[0] = fma.f32(r46[0], r47[0], r0[0])
        r0 = map_copy_47(r0, r48)  # line 36  r0[0] = copy.f32(r48[0])
        barrier_0()  # line 37  barrier block sync
        A_at = advance_0(A_at)
        B_at = advance_1(B_at)
        k0 = next_0(k0)  # line 31  for k0 in 0 .. ceil_div(A_shape1,16)
    store_2(C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, r0)  # line 38  store C[16*C_stride0*bid_x+C_stri ...
