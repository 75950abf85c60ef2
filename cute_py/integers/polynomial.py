"""Polynomials with integer coefficients over atoms: the normal form under symbolic integers.

A polynomial is a dict from monomial to coefficient, without zero coefficients, never changed after
it is built. A monomial is a tuple of atoms sorted by key, and `()` is the monomial of the constant.
There are three kinds of atoms:

- `Symbol`, the number of multiples in a declared size: "8 divides M" is the substitution M = 8*m,
  and m is the atom. M is then the polynomial 8*m, M // 8 is m, and divisibility is a gcd;
- `FloorDiv`, floor(numerator / divisor), if the normal form cannot simplify it;
- `Min`, the least of several polynomials, if none of them is known to be the least.

There is no atom for the remainder: e mod d is e - d*floor(e / d), so that M // 8 * 8 + M % 8 is M
without any rule. `symbol_forms` builds the last two kinds in normal form.
"""

from __future__ import annotations

from math import gcd, lcm

from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeAlias

    Bounds: TypeAlias = tuple[int | None, int | None]  # least and greatest value, None: no bound


class Atom(Value):
    """An unknown integer in [lo, hi]; the key identifies it and orders the printing."""

    __slots__ = ("_hash", "hi", "key", "lo", "symbols")
    key: str
    lo: int | None
    hi: int | None
    symbols: tuple[Symbol, ...]  # the symbols that its value depends on
    _hash: int

    def _freeze(self, key: str, bounds: Bounds, symbols: tuple[Symbol, ...]) -> None:
        self.key = key
        self.lo, self.hi = bounds
        self.symbols = symbols
        self._hash = hash(key)

    @property
    def bounds(self) -> Bounds:
        """Least and greatest value."""
        return self.lo, self.hi

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Atom) and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash


class Symbol(Atom):
    """The atom of a declared size: its value is multiple_of * atom, with the atom in [lo, hi]."""

    __slots__ = ("multiple_of", "name")
    __match_args__ = ("name", "multiple_of", "lo", "hi")
    name: str
    multiple_of: int

    def __init__(self, name: str, multiple_of: int, lo: int | None, hi: int | None) -> None:
        """Freeze the declaration; lo and hi bound the atom, not the size."""
        self.name = name
        self.multiple_of = multiple_of
        self._freeze(f"{name}|{multiple_of}|{lo}|{hi}", (lo, hi), (self,))

    def __repr__(self) -> str:
        words = [repr(self.name)]
        if self.multiple_of != 1:
            words.append(f"multiple_of={self.multiple_of}")
        if self.lo != 1:
            words.append(f"min={None if self.lo is None else self.lo * self.multiple_of}")
        if self.hi is not None:
            words.append(f"max={self.hi * self.multiple_of}")
        return f"sym({', '.join(words)})"


class FloorDiv(Atom):
    """floor(numerator / divisor), for a divisor that is known to be positive."""

    __slots__ = ("divisor", "numerator")
    __match_args__ = ("numerator", "divisor", "bounds")
    numerator: Polynomial
    divisor: Polynomial

    def __init__(self, numerator: Polynomial, divisor: Polynomial, bounds: Bounds) -> None:
        """Freeze a quotient in normal form (`symbol_forms.floordiv` makes it)."""
        self.numerator = numerator
        self.divisor = divisor
        key = f"~({polynomial_key(numerator)})//({polynomial_key(divisor)})"
        self._freeze(key, bounds, symbols_of(numerator, divisor))


class Min(Atom):
    """The least of two or more polynomials."""

    __slots__ = ("options",)
    __match_args__ = ("options", "bounds")
    options: tuple[Polynomial, ...]

    def __init__(self, options: tuple[Polynomial, ...], bounds: Bounds) -> None:
        """Freeze a minimum in normal form (`symbol_forms.minimum` makes it)."""
        self.options = options
        key = f"~min({','.join(polynomial_key(option) for option in options)})"
        self._freeze(key, bounds, symbols_of(*options))


if TYPE_CHECKING:
    Monomial: TypeAlias = tuple[Atom, ...]
    Polynomial: TypeAlias = dict[Monomial, int]


def polynomial_key(p: Polynomial) -> str:
    """Return a text that is equal exactly for equal polynomials."""
    terms = sorted(p, key=order) if len(p) > 1 else p
    return "+".join([f"{p[m]}*{'*'.join([a.key for a in m])}" for m in terms])


def order(m: Monomial) -> tuple[object, ...]:
    """Return the sort key of monomials: graded, then by the atoms' keys; the leading one first."""
    return (-len(m), [atom.key for atom in m])


def symbols_of(*polynomials: Polynomial) -> tuple[Symbol, ...]:
    """Return every symbol that the polynomials depend on, once, sorted."""
    found = {s for p in polynomials for m in p for atom in m for s in atom.symbols}
    return tuple(sorted(found, key=_key) if len(found) > 1 else found)


def numbers_of(p: Polynomial) -> Iterator[int]:
    """Yield the coefficients of a polynomial, and of the polynomials inside its atoms."""
    yield from p.values()
    for m in p:
        for atom in m:
            if isinstance(atom, FloorDiv):
                yield from numbers_of(atom.numerator)
                yield from numbers_of(atom.divisor)
            elif isinstance(atom, Min):
                for option in atom.options:
                    yield from numbers_of(option)


