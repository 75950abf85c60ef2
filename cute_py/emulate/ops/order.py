"""Order: barriers of warps, blocks and clusters, mbarriers, fences, waits for memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.access import Located, slots_of, taking_part
from cute_py.emulate.cohorts import Cohort, Run, Signal, Wait, split
from cute_py.emulate.divergence import running
from cute_py.emulate.faults import first
from cute_py.emulate.observed import writes_to
from cute_py.emulate.phases import APART
from cute_py.emulate.program import Program, fitting, handles
from cute_py.emulate.regions import THREADS
from cute_py.emulate.releases import places_of
from cute_py.emulate.scalars import TESTS, uniform
from cute_py.emulate.spans import LANES, Array, Span, Value
from cute_py.emulate.storages import Place
from cute_py.plan import ops
from cute_py.plan.functions import integers_of

if TYPE_CHECKING:
    from cute_py.emulate.clocks import Acting
    from cute_py.emulate.scalars import Evaluated

# -- barriers of a block


class BarrierWait(Wait):
    """A wait for a barrier of the block."""

    reason = False

    def __init__(self, op: ops.Barrier, c: Cohort, ids: Array, phases: Array, threads: int) -> None:
        """Remember which phase of which barrier each block of the cohort waits for."""
        super().__init__(op)
        self.whole, self.threads = op.scope == "block", threads
        self.wanted = {
            int(b): (int(number), int(phase))
            for b, number, phase in zip(c.span.B, ids, phases, strict=True)
        }

    def ready(self, c: Cohort) -> bool | Array:
        """Return which blocks have met."""
        wanted = [(b, *self.wanted[b]) for b in c.span.B.tolist()]
        phases = c.batch.barriers.phase
        done = np.array([bool(phases[b, number] >= phase) for b, number, phase in wanted])
        return bool(done[0]) if done.all() or not done.any() else done[:, None]

    def describe(self, c: Cohort) -> str:
        """Return the barrier and who has come."""
        b = int(c.span.B[0])
        number = self.wanted[b][0]
        arrived = int(c.batch.barriers.arrived[b, number])
        return f"barrier {number}, where {arrived} of {self.threads} threads have arrived"

    def ended_by(self, op: ops.Op) -> bool:
        """Return whether an op is one at the barrier."""
        own = self.op
        if not isinstance(op, ops.Barrier) or not isinstance(own, ops.Barrier):
            return False
        return (op.scope, op.id) == (own.scope, own.id)


@handles(ops.Barrier)
def barrier(program: Program, op: ops.Barrier) -> Run:
    """Meet, arrive at, or wait for a barrier."""
    if op.scope == "warp":
        return _warp_barrier(program, op)
    if op.scope == "cluster":
        return of_whole_warps(_cluster_barrier(program, op))
    number = program.scalar(op.id)
    most = program.warps * LANES

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        _require_whole(op, c)
        ids = uniform(number(c), None)
        per_warp = np.broadcast_to(ids, c.span.shape)[..., 0]
        if op.scope == "named" and op.id.__class__ is not int:
            per_warp = _named_ids(op, c, ids)
            if (per_warp != per_warp[:, :1]).any():
                return split(c, per_warp)
        rows = per_warp[:, 0]
        barriers = c.batch.barriers
        if op.scope == "named":
            threads = np.full(c.span.nB, op.threads)
        else:
            threads = barriers.everyone(c.span.B)
        whole = op.kind == "sync" and (op.scope == "block" or op.threads == most)
        if whole and not isinstance(ids, np.ndarray) and barriers.whole(c.span, ids, threads):
            barriers.phase[c.span.B, ids] += 1
            if c.batch.clocks is not None:
                c.batch.clocks.meet(c.batch.clocks.acting(c.span, c.mask))
            return None
        return arrive_at_barrier(op, c, rows, threads)

    return of_whole_warps(run)


def arrive_at_barrier(op: ops.Barrier, c: Cohort, rows: Array, threads: Array) -> Signal | None:
    """Arrive at barriers of each block, and wait for them."""
    barriers, clocks = c.batch.barriers, c.batch.clocks
    if op.scope == "block":
        barriers.require_one(c.span, op)
    if clocks is not None:
        clocks.apart()
    phases = barriers.arrive(c.span, acting(c), rows, threads, op.kind != "arrive", op)
    if op.kind == "arrive":
        return None
    c.wait = BarrierWait(op, c, rows, phases, int(threads[0]))
    return Signal.BLOCKED


def acting(c: Cohort) -> Acting | None:
    """Return the threads that take part, for the clocks."""
    clocks = c.batch.clocks
    return None if clocks is None else clocks.acting(c.span, c.mask)


def of_whole_warps(run: Run) -> Run:
    """Return what whole warps do: those of which no lane takes part are left out."""

    def gathered(c: Cohort) -> Signal | list[Cohort] | None:
        if c.mask is None:
            return run(c)
        some = np.broadcast_to(c.mask, c.span.shape).any(-1)
        if some.all():
            return run(c)
        if some.any():
            return split(c, some)
        return None if running(c).any() else Signal.ENDED

    return gathered


def _named_ids(op: ops.Barrier, c: Cohort, ids: Value) -> Array:
    """Return the id of each warp [block, warp]; refuse one that no named barrier has, and lanes of
    one warp with different ones.
    """
    each, here = np.broadcast_to(np.asarray(ids), c.span.shape), running(c)
    lead = np.take_along_axis(each, here.argmax(-1)[..., None], axis=2)
    low, high = op.ids
    bad = here & ((each < low) | (each > high) | (each != lead))
    if bad.any():
        where = first(bad, c.span)
        facts = {"id": int(each[where]), "other": int(lead[where[0], where[1], 0])}
        raise c.fault("emulate-barrier-id", op, where, **facts)
    return lead[..., 0]


def _require_whole(op: ops.Op, c: Cohort) -> None:
    """Refuse a barrier that some lanes of a warp do not reach, though they have not returned."""
    if c.mask is None:
        return
    bad = running(c) & ~c.mask
    if bad.any():
        where = first(bad, c.span)
        others = f"lane {where[2]} and others of the warp took another branch"
        raise c.fault("emulate-barrier-divergent", op, where[:2], others=others)


def require_warps(op: ops.Op, c: Cohort) -> None:
    """Refuse a warp instruction that a part of a warp executes."""
    if c.mask is not None and not c.mask.all():
        _require_with(op, c, ~c.mask)


def require_lanes(program: Program, op: ops.Op, c: Cohort) -> None:
    """Refuse an op that waits for all lanes of the warp where some neither come nor have ended."""
    if c.mask is not None and "convergence" in program.checks:
        _require_with(op, c, running(c) & ~c.mask)


def _require_with(op: ops.Op, c: Cohort, away: Array) -> None:
    """Refuse lanes that are away from an op of their warp."""
    bad = away & np.asarray(c.mask).any(-1, keepdims=True)
    if bad.any():
        raise c.fault("emulate-warp-divergent", op, first(bad, c.span), name=op.call)


def _warp_barrier(program: Program, op: ops.Barrier) -> Run:
    """Compile a barrier of each warp: of all its lanes that have not returned."""

    def run(c: Cohort) -> None:
        require_lanes(program, op, c)
        if c.batch.clocks is not None:
            c.batch.clocks.meet_warps(c.batch.clocks.acting(c.span, c.mask))

    return run


# -- the barrier of all blocks of a cluster


class ClusterWait(Wait):
    """A wait for all blocks of a cluster."""

    def ready(self, c: Cohort) -> bool | Array:
        """Return the warps whose arrival is complete."""
        barriers = c.batch.barriers
        phases = barriers.cluster_phase[barriers.clusters.of[c.span.B]]
        done = phases[:, None] > barriers.cluster_seen[c.span.B[:, None], c.span.W]
        return bool(done.flat[0]) if done.all() or not done.any() else done

    def describe(self, c: Cohort) -> str:
        """Return who has come."""
        cluster = int(c.batch.barriers.clusters.of[c.span.B[0]])
        arrived = int(c.batch.barriers.cluster_arrived[cluster])
        return f"the barrier of its cluster, where {arrived} threads have arrived"

    def ended_by(self, op: ops.Op) -> bool:
        """Return whether an op arrives there."""
        return isinstance(op, ops.Barrier) and op.scope == "cluster"

    def wake(self, c: Cohort) -> None:
        """Take what the blocks of the cluster know."""
        clocks = c.batch.clocks
        if clocks is not None:
            clocks.apart()
            who = clocks.acting(c.span, c.mask)
            of = c.batch.barriers.clusters.of[who.rows]
            clocks.acquire(who, clocks.messages["clusters"][of])


def _cluster_barrier(program: Program, op: ops.Barrier) -> Run:
    """Compile a barrier of a cluster."""
    wait, kind = ClusterWait(op), op.kind

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        _require_whole(op, c)
        if kind != "wait":
            c.batch.barriers.arrive_cluster(c.span, acting(c))
        if kind == "arrive":
            return None
        ready = wait.ready(c)
        if ready is True:
            wait.wake(c)
            return None
        c.wait = wait
        return Signal.BLOCKED

    return run


# -- mbarriers


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Lanes of a warp that do the same: the first of them (row of block, row of warp, lane), all
    of them [lane], and what they have in common.
    """

    where: tuple[int, int, int]
    lanes: Array
    keys: tuple[int, ...]

    @property
    def bits(self) -> int:
        """The lanes as bits."""
        return int.from_bytes(np.packbits(self.lanes, bitorder="little").tobytes(), "little")


