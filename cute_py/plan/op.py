"""`Node`: the base of the records of a plan, and `Op`: the base of ops and their properties.

A record states how it uses its fields (their metadata), which blocks it contains, whether its
fields fit each other (`problem`), its text (`str`), its name in printed kernels (`word`, `stem`),
the instruction that it needs (`needs`), which threads execute it together (`group`), and which
other threads its threads may wait for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from cute_py.errors import place_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.atoms.copy import Copy_Op
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Reg


@dataclass(frozen=True, slots=True)
class Node:
    """Base of the records of a plan, which distinguishes them from plain values."""

    blocks: ClassVar[tuple[str, ...]] = ()
    """The fields that hold blocks of ops."""


# The metadata of a field: how an op uses the registers and numbers in it. A field without metadata
# is read, and may contain accesses, conditions and integers.
_ROLE = "role"
WRITTEN = {_ROLE: "written"}  # registers that an op writes and does not read
UPDATED = {_ROLE: "updated"}  # registers that it reads and writes: an accumulator
ELEMENTS = {_ROLE: "elements"}  # values for registers: numbers here are not integers of the plan
FIXED = {_ROLE: "fixed"}  # numbers, or tables of numbers, without expressions
UNSAVED = {_ROLE: "fixed", "saved": False}  # an object of Python, part of no file and no key
STORED = {_ROLE: "stored"}  # memory that it writes: an access, or the name of an array
LOADED = {_ROLE: "loaded"}  # the name of an array that it reads
PREFETCHED = {_ROLE: "prefetched"}  # an access whose values it neither reads nor writes
MBARRIER = {_ROLE: "mbarrier"}  # an access to an mbarrier
NAMED = {_ROLE: "named"}  # the name of an integer that it defines


def names_of(x: Node) -> tuple[str, ...]:
    """Return the names of the fields of a record."""
    kind: Any = type(x)
    return _names(kind)


def saved_names(kind: Any) -> tuple[str, ...]:  # a class
    """Return the names of the fields of a record that a file or key of a plan contains."""
    return _saved(kind)


@cache
def _saved(kind: Any) -> tuple[str, ...]:  # a class
    return tuple([f.name for f in fields(kind) if f.metadata.get("saved", True)])


def roles_of(x: Node) -> tuple[tuple[str, str], ...]:
    """Return (name, role) of each field that is neither a block nor fixed; the role is its
    metadata, "" for a field that is read.
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


class Lack(NamedTuple):
    """What no architecture has: the words of a refusal.

    Attributes:
        what: the operation.
        wanted: the operations of this kind that some architecture has.
        instead: what to write instead.
    """

    what: str
    wanted: str
    instead: str


Group: TypeAlias = Literal["thread", "warp", "warpgroup", "block"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op(Node):
    """Base of ops. `line` is the `(file, line)` of the kernel that recorded the op."""

    line: tuple[str, int] = field(default=("", 0), compare=False, repr=False)

    word: ClassVar[str]
    """Its name in plans and printed kernels."""
    variant: ClassVar[str] = ""
    """The field whose text follows the word in the name of its intrinsic."""
    call: ClassVar[str]
    """How a kernel writes it, for refusals: `cute.cp_async_wait`, or in words."""
    purpose: ClassVar[str]
    """A short description, for the head of a printed kernel."""
    share: ClassVar[str]
    """What share of a kernel's work it is, of `explain.SHARES`."""
    together: ClassVar[Group] = "thread"
    """The `group` that always executes it together."""
    instruction: ClassVar[str | None] = None
    """The instruction that it always needs, by its PTX name; None if all targets have it."""
    vectors: ClassVar[str] = ""
    """The field with the access whose vectors it moves, one address after another."""
    repeats: ClassVar[bool] = False
    """Whether it runs its blocks several times."""
    bulk: ClassVar[bool] = False
    """Whether an asynchronous unit accesses shared memory, in whole rows of 16 bytes."""
    atomic: ClassVar[bool] = False
    """Whether it reads and writes an element of memory atomically."""
    peers: ClassVar[bool] = False
    """Whether it can access the shared memory of another block of the cluster."""

    @property
    def stem(self) -> str:
        """The name of its intrinsic: the word, and the variant."""
        return f"{self.word}_{getattr(self, self.variant)}" if self.variant else self.word

    @property
    def waits(self) -> bool:
        """Whether its threads may have to wait for threads of other warps, or other blocks."""
        return False

    @property
    def group(self) -> Group:
        """The threads that must execute it together, those that have returned aside: where they
        ran apart, they come together at it.
        """
        return self.together

    @property
    def rejoins(self) -> bool:
        """Whether lanes of a warp may come together at several ops of its kind."""
        return False

    @property
    def consistent(self) -> bool:
        """Whether all writes to a register that it names several times have the same value."""
        return False

    @property
    def starts_anew(self) -> bool:
        """Whether it does not read the registers that it updates."""
        return False

    @property
    def preserved(self) -> Reg | None:
        """The registers that keep their values where a guard is false."""
        return None

    @property
    def moved(self) -> Access | None:
        """The access whose vectors it moves; None for other ops."""
        return getattr(self, self.vectors) if self.vectors else None

    @property
    def products(self) -> int:
        """How many matrix instructions a warp executes: one for each of its `steps`."""
        return len(getattr(self, "steps", ()))

    @property
    def where(self) -> str:
        """The line of the kernel that recorded it, `file.py:line`; "" if it is unknown."""
        return place_text(self.line) if self.line[1] else ""

    def problem(self) -> str:
        """Return what is wrong with its fields, in words; "" if they are valid."""
        return ""

    def lack(self) -> Lack | None:
        """Return what it needs and no architecture has, or None."""
        return None

    def needs(self) -> str | MMA_Atom | Copy_Op | None:
        """Return the instruction that it is compiled to, by the row of its `atom` or by its PTX
        name; None if every architecture has it.
        """
        found: MMA_Atom | Copy_Op | str | None = getattr(self, "atom", self.instruction)
        return found

    def __str__(self) -> str:
        """Return it as one line, without its blocks."""
        values = [getattr(self, name) for name in names_of(self) if name != "line"]
        return " ".join([self.word, *[_shown(x) for x in values if x not in (None, "", False)]])


Block: TypeAlias = tuple[Op, ...]


def _shown(x: object) -> str:
    return f"({', '.join(map(_shown, x))})" if isinstance(x, tuple) else str(x)
