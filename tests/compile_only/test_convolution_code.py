"""The machine code of the convolutions: no spills, for layers and types, without a GPU."""

import re

import numpy as np
import pytest

import cute_py as cute
from cute_py.ops import conv2d, conv2d_dgrad, conv2d_wgrad
from cute_py.ops.conv_families import TILES
from cute_py.ops.without_gpu import Outline, gpu_of, outlined
from tests.emulated.test_shifted_rows import SHAPES, shifted

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

# images, side, channels, filters, filter, stride, padding
LAYERS = [
    (32, 56, 64, 64, 3, 1, 1), (32, 56, 128, 128, 3, 2, 1), (32, 14, 256, 256, 3, 1, 1),
    (8, 224, 4, 64, 7, 2, 3), (8, 224, 3, 64, 7, 2, 3), (32, 56, 256, 512, 1, 2, 0),
]  # fmt: skip
OF = {"fprop": conv2d, "dgrad": conv2d_dgrad, "wgrad": conv2d_wgrad}


def called(of, layer, kind, arch):
    """The call of a layer on a GPU that is not there; its last kernel."""
    N, H, C, K, R, stride, padding = layer
    P = (H + 2 * padding - R) // stride + 1
    shapes = (N, H, H, C), (K, R, R, C), (N, P, P, K)
    x, w, dy = (Outline.compact(x, cute.dtype(kind)) for x in shapes)
    given = {"fprop": {"x": x, "w": w}, "dgrad": {"dy": dy, "w": w, "x_shape": x.shape},
             "wgrad": {"dy": dy, "x": x, "w_shape": w.shape}}[of]  # fmt: skip
    operator = OF[of].operator
    asked = operator.bound(**given, stride=stride, padding=padding, backend="gpu")
    return outlined(operator, asked, gpu_of(arch))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ["f16", "f32"])
@pytest.mark.parametrize("layer", LAYERS, ids=str)
@pytest.mark.parametrize("of", OF)
def test_layers_compile_without_spills(of, layer, kind, arch):
    call = called(of, layer, kind, arch)
    assert cute.compile(call.plan(), arch).resources.spill_bytes == 0, call.config


@pytest.mark.slow
@pytest.mark.parametrize("of", ["fprop", "dgrad"])
@pytest.mark.parametrize("tile", TILES, ids=lambda x: f"{x.m}x{x.n} {x.schedule}")
def test_all_tiles_of_hopper_compile_without_spills(tile, of):
    """With an epilogue that has all."""
    x, w = (Outline.compact(n, cute.f16) for n in ((32, 28, 28, 128), (128, 3, 3, 128)))
    config = f"schedule={tile.schedule},tile={tile.m}x{tile.n}x64"
    given = {"x": x, "w": w, "c": x, "beta": 1, "activation": "relu", "alpha": 2}
    given |= {"bias": Outline.compact((128,), cute.f16)}
    if of == "dgrad":
        given = {"dy": x, "w": w, "x_shape": x.shape, "c": x, "beta": 1}
    operator = OF[of].operator
    asked = operator.bound(**given, padding=1, config=config, backend="gpu")
    try:
        call = outlined(operator, asked, gpu_of("sm_90a"))
    except cute.CuteError:  # MN-major filters need multiples of 64 columns
        assert (of, tile.n) == ("dgrad", 104)
        return
    assert cute.compile(call.plan(), "sm_90a").resources.spill_bytes == 0


@pytest.mark.parametrize(
    ("major", "mode"),
    [
        ("K", "SW128"),
        *[pytest.param(*x, marks=pytest.mark.slow) for x in (("K", "SW32"), ("MN", "SW64"))],
    ],
)
def test_a_shifted_tile_has_the_address_before_the_swizzle(major, mode):
    """Units of 16 bytes in its descriptor: as many as a row of the pattern has, times the rows."""
    units = {"SW128": 8, "SW64": 4, "SW32": 2}[mode]
    a, d = np.zeros(SHAPES[major], np.float16), np.zeros((64, 64), np.float32)
    plan = cute.trace(shifted, a, d, mode, major, "B", 3)
    added = re.findall(r"add\.s64\s+%rd\d+, %rd\d+, (\d+);", cute.compile(plan, "sm_90a").ptx)
    assert str(3 * units) in added


def test_a_strided_gradient_is_a_kernel_for_each_class():
    """Four of them, whose outputs are every second line of one array."""
    call, calls = called("dgrad", LAYERS[1], "f16", "sm_80"), []
    while call is not None:
        calls.append(call)
        call = call.first
    assert len(calls) == 4
    assert {x.result.shape for x in calls} == {(32, 28, 28, 128)}
    assert len({x.result.address for x in calls}) == 4
