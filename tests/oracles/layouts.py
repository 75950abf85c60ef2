"""Oracles of one layout: its modes, the algebra, and questions about its offsets."""

from itertools import pairwise
from math import prod

import cute_py as cute
from tests import model
from tests.oracles import operands, oracle
from tests.oracles.operands import at, filled, index_of, split, values


def sizes(x):
    return [prod(model.leaves(mode)) for mode in (x if isinstance(x, tuple) else (x,))]


# -- queries


@oracle("stride", "cosize", "coshape", "coprofile")
def queries(call, name):
    layout = call.any_layout()
    if name == "stride":
        plain = call.layout()
        assert call(name, plain) == plain.stride
        return
    plain = isinstance(layout, cute.Layout)
    offsets = values(layout)
    reach = 1 + (sum((s - 1) * abs(d) for s, d in model.modes(layout)) if plain else max(offsets))
    assert call(name, layout) == (0 if name == "coprofile" else reach)


@oracle("get_hier_coord", "get_flat_coord", "get_1d_coord")
def coordinate_of(call, name):
    layout = call.layout()
    offsets = values(layout)
    wanted = call.rng.choice(offsets) if call.rng.random() < 0.8 else call.rng.randint(-5, 99)
    coord = call(name, layout, wanted)
    index = index_of(coord, layout.shape)
    assert 0 <= index < len(offsets)
    assert offsets[index] == wanted
    assert name != "get_hier_coord" or coord == split(index, layout.shape)


# -- modes


@oracle("flatten", "group_modes", "unflatten", "append", "prepend", "make_layout")
def regrouped(call, name):
    layout = call.any_layout()
    offsets, rank = values(layout), len(sizes(layout.shape))
    if name == "flatten":
        result = call(name, layout)
        assert not any(isinstance(mode, tuple) for mode in operands.wrap(result.shape))
    elif name == "unflatten":
        flat = call("flatten", layout)
        result = call(name, flat, layout.shape)
        assert result.shape == layout.shape
    elif name == "group_modes":
        begin = call.rng.randrange(rank)
        end = call.rng.randint(begin + 1, rank)
        result = call(name, layout, begin, end)
        assert len(result.shape) == rank - (end - begin) + 1
    else:
        other = call.layout(8, 2)
        if name == "make_layout":
            layout = call.layout()
            offsets = values(layout)
            result = call(name, layout, other)
            assert result.shape == (layout.shape, other.shape)
        else:
            result = call(name, layout, other)
        if not isinstance(layout, cute.Layout):
            return
        pairs = (offsets, values(other)) if name != "prepend" else (values(other), offsets)
        offsets = [x + y for y in pairs[1] for x in pairs[0]]
    assert values(result) == offsets


@oracle("get", "select", "take", "replace", "zip_")
def picked(call, name):
    layout = call.layout()
    shape, stride = operands.wrap(layout.shape), operands.wrap(layout.stride)
    k, rank = call.rng.randrange(len(shape)), len(shape)
    if name == "get":
        result, wanted = call(name, layout, k), (shape[k], stride[k])
    elif name == "select":
        order = call.rng.sample(range(rank), call.rng.randint(1, rank))
        result = call(name, layout, order)
        wanted = tuple(shape[i] for i in order), tuple(stride[i] for i in order)
    elif name == "take":
        result, wanted = call(name, layout, k, rank), (shape[k:], stride[k:])
    elif name == "replace":
        other = call.layout(8, 2)
        result = call(name, layout, k, other)
        wanted = tuple(
            (*x[:k], y, *x[k + 1 :]) for x, y in ((shape, other.shape), (stride, other.stride))
        )
    else:
        other = cute.Layout(layout.shape, call.like(layout.shape, operands.stride))
        result = call(name, layout, other)
        if rank == 1:
            return
        wanted = (
            tuple(zip(shape, operands.wrap(other.shape), strict=True)),
            tuple(zip(stride, operands.wrap(other.stride), strict=True)),
        )
    assert (result.shape, result.stride) == wanted


@oracle("slice_", "slice_and_offset", "dice", "domain_offset")
def sliced(call, name):
    layout = call.any_layout()
    coord = call.free_coordinate(layout.shape)
    if name == "domain_offset":
        coord = call.coordinate(layout.shape)
        if isinstance(layout, cute.Layout):
            moved, offset = call(name, coord, layout)
            assert moved == layout
            assert offset == at(layout, index_of(coord, layout.shape))
        return
    wanted = [at(layout, index_of(full, layout.shape)) for full in filled(coord, layout.shape)]
    if name == "slice_and_offset":
        sub, offset = call(name, coord, layout)
        assert [at(sub, i) + offset for i in range(len(wanted))] == wanted
        assert model.size((sub.shape, sub.shape)) == len(wanted)
        return
    layout = layout if isinstance(layout, cute.Layout) else layout.inner
    part = call(name, coord, layout)
    fixed = operands.at_fixed(coord, layout.shape, layout.stride, fixed=name == "dice")
    assert model.modes(part) == list(fixed)


# -- one layout


@oracle("coalesce", "filter", "filter_zeros")
def simplified(call, name):
    layout = call.any_layout()
    result = call(name, layout)
    if name == "coalesce":
        assert values(result) == values(layout)
    else:
        assert set(values(result)) == set(values(layout))
    if isinstance(result, cute.Layout):
        if name == "filter":
            assert (0 not in model.leaves(result.stride)) or result.shape == 1
        if name == "coalesce":
            least = len(model.fit_any(values(layout)))
            assert len(model.modes(result)) == max(least, 1)


