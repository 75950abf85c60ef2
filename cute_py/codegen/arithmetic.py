"""Register ops: Fill, Map, Convert, Reduce, Shuffle, Vote.

Floats narrower than 32 bits are computed in f32 and rounded to nearest even after each op, as the
emulator does; no two ops are contracted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.conversions import convert, rounded
from cute_py.codegen.functions import WIDE, erf, shifted, sign_shifted
from cute_py.codegen.instructions import TABLE
from cute_py.codegen.storage import F32, F64, I1, I16, I32, I64, element_type
from cute_py.plan import ops
from cute_py.plan.conditions import Reg

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.codegen.emit import Emit
    from cute_py.dtypes.table import Dtype


# -- between storage and arithmetic


def widened(e: Emit, value: Any, dtype: Dtype) -> Any:  # noqa: ANN401
    """Return an element in the type that it is computed in: f32 for narrower floats."""
    if not dtype.is_float or dtype.bits >= 32:
        return value
    if dtype.name == "bf16":
        return e.b.bitcast(e.b.shl(e.b.zext(value, I32), ir.Constant(I32, 16)), F32)
    if dtype.name == "f16":
        return e.emit("cvt.f32.f16", value)[0]
    if dtype.name in ("e4m3", "e5m2"):
        pair = e.b.zext(value, I16)
        (both,) = e.emit("cvt.f16x2.e4m3x2", pair, type=dtype.name)
        return e.emit("cvt.f32.f16", e.b.trunc(both, I16))[0]
    raise e.unsupported(f"arithmetic on {dtype}")


def narrowed(e: Emit, value: Any, dtype: Dtype) -> Any:  # noqa: ANN401
    """Return an f32 as an element of a narrower float type, rounded to nearest even."""
    if not dtype.is_float or value.type != F32 or dtype.bits >= 32:
        return value
    return rounded(e, value, dtype)


def fused(e: Emit, dtype: Dtype, a: Any, b: Any, c: Any) -> Any:  # noqa: ANN401
    """Return a*b + c of three floats below 32 bits, rounded once: in f32 it would be rounded twice.
    Of floats of 8 bits it is exact in f64.
    """
    if dtype.bits == 8:
        wide = [e.b.fpext(widened(e, x, dtype), F64) for x in (a, b, c)]
        return rounded(e, e.b.fma(*wide), dtype)
    if dtype.name == "bf16":
        return e.emit("fma.bf16", a, b, c)[0]
    return e.emit("fma", a, b, c, type=dtype.name)[0]


# -- Fill and Map


def fill(e: Emit, op: ops.Fill) -> None:
    """Set all elements to a number; undefined ones stay what they are."""
    if op.value is None:
        return
    value = e.constant(op.value, op.dst.dtype)
    for k in range(len(op.dst)):
        e.words.put(op.dst, k, value)


def map_(e: Emit, op: ops.Map) -> None:
    """Compute element by element; all sources are read before anything is written."""
    results = []
    for k in range(len(op.dst)):
        values = [_source(e, x, k, op) for x in op.sources]
        results.append(_applied(e, op, values))
    for k, value in enumerate(results):
        e.words.put(op.dst, k, value)


def _as_it_is(op: ops.Map) -> bool:
    """Tell whether elements are taken in their own type: moved, or given to an instruction."""
    return op.fn in ("copy", "where") or (
        op.fn == "fma" and op.dtype.is_float and op.dtype.bits < 32
    )


def _source(e: Emit, x: Any, k: int, op: ops.Map) -> Any:  # noqa: ANN401
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


def _integer(e: Emit, value: Any, kind: Any) -> Any:  # noqa: ANN401
    """Return an integer of the plan as an element; a flag is whether it is not 0."""
    if kind == I1:
        return e.b.icmp_unsigned("!=", value, ir.Constant(I64, 0))
    return value if kind == I64 else e.b.trunc(value, kind)


def _applied(e: Emit, op: ops.Map, values: list[Any]) -> Any:  # noqa: ANN401
    if op.fn == "copy":
        return values[0]
    if op.fn == "where":
        return e.b.select(*values)
    if _as_it_is(op):
        return fused(e, op.dtype, *values)
    if op.dtype.is_float:
        result = _float_rule(op.fn, op.dtype)(e, *values)
    else:
        result = _INTEGER[op.fn](e, op.dtype.kind == "int", *values)
    return result if result.type == I1 else narrowed(e, result, op.dtype)


def _float_rule(fn: str, kind: Dtype) -> Callable[..., Any]:
    """Return the rule of a function of floats."""
    return WIDE[fn] if kind.bits == 64 and fn in WIDE else _FLOAT[fn]


def _one(name: str) -> Callable[..., Any]:
    """Return a rule that is one instruction, by the name of its row."""
    typed = TABLE[name].allowed("type")

    def rule(e: Emit, *values: Any) -> Any:  # noqa: ANN401
        kind = "f64" if values[0].type == F64 else "f32"
        if kind == "f64" and not typed:
            raise e.unsupported(f"{name} of f64")
        modes: dict[str, Any] = {"type": kind} if typed else {}
        return e.emit(name, *values, **modes)[0]

    return rule


def _scaled(name: str, factor: float, after: bool = False) -> Callable[..., Any]:
    """Return a rule for exp and log by base 2: the factor goes before or after the instruction."""
    import numpy as np

    single = float(np.float32(factor))

    def rule(e: Emit, x: Any) -> Any:  # noqa: ANN401
        if x.type != F32:
            raise e.unsupported(f"{name} of f64")
        constant = ir.Constant(F32, single)
        if after:
            return e.b.fmul(_one(name)(e, x), constant)
        return _one(name)(e, e.b.fmul(x, constant))

    return rule


def _compare(sign: str) -> Callable[..., Any]:
    def rule(e: Emit, a: Any, b: Any) -> Any:  # noqa: ANN401
        compare = e.b.fcmp_unordered if sign == "!=" else e.b.fcmp_ordered
        return compare(sign, a, b)

    return rule


_LOG2E, _LN2 = 1.4426950408889634, 0.6931471805599453
_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}

_FLOAT: dict[str, Callable[..., Any]] = {
    "neg": lambda e, a: e.b.fsub(ir.Constant(a.type, -0.0), a),
    **{
        name: _one(name)
        for name in ("abs", "add", "sub", "mul", "div", "min", "max", "sqrt", "floor", "ceil")
    },
    "fma": lambda e, a, b, c: e.b.fma(a, b, c),
    **{name: _one(f"{name}.approx") for name in ("rsqrt", "rcp", "tanh", "sin", "cos")},
    "exp2": _one("ex2.approx"),
    "exp": _scaled("ex2.approx", _LOG2E),
    "log2": _one("lg2.approx"),
    "log": _scaled("lg2.approx", _LN2, after=True),
    "erf": erf,
    **{name: _compare(sign) for name, sign in _SIGNS.items()},
}


def _least(sign: str) -> Callable[..., Any]:
    def rule(e: Emit, signed: bool, a: Any, b: Any) -> Any:  # noqa: ANN401
        compare = e.b.icmp_signed if signed else e.b.icmp_unsigned
        return e.b.select(compare(sign, a, b), a, b)

    return rule


def _ordered(sign: str) -> Callable[..., Any]:
    def rule(e: Emit, signed: bool, a: Any, b: Any) -> Any:  # noqa: ANN401
        return (e.b.icmp_signed if signed else e.b.icmp_unsigned)(sign, a, b)

    return rule


def _divided(e: Emit, signed: bool, a: Any, b: Any) -> Any:  # noqa: ANN401
    """Return a // b, rounded down: 0 for a divisor of 0, -a (of its width) for -1.

    LLVM's divisions have no meaning there, and what has none changes other results. So they get a
    divisor of 1, and their result is not taken.
    """
    divisor, one = _safe(e, signed, b), ir.Constant(a.type, 1)
    quotient = _floor(e, signed, a, divisor)
    if divisor is b:
        return quotient
    if signed:
        less = e.b.icmp_signed("==", b, ir.Constant(b.type, -1))
        quotient = e.b.select(less, e.b.neg(a), quotient)
    zero = e.b.icmp_unsigned("<", b, one)
    return e.b.select(zero, ir.Constant(a.type, 0), quotient)


def _rest(e: Emit, signed: bool, a: Any, b: Any) -> Any:  # noqa: ANN401
    """Return a % b, with the sign of b: 0 for a divisor of 0 or -1."""
    divisor = _safe(e, signed, b)
    return e.b.sub(a, e.b.mul(_floor(e, signed, a, divisor), divisor))


def _safe(e: Emit, signed: bool, b: Any) -> Any:  # noqa: ANN401
    """Return a divisor, 1 in place of 0 and (signed) -1; a number that is neither as it is."""
    kind = b.type
    if isinstance(b, ir.Constant) and b.constant not in (0, _mask(kind) if signed else 0):
        return b
    one = ir.Constant(kind, 1)
    if not signed:
        return e.b.select(e.b.icmp_unsigned("<", b, one), one, b)
    return e.b.select(e.b.icmp_unsigned("<=", e.b.add(b, one), one), one, b)


def _mask(kind: Any) -> int:  # noqa: ANN401
    return int((1 << kind.width) - 1)


def _floor(e: Emit, signed: bool, a: Any, b: Any) -> Any:  # noqa: ANN401
    """Return a // b for a divisor that `_safe` gives."""
    if not signed:
        return e.b.udiv(a, b)
    quotient, rest = e.b.sdiv(a, b), e.b.srem(a, b)
    zero = ir.Constant(a.type, 0)
    differs = e.b.icmp_signed("<", e.b.xor(rest, b), zero)
    inexact = e.b.and_(e.b.icmp_signed("!=", rest, zero), differs)
    return e.b.sub(quotient, e.b.zext(inexact, a.type))


