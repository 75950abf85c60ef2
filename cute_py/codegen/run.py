"""Running plans on the device where the arrays are: compile once, launch on the current stream."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from cute_py.codegen.build import compile
from cute_py.codegen.devices import arch_of
from cute_py.codegen.launch import Launcher
from cute_py.errors import refusal
from cute_py.trace.arguments import TypedArray, on_device

if TYPE_CHECKING:
    from cute_py.trace.plan import Plan


def run(plan: Plan, *args: Any, stream: int | None = None) -> None:  # noqa: ANN401
    """Launch a plan on device arrays, compiled for their device; kernels are kept by plan.

    Registers may spill here: the kernel is slower then, and right. `compile` refuses them.

    Args:
        plan: what to run.
        args: an array or number for each parameter of the plan.
        stream: a CUDA stream as a number; None: the current one of the arrays' library.

    """
    array = next((a for a in map(_bare, args) if on_device(a)), None)
    if array is None:
        found = "no array on the GPU"
        raise refusal("launch-argument", operation=plan.name, name="the arguments", found=found)
    with _current(array):
        launcher(plan)(*args, stream=_stream(array) if stream is None else stream)


SPILLS = 1 << 16  # bytes of a thread, as good as any

_launchers: dict[tuple[int, int], tuple[Plan, Launcher]] = {}  # by identity: hashing a plan costs


def launcher(plan: Plan) -> Launcher:
    """Return the plan compiled for the current device, and loaded in its context."""
    from cuda.bindings import driver

    _status, context = driver.cuCtxGetCurrent()
    key = id(plan), int(context)
    if key not in _launchers:
        _launchers[key] = plan, Launcher(compile(plan, device_arch(), SPILLS))
    return _launchers[key][1]


def device_arch() -> str:
    """Return the architecture of the current device: sm_80, sm_90a, ..."""
    from cuda.bindings import driver

    _status, device = driver.cuCtxGetDevice()
    kinds = driver.CUdevice_attribute
    major, minor = (
        driver.cuDeviceGetAttribute(kind, device)[1]
        for kind in (
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    return arch_of((major, minor))


def shared_memory_of_device() -> int:
    """Return how much shared memory a block of the current device can have (bytes)."""
    from cuda.bindings import driver

    _status, device = driver.cuCtxGetDevice()
    kind = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    return int(driver.cuDeviceGetAttribute(kind, device)[1])


def _bare(x: Any) -> Any:  # noqa: ANN401
    return x.array if isinstance(x, TypedArray) else x


def _library(array: Any) -> str:  # noqa: ANN401
    return type(array).__module__.partition(".")[0]


def _current(array: Any) -> AbstractContextManager[Any]:  # noqa: ANN401
    """Return a block in which the array's device is the current one."""
    if _library(array) == "torch":
        import torch

        block: AbstractContextManager[Any] = torch.cuda.device(array.device)
        return block
    return array.device if _library(array) == "cupy" else nullcontext()


def _stream(array: Any) -> int:  # noqa: ANN401
    """Return the current stream of the array's library; 0 is the default stream."""
    if _library(array) == "torch":
        import torch

        return int(torch.cuda.current_stream(array.device).cuda_stream)
    if _library(array) == "cupy":
        import cupy

        return int(cupy.cuda.get_current_stream().ptr)
    return 0
