"""All operators of `cute.ops` on the host, by one harness: `tests/operators.py`."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.ops import operators
from tests.operators import CASES, Guarded, agrees, cases, laid_out

OPERATORS = sorted(CASES)
COUNTS = [2, pytest.param(150, marks=pytest.mark.slow)]


def test_every_operator_has_problems():
    assert sorted(operators()) == OPERATORS
    for name, found in operators().items():
        assert found.name == f"cute.ops.{name}"
        assert found.public is getattr(cute.ops, name)


def test_what_kernels_of_operators_depend_on_cannot_change():
    """So that their calls are known: a table in a module, for example, may change."""
    for each in operators().values():
        for family in each.problem.families:
            assert family.kernel.dependencies.snapshot().stable, family.kernel


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_random_problems_equal_their_reference(name, count):
    """In any order in memory, again with other values, and into an array that is given; nothing
    around the arrays is read as a value, or written.
    """
    found, rng = cases(name, count)
    for case in found:
        arrays = {x: laid_out(rng, y) for x, y in case.arrays.items()}
        given = {x: y.array for x, y in arrays.items()}
        result = case.call(given, checks=True)
        agrees(case, result)
        for x, y in arrays.items():
            assert np.array_equal(y.array, case.arrays[x]), "an operand was written"
            y.array[...] = np.roll(y.array, 1)
            case.arrays[x] = y.array.copy()
        again = case.call(given)  # a known call
        agrees(case, again)
        assert np.array_equal(again, case.call(given, checks=True)), "another order of additions"
        out = laid_out(rng, np.ones_like(again))
        assert case.call(given, out=out.array) is out.array
        assert np.array_equal(out.array, again)
        assert all(x.is_whole() for x in (*arrays.values(), out))


@pytest.mark.parametrize("name", OPERATORS)
def test_operands_may_begin_anywhere_in_memory(name):
    (case,), _rng = cases(name, 1, seed=4)
    given = {}
    for x, y in case.arrays.items():
        memory = np.zeros(y.nbytes + 1, np.uint8)
        given[x] = memory[1:].view(y.dtype).reshape(y.shape)
        given[x][...] = y
    agrees(case, case.call(given, checks=True))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_every_family_that_reads_a_problem_computes_it(name, count):
    found, _rng = cases(name, count, seed=1)
    for case in found:
        problem = case.operator.problem_of(**case.arrays, **case.named)
        if problem.is_known or not problem.families or 0 in problem.shape:
            continue
        for family in problem.families:
            if not family.reads(problem).takes:
                with pytest.raises(cute.CuteError, match="a family whose kernel reads them"):
                    case.call(config=f"family={family.name}")
                continue
            agrees(case, case.call(config=f"family={family.name}", checks=True))
        assert str(problem.call().config) in case.operator.explain(**case.arrays, **case.named)


WRONG = {
    "backend": ["cuda", 3, None],
    "checks": ["everything", 3, None],
    "config": ["tile=", "family=none", 3],
    "out": ["text", 3, np.zeros((1, 2, 3, 4, 5, 6))],
}


@pytest.mark.parametrize("name", OPERATORS)
def test_arguments_that_contradict_are_refused_by_the_public_name(name):
    """Never by an error of Python or NumPy, and `out` is untouched."""
    (case,), _rng = cases(name, 1, seed=2)
    wrong = [(x, y) for x, y in WRONG.items() if x in case.operator.parameters]
    wrong += [(x, [None, "text", object(), {}]) for x in case.arrays]
    wrong += [(x, ["no such word", 3.5, object()]) for x in case.operator.choices]
    result = case.call()
    for parameter, values in wrong:
        for value in values:
            if value is None and case.operator.parameters[parameter].default is None:
                continue
            out = Guarded(np.full_like(result, 1), None)
            given = {**case.arrays, "out": out.array, **case.named, parameter: value}
            with pytest.raises(cute.CuteError) as caught:
                getattr(cute.ops, name)(**given)
            assert str(caught.value).startswith((f"cute.ops.{name}", "config")), (parameter, value)
            assert (out.array == 1).all()
            assert out.is_whole()


@pytest.mark.parametrize("name", OPERATORS)
def test_outputs_that_cannot_be_written_are_refused(name):
    (case,), _rng = cases(name, 1, seed=3)
    result = case.call()
    frozen = result.copy()
    frozen.flags.writeable = False
    shared = np.lib.stride_tricks.as_strided(result, (2, *result.shape), (0, *result.strides))[0:1]
    with pytest.raises(cute.CuteError, match="read-only"):
        case.call(out=frozen)
    with pytest.raises(cute.CuteError, match="of shape"):
        case.call(out=shared)
    other = np.zeros(result.shape, np.complex64)
    with pytest.raises(cute.CuteError):
        case.call(out=other)