def threads_of(c: Cohort, place: Place) -> Iterator[tuple[int, int, int]]:
    """Yield row of block, row of warp and lane of each thread that takes part."""
    active = c.active()
    if place.guard is not None:
        active = active & place.guard[..., 0]
    for b, w, lane in np.argwhere(active):
        yield int(b), int(w), int(lane)


def value_at(value: Value, where: tuple[int, int, int], shape: tuple[int, int, int]) -> int:
    """Return a value of one thread."""
    return int(np.broadcast_to(np.asarray(value), shape)[where])


def groups_of(c: Cohort, active: Array, *keys: Array) -> Iterator[Group]:
    """Yield the lanes of each warp that take part, those with the same keys together.

    Args:
        c: the cohort.
        active: [block, warp, lane], the lanes that take part.
        keys: arrays that broadcast to them.
    """
    held = np.stack([np.broadcast_to(key, c.span.shape) for key in keys], -1)
    lead = active.argmax(-1)
    first = np.take_along_axis(held, lead[..., None, None], axis=2)
    alike = ((held == first).all(-1) | ~active).all(-1)
    values, leads, alike = first[:, :, 0].tolist(), lead.tolist(), alike.tolist()
    for row, warp in np.argwhere(active.any(-1)).tolist():
        lanes = active[row, warp]
        if alike[row][warp]:
            yield Group((row, warp, leads[row][warp]), lanes, tuple(values[row][warp]))
            continue
        for value in np.unique(held[row, warp][lanes], axis=0):
            some = lanes & (held[row, warp] == value).all(-1)
            yield Group((row, warp, int(some.argmax())), some, tuple(value.tolist()))


