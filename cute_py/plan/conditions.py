"""The values of a plan: scalars, registers, and conditions on them.

A scalar is an int or a `SymInt` over the plan's symbols: the thread `tid`, the block `bid_x bid_y
bid_z`, sizes and strides of parameters, induction variables and `Let`s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from cute_py.dtypes.table import Dtype
from cute_py.integers.polynomial import FloorDiv, Min, Symbol, value
from cute_py.integers.symbol_decisions import bounds
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan.op import FIXED, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.integers.polynomial import Atom, Polynomial

Scalar: TypeAlias = int | SymInt

BITS = 64  # the width of the integers of a plan, which are signed
MOST = (1 << (BITS - 1)) - 1


def bounds_of(x: Scalar) -> tuple[int | None, int | None]:
    """Return the least and the greatest value of a scalar, None for no bound."""
    return (x, x) if isinstance(x, int) else bounds(terms_of(x))


def within(p: Polynomial, least: int, end: int) -> bool:
    """Return whether least <= p < end for all values of its symbols."""
    low, high = bounds(p)
    return low is not None and high is not None and least <= low and high < end


def fits(p: Polynomial) -> bool:
    """Return whether p is known to fit 32 signed bits."""
    return within(p, -1 << 31, 1 << 31)


@dataclass(frozen=True, slots=True)
class Reg(Node):
    """Elements of a register storage, by index; `dtype` is the type that the bits are read as, and
    the unit of `index`.
    """

    storage: str
    dtype: Dtype
    index: tuple[int, ...] = field(metadata=FIXED)

    def __len__(self) -> int:
        return len(self.index)

    def problem(self) -> str:
        """Check for elements."""
        return "" if self.index else f"no registers of {self.storage}"

    def __str__(self) -> str:
        return f"{self.storage}[{runs(self.index)}]"


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """a `lt`, `le`, `eq` or `ne` b."""

    test: str
    a: Scalar
    b: Scalar

    def problem(self) -> str:
        """Check for a known comparison."""
        return "" if self.test in _SIGNS else f"the comparison {self.test}"

    def __str__(self) -> str:
        return f"{self.a} {_SIGNS.get(self.test, self.test)} {self.b}"


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """`and` or `or` of conditions."""

    test: str
    terms: tuple[Cond, ...]

    def problem(self) -> str:
        """Check for a known connective of something."""
        fits = self.test in ("and", "or") and self.terms
        return "" if fits else f"{self.test} of {len(self.terms)} conditions"

    def __str__(self) -> str:
        return "(" + f" {self.test} ".join(map(str, self.terms)) + ")"


@dataclass(frozen=True, slots=True)
class Not(Node):
    """The negation."""

    term: Cond

    def __str__(self) -> str:
        return f"not ({self.term})"


@dataclass(frozen=True, slots=True)
class Test(Node):
    """Whether a register of one element (b1) is set."""

    reg: Reg

    def problem(self) -> str:
        """Check for one flag."""
        fits = len(self.reg) == 1 and self.reg.dtype.name == "b1"
        return "" if fits else f"{len(self.reg)} elements of {self.reg.dtype} as a condition"

    def __str__(self) -> str:
        return str(self.reg)


Cond: TypeAlias = Compare | Logic | Not | Test
Value: TypeAlias = Reg | Scalar | float | bool  # an operand: registers, or a number

_SIGNS = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}


def number_problem(x: object, dtype: Dtype) -> str:
    """Return what is wrong with a number as an element of a type, or "".

    >>> from cute_py.dtypes.table import f32, s8
    >>> number_problem(float("-inf"), f32), number_problem(float("-inf"), s8)
    ('', '-inf as an element of s8')
    """
    if dtype.kind == "bool":
        fits = x in (0, 1)
    elif dtype.is_float:
        fits = x.__class__ in (int, float)
    else:
        fits = x == 0 or (x.__class__ is int and dtype.min <= x <= dtype.max)
    return "" if fits else f"{x} as an element of {dtype}"


def runs(index: tuple[int, ...]) -> str:
    """Return indices as text, with runs as slices: `0:8`, `0:8:2`, `3`, `0,5,7`.

    >>> runs((0, 1, 2, 3, 8, 10, 12)), runs((5,)), runs((2, 0))
    ('0:4,8:14:2', '5', '2,0')
    """
    parts: list[str] = []
    i = 0
    while i < len(index):
        step = index[i + 1] - index[i] if i + 1 < len(index) else 0
        n = 1
        while step > 0 and i + n < len(index) and index[i + n] - index[i + n - 1] == step:
            n += 1
        if n < 3:
            parts.append(str(index[i]))
            i += 1
            continue
        stop = index[i + n - 1] + step
        parts.append(f"{index[i]}:{stop}" + (f":{step}" if step > 1 else ""))
        i += n
    return ",".join(parts)


# -- uniformity analysis: the threads that are known to agree on a value

SCOPES = ("block", "warpgroup", "warp", "thread")  # thread: not uniform
PROMISES = ("grid", "cluster", *SCOPES)  # the scopes in which a kernel may promise uniformity


def uniformity(known: dict[str, str], *values: object) -> str:
    """Return the widest scope whose threads agree on all values: scalars or conditions.

    `tid//128` is uniform in a warpgroup, `tid//32` in a warp, `bid_x` in a block. A value read from
    registers or variables may differ in every thread. `known`: the scopes of symbols, by name.
    """
    return _narrowest([_scope_of(x, known) for x in values])


def _narrowest(scopes: Iterable[str]) -> str:
    return max(scopes, key=SCOPES.index, default="block")


def _scope_of(x: object, known: dict[str, str]) -> str:
    if isinstance(x, int):
        return "block"
    if isinstance(x, Compare):
        return _narrowest([_scope_of(x.a, known), _scope_of(x.b, known)])
    if isinstance(x, Logic):
        return _narrowest([_scope_of(term, known) for term in x.terms])
    if isinstance(x, Not):
        return _scope_of(x.term, known)
    if isinstance(x, Test):
        return "thread"
    return _of_terms(terms_of(x), known)


def _of_terms(p: Polynomial, known: dict[str, str]) -> str:
    return _narrowest([_of_atom(atom, known) for m in p for atom in m])


def _of_atom(atom: Atom, known: dict[str, str]) -> str:
    if isinstance(atom, Symbol):
        return known.get(atom.name, "block")
    if isinstance(atom, FloorDiv):
        n = value(atom.divisor)
        if n is not None and _is_thread(atom.numerator):
            return "warpgroup" if n % 128 == 0 else "warp" if n % 32 == 0 else "thread"
        return _narrowest([_of_terms(p, known) for p in (atom.numerator, atom.divisor)])
    assert isinstance(atom, Min)
    return _narrowest([_of_terms(option, known) for option in atom.options])


def _is_thread(p: Polynomial) -> bool:
    """Return whether p is the thread index itself."""
    return all(
        len(m) == 1 and isinstance(m[0], Symbol) and m[0].name == "tid" and c == 1
        for m, c in p.items()
    )
