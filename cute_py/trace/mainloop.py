"""`cute.mainloop`: the loop of a GEMM over the tiles along K, as a software pipeline.

Source: cutlass include/cutlass/gemm/threadblock/mma_multistage.h and mma_pipelined.h (the order of
copies, waits and products).
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.layout.algebra.divide import logical_divide
from cute_py.layout.queries import rank, size
from cute_py.layout.tuples import _
from cute_py.tensor.tensor import Tensor, make_rmem_tensor
from cute_py.trace.control import range_
from cute_py.trace.copying import copy, copy_or_zero
from cute_py.trace.matrix import gemm
from cute_py.trace.runtime_integers import compare
from cute_py.trace.threads import cp_async_fence, cp_async_wait, syncthreads, thread_idx_linear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from cute_py.layout.types import Leaf
    from cute_py.tiled.tiled_copy import TiledCopy
    from cute_py.tiled.tiled_mma import TiledMMA


class Operand:
    """One operand of `mainloop`: the copies of its tiles to shared memory and to registers.

    Args:
        source: its tiles in global memory (BLK_MN, BLK_K, k).
        shared: its stages in shared memory (BLK_MN, BLK_K, stages).
        g2s: the tiled copy from global to shared memory.
        s2r: the tiled copy from shared memory to the fragments (`make_tiled_copy_A`, `_B`), or None
            for plain loads.

    """

    def __init__(
        self, source: Tensor, shared: Tensor, g2s: TiledCopy, s2r: TiledCopy | None = None
    ) -> None:
        self.source, self.shared, self.g2s, self.s2r = source, shared, g2s, s2r


def mainloop(mma: TiledMMA, acc: Tensor, a: Operand, b: Operand) -> None:
    """Add the products of all tiles of a and b to acc, in a software pipeline.

    Args:
        mma: the tiled MMA.
        acc: the thread's accumulators (V,M,N), initialized.
        a: operand A, tiles of (BLK_M, BLK_K).
        b: operand B, tiles of (BLK_N, BLK_K).

    If g2s of an operand is cp.async, stages - 1 tiles are in flight while one is read
    (MmaMultistage). Otherwise the next tile is held in registers, and shared memory has two stages
    (MmaPipelined). Fragments of the next k-block are loaded before the product of the current one.
    Tiles at the edges are predicated as in `cute.copy`, and tiles beyond the last are not read.
    Raises LayoutError if the stages or tiles of a and b differ.
    """
    loop = _MainLoop(mma, acc, a, b)
    asynchronous = "cp_async" in (x.g2s.atom.op.completion for x in (a, b))
    (loop.multistage if asynchronous else loop.pipelined)()


class _Partition:
    """One thread's partition of an operand."""

    def __init__(self, operand: Operand, name: str, mma: TiledMMA, tid: Leaf) -> None:
        self.g2s = operand.g2s
        loader = operand.g2s.get_slice(tid)
        self.source = loader.partition_S(operand.source)  # (CPY,CPY_MN,CPY_K,k)
        self.stored = loader.partition_D(operand.shared)  # (CPY,CPY_MN,CPY_K,stages)
        thread = mma.get_slice(tid)
        first = operand.shared[_, _, 0]
        fragment_of = getattr(thread, f"partition_fragment_{name}")
        self.fragment = fragment_of(first)  # (MMA,MMA_MN,MMA_K)
        self.s2r = operand.s2r
        if operand.s2r is None:
            self.read = getattr(thread, f"partition_{name}")(operand.shared)
            self.into = self.fragment
        else:
            reader = operand.s2r.get_slice(tid)
            self.read = reader.partition_S(operand.shared)  # (CPY,CPY_MN,CPY_K,stages)
            self.into = reader.retile_D(self.fragment)  # (CPY,CPY_MN,CPY_K)

    @property
    def vectors(self) -> int:
        """The number of vectors of a tile that the thread copies."""
        return int(size(self.source.layout, 1)) * int(size(self.source.layout, 2))

    def pieces(self, most: int) -> list[_Piece]:
        """Return the copies of a tile in pieces of at most `most` vectors, or of one row."""
        rows = int(size(self.source.layout, 1))
        wanted = max(1, most * rows // self.vectors)
        each = max(n for n in range(1, wanted + 1) if rows % n == 0)
        cut = [logical_divide(x, (_, each)) for x in (self.source, self.stored)]
        return [_Piece(self.g2s, *[x[_, (_, i), _, _] for x in cut]) for i in range(rows // each)]

    def load(self, block: int, stage: Leaf) -> None:
        """Copy one k-block of a stage to the fragments."""
        source, into = self.read[_, _, block, stage], self.into[_, _, block]
        if self.s2r is None:
            copy(source, into)
        else:
            copy(self.s2r, source, into)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some of the vectors of an operand's tile that one thread copies (CPY,CPY_MN,CPY_K,...)."""

    g2s: TiledCopy
    source: Tensor
    stored: Tensor


def _groups(parts: Iterable[_Partition], most: int) -> list[list[_Piece]]:
    """Return the copies of a tile in at most `most` groups of about equal size."""
    parts = tuple(parts)
    vectors = sum(part.vectors for part in parts)
    pieces = [piece for part in parts for piece in part.pieces(-(-vectors // most))]
    each = -(-len(pieces) // most)
    return [pieces[i : i + each] for i in range(0, len(pieces), each)]


PAIR = 2  # rows of instructions: one forward along N, one backward


def _rows_of(x: Tensor) -> list[Tensor]:
    """Return accumulators (V,M,N) or a fragment (V,M) in pairs of M, or as a whole if M is odd."""
    pairs, odd = divmod(int(size(x.layout, 1)), PAIR)
    if odd:
        return [x]
    cut = logical_divide(x, (_, PAIR))
    return [cut[(_, (_, i), *[_] * (rank(x.layout) - 2))] for i in range(pairs)]


class _MainLoop:
    def __init__(self, mma: TiledMMA, acc: Tensor, a: Operand, b: Operand) -> None:
        tid = thread_idx_linear()
        self.mma, self.acc = mma, acc
        self.parts = (_Partition(a, "A", mma, tid), _Partition(b, "B", mma, tid))
        self.tiles = size(a.source.layout, 2)
        self.stages = _stages(a, b)
        self.blocks = int(size(self.parts[0].fragment.layout, 2))
        # copies are interleaved with the products of all k-blocks except the last; without tensor
        # cores, threads have no registers to spare for this
        self.rows = _rows_of(acc) if mma.atom.ptx else [acc]
        steps = max(1, self.blocks - 1) * len(self.rows) if mma.atom.ptx else 1
        self.groups = _groups(self.parts, steps)

    # -- steps

    def issue(self, tile: Leaf, stage: Leaf) -> None:
        """Issue the copies of a tile to a stage, if the tile exists."""
        for group in self.groups:
            self.issue_group(group, tile, stage)
        cp_async_fence()

    def issue_group(self, group: list[_Piece], tile: Leaf, stage: Leaf) -> None:
        """Issue the copies of some pieces of a tile."""
        there = compare("lt", tile, self.tiles)
        for piece in group:
            source, stored = piece.source[_, _, _, tile], piece.stored[_, _, _, stage]
            if "ZFILL" in piece.g2s.atom.op.name:
                copy_or_zero(piece.g2s, source, stored, there)
            else:
                copy(piece.g2s, source, stored, pred=there)

    def load(self, block: int, stage: Leaf) -> None:
        """Copy one k-block of a stage to the fragments."""
        for part in self.parts:
            part.load(block, stage)

    def multiply(self, block: int, during: Any = None) -> None:  # a function
        """Add the product of one k-block, some rows at a time; `during` is called before each."""
        a, b = (part.fragment[_, _, block] for part in self.parts)
        cut = _rows_of(a) if len(self.rows) > 1 else [a]
        for i, (acc, mine) in enumerate(zip(self.rows, cut, strict=True)):
            if during is not None:
                during(block * len(self.rows) + i)
            gemm(self.mma, acc, mine, b)

    # -- the two pipelines

    def multistage(self) -> None:
        """cp.async: stages - 1 tiles in flight."""
        ahead = self.stages - 1
        for tile in range(ahead):
            self.issue(tile, tile)
        self._arrive(0)
        for k in range_(self.tiles - 1):
            self._tile(
                k % self.stages,
                during=lambda step, k=k: self._copy_ahead(step, k + ahead),
                last=lambda k=k: self._arrive((k + 1) % self.stages),
            )
        cp_async_wait(0)  # zero fills of tiles beyond the last may still be in flight
        self._tile((self.tiles - 1) % self.stages)

    def _copy_ahead(self, step: int, tile: Leaf) -> None:
        """Issue the copies of a later tile that are interleaved with a product; commit after the
        last one.
        """
        if step < len(self.groups):
            self.issue_group(self.groups[step], tile, tile % self.stages)
        if step == len(self.groups) - 1:
            cp_async_fence()

    def _arrive(self, stage: Leaf) -> None:
        """Wait for a stage, and load its first k-block."""
        cp_async_wait(self.stages - 2)
        syncthreads()
        if self.blocks > 1:
            self.load(0, stage)

    def _tile(self, stage: Leaf, during: Any = None, last: Any = None) -> None:
        """Multiply all k-blocks of a stage, each while the next one is loaded.

        Args:
            stage: the stage to read.
            during: called before each product of some rows, with its number.
            last: called before the last k-block; it waits for the next stage, and loads its first
                k-block.

        """
        if self.blocks == 1:
            self.load(0, stage)
            self.multiply(0, during)
            if last is not None:
                last()
            return
        for block in range(self.blocks):
            if block + 1 < self.blocks:
                self.load(block + 1, stage)
            elif last is not None:
                last()
            self.multiply(block, during)

    def pipelined(self) -> None:
        """Through registers: the next tile is loaded during the product of this one."""
        held = [
            make_rmem_tensor(part.source[_, _, _, 0].shape, part.source.dtype, "tile")
            for part in self.parts
        ]

        def fetch(tile: Leaf) -> None:
            for part, regs in zip(self.parts, held, strict=True):
                copy(part.g2s, part.source[_, _, _, tile], regs)

        def store(stage: Leaf) -> None:
            for part, regs in zip(self.parts, held, strict=True):
                copy(part.g2s, regs, part.stored[_, _, _, stage])
            syncthreads()
            if self.blocks > 1:
                self.load(0, stage)

        fetch(0)
        store(0)
        for k in range_(self.tiles - 1):
            self._tile(
                k % self.stages,
                during=lambda step, k=k: fetch(k + 1) if step == 0 else None,
                last=lambda k=k: store((k + 1) % self.stages),
            )
        self._tile((self.tiles - 1) % self.stages)


def _stages(a: Operand, b: Operand) -> int:
    counts = [size(x.shared.layout, 2) for x in (a, b)]
    if counts[0] != counts[1] or ints.less(counts[0], 2):
        raise refusal_here("pipeline-stages", operation="cute.mainloop", stages=counts)
    return int(counts[0])
