"""The dtypes: one frozen row per element type, and the look-up by name or by NumPy dtype.

A row is the only place with a type's width, its NumPy, Numba, PTX and CUTLASS names and, for a
floating-point type, its fields and its special values. Sources: PTX ISA, "Fundamental Types" and
"Alternate Floating-Point Data Formats"; OCP OFP8 and Microscaling formats; cutlass numeric_types.h.
"""

from __future__ import annotations

from cute_py.errors import completions, refusal
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex, TypeAlias

    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    Array: TypeAlias = NDArray[Any]
    DtypeLike: TypeAlias = "Dtype | str | np.dtype[Any] | type[np.generic]"


class Promised(Value):
    """An integer type with promises of a kernel's argument: `n: cute.s32(min=1, multiple_of=8)`.

    Attributes:
        dtype: the type.
        min, max: the least and the greatest value, None for those of the type.
        multiple_of: a number that divides the value.
    """

    dtype: Dtype
    min: int | None
    max: int | None
    multiple_of: int
    __slots__ = tuple(__annotations__)
    __match_args__ = ("dtype", "min", "max", "multiple_of")

    def __init__(
        self, dtype: Dtype, min: int | None = None, max: int | None = None, multiple_of: int = 1
    ) -> None:
        """Freeze a promise; users call the dtype."""
        self.dtype, self.min, self.max, self.multiple_of = dtype, min, max, multiple_of

    def __str__(self) -> str:
        """Return the type with its promises."""
        words = [f"{name}={value}" for name, value in (("min", self.min), ("max", self.max))
                 if value is not None]  # fmt: skip
        words += [f"multiple_of={self.multiple_of}"] * (self.multiple_of != 1)
        return f"{self.dtype}({', '.join(words)})"

    def __repr__(self) -> str:
        return f"cute.{self}"

    def admits(self, value: int) -> bool:
        """Return whether a value keeps the promises."""
        low, high = self.bounds
        return low <= value <= high and value % self.multiple_of == 0

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value."""
        low, high = int(self.dtype.min), int(self.dtype.max)
        return (
            low if self.min is None else max(low, self.min),
            high if self.max is None else min(high, self.max),
        )


class Dtype(Value):
    """One element type. Equal dtypes are the same object, which `dtype(name)` returns.

    Attributes:
        name: short name, PTX's where PTX has one: `f16`, `e4m3`, `s4`.
        kind: "float", "int", "uint", "bool" or "void".
        bits: width of one element in packed storage (bits); 0 for void.
        exponent_bits: width of the exponent field (bits); 0 unless kind is "float".
        mantissa_bits: width of the stored fraction (bits); 0 unless kind is "float".
        special: the bit images that are not finite numbers: "ieee" (all-ones exponent: inf and
            NaN), "nan" (all ones: NaN, no inf), "finite" (none), "" unless kind is "float".
        numpy_name: the NumPy dtype for one value per element: "float16", "ml_dtypes.bfloat16".
            Sub-byte integers are stored in int8 or uint8, tf32 in float32 (low 13 bits zero), b1 in
            bool.
        numba_name: the Numba type that stores it in memory; "uint32" for sub-byte types, which are
            packed.
        ptx: the PTX type suffix without the dot; "" if there is none.
        cutlass_name: the C++ name.

    >>> f16, f16.bits, f16.max, f16.ptx
    (cute.f16, 16, 65504.0, 'f16')
    >>> e4m3.numpy, tf32.mantissa_bits, s4.min
    (dtype(float8_e4m3fn), 10, -8)
    """

    name: str
    kind: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    special: str
    numpy_name: str
    numba_name: str
    ptx: str
    cutlass_name: str
    __slots__ = tuple(__annotations__)

    def __init__(
        self,
        name: str,
        kind: str,
        bits: int,
        fields: tuple[int, int, str],  # exponent_bits, mantissa_bits, special
        names: tuple[str, str, str, str],  # NumPy, Numba, PTX, CUTLASS
    ) -> None:
        """Freeze one row of `DTYPES`; users call `dtype` or `int_type`."""
        self.name = name
        self.kind = kind
        self.bits = bits
        self.exponent_bits, self.mantissa_bits, self.special = fields
        self.numpy_name, self.numba_name, self.ptx, self.cutlass_name = names

    def __call__(
        self, *, min: int | None = None, max: int | None = None, multiple_of: int = 1
    ) -> Promised:
        """Annotate an integer argument of a kernel with promises; every launch checks them.

        Args:
            min: the least value, None for that of the type.
            max: the greatest value, None for that of the type.
            multiple_of: a number that divides the value.

        Raises:
            DtypeError: the type is not an integer type, or no value satisfies the promises.

        >>> s32(min=1, multiple_of=8)
        cute.s32(min=1, multiple_of=8)
        """
        found = Promised(self, min, max, multiple_of)
        numbers = [x for x in (min, max, multiple_of) if x is not None]
        if not self.is_integer or any(x.__class__ is not int for x in numbers) or multiple_of < 1:
            raise refusal("dtype-promise", operation=f"cute.{self}", given=found)
        low, high = found.bounds
        if -(-low // multiple_of) * multiple_of > high:
            raise refusal("dtype-promise", operation=f"cute.{self}", given=found)
        return found

    __eq__ = object.__eq__  # equal dtypes are one object
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy by name, to preserve identity."""
        return dtype, (self.name,)

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    def __repr__(self) -> str:
        """Return text that evaluates to this dtype after `import cute_py as cute`."""
        if self.name in NAMES:
            return f"cute.{self.name}"
        return f"cute.int_type({self.bits}, signed={self.kind == 'int'})"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype for one value per element; imports NumPy, and ml_dtypes if necessary.

        Raises:
            DtypeError: void has no values.

        """
        import numpy as np

        if self.kind == "void":
            raise refusal("dtype-void", operation="Dtype.numpy")
        owner, _, name = self.numpy_name.rpartition(".")
        if not owner:
            return np.dtype(name)
        import ml_dtypes

        held: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return held

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type; b1 is not."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        """Whether it has negative values."""
        return self.kind == "int" or (self.kind == "float" and self.name != "ue8m0")

    @property
    def is_subbyte(self) -> bool:
        """Whether several elements share a byte."""
        return 0 < self.bits < 8

    @property
    def bias(self) -> int:
        """The exponent bias of a floating-point type."""
        return int((1 << self.exponent_bits >> 1) - 1)

    @property
    def inf_bits(self) -> int:
        """Magnitude image of an overflow: inf, or NaN ("nan"), or the largest number ("finite")."""
        if self.special == "ieee":
            return ((1 << self.exponent_bits) - 1) << self.mantissa_bits
        return (1 << self.exponent_bits + self.mantissa_bits) - 1

    @property
    def max_bits(self) -> int:
        """Magnitude image of the largest finite number of a floating-point type."""
        return self.inf_bits - (self.special != "finite")

    @property
    def nan_bits(self) -> int:
        """Magnitude image of the quiet NaN; of the largest number in "finite" types, as in PTX."""
        return self.inf_bits | (1 << self.mantissa_bits >> 1 if self.special == "ieee" else 0)

    @property
    def max(self) -> float:
        """The largest finite value (an int for integers and b1)."""
        if not self.is_float:
            return (1 << self.bits - (self.kind == "int")) - 1
        field, fraction = divmod(self.max_bits, 1 << self.mantissa_bits)
        exponent = field - self.bias - self.mantissa_bits
        return float((1 << self.mantissa_bits) + fraction) * 2.0**exponent

    @property
    def min(self) -> float:
        """The lowest finite value (an int for integers and b1)."""
        if not self.is_float:
            return -(1 << self.bits - 1) if self.kind == "int" else 0
        return -self.max if self.is_signed else 2.0**-self.bias


def _float(
    name: str, bits: int, fields: tuple[int, int, str], numpy: str, numba: str, cutlass: str
) -> Dtype:
    return Dtype(name, "float", bits, fields, (numpy, numba, name, cutlass))


def _integer(bits: int, signed: bool) -> Dtype:
    prefix, name = ("int", f"s{bits}") if signed else ("uint", f"u{bits}")
    if bits < 8:
        names = (f"{prefix}8", "uint32", name if bits in (2, 4) else "", f"{prefix}{bits}b_t")
    else:
        names = (f"{prefix}{bits}", f"{prefix}{bits}", name, f"{prefix}{bits}_t")
    return Dtype(name, "int" if signed else "uint", bits, (0, 0, ""), names)


f64 = _float("f64", 64, (11, 52, "ieee"), "float64", "float64", "double")
f32 = _float("f32", 32, (8, 23, "ieee"), "float32", "float32", "float")
tf32 = _float("tf32", 32, (8, 10, "ieee"), "float32", "float32", "tfloat32_t")
f16 = _float("f16", 16, (5, 10, "ieee"), "float16", "float16", "half_t")
bf16 = _float("bf16", 16, (8, 7, "ieee"), "ml_dtypes.bfloat16", "uint16", "bfloat16_t")
# PTX's e4m3 is OCP's E4M3FN: no inf, one NaN per sign.
e4m3 = _float("e4m3", 8, (4, 3, "nan"), "ml_dtypes.float8_e4m3fn", "uint8", "float_e4m3_t")
e5m2 = _float("e5m2", 8, (5, 2, "ieee"), "ml_dtypes.float8_e5m2", "uint8", "float_e5m2_t")
e3m2 = _float("e3m2", 6, (3, 2, "finite"), "ml_dtypes.float6_e3m2fn", "uint32", "float_e3m2_t")
e2m3 = _float("e2m3", 6, (2, 3, "finite"), "ml_dtypes.float6_e2m3fn", "uint32", "float_e2m3_t")
e2m1 = _float("e2m1", 4, (2, 1, "finite"), "ml_dtypes.float4_e2m1fn", "uint32", "float_e2m1_t")
# The block-scale type: 2^(image - 127), no sign, no zero. A row only: `convert` refuses it.
ue8m0 = _float("ue8m0", 8, (8, 0, "nan"), "ml_dtypes.float8_e8m0fnu", "uint8", "float_ue8m0_t")
s64, s32, s16, s8, s4, s2 = (_integer(bits, True) for bits in (64, 32, 16, 8, 4, 2))
u64, u32, u16, u8, u4, u2 = (_integer(bits, False) for bits in (64, 32, 16, 8, 4, 2))
b1 = Dtype("b1", "bool", 1, (0, 0, ""), ("bool", "uint32", "b1", "bin1_t"))
void = Dtype("void", "void", 0, (0, 0, ""), ("", "", "", "void"))

_FLOATS = (f64, f32, tf32, f16, bf16, e4m3, e5m2, e3m2, e2m3, e2m1, ue8m0)
_INTEGERS = (s64, s32, s16, s8, s4, s2, u64, u32, u16, u8, u4, u2)
DTYPES = (*_FLOATS, *_INTEGERS, b1, void)
NAMES = {row.name: row for row in DTYPES}
_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64)

# Every spelling of every dtype so far. A container is not a name: "float32" is f32, not tf32;
# "int8" is s8, not s4. Neither is "float", which is f32 in C++ and f64 in NumPy.
_SPELLINGS = {
    **{row.numpy_name.removeprefix("ml_dtypes."): row for row in _FLOATS if row is not tf32},
    **{row.cutlass_name: row for row in DTYPES if row is not f32},
    "bool": b1,
    **NAMES,
}


def int_type(bits: SupportsIndex, signed: bool = True) -> Dtype:
    """Return the integer type of a width, `s<bits>` or `u<bits>`; below 8 an integer_subbyte.

    Args:
        bits: 1 to 8, 16, 32 or 64.
        signed: two's complement, with values from -2^(bits-1).

    Raises:
        DtypeError: no such width.

    Source: cutlass integer_subbyte.h.

    >>> int_type(4) is s4, int_type(3, signed=False), int_type(3).min
    (True, cute.int_type(3, signed=False), -4)
    """
    width = int(bits) if hasattr(bits, "__index__") and not isinstance(bits, bool) else 0
    if width not in _WIDTHS:
        wider = [f"{w} bits, the next wider one" for w in _WIDTHS if w > width > 0]
        fix = wider[0] if wider else "one of these widths"
        raise refusal("dtype-width", operation="int_type", bits=bits, fix=fix)
    name = f"{'s' if signed else 'u'}{width}"
    if name not in _SPELLINGS:
        _SPELLINGS.setdefault(name, _integer(width, bool(signed)))  # atomic: one object per name
    return _SPELLINGS[name]


def dtype(x: DtypeLike) -> Dtype:
    """Return the dtype that x names.

    Args:
        x: a `Dtype`; a name as text, which is cute_py's (`f16`, `s3`), NumPy's in full (`float16`,
            `bfloat16`) or CUTLASS's (`half_t`); a NumPy or ml_dtypes dtype or scalar type; a dtype
            of torch. The letters count bits: `u8` is NumPy's uint8.

    Raises:
        DtypeError: no dtype has that name; the message suggests the nearest names.

    >>> dtype("half_t") is dtype("float16") is dtype(f16) is f16
    True
    """
    if isinstance(x, Dtype):
        return x
    if isinstance(x, str):
        row = _spelled(x)
        if row is not None:
            return row
    elif is_dtype_of_torch(x):
        row = _spelled(str(x).removeprefix("torch."))
        if row is not None:
            return row
    else:
        import numpy as np

        if isinstance(x, np.dtype) or np.generic in getattr(x, "__mro__", ()):
            return from_numpy(x)
    raise refusal("dtype-unknown", operation="dtype", value=x, fix=_fix_of(x))


def is_dtype_of_torch(x: object) -> bool:
    """Return whether x is a torch.dtype; torch is not imported."""
    return (type(x).__module__, type(x).__name__) == ("torch", "dtype")


def from_numpy(x: DTypeLike) -> Dtype:
    """Return the dtype for a NumPy dtype, in NumPy's spelling ("u8" is 8 bytes).

    Raises:
        DtypeError: cute_py has no such dtype (complex, longdouble, object, text, foreign byte order
            ...).

    >>> import numpy as np
    >>> from_numpy(np.float32), from_numpy("i4"), from_numpy(bool)
    (cute.f32, cute.s32, cute.b1)
    """
    from contextlib import suppress

    import numpy as np

    given: object = x
    if given is not None:  # which NumPy reads as float64
        with suppress(TypeError):
            given = np.dtype(x)
    row = _spelled(given.name) if isinstance(given, np.dtype) and given.isnative else None
    if row is None:
        raise refusal("dtype-numpy", operation="from_numpy", value=given)
    return row


def _spelled(name: str) -> Dtype | None:
    """Return the dtype of a spelling, or None; integer types are made on demand (s3, int6b_t)."""
    if name in _SPELLINGS:
        return _SPELLINGS[name]
    for prefix, signed in (("uint", False), ("int", True), ("u", False), ("s", True)):
        if name.startswith(prefix):
            digits = name.removeprefix(prefix).removesuffix("b_t" if len(prefix) > 1 else "")
            if digits.isdecimal() and digits.isascii() and digits[0] != "0":
                return int_type(int(digits), signed)
    return None


def _fix_of(x: object) -> str:
    """Return the fix for x, which is not a dtype."""
    if isinstance(x, type) and x in (bool, int, float):
        width = {bool: "b1", int: "s32 or s64", float: "f32 or f64"}[x]
        return f"a Python type has no width: say {width}"
    if isinstance(x, str):
        from difflib import get_close_matches

        code = x.lstrip("<>=|")
        if code[1:] in ("1", "2", "4", "8") and code[0] in "fiu":
            name = f"{'s' if code[0] == 'i' else code[0]}{8 * int(code[1:])}"
            return f"say {name}: NumPy's codes count bytes, these names bits"
        if hint := completions(x, [*NAMES, *_SPELLINGS]):
            return hint
        if near := get_close_matches(x.lower(), _SPELLINGS, n=3, cutoff=0.5):
            return f"say {' or '.join(near)}"
    return f"say one of {', '.join(NAMES)}"
