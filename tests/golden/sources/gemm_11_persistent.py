"""gemm_persistent: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of gemm_11_persistent.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (blocks, 1, 1)
    block: (384, 1, 1)
    shared memory: 213040 bytes

Parameters:
    A: address of f16 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f16 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    D: address of f16 (D_shape0,D_shape1):(D_stride0,1), a multiple of 16 bytes
    blocks: s32
    multiplier0: divides by blocks
    multiplier1: divides by 8*ceil_div(B_shape0,256)
    D_map: tensor map of D, box (64, 64) of modes (1, 0)
    A_map: tensor map of A, box (64, 128) of modes (1, 0)
    B_map: tensor map of B, box (64, 256) of modes (1, 0)

Shared memory:
    s0: f16[24576] at byte 0
    s1: f16[49152] at byte 49152
    s2: f16[32768] at byte 147456
    bar0: u64[3] at byte 212992
    bar1: u64[3] at byte 213016

Registers:
    fragment0: f32[128] in 128 words
    r0: f16[128] in 64 words

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


def gemm_persistent(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    D, D_shape0, D_shape1, D_stride0,
    blocks,
    multiplier0,
    multiplier1,
    D_map,
    A_map,
    B_map,
):
    tid = thread_index()
    warp = warp_index(tid)
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(128)
    v0 = int32(0)
    v1 = int32(0)
    v10 = int64(0)
    v11 = int64(0)
    v12 = int32(0)
    v13 = int32(0)
    v14 = int32(0)
    v2 = int32(0)
    v3 = int32(0)
    v4 = int32(0)
    v5 = int64(0)
    v6 = int64(0)
    v7 = int32(0)
    v8 = int32(0)
    v9 = int32(0)
    if holds_0(tid):  # line 54  if tid < 1 (thread)
        mbarrier_init_0(smem)  # line 54  mbarrier_init bar0[0 + [0]] 1
        mbarrier_init_1(smem)  # line 54  mbarrier_init bar0[1 + [0]] 1
        mbarrier_init_2(smem)  # line 54  mbarrier_init bar0[2 + [0]] 1
        mbarrier_init_3(smem)  # line 54  mbarrier_init bar1[0 + [0]] 2
        mbarrier_init_4(smem)  # line 54  mbarrier_init bar1[1 + [0]] 2
        mbarrier_init_5(smem)  # line 54  mbarrier_init bar1[2 + [0]] 2
        fence_0()  # line 54  fence mbarrier_init
    barrier_0()  # line 54  barrier block sync
    v0 = int32(0)  # line 54  v0 := 0
    v1 = int32(1)  # line 54  v1 := 1
    v2 = int32(0)  # line 54  v2 := 0
    v3 = int32(0)  # line 54  v3 := 0
    v4 = int32(0)  # line 54  v4 := 0
    if holds_1(warp, tid):  # line 56  if tid//128 < 2 (warpgroup)
        setmaxnreg_0()  # line 56  setmaxnreg 232 inc
        v5 = int64(value_0(A_shape0, B_shape0))  # line 63  v5 := ceil_div(A_shape0,128)*ceil_div(B_shape0,256)
        m0 = v5  # line 63  m0 = var(v5)
        pass  # line 63  promise m0 is the same in the block
        k0 = int64(0)  # line 63  for k0 in 0 .. -((bid_x-m0)//blocks)
        while holds_2(bid_x, blocks, k0, m0, multiplier0):  # line 63  for k0 in 0 .. -((bid_x-m0)//blocks)
            v6 = int64(value_1(bid_x, blocks, k0))  # line 63  v6 := blocks*k0+bid_x
            n0 = v6  # line 63  n0 = var(v6)
            pass  # line 63  promise n0 is the same in the block
            v7 = int32(value_2(A_shape0, B_shape0, multiplier1, n0))  # line 63  v7 := min(ceil_div(A_shape0,128)- ...
            n1 = v7  # line 63  n1 = var(v7)
            pass  # line 63  promise n1 is the same in the block
            v8 = int32(value_3(B_shape0, multiplier1, n0, n1))  # line 63  v8 := 8*(n0//(8*ceil_div(B_shape0,256)) ...
            n2 = v8  # line 63  n2 = var(v8)
            pass  # line 63  promise n2 is the same in the block
            v9 = int32(value_4(B_shape0, multiplier1, n0, n1))  # line 63  v9 := (n0%(8*ceil_div(B_shape0,256)))//n1
            n3 = v9  # line 63  n3 = var(v9)
            pass  # line 63  promise n3 is the same in the block
            fragment0 = fill_0(fragment0)  # line 64  fragment0[0:128] = undefined
            k1 = int32(0)  # line 65  for k1 in 0 .. ceil_div(A_shape1,64)
            while holds_3(A_shape1, k1):  # line 65  for k1 in 0 .. ceil_div(A_shape1,64)
                n4 = v2  # line 66  n4 = var(v2)
                n5 = v3  # line 66  n5 = var(v3)
                mbarrier_wait_0(n4, n5, smem)  # line 66  mbarrier_wait bar0[n4 + [0]] n5
                wgmma_fence_0()  # line 67  wgmma_fence
                fragment0 = wgmma_0(warp, k1, n4, tid, smem, fragment0)  # line 68  wgmma SM90_64x256x16_F32F16F16 ...
                wgmma_commit_0()  # line 69  wgmma_commit
                fragment0 = wgmma_wait_0(fragment0)  # line 70  wgmma_wait 1
                n6 = v2  # line 71  n6 = var(v2)
                n7 = v4  # line 71  n7 = var(v4)
                if holds_4(warp, n7, tid):  # line 71  if (tid%128 == 0 and 0 < n7) (thread)
                    mbarrier_arrive_0(n7, smem)  # line 71  mbarrier_arrive bar1[n7-1 + [0]]
                v4 = int32(value_5(n6))  # line 71  v4 := n6+1
                n8 = v2  # line 71  n8 = var(v2)
                n9 = v3  # line 71  n9 = var(v3)
                v3 = int32(value_6(n8, n9))  # line 71  v3 := (n9+(n8+1)//3)%2
                v2 = int32(value_7(n8))  # line 71  v2 := (n8+1)%3
                k1 = next_1(k1)  # line 65  for k1 in 0 .. ceil_div(A_shape1,64)
            fragment0 = wgmma_wait_1(fragment0)  # line 72  wgmma_wait
            if holds_5(A_shape1):  # line 64  if ceil_div(A_shape1,64) <= 0
                fragment0 = fill_1(fragment0)  # line 64  fragment0[0:128] = 0.0
            n10 = v4  # line 73  n10 = var(v4)
            if holds_6(warp, n10, tid):  # line 73  if (tid%128 == 0 and 0 < n10) (thread)
                mbarrier_arrive_1(n10, smem)  # line 73  mbarrier_arrive bar1[n10-1 + [0]]
            v4 = int32(0)  # line 73  v4 := 0
            if holds_7(warp, tid):  # line 76  if tid%128 == 0 (thread)
                bulk_wait_0()  # line 76  bulk_wait True
            barrier_1(warp, tid)  # line 76  barrier named sync tid//128+1 128 (1, 2)
            r0 = to_f16_0(fragment0)  # line 77  r0[0:128] = to.f16(fragment0[0:128]) rn
            stmatrix_0(warp, tid, smem, r0)  # line 77  stmatrix s2[0 + Sw<3,3,3>(64*tid+1008*(tid//32)-1016*(tid/ ...
            fence_1()  # line 81  fence proxy_async
            barrier_1(warp, tid)  # line 81  barrier named sync tid//128+1 128 (1, 2)
            if holds_8(warp, tid):  # line 81  if tid%128 == 0 (thread)
                tma_store_0(warp, D_shape0, D_shape1, n2, n3, tid, D_map, smem)  # line 81  tma_store D (128*n2+64 ...
                tma_store_1(warp, D_shape0, D_shape1, n2, n3, tid, D_map, smem)  # line 81  tma_store D (128*n2+64 ...
                tma_store_2(warp, D_shape0, D_shape1, n2, n3, tid, D_map, smem)  # line 81  tma_store D (128*n2+64 ...
                tma_store_3(warp, D_shape0, D_shape1, n2, n3, tid, D_map, smem)  # line 81  tma_store D (128*n2+64 ...
                bulk_commit_0()  # line 81  bulk_commit
            k0 = next_0(k0)  # line 63  for k0 in 0 .. -((bid_x-m0)//blocks)
        if holds_9(warp, tid):  # line 82  if tid%128 == 0 (thread)
            bulk_wait_1()  # line 82  bulk_wait
    else:
        setmaxnreg_1()  # line 83  setmaxnreg 40 dec
        if holds_10(tid):  # line 83  if tid == 256 (thread)
            v10 = int64(value_8(A_shape0, B_shape0))  # line 84  v10 := ceil_div(A_shape0,128)*ceil_div(B_shape0,256)
            m1 = v10  # line 84  m1 = var(v10)
            pass  # line 84  promise m1 is the same in the block
            k2 = int64(0)  # line 84  for k2 in 0 .. -((bid_x-m1)//blocks)
            while holds_11(bid_x, blocks, k2, m1, multiplier0):  # line 84  for k2 in 0 .. -((bid_x-m1)//blocks)
                v11 = int64(value_9(bid_x, blocks, k2))  # line 84  v11 := blocks*k2+bid_x
                n11 = v11  # line 84  n11 = var(v11)
                pass  # line 84  promise n11 is the same in the block
                v12 = int32(value_10(A_shape0, B_shape0, multiplier1, n11))  # line 84  v12 := min(ceil_div(A_shap ...
                n12 = v12  # line 84  n12 = var(v12)
                pass  # line 84  promise n12 is the same in the block
                v13 = int32(value_11(B_shape0, multiplier1, n11, n12))  # line 84  v13 := 8*(n11//(8*ceil_div(B_sh ...
                n13 = v13  # line 84  n13 = var(v13)
                pass  # line 84  promise n13 is the same in the block
                v14 = int32(value_12(B_shape0, multiplier1, n11, n12))  # line 84  v14 := (n11%(8*ceil_div(B_shape ...
                n14 = v14  # line 84  n14 = var(v14)
                pass  # line 84  promise n14 is the same in the block
                k3 = int32(0)  # line 87  for k3 in 0 .. ceil_div(A_shape1,64)
                while holds_12(A_shape1, k3):  # line 87  for k3 in 0 .. ceil_div(A_shape1,64)
                    n15 = v0  # line 88  n15 = var(v0)
                    n16 = v1  # line 88  n16 = var(v1)
                    mbarrier_wait_1(n15, n16, smem)  # line 88  mbarrier_wait bar1[n15 + [0]] n16
                    mbarrier_arrive_2(n15, smem)  # line 88  mbarrier_arrive bar0[n15 + [0]] 49152
                    n17 = v0  # line 89  n17 = var(v0)
                    tma_load_0(k3, n13, n15, n17, A_map, smem)  # line 89  tma_load A (128*n13, 64*k3) s0[8192*n15 ...
                    n18 = v0  # line 90  n18 = var(v0)
                    tma_load_1(k3, n14, n15, n18, B_map, smem)  # line 90  tma_load B (256*n14, 64*k3) s1[16384*n1 ...
                    n19 = v0  # line 91  n19 = var(v0)
                    n20 = v1  # line 91  n20 = var(v1)
                    v1 = int32(value_13(n19, n20))  # line 91  v1 := (n20+(n19+1)//3)%2
                    v0 = int32(value_14(n19))  # line 91  v0 := (n19+1)%3
                    k3 = next_3(k3)  # line 87  for k3 in 0 .. ceil_div(A_shape1,64)
                k2 = next_2(k2)  # line 84  for k2 in 0 .. -((bid_x-m1)//blocks)
