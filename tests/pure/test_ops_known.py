"""Known requests of `cute.ops.gemm`: launched with new addresses, and never by a stale choice."""

import gc
import random
import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import cute_py as cute
from benchmarks import bench_operator
from cute_py import emulate
from cute_py.calls import arrays, memo
from cute_py.codegen.driver import streams
from cute_py.kernels.attention_varlen import attention_sm90_varlen
from cute_py.kernels.config import GemmConfig, MultistageConfig
from cute_py.kernels.config_sm90 import WarpgroupConfig
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm import gemm
from cute_py.kernels.gemm_sm90 import KERNELS
from cute_py.kernels.gemm_split import gemm_split
from cute_py.ops import Status, libraries, operator, product, workspaces
from cute_py.ops.attention_sequences import AttentionVarlen
from cute_py.ops.product import KNOWN
from tests import fake_gpu
from tests.gpu_arrays import small_tiles


class Matrix:
    """A matrix of a GPU, without memory; its views and copies are such, too."""

    is_cuda, requires_grad, made = True, False, []

    def __init__(self, shape, kind=np.float16, strides=None, address=1 << 20):
        self.dtype, self.shape, self.address = np.dtype(kind), tuple(shape), address
        size = self.dtype.itemsize
        compact = [size * int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
        self.strides, self.itemsize = tuple(strides or compact), size
        self.device = DEVICE

    def like(self, shape, strides):
        return type(self)(shape, self.dtype, strides, self.address)

    def swapaxes(self, _first, _second):
        return self.like(
            (*self.shape[:-2], *self.shape[:-3:-1]), (*self.strides[:-2], *self.strides[:-3:-1])
        )

    def reshape(self, shape):
        if len(self.shape) == 1:
            return type(self)(shape, self.dtype, None, self.address)
        more = len(shape) - len(self.shape)
        if more == 0 and self.shape[0] == 1 != shape[0]:  # one matrix, with K in parts
            _one, by_row, by_column = self.strides
            return self.like(shape, (by_row, by_column * shape[2], by_column))
        if more < 0:
            return self.like(shape, self.strides[-len(shape) :])
        return self.like(shape, (0,) * more + self.strides)

    def transpose(self, *modes):
        modes = modes[0] if isinstance(modes[0], tuple) else modes
        return self.like([self.shape[i] for i in modes], [self.strides[i] for i in modes])

    def copy(self):
        return made(self.shape, self.dtype)

    def __getitem__(self, index):
        if index is None:
            return self.like((1, *self.shape), (0, *self.strides))
        if len(self.shape) == 1 and index is not Ellipsis:
            return self.like((min(index.stop, self.shape[0]),), self.strides)
        if index == slice(None, 1):
            return self.like((1, *self.shape[1:]), self.strides)
        assert index == 0
        return self.like(self.shape[1:], self.strides[1:])

    def __setitem__(self, index, value):
        Matrix.made.append("copied to")


class Followed(Matrix):
    requires_grad = True


class Device:
    def __enter__(self):
        pass

    def __exit__(self, *_error):
        pass


DEVICE = Device()


def made(shape, kind):
    """Return a new matrix at an address of its own."""
    Matrix.made.append("made")
    return Matrix(shape, kind, address=(1 << 30) + (len(Matrix.made) << 24))


def spread(x, shape):
    more = len(shape) - len(x.shape)
    sizes = zip(x.shape, shape[more:], x.strides, strict=True)
    return x.like(shape, (0,) * more + tuple(s if n == m else 0 for n, m, s in sizes))


@pytest.fixture(params=[(8, 0), (9, 0)], ids=["sm_80", "sm_90a"])
def gpu(request, monkeypatch):
    """The machine, without tensor maps and with; its launches are (device, grid, stream, words)."""
    fake = fake_gpu.install(monkeypatch)
    for name, number in zip(("MAJOR", "MINOR"), request.param, strict=True):
        monkeypatch.setitem(fake_gpu.LIMITS, f"COMPUTE_CAPABILITY_{name}", number)
    small_tiles(monkeypatch)
    fake.by_tma = request.param == (9, 0)
    fake.kernel = KERNELS["cooperative"] if fake.by_tma else gemm
    fake.times = 1 + fake.by_tma  # that an address is among the words: in its tensor map, too
    fake.all_times = [
        fake.times + fake.by_tma,
        fake.times,
        fake.times,
    ]  # A has a map of small boxes
    facts = (("dtype",), ("shape",), ("strides",), ("requires_grad",))
    library = arrays.Library(
        "fake", ("address",), facts, lambda x: 0, lambda d: lambda: fake.stream, lambda: 0
    )
    for kind in (Matrix, Followed):
        monkeypatch.setitem(arrays.LIBRARIES, kind, library)
        monkeypatch.setitem(arrays.READERS, kind, library.reader())
    cupy = SimpleNamespace(empty=lambda shape, kind: made(shape, kind), broadcast_to=spread)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(fake_gpu.LIMITS, "MULTIPROCESSOR_COUNT", 132)
    monkeypatch.setattr(libraries, "driver", lambda: streams.driver())
    monkeypatch.setattr(workspaces, "driver", lambda: streams.driver())
    monkeypatch.setattr(workspaces, "_held", {})
    for kernel in (gemm, gemm_split, *KERNELS.values()):
        monkeypatch.setattr(kernel, "_calls", None)
    monkeypatch.setattr(Matrix, "made", [])
    KNOWN.clear()
    return fake


@pytest.fixture
def steps(gpu, monkeypatch):
    """The names of what is done to prepare requests: choices, and requests that are read."""
    found = []

    def noted(owner, name):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *x, **y: (found.append(name), real(*x, **y))[1])

    noted(MultistageConfig, "__init__")
    noted(WarpgroupConfig, "__init__")
    noted(GemmConfig, "__str__")
    noted(LinearCombination, "__init__")
    noted(product.GEMM, "taken")
    return found


