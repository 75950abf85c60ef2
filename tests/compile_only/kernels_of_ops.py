"""Kernels of the ops that no kernel of the ladder has, a file of `plan/ops` each: their sources are
golden files.
"""

import numpy as np

import cute_py as cute
from cute_py.atoms import get_copy
from tests.emulated.plans import Maker, at, ops, tid
from tests.hopper_kernels import persistent


@cute.kernel
def control(x):
    cute.launch(grid=1, block=32)
    cute.assume(x.shape[0] >= 32)
    count = cute.var(cute.thread_idx())
    with cute.while_(lambda: count.get() < 40):
        count.set(count.get() + 3)
    cute.return_if(count.get() == 41)
    x[cute.thread_idx()] = count.get().to("f32")


def top_bit(x):
    return np.where(x, np.frexp(x.astype(np.float64))[1] - 1, 2**32 - 1).astype(np.uint32)


@cute.kernel
def registers(x):
    cute.launch(grid=1, block=32)
    value = x[cute.thread_idx()]
    flags = cute.vote("ballot", value > 1.0)
    with cute.when(cute.vote("any", value > 9.0)):
        bits = cute.redux("add", flags)
        text = "bfind.u32 %0, %1;"
        x[cute.thread_idx()] = cute.inline_ptx(text, "u32", bits, emulate=top_bit).to("f32")


@cute.kernel
def memory(x):
    cute.launch(grid=1, block=32)
    mine = cute.local_tile(x, (1,), (cute.thread_idx(),))
    cute.prefetch(mine)
    cute.atomic("max", mine, 3)
    there = cute.make_ptr("s32", cute.as_int(x[0], 0), align=16)
    cute.make_tensor(there, cute.Layout(32))[cute.thread_idx()] = 3


@cute.kernel
def addresses(x):
    cute.launch(grid=1, block=32)
    x[cute.thread_idx()] = cute.smem_address(cute.smem("f32", 64))


@cute.kernel
def wmma(x):
    cute.launch(grid=1, block=32)
    w, tile = cute.Wmma(), cute.smem("f16", cute.Layout((16, 16), (16, 1)))
    for i in range(8):
        tile[cute.thread_idx() // 2, cute.thread_idx() % 2 * 8 + i] = 1.0
    cute.syncthreads()
    sums = cute.smem("f32", cute.Layout((16, 16), (16, 1)))
    w.store(w.mma(w.load("A", tile), w.load("B", tile), w.fill(0.0)), sums)
    cute.syncthreads()
    x[cute.thread_idx()] = sums[cute.thread_idx() % 16, 0]


@cute.kernel
def order(x):
    cute.launch(grid=4, block=32, pdl=True)
    cute.griddepcontrol_wait()
    cute.wait_until(cute.local_tile(x, (1,), (0,)), "eq", cute.block_idx())
    cute.threadfence()
    cute.griddepcontrol_launch_dependents()


@cute.kernel
def debug(x):
    cute.launch(grid=1, block=32)
    cute.print("{}: {}", cute.thread_idx(), x[cute.thread_idx()])
    cute.assert_(cute.thread_idx() < x.shape[0], "x is too short")  # noqa: PT009


def stmatrix():
    m = Maker("stmatrix")
    held = m.reg("a", "f16", 2)
    rows = at(m.smem("S", "f16", 64), tid % 8 * 8, width=8)
    return m.plan(
        m.op(ops.Fill, held, 1.0),
        m.op(ops.StMatrix, get_copy("SM90_U32x1_STSM_N"), rows, held),
    )


def cp_arrive():
    m = Maker("cp_arrive")
    x, bar = m.tensor("x", "f32"), m.smem("bar", "u64", 1)
    copy = get_copy("SM80_CP_ASYNC_CACHEALWAYS", 32)
    return m.plan(
        m.op(ops.CpAsync, copy, at(m.smem("S", "f32", 32), tid), at(x, tid)),
        m.op(ops.CpArrive, at(bar, 0)),
        m.op(ops.MbarInval, at(bar, 0)),
    )


def warpgroups():
    a, b, d = (np.zeros((512, 512), np.float16) for _ in range(3))
    return cute.trace(persistent, a, b, d, tile=(128, 64, 64))


def traced(kernel, kind):
    return lambda: cute.trace(kernel, np.zeros(32, kind))


KERNELS = {
    "control": traced(control, np.float32),
    "registers": traced(registers, np.float32),
    "memory": traced(memory, np.int32),
    "stmatrix": stmatrix,
    "addresses": traced(addresses, np.uint32),
    "wmma": traced(wmma, np.float32),
    "order": traced(order, np.int32),
    "debug": traced(debug, np.float32),
    "cp_arrive": cp_arrive,
    "warpgroups": warpgroups,
}
