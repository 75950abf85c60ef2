"""The tables of the kernels' tensors, and their pages: what they say equals layouts and runs."""

import gzip
import json
import re
from base64 import b64decode
from dataclasses import asdict
from html import unescape
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py import viz
from cute_py.cli.main import main
from cute_py.emulate.report import Report
from cute_py.errors import CuteError
from cute_py.explore.states import state_of
from cute_py.expression import evaluate
from cute_py.kernels.gemm_07_multistage import flagship
from cute_py.kernels.samples import SAMPLES
from cute_py.see.page import NOWHERE
from cute_py.viz.scenes import packed
from tests.kernel_calls import CALLS, KERNELS
from tests.sampling import quick

GOLDEN = Path(__file__).parents[1] / "golden" / "layouts"
SLOW = ("w4a16", "conv2d_s4", "stream_k", "grouped", "fused_attention", "gemm_12", "gathered")
TABLES = [name for name in SAMPLES if name not in (*SLOW, "gemm_11")]  # 20 of them


def sample(name, sizes=(256, 256, 256)):
    """Return a kernel of the samples, and its arguments."""
    kind, call = SAMPLES[name]
    return call(sizes, cute.dtype(kind))


# -- tables


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_that_were_read(name, request):
    kernel, arguments = sample(name)
    text, file = f"{cute.layouts(kernel, *arguments)}\n", GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", quick([("gemv.gemv",), ("sum_parts.sum_parts",)], CALLS))
def test_all_kernels_have_a_table_whose_lines_make_what_it_says(name):
    call = CALLS[name]()
    table = cute.layouts(KERNELS[call.kernel], *call.given(call.arguments))
    assert len(table)
    refused = re.compile("known only when|no partition|elements, or pairs|required: a tensor")
    for row in table:
        lines = Path(row.file).read_text(encoding="utf-8").splitlines()
        word = re.split(r"[.\[]", row.name)[0]
        if row.made != "an argument":
            assert re.search(rf"\b{word}\b", " ".join(lines[row.line - 1 : row.line + 12])), row
        assert list(table.at(row.line)).count(row) == 1
        try:
            owners = row.owners()
        except CuteError as error:
            known = refused.search(str(error))
        else:
            known = owners.table.shape == (len(owners.threads), cute.size(owners.values))
        assert known, row


def test_a_table_is_traced_once_for_all_sizes_and_pictures_take_those_of_the_arguments(monkeypatch):
    kernel, square = sample("gemm_06")
    first = cute.layouts(kernel, *square)
    monkeypatch.setattr("cute_py.see.rows.watched", None)  # which traces
    second = cute.layouts(kernel, *sample("gemm_06", (128, 128, 512))[1])
    assert str(first) == str(second)
    assert (first["gA"].drawn().shape[2], second["gA"].drawn().shape[2]) == (8, 16)


def test_tables_of_two_configurations_differ_where_their_rows_do():
    kernel, (*arrays, _) = sample("gemm_07")
    a, b = (cute.layouts(kernel, *arrays, flagship(stages=n)) for n in (3, 4))
    assert cute.diff(a, a).pairs() == []
    changed = {row.name for pair in cute.diff(a, b).pairs() for row in pair}
    assert {"sA", "sB", "tAsA"} <= changed
    for row in a:
        mine, theirs = ([x.described for x in table if x.name == row.name] for table in (a, b))
        assert (mine != theirs) == (row.name in changed), row.name


def test_a_table_has_the_same_cells_as_text_in_rich_and_in_a_notebook(monkeypatch):
    from rich.console import Console

    kernel, arguments = sample("gemm_02")
    table = cute.layouts(kernel, *arguments)
    console = Console(width=400, record=True, file=StringIO())
    console.print(table)
    rich, page = console.export_text(), table._repr_html_()
    head, *rows = table.lines()
    for number, cells in enumerate(rows):
        for text in (str(table), rich):
            line = text.splitlines()[-len(rows) :][number]
            assert [cell for cell in cells if cell] == re.split(r" {2,}", line.strip())
    found = re.findall(r"<t[hd]>(.*?)</t[hd]>", page)
    assert list(map(unescape, found)) == [*head, *[cell for cells in rows for cell in cells]]
    monkeypatch.setenv("CUTE_PY_PICTURES", "0")
    assert table._repr_html_() is None


def test_print_and_show_in_a_kernel_write_a_line_and_the_owners_once(capsys):
    @cute.kernel
    def twice(x: cute.Tensor):
        cute.launch(grid=1, block=8)
        part = cute.local_partition(x, cute.Layout(8), cute.thread_idx())
        for _ in range(2):
            cute.print(part)
        cute.show(x, part[0])
        part[0] = part[1]

    x = np.zeros(16, np.float32)
    plain = cute.layouts(twice, x)
    capsys.readouterr()
    twice(x)
    twice(x)
    written = capsys.readouterr().out
    line = plain["part"].line
    assert written.count(f"test_see.py:{line + 2}: part: gmem f32 {plain['part'].described}\n") == 1
    assert written.count(f"test_see.py:{line + 3}: x: gmem f32") == 1
    assert written.count(f"{plain['part'].owners()}\n") == 1
    assert written.count("test_see.py:") == 3


