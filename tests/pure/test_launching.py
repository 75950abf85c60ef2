"""The launcher, by a driver that is none: what it asks for, refuses, and does when asked twice."""

import ctypes
import gc
import struct
import threading
import time
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import cute_py as cute
from cute_py.calls.arrays import strides_of
from cute_py.codegen import driver as drivers
from cute_py.codegen.build import Resources
from cute_py.codegen.driver import streams
from cute_py.codegen.driver.streams import stream_number
from cute_py.codegen.launch import run
from cute_py.codegen.launch.prepared import RECENT, Block, Prepared
from cute_py.plan.params import multiplier
from tests.fake_gpu import LIMITS, Array, Launching, Status, install


@pytest.fixture
def gpu(monkeypatch):
    RECENT.clear()
    touch._calls = rows._calls = None
    return install(monkeypatch)


@cute.kernel
def rows(x, y, n: cute.s32, alpha: cute.f32):
    cute.launch(grid=(cute.ceil_div(x.shape[0], 128), n), block=128)
    y[cute.thread_idx()] = alpha


@cute.kernel
def touch(x):
    cute.launch(grid=x.shape[0], block=32)


@cute.kernel
def corner(x):
    cute.launch(grid=1, block=32)
    x[0, 0] = 1.0


def plan_of(kernel, *args):
    """Return a plan of its own, which no other test has launched."""
    kernel.plans.clear()
    return cute.trace(kernel, *args)


X = Array((1000,))


def run_of(plan):
    """Return the launcher of a plan, as `cute.run` keeps it."""
    from cute_py.codegen.launch import run

    return run.launcher(plan, 0)


def refused(code, plan, *args, **named):
    with pytest.raises(cute.CuteError) as caught:
        cute.run(plan, *args, **named)
    assert caught.value.code == code, caught.value
    return str(caught.value)


# -- what the driver is asked for


def test_numbers_and_addresses_are_packed_as_the_kernel_reads_them(gpu):
    @cute.kernel
    def numbers(x, a: cute.f32, b: cute.f64, c: cute.s32, d: cute.u64, e: cute.b1):
        cute.launch(grid=1, block=32)

    plan = plan_of(numbers, X, 1.0, 1.0, 1, 1, True)
    cute.run(plan, Array((1000,), address=2**63 + 16), -0.1, -0.1, -5, 2**64 - 1, True)
    ((_device, grid, stream, words),) = gpu.raw.launches
    assert (grid, stream) == ((1, 1, 1), 0)
    assert words[0] == 2**63 + 16
    assert words[1] == 1000
    bits = np.array(words[2:], np.uint64)
    assert bits[:1].view(np.float32)[0] == np.float32(-0.1)
    assert bits[1:2].view(np.float64)[0] == -0.1
    assert bits[2:3].view(np.int64)[0] == -5
    assert (words[5], words[6]) == (2**64 - 1, 1)


def test_a_number_of_64_bits_is_refused_where_the_kernel_computes_with_it(gpu):
    """Integers of a kernel are signed: 2**63 would be compared as -2**63."""

    @cute.kernel
    def below(x, n: cute.u64):
        cute.launch(grid=1, block=32)
        with cute.when(cute.thread_idx() < n):
            x[cute.thread_idx()] = 1

    plan = plan_of(below, X, 1)
    cute.run(plan, X, 2**63 - 1)
    assert "less than 2**63" in refused("plan-unsigned", plan, X, 2**63)
    cute.run(plan, X, 3)
    assert [words[-1] for *_rest, words in gpu.raw.launches] == [2**63 - 1, 3]


def test_a_grid_of_run_time_numbers_is_counted_at_each_launch(gpu):
    plan = plan_of(rows, X, X, 1, 1.0)
    for n in (3, 0, 7):
        cute.run(plan, X, X, n, 1.0)
    assert [launch[1] for launch in gpu.raw.launches] == [(8, 3, 1), (8, 7, 1)]
    message = refused("launch-grid", plan, X, X, 65536, 1.0)
    assert "a grid of (8, 65536, 1) blocks" in message
    assert "at most (2147483647, 65535, 65535)" in message
    refused("launch-grid", plan, X, X, -1, 1.0)


