"""Symbolic integers: sizes and strides that are not numbers yet, with declared assumptions.

`sym("M", multiple_of=8)` is an integer expression in normal form (`polynomial`): `M // 8 * 8` is M
again, and `M % 8` is the int 0. A question about symbols has the answer True or False only if it
has that answer for every admissible value. `==` and `hash` compare structure, so that layouts with
symbols stay hashable; to compare values use `ints.same`, which may answer None, or
`prove_equal_ints`.

>>> from cute_py.integers.ints import ceil_div, divides, less
>>> M, N = sym("M", multiple_of=8, max=4096), sym("N")
>>> print(M // 8 * 8, M % 8, (M * N + M) // M, ceil_div(M, 64), N % 4)
M 0 N+1 ceil_div(M,64) N%4
>>> M
sym('M', multiple_of=8, max=4096)
>>> divides(4, M), less(M, 8), divides(16, M)
(True, False, None)
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.integers.polynomial import (
    FloorDiv,
    Min,
    Symbol,
    constant,
    plus,
    scaled,
    symbols_of,
    times,
)
from cute_py.integers.polynomial import value as value_of
from cute_py.integers.symbol_decisions import assumption, bounds, decide
from cute_py.integers.symbol_forms import floordiv, minimum, substitute
from cute_py.integers.symbol_text import extract_remainders, source, text
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    from cute_py.integers.ints import Leaf
    from cute_py.integers.polynomial import Atom, Polynomial


def sym(name: str, *, multiple_of: int = 1, min: int | None = 1, max: int | None = None) -> SymInt:
    """Declare a symbolic size or stride and return it as an integer expression.

    Args:
        name: an identifier; an expression has one declaration per name.
        multiple_of: a number that divides every admissible value.
        min: the least admissible value, None for no bound.
        max: the greatest admissible value, None for no bound.

    Raises:
        LayoutError: the name is not an identifier, or no value is admissible.

    >>> M = sym("M", multiple_of=8)
    >>> print(M, 2 * M + 1, (M + 8) // 16)
    M 2*M+1 ceil_div(M,16)
    """
    if name.__class__ is not str or not name.isidentifier():
        raise refusal("symbol-name", operation="sym", name=name)
    unit = _number(multiple_of)
    if unit < 1:
        raise refusal("symbol-multiple", operation="sym", name=name, multiple_of=unit)
    lo = None if min is None else -(-_number(min) // unit)
    hi = None if max is None else _number(max) // unit
    if lo is not None and hi is not None and lo > hi:
        raise refusal(
            "symbol-range", operation="sym", name=name, multiple_of=unit, min=min, max=max
        )
    return SymInt({(Symbol(name, unit, lo, hi),): unit})


def _number(x: object) -> int:
    return ints.as_int(ints.normalize(x, "sym"), "sym")


def _operator(op: str, *, reflected: bool = False) -> Callable[[SymInt, object], int | SymInt]:
    """Return a Python operator; `reflected`: with the symbol on the right."""

    def operator(self: SymInt, other: object) -> int | SymInt:
        q = _operand(other)
        if q is None:
            return NotImplemented  # type: ignore[no-any-return]
        a, b = (q, self._terms) if reflected else (self._terms, q)
        return _leaf(_OPERATIONS[op](a, b))

    return operator


class SymInt(Value):
    """An integer expression in symbols; frozen, hashable, a leaf of shapes and strides.

    `+ - * // %`, `divmod` and `abs` compute; `< <= > >=`, `bool` and `int` raise UndecidedError if
    the declarations do not decide the answer. An expression that is a number becomes an int.
    """

    __slots__ = ("_hash", "_terms")
    __match_args__ = ("_terms",)
    __array_ufunc__ = None  # NumPy integers leave the operators to this class
    _terms: Polynomial
    _hash: int

    def __init__(self, terms: Polynomial) -> None:
        """Wrap a polynomial in normal form; users call `sym`."""
        declared: dict[str, Symbol] = {}
        for monomial in terms:
            for atom in monomial:
                for symbol in atom.symbols:
                    _declare(declared, symbol)
        self._terms = terms
        self._hash = hash(frozenset(terms.items()))

    def __eq__(self, other: object) -> bool:
        return self is other or (other.__class__ is SymInt and self._terms == terms_of(other))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return text(self._terms)

    def __repr__(self) -> str:
        return source(self._terms)

    # -- the integer protocol

    def cute_compute(self, op: str, a: Leaf, b: Leaf) -> Leaf:
        """Return `a op b` for ints and symbols (`ints`)."""
        p, q = _operand(a), _operand(b)
        if p is None or q is None:
            return NotImplemented  # type: ignore[no-any-return]
        return _leaf(_OPERATIONS[op](p, q))

    def cute_decide(self, question: str, a: Leaf, b: Leaf) -> bool | None:
        """Answer a question about ints and symbols (`ints`)."""
        p, q = _operand(a), _operand(b)
        if p is None or q is None:
            return NotImplemented  # type: ignore[no-any-return]
        if a.__class__ is b.__class__:
            require_one_declaration(p, q)
        return decide(question, p, q)

    def cute_value(self) -> int | None:
        """Return the only admissible value if there is only one."""
        lo, hi = bounds(self._terms)
        return lo if lo == hi else None

    def cute_assumption(self, question: str, a: Leaf, b: Leaf) -> str:
        """Return the assumption, in words, under which the question is True."""
        return assumption(question, terms_of(a), terms_of(b))

    # -- Python's operators

    __add__ = __radd__ = _operator("add")
    __mul__ = __rmul__ = _operator("mul")
    __sub__, __rsub__ = _operator("sub"), _operator("sub", reflected=True)
    __floordiv__, __rfloordiv__ = _operator("div"), _operator("div", reflected=True)
    __mod__, __rmod__ = _operator("mod"), _operator("mod", reflected=True)

    def __divmod__(self, other: object) -> tuple[int | SymInt, int | SymInt]:
        return self // other, self % other

    def __neg__(self) -> SymInt:
        return SymInt(scaled(self._terms, -1))

    def __pos__(self) -> SymInt:
        return self

    def __abs__(self) -> int | SymInt:
        return -self if ints.settle(ints.less, self, 0, "abs") else self

    def __truediv__(self, other: object) -> NoReturn:
        raise refusal("symbol-true-division", operation="SymInt", a=self, b=other)

    def __rtruediv__(self, other: object) -> NoReturn:
        raise refusal("symbol-true-division", operation="SymInt", a=other, b=self)

    def __lt__(self, other: object) -> bool:
        return ints.settle(ints.less, self, ints.normalize(other, "comparison"), "comparison")

    def __le__(self, other: object) -> bool:
        return ints.settle(ints.leq, self, ints.normalize(other, "comparison"), "comparison")

    def __gt__(self, other: object) -> bool:
        return ints.settle(ints.less, ints.normalize(other, "comparison"), self, "comparison")

    def __ge__(self, other: object) -> bool:
        return ints.settle(ints.leq, ints.normalize(other, "comparison"), self, "comparison")

    def __bool__(self) -> bool:
        zero = ints.is_zero(self)
        return ints.require(None if zero is None else not zero, "bool", f"{self} != 0")

    def __index__(self) -> int:
        return ints.as_int(self, "int")

    __int__ = __index__


# -- between leaves and polynomials


def terms_of(x: object) -> Polynomial:
    """Return the polynomial of an int or SymInt."""
    return x._terms if isinstance(x, SymInt) else constant(_number(x))


def _operand(x: object) -> Polynomial | None:
    """Return the polynomial of a SymInt or of an integer; None: of another class of leaves."""
    if x.__class__ is SymInt:
        return x._terms
    if x.__class__ is int:
        return {(): x} if x else {}
    if ints.is_leaf(x):  # a coordinate stride knows symbols, not vice versa
        return None
    return constant(ints.as_int(ints.normalize(x, "SymInt"), "SymInt"))


def _leaf(p: Polynomial) -> int | SymInt:
    number = value_of(p)
    return SymInt(p) if number is None else number


def _declare(declared: dict[str, Symbol], symbol: Symbol) -> None:
    other = declared.setdefault(symbol.name, symbol)
    if other is not symbol and other != symbol:
        raise refusal(
            "symbol-conflict", operation="SymInt", first=other, second=symbol, name=symbol.name
        )


def require_one_declaration(p: Polynomial, q: Polynomial) -> None:
    """Refuse two declarations of one name in p and q."""
    declared: dict[str, Symbol] = {}
    for symbol in symbols_of(p, q):
        _declare(declared, symbol)


def _remainder(p: Polynomial, d: Polynomial) -> Polynomial:
    return plus(p, times(d, floordiv(p, d)), -1)


_OPERATIONS = {
    "add": plus,
    "sub": lambda p, q: plus(p, q, -1),
    "mul": times,
    "div": floordiv,
    "mod": _remainder,
    "min": minimum,
}


# -- values of symbols


def symbols_in(x: Leaf) -> tuple[SymInt, ...]:
    """Return the symbols that x depends on, sorted by name.

    >>> symbols_in(sym("M") * sym("K", max=64) + 1)
    (sym('K', max=64), sym('M'))
    """
    return tuple([SymInt({(s,): s.multiple_of}) for s in symbols_of(terms_of(x))])


def subs(x: Leaf, values: Mapping[str, Leaf]) -> Leaf:
    """Return x with the named symbols replaced by numbers or expressions.

    Args:
        x: an int or symbolic expression.
        values: name -> value; names that do not occur in x are ignored.

    Raises:
        LayoutError: a value contradicts the declaration of its symbol.
        UndecidedError: it is not known whether an expression satisfies the declaration.

    >>> M = sym("M", multiple_of=8, max=512)
    >>> subs(M // 16 + 1, {"M": 64}), str(subs(M // 16, {"M": 32 * sym("K", max=4)}))
    (5, '2*K')
    """
    p = terms_of(x)
    images = {s: _image(s, values[s.name]) for s in symbols_of(p) if s.name in values}
    return _leaf(substitute(p, images)) if images else x


def _image(symbol: Symbol, value: object) -> Polynomial:
    """Return the polynomial of the symbol's atom; refuse a value that the declaration excludes."""
    new = ints.normalize(value, "subs")
    lo, hi, unit = symbol.lo, symbol.hi, symbol.multiple_of
    admitted = ints.settle(ints.divides, unit, new, "subs")
    if lo is not None:
        admitted = admitted and ints.settle(ints.leq, lo * unit, new, "subs")
    if hi is not None:
        admitted = admitted and ints.settle(ints.leq, new, hi * unit, "subs")
    if not admitted:
        raise refusal(
            "symbol-value",
            operation="subs",
            name=symbol.name,
            value=new,
            symbol=symbol,
            admissible=_admissible(symbol),
        )
    return floordiv(terms_of(new), constant(unit))


def _admissible(symbol: Symbol) -> str:
    unit = symbol.multiple_of
    multiples = "an integer" if unit == 1 else f"a multiple of {unit}"
    low = "" if symbol.lo is None else f" from {symbol.lo * unit}"
    return multiples + low + ("" if symbol.hi is None else f" to {symbol.hi * unit}")


# -- as SymPy's expressions, for formulas and LaTeX: nothing computes with them. It is imported on
# the first call. The normal form is translated, so the formula is already simplified: SymPy's own
# `//` costs milliseconds, and its `M % 8 == 0` is False for every M


def to_sympy(x: Leaf) -> Any:  # SymPy ships no types
    """Return x as a SymPy expression over integer symbols with the declared signs.

    Args:
        x: an int or symbolic expression.

    Law: for admissible values, substituting them into the result gives `subs(x, values)`.

    >>> M, N = sym("M", multiple_of=8), sym("N")
    >>> to_sympy(M // 8 * 8 + N % 4), to_sympy(M % 8), to_sympy((M + 8) // 16)
    (M + Mod(N, 4), 0, floor(M/16 + 1/2))
    """
    return _sympy_sum(terms_of(x))


def latex(x: Leaf) -> str:
    r"""Return x as LaTeX.

    >>> latex(sym("M") // 8 + 1)
    '\\left\\lfloor{\\frac{M}{8}}\\right\\rfloor + 1'
    """
    import sympy

    return str(sympy.latex(to_sympy(x)))


def _sympy_sum(p: Polynomial) -> Any:
    import sympy

    p, remainders = extract_remainders(p)
    total = sympy.Integer(0)
    for m, c in p.items():
        total += sympy.Mul(c, *[_sympy_factor(atom) for atom in m])
    for c, m, e, d in remainders:
        total += sympy.Mul(
            c, *[_sympy_factor(atom) for atom in m], sympy.Mod(_sympy_sum(e), _sympy_sum(d))
        )
    return total


def _sympy_factor(atom: Atom) -> Any:
    import sympy

    if isinstance(atom, Symbol):
        lo = atom.lo
        sign = {} if lo is None or lo < 0 else {"positive": True} if lo else {"nonnegative": True}
        return sympy.Symbol(atom.name, integer=True, **sign) / atom.multiple_of
    if isinstance(atom, FloorDiv):
        return sympy.floor(_sympy_sum(atom.numerator) / _sympy_sum(atom.divisor))
    assert isinstance(atom, Min)
    return sympy.Min(*[_sympy_sum(option) for option in atom.options])
