"""Blocks that wait for others: without `resident=True`, only for those that must have begun.

Each kernel is refused in every order, or gives the right result in every order, whichever blocks
the order happens to run first.
"""

import numpy as np
import pytest

import cute_py as cute
from tests.sampling import each

ORDERS = ("forward", "reversed", 0)
BLOCKS = 4


def cell(x, i=0):
    return cute.local_tile(x, (1,), (i,))


# -- how a block tells, and how another one waits

TELL = {
    "release": lambda flag: cute.store_release(flag, 1),
    "exchange": lambda flag: cute.atomic("exch", flag, 1),
    "red": lambda flag: cute.atomic("add", flag, 1),
    "or": lambda flag: cute.atomic("or", flag, 1, old=True),
    "cas": lambda flag: cute.atomic_cas(flag, 0, 1),
}


def until_it_is_seen(look):
    seen = cute.var(0)
    with cute.while_(lambda: seen.get() == 0):
        seen.set(cute.as_int(look()))


WAIT = {
    "wait_until": lambda flag: cute.wait_until(flag, "ne", 0),
    "acquire": lambda flag: until_it_is_seen(lambda: cute.load_acquire(flag)),
    "atomic": lambda flag: until_it_is_seen(lambda: cute.atomic("add", flag, 0, old=True)),
    "at least": lambda flag: cute.wait_until(flag, "ge", 1),
}


def pair(who, tells, tell, wait, resident=False, grid=BLOCKS, cluster=1):
    """Return a kernel in which one block waits for another one, and writes what that wrote."""

    @cute.kernel
    def run(flags, data, out):
        cute.launch(grid=grid, block=64, cluster=cluster, resident=resident)
        here = cute.block_idx()
        if isinstance(grid, tuple):
            here = here[0] + grid[0] * here[1]
        with cute.when((here == tells) & (cute.thread_idx() == 0)):
            data[0] = 7
            cute.threadfence()
            TELL[tell](cell(flags))
        with cute.when((here == who) & (cute.thread_idx() == 32)):
            WAIT[wait](cell(flags))
            cute.threadfence()
            out[0] = data[0]

    return run


def verdicts(kernel, wanted, *extents, **options):
    """Return the codes of the refusals in all orders; None where the result is right."""
    found = set()
    for order in ORDERS:
        arrays = [np.zeros(n, np.int32) for n in (extents or (1, 1, 1))]
        plan = cute.trace(kernel, *arrays, **options)
        try:
            cute.emulate(plan, *arrays, order=order)
            assert arrays[-1].tolist() == wanted, order
            found.add(None)
        except cute.CuteError as error:
            found.add(error.code)
            assert not any(x.any() for x in arrays)  # memory is as before
    return found


LATER = {"emulate-not-resident"}


PAIRS = "release, wait_until; exchange, acquire; red, atomic; cas, at least; or, acquire"


@each([tuple(pair.split(", ")) for pair in PAIRS.split("; ")])
def test_a_wait_for_a_block_of_a_higher_number_needs_residents(tell, wait):
    assert verdicts(pair(0, 2, tell, wait), [7]) == LATER
    assert verdicts(pair(0, 2, tell, wait, resident=True), [7]) == {None}
    assert verdicts(pair(2, 0, tell, wait), [7]) == {None}
    assert verdicts(pair(1, 1, tell, wait), [7]) == {None}  # a block for itself


def test_blocks_are_numbered_along_x_first_and_clusters_run_together():
    how = "release", "wait_until"
    assert verdicts(pair(1, 2, *how, grid=(2, 2)), [7]) == LATER
    assert verdicts(pair(2, 1, *how, grid=(2, 2)), [7]) == {None}
    assert verdicts(pair(0, 1, *how, cluster=2), [7]) == {None}
    assert verdicts(pair(1, 2, *how, cluster=2), [7]) == LATER
    assert verdicts(pair(3, 1, *how, cluster=2), [7]) == {None}


