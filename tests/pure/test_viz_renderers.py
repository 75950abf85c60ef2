"""Text, SVG and LaTeX of the same pictures: golden files, read back cell by cell, and sizes."""

import io
import re
import time
import xml.etree.ElementTree as ET
from contextlib import redirect_stdout
from itertools import pairwise

import pytest

import cute_py as cute
from cute_py import Layout, Swizzle, atoms, make_composed_layout, viz
from cute_py.atoms.copy import Copy_Atom
from cute_py.tiled.tiled_copy import make_tiled_copy
from cute_py.tiled.tiled_mma import make_tiled_mma
from cute_py.viz import html, svg
from cute_py.viz.picture import RGB
from tests.sampling import each

PICTURES = {
    "row_major": Layout((4, 8), (8, 1)),
    "rank_1": Layout(40, 3),
    "coordinates": cute.make_identity_tensor((2, 3)),
    "rank_3": Layout((2, 3, 2), (6, 2, 1)),
    "swizzle": Swizzle(2, 3, 3),
    "swizzled": make_composed_layout(Swizzle(2, 0, 3), 0, Layout((8, 8), (8, 1))),
    "tv": viz.picture_tv(Layout(((4, 2), 2), ((0, 2), 1)), (2, 3)),
    "mma_sm80": atoms.SM80_16x8x16_F32BF16BF16F32_TN,
    "mma_sm70": atoms.SM70_8x8x4_F32F16F16F32_TN,
    "mma_tiled": make_tiled_mma("SM61_DP4A", (2, 2, 1), (4, 2, 4)),
    "ldmatrix": Copy_Atom("SM75_U32x1_LDSM_N", 16),
    "copy_tiled": make_tiled_copy(
        Copy_Atom("UniversalCopy<32>", 16), Layout((4, 4), (4, 1)), Layout((1, 2))
    ),
}
RENDERERS = {"txt": viz.to_text, "svg": viz.to_svg, "tex": viz.to_latex}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("ending", RENDERERS)
def test_picture_is_drawn_as_in_the_golden_file(golden, name, ending):
    if ending == "txt" or name in ("swizzle", "tv", "mma_tiled", "rank_3"):
        golden(f"viz/{name}.{ending}", RENDERERS[ending](PICTURES[name]).rstrip("\n") + "\n")
    assert RENDERERS[ending](PICTURES[name]) == RENDERERS[ending](PICTURES[name])


# -- text


@pytest.mark.parametrize("name", PICTURES)
def test_text_is_ascii_without_trailing_spaces(name):
    text = viz.to_text(PICTURES[name])
    assert text.isascii()
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_colours_change_nothing_but_the_colours():
    plain, coloured = (viz.to_text(PICTURES["mma_tiled"], ansi=ansi) for ansi in (False, True))
    assert coloured.count("\x1b[30;48;5;") == 16 + 8 + 8
    bare = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


@pytest.mark.parametrize(
    ("show", "x"),
    [
        (viz.print_layout, PICTURES["swizzled"]),
        (viz.print_mma, PICTURES["mma_sm70"]),
        (viz.print_copy, PICTURES["ldmatrix"]),
        (lambda tv: viz.print_tv(tv, (2, 2)), Layout((2, 2))),
    ],
)
def test_the_printers_print_the_text(show, x):
    output = io.StringIO()
    with redirect_stdout(output):
        show(x)
    drawn = viz.picture_tv(x, (2, 2)) if x == Layout((2, 2)) else x
    assert output.getvalue() == viz.to_text(drawn) + "\n"


# -- SVG


def svg_texts(svg):
    """Yield (x, y, anchor, textLength, text) of each text; a span is a text of its own."""
    for text in ET.fromstring(svg).iter(f"{SVG}text"):
        spans = list(text) or [text]
        for span in spans:
            length = text.get("textLength")
            place = float(span.get("x")), float(text.get("y"))
            yield *place, text.get("text-anchor"), length and float(length), span.text


