"""The integer protocol: plain ints, any class that takes part, and every refusal."""

import enum
import operator
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cute_py.errors import LeafTypeError, UndecidedError
from cute_py.integers import ints
from cute_py.integers.symbols import sym
from cute_py.layout.basis import E
from tests.opaque import Opaque, OutsideProtocol, hide, reveal

ARITHMETIC = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "mod": operator.mod,
    "ceil_div": lambda a, b: -(-a // b),
    "min_": min,
}
DECISIONS = {
    "same": operator.eq,
    "less": operator.lt,
    "leq": operator.le,
    "divides": lambda d, x: any(d * q == x for q in range(-100, 101)),
}
NUMBERS = st.integers(-100, 100)
MIXES = list(product((int, Opaque), repeat=2))


class Colour(enum.IntEnum):
    RED = 3


# -- ints and hidden ints give what Python gives


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", ARITHMETIC)
@given(a=NUMBERS, b=st.integers(1, 100))
def test_arithmetic_is_pythons_for_every_class_of_leaf(name, mix, a, b):
    result = getattr(ints, name)(mix[0](a), mix[1](b))
    assert reveal(result) == ARITHMETIC[name](a, b)
    assert result.__class__ is (int if mix == (int, int) else Opaque)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", DECISIONS)
@given(a=NUMBERS, b=NUMBERS)
def test_decisions_are_pythons_for_every_class_of_leaf(name, mix, a, b):
    assert getattr(ints, name)(mix[0](a), mix[1](b)) is DECISIONS[name](a, b)


@pytest.mark.parametrize("kind", [int, Opaque])
@given(a=NUMBERS)
def test_functions_of_one_leaf(kind, a):
    assert reveal(ints.neg(kind(a))) == -a
    assert reveal(ints.abs_(kind(a))) == abs(a)
    assert ints.is_zero(kind(a)) is (a == 0)
    assert ints.is_one(kind(a)) is (a == 1)


def test_only_zero_is_a_multiple_of_zero():
    assert ints.divides(0, 0)
    assert not ints.divides(0, 4)


def test_a_leaf_is_itself_whatever_it_knows():
    x = Opaque(3, knows=False)
    assert ints.same(x, x)
    assert ints.same(x, Opaque(3, knows=False)) is None


# -- open dispatch


class Left:
    """Knows ints only, and says so to the rest."""

    def cute_compute(self, op, a, b):
        return f"left {op}" if int in (a.__class__, b.__class__) else NotImplemented

    def cute_decide(self, question, a, b):
        return NotImplemented

    def __repr__(self):
        return "Left()"


class Right(Left):
    """Knows everything."""

    def cute_compute(self, op, a, b):
        return f"right {op} {a.__class__.__name__} {b.__class__.__name__}"

    def cute_decide(self, question, a, b):
        return a.__class__ is Left


def test_the_second_operand_is_asked_when_the_first_does_not_know_it():
    assert ints.sub(Left(), Right()) == "right sub Left Right"
    assert ints.less(Left(), Right()) is True
    assert ints.sub(3, Left()) == "left sub"


@pytest.mark.parametrize("function", [ints.add, ints.same])
def test_classes_that_do_not_know_each_other_are_refused(function):
    with pytest.raises(LeafTypeError, match=r"Left\(\) and Left\(\); required: operands of"):
        function(Left(), Left())


@pytest.mark.parametrize("leaf", [np.int64(4), True, 2.0, "4", None, (2, 2)])
@pytest.mark.parametrize("function", [ints.add, ints.divides])
def test_what_is_no_leaf_is_refused_by_every_operation(function, leaf):
    with pytest.raises(LeafTypeError, match="required: integers"):
        function(leaf, 3)
    with pytest.raises(LeafTypeError, match="required: integers"):
        function(3, leaf)


# -- normalize, is_leaf, is_static, as_int


@pytest.mark.parametrize(
    "x", [7, np.int8(7), np.uint64(7), np.array(7), type("Sub", (int,), {})(7)], ids=repr
)
def test_integers_of_every_kind_become_int(x):
    assert ints.normalize(x) == 7
    assert ints.normalize(x).__class__ is int


def test_an_enumerated_int_becomes_int():
    assert ints.normalize(Colour.RED).__class__ is int


