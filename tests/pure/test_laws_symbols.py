"""Symbols against instances: a symbolic result with numbers put in is the result of these numbers.

As maps: equal size, equal offsets. Or UndecidedError names an assumption. Extents and strides that
may become 1 or 0 are among the symbols. The inverses and what layouts have in common promise less:
the instance obeys the law.
"""

from itertools import product

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, sym
from tests.strategies import profiles

N, M, K = sym("N"), sym("M", multiple_of=8), sym("K", min=2)
P, Q, Z = sym("P", max=4), sym("Q", multiple_of=4, max=64), sym("Z", min=0)
VALUES = {"N": (1, 2, 8), "M": (8, 24), "K": (2, 3, 8), "P": (1, 4), "Q": (4, 16), "Z": (0, 1, 4)}
MOST = 2048  # elements of an instance

extents = st.one_of(
    st.sampled_from((1, 1, 2, 3, 4, 8, 16)),
    st.sampled_from((N, 2 * N, M, M // 8, K, 4 * K, P, Q, Q // 4)),
)


@st.composite
def symbolic_layouts(draw, max_leaves=3):
    """Draw a layout with symbols: mostly a chain of strides, with gaps, broadcasts, any stride."""
    sizes = draw(st.lists(extents, min_size=1, max_size=max_leaves))
    steps, filled = [0] * len(sizes), draw(st.sampled_from((1, 1, 1, 2, 4)))
    for k in draw(st.permutations(range(len(sizes)))):
        kind = draw(st.integers(0, 9))
        steps[k] = 0 if kind == 0 else draw(st.sampled_from((N, Z, K, M))) if kind == 1 else filled
        filled *= sizes[k] * draw(st.sampled_from((1, 1, 1, 1, 2, 3)))
    shape = draw(profiles(sizes))
    rest = iter(steps)
    return Layout(shape, cute.transform_leaf(lambda _: next(rest), shape))


tilers = st.one_of(
    symbolic_layouts(2),
    st.sampled_from((1, 2, 3, 4, 8)),
    st.tuples(st.one_of(st.sampled_from((1, 2, 4, 8, cute._, Q // 4)), symbolic_layouts(1))),
)
targets = st.sampled_from((8, 12, 64, M, N, (4, 8), (N, 4), (M, N)))


def names_in(*operands):
    text = " ".join(cute.layout.tuples.show(each) for each in operands)
    return [name for name in VALUES if name in text]


def at(x, values):
    """Return an operand or a result with numbers for its symbols."""
    if isinstance(x, tuple):
        return tuple(at(part, values) for part in x)
    return x if x is cute._ else cute.substitute(x, values)


def instances(*operands):
    """Yield the values of the symbols, and the operands with these."""
    names = names_in(*operands)
    for values in product(*[VALUES[name] for name in names]):
        values = dict(zip(names, values, strict=True))
        numbers = [at(each, values) for each in operands]
        if all(not isinstance(x, Layout) or cute.size(x) <= MOST for x in numbers):
            yield values, numbers


def require_assumption(error):
    """Fail where an undecided question names nothing that would settle it."""
    if not error.facts.get("assumption"):
        raise AssertionError(error)


def answered(operation, *operands):
    """Return the answer; an undecided question names its assumption."""
    try:
        return operation(*operands)
    except cute.UndecidedError as error:
        assume(require_assumption(error))
    except cute.LeafTypeError:
        assume(False)  # a tuple of tilers for a product that takes none
    except cute.LayoutError as error:
        assume(error.code not in WHATEVER_THE_VALUES)
        for _, numbers in instances(*operands):
            with pytest.raises(cute.LayoutError):
                operation(*numbers)
        assume(False)


WHATEVER_THE_VALUES = ("tiler-rank", "rank-target")  # refused for the ranks alone


def check_instances(operation, *operands):
    result = answered(operation, *operands)
    for values, numbers in instances(*operands):
        got, wanted = at(result, values), operation(*numbers)
        assert cute.size(got) == cute.size(wanted), (values, str(got), str(wanted))
        count = min(cute.size(got), MOST)
        assert [got(i) for i in range(count)] == [wanted(i) for i in range(count)], values


@given(symbolic_layouts())
@example(Layout((2, 2, M), (2 * Z, 1, 2)))  # Z may be 0
def test_what_has_one_operand_is_that_of_each_instance(layout):
    for name in ("coalesce", "filter", "filter_zeros", "nullspace", "make_layout_like", "flatten"):
        operation = getattr(cute, name)
        try:
            operation(layout)
        except cute.UndecidedError as error:
            require_assumption(error)
            continue
        check_instances(operation, layout)


@given(symbolic_layouts(), st.one_of(st.none(), targets))
@example(Layout(P, 2), None)  # P may be 1, and then there is no gap
@example(Layout(K, 1), (N, 4))  # is rounded up mode by mode, or not
def test_complement_is_that_of_each_instance(layout, target):
    check_instances(cute.complement, layout, *([] if target is None else [target]))


@given(symbolic_layouts(), tilers)
def test_composition_is_that_of_each_instance(a, b):
    check_instances(cute.composition, a, b)


@pytest.mark.parametrize("name", ["logical", "zipped", "tiled", "flat"])
@given(symbolic_layouts(), tilers)
@example(Layout((8, 1), (1, 0)), Layout((M // 8,), (64,)))  # M // 8 may be 1
@example(Layout(N, 0), Layout(N, 4))
def test_divide_is_that_of_each_instance(name, layout, tiler):
    check_instances(getattr(cute, f"{name}_divide"), layout, tiler)


@pytest.mark.parametrize("name", ["logical", "tiled", "blocked", "raked"])
@given(symbolic_layouts(), tilers)
@example(Layout((2, N), (1, 3)), Layout((4, 2), (4, 2)))  # a hole that is none for N = 1
@example(Layout((Q // 4,), (2,)), Layout(6))  # the copies have two modes, unless Q = 4
def test_product_is_that_of_each_instance(name, block, tiler):
    check_instances(getattr(cute, f"{name}_product"), block, tiler)


@given(symbolic_layouts(), st.sampled_from((2, 4)))
@example(Layout((P, N, 4 * P), (1, P, N * P)), 4)  # which of the modes has stride 1
@example(Layout((M, N), (N, 1)), 2)
def test_recast_is_that_of_each_instance(layout, n):
    check_instances(lambda x: cute.upcast(x, n), layout)


@given(symbolic_layouts(), st.sampled_from((2, 4)))
@example(Layout((P, N, 4 * P), (1, P, N * P)), 4)  # which of the modes has stride 1
@example(Layout((M, N), (N, 1)), 2)
def test_downcast_is_that_of_each_instance(layout, n):
    check_instances(lambda x: cute.downcast(x, n), layout)


def test_downcast_names_the_assumption_that_decides_which_mode_grows():
    with pytest.raises(cute.UndecidedError, match="assume that N >= 2"):
        cute.downcast(Layout((M, N), (N, 1)), 2)
    assert str(cute.downcast(Layout((M, K), (K, 1)), 2)) == "(M,2*K):(2*K,1)"
    check_instances(lambda x: cute.downcast(x, 2), Layout((M, K), (K, 1)))


def is_injective(layout):
    values = [layout(i) for i in range(cute.size(layout))]
    return len(set(values)) == len(values)


def check_prefix(got, wanted, count=MOST):
    """Check that a result is the first part of another one."""
    assert cute.size(got) <= cute.size(wanted), (str(got), str(wanted))
    places = range(min(cute.size(got), count))
    assert [got(k) for k in places] == [wanted(k) for k in places], (str(got), str(wanted))


@given(symbolic_layouts())
@example(Layout((8, 8), (N, 1)))  # for N = 1 two inverses are right
def test_right_inverse_is_the_start_of_that_of_each_instance(layout):
    right = answered(cute.right_inverse, layout)
    for values, (x,) in instances(layout):
        got = at(right, values)
        assert [x(got(k)) for k in range(cute.size(got))] == list(range(cute.size(got))), values
        if is_injective(x):  # and no other inverse is right
            check_prefix(got, cute.right_inverse(x))


@given(symbolic_layouts())
@example(Layout((4, P), (2 * P, 1)))  # for P = 1 the offsets between are not reached
def test_left_inverse_obeys_its_law_in_each_instance(layout):
    left = answered(cute.left_inverse, layout)
    for values, (x,) in instances(layout):
        got, offsets = at(left, values), [x(i) for i in range(cute.size(x))]
        assert [x(got(offset)) for offset in offsets] == offsets, values
        if is_injective(x):
            wanted = cute.left_inverse(x)
            assert (
                [got(k) for k in offsets] == [wanted(k) for k in offsets] == [*range(len(offsets))]
            )


@given(symbolic_layouts(), st.one_of(st.none(), symbolic_layouts()))
def test_what_layouts_have_in_common_is_the_start_of_that_of_each_instance(layout, other):
    other = layout if other is None else other
    common = answered(cute.max_common_layout, layout, other)
    vector = answered(cute.max_common_vector, layout, other)
    for values, (x, y) in instances(layout, other):
        got = at(common, values)
        assert all(x(got(i)) == i == y(got(i)) for i in range(cute.size(got))), values
        assert cute.size(got) == (at(vector, values) if isinstance(vector, cute.SymInt) else vector)
        if is_injective(x) or is_injective(y):
            check_prefix(got, cute.max_common_layout(x, y))


def test_right_inverse_is_what_is_certain_for_every_value():
    ld = sym("ld", min=1)
    assert str(cute.right_inverse(Layout((8, 8), (ld, 1)))) == "8:8"