M, N, K = 128, 256, 64


def operands(**named):
    return Matrix((M, K), address=1 << 21, **named), Matrix((K, N), address=1 << 22)


def known():
    return sum(len(signature.entries) for signature in KNOWN.kept.values())


def words(gpu):
    return gpu.raw.launches[-1][3]


def bits(number):
    return np.float64(number).view(np.uint64)


def test_a_thousand_calls_keep_one_entry(gpu, steps):
    a, b, out = *operands(), Matrix((M, N), address=1 << 23)
    cute.ops.gemm(a, b, alpha=0.5, out=out)
    steps.clear()
    for i in range(1000):
        a, b, out = (Matrix(x.shape, address=x.address + 4096 * i) for x in (a, b, out))
        assert cute.ops.gemm(a, b, alpha=1.5 + i, out=out) is out
        x = words(gpu)
        assert [x.count(y.address) for y in (a, b, out)] == gpu.all_times
        assert x.count(bits(1.5 + i)) == 1
    assert steps == []  # no configuration, no epilogue, no request
    assert known() == KNOWN.count == 1
    assert sum(len(signature.entries) for signature in gpu.kernel.calls().kept.values()) == 1
    assert len(gpu.raw.launches) == 1001
    assert Matrix.made == []


@pytest.mark.parametrize("terms", ["", "c beta", "c", "bias", "c beta bias"])
def test_the_launch_is_the_one_of_the_first_call(gpu, terms):
    c, bias = Matrix((M, N), np.float32, address=1 << 24), Matrix((N,), np.float32, address=1 << 25)
    given = {"c": c, "beta": 2.0, "bias": bias}
    named = {name: given[name] for name in terms.split()}
    (a, b), out = operands(), Matrix((M, N), address=1 << 23)
    cute.ops.gemm(a, b, out=out, **named)
    cute.ops.gemm(a, b, out=out, **named)
    first, second = gpu.raw.launches[-2:]
    assert first == second
    used = {"c": c.address in first[3], "bias": bias.address in first[3]}
    assert used == {"c": "beta" in named, "bias": "bias" in named}


@pytest.mark.parametrize("given", [False, True])
def test_a_known_call_in_parts_launches_both_kernels(gpu, steps, given):
    for i in range(3):
        a = Matrix((M, K), address=(1 << 20) + 4096 * i)
        b = Matrix((K, N), address=(1 << 21) + 4096 * i)
        bias = Matrix((N,), np.float32, address=(1 << 25) + 4096 * i)
        out = Matrix((M, N), address=(1 << 23) + 4096 * i) if given else None
        found = cute.ops.gemm(a, b, bias=bias, out=out, config="split=parallel:2", alpha=1.5 + i)
        assert out is None or found is out
        first, second = gpu.raw.launches[-2:]
        assert (a.address in first[3], b.address in first[3]) == (True, True)
        assert bias.address in second[3]
        assert found.address in second[3]
        assert bits(1.5 + i) in second[3]
        between = set(first[3]) & set(second[3])
        assert any(x > 1 << 30 or x % 16 == 0 for x in between)
    assert len(gpu.raw.launches) == 6
    assert steps.count("taken") == 1


