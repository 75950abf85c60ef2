"""Convolutions on Hopper: TMA loads pixels in im2col mode, and warpgroups multiply them by wgmma.

The rows of A are pixels of the output, and a tile of K has 128 bytes of channels of one tap, which
TMA moves all rows by: what is outside of the images is zero. B is the filter, a tap at a time. All
but these loads is `gemm_sm90.py`: the ring, the products, the roles, the epilogue and the store.
"""

from __future__ import annotations

from typing import Any

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import assume_words, require
from cute_py.kernels.config_sm90 import WarpgroupConfig
from cute_py.kernels.convolution import Lines
from cute_py.kernels.epilogue import Epilogue, given, product_kernel
from cute_py.kernels.gemm_sm90 import Count, Inputs, Output, Tiles, initialized, take_turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.tensor.tensor import Tensor


CORNER, STEP = 128, 8  # of a tensor map in im2col mode, for two spatial modes


class Box:
    """A convolution as TMA has it: taps count along the image, from the first pixel that is read.

    Args:
        lines: which lines and columns are read.
    """

    def __init__(self, lines: tuple[Lines, Lines]) -> None:
        self.filter = tuple([x.taps for x in lines])
        self.stride = tuple([x.stride for x in lines])
        self.dilation = tuple([abs(x.dilation) for x in lines])
        self.flips = [x.dilation < 0 for x in lines]
        self.padding = tuple(
            [-x.start - min(x.dilation, 0) * (x.taps - 1) for x in lines]
        )  # in front of the image
        self.behind = tuple([x.behind for x in lines])

    def tap(self, r: Any, s: Any) -> Any:
        """Return the number of the tap in the filter that is tap (r,s) along the image."""
        (R, S), (flips_r, flips_s) = self.filter, self.flips
        return (R - 1 - r if flips_r else r) * S + (S - 1 - s if flips_s else s)

    def outputs(self, extents: tuple[Any, Any]) -> list[Any]:
        """Return the extents of the output for images of some extents."""
        pads = [sum(x) for x in self.pads]
        sides = zip(extents, self.filter, pads, self.stride, self.dilation, strict=True)
        return [(n + pad - d * (f - 1) - 1) // step + 1 for n, f, pad, step, d in sides]

    @property
    def pads(self) -> tuple[tuple[int, int], ...]:
        """The padding in front and behind, along H and along W."""
        return tuple(zip(self.padding, self.behind, strict=True))

    @property
    def fits(self) -> bool:
        """Whether TMA has such a bounding box: corners of 8 bits, and steps of at most 8."""
        sides = zip(self.filter, self.pads, self.dilation, strict=True)
        corners = [(front, behind, behind - (f - 1) * d) for f, (front, behind), d in sides]
        near = all(0 <= x <= CORNER and y >= 0 and -CORNER <= z < CORNER for x, y, z in corners)
        return near and max(self.stride) <= STEP


class Pixels(Inputs):
    """The stages of pixels X (N,H,W,C) and of the filter F (K,R*S,C)."""

    def __init__(
        self, config: WarpgroupConfig, X: Tensor, F: Tensor, lines: tuple[Lines, Lines]
    ) -> None:
        super().__init__(config, X, F)
        self.box = box = Box(lines)
        self.pixels = cute.tma_im2col(X, box.filter, box.pads, box.stride, box.dilation)
        self.of_channels = cute.ceil_div(X.shape[3], config.tile[2])
        self.depth = self.of_channels * cute.product(box.filter)

    def load(self, place: tuple[Any, Any, Any], _columns: Any, _of_k: Any = None) -> None:
        """Load all tiles of K of a tile of D; one thread does."""
        (bM, bN, bK), (m, n, _L), (sA, sB) = self.config.tile, place, self.shared
        gB = cute.local_tile(self.sources[1], (bN, 1, bK), (n, _, _))
        gB = gB[_, 0, _, _, _]  # (BLK_N, BLK_K, taps, k)
        edge = "skip" if self.config.b.major == "MN" else "zero"
        for r in cute.range(self.box.filter[0]):
            for s in cute.range(self.box.filter[1]):
                for c in cute.range(self.of_channels):
                    stage = self.ring.acquire()
                    at = stage, m * bM, (r, s), c * bK
                    cute.tma_load_im2col(self.pixels, sA[_, _, stage], self.ring.full, *at)
                    tap = gB[_, _, self.box.tap(r, s), c]
                    self.ring.load(tap, sB[_, _, stage], outside=edge)
                    self.ring.commit()


def _stated(
    X: Tensor,
    F: Tensor,
    terms: tuple[dict[str, Any], dict[str, Any]],
    extents: tuple[Any, Any],
    lines: tuple[Lines, Lines],
    config: WarpgroupConfig,
    epilogue: Epilogue,
) -> dict[str, Any]:
    """State the shapes, and refuse what these kernels do not have; return the arrays."""
    name, (arrays, outputs), (P, Q), box = "conv_sm90", terms, extents, Box(lines)
    arrays = given(arrays, epilogue, name)
    require(config.cluster == config.split == 1, name, "config", config, "no cluster and no split")
    assume_words([("BUVC", X), ("NTC", F)], arrays, outputs, epilogue)
    made = box.outputs(X.shape[1:3])
    cute.assume((made[0] == P) & (made[1] == Q) & (F.shape[1] == cute.product(box.filter)))
    cute.assume(outputs["D"].shape[0] == X.shape[0] * P * Q)
    return arrays


@product_kernel
def conv_cooperative(
    X: Any,
    F: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    P: cute.s32,
    Q: cute.s32,
    blocks: Count,
    band: Count,
    lines: tuple[Lines, Lines],
    config: WarpgroupConfig,
    epilogue: Epilogue,
) -> None:
    """Compute D (N*P*Q,K) = f(the convolution of X with F, *arrays, *numbers).

    Args:
        X: (N,H,W,C), contiguous along C.
        F: (K,R*S,C), contiguous along C or along K.
        arrays: by name what the epilogue reads, as `gemm` takes it.
        outputs: by name D (N*P*Q,K).
        numbers: those of the epilogue.
        P: lines of an image of the output.
        Q: columns of it.
        blocks: how many are launched.
        band: tiles of M that blocks which run together compute.
        lines: which lines and columns of X these read.
        config: how it is computed.
        epilogue: f.

    """
    arrays = _stated(X, F, (arrays, outputs), (P, Q), lines, config, epilogue)
    cute.launch(blocks, config.threads, pdl=bool(config.pdl))
    inputs = Pixels(config, X, F, lines)
    tiles = Tiles(config, outputs["D"], F.shape[0], band)
    output = Output(config, epilogue, arrays, outputs, numbers)
    if config.pdl:
        _follow()
    warps, registers = 4 * config.consumers, config.registers
    with cute.role("multiply", range(warps), registers[1]):
        for place in tiles.of_block():
            inputs.multiply()
            output.store(inputs.sums, place)
        output.tail()
    with cute.role("load", range(warps, warps + 4), registers[0]), cute.elect("role"):
        for place in tiles.of_block():
            inputs.load(place, tiles.n)


@product_kernel
def conv_pingpong(
    X: Any,
    F: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    P: cute.s32,
    Q: cute.s32,
    blocks: Count,
    band: Count,
    lines: tuple[Lines, Lines],
    config: WarpgroupConfig,
    epilogue: Epilogue,
) -> None:
    """The same; two warpgroups take turns with the tensor cores, tile by tile."""
    arrays = _stated(X, F, (arrays, outputs), (P, Q), lines, config, epilogue)
    cute.launch(blocks, config.threads, pdl=bool(config.pdl))
    tiles = Tiles(config, outputs["D"], F.shape[0], band)
    inputs = Pixels(config, X, F, lines)
    output = Output(config, epilogue, arrays, outputs, numbers)
    turns = initialized(2, arrivals=4)  # a warpgroup may multiply
    if config.pdl:
        _follow()
    with cute.role("multiply", range(8), config.registers[1]):
        take_turns(inputs, tiles, output, turns, blocks)
    with cute.role("load", range(8, 12), config.registers[0]), cute.elect("role"):
        for place in tiles.of_block():
            inputs.load(place, tiles.n)


def _follow() -> None:
    """Wait for the previous kernel, and let the next one begin."""
    cute.griddepcontrol_wait()
    cute.griddepcontrol_launch_dependents()


KERNELS = {"cooperative": conv_cooperative, "pingpong": conv_pingpong}
