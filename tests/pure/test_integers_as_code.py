"""Trees of integer expressions: they have the value of the expression, whatever stands for names.

The model is Python's own operators on a random tree of operations (`symbol_trees`).
"""

import ast
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cute_py.integers.code import FUNCTIONS, called, function, tree
from cute_py.integers.ints import ceil_div, min_
from cute_py.integers.symbols import subs, sym
from tests.symbol_trees import POOL, TREES, assignments, build, concrete

NAMES = list(POOL)
M, N, K, i = (POOL[name] for name in "MNKi")


def floor(a, b):
    return a // b


def rest(a, b):
    return a % b


def least(first, *others):
    for other in others:
        first = np.minimum(first, other)
    return first


RULES = {"min": least, "ceil_div": lambda a, b: -(-a // b), "floor": floor, "rest": rest}
ARRAYS = {called(name): rule for name, rule in RULES.items()}


@given(TREES, st.integers(0, 2**32))
def test_a_tree_has_the_value_of_the_expression(operations, seed):
    x = build(operations)
    made = function(NAMES, tree(x), FUNCTIONS)
    for values in assignments(10, seed):
        assert made(**values) == concrete(operations, values) == subs(x, values)


@given(TREES, st.integers(0, 2**32))
def test_the_same_tree_is_for_arrays(operations, seed):
    several = assignments(3, seed)
    arrays = {n: np.array([values[n] for values in several], object) for n in NAMES}
    called = function(NAMES, tree(build(operations), {"//": "floor", "%": "rest"}), ARRAYS)
    wanted = [concrete(operations, values) for values in several]
    assert np.broadcast_to(called(**arrays), 3).tolist() == wanted


@given(TREES)
def test_operators_that_are_called_leave_none_of_theirs(operations):
    made = tree(build(operations), {"//": "floor", "%": "rest"})
    assert not any(isinstance(x, ast.FloorDiv | ast.Mod) for x in ast.walk(made))


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (7, "7"),
        (-7, "-7"),
        (0, "0"),
        (M, "M"),
        (M // 16, "M // 16"),
        (M % 64 + 1, "M % 64 + 1"),
        (N - 2 * M, "N - 2 * M"),
        (-N, "-N"),
        (-(N // 3), "-(N // 3)"),
        (ceil_div(M, 64) * ceil_div(N, 3), "ceil_div (M, 64) * ceil_div (N, 3)"),
        (min_(min_(M, N), 64), "min (M, N, 64)"),
        (K * (i % 8), "K * (i % 8)"),
    ],
)
def test_a_tree_is_the_text_of_the_expression(x, text):
    assert ast.unparse(tree(x)) == text
    assert eval(
        str(x), {"ceil_div": ceil_div, "min": min}, {"M": 48, "N": 7, "K": 128, "i": 21}
    ) == function(NAMES, tree(x), FUNCTIONS)(
        **{**dict.fromkeys(NAMES, 0), "M": 48, "N": 7, "K": 128, "i": 21}
    )


def test_names_are_bound_when_the_function_is_made():
    scope = {called("min"): min}
    made = function(["a"], tree(min_(sym("a"), sym("b"))), scope | {"b": 5})
    scope[called("min")] = max
    assert [made(3), made(9)] == [3, 5]


def test_sizes_may_have_the_names_of_functions():
    least, up, low = (sym(name) for name in ("min", "ceil_div", "floor"))
    x = min_(ceil_div(least, 4) * ceil_div(up, 8), 9) + low // 5
    for calls, scope in (({}, FUNCTIONS), ({"//": "floor"}, ARRAYS)):
        assert function(["min", "ceil_div", "floor"], tree(x, calls), scope)(5, 17, 44) == 6 + 8


def test_a_function_may_be_made_of_statements():
    body = ast.parse("if a > b: return a\nreturn c").body
    made = function(["a", "b"], body, {"c": "other"})
    assert [made(2, 1), made(1, 2)] == [2, "other"]


def test_the_compiler_of_trees_is_loaded_when_it_is_asked_for():
    text = "import sys; import cute_py.integers.code; print('ast' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
