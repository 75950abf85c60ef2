"""`cute.analysis.model.measure` on a driver that keeps memory and a clock, whose launches are runs
of the emulator: what is launched, checked, timed and freed, without a GPU.
"""

import ctypes

import numpy as np
import pytest

import cute_py as cute
from cute_py.analysis import model
from cute_py.ops import device, libraries, measurement, self_test
from cute_py.ops.device_benches import SMALL
from tests import fake_gpu
from tests.pure.test_measurement import Memory, matrix

CYCLES, US = 1000, 2.0  # of each launch


class Machine(Memory):
    """An H200 whose launches take as long as each other."""

    def __init__(self):
        super().__init__()
        self.cleared, self.spoiled = 0, None

    def do_cuMemcpyDtoH(self, to, out, size):
        self._require(out, size)
        ctypes.memmove(to, out, size)

    def do_cuMemsetD8(self, address, value, size):
        super().do_cuMemsetD8(address, value, size)
        self.cleared += 1

    def do_cuDeviceGetName(self, _size, _device):
        return b"NVIDIA H200\0"

    def prepare(self, plan, leaves):
        def go(values):
            self.time += US
            if self.graph is not None:
                self.graph.append((US, values))
                return
            held = [
                matrix(v, x.shape, x.dtype) if isinstance(x, self_test.DeviceArray) else v
                for v, x in zip(values, leaves, strict=True)
            ]
            cute.emulate(plan, *held)
            for x in held:
                if isinstance(x, np.ndarray) and x.dtype == np.int64:
                    x[...] = CYCLES
                elif plan.name == self.spoiled and isinstance(x, np.ndarray):
                    x.reshape(-1)[0] += 1

        at = [x.address if isinstance(x, self_test.DeviceArray) else x for x in leaves]
        return fake_gpu.Launched(go), at


@pytest.fixture
def machine(monkeypatch):
    raw = Machine()
    driver = fake_gpu.Launching(raw)
    for module in (device, libraries, measurement, self_test):
        monkeypatch.setattr(module, "driver", lambda: driver)
    monkeypatch.setitem(fake_gpu.LIMITS, "L2_CACHE_SIZE", 60 << 20)
    monkeypatch.setattr(device, "gpu", lambda: raw.prepare)
    monkeypatch.setattr(device, "for_gpu", lambda _processors: SMALL)
    monkeypatch.setattr(device, "FLUSHED", 1 << 10)
    return raw


def test_o22_a_device_is_made_of_what_is_measured(machine):
    rows, spec = device.measure_rows()
    assert (spec.name, spec.multiprocessors, spec.l2_bytes) == ("NVIDIA H200", 132, 60 << 20)
    assert spec.limits == model.H200.limits
    assert {row.row for row in rows} == set(device.ROWS)
    value = {row.row: row.value for row in rows}
    assert value["launch"] == pytest.approx(US)
    assert value["l2 latency"] == CYCLES / SMALL.steps
    assert value["clock"] == pytest.approx(CYCLES / US / 1e3)
    assert value["dram read"] == pytest.approx(rows[0].bytes / US * 1e6 / 2**30)
    assert machine.cleared == device.RUNS, "L2 is emptied before each run of one kernel"
    assert not machine.held, "all memory is freed"


@pytest.mark.parametrize("name", ["read_words", "chase", "products"])
def test_o22_a_wrong_result_ends_the_measurement(machine, name):
    machine.spoiled = name
    with pytest.raises(cute.CuteError, match="wrong result of the kernel"):
        model.measure()
    assert not machine.held
