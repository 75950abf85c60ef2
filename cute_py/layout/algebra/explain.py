"""The derivation of a layout or of a refusal, step by step, as text that a learner can follow.

A layout remembers the operation and operands that made it; equality and hash ignore that. The body
of an operation in `STEPS` tells its decisions; any other operation is explained by the first
sentence of its docstring.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import cute_py
from cute_py.errors import CuteError, refusal
from cute_py.integers import ints
from cute_py.layout import AbstractComposed, Mapped
from cute_py.layout.algebra.carries import Departs, odd_offset
from cute_py.layout.algebra.coalesce import coalesced_beyond
from cute_py.layout.algebra.common import common_run
from cute_py.layout.algebra.complement import filling, hull
from cute_py.layout.algebra.composition import walked
from cute_py.layout.algebra.divide import rest_beyond
from cute_py.layout.algebra.inverse import left_body, right_body
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.layout import Layout, make_layout, raw_flat
from cute_py.layout.tuples import show
from cute_py.records import Shown, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.layout.algebra.composition import Told
    from cute_py.layout.types import AnyLayout, Leaf, Tiler

SHOWN = 12  # how many indices or offsets a line lists
DEPTH = 32  # how many steps back a history is shown


def explain(subject: object, *operands: AnyLayout) -> Text:
    """Return the derivation of an operation's result, of a layout, or of an error.

    Args:
        subject: an operation (function or name) with its operands; or a Layout, whose history is
            shown; or a caught CuteError.
        operands: what the operation is applied to.

    Raises LeafTypeError for anything else.

    >>> print(explain("composition", Layout((6, 2), (8, 2)), Layout((2, 3), (3, 1))))
    composition((6,2):(8,2), (2,3):(3,1)) = (2,3):(24,8)
      a coalesced is (6,2):(8,2); an index x of a has the digits x % 6, x / 6
      mode 0 of b, 2:3: steps of 3 stay inside digit 0 (extent 6) -> 2:24
      mode 1 of b, 3:1: steps of 1 stay inside digit 0 (extent 6) -> 3:8
      carries: digit 0 is used up to 3+2 of 5, so the modes add up
    """
    if isinstance(subject, CuteError):
        return Text("\n".join(_refusal(subject)))
    if isinstance(subject, (Layout, AbstractComposed)) and not operands:
        return why(subject)
    name = subject if isinstance(subject, str) else getattr(subject, "__name__", "")
    operation = getattr(cute_py, name, None)
    if operation is None or not operands:
        raise refusal("explain-subject", operation="explain", value=subject)
    try:
        result = operation(*operands)
    except CuteError as error:
        return Text("\n".join(_refusal(error)))
    return Text("\n".join(_told(name, operands, result)))


def why(layout: AnyLayout) -> Derivation:
    """Return how `layout` was made, and how its operands were made.

    >>> from cute_py import flatten, group_modes
    >>> print(group_modes(flatten(Layout((2, (2, 3)))), 0, 2).why())
    group_modes((2,2,3):(1,2,4), 0, 2) = ((2,2),3):((1,2),4)
      the layout with modes begin to end - 1 gathered into one; by default `end` is the rank
      flatten((2,(2,3)):(1,(2,4))) = (2,2,3):(1,2,4)
        the layout (or int tuple) with all leaves at top level
    """
    return Derivation(layout)


class Step(NamedTuple):
    """A step of a derivation.

    Attributes:
        text: the operation, its operands and its result.
        lines: how the result was found.
        layout: the result.
        operands: the steps that made the operands.
    """

    text: str
    lines: tuple[str, ...]
    layout: AnyLayout
    operands: tuple[Step, ...]


class Derivation(Text, Shown):
    """The text of `why`; a notebook shows it as a tree, where each step draws its layout.

    Attributes:
        step: the last step, which made the layout.
    """

    step: Step

    def __new__(cls, layout: AnyLayout) -> Derivation:
        """Return the derivation of a layout."""
        step = _derived(layout, set())
        made = super().__new__(cls, "\n".join(_lines(step)))
        made.step = step
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return Text, (str(self),)


def _lines(step: Step) -> Iterator[str]:
    """Yield the lines of a step and of those before it."""
    yield step.text
    yield from (f"  {line}" for line in step.lines)
    for operand in step.operands:
        yield from (f"  {line}" for line in _lines(operand))


def _derived(layout: AnyLayout, seen: set[int], level: int = 1) -> Step:
    """Return the step that made a layout; `seen`: the layouts that are derived above it."""
    made = getattr(layout, "_why", None)
    if made is None and isinstance(layout, AbstractComposed):
        text = f"{layout} is {layout.outer} o {layout.offset} o the layout below"
        return Step(text, (), layout, (_derived(layout.inner, seen, level + 1),))
    if made is None:
        return Step(f"{layout} is given", (), layout, ())
    seen.add(id(layout))
    name, operands = made
    text, *lines = _told(name, operands, layout)
    before: list[Step] = []
    for operand in operands:
        if getattr(operand, "_why", None) is None:
            continue
        if level == DEPTH or id(operand) in seen:
            known = f"{DEPTH} steps are shown" if level == DEPTH else "derived above"
            before.append(Step(f"{operand} is derived, too: {known}", (), operand, ()))
        else:
            before.append(_derived(operand, seen, level + 1))
    return Step(text, tuple([line[2:] for line in lines]), layout, tuple(before))


def _told(name: str, operands: tuple[Any, ...], result: object) -> Iterator[str]:
    shown = ", ".join(_text(operand) for operand in operands if operand is not None)
    yield f"{name}({shown}) = {_text(result)}" if result is not None else f"{name}({shown})"
    for line in _steps(name, operands):
        yield f"  {line}"


def _text(x: object) -> str:
    if isinstance(x, tuple):
        return show(x)
    return "_" if x is None else str(x)


def _steps(name: str, operands: tuple[Any, ...]) -> Iterator[str]:
    """Yield what the body of the operation decides, or else its definition."""
    plain = all(x.__class__ is Layout or not isinstance(x, Mapped) for x in operands)
    if name not in STEPS or not plain or operands[0].__class__ is not Layout:
        yield _definition(name)
        return
    with suppress(CuteError, Departs):  # reported as the result
        yield from STEPS[name](*operands)


def _definition(name: str) -> str:
    """Return the first sentence of the docstring, without its first word."""
    words = (getattr(cute_py, name, None).__doc__ or "").split("\n\n")[0].split()
    return " ".join(words[1:]).rstrip(".")


# -- what happens inside of an operation


def _body(function: Callable[..., object], *operands: object) -> Iterator[str]:
    """Yield the decisions that a body tells, those before a refusal too."""
    words: list[str] = []
    try:
        function(*operands, words)
    finally:
        yield from words


def _composition(a: Layout, b: Tiler) -> Iterator[str]:
    if b.__class__ is tuple:
        parts = (f"{mode} o {_text(part)}" for mode, part in zip(a, b, strict=False))
        yield "mode by mode: " + ", ".join(parts)
        return
    b = b if b.__class__ is Layout else Layout(b, 1)
    if any(step.__class__ is ScaledBasis for step in (*a._d, *b._d)):
        yield _definition("composition")
        return
    extents, strides = coalesced_beyond(a)
    digits = ", ".join(_digit_text(extents, k) for k in range(len(extents)))
    yield f"a coalesced is {raw_flat(extents, strides)}; an index x of a has the digits {digits}"
    told: Told = []
    try:
        walked(a, b, told)
    finally:
        for k, (words, _) in enumerate(told):
            yield f"mode {k} of b, {b._s[k]}:{b._d[k]}: {'; '.join(words)}"
        used = [[x for x in column if ints.is_zero(x) is not True] for column in _columns(told)]
        for k, added in enumerate(used):
            if len(added) > 1:
                fits = ints.less(sum(added), extents[k])
                end = "so the modes add up" if fits else "so it carries"
                shown = "+".join(map(str, added))
                top = ints.sub(extents[k], 1)
                yield f"carries: digit {k} is used up to {shown} of {top}, {end}"


def _columns(told: Told) -> list[tuple[Any, ...]]:
    return list(zip(*[grown for _, grown in told if grown], strict=True))


def _digit_text(extents: list[int], k: int) -> str:
    below = 1
    for extent in extents[:k]:
        below *= extent
    quotient = "x" if below == 1 else f"x / {below}"
    if k == len(extents) - 1:
        return quotient
    return f"{quotient} % {extents[k]}" if below == 1 else f"({quotient}) % {extents[k]}"


def _logical_divide(layout: Layout, tiler: Tiler) -> Iterator[str]:
    if tiler.__class__ is tuple:
        parts = (f"{mode} by {_text(part)}" for mode, part in zip(layout, tiler, strict=False))
        yield "mode by mode: " + ", ".join(parts)
        return
    if tiler.__class__ is not Layout:
        tiler = Layout(tiler)
    rest = rest_beyond(layout, tiler)
    yield f"the tile is {tiler}; the tiles start at its complement, {rest}"
    yield f"composition({layout}, ({tiler}, {rest})):"
    yield from (f"  {line}" for line in _composition(layout, make_layout(tiler, rest)))


def _logical_product(block: Layout, tiler: Tiler) -> Iterator[str]:
    if tiler.__class__ is tuple:
        parts = (f"{mode} times {_text(part)}" for mode, part in zip(block, tiler, strict=False))
        yield "mode by mode: " + ", ".join(parts)
        return
    if tiler.__class__ is not Layout:
        tiler = Layout(tiler)
    yield f"copies of the block fit at its complement, {hull(block, tiler.cosize())}"
    yield f"which the tiler {tiler} visits in its own order"


STEPS: dict[str, Callable[..., Iterator[str]]] = {
    "composition": _composition,
    "complement": lambda layout, target=None: _body(filling, layout, target),
    "logical_divide": _logical_divide,
    "logical_product": _logical_product,
    "right_inverse": lambda layout: _body(right_body, layout),
    "left_inverse": lambda layout: _body(left_body, layout),
    "max_common_layout": lambda a, b: _body(common_run, "max_common_layout", a, b),
    "max_common_vector": lambda a, b: _body(common_run, "max_common_vector", a, b),
}


# -- refusals


def _refusal(error: CuteError) -> Iterator[str]:
    facts: dict[str, Any] = error.facts
    name = str(facts.get("operation", ""))
    operands = tuple(facts[key] for key in ("a", "b", "layout", "tiler") if key in facts)
    if name in STEPS and operands:
        yield from _told(name, operands, None)
    if error.code == "composition-departs":
        yield from _departure(facts["a"], facts["b"], facts["index"], facts["fitted"])
    yield f"refused: {error}"


def _departure(a: Layout, b: Layout, index: Leaf, fitted: Leaf) -> Iterator[str]:
    first = max(0, index - SHOWN + 1)
    extents, strides = coalesced_beyond(a)
    visited = [b(i) for i in range(first, index + 1)]
    values = [odd_offset(x, extents, strides) for x in visited]
    fits = [*values[:-1], fitted]
    for label, row in (
        ("c", range(first, index + 1)),
        ("b(c)", visited),
        ("a(b(c))", values),
        ("fits", fits),
    ):
        yield f"  {label:8}" + " ".join(f"{x:>4}" for x in row)
