"""The machine code of kernels whose main loop runs over a part of K, or gathers: no spills, and no
more instructions than were counted.
"""

from dataclasses import replace
from functools import cache

import pytest

import cute_py as cute
from cute_py.kernels.config import flagship
from cute_py.kernels.convolution import ConvProblem
from cute_py.kernels.grouped import gemm_grouped
from cute_py.kernels.implicit_gemm import conv2d_fprop
from cute_py.kernels.stream_k import gemm_stream_k
from tests.compile_only.ladder import main_loop, with_epilogue, zeros

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")


WIDE = replace(flagship(), warps=(2, 4))  # room for what a scheduler keeps in registers


def stream_k():
    a, flags = zeros(256, 256, kind="f16"), zeros(5, kind="s32")
    arrays = a, a, zeros(256, 256), zeros(5, 128 * 128), flags
    return cute.trace(gemm_stream_k, *arrays, WIDE)


def grouped():
    a, sizes = zeros(4096, kind="f16"), zeros(4, 3, kind="s32")
    return cute.trace(gemm_grouped, a, a, zeros(4096), sizes, sizes, 132, WIDE)


def conv2d():
    x, f = zeros(2, 16, 16, 64, kind="f16"), zeros(256, 9 * 64, kind="f16")
    conv = ConvProblem((3, 3), (1, 1))
    return cute.trace(conv2d_fprop, x, f, zeros(2, 16, 16, 256), conv, flagship())


def warps_along_k():
    a = zeros(256, 256, kind="bf16")
    return with_epilogue(a, "tile=64x64x64,warps=2x2x2,stages=3,store=8,spill_bytes=0")


PLANS = {
    "stream_k": stream_k,
    "grouped": grouped,
    "conv2d": conv2d,
    "warps_along_k": warps_along_k,
}
ARCHS = ["sm_90a", pytest.param("sm_80", marks=pytest.mark.slow)]


@cache
def _compiled(name, arch):
    return cute.compile(PLANS[name](), arch)


@pytest.fixture
def compiled(name, arch):
    return _compiled(name, arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_spilled(name, arch, compiled):
    found = compiled.resources
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ["conv2d"])
def test_a_gathered_operand_costs_few_instructions(name, arch, compiled):
    before, loop = main_loop(compiled.sass)
    assert (loop["HMMA"], loop["LDSM"], loop["LDGSTS"]) == (64, 16, 8)
    assert loop.total() <= 160
    assert before.total() <= 500
