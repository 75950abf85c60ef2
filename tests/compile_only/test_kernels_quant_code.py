"""The machine code of kernels of 4-bit integers: spills, and instructions of a loop."""

from functools import cache

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import conv2d_s4, w4a16
from cute_py.kernels.convolution import ConvProblem
from tests.compile_only.ladder import main_loop, zeros
from tests.compile_only.test_kernels_ranges_code import ARCHS

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")


def weights(rows):
    """The plan of w4a16 for bf16 and so many rows."""
    config = w4a16.choose_tile(rows)
    (bM, bN, bK), (N, K) = config.tile, (512, 512)
    words = np.zeros((N // bN, K // bK, bN * bK // 8 + bN // 2), np.int32)
    arrays = zeros(rows, K, kind="bf16"), words, zeros(rows, N, kind="bf16")
    return cute.trace(w4a16.gemm_w4a16, *arrays, zeros(8, bM * bN), zeros(8, kind="s32"), config)


def nibbles(*shape):
    words = zeros(*shape[:-1], shape[-1] // 8, kind="s32")
    return cute.typed(words, "s4", packed=True)


def conv2d():
    out, conv = nibbles(2, 16, 16, 256), ConvProblem((3, 3), (1, 1))
    arrays = nibbles(2, 16, 16, 128), nibbles(256, 3, 3, 128), out, out
    return cute.trace(conv2d_s4.conv2d_s4, *arrays, 1.0, 1.0, conv, conv2d_s4.choose_s4())


PLANS = {"rows": lambda: weights(16), "tiles": lambda: weights(128), "conv2d": conv2d}


@cache
def _compiled(name, arch):
    return cute.compile(PLANS[name](), arch)


@pytest.fixture
def compiled(name, arch):
    return _compiled(name, arch)


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("rows", "sm_90a"),
        ("tiles", "sm_90a"),
        ("conv2d", "sm_80"),
        pytest.param("rows", "sm_80", marks=pytest.mark.slow),
        pytest.param("tiles", "sm_80", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_spilled(compiled, name, arch):
    found = compiled.resources
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ["tiles"])
def test_the_weights_of_64_products_cost_few_instructions(compiled, name, arch):
    """For each 8 weights: 13 to convert them and 4 to scale them."""
    _before, loop = main_loop(compiled.sass)
    assert (loop["HMMA"], loop["LDSM"], loop["LDGSTS"]) == (64, 8, 6)
    assert loop["PRMT"] <= 8 * 4 + 8  # 8 scales, each twice in a word
    assert loop.total() <= 290


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ["rows"])
def test_the_loop_for_a_few_rows(compiled, name, arch):
    """64 weights a thread, two blocks on a multiprocessor."""
    _before, loop = main_loop(compiled.sass)
    assert loop["HMMA"] == 16
    assert loop.total() <= 220
    assert compiled.resources.registers <= 128


@pytest.mark.parametrize(("name", "arch"), [("conv2d", "sm_80")])
def test_nibbles_are_multiplied_by_tensor_cores(compiled, name, arch):
    assert compiled.resources.instructions["IMMA"] == 2 * 4 * 64  # two bodies of 4 k-blocks, 8x8


@pytest.mark.slow
def test_the_convolution_of_nibbles_compiles_where_it_is_emulated():
    assert cute.compile(conv2d(), "sm_90a").resources.instructions["CALL"] >= 512
