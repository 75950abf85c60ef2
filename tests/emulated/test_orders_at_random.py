"""Random kernels: what a search through orders finds is what all orders have.

Kernels of atomics and flags: the results of one order of each class are those of all orders, one by
one. Kernels of mbarriers, barriers and TMA loads, in which each of these is a choice: one order is
refused if all are, and else all have its result. So what `cute.check_orders` does not try would
have shown nothing.
"""

import random
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate import machine, turns
from cute_py.emulate.arguments import Arguments
from cute_py.emulate.cohorts import Wait
from cute_py.emulate.faults import ALL
from cute_py.emulate.ops.order import PhaseWait
from cute_py.emulate.orders.check import Checked
from cute_py.emulate.orders.search import Search
from cute_py.emulate.program import Program
from cute_py.emulate.running import quietly, run_batches
from cute_py.plan import ops
from tests.emulated.test_orders import stores_of_a_square
from tests.order_kernels import at, ticket

SLOW = pytest.mark.slow
MOST, SECONDS = 2000, 8.0  # of the search through all orders of one kernel


class Brute(Search):
    """Tries all orders."""

    def _races(self, turn):
        pass

    def _asleep(self):
        return {}

    def _node(self, turns, able):
        node = super()._node(turns, able)
        node.todo = {*able}
        return node


def checked(plan, arrays, search=Search):
    """Return the runs of a plan, and what they have found; `search` None: the usual one."""
    with quietly(), plan.trusted("cute.check_orders"):
        runs = Checked(Arguments(plan, arrays), None, search and search())
        return runs, runs.orders(MOST, SECONDS)


# -- atomics and flags


def strong(programs, by_warp, shared):
    """Return a kernel of warps or blocks that run these programs on two counters, in global or
    shared memory.
    """
    n = len(programs)

    @cute.kernel
    def kernel(counts, out):
        cute.launch(grid=1 if by_warp else n, block=32 * n if by_warp else 32)
        me = cute.warp_idx() if by_warp else cute.block_idx()
        places = counts
        if shared:
            places = cute.smem("s32", 2)
            with cute.when(cute.thread_idx() < 2):
                places[cute.thread_idx()] = 0
            cute.syncthreads()
        with cute.when(cute.thread_idx() % 32 == 0):
            for p, program in enumerate(programs):
                with cute.when(me == p):
                    for i, step in enumerate(program):
                        record(step, places, out, 8 * p + i)
        if shared:
            cute.syncthreads()
            with cute.when(cute.thread_idx() < 2):
                counts[cute.thread_idx()] = places[cute.thread_idx()]

    return kernel


def record(step, places, out, slot):
    kind, place, value, branch = step
    here = at(places, place)
    if kind == "ticket":
        mine = cute.as_int(cute.atomic("add", here, value, old=True))
        out[slot] = mine
        if branch:
            with cute.when(mine == branch - 1):
                cute.atomic("exch", at(places, 1 - place), 7)
    elif kind in ("add", "max"):
        cute.atomic(kind, here, value)
    elif kind == "exch":
        out[slot] = cute.as_int(cute.atomic("exch", here, value, old=True))
    elif kind == "store":
        cute.store_release(here, value)
    elif kind == "load":
        out[slot] = cute.as_int(cute.load_acquire(here))
    else:
        cute.wait_until(here, kind, value)


def drawn(seed):
    rng = random.Random(seed)
    by_warp, shared = rng.random() < 0.5, rng.random() < 0.3
    kinds = ["ticket", "ticket", "add", "max", "exch"]
    kinds += [] if shared else ["store", "load", "ge", "ge", "eq"]
    n = rng.choice((2, 2, 3))
    programs = [
        [
            (rng.choice(kinds), rng.randrange(2), rng.randint(1, 3), rng.randrange(3))
            for _ in range(rng.randint(1, 3 if n == 3 else 4))
        ]
        for _ in range(n)
    ]
    return programs, by_warp or shared, shared


def counts():
    return np.zeros(2, np.int32), np.full(32, -1, np.int32)


def agrees(programs, by_warp, shared, search=Search):
    """Return whether a search finds the results of all orders; None if there are too many."""
    plan = cute.trace(strong(programs, by_warp, shared), *counts())
    brute, _ = checked(plan, counts(), search=Brute)
    found, orders = checked(plan, counts(), search=search)
    if brute.limits or found.limits:
        return None
    assert found.classes <= brute.classes
    assert search is not Search or orders.proved == all(x.code is None for x in orders.results)
    return brute.results.keys() == found.results.keys()


