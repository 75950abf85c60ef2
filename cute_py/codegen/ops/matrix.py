"""Matrix products: the PTX of the atom's row, or arithmetic if the atom has no PTX."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.addresses import Addresses
from cute_py.codegen.emit import emits
from cute_py.codegen.instructions import TABLE, holding, of_warpgroup
from cute_py.codegen.ops.registers.conversions import fused, narrowed, widened
from cute_py.codegen.storage import F32, F64, I32, I64
from cute_py.integers import ints
from cute_py.plan import ops
from cute_py.plan.conditions import Reg

if TYPE_CHECKING:
    from cute_py.atoms.mma import Operand
    from cute_py.codegen.emit import Emit
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Cond


@emits(ops.Mma)
def mma(e: Emit, op: ops.Mma) -> None:
    """Emit one instruction per step, in the order of the steps."""
    atom = op.atom
    if atom.ptx is None:
        _multiply_add(e, op)
        return
    operands = tuple(zip(atom.registers[1:4], (op.a, op.b, op.d), atom.values, strict=True))
    held = atom.values[2]
    for d, a, b in op.steps:
        regs = [
            _registers(e, operand, reg, i * n, n)
            for i, (operand, reg, n) in zip((a, b, d), operands, strict=True)
        ]
        _put(e, atom.registers[0], op.d, d * held, held, e.emit(atom, *regs))


def _registers(e: Emit, operand: Operand, reg: Any, start: int, count: int) -> list[Any]:
    """Return a fragment as the registers that the instruction takes."""
    if operand.ptx_type == "f64":
        return [e.words.get(reg, start + k) for k in range(count)]
    words = e.words.get_words(reg, start, count)
    return [e.b.bitcast(w, F32) for w in words] if operand.ptx_type == "f32" else words


def _put(e: Emit, operand: Operand, reg: Any, start: int, count: int, found: list[Any]) -> None:
    if operand.ptx_type == "f64":
        for k, value in enumerate(found):
            e.words.put(reg, start + k, value)
        return
    words = [e.b.bitcast(v, I32) if v.type == F32 else v for v in found]
    e.words.put_words(reg, start, count, words)


def _multiply_add(e: Emit, op: ops.Mma) -> None:
    """Emit UniversalFMA: d = a*b + d for each step, rounded once for f32 and f64."""
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


def _as(e: Emit, value: Any, kind: Any) -> Any:
    return e.b.fpext(value, kind) if value.type == F32 and kind == F64 else value


def _extended(e: Emit, value: Any, kind: Any, reg: Any) -> Any:
    if value.type == kind:
        return value
    return (e.b.sext if reg.dtype.kind == "int" else e.b.zext)(value, kind)


# -- warpgroups

MANY = 12  # fragments of a tile, whose descriptors would fill the uniform registers
_LAYOUTS = {"INTER": 0, "SW128": 1, "SW64": 2, "SW32": 3}  # bits 62 and 63 of a descriptor


def before_swizzle(x: Access) -> Access:
    """Return an access without its swizzle, which the hardware applies to what it adds up."""
    if x.swizzle is None:
        return x
    bases: Any = tuple([ints.add(base, x.inner) for base in x.bases])
    return replace(x, swizzle=None, bases=bases, inner=0)


class _Descriptors:
    """The descriptors of the fragments of a tile: the first one is computed once, the others are
    additions to it. Source: PTX ISA, matrix-descriptor-format.
    """

    def __init__(self, e: Emit, tile: ops.Tile, rows: int, depth: int) -> None:
        self.e, self.each, x = e, rows * depth, before_swizzle(tile.access)
        fields = (tile.lbo >> 4) << 16 | (tile.sbo >> 4) << 32 | _LAYOUTS[tile.mode] << 62
        self.fields = ir.Constant(I64, fields)
        self.addresses, self.x = Addresses(e, x), x
        self.start = 0 if isinstance(tile.access.inner, int) and len(x.bases) == 1 else None
        self.first = None if self.start is None else self._descriptor(self.addresses.base(0))

    def _descriptor(self, address: Any) -> Any:
        b = self.e.b
        field = b.lshr(b.and_(address, ir.Constant(I32, 0x3FFFF)), ir.Constant(I32, 4))
        return b.or_(b.zext(field, I64), self.fields)

    def __getitem__(self, fragment: int) -> Any:
        b, vector = self.e.b, fragment * self.each
        if self.start is None:
            address, beyond = self.addresses[vector]
            return self._descriptor(b.add(address, ir.Constant(I32, beyond)))
        x, (_base, static) = self.x, self.x.table[vector]
        at = static + self.addresses.parts[0][1]
        beyond = at * x.dtype.bits // 8 >> 4
        if len(x.table) >= MANY * self.each:
            return self.e.emit("descriptor", self.first, n=beyond)[0]
        return b.add(self.first, ir.Constant(I64, beyond))


@emits(ops.Wgmma)
def wgmma(e: Emit, op: ops.Wgmma) -> None:
    """Emit one instruction per step. The accumulators are 32-bit words that each instruction
    updates in place.
    """
    M, N, K = op.atom.shape_mnk
    row, count = of_warpgroup(op.atom), op.atom.values[2]
    left: Any = None if isinstance(op.a, Reg) else _Descriptors(e, op.a, M, K)
    right, begun = _Descriptors(e, op.b, N, K), set()
    for d, a, b in op.steps:
        n = op.atom.values[0]
        first = e.words.get_words(op.a, a * n, n) if isinstance(op.a, Reg) else left[a]
        scale = ir.Constant(I32, 1) if d in begun else _flag(e, op.accumulate)
        begun.add(d)
        held = e.words.get_words(op.d, d * count, count)
        e.words.put_words(op.d, d * count, count, e.emit(row, first, right[b], scale, old=held))


def _flag(e: Emit, accumulate: bool | Cond) -> Any:
    if isinstance(accumulate, bool):
        return ir.Constant(I32, int(accumulate))
    return e.b.zext(e.scalars.holds(accumulate), I32)


def forget(e: Emit, op: ops.Fill) -> None:
    """Give sums values that the compiler may not choose: it would choose zeros, and set them."""
    words = e.words.words[op.dst.storage]
    words[:] = e.emit(holding(TABLE["held"], len(words)), n=0)


def start(e: Emit, op: ops.Fill) -> None:
    """Set sums to a number by a value that the compiler does not know: it would select between
    numbers and sums after a branch, which takes twice the registers.
    """
    value, words = e.constant(op.value, op.dst.dtype), e.words.words[op.dst.storage]  # type: ignore[arg-type]
    for k in range(len(op.dst)):
        e.words.put(op.dst, k, value)
    words[:] = e.emit(holding(TABLE["held"], len(words)), old=list(words), n=0)


@emits(ops.WgFence)
def wg_fence(e: Emit, op: ops.WgFence) -> None:
    """Order registers before later products."""
    e.emit("wgmma.fence")


@emits(ops.WgCommit)
def wg_commit(e: Emit, op: ops.WgCommit) -> None:
    """Commit a group of products."""
    e.emit("wgmma.commit_group")


@emits(ops.WgWait)
def wg_wait(e: Emit, op: ops.WgWait) -> None:
    """Wait for groups of products. All registers that they use are results of the wait, so that no
    access to them is moved above it.
    """
    if op.after is not None:
        words = [w for i in range(len(op.after)) for w in e.words.get_words(op.after, i, 1)]
        e.emit("wgmma.after", reduce(e.b.and_, words))
    row = TABLE["wgmma.wait_group"]
    for words in e.words.words.values():
        words[:] = e.emit(holding(row, len(words)), old=list(words), n=op.n)
        row = TABLE["held"]
    if row.name != "held":
        e.emit(row, n=op.n)
