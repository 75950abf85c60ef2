"""The LaTeX of a picture, read back strictly: every command is a known one, every cell is right.

TeX is rarely installed where these tests run, so the source is parsed: braces, the preamble, and
the four TikZ commands that it uses (PGF manual, "Path Specifications" and "Nodes and Edges"). Where
it is, one picture is typeset.
"""

import re
import shutil
import subprocess
from collections import Counter

import pytest

from cute_py import Layout, Swizzle, atoms, make_composed_layout, make_identity_tensor, viz
from cute_py.atoms.copy import Copy_Atom
from cute_py.tiled.tiled_copy import make_tiled_copy
from cute_py.tiled.tiled_mma import make_tiled_mma
from cute_py.viz.picture import stacked

PICTURES = {
    "rank 1": Layout(40, 3),
    "rank 2": Layout((4, 8), (8, 1)),
    "rank 3": Layout((2, 3, 2), (6, 2, 1)),
    "rank 4": Layout((2, 3, 2, 2)),
    "coordinates": make_identity_tensor((3, 4)),
    "swizzle": Swizzle(2, 3, 3),
    "swizzled": make_composed_layout(Swizzle(2, 0, 3), 0, Layout((8, 8), (8, 1))),
    "two lines in a cell": viz.picture_tv(Layout((2, 2), (1, 1)), 3),
    "nobody": viz.picture_tv(Layout(((4, 2), 2), ((0, 2), 1)), (2, 3)),
    "mma": atoms.SM80_16x8x16_F32BF16BF16F32_TN,
    "tiled mma": make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1), (32, 32, 16)),
    "copy": Copy_Atom("SM75_U32x4_LDSM_N", 16),
    "tiled copy": make_tiled_copy(
        Copy_Atom("UniversalCopy<32>", 16), Layout((4, 4), (4, 1)), Layout((1, 2))
    ),
}
PREAMBLE = [r"\documentclass[tikz,border=4pt]{standalone}", r"\begin{document}"]
COLOUR = re.compile(r"\\definecolor\{c(\d)\}\{HTML\}\{([0-9A-F]{6})\}")
OPENING = r"\begin{tikzpicture}[x=0.55em,y=-1.2em,font=\ttfamily\footnotesize,inner sep=0pt]"
CLOSING = [r"\end{tikzpicture}", r"\end{document}", ""]
NUMBER = r"(-?\d+(?:\.\d+)?)"
POINT = rf"\({NUMBER},{NUMBER}\)"
NODE = re.compile(rf"\\node(\[anchor=west\])? at {POINT} \{{(.*)\}};")
FILL = re.compile(rf"\\fill\[c(\d)\] {POINT} rectangle \+{POINT};")
DRAW = re.compile(rf"\\draw\[(gray|very thick)\]((?: {POINT} -- \+{POINT})+);")
STROKE = re.compile(rf"{POINT} -- \+{POINT}")
ESCAPED = {
    r"\textbackslash{}": "\\",
    r"\^{}": "^",
    r"\~{}": "~",
    **{"\\" + c: c for c in "_&%#${}"},
}


def plain(text):
    r"""Return what TeX would print of a text without `\\`; refuse what it would interpret."""
    found = []
    for escape, character, other in re.findall(
        r"(\\textbackslash\{\}|\\[\^~]\{\}|\\[_&%#${}])|([^\\_&%#${}^~])|(.)", text
    ):
        assert not other, f"{other!r} is special to TeX in {text!r}"
        found.append(ESCAPED[escape] if escape else character)
    return "".join(found)


def parsed(latex):
    """Return colours, nodes (anchor, x, y, lines), fills and frames; refuse any other line."""
    lines = latex.split("\n")
    start = lines.index(OPENING)
    assert lines[:2] == PREAMBLE
    assert lines[-3:] == CLOSING
    colours = [COLOUR.fullmatch(line).groups() for line in lines[2:start]]
    nodes, fills, frames, heavy = [], [], [], []
    for line in lines[start + 1 : -3]:
        if match := NODE.fullmatch(line):
            style, x, y, text = match.groups()
            stack = re.fullmatch(r"\\shortstack\{(.*)\}", text)  # TeX needs it for two lines
            parts = stack[1].split("\\\\") if stack else [text]
            nodes.append((style, float(x), float(y), tuple(plain(part) for part in parts)))
        elif match := FILL.fullmatch(line):
            colour, *numbers = match.groups()
            fills.append((int(colour), *map(float, numbers)))
        else:
            style = DRAW.fullmatch(line)[1]
            strokes = [tuple(map(float, stroke)) for stroke in STROKE.findall(line)]
            (frames if style == "gray" else heavy).append(strokes)
    assert [int(i) for i, _ in colours] == list(range(len(colours)))
    assert len({rgb for _, rgb in colours}) == len(colours)
    assert {colour for colour, *_ in fills} <= set(range(len(colours)))
    for strokes in heavy:  # along lines between cells
        assert any(set(strokes) < set(frame) for frame in frames)
    return nodes, fills, frames


