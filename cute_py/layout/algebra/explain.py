"""The derivation of a layout or of a refusal, step by step, as text that a learner can follow.

A layout remembers the operation and operands that made it; equality and hash ignore that.
`STEPS` describes the steps of an operation; the other operations are explained by their definition
in `DEFINITIONS`.
"""

from __future__ import annotations

from cute_py.errors import CuteError, refusal
from cute_py.integers import ints
from cute_py.layout import AbstractComposed
from cute_py.layout.algebra.carries import Departs, odd_offset
from cute_py.layout.algebra.coalesce import coalesced, coalesced_beyond
from cute_py.layout.algebra.complement import complement, gaps_of, hull
from cute_py.layout.algebra.composition import walk
from cute_py.layout.layout import INTS, Layout, of_modes
from cute_py.layout.tuples import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.layout.types import AnyLayout, IntTuple, Leaf, Tiler

SHOWN = 12  # how many indices or offsets a line lists

DEFINITIONS = {
    "append": "modes are added at the end",
    "blocked_product": "logical_product mode by mode; mode i is (block i, copies i)",
    "coalesce": "extent-1 modes go; a mode joins the one before it where it goes on from its end",
    "dice": "the modes that the coordinate fixes",
    "filter": "stride-0 modes shrink to extent 1, then coalesce",
    "filter_zeros": "stride-0 modes shrink to extent 1",
    "flat_divide": "zipped_divide with tiles and rests side by side",
    "flat_product": "zipped_product with blocks and copies side by side",
    "flatten": "all leaves at top level",
    "get": "the mode at that path",
    "group_modes": "that run of modes is gathered into one",
    "left_inverse": "offsets back to indices: modes by rising stride, filled up to the next stride",
    "make_layout_like": "dense strides in the order of the given ones",
    "max_common_layout": "the first mode of a o right_inverse(b), if its stride is 1",
    "prepend": "modes are added in front",
    "raked_product": "logical_product mode by mode; mode i is (copies i, block i)",
    "replace": "one mode is replaced",
    "select": "those modes in that order",
    "slice_": "the modes that the coordinate leaves free",
    "tile_to_shape": "blocked_product with as many copies a mode as fit, in the given order",
    "tiled_divide": "zipped_divide with the rests side by side",
    "tiled_product": "zipped_product with the copies side by side",
    "upcast": "strides are divided by n; modes of smaller stride lose the elements that merge",
    "downcast": "the stride-1 mode grows n times, all other strides are multiplied by n",
    "zip_": "two levels of modes change places",
    "zipped_divide": "logical_divide with tiles gathered in mode 0 and rests in mode 1",
    "zipped_product": "logical_product with blocks gathered in mode 0 and copies in mode 1",
}


