"""`Op`: what all ops of a plan have, and the facts that each one states of itself.

A record says what it writes (`written`, `updated`), which blocks it holds, what must hold of it by
itself (`problem`), how it reads as a line (`str`), what printed kernels call it (`word`, `stem`),
which instruction it needs (`needs`), and whether its threads wait for others (`waits`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from cute_py.atoms.copy import Copy_Op
from cute_py.atoms.mma import MMA_Atom
from cute_py.plan.conditions import Reg, Scalar
from cute_py.plan.node import Node, names_of

Value: TypeAlias = Reg | Scalar | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Op(Node):
    """What all ops have: the place in the kernel, `(file, line)`, that made it."""

    line: tuple[str, int] = field(default=("", 0), compare=False, repr=False)

    word: ClassVar[str]
    """What plans and printed kernels call it."""
    purpose: ClassVar[str]
    """What it does, in a few words, for the head of a printed kernel."""

    @property
    def stem(self) -> str:
        """What its intrinsic is called: the word, and what tells its variants apart."""
        return self.word

    @property
    def waits(self) -> bool:
        """Whether its threads may have to wait for threads of other warps, or other blocks."""
        return False

    @property
    def where(self) -> str:
        """The place of the kernel that made it, `file.py:line`; "" where it is not known."""
        file, line = self.line
        return f"{file.replace(chr(92), '/').rpartition('/')[2]}:{line}" if line else ""

    def problem(self) -> str:
        """Return what does not hold of its own fields, in words; "" if all is well."""
        return ""

    def needs(self) -> str | MMA_Atom | Copy_Op | None:
        """Return the instruction that it is compiled to, by its PTX name or the atom's row; None
        where every architecture has it.
        """
        return None

    def __str__(self) -> str:
        """Return it as one line, without the blocks that it holds."""
        values = [getattr(self, name) for name in names_of(self) if name != "line"]
        return " ".join([self.word, *[_shown(x) for x in values if x not in (None, "", False)]])


Block: TypeAlias = tuple[Op, ...]


def _shown(x: object) -> str:
    return f"({', '.join(map(_shown, x))})" if isinstance(x, tuple) else str(x)
