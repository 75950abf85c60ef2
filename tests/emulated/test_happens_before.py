"""The clocks of the emulator against a plain model of happens-before, on random kernels.

A kernel is a list of steps that threads of two warps execute under a mask, in two blocks: they write and read
elements of shared memory, copy them asynchronously, store them with TMA, meet, and return. The
model keeps for each thread what it knows of every single access. The emulator must refuse a kernel
exactly where the model finds two accesses of one element, one of them a write, that nothing orders,
a fence that is missing, or a TMA store that nobody waits for; in whatever order it runs.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cute_py.atoms.registry import get_copy
from cute_py.emulate import emulate
from cute_py.errors import EmulationError
from cute_py.plan.access import Access
from tests.emulated.plans import Maker, at, bid_x, less, ops, same, tid
from tests.sampling import fewer

THREADS, BLOCKS = 64, 2
T = np.arange(THREADS)
MOST = 14  # steps
ORDERS = ("forward", "reversed", 0, 1)
COPY, BULK = THREADS, 2 * THREADS  # the agents: threads, their copies, their TMA stores
CP4 = get_copy("SM80_CP_ASYNC_CACHEALWAYS<32>")

MASKS = {  # the condition, and the threads of each block
    "all": (None, [T >= 0] * 2),
    "first warp": (less(tid, 32), [T < 32] * 2),
    "quarter": (less(tid, 16), [T < 16] * 2),
    "some": (less(tid, 40), [T < 40] * 2),
    "odd": (same(tid % 2, 1), [T % 2 == 1] * 2),
    "one": (same(tid, 0), [T == 0] * 2),
    "another": (same(tid, 33), [T == 33] * 2),
    "more in block 1": (less(tid, 16 + 28 * bid_x), [T < 16, T < 44]),
}
PLACES = {
    "own": (tid, T),
    "reversed": (63 - tid, 63 - T),
    "in the warp": (tid // 32 * 32 + 31 - tid % 32, T // 32 * 32 + 31 - T % 32),
    "next": ((tid + 1) % 64, (T + 1) % 64),
    "swapped": (tid // 2 * 2 + 1 - tid % 2, T ^ 1),
    "one": (tid * 0, 0 * T),
}
KINDS = (
    ("write", "read", "copy", "store"),
    ("syncwarp", "syncthreads", "hand over", "arrive", "await", "fence", "return"),
    ("commit", "wait 0", "wait 1", "commit stores", "wait for stores"),
)
CODES = ("race", "copy-pending", "async-pending", "proxy-fence", "block-end")


@dataclass(frozen=True)
class Step:
    """What threads of a mask do: at a place, or with a barrier of this number."""

    kind: str
    mask: str = "all"
    place: str = "own"
    bar: int = 0


class Model:
    """What each thread knows of each agent's accesses: how many of them are ordered before, and of
    how many the asynchronous proxy knows.
    """

    def __init__(self, block):
        self.block = block
        self.known = np.zeros((2, THREADS, 3 * THREADS), np.int64)
        self.count = np.zeros(3 * THREADS, np.int64)
        self.alive = np.ones(THREADS, np.bool_)
        self.open = {agent: [] for agent in range(COPY, 3 * THREADS)}
        self.groups = {agent: [] for agent in range(COPY, 3 * THREADS)}
        self.writes = [[] for _ in range(THREADS)]
        self.reads = [[] for _ in range(THREADS)]
        self.bars = {}
        self.wrong = False

    def touch(self, thread, element, write, engine=0):
        agent = thread + engine
        others = self.writes[element] + (self.reads[element] if write else [])
        late = [self.known[0, thread, who] < number for who, number in others]
        if engine == BULK:
            late += [self.known[1, thread, who] < n for who, n in self.writes[element]]
        self.wrong |= any(late)
        self.count[agent] += 1
        (self.writes if write else self.reads)[element].append((agent, self.count[agent]))
        if engine:
            self.open[agent].append(self.count[agent])
        else:
            self.known[0, thread, agent] = self.count[agent]

    def meet(self, threads):
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

    def run(self, step):
        threads = np.flatnonzero(MASKS[step.mask][1][self.block] & self.alive)
        kind, known = step.kind, self.known
        if kind in ("write", "read", "copy"):
            for t in threads:
                element = PLACES[step.place][1][t]
                self.touch(t, element, kind != "read", COPY if kind == "copy" else 0)
        elif kind == "store":
            for t in threads:
                for element in range(THREADS):
                    self.touch(t, element, False, BULK)
        elif kind == "syncwarp":
            for half in (T < 32, T >= 32):
                if (half & self.alive).any():
                    self.meet(np.flatnonzero(half & self.alive))
        elif kind == "syncthreads":
            self.meet(threads)
        elif kind == "hand over":
            takers = np.flatnonzero((T >= 32) & self.alive)
            known[:, takers] = known[:, threads].max(axis=1, keepdims=True)
        elif kind == "arrive":
            self.bars[step.bar] = known[:, threads].max(axis=1)
        elif kind == "await":
            told = self.bars[step.bar][:, None]
            known[:, threads] = np.maximum(known[:, threads], told)
        elif kind == "fence":
            known[1, threads] = np.maximum(known[1, threads], known[0, threads])
        elif kind == "return":
            self.alive[threads] = False
        elif kind in ("commit", "commit stores"):
            self.commit(threads, COPY if kind == "commit" else BULK)
        elif kind == "wait for stores":
            self.wait(threads, BULK, 0)
        else:
            self.wait(threads, COPY, int(kind[-1]))

    def end(self):
        """Require that the threads waited for their TMA stores."""
        own = self.known[0, T, BULK + T]
        self.wrong |= bool((own < self.count[BULK:]).any())


def made_of(m, number, step, S, A, B, bars, a):
    """Return the op of a step."""
    box = (number * BLOCKS + bid_x) * THREADS
    place = PLACES[step.place][0]
    whole = Access("smem", S[0], S[1], (0,), tuple((0, i) for i in range(THREADS)), 1)
    named = {"id": step.bar % 15 + 1, "threads": THREADS}
    given = {
        "write": lambda: m.op(ops.Store, at(S, place), a),
        "read": lambda: m.op(ops.Load, a, at(S, place)),
        "copy": lambda: m.op(ops.CpAsync, CP4, at(S, place), at(A, tid)),
        "store": lambda: m.op(ops.TmaStore, B[0], (box,), (THREADS,), whole),
        "syncwarp": lambda: m.op(ops.Barrier, "warp"),
        "syncthreads": lambda: m.op(ops.Barrier),
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
        "arrive": lambda: m.op(ops.MbarArrive, at(bars, step.bar)),
        "await": lambda: m.op(ops.MbarWait, at(bars, step.bar), 0),
        "return": lambda: m.op(ops.Leave, MASKS[step.mask][0], "kernel", "thread"),
    }
    return given[step.kind]()


def plan_of(steps, counts):
    """Return the plan of steps; all elements are written before them."""
    m = Maker(threads=THREADS, grid=(BLOCKS, 1, 1))
    A, B = m.tensor("A", "f32"), m.tensor("B", "f32")
    S, a = m.smem("S", "f32", THREADS), m.reg("a", "f32")
    bars = m.smem("bars", "u64", max(1, len(counts)))
    inits = tuple(m.op(ops.MbarInit, at(bars, k), n) for k, n in counts.items())
    body = [m.op(ops.Fill, a, 1), m.op(ops.Store, at(S, tid), a)]
    if inits:
        body.append(m.op(ops.If, same(tid, 0), inits, (), "thread"))
    body += [m.op(ops.Fence, "proxy_async"), m.op(ops.Barrier)]
    for number, step in enumerate(steps):
        op, mask = made_of(m, number, step, S, A, B, bars, a), MASKS[step.mask][0]
        under = mask is not None and step.kind != "return"
        body.append(m.op(ops.If, mask, (op,), (), "thread") if under else op)
    return m.plan(*body)


@st.composite
def programs(draw):
    """Draw steps: an mbarrier is waited for after those who arrive there, and both warps have
    threads that do not return.
    """
    steps, bars, hands, alive = [], 0, 0, np.ones((BLOCKS, THREADS), np.bool_)
    for _ in range(draw(st.integers(2, MOST))):
        kind = draw(st.sampled_from(draw(st.sampled_from(KINDS))))
        returned = not alive.all()
        if (kind == "await" and not bars) or (returned and kind in ("return", "hand over")):
            continue
        masks, places = sorted(MASKS), sorted(PLACES)
        if kind in ("syncwarp", "syncthreads", "hand over"):
            masks = ["all"]
        elif kind == "store":
            masks = ["one", "another"]
        elif kind == "return":
            masks = ["quarter", "odd", "another", "more in block 1"]
        elif kind == "arrive":
            masks.remove("more in block 1")  # as many arrive in both blocks
        if kind != "read":
            places.remove("one")
        mask, bar = draw(st.sampled_from(masks)), draw(st.integers(0, max(0, bars - 1)))
        if kind == "return":
            alive = alive & ~np.array(MASKS[mask][1])
        elif kind == "arrive":
            count = (np.array(MASKS[mask][1]) & alive).sum(axis=1)
            if not count.all() or count[0] != count[1]:
                continue
            bar, bars = bars, bars + 1
        elif kind == "hand over":
            bar, hands = hands, hands + 1
        steps.append(Step(kind, mask, draw(st.sampled_from(places)), bar))
    return tuple(steps)


def judged(steps):
    """Return whether the model finds fault, and the arrivals at each mbarrier."""
    wrong, counts = False, {}
    for block in range(BLOCKS):
        model = Model(block)
        for step in [Step("write"), Step("fence"), Step("syncthreads"), *steps]:
            if step.kind == "arrive":
                counts[step.bar] = int((MASKS[step.mask][1][block] & model.alive).sum())
            model.run(step)
        model.end()
        wrong |= model.wrong
    return wrong, counts


def refused(plan, order):
    A, B = np.zeros(THREADS, np.float32), np.zeros(MOST * BLOCKS * THREADS, np.float32)
    try:
        emulate(plan, A, B, order=order)
    except EmulationError as error:
        if error.code.removeprefix("emulate-") not in CODES:
            raise
        return True
    return False


def compare(steps):
    wrong, counts = judged(steps)
    plan = plan_of(steps, counts)
    for order in ORDERS:
        assert refused(plan, order) == wrong, (order, wrong)


@fewer(8)
@given(programs())
def test_the_clocks_agree_with_the_model(steps):
    compare(steps)


@pytest.mark.slow
@given(programs())
def test_the_clocks_agree_with_the_model_on_many_kernels(steps):
    compare(steps)
