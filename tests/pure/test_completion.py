"""`cute-py completion SHELL`: the script of shtab, and what is said without shtab."""

import shutil
import subprocess
import sys

import pytest

from cute_py.atoms.registry import names
from cute_py.cli.installation_commands import SHELLS
from cute_py.cli.main import COMMANDS, REFUSED, main


@pytest.fixture
def run(capsys):
    """Return `run(*arguments)`: exit code, output, error output."""

    def call(*arguments):
        code = main(arguments)
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("shell", SHELLS)
def test_without_shtab_the_refusal_says_what_to_install(run, monkeypatch, shell):
    monkeypatch.setitem(sys.modules, "shtab", None)
    code, output, error = run("completion", shell)
    assert (code, output) == (REFUSED, "")
    given, required, fix = error.split("; ")
    assert given == "completion: given no package shtab"
    assert required == f"required: the package shtab, which writes what {shell} reads"
    assert fix == 'fix: pip install -U "cute-py[completion]"\n'


def test_a_shtab_that_does_not_know_the_shell_is_refused(run, monkeypatch):
    shtab = pytest.importorskip("shtab")
    monkeypatch.setattr(shtab, "SUPPORTED_SHELLS", ["bash"])
    code, output, error = run("completion", "fish")
    assert (code, output) == (REFUSED, "")
    assert f"given shtab {shtab.__version__}, an older one; required" in error


def test_a_shell_that_is_not_known_is_refused(run):
    code, output, error = run("completion", "bsh")
    assert (code, output) == (REFUSED, "")
    assert "required: one of bash, zsh, fish, tcsh; fix: did you mean bash" in error


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_holds_commands_and_names(run, shell):
    pytest.importorskip("shtab")
    code, output, error = run("completion", shell)
    assert (code, error) == (0, "")
    for word in (*COMMANDS, "gemm_07", "SM61_DP4A", "sm_90a", "SM75_U32x4_LDSM_N", "bf16"):
        assert word in output


OFFERED = {
    (): list(COMMANDS),
    ("comp",): ["compile", "completion"],
    ("mma", "SM80_16x8x16"): [x for x in names() if x.startswith("SM80_16x8x16")],
    ("tv", "SM61_DP4A", "--operand", ""): ["A", "B", "C"],
    ("copy", "UniversalCopy<1"): ["UniversalCopy<16>", "UniversalCopy<128>"],
    ("source", "gemm_0"): [f"gemm_0{i}" for i in range(1, 10)],
    ("atoms", "--arch", "sm_9"): ["sm_90", "sm_90a"],
    ("source", "gemm", "--dtype", "bf"): ["bf16"],
    ("gemm", "here"): ["here.npy"],
    ("completion", "z"): ["zsh"],
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_as_the_script_says(run, tmp_path):
    pytest.importorskip("shtab")
    (tmp_path / "here.npy").touch()
    lines = [run("completion", "bash")[1]]
    for words in OFFERED:
        typed = " ".join(f"'{word}'" for word in words or ("",))
        lines.append(f"COMP_WORDS=(cute-py {typed}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))")
        lines.append('COMPREPLY=(); _shtab_cute_py; echo "${COMPREPLY[@]}"')
    script = tmp_path / "script"
    script.write_text("\n".join(lines))
    done = subprocess.run(
        ["bash", script], cwd=tmp_path, capture_output=True, encoding="utf-8", check=True
    )
    assert [line.split() for line in done.stdout.splitlines()] == list(OFFERED.values())
