"""Formulas: functions of registers as graphs, against Python's numbers and central differences."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.calls.fingerprint import static_key
from cute_py.plan.formula import Formula
from cute_py.plan.functions import FUNCTIONS
from cute_py.trace.arithmetic import apply
from cute_py.trace.formulas import formula, replayed
from tests.kernel_refusals import recorded
from tests.sampling import each

FLOATS = [f.name for f in FUNCTIONS.values() if f.domain in ("any", "float") and f.name != "where"]
POINTS = (0.31, 0.77, 1.9)


def sigmoid(x):
    return cute.rcp(cute.exp(-x) + 1)


def silu(x):
    return x * sigmoid(x)


# name -> (a function, the same of numbers, whether its derivative needs the input, values held)
KNOWN = {
    "identity": (lambda x: x, lambda x: x, False, 1),
    "a number": (lambda x: 3, lambda x: 3.0, False, 0),
    "in place": (lambda x: square_in_place(x), lambda x: x * x + 1, True, 1),
    "relu": (lambda x: cute.where(x < 0, 0, x), lambda x: max(x, 0.0), False, 1),
    "clipped": (lambda x: cute.where(x > 2, 2, x), lambda x: min(x, 2.0), False, 1),
    "kept": (lambda x: cute.where(x > -1, x, -1), lambda x: max(x, -1.0), False, 1),
    "leaky": (lambda x: cute.where(x < 0, x * 0.1, x), lambda x: max(x, 0.1 * x), True, 2),
    "sigmoid": (sigmoid, lambda x: 1 / (1 + math.exp(-x)), False, 1),
    "divided": (lambda x: 1 / (3 + cute.exp2(x)), lambda x: 1 / (3 + 2**x), False, 1),
    "tanh": (lambda x: cute.tanh(x), math.tanh, False, 1),
    "silu": (silu, lambda x: x / (1 + math.exp(-x)), True, 2),
    "elu": (
        lambda x: cute.where(x > 0, x, cute.exp(x) - 1),
        lambda x: x if x > 0 else math.expm1(x),
        True,
        2,
    ),
    "halved": (lambda x: x.to("f64").to("f32") / 2, lambda x: x / 2, False, 1),
}


def square_in_place(x):
    y = cute.rmem(x.dtype, 1)
    y.fill(1)
    y += x * x
    return y


def gradient(found, x):
    return found.derivative().number(x, found.number(x), 1.0)


def difference(function, x, h=1e-5):
    return (function(x + h) - function(x - h)) / (2 * h)


@pytest.mark.parametrize("name", KNOWN)
def test_a_function_is_computed_and_differentiated(name):
    function, model, keeps_input, held = KNOWN[name]
    found = formula(function)
    for x in (-80.0, -1.3, -0.5, 0.4, 1.7, 80.0):
        assert found.number(x) == pytest.approx(model(x), rel=1e-12, abs=1e-12)
        wanted = difference(model, x) if abs(x) < 50 else gradient(found, x)
        assert gradient(found, x) == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    derivative = found.derivative()
    assert derivative.inputs == (*found.inputs, "result", "gradient")
    assert derivative.reads(0) is keeps_input
    assert not (derivative.reads(0) and derivative.reads(1))
    assert found.held == held


@each(FLOATS)
def test_the_derivative_of_each_function_by_each_source(name):
    row = FUNCTIONS[name]
    for place in range(row.arity):
        rest = [0.6, 1.4, 0.9][: row.arity - 1]

        def of_one(x, place=place, rest=rest):
            return apply(name, *rest[:place], x, *rest[place:])

        def model(x, place=place, rest=rest):
            return float(row.model(*rest[:place], x, *rest[place:]))

        if row.compares:
            assert formula(of_one).derivative().number(0.3, 0.0, 1.0) == 0
            continue
        found = formula(of_one)
        for x in POINTS:
            assert gradient(found, x) == pytest.approx(difference(model, x), rel=1e-5, abs=1e-8)


def test_at_a_bound_that_where_sets_the_derivative_is_0():
    """And where the greater of two is taken, half: the kinks of a smooth function cancel."""
    assert gradient(formula(lambda x: cute.where(x < 0, 0, x)), 0.0) == 0
    assert gradient(formula(lambda x: cute.where(x >= 0, x, 0)), 0.0) == 0
    assert gradient(formula(lambda x: cute.maximum(x, 0)), 0.0) == 0.5
    smooth = formula(lambda x: cute.maximum(x, 0) + cute.log(cute.exp(-abs(x)) + 1))
    assert gradient(smooth, 0.0) == 0.5


def test_a_branch_that_is_not_taken_gives_no_nan():
    found = formula(lambda x: cute.where(x > 0, x, cute.log(1 - x))).derivative()
    assert found.number(0.5, 0.5, 2.0) == 2.0
    with pytest.raises(ZeroDivisionError):  # at 1 the other branch has none
        found.number(1.0, 1.0, 2.0)


SMOOTH = (
    lambda x: x + 0.5, lambda x: x * -0.7, lambda x: 1.5 - x, lambda x: cute.sin(x),
    lambda x: cute.tanh(x), lambda x: cute.exp(x * 0.1), sigmoid, silu, lambda x: cute.gelu(x),
    lambda x: cute.fma(x, x, 1.0), lambda x: cute.sqrt(x * x + 1),
)  # fmt: skip


@given(st.lists(st.sampled_from(SMOOTH), min_size=1, max_size=5), st.floats(-2, 2))
def test_chains_of_smooth_functions(chain, at):
    def function(x):
        start = x
        for link in chain:
            x = link(x)
        return x + start * 0.25

    found = formula(function)
    wanted = difference(found.number, at)
    assert gradient(found, at) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_functions_of_several_registers():
    """Such as an epilogue: of the sum, a bias and a scale."""
    found = formula(lambda x, bias, scale: cute.tanh(x + bias) * scale)
    value = found.number(0.3, 0.4, 2.0)
    assert value == pytest.approx(2 * math.tanh(0.7))
    slope = 2 * (1 - math.tanh(0.7) ** 2)
    for n, wanted in enumerate((slope, slope, math.tanh(0.7))):
        gradient = found.derivative(n)
        assert gradient.number(0.3, 0.4, 2.0, value, 1.0) == pytest.approx(wanted)
    of_result = formula(lambda y, g: cute.tanh(y + g)).derivative(1)
    assert [of_result.reads(n) for n in range(4)] == [False, False, True, True]


def test_equal_functions_have_equal_formulas():
    plain, other = formula(silu), formula(lambda z: z * cute.rcp(1.0 + cute.exp(-z)))
    assert formula(lambda x: sigmoid(x) * 1.0) != plain != other
    renamed = formula(lambda z: z * cute.rcp(cute.exp(-z) + 1))
    assert renamed == plain
    assert hash(renamed) == hash(plain)
    zeros = [formula(lambda x, zero=zero: x + zero) for zero in (0.0, -0.0)]
    assert zeros[0] != zeros[1]
    assert static_key(renamed) == static_key(plain)
    assert eval(repr(plain), {**vars(cute), **vars(cute.plan.formula), "cute": cute}) == plain


def test_equal_steps_are_one():
    found = formula(lambda x: cute.exp(x) * cute.exp(x) + cute.exp(x))
    assert [step.fn for step in found.steps] == ["exp", "mul", "add"]
    assert found.price == 9 + 1 + 1


def test_a_function_is_traced_once_until_it_changes():
    factor = [2.0]

    def scaled(x):
        return x * factor[0]

    first = formula(scaled)
    assert formula(scaled) is first
    factor[0] = 3.0
    assert formula(scaled).number(2.0) == 6.0
    factor[0] = 2.0
    assert formula(scaled) is first


def test_a_function_of_an_iterator_is_traced_each_time():
    numbers = itertools.count(3)
    for number in (3, 4):
        assert formula(lambda x: x * next(numbers)).number(2.0) == 2 * number


def test_a_function_of_globals_by_text_is_traced_each_time(monkeypatch):
    for number in (3.0, 4.0):
        monkeypatch.setitem(globals(), "FACTOR", number)
        assert formula(of_a_global).number(2.0) == 2 * number


def of_a_global(x):
    return x * globals()["FACTOR"]


def test_a_formula_is_traced_inside_of_a_kernel():
    """Apart from it: the kernel records what it replays, and nothing else."""

    def body(f):
        x = f[cute.thread_idx()]
        f[cute.thread_idx()] = replayed(formula(lambda x: x * x + 1.0), x)

    def plain(f):
        x = f[cute.thread_idx()]
        f[cute.thread_idx()] = x * x + 1.0

    assert recorded(body) == recorded(plain)


def test_numbers_alone_get_the_type_of_the_registers():
    def body(f):
        x = f[cute.thread_idx()].to("f64")
        y = replayed(formula(lambda x: cute.where(x < 1, 2.0, 3.0), "f64"), x)
        z = replayed(formula(lambda x: 4.0, "f64"), x)
        assert y.dtype is z.dtype is cute.f64
        f[cute.thread_idx()] = (y + z).to("f32")

    assert recorded(body)


def test_integers_have_what_their_type_has():
    assert formula(lambda x: cute.where(x < 0, 0, x), "s32").number(-3) == 0
    for function in (lambda x: cute.exp(x), lambda x: x * 0.5, lambda x: x / 2):
        assert refused(function, "s32") in ("kernel-domain", "kernel-number")


def refused(function, dtype="f32"):
    with pytest.raises(cute.CuteError) as caught:
        formula(function, dtype)
    return caught.value.code


def test_more_than_arithmetic_is_refused():
    def branched(x):
        y = cute.rmem("f32", 1)
        y.fill(0)
        with cute.when(x > 0):
            y[0] = x
        return y

    def unwritten(x):
        return x + cute.rmem("f32", 1)

    for function in (branched, unwritten, lambda x: cute.shuffle(x, 1)):
        assert refused(function) == "kernel-formula"
    assert isinstance(formula(lambda x: x), Formula)
    assert refused(lambda x: "x") == "formula-result"
    assert refused(lambda x: 2 * cute.reduce("max", x)) == "formula-combined"
    assert refused(lambda x: {"D": x, "m": cute.reduce("max", x, mode=2)}) == "kernel-choice"
    found = formula(lambda x: {"D": x, "m": cute.reduce("max", x + 1, mode=1)})
    assert (found.outputs, found.reductions) == (("D", "m"), (("m", "max", 1),))
