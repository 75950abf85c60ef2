"""Tables of pointers at launch: what is written, kept, compared and captured."""

import gc
import weakref

import numpy as np
import pytest

import cute_py as cute
from tests.fake_gpu import Array, install
from tests.kernel_refusals import raised


@pytest.fixture(params=[False, True], ids=["facts", "guards"])
def gpu(monkeypatch, request):
    return install(monkeypatch, request.param)


def taking():
    @cute.kernel
    def kernel(parts, out):
        cute.launch(grid=parts.count, block=32)
        out[cute.block_idx()] = parts[cute.block_idx()][0, cute.thread_idx()]

    return kernel


OUT = Array((8,))


def test_a_table_has_a_row_for_each_array(gpu):
    """Address and what differs, in whole vectors of 16 bytes; a call passes its address alone."""
    parts = cute.TensorArray([Array((n, 8), address=4096 * n) for n in (3, 5)])
    ((table, first, rows),) = gpu.written
    assert (table.shape, first) == ((2, 4), 0)
    assert rows == [[12288, 3, 8, 8], [20480, 5, 8, 8]]
    kernel = taking()
    kernel(parts, OUT)
    ((_device, grid, _stream, words),) = gpu.raw.launches
    assert grid == (2, 1, 1)
    assert words[:3] == [1 << 20, 2, 4096]
    assert len(gpu.written) == 1


def test_a_call_seen_before_copies_nothing_and_is_captured(gpu):
    kernel, parts = taking(), cute.TensorArray([Array((3, 8)), Array((4, 8), address=8192)])
    kernel(parts, OUT)
    before = len(gpu.raw.calls)
    gpu.raw.capturing = True
    kernel(parts, OUT)
    parts.update([Array((9, 16), address=1 << 30)], first=1)
    kernel(parts, OUT)
    assert len(gpu.raw.calls) == before
    assert len(gpu.raw.launches) == 3
    assert gpu.written[1][1:] == (1, [[1 << 30, 9, 16, 16]])


def test_tables_with_other_facts_have_other_plans(gpu):
    kernel = taking()
    aligned = [Array((3, 8)), Array((4, 8), address=8192)]
    kernel(cute.TensorArray(aligned), OUT)
    kernel(cute.TensorArray(aligned * 2), OUT)
    assert len(kernel.plans) == 1
    kernel(cute.TensorArray([*aligned, Array((4, 8), address=4)]), OUT)
    kernel(cute.TensorArray([Array((3, 8), np.float64)] * 2), Array((8,), np.float64))
    assert len(kernel.plans) == 3
    plan = cute.trace(kernel, cute.TensorArray(aligned), OUT)
    for wrong in (cute.TensorArray([Array((4, 8), address=4)]), Array((4, 4), np.int64)):
        assert raised(lambda x=wrong: cute.run(plan, x, OUT)).code == "launch-argument"
    plain = cute.trace(kernel_of_an_array, Array((4, 4), np.int64))
    assert raised(lambda: cute.run(plain, cute.TensorArray(aligned))).code == "launch-argument"


@cute.kernel
def kernel_of_an_array(x):
    cute.launch(grid=1, block=32)


def test_a_table_keeps_its_arrays_alive():
    arrays = [np.zeros((4, 8), np.float32).view(Kept) for _i in range(2)]
    alive = [weakref.ref(x) for x in arrays]
    parts = cute.TensorArray(arrays)
    del arrays
    gc.collect()
    assert all(x() is not None for x in alive)
    parts.update([np.zeros((4, 8), np.float32)], first=1)
    gc.collect()
    assert [x() is None for x in alive] == [False, True]


class Kept(np.ndarray):
    """An array that may be referred to weakly."""


def test_arrays_of_several_memories_are_refused(gpu):
    here, there = Array((4, 8)), Array((4, 8), device=1)
    host = np.zeros((4, 8), np.float32)
    for arrays in ([here, there], [here, host], [host, here]):
        assert raised(lambda x=arrays: cute.TensorArray(x)).code == "table-memory"
    parts = cute.TensorArray([here])
    for wrong in (there, host):
        assert raised(lambda x=wrong: parts.update([x])).code == "table-memory"
    foreign = type("Foreign", (), {"__cuda_array_interface__": {"data": (4096, False)},
                   "shape": (4,), "dtype": np.dtype(np.float32), "strides": (4,)})()  # fmt: skip
    assert raised(lambda: cute.TensorArray([foreign])).code == "table-library"


def test_packed_words_are_launched_with_the_sizes_of_their_elements(gpu):
    @cute.kernel
    def kernel(x):
        cute.launch(grid=x.shape[0], block=32)

    words = Array((3, 64), np.uint8)
    packed = cute.typed(words, "s4", packed=True)
    kernel(packed)
    kernel(packed)
    for launch in gpu.raw.launches:
        assert launch[3] == [4096, 3, 128, 128]
    plan = cute.trace(kernel, packed)
    for wrong in (cute.typed(Array((3, 64), np.int8), "s4"), words,
                  cute.typed(words, "u4", packed=True)):  # fmt: skip
        assert raised(lambda x=wrong: cute.run(plan, x)).code == "launch-argument"
