"""`pipeline`: a ring of stages in shared memory that asynchronous copies fill.

The index of the stage is kept by the object, in run-time variables, so that it goes on counting
through `cute.range`. Source: cutlass include/cutlass/pipeline/pipeline.hpp.
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
    """A ring of stages that cp.async fills: acquire, copy, commit; wait, read, release.

    Commit `stages - 1` tiles before the first wait, and after it in each iteration wait for one
    tile and commit one (an empty one at the end). Then a wait finds the oldest tile complete, and
    what is acquired after a wait was released before it by all threads.
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
        """Say that the copies to the stage are issued; the next acquire gives the next stage."""
        cp_async_fence()
        self._write.set((self._write.get() + 1) % self.stages)

    def wait(self) -> Leaf:
        """Wait for the oldest stage, for all threads, and return its index."""
        cp_async_wait(self.stages - 2)
        syncthreads()
        return self._read.get()

    def release(self) -> None:
        """Say that the stage is read; the next wait gives the next stage."""
        self._read.set((self._read.get() + 1) % self.stages)


class TmaPipeline:
    """A ring of stages that TMA fills: acquire, load, commit; wait, read, release.

    One thread produces; `consumers` threads consume, and each of them releases. A pair of mbarriers
    a stage, full and empty, orders them. All threads of the block must make the object together: it
    initialises the barriers and synchronises the block.
    """

    def __init__(self, stages: int, bytes: int, consumers: int) -> None:
        """Take and initialise the barriers; `bytes` are what the loads of one stage bring."""
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
        """Wait until the next stage is empty, announce its bytes, and return its index."""
        stage = self._write.get()
        self.empty.wait(stage, self._written.get())
        self.full.arrive_expect_tx(stage, self.bytes)
        return stage

    def load(self, source: Tensor, target: Tensor) -> None:
        """Begin to copy a tile of a `tma_tensor` to the acquired stage."""
        tma_load(source, target, self.full, self._write.get())

    def commit(self) -> None:
        """Go on to the next stage; the copies complete by themselves."""
        _advance(self._write, self._written, self.stages)

    def wait(self) -> Leaf:
        """Wait until the next stage is full, and return its index."""
        stage = self._read.get()
        self.full.wait(stage, self._parity.get())
        return stage

    def release(self) -> None:
        """Say that this thread has read the stage; go on to the next one."""
        self.empty.arrive(self._read.get())
        _advance(self._read, self._parity, self.stages)


def _advance(stage: Var, parity: Var, stages: int) -> None:
    """Count the stage on; the parity changes where it begins again."""
    index = stage.get() + 1
    parity.set((parity.get() + index // stages) % 2)
    stage.set(index % stages)


def pipeline(
    stages: int, bytes: int | None = None, consumers: int | None = None
) -> Any:  # a Pipeline, or a TmaPipeline
    """Return a ring of stages for asynchronous copies.

    Args:
        stages: how many.
        bytes: for TMA, what the loads of one stage bring together; None: for cp.async.
        consumers: for TMA, how many threads release each stage.

    The index of the stage, and for TMA the parity of its barriers, are kept by the object: see
    `Pipeline` and `TmaPipeline`.
    """
    if bytes is None or consumers is None:
        return Pipeline(stages)
    return TmaPipeline(stages, bytes, consumers)


def _require_stages(stages: int) -> None:
    if stages.__class__ is not int or stages < 2:
        raise refusal_here("pipeline-stages", operation="cute.pipeline", stages=stages)
