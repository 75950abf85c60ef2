"""Proofs about symbolic integers: yes, no with a counterexample, or unknown.

The normal form and the bounds decide most questions. A fact decides polynomials without floors: one
of degree g in a symbol that is 0 at g + 1 consecutive values is 0, exactly or modulo n (its Newton
differences are sums of those values). Floors by numbers disappear in residue classes: with
N = 2*k + 1, N // 2 is k. For an open question, a search looks for a counterexample.

>>> from cute_py.integers.symbols import sym
>>> M, N = sym("M", multiple_of=8), sym("N")
>>> print(prove_equal_ints((M + 8) // 16 * 2, M // 8))
no: M=8 gives 2 and 1
>>> print(prove_equal_ints(N // 2 + N // 3 + N // 6 + (N % 6 + 3) // 6, N * 7 // 6))
no: N=6 gives 6 and 7
>>> print(prove_divides_ints(2, N * (N + 1)))
yes: it holds at enough consecutive values
>>> print(prove_divides_ints(N, N // 2 * M))
no: M=8, N=3 gives 3 and 8
"""

from __future__ import annotations

from itertools import islice, product
from math import prod

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.integers.polynomial import (
    FloorDiv,
    Min,
    Symbol,
    constant,
    evaluate,
    period,
    plus,
    symbols_of,
    times,
)
from cute_py.integers.symbol_decisions import assumption, decision
from cute_py.integers.symbol_forms import substitute
from cute_py.integers.symbols import require_one_declaration, terms_of
from cute_py.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from cute_py.integers.ints import Leaf
    from cute_py.integers.polynomial import Atom, Polynomial

    Point: TypeAlias = dict[str, int]  # name -> value of the symbol's atom (size / multiple_of)
    Verdict: TypeAlias = tuple[bool | None, str, Point | None]  # answer, reason, counterexample

_MAX_CLASSES = 4096  # residue classes to check
_MAX_POINTS = 4096  # assignments to try


class Proof(Record):
    """The answer to a question about all admissible values: True, False, or None for unknown.

    `reason` says how the answer was found. False comes with a `counterexample` (name -> value), and
    None with an `assumption` that would decide the question; `bool` of None raises.
    """

    __slots__ = ("answer", "assumption", "counterexample", "reason")
    __match_args__ = ("answer", "reason", "counterexample", "assumption")
    answer: bool | None
    reason: str
    counterexample: dict[str, int] | None
    assumption: str | None

    def __init__(
        self,
        answer: bool | None,
        reason: str,
        counterexample: dict[str, int] | None = None,
        assumption: str | None = None,
    ) -> None:
        self.answer = answer
        self.reason = reason
        self.counterexample = counterexample
        self.assumption = assumption

    def __hash__(self) -> int:
        return hash((self.answer, self.reason, self.assumption))

    def __bool__(self) -> bool:
        if self.answer is None:
            raise refusal(
                "undecided",
                operation="bool(proof)",
                question=self.assumption,
                assumption=self.assumption,
            )
        return self.answer

    def __str__(self) -> str:
        if self.answer is None:
            return f"unknown: {self.reason}; it would follow from {self.assumption}"
        return ("yes: " if self.answer else "no: ") + self.reason


def prove_equal_ints(a: Leaf, b: Leaf) -> Proof:
    """Prove a == b for every admissible value of their symbols.

    Args:
        a: an int or symbolic expression.
        b: the same.

    Raises:
        LayoutError: a and b declare one name differently.

    >>> from cute_py.integers.symbols import sym
    >>> M = sym("M", multiple_of=8)
    >>> prove_equal_ints(M // 8 * 8, M).answer, prove_equal_ints(M, 8).counterexample
    (True, {'M': 16})
    """
    return _prove("same", terms_of(a), terms_of(b))


def prove_divides_ints(d: Leaf, e: Leaf) -> Proof:
    """Prove that e is a multiple of d (only 0 is one of 0) for every admissible value of symbols.

    Args:
        d: an int or symbolic expression.
        e: the same.

    Raises:
        LayoutError: d and e declare one name differently.

    >>> from cute_py.integers.symbols import sym
    >>> M = sym("M", multiple_of=8)
    >>> prove_divides_ints(4, M + 4).answer, prove_divides_ints(16, M).counterexample
    (True, {'M': 8})
    """
    return _prove("divides", terms_of(d), terms_of(e))