def test_kernels_of_a_stream_share_a_workspace(gpu, monkeypatch):
    (a, b), out = operands(), Matrix((M, N), address=1 << 23)

    def memory(stream, parts=2, capturing=False):
        """Return the addresses of what was made for a call, and how much was made."""
        monkeypatch.setattr(gpu, "stream", stream)
        monkeypatch.setattr(gpu.raw, "capturing", capturing)
        before = len(Matrix.made)
        cute.ops.gemm(a, b, out=out, config=f"schedule=multistage,split=serial:{parts}")
        words = gpu.raw.launches[-1][3]
        found = {(1 << 30) + (i << 24) for i in range(len(Matrix.made) + 1)} & {*words}
        return found, Matrix.made[before:].count("made")

    first, count = memory(0)
    assert (len(first), count) == (2, 2)  # sums and locks
    assert memory(0, 2) == (first, 0)
    second, count = memory(7)
    assert (count, first & second) == (2, set())
    for _ in range(2):  # a graph has its own
        captured, count = memory(7, capturing=True)
        assert (count, captured & (first | second)) == (2, set())
    assert memory(7) == (second, 0)


@pytest.mark.parametrize("gpu", [(9, 0)], indirect=True, ids=["sm_90a"])
def test_a_known_call_has_the_counter_of_its_stream(gpu, monkeypatch):
    """Of sequences, whose blocks share out their work: prepared once a stream, and in captures."""
    read, real = [], AttentionVarlen.count
    noted = lambda *x: (read.append(1), real(*x))[1]  # noqa: E731
    monkeypatch.setattr(AttentionVarlen, "count", noted)
    monkeypatch.setattr(attention_sm90_varlen, "_calls", None)
    monkeypatch.setattr(workspaces, "current_stream", lambda *_x: lambda: gpu.stream)

    def launched(i, stream=0, capturing=False):
        """Return the addresses of new memory in a launch, and how often a request was read."""
        monkeypatch.setattr(gpu, "stream", stream)
        monkeypatch.setattr(gpu.raw, "capturing", capturing)
        x, out = (Matrix((100, 2, 64), address=at + 4096 * i) for at in (1 << 21, 1 << 23))
        starts, before = Matrix((3,), np.int32, address=(1 << 25) + 64 * i), len(read)
        assert cute.ops.attention_varlen(x, x, x, starts, starts, causal=True, out=out) is out
        words = gpu.raw.launches[-1][3]
        assert {y.address for y in (x, out, starts)} <= {*words}
        return {w for w in words if w > 1 << 30}, len(read) - before

    (first, count), *others = (launched(i) for i in range(3))
    assert (len(first), count) == (1, 1)
    assert others == [(first, 0)] * 2
    second, count = launched(3, stream=7)
    assert (len(second), count, first & second) == (1, 1, set())
    assert launched(4, stream=7) == (second, 0)
    captured, count = launched(5, stream=7, capturing=True)
    assert (len(captured), count, captured & (first | second)) == (1, 1, set())
    assert launched(6, stream=7)[0] == second


def test_a_product_for_another_gpu_has_a_status(gpu):
    a, b = operands()
    answer = cute.ops.Gemm(a, b, config="schedule=cooperative").can_implement()
    assert answer.status is (Status.Success if gpu.by_tma else Status.ArchMismatch)
    if not gpu.by_tma:
        given = "on a GPU of compute capability 8.0; required: sm_90a, whose instruction it is"
        assert given in answer.words


def test_a_workspace_is_where_the_operands_are(gpu):
    a, b = operands()
    product = cute.ops.Gemm(a, b, config="schedule=multistage,split=serial:2")
    size = product.workspace_size()
    assert not Matrix.made  # no memory before the first run
    with pytest.raises(cute.CuteError, match="workspace on the host"):
        product.initialize(np.zeros(size, np.uint8))


