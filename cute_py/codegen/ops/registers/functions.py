"""Functions of registers, for floats and integers: one instruction each, or a few.

erf of f32 is odd, and has two parts, with a = abs(x). Below `CUT` it is x + x*P(x*x), the form of
s_erff.c (fdlibm, Sun Microsystems 1993). Above, it is 1 - 2**Q(a), since the logarithm of erfc is
nearly a parabola. P and Q are minimax fits, made for this file. With ex2.approx (2 ulp) the result
is within 2 ulp; tests/compile_only/test_functions.py checks it.

gelu of f32 is max(x, 0) - a*Phi(-a), with Phi the normal distribution and Phi(-a) = 2**TAIL(a) for
the same reason. It has no branches, and nothing cancels where x is negative. It is within
3 * 2**-24 of abs(x).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from cute_py.codegen import instructions
from cute_py.codegen.instructions import TABLE, polynomial
from cute_py.codegen.storage import F32, F64, I1, I32

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.codegen.emit import Emit
    from cute_py.dtypes.table import Dtype

CUT = 0.921875
FAR = 4.0  # above this, erf is 1 in f32
P = (  # erf(x)/x - 1 by powers of x*x, error 4.1e-10
    0.12837916612625122,
    -0.37612634897232056,
    0.11283701658248901,
    -0.026859702542424202,
    0.0052017164416611195,
    -0.0008149808272719383,
    8.397804049309343e-05,
)
Q = (  # log2(erfc(a)) by powers of a, error of erfc 6e-11
    0.0002544370654504746,
    -1.629557490348816,
    -0.9137019515037537,
    -0.15624259412288666,
    0.03625774011015892,
    -0.006024553440511227,
    0.0006282618851400912,
    -3.0562416213797405e-05,
)
TAIL = (  # log2(Phi(-a)) by powers of a, error of Phi 3e-8, and 1e-4 of itself up to 5; it falls on
    -1.0,
    -1.1511075496673584,
    -0.4591801166534424,
    -0.0526021383702755,
    0.007243357598781586,
    -0.00029245042242109776,
    -0.00011573476513149217,
    2.3576736566610634e-05,
    -1.4612479617426288e-06,
)
SURE = 16.0  # above this, gelu is x


def _one(name: str) -> Callable[..., Any]:
    """Return a rule that emits one instruction, by the name of its row."""
    typed = TABLE[name].allowed("type")

    def rule(e: Emit, *values: Any) -> Any:
        kind = "f64" if values[0].type == F64 else "f32"
        if kind == "f64" and not typed:
            raise e.unsupported(f"{name} of f64")
        modes: dict[str, Any] = {"type": kind} if typed else {}
        return e.emit(name, *values, **modes)[0]

    return rule


def erf(e: Emit, x: Any) -> Any:
    """Emit erf of f32, within 2 ulp; NaN and signed zeros stay, infinities give 1 and -1."""
    b = e.b
    (a,) = e.emit("abs", x, type="f32")
    (square,) = e.emit("mul", x, x, type="f32")
    near = _fma(e, _horner(e, square, P), x, x)
    clamped = b.select(b.fcmp_ordered(">", a, _number(FAR)), _number(FAR), a)  # keeps NaN
    (power,) = e.emit("ex2.approx", _horner(e, clamped, Q))
    (far,) = e.emit("sub", _number(1.0), power, type="f32")
    return b.select(b.fcmp_ordered("<", a, _number(CUT)), near, _signed(e, far, x))


def gelu(e: Emit, x: Any) -> Any:
    """Emit gelu of f32; NaN stays, infinity is itself, and its negative gives NaN, as a product."""
    return e.emit(instructions.gelu(TAIL, SURE, e.has("min.nan")), x)[0]


def _horner(e: Emit, x: Any, coefficients: tuple[float, ...]) -> Any:
    return e.emit(polynomial(coefficients), x)[0]


def _fma(e: Emit, a: Any, b: Any, c: Any) -> Any:
    return e.emit("fma", a, b, c, type="f32")[0]


def _number(value: float) -> Any:
    return ir.Constant(F32, value)


def _signed(e: Emit, x: Any, sign: Any) -> Any:
    """Return a positive x with the sign of another number."""
    b = e.b
    bit = b.and_(b.bitcast(sign, I32), ir.Constant(I32, 1 << 31))
    return b.bitcast(b.or_(b.bitcast(x, I32), bit), F32)


# -- f64


def _libdevice(name: str) -> Callable[..., Any]:
    """Return a rule that calls a function of libdevice, which NVVM links."""

    def rule(e: Emit, x: Any) -> Any:
        module = e.b.module
        function = module.globals.get(f"__nv_{name}")
        if function is None:
            function = ir.Function(module, ir.FunctionType(F64, [F64]), f"__nv_{name}")
        return e.b.call(function, [x])

    return rule


def _rsqrt(e: Emit, x: Any) -> Any:
    return _one("rcp")(e, _one("sqrt")(e, x))


def _wide_gelu(e: Emit, x: Any) -> Any:
    product, total = _one("mul"), _one("add")
    half = product(e, x, ir.Constant(F64, 0.5))
    found = _libdevice("erf")(e, product(e, x, ir.Constant(F64, 0.7071067811865476)))
    return product(e, half, total(e, found, ir.Constant(F64, 1.0)))


# libdevice functions are within 2 ulp. Source: CUDA Programming Guide, "Mathematical Functions",
# double precision. sin and cos use 40 bytes of local memory, for large arguments.
WIDE: dict[str, Callable[..., Any]] = {
    "rcp": _one("rcp"),
    "rsqrt": _rsqrt,  # both steps rounded, as on the emulator
    "gelu": _wide_gelu,
    **{
        name: _libdevice(name)
        for name in ("exp2", "exp", "log2", "log", "tanh", "sin", "cos", "erf")
    },
}


# -- floats


def _scaled(name: str, factor: float, after: bool = False) -> Callable[..., Any]:
    """Return a rule for exp or log in base 2, scaled before or after the instruction."""
    single = float(np.float32(factor))

    def rule(e: Emit, x: Any) -> Any:
        if x.type != F32:
            raise e.unsupported(f"{name} of f64")
        constant = ir.Constant(F32, single)
        if after:
            return e.b.fmul(_one(name)(e, x), constant)
        return _one(name)(e, e.b.fmul(x, constant))

    return rule


def _compare(sign: str) -> Callable[..., Any]:
    def rule(e: Emit, a: Any, b: Any) -> Any:
        compare = e.b.fcmp_unordered if sign == "!=" else e.b.fcmp_ordered
        return compare(sign, a, b)

    return rule


def _or_nan(fn: str) -> Callable[..., Any]:
    """Return the rule of a minimum or maximum that is NaN where an operand is."""

    def rule(e: Emit, a: Any, b: Any) -> Any:
        if a.type == F32 and e.has("min.nan"):
            return e.emit("min.nan", a, b, fn=fn)[0]
        nan = ir.Constant(a.type, float("nan"))
        number = _one(fn)(e, a, b)
        return e.b.select(e.b.fcmp_unordered("uno", a, b), nan, number)

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
    **{f"{fn}_nan": _or_nan(fn) for fn in ("min", "max")},
    **{name: _one(f"{name}.approx") for name in ("rsqrt", "rcp", "tanh", "sin", "cos")},
    "exp2": _one("ex2.approx"),
    "exp": _scaled("ex2.approx", _LOG2E),
    "log2": _one("lg2.approx"),
    "log": _scaled("lg2.approx", _LN2, after=True),
    "erf": erf,
    "gelu": gelu,
    **{name: _compare(sign) for name, sign in _SIGNS.items()},
}


def rule_of(fn: str, kind: Dtype) -> Callable[..., Any]:
    """Return the rule of a function of floats."""
    return WIDE[fn] if kind.bits == 64 and fn in WIDE else _FLOAT[fn]


# -- shifts


def shifted(e: Emit, shift: Callable[..., Any], a: Any, b: Any) -> Any:
    """Emit a left shift or a logical right shift; a shift by the width or more gives 0."""
    fits = e.b.icmp_unsigned("<", b, ir.Constant(b.type, a.type.width))
    return e.b.select(fits, shift(a, b), ir.Constant(a.type, 0))


def sign_shifted(e: Emit, a: Any, b: Any) -> Any:
    """Emit an arithmetic right shift; a shift by the width or more gives 0 or -1."""
    most = ir.Constant(b.type, a.type.width - 1)
    return e.b.ashr(a, e.b.select(e.b.icmp_unsigned("<", b, most), b, most))


# -- integers


def _least(sign: str) -> Callable[..., Any]:
    def rule(e: Emit, signed: bool, a: Any, b: Any) -> Any:
        compare = e.b.icmp_signed if signed else e.b.icmp_unsigned
        return e.b.select(compare(sign, a, b), a, b)

    return rule


def _ordered(sign: str) -> Callable[..., Any]:
    def rule(e: Emit, signed: bool, a: Any, b: Any) -> Any:
        return (e.b.icmp_signed if signed else e.b.icmp_unsigned)(sign, a, b)

    return rule


def _divided(e: Emit, signed: bool, a: Any, b: Any) -> Any:
    """Return a // b, rounded down: 0 for a divisor of 0, -a (in its width) for -1.

    LLVM's divisions are undefined behaviour there. So they get a divisor of 1, and a select drops
    their result.
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