def frames(svg):
    """Return for each grid where its columns and where its rows begin and end."""
    found = []
    for path in ET.fromstring(svg).iter(f"{SVG}path"):
        if path.get("stroke") == "#888":
            lines = re.findall(r"M([\d.]+) ([\d.]+)([hv])", path.get("d"))
            ys = [float(y) for _, y, way in lines if way == "h"]
            found.append(([float(x) for x, _, way in lines if way == "v"], ys))
    return found


def words_in(frame, svg, widths):
    """Return {(row, column): words from top to bottom} of a grid, read from where they are."""
    xs, ys = frame
    found = {}
    for x, y, anchor, length, text in svg_texts(svg):
        if anchor or not ys[0] < y < ys[-1]:
            continue
        for left, right, word in extents(x, length, text, widths):
            middle = (left + right) / 2
            if not xs[0] < middle < xs[-1]:
                continue
            column = sum(edge < middle for edge in xs) - 1
            row = sum(edge < y for edge in ys) - 1
            assert xs[column] <= left
            assert right <= xs[column + 1]
            assert ys[row] + 6 < y < ys[row + 1]
            found.setdefault((row, column), []).append((y, word))
    return {place: [word for _, word in sorted(words)] for place, words in found.items()}


# widths of characters in two fonts that are not monospaced, by the width of a digit; a figure space
# is as wide as a digit, whatever the font (Unicode)
SANS = {"T": 0.96, "V": 1.08, "-": 0.57, ",": 0.5, "/": 0.53, "(": 0.61, ")": 0.61, " ": 0.5}
SERIF = {"T": 1.05, "V": 1.14, "-": 0.53, ",": 0.5, "/": 0.53, "(": 0.61, ")": 0.61, " ": 0.5}


def extents(x, length, text, widths):
    """Return (left, right, word) of each word of a text that `textLength` stretches or shrinks."""
    natural = [widths.get(c, 1.0) for c in text]
    scale = 10 * 0.636 if widths else 6  # a digit of DejaVu Sans at 10 px
    gap = ((length or 6 * len(text)) - scale * sum(natural)) / len(natural)
    ends = [x]
    for width in natural:
        ends.append(ends[-1] + scale * width + gap)
    return [(ends[m.start()], ends[m.end()] - gap, m[0]) for m in re.finditer(r"\S+", text)]


DRAWN = {
    **PICTURES,
    "wide": Layout((16, 64)),
    "nested": Layout(((2, 4), (8, 2)), ((1, 16), (2, 64))),
    "array": cute.make_host_tensor((2, 2), "f32", [[1, 2], [3, 4.5]]),
    "thread": make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN").get_slice(5),
    "tuple": (Layout((2, 2)), Layout((4, 8), (8, 1))),
}


@each(DRAWN, [{}, SANS, SERIF])
def test_svg_read_back_is_the_picture_cell_by_cell(name, widths):
    """Each word is inside of its cell, in any font; a value is under its thread."""
    picture = viz.picture_of(DRAWN[name])
    drawn = viz.to_svg(picture)
    root = ET.fromstring(drawn)
    assert root.tag == f"{SVG}svg"
    assert root.find(f"{SVG}title").text == picture.title
    grids = [grid for row in picture.grids for grid in row if grid]
    for grid, frame in zip(grids, frames(drawn), strict=True):
        assert (len(frame[0]) - 1, len(frame[1]) - 1) == (grid.columns, grid.rows)
        expected = {
            (i, j): [word for line in cell for word in line.split(" ")]
            for i, row in enumerate(grid.lines)
            for j, cell in enumerate(row)
            if cell
        }
        assert words_in(frame, drawn, widths) == expected


SHARED = make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1), (32, 32, 16))


