"""Schedules of tiles: each tile once, in the order that is asked for, by few blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import _
from cute_py.trace.schedule import ORDERS
from tests.sampling import fewer

some = st.integers(1, 9)


@cute.kernel
def computed(out, order, blocks: cute.s32(min=1, max=99), schedule, group: cute.s32(min=1)):
    """Note the number of the block that computes each tile, and when."""
    cute.launch(grid=blocks, block=32)
    _write(out, order, cute.tiles(*out.shape, schedule, group=group))


@cute.kernel
def computed_static(out, order, blocks, schedule, group):
    cute.launch(grid=blocks, block=32)
    _write(out, order, cute.tiles(*out.shape, schedule, group=group))


def _write(out, order, tiles):
    with cute.elect():
        turn = cute.var(0, 0)
        for i, j in tiles:
            cute.atomic("add", cute.local_tile(out, (1, 1), (i, j)), 1 + cute.block_idx())
            order[i, j] = turn.get()
            turn.set(turn.get() + 1)


def numbers(m, n, blocks, schedule, group):
    """The tiles in order of their numbers, as the blocks have computed them."""
    found = []
    for kernel in (computed, computed_static):
        out, order = np.zeros((m, n), np.int32), np.full((m, n), -1, np.int32)
        kernel(out, order, blocks, schedule, group)
        assert out.min() >= 1
        assert out.max() <= blocks  # one block for each
        number = (out - 1 + blocks * order).ravel()
        assert sorted(number) == list(range(m * n))
        found.append([divmod(int(at), n) for at in np.argsort(number)])
    assert found[0] == found[1]
    return found[0]


@fewer(8)
@given(some, some, st.integers(1, 12), st.sampled_from(ORDERS), st.integers(1, 5))
def test_blocks_compute_every_tile_once(m, n, blocks, schedule, group):
    numbers(m, n, blocks, schedule, group)


def test_orders_are_those_of_their_names():
    assert numbers(2, 3, 2, "rows", 1) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert numbers(2, 3, 2, "columns", 1) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    grouped = numbers(3, 3, 2, "grouped", 2)
    assert grouped == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert numbers(3, 3, 2, "snake", 2) == [*grouped[:6], (2, 2), (2, 1), (2, 0)]


@fewer(4)
@given(some, some, st.integers(1, 5))
def test_a_table_is_an_order_too(m, n, blocks):
    table = cute.hilbert_order(m, n)
    assert numbers(m, n, blocks, np.array(table, np.int32), 1) == table


@cute.kernel
def computed_with_extra(out, blocks, extra: cute.s32(min=0), group: cute.s32(min=1)):
    cute.launch(grid=blocks, block=32)
    with cute.elect():
        for i, j in cute.tiles(out.shape[0], out.shape[1] - 1, group=group, extra=extra):
            cute.atomic("add", cute.local_tile(out, (1, 1), (i, j)), 1)


@fewer(8)
@given(some, st.integers(0, 5), st.integers(1, 5), st.integers(0, 9), st.integers(1, 4))
def test_extra_tiles_are_those_of_one_more_column(m, n, blocks, extra, group):
    """Also where there are no others, n = 0."""
    out = np.zeros((max(m, extra), n + 1), np.int32)
    wanted = np.zeros_like(out)
    wanted[:, :n], wanted[:extra, n] = 1, 1
    computed_with_extra(out, blocks, extra, group)
    assert (out == wanted).all()


def test_extra_tiles_have_no_shares_of_k():
    @cute.kernel
    def both(out):
        cute.launch(grid=1, block=32)
        for _tile in cute.tiles(2, 2, depth=2, extra=1):
            pass

    with pytest.raises(cute.CuteError) as caught:
        cute.trace(both, np.zeros(4, np.float32))
    assert caught.value.code == "kernel-choice"


def test_a_hilbert_curve_moves_to_a_neighbour():
    for side in (1, 2, 4, 8):
        curve = np.array(cute.hilbert_order(side, side))
        assert (np.abs(np.diff(curve, axis=0)).sum(1) == 1).all()
        assert len(set(map(tuple, curve))) == side * side
    strip = cute.hilbert_order(2, 4096)  # in time that grows with its tiles, not with its square
    assert set(strip) == {(i, j) for i in range(2) for j in range(4096)}
    assert len(strip) == 2 * 4096


@cute.kernel
def shared_out(out, clusters, schedule):
    """Each cluster notes the tiles of K that it has."""
    m, n, depth = out.shape
    cute.launch(grid=2 * clusters, block=32, cluster=2)
    with cute.elect():
        for i, j, first, count in cute.tiles(m, n, schedule, group=2, depth=depth):
            for k in cute.range(first, first + count):
                cute.atomic("add", cute.local_tile(out, (1, 1, 1), (i, j, k)), 1)


@fewer(6)
@given(some, some, st.integers(1, 7), st.integers(1, 12), st.sampled_from(ORDERS))
def test_shares_of_k_are_equal_and_cover_all(m, n, depth, clusters, schedule):
    out = np.zeros((m, n, depth), np.int32)
    shared_out(out, clusters, schedule)
    assert (out == 2).all()  # both blocks of the cluster


def test_ping_pong_takes_every_second_tile():
    @cute.kernel
    def alternating(out):
        cute.launch(grid=3, block=256)
        me, m = cute.warp_idx() // 4, out.shape[0]
        for i, _j in cute.tiles(m, 1, start=cute.block_idx() + 3 * me, step=6):
            with cute.elect("warpgroup"):
                out[i] = (10 * cute.block_idx() + me).to("s32")

    out = np.full(14, -1, np.int32)
    alternating(out)
    assert list(out) == [(n % 3) * 10 + n // 3 % 2 for n in range(14)]


@given(st.integers(1, 10**6), st.integers(1, 200))
def test_fewest_blocks_take_as_many_waves(tiles, most):
    blocks = cute.fewest_blocks(tiles, most)
    waves = -(-tiles // most)
    assert 1 <= blocks <= most
    assert -(-tiles // blocks) == waves
    assert blocks == 1 or -(-tiles // (blocks - 1)) > waves


def test_other_schedules_are_refused():
    out = np.zeros((2, 2), np.int32)
    with pytest.raises(cute.CuteError) as caught:
        computed(out, out.copy(), 1, "diagonal", 1)
    assert caught.value.code == "kernel-choice"
    assert "grouped, snake, rows, columns" in str(caught.value)


@cute.kernel
def by_table(out, table, step, wrong):
    cute.launch(grid=1, block=32)
    schedule = "rows" if wrong == "step" else table[_, 0] if wrong == "column" else table
    step = cute.as_int(step[0]) if wrong == "step" else 1
    for i, j in cute.tiles(*out.shape, HOST if wrong == "host" else schedule, step=step):
        out[i, j] = 1


HOST = np.zeros((4, 2), np.int32)


@pytest.mark.parametrize("wrong", ["", "column", "floats", "host", "step"])
def test_schedules_are_tables_and_steps_lead_on(wrong):
    """A step of 0, which is known only at run time, would leave all tiles out."""
    table = np.array(cute.hilbert_order(2, 2), np.float32 if wrong == "floats" else np.int32)
    out, step = np.zeros((2, 2), np.int32), np.array([wrong != "step"], np.int32)
    if not wrong:
        cute.emulate(cute.trace(by_table, out, table, step, wrong), out, table, step)
        assert (out == 1).all()
        return
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(cute.trace(by_table, out, table, step, wrong), out, table, step)
    assert caught.value.code == ("emulate-promise" if wrong == "step" else "kernel-choice")
    assert "test_schedule.py:" in str(caught.value)
