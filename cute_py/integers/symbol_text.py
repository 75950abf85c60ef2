"""Polynomials as text: in declared sizes, without blanks, and such that Python reads it back.

The normal form counts in multiples and has no remainders. The text speaks of the declared sizes,
and writes e - d*(e//d) as `e%d` and (e+n-1)//n as `ceil_div(e,n)`.
"""

from __future__ import annotations

from math import gcd, lcm, prod

from cute_py.integers.polynomial import (
    FloorDiv,
    Min,
    Symbol,
    constant,
    order,
    plus,
    quotient,
    quotients,
    scaled,
    times,
    value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol, TypeAlias

    from cute_py.integers.polynomial import Atom, Monomial, Polynomial

    Words: TypeAlias = tuple[str, int]  # text, and how tightly it binds
    Remainder: TypeAlias = tuple[int, Monomial, Polynomial, Polynomial]  # c * m * (e % d)

    class Hand(Protocol):
        """What writes the parts of an expression: as text here, as code in `code`."""

        def number(self, n: int) -> Any:
            """Write a number that is not negative."""

        def size(self, symbol: Symbol) -> Any:
            """Write the declared size of a symbol."""

        def sum(self, terms: Sequence[tuple[int, Any]]) -> Any:
            """Write terms by their signs, those that are added first."""

        def product(self, factors: Sequence[Any]) -> Any:
            """Write the product of one or more factors."""

        def infix(self, a: Any, operator: str, b: Any) -> Any:
            """Write `a // b` or `a % b`."""

        def function(self, name: str, arguments: Sequence[Any]) -> Any:
            """Write `ceil_div` of two numbers, or `min` of two or more."""

        def length(self, written: Any) -> int:
            """Return how long something is to read."""


_MAX_TRIES = 64
_SUM, _QUOTIENT, _PRODUCT, _ATOM = range(4)


def text(p: Polynomial) -> str:
    """Return p as it is printed in a layout: `M`, `2*M+1`, `ceil_div(M,64)`, `min(M,64)`."""
    written: Words = Writer(_Text(lambda symbol: symbol.name)).expression(p)
    return written[0]


def source(p: Polynomial) -> str:
    """Return p as an expression over `sym`, `min_` and `ceil_div` that evaluates to p."""
    written: Words = Writer(_Source(repr)).expression(p)
    return written[0]


class Writer:
    """Writes polynomials in declared sizes by a hand: it says what is written, the hand how."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand

    def expression(self, p: Polynomial) -> Any:  # of the hand
        """Write p, with a sum before a quotient where that is shorter than one inside of it."""
        plain, whole = self.sum(p), _absorb(p)
        return min(plain, self.sum(whole), key=self.hand.length) if whole else plain

    def sum(self, p: Polynomial) -> Any:
        """Write p as a sum of terms; the constant comes last."""
        p, remainders = extract_remainders(p)
        terms = [self.term(p[m], m) for m in sorted(p, key=order)]
        last = [terms.pop()] if () in p else []
        terms += [self.remainder(*remainder) for remainder in remainders]
        terms = sorted(terms + last, key=lambda term: -term[0])  # N-M rather than -M+N
        return self.hand.sum(terms or [(1, self.hand.number(0))])

    def term(self, c: int, m: Monomial) -> tuple[int, Any]:
        """Return the sign of c, and |c| * m as it is written."""
        sign, factors = self.factors(c, m)
        return sign, self.hand.product(factors or [self.hand.number(1)])

    def factors(self, c: int, m: Monomial) -> tuple[int, list[Any]]:
        """Return the sign of c, and the factors of |c| * m, none for 1."""
        sign, c = (-1, -c) if c < 0 else (1, c)
        factors = []
        for atom in m:
            c, factor = self.factor(c, atom)
            factors.append(factor)
        return sign, factors if c == 1 else [self.hand.number(c), *factors]

    def factor(self, c: int, atom: Atom) -> tuple[int, Any]:
        """Return what is left of the coefficient c, and the rest times the atom, written."""
        if isinstance(atom, Symbol):
            taken = gcd(c, atom.multiple_of)
            name, left = self.hand.size(atom), atom.multiple_of // taken
            if left != 1:
                name = self.hand.infix(name, "//", self.hand.number(left))
            return c // taken, name
        if isinstance(atom, FloorDiv):
            return c, self.floor(atom)
        assert isinstance(atom, Min)
        s = _scale(*atom.options)
        s = s if c % s == 0 else 1
        options = [self.expression(scaled(option, s)) for option in atom.options]
        return c // s, self.hand.function("min", options)

    def floor(self, atom: FloorDiv) -> Any:
        """Write a quotient, rounded up where that is shorter."""
        p, d = atom.numerator, atom.divisor
        n = value(d)
        above = plus(plus(p, d, -1), constant(1))
        if p.get(()) == n - 1 if n is not None else len(above) < len(p):
            return self.hand.function("ceil_div", self.in_sizes(above, d))
        p, d = self.in_sizes(p, d)
        return self.hand.infix(p, "//", d)

    def in_sizes(self, p: Polynomial, d: Polynomial) -> tuple[Any, Any]:
        """Write two polynomials times the least number that leaves no multiples in them."""
        s = _scale(p, d)
        return self.expression(scaled(p, s)), self.expression(scaled(d, s))

    def remainder(self, c: int, m: Monomial, p: Polynomial, d: Polynomial) -> tuple[int, Any]:
        """Return the sign of c, and |c| * m * (p % d) as it is written."""
        s = _scale(p, d)
        if c % s:
            s, p = 1, _in_declared_sizes(p, d)
        sign, factors = self.factors(c // s, m)
        p, d = self.expression(scaled(p, s)), self.expression(scaled(d, s))
        return sign, self.hand.product([*factors, self.hand.infix(p, "%", d)])


class _Text:
    """The hand that writes text, with as few brackets as Python needs."""

    def __init__(self, show: Callable[[Symbol], str]) -> None:
        self.show = show

    def number(self, n: int) -> Words:
        return str(n), _ATOM

    def size(self, symbol: Symbol) -> Words:
        return self.show(symbol), _ATOM

    def sum(self, terms: Sequence[tuple[int, Words]]) -> Words:
        if len(terms) == 1 and terms[0][0] > 0:
            return terms[0][1]
        shown = [
            ("-" if sign < 0 else "+") + _bracketed(term, _PRODUCT if sign < 0 else _QUOTIENT)
            for sign, term in terms
        ]
        return "".join(shown).removeprefix("+"), _SUM

    def product(self, factors: Sequence[Words]) -> Words:
        if len(factors) == 1:
            return factors[0]
        return "*".join([_bracketed(factor, _PRODUCT) for factor in factors]), _PRODUCT

    def infix(self, a: Words, operator: str, b: Words) -> Words:
        return _bracketed(a, _PRODUCT) + operator + _bracketed(b, _ATOM), _QUOTIENT

    def function(self, name: str, arguments: Sequence[Words]) -> Words:
        return f"{name}({','.join([words for words, _binding in arguments])})", _ATOM

    def length(self, written: Words) -> int:
        return len(written[0].replace("ceil_div", ""))  # it reads well however long its name


class _Source(_Text):
    """The hand that writes what Python reads back: `min_` takes two."""

    def function(self, name: str, arguments: Sequence[Words]) -> Words:
        if name != "min":
            return super().function(name, arguments)
        nested, *rest = arguments
        for option in rest:
            nested = super().function("min_", (nested, option))
        return nested


def _bracketed(words: Words, binding: int) -> str:
    return words[0] if words[1] >= binding else f"({words[0]})"


def _scale(*polynomials: Polynomial) -> int:
    """Return the least factor that turns multiples back into declared sizes everywhere."""
    scale = 1
    for p in polynomials:
        for m, c in p.items():
            scale = lcm(scale, _units(m) // gcd(c, _units(m)))
    return scale


def _in_declared_sizes(p: Polynomial, d: Polynomial) -> Polynomial:
    """Return what is p modulo the number d and needs no //: (M//4)%3 is M%3 if 8 divides M."""
    n = value(d)
    if n is None:
        return p
    wanted: Polynomial = {}
    for m, c in p.items():
        units = _units(m)
        choices = [c + n * j for j in range(min(units, _MAX_TRIES)) if (c + n * j) % units == 0]
        wanted[m] = choices[0] if choices else c
    return wanted


def _units(m: Monomial) -> int:
    return prod(atom.multiple_of for atom in m if isinstance(atom, Symbol))


def _absorb(p: Polynomial) -> Polynomial | None:
    """Return p = w + floor(e / d) as floor((e + w*d) / d), for the terms of w that stand in e."""
    for q in sorted(p, key=order):
        if len(q) != 1 or not isinstance(q[0], FloorDiv) or len(q[0].divisor) != 1:
            continue
        atom, n = q[0], value(q[0].divisor)
        inside = [m for m in atom.numerator if m or n is None]
        taken = {m: p[m] // p[q] for m in inside if m in p and p[m] % p[q] == 0}
        if taken:
            inner = plus(atom.numerator, times(atom.divisor, taken))
            whole: Polynomial = {(FloorDiv(inner, atom.divisor, (atom.lo, atom.hi)),): p[q]}
            rest = plus(p, {q: 1, **taken}, -p[q])
            return plus(rest, whole)
    return None


# -- remainders


def extract_remainders(p: Polynomial) -> tuple[Polynomial, list[Remainder]]:
    """Return q and (c, m, e, d), ... with p = q + the sum of c*m*(e%d), where that is shorter."""
    found: list[Remainder] = []
    while (step := _shorter(p)) is not None:
        p, remainder = step
        found.append(remainder)
    return p, found


def _shorter(p: Polynomial) -> tuple[Polynomial, Remainder] | None:
    floors = [atom for m in p for atom in m if isinstance(atom, FloorDiv)]
    if not floors:
        return None
    for monomial in sorted(p, key=order):
        for atom in monomial:
            for e, d in quotients(atom, floors) if isinstance(atom, FloorDiv) else ():
                (dm, dc) = next(iter(d.items()))
                if len(d) > 1:
                    continue
                m = quotient(quotient(monomial, (atom,)) or (), dm)
                if m is None or p[monomial] % dc:
                    continue
                c = -p[monomial] // dc
                left = plus(p, times(plus(e, times(d, {(atom,): 1}), -1), {m: c}), -1)
                if len(left) + 1 < len(p):
                    return left, (c, m, e, d)
    return None
