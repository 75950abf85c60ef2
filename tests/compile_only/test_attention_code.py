"""The machine code of attention and LayerNorm: no spills, and few instructions for a mask."""

from collections import Counter

import pytest

import cute_py as cute
from cute_py.kernels.arrays import row_copy
from cute_py.kernels.attention import plain
from cute_py.kernels.flash_attention import AttentionConfig, flash_attention
from cute_py.kernels.fused_attention import choose, fused_attention
from cute_py.kernels.layer_norm import layer_norm
from cute_py.ops.attention_families import LIGHT, TILES
from cute_py.ops.without_gpu import Outline, gpu_of, outlined
from tests.compile_only.ladder import loops_of, zeros

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

FLASH = [(dim, tile) for dim, tiles in TILES.items() for tile in tiles]


def flash(dim, tile, causal):
    x, (queries, keys, warps) = zeros(2, 4, 1024, dim, kind="f16"), tile
    config = AttentionConfig(queries, keys, dim, warps)
    return cute.trace(flash_attention, *plain(x, x, x, x, 0.125, config, causal))


def fused(dim, columns, causal, bias):
    q, v = (zeros(2, 4, 256, n, kind="f16") for n in (dim, columns))
    options = {"causal": causal, "lse": zeros(2, 4, 256)}
    if bias:
        options["bias"] = zeros(2, 4, 256, 256, kind="f16")
    if columns > 128:
        options["accum"] = zeros(2, 4, 256, columns)
    return cute.trace(fused_attention, choose(q, q, v, v, **options), 0.125, 256)


def norm(kind):
    a, w = zeros(64, 4096, kind=kind), zeros(4096, kind=kind)
    return cute.trace(layer_norm, a, w, w, a, 1e-5, *row_copy(a))


ARCHS = ["sm_80", "sm_90a"]


def require_no_spills(plan, arch):
    found = cute.compile(plan, arch).resources
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dim", "tile"), FLASH, ids=str)
def test_flash_attention_spills_nothing(dim, tile, causal, arch):
    """In any tile that the operator may take."""
    require_no_spills(flash(dim, tile, causal), arch)


@pytest.mark.slow
@pytest.mark.parametrize("dim", LIGHT)
def test_all_options_together_spill_nothing(dim):
    """In the tile that the operator takes where more is done to scores."""

    def outline(*shape, kind="f32"):
        return Outline.compact(shape, cute.dtype(kind))

    x = outline(2, 4, 1024, dim, kind="f16")
    named = {"bias": outline(2, 4, 1024, 1024), "alibi_slopes": outline(4), "softcap": 3.0}
    named |= {"window": (100, 50), "exact": True, "return_lse": True, "layout": "BHMK"}
    named |= {"score": lambda s, *_: s * 1.25, "mask": lambda b, h, i, j: (i + j) % 3 != 0}
    named |= {"backend": "gpu", "config": "family=warps"}
    operator, request = cute.ops.attention.operator.requested(x, x, x, **named)
    call = outlined(operator, request, gpu_of("sm_90a"))
    assert (call.config.queries, call.config.keys, call.config.warps) == LIGHT[dim]
    require_no_spills(call.plan(), "sm_90a")


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("dim", "columns", "causal", "bias"),
    [(64, 64, False, False), (64, 64, True, True), (128, 128, True, True), (64, 256, True, False)],
)
def test_fused_attention_spills_nothing(dim, columns, causal, bias, arch):
    require_no_spills(fused(dim, columns, causal, bias), arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
def test_layer_norm_spills_nothing(kind, arch):
    require_no_spills(norm(kind), arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
def test_a_mask_costs_two_instructions_an_element(arch):
    """A compare and a selection: the loop with a mask is counted against the one without."""
    names, loops = loops_of(cute.compile(flash(64, TILES[64][0], causal=True), arch).sass)
    plain, masked = (Counter(names[slice(*x)]) for x in loops if "HMMA" in names[slice(*x)])
    assert plain["HMMA"] == masked["HMMA"] == 128
    elements = 128 * 64 // 128  # of a thread
    assert masked.total() <= 1.05 * plain.total() + 2 * elements
