"""The clocks of the emulator against a plain model of happens-before, on random kernels.

A kernel is a list of steps that threads of two blocks of two warps execute under a mask. They write
and read elements of shared memory, copy them asynchronously, store them with TMA, meet, and return;
in a cluster the blocks meet, arrive at each other's mbarriers, and multicast. The model keeps for
each thread what it knows of every single access. The emulator must refuse a kernel exactly where
the model finds two accesses of one element, one of them a write, that nothing orders, a fence that
is missing, a TMA store that nobody waits for, or a block that others may reach when it has ended;
in whatever order it runs. Lanes of a warp may store one number to one element at once, and read it
then, but not values that are equal by chance.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cute_py.atoms.registry import get_copy
from cute_py.emulate import emulate
from cute_py.errors import EmulationError
from tests.emulated.plans import Maker, at, bid_x, box_of, less, ops, same, tid
from tests.sampling import fewer

WIDTH, BLOCKS = 64, 2  # threads of a block
THREADS = WIDTH * BLOCKS
T, BLOCK = np.arange(THREADS) % WIDTH, np.arange(THREADS) // WIDTH
ORDERS = ("forward", "reversed", 0, 1)
MOST = 14  # steps
COPY, BULK, LOAD = THREADS, 2 * THREADS, 3 * THREADS  # the agents: threads, their copies, ...
AGENTS = LOAD + MOST * BLOCKS
CP4 = get_copy("SM80_CP_ASYNC_CACHEALWAYS<32>")

MASKS = {  # the condition, and the threads
    "all": (None, T >= 0),
    "first warp": (less(tid, 32), T < 32),
    "quarter": (less(tid, 16), T < 16),
    "some": (less(tid, 40), T < 40),
    "odd": (same(tid % 2, 1), T % 2 == 1),
    "one": (same(tid, 0), T == 0),
    "another": (same(tid, 33), T == 33),
    "more in block 1": (less(tid, 16 + 28 * bid_x), T < 16 + 28 * BLOCK),
}
PLACES = {
    "own": (tid, T),
    "reversed": (63 - tid, 63 - T),
    "in the warp": (tid // 32 * 32 + 31 - tid % 32, T // 32 * 32 + 31 - T % 32),
    "next": ((tid + 1) % 64, (T + 1) % 64),
    "swapped": (tid // 2 * 2 + 1 - tid % 2, T ^ 1),
    "one": (tid * 0, 0 * T),
    "pairs": (tid // 2, T // 2),
}
SHARED = ("one", "pairs")  # by several threads
KINDS = (
    ("write", "read", "copy", "store", "number", "chance"),
    ("syncwarp", "syncthreads", "hand over", "arrive", "await", "fence", "return"),
    ("commit", "wait 0", "wait 1", "commit stores", "wait for stores"),
)
OF_CLUSTERS = (*KINDS[:2], ("cluster sync", "tell", "answer", "multicast", "await", "fence"))
TELLS = {"tell": 0, "answer": 1}  # the block that arrives at the mbarriers of both
CODES = ("lanes", "race", "copy-pending", "async-pending", "proxy-fence", "block-end")


@dataclass(frozen=True)
class Step:
    """What threads of a mask do: at a place, or with a barrier of this number."""

    kind: str
    mask: str = "all"
    place: str = "own"
    bar: int = 0


class Model:
    """What each thread knows of each agent's accesses: how many of them are ordered before, and of
    how many the asynchronous proxy of each block knows.
    """

    def __init__(self):
        self.known = np.zeros((1 + BLOCKS, THREADS, AGENTS), np.int64)
        self.count = np.zeros(AGENTS, np.int64)
        self.alive = np.ones(THREADS, np.bool_)
        self.open = [[] for _ in range(AGENTS)]
        self.groups = [[] for _ in range(AGENTS)]
        self.writes = [[] for _ in range(THREADS)]
        self.reads = [[] for _ in range(THREADS)]
        self.bars = np.zeros((MOST, BLOCKS, 1 + BLOCKS, AGENTS), np.int64)
        self.reached = []  # block, agent, number
        self.wrong, self.steps = False, 0

    def touch(self, thread, element, write, agent=None, number=False):
        """Judge and count an access, by a thread or by an engine that it asks; `number`: a store of
        one number.
        """
        engine = agent is not None
        agent = agent if engine else thread
        own = {step for who, _, step in self.writes[element] if who == thread and not engine}
        step = (self.steps, thread // 32) if number else None
        alike = {step} if write else own
        others = [(who, n) for who, n, s in self.writes[element] if s is None or s not in alike]
        others += self.reads[element] if write else []
        late = [self.known[0, thread, who] < n for who, n in others]
        if engine and agent >= BULK:
            fenced = self.known[1 + BLOCK[thread], thread]
            late += [fenced[who] < n for who, n, _ in self.writes[element] if who < BULK]
        self.wrong |= any(late)
        self.count[agent] += 1
        if write:
            self.writes[element].append((agent, self.count[agent], step))
        else:
            self.reads[element].append((agent, self.count[agent]))
        if engine:
            self.open[agent].append(self.count[agent])
        else:
            self.known[0, thread, agent] = self.count[agent]

    def meet(self, *groups):
        for threads in groups:
            if len(threads):
                self.known[:, threads] = self.known[:, threads].max(axis=1, keepdims=True)

    def commit(self, threads, engine):
        for agent in threads + engine:
            self.groups[agent].append(self.open[agent])
            self.open[agent] = []

    def wait(self, threads, engine, n):
        for t in threads:
            agent = t + engine
            done = self.groups[agent][: len(self.groups[agent]) - n]
            last = max((number for group in done for number in group), default=0)
            self.known[0, t, agent] = max(self.known[0, t, agent], last)

    def arrive(self, threads, bar, block):
        told = self.known[:, threads].max(axis=1)
        self.bars[bar, block] = np.maximum(self.bars[bar, block], told)

    def run(self, step):
        chosen, known = MASKS[step.mask][1] & self.alive, self.known
        threads, kind = np.flatnonzero(chosen), step.kind
        blocks = [np.flatnonzero(chosen & (b == BLOCK)) for b in range(BLOCKS)]
        self.steps += 1
        if kind in KINDS[0] and kind != "store":
            for t in threads:
                element = BLOCK[t] * WIDTH + PLACES[step.place][1][t]
                copy = t + COPY if kind == "copy" else None
                self.touch(t, element, kind != "read", copy, kind == "number")
        elif kind == "store":
            for t in threads:
                for element in range(WIDTH):
                    self.touch(t, BLOCK[t] * WIDTH + element, False, t + BULK)
        elif kind == "multicast":
            self.multicast(step.bar)
        elif kind == "syncwarp":
            self.meet(*(np.intersect1d(threads, np.arange(w, w + 32)) for w in range(0, 128, 32)))
        elif kind == "syncthreads":
            self.meet(*blocks)
        elif kind == "cluster sync":
            self.meet(threads)
        elif kind == "hand over":
            for those in blocks:
                known[:, those[32:]] = known[:, those].max(axis=1, keepdims=True)
        elif kind == "arrive":
            for b in range(BLOCKS):
                self.arrive(blocks[b], step.bar, b)
        elif kind in TELLS:
            those, other = blocks[TELLS[kind]], 1 - TELLS[kind]
            self.count[those] += 1
            known[0, those, those] = self.count[those]
            self.reached += [(other, t, self.count[t]) for t in those]
            self.arrive(those, step.bar, 0)
            self.arrive(those, step.bar, 1)
        elif kind == "await":
            told = np.swapaxes(self.bars[step.bar, BLOCK[threads]], 0, 1)
            known[:, threads] = np.maximum(known[:, threads], told)
        elif kind == "fence":
            for t in threads:
                mine, fenced = [t, COPY + t], known[1 + BLOCK[t], t]
                known[1:, t, mine] = known[0, t, mine]
                fenced[:] = np.maximum(fenced, known[0, t])
        elif kind == "return":
            self.alive[threads] = False
        elif kind in ("commit", "commit stores"):
            self.commit(threads, COPY if kind == "commit" else BULK)
        elif kind == "wait for stores":
            self.wait(threads, BULK, 0)
        else:
            self.wait(threads, COPY, int(kind[-1]))

    def multicast(self, bar):
        """Let the first thread of block 0 load all elements of both blocks."""
        for b in range(BLOCKS):
            self.arrive(np.array([b * WIDTH]), bar, b)
        for b in range(BLOCKS):
            agent = LOAD + bar * BLOCKS + b
            for element in range(WIDTH):
                self.touch(0, b * WIDTH + element, True, agent)
            self.bars[bar, b, 0, agent] = self.count[agent]
        self.reached.append((1, agent, self.count[agent]))

    def end(self):
        """Require that threads waited for their TMA stores, blocks for loads to their memory, and
        for what reaches them.
        """
        all_ = np.arange(THREADS)
        self.wrong |= bool((self.known[0, all_, BULK + all_] < self.count[BULK:LOAD]).any())
        loads = LOAD + np.arange(MOST * BLOCKS)
        for b in range(BLOCKS):
            agents = loads[(loads - LOAD) % BLOCKS == b]
            known = self.known[0, b == BLOCK][:, agents].max(axis=0)
            self.wrong |= bool((known < self.count[agents]).any())
        for block, agent, number in self.reached:
            self.wrong |= bool(self.known[0, block == BLOCK, agent].max() < number)


def made_of(m, number, step, S, A, B, bars, a, fixed, held):
    """Return the op of a step."""
    place, bar = PLACES[step.place][0], at(bars, step.bar)
    whole = box_of(S, 0, WIDTH)
    named = {"id": step.bar + 1, "threads": WIDTH}
    box = (number * BLOCKS + bid_x) * WIDTH
    first, second = same(bid_x, 0), same(bid_x, 1)
    load = m.op(ops.TmaLoad, A[0], (0,), whole, bar, 3)
    tell = m.op(ops.MbarArrive, bar, 0, 1), m.op(ops.MbarArrive, bar, 0, 0)
    given = {
        "write": lambda: m.op(ops.Store, at(S, place), a),
        "read": lambda: m.op(ops.Load, a, at(S, place)),
        "number": lambda: m.op(ops.Store, at(S, place), fixed),
        "chance": lambda: m.op(ops.Store, at(S, place), held),
        "copy": lambda: m.op(ops.CpAsync, CP4, at(S, place), at(A, tid)),
        "store": lambda: m.op(ops.TmaStore, B[0], (box,), whole),
        "multicast": lambda: m.op(ops.If, first, (load,), (), "block"),
        "tell": lambda: m.op(ops.If, first, tell, (), "block"),
        "answer": lambda: m.op(ops.If, second, tell, (), "block"),
        "syncwarp": lambda: m.op(ops.Barrier, "warp"),
        "syncthreads": lambda: m.op(ops.Barrier),
        "cluster sync": lambda: m.op(ops.Barrier, "cluster"),
        "hand over": lambda: m.op(
            ops.If,
            less(tid, 32),
            (m.op(ops.Barrier, "named", "arrive", **named),),
            (m.op(ops.Barrier, "named", "sync", **named),),
            "thread",
        ),
        "commit": lambda: m.op(ops.CpCommit),
        "wait 0": lambda: m.op(ops.CpWait, 0),
        "wait 1": lambda: m.op(ops.CpWait, 1),
        "commit stores": lambda: m.op(ops.BulkCommit),
        "wait for stores": lambda: m.op(ops.BulkWait, 0),
        "fence": lambda: m.op(ops.Fence, "proxy_async"),
        "arrive": lambda: m.op(ops.MbarArrive, bar),
        "await": lambda: m.op(ops.MbarWait, bar, 0),
        "return": lambda: m.op(ops.Leave, MASKS[step.mask][0], "kernel", "thread"),
    }
    op, mask = given[step.kind](), MASKS[step.mask][0]
    if step.kind == "multicast":
        return m.op(ops.If, mask, (m.op(ops.MbarArrive, bar, 4 * WIDTH), op), (), "thread")
    if mask is None or step.kind == "return":
        return op
    return m.op(ops.If, mask, (op,), (), "thread")


def plan_of(steps, counts, cluster):
    """Return the plan of steps; all elements are written before them."""
    m = Maker(threads=WIDTH, grid=(BLOCKS, 1, 1), cluster=(BLOCKS if cluster else 1, 1, 1))
    A, B = m.tensor("A", "f32"), m.tensor("B", "f32")
    S, a = m.smem("S", "f32", WIDTH), m.reg("a", "f32")
    fixed, held = m.reg("fixed", "f32"), m.reg("held", "f32")
    bars = m.smem("bars", "u64", MOST)
    inits = tuple(m.op(ops.MbarInit, at(bars, k), n) for k, n in counts.items())
    fenced = m.op(ops.Fence, "mbarrier_init")
    body = [
        m.op(ops.Fill, a, 1),
        m.op(ops.Fill, fixed, 2),
        m.op(ops.Load, held, at(A, tid)),
        m.op(ops.Store, at(S, tid), a),
        m.op(ops.If, same(tid, 0), (*inits, fenced), (), "thread"),
        m.op(ops.Fence, "proxy_async"),
        m.op(ops.Barrier, "cluster" if cluster else "block"),
    ]
    given = S, A, B, bars, a, fixed, held
    body += [made_of(m, number, step, *given) for number, step in enumerate(steps)]
    return m.plan(*body)


@st.composite
def programs(draw, cluster):
    """Draw steps: an mbarrier is waited for after those who arrive there, and both warps have
    threads that do not return.
    """
    steps, bars, hands, alive = [], 0, 0, np.ones(THREADS, np.bool_)
    for _ in range(draw(st.integers(2, MOST))):
        kind = draw(st.sampled_from(draw(st.sampled_from(OF_CLUSTERS if cluster else KINDS))))
        masks, places, returned = sorted(MASKS), sorted(PLACES), not alive.all()
        if (kind == "await" and not bars) or (returned and kind in ("return", "hand over")):
            continue
        if kind in ("syncwarp", "syncthreads", "cluster sync", "hand over"):
            masks = ["all"]
        elif kind == "store":
            masks = ["one", "another"]
        elif kind == "multicast":
            masks = ["one"]
        elif kind == "return":
            masks = ["quarter", "odd", "another", "more in block 1"]
        mask, bar = draw(st.sampled_from(masks)), draw(st.integers(0, max(0, bars - 1)))
        if kind in ("write", "copy", "store"):
            places = [place for place in places if place not in SHARED]
        if kind == "return":
            alive = alive & ~MASKS[mask][1]
        elif kind in ("arrive", *TELLS, "multicast"):
            there = (MASKS[mask][1] & alive).reshape(BLOCKS, WIDTH).sum(axis=1)
            if not there.all() or (kind == "arrive" and there[0] != there[1]):
                continue
            bar, bars = bars, bars + 1
        elif kind == "hand over":
            bar, hands = hands, hands + 1
        steps.append(Step(kind, mask, draw(st.sampled_from(places)), bar))
    return tuple(steps)


def judged(steps):
    """Return whether the model finds fault, and the arrivals at each mbarrier."""
    model, counts = Model(), {}
    begin = [Step("write"), Step("fence"), Step("cluster sync")]
    for step in [*begin, *steps]:
        if step.kind in ("arrive", *TELLS, "multicast"):
            those = MASKS[step.mask][1] & model.alive & (TELLS.get(step.kind, 0) == BLOCK)
            counts[step.bar] = int(those.sum())
        model.run(step)
    model.end()
    return model.wrong, counts


def refused(plan, order):
    A, B = np.zeros(WIDTH, np.float32), np.zeros(MOST * BLOCKS * WIDTH, np.float32)
    try:
        emulate(plan, A, B, order=order)
    except EmulationError as error:
        if error.code.removeprefix("emulate-") not in CODES:
            raise
        return True
    return False


def compare(steps, cluster=False):
    wrong, counts = judged(steps)
    plan = plan_of(steps, counts, cluster)
    for order in ORDERS:
        assert refused(plan, order) == wrong, (order, wrong)


@fewer(10)
@given(programs(cluster=False))
def test_the_clocks_agree_with_the_model(steps):
    compare(steps)


@fewer(10)
@given(programs(cluster=True))
def test_the_clocks_of_clusters_agree_with_the_model(steps):
    compare(steps, cluster=True)


@pytest.mark.slow
@given(programs(cluster=False))
def test_the_clocks_agree_with_the_model_on_many_kernels(steps):
    compare(steps)


@pytest.mark.slow
@given(programs(cluster=True))
def test_the_clocks_of_clusters_agree_with_the_model_on_many_kernels(steps):
    compare(steps, cluster=True)