@handles(ops.MbarInit)
@handles(ops.MbarInval)
def mbar_init(program: Program, op: ops.MbarInit | ops.MbarInval) -> Run:
    """Make or end an mbarrier."""
    located = program.access(op.bar, op, unit=8, counted=False)

    def run(c: Cohort) -> None:
        place = located(c)
        slots, bars = slots_of(located, c, place), c.batch.mbarriers
        for where in threads_of(c, place):
            if isinstance(op, ops.MbarInit):
                bars.init(op, c.span, where, int(slots[where]), op.count)
            else:
                bars.inval(op, c.span, where, int(slots[where]))
        located.judge_write(c, place)
        is_new = isinstance(op, ops.MbarInit)
        for where in threads_of(c, place):
            bars.keep(int(c.span.B[where[0]]), int(slots[where]), located, is_new)

    return run


@handles(ops.MbarArrive)
def mbar_arrive(program: Program, op: ops.MbarArrive) -> Run:
    """Arrive, each thread once, and announce bytes."""
    located = program.access(op.bar, op, unit=8, counted=False)
    rank = None if op.cluster_rank is None else program.scalar(op.cluster_rank)

    def run(c: Cohort) -> None:
        place, phases = located(c), c.batch.mbarriers.phases
        keys, chosen = [slots_of(located, c, place)], taking_part(c, place)
        several = place.offsets.shape[2] > 1
        if rank is not None:
            keys.append(np.asarray(rank(c)))
            several = several or keys[1].size > 1
        if phases is not None:
            phases.begin_arrivals(c.span, chosen, c.done, several and c.met == c.done)
        for group in groups_of(c, chosen, *keys):
            b = int(c.span.B[group.where[0]])
            if rank is not None:
                b = c.peer(op, group.where, int(group.keys[1]))
            arrive(op, c, group, (b, group.keys[0]), op.bytes)

    return run