_INTEGER: dict[str, Callable[..., Any]] = {
    "neg": lambda e, _s, a: e.b.neg(a),
    "abs": lambda e, s, a: (
        e.b.select(e.b.icmp_signed("<", a, ir.Constant(a.type, 0)), e.b.neg(a), a) if s else a
    ),
    "not": lambda e, _s, a: e.b.not_(a),
    "add": lambda e, _s, a, b: e.b.add(a, b),
    "sub": lambda e, _s, a, b: e.b.sub(a, b),
    "mul": lambda e, _s, a, b: e.b.mul(a, b),
    "fma": lambda e, _s, a, b, c: e.b.add(e.b.mul(a, b), c),
    "floordiv": _divided,
    "mod": _rest,
    "min": _least("<"),
    "max": _least(">"),
    "and": lambda e, _s, a, b: e.b.and_(a, b),
    "or": lambda e, _s, a, b: e.b.or_(a, b),
    "xor": lambda e, _s, a, b: e.b.xor(a, b),
    "shl": lambda e, _s, a, b: shifted(e, e.b.shl, a, b),
    "shr": lambda e, s, a, b: sign_shifted(e, a, b) if s else shifted(e, e.b.lshr, a, b),
    **{name: _ordered(sign) for name, sign in _SIGNS.items()},
}


# -- Reduce, Shuffle, Vote


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


def _combined(e: Emit, op: ops.Reduce, a: Any, b: Any) -> Any:  # noqa: ANN401
    kind = op.src.dtype
    if not kind.is_float:
        return _INTEGER[op.fn](e, kind.kind == "int", a, b)
    total = _float_rule(op.fn, kind)(e, a, b)
    return total if kind.bits >= 32 else widened(e, narrowed(e, total, kind), kind)


def shuffle(e: Emit, op: ops.Shuffle) -> None:
    """One shuffle for each 32 bits."""
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


def vote(e: Emit, op: ops.Vote) -> None:
    """One vote over the lanes of the warp."""
    flag = e.b.zext(e.words.get(op.src, 0), I32)
    if op.kind == "ballot":
        (found,) = e.emit("vote.ballot", flag)
    else:
        (found,) = e.emit("vote", flag, kind=op.kind)
    e.words.put(op.dst, 0, found)


EMIT = {
    ops.Fill: fill,
    ops.Map: map_,
    ops.Convert: convert,
    ops.Reduce: reduce,
    ops.Shuffle: shuffle,
    ops.Vote: vote,
}
