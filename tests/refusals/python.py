"""Refusals of Python that cannot be traced, of launches and of plans.

See tests/pure/test_trace_control.py for more traps of loops and branches.
"""

import csv

import cute_py as cute
from tests.kernel_refusals import traced

KEPT = []  # what a careless kernel leaves behind


def steps(n):
    yield from cute.range(n)


def trace_python(x):
    """Python would need a value that is known only at run time: `if`, `while`, `and`, `range`, an
    index of a list
    """
    # right: with cute.when(x[0] > 0):
    if x[0] > 0:  # wrong
        x[1] = 1


def trace_undecided(x):
    """sizes or indices leave a question open in a kernel"""
    # right: n = cute.as_int(x[0], 1, 64)
    n = cute.as_int(x[0])  # wrong
    cute.ceil_div(64, n)  # here


def trace_stale(x):
    """a value made inside a run-time loop or branch is used after it, or in its next
    iteration
    """
    held = cute.rmem("s32", 1)
    held.fill(0)
    for k in cute.range(4):
        # right: held += k
        total = held + k  # wrong
    # right: x[0] = held
    x[0] = total  # wrong  # here


def trace_foreign(x):
    """a tensor, index or variable of one kernel is used in the trace of another"""
    # right: x[cute.thread_idx()] = 1
    x[KEPT[0]] = 1  # wrong


def trace_changes(x):
    """the body of a run-time loop records different ops the second time"""
    # right: phase = cute.var(0)
    phase = 0  # wrong
    for _k in cute.range(4):
        # right: x[phase.get()] = 1
        x[phase] = 1  # wrong  # here
        # right: phase.set(phase.get() ^ 1)
        phase ^= 1  # wrong


def trace_number(x):
    """Python would turn a value that is known only at run time into a number, with int(), float()
    or a format
    """
    # right: x[0] = len(repr(cute.thread_idx()))
    x[0] = len("%d" % cute.thread_idx())  # wrong  # noqa: UP031


def trace_number_to(x):
    """a number that is known while a kernel is traced is to become registers"""
    n = 5
    # right: x[0] = n
    x[0] = n.to("s32")  # wrong


def trace_one_number(x):
    """an integer of a kernel is used as a tuple, or asked for what no integer has"""
    # right: t = cute.thread_idx()
    t = cute.thread_idx().x  # wrong
    x[t] = 1


def trace_text(x):
    """the text of a value that is known only at run time is made in a kernel: str(), print(), an
    f-string
    """
    # right: cute.print("i = {}", cute.thread_idx())
    cute.print(f"i = {cute.thread_idx()}")  # wrong
    x[0] = 1


def trace_asked(x):
    """a generator gives values from inside a run-time loop or branch to something other than a
    statement
    """
    # right: for k in steps(4): x[k] = 1
    x[0] = len(list(steps(4)))  # wrong


def trace_recursion(x):
    """functions of a kernel call themselves without an end"""

    def doubled(n):
        # right: return n if n > 8 else doubled(2 * n)
        return doubled(2 * n)  # wrong

    x[doubled(1)] = 1


def trace_unreadable(x):
    """a run-time loop or branch uses an iterator whose position cannot be read"""
    # right: rows = list(csv.reader(["1", "2"]))
    rows = csv.reader(["1", "2"])  # wrong
    with cute.when(cute.thread_idx() < 3):  # here
        # right: x[0] = int(rows[0][0])
        x[0] = int(next(rows)[0])  # wrong


def trace_carried(x):
    """the body of a run-time loop changes a Python value from iteration to iteration"""
    count = 0
    # right: for k in range(4):
    for k in cute.range(4):  # wrong
        x[k] = 1
        count += 1
    x[count] = 2


def trace_iterated(x):
    """`cute.range` is used outside a `for` statement"""
    # right: for i, k in enumerate(range(4)):
    for i, k in enumerate(cute.range(4)):  # wrong
        x[i] = k


