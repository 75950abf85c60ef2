"""What is installed for kernels on a GPU, and what is missing: facts, each with a mark.

Nothing heavy is imported: versions come from the metadata of packages, and requirements from the
metadata of cute-py. No probe raises; an error becomes the text of its fact.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from cute_py.codegen import toolchain
from cute_py.codegen.cache import files
from cute_py.codegen.driver import devices
from cute_py.errors import CuteError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    Version = tuple[int, ...]

OK, MISSING, WRONG, OLD = "ok", "missing", "wrong", "old"
EMULATOR, GPU = "emulator", "gpu"  # what a fact is needed for
BASE = 'pip install "cute-py"'
CUDA = 'pip install "cute-py[cuda]"'
TEST = 'pip install "cute-py[test]"'
PYTHON = (3, 11)
DRIVER = (13, 0)  # CUDA version that the driver must support: ptxas 13 makes the cubins
SHIM = (2, 5)  # the first NumPy without the function that numba-cuda 0.30 needs to compile
FOLDER = "set CUTE_PY_CACHE_DIR to a folder that you alone can write to"
SECONDS = 10  # for a tool to print its version


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the doctor.

    Attributes:
        name: the name of the component.
        mark: "ok", "missing", "wrong" or "old".
        text: version, path, reason.
        needed: what needs it: "emulator", "gpu" (which also needs all of "emulator"), or "".
        fix: how to fix it; a command if it begins with `pip`.
    """

    name: str
    mark: str
    text: str
    needed: str = ""
    fix: str = ""


def facts() -> list[Fact]:
    """Return all facts that need no test run, in well under two seconds."""
    return [fact for name, probe, needed in PROBES for fact in guarded(name, probe, needed)]


def guarded(name: str, probe: Callable[[], Iterable[Fact]], needed: str = "") -> list[Fact]:
    """Return the facts of a probe; if it raises, a wrong fact with the reason."""
    found = []
    try:
        for fact in probe():
            found.append(fact)
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        text = reason if isinstance(error, CuteError) else f"{type(error).__name__}: {reason}"
        found.append(Fact(name, WRONG, text, needed))
    return found


def works(found: list[Fact], what: str) -> bool:
    """Return whether everything is there that "emulator" or "gpu" needs."""
    return not failing(found, what)


def failing(found: list[Fact], what: str) -> list[str]:
    """Return the names of needed components that are missing."""
    needed = {EMULATOR} if what == EMULATOR else {EMULATOR, GPU}
    return [fact.name for fact in found if fact.mark != OK and fact.needed in needed]


def fixes(found: list[Fact]) -> list[str]:
    """Return all fixes, each once, for needed components first."""
    wanted = [fact for fact in found if fact.mark != OK and fact.fix]
    wanted.sort(key=lambda fact: (EMULATOR, GPU, "").index(fact.needed))
    return list(dict.fromkeys(fact.fix for fact in wanted))


# -- versions


def version_of(text: str) -> Version:
    """Return the leading numbers of a version: "13.0.88" is (13, 0, 88)."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found.group().split("."))) if found else ()


def judged(version: str, required: str) -> str:
    """Return the mark of a version for a requirement such as ">=0.30.4,<0.31" or "==13.0.*"."""
    have = version_of(version)
    for sign, text in re.findall(r"(>=|<=|==|!=|<|>)\s*([\d.]+)", required):
        want = version_of(text)
        width = max(len(have), len(want))
        a, b = ((*x, *[0] * (width - len(x))) for x in (have, want))
        if sign == "==" and have[: len(want)] != want:
            return OLD if a < b else WRONG
        if sign in (">=", ">") and (a < b or (sign == ">" and a == b)):
            return OLD
        if sign in ("<", "<=") and (a > b or (sign == "<" and a == b)):
            return WRONG
    return OK


def requirements() -> dict[str, str]:
    """Return package -> required versions, from the metadata of cute-py."""
    try:
        lines = metadata.requires("cute-py") or []
    except metadata.PackageNotFoundError:
        return {}
    found = [re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*([^;]*)", line) for line in lines]
    return {_plain(m.group(1)): m.group(2).strip() for m in found if m}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(name: str) -> str | None:
    """Return the version of an installed package, None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def package(name: str, needed: str, fix: str) -> Fact:
    """Return the fact of one package."""
    version, required = installed(name), requirements().get(_plain(name), "")
    if version is None:
        return Fact(name, MISSING, "not installed", needed, fix)
    mark = judged(version, required)
    text = version if mark == OK else f"{version}; required: {required}"
    return Fact(name, mark, text, needed, fix if mark != OK else "")


