"""The parameters and storages of a plan: arrays, numbers, shared memory and registers."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, lcm
from typing import Any

from cute_py.dtypes.table import Dtype, Promised
from cute_py.integers.polynomial import symbols_of
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import Scalar
from cute_py.plan.launch import MOST_LOCAL, listed
from cute_py.plan.op import FIXED, UNSAVED, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def admits(declared: Scalar, given: int) -> bool:
    """Return whether a size or stride satisfies the declaration of a plan's parameter."""
    unit, low, high = limits(declared)
    return given % unit == 0 and low <= given <= high


def limits(declared: Scalar) -> tuple[int, float, float]:
    """Return (unit, low, high): a declared size or stride is a multiple of the unit in between."""
    if isinstance(declared, int):
        return 1, declared, declared
    symbols = symbols_of(terms_of(declared))
    low = [s.lo * s.multiple_of for s in symbols if s.lo is not None]
    high = [s.hi * s.multiple_of for s in symbols if s.hi is not None]
    unit = lcm(*[s.multiple_of for s in symbols])
    return unit, max(low, default=-inf), min(high, default=inf)


def _alignment(x: int) -> str:
    return "" if x > 0 else f"an alignment of {x} bytes"


@dataclass(frozen=True, slots=True)
class Members(Node):
    """The facts that all arrays of a table of pointers share; see `calls.tensor_array`.

    Extents and strides (elements) are pairs: a divisor, and the number if all arrays have it, else
    None. `alignment` (bytes) is that of the first elements.
    """

    dtype: Dtype
    extents: tuple[tuple[int, int | None], ...] = field(metadata=FIXED)
    strides: tuple[tuple[int, int | None], ...] = field(metadata=FIXED)
    alignment: int = field(metadata=FIXED)
    packed: bool = False

    def problem(self) -> str:
        """Check for divisors, and an alignment."""
        rows = (*self.extents, *self.strides)
        if len(self.extents) != len(self.strides) or any(m < 1 for m, _n in rows):
            return f"arrays of {self}"
        return _alignment(self.alignment)

    def __str__(self) -> str:
        rows = [
            ",".join([f"{m}*?" if n is None else str(n) for m, n in row])
            for row in (self.extents, self.strides)
        ]
        kind = f"packed {self.dtype}" if self.packed else f"{self.dtype}"
        return f"{kind} ({rows[0]}):({rows[1]}), {self.alignment} bytes"

    def admits(self, found: Any) -> bool:
        """Return whether arrays that share the facts `found` (the same fields) share these."""
        rows = (self.extents, found.extents), (self.strides, found.strides)
        return (
            (found.dtype, found.packed) == (self.dtype, self.packed)
            and found.alignment % self.alignment == 0
            and all(len(own) == len(other) for own, other in rows)
            and all(
                (m if k is None else k) % n == 0 if fixed is None else k == fixed
                for own, other in rows
                for (n, fixed), (m, k) in zip(own, other, strict=True)
            )
        )


@dataclass(frozen=True, slots=True)
class TensorParam(Node):
    """An array parameter.

    Static sizes and strides (elements) are ints; others are symbols named after the parameter:
    `A_shape0`, `A_stride0`. `alignment` (bytes) is that of the first element, and of every element
    whose byte offset is a multiple of it. Elements of less than a byte take a byte each, unless
    they are `packed`. `members`: the parameter is a table of pointers to arrays with these facts.
    `small`: the offsets of its elements, and its strides, are at most `arguments.REACH` bytes.
    """

    name: str
    dtype: Dtype
    shape: tuple[Scalar, ...]
    stride: tuple[Scalar, ...]
    alignment: int
    packed: bool = False
    members: Members | None = None
    small: bool = False

    def problem(self) -> str:
        """Check for a mode of each size and stride, and an alignment."""
        numbers = [x for x in (*self.shape, *self.stride) if isinstance(x, int)]
        if len(self.shape) != len(self.stride) or any(x < 0 for x in numbers):
            return f"sizes ({listed(self.shape)}) and strides ({listed(self.stride)})"
        if self.members is not None and not self.shape:
            return "a table of pointers without modes"
        return _alignment(self.alignment) or (self.members.problem() if self.members else "")

    def __str__(self) -> str:
        if self.members is not None:
            return f"param {self.name}: pointers to {self.shape[0]} arrays, {self.members}"
        shape, stride = listed(self.shape), listed(self.stride)
        kind = f"packed {self.dtype}" if self.packed else f"{self.dtype}"
        return f"param {self.name}: {kind} ({shape}):({stride}), {self.alignment} bytes"


