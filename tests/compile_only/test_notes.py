"""What ptxas says of kernels, in the lines of the kernel, with what helps; and where waits are."""

import inspect
import re

import numpy as np
import pytest

import cute_py as cute
from tests.hopper_kernels import WARPGROUP

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

D = np.zeros((64, 256), np.float32)


def compiled(plan, spill_bytes=0):
    return cute.compile(plan, "sm_90a", spill_bytes)


def line_of(kernel, text):
    """The line of a kernel that has a text."""
    lines, first = inspect.getsourcelines(kernel.function)
    return first + next(i for i, x in enumerate(lines) if text in x)


def parts(columns, kind="SS"):
    """A product of a warpgroup, its tiles in shared memory and its thread."""
    mma = cute.make_tiled_mma(f"SM90_64x{columns}x16_F32F16F16_{kind}")
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    sA, sB = (cute.smem("f16", cute.tile_to_shape(atom, (n, 64)), 1024) for n in (64, columns))
    return mma, sA, sB, mma.get_slice(cute.thread_idx())


@cute.kernel
def unfenced(D):
    """A in registers, written without a fence."""
    cute.launch(grid=1, block=WARPGROUP)
    mma, sA, sB, thr = parts(64, "RS")
    part = thr.partition_C(cute.local_tile(D, (64, 64), (0, 0)))
    acc, a = thr.make_fragment_C(part), thr.make_fragment_A(thr.partition_A(sA))
    acc.fill(0)
    a.fill(1)
    for _k in cute.range(D.shape[0]):
        cute.warpgroup_gemm(mma, acc, a, thr.partition_B(sB))
        cute.warpgroup_commit()
        cute.warpgroup_wait(0)
        a[...] = acc[0].to("f16") + a
    cute.copy(acc, part)


def test_a_missing_fence_is_said_in_the_line_of_the_kernel():
    with pytest.raises(cute.CuteError, match=r"C7519") as caught:
        compiled(cute.trace(unfenced, D))
    text = str(caught.value)
    assert f"around line {line_of(unfenced, 'warpgroup_gemm')} of the kernel" in text
    assert "fix: call cute.warpgroup_fence() right before" in text


@cute.kernel
def wide(D, sums):
    """More sums than a thread has registers."""
    cute.launch(grid=1, block=WARPGROUP)
    mma, sA, sB, thr = parts(256)
    part = thr.partition_C(cute.local_tile(D, (64, 256), (0, 0)))
    accs = [thr.make_fragment_C(part) for _i in range(sums)]
    for acc in accs:
        acc.fill(0)
    for _k in cute.range(D.shape[0]):
        cute.warpgroup_fence()
        for acc in accs:
            cute.warpgroup_gemm(mma, acc, thr.partition_A(sA), thr.partition_B(sB))
        cute.warpgroup_commit()
        cute.warpgroup_wait(0)
    cute.copy(sum(accs[1:], accs[0]), part)


def test_too_few_registers_are_no_matter_of_fences():
    with pytest.raises(cute.CuteError, match="insufficient register resources") as caught:
        compiled(cute.trace(wide, D, 2))
    assert "fix: use fewer registers in the loop of products" in str(caught.value)
    assert "fence" not in str(caught.value).partition("fix:")[2]


@cute.kernel
def held(D, count):
    """Numbers that live through the loop, next to 128 sums."""
    cute.launch(grid=1, block=WARPGROUP)
    mma, sA, sB, thr = parts(256)
    part = thr.partition_C(cute.local_tile(D, (64, 256), (0, 0)))
    acc, more = thr.make_fragment_C(part), cute.rmem("f32", count)
    acc.fill(0)
    more.fill(1.0)
    for _k in cute.range(D.shape[0]):
        cute.warpgroup_fence()
        cute.warpgroup_gemm(mma, acc, thr.partition_A(sA), thr.partition_B(sB))
        cute.warpgroup_commit()
        cute.warpgroup_wait(0)
        for i in range(count):
            more[i] = cute.fma(more[i], acc[i % 128], more[(i + 1) % count])
    for i in range(count):
        acc[i % 128] = acc[i % 128] + more[i]
    cute.copy(acc, part)


@pytest.mark.slow
def test_spills_in_the_loop_are_said_with_their_lines_and_cause():
    """Allowed as spills, they are refused where products wait for them."""
    with pytest.raises(cute.CuteError, match=r"\d LDL") as caught:
        compiled(cute.trace(held, D, 140), 4096)
    text = str(caught.value)
    assert caught.value.code == "codegen-stalls"
    assert "fix: use fewer registers" in text
    assert "offsets of tiles from" not in text
    first, last = (line_of(held, x) for x in ("for _k in", "more[i] = cute.fma"))
    lines = [int(x) for x in re.findall(r"line (\d+)", text.partition(" in the loop")[0])]
    assert lines
    assert all(first <= x <= last for x in lines)


@cute.kernel
def weighed(D, overlaps):
    """Exponentials while products are in flight, or of what they give."""
    cute.launch(grid=1, block=WARPGROUP)
    mma, sA, sB, thr = parts(64)
    part = thr.partition_C(cute.local_tile(D, (64, 64), (0, 0)))
    acc, more = thr.make_fragment_C(part), cute.rmem("f32", 8)
    acc.fill(0)
    for i in range(8):
        more[i] = D[0, i]
    for _k in cute.range(D.shape[0]):
        cute.warpgroup_fence()
        cute.warpgroup_gemm(mma, acc, thr.partition_A(sA), thr.partition_B(sB))
        cute.warpgroup_commit()
        if overlaps:
            more[...] = cute.exp2(more)
            cute.warpgroup_wait(0, after=cute.reduce("add", more))
            more[...] = more * acc[0]
        else:
            cute.warpgroup_wait(0)
            more[...] = cute.exp2(more * acc[0])
    acc[0] = acc[0] + cute.reduce("add", more)[0]
    cute.copy(acc, part)


@pytest.mark.parametrize(("overlaps", "behind"), [(True, 8), (False, 0)])
def test_explain_says_behind_which_arithmetic_waits_are(overlaps, behind):
    text = str(compiled(cute.trace(weighed, D, overlaps)).explain())
    assert re.search(rf"wait at 0x\w+ for all products: behind {behind} of 8 MUFU", text), text
