"""K split among blocks of the kernel for Hopper, in turn and by shares: exact, in all orders."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.config_sm90 import warpgroup_config
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm_split_sm90 import gemm_cooperative_split
from cute_py.kernels.splits import Split, workspace_of
from tests.hopper_family import arguments
from tests.sampling import quick

ORDERS = ("forward", "reversed", 0, 1)
FULL = LinearCombination(alpha=True, source=True, bias=True, activation="relu")


def check(split, shape, tile=(64, 16), order="forward", kind="bf16", batch=(), last=None, **parts):
    """Emulate two launches that share a workspace, with all checks; compare with whole numbers."""
    last = last or LinearCombination()
    groups, result = tile[0] // 64, {"tf32": "f32", "s8": "s32"}.get(kind, "bf16")
    majors = parts.pop("majors", ("K", "K"))
    config = warpgroup_config(
        (kind, kind), tile, groups, "cooperative", majors, result, parts=split, **parts
    )
    arrays, exact = arguments(config, shape, result, last, batch)
    (m, n, _k), D = shape, arrays[-1]
    tiles = -(-m // tile[0]) * -(-n // tile[1]) * (batch or (1,))[0]
    wanted = workspace_of(split, config.tile, tiles)
    sums = np.full(tuple(wanted), np.nan if result != "s32" else -1, config.mma_atom.c_type.numpy)
    locks, factors = np.zeros(wanted.slots, np.int32), (2.0, 3.0) if last.source else (1.0, 0.0)
    statics = config, last if result != "s32" else LinearCombination("s32")
    call = (*arrays[:2], sums, locks, *arrays[2:], *factors, *statics)
    plan = cute.trace(gemm_cooperative_split, *call)
    given = [x for x in call[:-2] if x is not None]
    if last.source:
        C, bias = arrays[2:4]
        exact = np.maximum(2 * exact + 3 * C.astype(float) + bias.astype(float), 0)
    for _launch in range(2):  # the locks are zero again after each
        D[...] = 99
        cute.emulate(plan, *given, order=order, checks=True)
        found = np.moveaxis(D, 2, 0) if batch else D
        np.testing.assert_array_equal(found.astype(float), exact.astype(D.dtype).astype(float))
        assert not locks.any()


SPLITS = [
    (Split("serial", 3), (70, 40, 264)),
    (Split("serial", 5), (64, 16, 136)),  # more slices than tiles of K
    (Split("serial", 1), (130, 24, 72)),
    (Split("stream", 5), (130, 40, 200)),
    (Split("stream", 13), (64, 48, 200)),  # more blocks than tiles of K
    (Split("stream", 1), (70, 24, 136)),
]
FEW = [(SPLITS[0], "reversed"), (SPLITS[3], 0)]


@pytest.mark.parametrize(("case", "order"), quick(FEW, SPLITS, ORDERS), ids=str)
def test_k_is_split_exactly_in_all_orders(case, order):
    check(*case, order=order)


@pytest.mark.slow
@pytest.mark.parametrize("count", range(1, 21))
def test_splits_of_one_to_twenty(count):
    check(Split("serial", count), (64, 16, 640))


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [8, 13, 132])
def test_shares_of_five_by_seven_tiles(blocks):
    check(Split("stream", blocks), (290, 104, 136))


OTHERS = {
    "two warpgroups": {"tile": (128, 24), "shape": (150, 40, 136)},
    "three": {"tile": (192, 16), "shape": (200, 24, 136)},
    "along M and N": {"majors": ("MN", "MN"), "tile": (64, 64), "shape": (72, 72, 136)},
    "tf32": {"kind": "tf32", "shape": (70, 40, 100)},
    "s8": {"kind": "s8", "shape": (70, 48, 400)},
    "e4m3": {"kind": "e4m3", "two_level": 1, "shape": (70, 40, 400)},
    "a batch": {"batch": (2,), "shape": (70, 24, 136)},
    "an epilogue": {"last": FULL, "shape": (70, 40, 136)},
    "direct": {"store": 0, "shape": (70, 41, 136)},
}


HOW = Split("stream", 5), Split("serial", 3)


@pytest.mark.parametrize(("name", "split"), quick([("an epilogue", HOW[1])], OTHERS, HOW), ids=str)
def test_types_majors_batches_and_epilogues(name, split):
    how = dict(OTHERS[name])
    check(split, how.pop("shape"), **how)
