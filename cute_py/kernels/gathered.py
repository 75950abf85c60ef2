"""Operands that are gathered: tiles whose elements are at places that two indices add up to.

The element of a gathered tile (i,k) is at the place of i plus that of k, and it is there if the
line and the column that both add up to are inside of the image. `Images` and `Filters` say which
places pixels, taps and rows have; `Gathered` is the iterator of the main loop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cute_py as cute
from cute_py import _

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cute_py.kernels.convolution import Lines
    from cute_py.tensor.tensor import Tensor

WORD = 1 << 32  # numbers of u32 wrap: below 0 is far above all extents
OUTSIDE = 3 << 30  # a line that is outside, also when one of these is added to another


class Part(NamedTuple):
    """What one index of an operand adds to the place of an element.

    Attributes:
        at: elements.
        line: along H, or 0; OUTSIDE where the index has no pixel or tap.
        column: along W, or 0.
        there: whether the index has an element; True where `line` says so.
    """

    at: Any
    line: Any = 0
    column: Any = 0
    there: Any = True


class Images:
    """X (N,H,W,C), as pixels of an output and taps of a filter find its elements.

    Args:
        X: contiguous along C.
        lines: which lines and columns are read.
        extents: P and Q, those of the output.
    """

    def __init__(self, X: Tensor, lines: tuple[Lines, Lines], extents: tuple[Any, Any]) -> None:
        self.X, self.lines, self.extents = X, lines, extents

    def pixel(self, i: Any, _width: int) -> Part:
        """Return the part of pixel i of the output, counted (n,p,q)."""
        P, Q = (n.to("u32") for n in self.extents)
        by_n, by_h, by_w, _unit = self.X.stride
        i = _u32(i)
        line = i // Q
        n = line // P
        p, q = line - n * P, i - line * Q
        of_h, of_w = self.lines
        n_, p_, q_ = (cute.as_int(x, 0) for x in (n, p, q))
        at = n_ * by_n + (p_ * of_h.stride + of_h.start) * by_h
        at += (q_ * of_w.stride + of_w.start) * by_w
        line = p * of_h.stride + of_h.start % WORD
        line = cute.where(n < self.X.shape[0].to("u32"), line, OUTSIDE)
        return Part(at, line, q * of_w.stride + of_w.start % WORD)

    def tap(self, k: Any, width: int) -> Part:
        """Return the part of tap k, counted (r,s,c): the first of a vector."""
        of_h, of_w = self.lines
        r, s, c = _tap(k, of_w.taps, self.X.shape[3], width)
        _by_n, by_h, by_w, by_c = self.X.stride
        r_, s_ = (cute.as_int(x, 0) for x in (r, s))
        at = r_ * (of_h.dilation * by_h) + s_ * (of_w.dilation * by_w) + c * by_c
        line = cute.where(r < of_h.taps, r * (of_h.dilation % WORD), OUTSIDE)
        return Part(at, line, s * (of_w.dilation % WORD))

    def has(self, a: Part, b: Part) -> Any:
        """Return whether there is an element at the place of two parts."""
        H, W = (n.to("u32") for n in self.X.shape[1:3])
        return (a.line + b.line < H) & (a.column + b.column < W)


class Filters:
    """F (rows,R,S,C) of any strides, as rows and taps find its elements."""

    def __init__(self, F: Tensor) -> None:
        self.X = F

    def row(self, i: Any, _width: int) -> Part:
        """Return the part of a row."""
        return Part(i * self.X.stride[0], there=i < self.X.shape[0])

    def tap(self, k: Any, width: int) -> Part:
        """Return the part of tap k, counted (r,s,c)."""
        _rows, R, S, C = self.X.shape
        _by_row, by_r, by_s, by_c = self.X.stride
        r, s, c = _tap(k, S, C, width if isinstance(by_c, int) else 1)
        r_, s_ = (cute.as_int(x, 0) for x in (r, s))
        return Part(r_ * by_r + s_ * by_s + c * by_c, there=r < R.to("u32"))

    @staticmethod
    def has(a: Part, b: Part) -> Any:
        """Return whether there is an element at the place of two parts."""
        return a.there & b.there


def _tap(k: Any, S: Any, C: Any, width: int) -> tuple[Any, Any, Any]:
    """Return (r,s,c) of k: two registers and an integer, a multiple of `width`."""
    k, C = _u32(k), _u32(C)
    S = max(S, 1) if isinstance(S, int) else S.to("u32")
    position = k // C
    r = position // S
    return r, position - r * S, cute.as_int(k - position * C, 0, multiple_of=width)


def _u32(i: Any) -> Any:
    """Return an integer in a register."""
    if not isinstance(i, int):
        return i.to("u32")
    held = cute.rmem("u32", 1)
    held.fill(i)
    return held


class Gathered:
    """The tiles (BLK,BLK_K) of a gathered operand.

    Args:
        x: the array.
        of_rows: from a row and the width of vectors to its part.
        of_k: the same along K.
        g2s: how a tile is copied.
        shared: its stages (BLK,BLK_K,stages).
        block: which tile of rows.
        K: columns of all tiles.
    """

    def __init__(
        self,
        x: Images | Filters,
        of_rows: Callable[[Any, int], Part],
        of_k: Callable[[Any, int], Part],
        g2s: Any,
        shared: Tensor,
        block: Any,
        K: Any,
    ) -> None:
        self.x, self.of_k, self.g2s = x, of_k, g2s
        self.completion = g2s.atom.op.completion
        rows, self.depth = cute.size(shared, 0), cute.size(shared, 1)
        self.count = cute.ceil_div(K, self.depth)
        part = g2s.get_slice(cute.thread_idx())
        self.stored = part.partition_D(shared)  # (CPY,CPY_M,CPY_K,stages)
        own = part.partition_S(cute.make_identity_tensor((rows, self.depth)))  # (CPY,CPY_M,CPY_K)
        self.width = cute.size(own, 0)
        self.rows = [
            of_rows(block * rows + own[0, i, 0][0], self.width) for i in range(cute.size(own, 1))
        ]
        self.columns = [own[0, 0, j][1] for j in range(cute.size(own, 2))]

    def begin(self, tile: Any) -> None:
        """Move to a tile."""
        first = tile * self.depth
        self.parts = [self.of_k(first + column, self.width) for column in self.columns]

    def fill(self, stage: Any) -> Iterator[None]:
        """Copy the vectors of the thread; those outside are zeros."""
        waits = self.completion == "immediate"
        into, copy = self.stored[_, _, _, stage], [self.g2s]
        if waits:
            into, copy = cute.make_rmem_tensor(into.shape, into.dtype), []
        for i, row in enumerate(self.rows):
            for j, part in enumerate(self.parts):
                place = self.x.X.data.moved(row.at + part.at)
                vector = cute.make_tensor(place, cute.Layout(self.width))
                cute.copy(*copy, vector, into[_, i, j], pred=(self.x.has(row, part),))
            if not waits:
                yield
        if waits:
            yield
            cute.copy(self.g2s, into, self.stored[_, _, _, stage])
