"""Every product of the ladder, for all types, majors and ragged shapes: exact on integers.

The GPU is compared with an exact product of integers, and so is the emulator, for one pair of
majors of each kernel and type: where both are exact they are equal, bit for bit. What was in C
before is poison, and what lies behind it stays. Dry, those plans alone are compiled.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.calls.arrays import TypedArray
from cute_py.ops.libraries import Gpu
from tests.gpu import ladder
from tests.gpu.harness import DRY, HAS_GPU, SPILLS, require_any, torch
from tests.gpu.ladder import KERNELS, KINDS, MAJORS, ODD, OPERATOR

require_any()

ROOT = Path(__file__).parents[2]
H200 = Gpu(232448, 132, (9, 0))
MANY = 100  # tests, from which on all kernels are compiled at once
GUARD = 256  # elements behind C
MAJOR_NAMES = ["KK", "KN", "MK", "MN"]
TENSOR = ("tensor core", "ldmatrix", "multistage", "epilogue", "splitk")


@pytest.fixture(scope="module", autouse=True)
def _compiled_by_all_cores(request, _kernels_of_this_run):
    """Fill the cache of kernels, one process a core; what is missing is compiled where it runs."""
    mine = [one for one in request.session.items if one.path == request.path]
    if not HAS_GPU or DRY or len(mine) < MANY:
        return
    gpu, shares = here(), min(os.cpu_count() or 1, 16)
    words = map(str, (shares, gpu.smem, gpu.multiprocessors, *gpu.capability))
    words = [sys.executable, "-m", "tests.gpu.ladder", "0", *words]
    started = []
    for share in range(shares):
        words[3] = str(share)
        started.append(subprocess.Popen(words, cwd=ROOT))
    assert [one.wait() for one in started] == [0] * shares


@cache
def here():
    """Return what `cute.ops.gemm` knows of this GPU; dry, of an H200."""
    if DRY or not HAS_GPU:
        return H200
    from cute_py.ops.libraries import gpu_holding

    return gpu_holding(torch.zeros(1, device="cuda"))


def exact(a, b):
    """Return A B^T in integers of 64 bits."""
    return a.astype(np.float64).astype(np.int64) @ b.astype(np.float64).astype(np.int64).T


def poison(kind):
    """Return a number of the type of the sums that no sum is."""
    dtype = ladder.sums(kind).numpy
    return np.array(np.nan if dtype.kind == "f" else -(2**31) + 1, dtype)


def poisoned(kind, m, n):
    """Return all of an array of poison, and its part C (M,N)."""
    whole = np.full(m * n + GUARD, poison(kind))
    return whole, whole[: m * n].reshape(m, n)


def require_exact(whole, wanted, kind):
    """Fail unless an array begins with the product, and is poison behind it."""
    c, behind = whole[: wanted.size].reshape(wanted.shape), whole[wanted.size :]
    bad = np.argwhere(c.astype(np.float64) != wanted)
    assert bad.size == 0, f"{len(bad)} of {c.size} are wrong, at {bad[:8].tolist()}"
    assert behind.tobytes() == poison(kind).tobytes() * GUARD, "wrote behind C"


def on_gpu(x):
    """Return a torch tensor with the same elements and the same mode contiguous."""
    flat = x if x.flags.c_contiguous else x.T
    raw = torch.from_numpy(flat.reshape(-1).view(np.uint8).copy()).cuda()
    moved = raw.view(getattr(torch, x.dtype.name)).reshape(flat.shape)
    return moved if flat is x else moved.T


def moved(x):
    """Return an argument of a launch on the GPU: an array there, or a number as it is."""
    if isinstance(x, TypedArray):
        return cute.typed(on_gpu(x.array), x.dtype)
    return on_gpu(x) if isinstance(x, np.ndarray) else x


def launched(plan, kernel, args, c, kind):
    """Return all of the array that C begins, after a launch on the GPU."""
    whole = on_gpu(np.full(c.size + GUARD, poison(kind)))
    there = whole[: c.size].view(c.shape)
    leaves = [there if x is c else moved(x) for x in kernel.leaves(*args)]
    cute.run(plan, *leaves)
    torch.cuda.synchronize()
    return whole.cpu().numpy()


def lacks(name, kind):
    """Tell whether this GPU has no instruction for a type, and so refuses the kernel."""
    narrow = kind in ("e4m3", "e5m2") and (name in TENSOR or name == OPERATOR)
    return not DRY and narrow and here().capability < (8, 9)


def compiled_dry(plan):
    if DRY:
        cute.compile(plan, DRY, SPILLS)


def require_kernel(name, kind, shape, majors, plan, emulated):
    """Run a kernel of the ladder for a shape; fail unless it gives the exact product."""
    whole, c = poisoned(kind, *shape[:2])
    kernel, args = ladder.call(name, kind, shape, majors, c)
    assert cute.trace(kernel, *args) is plan, "one kernel serves all shapes of these facts"
    wanted = exact(*ladder.operands(kind, shape, majors))
    if lacks(name, kind):
        assert code_of(lambda: launched(plan, kernel, args, c, kind)) == "codegen-lacks"
    elif not DRY:
        require_exact(launched(plan, kernel, args, c, kind), wanted, kind)
    if emulated:
        compiled_dry(plan)
        cute.emulate(plan, *[getattr(x, "array", x) for x in kernel.leaves(*args)], checks=False)
        require_exact(whole, wanted, kind)


@pytest.mark.parametrize("majors", MAJORS, ids=MAJOR_NAMES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", KERNELS)
def test_ladder_is_exact_on_integers(name, kind, majors):
    first, second = ladder.shapes(kind)
    plan = ladder.traced(name, kind, first, majors)
    sampled = majors == ladder.sampled(kind, name)
    require_kernel(name, kind, first, majors, plan, sampled)
    require_kernel(name, kind, second, majors, plan, False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", KERNELS)
def test_ladder_is_exact_on_rows_that_are_not_aligned(name, kind):
    majors = ladder.sampled(kind, name)
    plan = ladder.traced(name, kind, ODD, majors)
    require_kernel(name, kind, ODD, majors, plan, True)


def require_operator(kind, shape, majors, emulated):
    """Call `cute.ops.gemm` for a shape; fail unless it gives the exact product."""
    a, b = ladder.operands(kind, shape, majors)
    wanted, wide = exact(a, b), ladder.sums(kind)
    if lacks(OPERATOR, kind):
        x, y = on_gpu(a), on_gpu(b).T
        assert code_of(lambda: cute.ops.gemm(x, y, out_dtype=wide)) == "codegen-lacks"
    elif not DRY:
        x, y = (ladder.read_as(kind, z) for z in (on_gpu(a), on_gpu(b).T))
        held = getattr(torch, wide.numpy.name)  # by the memory that the result gets
        torch.full(shape[:2], poison(kind).item(), dtype=held, device="cuda")
        got = cute.ops.gemm(x, y, out_dtype=wide).cpu().numpy()
        assert np.array_equal(got.astype(np.float64), wanted)
    if emulated:
        compiled_dry(ladder.traced_operator(kind, shape, majors, here()))
        got = cute.ops.gemm(ladder.read_as(kind, a), ladder.read_as(kind, b.T), out_dtype=wide)
        assert np.array_equal(got.astype(np.float64), wanted)


@pytest.mark.parametrize("majors", MAJORS, ids=MAJOR_NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_operator_is_exact_on_integers(kind, majors):
    first, second = ladder.shapes(kind)
    gpu = here()
    plan = ladder.traced_operator(kind, first, majors, gpu)
    assert ladder.traced_operator(kind, second, majors, gpu) is plan
    require_operator(kind, first, majors, majors == ladder.sampled(kind, OPERATOR))
    require_operator(kind, second, majors, False)


@pytest.mark.parametrize("kind", KINDS)
def test_operator_is_exact_on_rows_that_are_not_aligned(kind):
    require_operator(kind, ODD, ladder.sampled(kind, OPERATOR), True)


# -- what is refused


@pytest.mark.parametrize("name", TENSOR)
@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_gpus_without_8_bit_floats_are_refused(name, kind):
    plan = ladder.traced(name, kind, ladder.shapes(kind)[0], (1, 1))
    assert code_of(lambda: cute.compile(plan, "sm_80", SPILLS)) == "codegen-lacks"


@pytest.mark.parametrize("name", TENSOR)
@pytest.mark.parametrize("kind", ["s16", "s32", "u32"])
def test_types_without_an_instruction_are_refused(name, kind):
    assert code_of(lambda: ladder.traced(name, kind, ODD, (1, 1))) == "config-types"


@pytest.mark.parametrize("kind", ["s16", "s32", "u32"])
def test_operator_refuses_types_without_an_instruction(kind):
    a, b = ladder.operands(kind, ODD, (1, 1))
    if not DRY:
        a, b = on_gpu(a), on_gpu(b)
    assert code_of(lambda: cute.ops.gemm(a, b.T)) == "ops-dtype"


def code_of(call):
    with pytest.raises(cute.CuteError) as caught:
        call()
    return caught.value.code


def test_few_kernels_serve_all():
    """4 majors, and one of rows that are not aligned, of each of 10 kernels and 9 types."""
    found, gpu = ladder.rows(), here()
    serial = 0.45 * len(found)
    print(f"{len(found)} kernels; about {serial:.0f} s of one core at 0.45 s each")
    assert len(found) == len(set(found)) == (len(KERNELS) + 1) * len(KINDS) * 5
    one = [row for row in found if row[1] == "f16"]
    plans = {id(ladder.plan_of(row, gpu)) for row in one}
    assert len(plans) == len(one)
