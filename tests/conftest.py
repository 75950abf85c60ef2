"""Test groups, the seconds that a test may take, options and Hypothesis profiles.

A test's group is its folder: tests/pure, emulated, compile_only, torch, browser, gpu; everything
else (doctests, tests/slow, the tests next to this file) is pure. What lies in tests/slow is also
marked slow. CONTRIBUTING.md says how to run each group.
"""

import ctypes
import faulthandler
import gc
import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
GROUPS = ("pure", "emulated", "compile_only", "torch", "browser", "gpu")
SECONDS = 1.0  # of processor time, of a test that is not slow; its fixtures are not counted
HANGS = 600  # seconds after which a test on a GPU ends its process: xdist fails it, and goes on
NOISE = 1.5  # times what a test takes on a quiet machine, where others use its caches
YARDSTICK = 0.1  # seconds of `slowness`, where that was set
STDERR = pytest.StashKey[int]()
# How many registers a kernel takes is up to the compilers that are installed.
SPILLS = "ignore:.* bytes per thread spill to local memory:RuntimeWarning"

# quick: the same few examples each time, here and in CI. long: fresh ones each night (`--slow`).
settings.register_profile("quick", derandomize=True, max_examples=50, deadline=None)
settings.register_profile("hundreds", max_examples=400, deadline=None)  # of kernels for a GPU
settings.register_profile(
    "long",
    max_examples=5_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("CUTE_PY_HYPOTHESIS_PROFILE", "quick"))


def pytest_addoption(parser):
    group = parser.getgroup("cute_py")
    group.addoption("--slow", action="store_true", help="run the tests marked slow as well")
    group.addoption(
        "--seconds",
        type=float,
        default=SECONDS,
        help=f"processor time that a test may take without --slow ({SECONDS}; 0: any)",
    )
    group.addoption(
        "--hangs",
        type=float,
        default=HANGS,
        help=f"seconds after which a test on a GPU ends its process, at most ({HANGS})",
    )
    group.addoption(
        "--update-golden", action="store_true", help="rewrite golden files instead of comparing"
    )


def pytest_configure(config):
    """Keep stderr as it is before output is captured: what hangs is told there."""
    config.stash[STDERR] = os.dup(2)


def pytest_collection_modifyitems(config, items):
    kept, left_out = [], []
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid}: an address, another one in each process")
        folder = folder_of(item.path)
        item.add_marker(folder if folder in GROUPS else "pure")
        if folder == "slow":
            item.add_marker("slow")
        if folder == "gpu":
            item.add_marker(pytest.mark.filterwarnings(SPILLS))
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            left_out.append(item)
        else:
            kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_collection_finish():
    """Leave what is there before the first test to no garbage collection: thousands of items, and
    the modules of all tests. Each would take a good part of a second, of whichever test it is in.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item, nextitem):
    """Do the same with what a file leaves behind, such as kernels: it grows with every file."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_runtest_setup(item):
    if item.get_closest_marker("torch") and find_spec("torch") is None:
        pytest.skip("needs torch")
    if not item.get_closest_marker("gpu") or os.environ.get("CUTE_PY_GPU_DRY"):
        return
    capability = compute_capability()
    if capability is None:
        pytest.skip("no NVIDIA GPU on this machine")
    if item.get_closest_marker("sm80") and capability < (8, 0):
        pytest.skip(f"needs compute capability 8.0 or newer, this GPU has {capability}")
    if item.get_closest_marker("sm90") and capability != (9, 0):
        pytest.skip(f"needs compute capability 9.0, this GPU has {capability}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test that passed, but took more than its seconds.

    Processor time does not grow with what else a machine does, but for caches and cores that are
    shared: up to NOISE times. Not counted: fixtures, tests on a GPU, which wait for it, and of
    torch, parts of which load for seconds; `--slow` counts nothing, its Hypothesis profile may be
    the long one.
    """
    start, path = processor_seconds(), [*sys.path]
    if item.get_closest_marker("gpu"):
        there = item.config.stash[STDERR]
        faulthandler.dump_traceback_later(seconds_of(item), exit=True, file=there)
    try:
        result = yield
    finally:
        sys.path[:] = path  # modules of its files are of no other test
    faulthandler.cancel_dump_traceback_later()
    used, most = processor_seconds() - start, item.config.getoption("--seconds")
    free = item.config.getoption("--slow") or any(map(item.get_closest_marker, ("gpu", "torch")))
    if 0 < NOISE * most < used and not free and NOISE * most * slowness() < used:
        pytest.fail(
            f"took {used:.2f} s of processor time, its processes included; a test that is not slow "
            f"takes at most {most} s: split it, share a fixture, or mark it slow",
            pytrace=False,
        )
    return result


def seconds_of(item):
    """Return after how many seconds a test on a GPU hangs."""
    marker = item.get_closest_marker("hangs")
    return min(item.config.getoption("--hangs"), *(marker.args if marker else ()), HANGS)


def processor_seconds():
    """Return the processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def slowness():
    """Return how many times slower than the machine that the limit was set on this one is now."""
    start = processor_seconds()
    for _ in range(3):
        sum(i % 7 for i in range(1_000_000))
    return max(1.0, (processor_seconds() - start) / YARDSTICK)


def folder_of(path):
    """Return the first folder below tests on the way to a file, "" if there is none."""
    folders = path.relative_to(TESTS).parts[:-1] if path.is_relative_to(TESTS) else ()
    return folders[0] if folders else ""


@cache
def compute_capability():
    """Return (major, minor) of the first GPU, None without a driver or a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    calls = (
        lambda: driver.cuInit(0),
        lambda: driver.cuDeviceGet(ctypes.byref(device), 0),
        lambda: driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device),  # ..._MAJOR
        lambda: driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device),  # ..._MINOR
    )
    return (major.value, minor.value) if all(call() == 0 for call in calls) else None


@pytest.fixture(scope="session", autouse=True)
def _kernels_of_this_run(tmp_path_factory):
    """Keep compiled kernels in a folder of this run, and out of the user's; show no stages.

    The processes of pytest-xdist share it: each has a folder of its own in that of the run.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUTE_PY_CACHE_DIR", str(folder / "kernels"))
        for name in ("CUTE_PY_CACHE", "CUTE_PY_CACHE_SIZE", "CUTE_PY_DEBUG"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _ops_are_checked():
    """Let `cute.ops` run on the emulator with all checks, in every test and doctest."""
    try:
        from cute_py.ops.libraries import NumPy
    except ImportError:  # a test run without NumPy
        yield
        return
    run = NumPy.run

    def checked(self, call, **options):
        return run(self, call, **options | {"checks": options.get("checks") or True})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumPy, "run", checked)
        yield


@pytest.fixture
def golden(request):
    """Return `check(path, text)`: text equals the file tests/golden/path, or is written to it."""
    update = request.config.getoption("--update-golden")

    def check(path, text):
        file = TESTS / "golden" / path
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        assert file.is_file(), f"{file.name} is missing; pytest --update-golden writes it"
        assert text == file.read_text(encoding="utf-8"), (
            f"differs from {file.name}; if the change is wanted: pytest --update-golden"
        )

    return check