def test_a_grid_of_the_same_run_time_numbers_is_computed_once(gpu, monkeypatch):
    """Whatever came before, an empty grid or a refused one too: each launch has its own grid."""
    plan = plan_of(rows, X, X, 1, 1.0)
    computed = []
    launcher = run_of(plan)
    blocks = launcher.blocks
    monkeypatch.setattr(launcher, "blocks", lambda **n: (computed.append(n["n"]), blocks(**n))[1])
    numbers = [3, 3, 3, 0, 0, 3, 7, 7, 65536, 65536, 7, 3, 3]
    for n in numbers:
        if n > 65535:
            refused("launch-grid", plan, X, X, n, 1.0)
        else:
            cute.run(plan, X, X, n, 1.0)
    found = [launch[1][1] for launch in gpu.raw.launches]
    assert found == [n for n in numbers if 0 < n < 65536]
    assert computed == [3, 0, 0, 3, 7, 65536, 65536, 7, 3]


@cute.kernel
def agreed(x, y, n: cute.s32):
    cute.assume_shapes("N N", x, y)
    cute.assume(n <= x.shape[0])
    cute.launch(grid=1, block=32)
    with cute.when(cute.thread_idx() < n):
        y[cute.thread_idx()] = 1.0


def test_what_a_kernel_states_of_its_arguments_is_tested_at_each_launch(gpu):
    """By the host, for sizes and run-time numbers: nothing is launched where it is false."""
    plan, shorter = plan_of(agreed, X, X, 1), Array((992,))
    cute.run(plan, X, X, 1000)
    for arrays, n in (
        ((X, shorter), 1),
        ((shorter, X), 1),
        ((X, X), 1001),
        ((shorter, shorter), 993),
    ):
        assert "is false" in refused("plan-requirement", plan, *arrays, n)
    cute.run(plan, shorter, shorter, 992)
    assert len(gpu.raw.launches) == 2


@cute.kernel
def paired(x, n: cute.s32):
    cute.launch(grid=n, block=32, cluster=2)
    x[cute.thread_idx()] = 1.0


def test_clusters_are_asked_for_with_whole_ones_whatever_the_grid_is(gpu):
    plan = plan_of(paired, X, 2)
    for n in (2, 6):
        cute.run(plan, X, n)
    assert [launch[1] for launch in gpu.raw.launches] == [(2, 1, 1), (6, 1, 1)]
    refused("launch-cluster", plan, X, 3)