@cute.kernel
def chain(flags, out, step, resident=False):
    """Block b waits for block b - step, and adds its number."""
    cute.launch(grid=BLOCKS, block=32, resident=resident)
    b = cute.block_idx()
    with cute.when(cute.thread_idx() == 0):
        with cute.when((b >= step) & (b - step < BLOCKS)):
            cute.wait_until(cell(flags, b - step), "eq", 1)
        out[0] = 10 * out[0] + b
        cute.store_release(cell(flags, b), 1)


@cute.kernel
def barrier(count, out, resident=False):
    """All blocks meet at a counter."""
    cute.launch(grid=BLOCKS, block=32, resident=resident)
    with cute.when(cute.thread_idx() == 0):
        cute.atomic("add", cell(count), 1)
        cute.wait_until(cell(count), "ge", BLOCKS)
        out[cute.block_idx()] = 1


@cute.kernel
def tickets(count, flags, out):
    """A block waits for the one that has drawn the ticket before its own: that one has begun."""
    cute.launch(grid=BLOCKS, block=32)
    with cute.when(cute.thread_idx() == 0):
        mine = cute.as_int(cute.atomic("add", cell(count), 1, old=True), 0, BLOCKS - 1)
        with cute.when(mine > 0):
            cute.wait_until(cell(flags, mine - 1), "eq", 1)
        out[0] = out[0] + mine
        cute.store_release(cell(flags, mine), 1)


@cute.kernel
def last(count, data, out):
    """The block that comes last adds up what all have written; nobody waits."""
    cute.launch(grid=BLOCKS, block=32)
    with cute.when(cute.thread_idx() == 0):
        data[cute.block_idx()] = 1
        cute.threadfence()
        before = cute.as_int(cute.atomic("add", cell(count), 1, old=True))
        cute.threadfence()
        with cute.when(before == BLOCKS - 1):
            for i in cute.range(BLOCKS):
                out[0] = out[0] + data[i]


@cute.kernel
def lock(held, out):
    """Blocks add in turn, whoever gets the lock."""
    cute.launch(grid=BLOCKS, block=32)
    with cute.when(cute.thread_idx() == 0):
        got = cute.var(1)
        with cute.while_(lambda: got.get() != 0):
            got.set(cute.as_int(cute.atomic("exch", cell(held), 1, old=True)))
        cute.threadfence()
        out[0] = out[0] + 1
        cute.threadfence()
        cute.atomic("exch", cell(held), 0)


@pytest.mark.parametrize(
    ("kernel", "extents", "wanted", "options", "codes"),
    [
        (chain, (BLOCKS, 1), [123], {"step": 1}, {None}),
        (chain, (BLOCKS, 1), [3210], {"step": -1, "resident": True}, {None}),
        (chain, (BLOCKS, 1), None, {"step": -1}, LATER),
        (barrier, (1, BLOCKS), [1] * BLOCKS, {"resident": True}, {None}),
        (barrier, (1, BLOCKS), None, {}, LATER),
        (tickets, (1, BLOCKS, 1), [6], {}, {None}),
        (last, (1, BLOCKS, 1), [BLOCKS], {}, {None}),
        (lock, (1, 1), [BLOCKS], {}, {None}),
    ],
)
def test_patterns_of_blocks_that_wait(kernel, extents, wanted, options, codes):
    assert verdicts(kernel, wanted, *extents, **options) == codes


def test_a_flag_that_is_set_before_the_launch_ends_a_wait():
    arrays = np.ones(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    cute.emulate(cute.trace(pair(0, 0, "red", "at least"), *arrays), *arrays)
    assert arrays[2] == 7


def test_what_is_printed_is_printed_once(capsys):
    @cute.kernel
    def says(flags):
        cute.launch(grid=2, block=1)
        with cute.when(cute.block_idx() == 0):
            cute.print("told")
            cute.store_release(cell(flags), 1)
        with cute.otherwise():
            cute.wait_until(cell(flags), "eq", 1)

    flags = np.zeros(1, np.int32)
    cute.emulate(cute.trace(says, flags), flags)
    assert capsys.readouterr().out.count("told") == 1
    assert flags == 1
