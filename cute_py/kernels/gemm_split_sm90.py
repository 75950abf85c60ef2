"""The GEMM for Hopper where blocks split K: they leave sums for each other in memory.

The stages and the epilogue of `gemm_cooperative`, with a schedule of `splits.py` around them: what
`gemm_split` is for all GPUs. The warp that loads goes through the same tiles as the warpgroups that
multiply, which alone wait for other blocks; so tiles of K are loaded meanwhile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cute_py as cute
from cute_py.kernels.arrays import assume_product
from cute_py.kernels.config_sm90 import WarpgroupConfig, warpgroup_config
from cute_py.kernels.epilogue import Epilogue, LinearCombination, given, product_kernel
from cute_py.kernels.gemm_sm90 import WARPGROUP, Inputs, Output
from cute_py.kernels.gemm_split import assume_room, place_of, required
from cute_py.kernels.pairs import columns_of
from cute_py.kernels.splits import SCHEDULES, Locks, Split, Sums, workspace_of

BARRIER = 4  # the named barrier of all that multiply; those before it are of their stores


@product_kernel
def gemm_cooperative_split(
    A: Any,
    B: Any,
    partial: Any,
    flags: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    config: WarpgroupConfig,
    epilogue: Epilogue,
) -> None:
    """Compute the outputs (D, ...) = f(A B^T, *arrays, *numbers), as `gemm_cooperative` does;
    arguments are those of `gemm_split`.
    """
    operation = "gemm_cooperative_split"
    arrays, D = given(arrays, epilogue, operation), outputs["D"]
    split = required(config.parts, config.mma_atom.c_type, partial, flags, operation)
    assume_product(A, B, arrays, outputs, epilogue)
    (bM, bN, bK), N = config.tile, columns_of(B, outputs, epilogue)
    m, n = cute.ceil_div(D.shape[0], bM), cute.ceil_div(N, bN)
    L = D.shape[2] if cute.rank(D) > 2 else 1
    warps, registers = 4 * config.consumers, config.registers
    locks = Locks(flags, lambda: cute.named_barrier(BARRIER, config.consumers * WARPGROUP))
    schedule = SCHEDULES[split.how](split, m * n * L, A.shape[1], bK, locks)
    assume_room(split, partial, flags, (m * n * L, bM * bN))
    cute.launch(grid=schedule.grid, block=config.threads, pdl=bool(config.pdl))
    inputs, output = Inputs(config, A, B), Output(config, epilogue, arrays, outputs, numbers)
    if config.pdl:
        cute.griddepcontrol_wait()
        cute.griddepcontrol_launch_dependents()
    with cute.role("multiply", range(warps), registers[1]):
        sums = Sums(inputs.mma, partial, partial.dtype)
        for span in schedule.spans():
            inputs.multiply(of_k=(span.first, span.first + span.count))
            with schedule.whole(span, inputs.sums, sums):
                output.store(inputs.sums, place_of(span.tile, m, n, L))
        output.tail()
    with cute.role("load", range(warps, warps + 4), registers[0]), cute.elect("role"):
        for span in schedule.spans():
            of_k = span.first, span.first + span.count
            inputs.load(place_of(span.tile, m, n, L), n, of_k)


def check() -> None:
    """Multiply ragged matrices of small integers, by both schedules."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 200)).astype(np.float16) for n in (70, 40))
    for split in (Split("serial", 3), Split("stream", 2)):
        config = warpgroup_config(("f16", "f16"), (64, 32), 1, result="f32", parts=split)
        shape = tuple(workspace_of(split, config.tile, 4) or ())
        partial, flags = np.full(shape, np.nan, np.float32), np.zeros(shape[0], np.int32)
        d = np.full((70, 40), np.nan, np.float32)
        given = (a, b, partial, flags, None, None, d, 1.0, 0.0)
        gemm_cooperative_split(*given, config, LinearCombination())
        assert (d == a.astype(np.float32) @ b.astype(np.float32).T).all()
        assert not flags.any()


if __name__ == "__main__":
    check()
