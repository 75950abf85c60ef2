"""Bad input is refused in words: wrong types, extents, profiles, coordinates, depths."""

import fractions
import sys

import numpy as np
import pytest

import cute_py as cute
from cute_py import E, Layout, composition, make_layout
from tests.sampling import each

ROW = Layout((4, 8), (8, 1))

# One good call of each operation; the bad operands take the place of its arguments, one by one.
GOOD_CALLS = {
    "Layout": ((4, 8), (8, 1)),
    "Swizzle": (1, 0, 1),
    "append": (ROW, ROW),
    "blocked_product": (ROW, 4),
    "ceil_div": ((4, 8), 3),
    "coalesce": (ROW,),
    "common_refinement": (ROW, ROW),
    "compact_col_major": ((4, 8),),
    "compact_order": ((4, 8), (1, 0)),
    "compact_row_major": ((4, 8),),
    "complement": (ROW, 64),
    "composition": (ROW, 4),
    "coprofile": (ROW,),
    "coshape": (ROW,),
    "cosize": (ROW,),
    "crd2crd": ((1, 2), (4, 8), (2, 16)),
    "crd2idx": ((1, 2), (4, 8), (8, 1)),
    "dice": ((1, cute._), ROW),
    "domain_distribute": ((4, 8), 2),
    "domain_offset": ((1, 1), ROW),
    "downcast": (ROW, 2),
    "elem_less": ((4, 8), (4, 8)),
    "elem_scale": ((4, 8), (4, 8)),
    "evenly_divides": ((4, 8), 2),
    "filter": (ROW,),
    "filter_zeros": (ROW,),
    "flat_divide": (ROW, 4),
    "flat_product": (ROW, 4),
    "get": (ROW, 0),
    "get_1d_coord": (ROW, 3),
    "get_flat_coord": (ROW, 3),
    "get_hier_coord": (ROW, 3),
    "group_modes": (ROW, 0, 1),
    "idx2crd": (3, (4, 8)),
    "increment": ((1, 2), (4, 8)),
    "inner_product": ((4, 8), (8, 1)),
    "is_static": (ROW,),
    "layout_add": (ROW, ROW),
    "left_inverse": (ROW,),
    "logical_divide": (ROW, 4),
    "logical_product": (ROW, 4),
    "make_composed_layout": (cute.Swizzle(1, 0, 1), 0, ROW),
    "make_fragment_like": (ROW,),
    "make_identity_layout": ((4, 8),),
    "make_layout": ((4, 8), (8, 1)),
    "make_layout_like": (ROW,),
    "make_layout_tv": (ROW, ROW),
    "make_ordered_layout": ((4, 8), (1, 0)),
    "make_swizzle": (2, 1),
    "max_alignment": (ROW,),
    "max_common_layout": (ROW, ROW),
    "max_common_vector": (ROW, ROW),
    "nullspace": (ROW,),
    "prefix_product": ((4, 8),),
    "prepend": (ROW, ROW),
    "product": ((4, 8),),
    "product_each": ((4, 8),),
    "raked_product": (ROW, 4),
    "recast_layout": (ROW, 16, 8),
    "replace": (ROW, 0, ROW),
    "right_inverse": (ROW,),
    "round_up": ((4, 8), (3, 3)),
    "select": (ROW, [0]),
    "shape_div": ((4, 8), 2),
    "size": (ROW,),
    "slice_": ((1, cute._), ROW),
    "slice_and_offset": ((1, cute._), ROW),
    "stride": (ROW,),
    "take": (ROW, 0, 1),
    "tile_to_shape": (ROW, (8, 8)),
    "tiled_divide": (ROW, 4),
    "tiled_product": (ROW, 4),
    "unflatten": (Layout((4, 8)), (0, 0)),
    "upcast": (ROW, 2),
    "zip_": (ROW, ROW),
    "zipped_divide": (ROW, 4),
    "zipped_product": (ROW, 4),
}
PLACES = [(name, place) for name, operands in GOOD_CALLS.items() for place in range(len(operands))]
NO_OPERANDS = ["text", 3.5, object(), fractions.Fraction(4)]

