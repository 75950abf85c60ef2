"""The cache with the real compiler: right kernels, fast hits, many processes and threads."""

import errno
import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

import cute_py as cute
from cute_py.codegen import build, frontend
from cute_py.codegen.cache import counts, files, load
from cute_py.codegen.cache.entry import pack, unpack
from cute_py.codegen.cache.files import clear
from cute_py.codegen.cache.key import ABOVE, _signature
from cute_py.kernels import gemm_07_multistage
from tests.compile_only.ladder import spilling
from tests.fake_kernels import answer, at_once, code, entries, parts, small_plan

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTE_PY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CUTE_PY_CACHE", raising=False)
    monkeypatch.delenv("CUTE_PY_CACHE_SIZE", raising=False)
    monkeypatch.setattr(files, "_warned", set())
    counts.clear()
    return tmp_path / "cache"


@pytest.fixture
def flagship(tmp_path):
    """Return the file of a plan."""
    a, c = np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float32)
    config = gemm_07_multistage.flagship()
    path = tmp_path / "flagship.plan"
    cute.trace(gemm_07_multistage.gemm_multistage, a, a, c, config).save(path)
    return path


HIT = """
import sys
from cute_py import Plan, compile
from cute_py.codegen.cache import counts
plan = Plan.load(sys.argv[1])
compiled = compile(plan, "sm_80")
print(dict(counts), compiled.resources, len(compiled.cubin))
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_a_hit_in_another_process_loads_no_compiler(place, flagship):
    built = cute.compile(cute.Plan.load(flagship), "sm_80")
    result, loaded = answer(HIT, str(flagship)).splitlines()
    assert result == f"{ {'hit': 1} } {built.resources} {len(built.cubin)}"
    assert not {"numba", "numba_cuda", "llvmlite", "numpy", "cuda"} & set(loaded.split())
    kept = cute.compile(cute.Plan.load(flagship), "sm_80")
    assert kept == built
    assert kept.resources.cubin == built.resources.cubin == built.cubin


USED = """
import sys
from cute_py import Plan, compile
compile(Plan.load(sys.argv[1]), "sm_80")
print(*sorted(name for name in sys.modules if name.startswith("cute_py.")))
"""


@pytest.fixture
def loaded(flagship):
    """Return the modules that a process loads which compiles a kernel."""
    return answer(USED, str(flagship), CUTE_PY_CACHE="0").split()


def test_the_key_names_all_modules_that_make_a_kernel(loaded):
    homes = {name.split(".")[1] for name in loaded}
    assert "codegen" in homes
    assert not homes & ABOVE
    root = Path(build.__file__).parents[1]
    counted = {Path(path).relative_to(root) for path, _size, _time in _signature()}
    every = {path.relative_to(root) for path in root.rglob("*.py")}
    assert counted == {path for path in every if path.parts[0] not in ABOVE}


def module(path, number):
    """Return the kernel of a file that was just written."""
    path.write_text(
        "import cute_py as cute\n"
        "@cute.kernel\n"
        "def kernel(x):\n"
        "    cute.launch(grid=1, block=32)\n"
        f"    x[cute.thread_idx()] = {number}\n"
    )
    spec = importlib.util.spec_from_file_location("user_module", path)
    loaded = importlib.util.module_from_spec(spec)
    exec(compile(path.read_text(), str(path), "exec"), loaded.__dict__)
    return loaded.kernel


def test_no_stale_kernel_after_the_source_changes(place, tmp_path):
    x = np.zeros(64, np.float32)
    found = {}
    for number in ("3.0", "5.0", "3.0", "5.0"):
        plan = cute.trace(module(tmp_path / "user.py", number), x)
        compiled = cute.compile(plan, "sm_80")
        assert found.setdefault(number, compiled) == compiled
    assert found["3.0"].cubin != found["5.0"].cubin
    assert "0f40400000" in found["3.0"].ptx or "1077936128" in found["3.0"].ptx
    assert counts == {"miss": 2, "stored": 2, "hit": 2}


def test_a_hit_has_its_source_in_a_file_again(place):
    compiled = cute.compile(small_plan(), "sm_80")
    (path,) = place.glob("sources/*/filled.py")
    assert f'.file\t1 "{path}"' in compiled.ptx
    assert str(path.parent).encode() in compiled.cubin
    path.unlink()
    assert cute.compile(small_plan(), "sm_80") == compiled
    assert counts["hit"] == 1
    assert path.read_text() == compiled.source


@pytest.fixture
def kept(place):
    """Return a kernel that spills, compiled once."""
    return cute.compile(spilling(), "sm_80", spill_bytes=1 << 16)


def test_gates_hold_for_kernels_that_were_kept(place, kept):
    for _ in range(2):
        spilled = cute.compile(kept.plan, "sm_80", spill_bytes=1 << 16).resources.spill_bytes
        assert spilled == kept.resources.spill_bytes > 0
        with pytest.raises(cute.CuteError) as caught:
            cute.compile(kept.plan, "sm_80", spill_bytes=spilled - 1)
        assert caught.value.code == "codegen-spills"
    assert counts == {"miss": 3, "stored": 1, "hit": 2}
    assert len(entries(place)) == 1


def test_a_cache_that_is_off_writes_nothing(place, monkeypatch):
    monkeypatch.setenv("CUTE_PY_CACHE", "0")
    assert cute.compile(small_plan(), "sm_80").cubin[:4] == b"\x7fELF"
    assert not place.exists()


def test_a_damaged_entry_is_compiled_anew(place):
    first = cute.compile(small_plan(), "sm_80")
    (path,) = entries(place)
    path.write_bytes(path.read_bytes().replace(b"\x7fELF", b"\x7fELG"))
    assert code(cute.compile(small_plan(), "sm_80")) == code(first)
    assert counts["damaged"] == 1


NUMBERS = {"registers": 1, "spill_bytes": 0, "stack_bytes": 0, "smem_bytes": 0}
OTHER_PARTS = (
    *({"cubin": "\x7fELF"}, {"ptx": b"ret;"}, {"log": {}}, {"more": "part"}, {"resources": "[]"}),
    *({"resources": {}}, {"resources": NUMBERS | {"smem_bytes": "0"}}),
    *({"resources": NUMBERS | {"registers": True}}, {"resources": NUMBERS | {"more": 1}}),
)


def test_an_entry_with_parts_of_other_types_is_no_kernel(place):
    """Its hash is right: it is whole, but nobody stored it."""
    cute.compile(small_plan(), "sm_80")
    (path,) = entries(place)
    whole = path.read_bytes()
    parts = unpack(path.stem, whole)
    missing = [{name: x for name, x in parts.items() if name != each} for each in parts]
    for wrong in (*[parts | other for other in OTHER_PARTS], *missing):
        path.write_bytes(pack(path.stem, wrong))
        assert load(path.stem, small_plan(), "sm_80") is None
        assert not path.exists()
    path.write_bytes(whole)
    assert load(path.stem, small_plan(), "sm_80") is not None


def test_a_full_disk_does_not_stop_a_compile(place, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "_write", full)
    with pytest.warns(RuntimeWarning, match=os.strerror(errno.ENOSPC)) as said:
        first, second = (cute.compile(small_plan(), "sm_80") for _ in range(2))
    assert code(first) == code(second)
    assert len(said) == 1
    assert entries(place) == []


TOGETHER = """
import hashlib
import cute_py as cute
from tests.compile_only.ladder import spilling
from tests.fake_kernels import small_plan
plan = small_plan(7.0)
print("ready", flush=True)
input()
compiled = cute.compile(plan, "sm_80")
print(hashlib.sha256(compiled.cubin).hexdigest())
"""


@pytest.mark.slow  # each loads the compiler; in tests/pure/test_cache.py processes only store
def test_eight_processes_compile_one_kernel_at_once(place):
    cubins = at_once(8, TOGETHER)
    assert len(set(cubins)) == 1
    assert len(entries(place)) == 1
    assert parts(place) == []
    cute.compile(small_plan(7.0), "sm_80")
    assert counts == {"hit": 1}


THREADS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import cute_py as cute
from cute_py.codegen.cache import counts
from tests.compile_only.ladder import spilling
from tests.fake_kernels import code, small_plan
plans = [small_plan(float(n % 2)) for n in range(8)]
start = Barrier(8)
def work(plan):
    start.wait()
    return cute.compile(plan, "sm_80")
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(work, plans))
assert [each.plan for each in found] == plans
texts = [code(each) for each in found]
assert len(set(texts)) == 2 and texts[:2] * 4 == texts
print(counts["miss"])
"""


