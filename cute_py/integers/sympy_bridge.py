"""Symbolic integers as SymPy expressions, for formulas and LaTeX; nothing computes with them.

SymPy is imported on the first call. The normal form is translated, so the formula is already
simplified: SymPy's own `//` costs milliseconds, and its `M % 8 == 0` is False for every M.
"""

from __future__ import annotations

from cute_py.integers.polynomial import FloorDiv, Min, Symbol
from cute_py.integers.symbol_text import extract_remainders
from cute_py.integers.symbols import terms_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.integers.ints import Leaf
    from cute_py.integers.polynomial import Atom, Polynomial


def to_sympy(x: Leaf) -> Any:  # SymPy ships no types
    """Return x as a SymPy expression over integer symbols with the declared signs.

    Args:
        x: an int or symbolic expression.

    Law: for admissible values, substituting them into the result gives `subs(x, values)`.

    >>> from cute_py.integers.symbols import sym
    >>> M, N = sym("M", multiple_of=8), sym("N")
    >>> to_sympy(M // 8 * 8 + N % 4), to_sympy(M % 8), to_sympy((M + 8) // 16)
    (M + Mod(N, 4), 0, floor(M/16 + 1/2))
    """
    return _sum(terms_of(x))


def latex(x: Leaf) -> str:
    r"""Return x as LaTeX.

    >>> from cute_py.integers.symbols import sym
    >>> latex(sym("M") // 8 + 1)
    '\\left\\lfloor{\\frac{M}{8}}\\right\\rfloor + 1'
    """
    import sympy

    return str(sympy.latex(to_sympy(x)))


def _sum(p: Polynomial) -> Any:
    import sympy

    p, remainders = extract_remainders(p)
    total = sympy.Integer(0)
    for m, c in p.items():
        total += sympy.Mul(c, *[_factor(atom) for atom in m])
    for c, m, e, d in remainders:
        total += sympy.Mul(c, *[_factor(atom) for atom in m], sympy.Mod(_sum(e), _sum(d)))
    return total


def _factor(atom: Atom) -> Any:
    import sympy

    if isinstance(atom, Symbol):
        lo = atom.lo
        sign = {} if lo is None or lo < 0 else {"positive": True} if lo else {"nonnegative": True}
        return sympy.Symbol(atom.name, integer=True, **sign) / atom.multiple_of
    if isinstance(atom, FloorDiv):
        return sympy.floor(_sum(atom.numerator) / _sum(atom.divisor))
    assert isinstance(atom, Min)
    return sympy.Min(*[_sum(option) for option in atom.options])
