"""The kernels of the ladder as plans, each with a small tile."""

from functools import cache

import ml_dtypes
import numpy as np

import cute_py as cute
from cute_py.kernels import copy, transpose
from cute_py.kernels import gemm_04_double_buffer as gemm_04
from cute_py.kernels.config import choose, epilogue, flagship, row_copy, tile_copy
from cute_py.kernels.copy import copy_elements, copy_tiles
from cute_py.kernels.gemm_01_naive import gemm_naive
from cute_py.kernels.gemm_02_shared import gemm_shared
from cute_py.kernels.gemm_03_registers import gemm_registers
from cute_py.kernels.gemm_05_tensor_core import gemm_tensor_core
from cute_py.kernels.gemm_06_ldmatrix import gemm_ldmatrix
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.kernels.gemm_08_epilogue import gemm_epilogue
from cute_py.kernels.reduce import row_sum, sum_rows
from cute_py.kernels.softmax import row_softmax, softmax
from cute_py.kernels.splitk_serial import gemm_splitk
from cute_py.ops.product import Product

TILE = (64, 64)


def zeros(*shape, kind="f32"):
    return np.zeros(shape, {"bf16": ml_dtypes.bfloat16}.get(kind) or cute.dtype(kind).numpy)


def matrices(kind="f16", sums="f32", n=256):
    """A, B and C of one size."""
    return zeros(n, n, kind=kind), zeros(n, n, kind=kind), zeros(n, n, kind=sums)


def simt(kernel):
    return cute.trace(kernel, *matrices("f32"))


def double_buffer():
    a, b, c = matrices("f32")
    return cute.trace(gemm_04.sgemm_128x128, a, b, c, gemm_04.choose(a, b))


def tensor_core(kernel, kind="f16", sums="f32", **options):
    a, b, c = matrices(kind, sums)
    return cute.trace(kernel, a, b, c, choose(a, b, TILE, **options))


def multistage_flagship():
    a, b, c = matrices("bf16")
    return cute.trace(gemm_multistage, a, b, c, flagship("bf16"))


def with_epilogue():
    a, b, c = matrices()
    cfg = choose(a, b, TILE)
    bias = zeros(256)
    return cute.trace(
        gemm_epilogue, a, b, c, c, bias, 1.0, 0.5, cfg, epilogue(cfg, c, activation="relu")
    )


def splitk():
    a, b, c = matrices()
    cfg = choose(a, b, TILE, 1, ldmatrix=False, asynchronous=False)
    return cute.trace(gemm_splitk, a, b, c, np.zeros((4, 4), np.int32), 4, cfg)


def generic():
    """The kernel of cute.ops.gemm, with all that its epilogue can do."""
    a, c = zeros(256, 256), zeros(256, 256, kind="bf16")
    product = Product(a, a, "bf16")
    product.choose("tile=64x64x32,stages=3")
    product.finish(c, (2.0, 0.5), zeros(256, kind="bf16"), "relu", "bf16")
    return product.plan()


def copies(kernel):
    a = zeros(64, 64)
    return cute.trace(
        kernel, a, a, *([tile_copy((32, 32), 128, a)] if kernel is copy_tiles else [])
    )


def transposed(layout=None):
    a = zeros(64, 64)
    if layout is None:
        return cute.trace(transpose.transpose_naive, a, a)
    return cute.trace(transpose.transpose_shared, a, a, layout)


def by_vectors(kernel):
    a, b = zeros(64, 1024), zeros(64, 1024)
    if kernel is copy.copy_vectors:
        return cute.trace(kernel, a, b, *copy.choose(a, b))
    if kernel is transpose.transpose_vectors:
        return cute.trace(kernel, a, zeros(1024, 64), 256)
    return cute.trace(kernel, a, zeros(64) if kernel is row_sum else b, *row_copy(a))


LADDER = {
    "copy_elements": lambda: copies(copy_elements),
    "copy_tiles": lambda: copies(copy_tiles),
    "transpose_naive": transposed,
    "transpose_swizzled": lambda: transposed(transpose.SWIZZLED),
    "copy_vectors": lambda: by_vectors(copy.copy_vectors),
    "transpose_vectors": lambda: by_vectors(transpose.transpose_vectors),
    "row_sum": lambda: by_vectors(row_sum),
    "row_softmax": lambda: by_vectors(row_softmax),
    "reduce": lambda: cute.trace(sum_rows, zeros(64, 1024), zeros(64)),
    "softmax": lambda: cute.trace(softmax, zeros(64, 1024), zeros(64, 1024)),
    "gemm_01_naive": lambda: simt(gemm_naive),
    "gemm_02_shared": lambda: simt(gemm_shared),
    "gemm_03_registers": lambda: simt(gemm_registers),
    "gemm_04_double_buffer": double_buffer,
    "gemm_05_tensor_core": lambda: tensor_core(
        gemm_tensor_core, stages=1, ldmatrix=False, asynchronous=False
    ),
    "gemm_06_ldmatrix": lambda: tensor_core(gemm_ldmatrix, stages=1, asynchronous=False),
    "gemm_07_multistage": multistage_flagship,
    "gemm_07_multistage_s8": lambda: tensor_core(gemm_multistage, "s8", "s32"),
    "gemm_07_multistage_f64": lambda: tensor_core(gemm_multistage, "f64", "f64"),
    "gemm_08_epilogue": with_epilogue,
    "splitk_serial": splitk,
    "gemm": generic,
}


@cache
def plan_of(name):
    """Return the plan of a kernel of the ladder, traced once."""
    return LADDER[name]()
