"""Barriers, fences and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cute_py.codegen.addresses import Addresses
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit

_BARRIERS = {"block": "bar.block", "warp": "bar.warp"}
_FENCES = {"proxy_async": "fence.proxy.async", "mbarrier_init": "fence.mbarrier_init"}


def barrier(e: Emit, op: ops.Barrier) -> None:
    """Of a block, a warp or a cluster, or a named barrier."""
    if op.scope in _BARRIERS:
        e.emit(_BARRIERS[op.scope])
    elif op.scope == "named":
        e.emit("bar.named", e.scalars.narrow(op.id), kind=op.kind, threads=op.threads)
    else:
        e.emit("barrier.cluster", kind=op.kind)


def fence(e: Emit, op: ops.Fence) -> None:
    """Order memory, or the asynchronous proxy."""
    if op.kind in _FENCES:
        e.emit(_FENCES[op.kind])
    else:
        e.emit("fence", scope=op.kind)


def grid_dep(e: Emit, op: ops.GridDep) -> None:
    """Wait for the kernels before, or let the next one begin."""
    e.emit("griddepcontrol", kind=op.kind)


def wait_until(e: Emit, op: ops.WaitUntil) -> None:
    """Read with acquire order until the element compares."""
    x = op.src
    address = Addresses(e, x)[0]
    value = e.scalars.value(op.value) if x.dtype.bits == 64 else e.scalars.narrow(op.value)
    kind = f"{'s' if x.dtype.kind == 'int' else 'u'}{x.dtype.bits}"
    e.emit("wait_until", address, value, space=x.space, type=kind, test=op.test)


EMIT = {
    ops.Barrier: barrier,
    ops.Fence: fence,
    ops.GridDep: grid_dep,
    ops.WaitUntil: wait_until,
}
