"""Operations leave their inputs untouched: same parts, same hash, same text, same derivation."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from tests.sampling import fewer
from tests.strategies import composed_layouts, layouts, tilers

UNARY = (
    "coalesce filter filter_zeros complement right_inverse left_inverse nullspace flatten "
    "append prepend make_layout_like make_fragment_like zip_ size cosize coshape coprofile "
    "rank depth shape stride is_static max_alignment"
)
BINARY = (
    "composition complement logical_divide zipped_divide tiled_divide flat_divide "
    "logical_product zipped_product tiled_product flat_product blocked_product raked_product "
    "tile_to_shape max_common_layout max_common_vector layout_add make_layout_tv make_layout "
    "append prepend zip_ domain_distribute upcast downcast group_modes get congruent "
    "compatible weakly_congruent weakly_compatible evenly_divides common_refinement"
)


def parts(x):
    """Return everything that makes up an operand, copied."""
    if isinstance(x, tuple):
        return tuple(parts(mode) for mode in x)
    if isinstance(x, cute.ComposedLayout):
        return parts(x.outer), x.offset, parts(x.inner)
    if isinstance(x, cute.Layout):
        return x.shape, x.stride, tuple(x._s), tuple(x._d), x._kind, x._why, hash(x), repr(x)
    return repr(x)


def untouched(operation, *operands):
    """Call the operation, refusals allowed, and compare the operands before and after."""
    before = parts(operands)
    with contextlib.suppress(cute.CuteError):
        operation(*operands)
    return parts(operands) == before


@pytest.mark.parametrize("name", UNARY.split())
@fewer(4)
@given(layout=st.one_of(layouts(max_leaves=3), composed_layouts()))
def test_unary_operation_leaves_its_input_untouched(name, layout):
    assert untouched(getattr(cute, name), layout)


@pytest.mark.parametrize("name", BINARY.split())
@fewer(4)
@given(a=layouts(max_leaves=3, max_size=64), b=layouts(max_leaves=2, max_size=16))
def test_binary_operation_leaves_its_inputs_untouched(name, a, b):
    assert untouched(getattr(cute, name), a, b)


@pytest.mark.parametrize("name", ["complement", "upcast", "downcast", "domain_distribute"])
@given(layout=layouts(max_leaves=3), n=st.integers(1, 8))
def test_operation_with_an_integer_leaves_its_layout_untouched(name, layout, n):
    assert untouched(getattr(cute, name), layout, n)


@pytest.mark.parametrize("name", ["composition", "logical_divide", "zipped_divide", "flat_divide"])
@given(data=st.data())
def test_operation_by_mode_leaves_layout_and_tiler_untouched(name, data):
    layout = data.draw(layouts(max_leaves=3))
    tiler = data.draw(tilers(layout))
    assert untouched(getattr(cute, name), layout, tiler)


def test_a_change_of_an_input_is_noticed():
    """The check can fail: an operation that edits the private leaves is caught."""
    assert not untouched(lambda layout: layout._s.append(1), cute.Layout((4, 8)))


@given(layouts(), st.sampled_from(["shape", "stride", "_s", "_d", "anything"]))
def test_layout_is_frozen(layout, name):
    with pytest.raises(AttributeError, match="frozen"):
        setattr(layout, name, 1)
    with pytest.raises(AttributeError, match="frozen"):
        delattr(layout, name)
