"""Hypothesis strategies for the layout algebra; all of them shrink towards small flat layouts.

Sizes stay small (at most a thousand coordinates), so that the brute-force model can try them all.
"""

from itertools import accumulate, pairwise
from math import prod
from operator import mul

from hypothesis import assume
from hypothesis import strategies as st

import cute_py as cute
from tests import model

MAX_SIZE = 1024

extents = st.integers(1, 8)
strides = st.one_of(st.integers(0, 12), st.sampled_from((16, 24, 32, 48, 64, 100)))


# -- int tuples


@st.composite
def profiles(draw, leaves, max_depth=3):
    """Nest the given leaves at random, brackets around single modes included."""
    if max_depth == 0 or len(leaves) == 0:
        return tuple(leaves)
    if len(leaves) == 1:
        return draw(st.sampled_from((leaves[0], (leaves[0],))))
    cuts = draw(st.sets(st.integers(1, len(leaves) - 1), max_size=3))
    bounds = [0, *sorted(cuts), len(leaves)]
    if len(bounds) == 2:
        return tuple(leaves)
    groups = [leaves[a:b] for a, b in pairwise(bounds)]
    return tuple(
        group[0] if len(group) == 1 else draw(profiles(group, max_depth=max_depth - 1))
        for group in groups
    )


@st.composite
def int_tuples(draw, leaf=extents, max_leaves=4):
    """Draw an integer or a nested tuple of `leaf`s."""
    leaves = draw(st.lists(leaf, min_size=1, max_size=max_leaves))
    return draw(profiles(leaves))


def shapes(max_leaves=4, max_size=MAX_SIZE):
    """Draw a shape: an integer or a nested tuple of positive integers."""
    return int_tuples(extents, max_leaves).filter(
        lambda shape: prod(model.leaves(shape)) <= max_size
    )


def like(profile, leaf):
    """Draw an int tuple that is congruent to `profile`."""
    if isinstance(profile, tuple):
        return st.tuples(*[like(mode, leaf) for mode in profile])
    return leaf


def coordinates_of(shape):
    """Draw a coordinate of `shape`; any part of it may be an index of that part."""
    index = st.integers(0, prod(model.leaves(shape)) - 1)
    if not isinstance(shape, tuple):
        return index
    return st.one_of(index, st.tuples(*[coordinates_of(mode) for mode in shape]))


def slices_of(shape):
    """Draw a coordinate of `shape` in which some parts are `_`."""
    free = st.just(cute._)
    if not isinstance(shape, tuple):
        return st.one_of(free, coordinates_of(shape))
    parts = st.tuples(*[slices_of(mode) for mode in shape])
    return st.one_of(parts, free, coordinates_of(shape))


# -- layouts


@st.composite
def layouts(draw, max_leaves=4, max_size=MAX_SIZE, stride=strides):
    """Draw any layout: overlaps, gaps, stride 0 and extent 1 included."""
    shape = draw(shapes(max_leaves, max_size))
    return cute.Layout(shape, draw(like(shape, stride)))


def negative_layouts(**options):
    """Draw any layout, some of its strides negative."""
    return layouts(stride=st.integers(-12, 24), **options)


@st.composite
def chain_layouts(draw, max_leaves=4, max_size=MAX_SIZE, gaps=(1, 1, 2, 3), broadcast=False):
    """Draw a layout whose strides, sorted, each are a multiple of all that lies below.

    It is injective, unless `broadcast` lets it have stride-0 modes.
    """
    sizes = draw(st.lists(extents, min_size=1, max_size=max_leaves))
    assume(prod(sizes) <= max_size)
    steps, filled = [], 1
    for extent in sizes:
        if broadcast and draw(st.booleans()):
            steps.append(0)
        else:
            filled *= draw(st.sampled_from(gaps))
            steps.append(filled)
            filled *= extent
    order = draw(st.permutations(range(len(sizes))))
    shape = draw(profiles([sizes[k] for k in order]))
    return cute.Layout(shape, cute.unflatten(tuple(steps[k] for k in order), shape))


def compact_layouts(**options):
    """Draw a bijection onto 0 .. size-1."""
    return chain_layouts(gaps=(1,), **options)


@st.composite
def power_layouts(draw, max_bits=8):
    """Draw a compact layout of power-of-two extents in any order."""
    sizes = [2**bits for bits in draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))]
    assume(prod(sizes) <= 2**max_bits)
    steps = list(accumulate(sizes[:-1], mul, initial=1))
    order = draw(st.permutations(range(len(sizes))))
    return cute.Layout(tuple(sizes[k] for k in order), tuple(steps[k] for k in order))


@st.composite
def swizzles(draw, max_bits=3, max_base=4):
    """Draw a swizzle, of negative shift too."""
    bits, base = draw(st.integers(0, max_bits)), draw(st.integers(0, max_base))
    shift = draw(st.integers(bits, bits + 3))
    return cute.Swizzle(bits, base, draw(st.sampled_from((shift, -shift))))


@st.composite
def composed_layouts(draw, inner=None):
    """Draw swizzle o offset o layout."""
    layout = draw(layouts(max_size=256) if inner is None else inner)
    return cute.make_composed_layout(draw(swizzles()), draw(st.integers(0, 64)), layout)


# -- operands that go together


@st.composite
def admissible_pairs(draw, a=None, b=None):
    """Draw layouts (a, b) for which a layout that computes a(b(c)) exists."""
    first = draw(layouts(max_leaves=3) if a is None else a)
    second = draw(layouts(max_leaves=3, max_size=128) if b is None else b)
    assume(not isinstance(model.exists_composition(first, second), model.Departure))
    return first, second


@st.composite
def tilers(draw, layout):
    """Draw a tiler of `layout`: a layout, an integer, `_`, or one of these for each mode."""
    if draw(st.booleans()):
        return draw(_mode_tilers(layout.size()))
    count = draw(st.integers(1, len(layout)))
    return tuple(draw(_mode_tilers(layout[i].size())) for i in range(count))


def _mode_tilers(size):
    divisors = st.sampled_from([n for n in range(1, size + 1) if size % n == 0])
    return st.one_of(
        divisors, st.just(cute._), st.integers(1, 8), chain_layouts(max_leaves=2, max_size=32)
    )