# A profile is read for its brackets alone: its leaves may be anything.
READ_FOR_BRACKETS = {("unflatten", 1)}


@each(GOOD_CALLS)
def test_good_call_is_answered(name):
    assert getattr(cute, name)(*GOOD_CALLS[name]) is not None


@each([each for each in PLACES if each not in READ_FOR_BRACKETS])
def test_operand_of_a_wrong_type_is_refused(name, place):
    """With a CuteError that says what was given; no other exception, and no answer."""
    for bad in NO_OPERANDS:
        operands = list(GOOD_CALLS[name])
        operands[place] = bad
        with pytest.raises(cute.CuteError, match="required"):
            getattr(cute, name)(*operands)


# -- leaves


@pytest.mark.parametrize("leaf", [4.0, 0.5, True, "4", None, [4], np.float32(4), np.True_, 4j])
def test_leaf_that_is_no_integer_is_refused(leaf):
    for build in (
        lambda: Layout((leaf, 8), (1, 4)),
        lambda: Layout((4, 8), (leaf, 1)),
        lambda: Layout(((2, leaf), 8)),
        lambda: make_layout((leaf, 8)),
    ):
        with pytest.raises(cute.LeafTypeError, match="bool and float are not sizes") as caught:
            build()
        assert caught.value.code == "leaf-type"
        assert repr(leaf) in str(caught.value)


def test_size_that_is_a_float_is_told_what_to_do():
    with pytest.raises(cute.LeafTypeError, match="use // or ceil_div"):
        Layout(64 / 2)


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]
)
def test_numpy_integers_are_integers(kind):
    layout = Layout((kind(4), (kind(2), kind(3))), (kind(6), (kind(1), kind(2))))
    assert layout == Layout((4, (2, 3)), (6, (1, 2)))
    assert all(type(leaf) is int for leaf in (*layout._s, *layout._d))
    assert layout(kind(5)) == layout(5)
    assert layout(kind(1), (kind(1), kind(2))) == layout(1, (1, 2))
    assert composition(layout, kind(4)) == composition(layout, 4)
    assert cute.complement(Layout(4, 2), kind(24)) == cute.complement(Layout(4, 2), 24)
    assert cute.logical_divide(Layout(24), kind(4)) == cute.logical_divide(Layout(24), 4)
    assert cute.size((kind(4), 8)) == 32


@each(GOOD_CALLS)
def test_numpy_integers_as_operands_give_the_same_answer(name):
    operation, operands = getattr(cute, name), GOOD_CALLS[name]
    assert operation(*as_numpy(operands)) == operation(*operands)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("complement", (Layout(4, 2), 24)),
        ("size", (4,)),
        ("product", (4,)),
        ("rank", (4,)),
        ("ceil_div", (9, 4)),
        ("round_up", (9, 4)),
        ("shape_div", (8, 4)),
        ("evenly_divides", (8, 4)),
        ("compatible", (24, (4, 6))),
        ("congruent", (24, 6)),
        ("weakly_congruent", (24, (4, 6))),
        ("weakly_compatible", (6, (4, 6))),
        ("domain_distribute", (12, 4)),
        ("tile_to_shape", (Layout(4), 8)),
        ("crd2idx", (3, 8, 2)),
        ("idx2crd", (3, 8)),
        ("crd2crd", (5, 8, (2, 4))),
        ("max_alignment", (8,)),
        ("make_identity_layout", (8,)),
        ("make_fragment_like", (8,)),
    ],
)
def test_numpy_integer_alone_gives_the_same_answer(name, operands):
    """A NumPy integer has a `.shape` too, but it is no layout."""
    operation = getattr(cute, name)
    assert operation(*as_numpy(operands)) == operation(*operands)


