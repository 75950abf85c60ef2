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
    from collections.abc import Callable
    from typing import TypeAlias

    from cute_py.integers.polynomial import Atom, Monomial, Polynomial

    Words: TypeAlias = tuple[str, int]  # text, and how tightly it binds
    Remainder: TypeAlias = tuple[int, Monomial, Polynomial, Polynomial]  # c * m * (e % d)

_MAX_TRIES = 64
_SUM, _QUOTIENT, _PRODUCT, _ATOM = range(4)


def text(p: Polynomial) -> str:
    """Return p as it is printed in a layout: `M`, `2*M+1`, `ceil_div(M,64)`, `min(M,64)`."""
    return _Writer(lambda symbol: symbol.name, "min").words(p)[0]


def source(p: Polynomial) -> str:
    """Return p as an expression over `sym`, `min_` and `ceil_div` that evaluates to p."""
    return _Writer(repr, "min_").words(p)[0]


class _Writer:
    def __init__(self, show: Callable[[Symbol], str], least: str) -> None:
        self.show = show
        self.least = least

    def words(self, p: Polynomial) -> Words:
        plain, whole = self.sum(p), _absorb(p)
        return min(plain, self.sum(whole), key=_length) if whole else plain

    def sum(self, p: Polynomial) -> Words:
        p, remainders = extract_remainders(p)
        terms = [self.term(p[m], m) for m in sorted(p, key=order)]
        last = [terms.pop()] if () in p else []  # the constant
        terms += [self.remainder(*remainder) for remainder in remainders]
        return _sum(terms + last or [(1, ("0", _ATOM))])

    def term(self, c: int, m: Monomial) -> tuple[int, Words]:
        """Return the sign and the text of |c| * m."""
        sign, c = (-1, -c) if c < 0 else (1, c)
        factors: list[Words] = []
        for atom in m:
            c, factor = self.factor(c, atom)
            factors.append(factor)
        if c != 1 or not factors:
            factors.insert(0, (str(c), _ATOM))
        return sign, _product(factors)

    def factor(self, c: int, atom: Atom) -> tuple[int, Words]:
        """Return what the text leaves of the coefficient c, and the text of the rest times atom."""
        if isinstance(atom, Symbol):
            taken = gcd(c, atom.multiple_of)
            name = self.show(atom), _ATOM
            left = atom.multiple_of // taken
            return c // taken, name if left == 1 else _infix(name, "//", (str(left), _ATOM))
        if isinstance(atom, FloorDiv):
            return c, self.floor(atom)
        assert isinstance(atom, Min)
        s = _scale(*atom.options)
        s = s if c % s == 0 else 1
        return c // s, self.minimum([scaled(option, s) for option in atom.options])

    def minimum(self, options: list[Polynomial]) -> Words:
        words = [self.words(option)[0] for option in options]
        if self.least == "min":
            return f"min({','.join(words)})", _ATOM
        nested = words[0]
        for word in words[1:]:
            nested = f"{self.least}({nested},{word})"
        return nested, _ATOM

    def floor(self, atom: FloorDiv) -> Words:
        p, d = atom.numerator, atom.divisor
        n = value(d)
        above = plus(plus(p, d, -1), constant(1))
        if p.get(()) == n - 1 if n is not None else len(above) < len(p):
            s = _scale(above, d)
            p, d = scaled(above, s), scaled(d, s)
            return f"ceil_div({self.words(p)[0]},{self.words(d)[0]})", _ATOM
        s = _scale(p, d)
        return _infix(self.words(scaled(p, s)), "//", self.words(scaled(d, s)))

    def remainder(self, c: int, m: Monomial, p: Polynomial, d: Polynomial) -> tuple[int, Words]:
        s = _scale(p, d)
        if c % s:
            s, p = 1, _in_declared_sizes(p, d)
        sign, (factors, binding) = self.term(c // s, m)
        last = _infix(self.words(scaled(p, s)), "%", self.words(scaled(d, s)))
        return sign, last if factors == "1" else _product([(factors, binding), last])


def _length(words: Words) -> int:
    return len(words[0].replace("ceil_div", ""))  # a rounding up reads well however long its name


def _sum(terms: list[tuple[int, Words]]) -> Words:
    terms = sorted(terms, key=lambda term: -term[0])  # N-M rather than -M+N
    if len(terms) == 1 and terms[0][0] > 0:
        return terms[0][1]
    shown = [
        ("-" if sign < 0 else "+") + _bracketed(term, _PRODUCT if sign < 0 else _QUOTIENT)
        for sign, term in terms
    ]
    return "".join(shown).removeprefix("+"), _SUM


def _product(factors: list[Words]) -> Words:
    if len(factors) == 1:
        return factors[0]
    return "*".join(_bracketed(factor, _PRODUCT) for factor in factors), _PRODUCT


def _infix(a: Words, operator: str, b: Words) -> Words:
    return _bracketed(a, _PRODUCT) + operator + _bracketed(b, _ATOM), _QUOTIENT


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
