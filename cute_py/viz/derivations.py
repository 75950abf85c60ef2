"""Derivations as trees: each step of `layout.why()` can be opened, and draws its layout."""

from __future__ import annotations

from html import escape
from itertools import count

from cute_py.errors import CuteError
from cute_py.viz.build import picture_of
from cute_py.viz.scenes import VERSION, scene_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.layout.algebra.explain import Step
    from cute_py.viz.picture import Picture

MOST_STEPS = 32  # that draw
MOST_CELLS = 1 << 10  # of a step's picture


def tree(step: Step) -> dict[str, Any]:
    """Return the scene of a derivation: `tree` is its last step, each with `text`, `lines`, the
    `scene` of its result, or None, and the steps of its `operands`.
    """
    return {"v": VERSION, "title": step.text, "tree": _node(step, count())}


def _node(step: Step, numbers: Iterator[int]) -> dict[str, Any]:
    drawn = _picture(step, numbers)
    return {
        "text": step.text,
        "lines": list(step.lines),
        "scene": drawn and scene_of(drawn),
        "operands": [_node(operand, numbers) for operand in step.operands],
    }


def _picture(step: Step, numbers: Iterator[int]) -> Picture | None:
    """Return the picture of a step's result, if it has one that is small."""
    if next(numbers) >= MOST_STEPS:
        return None
    try:
        drawn = picture_of(step.layout)
    except CuteError:
        return None
    return drawn if drawn.cells <= MOST_CELLS else None


def outline(step: Step, image: Callable[[Picture], str]) -> str:
    """Return the derivation as nested HTML elements that open without a script."""
    return _outline(step, image, count())


def _outline(step: Step, image: Callable[[Picture], str], numbers: Iterator[int]) -> str:
    drawn = _picture(step, numbers)
    shown = "" if drawn is None else image(drawn)
    lines = "".join(f"<div>{escape(line)}</div>" for line in step.lines)
    inner = "".join(_outline(operand, image, numbers) for operand in step.operands)
    return f"<details open><summary>{escape(step.text)}</summary>{lines}{shown}{inner}</details>"
