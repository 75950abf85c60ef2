"""Launches with tensor maps, by a driver that is none: what is encoded, when, what is refused."""

import ctypes
import threading

import numpy as np
import pytest

import cute_py as cute
from cute_py.codegen.driver import Driver
from cute_py.codegen.launch import maps, run
from tests.fake_gpu import Array, install
from tests.hopper_kernels import im2col, shared_by_two, tma_copy

TILE = (32, 64)


@pytest.fixture
def gpu(monkeypatch):
    return install(monkeypatch)


def array(rows=70, columns=136, address=4096, kind=np.float16, **named):
    return Array((rows, columns), kind, address=address, **named)


def plan_of(x, y, kernel=tma_copy, **options):
    kernel.plans.clear()
    options = options or {"tile": TILE}
    return cute.trace(kernel, x, y, **options)


def encoded(gpu):
    return [call[1:] for call in gpu.raw.calls if call[0] == "encode_map"]


def replaced(gpu):
    return [call[1] for call in gpu.raw.calls if call[0] == "replace_address"]


def refused(code, plan, *args):
    with pytest.raises(cute.CuteError) as caught:
        cute.run(plan, *args)
    assert caught.value.code == code, caught.value
    return str(caught.value)


def test_a_map_is_encoded_once_for_each_content(gpu):
    x, y = array(), array(address=8192)
    plan = plan_of(x, y)
    for _ in range(3):
        cute.run(plan, x, y)
    assert encoded(gpu) == [(6, (136, 70), (272,), (64, 32), 0, 4096)]
    assert replaced(gpu) == [4096, 8192]  # in the memory of the launch, once
    words = [launch[-1] for launch in gpu.raw.launches]
    assert [each[-2:] for each in words] == [[4096, 8192]] * 3
    cute.run(plan, array(rows=71), array(rows=71, address=8192))
    assert [each[1] for each in encoded(gpu)] == [(136, 70), (136, 71)]


def test_the_driver_is_told_of_128_bytes_for_l2(gpu):
    """And of elements next to each other, no interleaving, the swizzle, zeros outside."""
    seen = []

    @ctypes.CFUNCTYPE(
        ctypes.c_int,
        *[ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32],
        *[ctypes.c_void_p] * 5,
        *[ctypes.c_int] * 4,
    )
    def encode(place, kind, rank, address, extents, pitches, box, steps, *how):
        wide, narrow = (ctypes.c_uint64 * rank).from_address, (ctypes.c_uint32 * rank).from_address
        found = [*wide(extents)], [*wide(pitches)][: rank - 1], [*narrow(box)], [*narrow(steps)]
        seen.append((place % 64, kind, address, *found, how))
        return 0

    class Encoding(Driver):
        def _function(self, name):
            assert name == "cuTensorMapEncodeTiled"
            return ctypes.cast(encode, ctypes.c_void_p).value

    assert (
        len(Encoding(gpu.raw).encode_map(9, (64, 40, 3), (128, 5120), (64, 8, 1), 3, 4096)) == 128
    )
    sides = [64, 40, 3], [128, 5120], [64, 8, 1], [1, 1, 1]
    assert seen == [(0, 9, 4096, *sides, (0, 3, 2, 0))]  # 2: CU_TENSOR_MAP_L2_PROMOTION_L2_128B


def test_kept_maps_are_bounded(gpu, monkeypatch):
    monkeypatch.setattr(maps, "MOST", 3)
    plan = plan_of(array(), array())
    for rows in range(70, 80):
        cute.run(plan, array(rows=rows), array(rows=rows, address=8192))
    assert len(run.driver().maps) <= 3


def test_a_map_that_another_thread_evicts_is_used_once_more(gpu, monkeypatch):
    class Evicting(dict):
        def __setitem__(self, content, found):
            super().__setitem__(content, found)
            self.clear()

    monkeypatch.setattr(run.driver(), "maps", Evicting())
    cute.run(plan_of(array(), array()), array(), array(address=8192))
    assert gpu.raw.launches[-1][-1][-2:] == [4096, 8192]


def test_new_addresses_are_written_into_the_maps(gpu):
    plan = plan_of(array(), array())
    for a, b in ((4096, 8192), (4096, 12288), (16384, 12288), (16384, 12288)):
        cute.run(plan, array(address=a), array(address=b))
    assert replaced(gpu) == [4096, 8192, 12288, 16384]
    assert [launch[-1][-2:] for launch in gpu.raw.launches][-1] == [16384, 12288]
    assert len(encoded(gpu)) == 1


def test_a_status_of_the_driver_is_reported(gpu):
    plan = plan_of(array(), array())
    gpu.raw.answers["replace_address"] = [1]
    assert "cuTensorMapReplaceAddress" in refused("launch-status", plan, array(), array())


def test_a_thread_without_a_context_gets_the_primary_one(gpu):
    plan = plan_of(array(), array())
    gpu.raw.answers["replace_address"] = [201, 0]
    cute.run(plan, array(), array())
    assert "cuCtxSetCurrent" in [call[0] for call in gpu.raw.calls]
    assert gpu.raw.launches[0][-1][-2:] == [4096, 4096]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"strides": (2 * 140, 2)}, "a pitch of 280 bytes"),
        ({"strides": (0, 2)}, "a pitch of 0 bytes, with rows of 272 bytes"),
        ({"strides": (256, 2)}, "a pitch of 256 bytes, with rows of 272 bytes"),
        ({"address": 4104}, "the address 0x1008"),
    ],
)
def test_arrays_that_tma_cannot_address_are_refused(gpu, wrong, said):
    x = array(**wrong)
    assert said in refused("launch-map", plan_of(x, array()), x, array())
    y = array(address=8192)
    cute.run(plan_of(array(), y), array(), y)  # and the corrected twin launches
    assert len(gpu.raw.launches) == 1


