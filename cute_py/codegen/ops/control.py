"""`Let`: integers that are not polynomials. Loops and branches are lines of the printed kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.ops.registers.functions import shifted, sign_shifted
from cute_py.codegen.storage import I32, I64
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import Reg, fits, within

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit
    from cute_py.plan import ops
    from cute_py.plan.conditions import Scalar


def entry(e: Emit, op: ops.Let, table: str, row: tuple[Scalar, ...]) -> Any:
    """Return an entry of a table of the launch as 64 bits. An index that may be outside of it
    is compared, and traps: the launch ends with an error.

    Args:
        e: where to emit it.
        op: the read.
        table: the name of its parameter.
        row: its entries.
    """
    index, narrow = e.scalars.value(op.operands[1]), all(fits(terms_of(x)) for x in row)  # type: ignore[arg-type]
    if not within(terms_of(op.operands[1]), 0, len(row)):
        inside = e.b.icmp_unsigned("<", index, ir.Constant(I64, len(row)))
        e.emit("trap", guard=e.b.zext(inside, I32), unless=True)
    offset = e.b.shl(index, ir.Constant(I64, 3))
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
