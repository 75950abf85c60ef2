"""Static analysis: the costs of a tiled operation from its layouts, without running anything.

`bank_conflicts` counts the wavefronts of shared memory, `coalescing` the sectors of global memory,
`vector_width` finds the widest access, `registers` and `occupancy` count the registers of a thread
and the blocks of a multiprocessor. `swizzle_solver` and `suggest_smem_layout` search for shared
memory layouts without conflicts. `model` predicts the speed of products (docs/model.md). Names load
on first use.

>>> from cute_py import analysis
>>> analysis.occupancy("sm_70", threads=256, registers=128).warps
16
"""

from __future__ import annotations

from cute_py.lazy import lazy

# module -> the public names that it defines
_HOME = {
    "analysis.requests": "Access Coalescing coalescing vector_width",
    "analysis.banks": "BankConflicts bank_conflicts",
    "analysis.resources": "DEVICES DeviceLimits Occupancy Registers Wave occupancy registers wave",
    "analysis.solver": "SmemSolution suggest_smem_layout swizzle_solver",
}


def _found(name: str) -> object:
    """Return the package `model`, by its name."""
    from importlib import import_module  # here, so that editors do not complete it

    return import_module("cute_py.analysis.model") if name == "model" else None


__getattr__, __dir__ = lazy(__name__, _HOME, _found, lambda: ["model"])