def test_threads_that_share_an_element_are_listed_in_a_narrow_cell():
    drawn = viz.to_svg(SHARED)
    (_, _, _, _, title), *_ = svg_texts(drawn)
    assert title.endswith("128 threads (threads over values)")
    b, a, c = (words_in(frame, drawn, {}) for frame in frames(drawn))
    assert (b[1, 0], a[0, 1], c[0, 1]) == (["0,", "32", "V1"], ["0,", "64", "V1"], ["0", "V1"])
    assert (len(a), len(b), len(c)) == (32 * 16, 16 * 32, 32 * 32)


@pytest.mark.parametrize(
    ("x", "is_square"),
    [
        (Layout((4, 8)), True),
        (PICTURES["mma_sm80"], True),
        (PICTURES["copy_tiled"], True),
        (Layout((128, 128)), True),
        (cute.make_identity_layout((16, 16)), False),
    ],
)
def test_cells_are_square_unless_their_texts_are_wide(x, is_square):
    for group in ET.fromstring(viz.to_svg(x)).iter(f"{SVG}g"):
        if "scale" in group.get("transform", ""):
            across, down = map(
                int, re.search(r"scale\((\d+) (\d+)\)", group.get("transform")).groups()
            )
            assert abs(across - down) <= 6 if is_square else across > down


def heavy_lines(svg):
    """Return the heavy lines as [(x, y, way)]."""
    paths = [p.get("d") for p in ET.fromstring(svg).iter(f"{SVG}path") if p.get("stroke") == "#333"]
    return [
        (float(x), float(y), way)
        for path in paths
        for x, y, way in re.findall(r"M([\d.]+) ([\d.]+)([hv])", path)
    ]


def test_heavy_lines_are_where_modes_end():
    drawn = viz.to_svg(DRAWN["nested"])
    ((xs, ys),) = frames(drawn)
    assert {y for _, y, way in heavy_lines(drawn) if way == "h"} == {ys[2], ys[4], ys[6]}
    assert {x for x, _, way in heavy_lines(drawn) if way == "v"} == {xs[8]}
    labels = [text for *_, text in svg_texts(drawn)]
    assert [each for each in labels if "_" in each] == [
        *[f"(_,{k})" for k in range(4)],
        "(_,0)",
        "(_,1)",
    ]
    assert heavy_lines(viz.to_svg(Layout((4, 8)))) == []


def test_heavy_lines_part_the_atoms_of_a_tiled_mma():
    drawn = viz.to_svg(SHARED)
    (_, a, c) = frames(drawn)
    assert {y for x, y, way in heavy_lines(drawn) if way == "h" and x == a[0][0]} == {a[1][16]}
    assert {x for x, y, way in heavy_lines(drawn) if way == "v" and y == c[1][0]} == {
        c[0][n] for n in (8, 16, 24)
    }


def size_of(svg):
    """Return width and height as a page shows them, and inside of the picture."""
    root = ET.fromstring(svg)
    return (
        int(root.get("width")),
        int(root.get("height")),
        *map(int, root.get("viewBox").split()[2:]),
    )


@pytest.mark.parametrize(
    "x",
    [
        *DRAWN.values(),
        SHARED,
        make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (4, 2, 1), (128, 32, 32)),
        atoms.SM90_64x256x16_F32F16F16_SS,
        make_tiled_copy(Copy_Atom("UniversalCopy<128>", 16), Layout((16, 8), (8, 1)), (1, 8)),
        Layout((2, 2048)),
        Layout((2048, 2)),
        Layout((3, 1 << 16)),
    ],
)
def test_pictures_are_at_most_900_pixels_wide(x):
    wide, _, inner, height = size_of(viz.to_svg(x))
    assert wide == min(inner, 900)
    drawn = viz.to_svg(x)
    assert "max-width:100%" in drawn
    for xs, ys in frames(drawn):
        assert 0 < xs[0] < xs[-1] < inner
        assert 0 < ys[0] < ys[-1] < height


def test_an_atom_needs_660_pixels():
    assert size_of(viz.to_svg(PICTURES["mma_sm80"]))[0] <= 660


