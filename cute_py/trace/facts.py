"""Facts: the conditions that are true in an open block of the trace, and what they prove.

The condition of a branch is true inside it, that of `cute.break_if` and `cute.return_if` false
after it, and that of `cute.assume` true after it. Symbols do not change, so a fact remains true to
the end of its block. A fact is a polynomial that is at least 0.
"""

from __future__ import annotations

from cute_py.integers.polynomial import Symbol, plus, scaled
from cute_py.integers.symbol_decisions import bounds
from cute_py.integers.symbol_forms import substitute
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import Compare, Logic, Not
from cute_py.trace.state import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.integers.polynomial import Polynomial
    from cute_py.plan.conditions import Cond, Scalar
    from cute_py.trace.state import Premises, Scope

MOST = 16  # facts that are tried, the innermost first


def learn(scope: Scope, cond: Cond, truth: bool = True) -> None:
    """Add what a condition says, or its negation, to the facts of a block."""
    scope.whole = False
    new = tuple(_facts(cond, truth))
    if new:
        scope.facts = (*new, *scope.facts)
        scope.premises = None
        scope.proofs.clear()


def _facts(cond: Cond, truth: bool) -> Iterator[Polynomial]:
    if isinstance(cond, Not):
        yield from _facts(cond.term, not truth)
    elif isinstance(cond, Logic):
        if (cond.test == "and") is truth:
            for term in cond.terms:
                yield from _facts(term, truth)
    elif isinstance(cond, Compare):
        a, b = terms_of(cond.a), terms_of(cond.b)
        less = plus(b, a, -1)  # b - a
        if cond.test in ("eq", "ne"):
            if (cond.test == "eq") is truth:
                yield less
                yield scaled(less, -1)
            else:
                yield from _unequal(less)
        elif truth:
            yield plus(less, {(): 1}, -1) if cond.test == "lt" else less
        else:
            more = scaled(less, -1)
            yield more if cond.test == "lt" else plus(more, {(): 1}, -1)


def _unequal(p: Polynomial) -> Iterator[Polynomial]:
    """Yield the fact that p, which is not 0, is above or below it, if its bounds say which."""
    low, high = bounds(p)
    if low == 0:
        yield plus(p, {(): 1}, -1)
    elif high == 0:
        yield plus(scaled(p, -1), {(): 1}, -1)


def known() -> tuple[Polynomial, ...]:
    """Return the facts of the open blocks, the innermost first."""
    found: list[Polynomial] = []
    scope: Scope | None = current().scope
    while scope is not None:
        found += scope.facts
        scope = scope.parent
    return tuple(found[:MOST])


def decide(question: str, a: Scalar, b: Scalar) -> bool | None:
    """Answer "same" or "less" about integers that the ranges of their symbols leave open."""
    scope = current().scope
    if scope.premises is None:
        scope.premises = _premises(known())
    if not scope.premises[1] or question not in ("same", "less"):
        return None
    proofs, key = scope.proofs, (question, a, b)
    if key not in proofs:
        proofs[key] = _decided(question, plus(terms_of(b), terms_of(a), -1), *scope.premises)
    return proofs[key]


def range_of(x: Scalar) -> tuple[int | None, int | None]:
    """Return the least and the greatest value that an integer can have here; None for no bound."""
    scope = current().scope
    if scope.premises is None:
        scope.premises = _premises(known())
    return bounds(substitute(terms_of(x), scope.premises[0]))


def _premises(facts: tuple[Polynomial, ...]) -> Premises:
    """Return the symbols with narrower bounds, and the facts in these."""
    images = _narrowed(facts)
    return images, tuple([substitute(fact, images) for fact in facts]) if images else facts


def _decided(
    question: str, p: Polynomial, images: dict[Symbol, Polynomial], facts: tuple[Polynomial, ...]
) -> bool | None:
    """Decide p == 0 or p > 0 from premises."""
    if images:
        p = substitute(p, images)
    above, below = plus(p, {(): 1}, -1), scaled(p, -1)
    if question == "less":
        return True if _is_least_0(above, facts) else False if _is_least_0(below, facts) else None
    if _is_least_0(above, facts) or _is_least_0(plus(below, {(): 1}, -1), facts):
        return False
    return True if _is_least_0(p, facts) and _is_least_0(below, facts) else None


def _narrowed(facts: tuple[Polynomial, ...]) -> dict[Symbol, Polynomial]:
    """Return the symbols that facts bound by numbers, with narrower bounds."""
    ends: dict[Symbol, list[int | None]] = {}
    for fact in facts:
        varying = [m for m in fact if m]
        if len(varying) != 1 or len(varying[0]) != 1 or not isinstance(varying[0][0], Symbol):
            continue
        symbol, c, shift = varying[0][0], fact[varying[0]], fact.get((), 0)
        low, high = ends.setdefault(symbol, [symbol.lo, symbol.hi])
        if c > 0:
            end = -(shift // c)
            ends[symbol][0] = end if low is None else max(low, end)
        else:
            end = shift // -c
            ends[symbol][1] = end if high is None else min(high, end)
    return {
        s: {(Symbol(s.name, s.multiple_of, low, high),): 1}
        for s, (low, high) in ends.items()
        if (low, high) != (s.lo, s.hi) and (low is None or high is None or low <= high)
    }


def _is_least_0(p: Polynomial, facts: tuple[Polynomial, ...], depth: int = 2) -> bool:
    """Return whether p >= 0 follows from its bounds and the sum of at most two facts."""
    low, _high = bounds(p)
    if low is not None and low >= 0:
        return True
    if not depth:
        return False
    for fact in facts:
        shared = [p[m] // c for m, c in fact.items() if m and m in p and p[m] * c > 0]
        times = max(shared, default=0)
        if times and _is_least_0(plus(p, fact, -times), facts, depth - 1):
            return True
    return False
