"""The cache of compiled kernels under stress; `fake` stands for the compiler."""

import errno
import os
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import cute_py as cute
from cute_py.codegen import cache
from cute_py.codegen.cache import cached, counts, files
from tests.fake_kernels import at_once, entries, fake, kept, parts, python, small_plan

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTE_PY_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CUTE_PY_CACHE", raising=False)
    monkeypatch.delenv("CUTE_PY_CACHE_SIZE", raising=False)
    monkeypatch.setattr(files, "_warned", set())
    tmp_path.chmod(0o700)
    counts.clear()
    return tmp_path


def require_right(*numbers):
    for number in numbers:
        assert kept(small_plan(number)) == fake(small_plan(number))


def test_what_is_kept_is_what_was_built(place):
    plan = small_plan()
    built = fake(plan, log="ptxas info: \N{MICRO SIGN}\n", cubin=bytes(range(256)))
    first = cached(lambda: built, plan, "sm_80", spill_bytes=0)
    again = cached(lambda: pytest.fail("built twice"), plan, "sm_80", spill_bytes=0)
    assert first is built
    assert again == built
    assert again is not built
    assert counts == {"miss": 1, "stored": 1, "hit": 1}


def test_no_stale_kernel_after_a_change(place):
    for number in (1.0, 2.0, 1.0, 2.0):
        plan = small_plan(number)
        assert kept(plan).source == fake(plan).source
    assert counts == {"miss": 2, "stored": 2, "hit": 2}


def test_a_refusal_is_not_kept(place):
    def refuse():
        raise cute.CuteError("spills")

    for _ in range(2):
        with pytest.raises(cute.CuteError, match="spills"):
            cached(refuse, small_plan(), "sm_80", spill_bytes=0)
    assert entries(place) == []
    assert counts == {"miss": 2}


def test_a_kernel_of_another_spill_limit_is_no_hit(place):
    plan = small_plan()
    for most in (0, 8):
        cached(lambda: fake(plan), plan, "sm_80", spill_bytes=most)
    assert counts["hit"] == 0


def test_the_cache_can_be_turned_off(place, monkeypatch):
    monkeypatch.setenv("CUTE_PY_CACHE", "0")
    kept(small_plan())
    assert list(place.iterdir()) == []
    assert not counts


# -- entries that are not what was written


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path):
    path.write_bytes(b"")


