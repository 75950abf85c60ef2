"""Functions of Python, NumPy and torch whose results differ from call to call though nothing that
a kernel reaches has changed: clocks, random numbers, files, the environment, identities.

Installed code is not read, so these are known by name. Random numbers of a module, as those of
`random.random`, are methods of an object whose state is unknown; they need no row.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, ModuleType

from cute_py.calls.fingerprint.names import place_of
from cute_py.calls.fingerprint.state import is_constant, row_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# of each module, and of each class; "*": all functions
_NAMES = {
    "_thread": "get_ident get_native_id",
    "asyncio": "all_tasks current_task get_event_loop get_running_loop",
    "builtins": "hash id input open",
    "contextvars": "copy_context",
    "decimal": "getcontext",
    "gc": "*",
    "genericpath": "*",
    "getpass": "*",
    "glob": "glob iglob",
    "inspect": "currentframe stack trace",
    "io": "open open_code",
    "locale": "*",
    "numpy": "fromfile genfromtxt geterr get_printoptions load loadtxt memmap",
    "numpy.random": "default_rng MT19937 PCG64 PCG64DXSM Philox RandomState SFC64 SeedSequence",
    "os": "fwalk getenv getenvb get_exec_path popen process_cpu_count walk",
    "posix": "*",
    "posixpath": "abspath expanduser expandvars ismount lexists realpath relpath",
    "random": "Random SystemRandom",
    "resource": "*",
    "secrets": "*",
    "shutil": "disk_usage get_terminal_size which",
    "socket": "*",
    "subprocess": "*",
    "sys": "_getframe exc_info getrecursionlimit getrefcount getswitchinterval gettrace",
    "tempfile": "*",
    "threading": "active_count current_thread enumerate main_thread",
    "time": (
        "asctime clock_gettime clock_gettime_ns ctime gmtime localtime monotonic monotonic_ns "
        "perf_counter perf_counter_ns process_time process_time_ns strftime thread_time "
        "thread_time_ns time time_ns"
    ),
    "torch": (
        "bernoulli get_default_dtype get_num_threads initial_seed is_grad_enabled load "
        "multinomial normal rand rand_like randint randint_like randn randn_like randperm seed"
    ),
    "torch.cuda": "current_device current_stream memory_allocated",
    "urllib.request": "*",
    "uuid": "getnode uuid1 uuid4 uuid6 uuid7 uuid8",
    "weakref": "getweakrefcount getweakrefs",
}
_METHODS = {
    "datetime.date": "today",
    "datetime.datetime": "now today utcnow",
    "pathlib.Path": (
        "absolute cwd exists expanduser glob group home info is_block_device is_char_device is_dir "
        "is_fifo is_file is_junction is_mount is_socket is_symlink iterdir lstat open owner "
        "read_bytes read_text readlink resolve rglob stat samefile walk"
    ),
}
_KINDS = (FunctionType, BuiltinFunctionType)
_found: tuple[int, dict[int, Any]] = 0, {}  # how many modules there were, what they have of these


def is_varying(value: Any) -> bool:
    """Return whether a function or class of installed code gives something else at each call.

    >>> import time
    >>> is_varying(time.time), is_varying(time.sleep), is_varying(len)
    (True, False, False)
    """
    global _found
    if _found[0] != len(sys.modules):
        _found = len(sys.modules), {id(x): x for x in _functions()}
    owner = value.__self__ if isinstance(value, BuiltinFunctionType) else None
    if isinstance(owner, type):  # a class method written in C: another object at each look
        return value.__name__ in varying_methods(owner)
    return id(value) in _found[1]


def is_settled(value: Any) -> bool:
    """Return whether what an installed module holds is a function or constant that stays."""
    if isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType | None):
        return False
    kind: Any = type(value)
    functions = isinstance(value, (FunctionType, BuiltinFunctionType))
    return not is_varying(value) and (functions or is_constant(row_of(kind)))


def _functions() -> list[Any]:
    found = []
    for module, text in _NAMES.items():
        held, names = _entries(sys.modules.get(module)), text.split()
        if text == "*":
            found += [x for x in held.values() if isinstance(x, _KINDS)]
        else:
            found += [held[name] for name in names if name in held]
    for path in _METHODS:
        module, _dot, name = path.partition(".")
        kind = _entries(sys.modules.get(module)).get(name, object)
        methods = [getattr(kind, x) for x in varying_methods(kind) if hasattr(kind, x)]
        found += [getattr(x, "__func__", x) for x in methods]
    return found


def _entries(value: object) -> Mapping[str, Any]:  # a module or class, or None
    return getattr(value, "__dict__", {})


@lru_cache(maxsize=4096)
def varying_methods(kind: Any) -> frozenset[str]:
    """Return the names of the methods of a class that give something else at each call."""
    found = [_METHODS.get(place_of(x), "").split() for x in kind.__mro__]
    return frozenset().union(*found)
