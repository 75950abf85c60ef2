"""Known calls are launched without a look at their arguments, and never by a stale plan."""

import dataclasses
import enum
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cute_py as cute
from cute_py.calls import arrays, memo
from cute_py.calls.fingerprint.dependencies import Dependencies
from cute_py.calls.fingerprint.names import names_in
from cute_py.calls.fingerprint.values import is_frozen
from tests.fake_gpu import Array, install


@pytest.fixture(params=[False, True], ids=["facts", "guards"])
def gpu(monkeypatch, request):
    return install(monkeypatch, request.param)


def scaled():
    @cute.kernel
    def scale(x, y, alpha: cute.f32, n: cute.s32, flag: cute.b1, config=None):
        cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
        i = cute.block_idx() * 128 + cute.thread_idx()
        with cute.when((i < n) & flag):
            y[i] = x[i] * alpha
        if config is not None:
            y[0] = 1.0

    return scale


def known(kernel):
    return sum(len(signature.entries) for signature in kernel.calls().kept.values())


X, Y = Array((1000,)), Array((1000,), address=8192)


class Whole(Exception):
    """The call went the whole way."""


@pytest.fixture
def is_quick(monkeypatch):
    """Return whether a call is launched at once."""

    def ask(kernel, *args):
        with monkeypatch.context() as patch:
            patch.setattr(type(kernel), "_run", lambda *_a: (_ for _ in ()).throw(Whole))
            try:
                kernel(*args)
            except Whole:
                return False
        return True

    return ask


def test_a_call_that_was_made_before_is_launched_at_once(gpu, is_quick):
    scale = scaled()
    scale(X, Y, 2.0, 5, True)
    assert is_quick(scale, X, Y, 3.5, -7, False)
    assert is_quick(scale, Array((1000,), address=1 << 40), Y, 3.0, 0, True)
    first, second, third = gpu.raw.launches
    assert first[:3] == second[:3] == (0, (8, 1, 1), 0)
    assert np.array([second[3][4]], np.uint64).view(np.float32)[0] == 3.5
    assert np.array([second[3][5]], np.uint64).view(np.int64)[0] == -7
    assert (second[3][6], third[3][6]) == (0, 1)
    assert third[3][0] == 1 << 40


@pytest.mark.parametrize(
    "other",
    [
        Array((1001,)),
        Array((1000,), np.float16),
        Array((1000,), strides=(8,)),
        Array((1000,), address=4096 + 4),
        Array((1000, 1)),
    ],
    ids=["shape", "type", "stride", "alignment", "rank"],
)
def test_other_facts_of_an_array_go_the_whole_way(gpu, is_quick, other):
    @cute.kernel
    def touch(x):
        cute.launch(grid=x.shape[0], block=32)

    touch(X)
    assert is_quick(touch, X)
    assert not is_quick(touch, other)
    touch(other)
    assert is_quick(touch, other)
    assert is_quick(touch, X)


def test_another_device_goes_the_whole_way(gpu, is_quick):
    @cute.kernel
    def touch(x):
        cute.launch(grid=x.shape[0], block=32)

    touch(X)
    there = Array((1000,), device=1)
    assert not is_quick(touch, there)
    touch(there)
    assert is_quick(touch, there)
    assert [launch[0] for launch in gpu.raw.launches] == [0, 1, 1]


@pytest.mark.parametrize(
    ("alpha", "n", "flag"), [(1e39, 1, True), (1.0, 2**31, True), (1.0, 1.5, True), (1.0, 1, 2)]
)
def test_numbers_are_checked_at_known_calls(gpu, alpha, n, flag):
    scale = scaled()
    scale(X, Y, 2.0, 5, True)
    with pytest.raises(cute.CuteError) as caught:
        scale(X, Y, alpha, n, flag)
    assert caught.value.code == "kernel-number"
    assert len(gpu.raw.launches) == 1


def test_numbers_of_numpy_and_infinities_are_taken(gpu):
    scale = scaled()
    for alpha in (np.float32(2), float("inf"), 10**30, float("nan")):
        scale(X, Y, alpha, np.int64(3), True)
    words = [launch[3][4] for launch in gpu.raw.launches]
    held = np.array(words, np.uint64).view(np.float32)[::2]
    np.testing.assert_array_equal(held, np.array([2, np.inf, 1e30, np.nan], np.float32))


class Color(enum.Enum):
    RED = 1
    LIST = (1, [2])


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int = 1
    parts: tuple = (1, 2)


