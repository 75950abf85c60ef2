"""`Record`: the base of frozen objects; `Value`: the base of those that can be part of a key;
`Shown` and `Text`: how notebooks show objects and texts.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class Text(str):
    r"""A text of several lines whose repr is the text, so that a prompt shows its lines.

    >>> Text("a\nb")
    a
    b
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


SWITCH = "CUTE_PY_PICTURES"  # 0 turns off what notebooks show in place of text


class Shown:
    """Base of objects that a notebook shows as pictures."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Return the picture as HTML, None if there is none; see `cute_py.viz.html.fragment`."""
        from importlib import import_module  # dtypes load nothing but the package

        return import_module("cute_py.viz.html").fragment(self)  # type: ignore[no-any-return]


class Record(Shown):
    """Base of frozen objects: an attribute is set once, in the constructor, and never again.

    `__match_args__` names the attributes that are the constructor's arguments, in order. Two
    records are equal if they have the same class and these attributes are equal. Hash, repr, copies
    and pickles use the same attributes. Slots computed from them are left out.

    >>> class Extent(Record):
    ...     __slots__ = __match_args__ = ("name", "size")
    ...
    ...     def __init__(self, name, size):
    ...         self.name, self.size = name, size
    >>> Extent("M", 8), Extent("M", 8) == Extent("M", 8), len({Extent("M", 8), Extent("M", 8)})
    (Extent('M', 8), True, 1)
    >>> Extent("M", 8).size = 16
    Traceback (most recent call last):
    AttributeError: Extent is frozen: cannot set size; build a new one
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name) or not hasattr(type(self), name):
            kind = type(self).__name__
            raise AttributeError(f"{kind} is frozen: cannot set {name}; build a new one")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot delete {name}")

    def _parts(self) -> tuple[Any, ...]:
        """Return the constructor's arguments."""
        return tuple([getattr(self, name) for name in self.__match_args__])

    def _key(self) -> tuple[Any, ...]:
        """Return the attributes that equality and hash compare."""
        return self._parts()

    def __reduce__(self) -> str | tuple[Any, ...]:
        return type(self), self._parts()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or bool(self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._parts()))})"


class Value(Record):
    """Base of records that never change, to their leaves.

    A kernel's fingerprint contains such an object itself, and a key of the disk cache its repr.
    """

    __slots__ = ()
