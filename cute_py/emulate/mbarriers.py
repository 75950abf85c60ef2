"""`Mbarriers`: those of a batch: what is missing from each, and who may use it.

The lifetime of an mbarrier begins with its init: each use must be ordered after it, and use by TMA
also after a fence (`fence_mbarrier_init`). Until it ends, nothing may write its memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.clocks import COPY, FENCED, LOW, WHO, Acting, Agents, Clocks, through
from cute_py.emulate.faults import line_of
from cute_py.emulate.phases import Phases
from cute_py.emulate.spans import LANES, Array, Span, Thread

if TYPE_CHECKING:
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.shadow import Shadow
    from cute_py.emulate.storages import Vectors
    from cute_py.plan.ops import Op


class Mbarriers:
    """The mbarriers of a batch: none is initialised."""

    def __init__(
        self,
        blocks: int,
        agents: Agents,
        clocks: Clocks | None,
        shadow: Shadow | None,
        faults: Faults,
        judged: bool,
    ) -> None:
        """Begin; `judged`: whether to refuse uses that nothing orders."""
        self.agents, self.clocks, self.shadow, self.faults = agents, clocks, shadow, faults
        shape = blocks, agents.slots
        self.count, self.pending, self.bytes, self.phase = (
            np.zeros(shape, np.int64) for _ in range(4)
        )
        self.born = np.zeros(shape, np.int64)  # the stamp of the init
        self.fenced = np.zeros(shape, np.int64)  # the stamp of the fence after it
        self.made: dict[tuple[int, int], Op] = {}  # the init of each, or its inval
        # block, slot, block and thread that uses it -> its last stamp, whether it did so alone, op
        self.used: dict[tuple[int, int, int, int], tuple[int, bool, Op]] = {}
        self.marks: dict[tuple[int, int], tuple[Array, Array]] = {}  # who wrote its memory
        self.phases: Phases | None = None
        if clocks is not None:
            if agents.slots and judged:
                self.phases = Phases(clocks, faults)
            held = (*shape, *clocks.clock.shape[2:])
            for name in ("arriving", "complete"):
                clocks.messages[name] = np.full(held, LOW, np.int64)

    def settle(self, b: int, slot: int) -> None:
        """Complete the phase if nothing is missing."""
        if self.pending[b, slot] == 0 and self.bytes[b, slot] == 0:
            self.pending[b, slot] = self.count[b, slot]
            self.phase[b, slot] += 1
            if self.clocks is not None:
                held = self.clocks.messages
                if self.phases is not None:
                    self.phases.end((b, slot), held["arriving"][b, slot])
                held["complete"][b, slot] = held["arriving"][b, slot]
                held["arriving"][b, slot] = LOW
                self.clocks.epoch[b if self.clocks.rows > 1 else 0, slot] += 1

    def release(self, who: Acting, at: tuple[int, int], copies: bool) -> None:
        """Let those who wait for an mbarrier know what lanes of a warp know that arrive there;
        `copies`: and that their cp.asyncs are complete.
        """
        clocks = self.clocks
        assert clocks is not None
        clock = clocks.release(who)
        if copies and COPY in clocks.place:
            column = clocks.columns_of(COPY, who.parts)
            rank = int(clocks.rank[who.rows[0]]) if clock.shape[1] > 1 else 0
            each = np.arange(len(column))
            done = through(clocks.epoch[who.rows, column])
            clock[each, rank, 0, column] = clock[each, rank, clocks.memory, column] = done
            clocks.advance(who, COPY)
        if clocks.memory and int(who.rows[0]) != at[0]:
            clock[:, :, clocks.memory] = LOW
        arriving = clocks.messages["arriving"]
        arriving[at] = np.maximum(arriving[at], clock.max(axis=0))

    def land(self, b: int, slot: int, nbytes: int, ran: Array | None = None) -> None:
        """Take bytes of a TMA load into account; `ran`: what has run before it [rank, column]."""
        clocks = self.clocks
        if clocks is not None:
            arriving = clocks.messages["arriving"][b, slot]
            mine = arriving[clocks.rank[b] % len(arriving)]
            mine[0, slot] = mine[clocks.memory, slot] = through(clocks.epoch[b, slot])
            if self.phases is not None and ran is not None:
                arriving[:, 2] = np.maximum(arriving[:, 2], ran)
                self.phases.land((b, slot), int(clocks.epoch[b, slot]))
        self.bytes[b, slot] -= nbytes
        self.settle(b, slot)

    def init(self, op: Op, span: Span, thread: Thread, slot: int, count: int) -> None:
        """Make an mbarrier; refuse one where a valid one is, which PTX leaves undefined."""
        b, clocks = int(span.B[thread[0]]), self.clocks
        if clocks is not None:
            if self.phases is not None:
                if self.count[b, slot]:
                    name, other = self.agents.mbarrier(slot), line_of(self.made[b, slot])
                    facts = {"name": name, "other": other}
                    raise self.faults.at("emulate-mbarrier-again", op, span, thread, **facts)
                self.phases.begin((b, slot))
            who = int(span.W[thread[1]]) * LANES + thread[2]
            row = b if clocks.rows > 1 else 0
            self.born[b, slot] = clocks.stamps(np.array([row]), np.array([who]))[0]
            self.fenced[b, slot] = 0
        self.made[b, slot] = op
        self.count[b, slot] = self.pending[b, slot] = count
        self.bytes[b, slot] = self.phase[b, slot] = 0

    def inval(self, op: Op, span: Span, thread: Thread, slot: int) -> None:
        """End an mbarrier; refuse one that others may use."""
        b = int(span.B[thread[0]])
        self.use(op, span, thread, 1 << thread[2], (b, slot))
        if self.phases is not None:
            self._require_idle(op, span, thread, slot)
        self.count[b, slot] = 0
        self.made[b, slot] = op
        self.marks.pop((b, slot), None)

    def keep(self, b: int, slot: int, vectors: Vectors, is_new: bool = True) -> None:
        """Remember which access wrote the memory of a new mbarrier, or of one that has ended."""
        if self.shadow is not None and self.phases is not None:
            place = np.array([slot - self.agents.first_slot[vectors.access.storage]])
            granules = self.shadow.granules_of(vectors, place)
            self.shadow.hide(b if len(self.shadow.last) > 1 else 0, granules)
            if is_new:
                self.marks[b, slot] = granules, self._marked(b, granules)

    def _marked(self, b: int, granules: Array) -> Array:
        """Return who wrote granules last, and by which op."""
        shadow = self.shadow
        assert shadow is not None
        row = b if len(shadow.last) > 1 else 0
        return np.array([shadow.last[row, granules], shadow.wrote[row, granules]])

    def _overwritten(self, at: tuple[int, int]) -> Op | None:
        """Return what has written the memory of an mbarrier since its init."""
        if at not in self.marks or self.shadow is None:
            return None
        granules, marked = self.marks[at]
        now = self._marked(at[0], granules)
        differ = now != marked
        if not differ.any():
            return None
        return self.shadow.ops[int(now[1, int(np.argmax(differ.any(0)))])]

    def _require_kept(self, op: Op, span: Span, thread: Thread, at: tuple[int, int]) -> None:
        """Refuse an mbarrier whose memory was written since its init."""
        other = self._overwritten(at)
        if other is not None:
            facts = {"name": self.agents.mbarrier(at[1]), "other": line_of(other)}
            raise self.faults.at("emulate-mbarrier-lost", op, span, thread, what="use", **facts)

    def require_kept(self) -> None:
        """Refuse memory that was written while an mbarrier was there, though nobody used it."""
        for at in self.marks:
            other = self._overwritten(at)
            if other is not None:
                name, who = self.agents.mbarrier(at[1]), f"block {self.faults.block(at[0])}"
                facts = {"what": "end", "name": name, "who": who, "other": line_of(other)}
                raise self.faults.fault("emulate-mbarrier-lost", other, **facts)

    def _require_idle(self, op: Op, span: Span, thread: Thread, slot: int) -> None:
        """Refuse to end an mbarrier while somebody may use it."""
        b, who, clocks = int(span.B[thread[0]]), span.thread(thread), self.clocks
        assert clocks is not None
        use = "TMA loads that it counts are not complete" if self.bytes[b, slot] else ""
        for key in [key for key in self.used if key[:2] == (b, slot)]:
            stamp, alone, by = self.used.pop(key)
            if by is not op and not clocks.knows(who, key[2], stamp, alone):
                use = f"nothing orders its use before ({line_of(by)})"
        if use:
            name = self.agents.mbarrier(slot)
            raise self.faults.at("emulate-mbarrier-busy", op, span, thread, name=name, use=use)

    def fence_inits(self, who: Acting) -> None:
        """Let TMA and other blocks know of the mbarriers that these threads have initialised."""
        clocks = self.clocks
        if clocks is None or not self.agents.slots:
            return
        for row, part in zip(who.rows.tolist(), who.parts.tolist(), strict=True):
            for b in range(len(self.born)) if clocks.rows == 1 else (row,):
                for slot in np.flatnonzero(self.born[b]).tolist():
                    thread = int(self.born[b, slot]) & WHO
                    if clocks.of[thread // LANES, thread % LANES] == part:
                        now = clocks.stamps(np.array([row]), np.array([thread]))
                        self.fenced[b, slot] = self.fenced[b, slot] or now[0]
        clocks.bump(who)

    def use(
        self,
        op: Op,
        span: Span,
        thread: Thread,
        lanes: int,
        at: tuple[int, int],
        tma: bool = False,
    ) -> None:
        """Require that lanes of a warp know of the init of an mbarrier, and remember the use.

        Args:
            op: the op.
            span: where it is issued.
            thread: the first of them.
            lanes: they, as bits.
            at: the block whose mbarrier it is, and the slot.
            tma: whether TMA counts bytes there.
        """
        b, slot = at
        name = self.agents.mbarrier(slot)
        if self.count[b, slot] == 0:
            ended = self.made.get(at)
            state = "nothing has initialised" if ended is None else f"has ended ({line_of(ended)})"
            facts = {"name": name, "state": state}
            raise self.faults.at("emulate-mbarrier-unset", op, span, thread, **facts)
        clocks = self.clocks
        if clocks is None or self.phases is None:
            return
        self._require_kept(op, span, thread, at)
        own, w, lane = who = span.thread(thread)
        alone = lanes == 1 << lane
        missing = ""
        if not clocks.knows(who, b, int(self.born[b, slot]), alone):
            missing = "its init" if b == own else "the init by another block of the cluster"
            missing = f"a barrier after {missing}"
        elif tma and not self._fenced(clocks, who, b, slot):
            missing = "a fence after its init"
        if missing:
            raise self.faults.at(
                "emulate-mbarrier-early", op, span, thread, name=name, missing=missing
            )
        row = own if clocks.rows > 1 else 0
        stamp = int(clocks.stamps(np.array([row]), np.array([w * LANES + lane]))[0])
        self.used[b, slot, own, w * LANES + lane] = stamp, alone, op

    def _fenced(self, clocks: Clocks, who: Thread, b: int, slot: int) -> bool:
        """Return whether a thread knows of a fence after the init of an mbarrier."""
        fenced = int(self.fenced[b, slot])
        if fenced and clocks.knows(who, b, fenced):
            return True
        return clocks.knows(who, b, int(self.born[b, slot]), what=FENCED)
