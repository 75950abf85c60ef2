"""Refusals of the emulator. Those that take more than a few lines are made by tests/emulated."""

import numpy as np

import cute_py as cute
from tests.kernel_refusals import traced

FIRST = "block (0, 0, 0), warp 0, lane 0 (thread 0)"


class OfGpu:
    """An array of 64 integers on a GPU that is none."""

    __cuda_array_interface__ = {"shape": (64,), "typestr": "<i4", "data": (0, False), "version": 3}  # noqa: RUF012


READ_ONLY = np.zeros(64, np.int32)
READ_ONLY.flags.writeable = False


def emulated(body, x=None, **options):
    """Run a kernel with this body on the emulator, for an array of 64 integers."""

    def kernel(x):
        cute.launch(grid=1, block=64)
        body(x, cute.thread_idx())

    given = np.arange(64, dtype=np.int32)
    cute.emulate(cute.trace(cute.kernel(kernel), given), given if x is None else x, **options)


def doubled(x, t):
    x[t] = 2 * x[t]


def doubled_by_all(x):
    cute.launch(grid=1, block=64)
    doubled(x, cute.thread_idx())


def grid(x):
    cute.launch(grid=x.shape[0] - 100, block=32)


def first_waits(x):
    cute.launch(grid=2, block=1)
    wait_for_second(x)


def first_waits_resident(x):
    cute.launch(grid=2, block=1, resident=True)
    wait_for_second(x)


def late_wait(x):
    cute.launch(grid=1, block=64, pdl=True)
    with cute.when(cute.thread_idx() < 32):
        cute.named_barrier(1, 64)
        cute.griddepcontrol_wait()
    with cute.otherwise():
        cute.named_barrier(1, 64)
        x[cute.thread_idx()] = 1


def early_wait(x):
    cute.launch(grid=1, block=64, pdl=True)
    with cute.when(cute.thread_idx() < 32):
        cute.griddepcontrol_wait()
        cute.named_barrier(1, 64)
    with cute.otherwise():
        cute.named_barrier(1, 64)
        x[cute.thread_idx()] = 1


def wait_for_second(x):
    flag = cute.local_tile(x, (1,), (0,))
    with cute.when(cute.block_idx() == 0):
        cute.wait_until(flag, "eq", 1)
    with cute.otherwise():
        cute.store_release(flag, 1)


def emulate_bounds(x, t):
    """a thread accesses memory outside an array or of a shared storage"""
    # right: x[t] = 1
    x[2 * t] = 1  # wrong


def emulate_fit(x, t):
    """an integer becomes an element of a type that does not hold it"""
    n = cute.as_int(x[t])
    # right: x[t] = (n << 28).to("s32", wrap=True)
    x[t] = n << 28  # wrong


def emulate_unsigned(x, t):
    """an element of u64 is too large for the signed integers of a kernel"""
    held = cute.rmem("u64", 1)
    # right: held.fill(2**63 - 1)
    held.fill(2**63)  # wrong
    x[t] = cute.as_int(held[0]) // 2**62  # here


def emulate_race(x, t):
    """two threads access shared memory, one of them writes, and nothing orders the two"""
    s = cute.smem("s32", 64)
    s[t] = x[t]
    # right: cute.syncthreads()
    x[t] = s[63 - t]  # wrong
    # right: x[t] = s[63 - t]


def emulate_smem_unwritten(x, t):
    """shared memory is read before anything wrote it"""
    s = cute.smem("s32", 64)
    # right: s[t] = 1
    x[t] = s[t]  # wrong
    # right: x[t] = s[t]


