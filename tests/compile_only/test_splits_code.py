"""The machine code of kernels in which blocks split K: no spills, and one main loop."""

from functools import cache

import pytest

import cute_py as cute
from cute_py.kernels.gemm_split import gemm_split
from cute_py.kernels.gemm_split_sm90 import gemm_cooperative_split
from cute_py.ops.without_gpu import call_on, gpu_of
from tests.compile_only.ladder import main_loop
from tests.sampling import quick

ARCHS, HOW = ("sm_80", "sm_90a"), ("serial:4", "stream")


@cache
def _compiled(arch, how):
    call = call_on(
        gpu_of(arch), (128, 256, 4096), "bf16", config=f"schedule=multistage,split={how}"
    )
    assert call.kernel is gemm_split
    return call, cute.compile(call.plan(), arch, call.config.spill_bytes)


@pytest.fixture
def compiled(arch, how):
    return _compiled(arch, how)


@pytest.mark.parametrize(("arch", "how"), quick([("sm_90a", "stream")], ARCHS, HOW))
def test_blocks_share_one_main_loop(arch, how, compiled):
    call, found = compiled
    assert (found.resources.spill_bytes, found.resources.stack_bytes) == (0, 0)
    (m, n, k), (rows, columns, _one) = call.config.tile, (*call.config.warps, 1)
    atoms = (m // rows // 16) * (n // columns // 8) * (k // 16)
    _before, loop = main_loop(found.sass)
    assert loop["HMMA"] == atoms  # the main loop is there once


TILES = ("64x32x64", "64x128x64", "128x96x64", "128x128x64", "128x192x64", "256x128x64")


@pytest.mark.parametrize(
    ("how", "tile"), quick([("serial:2", "128x192x64")], ("serial:2", "stream"), TILES)
)
def test_warpgroups_that_split_k_spill_nothing(how, tile):
    call = call_on(gpu_of("sm_90a"), (128, 256, 4096), "bf16", config=f"split={how},tile={tile}")
    assert call.kernel is gemm_cooperative_split
    found = cute.compile(call.plan(), "sm_90a")
    (m, n, k), groups = call.config.tile, call.config.warpgroups
    _before, loop = main_loop(found.sass, "HGMMA")
    assert loop["HGMMA"] == m // groups // 64 * k // 16
    assert (found.resources.spill_bytes, n) == (0, call.config.mma_atom.shape_mnk[1])
