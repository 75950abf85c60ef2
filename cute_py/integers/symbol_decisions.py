"""Questions about polynomials, and their bounds: True or False if that is the answer for every
value, else None.

For an undecided question, `assumption` returns an assumption that would decide it. Bounds come from
plain interval arithmetic first. It treats repeated atoms as independent, so two more views are
intersected with it:

- *shifting*: with m = lo + m' (or hi - m') and m' >= 0, M*N - N is m'*n + m' and so at least 0;
- *relaxing*: n*floor(e / n) is e - r with r in [0, n-1], so that M - 8*floor(M / 8) is just r.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import gcd

from cute_py.integers.ints import statement
from cute_py.integers.polynomial import (
    Atom,
    FloorDiv,
    Min,
    Symbol,
    constant,
    content,
    divide,
    plus,
    quotients,
    scaled,
    times,
    value,
)
from cute_py.integers.polynomial import value as value_of
from cute_py.integers.symbol_text import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from cute_py.integers.polynomial import Bounds, Monomial, Polynomial

    Frozen: TypeAlias = tuple[tuple[Any, ...], ...]  # (monomial, coefficient, *bounds) of each term

NO_BOUNDS: Bounds = (None, None)
_EFFORT = 4  # the depth of nested quotients and minima that are relaxed
_MAX_FLIPS = 3  # atoms with two bounds for which both shifts are tried
_MAX_TERMS, _MAX_DEGREE = 24, 4  # larger polynomials are not shifted


class Slack(Atom):
    """A nameless unknown in [lo, hi] that takes an atom's place while its bounds are searched."""

    __slots__ = ()

    def __init__(self, key: str, bounds: Bounds) -> None:
        """Freeze the unknown; equal keys are the same unknown."""
        self._freeze(key, bounds, ())


def bounds(p: Polynomial, effort: int = _EFFORT) -> Bounds:
    """Return the (least, greatest) value of p, None if no bound is known."""
    if len(p) < 2:
        return interval(p)
    return _bounds(frozen(p), effort)


def frozen(p: Polynomial) -> Frozen:
    """Return a polynomial as a key, with bounds: equal atoms that are nameless may have others."""
    return tuple([(m, c, *[(a.lo, a.hi) for a in m]) for m, c in p.items()])


def thawed(terms: Frozen) -> Polynomial:
    """Return the polynomial of a key."""
    return {term[0]: term[1] for term in terms}


@lru_cache(maxsize=4096)  # a kernel asks for each about eight times
def _bounds(terms: Frozen, effort: int) -> Bounds:
    """Return the bounds of a polynomial of at least two terms."""
    p = thawed(terms)
    box = interval(p)
    atoms = {atom for m in p for atom in m}
    opaque = [atom for atom in atoms if isinstance(atom, (FloorDiv, Min))]
    if sum(len(m) for m in p) > len(atoms):  # else the interval is exact for free atoms
        box = _meet(box, _shifted(p))
    if opaque and effort:
        # First the atoms that are relaxed without loss: 8*floor(x / 4), not 8*floor(x / 64). Of
        # these, the one with the longest key is not nested in another.
        atom = max(opaque, key=lambda a: (_is_whole(p, a), len(a.key), a.key))
        box = _meet(box, _without(p, atom, effort - 1))
    return box


def _meet(a: Bounds, b: Bounds) -> Bounds:
    lows = [x for x in (a[0], b[0]) if x is not None]
    highs = [x for x in (a[1], b[1]) if x is not None]
    return (max(lows, default=None), min(highs, default=None))


def _hull(a: Bounds, b: Bounds) -> Bounds:
    lo = None if a[0] is None or b[0] is None else min(a[0], b[0])
    hi = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return lo, hi


# -- interval arithmetic


def interval(p: Polynomial) -> Bounds:
    """Return bounds of p with each occurrence of an atom treated as independent."""
    lo: int | None = 0
    hi: int | None = 0
    for m, c in p.items():
        box: Bounds = (1, 1)
        for atom in m:
            box = _product(box, (atom.lo, atom.hi))
        low, high = box if c > 0 else (box[1], box[0])
        lo = None if lo is None or low is None else lo + c * low
        hi = None if hi is None or high is None else hi + c * high
    return lo, hi


