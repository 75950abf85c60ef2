"""Packed elements, pointers, atomics and hints: kernels move and make the bits that they do on the
emulator.
"""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.calls.arrays import TypedArray
from cute_py.kernels.config import choose
from cute_py.kernels.gemm_array import gemm_array
from cute_py.kernels.gemm_gathered import gemm_gathered
from cute_py.kernels.histogram import histogram
from cute_py.plan import ops
from tests.compile_only.test_memory import hinted
from tests.coverage import covers
from tests.emulated.test_atomics import SPECIAL, adding, greatest, places, swapped
from tests.emulated.test_packed import KINDS, ZFILL, staged, tiles, words
from tests.emulated.test_pointers import at_addresses, drawn, gathered, in_stages
from tests.gpu.harness import DRY, SPILLS, OnGpu, assert_same, require_any, torch

require_any()
f32 = np.float32


def copied(x):
    """A copy of an argument on the host."""
    if isinstance(x, cute.TensorArray):
        return cute.TensorArray([copied(y) for y in x.arrays])
    if isinstance(x, TypedArray):
        return replace(x, array=x.array.copy())
    return x.copy() if isinstance(x, np.ndarray) else x


def on_gpu(x):
    """A copy of an argument on the GPU; the members of a table are torch's."""
    if isinstance(x, cute.TensorArray):
        return cute.TensorArray([torch.from_numpy(y.copy()).cuda() for y in x.arrays])
    if isinstance(x, TypedArray):
        return replace(x, array=OnGpu(x.array))
    return OnGpu(x) if isinstance(x, np.ndarray) else x


def arrays_of(x):
    """The arrays of an argument, as NumPy's."""
    if isinstance(x, cute.TensorArray):
        return [array for y in x.arrays for array in arrays_of(y)]
    if isinstance(x, TypedArray):
        return arrays_of(x.array)
    if isinstance(x, np.ndarray):
        return [x]
    if isinstance(x, OnGpu):
        return [x.numpy()]
    return [x.cpu().numpy()] if hasattr(x, "cpu") else []


def agrees(kernel, *args):
    """Compare all arrays after a kernel has run on the GPU and on the emulator."""
    host = [copied(x) for x in args]
    plan = cute.trace(kernel, *host)
    leaves = kernel.leaves(*host)
    cute.emulate(plan, *leaves)
    if DRY:
        cute.compile(plan, DRY, SPILLS)
        return
    there = [on_gpu(x) for x in args]
    kernel(*there)
    torch.cuda.synchronize()
    for i, (x, y) in enumerate(zip(there, host, strict=True)):
        for got, wanted in zip(arrays_of(x), arrays_of(y), strict=True):
            assert_same(got, wanted, f"argument {i}")


@pytest.mark.parametrize("kind", KINDS)
def test_packed_tiles(kind):
    bits = cute.dtype(kind).bits
    for count in (n for n in (32, 16, 8) if n * bits >= 8):
        for word in (np.uint8, np.int32):
            x = words(kind, 13 * 96, word).reshape(13, -1)
            given = [cute.typed(each, kind, packed=True) for each in (x, np.zeros_like(x))]
            agrees(tiles, *given, count)


def test_packed_elements_by_cp_async():
    x, y = (words("s4", 16 * 64, seed=k).reshape(16, 32) for k in range(2))
    agrees(staged(ZFILL), *(cute.typed(each, "s4", packed=True) for each in (x, y)),
           np.arange(32) >= 6)  # fmt: skip


def test_arrays_are_indexed_by_a_number_from_memory():
    parts = cute.TensorArray(drawn((3, 16), (2, 128), (1, 64)))
    agrees(gathered, parts, np.array([2, 0, 1, 1], np.int32), np.zeros((4, 128), f32))
    agrees(in_stages, cute.TensorArray(drawn(128, 300, 1000, 4)), np.zeros((4, 128), f32))


@covers(ops.MakePtr)
def test_an_integer_from_memory_is_an_address():
    """By `cute.make_ptr`."""
    host = drawn(256, 512, dtype=np.float16)
    out = np.zeros((3, 256), np.float16)
    wanted = np.stack([host[0], host[1][:256], host[1][256:]])
    if DRY:
        cute.compile(cute.trace(at_addresses, np.zeros(3, np.int64), out), DRY, SPILLS)
        return
    arrays = [torch.from_numpy(x).cuda() for x in host]
    second = arrays[1].data_ptr()
    table = torch.tensor([arrays[0].data_ptr(), second, second + 512]).cuda()
    found = torch.from_numpy(out).cuda()
    at_addresses(table, found)
    assert_same(found.cpu().numpy(), wanted)


