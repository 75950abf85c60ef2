"""What a plan is kept by: arrays by what is found of them, compile-time values by what they hold;
the names of parameters; and the places in which a kernel may be written.
"""

import collections
import dataclasses
import threading
import time
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from cute_py.calls.fingerprint import static_key
from tests.kernel_refusals import ARRAYS, ops_of, raised

X, F = ARRAYS["x"], ARRAYS["f"]


def kernel_of(body):
    """Return a kernel of one block that runs `body(x, value)`."""

    @cute.kernel
    def run(x, value):
        cute.launch(grid=1, block=32)
        body(x, value)

    return run


# -- keys


class Plain:
    def __init__(self, n):
        self.n = n


@dataclasses.dataclass
class Tile:
    n: int = 1
    shape: tuple = (1, 2)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, True),
        (1, 1.0),
        ((1,), (True,)),
        ((1,), (1.0,)),
        ([1], (1,)),
        (0.0, -0.0),
        ([0.0], [-0.0]),
        ({"a": 1}, {"a": 2}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Plain(1), Plain(2)),
        (Tile(1), Tile(2)),
        (Tile(shape=[1]), Tile(shape=(1,))),
        (cute.Layout(4), cute.Layout(4, 2)),
        (cute.f32, cute.f16),
        (lambda v: v * 2, lambda v: v * 3),
        ("1", 1),
    ],
)
def test_values_that_differ_have_keys_that_differ(a, b):
    assert static_key(a) != static_key(b)
    assert hash(static_key(a)) is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda: [1, {"a": (2, 3)}],
        lambda: Plain([1, 2]),
        lambda: Tile(3),
        lambda: float("nan"),
        lambda: cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1)),
        lambda: lambda v: v * 2,
        lambda: {1, 2, 3},
        lambda: Plain(1).__init__,
    ],
)
def test_values_that_are_alike_have_one_key(make):
    assert static_key(make()) == static_key(make())


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1], lambda v: v.append(2)),
        ({"n": 1}, lambda v: v.update(n=2)),
        (Plain(1), lambda v: setattr(v, "n", 2)),
        (Tile(1), lambda v: setattr(v, "n", 2)),
        (Plain([1]), lambda v: v.n.append(2)),
    ],
)
def test_a_value_that_was_changed_is_traced_anew(value, change):
    kernel = kernel_of(lambda x, value: x.__setitem__(0, 1))
    cute.trace(kernel, X, value)
    cute.trace(kernel, X, value)
    change(value)
    cute.trace(kernel, X, value)
    assert len(kernel.plans) == 2


SCALE = 1


def test_a_global_or_captured_number_that_was_changed_is_traced_anew():
    global SCALE
    captured = 1

    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        x[0] = SCALE
        x[1] = captured

    first = cute.trace(kernel, X)
    SCALE = 2
    second = cute.trace(kernel, X)
    captured = 2
    third = cute.trace(kernel, X)
    SCALE, captured = 1, 1
    assert len({first, second, third}) == 3
    assert cute.trace(kernel, X) is first


def helper(x):
    x[0] = helper.scale + getattr(helper, "more", 0)


def test_attributes_of_a_function_count():
    helper.scale = 1

    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        helper(x)

    def change(name, value):
        setattr(helper, name, value)
        return cute.trace(kernel, X)

    plans = [change("scale", 1), change("scale", 2), change("more", 1), change("more", 2)]
    assert len(set(plans)) == len(kernel.plans) == 4
    change("other", 3)
    assert len(kernel.plans) == 4
    vars(helper).clear()


def test_an_attribute_that_a_module_gets_later_counts(monkeypatch):
    module = ModuleType("of_the_user")
    monkeypatch.setitem(globals(), "of_the_user", module)

    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        x[0] = getattr(of_the_user, "scale", 1)  # noqa: F821

    first = cute.trace(kernel, X)
    module.scale = 2
    assert cute.trace(kernel, X) != first


def test_one_kernel_is_traced_for_each_type_and_alignment():
    kernel = kernel_of(lambda x, value: x.__setitem__(0, value))
    for array in (X, F, np.zeros(64, np.float16), F[1:], X):
        cute.trace(kernel, array, 1)
    assert len(kernel.plans) == 4
    assert {p.params[0].dtype.name for p in kernel.plans.values()} == {"s32", "f32", "f16"}


def test_arrays_of_other_sizes_share_a_plan():
    kernel = kernel_of(lambda x, value: x.__setitem__(0, value))
    for size in (64, 128, 4096):
        cute.trace(kernel, np.zeros(size, np.float32), 1)
    assert len(kernel.plans) == 1


# -- groups of arrays

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass(frozen=True)
class Operands:
    first: object
    second: object
    alpha: cute.f32 = 1.0
    steps: int = dataclasses.field(init=False, default=3)


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ((X, X), ["value_0", "value_1"]),
        ([X, X], ["value_0", "value_1"]),
        (Pair(X, X), ["value_0", "value_1"]),
        ({"first": X, "second": X}, ["value_first", "value_second"]),
        (Operands(X, X), ["value_first", "value_second", "value_alpha"]),
    ],
)
def test_arrays_in_groups_are_parameters(group, names):
    def body(x, value):
        parts = value.values() if isinstance(value, dict) else value
        if dataclasses.is_dataclass(value):
            parts = value.first, value.second
            assert value.steps == 3
        first, second = parts
        first[0] = second[1]

    kernel = kernel_of(body)
    plan = cute.trace(kernel, X, group)
    assert [p.name for p in plan.params] == ["x", *names]
    assert len(kernel.leaves(X, group)) == len(plan.params)
    assert ops_of(plan)[-1].startswith(f"store {names[0]}[0 + [0]] = ")