def equal_blocks(program, blocks):
    """Return a kernel of blocks that all run one program, whatever their number."""

    @cute.kernel
    def kernel(counts, out):
        cute.launch(grid=blocks, block=32, resident=True)
        with cute.when(cute.thread_idx() == 0):
            for kind, place, value, branch in program:
                here = at(counts, place)
                if kind == "ticket":
                    mine = cute.as_int(cute.atomic("add", here, value, old=True))
                    with cute.when(mine == branch):
                        cute.atomic("exch", at(counts, 1 - place), 5 + branch)
                elif kind in ("add", "max", "exch"):
                    cute.atomic(kind, here, value)
                else:
                    cute.wait_until(here, kind, value)

    return kernel


@pytest.mark.parametrize("first", [0, pytest.param(100, marks=SLOW)])
def test_one_block_stands_for_those_that_do_the_same(first):
    """Results are those of all orders; there are fewer classes than with blocks that differ."""
    fewer = 0
    for seed in range(first, first + (100 if first else 6)):
        rng = random.Random(seed)
        kinds = ("ticket", "ticket", "add", "max", "exch", "ge", "eq")
        program = [
            (rng.choice(kinds), rng.randrange(2), rng.randint(1, 3), rng.randrange(3))
            for _ in range(rng.randint(2, 3))
        ]
        plan = cute.trace(equal_blocks(program, rng.choice((2, 3))), *counts())
        brute, _ = checked(plan, counts(), search=Brute)
        found, _ = checked(plan, counts(), search=None)
        other, _ = checked(plan, counts())
        if not (brute.limits or found.limits or other.limits):
            assert found.search.alike
            assert brute.results.keys() == found.results.keys(), seed
            assert found.classes <= other.classes
            fewer += found.classes < other.classes
    assert fewer > 1


def test_blocks_that_share_nothing_are_searched_one_by_one():
    @cute.kernel
    def kernel(out):
        cute.launch(grid=3, block=96)
        count = cute.smem("s32", 1)
        with cute.when(cute.thread_idx() == 0):
            count[0] = 0
        cute.syncthreads()
        with cute.when(cute.thread_idx() % 32 == 0):
            out[3 * cute.block_idx() + ticket(count)] = cute.warp_idx()

    plan = cute.trace(kernel, np.zeros(9, np.int32))
    found, orders = checked(plan, (np.zeros(9, np.int32),), search=None)
    assert orders.proved
    assert found.classes == 1 + 3 * (6 - 1)
    assert found.runs == found.classes + 3


# programs that a search without one of its parts gets wrong
PLANTED = (
    (
        [[("load", 0, 1, 0)], [("ge", 1, 2, 0), ("add", 0, 3, 0)], [("ticket", 1, 2, 0)]],
        True,
        False,
    ),
    (
        [
            [("store", 0, 1, 0), ("store", 0, 2, 0)],
            [*3 * [("load", 1, 1, 0)], ("eq", 0, 1, 0)],
        ],
        True,
        False,
    ),
    ([[("add", 0, 1, 0)], [("add", 0, 2, 0)], [("add", 0, -1, 0)], [("eq", 0, 2, 0)]], True, False),
    ([[("add", 0, 1, 0)], [("add", 0, 2, 0)], [("ge", 0, 1, 0), ("load", 0, 1, 0)]], True, False),
    (
        [[("ticket", 0, 1, 0), ("ticket", 1, 1, 2)], [("ticket", 1, 1, 1), ("ticket", 0, 1, 0)]],
        False,
        False,
    ),
)


@pytest.mark.parametrize("case", PLANTED)
def test_a_search_finds_the_results_of_all_orders(case):
    assert agrees(*case)


def test_a_search_finds_the_results_of_all_orders_of_random_kernels():
    assert False not in [agrees(*drawn(seed)) for seed in range(8)]


@SLOW
@pytest.mark.parametrize("first", range(1000, 1400, 50))
def test_a_search_finds_the_results_of_all_orders_of_many_kernels(first):
    found = {seed: agrees(*drawn(seed)) for seed in range(first, first + 50)}
    assert [seed for seed, same in found.items() if same is False] == []
    assert list(found.values()).count(None) < 5


