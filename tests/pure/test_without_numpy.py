"""Where NumPy is not installed, as in a browser: lists with the entries of the arrays."""

import subprocess
import sys

import pytest
from hypothesis import given, settings

import cute_py as cute
from cute_py import Layout, analysis
from cute_py.analysis import requests
from cute_py.atoms.copy import Copy_Atom
from cute_py.errors import CuteError
from cute_py.layout import offsets
from cute_py.tiled.tiled_copy import make_tiled_copy_A
from tests.strategies import layouts


@pytest.fixture
def without(monkeypatch):
    """Return a function that returns what a call returns, or refuses, without NumPy."""

    def called(function, *args, **named):
        with monkeypatch.context() as patch:
            for module in (offsets, requests):
                patch.setattr(module, "has_numpy", lambda: False)
            patch.setitem(sys.modules, "numpy", None)
            return result(function, *args, **named)

    return called


def result(function, *args, **named):
    try:
        found = function(*args, **named)
    except CuteError as error:
        return str(error)
    return found.tolist() if hasattr(found, "tolist") else found


LAYOUTS = [
    Layout((4, 8), (8, 1)),
    Layout(((2, 2), 3), ((1, 6), -2)),
    Layout(5, 0),
    Layout((4, 2), (1, 1 << 62)),
    cute.composition(cute.Swizzle(2, 0, 3), Layout((8, 8), (8, 1))),
    cute.make_identity_layout((3, (2, 2))),
    cute.to_f2(Layout((4, 8), (8, 1))),
    Layout(cute.sym("N"), 2),
]


@pytest.mark.parametrize("name", ["offsets", "offset_grid", "image", "holes", "fit"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_lists_have_the_entries_of_the_arrays(name, layout, without):
    function = getattr(cute, name)
    assert without(function, layout) == result(function, layout)


@given(layouts())
@settings(max_examples=60)
def test_offsets_of_any_small_layout(layout):
    if layout.size() < offsets.SMALL:
        assert offsets._in_lists(layout) == cute.offsets(layout).tolist()


def test_many_elements_are_refused(without):
    assert "at most 65536" in without(cute.offsets, Layout((1 << 16) + 1))
    assert len(without(cute.offsets, Layout((64, 64)))) == 4096


COPIES = {
    "wide": ("UniversalCopy<128>", 16, Layout((16, 2), (2, 1)), (1, 8)),
    "narrow": ("UniversalCopy<32>", 32, Layout((4, 8), (8, 1)), (1, 4)),
    "two warps": ("UniversalCopy<64>", 32, Layout((32, 2), (2, 1)), (1, 2)),
    "half a warp": ("UniversalCopy<128>", 16, Layout((8, 2), (2, 1)), (1, 8)),
    "adapting": (
        "AutoVectorizingCopyWithAssumedAlignment<128>",
        16,
        Layout((16, 2), (2, 1)),
        (1, 8),
    ),
}
TENSORS = [
    Layout((64, 32), (32, 1)),
    Layout((64, 32), (40, 1)),
    Layout((64, 32)),
    Layout((64, 16), (33, 1)),
    cute.composition(cute.Swizzle(3, 3, 3), Layout((64, 32), (32, 1))),
    cute.composition(cute.Swizzle(2, 1, 3), Layout((64, 32), (32, 1))),
]


MMA = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1))


def copy_of(name):
    if name.startswith("SM75"):
        return make_tiled_copy_A(Copy_Atom(name, 16), MMA)
    op, bits, threads, values = COPIES[name]
    return cute.make_tiled_copy(Copy_Atom(op, bits), threads, Layout(values))


@pytest.mark.parametrize("name", [*COPIES, "SM75_U32x4_LDSM_N", "SM75_U32x2_LDSM_N"])
def test_bank_conflicts_of_copies(name, without):
    copy = copy_of(name)
    reports = [result(analysis.bank_conflicts, copy, tensor) for tensor in TENSORS]
    assert any(report.__class__ is not str for report in reports)
    for tensor, report in zip(TENSORS, reports, strict=True):
        found = without(analysis.bank_conflicts, copy, tensor)
        assert found == report
        assert str(found) == str(report)


@pytest.mark.parametrize(
    "access",
    [
        analysis.Access(Layout((32, 4), (1, 32)), 32, 32),
        analysis.Access(Layout((32, 4), (32, 1)), 32, 32),
        analysis.Access(Layout((32, 4), (4, 128)), 128, 32),
        analysis.Access(Layout((32, 4), (3, 1)), 64, 32),
        analysis.Access(Layout((64, 32), (32, 1)), 32, 32),
        analysis.Access(Layout((40, 2), (2, 1)), 16, 16),
    ],
    ids=str,
)
def test_bank_conflicts_of_accesses(access, without):
    for tensor in (Layout((32, 32)), Layout((32, 32), (33, 1))):
        expected = result(analysis.bank_conflicts, access, tensor)
        assert without(analysis.bank_conflicts, access, tensor) == expected


@pytest.mark.parametrize("bits", [8, 32, 64, 128])
@pytest.mark.parametrize("step", [0, 16, 48, 128])
def test_bank_conflicts_of_addresses(bits, step, without):
    addresses = [None if lane % 5 == 4 else step * lane for lane in range(32)]
    expected = result(analysis.bank_conflicts, addresses, bits=bits)
    found = without(analysis.bank_conflicts, addresses, bits=bits)
    assert found == expected
    words = [phase.words for pattern in found.patterns for phase in pattern.phases]
    assert words == [phase.words for pattern in expected.patterns for phase in pattern.phases]


@pytest.mark.parametrize("name", ["wide", "narrow", "SM75_U32x4_LDSM_N"])
def test_the_solver_finds_the_same_layout(name, without):
    copy, bits = copy_of(name), copy_of(name).atom.dtype.bits
    for tile, major in (((32, 32), 1), ((32, 64), 1), ((32, 32), 0)):
        given = (analysis.suggest_smem_layout, tile, bits, major, [copy])
        assert without(*given) == result(*given)


EXPRESSIONS = """
from sys import modules
modules["numpy"] = modules["ml_dtypes"] = modules["sympy"] = None
from cute_py.explore import answer, state_of
from cute_py.explore.controls import PRESETS
copy = "copy(UniversalCopy<128>,(16,2):(2,1),(1,8),bits=16)"
for e in ("offsets((60,60):(60,1))", f"bank_conflicts({copy},(16,16):(16,1))",
          f"suggest_smem_layout((16,64),16,1,{copy})", "fit(offsets((4,8):(8,1)))"):
    assert "value" in answer({"v": 1, "e": e}), e
assert answer({"v": 1, "e": "f2_matrix(Sw<1,0,1>)"})["error"]["code"] == "explore-package"
assert answer({"v": 1, "e": "offsets((512,512):(1,512))"})["error"]["code"] == "tools-size"
for link in open("tests/golden/links.txt").read().split():
    assert "value" in answer(state_of(link)), link
for presets in PRESETS.values():
    for name, state in presets.items():
        assert ("value" in answer({"v": 1, **state})) == (name != "a refusal"), name
"""


def test_the_explorer_needs_the_standard_library_alone():
    subprocess.run([sys.executable, "-c", EXPRESSIONS], check=True, timeout=60)
