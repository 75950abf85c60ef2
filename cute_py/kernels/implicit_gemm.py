"""new here: a convolution as a GEMM, by an iterator operand that gathers the activations.

The rows of A are the output positions (n,p,q), its columns the filter positions and channels: a K
tile has channels of one filter position, and the positions (r,s) come before the next channels.
`Im2col` copies tiles of A as if it were in memory. B is the filter, whose tiles are in memory.

Source: cutlass include/cutlass/conv/threadblock/conv2d_fprop_activation_tile_access_iterator_
optimized.h (a base for each row, one bit for each filter position, and steps that the host
computes).
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.kernels.arrays import require_kind
from cute_py.kernels.config import MultistageConfig, choose
from cute_py.kernels.convolution import ConvProblem, reference, require_one_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


POSITIONS = 31  # of a filter: bits of a register
WORD = 1 << 32  # numbers of u32 wrap
MOST_TILES = (1 << 31) - 1  # of K, and those that are read ahead: their numbers have 32 bits


def table_of(conv: ConvProblem, X: Any, vector: int) -> Any:
    """Return the distance of each filter position from the first one in X (N,H,W,C).

    Raises LayoutError for more positions than bits, and for channels or strides that are no
    whole vectors.
    """
    (R, S), (_by_n, by_h, by_w, unit) = conv.filter, X.stride
    dh, dw = (x.dilation for x in conv.lines())
    whole = [ints.divides(vector, n) is True for n in (*X.stride[:3], X.shape[3])]
    if R * S > POSITIONS or not all(whole) or unit != 1:
        facts = {"filter": f"{R}x{S}", "layout": X.layout, "vector": vector}
        raise refusal("conv2d", operation="conv2d_fprop", **facts)
    return cute.make_table([r * dh * by_h + s * dw * by_w for r in range(R) for s in range(S)])


class Im2col:
    """The tiles (BM,BK) of the activations X (N,H,W,C) as a matrix (N*P*Q,R*S*C).

    Args:
        X: activations, contiguous along C.
        Y: the output (N,P,Q,K).
        conv: the convolution.
        g2s: how a tile is copied.
        shared: its stages (BM,BK,stages).
        block: which tile of rows.
    """

    bounded = True  # past the last tile, there are no channels

    def __init__(
        self, X: Any, Y: Any, conv: ConvProblem, g2s: Any, shared: Any, block: Any
    ) -> None:
        self.X, self.Y, self.g2s, self.positions = X, Y, g2s, cute.product(conv.filter)
        bM, self.depth = cute.size(shared, 0), cute.size(shared, 1)
        self.count = cute.ceil_div(X.shape[3], self.depth) * self.positions
        part = g2s.get_slice(cute.thread_idx())
        self.stored = part.partition_D(shared)  # (CPY,CPY_M,CPY_K,stages)
        own = part.partition_S(cute.make_identity_tensor((bM, self.depth)))  # (CPY,CPY_M,CPY_K)
        self.width, self.column = cute.size(own, 0), own[0, 0, 0][1]  # of a vector
        self.table = table_of(conv, X, self.width)
        places, bits = cute.smem("s64", bM), cute.smem("s32", bM)
        for row in range(0, bM, g2s.size()):
            with cute.when(row + cute.thread_idx() < bM):
                at = row + cute.thread_idx()
                places[at], bits[at] = self._row(conv, block * bM + at)
        cute.syncthreads()
        self.places, self.inside = [], cute.rmem("s32", cute.size(own, 1))
        for i in range(cute.size(own, 1)):
            row, _column = own[0, i, 0]
            self.places.append(cute.as_int(places[row], multiple_of=self.width) + self.column)
            self.inside[i] = bits[row]

    def _row(self, conv: ConvProblem, row: Any) -> tuple[Any, Any]:
        """Return the place (elements) of filter position 0 for a row, and a bit for each filter
        position that is inside of the activations.
        """
        (N, H, W), (R, S) = (extent.to("u32") for extent in self.X.shape[:3]), conv.filter
        (_R, sh, ph, dh, *_), (_S, sw, pw, dw, *_) = conv.lines()
        _N, P, Q = (extent.to("u32") for extent in self.Y.shape[:3])
        row = row.to("u32")
        n, line = row // (P * Q), row // Q
        p, q = line - n * P, row - line * Q
        high, wide = 0, 0
        for r in range(R):  # below 0 is far above H
            high = cute.where(p * sh + (ph + r * dh) % WORD < H, ((1 << S) - 1) << r * S, 0) | high
        for s in range(S):
            column = sum(1 << r * S + s for r in range(R))
            wide = cute.where(q * sw + (pw + s * dw) % WORD < W, column, 0) | wide
        by_n, by_h, by_w, _unit = self.X.stride
        n_, p_, q_ = (cute.as_int(x, 0) for x in (n, p, q))
        place = n_ * by_n + (p_ * sh + ph) * by_h + (q_ * sw + pw) * by_w
        return place.to("s64"), cute.where(n < N, high & wide, 0)

    def begin(self, tile: Any) -> None:
        """Move to a tile: first the filter positions, then the channels."""
        self.tile = cute.var(tile, 0, MOST_TILES, uniform="block")
        self.at = cute.var(0, multiple_of=self.width)
        self.bit = cute.rmem("s32", 1)
        self._read(tile)

    def step(self) -> None:
        """Move to the next tile; its entry of the table is read long before it is used."""
        self.tile.set(self.tile.get() + 1)
        self._read(self.tile.get())

    def _read(self, tile: Any) -> None:
        """Read an entry: where the tile is, and the bit of its filter position, if this thread has
        channels in it.
        """
        position, channel = tile % self.positions, tile // self.positions * self.depth
        self.at.set(self.table[position] + channel)
        there = channel + self.column < self.X.shape[3]
        self.bit[0] = cute.where(there, 1 << position, 0).to("s32")

    def fill(self, stage: Any) -> Iterator[None]:
        """Copy the rows; those outside of the activations, and past the last tile, are zero."""
        at, there = self.at.get(), (self.inside & self.bit[0]) != 0
        for i, place in enumerate(self.places):
            row = cute.make_tensor(self.X.data.moved(place + at), cute.Layout(self.width))
            cute.copy(self.g2s, row, self.stored[_, i, 0, stage], pred=there[i])
            yield


@cute.kernel
def conv2d_fprop(
    X: cute.Tensor,
    F: cute.Tensor,
    Y: cute.Tensor,
    conv: ConvProblem,
    cfg: MultistageConfig,
    iterator: Any = Im2col,
) -> None:
    """Y (N,P,Q,K), compact, = the convolution of X (N,H,W,C) with F (K,R*S*C)."""
    require_one_group("conv2d_fprop", conv)
    cute.assume_shapes("NHWC KE NPQK", X, F, Y)
    require_kind("conv2d_fprop", (cfg.tiled_mma().atom.a_type.name,), X=X)
    require_kind("conv2d_fprop", (cfg.tiled_mma().atom.b_type.name,), F=F)
    conv.assume_output(X, Y)
    cute.assume_compact(Y, F[0, _])
    M, N, C = Y.shape[0] * Y.shape[1] * Y.shape[2], Y.shape[3], X.shape[3]
    (bM, bN, bK), positions = cfg.tile, cute.product(conv.filter)
    mma, (of_a, of_b) = cfg.tiled_mma(), cfg.operands()
    cute.launch(grid=(cute.ceil_div(M, bM), cute.ceil_div(N, bN)), block=cfg.threads)
    bx, by = cute.block_idx()
    sA, sB = cute.smem(X.dtype, of_a.smem), cute.smem(F.dtype, of_b.smem)  # (BM or BN,BK,stages)
    mY = cute.make_tensor(Y.data, cute.Layout((M, N), (N, 1)))
    tCgC = mma.get_slice(cute.thread_idx()).partition_C(cute.local_tile(mY, (bM, bN), (bx, by)))
    acc = mma.get_slice(cute.thread_idx()).make_fragment_C(tCgC)  # (MMA,MMA_M,MMA_N)
    acc.fill(0)
    cute.assume(F.shape[1] == C * positions)
    mF = cute.make_tensor(F.data, cute.Layout((N, C, positions), (F.stride[0], 1, C)))
    gB = cute.local_tile(mF, (bN, bK, 1), (by, _, _))  # (BN,BK,1,k,positions)
    gB = cute.group_modes(
        cute.select(gB[_, _, 0, _, _], (0, 1, 3, 2)), 2, 4
    )  # (BN,BK,(position,k))
    rows = iterator(X, Y, conv, of_a.g2s, sA, bx)
    a = cute.Operand(rows, sA, s2r=cute.make_tiled_copy_A(of_a.s2r, mma))
    b = cute.Operand(gB, sB, of_b.g2s, cute.make_tiled_copy_B(of_b.s2r, mma))
    cute.mainloop(mma, acc, a, b)
    cute.copy(acc.to(Y.dtype), tCgC)


def check() -> None:
    """Convolve small integers, with padding, strides and dilation."""
    rng = np.random.default_rng(0)
    conv = ConvProblem((3, 3), (1, 2), (2, 1), (1, 2))
    x = rng.integers(-4, 5, (2, 9, 8, 64)).astype(np.float16)
    f = rng.integers(-4, 5, (40, 3, 3, 64)).astype(np.float16)
    P, Q = conv.extents(9, 8)
    y = np.full((2, P, Q, 40), np.nan, np.float32)
    flat = f.reshape(40, -1)
    config = choose(flat, flat, (64, 64))
    conv2d_fprop(x, flat, y, conv, config)
    assert (y == reference(x, f, conv)).all()


if __name__ == "__main__":
    check()
