"""Run-time blocks and the Python around them: what belongs to which block, what a block may change,
and values that outlive their kernel. See also tests/pure/test_trace_control.py.
"""

import threading

import pytest

import cute_py as cute
from cute_py.plan.ops import If
from tests.kernel_refusals import ARRAYS, ops_of, raised, recorded, traced

X = ARRAYS["x"]


def test_otherwise_belongs_to_the_when_before_it():
    def decided(x):
        with cute.when(cute.thread_idx() < 7):
            x[0] = 1
        with cute.when(cute.thread_idx() < 0):
            x[1] = 2
        with cute.otherwise():
            x[2] = 3

    plan = traced(decided)
    assert [op.other for op in plan.body if isinstance(op, If)] == [()]
    assert ops_of(plan)[-1] == "store x[2 + [0]] = x2[0]"


def test_otherwise_of_a_condition_that_holds_is_left_out():
    def body(x):
        with cute.when(cute.thread_idx() < 32):
            x[0] = 1
        with cute.otherwise():
            x[0] = 2

    assert recorded(body) == ["x0[0] = 1", "store x[0 + [0]] = x0[0]"]


def test_otherwise_does_not_belong_to_a_predicated_copy():
    def body(f):
        held = cute.rmem("f32", 4)
        held.fill(0)
        cute.copy(held, cute.local_tile(f, (4,), (0,)), pred=cute.thread_idx() < 3)
        with cute.otherwise():
            f[0] = 1.0

    assert raised(lambda: traced(body)).code == "kernel-otherwise"


def changed_list(x, seen):
    seen.append(1)


def changed_attribute(x, seen):
    seen.count = 1


def changed_entry(x, seen):
    seen["count"] = 1


@pytest.mark.parametrize(
    ("change", "make", "read"),
    [
        (changed_list, list, len),
        (changed_attribute, lambda: type("Seen", (), {"__init__": init})(), lambda s: s.count),
        (changed_entry, dict, len),
    ],
)
@pytest.mark.parametrize("block", ["when", "range", "while"])
def test_what_a_block_changes_in_place_may_not_be_used_after_it(change, make, read, block):
    def branch(x):
        seen = make()
        with cute.when(cute.thread_idx() < 7):
            change(x, seen)
        x[read(seen)] = 1

    def loop(x):
        seen = make()
        for _k in cute.range(x.shape[0] - 4):
            change(x, seen)
        x[read(seen)] = 1

    def while_(x):
        seen, count = make(), cute.var(0)
        with cute.while_(lambda: count.get() < 4):
            change(x, seen)
            count.set(count.get() + 1)
        x[read(seen)] = 1

    body = {"when": branch, "range": loop, "while": while_}[block]
    assert raised(lambda: traced(body)).code in ("trace-rebound", "trace-carried")


def init(self):
    self.count = 0


def test_an_object_may_keep_what_it_computed():
    class Config:
        tile = 8

    def body(x):
        cfg = Config()
        with cute.when(cute.thread_idx() < 7):
            cfg.cached = cfg.tile * 2
            x[cfg.cached] = 1
        x[cfg.tile] = 2

    assert traced(body).body


def test_a_counter_that_first_matters_in_a_later_iteration_is_refused():
    def body(x):
        n = 0
        for k in cute.range(6):
            if n == 2:
                x[9] = 1
            n += 1  # noqa: SIM113
            x[k] = 1

    assert raised(lambda: traced(body)).code == "trace-carried"


def test_a_name_set_in_a_loop_that_may_not_run_may_not_be_used_after_it():
    def body(x):
        last = 0
        for k in cute.range(x.shape[0] - 4):
            x[k] = 1
            last = 1
        x[last] = 2

    def sure(x):
        last = 0
        for k in cute.range(4):
            x[k] = 1
            last = 1
        x[last] = 2

    assert raised(lambda: traced(body)).code == "trace-rebound"
    assert traced(sure).body


