"""mbarriers, TMA, wgmma and clusters; broken kernels and their mended twins."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import atoms
from cute_py.atoms.registry import get_copy
from cute_py.emulate import emulate
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare
from tests.coverage import covers, refuses
from tests.emulated.plans import Maker, at, bid_x, box_of, less, ops, part, same, tid, var
from tests.emulated.test_threads import ORDERS, refused

k = var("k")


def only(m, *body, thread=0):
    return m.op(ops.If, same(tid, thread), tuple(body), (), "thread")


def ring(
    tiles=5,
    wait_full=True,
    wait_empty=True,
    release=True,
    nbytes=256,
    consumers=64,
    arrivals=64,
    init=True,
):
    """Warp 0 loads tiles of 8x8 f32 with TMA into two stages; warps 1 and 2 store them."""
    m = Maker("ring", threads=96, grid=(2, 1, 1))
    A, B = m.tensor("A", "f32", 2), m.tensor("B", "f32")
    S = m.smem("S", "f32", 128)
    full, empty = m.smem("full", "u64", 2), m.smem("empty", "u64", 2)
    a = m.reg("a", "f32")
    phase = k // 2 % 2
    setup = [
        m.op(ops.MbarInit, at(bars, n), count)
        for bars, count in ((full, 1), (empty, consumers))
        for n in (0, 1)
    ]
    box = box_of(S, k % 2 * 64, 8, 8)
    load = m.op(ops.TmaLoad, A[0], (k * 8, bid_x * 8), box, at(full, k % 2))
    producer = m.op(
        ops.Loop,
        "k",
        0,
        tiles,
        1,
        (
            *([m.op(ops.MbarWait, at(empty, k % 2), 1 - phase)] if wait_empty else []),
            only(m, m.op(ops.MbarArrive, at(full, k % 2), nbytes), load),
        ),
    )
    arrive = m.op(ops.MbarArrive, at(empty, k % 2))
    consumer = m.op(
        ops.Loop,
        "k",
        0,
        tiles,
        1,
        (
            *([m.op(ops.MbarWait, at(full, k % 2), phase)] if wait_full else []),
            m.op(ops.Load, a, at(S, k % 2 * 64 + tid - 32)),
            *([arrive] * (arrivals // 64) if release else []),
            m.op(ops.Store, at(B, (bid_x * tiles + k) * 64 + tid - 32), a),
        ),
    )
    return m.plan(
        *([only(m, *setup, m.op(ops.Fence, "mbarrier_init"))] if init else []),
        m.op(ops.Barrier),
        m.op(ops.If, less(tid // 32, 1), (producer,), (consumer,), "warp"),
    )


def tiles_of(n=5):
    """The transposed view makes mode 0 the contiguous one; the last tile is ragged."""
    whole = np.arange(1, 14 * (8 * n - 4) + 1, dtype=np.float32).reshape(14, 8 * n - 4)
    padded = np.zeros((16, 8 * n), np.float32)
    padded[:14, : 8 * n - 4] = whole
    expected = padded.reshape(2, 8, n, 8).transpose(0, 2, 1, 3).reshape(-1)
    return whole.T, np.zeros(2 * n * 64, np.float32), expected


@covers(ops.TmaLoad, ops.Fence, ops.MbarInit, ops.MbarArrive, ops.MbarWait)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("checks", [True, False])
def test_tma_ring_of_two_stages(order, checks):
    A, B, expected = tiles_of()
    emulate(ring(), A, B, order=order, checks=checks)
    assert np.array_equal(B, expected)


@refuses(ops.MbarWait)
def test_reading_before_the_mbarrier_is_refused():
    A, B, _ = tiles_of()
    for order in ORDERS:
        error = refused_any(ring(wait_full=False), A, B, order=order)
        assert error.code in ("emulate-async-pending", "emulate-smem-unwritten")
    error = refused("emulate-async-pending", ring(wait_full=False), A, B)
    assert "a TMA load that completes on mbarrier full[0]" in str(error)
    assert "wait for mbarrier full[0] first" in str(error)


def refused_any(plan, *args, **named):
    with pytest.raises(cute.CuteError) as caught:
        emulate(plan, *args, **named)
    return caught.value


def test_stage_overwritten_before_release():
    A, B, _ = tiles_of()
    codes = {refused_any(ring(wait_empty=False), A, B, order=order).code for order in ORDERS}
    early = {"emulate-async-pending", "emulate-mbarrier-phase", "emulate-mbarrier-arrivals"}
    assert codes <= {*early, "emulate-race"}


def test_missing_release_is_a_deadlock_that_says_who_waits_for_what():
    A, B, _ = tiles_of()
    error = refused("emulate-deadlock", ring(release=False), A, B)
    text = str(error)
    assert "warp 0 of block (0, 0, 0), (1, 0, 0): phase 0 of mbarrier empty[0]" in text
    assert "which lacks 64 of 64 arrivals" in text
    assert "warps 1-2" in text


@refuses(ops.TmaLoad)
@pytest.mark.parametrize(
    ("nbytes", "words"), [(512, "waits for 256 bytes more"), (128, "got 128 bytes more")]
)
def test_wrong_transaction_count(nbytes, words):
    A, B, _ = tiles_of()
    error = refused("emulate-mbarrier-bytes", ring(nbytes=nbytes), A, B)
    assert words in str(error)


@refuses(ops.MbarArrive)
def test_too_many_arrivals():
    m = Maker(threads=32)
    bar = m.smem("bar", "u64", 1)
    arrive = m.op(ops.MbarArrive, at(bar, 0), 16)
    init = only(m, m.op(ops.MbarInit, at(bar, 0), 1))
    error = refused("emulate-mbarrier-arrivals", m.plan(init, m.op(ops.Barrier), arrive))
    assert error.facts["lane"] == 1
    assert "after all 1 arrivals of the phase" in str(error)
    emulate(m.plan(init, m.op(ops.Barrier), only(m, arrive)))


@refuses(ops.MbarInit)
def test_mbarrier_must_be_initialised_and_that_be_ordered():
    A, B, _ = tiles_of()
    error = refused("emulate-mbarrier-unset", ring(init=False), A, B)
    assert "which nothing has initialised" in str(error)


# -- TMA stores


def tma_store(fence=True, wait=True, barrier=True):
    m = Maker("tma_store", threads=64)
    B = m.tensor("B", "f32")
    S = m.smem("S", "f32", 64)
    a = m.reg("a", "f32")
    value = [m.op(ops.Map, "copy", a, (tid,), cute.f32), m.op(ops.Store, at(S, tid), a)]
    store = m.op(ops.TmaStore, B[0], (0,), box_of(S, 0, 64))
    waits = [m.op(ops.BulkWait, 0, True)] if wait else []
    return m.plan(
        *value,
        *([m.op(ops.Fence, "proxy_async")] if fence else []),
        *([m.op(ops.Barrier)] if barrier else []),
        only(m, store, m.op(ops.BulkCommit), *waits),
        m.op(ops.Barrier),
        m.op(ops.Store, at(S, tid), a),
    )


@covers(ops.TmaStore, ops.BulkCommit, ops.BulkWait)
def test_tma_store_writes_the_box_and_drops_what_lies_outside():
    B = np.zeros(60, np.float32)
    emulate(tma_store(), B)
    assert np.array_equal(B, np.arange(60))


@refuses(ops.Fence)
def test_missing_proxy_fence():
    error = refused("emulate-proxy-fence", tma_store(fence=False), np.zeros(64, np.float32))
    assert "by cute.tma_store of block (0, 0, 0), warp 0, lane 0" in str(error)
    assert "call cute.fence_proxy_async()" in str(error)


@refuses(ops.TmaStore, ops.BulkCommit, ops.BulkWait)
def test_shared_memory_is_reused_before_the_store_has_read_it():
    error = refused("emulate-async-pending", tma_store(wait=False), np.zeros(64, np.float32))
    assert "which a TMA store of warp 0 uses" in str(error)
    assert "tma_store_wait" in str(error)


def test_missing_barrier_before_the_store():
    error = refused("emulate-race", tma_store(barrier=False), np.zeros(64, np.float32))
    assert "after a write by warp 1" in str(error)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("reduce", ["", "add"])
@pytest.mark.parametrize("stored", ["before", "after", "elsewhere"])
def test_tma_where_threads_have_stored(stored, reduce, order):
    """No op orders ordinary stores to global memory and TMA: a fence and a barrier do not."""
    m = Maker("zeros", threads=64)
    B = m.tensor("B", "f32")
    S, a = m.smem("S", "f32", 64), m.reg("a", "f32")
    begin = [m.op(ops.Map, "copy", a, (1,), cute.f32), m.op(ops.Store, at(S, tid), a)]
    store = m.op(ops.Store, at(B, tid + 64 * (stored == "elsewhere")), a)
    copy = only(
        m,
        m.op(ops.TmaStore, B[0], (0,), box_of(S, 0, 64), reduce),
        m.op(ops.BulkCommit),
        m.op(ops.BulkWait, 0, False),
    )
    parts = [copy, store] if stored == "after" else [store, copy]
    fence = m.op(ops.Fence, "proxy_async")
    plan = m.plan(*begin, fence, m.op(ops.Barrier), parts[0], fence, m.op(ops.Barrier), parts[1])
    out = np.zeros(128, np.float32)
    if stored == "before":
        error = refused("emulate-proxy-global", plan, out, order=order)
        assert "after the write by block (0, 0, 0), warp 0, lane 0" in str(error)
        assert "by cute.tma_store of block" in str(error)
        emulate(plan, out, order=order, checks=("shared",))
    else:
        emulate(plan, out, order=order)
        assert (out[:64] == 1).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("first", [0, 64])
def test_tma_loads_where_threads_have_stored(first, order):
    m = Maker("again", threads=64)
    A, B = m.tensor("A", "f32"), m.tensor("B", "f32")
    S, bar, a = m.smem("S", "f32", 64), m.smem("bar", "u64", 1), m.reg("a", "f32")
    load = m.op(ops.TmaLoad, A[0], (first,), box_of(S, 0, 64), at(bar, 0))
    plan = m.plan(
        only(m, m.op(ops.MbarInit, at(bar, 0), 1), m.op(ops.Fence, "mbarrier_init")),
        m.op(ops.Map, "copy", a, (tid,), cute.f32),
        m.op(ops.Store, at(A, tid), a),
        m.op(ops.Fence, "proxy_async"),
        m.op(ops.Barrier),
        only(m, m.op(ops.MbarArrive, at(bar, 0), 256), load),
        m.op(ops.MbarWait, at(bar, 0), 0),
        m.op(ops.Load, a, at(S, tid)),
        m.op(ops.Store, at(B, tid), a),
    )
    values, out = np.arange(128, dtype=np.float32)[::-1].copy(), np.zeros(64, np.float32)
    if first:  # not where they have stored
        emulate(plan, values, out, order=order)
        assert np.array_equal(out, np.arange(64)[::-1])
    else:
        error = refused("emulate-proxy-global", plan, values, out, order=order)
        assert "by cute.tma_load of block (0, 0, 0), warp 0, lane 0" in str(error)


def test_tma_store_adds():
    m = Maker(threads=32)
    B = m.tensor("B", "f32")
    S = m.smem("S", "f32", 32)
    a = m.reg("a", "f32")
    store = m.op(ops.TmaStore, B[0], (0,), box_of(S, 0, 32), "add")
    plan = m.plan(
        m.op(ops.Fill, a, 2),
        m.op(ops.Store, at(S, tid), a),
        m.op(ops.Fence, "proxy_async"),
        m.op(ops.Barrier, "warp"),
        only(m, store, store, m.op(ops.BulkCommit), m.op(ops.BulkWait, 0)),
    )
    B = np.ones(32, np.float32)
    emulate(plan, B)
    assert (B == 5).all()


@covers(ops.CpArrive)
@refuses(ops.CpArrive)
def test_cp_async_arrives_at_an_mbarrier():
    m = Maker(threads=64)
    A, B = m.tensor("A", "f32"), m.tensor("B", "f32")
    S, bar = m.smem("S", "f32", 256), m.smem("bar", "u64", 1)
    a = m.reg("a", "f32", 4)
    copy = get_copy("SM80_CP_ASYNC_CACHEALWAYS<128>")
    setup = [only(m, m.op(ops.MbarInit, at(bar, 0), 64)), m.op(ops.Barrier)]
    fetch = m.op(ops.CpAsync, copy, at(S, tid * 4, width=4), at(A, tid * 4, width=4))
    rest = [
        m.op(ops.MbarWait, at(bar, 0), 0),
        m.op(ops.Load, a, at(S, (63 - tid) * 4, width=4)),
        m.op(ops.Store, at(B, tid * 4, width=4), a),
    ]
    A, B = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    emulate(m.plan(*setup, fetch, m.op(ops.CpArrive, at(bar, 0)), *rest), A, B)
    assert np.array_equal(B.reshape(64, 4), A.reshape(64, 4)[::-1])
    plain = m.plan(*setup, fetch, m.op(ops.MbarArrive, at(bar, 0)), *rest)
    refused("emulate-copy-pending", plain, A, B)


# -- wgmma


def warpgroup(source="SS", early=False, fence=True, commit=True, ordered=True, after=None):
    """D (64x8, f32) = A (64x16, f16) B (8x16, f16), twice, by one warpgroup."""
    m = Maker("warpgroup", threads=128)
    A, B, D = m.tensor("A", "f16"), m.tensor("B", "f16"), m.tensor("D", "f32")
    SA, SB = m.smem("SA", "f16", 1024), m.smem("SB", "f16", 128)
    a, b = m.reg("a", "f16", 8), m.reg("b", "f16")
    d = m.reg("d", "f32", 4)
    atom = atoms.get(f"SM90_64x8x16_F32F16F16_{source}<K,K>")
    order_a = Access(
        "smem", "SA", cute.f16, (0,), tuple((0, r * 16 + c) for c in range(16) for r in range(64))
    )
    order_b = Access(
        "smem", "SB", cute.f16, (0,), tuple((0, r * 16 + c) for c in range(16) for r in range(8))
    )
    tile_a, tile_b = (ops.Tile(x, 16, 256, "none") for x in (order_a, order_b))
    if source == "RS":
        loads = [m.op(ops.Load, part(a, v), at(A, _a_place(v))) for v in range(8)]
        left = a
    else:
        loads = [
            m.op(ops.Load, a, at(A, tid * 8, width=8)),
            m.op(ops.Store, at(SA, tid * 8, width=8), a),
        ]
        left = tile_a
    step = ((0, 0, 0),)
    result = [
        m.op(
            ops.Store,
            at(D, tid // 32 * 128 + tid % 32 // 4 * 8 + tid % 4 * 2, width=2),
            part(d, 0, 1),
        ),
        m.op(
            ops.Store,
            at(D, tid // 32 * 128 + tid % 32 // 4 * 8 + tid % 4 * 2 + 64, width=2),
            part(d, 2, 3),
        ),
    ]
    touch = m.op(ops.Fill, a, 0)
    wait = m.op(
        ops.WgWait, 0, None if after is None else {"b": b, "c": m.reg("c", "f32"), "d": d}[after]
    )
    end = {False: [wait, touch, *result], True: [*result, wait], "A": [touch, wait, *result]}
    end["never"] = []
    return m.plan(
        *loads,
        m.op(ops.Load, b, at(B, tid)),
        m.op(ops.Store, at(SB, tid), b),
        *([m.op(ops.Fence, "proxy_async")] if fence else []),
        m.op(ops.Barrier),
        *([m.op(ops.WgFence)] if ordered else []),
        m.op(ops.Wgmma, atom, d, left, tile_b, step, False),
        m.op(ops.Wgmma, atom, d, left, tile_b, step, True),
        *([m.op(ops.WgCommit)] if commit else []),
        *end[early],
    )


def _a_place(v):
    """Row and column of value v of a thread in A (64x16): PTX ISA, wgmma register fragments."""
    row = tid // 32 * 16 + tid % 32 // 4 + 8 * (v // 2 % 2)
    return row * 16 + tid % 4 * 2 + v % 2 + 8 * (v // 4)


@covers(ops.Wgmma, ops.WgFence, ops.WgCommit, ops.WgWait)
@pytest.mark.parametrize("source", ["SS", "RS"])
@pytest.mark.parametrize("checks", [True, False])
def test_wgmma_of_tiles_in_shared_memory_and_registers(source, checks):
    rng = np.random.default_rng(3)
    A, B = (rng.integers(-8, 9, (n, 16)).astype(np.float16) for n in (64, 8))
    D = np.zeros((64, 8), np.float32)
    emulate(warpgroup(source), A.reshape(-1), B.reshape(-1), D.reshape(-1), checks=checks)
    assert np.array_equal(D, 2 * (A.astype(np.float32) @ B.astype(np.float32).T))


def arrays():
    return np.zeros(1024, np.float16), np.zeros(128, np.float16), np.zeros(512, np.float32)


@refuses(ops.WgCommit, ops.WgWait)
def test_accumulators_are_read_too_early():
    error = refused("emulate-wgmma-pending", warpgroup(early=True), *arrays())
    assert "an access to d[0,1] by block (0, 0, 0), warp 0" in str(error)
    assert "put cute.warpgroup_wait(0) before this line" in str(error)
    error = refused("emulate-wgmma-pending", warpgroup(early=True, commit=False), *arrays())
    assert "close the group with cute.warpgroup_commit()" in str(error)


def test_a_wait_after_registers_reads_them():
    """They must have values by then: they are neither unwritten, nor sums that it waits for."""
    A, B, D = (np.ones(x.shape, x.dtype) for x in arrays())
    emulate(warpgroup(after="b"), A, B, D)
    assert (D == 32).all()
    refused("emulate-register-unwritten", warpgroup(after="c"), *arrays())
    refused("emulate-wgmma-pending", warpgroup(after="d"), *arrays())


@pytest.mark.parametrize("source", ["SS", "RS"])
@pytest.mark.parametrize("commit", [True, False])
def test_a_block_does_not_end_while_wgmma_reads_its_shared_memory(source, commit):
    plan = warpgroup(source, early="never", commit=commit)
    error = refused("emulate-block-end", plan, *arrays())
    assert "wgmma of warpgroup 0" in str(error)
    assert "cute.warpgroup_wait(0) before the end" in str(error)


def test_a_in_registers_is_overwritten_too_early():
    error = refused("emulate-wgmma-pending", warpgroup("RS", early="A"), *arrays())
    assert "an access to a[0:8]" in str(error)


@refuses(ops.WgFence)
def test_a_in_registers_is_used_without_a_fence():
    error = refused("emulate-wgmma-fence", warpgroup("RS", ordered=False), *arrays())
    assert "wgmma on a[0:8] by block (0, 0, 0), warp 0" in str(error)


@refuses(ops.Wgmma)
def test_wgmma_reads_what_was_stored_without_a_proxy_fence():
    error = refused("emulate-proxy-fence", warpgroup(fence=False), *arrays())
    assert "by cute.warpgroup_gemm of block (0, 0, 0), warp 0" in str(error)


# -- clusters


def cluster(barrier=True, together=3, fence=True):
    """Block 0 of each pair multicasts a tile to both; each waits at its own mbarrier."""
    m = Maker("cluster", threads=32, grid=(4, 1, 1), cluster=(2, 1, 1))
    A, B = m.tensor("A", "f32"), m.tensor("B", "f32")
    S, bar = m.smem("S", "f32", 32), m.smem("bar", "u64", 1)
    a = m.reg("a", "f32")
    load = m.op(ops.TmaLoad, A[0], (bid_x * 16,), box_of(S, 0, 32), at(bar, 0), together)
    leads = m.op(ops.If, Compare("eq", bid_x % 2, 0), (only(m, load),), (), "block")
    fences = [m.op(ops.Fence, "mbarrier_init")] if fence else []
    return m.plan(
        only(m, m.op(ops.MbarInit, at(bar, 0), 1), *fences),
        *([m.op(ops.Barrier, "cluster")] if barrier else []),
        only(m, m.op(ops.MbarArrive, at(bar, 0), 128)),
        leads,
        m.op(ops.MbarWait, at(bar, 0), 0),
        m.op(ops.Load, a, at(S, tid)),
        m.op(ops.Store, at(B, bid_x * 32 + tid), a),
    )


@pytest.mark.parametrize("order", ORDERS)
def test_multicast_to_the_blocks_of_a_cluster(order):
    A, B = np.arange(64, dtype=np.float32), np.zeros((4, 32), np.float32)
    emulate(cluster(), A, B.reshape(-1), order=order, memory=1)
    assert np.array_equal(B, A.reshape(2, 32)[[0, 0, 1, 1]])


def test_block_that_the_multicast_leaves_out_waits_for_its_bytes():
    A, B = np.arange(64, dtype=np.float32), np.zeros(128, np.float32)
    error = refused("emulate-mbarrier-bytes", cluster(together=1), A, B)
    assert error.facts["block"] == (1, 0, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_a_mask_that_is_computed_is_not_0(order):
    """The instruction would copy to no block; a plain 0 is another instruction."""
    A, B = np.arange(64, dtype=np.float32), np.zeros(128, np.float32)
    for mask, right in ((bid_x % 2 * 2 + 3, True), (bid_x % 2 * 3, False), (bid_x // 2 * 3, False)):
        if right:
            emulate(cluster(together=mask), A, B, order=order, memory=1)
        else:
            error = refused("emulate-multicast", cluster(together=mask), A, B, order=order)
            assert "which is 0 in block (0, 0, 0)" in str(error)


def test_arrival_at_the_mbarrier_of_another_block():
    m = Maker(threads=32, grid=(2, 1, 1), cluster=(2, 1, 1))
    bar = m.smem("bar", "u64", 1)
    other = m.op(ops.MbarArrive, at(bar, 0), 0, 1 - bid_x)
    own = m.op(ops.MbarArrive, at(bar, 0), 0)
    init = only(m, m.op(ops.MbarInit, at(bar, 0), 1))
    meet, wait = m.op(ops.Barrier, "cluster"), m.op(ops.MbarWait, at(bar, 0), 0)
    first = m.op(ops.If, same(bid_x, 0), (only(m, other),), (), "block")
    emulate(m.plan(init, meet, only(m, other), wait))
    emulate(m.plan(init, meet, only(m, own), wait))
    error = refused("emulate-deadlock", m.plan(init, meet, first, wait))
    assert "warp 0 of block (0, 0, 0): phase 0 of mbarrier bar[0]" in str(error)


def test_cluster_barrier_that_one_block_does_not_reach():
    m = Maker(threads=32, grid=(2, 1, 1), cluster=(2, 1, 1))
    plan = m.plan(m.op(ops.If, same(bid_x, 0), (m.op(ops.Barrier, "cluster"),), (), "block"))
    error = refused("emulate-deadlock", plan)
    assert "the barrier of its cluster, where 32 threads have arrived" in str(error)
