"""What the driver says of a launch, as a refusal that names the kernel."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from cute_py.codegen.driver import CAPTURING, STICKY
from cute_py.errors import refusal

if TYPE_CHECKING:
    from cute_py.codegen.build import Compiled
    from cute_py.errors import CuteError

RECENT: deque[str] = deque(maxlen=8)  # kernels launched last, the newest at the end


def is_synchronous() -> bool:
    """Tell whether each launch shall wait until its kernel has ended: CUTE_PY_SYNC=1."""
    return os.environ.get("CUTE_PY_SYNC", "0") not in ("", "0")


def fault(number: int, status: str, compiled: Compiled, grid: object, known: bool) -> CuteError:
    """Return the refusal for a status of the driver.

    Args:
        number: of the status, other than success.
        status: its name.
        compiled: the kernel that was launched.
        grid: blocks.
        known: whether no kernel but this one can have left the status.

    """
    name = compiled.plan.name
    if number in CAPTURING:
        return refusal("launch-capture", operation=name)
    if number in STICKY and not known:
        names = ", ".join(RECENT.copy())  # threads add to it
        return refusal("launch-earlier", operation=name, status=status, names=names)
    launch = _launch_text(compiled, grid)
    return refusal("launch-failed", operation=name, status=status, launch=launch)


def _launch_text(compiled: Compiled, grid: object) -> str:
    launch, used = compiled.plan.launch, compiled.resources
    parts = [f"grid {grid}", f"block {launch.block}", f"{used.smem_bytes} bytes of shared memory"]
    if launch.cluster != (1, 1, 1):
        parts.append(f"cluster {launch.cluster}")
    return ", ".join([*parts, f"{compiled.arch}", f"{used.registers} registers"])
