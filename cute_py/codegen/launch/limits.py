"""What a device allows a launch: threads, shared memory, clusters, and the size of the grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.errors import refusal

if TYPE_CHECKING:
    from cute_py.codegen.build import Compiled
    from cute_py.codegen.driver.driver import Driver

PORTABLE = 8  # blocks of a cluster on every device that has clusters
LARGEST = 16  # on sm_90, if asked for


def require_fit(driver: Driver, compiled: Compiled, function: Any, device: int) -> None:
    """Refuse a kernel whose block or cluster the device cannot run.

    Args:
        driver: of the machine.
        compiled: the kernel.
        function: the kernel, loaded on the device.
        device: its number.

    """
    launch = compiled.plan.launch
    static = driver.attribute(function, "SHARED_SIZE_BYTES")
    optin = driver.limit(device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    shared = compiled.plan.smem_bytes + static
    _require(compiled, "bytes of shared memory in a block", shared, optin)
    threads = driver.attribute(function, "MAX_THREADS_PER_BLOCK")
    _require(compiled, "threads in a block", launch.threads, threads)
    for letter, extent in zip("XYZ", launch.block, strict=True):
        most = driver.limit(device, f"MAX_BLOCK_DIM_{letter}")
        _require(compiled, f"threads in {letter.lower()}", extent, most)
    _require_cluster(driver, compiled, function, device)


def _require_cluster(driver: Driver, compiled: Compiled, function: Any, device: int) -> None:
    x, y, z = compiled.plan.launch.cluster
    if (blocks := x * y * z) == 1:
        return
    major = driver.limit(device, "COMPUTE_CAPABILITY_MAJOR")
    _require(compiled, "blocks in a cluster", blocks, LARGEST if major >= 9 else 1)
    if blocks > PORTABLE:
        kinds = driver.raw.CUfunction_attribute
        kind = kinds.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        driver.call("cuFuncSetAttribute", function, kind, 1)


def _require(compiled: Compiled, what: str, found: int, most: int) -> None:
    if found > most:
        name, arch = compiled.plan.name, compiled.arch
        raise refusal("launch-limit", operation=name, found=found, what=what, most=most, arch=arch)


def require_grid(
    driver: Driver, compiled: Compiled, device: int, grid: tuple[int, int, int]
) -> None:
    """Refuse a grid that is negative, too large, or no whole number of clusters.

    The driver's own word for the second is CUDA_ERROR_INVALID_VALUE.
    """
    plan = compiled.plan
    most = tuple(driver.limit(device, f"MAX_GRID_DIM_{letter}") for letter in "XYZ")
    if any(not 0 <= n <= limit for n, limit in zip(grid, most, strict=True)):
        raise refusal("launch-grid", operation=plan.name, grid=grid, most=most)
    cluster = plan.launch.cluster
    if any(n % c for n, c in zip(grid, cluster, strict=True)):
        raise refusal("launch-cluster", operation=plan.name, grid=grid, cluster=cluster)
