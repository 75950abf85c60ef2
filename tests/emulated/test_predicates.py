"""Copies are predicated by the extents, by registers, or by a condition."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan.ops import CpAsync, If, Load, Store

SHAPES = [(8, 32), (9, 33), (1, 1), (17, 70)]


def numbers(shape):
    return np.random.default_rng(0).integers(1, 9, shape).astype(np.float32)


def tile_parts(*tensors):
    """Return a tiled copy of 8 x 32 elements by a warp, and each tensor's part of the block."""
    bx, by = cute.block_idx()
    copy = cute.make_tiled_copy(cute.Copy_Atom("UniversalCopy<32>", "f32"), (1, 32), (8, 1))
    thread = copy.get_slice(cute.thread_idx())
    return copy, [thread.partition_S(cute.local_tile(x, (8, 32), (bx, by))) for x in tensors]


@cute.kernel
def row_sums(A, S, fill):
    """S[block] = the sum of a tile of A, where `fill` stands for what lies outside of A."""
    grid = (cute.ceil_div(A.shape[0], 8), cute.ceil_div(A.shape[1], 32))
    cute.launch(grid=grid, block=32)
    copy, (tAgA,) = tile_parts(A)
    held = cute.make_rmem_tensor(tAgA.shape, "f32")
    cute.copy(copy, tAgA, held, fill=fill)
    total = cute.warp_reduce("add", cute.reduce("add", held))
    with cute.when(cute.thread_idx() == 0):
        S[cute.block_idx()] = total


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fill", [0, 2])
def test_loads_beyond_the_extents_give_the_fill(shape, fill):
    a = numbers(shape)
    rows, columns = -(-shape[0] // 8), -(-shape[1] // 32)
    padded = np.full((rows * 8, columns * 32), fill, np.float32)
    padded[: shape[0], : shape[1]] = a
    sums = np.zeros((rows, columns), np.float32)
    row_sums(a, sums, fill)
    np.testing.assert_array_equal(sums, padded.reshape(rows, 8, columns, 32).sum((1, 3)))


@cute.kernel
def copy_tiles(A, B):
    cute.launch(grid=(cute.ceil_div(A.shape[0], 8), cute.ceil_div(A.shape[1], 32)), block=32)
    copy, (tAgA, tBgB) = tile_parts(A, B)
    cute.copy(copy, tAgA, tBgB)


@pytest.mark.parametrize("shape", SHAPES)
def test_stores_beyond_the_extents_are_left_out(shape):
    a, whole = numbers(shape), np.full((40, 100), -1, np.float32)
    inside = whole[: shape[0], : shape[1]]
    copy_tiles(a, inside)
    np.testing.assert_array_equal(inside, a)
    assert (whole[shape[0] :] == -1).all()
    assert (whole[:, shape[1] :] == -1).all()


@cute.kernel
def copy_rows(A, B, width, fill):
    """Each thread copies tiles of a row: one from 0 on, and one for each pass of a loop."""
    cute.launch(grid=1, block=32)
    row, tile = cute.thread_idx(), (1, width)
    for first in (0, 1):
        held = cute.rmem(A.dtype, tile)
        cute.copy(cute.local_tile(A, tile, (row, first)), held, fill=fill)
        cute.copy(held, cute.local_tile(B, tile, (row, first)))
    cute.syncwarp()  # rows from 2 on are written again, by other lanes
    for k in cute.range(cute.ceil_div(A.shape[1], width)):
        held = cute.rmem(A.dtype, tile)
        cute.copy(cute.local_tile(A, tile, (row, k)), held, fill=fill)
        cute.copy(held, cute.local_tile(B, tile, (row + 2, k)))


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("columns", [*range(1, 10), 12, 16, 20, 32])
def test_a_vector_lies_in_its_row_as_a_whole(columns, width):
    """A row has room behind it, so that wide vectors are aligned; what is there is not touched."""
    count = -(-columns // width) * width
    a = np.arange(64, dtype=np.int16).reshape(2, 32)[:, :columns]
    b = np.full((4, 64), -1, np.int16)
    copy_rows(a, b[:, :count], width, 99)
    want = np.full((4, 64), -1, np.int16)
    want[:2, : min(count, 2 * width)] = want[2:, :count] = 99
    want[:2, : min(columns, 2 * width)] = a[:, : 2 * width]
    want[2:, :columns] = a
    np.testing.assert_array_equal(b, want)


@cute.kernel
def fill_row(B, width):
    cute.launch(grid=1, block=32)
    held = cute.rmem(B.dtype, (1, width))
    held.fill(5)
    cute.copy(held, cute.local_tile(B, (1, width), (cute.thread_idx(), 0)))


@pytest.mark.parametrize("columns", range(1, 9))
def test_nothing_is_stored_behind_a_row_that_is_shorter_than_a_tile(columns):
    b = np.zeros((2, 8), np.int16)
    fill_row(b[:, :columns], 8)
    assert (b[:, :columns] == 5).all()
    assert not b[:, columns:].any()


def test_the_plan_says_which_copies_are_predicated():
    plan = cute.trace(copy_tiles, numbers((9, 33)), numbers((9, 33)))
    (load,) = [op for op in plan.ops if isinstance(op, Load)]
    assert {str(guard) for guard in load.src.guards} >= {"32*bid_y+tid < A_shape1"}
    assert " if " in str(plan)


def test_what_the_extents_prove_is_not_predicated():
    @cute.kernel
    def whole(
        A: cute.spec(shape=(16, 64)),
        B: cute.spec(shape=(16, 64)),
    ):
        cute.launch(grid=(2, 2), block=32)
        copy, (tAgA, tBgB) = tile_parts(A, B)
        cute.copy(copy, tAgA, tBgB)

    a, b = numbers((16, 64)), np.zeros((16, 64), np.float32)
    plan = cute.trace(whole, a, b)
    assert not any(op.src.guards for op in plan.ops if isinstance(op, Load))
    assert not any(op.dst.guards for op in plan.ops if isinstance(op, Store))
    whole(a, b)
    np.testing.assert_array_equal(a, b)


@cute.kernel
def copy_even_rows(A, B):
    cute.launch(grid=(cute.ceil_div(A.shape[0], 8), cute.ceil_div(A.shape[1], 32)), block=32)
    copy, (tAgA, tBgB) = tile_parts(A, B)
    pred = cute.rmem("b1", 8)
    for row in range(8):
        pred[row] = row % 2 == 0
    held = cute.make_rmem_tensor(tAgA.shape, "f32")
    cute.copy(copy, tAgA, held, pred=pred, fill=7)
    cute.copy(copy, held, tBgB)


def test_registers_decide_which_vectors_are_copied():
    a, b = numbers((16, 64)), np.zeros((16, 64), np.float32)
    copy_even_rows(a, b)
    np.testing.assert_array_equal(b[::2], a[::2])
    assert (b[1::2] == 7).all()


def test_predicates_take_the_place_of_the_extents():
    a, b = numbers((9, 64)), np.zeros((9, 64), np.float32)
    with pytest.raises(cute.CuteError, match="copy_even_rows"):
        copy_even_rows(a, b)  # row 10 is even, and outside


@cute.kernel
def copy_first_block(A, B):
    cute.launch(grid=(cute.ceil_div(A.shape[0], 8), cute.ceil_div(A.shape[1], 32)), block=32)
    copy, (tAgA, tBgB) = tile_parts(A, B)
    cute.copy(copy, tAgA, tBgB, pred=cute.block_idx()[0] < 1)


def test_a_condition_goes_for_the_whole_copy():
    a, b = numbers((17, 33)), np.zeros((17, 33), np.float32)
    copy_first_block(a, b)
    np.testing.assert_array_equal(b[:8], a[:8])
    assert (b[8:] == 0).all()
    assert any(isinstance(op, If) for op in cute.trace(copy_first_block, a, b).ops)


@pytest.mark.parametrize("flags", [1, 2, 4])
def test_an_asynchronous_copy_fills_with_zeros_for_any_number_of_flags(flags):
    @cute.kernel
    def run(x, out):
        cute.launch(grid=1, block=32)
        t, s = cute.thread_idx(), cute.smem("f16", cute.Layout((32, 32), (32, 1)))
        s[t, cute._].fill(5)
        there = cute.rmem("b1", flags)
        for k in range(flags):
            there[k] = t < 8 * (k + 1)
        atom = cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>", "f16")
        row = cute.Layout(8 * flags)
        cute.copy(
            atom,
            cute.make_tensor(x[t, cute._].data, row),
            cute.make_tensor(s[t, cute._].data, row),
            pred=there,
        )
        cute.cp_async_fence()
        cute.cp_async_wait(0)
        cute.syncthreads()
        for k in range(flags):
            out[t, k] = s[t, 8 * k].to("s32")

    out = np.full((32, flags), -1, np.int32)
    run(np.ones((32, 32), np.float16), out)
    for k in range(flags):
        assert (out[: 8 * (k + 1), k] == 1).all()
        assert (out[8 * (k + 1) :, k] == 0).all()


@pytest.mark.parametrize("flags", [1, 2])
def test_a_load_fills_for_any_number_of_flags(flags):
    @cute.kernel
    def run(x, out):
        cute.launch(grid=1, block=32)
        t, held, there = cute.thread_idx(), cute.rmem("f32", flags), cute.rmem("b1", flags)
        held.fill(5)
        there.fill(t < 16)
        atom = cute.Copy_Atom("UniversalCopy<32>", "f32")
        cute.copy(atom, cute.local_tile(x, (flags,), (t,)), held, pred=there, fill=7)
        cute.copy(held, cute.local_tile(out, (flags,), (t,)))

    out = np.zeros(32 * flags, np.float32)
    run(np.ones(32 * flags, np.float32), out)
    assert (out[: 16 * flags] == 1).all()
    assert (out[16 * flags :] == 7).all()


def test_one_flag_is_a_condition_where_there_are_no_vectors():
    @cute.kernel
    def run(x, out):
        cute.launch(grid=1, block=32)
        t, there = cute.thread_idx(), cute.rmem("b1", 1)
        a, b = cute.rmem("f32", 1), cute.rmem("f32", 1)
        a.fill(3)
        b.fill(5)
        there.fill(t < 16)
        cute.copy(a, b, pred=there)
        out[t] = b[0]

    out = np.zeros(32, np.float32)
    run(np.ones(32, np.float32), out)
    assert (out[:16] == 3).all()
    assert (out[16:] == 5).all()


def refused(body):
    @cute.kernel
    def run(A):
        cute.launch(grid=1, block=32)
        body(A)

    with pytest.raises(cute.CuteError) as caught:
        cute.trace(run, numbers((16, 64)))
    return caught.value.code


def test_predicates_must_fit_the_vectors():
    def three(A):
        copy, (part,) = tile_parts_of_one_block(A)
        pred = cute.rmem("b1", 3)
        pred.fill(True)
        cute.copy(copy, part, cute.make_rmem_tensor(part.shape, "f32"), pred=pred)

    assert refused(three) == "kernel-pred"


def test_an_asynchronous_copy_fills_with_zeros_only():
    def five(A):
        atom = cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<32>", "f32")
        copy = cute.make_tiled_copy(atom, (1, 32), (8, 1))
        part = copy.get_slice(cute.thread_idx())
        source = part.partition_S(cute.local_tile(A, (8, 32), (0, 0)))
        cute.copy(copy, source, part.partition_D(cute.smem("f32", (8, 32))), fill=5)

    assert refused(five) == "kernel-fill"


def tile_parts_of_one_block(A):
    copy = cute.make_tiled_copy(cute.Copy_Atom("UniversalCopy<32>", "f32"), (1, 32), (8, 1))
    part = copy.get_slice(cute.thread_idx()).partition_S(cute.local_tile(A, (8, 32), (0, 0)))
    return copy, (part,)


def test_zfill_fills_and_plain_cp_async_leaves_shared_memory():
    @cute.kernel
    def load(A, B, name):
        cute.launch(grid=1, block=32)
        held = cute.smem("f32", (8, 32))
        tid = cute.thread_idx()
        for row in range(8):
            held[row, tid] = 9.0
        cute.syncthreads()
        copy = cute.make_tiled_copy(cute.Copy_Atom(name, "f32"), (1, 32), (8, 1))
        part = copy.get_slice(tid)
        cute.copy(
            copy, part.partition_S(cute.local_tile(A, (8, 32), (0, 0))), part.partition_D(held)
        )
        cute.cp_async_fence()
        cute.cp_async_wait(0)
        cute.syncthreads()
        for row in range(8):
            B[row, tid] = held[row, tid]

    a, b = numbers((5, 32)), np.zeros((8, 32), np.float32)
    for name, rest in (("CACHEALWAYS_ZFILL", 0), ("CACHEALWAYS", 9)):
        load(a, b, f"SM80_CP_ASYNC_{name}<32>")
        np.testing.assert_array_equal(b[:5], a)
        assert (b[5:] == rest).all()
        plan = cute.trace(load, a, b, f"SM80_CP_ASYNC_{name}<32>")
        assert any(isinstance(op, CpAsync) for op in plan.ops)


@cute.kernel
def by_conditions(x, y, count):
    """Two vectors of two elements, each with a condition of its own."""
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    pairs = cute.Copy_Atom("UniversalCopy<64>", "f32")
    held = cute.rmem("f32", 4)
    cute.copy(
        pairs, cute.local_tile(x, (4,), (t,)), held, pred=(t < 16, True, t != 3)[:count], fill=7
    )
    cute.copy(pairs, held, cute.local_tile(y, (4,), (t,)), pred=(True, t < 30))


def test_a_tuple_of_conditions_is_one_for_each_vector():
    x, y = np.arange(128, dtype=np.float32), np.full(128, -1, np.float32)
    by_conditions(x, y, 2)
    wanted = x.reshape(32, 4).copy()
    wanted[16:, :2] = 7
    wanted[30:, 2:] = -1
    np.testing.assert_array_equal(y.reshape(32, 4), wanted)
    plan = cute.trace(by_conditions, x, y, 2)
    assert not any(isinstance(op, If) for op in plan.ops)


@pytest.mark.parametrize("count", [0, 3])
def test_conditions_must_divide_the_vectors(count):
    x = np.zeros(128, np.float32)
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(by_conditions, x, x, count)
    assert caught.value.code == "kernel-pred"
