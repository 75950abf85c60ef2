"""Run-time loops and branches are traced without rewriting Python: what would be recorded wrongly
is refused, and its legal twin is traced.

A trap is a body over `x`, a tensor of numbers in global memory; `note(x, i, ...)` records ops.
"""

import itertools

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan.ops import If, Loop, Store
from cute_py.plan.walk import every

ARRAY = np.zeros(64, np.int32)


def traced(body):
    """Trace a body under a launch of one block."""

    @cute.kernel
    def run(x):
        cute.launch(grid=1, block=32)
        body(x)

    return cute.trace(run, ARRAY)


def note(x, *values):
    """Record a store for each value; return what is in memory."""
    for value in values:
        x[cute.thread_idx()] = value
    return x[0]


def total(x):
    held = cute.rmem("s32", 1)
    held.fill(0)
    return held


# -- legal


def nested(x):
    for i in cute.range(4):
        for j in cute.range(3):
            for k in range(2):
                note(x, i, j, k)
        note(x, i)


def helper(x, i):
    for j in cute.range(3):
        note(x, i, j)


def through_a_helper(x):
    for i in cute.range(4):
        helper(x, i)


def stages(n):
    for k in cute.range(n):
        yield k, k % 3


def through_a_generator(x):
    for k, stage in stages(8):
        note(x, k, stage)


def list_inside(x):
    for k in cute.range(4):
        values = [note(x, k + i) for i in range(3)]
        note(x, *values)


def variable(x):
    phase = cute.var(0)
    for _k in cute.range(4):
        note(x, phase.get())
        phase.set(phase.get() ^ 1)


def register_sum(x):
    held = total(x)
    for k in cute.range(4):
        held += x[k]
    note(x, held)


def unconditional_continue(x):
    for k in cute.range(4):
        note(x, k)
        continue


def deep(x):
    for a in cute.range(2):
        for b in cute.range(2):
            for c in cute.range(2):
                note(x, a + b + c)


def branch(x):
    with cute.when(cute.thread_idx() < 7):
        note(x, 1)
    with cute.otherwise():
        note(x, 2)


def scratch_name_in_a_branch(x):
    for k in range(3):
        with cute.when(cute.thread_idx() < k + 1):
            value = x[k]
            note(x, value)


def loop_name_in_a_branch(x):
    with cute.when(cute.thread_idx() < 7):
        for i in range(7):
            note(x, i)
    for i in range(3):
        note(x, i)


def branch_as_a_function(x):
    @cute.when(cute.thread_idx() < 7)
    def body():
        note(x, 1)


def break_at_run_time(x):
    for k in cute.range(4):
        cute.break_if(k > cute.block_idx() + 2)
        note(x, k)


def decided_branch(x):
    if cute.block_idx() < 1:  # one block: known while tracing
        note(x, 1)


LEGAL = [
    nested,
    through_a_helper,
    through_a_generator,
    list_inside,
    variable,
    register_sum,
    unconditional_continue,
    deep,
    branch,
    scratch_name_in_a_branch,
    loop_name_in_a_branch,
    branch_as_a_function,
    break_at_run_time,
    decided_branch,
]


@pytest.mark.parametrize("body", LEGAL, ids=lambda body: body.__name__)
def test_legal_control_flow_is_traced(body):
    assert any(isinstance(op, Store) for op in every(traced(body).body))


# -- refused


def broken_off(x):
    for k in cute.range(4):
        note(x, k)
        break
    note(x, 1)


def broken_off_at_the_end(x):
    for k in cute.range(4):
        note(x, k)
        break


def returned(x):
    for k in cute.range(4):
        note(x, k)
        return


def returned_in_a_helper(x):
    def search():
        for k in cute.range(4):
            note(x, k)
            return

    search()
    note(x, 1)


def exception_swallowed(x):
    try:
        for k in cute.range(4):
            note(x, k)
            raise ValueError
    except ValueError:
        pass
    note(x, 1)


def list_of_a_loop(x):
    values = [note(x, k) for k in cute.range(4)]
    note(x, values[0])


def sum_of_a_loop(x):
    note(x, sum(x[k] for k in cute.range(4)))


def rebound_sum(x):
    held = x[0]
    for k in cute.range(4):
        held = held + x[k]
    note(x, held)


def rebound_in_silence(x):
    best = x[0]
    for k in cute.range(4):
        new = cute.maximum(best, x[k])
        note(x, new)
        best = new


def counter(x):
    phase = 0
    for _k in cute.range(4):
        note(x, phase)
        phase ^= 1


def attribute(x):
    class Pipe:
        stage = 0

    pipe = Pipe()
    for _k in cute.range(4):
        note(x, pipe.stage)
        pipe.stage = (pipe.stage + 1) % 3


def iterator(x):
    values = itertools.cycle([0, 1])
    for _k in cute.range(4):
        note(x, next(values))


def append(x):
    values = []
    for k in cute.range(4):
        values.append(x[k])
        note(x, *values)


def enumerated(x):
    for i, _k in enumerate(cute.range(4)):
        note(x, i)


def zipped(x):
    for _k, value in zip(cute.range(4), [1, 2, 3], strict=False):
        note(x, value)


def zipped_short(x):
    for value, _k in zip([7], cute.range(4), strict=False):
        note(x, value)


def one_step(x):
    next(iter(cute.range(4)))
    note(x, 1)


def listed(x):
    for k in list(cute.range(4)):
        note(x, k)


def index_escapes(x):
    for k in cute.range(4):
        note(x, k)
    note(x, k)


def python_if(x):
    for k in cute.range(4):
        if k % 2:
            note(x, k)


def python_while(x):
    while cute.thread_idx() < 3:
        note(x, 1)


