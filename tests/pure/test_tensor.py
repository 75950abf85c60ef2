"""Tensors: shared memory, the slicing law, bounds, and every operation of the algebra on them.

The model is brute force: the element at a coordinate is the array's element at the layout's offset.
"""

import copy
import pickle
from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, Swizzle, _, make_tensor
from tests import model
from tests.strategies import (
    compact_layouts,
    composed_layouts,
    coordinates_of,
    layouts,
    negative_layouts,
    slices_of,
    tilers,
)

ANY_LAYOUT = st.one_of(layouts(max_size=128), composed_layouts(layouts(max_size=64)))


def counting(layout):
    """Return a tensor over 0, 1, 2, ...: every element is its offset from the array's start."""
    return make_tensor(np.arange(cute.cosize(layout), dtype=np.int64), layout)


def filled(coord, shape):
    """Return the coordinates that a coordinate with `_` stands for, the leftmost `_` fastest."""
    if coord is _:
        return list(range(prod(model.leaves(shape))))
    if not isinstance(coord, tuple):
        return [coord]
    coords = [()]
    for part, extent in zip(coord, shape, strict=True):
        coords = [(*head, i) for i in filled(part, extent) for head in coords]
    return coords


# -- arrays


ARRAYS = {
    "rows": (np.arange(24).reshape(4, 6), "(4,6):(6,1)"),
    "columns": (np.arange(24).reshape(4, 6, order="F"), "(4,6):(1,4)"),
    "transposed": (np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1), "(4,2,3):(1,12,4)"),
    "every other": (np.arange(24).reshape(4, 6)[::2, 1::2], "(2,3):(12,2)"),
    "backwards": (np.arange(24).reshape(4, 6)[::-1, ::-2], "(4,3):(-6,-2)"),
    "one axis": (np.arange(6), "(6):(1)"),
    "one axis, backwards": (np.arange(6)[::-1], "(6):(-1)"),
    "no axis": (np.array(7), "():()"),
    "broadcast": (np.broadcast_to(np.arange(3), (4, 3)), "(4,3):(0,1)"),
    "bfloat16": (np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3), "(2,3):(3,1)"),
    "bool": (np.array([[True, False], [False, False]]), "(2,2):(2,1)"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_array_brings_its_own_layout(name):
    array, layout = ARRAYS[name]
    tensor = make_tensor(array)
    assert str(tensor.layout) == layout
    assert tensor.to_numpy().dtype == array.dtype
    assert np.array_equal(tensor.to_numpy(), array)
    assert np.array_equal(np.asarray(tensor), array)
    assert tensor.size() == array.size
    for c in np.ndindex(array.shape):
        assert tensor[c] == array[c]


@given(st.data())
def test_tensor_of_a_strided_view_is_the_view(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    array = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    steps = st.sampled_from((1, 2, 3, -1, -2))
    view = array[tuple(slice(None, None, data.draw(steps)) for _axis in shape)]
    view = view.transpose(data.draw(st.permutations(range(view.ndim))))
    tensor = make_tensor(view)
    assert np.array_equal(tensor.to_numpy(), view)
    tensor.copy_(-view)
    assert np.array_equal(tensor.to_numpy(), view)
    assert sorted(view.ravel()) == sorted(-v for v in tensor.to_numpy().ravel() * -1)


@pytest.mark.parametrize("kind", [x for x in map(str, cute.DTYPES) if x != "void"])
def test_views_of_every_type_are_tensors(kind):
    row = cute.dtype(kind)
    array = np.zeros((4, 6), row.numpy)
    array[1:, ::2] = 1
    for view in (array, array.T, array[::-1, ::2], array[1:, 1:]):
        found = make_tensor(view)
        assert (found.shape, found.dtype) == (view.shape, cute.dtype(view.dtype))
        assert all(found[c] == view[c] for c in np.ndindex(view.shape))


def test_writes_go_both_ways():
    array = np.zeros((4, 6), np.float32)
    tensor = make_tensor(array[::-1])
    tensor[0, 2] = 5
    assert array[3, 2] == 5
    array[2, 1] = 7
    assert tensor[1, 1] == 7
    tensor[_, 0] = [1, 2, 3, 4]
    assert array[:, 0].tolist() == [4, 3, 2, 1]
    tensor[3, _].fill(9)
    assert array[0].tolist() == [9] * 6
    assert array[1].tolist() == [3, 0, 0, 0, 0, 0]


def test_layout_counts_from_the_first_element_of_the_array():
    array = np.arange(10)
    assert make_tensor(array[4:], Layout(3, 2)).to_numpy().tolist() == [4, 6, 8]
    assert make_tensor(array[::-1], Layout(3, -1)).to_numpy().tolist() == [9, 8, 7]


def test_read_only_array_is_read_and_not_written():
    array = np.arange(4)
    array.flags.writeable = False
    tensor = make_tensor(array)
    assert tensor[2] == 2
    for write in (lambda: tensor.fill(0), lambda: tensor.__setitem__(0, 1)):
        with pytest.raises(cute.DtypeError, match="given read-only words"):
            write()
    assert array.tolist() == [0, 1, 2, 3]


def test_words_are_read_as_bit_images():
    words = np.array([0x3F80, 0x4000], np.uint16)
    tensor = make_tensor(words, dtype="bf16")
    assert tensor.to_numpy().astype(float).tolist() == [1.0, 2.0]
    tensor[0] = -1
    assert hex(words[0]) == "0xbf80"


# -- coordinates and slices


@given(ANY_LAYOUT, st.data())
def test_element_is_the_one_at_the_offset(layout, data):
    tensor = counting(layout)
    coord = data.draw(coordinates_of(layout.shape))
    assert tensor[coord] == layout(coord)
    assert tensor(coord) == tensor[coord]


@given(ANY_LAYOUT, st.data())
def test_slicing_law(layout, data):
    """tensor[c with `_`][x] == tensor[c with x for `_`], for swizzled layouts too."""
    tensor = counting(layout)
    coord = data.draw(slices_of(layout.shape))
    if not cute.layout.tuples.has_underscore(coord):
        return
    part = tensor[coord]
    expected = [tensor[c] for c in filled(coord, layout.shape)]
    assert [part[i] for i in range(cute.size(part))] == expected
    assert part.to_numpy().ravel(order="F").tolist() == expected


@given(ANY_LAYOUT, st.data())
def test_slice_of_a_slice_is_the_slice(layout, data):
    assume(len(layout) > 1 and isinstance(layout.shape, tuple))
    tensor = counting(layout)
    first = data.draw(st.integers(0, cute.size(layout, 0) - 1))
    row = tensor[(first,) + (_,) * (len(layout) - 1)]
    i = data.draw(st.integers(0, cute.size(row) - 1))
    assert row[i] == tensor[first + cute.size(layout, 0) * i]


@given(layouts(max_size=64), st.data())
def test_write_changes_the_element_and_no_other(layout, data):
    tensor = make_tensor(np.zeros(layout.cosize(), np.int16), layout)
    coord = data.draw(coordinates_of(layout.shape))
    tensor[coord] = 5
    memory = tensor.data.memory
    assert memory[layout(coord)] == 5
    assert np.count_nonzero(memory) == 1


@given(layouts(max_size=64), st.data())
def test_domain_offset_moves_the_origin(layout, data):
    """domain_offset(c, t)[x] == t[c + x]; D01: (ref + c)[0] is ref[c], (ref + c) - c is ref."""
    assume(isinstance(layout.shape, tuple))
    shape = cute.product_each(layout.shape)
    tensor = counting(layout)
    c = tuple(data.draw(st.integers(0, extent - 1)) for extent in shape)
    moved = cute.domain_offset(c, tensor)
    assert moved[0] == tensor[c]
    assert cute.domain_offset(tuple(-i for i in c), moved) == tensor
    flat = all(not isinstance(mode, tuple) for mode in layout.shape)
    x = tuple(data.draw(st.integers(0, s - i - 1)) for s, i in zip(shape, c, strict=True))
    if flat:
        assert moved[x] == tensor[tuple(i + j for i, j in zip(c, x, strict=True))]


@given(composed_layouts(layouts(max_size=64)), st.data())
def test_domain_offset_of_a_swizzled_tensor_stays_inside_of_the_swizzle(layout, data):
    coord = data.draw(coordinates_of(layout.shape))
    assert cute.domain_offset(coord, counting(layout))[0] == layout(coord)


# -- bounds


@given(st.one_of(negative_layouts(max_size=64), composed_layouts(layouts(max_size=64))), st.data())
def test_layout_past_the_memory_is_refused_with_the_first_coordinate(layout, data):
    size = data.draw(st.integers(1, 64))
    origin = data.draw(st.integers(0, size - 1))
    array = np.arange(size)
    engine = make_tensor(array).data.moved(origin)
    places = [origin + layout(i) for i in range(cute.size(layout))]
    bad = [i for i, place in enumerate(places) if not 0 <= place < size]
    if not bad:
        assert make_tensor(engine, layout).to_numpy().ravel(order="F").tolist() == places
        return
    coord = cute.idx2crd(bad[0], layout.shape)
    with pytest.raises(cute.CoordinateError) as caught:
        make_tensor(engine, layout)
    assert caught.value.code == "tensor-bounds"
    assert caught.value.facts["coord"] == cute.layout.tuples.show(coord)
    assert caught.value.facts["offset"] == layout(bad[0])


def test_huge_layout_is_refused_without_enumerating_it():
    with pytest.raises(cute.CoordinateError, match="coordinate 1099511627775 has offset"):
        make_tensor(np.arange(16), Layout(1 << 40))


def test_tile_that_over_covers_is_checked_at_each_access():
    tensor = make_tensor(np.arange(10))
    tiles = cute.zipped_divide(tensor, (4,))  # ((4),(3)): the last tile reaches 10 and 11
    assert str(tiles.layout) == "((4),(3)):((1),(4))"
    assert tiles[1, 2] == 9
    for access in (lambda: tiles[2, 2], tiles.to_numpy, lambda: tiles.fill(0)):
        with pytest.raises(cute.CoordinateError, match="has offset 10; required: offsets from 0"):
            access()
    assert tensor.to_numpy().tolist() == list(range(10))


@pytest.mark.parametrize("coord", [10, -1, (10,), (-1,)])
def test_coordinate_outside_of_the_shape_is_refused(coord):
    with pytest.raises(cute.CoordinateError):
        make_tensor(np.arange(20), Layout((10,)))[coord]


# -- values


def test_floats_are_rounded_and_integers_must_fit():
    half = make_tensor(np.zeros(2, np.float16))
    half[0] = 1 / 3
    assert half[0] == np.float16(1 / 3)
    small = make_tensor(np.zeros(2, np.int8))
    for value in (128, -129, 0.5):
        with pytest.raises(cute.DtypeError, match="values that s8 holds"):
            small[0] = value
    with pytest.raises(cute.DtypeError, match="for one element"):
        small[0] = [1]


def test_two_values_for_one_element_are_refused_and_one_is_stored():
    tensor = make_tensor(np.zeros(3, np.int32), Layout((2, 3), (0, 1)))
    tensor.copy_([[1, 2, 3], [1, 2, 3]])
    assert tensor.data.memory.tolist() == [1, 2, 3]
    with pytest.raises(cute.LayoutError, match=r"coordinates \(0,1\) and \(1,1\)"):
        tensor.copy_([[1, 2, 3], [1, 9, 3]])
    assert tensor.data.memory.tolist() == [1, 2, 3]


@given(ANY_LAYOUT)
def test_copy_then_to_numpy_is_the_array(layout):
    table = np.asarray(layout.offsets())
    assume(len(set(table.tolist())) == len(table))
    tensor = make_tensor(np.zeros(int(table.max()) + 1, np.int64), layout)
    array = np.arange(1, 1 + len(table)).reshape(cute.product_each(layout.shape), order="F")
    assert np.array_equal(tensor.copy_(array).to_numpy(), array)
    assert np.array_equal(tensor.data.memory[table], np.arange(1, 1 + len(table)))
    assert np.count_nonzero(tensor.data.memory) == len(table)


# -- the algebra on tensors


@given(compact_layouts(max_size=64), st.data())
def test_divides_keep_the_elements(layout, data):
    tensor = counting(layout)
    tiler = data.draw(tilers(layout))
    for divide in (cute.logical_divide, cute.zipped_divide, cute.tiled_divide, cute.flat_divide):
        try:
            expected = divide(layout, tiler)
        except cute.LayoutError:
            with pytest.raises(cute.LayoutError):
                divide(tensor, tiler)
            continue
        result = divide(tensor, tiler)
        assert result.layout == expected
        assert result.engine is tensor.engine


MODES = {
    "append": lambda t: cute.append(t),
    "coalesce": lambda t: cute.coalesce(t),
    "coalesce by mode": lambda t: cute.coalesce(t, (1, 1)),
    "composition": lambda t: cute.composition(t, (4, 2)),
    "filter": lambda t: cute.filter(t),
    "filter_zeros": lambda t: cute.filter_zeros(t),
    "flatten": lambda t: cute.flatten(t),
    "get": lambda t: cute.get(t, 1),
    "group_modes": lambda t: cute.group_modes(t, 0, 2),
    "prepend": lambda t: cute.prepend(t),
    "select": lambda t: cute.select(t, [1, 0]),
    "take": lambda t: cute.take(t, 0, 1),
    "tile_unzip": lambda t: cute.tile_unzip(cute.logical_divide(t, (4, 2)), (4, 2)),
}
SUBJECTS = {
    "plain": Layout((8, (2, 4)), (8, (1, 2))),
    "swizzled": cute.make_composed_layout(Swizzle(2, 0, 3), 0, Layout((8, (2, 4)), (8, (1, 2)))),
}


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("name", MODES)
def test_operation_on_a_tensor_is_the_operation_on_its_layout(name, subject):
    tensor = counting(SUBJECTS[subject])
    result = MODES[name](tensor)
    assert isinstance(result, cute.Tensor)
    assert result.layout == MODES[name](tensor.layout)
    assert result.engine is tensor.engine
    assert result[1] == result.layout(1)


def test_queries_of_a_tensor_are_those_of_its_layout():
    layout = SUBJECTS["plain"]
    tensor = counting(layout)
    for query in (cute.size, cute.rank, cute.depth, cute.shape, cute.cosize, cute.coshape):
        assert query(tensor) == query(layout)
        assert query(tensor, 1) == query(layout, 1)
    assert cute.stride(tensor) == tensor.stride == layout.stride
    assert (tensor.shape, tensor.size()) == (layout.shape, 64)
    assert cute.is_static(tensor)
    assert cute.slice_((1, _), tensor) == tensor[1, _]
    assert cute.cosize(counting(SUBJECTS["swizzled"])) == 64


@pytest.mark.parametrize(
    ("product", "operand"),
    [
        (cute.logical_product, Layout((2, 2))),
        (cute.blocked_product, Layout((2, 2))),
        (cute.zipped_product, Layout((2, 2))),
        (cute.tile_to_shape, (4, 4)),
    ],
)
def test_product_of_a_tensor_is_refused(product, operand):
    with pytest.raises(cute.LayoutError, match="required: a layout: a product needs more memory"):
        product(make_tensor(np.arange(4), (2, 2)), operand)


# -- partitions


@given(compact_layouts(max_size=128), st.data())
def test_local_tiles_of_all_coordinates_cover_the_tensor_once(layout, data):
    shape = cute.product_each(layout.shape)
    layout = cute.Layout(shape)
    tiler = tuple(
        data.draw(st.sampled_from([n for n in range(1, s + 1) if s % n == 0])) for s in shape
    )
    rest = tuple(s // t for s, t in zip(shape, tiler, strict=True))
    tensor = counting(layout)
    seen = []
    for coord in cute.coordinates(rest):
        tile = cute.local_tile(tensor, tiler, coord)
        assert cute.product_each(tile.shape) == tiler
        seen += tile.to_numpy().ravel().tolist()
    assert sorted(seen) == list(range(cute.size(tensor)))
    assert np.array_equal(
        cute.local_tile(tensor, tiler, (_,) * len(tiler)).to_numpy(),
        cute.flat_divide(tensor, tiler).to_numpy(),
    )


@given(compact_layouts(max_size=16, max_leaves=3), st.data())
def test_local_partitions_of_all_threads_cover_the_tensor_once(threads, data):
    tile = cute.product_each(threads.shape)
    shape = tuple(n * data.draw(st.integers(1, 3)) for n in tile)
    order = data.draw(st.sampled_from([cute.LayoutLeft, cute.LayoutRight]))
    tensor = counting(cute.make_layout(shape, order))
    identity = cute.make_identity_tensor(shape)
    seen = []
    for thread in range(cute.size(threads)):
        part = cute.local_partition(tensor, threads, thread)
        mine = cute.local_partition(identity, threads, thread)
        assert part.shape == mine.shape
        for i in range(cute.size(part)):
            assert part[i] == tensor[mine[i]]
            assert threads.get_flat_coord(thread) == unwrapped(
                tuple(x % n for x, n in zip(mine[i], tile, strict=True))
            )
        seen += part.to_numpy().ravel().tolist()
    assert sorted(seen) == list(range(cute.size(tensor)))


def unwrapped(coord):
    return coord[0] if len(coord) == 1 else coord


def test_one_tiler_serves_all_operands_by_projection():
    """(BLK_M,BLK_N,BLK_K) with Step<_1,X,_1> and its like."""
    m, n, k = 64, 32, 16
    tiler, coord = (16, 8, 4), (2, 3, _)
    a, b, c = (make_tensor(np.arange(x * y), (x, y)) for x, y in ((m, k), (n, k), (m, n)))
    g_a = cute.local_tile(a, tiler, coord, (1, _, 1))  # (BLK_M,BLK_K,k)
    g_b = cute.local_tile(b, tiler, coord, (_, 1, 1))  # (BLK_N,BLK_K,k)
    g_c = cute.local_tile(c, tiler, coord, (1, 1, _))  # (BLK_M,BLK_N)
    assert [g.shape for g in (g_a, g_b, g_c)] == [(16, 4, 4), (8, 4, 4), (16, 8)]
    assert np.array_equal(g_a.to_numpy()[:, :, 1], a.to_numpy()[32:48, 4:8])
    assert np.array_equal(g_b.to_numpy()[:, :, 3], b.to_numpy()[24:32, 12:16])
    assert np.array_equal(g_c.to_numpy(), c.to_numpy()[32:48, 24:32])


@pytest.mark.parametrize("thread", [32, -1])
def test_thread_out_of_range_is_refused(thread):
    with pytest.raises(cute.CoordinateError, match=f"given thread {thread} of"):
        cute.local_partition(Layout((8, 8)), Layout((4, 8)), thread)


# -- swizzled


def test_swizzled_tensor_holds_the_array_that_was_copied_in():
    layout = cute.make_composed_layout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    array = np.arange(512, dtype=np.int32).reshape(8, 64)
    tensor = cute.make_host_tensor(layout, "s32", array)
    assert np.array_equal(tensor.to_numpy(), array)
    assert not np.array_equal(tensor.data.memory.reshape(8, 64), array)
    for row in range(8):
        assert np.array_equal(tensor[row, _].to_numpy(), array[row])
    for column in range(64):
        assert np.array_equal(tensor[_, column].to_numpy(), array[:, column])
    tile = cute.local_tile(tensor, (4, 16), (1, 2))
    assert np.array_equal(tile.to_numpy(), array[4:, 32:48])
    tensor[3, _] = -array[3]
    assert np.array_equal(tensor.to_numpy()[3], -array[3])


# -- coordinates


def test_identity_tensor_yields_its_coordinates():
    tensor = cute.make_identity_tensor((4, (2, 3)))
    assert [tensor[c] for c in cute.coordinates(tensor.shape)] == list(
        cute.coordinates((4, (2, 3)))
    )
    assert tensor.dtype is None
    assert tensor[_, (1, _)][2, 1] == (2, (1, 1))
    assert cute.make_identity_tensor((2, 3)).to_numpy()[1, 2].tolist() == [1, 2]
    assert cute.make_identity_tensor(5)[3] == 3
    assert cute.make_identity_tensor(3).to_numpy().tolist() == [0, 1, 2]


def test_coordinates_count_on_from_a_start():
    tensor = make_tensor((16, 32), cute.make_identity_layout((4, 4)))
    assert tensor[1, 2] == (17, 34)
    assert cute.domain_offset((1, 0), tensor)[0] == (17, 32)
    assert tensor.to_numpy()[3, 3].tolist() == [19, 35]


def test_predicate_of_a_partition_is_elem_less():
    """What over-covers is told by the identity tensor, partitioned like the data."""
    tensor, tiler = make_tensor(np.arange(30), (6, 5)), (4, 4)
    identity = cute.make_identity_tensor((6, 5))
    inside = []
    for coord in cute.coordinates((2, 2)):
        tile = cute.composition(cute.make_identity_tensor((8, 8)), Layout((8, 8)))
        mine = cute.local_tile(tile, tiler, coord)
        inside += [mine[i] for i in range(16) if cute.elem_less(mine[i], tensor.shape)]
    assert sorted(inside) == sorted(identity[i] for i in range(30))


# -- device memory


def test_pointer_moves_and_is_not_read():
    tensor = make_tensor(cute.make_ptr("f16", 0x7F00), Layout((64, 8), (8, 1)))
    part = tensor[2, _]
    assert str(part) == "gmem_ptr[16b](0x7f20) o (8):(1)"
    assert (part.space, part.dtype) == ("gmem", cute.f16)
    for access in (lambda: part[0], part.to_numpy, lambda: part.fill(0), lambda: tensor[0, 0]):
        with pytest.raises(cute.LayoutError, match="whose elements are not in host memory"):
            access()


def test_memory_bounds_its_layouts():
    memory = cute.Memory("sA", "f16", 1024)
    assert str(make_tensor(memory, (32, 32))[_, 3]) == "smem_ptr[16b](sA+96) o (32):(1)"
    with pytest.raises(cute.CoordinateError, match=r"coordinate \(0,32\) has offset 1024"):
        make_tensor(memory, (32, 33))
    assert make_tensor(cute.Memory("gC", "f32", space="gmem"), (1 << 20, 1 << 20)).size() == 1 << 40


def test_symbolic_tensor_is_partitioned():
    m = cute.sym("M", multiple_of=128)
    tensor = make_tensor(cute.make_ptr("f16", 0), Layout((m, 64), (64, 1)))
    tile = cute.local_tile(tensor, (128, 64), (_, 0))
    assert str(tile.layout) == f"(128,64,{m // 128}):(64,1,8192)"
    assert tile[_, _, 3].engine.offset == 3 * 8192
    assert not cute.is_static(tensor)


# -- like others


def test_make_tensor_like_is_compact_in_the_same_order():
    tensor = make_tensor(np.ones((4, 8), np.float32)[:, ::2])
    like = cute.make_tensor_like(tensor)
    assert str(like.layout) == "(4,4):(4,1)"
    assert not like.to_numpy().any()
    assert cute.make_tensor_like(tensor, "s4").dtype is cute.s4
    assert cute.make_fragment_like(tensor, "bf16").dtype is cute.bf16
    assert cute.make_fragment_like(tensor).layout == cute.make_fragment_like(tensor.layout)


def test_like_of_device_memory_is_registers():
    tensor = make_tensor(cute.make_ptr("f16", 0), Layout((8, 4), (64, 1)))
    for like in (cute.make_tensor_like(tensor), cute.make_fragment_like(tensor)):
        assert (like.space, like.dtype, like.data.size) == ("rmem", cute.f16, 32)
    predicates = cute.make_tensor_like(cute.make_identity_tensor((4, 2)), "b1")
    assert (predicates.space, predicates.dtype) == ("rmem", cute.b1)


# -- as values


@pytest.mark.parametrize(
    "tensor",
    [
        make_tensor(np.arange(6).reshape(2, 3)),
        cute.make_host_tensor((2, 3), "u4", 3),
        make_tensor(cute.make_ptr("f16", 64), (2, 3)),
        make_tensor(cute.make_ptr("u4", 64), Layout((3, 3)))[1, _],
        make_tensor(cute.Memory("sA", "f16", 6), (2, 3)),
        make_tensor(cute.Memory("sA", "f16", 6), (2, 3))[_, 1],
        cute.make_identity_tensor((2, (3, 4))),
        cute.make_coord_tensor(Layout(6, 2)),
    ],
    ids=str,
)
def test_layout_is_read_from_the_text(tensor):
    assert cute.parse_layout(str(tensor)) == tensor.layout


@pytest.mark.parametrize(
    "tensor",
    [
        make_tensor(cute.make_ptr("f16", 64, "smem"), (2, 3)),
        make_tensor(cute.Memory("sA", "f16", 6, "rmem"), (2, 3)),
        cute.make_identity_tensor((2, (3, 4))),
    ],
    ids=str,
)
def test_repr_evaluates_to_the_tensor(tensor):
    names = {name: getattr(cute, name) for name in ("Tensor", "Layout", "E", "Pointer", "Memory")}
    names |= {"cute": cute, "Coordinates": cute.Coordinates}
    assert eval(repr(tensor), names) == tensor
    assert pickle.loads(pickle.dumps(tensor)) == tensor


def test_equality_is_of_views_and_a_copy_is_another():
    array = np.arange(6).reshape(2, 3)
    tensor = make_tensor(array)
    assert tensor == make_tensor(array)
    assert hash(tensor) == hash(make_tensor(array))
    assert tensor != make_tensor(array.copy())
    assert tensor != make_tensor(array[:, ::-1])
    twin = copy.deepcopy(tensor)
    twin[0, 0] = 9
    assert (tensor[0, 0], twin[0, 0]) == (0, 9)
    assert np.array_equal(pickle.loads(pickle.dumps(tensor)).to_numpy(), array)


@pytest.mark.parametrize("name", ["engine", "layout"])
def test_tensor_and_engine_are_frozen(name):
    tensor = make_tensor(np.arange(4))
    with pytest.raises(AttributeError, match="frozen"):
        setattr(tensor, name, None)
    with pytest.raises(AttributeError, match="frozen"):
        delattr(tensor, name)
    with pytest.raises(AttributeError, match="frozen"):
        tensor.data.offset = 1
    with pytest.raises(AttributeError, match="frozen"):
        del tensor.data.offset
