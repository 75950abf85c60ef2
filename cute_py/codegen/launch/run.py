"""Run plans on the device of the arrays: compile once, launch on the current stream."""

from __future__ import annotations

import warnings
from threading import RLock
from typing import TYPE_CHECKING, Any

from cute_py.calls import backends
from cute_py.calls.arrays import imported, on_device, unwrapped
from cute_py.codegen.build import UNLIMITED, compile, require_plan
from cute_py.codegen.driver import driver
from cute_py.codegen.driver.devices import arch_of
from cute_py.codegen.driver.streams import current_stream, device_of, stream_number
from cute_py.codegen.launch.launcher import Launcher
from cute_py.errors import CuteError, refusal, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cute_py.calls.backends import Launch
    from cute_py.codegen.build import Compiled
    from cute_py.plan.plan import Plan


def run(plan: Plan, *args: Any, stream: Any = None) -> None:
    """Compile a plan for the device of the arrays, and launch it; kernels are cached per plan.

    A kernel whose registers spill runs here: it is correct, but slower. It is an
    error in `compile`; `run` warns if more spills than `cute.launch` states.

    Args:
        plan: the plan to run.
        args: an array or number for each parameter of the plan.
        stream: a CUDA stream: a number, a stream of torch or CuPy, or an object with
            `__cuda_stream__`; None: the current stream of the first array's library.

    Raises LayoutError for arrays that differ from the traced ones, for arrays on several devices,
    for a launch that the device cannot run, and for errors of the driver.
    """
    try:
        require_plan(plan, "cute.run")
        number = None if stream is None else stream_number(stream)
        launch, values = prepare(plan, args, number)
        launch(values, number)
    except CuteError as error:
        shorten(error)
        raise


def prepare(plan: Plan, args: Sequence[Any], stream: int | None = None) -> tuple[Launch, list[Any]]:
    """Return the launch of a plan for arrays like these, and the values to call it with."""
    return prepared(plan, [imported(x) for x in args], stream)


def prepared(
    plan: Plan, args: Sequence[Any], stream: int | None = None
) -> tuple[Launch, list[Any]]:
    """Return the same for arrays that were imported."""
    array = next((unwrapped(x) for x in args if on_device(x)), None)
    if array is None:
        found = "no GPU array"
        raise refusal("launch-argument", operation=plan.name, name="the arguments", found=found)
    device = device_of(array)
    known = _launchers.get((id(plan), device))
    if known is None:
        here = current_stream(array, device)() if stream is None else stream
        _require_no_capture(plan, device, here)
        return launcher(plan, device).prepared(args)
    return known[1].prepared(args)


def _require_no_capture(plan: Plan, device: int, stream: int) -> None:
    with driver().inside(device):
        if driver().is_capturing(stream):
            raise refusal("launch-capture", operation=plan.name)


# -- kernels, by the identity of their plan: hashing a plan is slow. The plan is kept alive, so that
# no other plan gets its id. Modules are never unloaded: a CUDA graph may use their kernels.

MOST = 4096  # kernels to keep; the oldest is evicted first

_launchers: dict[tuple[int, int], tuple[Plan, Launcher]] = {}
_compiled: dict[tuple[int, str], tuple[Plan, Compiled]] = {}
_making = RLock()


def launcher(plan: Plan, device: int | None = None) -> Launcher:
    """Return the plan compiled for a device (by default the current one) and loaded on it.

    If several threads request one plan at the same time, it is compiled once.
    """
    device = (driver().device() or 0) if device is None else device
    key = id(plan), device
    with _making:
        if key not in _launchers:
            compiled = _compiled_for(plan, device_arch(device))
            made = plan, Launcher(compiled, device)
            while len(_launchers) >= MOST:
                _forget(next(iter(_launchers)))
            _launchers[key] = made
            _compiled[id(plan), compiled.arch] = plan, compiled  # so that `_forget` finds it
        return _launchers[key][1]


def _compiled_for(plan: Plan, arch: str) -> Compiled:
    known = _compiled.get((id(plan), arch))
    if known is not None:
        return known[1]
    made = compile(plan, arch, UNLIMITED)
    _warn_of_spills(made)
    return made


def _warn_of_spills(made: Compiled) -> None:
    """Warn that a kernel spills more than it states."""
    found, stated = made.resources, made.plan.launch.spill_bytes
    spilled = max(found.spill_bytes, found.stack_bytes)
    if spilled > stated:
        text = (
            f"{made.plan.name}: {spilled} bytes per thread spill to local memory on {made.arch}, "
            f"{stated} are stated: the result is right, but the kernel is slower; use a smaller "
            f"tile or more threads, or state them: cute.launch(..., spill_bytes={spilled})"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def _forget(key: tuple[int, int]) -> None:
    """Drop all cached kernels of a plan, before its id can be reused."""
    for place in [k for k in _launchers if k[0] == key[0]]:
        del _launchers[place]
    for kind in [k for k in _compiled if k[0] == key[0]]:
        del _compiled[kind]


def device_arch(device: int | None = None) -> str:
    """Return the architecture of a device, by default the current one: sm_80, sm_90a, ..."""
    device = (driver().device() or 0) if device is None else device
    major = driver().limit(device, "COMPUTE_CAPABILITY_MAJOR")
    minor = driver().limit(device, "COMPUTE_CAPABILITY_MINOR")
    return arch_of((major, minor))


backends.prepare[:] = [prepared]
