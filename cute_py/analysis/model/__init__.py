"""An analytic model of products on a GPU: what limits them, as plain functions of a few numbers.

`traffic` has what L2 and DRAM deliver to the tiles of the blocks that run at once, `threads` what a
thread does with shared memory and registers. The numbers of a GPU are a `DeviceSpec`: of `V100`,
`A100`, `H100`, `H200`, or by `measure()` of the GPU at hand. docs/model.md works through all of it.
Names load on first use. Source: S1, an analysis of GEMM on V100, whose errata the functions name.

>>> from cute_py.analysis import model
>>> model.gemm_ratio(128, 128)
32.0
>>> print(model.predict(model.V100, (8192, 8192, 8192), (128, 128), blocks_each=2))
14 TFLOPS of 14, limited by multiply-adds; L2 hit rate 0.791, loads need 448 of 2240 GiB/s
"""

from __future__ import annotations

from cute_py.lazy import lazy

# module -> the public names that it defines; kernels measure a GPU, so that is a layer above
_HOME = {
    "atoms.devices": "A100 DeviceSpec Fitted H100 H200 V100",
    "analysis.model.traffic": (
        "Prediction WaveTraffic bandwidth_need flat_bound gemm_ratio l2_hit_rate load_bandwidth "
        "naive_ratio predict rectangular_wave requests required_hit_rate smallest_tile speed_at"
    ),
    "analysis.model.threads": (
        "Counts Latency SharedCycles beta counts_of_plan i_ratio inner_product_limit "
        "instruction_counts is_valid partial_counts ratio_ld_ffma thread_tile_choice "
        "thread_tile_registers warp_tile_cycles warp_tile_latency"
    ),
    "ops.device": "Measured measure measure_rows spec_of",
}

__getattr__, __dir__ = lazy(__name__, _HOME)
