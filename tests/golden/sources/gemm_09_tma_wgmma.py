"""gemm_tma: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of gemm_09_tma_wgmma.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (ceil_div(A_shape0,128), ceil_div(B_shape0,128), 1)
    block: (160, 1, 1)
    shared memory: 98352 bytes

Parameters:
    A: address of f16 (A_shape0,A_shape1):(A_stride0,1), a multiple of 16 bytes
    B: address of f16 (B_shape0,B_shape1):(B_stride0,1), a multiple of 16 bytes
    C: address of f32 (C_shape0,C_shape1):(C_stride0,1), a multiple of 16 bytes
    A_map: tensor map of A, box (64, 128) of modes (1, 0)
    B_map: tensor map of B, box (64, 128) of modes (1, 0)

Shared memory:
    s0: f16[24576] at byte 0
    s1: f16[24576] at byte 49152
    bar0: u64[3] at byte 98304
    bar1: u64[3] at byte 98328

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
"""


def gemm_tma(
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
    if holds_0(tid):  # line 39  if tid < 1 (thread)
        mbarrier_init_0(smem)  # line 39  mbarrier_init bar0[0 + [0]] 1
        mbarrier_init_1(smem)  # line 39  mbarrier_init bar0[1 + [0]] 1
        mbarrier_init_2(smem)  # line 39  mbarrier_init bar0[2 + [0]] 1
        mbarrier_init_3(smem)  # line 39  mbarrier_init bar1[0 + [0]] 1
        mbarrier_init_4(smem)  # line 39  mbarrier_init bar1[1 + [0]] 1
        mbarrier_init_5(smem)  # line 39  mbarrier_init bar1[2 + [0]] 1
        fence_0()  # line 39  fence mbarrier_init
    barrier_0()  # line 39  barrier block sync
    v0 = int32(0)  # line 39  v0 := 0
    v1 = int32(1)  # line 39  v1 := 1
    v2 = int32(0)  # line 39  v2 := 0
    v3 = int32(0)  # line 39  v3 := 0
    v4 = int32(0)  # line 39  v4 := 0
    if holds_1(warp, tid):  # line 42  if tid//32 == 4 (warp)
        if holds_2(warp, tid):  # line 42  if tid%32 == 0 (thread)
            k0 = int32(0)  # line 43  for k0 in 0 .. ceil_div(A_shape1,64)
            while holds_3(A_shape1, k0):  # line 43  for k0 in 0 .. ceil_div(A_shape1,64)
                n0 = v0  # line 44  n0 = var(v0)
                n1 = v1  # line 44  n1 = var(v1)
                mbarrier_wait_0(n0, n1, smem)  # line 44  mbarrier_wait bar1[n0 + [0]] n1
                mbarrier_arrive_0(n0, smem)  # line 44  mbarrier_arrive bar0[n0 + [0]] 32768
                n2 = v0  # line 45  n2 = var(v0)
                tma_load_0(bid_x, k0, n0, n2, A_map, smem)  # line 45  tma_load A (128*bid_x, 64*k0) s0[8192*n0 + ...
                n3 = v0  # line 46  n3 = var(v0)
                tma_load_1(bid_y, k0, n0, n3, B_map, smem)  # line 46  tma_load B (128*bid_y, 64*k0) s1[8192*n0 + ...
                n4 = v0  # line 47  n4 = var(v0)
                n5 = v1  # line 47  n5 = var(v1)
                v1 = int32(value_0(n4, n5))  # line 47  v1 := (n5+(n4+1)//3)%2
                v0 = int32(value_1(n4))  # line 47  v0 := (n4+1)%3
                k0 = next_0(k0)  # line 43  for k0 in 0 .. ceil_div(A_shape1,64)
    else:
        if holds_4(A_shape1):  # line 53  if ceil_div(A_shape1,64) <= 0
            fragment0 = fill_0(fragment0)  # line 53  fragment0[0:128] = 0.0
        else:
            fragment0 = fill_1(fragment0)  # line 53  fragment0[0:128] = undefined
        k1 = int32(0)  # line 54  for k1 in 0 .. ceil_div(A_shape1,64)
        while holds_5(A_shape1, k1):  # line 54  for k1 in 0 .. ceil_div(A_shape1,64)
            n6 = v2  # line 55  n6 = var(v2)
            n7 = v3  # line 55  n7 = var(v3)
            mbarrier_wait_1(n6, n7, smem)  # line 55  mbarrier_wait bar0[n6 + [0]] n7
            wgmma_fence_0()  # line 56  wgmma_fence
            fragment0 = wgmma_0(k1, n6, smem, fragment0)  # line 57  wgmma SM90_64x128x16_F32F16F16_SS fragment0[0 ...
            wgmma_commit_0()  # line 58  wgmma_commit
            fragment0 = wgmma_wait_0(fragment0)  # line 59  wgmma_wait
            n8 = v2  # line 60  n8 = var(v2)
            if holds_6(warp, tid):  # line 60  if tid%128 == 0 (thread)
                mbarrier_arrive_1(n8, smem)  # line 60  mbarrier_arrive bar1[n8 + [0]]
            n9 = v2  # line 60  n9 = var(v2)
            n10 = v3  # line 60  n10 = var(v3)
            v3 = int32(value_2(n10, n9))  # line 60  v3 := (n10+(n9+1)//3)%2
            v2 = int32(value_3(n9))  # line 60  v2 := (n9+1)%3
            k1 = next_1(k1)  # line 54  for k1 in 0 .. ceil_div(A_shape1,64)
        r0 = map_copy_0(fragment0)  # line 61  r0[0:128] = copy.f32(fragment0[0:128])
        store_0(warp, C_shape0, C_shape1, C_stride0, bid_x, bid_y, tid, C, r0)  # line 61  store C[128*C_stride0*b ...