def python_range(x):
    for k in range(x.shape[0]):
        note(x, k)


def list_index(x):
    values = [1, 2, 3]
    note(x, values[cute.thread_idx()])


def rebound_in_a_branch(x):
    value = 1
    with cute.when(cute.thread_idx() < 7):
        value = 2
    note(x, value)


def made_in_a_branch(x):
    with cute.when(cute.thread_idx() < 7):
        value = x[0]
    note(x, value)


def return_in_a_branch(x):
    with cute.when(cute.thread_idx() < 7):
        return
    note(x, 1)


def continue_in_a_branch(x):
    for i in range(3):
        with cute.when(cute.thread_idx() < 7):
            continue
        note(x, i)


def rebound_outside_of_two_loops(x):
    value = 0
    for _i in cute.range(4):
        for _j in cute.range(2):
            note(x, value)
        value += 1  # noqa: SIM113


def register_of_a_branch(x):
    kept = []
    with cute.when(cute.thread_idx() < 7):
        kept.append(x[0] + 1)
    note(x, kept[0])


def register_index(x):
    held = cute.rmem("s32", 4)
    held.fill(0)
    for k in cute.range(4):
        note(x, held[k])


def otherwise_alone(x):
    note(x, 1)
    with cute.otherwise():
        note(x, 2)


def python_and(x):
    tid = cute.thread_idx()
    with cute.when(tid > 1 and tid < 7):
        note(x, 1)


def unassigned(x):
    held = cute.rmem("s32", 1)
    note(x, held)


def assigned_in_a_loop_that_may_not_run(x):
    held = cute.rmem("s32", 1)
    for _k in cute.range(x.shape[0] - 4):
        held.fill(1)
    note(x, held)


def barrier_in_a_branch(x):
    with cute.when(cute.thread_idx() < 7):
        cute.syncthreads()


REFUSED = {
    broken_off: "trace-left",
    broken_off_at_the_end: "trace-left",
    returned: "trace-left",
    returned_in_a_helper: "trace-left",
    exception_swallowed: "trace-left",
    list_of_a_loop: "trace-iterated",
    sum_of_a_loop: "trace-iterated",
    rebound_sum: "trace-stale",
    rebound_in_silence: "trace-stale",
    counter: "trace-changes",
    attribute: "trace-changes",
    iterator: "trace-changes",
    append: "trace-stale",
    enumerated: "trace-iterated",
    zipped: "trace-iterated",
    zipped_short: "trace-iterated",
    one_step: "trace-iterated",
    listed: "trace-iterated",
    index_escapes: "trace-stale",
    python_if: "trace-python",
    python_while: "trace-python",
    python_range: "trace-python",
    list_index: "trace-python",
    rebound_in_a_branch: "trace-rebound",
    made_in_a_branch: "trace-rebound",
    return_in_a_branch: "trace-leaves",
    continue_in_a_branch: "trace-leaves",
    rebound_outside_of_two_loops: "trace-changes",
    register_of_a_branch: "trace-rebound",
    register_index: "register-index",
    otherwise_alone: "kernel-otherwise",
    python_and: "trace-python",
    unassigned: "plan-unassigned",
    assigned_in_a_loop_that_may_not_run: "plan-unassigned",
    barrier_in_a_branch: "plan-divergent",
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: body.__name__)
def test_what_would_be_recorded_wrongly_is_refused(body):
    with pytest.raises(cute.CuteError) as caught:
        traced(body)
    assert caught.value.code == REFUSED[body]
    assert "test_trace_control.py:" in str(caught.value)


# -- what is recorded


def test_a_loop_is_recorded_once():
    loops = [op for op in every(traced(nested).body) if isinstance(op, Loop)]
    assert [(op.var, op.stop) for op in loops] == [("k0", 4), ("k1", 3)]


def test_otherwise_joins_its_branch():
    (op,) = [op for op in every(traced(branch).body) if isinstance(op, If)]
    assert op.then
    assert op.other
    assert op.scope == "thread"


def test_conditions_know_which_threads_agree():
    def scopes(x):
        for condition in (
            cute.thread_idx() < 7,
            cute.warp_idx() < 1,
            cute.thread_idx() // 128 < x.shape[0] - 4,
            cute.block_idx() < x.shape[0] - 5,
        ):
            with cute.when(condition):
                note(x, 1)

    @cute.kernel
    def run(x):
        cute.launch(grid=9, block=256)
        scopes(x)

    found = [op.scope for op in cute.trace(run, ARRAY).body if isinstance(op, If)]
    assert found == ["thread", "warp", "warpgroup", "block"]


def test_lines_are_no_part_of_a_plan():
    def one(x):
        note(x, 1)

    def other(x):
        # a line that moves the next one

        note(x, 1)

    a, b = traced(one), traced(other)
    assert a == b
    assert hash(a) == hash(b)


def test_a_kernel_without_source_needs_branches_as_functions():
    text = "def body(x):\n    with cute.when(cute.thread_idx() < 7):\n        note(x, 1)\n"
    names = {"cute": cute, "note": note}
    exec(text, names)
    with pytest.raises(cute.CuteError) as caught:
        traced(names["body"])
    assert caught.value.code == "trace-no-source"
    text = "def body(x):\n    @cute.when(cute.thread_idx() < 7)\n    def inner(): note(x, 1)\n"
    exec(text, names)
    assert traced(names["body"]).body


def test_a_nan_is_the_same_in_every_iteration():
    """Each float("nan") is another object, and equal to nothing."""

    @cute.kernel
    def poison(A):
        cute.launch(grid=1, block=32)
        for i in cute.range(cute.thread_idx(), A.shape[0], 32):
            A[i] = float("nan")

    a = np.zeros(70, np.float32)
    poison(a)
    assert np.isnan(a).all()