def trace_left(x):
    """a run-time loop or branch is left by break, return or a swallowed exception"""
    for k in cute.range(4):
        x[k] = 1
        # right: cute.break_if(k > 1)
        break  # wrong
    x[0] = 1  # here


def trace_interleaved(x):
    """two run-time loops or branches do not nest"""
    outer, inner = (cute.when(cute.thread_idx() < n) for n in (8, 4))
    outer.__enter__()
    inner.__enter__()
    # right: inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)  # wrong
    # right: outer.__exit__(None, None, None)
    x[0] = 1


def trace_rebound(x):
    """a Python value that a branch or a loop changes is used after it"""
    # right: x[0] = cute.where(cute.thread_idx() < 7, 2, 1)
    value = 1  # wrong
    with cute.when(cute.thread_idx() < 7):  # wrong  # here
        value = 2  # wrong
    x[0] = value  # wrong


def trace_leaves(x):
    """return, break or continue is inside a run-time branch"""
    # right: cute.return_if(cute.thread_idx() > 6)
    with cute.when(cute.thread_idx() > 6):  # wrong
        return  # wrong  # here
    x[0] = 1


def trace_condition(x):
    """a value that is not a condition is used as one"""
    # right: with cute.when(x[0] != 0):
    with cute.when(x[0]):  # wrong
        x[1] = 1


def trace_nested(x):
    """a kernel is called inside a kernel"""
    # right: kernel.function(x)
    cute.trace(kernel, x)  # wrong


@cute.kernel
def kernel(x):
    x[0] = 1


def kernel_no_launch(x):
    """a kernel does not call `cute.launch`, or calls it too late"""
    # right: cute.launch(grid=1, block=32)
    x[cute.thread_idx()] = 1  # here
    cute.launch(grid=1, block=32)  # wrong


def kernel_launch_twice(x):
    """`cute.launch` is called twice, or in a run-time loop or branch"""
    # right: cute.launch(grid=1, block=64 if x.dtype is cute.s32 else 32)
    cute.launch(grid=1, block=32)  # wrong
    cute.launch(grid=1, block=64)  # wrong  # here
    x[0] = 1


def kernel_block(x):
    """a block, a grid or a cluster has more than three extents"""
    # right: cute.launch(grid=(4, 2, 2 * 3), block=32)
    cute.launch(grid=(4, 2, 2, 3), block=32)  # wrong
    x[0] = 1


def plan_launch(x):
    """a launch is beyond the limits of the hardware"""
    # right: cute.launch(grid=(70000, 1), block=32)
    cute.launch(grid=(1, 70000), block=32)  # wrong
    x[0] = 1


def plan_clusters(x):
    """a grid is not a whole number of clusters"""
    # right: cute.launch(grid=cute.round_up(7, 2), block=32, cluster=2)
    cute.launch(grid=7, block=32, cluster=2)  # wrong
    x[0] = 1


def kernel_grid(x):
    """the grid depends on a number that is computed in the kernel"""
    # right: cute.launch(grid=cute.min_(x.shape[0], 5) * x.stride[0] // 2, block=32)
    cute.launch(grid=x.shape[0] ^ 5, block=32)  # wrong
    x[0] = 1


def kernel_step(x):
    """`cute.range` is given a step of 0"""
    # right: for k in cute.range(0, 4, 1):
    for k in cute.range(0, 4, 0):  # wrong
        x[k] = 1


def kernel_while(x):
    """the condition of `cute.while_` does not change in the loop"""
    count = cute.var(0)
    # right: with cute.while_(lambda: count.get() < 4):
    with cute.while_(count.get() < 4):  # wrong
        count.set(count.get() + 1)


def kernel_variable(x):
    """a `cute.var` is used as if it were its value"""
    count = cute.var(0)
    # right: count.set(count.get() + 1)
    count += 1  # wrong  # here
    # right: x[0] = count.get()
    x[0] = count  # wrong


def kernel_blockless(x):
    """`cute.when` or the like is written without `with` in front of it"""
    cute.when(cute.thread_idx() < 4)  # wrong
    # right: with cute.when(cute.thread_idx() < 4):
    # right:     cute.syncwarp()
    x[cute.thread_idx()] = 1


