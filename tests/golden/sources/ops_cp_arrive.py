"""cp_arrive: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of kernel.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (1, 1, 1)
    block: (32, 1, 1)
    shared memory: 256 bytes

Parameters:
    x: address of f32 (x_shape0):(x_stride0), a multiple of 16 bytes

Shared memory:
    bar: u64[1] at byte 0
    S: f32[32] at byte 128

Calls:
    cp_async_*: global to shared memory, one instruction for each vector
    mbarrier_inval_*: mbarrier.inval
    cp_async_arrive_*: cp.async.mbarrier.arrive.noinc
"""


def cp_arrive(x, x_shape0, x_stride0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    cp_async_0(tid, x, smem)  # line 1  cp_async S[tid + [0]] = x[tid + [0]]
    cp_async_arrive_0(smem)  # line 2  cp_async_arrive bar[0 + [0]]
    mbarrier_inval_0(smem)  # line 3  mbarrier_inval bar[0 + [0]]