def test_new_results_are_new_arrays(gpu, steps):
    a, b = operands()
    found = [cute.ops.gemm(a, b) for _ in range(3)]
    assert len({x.address for x in found}) == 3
    assert [
        launch[3].count(x.address) for launch, x in zip(gpu.raw.launches, found, strict=True)
    ] == [gpu.times] * 3
    assert {x.shape for x in found} == {(M, N)}
    assert {x.dtype for x in found} == {np.dtype(np.float16)}
    assert steps.count("taken") == 1


OTHERS = {
    "shape": lambda: {"a": Matrix((M + 8, K)), "out": Matrix((M + 8, N), address=1 << 23)},
    "type": lambda: {"out": Matrix((M, N), np.float32, address=1 << 23)},
    "strides": lambda: {"a": Matrix((M, K), strides=(4 * K, 2))},
    "alignment": lambda: {"a": Matrix((M, K), address=(1 << 21) + 8)},
    "autograd": lambda: {"out": Followed((M, N), address=1 << 23)},
    "alpha": lambda: {"alpha": 2.0},
    "activation": lambda: {"activation": "relu"},
    "configuration": lambda: {"config": "stages=2"},
    "no out": lambda: {"out": None},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_facts_go_the_whole_way(gpu, steps, name):
    a, b = operands()
    usual = {"a": a, "b": b, "out": Matrix((M, N), address=1 << 23)}
    cute.ops.gemm(**usual)
    steps.clear()
    other = usual | OTHERS[name]()
    cute.ops.gemm(**other)
    assert "taken" in steps
    wanted = words(gpu)
    steps.clear()
    cute.ops.gemm(**usual)
    assert steps == []
    cute.ops.gemm(**other)
    assert "__init__" not in steps
    if name not in ("autograd", "no out"):  # whose results are new
        assert words(gpu) == wanted


@pytest.mark.parametrize(
    ("a", "b", "blocks"),
    [
        ((70_000, 16, 24), (70_000, 24, 16), 70_000),
        ((70_000, 16, 0), (70_000, 0, 16), 70_000),
        ((8, 16), (16, 1 << 23), 1 << 16),
    ],
)
def test_more_blocks_than_the_second_and_third_mode_of_a_grid_have(gpu, a, b, blocks):
    cute.ops.gemm(Matrix(a, np.float32), Matrix(b, np.float32))
    assert gpu.raw.launches[-1][1] == (blocks, 1, 1)


@pytest.mark.parametrize("modes", [2, 3])
def test_pitches_that_no_tensor_map_has_are_left_to_the_kernel_of_all_gpus(gpu, modes):
    strides = (1 << 40, 2) if modes == 2 else (1 << 40, 2 * K, 2)
    a = Matrix((2, M, K)[-modes:], strides=strides, address=1 << 21)
    cute.ops.gemm(a, Matrix((K, N), address=1 << 22))
    assert words(gpu).count(1 << 22) == 1


def test_a_configuration_is_known_by_identity(gpu, steps):
    a, b, out = *operands(), Matrix((M, N), address=1 << 23)
    first = cute.ops.choose_config(M, N, K, "f16", ("K", "MN"))
    second = cute.ops.choose_config(M, N, K, "f16", ("K", "MN"))
    for config in (first, second):
        cute.ops.gemm(a, b, out=out, config=config)
        steps.clear()
        cute.ops.gemm(a, b, out=out, config=config)
        assert steps == []
    assert known() == 2


def test_an_out_that_is_read_is_noticed_each_time(gpu):
    a, b = operands()
    apart, same = Matrix((M, M), address=1 << 23), Matrix((M, M), address=a.address)
    b = Matrix((K, M), address=1 << 22)
    partly = Matrix((M, M), address=a.address + 2 * K * M - 16)
    behind = Matrix((M, M), address=a.address + 2 * K * M)
    for out, direct in (
        (apart, True),
        (same, False),
        (apart, True),
        (partly, False),
        (behind, True),
    ):
        Matrix.made.clear()
        cute.ops.gemm(a, b, out=out)
        assert (
            out.address in words(gpu)[2:] or words(gpu).count(out.address) == 1
        ) is direct or out is same
        assert Matrix.made == ([] if direct else ["made", "copied to"])
    assert known() == 1


def test_two_threads_at_once_share_a_kernel_and_no_address(gpu, monkeypatch):
    a, b = operands()
    cute.ops.gemm(a, b, out=Matrix((M, N), address=1 << 23))
    barrier, launch = threading.Barrier(2), type(gpu.raw).cuLaunchKernelEx

    def together(raw, *args):
        barrier.wait(5)
        return launch(raw, *args)

    monkeypatch.setattr(type(gpu.raw), "cuLaunchKernelEx", together)
    made = {}

    def work(n):
        made[n] = [Matrix((M, N), address=(n << 26) + 4096 * i) for i in range(4)]
        for out in made[n]:
            cute.ops.gemm(a, b, out=out)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    wanted = sorted(out.address for outs in made.values() for out in outs)
    found = [[x for x in words if x in wanted] for *_rest, words in gpu.raw.launches[1:]]
    assert sorted(found) == [[x] * gpu.times for x in wanted]


def test_the_first_call_with_an_out_that_is_read_does_not_decide_for_others(gpu, steps):
    a, b = operands()
    b = Matrix((K, M), address=1 << 22)
    cute.ops.gemm(a, b, out=Matrix((M, M), address=a.address))
    steps.clear()
    out = Matrix((M, M), address=1 << 23)
    cute.ops.gemm(a, b, out=out)
    assert steps == ["taken"]
    cute.ops.gemm(a, b, out=out)
    assert steps == ["taken"]
    assert out.address in words(gpu)


def test_copies_are_made_each_time_and_nothing_else_is(gpu, steps):
    a, b = operands(strides=(4 * K, 4))
    a.strides = (8 * K, 4)
    results = [cute.ops.gemm(a, b) for _ in range(3)]
    assert Matrix.made == ["made", "made"] * 3
    assert steps.count("__init__") == len(
        [x for x in steps[: steps.index("taken", 1)] if x == "__init__"]
    )
    assert len({x.address for x in results}) == 3


def test_whole_factors_of_integers_are_told_from_others(gpu):
    a, b = Matrix((M, K), np.int8, address=1 << 21), Matrix((K, N), np.int8, address=1 << 22)
    out = Matrix((M, N), np.int32, address=1 << 23)
    functions = []
    launch = gpu.raw.cuLaunchKernelEx
    gpu.raw.cuLaunchKernelEx = lambda c, function, *x: (
        functions.append(function),
        launch(c, function, *x),
    )[1]
    for alpha in (2.0, 3.0, 2.5, 3.5, 2.0**31, 2.0):
        cute.ops.gemm(a, b, alpha=alpha, out=out)
    whole, other = functions[0], functions[2]
    assert whole != other
    assert functions == [whole, whole, other, other, other, whole]
    assert known() == 1


@pytest.mark.parametrize("alpha", [np.float32(2), np.int64(2), True])
def test_factors_of_other_types_are_taken_and_never_known(gpu, steps, alpha):
    a, b, out = *operands(), Matrix((M, N), address=1 << 23)
    cute.ops.gemm(a, b, alpha=2.0, out=out)
    for _ in range(2):
        steps.clear()
        cute.ops.gemm(a, b, alpha=alpha, out=out)
        assert "taken" in steps
        assert words(gpu).count(bits(alpha)) == 1


def test_a_stale_kernel_is_noticed(gpu, steps, monkeypatch):
    a, b, out = *operands(), Matrix((M, N), address=1 << 23)
    cute.ops.gemm(a, b, out=out)
    function = (KERNELS["cooperative"] if gpu.by_tma else gemm).function
    monkeypatch.setattr(function, "__code__", function.__code__.replace(co_name="other"))
    steps.clear()
    cute.ops.gemm(a, b, out=out)
    assert "taken" in steps
    steps.clear()
    cute.ops.gemm(a, b, out=out)
    assert steps == []


def test_no_array_is_kept_alive(gpu):
    a, b, out = *operands(), Matrix((M, N), address=1 << 23)
    cute.ops.gemm(a, b, out=out)
    cute.ops.gemm(a, b)
    held = [weakref.ref(x) for x in (a, b, out)]
    gpu.raw.calls.clear()
    del a, b, out
    gc.collect()
    assert [x() for x in held] == [None] * 3


def test_host_arrays_go_the_same_way(steps):
    KNOWN.clear()
    rng = np.random.default_rng(0)
    for i in range(3):
        a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((40, 24), (24, 56)))
        out = np.zeros((40, 56), np.float16)
        assert cute.ops.gemm(a, b, alpha=2.0 + i, out=out) is out
        np.testing.assert_array_equal(out, (2 + i) * (a.astype(float) @ b))
        wanted = (2 + i) * (a.astype(float) @ b)
        np.testing.assert_array_equal(cute.ops.gemm(a, b, alpha=2.0 + i), wanted)
    assert steps.count("taken") == 2
    out.flags.writeable = False
    with pytest.raises(cute.CuteError) as caught:
        cute.ops.gemm(a, b, alpha=2.0, out=out)
    assert caught.value.code == "ops-read-only"


