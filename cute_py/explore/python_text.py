"""An expression as Python: calls of `cute_py` by their names there, literals as their `repr`."""

from __future__ import annotations

from re import findall, sub

import cute_py
from cute_py.atoms.copy import Copy_Op
from cute_py.atoms.mma import MMA_Atom
from cute_py.errors import CuteError
from cute_py.explore.operands import CLOSING, OPENING, calls_of, tokens_of, value_of
from cute_py.expression import CONSTANTS, PACKAGES, TILED, functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# names of the language that Python spells otherwise
_SPELLED = {
    "bank_conflicts": "analysis.bank_conflicts",
    "min": "min_",
    "tv": "viz.picture_tv",
}
_INSTRUCTION = r"(?:SM\d|Universal|DefaultCopy|AutoVectorizing)\w*(?:<[^<>]*>)?"


def python_of(text: str) -> str:
    """Return the expression as Python, for `import cute_py as cute`.

    Law: it has the value of the expression. Raises what `value_of` raises.

    >>> print(python_of("zipped_divide((8,8):(8,1), (4,2))"))
    cute.zipped_divide(cute.Layout((8, 8), (8, 1)), (4, 2))
    >>> print(python_of("mma(SM61_DP4A, (2,2,1))"))
    cute.make_tiled_mma('SM61_DP4A', (2, 2, 1))
    """
    value_of(text)  # refused as a whole, with its own words
    return _of(text)


def _of(text: str) -> str:
    """Return a part of an expression."""
    tokens = tokens_of(text)
    for start, places, end in calls_of(text, tokens):
        if start == tokens[0].start or _qualified(text[:start]):
            name = text[start : text.index("(", start)].strip()
            if end == tokens[-1].start and name in functions():
                return _call(name, [text[a:b].strip() for a, b in places])
    if not any(token.kind == "name" and token.text in (*functions(), "o") for token in tokens):
        return _literal(text.strip())
    parts = list(_split(text, "o"))
    if len(parts) == 2:
        return f"cute.composition({', '.join(map(_of, parts))})"
    if len(parts) == 1 and tokens[0].kind == "(" and tokens[-1].kind == ")":
        items = list(_split(text[tokens[0].end : tokens[-1].start], ","))
        if len(items) > 1 and _closes_at_the_end(tokens):
            given = [_of(item) for item in items if item.strip()]
            return f"({', '.join(given)}{',' * (len(given) == 1)})"
    return _literal(text.strip())


def _qualified(before: str) -> bool:
    return before.replace(" ", "") in ("cute.", *[f"cute.{each}." for each in PACKAGES])


def _closes_at_the_end(tokens: list[Any]) -> bool:
    """Return whether the first bracket is closed by the last one."""
    depth = 0
    for token in tokens[:-1]:
        depth += (token.kind in OPENING) - (token.kind in CLOSING)
        if not depth:
            return False
    return True


def _split(text: str, sign: str) -> Iterator[str]:
    """Yield the parts between a sign that is in no bracket."""
    depth, start = 0, 0
    for token in tokens_of(text):
        depth += (token.kind in OPENING) - (token.kind in CLOSING)
        if token.text == sign and not depth:
            yield text[start : token.start]
            start = token.end
    yield text[start:]


# -- calls


def _call(name: str, arguments: list[str]) -> str:
    """Return a call; instructions and symbols are texts in Python."""
    given = [_argument(name, each) for each in arguments]
    if name == "copy":
        return _copy(given)
    if name == "mma":
        name = "make_tiled_mma"
    if name == "suggest_smem_layout":
        return f"cute.{name}({', '.join(given)}).layout"
    if name == "substitute":
        return _substituted(given)
    return f"cute.{_SPELLED.get(name, name)}({', '.join(given)})"


def _argument(name: str, text: str) -> str:
    key = findall(r"^(\w+)\s*=(?!=)", text)
    if key:
        return f"{key[0]}={_of(text.partition('=')[2])}"
    if text.startswith(("'", '"')):
        return text
    if name in TILED and findall(rf"^{_INSTRUCTION}$", text):
        return repr(text)
    if name == "suggest_smem_layout" and text.startswith("copy"):
        return f"({_of(text)},)"
    return _of(text)


def _copy(given: list[str]) -> str:
    """Return the Python of `copy(instruction, threads, values, bits=16)`."""
    parts = dict(zip(("op", "threads", "values", "bits"), given, strict=False))
    for each in given:
        key, sign, value = each.partition("=")
        if sign and key in ("op", "threads", "values", "bits"):
            parts = {k: x for k, x in parts.items() if x != each} | {key: value}
    atom = f"cute.Copy_Atom({parts['op']}, {parts.get('bits', '16')})"
    if "threads" not in parts and "values" not in parts:
        return atom
    threads, values = parts.get("threads", "1"), parts.get("values", "1")
    return f"cute.make_tiled_copy({atom}, {threads}, {values})"


def _substituted(given: list[str]) -> str:
    pairs = [each.partition("=") for each in given[1:]]
    values = ", ".join([f"{key!r}: {value}" for key, _, value in pairs])
    return f"cute.substitute({given[0]}, {{{values}}})"


# -- literals


def _literal(text: str) -> str:
    """Return a part without calls: its value as Python writes it."""
    bare = text.rpartition(".")[2] if _qualified(text[: text.rfind(".") + 1]) else text
    if bare in CONSTANTS:
        return f"cute.{bare}"
    value = value_of(text)
    if isinstance(value, MMA_Atom):
        name = str(value)
        return f"cute.atoms.{name}" if name.isidentifier() else f"cute.atoms.get({name!r})"
    if isinstance(value, Copy_Op):
        return f"cute.get_copy({str(value)!r})"
    return _named(repr(value))


def _named(text: str) -> str:
    """Return the repr of a value with `cute.` before the names of cute_py, which are not in
    quotation marks.
    """
    pieces = text.split("'")
    pieces[::2] = [sub(r"(?<![\w.])(_|[A-Za-z]\w*)", _known, piece) for piece in pieces[::2]]
    return "'".join(pieces)


def _known(found: Any) -> str:
    name = str(found[0])
    try:
        getattr(cute_py, name)
    except (AttributeError, CuteError):
        return name
    return f"cute.{name}"
