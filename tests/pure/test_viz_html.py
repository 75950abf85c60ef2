"""What notebooks show: HTML without any other file, for each public type or for a reason."""

import base64
import inspect
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from importlib import import_module

import numpy as np
import pytest

import cute_py as cute
from cute_py import Layout, Swizzle, atoms, sym, viz
from cute_py.atoms.copy import Copy_Atom
from cute_py.codegen.build import Compiled
from cute_py.emulate.report import Report
from cute_py.emulate.timeline import Timeline
from cute_py.emulate.ways.way import Way
from cute_py.records import Text
from cute_py.see.owners import Owners
from cute_py.trace.kernel import Kernel
from cute_py.viz.build import DRAWN, UNDRAWN, reason_of
from cute_py.viz.html import fragment
from tests.pure.test_viz_renderers import PICTURES, frames

AMPERE = "SM80_16x8x16_F32BF16BF16F32_TN"
MMA = cute.make_tiled_mma(AMPERE, (2, 2, 1), (32, 32, 16))
COPY = cute.make_tiled_copy(Copy_Atom("UniversalCopy<32>", 16), Layout((4, 4), (4, 1)), (1, 2))
VALUES = {
    **PICTURES,
    "bits": cute.to_f2(Layout((2, 4))),
    "map of bits": cute.F2Map((1, 3, 6)),
    "array": cute.make_host_tensor((2, 2), "f32", [[1, 2], [3, 4]]),
    "memory": cute.make_tensor(cute.make_ptr("f16", 0, "smem"), Layout((4, 8))),
    "thread of an mma": MMA.get_slice(5),
    "thread of a copy": COPY.get_slice(5),
    "configuration": cute.ops.choose_config(64, 64, 64, "bf16"),
    "odd title": viz.Picture("<script>\"&'</script>]]>", viz.picture_of(Layout(2)).grids),
}

# -- one element without anything outside of it

VOID = {"img", "br", "hr", "input", "meta", "link"}


