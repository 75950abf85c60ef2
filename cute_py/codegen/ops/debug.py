"""Prints and assertions in a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.emit import emits
from cute_py.codegen.ops.registers.conversions import widened
from cute_py.codegen.storage import F32, F64, I1, I32, I64
from cute_py.errors import refusal
from cute_py.plan import ops
from cute_py.plan.conditions import Reg

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit

MOST = 32  # values of one call; vprintf ignores more


@emits(ops.Assert)
def assert_(e: Emit, op: ops.Assert) -> None:
    """Trap if the condition is false: the launch ends with an error."""
    e.emit("trap", guard=e.b.zext(e.scalars.holds(op.cond), I32), unless=True)


@emits(ops.Print)
def print_(e: Emit, op: ops.Print) -> None:
    """Call vprintf with 8 bytes for each value."""
    values = [x for value in op.values for x in _words(e, value)]
    if len(values) > MOST:
        count = len(values)
        raise refusal(
            "codegen-print", operation="cute.print", where=op.where, count=count, most=MOST
        )
    e.printf(op.format(), values)


def _words(e: Emit, value: Any) -> list[Any]:
    """Return the elements of a value as integers and floats of 64 bits."""
    if isinstance(value, Reg):
        kind = value.dtype
        given = [widened(e, e.words.get(value, k), kind) for k in range(len(value))]
        return [_wide(e, x, kind.kind == "int") for x in given]
    if isinstance(value, float):
        return [ir.Constant(F64, value)]
    return [e.scalars.value(int(value) if isinstance(value, bool) else value)]


def _wide(e: Emit, x: Any, signed: bool) -> Any:
    if x.type in (F32, F64):
        x = e.b.fpext(x, F64) if x.type == F32 else x
        nan = ir.Constant(F64, float("nan"))  # one text for all NaN: without a sign
        return e.b.select(e.b.fcmp_unordered("uno", x, x), nan, x)
    if x.type == I64:
        return x
    return (e.b.sext if signed and x.type != I1 else e.b.zext)(x, I64)