def linked(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def made_a_folder(path):
    path.unlink()
    (path / "inner").mkdir(parents=True)


def made_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def opened_to_others(path):
    path.chmod(0o666)


def swapped(path):
    kept(small_plan(2.0))
    (other,) = set(entries(path.parents[1])) - {path}
    other.replace(path)


@posix
@pytest.mark.parametrize(
    "damage",
    [flipped, cut, emptied, linked, made_a_folder, made_a_pipe, opened_to_others, swapped],
)
def test_a_damaged_entry_is_built_anew(place, damage):
    plan = small_plan()
    kept(plan)
    (path,) = entries(place)
    damage(path)
    counts.clear()
    assert kept(plan) == fake(plan)
    assert counts == {"damaged": 1, "miss": 1, "stored": 1}
    assert entries(place) == [path]
    assert path.is_file()
    assert not path.is_symlink()
    kept(plan)
    assert counts["hit"] == 1


def test_entries_with_other_fields_are_built_anew(place, monkeypatch):
    plan = small_plan()
    monkeypatch.setattr(cache, "_parts", lambda _: {"resources": {"registers": 1}, "ptx": ""})
    kept(plan)
    monkeypatch.undo()
    os.environ["CUTE_PY_CACHE_DIR"] = str(place)
    assert kept(plan) == fake(plan)


# -- size


def test_the_size_limit_holds_and_what_is_used_stays(place, monkeypatch):
    plans = [small_plan(float(n)) for n in range(4)]
    for plan in plans[:3]:
        kept(plan)
    size = sum(path.stat().st_size for path in entries(place))
    most = size + size // 3 - 10  # three entries, and the source that a hit writes again
    monkeypatch.setenv("CUTE_PY_CACHE_SIZE", str(most))
    for age, path in enumerate(sorted(entries(place))):
        os.utime(path, (time.time() - 100 - age,) * 2)
    kept(plans[0])  # used last
    kept(plans[3])
    assert sum(file.size for file in files.kept()) <= most
    assert len(entries(place)) == 3
    counts.clear()
    kept(plans[0])
    kept(plans[3])
    assert counts == {"hit": 2}


def test_an_entry_beyond_the_limit_is_not_kept(place, monkeypatch):
    kept(small_plan())
    monkeypatch.setenv("CUTE_PY_CACHE_SIZE", "100")
    kept(small_plan(2.0))
    assert counts["not stored"] == 1
    assert len(entries(place)) == 1


def test_a_limit_that_cannot_be_read_is_refused_before_compiling(place, monkeypatch):
    monkeypatch.setenv("CUTE_PY_CACHE_SIZE", "much")
    with pytest.raises(cute.CuteError) as caught:
        cached(lambda: pytest.fail("built"), small_plan(), "sm_80", spill_bytes=0)
    assert caught.value.code == "cache-size"


# -- disks and folders that fail


class Full:
    """A file on a disk that has room for half of what is written."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, data):
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_costs_one_warning(place, monkeypatch):
    opened = os.fdopen
    monkeypatch.setattr(
        os, "fdopen", lambda fd, mode, **k: Full(opened(fd, mode)) if mode == "wb" else opened(fd)
    )
    with pytest.warns(RuntimeWarning, match=os.strerror(errno.ENOSPC)) as said:
        require_right(1.0, 2.0, 1.0)
    assert len(said) == 1
    assert counts == {"miss": 3, "not stored": 3}
    assert entries(place) == parts(place) == []


def test_a_read_only_folder_gives_hits_and_one_warning(place, monkeypatch):
    def read_only(*_args, **_named):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    kept(small_plan(1.0))
    for name in ("utime", "replace", "unlink", "mkdir"):
        monkeypatch.setattr(os, name, read_only)
    monkeypatch.setattr(files.tempfile, "mkstemp", read_only)
    counts.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept(small_plan(1.0))
    assert counts == {"hit": 1}
    with pytest.warns(RuntimeWarning, match=os.strerror(errno.EROFS)) as said:
        require_right(2.0, 3.0)
    assert len(said) == 1


@posix
def test_the_folder_of_another_user_is_not_used(place, monkeypatch):
    kept(small_plan())
    counts.clear()
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user") as said:
        require_right(1.0, 1.0)
    assert len(said) == 1
    assert counts == {"miss": 2}


def test_a_folder_that_cannot_be_made_costs_one_warning(place, monkeypatch):
    (place / "file").write_text("")
    monkeypatch.setenv("CUTE_PY_CACHE_DIR", str(place / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="the cache on disk is not used") as said:
        require_right(1.0, 1.0)
    assert len(said) == 1


# -- several processes

STOPS = """
import os, sys, time
from tests.fake_kernels import kept, small_plan
def stop(*_):
    print("writing", flush=True)
    time.sleep(600)
class Half:
    def __init__(self, file): self.file = file
    def __enter__(self): return self
    def __exit__(self, *_): self.file.close()
    def write(self, data):
        self.file.write(data[:len(data) // 2])
        self.file.flush()
        stop()
opened = os.fdopen
if sys.argv[1] == "half":
    os.fdopen = lambda fd, mode, **k: Half(opened(fd, mode)) if mode == "wb" else opened(fd, mode)
else:
    os.replace = stop
kept(small_plan())
"""


@posix
@pytest.mark.parametrize("where", ["half", "before the rename"])
def test_a_process_that_is_killed_while_it_writes_harms_nobody(place, where):
    with python(STOPS, where) as process:
        assert process.stdout.readline() == "writing\n", process.stderr.read()
        process.send_signal(signal.SIGKILL)
    assert entries(place) == []
    (left,) = parts(place)
    plan = small_plan()
    assert kept(plan) == fake(plan)
    assert len(entries(place)) == 1
    assert counts == {"miss": 1, "stored": 1}
    assert parts(place) == [left]  # it may still be written, for all that is known
    os.utime(left, (time.time() - 7200,) * 2)
    kept(small_plan(2.0))
    assert parts(place) == []


TOGETHER = """
from tests.fake_kernels import fake, kept, small_plan
from cute_py.codegen.cache import counts
plan = small_plan(9.0)
print("ready", flush=True)
input()
assert kept(plan, cubin=bytes(1 << 20)) == fake(plan, cubin=bytes(1 << 20))
for number in range(5):
    assert kept(small_plan(float(number))) == fake(small_plan(float(number)))
assert not counts["damaged"] + counts["not stored"]
print("right")
"""


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_processes_write_the_same_entries(place, count):
    assert at_once(count, TOGETHER) == ["right"] * count
    assert len(entries(place)) == 6
    assert parts(place) == []
    kept(small_plan(4.0))
    assert counts == {"hit": 1}


CLEARED = """
from tests.fake_kernels import fake, kept, small_plan
from cute_py.codegen.cache.files import clear, source_file
print("ready", flush=True)
input()
for number in range(12):
    plan = small_plan(float(number % 3))
    assert kept(plan) == fake(plan)
    source_file("filled", f"pass  # {number % 3}")
    clear()
print("right")
"""


def test_processes_that_clear_each_others_files_go_on(place):
    """A part that is cleared while it is written is written again, or given up with a warning."""
    text = "import warnings; warnings.simplefilter('ignore')" + CLEARED
    assert at_once(2, text) == ["right"] * 2


# -- several threads


def test_threads_build_one_at_a_time_and_each_plan_once(place):
    plans = [small_plan(float(n % 4)) for n in range(8)]
    building, most, built = [], [], []
    start = Barrier(8)

    def build(plan):
        building.append(plan)
        most.append(len(building))
        time.sleep(0.02)
        built.append(plan)
        building.pop()
        return fake(plan)

    def work(plan):
        start.wait()
        return cached(lambda: build(plan), plan, "sm_80", spill_bytes=0)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, plans))
    assert results == [fake(plan) for plan in plans]
    assert max(most) == 1
    assert len(built) == 4
    assert counts == {"miss": 4, "stored": 4, "hit": 4}
