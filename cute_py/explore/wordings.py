"""Wordings: the explorer."""

from __future__ import annotations

from cute_py.errors import CuteError, ParseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "explore-state": (
        ParseError,
        "{name}={value!r}",
        "v=1, texts e, by and sel, and bits from 1 to 1024",
        "open the link with the version that made it, or begin with #v1&e=(4,8):(8,1)",
    ),
    "explore-limit": (
        ParseError,
        "an expression that ends in a {reason}",
        "values that fit into memory",
        "use smaller shapes, or cute_py from Python",
    ),
    "explore-package": (
        ParseError,
        "an expression for which a package is missing: {reason}",
        "what the standard library does, in a page",
        "use smaller shapes, or cute_py from Python",
    ),
    "explore-slow": (
        ParseError,
        "an expression without an answer after {seconds} s; its worker was ended",
        "values that take less time",
        "use smaller shapes, or cute_py from Python",
    ),
    "explore-runtime": (
        CuteError,
        "the folder {path}, which has no {missing}",
        "the files of the package pyodide",
        "unpack the npm package pyodide {version} and name its folder, or leave --runtime out",
    ),
}
