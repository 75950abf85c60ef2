"""Every refusal of Python that cannot be traced: provoked, placed, taught; and the mended twin is
traced. See tests/pure/test_trace_control.py for more traps of loops and branches.
"""

import csv

import numpy as np
import pytest

import cute_py as cute
from tests.kernel_refusals import ARRAYS, marked_line, message_of, pairs, raised, traced
from tests.kernel_refusals import require_teaching as teaches
from tests.refusal_examples import messages

KEPT = []  # what a careless kernel leaves behind


def trace_python(x):
    if x[0] > 0:  # here
        x[1] = 1


def trace_python_mended(x):
    with cute.when(x[0] > 0):
        x[1] = 1


def trace_undecided(x):
    n = cute.as_int(x[0])
    cute.ceil_div(64, n)  # here


def trace_undecided_mended(x):
    n = cute.as_int(x[0], 1, 64)
    cute.ceil_div(64, n)


def trace_stale(x):
    held = cute.rmem("s32", 1)
    held.fill(0)
    for k in cute.range(4):
        total = held + k
    x[0] = total  # here


def trace_stale_mended(x):
    held = cute.rmem("s32", 1)
    held.fill(0)
    for k in cute.range(4):
        held += k
    x[0] = held


def trace_foreign(x):
    x[KEPT[0]] = 1  # here


def trace_foreign_mended(x):
    x[cute.thread_idx()] = 1


def trace_changes(x):
    phase = 0
    for _k in cute.range(4):
        x[phase] = 1  # here
        phase ^= 1


def trace_changes_mended(x):
    phase = cute.var(0)
    for _k in cute.range(4):
        x[phase.get()] = 1
        phase.set(phase.get() ^ 1)


def trace_number(x):
    x[0] = len("%d" % cute.thread_idx())  # here  # noqa: UP031


def trace_number_mended(x):
    x[0] = len(f"{cute.thread_idx()}")


def trace_unreadable(x):
    rows = csv.reader(["1", "2"])
    with cute.when(cute.thread_idx() < 3):  # here
        x[0] = int(next(rows)[0])


def trace_unreadable_mended(x):
    rows = list(csv.reader(["1", "2"]))
    with cute.when(cute.thread_idx() < 3):
        x[0] = int(rows[0][0])


def trace_carried(x):
    count = 0
    for k in cute.range(4):  # here
        x[k] = 1
        count += 1
    x[count] = 2


def trace_carried_mended(x):
    count = 0
    for k in range(4):
        x[k] = 1
        count += 1
    x[count] = 2


def trace_iterated(x):
    for i, k in enumerate(cute.range(4)):  # here
        x[i] = k


def trace_iterated_mended(x):
    for i, k in enumerate(range(4)):
        x[i] = k


def trace_left(x):
    for k in cute.range(4):
        x[k] = 1
        break
    x[0] = 1  # here


def trace_left_mended(x):
    for k in cute.range(4):
        x[k] = 1
        cute.break_if(k > 1)
    x[0] = 1


def steps(n):
    yield from cute.range(n)


def trace_interleaved(x):
    first, second = steps(4), steps(4)
    x[next(first)] = 1
    x[next(second)] = 1
    x[next(first, 0)] = 1


def trace_interleaved_mended(x):
    for k in steps(4):
        x[k] = 1
    for k in steps(4):
        x[k] = 1


def trace_rebound(x):
    value = 1
    with cute.when(cute.thread_idx() < 7):  # here
        value = 2
    x[0] = value


def trace_rebound_mended(x):
    x[0] = cute.where(cute.thread_idx() < 7, 2, 1)


def trace_leaves(x):
    with cute.when(cute.thread_idx() > 6):
        return  # here
    x[0] = 1


def trace_leaves_mended(x):
    cute.return_if(cute.thread_idx() > 6)
    x[0] = 1


def trace_condition(x):
    with cute.when(x[0]):  # here
        x[1] = 1


def trace_condition_mended(x):
    with cute.when(x[0] != 0):
        x[1] = 1


def trace_nested(x):
    cute.trace(kernel, x)  # here


def trace_nested_mended(x):
    kernel.function(x)


