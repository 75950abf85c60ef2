"""Judges: one operation of cute_py on one random input, compared with the brute-force model.

A judge returns a verdict: "right", "rightly refused", "wrong" or "refused without need". `count`
runs a judge over many inputs and fails, with the first offenders, unless all verdicts are of the
first two kinds. The normal suite runs a few thousand of each, tests/slow the promised numbers.
"""

from collections import Counter
from itertools import pairwise

import cute_py as cute
from tests import model

RIGHT, REFUSED = "right", "rightly refused"
WRONG, NEEDLESS = "wrong", "refused without need"

EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8)
STRIDES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24)
POWERS = (1, 2, 4, 8)
POWER_STRIDES = (0, 1, 2, 4, 8, 16, 32)


def count(judge, inputs):
    """Return how often each verdict fell; fail on wrong results and needless refusals."""
    verdicts, offenders = Counter(), []
    for operands in inputs:
        verdict = judge(*operands)
        verdicts[verdict] += 1
        if verdict in (WRONG, NEEDLESS) and len(offenders) < 3:
            offenders.append(f"{verdict}: {', '.join(map(str, operands))}")
    assert not offenders, (dict(verdicts), offenders)
    return verdicts


# -- random inputs


def layout_of(extents, strides):
    """Return the flat layout; a single mode is not bracketed."""
    if len(extents) == 1:
        return cute.Layout(extents[0], strides[0])
    return cute.Layout(tuple(extents), tuple(strides))


def any_layout(rng, rank, extents=EXTENTS, strides=STRIDES, negative=0.0):
    """Return a flat layout of random modes: overlaps, gaps, stride 0 and extent 1 included."""
    signs = [-1 if rng.random() < negative else 1 for _ in range(rank)]
    return layout_of(
        [rng.choice(extents) for _ in range(rank)],
        [sign * rng.choice(strides) for sign in signs],
    )


def nested(rng, layout):
    """Return the layout with some adjacent modes grouped."""
    rank = len(layout)
    if rank < 2 or rng.random() < 0.5:
        return layout
    begin = rng.randrange(rank - 1)
    grouped = cute.group_modes(layout, begin, rng.randrange(begin + 2, rank + 1))
    return nested(rng, grouped)


def chain_layout(rng, rank, extents=EXTENTS, broadcast=0.2):
    """Return a shuffled layout in which extent*stride of each mode divides the next stride."""
    pairs, filled = [], 1
    for _ in range(rank):
        extent, gap = rng.choice(extents), rng.choice((1, 1, 1, 2, 3))
        if rng.random() < broadcast:
            pairs.append((extent, 0))
        else:
            pairs.append((extent, filled * gap))
            filled *= gap * extent
    rng.shuffle(pairs)
    return layout_of(*zip(*pairs, strict=True))


def mixed_layout(rng, max_rank=3):
    """Return a layout of the chain class or any other, in about equal numbers."""
    rank = rng.randint(1, max_rank)
    layout = chain_layout(rng, rank) if rng.random() < 0.5 else any_layout(rng, rank)
    return nested(rng, layout)


# -- the judges


def judge_composition(a, b):
    """R(c) == a(b(c)), R's shape refines b's; refused if and only if there is no such layout."""
    exists = not isinstance(model.exists_composition(a, b), model.Departure)
    try:
        result = cute.composition(a, b)
    except cute.LayoutError:
        return NEEDLESS if exists else REFUSED
    same = model.table(result) == model.composed_table(a, b)
    return RIGHT if same and model.refines(result.shape, b.shape) else WRONG


