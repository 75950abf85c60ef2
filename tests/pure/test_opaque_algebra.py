"""The whole algebra on leaves that can do nothing but the integer protocol.

Each operation runs on a layout and on the same layout with its ints hidden in `Opaque`. Operators
or comparisons on a leaf outside of `ints` raise there. Both must give the same function; the hidden
one may refuse what only numbers can settle.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout
from tests import strategies as sts
from tests.opaque import hide, reveal
from tests.sampling import fewer


def hidden(layout):
    return Layout(hide(layout.shape), hide(layout.stride))


def shown(x):
    if isinstance(x, Layout):
        return Layout(reveal(x.shape), reveal(x.stride))
    return reveal(x)


def same_function(a, b):
    return a.size() == b.size() and all(a(i) == b(i) for i in range(a.size()))


UNARY = {
    "coalesce": cute.coalesce,
    "filter": cute.filter,
    "filter_zeros": cute.filter_zeros,
    "flatten": cute.flatten,
    "complement": cute.complement,
    "complement in 96": lambda x: cute.complement(x, 96),
    "left_inverse": cute.left_inverse,
    "nullspace": cute.nullspace,
    "append": lambda x: cute.append(x, Layout(1, 0), 5),
    "prepend": cute.prepend,
    "group_modes": lambda x: cute.group_modes(x, 0, 1),
    "right_inverse": cute.right_inverse,
    "make_layout_like": cute.make_layout_like,
    "make_fragment_like": cute.make_fragment_like,
    "max_common_layout": lambda x: cute.max_common_layout(x, x),
    "layout_add": lambda x: cute.layout_add(x, x),
    "compact": lambda x: cute.make_layout(x.shape, cute.LayoutRight),
    "tile": lambda x: cute.make_layout(x, Layout(2, 3)),
}


@pytest.mark.parametrize("name", UNARY)
@fewer(2)
@given(layout=sts.chain_layouts(broadcast=True))
def test_one_layout(name, layout):
    operation = UNARY[name]
    try:
        expected = operation(layout)
    except cute.LayoutError:
        with pytest.raises(cute.LayoutError):
            operation(hidden(layout))
        return
    assert same_function(shown(operation(hidden(layout))), expected)


BINARY = {
    "composition": cute.composition,
    "logical_divide": cute.logical_divide,
    "zipped_divide": cute.zipped_divide,
    "tiled_divide": cute.tiled_divide,
    "flat_divide": cute.flat_divide,
    "logical_product": cute.logical_product,
    "blocked_product": cute.blocked_product,
    "raked_product": cute.raked_product,
}


@pytest.mark.parametrize("name", BINARY)
@fewer(2)
@given(a=sts.chain_layouts(max_size=64), b=sts.chain_layouts(max_leaves=2, max_size=16))
def test_two_layouts(name, a, b):
    operation = BINARY[name]
    try:
        result = operation(hidden(a), hidden(b))
    except cute.LayoutError:
        return  # symbols cannot be fitted, nor carries tried; the cases below must not be refused
    assert same_function(shown(result), operation(a, b))


@given(data=st.data(), a=sts.compact_layouts(max_size=64))
def test_the_closed_form_of_composition_needs_no_numbers(data, a):
    """A tile of a compact layout whose extents divide is composed leaf by leaf."""
    flat = cute.coalesce(a)
    extents = flat.shape if isinstance(flat.shape, tuple) else (flat.shape,)
    tile = Layout(
        tuple(
            data.draw(st.sampled_from([d for d in range(1, s + 1) if s % d == 0])) for s in extents
        )
    )
    tiler = tuple(tile[k] for k in range(len(extents)))
    by_mode = Layout(extents, flat.stride if isinstance(flat.stride, tuple) else (flat.stride,))
    expected = cute.composition(by_mode, tiler)
    result = cute.composition(hidden(by_mode), tuple(hidden(part) for part in tiler))
    assert same_function(shown(result), expected)


@given(shape=sts.shapes(), data=st.data())
def test_coordinates_and_indices(shape, data):
    coord = data.draw(sts.coordinates_of(shape))
    stride = cute.compact_row_major(shape)
    assert reveal(cute.crd2idx(hide(coord), hide(shape))) == cute.crd2idx(coord, shape)
    index = cute.crd2idx(coord, shape)
    assert reveal(cute.idx2crd(hide(index), hide(shape))) == cute.idx2crd(index, shape)
    assert reveal(cute.crd2idx(hide(coord), hide(shape), hide(stride))) == cute.crd2idx(
        coord, shape, stride
    )
    assert reveal(cute.compact_col_major(hide(shape))) == cute.compact_col_major(shape)
    assert reveal(cute.product_each(hide(shape))) == cute.product_each(shape)
    assert reveal(Layout(hide(shape), hide(stride))(hide(coord))) == Layout(shape, stride)(coord)


@given(shape=sts.shapes(), other=sts.shapes())
def test_int_tuples(shape, other):
    for name in (
        "compatible",
        "weakly_compatible",
        "congruent",
        "weakly_congruent",
        "evenly_divides",
    ):
        operation = getattr(cute, name)
        try:
            expected = operation(shape, other)
        except cute.LayoutError:
            continue
        assert operation(hide(shape), hide(other)) is expected, name
    for name in ("ceil_div", "shape_div", "round_up", "elem_less"):
        operation = getattr(cute, name)
        try:
            expected = operation(shape, other)
        except cute.LayoutError:
            with pytest.raises(cute.LayoutError):
                operation(hide(shape), hide(other))
            continue
        assert reveal(operation(hide(shape), hide(other))) == expected, name


@given(shape=sts.shapes(), data=st.data())
def test_identity_layouts_of_unknown_size(shape, data):
    coord = data.draw(sts.coordinates_of(shape))
    identity = cute.make_identity_layout(hide(shape))
    assert reveal(identity(hide(coord))) == cute.make_identity_layout(shape)(coord)
    assert reveal(cute.coshape(identity)) == cute.coshape(cute.make_identity_layout(shape))


@given(layout=sts.chain_layouts(max_size=128), n=st.sampled_from((1, 2, 4)))
def test_recast(layout, n):
    for operation in (cute.upcast, cute.downcast):
        try:
            expected = operation(layout, n)
        except cute.LayoutError:
            continue
        try:
            result = operation(hidden(layout), n)
        except cute.UndecidedError:
            continue  # a sub-element sum that only numbers settle
        assert same_function(shown(result), expected)


@given(shape=sts.shapes(), data=st.data())
def test_slices(shape, data):
    layout = Layout(shape)
    coord = data.draw(sts.slices_of(shape))
    keep = cute.transform_leaf(lambda c: c, coord)
    secret = cute.transform_leaf(lambda c: c if c is cute._ else hide(c), keep)
    sub, offset = cute.slice_and_offset(secret, hidden(layout))
    expected, at = cute.slice_and_offset(coord, layout)
    assert shown(sub) == expected
    assert reveal(offset) == at
