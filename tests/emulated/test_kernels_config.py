"""Configurations: what is chosen for arrays, what is refused, and that any that fits is exact."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.errors import CuteError
from cute_py.kernels.config import Config, choose, facts_of, flagship, operand, tiled_mma
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from tests.emulated.kernel_data import MAJORS, bits, operands, poisoned, reference, sum_type
from tests.sampling import fewer


def test_a_configuration_prints_what_was_chosen():
    a = np.zeros((64, 40), np.float16)
    b = np.zeros((40, 33), np.float16).T
    assert str(choose(a, b, (64, 64))).splitlines() == [
        "tile 64x64x32, 3 stages, 128 threads",
        "  SM80_16x8x16_F32F16F16F32_TN in (2, 2, 1)",
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
    """A kind, a shape, and a configuration of the kernel for it that the rules would not choose."""
    kind = draw(st.sampled_from(("f16", "bf16", "tf32", "s8", "e4m3", "f64", "f32")))
    atoms = draw(st.sampled_from(((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (4, 2, 1))))
    base = tiled_mma(cute.dtypes.dtype(kind), cute.dtypes.dtype(kind), atoms)
    grown = (*draw(st.tuples(*[st.sampled_from((1, 2))] * 2)), 1)
    permutation = tuple(p * g for p, g in zip(base.tile_shape, grown, strict=True))
    mma = cute.make_tiled_mma(base.atom, base.atom_layout_mnk, permutation)
    repeats = draw(st.tuples(*[st.integers(1, 2)] * 3))
    least = (8, 8, max(8, 128 // bits(kind)))  # rows of a layout's atom, a row of ldmatrix
    tile = tuple(p * r * -(-m // p) for p, r, m in zip(permutation, repeats, least, strict=True))
    assume(max(tile) <= 256)
    assume(min(tile[:2]) * tile[2] >= mma.size())
    stages = draw(st.integers(2, 4))
    shape = tuple(draw(st.integers(1, 2 * t + 1)) for t in tile)
    majors = draw(st.sampled_from(MAJORS))
    swizzle = draw(st.sampled_from((None, (1, 3), (2, 3), (3, 3), (2, 2), (3, 4), (1, 1))))
    return kind, shape, majors, mma, tile, stages, swizzle


def atom_of(kind, mode, extent, swizzle):
    layout = (
        cute.Layout((8, extent), (extent, 1)) if mode else cute.Layout((extent, 8), (1, extent))
    )
    if swizzle is None:
        return layout
    chunk = (128 // bits(kind)).bit_length() - 1
    return cute.composition(cute.Swizzle(swizzle[0], chunk, swizzle[1]), layout)


@fewer(5)
@given(cases())
def test_any_configuration_that_fits_is_exact(case):
    kind, shape, majors, mma, tile, stages, swizzle = case
    a, b = operands(np.random.default_rng(0), shape, kind, majors)
    sides = []
    for x, mn, tv in ((a, 0, mma.get_layoutA_TV()), (b, 1, mma.get_layoutB_TV())):
        size, mode = (tile[mn], tile[2]), facts_of(x)[1]
        values = 0 if mma.atom.num_threads == 1 else int(cute.size(tv, 1))
        side = operand(x, size, stages, mma.size(), values)
        atom = atom_of(kind, mode, size[mode], swizzle)
        sides.append(replace(side, smem=cute.tile_to_shape(atom, (*size, stages))))
    c = poisoned(shape[:2], sum_type(kind))
    gemm_multistage(a, b, c, Config(mma, tile, stages, *sides))
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
