"""Pictures say what the layouts say: every cell is read back and compared with the map itself."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import E, Layout, Swizzle, atoms, make_composed_layout, viz
from cute_py.atoms.copy import Copy_Atom
from cute_py.layout import tuples
from cute_py.tiled.tiled_copy import make_tiled_copy, make_tiled_copy_C_atom
from cute_py.tiled.tiled_mma import make_tiled_mma
from cute_py.viz.cells import spans
from cute_py.viz.picture import Cell
from tests import model
from tests.strategies import composed_layouts, layouts, negative_layouts

AMPERE = "SM80_16x8x16_F32BF16BF16F32_TN"
SWIZZLED = make_composed_layout(Swizzle(2, 0, 3), 0, Layout((8, 8), (8, 1)))


# -- reading back

# a line of a cell in each of the forms that text has
HOLDERS = (r"T(\S+) V(\S+)", r"T([^V]+)V(\S+)", r"([^:]+):(\S+)")


def numbers(text):
    """Return the numbers of `0,64`, `0-3,8` or `0-240/16`."""
    found = []
    for part in text.split(","):
        first, last, step = re.fullmatch(r"(\d+)(?:-(\d+)(?:/(\d+))?)?", part).groups()
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


def holders(lines, form=HOLDERS[0]):
    """Return the set of (thread, value) that a cell names."""
    pairs = [re.fullmatch(form, line).groups() for line in lines if line != "-"]
    return {(t, v) for threads, values in pairs for t in numbers(threads) for v in numbers(values)}


def held_in(grid):
    """Return {(row label, column label): holders}, read from a grid as plain data."""
    return {
        (row, column): holders(cell["lines"])
        for row, cells in zip(grid["row_labels"], grid["cells"], strict=True)
        for column, cell in zip(grid["column_labels"], cells, strict=True)
    }


def expected(tv, threads, shape):
    """Return {(row, column): holders} by the offset of each (t, v)."""
    offsets, count = cute.offsets(tv).tolist(), cute.size(tv, 0)
    table = {(str(i), str(j)): set() for i in range(shape[0]) for j in range(shape[1])}
    for t in threads:
        for v in range(cute.size(tv, 1)):
            index = offsets[t + count * v]
            table[str(index % shape[0]), str(index // shape[0])].add((t, v))
    return table


def printed(text, form=HOLDERS[0]):
    """Return {(row label, column label): holders} of one printed grid, one line each row."""
    head, rule, *body = text.splitlines()[2:]
    start = rule.index("+") + 1
    columns = head.split()
    width = (len(rule) - start) // len(columns)
    return {
        (line[: start - 1].strip(), column): holders([line[at : at + width].strip()], form)
        for line in body
        for column, at in zip(columns, range(start, len(rule), width), strict=True)
    }


@given(st.lists(st.integers(0, 300), min_size=1, unique=True).map(sorted))
def test_spans_name_each_number_once(given_numbers):
    assert numbers(spans(given_numbers)) == given_numbers


@given(st.integers(0, 9), st.integers(1, 40), st.integers(1, 40))
def test_spans_of_equal_steps_are_short(first, step, count):
    text = spans(range(first, first + step * count, step))
    assert text.count(",") < 4
    assert numbers(text) == list(range(first, first + step * count, step))


# -- layouts


def cells(picture):
    return [cell for row in picture.grids for grid in row for line in grid.cells for cell in line]


def values(picture):
    """Return the values of a picture of rank 2, column by column."""
    ((grid,),) = picture.grids
    return [int(row[j].lines[0]) for j in range(grid.columns) for row in grid.cells]


@given(negative_layouts(max_leaves=4, max_size=256).filter(lambda layout: len(layout) == 2))
def test_picture_of_rank_2_is_the_table_of_offsets(layout):
    picture = viz.picture_of(layout)
    assert values(picture) == model.table(layout)
    assert all(cell.colour == int(cell.lines[0]) % 8 for cell in cells(picture))


@given(composed_layouts(layouts(max_leaves=1, max_size=100)))
def test_picture_of_rank_1_comes_in_lines(composed):
    picture = viz.picture_of(composed)
    shown = [int(cell.lines[0]) for cell in cells(picture) if cell.lines]
    assert shown == [composed(i) for i in range(composed.size())]
    ((grid,),) = picture.grids
    assert grid.columns <= 32


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, (3, 2), 4)])
def test_modes_2_and_3_are_slabs(shape):
    layout = Layout(shape, cute.LayoutRight)
    extents = [cute.size(mode) for mode in layout]
    picture = viz.picture_of(layout)
    for k, row in enumerate(picture.grids):
        for m, grid in enumerate(row):
            slab = (k, m)[: len(extents) - 2]
            assert grid.title == f"(_,_,{','.join(map(str, slab))})"
            shown = [[int(cell.lines[0]) for cell in line] for line in grid.cells]
            assert shown == [
                [layout(i, j, *slab) for j in range(extents[1])] for i in range(extents[0])
            ]
    assert (len(picture.grids), len(picture.grids[0])) == (extents[2], (*extents, 1)[3])


@pytest.mark.parametrize(
    "layout",
    [
        cute.make_identity_layout((3, 4)),
        cute.make_identity_layout((2, (3, 4))),
        Layout((3, 1, 4), (E(1), E(0), 2 * E(0))),
        Layout(((2, 3), 4), ((E(0), -3 * E(1)), E(1))),
        Layout(4, E(2)),
        Layout(1, E(2)),
    ],
    ids=str,
)
def test_a_layout_of_coordinates_shows_each(layout):
    shown = [
        cell.lines for row in viz.picture_of(layout).grids for grid in row for cell in columns(grid)
    ]
    assert shown == [(tuples.show(layout(i)),) for i in range(layout.size())]


def columns(grid):
    return [row[j] for j in range(grid.columns) for row in grid.cells]


def test_layouts_of_coordinates_and_of_bits_have_pictures():
    ((grid,),) = viz.picture_of(cute.make_identity_layout((2, 2))).grids
    assert grid.cells[1][0] == Cell(("(1,0)",), 1)
    assert values(viz.picture_of(cute.to_f2(SWIZZLED))) == values(viz.picture_of(SWIZZLED))
    assert [cell.lines for cell in cells(viz.picture_of(Layout((), ())))] == [("0",)]


def test_a_tensor_of_coordinates_shows_where_its_elements_lie():
    tile = cute.local_tile(cute.make_identity_tensor((4, 6)), (2, 3), (1, 1))
    ((grid,),) = viz.picture_of(tile).grids
    assert [[cell.lines[0] for cell in row] for row in grid.cells] == [
        ["(2,3)", "(2,4)", "(2,5)"],
        ["(3,3)", "(3,4)", "(3,5)"],
    ]


@pytest.mark.parametrize("swizzle", [Swizzle(2, 0, 3), Swizzle(3, 4, 3), Swizzle(1, 2, -2)])
def test_swizzle_is_shown_before_and_after(swizzle):
    ((before, after),) = viz.picture_of(swizzle).grids
    pairs = [
        (int(a.lines[0]), int(b.lines[0]))
        for rows in zip(before.cells, after.cells, strict=True)
        for a, b in zip(*rows, strict=True)
    ]
    run = 1 << swizzle.num_base
    assert sorted(a for a, _ in pairs) == list(range(0, swizzle.period, run))
    assert all(swizzle(a) == b for a, b in pairs)


def test_the_identity_swizzle_has_one_cell():
    assert len(cells(viz.picture_of(Swizzle(0, 4, 3)))) == 2


# -- thread-value layouts, MMA


@given(layouts(max_leaves=4, max_size=64).filter(lambda layout: len(layout) == 2))
def test_every_thread_and_value_of_a_tv_layout_is_shown(tv):
    rows = tv.cosize()
    (grid,), *_ = viz.picture_tv(tv, (rows, 2)).as_data()["grids"]
    assert held_in(grid) == expected(tv, range(cute.size(tv, 0)), (rows, 2))


TILED = {
    "atom": make_tiled_mma(AMPERE),
    "warps": make_tiled_mma(AMPERE, (2, 2, 1), (32, 32, 16)),
    "permuted": make_tiled_mma(AMPERE, (2, 2, 1), (32, Layout((2, 4, 4), (1, 8, 2)), 16)),
    "along k": make_tiled_mma(AMPERE, (1, 1, 2)),
    "quad pair": make_tiled_mma("SM70_8x8x4_F32F16F16F32_TN", (2, 2, 1)),
    "simt": make_tiled_mma("UniversalFMA", (16, 16, 1)),
    "warpgroup": make_tiled_mma("SM90_64x16x16_F32F16F16_SS"),
}


@pytest.mark.parametrize("name", TILED)
@pytest.mark.parametrize("operand", "ABC")
def test_every_thread_of_an_mma_is_shown(name, operand):
    mma = TILED[name]
    shape = {
        "A": (mma.tile_size(0), mma.tile_size(2)),
        "B": (mma.tile_size(1), mma.tile_size(2)),
        "C": (mma.tile_size(0), mma.tile_size(1)),
    }[operand]
    threads = {mma.thr_layout_vmnk(i) for i in range(mma.size())}
    tv = getattr(mma, f"get_layout{operand}_TV")()
    table = expected(tv, threads, shape)
    assert all(table.values())
    picture = viz.picture_operand(mma, operand)
    assert held_in(picture.as_data()["grids"][0][0]) == table
    if name != "warpgroup":
        assert printed(viz.to_text(picture, columns=None)) == table
        wide = max(map(len, viz.to_text(picture, columns=None).splitlines()[2:]))
        tight = viz.to_text(picture, columns=wide - 1)
        assert printed(tight, HOLDERS[1]) == table
        bare = viz.to_text(picture, columns=1)
        assert printed(bare, HOLDERS[2]) == table
        assert bare.splitlines()[0].endswith("(thread:value)")
        by_width = [max(map(len, text.splitlines()[2:])) for text in (bare, tight)]
        assert by_width[0] < by_width[1] < wide


def test_an_mma_fits_a_wide_terminal():
    """A beside C: 24 columns of threads and values, labels and all, in 132 characters."""
    for atom in (AMPERE, "SM80_16x8x8_F32TF32TF32F32_TN", "SM75_16x8x8_F32F16F16F32_TN"):
        assert max(map(len, viz.to_text(atoms.get(atom)).splitlines())) <= 132


@pytest.mark.parametrize("operand", "ABC")
def test_a_partition_of_an_identity_layout_is_drawn_at_its_coordinates(operand):
    """A thread-value layout of coordinates over two tiles each way: (m, n) is the place itself."""
    mma = TILED["permuted"]
    modes = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}[operand]
    shape = tuple(2 * mma.tile_size(i) for i in modes)
    cut = getattr(mma, f"thrfrg_{operand}")
    tv = cut(cute.make_identity_layout(shape))
    assert viz.picture_tv(tv, shape).grids == viz.picture_tv(cut(Layout(shape)), shape).grids
    (grid,), *_ = viz.picture_tv(tv, shape).as_data()["grids"]
    table = {(str(m), str(n)): set() for m in range(shape[0]) for n in range(shape[1])}
    for t in range(cute.size(tv, 0)):
        for v in range(cute.size(tv, 1)):
            m, n = tv(t, v)
            table[str(m), str(n)].add((t, v))
    assert held_in(grid) == table


def test_coordinates_may_have_fewer_modes_than_the_tile_and_may_nest():
    ((grid,),) = viz.picture_tv(Layout((2, 2), (E(0), 2 * E(0))), (4, 2)).grids
    assert [[cell.lines[0] for cell in row] for row in grid.cells] == [
        ["T0 V0", "-"],
        ["T1 V0", "-"],
        ["T0 V1", "-"],
        ["T1 V1", "-"],
    ]
    nested = Layout(((2, 3), 2), ((E(0, 0), E(0, 1)), E(1)))
    ((shown,),), ((flat,),) = (
        viz.picture_tv(*each).grids for each in ((nested, ((2, 3), 2)), (Layout((6, 2)), (6, 2)))
    )
    assert (shown.cells, shown.row_shape, flat.row_shape) == (flat.cells, (2, 3), 6)


def test_threads_that_share_an_element_are_all_named():
    mma = TILED["warps"]
    (_, b), (a, c) = viz.picture_of(mma).grids
    assert a.cells[0][1] == Cell(("T0,64 V1",), 0)
    assert b.cells[1][0] == Cell(("T0,32 V1",), 0)
    assert c.cells[0][1] == Cell(("T0 V1",), 0)
    (_, _), (a, _) = viz.picture_of(TILED["simt"]).grids
    assert a.cells[3][0] == Cell(("T3-243/16 V0",), 3)
    (_, _), (a, _) = viz.picture_of(TILED["warpgroup"]).grids
    assert a.cells[0][0] == Cell(("T0-127 V0",), 0)


def test_threads_of_a_quad_pair_have_their_lane_numbers():
    ((grid,),) = viz.picture_operand("SM70_8x8x4_F32F16F16F32_TN", "A").grids
    threads = [row[0].lines[0].split()[0] for row in grid.cells]
    assert threads == ["T0", "T1", "T2", "T3", "T16", "T17", "T18", "T19"]


def test_the_largest_warpgroup_atom_has_a_picture():
    (_, b), (a, c) = viz.picture_of(atoms.SM90_64x256x16_F32F16F16_SS).grids
    assert (a.rows, a.columns, c.columns, b.rows) == (64, 16, 256, 16)
    assert b.cells[1][255].lines == ("T0-127 V511",)


def test_rows_of_a_and_columns_of_b_meet_in_c():
    (corner, b), (a, c) = viz.picture_of(atoms.SM75_16x8x8_F32F16F16F32_TN).grids
    assert corner is None
    assert (a.rows, b.columns, a.columns) == (c.rows, c.columns, b.rows) == (16, 8, 8)


def test_an_element_that_no_thread_holds_is_a_dash():
    ((grid,),) = viz.picture_tv(Layout((2, 1), (2, 0)), 4).grids
    assert grid.cells == ((Cell(("T0 V0",), 0), Cell(("-",)), Cell(("T1 V0",), 1), Cell(("-",))),)


def test_an_element_held_by_different_values_has_a_line_for_each():
    ((grid,),) = viz.picture_tv(Layout((2, 2), (1, 1)), 3).grids
    assert [cell.lines for cell in grid.cells[0]] == [("T0 V0",), ("T1 V0", "T0 V1"), ("T1 V1",)]
    ((grid,),) = viz.picture_tv(Layout((2, 2), (1, 0)), 2).grids
    assert grid.cells[0][1].lines == ("T1 V0,1",)


# -- copies


@pytest.mark.parametrize(
    "copy",
    [
        make_tiled_copy(
            Copy_Atom("UniversalCopy<128>", 16), Layout((8, 4), (4, 1)), Layout((1, 8))
        ),
        make_tiled_copy(Copy_Atom("SM75_U32x4_LDSM_N", 16), Layout((16, 2)), Layout((1, 8))),
        make_tiled_copy(Copy_Atom("UniversalCopy<32>", 32), Layout(64), Layout(2)),
    ],
    ids=["vector", "ldmatrix", "rank 1"],
)
def test_source_and_destination_of_a_tiled_copy_stand_side_by_side(copy):
    (sides,) = viz.picture_of(copy).as_data()["grids"]
    shape = (*copy.tile_shape, 1)[:2]
    for side, grid, tv in zip(
        ("source", "destination"),
        sides,
        (copy.get_layoutS_TV(), copy.get_layoutD_TV()),
        strict=True,
    ):
        assert grid["title"] == side
        if len(copy.tile_shape) == 2:
            assert held_in(grid) == expected(tv, range(copy.size()), shape)
        else:
            shown = [holders(cell["lines"]) for row in grid["cells"] for cell in row]
            assert shown == list(expected(tv, range(copy.size()), shape).values())


def test_a_tiler_of_layouts_labels_the_elements_that_it_picks():
    mma = make_tiled_mma(AMPERE, (1, 1, 1), (16, 32, 16))
    copy = make_tiled_copy_C_atom(Copy_Atom("UniversalCopy<64>", 32), mma)
    assert copy.tile_shape == (8, 8)
    (sides,) = viz.picture_of(copy).as_data()["grids"]
    tv = mma.get_layoutC_TV()
    for (m, n), held in held_in(sides[0]).items():
        assert {tv(t, v) for t, v in held} == {int(m) + 16 * int(n)}


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        ("SM75_U32x4_LDSM_N", 32, 8),
        ("SM75_U16x4_LDSM_T", 16, 8),
        ("SM90_U32x2_STSM_N", 16, 8),
        ("UniversalCopy<128>", 1, 8),
    ],
)
def test_values_of_a_copy_atom_come_in_lines_of_the_memory_side(name, rows, columns):
    atom = Copy_Atom(name, 16)
    (sides,) = viz.picture_of(atom).as_data()["grids"]
    for grid, tv in zip(sides, (atom.src_tv, atom.dst_tv), strict=True):
        assert (len(grid["cells"]), len(grid["column_labels"])) == (rows, columns)
        shown = [holders(cell["lines"]) for row in grid["cells"] for cell in row]
        assert sum(map(len, shown)) == tv.size()
        assert all(tv(t, v) == i for i, held in enumerate(shown) for t, v in held)


# -- refusals
