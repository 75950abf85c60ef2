"""Accumulators that leave by the maps of CUTLASS 2.x arrive where a plain copy puts them."""

import numpy as np
import pytest
from numpy.random import default_rng

import cute_py as cute
from cute_py import _, cutlass2
from tests.emulated.kernel_data import poisoned


@cute.kernel
def scattered(C, D, plain, mma, parts, row_major: bool):
    """D (M,N) = C through accumulators, shared memory and rows; `plain` by partition_C."""
    tile = parts.output.tile
    cute.launch(
        grid=(cute.ceil_div(D.shape[0], tile[0]), cute.ceil_div(D.shape[1], tile[1])),
        block=mma.size(),
    )
    at, tid = cute.block_idx(), cute.thread_idx()
    thr = mma.get_slice(tid)
    gC, gD, gP = (cute.local_tile(x, tile, at) for x in (C, D, plain))
    acc = thr.make_fragment_C(thr.partition_C(gC))  # (MMA,MMA_M,MMA_N)
    cute.copy(thr.partition_C(gC), acc)
    cute.copy(acc, thr.partition_C(gP))

    order = cute.Layout(cute.size(acc))  # CUTLASS's order of accumulators -> index of the fragment
    if row_major:  # of a thread's tile
        rows, columns = (int(cute.size(acc, i)) for i in (1, 2))
        order = cute.Layout((columns, rows), (rows, 1))
    held = acc.with_layout(
        cute.composition(acc.layout, cute.composition(order, parts.store.fragment))
    )
    sC = cute.smem(D.dtype, parts.store.smem)
    compact = parts.output.compacted()
    store = cute.composition(sC, parts.store.layout_tv)[tid, _]
    load = cute.composition(sC, compact.layout)[tid, _, 0]
    out = cute.composition(gD, parts.output.layout)[tid, _, _]
    for step in range(parts.output.steps):
        cute.copy(held[_, step], store)
        cute.syncthreads()
        row = cute.make_rmem_tensor(load.shape, D.dtype)
        cute.copy(load, row)
        cute.syncthreads()
        cute.copy(row, out[_, step])


def tensor_op(kind, c, block, warp, elements):
    instruction = (16, 8, 16)
    mma = cutlass2.default_mma_tensor_op((*block, 16), (*warp, 16), instruction, kind, kind, c)
    return mma, cutlass2.default_epilogue_tensor_op(block, warp, c, c, elements), False


def simt(block, warp):
    mma = cutlass2.default_mma_core_simt((*block, 8), (*warp, 8)).policy.operator
    share = cutlass2.simt_warp(warp)
    parts = cutlass2.default_epilogue_simt(block, warp, "f32", share.layout, share.lane)
    return mma, parts, True


CASES = {
    "tensor op": lambda: tensor_op("f16", "f32", (128, 64), (64, 32), 4),
    "tensor op, f16": lambda: tensor_op("f16", "f16", (64, 64), (32, 32), 8),
    "simt": lambda: simt((128, 128), (32, 64)),
    "simt, 8x4 lanes": lambda: simt((128, 64), (64, 32)),
}


@pytest.mark.parametrize("case", CASES)
def test_k11_k12_k14_k24_k25_rows_through_shared_memory_are_the_plain_copy(case):
    """M, N = 130, 70: more than a tile in M, guarded in both; all around D stays."""
    mma, parts, row_major = CASES[case]()
    kind = mma.atom.c_type.numpy
    c = default_rng(0).integers(-900, 900, (130, 70)).astype(kind)
    whole, plain = poisoned((134, 76), kind), poisoned((130, 70), kind)
    inside = whole[2:132, 4:74]
    scattered(c, inside, plain, mma, parts, row_major)
    np.testing.assert_array_equal(plain, c)
    np.testing.assert_array_equal(inside, plain)
    inside[:] = poisoned((), kind)
    np.testing.assert_array_equal(whole, poisoned((134, 76), kind))


