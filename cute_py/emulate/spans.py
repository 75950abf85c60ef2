"""Blocks and warps of a batch: `Span`, for which tables and values are kept, and clusters.

All state is held in arrays [block, warp of the block, lane, ...]. A span selects blocks and warps
of it by slices where they are runs, so that most accesses are views.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any  # a NumPy array
Value: TypeAlias = Any  # int or Array [block or 1, warp or 1, lane or 1]
Thread: TypeAlias = tuple[int, int, int]  # row of block in a span, row of warp, lane

LANES = 32
INDICES = ("tid", "bid_x", "bid_y", "bid_z")  # the symbols of a thread and its block


class Span:
    """Blocks x warps of a batch; interned by `Spans`, so that tables can be kept with it."""

    __slots__ = ("B", "W", "cache", "full", "key", "nB", "nW", "slices", "statics", "symbols")

    def __init__(self, B: Array, W: Array, full: bool, symbols: dict[str, Value]) -> None:
        """Keep ascending numbers of blocks and of warps, whether these are all, and the values of
        symbols for the whole batch.
        """
        self.B, self.W, self.full, self.symbols = B, W, full, symbols
        self.nB, self.nW = len(B), len(W)
        runs = _run(B), _run(W)
        self.slices = None not in runs
        self.key: tuple[Any, Any] = runs if self.slices else (B[:, None], W[None, :])
        self.statics: dict[int, Value] = {}
        self.cache: dict[Any, Any] = {}

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of a value with an entry for each thread."""
        return self.nB, self.nW, LANES

    def thread(self, at: Thread) -> tuple[int, int, int]:
        """Return the block, the warp and the lane of a thread."""
        return int(self.B[at[0]]), int(self.W[at[1]]), at[2]

    def symbol(self, name: str) -> Value:
        """Return the value of a symbol of the batch for these blocks and warps."""
        value = self.symbols[name]
        if not isinstance(value, np.ndarray):
            return value
        return value[self.B if value.shape[0] > 1 else slice(None)][
            :, self.W if value.shape[1] > 1 else slice(None)
        ]


def _run(numbers: Array) -> slice | None:
    first, last = int(numbers[0]), int(numbers[-1])
    return slice(first, last + 1) if last - first + 1 == len(numbers) else None


class Spans:
    """The spans of a batch, each once.

    `symbols` gives a symbol's values for all threads of the batch: an int, or an array with axes
    block, warp, lane of which those may be 1 that it does not depend on.
    """

    def __init__(self, blocks: int, warps: int, symbols: dict[str, Value]) -> None:
        self.blocks, self.warps, self.symbols = blocks, warps, symbols
        self.known: dict[tuple[bytes, bytes], Span] = {}

    def of(self, B: Array, W: Array) -> Span:
        """Return the span of these blocks and warps (ascending int64 arrays)."""
        key = B.tobytes(), W.tobytes()
        if key not in self.known:
            full = len(B) == self.blocks and len(W) == self.warps
            self.known[key] = Span(B, W, full, self.symbols)
        return self.known[key]

    def everything(self) -> Span:
        """Return the span of the whole batch."""
        return self.of(np.arange(self.blocks), np.arange(self.warps))


class Clusters:
    """The clusters of a batch: their number, and the rank in it, of each block."""

    def __init__(
        self, blocks: int, first: int, grid: tuple[int, int, int], shape: tuple[int, int, int]
    ) -> None:
        """Number the blocks from `first` on of a grid of so many blocks; `shape`: of a cluster."""
        gx, gy, _ = grid
        cx, cy, cz = shape
        self.size = cx * cy * cz
        n = np.arange(blocks) + first
        x, y, z = n % max(gx, 1), n // max(gx, 1) % max(gy, 1), n // max(gx * gy, 1)
        self.rank = x % cx + cx * (y % cy + cy * (z % cz))
        across = -(-gx // cx), -(-gy // cy)
        self.of = x // cx + across[0] * (y // cy + across[1] * (z // cz))

    def block(self, b: int, rank: int) -> int:
        """Return the block of a rank in the cluster of block b."""
        members = np.flatnonzero(self.of == self.of[b])
        return int(members[np.argsort(self.rank[members])][rank])
