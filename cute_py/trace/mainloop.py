"""`cute.mainloop`: the loop of a GEMM over the tiles along K, as a software pipeline.

Source: cutlass include/cutlass/gemm/threadblock/mma_multistage.h and mma_pipelined.h (the order of
copies, waits and products).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from math import gcd

from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.divide import logical_divide
from cute_py.layout.layout import Layout
from cute_py.layout.queries import rank, size
from cute_py.layout.tuples import _
from cute_py.tensor.tensor import Tensor, make_rmem_tensor, make_tensor
from cute_py.trace.control import branch, range_
from cute_py.trace.copying import copy
from cute_py.trace.hopper import (
    warpgroup_commit,
    warpgroup_fence,
    warpgroup_gemm,
    warpgroup_wait,
)
from cute_py.trace.matrix import gemm
from cute_py.trace.operands import Operand, Tiles, completion, filled
from cute_py.trace.runtime_integers import Condition, compare
from cute_py.trace.state import at_least, number_within, require_choice
from cute_py.trace.threads import (
    cp_async_fence,
    cp_async_wait,
    named_barrier,
    syncthreads,
    syncwarp,
    thread_idx_linear,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from cute_py.layout.types import Leaf
    from cute_py.tiled.tiled_mma import TiledMMA
    from cute_py.trace.pipeline import TmaPipeline

    Transform = Callable[[Tensor, Tensor, "At"], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class At:
    """Where a product of `mainloop` is: the K tile, its stage, and the k-block in the tile."""

    tile: Leaf
    stage: Leaf
    block: int


def mainloop(
    mma: TiledMMA,
    acc: Tensor,
    a: Operand,
    b: Operand,
    first: Leaf = 0,
    count: Leaf | None = None,
    *,
    barrier: tuple[Leaf, int] | None = None,
    thread: Leaf | None = None,
    transform: Transform | None = None,
    ring: TmaPipeline | None = None,
    fill: bool = True,
    clear: str = "zfill",
) -> None:
    """Add the products of tiles of a and b to acc, in a software pipeline.

    Args:
        mma: the tiled MMA.
        acc: the thread's accumulators (V,M,N), initialized.
        a: operand A, tiles of (BLK_M, BLK_K).
        b: operand B, tiles of (BLK_N, BLK_K).
        first: the first tile of K.
        count: how many tiles, a run-time integer, 0 too; None: up to the last one of a.
        barrier: (id, threads) of a named barrier in place of `syncthreads`, for a loop that some
            warps of a block run.
        thread: index of the thread among those of `mma`; None: `thread_idx`.
        transform: called as transform(a, b, at) before each product, with the fragments (V,M) and
            (V,N) of a k-block as they were loaded; returns those that are multiplied. `at` has
            .tile, .stage, which may be read, and .block.
        ring: the `cute.pipeline` of operands that complete on mbarriers.
        fill: False where another role fills the ring (`TmaPipeline.fill`), as for warpgroups.
        clear: what cp.async clears outside of the arrays: "zfill", all, as its atom says; "none",
            the first tiles and the last one; "last_stage", all, and at the end the last stage.
            Copies by TMA clear all: there is no other choice for warpgroups.

    If an operand arrives by cp.async, stages - 1 tiles are in flight while one is read
    (MmaMultistage). Otherwise the next tile is held in registers, and shared memory has two stages
    (MmaPipelined). Fragments of the next k-block are loaded before the product of the current one.
    Tiles at the edges are predicated as in `cute.copy`, and tiles beyond the last are not read.

    Products of warpgroups read the stages: one is in flight, and the stage before it is released.
    Where mma has several atoms along K, atom s multiplies the k-blocks s, s + atoms, ... of each
    tile in rising order, and the sums of the atoms are added in rising order of s, through the
    shared memory of an operand. All threads then have the same sums; atom 0 adds to the initial
    values. A barrier must follow before shared memory of the operands is used again. Raises
    LayoutError if the stages or tiles of a and b differ.

    Source: cutlass mma_multistage.h, mma_pipelined.h; epilogue_base.h (sums of warps along K).
    """
    span = _span_of((a, b), first, count, barrier, thread, transform, fill, clear)
    if mma.atom.b_memory == "smem":
        _of_warpgroups(mma, acc, (a, b), span, ring)
        return
    loop = _MainLoop(mma, acc, (a, b), span)
    some = compare("lt", 0, loop.count)
    if some is False:
        return
    with branch(some) if isinstance(some, Condition) else nullcontext():
        loop.run(ring)


def _span_of(
    operands: Sequence[Operand],
    first: Leaf,
    count: Leaf | None,
    barrier: tuple[Leaf, int] | None,
    thread: Leaf | None,
    transform: Transform | None,
    fill: bool,
    clear: str,
) -> _Span:
    """Return what `mainloop` is given next to its operands; refuse anything else."""
    for x in operands:
        if not isinstance(x, Operand):
            raise refusal_here("mainloop-kind", operation="cute.mainloop", kind=type(x).__name__)
    first = at_least(first, 0, "cute.mainloop")
    count = count if count is None else at_least(count, 0, "cute.mainloop")
    thread = thread_idx_linear() if thread is None else thread
    require_choice(fill, (True, False), "cute.mainloop")
    require_choice(clear, ("zfill", "none", "last_stage"), "cute.mainloop")
    barrier = barrier if barrier is None else _pair(barrier, "(id, threads) of a named barrier")
    return _Span(first, count, barrier, thread, transform, fill, clear)


def _pair(x: Any, choices: str) -> Any:
    """Return a pair; refuse anything else."""
    if x.__class__ is not tuple or len(x) != 2:
        raise refusal_here("kernel-choice", operation="cute.mainloop", value=x, choices=choices)
    return x


@dataclass(frozen=True, slots=True)
class _Span:
    """The options of `mainloop`."""

    first: Leaf
    count: Leaf | None
    barrier: tuple[Leaf, int] | None
    thread: Leaf
    transform: Transform | None
    fill: bool
    clear: str  # CUTLASS's SharedMemoryClearOption: kZfill, kNone or kClearLastStage

    def tiles(self, iterators: Sequence[Any]) -> Leaf:
        """Return the number of tiles."""
        if self.count is not None:
            return self.count
        counts = [getattr(x, "count", None) for x in iterators]
        known = next((n for n in counts if n is not None), None)
        if known is None:
            raise refusal_here("mainloop-count", operation="cute.mainloop")
        return ints.sub(known, self.first)


def _checked(ring: TmaPipeline | None, iterators: Sequence[Any], stages: int) -> TmaPipeline:
    """Return the pipeline; refuse one that does not fit the operands."""
    kinds = [completion(x) for x in iterators]
    bytes = sum(number_within(getattr(x, "bytes", 0), "cute.mainloop", 0) for x in iterators)
    given = getattr(ring, "stages", 0), getattr(ring, "bytes", 0)  # none of a ring of cp.async
    if ring is None or set(kinds) != {"mbarrier"} or given != (stages, bytes):
        facts = {"kinds": " and ".join(kinds), "stages": stages, "bytes": bytes}
        raise refusal_here("mainloop-ring", operation="cute.mainloop", **facts)
    return ring


def _of_warpgroups(
    mma: TiledMMA,
    acc: Tensor,
    operands: tuple[Operand, Operand],
    span: _Span,
    ring: TmaPipeline | None,
) -> None:
    """Add products that read both operands from the stages of a ring that another role fills."""
    plain = span.transform is None and span.clear == "zfill"
    if span.fill or not plain or mma.atom.a_memory != "smem":
        raise refusal_here("mainloop-warpgroups", operation="cute.mainloop", atom=mma.atom)
    iterators = [x.iterator(span.thread) for x in operands]
    ring, thread = _checked(ring, iterators, _stages(*operands)), mma.get_slice(span.thread)
    a, b = thread.partition_A(operands[0].shared), thread.partition_B(operands[1].shared)
    for _tile in range_(span.tiles(iterators)):
        stage = ring.wait()
        warpgroup_fence()
        warpgroup_gemm(mma, acc, a[_, _, _, stage], b[_, _, _, stage])  # (MMA,MMA_M or _N,MMA_K)
        warpgroup_commit()
        warpgroup_wait(1)
        ring.release(behind=1)
    warpgroup_wait(0)
    ring.release_rest()


class _Fragment:
    """One thread's fragment of an operand, and how it is loaded from a stage."""

    def __init__(self, operand: Operand, name: str, mma: TiledMMA, tid: Leaf) -> None:
        thread = mma.get_slice(tid)
        fragment_of = getattr(thread, f"partition_fragment_{name}")
        self.fragment = fragment_of(operand.shared[_, _, 0])  # (MMA,MMA_MN,MMA_K)
        if self.fragment.dtype is not operand.shared.dtype:  # a transform converts
            self.fragment = make_rmem_tensor(self.fragment.layout, operand.shared.dtype)
        self.s2r = operand.s2r
        if operand.s2r is None:
            self.read = getattr(thread, f"partition_{name}")(operand.shared)
            self.into = self.fragment
        else:
            reader = operand.s2r.get_slice(tid)
            self.read = reader.partition_S(operand.shared)  # (CPY,CPY_MN,CPY_K,stages)
            self.into = reader.retile_D(self.fragment)  # (CPY,CPY_MN,CPY_K)

    def load(self, block: int, stage: Leaf) -> None:
        """Copy one k-block of a stage to the fragments."""
        source, into = self.read[_, _, block, stage], self.into[_, _, block]
        if self.s2r is None:
            copy(source, into)
        else:
            copy(self.s2r, source, into)


