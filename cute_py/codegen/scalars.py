"""Integer expressions and conditions of a plan as LLVM values.

Expressions are polynomials over symbols, floor divisions and minima. They wrap around at 64 bits,
but most are known to fit 32. Sums and products are then computed in 32 bits, whatever their terms
are: the lower 32 bits of the result depend on those of the terms alone. A division, a comparison
and a minimum are done in 32 bits if their operands fit. A longer sum is one of products of a part
that fits and a factor that does not, as an offset is a coordinate times a stride.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.passes.strength import in_loop
from cute_py.codegen.storage import I32, I64
from cute_py.integers.polynomial import FloorDiv, Min, Symbol, order, plus, scaled, times, value
from cute_py.integers.symbol_decisions import bounds
from cute_py.integers.symbol_forms import floordiv
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan.conditions import Compare, Logic, Not, Test, fits, within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.codegen.storage import Words
    from cute_py.integers.polynomial import Atom, Polynomial
    from cute_py.plan.conditions import Cond, Scalar

    Monomial = tuple[Atom, ...]

_END = 1 << 63
WARP = "tid//32"  # the name of the warp's index, which no symbol has


class Scalars:
    """Evaluates scalars and conditions with the values of their symbols."""

    def __init__(
        self, b: Any, env: dict[str, Any], words: Words, multipliers: dict[Scalar, str]
    ) -> None:
        """Keep the builder, symbol -> 64-bit LLVM value, the registers, and the names of the
        multipliers of divisors.
        """
        self.b, self.env, self.words, self.multipliers = b, env, words, multipliers
        self.known: dict[Atom, Any] = {}  # computed once per op: its code has no branches

    def value(self, x: Scalar) -> Any:
        """Return a scalar as 64 bits."""
        return ir.Constant(I64, x) if isinstance(x, int) else self.sum(terms_of(x), I64)

    def narrow(self, x: Scalar) -> Any:
        """Return the lower 32 bits of a scalar."""
        return ir.Constant(I32, x) if isinstance(x, int) else self.sum(terms_of(x), I32)

    def natural(self, x: Scalar) -> Any:
        """Return a scalar as 32 bits if it is known to fit them, else as 64."""
        p = terms_of(x)
        return self.sum(p, I32 if fits(p) else I64)

    def sum(self, p: Polynomial, kind: Any) -> Any:
        """Return the sum of the terms, loop-variant ones last, so that the others are hoisted."""
        if kind == I64 and fits(p):
            return self.b.sext(self.sum(p, I32), I64)
        parts, groups = (p, {}) if kind == I32 else _split(p)
        if parts is not p and fits(parts):
            total = self.sum(parts, I64)
        else:
            total = ir.Constant(kind, parts.get((), 0))
            for m in sorted((m for m in parts if m), key=lambda m: (_varies(m), order(m))):
                total = self.b.add(total, self._term(m, parts[m], kind))
        return self._products(groups, total)

    def _products(self, groups: dict[Atom, Polynomial], total: Any) -> Any:
        """Return the total plus the products of atoms with the sums of their factors."""
        for wide, factor in self._by_variance(groups):
            c = gcd(*factor.values())
            taken = self._unit_of(wide, c)
            product = self.b.mul(
                self.sum({m: n // taken for m, n in factor.items()}, I64),
                self._factor(wide, taken, I64),
            )
            total = self.b.add(total, product)
        return total

    @staticmethod
    def _by_variance(groups: dict[Atom, Polynomial]) -> Iterator[tuple[Atom, Polynomial]]:
        """Yield (atom, factors), with the loop-variant factors apart and last."""
        ordered = sorted(groups, key=lambda atom: (_varies((atom,)), order((atom,))))
        for varying in (False, True):
            for atom in ordered:
                factor = {m: c for m, c in groups[atom].items() if _varies(m) is varying}
                if factor:
                    yield atom, factor

    def _term(self, monomial: Monomial, c: int, kind: Any) -> Any:
        product = None
        for atom in monomial:
            taken = self._unit_of(atom, c)
            c //= taken
            factor = self._factor(atom, taken, kind)
            product = factor if product is None else self.b.mul(product, factor)
        assert product is not None
        return product if c == 1 else self.b.mul(product, ir.Constant(kind, c))

    @staticmethod
    def _unit_of(atom: Atom, c: int) -> int:
        """Return the part of a coefficient that the value of a symbol has as a factor."""
        return gcd(c, atom.multiple_of) if isinstance(atom, Symbol) else 1

    def _factor(self, atom: Atom, taken: int, kind: Any) -> Any:
        """Return an atom, times `taken` if it is a symbol: its value is multiple_of * atom."""
        if not isinstance(atom, Symbol):
            if atom not in self.known:
                self.known[atom] = self._computed(atom)
            return self._as(self.known[atom], kind)
        found, divisor = self.env[atom.name], atom.multiple_of // taken
        narrow = fits({(atom,): atom.multiple_of})
        if narrow or divisor == 1:
            found = self._as(found, I32 if narrow else kind)
        if divisor != 1:
            found = self.b.sdiv(found, ir.Constant(found.type, divisor), flags=("exact",))
        return self._as(found, kind)

    def _as(self, found: Any, kind: Any) -> Any:
        """Return a value as wide as `kind`; one of 32 bits is signed."""
        if found.type == kind:
            return found
        return self.b.trunc(found, I32) if kind == I32 else self.b.sext(found, I64)

    # -- divisions and minima

    def _computed(self, atom: Atom) -> Any:
        if isinstance(atom, FloorDiv):
            return self._floor(atom)
        assert isinstance(atom, Min)
        kind = I32 if all(map(fits, atom.options)) else I64
        least = self.sum(atom.options[0], kind)
        for option in atom.options[1:]:
            other = self.sum(option, kind)
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
        quotient = self._as(self._quotient(rest, atom.divisor), I64)
        return self.b.add(self.sum(whole, I64), quotient)

    def _quotient(self, numerator: Polynomial, divisor: Polynomial) -> Any:
        b = self.b
        if WARP in self.env and (found := _warps(numerator, divisor)):
            first, warps = (ir.Constant(I32, x) for x in found)
            return b.udiv(b.add(self.env[WARP], first), warps)
        (low, high), (least, _most) = bounds(numerator), bounds(divisor)
        positive = low is not None and low >= 0
        multiplier = self.multipliers.get(SymInt(divisor))
        if multiplier is not None and fits(numerator):
            return self._by_multiplier(self.sum(numerator, I32), multiplier, positive)
        if positive and fits(numerator) and not fits(divisor):
            return b.udiv(self.sum(numerator, I32), self._clamped(self.sum(divisor, I64)))
        narrow = fits(divisor) and within(numerator, -1 << 31, 1 << 32 if positive else 1 << 31)
        kind = I32 if narrow else I64
        p, d = self.sum(numerator, kind), self.sum(divisor, kind)
        n = value(divisor)
        if positive:
            if high is not None and least is not None and high < 2 * least:  # 0 or 1
                return b.zext(b.icmp_unsigned(">=", p, d), kind)
            return b.udiv(p, d)
        if n is not None and not n & (n - 1):
            return b.ashr(p, ir.Constant(kind, n.bit_length() - 1))
        quotient, rest = b.sdiv(p, d), b.srem(p, d)
        below = b.icmp_signed("<", rest, ir.Constant(kind, 0))
        return b.sub(quotient, b.zext(below, kind))

    def _by_multiplier(self, p: Any, name: str, positive: bool) -> Any:
        """Return the quotient of 32 bits by the divisor of a multiplier, rounded down:
        -1 - x // d is (-1 - x) // d.
        """
        b, found = self.b, self.env[name]
        sign = None if positive else b.ashr(p, ir.Constant(I32, 31))
        p = p if sign is None else b.xor(p, sign)
        twice = b.zext(b.shl(p, ir.Constant(I32, 1)), I64)
        product = b.mul(twice, b.zext(b.trunc(found, I32), I64))
        high = b.trunc(b.lshr(product, ir.Constant(I64, 32)), I32)
        quotient = b.lshr(high, self._shift(name))
        return quotient if sign is None else b.xor(quotient, sign)

    def divided(self, x: Scalar, y: Scalar) -> Any:
        """Return x // y, rounded down, and 0 for a divisor of 0, as 64 bits."""
        b, p, q = self.b, terms_of(x), terms_of(y)
        name = self.multipliers.get(y)
        if not fits(p):
            return self._divided(self.sum(p, I64), self.sum(q, I64))
        given, d = self.sum(p, I32), self.natural(y)
        zero = ir.Constant(d.type, 0)
        less, none = (b.icmp_signed(sign, d, zero) for sign in ("<", "=="))
        sides = [b.icmp_signed(sign, given, ir.Constant(I32, 0)) for sign in (">", "<")]
        below = b.select(less, *sides)  # whether the quotient is below 0: -1 - (-1 - x) // d
        given = b.xor(b.select(less, b.neg(given), given), b.sext(below, I32))
        if name is None:
            size = self._clamped(b.select(less, b.neg(d), d))
            found = b.udiv(given, b.select(none, ir.Constant(I32, 1), size))
        else:
            multiplier = b.zext(b.trunc(self.env[name], I32), I64)
            high = b.lshr(b.mul(b.zext(given, I64), multiplier), ir.Constant(I64, 31))
            found = b.lshr(b.trunc(high, I32), self._shift(name))
        found = b.xor(b.zext(found, I64), b.sext(below, I64))
        return b.select(none, ir.Constant(I64, 0), found)

    def _clamped(self, d: Any) -> Any:
        """Return a divisor of numbers up to 2**31 as 32 bits: a longer one divides them to 0."""
        if d.type == I32:
            return d
        most = ir.Constant(I64, 0xFFFFFFFF)
        return self.b.trunc(self.b.select(self.b.icmp_unsigned(">", d, most), most, d), I32)

    def _shift(self, name: str) -> Any:
        return self.b.trunc(self.b.lshr(self.env[name], ir.Constant(I64, 32)), I32)

    def _divided(self, p: Any, d: Any) -> Any:
        b, zero = self.b, ir.Constant(I64, 0)
        none = b.icmp_signed("==", d, zero)
        d = b.select(none, ir.Constant(I64, 1), d)
        quotient, rest = b.sdiv(p, d), b.srem(p, d)
        apart = b.icmp_signed("<", b.xor(rest, d), zero)
        below = b.and_(b.icmp_signed("!=", rest, zero), apart)
        return b.select(none, zero, b.sub(quotient, b.zext(below, I64)))

    # -- conditions

    def holds(self, cond: Cond) -> Any:
        """Return a condition as one bit."""
        if isinstance(cond, Compare):
            return self._compared(cond)
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

    def _compared(self, cond: Compare) -> Any:
        """Return a comparison: of 32 bits if two sides of the same difference fit."""
        sign = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}[cond.test]
        sides = list(_sides(cond))
        for p, q in sides:
            if fits(p) and fits(q):
                return self.b.icmp_signed(sign, self.sum(p, I32), self.sum(q, I32))
        for p, q in sides:
            if within(p, 0, 1 << 32) and within(q, 0, 1 << 32):
                return self.b.icmp_unsigned(sign, self.sum(p, I32), self.sum(q, I32))
        p, q = terms_of(cond.a), terms_of(cond.b)
        return self.b.icmp_signed(sign, self.sum(p, I64), self.sum(q, I64))