@cute.kernel
def divided(x, n: cute.s32(min=1, multiple_of=2)):
    cute.launch(grid=4, block=32)
    t = cute.thread_idx()
    x[t // cute.ceil_div(x.shape[0], 64)] = (t // n).to("f32")


def test_the_host_computes_multipliers_once_for_sizes_and_at_each_call_for_numbers(gpu):
    x, far = Array((1000,)), Array((2000,))
    for array, n in ((x, 6), (x, 10), (far, 6), (x, 6)):
        divided(array, n)
    sizes = {1000: multiplier(16), 2000: multiplier(32)}
    plan = cute.trace(divided, x, 6)
    order = [str(d) for d in plan.launch.divisors]
    assert sorted(order) == ["ceil_div(x_shape0,64)", "n"]
    for (*_rest, words), (size, n) in zip(
        gpu.raw.launches, ((1000, 6), (1000, 10), (2000, 6), (1000, 6)), strict=True
    ):
        found = dict(zip(order, words[3:], strict=True))
        assert found == {"ceil_div(x_shape0,64)": sizes[size], "n": multiplier(n)}
    for wrong in (0, 3):
        with pytest.raises(cute.CuteError) as caught:
            divided(x, wrong)
        assert caught.value.code == "argument-number"
        assert "from 1 to" in refused("argument-number", plan, x, wrong)


@cute.kernel
def together(x, n: cute.s32):
    cute.launch(grid=(x.shape[0], n), block=1024, resident=True)


def test_blocks_that_wait_for_each_other_have_room_together(gpu):
    fits, more = Array((132,)), Array((136,))
    plan = plan_of(together, fits, 2)
    assert str(plan).splitlines()[3].endswith("resident")
    cute.run(plan, fits, 2)
    cute.run(plan, more, 1)
    for _again in range(2):
        text = refused("launch-resident", plan, more, 2)
        assert "272 blocks" in text
        assert "at most 264" in text
    assert len(gpu.raw.launches) == 2


@cute.kernel
def tabled(x, n: cute.s32, tables):
    cute.launch(grid=4, block=32)
    t = cute.thread_idx()
    if "sizes" in tables:
        x[cute.make_table([k * x.shape[0] for k in range(3)])[t % 3]] = 1.0
    if "numbers" in tables:
        x[cute.make_table([n - 2, 5, n * n])[t % 3]] = (t // cute.max_(n, 1)).to("f32")


@pytest.mark.parametrize("tables", ["sizes", "numbers", "sizes numbers"])
def test_the_host_computes_tables_once_for_sizes_and_at_each_call_for_numbers(gpu, tables):
    calls = (Array((100,)), 6), (Array((100,)), 10), (Array((200,)), 6), (Array((100,)), -1)
    for array, n in (*calls, *calls):
        tabled(array, n, tables)
    plan = cute.trace(tabled, calls[0][0], 6, tables)
    for array, n in calls:
        cute.run(plan, array, n)
    assert len(gpu.raw.launches) == 12
    for (*_rest, words), (array, n) in zip(gpu.raw.launches, 3 * calls, strict=True):
        wanted = [[0, array.shape[0], 2 * array.shape[0]]] * ("sizes" in tables)
        wanted += [[n - 2, 5, n * n]] * ("numbers" in tables)
        found = words[-len(wanted) :]
        assert [np.array(row, np.uint64).view(np.int64).tolist() for row in found] == wanted


def test_entries_wrap_around_at_64_bits(gpu):
    @cute.kernel
    def powers(x, n: cute.s64):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        x[cute.make_table([n * n, n * n * n])[t % 2]] = 1.0

    powers(Array((100,)), 2**32 - 1)
    *_rest, words = gpu.raw.launches[-1]
    n = np.uint64(2**32 - 1)
    with np.errstate(over="ignore"):
        assert words[-1] == [n * n, n * n * n]


def test_a_plan_for_small_arrays_refuses_one_of_2_gb(gpu):
    small, large = Array((10, 8)), Array((10, 8), strides=(2**29, 4))
    plan = plan_of(corner, small)
    assert plan.params[0].small
    assert "2 GB" in refused("launch-argument", plan, large)
    cute.run(plan_of(corner, large), large)


@cute.kernel
def counted(x, y):
    cute.launch(grid=4, block=32)
    tiles = cute.ceil_div(x.shape[0], 64) * cute.ceil_div(y.shape[0], 64)
    for tile in cute.range(tiles):
        x[tile] = 1.0


def test_numbers_of_tiles_are_checked_where_a_launch_is_prepared(gpu):
    fine, many = Array((6400,)), Array((2**28,), strides=(0,))
    cute.run(plan_of(counted, fine, fine), fine, fine)
    plan = cute.trace(counted, many, many)
    assert "below 2**31" in refused("plan-count", plan, many, many)


def test_a_grid_without_blocks_launches_nothing_as_on_the_emulator(gpu):
    @cute.kernel
    def halved(x):
        cute.launch(grid=x.shape[0] // 2000, block=32)

    halved(X)
    halved(X)
    assert gpu.raw.launches == []
    halved(np.zeros(8, np.float32))


def test_a_prepared_launch_asks_the_driver_for_the_launch_alone(gpu):
    plan = plan_of(touch, X)
    cute.run(plan, X)
    gpu.raw.calls.clear()
    cute.run(plan, Array((1000,), address=8192))
    assert {name for name, *_ in gpu.raw.calls} <= {"cuCtxGetDevice"}
    assert len(gpu.raw.launches) == 2


def test_sizes_and_strides_of_64_bits_reach_the_kernel(gpu):
    @cute.kernel
    def strided(x):
        cute.launch(grid=1, block=32)

    far = Array((8,), strides=(4 * 2**33,))
    cute.run(plan_of(strided, far), far)
    assert gpu.raw.launches[0][3] == [4096, 8, 2**33]


def test_clusters_are_an_attribute_of_the_launch(gpu):
    @cute.kernel
    def clustered(x):
        cute.launch(grid=x.shape[0], block=32, cluster=(4, 1, 1))

    plan = plan_of(clustered, X)
    cute.run(plan, X)
    made = run.launcher(plan, 0).prepared([X])[0].pool[0].config
    assert made.numAttrs == 1
    assert vars(made.attrs[0].value.clusterDim) == {"x": 4, "y": 1, "z": 1}
    plan = plan_of(clustered, Array((1001,)))
    message = refused("launch-cluster", plan, Array((1001,)))
    assert "(1001, 1, 1) blocks in clusters of (4, 1, 1)" in message


def test_more_shared_memory_than_48_kb_is_asked_for(gpu):
    @cute.kernel
    def large(x):
        cute.launch(grid=1, block=32)
        tile = cute.smem("f32", 20000)
        tile[cute.thread_idx()] = 1.0

    cute.run(plan_of(large, X), X)
    asked = [call[2:] for call in gpu.raw.calls if call[0] == "cuFuncSetAttribute"]
    assert asked == [("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 80000)]


# -- limits


def test_what_a_device_cannot_run_is_refused(gpu, monkeypatch):
    @cute.kernel
    def large(x):
        cute.launch(grid=1, block=32)
        tile = cute.smem("f32", 30000)
        tile[0] = 1.0

    monkeypatch.setitem(LIMITS, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", 101376)
    message = refused("launch-limit", plan_of(large, X), X)
    assert "120000 bytes of shared memory in a block; required: at most 101376" in message


@pytest.mark.parametrize(
    ("arch", "overlaps"), [("sm_80", False), ("sm_89", False), ("sm_90a", True)]
)
def test_a_launch_may_overlap_the_kernel_before(gpu, arch, overlaps):
    @cute.kernel
    def overlapping(x):
        cute.launch(grid=4, block=32, pdl=True)
        cute.griddepcontrol_wait()
        x[cute.thread_idx()] = 1

    compiled = gpu.compiled(plan_of(overlapping, X), arch)
    driver = Launching(gpu.raw)
    kinds = ["address", "integer"]
    prepared = Prepared(driver, compiled, None, 0, (4, 1, 1), kinds, {}, lambda: 0, lambda: 0)
    config = prepared._block().config
    assert config.numAttrs == len(config.attrs) == overlaps
    if overlaps:
        (made,) = config.attrs
        assert made.id == "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
        assert made.value.programmaticStreamSerializationAllowed == 1


@pytest.mark.parametrize(
    ("block", "cluster", "words"),
    [
        ((2, 2, 128), 1, "128 threads in z; required: at most 64 on this device (sm_90a)"),
        ((1024, 1, 1), 1, "1024 threads in a block; required: at most 512"),
        ((32, 1, 1), 32, "32 blocks in a cluster; required: at most 16"),
    ],
)
def test_blocks_and_clusters_beyond_the_device_are_refused(gpu, block, cluster, words):
    @cute.kernel
    def wide(x):
        cute.launch(grid=32, block=32)

    gpu.raw.attributes["MAX_THREADS_PER_BLOCK"] = 512
    plan = plan_of(wide, X)  # a plan that is built by hand may be larger than any GPU
    shape = replace(plan.launch, block=block, cluster=(cluster, 1, 1))
    plan = replace(plan, launch=shape)
    assert words in refused("launch-limit", plan, X)


# -- arrays


def test_arrays_of_two_devices_are_refused(gpu):
    plan = plan_of(rows, X, X, 1, 1.0)
    message = refused("launch-device", plan, X, Array((1000,), device=1), 1, 1.0)
    assert "given y on device 1, but x on device 0" in message
    assert "copy y to device 0" in message


@pytest.mark.parametrize(
    "wrong",
    [
        Array((1000, 1)),
        Array((1001,)),
        Array((1000,), np.float16),
        Array((1000,), strides=(8,)),
        Array((1000,), address=4),
    ],
    ids=["rank", "extent", "type", "stride", "alignment"],
)
def test_arrays_unlike_those_that_were_traced_are_refused(gpu, wrong):
    plan = plan_of(rows, X, X, 1, 1.0)
    refused("launch-argument", plan, X, wrong, 1, 1.0)
    assert gpu.raw.launches == []


def test_arrays_of_the_host_among_those_of_the_gpu_are_refused(gpu):
    message = refused("launch-host", plan_of(rows, X, X, 1, 1.0), X, np.zeros(1000), 1, 1.0)
    assert "given y (ndarray), which is not on the GPU" in message
    with pytest.raises(cute.CuteError) as caught:
        rows(np.zeros(1000, np.float32), X, 1, 1.0)
    assert caught.value.code == "launch-host"


def test_views_of_negated_values_are_refused_at_launch(gpu):
    plan = plan_of(touch, X)
    cute.run(plan, X)
    view = Array((1000,))
    view.is_neg = lambda: True
    refused("argument-negated", plan, view)
    assert len(gpu.raw.launches) == 1


def test_memory_that_may_not_be_written_is_only_read(gpu):
    gpu.raw.memory = {4096: 0}
    plan = plan_of(rows, X, X, 1, 1.0)
    own, shown = Interface(4096), Interface(4096, read_only=True)
    cute.run(plan, own, own, 1, 1.0)
    cute.run(plan, shown, own, 1, 1.0)
    message = refused("launch-read-only", plan, own, shown, 1, 1.0)
    assert "given y, which is read-only, but the kernel writes to it" in message
    assert len(gpu.raw.launches) == 2


def test_arrays_with_a_mask_are_refused(gpu):
    gpu.raw.memory = {4096: 0}
    plan = plan_of(touch, X)
    cute.run(plan, Interface(4096))
    refused("argument-masked", plan, Interface(4096, mask=X))
    assert len(gpu.raw.launches) == 1


def test_an_interface_without_strides_is_compact(gpu):
    gpu.raw.memory = {4096: 0}
    array = Interface(4096)
    array.shape, array.strides = (10, 100), None
    assert strides_of(array) == (100, 1)
    cute.run(cute.trace(corner, array), array)
    assert gpu.raw.launches[0][3] == [4096, 10, 100, 100]


@pytest.mark.parametrize("stride", [-4, 7, 0, 4])
def test_a_mode_of_one_element_has_any_stride(gpu, stride):
    corner(Array((10, 1), strides=(4, stride)))
    assert gpu.raw.launches[0][3][:3] == [4096, 10, 1]


def test_a_kernel_in_place_of_a_plan_is_refused(gpu):
    message = refused("codegen-plan", touch, X)
    assert message.startswith("cute.run: given a Kernel; required: a plan; fix: trace the kernel")


@pytest.mark.parametrize(("kind", "address"), [(np.float32, 4097), (np.float16, 1), (np.int64, 4)])
def test_elements_that_lie_across_their_size_are_refused(gpu, kind, address):
    odd = Array((1000,), kind, address=address)
    for _ in range(2):
        with pytest.raises(cute.CuteError) as caught:
            touch(odd)
        assert caught.value.code == "launch-misaligned"
        assert f"x at address {hex(address)}, which is not a multiple of" in str(caught.value)
    assert gpu.raw.launches == []


class Interface:
    """An array that has `__cuda_array_interface__` alone, as Numba's have."""

    def __init__(self, address, stream=None, n=1000, read_only=False, mask=None):
        self.shape, self.dtype, self.strides = (n,), np.dtype(np.float32), (4,)
        self.address, self.stream, self.read_only, self.mask = address, stream, read_only, mask

    @property
    def __cuda_array_interface__(self):
        place = {"data": (self.address, self.read_only), "strides": None, "version": 3}
        place |= {"mask": self.mask}
        return place | {"shape": self.shape, "typestr": "<f4", "stream": self.stream}


@pytest.mark.parametrize("promised", [12, 48, 128])
def test_a_promised_alignment_is_checked_at_every_launch(gpu, promised):
    @cute.kernel
    def promising(x: cute.spec(alignment=promised)):
        cute.launch(grid=1, block=32)

    held = Array((1000,), address=48 * 128)
    plan = plan_of(promising, held)
    cute.run(plan, held)
    cute.run(plan, Array((1000,), address=48 * 128 + 3 * promised))
    off = Array((1000,), address=48 * 128 + 16)
    message = refused("launch-argument", plan, off)
    assert f"an address that is not a multiple of {promised} bytes" in message
    assert len(gpu.raw.launches) == 2


def test_streams_of_array_interfaces_are_honoured(gpu):
    gpu.raw.memory = {4096: 0, 8192: 0}
    plan = plan_of(rows, X, X, 1, 1.0)
    cute.run(plan, Interface(4096), Interface(8192), 1, 1.0)
    cute.run(plan, Interface(4096, 5), Interface(8192), 1, 1.0)
    assert not any(call[0] == "cuStreamWaitEvent" for call in gpu.raw.calls)
    cute.run(plan, Interface(4096, 5), Interface(8192, 6), 1, 1.0)
    cute.run(plan, Interface(4096, 5), Interface(8192), 1, 1.0, stream=7)
    assert [launch[2] for launch in gpu.raw.launches] == [0, 5, 5, 7]
    waits = [call[1] for call in gpu.raw.calls if call[0] == "cuStreamWaitEvent"]
    records = [call[2] for call in gpu.raw.calls if call[0] == "cuEventRecord"]
    assert (waits, records) == ([5, 7], [6, 5])


def test_memory_that_cuda_does_not_know_is_refused(gpu):
    message = refused("launch-memory", plan_of(touch, X), Interface(64))
    assert "Interface at 0x40, which CUDA does not know" in message


def test_the_device_of_memory_is_known_to_a_thread_without_a_context(gpu):
    gpu.raw.memory = {4096: 1}
    gpu.raw.answers["cuPointerGetAttribute"] = [201, 0]
    cute.run(plan_of(touch, X), Interface(4096))
    assert gpu.raw.launches[0][0] == 1
    assert gpu.raw.contexts() == [0]


def test_memory_of_the_host_that_a_device_maps_is_launched_there(gpu):
    gpu.raw.memory = {4096: 1}
    cute.run(plan_of(touch, X), Interface(4096))
    assert gpu.raw.launches[0][0] == 1


class Capsule:
    def __init__(self, device):
        self.device = device

    def __dlpack__(self, **_named):
        raise BufferError

    def __dlpack_device__(self):
        return self.device, 0


def test_dlpack_arrays_of_other_devices_are_refused(monkeypatch):
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(touch, Capsule(10))
    assert caught.value.code == "argument-device"
    monkeypatch.setattr("cute_py.calls.arrays._MAKERS", {"no_such_library": None})
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(touch, Capsule(2))
    assert caught.value.code == "argument-dlpack"


def test_dlpack_arrays_on_the_gpu_are_taken_in_by_a_library(gpu, monkeypatch):
    import sys

    lender = SimpleNamespace(from_dlpack=lambda x: X)
    monkeypatch.setitem(sys.modules, "lender", lender)
    monkeypatch.setattr("cute_py.calls.arrays._MAKERS", {"lender": None})
    touch(Capsule(2))
    cute.run(plan_of(touch, X), Capsule(13))
    assert [launch[3][0] for launch in gpu.raw.launches] == [4096, 4096]


def test_views_of_negated_values_are_refused(gpu):
    view = Array((1000,))
    view.is_neg = lambda: True
    with pytest.raises(cute.CuteError) as caught:
        touch(view)
    assert caught.value.code == "argument-negated"


# -- streams


def test_the_current_stream_of_the_library_is_used_unless_one_is_given(gpu):
    plan = plan_of(touch, X)
    cute.run(plan, X)
    gpu.stream = 11
    cute.run(plan, X)
    touch(X)
    cute.run(plan, X, stream=12)
    cute.run(plan, X, stream=SimpleNamespace(ptr=13))
    assert [launch[2] for launch in gpu.raw.launches] == [0, 11, 11, 12, 13]


def test_streams_of_every_library_have_a_number():
    assert stream_number(np.int64(3)) == 3
    assert stream_number(SimpleNamespace(cuda_stream=4)) == 4
    assert stream_number(SimpleNamespace(ptr=5)) == 5
    assert stream_number(SimpleNamespace(__cuda_stream__=lambda: (0, 6))) == 6
    assert stream_number(SimpleNamespace(__cuda_stream__=(0, 7))) == 7
    for wrong in ("default", -1):
        with pytest.raises(cute.CuteError) as caught:
            stream_number(wrong)
        assert caught.value.code == "launch-stream"


# -- devices and threads


def test_the_device_of_the_arrays_is_made_current_for_the_launch(gpu):
    plan = plan_of(touch, X)
    for device in (1, 0, 1):
        cute.run(plan, Array((1000,), device=device))
        assert gpu.raw.contexts() == [0]
    assert [launch[0] for launch in gpu.raw.launches] == [1, 0, 1]


def test_a_thread_without_a_context_gets_the_primary_one(gpu):
    plan = plan_of(touch, X)
    cute.run(plan, X)
    gpu.raw.answers["cuLaunchKernelEx"] = [201, 0]
    cute.run(plan, X)
    assert len(gpu.raw.launches) == 2
    assert ("cuCtxSetCurrent", 0) in gpu.raw.calls
    gpu.raw.answers["cuLaunchKernelEx"] = [201, 201]
    assert "CUDA_ERROR_INVALID_CONTEXT" in refused("launch-failed", plan, X)


def test_two_threads_that_come_first_compile_once(gpu, monkeypatch):
    made = []

    def slow(plan, arch, spills):
        made.append(threading.get_ident())
        time.sleep(0.05)
        return gpu.compiled(plan, arch, spills)

    monkeypatch.setattr(run, "compile", slow)
    plan = plan_of(touch, X)
    threads = [threading.Thread(target=cute.run, args=(plan, X)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(gpu.raw.launches) == 8


def test_threads_that_share_a_launch_do_not_mix_their_values(gpu, monkeypatch):
    """Each launch, delayed between writing and reading, sees the values of its own thread."""
    original = type(gpu.raw).cuLaunchKernelEx

    def delayed(raw, *args):
        time.sleep(0.001)
        return original(raw, *args)

    monkeypatch.setattr(type(gpu.raw), "cuLaunchKernelEx", delayed)
    plan = plan_of(touch, X)

    def work(number):
        for i in range(20):
            place = 4096 * (1 + number * 100 + i)
            cute.run(plan, Array((1000,), address=place), stream=place)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(gpu.raw.launches) == 80
    assert all(words[0] == stream for _d, _g, stream, words in gpu.raw.launches)
    assert len({words[0] for *_rest, words in gpu.raw.launches}) == 80


def test_kernels_are_kept_by_plans_that_stay_alive(gpu, monkeypatch):
    monkeypatch.setattr(run, "MOST", 3)
    for n in range(1, 12):
        plan = plan_of(touch, Array((n,), strides=(4 * n,)))
        cute.run(plan, Array((n,), strides=(4 * n,)))
        assert gpu.raw.launches[-1][1] == (n, 1, 1)
        held = {id(kept[0]) for kept in run._launchers.values()}
        assert held == {number for number, _device in run._launchers}
        assert {number for number, _arch in run._compiled} == held
        del plan
        gc.collect(1)  # it is young
    assert len(run._launchers) == 3


def test_kernels_that_do_not_load_are_not_kept(gpu):
    plan = plan_of(touch, X)
    gpu.raw.answers["cuModuleLoadData"] = [2]
    refused("launch-failed", plan, X)
    assert not run._compiled
    assert not run._launchers
    cute.run(plan, X)
    cute.run(plan, Array((1000,), device=1))
    assert len(gpu.raw.counts) == 2  # compiled once for each time that nothing was kept


# -- what the driver says


def test_a_refused_launch_is_reported_with_its_parameters(gpu):
    plan = plan_of(touch, X)
    cute.run(plan, X)
    gpu.raw.answers["cuLaunchKernelEx"] = [1]
    message = refused("launch-failed", plan, X)
    assert message.startswith(
        "touch: given CUDA_ERROR_INVALID_VALUE from the driver for grid (1000, 1, 1), block "
        "(32, 1, 1), 0 bytes of shared memory, sm_90a, 32 registers; required"
    )
    assert "run cute.emulate(plan, ...) on copies of the arrays to find the line" in message
    cute.run(plan, X)  # nothing is left of it


def test_an_error_left_by_an_earlier_kernel_names_those_launched_last(gpu):
    plan = plan_of(touch, X)
    cute.run(plan_of(rows, X, X, 1, 1.0), X, X, 1, 1.0)
    cute.run(plan, X)
    gpu.raw.answers["cuLaunchKernelEx"] = [700]
    message = refused("launch-earlier", plan, X)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS from the driver, left by an earlier kernel" in message
    assert "most recent launches: rows, touch" in message
    assert "set CUTE_PY_SYNC=1" in message


def test_other_errors_pass_through_with_their_names(gpu):
    plan = plan_of(touch, X)
    gpu.raw.answers["cuModuleLoadData"] = [214]
    assert "CUDA_ERROR_ECC_UNCORRECTABLE" in refused("launch-failed", plan, X)
    gpu.raw.answers["cuDevicePrimaryCtxRetain"] = [2]
    gpu.raw.contexts()
    assert "CUDA_ERROR_OUT_OF_MEMORY from the driver" in _status_of(gpu)


def _status_of(gpu):
    with pytest.raises(cute.CuteError) as caught:
        drivers.Driver(gpu.raw).primary(0)
    assert caught.value.code == "launch-status"
    return str(caught.value)


def test_each_launch_waits_where_that_is_asked_for(gpu, monkeypatch):
    monkeypatch.setenv("CUTE_PY_SYNC", "1")
    plan = plan_of(touch, X)
    cute.run(plan, X, stream=9)
    assert ("cuStreamSynchronize", 9) in gpu.raw.calls
    gpu.raw.answers["cuStreamSynchronize"] = [700]
    message = refused("launch-failed", plan, X)
    assert message.startswith("touch: given CUDA_ERROR_ILLEGAL_ADDRESS from the driver for grid")
    gpu.raw.calls.clear()
    gpu.raw.capturing = True
    cute.run(plan, X)
    assert not any(call[0] == "cuStreamSynchronize" for call in gpu.raw.calls)


def test_a_first_call_in_a_capture_is_refused_and_a_later_one_is_not(gpu):
    plan = plan_of(touch, X)
    gpu.raw.capturing = True
    message = refused("launch-capture", plan, X)
    assert "call it once with these arrays before the capture" in message
    assert not any(call[0] == "cuModuleLoadData" for call in gpu.raw.calls)
    gpu.raw.capturing = False
    cute.run(plan, X)
    gpu.raw.capturing = True
    cute.run(plan, X)
    cute.run(plan, Array((1000,), address=1 << 20))
    gpu.raw.answers["cuLaunchKernelEx"] = [900]
    refused("launch-capture", plan, X)


def test_a_machine_without_a_driver_is_told_apart(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    drivers.driver.cache_clear()
    with pytest.raises(cute.CuteError) as caught:
        drivers.driver()
    assert caught.value.code == "launch-driver"
    drivers.driver.cache_clear()


def test_every_status_that_a_kernel_leaves_has_a_number():
    assert int(Status.CUDA_ERROR_ILLEGAL_ADDRESS) in drivers.STICKY
    assert int(Status.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) in drivers.CAPTURING


def test_a_block_of_memory_points_to_its_values():
    block = Block(None, ["address", "integer", "f64"], {1: -3})
    pointers = (ctypes.c_void_p * 3).from_address(block.address)
    assert [p - pointers[0] for p in pointers] == [0, 16, 8]
    assert ctypes.c_int64.from_address(pointers[1]).value == -3
    block.write(4096, 2.5)
    assert ctypes.c_double.from_address(pointers[2]).value == 2.5
    block = Block(None, ["integer", "f32"], {})
    block.write(-5, 0.1)
    assert ctypes.c_int64.from_address(block.pointers[0]).value == -5
    assert ctypes.c_float.from_address(block.pointers[1]).value == np.float32(0.1)
    with pytest.raises(struct.error, match="2 items"):
        block.write(1)


def test_arrays_of_no_library_are_read_by_their_interface(gpu):
    gpu.raw.memory = {4096: 0}
    facts, address = streams.read(Interface(4096, 5))
    assert address == 4096
    assert facts[-1] == 5
    assert streams.read(Interface(4096, 6))[0] != facts


def test_a_prepared_launch_keeps_its_arrays_facts_alone(gpu):
    plan = plan_of(touch, X)
    launch, values = run.prepare(plan, [X])
    assert isinstance(launch, Prepared)
    assert values == [4096]
    assert run.prepare(plan, [Array((1000,), address=8192)])[0] is launch
    assert run.prepare(plan, [Array((1004,))])[0] is not launch


@pytest.mark.parametrize(("major", "most"), [(8, 1), (9, 16), (10, 16)])
def test_only_newer_devices_have_clusters(gpu, monkeypatch, major, most):
    @cute.kernel
    def wide(x):
        cute.launch(grid=16, block=32, cluster=16)

    monkeypatch.setitem(LIMITS, "COMPUTE_CAPABILITY_MAJOR", major)
    plan = plan_of(wide, X)
    if most == 1:
        assert "16 blocks in a cluster; required: at most 1" in refused("launch-limit", plan, X)
    else:
        cute.run(plan, X)
    assert len(gpu.raw.launches) == (most == 16)


# -- kernels that are loaded


@pytest.mark.parametrize("stated", [0, 16])
@pytest.mark.parametrize(("spilled", "stack"), [(0, 0), (8, 0), (0, 8), (24, 16), (16, 24)])
def test_spills_that_a_launch_does_not_state_are_warned_of_once(
    gpu, monkeypatch, spilled, stack, stated
):
    @cute.kernel
    def spills(x):
        cute.launch(grid=1, block=32, spill_bytes=stated)

    made = replace(gpu.compiled(plan_of(spills, X)), resources=Resources(32, spilled, stack, 0))
    monkeypatch.setattr(run, "compile", lambda *_given: made)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cute.run(made.plan, X)
        cute.run(made.plan, X)
    most = max(spilled, stack)
    assert len(said) == (most > stated)
    for each in said:
        assert each.category is RuntimeWarning
        assert f"spills: {most} bytes per thread spill" in str(each.message)
        assert f"{stated} are stated" in str(each.message)


@pytest.mark.parametrize("device", [0, 1])
def test_a_plan_is_loaded_on_the_current_device_unless_one_is_named(gpu, device):
    plan = plan_of(touch, X)
    with run.driver().inside(device):
        found = run.launcher(plan)
        assert run.device_arch() == run.device_arch(device)
    assert found is run.launcher(plan, device)
    assert found is not run.launcher(plan, 1 - device)