# -- the host


def _python() -> Iterator[Fact]:
    version = platform.python_version()
    mark = OK if sys.version_info[:2] >= PYTHON else OLD
    text = f"{version} on {platform.system()} {platform.machine()}"
    fix = f"use Python {PYTHON[0]}.{PYTHON[1]} or newer"
    yield Fact("Python", mark, text, EMULATOR, "" if mark == OK else fix)


def _cute_py() -> Iterator[Fact]:
    import cute_py

    yield Fact("cute_py", OK, f"{cute_py.__version__} in {Path(cute_py.__file__).parent}", EMULATOR)


def _base() -> Iterator[Fact]:
    for name in ("numpy", "ml_dtypes", "sympy", "rich"):
        yield package(name, EMULATOR, BASE)


# -- the compiler


def _compiler() -> Iterator[Fact]:
    if sys.platform != "linux":
        text = f"the GPU path runs on Linux, this is {platform.system()}"
        yield Fact("system", WRONG, text, GPU, "use Linux, or WSL")
    for name in ("numba", "numba-cuda", "llvmlite", "cuda-bindings", "cuda-core"):
        yield package(name, GPU, CUDA)


def _shim() -> Iterator[Fact]:
    numpy = installed("numpy")
    if numpy is None or installed("numba-cuda") is None:
        return
    needed = version_of(numpy) >= SHIM
    state = "applied, numba-cuda asks for np.row_stack" if needed else "not needed"
    yield Fact("NumPy shim", OK, f"{state} (NumPy {numpy})")


def _toolkit() -> Iterator[Fact]:
    library = _nvvm_library()
    nvvm = nvvm_version(library) if library else ()
    if library is None:
        yield Fact("NVVM", MISSING, "no libnvvm", GPU, CUDA)
    else:
        number = ".".join(map(str, nvvm)) if nvvm else "of unknown version"
        yield Fact("NVVM", OK, f"{number} in {library}", GPU)
    assembler = yield from _tool("ptxas", GPU, CUDA)
    yield from _tool("nvdisasm", "", TEST)
    if assembler and nvvm and nvvm[:2] > assembler[:2]:
        text = f"NVVM {_short(nvvm)} writes PTX that ptxas {_short(assembler)} cannot read"
        yield Fact("PTX", WRONG, text, GPU, CUDA)


def _short(version: Version) -> str:
    return ".".join(map(str, version[:2]))


def _nvvm_library() -> str | None:
    """Return the path of NVVM: in the packages, which Numba searches first, or in a toolkit."""
    names = ("lib/libnvvm.so*", "nvvm/lib64/libnvvm.so*", "lib64/libnvvm.so*")
    for folder in sorted(toolchain.places(), key=lambda place: not _is_packaged(place)):
        for name in names:
            found = sorted(Path(folder).parent.glob(name))
            if found:
                return str(found[0])
    return None


def _is_packaged(path: str) -> bool:
    return "nvidia" in Path(path).parts


def nvvm_version(library: str) -> Version:
    """Return the version of NVVM: that of the package or toolkit that has its library."""
    if _is_packaged(library):
        names = ("nvidia-nvvm", "nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12")
        return next((version_of(v) for v in map(installed, names) if v is not None), ())
    for folder in Path(library).resolve().parents:
        if (folder / "version.json").is_file():
            release = json.loads((folder / "version.json").read_text(encoding="utf-8"))
            return version_of(release["cuda"]["version"])
    return ()


