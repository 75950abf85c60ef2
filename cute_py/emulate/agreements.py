"""What threads must do alike, though they need not get there together: promises of equal values,
and setmaxnreg by the warps of a warpgroup.

So the n-th value of each of them is compared with the n-th of the others.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cute_py.emulate.clocks import RUN
from cute_py.emulate.spans import LANES
from cute_py.plan.setmaxnreg import registers_at_launch

if TYPE_CHECKING:
    from cute_py.emulate.clocks import Clocks
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.spans import Array, Clusters, Span, Spans, Value
    from cute_py.plan.ops import Promise, SetMaxNReg

# promise, count -> the values of groups of threads, and the threads that came first
Agreed: TypeAlias = dict[tuple[int, int], tuple["Array", "Array"]]
FIXES = {
    "apart": "branch on the warpgroup: with cute.when(cute.warp_idx() // 4 == 0): ...",
    "kind": 'name the other one, "inc" or "dec"; cute.role(..., registers=) chooses it',
    "again": "put cute.named_barrier(id, 128) between the two",
}


class Promises:
    """The values that threads of a batch have promised to share. Where all threads of the scope get
    there at once, nothing is kept.
    """

    def __init__(
        self, grid: Agreed, faults: Faults, clusters: Clusters, blocks: int, warps: int
    ) -> None:
        """Begin; `grid`: the values of the whole grid, which all batches of a run keep together."""
        self.grid, self.faults, self.clusters = grid, faults, clusters
        self.blocks, self.warps = blocks, warps
        # promise -> how often each thread got there [block, warp, lane]
        self.counts: dict[int, Array] = {}
        self.kept: Agreed = {}

    def check(self, span: Span, active: Array, op: Promise, value: Value) -> None:
        """Compare the values of lanes with each other, and with those of lanes before."""
        shape, first = (self.blocks, self.warps, LANES), self.faults.first
        counts = self.counts.setdefault(id(op), np.zeros(shape, np.int64))
        groups, total = self._groups(span, op.scope)
        held = np.broadcast_to(np.asarray(value, np.int64), span.shape)
        times = counts[span.B[:, None], span.W]
        own = (span.B[:, None, None] * self.warps + span.W[None, :, None]) * LANES
        threads = own + np.arange(LANES)
        whole = bool(active.all()) and self._whole(span, op.scope)
        kept = self.grid if op.scope == "grid" else self.kept
        for n in np.unique(times[active]).tolist():
            here = active & (times == n)
            none = np.full(total, -1), np.full(total, -1)  # values, threads
            values, witness = none if whole else kept.setdefault((id(op), n), none)
            g, v, t = groups[here], held[here], threads[here] + first * self.warps * LANES
            new = witness[g] < 0
            values[g[new]], witness[g[new]] = v[new], t[new]
            if (values[g] != v).any():
                at = np.argmax(here & (values[groups] != held))
                where = tuple(int(i) for i in np.unravel_index(at, span.shape))
                group = groups[where]
                raise self._fault(op, span, where, held[where], values[group], witness[group])
        counts[span.B[:, None], span.W] += active

    def _fault(
        self,
        op: Promise,
        span: Span,
        where: tuple[int, ...],
        value: Array,
        other: Array,
        thread: Array,
    ) -> Exception:
        block, thread = divmod(int(thread), self.warps * LANES)
        others = f"block {self.faults.block(block - self.faults.first)}, thread {thread}"
        facts = {"name": str(op.value), "value": int(value), "other": int(other)}
        more = {"scope": op.scope, "others": others}
        return self.faults.at("emulate-uniform", op, span, where, **facts, **more)

    def _groups(self, span: Span, scope: str) -> tuple[Array, int]:
        """Return the number of each thread's group in the batch, and the number of groups."""
        blocks, warps = span.B[:, None, None], span.W[None, :, None]
        if scope == "grid":
            groups, total = np.zeros_like(blocks), 1
        elif scope == "cluster":
            of = self.clusters.of
            groups, total = of[blocks], int(of.max()) + 1
        elif scope == "block":
            groups, total = blocks, self.blocks
        else:
            wide = 4 if scope == "warpgroup" else 1
            count = -(-self.warps // wide)
            groups, total = blocks * count + warps // wide, self.blocks * count
        return np.broadcast_to(groups, span.shape), total

    def _whole(self, span: Span, scope: str) -> bool:
        """Return whether a span has all threads of each group that it has a thread of."""
        if scope in ("grid", "cluster"):
            return False
        return scope == "warp" or span.nW == self.warps


class MaxNReg:
    """What the warps of every block asked for by setmaxnreg, one number after the other, and the
    registers of a thread that they have.
    """

    def __init__(self, warps: int, clocks: Clocks | None, faults: Faults) -> None:
        self.warps, self.clocks, self.faults = warps, clocks, faults
        self.first = registers_at_launch(self.faults.plan.launch)
        self.asked: dict[tuple[int, int], list[tuple[SetMaxNReg, int]]] = {}  # with stamps
        self.held: dict[tuple[int, int], int] = {}

    def fits(self, b: int, warps: list[int], n: int) -> bool:
        """Tell whether a block has released enough for these warps to have n each."""
        each = [n if w in warps else self.held.get((b, w), self.first) for w in range(self.warps)]
        return sum(each) <= self.first * self.warps

    def take(self, span: Span, n: int) -> None:
        """Let warps have n registers."""
        self.held.update(dict.fromkeys(product(span.B.tolist(), span.W.tolist()), n))

    def ask(self, span: Span, op: SetMaxNReg) -> None:
        """Let warps ask; refuse another number than others of the warpgroup asked for, one that is
        on the wrong side of what they have, and warps that have not synchronised since the last.
        """
        for row, b in enumerate(span.B.tolist()):
            for column, w in enumerate(span.W.tolist()):
                where, held = (row, column), self.held.get((b, w), self.first)
                if op.n < held if op.kind == "inc" else op.n > held:
                    why = f"{op.kind} from {held}"
                    raise self._refusal(op, span, where, why, FIXES["kind"])
                own = self.asked.setdefault((b, w), [])
                for other in self._others(w):
                    theirs = self.asked.get((b, other), [])
                    if len(theirs) > len(own) and theirs[len(own)][0].n != op.n:
                        raise self._apart(op, span, where, other, theirs[len(own)][0].n)
                    if other != w and own:
                        self._require_known(op, span, where, other, theirs[len(own) - 1 :])
                own.append((op, self._stamp(b, w)))

    def _stamp(self, b: int, w: int) -> int:
        clocks = self.clocks
        assert clocks is not None  # the check needs them
        row = np.array([b if clocks.rows > 1 else 0])
        return int(clocks.stamps(row, np.array([w * LANES]))[0])

    def _require_known(
        self,
        op: SetMaxNReg,
        span: Span,
        where: tuple[int, int],
        other: int,
        last: list[tuple[SetMaxNReg, int]],
    ) -> None:
        """Refuse to ask again before it is known that another warp has asked: `last`, if it has."""
        who = int(span.B[where[0]]), int(span.W[where[1]]), 0
        clocks = self.clocks
        assert clocks is not None
        if not last or not clocks.knows(who, who[0], last[0][1], alone=False, what=RUN):
            why = f"which nothing orders after the one before of warp {other}"
            raise self._refusal(op, span, where, why, FIXES["again"])

    def require_together(self, spans: Spans) -> None:
        """Refuse, once all threads have ended, what some warps of a warpgroup did not come to."""
        for (b, w), own in self.asked.items():
            for other in self._others(w):
                if len(self.asked.get((b, other), [])) < len(own):
                    span = spans.of(np.array([b]), np.array([w]))
                    raise self._apart(own[-1][0], span, (0, 0), other, "no number")

    def _others(self, w: int) -> range:
        first = w // 4 * 4
        return range(first, min(first + 4, self.warps))

    def _apart(
        self, op: SetMaxNReg, span: Span, where: tuple[int, int], other: int, theirs: int | str
    ) -> Exception:
        why = f"while warp {other} of its warpgroup asked for {theirs}"
        return self._refusal(op, span, where, why, FIXES["apart"])

    def _refusal(
        self, op: SetMaxNReg, span: Span, where: tuple[int, int], why: str, fix: str
    ) -> Exception:
        return self.faults.at("emulate-setmaxnreg", op, span, where, count=op.n, why=why, fix=fix)
