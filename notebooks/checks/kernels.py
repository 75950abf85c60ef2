"""The laws of lessons 6 to 8: kernels, broken kernels, and products of matrices."""

import numpy as np

import cute_py as cute

from .laws import Wrong, a_tile, computes, exercise, ramp, required

# -- 6 kernels


@exercise("6.1")
def _(kernel):
    """y[i] == 2 * x[i] + 1 for every i, and nothing is read or written past the arrays."""
    for n in (1000, 128, 1):
        x, y = ramp(n), np.zeros(n, np.float32)
        computes(kernel, (x, y), y, 2 * x + 1)


@exercise("6.2")
def _(kernel):
    """out[m] is the sum of row m, for matrices of any size."""
    for shape in ((64, 20), (33, 7)):
        x, out = ramp(*shape), np.zeros(shape[0], np.float32)
        computes(kernel, (x, out), out, x.sum(1))


@exercise("6.3")
def _(kernel):
    """y is x, and every sector of 32 bytes is read and written once: 1024 sectors in all."""
    x, y = ramp(64, 64), np.zeros((64, 64), np.float32)
    computes(kernel, (x, y), y, x)
    report = cute.emulate(kernel, x, y, report=True)
    if report.total.sectors > 1024:
        raise Wrong(f"{report.total.sectors} sectors, and 1024 are enough\n{report}", report)


# -- 7 broken kernels


@exercise("7.1")
def _(kernel):
    """out is x reversed, in whatever order the threads run."""
    x, out = ramp(64), np.zeros(64, np.float32)
    computes(kernel, (x, out), out, x[::-1])


@exercise("7.2")
def _(kernel):
    """out[i] == x[i] + 1 for 100 elements, and no thread leaves the arrays."""
    x, out = ramp(100), np.zeros(100, np.float32)
    computes(kernel, (x, out), out, x + 1)


@exercise("7.3")
def _(kernel):
    """out[k] is row k of x reversed, for every k: no thread overwrites what another still reads."""
    x, out = ramp(3, 64), np.zeros((3, 64), np.float32)
    computes(kernel, (x, out), out, x[:, ::-1])


@exercise("7.4")
def _(kernel):
    """out[i] is x[i] + x[i + 32], added by one warp after a barrier that both warps reach."""
    x, out = ramp(64), np.zeros(32, np.float32)
    computes(kernel, (x, out), out, x[:32] + x[32:])


@exercise("7.5")
def _(kernel):
    """out is x reversed, and no thread reads a copy that has not arrived."""
    x, out = ramp(256), np.zeros(256, np.float32)
    computes(kernel, (x, out), out, x.reshape(64, 4)[::-1].reshape(-1))


# -- 8 matrix products


@exercise("8.1")
def _(kernel, layout):
    """C == A B^T, the emulator counts no bank conflict, and the tile takes 256 elements."""
    a, b = ramp(32, 32) % 7 - 3, ramp(32, 32) % 5 - 2
    c = np.zeros((32, 32), np.float32)
    if cute.cosize(a_tile(layout, (16, 16))) > 256:
        raise Wrong(f"{layout} takes {cute.cosize(layout)} elements, more than 256", layout)
    computes(kernel, (a, b, c, layout), c, a @ b.T)
    report = cute.emulate(kernel, a, b, c, layout, report=True)
    if report.total.conflicts:
        raise Wrong(f"{report.total.conflicts} conflicts\n{report}", layout)


@exercise("8.2")
def _(size):
    """The plan has this many bytes of shared memory: stages * (bM + bN) * bK * 2 bytes of f16."""
    from cute_py.kernels.config import choose
    from cute_py.kernels.gemm_07_multistage import gemm_multistage

    a, c = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float32)
    plan = cute.trace(gemm_multistage, a, a, c, choose(a, a, (64, 64), 4))
    if required(size, int, "an integer") != plan.smem_bytes:
        raise Wrong(f"given {size} bytes; each of the 4 stages takes {plan.smem_bytes // 4}")


@exercise("8.3")
def _(kernel, size):
    """The mbarrier counts as many bytes as TMA brings: tiles arrive, no thread waits forever."""
    x, y = (ramp(64, 128) % 61).astype(np.float16), np.zeros((64, 128), np.float16)
    computes(kernel, (x, y, size), y, x)