def judge_complement(layout, target):
    """The complement is ordered, disjoint from the layout, and their cosize reaches the target.

    Chain layouts are filled without holes up to the next multiple; layouts that hit an offset twice
    (stride 0 aside) are refused.
    """
    pairs = model.dense(layout)
    try:
        result = cute.complement(layout, target)
    except cute.LayoutError:
        return NEEDLESS if model.is_chain(pairs) else REFUSED
    rest = model.table(result)
    if rest[0] != 0 or any(x >= y for x, y in pairwise(rest)):
        return WRONG
    both = sorted(x + y for x in model.sums(pairs) for y in rest)
    if any(x == y for x, y in pairwise(both)):
        return WRONG
    if both[-1] + 1 < (1 if target is None else target):
        return WRONG
    if model.is_chain(pairs):
        room = max((extent * stride for extent, stride in pairs), default=1)
        upper = room if target is None else -(-target // room) * room
        if both != list(range(max(upper, room))):
            return WRONG
    return RIGHT


def judge_right_inverse(layout):
    """layout(R(k)) == k, and no larger layout does that (of injective layouts)."""
    offsets = model.table(layout)
    places = model.table(cute.right_inverse(layout))
    if any(place >= len(offsets) for place in places):
        return WRONG
    if [offsets[place] for place in places] != list(range(len(places))):
        return WRONG
    if model.is_injective(model.modes(layout)):
        return RIGHT if len(places) == model.largest_right_inverse(layout) else WRONG
    return RIGHT


def judge_left_inverse(layout):
    """layout(R(layout(i))) == layout(i), and R(layout(i)) == i where the layout is injective."""
    pairs = model.modes(layout)
    try:
        inverse = model.modes(cute.left_inverse(layout))
    except cute.LayoutError:
        return NEEDLESS if model.is_staircase(pairs) else REFUSED
    offsets = model.table(layout)
    back = [model.value(inverse, offset) for offset in offsets]
    if [model.value(pairs, index) for index in back] != offsets:
        return WRONG
    if model.is_injective(pairs) and back != list(range(len(offsets))):
        return WRONG
    return RIGHT


def judge_divide(layout, tiler):
    """The tile is layout o tiler, the rest places further tiles until every element is in one.

    Refused only if tiles would leave elements out, or if
    layout o (tiler, complement) does not exist.
    """
    try:
        rest = cute.complement(tiler, cute.coalesce(layout).shape)
    except cute.LayoutError:
        rest = None
    visited = [] if rest is None else model.sums(model.modes(tiler) + model.modes(rest))
    covers = set(visited) >= set(range(model.size(layout)))
    try:
        result = cute.logical_divide(layout, tiler)
    except cute.LayoutError:
        if not covers:
            return NEEDLESS if model.is_chain(model.modes(tiler)) else REFUSED
        return REFUSED if _departs(layout, cute.make_layout(tiler, rest)) else NEEDLESS
    pairs = model.modes(layout)
    same = model.table(result) == [model.value(pairs, index) for index in visited]
    return RIGHT if same and covers and model.refines(result.shape[0], tiler.shape) else WRONG


def _departs(a, b):
    return isinstance(model.exists_composition(a, b), model.Departure)


def judge_product(block, tiler):
    """The block is repeated, copies of an injective block are disjoint, tiler gives their order.

    Refused only if the block is no chain, or positions o tiler does not exist.
    """
    try:
        result = cute.logical_product(block, tiler)
    except cute.LayoutError:
        if not model.is_chain(model.modes(block)):
            return REFUSED
        room = max((extent * stride for extent, stride in model.dense(block)), default=1)
        reach = max(model.table(tiler)) + 1
        positions = cute.complement(block, room * reach)
        return REFUSED if _departs(positions, tiler) else NEEDLESS
    blocks, moves = model.table(result[0]), model.table(result[1])
    order = model.table(tiler)
    if blocks != model.table(block) or moves[0] != 0 or len(moves) != len(order):
        return WRONG
    if not model.refines(result.shape[1], tiler.shape):
        return WRONG
    if _ranks(moves) != _ranks(order):
        return WRONG
    cells = {x + y for x in set(blocks) for y in set(moves)}
    return RIGHT if len(cells) == len(set(blocks)) * len(set(order)) else WRONG


def _ranks(values):
    """Return the values with each replaced by its place in sorted order."""
    place = {x: i for i, x in enumerate(sorted(set(values)))}
    return [place[x] for x in values]