def test_a_known_request_makes_the_checks_of_the_first(monkeypatch):
    KNOWN.clear()
    found, real = [], emulate.program_of
    noted = lambda plan, checks, *x: (found.append(checks), real(plan, checks, *x))[1]  # noqa: E731
    monkeypatch.setattr(emulate, "program_of", noted)
    a, b = np.ones((16, 16), np.float16), np.ones((16, 16), np.float16)
    for checks in ("global", "shared,global"):
        for _ in range(3):
            cute.ops.gemm(a, b, checks=checks)
    assert found == ["global"] * 3 + ["shared,global"] * 3


def test_no_array_of_the_host_is_kept_alive():
    KNOWN.clear()
    arrays = [np.ones((16, 16), np.float16) for _ in range(3)]
    for _ in range(3):
        cute.ops.gemm(*arrays[:2], out=arrays[2])
    held = [weakref.ref(x) for x in arrays]
    arrays.clear()
    gc.collect()
    assert [x() for x in held] == [None] * 3


def test_an_array_of_the_host_passes_few_functions_in_a_known_request():
    """What is known of it is not read again."""
    KNOWN.clear()
    found = bench_operator.passed_on_the_host()
    assert len(found) <= bench_operator.PASSED, found


def drawn(rng):
    """Return the arguments of a request: of few facts, and of many addresses and factors."""
    kind = rng.choice([np.float16, np.int8])
    result = np.int32 if kind is np.int8 else kind
    a, b, c = Matrix((M, K), kind), Matrix((K, N), kind), Matrix((M, N), np.float32)
    out = rng.choice([None, Matrix((M, N), result), Matrix((M, N), result)])
    at = 16 * rng.randrange(256, 300)
    a.address, b.address, c.address = (1 << 21) + at, (1 << 22) + 2 * at, (1 << 24) + at
    if out is not None:
        out.address = rng.choice([(1 << 23) + at, 1 << 23, a.address, b.address + 64, c.address])
    alpha, beta = rng.choice([1, 1.0, 2.0, 2.5, 3]), rng.choice([0, 0.0, 1.0, 0.5])
    return {"a": a, "b": b, "c": c, "out": out, "alpha": alpha, "beta": beta}


