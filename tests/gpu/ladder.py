"""The products of the ladder for every type: what is called, with which arrays, and the plans.

Sizes are symbolic, so one kernel serves all shapes of a row of `WHOLE`. As a program, it compiles a
share of all kernels into the cache on disk, for tests that have many cores:

    python -m tests.gpu.ladder SHARE SHARES MEMORY MULTIPROCESSORS MAJOR MINOR
"""

import sys
from contextlib import suppress
from itertools import product
from math import gcd

import numpy as np

import cute_py as cute
from cute_py.codegen.driver.devices import arch_of
from cute_py.kernels import gemm_04_double_buffer as gemm_04
from cute_py.kernels.config import choose, choose_config
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm import gemm
from cute_py.kernels.gemm_01_naive import gemm_naive
from cute_py.kernels.gemm_02_shared import gemm_shared
from cute_py.kernels.gemm_03_registers import gemm_registers
from cute_py.kernels.gemm_05_tensor_core import gemm_tensor_core
from cute_py.kernels.gemm_06_ldmatrix import gemm_ldmatrix
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.kernels.gemm_08_epilogue import gemm_epilogue
from cute_py.kernels.splitk_serial import gemm_splitk
from cute_py.ops.combination import compute_type
from cute_py.ops.gemm_tiles import Asked, for_gpu
from cute_py.ops.libraries import Gpu

SPILLS = 1 << 16  # bytes of a thread: as `cute.run` allows
SPLITS = 3
OPERATOR = "cute.ops.gemm"
KINDS = ("f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "s8", "u8")
MAJORS = tuple(product((1, 0), repeat=2))  # the mode of A and of B that is contiguous; 1 is K
# bits of a type -> (M,N,K) in vectors of 16 bytes: ragged for all tiles, and odd, so that the
# arrays of a row have equal facts
WHOLE = {
    8: ((5, 9, 7), (11, 7, 3)),
    16: ((9, 17, 13), (21, 11, 5)),
    32: ((17, 33, 25), (43, 21, 11)),
    64: ((35, 67, 51), (85, 43, 21)),
}
ODD = (67, 75, 83)


# -- kernels


def _plain(a, b):
    return choose(a, b, (64, 64), 2, ldmatrix=False, asynchronous=False)


def _epilogue(a, b, c):
    cfg = choose(a, b, (64, 64), outputs=[c])
    return gemm_epilogue, a, b, np.zeros_like(c), c, None, 1.0, 0.0, cfg


def _splitk(a, b, c):
    m, n = (-(-extent // 64) for extent in c.shape)
    turns = np.zeros((m, n | 1), np.int32)  # odd: equal facts for all shapes
    return gemm_splitk, a, b, c, turns, SPLITS, _plain(a, b)


# name -> the kernel and its arguments, for arrays A (M,K), B (N,K) and C (M,N)
KERNELS = {
    "naive": lambda a, b, c: (gemm_naive, a, b, c),
    "shared": lambda a, b, c: (gemm_shared, a, b, c),
    "registers": lambda a, b, c: (gemm_registers, a, b, c),
    "double buffer": lambda a, b, c: (gemm_04.sgemm_128x128, a, b, c, gemm_04.choose(a, b)),
    "tensor core": lambda a, b, c: (gemm_tensor_core, a, b, c, _plain(a, b)),
    "ldmatrix": lambda a, b, c: (
        gemm_ldmatrix,
        a,
        b,
        c,
        choose(a, b, (64, 64), 2, asynchronous=False),
    ),
    "multistage": lambda a, b, c: (gemm_multistage, a, b, c, choose(a, b, (64, 64))),
    "epilogue": _epilogue,
    "splitk": _splitk,
}


# -- arrays


def sums(kind):
    """Return the type that products are added up in."""
    return cute.dtype("f64" if kind == "f64" else "f32" if cute.dtype(kind).is_float else "s32")


def shapes(kind):
    """Return ragged (M,N,K) of whole vectors, which one kernel serves."""
    bits = cute.dtype(kind).bits
    return [tuple(n * 128 // bits for n in shape) for shape in WHOLE[bits]]


def matrix(rows, columns, kind, mode, seed):
    """Return small integers (rows, columns) whose mode `mode` is contiguous."""
    shape = (rows, columns) if mode else (columns, rows)
    x = np.random.default_rng(seed).integers(0 if kind == "u8" else -3, 4, shape)
    x = x.astype(cute.dtype(kind).numpy)
    return x if mode else x.T


def operands(kind, shape, majors):
    """Return A (M,K) and B (N,K) of small integers."""
    m, n, k = shape
    return matrix(m, k, kind, majors[0], 1), matrix(n, k, kind, majors[1], 2)


def read_as(kind, x):
    """Return an array to be read as a type that neither NumPy nor torch has."""
    return cute.typed(x, kind) if kind == "tf32" else x


# -- plans


def call(name, kind, shape, majors, c):
    """Return a kernel of `KERNELS` and its arguments; the result goes to c."""
    a, b = operands(kind, shape, majors)
    kernel, *args = KERNELS[name](read_as(kind, a), read_as(kind, b), c)
    return kernel, args


def traced(name, kind, shape, majors):
    """Return the plan of a kernel of `KERNELS`."""
    kernel, args = call(name, kind, shape, majors, np.zeros(shape[:2], sums(kind).numpy))
    return cute.trace(kernel, *args)


def traced_operator(kind, shape, majors, gpu):
    """Return the plan that `cute.ops.gemm` launches on a GPU for arrays of these majors."""
    (m, n, k), result = shape, sums(kind)
    a, b = operands(kind, shape, majors)
    words = tuple("K" if major else "MN" for major in majors)
    aligned = tuple(gcd(16, max(x.strides)) for x in (a, b))
    dtype = cute.dtype(kind)
    chosen = choose_config(m, n, k, kind, words, aligned)
    config = for_gpu(Asked(m, n, k, 1, chosen, dtype, result, gpu))
    compute = compute_type(dtype, (1.0, 0.0), None, not result.is_float)
    last = LinearCombination(compute.name, False, False, False, None)
    a, b, d = read_as(kind, a), read_as(kind, b), np.zeros((m, n), result.numpy)
    return cute.trace(gemm, a, b, None, None, d, 1.0, 0.0, config, last)


def sampled(kind, name):
    """Return one pair of majors, another one for neighbours in the lists of kernels and types."""
    names = (*KERNELS, OPERATOR)
    return MAJORS[(KINDS.index(kind) + names.index(name)) % 4]


def rows():
    """Return (name, kind, shape, majors) of all kernels that the tests compile."""
    names = (*KERNELS, OPERATOR)
    whole = [(n, t, shapes(t)[0], majors) for n in names for t in KINDS for majors in MAJORS]
    return whole + [(n, t, ODD, sampled(t, n)) for n in names for t in KINDS]


def plan_of(row, gpu):
    """Return the plan of one of `rows`."""
    name, kind, shape, majors = row
    if name == OPERATOR:
        return traced_operator(kind, shape, majors, gpu)
    return traced(name, kind, shape, majors)


def compile_share(share, shares, gpu):
    """Compile every row of a share; what is refused is left to the tests."""
    for row in rows()[share::shares]:
        with suppress(cute.CuteError):
            cute.compile(plan_of(row, gpu), arch_of(gpu.capability), SPILLS)


if __name__ == "__main__":
    share, shares, memory, processors, major, minor = map(int, sys.argv[1:])
    compile_share(share, shares, Gpu(memory, processors, (major, minor)))