def as_numpy(operand):
    """Return the operand with a NumPy integer for every integer in it."""
    if isinstance(operand, (tuple, list)):
        return type(operand)(as_numpy(part) for part in operand)
    return np.int64(operand) if isinstance(operand, int) else operand


def test_numpy_integers_do_not_overflow():
    layout = Layout((np.int32(2**30), np.int32(2**30)))
    assert layout.size() == 2**60
    assert layout(2**30 - 1, 2**30 - 1) == 2**60 - 1


def test_integer_enums_and_subclasses_become_plain_integers():
    class Size(int):
        pass

    assert type(Layout(Size(4)).shape) is int


# -- extents and strides


@pytest.mark.parametrize(
    ("shape", "mode"), [(0, "the whole layout"), ((4, -8), "1"), ((2, (3, 0)), "1.1")]
)
def test_extent_below_one_is_refused_with_its_mode(shape, mode):
    with pytest.raises(cute.LayoutError, match="extents of at least 1") as caught:
        Layout(shape)
    assert caught.value.code == "extent-not-positive"
    assert f"in mode {mode};" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "stride", "where"),
    [
        ((4, 8), 1, r"shape \(4,8\) with stride 1;"),
        (4, (1,), r"shape 4 with stride \(1\);"),
        ((4, 8), (1, 4, 32), r"shape \(4,8\) with stride \(1,4,32\);"),
        ((4, (2, 3)), (1, (2, 3, 4)), r"shape \(2,3\) with stride \(2,3,4\) in mode 1;"),
        ((4, (2, (3, 5))), (1, (2, 3)), r"shape \(3,5\) with stride 3 in mode 1\.1;"),
    ],
)
def test_stride_of_another_profile_is_refused_with_its_mode(shape, stride, where):
    with pytest.raises(cute.LayoutError, match=where) as caught:
        Layout(shape, stride)
    assert caught.value.code == "not-congruent"


def test_integer_and_coordinate_strides_do_not_mix():
    with pytest.raises(cute.LayoutError, match="every mode an integer"):
        Layout((4, 8), (1, E(1)))(1, 1)


@pytest.mark.parametrize("target", [0, -4, (4, 0)])
def test_target_below_one_is_refused(target):
    with pytest.raises(cute.LayoutError, match="extents of at least 1"):
        cute.complement(Layout(4), target)


@pytest.mark.parametrize(
    "divide", [cute.ceil_div, cute.shape_div, cute.round_up, cute.evenly_divides]
)
def test_division_by_zero_is_refused(divide):
    with pytest.raises(cute.LayoutError, match="given"):
        divide(8, 0)


@pytest.mark.parametrize("n", [0, -2])
def test_element_factor_below_one_is_refused(n):
    for recast in (
        lambda: cute.upcast(ROW, n),
        lambda: cute.downcast(ROW, n),
        lambda: cute.recast_layout(ROW, n, 8),
        lambda: cute.recast_layout(ROW, 8, n),
    ):
        with pytest.raises(cute.LayoutError, match="at least 1"):
            recast()


@pytest.mark.parametrize("tiler", [0, -2, (2, 0)])
@pytest.mark.parametrize(
    "operation", [cute.composition, cute.logical_divide, cute.zipped_divide, cute.logical_product]
)
def test_tiler_below_one_is_refused(operation, tiler):
    with pytest.raises(cute.LayoutError, match="at least 1"):
        operation(ROW, tiler)


@pytest.mark.parametrize("parameters", [(-1, 0, 3), (2, -1, 3), (3, 0, 2), (3, 0, -2), (1, 0, 0)])
def test_swizzle_that_overlaps_itself_is_refused(parameters):
    with pytest.raises(cute.LayoutError) as caught:
        cute.Swizzle(*parameters)
    assert caught.value.code == "swizzle-parameters"


# -- coordinates


