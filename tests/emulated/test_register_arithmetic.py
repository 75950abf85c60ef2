"""Element-wise arithmetic of registers: names of roundings, repeated modes, NaN, bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from tests.kernel_refusals import traced

# -- roundings

NAMES = [
    *cute.ROUNDINGS,
    *(f"round_{name}" for name in cute.ROUNDINGS),
    *filter(None, cute.ROUNDINGS.values()),
    "rd",
    "ru",
]


@cute.kernel
def converted(out, x, rounding):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    out[t] = x[t].to(out.dtype, rounding)


@pytest.mark.parametrize("name", [name for name in NAMES if "dntz" not in name])
def test_a10_roundings_have_the_names_of_the_host(name):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(64) * 2.0 ** rng.integers(-20, 20, 64)).astype(np.float32)
    x[:6] = [1 + 2.0**-11, 1 + 3 * 2.0**-11, -1 - 2.0**-11, 1e30, -1e30, np.inf]
    out = np.zeros(64, np.float16)
    converted(out, x, name)
    saturate = "satfinite" in name
    np.testing.assert_array_equal(out, cute.convert(x, "f16", name, saturate))
    assert np.isfinite(out[3:6]).all() == saturate or "toward" in name


@pytest.mark.parametrize("name", ["half_ulp_trunc_dntz", "round_half_ulp_trunc_dntz"])
def test_a_rounding_without_an_instruction_is_refused(name):
    with pytest.raises(cute.LayoutError, match="no architecture has an instruction") as caught:
        cute.trace(converted, np.zeros(64, np.float16), np.zeros(64, np.float32), name)
    assert caught.value.code == "kernel-lack"


def test_an_unknown_rounding_is_refused_as_on_the_host():
    with pytest.raises(cute.DtypeError, match="'rne'") as caught:
        cute.trace(converted, np.zeros(64, np.float16), np.zeros(64, np.float32), "rne")
    assert caught.value.code == "rounding-unknown"


# -- modes of extent 1


@st.composite
def shapes(draw, depth=2):
    """A shape, and two shapes that repeat to it."""
    if depth == 0 or draw(st.booleans()):
        n = draw(st.integers(1, 4))
        return n, draw(st.sampled_from([n, 1])), draw(st.sampled_from([n, 1]))
    modes = draw(st.lists(shapes(depth - 1), min_size=1, max_size=3))
    whole, a, b = (tuple(mode[i] for mode in modes) for i in range(3))
    return whole, *(draw(st.sampled_from([x, 1])) for x in (a, b))


@cute.kernel
def summed(out, a, b, sizes, number):
    cute.launch(grid=1, block=1)
    x, y = (cute.rmem("s32", size) for size in sizes)
    for held, memory in ((x, a), (y, b)):
        for i in range(cute.size(held)):
            held[i] = memory[i]
    found = cute.where(x < y, x, y) - x if number is None else cute.fma(x, y, number)
    for i in range(cute.size(found)):
        out[i] = found[i]


def of(array, shape, coordinate):
    """The element of a compact array at a coordinate, with 0 in the modes of extent 1."""

    def at(shape, coordinate):
        if cute.size(shape) == 1:
            return cute.crd2idx(0, shape)
        if isinstance(shape, tuple):
            index, unit = 0, 1
            for s, c in zip(shape, coordinate, strict=True):
                index, unit = index + unit * at(s, c), unit * cute.size(s)
            return index
        return coordinate

    return int(array[at(shape, coordinate)])


@given(shapes(), st.sampled_from([None, 3]))
def test_modes_of_extent_1_are_repeated(chosen, number):
    """Law: element c of the result is fn of the operands at c, with 0 in their modes of 1."""
    _whole, *sizes = chosen
    a, b = (np.random.default_rng(i).integers(-9, 9, 64).astype(np.int32) for i in range(2))
    wanted = []
    common = repeated(*sizes)
    for i in range(cute.size(common)):
        c = cute.idx2crd(i, common)
        x, y = of(a, sizes[0], c), of(b, sizes[1], c)
        wanted.append(min(x, y) - x if number is None else x * y + number)
    out = np.zeros(64, np.int32)
    summed(out, a, b, tuple(sizes), number)
    assert out[: len(wanted)].tolist() == wanted


def repeated(a, b):
    if cute.size(a) == 1 or cute.size(b) == 1:
        return b if cute.size(a) == 1 else a
    if isinstance(a, int):
        return a
    return tuple(repeated(x, y) for x, y in zip(a, b, strict=True))


@cute.kernel
def of_two(X):
    """A vector of shape 2, and the sums of rows, of shape (2,)."""
    cute.launch(grid=1, block=1)
    a, x = cute.rmem("f32", 2), cute.rmem("f32", (2, 3))
    a.fill(1)
    cute.copy(cute.make_tensor(X.data, cute.Layout((2, 3), (3, 1))), x)
    sums = cute.reduce("add", x, mode=1)
    for i, y in enumerate((a + sums, sums + a, cute.maximum(a, sums))):
        cute.copy(y, cute.local_tile(X, (2,), (i,)))


def test_vectors_of_shape_2_and_of_shape_2_in_a_tuple_combine():
    x = np.array([1, 2, 3, 4, 5, -9], np.float32)
    of_two(x)
    assert x.tolist() == [7, 1, 7, 1, 6, 1]


def outer_add(x):
    a, b = cute.rmem("f32", (4, 1)), cute.rmem("f32", (4, 3))
    a.fill(1)
    b.fill(2)
    a += b  # here


def assigned(x):
    a, b = cute.rmem("f32", (4, 1)), cute.rmem("f32", (1, 3))
    a.fill(1)
    b.fill(2)
    a[cute._, cute._] = b  # here


def other_extent(x):
    a, b = cute.rmem("f32", (4, 2)), cute.rmem("f32", (4, 3))
    a.fill(1)
    b.fill(2)
    a + b  # here


def other_profile(x):
    a, b = cute.rmem("f32", (4, 3)), cute.rmem("f32", 4)
    a.fill(1)
    b.fill(2)
    a + b  # here


@pytest.mark.parametrize("body", [outer_add, assigned, other_extent, other_profile])
def test_what_does_not_repeat_is_refused(body):
    with pytest.raises(cute.LayoutError, match="modes of extent 1") as caught:
        traced(body)
    assert caught.value.code == "kernel-shapes"


def test_a_row_is_added_and_assigned_in_place():
    @cute.kernel
    def kernel(out):
        cute.launch(grid=1, block=1)
        held, row = cute.rmem("s32", (2, 3)), cute.rmem("s32", (1, 3))
        for k in range(3):
            row[0, k] = k
        held[cute._, cute._] = row
        held += row
        for i in range(6):
            out[i] = held[i]

    out = np.zeros(6, np.int32)
    kernel(out)
    assert out.tolist() == [0, 0, 2, 2, 4, 4]


# -- minimum and maximum of NaN


@cute.kernel
def extremes(out, x):
    cute.launch(grid=1, block=64)
    a, b = (x[i, cute.thread_idx()] for i in range(2))
    for i, fn in enumerate((cute.maximum, cute.minimum)):
        for j, nan in enumerate(("ignore", "propagate")):
            out[i, j, cute.thread_idx()] = fn(a, b, nan=nan)


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "s32"])
def test_nan_is_ignored_or_propagated(kind):
    corners = [0.0, -0.0, 1.0, -1.0, np.nan, -np.nan, np.inf, -np.inf]
    if kind == "s32":
        corners = range(-4, 4)
    pairs = np.array([[a, b] for a in corners for b in corners], np.float64).T
    x = np.asarray(cute.convert(pairs, kind))
    out = np.zeros((2, 2, 64), x.dtype)
    extremes(out, x)
    a, b = x.astype(np.float64)
    for found, ignoring, propagating in zip(
        out, (np.fmax, np.fmin), (np.maximum, np.minimum), strict=True
    ):
        for got, fn in zip(found.astype(np.float64), (ignoring, propagating), strict=True):
            np.testing.assert_array_equal(got, fn(a, b))
    if kind != "s32":
        zeros = out.astype(np.float64)[:, :, (pairs == 0).all(0)]
        assert np.signbit(zeros)[0].sum(-1).tolist() == [1, 1]  # both are -0
        assert np.signbit(zeros)[1].sum(-1).tolist() == [3, 3]


def test_another_word_for_nan_is_refused():
    def body(f):
        cute.maximum(f[0], f[1], nan="raise")

    with pytest.raises(cute.LayoutError, match="ignore, propagate"):
        traced(body)


# -- bits


@pytest.mark.parametrize("table", [-1, 256, 1.0, True, "a & b"])
def test_lop3_takes_a_table_of_eight_bits(table):
    def body(x):
        cute.lop3(x[0], x[1], x[2], table)

    with pytest.raises(cute.LayoutError, match="0 to 255"):
        traced(body)


@pytest.mark.parametrize("kind", ["f32", "s64", "u8", "b1"])
def test_prmt_is_of_words(kind):
    def body(x):
        held = cute.rmem(kind, 1)
        held.fill(0)
        cute.prmt(held, held, held)

    with pytest.raises(cute.LeafTypeError, match="s32 or u32") as caught:
        traced(body)
    assert caught.value.code == "kernel-domain"


def test_lop3_of_f0_cc_aa_is_its_table():
    """As PTX defines the table; CUTLASS's kernels use 0xEA for (a & b) | c."""

    @cute.kernel
    def kernel(out):
        cute.launch(grid=1, block=1)
        a, b, c = (cute.rmem("u32", 1) for _word in range(3))
        for held, value in ((a, 0xF0), (b, 0xCC), (c, 0xAA)):
            held.fill(value)
        for table in range(256):
            out[table] = cute.lop3(a, b, c, table) & 0xFF

    out = np.zeros(256, np.uint32)
    kernel(out)
    assert out.tolist() == list(range(256))
    assert (0xF0 & 0xCC) | 0xAA == 0xEA
