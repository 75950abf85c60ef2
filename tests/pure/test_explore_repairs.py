"""Repairs: what the explorer offers for a refusal has a value, whatever was refused."""

import random

import pytest

from cute_py.errors import CuteError
from cute_py.explore import answer
from cute_py.explore.repairs import MOST, repairs
from cute_py.expression import evaluate, functions

COPY = "copy(UniversalCopy<128>,(8,4):(4,1),(1,8),bits=16)"
# an expression, the code of its refusal, and a repair
REPAIRED = [
    ("complement((4,2):(1,2), 24)", "complement-overlap", "complement((4,2):(1,4), 24)"),
    ("logical_divide(16:1, (4,6):(1,5))", "complement-gap", "logical_divide(16:1, (4,6):(1,4))"),
    ("upcast((4,6):(1,5), 7)", "upcast-stride", "upcast((4,6):(1,7), 7)"),
    ("Sw<3,0,-1>", "swizzle-parameters", "Sw<3,0,-3>"),
    ("composition(Sw<9,0,1>, 8:1)", "swizzle-parameters", "composition(Sw<9,0,9>, 8:1)"),
    ("(4,8):(8,1,3)", "not-congruent", "(4,8):(8,1)"),
    ("((2,2),4):(1,2)", "not-congruent", "((2,2),4):((1,2),4)"),
    ("copy(UniversalCopy<128>, (8,4))", "copy-values", "copy(UniversalCopy<128>, (8,4),(1,8))"),
    ("copy(UniversalCopy<128>,8:1,(1,3))", "copy-values", "copy(UniversalCopy<128>,8:1,(1,8))"),
    ("copy(UniversalCopy<128>,(2,2):(1,6),(1,8))", "copy-map", None),
    ("left_inverse((4,2):(1,2))", "left-inverse", "left_inverse((4,2):(1,4))"),
    ("mma(SM80_16x8x8_F32F16F16F3_TN)", "expression-name", "mma(SM80_16x8x8_F32F16F16F32_TN)"),
    ("copy(UniversalCpy<128>)", "expression-name", "copy(UniversalCopy<128>)"),
    ("SM75_U32x4_LDS_N", "expression-name", "SM75_U32x4_LDSM_N"),
    ("complemnt((4,2):(1,2), 24)", "expression-name", "complement((4,2):(1,4), 24)"),
    ("tv((8,8):(8,1), 8)", "viz-tile", "tv((8,8):(8,1),64)"),
    ("tv(3:3, 8)", "viz-tv", "tv(make_layout(3:3,1:0), 8)"),
    ("right_inverse((4,8))", "not-a-layout", "right_inverse(Layout((4,8)))"),
    ("cosize((4,8):(8,1), 2, 3)", "text-arguments", "cosize((4,8):(8,1))"),
    ("zipped_divide((8,8):(8,1))", "text-arguments", "zipped_divide((8,8):(8,1),2)"),
    ("size(complement())", "text-arguments", "size(complement((2,2):(1,6),24))"),
    ("flat_divide((8,8):(8,1),", "text-unclosed", "flat_divide((8,8):(8,1),2)"),
    ("composition((6,2):(1,7),(3,2):(2,3)", "text-unclosed", None),
    ("size(sym(M))", "expression-name", "size(sym('M'))"),
    ("mma(8)", "mma-atom", "mma(SM80_16x8x16_F32BF16BF16F32_TN)"),
    ("copy(4)", "copy-op", "copy(UniversalCopy<128>,(16,2):(2,1),(1,8),bits=16)"),
    ("bank_conflicts(7, 4:1)", "access-subject", None),
    ("column_major(7)", "classical-shape", "column_major((7,7))"),
    ("to_f2((3,4):(4,1))", "f2-extent", "to_f2((4,4):(4,1))"),
    ("to_f2((4,2):(1,2))", "f2-not-linear", "to_f2((4,2):(1,4))"),
    ("to_f2((4,8):(-8,1))", "f2-negative", "to_f2((4,8):(8,1))"),
    ("select((4,8):(8,1), 0)", "mode-list", "select((4,8):(8,1),(0,))"),
    ("permuted((4,8):(8,1), 64)", "permutation", "permuted((4,8):(8,1),(1,0))"),
    ("select((4,8):(8,1), (0,3))", "mode-range", "select((4,8):(8,1), (0,1))"),
    ("((4,8):(8,1))[5]", "mode-range", "((4,8):(8,1))[1]"),
    (f"bank_conflicts({COPY},(4,8):(8,1))", "partition-divides", None),
    ("bank_conflicts((0,4,8), 7)", "access-bits", "bank_conflicts((0,4,8), 7,bits=32)"),
    ("layout_add((3,2):(2,3), 8:1)", "size-mismatch", "layout_add((4,2):(2,3), 8:1)"),
    ("shape_div(8,7)", "not-divisible", "shape_div(8,8)"),
    ("tensor_op_swizzle(8, 0)", "tensor-op-crosswise", "tensor_op_swizzle(8, 64)"),
    ("row_major((4,8), 4)", "pitch", "row_major((4,8), 8)"),
    ("mma(SM61_DP4A, (4,4):(0,1))", "tiled-overlap", "mma(SM61_DP4A, (4,4):(1,4))"),
    ("downcast(4:2, 4)", "downcast-unit", "downcast(4:1, 4)"),
    ("zip_((4,8),3)", "profile-mismatch", "zip_((4,8))"),
    ("domain_offset(-3, 16:0)", "coordinate-range", "domain_offset(3, 16:0)"),
    ("zipped_divide((8,8):(8,1),(4,2,2))", "tiler-rank", None),
    ("(0,4):(1,1)", "extent-not-positive", "(4,4):(1,1)"),
    ("append(16, 16, 0)", "rank-target", "append(16, 16, 1)"),
    ("get_1d_coord(3:3, 4)", "not-compact", "get_1d_coord(3:3, 3)"),
    ("mma(SM80_16x8x8_F32F16F16F32_TN,(1,1,1),(7,8,8))", "tiled-permutation", None),
    ("round_up(7, 0)", "divide-by-zero", "round_up(7, 1)"),
    ("local_partition(4:1, 3:1, 5)", "thread-range", None),
    ("take((4,8), 0, 7)", "mode-interval", "take((4,8), 0, 1)"),
    ("make_layout((4,8):(1@0,1@1),4:1)", "mixed-strides", "make_layout((4,8):(1,4),4:1)"),
    ("holes((4,8):(1@0,1@1))", "tools-basis", "holes((4,8):(1,4))"),
    ("fit((1,2,3),(4,8))", "fit-shape", None),
    ("capacity((4,8):(-8,1))", "capacity", "capacity((4,8):(8,1))"),
    ("upcast(Sw<1,2,3>, 24)", "swizzle-factor", None),
    ("upcast((4,2):(1,2), 4)", "upcast-overlap", "upcast((4,2):(1,4), 4)"),
    ("F2Layout(16, (4,3))", "f2-bases", "F2Layout(4, (4,3))"),
    (f"suggest_smem_layout((64,64),16,7,{COPY})", "suggest-major", None),
    ("filter(3:3, (4,3))", "profile-rank", "filter(3:3)"),
]


