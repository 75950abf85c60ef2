"""Compiled kernels on disk: looked up by a key, built and stored on a miss.

A file is an entry of `entry`, named by its key. It is written to a temporary file in the same
folder and then renamed, so any number of processes may write the same entry without a lock. A
damaged entry is removed and rebuilt. A hit loads neither Numba nor llvmlite.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, fields
from threading import RLock
from typing import TYPE_CHECKING, Any

from cute_py.codegen.cache import files
from cute_py.codegen.cache.entry import pack, unpack
from cute_py.codegen.cache.key import key_of
from cute_py.errors import CuteError
from cute_py.plan.fields import problem_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cute_py.codegen.build import Compiled
    from cute_py.plan.plan import Plan

counts: Counter[str] = Counter()  # of this process: hit, miss, damaged, stored, not stored

_one_at_a_time = RLock()  # Numba's first compile must be alone


def cached(build: Callable[[], Compiled], plan: Plan, arch: str, **options: Any) -> Compiled:
    """Return a compiled plan from the cache, or build and store it.

    If the cache cannot be read or written, it warns once and builds without it.

    Args:
        build: compiles the plan; one thread of the process builds at a time.
        plan: the plan to compile.
        arch: the target architecture.
        options: everything else that the result depends on.

    Raises what `build` raises, and CuteError for an invalid size limit.
    """
    key = key_of(plan, arch, options) if files.is_on() else None
    if key is None:
        return alone(build)
    most = files.limit()
    found = load(key, plan, arch)
    if found is not None:
        return found
    with _one_at_a_time:
        found = load(key, plan, arch)  # another thread may have built it
        if found is None:
            counts["miss"] += 1
            found = build()
            store(key, found, most)
        return found


def alone(build: Callable[[], Compiled]) -> Compiled:
    """Build while no other thread of the process builds."""
    with _one_at_a_time:
        return build()


def load(key: str, plan: Plan, arch: str) -> Compiled | None:
    """Return the kernel of a key; None if it is missing or damaged."""
    path = _path(key)
    data = None if path is None else files.read_own(path)
    if path is None or data is None:
        return None
    found = _restored(unpack(key, data), plan, arch)
    if found is None:
        counts["damaged"] += 1
        files.remove(path)
        return None
    counts["hit"] += 1
    with suppress(OSError):  # the folder may be read-only
        os.utime(path)
    files.keep_source(plan.name, found.source)  # profilers look for it; it may have been trimmed
    return found


def store(key: str, compiled: Compiled, most: int) -> None:
    """Store a kernel, and evict others down to `most` bytes in all; ignore failures."""
    path = _path(key)
    if path is None:
        return
    data = pack(key, _parts(compiled))
    if len(data) > most:
        counts["not stored"] += 1
        return
    try:
        files.write_whole(path, data)
        files.trim(most)
        counts["stored"] += 1
    except OSError as error:
        counts["not stored"] += 1
        files.warn_once(files.unusable(error.strerror))


def _path(key: str) -> Path | None:
    try:
        return files.folder(files.KERNELS) / f"{key}{files.ENTRY}"
    except CuteError as error:
        files.warn_once(error)
        return None


def _parts(compiled: Compiled) -> dict[str, Any]:
    names = [f.name for f in fields(compiled) if f.name not in ("plan", "arch")]
    found = {name: getattr(compiled, name) for name in names}
    numbers = {k: n for k, n in asdict(compiled.resources).items() if k != "cubin"}
    return {**found, "resources": numbers}


def _restored(parts: dict[str, Any] | None, plan: Plan, arch: str) -> Compiled | None:
    from cute_py.codegen.build import Compiled, Resources  # which imports this module

    parts = parts or {}
    numbers = parts.get("resources")
    given = {**numbers, "cubin": parts.get("cubin")} if isinstance(numbers, dict) else {}
    if problem_of(Resources, given):  # of another version, or damaged
        return None
    given = {**parts, "resources": Resources(**given), "plan": plan, "arch": arch}
    return None if problem_of(Compiled, given) else Compiled(**given)