def _product(p: Bounds, q: Bounds) -> Bounds:
    (a, b), (c, d) = p, q
    if (0, 0) in (p, q):
        return 0, 0
    if a is not None and a >= 0:
        if c is not None and c >= 0:
            return a * c, None if b is None or d is None else b * d
        low = None if b is None or c is None else b * c
        if d is None or d >= 0:
            return low, None if b is None or d is None else b * d
        return low, a * d
    if c is not None and c >= 0:
        return _product(q, p)
    if b is not None and b <= 0:
        return _negative(_product(_negative(p), q))
    if d is not None and d <= 0:
        return _negative(_product(p, _negative(q)))
    if a is None or b is None or c is None or d is None:
        return NO_BOUNDS
    return min(a * d, b * c), max(a * c, b * d)


def _negative(p: Bounds) -> Bounds:
    return None if p[1] is None else -p[1], None if p[0] is None else -p[0]


# -- shifting


def _shifted(p: Polynomial) -> Bounds:
    """Return the interval of p with atoms counted from a bound, over several choices."""
    box = NO_BOUNDS
    if len(p) > _MAX_TERMS or max(map(len, p)) > _MAX_DEGREE:
        return box
    atoms = sorted({a for m in p for a in m if (a.lo, a.hi) != NO_BOUNDS}, key=lambda a: a.key)
    two_sided = [a for a in atoms if a.lo is not None and a.hi is not None]
    for from_top in product((False, True), repeat=min(len(two_sided), _MAX_FLIPS)):
        flipped = {a for a, top in zip(two_sided, from_top, strict=False) if top}
        images = {a: _counted_from_bound(a, a.lo is None or a in flipped) for a in atoms}
        box = _meet(box, interval(_replaced(p, images)))
    return box


def _counted_from_bound(atom: Atom, from_top: bool) -> Polynomial:
    width = None if atom.lo is None or atom.hi is None else atom.hi - atom.lo
    slack = Slack(atom.key + "'", (0, width))
    bound = atom.hi if from_top else atom.lo
    return plus(constant(bound or 0), {(slack,): -1 if from_top else 1})


def _replaced(p: Polynomial, images: dict[Atom, Polynomial]) -> Polynomial:
    total: Polynomial = {}
    for m, c in p.items():
        term = constant(c)
        for atom in m:
            term = times(term, images.get(atom) or {(atom,): 1})
        total = plus(total, term)
    return total


# -- relaxing


def _without(p: Polynomial, atom: Atom, effort: int) -> Bounds:
    """Return bounds of p with an opaque atom replaced by a relaxation."""
    split = _linear(p, atom)
    if split is None:
        return NO_BOUNDS
    factor, rest = split
    if isinstance(atom, Min):
        return _without_min(atom, factor, rest, effort)
    assert isinstance(atom, FloorDiv)
    n = value_of(atom.divisor)
    if n is not None:
        taken = plus(atom.numerator, {(Slack(f"{atom.key} mod", (0, n - 1)),): -1})
        return _quotient(bounds(plus(scaled(rest, n), times(factor, taken)), effort), n)
    box = _without_least(atom, factor, rest, effort)
    floors = [a for m in rest for a in m if isinstance(a, FloorDiv)]
    for e, d in quotients(atom, floors):
        share, left = divide(factor, d, exact=True)
        if not left:
            box = _meet(box, _without_remainder(atom, e, d, share, rest, effort))
    return box


def _without_remainder(
    atom: Atom, e: Polynomial, d: Polynomial, share: Polynomial, rest: Polynomial, effort: int
) -> Bounds:
    """Return bounds of share * d * floor(e / d) + rest: the middle is e - r with r in [0, d-1]."""
    most = bounds(d)[1]
    slack: Monomial = (Slack(f"{atom.key} mod", (0, None if most is None else most - 1)),)
    box = NO_BOUNDS
    for remainder in ({slack: 1}, plus(plus(d, constant(1), -1), {slack: -1})):
        taken = times(share, plus(e, remainder, -1))
        box = _meet(box, bounds(plus(rest, taken), effort))
    return box


def _without_least(atom: FloorDiv, factor: Polynomial, rest: Polynomial, effort: int) -> Bounds:
    """Return bounds of factor * floor(e / d) + rest from floor(e / d) <= e / least d."""
    least, lowest = bounds(atom.divisor)[0], bounds(atom.numerator)[0]
    if least is None or lowest is None or lowest < 0:
        return NO_BOUNDS
    taken = plus(atom.numerator, {(Slack(f"{atom.key} gap", (0, None)),): -1})
    return _quotient(bounds(plus(scaled(rest, least), times(factor, taken)), effort), least)