@cute.kernel
def kernel(x):
    x[0] = 1


def kernel_no_launch(x):
    x[cute.thread_idx()] = 1  # here
    cute.launch(grid=1, block=32)


def kernel_no_launch_mended(x):
    cute.launch(grid=1, block=32)
    x[cute.thread_idx()] = 1


def kernel_launch_twice(x):
    cute.launch(grid=1, block=32)
    cute.launch(grid=1, block=64)  # here
    x[0] = 1


def kernel_launch_twice_mended(x):
    cute.launch(grid=1, block=64 if x.dtype is cute.s32 else 32)
    x[0] = 1


def kernel_block(x):
    cute.launch(grid=1, block=(64, 32))  # here
    x[0] = 1


def kernel_block_mended(x):
    cute.launch(grid=1, block=(32, 32))
    x[0] = 1


def kernel_grid(x):
    cute.launch(grid=x.shape[0] ^ 5, block=32)  # here
    x[0] = 1


def kernel_grid_mended(x):
    cute.launch(grid=cute.min_(x.shape[0], 5) * x.stride[0] // 2, block=32)
    x[0] = 1


def kernel_step(x):
    for k in cute.range(0, 4, 0):  # here
        x[k] = 1


def kernel_step_mended(x):
    for k in cute.range(0, 4, 1):
        x[k] = 1


def kernel_while(x):
    count = cute.var(0)
    with cute.while_(count.get() < 4):  # here
        count.set(count.get() + 1)


def kernel_while_mended(x):
    count = cute.var(0)
    with cute.while_(lambda: count.get() < 4):
        count.set(count.get() + 1)


def kernel_variable(x):
    count = cute.var(0)
    count += 1  # here
    x[0] = count


def kernel_variable_mended(x):
    count = cute.var(0)
    count.set(count.get() + 1)
    x[0] = count.get()


def kernel_otherwise(x):
    with cute.when(cute.thread_idx() < 7):
        x[0] = 1
    x[1] = 1
    with cute.otherwise():  # here
        x[0] = 2


def kernel_otherwise_mended(x):
    with cute.when(cute.thread_idx() < 7):
        x[0] = 1
    with cute.otherwise():
        x[0] = 2


def kernel_break(x):
    for k in range(4):
        cute.break_if(x[k] > 3)  # here


def kernel_break_mended(x):
    for k in cute.range(4):
        cute.break_if(x[k] > 3)


def kernel_always(x):
    cute.return_if(cute.thread_idx() < 32)  # here
    x[0] = 1


def kernel_always_mended(x):
    cute.return_if(cute.thread_idx() < 31)
    x[0] = 1


def kernel_assert(x):
    cute.assert_(cute.thread_idx() > 31, "a late thread")  # noqa: PT009  # here


def kernel_assert_mended(x):
    cute.assert_(cute.thread_idx() < x.shape[0], "too few elements")  # noqa: PT009


def kernel_print(x):
    cute.print("x = {}, {}", x[0])  # here


def kernel_print_mended(x):
    cute.print("x = {}, {}", x[0], cute.thread_idx())


def plan_unassigned(x):
    held = cute.rmem("s32", 2)
    held[0] = 1
    x[0] = held[1]  # here


def plan_unassigned_mended(x):
    held = cute.rmem("s32", 2)
    held.fill(1)
    x[0] = held[1]


def plan_twice(f):
    sums = cute.rmem("f32", cute.Layout((4, 2), (1, 0)))
    values = cute.rmem("f32", (4, 2))
    values.fill(1)
    sums.fill(0)
    sums += values  # here
    f[0] = sums[0, 0]


def plan_twice_mended(f):
    values = cute.rmem("f32", (4, 2))
    values.fill(1)
    sums = cute.reduce("add", values, mode=1)
    f[0] = sums[0]


def plan_divergent(x):
    with cute.when(cute.thread_idx() < 7):
        x[0] = 1
        cute.syncthreads()  # here


def plan_divergent_mended(x):
    with cute.when(cute.thread_idx() < 7):
        x[0] = 1
    cute.syncthreads()


def plan_shared(f):
    tile = cute.smem("f32", (256, 256))
    f[0] = tile[0, 0]


def plan_shared_mended(f):
    tile = cute.smem("f32", (256, 128))
    f[0] = tile[0, 0]


def plan_pdl(x):
    cute.launch(grid=1, block=32, pdl=True)
    x[0] = 1  # here
    cute.griddepcontrol_wait()


def plan_pdl_mended(x):
    cute.launch(grid=1, block=32, pdl=True)
    cute.griddepcontrol_wait()
    x[0] = 1


def plan_setmaxnreg_part(x):
    cute.launch(grid=1, block=256)
    with cute.when(cute.thread_idx() < 32):
        cute.setmaxnreg(40, "dec")  # here


def plan_setmaxnreg_part_mended(x):
    cute.launch(grid=1, block=256)
    with cute.when(cute.thread_idx() < 128):
        cute.setmaxnreg(40, "dec")


def plan_setmaxnreg_kind(x):
    cute.launch(grid=1, block=256)
    cute.setmaxnreg(40, "inc")  # here


def plan_setmaxnreg_kind_mended(x):
    cute.launch(grid=1, block=256)
    cute.setmaxnreg(40, "dec")


def plan_setmaxnreg_sum(x):
    cute.launch(grid=1, block=384)
    with cute.when(cute.warp_idx() // 4 == 0):
        cute.setmaxnreg(40, "dec")
    with cute.otherwise():
        cute.setmaxnreg(240, "inc")  # here


def plan_setmaxnreg_sum_mended(x):
    cute.launch(grid=1, block=384)
    with cute.when(cute.warp_idx() // 4 == 0):
        cute.setmaxnreg(40, "dec")
    with cute.otherwise():
        cute.setmaxnreg(232, "inc")


CODES = [
    "trace-python",
    "trace-number",
    "trace-unreadable",
    "trace-undecided",
    "trace-stale",
    "trace-foreign",
    "trace-changes",
    "trace-carried",
    "trace-iterated",
    "trace-left",
    "trace-interleaved",
    "trace-rebound",
    "trace-leaves",
    "trace-condition",
    "trace-nested",
    "kernel-no-launch",
    "kernel-launch-twice",
    "kernel-block",
    "kernel-grid",
    "kernel-step",
    "kernel-while",
    "kernel-variable",
    "kernel-otherwise",
    "kernel-break",
    "kernel-always",
    "kernel-assert",
    "kernel-print",
    "plan-unassigned",
    "plan-twice",
    "plan-divergent",
    "plan-shared",
    "plan-pdl",
    "plan-setmaxnreg-part",
    "plan-setmaxnreg-kind",
    "plan-setmaxnreg-sum",
]
PAIRS = pairs(globals(), CODES)


def leave_an_index():
    """Leave an index of another kernel in `KEPT`."""

    def careless(x):
        KEPT[:] = [cute.thread_idx()]
        x[0] = 1

    traced(careless)


@pytest.fixture(autouse=True)
def leftovers():
    """Begin with an index of another kernel in `KEPT`."""
    leave_an_index()


@pytest.fixture(scope="module", autouse=True)
def examples():
    """Make all messages once, outside of the time of a test."""
    messages()


@pytest.mark.parametrize(("code", "wrong", "mended"), PAIRS, ids=CODES)
def test_wrong_is_refused_where_it_stands_and_mended_is_traced(code, wrong, mended):
    error = raised(lambda: traced(wrong))
    teaches(error, code, marked_line(wrong))
    assert message_of(error).partition("\n")[0].strip() == messages()[code]
    assert traced(mended).name == mended.__name__


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


CALLS = {
    "trace-outside": cute.thread_idx,
    "trace-no-source": no_source,
    "kernel-function": lambda: cute.kernel(np.sum),
    "kernel-arguments": lambda: cute.trace(kernel),
    "kernel-returns": lambda: cute.trace(returning, ARRAYS["x"]),
}


@pytest.mark.parametrize("code", CALLS)
def test_a_call_is_refused(code):
    error = raised(CALLS[code])
    assert error.code == code
    assert message_of(error).partition("\n")[0].strip() == messages()[code]


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
