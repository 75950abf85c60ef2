"""The machine code of kernels of 4-bit integers: spills, and instructions of a loop."""

from functools import cache

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import conv2d_s4, w4a16
from cute_py.kernels.implicit_gemm import Conv2d
from tests.compile_only.ladder import zeros
from tests.compile_only.test_kernels_ranges_code import ARCHS, main_loop

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
    arrays = nibbles(2, 16, 16, 128), nibbles(256, 3, 3, 128), nibbles(2, 16, 16, 256)
    conv = Conv2d((3, 3), (1, 1))
    return cute.trace(conv2d_s4.conv2d_s4, *arrays, 1.0, conv, conv2d_s4.choose_s4())


@cache
def compiled(rows, arch):
    return cute.compile(weights(rows), arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("rows", [16, 128])
def test_w4a16_spills_nothing(rows, arch):
    found = compiled(rows, arch).resources
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_weights_of_64_products_cost_few_instructions(arch):
    """For each 8 weights: 13 to convert them and 4 to scale them."""
    _before, loop = main_loop(compiled(128, arch).sass)
    assert (loop["HMMA"], loop["LDSM"], loop["LDGSTS"]) == (64, 8, 6)
    assert loop["PRMT"] <= 8 * 4 + 8  # 8 scales, each twice in a word
    assert loop.total() <= 290


@pytest.mark.parametrize("arch", ARCHS)
def test_the_loop_for_a_few_rows(arch):
    """64 weights a thread, two blocks on a multiprocessor."""
    found = compiled(16, arch)
    _before, loop = main_loop(found.sass)
    assert loop["HMMA"] == 16
    assert loop.total() <= 220
    assert found.resources.registers <= 128


def test_the_convolution_of_nibbles_spills_nothing_where_it_is_native():
    found = cute.compile(conv2d(), "sm_80").resources
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)
    assert found.instructions["IMMA"] == 2 * 4 * 64  # two bodies of 4 k-blocks, 8x8 products


@pytest.mark.slow
def test_the_convolution_of_nibbles_compiles_where_it_is_emulated():
    assert cute.compile(conv2d(), "sm_90a").resources.instructions["CALL"] >= 512