def _without_min(atom: Min, factor: Polynomial, rest: Polynomial, effort: int) -> Bounds:
    boxes = [bounds(plus(rest, times(factor, option)), effort) for option in atom.options]
    hull = boxes[0]
    for box in boxes[1:]:
        hull = _hull(hull, box)
    low, high = bounds(factor)
    if low is not None and low >= 0:  # least times a positive factor: below every option
        hull = hull[0], min((b[1] for b in boxes if b[1] is not None), default=None)
    if high is not None and high <= 0:
        hull = max((b[0] for b in boxes if b[0] is not None), default=None), hull[1]
    return hull


def _is_whole(p: Polynomial, atom: Atom) -> bool:
    """Return whether all factors of a quotient in p are multiples of its divisor, a number."""
    n = value_of(atom.divisor) if isinstance(atom, FloorDiv) else None
    return n is not None and all(c % n == 0 for m, c in p.items() if atom in m)


def _linear(p: Polynomial, atom: Atom) -> tuple[Polynomial, Polynomial] | None:
    """Return (f, r) with p = f*atom + r, or None if the atom occurs in a higher power."""
    factor: Polynomial = {}
    rest: Polynomial = {}
    for m, c in p.items():
        count = m.count(atom)
        if count > 1:
            return None
        if count:
            factor[_drop(m, atom)] = c
        else:
            rest[m] = c
    return factor, rest


def _drop(m: Monomial, atom: Atom) -> Monomial:
    return tuple(a for a in m if a != atom)


def _quotient(box: Bounds, n: int) -> Bounds:
    """Return the bounds of the integers x with n * x in `box`."""
    return None if box[0] is None else -(-box[0] // n), None if box[1] is None else box[1] // n


# -- decisions


def decide(question: str, a: Polynomial, b: Polynomial) -> bool | None:
    """Answer "same" (a == b), "less" (a < b) or "divides" (b is a multiple of a)."""
    return decision(question, a, b)[0]


def decision(question: str, a: Polynomial, b: Polynomial) -> tuple[bool | None, str]:
    """Return the answer of `decide`, and its reason."""
    return _DECISIONS[question](a, b)


def _same(a: Polynomial, b: Polynomial) -> tuple[bool | None, str]:
    difference = plus(b, a, -1)
    number = value(difference)
    if number is not None:
        return number == 0, "by normal form"
    if difference.get((), 0) % content(difference, constant=False):
        return False, "the gcd of what varies does not divide what does not"
    for view in (interval, bounds):  # the cheap one first
        lo, hi = view(difference)
        if (lo is not None and lo > 0) or (hi is not None and hi < 0) or lo == hi == 0:
            return lo == hi == 0, "by the bounds of the difference"
    return None, ""


def _less(a: Polynomial, b: Polynomial) -> tuple[bool | None, str]:
    difference = plus(b, a, -1)
    for view in (interval, bounds):  # the cheap one first
        lo, hi = view(difference)
        if (lo is not None and lo > 0) or (hi is not None and hi <= 0):
            return lo is not None and lo > 0, "by the bounds of the difference"
    return None, ""


def _divides(a: Polynomial, b: Polynomial) -> tuple[bool | None, str]:
    if not divide(b, a, exact=True)[1] if a else not b:
        return True, "by normal form"
    n = value(a)
    if n is not None:
        varying = gcd(n, content(b, constant=False))  # 0 divides 0 only: gcd(0, c) is c
        if b.get((), 0) % varying if varying else b:
            return False, "what does not vary leaves a remainder"
    if any(_less({}, size)[0] and _less(size, a)[0] for size in (b, scaled(b, -1))):
        return False, "by bounds: it is smaller, and not 0"
    return None, ""


_DECISIONS = {"same": _same, "less": _less, "divides": _divides}


# -- assumptions that would decide a question


def assumption(question: str, a: Polynomial, b: Polynomial) -> str:
    """Return the assumption, in words, under which the question is True."""
    words = _divisibility(a, b) if question == "divides" else _range(question, plus(b, a, -1))
    return words or statement(question, text(a), text(b))


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
    """Return the divisibility of the symbols of b with which the number a divides every term."""
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
