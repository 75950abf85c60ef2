"""The normal forms of floor(p / d) and min(p, q) over polynomials, and substitution into them."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

from cute_py.errors import refusal
from cute_py.integers.polynomial import (
    FloorDiv,
    Min,
    Symbol,
    constant,
    content,
    divide,
    order,
    plus,
    polynomial_key,
    quotient,
    scaled,
    times,
)
from cute_py.integers.polynomial import value as value_of
from cute_py.integers.symbol_decisions import bounds, frozen, thawed
from cute_py.integers.symbol_text import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cute_py.integers.polynomial import Atom, Polynomial
    from cute_py.integers.symbol_decisions import Frozen


# -- floor(p / d)


def floordiv(p: Polynomial, d: Polynomial) -> Polynomial:
    """Return the normal form of floor(p / d).

    Terms that d divides are taken out; the rest is a number if the bounds leave one value; common
    factors cancel; a quotient of a quotient is one quotient. Raises UndecidedError if d's sign is
    not known.
    """
    return _floordiv(frozen(p), frozen(d))


@lru_cache(maxsize=1024)  # a kernel asks for each about 25 times
def _floordiv(numerator: Frozen, divisor: Frozen) -> Polynomial:
    p, d = thawed(numerator), thawed(divisor)
    number = value_of(d)
    if (number or _sign(p, d)) < 0:
        p, d = scaled(p, -1), scaled(d, -1)
    whole, rest = divide(p, d, exact=True)
    if len(d) > 1 and len(rest) >= len(p):
        whole, rest = {}, p  # division by a long divisor is worth it only if the rest gets shorter
    settled = _settled(rest, d)
    if settled is None and len(d) == 1:
        more, rest = divide(rest, d)
        whole = plus(whole, more)
        settled = _settled(rest, d) if more else None
    if settled is not None:
        return plus(whole, constant(settled))
    return plus(whole, _opaque(rest, d))


def _sign(p: Polynomial, d: Polynomial) -> int:
    """Return the sign of the divisor d; refuse a divisor that is or may be 0."""
    lo, hi = bounds(d)
    if lo is not None and lo > 0:
        return 1
    if hi is not None and hi < 0:
        return -1
    shown = text(d)
    if not d:
        raise refusal("divide-by-zero", operation="div", a=text(p), b=shown)
    statement = f"{shown} >= 1"
    raise refusal("undecided", operation="div", question=statement, assumption=statement)


def _settled(p: Polynomial, d: Polynomial) -> int | None:
    """Return floor(p / d) if the bounds leave one value."""
    n = value_of(d)
    if n is not None:
        lo, hi = bounds(p)
        return lo // n if lo is not None and hi is not None and lo // n == hi // n else None
    for c in (0, -1):
        least, above = plus(p, d, -c), plus(scaled(d, c + 1), p, -1)
        if _at_least(least, 0) and _at_least(above, 1):
            return c
    return None


def _at_least(p: Polynomial, least: int) -> bool:
    lo = bounds(p)[0]
    return lo is not None and lo >= least


def _opaque(p: Polynomial, d: Polynomial) -> Polynomial:
    """Return floor(p / d) if d divides no term of p: cancelled, merged, or an atom."""
    smaller = _cancel(p, d)
    if smaller is not None:
        return floordiv(*smaller)
    merged = _merge(p, d)
    if merged is not None:
        return floordiv(*merged)
    atom = FloorDiv(p, d, _quotient_bounds(p, d))
    return {(atom,): 1}


def _cancel(p: Polynomial, d: Polynomial) -> tuple[Polynomial, Polynomial] | None:
    """Return p and d without common factors: floor((g*a + c) / (g*b)) = floor((a + c//g) / b)."""
    g = gcd(content(p, constant=False), content(d))
    if g > 1:
        return {m: c // g for m, c in p.items() if c // g}, {m: c // g for m, c in d.items()}
    for atom in min(d, key=order):
        positive = atom.lo is not None and atom.lo > 0
        if positive and all(atom in m for m in p) and all(atom in m for m in d):
            return _drop(p, atom), _drop(d, atom)
    return None


def _drop(p: Polynomial, atom: Atom) -> Polynomial:
    return {quotient(m, (atom,)) or (): c for m, c in p.items()}


def _merge(p: Polynomial, d: Polynomial) -> tuple[Polynomial, Polynomial] | None:
    """Return one quotient for floor((floor(a / b) + c) / d), which is floor((a + b*c) / (b*d))."""
    varying = [m for m in p if m]
    if len(varying) != 1 or len(varying[0]) != 1 or p[varying[0]] != 1:
        return None
    atom = varying[0][0]
    if not isinstance(atom, FloorDiv):
        return None
    shift = scaled(atom.divisor, p.get((), 0))
    return plus(atom.numerator, shift), times(atom.divisor, d)


def _quotient_bounds(p: Polynomial, d: Polynomial) -> tuple[int | None, int | None]:
    (low, high), (least, most) = bounds(p), bounds(d)
    assert least is not None
    return _floor(low, least, most), _floor(high, most, least)


def _floor(x: int | None, if_negative: int | None, if_positive: int | None) -> int | None:
    """Return floor(x / divisor) for the divisor that makes it extreme; None is unbounded."""
    if x is None:
        return None
    divisor = if_positive if x >= 0 else if_negative
    return x // divisor if divisor is not None else (0 if x >= 0 else -1)


# -- min(p, q)


def minimum(p: Polynomial, q: Polynomial) -> Polynomial:
    """Return the normal form of min(p, q): flat, only options that may be least, common parts
    outside.
    """
    options = _needed([*_options(p), *_options(q)])
    if len(options) == 1:
        return options[0]
    shift = min(option.get((), 0) for option in options)
    options = [plus(option, constant(-shift)) for option in options]
    g = gcd(*[content(option) for option in options])
    options = [{m: c // g for m, c in option.items()} for option in options]
    boxes = [bounds(option) for option in options]
    lows = [low for low, _ in boxes]
    least = None if None in lows else min(low for low in lows if low is not None)
    most = min((high for _, high in boxes if high is not None), default=None)
    atom = Min(tuple(sorted(options, key=_printing_order)), (least, most))
    return plus({(atom,): g}, constant(shift))


def _printing_order(p: Polynomial) -> tuple[object, ...]:
    return [order(m) for m in sorted(p, key=order)], polynomial_key(p)


def _options(p: Polynomial) -> list[Polynomial]:
    """Return the options of p = c + g*min(...) with g > 0, and [p] for any other p."""
    minima = [m for m in p if m]
    if len(minima) == 1 and len(minima[0]) == 1 and p[minima[0]] > 0:
        atom = minima[0][0]
        if isinstance(atom, Min):
            shift = constant(p.get((), 0))
            return [plus(shift, option, p[minima[0]]) for option in atom.options]
    return [p]


def _needed(options: list[Polynomial]) -> list[Polynomial]:
    kept: list[Polynomial] = []
    for option in options:
        if any(_at_least(plus(option, other, -1), 0) for other in kept):
            continue
        kept = [other for other in kept if not _at_least(plus(other, option, -1), 0)]
        kept.append(option)
    return kept


# -- substitution


def substitute(p: Polynomial, images: Mapping[Symbol, Polynomial]) -> Polynomial:
    """Return p with each symbol's atom replaced by its image, in normal form again."""
    total: Polynomial = {}
    for m, c in p.items():
        term = constant(c)
        for atom in m:
            term = times(term, _image(atom, images))
        total = plus(total, term)
    return total


def _image(atom: Atom, images: Mapping[Symbol, Polynomial]) -> Polynomial:
    if isinstance(atom, Symbol):
        image = images.get(atom)
        return {(atom,): 1} if image is None else image
    if not any(symbol in images for symbol in atom.symbols):
        return {(atom,): 1}
    if isinstance(atom, FloorDiv):
        return floordiv(substitute(atom.numerator, images), substitute(atom.divisor, images))
    assert isinstance(atom, Min)
    image = substitute(atom.options[0], images)
    for option in atom.options[1:]:
        image = minimum(image, substitute(option, images))
    return image
