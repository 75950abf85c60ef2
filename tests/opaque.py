"""An integer that can do nothing but what the integer protocol says.

Layout code that works on `Opaque` leaves applies no operator, comparison, `bool`, `min` or `sorted`
to a leaf outside of `cute_py.integers.ints`: everything of the kind raises `OutsideProtocol` here.
"""

import operator

_COMPUTE = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "mod": operator.mod,
    "min": min,
}
_DECIDE = {
    "same": operator.eq,
    "less": operator.lt,
    "divides": lambda d, x: x % d == 0 if d else x == 0,
}
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_CONVERSIONS = ("bool", "int", "index", "float", "complex", "trunc", "floor", "ceil", "round")
_CONTAINER = ("len", "iter", "contains", "getitem", "call")
_UNARY = ("neg", "pos", "abs", "invert")
_BINARY = ("add", "sub", "mul", "floordiv", "truediv", "mod", "divmod", "pow")
_BITWISE = ("and", "or", "xor", "lshift", "rshift")


class OutsideProtocol(AssertionError):
    """Something other than the integer protocol was applied to a leaf."""


class Opaque:
    """Hides an int; with `knows=False` it also leaves every question open."""

    __slots__ = ("_hidden", "_knows")
    __array_ufunc__ = None

    def __init__(self, hidden, knows=True):
        self._hidden = hidden
        self._knows = knows

    def cute_compute(self, op, a, b):
        if not _all_known(a, b):
            return NotImplemented
        return Opaque(_COMPUTE[op](reveal(a), reveal(b)), self._knows)

    def cute_decide(self, question, a, b):
        if not _all_known(a, b):
            return NotImplemented
        return _DECIDE[question](reveal(a), reveal(b)) if self._knows else None

    def cute_value(self):
        return None

    def __repr__(self):
        return f"Opaque({self._hidden})"

    __hash__ = object.__hash__  # by identity: layouts stay hashable, and no value leaks


def _refuse(name):
    def method(self, *others):
        raise OutsideProtocol(f"{name} on {self!r} {others!r}")

    return method


for _name in (
    *_COMPARISONS,
    *_CONVERSIONS,
    *_CONTAINER,
    *_UNARY,
    *(side + name for name in (*_BINARY, *_BITWISE) for side in ("", "r", "i")),
):
    setattr(Opaque, f"__{_name}__", _refuse(f"__{_name}__"))


def _all_known(*operands):
    return all(x.__class__ in (int, Opaque) for x in operands)


def hide(tree, knows=True):
    """Return the int tuple with every int hidden."""
    if isinstance(tree, tuple):
        return tuple(hide(x, knows) for x in tree)
    return Opaque(tree, knows)


def reveal(tree):
    """Return the int tuple with every hidden int shown."""
    if isinstance(tree, tuple):
        return tuple(reveal(x) for x in tree)
    return tree._hidden if isinstance(tree, Opaque) else tree
