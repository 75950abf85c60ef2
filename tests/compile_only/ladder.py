"""The kernels of the ladder as plans, each with a small tile."""

import re
from collections import Counter
from functools import cache

import ml_dtypes
import numpy as np

import cute_py as cute
from cute_py.kernels import copy, transpose
from cute_py.kernels.arrays import row_copy
from cute_py.kernels.config import choose, choose_config, flagship
from cute_py.kernels.copy import copy_elements
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.kernels.reduce import row_reduce
from cute_py.kernels.samples import sample
from cute_py.kernels.softmax import row_softmax
from cute_py.kernels.transpose import transpose_naive
from cute_py.ops.gemm_tiles import Asked, for_gpu
from cute_py.ops.libraries import Gpu
from cute_py.ops.product import Product, Request, taken

TILE = (64, 64)


def zeros(*shape, kind="f32"):
    return np.zeros(shape, {"bf16": ml_dtypes.bfloat16}.get(kind) or cute.dtype(kind).numpy)


def loops_of(sass):
    """Return the names of the instructions, and (start, end) of each loop, by its end."""
    labels, names, loops = {}, [], []
    for line in sass.splitlines():
        label = re.match(r"\s*(\.L_x_\d+):", line)
        if label:
            labels[label[1]] = len(names)
        found = re.search(r"/\*[0-9a-f]{4,5}\*/\s+(.*?);", line)
        if found:
            text = re.sub(r"^@!?U?P\w+\s+", "", found[1])
            jump = re.search(r"^BRA.*(\.L_x_\d+)", text)
            names.append(text.split()[0].partition(".")[0])
            if jump and labels.get(jump[1], len(names)) < len(names) - 1:  # not the end of the code
                loops.append((labels[jump[1]], len(names)))
    return names, loops


def main_loop(sass, product="HMMA"):
    """Return the instructions before the innermost loop with products, and those of the loop."""
    names, loops = loops_of(sass)
    start, end = min((x for x in loops if product in names[slice(*x)]), key=lambda x: x[1] - x[0])
    return Counter(names[:start]), Counter(names[start:end])


def matrices(kind="f16", sums="f32", n=256):
    """A, B and C of one size."""
    return zeros(n, n, kind=kind), zeros(n, n, kind=kind), zeros(n, n, kind=sums)


def tensor_core(kernel, kind="f16", sums="f32", **options):
    a, b, c = matrices(kind, sums)
    return cute.trace(kernel, a, b, c, choose(a, b, TILE, **options))


def multistage_flagship():
    a, b, c = matrices("bf16")
    return cute.trace(gemm_multistage, a, b, c, flagship("bf16"))


def generic():
    """The kernel of cute.ops.gemm, with all that its epilogue can do."""
    return with_epilogue(zeros(256, 256), "tile=64x64x32,stages=3")


def operator(size=4096):
    """The kernel that an H200 gets for bf16 of a size, with all that its epilogue can do."""
    chosen = choose_config(size, size, size, "bf16", ("K", "MN"))
    h200 = Gpu(232448, 132, (9, 0))
    config = for_gpu(Asked(size, size, size, 1, chosen, cute.bf16, cute.bf16, h200))
    return with_epilogue(zeros(256, 256, kind="bf16"), config)


def with_epilogue(a, config):
    c, bias = zeros(256, 256, kind="bf16"), zeros(256, kind="bf16")
    how = {"activation": "relu", "out_dtype": "bf16", "dtype": "bf16", "config": config}
    return Product(*taken(Request(a, a, c, bias, alpha=2.0, beta=0.5, **how))).call().plan()


def elements(kernel):
    a = zeros(64, 64)
    return cute.trace(kernel, a, a)


def small(name):
    """The plan that the command line shows, which compiles it too: it is in the cache then."""
    return lambda: sample(name, 256, 256, 256)


