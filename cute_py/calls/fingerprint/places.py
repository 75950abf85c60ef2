"""The places that a fingerprint was read from, and the key of what compares by identity."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sized
    from typing import Any


class Identity:
    """A key that compares an object by identity, and keeps it alive."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Places:
    """Places that were read, with what they held.

    Attributes:
        items: (the `get` of a dict, name, value).
        functions: (function, its code, defaults, defaults of keywords).
        looked: (a function, its argument, its result): cells, and the bases of classes.
        sizes: (a dict, its size): a larger one may have a new name that is read.
    """

    __slots__ = ("functions", "items", "looked", "sizes")

    def __init__(self, *parts: Places) -> None:
        """Start with the places of others."""
        self.items: list[tuple[Callable[[str, object], object], str, object]] = []
        self.functions: list[tuple[Any, object, object, object]] = []
        self.looked: list[tuple[Callable[[Any], object], object, object]] = []
        self.sizes: list[tuple[Sized, int]] = []
        for x in parts:
            self.items += x.items
            self.functions += x.functions
            self.looked += x.looked
            self.sizes += x.sizes
