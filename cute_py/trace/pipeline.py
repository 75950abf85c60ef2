"""`pipeline`: a circular buffer of stages in shared memory that asynchronous copies fill.

The object holds the index of the stage in run-time variables, so that it advances through
`cute.range`. Source: cutlass include/cutlass/pipeline/pipeline.hpp.
"""

from __future__ import annotations

from cute_py.errors import refusal_here
from cute_py.trace.control import Var, branch
from cute_py.trace.hopper import Mbarriers, fence_mbarrier_init, tma_load
from cute_py.trace.threads import cp_async_fence, cp_async_wait, syncthreads, thread_idx_linear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import Leaf
    from cute_py.tensor.tensor import Tensor


class Pipeline:
    """A circular buffer that cp.async fills: acquire, copy, commit; wait, read, release.

    Commit `stages - 1` tiles before the first wait. Then, in each iteration, wait for one tile and
    commit one (an empty group at the end). So each wait completes the oldest tile, and all threads
    have released a stage that is acquired after a wait.
    """

    def __init__(self, stages: int) -> None:
        _require_stages(stages)
        self.stages = stages
        self._write = Var(0, 0, stages - 1)
        self._read = Var(0, 0, stages - 1)

    def acquire(self) -> Leaf:
        """Return the index of the stage to fill."""
        return self._write.get()

    def commit(self) -> None:
        """Commit the copies to the acquired stage; the next acquire returns the next stage."""
        cp_async_fence()
        self._write.set((self._write.get() + 1) % self.stages)

    def wait(self) -> Leaf:
        """Wait for the oldest stage, for all threads, and return its index."""
        cp_async_wait(self.stages - 2)
        syncthreads()
        return self._read.get()

    def release(self) -> None:
        """Release the stage after its last read; the next wait returns the next stage."""
        self._read.set((self._read.get() + 1) % self.stages)


class TmaPipeline:
    """A circular buffer that TMA fills: acquire, load, commit; wait, read, release.

    One thread is the producer. `consumers` threads consume, and each of them releases. A pair of
    mbarriers per stage, full and empty, synchronizes them. All threads of the block must construct
    the object: it initializes the barriers and synchronizes the block.
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
        self._write, self._written = Var(0, 0, stages - 1), Var(1, 0, 1)
        self._read, self._parity = Var(0, 0, stages - 1), Var(0, 0, 1)

    def acquire(self) -> Leaf:
        """Wait until the next stage is empty, expect its bytes, and return its index."""
        stage = self._write.get()
        self.empty.wait(stage, self._written.get())
        self.full.arrive_expect_tx(stage, self.bytes)
        return stage

    def load(self, source: Tensor, target: Tensor) -> None:
        """Issue the copy of a tile of a `tma_tensor` to the acquired stage."""
        tma_load(source, target, self.full, self._write.get())

    def commit(self) -> None:
        """Advance to the next stage; the copies complete asynchronously."""
        _advance(self._write, self._written, self.stages)

    def wait(self) -> Leaf:
        """Wait until the next stage is full, and return its index."""
        stage = self._read.get()
        self.full.wait(stage, self._parity.get())
        return stage

    def release(self) -> None:
        """Release the stage for this thread, and advance to the next one."""
        self.empty.arrive(self._read.get())
        _advance(self._read, self._parity, self.stages)


def _advance(stage: Var, parity: Var, stages: int) -> None:
    """Advance the stage; the parity changes when it wraps around."""
    index = stage.get() + 1
    parity.set((parity.get() + index // stages) % 2)
    stage.set(index % stages)


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