def _tool(name: str, needed: str, fix: str) -> Generator[Fact, None, Version]:
    """Yield the fact of a CUDA tool, and return its version."""
    try:
        path = toolchain.tool(name)
    except CuteError:
        yield Fact(name, MISSING, "not found in CUDA_HOME, the packages or PATH", needed, fix)
        return ()
    command = [path, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    found = re.search(r"\bV(\d+(?:\.\d+)+)", done.stdout)
    if done.returncode or found is None:
        text = f"{path} does not print its version: {done.stderr.strip() or done.stdout.strip()}"
        yield Fact(name, WRONG, text[:200], needed, fix)
        return ()
    version = version_of(found.group(1))
    mark = OLD if needed and version[:1] < DRIVER[:1] else OK
    yield Fact(name, mark, f"{found.group(1)} in {path}", needed, fix if mark != OK else "")
    return version


# -- the driver and the GPUs


def _driver() -> Iterator[Fact]:
    fix = f"install an NVIDIA driver for CUDA {_short(DRIVER)} (580) or newer"
    try:
        library = devices.load()
        supported = devices.cuda_version(library)
    except devices.DriverError as error:
        yield Fact("driver", MISSING, str(error), GPU, fix)
        return
    mark = OK if supported >= DRIVER else OLD
    text = f"{_driver_version() or 'version unknown'}, for CUDA {_short(supported)}"
    yield Fact("driver", mark, text, GPU, "" if mark == OK else fix)
    try:
        found = devices.devices(library)
    except devices.DriverError as error:
        yield Fact("GPU", MISSING, str(error), GPU)
        return
    if not found:
        yield Fact("GPU", MISSING, "none that this process may use", GPU)
    for i, device in enumerate(found):
        yield _gpu(i, device)


def _gpu(i: int, device: devices.Device) -> Fact:
    major, minor = device.capability
    parts = [
        device.name,
        f"compute capability {major}.{minor}, compiled for {device.arch}",
        f"{device.memory / 2**30:.1f} GiB",
        f"{device.multiprocessors} multiprocessors",
        f"{device.shared} bytes of shared memory a block",
        *(["a part of a GPU (MIG)"] if "MIG" in device.name else []),
        f"compute mode {device.mode}",
    ]
    mark = OLD if device.capability < (7, 5) else OK
    if device.mode == devices.MODES[devices.PROHIBITED]:
        mark = WRONG
    return Fact(f"GPU {i}", mark, ", ".join(parts), GPU)


def _driver_version() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return found.group(1) if found else None


# -- arrays


def _torch() -> Iterator[Fact]:
    version = installed("torch")
    if version is None:
        yield Fact("torch", MISSING, "not installed; kernels take its tensors if it is")
        return
    cuda = _torch_cuda()
    if cuda is None:
        yield Fact("torch", WRONG, f"{version}, built without CUDA: its tensors are on the host")
        return
    yield Fact("torch", OK, f"{version}, for CUDA {cuda}")


def _torch_cuda() -> str | None:
    """Return the CUDA version that torch was built for, without importing torch."""
    spec = importlib.util.find_spec("torch")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        text = Path(folder, "version.py").read_text(encoding="utf-8")
        found = re.search(r"^cuda\b[^=]*= *['\"]([\d.]+)['\"]", text, re.MULTILINE)
        return found.group(1) if found else None
    return None


def _cupy() -> Iterator[Fact]:
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"):
        version = installed(name)
        if version is not None:
            digits = re.search(r"cuda(\d+)x", name)
            suffix = f", for CUDA {digits.group(1)}" if digits else ""
            yield Fact("CuPy", OK, f"{version}{suffix}")
            return
    yield Fact("CuPy", MISSING, "not installed; kernels take its arrays if it is")


# -- the cache


def _cache() -> Iterator[Fact]:
    """Yield the fact of the cache. Without a cache, each process compiles its kernels again."""
    if not files.is_on():
        yield Fact("cache", OK, "off, by CUTE_PY_CACHE=0")
        return
    try:
        folder = files.folder(files.KERNELS)
    except CuteError as error:
        yield Fact("cache", WRONG, f"{error.facts['path']}: {error.facts['reason']}", fix=FOLDER)
        return
    found = files.kept()
    size, mode = sum(file.size for file in found), files.place().stat().st_mode & 0o777
    text = f"{files.place()}: {len(found)} files, {size} bytes, mode {mode:04o}"
    if os.access(folder, os.W_OK):
        yield Fact("cache", OK, text)
    else:
        yield Fact("cache", WRONG, f"{text}, not writable", fix=FOLDER)


PROBES: tuple[tuple[str, Callable[[], Iterable[Fact]], str], ...] = (
    ("Python", _python, EMULATOR),
    ("cute_py", _cute_py, EMULATOR),
    ("packages", _base, EMULATOR),
    ("compiler", _compiler, GPU),
    ("NumPy shim", _shim, ""),
    ("toolkit", _toolkit, GPU),
    ("driver", _driver, GPU),
    ("torch", _torch, ""),
    ("CuPy", _cupy, ""),
    ("cache", _cache, ""),
)