def emulate_lanes(x, t):
    """lanes of one warp write different values to one address in one instruction"""
    s = cute.smem("s32", 64)
    # right: s[t] = x[t]
    s[t // 2] = x[t]  # wrong


def emulate_pointer_alignment(x, t):
    """a pointer is not a multiple of the alignment that it promises"""
    # right: cute.make_ptr("f32", 4 * x.shape[0], align=16)
    cute.make_ptr("f32", 4 * x.shape[0] + 4, align=16)  # wrong


def emulate_promise(x, t):
    """an integer is not within the bounds that `as_int` or `var` was told"""
    # right: x[cute.as_int(x[t], 0, 63)] = 1
    x[cute.as_int(x[t], 0, 3)] = 1  # wrong


def emulate_table(x, t):
    """a run-time index is outside a table of `cute.make_table`"""
    # right: x[t] = cute.make_table([1, 2])[cute.as_int(x[t]) % 2].to("s32")
    x[t] = cute.make_table([1, 2])[cute.as_int(x[t])].to("s32")  # wrong


def emulate_assume(x, t):
    """a condition that `cute.assume` promises is false"""
    # right: cute.assume(cute.as_int(x[t]) < 64)
    cute.assume(cute.as_int(x[t]) < 31)  # wrong


def emulate_uniform(x, t):
    """threads that promise to have the same integer have different ones"""
    # right: held = x[0]
    # right: cute.syncthreads()
    # right: x[t] = cute.as_int(held, uniform="block").to("s32")
    x[t] = cute.as_int(x[t], uniform="block").to("s32")  # wrong


def emulate_assert(x, t):
    """`cute.assert_` fails"""
    # right: cute.assert_(t < 64, "x is too small")
    cute.assert_(t < 31, "x is too small")  # wrong  # noqa: PT009


def emulate_shuffle(x, t):
    """a shuffle reads from a lane that does not take part"""
    # right: x[t] = cute.shuffle(x[t], 20)
    with cute.when(t % 32 < 16):  # wrong
        x[t] = cute.shuffle(x[t], 20)  # wrong


def emulate_copy_pending(x, t):
    """data of cp.async is used before the wait and the barrier that make it visible"""
    s = cute.smem("s32", 64)
    copy = cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<32>", "s32")
    cute.copy(copy, cute.local_tile(x, (1,), (t,)), cute.local_tile(s, (1,), (t,)))
    # right: cute.cp_async_fence()
    # right: cute.cp_async_wait(0)
    x[t] = s[t]  # wrong
    # right: x[t] = s[t]


def emulate_deadlock(x, t):
    """all threads that are left wait"""
    # right: cute.wait_until(cute.local_tile(x, (1,), (1,)), "eq", 1)
    cute.wait_until(cute.local_tile(x, (1,), (0,)), "eq", 1)  # wrong


def emulate_inline_result(x, t):
    """the emulation of `cute.inline_ptx` returns another type or shape"""
    # right: x[t] = cute.inline_ptx("neg.s32 %0, %1;", "s32", x[t], emulate=lambda x: -x)
    x[t] = cute.inline_ptx("neg.s32 %0, %1;", "s32", x[t], emulate=lambda x: -1.0 * x)  # wrong


def emulate_large(x, t):
    """the emulator would take too long, or too much memory for blocks that wait for each other"""
    # right: for _k in cute.range(4):
    for _k in cute.range(1 << 30):  # wrong
        x[t] = 1


run = emulated
ROWS = """
emulate-arguments: a plan is given too few or too many arguments
    - cute.emulate(traced(lambda x: None))
    + cute.emulate(traced(lambda: None))
plan-launch:
    - cute.emulate(traced(grid), READ_ONLY)  # emulate(grid): given -36 blocks of the grid along x
    + cute.emulate(traced(grid), np.zeros(164, np.int32))
emulate-not-resident: a block waits for one that may not have begun, and the launch does not say
        that all run at once
    - cute.emulate(traced(first_waits), np.zeros(64, np.int32))
    + cute.emulate(traced(first_waits_resident), np.zeros(64, np.int32))
emulate-pdl: a thread uses global memory with pdl=True, and has not learnt of a wait for the
        preceding kernels
    - cute.emulate(traced(late_wait), np.zeros(64, np.int32))
    + cute.emulate(traced(early_wait), np.zeros(64, np.int32))
emulate-checks: a check of the emulator is unknown
    * emulate name="races", known="shared, global", hint="leave it out for all checks"
emulate-resident: a number of blocks that run at once is no positive integer
    * emulate resident="0"
emulate-report: a report of the emulator is unknown
    * emulate report="times"
emulate-plan: something other than a plan or a kernel is emulated
    - cute.emulate(np.add, READ_ONLY)
    + emulated(doubled)
emulate-op: the plan holds an op that the emulator has no rule for
    * kernel name="Teleport"
emulate-inline: a saved plan with `cute.inline_ptx` is emulated
    * kernel name="add_sat"
emulate-split-byte: a plan accesses packed elements that share a byte with others
    * kernel dtype="s4", offset="1", storage="Y", width="2", who=FIRST
emulate-pointer: a thread accesses memory through a pointer into none of the arrays
    * kernel storage="ptr0", address="0x7f0000001000", nearest="x, from 0x7f0000000000 to
        0x7f0000000400", who=FIRST
emulate-mode: a coordinate is outside its mode, and leads to the element of another one
    * kernel entry="16", mode="mode 1", who="block (0, 0, 0), warp 0, lane 16 (thread 16)",
        offset="16", space="gmem", storage="x", extent="16"
emulate-padding: a thread accesses the padding between the rows of a strided view
    * kernel offset="4", storage="A", shape="(8, 4)", strides="(6, 1)", who="block (0, 0, 0), warp
        0, lane 4 (thread 4)"
emulate-alignment: a vector access, a row of ldmatrix or an mbarrier is not aligned
    * kernel bytes="16", offset="12", storage="S", remainder="8", who="block (0, 0, 0), warp 0, lane
        1 (thread 1)"
emulate-register-unwritten: a register is read before it is written
    * kernel element="a[8]", who=FIRST
emulate-global-race: two threads access an element of global memory, one of them writes, and nothing
        orders the two
    * kernel access="a write", offset="0", coordinate="", storage="out", who=FIRST, other="write of
        other bits by block (0, 0, 0), warp 1, lane 0 (thread 32)", other_line="kernel.py:6",
        fix="put cute.syncthreads() between the two"
emulate-async-pending: shared memory is used while TMA or wgmma still works on it
    * ring access="read", offset="0", storage="S", who="block (0, 0, 0), warp 1, lane 0 (thread
        32)", engine="a TMA load that completes on mbarrier full[0]", since="kernel.py:6", fix="wait
        for mbarrier full[0] first, with its phase"
emulate-proxy-fence: TMA or wgmma reads what threads stored, without a proxy fence between
    * tma_store access="read", offset="0", storage="S", op_name="cute.tma_store", who=FIRST,
        other="warp 0 (kernel.py:2)"
emulate-proxy-global: TMA accesses global memory that threads of the same kernel stored
    * kernel access="a read", offset="0", coordinate="", storage="A", op_name="cute.tma_load",
        who=FIRST, other="write by block (0, 0, 0), warp 0, lane 0 (thread 0)",
        other_line="kernel.py:3"
emulate-wgmma-pending: accumulators, or A in registers, are touched before warpgroup_wait
    * warpgroup registers="d[0,1]", who="block (0, 0, 0), warp 0", fix="put cute.warpgroup_wait(0)
        before this line"
emulate-wgmma-start: threads of a warpgroup disagree on where sums start from zero
    * warpgroup condition="tid < 64", value="False", who="block (0, 0, 0), warp 2, lane 0"
emulate-wgmma-address: threads of a warpgroup disagree on where an operand is
    * warpgroup found="4096", name="sA", first="0", who="block (0, 0, 0), warp 0, lane 1"
emulate-wgmma-fence: accumulators, or A in registers, are written and then used by wgmma without a
        fence
    * warpgroup registers="a[0:8]", who="block (0, 0, 0), warp 0"
emulate-mbarrier-unset: an mbarrier is used that was not initialised
    * ring name="mbarrier empty[0]", state="nothing has initialised", who=FIRST
emulate-mbarrier-early: an mbarrier is used, and the barrier or fence after its init is missing
    * kernel name="mbarrier bar[0]", who=FIRST, missing="a barrier after its init"
emulate-mbarrier-again: an mbarrier is initialised again while it is valid
    * kernel name="mbarrier bar[0]", who=FIRST, other="kernel.py:5"
emulate-mbarrier-busy: an mbarrier is ended while others may use it
    * kernel name="mbarrier bar[0]", who=FIRST, use="nothing orders its use before (kernel.py:5)"
emulate-cluster-rank: a block arrives at, or multicasts to, a rank that its cluster lacks
    * kernel rank="2", name="bar.arrive", who="block (2, 0, 0), warp 0, lane 0 (thread 0)", size="2"
emulate-multicast: a mask of a multicast that is computed at run time is 0
    * kernel mask="mask", who=FIRST
emulate-peer-begin: a block accesses shared memory of one that may not have begun
    * kernel block="(1, 0, 0)", who=FIRST
emulate-block-end: a block ends while a TMA store reads its shared memory, or another block may
        reach it
    * kernel block="(0, 0, 0)", use="a TMA store (kernel.py:7) still reads", fix="call
        cute.tma_store_commit() and cute.tma_store_wait(0) before the end"
emulate-mbarrier-arrivals: more threads arrive in a phase of an mbarrier than it counts
    * kernel name="mbarrier bar[0]", who="block (0, 0, 0), warp 0, lane 1 (thread 1)", count="1"
emulate-mbarrier-lost: the memory of an mbarrier is used for something else meanwhile
    * kernel what="use", name="mbarrier bar[0]", who=FIRST, other="kernel.py:7"
emulate-mbarrier-phase: an arrival or a wait at an mbarrier may be of another phase in another order
        of threads
    * kernel what="a wait", name="mbarrier bar[0]", who=FIRST, why="nothing orders it after the
        previous phase, and while that is open, it returns at once", fix="wait for each phase in
        turn, or synchronise with a thread that has waited for the previous one"
emulate-map: TMA is given an array that it cannot address
    * gemm name="A", found="a pitch of 270 bytes, with rows of 270 bytes"
emulate-coordinate: TMA is given a coordinate that does not fit 32 bits
    * kernel value="4294967296", mode="0", name="x", who=FIRST
emulate-mbarrier-bytes: TMA loads bring another number of bytes than was announced
    * ring who="block (0, 0, 0), warp 1", name="mbarrier full[0]", what="waits for 256 bytes more"
emulate-warp-divergent: an instruction of whole warps or warpgroups is executed by a part of one
    * kernel name="cute.gemm", who="block (0, 0, 0), warp 0, lane 16 (thread 16)"
emulate-barrier-divergent: a part of the block does not reach a barrier
    * kernel who="block (0, 0, 0), warp 1", others="lane 8 and others of the warp took another
        branch"
emulate-barrier-count: more threads meet at a named barrier than it counts, or they count
        differently
    * handoff given="128 threads", id="2", who="block (0, 0, 0), warp 1", threads="64"
emulate-setmaxnreg: warps of one warpgroup do not ask for one number of registers together, or ask
        again before they have synchronised
    * kernel count="96", who="block (0, 0, 0), warp 2", why="while warp 3 of its warpgroup asked for
        104", fix="branch on the warpgroup: with cute.when(cute.warp_idx() // 4 == 0): ..."
emulate-barrier-id: lanes of a warp come to different named barriers, or to none
    * kernel id="2", other="1", who="block (0, 0, 0), warp 0, lane 1 (thread 1)"
emulate-barrier-phase: threads arrive at a named barrier that may, or may not, belong to the phase
        before
    * kernel id="1", who="block (0, 0, 0), warp 2"
emulate-argument: an argument is no array of the parameter's type, rank, sizes, or has negative
        strides
    - emulated(doubled, np.zeros(64, np.float32))
    + emulated(doubled)
emulate-order: the order of running is unknown
    - emulated(doubled, order="random")
    + emulated(doubled, order="reversed")
orders-bound: a bound of the search through orders is no number above 0
    - cute.check_orders(traced(doubled_by_all), np.zeros(64, np.int32), most=0)
    + cute.check_orders(traced(doubled_by_all), np.zeros(64, np.int32), most=10)
follow-device: an element is followed through arrays of a GPU
    - cute.follow(cute.kernel(doubled_by_all), OfGpu(), element=("x", 1))
    + cute.follow(cute.kernel(doubled_by_all), np.zeros(64, np.int32), element=("x", 1))
follow-element: what is followed is no array and coordinate
    - cute.follow(traced(doubled_by_all), np.zeros(64, np.int32), element="x")
    + cute.follow(traced(doubled_by_all), np.zeros(64, np.int32), element="x[1]")
follow-name: the element of no array is followed
    - cute.follow(traced(doubled_by_all), np.zeros(64, np.int32), element="y[1]")
    + cute.follow(traced(doubled_by_all), np.zeros(64, np.int32), element="x[1]")
follow-outside: an element outside of its array is followed
    - cute.follow(traced(doubled_by_all), np.zeros(64, np.int32), element=("x", 64))
    + cute.follow(traced(doubled_by_all), np.zeros(64, np.int32), element=("x", 63))
emulate-read-only: a kernel writes to a read-only array
    - emulated(doubled, READ_ONLY)
    + emulated(doubled, READ_ONLY.copy())
"""
