"""Products of warpgroups whose tiles begin at any row of a swizzled storage, on the emulator."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan.ops import Wgmma

WARPGROUP, SHIFTS = 128, range(8)
SHAPES = {"K": (72, 64), "MN": (64, 32)}  # eight rows of memory more than a tile has
MODES = ("SW128", "SW64", "SW32")


@cute.kernel
def shifted(a, d, mode, major, side, shift):
    """d = x y^T for tiles x and y of a: one begins `shift` rows of memory later.

    Rows of memory are those of a with major "K", else its columns.
    """
    cute.launch(grid=1, block=WARPGROUP)
    atom, shape = cute.atoms.gmma_layout_atom(major, mode, "f16"), SHAPES[major]
    order = (1, 2) if major == "K" else (2, 1)  # rows of memory follow each other
    shared = cute.smem("f16", cute.tile_to_shape(atom, shape, order), 1024)
    for i in range(0, cute.product(shape), WARPGROUP):
        at = i + cute.thread_idx()
        shared[at // shape[1], at % shape[1]] = a[at // shape[1], at % shape[1]]
    cute.fence_proxy_async()
    cute.syncthreads()
    moved = (shift, 0) if major == "K" else (0, shift)
    plain, later = (
        cute.local_tile(x, (64, 16), (0, 0)) for x in (shared, cute.domain_offset(moved, shared))
    )
    x, y = (later, plain) if side == "A" else (plain, later)
    mma = cute.make_tiled_mma(f"SM90_64x64x16_F32F16F16_SS<{major},{major}>")
    thr = mma.get_slice(cute.thread_idx())
    part = thr.partition_C(cute.local_tile(d, (64, 64), (0, 0)))
    acc = thr.make_fragment_C(part)
    cute.warpgroup_fence()
    cute.warpgroup_gemm(mma, acc, thr.partition_A(x), thr.partition_B(y), False)
    cute.warpgroup_commit()
    cute.warpgroup_wait(0)
    cute.copy(acc, part)


def arrays(major):
    return np.random.default_rng(0).integers(-4, 5, SHAPES[major]).astype(np.float16)


def wanted(a, major, side, shift):
    wide = a.astype(np.float32)
    plain = wide[:64, :16]
    later = wide[shift : shift + 64, :16] if major == "K" else wide[:64, shift : shift + 16]
    x, y = (later, plain) if side == "A" else (plain, later)
    return x @ y.T


def check(mode, major, side, shift):
    a, d = arrays(major), np.full((64, 64), np.nan, np.float32)
    plan = cute.trace(shifted, a, d, mode, major, side, shift)
    assert any(isinstance(op, Wgmma) for op in plan.ops)
    cute.emulate(plan, a, d)
    np.testing.assert_array_equal(d, wanted(a, major, side, shift))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("side", ["A", "B"])
def test_a_tile_may_begin_at_any_row(mode, major, side):
    check(mode, major, side, 3)


@pytest.mark.slow
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("side", ["A", "B"])
def test_all_shifts(mode, major, side, shift):
    check(mode, major, side, shift)
