"""Random integer expressions: trees of operations, built by symbols or computed by Python."""

import math
import operator
import random

from hypothesis import reject
from hypothesis import strategies as st

from cute_py.errors import UndecidedError
from cute_py.integers import ints
from cute_py.integers.symbols import sym

# name -> (multiple_of, min, max): the declarations behind `POOL`, for the oracle
DECLARED = {
    "M": (8, 1, 4096),
    "N": (1, 1, None),
    "K": (64, 64, None),
    "i": (1, 0, None),
    "j": (1, 0, 31),
    "d": (3, -12, 12),
    "z": (1, None, None),
}
POOL = {n: sym(n, multiple_of=k, min=lo, max=hi) for n, (k, lo, hi) in DECLARED.items()}

PYTHON = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "mod": operator.mod,
    "ceil_div": lambda a, b: -(-a // b),
    "min_": min,
    "same": operator.eq,
    "less": operator.lt,
    "leq": operator.le,
    "divides": lambda a, b: b % a == 0 if a else b == 0,
}
DIVISIONS = ("div", "mod", "ceil_div")


# -- random trees: a name, a number, or (operation, left, right)

LEAVES = st.one_of(st.sampled_from(list(POOL)), st.integers(-9, 70))
POSITIVE = st.one_of(
    st.sampled_from([2, 3, 4, 6, 8, 16, 24, 64, "M", "N", "K"]),
    st.tuples(st.just("mul"), st.sampled_from(["M", "N", 4]), st.sampled_from(["K", "N", 3])),
    st.tuples(
        st.just("add"),
        st.sampled_from(["M", "N"]),
        st.sampled_from(["i", "j", 1]),
    ),
)


def trees(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(["add", "sub", "mul", "min_"]), inner, inner),
            st.tuples(st.sampled_from(DIVISIONS), inner, POSITIVE),
        ),
        max_leaves=6,
    )


TREES = trees(LEAVES)
SMALL_TREES = trees(st.one_of(st.sampled_from(list("MNKijz")), st.integers(-9, 9)))


def symbolic(tree, named=POOL):
    """Return the tree's value through the integer protocol."""
    if isinstance(tree, tuple):
        return getattr(ints, tree[0])(symbolic(tree[1], named), symbolic(tree[2], named))
    return named.get(tree, tree)


def concrete(tree, values):
    """Return the tree's value by Python's own operators."""
    if isinstance(tree, tuple):
        return PYTHON[tree[0]](concrete(tree[1], values), concrete(tree[2], values))
    return values.get(tree, tree)


def divisors(tree):
    if isinstance(tree, tuple):
        yield from divisors(tree[1])
        yield from divisors(tree[2])
        if tree[0] in DIVISIONS:
            yield tree[2]


def build(tree, named=POOL):
    """Return `symbolic(tree)`; divisors that may be 0 are not what these tests are about."""
    try:
        return symbolic(tree, named)
    except UndecidedError:
        return reject()


def assignments(count, seed):
    """Return random admissible values: corners, small and large ones."""
    rng = random.Random(seed)
    return [{name: admissible(rng, *DECLARED[name]) for name in DECLARED} for _ in range(count)]


def admissible(rng, multiple, lo, hi):
    lo = -50 if lo is None else math.ceil(lo / multiple)
    hi = lo + rng.choice((2, 8, 100, 10**6)) if hi is None else hi // multiple
    return multiple * rng.choice((lo, hi, rng.randint(lo, hi), rng.randint(lo, min(lo + 6, hi))))
