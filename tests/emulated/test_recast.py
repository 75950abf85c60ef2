"""`cute.recast` of global and shared memory is the same bits, as elements of another type."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cute_py as cute
from tests.emulated.plans import Maker, at, ops, tid

TYPES = {"u8": np.uint8, "s16": np.int16, "f16": np.float16, "f32": np.float32, "s32": np.int32}
TYPES |= {"u64": np.uint64, "f64": np.float64}
ORDERS = ("forward", "reversed", 0)
pairs = st.tuples(st.sampled_from(sorted(TYPES)), st.sampled_from(sorted(TYPES)))


def mover(kind, count, through):
    """A kernel that copies `count` elements of a type of recast arrays."""

    @cute.kernel
    def move(x, out):
        cute.launch(grid=1, block=32)
        source, target = cute.recast(x, kind), cute.recast(out, kind)
        t = cute.thread_idx()
        if through == "shared":
            shared = cute.smem(x.dtype, 64)
            for k in range(2):
                shared[t + 32 * k] = x[t + 32 * k]
            cute.syncthreads()
            source = cute.recast(shared, kind)
        for k in range(cute.ceil_div(count, 32)):
            with cute.when(t + 32 * k < count):
                target[t + 32 * k] = source[t + 32 * k]

    return move


@settings(max_examples=12)
@example(("f32", "s32"), "global", 0)
@example(("u64", "u8"), "shared", 1)
@given(pairs, st.sampled_from(("global", "shared")), st.integers(0, 2**32))
def test_a_recast_is_bits(types, through, seed):
    held, kind = types
    x = np.random.default_rng(seed).bytes(64 * np.dtype(TYPES[held]).itemsize)
    x = np.frombuffer(x, TYPES[held]).copy()
    out = np.zeros_like(x)
    count = x.nbytes // np.dtype(TYPES[kind]).itemsize
    plan = cute.trace(mover(kind, count, through), x, out)
    for order in ORDERS:
        out[...] = 0
        cute.emulate(plan, x, out, order=order)
        assert out.tobytes() == x.tobytes()


@pytest.mark.parametrize("through", ["global", "shared"])
@pytest.mark.parametrize(("held", "kind"), [("u8", "u64"), ("f64", "s16"), ("f32", "s32")])
def test_a_recast_ends_where_its_storage_does(held, kind, through):
    x = np.zeros(64, TYPES[held])
    beyond = x.nbytes // np.dtype(TYPES[kind]).itemsize + 1
    with pytest.raises(cute.CuteError) as caught:
        mover(kind, beyond, through)(x, np.zeros_like(x))
    assert caught.value.code in ("coordinate-range", "emulate-bounds")


def test_a_strided_array_keeps_its_gaps():
    @cute.kernel
    def run(x, out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        out[t] = cute.recast(cute.make_tensor(x.data, cute.Layout(32)), "s16")[t]

    x = np.arange(64, dtype=np.float32).reshape(4, 16)[:, :8]
    plan = cute.trace(run, x, np.zeros(32, np.int16))
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, x, np.zeros(32, np.int16))
    assert caught.value.code == "emulate-padding"
    assert caught.value.facts["offset"] == 16  # 8 elements of f32 are 16 of s16


@cute.kernel
def bits_of_a_sum(x, flag):
    cute.launch(grid=2, block=32)
    words = cute.recast(flag, "u32")
    with cute.when(cute.thread_idx() == 0):
        cute.atomic("add", cute.local_tile(words, (1,), (0,)), 0x40000000)
        cute.store_release(cute.local_tile(words, (1,), (1,)), 0x3F800000)


def test_atomics_and_releases_go_by_bits():
    flag = np.zeros(2, np.float32)
    bits_of_a_sum(flag, flag)
    assert flag.view(np.uint32).tolist() == [0x80000000, 0x3F800000]


def test_shared_bytes_are_read_as_nibbles():
    @cute.kernel
    def run(x, out):
        cute.launch(grid=1, block=32)
        t, p = cute.thread_idx(), cute.smem("u8", 64)
        p[2 * t], p[2 * t + 1] = x[2 * t], x[2 * t + 1]
        cute.syncthreads()
        r = cute.rmem("s4", 4)
        cute.copy(cute.local_tile(cute.recast(p, "s4"), (4,), (t,)), r)
        cute.copy(r.to("s32"), cute.local_tile(out, (4,), (t,)))

    x, out = np.arange(64, dtype=np.uint8), np.zeros(128, np.int32)
    run(x, out)
    nibbles = np.stack([x & 15, x >> 4], 1).ravel().astype(int)
    np.testing.assert_array_equal(out, (nibbles ^ 8) - 8)


def boxed(view):
    """A kernel that copies a box of a view of `x` by TMA."""

    @cute.kernel
    def run(x, out):
        cute.launch(grid=1, block=32)
        t, bar = cute.thread_idx(), cute.mbarriers(1)
        tile = cute.smem(out.dtype, cute.Layout((8, 32), (32, 1)), 1024)
        with cute.when(t == 0):
            bar.init(1)
            cute.fence_mbarrier_init()
        cute.syncthreads()
        with cute.when(t == 0):
            bar.arrive_expect_tx(0, 1024)
            source = cute.local_tile(cute.tma_tensor(view(x)), (8, 32), (0, 0))
            cute.tma_load(source, tile, bar, 0)
        bar.wait(0, 0)
        for r in range(8):
            out[r, t] = tile[r, t]

    return run


def test_a_box_of_a_recast_array_is_bits():
    x, out = np.arange(256, dtype=np.float32).reshape(8, 32), np.zeros((8, 32), np.int32)
    boxed(lambda x: cute.recast(x, "s32"))(x, out)
    np.testing.assert_array_equal(out, x.view(np.int32))


@pytest.mark.parametrize(
    ("shape", "view"),
    [
        ((2, 8, 32), lambda x: x[1, cute._, cute._]),
        ((8, 32), lambda x: cute.make_tensor(x.data, cute.Layout((8, 32), (1, 8)))),
        ((8, 16), lambda x: cute.recast(x, "f32")),
    ],
)
def test_tma_takes_whole_arguments(shape, view):
    """The descriptor is that of the array; a part of it used to be read as its beginning."""
    x = np.zeros(shape, np.float32 if len(shape) > 2 or shape[1] == 32 else np.float64)
    with pytest.raises(cute.CuteError) as caught:
        boxed(view)(x, np.zeros((8, 32), np.float32))
    assert caught.value.code == "kernel-space"


@pytest.mark.parametrize(
    ("held", "number", "kind", "found"),
    [
        ("u32", 0x3F800000, "f32", 1.0),
        ("f32", 1.0, "u32", 0x3F800000),
        ("bf16", 1.0, "f16", 1.875),
    ],
)
def test_a_store_of_another_type_keeps_the_bits(held, number, kind, found):
    """Of a plan by hand: elements of registers and of memory are equally many."""
    m = Maker()
    x, kept = m.tensor("x", kind), m.reg("kept", held)
    plan = m.plan(m.op(ops.Fill, kept, number), m.op(ops.Store, at(x, tid), kept))
    out = np.zeros(32, cute.dtype(kind).numpy)
    cute.emulate(plan, out)
    assert (out == found).all()