@oracle("complement")
def complement(call, name):
    layout, target = call.any_layout(48), call.rng.choice((None, 1, 24, 60, 96))
    if call.rng.random() < 0.2:
        target = call.shape()
    result = call(name, layout, *([] if target is None else [target]))
    rest = values(result)
    plain = isinstance(layout, cute.Layout)
    base = model.sums(model.dense(layout)) if plain else sorted(set(values(layout)))
    assert rest[0] == 0
    assert all(x < y for x, y in pairwise(rest))
    both = {x + y for x in base for y in rest}
    assert len(both) == len(base) * len(rest)
    least = 1 if target is None else prod(model.leaves(target))
    span = max(base) - min(base) if plain else max(base)
    assert 1 + span + rest[-1] >= least


@oracle("right_inverse", "left_inverse", "nullspace")
def inverses(call, name):
    layout = call.compact() if call.rng.random() < 0.2 else call.any_layout()
    offsets = values(layout)
    result = call(name, layout)
    if name == "nullspace":
        indices = values(result)
        assert all(offsets[i] == offsets[0] for i in indices)
        assert len(set(indices)) == len(indices)
        if isinstance(layout, cute.Layout):
            zeros = [s for s, d in model.modes(layout) if not d]
            assert len(indices) == prod(zeros)
    elif name == "right_inverse":
        indices = values(result)
        assert all(0 <= i < len(offsets) for i in indices), "values that are no indices"
        assert [offsets[i] for i in indices] == list(range(len(indices)))
        rising = isinstance(layout, cute.Layout) and min(model.leaves(layout.stride)) >= 0
        if rising and len(set(offsets)) == len(offsets):
            assert len(indices) == model.largest_right_inverse(layout)
    else:
        back = [at(result, offset) for offset in offsets]
        assert [at(layout, i) for i in back] == offsets
        if len(set(offsets)) == len(offsets):
            assert back == list(range(len(offsets)))


@oracle("is_injective", "is_surjective", "is_bijective", "is_permutation")
def questions(call, name):
    layout = call.compact() if call.rng.random() < 0.2 else call.any_layout()
    offsets = values(layout)
    plain = isinstance(layout, cute.Layout)
    cosize = 1 + (sum((s - 1) * abs(d) for s, d in model.modes(layout)) if plain else max(offsets))
    count = call.rng.choice((None, None, 1, len(offsets), call.rng.randint(0, 100)))
    once, top = len(set(offsets)) == len(offsets), cosize if count is None else count
    onto = set(offsets) >= set(range(top))
    only = set(offsets) == set(range(top))
    if name in ("is_injective", "is_permutation"):
        permutes = once and sorted(offsets) == list(range(len(offsets)))
        assert call(name, layout) is (once if name == "is_injective" else permutes)
    else:
        wanted = onto if name == "is_surjective" else once and only
        assert call(name, layout, *([] if count is None else [count])) is wanted


@oracle("offsets", "image", "holes", "offset_grid")
def tables(call, name):
    layout = call.any_layout()
    wanted = values(layout)
    result = call(name, layout)
    if name == "offset_grid":
        axes = sizes(layout.shape)
        assert list(result.shape) == axes
        assert result.flatten(order="F").tolist() == wanted
        return
    top = max(map(abs, wanted)) if not isinstance(layout, cute.Layout) else None
    reach = top if top is not None else sum((s - 1) * abs(d) for s, d in model.modes(layout))
    expected = {
        "offsets": wanted,
        "image": sorted(set(wanted)),
        "holes": sorted(set(range(reach + 1)) - set(wanted)),
    }
    assert result.tolist() == expected[name]


@oracle("fit")
def fitted(call, name):
    layout = call.any_layout()
    table = values(layout)
    if call.rng.random() < 0.2:
        table = [call.rng.randint(-3, 20) for _ in range(call.rng.randint(1, 8))]
        assert values(call(name, table)) == table
        return
    result = call(name, table, layout.shape)
    assert values(result) == table
    assert model.refines(result.shape, layout.shape)


@oracle("upcast", "downcast", "max_alignment", "recast_layout")
def recast(call, name):
    layout, n = call.any_layout(), call.rng.choice((1, 2, 2, 3, 4, 8))
    offsets = values(layout)
    if name == "max_alignment":
        n = call(name, layout)
        if n and isinstance(layout, cute.Layout):
            assert all(n * x in offsets for x in values(call("upcast", layout, n)))
    elif name == "recast_layout":
        old, new = (call.rng.choice((1, 2, 4, 6, 8, 16, 32)) for _ in range(2))
        result = call(name, layout, old, new)
        if min(model.leaves(operands.strides_of(layout)), default=0) >= 0:
            bits = {x * old + bit for x in offsets for bit in range(old)}
            assert bits <= {x * new + bit for x in values(result) for bit in range(new)}
    elif name == "upcast":
        result = call(name, layout, n)
        if isinstance(layout, cute.Layout):
            assert coarse(layout, result, n) == [(x + back_of(layout, n)) // n for x in offsets]
    else:
        result = call(name, layout, n)
        parts = sorted(n * x + j for x in offsets for j in range(n))
        assert sorted(values(result)) == parts


def back_of(layout, n):
    """Return how far the parts below n of strides below 0 lead back."""
    return sum(
        -d * (min(s, n // -d) - 1) for s, d in model.modes(layout) if d < 0 and d % n and s > 1
    )


def coarse(layout, result, n):
    """Return result(c // group) for every c."""
    found = [0]
    for (s, d), (_, step) in zip(model.modes(layout), model.modes(result), strict=True):
        group = -(-n // abs(d)) if d % n else 1
        found = [x + i // group * step for i in range(s) for x in found]
    return found