def test_the_source_is_above_the_destination_where_both_are_too_wide():
    copy = make_tiled_copy(Copy_Atom("UniversalCopy<128>", 16), Layout((16, 8), (8, 1)), (1, 8))
    (source, destination) = frames(viz.to_svg(copy))
    assert source[0] == destination[0]
    assert source[1][-1] < destination[1][0]
    (source, destination) = frames(viz.to_svg(PICTURES["copy_tiled"]))
    assert source[1] == destination[1]
    assert source[0][-1] < destination[0][0]


def test_a_tall_and_narrow_layout_continues_to_the_right():
    tv = make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1)).get_layoutC_TV()
    shown = [words_in(frame, viz.to_svg(tv), {}) for frame in frames(viz.to_svg(tv))]
    assert len(shown) == 4
    for part, cells in enumerate(shown):
        assert cells == {
            (i, j): [str(tv(32 * part + i, j))] for i in range(32) for j in range(tv[1].size())
        }
    labels = [text for *_, text in svg_texts(viz.to_svg(tv)) if text.startswith("(_,")]
    blocks = [f"(_,{j},{k},{m})" for m in range(2) for k in range(2) for j in range(8)]
    assert [each for each in labels if each in blocks] == blocks
    for _, ys in frames(viz.to_svg(tv)):
        assert {y for _, y, way in heavy_lines(viz.to_svg(tv)) if way == "h"} == set(ys[4:-1:4])


def test_nothing_is_drawn_behind_the_cells():
    drawn = viz.to_svg(DRAWN["wide"])
    assert "<rect" not in drawn
    assert "#fff" not in drawn


