"""Memory of a GPU by the driver alone: copied there and back, freed whatever happens."""

import ctypes

import numpy as np
import pytest

import cute_py as cute
from cute_py.codegen.driver import Driver
from cute_py.ops import self_test
from cute_py.ops.self_test import DeviceArray
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
    monkeypatch.setattr(self_test, "driver", lambda: Driver(raw))
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
    monkeypatch.setattr("cute_py.codegen.launch.run.run", run)
    assert "right" in self_test.launched()
    self_test.launched()
    names = [name for name, *_ in raw.calls]
    assert names.count("cuDevicePrimaryCtxRetain") == 1
    assert names.count("cuCtxPushCurrent") == names.count("cuCtxPopCurrent") == 2
    assert copied == [0, 0]
    assert not raw.held
