"""The shortcuts for plain integers give what the body of their operation gives."""

from itertools import product

import pytest

import cute_py as cute
from cute_py import Layout
from cute_py.layout.algebra import complement, composition, divide, inverse

SIZE = 64
EXTENTS = (1, 2, 3, 4, 6, 8, 16, 32, 64)
STRIDES = (0, 1, 2, 3, 4, 6, 8, 16, 32, 64)


def small_layouts(ranks=(1, 2, 3)):
    """Return all layouts of these extents and strides, of at most 64 elements."""
    found = []
    for rank in ranks:
        for shape in product(EXTENTS, repeat=rank):
            if cute.product(shape) <= SIZE:
                for stride in product(STRIDES, repeat=rank):
                    found.append(Layout(shape, stride) if rank > 1 else Layout(shape[0], stride[0]))
    return found


SMALL = small_layouts((1, 2))


@pytest.fixture(params=["some", pytest.param("all", marks=pytest.mark.slow)])
def operands(request):
    """All of the layouts in a slow run, one of sixty in a quick one."""
    return small_layouts()[:: 1 if request.param == "all" else 61]


def test_right_inverse(operands):
    for layout in operands:
        short = inverse._plain_right(layout)
        if short is not None:
            body = inverse.right_body(layout, [])
            assert short == body, layout


def test_left_inverse(operands):
    for layout in operands:
        short = inverse._plain_left(layout)
        if short is not None:
            body = inverse.left_body(layout, [])
            assert short == body, layout


def test_divides_by_a_tuple_of_ints(operands):
    def whole(mode):
        return mode, Layout(1, 0)

    found = 0
    for layout in operands:
        for tiler in ((2,), (4, 1), (3, 2, 4)):
            short = divide.by_ints(layout, tiler)
            if short is None:
                continue
            found += 1
            body = divide.zipped("zipped_divide", layout, tiler, divide._tile_and_rest, whole)
            assert short == body, (layout, tiler)
            body = divide.by_mode("logical_divide", layout, tiler, divide._divided)
            logical = cute.logical_divide(layout, tiler)
            assert (logical, logical._s, logical._d) == (body, body._s, body._d), (layout, tiler)
    assert found > 100


def test_complement(operands):
    for layout in operands:
        for target in (None, 24, 64, (4, 8), (6, 5)):
            short = complement._plain(layout, target)
            if short is not None:
                assert short == complement.filling(layout, target, []), (layout, target)


def test_hull_is_the_complement_open_ended(operands):
    for block in operands:
        for count in (1, 2, 6):
            short = complement._plain_hull(block, count)
            if short is not None:
                assert short == complement._open_ended(block, count), (block, count)


def test_composition(operands):
    for k, b in enumerate(operands):
        a = SMALL[(7 * k) % len(SMALL)]
        short = composition._plain(a, b)
        if short is not None:
            assert short == composition.composed_leaves(a, b), (a, b)


def test_divide_of_one_mode():
    """A single mode scales tile and rest; the body composes with both."""
    for extent, stride, tiler in product(EXTENTS, STRIDES, [*range(1, 9), *SMALL[:90]]):
        layout = Layout(extent, stride)
        tile = tiler if isinstance(tiler, Layout) else Layout(tiler)
        try:
            pair = cute.make_layout(tile, divide.rest_beyond(layout, tile))
        except cute.LayoutError:
            continue
        body = composition.composed_leaves(layout, pair)
        assert cute.make_layout(*divide._tile_and_rest(layout, tiler)) == body, (layout, tiler)


def test_calls_by_a_coordinate(operands):
    """The offset of a coordinate is the sum of those of its parts, indices of nested modes too."""
    for layout in operands[:400]:
        nested = cute.make_layout(layout, Layout((2, 2), (5, 7)))
        for coord in product(range(min(4, cute.size(layout))), range(4)):
            assert nested(*coord) == layout(coord[0]) + Layout((2, 2), (5, 7))(coord[1])
