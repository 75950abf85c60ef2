"""States of the explorer, and their links: fragments of an address, which a reader can read.

    #v1&e=composition(Sw<3,0,3>,(8,8):(8,1))&by=bank&bits=16&sel=O5

A link opens for ever: an entry may be added, none changes its meaning.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

VERSION = 1
WIDEST = 1 << 10  # bits of an element
PLAIN: dict[str, Any] = {
    "v": VERSION,
    "e": "",
    "by": "",
    "bits": 16,
    "cells": "",
    "sel": "",
    "was": "",
}
READABLE = "(),:<>@*+-._[]="  # characters that stay as they are
ENTRIES = ("e", "by", "bits", "cells", "sel", "was")


def checked(state: Any, forms: Collection[str]) -> dict[str, Any]:
    """Return a state with all its entries; refuse another version, type or width, and a form of the
    value that is none of `forms`.
    """
    given = {**PLAIN, **state} if isinstance(state, dict) else {**PLAIN, "v": state}
    form = given.get("as")
    if form and not (form.__class__ is str and form in forms):
        raise refusal("explore-state", operation="explore", name="as", value=form)
    for name in ("read", "find"):
        if given.get(name, "").__class__ is not str:
            raise refusal("explore-state", operation="explore", name=name, value=given[name])
    for name, default in PLAIN.items():
        x = given[name]
        good = x.__class__ is default.__class__
        if name in ("v", "bits"):
            good = good and (x == VERSION if name == "v" else 0 < x <= WIDEST)
        if not good:
            raise refusal("explore-state", operation="explore", name=name, value=x)
    return given


# -- links


def state_of(link: str) -> dict[str, Any]:
    """Return the state of a link, for `answer`, which refuses what is wrong in it.

    >>> state_of("#v1&e=(4,8):(8,1)&bits=32")
    {'v': 1, 'e': '(4,8):(8,1)', 'bits': 32}
    """
    version, *entries = link.partition("#")[2].split("&")
    state: dict[str, Any] = {"v": _number(version.removeprefix("v"))}
    for entry in entries:
        name, _, text = entry.partition("=")
        if name in ENTRIES:
            value = unquote(text)
            state[name] = _number(value) if name == "bits" else value
    return state


def _number(text: str) -> int | str:
    """Return a short number, and any other text as it is."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def link_of(state: Mapping[str, Any]) -> str:
    """Return the link of a state.

    Law: `state_of(link_of(state)) == state`.

    >>> link_of({"v": 1, "e": "(4,8):(8,1) o 4", "by": "bank"})
    '#v1&e=(4,8):(8,1)%20o%204&by=bank'
    """
    given = [name for name in ENTRIES if name in state]
    parts = [f"{name}={quote(str(state[name]), safe=READABLE)}" for name in given]
    return "&".join([f"#v{state['v']}", *parts])
