"""Static analysis: what a tiled operation costs, read off its layouts, without running anything.

`bank_conflicts` counts the wavefronts of shared memory, `coalescing` the sectors of global memory,
`vector_width` what one access can move, `registers` and `occupancy` what a thread and a
multiprocessor hold. `swizzle_solver` and `suggest_smem_layout` search for shared-memory layouts
without conflicts. Names load on first use.

>>> from cute_py import analysis
>>> analysis.occupancy("sm_70", threads=256, registers=128).warps
16
"""

from __future__ import annotations

# module -> the public names that it defines
_HOME = {
    "requests": "Access",
    "banks": "BankConflicts bank_conflicts",
    "sectors": "Coalescing coalescing",
    "vectors": "vector_width",
    "resources": "DEVICES DeviceLimits Occupancy Registers Wave occupancy registers wave",
    "solver": "SmemSolution suggest_smem_layout swizzle_solver",
}
_MODULE = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> object:
    """Import the module that defines `name` and keep the name here (PEP 562)."""
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'cute_py.analysis' has no attribute {name!r}")
    value = getattr(__import__(f"cute_py.analysis.{module}", fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *_MODULE})
