"""`CUTE_PY_DEBUG`: the stages of a compilation on stderr.

A number says how much: 1 the seconds of each pass and the registers, 2 also the plan, the lowered
plan and the source, 3 also PTX, 4 also SASS. Or the stages by name, with commas:
`time,plan,lowered,source,ptx,log,sass`.
"""

from __future__ import annotations

import os
import sys

from cute_py.errors import refusal

VARIABLE = "CUTE_PY_DEBUG"
STAGES = ("time", "plan", "lowered", "source", "ptx", "log", "sass")
LEVELS: tuple[tuple[str, ...], ...] = ((), STAGES[:1], STAGES[:4], STAGES[:5], STAGES)


def wanted() -> frozenset[str]:
    """Return the stages that `CUTE_PY_DEBUG` asks for.

    Raises LayoutError where it says something else.
    """
    given = os.environ.get(VARIABLE, "").strip()
    if given.isdecimal() and int(given) < len(LEVELS):
        return frozenset(LEVELS[int(given)])
    names = {name.strip() for name in given.split(",")} - {""}
    if not names <= set(STAGES):
        raise refusal(
            "codegen-debug", operation="cute.compile", given=given, known=",".join(STAGES)
        )
    return frozenset(names)


def show(title: str, text: str = "") -> None:
    """Print a stage to stderr, below a line that names it."""
    body = f"\n{text.rstrip()}" if text else ""
    print(f"== {title}{body}", file=sys.stderr, flush=True)
