"""Register ops, except conversions and functions.

Floats narrower than 32 bits are computed in f32 and rounded to nearest even after each op, as on
the emulator. Ops are never contracted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.emit import emits
from cute_py.codegen.ops.registers.conversions import fused, narrowed, widened
from cute_py.codegen.ops.registers.functions import INTEGER, rule_of
from cute_py.codegen.ops.registers.packed import MINUS, map_pairs
from cute_py.codegen.storage import I1, I16, I32, I64, element_type
from cute_py.plan import ops
from cute_py.plan.conditions import Reg
from cute_py.plan.functions import FUNCTIONS
from cute_py.plan.inline_ptx import as_llvm

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit
    from cute_py.dtypes.table import Dtype

# -- Fill and Map


@emits(ops.Fill)
def fill(e: Emit, op: ops.Fill) -> None:
    """Set all elements to a number; a Fill without a number leaves them as they are."""
    if op.value is None:
        return
    value = e.constant(op.value, op.dst.dtype)
    for k in range(len(op.dst)):
        e.words.put(op.dst, k, value)


@emits(ops.Map)
def map_(e: Emit, op: ops.Map) -> None:
    """Compute all elements, pairs at once where there is an instruction; all sources are read
    before anything is written.
    """
    pairs, results = map_pairs(e, op), {}
    for k in range(len(op.dst)):
        if k not in pairs and k - 1 not in pairs:
            results[k] = _applied(e, op, [_source(e, x, k, op) for x in op.sources])
    for k, word in pairs.items():
        e.words.put_words(op.dst, k, 2, [word])
    for k, value in results.items():
        e.words.put(op.dst, k, value)


def _as_it_is(op: ops.Map) -> bool:
    """Return whether elements keep their type: they are moved, or an instruction takes them."""
    narrow = op.dtype.is_float and op.dtype.bits < 32
    return FUNCTIONS[op.fn].moves or (narrow and op.fn == "fma") or _rounds_product(op.fn, op.dtype)


def _rounds_product(fn: str, dtype: Dtype) -> bool:
    """Return whether a product is one of fma: bf16 reaches as far down as f32, which would round
    the least products twice.
    """
    return fn == "mul" and dtype.name == "bf16"


def _source(e: Emit, x: Any, k: int, op: ops.Map) -> Any:
    kind = op.dtype
    if isinstance(x, Reg):
        value = e.words.get(x, k if len(x) > 1 else 0)
        return value if _as_it_is(op) or value.type == I1 else widened(e, value, kind)
    if isinstance(x, bool):
        return ir.Constant(I1, int(x))
    if isinstance(x, (int, float)):
        constant = e.constant(x, kind)
        return constant if _as_it_is(op) else widened(e, constant, kind)
    value = e.scalars.env[str(x)] if kind.is_float else e.scalars.value(x)
    if kind.is_float:
        return value if not _as_it_is(op) else narrowed(e, value, kind)
    return _integer(e, value, element_type(kind))


def _integer(e: Emit, value: Any, kind: Any) -> Any:
    """Return an integer of the plan as an element; as a flag, whether it is not 0."""
    if kind == I1:
        return e.b.icmp_unsigned("!=", value, ir.Constant(I64, 0))
    return value if kind == I64 else e.b.trunc(value, kind)


def _applied(e: Emit, op: ops.Map, values: list[Any]) -> Any:
    if op.fn == "copy":
        return values[0]
    if op.fn == "where":
        return e.b.select(*values)
    if _rounds_product(op.fn, op.dtype):
        return _product(e, *values)
    if _as_it_is(op):
        return fused(e, op.dtype, *values)
    if op.dtype.is_float:
        result = rule_of(op.fn, op.dtype)(e, *values)
    else:
        result = INTEGER[op.fn](e, op.dtype.kind == "int", *values)
    return result if result.type == I1 else narrowed(e, result, op.dtype)


def _product(e: Emit, a: Any, b: Any) -> Any:
    """Return the product of two bf16, rounded once."""
    return e.emit("fma.bf16", a, b, ir.Constant(I16, MINUS))[0]


# -- reductions, and between lanes


@emits(ops.Reduce)
def reduce(e: Emit, op: ops.Reduce) -> None:
    """Combine runs of elements from left to right."""
    each = len(op.src) // len(op.dst)
    results = []
    for i in range(len(op.dst)):
        total = widened(e, e.words.get(op.src, i * each), op.src.dtype)
        for k in range(1, each):
            value = widened(e, e.words.get(op.src, i * each + k), op.src.dtype)
            total = _combined(e, op, total, value)
        results.append(narrowed(e, total, op.dst.dtype))
    for i, value in enumerate(results):
        e.words.put(op.dst, i, value)


def _combined(e: Emit, op: ops.Reduce, a: Any, b: Any) -> Any:
    kind = op.src.dtype
    if not kind.is_float:
        return INTEGER[op.fn](e, kind.kind == "int", a, b)
    if _rounds_product(op.fn, kind):
        return widened(e, _product(e, *(narrowed(e, x, kind) for x in (a, b))), kind)
    total = rule_of(op.fn, kind)(e, a, b)
    return total if kind.bits >= 32 else widened(e, narrowed(e, total, kind), kind)


@emits(ops.Shuffle)
def shuffle(e: Emit, op: ops.Shuffle) -> None:
    """Emit one shuffle per 32 bits."""
    flags = op.src.dtype.name == "b1"
    if flags:
        words = [e.b.zext(e.words.get(op.src, k), I32) for k in range(len(op.src))]
    else:
        words = e.words.get_words(op.src, 0, len(op.src))
    clamp = ((32 - op.width) << 8) | (0 if op.kind == "up" else 31)
    lane = e.scalars.narrow(op.lane)
    moved = []
    for word in words:
        moved += e.emit("shfl", word, lane, kind=op.kind, clamp=clamp)
    if flags:
        for k, word in enumerate(moved):
            e.words.put(op.dst, k, word)
    else:
        e.words.put_words(op.dst, 0, len(op.dst), moved)


@emits(ops.Vote)
def vote(e: Emit, op: ops.Vote) -> None:
    """Emit one vote over the lanes of the warp."""
    flag = e.b.zext(e.words.get(op.src, 0), I32)
    if op.kind == "ballot":
        (found,) = e.emit("vote.ballot", flag)
    else:
        (found,) = e.emit("vote", flag, kind=op.kind)
    e.words.put(op.dst, 0, found)


@emits(ops.Redux)
def redux(e: Emit, op: ops.Redux) -> None:
    """Emit one redux per element; bitwise ones are unsigned."""
    kind = op.src.dtype.ptx if op.fn in ("add", "min", "max") else "b32"
    values = [e.words.get(op.src, k) for k in range(len(op.src))]
    found = [e.emit("redux.sync", value, op=f"{op.fn}.{kind}")[0] for value in values]
    for k, value in enumerate(found):
        e.words.put(op.dst, k, value)


# -- PTX of the kernel's author


@emits(ops.InlinePtx)
def inline_ptx(e: Emit, op: ops.InlinePtx) -> None:
    """Emit the text once for each element."""
    text, kinds = as_llvm(op.text), [element_type(x.dtype) for x in op.outputs]
    results = []
    for k in range(len(op.outputs[0])):
        given = [e.words.get(x, k if len(x) > 1 else 0) for x in op.inputs]
        results.append(e.own_text(text, kinds, given))
    for k, values in enumerate(results):
        for dst, value in zip(op.outputs, values, strict=True):
            e.words.put(dst, k, value)
