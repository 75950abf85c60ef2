"""Operands of one mode as numpy.matmul takes them: a row or a column of a matrix, of which the
result does not have the mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.calls.arrays import TypedArray, imported, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable

ROW, COLUMN = (Ellipsis, None, slice(None)), (Ellipsis, None)


def as_matrices(given: Any) -> tuple[Any, Callable[[Any], Any]] | None:
    """Return the request of a product whose operands are matrices, and the function that takes the
    modes from its result which they did not have; None where they have all.

    >>> from collections import namedtuple
    >>> given = namedtuple("Given", "a b c out")([1.0, 2.0], [[3.0], [4.0]], None, None)
    >>> request, without = as_matrices(given)
    >>> request.a.shape, without(np.ones((1, 1))).shape
    ((1, 2), (1,))
    """
    is_row, is_column = (_modes(x) == 1 for x in (given.a, given.b))
    if not is_row and not is_column:
        return None
    terms = {x: getattr(given, x) for x in ("c", "out")}
    made = {name: x for name, x in terms.items() if x is not None and (_modes(x) or name == "out")}
    if is_column:
        made = {"b": given.b} | made
        made = {name: _viewed(x, COLUMN) for name, x in made.items()}
    if is_row:
        made = {"a": given.a} | made
        rows = {name: x for name, x in made.items() if name != "b"}
        made |= {name: _viewed(x, ROW) for name, x in rows.items()}

    def without(result: Any) -> Any:
        if given.out is not None:
            return given.out
        result = result[..., 0] if is_column else result
        return (result[..., 0] if is_column else result[..., 0, :]) if is_row else result

    return given._replace(**made), without


def _modes(x: Any) -> int:
    """Return how many modes an operand has; 2 of what is no array, which is refused later."""
    count = 0
    while isinstance(x, (list, tuple)):
        count, x = count + 1, x[0] if x else None
    try:
        return count + len(unwrapped(x).shape)
    except (AttributeError, RuntimeError):  # a number; a nested tensor
        return count or 2


def _viewed(x: Any, index: Any) -> Any:
    """Return a view with another mode of one element."""
    if isinstance(x, TypedArray):
        return TypedArray(x.array[index], x.dtype)
    if hasattr(x, "shape") and hasattr(x, "__getitem__"):
        return x[index]
    x = imported(x)
    return (x if hasattr(x, "shape") else np.asarray(x))[index]