def touching(programs):
    """Return a kernel of blocks that run these programs, and store plainly in between."""

    @cute.kernel
    def kernel(counts, x, out):
        cute.launch(grid=len(programs), block=32, resident=True)
        with cute.when(cute.thread_idx() == 0):
            for p, program in enumerate(programs):
                with cute.when(cute.block_idx() == p):
                    for i, (kind, place, value) in enumerate(program):
                        if kind == "touch":
                            x[place] = 8 * p + i
                            cute.threadfence()
                        else:
                            record((kind, place, value, 0), counts, out, 8 * p + i)

    return kernel


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=SLOW) for n in range(500, 900, 50))])
def test_what_is_proved_is_refused_in_no_order(first):
    """Law: proved if no order is refused, of all; sums and flags that pass a value twice."""
    kinds = ("touch", "add", "add", "store", "exch", "eq", "ge", "ne", "lt", "touch", "eq")
    proved = 0
    for seed in range(first, first + (50 if first else 8)):
        rng = random.Random(seed)
        n = rng.choice((2, 3, 3))
        programs = [
            [
                (rng.choice(kinds), rng.choice((0, 0, 0, 1)), rng.choice((-2, -1, 1, 1, 2, 3)))
                for _ in range(rng.randint(1, 4 if n == 2 else 3))
            ]
            for _ in range(n)
        ]
        arrays = np.zeros(2, np.int32), np.zeros(2, np.int32), np.full(32, -1, np.int32)
        plan = cute.trace(touching(programs), *arrays)
        brute, _ = checked(plan, arrays, search=Brute)
        found, orders = checked(plan, arrays, search=None)
        if not (brute.limits or found.limits):
            refused = any(result.code for result in brute.results.values())
            assert orders.proved is not refused, programs
            proved += orders.proved
    assert proved > 1


# -- mutants of the search


class NoSleep(Search):
    """Repeats classes that it has seen: too many runs."""

    def _asleep(self):
        return {}


class LastRaceOnly(Search):
    """Tries the other order of the last race alone."""

    def _reversed(self, turn):
        return super()._reversed(turn)[:1]


class NoWaiting(Search):
    """Ignores those that wait."""

    def _is_new(self, turn):
        return False

    def refused(self):
        pass


class StaleWaits(Search):
    """Takes one that waited at a state to wait for what it does later."""

    def _reversed(self, turn):
        found = super()._reversed(turn)
        who, nodes = turn.event.who, self.stack
        return [x for x in found if who not in nodes[x[0]].events or who in nodes[x[0]].able]


@pytest.mark.parametrize("mutant", [LastRaceOnly, NoWaiting, StaleWaits])
def test_a_search_without_a_part_loses_results(mutant):
    assert False in [agrees(*case, search=mutant) for case in PLANTED]


def test_without_sleep_sets_classes_are_seen_again():
    plan = cute.trace(strong(*PLANTED[3]), *counts())
    runs = [checked(plan, counts(), search=search)[0].classes for search in (Search, NoSleep)]
    assert runs[0] < runs[1]


# -- mbarriers, barriers and TMA: each of them a choice

SYNC = (ops.MbarArrive, ops.MbarWait, ops.Barrier, ops.TmaLoad)


class Look(turns.Turn):
    """A turn before an op that synchronises."""

    def __init__(self, c, op, who, wait):
        Wait.__init__(self, op)
        self.c, self.look = c, wait
        self.event = turns.Event(who, op, "write", None)

    def mismatch(self, c):
        return None if self.look is None else self.look.mismatch(c)

    @property
    def able(self):
        return self.look is None or self.look.ready(self.c) is True

    def number(self):
        return None

    def knows(self, other):
        return False


class Fine(turns.Turns):
    """Stops before each op that synchronises; runs of arrivals are one unless `whole` is false."""

    whole = True

    def __init__(self, program, batch, chooser):
        super().__init__(program, batch, chooser)
        self.arrived = {}

    def _turn(self, c, op):
        lanes = np.flatnonzero(c.active()[0, 0])
        who, wait = (int(c.span.B[0]), int(c.span.W[0]), int(lanes[0])), None
        if isinstance(op, ops.MbarWait):
            at = self.program.access(op.bar, op, unit=8, counted=False)
            wait = PhaseWait(op, at, self.program.scalar(op.phase))
        return Look(c, op, who, wait)

    def stops(self, c, op):
        """Stop, but not after the first arrival of a run."""
        arrives, key = isinstance(op, ops.MbarArrive), (int(c.span.B[0]), int(c.span.W[0]))
        if self.whole and arrives and self.arrived.get(key) == c.done:
            return False
        self.arrived[key] = c.done if arrives else -1
        return super().stops(c, op)

    def _judge(self, turn):
        pass

    def _remember(self, turn):
        pass


