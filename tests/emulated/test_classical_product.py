"""Products by the default parts of CUTLASS 2.x: cores of single threads, and what is cleared."""

import numpy as np
import pytest
from numpy.random import default_rng

import cute_py as cute
from cute_py import _, cutlass2
from cute_py.plan.ops import CpAsync
from tests.emulated.kernel_data import operands, poisoned, reference
from tests.refusals.hopper import of_warpgroups


@pytest.mark.parametrize("warps", [(64, 32, 8), (32, 64, 8), (64, 64, 4)], ids=str)
def test_h06_a_product_by_the_core_of_single_threads(warps):
    """Scalar loads along K by the strip-mined maps, stored transposed to padded rows."""
    block = (128, 64, 8)
    core = cutlass2.default_mma_core_simt(block, warps)
    mma, atom = core.policy.operator, cute.Copy_Atom("UniversalCopy<32>", "f32")
    moves = [
        (load.tiled_copy(atom), cutlass2.transposed_thread_map(load).tiled_copy(atom), tile)
        for load, tile in ((core.map_a, core.smem_a), (core.map_b, core.smem_b))
    ]

    @cute.kernel
    def run(A, B, C):
        cute.launch(grid=1, block=core.threads)
        tid = cute.thread_idx()
        shared = []
        for x, rows, (g2r, r2s, tile) in zip((A, B), block, moves, strict=False):
            to = cute.smem("f32", tile)  # (BM or BN,BK,2)
            turned = cute.make_tensor(x.data, cute.select(x.layout, (1, 0)))  # (K, M or N)
            source = g2r.get_slice(tid).partition_S(cute.local_tile(turned, (8, rows), (0, 0)))
            held = cute.make_rmem_tensor(source.shape, "f32")
            cute.copy(g2r, source, held)
            target = r2s.get_slice(tid).partition_D(to[_, _, 0])
            cute.copy(r2s, held.with_layout(cute.Layout(target.shape)), target)
            shared.append(to[_, _, 0])
        cute.syncthreads()
        thr = mma.get_slice(tid)
        tA, tB = thr.partition_A(shared[0]), thr.partition_B(shared[1])
        a, b = thr.make_fragment_A(tA), thr.make_fragment_B(tB)
        cute.copy(tA, a)
        cute.copy(tB, b)
        tC = thr.partition_C(cute.local_tile(C, block[:2], (0, 0)))
        acc = thr.make_fragment_C(tC)
        acc.fill(0)
        cute.gemm(mma, acc, a, b)
        cute.atomic("add", tC, acc)  # warps along K add theirs

    a, b = operands(default_rng(0), block, "f32")
    c = np.zeros(block[:2], np.float32)
    run(a, b, c)
    np.testing.assert_array_equal(c, reference(a, b))


TILE, STAGES = (32, 32, 8), 3
FMA = cute.make_tiled_mma("UniversalFMA<f32>", (8, 4, 1))
LOAD = cute.make_tiled_copy(
    cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<32>", "f32"),
    cute.Layout((4, 8), (8, 1)),
    cute.Layout((1, 1)),
)


@cute.kernel
def product(A, B, C, left, clear: str, first: int = 0):
    """C = A B^T in shared memory of NaNs; `left` is the last stage of A afterwards."""
    (m, n, k), tid = TILE, None
    grid = cute.ceil_div(C.shape[0], m), cute.ceil_div(C.shape[1], n)
    cute.launch(grid=grid, block=32)
    (x, y), tid = cute.block_idx(), cute.thread_idx()
    shared = [cute.smem("f32", (rows, k, STAGES)) for rows in (m, n)]
    for held in shared:
        for i in cute.range(tid, int(cute.size(held)), 32):
            held[i] = float("nan")
    cute.syncthreads()
    tiles = cute.local_tile(A, (m, k), (x, _)), cute.local_tile(B, (n, k), (y, _))
    a, b = (cute.Operand(t, s, LOAD) for t, s in zip(tiles, shared, strict=True))
    tC = FMA.get_slice(tid).partition_C(cute.local_tile(C, (m, n), (x, y)))
    acc = FMA.get_slice(tid).make_fragment_C(tC)
    acc.fill(0)
    cute.mainloop(FMA, acc, a, b, first, clear=clear)
    cute.copy(acc, tC)
    cute.syncthreads()
    with cute.when((x == 0) & (y == 0)):
        for i in cute.range(tid, m * k, 32):
            left[i] = shared[0][_, _, STAGES - 1][i]


@pytest.mark.parametrize("clear", ["zfill", "none", "last_stage"])
@pytest.mark.parametrize("K", [1, 33, 48])
def test_h14_nothing_outside_of_the_arrays_is_multiplied(clear, K):
    """Up to six tiles of K, the last one ragged; NaNs of shared memory must not leak."""
    a, b = operands(default_rng(0), (40, 35, K), "f32")
    c, left = poisoned((40, 35), np.float32), poisoned(256, np.float32)
    product(a, b, c, left, clear)
    np.testing.assert_array_equal(c, reference(a, b))
    if K == 48:  # the last of six tiles is in the last of three stages
        assert (left == 0).all() == (clear == "last_stage")


def test_h14_the_first_tiles_of_any_range_are_filled():
    """Tiles 4 to 8 of 9, in stages that nothing filled before."""
    a, b = operands(default_rng(0), (40, 35, 70), "f32")
    c = poisoned((40, 35), np.float32)
    product(a, b, c, poisoned(256, np.float32), "none", 4)
    np.testing.assert_array_equal(c, reference(a[:, 32:], b[:, 32:]))


def test_h14_only_none_copies_without_zeros():
    arrays = [np.zeros((40, 48), np.float32)] * 2
    names = {}
    for clear in ("zfill", "none", "last_stage"):
        plan = cute.trace(
            product, *arrays, np.zeros((40, 40), np.float32), np.zeros(256, np.float32), clear
        )
        names[clear] = {"ZFILL" in str(op.atom) for op in plan.ops if isinstance(op, CpAsync)}
    assert names == {"zfill": {True}, "none": {True, False}, "last_stage": {True}}


@pytest.mark.parametrize("clear", ["zfill", "none", "last_stage"])
def test_h14_warpgroups_leave_no_choice_of_what_is_cleared(clear):
    @cute.kernel
    def run():
        cute.launch(grid=1, block=128)
        taken, ring = of_warpgroups()
        cute.mainloop(*taken, count=1, ring=ring, fill=False, clear=clear)

    if clear == "zfill":
        assert cute.trace(run).ops
        return
    with pytest.raises(cute.LayoutError, match="without transform and clear"):
        cute.trace(run)