@dataclasses.dataclass
class Open:
    n: int = 1


class Live:
    value = 1

    def __get__(self, instance, owner=None):
        return self.value

    def __set__(self, instance, value):
        pass


@dataclasses.dataclass(frozen=True)
class Hooked:
    n: int = Live()


@pytest.mark.parametrize(
    ("value", "frozen"),
    [
        (1, True),
        ("a", True),
        (None, True),
        (cute.f16, True),
        (cute.Layout((2, 3)), True),
        (cute.Swizzle(2, 3, 3), True),
        (cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN"), True),
        (cute.Copy_Atom("UniversalCopy<64>", "f16"), True),
        ((1, (2.0, "b")), True),
        (frozenset({1}), True),
        (Color.RED, True),
        (Frozen(), True),
        (int, True),
        (Color.LIST, False),
        (Frozen(parts=[1]), False),
        (Open(), False),
        ([1], False),
        ((1, [2]), False),
        ({"a": 1}, False),
        (object(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_values_that_cannot_change_are_known_by_identity(gpu, is_quick, value, frozen):
    assert is_frozen(value) is frozen

    @cute.kernel
    def touch(x, value):
        cute.launch(grid=1, block=32)

    touch(X, value)
    assert is_quick(touch, X, value) is frozen


def test_a_function_is_known_by_identity_while_it_stays_as_it_is(gpu, is_quick):
    """It may change, so what it depends on is compared at each call."""

    @cute.kernel
    def touch(x, value):
        cute.launch(grid=value(), block=32)

    def one():
        return 1

    assert not is_frozen(one)
    touch(X, one)
    assert is_quick(touch, X, one)
    one.__code__ = (lambda: 2).__code__
    assert not is_quick(touch, X, one)
    touch(X, one)
    assert gpu.raw.launches[-1][1][0] == 2


def test_a_record_whose_field_is_computed_is_not_frozen():
    assert Hooked().n == 1
    assert not is_frozen(Hooked())


def test_numbers_that_are_equal_but_not_alike_are_apart(gpu, is_quick):
    @cute.kernel
    def touch(x, value):
        cute.launch(grid=1, block=32)

    values = [1, True, 1.0, 0, 0.0, -0.0, False, "1", None]
    for value in values:
        touch(X, value)
    assert known(touch) == len(values)
    assert len(touch.plans) == len(values)
    assert all(is_quick(touch, X, value) for value in values)


def test_an_equal_value_elsewhere_has_the_same_plan(gpu):
    @cute.kernel
    def touch(x, value):
        cute.launch(grid=1, block=32)

    touch(X, Frozen(3))
    touch(X, Frozen(3))
    assert len(touch.plans) == 1


SCALE, KIND, TABLE = 1, cute.f32, [1]


def test_globals_and_captured_values_are_watched(gpu, is_quick):
    global SCALE, KIND
    captured = 1

    @cute.kernel
    def touch(x):
        cute.launch(grid=SCALE, block=32)
        cute.rmem(KIND, 4).fill(captured)

    changes = []
    for _ in range(2):
        touch(X)
        changes.append(is_quick(touch, X))
        SCALE = 2
        changes.append(is_quick(touch, X))
        touch(X)
        KIND = cute.f16
        changes.append(is_quick(touch, X))
        touch(X)
        captured = 2
        changes.append(is_quick(touch, X))
        touch(X)
        changes.append(is_quick(touch, X))
        SCALE, KIND, captured = 1, cute.f32, 1
    assert changes == [True, False, False, False, True] * 2
    assert len(touch.plans) == 4
    assert {launch[1] for launch in gpu.raw.launches} == {(1, 1, 1), (2, 1, 1)}


def test_a_list_from_around_a_kernel_keeps_its_calls_from_being_known(gpu, is_quick):
    @cute.kernel
    def touch(x):
        cute.launch(grid=TABLE[0], block=32)

    touch(X)
    assert not is_quick(touch, X)
    TABLE[0] = 3
    touch(X)
    TABLE[0] = 1
    assert [launch[1][0] for launch in gpu.raw.launches] == [1, 3]


def test_a_name_that_comes_up_later_is_noticed(gpu, is_quick):
    @cute.kernel
    def touch(x):
        cute.launch(grid=1, block=max(32, 1))

    touch(X)
    globals()["max"] = lambda *_a: 64
    try:
        assert not is_quick(touch, X)
    finally:
        del globals()["max"]
    assert is_quick(touch, X)


def test_only_names_that_are_loaded_as_globals_are_watched():
    def outer(x):
        y = x.TABLE
        return [SCALE for _ in y] + [lambda: KIND]

    assert names_in(outer.__code__).globals == ("KIND", "SCALE")
    seen = Dependencies(outer).snapshot()
    assert [name for _get, name, _value in seen.items] == ["KIND", "SCALE"]
    assert seen.unchanged()
    assert seen.stable


def test_annotations_are_evaluated_anew_when_their_names_change(gpu):
    scope = {"cute": cute, "KIND": cute.f32}
    text = "def f(x, a: 'KIND'):\n    cute.launch(grid=1, block=32)\n    x[0] = a\n"
    exec(text, scope)
    touch = cute.kernel(scope["f"])
    touch(X, 1.0)
    scope["KIND"] = cute.s32
    with pytest.raises(cute.CuteError):
        touch(X, 1.0)


@pytest.mark.parametrize("given", [(), (1, 2, 3)])
def test_a_wrong_count_of_arguments_is_refused_when_calls_are_known(gpu, given):
    @cute.kernel
    def touch(x, n=1):
        cute.launch(grid=1, block=32)

    touch(X, 1)
    touch(X)
    with pytest.raises(cute.CuteError) as caught:
        touch(*given) if not given else touch(X, *given)
    assert caught.value.code == "kernel-arguments"


def test_keywords_groups_and_host_arrays_go_the_whole_way(gpu, is_quick):
    @cute.kernel
    def touch(x, more=None):
        cute.launch(grid=1, block=32)

    touch(x=X)
    touch((X, Y))
    touch([X])
    touch(np.zeros(8, np.float32))
    assert known(touch) == 0
    assert len(gpu.raw.launches) == 3
    touch(X)
    assert is_quick(touch, X)
    assert not is_quick(touch, (X, Y))


def test_promised_alignment_beyond_16_bytes_is_checked_at_known_calls(gpu):
    @cute.kernel
    def touch(x: cute.spec(alignment=128)):
        cute.launch(grid=1, block=32)

    touch(X)
    touch(Array((1000,), address=4096 + 128))
    with pytest.raises(cute.CuteError) as caught:
        touch(Array((1000,), address=4096 + 64))
    assert caught.value.code == "argument-promise"


def test_arrays_read_as_another_type_are_known(gpu, is_quick):
    @cute.kernel
    def touch(x):
        cute.launch(grid=1, block=32)

    touch(cute.typed(X, "tf32"))
    assert is_quick(touch, cute.typed(Y, "tf32"))
    assert not is_quick(touch, X)


def test_arrays_whose_type_is_annotated_are_known(gpu, is_quick):
    @cute.kernel
    def touch(x: cute.f32, n: cute.s32):
        cute.launch(grid=1, block=32)

    for x in (X, cute.typed(X, "f32")):
        touch(x, 1)
        assert is_quick(touch, x, 2)
    with pytest.raises(cute.CuteError):
        touch(X, Y)
    assert is_quick(touch, Y, 3)
    assert known(touch) == 2


def test_a_kernel_of_a_class_is_known_for_its_object(gpu, is_quick):
    @dataclasses.dataclass(frozen=True)
    class Touch:
        blocks: int

        @cute.kernel
        def run(self, x):
            cute.launch(grid=self.blocks, block=32)

    one, two = Touch(1), Touch(2)
    for touch in (one, two, one, two):
        touch.run(X)
    assert [launch[1][0] for launch in gpu.raw.launches] == [1, 2, 1, 2]
    assert known(Touch.__dict__["run"]) == 2


def test_known_calls_are_bounded(gpu, monkeypatch):
    monkeypatch.setattr(memo, "MOST", 4)
    monkeypatch.setattr(sys.modules["cute_py.trace.kernel"], "MOST_PLANS", 6)

    @cute.kernel
    def touch(x, n):
        cute.launch(grid=n, block=32)

    for n in range(1, 11):
        touch(X, n)
    assert known(touch) <= 4
    assert len(touch.plans) <= 6
    touch(X, 1)
    assert gpu.raw.launches[-1][1] == (1, 1, 1)


def test_a_call_is_kept_while_another_thread_evicts_all(gpu, monkeypatch):
    @cute.kernel
    def touch(x, n):
        cute.launch(grid=n, block=32)

    def evicted(_args, check):
        touch.calls().kept.clear()
        return check

    monkeypatch.setattr(memo, "outside_autograd", evicted)
    touch(X, 1)
    touch(X, 2)
    assert [launch[1] for launch in gpu.raw.launches] == [(1, 1, 1), (2, 1, 1)]


def copier():
    @cute.kernel
    def copy(x, y):
        cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
        i = cute.block_idx() * 128 + cute.thread_idx()
        with cute.when(i < x.shape[0]):
            y[i] = x[i]

    return copy


def test_guards_stand_for_the_facts_of_the_call_before(monkeypatch, is_quick):
    gpu, copy = install(monkeypatch, guarded=True), copier()
    for _ in range(5):
        copy(X, Y)
    assert gpu.guards == 1
    other = Array((1001,)), Array((1001,), address=8192)
    copy(*other)
    assert gpu.guards == 1  # made when the call is found again
    for args in [(X, Y), other, (Y, X), other]:
        assert is_quick(copy, *args)
    assert gpu.guards == 2
    assert [launch[3][1] for launch in gpu.raw.launches[5:]] == [1001, 1000, 1001, 1000, 1001]


def test_calls_that_come_in_turns_are_found_by_the_call_before(monkeypatch):
    """Four shapes in turns: after two turns no key is read."""
    gpu, copy = install(monkeypatch, guarded=True), copier()
    shapes = [(1000,), (500,), (1001,), (7,)]
    turn = [(Array(shape), Array(shape, address=8192)) for shape in shapes]
    for _ in range(3):
        for args in turn:
            copy(*args)
    assert gpu.guards == len(shapes)
    monkeypatch.setattr(type(copy), "_run", lambda *_a: pytest.fail("went the whole way"))
    for signature in copy.calls().kept.values():
        monkeypatch.setattr(signature, "read", lambda _args: pytest.fail("read a key"))
    for args in turn * 2:
        copy(*args)
    assert [words[1] for *_rest, words in gpu.raw.launches[-8:]] == [1000, 500, 1001, 7] * 2


def test_a_guard_that_knows_no_array_again_costs_time_alone(monkeypatch, is_quick):
    """A guard may ask for more than the facts: torch's ask for the modes that arrays were made in,
    and for arrays that differ.
    """
    gpu, copy = install(monkeypatch), copier()
    never = dataclasses.replace(gpu.library, guard=lambda _arrays: lambda *_others: False)
    monkeypatch.setitem(arrays.LIBRARIES, Array, never)
    for _ in range(3):
        copy(X, Y)
    assert is_quick(copy, Y, X)
    assert [launch[3][0] for launch in gpu.raw.launches] == [4096] * 3 + [8192]


def test_addresses_that_are_aligned_alike_are_told_from_others(gpu, is_quick):
    copy = copier()
    near, far = Array((1000,), address=4096 + 4), Array((1000,), address=8192 + 4)
    for args in [(X, Y), (near, Y), (X, far)]:
        assert not is_quick(copy, *args)
        copy(*args)
        assert all(is_quick(copy, *args) for _ in range(2))
    assert len(copy.plans) == 3
    assert not is_quick(copy, near, far)
    assert is_quick(copy, Array((1000,), address=1 << 30), far)


def test_threads_that_call_one_kernel_do_not_mix_their_arguments(gpu, monkeypatch):
    """Arrays of two shapes, calls that are known: each launch has the sizes of its addresses."""
    original = type(gpu.raw).cuLaunchKernelEx

    def delayed(raw, *args):
        time.sleep(0.0005)
        return original(raw, *args)

    copy, count = copier(), 40
    copy(X, Y)
    copy(Array((500,)), Array((500,)))
    monkeypatch.setattr(type(gpu.raw), "cuLaunchKernelEx", delayed)

    def work(number):
        for i in range(count):
            n, place = (1000, 500)[(i + number) % 2], 4096 * (2 + 2 * (count * number + i))
            copy(Array((n,), address=place + n * 1024 * 1024), Array((n,), address=place))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    launches = [(grid, words) for _device, grid, _stream, words in gpu.raw.launches[2:]]
    assert len(launches) == 4 * count
    assert len({words[0] for _grid, words in launches}) == 4 * count
    for (blocks, *_), (x, n, y, *_) in launches:
        assert x - y == n * 1024 * 1024
        assert blocks == -(-n // 128)


def entry_of(kernel, *args):
    """Return what is kept of a call, None if it is not known."""
    calls = kernel.calls()
    signature = calls.kept.get(calls._types(args))
    read = signature and signature.read(args)
    return read and signature.entries.get(read[0])


CONFIGS = [Frozen(1), Frozen(2), Frozen(1), [1], [1, 2], 1, True, 0.0, -0.0, None, cute.Layout(4)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "scale", "captured", "list", "config"]),
        st.integers(0, 5),
        st.integers(0, len(CONFIGS) - 1),
        st.sampled_from([0, 4, 8]),
        st.floats(-4, 4, width=32) | st.integers(-3, 3),
    ),
    max_size=25,
)


@given(steps=STEPS, guarded=st.booleans())
@settings(max_examples=40)
def test_known_calls_have_the_plans_of_calls_that_go_the_whole_way(steps, guarded):
    """For random calls and changes, the plan launched is the one that `plan` finds."""
    with pytest.MonkeyPatch.context() as patch:
        gpu = install(patch, guarded)
        captured, configs, extents = 1, [*CONFIGS], (8, 8, 16, 24, 1000, 1001)

        @cute.kernel
        def touch(x, config, alpha: cute.f32):
            cute.launch(grid=captured + SCALE, block=32)
            x[0] = alpha

        global SCALE
        for step, i, c, shift, alpha in steps:
            if step == "scale":
                SCALE = i + 1
            elif step == "captured":
                captured = i
            elif step == "list" and isinstance(configs[c], list):
                configs[c].append(i)
            x = Array((extents[i],), address=4096 + shift)
            touch(x, configs[c], alpha)
            plan = cute.trace(touch, x, configs[c], alpha)
            _device, grid, _stream, words = gpu.raw.launches[-1]
            assert grid == (captured + SCALE, 1, 1)
            assert words[0] == x.address
            entry = entry_of(touch, x, configs[c], alpha)
            assert entry is None or entry.launch.compiled.plan is plan
            assert (entry is None) == isinstance(configs[c], list)
        SCALE = 1
        for config in CONFIGS[3:5]:
            del config[2:]


# -- gradients


class Mode:
    """Grad mode, which counts how often it is asked."""

    def __init__(self, monkeypatch):
        self.on, self.asked = False, 0
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(is_grad_enabled=self.ask))

    def ask(self):
        self.asked += 1
        return self.on


def followed(x, has_gradient=True):
    x = Array(x.shape, address=x.address)
    x.requires_grad = has_gradient
    return x


def test_a_kernel_takes_no_array_that_autograd_follows(gpu, monkeypatch):
    """Refused at the first call, at calls like earlier ones, and by `cute.run`; not by a trace."""
    scale, mode = scaled(), Mode(monkeypatch)
    plan = cute.trace(scale, followed(X), Y, 2.0, 5, True)
    calls = [
        lambda x, y: scale(x, y, 2.0, 5, True),
        lambda x, y: scale(x, y, 2.0, 5, flag=True),
        lambda x, y: cute.run(plan, x, y, 2.0, 5, True),
    ]
    mode.on = True
    for call in calls:
        call(X, Y)
    for mode.on in (True, False, False, True, False, False, True):
        for call in calls:
            for name, pair in (("x", (followed(X), Y)), ("y", (X, followed(Y)))):
                before = len(gpu.raw.launches)
                if mode.on:
                    with pytest.raises(cute.CuteError, match="requires_grad") as caught:
                        call(*pair)
                    assert caught.value.facts["name"] == name
                else:
                    call(*pair)
                assert len(gpu.raw.launches) == before + (not mode.on)
                call(X, Y)  # is accepted in any mode
    factor = SimpleNamespace(item=lambda: 2.0, requires_grad=True)
    with pytest.raises(cute.CuteError) as caught:
        scale(X, Y, factor, 5, True)
    assert caught.value.code == "argument-gradient"


def test_grad_mode_is_asked_once_a_call_and_for_gradients_alone(gpu, monkeypatch, is_quick):
    scale, mode = scaled(), Mode(monkeypatch)
    for _ in range(3):
        assert scale(X, Y, 2.0, 5, True) is None
    assert is_quick(scale, X, Y, 2.0, 5, True)
    assert mode.asked == 0
    x = followed(X)
    for _ in range(3):
        scale(x, Y, 2.0, 5, True)
    mode.asked = 0
    assert is_quick(scale, x, Y, 2.0, 5, True)
    assert mode.asked == 1
