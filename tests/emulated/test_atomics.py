"""Atomics on the emulator, against one thread after another in Python's numbers."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan import ops
from cute_py.plan.functions import FUNCTIONS
from tests.kernel_refusals import raised

ORDERS = ("forward", "reversed", 0, 1)
f32 = np.float32
SPECIAL = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, -np.nan, 1e-42, -1e-42], f32)


def places(space):
    """A kernel that takes the extremum of memory and a value of each thread, in a space."""

    @cute.kernel
    def kernel(x, y, old, fn):
        cute.launch(grid=cute.ceil_div(x.shape[0], 32), block=32)
        i = cute.block_idx() * 32 + cute.thread_idx()
        if space == "smem":
            s = cute.smem("f32", 32)
            s[cute.thread_idx()] = x[i]
            here = cute.local_tile(s, (1,), (cute.thread_idx(),))
        else:
            here = cute.local_tile(x, (1,), (i,))
        old[i] = cute.atomic(fn, here, y[i], old=True)
        x[i] = here[0]

    return kernel


@pytest.mark.parametrize("space", ["gmem", "smem"])
@pytest.mark.parametrize("fn", ["min", "max"])
def test_extrema_of_floats_are_those_of_registers(fn, space):
    """For all pairs of special values: the number of a number and a NaN; -0 is less than +0."""
    a, b = (each.reshape(-1) for each in np.meshgrid(SPECIAL, SPECIAL))
    n = -(-len(a) // 32) * 32
    x, y, old = np.zeros(n, f32), np.zeros(n, f32), np.zeros(n, f32)
    x[: len(a)], y[: len(b)] = a, b
    places(space)(x, y, old, fn)
    model = FUNCTIONS[fn].model
    for p, q, got in zip(a, b, x, strict=False):
        wanted = model(float(p), float(q))
        if p == q == 0:
            negative = (np.signbit(p) and np.signbit(q)) if fn == "max" else (
                np.signbit(p) or np.signbit(q))  # fmt: skip
            assert (got, np.signbit(got)) == (0, negative), (p, q)
        else:
            assert got == wanted or (got != got and wanted != wanted), (p, q)
    assert (old[: len(a)].view(np.uint32) == a.view(np.uint32)).all()


@cute.kernel
def greatest(x, out):
    cute.launch(grid=cute.ceil_div(x.shape[0], 64), block=64)
    i = cute.block_idx() * 64 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        cute.atomic("max", cute.local_tile(out, (1,), (0,)), x[i])


def test_many_threads_take_a_maximum():
    random = np.random.default_rng(0)
    x = random.standard_normal(1000).astype(f32) - 5
    x[::7] = np.nan
    plan = cute.trace(greatest, x, np.zeros(1, f32))
    for order in ORDERS:
        for start in (np.nan, -np.inf, 3.0):
            out = np.array([start], f32)
            cute.emulate(plan, x, out, order=order)
            assert out[0] == np.fmax(np.nanmax(x), f32(start))


@cute.kernel
def swapped(x, wanted, new, found):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    here = cute.local_tile(x, (1,), (t,))
    found[t] = cute.atomic_cas(here, wanted[t], new[t])


@pytest.mark.parametrize("kind", ["s32", "u64", "f32", "f64", "f16", "bf16", "s16"])
def test_an_exchange_takes_place_where_the_bits_are_equal(kind):
    held = cute.dtype(kind).numpy
    random = np.random.default_rng(0)
    x, wanted, new = (random.integers(0, 3, 32).astype(held) for _i in range(3))
    if cute.dtype(kind).is_float:
        x[0], wanted[0] = 0.0, -0.0  # equal, but other bits
        x[1], wanted[1] = np.nan, np.nan  # the same bits
    before, found = x.copy(), np.zeros(32, held)
    swapped(x, wanted, new, found)
    same = (before.view(np.uint8) == wanted.view(np.uint8)).reshape(32, -1).all(1)
    assert same.any()
    assert not same.all()
    bits = f"u{held.itemsize}"
    assert (found.view(bits) == before.view(bits)).all()
    assert (x.view(bits) == np.where(same, new, before).view(bits)).all()


def test_one_thread_gets_a_lock_at_a_time():
    """A spin lock by cas, whose holder adds to a counter with plain accesses."""

    @cute.kernel
    def kernel(lock, count):
        cute.launch(grid=8, block=32)
        with cute.when(cute.thread_idx() == 0):
            here = cute.local_tile(lock, (1,), (0,))
            free = cute.var(1)
            with cute.while_(lambda: free.get() != 0):
                free.set(cute.as_int(cute.atomic_cas(here, 0, 1)))
            cute.threadfence()
            count[0] = count[0] + 1
            cute.threadfence()
            cute.atomic("exch", here, 0)

    for order in ORDERS:
        lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
        cute.emulate(cute.trace(kernel, lock, count), lock, count, order=order)
        assert (lock[0], count[0]) == (0, 8)


def adding(count, keep):
    @cute.kernel
    def kernel(x, y, old):
        """Each thread adds `count` contiguous elements, those of its row; rows repeat."""
        cute.launch(grid=3, block=32)
        t = cute.thread_idx()
        held = cute.rmem(x.dtype, count)
        cute.copy(cute.local_tile(x, (1, count), (t, cute.block_idx())), held)
        before = cute.atomic("add", cute.local_tile(y, (count,), (cute.block_idx(),)), held, keep)
        if keep:
            cute.copy(before, cute.local_tile(old, (1, count), (t, cute.block_idx())))

    return kernel


@pytest.mark.parametrize(
    ("kind", "count", "keep", "width"),
    [
        ("f32", 4, False, 4), ("f32", 2, False, 2), ("f32", 4, True, 1), ("f32", 3, False, 1),
        ("f16", 8, False, 8), ("f16", 4, False, 4), ("f16", 2, False, 2), ("f16", 2, True, 2),
        ("f16", 3, False, 1), ("bf16", 8, False, 8), ("bf16", 8, True, 2), ("s32", 4, False, 1),
    ],
)  # fmt: skip
def test_sums_of_contiguous_elements_are_vectors(kind, count, keep, width):
    held = cute.dtype(kind).numpy
    kernel = adding(count, keep)
    x = np.random.default_rng(0).integers(0, 2, (32, 3 * count)).astype(held)
    y, old = np.ones(3 * count, held), np.zeros((32, 3 * count), held)
    plan = cute.trace(kernel, x, y, old)
    (op,) = [op for op in plan.ops if isinstance(op, ops.Atomic)]
    assert op.dst.width == width
    cute.emulate(plan, x, y, old)
    assert (y.astype(f32) == 1 + x.astype(f32).sum(0)).all()
    if keep:
        wanted = np.concatenate([np.ones((1, 3 * count)), 1 + np.cumsum(x.astype(f32), 0)[:-1]])
        assert (old.astype(f32) == wanted).all()


def test_vectors_are_narrower_where_nothing_proves_them_aligned():
    kernel = adding(4, False)
    room = np.zeros(4 * 3 + 1, f32)
    x, old = np.ones((32, 12), f32), np.zeros((32, 12), f32)
    for y, width in ((room[1:], 1), (room[:-1], 4)):
        plan = cute.trace(kernel, x, y, old)
        assert [op.dst.width for op in plan.ops if isinstance(op, ops.Atomic)] == [width]
        y[:] = 0
        cute.emulate(plan, x, y, old)
        assert (y == 32).all()


def test_sums_in_pairs_and_singly_are_the_same():
    """What older architectures run: each vector as pairs of 16 bits, or as single elements."""
    from cute_py.codegen.build import lowered

    for kind, count, short in (("f32", 4, 1), ("f16", 8, 2)):
        held = cute.dtype(kind).numpy
        kernel = adding(count, False)
        x = np.random.default_rng(0).integers(0, 3, (32, 3 * count)).astype(held)
        given = [np.ones(3 * count, held) for _i in range(2)]
        plan = cute.trace(kernel, x, given[0], x)
        before = lowered(plan, "sm_80")
        widths = [
            [op.dst.width for op in p.ops if isinstance(op, ops.Atomic)] for p in (plan, before)
        ]
        assert widths == [[count], [short]]
        assert lowered(plan, "sm_90") == plan
        for p, y in zip((plan, before), given, strict=True):
            cute.emulate(p, x, y, x)
        assert (given[0] == given[1]).all()


def test_compare_goes_with_cas_alone():
    @cute.kernel
    def kernel(x, fn, compare):
        cute.launch(grid=1, block=1)
        cute.atomic(fn, cute.local_tile(x, (1,), (0,)), 5, compare=compare)

    x = np.zeros(1, np.int32)
    kernel(x, "cas", 0)
    assert x[0] == 5
    assert raised(lambda: kernel(x, "cas", None)).code == "kernel-compare"
    assert raised(lambda: kernel(x, "add", 0)).code == "kernel-compare"
