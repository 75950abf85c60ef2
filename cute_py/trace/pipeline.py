"""`pipeline`: a circular buffer of stages in shared memory that asynchronous copies fill.

The object holds its positions in run-time variables, so that it advances through `cute.range`.
Source: cutlass include/cutlass/pipeline/sm90_pipeline.hpp (PipelineState).
"""

from __future__ import annotations

from cute_py.errors import refusal_here
from cute_py.trace.control import Var, branch
from cute_py.trace.hopper import Mbarriers, fence_mbarrier_init, tma_load
from cute_py.trace.threads import cp_async_fence, cp_async_wait, syncthreads, thread_idx_linear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from cute_py.layout.types import Leaf
    from cute_py.tensor.tensor import Tensor


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
        _require_stages(stages)
        self.stages = stages
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

    def release(self) -> None:
        """Release the stage after its last read; the next wait returns the next stage."""
        self._read.advance()

    def advance(self, n: Leaf) -> None:
        """Move the writing position on by n stages, 0 or more: the next acquire is that many tiles
        later.
        """
        self._write.advance(n)

    def skip(self, n: Leaf) -> None:
        """Move the reading position on by n stages, 0 or more: the next wait is that many tiles
        later. It releases nothing.
        """
        self._read.advance(n)

    def copy(self) -> Self:
        """Return a pipeline of the same stages with positions of its own, which start where these
        are now.
        """
        new = object.__new__(type(self))
        for name, x in vars(self).items():
            setattr(new, name, x.copy() if isinstance(x, _Position) else x)
        return new


class TmaPipeline(Pipeline):
    """A circular buffer that TMA fills: acquire, load, commit; wait, read, release.

    One thread is the producer. `consumers` threads consume, and each of them releases. A pair of
    mbarriers per stage, full and empty, synchronizes them. All threads of the block must construct
    the object: it initializes the barriers and synchronizes the block.

    Consumers that take turns `skip` the tiles of the others, whose consumers release them. A copy
    of the pipeline releases a stage later than the one that waits moves on: `skip(1)` there, and
    `release` on the copy.
    """

    def __init__(self, stages: int, bytes: int, consumers: int) -> None:
        """Allocate and initialize the barriers; `bytes` is the size of all loads of one stage."""
        _require_stages(stages)
        self.stages, self.bytes = stages, bytes
        self.full, self.empty = Mbarriers(stages), Mbarriers(stages)
        with branch(thread_idx_linear() < 1):
            self.full.init(1)
            self.empty.init(consumers)
            fence_mbarrier_init()
        syncthreads()
        self._write, self._read = _Position(stages, 0, 1), _Position(stages, 0, 0)

    def acquire(self) -> Leaf:
        """Wait until the next stage is empty, expect its bytes, and return its index."""
        stage = self._write.stage
        self.empty.wait(stage, self._write.parity)
        self.full.arrive_expect_tx(stage, self.bytes)
        return stage

    def load(self, source: Tensor, target: Tensor) -> None:
        """Issue the copy of a tile of a `tma_tensor` to the acquired stage."""
        tma_load(source, target, self.full, self._write.stage)

    def commit(self) -> None:
        """Advance to the next stage; the copies complete asynchronously."""
        self._write.advance()

    def wait(self) -> Leaf:
        """Wait until the next stage is full, and return its index."""
        stage = self._read.stage
        self.full.wait(stage, self._read.parity)
        return stage

    def release(self) -> None:
        """Release the stage for this thread, and advance to the next one."""
        self.empty.arrive(self._read.stage)
        self._read.advance()


def pipeline(
    stages: int, bytes: int | None = None, consumers: int | None = None
) -> Any:  # a Pipeline, or a TmaPipeline
    """Return a circular buffer of stages for asynchronous copies.

    Args:
        stages: the number of stages.
        bytes: for TMA, the size of all loads of one stage; None for cp.async.
        consumers: for TMA, the number of threads that release each stage.

    The object holds the index of the stage, and for TMA the parity of its barriers: see `Pipeline`
    and `TmaPipeline`.
    """
    if bytes is None or consumers is None:
        return Pipeline(stages)
    return TmaPipeline(stages, bytes, consumers)


def _require_stages(stages: int) -> None:
    if stages.__class__ is not int or stages < 2:
        raise refusal_here("pipeline-stages", operation="cute.pipeline", stages=stages)
