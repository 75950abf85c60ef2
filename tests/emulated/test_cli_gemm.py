"""`cute-py gemm` and `cute-py plan gemm`: files and generated data, refusals with exit code 2."""

import io
import os
import pickle
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.cli.gemm_command import WRONG
from cute_py.cli.main import REFUSED, main
from cute_py.cli.output import Bar
from cute_py.ops import memory
from cute_py.ops.call import Call
from cute_py.plan import verify


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Return `run(*arguments)`: exit code, output, error output; in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = main([str(x) for x in arguments])
        return code, *capsys.readouterr()

    return call


def saved(**arrays):
    """Save arrays as name.npy in the current folder, and return them."""
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    return list(arrays.values())


def integers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def facts(output):
    """Return the lines `name   text` by name."""
    return dict(line.split(maxsplit=1) for line in output.splitlines() if line)


# -- results


def test_gemm_of_files_writes_f32_that_numpy_loads(run):
    a, b = saved(a=integers(33, 40), b=integers(40, 21))
    code, output, error = run("gemm", "a.npy", "b.npy", "-o", "d.npy", "--dtype", "bf16")
    assert (code, error) == (0, "")
    result = np.load("d.npy", allow_pickle=False)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, a @ b)
    told = facts(output)
    assert list(told) == ["config", "plan", "time", "error", "wrote"]
    assert told["config"].startswith("SM80_16x8x16_F32BF16BF16F32_TN tile=64x32x32 warps=2x2")
    assert told["plan"].startswith("1 blocks of 128 threads, ")
    assert told["time"].endswith(" s on the emulator")
    assert told["error"] == "max abs 0, relative 0 (Frobenius) against NumPy"
    assert told["wrote"] == "d.npy: f32 (33,21)"


def test_gemm_with_all_terms(run):
    a, b, c, bias = saved(
        a=integers(2, 9, 40), b=integers(40, 16), c=integers(9, 16), bias=integers(16)
    )
    terms = ("--c", "c.npy", "--bias", "bias.npy", "--alpha", "2", "--beta", "-1")
    code, _, _ = run(
        "gemm", "a.npy", "b.npy", "-o", "d.npy", *terms, "--activation", "relu", "--out-dtype=f16"
    )
    assert code == 0
    result = np.load("d.npy")
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, np.maximum(2 * (a @ b) - c + bias, 0))


@pytest.mark.parametrize("kind", ["f16", "tf32", "f32", "f64", "s8", "u8", "e4m3", "e5m2", None])
def test_gemm_of_generated_data_is_within_the_bound(run, kind):
    chosen = () if kind is None else ("--dtype", kind)
    code, output, _ = run("gemm", "--m", 40, "--n", 56, "--k", 100, "--check", *chosen)
    assert code == 0
    assert "within the bound" in facts(output)["error"]
    assert os.listdir() == []


def test_check_fails_with_its_own_code(run, monkeypatch):
    good = Call.run
    monkeypatch.setattr(Call, "run", lambda self, **options: good(self, **options) + 1)
    code, output, _ = run("gemm", "--m", 8, "--n", 8, "--k", 8, "--check")
    assert code == WRONG
    assert "OUTSIDE OF THE BOUND" in output
    assert run("gemm", "--m", 8, "--n", 8, "--k", 8)[0] == 0


def test_generated_data_follows_the_seed(run):
    for seed, name in ((1, "x"), (1, "y"), (2, "z")):
        run("gemm", "--m", 8, "--n", 8, "--k", 8, "--seed", seed, "-o", name)
    x, y, z = (np.load(name) for name in "xyz")
    assert (x == y).all()
    assert (x != z).any()


def test_report_counts_by_line(run):
    code, output, _ = run("gemm", "--m", 8, "--n", 8, "--k", 8, "--report")
    assert code == 0
    table = output[output.index("line ") :].splitlines()
    assert table[0].split()[:3] == ["line", "instructions", "mma"]
    assert any(row.startswith("gemm.py:") for row in table)
    assert table[-1].startswith("total")


