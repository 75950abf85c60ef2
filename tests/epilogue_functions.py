"""Random epilogues: trees that are evaluated with registers, with NumPy and with torch."""

import inspect

import numpy as np
from hypothesis import strategies as st

import cute_py as cute
from cute_py.plan.pairs import ANY, PAIRED, WHOLE
from tests.approximate import Approximate, approximately

M, N, K = 9, 16, 24  # rows of whole 16 bytes, as most families of kernels read them
# arrays that are spread over N columns, and over those of pairs; a number
ANYWHERE = {"column": (M, 1), "one": (), "ones": (1, 1)}
SHAPES = {"full": (M, N), "row": (N,), "of_rows": (1, N), **ANYWHERE}
HALVES = {"half": (M, N // 2), "half_row": (N // 2,), **ANYWHERE}


def columns_of(shape):
    """Return the columns that an element of an array stands for."""
    n = (1, *shape)[-1]
    return WHOLE if n == N else PAIRED if n == N // 2 else ANY


def _of(name):
    """Return a function of cute, of NumPy and of torch by its name there."""
    return lambda lib, *x: getattr(lib, name)(*x)


# name -> how many values it takes, and a function of the library and of these
EXACT = {  # of small integers and halves
    "add": (2, lambda lib, x, y: x + y),
    "sub": (2, lambda lib, x, y: x - y),
    "half": (2, lambda lib, x, y: x * 0.5 + y),
    "neg": (1, lambda lib, x: -x),
    "abs": (1, lambda lib, x: abs(x)),
    "greater": (2, _of("maximum")),
    "less": (2, _of("minimum")),
    "where": (2, lambda lib, x, y: lib.where(x < y, y, x * 2)),
}
SMOOTH = {  # with a derivative wherever random values are
    **{name: EXACT[name] for name in ("add", "sub", "half", "neg", "abs", "greater", "where")},
    "mul": (2, lambda lib, x, y: x * y),
    "tanh": (1, _of("tanh")),
    "sine": (1, _of("sin")),
    "exp": (1, lambda lib, x: lib.exp(-x * x)),
    "root": (1, lambda lib, x: lib.sqrt(x * x + 1)),
    "quotient": (2, lambda lib, x, y: x / (y * y + 1)),
}
WAYS = ("add", "max", "min")


def trees(leaves, rows, most):
    """Return trees of rows of functions over leaves."""
    by_count = {n: [x for x, row in rows.items() if row[0] == n] for n in (1, 2)}
    return st.recursive(
        st.sampled_from(leaves),
        lambda x: (
            st.tuples(st.sampled_from(by_count[1]), x)
            | st.tuples(st.sampled_from(by_count[2]), x, x)
        ),
        max_leaves=most,
    )


@st.composite
def epilogues(draw, rows, most=5):
    """Draw (trees by name, of N columns; the same of pairs; ways by name of results of both)."""
    before = {"z": ("add", "acc", draw(trees(("acc", *SHAPES, "number"), rows, most)))}
    after = {}
    if draw(st.booleans()):
        leaves = ("first", "second", *HALVES, "number")
        after = {"p": ("sub", "first", draw(trees(leaves, rows, most)))}
    for name in draw(st.sets(st.sampled_from("uv"))):
        before[name] = ("add", "z", draw(trees(("acc", "z", *SHAPES), rows, 3)))
    ways = {
        x: draw(st.none() | st.tuples(st.sampled_from(WAYS), st.sampled_from([0, 1, None])))
        for x in (*before, *after)
    }
    ways["p" if after else "z"] = None  # it is D
    return before, after, ways


def leaves(tree):
    """Return the names of the leaves of a tree."""
    return {tree} if isinstance(tree, str) else set().union(*map(leaves, tree[1:]))


def evaluated(tree, values, rows, lib):
    """Return the value of a tree, whose leaves have values."""
    if isinstance(tree, str):
        return values[tree]
    return rows[tree[0]][1](lib, *[evaluated(x, values, rows, lib) for x in tree[1:]])


def results_of(made, rows, lib, pairs, combined):
    """Return what gives the results by name for the values of leaves.

    Args:
        made: as `epilogues` draws it.
        rows: the functions.
        lib: cute, NumPy or torch.
        pairs: what gives the two of each pair.
        combined: (way, mode, value) -> the result over elements.

    """
    before, after, ways = made

    def function(values):
        found = {}
        for name, tree in before.items():
            found[name] = evaluated(tree, values | found, rows, lib)
        if after:
            first, second = pairs(found["z"])
            values = values | {"first": first, "second": second}
            found["p"] = evaluated(after["p"], values, rows, lib)
        named = {x: y if ways[x] is None else combined(*ways[x], y) for x, y in found.items()}
        return {"D": named.pop("p" if after else "z"), **named}

    return function


def names_of(made):
    """Return the names of the arrays and of the number that an epilogue reads."""
    used = set().union(*[leaves(x) for part in made[:2] for x in part.values()])
    return sorted(used & {*SHAPES, *HALVES, "number"})


def function_of(made, rows):
    """Return the function for `epilogue=`."""
    compute = results_of(made, rows, cute, cute.pairs, lambda fn, mode, x: cute.reduce(fn, x, mode))
    names = names_of(made)

    def function(acc, **terms):
        return compute({"acc": acc, **terms})

    kind = inspect.Parameter.KEYWORD_ONLY
    first = inspect.Parameter("acc", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [first, *[inspect.Parameter(x, kind) for x in names]]
    function.__signature__ = inspect.Signature(parameters)
    return function, names


AXES = {0: -2, 1: -1, None: (-2, -1)}


def model_of(made, rows):
    """Return the same function of arrays; results are spread over their elements first."""
    ways = {"add": np.sum, "max": np.max, "min": np.min}

    def combined(fn, mode, x):
        return ways[fn](np.broadcast_to(x, (M, x.shape[-1] if x.ndim else N)), AXES[mode])

    return results_of(made, rows, np, lambda z: (z[..., ::2], z[..., 1::2]), combined)


def approximate_model_of(made, rows):
    """Return the same function of arrays with bounds of their errors."""

    def combined(fn, mode, x):
        columns = x.value.shape[-1] if x.value.ndim else N
        return x.spread((M, columns)).combined(fn, AXES[mode])

    return results_of(made, rows, approximately, Approximate.halves, combined)