def luminance(rgb):
    """Return the relative luminance of a colour (WCAG 2.2)."""
    parts = [int(rgb[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a, b):
    """Return the contrast ratio of two colours (WCAG 2.2)."""
    dark, light = sorted(map(luminance, (a, b)))
    return (light + 0.05) / (dark + 0.05)


def test_texts_have_a_contrast_of_4_5():
    """In cells on their colours, and labels on white and on black pages."""
    assert all(contrast(rgb, "000000") >= 4.5 for rgb in RGB)
    label = svg.LABEL.removeprefix("#")
    assert min(contrast(label, "ffffff"), contrast(label, "000000")) >= 4.5
    for group in ET.fromstring(viz.to_svg(DRAWN["thread"])).iter(f"{SVG}g"):
        if group.find(f"{SVG}text") is not None:
            assert group.get("fill") in (svg.LABEL, svg.INK)


def coloured_cells(svg):
    """Return [{(row, column): colour} for each grid], by walking along the paths."""
    grids = []
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        if "scale" not in group.get("transform", ""):
            continue
        found = {}
        for path in group.iter(f"{SVG}path"):
            x = y = 0
            for command, numbers in re.findall(r"([Mmh])([\d ]+)", path.get("d")):
                first, *second = map(int, numbers.split())
                if command == "h":
                    cells = {(y, x + i): path.get("stroke") for i in range(first)}
                    assert not cells.keys() & found.keys()
                    found.update(cells)
                    x += first
                else:
                    x, y = (first, second[0]) if command == "M" else (x + first, y + second[0])
        grids.append(found)
    return grids


@pytest.mark.parametrize("name", PICTURES)
def test_svg_paths_colour_the_cells_of_the_picture(name):
    picture = viz.picture_of(PICTURES[name])
    grids = [grid for row in picture.grids for grid in row if grid]
    shown = coloured_cells(viz.to_svg(picture))
    assert len(shown) == len(grids)
    colours = {}
    for grid, found in zip(grids, shown, strict=True):
        places = {
            (i, j): cell.colour
            for i, row in enumerate(grid.cells)
            for j, cell in enumerate(row)
            if cell.colour is not None
        }
        assert found.keys() == places.keys()
        for place, colour in places.items():
            assert colours.setdefault(colour, found[place]) == found[place]
    assert len(set(colours.values())) == len(colours)


@pytest.mark.parametrize(
    "layout",
    [
        Layout((128, 128), (1, 128)),
        Layout((128, 128), (128, 1)),
        make_composed_layout(Swizzle(3, 0, 3), 0, Layout((128, 128), (128, 1))),
        cute.make_identity_layout((128, 128)),
    ],
    ids=["column-major", "row-major", "swizzled", "coordinates"],
)
def test_html_of_128_by_128_stays_small(layout):
    """A path for each colour, and labels that do not overlap, in at most 50 ms and 500 kB."""
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        drawn = viz.to_svg(layout)
        seconds.append(time.process_time() - begin)
    assert min(seconds) <= 0.050
    assert len(html.fragment(layout)) <= 500_000
    ((xs, ys),) = ([sorted({x[0], x[-1]}), sorted({y[0], y[-1]})] for x, y in frames(drawn))
    assert (xs[1] - xs[0], ys[1] - ys[0]) == (128 * 6, 128 * 6)
    texts = list(svg_texts(drawn))
    assert all(anchor for *_, anchor, _length, _text in texts[1:])  # labels
    rows = [(y, int(text)) for _, y, anchor, _, text in texts if anchor == "end"]
    assert all(b[0] - a[0] >= 11 and b[1] - a[1] == 4 for a, b in pairwise(rows))
    columns = [(x, int(text)) for x, _, anchor, _, text in texts if anchor == "middle"]
    assert all(b[0] - a[0] >= 24 for a, b in pairwise(columns))


def test_4096_cells_are_the_most_with_texts():
    assert (
        len(words_in(*frames(viz.to_svg(Layout((64, 64)))), viz.to_svg(Layout((64, 64))), {}))
        == 4096
    )
    assert "textLength" not in viz.to_svg(Layout((64, 65)))


# -- LaTeX


@pytest.mark.parametrize("name", PICTURES)
def test_latex_is_balanced_and_has_a_node_for_each_cell(name):
    x = PICTURES[name]
    latex = viz.to_latex(x)
    assert latex.isascii()
    unescaped = re.sub(r"\\[{}]", "", latex)
    assert unescaped.count("{") == unescaped.count("}")
    assert latex.count(r"\begin") == latex.count(r"\end") == 2
    grids = [grid for row in viz.picture_of(x).grids for grid in row if grid]
    nodes = re.findall(r"^\\node at \([-\d.]+,[\d.]+\) \{(.*)\};$", latex, re.M)
    expected = [
        text
        for grid in grids
        for row, label in zip(grid.cells, grid.row_labels, strict=True)
        for text in (label, *(stack(" ".join(cell.lines).split(" ")) for cell in row))
        if text
    ]
    expected += [label for grid in grids for label in grid.column_labels]
    assert sorted(nodes) == sorted(expected)


def stack(lines):
    joined = "\\\\".join(lines)
    return f"\\shortstack{{{joined}}}" if len(lines) > 1 else lines[0]


def test_latex_escapes_what_tex_would_read():
    latex = viz.to_latex(atoms.SM61_DP4A)
    assert r"{SM61\_DP4A: tile (1,1,4), 1 thread}" in latex


# -- data


def test_data_is_the_whole_picture():
    for x in PICTURES.values():
        picture = viz.picture_of(x)
        data = picture.as_data()
        assert data["title"] == picture.title
        for row, grids in zip(data["grids"], picture.grids, strict=True):
            for plain, grid in zip(row, grids, strict=True):
                if grid is None:
                    assert plain is None
                    continue
                shown = [
                    [(tuple(c["lines"]), c["colour"]) for c in cells] for cells in plain["cells"]
                ]
                assert shown == [[tuple(cell) for cell in cells] for cells in grid.cells]
                assert tuple(plain["row_labels"]) == grid.row_labels
                assert tuple(plain["column_labels"]) == grid.column_labels