@pytest.mark.parametrize(
    "x",
    [True, np.bool_(True), np.array(True), 1.0, np.float32(1), "1", None, np.array([1, 2]), 1j],
    ids=repr,
)
def test_bool_float_and_text_are_refused(x):
    with pytest.raises(LeafTypeError, match="bool and float are not sizes; fix: pass an int"):
        ints.normalize(x, "make_layout")


def test_the_refusal_of_a_leaf_names_operation_value_and_alternatives():
    with pytest.raises(LeafTypeError, match=r"^tile: given 2.5 \(float\).*or symbols, or None; "):
        ints.normalize(2.5, "tile", ", or None")


def test_leaves_stay_as_they_are():
    for x in (Opaque(3), sym("M")):
        assert ints.normalize(x) is x
        assert ints.is_leaf(x)
        assert not ints.is_static(x)
    assert ints.is_leaf(3)
    assert ints.is_static(3)
    assert not any(map(ints.is_leaf, (True, 1.0, "1", (1,), np.int64(1), None)))


def test_as_int_needs_one_value():
    assert ints.as_int(5, "coordinates") == 5
    assert ints.as_int(sym("M", multiple_of=64, min=64, max=127), "coordinates") == 64
    with pytest.raises(
        UndecidedError, match="coordinates: given symbols that leave open whether M"
    ):
        ints.as_int(sym("M"), "coordinates")


# -- questions that stay open


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (ints.same, "Opaque(2) == Opaque(6)"),
        (ints.less, "Opaque(2) < Opaque(6)"),
        (ints.leq, "Opaque(2) <= Opaque(6)"),
        (ints.divides, "Opaque(6) is a multiple of Opaque(2)"),
    ],
)
def test_an_open_question_is_refused_with_the_assumption_that_settles_it(question, words):
    a, b = hide((2, 6), knows=False)
    assert question(a, b) is None
    with pytest.raises(UndecidedError) as caught:
        ints.settle(question, a, b, "composition", "gemm.py:31")
    assert caught.value.facts["assumption"] == words
    assert str(caught.value) == (
        f"composition: given symbols that leave open whether {words}; required: the same answer "
        f"for every value that the symbols can take; fix: assume that {words}: declare it, "
        "sym(name, multiple_of=..., min=..., max=...), or substitute numbers (subs) (gemm.py:31)"
    )


def test_settled_questions_are_answered():
    assert ints.settle(ints.divides, 2, 6, "composition") is True
    assert ints.settle(ints.less, 6, 2, "composition") is False
    assert ints.require(False, "composition", "6 < 2") is False


def test_the_magnitude_of_a_leaf_of_open_sign_is_refused():
    with pytest.raises(UndecidedError, match=r"abs_: .* 0 <= Opaque\(3\)"):
        ints.abs_(Opaque(3, knows=False))


# -- the test double itself


@pytest.mark.parametrize(
    "misuse",
    [
        lambda x: x + 1,
        lambda x: 1 + x,
        lambda x: 2 * x,
        lambda x: x // 2,
        lambda x: -x,
        lambda x: x < 3,
        lambda x: x == 3,
        lambda x: operator.eq(3, x),
        lambda x: x != 3,
        lambda x: x in (1, 2),
        lambda x: sorted([x, Opaque(1)]),
        lambda x: min(x, 3),
        lambda x: max(3, x),
        lambda x: sum([x, x]),
        bool,
        int,
        float,
        range,
        abs,
        lambda x: divmod(x, 2),
        lambda x: [10, 20, 30][x],
        lambda x: (x, 1) == (Opaque(3), 1),
        lambda x: np.int64(2) * x,
    ],
)
def test_an_opaque_leaf_refuses_everything_outside_the_protocol(misuse):
    with pytest.raises(OutsideProtocol):
        misuse(Opaque(2))


def test_symbols_and_coordinate_strides_meet():
    stride = sym("M") * E(1)
    assert str(stride) == "M@1"
    assert stride == E(1) * sym("M")


@pytest.mark.parametrize("question", [ints.add, ints.divides])
def test_leaves_of_unrelated_classes_do_not_meet(question):
    with pytest.raises(
        LeafTypeError, match="classes that work together; fix: use one kind"
    ) as caught:
        question(Opaque(2), sym("M"))
    assert caught.value.code == "leaf-operands"
