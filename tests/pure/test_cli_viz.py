"""The commands show, tv, mma, copy and atoms: pictures and tables on the output or in a file."""

import io
import json
import sys
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

import cute_py as cute
from cute_py import atoms, viz
from cute_py.atoms.copy import Copy_Atom
from cute_py.atoms.registry import copy_rows
from cute_py.cli.main import REFUSED, main
from cute_py.cli.picture_commands import _converted
from cute_py.layout.layout import Layout
from cute_py.tiled.tiled_copy import make_tiled_copy
from cute_py.tiled.tiled_mma import make_tiled_mma

AMPERE = "SM80_16x8x16_F32BF16BF16F32_TN"


@pytest.fixture
def run(capsys):
    """Return `run(*arguments)`: exit code, output, error output."""

    def call(*arguments):
        code = main(arguments)
        return code, *capsys.readouterr()

    return call


COMMANDS = {
    ("tv", AMPERE): lambda: viz.picture_operand(AMPERE, "C"),
    ("tv", AMPERE, "--operand", "A"): lambda: viz.picture_operand(AMPERE, "A"),
    ("mma", AMPERE): lambda: atoms.get(AMPERE),
    ("mma", AMPERE, "--atoms", "2,2,1", "--perm", "32,32,16"): lambda: make_tiled_mma(
        AMPERE, (2, 2, 1), (32, 32, 16)
    ),
    ("mma", AMPERE, "--atoms", "(2,2,1):(2,1,0)", "--perm", "_,(2,4,2):(1,4,2)"): lambda: (
        make_tiled_mma(
            AMPERE, Layout((2, 2, 1), (2, 1, 0)), (None, Layout((2, 4, 2), (1, 4, 2)), None)
        )
    ),
    ("mma", "SM61_DP4A", "--atoms", "4"): lambda: make_tiled_mma("SM61_DP4A", 4),
    ("copy", "UniversalCopy<128>"): lambda: Copy_Atom("UniversalCopy<128>", 16),
    ("copy", "UniversalCopy<128>", "--thr", "(32,4):(4,1)", "--val", "(1,8)"): lambda: (
        make_tiled_copy(
            Copy_Atom("UniversalCopy<128>", 16), Layout((32, 4), (4, 1)), Layout((1, 8))
        )
    ),
    ("copy", "UniversalCopy<64>", "--thr", "(8,4)", "--val", "(1,2)", "--bits", "32"): lambda: (
        make_tiled_copy(Copy_Atom("UniversalCopy<64>", 32), Layout((8, 4)), Layout((1, 2)))
    ),
}


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_picture_commands_print_the_picture(run, arguments):
    picture = viz.picture_of(COMMANDS[arguments]())
    assert run(*arguments) == (0, viz.to_text(picture) + "\n", "")
    assert run(*arguments, "--format", "svg") == (0, viz.to_svg(picture), "")
    assert run(*arguments, "--format", "latex") == (0, viz.to_latex(picture), "")
    code, output, error = run(*arguments, "--format", "json")
    assert (code, error) == (0, "")
    assert json.loads(output) == picture.as_data()


def test_the_cells_of_the_json_form_are_those_of_the_tv_layout(run):
    _, output, _ = run("tv", AMPERE, "--operand", "C", "--format", "json")
    ((grid,),) = json.loads(output)["grids"]
    c_tv = atoms.get(AMPERE).c_tv
    for t in range(32):
        for v in range(4):
            m, n = c_tv(t, v) % 16, c_tv(t, v) // 16
            assert grid["cells"][m][n] == {"lines": [f"T{t} V{v}"], "colour": t % 8}


def test_output_goes_to_a_file(run, tmp_path):
    file = tmp_path / "c.svg"
    assert run("tv", AMPERE, "--format", "svg", "-o", str(file)) == (0, "", "")
    assert ET.parse(file).getroot().tag.endswith("svg")
    code, output, error = run("tv", AMPERE, "-o", str(tmp_path))
    assert (code, output) == (REFUSED, "")
    assert f"the file {tmp_path}" in error
    assert "required: a file that can be written" in error


def test_colours_only_on_a_terminal(run, monkeypatch, tmp_path):
    arguments = ("tv", "SM61_DP4A")
    _, plain, _ = run(*arguments)
    assert "\x1b" not in plain
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    _, coloured, _ = run(*arguments)
    assert "\x1b[30;48;5;" in coloured
    file = tmp_path / "c.txt"
    run(*arguments, "-o", str(file))
    assert file.read_text() == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(*arguments) == (0, plain, "")