class Reader(HTMLParser):
    """The elements of a fragment: (depth, tag, attributes)."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.bare = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append((len(self.open), tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open:
            self.bare += data


def svg_in(text):
    """Return the SVG of the first image of a fragment."""
    images = [attrs for _, tag, attrs in Reader(text).seen if tag == "img"]
    kind, _, data = images[0]["src"].partition(";base64,")
    assert kind == "data:image/svg+xml"
    return base64.b64decode(data, validate=True).decode()


@pytest.mark.parametrize("name", VALUES)
def test_a_notebook_shows_one_element_that_needs_nothing_else(name):
    """VS Code, Colab and marimo put it into a page or frame of their own as it is."""
    x = VALUES[name]
    text = x._repr_html_()
    seen = Reader(text).seen
    assert [tag for depth, tag, _ in seen if depth == 0] == ["div"]
    assert not Reader(text).bare.strip()
    assert not {tag for _, tag, _ in seen} & {"html", "head", "body", "link", "iframe", "svg"}
    for _, _, attrs in seen:
        assert "id" not in attrs  # several outputs are on one page
        for name in ("src", "href", "srcset", "data"):
            assert attrs.get(name, "data:").startswith("data:")
    drawn = svg_in(text)
    assert drawn == viz.to_svg(x)
    assert not re.search(r"(href|src|url\(|@import|<script|<foreignObject)", drawn)
    assert ET.fromstring(drawn).find("{*}title").text == viz.picture_of(x).title


@pytest.mark.parametrize("name", VALUES)
def test_the_image_fits_its_page_and_says_what_it_shows(name):
    (image,) = [attrs for _, tag, attrs in Reader(fragment(VALUES[name])).seen if tag == "img"]
    assert image["alt"] == viz.picture_of(VALUES[name]).title
    assert "max-width:100%" in image["style"]


def test_a_page_is_a_fragment_with_a_title():
    page = viz.to_html(VALUES["odd title"])
    assert page.startswith("<!doctype html>\n")
    assert '<script>"&' not in page
    assert VALUES["odd title"]._repr_html_() in page


def test_pictures_can_be_turned_off(monkeypatch):
    monkeypatch.setenv("CUTE_PY_PICTURES", "0")
    assert Layout(4)._repr_html_() is None
    assert viz.to_html(Layout(4))  # asked for by name
    monkeypatch.setenv("CUTE_PY_PICTURES", "1")
    assert Layout(4)._repr_html_()


@pytest.mark.parametrize(
    "x",
    [
        Layout((1024, 1024)),
        Layout((4, sym("N"))),
        Layout((2,) * 5),
        Layout((1, 2, 200, 100)),
        cute.f16,
        Layout((512, 256)),
    ],
)
def test_what_has_no_picture_is_shown_as_text(x):
    assert x._repr_html_() is None


# -- every public type

PACKAGES = ("", "analysis", "atoms", "dtypes", "host", "ops", "viz")


def public_types():
    """Return the public classes of the packages whose values a user may see."""
    found = set()
    for package in PACKAGES:
        module = import_module(f"cute_py.{package}".rstrip("."))
        names = getattr(module, "__all__", None) or dir(module)
        for name in names:
            try:
                value = getattr(module, name)
            except cute.CuteError:  # an instruction that needs arguments
                continue
            if inspect.isclass(value) and value.__module__.startswith("cute_py."):
                found.add(value)
    return found


def test_every_public_type_has_a_picture_or_a_reason():
    """Those that only exist while a kernel is traced are never the result of a cell."""
    kinds = {kind for kind in public_types() if not kind.__module__.startswith("cute_py.trace.")}
    kinds |= {Kernel, Report, Compiled, Timeline, Owners, Way}
    for kind in kinds:
        names = [base.__name__ for base in kind.__mro__]
        own = next((name for name in names if name in DRAWN or name in UNDRAWN), None)
        assert own, kind
        assert hasattr(kind, "_repr_html_") or own in UNDRAWN, kind
    known = {base.__name__ for kind in kinds for base in kind.__mro__}
    assert set(UNDRAWN) <= known
    assert not set(DRAWN) & set(UNDRAWN)
    assert set(DRAWN) <= known | {"TileTV"}


def test_a_refusal_gives_the_reason():
    with pytest.raises(cute.CuteError, match="a type is a name and a number of bits"):
        viz.picture_of(cute.f16)
    assert reason_of(cute.LayoutError("x")) == UNDRAWN["CuteError"]


# -- tuples, threads, arrays, configurations


def texts(grid):
    return [[cell.lines for cell in row] for row in grid.cells]


def test_the_parts_of_a_tuple_are_side_by_side():
    a, b = Layout((2, 3)), Layout((2, 2), (2, 1))
    ((first, second),) = viz.picture_of((a, 7, b)).grids
    assert (first.title, second.title) == (str(a), str(b))
    assert texts(first) == texts(viz.picture_of(a).grids[0][0])
    assert viz.picture_of((a, 7, b)).title == "((2,3):(1,2),7,(2,2):(2,1))"
    (first, corner, b), (under, _, _) = viz.picture_of((a, atoms.get("SM61_DP4A"))).grids
    assert (first.title, b.title) == (
        str(a),
        "SM61_DP4A: tile (1,1,4), 1 thread B: k down, n right",
    )
    assert corner is under is None


def test_many_parts_are_in_rows_that_fit():
    drawn = viz.to_svg((Layout((4, 8)),) * 9)
    lefts = [xs[0] for xs, _ in frames(drawn)]
    tops = [ys[0] for _, ys in frames(drawn)]
    assert (len(set(lefts)), len(set(tops))) == (5, 2)
    assert 'width="900"' not in drawn


def test_a_thread_of_an_mma_is_drawn_alone():
    picture = viz.picture_of(VALUES["thread of an mma"])
    assert picture.title.endswith("128 threads: thread 5")
    for whole, part in zip(viz.picture_of(MMA).grids, picture.grids, strict=True):
        for every, own in zip(whole, part, strict=True):
            for cells, mine in zip(
                every.lines if every else (), own.lines if own else (), strict=True
            ):
                for cell, alone in zip(cells, mine, strict=True):
                    holds = any(5 in threads_of(line) for line in cell)
                    assert alone == ((f"T5 {cell[0].split()[1]}",) if holds else ("-",))


def threads_of(line):
    return [int(t) for t in line.split()[0].removeprefix("T").split(",")]


def test_a_thread_of_a_copy_is_drawn_alone():
    ((source, _),) = viz.picture_of(VALUES["thread of a copy"]).grids
    held = [cell.lines[0] for row in source.cells for cell in row if cell.lines != ("-",)]
    assert held == ["T5 V0", "T5 V1"]


def test_a_tensor_on_the_host_shows_its_elements_in_the_colours_of_their_offsets():
    tensor = cute.make_host_tensor((2, 2), "f32", [[1, 2.5], [3, 4]])
    ((grid,),) = viz.picture_of(tensor).grids
    assert texts(grid) == [[("1",), ("2.5",)], [("3",), ("4",)]]
    assert grid.colours == viz.picture_of(tensor.layout).grids[0][0].colours


def test_a_configuration_shows_shared_memory_and_the_threads_of_the_sums():
    ((a, b, c),) = viz.picture_of(VALUES["configuration"]).grids
    assert (a.title, b.title) == ("A in shared memory", "B in shared memory")
    assert c.title.startswith("C: m down")


# -- colours


def test_colours_by_bank_are_those_of_16_bytes():
    layout = Layout((8, 64), (64, 1))
    ((grid,),) = viz.picture_of(layout, "bank", 16).grids
    for i, row in enumerate(grid.cells):
        for j, cell in enumerate(row):
            bank = layout(i, j) * 16 // 32 % 32
            assert (cell.lines, cell.colour) == ((str(layout(i, j)), f"b{bank}"), bank // 4)


def test_colours_by_value_and_by_tile():
    ((grid,),) = viz.picture_operand(MMA, "C", "value").grids
    assert all(
        cell.colour == int(cell.lines[0].split("V")[1]) % 8 for row in grid.cells for cell in row
    )
    (_, _), (_, c) = viz.picture_of(MMA, "tile").grids
    assert all(c.colours[m][n] == (m // 16 * 4 + n // 8) % 8 for m in range(32) for n in range(32))
    ((grid,),) = viz.picture_of(Layout(((2, 2), (2, 2))), "tile").grids
    assert grid.colours == ((0, 0, 1, 1), (0, 0, 1, 1), (2, 2, 3, 3), (2, 2, 3, 3))


# -- texts of several lines


def test_explanations_are_readable_at_a_prompt():
    divided = cute.logical_divide(Layout((4, 2)), 2)
    for text in (
        divided.why(),
        cute.explain("coalesce", Layout((2, 2))),
        cute.composition(Swizzle(1, 0, 2), Layout((4, 4))).why(),
        VALUES["configuration"].explain(),
    ):
        assert isinstance(text, Text)
        assert repr(text) == str(text) == "" + text
        assert "\n" in repr(text)


def test_a_plan_shows_its_text():
    @cute.kernel
    def fill(x):
        cute.launch(grid=1, block=32)
        x[cute.thread_idx()] = 1.0

    plan = cute.trace(fill, np.zeros(32, np.float32))
    assert repr(plan) == str(plan)
    assert repr(plan).startswith("plan fill\n")
    assert isinstance(plan.explain(), Text)


def test_the_extension_of_ipython_adds_tuples():
    class Shell:
        def __init__(self):
            self.display_formatter, self.formatters = self, {"text/html": self}

        def for_type(self, kind, function):
            self.added = kind, function

    shell = Shell()
    viz.load_ipython_extension(shell)
    kind, show = shell.added
    assert kind is tuple
    assert show((Layout(4), Layout(2))) == fragment((Layout(4), Layout(2)))
    assert show((4, 8)) is show(()) is show(("a", None)) is None