def edges(frame):
    """Return where the columns and the rows of a frame begin and end."""
    (left, right), (top, bottom) = (
        (min(s[i] for s in frame), max(s[i] + s[i + 2] for s in frame)) for i in (0, 1)
    )
    across = [s for s in frame if s[3] == 0]
    down = [s for s in frame if s[2] == 0]
    assert len(across) + len(down) == len(frame)
    assert all((x, dx) == (left, right - left) for x, _, dx, _ in across)
    assert all((y, dy) == (top, bottom - top) for _, y, _, dy in down)
    return [x for x, *_ in down], [y for _, y, *_ in across]


def place(value, ends):
    """Return the number of the cell that a value lies in the middle of."""
    (found,) = [
        i for i in range(len(ends) - 1) if ends[i] + ends[i + 1] == pytest.approx(2 * value)
    ]
    return found


def cells_of(frame, nodes, fills):
    """Return (title, row labels, column labels, {place: (lines, colour)}), and the nodes used."""
    xs, ys = edges(frame)
    texts, colours, rows, columns, title, used = {}, {}, {}, {}, "", []
    for node in nodes:
        style, x, y, lines = node
        inside = xs[0] < x < xs[-1], ys[0] < y < ys[-1]
        if style == "[anchor=west]":
            if (x, y) != (xs[0], ys[0] - 1.5):
                continue
            title = lines[0]
        elif all(inside):
            assert texts.setdefault((place(y, ys), place(x, xs)), lines) is lines
        elif inside[0] and y == ys[0] - 0.5:
            columns[place(x, xs)] = lines[0]
        elif inside[1] and xs[0] - 6 < x < xs[0]:
            rows[place(y, ys)] = lines[0]
        else:
            continue
        used.append(node)
    for colour, x, y, wide, high in fills:
        if not (xs[0] <= x < xs[-1] and ys[0] <= y < ys[-1]):
            continue
        row = ys.index(pytest.approx(y))
        assert ys[row + 1] == pytest.approx(y + high)
        for column in range(xs.index(x), xs.index(x + wide)):
            assert colours.setdefault((row, column), colour) == colour
    cells = {
        (i, j): (texts.get((i, j), ()), colours.get((i, j)))
        for i in range(len(ys) - 1)
        for j in range(len(xs) - 1)
    }
    return (title, rows, columns, cells), used


@pytest.mark.parametrize("name", PICTURES)
def test_latex_read_back_is_the_picture_cell_by_cell(name):
    picture = stacked(viz.picture_of(PICTURES[name]))
    nodes, fills, frames = parsed(viz.to_latex(picture))
    grids = [grid for row in picture.grids for grid in row if grid]
    left = Counter(nodes)
    assert left.pop(("[anchor=west]", 0.0, 0.0, (picture.title,))) == 1
    for grid, frame in zip(grids, frames, strict=True):
        (title, rows, columns, cells), used = cells_of(frame, nodes, fills)
        left.subtract(used)
        assert title == grid.title
        assert columns == dict(enumerate(grid.column_labels))
        assert rows == {i: label for i, label in enumerate(grid.row_labels) if label}
        assert cells == {
            (i, j): (cell.lines, cell.colour)
            for i, row in enumerate(grid.cells)
            for j, cell in enumerate(row)
        }
    assert not +left  # no text outside of the grids


def test_heavy_lines_are_where_modes_end():
    latex = viz.to_latex(Layout(((2, 3), 4)))
    (heavy,) = re.findall(r"\\draw\[very thick\] (.*);", latex)
    _, _, (frame,) = parsed(latex)
    _, ys = edges(frame)
    assert [float(y) for _, y, _, _ in STROKE.findall(heavy)] == [ys[2], ys[4]]


def test_the_offsets_of_a_layout_stand_in_its_latex():
    """From the source to the layout itself, past the picture."""
    layout = Layout((4, (2, 4)), (2, (1, 8)))
    nodes, fills, (frame,) = parsed(viz.to_latex(layout))
    (_, _, _, cells), _ = cells_of(frame, nodes, fills)
    assert {place: int(lines[0]) for place, (lines, _) in cells.items()} == {
        (i, j): layout(i, j) for i in range(4) for j in range(8)
    }


@pytest.mark.parametrize("text", [r"a\b", "a_b", "50%", "{}", "a^b", "~", "#1", "$x$", "a&b"])
def test_what_tex_would_read_is_escaped(text):
    picture = viz.Picture(text, viz.picture_of(Layout(2)).grids)
    nodes, _, _ = parsed(viz.to_latex(picture))
    assert nodes[0][3] == (text,)


@pytest.mark.parametrize(
    "line",
    [r"\node at (1,2) {a_b};", r"\node at (1,2) {\input{x}};", r"\node at (1,2) {a \\ b};", "text"],
)
def test_the_reader_refuses_what_is_not_known(line):
    latex = viz.to_latex(Layout(2)).replace(r"\end{tikzpicture}", line + "\n\\end{tikzpicture}")
    with pytest.raises((AssertionError, TypeError)):
        parsed(latex)


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex")
def test_tex_sets_a_picture(tmp_path):
    (tmp_path / "picture.tex").write_text(viz.to_latex(make_tiled_mma("SM61_DP4A", (2, 2, 1))))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "picture.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "picture.pdf").stat().st_size > 1000
