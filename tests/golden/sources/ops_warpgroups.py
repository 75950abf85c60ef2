"""persistent: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of hopper_kernels.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (132, 1, 1)
    block: (384, 1, 1)
    shared memory: 90160 bytes

Parameters:
    A: address of f16 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f16 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    D: address of f16 (D_shape0,D_shape1):(D_stride0,1), a multiple of 16 bytes
    multiplier0: divides by ceil_div(A_shape0,128)
    A_map: tensor map of A, box (64, 128) of modes (1, 0)
    B_map: tensor map of B, box (64, 64) of modes (1, 0)
    D_map: tensor map of D, box (64, 64) of modes (1, 0)

Shared memory:
    s0: f16[24576] at byte 0
    s1: f16[12288] at byte 49152
    s2: f16[8192] at byte 73728
    bar0: u64[3] at byte 90112
    bar1: u64[3] at byte 90136

Registers:
    fragment0: f32[32] in 32 words
    r0: f16[32] in 16 words

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


def persistent(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    D, D_shape0, D_shape1, D_stride0,
    multiplier0,
    A_map,
    B_map,
    D_map,
):
    tid = thread_index()
    warp = warp_index(tid)
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    fragment0 = undefined(32)
    v0 = int32(0)
    v1 = int32(0)
    v2 = int32(0)
    v3 = int32(0)
    v4 = int32(0)
    if holds_0(tid):  # line 164  if tid < 1 (thread)
        mbarrier_init_0(smem)  # line 164  mbarrier_init bar0[0 + [0]] 1
        mbarrier_init_1(smem)  # line 164  mbarrier_init bar0[1 + [0]] 1
        mbarrier_init_2(smem)  # line 164  mbarrier_init bar0[2 + [0]] 1
        mbarrier_init_3(smem)  # line 164  mbarrier_init bar1[0 + [0]] 256
        mbarrier_init_4(smem)  # line 164  mbarrier_init bar1[1 + [0]] 256
        mbarrier_init_5(smem)  # line 164  mbarrier_init bar1[2 + [0]] 256
        fence_0()  # line 164  fence mbarrier_init
    barrier_0()  # line 164  barrier block sync
    v0 = int32(0)  # line 164  v0 := 0
    v1 = int32(1)  # line 164  v1 := 1
    v2 = int32(0)  # line 164  v2 := 0
    v3 = int32(0)  # line 164  v3 := 0
    v4 = int32(0)  # line 164  v4 := 0
    if holds_1(warp, tid):  # line 165  if tid//128 == 2 (warpgroup)
        setmaxnreg_0()  # line 166  setmaxnreg 40 dec
        if holds_2(tid):  # line 167  if tid == 256 (thread)
            for k0 in range(int32(value_0(bid_x)), int32(value_1(A_shape0, B_shape0)), int32(132)):  # line 168
                k1 = int32(0)  # line 171  for k1 in 0 .. ceil_div(A_shape1,64)
                while holds_3(A_shape1, k1):  # line 171  for k1 in 0 .. ceil_div(A_shape1,64)
                    n0 = v0  # line 172  n0 = var(v0)
                    n1 = v1  # line 172  n1 = var(v1)
                    mbarrier_wait_0(n0, n1, smem)  # line 172  mbarrier_wait bar1[n0 + [0]] n1
                    mbarrier_arrive_0(n0, smem)  # line 172  mbarrier_arrive bar0[n0 + [0]] 24576
                    n2 = v0  # line 173  n2 = var(v0)
                    tma_load_0(A_shape0, k0, k1, multiplier0, n0, n2, A_map, smem)  # line 173  tma_load A (128*(k ...
                    n3 = v0  # line 174  n3 = var(v0)
                    tma_load_1(A_shape0, k0, k1, multiplier0, n0, n3, B_map, smem)  # line 174  tma_load B (64*(k0 ...
                    n4 = v0  # line 175  n4 = var(v0)
                    n5 = v1  # line 175  n5 = var(v1)
                    v1 = int32(value_2(n4, n5))  # line 175  v1 := (n5+(n4+1)//3)%2
                    v0 = int32(value_3(n4))  # line 175  v0 := (n4+1)%3
                    k1 = next_0(k1)  # line 171  for k1 in 0 .. ceil_div(A_shape1,64)
    else:
        setmaxnreg_1()  # line 177  setmaxnreg 232 inc
        for k2 in range(int32(value_4(bid_x)), int32(value_5(A_shape0, B_shape0)), int32(132)):  # line 185
            if holds_4(A_shape1):  # line 186  if ceil_div(A_shape1,64) <= 0
                fragment0 = fill_0(fragment0)  # line 186  fragment0[0:32] = 0.0
            else:
                fragment0 = fill_1(fragment0)  # line 186  fragment0[0:32] = undefined
            k3 = int32(0)  # line 187  for k3 in 0 .. ceil_div(A_shape1,64)
            while holds_5(A_shape1, k3):  # line 187  for k3 in 0 .. ceil_div(A_shape1,64)
                n6 = v2  # line 188  n6 = var(v2)
                n7 = v3  # line 188  n7 = var(v3)
                mbarrier_wait_1(n6, n7, smem)  # line 188  mbarrier_wait bar0[n6 + [0]] n7
                wgmma_fence_0()  # line 189  wgmma_fence
                fragment0 = wgmma_0(warp, k3, n6, tid, smem, fragment0)  # line 190  wgmma SM90_64x64x16_F32F16F16 ...
                wgmma_commit_0()  # line 191  wgmma_commit
                fragment0 = wgmma_wait_0(fragment0)  # line 192  wgmma_wait
                n8 = v2  # line 193  n8 = var(v2)
                mbarrier_arrive_1(n8, smem)  # line 193  mbarrier_arrive bar1[n8 + [0]]
                n9 = v2  # line 193  n9 = var(v2)
                n10 = v3  # line 193  n10 = var(v3)
                v3 = int32(value_6(n10, n9))  # line 193  v3 := (n10+(n9+1)//3)%2
                v2 = int32(value_7(n9))  # line 193  v2 := (n9+1)%3
                k3 = next_1(k3)  # line 187  for k3 in 0 .. ceil_div(A_shape1,64)
            if holds_6(warp, tid):  # line 194  if tid%128 == 0 (thread)
                bulk_wait_0()  # line 195  bulk_wait True
            barrier_1()  # line 196  barrier named sync 1 256
            r0 = to_f16_0(fragment0)  # line 197  r0[0:32] = to.f16(fragment0[0:32]) rn
            stmatrix_0(warp, tid, smem, r0)  # line 197  stmatrix s2[-8192*(tid//256) + Sw<3,3,3>(64*tid+1008*(tid ...
            fence_1()  # line 198  fence proxy_async
            barrier_1()  # line 199  barrier named sync 1 256
            if holds_7(warp, tid):  # line 200  if tid%128 == 0 (thread)
                tma_store_0(warp, A_shape0, D_shape0, D_shape1, k2, multiplier0, tid, D_map, smem)  # line 204
                bulk_commit_0()  # line 205  bulk_commit
        if holds_8(warp, tid):  # line 206  if tid%128 == 0 (thread)
            bulk_wait_1()  # line 207  bulk_wait