def explain(subject: object, *operands: AnyLayout) -> str:
    """Return the derivation of an operation's result, of a layout, or of a refusal.

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
        return "\n".join(_refusal(subject))
    if isinstance(subject, (Layout, AbstractComposed)) and not operands:
        return why(subject)
    name = subject if isinstance(subject, str) else getattr(subject, "__name__", "")
    import cute_py

    operation = getattr(cute_py, name, None)
    if operation is None or not operands:
        raise refusal("explain-subject", operation="explain", value=subject)
    try:
        result = operation(*operands)
    except CuteError as error:
        return "\n".join(_refusal(error))
    return "\n".join(_told(name, operands, result))


def why(layout: AnyLayout) -> str:
    """Return how `layout` was made, and how its operands were made.

    >>> from cute_py import flatten, group_modes
    >>> print(group_modes(flatten(Layout((2, (2, 3)))), 0, 2).why())
    group_modes((2,2,3):(1,2,4), 0, 2) = ((2,2),3):((1,2),4)
      that run of modes is gathered into one
      flatten((2,(2,3)):(1,(2,4))) = (2,2,3):(1,2,4)
        all leaves at top level
    """
    return "\n".join(_history(layout))


def _history(layout: AnyLayout) -> Iterator[str]:
    made = getattr(layout, "_why", None)
    if made is None and isinstance(layout, AbstractComposed):
        yield f"{layout} is {layout.outer} o {layout.offset} o the layout below"
        yield from (f"  {line}" for line in _history(layout.inner))
        return
    if made is None:
        yield f"{layout} is given"
        return
    _, name, operands = made
    yield from _told(name, operands, layout)
    for operand in operands:
        if getattr(operand, "_why", None) is not None:
            yield from (f"  {line}" for line in _history(operand))


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
    steps = STEPS.get(name)
    layouts = [x for x in operands if x.__class__ is Layout]
    told = all(x._kind == INTS for x in layouts) or (
        name in SYMBOLIC and not any(hasattr(d, "path") for x in layouts for d in x._d)
    )
    if steps is not None and told and operands[0].__class__ is Layout:
        yield from steps(*operands)
    elif name in DEFINITIONS:
        yield DEFINITIONS[name]


# -- what happens inside of an operation


def _composition(a: Layout, b: Tiler) -> Iterator[str]:
    if b.__class__ is tuple:
        yield "mode by mode: " + ", ".join(
            f"{mode} o {_text(part)}" for mode, part in zip(a, b, strict=False)
        )
        return
    b = b if b.__class__ is Layout else Layout(b, 1)
    extents, strides = coalesced_beyond(a)
    digits = ", ".join(_digit_text(extents, k) for k in range(len(extents)))
    flat = f"{_pair(extents)}:{_pair(strides)}"
    yield f"a coalesced is {flat}; an index x of a has the digits {digits}"
    used: list[Any] = [0] * (len(extents) - 1)
    peaks: list[list[str]] = [[] for _ in used]
    for k, (extent, step) in enumerate(zip(b._s, b._d, strict=True)):
        before, words = list(used), []  # type: tuple[list[Any], list[str]]
        try:
            outcome = str(of_modes(walk(extents, strides, extent, step, used, True, words)))
        except Departs:
            outcome = "no layout"
        result = f" -> {outcome}" if extent > 1 and step > 0 else ""
        yield f"mode {k} of b, {extent}:{step}: {'; '.join(words)}{result}"
        for digit, (old, new) in enumerate(zip(before, used, strict=True)):
            if new > old:
                peaks[digit].append(str(new - old))
    for k, parts in enumerate(peaks):
        if len(parts) > 1:
            fits = "so the modes add up" if used[k] < extents[k] else "so it carries"
            yield f"carries: digit {k} is used up to {'+'.join(parts)} of {extents[k] - 1}, {fits}"


def _pair(leaves: list[int]) -> str:
    return show(tuple(leaves)) if len(leaves) > 1 else str(leaves[0])


def _digit_text(extents: list[int], k: int) -> str:
    below = 1
    for extent in extents[:k]:
        below *= extent
    quotient = "x" if below == 1 else f"x / {below}"
    if k == len(extents) - 1:
        return quotient
    return f"{quotient} % {extents[k]}" if below == 1 else f"({quotient}) % {extents[k]}"


def _complement(layout: Layout, target: IntTuple = None) -> Iterator[str]:
    modes = sorted((d, s) for s, d in zip(layout._s, layout._d, strict=True) if s > 1 and d)
    order = ", ".join(f"{s}:{d}" for d, s in modes) or "none"
    yield f"modes by rising stride, without broadcasts: {order}"
    words: list[str] = []
    try:
        filled = gaps_of(layout, [(extent, stride) for stride, extent in modes], words)[1]
    except CuteError:
        yield from words
        return
    yield from words
    if target is not None:
        yield f"offsets filled: {filled}; repeat up to {_text(target)}"


def _right_inverse(layout: Layout) -> Iterator[str]:
    extents, strides = coalesced(layout)
    flat = f"{_pair(extents)}:{_pair(strides)}"
    yield f"coalesced: {flat}; look for the modes that count 0, 1, ..."
    offset: Any = 1
    rest = list(range(len(extents)))
    while (k := next((k for k in rest if ints.same(strides[k], offset)), None)) is not None:
        rest.remove(k)
        offset, before = ints.mul(offset, extents[k]), offset
        yield f"stride {before} is mode {k}: offsets up to {ints.sub(offset, 1)} are reached"
    for k in rest:
        if ints.same(strides[k], offset) is None:
            yield f"it is not known whether stride {strides[k]} of mode {k} is {offset}"
    yield f"no mode has stride {offset}: stop"


def _max_common_layout(a: Layout, b: Layout) -> Iterator[str]:
    yield DEFINITIONS["max_common_layout"]
    yield f"right_inverse({b}):"
    yield from (f"  {line}" for line in _right_inverse(b))


def _logical_divide(layout: Layout, tiler: Tiler) -> Iterator[str]:
    if tiler.__class__ is tuple:
        parts = (f"{mode} by {_text(part)}" for mode, part in zip(layout, tiler, strict=False))
        yield "mode by mode: " + ", ".join(parts)
        return
    if tiler.__class__ is not Layout:
        tiler = Layout(tiler)
    rest = complement(tiler, layout.size())
    yield f"the tile is {tiler}; the tiles start at its complement, {rest}"
    yield f"composition({layout}, ({tiler}, {rest})):"
    pair = Layout((tiler.shape, rest.shape), (tiler.stride, rest.stride))
    yield from (f"  {line}" for line in _composition(layout, pair))


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
    "complement": _complement,
    "logical_divide": _logical_divide,
    "logical_product": _logical_product,
    "max_common_layout": _max_common_layout,
    "right_inverse": _right_inverse,
}
SYMBOLIC = ("max_common_layout", "right_inverse")  # steps that say what was not known of symbols


# -- refusals


def _refusal(error: CuteError) -> Iterator[str]:
    facts: dict[str, Any] = error.facts
    name = str(facts.get("operation", ""))
    operands = tuple(facts[key] for key in ("a", "b", "layout", "tiler") if key in facts)
    if name in STEPS and operands and operands[0].__class__ is Layout:
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
