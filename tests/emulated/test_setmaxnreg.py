"""setmaxnreg: warpgroups as a whole, one number, and no more registers than a launch has."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cute_py as cute

ORDERS = ("forward", "reversed", 0, 1, 2)


def at_launch(counts, min_blocks):
    return min(256, 65536 // (128 * len(counts) * min_blocks) // 8 * 8)


def of_warpgroups(counts, min_blocks=1):
    """A kernel whose warpgroups ask for these numbers; None asks for nothing."""
    first = at_launch(counts, min_blocks)

    @cute.kernel
    def run(out):
        cute.launch(grid=1, block=128 * len(counts), min_blocks=min_blocks)
        for group, count in enumerate(counts):
            if count is not None:
                with cute.when(cute.warp_idx() // 4 == group):
                    cute.setmaxnreg(count, "inc" if count > first else "dec")
        with cute.when(cute.thread_idx() == 0):
            out[0] = 1.0

    return run


numbers = st.one_of(st.none(), st.integers(3, 32).map(lambda n: 8 * n))


@settings(max_examples=30)
@given(st.lists(numbers, min_size=1, max_size=8), st.integers(1, 2))
def test_the_sum_is_within_what_the_block_begins_with(counts, blocks):
    first = at_launch(counts, blocks)
    fits = sum(first if n is None else n for n in counts) <= first * len(counts)
    out = np.zeros(1, np.float32)
    run = of_warpgroups(counts, blocks)
    if fits:
        cute.emulate(cute.trace(run, out), out)
        assert out[0] == 1
    else:
        with pytest.raises(cute.CuteError) as caught:
            cute.trace(run, out)
        assert caught.value.code == "plan-setmaxnreg-sum"


@pytest.mark.parametrize("counts", [(40, 232, 232), (24, 240, 240), (32, 160, 160, 160)])
def test_the_numbers_of_published_kernels_fit(counts):
    out = np.zeros(1, np.float32)
    cute.emulate(cute.trace(of_warpgroups(counts), out), out)
    assert out[0] == 1


@pytest.mark.parametrize("threads", [32, 96, 100, 160, 224])
def test_a_block_has_whole_warpgroups(threads):
    @cute.kernel
    def run(out):
        cute.launch(grid=1, block=threads)
        cute.setmaxnreg(40, "dec")
        out[0] = 1.0

    with pytest.raises(cute.CuteError) as caught:
        cute.trace(run, np.zeros(1, np.float32))
    assert caught.value.code == "plan-setmaxnreg-part"
    assert f"that warp {threads // 32} of" in str(caught.value)


@cute.kernel
def as_memory_says(who, counts):
    """Warps for which `who` is set ask, for a number that `counts` picks when it runs."""
    cute.launch(grid=1, block=256)
    t = cute.thread_idx()
    mine, high = cute.as_int(who[t // 32]), cute.as_int(counts[t // 32])
    with cute.when(mine != 0):
        with cute.when(high != 0):
            cute.setmaxnreg(104, "dec")
        with cute.otherwise():
            cute.setmaxnreg(96, "dec")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("who", "counts", "right"),
    [
        ((1,) * 8, (0,) * 8, True),
        ((0,) * 4 + (1,) * 4, (0,) * 4 + (1,) * 4, True),
        ((1,) * 4 + (0,) * 4, (0,) * 3 + (1,) * 5, False),
        ((1,) * 3 + (0,) * 5, (0,) * 8, False),
    ],
)
def test_warps_of_a_warpgroup_ask_together(who, counts, right, order):
    given_ = [np.array(x, np.int32) for x in (who, counts)]
    plan = cute.trace(as_memory_says, *given_)
    if right:
        cute.emulate(plan, *given_, order=order)
        return
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, *given_, order=order)
    assert caught.value.code == "emulate-setmaxnreg"


def one_after_another(steps, between):
    """A warpgroup of two, which begins with 256 registers, asks for several numbers in turn."""

    @cute.kernel
    def run(out):
        cute.launch(grid=2, block=256)
        bars = cute.mbarriers(1)
        with cute.elect("block"):
            bars.init(128)
            cute.fence_mbarrier_init()
        cute.syncthreads()
        with cute.when(cute.warp_idx() // 4 == 1):
            for i, (count, kind) in enumerate(steps):
                if i and between == "named":
                    cute.named_barrier(1, 128)
                elif i and between == "mbarrier":
                    bars.arrive(0)
                    bars.wait(0, (i - 1) % 2)
                elif i:
                    cute.syncwarp()
                cute.setmaxnreg(count, kind)
        out[cute.block_idx(), cute.thread_idx()] = 1

    return run


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([(40, "dec")], ""),
        ([(256, "inc")], ""),
        ([(256, "dec")], ""),
        ([(40, "inc")], "plan-setmaxnreg-kind"),
        ([(40, "dec"), (104, "dec")], "plan-setmaxnreg-kind"),
        ([(40, "dec"), (24, "inc")], "plan-setmaxnreg-kind"),
        ([(40, "dec"), (104, "inc")], "emulate-setmaxnreg"),
        ([(40, "dec"), (40, "dec")], "emulate-setmaxnreg"),
        ([(40, "dec"), (104, "inc"), (24, "dec")], "emulate-setmaxnreg"),
    ],
)
def test_numbers_rise_and_fall_and_a_warpgroup_synchronises_between_two(steps, code, order):
    for between in ("named", "mbarrier", "warp"):
        out = np.zeros((2, 256), np.int32)
        right = not code or (code.startswith("emulate") and between != "warp")
        if right:
            cute.emulate(one_after_another(steps, between), out, order=order)
            assert out.all()
            continue
        with pytest.raises(cute.CuteError) as caught:
            cute.emulate(one_after_another(steps, between), out, order=order)
        assert caught.value.code == code


@pytest.mark.parametrize("order", ORDERS)
def test_a_number_from_memory_may_be_on_the_wrong_side(order):
    @cute.kernel
    def run(flag, out):
        cute.launch(grid=1, block=256)
        with cute.when(flag[0] > 0):
            cute.setmaxnreg(40, "dec")
        cute.syncthreads()
        cute.setmaxnreg(104, "inc")
        out[cute.thread_idx()] = 1

    out = np.zeros(256, np.int32)
    plan = cute.trace(run, out[:1], out)
    cute.emulate(plan, np.ones(1, np.int32), out, order=order)
    with pytest.raises(cute.CuteError, match="inc from 256") as caught:
        cute.emulate(plan, np.zeros(1, np.int32), out, order=order)
    assert caught.value.code == "emulate-setmaxnreg"


@cute.kernel
def handed(out, late):
    """The multiplier needs registers that the loader releases, before it waits or too late."""
    cute.launch(grid=3, block=384)
    tid, bars = cute.thread_idx(), cute.mbarriers(1)
    with cute.elect("block"):
        bars.init(1)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    with cute.role("multiply", warps=range(8), registers=232):
        with cute.elect("role"):
            bars.arrive(0)
        out[cute.block_idx(), tid] = 1
    with cute.role("load", warps=range(8, 12)):
        if not late:
            cute.setmaxnreg(40, "dec")
        bars.wait(0, 0)
        if late:
            cute.setmaxnreg(40, "dec")
        out[cute.block_idx(), tid] = 2


@pytest.mark.parametrize("order", ORDERS)
def test_registers_are_waited_for(order):
    out = np.zeros((3, 384), np.int32)
    cute.emulate(cute.trace(handed, out, False), out, order=order)
    assert (out == np.repeat([1, 1, 2], 128)).all()
    with pytest.raises(cute.CuteError, match="232 registers a thread, which") as caught:
        cute.emulate(cute.trace(handed, out, True), out, order=order)
    assert caught.value.code == "emulate-deadlock"
