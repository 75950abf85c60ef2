"""What `cute.tune` found to be the fastest, by the facts of a call: here and on disk.

A winner is stored next to the cache of kernels, one file for the facts of a problem: for a product
its sizes, types, strides and epilogue, the device, and the version of cute_py. A file is an entry
of `codegen.cache.entry`: a damaged one is removed, and the rule chooses again.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import cute_py as cute
from cute_py.codegen.cache import files
from cute_py.codegen.cache.entry import pack, unpack
from cute_py.errors import CuteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cute_py.kernels.configuration import AnyConfig, Config

FORMAT = 2  # of what a file says
_found: dict[str, Any] = {}  # what this process measured; all there is without a cache


def winner(
    facts: Callable[[], object], all_for: Callable[[], Sequence[AnyConfig]]
) -> AnyConfig | None:
    """Return the configuration that was measured to be the fastest for a problem of some facts, if
    any was; `all_for` returns those that are measured.
    """
    if not _found and not _any_stored():
        return None
    key = key_of(facts())
    known: AnyConfig | None = _found.get(key)
    return known if known is not None else _loaded(key, all_for)


def key_of(facts: object) -> str:
    """Return the key of a product: a hash of all that its configuration may depend on."""
    return sha256(repr((FORMAT, cute.__version__, facts)).encode()).hexdigest()


def forget() -> None:
    """Forget what this process measured; files stay."""
    _found.clear()


# -- files

# the variables of the environment that `files.place` depends on
PLACED_BY = ("CUTE_PY_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA")


def _any_stored() -> bool:
    return files.is_on() and os.path.isdir(_stored_in(os.getcwd(), *map(os.environ.get, PLACED_BY)))


@lru_cache(maxsize=16)  # the paths of pathlib cost 40 us for each new size of a product
def _stored_in(*_seen: str | None) -> str:
    return str(files.place() / files.TUNED)


def _path(key: str) -> Path:
    return files.folder(files.TUNED) / f"{key}{files.ENTRY}"


def store(key: str, config: Config) -> None:
    """Keep a configuration, on disk too if the cache can be written."""
    _found[key] = config
    if not files.is_on():
        return
    try:
        parts = pack(key, {"config": str(config), "why": config.reasons[0]})
        files.write_whole(_path(key), parts)
    except CuteError as error:
        files.warn_once(error)
    except OSError as error:
        files.warn_once(files.unusable(error.strerror))


def _loaded(key: str, all_for: Callable[[], Sequence[AnyConfig]]) -> AnyConfig | None:
    """Return the stored configuration of a key, one of those that are measured: its text says
    which, and nothing else in the file has a use. A damaged file is removed.
    """
    if not _any_stored():
        return None
    try:
        path = _path(key)
    except CuteError as error:
        files.warn_once(error)
        return None
    data = files.read_own(path)
    if data is None:
        return None
    parts = unpack(key, data) or {}
    why = parts.get("why")
    if isinstance(why, str) and why.isprintable() and parts.keys() == {"config", "why"}:
        for config in all_for():
            if str(config) == parts["config"]:
                config = config.because(why, "stored by cute.tune")
                _found[key] = config
                return config
    files.remove(path)
    return None