def _split(p: Polynomial) -> tuple[Polynomial, dict[Atom, Polynomial]]:
    """Return the terms of p that fit, and the others by their widest atom, without it."""
    parts: Polynomial = {}
    groups: dict[Atom, Polynomial] = {}
    for m, c in p.items():
        if not m or fits({m: c}):
            parts[m] = c
            continue
        wide = max(m, key=_width)
        rest = list(m)
        rest.remove(wide)
        groups.setdefault(wide, {})[tuple(rest)] = c
    return parts, groups


def _sides(cond: Compare) -> Iterator[tuple[Polynomial, Polynomial]]:
    """Yield pairs of sides that compare alike: first what varies in loops on one side and all else
    on the other, which is hoisted, without their common factor; then a and b; then positive terms
    on both sides.
    """
    a, b = terms_of(cond.a), terms_of(cond.b)
    difference = plus(b, a, -1)
    moving = {m: c for m, c in difference.items() if m and _varies(m)}
    if moving and len(moving) < len(difference):
        n, rest = gcd(*moving.values()), plus(difference, moving, -1)  # 0 < rest + moving
        if n > 1 and cond.test in ("lt", "le"):  # -rest < n*x where floor(-rest / n) < x
            more = 0 if cond.test == "lt" else n - 1
            rest = scaled(floordiv(plus(scaled(rest, -1), {(): 1}, more), {(): n}), -1)
            moving = {m: c // n for m, c in moving.items()}
        if all(c < 0 for c in moving.values()):
            yield scaled(moving, -1), rest
        else:
            yield scaled(rest, -1), moving
    yield a, b
    left = {m: -c for m, c in difference.items() if c < 0}
    yield left, plus(difference, left)


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


def _warps(numerator: Polynomial, divisor: Polynomial) -> tuple[int, int] | None:
    """Return (m, n) for the quotient (tid + 32*m) // (32*n) with m >= 0, None for any other."""
    d, first = value(divisor), numerator.get((), 0)
    if d is None or d % 32 or first % 32 or first < 0:
        return None
    threads = [(m, c) for m, c in numerator.items() if m]
    if [([getattr(atom, "name", "") for atom in m], c) for m, c in threads] != [(["tid"], 1)]:
        return None
    return first // 32, d // 32


def _taken_out(atom: FloorDiv) -> Polynomial:
    """Return the terms to take out of a quotient, so that no coefficient exceeds half the divisor;
    none if the numerator is known to fit.
    """
    n = value(atom.divisor)
    if n is None or within(atom.numerator, -_END, _END):
        return {}
    return {m: 1 for m, c in atom.numerator.items() if m and 2 * c > n}


def _width(atom: Atom) -> int:
    """Return the greatest magnitude of an atom, as a key: what has no bound comes last."""
    if atom.lo is None or atom.hi is None:
        return 1 << 128
    unit = atom.multiple_of if isinstance(atom, Symbol) else 1
    return unit * max(abs(atom.lo), abs(atom.hi))


def _varies(monomial: Monomial) -> bool:
    return any(in_loop(s.name) for atom in monomial for s in atom.symbols)
