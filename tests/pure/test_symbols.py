"""Symbolic integers: arithmetic commutes with evaluation, answers hold for every value."""

import copy
import itertools
import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.errors import LayoutError, UndecidedError
from cute_py.integers import ints, symbol_decisions
from cute_py.integers.ints import ceil_div, min_
from cute_py.integers.symbol_decisions import bounds
from cute_py.integers.symbol_proofs import Proof, prove_divides_ints, prove_equal_ints
from cute_py.integers.symbols import latex, subs, sym, symbols_in, terms_of, to_sympy
from tests.sampling import each
from tests.symbol_trees import (
    POOL,
    POSITIVE,
    PYTHON,
    SMALL_TREES,
    TREES,
    assignments,
    build,
    concrete,
    divisors,
)

ROOT = Path(__file__).parents[2]
M, N, K, i, j, d, z = POOL.values()
QUESTIONS = ("same", "less", "leq", "divides")

# -- laws


@given(TREES, st.integers(0, 2**32))
@example(("div", ("add", ("div", "i", 3), ("mul", 2, "N")), 8), 0)
def test_evaluating_commutes_with_every_operation(tree, seed):
    expression = build(tree)
    for values in assignments(20, seed):
        if all(concrete(divisor, values) for divisor in divisors(tree)):
            assert subs(expression, values) == concrete(tree, values), values


@given(TREES, TREES, st.sampled_from(QUESTIONS), st.integers(0, 2**32))
@example("N", ("sub", "N", ("mod", "N", 8)), "less", 0)
@example(("mod", "i", "M"), "M", "less", 0)
def test_decisions_hold_for_every_admissible_value(a, b, question, seed):
    left, right = build(a), build(b)
    answer = getattr(ints, question)(left, right)
    if answer is None:
        assert ints.assumption(question, left, right)
        return
    for values in assignments(200, seed):
        x, y = subs(left, values), subs(right, values)
        assert PYTHON[question](x, y) is answer, (str(left), str(right), values)


SMALL = {
    "M": (2, 2, 6),
    "N": (1, 1, 3),
    "K": (1, 1, 2),
    "i": (1, 0, 3),
    "j": (1, 0, 1),
    "z": (1, -3, 2),
}
SMALL_VALUES = [
    dict(zip(SMALL, values, strict=True))
    for values in itertools.product(*(range(lo, hi + 1, k) for k, lo, hi in SMALL.values()))
]


def small(tree):
    """Return the tree with symbols of few values, and all values that it takes."""
    named = {n: sym(n, multiple_of=k, min=lo, max=hi) for n, (k, lo, hi) in SMALL.items()}
    expression = build(tree, named)
    return expression, [concrete(tree, values) for values in SMALL_VALUES]


@given(SMALL_TREES)
@example(("mul", "z", ("add", "z", "N")))
@example(("mul", "z", "z"))
@example(("sub", "z", ("div", "z", "N")))
@example(("mod", "i", "M"))
def test_bounds_hold_for_all_of_a_few_values(tree):
    expression, values = small(tree)
    lo, hi = bounds(terms_of(expression))
    assert lo <= min(values)
    assert hi >= max(values)


@given(
    st.lists(
        st.tuples(
            st.integers(-3, 3).filter(bool),
            st.lists(st.tuples(st.integers(-3, 1), st.integers(0, 3)), min_size=1, max_size=2),
        ),
        min_size=1,
        max_size=2,
    )
)
def test_bounds_are_met_where_no_symbol_occurs_twice(terms):
    """Sums of c * x or c * x * y over different symbols: the interval is exact."""
    boxes = [(lo, lo + width) for _c, factors in terms for lo, width in factors]
    names = iter(range(len(boxes)))
    total, ranges = 0, [range(lo, hi + 1) for lo, hi in boxes]
    for c, factors in terms:
        for lo, width in factors:
            c = c * sym(f"x{next(names)}", min=lo, max=lo + width)
        total = total + c
    values = []
    for at in itertools.product(*ranges):
        known = iter(at)
        values.append(sum(math.prod([c, *[next(known) for _ in f]]) for c, f in terms))
    assert bounds(terms_of(total)) == (min(values), max(values))


