"""`pipeline`: a circular buffer of stages in shared memory that asynchronous copies fill.

The object holds its positions in run-time variables, so that it advances through `cute.range`.
Source: cutlass include/cutlass/pipeline/sm90_pipeline.hpp (PipelineState).
"""

from __future__ import annotations

from contextlib import nullcontext
from math import prod

from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.layout.queries import rank, size
from cute_py.plan.ops import MOST_COUNT, MOST_PENDING
from cute_py.tensor.tensor import Tensor
from cute_py.trace.control import Var, branch
from cute_py.trace.engines import SharedMemory
from cute_py.trace.hopper import (
    Mbarriers,
    cluster_sync,
    fence_mbarrier_init,
    fence_proxy_async,
    tma_load,
    tma_store,
    tma_store_commit,
    tma_store_wait,
)
from cute_py.trace.operands import filled, iterator_of
from cute_py.trace.roles import elect_one
from cute_py.trace.runtime_integers import Condition, compare
from cute_py.trace.state import at_least, current, number_within, require_choice
from cute_py.trace.threads import (
    cp_async_fence,
    cp_async_wait,
    launched,
    named_barrier,
    syncthreads,
    thread_idx_linear,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Self, overload

    from cute_py.layout.types import Leaf


class _Position:
    """A position in a circular buffer: the stage, and the parity of its phase.

    The parity changes when the stage wraps around. Without a parity, only the stage is kept.
    """

    def __init__(self, stages: int, stage: Leaf = 0, parity: Leaf | None = None) -> None:
        self.stages = stages
        self._stage = Var(stage, 0, stages - 1)
        self._parity = None if parity is None else Var(parity, 0, 1)

    @property
    def stage(self) -> Leaf:
        return self._stage.get()

    @property
    def parity(self) -> Leaf:
        return self._parity.get()  # type: ignore[union-attr]

    def advance(self, n: Leaf = 1) -> None:
        index = self._stage.get() + n
        if self._parity is not None:
            self._parity.set((self._parity.get() + index // self.stages) % 2)
        self._stage.set(index % self.stages)

    def copy(self) -> _Position:
        parity = None if self._parity is None else self._parity.get()
        return _Position(self.stages, self._stage.get(), parity)


class Pipeline:
    """A circular buffer that cp.async fills: acquire, copy, commit; wait, read, release.

    Commit `stages - 1` tiles before the first wait. Then, in each iteration, wait for one tile and
    commit one (an empty group at the end). So each wait completes the oldest tile, and all threads
    have released a stage that is acquired after a wait.
    """

    def __init__(self, stages: int) -> None:
        self.stages = stages = _stages_of(stages, 2)
        self._write, self._read = _Position(stages), _Position(stages)

    def acquire(self) -> Leaf:
        """Return the index of the stage to fill."""
        return self._write.stage

    def commit(self) -> None:
        """Commit the copies to the acquired stage; the next acquire returns the next stage."""
        cp_async_fence()
        self._write.advance()

    def wait(self) -> Leaf:
        """Wait for the oldest stage, for all threads, and return its index."""
        cp_async_wait(self.stages - 2)
        syncthreads()
        return self._read.stage

    def release(self, behind: int = 0) -> None:
        """Release the stage after its last read; the next wait returns the next stage."""
        require_choice(behind, (0, 1), "cute.pipeline")
        if behind:
            self.release_rest()
        self._read.advance()

    def release_rest(self) -> None:
        """Refuse: a ring that cp.async fills has no mbarriers."""
        raise refusal_here("pipeline-tma", operation="cute.pipeline")

    def load(self, *_tiles: Any, **_options: Any) -> None:
        """Refuse: TMA completes on mbarriers."""
        self.release_rest()

    fill = tail = load

    def advance(self, n: Leaf) -> None:
        """Move the writing position on by n stages, 0 or more: the next acquire is that many tiles
        later.
        """
        self._write.advance(at_least(n, 0, "cute.pipeline"))

    def skip(self, n: Leaf) -> None:
        """Move the reading position on by n stages, 0 or more: the next wait is that many tiles
        later. It releases nothing.
        """
        self._read.advance(at_least(n, 0, "cute.pipeline"))

    def copy(self) -> Self:
        """Return a pipeline of the same stages with positions of its own, which start where these
        are now.
        """
        new = object.__new__(type(self))
        for name, x in vars(self).items():
            if isinstance(x, Var):
                x = Var(0, 0, self.stages)
            setattr(new, name, x.copy() if isinstance(x, _Position) else x)
        return new


class TmaPipeline(Pipeline):
    """A circular buffer that TMA fills: acquire, load, commit; wait, read, release.

    One thread is the producer. A pair of mbarriers per stage, full and empty, synchronizes it with
    the consumers. All threads of the block, or of the cluster, must construct the object: it
    initializes the barriers and synchronizes them.

    Warpgroup products read a stage until `warpgroup_wait` says so. With `warpgroup_wait(1)` one
    product is in flight, and `release(behind=1)` releases the stage of the product before; after
    the loop, `warpgroup_wait(0)` and `release_rest()`. A producer of a cluster ends with `tail()`.
    A ring of one stage is a buffer that is filled again and again; it keeps no stage behind.

    Consumers that take turns `skip` the tiles of the others. A wait for a stage returns at once
    while the tile before in that stage is still on its way. So a consumer that has skipped that
    tile waits for who has read it, such as for its turn, unless it reads the same stages each time.

    A consumer that reads a stage by ldmatrix or loads ends its reads in each lane: with
    `consumers="warp"` it calls `syncwarp` before `release`, and with "warpgroup" a named barrier
    of the 128 threads. The emulator reports a missing one as a race with the next copy.
    """

    def __init__(
        self,
        stages: int,
        bytes: int | None = None,
        consumers: int | str = "warpgroup",
        *,
        tiles: Sequence[Any] = (),
        count: int = 1,
        cluster: int = 1,
    ) -> None:
        """Allocate and initialize the barriers.

        Args:
            stages: the number of stages.
            bytes: the size of all loads of one stage, at most 2^20 - 1; None: that of `tiles`.
            consumers: who releases a stage: a number of threads, each for itself, or one thread of
                each "warpgroup" or "warp".
            tiles: the shared tensors of the stages, the last mode of which counts the stages, or
                operands (`Operand`, `TmaTiles`).
            count: how many warpgroups or warps release each stage.
            cluster: the blocks whose loads are multicast to each other, all of the cluster: a stage
                is released in each of them.

        """
        self.stages = stages = _stages_of(stages, 1)
        self.bytes = _bytes_of(tiles, stages, bytes)
        if hasattr(consumers, "__index__"):
            count = consumers = number_within(consumers, "cute.pipeline", 1)
        elif consumers.__class__ is not str or consumers not in ("warpgroup", "warp"):
            facts = {"value": consumers, "choices": "'warpgroup', 'warp', a number of threads"}
            raise refusal_here("kernel-choice", operation="cute.pipeline", **facts)
        count = number_within(count, "cute.pipeline", 1, MOST_COUNT)
        self.consumers, self.cluster = consumers, _cluster_of(cluster)
        self.full, self.empty = Mbarriers(stages), Mbarriers(stages)
        with branch(thread_idx_linear() < 1):
            self.full.init(1)
            self.empty.init(count * self.cluster)
            fence_mbarrier_init()
        cluster_sync() if self.cluster > 1 else syncthreads()
        self._write, self._read = _Position(stages, 0, 1), _Position(stages, 0, 0)
        self._late = Var(0, 0, stages)  # the stage that `release(behind=1)` has kept, + 1; 0: none

    def acquire(self) -> Leaf:
        """Wait until the next stage is empty, expect its bytes, and return its index."""
        stage = self._write.stage
        self.empty.wait(stage, self._write.parity)
        self.full.arrive_expect_tx(stage, self.bytes)
        return stage

    def load(
        self, source: Tensor, target: Tensor, multicast: Leaf = 0, outside: str = "zero"
    ) -> None:
        """Issue the copy of a tile of a `tma_tensor` to the acquired stage; `multicast` and
        `outside` as in `tma_load`.
        """
        stage = self._write.stage
        tma_load(source, target, self.full, stage, multicast, outside=outside)

    def commit(self) -> None:
        """Advance to the next stage; the copies complete asynchronously."""
        self._write.advance()

    def fill(self, tile: Leaf, *operands: Any) -> None:
        """Acquire the next stage, copy a tile of each operand to it, and commit.

        Args:
            tile: its number along K, to which each iterator is moved by `begin`.
            operands: `TmaTiles`, or other iterators whose `fill(stage, full)` announces bytes.

        """
        stage = self.acquire()
        for x in operands:
            for _piece in filled(iterator_of(x), tile, stage, True, self.full, steps=False):
                pass
        self.commit()

    def tail(self) -> None:
        """Wait, after the last `commit`, until all stages are released: a block of a cluster may
        not end while others still arrive at its barriers. Called by the producer.
        """
        for _stage in range(self.stages):
            self.empty.wait(self._write.stage, self._write.parity)
            self._write.advance()

    def wait(self) -> Leaf:
        """Wait until the next stage is full, and return its index."""
        stage = self._read.stage
        self.full.wait(stage, self._read.parity)
        return stage

    def release(self, behind: int = 0, stored: bool = False) -> None:
        """Release the stage that `wait` returned, and advance to the next one.

        Args:
            behind: 1 to keep this stage, and release the one before it, if there is one; at the end
                `release_rest` releases the last one.
            stored: whether TMA stores results out of the stage, or of the one before it. The thread
                that releases it waits until all stores that it has committed have read their
                tiles: it is the one that commits them, the first of its consumer.

        """
        require_choice(behind, (0, 1), "cute.pipeline")
        require_choice(stored, (False, True), "cute.pipeline")
        if behind:
            _stages_of(self.stages, 2, "that keeps a stage behind")
        stage = self._read.stage
        if behind:
            self._release_late(stored)
            self._late.set(stage + 1)
        else:
            self._arrive(stage, stored=stored)
        self._read.advance()

    def release_rest(self) -> None:
        """Release the stage that `release(behind=1)` has kept, if there is one."""
        self._release_late()
        self._late.set(0)

    def _release_late(self, stored: bool = False) -> None:
        late = self._late.get()
        self._arrive(late - 1, late > 0, stored)

    def _arrive(
        self, stage: Leaf, condition: bool | Condition = True, stored: bool = False
    ) -> None:
        """Arrive at the barrier of an empty stage, where the condition is true, once for each
        consumer, in each block that fills the stage; with `stored` after the thread's TMA stores.
        """
        one = True if self.consumers.__class__ is int else elect_one(str(self.consumers))
        if one is False:
            raise refusal_here("pipeline-release", operation="cute.pipeline", who=self.consumers)
        ranks: Iterable[int | None] = range(self.cluster) if self.cluster > 1 else (None,)
        both = one & condition
        with branch(both) if isinstance(both, Condition) else nullcontext():
            if stored:
                tma_store_wait(0, read=True)
            for rank in ranks:
                self.empty.arrive(stage, rank)


def _cluster_of(blocks: Any) -> int:
    """Return the number of blocks that load for each other; refuse others than the cluster's."""
    shape = launched("cute.pipeline").cluster
    number = ints.normalize(blocks, "cute.pipeline") if hasattr(blocks, "__index__") else 0
    if number not in (1, prod(shape)):
        raise refusal_here("pipeline-cluster", operation="cute.pipeline", given=blocks, shape=shape)
    return int(number)


def _bytes_of(tiles: Sequence[Any], stages: int, given: int | None) -> int:
    """Return the size of one stage (bytes): that of all tiles, or as it is given without them."""
    alone = tiles.__class__ is tuple and not tiles
    if given is not None:
        given = number_within(given, "cute.pipeline", 0, MOST_COUNT)
    if alone and given is not None:
        return given
    total = 0
    if isinstance(tiles, Tensor) or not hasattr(tiles, "__iter__"):
        raise refusal_here("pipeline-tiles", operation="cute.pipeline", tile=tiles, stages=stages)
    for x in tiles:
        shared = x if isinstance(x, Tensor) else getattr(x, "shared", None)
        if not isinstance(shared, Tensor) or not isinstance(shared.engine, SharedMemory):
            raise refusal_here("pipeline-tiles", operation="cute.pipeline", tile=x, stages=stages)
        layout = shared.layout
        if rank(layout) < 2 or size(layout, rank(layout) - 1) != stages:
            raise refusal_here("pipeline-tiles", operation="cute.pipeline", tile=x, stages=stages)
        total += int(size(layout)) // stages * shared.dtype.bits // 8
    if not total:
        raise refusal_here("pipeline-tiles", operation="cute.pipeline", tile=tiles, stages=stages)
    if given not in (None, total):
        facts = {"value": f"bytes={given} and tiles of {total}", "choices": "bytes or tiles"}
        raise refusal_here("kernel-choice", operation="cute.pipeline", **facts)
    return total


class PipelineTmaStore:
    """Buffers in shared memory from which TMA stores tiles: acquire, write, commit.

    A group of consecutive threads writes a buffer together; its first thread issues the stores. The
    next tile goes to the next buffer while the stores still read this one. Source: cutlass
    include/cutlass/pipeline/sm90_pipeline.hpp (PipelineTmaStore).
    """

    def __init__(
        self, stages: int = 1, threads: int = 128, barrier: Leaf = 1, thread: Leaf | None = None
    ) -> None:
        """Begin with the first buffer.

        Args:
            stages: the number of buffers, at most 64.
            threads: how many threads write a buffer, a multiple of 32.
            barrier: the id of their named barrier; groups that write at the same time have
                different ones.
            thread: the thread's index in its group; None: that in the role or block, modulo
                `threads`.

        """
        name = "cute.PipelineTmaStore"
        stages = number_within(stages, name, 1, MOST_PENDING + 1)
        threads = number_within(threads, name, 32, launched(name).threads)
        if threads % 32:
            facts = {"id": barrier, "threads": threads}
            raise refusal_here("kernel-barrier", operation=name, **facts)
        if thread is None:
            role = current().role
            first = 0 if role is None else 32 * role.warps.start
            thread = ints.mod(ints.sub(thread_idx_linear(), first), threads)
        elif ints.normalize(thread, name).__class__ is int:
            facts = {"value": thread, "choices": "indices of threads, such as me.thread of a role"}
            raise refusal_here("kernel-choice", operation=name, **facts)
        self.stages, self.threads, self.barrier = stages, threads, barrier
        self.leads = compare("eq", thread, 0)
        self._write = _Position(stages) if stages > 1 else None

    @property
    def stage(self) -> Leaf:
        """The index of the buffer."""
        return 0 if self._write is None else self._write.stage

    def acquire(self) -> Leaf:
        """Wait until the stores of the next buffer have read it, for all threads of the group, and
        return its index.
        """
        with branch(self.leads):
            tma_store_wait(self.stages - 1, read=True)
        named_barrier(self.barrier, self.threads)
        return self.stage

    def commit(self, *stores: tuple[Tensor, Tensor]) -> None:
        """Store what all threads of the group have written: pairs of a shared tile and a tile of a
        `tma_tensor`. Advance to the next buffer.
        """
        for pair in stores:
            if pair.__class__ is not tuple or len(pair) != 2:
                pairs = "pairs (shared tile, tile of a tma_tensor)"
                facts = {"value": pair, "choices": pairs}
                raise refusal_here("kernel-choice", operation="cute.PipelineTmaStore", **facts)
        fence_proxy_async()
        named_barrier(self.barrier, self.threads)
        with branch(self.leads):
            for source, target in stores:
                tma_store(source, target)
            tma_store_commit()
        if self._write is not None:
            self._write.advance()

    def tail(self) -> None:
        """Wait, after the last `commit`, until all stores are complete: shared memory must outlive
        the stores that read it.
        """
        with branch(self.leads):
            tma_store_wait(0)


if TYPE_CHECKING:

    @overload
    def pipeline(stages: int) -> Pipeline: ...
    @overload
    def pipeline(
        stages: int,
        bytes: int | None = ...,
        consumers: int | str | None = ...,
        *,
        tiles: Sequence[Any] | None = ...,
        count: int | None = ...,
        cluster: int | None = ...,
    ) -> TmaPipeline: ...


def pipeline(
    stages: int,
    bytes: int | None = None,
    consumers: int | str | None = None,
    *,
    tiles: Sequence[Any] | None = None,
    count: int | None = None,
    cluster: int | None = None,
) -> Any:  # a Pipeline, or a TmaPipeline
    """Return a circular buffer of stages for asynchronous copies.

    Args:
        stages: the number of stages.
        bytes: for TMA, the size of all loads of one stage.
        consumers: for TMA, who releases each stage.
        tiles: for TMA, the shared tensors of the stages, in place of `bytes`.
        count: for TMA, how many consumers release each stage.
        cluster: for TMA, the blocks whose loads are multicast to each other.

    Without any of these cp.async fills it. The object holds the index of the stage, and for TMA the
    parity of its barriers: see `Pipeline` and `TmaPipeline`.

    >>> # in a kernel: ring = cute.pipeline(4, tiles=(sA, sB), consumers="warpgroup", count=2)
    """
    given = {"bytes": bytes, "consumers": consumers, "count": count, "cluster": cluster}
    options: dict[str, Any] = {name: x for name, x in given.items() if x is not None}
    if tiles is None and not options:
        return Pipeline(stages)
    return TmaPipeline(stages, tiles=() if tiles is None else tiles, **options)


def _stages_of(stages: Any, least: int, ring: str = "that cp.async fills") -> int:
    number = ints.normalize(stages, "cute.pipeline")
    if number.__class__ is not int or number < least:
        what = f"{least}, of a ring {ring}" if least > 1 else "1"
        raise refusal_here("pipeline-stages", operation="cute.pipeline", stages=stages, least=what)
    return number
