"""Products and order: Mma by the text of the atom's row, barriers, groups of copies, fences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.codegen.arithmetic import fused, narrowed, widened
from cute_py.codegen.storage import F32, F64, I32
from cute_py.layout.queries import size
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.atoms.mma import Operand
    from cute_py.codegen.emit import Emit

_BARRIERS = {"block": "bar.block", "warp": "bar.warp"}
_FENCES = {"proxy_async": "fence.proxy.async", "mbarrier_init": "fence.mbarrier_init"}


def mma(e: Emit, op: ops.Mma) -> None:
    """One instruction a step, in the order of the steps."""
    atom = op.atom
    if atom.ptx is None:
        _multiply_add(e, op)
        return
    counts = [int(size(tv, 1)) for tv in (atom.c_tv, atom.a_tv, atom.b_tv)]
    for d, a, b in op.steps:
        regs = [
            _registers(e, atom.registers[slot], reg, i * n, n)
            for slot, reg, i, n in (
                (1, op.a, a, counts[1]),
                (2, op.b, b, counts[2]),
                (3, op.d, d, counts[0]),
            )
        ]
        found = e.emit(atom, *regs)
        _put(e, atom.registers[0], op.d, d * counts[0], counts[0], found)


def _registers(e: Emit, operand: Operand, reg: Any, start: int, count: int) -> list[Any]:  # noqa: ANN401
    """Return a fragment as the registers that the instruction takes."""
    if operand.ptx_type == "f64":
        return [e.words.get(reg, start + k) for k in range(count)]
    words = e.words.get_words(reg, start, count)
    return [e.b.bitcast(w, F32) for w in words] if operand.ptx_type == "f32" else words


def _put(e: Emit, operand: Operand, reg: Any, start: int, count: int, found: list[Any]) -> None:  # noqa: ANN401
    if operand.ptx_type == "f64":
        for k, value in enumerate(found):
            e.words.put(reg, start + k, value)
        return
    words = [e.b.bitcast(v, I32) if v.type == F32 else v for v in found]
    e.words.put_words(reg, start, count, words)


def _multiply_add(e: Emit, op: ops.Mma) -> None:
    """UniversalFMA: d = a*b + d for each step, rounded once for f32 and f64."""
    kind = op.d.dtype
    native = kind.name in ("f16", "bf16")
    if native and not op.a.dtype is op.b.dtype is kind:
        raise e.unsupported(f"multiply-add of {op.a.dtype} and {op.b.dtype} to {kind}")
    for d, a, b in op.steps:
        places = ((op.a, a), (op.b, b), (op.d, d))
        if native:
            value = fused(e, kind, *[e.words.get(reg, i) for reg, i in places])
            e.words.put(op.d, d, value)
            continue
        x, y, z = (widened(e, e.words.get(reg, i), reg.dtype) for reg, i in places)
        if kind.is_float:
            x, y = (_as(e, v, z.type) for v in (x, y))
            value = narrowed(e, e.b.fma(x, y, z), kind)
        else:
            x, y = (_extended(e, v, z.type, reg) for v, reg in ((x, op.a), (y, op.b)))
            value = e.b.add(e.b.mul(x, y), z)
        e.words.put(op.d, d, value)


def _as(e: Emit, value: Any, kind: Any) -> Any:  # noqa: ANN401
    return e.b.fpext(value, kind) if value.type == F32 and kind == F64 else value


def _extended(e: Emit, value: Any, kind: Any, reg: Any) -> Any:  # noqa: ANN401
    if value.type == kind:
        return value
    return (e.b.sext if reg.dtype.kind == "int" else e.b.zext)(value, kind)


# -- order


def barrier(e: Emit, op: ops.Barrier) -> None:
    """Of a block, a warp or a cluster, or a named barrier."""
    if op.scope in _BARRIERS:
        e.emit(_BARRIERS[op.scope])
    elif op.scope == "named":
        e.emit("bar.named", e.scalars.narrow(op.id), kind=op.kind, threads=op.threads)
    else:
        e.emit("barrier.cluster", kind=op.kind)


def cp_commit(e: Emit, op: ops.CpCommit) -> None:
    """Close a group of copies."""
    e.emit("cp.async.commit_group")


def cp_wait(e: Emit, op: ops.CpWait) -> None:
    """Wait for groups of copies."""
    e.emit("cp.async.wait_group", n=op.n)


def fence(e: Emit, op: ops.Fence) -> None:
    """Order memory, or the asynchronous proxy."""
    if op.kind in _FENCES:
        e.emit(_FENCES[op.kind])
    else:
        e.emit("fence", scope=op.kind)


def grid_dep(e: Emit, op: ops.GridDep) -> None:
    """Wait for the kernels before, or let the next one begin."""
    e.emit("griddepcontrol", kind=op.kind)


def assert_(e: Emit, op: ops.Assert) -> None:
    """Trap where the condition fails: the launch ends with an error."""
    e.emit("trap", guard=e.b.zext(e.scalars.holds(op.cond), I32), unless=True)


def prefetch(e: Emit, op: ops.Prefetch) -> None:
    """One prefetch a vector; nothing where a guard fails."""
    from cute_py.codegen.guards import Guards
    from cute_py.codegen.memory import Addresses

    addresses, guards = Addresses(e, op.src), Guards(e, op.src)
    for v in range(op.src.count):
        e.emit("prefetch", addresses[v], guard=guards[v])


def wait_until(e: Emit, op: ops.WaitUntil) -> None:
    """Read with acquire order until the element compares."""
    from cute_py.codegen.memory import Addresses

    x = op.src
    address = Addresses(e, x)[0]
    value = e.scalars.value(op.value) if x.dtype.bits == 64 else e.scalars.narrow(op.value)
    kind = f"{'s' if x.dtype.kind == 'int' else 'u'}{x.dtype.bits}"
    e.emit("wait_until", address, value, space=x.space, type=kind, test=op.test)


EMIT = {
    ops.WaitUntil: wait_until,
    ops.Mma: mma,
    ops.Barrier: barrier,
    ops.CpCommit: cp_commit,
    ops.CpWait: cp_wait,
    ops.Fence: fence,
    ops.GridDep: grid_dep,
    ops.Assert: assert_,
    ops.Prefetch: prefetch,
}
