"""`answer`: what the explorer shows for a state."""

from __future__ import annotations

from cute_py.errors import CuteError, refusal
from cute_py.explore.operands import value_of
from cute_py.explore.pasted import pasted
from cute_py.explore.patterns import explanation
from cute_py.explore.states import VERSION, checked
from cute_py.explore.tiles import tiles
from cute_py.expression import show as text_of
from cute_py.layout import Mapped, tuples
from cute_py.layout.algebra.proofs import symbols_of_layout
from cute_py.layout.coords import LayoutLeft, LayoutRight
from cute_py.layout.layout import Layout, make_layout
from cute_py.viz.cells import TileTV, require_small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_CELLS = 1 << 15  # of a live picture
SIZES = (8, 4, 16, 64, 128, 2, 1)  # to try for symbols
NO_STRIDES = "This is a shape; a layout has strides, too. It is drawn with those of LayoutLeft."


def answer(state: Any) -> dict[str, Any]:
    """Return the value of an expression and its pictures, as JSON.

    Args:
        state: `v`, 1; `e`, the expression; `by`, what the colours tell apart, and `bits`, the width
            of an element (bits), as for `cute.show`; `cells`, what the cells of a layout show:
            "" (values), "index" or "coordinate"; `sel`, what is selected, such as "T5"; `was`, an
            expression to compare with, or ""; `as`, one of FORMS, if that form of the value is
            wanted alone; and `read` or `find`, a text whose expression is wanted alone, as for
            `pasted`: any, or the layout of offsets.

    Returns a dict with `v`, `value` (text), `scene` (None without a picture), `reason` (why a value
    that could be drawn is not), `hint` and `tries` (what it lacks, and expressions that have it),
    `operands` (the scene of an operation's operands and its result, or None), `before` (the scene
    of `was` next to the value, or None), `tiles` (what the function `tiles` offers), `pattern`
    (what a pattern of the gallery shows, or ""), `why` (the scene of the derivation, or None) and
    `sel`; for `as` with `v` and `text`; for `read` and `find` with `v` and `e`; or with `v` and
    `error`, whose entries are `code`, `given`, `required`, `fix` and `repairs`, expressions that
    have a value. It never raises.

    >>> found = answer({"v": 1, "e": "composition((6,2):(1,7), (3,2):(2,3))"})["error"]
    >>> found["code"], found["repairs"][0]
    ('composition-departs', 'composition((7,2):(1,7), (3,2):(2,3))')
    >>> answer({"v": 2})["error"]["code"]
    'explore-state'
    """
    try:
        return _answer(state)
    except CuteError as error:
        return {"v": VERSION, "error": {**error_of(error), "repairs": _repairs(state, error)}}
    except ImportError as error:
        package = refusal("explore-package", operation="explore", reason=error)
        return {"v": VERSION, "error": error_of(package)}
    except Exception as error:  # of a value that cannot be shown: a page has no traceback
        reason = type(error).__name__
        limit = refusal("explore-limit", operation="explore", reason=reason)
        return {"v": VERSION, "error": error_of(limit)}


def _answer(state: Any) -> dict[str, Any]:
    given = checked(state, FORMS)
    if text := given.get("read") or given.get("find"):
        return {"v": VERSION, "e": pasted(text, offsets="find" in given)}
    value = value_of(given["e"])
    hint, tries, drawn = hints(given["e"], value)
    if given.get("as"):
        return {"v": VERSION, "text": _as(given, drawn)}
    scene, reason = _scene(drawn, given["by"] or None, given["bits"])
    before, missing = _before(given, drawn) if given["was"] else (None, "")
    return {
        "v": VERSION,
        "value": text_of(value),
        "scene": scene,
        "reason": reason or missing,
        "hint": hint,
        "tries": tries,
        "operands": _operands(given, value),
        "before": before,
        "tiles": list(tiles(given["e"], value)),
        "pattern": explanation(given["e"]),
        "why": _why(value),
        "sel": given["sel"],
    }


def _repairs(state: Any, error: CuteError) -> list[str]:
    """Return the repairs of the expression of a state, none if the state itself is refused."""
    if isinstance(state, dict) and (state.get("read") or state.get("find")):
        named: Any = error.facts.get("expressions", ())
        return list(named)
    text = state.get("e") if isinstance(state, dict) else None
    if text.__class__ is not str or error.code == "explore-state":
        return []
    from cute_py.explore.repairs import repairs

    return repairs(text, error)


def _scene(value: Any, by: str | None, bits: int) -> tuple[dict[str, Any] | None, str]:
    """Return the scene of a value; or None, and why a value of a type with pictures has none."""
    from cute_py.viz.scenes import scene

    try:
        require_small(value, _cells(value), most=MOST_CELLS)
        return scene(value, by=by, bits=bits), ""
    except CuteError as error:
        if error.code == "viz-by":  # the colours were chosen for another value
            return _scene(value, None, bits)
        if error.code == "viz-type":
            return None, ""
        if error.code.startswith(("viz-", "tools-symbols")):
            return None, "{required}; {fix}".format(**error_of(error))
        raise


def _before(given: dict[str, Any], value: Any) -> tuple[dict[str, Any] | None, str]:
    """Return the scene of the expression before next to the value; or None, and why."""
    from cute_py.viz.comparisons import before_and_after
    from cute_py.viz.scenes import scene_of

    try:
        before = value_of(given["was"])
        before = hints(given["was"], before)[2]
        require_small(value, _cells(before) + _cells(value), most=MOST_CELLS)
        pair = (given["was"], before), (given["e"], value)
        return scene_of(before_and_after(*pair, _by(value, given), given["bits"])), ""
    except CuteError as error:
        return None, "{required}; {fix}".format(**error_of(error))


