"""The ladder and `cute.ops.gemm` on random numbers, against float64 and within the stated bound.

The bound is that of `cute_py.ops.reference.bound`: (n + 8) u (|A| |B| + 1), for n instructions one
after the other and u half an ulp of 1 in the type of the sums; and one ulp of the result's type.
"""

import numpy as np
import pytest

import cute_py as cute
from tests.gpu.harness import DRY, assert_same, both, launched, require_any, torch
from tests.gpu.ladder import KERNELS

require_any()

M, N, K = 65, 72, 200


LADDER = {name: make for name, make in KERNELS.items() if name != "splitk"}
SIMT = ("naive", "shared", "registers", "double buffer")
CASES = [
    *[(name, "f32") for name in LADDER],
    *[(name, "f64") for name in ("naive", "tensor core", "multistage", "epilogue")],
    *[
        (name, kind)
        for name in ("naive", "tensor core", "ldmatrix", "multistage", "epilogue")
        for kind in ("f16", "bf16")
    ],
]


def operands(kind, integers=False, seed=0):
    rng = np.random.default_rng(seed)
    draw = (lambda s: rng.integers(-3, 4, s)) if integers else rng.standard_normal
    dtype = cute.dtype(kind).numpy
    a, b = (np.asarray(cute.convert(draw(s), kind)).astype(dtype) for s in ((M, K), (N, K)))
    return a, b, np.full((M, N), np.nan, np.float64 if kind == "f64" else np.float32)


def bound(a, b, per, unit, last=0.0):
    """Return how far each element of A B^T may be from the exact one; `last`: an ulp of 1."""
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64).T
    exact = np.abs(a.astype(np.float64) @ b.astype(np.float64).T)
    return 1.13 * (a.shape[1] / per + 8) * unit * (size + 1) + last * exact


def instruction_k(args):
    for x in args:
        if hasattr(x, "mma"):
            return x.mma.atom.shape_mnk[2]
    return 1


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_ladder_is_within_the_bound_on_random_numbers(name, kind):
    a, b, c = operands(kind)
    kernel, *args = LADDER[name](a, b, c)
    got, emulated = both_of(kernel, args, 3 if name == "epilogue" else 2)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    unit = 2.0**-53 if kind == "f64" else 2.0**-24
    most = bound(a, b, instruction_k(args), unit, 2 * unit)
    for x in (got, emulated):
        assert (np.abs(x - exact) <= most).all(), float((np.abs(x - exact) / most).max())


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_ladder_equals_the_emulator_on_integers(name, kind):
    a, b, c = operands(kind, integers=True)
    kernel, *args = LADDER[name](a, b, c)
    got, emulated = both_of(kernel, args, 3 if name == "epilogue" else 2)
    assert_same(got, emulated, f"{name} {kind}")
    assert np.array_equal(got, a.astype(np.float64) @ b.astype(np.float64).T)


def both_of(kernel, args, which):
    """Return (of the GPU, of the emulator) of one argument; leaves alone are run-time arguments."""
    return both(cute.trace(kernel, *args), *kernel.leaves(*args))[which]


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "e4m3"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (70, 40, 130), (256, 128, 1000)])
def test_ops_gemm_is_within_the_bound(kind, shape):
    m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = (cute.convert(rng.standard_normal(s), kind) for s in ((m, k), (n, k)))
    a, b = (
        np.asarray(a).astype(cute.dtype(kind).numpy),
        np.asarray(b).astype(cute.dtype(kind).numpy),
    )
    out = "f64" if kind == "f64" else "f32"
    wide = a.astype(np.float64) @ b.astype(np.float64).T
    if DRY:
        got = cute.ops.gemm(a, b.T, out_dtype=out)
    else:
        x, y = (on_torch(z, kind) for z in (a, b))
        got = cute.ops.gemm(x, y.T, out_dtype=out).cpu().numpy()
    unit = 2.0**-53 if kind == "f64" else 2.0**-24
    per = cute.ops.choose_config(m, n, k, kind).mma_atom.shape_mnk[2]
    if kind == "e4m3":
        unit *= 2.0**10  # the tensor cores of sm_89 and sm_90 keep 14 bits of such sums
    assert (np.abs(got - wide) <= bound(a, b, per, unit, 2 * unit)).all()


def on_torch(x, kind):
    names = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn"}
    raw = torch.from_numpy(x.view(f"u{x.dtype.itemsize}" if kind in names else x.dtype).copy())
    return (raw.view(getattr(torch, names[kind])) if kind in names else raw).cuda()


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_repetitions_give_the_same_bits(name, kind):
    """100 launches of each kernel, D poisoned before each."""
    kernel, *args = LADDER[name](*operands(kind))
    plan, leaves = cute.trace(kernel, *args), kernel.leaves(*args)
    which = 3 if name == "epilogue" else 2
    results = {launched(plan, *leaves)[which].tobytes() for _ in range(2 if DRY else 100)}
    assert len(results) == 1