def _rest(e: Emit, signed: bool, a: Any, b: Any) -> Any:
    """Return a % b with the sign of b; 0 for a divisor of 0 or -1."""
    divisor = _safe(e, signed, b)
    return e.b.sub(a, e.b.mul(_floor(e, signed, a, divisor), divisor))


def _safe(e: Emit, signed: bool, b: Any) -> Any:
    """Return the divisor, or 1 in place of 0 and (signed) -1."""
    kind = b.type
    if isinstance(b, ir.Constant) and b.constant not in (0, _mask(kind) if signed else 0):
        return b
    one = ir.Constant(kind, 1)
    if not signed:
        return e.b.select(e.b.icmp_unsigned("<", b, one), one, b)
    return e.b.select(e.b.icmp_unsigned("<=", e.b.add(b, one), one), one, b)


def _mask(kind: Any) -> int:
    return int((1 << kind.width) - 1)


def _floor(e: Emit, signed: bool, a: Any, b: Any) -> Any:
    """Return a // b for a divisor that `_safe` gives."""
    if not signed:
        return e.b.udiv(a, b)
    quotient, rest = e.b.sdiv(a, b), e.b.srem(a, b)
    zero = ir.Constant(a.type, 0)
    differs = e.b.icmp_signed("<", e.b.xor(rest, b), zero)
    inexact = e.b.and_(e.b.icmp_signed("!=", rest, zero), differs)
    return e.b.sub(quotient, e.b.zext(inexact, a.type))


