"""gemm_ping_pong: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of gemm_12_ping_pong.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (blocks, 1, 1)
    block: (384, 1, 1)
    shared memory: 213072 bytes

Parameters:
    A: address of f16 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f16 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    D: address of f16 (D_shape0,D_shape1):(D_stride0,1), a multiple of 16 bytes
    blocks: s32
    multiplier0: divides by 2*blocks
    multiplier1: divides by 8*ceil_div(B_shape0,192)
    multiplier2: divides by blocks
    D_map: tensor map of D, box (64, 64) of modes (1, 0)
    A_map: tensor map of A, box (64, 128) of modes (1, 0)
    B_map: tensor map of B, box (64, 192) of modes (1, 0)

Shared memory:
    s0: f16[32768] at byte 0
    s1: f16[49152] at byte 65536
    s2: f16[24576] at byte 163840
    bar0: u64[4] at byte 212992
    bar1: u64[4] at byte 213024
    bar2: u64[2] at byte 213056

Registers:
    fragment0: f32[192] in 192 words
    r0, r1, r2, r3, r4, r5: f16[32] in 16 words

Calls:
    holds_*: whether a condition is true
    value_*: an integer expression
    next_*: the counter of the next iteration
    fill_*: all elements become a number
    to_*: conversion to a type
    stmatrix_*: 8x8 matrices to shared memory, one for each row address
    tma_load_*: cp.async.bulk.tensor: a box of a tensor to shared memory
    tma_store_*: cp.async.bulk.tensor: shared memory to a box of a tensor
    bulk_commit_*: cp.async.bulk.commit_group
    bulk_wait_*: cp.async.bulk.wait_group
    wgmma_*: wgmma.mma_async: d += a * b of a warpgroup
    wgmma_fence_*: wgmma.fence
    wgmma_commit_*: wgmma.commit_group
    wgmma_wait_*: wgmma.wait_group
    barrier_*: bar.sync, of the block, a warp or some warps
    fence_*: order of memory
    mbarrier_init_*: mbarrier.init
    mbarrier_arrive_*: mbarrier.arrive
    mbarrier_wait_*: mbarrier.try_wait.parity
    setmaxnreg_*: setmaxnreg
"""


