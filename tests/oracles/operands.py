"""Random operands of the algebra, and the values of all indices of what it answers."""

from math import prod

import cute_py as cute
from tests import model

MOST = 96  # coordinates of a random layout
EXTENTS = (1, 1, 2, 2, 2, 3, 4, 4, 5, 6, 8)
STRIDES = (0, 1, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 96)


# -- int tuples


def shape(rng, most=MOST, leaves=4, extents=EXTENTS):
    """Return an integer or a nested tuple of extents."""
    flat = [rng.choice(extents) for _ in range(rng.randint(1, leaves))]
    while prod(flat) > most:
        flat.pop()
    return nest(rng, flat or [1])


def nest(rng, flat, depth=0):
    """Nest the leaves at random; one alone may be an integer."""
    if len(flat) == 1:
        return flat[0] if rng.random() < 0.7 else (flat[0],)
    if depth == 2 or rng.random() < 0.4:
        return tuple(flat)
    cut = rng.randint(1, len(flat) - 1)
    return nest(rng, flat[:cut], depth + 1), nest(rng, flat[cut:], depth + 1)


def like(rng, profile, leaf):
    """Return an int tuple of that profile; `leaf` makes the leaves."""
    if isinstance(profile, tuple):
        return tuple(like(rng, mode, leaf) for mode in profile)
    return leaf(rng)


def coordinate(rng, shape, whole=0.3):
    """Return a coordinate of the shape, whose parts may be indices of nested modes."""
    if not isinstance(shape, tuple) or rng.random() < whole:
        return rng.randrange(model.size((shape, shape)))
    return tuple(coordinate(rng, mode, whole) for mode in shape)


def free_coordinate(rng, shape):
    """Return a coordinate with some parts `_`."""
    if rng.random() < 0.35:
        return cute._
    if not isinstance(shape, tuple) or rng.random() < 0.2:
        return coordinate(rng, shape)
    return tuple(free_coordinate(rng, mode) for mode in shape)


def power_shape(rng, bits=6):
    """Return a nested shape of at most 2**bits coordinates, its extents powers of two."""
    return shape(rng, 1 << bits, extents=(1, 2, 2, 4, 4, 8))


# -- layouts


def stride(rng):
    return rng.choice(STRIDES) * (-1 if rng.random() < 0.15 else 1)


def layout(rng, most=MOST, leaves=4, down=True):
    """Return any layout, or one whose modes fill in some order what lies below, with gaps."""
    own = shape(rng, most, leaves)
    if rng.random() < 0.5:
        steps = like(rng, own, stride)
        return cute.Layout(own, steps if down else like(rng, own, lambda r: abs(stride(r))))
    return cute.Layout(own, chain(rng, own, (1, 1, 1, 2, 3), down))


def compact(rng, most=MOST):
    """Return a layout whose modes fill 0, 1, 2, ... in some order."""
    own = shape(rng, most)
    return cute.Layout(own, chain(rng, own, (1,), down=False))


def power_layout(rng):
    """Return a layout of powers of two."""
    own = power_shape(rng)
    return cute.Layout(own, chain(rng, own, (1, 1, 1, 2), down=False))


def chain(rng, own, gaps, down):
    flat, steps, filled = model.leaves(own), {}, 1
    for k in rng.sample(range(len(flat)), len(flat)):
        filled *= rng.choice(gaps)
        steps[k] = 0 if rng.random() < 0.1 else filled * (-1 if down and rng.random() < 0.1 else 1)
        filled *= flat[k]
    order = iter(range(len(flat)))
    return like(rng, own, lambda _r: steps[next(order)])


def swizzle(rng):
    bits, base = rng.randint(0, 2), rng.randint(0, 3)
    shift = rng.randint(bits, bits + 2)
    return cute.Swizzle(bits, base, rng.choice((shift, shift, -shift)))


def swizzled(rng, most=MOST):
    inner = power_layout(rng) if rng.random() < 0.6 else layout(rng, most, down=False)
    offset = rng.choice((0, 0, 0, 1, 4, 8, 12))
    return cute.make_composed_layout(swizzle(rng), offset, inner)


def any_layout(rng, most=MOST):
    """Return a plain layout, or a swizzled one."""
    return layout(rng, most) if rng.random() < 0.7 else swizzled(rng, most)


# -- values, by the parts that results show


def at(x, index):
    """Return the value of a layout or map at an index, whose last mode is unbounded."""
    if isinstance(x, cute.ComposedLayout):
        return at(x.outer, x.offset + at(x.inner, index))
    if isinstance(x, cute.Swizzle):
        source, low = index >> x.num_base, x.num_base
        mask = (1 << x.num_bits) - 1
        if x.num_shft >= 0:
            return index ^ ((source >> x.num_shft & mask) << low)
        return index ^ ((source & mask) << (low - x.num_shft))
    if isinstance(x, cute.F2Map):
        bits = len(x.columns)
        return xor(x.columns, index & (1 << bits) - 1) ^ (index >> bits << bits)
    if isinstance(x, cute.F2Layout):
        return x.offset ^ xor(x.bases, index)
    return model.value(model.modes(x), index)


def xor(images, index):
    total = 0
    for bit, image in enumerate(images):
        total ^= image if index >> bit & 1 else 0
    return total


def values(x):
    """Return the values of all indices."""
    return [at(x, index) for index in range(model.size((x.shape, x.shape)))]


def index_of(coord, shape):
    """Return the index of a coordinate, whose parts may be indices of nested modes."""
    if not isinstance(coord, tuple):
        return coord
    assert len(coord) == len(shape)
    index = 0
    for part, mode in reversed(list(zip(coord, shape, strict=True))):
        index = index * model.size((mode, mode)) + index_of(part, mode)
    return index


def split(index, shape):
    """Return the coordinate of an index, of the shape's profile; the last mode is unbounded."""
    if not isinstance(shape, tuple):
        return index
    parts = []
    for mode in shape[:-1]:
        index, part = divmod(index, model.size((mode, mode)))
        parts.append(split(part, mode))
    return (*parts, split(index, shape[-1]))


def filled(coord, shape):
    """Return the coordinates that one with `_` stands for, the leftmost `_` fastest."""
    if coord is cute._:
        return [split(i, shape) for i in range(model.size((shape, shape)))]
    if not isinstance(coord, tuple):
        return [split(coord, shape)]
    found = [()]
    for part, mode in zip(coord, shape, strict=True):
        found = [(*head, tail) for tail in filled(part, mode) for head in found]
    return found


def congruent(a, b):
    """Return whether two int tuples have the same profile."""
    if not isinstance(a, tuple) or not isinstance(b, tuple):
        return not isinstance(a, tuple) and not isinstance(b, tuple)
    return len(a) == len(b) and all(map(congruent, a, b))


def wrap(x):
    return x if isinstance(x, tuple) else (x,)


def strides_of(layout):
    return layout.inner.stride if isinstance(layout, cute.ComposedLayout) else layout.stride


def at_fixed(coord, shape, stride, fixed):
    """Return the modes of the parts that a coordinate fixes, or leaves free."""
    if isinstance(coord, tuple):
        parts = zip(coord, shape, stride, strict=True)
        return [mode for part in parts for mode in at_fixed(*part, fixed)]
    return model.modes((shape, stride)) if (coord is not cute._) is fixed else []
