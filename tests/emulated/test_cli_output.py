"""Files that the commands write: whole, through pipes, devices and links, or refused."""

import io
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from cute_py.cli.main import REFUSED, main
from cute_py.cli.output import Output
from cute_py.ops.product import Product, Request, taken

COMMAND = [sys.executable, "-m", "cute_py"]
SMALL = ("gemm", "--m", "4", "--n", "4", "--k", "4")
# every command that writes a file, without its path
WRITING = {
    "gemm": (*SMALL, "-o"),
    "tv": ("tv", "SM80_16x8x8_F32F16F16F32_TN", "--format", "svg", "-o"),
    "mma": ("mma", "SM80_16x8x8_F32F16F16F32_TN", "-o"),
    "copy": ("copy", "UniversalCopy<32>", "-o"),
    "atoms": ("atoms", "--arch", "sm_80", "-o"),
}
POSIX = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes and signals")
EVERY = pytest.mark.parametrize("name", WRITING)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Return `run(name, path)`: exit code, output, error output; in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(name, path):
        return main([*WRITING[name], str(path)]), *capsys.readouterr()

    return call


def written(run, name):
    """Return what a command writes to a new file."""
    assert run(name, "new")[0] == 0
    data = Path("new").read_bytes()
    os.unlink("new")
    return data


@EVERY
def test_a_plain_file_is_replaced_and_keeps_its_permissions(run, name):
    data = written(run, name)
    mask = os.umask(0o027)
    try:
        run(name, "fresh")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(os.stat("fresh").st_mode) == 0o640
    for mode in (0o600, 0o664):
        Path("old").write_bytes(b"old" * 1000)
        os.chmod("old", mode)
        before = os.stat("old").st_ino
        with open("old", "rb") as reader:  # who reads the old file goes on to read it
            assert run(name, "old")[0] == 0
            assert reader.read(3) == b"old"
        found = os.stat("old")
        assert (stat.S_IMODE(found.st_mode), found.st_ino != before) == (mode, True)
        assert Path("old").read_bytes() == data
    assert sorted(os.listdir()) == ["fresh", "old"]


