"""Functions of registers that are no single instruction: erf of f32, those of f64, shifts.

erf of f32 is odd, and has two parts, with a = abs(x). Below `CUT` it is x + x*P(x*x), the form of
s_erff.c (fdlibm, Sun Microsystems 1993). Above, it is 1 - 2**Q(a), since the logarithm of erfc is
nearly a parabola. P and Q are own fits of least greatest error. With ex2.approx (2 ulp) the result
is within 2 ulp; tests/compile_only/test_functions.py computes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.storage import F32, F64, I32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.codegen.emit import Emit

CUT = 0.921875
FAR = 4.0  # from here on erf is 1 in f32
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


def erf(e: Emit, x: Any) -> Any:  # noqa: ANN401
    """Emit erf of f32, within 2 ulp; NaN and signed zeros pass, infinities give 1 and -1."""
    b = e.b
    (a,) = e.emit("abs", x, type="f32")
    (square,) = e.emit("mul", x, x, type="f32")
    near = _fma(e, _horner(e, square, P), x, x)
    clamped = b.select(b.fcmp_ordered(">", a, _number(FAR)), _number(FAR), a)  # keeps NaN
    (power,) = e.emit("ex2.approx", _horner(e, clamped, Q))
    (far,) = e.emit("sub", _number(1.0), power, type="f32")
    return b.select(b.fcmp_ordered("<", a, _number(CUT)), near, _signed(e, far, x))


def _horner(e: Emit, x: Any, coefficients: Sequence[float]) -> Any:  # noqa: ANN401
    total = _number(coefficients[-1])
    for each in coefficients[-2::-1]:
        total = _fma(e, total, x, _number(each))
    return total


def _fma(e: Emit, a: Any, b: Any, c: Any) -> Any:  # noqa: ANN401
    return e.emit("fma", a, b, c, type="f32")[0]


def _number(value: float) -> Any:  # noqa: ANN401
    return ir.Constant(F32, value)


def _signed(e: Emit, x: Any, sign: Any) -> Any:  # noqa: ANN401
    """Return a positive x with the sign of another number."""
    b = e.b
    bit = b.and_(b.bitcast(sign, I32), ir.Constant(I32, 1 << 31))
    return b.bitcast(b.or_(b.bitcast(x, I32), bit), F32)


# -- f64


def _libdevice(name: str) -> Callable[..., Any]:
    """Return a rule that calls NVIDIA's library of mathematical functions, which NVVM links."""

    def rule(e: Emit, x: Any) -> Any:  # noqa: ANN401
        module = e.b.module
        function = module.globals.get(f"__nv_{name}")
        if function is None:
            function = ir.Function(module, ir.FunctionType(F64, [F64]), f"__nv_{name}")
        return e.b.call(function, [x])

    return rule


def _exact(name: str) -> Callable[..., Any]:
    def rule(e: Emit, x: Any) -> Any:  # noqa: ANN401
        return e.emit(name, x, type="f64")[0]

    return rule


def _rsqrt(e: Emit, x: Any) -> Any:  # noqa: ANN401
    root = _exact("sqrt")(e, x)
    return _exact("rcp")(e, root)


# Those of libdevice are within 2 ulp. Source: CUDA Programming Guide, "Mathematical Functions",
# double precision. sin and cos keep 40 bytes of local memory, for large arguments.
WIDE: dict[str, Callable[..., Any]] = {
    "rcp": _exact("rcp"),
    "rsqrt": _rsqrt,  # both steps rounded, as on the emulator
    "floor": _exact("floor"),
    "ceil": _exact("ceil"),
    **{
        name: _libdevice(name)
        for name in ("exp2", "exp", "log2", "log", "tanh", "sin", "cos", "erf")
    },
}


# -- shifts


def shifted(e: Emit, shift: Callable[..., Any], a: Any, b: Any) -> Any:  # noqa: ANN401
    """Emit a shift to the left or an unsigned one to the right; by the width or more it gives 0."""
    fits = e.b.icmp_unsigned("<", b, ir.Constant(b.type, a.type.width))
    return e.b.select(fits, shift(a, b), ir.Constant(a.type, 0))


def sign_shifted(e: Emit, a: Any, b: Any) -> Any:  # noqa: ANN401
    """Emit a signed shift to the right; by the width or more it gives 0 or -1."""
    most = ir.Constant(b.type, a.type.width - 1)
    return e.b.ashr(a, e.b.select(e.b.icmp_unsigned("<", b, most), b, most))
