"""Products and order: Mma by the text of the atom's row, barriers, groups of copies, fences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.codegen.arithmetic import fused, narrowed, widened
from cute_py.codegen.storage import F32, F64, I32
from cute_py.layout.queries import size
from cute_py.trace import ops

if TYPE_CHECKING:
    from cute_py.atoms.mma import MMA_Atom, Operand
    from cute_py.codegen.emit import Emit

_KINDS = {"b32": (I32, "r"), "s32": (I32, "r"), "u32": (I32, "r"), "f32": (F32, "f")}


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
        found = _instruction(e, atom, *regs)
        _put(e, atom.registers[0], op.d, d * counts[0], counts[0], found)


def _registers(e: Emit, operand: Operand, reg: Any, start: int, count: int) -> list[Any]:  # noqa: ANN401
    """Return a fragment as the registers that the instruction takes."""
    if operand.ptx_type == "f64":
        return [e.words.get(reg, start + k) for k in range(count)]
    words = e.words.get_words(reg, start, count)
    kind, _cons = _KINDS[operand.ptx_type]
    return [e.b.bitcast(w, kind) if kind == F32 else w for w in words]


def _put(e: Emit, operand: Operand, reg: Any, start: int, count: int, found: list[Any]) -> None:  # noqa: ANN401
    if operand.ptx_type == "f64":
        for k, value in enumerate(found):
            e.words.put(reg, start + k, value)
        return
    words = [e.b.bitcast(v, I32) if v.type == F32 else v for v in found]
    e.words.put_words(reg, start, count, words)


def _instruction(e: Emit, atom: MMA_Atom, a: list[Any], b: list[Any], c: list[Any]) -> list[Any]:
    """Emit the instruction: D, then A, B and C as operands."""
    d = atom.registers[0]
    kind, cons = (F64, "d") if d.ptx_type == "f64" else _KINDS[d.ptx_type]
    names: list[list[str]] = []
    at = 0
    for count in (d.count, len(a), len(b), len(c)):
        names.append([f"${at + i}" for i in range(count)])
        at += count
    text = atom.instruction(names[0], names[1], names[2], names[3])
    letters = [_letter(v) for v in (*a, *b, *c)]
    return e.asm([kind] * d.count, text, [f"={cons}"] * d.count + letters, [*a, *b, *c])


def _letter(value: Any) -> str:  # noqa: ANN401
    return {F32: "f", F64: "d"}.get(value.type, "r")


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
    """bar.sync, bar.warp.sync, or a named barrier."""
    if op.scope == "block":
        e.asm([], "bar.sync 0;", [], [], side=True)
    elif op.scope == "warp":
        e.asm([], "bar.warp.sync 0xffffffff;", [], [], side=True)
    elif op.scope == "named":
        text = f"bar.{op.kind} $0, {op.threads};"
        e.asm([], text, ["r"], [e.scalars.narrow(op.id)], side=True)
    else:
        text = {
            "sync": "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
            "arrive": "barrier.cluster.arrive.aligned;",
            "wait": "barrier.cluster.wait.aligned;",
        }[op.kind]
        e.asm([], text, [], [], side=True)


def cp_commit(e: Emit, op: ops.CpCommit) -> None:
    """cp.async.commit_group."""
    e.asm([], "cp.async.commit_group;", [], [], side=True)


def cp_wait(e: Emit, op: ops.CpWait) -> None:
    """cp.async.wait_group."""
    e.asm([], f"cp.async.wait_group {op.n};", [], [], side=True)


def fence(e: Emit, op: ops.Fence) -> None:
    """membar, or a fence of the asynchronous proxy."""
    text = {
        "block": "fence.acq_rel.cta;",
        "gpu": "fence.acq_rel.gpu;",
        "system": "fence.acq_rel.sys;",
        "proxy_async": "fence.proxy.async.shared::cta;",
        "mbarrier_init": "fence.mbarrier_init.release.cluster;",
    }[op.kind]
    e.asm([], text, [], [], side=True)


def assert_(e: Emit, op: ops.Assert) -> None:
    """Trap where the condition fails: the launch ends with an error."""
    flag = e.b.zext(e.scalars.holds(op.cond), I32)
    text = "{ .reg .pred p; setp.eq.b32 p, $0, 0; @p trap; }"
    e.asm([], text, ["r"], [flag], side=True)


def prefetch(e: Emit, op: ops.Prefetch) -> None:
    """prefetch.global.L2 of each vector."""
    from cute_py.codegen.memory import Addresses

    addresses = Addresses(e, op.src)
    for v in range(op.src.count):
        address, static = addresses[v]
        e.asm([], f"prefetch.global.L2 [$0+{static}];", ["l"], [address], side=True)


def wait_until(e: Emit, op: ops.WaitUntil) -> None:
    """Read with acquire order until the element compares."""
    from cute_py.codegen.memory import Addresses

    x = op.src
    address, static = Addresses(e, x)[0]
    kind = f"{'s' if x.dtype.kind == 'int' else 'u'}{x.dtype.bits}"
    space, letter = (".global", "l") if x.space == "gmem" else (".shared", "r")
    wide = x.dtype.bits == 64
    value = e.scalars.value(op.value) if wide else e.scalars.narrow(op.value)
    text = (
        f"{{ .reg .pred p; .reg .{kind} x; again_${{:uid}}: "
        f"ld.acquire.gpu{space}.{kind} x, [$0+{static}]; setp.{op.test}.{kind} p, x, $1; "
        "@!p bra again_${:uid}; }"
    )
    e.asm([], text, [letter, "l" if wide else "r"], [address, value], side=True)


EMIT = {
    ops.WaitUntil: wait_until,
    ops.Mma: mma,
    ops.Barrier: barrier,
    ops.CpCommit: cp_commit,
    ops.CpWait: cp_wait,
    ops.Fence: fence,
    ops.Assert: assert_,
    ops.Prefetch: prefetch,
}
