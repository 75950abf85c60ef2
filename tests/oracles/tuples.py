"""Oracles of int tuples, coordinates and compact strides."""

from math import prod

import cute_py as cute
from tests import model
from tests.oracles import operands, oracle
from tests.oracles.operands import congruent, index_of, split


def leafwise(f, *trees):
    if isinstance(trees[0], tuple):
        return tuple(leafwise(f, *parts) for parts in zip(*trees, strict=True))
    return f(*trees)


def two(call):
    """Return a shape and one that has its profile, refines it, or neither."""
    a, kind = call.shape(), call.rng.random()
    if kind < 0.4:
        return a, call.like(a, lambda rng: rng.choice(operands.EXTENTS))
    if kind < 0.7:
        return a, call.like(a, lambda rng: operands.shape(rng, 8, 2))
    return a, call.shape()


@oracle("product", "product_each", "size", "rank", "depth", "shape", "is_static")
def counts(call, name):
    x = call.shape()
    modes = x if isinstance(x, tuple) else (x,)
    wanted = {
        "product": prod(model.leaves(x)),
        "size": prod(model.leaves(x)),
        "product_each": tuple(prod(model.leaves(mode)) for mode in modes),
        "rank": len(modes),
        "depth": depth(x),
        "shape": x,
        "is_static": True,
    }
    assert call(name, x) == wanted[name]
    layout = call.any_layout()
    if name != "product_each":
        assert call(name, layout) == call(name, layout.shape)


def depth(x):
    return 1 + max(map(depth, x), default=0) if isinstance(x, tuple) else 0


@oracle("wrap", "unwrap", "prefix_product", "repeat_like", "product_like", "elem_scale")
def one_tuple(call, name):
    x = call.shape()
    if name == "wrap":
        assert call(name, x) == (x if isinstance(x, tuple) else (x,))
    elif name == "unwrap":
        while isinstance(x, tuple) and len(x) == 1:
            x = x[0]
        assert call(name, (x,)) == x
    elif name == "prefix_product":
        flat = model.leaves(x)
        assert model.leaves(call(name, x)) == [prod(flat[:k]) for k in range(len(flat))]
    elif name == "repeat_like":
        assert call(name, x, 7) == leafwise(lambda _: 7, x)
    else:
        fine = call.like(x, lambda rng: operands.shape(rng, 8, 2))
        sizes = parts(x, fine)
        if name == "product_like":
            assert call(name, fine, x) == sizes
        else:
            assert call(name, x, fine) == leafwise(lambda a, b: a * b, x, sizes)


def parts(guide, fine):
    if isinstance(guide, tuple):
        return tuple(map(parts, guide, fine))
    return prod(model.leaves(fine))


