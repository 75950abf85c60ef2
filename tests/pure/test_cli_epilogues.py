"""`cute-py show` of an epilogue: its steps, their price, and its gradients."""

from importlib.util import find_spec

import pytest

import cute_py as cute
from cute_py import epilogues
from cute_py.cli.arguments import module_of
from cute_py.cli.main import main

FILE = """
import cute_py as cute
def gated(sums, bias, residual, scale=2.0):
    gate, up = cute.pairs(sums + bias)
    y = gate * up * scale + residual
    return {"D": y, "most": cute.reduce("max", y, mode=1)}
"""


def mixed(sums):
    return cute.pairs(sums)[0] + sums


def shown(capsys, *words):
    code = main(["show", *words])
    found = capsys.readouterr()
    assert (code == 0) is not bool(found.err)
    return code, found.out + found.err


def test_an_epilogue_of_a_file_is_shown(capsys, tmp_path):
    file = tmp_path / "my.py"
    file.write_text(FILE)
    _code, text = shown(capsys, f"{file}:gated", "--given", "scale")
    assert text.startswith(
        "gated, about 3 instructions an element:\n  (sums, bias, residual, scale)"
    )
    assert "  t1: f32 = first(t0)\n" in text
    assert "combined by a second kernel:\n  most: max over columns\n" in text
    gradients = text.partition("gradients:\n")[2].splitlines()
    assert gradients[0] == "  (sums, bias, residual, scale, gradient0, gradient1): f32"
    assert [x.partition("=")[0] for x in gradients[-1].split(", ")] == [
        *("  return of_sums", "of_bias", "of_residual", "of_scale")
    ]
    _code, text = shown(capsys, f"{file}:gated", "-o", str(tmp_path / "a.txt"))
    assert text == ""
    assert "mul(t3, 2.0)" in (tmp_path / "a.txt").read_text()


def test_each_epilogue_with_a_name_is_shown(capsys):
    for name in epilogues.__all__:
        if name != "SCALE_TYPES":
            _code, text = shown(capsys, f"epilogues.{name}")
            assert text.startswith(f"{name}, about "), name
            assert "return of_sums=" in text, name


@pytest.mark.parametrize(("words", "said"), [
    (["epilogues.relo"], "did you mean relu"),
    (["epilogues."], "epilogues.NAME"),
    (["epilogues.SCALE_TYPES"], "not a function"),
    (["nowhere.py:relu"], "not a function"),
    ([f"{__file__}:nothing"], "not a function"),
    (["epilogues.relu", "--given", "slope"], "slope"),
    (["epilogues.relu", "--format", "svg"], "as text"),
    ([f"{__file__}:mixed"], "values of N and of N/2 columns in `add`"),
])  # fmt: skip
def test_what_is_no_epilogue_is_an_error(capsys, words, said):
    code, text = shown(capsys, *words)
    assert code == 2
    assert said in text


def test_neighbours_of_a_file_hide_no_module_of_the_standard_library(tmp_path):
    (tmp_path / "colorsys.py").write_text("")
    (tmp_path / "neighbour_of_mine.py").write_text("value = 3")
    (tmp_path / "mine.py").write_text("from neighbour_of_mine import value")
    assert module_of(str(tmp_path / "mine.py")).value == 3
    assert find_spec("neighbour_of_mine").origin == str(tmp_path / "neighbour_of_mine.py")
    assert find_spec("colorsys").origin != str(tmp_path / "colorsys.py")