def is_choice(program, op):
    """Tell whether an op is a choice."""
    return isinstance(op, SYNC)


@contextmanager
def each_sync_is_a_choice():
    with patch.object(Program, "strong", is_choice), patch.object(machine, "Turns", Fine):
        yield


def all_orders(plan, arrays):
    """Return the runs of a plan in all orders of what synchronises."""
    with quietly(), plan.trusted("cute.check_orders"):
        runs = Checked(Arguments(plan, arrays), None, Brute())
        with each_sync_is_a_choice():
            runs.program = Program(plan, runs.program.checks, False)
            runs.orders(MOST, SECONDS)
    return runs


def synced(programs, arrivals, rounds):
    """Return a kernel of warps, or of blocks of a cluster, that run these programs on mbarriers and
    stages of shared memory.
    """
    n, blocks = len(programs), arrivals.get("cluster", False)

    @cute.kernel
    def kernel(x, out):
        cute.launch(
            grid=n if blocks else 1, block=32 if blocks else 32 * n, cluster=n if blocks else 1
        )
        bars = [cute.mbarriers(1) for _ in range(2)]
        s = [cute.smem("f32", cute.Layout((8, 32), (32, 1)), 1024) for _ in range(2)]
        words = cute.smem("s32", 2)
        me = cute.block_idx() if blocks else cute.warp_idx()
        with cute.when(cute.thread_idx() == 0):
            for k in range(2):
                bars[k].init(arrivals[k])
            cute.fence_mbarrier_init()
        cute.cluster_sync() if blocks else cute.syncthreads()
        for p, program in enumerate(programs):
            with cute.when((me == p) & (cute.thread_idx() % 32 == 0)):
                for kind, k, value in program:
                    step(kind, k, value, x, out, bars, s, words, p)
        cute.cluster_sync() if blocks else None

    return kernel


def step(kind, k, value, x, out, bars, s, words, p):
    if kind == "arrive":
        bars[k].arrive(0)
    elif kind == "peer":
        bars[k].arrive(0, value)
    elif kind == "wait":
        bars[k].wait(0, value)
    elif kind == "expect":
        bars[k].arrive_expect_tx(0, 1024)
    elif kind == "load":
        tile = cute.local_tile(cute.tma_tensor(x), (8, 32), (value, 0))
        cute.tma_load(tile, s[k], bars[k], 0)
    elif kind == "write":
        words[k] = value + 2 * p
    elif kind == "word":
        out[4 * p + k] = words[k]
    else:
        out[4 * p + 2 + k] = cute.as_int(s[k][0, 0].to("s32"))


def turns_taken(rng, rounds):
    """A right exchange: one writes, or loads, and tells the other one, which reads and tells."""
    tma = rng.random() < 0.5
    first, second = [], []
    for r in range(rounds):
        first += [("wait", 1, (r + 1) % 2)] if r else []
        first += [("expect", 0, 0), ("load", 0, r)] if tma else [("write", 0, r), ("arrive", 0, 0)]
        second += [("wait", 0, r % 2), ("stage" if tma else "word", 0, 0), ("arrive", 1, 0)]
    return [first, second], {0: 1, 1: 1}


def ring_of_peers(rng, rounds):
    """A right exchange of two blocks: each arrives at both, and waits for its own."""
    program = [
        op for r in range(rounds) for op in (("peer", 0, 0), ("peer", 0, 1), ("wait", 0, r % 2))
    ]
    return [list(program), list(program)], {0: 2, 1: 1, "cluster": True}


def loads_of_another(rng, rounds):
    """A right exchange of three: one announces, one loads, one reads."""
    announces, loads, reads = [], [], []
    for r in range(rounds):
        again = [("wait", 1, (r + 1) % 2)] if r else []
        announces += [*again, ("expect", 0, 0)]
        loads += [*again, ("load", 0, r)]
        reads += [("wait", 0, r % 2), ("stage", 0, 0), ("arrive", 1, 0)]
    return [announces, loads, reads], {0: 1, 1: 1}