def exception_to_leq(a: Polynomial, b: Polynomial) -> Point | None:
    """Return a point with a > b, sought where `_search` does; None if none is found.

    >>> from cute_py.integers.symbols import sym, terms_of
    >>> exception_to_leq(terms_of(sym("t", min=0, max=127) + 200), {(): 255})
    {'t': 56}
    """
    return _search("leq", a, b, "")[2]


def _prove(question: str, a: Polynomial, b: Polynomial) -> Proof:
    require_one_declaration(a, b)
    answer, reason, point = _verdict(question, a, b)
    if answer is None:
        return Proof(None, reason, assumption=assumption(question, a, b))
    if answer:
        return Proof(True, reason)
    if point is None:
        raise AssertionError("a refutation comes with a counterexample")
    symbols = symbols_of(a, b)
    values = {s.name: point[s.name] * s.multiple_of for s in symbols}
    shown = ", ".join(f"{name}={value}" for name, value in values.items()) or "every value"
    return Proof(False, f"{shown} gives {evaluate(a, point)} and {evaluate(b, point)}", values)


def _verdict(question: str, a: Polynomial, b: Polynomial) -> Verdict:
    symbols = symbols_of(a, b)
    settled, reason = decision(question, a, b)
    if settled is not None:
        return settled, reason, {s.name: _nearest(s) for s in symbols}
    if question == "same":
        answer, reason, point = _vanishes(plus(a, b, -1), 0)
    elif symbols_of(a):
        answer, reason, point = None, "the divisor varies", None
    else:
        answer, reason, point = _vanishes(b, abs(evaluate(a, {})))
    if answer is not None:
        return answer, reason, {s.name: _nearest(s) for s in symbols} | (point or {})
    return _search(question, a, b, reason)


# -- polynomials modulo n (n = 0: exactly)


def _vanishes(p: Polynomial, n: int) -> Verdict:
    """Return whether p is 0 modulo n at every admissible point."""
    opaque = [atom for m in p for atom in m if not isinstance(atom, Symbol)]
    if not opaque:
        point = _nonzero(p, n)
        return point is None, "it holds at enough consecutive values", point
    minima = [atom for atom in opaque if isinstance(atom, Min)]
    if minima:
        images = [_vanishes(_replace(p, minima[0], option), n) for option in minima[0].options]
        if all(answer for answer, _, _ in images):
            return True, f"it holds whichever of {len(images)} is the minimum", None
        return None, "the options of a minimum differ", None
    return _vanishes_in_classes(p, n)