@pytest.fixture
def missed(place, on):
    """Return how many kernels that process did not find in the cache."""
    return answer(THREADS, CUTE_PY_CACHE=on)


@pytest.mark.parametrize(
    ("on", "misses"), [("1", "2"), pytest.param("0", "0", marks=pytest.mark.slow)]
)
def test_the_first_compile_of_a_process_may_be_of_eight_threads(place, missed, misses):
    assert missed == misses
    assert len(entries(place)) == int(misses)


def test_a_source_that_is_gone_before_numba_reads_it_is_in_memory(place, monkeypatch):
    """Another thread cleared the cache; without its lines Numba would warn, an error here."""
    plan = small_plan(2.0)
    right = code(cute.compile(plan, "sm_80"))
    clear()

    def compiled(plan, function, *more):
        Path(function.__code__.co_filename).unlink()
        return compiles(plan, function, *more)

    compiles = frontend._compiled
    monkeypatch.setattr(frontend, "_compiled", compiled)
    assert code(cute.compile(plan, "sm_80")) == right


def test_threads_compile_and_clear_at_once(place):
    """One thread empties the cache while others compile: all kernels are right."""
    right = {n: code(cute.compile(small_plan(float(n)), "sm_80")) for n in range(2)}
    start = Barrier(3)

    def work(n):
        start.wait()
        for _ in range(6):
            if n == 2:
                clear()
            else:
                assert code(cute.compile(small_plan(float(n)), "sm_80")) == right[n]
        return n

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == [0, 1, 2]