def any_ops(rng, rounds):
    kinds = ("arrive", "arrive", "wait")
    programs = [
        [(rng.choice(kinds), rng.randrange(2), rng.randrange(2)) for _ in range(rng.randint(1, 3))]
        for _ in range(rng.choice((2, 3)))
    ]
    return programs, {k: rng.choice((1, 1, 2)) for k in range(2)}


def drawn_sync(seed):
    """Return programs: a right exchange with up to two ops changed, or any ops."""
    rng = random.Random(seed)
    rounds = rng.choice((2, 2, 3))
    made = rng.choice((turns_taken, turns_taken, ring_of_peers, loads_of_another, any_ops))
    programs, arrivals = made(rng, rounds if made is not loads_of_another else 2)
    kinds = ("arrive", "wait", "peer") if arrivals.get("cluster") else ("arrive", "wait")
    for _ in range(rng.randint(0, 2)):
        program = rng.choice(programs)
        where = rng.randrange(len(program))
        if rng.random() < 0.5 and len(program) > 1:
            program.pop(where)
        else:
            program.insert(where, (rng.choice(kinds), rng.randrange(2), rng.randrange(2)))
    return programs, arrivals, rounds


def tiles():
    x = np.repeat(np.arange(4, dtype=np.float32), 8 * 32).reshape(32, 32)
    return x, np.full(12, -1, np.int32)


def one_verdict(programs, arrivals, rounds):
    """Return whether all orders of a kernel do as one does; None if there are too many."""
    plan = cute.trace(synced(programs, arrivals, rounds), *tiles())
    runs = all_orders(plan, tiles())
    if runs.limits:
        return None
    _, found = checked(plan, tiles())
    (one,) = found.results
    every = runs.results.values()
    if one.code is not None:
        return all(result.code is not None for result in every)
    return found.proved and [x.code for x in every] == [None]


def test_one_order_of_random_mbarriers_tells_of_all():
    assert False not in [one_verdict(*drawn_sync(seed)) for seed in range(4)]


def test_all_orders_of_a_ring_are_many():
    programs, arrivals = loads_of_another(random.Random(1), 2)
    plan = cute.trace(synced(programs, arrivals, 2), *tiles())
    found = all_orders(plan, tiles())
    assert found.classes > 5
    assert len(found.results) == 1
    assert checked(plan, tiles())[1].classes == 1


@SLOW
@pytest.mark.parametrize("first", range(2000, 2650, 50))
def test_one_order_of_many_mbarriers_tells_of_all(first):
    found = {seed: one_verdict(*drawn_sync(seed)) for seed in range(first, first + 50)}
    assert [seed for seed, same in found.items() if same is False] == []
    assert list(found.values()).count(None) < 25


class Delay:
    """Chooses at random, but lets a thread of one block stand still after some of its operations
    for as long as others can go on.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.block, self.left = self.random.randrange(4), self.random.randint(1, 20)

    def enter(self, batch):
        pass

    def choose(self, here):
        able = [turn for turn in here if turn.able]
        free = [turn for turn in able if self.left or turn.event.who[:2] != (self.block, 0)]
        chosen = self.random.choice(free or able) if able else None
        self.left -= self.left > 0 and chosen.event.who[:2] == (self.block, 0)
        return chosen

    def done(self, turn):
        pass


@pytest.mark.parametrize("how", ["", *(pytest.param(x, marks=SLOW) for x in ("loop", "lanes"))])
def test_tokens_may_be_counted_in_each_others_place(how):
    """In orders in which others run between any two arrivals, data are right, and nothing races or
    waits forever: `mbarriers` alone, which judges phases, is not checked. If it is, it tells that
    some of these orders do count an arrival in another phase.
    """
    given = np.zeros((2, 2), np.int32)
    plan = cute.trace(stores_of_a_square, given, False, (0, 1, 2, 3), how)
    parted = patch.object(Fine, "whole", False)
    with each_sync_is_a_choice(), parted, quietly(), plan.trusted("cute.emulate"):
        judged, program = (Program(plan, ALL - {x}, False) for x in ("", "mbarriers"))
        codes = []
        for seed in range(4):
            arguments = Arguments(plan, (given,))
            try:
                run_batches(judged, arguments, (2, 2, 1), 4, Delay(seed))
            except cute.EmulationError as error:
                codes.append(error.code)
            given[:] = 0
            run_batches(program, arguments, (2, 2, 1), 4, Delay(seed))
            assert (given == 3 * (0 + 1 + 2 + 3)).all()
    assert {*codes} == ({"emulate-mbarrier-phase"} if how != "lanes" else set())
