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
from cute_py.codegen.ops.registers.packed import convert_groups
from cute_py.codegen.storage import F32, F64, I1, I16, I32, I64, element_type
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit
    from cute_py.dtypes.table import Dtype

ROUNDINGS = ("rn", "rz", "rd", "ru")  # those of cvt; it has rna for tf32 only
FP8 = ("e4m3", "e5m2")
INFINITE = 0x7F800000  # the image of infinity in f32


@emits(ops.Convert)
def convert(e: Emit, op: ops.Convert) -> None:
    """Convert all elements: several at once where there is a way, the others one by one."""
    groups = convert_groups(e, op)
    together = {k + i for k, (n, _words) in groups.items() for i in range(n)}
    alone = [k for k in range(len(op.src)) if k not in together]
    values = [e.words.get(op.src, k) for k in alone]
    for k, (n, words) in groups.items():
        e.words.put_words(op.dst, k, n, words)
    for k, value in zip(alone, values, strict=True):
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
    if dtype.name in FP8 and e.has("cvt.f16x2.e4m3x2"):
        pair = e.b.zext(value, I16)
        (both,) = e.emit("cvt.f16x2.e4m3x2", pair, type=dtype.name)
        return e.emit("cvt.f32.f16", e.b.trunc(both, I16))[0]
    return _decoded(e, e.b.zext(value, I32), dtype)


def _decoded(e: Emit, image: Any, dtype: Dtype) -> Any:
    """Return the f32 with the value of an image of at most 8 bits, without an instruction for it.

    The image at the upper end of an f32, read as an f32, is the value times a power of two; that
    holds for subnormal numbers too.
    """
    b, m = e.b, dtype.mantissa_bits
    size = b.and_(image, _word((1 << dtype.bits - 1) - 1))
    placed = b.shl(size, _word(23 - m))
    scaled = b.fmul(b.bitcast(placed, F32), ir.Constant(F32, 2.0 ** (127 - dtype.bias)))
    value = b.bitcast(scaled, I32)
    if dtype.special == "ieee":
        large = b.icmp_unsigned(">=", size, _word(dtype.inf_bits))
        value = b.select(large, b.or_(placed, _word(INFINITE)), value)
    elif dtype.special == "nan":
        is_nan = b.icmp_unsigned("==", size, _word(dtype.nan_bits))
        value = b.select(is_nan, _word(INFINITE | 0x7FFFFF), value)
    sign = b.shl(b.lshr(image, _word(dtype.bits - 1)), _word(31))
    return b.bitcast(b.or_(value, sign), F32)


def _word(value: int) -> Any:
    return ir.Constant(I32, value)


def narrowed(e: Emit, value: Any, dtype: Dtype) -> Any:
    """Return an f32 as an element of a narrower float type, rounded to nearest even."""
    if not dtype.is_float or value.type != F32 or dtype.bits >= 32:
        return value
    return rounded(e, value, dtype)


def fused(e: Emit, dtype: Dtype, a: Any, b: Any, c: Any) -> Any:
    """Return a*b + c of three floats narrower than 32 bits, rounded once: f32 would round twice.
    For floats of up to 8 bits it is exact in f64.
    """
    if dtype.bits <= 8:
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
    if dst.name == "f32":
        if wide.type == F32 or rounding == "rna":
            return wide if wide.type == F32 else _single_away(e, wide)
        return e.emit("cvt.f32.f64", wide, rounding=rounding)[0]
    if dst.name == "f16" and rounding in ROUNDINGS:
        return e.emit("cvt.f16", wide, rounding=rounding, src=_float(wide))[0]
    single = _odd_single(e, wide)
    if (dst.name, rounding) == ("tf32", "rna") and e.has("cvt.rna.tf32.f32"):
        return e.b.bitcast(e.emit("cvt.rna.tf32.f32", single)[0], F32)
    if dst.name == "bf16" and rounding in ("rn", "rz") and e.has("cvt.bf16.f32"):
        return e.emit("cvt.bf16.f32", single, rounding=rounding)[0]
    if dst.name in FP8 and rounding == "rn" and e.has("cvt.satfinite.e4m3x2.f32"):
        return _byte(e, single, dst)
    return _encoded(e, single, dst, rounding)


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


def _single_away(e: Emit, wide: Any) -> Any:
    """Return an f64 as f32, ties away from zero: as to nearest, but for ties that went inward."""
    b = e.b
    near = e.emit("cvt.f32.f64", wide, rounding="rn")[0]
    beyond = b.bitcast(b.add(b.bitcast(near, I32), _word(1)), F32)
    below, above = (b.fpext(x, F64) for x in (near, beyond))
    rest = b.fsub(wide, below)
    tie = b.fcmp_ordered("==", b.fsub(above, wide), rest)
    inexact = b.fcmp_ordered("!=", rest, ir.Constant(F64, 0.0))
    return b.select(b.and_(tie, inexact), beyond, near)