def test_quotients_that_cancel_are_relaxed_before_those_that_do_not():
    """The column of a thread's accumulators: 8 a warp, 2 a lane."""
    tid = sym("tid", min=0, max=127)
    assert bounds(terms_of(8 * (tid // 64) + 2 * (tid % 4))) == (0, 14)


def test_what_the_interval_decides_is_not_looked_at_again(monkeypatch):
    n = sym("n", min=0)

    def never(_p):
        raise AssertionError

    monkeypatch.setattr(symbol_decisions, "bounds", never)
    assert ints.less(n, n + n + 1)
    assert ints.same(n + 1, 0) is False


@given(SMALL_TREES, SMALL_TREES, st.sampled_from(QUESTIONS))
def test_decisions_are_the_only_answer_for_all_of_a_few_values(a, b, question):
    (left, xs), (right, ys) = small(a), small(b)
    answers = {PYTHON[question](x, y) for x, y in zip(xs, ys, strict=True)}
    assert {getattr(ints, question)(left, right)} <= answers | {None}


@given(SMALL_TREES, SMALL_TREES, st.sampled_from(["same", "divides"]))
def test_proofs_decide_whatever_has_few_values(a, b, question):
    (left, xs), (right, ys) = small(a), small(b)
    proof = (prove_equal_ints if question == "same" else prove_divides_ints)(left, right)
    assert proof.answer is all(map(PYTHON[question], xs, ys))


@given(TREES, TREES)
def test_undecided_is_refused_with_an_assumption(a, b):
    left, right = build(a), build(b)
    if ints.less(left, right) is None:
        with pytest.raises(UndecidedError) as caught:
            ints.settle(ints.less, left, right, "composition")
        assert caught.value.facts["assumption"] in str(caught.value)


@given(TREES, st.integers(0, 2**32))
def test_partial_substitution_is_substitution_in_two_steps(tree, seed):
    expression, values = build(tree), assignments(1, seed)[0]
    first = {name: values[name] for name in ("M", "i")}
    assert subs(subs(expression, first), values) == subs(expression, values)


@given(TREES)
def test_repr_round_trips(tree):
    expression = build(tree)
    assert eval(repr(expression), {"sym": sym, "min_": min_, "ceil_div": ceil_div}) == expression


@given(TREES, st.integers(0, 2**32))
def test_str_is_python_over_the_names(tree, seed):
    expression = build(tree)
    for values in assignments(10, seed):
        names = {"min": min, "ceil_div": PYTHON["ceil_div"], **values}
        assert eval(str(expression), names) == subs(expression, values)


@given(TREES)
def test_pickle_and_copies_are_equal_and_hash_alike(tree):
    expression = build(tree)
    for twin in (
        pickle.loads(pickle.dumps(expression)),
        copy.deepcopy(expression),
        copy.copy(expression),
        build(tree),
    ):
        assert twin == expression
        assert hash(twin) == hash(expression)
        assert str(twin) == str(expression)


@given(TREES, TREES)
def test_ring_laws_hold_structurally(a, b):
    x, y = build(a), build(b)
    assert x + y == y + x
    assert x * y == y * x
    assert (x + y) * (x - y) == x * x - y * y
    assert x - x == 0


@given(TREES, POSITIVE)
def test_quotient_and_remainder_make_the_whole(tree, divisor):
    x, n = build(tree), build(divisor)
    assert x // n * n + x % n == x
    assert ints.same((x // n) * n, x - x % n) is True
    assert ints.less(x % n, 0) is not True
    assert ints.less(n - 1, x % n) is not True


# -- the normal form


def test_multiples_are_substituted():
    assert M // 8 * 8 == M
    assert M % 8 == 0
    assert M % 4 == 0
    assert (M * N + 8 * K) % 8 == 0
    assert M // 16 * 16 != M
    assert (M + 63) // 64 == (M + 56) // 64 == ceil_div(M, 64)


def test_quotients_of_quotients_are_one_quotient():
    assert i // 4 // 2 == i // 8
    assert i // M // N == i // (M * N)
    assert (i // 3 + 1) // 4 == (i + 3) // 12
    assert (i % 8) // 8 == 0
    assert i % 8 % 4 == i % 4
    assert (i * M) // (M * N) == i // N
    assert (i % 4 + 8 * N) // 8 == N


def test_coordinates_of_an_index_make_the_index_again():
    c0, c1, c2 = i % M, (i // M) % N, i // (M * N)
    assert c0 + M * c1 + M * N * c2 == i


def test_a_settled_expression_is_an_int():
    for expression in (M - M, M % 8, (i % 8) // 8, M // M, j // 32, 0 * N, min_(j, 31) - j):
        assert expression.__class__ is int


def test_negative_divisors_are_pythons():
    for n in (-3, -8, -1 * K, -N):
        for value in (0, 5, 64, 100):
            at = {"i": value, "K": 128, "N": 7}
            assert subs(i // n, at) == value // subs(n, at)
            assert subs(i % n, at) == value % subs(n, at)


def test_minima_are_flat_and_keep_only_what_may_be_least():
    assert min_(min_(M, N), K) == min_(K, min_(N, M))
    assert min_(M, M + 1) == M
    assert min_(j, 40) == j
    assert min_(M, 64) % 8 == 0
    assert ints.leq(min_(M, N), M)
    assert ints.leq(min_(M, N), N)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (M, "M"),
        (2 * M + 1, "2*M+1"),
        (M // 8, "M//8"),
        (3 * (M // 16), "3*(M//16)"),
        (N - M, "N-M"),
        (-N, "-N"),
        (-(N // 3), "-(N//3)"),
        (N % 4, "N%4"),
        (i % M * K, "K*(i%M)"),
        ((i // M) % N, "(i//M)%N"),
        (M % 48, "M%48"),
        (M % 3, "M%3"),
        (M // 3, "M//3"),
        (ceil_div(M, 64), "ceil_div(M,64)"),
        (ceil_div(i, M), "ceil_div(i,M)"),
        (min_(M, 64), "min(M,64)"),
        ((N - 3 * i) // 8, "(N-3*i)//8"),
        (i - i % N, "N*(i//N)"),
    ],
)
def test_text_speaks_of_the_declared_sizes(expression, text):
    assert str(expression) == text


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (sym("M"), "sym('M')"),
        (sym("M", multiple_of=8, max=4096), "sym('M', multiple_of=8, max=4096)"),
        (sym("M", min=0), "sym('M', min=0)"),
        (sym("M", min=None, max=7), "sym('M', min=None, max=7)"),
        (sym("M", multiple_of=8, min=9, max=31), "sym('M', multiple_of=8, min=16, max=24)"),
        (sym("M", multiple_of=np.int64(8)), "sym('M', multiple_of=8)"),
    ],
)
def test_repr_carries_the_declaration_in_canonical_form(declared, text):
    assert repr(declared) == text


# -- decisions that layouts need


@each(
    [
        ("same", M * N, N * M, True),
        ("same", M // 8 * 8, M, True),
        ("same", 2 * N, 2 * M + 1, False),
        ("same", M, 7, False),
        ("same", M, N, None),
        ("same", sym("P", min=4, max=4), 4, True),
        ("less", 0, M, True),
        ("less", M, 8, False),
        ("less", N, 2, None),
        ("less", i % M, M, True),
        ("less", (i // N) % M, M, True),
        ("less", i % 8, 8, True),
        ("less", j, 32, True),
        ("less", (-5) // N, 0, True),
        ("leq", i % M, 4095, True),
        ("less", i % M, 4095, None),
        ("less", M, 4097, True),
        ("leq", N, N * M, True),
        ("leq", N * K, N * M * K, True),
        ("leq", 4096 * N - M * N, -1, False),
        ("leq", i // N * N, i, True),
        ("leq", i // N, i, True),
        ("leq", M, ceil_div(M, 64) * 64, True),
        ("divides", 8, M, True),
        ("divides", 16, M, None),
        ("divides", 8, M + 4, False),
        ("divides", M, M * N, True),
        ("divides", N, M * N + N, True),
        ("divides", K, 63, False),
        ("divides", 8, 16 * i + N // 3 * 8, True),
    ]
)
def test_decision(question, a, b, answer):
    assert getattr(ints, question)(a, b) is answer


@pytest.mark.parametrize(
    ("question", "a", "b", "words"),
    [
        ("divides", 16, M, "M is a multiple of 16"),
        ("divides", 12, M, "M is a multiple of 24"),
        ("divides", 16, 2 * M + N, "N is a multiple of 16"),
        ("divides", 32, 2 * M + N, "M is a multiple of 16 and N is a multiple of 32"),
        ("divides", N, M, "M is a multiple of N"),
        ("less", M, 64, "M <= 56"),
        ("less", 1, N, "N >= 2"),
        ("leq", 1000, M, "M >= 1000"),
        ("leq", 2 * N, 9, "N <= 4"),
        ("same", M, 64, "M == 64"),
        ("same", M, N, "M == N"),
        ("less", N * K, M, "K*N < M"),
    ],
)
def test_the_assumption_that_settles_an_open_question(question, a, b, words):
    assert getattr(ints, question)(a, b) is None
    assert ints.assumption(question, a, b) == words


def test_declaring_the_assumption_settles_the_question():
    assert ints.divides(16, sym("M", multiple_of=16)) is True
    assert ints.less(sym("M", multiple_of=8, max=56), 64) is True
    assert ints.less(1, sym("N", min=2)) is True


# -- Python's operators


def test_operators_take_numpy_integers_on_either_side():
    for result in (np.int64(3) * N, N * np.int64(3), np.int8(3) * N):
        assert result == 3 * N
    assert np.int64(3) - N == 3 - N


def test_reflected_and_unary_operators():
    assert (70 // K, 70 % K, divmod(N, 4)) == (70 // K, 70 - K * (70 // K), (N // 4, N % 4))
    assert (+N, -1 * -N, abs(-N)) == (N, N, N)
    assert subs(100 // N, {"N": 7}) == 14


def test_equality_is_structural():
    assert sym("M", multiple_of=8, max=4096) == M
    assert sym("M", multiple_of=8) != M
    assert M != 64
    assert len({M, 1 * M, M // 8 * 8, N}) == 2


def test_settled_comparisons_are_bools():
    assert N > 0
    assert N >= 1
    assert M <= 4096
    assert j < 32
    assert not M < 8
    assert bool(N)
    assert int(sym("P", min=4, max=4)) == 4
    assert list(range(sym("P", min=2, max=2))) == [0, 1]


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda: bool(M < N), r"comparison: given symbols that leave open whether M < N; "),
        (
            lambda: i >= 5,
            r"whether 5 <= i; .* fix: assume that i >= 5: declare it, sym\(name, mult",
        ),
        (lambda: bool(i), r"bool: given symbols that leave open whether i != 0"),
        (lambda: int(M), r"int: given symbols that leave open whether M is one number"),
        (lambda: range(M), r"fix: assume that M is fixed: declare it, .* or substitute numbers"),
        (lambda: [1, 2][N], r"int: .* whether N is one number"),
        (lambda: abs(z), r"abs: .* whether z < 0"),
        (lambda: N // i, r"div: given symbols that leave open whether i >= 1"),
        (lambda: subs(M, {"M": N}), r"subs: .* whether N is a multiple of 8"),
    ],
)
def test_python_needs_a_settled_answer(use, text):
    with pytest.raises(UndecidedError, match=text):
        use()


def test_symbols_are_frozen():
    with pytest.raises(AttributeError, match="SymInt is frozen"):
        M.name = "N"
    with pytest.raises(AttributeError, match="Proof is frozen"):
        prove_equal_ints(M, M).answer = False


# -- values


def test_substitution_of_expressions_stays_symbolic():
    assert subs(M // 16, {"M": 32 * sym("P", max=4)}) == 2 * sym("P", max=4)
    assert subs(M + N, {"X": 3}) == M + N
    assert subs(7, {"M": 8}) == 7


def test_symbols_in_are_the_declared_ones():
    assert symbols_in(K * (i % M) + min_(N, 4)) == (K, M, N, i)
    assert symbols_in(5) == ()


# -- proofs


@given(TREES, TREES, st.sampled_from(["same", "divides"]), st.integers(0, 2**32))
@example("N", ("mul", 2, ("div", "N", 2)), "same", 0)
@example(2, ("mul", "z", ("add", "z", 1)), "divides", 0)
def test_proofs_are_right(a, b, question, seed):
    left, right = build(a), build(b)
    proof = (prove_equal_ints if question == "same" else prove_divides_ints)(left, right)
    if proof.answer is None:
        assert proof.assumption
        assert proof.counterexample is None
    elif proof.answer:
        for values in assignments(200, seed):
            assert PYTHON[question](subs(left, values), subs(right, values)), values
    else:
        x, y = subs(left, proof.counterexample), subs(right, proof.counterexample)
        assert not PYTHON[question](x, y)
        assert str(proof).endswith(f"gives {x} and {y}")


@given(TREES)
def test_every_expression_equals_itself_rebuilt(tree):
    assert prove_equal_ints(build(tree), build(("add", ("sub", tree, "N"), "N")))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (M // 8 * 8, M),
        (i // 3 + (i + 1) // 3 + (i + 2) // 3, i),
        (i * i % 4, (i % 2) * (i % 2)),
        (
            (i % 2) * (i % 2) + (i % 3) * (i % 3) * (i % 3),
            (i % 2) + 3 * (i % 3) * (i % 3) - 2 * (i % 3),
        ),
        ((z - 1) * (z + 1) + 1, z * z),
        (i % 4 + 4 * ((i // 4) % 3) + 12 * (i // 12), i),
        (j // 4 * 4 + (j % 4), j),
        ((j * j) // 1000, j * 0),
        (min_(M, N) + min_(N, M), 2 * min_(M, N)),
        (d * d * d * d * d // 3, d * d // 3 * d * d * d),
    ],
)
def test_equal_integers_are_proved_equal(a, b):
    proof = prove_equal_ints(a, b)
    assert proof.answer is True
    assert str(proof).startswith("yes: ")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (M, 4096),
        (M // 16 * 16, M),
        (j // 31, j * 0),
        (min_(M, 4000), M),
        (min_(N, 10**6), N),
        (i * N, i * N + 1),
        ((z - 1) * (z - 2) * (z - 3), z * 0),
        (N // 5 + N // 7, N * 12 // 35),
        (i // N * N, i),
        (M * N * K * i, M * N * K * (i + j)),
    ],
)
def test_different_integers_have_a_counterexample(a, b):
    proof = prove_equal_ints(a, b)
    assert proof.answer is False
    assert subs(a, proof.counterexample) != subs(b, proof.counterexample)


@pytest.mark.parametrize("n", range(2, 13))
def test_products_of_consecutive_integers_are_divisible_by_the_factorial(n):
    product = math.prod((z + k for k in range(1, n)), start=z)
    assert prove_divides_ints(math.factorial(n), product)
    assert prove_divides_ints(math.factorial(n + 1), product).answer is False


def test_fermats_little_theorem():
    for p in range(2, 12):
        power = math.prod([z] * p)
        assert prove_divides_ints(p, power - z).answer is all(p % k for k in range(2, p))


def test_all_of_many_values_are_tried():
    s = sym("s", min=1, max=4096)
    hole = min_(s % 63 + s % 65, 1)  # 1 but for s = 63 * 65
    assert prove_equal_ints(hole, 1).counterexample == {"s": 4095}


def test_what_is_not_proved_is_unknown_with_an_assumption():
    proof = prove_equal_ints(i // N + (-i - 1) // N, -1)
    assert proof.answer is None
    assert str(proof).startswith("unknown: ")
    assert proof.assumption in str(proof)
    with pytest.raises(UndecidedError, match=r"bool\(proof\): given symbols that leave open"):
        bool(proof)


def test_proofs_of_numbers():
    assert prove_equal_ints(4, 4)
    assert str(prove_equal_ints(4, 5)) == "no: every value gives 4 and 5"
    assert prove_divides_ints(4, 12)
    assert not prove_divides_ints(0, 12)


def test_proofs_are_values():
    proof = prove_equal_ints(M, 8)
    assert proof == Proof(False, "M=16 gives 16 and 8", {"M": 16})
    assert pickle.loads(pickle.dumps(proof)) == proof
    assert eval(repr(proof)) == proof
    assert len({proof, prove_equal_ints(M, 8)}) == 1


# -- SymPy


@given(TREES, st.integers(0, 2**32))
def test_sympy_computes_the_same(tree, seed):
    expression, values = build(tree), assignments(1, seed)[0]
    formula = to_sympy(expression)
    at = {symbol: values[symbol.name] for symbol in formula.free_symbols}
    assert formula.subs(at) == subs(expression, values)


def test_sympy_symbols_have_the_declared_signs():
    (name,) = to_sympy(M).free_symbols
    assert name.is_integer
    assert name.is_positive
    (name,) = to_sympy(z).free_symbols
    assert name.is_positive is None


def test_latex_of_a_rounded_quotient():
    assert latex(ceil_div(N, 64)) == r"\left\lfloor{\frac{N}{64} + \frac{63}{64}}\right\rfloor"


def test_symbols_load_nothing_but_the_standard_library():
    code = (
        "import sys; from cute_py.integers.symbols import sym; M = sym('M'); str(M // 8 + M % 3); "
        "print([m for m in ('sympy', 'numpy', 're', 'typing', 'dataclasses') if m in sys.modules])"
    )
    # -S: packages like numba-cuda load modules at the start of every process, from a .pth file
    command = [sys.executable, "-S", "-c", code]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("make", [sym, lambda name: cute.Memory(name, "f16")])
def test_a_name_that_is_no_identifier_has_its_code(make):
    with pytest.raises(LayoutError, match="'M-1'; required: a Python identifier") as caught:
        make("M-1")
    assert (caught.value.code, caught.value.facts["name"]) == ("symbol-name", "M-1")
