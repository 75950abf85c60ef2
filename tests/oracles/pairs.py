"""Oracles of two layouts: composition, divides, products, and what they have in common."""

from itertools import pairwise
from math import prod

import cute_py as cute
from tests import model
from tests.oracles import operands, oracle
from tests.oracles.layouts import sizes
from tests.oracles.operands import at, values


@oracle("composition", "compose")
def composition(call, name):
    a, b = call.any_layout(), call.any_layout(32)
    if call.rng.random() < 0.1:
        a = call.swizzle()
    if call.rng.random() < 0.2 and isinstance(a, cute.Layout):
        return by_mode(call, name, a)
    result = call(name, a, b)
    assert values(result) == [at(a, x) for x in values(b)]
    assert model.refines(result.shape, b.shape) or not isinstance(result, cute.Layout)
    return None


def by_mode(call, name, a):
    shape, stride = operands.wrap(a.shape), operands.wrap(a.stride)
    tiler = tuple(call.layout(12, 2) for _ in shape)
    result = call(name, a, tiler) if name == "composition" else call(name, a, *tiler)
    if len(tiler) > 1:
        for k, part in enumerate(tiler):
            mode = (shape[k], stride[k])
            got = model.table((result.shape[k], result.stride[k]))
            assert got == [model.value(model.modes(mode), x) for x in model.table(part)]


@oracle("logical_divide", "zipped_divide", "tiled_divide", "flat_divide")
def divides(call, name):
    layout = call.any_layout(48)
    tiler = call.layout(16, 2) if call.rng.random() < 0.6 else call.rng.randint(1, 9)
    result = call(name, layout, tiler)
    tile = values(tiler) if isinstance(tiler, cute.Layout) else list(range(tiler))
    offsets = values(layout)
    found = values(result)
    assert found[: len(tile)] == [at(layout, x) for x in tile]
    assert set(found) >= set(offsets)


@oracle("tile_unzip")
def unzipped(call, name):
    a, b = (call.layout(24, 1) for _ in range(2))
    tilers = tuple(call.rng.choice([n for n in range(1, 9) if x.size() % n == 0]) for x in (a, b))
    whole = call("make_layout", a, b)
    divided = call("logical_divide", whole, tilers)
    result = call(name, divided, tilers)
    first, second = (
        values(cute.Layout(s, d)) for s, d in zip(divided.shape, divided.stride, strict=True)
    )
    m, n = tilers
    wanted = [
        first[i + m * k] + second[j + n * h]
        for h in range(len(second) // n)
        for k in range(len(first) // m)
        for j in range(n)
        for i in range(m)
    ]
    assert values(result) == wanted


@oracle(
    "logical_product",
    "zipped_product",
    "tiled_product",
    "flat_product",
    "blocked_product",
    "raked_product",
)
def products(call, name):
    block = call.layout(24, 3)
    tiler = call.layout(12, 2, down=False) if call.rng.random() < 0.6 else call.rng.randint(1, 6)
    if call.rng.random() < 0.2:
        block = call.swizzled(32)
    result = call(name, block, tiler)
    places = values(tiler) if isinstance(tiler, cute.Layout) else list(range(tiler))
    blocks = values(block)
    plain = isinstance(block, cute.Layout)
    cells = values(result)
    if plain:
        # every copy is the block, moved; copies of different places share nothing
        assert len(cells) == len(blocks) * len(places)
        different = len(set(blocks)) * len(set(places))
        assert len(set(cells)) == different
        if name in ("logical_product", "zipped_product", "tiled_product", "flat_product"):
            moves = [x - blocks[0] for x in cells[:: len(blocks)]]
            assert cells == [x + move for move in moves for x in blocks]
            order = sorted(range(len(places)), key=places.__getitem__)
            assert all((moves[i] < moves[j]) == (places[i] < places[j]) for i, j in pairwise(order))
        return
    assert len(set(cells)) <= len(set(blocks)) * len(set(places))


@oracle("tile_to_shape")
def repeated(call, name):
    block = call.layout(24, 3)
    shape = tuple(s * call.rng.randint(1, 4) for s in sizes(block.shape))
    if call.rng.random() < 0.2:
        shape = (*shape, call.rng.randint(1, 3))
    order = tuple(call.rng.randint(0, 3) for _ in shape)
    shape = shape[0] if len(shape) == 1 and call.rng.random() < 0.5 else shape
    more = [order] if isinstance(shape, tuple) and call.rng.random() < 0.5 else []
    result = call(name, block, shape, *more)
    assert sizes(result.shape) == sizes(shape)
    copies = prod(sizes(shape)) // model.size(block)
    assert len(set(values(result))) == len(set(values(block))) * copies


@oracle("contains", "overlaps", "equivalent")
def relations(call, name):
    a, b = call.any_layout(), call.any_layout()
    if call.rng.random() < 0.3:
        b = call("coalesce", a)
    x, y = values(a), values(b)
    if name == "overlaps":
        shift = call.rng.choice((0, 0, 1, -3, 17))
        assert call(name, a, b, shift) is (not {v + shift for v in y}.isdisjoint(x))
    else:
        wanted = set(y) <= set(x) if name == "contains" else x == y
        assert call(name, a, b) is wanted


@oracle("max_common_layout", "max_common_vector")
def common(call, name):
    a = call.compact() if call.rng.random() < 0.4 else call.any_layout()
    b = call.rng.choice((a, call.compact(), call.any_layout()))
    x, y = values(a), values(b)
    result = call(name, a, b)
    if name == "max_common_layout":
        indices = values(result)
        assert all(0 <= i < min(len(x), len(y)) for i in indices), "values that are no indices"
        assert [x[i] for i in indices] == [y[i] for i in indices] == list(range(len(indices)))
        return
    assert 1 <= result <= min(len(set(x)), len(set(y)))
    plain = isinstance(a, cute.Layout) and isinstance(b, cute.Layout)
    if plain and len(set(x)) == len(x) and len(set(y)) == len(y):
        run = 0
        while run in x and run in y and x.index(run) == y.index(run):
            run += 1
        assert result <= max(run, 1)
        assert result == call("max_common_vector", b, a)


@oracle("layout_add", "common_refinement")
def sums(call, name):
    a = call.layout()
    b = cute.Layout(a.shape, call.like(a.shape, operands.stride))
    if call.rng.random() < 0.5:
        b = call.layout()
    result = call(name, a, b)
    x, y = values(a), values(b)
    if name == "layout_add":
        assert values(result) == [p + q for p, q in zip(x, y, strict=True)]
    elif result is not None and len(x) == len(y):
        cuts = set(ends(model.fit_any(x))) | set(ends(model.fit_any(y)))
        assert set(ends([(s, 1) for s in result])) == cuts


def ends(pairs):
    """Return the products of the first extents."""
    found, size = {1}, 1
    for extent, _ in pairs:
        size *= extent
        found.add(size)
    return found


@oracle("domain_distribute", "make_layout_tv")
def distributed(call, name):
    if name == "domain_distribute":
        shape, n = call.shape(), call.rng.randint(1, 24)
        indices = values(call(name, shape, n))
        assert indices[0] == 0
        assert all(x < y for x, y in pairwise(indices))
        assert n % len(indices) == 0
        assert prod(model.leaves(shape)) % len(indices) == 0
        assert indices[-1] < prod(model.leaves(shape))
        return
    thr, val = call.compact(16), call.compact(12)
    tile, tv = call(name, thr, val)
    assert sorted(values(tv)) == list(range(prod(model.leaves(tile))))
    assert sizes(tv.shape) == [model.size(thr), model.size(val)]
