"""Arithmetic of `Map`, `Convert`, `Reduce` and `Mma`: rounding, wrapping, exact products."""

from fractions import Fraction

import numpy as np
import pytest

import cute_py as cute
from cute_py import atoms
from cute_py.emulate import emulate
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.numerics import RULES, converted, fma
from cute_py.layout.offsets import offset_grid, offsets
from cute_py.plan.functions import FUNCTIONS, REDUCTIONS
from tests.coverage import covers
from tests.emulated.plans import Maker, at, ops, tid
from tests.sampling import each


def mapped(fn, kind, *arrays, out=None):
    """Return fn of arrays of 32 elements, computed by a kernel."""
    m = Maker(threads=32)
    names = "ABC"[: len(arrays)]
    types = [cute.from_numpy(x.dtype) if x.dtype != bool else cute.b1 for x in arrays]
    tensors = [m.tensor(name, kind_.name) for name, kind_ in zip(names, types, strict=True)]
    regs = [m.reg(name.lower(), kind_.name) for name, kind_ in zip(names, types, strict=True)]
    out = out or kind
    R, r = m.tensor("R", out), m.reg("r", out)
    loads = [m.op(ops.Load, x, at(t, tid)) for x, t in zip(regs, tensors, strict=True)]
    plan = m.plan(
        *loads,
        m.op(ops.Map, fn, r, tuple(regs), cute.dtype(kind)),
        m.op(ops.Store, at(R, tid), r),
    )
    result = np.zeros(32, numpy_type(cute.dtype(out)))
    emulate(plan, *arrays, result)
    return result


def test_every_function_has_a_rule():
    assert set(RULES) | {"fma"} == set(FUNCTIONS)
    assert set(REDUCTIONS) <= set(RULES)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("fn", ["add", "sub", "mul", "div"])
def test_half_precision_rounds_after_each_operation(kind, fn):
    rng = np.random.default_rng(0)
    a, b = (cute.convert(rng.standard_normal(32), kind) for _ in range(2))
    exact = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y,
    }[fn]
    x, y = a.astype(np.float64), b.astype(np.float64)
    expected = cute.convert(exact(x, y), kind)
    assert np.array_equal(mapped(fn, kind, a, b), expected)


def test_fma_rounds_once():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 5000)).astype(np.float32)
    c = (rng.standard_normal(5000) * 2.0 ** rng.integers(-60, 60, 5000)).astype(np.float32)
    # sums that float64 rounds to a tie of float32
    a[:3], b[:3] = 1 + 2**-12, 1 - 2**-12
    a[:3] = np.float32(2**-24)
    b[:3] = 1
    c[:3] = 1
    a[1], c[1] = np.float32(2**-24 + 2**-47), 1
    a[2], b[2], c[2] = np.float32(2**-30), np.float32(2**-30), np.float32(1 + 2**-23)
    got = fma(a, b, c, cute.f32)
    for x, y, z, r in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        low, high = np.nextafter(r, np.float32(-np.inf)), np.nextafter(r, np.float32(np.inf))
        error = abs(Fraction(float(r)) - exact)
        assert error <= abs(Fraction(float(low)) - exact)
        assert error <= abs(Fraction(float(high)) - exact)


def test_integers_wrap():
    a = np.full(32, 2**31 - 1, np.int32)
    assert (mapped("add", "s32", a, np.ones(32, np.int32)) == -(2**31)).all()
    b = np.full(32, 100, np.int8)
    assert (mapped("add", "s8", b, b) == -56).all()


def test_comparisons_and_where():
    a = np.arange(32, dtype=np.float32)
    b = a[::-1].copy()
    test = mapped("lt", "f32", a, b, out="b1")
    assert np.array_equal(test, a < b)
    assert np.array_equal(mapped("where", "f32", test, a, b), np.minimum(a, b))


