"""Acceptance examples of the inventory that need a GPU: memory, turns of blocks, fills."""

import gc

import numpy as np
import pytest

import cute_py as cute
from cute_py import host
from cute_py.plan import ops
from tests.coverage import covers
from tests.emulated.test_requirements_matrix import wmma_products
from tests.gpu.harness import DRY

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.device_memory import DeviceAllocation, DeviceArray
from cute_py.codegen.driver import driver

if DRY:
    pytest.skip("memory and launches need a GPU", allow_module_level=True)


def bytes_at(address):
    """Return the size of what is allocated at an address, 0 where nothing is. What is free would
    depend on other processes.
    """
    with driver().inside(0):
        status, *found = driver().raw.cuMemGetAddressRange(address)
    return 0 if int(status) else int(found[1])


def test_d04_two_launches_on_the_device_view_and_back():
    tensor = cute.make_host_tensor((64, 33), "f32", 1.5)

    @cute.kernel
    def double(x):
        cute.launch(grid=64, block=64)
        with cute.when(cute.thread_idx() < 33):
            x[cute.block_idx(), cute.thread_idx()] *= 2

    tensor.sync_device()
    assert tensor.device_backed
    for _launch in range(2):
        double(tensor.device_view())
    assert tensor[0, 0] == 1.5
    tensor.sync_host()
    assert (tensor.to_numpy() == 6).all()


def test_d05_the_memory_returns_after_the_scope():
    size = 1 << 30
    with driver().inside(0):
        total = int(driver().raw.cuMemGetInfo()[2])

    def scope():
        held = DeviceAllocation(size)
        assert bytes_at(held.address) >= held.nbytes == size
        return held.address

    for _ in range(total // size + 2):  # more than there is, one after the other
        address = scope()
        gc.collect()
        assert bytes_at(address) == 0
    tensor = cute.make_host_tensor(size // 64, "f32")
    address = tensor.device_view().address
    assert bytes_at(address) >= size // 16
    del tensor
    gc.collect()
    assert bytes_at(address) == 0


FILLS = [
    (host.tensor_fill, (3.14159,)),
    (host.tensor_fill_random_uniform, (2025, 4, -4, 2)),
    (host.tensor_fill_random_uniform, (7, 1.0, -1.0)),
    (host.tensor_fill_random_gaussian, (2025, 0.5, 2.0, 2)),
    (host.tensor_fill_random_gaussian, (1 << 40,)),
]


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64", "s8"])
@pytest.mark.parametrize(("fill", "args"), FILLS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_d07_d08_d09_a_kernel_fills_with_the_values_of_the_host(fill, args, dtype):
    if dtype == "s8" and fill is host.tensor_fill:
        args = (3,)
    tensor = fill(cute.make_host_tensor((1000, 77), dtype), *args)
    with driver().inside(0), DeviceArray(np.zeros((1000, 77), cute.dtype(dtype).numpy)) as x:
        fill(x, *args)
        np.testing.assert_array_equal(x.to_host(), tensor.to_numpy())


@cute.kernel
def append_by_semaphore(turn, count, out):
    cute.launch(grid=out.shape[0], block=64)
    b, tid = cute.block_idx(), cute.thread_idx()
    lock = cute.Semaphore(turn)
    lock.wait(b)
    with cute.when(tid == 0):
        at = cute.as_int(cute.load_acquire(cute.local_tile(count, (1,), (0,))), 0)
        out[at] = b
        count[0] = at + 1
    lock.release((b + 1) % 64)


@pytest.mark.hangs(60)
def test_e06_f17_64_blocks_append_in_order_a_thousand_times():
    arrays = [np.zeros(1, np.int32), np.zeros(1, np.int32), np.full(64, -1, np.int32)]
    plan = cute.trace(append_by_semaphore, *arrays)
    with driver().inside(0):
        turn = DeviceArray(arrays[0])
        for _repeat in range(1000):
            with DeviceArray(arrays[2]) as out, DeviceArray(arrays[1]) as count:
                cute.run(plan, turn, count, out)
                np.testing.assert_array_equal(out.to_host(), np.arange(64))
        assert turn.to_host()[0] == 0


@pytest.mark.parametrize("size", [49_152, 102_400])
def test_e07_more_than_48_kib_of_shared_memory(size):
    @cute.kernel
    def reverse(A, B):
        cute.launch(grid=1, block=128)
        held, tid = cute.smem("u8", size), cute.thread_idx()
        for i in cute.range(tid, size, 128):
            held[i] = A[i]
        cute.syncthreads()
        for i in cute.range(tid, size, 128):
            B[i] = held[size - 1 - i]

    a = np.random.default_rng(0).integers(0, 256, size).astype(np.uint8)
    with driver().inside(0), DeviceArray(a) as x, DeviceArray(np.zeros_like(a)) as y:
        reverse(x, y)
        np.testing.assert_array_equal(y.to_host(), a[::-1])


@covers(ops.WmmaLoad, ops.WmmaStore)
@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 8, 16), (8, 32, 16)], ids=str)
@pytest.mark.parametrize("majors", [(1, 1, 1), (0, 0, 0), (1, 0, 1)], ids=str)
@pytest.mark.parametrize("sums", ["f32", "f16"])
def test_f29_wmma_loads_multiplies_and_stores(shape, majors, sums):
    (m, n, k), rng = shape, np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    c = rng.integers(-9, 10, (m, n)).astype(cute.dtype(sums).numpy)
    with driver().inside(0):
        arrays = [DeviceArray(x) for x in (a, b, c, np.zeros_like(c), np.zeros_like(c))]
        wmma_products(*arrays, cute.Wmma(shape, sums), majors)
        d, ones = arrays[3].to_host(), arrays[4].to_host()
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_array_equal(d, 2 * exact + c)
    np.testing.assert_array_equal(ones, exact + 3)


def test_f01_f11_where_a_thread_runs_and_where_its_shared_memory_is():
    @cute.kernel
    def here(out):
        cute.launch(grid=1024, block=32)
        b, tid = cute.block_idx(), cute.thread_idx()
        first, second = cute.smem("u8", 3), cute.smem("f32", 64)
        out[b, 0, tid] = cute.sm_idx()
        out[b, 1, tid] = cute.smem_address(first)
        out[b, 2, tid] = cute.smem_address(cute.local_tile(second, (1,), (tid,)))

    zeros = np.zeros((1024, 3, 32), np.uint32)
    first, second = cute.trace(here, zeros).shared
    with driver().inside(0), DeviceArray(zeros) as x:
        here(x)
        out = x.to_host()
    assert len(np.unique(out[:, 0])) > 1
    assert out[:, 0].max() < driver().limit(0, "MULTIPROCESSOR_COUNT")
    begin = int(out[0, 1, 0]) - first.offset  # 1024 on compute capability 9.0
    assert begin % 1024 == 0
    assert (out[:, 1] == begin + first.offset).all()
    assert (out[:, 2] == begin + second.offset + 4 * np.arange(32)).all()
