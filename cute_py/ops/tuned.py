"""`tune`: measure the configurations of a product on this GPU, and use the fastest from then on.

What won is stored next to the cache of kernels, one file for the facts of a product: its sizes,
types, strides and epilogue, the device, and the version of cute_py. A file is an entry of
`codegen.cache.entry`: a damaged one is removed, and the rule chooses again.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any

import cute_py as cute
from cute_py.codegen.cache import files
from cute_py.codegen.cache.entry import pack, unpack
from cute_py.errors import CuteError, refusal
from cute_py.kernels.config import GemmConfig
from cute_py.ops.measurement import measured
from cute_py.ops.operator import REGISTRY, Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cute_py.kernels.configuration import AnyConfig, Config
    from cute_py.ops.call import Call
    from cute_py.ops.problem import Problem

FORMAT = 2  # of what a file says
_found: dict[str, Any] = {}  # what this process measured; all there is without a cache


def tune(operator: Any, *args: Any, **named: Any) -> GemmConfig:
    """Return the fastest configuration of a call, and let later calls of equal facts use it.

    Args:
        operator: `cute.ops.gemm`.
        args: its arguments, arrays of a GPU among them; their contents do not matter.
        named: the same, by name; without `config`.

    Each configuration that the operator would consider is compiled and measured in CUDA graphs, on
    operands of its own that the L2 cache does not hold (at most 150 MB, or one set); one whose
    result differs from that of the rule's choice cannot win. The result is stored for later
    processes (docs/kernels.md, Cache). `explain()` of the result lists what was measured. With
    K = 0 nothing is: the result is the rule's choice.

    Raises CuteError for arguments that `operator` refuses, and for arrays of the host.

    >>> import numpy as np
    >>> a = np.ones((2, 2), np.float32)
    >>> tune(cute.ops.gemm, a, a)
    Traceback (most recent call last):
    cute_py.errors.CuteError: cute.tune: given operands on the host; required: ...
    """
    found: Operator | None = getattr(operator, "operator", None)
    if found is None:
        known = ", ".join(x.name for x in REGISTRY.values())
        facts: dict[str, Any] = {"name": "operator", "value": operator, "choices": known}
        raise refusal("ops-choice", operation="cute.tune", **facts)
    request, library = found.taken(found.bound(*args, **named))
    if library.on_host:
        raise refusal("ops-tune-host", operation="cute.tune")
    if request.config is not None:
        known = "None: the configuration is what is looked for"
        facts = {"name": "config", "value": request.config, "choices": known}
        raise refusal("ops-choice", operation="cute.tune", **facts)
    with library.inside():
        problem = found.problem(request, library)
        problem.require_some("cute.tune")
        if request.out is None:  # one for all
            problem.request = request._replace(out=library.empty(problem.shape, problem.kind))
        best, was_measured = fastest(problem, measured)
        key = key_of(problem.facts())
    if was_measured:
        _store(key, best)
        found.known.clear()  # answers by the rule's choices
    return best


def fastest(
    problem: Problem, measure: Callable[[Sequence[Call]], Sequence[float]]
) -> tuple[GemmConfig, bool]:
    """Return the fastest of the configurations of a problem, by a function that measures calls in
    microseconds, and whether it had to: inf is a wrong result.
    """
    calls, refused = [], []
    candidates = problem.candidates()
    if len(candidates) == 1:
        return candidates[0][0], False
    for statics in candidates:
        try:
            call = problem.call(statics)
            calls.append(replace(call, known=call.plan()))
        except CuteError as error:  # what this problem cannot have
            refused.append(error)
    if not calls:
        raise refused[0]
    times = measure(calls)
    order = sorted(range(len(calls)), key=times.__getitem__)
    words = [f"{x:.4g} us" if x < inf else "another result" for x in times]
    lines = [f"measured: {words[i]}, {calls[i].config}" for i in order]
    return calls[order[0]].config.because(*lines), True


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


def _store(key: str, config: Config) -> None:
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
    which. A damaged file is removed.
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
    for config in all_for():
        if str(config) == parts.get("config"):
            config = config.because(str(parts.get("why")), "stored by cute.tune")
            _found[key] = config
            return config
    files.remove(path)
    return None