@oracle(
    "inner_product", "transform_leaf", "round_up", "elem_less", "elem_leq", "elem_gtr", "elem_geq"
)
def leaf_by_leaf(call, name):
    a, b = two(call)
    if name == "transform_leaf":
        result = call(name, lambda x, y: (x + y) * 3, a, a)
        assert result == leafwise(lambda x: 6 * x, a)
        return
    result = call(name, a, b)
    if not congruent(a, b):
        assert name not in ("inner_product",), "profiles differ"
        return
    pairs = list(zip(model.leaves(a), model.leaves(b), strict=True))
    wanted = {
        "inner_product": lambda: sum(x * y for x, y in pairs),
        "round_up": lambda: leafwise(lambda x, y: -(-x // y) * y, a, b),
        "elem_less": lambda: all(x < y for x, y in pairs),
        "elem_leq": lambda: all(x <= y for x, y in pairs),
        "elem_gtr": lambda: not all(x <= y for x, y in pairs),
        "elem_geq": lambda: not all(x < y for x, y in pairs),
    }
    assert result == wanted[name]()


@oracle("ceil_div", "shape_div", "evenly_divides")
def divisions(call, name):
    a, b = two(call)
    if call.rng.random() < 0.4:
        b = call.rng.choice((1, 2, 3, 4, 6, 8, 12, 16, 48))
    result = call(name, a, b)
    if name == "evenly_divides":
        if congruent(a, b):
            pairs = zip(model.leaves(a), model.leaves(b), strict=True)
            assert result == all(x % y == 0 for x, y in pairs)
        return
    if congruent(a, b) or not isinstance(b, tuple):
        wanted, left = [], b
        for k, x in enumerate(model.leaves(a)):
            y = model.leaves(b)[k] if isinstance(b, tuple) else left
            assert name == "ceil_div" or not x % y or not y % x
            wanted.append(-(-x // y))
            left = -(-y // x)
        assert congruent(result, a)
        assert model.leaves(result) == wanted


@oracle("congruent", "weakly_congruent", "compatible", "weakly_compatible")
def profiles(call, name):
    a, b = two(call)
    fits = {
        "congruent": lambda x, y: not isinstance(y, tuple),
        "weakly_congruent": lambda x, y: True,
        "compatible": lambda x, y: x == prod(model.leaves(y)),
        "weakly_compatible": lambda x, y: prod(model.leaves(y)) % x == 0,
    }[name]

    def refines(x, y):
        if not isinstance(x, tuple):
            return fits(x, y)
        return isinstance(y, tuple) and len(x) == len(y) and all(map(refines, x, y))

    assert call(name, a, b) is refines(a, b)


@oracle("crd2idx", "idx2crd", "crd2crd", "coordinates", "increment")
def coordinates(call, name):
    shape = call.shape()
    size = prod(model.leaves(shape))
    coord = call.coordinate(shape)
    index = index_of(coord, shape)
    if name == "crd2idx":
        stride = call.like(shape, operands.stride)
        assert call(name, coord, shape) == index
        wanted = model.value(model.modes((shape, stride)), index)
        assert call(name, coord, shape, stride) == wanted
    elif name == "idx2crd":
        far = call.rng.randrange(3 * size)
        assert call(name, far, shape) == split(far, shape)
        order = call.rng.sample(model.leaves(shape), len(model.leaves(shape)))
        assert call(name, index, (shape, *order)) == (split(index, shape), *[0] * len(order))
    elif name == "crd2crd":
        target = call.shape()
        assert call(name, coord, shape, target) == split(index, target)
    elif name == "coordinates":
        assert list(call(name, shape)) == [split(i, shape) for i in range(size)]
    else:
        whole = split(index, shape)
        assert call(name, whole, shape) == split((index + 1) % size, shape)


@oracle("compact_major", "compact_col_major", "compact_row_major")
def packed(call, name):
    shape = call.shape()
    more = [call.rng.choice((cute.LayoutLeft, cute.LayoutRight))] if name == "compact_major" else []
    strides = call(name, shape, *([1, *more] if more else []))
    flat = model.leaves(shape)
    right = cute.LayoutRight in more or name == "compact_row_major"
    wanted = [prod(flat[k + 1 :]) if right else prod(flat[:k]) for k in range(len(flat))]
    wanted = [0 if extent == 1 else step for extent, step in zip(flat, wanted, strict=True)]
    assert congruent(strides, shape)
    assert model.leaves(strides) == wanted


@oracle("compact_order", "make_ordered_layout", "make_layout_like")
def ordered(call, name):
    """The modes that move fill 0, 1, 2, ..., by rising order, from the left where that is equal."""
    layout = call.layout()
    order = layout.stride if name == "make_layout_like" else call.like(layout.shape, _rank)
    arguments = (layout,) if name == "make_layout_like" else (layout.shape, order)
    result = call(name, *arguments)
    strides = result if name == "compact_order" else result.stride
    assert congruent(strides, layout.shape)
    flat, ranks = model.leaves(layout.shape), model.leaves(order)
    still = [k for k in range(len(flat)) if name == "make_layout_like" and not ranks[k]]
    wanted, filled = [0] * len(flat), 1
    for k in sorted(set(range(len(flat))) - set(still), key=lambda k: (ranks[k], k)):
        wanted[k] = 0 if flat[k] == 1 else filled
        filled *= flat[k]
    assert model.leaves(strides) == wanted


def _rank(rng):
    return rng.randint(-1, 4)


@oracle("add_coordinates", "make_basis_like", "make_identity_layout", "E")
def steps(call, name):
    shape = call.shape()
    if name == "add_coordinates":
        a, b = (call.like(shape, lambda rng: rng.randint(-3, 9)) for _ in range(2))
        assert call(name, a, b) == leafwise(lambda x, y: x + y, a, b)
        return
    if name == "E":
        path = tuple(call.rng.randint(-1, 3) for _ in range(call.rng.randint(0, 3)))
        step = call(name, *path)
        assert min(path, default=0) >= 0
        assert (step.value, step.path) == (1, path)
        return
    result = call(name, shape)
    identity = cute.Layout(shape, result) if name == "make_basis_like" else result
    index = call.rng.randrange(prod(model.leaves(shape)))
    assert call(identity, index) == split(index, shape)
