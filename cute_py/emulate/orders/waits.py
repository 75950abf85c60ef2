"""Whether a wait would have been over without operations that its thread does not know of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cute_py.emulate.orders.search import Step
    from cute_py.emulate.turns import Turn

MOST_SETS = 256  # of operations that are left out


def left_out(
    turn: Turn, steps: list[Step], here: list[int], free: list[int]
) -> list[tuple[int, ...]] | None:
    """Return the smallest sets of operations without which a wait would be over, or may be; None if
    there are too many to look at.

    Args:
        turn: before the wait.
        steps: the operations of the run.
        here: those that the wait depends on, in order.
        free: those of them that its thread does not know of.
    """
    if _never_holds(turn, [steps[j] for j in free]):
        return []
    found: list[tuple[int, ...]] = []
    looked, sets = 0, set[tuple[int, ...]]({()})
    while sets:
        rest = {left: last_of(steps, [k for k in free if k not in left]) for left in sets}
        more = {tuple(sorted((*left, j))) for left, last in rest.items() for j in last}
        sets = {x for x in more if not any({*known} <= {*x} for known in found)}
        looked += len(sets)
        if looked > MOST_SETS:
            return None
        values = {left: _value(turn, steps, here, left) for left in sorted(sets)}
        over = [left for left, n in values.items() if n is None or turn.holds(turn.wrapped(n))]
        found, sets = found + over, sets.difference(over)
    return found


def last_of(steps: list[Step], among: list[int]) -> list[int]:
    """Return those of some operations that none of the others comes after, the last one first."""
    found: list[int] = []
    for j in reversed(among):
        if not any(steps[j].precedes(steps[k].clock) for k in found):
            found.append(j)
    return found


def _value(turn: Turn, steps: list[Step], here: list[int], left: tuple[int, ...]) -> int | None:
    """Return what a wait would find without some of the operations, where that is known: what was
    there before the first of them, and the sums since then.
    """
    number = None if turn.number() is None else steps[left[0]].before
    for j in here[here.index(left[0]) :]:
        same = steps[j].event.places == turn.event.places
        more = steps[j].added() if j not in left else 0
        number = None if number is None or more is None or not same else number + more
    return number


def _never_holds(turn: Turn, free: list[Step]) -> bool:
    """Tell whether a wait is surely not over without any of several sums."""
    now, sums = turn.number(), {step.event.who: [0] for step in free}
    if now is None:
        return False
    for step in reversed(free):
        more, each = step.added(), sums[step.event.who]
        if more is None or step.event.places != turn.event.places:
            return False
        each.append(each[-1] + more)
    values = {(now, False)}  # what may be left, and whether anything is left out
    for each in sums.values():
        values = {(v - s, out or k > 0) for v, out in values for k, s in enumerate(each)}
        if len(values) > MOST_SETS:
            return False
    return not any(out and turn.holds(turn.wrapped(v)) for v, out in values)
