"""What a kernel's plan depends on outside of its arguments: is it the same as before?

`captured_key` says what that is: plain values of the closure's cells and of the globals that the
function loads. Here the objects themselves are compared, which costs little: an object that is the
same and cannot change has the same key.
"""

from __future__ import annotations

from cute_py.trace.keys import global_names, is_frozen, is_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    # (name, global), and (cell, what it holds)
    Seen: TypeAlias = tuple[tuple[tuple[str, object], ...], tuple[tuple[Any, object], ...]]

MISSING = object()


class Watch:
    """The names that a function, and the text of its annotations, take from around them."""

    __slots__ = ("cells", "get", "names")

    def __init__(self, function: Callable[..., Any]) -> None:
        """Find the names."""
        notes = getattr(function, "__annotations__", {}).values()
        texts = [_names_of_text(note) for note in notes if isinstance(note, str)]
        self.names = tuple(sorted({*global_names(function.__code__), *sum(texts, ())}))
        self.get = function.__globals__.get
        self.cells = function.__closure__ or ()

    def now(self) -> Seen:
        """Return what the names and cells stand for now."""
        found = [(name, self.get(name, MISSING)) for name in self.names]
        return tuple(found), tuple([(cell, _content(cell)) for cell in self.cells])

    def holds(self, seen: Seen) -> bool:
        """Tell whether the names stand for the objects that were seen before."""
        get = self.get
        for name, value in seen[0]:
            if get(name, MISSING) is not value:
                return False
        return not seen[1] or all(_content(cell) is value for cell, value in seen[1])


def is_settled(seen: Seen) -> bool:
    """Tell whether the key of what was seen cannot change while the objects are the same."""
    found = [x for part in seen for _place, x in part]
    return all(is_frozen(x) or x is MISSING or not is_plain(x) for x in found)


def _content(cell: Any) -> object:  # noqa: ANN401  (a cell)
    try:
        return cell.cell_contents
    except ValueError:  # not given a value yet
        return MISSING


def _names_of_text(note: str) -> tuple[str, ...]:
    try:
        return global_names(compile(note, "<annotation>", "eval"))
    except SyntaxError:
        return ()