PAIR = 2  # rows of instructions: one forward along N, one backward


def _rows_of(x: Tensor) -> list[Tensor]:
    """Return accumulators (V,M,N) or a fragment (V,M) in pairs of M, or as a whole if M is odd."""
    pairs, odd = divmod(int(size(x.layout, 1)), PAIR)
    if odd:
        return [x]
    cut = logical_divide(x, (_, PAIR))
    return [cut[(_, (_, i), *[_] * (rank(x.layout) - 2))] for i in range(pairs)]


class _Filling:
    """The copies of one tile to a stage, issued a piece at a time."""

    def __init__(self, asynchronous: list[Iterator[None]], immediate: list[Iterator[None]]) -> None:
        self.asynchronous, self.immediate = chain(*asynchronous), immediate
        self.commits = bool(asynchronous)

    def start(self) -> None:
        """Load what is stored later."""
        for pieces in self.immediate:
            next(pieces)

    def some(self, most: int) -> None:
        """Issue asynchronous copies: at most so many pieces."""
        for _piece in islice(self.asynchronous, most):
            pass

    def commit(self) -> int:
        """Issue the rest of the asynchronous copies, and commit all, once; return how many."""
        rest = sum(1 for _piece in self.asynchronous)
        if self.commits:
            cp_async_fence()
            self.commits = False
        return rest

    def finish(self) -> int:
        """Issue all that is left; return the number of asynchronous pieces."""
        rest = self.commit()
        for pieces in self.immediate:
            for _piece in pieces:
                pass
        return rest