def test_minimum_prefers_numbers_to_nan():
    a = np.full(32, np.nan, np.float32)
    b = np.arange(32, dtype=np.float32)
    assert np.array_equal(mapped("min", "f32", a, b), b)
    assert np.array_equal(mapped("max", "f32", b, a), b)


@covers(ops.Convert)
@pytest.mark.parametrize("rounding", ["rn", "rz", "rd", "ru"])
@pytest.mark.parametrize("saturate", [False, True])
def test_conversions_round_as_asked(rounding, saturate):
    m = Maker(threads=32)
    A, B = m.tensor("A", "f32"), m.tensor("B", "f16")
    a, b = m.reg("a", "f32"), m.reg("b", "f16")
    plan = m.plan(
        m.op(ops.Load, a, at(A, tid)),
        m.op(ops.Convert, b, a, rounding, saturate),
        m.op(ops.Store, at(B, tid), b),
    )
    A = (np.linspace(-70000, 70000, 32) + 0.1).astype(np.float32)
    B = np.zeros(32, np.float16)
    emulate(plan, A, B)
    name = {"rd": "rm", "ru": "rp"}.get(rounding, rounding)
    assert np.array_equal(B, cute.convert(A, "f16", name, saturate))


@covers(ops.Reduce)
def test_reduce_goes_from_left_to_right():
    m = Maker(threads=32)
    A, B = m.tensor("A", "f32"), m.tensor("B", "f32")
    a, b = m.reg("a", "f32", 8), m.reg("b", "f32", 2)
    plan = m.plan(
        m.op(ops.Load, a, at(A, tid * 8, width=4, step=(2, 4))),
        m.op(ops.Reduce, "add", b, a),
        m.op(ops.Store, at(B, tid * 2, width=2), b),
    )
    A = np.random.default_rng(0).standard_normal((32, 2, 4)).astype(np.float32)
    B = np.zeros((32, 2), np.float32)
    emulate(plan, A.reshape(-1), B.reshape(-1))
    x = A[..., 0]
    for k in range(1, 4):
        x = x + A[..., k]
    assert np.array_equal(B, x)


# -- matrices

NAMES = [
    *(
        "SM80_16x8x8_F32F16F16F32_TN",
        "SM80_16x8x16_F16F16F16F16_TN",
        "SM80_16x8x8_F32TF32TF32F32_TN",
    ),
    *("SM80_16x8x32_S32S8S8S32_TN", "SM80_16x8x32_S32U8S8S32_TN_SATURATE"),
    *(
        "SM80_16x8x64_S32S4S4S32_TN",
        "SM80_16x8x256_S32U1U1S32_TN_XORPOPC",
        "SM80_8x8x4_F64F64F64F64_TN",
    ),
    *("SM70_8x8x4_F32F16F16F32_NT", "SM70_8x8x4_F16F16F16F16_TN", "SM75_16x8x8_F32F16F16F32_TN"),
    *("SM75_8x8x16_S32S8S8S32_TN", "SM89_16x8x32_F32E4M3E5M2F32_TN", "SM61_DP4A"),
    "UniversalFMA",
]


def instruction(atom, a, b, c, checks):
    """Return D of one instruction; a, b, c are fragments [lane, value] of one warp."""
    m = Maker(threads=32)
    names = [("A", a, atom.a_type), ("B", b, atom.b_type), ("C", c, atom.c_type)]
    tensors = [m.tensor(name, kind.name) for name, _, kind in names]
    regs = [m.reg(name.lower(), kind.name, x.shape[1]) for name, x, kind in names]
    loads = [
        m.op(ops.Load, r, at(t, tid * len(r), step=(len(r), 1)))
        for r, t in zip(regs, tensors, strict=True)
    ]
    out = at(tensors[2], tid * len(regs[2]), step=(len(regs[2]), 1))
    mma = m.op(ops.Mma, atom, regs[2], regs[0], regs[1], ((0, 0, 0),))
    result = c.copy()
    emulate(
        m.plan(*loads, mma, m.op(ops.Store, out, regs[2])),
        a.reshape(-1),
        b.reshape(-1),
        result.reshape(-1),
        checks=checks,
    )
    return result


