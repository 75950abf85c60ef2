"""Configurations: what is chosen for arrays, what is refused, and that any that fits is exact."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.errors import CuteError
from cute_py.kernels import config
from cute_py.kernels.config import ATOMS, GemmConfig, Side, choose, flagship
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from tests.emulated.kernel_data import MAJORS, bits, operands, poisoned, reference, sum_type
from tests.sampling import fewer


def test_a_configuration_explains_what_was_chosen():
    a = np.zeros((64, 40), np.float16)
    b = np.zeros((40, 33), np.float16).T
    assert choose(a, b, (64, 64)).explain().splitlines() == [
        "SM80_16x8x16_F32F16F16F32_TN tile=64x64x32 warps=2x2 stages=3 A=Kx8 B=MNx1 cp.async",
        "  f16, f16: the largest mma.sync of these types",
        "  A: SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128> -> "
        "Sw<2,3,3> o 0 o ((8,8),(32,1),(1,3)):((32,256),(1,0),(0,2048)) -> SM75_U32x4_LDSM_N",
        "  B: UniversalCopy<16> -> "
        "Sw<3,3,3> o 0 o ((64,1),(8,4),(1,3)):((1,0),(64,512),(0,2048)) -> SM75_U16x8_LDSM_T",
    ]


def test_the_flagship_is_what_the_rules_choose():
    a = np.zeros((128, 64), np.float16)
    chosen, given = choose(a, a), flagship()
    assert chosen == given
    assert hash(chosen) == hash(given)


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [
        (np.zeros((8, 8), np.float16), np.zeros((8, 8), np.float32), "config-types"),
        (np.zeros((8, 8), np.int16), np.zeros((8, 8), np.int16), "config-types"),
        (np.zeros((8, 12), np.bool_), np.zeros((8, 12), np.bool_), "config-bits"),
        (np.zeros((8, 16), np.bool_).T, np.zeros((16, 8), np.bool_), "config-bits"),
    ],
)
def test_arrays_that_no_instruction_takes_are_refused(a, b, code):
    with pytest.raises(CuteError) as caught:
        choose(a, b)
    assert caught.value.code == code


def test_a_copy_wider_than_the_rows_allow_is_refused_by_the_tracer():
    wide, odd = np.zeros((128, 64), np.float16), np.zeros((128, 62), np.float16)
    c = np.zeros((128, 128), np.float32)
    with pytest.raises(CuteError, match=r"gemm_07_multistage\.py:\d+"):
        gemm_multistage(odd, odd, c, choose(wide, wide))


def test_one_plan_serves_all_shapes_of_one_alignment():
    plans = set()
    for shape in ((64, 64, 32), (128, 16, 96), (1, 132, 8)):
        a, b = operands(np.random.default_rng(0), shape, "f16")
        c = poisoned(shape[:2], np.float32)
        plans.add(cute.trace(gemm_multistage, a, b, c, choose(a, b, (64, 64))))
    assert len(plans) == 1


@st.composite
def cases(draw):
    """A shape, majors, a configuration for it that the rules would not choose, and a swizzle."""
    kind = draw(st.sampled_from(("f16", "bf16", "tf32", "s8", "e4m3", "f64", "f32")))
    atom = ATOMS[kind, kind]
    warps = draw(st.sampled_from(((1, 1), (2, 1), (1, 2), (2, 2), (4, 2))))
    if atom.startswith("UniversalFMA"):
        warps = 8 * warps[0], 4 * warps[1]
    m, n = draw(st.sampled_from((16, 32, 64, 96))), draw(st.sampled_from((16, 32, 64, 128)))
    k = draw(st.sampled_from((128, 256, 512))) // bits(kind) * draw(st.sampled_from((1, 2, 3)))
    majors = draw(st.sampled_from(MAJORS))
    widths = [draw(st.sampled_from((128, 64, 32))) // bits(kind) or 1 for _side in "ab"]
    sides = [Side(*side) for side in zip(["K" if x else "MN" for x in majors], widths, strict=True)]
    more = draw(st.integers(2, 4)), *sides, draw(st.booleans())
    try:
        made = GemmConfig(atom, (m, n, k), warps, *more, ldmatrix=draw(st.integers(0, 1)))
    except CuteError:
        assume(False)
    shape = [draw(st.integers(1, 2 * t + 1)) for t in (m, n, k)]
    for i, side, major in zip((0, 1), sides, majors, strict=True):  # rows of whole vectors
        mode = 2 if major else i
        shape[mode] = -(-shape[mode] // side.vector) * side.vector
    if majors == (1, 1):
        shape[2] = -(-shape[2] // max(widths)) * max(widths)
    swizzle = draw(st.sampled_from((None, (1, 3), (2, 3), (3, 3), (2, 2), (3, 4), (1, 1))))
    return kind, tuple(shape), majors, made, swizzle


def atom_of(kind, mode, extent, swizzle):
    layout = (
        cute.Layout((8, extent), (extent, 1)) if mode else cute.Layout((extent, 8), (1, extent))
    )
    if swizzle is None:
        return layout
    chunk = (128 // bits(kind)).bit_length() - 1
    return cute.composition(cute.Swizzle(swizzle[0], chunk, swizzle[1]), layout)


def test_plain_multiply_adds_transpose_single_elements():
    """A vector along K would not be contiguous in shared memory, where rows are."""
    sides = (Side("K", 2), Side("MN", 2))
    with pytest.raises(CuteError, match="single elements along K for plain multiply-adds"):
        GemmConfig(ATOMS["f32", "f32"], (16, 16, 4), (8, 4), 2, *sides, asynchronous=False)


@fewer(6)
@given(cases())
def test_any_configuration_that_fits_is_exact(case):
    kind, shape, majors, made, swizzle = case
    a, b = operands(np.random.default_rng(0), shape, kind, majors)
    c = poisoned(shape[:2], sum_type(kind))

    def other(dtype, mode, extent, _swizzled):
        return atom_of(dtype.name, mode, extent, swizzle)

    with mock.patch.object(config, "smem_atom", other):  # any layout, not only the rule's
        plan = cute.trace(gemm_multistage, a, b, c, made)
    cute.emulate(plan, a, b, c)
    np.testing.assert_array_equal(c, reference(a, b))


@cute.kernel
def overlaid(out):
    cute.launch(grid=1, block=32)
    with cute.union():
        with cute.struct():
            cute.smem("f32", 32, name="first")
            cute.smem("f32", 32, name="second")
        with cute.struct():
            with cute.union():
                cute.smem("u8", 100, name="third")
                cute.smem("u8", 300, name="fourth")
            cute.smem("u8", 8, name="fifth")
    cute.smem("u8", 8, name="sixth")
    out[0] = 0


def test_a_struct_is_one_member_of_a_union():
    plan = cute.trace(overlaid, np.zeros(1, np.float32))
    assert {row.name: row.offset for row in plan.shared} == {
        "first0": 0,
        "second0": 128,
        "third0": 0,
        "fourth0": 0,
        "fifth0": 384,
        "sixth0": 512,
    }