EXPRESSIONS = {
    "(4,8):(8,1)": lambda: Layout((4, 8), (8, 1)),
    "composition((6,2):(8,2), (4,3):(3,1))": lambda: cute.composition(
        Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))
    ),
    "(Sw<2,0,3>, 4:1)": lambda: (cute.Swizzle(2, 0, 3), Layout(4)),
    f"mma({AMPERE}, (2,2,1))": lambda: make_tiled_mma(AMPERE, (2, 2, 1)),
    "copy(UniversalCopy<32>, (4,4):(4,1), (1,2))": lambda: make_tiled_copy(
        Copy_Atom("UniversalCopy<32>", 16), Layout((4, 4), (4, 1)), Layout((1, 2))
    ),
    "tv((2,2):(1,2), (2,2))": lambda: viz.picture_tv(Layout((2, 2), (1, 2)), (2, 2)),
}
RENDERED = {
    "svg": viz.to_svg,
    "html": viz.to_html,
    "tex": viz.to_latex,
    "txt": lambda x: viz.to_text(x) + "\n",
    "json": lambda x: json.dumps(viz.picture_of(x).as_data()) + "\n",
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_show_draws_an_expression_in_the_format_of_the_file(run, text, tmp_path):
    x = EXPRESSIONS[text]()
    assert run("show", text) == (0, viz.to_text(x) + "\n", "")
    for ending, render in RENDERED.items():
        file = tmp_path / f"picture.{ending}"
        assert run("show", text, "-o", str(file)) == (0, "", "")
        assert file.read_text(encoding="utf-8") == render(x)


MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-"}


@pytest.mark.parametrize("ending", MAGIC)
def test_pictures_for_slides_and_papers_need_a_package(run, ending, tmp_path, monkeypatch):
    file = tmp_path / f"picture.{ending}"
    asked = {}

    def made(**given):
        asked.update(given)
        return MAGIC[ending]

    package = SimpleNamespace(**{f"svg2{ending}": made})
    monkeypatch.setitem(sys.modules, "cairosvg", package)
    assert run("show", "(4,8):(8,1)", "-o", str(file)) == (0, "", "")
    assert file.read_bytes() == MAGIC[ending]
    assert 'font-family="monospace"' in asked["bytestring"].decode()
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    file.unlink()
    code, out, err = run("show", "(4,8):(8,1)", "-o", str(file))
    assert (code, out) == (2, "")
    assert 'pip install "cute-py[pictures]"' in err
    assert not file.exists()
    with pytest.raises(cute.CuteError) as raised:
        _converted(ending, "")
    assert raised.value.code == "cli-picture"


@pytest.mark.parametrize("ending", MAGIC)
def test_pictures_are_made_by_the_package(run, ending, tmp_path):
    pytest.importorskip("cairosvg", reason="needs the extra `pictures`")
    file = tmp_path / f"picture.{ending}"
    assert run("show", "Sw<2,0,3> o 0 o (8,8):(8,1)", "-o", str(file)) == (0, "", "")
    assert file.read_bytes().startswith(MAGIC[ending])
    assert len(file.read_bytes()) > 2000  # of an empty picture less


def test_a_shape_is_shown_as_a_layout_and_that_is_said(run):
    code, out, err = run("show", "(4,8)")
    assert (code, out) == (0, viz.to_text(Layout((4, 8))) + "\n")
    assert err.endswith("Write (4,8):(1,4) or (4,8):(8,1).\n")
    assert "strides" in err


def test_show_reads_symbols_and_the_input(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("(4,8):(8,1)"))
    picture = viz.to_text(Layout((4, 8), (8, 1))) + "\n"
    assert run("show", "-")[1] == picture
    assert run("show", "(4,8):(8,1)", "-o", "-")[1] == picture
    code, _, error = run("show", "(M,8):(8,1)", "--symbol", "M")
    assert code == REFUSED
    assert "depend on symbols" in error


def test_layout_and_tv_take_what_show_takes(run, tmp_path):
    file = tmp_path / "layout.svg"
    text = "composition((6,2):(8,2), (4,3):(3,1))"
    assert run("layout", text)[1].startswith("layout     ((2,2),3):((24,2),8)\n")
    assert (
        run("layout", f"explain({text})", "--format", "svg")[1]
        == run("show", text, "--format", "svg")[1]
    )
    assert run("layout", f"mma({AMPERE})", "-o", str(file)) == (0, "", "")
    assert file.read_text(encoding="utf-8") == run("show", f"mma({AMPERE})", "--format", "svg")[1]
    code, _, error = run("layout", f"mma({AMPERE})")
    assert (code, "required: a layout or a map of offsets; fix: print" in error) == (2, True)
    assert run("layout", text, "-o", str(file)) == (0, "", "")
    assert file.read_text() == viz.to_svg(EXPRESSIONS[text]())
    tv = viz.picture_tv(Layout((2, 2), (1, 2)), (2, 2), "value")
    assert run("tv", "(2,2):(1,2)", "(2,2)", "--by", "value", "--format", "svg") == (
        *(0, viz.to_svg(tv)),
        "",
    )
    mma = viz.picture_operand(make_tiled_mma(AMPERE, (2, 1, 1)), "A")
    assert run("tv", f"mma({AMPERE}, (2,1,1))", "--operand", "A")[1] == viz.to_text(mma) + "\n"


def test_colours_by_bank(run):
    _, output, _ = run("show", "(8,32):(32,1)", "--by", "bank", "--bits", "32", "--format", "json")
    expected = viz.picture_of(Layout((8, 32), (32, 1)), "bank", 32).as_data()
    assert json.loads(output) == expected
    assert json.loads(
        run("layout", "(8,32):(32,1)", *["--by", "bank", "--bits", "32", "--format", "json"])[1]
    )


# -- atoms


def test_atoms_lists_what_an_architecture_runs(run):
    code, output, error = run("atoms", "--arch", "sm_75")
    assert (code, error) == (0, "")
    listed = [line.split()[0] for line in output.splitlines() if line]
    assert listed.count("atom") == listed.count("copy") == 1
    assert set(listed) - {"atom", "copy"} == {
        *(str(atom) for atom in atoms.rows() if atom.support("sm_75")),
        *(str(op) for op in copy_rows() if op.support("sm_75")),
    }
    assert "SM75_U32x4_LDSM_N" in listed
    assert AMPERE not in listed


def test_atoms_as_json_holds_the_rows(run):
    code, output, _ = run("atoms", "--arch", "sm_80", "--format", "json")
    assert code == 0
    rows = json.loads(output)
    (ampere,) = [row for row in rows["mma"] if row["atom"] == AMPERE]
    assert ampere["shape_mnk"] == [16, 8, 16]
    assert ampere["c_tv"] == str(atoms.get(AMPERE).c_tv)
    assert ampere["d_type"] == "f32"
    (ldmatrix,) = [row for row in rows["copy"] if row["atom"] == "SM75_U32x4_LDSM_N"]
    assert (ldmatrix["src_space"], ldmatrix["dst_space"]) == ("smem", "rmem")


# -- bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tv", "SM80_16x8x16"), "SM80_16x8x16"),
        (("mma", AMPERE, "--atoms", "2,("), "--atoms (2,(): eval: given the end of the text"),
        (("mma", AMPERE, "--atoms", "M"), "given the name 'M'"),
        (("mma", AMPERE, "--atoms", ""), "--atoms: given ''; required: integers and layouts"),
        (("mma", AMPERE, "--perm", "1@0"), "integers and layouts, or a tuple of these"),
        (("mma", AMPERE, "--perm", "Sw<2,0,3>"), "integers and layouts, or a tuple of these"),
        (("mma", AMPERE, "--perm", "24,8,16"), "make_tiled_mma: given"),
        (("mma", AMPERE, "--perm", "1024,1024,16"), "cells in a picture"),
        (("mma", "SM61_DP4A", "--atoms", "100000,100000"), "cells in a picture"),
        (("mma", "SM61_DP4A", "--atoms", "1,1,100000000"), "in a picture"),
        (("copy", "UniversalCopy<32>", "--thr", "32", "--val", "100000000"), "cells in a picture"),
        (("mma", "UniversalFMA<f32"), "given UniversalFMA<f32; required: the name of an atom"),
        (("copy", "UniversalCopy<128"), "fix: did you mean UniversalCopy<128>?"),
        (("copy", "SM75_U32x4_LDSM_X"), "SM75_U32x4_LDSM_X"),
        (("copy", "UniversalCopy<64>", "--thr", "(4,4)", "--val", "(1,1)"), "make_tiled_copy"),
        (("show", "(4,8):(8,1)", "-o", "a.gif"), "a name that ends in .txt, .tex, .svg, .html"),
        (("show", "(4,8):(8,1)", "--by", "thread"), "required: offset, bank, tile"),
        (("show", "shape((8,8):(8,1))", "-o", "a.tex"), "a tuple of numbers is a text"),
        (("show", "(128,128):(1,128)", "-o", "a.tex"), "fix: write SVG with to_svg"),
        (("show", "(100000,10000):(1,100000)"), "with 1000000000 cells"),
        (("show", "(2,2,2,2,2)" + ":(1,2,4,8,16)"), "at most 4 modes"),
        (("show", "size(4)"), "fix: pass one of these"),
        (("tv", "(2,2):(1,4)", "(2,2)"), "inside the tile"),
        (("atoms", "--arch", "hopper"), "hopper"),
        (("atoms", "--arch", "sm_99"), "sm_121, with or without a suffix; fix: leave out --arch"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else "",
)
def test_bad_input_is_refused_in_one_line(run, arguments, words):
    code, output, error = run(*arguments)
    assert (code, output) == (REFUSED, "")
    assert words in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "text", ["mma(", "composition(4:1", "nope(4)", "<script>", "(", "4:1)" * 1000]
)
def test_text_that_is_no_expression_is_marked(run, text):
    code, output, error = run("show", text)
    assert (code, output) == (REFUSED, "")
    assert "Traceback" not in error
    assert "required:" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("tv",),
        ("tv", AMPERE, "--operand", "D"),
        ("tv", AMPERE, "--operand", "AB"),
        ("tv", AMPERE, "--operand", ""),
        ("mma", AMPERE, "--format", "gif"),
        ("copy", "UniversalCopy<64>", "--bits", "0"),
        ("atoms", "--format", "svg"),
    ],
    ids=" ".join,
)
def test_arguments_that_do_not_fit_exit_with_2(run, arguments):
    code, output, error = run(*arguments)
    assert (code, output) == (2, "")
    assert error.startswith("usage: cute-py")
