"""Fingerprints of compile-time values: values with equal keys give equal plans.

The key of a number includes its type and sign (1, 1.0 and True differ, and so do 0.0 and -0.0). The
key of a container or object is its current content. The key of a function is its code, defaults,
closure and globals, and the attributes that the code reads of modules, classes and functions. So a
kernel is traced again after a list, an attribute or a helper changes. Foreign code (this package,
the standard library, installed packages) compares by identity. Where something is reached that may
change without a trace, such as an iterator or a clock, the key is not `complete`: it tells nothing.
"""

from __future__ import annotations

from cute_py.calls.fingerprint.traversal import EXACT, Traversal, is_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

__all__ = ["fingerprint", "is_plain", "static_key"]


def static_key(value: Any) -> Hashable:
    """Return the key of a single compile-time value. Of the classes of its objects, the key covers
    only the attributes that the value's own code reads.

    >>> static_key(1) == static_key(True), static_key([0.0]) == static_key([-0.0])
    (False, False)
    >>> static_key({"tile": (128, 128)}) == static_key({"tile": (128, 128)})
    True
    """
    if type(value) in EXACT:
        return type(value), value
    return fingerprint((value,))[0]


def fingerprint(
    values: tuple[Any, ...],
    function: Callable[..., Any] | None = None,
    names: tuple[str, ...] = (),
    attributes: frozenset[str] = frozenset(),
) -> tuple[Hashable, Traversal]:
    """Return the key of compile-time values and of a function, and the traversal that made it.

    Args:
        values: the compile-time values of a call.
        function: the function of a kernel; it may be foreign.
        names: globals that the function depends on, in addition to those that it loads.
        attributes: names of attributes that other code reads of the values.

    """
    found = Traversal(attributes)
    key = found.roots(values, function, names)
    while found.reads and not found.met <= found.names:  # code found later reads more attributes
        found = Traversal(found.names | found.met)
        key = found.roots(values, function, names)
    return key, found
