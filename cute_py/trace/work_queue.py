"""`cute.work_queue`: items of work that one thread of a block hands to others; and `cute.Dealer`:
numbers of items that blocks share out while they run, by a counter in memory.

Source: cutlass include/cutlass/pipeline/sm90_pipeline.hpp (PipelineAsync); T. Dao, flash-attention,
hopper/tile_scheduler.hpp (DynamicPersistentTileScheduler).
"""

from __future__ import annotations

from math import prod

from cute_py.dtypes.table import s32
from cute_py.errors import refusal_here
from cute_py.layout.layout import Layout
from cute_py.plan.ops import MOST_COUNT
from cute_py.tensor.tensor import require_tensor
from cute_py.tensor.views import local_tile
from cute_py.trace.arithmetic import as_int, new_registers
from cute_py.trace.control import Var, branch, while_
from cute_py.trace.hopper import Mbarriers, fence_mbarrier_init
from cute_py.trace.memory import smem
from cute_py.trace.pipeline import _Position
from cute_py.trace.roles import elect_one
from cute_py.trace.runtime_integers import compare
from cute_py.trace.schedule import place_in_grid
from cute_py.trace.state import number_within
from cute_py.trace.threads import atomic, launched, shuffle, syncthreads, thread_idx_linear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.types import Leaf
    from cute_py.tensor.tensor import Tensor
    from cute_py.trace.runtime_integers import Int

MOST = 2**31 - 1


class Dealer:
    """Numbers of items that the blocks of a grid share out while they run: a block that is done
    first takes the next one.

    The first number of a block is its own; the others come from a counter in global memory, which
    is 0 before the launch, and 0 again after it: each item below the total makes one block take a
    number, so the one that takes the last of these resets the counter. Law: the blocks have each
    number below the total once, each block in rising order.
    """

    def __init__(self, counter: Tensor) -> None:
        """Begin with the number of the block; `counter`: s32, of one element, of this launch alone.
        All threads of one warp of each block call the methods.
        """
        name = "cute.Dealer"
        if require_tensor(counter, name).dtype is not s32 or counter.space != "gmem":
            facts = {"value": str(counter), "choices": "an element of s32 in global memory"}
            raise refusal_here("kernel-choice", operation=name, **facts)
        if prod(launched(name).cluster) > 1:
            facts = {"value": f"clusters of {launched(name).cluster}", "choices": "no clusters"}
            raise refusal_here("kernel-choice", operation=name, **facts)
        here, self.blocks = place_in_grid()
        self.counter = local_tile(counter, (1,), (0,))
        self._number = Var(here, 0, MOST, uniform="block")
        self._taken = Var(-1, -1, MOST, uniform="block")

    @property
    def number(self) -> Leaf:
        """The number of the item that the block has."""
        return self._number.get()

    def take(self) -> None:
        """Go on to the next item; after one that was below the total."""
        taken = new_registers(s32, 1)
        taken.fill(0)
        with branch(elect_one("warp")):
            old = atomic("add", self.counter, 1, old=True)
            assert old is not None
            taken[0] = old[0]
        found = as_int(shuffle(taken, 0), 0, MOST, uniform="block")
        self._taken.set(found)
        self._number.set(self.blocks + found)

    def end(self, total: Leaf) -> None:
        """Reset the counter, in the block that took the last number; called by each block, once it
        has a number that is not below the total.
        """
        last = compare("eq", self._taken.get() + 1, total)
        with branch(elect_one("warp") & last):
            atomic("exch", self.counter, 0)


class WorkQueue:
    """Items of work in shared memory: one thread `put`s them, others `get` them in the same order.

    An item is a few integers from 0 to 2^31 - 1. Each stage has a pair of mbarriers, full and
    empty. The giver is ahead of the last reader by as many items as there are stages: with one, it
    finds the next item while the readers are at this one. All threads of the block must construct
    the object: it initializes the barriers and synchronizes.
    """

    def __init__(self, words: int, readers: int, stages: int = 1) -> None:
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
        """Give the next item, and wait until there is room for another one: until all readers have
        the one that many stages before that. Called by one thread.
        """
        if len(words) != self.items.shape[0]:
            facts = {"value": f"{len(words)} words", "choices": f"{self.items.shape[0]} words"}
            raise refusal_here("kernel-choice", operation="cute.work_queue", **facts)
        stage = self._write.stage
        for i, x in enumerate(words):
            self.items[i, stage] = x
        self.full.arrive(stage)
        self._write.advance()
        self.empty.wait(self._write.stage, self._write.parity)

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

    def deal(self, counter: Tensor, total: Leaf) -> None:
        """Give the numbers below a total that no other block has, and the end; called by one warp.
        The queue is one of single words, the readers `cute.tiles(..., queue=)`, and the counter as
        in `Dealer`.
        """
        dealer = Dealer(counter)
        with while_(lambda: dealer.number < total):
            with branch(elect_one("warp")):
                self.put(dealer.number + 1)
            dealer.take()
        with branch(elect_one("warp")):
            self.put(0)
        dealer.end(total)


def work_queue(words: int, readers: int, stages: int = 1) -> WorkQueue:
    """Return a queue of items of work in shared memory; see `WorkQueue`.

    Args:
        words: the integers of an item.
        readers: how many threads get each item.
        stages: the items that may be on their way.

    >>> # in a kernel: queue = cute.work_queue(2, readers=256)
    """
    return WorkQueue(words, readers, stages)