@pytest.mark.parametrize(
    "value", [np.float32, ml_dtypes.bfloat16, np.dtype("f4"), {"kind": np.float16}, np.ndarray]
)
def test_classes_with_the_attributes_of_arrays_are_compile_time_values(value):
    @cute.kernel
    def told(x, kind):
        cute.launch(grid=1, block=32)
        x[cute.thread_idx()] = 1.0
        assert kind == value

    assert [p.name for p in cute.trace(told, np.zeros(32, np.float32), value).params] == ["x"]


def test_names_in_a_plan_do_not_meet():
    @cute.kernel
    def kernel(tid: cute.s32, m0: cute.s32, a, a_0, A_shape0: cute.s32, A, x0: cute.f32, s0):
        cute.launch(grid=1, block=32)
        count, shared = cute.var(0), cute.smem("s32", 4)
        shared[0] = 1
        a[0][cute.thread_idx()] = a_0[tid]
        A[m0] = x0 * 2.0
        s0[count.get() + A_shape0] = shared[0]

    plan = cute.trace(kernel, 1, 2, (X,), X, 3, F, 1.5, X)
    params = [p.name for p in plan.params]
    assert params == ["tid_", "m0", "a_0", "a_0_", "A_shape0", "A_", "x0", "s0"]
    assert not {r.name for r in plan.storages} & {*params}
    assert [s.name for s in plan.shared] == ["s1"]
    text = ops_of(plan)
    assert "m1 = var(v0)" in text
    assert any("load a_0_[tid_ + [0]]" in line for line in text)
    assert any(line.startswith("store a_0[tid + [0]]") for line in text)


def test_a_run_time_flag_is_a_condition():
    @cute.kernel
    def kernel(x, flag: cute.b1):
        cute.launch(grid=1, block=32)
        with cute.when(flag):
            x[0] = 1

    assert ops_of(cute.trace(kernel, X, True))[0] == "if flag != 0"


def test_default_and_keyword_arguments():
    @cute.kernel
    def kernel(x, n=2, *rest, m=3, **more):
        cute.launch(grid=1, block=32)
        x[n] = m + len(rest) + len(more)

    plans = [
        cute.trace(kernel, X),
        cute.trace(kernel, X, 2, m=3),
        cute.trace(kernel, X, 2, 7, m=2),
        cute.trace(kernel, X, m=2, other=F),
    ]
    assert plans[0] is plans[1]
    assert [ops_of(p)[0] for p in plans] == ["x0[0] = 3"] * 4
    assert [p.name for p in plans[3].params] == ["x", "more_other"]


MULTIPLE = [4]


def test_annotations_given_as_text_are_evaluated_again_when_a_list_in_them_changes():
    @cute.kernel
    def kernel(x: "cute.spec(divisible_by=MULTIPLE[0])"):
        cute.launch(grid=1, block=32)
        x[0] = 1.0

    cute.trace(kernel, F[:36])
    MULTIPLE[0] = 32
    assert raised(lambda: cute.trace(kernel, F[:36])).code == "argument-promise"


# -- where a kernel may stand


class Kernels:
    n = 3

    @cute.kernel
    def method(self, x):
        cute.launch(grid=1, block=32)
        for i in range(self.n):
            x[i] = i

    @staticmethod
    @cute.kernel
    def static(x):
        cute.launch(grid=1, block=32)
        x[0] = 1


def test_a_kernel_of_a_class():
    kernels = Kernels()
    plan = cute.trace(kernels.method, X)
    assert plan == cute.trace(Kernels.method, kernels, X)
    assert len(plan.body) == 6
    kernels.n = 4
    assert len(cute.trace(kernels.method, X).body) == 8
    assert len(cute.trace(Kernels.static, X).body) == 2


def test_a_kernel_at_the_prompt():
    text = (
        "@cute.kernel\n"
        "def kernel(x):\n"
        "    cute.launch(grid=1, block=32)\n"
        "    for k in cute.range(4):\n"
        "        x[k] = 1\n"
        "    x[cute.thread_idx() // 0] = 1\n"
    )
    names = {"cute": cute}
    exec(text, names)
    assert str(raised(lambda: cute.trace(names["kernel"], X))).endswith("(<string>:6)")


def test_a_recursive_helper_unrolls():
    def down(x, n):
        if n:
            x[n] = n
            down(x, n - 1)

    kernel = kernel_of(down)
    assert len(cute.trace(kernel, X, 3).body) == 6
    too_late = kernel_of(lambda x, value: down(x, cute.thread_idx()))
    assert raised(lambda: cute.trace(too_late, X, 0)).code == "trace-python"


def test_threads_that_call_at_the_same_time_trace_once():
    """Else one kernel would be compiled for each of them."""
    started = threading.Barrier(4)
    plans = []

    @cute.kernel
    def slow(x):
        time.sleep(0.05)
        cute.launch(grid=1, block=32)
        x[cute.thread_idx()] = 1.0

    def work():
        started.wait()
        plans.append(slow.plan(np.zeros(32, np.float32)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(plans) == 4
    assert len(set(map(id, plans))) == 1
    assert list(map(id, slow.plans.values())) == [id(plans[0])]