@pytest.mark.parametrize(
    ("coord", "where"),
    [
        (
            -1,
            r"coordinate -1 for shape \(4,8\): -1 in mode the whole layout; .*: 0 <= entry < 32",
        ),
        ((4, 0), r"coordinate \(4,0\) for shape \(4,8\): 4 in mode 0; required: 0 <= entry < 4"),
        ((0, -1), r"coordinate \(0,-1\) for shape \(4,8\): -1 in mode 1; required: 0 <= entry < 8"),
        (
            (cute._, 8),
            r"coordinate \(_,8\) for shape \(4,8\): 8 in mode 1; required: 0 <= entry < 8",
        ),
    ],
)
def test_coordinate_outside_of_the_shape_is_refused_with_its_mode(coord, where):
    for call in (lambda: ROW(coord), lambda: cute.slice_and_offset(coord, ROW)):
        with pytest.raises(cute.CoordinateError, match=where) as caught:
            call()
        assert caught.value.code == "coordinate-range"
        assert isinstance(caught.value, IndexError)


def test_coordinate_in_a_nested_mode_is_refused_with_its_path():
    with pytest.raises(cute.CoordinateError, match=r"3 in mode 1\.1; required: 0 <= entry < 3"):
        Layout((4, (2, 3)))(1, (1, 3))


@pytest.mark.parametrize("coord", [(1,), (1, 2, 3), ((1, 2), 3), (1, (2, 3))])
def test_coordinate_of_another_profile_is_refused(coord):
    with pytest.raises(cute.LayoutError, match="pass one entry per mode") as caught:
        ROW(coord)
    assert caught.value.code == "coordinate-profile"


@pytest.mark.parametrize("coord", [1.0, (1.0, 2), "1", (True, 2), [1, 2]])
def test_coordinate_that_is_no_integer_is_refused(coord):
    with pytest.raises(cute.LeafTypeError):
        ROW(coord)


@pytest.mark.parametrize("mode", [2, -3, (0, 1), (1, 5)])
def test_mode_that_does_not_exist_is_refused(mode):
    with pytest.raises(cute.CoordinateError, match="count modes from 0") as caught:
        cute.get(ROW, mode)
    assert caught.value.code == "mode-range"


@pytest.mark.parametrize(("begin", "end"), [(1, 1), (0, 3), (-1, 1), (2, 1)])
def test_interval_of_modes_that_does_not_exist_is_refused(begin, end):
    for operation in (cute.take, cute.group_modes):
        with pytest.raises(cute.CuteError, match="0 <= begin < end <= 2") as caught:
            operation(ROW, begin, end)
        assert caught.value.code == "mode-interval"


# -- nests


def nest(levels):
    shape = 2
    for _ in range(levels):
        shape = (shape,)
    return shape


@pytest.mark.parametrize("levels", [65, 1_000, 100_000])
def test_nest_deeper_than_64_is_refused(levels):
    """Also where the interpreter's own recursion would give out."""
    shape = nest(levels)
    for build in (lambda: Layout(shape), lambda: Layout(shape, shape), lambda: Layout(shape, 1)):
        with pytest.raises(cute.LayoutError, match="at most 64 levels") as caught:
            build()
        assert caught.value.code == "too-deep"


def test_nest_of_64_is_a_layout():
    layout = Layout(nest(64))
    assert layout.size() == 2
    assert cute.coalesce(layout) == Layout(2)


@pytest.mark.parametrize("operation", ["product", "size", "flatten", "depth", "prefix_product"])
def test_int_tuple_that_is_far_too_deep_is_refused(operation):
    with pytest.raises(cute.CuteError, match="at most 64 levels"):
        getattr(cute, operation)(nest(100_000))


def test_operation_that_would_nest_too_deep_is_refused():
    layout = Layout(nest(64))
    with pytest.raises(cute.LayoutError, match="at most 64 levels"):
        cute.make_layout(layout, layout)


def test_wide_shapes_are_no_nests():
    layout = Layout((1, 2) * 2_000)
    assert cute.coalesce(layout) == Layout(2**2_000)
    assert sys.getrecursionlimit() < 4_000