def _replace(p: Polynomial, atom: Atom, image: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for m, c in p.items():
        term: Polynomial = {tuple(a for a in m if a != atom): c}
        for _ in range(m.count(atom)):
            term = times(term, image)
        total = plus(total, term)
    return total


def _nonzero(p: Polynomial, n: int) -> Point | None:
    """Return a point at which p, which has no floors, is not 0 modulo n; None if p is always 0."""
    if n:
        p = {m: c % n for m, c in p.items() if c % n}
    if not p:
        return None
    symbols = symbols_of(p)
    if not symbols:
        return {}
    symbol = symbols[-1]
    degree = max(m.count(symbol) for m in p)
    for at in _values(symbol, degree + 1):
        point = _nonzero(substitute(p, {symbol: constant(at)}), n)
        if point is not None:
            return point | {symbol.name: at}
    return None


# -- residue classes


def _vanishes_in_classes(p: Polynomial, n: int) -> Verdict:
    """Decide by residue classes of the symbols in floors, where the floors are polynomials."""
    modulus = period(p)
    symbols = symbols_of({(a,): 1 for m in p for a in m if isinstance(a, FloorDiv)})
    if modulus ** len(symbols) > _MAX_CLASSES:
        return None, f"more than {_MAX_CLASSES} residue classes", None
    for residues in product(range(modulus), repeat=len(symbols)):
        images = {s: _class(s, modulus, r) for s, r in zip(symbols, residues, strict=True)}
        inhabited = {s: image for s, image in images.items() if image is not None}
        if len(inhabited) < len(images):
            continue
        point = _refute_class(p, n, inhabited)
        if point is _OPEN:
            return None, "a floor by a symbol, or of a minimum", None
        if point is not None:
            return False, "", point
    names = ", ".join(s.name for s in symbols)
    return True, f"it holds in every residue class of {names} modulo {modulus}", None


_OPEN: Point = {"": 0}


def _class(symbol: Symbol, modulus: int, residue: int) -> Polynomial | None:
    """Return modulus*k + residue with a new symbol k in its range; None if the class is empty."""
    lo = None if symbol.lo is None else -((residue - symbol.lo) // modulus)
    hi = None if symbol.hi is None else (symbol.hi - residue) // modulus
    if lo is not None and hi is not None and lo > hi:
        return None
    index = Symbol(symbol.name + "'", 1, lo, hi)
    return plus({(index,): modulus}, constant(residue))


def _refute_class(p: Polynomial, n: int, images: dict[Symbol, Polynomial]) -> Point | None:
    """Return a point of the class at which p is not 0 modulo n, None if there is none, or _OPEN."""
    inside = substitute(p, images)
    if any(not isinstance(atom, Symbol) for m in inside for atom in m):
        return _OPEN
    point = _nonzero(inside, n)
    if point is None:
        return None
    indices = symbols_of(*images.values())
    at = {s.name: _nearest(s) for s in indices} | point
    return point | {s.name: evaluate(image, at) for s, image in images.items()}


# -- search


def _search(question: str, a: Polynomial, b: Polynomial, reason: str) -> Verdict:
    symbols = symbols_of(a, b)
    count = max(2, int(_MAX_POINTS ** (1 / len(symbols))))
    if prod(map(_size, symbols)) <= _MAX_POINTS:
        count = _MAX_POINTS
    marks = sorted(_constants(a) | _constants(b))
    grid = [_candidates(s, count, marks) for s in symbols]
    for at in islice(product(*grid), _MAX_POINTS):
        point = {s.name: x for s, x in zip(symbols, at, strict=True)}
        if not getattr(ints, question)(evaluate(a, point), evaluate(b, point)):
            return False, "", point
    if prod(map(_size, symbols)) <= _MAX_POINTS:
        return True, "it holds for each of the finitely many values", None
    return None, f"{reason}, and no counterexample among small values", None


def _constants(p: Polynomial) -> set[int]:
    """Return the numbers in p: floors and minima change near them."""
    found = {abs(c) for c in p.values()}
    for atom in {atom for m in p for atom in m}:
        inside: tuple[Polynomial, ...] = ()
        if isinstance(atom, FloorDiv):
            inside = atom.numerator, atom.divisor
        elif isinstance(atom, Min):
            inside = atom.options
        found.update(*map(_constants, inside))
    return found


def _candidates(symbol: Symbol, count: int, marks: list[int]) -> list[int]:
    """Return up to `count` values to try: small ones, those around the marks, the last."""
    if _size(symbol) <= count:
        return list(_values(symbol, count))
    turns = {mark // unit for mark in marks for unit in (1, symbol.multiple_of)}
    near = {turn + step for turn in turns for step in (-1, 0, 1)}
    far = [symbol.hi] if symbol.hi is not None else []
    far += sorted(x for x in near if _admits(symbol, x))
    small = list(_values(symbol, max(count - len(far), (count + 1) // 2)))
    return list(dict.fromkeys([*small, *far]))[:count]


def _admits(symbol: Symbol, x: int) -> bool:
    return (symbol.lo is None or symbol.lo <= x) and (symbol.hi is None or x <= symbol.hi)


def _nearest(symbol: Symbol) -> int:
    return next(_values(symbol, 1))


def _values(symbol: Symbol, count: int) -> Iterator[int]:
    """Yield up to `count` consecutive admissible values of the symbol's atom, small ones first."""
    lo, hi = symbol.lo, symbol.hi
    if lo is not None:
        return iter(range(lo, lo + count if hi is None else min(lo + count, hi + 1)))
    top = count // 2 if hi is None else hi
    return iter(sorted(range(top - count + 1, top + 1), key=abs))


def _size(symbol: Symbol) -> int:
    """Return the number of admissible values; without a bound, more than are ever tried."""
    if symbol.lo is None or symbol.hi is None:
        return _MAX_POINTS + 1
    return symbol.hi - symbol.lo + 1
