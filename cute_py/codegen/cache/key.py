"""The key of a compiled kernel: one hash of everything that it depends on.

That is the plan with its source lines, the architecture and options, the versions of the compilers,
and the text of the modules of cute_py that generate code.
"""

from __future__ import annotations

import os
import sys
from dataclasses import is_dataclass
from functools import cache
from glob import escape, glob
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cute_py
from cute_py.atoms.mma import MMA_Atom, Operand
from cute_py.codegen.toolchain import tool
from cute_py.dtypes.table import Dtype
from cute_py.errors import CuteError
from cute_py.integers.polynomial import polynomial_key
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan.op import saved_names
from cute_py.records import Value

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from cute_py.plan.plan import Plan

    Signature = list[tuple[str, int, int]]

ROOT = Path(cute_py.__file__).parent
HERE = os.sep.join(Path(__file__).parts[-3:])  # codegen/cache/key.py
# Kernels depend on these only through the plan. Everything else counts, so new folders do.
ABOVE = {"analysis", "cli", "emulate", "host", "kernels", "ops", "viz"}
PACKAGES = ("numba", "numba_cuda", "llvmlite")
SLACK = 10_000_000  # nanoseconds: the clock of files is coarser than that of `time`
NVVM = ("lib/libnvvm.so*", "nvvm/lib64/libnvvm.so*", "nvvm/libdevice/*.bc")


def key_of(plan: Plan, arch: str, options: dict[str, Any]) -> str | None:
    """Return the key as 64 hexadecimal digits.

    Returns None if the dependencies are unknown: the sources of cute_py are missing or have changed
    since they were loaded, or the plan contains a foreign object.
    """
    try:
        made_by, with_tools, given = compiler(), tools(), canonical(plan)
    except (OSError, TypeError):
        return None
    if made_by is None:
        return None
    whole = repr((made_by, with_tools, arch, sorted(options.items()), given))
    return sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


# -- the plan


def canonical(x: Any) -> str:  # a plan, or a part of one
    """Return a text that is equal exactly for equal plans with equal source lines.

    `Plan.save` takes 7 times as long, and writes atoms by name only, while a row of the user may
    have any instruction. Raises TypeError for an object that does not belong in a plan.

    >>> canonical((1, 1.0, True, "1", None))
    "(1,1.0,True,'1',None)"
    """
    return _text(x, {})


def _text(x: Any, known: dict[int, str]) -> str:
    kind = type(x)
    if kind is tuple:
        return f"({','.join([_text(part, known) for part in x])})"
    if kind in (int, str, float, bool, type(None)):
        return repr(x)
    if kind is SymInt:
        return f"~{polynomial_key(terms_of(x))!r}"
    if kind is Dtype:
        return f"dtype {x.name}"
    if id(x) not in known:
        names = _names(kind)  # type: ignore[arg-type]  # classes are hashable
        parts = [_text(getattr(x, name), known) for name in names]
        known[id(x)] = f"{kind.__name__}({','.join(parts) or repr(x)})"
    return known[id(x)]


@cache
def _names(kind: Any) -> tuple[str, ...]:  # a class
    """Return the fields of a record; none for layouts, whose repr is complete."""
    if kind in (MMA_Atom, Operand):
        return tuple(kind.__slots__)
    if is_dataclass(kind):
        return saved_names(kind)
    if issubclass(kind, Value):
        return ()
    raise TypeError(kind)


# -- cute_py itself


def compiler() -> str | None:
    """Return the hash of the modules that generate code; None if they changed during this process,
    or may have changed between the import of cute_py and the import of one of them.
    """
    before, digest = _loaded()
    newest = max(changed for _path, _size, changed in before)
    return digest if newest < cute_py._loaded_at - SLACK and _signature() == before else None


@cache
def _loaded() -> tuple[Signature, str]:
    signature = _signature()
    total = sha256()
    for path, size, _time in signature:
        total.update(f"{os.path.basename(path)} {size}\n".encode())
        total.update(Path(path).read_bytes())
    return signature, total.hexdigest()


def _signature() -> Signature:
    """Return path, size and modification time of each module. Raises OSError if one is missing."""
    with os.scandir(ROOT) as entries:
        top = list(entries)
    found = [each for entry in top if entry.name not in ABOVE for each in _sources(entry)]
    if not any(path.endswith(HERE) for path, _size, _time in found):
        raise FileNotFoundError(ROOT)
    return sorted(found)


def _sources(entry: os.DirEntry[str]) -> Signature:
    """Return the signature of a module, or of all modules of a folder."""
    if entry.name.endswith(".py"):
        about = entry.stat()
        return [(entry.path, about.st_size, about.st_mtime_ns)]
    if not entry.is_dir() or entry.name == "__pycache__":
        return []
    with os.scandir(entry.path) as entries:
        return [each for inner in entries for each in _sources(inner)]


# -- the tools


@cache
def tools() -> tuple[str, ...]:
    """Return the versions and settings of the compilers, without loading or running them."""
    settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
    versions = [f"{name} {version(name)}" for name in PACKAGES]
    files = [_stamp(path) for path in [*_nvvm(), *_ptxas()]]
    return (str(sys.implementation.cache_tag), *versions, *files, *settings)


def version(name: str) -> str:
    """Return the version of a package: the loaded one, else the installed one.

    importlib.metadata takes longer to load than a kernel.
    """
    loaded = getattr(sys.modules.get(name), "__version__", None)
    if loaded is not None:
        return str(loaded)
    spec = _spec(name)
    if spec is None or spec.origin is None:
        return "none"
    site = Path(spec.origin).parents[1]
    infos = [path.name for path in site.glob(f"{name}-*.dist-info")]
    if len(infos) == 1:
        return infos[0].removeprefix(f"{name}-").removesuffix(".dist-info")
    return _stamp(spec.origin)


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except ValueError:  # a loaded module that has none
        return None


def _stamp(path: str) -> str:
    about = os.stat(path)
    return f"{path} {about.st_size} {about.st_mtime_ns}"


def _nvvm() -> list[str]:
    """Return the files of NVVM wherever numba-cuda may find them."""
    spec = _spec("nvidia")
    wheels = () if spec is None else spec.submodule_search_locations or ()
    roots = [root for place in wheels for root in glob(f"{escape(place)}/*")]
    roots += [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")]
    roots.append("/usr/local/cuda")
    found = {
        path for root in roots if root for end in NVVM for path in glob(f"{escape(root)}/{end}")
    }
    return sorted(found)


def _ptxas() -> list[str]:
    try:
        return [tool("ptxas")]
    except CuteError:  # reported where it is needed
        return []
