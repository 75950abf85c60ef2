"""`cute.ops.gemm` on a GPU, by arrays of the host that pass for CuPy's: where the result is
written, and on which device the operator allocates and copies.
"""

import ctypes
import itertools
import random
import sys
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

import cute_py as cute
from cute_py.atoms import tensor_map
from cute_py.calls import arrays, backends
from cute_py.dtypes.conversion import strided
from cute_py.kernels.config import MultistageConfig
from cute_py.kernels.config_sm90 import WarpgroupConfig
from cute_py.kernels.gemv import VectorConfig
from cute_py.ops.call import apart
from cute_py.ops.gemm_families import FAMILIES
from cute_py.ops.libraries import Gpu, Torch, Words
from cute_py.ops.operands import span
from cute_py.ops.product import Product, Request, taken
from tests import fake_gpu, gpu_arrays
from tests.sampling import quick

HOPPER = Gpu(232448, 132, (9, 0))


class Current:
    """A device that can be made the current one."""

    depth = 0

    def __enter__(self):
        Current.depth += 1

    def __exit__(self, *_error):
        Current.depth -= 1


def _here(name):
    def checked(self, *args):
        assert Current.depth == 1, f"{name} on the device that happens to be the current one"
        Cupy.seen.append(name)
        return getattr(np.ndarray, name)(self, *args)

    return checked


class Cupy(np.ndarray):
    """An array of device 1; what moves memory goes to the current device, as in CuPy."""

    is_cuda, device, seen = True, Current(), []
    copy, __setitem__ = _here("copy"), _here("__setitem__")
    address = property(lambda x: address(x))


def made(shape, kind=np.float32):
    """Return zeros at a multiple of 256 bytes."""
    kind = np.dtype(kind)
    room = np.zeros(int(np.prod(shape)) * kind.itemsize + 256, np.uint8)
    start = -room.__array_interface__["data"][0] % 256
    held = room[start : start + int(np.prod(shape)) * kind.itemsize]
    return held.view(kind).reshape(shape).view(Cupy)


def address(x):
    return x.__array_interface__["data"][0]


@pytest.fixture
def launched(monkeypatch):
    """The arguments (addresses) of the kernels that are launched."""
    gpu_arrays.install(monkeypatch, HOPPER)
    gpu_arrays.small_tiles(monkeypatch)
    library = arrays.Library(
        "cupy",
        ("address",),
        (("dtype",), ("shape",), ("strides",)),
        lambda _x: 1,
        lambda _device: lambda: 0,
        lambda: 1,
    )
    monkeypatch.setitem(arrays.LIBRARIES, Cupy, library)
    monkeypatch.setitem(arrays.READERS, Cupy, library.reader())
    broadcast = gpu_arrays._spread

    def empty(shape, kind):
        assert Current.depth == 1
        Cupy.seen.append("empty")
        return made(shape, kind)

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(empty=empty, broadcast_to=broadcast))
    found = []

    def prepare(_plan, leaves):
        held = [x for x in leaves if isinstance(x, np.ndarray)]
        D = held[-1]

        def launch(values):
            found.append(list(values[: len(held)]))
            memory = (ctypes.c_char * span(D)[1]).from_address(found[-1][-1])
            there = np.ndarray(D.shape, D.dtype, memory, 0, D.strides)
            there[...] = 7

        given = [address(x) if isinstance(x, np.ndarray) else x for x in leaves]
        return fake_gpu.Launched(launch), given

    monkeypatch.setattr(backends, "prepare", [prepare])
    Cupy.seen = []
    return found


def product(out, *more, M=24, N=40, K=16, batch=(), **named):
    a, b = made((*batch, M, K)), made((*batch, K, N))
    return cute.ops.gemm(a, b, *more, out=out, **named)


