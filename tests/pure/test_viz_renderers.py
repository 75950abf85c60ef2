"""Text, SVG and LaTeX of the same pictures: golden files, well-formedness, size, notebooks."""

import io
import re
import time
import xml.etree.ElementTree as ET
from contextlib import redirect_stdout

import pytest

import cute_py as cute
from cute_py import Layout, Swizzle, atoms, make_composed_layout, viz
from cute_py.atoms.copy import Copy_Atom
from cute_py.tiled.tiled_copy import make_tiled_copy
from cute_py.tiled.tiled_mma import make_tiled_mma
from cute_py.viz import svg

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


def texts(svg):
    return [each.text for each in ET.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", PICTURES)
def test_svg_is_well_formed_and_has_the_texts_of_the_picture(name):
    x = PICTURES[name]
    svg = viz.to_svg(x)
    words = [word for text in texts(svg) for word in text.split()]
    rows = viz.to_text(x, columns=None).replace("|", " ")
    plain = [word for word in rows.split() if not re.fullmatch(r"\+-+", word)]
    assert sorted(words) == sorted(plain)
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.find(f"{SVG}title").text == viz.picture_of(x).title


def test_svg_rows_line_up_under_their_columns():
    root = ET.fromstring(viz.to_svg(Layout((3, 4), (100, 1))))
    _, heads, *rows = root.iter(f"{SVG}text")
    pitch = 6
    for row in rows:
        assert int(row.get("textLength")) == pitch * len(row.text)
        starts = [int(row.get("x")) + pitch * m.start() for m in re.finditer(r"\S+", row.text)][1:]
        centres = [
            x + pitch * len(text) / 2 for x, text in zip(starts, row.text.split()[1:], strict=True)
        ]
        columns = [
            int(heads.get("x")) + pitch * m.start() + pitch / 2
            for m in re.finditer(r"\d", heads.text)
        ]
        gaps = [abs(a - b) for a, b in zip(centres, columns, strict=True)]
        assert max(gaps) <= pitch / 2


# widths of characters in two fonts that are not monospaced, by the width of a digit; a figure space
# is as wide as a digit, whatever the font (Unicode)
SANS = {"T": 0.96, "V": 1.08, "-": 0.57, ",": 0.5, "/": 0.53, "(": 0.61, ")": 0.61, " ": 0.5}
SERIF = {"T": 1.05, "V": 1.14, "-": 0.53, ",": 0.5, "/": 0.53, "(": 0.61, ")": 0.61, " ": 0.5}


def extents(text, widths):
    """Return (first, last place) of each word of a text that `textLength` stretches or shrinks."""
    natural = [widths.get(c, 1.0) for c in text.text]
    wanted = float(text.get("textLength", 6 * len(text.text)))
    scale = 10 * 0.636 if widths else 6  # a digit of DejaVu Sans at 10 px
    gap = (wanted - scale * sum(natural)) / len(natural)
    ends = [float(text.get("x"))]
    for width in natural:
        ends.append(ends[-1] + scale * width + gap)
    return [(ends[m.start()], ends[m.end()] - gap) for m in re.finditer(r"\S+", text.text)]


@pytest.mark.parametrize("widths", [{}, SANS, SERIF], ids=["monospaced", "sans", "serif"])
@pytest.mark.parametrize(
    "x",
    [
        Layout((128, 128), (128, 1)),
        Layout((16, 64)),
        cute.make_identity_layout((16, 16)),
        viz.picture_operand("SM80_16x8x16_F32BF16BF16F32_TN", "A"),
        viz.picture_operand(
            make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1), (32, 32, 16)), "C"
        ),
    ],
    ids=["row-major", "column-major", "coordinates", "atom", "tiled"],
)
def test_svg_texts_stay_in_their_cells_in_any_font(x, widths):
    picture = viz.picture_of(x)
    ((grid,),) = picture.grids
    root = ET.fromstring(viz.to_svg(picture))
    lines = re.findall(r"M(\d+) \d+v", list(root.iter(f"{SVG}path"))[-1].get("d"))
    edges = [int(edge) for edge in lines]
    rows = list(root.iter(f"{SVG}text"))[-grid.rows :]
    for text, cells in zip(rows, grid.cells, strict=True):
        spans = iter(extents(text, widths)[1:])  # without the row's label
        for cell, left, right in zip(cells, edges, edges[1:], strict=False):
            words = [next(spans) for _ in cell.lines[0].split()]
            assert left <= words[0][0] <= words[-1][1] <= right


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
    ],
    ids=["column-major", "row-major", "swizzled"],
)
def test_svg_of_128_by_128_stays_small(layout):
    """A path for each colour and a text for each row, in at most 50 ms and 500 kB."""
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        svg = viz.to_svg(layout)
        seconds.append(time.process_time() - begin)
    assert min(seconds) <= 0.050
    assert len(svg.encode()) <= 500_000
    root = ET.fromstring(svg)
    assert len(list(root.iter(f"{SVG}text"))) == 1 + 1 + 128
    assert len(list(root.iter(f"{SVG}path"))) == 8 + 1
    assert [int(word) for word in texts(svg)[2].split()[1:]] == [layout(0, j) for j in range(128)]


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
    nodes = re.findall(
        r"^\\node(?:\[align=center\])? at \([-\d.]+,[\d.]+\) \{(.*)\};$", latex, re.M
    )
    expected = [
        text
        for grid in grids
        for row, label in zip(grid.cells, grid.row_labels, strict=True)
        for text in (label, *(r" \\ ".join(cell.lines) for cell in row))
        if text
    ]
    expected += [label for grid in grids for label in grid.column_labels]
    assert sorted(nodes) == sorted(expected)


def test_latex_escapes_what_tex_would_read():
    latex = viz.to_latex(atoms.SM61_DP4A)
    assert r"{SM61\_DP4A: tile (1,1,4), 1 thread}" in latex


# -- data and notebooks


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


class Shell:
    """What the notebook's shell offers an extension."""

    def __init__(self):
        self.drawers = {}
        self.display_formatter = self
        self.formatters = {"image/svg+xml": self}

    def for_type_by_name(self, module, name, function):
        self.drawers[module, name] = function


def test_the_notebook_extension_draws_our_types():
    shell = Shell()
    viz.load_ipython_extension(shell)
    drawn = 0
    for x in [*PICTURES.values(), make_tiled_mma("SM61_DP4A"), cute.to_f2(Layout((2, 4)))]:
        draw = shell.drawers.get((type(x).__module__, type(x).__name__))
        if draw is None:
            assert x._repr_svg_() == viz.to_svg(x)
        else:
            assert draw(x) == viz.to_svg(x)
            drawn += 1
    assert drawn == len(PICTURES) + 1
    assert len(shell.drawers) == len(svg.TYPES)


def test_a_notebook_shows_text_where_a_picture_is_too_large():
    shell = Shell()
    svg.register(shell)
    draw = shell.drawers["cute_py.layout.layout", "Layout"]
    assert draw(Layout((1024, 1024))) is None
    assert draw(Layout((256, 128))) is None
    assert draw(Layout((4, cute.sym("N")))) is None
    assert draw(Layout((128, 128))).startswith("<svg")
