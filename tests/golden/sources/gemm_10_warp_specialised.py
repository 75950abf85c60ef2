"""gemm_warp_specialised: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of gemm_10_warp_specialised.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,128), ceil_div(B_shape0,256), 1)
    block: (384, 1, 1)
    shared memory: 196672 bytes

Parameters:
    A: address of f16 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f16 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    C: address of f32 (C_shape0,C_shape1):(C_stride0,1), a multiple of 16 bytes
    A_map: tensor map of A, box (64, 128) of modes (1, 0)
    B_map: tensor map of B, box (64, 256) of modes (1, 0)

Shared memory:
    s0: f16[32768] at byte 0
    s1: f16[65536] at byte 65536
    bar0: u64[4] at byte 196608
    bar1: u64[4] at byte 196640

Registers:
    fragment0, r0: f32[128] in 128 words

Calls:
    holds_*: whether a condition is true
    value_*: an integer expression
    next_*: the counter of the next iteration
    fill_*: all elements become a number
    map_*: element by element
    store_*: st.global or st.shared, one for each vector
    tma_load_*: cp.async.bulk.tensor: a box of a tensor to shared memory
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


def gemm_warp_specialised(
    A, A_shape0, A_shape1, A_stride0,
    B, B_shape0, B_shape1, B_stride0,
    C, C_shape0, C_shape1, C_stride0,
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
    v2 = int32(0)
    v3 = int32(0)
    v4 = int32(0)
    if holds_0(tid):  # line 41  if tid < 1 (thread)
        mbarrier_init_0(smem)  # line 41  mbarrier_init bar0[0 + [0]] 1
        mbarrier_init_1(smem)  # line 41  mbarrier_init bar0[1 + [0]] 1
        mbarrier_init_2(smem)  # line 41  mbarrier_init bar0[2 + [0]] 1
        mbarrier_init_3(smem)  # line 41  mbarrier_init bar0[3 + [0]] 1
        mbarrier_init_4(smem)  # line 41  mbarrier_init bar1[0 + [0]] 2
        mbarrier_init_5(smem)  # line 41  mbarrier_init bar1[1 + [0]] 2
        mbarrier_init_6(smem)  # line 41  mbarrier_init bar1[2 + [0]] 2
        mbarrier_init_7(smem)  # line 41  mbarrier_init bar1[3 + [0]] 2
        fence_0()  # line 41  fence mbarrier_init
    barrier_0()  # line 41  barrier block sync
    v0 = int32(0)  # line 41  v0 := 0
    v1 = int32(1)  # line 41  v1 := 1
    v2 = int32(0)  # line 41  v2 := 0
    v3 = int32(0)  # line 41  v3 := 0
    v4 = int32(0)  # line 41  v4 := 0
    if holds_1(warp, tid):  # line 43  if tid//128 < 2 (warpgroup)
        setmaxnreg_0()  # line 43  setmaxnreg 232 inc
        fragment0 = fill_0(fragment0)  # line 48  fragment0[0:128] = undefined
        k0 = int32(0)  # line 49  for k0 in 0 .. ceil_div(A_shape1,64)
        while holds_2(A_shape1, k0):  # line 49  for k0 in 0 .. ceil_div(A_shape1,64)
            n0 = v2  # line 50  n0 = var(v2)
            n1 = v3  # line 50  n1 = var(v3)
            mbarrier_wait_0(n0, n1, smem)  # line 50  mbarrier_wait bar0[n0 + [0]] n1
            wgmma_fence_0()  # line 51  wgmma_fence
            fragment0 = wgmma_0(warp, k0, n0, tid, smem, fragment0)  # line 52  wgmma SM90_64x256x16_F32F16F16_SS ...
            wgmma_commit_0()  # line 53  wgmma_commit
            fragment0 = wgmma_wait_0(fragment0)  # line 54  wgmma_wait 1
            n2 = v2  # line 55  n2 = var(v2)
            n3 = v4  # line 55  n3 = var(v4)
            if holds_3(warp, n3, tid):  # line 55  if (tid%128 == 0 and 0 < n3) (thread)
                mbarrier_arrive_0(n3, smem)  # line 55  mbarrier_arrive bar1[n3-1 + [0]]
            v4 = int32(value_0(n2))  # line 55  v4 := n2+1
            n4 = v2  # line 55  n4 = var(v2)
            n5 = v3  # line 55  n5 = var(v3)
            v3 = int32(value_1(n4, n5))  # line 55  v3 := (n5+(n4+1)//4)%2
            v2 = int32(value_2(n4))  # line 55  v2 := (n4+1)%4
            k0 = next_0(k0)  # line 49  for k0 in 0 .. ceil_div(A_shape1,64)
        fragment0 = wgmma_wait_1(fragment0)  # line 56  wgmma_wait
        if holds_4(A_shape1):  # line 48  if ceil_div(A_shape1,64) <= 0
            fragment0 = fill_1(fragment0)  # line 48  fragment0[0:128] = 0.0
        r0 = map_copy_0(fragment0)  # line 57  r0[0:128] = copy.f32(fragment0[0:128])
        store_0(warp, C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, r0)  # line 57  store C[128*C_stride0*b ...
    else:
        setmaxnreg_1()  # line 58  setmaxnreg 40 dec
        if holds_5(tid):  # line 58  if tid == 256 (thread)
            k1 = int32(0)  # line 59  for k1 in 0 .. ceil_div(A_shape1,64)
            while holds_6(A_shape1, k1):  # line 59  for k1 in 0 .. ceil_div(A_shape1,64)
                n6 = v0  # line 60  n6 = var(v0)
                n7 = v1  # line 60  n7 = var(v1)
                mbarrier_wait_1(n6, n7, smem)  # line 60  mbarrier_wait bar1[n6 + [0]] n7
                mbarrier_arrive_1(n6, smem)  # line 60  mbarrier_arrive bar0[n6 + [0]] 49152
                n8 = v0  # line 61  n8 = var(v0)
                tma_load_0(bid_x, k1, n6, n8, A_map, smem)  # line 61  tma_load A (128*bid_x, 64*k1) s0[8192*n6 + ...
                n9 = v0  # line 62  n9 = var(v0)
                tma_load_1(bid_y, k1, n6, n9, B_map, smem)  # line 62  tma_load B (256*bid_y, 64*k1) s1[16384*n6 + ...
                n10 = v0  # line 63  n10 = var(v0)
                n11 = v1  # line 63  n11 = var(v1)
                v1 = int32(value_3(n10, n11))  # line 63  v1 := (n11+(n10+1)//4)%2
                v0 = int32(value_4(n10))  # line 63  v0 := (n10+1)%4
                k1 = next_1(k1)  # line 59  for k1 in 0 .. ceil_div(A_shape1,64)
