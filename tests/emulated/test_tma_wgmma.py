"""TMA and wgmma in kernels: sums that start from zero by a condition; kernels and broken twins."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan import ops
from tests.hopper_kernels import by_columns

WARPGROUP = 128
ORDERS = ("forward", "reversed", 7)
RNG = np.random.default_rng(0)


def halves(*shape):
    return RNG.integers(-3, 4, shape).astype(np.float16)


def by_hand(shared, x):
    """Copy an array to shared memory by the threads of a block, for TMA and wgmma to read."""
    for i in range(0, cute.size(shared), WARPGROUP):
        at = divmod(i + cute.thread_idx(), 64)
        shared[at] = x[at]
    cute.fence_proxy_async()
    cute.syncthreads()


def refused(code, call):
    with pytest.raises(cute.CuteError) as caught:
        call()
    assert caught.value.code == code, caught.value
    return str(caught.value)


# -- sums


@cute.kernel
def starting(a, b, d, flags, how, filled=False):
    """d = the sum over k of a * b, where `how` says which products start from zero."""
    cute.launch(grid=1, block=WARPGROUP)
    mma = cute.make_tiled_mma("SM90_64x8x16_F32F16F16_SS")
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    sA, sB = (cute.smem("f16", cute.tile_to_shape(atom, (n, 64)), 1024) for n in (64, 8))
    by_hand(sA, a)
    by_hand(sB, b)
    tid = cute.thread_idx()
    thr = mma.get_slice(tid)
    part = thr.partition_C(cute.local_tile(d, (64, 8), (0, 0)))
    acc = thr.make_fragment_C(part)
    if filled:
        acc.fill(np.nan)
    for k in cute.range(flags.shape[0]):
        if how == "flag":
            starts = flags[k] > 0.0
        else:
            starts = {"first": k > 0, "none": False, "threads": tid < 64, "negated": ~(k < 1)}[how]
        cute.warpgroup_fence()
        cute.warpgroup_gemm(mma, acc, thr.partition_A(sA), thr.partition_B(sB), starts)
        cute.warpgroup_commit()
        cute.warpgroup_wait(0)
    cute.copy(acc, part)


def summed(how, flags, filled=False, order="forward", rewritten=False):
    from cute_py.codegen.build import lowered

    a, b, d = halves(64, 64), halves(8, 64), np.full((64, 8), np.nan, np.float32)
    flags = np.array(flags, np.float32)
    plan = cute.trace(starting, a, b, d, flags, how, filled)
    cute.emulate(lowered(plan) if rewritten else plan, a, b, d, flags, order=order)
    return d, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize(
    ("how", "flags", "times"),
    [
        ("first", [0] * 3, 3),
        ("negated", [0] * 3, 3),
        ("none", [0] * 3, 1),
        ("flag", [0, 1, 1], 3),
        ("flag", [0, 1, 0, 1], 2),
    ],
)
def test_a_condition_says_whether_sums_start_from_zero(how, flags, times, rewritten):
    if rewritten:
        pytest.importorskip("numba")
    for order in ORDERS:
        for filled in (False, True):
            found, product = summed(how, flags, filled, order, rewritten)
            assert (found == times * product).all()


@pytest.mark.parametrize("order", ORDERS)
def test_sums_that_nothing_started_are_not_read(order):
    refused("emulate-register-unwritten", lambda: summed("flag", [1, 1], order=order))


@pytest.mark.parametrize("order", ORDERS)
def test_the_threads_of_a_warpgroup_agree_on_where_sums_start(order):
    said = refused("emulate-wgmma-start", lambda: summed("threads", [0], True, order))
    assert "accumulate=tid < 64" in said


def test_sums_get_unknown_values_before_their_first_product():
    """So that the compiler chooses no zeros for them, and sets none."""
    pytest.importorskip("numba")
    from cute_py.codegen.build import lowered

    x, d, flags = halves(64, 64), np.zeros((64, 8), np.float32), np.zeros(2, np.float32)
    for how, filled, found in (("first", False, [None]), ("none", False, [None]), ("first", 1, [])):
        plan = lowered(cute.trace(starting, x, x[:8], d, flags, how, bool(filled)))
        fills = [op.value for op in plan.ops if isinstance(op, ops.Fill)]
        assert [x for x in fills if x is None] == found


# -- boxes


def boxes_of(plan):
    """Return the extents of each copy of a plan by TMA, by mode of the tensor."""
    boxes = [op.box for op in plan.ops if isinstance(op, (ops.TmaLoad, ops.TmaStore))]
    return [tuple(b.extents[b.modes.index(i)] for i in range(len(b.modes))) for b in boxes]


@cute.kernel
def load_part(x, layout, part, index):
    """Load a box into a part of a tile in shared memory."""
    cute.launch(grid=1, block=32)
    shared, bars = cute.smem(x.dtype, layout, 1024), cute.mbarriers(1)
    with cute.when(cute.thread_idx() == 0):
        source = cute.local_tile(cute.tma_tensor(x), part, (0, 0))
        cute.tma_load(source, cute.local_tile(shared, part, index), bars, 0)


def loads(x, layout, part, index=(0, 0)):
    return cute.trace(load_part, x, layout, part, index)


ROWS, COLUMNS = cute.atoms.Layout_K_SW128_Atom("f16"), cute.atoms.Layout_MN_SW128_Atom("f16")


@pytest.mark.parametrize(
    ("x", "layout", "part", "index", "said"),
    [
        # the array is by columns, the tile by rows
        (
            halves(96, 64).T,
            cute.make_layout((64, 96), cute.LayoutRight),
            (64, 96),
            (0, 0),
            "follow",
        ),
        # the atoms of 64 x 8 of a box are not next to each other: M comes before K
        (halves(64, 256).T, cute.tile_to_shape(COLUMNS, (256, 64)), (64, 64), (0, 0), "follow"),
        # half of a tile of 152 rows begins in the middle of the pattern of a swizzle
        (halves(152, 64), cute.tile_to_shape(ROWS, (152, 64)), (76, 64), (1, 0), "multiple of 512"),
    ],
)
def test_boxes_that_tma_fills_otherwise_are_refused(x, layout, part, index, said):
    assert said in refused("tma-kernel-box", lambda: loads(x, layout, part, index))


def test_boxes_that_tma_fills_as_the_plan_says():
    """The corrected twins."""
    tall = cute.tile_to_shape(COLUMNS, (256, 64), (2, 1))  # K first
    for x, layout, part, index in (
        (halves(96, 64).T, cute.make_layout((64, 96)), (64, 96), (0, 0)),
        (halves(64, 256).T, tall, (64, 64), (3, 0)),
        (halves(152, 64), cute.tile_to_shape(ROWS, (160, 64)), (80, 64), (1, 0)),
    ):
        assert boxes_of(loads(x, layout, part, index)) == [part]


# -- parts of the columns of accumulators


@pytest.mark.parametrize(("N", "widths"), [(152, (64, 64, 16, 8)), (24, (16, 8)), (40, (8, 32))])
def test_a_tile_leaves_in_parts_of_its_columns(N, widths):
    a, b, d = halves(150, 64), halves(N + 8, 64), np.full((150, N + 8), np.nan, np.float16)
    plan = cute.trace(by_columns, a, b, d, N, widths)
    for order in ORDERS:
        d[...] = np.nan
        cute.emulate(plan, a, b, d, order=order)
        assert (d == a.astype(np.float32) @ b.astype(np.float32).T).all()
