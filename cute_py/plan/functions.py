"""One table of the element-wise functions of `Map` and the operations of `Reduce` and `Atomic`.

Each backend has one rule per name. A function computes in the dtype of its sources; comparisons and
logic return b1. A row with a text is public: `cute` and `cute.math` export it by its public name.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.dtypes.table import Dtype


@dataclass(frozen=True, slots=True)
class Function:
    """One function.

    Attributes:
        name: its name in plans.
        arity: the number of sources.
        model: the same function of Python numbers, exact for integers; its result is wrapped to
            the width of an integer type, or rounded to a floating-point type.
        domain: the types that it accepts: "any", "float", "int", or "word" (s32 and u32).
        sized: whether the model's last arguments are the width of the type (bits), and whether it
            is signed.
        fixed: whether the last source is a number known at trace time.
        compares: whether it returns b1.
        moves: whether it copies the bits of a source unchanged.
        approximate: whether GPUs use a special-function unit, within a documented error bound.
        text: its docstring in `cute.math`; "" for functions that only operators record.
        public: its public name, if not `name`.
        price: about how many instructions of f32 take a GPU as long; one of the special-function
            unit takes as long as 8, a division or root that is rounded as 16. Source: CUDA
            Programming Guide, "Throughput of native arithmetic instructions": 128, or 16 a clock.
        slopes: (f, y, *sources) -> the derivative of the result y by each source, as numbers or
            terms of a formula; `f` has the functions by name. None: 0 wherever there is one.
    """

    name: str
    arity: int
    model: Callable[..., Any]
    domain: str = "any"
    sized: bool = False
    fixed: bool = False
    compares: bool = False
    moves: bool = False
    approximate: bool = False
    text: str = ""
    public: str = ""
    price: int = 1
    slopes: Callable[..., tuple[Any, ...]] | None = None

    def takes(self, dtype: Dtype) -> bool:
        """Return whether it is of this type."""
        if self.domain == "word":
            return dtype.name in ("s32", "u32")
        return self.domain == "any" or (self.domain == "float") == dtype.is_float


def _greater(f: Any, _y: Any, a: Any, b: Any) -> tuple[Any, ...]:
    """Return the derivatives of a maximum: where a and b are equal, half of each."""
    half = f.where(f.eq(a, b), 0.5, 0.0)
    return f.where(f.gt(a, b), 1.0, half), f.where(f.gt(b, a), 1.0, half)


def _lesser(f: Any, y: Any, a: Any, b: Any) -> tuple[Any, ...]:
    return _greater(f, y, a, b)[::-1]


def _normal(f: Any, _y: Any, a: Any) -> tuple[Any, ...]:
    """Return the derivative of gelu: the normal distribution, and a times its density."""
    below = (f.erf(a * 0.5**0.5) + 1.0) * 0.5
    return (below + a * (f.exp(a * a * -0.5) * (2 * math.pi) ** -0.5),)


def _least(a: Any, b: Any) -> Any:
    return b if a != a else a if b != b else min(a, b)


def _greatest(a: Any, b: Any) -> Any:
    return b if a != a else a if b != b else max(a, b)


def _or_nan(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: a if a != a else b if b != b else choose(a, b)


def _field(a: int, pos: int, n: int, _bits: int, signed: bool) -> int:
    pos, n = pos & 255, n & 255
    found = a >> pos & (1 << n) - 1
    return found - (1 << n) if signed and n and found >> n - 1 else found


def _inserted(a: int, b: int, pos: int, n: int, _bits: int, _signed: bool) -> int:
    mask = (1 << (n & 255)) - 1 << (pos & 255)
    return b & ~mask | a << (pos & 255) & mask


def _permuted(a: int, b: int, selector: int) -> int:
    both, found = (b & 0xFFFFFFFF) << 32 | a & 0xFFFFFFFF, 0
    for i in range(4):
        chosen = selector >> 4 * i & 15
        byte = both >> 8 * (chosen & 7) & 255
        found |= (255 * (byte >> 7) if chosen & 8 else byte) << 8 * i
    return found


def _looked_up(a: int, b: int, c: int, table: int) -> int:
    found = 0
    for i in range(8):
        if table >> i & 1:
            found |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return found


_OPERATORS = (
    Function("max_nan", 2, _or_nan(max), "float", slopes=_greater),
    Function("min_nan", 2, _or_nan(min), "float", slopes=_lesser),
    Function("copy", 1, lambda a: a, moves=True, price=0, slopes=lambda f, y, a: (1.0,)),
    Function("neg", 1, operator.neg, slopes=lambda f, y, a: (-1.0,)),
    Function(
        "abs",
        1,
        abs,
        slopes=lambda f, y, a: (f.where(f.lt(a, 0.0), -1.0, f.where(f.eq(a, 0.0), 0.0, 1.0)),),
    ),
    Function("not", 1, operator.invert, "int"),
    Function("add", 2, operator.add, slopes=lambda f, y, a, b: (1.0, 1.0)),
    Function("sub", 2, operator.sub, slopes=lambda f, y, a, b: (1.0, -1.0)),
    Function("mul", 2, operator.mul, slopes=lambda f, y, a, b: (b, a)),
    Function(
        "div",
        2,
        operator.truediv,
        "float",
        price=16,
        slopes=lambda f, y, a, b: (f.rcp(b), -y * f.rcp(b)),
    ),
    Function("floordiv", 2, operator.floordiv, "int"),
    Function("mod", 2, operator.mod, "int"),
    Function("and", 2, operator.and_, "int"),
    Function("or", 2, operator.or_, "int"),
    Function("xor", 2, operator.xor, "int"),
    Function("shl", 2, operator.lshift, "int"),
    Function("shr", 2, operator.rshift, "int"),
    *[
        Function(test, 2, getattr(operator, test), compares=True)
        for test in ("lt", "le", "gt", "ge", "eq", "ne")
    ],
)

# The texts on GPUs apply to f32, and to f16 and bf16, which are computed in f32. In f64 sqrt, rsqrt
# and rcp are rounded as on the emulator, and the others are within 2 ulp.
_NAMED = (
    Function(
        "where", 3, lambda c, a, b: a if c else b, moves=True,
        text="Return a where the condition (b1 registers, or a condition of integers) is true, "
        "else b.",
    ),
    Function(
        "max", 2, _greatest, public="maximum",
        slopes=_greater,
        text="Return the greater of a and b; if one is NaN, the other (PTX max), or with "
        '`nan="propagate"` NaN (max.NaN).',
    ),
    Function(
        "min", 2, _least, public="minimum",
        slopes=_lesser,
        text="Return the lesser of a and b; if one is NaN, the other (PTX min), or with "
        '`nan="propagate"` NaN (min.NaN).',
    ),
    Function(
        "fma", 3, lambda a, b, c: a * b + c, slopes=lambda f, y, a, b, c: (b, a, 1.0),
        text="Return a*b + c, rounded once.",
    ),
    Function(
        "exp2", 1, lambda a: 2.0**a, "float", approximate=True,
        price=8, slopes=lambda f, y, a: (y * math.log(2),),
        text="Return 2**x; on a GPU ex2.approx, 2 ulp.",
    ),
    Function(
        "exp", 1, math.exp, "float", approximate=True,
        price=9, slopes=lambda f, y, a: (y,),
        text="Return e**x; on a GPU by ex2.approx of x*log2(e).",
    ),
    Function(
        "log2", 1, math.log2, "float", approximate=True,
        price=8, slopes=lambda f, y, a: (f.rcp(a) * math.log2(math.e),),
        text="Return the logarithm to base 2; on a GPU lg2.approx.",
    ),
    Function(
        "log", 1, math.log, "float", approximate=True,
        price=9, slopes=lambda f, y, a: (f.rcp(a),),
        text="Return the natural logarithm; on a GPU by lg2.approx.",
    ),
    Function(
        "sqrt", 1, math.sqrt, "float",
        price=16, slopes=lambda f, y, a: (f.rcp(y) * 0.5,),
        text="Return the square root, rounded to nearest."
    ),
    Function(
        "rsqrt", 1, lambda a: 1 / math.sqrt(a), "float", approximate=True,
        price=8, slopes=lambda f, y, a: (y * y * y * -0.5,),
        text="Return 1/sqrt(x); on a GPU rsqrt.approx.",
    ),
    Function(
        "rcp", 1, lambda a: 1 / a, "float", approximate=True,
        price=8, slopes=lambda f, y, a: (-(y * y),),
        text="Return 1/x; on a GPU rcp.approx.",
    ),
    Function(
        "tanh", 1, math.tanh, "float", approximate=True,
        price=8, slopes=lambda f, y, a: (1.0 - y * y,),
        text="Return the hyperbolic tangent; on a GPU tanh.approx, about 2**-11.",
    ),
    Function(
        "sin", 1, math.sin, "float", approximate=True,
        price=8, slopes=lambda f, y, a: (f.cos(a),),
        text="Return the sine; on a GPU sin.approx.",
    ),
    Function(
        "cos", 1, math.cos, "float", approximate=True,
        price=8, slopes=lambda f, y, a: (-f.sin(a),),
        text="Return the cosine; on a GPU cos.approx.",
    ),
    Function(
        "erf", 1, math.erf, "float", approximate=True,
        price=30, slopes=lambda f, y, a: (f.exp(-(a * a)) * (2 / math.pi**0.5),),
        text="Return the error function; on a GPU within 2 ulp.",
    ),
    Function(
        "gelu", 1, lambda a: a * math.erfc(-a * 0.5**0.5) / 2, "float", approximate=True,
        price=21, slopes=_normal,
        text="Return x times the normal distribution of x (GELU with erf); on a GPU within "
        "3 * 2**-24 of abs(x).",
    ),
    Function("floor", 1, math.floor, "float", text="Return the greatest integer up to x."),
    Function("ceil", 1, math.ceil, "float", text="Return the least integer from x on."),
    Function(
        "popc", 1, lambda a, bits, _: (a & (1 << bits) - 1).bit_count(), "int", sized=True,
        text="Return the number of one bits of an integer (PTX popc).",
    ),
    Function(
        "clz", 1, lambda a, bits, _: bits - (a & (1 << bits) - 1).bit_length(), "int", sized=True,
        text="Return the number of leading zero bits; for 0, the width of its type (PTX clz).",
    ),
    Function(
        "brev", 1, lambda a, bits, _: int(f"{a & (1 << bits) - 1:0{bits}b}"[::-1], 2), "int",
        sized=True, text="Return an integer with its bits in reverse order (PTX brev).",
    ),
    Function(
        "bfe", 3, _field, "int", sized=True,
        text="Return `len` bits of an integer from bit `pos` on, as PTX bfe: extended by zeros, or "
        "by the sign for a signed type; of `pos` and `len` the low 8 bits count.",
    ),
    Function(
        "bfi", 4, _inserted, "int", sized=True,
        text="Return y with its `len` bits from bit `pos` on replaced by the low bits of x, as PTX "
        "bfi; of `pos` and `len` the low 8 bits count.",
    ),
    Function(
        "prmt", 3, _permuted, "word",
        text="Return four bytes of the eight of b:a (s32 or u32), one for each hexadecimal digit "
        "of the selector, the lowest first; a digit above 7 repeats the byte's sign (PTX prmt).",
    ),
    Function(
        "lop3", 4, _looked_up, "word", fixed=True,
        text="Return any bitwise function of three words (s32 or u32): `table` is that function of "
        "0xF0, 0xCC and 0xAA, such as 0x80 for a & b & c (PTX lop3).",
    ),
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {f.name: f for f in (*_OPERATORS, *_NAMED)}
PUBLIC: dict[str, Function] = {f.public or f.name: f for f in _NAMED}  # by public name

REDUCTIONS = ("add", "mul", "min", "max", "and", "or", "xor")
WORDS = ("s32", "u32", "s64", "u64")  # the integers that instructions on memory compare
FLOATS = ("f32", "f64")  # the floating-point types that they compare
# the types of each atomic; PTX ISA, atom
# reductions by TMA. Source: PTX ISA, cp.reduce.async.bulk.tensor
TMA_REDUCTIONS: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f16", "bf16"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
}
ATOMICS: dict[str, tuple[str, ...]] = {
    "add": (*WORDS, "f32", "f64", "f16", "bf16"),
    "min": (*WORDS, "f32"),
    "max": (*WORDS, "f32"),
    "exch": (*WORDS, "f32", "tf32", "f64"),
    "cas": ("s16", "u16", "f16", "bf16", *WORDS, "f32", "tf32", "f64"),
    "and": WORDS,
    "or": WORDS,
    "xor": WORDS,
}


def integers_of(dtype: Dtype, fn: str = "copy", place: int = 0) -> tuple[int, int]:
    """Return the least and the greatest integer that an operand of a function may be: those of the
    type. All other counts of a shift shift all bits out, so that one may leave it, within its bits.

    >>> from cute_py.dtypes.table import u8
    >>> integers_of(u8), integers_of(u8, "shl", 1)
    ((0, 255), (-128, 255))
    """
    if fn in ("shl", "shr") and place == 1:
        return -1 << dtype.bits - 1, (1 << dtype.bits) - 1
    return int(dtype.min), int(dtype.max)