def test_changes_to_the_configuration(run):
    code, output, _ = run(
        "gemm", "--m", 64, "--n", 64, "--k", 64, "--config", "tile=32x64x32,stages=3"
    )
    assert code == 0
    assert "tile=32x64x32 warps=2x2 stages=3" in facts(output)["config"]


def test_empty_products(run):
    code, output, _ = run("gemm", "--m", 0, "--n", 4, "--k", 3, "-o", "d.npy", "--report")
    assert code == 0
    assert facts(output)["plan"] == "none: the result is empty"
    assert np.load("d.npy").shape == (0, 4)
    assert run("gemm", "--m", 3, "--n", 4, "--k", 0, "-o", "d.npy")[0] == 0
    np.testing.assert_array_equal(np.load("d.npy"), np.zeros((3, 4)))


def test_nan_and_inf_are_no_errors(run):
    a = np.ones((4, 4), np.float32)
    a[0, 0], a[1, 1] = np.nan, np.inf
    saved(a=a, b=np.ones((4, 4), np.float32))
    code, output, _ = run("gemm", "a.npy", "b.npy", "-o", "d.npy", "--check")
    assert code == 0
    assert facts(output)["error"].startswith("max abs 0, relative 0")
    assert np.isnan(np.load("d.npy")[0]).all()
    assert np.isposinf(np.load("d.npy")[1]).all()


def test_column_major_files(run):
    a, b = saved(a=np.asfortranarray(integers(20, 30)), b=np.asfortranarray(integers(30, 10)))
    code, output, _ = run("gemm", "a.npy", "b.npy", "-o", "d.npy", "--dtype", "f16")
    assert code == 0
    assert "A=MNx4 B=Kx2 cp.async" in facts(output)["config"]
    np.testing.assert_array_equal(np.load("d.npy"), a @ b)


def test_a_result_without_a_file_may_have_any_type(run):
    code, output, _ = run("gemm", "--m", 8, "--n", 8, "--k", 8, "--out-dtype", "bf16", "--check")
    assert code == 0
    assert "within the bound" in output


def test_plan_prints_the_rules_and_the_ops(run):
    code, output, _ = run("plan", "gemm", "--m", 128, "--n", 128, "--k", 64, "--dtype", "f16")
    assert code == 0
    lines = output.splitlines()
    assert lines[0].startswith("# SM80_16x8x16_F32F16F16F32_TN tile=128x128x32")
    assert "plan gemm" in lines
    assert sum("SM80_16x8x16_F32F16F16F32_TN x 16" in line for line in lines) >= 4
    assert any("ldmatrix" in line and "SM75_U16x8_LDSM_T" in line for line in lines)


