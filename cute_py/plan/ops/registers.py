"""Registers: ops that access register storages only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from cute_py.dtypes.table import Dtype
from cute_py.plan.conditions import Reg, Scalar, Value
from cute_py.plan.functions import FUNCTIONS, REDUCTIONS
from cute_py.plan.op import ELEMENTS, WRITTEN, Lack, Op

ROUNDINGS = ("rn", "rz", "rd", "ru", "rna")
REDUX = ("add", "min", "max", "and", "or", "xor")
_WIDTHS = (1, 2, 4, 8, 16, 32)


def narrow(dtype: Dtype, rounded: bool) -> str | None:
    """Return the conversion instruction that arithmetic on a type narrower than 32 bits needs; bf16
    is widened by a shift.
    """
    if dtype.name in ("e4m3", "e5m2"):
        return "cvt.satfinite.e4m3x2.f32"
    return "cvt.bf16.f32" if dtype.name == "bf16" and rounded else None


def roundings(dst: Dtype, src: Dtype) -> tuple[str, ...]:
    """Return the rounding modes of a conversion; () if no instruction converts. PTX ISA, cvt."""
    if "ue8m0" in (dst.name, src.name) or (src.is_float and 1 < dst.bits < 8 and not dst.is_float):
        return ()
    if not dst.is_float and (not src.is_float or dst.bits == 1):
        return ROUNDINGS  # nothing is rounded
    if dst.is_float and dst.bits <= 8:
        return ROUNDINGS[:1]
    exact = dst.name == "f64" and (src.is_float or src.bits <= 32)
    return ROUNDINGS if exact or dst.name == "tf32" else ROUNDINGS[:4]


def values_of(dtype: Dtype, what: str) -> Lack | None:
    """Return what is missing to compute with a type: a block scale has no values."""
    if dtype.name != "ue8m0":
        return None
    return Lack(
        f"{what} of ue8m0, a block scale without sign or zero",
        "copies, shuffles and cute.where of ue8m0",
        "compute with the bits: cute.recast(x, 'u8') is the exponent plus 127",
    )


def _same_length(dst: Reg, src: Reg) -> str:
    return "" if len(dst) == len(src) else f"{len(src)} elements for {len(dst)}"


@dataclass(frozen=True, slots=True)
class Fill(Op):
    """Set each element to a number; None makes them undefined, but allows reading them."""

    dst: Reg = field(metadata=WRITTEN)
    value: int | float | bool | None = field(metadata=ELEMENTS)

    word: ClassVar[str] = "fill"
    call: ClassVar[str] = "a fill of registers"
    purpose: ClassVar[str] = "all elements become a number"

    @property
    def consistent(self) -> bool:
        """Always."""
        return True

    def lack(self) -> Lack | None:
        """A type with values."""
        return None if self.value is None else values_of(self.dst.dtype, "a number")

    def __str__(self) -> str:
        return f"{self.dst} = {'undefined' if self.value is None else self.value}"


@dataclass(frozen=True, slots=True)
class Map(Op):
    """dst[i] = fn(src0[i], src1[i], ...), computed in `dtype`, the type of all register sources.

    fn is a row of `functions.FUNCTIONS`. Comparisons write b1.
    """

    fn: str
    dst: Reg = field(metadata=WRITTEN)
    sources: tuple[Value, ...] = field(metadata=ELEMENTS)
    dtype: Dtype

    word: ClassVar[str] = "map"
    call: ClassVar[str] = "arithmetic of registers"
    purpose: ClassVar[str] = "element by element"

    @property
    def stem(self) -> str:
        """The word and the function."""
        return f"map_{self.fn}"

    @property
    def consistent(self) -> bool:
        """Whether repeated elements of dst are computed from the same elements of the sources."""
        wide = [x.index for x in self.sources if isinstance(x, Reg) and len(x) > 1]
        given = zip(*wide, strict=True) if wide else [()] * len(self.dst)
        first: dict[int, tuple[int, ...]] = {}
        pairs = zip(self.dst.index, given, strict=True)
        return all(first.setdefault(i, each) == each for i, each in pairs)

    def problem(self) -> str:
        """Check for a known function, its number of sources, and matching lengths."""
        function = FUNCTIONS.get(self.fn)
        if function is None or function.arity != len(self.sources):
            return f"{self.fn} of {len(self.sources)} sources"
        lengths = {len(x) for x in self.sources if isinstance(x, Reg)}
        fits = lengths <= {1, len(self.dst)}
        return "" if fits else f"sources of {lengths} for {len(self.dst)} elements"

    def lack(self) -> Lack | None:
        """A type with values, unless they are moved."""
        return None if FUNCTIONS[self.fn].moves else values_of(self.dtype, self.fn)

    def needs(self) -> str | None:
        """A conversion, if the type is narrow."""
        return None if self.fn == "copy" else narrow(self.dtype, self.dst.dtype is self.dtype)

    def __str__(self) -> str:
        return f"{self.dst} = {self.fn}.{self.dtype}({', '.join(map(str, self.sources))})"


@dataclass(frozen=True, slots=True)
class Convert(Op):
    """dst[i] = src[i] in the type of dst: rounded (`rn rz rd ru`), clamped where `saturate`."""

    dst: Reg = field(metadata=WRITTEN)
    src: Reg
    rounding: str = "rn"
    saturate: bool = False

    word: ClassVar[str] = "to"
    call: ClassVar[str] = "x.to(dtype)"
    purpose: ClassVar[str] = "conversion to a type"

    @property
    def stem(self) -> str:
        """The word and the type."""
        return f"to_{self.dst.dtype}"

    def problem(self) -> str:
        """Check for a known rounding mode and equal lengths."""
        known = self.rounding in ROUNDINGS
        return _same_length(self.dst, self.src) if known else f"the rounding {self.rounding}"

    def lack(self) -> Lack | None:
        """An instruction for the types and the rounding mode."""
        src, dst = self.src.dtype, self.dst.dtype
        modes = roundings(dst, src)
        if self.rounding in modes:
            return None
        if not modes and (
            scale := values_of(dst, "a conversion") or values_of(src, "a conversion")
        ):
            return scale
        if not modes:
            return Lack(
                f"a conversion of {src} to {dst}",
                "floats to integers of 8 bits or more",
                f"convert in two steps, of which the first rounds: x.to('s32').to('{dst}', "
                "saturate=True)",
            )
        return Lack(
            f"a conversion of {src} to {dst} by {self.rounding}",
            f"{', '.join(modes)} for {dst}",
            "use one of them, or convert the array on the host (cute.convert)",
        )

    def needs(self) -> str | None:
        """The conversion of a type that only newer architectures have."""
        if self.dst.dtype.name == "tf32":
            return "cvt.rna.tf32.f32" if self.rounding == "rna" else None
        return narrow(self.dst.dtype, True) or narrow(self.src.dtype, False)

    def __str__(self) -> str:
        clamped = " saturate" if self.saturate else ""
        return f"{self.dst} = to.{self.dst.dtype}({self.src}) {self.rounding}{clamped}"


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """dst[i] = fn of the n elements src[i*n] ... src[i*n+n-1], combined from left to right."""

    fn: str
    dst: Reg = field(metadata=WRITTEN)
    src: Reg

    word: ClassVar[str] = "reduce"
    call: ClassVar[str] = "cute.reduce"
    purpose: ClassVar[str] = "combines runs of elements, from left to right"

    @property
    def stem(self) -> str:
        """The word and the function."""
        return f"reduce_{self.fn}"

    def problem(self) -> str:
        """Check for a known function and runs of equal length."""
        if self.fn not in REDUCTIONS:
            return f"the reduction {self.fn}"
        even = len(self.src) % len(self.dst) == 0
        return "" if even else f"{len(self.src)} elements for {len(self.dst)} results"

    def lack(self) -> Lack | None:
        """A type with values."""
        return values_of(self.src.dtype, self.fn)

    def needs(self) -> str | None:
        """A conversion, if the type is narrow."""
        return narrow(self.src.dtype, True)


@dataclass(frozen=True, slots=True)
class Shuffle(Op):
    """dst[i] of a lane is src[i] of another lane of the warp: `idx up down bfly` with the operand
    `lane`, within groups of `width` lanes. Source: PTX ISA, shfl.sync.
    """

    kind: str
    dst: Reg = field(metadata=WRITTEN)
    src: Reg
    lane: Scalar
    width: int = 32

    word: ClassVar[str] = "shuffle"
    call: ClassVar[str] = "cute.shuffle"
    purpose: ClassVar[str] = "shfl.sync: elements of another lane of the warp"

    @property
    def stem(self) -> str:
        """The word and the kind."""
        return f"shuffle_{self.kind}"

    def problem(self) -> str:
        """Check for a known kind, a power of two as the width, and equal lengths."""
        if self.kind not in ("idx", "up", "down", "bfly") or self.width not in _WIDTHS:
            return f"{self.kind} in groups of {self.width}"
        return _same_length(self.dst, self.src)


@dataclass(frozen=True, slots=True)
class Vote(Op):
    """dst = `any`, `all` or `ballot` over the lanes of the warp of src (b1). Source: vote.sync."""

    kind: str
    dst: Reg = field(metadata=WRITTEN)
    src: Reg

    word: ClassVar[str] = "vote"
    call: ClassVar[str] = "cute.vote"
    purpose: ClassVar[str] = "vote.sync over the lanes of the warp"

    @property
    def stem(self) -> str:
        """The word and the kind."""
        return f"vote_{self.kind}"

    def problem(self) -> str:
        """Check for a known kind and one element."""
        single = len(self.dst) == len(self.src) == 1
        known = self.kind in ("any", "all", "ballot")
        return "" if single and known else f"the vote {self.kind}"


@dataclass(frozen=True, slots=True)
class Redux(Op):
    """dst[i] = fn of the src[i] (s32 or u32) of all lanes of the warp: `add min max and or xor`.

    Source: PTX ISA, redux.sync.
    """

    fn: str
    dst: Reg = field(metadata=WRITTEN)
    src: Reg

    word: ClassVar[str] = "redux"
    call: ClassVar[str] = "cute.redux"
    purpose: ClassVar[str] = "redux.sync: combines an integer of all lanes of the warp"
    instruction: ClassVar[str | None] = "redux.sync"

    @property
    def stem(self) -> str:
        """The word and the function."""
        return f"redux_{self.fn}"

    def problem(self) -> str:
        """Check for a known function, 32-bit integers, and equal lengths."""
        if self.fn not in REDUX:
            return f"the reduction {self.fn} of a warp"
        alike = self.dst.dtype is self.src.dtype and self.src.dtype.name in ("s32", "u32")
        return _same_length(self.dst, self.src) if alike else f"lanes of {self.src.dtype}"
