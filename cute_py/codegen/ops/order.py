"""Barriers, fences and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cute_py.codegen.addresses import Addresses
from cute_py.codegen.emit import emits
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit

_BARRIERS = {"block": "bar.block", "warp": "bar.warp"}
_FENCES = {"proxy_async": "fence.proxy.async", "mbarrier_init": "fence.mbarrier_init"}


@emits(ops.Barrier)
def barrier(e: Emit, op: ops.Barrier) -> None:
    """Emit the barrier of a block, a warp or a cluster, or a named barrier."""
    if op.scope in _BARRIERS:
        e.emit(_BARRIERS[op.scope])
    elif op.scope == "named":
        e.emit("bar.named", e.scalars.narrow(op.id), kind=op.kind, threads=op.threads)
    else:
        e.emit("barrier.cluster", kind=op.kind)


@emits(ops.Fence)
def fence(e: Emit, op: ops.Fence) -> None:
    """Order memory, or the asynchronous proxy."""
    if op.kind in _FENCES:
        e.emit(_FENCES[op.kind])
    else:
        e.emit("fence", scope=op.kind)


@emits(ops.GridDep)
def grid_dep(e: Emit, op: ops.GridDep) -> None:
    """Wait for the previous kernels, or let the next kernel begin."""
    e.emit("griddepcontrol", kind=op.kind)


@emits(ops.WaitUntil)
def wait_until(e: Emit, op: ops.WaitUntil) -> None:
    """Spin on an acquire load until the comparison is true."""
    x = op.src
    address = Addresses(e, x)[0]
    if x.dtype.is_float:
        value = e.scalars.value(op.value)
        e.emit("wait_until.float", address, value, space=x.space, type=x.dtype.name, test=op.test)
        return
    value = e.scalars.value(op.value) if x.dtype.bits == 64 else e.scalars.narrow(op.value)
    kind = f"{'s' if x.dtype.kind == 'int' else 'u'}{x.dtype.bits}"
    e.emit("wait_until", address, value, space=x.space, type=kind, test=op.test)
