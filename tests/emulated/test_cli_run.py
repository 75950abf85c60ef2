"""`cute-py run`: every operator at the command line."""

import io

import numpy as np
import pytest

from cute_py.cli.main import main
from cute_py.ops import operators

CALLS = {
    "activation": ["5x40", "--name", "gelu"],
    "attention": ["1x5x2x8", "1x7x2x8", "1x7x2x8", "--type", "f16", "--causal", "top_left"],
    "attention_varlen": ["5x2x8", "7x2x8", "7x2x8", "Q.npy", "K.npy", "--causal", "top_left"],
    "attention_with_kvcache": ["1x1x2x8", "2x7x2x8", "2x7x2x8", "1", "1x2", "--type", "f16"],
    "conv2d": ["2x6x7x8", "8x3x3x8", "--padding", "same", "--stride", "2,1", "--type", "f16"],
    "conv2d_dgrad": ["2x6x7x8", "8x3x3x8", "--x-shape", "2,6,7,8", "--padding", "1"],
    "conv2d_wgrad": ["2x6x7x8", "2x6x7x8", "--w-shape", "8,3,3,8", "--padding", "1"],
    "gemm": ["9x16", "16x8", "--alpha", "2"],
    "reduce": ["5x40", "--op", "max", "--dim", "0,-1"],
    "softmax": ["5x40", "--dim", "0", "--type", "bf16"],
    "transpose": ["2x5x40", "--type", "s8"],
}


def ran(capsys, *words):
    code = main(["run", *words])
    return code, capsys.readouterr()


@pytest.mark.parametrize("name", sorted(CALLS))
def test_an_operator_runs_by_its_declaration(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file, starts in {"Q": [0, 2, 5], "K": [0, 4, 7]}.items():
        np.save(f"{file}.npy", np.array(starts, np.int32))
    assert sorted(operators()) == sorted(CALLS)
    code, said = ran(capsys, name, *CALLS[name], "--check")
    assert code == 0, said
    assert [line.split()[0] for line in said.out.splitlines()] == [
        "config",
        "plan",
        "time",
        "error",
    ]
    assert "within the bound" in said.out


def test_files_are_read_and_written(tmp_path, capsys):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "x.npy", x)
    given, made = str(tmp_path / "x.npy"), tmp_path / "y.npy"
    assert ran(capsys, "reduce", given, "--dim", "1", "--keepdim", "-o", str(made))[0] == 0
    np.testing.assert_array_equal(np.load(made), x.sum(1, keepdims=True))
    assert ran(capsys, "transpose", given, "-o", str(made), "--config", "family=elements")[0] == 0
    np.testing.assert_array_equal(np.load(made), x.T)


def test_files_of_another_byte_order_are_compared(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.arange(12, dtype=">f4").reshape(3, 4))
    assert ran(capsys, "reduce", str(tmp_path / "x.npy"), "--dim", "0", "--check")[0] == 0


def test_options_have_hyphens(capsys):
    assert ran(capsys, "gemm", "4x32", "32x4", "--fast-accum")[0] == 0


def test_messages_stay_out_of_the_data(capfdbinary):
    assert main(["run", "reduce", "4x4", "--dim", "0", "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert np.load(io.BytesIO(out)).shape == (4,)
    assert err.startswith(b"config ")
    assert b"wrote    -: f32 (4)" in err


def test_a_type_that_files_lack_is_refused_before_anything_is_computed(tmp_path, capsys):
    made = tmp_path / "y.npy"
    code, said = ran(capsys, "softmax", "4x4", "--type", "bf16", "-o", str(made))
    assert (code, said.out, made.exists()) == (2, "", False)
    assert "bf16 results, which numpy.load alone does not know" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["softmax", "4x4", "--dim", "2"],
            "cute.ops.softmax: given dim=2 of an array",
        ),
        (["softmax", "4x4", "--dim", "x"], "required: modes; fix: write 0,-1"),
        (["reduce", "4", "--op", "sum"], "cute.ops.reduce: given op='sum'"),
        (["reduce", "missing.npy"], "run: given missing.npy: No such file"),
        (["softmax", "4x4", "--type", "f23"], "f23"),
        (["none", "4x4"], "required: one of"),
        (["reduce", "0x4", "--dim", "0", "--checks", "bogus"], "given checks='bogus'"),
        (["reduce", "0x4", "--dim", "0", "--config", "bogus"], "config: given 'bogus'"),
    ],
)
def test_what_is_wrong_is_refused(words, said, capsys):
    code, output = ran(capsys, *words)
    assert code == 2
    assert said in output.err


def test_a_wrong_result_exits_with_1(capsys, monkeypatch):
    problem = operators()["softmax"].problem
    monkeypatch.setattr(problem, "reference", staticmethod(lambda x, **_named: x))
    code, said = ran(capsys, "softmax", "4x4", "--check")
    assert code == 1
    assert "OUTSIDE OF THE BOUND" in said.out


def test_results_without_elements_need_no_kernel(capsys):
    code, said = ran(capsys, "reduce", "4x0", "--dim", "1", "--check")
    assert code == 0
    assert "plan     none: no kernel: filled with 0" in said.out


def test_integers_of_floats_are_checked_as_they_are_computed(capsys):
    code, said = ran(capsys, "reduce", "4x8", "--out-dtype", "s32", "--check")
    assert code == 0, said


def test_what_has_no_default_is_required(capsys):
    code, said = ran(capsys, "activation", "4x8")
    assert code == 2
    assert "--name" in said.err
    assert "inspect" not in said.err