def _encoded(e: Emit, single: Any, dst: Dtype, rounding: str) -> Any:
    """Round an f32 to a float type with at most 10 bits of fraction, without an instruction for it.

    The magnitude is an integer in units of the last bit of the f32; what is shifted out of it
    decides about rounding up, and a carry out of the fraction increments the exponent.
    """
    b, m = e.b, dst.mantissa_bits
    bits = b.bitcast(single, I32)
    size, negative = b.and_(bits, _word(0x7FFFFFFF)), b.icmp_signed("<", bits, _word(0))
    units, shift = _units(e, size, dst)
    kept = b.lshr(units, shift)
    rest = b.sub(units, b.shl(kept, shift))
    image = b.add(kept, b.zext(_up(e, kept, rest, shift, negative, rounding), I32))
    infinite = b.icmp_unsigned("==", size, _word(INFINITE))
    stops = {"rz": ir.Constant(I1, 1), "rd": b.not_(negative), "ru": negative}.get(rounding)
    limit = _word(dst.inf_bits)
    if stops is not None:
        stops = b.and_(stops, b.not_(infinite))
        limit = b.select(stops, _word(dst.max_bits), limit)
    image = b.select(b.icmp_unsigned(">", image, _word(dst.max_bits)), limit, image)
    is_nan = b.icmp_unsigned(">", size, _word(INFINITE))
    image = b.select(is_nan, _word(dst.nan_bits), image)
    sign = b.and_(negative, b.not_(is_nan)) if dst.special == "finite" else negative
    image = b.or_(image, b.shl(b.zext(sign, I32), _word(m + dst.exponent_bits)))
    if dst.name == "tf32":
        return b.bitcast(b.shl(image, _word(13)), F32)
    return b.trunc(image, element_type(dst))


def _units(e: Emit, size: Any, dst: Dtype) -> tuple[Any, Any]:
    """Return the magnitude of an f32 with the exponent of another type, and the number of bits to
    shift out of it: more of a number that is subnormal there.
    """
    b, m = e.b, dst.mantissa_bits
    units, shift = size, _word(23 - m)
    if dst.exponent_bits == 8:
        return units, shift
    least = 128 - dst.bias  # the exponent in f32 of the least normal number
    field = b.lshr(size, _word(23))
    subnormal = b.icmp_unsigned("<", field, _word(least))
    whole = b.zext(b.icmp_unsigned("!=", field, _word(0)), I32)  # its implicit bit
    significand = b.or_(b.and_(size, _word(0x7FFFFF)), b.shl(whole, _word(23)))
    most = _word(31)
    far = b.sub(_word(least + 23 - m), field)
    far = b.select(b.icmp_unsigned("<", far, most), far, most)
    moved = b.sub(size, _word(least - 1 << 23))
    return b.select(subnormal, significand, moved), b.select(subnormal, far, shift)


def _up(e: Emit, kept: Any, rest: Any, shift: Any, negative: Any, rounding: str) -> Any:
    """Return whether a magnitude is rounded up, from the bits that are kept and the rest."""
    b = e.b
    half = b.shl(_word(1), b.sub(shift, _word(1)))
    if rounding == "rn":
        return b.icmp_unsigned(">", b.add(rest, b.and_(kept, _word(1))), half)
    if rounding == "rna":
        return b.icmp_unsigned(">=", rest, half)
    if rounding == "rz":
        return ir.Constant(I1, 0)
    outward = negative if rounding == "rd" else b.not_(negative)
    return b.and_(outward, b.icmp_unsigned("!=", rest, _word(0)))


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
    if dst.name in ("f32", "f64") and op.rounding in ROUNDINGS:
        return e.emit("cvt.float.int", value, rounding=op.rounding, dst=dst.name, src=name)[0]
    if src.bits == 64 and dst.name == "f64":
        return _double_away(e, value, name)
    (double,) = e.emit("cvt.float.int", value, rounding="rz", dst="f64", src=name)
    if src.bits == 64:
        double = _odd_double(e, double, value, name)
    return _from_float(e, double, dst, op)


def _double_away(e: Emit, value: Any, name: str) -> Any:
    """Return a 64-bit integer as f64, ties away from zero."""
    b = e.b

    def whole(double: Any) -> Any:
        return e.emit("cvt.int.float", double, rounding="rz", dst=name, src="f64")[0]

    (near,) = e.emit("cvt.float.int", value, rounding="rn", dst="f64", src=name)
    beyond = b.bitcast(b.add(b.bitcast(near, I64), ir.Constant(I64, 1)), F64)
    rest = b.sub(value, whole(near))
    tie = b.icmp_unsigned("==", b.sub(whole(beyond), value), rest)
    inexact = b.icmp_unsigned("!=", rest, ir.Constant(I64, 0))
    return b.select(b.and_(tie, inexact), beyond, near)


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
    rounding, source = op.rounding, _float(wide)
    if rounding == "rna":
        rounding, wide = "rz", _whole_away(e, wide)
    name = f"{'s' if dst.kind == 'int' else 'u'}{max(dst.bits, 8)}"
    (value,) = e.emit("cvt.int.float", wide, rounding=rounding, dst=name, src=source)
    if dst.bits < 8:
        value = _clamped(e, value, wide, dst)
    return b.trunc(value, element_type(dst)) if dst.bits < 32 else value


def _whole_away(e: Emit, x: Any) -> Any:
    """Return a float rounded to an integer, ties away from zero."""
    b, kind = e.b, _float(x)
    (size,) = e.emit("abs", x, type=kind)
    (low,) = e.emit("floor", size, type=kind)
    up = b.fcmp_ordered(">=", b.fsub(size, low), ir.Constant(x.type, 0.5))
    found = b.select(up, b.fadd(low, ir.Constant(x.type, 1.0)), low)
    return b.select(
        b.fcmp_ordered("<", x, ir.Constant(x.type, 0.0)),
        b.fsub(ir.Constant(x.type, -0.0), found),
        found,
    )


def _clamped(e: Emit, value: Any, wide: Any, dst: Dtype) -> Any:
    """Return the result of a conversion to 8 bits clamped to fewer; NaN of f64 is the top bit."""
    b, compare = e.b, e.b.icmp_signed if dst.kind == "int" else e.b.icmp_unsigned
    for sign, bound in ((">", dst.max), ("<", dst.min)):
        constant = ir.Constant(value.type, int(bound))
        value = b.select(compare(sign, value, constant), constant, value)
    nan = ir.Constant(value.type, 1 << dst.bits - 1 if wide.type == F64 else 0)
    return b.select(b.fcmp_unordered("uno", wide, wide), nan, value)


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