def arrive(
    op: ops.Op,
    c: Cohort,
    group: Group,
    at: tuple[int, int],
    nbytes: int,
    copies: bool = False,
) -> None:
    """Let lanes of a warp arrive at an mbarrier of a block: `at`, block and slot; `copies`: once
    their cp.asyncs are complete.
    """
    bars, clocks, (b, slot) = c.batch.mbarriers, c.batch.clocks, at
    row, warp, _ = group.where
    bars.use(op, c.span, group.where, group.bits, at)
    pending, several = int(bars.pending[b, slot]), int(group.lanes.sum())
    if pending == 0:
        name, count = c.batch.agents.mbarrier(slot), int(bars.count[b, slot])
        raise c.fault("emulate-mbarrier-arrivals", op, group.where, name=name, count=count)
    if pending < several or (several > 1 and bars.bytes[b, slot] + nbytes == 0 and nbytes):
        some = group.lanes & (np.cumsum(group.lanes) <= max(1, min(pending, several - 1)))
        for lanes in (some, group.lanes & ~some):
            part = Group((row, warp, int(lanes.argmax())), lanes, group.keys)
            arrive(op, c, part, at, nbytes, copies)
        return
    if bars.phases is not None:
        bars.phases.arrive(op, c.span, group.where, group.lanes, at, copies or nbytes > 0)
    if clocks is not None:
        own, w = int(c.span.B[row]), int(c.span.W[warp])
        who = clocks.lanes_of(own, w, group.lanes)
        if own != b and c.batch.engines is not None:
            c.batch.engines.reach(op, c.span, group.where, b)
        bars.release(who, at, copies)
    bars.pending[b, slot] -= several
    bars.bytes[b, slot] += several * nbytes
    bars.settle(b, slot)


@handles(ops.CpArrive)
def cp_arrive(program: Program, op: ops.CpArrive) -> Run:
    """Arrive when the thread's cp.asyncs are complete."""
    located = program.access(op.bar, op, unit=8, counted=False)

    def run(c: Cohort) -> None:
        place, phases = located(c), c.batch.mbarriers.phases
        chosen = taking_part(c, place)
        if phases is not None:
            phases.begin_arrivals(c.span, chosen, APART, False)
        for group in groups_of(c, chosen, slots_of(located, c, place)):
            b = int(c.span.B[group.where[0]])
            arrive(op, c, group, (b, group.keys[0]), 0, copies=True)

    return run


class PhaseWait(Wait):
    """A wait for a phase of an mbarrier."""

    def __init__(self, op: ops.Op, located: Located, parity: Evaluated) -> None:
        super().__init__(op)
        self.located, self.parity = located, parity

    def _lanes(self, c: Cohort) -> tuple[Array, Array, Array]:
        """Return slot and parity [block, warp, lane], and the lanes that wait."""
        place = self.located(c)
        parity = np.broadcast_to(np.asarray(self.parity(c)), c.span.shape)
        return slots_of(self.located, c, place), parity, taking_part(c, place)

    def _first(self, c: Cohort) -> tuple[int, int, int, int]:
        """Return block, slot, parity and row of warp of a lane that waits for an open phase."""
        slots, parity, waits = self._lanes(c)
        phase = c.batch.mbarriers.phase[c.span.B[:, None, None], slots]
        row, warp, lane = np.argwhere(waits & ((phase & 1) == parity & 1))[0].tolist()
        where = row, warp, lane
        return int(c.span.B[row]), int(slots[where]), int(parity[where]) & 1, warp

    def lanes(self, c: Cohort) -> Array:
        """Return the lanes whose phase is complete, or that do not wait."""
        slots, parity, waits = self._lanes(c)
        phase = c.batch.mbarriers.phase[c.span.B[:, None, None], slots]
        done: Array = ((phase & 1) != parity & 1) | ~waits
        return done

    def ready(self, c: Cohort) -> bool | Array:
        """Return the warps whose lanes all wait for phases that are complete."""
        done = self.lanes(c).all(-1)
        return bool(done.flat[0]) if done.all() or not done.any() else done

    def describe(self, c: Cohort) -> str:
        """Return what the mbarrier still needs."""
        b, slot, parity, _ = self._first(c)
        bars = c.batch.mbarriers
        missing = f"{int(bars.pending[b, slot])} of {int(bars.count[b, slot])} arrivals"
        left = int(bars.bytes[b, slot])
        if left:
            missing += f" and {left} bytes" if left > 0 else f" and has {-left} bytes too many"
        return f"phase {parity} of {c.batch.agents.mbarrier(slot)}, which lacks {missing}"

    def ended_by(self, op: ops.Op) -> bool:
        """Return whether an op arrives at the mbarrier, or loads for it."""
        if not isinstance(op, ops.MbarArrive | ops.CpArrive | ops.TmaLoad):
            return False
        return op.bar.storage == self.located.access.storage

    def mismatch(self, c: Cohort) -> dict[str, Any] | None:
        """Return the facts of a wrong count of bytes: all have arrived, and bytes are left."""
        slots, _, waits = self._lanes(c)
        bars = c.batch.mbarriers
        b = c.span.B[:, None, None]
        left = np.where(waits & (bars.pending[b, slots] == 0), bars.bytes[b, slots], 0)
        if not left.any():
            return None
        where = tuple(np.argwhere(left)[0].tolist())
        n = int(left[where])
        what = f"waits for {n} bytes more" if n > 0 else f"got {-n} bytes more"
        name = c.batch.agents.mbarrier(int(slots[where]))
        return {"where": where[:2], "name": name, "what": what}

    def wake(self, c: Cohort) -> None:
        """Take the clocks of those who arrived."""
        clocks = c.batch.clocks
        if clocks is None:
            return
        slots, _, waits = self._lanes(c)
        for group in groups_of(c, waits, slots):
            row, warp, _ = group.where
            b, phases = int(c.span.B[row]), c.batch.mbarriers.phases
            who = clocks.lanes_of(b, int(c.span.W[warp]), group.lanes)
            if phases is not None:
                phases.passed(self.op, c.span, group.where, group.lanes, (b, group.keys[0]))
            clocks.acquire(who, clocks.messages["complete"][b, group.keys[0]])