def test_a_counter_of_a_while_loop_is_refused():
    def body(x):
        count, n = cute.var(0), 0
        with cute.while_(lambda: count.get() < 4):
            x[n] = 1
            n += 1
            count.set(count.get() + 1)

    assert raised(lambda: traced(body)).code == "trace-rebound"


def test_an_exception_that_is_swallowed_around_a_branch_is_told():
    def body(x):
        try:
            with cute.when(cute.thread_idx() < 7):
                x[0] = 1
                raise ValueError
        except ValueError:
            pass
        x[1] = 1

    assert raised(lambda: traced(body)).code == "trace-left"


def test_the_next_trace_works_after_an_exception():
    def broken(x):
        with cute.when(cute.thread_idx() < 7):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        traced(broken)
    assert traced(lambda x: x.__setitem__(0, 1)).body


# -- values of other traces


def keep_index(x):
    return cute.thread_idx() + 1


def keep_size(x):
    return x.shape[0]


def keep_registers(x):
    held = cute.rmem("s32", 1)
    held.fill(0)
    return held


def keep_array(x):
    return x


def keep_shared(x):
    return cute.smem("s32", 4)


def keep_variable(x):
    return cute.var(0)


@pytest.mark.parametrize(
    ("keep", "use"),
    [
        (keep_index, lambda x, kept: x.__setitem__(kept, 1)),
        (keep_index, lambda x, kept: x.__setitem__(0, kept * 2)),
        (keep_size, lambda x, kept: x.__setitem__(kept - 1, 1)),
        (keep_registers, lambda x, kept: x.__setitem__(0, kept)),
        (keep_registers, lambda x, kept: x.__setitem__(0, kept + 1)),
        (keep_array, lambda x, kept: kept.__setitem__(0, 1)),
        (keep_shared, lambda x, kept: kept.__setitem__(0, 1)),
        (keep_variable, lambda x, kept: x.__setitem__(0, kept.get())),
    ],
)
def test_values_of_another_trace_are_refused(keep, use):
    kept = []

    def first(x):
        kept.append(keep(x))
        x[0] = 1

    traced(first)
    assert raised(lambda: traced(lambda x: use(x, kept[0]))).code == "trace-foreign"


def test_threads_trace_at_once():
    @cute.kernel
    def kernel(x, n):
        cute.launch(grid=1, block=32)
        for k in cute.range(n):
            for j in range(20):
                x[k + j] = k

    found = {}

    def trace_of(n):
        found[n] = cute.trace(kernel, X, n).body[0].stop

    threads = [threading.Thread(target=trace_of, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: n for n in range(1, 9)}


def test_the_condition_of_a_while_loop_is_printed_with_what_it_reads():
    def body(x):
        count = cute.var(0)
        with cute.while_(lambda: count.get() < 4):
            count.set(count.get() + 1)

    assert recorded(body) == [
        "v0 := 0",
        "while n0 < 4",
        "n0 = var(v0)",
        "do",
        "n1 = var(v0)",
        "v0 := n1+1",
    ]


# -- where a frame stands


def hot_branch(x):
    seen = 0
    with cute.when(cute.thread_idx() < 7):
        seen = 1
    x[seen] = 1


def hot_loop(x):
    seen = 0
    for _k in cute.range(x.shape[0] - 4):
        seen = 1
    x[seen] = 1


def hot_while(x):
    count, seen = cute.var(0), 0
    with cute.while_(lambda: count.get() < 4):
        x[seen] = 1
        seen = 1
        count.set(count.get() + 1)


def hot_iteration(x):
    for i, _k in enumerate(cute.range(4)):
        x[i] = 1


@pytest.mark.parametrize("body", [hot_branch, hot_loop, hot_while, hot_iteration])
def test_code_that_the_interpreter_has_specialised_is_refused_as_well(body):
    """After some calls, a frame stands in the inline cache of an instruction."""
    codes = {raised(lambda: traced(body)).code for _ in range(100)}
    assert len(codes) == 1
    assert codes <= {"trace-rebound", "trace-iterated"}
