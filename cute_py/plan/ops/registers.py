"""Registers: ops that access register storages only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from cute_py.dtypes.table import Dtype
from cute_py.plan.conditions import Reg, Scalar, Value, number_problem
from cute_py.plan.functions import FUNCTIONS, REDUCTIONS, Function
from cute_py.plan.inline_ptx import is_collective, problem_of
from cute_py.plan.op import ELEMENTS, UNSAVED, WRITTEN, Group, Lack, Node, Op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ROUNDINGS = ("rn", "rz", "rd", "ru", "rna")
REDUX = ("add", "min", "max", "and", "or", "xor")
PTX_BITS = (16, 32, 64)  # of the operands of inline PTX
_WIDTHS = (1, 2, 4, 8, 16, 32)


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
    share: ClassVar[str] = "arithmetic"

    @property
    def consistent(self) -> bool:
        """Always."""
        return True

    def problem(self) -> str:
        """Check for a number of the type."""
        return "" if self.value is None else number_problem(self.value, self.dst.dtype)

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
    variant: ClassVar[str] = "fn"
    call: ClassVar[str] = "arithmetic of registers"
    purpose: ClassVar[str] = "element by element"
    share: ClassVar[str] = "arithmetic"

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
        if function.fixed and self.sources[-1].__class__ is not int:
            return f"{self.fn} of {self.sources[-1]}, not a number"
        regs = [x for x in self.sources if isinstance(x, Reg)]
        lengths = {len(x) for x in regs}
        if not lengths <= {1, len(self.dst)}:
            return f"sources of {lengths} for {len(self.dst)} elements"
        return self._types(function)

    def _types(self, function: Function) -> str:
        """Check for types of the sources and the result that the function has."""
        made = "b1" if function.compares else self.dtype.name
        regs = [x for x in self.sources[self.fn == "where" :] if isinstance(x, Reg)]
        wrong = [x.dtype for x in regs if x.dtype is not self.dtype]
        wrong += [self.dst.dtype] * (self.dst.dtype.name != made)
        if wrong or not function.takes(self.dtype):
            return f"{self.fn} of {', '.join(map(str, wrong or [self.dtype]))} in {self.dtype}"
        given = self.sources[self.fn == "where" : len(self.sources) - function.fixed]
        numbers = (x for x in given if isinstance(x, (int, float)))
        return next(filter(None, (number_problem(x, self.dtype) for x in numbers)), "")

    def lack(self) -> Lack | None:
        """A type with values, unless they are moved."""
        return None if FUNCTIONS[self.fn].moves else values_of(self.dtype, self.fn)

    def needs(self) -> str | None:
        """The instruction of bf16 that rounds a product once: f32 has no room for the least."""
        return "fma.bf16" if self.dtype.name == "bf16" and self.fn in ("fma", "mul") else None

    def __str__(self) -> str:
        return f"{self.dst} = {self.fn}.{self.dtype}({', '.join(map(str, self.sources))})"


@dataclass(frozen=True, slots=True)
class Convert(Op):
    """dst[i] = src[i] in the type of dst: rounded (`rn rz rd ru rna`), clamped where `saturate`."""

    dst: Reg = field(metadata=WRITTEN)
    src: Reg
    rounding: str = "rn"
    saturate: bool = False

    word: ClassVar[str] = "to"
    call: ClassVar[str] = "x.to(dtype)"
    purpose: ClassVar[str] = "conversion to a type"
    share: ClassVar[str] = "arithmetic"

    @property
    def stem(self) -> str:
        """The word and the type."""
        return f"to_{self.dst.dtype}"

    def problem(self) -> str:
        """Check for a known rounding mode and equal lengths."""
        known = self.rounding in ROUNDINGS
        return _same_length(self.dst, self.src) if known else f"the rounding {self.rounding}"

    def lack(self) -> Lack | None:
        """Types with values."""
        what = "a conversion"
        return values_of(self.dst.dtype, what) or values_of(self.src.dtype, what)

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
    variant: ClassVar[str] = "fn"
    call: ClassVar[str] = "cute.reduce"
    purpose: ClassVar[str] = "combines runs of elements, from left to right"
    share: ClassVar[str] = "arithmetic"

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
        """As in `Map`."""
        return "fma.bf16" if self.src.dtype.name == "bf16" and self.fn == "mul" else None


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
    variant: ClassVar[str] = "kind"
    call: ClassVar[str] = "cute.shuffle"
    purpose: ClassVar[str] = "shfl.sync: elements of another lane of the warp"
    share: ClassVar[str] = "arithmetic"
    together: ClassVar[Group] = "warp"

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
    variant: ClassVar[str] = "kind"
    call: ClassVar[str] = "cute.vote"
    purpose: ClassVar[str] = "vote.sync over the lanes of the warp"
    share: ClassVar[str] = "arithmetic"
    together: ClassVar[Group] = "warp"

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
    variant: ClassVar[str] = "fn"
    call: ClassVar[str] = "cute.redux"
    purpose: ClassVar[str] = "redux.sync: combines an integer of all lanes of the warp"
    share: ClassVar[str] = "arithmetic"
    together: ClassVar[Group] = "warp"
    instruction: ClassVar[str | None] = "redux.sync"

    def problem(self) -> str:
        """Check for a known function, 32-bit integers, and equal lengths."""
        if self.fn not in REDUX:
            return f"the reduction {self.fn} of a warp"
        alike = self.dst.dtype is self.src.dtype and self.src.dtype.name in ("s32", "u32")
        return _same_length(self.dst, self.src) if alike else f"lanes of {self.src.dtype}"


@dataclass(frozen=True, slots=True)
class Emulation(Node):
    """What the emulator runs in place of `InlinePtx`: a function of Python, by name and hash.

    The function itself is not part of a saved plan: there it is None.
    """

    name: str
    fingerprint: str
    function: Callable[..., Any] | None = field(
        default=None, compare=False, repr=False, metadata=UNSAVED
    )

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class InlinePtx(Op):
    """outputs[i][k] = what the PTX text computes of the inputs[j][k], for each element k; see
    `inline_ptx`.
    """

    text: str
    outputs: tuple[Reg, ...] = field(metadata=WRITTEN)
    inputs: tuple[Reg, ...]
    emulation: Emulation

    word: ClassVar[str] = "inline_ptx"
    call: ClassVar[str] = "cute.inline_ptx"
    purpose: ClassVar[str] = "PTX of the kernel's author, on registers"
    share: ClassVar[str] = "arithmetic"

    @property
    def group(self) -> Group:
        """The warp, if its lanes communicate."""
        return "warp" if is_collective(self.text) else "thread"

    def problem(self) -> str:
        """Check the text, and the types and lengths of its operands."""
        found = problem_of(self.text, len(self.outputs), len(self.inputs))
        if found is not None:
            return f"PTX with {found.token}: {found.why}"
        lengths = {len(x) for x in self.inputs} | {len(x) for x in self.outputs}
        if not self.outputs or len(lengths - {1}) > 1:
            return f"outputs and inputs of {sorted(lengths)} elements"
        if any(len(x) != max(lengths) for x in self.outputs):
            return f"an output without all {max(lengths)} elements"
        wrong = [x.dtype for x in (*self.outputs, *self.inputs) if x.dtype.bits not in PTX_BITS]
        return f"an operand of {wrong[0]}" if wrong else ""

    def __str__(self) -> str:
        names = [", ".join(map(str, x)) for x in (self.outputs, self.inputs)]
        return f"{names[0]} = inline_ptx({names[1]}) {' '.join(self.text.split())!r}"
