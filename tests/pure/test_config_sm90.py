"""Configurations for Hopper: a product has one exactly if its kernel can be traced."""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.calls.arguments import typed
from cute_py.kernels import config_sm90
from cute_py.kernels.config_sm90 import shared_bytes, warpgroup_config
from cute_py.ops.choice import gemm_config
from cute_py.ops.product import GEMM, Product, Request
from cute_py.ops.without_gpu import Outline, Outlines, gpu_of
from tests.gpu_arrays import install, on_gpu
from tests.sampling import check_each, in_turn, pairwise

GPU = gpu_of("sm_90a")
ROWS = 64, 128, 192, 256
SIDES = [(m, n) for m in ROWS for n in (8, 24, 64, 128, 152, 192, 200, 256)]
STAGES = ("", "stages=2", "stages=4", "stages=6", "stages=16")
WAYS = (
    "schedule=cooperative",
    "schedule=cooperative,cluster=2",
    "schedule=cooperative,split=2",
    "schedule=cooperative,split=3,store=64",
    "schedule=pingpong",
)
STORES = ("", "store=0", "store=8", "store=64")
TYPES = [
    *[("bf16", out) for out in ("bf16", "f32", "e4m3", "f64")],
    *[("tf32", "f32"), ("s8", "s32"), ("s8", "s8"), ("e4m3", "f16")],
]
TERMS = ("", "c", "c,prefetch", "bias", "silu", "odd")
AXES = SIDES, STAGES, WAYS, STORES, TYPES, TERMS


def call_of(sides, stages, way, store, types, terms):
    """Return the call of a product by a configuration; of `odd` columns, TMA writes no rows."""
    (kind, out), terms = types, terms.split(",")
    depth = 1024 // cute.dtype(kind).bits
    parts = f"tile={sides[0]}x{sides[1]}x{depth}", way, stages, store
    prefetch = "prefetch=1" if "prefetch" in terms else ""
    N = 1001 if "odd" in terms else 1024
    held = cute.f32 if kind == "tf32" else cute.dtype(kind)
    a, b = (Outline.compact((rows, 1024), held) for rows in (1024, N))
    c = Outline.compact((1024, N), cute.dtype(out)) if "c" in terms else None
    bias = Outline.compact((N,), cute.f32) if "bias" in terms else None
    request = Request(
        typed(a, kind), typed(b.swapaxes(0, 1), kind), c, bias, None, 1, int(c is not None),
        "silu" if "silu" in terms else None, out, "gpu", ",".join(filter(None, (*parts, prefetch))),
    )  # fmt: skip
    return Product(request, Outlines(GEMM, GPU)).call()


def decide(row, monkeypatch):
    """Fail unless what is accepted can be traced, and takes the memory that was computed; and what
    is refused for its memory, its columns or C cannot be.
    """
    try:
        call = call_of(*row)
    except cute.CuteError as error:
        said = error
    else:
        source = bool(call.config.prefetch) and call.statics[1].source
        wanted = shared_bytes(call.config, cute.dtype(row[4][1]), source)
        assert call.plan().smem_bytes == wanted <= config_sm90.HOPPER_SMEM
        return
    with monkeypatch.context() as patch:
        for name in ("require_room", "require_result"):
            patch.setattr(config_sm90, name, lambda *_args: None)
        patch.setattr("cute_py.ops.gemm_families.require_result", lambda *_args: None)
        try:
            call = call_of(*row)
        except (cute.CuteError, StopIteration):
            return
        if "or store=0: TMA writes no others" not in str(said):  # a launch refuses these
            with pytest.raises((cute.CuteError, StopIteration)):
                call.plan()


QUICK = in_turn(*AXES)


@pytest.mark.parametrize("part", range(6))
def test_a_configuration_is_accepted_exactly_if_its_kernel_can_be_traced(part, monkeypatch):
    check_each(lambda row: decide(row, monkeypatch), QUICK[part::6])


@pytest.mark.slow
def test_any_two_parts_are_accepted_exactly_if_their_kernel_can_be_traced(monkeypatch):
    all_sides = [(m, n) for m in ROWS for n in range(8, 264, 8)]
    rows = pairwise(all_sides, *AXES[1:])
    assert len(rows) >= len(all_sides) * len(TYPES)
    check_each(lambda row: decide(row, monkeypatch), rows)


