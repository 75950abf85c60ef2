"""Debugging: prints and assertions."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import Formatter
from typing import ClassVar

from cute_py.plan.conditions import Cond, Reg, Value
from cute_py.plan.op import ELEMENTS, Lack, Op
from cute_py.plan.ops.registers import values_of


def fields_of(text: object) -> int | None:
    """Return the number of `{}` in a text; None if it has other fields, lone braces, or a NUL."""
    if not isinstance(text, str):
        return None
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return None
    plain = all(part[1:] in (("", "", None), (None, None, None)) for part in parts)
    return sum(part[1] is not None for part in parts) if plain and "\0" not in text else None


@dataclass(frozen=True, slots=True)
class Print(Op):
    """Print the text and a newline in each thread, with each `{}` replaced by a value: floats as
    `%g`, integers as `%d`, flags as 1 or 0, and several elements as a list.
    """

    text: str
    values: tuple[Value, ...] = field(metadata=ELEMENTS)

    word: ClassVar[str] = "print"
    call: ClassVar[str] = "cute.print"
    purpose: ClassVar[str] = "vprintf of a text"
    share: ClassVar[str] = "debugging"

    def problem(self) -> str:
        """Check for a value for each {}."""
        count = fields_of(self.text)
        return "" if count == len(self.values) else f"{len(self.values)} values in {self.text!r}"

    def lack(self) -> Lack | None:
        """Types with values."""
        kinds = [x.dtype for x in self.values if isinstance(x, Reg)]
        return next(filter(None, [values_of(kind, "a print") for kind in kinds]), None)

    def format(self, signed: str = "%lld", unsigned: str = "%llu") -> str:
        """Return the format for printf, with these texts for integers of 64 bits."""
        text, values = "", iter(self.values)
        for literal, name, _spec, _conversion in Formatter().parse(self.text):
            text += literal.replace("%", "%%")
            if name is not None:
                value = next(values)
                kind = value.dtype.name if isinstance(value, Reg) else ""
                floats = isinstance(value, float) or (
                    isinstance(value, Reg) and value.dtype.is_float
                )
                each = "%g" if floats else unsigned if kind == "u64" else signed
                count = len(value) if isinstance(value, Reg) else 1
                text += f"[{', '.join([each] * count)}]" if count > 1 else each
        return text + "\n"


@dataclass(frozen=True, slots=True)
class Assert(Op):
    """Trap with the text if cond is false."""

    cond: Cond
    text: str

    word: ClassVar[str] = "assert"
    call: ClassVar[str] = "cute.assert_"
    purpose: ClassVar[str] = "trap where a condition fails"
    share: ClassVar[str] = "debugging"
