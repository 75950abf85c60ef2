"""The GEMMs for Hopper: the configurations that are tested, operands, and what a call gives."""

import numpy as np

import cute_py as cute
from cute_py.kernels.config_sm90 import warpgroup_config
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm_sm90 import KERNELS
from tests.emulated.kernel_data import integers, plain, poisoned, stored

RESULTS = {"tf32": "f32", "s8": "s32", "u8": "s32", "f16": "f16"}  # others: bf16


def row(kind, m, n, groups=2, schedule="cooperative", majors="KK", result=None, **parts):
    """Return a configuration by the letters of its majors, K or M."""
    sides = tuple("K" if letter == "K" else "MN" for letter in majors)
    kinds = kind if isinstance(kind, tuple) else (kind, kind)
    result = result or RESULTS.get(kinds[0], "bf16")
    return warpgroup_config(kinds, (m, n), groups, schedule, sides, result, **parts)


PING = "pingpong"
HALVES = {  # rows of 16-bit types
    "128x256": row("bf16", 128, 256),
    "128x256-chunks": row("bf16", 128, 256, one_pass=False),
    "256x128": row("bf16", 256, 128),
    "128x128": row("bf16", 128, 128),
    **{f"256x{n}": row("bf16", 256, n) for n in (152, 160, 168, 176, 192, 200)},
    "192x192": row("bf16", 192, 192, 3),
    "256x160-cluster": row("bf16", 256, 160, cluster=2),
    "pp-128x192": row("bf16", 128, 192, 1, PING),
    "pp-128x128": row("bf16", 128, 128, 1, PING),
    "64x128-pdl": row("bf16", 64, 128, 1, pdl=1),
    "64x32-pdl": row("bf16", 64, 32, 1, pdl=1),
}
OTHERS = {
    "f16": row("f16", 128, 128),
    "nn": row("bf16", 128, 256, majors="KM"),
    "nt": row("f16", 128, 128, majors="MM"),
    "tt": row("bf16", 128, 256, majors="MK"),
    "pp-nt": row("bf16", 128, 192, 1, PING, "MM"),
    "tf32": row("tf32", 128, 256),
    "tf32-direct": row("tf32", 64, 64, 1, store=0),
    "s8": row("s8", 128, 256),
    "u8": row("u8", 64, 64, 1),
    "e4m3": row("e4m3", 256, 168),
    "e5m2-e4m3": row(("e5m2", "e4m3"), 128, 64),
    "e4m3-two-level": row("e4m3", 128, 192, two_level=1),
    "e4m3-to-e4m3": row("e4m3", 128, 64, result="e4m3"),
    "f32-result": row("bf16", 128, 256, result="f32"),
    "direct": row("bf16", 64, 64, 1, store=0),
    "64x128-split": row("bf16", 64, 128, 1, split=3, one_pass=False, pdl=1),
    "128x128-split": row("bf16", 128, 128, split=6, one_pass=False),
    "pp-direct": row("bf16", 128, 64, 1, PING, store=0),
}
CONFIGS = HALVES | OTHERS


def kinds_of(config):
    """Return the types of A and B."""
    atom = config.mma_atom
    return str(atom.a_type), str(atom.b_type)


def result_of(name):
    """Return the type of D that a configuration of `CONFIGS` is for."""
    if name.endswith("-to-e4m3"):
        return "e4m3"
    return "f32" if name == "f32-result" else RESULTS.get(kinds_of(CONFIGS[name])[0], "bf16")


def arguments(config, shape, result, last=None, batch=(), shared=(), seed=0):
    """Return (A, B, C, bias, D) of small integers, and the exact product in f64.

    Args:
        config: says types and majors.
        shape: M, N, K.
        result: type of D, C and bias.
        last: the epilogue; C and bias are None where it has none.
        batch: (L,) or ().
        shared: letters of operands that the products of a batch have in common.
    """
    (M, N, K), rng, last = shape, np.random.default_rng(seed), last or LinearCombination()
    sides, numbers = [], []
    for letter, rows, side, kind in zip(
        "AB", (M, N), (config.a, config.b), kinds_of(config), strict=True
    ):
        lead = () if letter in shared else batch
        one_by_one = [
            stored(integers(rng, (rows, K), kind), kind, int(side.major == "K"))
            for _ in range(max(1, *lead, 1))
        ]
        numbers.append(np.stack([plain(x) for x in one_by_one]))
        arrays = [getattr(x, "array", x) for x in one_by_one]
        if not lead:
            sides.append(one_by_one[0])
        else:
            order = (1, 2, 0) if side.major == "K" else (2, 1, 0)
            held = np.stack([x if side.major == "K" else x.T for x in arrays])
            sides.append(held.transpose(order))
    exact = np.matmul(numbers[0], numbers[1].swapaxes(1, 2))
    C = integers(rng, (*batch, M, N), "s8").astype(cute.dtype(result).numpy)
    bias = integers(rng, (N,), "s8").astype(C.dtype)
    D = poisoned(C.shape, C.dtype)
    C, D = (x.transpose(1, 2, 0) if batch else x for x in (C, D))
    terms = C if last.source else None, bias if last.bias else None
    return (*sides, *terms, D), exact if batch else exact[0]


def call_of(config, arrays, last, blocks=3, band=2, factors=(1.0, 0.0)):
    """Return the arguments of the kernel."""
    return (*arrays, *factors, blocks, band, config, last)


def trace(config, *call):
    """Return the plan of a configuration."""
    return cute.trace(KERNELS[config.schedule], *call)
