"""Memory of a GPU by the driver alone: copied there and back, freed whatever happens."""

import ctypes

import numpy as np
import pytest

import cute_py as cute
from cute_py.codegen import device_memory
from cute_py.codegen.device_memory import DeviceArray
from cute_py.codegen.driver import Driver
from cute_py.ops import self_test
from tests.fake_gpu import Raw


class Memory(Raw):
    """A driver whose memory is the host's."""

    def __init__(self):
        super().__init__()
        self.held = {}

    def do_cuMemAlloc(self, count):
        assert count > 0  # CUDA_ERROR_INVALID_VALUE
        buffer = ctypes.create_string_buffer(count)
        self.held[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer)

    def do_cuMemcpyHtoD(self, to, out, count):
        ctypes.memmove(to, out, count)

    do_cuMemcpyDtoH = do_cuMemcpyHtoD

    def do_cuMemFree(self, address):
        del self.held[address]


@pytest.fixture
def raw(monkeypatch):
    raw = Memory()
    by = Driver(raw)
    monkeypatch.setattr(device_memory, "driver", lambda: by)
    return raw


@pytest.mark.parametrize("shape", [(3, 4), (0,), (2, 0), (1,)])
def test_an_array_comes_back_and_its_memory_is_freed(raw, shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with DeviceArray(x) as held:
        assert held.__cuda_array_interface__["shape"] == shape
        np.testing.assert_array_equal(held.to_host(), x)
        assert len(raw.held) == 1
    assert not raw.held


@pytest.mark.parametrize("function", ["cuMemAlloc", "cuMemcpyHtoD", "cuMemcpyDtoH"])
def test_what_the_driver_refuses_is_told_by_one_code_and_leaves_nothing(raw, function):
    raw.answers[function] = [2]
    with pytest.raises(cute.CuteError) as caught, DeviceArray(np.zeros(8)) as held:
        held.to_host()
    assert caught.value.code == "launch-status"
    assert str(caught.value).startswith(f"{function}: given CUDA_ERROR_OUT_OF_MEMORY")
    assert not raw.held


def test_the_self_test_runs_inside_of_the_first_device(raw, monkeypatch):
    """Its primary context is retained once, as by everything else here."""
    by, copied = Driver(raw), []

    def run(_plan, x, y):
        copied.append(raw.contexts()[-1])
        ctypes.memmove(y.address, x.address, x.host.nbytes)

    monkeypatch.setattr("cute_py.codegen.driver.driver", lambda: by)
    monkeypatch.setattr(self_test, "driver", lambda: by)
    monkeypatch.setattr(device_memory, "driver", lambda: by)
    monkeypatch.setattr("cute_py.codegen.launch.run.run", run)
    assert "right" in self_test.launched()
    self_test.launched()
    names = [name for name, *_ in raw.calls]
    assert names.count("cuDevicePrimaryCtxRetain") == 1
    assert names.count("cuCtxPushCurrent") == names.count("cuCtxPopCurrent") > 0
    assert copied == [0, 0]
    assert not raw.held


# -- host tensors


@cute.kernel
def double(x):
    cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
    i = cute.block_idx() * 128 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        x[i] = x[i] * 2


def held_by(view):
    """What the memory of the fake device holds, as an array."""
    found = getattr(view, "array", view).__cuda_array_interface__
    nbytes = np.dtype(found["typestr"]).itemsize * int(np.prod(found["shape"]))
    words = (ctypes.c_char * nbytes).from_address(found["data"][0])
    return np.frombuffer(words, found["typestr"]).reshape(found["shape"])


def test_d03_storage_of_host_tensors_is_reserved_and_reset():
    assert cute.make_host_tensor(7, "s4").engine.memory.nbytes == 4
    assert cute.make_host_tensor((128, 96), "f32").engine.memory.size == 12_288
    tensor = cute.make_host_tensor((4, 6), "f32", 1)
    assert tensor.reset((3, 8)).engine.memory is tensor.engine.memory
    assert tensor.reset((5, 5)).to_numpy().sum() == 0
    assert tensor.reserve(20) is tensor
    larger = tensor.reserve(100)
    assert (larger.layout, larger.engine.size) == (tensor.layout, 100)
    assert tensor.host_view() is tensor


def test_d03_host_and_device_views_share_one_copy(raw):
    tensor = cute.make_host_tensor((4, 6), "f32", np.arange(24).reshape(4, 6))
    assert not tensor.device_backed
    view = tensor.device_view()
    assert tensor.device_backed
    assert len(raw.held) == 1
    part = cute.local_tile(tensor, (2, 2), (1, 1)).device_view()
    assert len(raw.held) == 1
    assert part.address == view.address + 4 * tensor.layout(2, 2)
    assert (view.shape, view.strides) == ((4, 6), (4, 16))
    np.testing.assert_array_equal(held_by(view).ravel(), tensor.engine.memory)


def test_d03_packed_elements_are_words_on_the_device(raw):
    tensor = cute.make_host_tensor(8, "s4", range(-4, 4))
    view = tensor.device_view()
    assert (view.dtype, view.packed) == (cute.s4, True)
    np.testing.assert_array_equal(held_by(view), tensor.engine.memory)


def test_d04_memory_is_copied_when_that_is_said(raw):
    tensor = cute.make_host_tensor(10, "f32", 1)
    tensor.sync_host()  # no copy: nothing to do
    view = tensor.device_view()
    tensor.fill(3)
    assert held_by(view)[0] == 1
    tensor.sync_device()
    np.testing.assert_array_equal(held_by(view), np.full(10, 3, np.float32))
    ctypes.memset(view.address, 0, 40)
    assert tensor[0] == 3
    tensor.sync_host()
    assert tensor.to_numpy().sum() == 0


def test_d04_without_a_gpu_the_same_program_runs_on_the_emulator(monkeypatch):
    monkeypatch.setattr(device_memory, "has_gpu", lambda: False)
    tensor = cute.make_host_tensor(300, "f32", 7)
    tensor.sync_device()
    double(tensor.device_view())
    tensor.sync_host()
    assert (tensor.to_numpy() == 14).all()


def test_d05_memory_is_freed_with_what_it_belongs_to(raw):
    tensor = cute.make_host_tensor(10, "f32")
    view = tensor.device_view()
    del tensor
    assert len(raw.held) == 1  # the view needs it
    del view
    assert not raw.held
    memory = device_memory.DeviceAllocation(64)
    assert len(raw.held) == 1
    memory.free()
    memory.free()
    assert not raw.held
    assert not device_memory._copies


def test_d05_a_copy_that_fails_leaves_nothing(raw):
    raw.answers["cuMemcpyHtoD"] = [2]
    tensor = cute.make_host_tensor(10, "f32")
    with pytest.raises(cute.CuteError):
        tensor.sync_device()
    assert not tensor.device_backed
    assert not raw.held


@pytest.mark.parametrize("name", ["host_view", "device_view", "sync_host", "sync_device"])
def test_registers_and_coordinates_have_no_copy(name):
    with pytest.raises(cute.LayoutError) as caught:
        getattr(cute.make_identity_tensor((2, 2)), name)()
    assert caught.value.code == "host-only"


def test_nested_modes_are_no_array(raw):
    with pytest.raises(cute.LayoutError) as caught:
        cute.make_host_tensor(((2, 2), 3), "f32").device_view()
    assert caught.value.code == "device-modes"
