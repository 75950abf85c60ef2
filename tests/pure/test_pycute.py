"""pycute, NVIDIA's Python prototype: a second opinion, and its own semantics through our names.

Where pycute (in nvidia-cutlass 4.2.0) is right by the brute-force model, cute_py gives the same
function. Where it is silently wrong, cute_py is right or refuses; the counts are printed.
"""

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import cute_py as cute
from tests import model
from tests.judges import any_layout, chain_layout, mixed_layout

ROOT = Path(__file__).parents[2]
PAIRS = 2_000


@pytest.fixture(scope="module")
def pycute():
    return pytest.importorskip(
        "pycute", reason="pycute is in nvidia-cutlass (requirements/no-deps.txt)"
    )


def theirs(pycute, layout):
    return pycute.Layout(layout.shape, layout.stride)


def answer_of(operation, *operands):
    """Return what the operation answers, None where it refuses."""
    try:
        return operation(*operands)
    except (cute.CuteError, AssertionError, ZeroDivisionError, TypeError, ValueError):
        return None


# -- where pycute is right, we agree as a function


def pairs(seed):
    rng = random.Random(seed)
    for _ in range(PAIRS):
        yield any_layout(rng, rng.randint(1, 3)), any_layout(rng, rng.randint(1, 2))


def test_composition_agrees_with_pycute_where_that_is_right(pycute):
    counts = Counter()
    for a, b in pairs(1):
        peer = answer_of(pycute.composition, theirs(pycute, a), theirs(pycute, b))
        ours = answer_of(cute.composition, a, b)
        if peer is None:
            counts["pycute refuses" if ours is None else "pycute refuses, we answer"] += 1
        elif model.table(peer) == model.composed_table(a, b):
            counts["both right"] += 1
            assert ours is not None, f"{a} o {b}"
            assert model.table(ours) == model.table(peer)
        else:
            counts["pycute is wrong"] += 1
            assert ours is None or model.table(ours) == model.composed_table(a, b)
    print(dict(counts))
    assert counts["both right"] > PAIRS / 4
    assert counts["pycute is wrong"] > PAIRS / 100
    assert counts["pycute refuses, we answer"] > PAIRS / 100


def test_coalesce_and_filter_agree_with_pycute(pycute):
    for layout, _ in pairs(2):
        assert model.table(cute.coalesce(layout)) == model.table(
            pycute.coalesce(theirs(pycute, layout))
        )
        image = set(model.table(pycute.filter(theirs(pycute, layout))))
        assert set(model.table(cute.filter(layout))) == image


def test_complement_agrees_with_pycute_on_chains(pycute):
    rng = random.Random(3)
    for _ in range(PAIRS):
        layout, target = chain_layout(rng, rng.randint(1, 3)), rng.randint(1, 300)
        peer = pycute.complement(theirs(pycute, layout), target)
        assert model.table(cute.complement(layout, target)) == model.table(peer)


def test_right_inverse_goes_at_least_as_far_as_pycutes(pycute):
    rng = random.Random(4)
    for _ in range(PAIRS):
        layout = mixed_layout(rng)
        peer = model.table(pycute.right_inverse(theirs(pycute, layout)))
        ours = model.table(cute.right_inverse(layout))
        assert len(ours) >= len(peer)
        assert [layout(place) for place in ours] == list(range(len(ours)))


def test_left_inverse_agrees_with_pycute_where_that_is_right(pycute):
    rng, counts = random.Random(5), Counter()
    for _ in range(PAIRS):
        layout = mixed_layout(rng)
        pairs_of, offsets = model.modes(layout), model.table(layout)
        peer = answer_of(pycute.left_inverse, theirs(pycute, layout))
        ours = answer_of(cute.left_inverse, layout)
        if peer is None:
            continue
        back = [model.value(model.modes(peer), x) for x in offsets]
        right = [model.value(pairs_of, x) for x in back] == offsets and max(back) < len(offsets)
        counts["right" if right else "pycute is wrong"] += 1
        if right and model.is_staircase(pairs_of):
            again = [model.value(model.modes(ours), x) for x in offsets]
            assert [model.value(pairs_of, x) for x in again] == offsets
            assert again == back or not model.is_injective(pairs_of)
    print(dict(counts))
    assert counts["right"] > PAIRS / 4
    assert counts["pycute is wrong"] > PAIRS / 100


