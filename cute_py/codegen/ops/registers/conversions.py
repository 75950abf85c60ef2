"""`Convert`: between any two types, each element rounded once, by one instruction or several.

If no instruction rounds in one step, the value is first rounded to odd in a wider type: an inexact
value gets an odd last bit, so that the second rounding is correct. Source: S. Boldo and G.
Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from cute_py.codegen.emit import emits
from cute_py.codegen.instructions import TABLE
from cute_py.codegen.storage import F32, F64, I1, I16, I32, I64, element_type
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit
    from cute_py.dtypes.table import Dtype

_KEPT = {"bf16": 16, "tf32": 19}  # the number of upper bits of an f32 that these types keep
_NAN = {"bf16": 0x7FFF, "tf32": 0x7FFFFFFF}


@emits(ops.Convert)
def convert(e: Emit, op: ops.Convert) -> None:
    """Convert element by element."""
    values = [e.words.get(op.src, k) for k in range(len(op.src))]
    for k, value in enumerate(values):
        e.words.put(op.dst, k, _converted(e, value, op))


def _converted(e: Emit, value: Any, op: ops.Convert) -> Any:
    src, dst = op.src.dtype, op.dst.dtype
    if src.is_float:
        wide = widened(e, value, src)
        return _from_float(e, wide, dst, op) if dst.is_float else _to_int(e, wide, op)
    if not dst.is_float:
        return _int_to_int(e, value, op)
    return _from_int(e, value, op)


# -- between storage and arithmetic


def widened(e: Emit, value: Any, dtype: Dtype) -> Any:
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


def narrowed(e: Emit, value: Any, dtype: Dtype) -> Any:
    """Return an f32 as an element of a narrower float type, rounded to nearest even."""
    if not dtype.is_float or value.type != F32 or dtype.bits >= 32:
        return value
    return rounded(e, value, dtype)


def fused(e: Emit, dtype: Dtype, a: Any, b: Any, c: Any) -> Any:
    """Return a*b + c of three floats narrower than 32 bits, rounded once: f32 would round twice.
    For 8-bit floats it is exact in f64.
    """
    if dtype.bits == 8:
        wide = [e.b.fpext(widened(e, x, dtype), F64) for x in (a, b, c)]
        return rounded(e, e.b.fma(*wide), dtype)
    if dtype.name == "bf16":
        return e.emit("fma.bf16", a, b, c)[0]
    return e.emit("fma", a, b, c, type=dtype.name)[0]


# -- to floats


def rounded(e: Emit, wide: Any, dst: Dtype, rounding: str = "rn") -> Any:
    """Return an f32 or f64 as an element of a float type, overflow as infinity (e4m3: NaN)."""
    if dst.name == "f64":
        return wide if wide.type == F64 else e.b.fpext(wide, F64)
    if dst.name == "tf32" and rounding == "rna":
        single = _odd_single(e, wide)
        return e.b.bitcast(e.emit("cvt.rna.tf32.f32", single)[0], F32)
    if dst.name == "f32":
        return wide if wide.type == F32 else e.emit("cvt.f32.f64", wide, rounding=rounding)[0]
    if dst.name == "f16":
        return e.emit("cvt.f16", wide, rounding=rounding, src=_float(wide))[0]
    single = _odd_single(e, wide)
    if dst.name == "bf16" and rounding in TABLE["cvt.bf16.f32"].allowed("rounding"):
        return e.emit("cvt.bf16.f32", single, rounding=rounding)[0]
    if dst.name in _KEPT:
        return _upper(e, single, dst, rounding)
    if dst.name in ("e4m3", "e5m2"):
        return _byte(e, single, dst)
    raise e.unsupported(f"conversion to {dst}")


def _from_float(e: Emit, wide: Any, dst: Dtype, op: ops.Convert) -> Any:
    if op.saturate:
        if dst.name == "f64" and wide.type == F32:  # infinity: beyond the range of f32
            wide = e.b.fpext(wide, F64)
        wide = _bounded(e, wide, dst)
    return rounded(e, wide, dst, op.rounding)


def _bounded(e: Emit, wide: Any, dst: Dtype) -> Any:
    """Return a float clamped to the finite range of a type; NaN stays."""
    most = float(min(dst.max, float(np.finfo(np.float32).max)) if wide.type == F32 else dst.max)
    for sign, bound in ((">", most), ("<", -most)):
        constant = ir.Constant(wide.type, bound)
        wide = e.b.select(e.b.fcmp_ordered(sign, wide, constant), constant, wide)
    return wide


def _float(value: Any) -> str:
    return "f64" if value.type == F64 else "f32"


def _odd_single(e: Emit, wide: Any) -> Any:
    """Return an f64 as f32, rounded to odd; an f32 unchanged."""
    if wide.type == F32:
        return wide
    b = e.b
    single = e.emit("cvt.f32.f64", wide, rounding="rz")[0]
    inexact = b.fcmp_ordered("!=", b.fpext(single, F64), wide)
    return b.bitcast(b.or_(b.bitcast(single, I32), b.zext(inexact, I32)), F32)


def _upper(e: Emit, single: Any, dst: Dtype, rounding: str) -> Any:
    """Round an f32 to its upper bits: to bf16, or to tf32 with zeros below."""
    b, low = e.b, 32 - _KEPT[dst.name]
    rest, one = (1 << low) - 1, ir.Constant(I32, 1)
    bits = b.bitcast(single, I32)
    if rounding == "rn":
        odd = b.and_(b.lshr(bits, ir.Constant(I32, low)), one)
        more = b.add(odd, ir.Constant(I32, rest >> 1))
    else:
        sign = b.lshr(bits, ir.Constant(I32, 31))
        away = {"rz": ir.Constant(I32, 0), "rd": sign, "ru": b.xor(sign, one)}[rounding]
        more = b.mul(away, ir.Constant(I32, rest))
    infinite = b.icmp_unsigned(
        "==", b.and_(bits, ir.Constant(I32, 0x7FFFFFFF)), ir.Constant(I32, 0x7F800000)
    )
    moved = b.select(infinite, bits, b.add(bits, more))
    nan = b.fcmp_unordered("uno", single, single)
    if dst.name == "tf32":
        kept = b.and_(moved, ir.Constant(I32, ~rest & 0xFFFFFFFF))
        return b.bitcast(b.select(nan, ir.Constant(I32, _NAN["tf32"]), kept), F32)
    top = b.lshr(moved, ir.Constant(I32, low))
    return b.trunc(b.select(nan, ir.Constant(I32, _NAN["bf16"]), top), I16)


def _byte(e: Emit, single: Any, dst: Dtype) -> Any:
    """Return an f32 as e4m3 or e5m2. PTX can only saturate; here overflow becomes NaN or infinity.

    464 is halfway between 448 and the next step of e4m3, and rounds to the even 448; 61440 is
    halfway between 57344 and 65536 in e5m2, and rounds to the even 65536, which is infinity.
    """
    b, zero = e.b, ir.Constant(F32, 0.0)
    (pair,) = e.emit("cvt.satfinite.e4m3x2.f32", zero, single, type=dst.name)
    clamped = b.trunc(pair, ir.IntType(8))
    size = e.emit("abs", single, type="f32")[0]
    sign, limit, image = (">", 464.0, 0x7F) if dst.name == "e4m3" else (">=", 61440.0, 0x7C)
    beyond = b.fcmp_ordered(sign, size, ir.Constant(F32, limit))
    signed = b.and_(clamped, ir.Constant(ir.IntType(8), 0x80))
    return b.select(beyond, b.or_(signed, ir.Constant(ir.IntType(8), image)), clamped)


# -- integers to floats


def _from_int(e: Emit, value: Any, op: ops.Convert) -> Any:
    src, dst = op.src.dtype, op.dst.dtype
    signed, b = src.kind == "int", e.b
    if src.bits <= 16:
        exact = (b.sitofp if signed else b.uitofp)(value, F32)
        return _from_float(e, exact, dst, op)
    name = f"{'s' if signed else 'u'}{src.bits}"
    if dst.name in ("f32", "f64") and op.rounding != "rna":
        return e.emit("cvt.float.int", value, rounding=op.rounding, dst=dst.name, src=name)[0]
    (double,) = e.emit("cvt.float.int", value, rounding="rz", dst="f64", src=name)
    if src.bits == 64:
        double = _odd_double(e, double, value, name)
    return _from_float(e, double, dst, op)


def _odd_double(e: Emit, double: Any, value: Any, name: str) -> Any:
    """Return the f64 that was truncated from a 64-bit integer, rounded to odd."""
    b = e.b
    (back,) = e.emit("cvt.int.float", double, rounding="rz", dst=name, src="f64")
    inexact = b.zext(b.icmp_unsigned("!=", back, value), I64)
    return b.bitcast(b.or_(b.bitcast(double, I64), inexact), F64)


# -- to integers


def _to_int(e: Emit, wide: Any, op: ops.Convert) -> Any:
    """Round to an integer and clamp, as cvt does; NaN converts as in a cvt of that width."""
    dst, b = op.dst.dtype, e.b
    if dst.name == "b1":
        return b.fcmp_unordered("!=", wide, ir.Constant(wide.type, 0.0))
    name = f"{'s' if dst.kind == 'int' else 'u'}{dst.bits}"
    source = _float(wide)
    (value,) = e.emit("cvt.int.float", wide, rounding=op.rounding, dst=name, src=source)
    return b.trunc(value, element_type(dst)) if dst.bits < 32 else value


def _int_to_int(e: Emit, value: Any, op: ops.Convert) -> Any:
    src, dst, b = op.src.dtype, op.dst.dtype, e.b
    signed, kind, target = src.kind == "int", value.type, element_type(op.dst.dtype)
    if target == I1:
        return b.icmp_unsigned("!=", value, ir.Constant(kind, 0))
    if op.saturate and kind != I1:
        compare = b.icmp_signed if signed else b.icmp_unsigned
        low, high = ir.Constant(kind, int(dst.min)), ir.Constant(kind, int(dst.max))
        if signed and dst.min > src.min:
            value = b.select(compare("<", value, low), low, value)
        if dst.max < src.max:
            value = b.select(compare(">", value, high), high, value)
    if target.width > kind.width:
        return (b.sext if signed else b.zext)(value, target)
    return b.trunc(value, target) if target.width < kind.width else value