@handles(ops.MbarWait)
def mbar_wait(program: Program, op: ops.MbarWait) -> Run:
    """Wait for a phase."""
    located = program.access(op.bar, op, unit=8, counted=False)
    wait = PhaseWait(op, located, program.scalar(op.phase))

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        place, bars = located(c), c.batch.mbarriers
        for group in groups_of(c, taking_part(c, place), slots_of(located, c, place)):
            b = int(c.span.B[group.where[0]])
            bars.use(op, c.span, group.where, group.bits, (b, group.keys[0]))
        ready = wait.ready(c)
        if isinstance(ready, np.ndarray):
            return split(c, ready)
        if ready:
            wait.wake(c)
            return None
        c.wait = wait
        return Signal.BLOCKED

    return run


# -- fences and waits for memory


@handles(ops.Fence)
def fence(program: Program, op: ops.Fence) -> Run:
    """Order memory: stores are seen at once here, so that only the clocks learn of it."""
    if op.kind not in ("proxy_async", "mbarrier_init"):
        return thread_fence(op) if program.resources.traffic.releases else lambda c: None

    def run(c: Cohort) -> None:
        clocks = c.batch.clocks
        if clocks is None:
            return
        if op.kind == "proxy_async":
            clocks.fence(clocks.acting(c.span, c.mask))
        else:
            c.batch.mbarriers.fence_inits(clocks.acting(c.span, c.mask))

    return run


def thread_fence(op: ops.Fence) -> Run:
    """Acquire what threads have found, and keep what they know for their atomics."""

    def run(c: Cohort) -> None:
        clocks, releases = c.batch.clocks, c.batch.releases
        if clocks is not None and releases is not None:
            threads = (c.span.W * LANES)[:, None] + np.arange(LANES)
            ids = (c.span.B << THREADS)[:, None, None] | threads
            chosen = c.active() & c.batch.agents.exist[c.span.W]
            releases.fence(ids[chosen], op.kind, clocks.acting(c.span, c.mask))

    return run


@handles(ops.GridDep)
def grid_dep(program: Program, op: ops.GridDep) -> Run:
    """Remember who has waited: kernels run one after the other here."""
    if op.kind != "wait" or not program.resources.early:
        return lambda c: None

    def run(c: Cohort) -> None:
        if c.batch.clocks is not None:
            c.batch.clocks.wait_for_kernels(c.batch.clocks.acting(c.span, c.mask))

    return run


class RegisterWait(Wait):
    """A wait for registers that other warps of the block release."""

    def __init__(self, op: ops.SetMaxNReg) -> None:
        super().__init__(op)
        self.n = op.n

    def ready(self, c: Cohort) -> bool | Array:
        """Return the blocks that have enough."""
        fits, warps = c.batch.maxnreg.fits, c.span.W.tolist()
        found = np.array([[fits(b, warps, self.n)] for b in c.span.B.tolist()])
        return bool(found.flat[0]) if found.all() or not found.any() else found

    def describe(self, c: Cohort) -> str:
        """Return what is asked for."""
        return f"{self.n} registers a thread, which other warps have not released"

    def ended_by(self, op: ops.Op) -> bool:
        """Return whether an op releases registers."""
        return isinstance(op, ops.SetMaxNReg) and op.kind == "dec"

    def wake(self, c: Cohort) -> None:
        """Take them."""
        c.batch.maxnreg.take(c.span, self.n)