def divisors_of(p: Polynomial) -> Iterator[Polynomial]:
    """Yield the divisors, other than numbers, of the quotients in a polynomial."""
    for m in p:
        for atom in m:
            if isinstance(atom, FloorDiv):
                if value(atom.divisor) is None:
                    yield atom.divisor
                yield from divisors_of(atom.numerator)
                yield from divisors_of(atom.divisor)
            elif isinstance(atom, Min):
                for option in atom.options:
                    yield from divisors_of(option)


def _key(atom: Atom) -> str:
    return atom.key


# -- arithmetic


def constant(c: int) -> Polynomial:
    """Return the polynomial of a number."""
    return {(): c} if c else {}


def value(p: Polynomial) -> int | None:
    """Return the number that p is, or None."""
    if not p:
        return 0
    return p.get(()) if len(p) == 1 else None


def plus(p: Polynomial, q: Polynomial, factor: int = 1) -> Polynomial:
    """Return p + factor * q."""
    total = dict(p)
    for m, c in q.items():
        c = total.get(m, 0) + factor * c
        if c:
            total[m] = c
        else:
            total.pop(m, None)
    return total


def scaled(p: Polynomial, factor: int) -> Polynomial:
    """Return factor * p."""
    return {m: c * factor for m, c in p.items()} if factor else {}


def times(p: Polynomial, q: Polynomial) -> Polynomial:
    """Return p * q."""
    if len(q) == 1 and () in q:
        return scaled(p, q[()])
    total: Polynomial = {}
    for m, c in p.items():
        for n, d in q.items():
            product = join(m, n)
            total[product] = total.get(product, 0) + c * d
    return {m: c for m, c in total.items() if c}


def join(m: Monomial, n: Monomial) -> Monomial:
    """Return the product of two monomials."""
    if not m or not n:
        return m or n
    return tuple(sorted(m + n, key=_key))


def quotient(m: Monomial, n: Monomial) -> Monomial | None:
    """Return m / n, or None if n does not divide m."""
    rest = list(m)
    for atom in n:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def divide(p: Polynomial, d: Polynomial, exact: bool = False) -> tuple[Polynomial, Polynomial]:
    """Return (q, r) with p = q*d + r, where no term of r is divisible by d's leading term.

    The coefficients of r on multiples of d's leading monomial are in [0, c), with c the leading
    coefficient. With `exact`, a term goes to q only if its coefficient is a multiple of c, else to
    r unchanged.
    """
    if len(d) == 1 and () in d:
        return _divide_by_number(p, d[()], exact)
    lead = min(d, key=order)
    step, rest, q, r = d[lead], dict(p), {}, {}
    while rest:
        top = min(rest, key=order) if len(rest) > 1 else next(iter(rest))
        m, c = quotient(top, lead), rest[top]
        whole = 0 if m is None or (exact and c % step) else c // step
        if whole and m is not None:
            q[m] = whole
            rest = plus(rest, {join(m, n): e for n, e in d.items()}, -whole)
        if top in rest:
            r[top] = rest.pop(top)
    return q, r


def _divide_by_number(p: Polynomial, n: int, exact: bool) -> tuple[Polynomial, Polynomial]:
    q: Polynomial = {}
    r: Polynomial = {}
    for m, c in p.items():
        whole, left = divmod(c, n)
        if exact and left:
            whole, left = 0, c
        if whole:
            q[m] = whole
        if left:
            r[m] = left
    return q, r


def content(p: Polynomial, *, constant: bool = True) -> int:
    """Return the gcd of p's coefficients, with or without the constant one; 0 for none."""
    if constant or () not in p:
        return gcd(*p.values())
    return gcd(*[c for m, c in p.items() if m])


def quotients(atom: FloorDiv, floors: Iterable[FloorDiv]) -> list[tuple[Polynomial, Polynomial]]:
    """Return the (e, d) with atom = floor(e / d): those of the atom, and those with e a floor."""
    found = [(atom.numerator, atom.divisor)]
    for finer in floors:
        if finer.numerator == atom.numerator and finer != atom:
            d, rest = divide(atom.divisor, finer.divisor, exact=True)
            if not rest:
                found.append(({(finer,): 1}, d))
    return found


# -- values


def evaluate(p: Polynomial, at: Mapping[str, int]) -> int:
    """Return the value of p if each symbol's atom (size / multiple_of) is `at[name]`."""
    total = 0
    for m, c in p.items():
        for atom in m:
            c *= _value(atom, at)
        total += c
    return total


def _value(atom: Atom, at: Mapping[str, int]) -> int:
    if isinstance(atom, Symbol):
        return at[atom.name]
    if isinstance(atom, FloorDiv):
        return evaluate(atom.numerator, at) // evaluate(atom.divisor, at)
    assert isinstance(atom, Min)
    return min(evaluate(option, at) for option in atom.options)


def period(p: Polynomial) -> int:
    """Return n such that p's floors by numbers are linear along the residue classes mod n."""
    return lcm(*[_period(atom) for m in p for atom in m])


def _period(atom: Atom) -> int:
    if isinstance(atom, FloorDiv):
        return (value(atom.divisor) or 1) * period(atom.numerator) * period(atom.divisor)
    if isinstance(atom, Min):
        return lcm(*[period(option) for option in atom.options])
    return 1
