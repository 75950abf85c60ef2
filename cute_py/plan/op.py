"""`Op`: what all ops of a plan have, and the facts that each one states of itself.

A record says what it does with its fields (their metadata, see `node`), which blocks it holds,
what must hold of it by itself (`problem`), how it reads as a line (`str`), what printed kernels
call it (`word`, `stem`), which instruction it needs (`needs`), and whom its threads wait for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from cute_py.atoms.copy import Copy_Op
from cute_py.atoms.mma import MMA_Atom
from cute_py.plan.access import Access
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
    instruction: ClassVar[str | None] = None
    """The instruction that it always needs, by its PTX name; None where all targets have it."""
    repeats: ClassVar[bool] = False
    """Whether it runs its blocks several times."""
    bulk: ClassVar[bool] = False
    """Whether an engine does it, and touches shared memory in whole rows of 16 bytes."""
    atomic: ClassVar[bool] = False
    """Whether it reads and writes an element of memory in one step."""
    across: ClassVar[bool] = False
    """Whether its threads may wait for other blocks of the grid."""

    @property
    def stem(self) -> str:
        """What its intrinsic is called: the word, and what tells its variants apart."""
        return self.word

    @property
    def waits(self) -> bool:
        """Whether its threads may have to wait for threads of other warps, or other blocks."""
        return False

    @property
    def together(self) -> bool:
        """Whether all threads of the block must come to it."""
        return False

    @property
    def agrees(self) -> bool:
        """Whether registers that it names several times get one value each."""
        return False

    @property
    def kept(self) -> Reg | None:
        """The registers that keep what they hold where a guard fails."""
        return None

    @property
    def moved(self) -> Access | None:
        """The access whose vectors it moves, one address after the other."""
        return None

    @property
    def products(self) -> int:
        """How many matrix instructions a warp executes."""
        return 0

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
        return self.instruction

    def __str__(self) -> str:
        """Return it as one line, without the blocks that it holds."""
        values = [getattr(self, name) for name in names_of(self) if name != "line"]
        return " ".join([self.word, *[_shown(x) for x in values if x not in (None, "", False)]])


Block: TypeAlias = tuple[Op, ...]


def _shown(x: object) -> str:
    return f"({', '.join(map(_shown, x))})" if isinstance(x, tuple) else str(x)