WRITTEN = {
    "a new array": lambda: made((24, 40)),
    "padded rows": lambda: made((24, 64))[:, :40],
    "a part": lambda: made((64, 40))[8:32],
    "a row": lambda: made((1, 40)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_kernel_writes_to_out_itself(launched, name):
    out = WRITTEN[name]()
    assert product(out, M=out.shape[0]) is out
    assert launched[0][-1] == address(out)
    assert (out == 7).all()
    assert Cupy.seen == []  # nothing is allocated, nothing copied


def test_batches_are_written_directly(launched):
    for shape in ((3, 24, 40), (2, 3, 24, 40), (1, 1, 24, 40)):
        out = made(shape)
        product(out, batch=shape[:-2])
        assert launched.pop()[-1] == address(out)
    apart = made((3, 48, 40))[:, :24]
    product(apart, batch=(3,))
    assert launched.pop()[-1] == address(apart)
    assert Cupy.seen == []


COPIED = {
    "columns that are contiguous": lambda: made((40, 24)).swapaxes(0, 1),
    "every second column": lambda: made((24, 80))[:, ::2],
    "rows backwards": lambda: made((24, 40))[::-1],
    "an address that is not aligned": lambda: made((24 * 40 + 1,))[1:].reshape(24, 40),
    "rows that are not aligned": lambda: made((24, 41))[:, :40],
}


@pytest.mark.parametrize("name", COPIED)
def test_other_arrays_get_a_copy_of_the_result(launched, name):
    out = COPIED[name]()
    assert product(out) is out
    assert launched[0][-1] != address(out)
    assert (out == 7).all()
    assert Cupy.seen == ["empty", "__setitem__"]


def test_rows_that_are_aligned_as_a_new_array_has_them_are_written(launched):
    """N = 41: no vectors of two and more, and none are asked for."""
    out = made((24 * 41 + 1,))[1:].reshape(24, 41)
    product(out, N=41)
    assert launched[0][-1] == address(out)


def test_memory_that_is_read_is_not_written_to(launched):
    a, b, whole = made((32, 32)), made((32, 32)), made((64, 32))
    for out, more in ((a, (a, b)), (b, (a, b)), (whole[16:48], (whole[:32], b))):
        assert cute.ops.gemm(*more, out=out) is out
        assert launched.pop()[-1] != address(out)
        assert (out == 7).all()
    c = made((32, 32))
    cute.ops.gemm(a, b, c, beta=1, out=c)
    assert launched.pop()[-1] != address(c)
    cute.ops.gemm(a, b, c, out=c)  # beta is 0: not read
    assert launched.pop()[-1] == address(c)
    cute.ops.gemm(whole[:32], b, out=whole[32:])  # side by side
    assert launched.pop()[-1] == address(whole[32:])


@pytest.mark.parametrize("steps", [(0, 4), (4, 4), (80, 4), (160, 8, 4)])
def test_elements_of_out_that_share_memory_are_refused(launched, steps):
    shape = (2, 24, 40)[-len(steps) :]
    out = strided(made((1000,)), shape, steps).view(Cupy)
    with pytest.raises(cute.CuteError) as caught:
        product(out, batch=shape[:-2])
    assert caught.value.code == "ops-overlap"
    assert launched == Cupy.seen == []
    product(
        strided(made((2000,)), shape, (4000, 164, 4)[-len(steps) :]).view(Cupy), batch=shape[:-2]
    )
    assert len(launched) == 1


def test_what_autograd_follows_is_left_to_its_library(launched):
    class Followed(Cupy):
        requires_grad = True

    arrays.register(Followed, arrays.LIBRARIES[Cupy])
    out = made((24, 40)).view(Followed)
    product(out)
    assert launched[0][-1] != address(out)
    del arrays.LIBRARIES[Followed], arrays.READERS[Followed]


def matrices(rows, columns):
    """Return matrices that kernels read where they are, and others."""
    wide, tall = made((rows + 1, 2 * columns), np.float16), made((columns, rows), np.float16)
    return [
        wide[:rows, :columns],
        tall.swapaxes(0, 1),
        wide[1:, ::2],
        wide[rows - 1 :: -1, 8:][:, :columns],
    ]


def unreadable(x):
    """Return why TMA cannot read or write (rows, columns[, L]), "" if it can; L may be shared."""
    sides = list(zip(x.shape, x.strides, strict=True))
    sides[:2] = sides[1::-1] if x.strides[1] == x.itemsize else sides[:2]
    sides = sides[:2] if sides[-1][1] == 0 else sides
    assert sides[0][1] == x.itemsize
    row = -(-sides[0][0] * x.itemsize // 16) * 16
    pitches = [step if n > 1 else row for n, step in sides[1:]]
    return tensor_map.unreachable([n for n, _ in sides], pitches, x.itemsize, address(x))


def require_true(config):
    """Require that no reason of a configuration is about a part that it does not have."""
    (m, n, _k), by_tma = config.tile, f"by TMA, {getattr(config, 'store', 0)} columns"
    tiles = {WarpgroupConfig: f"{m}x{n} {getattr(config, 'schedule', '')}", MultistageConfig: "M="}
    wanted = {
        "C": "by TMA" if getattr(config, "prefetch", 0) else "by loads",
        "D": by_tma if getattr(config, "store", 0) else "direct",
        "programmatic dependent launch": "on" if config.pdl else "off",
        "tile": tiles.get(type(config), f"{max(m, n)} rows of the matrix"),
        "stages": str(config.stages),
    }
    for reason in config.reasons:
        about, _, text = reason.partition(": ")
        copied = text.startswith("copied first")
        assert copied or text.startswith(wanted.get(about, "")), (reason, str(config))


def require_explained(a, b, **named):
    """Require that a configuration's explanation says of a call what it does, and return it: which
    kernel, every array that is copied, whether `out` is. Neither shares D memory with what is read,
    nor gets TMA what it cannot address.
    """
    config = cute.ops.gemm_config(a, b, **named)
    request, library = taken(Request(a, b, **named))
    with library.inside():
        call = Product(request, library).call()
    assert config == call.config
    require_true(config)
    said = [x.partition(":") for x in config.reasons if "copied" in x or x.startswith("path")]
    (path,) = [text for name, _, text in said if name == "path"]
    first = path.partition("copied first:")[2]
    given = a, b, named.get("c"), named.get("bias")
    D = call.result
    for name, x, read in zip(("A", "B", "C", "bias"), given, call.reads, strict=True):
        told = name in [name for name, *_ in said] or f" {name} " in first
        assert told is (read is not None and address(x) != address(read)), (name, config.reasons)
        if read is not None:
            low, high = apart(D, read)
            assert not low < address(read) - address(D) < high, name
    out = named.get("out")
    assert ("out" in [name for name, *_ in said]) is (
        out is not None and not call.outputs[0].direct
    )
    ways = {"TMA and": WarpgroupConfig, "cp.async and": MultistageConfig, "multiply": VectorConfig}
    assert [kind for text, kind in ways.items() if path.strip().startswith(text)] == [type(config)]
    assert call.kernel is FAMILIES[config.family].kernel
    if isinstance(config, WarpgroupConfig):
        seen = [*call.reads[:2], *[D] * bool(config.store), *[call.reads[2]] * config.prefetch]
        assert [unreadable(x) for x in seen] == [""] * len(seen), config.reasons
    elif "a size is below" in path:  # of the operands that the path names
        for name, x in zip("AB", call.reads, strict=False):
            along_k = x.strides[1] == x.itemsize
            wrong = unreadable(x) != "" or not (along_k or x.dtype == np.float16)
            assert (f" {name} " in path) is wrong, (path, x.shape, x.strides)
    return config


def placed(rng, shape, kind):
    """Return an array anywhere in memory: with gaps, overlaps, backwards, shared, misaligned."""
    size, (*lead, rows, columns) = np.dtype(kind).itemsize, shape
    row = rng.choice([columns, columns, columns + 1, -(-columns // 16) * 16, 2 * columns, 1])
    steps = {0: row, 1: rng.choice([1, 1, 1, -1, 2])}
    whole = abs(row) * rows + 2 * columns
    by_batch = [rng.choice([whole, whole + 1, whole + 16, 16, 0]) for _ in lead]
    low = -min(0, (columns - 1) * steps[1]) + rng.choice([0, 0, 0, 1, 8])
    room = made((sum(by_batch) * max(shape) + whole + low + 64,), kind)
    strides = tuple(size * x for x in (*by_batch, steps[0], steps[1]))
    return strided(room[low:], shape, strides).view(Cupy)


def drawn(rng):
    """Return the arguments of a random call."""
    kind, result = rng.choice(
        [(np.float16, np.float16), (np.float32, np.float32), (np.int8, np.int32)]
    )
    M, N, K = (rng.choice([1, 7, 8, 16, 17, 64, 130]) for _ in range(3))
    if rng.random() < 0.1:
        M, N, K = (rng.choice([512, 520]) for _ in range(3))
    batch = rng.choice([(), (), (), (3,), (2, 2)])
    sides = placed(rng, (*batch, M, K), kind), placed(rng, (*batch, N, K), kind)
    a, b = sides[0], sides[1].swapaxes(-1, -2)
    if rng.random() < 0.3:
        a, b = (placed(rng, (*batch, *x), kind) for x in ((K, M), (K, N)))
        a = a.swapaxes(-1, -2)
    named = {"alpha": rng.choice([1, 2.0])}
    if rng.random() < 0.4:
        named |= {"c": placed(rng, (*batch, M, N), result), "beta": rng.choice([1.0, 0.5])}
    if rng.random() < 0.3:
        named["bias"] = made((2 * N,))[:: rng.choice([1, 2])][:N]
    if rng.random() < 0.4:
        named["out"] = rng.choice([named.get("c"), placed(rng, (*batch, M, N), result)])
    return a, b, {name: x for name, x in named.items() if x is not None}


@pytest.mark.parametrize("seed", quick([(0,)], range(20)))
def test_random_calls_do_what_their_explanation_says(launched, seed):
    rng, seen = random.Random(seed), Counter()
    for _ in range(120):
        a, b, named = drawn(rng)
        try:
            config = require_explained(a, b, **named)
            seen[config.way] += 1
        except cute.CuteError as error:
            seen[error.code] += 1
    seen["cp.async"] += seen.pop("through registers", 0)
    assert set(seen) == {"TMA", "cp.async", "to registers", "ops-overlap"}
    assert min(seen.values()) >= 3, seen


@pytest.mark.parametrize("size", [64, 520])
def test_every_copy_is_said(launched, size):
    """By the explanation of the configuration: of an operand, of c, and to out."""
    M, N, K = size, size + 8, size + 16
    sides = matrices(M, K), [x.swapaxes(0, 1) for x in matrices(N, K)], [*matrices(M, N)[::3], None]
    outs = [None, made((M, N), np.float16), made((M, N + 1), np.float16)[:, 1:]]
    for a, b, c, out in itertools.product(*sides, outs):
        terms = {} if c is None else {"c": c, "beta": 1}
        require_explained(a, b, out=out, **terms)
    assert not launched


@pytest.mark.parametrize("size", [40, 520])
def test_a_copy_that_strides_need_is_one_that_tma_reads(launched, size):
    """Its rows begin at multiples of 16 bytes: neither is it copied again, nor read by cp.async."""
    a, b = (made((size, 2 * size + 2), np.float16)[:, ::2] for _ in range(2))
    config = require_explained(a, b.swapaxes(0, 1))
    assert config.reasons[0] == "path: TMA and wgmma, the family of compute capability 9.0"
    assert [x[:2] for x in config.reasons[-2:]] == ["A:", "B:"]
    assert Counter(Cupy.seen)["copy"] == 0


PARTS = [
    *("tile=64x64x64", "tile=128x256x64", "tile=128x100x64", "tile=0x64x64", "tile=64x64"),
    *("stages=1", "stages=100", "store=3", "store=256", "cluster=2", "cluster=0", "split=2"),
    *("split=0", "schedule=pingpong", "schedule=multistage", "two_level=1", "prefetch=3"),
    *("warps=8x1", "warps=0x0", "band=8", "min_blocks=3", "pdl=2", "atom=x"),
]


@pytest.mark.parametrize(
    ("kind", "text", "code"),
    [
        ("f32", "split=2", "config-types"),  # a part of kernels for other types
        ("f64", "schedule=cooperative", "config-types"),
        ("bf16", "tile=0x64x64", "gemm-config"),
    ],
)
def test_text_that_fits_no_kernel_is_refused(launched, kind, text, code):
    a = made((64, 64), cute.dtype(kind).numpy)
    with pytest.raises(cute.CuteError) as caught:
        cute.ops.gemm_config(a, a, config=text)
    assert caught.value.code == code


@pytest.mark.parametrize("kind", ["f32", "bf16", "e4m3"])
def test_nothing_but_refusals_leaves_the_choice(launched, kind):
    a, b = made((40, 64), cute.dtype(kind).numpy), made((24, 64), cute.dtype(kind).numpy)
    configs = 0
    for words in itertools.product(PARTS[::9], PARTS):
        with suppress(cute.CuteError):
            require_true(cute.ops.gemm_config(a, b.T, config=",".join(words)))
            configs += 1
    assert configs > 0


@pytest.mark.parametrize(
    ("out", "named", "code"),
    [
        ((24, 41), {}, "ops-shape"),
        ((24, 40), {"out_dtype": "f16"}, "ops-out-dtype"),
        ((24, 40), {"bias": (3,)}, "ops-shape"),
        ((24, 40), {"config": "tile=8x8x8"}, "gemm-config"),
    ],
)
def test_out_is_untouched_where_something_is_refused(launched, out, named, code):
    out = made(out)
    named = {k: made(v) if k == "bias" else v for k, v in named.items()}
    with pytest.raises(cute.CuteError) as caught:
        product(out, **named)
    assert caught.value.code == code
    assert launched == []
    assert (out == 0).all()


def test_a_refused_launch_leaves_out_as_it_was(launched, monkeypatch):
    def refused(_plan, _leaves):
        raise cute.LayoutError("no")

    monkeypatch.setattr(backends, "prepare", [refused])
    out = made((24, 40))
    with pytest.raises(cute.LayoutError, match="no"):
        product(out)
    assert (out == 0).all()


# -- the current device


def test_all_memory_is_moved_on_the_device_of_the_arrays(launched):
    """Operands that are copied, for their strides and for their rows; the bias; the result."""
    a, b = made((1200, 1024), np.float16)[::2, ::2], made((512, 601), np.float16)
    out = made((601, 600), np.float16).swapaxes(0, 1)
    cute.ops.gemm(a, b, bias=made((1202,))[::2], out=out)
    assert Counter(Cupy.seen) == {"copy": 2, "empty": 2, "__setitem__": 2}
    assert cute.ops.gemm(a, b).shape == (600, 601)
    assert Current.depth == 0


def test_torch_goes_by_its_arrays_and_is_told_what_is_written(monkeypatch):
    told = []
    graph = SimpleNamespace(increment_version=told.append)
    torch = SimpleNamespace(autograd=SimpleNamespace(graph=graph))
    monkeypatch.setitem(sys.modules, "torch", torch)

    class Tensor:
        __module__ = "torch"

    x = Tensor()
    library = Torch("cute.ops.gemm", Words(), "cuda:0")
    with library.inside():
        library.written(x)
    assert told == [x]
    del graph.increment_version  # before torch 2.2
    Torch("cute.ops.gemm", Words(), "cuda:0").written(x)
    assert told == [x]
