"""Barriers, fences and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.addresses import Addresses
from cute_py.codegen.emit import emits
from cute_py.codegen.storage import I32
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit

FEW = 4  # ids of a named barrier
_BARRIERS = {"block": "bar.block", "warp": "bar.warp"}


@emits(ops.Barrier)
def barrier(e: Emit, op: ops.Barrier) -> None:
    """Emit the barrier of a block, a warp or a cluster, or a named barrier."""
    if op.scope in _BARRIERS:
        e.emit(_BARRIERS[op.scope])
    elif op.scope == "named":
        _named_barrier(e, op)
    else:
        e.emit("barrier.cluster", kind=op.kind)


def _named_barrier(e: Emit, op: ops.Barrier) -> None:
    """Emit a barrier for each of a few ids: one in a register reserves all 16 for the block."""
    low, high = op.ids
    few = high - low < FEW
    for number in range(low, high + 1) if few else (None,):
        guard, given = None, e.scalars.narrow(op.id)
        if number is not None:
            here = ir.Constant(I32, number)
            guard = e.b.zext(e.b.icmp_signed("==", given, here), I32) if low != high else None
            given = here
        e.emit("bar.named", given, guard=guard, kind=op.kind, threads=op.threads)


@emits(ops.Fence)
def fence(e: Emit, op: ops.Fence) -> None:
    """Order memory, or the asynchronous proxy."""
    if op.kind == "mbarrier_init":
        e.emit("fence.mbarrier_init")
    elif op.kind == "proxy_async":
        e.emit("fence.proxy.async", scope=_scope(e, "fence.proxy.async"))
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


# -- mbarriers


@emits(ops.MbarInit)
def mbar_init(e: Emit, op: ops.MbarInit) -> None:
    """Initialize an mbarrier."""
    e.emit("mbarrier.init", Addresses(e, op.bar)[0], count=op.count)


@emits(ops.MbarInval)
def mbar_inval(e: Emit, op: ops.MbarInval) -> None:
    """End an mbarrier."""
    e.emit("mbarrier.inval", Addresses(e, op.bar)[0])


@emits(ops.MbarArrive)
def mbar_arrive(e: Emit, op: ops.MbarArrive) -> None:
    """Arrive at an mbarrier of this block, or of another block of the cluster."""
    address, beyond = Addresses(e, op.bar)[0]
    given: list[Any] = [(address, beyond)]
    if op.cluster_rank is not None:  # mapa takes a register
        given = [e.b.add(address, ir.Constant(I32, beyond)), e.scalars.narrow(op.cluster_rank)]
    modes: dict[str, Any] = {"bytes": op.bytes} if op.bytes else {}
    modes |= {} if op.cluster_rank is None else {"scope": _scope(e, op.bar.storage)}
    e.emit(op.needs(), *given, **modes)


def _scope(e: Emit, what: str) -> str:
    """Return for whom an mbarrier of a storage, or a fence, orders memory."""
    return "cluster" if what in e.wide else "cta"


@emits(ops.CpArrive)
def cp_arrive(e: Emit, op: ops.CpArrive) -> None:
    """Arrive at an mbarrier after the thread's copies."""
    e.emit("cp.async.mbarrier.arrive", Addresses(e, op.bar)[0])


@emits(ops.MbarWait)
def mbar_wait(e: Emit, op: ops.MbarWait) -> None:
    """Wait for a phase of an mbarrier."""
    phase = e.scalars.narrow(op.phase)
    e.emit("mbarrier.try_wait", Addresses(e, op.bar)[0], phase, scope=_scope(e, op.bar.storage))


@emits(ops.SetMaxNReg)
def setmaxnreg(e: Emit, op: ops.SetMaxNReg) -> None:
    """Release or request registers."""
    e.emit("setmaxnreg", kind=op.kind, n=op.n)
