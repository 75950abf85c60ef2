"""Random kernels of mbarriers, barriers and TMA loads, in which each of these is a choice.

One order is refused if all are, and else all have its result. So what `cute.check_orders` does not
try would have shown nothing.
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
from cute_py.emulate.program import Program
from cute_py.emulate.running import quietly, run_batches
from cute_py.plan import ops
from tests.emulated.test_orders import stores_of_a_square
from tests.emulated.test_orders_at_random import MOST, SECONDS, SLOW, Brute, checked

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