def launched(gpu, requests, forget):
    """Return what requests launch, and how many arrays each makes."""
    KNOWN.clear()
    found = []
    Matrix.made.clear()
    for request in requests:
        if forget:
            KNOWN.clear()
        before = len(Matrix.made)
        cute.ops.gemm(**request)
        found.append((gpu.raw.launches[-1], Matrix.made[before:]))
    return found


def test_a_known_request_launches_what_it_would_if_it_were_not_known(gpu, steps):
    """Of few facts and many addresses: with what is known, and with nothing."""
    rng = random.Random(1)
    requests = [drawn(rng) for _ in range(150)]
    wanted = launched(gpu, requests, True)
    cold = steps.count("taken")
    assert launched(gpu, requests, False) == wanted
    assert cold == len(requests)
    assert known() <= 2 * 2 * 2 * 2  # types, with out, alpha is 1, beta is 0
    assert steps.count("taken") - cold < cold  # those whose out is read are prepared each time


# -- torch


class Kind:
    """A torch.dtype."""

    __module__ = "torch"

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


HALF = Kind("float16")


class Tensor:
    """A tensor of torch on a GPU, without memory."""

    __module__ = "torch"
    is_cuda, device, dtype, itemsize, requires_grad = True, "cuda:0", HALF, 2, False
    grad_mode = is_nested = False

    def __init__(self, shape, steps=None, address=1 << 20):
        self.shape, self.address = tuple(shape), address
        compact = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
        self.steps = tuple(compact if steps is None else steps)

    def stride(self):
        return self.steps

    def data_ptr(self):
        return self.address

    def get_device(self):
        return 0

    def is_neg(self):
        return False

    def swapaxes(self, _first, _second):
        return type(self)(self.shape[::-1], self.steps[::-1], self.address)

    def expand(self, shape):
        more = len(shape) - len(self.shape)
        return Tensor(shape, (0,) * more + self.steps, self.address)

    def reshape(self, shape):
        return Tensor(shape, (0, *self.steps)[-len(shape) :], self.address)

    def select(self, mode, index):
        assert mode == index == 0
        return Tensor(self.shape[1:], self.steps[1:], self.address)


