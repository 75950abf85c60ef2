"""Elements narrower than a byte, packed in global memory: extents count elements, vectors are whole
bytes, and everything agrees with the same kernel on one value per element.
"""

import dataclasses

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from tests.emulated.plans import Maker, at, less, ops, tid
from tests.kernel_refusals import raised

KINDS = ["s4", "u4", "e2m1", "s2", "u2", "b1"]
ORDERS = ("forward", "reversed", 0, 1)


def words(kind, n, word=np.uint8, seed=0):
    """Random words that hold n elements."""
    size = n * cute.dtype(kind).bits // 8
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8).view(word)


def values(held, kind, shape):
    """The elements of words, one value each."""
    return cute.unpack(held.view(np.uint8), kind, int(np.prod(shape))).reshape(shape)


@cute.kernel
def tiles(x, y, count):
    cute.launch(grid=cute.ceil_div(x.shape[1], 32), block=16)
    row, block = cute.thread_idx(), cute.block_idx()
    held = cute.rmem(x.dtype, count)
    for k in range(32 // count):
        here = (row, block * (32 // count) + k)
        cute.copy(cute.local_tile(x, (1, count), here), held)
        cute.copy(held, cute.local_tile(y, (1, count), here))


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_that_reach_past_the_extents_move_what_is_inside(kind):
    """For vectors of each number of whole bytes, words of 8 and 32 bits, and rows with padding."""
    bits = cute.dtype(kind).bits
    for count in (n for n in (32, 16, 8) if n * bits >= 8):
        for word in (np.uint8, np.int32):
            wide = words(kind, 16 * 256).reshape(16, -1)[:, : 64 * bits // 8].view(word)
            inside = wide[:13, : 32 * bits // 8 // wide.itemsize + 1]
            out = np.zeros((13, inside.shape[1]), word)
            tiles(cute.typed(inside, kind, packed=True), cute.typed(out, kind, packed=True), count)
            assert (out == inside).all(), (count, word)


@cute.kernel
def widened(x, y, plain):
    """The same elements from packed and from plain memory."""
    cute.launch(grid=1, block=32)
    a, b = cute.rmem(x.dtype, 32), cute.rmem(x.dtype, 32)
    cute.copy(cute.local_tile(x, (32,), (cute.thread_idx(),)), a)
    cute.copy(cute.local_tile(plain, (32,), (cute.thread_idx(),)), b)
    with cute.when(cute.thread_idx() % 2 == 0):
        cute.copy(b, cute.local_tile(y, (32,), (cute.thread_idx(),)))
    with cute.otherwise():
        cute.copy(a, cute.local_tile(plain, (32,), (cute.thread_idx(),)))


@pytest.mark.parametrize("kind", KINDS)
def test_packed_and_plain_elements_are_the_same_in_registers(kind):
    x, y = words(kind, 1024), words(kind, 1024, seed=1)
    given = values(y, kind, 1024)
    plain = given.copy()
    before, after = values(x, kind, (32, 32)), plain.reshape(32, 32)
    typed = [cute.typed(each, kind, packed=True) for each in (x, y)]
    widened(*typed, cute.typed(plain, kind))
    assert (values(y, kind, (32, 32))[::2] == given.reshape(32, 32)[::2]).all()
    assert (after[1::2] == before[1::2]).all()


def staged(atom):
    @cute.kernel
    def kernel(x, y, flags):
        """Through shared memory, by cp.async; the first three rows of the tile are predicated."""
        cute.launch(grid=1, block=32)
        copy = cute.make_tiled_copy(
            cute.Copy_Atom(atom, "s4"), cute.Layout((16, 2), (2, 1)), cute.Layout((1, 32))
        )
        s = cute.smem("s4", cute.Layout((16, 64), (64, 1)))
        mine = copy.get_slice(cute.thread_idx())
        flag = cute.rmem("b1", 1)
        flag[0] = flags[cute.thread_idx()]
        cute.copy(copy, mine.partition_S(cute.local_tile(x, (16, 64), (0, 0))),
                  mine.partition_D(s), pred=flag)  # fmt: skip
        cute.cp_async_fence()
        cute.cp_async_wait(0)
        held = cute.make_fragment_like(mine.partition_D(s))
        cute.copy(mine.partition_D(s), held)
        cute.copy(held, mine.partition_D(cute.local_tile(y, (16, 64), (0, 0))))

    return kernel


ZFILL = "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>"


def test_cp_async_moves_32_elements_as_one_vector_of_16_bytes():
    x, y = words("s4", 16 * 64).reshape(16, 32), words("s4", 16 * 64, seed=1).reshape(16, 32)
    flags = np.arange(32) >= 6
    a, b = (cute.typed(each, "s4", packed=True) for each in (x, y))
    plan = cute.trace(staged(ZFILL), a, b, flags)
    (copy,) = [op for op in plan.ops if isinstance(op, ops.CpAsync)]
    assert copy.src.vector_bits == 128
    assert copy.src.count == 1
    for order in ORDERS:
        y[:] = 1
        cute.emulate(plan, a, b, flags, order=order)
        assert (y[3:] == x[3:]).all()
        assert not y[:3].any()


def test_host_tensors_are_arguments():
    """With the shape and strides of their layout, from a byte of their memory on."""
    x = cute.make_host_tensor(
        cute.Layout((16, 64), (64, 1)), "s4", np.arange(1024).reshape(16, 64) % 16 - 8
    )
    y = cute.make_host_tensor(cute.Layout((16, 64), (96, 1)), "s4")
    tiles(x, y, 32)
    assert (y.to_numpy() == x.to_numpy()).all()
    part = cute.make_tensor(x.data.moved(64), cute.Layout((15, 64), (64, 1)))
    tiles(part, y, 16)
    assert (y.to_numpy()[:15] == x.to_numpy()[1:]).all()
    odd = cute.make_tensor(x.data.moved(1), cute.Layout((15, 32), (64, 1)))
    assert raised(lambda: tiles(odd, y, 16)).code == "argument-split"
    f = cute.make_host_tensor((32, 32), "f32", np.arange(1024).reshape(32, 32))
    g = cute.make_host_tensor((32, 32), "f32")
    tiles(f, g, 4)
    assert (g.to_numpy()[:16] == f.to_numpy()[:16]).all()


@cute.kernel
def recasts(x, y):
    """Packed elements as bytes, and bytes as packed elements."""
    cute.launch(grid=1, block=16)
    held, back = cute.rmem("u8", 8), cute.rmem("s4", 16)
    cute.copy(cute.local_tile(cute.recast(x, "u8"), (8,), (cute.thread_idx(),)), held)
    cute.copy(cute.recast(held, "s4"), back)
    nibbles = cute.make_tensor(cute.recast(y, "s4").data, cute.Layout((16, 16), (1, 16)))
    cute.copy(back, nibbles[_, cute.thread_idx()])


def test_packed_elements_are_recast_to_bytes_and_back():
    x, y = words("s4", 256), np.zeros(128, np.uint8)
    recasts(cute.typed(x, "s4", packed=True), y)
    assert (y == x).all()


def test_an_element_that_shares_its_byte_is_refused():
    """Where it is traced; by the emulator, where a plan has it all the same."""

    @cute.kernel
    def one(x):
        cute.launch(grid=1, block=32)
        x[cute.thread_idx()] = x[cute.thread_idx() + 1]

    @cute.kernel
    def unaligned(x):
        cute.launch(grid=1, block=32)
        held = cute.rmem("s4", 2)
        copy = cute.Copy_Atom("UniversalCopy<8>", "s4")
        cute.copy(copy, cute.make_tensor(x.data, cute.Layout((2, 8), (1, 3)))[_, 1], held)

    x = cute.typed(words("s4", 64), "s4", packed=True)
    assert raised(lambda: one(x)).code == "vector-byte"
    assert raised(lambda: unaligned(x)).code == "vector-alignment"
    assert raised(lambda: split_by_hand(1, 1)).code == "emulate-split-byte"
    assert raised(lambda: split_by_hand(2, 1)).code == "emulate-split-byte"
    assert raised(lambda: split_by_hand(2, 8)).code == "emulate-split-byte"
    split_by_hand(2, 2)


def split_by_hand(width, step):
    """Lanes that store `width` elements each, `step` elements apart."""
    m = Maker()
    y, held = m.tensor("Y", "s4"), m.reg("r", "s4", width)
    m.params[0] = dataclasses.replace(m.params[0], packed=True)
    out = at(y, tid * step + int(step == 8), width=width, guards=(less(tid, 4),))
    out = dataclasses.replace(out, packed=True)
    plan = m.plan(m.op(ops.Fill, held, 3), m.op(ops.Store, out, held))
    cute.emulate(plan, cute.typed(words("s4", 64), "s4", packed=True))


@cute.kernel
def shared_bytes(x, apart):
    cute.launch(grid=1, block=64)
    held = cute.rmem("s4", 2)
    held[0], held[1] = cute.thread_idx().to("s4", wrap=True), 1
    cute.copy(held, cute.local_tile(x, (2,), (cute.thread_idx() // apart,)))


def test_threads_that_write_one_byte_race():
    x = cute.typed(words("s4", 128), "s4", packed=True)
    for order in ORDERS:
        shared_bytes_in = cute.trace(shared_bytes, x, 1)
        cute.emulate(shared_bytes_in, x, order=order)
        plan = cute.trace(shared_bytes, x, 2)
        assert raised(lambda p=plan, o=order: cute.emulate(p, x, order=o)).code == (
            "emulate-global-race"
        )


def test_accesses_past_the_extents_are_refused_by_mode():
    @cute.kernel
    def beyond(x: cute.spec(shape=(None, None, 8)), y, n: cute.s32):
        cute.launch(grid=1, block=4)
        held = cute.rmem("s4", 8)
        cute.copy(x[cute.thread_idx(), n, _], held)
        cute.copy(held, cute.local_tile(y, (1, 1, 8), (cute.thread_idx(), 0, 0)))

    x, y = (cute.typed(words("s4", 512).reshape(8, 8, 4), "s4", packed=True) for _i in "xy")
    beyond(x, y, 7)
    assert raised(lambda: beyond(x, y, 8)).code == "emulate-mode"
    assert raised(lambda: beyond(x, y, 200)).code == "emulate-bounds"


def test_words_that_hold_no_packed_elements_are_refused():
    x = np.zeros((4, 8), np.uint8)
    for kind in ("s8", "e3m2", "f16", "s3"):
        assert raised(lambda k=kind: cute.typed(x, k, packed=True)).code == "argument-packed"
    floats = x.astype(np.float32)
    assert raised(lambda: cute.typed(floats, "s4", packed=True)).code == "argument-packed"
    assert raised(lambda: cute.typed(x[:, ::2], "s4", packed=True)).code == "argument-words"
    plain, packed = cute.typed(x.view(np.int8), "s4"), cute.typed(x, "s4", packed=True)
    plan = cute.trace(tiles, packed, packed, 8)
    assert raised(lambda: cute.emulate(plan, plain, packed)).code == "emulate-argument"
    for given in (packed, cute.TensorArray([x])):
        assert raised(lambda y=given: cute.ops.gemm(y, y)).code == "ops-array"
    boxes = cute.kernel(lambda y: (cute.launch(1, 32), cute.tma_tensor(y)))
    bits, six = np.zeros((8, 64), np.bool_), cute.typed(np.zeros((8, 64), np.uint8), "u4")
    for narrow in (packed, plain, bits, six):
        assert raised(lambda y=narrow: cute.trace(boxes, y)).code == "tma-bits"


def test_tma_loads_the_bytes_of_packed_elements():
    """The tile in shared memory is recast, as the refusal of narrow elements says."""

    @cute.kernel
    def nibbles(x, y):
        cute.launch(grid=1, block=32)
        tid, bars = cute.thread_idx(), cute.mbarriers(1)
        tile = cute.smem("u8", cute.make_layout((8, 32), cute.LayoutRight), 128)
        with cute.when(tid == 0):
            bars.init(1)
            cute.fence_mbarrier_init()
            bars.arrive_expect_tx(0, 8 * 32)
            cute.tma_load(cute.local_tile(cute.tma_tensor(x), (8, 32), (0, 0)), tile, bars, 0)
        cute.syncthreads()
        bars.wait(0, 0)
        held = cute.rmem("s4", 16)
        here = tid // 4, tid % 4
        cute.copy(cute.local_tile(cute.recast(tile, "s4"), (1, 16), here)[0, _], held)
        cute.copy(held.to("s32"), cute.local_tile(y, (1, 16), here)[0, _])

    x = np.random.default_rng(0).integers(-8, 8, (8, 64))
    y = np.zeros((8, 64), np.int32)
    nibbles((x[:, ::2] & 15 | (x[:, 1::2] & 15) << 4).astype(np.uint8), y)
    assert (y == x).all()


def test_a_plan_with_packed_elements_is_read_back():
    x = cute.typed(np.zeros((16, 32), np.uint8), "s4", packed=True)
    plan = cute.trace(tiles, x, x, 32)
    assert "param x: packed s4 (x_shape0,x_shape1)" in str(plan)
    from cute_py.plan.serial import dumps, loads

    text = dumps(plan)
    assert loads(text) == plan
    wrong = text.replace('"packed": true}', '"packed": false}', 1)
    assert raised(lambda: loads(wrong)).code == "plan-op"
