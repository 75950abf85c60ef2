"""`Together`: values that threads share because they compute or read them together.

All lanes of a warp get one result of redux, vote, a shuffle from one lane, or a butterfly of
shuffles, whatever the data. The threads of a block read one value from a place of shared memory, if
only barriers of whole blocks and warps order them: between two of these nobody writes what somebody
reads. Such a value is known by the op, the iterations of the loops around it, the block, and the
warp or the place.
"""

from __future__ import annotations

from cute_py.integers.symbols import sym
from cute_py.plan import ops
from cute_py.plan.conditions import Reg
from cute_py.plan.functions import REDUCTIONS
from cute_py.plan.recipes import Address, Element, Recipe, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cute_py.plan.conditions import Scalar
    from cute_py.plan.op import Op
    from cute_py.plan.recipes import Makers

THREAD = sym("tid", min=0)
BLOCK = tuple([Address(sym(f"bid_{axis}", min=0)) for axis in "xyz"])


class Together:
    """What threads compute together in a plan.

    Attributes:
        around: the ops that each op is inside of, by its id.
        makers: the ops that define a value, and which of their results it is.
        in_step: whether only barriers of whole blocks and warps order threads.
    """

    def __init__(
        self,
        every_op: tuple[Op, ...],
        around: Mapping[int, tuple[Op, ...]],
        makers: Makers,
    ) -> None:
        self.around, self.makers = around, makers
        self.in_step = all(map(self._keeps_step, every_op))

    def recipe(self, op: Op, at: int) -> Recipe | None:
        """Return how threads together compute element `at` of the result of an op, if they do."""
        outer, places = self.around[id(op)], self._places(op, at)
        if places is None or any(isinstance(x, ops.While) for x in outer):
            return None
        times = [sym(x.var, min=None) for x in outer if isinstance(x, ops.Loop)]
        return Recipe(("together", id(op), at), (*map(Address, (*places, *times)), *BLOCK))

    def _places(self, op: Op, at: int) -> tuple[Scalar, ...] | None:
        """Return what threads that share the value agree on, besides the block."""
        if isinstance(op, ops.Redux | ops.Vote):
            return (THREAD // 32,)
        if isinstance(op, ops.Shuffle):
            fixed = op.kind == "idx" and op.lane.__class__ is int
            return (THREAD // op.width,) if fixed else None
        if isinstance(op, ops.Map):
            lanes = self._alike_lanes(op, at)
            return (THREAD // (lanes + 1),) if lanes and lanes & (lanes + 1) == 0 else None
        if isinstance(op, ops.Load) and op.src.space == "smem" and self.in_step:
            x = op.src
            plain = op.order == "weak" and not x.guards and x.rank is None
            b, start = x.table[at // x.width]
            return (x.bases[b], x.inner, start + at % x.width) if plain else None
        return None

    def _alike_lanes(self, op: Op, at: int) -> int:
        """Return the bits of a lane that a butterfly reduction has combined: lanes that differ only
        in these have one value.
        """
        if not isinstance(op, ops.Map) or op.fn not in REDUCTIONS or len(op.sources) != 2:
            return 0
        if not all(isinstance(x, Reg) for x in op.sources):
            return 0
        a, b = [element(x, at if len(x) > 1 else 0) for x in op.sources if isinstance(x, Reg)]
        bits = self._distance(op, a, b) or self._distance(op, b, a)
        made = self._only_maker(op, a if self._distance(op, a, b) else b)
        return bits | (self._alike_lanes(*made) if bits and made else 0)

    def _distance(self, op: Op, x: Element, y: Element) -> int:
        """Return the distance of a shuffle by which y is x of another lane, in a butterfly."""
        made = self._only_maker(op, y)
        if made is None or not isinstance(made[0], ops.Shuffle) or made[0].kind != "bfly":
            return 0
        lane, width = made[0].lane, made[0].width
        fits = isinstance(lane, int) and 0 < lane < width and element(made[0].src, made[1]) == x
        return int(lane) if fits and self._only_maker(op, x) else 0

    def _only_maker(self, op: Op, key: Element) -> tuple[Op, int] | None:
        """Return the op that defines a value, if no other one does, and it is beside an op."""
        makers = self.makers.of(key)
        beside = len(makers) == 1 and self.around[id(makers[0][0])] == self.around[id(op)]
        return makers[0] if beside else None

    def _keeps_step(self, op: Op) -> bool:
        """Tell whether an op orders threads, if it does, with all others of its block or warp."""
        if isinstance(op, ops.Barrier):
            branches = [x for x in self.around[id(op)] if getattr(x, "scope", "") == "thread"]
            return op.scope == "block" or (op.scope == "warp" and not branches)
        acquires = isinstance(op, ops.Load) and op.order != "weak"
        return not (op.waits or acquires or (isinstance(op, ops.Atomic) and op.old is not None))