class Parameter(Tensor):
    __module__ = "torch"
    requires_grad = True


def facts_of(x):
    return isinstance(x, Tensor) and (type(x), x.shape, x.steps, x.requires_grad)


@pytest.fixture
def told(gpu, monkeypatch):
    """What autograd is told of, without grad mode; the library compares arrays by guards."""
    written, made = [], []
    monkeypatch.setattr(Tensor, "grad_mode", False)

    def empty_strided(shape, strides, dtype, device):
        assert (dtype, device) == (HALF, "cuda:0")
        assert strides[-2:] == (shape[-1], 1)
        made.append(Tensor(shape, address=(1 << 30) + (len(made) << 24)))
        return made[-1]

    graph = SimpleNamespace(increment_version=written.append)
    autograd = SimpleNamespace(graph=graph)
    torch = SimpleNamespace(empty_strided=empty_strided, float16=HALF, autograd=autograd)
    torch.is_grad_enabled = lambda: Tensor.grad_mode
    monkeypatch.setitem(sys.modules, "torch", torch)

    def guard(given):
        facts = [facts_of(x) for x in given]
        return lambda *more: [facts_of(x) for x in more] == facts

    facts = (("dtype",), ("shape",), ("stride", "()"), ("requires_grad",))
    library = arrays.Library(
        "torch",
        ("data_ptr", "()"),
        facts,
        lambda x: 0,
        lambda d: lambda: gpu.stream,
        lambda: 0,
        guard,
    )
    for kind in (Tensor, Parameter):
        monkeypatch.setitem(arrays.LIBRARIES, kind, library)
        monkeypatch.setitem(arrays.READERS, kind, library.reader())
    return written


def test_tensors_of_torch_are_known_by_guards_and_autograd_is_told(gpu, told, steps):
    b = Parameter((K, N), address=1 << 22)
    for i in range(4):
        a, out = Tensor((M, K), address=(1 << 21) + 512 * i), Tensor((M, N), address=1 << 23)
        gpu.stream = 7 * i
        assert cute.ops.gemm(a, b, out=out) is out
        assert told.pop() is out
        assert gpu.raw.launches[-1][2] == 7 * i
        assert [words(gpu).count(x.address) for x in (a, b, out)] == gpu.all_times
        made = cute.ops.gemm(a, b)
        assert (made.shape, words(gpu).count(made.address)) == ((M, N), gpu.times)
    assert told == []
    assert steps.count("taken") == 2
    wide = Tensor((M, N), (2 * N, 1), 1 << 23)
    cute.ops.gemm(a, b, out=wide)
    assert steps.count("taken") == 3
    assert words(gpu).count(2 * N) == 1


@pytest.mark.parametrize("name", ["a", "b", "c", "bias", "out"])
def test_tensors_with_a_gradient_are_refused_in_grad_mode_alone(gpu, told, monkeypatch, name):
    """Grad mode is asked at each call, of cached ones too; a tensor may get its gradient later."""
    rows = {"a": (M, K), "b": (K, N), "c": (M, N), "bias": (N,), "out": (M, N)}
    given = {n: Tensor(s, address=(i + 2) << 23) for i, (n, s) in enumerate(rows.items())}
    if name != "c":
        del given["c"]
    cute.ops.gemm(**given)
    monkeypatch.setattr(Tensor, "grad_mode", True)
    cute.ops.gemm(**given)  # nothing has a gradient
    followed = Tensor(rows[name], address=given[name].address)
    for kind in (Tensor, Parameter):
        followed.__class__ = kind
        followed.requires_grad = kind is Parameter
        for mode in (True, False, False, True, False, True):
            monkeypatch.setattr(Tensor, "grad_mode", mode)
            before = len(gpu.raw.launches)
            if mode and kind is Parameter:
                with pytest.raises(cute.CuteError) as caught:
                    cute.ops.gemm(**given | {name: followed})
                assert caught.value.code == "argument-gradient"
                assert f"pass {name}.detach()" in str(caught.value)
            elif name != "out" or kind is Tensor:  # autograd's own arrays are copied to
                cute.ops.gemm(**given | {name: followed})
                before += 1
            assert len(gpu.raw.launches) == before