def _of_bits(emit: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule on 32 or 64 bits; `emit` gets the number of bits that a narrow type lacks."""

    def rule(e: Emit, _signed: bool, a: Any) -> Any:
        lacks = max(0, 32 - a.type.width)
        wide = e.b.zext(a, I32) if lacks else a
        found = emit(e, wide, ir.Constant(wide.type, lacks))
        return e.b.trunc(found, a.type) if lacks else found

    return rule


# -- fields of bits


def _byte_of(e: Emit, signed: bool, x: Any, kind: Any) -> Any:
    """Return the low 8 bits of an integer as one of another width."""
    if x.type.width < kind.width:
        x = (e.b.sext if signed else e.b.zext)(x, kind)
    x = e.b.trunc(x, kind) if x.type.width > kind.width else x
    return e.b.and_(x, ir.Constant(kind, 255))


def _fields(emit: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule on 32 or 64 bits: integers, and the position and length of a field."""

    def rule(e: Emit, signed: bool, *values: Any) -> Any:
        kind = values[0].type
        wide = I32 if kind.width < 32 else kind
        extend = e.b.sext if signed else e.b.zext
        given = [x if kind is wide else extend(x, wide) for x in values[:-2]]
        found = emit(e, signed, *given, *[_byte_of(e, signed, x, wide) for x in values[-2:]])
        return found if kind is wide else e.b.trunc(found, kind)

    return rule


def _extracted(e: Emit, signed: bool, x: Any, pos: Any, count: Any) -> Any:
    right = sign_shifted if signed else lambda e, a, b: shifted(e, e.b.lshr, a, b)
    width = ir.Constant(x.type, x.type.width)
    fits = e.b.icmp_unsigned("<", count, width)
    away = e.b.select(fits, e.b.sub(width, count), ir.Constant(x.type, 0))
    return right(e, shifted(e, e.b.shl, right(e, x, pos), away), away)


def _replaced(e: Emit, _signed: bool, x: Any, y: Any, pos: Any, count: Any) -> Any:
    ones = e.b.sub(shifted(e, e.b.shl, ir.Constant(x.type, 1), count), ir.Constant(x.type, 1))
    mask, moved = (shifted(e, e.b.shl, each, pos) for each in (ones, x))
    return e.b.or_(e.b.and_(y, e.b.not_(mask)), e.b.and_(moved, mask))


INTEGER: dict[str, Callable[..., Any]] = {
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
    "popc": _of_bits(lambda e, a, _beyond: e.b.ctpop(a)),
    "clz": _of_bits(lambda e, a, beyond: e.b.sub(e.b.ctlz(a, ir.Constant(I1, 0)), beyond)),
    "brev": _of_bits(lambda e, a, beyond: e.b.lshr(e.b.bitreverse(a), beyond)),
    "bfe": _fields(_extracted),
    "bfi": _fields(_replaced),
    "prmt": lambda e, _s, a, b, selector: e.emit("prmt", a, b, selector)[0],
    "lop3": lambda e, _s, a, b, c, table: e.emit("lop3", a, b, c, table=table.constant)[0],
}
