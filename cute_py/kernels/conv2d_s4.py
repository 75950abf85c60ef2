"""new here: a convolution of packed nibbles, with iterators that compute each address.

The tiles of K go through the filter positions first, then the channels: s, r, c. Both operands are
`Vectors`: 32 nibbles, one access, at coordinates that are computed for each tile; what is outside
of the array is zero. Tiles pass through registers to two stages of shared memory. The sums are
scaled, added to those of a source, and saturated to 4 bits.

Source: cutlass include/cutlass/conv/threadblock/conv2d_fprop_activation_tile_access_iterator_
analytic.h and conv2d_fprop_filter_tile_access_iterator_analytic.h (order and coordinates).
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.errors import refusal
from cute_py.kernels.config import GemmConfig, MultistageConfig, Side
from cute_py.kernels.convolution import ConvProblem, reference, require_one_group
from cute_py.kernels.epilogue import loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

WIDTH = 32  # nibbles of a vector


class Vectors:
    """The tiles (rows,BK) of an array (.,.,.,C) as an operand.

    Args:
        X: the array, packed, contiguous along C.
        place: gives the first three coordinates of a row, for r = s = 0.
        steps: how r and s move the second and the third.
        conv: the convolution.
        flip: whether r and s count from the end of the filter.
        g2s: how a tile is copied.
        shared: its stages (rows,BK,stages).
    """

    completion = "immediate"

    def __init__(
        self,
        X: Any,
        place: Callable[[Any], Any],
        steps: tuple[int, int],
        conv: ConvProblem,
        flip: bool,
        g2s: Any,
        shared: Any,
    ) -> None:
        self.X, self.steps, self.conv, self.flip, self.g2s = X, steps, conv, flip, g2s
        self.depth, part = cute.size(shared, 1), g2s.get_slice(cute.thread_idx())
        self.count = cute.ceil_div(X.shape[3], self.depth) * cute.product(conv.filter)
        self.stored = part.partition_D(shared)  # (CPY,CPY_M,CPY_K,stages)
        tile = cute.make_identity_tensor((cute.size(shared, 0), self.depth))
        own = part.partition_S(tile)  # (CPY,CPY_M,CPY_K)
        self.rows = [(place(own[0, i, 0][0]), own[0, i, 0][1]) for i in range(cute.size(own, 1))]
        self.held = cute.rmem(X.dtype, self.stored[_, _, _, 0].shape)

    def begin(self, tile: Any) -> None:
        """Move to a tile: first s moves, then r, then the channels."""
        R, S = self.conv.filter
        self.channel, r, s = tile // (R * S) * self.depth, tile // S % R, tile % S
        self.r, self.s = (R - 1 - r, S - 1 - s) if self.flip else (r, s)

    def fill(self, stage: Any) -> Iterator[None]:
        """Load the vectors of the thread; store them later."""
        for i, ((first, second, third), column) in enumerate(self.rows):
            coord = first, second + self.r * self.steps[0], third + self.s * self.steps[1]
            at = *coord, (self.channel + column) // WIDTH
            vector = cute.local_tile(self.X, (1, 1, 1, WIDTH), at)
            cute.copy(vector[0, 0, 0, _], self.held[_, i, 0])
        yield
        cute.copy(self.g2s, self.held, self.stored[_, _, _, stage])


@cute.kernel
def conv2d_s4(
    X: Any,
    F: Any,
    Z: Any,
    Y: Any,
    alpha: cute.f32,
    beta: cute.f32,
    conv: ConvProblem,
    cfg: MultistageConfig,
) -> None:
    """Y (N,P,Q,K) = alpha * the convolution of X (N,H,W,C) with F (K,R,S,C) + beta * Z, saturated.

    All are packed s4, and C is a multiple of 32. Y and Z are compact; Z may be None.
    """
    require_one_group("conv2d_s4", conv)
    cute.assume_shapes("NHWC KRSC NPQK? NPQK", X, F, Z, Y)
    rest = X.shape[3] % WIDTH
    if not isinstance(rest, int) or rest:  # an integer at run time is not known to be 0
        rule = f"channels in whole vectors of {WIDTH}"
        raise refusal("gemm-config", operation="conv2d_s4", config=cfg, rule=rule)
    cute.assume((F.shape[1] == conv.filter[0]) & (F.shape[2] == conv.filter[1]))
    conv.assume_output(X, Y)
    cute.assume_compact(Z, Y)
    _N, P, Q, K = Y.shape
    (bM, bN, _bK), ((ph, _a), (pw, _b)), (sh, sw) = cfg.tile, conv.pads, conv.stride
    mma, (of_a, of_b) = cfg.tiled_mma(), cfg.operands()
    M = Y.shape[0] * P * Q
    grid = cute.ceil_div(M, bM), cute.ceil_div(K, bN)
    cute.launch(grid=grid, block=cfg.threads, allow_emulated=True, spill_bytes=cfg.spill_bytes)
    (bx, by), thr = cute.block_idx(), mma.get_slice(cute.thread_idx())
    sA, sB = cute.smem(X.dtype, of_a.smem), cute.smem(F.dtype, of_b.smem)  # (BM or BN,BK,stages)

    def activation(row: Any) -> tuple[Any, Any, Any]:
        row = bx * bM + row
        return row // (P * Q), row // Q % P * sh - ph, row % Q * sw - pw

    def filter_(row: Any) -> tuple[Any, Any, Any]:
        return by * bN + row, 0, 0

    rows = Vectors(X, activation, conv.dilation, conv, conv.flip, of_a.g2s, sA)
    columns = Vectors(F, filter_, (1, 1), conv, False, of_b.g2s, sB)
    a = cute.Operand(rows, sA, s2r=cute.make_tiled_copy_A(of_a.s2r, mma))
    b = cute.Operand(columns, sB, s2r=cute.make_tiled_copy_B(of_b.s2r, mma))
    tCgY, *source = [
        thr.partition_C(cute.local_tile(flat, (bM, bN), (bx, by)))  # (MMA,MMA_M,MMA_N)
        for flat in (
            cute.make_tensor(x.data, cute.Layout((M, K), (K, 1))) for x in (Y, Z) if x is not None
        )
    ]
    acc = thr.make_fragment_C(tCgY)  # (MMA,MMA_M,MMA_N)
    acc.fill(0)
    cute.mainloop(mma, acc, a, b)
    for j in range(cute.size(acc, 2)):  # few registers at a time
        sums = acc[_, _, j].to("f32") * alpha
        for tCgZ in source:
            sums += loaded(tCgZ[_, _, j], "f32") * beta
        cute.copy(sums.to(Y.dtype, "to_nearest", saturate=True), tCgY[_, _, j])


def choose_s4(tile: tuple[int, int, int] = (128, 128, 128)) -> GemmConfig:
    """Return 2x2 warps and 2 stages. Registers may spill where products of s4 are emulated."""
    atom, side = "SM75_8x8x32_S32S4S4S32_TN", Side("K", WIDTH)
    return MultistageConfig(atom, tile, (2, 2), 2, side, side, False, spill_bytes=256)


def nibbles(values: Any) -> Any:  # an array of NumPy
    """Return integers from -8 to 7 as a packed array."""
    words = cute.pack(np.ravel(values), "s4", 8).reshape(*values.shape[:-1], -1)
    return cute.typed(words, "s4", packed=True)


def check() -> None:
    """Convolve random nibbles, with padding, strides and dilation."""
    rng, conv = np.random.default_rng(0), ConvProblem((3, 3), (1, 2), (2, 1), (1, 2))
    x, f = rng.integers(-8, 8, (2, 9, 8, 96)), rng.integers(-8, 8, (40, 3, 3, 96))
    y = np.zeros((2, *conv.extents(9, 8), 20), np.uint8)
    packed = nibbles(x), nibbles(f), None, cute.typed(y, "s4", packed=True)
    conv2d_s4(*packed, 2.0**-7, 0.0, conv, choose_s4((64, 64, 128)))
    wanted = np.clip(np.rint(reference(x, f, conv) / 128), -8, 7)
    assert (cute.unpack(y.ravel(), "s4") == wanted.ravel()).all()


if __name__ == "__main__":
    check()
