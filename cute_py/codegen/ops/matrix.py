"""Matrix products: the PTX of the atom's row, or arithmetic if the atom has no PTX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.codegen.emit import emits
from cute_py.codegen.ops.registers.conversions import fused, narrowed, widened
from cute_py.codegen.storage import F32, F64, I32
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.atoms.mma import Operand
    from cute_py.codegen.emit import Emit


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
