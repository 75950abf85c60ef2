"""Polynomials as text: in declared sizes, without blanks, and readable by Python.

The normal form counts multiples and has no remainders. The text uses the declared sizes, and writes
e - d*(e//d) as `e%d` and (e+n-1)//n as `ceil_div(e,n)`.
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

    Words: TypeAlias = tuple[str, int]  # text, and its operator precedence
    Remainder: TypeAlias = tuple[int, Monomial, Polynomial, Polynomial]  # c * m * (e % d)

    class Notation(Protocol):
        """Writes the parts of an expression: as text here, as code in `code`."""

        def number(self, n: int) -> Any:
            """Write a nonnegative number."""

        def size(self, symbol: Symbol) -> Any:
            """Write the declared size of a symbol."""

        def sum(self, terms: Sequence[tuple[int, Any]]) -> Any:
            """Write terms with their signs, positive ones first."""

        def product(self, factors: Sequence[Any]) -> Any:
            """Write the product of one or more factors."""

        def infix(self, a: Any, operator: str, b: Any) -> Any:
            """Write `a // b` or `a % b`."""

        def function(self, name: str, arguments: Sequence[Any]) -> Any:
            """Write `ceil_div` of two numbers, or `min` of two or more."""

        def length(self, written: Any) -> int:
            """Return the length for a reader."""


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
    """Writes polynomials in declared sizes: it picks the expression, the notation prints it."""

    def __init__(self, notation: Notation) -> None:
        self.notation = notation

    def expression(self, p: Polynomial) -> Any:  # a value of the notation
        """Write p, with a sum inside a quotient if that is shorter than outside."""
        plain, whole = self.sum(p), _absorb(p)
        return min(plain, self.sum(whole), key=self.notation.length) if whole else plain

    def sum(self, p: Polynomial) -> Any:
        """Write p as a sum of terms; the constant comes last."""
        p, remainders = extract_remainders(p)
        terms = [self.term(p[m], m) for m in sorted(p, key=order)]
        last = [terms.pop()] if () in p else []
        terms += [self.remainder(*remainder) for remainder in remainders]
        terms = sorted(terms + last, key=lambda term: -term[0])  # N-M rather than -M+N
        return self.notation.sum(terms or [(1, self.notation.number(0))])

    def term(self, c: int, m: Monomial) -> tuple[int, Any]:
        """Return the sign of c, and |c| * m in the notation."""
        sign, factors = self.factors(c, m)
        return sign, self.notation.product(factors or [self.notation.number(1)])

    def factors(self, c: int, m: Monomial) -> tuple[int, list[Any]]:
        """Return the sign of c, and the factors of |c| * m, none for 1."""
        sign, c = (-1, -c) if c < 0 else (1, c)
        factors = []
        for atom in m:
            c, factor = self.factor(c, atom)
            factors.append(factor)
        return sign, factors if c == 1 else [self.notation.number(c), *factors]

    def factor(self, c: int, atom: Atom) -> tuple[int, Any]:
        """Return the remaining coefficient, and its other part times the atom in the notation."""
        if isinstance(atom, Symbol):
            taken = gcd(c, atom.multiple_of)
            name, left = self.notation.size(atom), atom.multiple_of // taken
            if left != 1:
                name = self.notation.infix(name, "//", self.notation.number(left))
            return c // taken, name
        if isinstance(atom, FloorDiv):
            return c, self.floor(atom)
        assert isinstance(atom, Min)
        s = _scale(*atom.options)
        s = s if c % s == 0 else 1
        options = [self.expression(scaled(option, s)) for option in atom.options]
        return c // s, self.notation.function("min", options)

    def floor(self, atom: FloorDiv) -> Any:
        """Write a quotient, as ceil_div if that is shorter."""
        p, d = atom.numerator, atom.divisor
        n = value(d)
        above = plus(plus(p, d, -1), constant(1))
        if p.get(()) == n - 1 if n is not None else len(above) < len(p):
            return self.notation.function("ceil_div", self.in_sizes(above, d))
        p, d = self.in_sizes(p, d)
        return self.notation.infix(p, "//", d)

    def in_sizes(self, p: Polynomial, d: Polynomial) -> tuple[Any, Any]:
        """Write two polynomials, scaled by the least number that gives declared sizes."""
        s = _scale(p, d)
        return self.expression(scaled(p, s)), self.expression(scaled(d, s))

    def remainder(self, c: int, m: Monomial, p: Polynomial, d: Polynomial) -> tuple[int, Any]:
        """Return the sign of c, and |c| * m * (p % d) in the notation."""
        s = _scale(p, d)
        if c % s:
            s, p = 1, _in_declared_sizes(p, d)
        sign, factors = self.factors(c // s, m)
        p, d = self.expression(scaled(p, s)), self.expression(scaled(d, s))
        return sign, self.notation.product([*factors, self.notation.infix(p, "%", d)])


class _Text:
    """The notation that writes text, with no redundant brackets."""

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
        return len(written[0].replace("ceil_div", ""))  # its long name does not count


class _Source(_Text):
    """The notation that Python evaluates: `min_` takes two."""

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
    """Return the least factor that turns all multiples into declared sizes."""
    scale = 1
    for p in polynomials:
        for m, c in p.items():
            scale = lcm(scale, _units(m) // gcd(c, _units(m)))
    return scale


def _in_declared_sizes(p: Polynomial, d: Polynomial) -> Polynomial:
    """Return a polynomial equal to p modulo the number d, without //: (M//4)%3 is M%3 if 8
    divides M.
    """
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
    """Return p = w + floor(e / d) as floor((e + w*d) / d), for the terms of w that e has too."""
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
    """Return q and (c, m, e, d), ... with p = q + the sum of c*m*(e%d), if that is shorter."""
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