def _cells(value: Any) -> int:
    """Return about how many cells the picture of a value has."""
    if value.__class__ is tuple:
        return sum(map(_cells, value))
    if isinstance(value, Mapped):
        count = value.size()
        return count if count.__class__ is int else 0
    if hasattr(value, "permutation_mnk"):
        m, n, k = (value.tile_size(mode) for mode in range(3))
        return int(m * k + n * k + m * n)
    return int(2 * tuples.product(getattr(value, "tile_shape", 0)))


def _operands(given: dict[str, Any], value: Any) -> dict[str, Any] | None:
    """Return the scene of the operands of an operation next to its result."""
    from cute_py.explore.operands import with_operands
    from cute_py.viz.scenes import scene_of

    by = given["by"] if given["by"] in ("bank", "tile") else None
    drawn = with_operands(given["e"], value, by, given["bits"])
    return None if drawn is None else scene_of(drawn)


def _why(value: Any) -> dict[str, Any] | None:
    """Return the scene of the derivation of a layout."""
    from cute_py.viz.scenes import scene

    return scene(value.why()) if hasattr(value, "why") else None


# -- what a value lacks for a picture


def hints(text: str, value: Any) -> tuple[str, list[str], Any]:
    """Return what a value lacks ("" if nothing), expressions that have it, and what is drawn.

    Args:
        text: the expression.
        value: its value.

    >>> hint, tries, drawn = hints("(4,8)", (4, 8))
    >>> tries, print(drawn)
    (4,8):(1,4)
    (['(4,8):(1,4)', '(4,8):(8,1)'], None)
    """
    if _is_shape(text, value):
        tries = [str(make_layout(value, order)) for order in (LayoutLeft, LayoutRight)]
        return NO_STRIDES, list(dict.fromkeys(tries)), Layout(value)
    if isinstance(value, Mapped) and hasattr(value, "why"):
        return "", _with_numbers(text, value), value
    return "", [], value


def _is_shape(text: str, value: Any) -> bool:
    """Return whether the text is a tuple of sizes, and no call whose value is one."""
    bare = not any(sign.isalpha() for sign in text)
    return (
        bare
        and value.__class__ is tuple
        and bool(value)
        and all(map(_is_size, tuples.leaves(value)))
    )


def _is_size(leaf: object) -> bool:
    return leaf.__class__ is int and leaf > 0


def _with_numbers(text: str, value: Any) -> list[str]:
    """Return the expression with numbers for its symbols, the first that they admit."""
    symbols = [str(symbol) for symbol in symbols_of_layout(value)]
    for size in SIZES if symbols else ():
        made = f"substitute({text}, {', '.join([f'{name}={size}' for name in symbols])})"
        try:
            value_of(made)
        except CuteError:
            continue
        return [made]
    return []


# -- refusals


def error_of(error: CuteError) -> dict[str, Any]:
    """Return the parts of a refusal, without repairs."""
    head, _, rest = str(error).partition("; required: ")
    required, _, fix = rest.partition("; fix: ")
    found = {"code": error.code, "given": head.partition(": given ")[2], "required": required}
    return {**found, "fix": fix, "repairs": []}


# -- what can be copied


def _as(given: dict[str, Any], value: Any) -> str:
    """Return the value in one of the forms."""
    if given["as"] != "python":
        require_small(value, _cells(value), most=MOST_CELLS)
    return FORMS[given["as"]][1](value, given)


def _svg(value: Any, given: dict[str, Any]) -> str:
    from cute_py.viz.svg import to_svg

    return to_svg(value, by=_by(value, given), bits=given["bits"])


def _latex(value: Any, given: dict[str, Any]) -> str:
    from cute_py.viz.latex import to_latex

    return to_latex(value, by=_by(value, given), bits=given["bits"])


def _by(value: Any, given: dict[str, Any]) -> str | None:
    """Return what the colours tell apart, None where the value has no such colours."""
    from cute_py.viz.build import picture_of

    try:
        picture_of(value, by=given["by"] or None, bits=given["bits"])
    except CuteError as error:
        if error.code != "viz-by":
            raise
        return None
    return given["by"] or None


def _python(value: Any, given: dict[str, Any]) -> str:
    from cute_py.explore.python_text import python_of

    made = python_of(given["e"])
    x = "cute.Layout(x)" if hints(given["e"], value_of(given["e"]))[0] else "x"
    if _scene(value, None, given["bits"])[0] is None:
        return f"import cute_py as cute\n\nx = {made}\nprint({x})\n"
    by = _by(value, given)
    if isinstance(value, TileTV) and by in ("thread", "value"):  # of the picture, in Python
        made, by = f"{made[:-1]}, {by!r})", None
    options = f"by={by!r}, bits={given['bits']}" if by else f"bits={given['bits']}"
    return f"import cute_py as cute\n\nx = {made}\ncute.show({x}, {options})\n"


FORMS: dict[str, tuple[str, Callable[[Any, dict[str, Any]], str]]] = {
    "svg": ("SVG", _svg),
    "latex": ("LaTeX", _latex),
    "python": ("Python", _python),
}