def test_a_graph_reads_the_table_that_was_updated():
    if DRY:
        pytest.skip("needs an NVIDIA GPU")
    host = drawn((3, 16), (2, 128))
    parts = cute.TensorArray([torch.from_numpy(x).cuda() for x in host])
    order = torch.tensor([0, 1, 1], dtype=torch.int32).cuda()
    out = torch.zeros((3, 128)).cuda()
    gathered(parts, order, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gathered(parts, order, out)
    new = drawn((5, 128), seed=3)[0]
    parts.update([torch.from_numpy(new).cuda()], first=1)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert_same(out.cpu().numpy()[0, :16], host[0][0])
    assert_same(out.cpu().numpy()[1:], np.stack([new[0]] * 2))


@pytest.mark.parametrize("space", ["gmem", "smem"])
@pytest.mark.parametrize("fn", ["min", "max"])
def test_extrema_of_floats(fn, space):
    """All pairs of special values: NaNs, infinities, zeros of both signs, subnormal numbers."""
    a, b = (each.reshape(-1) for each in np.meshgrid(SPECIAL, SPECIAL))
    n = -(-len(a) // 32) * 32
    x, y = np.zeros(n, f32), np.zeros(n, f32)
    x[: len(a)], y[: len(b)] = a, b
    agrees(places(space), x, y, np.zeros(n, f32), fn)


def test_many_threads_take_a_maximum():
    """Of numbers and NaNs, in memory that begins with a NaN."""
    x = np.random.default_rng(0).standard_normal(100_000).astype(f32) - 5
    x[::7] = np.nan
    for start in (np.nan, -np.inf, 3.0):
        agrees(greatest, x, np.array([start], f32))


@pytest.mark.parametrize("kind", ["s16", "s32", "u64", "f16", "f32", "f64"])
def test_exchanges(kind):
    random = np.random.default_rng(0)
    agrees(swapped, *[random.integers(0, 3, 32).astype(cute.dtype(kind).numpy) for _i in range(3)],
           np.zeros(32, cute.dtype(kind).numpy))  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "count"),
    [("f32", 4), ("f32", 2), ("f16", 8), ("f16", 4), ("f16", 2),
     *[pytest.param("bf16", n, marks=pytest.mark.sm90) for n in (8, 4, 2)]],
)  # fmt: skip
def test_sums_of_vectors(kind, count):
    held = cute.dtype(kind).numpy
    x = np.random.default_rng(0).integers(0, 2, (32, 3 * count)).astype(held)
    agrees(adding(count, False), x, np.ones(3 * count, held), x)


@pytest.mark.parametrize(
    ("load", "store", "copy"),
    [
        ("L1::no_allocate", "L1::evict_first", "L2::64B"),
        ("L1::evict_last.L2::evict_first.L2::256B", "wt.L2::evict_last", "L2::evict_first"),
    ],
)
def test_hints_change_no_value(load, store, copy):
    plan = hinted(load, store, copy)
    x, y = drawn(128)[0], np.zeros(128, f32)
    cute.emulate(plan, x, y)
    assert (x == y).all()
    if DRY:
        cute.compile(plan, DRY, SPILLS)
        return
    there = OnGpu(x), OnGpu(np.zeros(128, f32))
    cute.run(plan, *there)
    torch.cuda.synchronize()
    assert_same(there[1].numpy(), x)


# -- kernels


def test_products_by_a_table_of_pointers():
    random = np.random.default_rng(0)
    sizes = [(70, 40, 64), (1, 100, 8), (300, 264, 1000), (64, 65, 40)]
    a, b = ([random.integers(-3, 4, (s[i], s[2])).astype(np.float16) for s in sizes]
            for i in (0, 1))  # fmt: skip
    parts = [cute.TensorArray(x) for x in (a, b, [np.zeros(s[:2], f32) for s in sizes])]
    agrees(gemm_array, *parts, 300, 264, choose(a[0], b[0], (128, 128)))


def test_rows_are_gathered_and_scattered():
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (n, 136)).astype(np.float16) for n in (500, 264))
    rows, places = random.integers(0, 500, 300), random.permutation(400)[:300]
    agrees(gemm_gathered, a, b, np.ones((400, 264), f32), rows, places, choose(a, b))


def test_values_are_counted():
    x = np.random.default_rng(0).integers(0, 256, 1_000_003, np.uint8)
    agrees(histogram, x, np.ones(256, np.int32), 256, 16)