def gemm_ping_pong(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    D, D_shape0, D_shape1, D_stride0,
    blocks,
    multiplier0,
    multiplier1,
    multiplier2,
    D_map,
    A_map,
    B_map,
):
    tid = thread_index()
    warp = warp_index(tid)
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(192)
    v0 = int32(0)
    v1 = int32(0)
    v10 = int32(0)
    v11 = int64(0)
    v12 = int64(0)
    v13 = int32(0)
    v14 = int32(0)
    v15 = int32(0)
    v2 = int32(0)
    v3 = int32(0)
    v4 = int32(0)
    v5 = int32(0)
    v6 = int64(0)
    v7 = int64(0)
    v8 = int32(0)
    v9 = int32(0)
    if holds_0(tid):  # line 51  if tid < 1 (thread)
        mbarrier_init_0(smem)  # line 51  mbarrier_init bar0[0 + [0]] 1
        mbarrier_init_1(smem)  # line 51  mbarrier_init bar0[1 + [0]] 1
        mbarrier_init_2(smem)  # line 51  mbarrier_init bar0[2 + [0]] 1
        mbarrier_init_3(smem)  # line 51  mbarrier_init bar0[3 + [0]] 1
        mbarrier_init_4(smem)  # line 51  mbarrier_init bar1[0 + [0]] 1
        mbarrier_init_5(smem)  # line 51  mbarrier_init bar1[1 + [0]] 1
        mbarrier_init_6(smem)  # line 51  mbarrier_init bar1[2 + [0]] 1
        mbarrier_init_7(smem)  # line 51  mbarrier_init bar1[3 + [0]] 1
        fence_0()  # line 51  fence mbarrier_init
    barrier_0()  # line 51  barrier block sync
    v0 = int32(0)  # line 51  v0 := 0
    v1 = int32(1)  # line 51  v1 := 1
    v2 = int32(0)  # line 51  v2 := 0
    v3 = int32(0)  # line 51  v3 := 0
    v4 = int32(0)  # line 51  v4 := 0
    if holds_1(tid):  # line 53  if tid == 0 (thread)
        mbarrier_init_8(smem)  # line 54  mbarrier_init bar2[0 + [0]] 4
        mbarrier_init_9(smem)  # line 54  mbarrier_init bar2[1 + [0]] 4
        fence_0()  # line 55  fence mbarrier_init
    barrier_0()  # line 56  barrier block sync
    if holds_2(warp, tid):  # line 58  if tid//128 < 2 (warpgroup)
        setmaxnreg_0()  # line 58  setmaxnreg 232 inc
        v5 = int32(0)  # line 60  v5 := 0
        if holds_3(warp, tid):  # line 66  if (tid//128 == 0 and tid%32 == 0) (thread)
            mbarrier_arrive_0(smem)  # line 67  mbarrier_arrive bar2[0 + [0]]
        if holds_4(warp, tid):  # line 68  if tid//128 == 1 (warpgroup)
            m0 = v2  # line 69  m0 = var(v2)
            m1 = v3  # line 69  m1 = var(v3)
            v3 = int32(value_0(A_shape1, m0, m1))  # line 69  v3 := (m1+(m0+ceil_div(A_shape1,64))//4)%2
            v2 = int32(value_1(A_shape1, m0))  # line 69  v2 := (m0+ceil_div(A_shape1,64))%4
        v6 = int64(value_2(A_shape0, B_shape0))  # line 70  v6 := ceil_div(A_shape0,128)*ceil_div(B_shape0,192)
        m2 = v6  # line 70  m2 = var(v6)
        pass  # line 70  promise m2 is the same in the warpgroup
        k0 = int32(0)  # line 70  for k0 in 0 .. -((blocks*(tid//128)+bid_x-m2)//(2*blocks)) (warpgroup)
        while holds_5(warp, bid_x, blocks, k0, m2, multiplier0, tid):  # line 70  for k0 in 0 .. -((blocks*(tid//1 ...
            v7 = int64(value_3(warp, bid_x, blocks, k0, tid))  # line 70  v7 := 2*blocks*k0+blocks*(tid//128)+bid_x
            n0 = v7  # line 70  n0 = var(v7)
            pass  # line 70  promise n0 is the same in the warpgroup
            v8 = int32(value_4(A_shape0, B_shape0, multiplier1, n0))  # line 70  v8 := min(ceil_div(A_shape0,128)- ...
            n1 = v8  # line 70  n1 = var(v8)
            pass  # line 70  promise n1 is the same in the warpgroup
            v9 = int32(value_5(B_shape0, multiplier1, n0, n1))  # line 70  v9 := 8*(n0//(8*ceil_div(B_shape0,192)) ...
            n2 = v9  # line 70  n2 = var(v9)
            pass  # line 70  promise n2 is the same in the warpgroup
            v10 = int32(value_6(B_shape0, multiplier1, n0, n1))  # line 70  v10 := (n0%(8*ceil_div(B_shape0,192)))//n1
            n3 = v10  # line 70  n3 = var(v10)
            pass  # line 70  promise n3 is the same in the warpgroup
            fragment0 = fill_0(fragment0)  # line 71  fragment0[0:192] = undefined
            n4 = v5  # line 72  n4 = var(v5)
            mbarrier_wait_0(warp, n4, tid, smem)  # line 72  mbarrier_wait bar2[tid//128 + [0]] n4
            n5 = v5  # line 73  n5 = var(v5)
            v5 = int32(value_7(n5))  # line 73  v5 := 1-n5
            k1 = int32(0)  # line 74  for k1 in 0 .. ceil_div(A_shape1,64)
            while holds_6(A_shape1, k1):  # line 74  for k1 in 0 .. ceil_div(A_shape1,64)
                n6 = v2  # line 75  n6 = var(v2)
                n7 = v3  # line 75  n7 = var(v3)
                mbarrier_wait_1(n6, n7, smem)  # line 75  mbarrier_wait bar0[n6 + [0]] n7
                wgmma_fence_0()  # line 76  wgmma_fence
                fragment0 = wgmma_0(k1, n6, smem, fragment0)  # line 77  wgmma SM90_64x192x16_F32F16F16_SS fragmen ...
                wgmma_commit_0()  # line 78  wgmma_commit
                fragment0 = wgmma_wait_0(fragment0)  # line 79  wgmma_wait 1
                n8 = v2  # line 80  n8 = var(v2)
                n9 = v4  # line 80  n9 = var(v4)
                if holds_7(warp, n9, tid):  # line 80  if (tid%128 == 0 and 0 < n9) (thread)
                    mbarrier_arrive_1(n9, smem)  # line 80  mbarrier_arrive bar1[n9-1 + [0]]
                v4 = int32(value_8(n8))  # line 80  v4 := n8+1
                n10 = v2  # line 80  n10 = var(v2)
                n11 = v3  # line 80  n11 = var(v3)
                v3 = int32(value_9(n10, n11))  # line 80  v3 := (n11+(n10+1)//4)%2
                v2 = int32(value_10(n10))  # line 80  v2 := (n10+1)%4
                k1 = next_1(k1)  # line 74  for k1 in 0 .. ceil_div(A_shape1,64)
            if holds_8(warp, tid):  # line 81  if tid%32 == 0 (thread)
                mbarrier_arrive_2(warp, tid, smem)  # line 82  mbarrier_arrive bar2[1-(tid//128) + [0]]
            fragment0 = wgmma_wait_1(fragment0)  # line 83  wgmma_wait
            if holds_9(A_shape1):  # line 71  if ceil_div(A_shape1,64) <= 0
                fragment0 = fill_1(fragment0)  # line 71  fragment0[0:192] = 0.0
            n12 = v4  # line 84  n12 = var(v4)
            if holds_10(warp, n12, tid):  # line 84  if (tid%128 == 0 and 0 < n12) (thread)
                mbarrier_arrive_3(n12, smem)  # line 84  mbarrier_arrive bar1[n12-1 + [0]]
            v4 = int32(0)  # line 84  v4 := 0
            n13 = v2  # line 85  n13 = var(v2)
            n14 = v3  # line 85  n14 = var(v3)
            v3 = int32(value_11(A_shape1, n13, n14))  # line 85  v3 := (n14+(n13+ceil_div(A_shape1,64))//4)%2
            v2 = int32(value_12(A_shape1, n13))  # line 85  v2 := (n13+ceil_div(A_shape1,64))%4
            if holds_11(warp, tid):  # line 88  if tid%128 == 0 (thread)
                bulk_wait_0()  # line 88  bulk_wait True
            barrier_1(warp, tid)  # line 88  barrier named sync tid//128+1 128 (1, 2)
            r0 = to_f16_0(fragment0)  # line 92  r0[0:32] = to.f16(fragment0[0:32]) rn
            stmatrix_0(warp, tid, smem, r0)  # line 93  stmatrix s2[8192*(tid//128) + Sw<3,3,3>(64*tid+1008*(tid// ...
            r1 = to_f16_1(fragment0)  # line 92  r1[0:32] = to.f16(fragment0[32:64]) rn
            stmatrix_1(warp, tid, smem, r1)  # line 93  stmatrix s2[8192*(tid//128)+4096 + Sw<3,3,3>(64*tid+1008*( ...
            r2 = to_f16_2(fragment0)  # line 92  r2[0:32] = to.f16(fragment0[64:96]) rn
            stmatrix_2(warp, tid, smem, r2)  # line 93  stmatrix s2[8192*(tid//128)+8192 + Sw<3,3,3>(64*tid+1008*( ...
            fence_1()  # line 95  fence proxy_async
            barrier_1(warp, tid)  # line 95  barrier named sync tid//128+1 128 (1, 2)
            if holds_12(warp, tid):  # line 95  if tid%128 == 0 (thread)
                tma_store_0(warp, D_shape0, D_shape1, n2, n3, tid, D_map, smem)  # line 95  tma_store D (128*n2, 1 ...
                tma_store_1(warp, D_shape0, D_shape1, n2, n3, tid, D_map, smem)  # line 95  tma_store D (128*n2, 1 ...
                tma_store_2(warp, D_shape0, D_shape1, n2, n3, tid, D_map, smem)  # line 95  tma_store D (128*n2, 1 ...
                bulk_commit_0()  # line 95  bulk_commit
            if holds_13(warp, tid):  # line 88  if tid%128 == 0 (thread)
                bulk_wait_0()  # line 88  bulk_wait True
            barrier_1(warp, tid)  # line 88  barrier named sync tid//128+1 128 (1, 2)
            r3 = to_f16_3(fragment0)  # line 92  r3[0:32] = to.f16(fragment0[96:128]) rn
            stmatrix_3(warp, tid, smem, r3)  # line 93  stmatrix s2[8192*(tid//128) + Sw<3,3,3>(64*tid+1008*(tid// ...
            r4 = to_f16_4(fragment0)  # line 92  r4[0:32] = to.f16(fragment0[128:160]) rn
            stmatrix_4(warp, tid, smem, r4)  # line 93  stmatrix s2[8192*(tid//128)+4096 + Sw<3,3,3>(64*tid+1008*( ...
            r5 = to_f16_5(fragment0)  # line 92  r5[0:32] = to.f16(fragment0[160:192]) rn
            stmatrix_5(warp, tid, smem, r5)  # line 93  stmatrix s2[8192*(tid//128)+8192 + Sw<3,3,3>(64*tid+1008*( ...
            fence_1()  # line 95  fence proxy_async
            barrier_1(warp, tid)  # line 95  barrier named sync tid//128+1 128 (1, 2)
            if holds_14(warp, tid):  # line 95  if tid%128 == 0 (thread)
                tma_store_3(warp, D_shape0, D_shape1, n2, n3, tid, D_map, smem)  # line 95  tma_store D (128*n2+64 ...
                tma_store_4(warp, D_shape0, D_shape1, n2, n3, tid, D_map, smem)  # line 95  tma_store D (128*n2+64 ...
                tma_store_5(warp, D_shape0, D_shape1, n2, n3, tid, D_map, smem)  # line 95  tma_store D (128*n2+64 ...
                bulk_commit_0()  # line 95  bulk_commit
            k0 = next_0(k0)  # line 70  for k0 in 0 .. -((blocks*(tid//128)+bid_x-m2)//(2*blocks)) (warpgroup)
        if holds_15(warp, tid):  # line 96  if tid%128 == 0 (thread)
            bulk_wait_1()  # line 96  bulk_wait
    else:
        setmaxnreg_1()  # line 97  setmaxnreg 40 dec
        if holds_16(tid):  # line 97  if tid == 256 (thread)
            v11 = int64(value_13(A_shape0, B_shape0))  # line 98  v11 := ceil_div(A_shape0,128)*ceil_div(B_shape0,192)
            m3 = v11  # line 98  m3 = var(v11)
            pass  # line 98  promise m3 is the same in the block
            k2 = int64(0)  # line 98  for k2 in 0 .. -((bid_x-m3)//blocks)
            while holds_17(bid_x, blocks, k2, m3, multiplier2):  # line 98  for k2 in 0 .. -((bid_x-m3)//blocks)
                v12 = int64(value_14(bid_x, blocks, k2))  # line 98  v12 := blocks*k2+bid_x
                n15 = v12  # line 98  n15 = var(v12)
                pass  # line 98  promise n15 is the same in the block
                v13 = int32(value_15(A_shape0, B_shape0, multiplier1, n15))  # line 98  v13 := min(ceil_div(A_shap ...
                n16 = v13  # line 98  n16 = var(v13)
                pass  # line 98  promise n16 is the same in the block
                v14 = int32(value_16(B_shape0, multiplier1, n15, n16))  # line 98  v14 := 8*(n15//(8*ceil_div(B_sh ...
                n17 = v14  # line 98  n17 = var(v14)
                pass  # line 98  promise n17 is the same in the block
                v15 = int32(value_17(B_shape0, multiplier1, n15, n16))  # line 98  v15 := (n15%(8*ceil_div(B_shape ...
                n18 = v15  # line 98  n18 = var(v15)
                pass  # line 98  promise n18 is the same in the block
                k3 = int32(0)  # line 101  for k3 in 0 .. ceil_div(A_shape1,64)
                while holds_18(A_shape1, k3):  # line 101  for k3 in 0 .. ceil_div(A_shape1,64)
                    n19 = v0  # line 102  n19 = var(v0)
                    n20 = v1  # line 102  n20 = var(v1)
                    mbarrier_wait_2(n19, n20, smem)  # line 102  mbarrier_wait bar1[n19 + [0]] n20
                    mbarrier_arrive_4(n19, smem)  # line 102  mbarrier_arrive bar0[n19 + [0]] 40960
                    n21 = v0  # line 103  n21 = var(v0)
                    tma_load_0(k3, n17, n19, n21, A_map, smem)  # line 103  tma_load A (128*n17, 64*k3) s0[8192*n1 ...
                    n22 = v0  # line 104  n22 = var(v0)
                    tma_load_1(k3, n18, n19, n22, B_map, smem)  # line 104  tma_load B (192*n18, 64*k3) s1[12288*n ...
                    n23 = v0  # line 105  n23 = var(v0)
                    n24 = v1  # line 105  n24 = var(v1)
                    v1 = int32(value_18(n23, n24))  # line 105  v1 := (n24+(n23+1)//4)%2
                    v0 = int32(value_19(n23))  # line 105  v0 := (n23+1)%4
                    k3 = next_3(k3)  # line 101  for k3 in 0 .. ceil_div(A_shape1,64)
                k2 = next_2(k2)  # line 98  for k2 in 0 .. -((bid_x-m3)//blocks)