def test_k24_d_may_be_permuted_and_its_source_is_loaded_by_the_same_map():
    """D transposed is a tensor with its modes exchanged; C is loaded as D is stored."""
    parts = cutlass2.default_epilogue_tensor_op((64, 64), (32, 32), "f32", "f32", 4)
    output = parts.output

    @cute.kernel
    def move(C, D):
        cute.launch(grid=1, block=output.threads)
        tid = cute.thread_idx()
        gC, gD = (cute.local_tile(x, output.tile, (0, 0)) for x in (C, D))
        source, out = (cute.composition(x, output.layout)[tid, _, _] for x in (gC, gD))
        for step in range(output.steps):
            held = cute.make_rmem_tensor(source[_, 0].shape, C.dtype)
            cute.copy(source[_, step], held)
            cute.copy(held, out[_, step])

    c = default_rng(0).normal(size=(50, 60)).astype(np.float32)
    d = poisoned((60, 50), np.float32)
    move(c, d.T)
    np.testing.assert_array_equal(d, c.T)


# block, warp, type, elements, warps along K of tensor cores; then lanes and their tiles
LANDINGS = [
    ((64, 64), (32, 32), "f32", 4, 1),
    ((32, 128), (32, 64), "f16", 8, 2),
    ((32, 128), (32, 64), "f32", 4, 1),
    ((128, 64), (64, 64), "f32", 2, 1),
    ((16, 64), (16, 32), "f16", 8, 1),
    ((32, 64), (16, 32), (4, 8), (4, 4), 2),
    ((64, 64), (32, 32), (8, 4), (4, 4), 1),
]


def sums_of(block, warp, kind, lane):
    """Return (thread, accumulator) -> (row, column) of the block, by the PTX ISA or CUTLASS."""
    over_m, over_n = block[0] // warp[0], block[1] // warp[1]

    def of_tensor_cores(t, acc):
        m, n = acc // 4 % (warp[0] // 16), acc // 4 // (warp[0] // 16)
        return 16 * m + 8 * (acc // 2 % 2) + t // 4, 8 * n + 2 * (t % 4) + acc % 2

    def of_single_threads(t, acc):
        place = divmod(t, kind[1]), divmod(acc, warp[1] // kind[1])
        found = []
        for many, each, at, i in zip(kind, lane, *place, strict=True):
            found.append(i // each * many * each + at * each + i % each)
        return tuple(found)

    def owner(thread, acc):
        w, t = divmod(thread, 32)
        row, column = (of_tensor_cores if isinstance(kind, str) else of_single_threads)(t, acc)
        return w % over_m * warp[0] + row, w // over_m % over_n * warp[1] + column

    return owner


@pytest.mark.parametrize(("block", "warp", "kind", "lane", "over_k"), LANDINGS, ids=str)
def test_k25_what_is_loaded_is_what_was_stored(block, warp, kind, lane, over_k):
    """Of every iteration, thread and element, for all parts of K: by the maps alone."""
    if isinstance(kind, str):
        parts = cutlass2.default_epilogue_tensor_op(
            block, warp, kind, kind, lane, partitions_k=over_k
        )
    else:
        lanes = cute.Layout(kind, (kind[1], 1))
        parts = cutlass2.default_epilogue_simt(block, warp, "f32", lanes, lane, over_k)
    store, output, owner = parts.store, parts.output, sums_of(block, warp, kind, lane)
    compact, (high, _) = output.compacted(), store.tile
    stored, loaded = (cute.offsets(x).tolist() for x in (store.layout_tv, compact.layout))
    leaving = cute.offsets(output.layout).tolist()
    kept, rows = cute.offsets(store.fragment).tolist(), compact.tile[0]
    values = len(stored) // output.threads
    for step in range(output.steps):
        memory = {
            at: owner(i % output.threads, kept[step * values + i // output.threads])
            for i, at in enumerate(stored)
        }
        for i, at in enumerate(loaded):
            place = leaving[step * len(loaded) + i]
            wanted = place % block[0], place // block[0]
            for part in range(over_k):
                assert memory[at % rows + part * rows + high * (at // rows)] == wanted