@pytest.mark.parametrize("name", ["logical_divide", "zipped_divide", "tiled_divide"])
def test_divide_agrees_with_pycute_where_that_is_right(pycute, name):
    rng, agreed = random.Random(6), 0
    for _ in range(PAIRS // 2):
        layout, tiler = chain_layout(rng, rng.randint(1, 3)), chain_layout(rng, 1)
        peer = answer_of(getattr(pycute, name), theirs(pycute, layout), theirs(pycute, tiler))
        ours = answer_of(getattr(cute, name), layout, tiler)
        if peer is None or not _is_divided(peer, layout, tiler):
            continue
        agreed += 1
        assert ours is not None, f"{name}({layout}, {tiler})"
        assert model.table(ours) == model.table(peer)
    assert agreed > PAIRS / 10


def _is_divided(result, layout, tiler):
    """Return whether the result is layout o (tiler, complement of tiler in the layout's size)."""
    target = cute.coalesce(layout).shape
    indices = [
        x + y for y in model.table(cute.complement(tiler, target)) for x in model.table(tiler)
    ]
    pairs_of = model.modes(layout)
    return model.table(result) == [model.value(pairs_of, index) for index in indices]


def test_product_agrees_with_pycute_on_chains(pycute):
    rng, agreed = random.Random(7), 0
    for _ in range(PAIRS // 2):
        block, tiler = chain_layout(rng, rng.randint(1, 2)), chain_layout(rng, rng.randint(1, 2))
        peer = answer_of(pycute.logical_product, theirs(pycute, block), theirs(pycute, tiler))
        ours = answer_of(cute.logical_product, block, tiler)
        if peer is None or ours is None or tiler.size() * block.size() != model.size(peer):
            continue
        moves = model.table(peer)[:: block.size()]
        expected = [x + y for y in moves for x in model.table(block)]
        positions = cute.complement(block, block.size() * cute.cosize(tiler) * 8)
        if expected == model.table(peer) and moves == model.composed_table(positions, tiler):
            agreed += 1
            assert model.table(ours) == model.table(peer)
    assert agreed > PAIRS / 10


# -- pycute's semantics through our names, as its own suite imports them

SEMANTICS = """
import sys
from pycute import *

assert sys.modules["pycute"].__file__.startswith(sys.argv[1]), "the shim is not on the path"

# typing: Integer takes Python and NumPy integers, but no bool and no float
import numpy as np
for kind in (int, np.int8, np.int32, np.uint64, np.integer):
    assert issubclass(kind, Integer), kind
for kind in (bool, float, np.bool_, np.float32, str, tuple):
    assert not issubclass(kind, Integer), kind
assert isinstance(3, Integer) and isinstance(np.int16(3), Integer)
assert not isinstance(3.0, Integer) and not isinstance(True, Integer)

# int tuples
assert product(2) == 2 and product((2, (3, 4))) == 24
assert inner_product((2, (3, 4)), (5, (6, 7))) == 2 * 5 + 3 * 6 + 4 * 7
assert shape_div((3, 4), 6) == (1, 2) and shape_div((3, 4), 12) == (1, 1)
assert shape_div((12, 3), 6) == (2, 3)
assert prefix_product(2) == 1 and prefix_product((3, (2, 4))) == (1, (3, 6))

# layouts: Layout(shape), Layout(shape, stride), one positional index, size
row = Layout((4, 8), (8, 1))
assert [row(i) for i in range(size(row))] == [i % 4 * 8 + i // 4 for i in range(32)]
assert Layout(5)(3) == 3 and size(Layout(5)) == 5

# coalesce keeps the function and has depth at most 1
for layout in (Layout((2, (1, 6)), (1, (6, 2))), Layout((1, 1)), Layout(((2, 2), 3), ((1, 4), 8))):
    merged = coalesce(layout)
    assert [merged(i) for i in range(size(layout))] == [layout(i) for i in range(size(layout))]

# composition is the composition of functions
pairs = [
    (Layout(1, 0), Layout(1, 0)), (Layout(4), Layout(4)), (Layout((4, 3)), Layout(12)),
    (Layout(12), Layout((4, 3))), (Layout((4, 3)), Layout(6, 2)),
    (Layout((4, 6, 8)), Layout(6, 12)),
    (Layout((4, 3), (3, 1)), Layout(12)), (Layout((4, 8)), Layout((2, 2), (4, 8))),
]
for a, b in pairs:
    r = composition(a, b)
    assert [r(i) for i in range(size(b))] == [a(b(i)) for i in range(size(b))], (a, b)

# complement, with a target and without one: ordered and disjoint
cases = (Layout(4, 2), 24), (Layout((2, 4), (1, 6)), 60), (Layout((2, 2), (1, 4)),)
for layout, *target in cases:
    rest = complement(layout, *target)
    starts = [rest(j) for j in range(size(rest))]
    assert starts == sorted(set(starts))
    reached = [x + layout(i) for x in starts for i in range(size(layout))]
    assert len(set(reached)) == len(reached) >= (target[0] if target else 1)

# inverses
shapes = Layout((4, 2), (2, 1)), Layout((2, 4, 6), (4, 1, 8)), Layout((4, 2), (1, 16))
for layout in shapes:
    right = right_inverse(layout)
    assert [layout(right(k)) for k in range(size(right))] == list(range(size(right)))
    left = left_inverse(layout)
    assert [left(layout(i)) for i in range(size(layout))] == list(range(size(layout)))
print("all is well")
"""


def test_semantics_of_pycute_hold_through_the_shim(tmp_path):
    script = tmp_path / "semantics.py"
    script.write_text(SEMANTICS, encoding="utf-8")
    shim = ROOT / "tests" / "shim"
    done = subprocess.run(
        [sys.executable, str(script), str(shim)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(shim), str(ROOT)))},
        capture_output=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr


def test_shim_does_not_shadow_pycute_here(pycute):
    assert "shim" not in pycute.__file__
