"""`cute.work_queue`: items of work that one thread of a block hands to others, and `take`, numbers
that the blocks of a grid share out among themselves.

Source: cutlass include/cutlass/pipeline/sm90_pipeline.hpp (PipelineAsync); the counter that the last
taker resets: T. Dao, flash-attention, hopper/tile_scheduler.hpp.
"""

from __future__ import annotations

from cute_py.dtypes.table import s32
from cute_py.layout.layout import Layout
from cute_py.plan.ops import MOST_COUNT
from cute_py.trace.arithmetic import as_int
from cute_py.trace.control import branch
from cute_py.trace.hopper import Mbarriers, fence_mbarrier_init
from cute_py.trace.memory import smem
from cute_py.trace.pipeline import _Position
from cute_py.trace.state import number_within
from cute_py.trace.threads import syncthreads, thread_idx_linear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.types import Leaf
    from cute_py.trace.runtime_integers import Int

MOST = 2**31 - 1


class WorkQueue:
    """Items of work in shared memory: one thread `put`s them, others `get` them in the same order.

    An item is a few integers from 0 to 2^31 - 1. Each stage has a pair of mbarriers, full and
    empty, so that the giver is ahead by as many items as there are stages. All threads of the block
    must construct the object: it initializes the barriers and synchronizes.
    """

    def __init__(self, words: int, readers: int, stages: int = 2) -> None:
        """Allocate and initialize the barriers.

        Args:
            words: the integers of an item.
            readers: how many threads get each item.
            stages: the items that may be on their way.

        """
        name = "cute.work_queue"
        words, stages = (number_within(x, name, 1) for x in (words, stages))
        self.items = smem(s32, Layout((words, stages)), name="work")
        self.full, self.empty = Mbarriers(stages), Mbarriers(stages)
        with branch(thread_idx_linear() < 1):
            self.full.init(1)
            self.empty.init(number_within(readers, name, 1, MOST_COUNT))
            fence_mbarrier_init()
        syncthreads()
        self._write, self._read = _Position(stages, 0, 1), _Position(stages, 0, 0)

    def put(self, *words: Leaf) -> None:
        """Give the next item, once the one that many stages before is read; called by one thread."""
        stage = self._write.stage
        self.empty.wait(stage, self._write.parity)
        for i, x in enumerate(words):
            self.items[i, stage] = x
        self.full.arrive(stage)
        self._write.advance()

    def get(self) -> tuple[Int, ...]:
        """Return the next item, once it is there; each reader gets each one."""
        stage = self._read.stage
        self.full.wait(stage, self._read.parity)
        words = [
            as_int(self.items[i, stage], 0, MOST, uniform="block")
            for i in range(self.items.shape[0])
        ]
        self.empty.arrive(stage)
        self._read.advance()
        return tuple(words)


def work_queue(words: int, readers: int, stages: int = 2) -> WorkQueue:
    """Return a queue of items of work in shared memory; see `WorkQueue`.

    Args:
        words: the integers of an item.
        readers: how many threads get each item.
        stages: the items that may be on their way.

    >>> # in a kernel: queue = cute.work_queue(2, readers=256)
    """
    return WorkQueue(words, readers, stages)
