"""The cache folder: private, limited in size, and nobody else's files are touched."""

import os
import stat
import time
import warnings

import pytest

import cute_py as cute
from cute_py.cli.main import REFUSED, main
from cute_py.codegen.cache import files
from cute_py.codegen.cache.files import clear, kept, limit, trim

posix = pytest.mark.skipif(os.name != "posix", reason="needs the permissions of POSIX")
HOUR = 3600


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a cache folder that is not there yet."""
    monkeypatch.setenv("CUTE_PY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CUTE_PY_CACHE", raising=False)
    monkeypatch.delenv("CUTE_PY_CACHE_SIZE", raising=False)
    monkeypatch.setattr(files, "_warned", set())
    return tmp_path / "cache"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def kernel(place, digit, size, age=0):
    """Write a file of the cache that was last used `age` seconds ago."""
    return aged(place / "kernels" / f"{digit * 64}.kernel", size, age)


def source(place, digit, size, age=0):
    return aged(place / "sources" / (digit * 16) / "gemm.py", size, age)


def aged(path, size, age):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (time.time() - age,) * 2)
    return path


def refused(call, code="cache-folder"):
    with pytest.raises(cute.CuteError) as caught:
        call()
    assert caught.value.code == code
    return str(caught.value)


def test_a_kernel_of_a_long_name_is_kept(place):
    """In characters that take four bytes each."""
    path = files.source_file("\U00020000" * 200, "text")
    assert path.read_text() == "text"
    assert kept()


# -- who may write


@posix
def test_folders_are_made_for_this_user_alone(place):
    before = os.umask(0)
    try:
        inner = files.folder("kernels")
        path = files.source_file("gemm", "pass\n")
    finally:
        os.umask(before)
    assert [mode(p) for p in (place, inner, path.parent.parent, path.parent)] == [0o700] * 4
    assert mode(path) == 0o600


@posix
def test_an_inner_folder_is_made_private_again(place):
    inner = files.folder("kernels")
    inner.chmod(0o777)
    assert mode(files.folder("kernels")) == 0o700


@posix
def test_a_folder_that_others_can_write_to_is_refused(place):
    place.mkdir()
    place.chmod(0o777)
    assert "others can write to it" in refused(lambda: files.folder("kernels"))
    assert mode(place) == 0o777  # it may serve other ends


@posix
def test_a_folder_of_another_user_is_refused(place, monkeypatch):
    place.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert "belongs to another user" in refused(lambda: files.folder("kernels"))


@posix
def test_a_link_in_place_of_an_inner_folder_is_refused(place, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    place.mkdir(mode=0o700)
    (place / "kernels").symlink_to(tmp_path / "elsewhere")
    assert "not a folder of this user" in refused(lambda: files.folder("kernels"))


def test_a_file_in_place_of_a_folder_is_refused(place):
    place.write_text("")
    assert "File exists" in refused(lambda: files.folder("kernels"))


@posix
def test_only_plain_files_of_this_user_are_read(tmp_path, monkeypatch):
    plain, link, pipe = tmp_path / "plain", tmp_path / "link", tmp_path / "pipe"
    files.write_whole(plain, b"data")
    link.symlink_to(plain)
    os.mkfifo(pipe)
    assert files.read_own(plain) == b"data"
    assert files.read_own(tmp_path / "none") is None
    assert [files.read_own(path) for path in (link, pipe, tmp_path)] == [b""] * 3
    plain.chmod(0o620)
    assert files.read_own(plain) == b""
    plain.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: plain.stat().st_uid + 1)
    assert files.read_own(plain) == b""


def test_without_a_home_the_folder_is_a_temporary_one(monkeypatch):
    def homeless():
        raise RuntimeError("no home")

    monkeypatch.delenv("CUTE_PY_CACHE_DIR")
    monkeypatch.setattr(files, "_user_caches", homeless)
    assert files.place().name.startswith("cute_py-")


# -- sources


def test_a_source_is_written_once_and_mended(place):
    path = files.source_file("gemm", "pass\n")
    assert path.read_text() == "pass\n"
    assert files.source_file("gemm", "pass\n") == path != files.source_file("gemm", "return\n")
    path.write_text("damaged")
    assert files.source_file("gemm", "pass\n").read_text() == "pass\n"


def test_a_source_has_its_path_where_none_can_be_written(place, monkeypatch):
    path = files.source_file("gemm", "pass\n")
    clear()
    monkeypatch.setenv("CUTE_PY_CACHE", "0")
    assert files.source_file("gemm", "pass\n") == path
    assert not path.exists()
    monkeypatch.delenv("CUTE_PY_CACHE")
    place.rename(place.with_name("moved"))
    place.write_text("a file")
    with pytest.warns(RuntimeWarning, match="the cache on disk is not used"):
        assert files.source_file("gemm", "pass\n") == path
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert files.source_file("gemm", "pass\n") == path  # warned once


# -- how much


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("", 1 << 30), ("0", 0), ("4096", 4096), ("2k", 2048), (" 3M ", 3 << 20), ("5G", 5 << 30)],
)
def test_limit_is_read(place, monkeypatch, text, bytes_):
    monkeypatch.setenv("CUTE_PY_CACHE_SIZE", text)
    assert limit() == bytes_


@pytest.mark.parametrize("text", ["1 TB", "-1", "1.5G", "GB", "\N{SUPERSCRIPT TWO}"])
def test_a_limit_that_cannot_be_read_is_refused(place, monkeypatch, text):
    monkeypatch.setenv("CUTE_PY_CACHE_SIZE", text)
    assert repr(text) in refused(limit, "cache-size")


def test_the_least_recently_used_goes_first(place):
    old, middle = kernel(place, "a", 100, age=30), source(place, "b", 100, age=20)
    new = kernel(place, "c", 100, age=10)
    assert [file.path for file in kept()] == [old, middle, new]
    assert trim(300) == 0
    assert trim(250) == 1
    assert [file.path for file in kept()] == [middle, new]
    assert trim(100) == 1
    assert [file.path for file in kept()] == [new]
    assert not middle.parent.exists()


def test_parts_go_when_nobody_writes_them_any_more(place):
    left = aged(place / "kernels" / ".abc.part", 10, 2 * HOUR)
    source_part = aged(place / "sources" / ("a" * 16) / ".abc.part", 10, 2 * HOUR)
    being_written = aged(place / "kernels" / ".def.part", 10, 60)
    assert trim(0) == 2
    assert [path.exists() for path in (left, source_part, being_written)] == [False, False, True]


def test_clear_takes_what_the_cache_wrote_and_nothing_else(place):
    kernel(place, "a", 100)
    source(place, "b", 50)
    aged(place / "kernels" / ".abc.part", 10, 0)
    others = [
        aged(place / "sources" / "my_package" / "module.py", 10, 9 * HOUR),
        aged(place / "kernels" / "mine.kernel", 10, 9 * HOUR),
        aged(place / "notes.txt", 10, 9 * HOUR),
    ]
    assert trim(0) == 2
    kernel(place, "a", 100)
    assert clear() == (2, 110)
    assert kept() == []
    assert sorted(path for path in place.rglob("*") if path.is_file()) == sorted(others)


def test_clear_of_no_folder_makes_none(place):
    assert clear() == (0, 0)
    assert not place.exists()


def test_a_folder_in_place_of_an_entry_is_removed(place):
    path = place / "kernels" / ("a" * 64 + files.ENTRY)
    (path / "inner").mkdir(parents=True)
    files.remove(path)
    assert not path.exists()


# -- cute-py cache


def test_command_tells_and_clears(place, capsys):
    kernel(place, "a", 100)
    source(place, "b", 50)
    assert main(["cache"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines == {
        "folder": str(place),
        "entries": "1 kernels, 2 files in all",
        "bytes": "150",
        "limit": f"{1 << 30} bytes",
    }
    assert main(["cache", "--clear"]) == 0
    assert "2 files, 150 bytes" in capsys.readouterr().out
    assert kept() == []


def test_command_tells_that_the_cache_is_off(place, monkeypatch, capsys):
    monkeypatch.setenv("CUTE_PY_CACHE", "0")
    assert main(["cache"]) == 0
    assert "off, by CUTE_PY_CACHE=0" in capsys.readouterr().out


@posix
def test_command_leaves_the_folder_of_another_user_alone(place, monkeypatch, capsys):
    path = kernel(place, "a", 100)
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert main(["cache", "--clear"]) == REFUSED
    assert "belongs to another user" in capsys.readouterr().err
    assert path.exists()


@pytest.mark.parametrize("step", ["replace", "utime"])
def test_a_file_is_written_although_others_clear_the_cache_again_and_again(
    place, monkeypatch, step
):
    first = files.source_file("k", "text")
    original, left = getattr(os, step), [5]

    def cleared(*args, **named):
        if left[0]:
            left[0] -= 1
            clear()
        return original(*args, **named)

    if step == "replace":
        clear()
    monkeypatch.setattr(os, step, cleared)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert files.source_file("k", "text") == first
    assert first.read_text() == "text"
    assert left == ([0] if step == "replace" else [4])
