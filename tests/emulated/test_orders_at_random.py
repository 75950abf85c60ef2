"""Random kernels of atomics, flags and loops: the results of one order of each class are those of
all orders, one by one.
"""

import random
from unittest.mock import patch

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate import machine
from cute_py.emulate.arguments import Arguments
from cute_py.emulate.orders.check import Checked
from cute_py.emulate.orders.search import Search
from cute_py.emulate.program import program_of
from cute_py.emulate.running import quietly
from cute_py.emulate.turns import Turns, _round
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
            assert found.search.alike == bool(program_of(plan).resources.observed)
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
                        elif kind in LOOPS:
                            out[8 * p + i] = loop(kind, counts, place, value)
                        else:
                            record((kind, place, value, 0), counts, out, 8 * p + i)

    return kernel


def loop(kind, counts, place, value):
    """Wait in a loop: for a value at one place, for a sum of two, or for the lock of one of two."""
    found, one, other = cute.var(0), at(counts, place), at(counts, 1 - place)
    with cute.while_(lambda: found.get() < (1 if kind == "lock" else value)):
        if kind == "lock":
            found.set(1 - cute.as_int(cute.atomic_cas(one, 0, 1)))
            with cute.when(found.get() < 1):
                found.set(2 - cute.as_int(cute.atomic_cas(other, 0, 1)))
        else:
            first = cute.as_int(cute.load_acquire(one))
            found.set(first + (cute.as_int(cute.load_acquire(other)) if kind == "both" else 0))
    return found.get()


LOOPS = ("until", "both", "lock")
KINDS = ("touch", "add", "add", "store", "exch", "eq", "ge", "ne", "lt", "touch", "eq")


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=SLOW) for n in range(500, 900, 50))])
def test_what_is_proved_is_refused_in_no_order(first):
    """Law: proved if no order is refused, of all; sums and flags that pass a value twice."""
    assert agrees_on_all(range(first, first + (50 if first else 8)), KINDS, 4) > 1


class Patient(Turns):
    """Lets a loop that waits go round once more before it waits for a change."""

    def _judge(self, turn):
        super()._judge(turn)
        _, _, rounds = _round(turn.c) or (None, (), 0)
        turn.spins = turn.spins and rounds > 1
        turn.exact = turn.exact and rounds > 1


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=SLOW) for n in range(500, 700, 50))])
def test_another_round_of_a_loop_that_waits_changes_nothing(first):
    kinds = (*LOOPS, "touch", "add", "store", "exch")
    assert agrees_on_all(range(first, first + (50 if first else 8)), kinds, 3, Patient) > 1


def agrees_on_all(seeds, kinds, most, turns=Turns):
    """Require what a search finds to be what all orders have, of random kernels of these kinds of
    steps, at most so many each; return how many of them are proved.
    """
    proved, arrays = 0, (np.zeros(2, np.int32), np.zeros(2, np.int32), np.full(32, -1, np.int32))
    for seed in seeds:
        rng = random.Random(seed)
        n = rng.choice((2, 3, 3))
        programs = [
            [
                (rng.choice(kinds), rng.choice((0, 0, 0, 1)), rng.choice((-2, -1, 1, 1, 2, 3)))
                for _ in range(rng.randint(1, most if n == 2 else most - 1))
            ]
            for _ in range(n)
        ]
        plan = cute.trace(touching(programs), *arrays)
        with patch.object(machine, "Turns", turns):
            brute, _ = checked(plan, arrays, search=Brute)
        found, orders = checked(plan, arrays, search=None)
        if not (brute.limits or found.limits):
            refused = any(result.code for result in brute.results.values())
            assert orders.proved is not refused, programs
            assert refused or brute.results.keys() == found.results.keys(), programs
            proved += orders.proved
    return proved


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
