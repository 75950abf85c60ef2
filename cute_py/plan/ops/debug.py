"""Debugging: prints and assertions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from cute_py.plan.conditions import Cond, Value
from cute_py.plan.op import ELEMENTS, Op


@dataclass(frozen=True, slots=True)
class Print(Op):
    """Print the text, with each `{}` replaced by a value, in each thread."""

    text: str
    values: tuple[Value, ...] = field(metadata=ELEMENTS)

    word: ClassVar[str] = "print"
    call: ClassVar[str] = "cute.print"
    purpose: ClassVar[str] = "prints a text"


@dataclass(frozen=True, slots=True)
class Assert(Op):
    """Trap with the text if cond is false."""

    cond: Cond
    text: str

    word: ClassVar[str] = "assert"
    call: ClassVar[str] = "cute.assert_"
    purpose: ClassVar[str] = "trap where a condition fails"