def test_tensors_with_a_gradient_go_to_the_operator_in_grad_mode_alone(gpu, told, monkeypatch):
    """Also those of a request that was answered before, in either mode."""
    requests = []
    rules = (lambda given: requests.append(given) or "by autograd", None)
    monkeypatch.setattr(operator, "load_operators", lambda: True)
    monkeypatch.setitem(operator.OPERATORS, "gemm", rules)
    a, b = Parameter((M, K), address=1 << 21), Tensor((K, N), address=1 << 22)
    for mode in (True, True, False, False, True, False):
        monkeypatch.setattr(Tensor, "grad_mode", mode)
        before = len(gpu.raw.launches), len(requests)
        found = cute.ops.gemm(a, b, alpha=2, activation="relu")
        assert (found == "by autograd") is mode
        assert (len(gpu.raw.launches), len(requests)) == (before[0] + (not mode), before[1] + mode)
    assert all((x.a, x.b, x.alpha, x.activation) == (a, b, 2, "relu") for x in requests)


def test_a_new_size_of_a_known_configuration_examines_no_compile_time_value(gpu, monkeypatch):
    """Nor generates code: equal configurations are one object."""
    from cute_py.calls import replay
    from cute_py.calls.fingerprint import dependencies

    b = Matrix((K, N), address=1 << 22)
    for rows in (M, M + 8, M + 16):
        cute.ops.gemm(Matrix((rows, K), address=1 << 21), b)
    done = []
    for module in (dependencies, replay):
        for name in ("fingerprint", "function"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda *x, **y: done.append(x))
    for rows in range(M + 24, M + 100, 8):
        cute.ops.gemm(Matrix((rows, K), address=1 << 21), b)
    assert done == []


def test_factors_with_a_gradient_are_refused(gpu, told, monkeypatch):
    a, b = Tensor((M, K), address=1 << 21), Tensor((K, N), address=1 << 22)
    factor = Parameter(())
    factor.item = lambda: 2.0
    cute.ops.gemm(a, b, alpha=factor)
    monkeypatch.setattr(Tensor, "grad_mode", True)
    with pytest.raises(cute.CuteError, match="given alpha, a tensor that autograd follows"):
        cute.ops.gemm(a, b, alpha=factor)
    factor.requires_grad = False
    cute.ops.gemm(a, b, alpha=factor)


def test_the_call_that_followed_the_last_time_is_tried_first(gpu, monkeypatch):
    """Also where the order changes, and where one call is repeated."""
    searched, search = [], memo.Memo.search
    monkeypatch.setattr(memo.Memo, "search", lambda *x: (searched.append(x), search(*x))[1])
    KNOWN.clear()
    b = Matrix((K, N), address=1 << 22)
    requests = [
        lambda: cute.ops.gemm(Matrix((M, K), address=1 << 21), b),
        lambda: cute.ops.gemm(Matrix((2 * M, K), address=1 << 21), b),
        lambda: cute.ops.gemm(Matrix((M, K), address=1 << 21), b, alpha=2, activation="relu"),
    ]
    for order in ((0, 1, 2), (2, 1, 0), (0, 0, 1, 2, 2)):
        for _ in range(3):
            for i in order:
                requests[i]()
        searched.clear()
        launches = len(gpu.raw.launches)
        if order != (0, 0, 1, 2, 2):
            for i in order:
                requests[i]()
            assert searched == []
            assert len(gpu.raw.launches) == launches + len(order)
    generator = random.Random(1)
    for _ in range(200):
        i = generator.randrange(3)
        launches = len(gpu.raw.launches)
        made = requests[i]()
        assert made.shape == ((2 * M if i == 1 else M), N)
        assert len(gpu.raw.launches) == launches + 1
