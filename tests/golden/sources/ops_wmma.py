"""wmma: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of kernels_of_ops.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (1, 1, 1)
    block: (32, 1, 1)
    shared memory: 1536 bytes

Parameters:
    x: address of f32 (x_shape0):(1), a multiple of 16 bytes

Shared memory:
    s0: f16[256] at byte 0
    s1: f32[256] at byte 512

Registers:
    x0, x1, x2, x3, x4, x5, x6, x7: f16[1] in 1 word
    r0, r1: u32[8] in 8 words
    r2: f32[2] in 2 words
    r3, r36: f32[8] in 8 words
    r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15, r16, r17, r18, r19: u32[1] in 1 word
    r20, r21, r22, r23, r24, r25, r26, r27, r28, r29, r30, r31, r32, r33, r34,
    r35, x8: f32[1] in 1 word

Calls:
    fill_*: all elements become a number
    map_*: element by element
    inline_ptx_*: PTX of the kernel's author, on registers
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    wmma_load_*: wmma.load: a fragment of a warp
    wmma_store_*: wmma.store: a fragment of a warp
    barrier_*: bar.sync, of the block, a warp or some warps
"""


def wmma(x, x_shape0):
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
    r0 = undefined(8)
    r1 = undefined(8)
    r2 = undefined(2)
    r3 = undefined(8)
    r28 = undefined(1)
    r29 = undefined(1)
    r30 = undefined(1)
    r31 = undefined(1)
    r32 = undefined(1)
    r33 = undefined(1)
    r34 = undefined(1)
    r35 = undefined(1)
    r36 = undefined(8)
    x8 = undefined(1)
    x0 = fill_0(x0)  # line 60  x0[0] = 1.0
    store_0(tid, smem, x0)  # line 60  store s0[8*tid + [0]] = x0[0]
    x1 = fill_1(x1)  # line 60  x1[0] = 1.0
    store_1(tid, smem, x1)  # line 60  store s0[8*tid+1 + [0]] = x1[0]
    x2 = fill_2(x2)  # line 60  x2[0] = 1.0
    store_2(tid, smem, x2)  # line 60  store s0[8*tid+2 + [0]] = x2[0]
    x3 = fill_3(x3)  # line 60  x3[0] = 1.0
    store_3(tid, smem, x3)  # line 60  store s0[8*tid+3 + [0]] = x3[0]
    x4 = fill_4(x4)  # line 60  x4[0] = 1.0
    store_4(tid, smem, x4)  # line 60  store s0[8*tid+4 + [0]] = x4[0]
    x5 = fill_5(x5)  # line 60  x5[0] = 1.0
    store_5(tid, smem, x5)  # line 60  store s0[8*tid+5 + [0]] = x5[0]
    x6 = fill_6(x6)  # line 60  x6[0] = 1.0
    store_6(tid, smem, x6)  # line 60  store s0[8*tid+6 + [0]] = x6[0]
    x7 = fill_7(x7)  # line 60  x7[0] = 1.0
    store_7(tid, smem, x7)  # line 60  store s0[8*tid+7 + [0]] = x7[0]
    barrier_0()  # line 61  barrier block sync
    r0 = wmma_load_0(tid, smem, r0)  # line 63  r0[0:8] = wmma.load.a.sync.aligned.row.m16n16k16 s0[0 + [0]] by 16
    r1 = wmma_load_1(tid, smem, r1)  # line 63  r1[0:8] = wmma.load.b.sync.aligned.col.m16n16k16 s0[0 + [0]] by 16
    r2 = fill_8(r2)  # line 63  r2[0,1] = 0.0
    r3 = fill_9(r3)  # line 63  r3[0:8] = 0.0
    r4 = map_copy_0(r0)  # line 63  r4[0] = copy.u32(r0[0])
    r5 = map_copy_1(r0)  # line 63  r5[0] = copy.u32(r0[1])
    r6 = map_copy_2(r0)  # line 63  r6[0] = copy.u32(r0[2])
    r7 = map_copy_3(r0)  # line 63  r7[0] = copy.u32(r0[3])
    r8 = map_copy_4(r0)  # line 63  r8[0] = copy.u32(r0[4])
    r9 = map_copy_5(r0)  # line 63  r9[0] = copy.u32(r0[5])
    r10 = map_copy_6(r0)  # line 63  r10[0] = copy.u32(r0[6])
    r11 = map_copy_7(r0)  # line 63  r11[0] = copy.u32(r0[7])
    r12 = map_copy_8(r1)  # line 63  r12[0] = copy.u32(r1[0])
    r13 = map_copy_9(r1)  # line 63  r13[0] = copy.u32(r1[1])
    r14 = map_copy_10(r1)  # line 63  r14[0] = copy.u32(r1[2])
    r15 = map_copy_11(r1)  # line 63  r15[0] = copy.u32(r1[3])
    r16 = map_copy_12(r1)  # line 63  r16[0] = copy.u32(r1[4])
    r17 = map_copy_13(r1)  # line 63  r17[0] = copy.u32(r1[5])
    r18 = map_copy_14(r1)  # line 63  r18[0] = copy.u32(r1[6])
    r19 = map_copy_15(r1)  # line 63  r19[0] = copy.u32(r1[7])
    r20 = map_copy_16(r3)  # line 63  r20[0] = copy.f32(r3[0])
    r21 = map_copy_17(r3)  # line 63  r21[0] = copy.f32(r3[1])
    r22 = map_copy_18(r3)  # line 63  r22[0] = copy.f32(r3[2])
    r23 = map_copy_19(r3)  # line 63  r23[0] = copy.f32(r3[3])
    r24 = map_copy_20(r3)  # line 63  r24[0] = copy.f32(r3[4])
    r25 = map_copy_21(r3)  # line 63  r25[0] = copy.f32(r3[5])
    r26 = map_copy_22(r3)  # line 63  r26[0] = copy.f32(r3[6])
    r27 = map_copy_23(r3)  # line 63  r27[0] = copy.f32(r3[7])
    r28, r29, r30, r31, r32, r33, r34, r35 = inline_ptx_0(r10, r11, r12, r13, r14, r15, r16, r17, r18, r19, r20, r21, r22, r23, r24, r25, r26, r27, r28, r29, r30, r31, r32, r33, r34, r35, r4, r5, r6, r7, r8, r9)  # line 63
    r36 = map_copy_24(r28, r36)  # line 63  r36[0] = copy.f32(r28[0])
    r36 = map_copy_25(r29, r36)  # line 63  r36[1] = copy.f32(r29[0])
    r36 = map_copy_26(r30, r36)  # line 63  r36[2] = copy.f32(r30[0])
    r36 = map_copy_27(r31, r36)  # line 63  r36[3] = copy.f32(r31[0])
    r36 = map_copy_28(r32, r36)  # line 63  r36[4] = copy.f32(r32[0])
    r36 = map_copy_29(r33, r36)  # line 63  r36[5] = copy.f32(r33[0])
    r36 = map_copy_30(r34, r36)  # line 63  r36[6] = copy.f32(r34[0])
    r36 = map_copy_31(r35, r36)  # line 63  r36[7] = copy.f32(r35[0])
    wmma_store_0(tid, smem, r36)  # line 63  wmma.store.d.sync.aligned.row.m16n16k16 s1[0 + [0]] by 16 = r36[0:8]
    barrier_0()  # line 64  barrier block sync
    x8 = load_0(tid, smem, x8)  # line 65  x8[0] = load s1[16*(tid%16) + [0]]
    store_8(tid, x, x8)  # line 65  store x[tid + [0]] = x8[0]