def by_vectors(kernel):
    a, b = zeros(64, 1024), zeros(64, 1024)
    if kernel is copy.copy_vectors:
        return cute.trace(kernel, a, b, *copy.choose(a, b))
    if kernel is transpose.transpose_vectors:
        return cute.trace(kernel, a, zeros(1024, 64), 256)
    return cute.trace(kernel, a, zeros(64) if kernel is row_reduce else b, *row_copy(a))


LADDER = {
    "copy_elements": lambda: elements(copy_elements),
    "copy_tiles": small("copy"),
    "transpose_naive": lambda: elements(transpose_naive),
    "transpose_swizzled": small("transpose"),
    "copy_vectors": lambda: by_vectors(copy.copy_vectors),
    "transpose_vectors": lambda: by_vectors(transpose.transpose_vectors),
    "row_reduce": lambda: by_vectors(row_reduce),
    "row_softmax": lambda: by_vectors(row_softmax),
    "reduce": small("reduce"),
    "softmax": small("softmax"),
    "gemm_01_naive": small("gemm_01"),
    "gemm_02_shared": small("gemm_02"),
    "gemm_03_registers": small("gemm_03"),
    "gemm_04_double_buffer": small("gemm_04"),
    "gemm_05_tensor_core": small("gemm_05"),
    "gemm_06_ldmatrix": small("gemm_06"),
    "gemm_07_multistage": multistage_flagship,
    "gemm_07_multistage_s8": lambda: tensor_core(gemm_multistage, "s8", "s32"),
    "gemm_07_multistage_f64": lambda: tensor_core(gemm_multistage, "f64", "f64"),
    "gemm_08_epilogue": small("gemm_08"),
    "gemm_09_tma_wgmma": small("gemm_09"),
    "gemm_10_warp_specialised": small("gemm_10"),
    "gemm_11_persistent": small("gemm_11"),
    "gemm_12_ping_pong": small("gemm_12"),
    "splitk_serial": small("splitk"),
    "gemm": generic,
}


@cache
def plan_of(name):
    """Return the plan of a kernel of the ladder, traced once."""
    return LADDER[name]()


@cute.kernel
def hungry(x, y):
    """Keep 320 numbers a thread, more than there are registers."""
    cute.launch(grid=1, block=32)
    held = cute.rmem("f32", 320)
    cute.copy(cute.local_tile(x, (320,), (cute.thread_idx(),)), held)
    for _k in cute.range(y.shape[0]):
        held += held * 2.0
    cute.copy(held, cute.local_tile(y, (320,), (cute.thread_idx(),)))


def spilling():
    """Return the plan of a kernel whose registers run out."""
    x = zeros(320 * 32)
    return cute.trace(hungry, x, x)


# -- machine code

MATRIX = {
    **dict.fromkeys(("f16", "bf16", "tf32", "e4m3", "e5m2"), "HMMA"),
    **dict.fromkeys(("s8", "u8"), "IMMA"),
    "f64": "DMMA",
}
HALVES = ("e4m3", "e5m2")  # sm_90 widens them to f16, for two HMMA an instruction


def total(plan, kind, count):
    return sum(count(op) for op in plan.ops if type(op).__name__ == kind)


def wanted(plan):
    """Count what the machine code must hold; these kernels unroll all but the loop over K, once."""
    products = [op for op in plan.ops if type(op).__name__ == "Mma" and op.atom.ptx]
    found = dict.fromkeys(MATRIX.values(), 0)
    for op in products:
        name = op.a.dtype.name
        found[MATRIX[name]] += len(op.steps) * (2 if name in HALVES else 1)
    if any(type(op).__name__ == "Wgmma" for op in plan.ops):
        found["HGMMA"] = total(plan, "Wgmma", lambda op: len(op.steps))
        found["STSM"] = total(plan, "StMatrix", lambda op: op.dst.count)
        found["UTMASTG"] = total(plan, "TmaStore", lambda op: 1)
    found["LDSM"] = total(plan, "LdMatrix", lambda op: op.src.count)
    found["LDGSTS"] = total(plan, "CpAsync", lambda op: op.src.count)
    return found | {"LDL": 0, "STL": 0}
