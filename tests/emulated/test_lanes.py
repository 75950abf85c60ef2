"""Accesses by the lanes of one warp: what orders them; random ones: test_lanes_apart.py."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from tests.emulated.plans import Maker, at, ops, tid

ORDERS = ("forward", "reversed", 0, 1, 2)
f32 = np.float32


def verdicts(kernel, arrays, right):
    """Return what the emulator says of a kernel, in each order: a code, or whether it is right."""
    seen = set()
    for order in ORDERS:
        given = arrays()
        plan = cute.trace(kernel, *given)
        try:
            cute.emulate(plan, *given, order=order)
        except cute.CuteError as error:
            seen.add(error.code)
        else:
            seen.add(bool(right(*given)))
    return seen


def line(n):
    return lambda: (np.arange(n, dtype=f32) + 1, np.full(n, -1, f32))


def reverse(x, out):
    return (out == x[::-1]).all()


def same(x, out):
    return (out == x).all()


# -- shared memory from lane to lane


def handed(meet):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=32)
        t, s = cute.thread_idx(), cute.smem("f32", 32)
        s[t] = x[t]
        meet(t)
        out[t] = s[31 - t]

    return kernel


def by_branches(meet):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=32)
        t, s = cute.thread_idx(), cute.smem("f32", 32)
        with cute.when(t < 16):
            s[t] = x[t]
        with cute.otherwise():
            s[t] = x[t]
        meet(t)
        with cute.when(t >= 16):
            out[t] = s[31 - t]
        with cute.otherwise():
            out[t] = s[31 - t]

    return kernel


def never(t):
    pass


def meets(t):
    cute.syncwarp()


# -- asynchronous copies belong to threads


def copied(wait):
    """128 threads copy, and read what others copied."""
    cp = cute.make_tiled_copy(
        cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL<128>", "f32"), cute.Layout(128), cute.Layout(4)
    )

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=2, block=128)
        t, s, b = cute.thread_idx(), cute.smem("f32", 512), cute.block_idx()
        th = cp.get_slice(t)
        cute.copy(cp, th.partition_S(cute.local_tile(x, (512,), (b,))), th.partition_D(s))
        cute.cp_async_fence()
        wait(t)
        for j in range(4):
            out[512 * b + 4 * t + j] = s[511 - (4 * t + j)]

    return kernel


def backwards(x, out):
    return (out.reshape(2, 512) == x.reshape(2, 512)[:, ::-1]).all()


def all_wait(t):
    cute.cp_async_wait(0)
    cute.syncthreads()


def thread_0_waits(t):
    with cute.when(t == 0):
        cute.cp_async_wait(0)
    cute.syncthreads()


def no_barrier(t):
    cute.cp_async_wait(0)


RIGHT = [
    (handed(meets), 32, reverse),
    (by_branches(meets), 32, reverse),
    (copied(all_wait), 1024, backwards),
]


@pytest.mark.parametrize(("kernel", "n", "right"), RIGHT)
def test_kernels_that_order_their_accesses_are_right(kernel, n, right):
    """What they are without that: test_broken_kernels.py."""
    assert verdicts(kernel, line(n), right) == {True}


# -- matrices


def matrices(before, between):
    """Rows go to shared memory and back, by ldmatrix and stmatrix."""
    ld, st = cute.Copy_Atom("SM75_U32x4_LDSM_N", "f16"), cute.Copy_Atom("SM90_U32x4_STSM_N", "f16")

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        s = cute.smem("f16", cute.Layout((32, 8), (8, 1)), 128)
        for j in range(8):
            s[t, j] = x[t, j]
        if before:
            cute.syncwarp()
        a = cute.rmem("f16", 8)
        cute.copy(ld, s[t, _], a)
        cute.syncwarp()
        cute.copy(st, a, s[t, _])
        if between:
            cute.syncwarp()
        for j in range(8):
            out[t, j] = s[t, j]

    return kernel


def test_matrices_are_touched_by_the_whole_warp():
    def rows():
        return np.arange(256, dtype=np.float16).reshape(32, 8), np.zeros((32, 8), np.float16)

    assert verdicts(matrices(True, True), rows, same) == {True}
    assert verdicts(matrices(False, True), rows, same) == {"emulate-race"}
    assert verdicts(matrices(True, False), rows, same) == {"emulate-race"}


# -- bytes of several lanes


@pytest.mark.parametrize(("kind", "each"), [("s4", 2), ("u2", 4), ("b1", 8)])
def test_lanes_that_store_at_once_have_whole_bytes(kind, each):
    def stored(n):
        m = Maker(threads=32)
        s, a = m.smem("S", kind, 32 * each), m.reg("a", kind, n)
        return m.plan(m.op(ops.Fill, a, 1), m.op(ops.Store, at(s, tid * n, width=n), a))

    for order in ORDERS:
        cute.emulate(stored(each), order=order)
        for n in (1, each // 2):
            with pytest.raises(cute.EmulationError, match="another lane's write of the same byte"):
                cute.emulate(stored(n), order=order)