def kernel_otherwise(x):
    """`cute.otherwise` does not follow a `cute.when`"""
    with cute.when(cute.thread_idx() < 7):
        x[0] = 1
    x[1] = 1  # wrong
    with cute.otherwise():  # here
        x[0] = 2


def kernel_break(x):
    """`cute.break_if` is outside a run-time loop"""
    # right: for k in cute.range(4):
    for k in range(4):  # wrong
        cute.break_if(x[k] > 3)  # here


def kernel_always(x):
    """the condition of `cute.return_if` or `cute.break_if` is always true"""
    # right: cute.return_if(cute.thread_idx() < 31)
    cute.return_if(cute.thread_idx() < 32)  # wrong
    x[0] = 1


def kernel_assert(x):
    """an assertion is always false"""
    # right: cute.assert_(cute.thread_idx() < x.shape[0], "too few elements")
    cute.assert_(cute.thread_idx() > 31, "a late thread")  # wrong  # noqa: PT009  # here


def kernel_print(x):
    """the text of `cute.print` has more or fewer `{}` than values"""
    # right: cute.print("x = {}, {}", x[0], cute.thread_idx())
    cute.print("x = {}, {}", x[0])  # wrong


def plan_unassigned(x):
    """a register may be read before it has a value"""
    held = cute.rmem("s32", 2)
    # right: held.fill(1)
    held[0] = 1  # wrong
    x[0] = held[1]  # here


def plan_twice(f):
    """one operation would write several values to a register"""
    sums = cute.rmem("f32", cute.Layout((4, 2), (1, 0)))  # wrong
    values = cute.rmem("f32", (4, 2))
    values.fill(1)
    # right: sums = cute.reduce("add", values, mode=1)
    # right: f[0] = sums[0]
    sums.fill(0)  # wrong
    sums += values  # wrong  # here
    f[0] = sums[0, 0]  # wrong


def plan_divergent(x):
    """not all threads of the block may reach a barrier"""
    with cute.when(cute.thread_idx() < 7):
        x[0] = 1
        cute.syncthreads()  # wrong
    # right: cute.syncthreads()


def plan_shared(f):
    """a block needs more shared memory than it can have"""
    # right: tile = cute.smem("f32", (256, 128))
    tile = cute.smem("f32", (256, 256))  # wrong
    f[0] = tile[0, 0]


def plan_pdl(x):
    """a kernel with pdl=True uses global memory, or returns, before it waits for the preceding
    kernels
    """
    cute.launch(grid=1, block=32, pdl=True)
    # right: cute.griddepcontrol_wait()
    x[0] = 1  # here
    cute.griddepcontrol_wait()  # wrong


def plan_setmaxnreg_part(x):
    """only a part of a warpgroup reaches setmaxnreg"""
    cute.launch(grid=1, block=256)
    # right: with cute.when(cute.thread_idx() < 128):
    with cute.when(cute.thread_idx() < 32):  # wrong
        cute.setmaxnreg(40, "dec")  # here


def plan_setmaxnreg_kind(x):
    """`cute.setmaxnreg` increases a number to less, or decreases it to more"""
    cute.launch(grid=1, block=256)
    # right: cute.setmaxnreg(40, "dec")
    cute.setmaxnreg(40, "inc")  # wrong


def plan_setmaxnreg_sum(x):
    """warpgroups ask for more registers than the launch has"""
    cute.launch(grid=1, block=384)
    with cute.when(cute.warp_idx() // 4 == 0):
        cute.setmaxnreg(40, "dec")
    with cute.otherwise():
        # right: cute.setmaxnreg(232, "inc")
        cute.setmaxnreg(240, "inc")  # wrong


def leave_an_index():
    """Leave an index of another kernel in `KEPT`."""

    def careless(x):
        KEPT[:] = [cute.thread_idx()]
        x[0] = 1

    traced(careless)


leave_an_index()
run = traced
ROWS = ""