@dataclass(frozen=True, slots=True)
class ScalarParam(Node):
    """A run-time number; an integer is also a symbol. Launches check what is promised of it."""

    name: str
    dtype: Dtype
    low: int | None = None
    high: int | None = None
    multiple_of: int = 1

    def problem(self) -> str:
        """Check for bounds that some number is in."""
        low, high = self.low, self.high
        fits = self.multiple_of >= 1 and (low is None or high is None or low <= high)
        return "" if fits else f"multiples of {self.multiple_of} from {low} to {high}"

    @property
    def kind(self) -> Dtype | Promised:
        """The type, with the promises if there are any."""
        if (self.low, self.high, self.multiple_of) == (None, None, 1):
            return self.dtype
        return Promised(self.dtype, self.low, self.high, self.multiple_of)

    def __str__(self) -> str:
        return f"param {self.name}: {self.kind}"


MOST_TABLES = 2048  # bytes of the tables of a kernel


def bytes_of(tables: Iterable[tuple[Scalar, ...]]) -> int:
    """Return the size of tables (bytes): entries are integers of 64 bits."""
    return 8 * sum(map(len, tables))


def multiplier(d: int) -> int:
    """Return what a kernel divides by d with: m + (s << 32), with n // |d| == n*m >> (31 + s) for
    0 <= n <= 2**31. Source: Granlund and Montgomery, Division by Invariant Integers, 1994.

    >>> m, s = multiplier(7) % 2**32, multiplier(7) >> 32
    >>> [n * m >> 31 + s for n in (6, 7, 700, 2**31 - 1)]
    [0, 1, 100, 306783378]
    """
    d = abs(d)  # beyond 2**31 all quotients are 0
    if d == 0 or d > 1 << 31:
        return 0
    s = (d - 1).bit_length()
    return -(-(1 << 31 + s) // d) + (s << 32)


MOST_ALIGNMENT = 1024  # of shared memory (bytes): the period of the widest swizzle


@dataclass(frozen=True, slots=True)
class Shared(Node):
    """A storage in shared memory: `count` elements at `offset` (bytes) of the block's memory.

    Members of a union overlap. `layout` is that of the tensor which the kernel allocated, for
    pictures: None in a plan from a file.
    """

    name: str
    dtype: Dtype
    count: int
    offset: int
    alignment: int
    layout: Any = field(default=None, compare=False, repr=False, metadata=UNSAVED)

    @property
    def bytes(self) -> int:
        """The size (bytes)."""
        return -(-self.count * self.dtype.bits // 8)

    def problem(self) -> str:
        """Check for a place in shared memory."""
        wrong = _alignment(self.alignment)
        if not wrong and (min(self.count, self.offset) < 0 or self.offset % self.alignment):
            wrong = f"{self.count} elements at byte {self.offset}"
        return wrong

    def __str__(self) -> str:
        held = f"{self.dtype}[{self.count}] at {self.offset}, {self.bytes} bytes"
        return f"shared {self.name}: {held}"


@dataclass(frozen=True, slots=True)
class Registers(Node):
    """A register storage: every thread has `count` elements."""

    name: str
    dtype: Dtype
    count: int

    def problem(self) -> str:
        """Check for what a thread can have, be it in local memory."""
        fits = 0 <= self.count * self.dtype.bits <= 8 * MOST_LOCAL
        return "" if fits else f"{self.count} elements of {self.dtype} in a thread"

    def __str__(self) -> str:
        return f"registers {self.name}: {self.dtype}[{self.count}]"
