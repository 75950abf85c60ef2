"""Work that blocks share out while they run: `cute.work_queue`, `cute.Dealer`, `cute.tiles`."""

import numpy as np
import pytest

import cute_py as cute

READERS = 64


@cute.kernel
def dealt(
    found: cute.Tensor, counter: cute.Tensor, m: cute.s32, n: cute.s32, schedule: str, blocks: int
) -> None:
    """Count in found (m,n,2) how often each tile is computed, and keep which block did."""
    cute.launch(grid=blocks, block=READERS + 32)
    queue = cute.work_queue(1, READERS)
    with cute.role("deal", 2):
        queue.deal(counter, m * n)
    with cute.role("compute", range(2)):
        for i, j in cute.tiles(m, n, schedule, group=2, queue=queue):
            with cute.elect("role"):
                cute.atomic("add", cute.local_tile(found[i, j, _], (1,), (0,)), 1)
                found[i, j, 1] = cute.block_idx()


_ = cute._
CASES = [(0, 5, 2), (3, 3, 4), (2, 2, 6), (1, 1, 3), (3, 5, 1), (4, 4, 40), (7, 3, 2)]


@pytest.mark.parametrize(
    ("schedule", "order"),
    [
        ("rows", "forward"),
        *[
            pytest.param(x, order, marks=pytest.mark.slow)
            for x in ("grouped", "snake")
            for order in ("forward", "reversed", 0)
        ],
    ],
)
def test_blocks_share_out_every_tile_once_and_reset_the_counter(schedule, order):
    counter = np.zeros(1, np.int32)
    for m, n, blocks in CASES[: 3 if schedule == "rows" else None]:
        found = np.zeros((max(m, 1), n, 2), np.int32)
        plan = cute.trace(dealt, found, counter, m, n, schedule, blocks)
        for count in (1, 2):  # a second launch finds the counter as the first one did
            cute.emulate(plan, found, counter, m, n, order=order)
            assert (found[:m, :, 0] == count).all()
            assert counter[0] == 0
        assert set(found[:m, :, 1].flat) <= set(range(blocks))


@cute.kernel
def wrong(counter: cute.Tensor, cluster: int, named: dict) -> None:
    """Share out tiles in a way that has no meaning."""
    cute.launch(grid=2 * cluster, block=64, cluster=cluster)
    queue = cute.work_queue(named.get("words", 1), 32)
    with cute.role("deal", 1):
        queue.deal(counter, 4)
    with cute.role("compute", 0):
        for _i, _j in cute.tiles(
            2, 2, queue=queue, **{x: y for x, y in named.items() if x != "words"}
        ):
            pass


@pytest.mark.parametrize(
    ("kind", "cluster", "named", "given"),
    [
        (np.float32, 1, {}, "an element of s32 in global memory"),
        (np.int32, 2, {}, "clusters of"),
        (np.int32, 1, {"words": 2}, "1 words"),
        (np.int32, 1, {"start": 1}, "queue with start, step or depth"),
        (np.int32, 1, {"depth": 3}, "queue with start, step or depth"),
    ],
)
def test_what_shares_out_nothing_is_refused(kind, cluster, named, given):
    with pytest.raises(cute.LayoutError, match=given):
        cute.trace(wrong, np.zeros(1, kind), cluster, named)