def test_the_command_writes_tables_and_pictures(tmp_path, capsys):
    kernel, arguments = sample("gemm_02", (32, 32, 32))
    table = cute.layouts(kernel, *arguments)
    path = Path(__file__).parents[2] / "cute_py/kernels/gemm_02_shared.py"
    given = ("layouts", f"{path}:gemm_shared", *["f32[32,32]"] * 3)
    for more, text in (
        (("--line", str(table["sA"].line)), f"{table.at(table['sA'].line)}\n"),
        (("--name", "sA[0,_]"), f"{viz.to_text(table['sA'].owners()[0, None])}\n"),
    ):
        assert main([*given, *more]) == 0
        assert capsys.readouterr().out == text, more
    assert main([*given, "-o", str(tmp_path / "x.html")]) == 0
    assert table.to_html() in (tmp_path / "x.html").read_text(encoding="utf-8")
    for option, value in (("-o", str(tmp_path / "x.svg")), ("--format", "svg"), ("--by", "bank")):
        assert main([*given, option, value]) == 2
        wanted = "--by" if option == "--by" else "the format svg"
        assert f"layouts: given {wanted} for a table" in capsys.readouterr().err


# -- what is packed


def unpacked(x):
    """Return what `packed` was given, as `page.js` does."""
    if isinstance(x, list):
        return [unpacked(each) for each in x]
    if not isinstance(x, dict):
        return x
    if "+" in x:
        return np.cumsum(x["+"]).tolist()
    if "of" in x:
        columns, parts = [unpacked(each) for each in x["of"]], x["#"].split("#")
        rows = zip(*columns, strict=True)
        return [
            parts[0] + "".join(f"{n}{part}" for n, part in zip(row, parts[1:], strict=True))
            for row in rows
        ]
    return {name: unpacked(each) for name, each in x.items()}


def opened(text):
    return unpacked(json.loads(gzip.decompress(b64decode(text))))


@pytest.mark.parametrize(
    "x",
    [[], list(range(-4, 9)), ["a"] * 9, [f"({i},{7 * i})" for i in range(9)], ["#1"] * 8,
     ["1", *"abcdefgh"], {"a": [None] * 9, "b": [1, 2.5] * 5, "c": ["01"] * 8, "d": [[1] * 8] * 8}],
    ids=str,
)  # fmt: skip
def test_what_is_packed_is_unpacked(x):
    assert opened(packed(x)) == x


# -- pages


@pytest.fixture(scope="module")
def page():
    kernel, arguments = sample("gemm_06", (64, 64, 64))
    before = [x.copy() for x in arguments[:3]]
    made = cute.see(kernel, *arguments, run=True)
    assert all((a == b).all() for a, b in zip(before, arguments[:3], strict=True))
    return made


def test_a_page_has_the_rows_of_the_table_and_their_pictures(page):
    data = page.data
    assert [row["name"] for row in data["rows"]] == [row.name for row in page.table]
    assert sorted(k for each in data["statements"] for k in each["rows"]) == list(
        range(len(page.table))
    )
    for row, shown in zip(page.table, data["rows"], strict=True):
        assert shown["layout"] == row.described
        panels = opened(data["pictures"][shown["picture"]])
        for panel, plain in zip(panels, viz.scene(row.drawn())["panels"], strict=True):
            assert {key: panel[key] for key in plain} == plain


def test_equal_places_are_equal_elements(page):
    """tXsA holds elements of sA: their places are where the layout of sA puts them."""
    table, data = page.table, page.data
    rows = {row["name"]: row for row in data["rows"]}
    assert rows["sA"]["storage"] == rows["tXsA"]["storage"] != rows["sB"]["storage"]
    owners, layout = table["tXsA"].owners(), table["sA"].drawn()
    assert owners.whole == "sA"
    for name in ("sA", "tXsA"):
        (panel,) = opened(data["pictures"][rows[name]["picture"]])
        assert panel["places"] == layout.offsets().tolist()
    (panel,) = opened(data["pictures"][rows["A"]["picture"]])
    assert panel["places"] == table["A"].drawn().offsets().tolist()


def test_what_is_beyond_the_arguments_has_no_place():
    kernel, arguments = sample("gemm_02", (8, 16, 16))
    data = cute.see(kernel, *arguments).data
    (row,) = [row for row in data["rows"] if row["name"] == "gA"]
    panels = opened(data["pictures"][row["picture"]])
    outside = {place for panel in panels for k, place in enumerate(panel["places"]) if k % 16 >= 8}
    assert outside == {NOWHERE}


