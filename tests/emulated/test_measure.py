"""`cute.analysis.model.measure` on a driver that keeps memory and a clock, whose launches are runs
of the emulator: what is launched, checked, timed and freed, without a GPU.
"""

import ctypes
import json
import sys
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

import cute_py as cute
from benchmarks.gpu import device_model, figures
from cute_py.analysis import model
from cute_py.codegen import device_memory
from cute_py.ops import device, libraries, measurement, self_test
from cute_py.ops.device_benches import SMALL, benches
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


def installed(monkeypatch):
    """Put a machine in the place of the driver."""
    raw = Machine()
    driver = fake_gpu.Launching(raw)
    for module in (device, device_memory, libraries, measurement, self_test):
        monkeypatch.setattr(module, "driver", lambda: driver)
    monkeypatch.setitem(fake_gpu.LIMITS, "L2_CACHE_SIZE", 60 << 20)
    monkeypatch.setattr(device, "gpu", lambda: raw.prepare)
    monkeypatch.setattr(device, "for_gpu", lambda _processors: SMALL)
    monkeypatch.setattr(device, "FLUSHED", 1 << 10)
    monkeypatch.setattr(device, "RUNS", 2)
    return raw


@pytest.fixture
def machine(monkeypatch):
    return installed(monkeypatch)


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    """Return the machine on which the benchmark has run, and the file that it has written."""
    cuda = SimpleNamespace(
        is_available=lambda: True,
        init=lambda: None,
        get_device_properties=lambda _device: SimpleNamespace(multi_processor_count=132),
    )
    out = tmp_path_factory.mktemp("results") / "device_model.json"
    with pytest.MonkeyPatch.context() as monkeypatch:
        machine = installed(monkeypatch)
        torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(cuda="13.0"))
        monkeypatch.setitem(sys.modules, "torch", torch)
        product = {"tflops": 12.5, "us": 10.0}
        monkeypatch.setattr(device_model, "product", lambda _torch, n: {"size": n, **product})
        device_model.measure(out, (512, 1024))
    return machine, out


def test_o22_a_device_is_made_of_what_is_measured(benchmark):
    machine, out = benchmark
    found = json.loads(out.read_text())
    rows, spec = found["rows"], found["spec"]
    assert (spec["name"], spec["multiprocessors"]) == ("NVIDIA H200", 132)
    assert spec["l2_bytes"] == 60 << 20
    assert spec["limits"] == asdict(model.H200.limits)
    assert {row["row"] for row in rows} == set(device.ROWS)
    value = {row["row"]: row["value"] for row in rows}
    assert value["launch"] == pytest.approx(US)
    assert spec["l2_latency"] == value["l2 latency"] == CYCLES / SMALL.steps
    assert value["clock"] == pytest.approx(CYCLES / US / 1e3)
    assert value["dram read"] == pytest.approx(rows[0]["bytes"] / US * 1e6 / 2**30)
    assert machine.cleared == 2, "L2 is emptied before each run of one kernel"
    assert not machine.held, "all memory is freed"


def test_the_figures_read_the_products_of_the_benchmark(benchmark, monkeypatch):
    monkeypatch.setattr(figures, "RESULTS", benchmark[1].parent)
    assert figures._of_gemm_04() == [(512, 12.5), (1024, 12.5)]


@pytest.mark.parametrize("name", ["read_words", "chase", "products"])
def test_o22_a_wrong_result_ends_the_measurement(machine, name):
    machine.spoiled = name
    with pytest.raises(cute.CuteError, match="wrong result of the kernel"):
        model.measure()
    assert not machine.held


def test_the_benchmark_needs_no_gpu_to_show_resources(capsys, monkeypatch):
    plan = SimpleNamespace(name="a_kernel")
    monkeypatch.setattr(cute, "trace", lambda *_args: plan)
    monkeypatch.setattr(cute, "compile", lambda _plan, arch: SimpleNamespace(resources=arch))
    device_model.print_resources("sm_80")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(list(benches(SMALL, (8, 0))))
    assert all(line.split()[-2:] == ["a_kernel", "sm_80"] for line in lines)
