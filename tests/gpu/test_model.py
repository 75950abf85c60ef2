"""The kernels that measure a GPU, on the GPU: right answers, and numbers that can be."""

import pytest

import cute_py as cute
from cute_py.analysis import model
from cute_py.ops import device
from cute_py.ops.device_benches import SMALL, benches
from tests.gpu.harness import DRY, HAS_GPU, launched, require_any, torch

require_any()

BENCHES = {bench.row: bench for bench in benches(SMALL)}
HOPPER = DRY == "sm_90a" or (HAS_GPU and torch.cuda.get_device_capability() == (9, 0))


@pytest.mark.parametrize("row", BENCHES)
def test_o22_a_kernel_computes_what_its_bench_wants(row):
    if row == "wgmma" and not HOPPER:
        pytest.skip("needs compute capability 9.0")
    bench = BENCHES[row]
    plan = cute.trace(bench.kernel, *bench.args)
    if DRY:
        assert cute.compile(plan, DRY).resources.spill_bytes == 0
    found = launched(plan, *bench.kernel.leaves(*bench.args))
    leaves = bench.kernel.leaves(*bench.args)
    at = next(i for i, x in enumerate(leaves) if x is bench.args[bench.result])
    bench.require(found[at])


@pytest.mark.skipif(not HAS_GPU, reason="needs an NVIDIA GPU")
def test_o22_what_is_measured_can_be():
    """Times are longer where other processes have the GPU in between: then it is measured again."""
    for _ in range(2):
        try:
            return require_possible(*device.measure_rows())
        except AssertionError as error:
            print("measured again:", error)
    return require_possible(*device.measure_rows())


def require_possible(rows, spec):
    """Require bounds that are wide: of any GPU since sm_80."""
    assert spec.multiprocessors == torch.cuda.get_device_properties(0).multi_processor_count
    assert spec.shared_latency < spec.l1_latency < spec.l2_latency < spec.dram_latency[0]
    assert spec.dram_read < spec.l2
    value = {row.row: row.value for row in rows}
    assert 100 < value["shared 1-way"] <= 128.5
    for ways in (2, 4):
        assert value[f"shared {ways}-way"] == pytest.approx(value["shared 1-way"] / ways, rel=0.1)
    assert 60 * 2 < spec.ffma_rate <= 128 * 2 * 1.01
    assert spec.ex2_rate <= 16 * 1.01
    assert 0.5 < spec.clock < 4
    if HOPPER:
        assert spec.mma_rate < spec.wgmma_rate <= 4096 * 1.01
        assert spec.dram_read > 0.5 * model.H100.dram_read