def test_extents_have_coordinates_of_32_bits(gpu):
    """Larger ones trap on a GPU; the driver encodes them."""

    @cute.kernel
    def first(x: cute.spec(large=True)):
        cute.launch(grid=1, block=32)
        shared, bars = cute.smem("u8", 256, 128), cute.mbarriers(1)
        with cute.when(cute.thread_idx() == 0):
            cute.tma_load(cute.local_tile(cute.tma_tensor(x), (256,), (0,)), shared, bars, 0)

    for n, said in ((2**31 - 16, ""), (2**31, "2147483648 elements"), (2**32, "4294967296 elem")):
        x = Array((n,), np.uint8, strides=(1,), address=4096)
        if said:
            assert said in refused("launch-map", cute.trace(first, x), x)
        else:
            cute.run(cute.trace(first, x), x)
    assert [each[1] for each in encoded(gpu)] == [(2**31 - 16,)]


def test_the_map_of_a_convolution_has_its_bounding_box(gpu):
    """Corners and steps of W, H: minus the padding, and the padding minus the filter's reach."""
    x = Array((2, 9, 12, 32), np.float16, address=4096)
    y = Array((2 * 9 * 5, 6, 32), np.float16, address=8192)
    how, tile = ((0, 2), (1, 2), (1, 3)), {"rows": 16, "channels": 32, "swizzle": "SW64"}
    cute.run(plan_of(x, y, im2col, filter=(2, 3), how=how, **tile), x, y)
    ((kind, extents, pitches, box, swizzle, address, walk),) = encoded(gpu)
    assert (kind, swizzle, address) == (6, 2, 4096)
    assert (extents, pitches) == ((32, 12, 9, 2), (64, 768, 6912))
    assert box == (32, 16, 1, 1)
    assert (walk.lower, walk.upper, walk.step) == ((-2, 0), (-4, -1), (2, 1))
    assert [launch[-1][-1] for launch in gpu.raw.launches] == [4096]


def test_the_pitch_of_a_single_row_is_never_used(gpu):
    x, y = array(rows=1, strides=(6, 2)), array(rows=1, address=8192)
    cute.run(plan_of(x, y), x, y)
    assert encoded(gpu)[0][1:3] == ((136, 1), (272,))


def test_columns_are_the_innermost_dimension_where_they_are_contiguous(gpu):
    x, y = (Array((96, 40), np.float16, strides=(2, 192), address=n) for n in (4096, 8192))
    cute.run(plan_of(x, y, tile=(32, 8), major=cute.LayoutLeft), x, y)
    assert encoded(gpu) == [(6, (96, 40), (192,), (32, 8), 0, 4096)]


@pytest.mark.parametrize(
    ("kind", "number"), [("f32", 7), ("f64", 8), ("s32", 3), ("u8", 0), ("u32", 2), ("s16", 1)]
)
def test_types_have_their_numbers(gpu, kind, number):
    x, y = (array(70, 144, n, cute.dtype(kind).numpy) for n in (4096, 8192))
    cute.run(plan_of(x, y, tile=(32, 16)), x, y)
    assert encoded(gpu)[0][0] == number


def test_threads_that_share_a_launch_have_maps_of_their_own(gpu, monkeypatch):
    """Each block of memory has its maps: no thread sees an address of another one."""
    plan = plan_of(array(), array())
    cute.run(plan, array(), array())
    barrier, launch = threading.Barrier(4), type(gpu.raw).cuLaunchKernelEx

    def together(raw, *args):
        barrier.wait(5)
        return launch(raw, *args)

    monkeypatch.setattr(type(gpu.raw), "cuLaunchKernelEx", together)

    def work(n):
        for _ in range(3):
            cute.run(plan, array(address=n), array(address=n + 16))

    threads = [threading.Thread(target=work, args=(4096 * n,)) for n in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = [launch[-1] for launch in gpu.raw.launches[1:]]
    assert len(found) == 12
    for words in found:
        assert words[-2:] == [words[0], words[0] + 16]


def test_a_cluster_that_never_fits_is_refused(gpu):
    x, y = array(64, 64), array(256, 64, address=8192)
    plan = plan_of(x, y, shared_by_two, rows=64)
    cute.run(plan, x, y)
    gpu.raw.clusters = 0
    monkey = plan_of(x, y, shared_by_two, rows=64)
    assert "2 blocks in a cluster" in refused("launch-limit", monkey, x, y)
    assert run.launcher(plan, 0).prepared([x, y])[0].config().numAttrs == 1


def test_a_launch_has_both_attributes(gpu):
    """A cluster, and programmatic dependent launch."""

    @cute.kernel
    def pairs(x):
        cute.launch(grid=2, block=32, cluster=2, pdl=True)
        cute.griddepcontrol_wait()
        x[cute.thread_idx(), 0] = 1

    x = array(64, 64)
    plan = cute.trace(pairs, x)
    cute.run(plan, x)
    config = run.launcher(plan, 0).prepared([x])[0].config()
    assert [a.id for a in config.attrs] == [
        "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION",
        "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION",
    ]
    assert config.numAttrs == 2


def test_a_grid_of_clusters_may_be_a_run_time_number(gpu):
    """What the device can run is asked before the number is known."""

    @cute.kernel
    def pairs(x, blocks: cute.s32(min=2)):
        cute.launch(grid=blocks, block=32, cluster=2)
        x[cute.thread_idx(), 0] = 1

    x = array(64, 64)
    cute.run(cute.trace(pairs, x, 4), x, 6)
    assert gpu.raw.launches[-1][1] == (6, 1, 1)
