"""`Let`: integers that are not polynomials. Loops and branches are lines of the printed kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.ops.registers.functions import shifted, sign_shifted
from cute_py.codegen.storage import I64
from cute_py.plan.conditions import Reg

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit
    from cute_py.plan import ops


def entry(e: Emit, op: ops.Let, table: str, narrow: bool) -> Any:
    """Return an entry of a table of the launch as 64 bits; `table`: the name of its parameter,
    `narrow`: its entries fit 32 bits.
    """
    offset = e.b.shl(e.scalars.value(op.operands[1]), ir.Constant(I64, 3))  # type: ignore[arg-type]
    address = e.b.add(e.address("gmem", table), offset)
    (found,) = e.emit("ld.param", address, type="b32" if narrow else "b64")
    return e.b.sext(found, I64) if narrow else found


def let(e: Emit, op: ops.Let) -> Any:
    """Return the 64-bit value of a Let on scalars or a register."""
    b = e.b
    if op.kind == "reg":
        (reg,) = op.operands
        assert isinstance(reg, Reg)
        value = e.words.get(reg, 0)
        if value.type == I64:
            return value
        return (b.sext if reg.dtype.kind == "int" else b.zext)(value, I64)
    if op.kind == "where":
        cond, *options = op.operands
        x, y = (e.scalars.value(o) for o in options)  # type: ignore[arg-type]
        return b.select(e.scalars.holds(cond), x, y)  # type: ignore[arg-type]
    if op.kind == "div":
        return e.scalars.divided(*op.operands)  # type: ignore[arg-type]
    x, y = (e.scalars.value(o) for o in op.operands)  # type: ignore[arg-type]
    if op.kind in ("shl", "shr"):
        return shifted(e, b.shl, x, y) if op.kind == "shl" else sign_shifted(e, x, y)
    return {"xor": b.xor, "and": b.and_, "or": b.or_}[op.kind](x, y)
