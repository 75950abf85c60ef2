"""Integer expressions and conditions of a plan as LLVM values.

Expressions are polynomials over symbols, floor divisions and minima. Values are 64 bits wide; a
division is done in 32 bits if its operands are known to fit. NVVM narrows the arithmetic of shared
memory addresses itself.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.passes.strength import in_loop
from cute_py.codegen.storage import I32, I64
from cute_py.integers.polynomial import FloorDiv, Min, Symbol, order, plus, times, value
from cute_py.integers.symbol_decisions import bounds
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import Compare, Logic, Not, Test

if TYPE_CHECKING:
    from cute_py.codegen.storage import Words
    from cute_py.integers.polynomial import Atom, Polynomial
    from cute_py.plan.conditions import Cond, Scalar

_FITS, _END = 1 << 31, 1 << 63
WARP = "tid//32"  # the name of the warp's index, which no symbol has


class Scalars:
    """Evaluates scalars and conditions with the values of their symbols."""

    def __init__(self, b: Any, env: dict[str, Any], words: Words) -> None:
        """Keep the builder, symbol -> 64-bit LLVM value, and the registers."""
        self.b, self.env, self.words = b, env, words
        self.known: dict[Atom, Any] = {}  # computed once per op: its code has no branches

    def value(self, x: Scalar) -> Any:
        """Return a scalar as 64 bits."""
        return ir.Constant(I64, x) if isinstance(x, int) else self._sum(terms_of(x))

    def narrow(self, x: Scalar) -> Any:
        """Return a scalar as 32 bits."""
        return ir.Constant(I32, x) if isinstance(x, int) else self.b.trunc(self.value(x), I32)

    def _sum(self, p: Polynomial) -> Any:
        """Return the sum of the terms, loop-variant ones last, so that the others are hoisted."""
        total = ir.Constant(I64, p.get((), 0))
        for monomial in sorted((m for m in p if m), key=lambda m: (_varies(m), order(m))):
            total = self.b.add(total, self._term(monomial, p[monomial]))
        return total

    def _term(self, monomial: tuple[Atom, ...], c: int) -> Any:
        product = None
        for atom in monomial:
            if isinstance(atom, Symbol):
                taken = gcd(c, atom.multiple_of)
                c //= taken
                factor = self.env[atom.name]
                if taken != atom.multiple_of:
                    divisor = ir.Constant(I64, atom.multiple_of // taken)
                    factor = self.b.sdiv(factor, divisor)
            else:
                factor = self._atom(atom)
            product = factor if product is None else self.b.mul(product, factor)
        assert product is not None
        return product if c == 1 else self.b.mul(product, ir.Constant(I64, c))

    def _atom(self, atom: Atom) -> Any:
        if atom not in self.known:
            self.known[atom] = self._computed(atom)
        return self.known[atom]

    def _computed(self, atom: Atom) -> Any:
        if isinstance(atom, FloorDiv):
            return self._floor(atom)
        assert isinstance(atom, Min)
        least = self._sum(atom.options[0])
        for option in atom.options[1:]:
            other = self._sum(option)
            least = self.b.select(self.b.icmp_signed("<", other, least), other, least)
        return least

    def _floor(self, atom: FloorDiv) -> Any:
        """Return a quotient. The normal form of (a - b)//n is (a + (n-1)*b)//n - b, whose product
        may overflow 64 bits, so b is taken out again.
        """
        p, whole = atom.numerator, _taken_out(atom)
        if not whole:
            return self._quotient(p, atom.divisor)
        rest = plus(p, times(whole, atom.divisor), -1)
        return self.b.add(self._sum(whole), self._quotient(rest, atom.divisor))

    def _quotient(self, numerator: Polynomial, divisor: Polynomial) -> Any:
        b = self.b
        if WARP in self.env and (warps := _warps(numerator, divisor)):
            return b.zext(b.udiv(self.env[WARP], ir.Constant(I32, warps)), I64)
        p, d = self._sum(numerator), self._sum(divisor)
        (low, high), (least, most) = bounds(numerator), bounds(divisor)
        if low is not None and low >= 0:
            if high is not None and high < _FITS and most is not None and most < _FITS:
                p, d = b.trunc(p, I32), b.trunc(d, I32)
            if high is not None and least is not None and high < 2 * least:  # 0 or 1
                return b.zext(b.icmp_unsigned(">=", p, d), I64)
            return b.zext(b.udiv(p, d), I64)
        quotient, rest = b.sdiv(p, d), b.srem(p, d)
        below = b.icmp_signed("<", rest, ir.Constant(I64, 0))
        return b.sub(quotient, b.zext(below, I64))

    # -- conditions

    def holds(self, cond: Cond) -> Any:
        """Return a condition as one bit."""
        if isinstance(cond, Compare):
            sign = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}[cond.test]
            return self.b.icmp_signed(sign, self.value(cond.a), self.value(cond.b))
        if isinstance(cond, Logic):
            join = self.b.and_ if cond.test == "and" else self.b.or_
            total = self.holds(cond.terms[0])
            for term in cond.terms[1:]:
                total = join(total, self.holds(term))
            return total
        if isinstance(cond, Not):
            return self.b.not_(self.holds(cond.term))
        assert isinstance(cond, Test)
        return self.words.get(cond.reg, 0)


def of_first_lane(cond: Cond) -> bool:
    """Return whether only threads whose index is a multiple of 32 satisfy a condition."""
    if isinstance(cond, Logic):
        return cond.test == "and" and any(map(of_first_lane, cond.terms))
    if not isinstance(cond, Compare) or cond.test != "eq":
        return False
    rest = plus(terms_of(cond.a), terms_of(cond.b), -1)
    threads = [m for m in rest if [getattr(atom, "name", "") for atom in m] == ["tid"]]
    return [rest.pop(m) for m in threads] == [1] and all(c % 32 == 0 for c in rest.values())


def has_warps(p: Polynomial) -> bool:
    """Return whether a sum is computed with the index of the thread's warp."""
    atoms = [atom for m in p for atom in m]
    inner = [q for atom in atoms for q in _operands(atom)]
    return any(isinstance(x, FloorDiv) and _warps(x.numerator, x.divisor) for x in atoms) or any(
        map(has_warps, inner)
    )


def _operands(atom: Atom) -> tuple[Polynomial, ...]:
    if isinstance(atom, FloorDiv):
        return atom.numerator, atom.divisor
    return atom.options if isinstance(atom, Min) else ()


def _warps(numerator: Polynomial, divisor: Polynomial) -> int:
    """Return n for the quotient tid // (32*n), 0 for any other."""
    d = value(divisor)
    if d is None or d % 32 or len(numerator) != 1:
        return 0
    ((monomial, c),) = numerator.items()
    is_thread = c == 1 and [getattr(atom, "name", "") for atom in monomial] == ["tid"]
    return d // 32 if is_thread else 0


def _taken_out(atom: FloorDiv) -> Polynomial:
    """Return the terms to take out of a quotient, so that no coefficient exceeds half the divisor;
    none if the numerator is known to fit.
    """
    n, (low, high) = value(atom.divisor), bounds(atom.numerator)
    if n is None or (low is not None and high is not None and -_END <= low <= high < _END):
        return {}
    return {m: 1 for m, c in atom.numerator.items() if m and 2 * c > n}


def _varies(monomial: tuple[Atom, ...]) -> bool:
    return any(in_loop(s.name) for atom in monomial for s in atom.symbols)