def groups_of(atom):
    """Return the lanes of each group of threads that executes the atom."""
    threads, free, groups = offsets(atom.thr_id), set(range(32)), []
    while free:
        groups.append(min(free) + threads)
        free -= set(groups[-1].tolist())
    return groups


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("checks", [True, False])
def test_instruction_equals_numpy_on_integers(name, checks):
    atom = atoms.get(name)
    M, N, K = atom.shape_mnk
    rng = np.random.default_rng(0)
    groups = groups_of(atom)

    def drawn(kind, rows, columns):
        low, high = (-3, 4) if kind.is_signed else (0, 2 if kind.bits == 1 else 4)
        return rng.integers(low, high, (len(groups), rows, columns))

    A, B, C = drawn(atom.a_type, M, K), drawn(atom.b_type, N, K), drawn(atom.c_type, M, N)

    def fragment(values, tv, kind):
        grid = offset_grid(tv).reshape(atom.num_threads, -1)
        held = np.zeros((32, grid.shape[1]), numpy_type(kind))
        for lanes, matrix in zip(groups, values, strict=True):
            held[lanes] = matrix.T.reshape(-1)[grid].astype(held.dtype)
        return held

    a, b = fragment(A, atom.a_tv, atom.a_type), fragment(B, atom.b_tv, atom.b_type)
    c = fragment(C, atom.c_tv, atom.c_type)
    if atom.operation == "xor.popc":
        D = C + (A[:, :, None] ^ B[:, None]).sum(-1)
    else:
        D = C + A @ B.swapaxes(1, 2)
    expected = fragment(D, atom.c_tv, atom.d_type)
    assert np.array_equal(instruction(atom, a, b, c, checks), expected)


def test_integer_accumulators_wrap_or_saturate():
    for name, expected in (
        ("SM80_16x8x32_S32S8S8S32_TN", -(2**31) + 32 * 127 * 127 - 1),
        ("SM80_16x8x32_S32S8S8S32_TN_SATURATE", 2**31 - 1),
    ):
        atom = atoms.get(name)
        a, b = np.full((32, 16), 127, np.int8), np.full((32, 8), 127, np.int8)
        c = np.full((32, 4), 2**31 - 1, np.int32)
        assert (instruction(atom, a, b, c, True) == expected).all()


def test_tf32_ignores_the_low_bits():
    atom = atoms.get("SM80_16x8x8_F32TF32TF32F32_TN")
    a = np.full((32, 4), 1 + 2**-11, np.float32)
    b, c = np.ones((32, 2), np.float32), np.zeros((32, 4), np.float32)
    assert (instruction(atom, a, b, c, True) == 8).all()


def test_one_rounding_per_instruction():
    """2**24 + (1 + 1): summed before it is added, 2 is kept."""
    atom = atoms.get("SM80_16x8x16_F32F16F16F32_TN")
    a, b = np.zeros((32, 8), np.float16), np.ones((32, 4), np.float16)
    grid = offset_grid(atom.a_tv).reshape(32, 8) // 16
    a[grid < 2] = 1
    c = np.full((32, 4), 2**24, np.float32)
    assert (instruction(atom, a, b, c, True) == 2**24 + 2).all()


FLOATS = ("f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2")


@each(FLOATS, FLOATS, [False, True])
def test_conversions_of_infinities_are_those_of_the_types(source, target, saturate):
    """What a kernel converts is what `cute.convert` converts, for every pair of types."""
    kind = cute.dtype(source)
    given = kind.max if source == "e4m3" else np.inf
    x = cute.convert(np.array([given, -given, 1.5]), kind)
    found = converted(x, kind, cute.dtype(target), "rn", saturate)
    wanted = cute.convert(x, target, "to_nearest", saturate)
    assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes()