# parts, the type of the result -> what is given, and what to do
ROOM = {
    ("tile=192x192x64,split=2", "bf16"): (
        "tile=192x192x64, stages=6, split=2, which take 295112 bytes of shared memory; required: "
        "at most 232448 bytes per block; fix: a smaller tile, or split=1"
    ),
    ("tile=128x256x64,stages=9", "bf16"): "stages=9, which take .* fix: at most stages=4, less",
    ("tile=128x256x64,stages=4", "bf16"): "store=256 of bf16, which .* fix: at most stages=3$",
    ("tile=64x256x64,stages=5,store=64", "f64"): "store=64 of f64, which .* at most stages=4",
    ("tile=128x128x64,stages=7,split=2", "f32"): "stages=7, split=2.* fix: at most stages=6",
    ("tile=128x128x64,stages=7,schedule=pingpong", "f32"): "stages=7.* fix: at most stages=6",
}


@pytest.mark.parametrize(("text", "out"), ROOM)
def test_what_a_block_has_no_room_for_is_refused_where_it_is_chosen(monkeypatch, text, out):
    launched = install(monkeypatch, GPU)
    operands = [on_gpu(256, 256, "bf16", "K") for _ in range(2)]
    for call in (cute.ops.gemm, gemm_config):
        with pytest.raises(cute.LayoutError, match=ROOM[text, out]) as caught:
            call(*operands, config=text, out_dtype=out)
        assert caught.value.code == "config-shared"
        assert str(caught.value).startswith(f"config({text}): ")
    assert launched == []


def test_a_configuration_that_a_block_has_no_room_for_is_not_made():
    made = warpgroup_config(("bf16", "bf16"), (128, 256))
    for parts in ({"stages": 5}, {"split": 2, "stages": 8}):
        with pytest.raises(cute.LayoutError) as caught:
            replace(made, **parts)
        assert caught.value.code == "config-shared"
    with pytest.raises(cute.LayoutError, match="at most stages=3"):
        warpgroup_config(("bf16", "bf16"), (128, 256), stages=4)


def test_a_configuration_for_other_arrays_is_refused_where_it_is_given(monkeypatch):
    """Of other types, with another result, or where TMA reads no C."""
    launched = install(monkeypatch, GPU)

    def refused(given, rule, kind="f16", shape=(256, 256, 256), c=None, **named):
        (m, n, k), sides = shape, ((kind, "K"), (kind, "MN"))
        a, b = on_gpu(m, k, *sides[0]), on_gpu(k, n, *sides[1])
        c = {} if c is None else {"c": on_gpu(m, n, c, "K"), "beta": 1}
        for call in (cute.ops.gemm, gemm_config):
            with pytest.raises(cute.LayoutError, match=rule) as caught:
                call(a, b, config=given, **named, **c)
            assert caught.value.code == "gemm-config"

    half = warpgroup_config(("f16", "f16"), (128, 152), result="f16")
    refused(half, "an atom that multiplies bf16 and bf16", "bf16")
    refused(half, "columns of e4m3 in whole 16 bytes", out_dtype="e4m3")
    refused(half, "store=0: TMA writes no others", shape=(256, 250, 256))
    refused(replace(half, prefetch=1), "C of f16, in rows that TMA", c="f32")
    refused("store=64", "store=0: TMA writes no others", shape=(1024, 1001, 1024))
    refused("schedule=cooperative,prefetch=1", "prefetch=0", c="bf16")
    assert launched == []
    gemm_config(on_gpu(1, 256, "f16", "K"), on_gpu(256, 250, "f16", "MN"), config=half)
    a, b = on_gpu(256, 256, "f16", "K"), on_gpu(256, 256, "f16", "MN")
    cute.ops.gemm(a, b, config=half)
    cute.ops.gemm(a, b, on_gpu(256, 256, "f16", "K"), beta=1, config=replace(half, prefetch=1))
    assert len(launched) == 2


def test_what_the_other_schedules_have_is_refused_for_the_kernel_of_all_gpus():
    x = np.ones((64, 64), np.float16)
    for text in ("split=2", "cluster=2", "two_level=1"):
        with pytest.raises(cute.LayoutError, match=r"of the other schedules alone") as caught:
            cute.ops.gemm(x, x, config=text)
        assert caught.value.code == "gemm-config"


def test_results_of_8_bits_get_tiles_that_their_kernel_can_store():
    """A tile of 152 columns leaves 8 bytes over, for which there is no part of D."""
    for out in ("e4m3", "s8"):
        request = Request(
            *(Outline.compact((rows, 1024), cute.bf16) for rows in (1024,)),
            Outline.compact((4864, 1024), cute.bf16).swapaxes(0, 1),
            out_dtype=out, backend="gpu",
        )  # fmt: skip
        call = Product(request, Outlines(GEMM, GPU)).call()
        assert call.plan().smem_bytes == shared_bytes(call.config, cute.dtype(out))
