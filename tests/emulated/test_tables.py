"""Tables of integers that the host computes, and a kernel indexes at run time."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.plan import ops
from cute_py.plan.params import MOST_TABLES
from cute_py.plan.plan import Plan
from cute_py.plan.serial import dumps, loads

RULES = {
    "number": lambda x, n, k: 7 - k,
    "stride": lambda x, n, k: k * x.stride[0] + 4 * k,
    "extents": lambda x, n, k: (x.shape[0] * x.shape[1] - k) // 3,
    "tiles": lambda x, n, k: cute.ceil_div(x.shape[1], k + 1) % 5,
    "least": lambda x, n, k: cute.min_(x.shape[0], k) - cute.max_(n, k),
    "argument": lambda x, n, k: n * (k - 1) - n // 2,
}


@cute.kernel
def entries(x, out, n: cute.s32, rule, count):
    """Thread t reads entry t % count, and block b entry b."""
    cute.launch(grid=count, block=32)
    table = cute.make_table([RULES[rule](x, n, k) for k in range(count)])
    t, b = cute.thread_idx(), cute.block_idx()
    out[b, t] = table[t % count] + 3 * table[b]


class Host:
    """An array of NumPy, with strides in elements."""

    def __init__(self, x):
        self.shape, self.stride = x.shape, tuple(s // x.itemsize for s in x.strides)


SHAPES = st.tuples(st.integers(1, 20), st.integers(1, 20))


@given(st.sampled_from(sorted(RULES)), SHAPES, st.integers(-(2**31), 2**31 - 1), st.integers(1, 9))
def test_an_entry_is_the_expression_that_made_it(rule, shape, n, count):
    x, out = np.zeros(shape, np.float32), np.zeros((count, 32), np.int64)
    plan = cute.trace(entries, x, out, n, rule, count)
    cute.emulate(plan, x, out, n)
    wanted = np.array([RULES[rule](Host(x), n, k) for k in range(count)])
    np.testing.assert_array_equal(out, wanted[np.arange(32) % count] + 3 * wanted[:, None])
    assert loads(dumps(plan)) == plan


def test_a_plan_lists_a_table_once():
    @cute.kernel
    def twice(x, out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        steps = [cute.make_table([k * x.stride[0] for k in range(4)]) for _ in range(2)]
        for j in cute.range(4):
            out[t] = (steps[0][t % 4] + steps[1][j]).to("s64")

    plan = cute.trace(twice, np.zeros((2, 9)), np.zeros(32, np.int64))
    assert plan.launch.tables == loads(dumps(plan)).launch.tables
    assert str(plan).count("  table ") == 1
    assert "table 0: 0,x_stride0,2*x_stride0,3*x_stride0" in str(plan)


def test_what_all_entries_share_is_known_of_the_result():
    @cute.kernel
    def vectors(x, out):
        cute.launch(grid=1, block=3)
        at = cute.make_table([k * x.stride[0] for k in range(3)])[cute.thread_idx()]
        row = cute.make_tensor(x.data + at, cute.Layout(8))
        held = cute.rmem("f32", 8)
        cute.copy(row, held)
        cute.copy(held, cute.local_tile(out, (1, 8), (cute.thread_idx(), 0))[0, cute._])

    x, out = np.arange(24, dtype=np.float32).reshape(3, 8), np.zeros((3, 8), np.float32)
    vectors(x, out)
    np.testing.assert_array_equal(x, out)
    (load,) = [op for op in cute.trace(vectors, x, out).ops if isinstance(op, ops.Load)]
    assert load.src.width == 4


def test_an_index_that_python_knows_gives_the_entry_itself():
    @cute.kernel
    def known(x, out):
        cute.launch(grid=1, block=1)
        table = cute.make_table([5, x.shape[0], 7])
        assert (table[0], len(table), [table[2], *table][0]) == (5, 3, 7)
        out[0] = table[1].to("s64")

    out = np.zeros(1, np.int64)
    plan = cute.trace(known, np.zeros(9), out)
    known(np.zeros(9), out)
    assert (out[0], plan.launch.tables) == (9, ())


@cute.kernel
def steps(x, out, start, count, index):
    cute.launch(grid=1, block=32)
    t, k = cute.thread_idx(), cute.as_int(x[0])
    table = cute.make_table([start(x, t, k) + i for i in range(count)])
    out[t] = table[index(t, k)].to("s64")


def refused(code, start, count, index):
    with pytest.raises(cute.CuteError) as caught:
        steps(np.full(1, 40, np.int32), np.zeros(32, np.int64), start, count, index)
    assert caught.value.code == code
    assert "test_tables.py:" in str(caught.value)
    return str(caught.value)


def test_entries_are_made_of_what_the_host_knows():
    for start in (lambda x, t, k: t, lambda x, t, k: k, lambda x, t, k: x.shape[0] ^ 3):
        assert "sizes, strides" in refused("table-entry", start, 3, lambda t, k: t % 3)
    refused("table-entry", lambda x, t, k: 0, 0, lambda t, k: t)


def test_a_table_of_another_kernel_is_refused():
    kept = []

    @cute.kernel
    def makes(x):
        cute.launch(grid=1, block=2)
        kept.append(cute.make_table([x.shape[0], 2]))

    @cute.kernel
    def takes(x, out):
        cute.launch(grid=1, block=2)
        out[cute.thread_idx()] = kept[0][cute.thread_idx()]

    cute.trace(makes, np.zeros(3))
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(takes, np.zeros(3), np.zeros(2, np.int64))
    assert caught.value.code == "trace-foreign"


def test_2_kb_are_passed_and_not_more():
    most = MOST_TABLES // 8
    assert most == 256
    x, out = np.full(1, 40, np.int32), np.zeros(32, np.int64)
    steps(x, out, lambda x, t, k: x.shape[0], most, lambda t, k: 255 - t)
    np.testing.assert_array_equal(out, 256 - np.arange(32))
    text = refused("plan-tables", lambda x, t, k: x.shape[0], most + 1, lambda t, k: t)
    assert "2056 bytes" in text
    assert "at most 2048" in text


def test_an_index_outside_of_a_table_is_refused():
    for index in (lambda t, k: 4, lambda t, k: -1, lambda t, k: t + 4):
        assert "0 <= index < 4" in refused("table-index", lambda x, t, k: 1, 4, index)
    for index, found in ((lambda t, k: k, 40), (lambda t, k: t, 4), (lambda t, k: t - 3, -3)):
        assert f"the index {found}," in refused("emulate-table", lambda x, t, k: 1, 4, index)


def test_lanes_that_take_no_part_read_no_entry():
    @cute.kernel
    def some(out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        table = cute.make_table([10 * k for k in range(4)])
        with cute.when(t < 4):
            out[t] = table[t].to("s64")

    out = np.zeros(4, np.int64)
    some(out)
    assert out.tolist() == [0, 10, 20, 30]


def test_a_loop_whose_bound_is_an_entry_has_barriers():
    """Threads agree on an entry where they agree on the index."""

    @cute.kernel
    def trips(x, out):
        cute.launch(grid=2, block=64)
        table = cute.make_table([x.shape[0], 3])
        for _k in cute.range(table[cute.block_idx()]):
            cute.syncthreads()
            out[cute.block_idx(), cute.thread_idx()] += 1

    out = np.zeros((2, 64), np.int32)
    trips(np.zeros(5), out)
    assert out.tolist() == [[5] * 64, [3] * 64]


def test_a_file_with_a_wrong_table_is_refused():
    x, out = np.full(1, 40, np.int32), np.zeros(32, np.int64)
    how = lambda x, t, k: x.shape[0], 4, lambda t, k: t % 4
    plan = cute.trace(steps, x, out, *how)
    text = dumps(plan)
    (op,) = [op for op in plan.ops if isinstance(op, ops.Let) and op.kind == "table"]
    assert str(op) == f"{op.var} = table(0, tid%4)"
    wrong = {
        r'\["table", 0': r'["table", 1',
        r'"kind": "table", "operands": \[0': r'"kind": "table", "operands": [2',
        r"x_shape0\+3": "tid+3",
        r"x_shape0\+2": f"x_shape0+{2**63}",
    }
    found = [re.subn(pattern, by, text) for pattern, by in wrong.items()]
    changed = [text for text, count in found if count]
    assert len(changed) == 3
    for each in changed:
        with pytest.raises(cute.CuteError) as caught:
            loads(each)
        assert caught.value.code in ("plan-op", "plan-integer")
    assert isinstance(loads(text), Plan)