@pytest.mark.parametrize(("e", "code", "repair"), REPAIRED, ids=[e for e, _, _ in REPAIRED])
def test_a_refusal_has_repairs_and_each_has_a_value(e, code, repair):
    error = answer({"v": 1, "e": e})["error"]
    assert error["code"] == code
    assert repair in error["repairs"] if repair else error["repairs"]
    assert e not in error["repairs"]
    for each in error["repairs"]:
        evaluate(each)


TEXT = """4 0 -3 7 _ true (4,8):(8,1) (6,2):(1,7) 4:2 (2,2):(1,6) (4,2):(1,2) (4,4):(0,1)
(4,(2,4)):(2,(1,8)) (4,6):(1,5) Sw<3,0,3> Sw<9,0,1> (4,8) (2,(3,4)) 24 (1,2,4,8) 1@0 LayoutRight
(4,8):(1@0,1@1) composition(Sw<3,0,3>,(8,8):(8,1)) SM61_DP4A to_f2((4,8):(8,1)) (4:1,_) (0,4):(1,1)
mma(SM61_DP4A) sym(M) 1_000 "x" ) :"""


@pytest.mark.parametrize("seed", range(3))
def test_repairs_of_random_calls_have_a_value(seed):
    chosen = random.Random(seed)
    for _ in range(40):
        operands = chosen.choices(TEXT.split(), k=chosen.choice([0, 1, 2, 2, 2, 3]))
        e = f"{chosen.choice(functions())}({', '.join(operands)})"
        try:
            evaluate(e)
        except CuteError as error:
            for repair in repairs(e, error):
                evaluate(repair)


def test_repairs_are_few_and_long_texts_have_those_of_the_refusal_alone():
    e = "complement((4,2):(1,2), 24)"
    assert len(answer({"v": 1, "e": e})["error"]["repairs"]) == MOST
    long = f"({e},{','.join(['1'] * 400)})"
    assert answer({"v": 1, "e": long})["error"]["repairs"] == []


def test_a_state_that_is_refused_has_no_repairs():
    assert answer({"v": 2, "e": "complement((4,2):(1,2))"})["error"]["repairs"] == []
    assert answer({"v": 1, "e": 5})["error"]["repairs"] == []