def test_sliders_are_named_by_the_modes_of_the_comment(page):
    (row,) = [row for row in page.data["rows"] if row["name"] == "tAgA"]
    panels = opened(page.data["pictures"][row["picture"]])
    assert [panel["at"] for panel in panels] == [{"k": k} for k in range(len(panels))]


def test_lines_have_their_ops_and_what_a_run_counts(page):
    kernel, arguments = sample("gemm_06", (64, 64, 64))
    plan = kernel.plan(*arguments)
    held = [
        op for each in page.data["statements"] for op, times in each["ops"] for _ in range(times)
    ]
    assert sorted(held) == sorted(map(str, plan.ops))
    report = cute.emulate(kernel, *arguments, report=True)
    assert isinstance(report, Report)
    for name, total in asdict(report.total).items():
        assert sum((each["counts"] or {}).get(name, 0) for each in page.data["statements"]) == total
    assert all(n is not None for _, n in page.data["events"])


def test_links_of_the_explorer_are_what_the_pictures_show(page):
    pairs = zip(page.table, page.data["rows"], strict=True)
    linked = {shown["explore"]: (row, shown) for row, shown in pairs if shown["explore"]}
    assert len(linked) > len(page.table) / 2
    for row, shown in linked.values():
        found = viz.scene(evaluate(state_of(shown["explore"])["e"]))["panels"]
        assert found
        for panel, own in zip(found, viz.scene(row.drawn())["panels"], strict=False):  # of a copy S
            for name in ("offset", "thread", "value", "coordinate"):
                assert panel.get(name) == own.get(name), row


def test_the_first_line_is_the_one_that_is_asked_for():
    kernel, arguments = sample("gemm_02", (16, 16, 16))
    line = cute.layouts(kernel, *arguments)["sB"].line
    for at in (line, "sB"):
        data = cute.see(kernel, *arguments, at=at).data
        shown = data["statements"][data["first"]]["rows"]
        assert [data["rows"][k]["name"] for k in shown] == ["sB"]
    with pytest.raises(CuteError, match="did you mean sB"):
        cute.see(kernel, *arguments, at="sb")


def test_a_large_tensor_has_a_reason_in_place_of_a_picture():
    """The words are those of the code see-picture."""
    large = np.broadcast_to(np.float32(0), (1 << 12, 1 << 12))
    x = np.lib.stride_tricks.as_strided(large, strides=(1 << 14, 4))

    @cute.kernel
    def first(x: cute.Tensor):
        cute.launch(grid=1, block=1)
        cute.print("{}", x[0, 0])

    (row,) = cute.see(first, x).data["rows"]
    assert row["picture"] is None
    assert "16777216 elements" in row["reason"]
    assert "cute.show(x[_, _])" in row["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_all_kernels_have_a_page_and_it_is_small(name):
    kernel, arguments = sample(name)
    assert len(cute.see(kernel, *arguments, run=True).to_html()) < 1_500_000


def test_the_command_writes_a_page(tmp_path):
    path = Path(__file__).parents[2] / "cute_py/kernels/gemm_02_shared.py"
    out = tmp_path / "kernel.html"
    given = ("--args", "f32[32, 32] f32[32,32] f32[32,32]", "--run", "--at", "sA")
    assert main(["see", f"{path}:gemm_shared", *given, "-o", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert "gemm_shared (gemm_02_shared.py)" in text
    assert not re.search(r"https?:", text)


def test_lines_are_those_of_python(tmp_path, monkeypatch):
    """Form feeds and other ends of lines of Unicode end none; a # of a string is no comment."""
    monkeypatch.syspath_prepend(tmp_path)
    lines = (
        "# one \f two \x1c three \u2028 four \x85",
        "import cute_py as cute",
        "def named(x, _text): return x",
        "@cute.kernel",
        "def odd(x):",
        "    cute.launch(grid=1, block=32)",
        "    first = cute.smem('f32', (4, 8))  # (M,\fK)",
        "    other = named(cute.smem('f32', (2, 3)), '# (P,Q)')",
        "    third = named(cute.smem('f32', (2, 3)), '# (P,Q)')  # (R,S), #1",
        "    x[cute.thread_idx()] = 0.0",
    )
    (tmp_path / "lines_of_python.py").write_text("\n".join(lines), encoding="utf-8")
    from lines_of_python import odd

    table = cute.layouts(odd, np.zeros(32, np.float32))
    assert [(row.made, row.modes) for row in table if row.name != "x"] == [
        ("cute.smem('f32', (4, 8))", ("M", "K")),
        ("named(cute.smem('f32', (2, 3)), '# (P,Q)')", ()),
        ("named(cute.smem('f32', (2, 3)), '# (P,Q)')", ("R", "S")),
    ]
