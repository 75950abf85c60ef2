"""Wordings: the explorer."""

from __future__ import annotations

from cute_py.errors import ParseError

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
}
