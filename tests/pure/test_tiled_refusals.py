"""Tiled operations refuse maps that leave the tile, overlap, or are no maps at all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, atoms, sym
from cute_py.atoms import Copy_Atom
from cute_py.errors import CoordinateError, CuteError, LayoutError, LeafTypeError
from cute_py.tiled.coverage import coverage
from cute_py.tiled.suggest import suggest_permutation, suggest_tiled_copy
from tests.sampling import each

F16 = atoms.SM80_16x8x16_F32F16F16F32_TN
SS = "SM90_64x64x16_F32F16F16_SS"
WORD = Copy_Atom("UniversalCopy<32>", 32)
CP_ASYNC = Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<32>", 32)
MMA = cute.make_tiled_mma(F16, (2, 2, 1))
COPY = cute.make_tiled_copy(WORD, Layout((32, 4), (4, 1)), Layout((1, 2)))
TV = Layout((32, 4), (4, 1))
COUNTING = cute.make_tiled_mma("UniversalFMA", (4, 1, 1), (Layout((8, 2, 2), (4, 2, 1)), 1, 1))


def descriptors(layout, dtype=None, mma=SS):
    """The fragment of A that a warpgroup reads from shared memory of that layout."""
    thread = cute.make_tiled_mma(mma).get_slice(0)
    tile = layout if dtype is None else cute.make_tensor(cute.Memory("sA", dtype), layout)
    return thread.partition_fragment_A(tile)


def columns(first, count, mma="SM90_64x152x16_F32F16F16_SS", warps=(1, 1, 1), shape=(64, 152)):
    """Some columns of a tile, by the first thread: their coordinates."""
    tiled = cute.make_tiled_mma(mma, warps)
    part = tiled.get_slice(0).partition_C(cute.make_identity_tensor(shape))
    return tiled.columns_C(part, first, count)


def test_columns_of_a_tile_are_the_elements_of_its_part_there():
    for mma, shape, first, count in (
        ("SM90_64x152x16_F32F16F16_SS", (64, 152), 144, 8),
        ("SM90_64x24x16_F32F16F16_SS", (128, 72), 24, 48),
        ("SM90_64x24x16_F32F16F16_SS", (128, 72), 56, 16),
        ("SM80_16x8x16_F32F16F16F32_TN", (32, 32), 8, 24),
        ("UniversalFMA", (4, 6), 3, 2),
    ):
        whole = columns(0, shape[1], mma, shape=shape)
        inside = [c for c in map(whole, range(cute.size(whole))) if first <= c[1] < first + count]
        part = columns(first, count, mma, shape=shape)
        assert inside
        assert [part(i) for i in range(cute.size(part))] == inside


@pytest.mark.parametrize(
    ("first", "count", "warps"),
    [
        (0, 160, (1, 1, 1)),
        (-8, 8, (1, 1, 1)),
        (0, 0, (1, 1, 1)),
        (0, 12, (1, 1, 1)),
        (0, 8, (1, 2, 1)),
    ],
)
def test_other_columns_are_refused(first, count, warps):
    with pytest.raises(LayoutError) as caught:
        columns(first, count, warps=warps, shape=(64, 152 * warps[1]))
    assert caught.value.code == "mma-columns"


# -- rows of C, and C as A

PRODUCTS = [  # the atoms of two products, the second one of the first's sums
    ("SM90_64x32x16_F32F16F16_SS", "SM90_64x64x16_F32F16F16_RS", 2),
    ("SM90_64x32x16_F32BF16BF16_SS", "SM90_64x128x16_F32BF16BF16_RS", 1),
    ("SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x16_F32F16F16F32_TN", 4),
]


def sums_and_fragments(first, second, warps, repeats, thread):
    """A thread's part of C of the first product and of A of the second, as coordinates."""
    one, two = (cute.make_tiled_mma(x, (warps, 1, 1)) for x in (first, second))
    shape = warps * one.atom.shape_mnk[0] * repeats, 32 * repeats
    x = cute.make_identity_tensor(shape)
    return one, two, one.get_slice(thread).partition_C(x), two.get_slice(thread).partition_A(x)


def elements(x):
    return [x(i) for i in range(cute.size(x))]


@pytest.mark.parametrize("products", PRODUCTS, ids=str)
@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("thread", [0, 37, 127])
def test_sums_are_fragments_of_a_and_rows(products, repeats, thread):
    one, two, sums, fragments = sums_and_fragments(*products, repeats, thread)
    assert elements(two.as_A(sums)) == elements(fragments)
    rows = one.rows_C(sums)
    count, width = cute.size(rows, 0), cute.size(rows, 1)
    table = [[rows(i, j) for j in range(width)] for i in range(count)]
    assert sorted(x for row in table for x in row) == sorted(elements(sums))
    for row in table:
        assert len({i for i, _j in row}) == 1
        assert row == sorted(row)
    numbers = cute.make_tensor(np.arange(count), cute.Layout(count))
    spread = one.spread_C(numbers, sums)
    assert spread.shape == sums.shape
    assert [one.rows_C(spread)(i, j) for i in range(count) for j in range(width)] == [
        i for i in range(count) for _j in range(width)
    ]


