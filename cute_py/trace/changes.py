"""Which Python values changed between two moments of a trace: names that were rebound, lists, dicts
and objects that were changed in place.

Values of the kernel itself (run-time integers, conditions) are left out: they know the block that
made them.
"""

from __future__ import annotations

from types import FunctionType, ModuleType

from cute_py.trace.runtime_integers import Condition, Int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

DEPTH = 3  # of containers in containers that are looked into
MOST = 4096  # elements of a container that is looked into
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_OWN = __name__.partition(".")[0]


class Contents:
    """What a container held: the values by key or position, each with its own contents."""

    __slots__ = ("parts", "value")

    def __init__(self, value: object, parts: dict[Any, Any]) -> None:
        """Keep the container and its parts."""
        self.value, self.parts = value, parts


def names_of(frame: FrameType) -> dict[str, object]:
    """Return the names of a frame, and the globals that its code uses, with their contents."""
    code, outside = frame.f_code, frame.f_globals
    found = {n: outside[n] for n in code.co_names if n in outside and not _fixed(outside[n])}
    return {name: contents(value, DEPTH) for name, value in {**found, **frame.f_locals}.items()}


def _fixed(value: object) -> bool:
    """Tell whether a global is none that a kernel would change."""
    return isinstance(value, (ModuleType, FunctionType, type)) or _is_own(value)


def _is_own(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == _OWN


def contents(value: Any, depth: int) -> object:  # noqa: ANN401
    """Return what a value holds now, to be compared later: the value itself if it cannot change."""
    if depth == 0 or isinstance(value, _PLAIN) or _is_own(value):
        return value
    if isinstance(value, (list, tuple)) and len(value) <= MOST:
        return Contents(value, {i: contents(x, depth - 1) for i, x in enumerate(value)})
    if isinstance(value, dict) and len(value) <= MOST:
        return Contents(value, {k: contents(x, depth - 1) for k, x in value.items()})
    if isinstance(value, (set, bytearray)) and len(value) <= MOST:
        return Contents(
            value, dict.fromkeys(value) if isinstance(value, set) else {0: bytes(value)}
        )
    if isinstance(value, type):
        local = "<locals>" in value.__qualname__
        return Contents(value, dict(vars(value))) if local else value
    if isinstance(value, (ModuleType, FunctionType)) or not hasattr(value, "__dict__"):
        return value
    return Contents(value, {k: contents(x, depth - 1) for k, x in vars(value).items()})


def changed(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return the names that are new, or hold something else than before."""
    return [name for name, x in after.items() if name not in before or not same(before[name], x)]


def same(a: Any, b: Any) -> bool:  # noqa: ANN401
    """Tell whether a value is what it was. What an object has got in addition does not count: it
    may keep what it computed.
    """
    if isinstance(a, Contents) and isinstance(b, Contents):
        alike = a.value is b.value or isinstance(a.value, (list, tuple, dict, set))
        grows = not isinstance(a.value, (list, tuple, dict, set, bytearray))
        if not alike or type(a.value) is not type(b.value):
            return False
        if not (grows or len(a.parts) == len(b.parts)):
            return False
        return all(key in b.parts and same(x, b.parts[key]) for key, x in a.parts.items())
    if a is b or isinstance(b, (Int, Condition)):
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, _PLAIN):
        return bool(a == b) or a != a
    return _is_own(a) and str(a) == str(b)
