"""Enumerating a layout: its flat modes, and the offsets of their indices."""

from __future__ import annotations

from cute_py.calls.places import where
from cute_py.errors import refusal
from cute_py.integers import ints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.layout import Layout
    from cute_py.layout.types import AnyLayout, Leaf


def count_of(layout: AnyLayout, operation: str) -> int:
    """Return the number of elements; refuse one that is not known yet."""
    count = layout.size()
    if count.__class__ is not int:
        raise refusal("kernel-size", operation=operation, layout=layout, where=where())
    return int(count)


def modes_of(layout: Layout, operation: str) -> list[tuple[int, Any]]:
    """Return (extent, stride) of the flat modes but those of extent 1; refuse run-time sizes."""
    modes = list(zip(layout._s, layout._d, strict=True))
    for extent, _stride in modes:
        if extent.__class__ is not int:
            raise refusal("kernel-size", operation=operation, layout=layout, where=where())
    return [(extent, stride) for extent, stride in modes if extent != 1]


def sums_of(modes: list[tuple[int, int]]) -> list[int]:
    """Return the offset of every index of flat modes, the first one fastest."""
    offsets = [0]
    for extent, stride in reversed(modes):
        # built from the slowest mode: each known offset is repeated for the new fastest mode
        offsets = [o + i * stride for o in offsets for i in range(extent)]
    return offsets


def base_of(origin: Leaf, digits: tuple[int, ...], moving: list[Any]) -> Leaf:
    """Return the origin moved by `digits` steps along (place, extent, stride) modes."""
    total = origin
    for digit, (_k, _e, stride) in zip(digits, moving, strict=True):
        total = ints.add(total, ints.mul(digit, stride))
    return total
