"""Bodies for every refusal of Python that cannot be traced, which test_refusals.py runs.

See tests/pure/test_trace_control.py for more traps of loops and branches.
"""

import csv

import numpy as np
import pytest

import cute_py as cute
from tests.kernel_refusals import ARRAYS, raised, traced

KEPT = []  # what a careless kernel leaves behind


def trace_python(x):
    # right: with cute.when(x[0] > 0):
    if x[0] > 0:  # wrong
        x[1] = 1


def trace_undecided(x):
    # right: n = cute.as_int(x[0], 1, 64)
    n = cute.as_int(x[0])  # wrong
    cute.ceil_div(64, n)  # here


def trace_stale(x):
    held = cute.rmem("s32", 1)
    held.fill(0)
    for k in cute.range(4):
        # right: held += k
        total = held + k  # wrong
    # right: x[0] = held
    x[0] = total  # wrong  # here


def trace_foreign(x):
    # right: x[cute.thread_idx()] = 1
    x[KEPT[0]] = 1  # wrong


def trace_changes(x):
    # right: phase = cute.var(0)
    phase = 0  # wrong
    for _k in cute.range(4):
        # right: x[phase.get()] = 1
        x[phase] = 1  # wrong  # here
        # right: phase.set(phase.get() ^ 1)
        phase ^= 1  # wrong


def trace_number(x):
    # right: x[0] = len(f"{cute.thread_idx()}")
    x[0] = len("%d" % cute.thread_idx())  # wrong  # noqa: UP031


def trace_unreadable(x):
    # right: rows = list(csv.reader(["1", "2"]))
    rows = csv.reader(["1", "2"])  # wrong
    with cute.when(cute.thread_idx() < 3):  # here
        # right: x[0] = int(rows[0][0])
        x[0] = int(next(rows)[0])  # wrong


def trace_carried(x):
    count = 0
    # right: for k in range(4):
    for k in cute.range(4):  # wrong
        x[k] = 1
        count += 1
    x[count] = 2


def trace_iterated(x):
    # right: for i, k in enumerate(range(4)):
    for i, k in enumerate(cute.range(4)):  # wrong
        x[i] = k


def trace_left(x):
    for k in cute.range(4):
        x[k] = 1
        # right: cute.break_if(k > 1)
        break  # wrong
    x[0] = 1  # here


def steps(n):
    yield from cute.range(n)


def trace_interleaved(x):
    # right: for k in steps(4):
    first, second = steps(4), steps(4)  # wrong
    # right:     x[k] = 1
    x[next(first)] = 1  # wrong
    # right: for k in steps(4):
    x[next(second)] = 1  # wrong
    # right:     x[k] = 1
    x[next(first, 0)] = 1  # wrong


def trace_rebound(x):
    # right: x[0] = cute.where(cute.thread_idx() < 7, 2, 1)
    value = 1  # wrong
    with cute.when(cute.thread_idx() < 7):  # wrong  # here
        value = 2  # wrong
    x[0] = value  # wrong


def trace_leaves(x):
    # right: cute.return_if(cute.thread_idx() > 6)
    with cute.when(cute.thread_idx() > 6):  # wrong
        return  # wrong  # here
    x[0] = 1


def trace_condition(x):
    # right: with cute.when(x[0] != 0):
    with cute.when(x[0]):  # wrong
        x[1] = 1


def trace_nested(x):
    # right: kernel.function(x)
    cute.trace(kernel, x)  # wrong


@cute.kernel
def kernel(x):
    x[0] = 1


def kernel_no_launch(x):
    # right: cute.launch(grid=1, block=32)
    x[cute.thread_idx()] = 1  # here
    cute.launch(grid=1, block=32)  # wrong


def kernel_launch_twice(x):
    # right: cute.launch(grid=1, block=64 if x.dtype is cute.s32 else 32)
    cute.launch(grid=1, block=32)  # wrong
    cute.launch(grid=1, block=64)  # wrong  # here
    x[0] = 1


def kernel_block(x):
    # right: cute.launch(grid=1, block=(32, 32))
    cute.launch(grid=1, block=(64, 32))  # wrong
    x[0] = 1


def kernel_grid(x):
    # right: cute.launch(grid=cute.min_(x.shape[0], 5) * x.stride[0] // 2, block=32)
    cute.launch(grid=x.shape[0] ^ 5, block=32)  # wrong
    x[0] = 1


def kernel_step(x):
    # right: for k in cute.range(0, 4, 1):
    for k in cute.range(0, 4, 0):  # wrong
        x[k] = 1


def kernel_while(x):
    count = cute.var(0)
    # right: with cute.while_(lambda: count.get() < 4):
    with cute.while_(count.get() < 4):  # wrong
        count.set(count.get() + 1)


def kernel_variable(x):
    count = cute.var(0)
    # right: count.set(count.get() + 1)
    count += 1  # wrong  # here
    # right: x[0] = count.get()
    x[0] = count  # wrong


def kernel_otherwise(x):
    with cute.when(cute.thread_idx() < 7):
        x[0] = 1
    x[1] = 1  # wrong
    with cute.otherwise():  # here
        x[0] = 2


def kernel_break(x):
    # right: for k in cute.range(4):
    for k in range(4):  # wrong
        cute.break_if(x[k] > 3)  # here


def kernel_always(x):
    # right: cute.return_if(cute.thread_idx() < 31)
    cute.return_if(cute.thread_idx() < 32)  # wrong
    x[0] = 1