def test_the_command_of_the_readme_in_a_process(tmp_path):
    command = [sys.executable, "-c", "from cute_py.cli.main import main; raise SystemExit(main())"]
    done = subprocess.run(
        [*command, "gemm", "--m", "512", "--n", "512", "--k", "512"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "16 blocks of 128 threads" in done.stdout


# -- the bar


class Terminal:
    def __init__(self, stream):
        self.stream = stream

    def isatty(self):
        return True

    def __getattr__(self, name):
        return getattr(self.stream, name)


def test_a_bar_appears_on_a_terminal_if_much_is_left(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal(sys.stderr))
    with Bar("multiplying", "blocks") as bar:
        bar.update(5, 10)
        assert bar.shown is None
        bar.start -= 100
        bar.update(5, 10)
        assert bar.shown is not None
        bar.update(10, 10)
    assert "multiplying" in capsys.readouterr().err


def test_no_bar_in_the_first_second(monkeypatch):
    """The first iteration is slow: what it says of the rest is no ground for a bar."""
    monkeypatch.setattr(sys, "stderr", Terminal(sys.stderr))
    with Bar("multiplying", "blocks") as bar:
        bar.start -= 0.5
        bar.update(0.001, 1)
        assert bar.shown is None


def test_no_bar_without_a_terminal(capsys):
    with Bar("multiplying", "blocks") as bar:
        bar.start -= 100
        bar.update(5, 10)
    assert capsys.readouterr().err == ""


# -- refusals


def refused(run, *arguments, left=()):
    """Run a command that is refused: one line, exit code 2, and no file left behind."""
    before = sorted(os.listdir())
    code, output, error = run("gemm", *arguments)
    assert (code, output) == (REFUSED, "")
    assert error.count("\n") == 1
    assert sorted(os.listdir()) == before
    return error


def test_operands_that_are_missing_or_no_arrays_are_refused(run):
    saved(a=integers(4, 4))
    text = refused(run, "a.npy", "x.npy")
    assert text.startswith("gemm: given x.npy: No such file or directory; required: a file of one")
    assert "a file of one array of numbers, as numpy.save writes it" in text
    Path("text.npy").write_text("no array")
    assert "given text.npy: not an array file" in refused(run, "a.npy", "text.npy")
    Path("empty.npy").touch()
    assert "given empty.npy: not an array file" in refused(run, "a.npy", "empty.npy")
    Path("short.npy").write_bytes(Path("a.npy").read_bytes()[:-8])
    assert "short.npy: the file is shorter than its header" in refused(run, "a.npy", "short.npy")
    np.savez("z.npz", integers(3))
    assert "given z.npz: not an array file" in refused(run, "a.npy", "z.npz")
    os.mkdir("folder")
    assert "given folder: Is a directory" in refused(run, "a.npy", "folder")


class Trap:
    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def test_objects_are_never_unpickled(run):
    saved(a=integers(1, 1), trap=np.array([[Trap()]], object))
    assert "Python objects, which is never unpickled" in refused(run, "a.npy", "trap.npy")
    Path("pickle.npy").write_bytes(pickle.dumps(Trap()))
    assert "not an array file" in refused(run, "a.npy", "pickle.npy")
    assert not os.path.exists("unpickled")


def test_operands_that_are_not_given_are_refused(run):
    text = "required: two .npy files, or --m, --n and --k for generated data"
    for arguments in ([], ["a.npy"], ["--m", 3], ["a.npy", "b.npy", "--k", 3]):
        assert text in refused(run, *arguments)


def test_shapes_and_types_that_do_not_fit_are_refused(run):
    saved(a=integers(4, 5), b=integers(4, 5), s=np.array(["x"]), i=np.ones((5, 5), int))
    assert "given a of shape (4,5) and b of shape (4,5)" in refused(run, "a.npy", "b.npy")
    assert "given ndarray of <U1 as b" in refused(run, "a.npy", "s.npy")
    assert "given operands of f32 and s64" in refused(run, "a.npy", "i.npy")
    generated = ("--m", 4, "--n", 5, "--k", 3)
    assert "given 'f17' (str) as a dtype" in refused(run, *generated, "--dtype", "f17")
    assert "given activation='cube'" in refused(run, *generated, "--activation", "cube")
    assert "given bias of shape (4,5)" in refused(run, *generated, "--bias", "a.npy")
    refused(run, *generated, "--config", "tile=7")
    assert "given a, b on the host" in refused(run, *generated, "--backend", "gpu")


@pytest.mark.parametrize(
    "array",
    [
        np.float32(1),
        np.ones(4, "f4"),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([["2020-01-01"]], "M8[D]"),
        np.zeros((3, 3), "m8[s]"),
        np.zeros((3, 3), "c8"),
        np.zeros((3, 3), "U3"),
        np.zeros((3, 3), "S3"),
        np.zeros((3, 3), "V2"),
        np.zeros((3, 3), [("x", "f4")]),
    ],
    ids=lambda x: f"{x.dtype}{x.shape}",
)
def test_what_is_no_matrix_of_numbers_is_refused_before_it_is_read(run, monkeypatch, array):
    saved(good=integers(3, 3), odd=array)
    monkeypatch.setattr(np, "load", lambda *_args, **_named: pytest.fail("read"))
    for pair in (("odd.npy", "good.npy"), ("good.npy", "odd.npy")):
        text = refused(run, *pair, "-o", "d.npy")
        assert "required: a matrix of numbers; fix: " in text
        assert "odd.npy" in text
    if array.dtype != np.float32:
        terms = ("good.npy", "good.npy", "--c", "odd.npy", "--beta", 1)
        assert "as c, read from odd.npy; required: an array of numbers" in refused(run, *terms)


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"


@pytest.mark.parametrize("version", [1, 2, 3, 9])
@pytest.mark.parametrize(
    "head",
    [
        *[HEADER % x for x in ("-3, 4", "2.5, 4", "0, 99999999999999999999", "10**9, 4", "4, 400")],
        *("(" * 2000, "{'descr'", "", HEADER % "4, 4" + "}", "a\n  b\n c", "\0" * 9),
    ],
    ids=lambda x: x[-20:] if isinstance(x, str) else x,
)
def test_files_with_a_broken_header_are_refused(run, head, version):
    saved(a=integers(4, 4))
    length = len(head).to_bytes(2 if version == 1 else 4, "little")
    Path("b.npy").write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + head.encode() + b"1234")
    assert "given b.npy: " in refused(run, "a.npy", "b.npy")


def test_a_truncated_file_is_refused(run):
    saved(a=integers(4, 4))
    whole = Path("a.npy").read_bytes()
    for size in (*range(0, 140, 7), len(whole) - 1):
        Path("b.npy").write_bytes(whole[:size])
        assert "given b.npy: " in refused(run, "a.npy", "b.npy")


PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


@PIPES
def test_what_is_no_plain_file_is_written_through_and_not_read(run):
    os.mkfifo("p")
    os.symlink("p", "l")
    (a,) = saved(a=integers(4, 4))
    reader = os.open("p", os.O_RDONLY | os.O_NONBLOCK)  # the pipe holds what is written
    for path in ("p", "l"):
        assert run("gemm", "a.npy", "a.npy", "-o", path)[0] == 0
        np.testing.assert_array_equal(np.load(io.BytesIO(os.read(reader, 1 << 16))), a @ a)
        assert f"given {path}: a pipe, no plain file" in refused(run, "a.npy", path)
    os.close(reader)
    assert stat.S_ISFIFO(os.stat("p").st_mode)
    assert run("gemm", "a.npy", "a.npy", "-o", os.devnull)[0] == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert sorted(os.listdir()) == ["a.npy", "l", "p"]


@PIPES
def test_a_link_stays_and_its_file_is_replaced(run):
    (a,) = saved(a=integers(4, 4))
    saved(real=a)
    os.chmod("real.npy", 0o600)
    os.mkdir("folder")
    os.symlink("real.npy", "link")
    os.symlink("../link", "folder/second")
    os.symlink("new.npy", "dangling")
    for link, file in (
        ("link", "real.npy"),
        ("folder/second", "real.npy"),
        ("dangling", "new.npy"),
    ):
        assert run("gemm", "a.npy", "a.npy", "-o", link)[0] == 0
        assert os.path.islink(link)
        np.testing.assert_array_equal(np.load(file), a @ a)
        saved(real=a)
    assert stat.S_IMODE(os.stat("real.npy").st_mode) == 0o600
    os.symlink("circle", "circle")
    assert "Too many levels of symbolic links" in refused(run, "a.npy", "a.npy", "-o", "circle")


def test_names_that_are_no_files_are_refused(run):
    saved(a=integers(4, 4))
    assert "given the file : an empty name" in refused(run, "a.npy", "a.npy", "-o", "")
    assert "given the file new/: Is a directory" in refused(run, "a.npy", "a.npy", "-o", "new/")


@pytest.mark.parametrize(
    "config", ["stages=1000000", "tile=32x32x32,stages=200", f"stages={10**8}"]
)
@pytest.mark.parametrize("command", ["gemm", "plan gemm", "source gemm"])
def test_stages_that_fit_no_shared_memory_are_refused_at_once(run, monkeypatch, config, command):
    monkeypatch.setattr(verify, "verify", lambda plan: pytest.fail("traced to its end"))
    start = time.process_time()
    code, output, error = run(*command.split(), "--m", 8, "--n", 8, "--k", 8, f"--config={config}")
    assert (code, output) == (REFUSED, "")
    assert re.search(r"given \d+ bytes of shared memory; required: at most 232448 bytes", error)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("text", ["stages=" + "9" * 5000, "tile=1x1x" + "1" * 4301, "band=-1"])
def test_configurations_that_are_no_numbers_are_refused(run, text):
    arguments = ("--m", 8, "--n", 8, "--k", 8, "--config", text)
    assert "required: parts like tile=64x64x32" in refused(run, *arguments)


def test_a_long_product_tells_what_is_left(run, monkeypatch):
    clock = iter(range(0, 10**9, 2))
    monkeypatch.setattr("cute_py.cli.output.perf_counter", lambda: next(clock))
    code, output, _ = run("gemm", "--m", 1, "--n", 1, "--k", 4096)
    assert code == 0
    (line,) = [line for line in output.splitlines() if line.startswith("left ")]
    assert re.fullmatch(r"left     about \d+ s", line)
    assert output.index("plan ") < output.index("left ") < output.index("time ")


def test_sizes_that_no_memory_holds_are_one_line(run):
    for command in ("source copy", "compile transpose", "source gemm_01"):
        code, output, error = run(*command.split(), "--m", 2**31 - 1, "--n", 2**31 - 1)
        assert (code, output) == (REFUSED, "")
        assert "given sizes, for which memory ran out" in error
    assert run("gemm", "--m", 2**31 - 1, "--n", 0, "--k", 0)[0] == 0


def test_results_that_cannot_be_written_are_refused_before_the_work(run, monkeypatch):
    monkeypatch.setattr(Call, "run", lambda *_args, **_named: pytest.fail("worked"))
    generated = ("--m", 4, "--n", 5, "--k", 3)
    assert "No such file" in refused(run, *generated, "-o", "nowhere/d.npy")
    assert "Is a directory" in refused(run, *generated, "-o", ".")
    text = refused(run, *generated, "-o", "d.npy", "--out-dtype", "bf16")
    assert "given -o with bf16 results, which numpy.load alone does not know" in text
    saved(d=integers(3))
    monkeypatch.setattr(os, "access", lambda *_args: False)
    assert "Permission denied" in refused(run, *generated, "-o", "d.npy")


def test_a_failure_leaves_the_old_file_and_nothing_else(run, monkeypatch):
    (old,) = saved(d=integers(3))

    def fail(*_args, **_named):
        raise KeyboardInterrupt

    monkeypatch.setattr(Call, "run", fail)
    assert run("gemm", "--m", 4, "--n", 5, "--k", 3, "-o", "d.npy")[0] == 130
    assert os.listdir() == ["d.npy"]
    np.testing.assert_array_equal(np.load("d.npy"), old)


def test_too_little_memory_is_refused_before_the_arrays_are_made(run):
    text = refused(run, "--m", 10**9, "--n", 10**9, "--k", 10**9)
    assert "required: at most the " in text
    assert "GiB that are free" in text


def test_memory_that_runs_out_is_one_line(run, monkeypatch):
    def fail(*_args, **_named):
        raise MemoryError

    monkeypatch.setattr(Call, "run", fail)
    code, _, error = run("gemm", "--m", 4, "--n", 5, "--k", 3, "-o", "d.npy")
    assert code == REFUSED
    assert "given a product, for which memory ran out" in error
    assert error.count("\n") == 1
    assert os.listdir() == []


def test_an_unknown_amount_of_memory_refuses_nothing(run, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert run("gemm", "--m", 4, "--n", 5, "--k", 3)[0] == 0


def test_an_empty_plan_is_refused(run):
    code, _, error = run("plan", "gemm", "--m", 0, "--n", 5, "--k", 3)
    assert code == REFUSED
    assert "given an empty product" in error


def test_types_of_files(run):
    assert cute.dtype("f32").numpy == np.float32
    for kind in ("f64", "s32", "s8", "u8"):
        code, _, _ = run(
            "gemm", "--m", 4, "--n", 5, "--k", 3, "--dtype=u8", f"--out-dtype={kind}", "-o", "d.npy"
        )
        assert code == 0
        assert np.load("d.npy").dtype == cute.dtype(kind).numpy