class _MainLoop:
    def __init__(
        self, mma: TiledMMA, acc: Tensor, operands: tuple[Operand, Operand], span: _Span
    ) -> None:
        self.mma, self.acc, self.span, self.operands = mma, acc, span, operands
        self.stages = _stages(*operands)
        self.iterators = [x.iterator(span.thread) for x in operands]
        self.parts = [
            _Fragment(x, name, mma, span.thread) for x, name in zip(operands, "AB", strict=True)
        ]
        self.count = span.tiles(self.iterators)
        self.blocks = int(size(self.parts[0].fragment.layout, 2))
        # copies are interleaved with the products of all k-blocks except the last; without tensor
        # cores, threads have no registers to spare for this
        self.rows = _rows_of(acc) if mma.atom.ptx else [acc]
        self.steps = max(1, self.blocks - 1) * len(self.rows) if mma.atom.ptx else 1
        tiles = [x for x in self.iterators if hasattr(x, "split")]
        vectors = sum(x.vectors for x in tiles)
        for x in tiles:
            x.split(-(-vectors // self.steps))
            if span.clear == "none":
                x.leave(ints.add(span.first, self.stages))
        self.kinds = [completion(x) for x in self.iterators]
        self.ahead = self.stages - 1 if "cp_async" in self.kinds else 1
        self.each = 0  # asynchronous pieces that are issued before a product
        self.groups = 0  # of these, in a tile

    def run(self, ring: TmaPipeline | None) -> None:
        """Add the products of all tiles, at least one."""
        share = self.mma.get_slice(self.span.thread).thr_vmnk[3]  # of the k-blocks
        others = compare("lt", 0, share)
        if others is not False:
            with branch(others):
                self.acc.fill(0)
        for x in self.iterators:
            if hasattr(x, "step"):
                x.begin(self.span.first)
        if "mbarrier" not in self.kinds and ring is None and self.span.fill:
            self.in_stages()
        else:
            self.in_ring(_checked(ring, self.iterators, self.stages))
        if self.span.clear == "last_stage":
            self.synchronize()
            for x in self.iterators:
                if isinstance(x, Tiles):
                    x.stored[_, _, _, self.stages - 1].fill(0)
        if others is not False:
            self.add_shares(share)

    def synchronize(self) -> None:
        """Wait for all threads of the loop."""
        if self.span.barrier is None:
            syncthreads()
        else:
            named_barrier(*self.span.barrier)

    # -- steps

    def filling(self, tile: Leaf, ahead: int) -> _Filling:
        """Return the copies of a tile, counted from the first, to its stage."""
        stage, number = tile % self.stages, ints.add(self.span.first, tile)
        sure = ahead < 2 or (tile.__class__ is int and tile < 1)
        there = True if sure else compare("lt", tile, self.count)
        found: dict[str, list[Iterator[None]]] = {"cp_async": [], "immediate": []}
        for x, kind in zip(self.iterators, self.kinds, strict=True):
            bounded = self.span.count is None and getattr(x, "bounded", False)
            found[kind].append(filled(x, number, stage, True if bounded else there))
        return _Filling(found["cp_async"], found["immediate"])

    def load(self, block: int, stage: Leaf) -> None:
        """Copy one k-block of a stage to the fragments."""
        for part in self.parts:
            part.load(block, stage)

    def fragments(self, block: int, tile: Leaf, stage: Leaf) -> tuple[Tensor, Tensor]:
        """Return what is multiplied for a k-block (V,M), (V,N), transformed."""
        a, b = (part.fragment[_, _, block] for part in self.parts)
        if self.span.transform is None:
            return a, b
        pair = self.span.transform(a, b, At(ints.add(self.span.first, tile), stage, block))
        a, b = _pair(pair, "fragments (a, b), returned by the transform")
        return a, b

    def multiply(self, block: int, a: Tensor, b: Tensor, during: Any = None) -> None:
        """Add the product of one k-block, some rows at a time; `during` is called before each."""
        cut = _rows_of(a) if len(self.rows) > 1 else [a]
        for i, (acc, mine) in enumerate(zip(self.rows, cut, strict=True)):
            if during is not None:
                during(block * len(self.rows) + i)
            gemm(self.mma, acc, mine, b)

    def arrive(self, stage: Leaf) -> None:
        """Wait for a stage, and load its first k-block."""
        if "cp_async" in self.kinds:
            cp_async_wait(self.stages - 2)
        self.synchronize()
        if self.blocks > 1:
            self.load(0, stage)

    def tile(self, tile: Leaf, stage: Leaf, during: Any = None, last: Any = None) -> None:
        """Multiply all k-blocks of a stage, each while the next one is loaded.

        Args:
            tile: its number, counted from the first.
            stage: the stage to read.
            during: called before each product of some rows, with its number.
            last: called before the last k-block; it waits for the next stage, and loads its first
                k-block.

        """
        if self.blocks == 1:
            self.load(0, stage)
            self.multiply(0, *self.fragments(0, tile, stage), during)
            if last is not None:
                last()
            return
        for block in range(self.blocks):
            if block + 1 < self.blocks:
                self.load(block + 1, stage)
            a, b = self.fragments(block, tile, stage)  # before the stage is filled again
            if block + 1 == self.blocks and last is not None:
                last()
            self.multiply(block, a, b, during)

    # -- the pipelines

    def in_stages(self) -> None:
        """cp.async: stages - 1 tiles in flight; through registers: the next one."""
        pieces = 0
        for tile in range(self.ahead):
            filling = self.filling(tile, self.ahead)
            filling.start()
            pieces = filling.finish() or pieces
        self.each = -(-pieces // self.steps)
        self.groups = -(-pieces // max(self.each, 1))
        self.arrive(0)
        for k in range_(self.count - 1):
            self.iteration(k)
        if "cp_async" in self.kinds:
            cp_async_wait(0)  # zero fills of tiles beyond the last may still be in flight
        last = self.count - 1
        self.tile(last, last % self.stages)

    def iteration(self, k: Leaf) -> None:
        """Multiply a tile while a later one is copied."""
        filling = self.filling(k + self.ahead, self.ahead)

        def during(step: int) -> None:
            if step == 0:
                filling.start()
            if step < self.groups:
                filling.some(self.each)
            if step == self.groups - 1:
                filling.commit()

        def last() -> None:
            filling.finish()
            self.arrive((k + 1) % self.stages)

        self.tile(k, k % self.stages, during, last)

    def in_ring(self, ring: TmaPipeline) -> None:
        """Mbarriers: one thread issues the copies, stages - 1 tiles ahead; or another role."""
        for tile in range(self.stages - 1):
            self.produce(ring, tile)
        for k in range_(self.count):
            stage = ring.wait()
            self.load(0, stage)
            self.produce(ring, k + self.stages - 1)
            for block in range(self.blocks):
                if block + 1 < self.blocks:
                    self.load(block + 1, stage)
                self.multiply(block, *self.fragments(block, k, stage))
            if ring.consumers == "warp":
                syncwarp()  # all lanes have read the stage
            elif ring.consumers == "warpgroup":
                self.synchronize()
            ring.release()

    def produce(self, ring: TmaPipeline, tile: Leaf) -> None:
        """Issue the copies of a tile, if it exists."""
        mine = compare("lt", self.span.thread, 1) & compare("lt", tile, self.count)
        if not self.span.fill or mine is False:
            return
        with branch(mine) if isinstance(mine, Condition) else nullcontext():
            ring.fill(ints.add(self.span.first, tile), *self.iterators)

    # -- sums of atoms along K

    def add_shares(self, share: Leaf) -> None:
        """Add the sums of all atoms along K, in the order of the atoms, for all threads."""
        shares = int(size(self.mma.thr_layout_vmnk, 3))
        values, bits = int(size(self.acc.layout)), self.acc.dtype.bits
        flat = composition(self.acc, Layout(values))
        threads = self.mma.size()
        held = max((x.shared for x in self.operands), key=_bits_of)
        most = _bits_of(held) // (threads * bits)
        if not most:
            raise refusal_here("mainloop-sums", operation="cute.mainloop", threads=threads)
        each = max(n for n in range(1, most + 1) if values % n == 0)
        wide = gcd(each, 128 // bits)
        layout = Layout(
            ((wide, each // wide), threads // shares, shares),
            ((1, wide * threads), wide, wide * threads // shares),
        )
        sums = make_tensor(held.engine.recast(self.acc.dtype, 0), layout)
        v, m, n, _k = self.mma.get_slice(self.span.thread).thr_vmnk
        by_v, by_m, _n, _k = (int(size(self.mma.thr_layout_vmnk, i)) for i in range(4))
        place = ints.add(v, ints.mul(by_v, ints.add(m, ints.mul(by_m, n))))
        more = make_rmem_tensor(layout.shape[0], self.acc.dtype)
        for first in range(0, values, each):
            part = make_tensor(flat.engine.moved(first), layout.shape[0])
            self.synchronize()
            copy(part, sums[_, place, share])
            self.synchronize()
            copy(sums[_, place, 0], part)
            for other in range(1, shares):
                copy(sums[_, place, other], more)
                part += more


def _bits_of(shared: Tensor) -> int:
    engine = shared.engine
    return int(engine.size) * int(engine.dtype.bits)


def _stages(a: Operand, b: Operand) -> int:
    counts = [size(x.shared.layout, 2) for x in (a, b)]
    if counts[0] != counts[1] or ints.less(counts[0], 2):
        raise refusal_here("pipeline-stages", operation="cute.mainloop", stages=counts, least="2")
    return int(counts[0])
