"""Questions about polynomials: True or False only if it holds for every value, else None.

For a question that is left open, `assumption` finds the words that would settle it.
"""

from __future__ import annotations

from math import gcd

from cute_py.integers.polynomial import Symbol, content, divide, plus, scaled, value
from cute_py.integers.symbol_bounds import bounds, interval
from cute_py.integers.symbol_text import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.integers.polynomial import Polynomial


def decide(question: str, a: Polynomial, b: Polynomial) -> bool | None:
    """Answer "same" (a == b), "less" (a < b) or "divides" (b is a multiple of a)."""
    return _DECISIONS[question](a, b)


def _same(a: Polynomial, b: Polynomial) -> bool | None:
    difference = plus(b, a, -1)
    number = value(difference)
    if number is not None:
        return number == 0
    if difference.get((), 0) % content(difference, constant=False):
        return False  # the gcd of what varies does not divide what does not
    for view in (interval, bounds):  # the cheap one first
        lo, hi = view(difference)
        if (lo is not None and lo > 0) or (hi is not None and hi < 0):
            return False
        if lo == hi == 0:
            return True
    return None


def _less(a: Polynomial, b: Polynomial) -> bool | None:
    difference = plus(b, a, -1)
    for view in (interval, bounds):  # the cheap one first
        lo, hi = view(difference)
        if lo is not None and lo > 0:
            return True
        if hi is not None and hi <= 0:
            return False
    return None


def _divides(a: Polynomial, b: Polynomial) -> bool | None:
    if not divide(b, a, exact=True)[1] if a else not b:
        return True
    n = value(a)
    if n is not None:
        varying = gcd(n, content(b, constant=False))  # 0 divides 0 only: gcd(0, c) is c
        if b.get((), 0) % varying if varying else b:
            return False
    below = _less({}, b) and _less(b, a)
    return False if below or (_less({}, a) and _less(b, {}) and _less(scaled(b, -1), a)) else None


_DECISIONS = {"same": _same, "less": _less, "divides": _divides}


# -- what would settle an open question


def assumption(question: str, a: Polynomial, b: Polynomial) -> str:
    """Return what to assume, in words, so that the question is answered with True."""
    words = _divisibility(a, b) if question == "divides" else _range(question, plus(b, a, -1))
    return words or _STATEMENTS[question].format(a=text(a), b=text(b))


_STATEMENTS = {
    "same": "{a} == {b}",
    "less": "{a} < {b}",
    "leq": "{a} <= {b}",
    "divides": "{b} is a multiple of {a}",
}


def _range(question: str, difference: Polynomial) -> str:
    """Return the values of the one symbol in a linear difference that make it 0, > 0 or >= 0."""
    varying = [m for m in difference if m]
    if len(varying) != 1 or len(varying[0]) != 1 or not isinstance(varying[0][0], Symbol):
        return ""
    symbol, c, shift = varying[0][0], difference[varying[0]], difference.get((), 0)
    wanted = (1 if question == "less" else 0) - shift  # c * atom >= wanted
    if question == "same":
        return "" if wanted % c else f"{symbol.name} == {wanted // c * symbol.multiple_of}"
    if c > 0:
        return f"{symbol.name} >= {-(-wanted // c) * symbol.multiple_of}"
    return f"{symbol.name} <= {wanted // c * symbol.multiple_of}"


def _divisibility(a: Polynomial, b: Polynomial) -> str:
    """Return the multiples that the symbols of b must be for the number a to divide every term."""
    n = value(a)
    if not n:
        return ""
    needed: list[str] = []
    for m, c in sorted(b.items(), key=lambda term: text({term[0]: 1})):
        if c % n == 0:
            continue
        if len(m) != 1 or not isinstance(m[0], Symbol):
            return ""
        factor = abs(n) // gcd(n, c)
        needed.append(f"{m[0].name} is a multiple of {m[0].multiple_of * factor}")
    return " and ".join(needed)