# -- thread-value layouts and their tile


@given(
    st.lists(st.integers(-3, 40), min_size=3, max_size=3),
    st.sampled_from([(8,), (4, 6), (Layout(8, 2),), (Layout((2, 2), (1, 4)), 3), ((2, 4), 3)]),
)
def test_a_copy_is_built_exactly_where_its_map_stays_in_the_tile(strides, tile):
    tv = Layout(((2, 3), 2), ((strides[0], strides[1]), strides[2]))
    inside = set(cute.offsets(tv).tolist()) <= set(
        range(int(np.prod([cute.size(t) for t in tile])))
    )
    if inside:
        assert not coverage(cute.make_tiled_copy_tv(WORD, tv, tile))["S"].outside
        return
    with pytest.raises(LayoutError, match="it reaches index"):
        cute.make_tiled_copy_tv(WORD, tv, tile)


def test_sharing_by_stride_0_is_legal_for_registers():
    """Threads along N read the same elements of A; a copy to registers may do that."""
    copy = cute.make_tiled_copy_A(Copy_Atom("UniversalCopy<32>", 16), MMA)
    assert coverage(copy)["S"].shared == 2
    with pytest.raises(LayoutError, match="several writers"):
        cute.make_tiled_copy_A(Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<32>", 16), MMA)


@pytest.mark.parametrize(
    "layout",
    [Layout(32, 0), Layout(32, 3), Layout(32, -1), Layout((8, 4), (1, 1)), Layout((8, 4), (1, 20))],
)
def test_thread_and_value_layouts_are_one_to_one(layout):
    for maps in ((layout, Layout(4)), (Layout(4), layout)):
        with pytest.raises(LayoutError, match="every index from 0 to 31 to one element"):
            cute.make_tiled_copy(WORD, *maps)


@pytest.mark.parametrize(
    ("threads", "values"),
    [
        (Layout(32, 2), Layout(4)),
        (Layout((8, 4), (1, 16)), Layout(4)),
        (Layout(((2, 4), (2, 4)), ((1, 8), (2, 32))), Layout(((2, 2), 2), ((1, 4), 2))),
    ],
)
def test_holes_that_the_raked_product_fills_are_answered_as_in_cute(threads, values):
    """The thread-value map is right_inverse(raked_product), one to one onto the tile."""
    copy = cute.make_tiled_copy(cute.Copy_Atom("UniversalCopy<32>", 32), threads, values)
    product = cute.raked_product(threads, values)
    indices = [copy.layout_tv(i) for i in range(copy.layout_tv.size())]
    assert [product(index) for index in indices] == list(range(product.size()))
    assert copy.size() == threads.size()


@given(st.permutations(range(3)), st.permutations(range(2)))
def test_every_element_is_held_as_thread_and_value_layouts_say(order, inner):
    """Element (m,n) lies in the block (m/3, n/2) of a thread, at (m%3, n%2) of its values."""
    threads = cute.make_ordered_layout((2, (2, 4)), (order[0], (order[1], order[2])))
    values = cute.make_ordered_layout((3, 2), tuple(inner))
    copy = cute.make_tiled_copy(WORD, threads, values)
    for m in range(6):
        for n in range(16):
            thread, value = threads((m // 3, n // 2)), values((m % 3, n % 2))
            assert copy.layout_tv(thread, value) == m + 6 * n


def test_the_tile_of_a_copy_is_always_a_tuple():
    assert cute.make_tiled_copy_tv(WORD, TV, 128) == cute.make_tiled_copy_tv(WORD, TV, (128,))
    assert cute.make_tiled_copy_tv(WORD, TV, (np.int64(128),)).tiler_mn == (128,)


# -- threads


@pytest.mark.parametrize("tiled", [MMA, COPY], ids=["mma", "copy"])
class TestThreads:
    @pytest.mark.parametrize("thread", [1.5, None, "0", True, np.bool_(True), (1, 2), cute._])
    def test_what_is_no_integer_is_refused_by_get_slice(self, tiled, thread):
        with pytest.raises(LeafTypeError, match=r"^get_slice: given .* required: integers"):
            tiled.get_slice(thread)

    def test_numpy_integers_are_integers(self, tiled):
        assert type(tiled.get_slice(np.int64(3)).thr_idx) is int
        with pytest.raises(CoordinateError, match="thread 128 of"):
            tiled.get_slice(np.int32(128))

    @pytest.mark.parametrize("bounds", [{"min": 128}, {"min": None, "max": -1}])
    def test_a_symbol_that_is_outside_is_refused(self, tiled, bounds):
        with pytest.raises(CoordinateError, match="thread tid of"):
            tiled.get_slice(sym("tid", **bounds))

    @pytest.mark.parametrize(
        ("bounds", "assumption"),
        [
            ({"min": 0}, "tid <= 127"),
            ({"min": 0, "max": 128}, "tid <= 127"),
            ({"min": -1, "max": 127}, "tid >= 0"),
        ],
    )
    def test_a_symbol_that_may_be_outside_is_refused(self, tiled, bounds, assumption):
        with pytest.raises(cute.UndecidedError) as caught:
            tiled.get_slice(sym("tid", **bounds))
        assert assumption in str(caught.value)
        assert tiled.get_slice(sym("tid", min=0, max=127))


def test_a_symbolic_thread_of_quad_pairs_with_holes_is_refused():
    """Threads 4 to 15 of one quad pair do not exist; a symbol may be one of them."""
    pair = cute.make_tiled_mma("SM70_8x8x4_F32F16F16F32_TN")
    with pytest.raises(cute.UndecidedError):
        pair.get_slice(sym("tid", min=0, max=19))
    assert pair.get_slice(sym("tid", min=0, max=3)).thr_vmnk[1:] == (0, 0, 0)


@pytest.mark.parametrize("atoms_mnk", [Layout((3, 3, 1), (3, 2, 0)), Layout((2, 2), (-1, 2))])
def test_every_thread_of_an_atom_layout_can_be_named(atoms_mnk):
    """(3,3):(3,2) gives each atom its own threads, but no division finds the atom of a thread."""
    with pytest.raises(LayoutError, match="every atom its own threads, from 0 up"):
        cute.make_tiled_mma(F16, atoms_mnk)


# -- tiles


def test_a_tile_with_gaps_divides_what_its_copies_fill():
    gaps = Layout((8, 2), (1, 16))  # 16 elements out of 32
    mma = cute.make_tiled_mma("SM70_8x8x4_F32F16F16F32_TN", (2, 1, 1), (gaps, 8, 4))
    with pytest.raises(LayoutError, match=r"extent 16 in M for a tile of 32 \(16 of them in"):
        mma.get_slice(0).partition_A(Layout((16, 4)))
    assert coverage(mma, (32, 8, 4)).exact
    copy = cute.make_tiled_copy_tv(WORD, Layout((16, 1)), (gaps,))
    with pytest.raises(LayoutError, match=r"extent 48 in mode 0 for a tile of 32"):
        copy.get_slice(0).partition_S(Layout(48))
    assert not coverage(copy, (32,))["S"].outside


@pytest.mark.parametrize("tile", [Layout(32, 0), Layout(32, -1), Layout((4, 8), (1, 6))])
def test_tiles_that_overlap_run_backwards_or_leave_gaps_are_refused(tile):
    with pytest.raises(LayoutError, match="as the tile in"):
        cute.make_tiled_mma(F16, (2, 2, 1), (tile, 16, 16))
    with pytest.raises(LayoutError, match="as the tile in"):
        cute.make_tiled_copy_tv(WORD, Layout((32, 1)), (tile,))


# -- retiling


def test_retiled_values_lie_where_the_copy_has_them():
    """Of an MMA in natural order, value by value; under a permutation, CuTe's map would differ."""
    mma = cute.make_tiled_mma(F16, (2, 2, 1), (32, 32, 16))
    copy, c = cute.make_tiled_copy_C(WORD, mma), Layout((64, 64))
    for thread in (0, 37, 127):
        part, first = mma.get_slice(thread).partition_C(c)
        fragment = mma.get_slice(thread).make_fragment_C(part)
        held = dict(
            zip(cute.offsets(fragment).tolist(), (cute.offsets(part) + first).tolist(), strict=True)
        )
        moved, origin = copy.get_slice(thread).partition_S(c)
        retiled = cute.offsets(copy.retile(fragment)).tolist()
        assert [held[i] for i in retiled] == (cute.offsets(moved) + origin).tolist()


# -- nothing but refusals comes out

T, TC = MMA.get_slice(0), COPY.get_slice(0)
JUNK = [None, "x", 1.5, True, object(), cute.Swizzle(1, 1, 1), np.zeros((2, 2)), cute._, [1]]
TAKES_ONE = {
    "make_tiled_mma": cute.make_tiled_mma,
    "atom layout": lambda x: cute.make_tiled_mma(F16, x),
    "permutation": lambda x: cute.make_tiled_mma(F16, (2, 2, 1), (x, x, 1.5)),
    "TiledMMA": lambda x: cute.TiledMMA(x, (1, 1, 1), (cute._,)),
    "get_slice": MMA.get_slice,
    "copy get_slice": COPY.get_slice,
    "thrfrg_A": MMA.thrfrg_A,
    "tidfrg_S": COPY.tidfrg_S,
    "tile_size": MMA.tile_size,
    "copy tile_size": COPY.tile_size,
    "partition_shape_A": MMA.partition_shape_A,
    "partition_A": T.partition_A,
    "partition_S": TC.partition_S,
    "retile_S": TC.retile_S,
    "make_fragment_A": T.make_fragment_A,
    "make_fragment_C": T.make_fragment_C,
    "partition_fragment_A": T.partition_fragment_A,
    "copy atom": lambda x: cute.make_tiled_copy(x, Layout(32), Layout(1)),
    "thr": lambda x: cute.make_tiled_copy(WORD, x, Layout(1)),
    "val": lambda x: cute.make_tiled_copy(WORD, Layout(32), x),
    "tv": lambda x: cute.make_tiled_copy_tv(WORD, x, (32,)),
    "tiler": lambda x: cute.make_tiled_copy_tv(WORD, Layout((32, 1)), x),
    "tiler entry": lambda x: cute.make_tiled_copy_tv(WORD, Layout((32, 1)), (x,)),
    "copy A": lambda x: cute.make_tiled_copy_A(WORD, x),
    "copy B": lambda x: cute.make_tiled_copy_B(x, MMA),
    "copy C": lambda x: cute.make_tiled_copy_C(WORD, x),
    "copy C_atom": lambda x: cute.make_tiled_copy_C_atom(x, MMA),
    "C_atom mma": lambda x: cute.make_tiled_copy_C_atom(WORD, x),
    "copy S": lambda x: cute.make_tiled_copy_S(WORD, x),
    "copy D": lambda x: cute.make_tiled_copy_D(WORD, x),
    "cotiled tv": lambda x: cute.make_cotiled_copy(WORD, x, Layout(64)),
    "cotiled data": lambda x: cute.make_cotiled_copy(WORD, Layout((32, 2), (2, 1)), x),
    "coverage": coverage,
    "suggest tile": lambda x: suggest_tiled_copy(x, "f16", 128),
    "suggest dtype": lambda x: suggest_tiled_copy((128, 32), x, 128),
    "suggest threads": lambda x: suggest_tiled_copy((128, 32), "f16", x),
    "suggest major": lambda x: suggest_tiled_copy((128, 32), "f16", 128, x),
    "suggest bits": lambda x: suggest_tiled_copy((128, 32), "f16", 128, "K", 0 if x is None else x),
    "suggest op": lambda x: suggest_tiled_copy((128, 32), "f16", 128, op=x),
    "suggest mma": suggest_permutation,
    "suggest matrices": lambda x: suggest_permutation(MMA, x),
}


@each(TAKES_ONE)
def test_wrong_types_are_refused_in_words(name):
    for junk in JUNK:
        with pytest.raises(CuteError):
            TAKES_ONE[name](junk)


@pytest.mark.parametrize("mode", [2, -1])
def test_a_mode_that_a_tile_does_not_have_is_refused(mode):
    with pytest.raises(CoordinateError, match=r"tile_size: given mode .* of the tile \(32,8\)"):
        COPY.tile_size(mode)


@pytest.mark.parametrize("extents", [(0, 32), (-8, 64), (128, -32)])
def test_tiles_without_elements_have_no_suggestion(extents):
    with pytest.raises(LayoutError, match="suggest_tiled_copy: given tile"):
        suggest_tiled_copy(extents, "f16", 8)


def test_an_unknown_instruction_is_named():
    with pytest.raises(LayoutError, match="given 'SM80_CP_ASYNC'; required: the name of a copy"):
        suggest_tiled_copy((128, 32), "f16", 128, op="SM80_CP_ASYNC")


def test_a_thread_value_layout_of_one_mode_is_refused_before_it_is_inverted():
    with pytest.raises(LayoutError, match=r"make_cotiled_copy: .*two modes: threads and values"):
        cute.make_cotiled_copy(WORD, Layout(64), Layout((16, 4), (4, 1)))


@pytest.mark.parametrize("stride", [-2, 3])
def test_addresses_outside_of_the_data_are_refused(stride):
    with pytest.raises(LayoutError, match=r"make_cotiled_copy: given .* required: addresses"):
        cute.make_cotiled_copy(WORD, Layout((32, 2), (stride, 1)), Layout((16, 4), (4, 1)))


def test_fragments_are_made_of_what_partition_returns():
    part = T.partition_A(Layout((64, 32)))
    assert T.make_fragment_A(part) == T.make_fragment_A(part[0])
