"""`Node`: what plans are made of, and `Op`: what all ops have, and the facts that each one states.

A record says what it does with its fields (their metadata), which blocks it holds, what must hold
of it by itself (`problem`), how it reads as a line (`str`), what printed kernels call it (`word`,
`stem`), which instruction it needs (`needs`), and whom its threads wait for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, TypeAlias

from cute_py.errors import place_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.atoms.copy import Copy_Op
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Reg


@dataclass(frozen=True, slots=True)
class Node:
    """Base of the records of a plan, so that a walk knows them from plain values."""

    blocks: ClassVar[tuple[str, ...]] = ()
    """The fields that hold blocks of ops."""


# The metadata of a field: what a walk makes of the registers and numbers in it. A plain field is
# read, and may hold accesses, conditions and integers.
_ROLE = "role"
WRITTEN = {_ROLE: "written"}  # registers that an op writes and does not read
UPDATED = {_ROLE: "updated"}  # registers that it reads and writes: an accumulator
ELEMENTS = {_ROLE: "elements"}  # values for registers: numbers there are no integers of the plan
FIXED = {_ROLE: "fixed"}  # numbers, or tables of them, with no expression inside
STORED = {_ROLE: "stored"}  # memory that it writes: an access, or the name of an array
LOADED = {_ROLE: "loaded"}  # the name of an array that it reads
NEARED = {_ROLE: "neared"}  # an access whose values it neither reads nor writes
MBARRIER = {_ROLE: "mbarrier"}  # an access to an mbarrier
NAMED = {_ROLE: "named"}  # the name of an integer that it gives a value


def names_of(x: Node) -> tuple[str, ...]:
    """Return the names of the fields of a record."""
    kind: Any = type(x)
    return _names(kind)


def roles_of(x: Node) -> tuple[tuple[str, str], ...]:
    """Return (name, role) of each field that is neither a block nor fixed; role: what its metadata
    says, "" for what is read.
    """
    kind: Any = type(x)
    return _roles(kind)


@cache
def _names(kind: Any) -> tuple[str, ...]:  # a class
    return tuple([f.name for f in fields(kind)])


@cache
def _roles(kind: Any) -> tuple[tuple[str, str], ...]:  # a class
    found = [(f.name, f.metadata.get(_ROLE, "")) for f in fields(kind) if f.name != "line"]
    return tuple([(n, role) for n, role in found if role != "fixed" and n not in kind.blocks])


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
        return place_text(self.line) if self.line[1] else ""

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