def kernel_assert(x):
    # right: cute.assert_(cute.thread_idx() < x.shape[0], "too few elements")
    cute.assert_(cute.thread_idx() > 31, "a late thread")  # wrong  # noqa: PT009  # here


def kernel_print(x):
    # right: cute.print("x = {}, {}", x[0], cute.thread_idx())
    cute.print("x = {}, {}", x[0])  # wrong


def plan_unassigned(x):
    held = cute.rmem("s32", 2)
    # right: held.fill(1)
    held[0] = 1  # wrong
    x[0] = held[1]  # here


def plan_twice(f):
    sums = cute.rmem("f32", cute.Layout((4, 2), (1, 0)))  # wrong
    values = cute.rmem("f32", (4, 2))
    values.fill(1)
    # right: sums = cute.reduce("add", values, mode=1)
    # right: f[0] = sums[0]
    sums.fill(0)  # wrong
    sums += values  # wrong  # here
    f[0] = sums[0, 0]  # wrong


def plan_divergent(x):
    with cute.when(cute.thread_idx() < 7):
        x[0] = 1
        cute.syncthreads()  # wrong
    # right: cute.syncthreads()


def plan_shared(f):
    # right: tile = cute.smem("f32", (256, 128))
    tile = cute.smem("f32", (256, 256))  # wrong
    f[0] = tile[0, 0]


def plan_pdl(x):
    cute.launch(grid=1, block=32, pdl=True)
    # right: cute.griddepcontrol_wait()
    x[0] = 1  # here
    cute.griddepcontrol_wait()  # wrong


def plan_setmaxnreg_part(x):
    cute.launch(grid=1, block=256)
    # right: with cute.when(cute.thread_idx() < 128):
    with cute.when(cute.thread_idx() < 32):  # wrong
        cute.setmaxnreg(40, "dec")  # here


def plan_setmaxnreg_kind(x):
    cute.launch(grid=1, block=256)
    # right: cute.setmaxnreg(40, "dec")
    cute.setmaxnreg(40, "inc")  # wrong


def plan_setmaxnreg_sum(x):
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


# -- refusals outside of a body


def no_source():
    text = (
        "def kernel(x):\n"
        "    cute.launch(grid=1, block=32)\n"
        "    with cute.when(cute.thread_idx() < 7):\n"
        "        x[0] = 1\n"
    )
    names = {"cute": cute}
    exec(text, names)
    cute.trace(cute.kernel(names["kernel"]), ARRAYS["x"])


@cute.kernel
def returning(x):
    cute.launch(grid=1, block=32)
    return x[0] + 1


@cute.kernel
def storing(x):
    cute.launch(grid=1, block=32)
    x[0] = x[0] + 1


# code -> a refused call, and the right one
CALLS = {
    "trace-outside": (
        cute.thread_idx,
        lambda: traced(lambda x: x.__setitem__(cute.thread_idx(), 1)),
    ),
    "trace-no-source": (no_source, lambda: cute.trace(storing, ARRAYS["x"])),
    "kernel-function": (
        lambda: cute.kernel(np.sum),
        lambda: cute.trace(cute.kernel(storing.function), ARRAYS["x"]),
    ),
    "kernel-arguments": (lambda: cute.trace(kernel), lambda: cute.trace(storing, ARRAYS["x"])),
    "kernel-returns": (
        lambda: cute.trace(returning, ARRAYS["x"]),
        lambda: cute.trace(storing, ARRAYS["x"]),
    ),
}


LEFT = {}  # values of a kernel that is over


@cute.kernel
def leaving(x):
    cute.launch(grid=1, block=32)
    LEFT["i"] = cute.thread_idx()
    LEFT["condition"] = LEFT["i"] < 3
    LEFT["tensor"] = cute.rmem("f32", 4)


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("Int", lambda i, condition, tensor: i + 1),
        ("Int", lambda i, condition, tensor: 1 - i),
        ("Int", lambda i, condition, tensor: i ^ 5),
        ("Int", lambda i, condition, tensor: i < 1),
        ("Condition", lambda i, condition, tensor: condition & condition),
        ("Tensor", lambda i, condition, tensor: tensor + tensor),
        ("Tensor", lambda i, condition, tensor: -tensor),
        ("Tensor", lambda i, condition, tensor: tensor.__iadd__(1)),
        ("sqrt", lambda i, condition, tensor: cute.sqrt(tensor)),
        ("where", lambda i, condition, tensor: cute.where(condition, tensor, tensor)),
        ("syncthreads", lambda i, condition, tensor: cute.syncthreads()),
    ],
)
def test_a_call_outside_of_a_kernel_is_named_as_the_user_knows_it(operation, call):
    cute.trace(leaving, ARRAYS["x"])
    error = raised(lambda: call(**LEFT))
    assert (error.code, error.facts["operation"]) == ("trace-outside", operation)


def test_functions_with_yield_and_async_functions_are_no_kernels():
    def steps_of(x):
        yield x

    async def waiting(x):
        x[0] = 1

    for function in (steps_of, waiting):
        assert raised(lambda function=function: cute.kernel(function)).code == "kernel-function"


def test_a_lambda_may_return_what_it_computes():
    kernel = cute.kernel(lambda x: (cute.launch(grid=1, block=32), x[0]))
    assert cute.trace(kernel, ARRAYS["x"]).body
