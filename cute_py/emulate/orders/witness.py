"""`Witness`: an order of the strong operations of a kernel, which `cute.emulate` can repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cute_py.emulate.turns import Chooser
from cute_py.errors import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.emulate.turns import Turn, Who


@dataclass(frozen=True, slots=True)
class Choice:
    """A strong operation in a witness: whose turn it was, its line, what it did where, what it
    found there, and the role that the warp has, if any.
    """

    who: Who
    line: str
    what: str
    found: str
    role: str = ""

    def __str__(self) -> str:
        block, warp, *lanes = self.who
        role = f" (role {self.role!r})" if self.role else ""
        who = f"block {block}, warp {warp}{role}, lane{'s' * (len(lanes) > 1)} {ranges(lanes)}"
        return f"{who}: {self.what}, found {self.found} ({self.line})"


@dataclass(frozen=True, slots=True)
class Witness:
    """An order: the strong operations that decide what happens, and whose turn it is in all.

    Attributes:
        ends: how the run ends, as the message of the refusal; "" where all is well.
        choices: the operations before which another order would have led elsewhere, in order.
        turns: whose turn it is at each strong operation that is not that of the usual rule.
        resident: the number of blocks that run at a time; None: as many as an H100 holds.
    """

    ends: str
    choices: tuple[Choice, ...]
    turns: tuple[tuple[int, Who], ...]
    resident: int | None = None

    def __str__(self) -> str:
        rows = [f"  {n}. {choice}" for n, choice in enumerate(self.choices, 1)]
        return "\n".join([*rows, f"  {self.ends or 'the end of all threads'}"])

    def replay(self) -> Replay:
        """Return what chooses the same once more."""
        return Replay(dict(self.turns))


class Replay(Chooser):
    """Chooses as a witness does, and by the usual rule where that says nothing."""

    def __init__(self, turns: dict[int, Who]) -> None:
        self.turns, self.depth = turns, 0
        self.counts: dict[Who, int] = {}

    def choose(self, turns: list[Turn]) -> Turn | None:
        """Return whose turn it is; None where nobody can go on."""
        able = candidates(turns)
        if not able:
            return None
        who = self.turns.get(self.depth)
        if who not in able:
            who = usual(able, self.counts)
        self.depth += 1
        self.counts[who] = self.counts.get(who, 0) + 1
        return able[who]


def candidates(turns: list[Turn]) -> dict[Who, Turn]:
    """Return those who can go on; of those that go round a loop that changes nothing, only where
    there is nobody else, and something of their own does change.
    """
    able = {t.event.who: t for t in turns if t.able and not t.spins}
    return able or {t.event.who: t for t in turns if t.able and not t.exact}


def usual(able: Iterable[Who], counts: dict[Who, int]) -> Who:
    """Return whose turn it is if nothing else is said: who has had the fewest, or the first."""
    return min(able, key=lambda who: (counts.get(who, 0), who))
