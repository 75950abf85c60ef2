"""All operators of `cute.ops` on the host, by one harness: `tests/operators.py`."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.ops import operators
from tests.operators import CASES, Guarded, agrees, cases, laid_out

OPERATORS = sorted(CASES)
COUNTS = [2, pytest.param(150, marks=pytest.mark.slow)]
LONG = {x for x in OPERATORS if x.startswith(("attention", "conv2d"))}  # half a second each


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
    found, rng = cases(name, count // 2 if name in LONG else count)
    for case in found:
        arrays = {x: laid_out(rng, y, case.rows) for x, y in case.arrays.items()}
        given = {x: y.array for x, y in arrays.items()}
        result = case.call(given, checks=True)
        agrees(case, result)
        for x, y in arrays.items():
            assert np.array_equal(y.array, case.arrays[x]), "an operand was written"
            if x not in case.operator.problem.indices:
                y.array[...] = np.roll(y.array, 1)
            case.arrays[x] = y.array.copy()
        again = case.call(given)  # a known call
        agrees(case, again)
        assert np.array_equal(again, case.call(given, checks=True)), "another order of additions"
        out = laid_out(rng, np.ones_like(again), case.rows)
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
@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow if x in LONG else []) for x in OPERATORS]
)
def test_every_family_that_reads_a_problem_computes_it(name, count):
    """Those that take long have tests of their families, with small tiles, in their own files."""
    count, seed = (count // 2, 7) if name in LONG else (count, 1)  # 7: problems that are small
    found, _rng = cases(name, count, seed)
    for case in found:
        problem = case.operator.problem_of(**case.arrays, **case.named)
        if problem.is_known or not problem.families or 0 in problem.shape:
            continue
        for family in problem.families:
            if not family.reads(problem).takes:
                with pytest.raises(cute.CuteError, match="a family whose kernel can read them"):
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


# -- values and arguments that random problems seldom have


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "e4m3", "s32"])
@pytest.mark.parametrize("family", ["registers", "columns", "rows"])
def test_nan_makes_an_extreme_nan(family, kind):
    """In each lane, and each warp; of integers there is none."""
    x = np.arange(2 * 300).reshape(2, 300).astype(cute.dtype(kind).numpy)
    x, dim = (np.ascontiguousarray(x.T), 0) if family == "columns" else (x, 1)
    reads = family != "registers" or kind != "e4m3"
    config = f"family={family}" if reads else None
    for place in (0, 37, 299):
        given = x.copy()
        if kind != "s32":
            given[place if dim == 0 else (0, place)] = np.nan
        for op, reference in (("min", np.min), ("max", np.max)):
            found = cute.ops.reduce(given, op, dim, config=config)
            want = reference(given.astype(np.float64), dim)
            np.testing.assert_array_equal(found.astype(np.float64), want)


@pytest.mark.parametrize("dim", [np.int64(1), (np.int8(1),), [1], range(1, 2)])
def test_modes_are_whole_numbers_of_any_library(dim):
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(cute.ops.reduce(x, "add", dim), x.sum(1))
    np.testing.assert_array_equal(cute.ops.softmax(x, np.int64(1)), cute.ops.softmax(x, 1))


@pytest.mark.parametrize("dim", [1.0, True, object(), np.array(1), {1}, (1.5,), "1", (None,), b"1"])
def test_what_is_no_mode_is_refused(dim):
    with pytest.raises(cute.CuteError, match=r"cute\.ops\.reduce: given dim="):
        cute.ops.reduce(np.ones((2, 3)), "add", dim)
    with pytest.raises(cute.CuteError, match=r"cute\.ops\.softmax: given dim="):
        cute.ops.softmax(np.ones((2, 3)), dim)


@pytest.mark.parametrize("kind", ["f32", "e4m3"])
def test_activations_read_arrays_backwards(kind):
    x = np.arange(-4, 8).astype(cute.dtype(kind).numpy)
    for view in (x[::-1], x.reshape(3, 4)[::-1, ::-1], x.reshape(3, 4)[:, ::-1]):
        want = np.maximum(view.astype(np.float32), 0)
        np.testing.assert_array_equal(cute.ops.activation(view, "relu").astype(np.float32), want)
        out = np.zeros_like(x).reshape(view.shape)[::-1]
        cute.ops.activation(view, "relu", out=out)
        np.testing.assert_array_equal(out.astype(np.float32), want)


def test_configurations_that_no_block_can_have_are_refused():
    """Threads that are no whole warps would leave rows of a softmax infinite."""
    x = np.ones((2, 64), np.float32)
    for name, parts in [
        ("softmax", "family=rows,threads=33"),
        ("softmax", "threads=2048"),
        ("reduce", "family=rows,parts=0"),
        ("transpose", "threads=48"),
    ]:
        with pytest.raises(cute.CuteError, match=r"threads of whole warps|parts of at least 1"):
            getattr(cute.ops, name)(x, config=parts)
    for values in [(3,), ("rows", 100), ("rows", "a"), ("rows", True), ("rows", 64, 0)]:
        with pytest.raises(cute.CuteError, match="config: given"):
            cute.ops.reduce.operator.configs(*values)


def test_parts_that_the_kernel_of_a_family_does_not_have_are_refused():
    """They did nothing, and `explain` showed them; a block of 512 threads has no tile of f64."""
    x, config = np.ones((64, 64), np.float64), cute.ops.reduce.operator.configs
    for name, given, rule in [
        ("softmax", "family=rows,parts=8", "parts of at most 1;"),
        ("softmax", "family=registers,parts=8", "parts of at most 1;"),
        ("softmax", "family=registers,threads=512", "threads=0: the kernel has its own"),
        ("softmax", config("rows", 0), "threads among 128"),
        ("reduce", "family=rows,parts=5000", "parts of at most 4096;"),
        ("transpose", "family=elements,threads=96", "threads=0"),
        ("transpose", "family=vectors,parts=3", "parts of at most 1;"),
        ("transpose", "family=vectors,threads=512", "threads among 256, 128;"),
        ("transpose", config("vectors", 0), "threads among 256, 128;"),
    ]:
        with pytest.raises(cute.CuteError, match=rf"cute\.ops\.{name}: given .*{rule}"):
            getattr(cute.ops, name)(x, config=given)
    for name in ("softmax", "reduce", "transpose"):  # what is measured is what is taken
        operator = getattr(cute.ops, name)
        for (config,) in operator.operator.problem_of(x).candidates():
            np.testing.assert_allclose(operator(x, config=config), operator(x), rtol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "reduce", "transpose"])
@pytest.mark.parametrize(
    "given", ["bogus", "family=nope", "family=rows,threads=7", "parts=0", "threads=64,threads=64"]
)
def test_a_configuration_of_nothing_is_read_where_no_kernel_is_needed(name, given):
    for x in (np.zeros((0, 4), np.float32), np.ones((4, 4), np.float32)):
        for call in (getattr(cute.ops, name), getattr(cute.ops, name).operator.problem_of):
            with pytest.raises(cute.CuteError, match="given "):
                call(x, config=given)


def test_bits_of_nothing_are_those_of_the_type_of_the_operand():
    nothing = np.zeros((2, 0), np.uint8)
    for kind, want in [("s32", 255), ("u8", 255), ("s8", -1), ("f32", 255.0)]:
        assert (cute.ops.reduce(nothing, "and", 1, out_dtype=kind) == want).all()
        one = np.full((2, 1), 255, np.uint8)
        assert (cute.ops.reduce(one, "and", 1, out_dtype=kind) == want).all()
    assert (cute.ops.reduce(nothing.astype(np.int8), "and", 1, out_dtype="u16") == 65535).all()


def test_an_output_of_another_byte_order_is_refused_by_its_name():
    x = np.ones((2, 4), np.float32)
    with pytest.raises(cute.DtypeError, match=r"cute\.ops\.softmax: given out of >f4"):
        cute.ops.softmax(x, out=np.zeros((2, 4), ">f4"))


def test_a_flag_is_true_or_false():
    x = np.ones((2, 3), np.float32)
    assert cute.ops.reduce(x, "add", 1, keepdim=np.True_).shape == (2, 1)
    for value in ("no", None, []):
        with pytest.raises(cute.CuteError, match=r"cute\.ops\.reduce: given keepdim="):
            cute.ops.reduce(x, "add", 1, keepdim=value)


def test_one_matrix_of_the_host_is_transposed_as_on_a_gpu():
    """A batch of one has a stride that is none of its memory's."""
    x = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    for one in (x, x[None]):
        assert "family=vectors" in cute.ops.transpose.explain(one)
        out = np.zeros((*one.shape[:-2], 32, 64), np.float32)
        assert cute.ops.transpose(one, out=out, config="family=vectors", checks=True) is out
        np.testing.assert_array_equal(out, one.swapaxes(-1, -2))


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_explains_a_call(name):
    (case,), _rng = cases(name, 1, seed=4)
    assert case.operator.explain(**case.arrays, **case.named)
    if not case.operator.configs:
        with pytest.raises(cute.CuteError, match=r"cute\.tune: given operator="):
            cute.tune(getattr(cute.ops, name), **case.arrays, **case.named)
