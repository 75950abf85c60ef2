"""Shared memory of other blocks of a cluster: right kernels, their broken twins, and refusals."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from tests.emulated.test_roles import code_of
from tests.emulated.test_threads import ORDERS
from tests.hopper_kernels import (
    TURNS,
    atomics_of_peers,
    combined,
    fenced,
    fences,
    halo,
    histogram,
    integers,
    peers,
    plan_of,
    sum_of_peers,
)
from tests.sampling import quick

SLOW = pytest.mark.slow


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_load_store_and_count_in_the_shared_memory_of_their_peers(order):
    for case in peers():
        kernel, inputs, output, expected, _options = case
        cute.emulate(plan_of(*case), *inputs, output, order=order)
        assert np.array_equal(output, expected), kernel.__name__


@pytest.mark.parametrize(
    ("wrong", "codes"),
    [
        ("begin", {"emulate-peer-begin"}),
        ("rank", {"emulate-cluster-rank"}),
        ("overlap", {"emulate-race"}),
        ("between", {"emulate-race", "emulate-block-end"}),
    ],
)
def test_a_broken_sum_is_refused_in_all_orders(wrong, codes):
    x = integers((4, 256), "f32")
    assert code_of(sum_of_peers, x, np.zeros_like(x), 2, wrong) <= codes


def test_a_broken_exchange_is_refused_in_all_orders():
    x = integers(512, "f32")
    codes = {"emulate-race", "emulate-block-end", "emulate-mbarrier-phase"}
    assert code_of(halo, x, np.zeros_like(x), "arrive") <= codes


def test_loads_and_stores_in_place_of_atomics_race():
    x, y = np.arange(512, dtype=np.int32) % 64, np.zeros((2, 64), np.int32)
    assert code_of(histogram, x, y, "load") == {"emulate-race"}


# -- every pair of accesses to an element of rank 0, of which one writes

OWN = ("load", "store", "atomic")


def access(shared, how, tid):
    if how == "load":
        return shared[tid]
    if how == "store":
        shared[tid] = 1
    else:
        cute.atomic("add", cute.local_tile(shared, (1,), (tid,)), 1)
    return 1


@cute.kernel
def pair(y, first, second, by, together, last=True):
    """Rank 0 or 1 accesses shared memory of rank 0, then the other one, or rank 2."""
    cute.launch(grid=3, block=32, cluster=3)
    tid, rank = cute.thread_idx(), cute.cluster_rank()
    shared = cute.smem("s32", 32)
    shared[tid] = 0
    cute.cluster_sync()
    there = cute.mapa(shared, 0)
    held = cute.rmem("s32", 1)
    held.fill(0)
    for how, who in ((first, by[0]), (second, by[1])):
        with cute.when(rank == who):
            held[0] = access(shared if who == 0 else there, how, tid)
        if together and who == by[0]:
            cute.cluster_sync()
    if last:
        cute.cluster_sync()
    y[rank, tid] = held[0]


@pytest.mark.parametrize("by", [(0, 1), (1, 0), (1, 2)], ids=str)
@pytest.mark.parametrize("first", OWN)
def test_conflicting_accesses_of_two_blocks_need_a_barrier(first, by):
    y = np.zeros((3, 32), np.int32)
    for second in OWN:
        for order in ORDERS[:2]:
            cute.emulate(cute.trace(pair, y, first, second, by, True), y, order=order)
        if first == second and first != "store":
            cute.emulate(cute.trace(pair, y, first, second, by, False), y)
        else:
            assert code_of(pair, y, first, second, by, False) == {"emulate-race"}


@pytest.mark.parametrize("how", OWN)
def test_a_block_does_not_end_before_the_last_access_to_it(how):
    y = np.zeros((3, 32), np.int32)
    assert code_of(pair, y, "load", how, (0, 1), True, False) == {"emulate-block-end"}
    for order in ORDERS:
        cute.emulate(cute.trace(pair, y, "load", how, (0, 1), True), y, order=order)


# -- refusals


def refused(code, kernel, *arguments):
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(kernel, *arguments)
    assert caught.value.code == code, caught.value
    return str(caught.value)


@cute.kernel
def misused(x, how):
    cute.launch(grid=2, block=128, cluster=2)
    tid, bars = cute.thread_idx(), cute.mbarriers(1)
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    shared = cute.smem("f16", cute.tile_to_shape(atom, (64, 64)), 1024)
    there = cute.mapa(shared, 1)
    if how == "ldmatrix":
        held = cute.rmem("f16", 2)
        rows = cute.local_tile(there, (1, 8), (tid % 64, 0))
        cute.copy(cute.Copy_Atom(cute.atoms.SM75_U32x1_LDSM_N, "f16"), rows, held)
    elif how == "cp.async":
        one = cute.local_tile(there, (1, 8), (tid % 64, 0))
        source = cute.local_tile(x, (1, 8), (tid % 64, 0))
        cute.copy(cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<128>", "f16"), source, one)
    elif how == "tma":
        cute.tma_load(cute.local_tile(cute.tma_tensor(x), (64, 64), (0, 0)), there, bars, 0)
    elif how == "wgmma":
        mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
        thr = mma.get_slice(tid)
        acc = cute.rmem("f32", thr.partition_C(there).layout.shape)
        cute.warpgroup_gemm(mma, acc, thr.partition_A(there), thr.partition_B(shared), False)


@pytest.mark.parametrize("how", ["ldmatrix", "cp.async", "tma", "wgmma"])
def test_instructions_that_reach_no_other_block_are_refused(how):
    said = refused("mapa-operand", misused, np.zeros((64, 64), np.float16), how)
    assert "in another block of the cluster" in said


@pytest.mark.parametrize("fn", ["min", "max", "and", "or", "xor", "exch"])
def test_atomics_of_64_bits_on_peers_are_sums_alone(fn):
    """Others are not atomic on a GPU: tests/hopper_kernels.py, `atomics_of_peers`."""
    x = np.zeros((5, 32), np.uint64)
    with pytest.raises(cute.CuteError, match="64 bits in shared memory of another block"):
        cute.trace(combined, x, x[0, :4], fn, 1)
    cute.trace(combined, x, x[0, :4], "add", 1)


def test_each_atomic_of_peers_is_emulated():
    for case in atomics_of_peers():
        _kernel, inputs, output, expected, options = case
        cute.emulate(plan_of(*case), *inputs, output)
        assert np.array_equal(output, expected), (options, output.dtype)


def test_a_rank_beyond_the_cluster_is_refused():
    @cute.kernel
    def beyond(x, size):
        cute.launch(grid=4, block=32, cluster=size)
        x[cute.thread_idx()] = cute.mapa(cute.smem("f32", 32), 2)[cute.thread_idx()]

    x = np.zeros(32, np.float32)
    assert "given 2; required: one of 0, 1" in refused("kernel-choice", beyond, x, 2)
    assert cute.trace(beyond, x, 4)


@pytest.mark.parametrize("engine", ["store", "load"])
@pytest.mark.parametrize("wrong", ["", "fence", "meet"])
def test_tma_comes_after_what_peers_stored(engine, wrong):
    @cute.kernel
    def sent(x, y):
        """Rank 1 stores to rank 0, whose TMA stores it to y, or loads over it."""
        cute.launch(grid=2, block=32, cluster=2)
        tid, rank, bars = cute.thread_idx(), cute.cluster_rank(), cute.mbarriers(1)
        shared = cute.smem("f32", cute.make_layout((4, 32), cute.LayoutRight), 1024)
        with cute.elect():
            bars.init(1)
            cute.fence_mbarrier_init()
        cute.cluster_sync()
        with cute.when(rank == 1):
            for i in range(4):
                cute.mapa(shared, 0)[i, tid] = x[i, tid]
            if wrong != "fence":
                cute.fence_proxy_async()
        if wrong != "meet":
            cute.cluster_sync()
        with cute.when((rank == 0) & (tid == 0)):
            if engine == "store":
                cute.tma_store(shared, cute.local_tile(cute.tma_tensor(y), (4, 32), (0, 0)))
                cute.tma_store_commit()
                cute.tma_store_wait(0)
            else:
                bars.arrive_expect_tx(0, 512)
                cute.tma_load(cute.local_tile(cute.tma_tensor(x), (4, 32), (0, 0)), shared, bars, 0)
        cute.cluster_sync()
        if engine == "load":
            with cute.when(rank == 0):
                bars.wait(0, 0)
                for i in range(4):
                    y[i, tid] = shared[i, tid]

    x, y = integers((4, 32), "f32"), np.zeros((4, 32), np.float32)
    if wrong:
        early = {"store": "emulate-smem-unwritten", "load": "emulate-async-pending"}[engine]
        codes = {
            "fence": {"emulate-proxy-fence"},
            "meet": {"emulate-race", early},
        }
        assert code_of(sent, x, y) <= codes[wrong]
        return
    for order in ORDERS:
        y[...] = 0
        cute.emulate(cute.trace(sent, x, y), x, y, order=order)
        assert np.array_equal(x, y)


BY = ("mbarrier", "cluster", "flag")  # how threads tell each other


@pytest.mark.parametrize("order", [ORDERS[0], *(pytest.param(x, marks=SLOW) for x in ORDERS[1:])])
@pytest.mark.parametrize("how", BY)
def test_a_proxy_fence_counts_of_who_stored_and_in_the_block_whose_tma_comes_next(how, order):
    chosen = [case for case in fences() if case[-1]["how"] == how]
    for case in chosen if order != ORDERS[0] else chosen[BY.index(how) :: 4]:
        _kernel, inputs, output, expected, options = case
        cute.emulate(plan_of(*case), *inputs, output, order=order)
        assert np.array_equal(output, expected), options


@pytest.mark.parametrize(
    ("how", "fence", "peer"),
    quick(
        [("mbarrier", 1, False), ("cluster", 3, True), ("flag", 1, False)],
        *(BY, (1, 3, None), (False, True)),
    ),
)
def test_a_proxy_fence_of_a_third_block_counts_not(how, fence, peer):
    """Told by mbarriers, barriers of the cluster, or flags; nor does none."""
    x, y = integers((4, 32), "f32"), np.zeros((4, 32), np.float32)
    told = "emulate-race" if peer and how == "flag" else "emulate-proxy-fence"
    flags = np.zeros(len(TURNS), np.int32)
    assert code_of(fenced, x, flags, y, how, fence, peer) == {told}


def test_what_the_gpu_asks_of_a_report_counts_no_banks_of_other_blocks():
    case = next(peers())
    plan = plan_of(*case)
    report = cute.emulate(plan, *case[1], case[2], report=True)
    lines = {
        op.line for op in plan.ops if getattr(getattr(op, "src", None), "rank", None) is not None
    }
    assert lines
    assert all(report.lines[line].requests and not report.lines[line].wavefronts for line in lines)


def test_swizzled_tiles_and_packed_elements_are_read_where_the_peer_stored_them():
    @cute.kernel
    def exchanged(x, y, z):
        cute.launch(grid=2, block=32, cluster=2)
        tid, rank = cute.thread_idx(), cute.cluster_rank()
        atom = cute.atoms.Layout_K_SW128_Atom("f16")
        wide = cute.smem("f16", cute.tile_to_shape(atom, (32, 64)), 1024)
        small = cute.smem("u4", cute.make_layout((32, 8), cute.LayoutRight))
        digits = cute.rmem("u4", 8)
        for k in range(8):
            digits[k] = k + rank
            part = cute.local_tile(wide, (1, 8), (tid, k))
            cute.copy(cute.local_tile(x[rank, _, _], (1, 8), (tid, k)), part)
        cute.copy(digits, cute.local_tile(small, (1, 8), (tid, 0)))
        cute.cluster_sync()
        there = cute.mapa(wide, 1 - rank)
        for k in cute.range(8):
            part = cute.local_tile(there, (1, 8), (tid, k))
            cute.copy(part, cute.local_tile(y[rank, _, _], (1, 8), (tid, k)))
        cute.copy(cute.local_tile(cute.mapa(small, 1 - rank), (1, 8), (31 - tid, 0)), digits)
        for k in range(8):
            z[rank, tid, k] = digits[k].to("s32")
        cute.cluster_sync()

    x = np.random.default_rng(0).random((2, 32, 64)).astype(np.float16)
    y, z = np.zeros_like(x), np.zeros((2, 32, 8), np.int32)
    cute.emulate(cute.trace(exchanged, x, y, z), x, y, z)
    assert np.array_equal(y, x[::-1])
    stored = np.add.outer([1, 0], np.arange(8))[:, None]
    assert np.array_equal(z, np.broadcast_to(stored, z.shape))