@handles(ops.SetMaxNReg)
def set_max_nreg(program: Program, op: ops.SetMaxNReg) -> Run:
    """Remember who asked for how many: warpgroups must do so together. Wait for them."""
    wait = RegisterWait(op)

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        require_warps(op, c)
        ready = wait.ready(c)
        if isinstance(ready, np.ndarray):
            return split(c, ready)
        if "convergence" in program.checks:
            c.batch.maxnreg.ask(c.span, op)
        if ready:
            wait.wake(c)
            return None
        c.wait = wait
        return Signal.BLOCKED

    return run


class ValueWait(Wait):
    """A wait for a value in memory."""

    def __init__(self, op: ops.WaitUntil, located: Located, value: Evaluated) -> None:
        super().__init__(op)
        self.kind = op.src.dtype
        self.located, self.value, self.test = located, value, TESTS[op.test]
        self.words = f"{op.src.storage} {SIGNS[op.test]} {op.value}"
        self.known: tuple[Span, Array | None] | None = None  # for whom what is looked at is known
        self.place: Any = None
        self.wanted: Value = 0

    def seen(self, c: Cohort) -> Array:
        """Return the values [block, warp, lane] that are looked at."""
        if self.known is None or self.known[0] is not c.span or self.known[1] is not c.mask:
            self.known = c.span, c.mask
            self.place, self.wanted = self.located(c), self.value(c)
            if self.kind.is_float:  # rounded, as a GPU does
                self.wanted = np.asarray(self.wanted, np.int64).astype(self.kind.numpy)
        values: Array = self.located.load(c, self.place)[..., 0]
        return values

    def ready(self, c: Cohort) -> bool | Array:
        """Return the warps whose lanes all see the value."""
        done = np.asarray(self.test(self.seen(c), self.wanted))
        if done.size == 1 and not done.any():
            return False
        if c.mask is not None:
            done = done | ~c.mask
        warps = np.broadcast_to(done, c.span.shape).all(-1)
        return bool(warps.flat[0]) if warps.all() or not warps.any() else warps

    def lanes(self, c: Cohort) -> Array:
        """Return the lanes that see the value."""
        return np.broadcast_to(self.test(self.seen(c), self.wanted), c.span.shape)

    def describe(self, c: Cohort) -> str:
        """Return the condition, and what a thread sees."""
        seen, wanted = self.seen(c), self.wanted
        words = self.words if np.ndim(wanted) else self.words.rpartition(" ")[0] + f" {wanted}"
        lanes = np.broadcast_to(seen, c.span.shape)[c.active()]
        return f"{words}, which is {lanes[0]}"

    def ended_by(self, op: ops.Op) -> bool:
        """Return whether an op writes to the element, or to others of its storage."""
        return writes_to(op, {self.located.access.storage})

    def wake(self, c: Cohort) -> None:
        """Acquire what was released with the value."""
        touch = self.located.judge_read(c, self.located(c))
        if touch is not None and c.batch.releases is not None:
            c.batch.releases.acquire(places_of(touch))


SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _fitted(program: Program, op: ops.WaitUntil) -> Evaluated:
    """Compile the value; one that the type of the element does not hold is refused."""
    kind, value = op.src.dtype, program.scalar(op.value)
    require = fitting(op.value, kind, op, integers_of(kind))

    def fitted(c: Cohort) -> Value:
        found = value(c)
        if require is not None:
            require(c, found)
        return found

    return fitted


@handles(ops.WaitUntil)
def wait_until(program: Program, op: ops.WaitUntil) -> Run:
    """Wait until an element of memory compares."""
    located, value = program.access(op.src, op, counted=False), _fitted(program, op)
    located.keeps = False
    once = program.access(op.src, op)  # however often it looks, which is up to the order

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        wait = ValueWait(op, located, value)
        ready = wait.ready(c)
        if isinstance(ready, np.ndarray):
            return split(c, ready)
        if ready:
            once(c)
            wait.wake(c)
            return None
        located.judge_read(c, once(c))  # a plain store to it races
        c.wait = wait
        return Signal.BLOCKED

    return run