@POSIX
@EVERY
def test_links_and_pipes_and_devices_are_written_through(run, name):
    data = written(run, name)
    os.symlink("real", "link")
    os.symlink("link", "second")
    for path in ("link", "second"):
        Path("real").write_bytes(b"old")
        assert run(name, path)[0] == 0
        assert os.path.islink(path)
        assert Path("real").read_bytes() == data
    os.mkfifo("pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append(Path("pipe").read_bytes()))
    reader.start()
    assert run(name, "pipe")[0] == 0
    reader.join()
    assert found == [data]
    assert run(name, os.devnull)[0] == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@EVERY
def test_paths_that_are_no_files_are_refused(run, name):
    os.mkdir("folder")
    Path("file").write_bytes(b"old")
    rows = {
        "": "an empty name",
        "folder": "Is a directory",
        "new/": "Is a directory",
        ".": "Is a directory",
        "nowhere/file": "No such file or directory",
        "file/file": "Not a directory",
        "x" * 300: "File name too long",
        "a\0b": "null",
    }
    for path, reason in rows.items():
        code, _, error = run(name, path)
        assert (code, error.count("\n")) == (REFUSED, 1)
        assert error.startswith("-o: given the file ")
        assert reason in error
    assert sorted(os.listdir()) == ["file", "folder"]


def test_a_folder_without_room_for_a_new_file_has_its_file_written_in_place(run, monkeypatch):
    data = written(run, "atoms")
    Path("old").write_bytes(b"old")
    before = os.stat("old").st_ino

    def refuse(**_named):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert run("atoms", "old")[0] == 0
    assert Path("old").read_bytes() == data
    assert os.stat("old").st_ino == before
    assert "Permission denied" in run("atoms", "new")[2]


def test_nothing_is_replaced_by_nothing(tmp_path):
    path = tmp_path / "old"
    path.write_bytes(b"old")
    with Output(str(path)):
        assert len(os.listdir(tmp_path)) == 2
    with pytest.raises(TypeError), Output(str(path)) as file:
        file.write(b"new" + None)
    assert (os.listdir(tmp_path), path.read_bytes()) == (["old"], b"old")


@POSIX
def test_a_disk_that_is_full_is_a_refusal(run):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    code, _, error = run("gemm", "/dev/full")
    assert code == REFUSED
    assert "given the file /dev/full: No space left on device" in error


WAITING = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # not ignored, as below nohup
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from cute_py.cli.output import Output
from cute_py.ops.product import Product, Request, taken
with Output(sys.argv[1]) as file:
    file.write(b"new")
    print("begun", flush=True)
    time.sleep(60)
"""


@POSIX
@pytest.mark.parametrize(
    "name", ["SIGTERM", "SIGINT", pytest.param("SIGHUP", marks=pytest.mark.slow)]
)
def test_a_signal_leaves_the_old_file_alone(tmp_path, name):
    path, number = tmp_path / "old", getattr(signal, name)
    path.write_bytes(b"old")
    command = [sys.executable, "-c", WAITING, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"begun\n"
        assert len(os.listdir(tmp_path)) == 2
        process.send_signal(number)
        assert process.wait(30) in (128 + number, -number)
    assert (os.listdir(tmp_path), path.read_bytes()) == (["old"], b"old")


@POSIX
def test_handlers_of_the_caller_stay(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with Output(str(tmp_path / "x")):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    found = []
    thread = threading.Thread(target=lambda: found.append(Output(str(tmp_path / "y")).__enter__()))
    thread.start()
    thread.join()
    found[0].__exit__(None, None, None)
    assert os.listdir(tmp_path) == []


@POSIX
@pytest.mark.parametrize(("kind", "name"), [("pipe", "/dev/stdout"), ("file", "-")])
def test_the_standard_output_takes_the_array_alone(tmp_path, kind, name):
    """What the command tells goes to the standard error then."""
    if name != "-" and not os.path.exists(name):
        pytest.skip(f"needs {name}")
    with open(tmp_path / "d.npy", "wb") as file:
        done = subprocess.run(
            [*COMMAND, *SMALL, "-o", name],
            cwd=tmp_path,
            stdout=subprocess.PIPE if kind == "pipe" else file,
            stderr=subprocess.PIPE,
            check=True,
        )
    data = done.stdout if kind == "pipe" else (tmp_path / "d.npy").read_bytes()
    assert np.load(io.BytesIO(data)).shape == (4, 4)
    assert f"wrote    {name}: f32 (4,4)".encode() in done.stderr
    assert os.listdir(tmp_path) == ["d.npy"]


# -- numbers without a bound


@pytest.mark.parametrize(
    "config",
    ["stages=1000000", "band=10000000", "band=999999999", "pdl=1,prefetch=999999999",
     "min_blocks=999999999", "spill_bytes=999999999", "store=99999999", "tile=65536x64x32",
     "tile=999999968x999999968x999999968", "warps=999999x1", "tile=32x32x999999968"],
)  # fmt: skip
def test_huge_numbers_of_a_configuration_take_no_time(capsys, config):
    start = time.process_time()
    code = main([*SMALL, "--config", config])
    assert code in (0, REFUSED)
    assert time.process_time() - start < 1
    error = capsys.readouterr().err
    assert error.count("\n") == (code == REFUSED)


def test_a_band_that_extends_past_m_has_no_empty_blocks():
    a, b = np.ones((64, 8), np.float16), np.ones((8, 32), np.float16)
    for given, wanted in ((10_000_000, 0), (3, 0), (2, 2), (1, 1)):
        request = Request(a, b, config=f"tile=32x32x32,band={given}")
        assert Product(*taken(request)).call().config.band == wanted
