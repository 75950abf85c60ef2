"""Acceptance examples of the inventory that no other test shows: tiles in memory."""

import numpy as np
import pytest
from numpy.random import default_rng

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import tile_copy
from cute_py.kernels.copy import copy_tiles
from tests.emulated.kernel_data import poisoned, stored


def test_j07_the_residue_of_k_comes_first():
    """K of 100 in tiles of 32: 0-3, 4-35, 36-67, 68-99."""

    @cute.kernel
    def sums(A, out):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        K = A.shape[1]
        tiles = cute.ceil_div(K, 32)
        moved = cute.domain_offset((0, K - 32 * tiles), A)
        for k in cute.range(tiles):
            held = cute.rmem("f32", 32)
            cute.copy(cute.local_tile(moved, (32, 32), (0, k))[tid, _], held)
            out[tid, k] = cute.reduce("add", held)

    a = default_rng(0).integers(1, 9, (32, 100)).astype(np.float32)
    out = np.zeros((32, 4), np.float32)
    sums(a, out)
    wanted = [a[:, :4].sum(1), *(a[:, i : i + 32].sum(1) for i in (4, 36, 68))]
    np.testing.assert_array_equal(out, np.stack(wanted, 1))


def test_j09_a_copy_of_96x100_leaves_what_is_around_it():
    a = default_rng(0).normal(size=(96, 100)).astype(np.float32)
    whole = np.full((130, 140), -1, np.float32)
    inside = whole[8:104, 4:104]
    copy_tiles(a, inside, tile_copy((32, 32), 128, a, inside))
    np.testing.assert_array_equal(inside, a)
    inside[:] = -1
    assert (whole == -1).all()


RAKED = [
    ("f16", (128, 32), 64),
    ("f16", (256, 32), 64),
    ("f32", (128, 32), 32),
    ("s8", (128, 32), 128),
]


@cute.kernel
def store_tile(X, out, copy, layout):
    """out = shared memory as it lies, after X (contiguous, strided) went there by a thread map."""
    size = int(cute.size(layout))
    cute.launch(grid=1, block=copy.size())
    tid = cute.thread_idx()
    shared, part = cute.smem(X.dtype, layout), copy.get_slice(tid)
    source = part.partition_S(cute.local_tile(X, copy.tile_shape, (0, 0)))
    held = cute.make_rmem_tensor(source.shape, X.dtype)
    cute.copy(source, held)
    cute.copy(copy, held, part.partition_D(shared))
    cute.syncthreads()
    plain_shared = cute.make_tensor(shared.data, cute.Layout(size))
    for i in cute.range(tid, size, copy.size()):
        out[i] = plain_shared[i]


def p1(c, s, bits, crosswise, ld):
    """Return the offset of TensorOpMultiplicand: chunks of 16 bytes, XORed in lines of 128."""
    chunk, rows = 128 // bits, 8 * (128 // bits) // crosswise
    wide, y = 8 // rows, s // rows % max(8 // rows, 4)
    vector = c // chunk
    x = vector % wide + s % rows * wide
    at = 4 * (x // 4 ^ y // 4 % 2) + (x % 4 ^ y % 4)
    return (vector // wide * 8 + at) * chunk + c % chunk + s // rows * ld * rows


@pytest.mark.parametrize(("kind", "shape", "crosswise"), RAKED, ids=str)
def test_j11_j12_j13_raked_stores_lie_where_the_congruous_map_says(kind, shape, crosswise):
    bits = cute.dtype(kind).bits
    layout = cute.tensor_op_multiplicand(bits, crosswise, *shape)
    threads = cute.warp_raked_thread_map(shape, 128, (8, 4), 128 // bits)
    copy = threads.tiled_copy(cute.Copy_Atom("UniversalCopy<128>", kind))
    x = stored(np.arange(shape[0] * shape[1]).reshape(shape, order="F") % 2000 % 120, kind, 0)
    out = np.zeros(x.size, x.dtype)
    store_tile(x, out, copy, layout)
    for c in range(shape[0]):
        for s in range(shape[1]):
            assert out[p1(c, s, bits, crosswise, shape[0])] == x[c, s]


def test_j14_raked_stores_lie_where_the_crosswise_map_says():
    layout = cute.tensor_op_multiplicand_crosswise(16, 32, 32, 128)
    threads = cute.warp_raked_thread_map((32, 128), 128, (4, 8), 8)
    copy = threads.tiled_copy(cute.Copy_Atom("UniversalCopy<128>", "f16"))
    x = stored(np.arange(4096).reshape((32, 128), order="F") % 2048, "f16", 0)
    out = np.zeros(x.size, x.dtype)
    store_tile(x, out, copy, layout)
    for c in range(32):
        for s in range(128):
            assert out[p1(c, s, 16, 32, 32)] == x[c, s]


def test_j10_a_tile_is_stored_transposed_by_the_transposed_map():
    """Threads load (8,128) along the contiguous mode, and store to rows along the other."""
    load = cute.stripmined_thread_map((8, 128), 256)
    atom = cute.Copy_Atom("UniversalCopy<32>", "f32")
    g2r, r2s = load.tiled_copy(atom), cute.transposed_thread_map(load).tiled_copy(atom)

    @cute.kernel
    def transpose(A: cute.spec(shape=(8, 128)), B):
        cute.launch(grid=1, block=256)
        tid = cute.thread_idx()
        shared = cute.smem("f32", cute.Layout((128, 8), (1, 132)))
        source = g2r.get_slice(tid).partition_S(A)
        held = cute.make_rmem_tensor(source.shape, "f32")
        cute.copy(g2r, source, held)
        target = r2s.get_slice(tid).partition_D(shared)
        cute.copy(r2s, held.with_layout(cute.Layout(target.shape)), target)
        cute.syncthreads()
        for i in cute.range(tid, 1024, 256):
            B[i % 128, i // 128] = shared[i % 128, i // 128]

    a = np.arange(1024, dtype=np.float32).reshape((8, 128), order="F")
    b = poisoned((128, 8), np.float32)
    transpose(a, b)
    np.testing.assert_array_equal(b, a.T)


def test_j15_a_ragged_tile_of_50x30_is_filled_with_zeros():
    copy = cute.make_tiled_copy(cute.Copy_Atom("UniversalCopy<32>", "f32"), (4, 32), (1, 1))

    @cute.kernel
    def load(A, B):
        cute.launch(grid=1, block=128)
        tid = cute.thread_idx()
        shared, part = cute.smem("f32", cute.Layout((64, 32), (32, 1))), copy.get_slice(tid)
        cute.copy(
            copy, part.partition_S(cute.local_tile(A, (64, 32), (0, 0))), part.partition_D(shared)
        )
        cute.syncthreads()
        for i in cute.range(tid, 64 * 32, 128):
            B[i // 32, i % 32] = shared[i // 32, i % 32]

    a, b = default_rng(0).normal(size=(50, 30)).astype(np.float32), poisoned((64, 32), np.float32)
    load(a, b)
    np.testing.assert_array_equal(b, np.pad(a, ((0, 14), (0, 2))))
