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
        more: set[tuple[int, ...]] = set()
        for left in sorted(sets):
            for j in last_of(steps, [k for k in free if k not in left]):
                new = tuple(sorted((*left, j)))
                if new not in more and not any({*known} <= {*new} for known in found):
                    more.add(new)
        looked += len(more)
        if looked > MOST_SETS:
            return None
        values = {left: _value(turn, steps, here, left) for left in sorted(more)}
        over = [left for left, n in values.items() if n is None or turn.holds(turn.wrapped(n))]
        found, sets = found + over, more.difference(over)
    return found


def last_of(steps: list[Step], among: list[int]) -> list[int]:
    """Return those of some operations that none of the others comes after, the last one first."""
    found: list[int] = []
    for j in reversed(among):
        if not any(steps[k].clock.get(steps[j].event.who, -1) >= j for k in found):
            found.append(j)
    return found


def _value(turn: Turn, steps: list[Step], here: list[int], left: tuple[int, ...]) -> int | None:
    """Return what a wait would find without some of the operations, where that is known."""
    number = steps[here[0]].before
    for j in here:
        step = steps[j]
        if step.event.places != turn.event.places or turn.number() is None:
            return None
        if j in left:
            continue
        if number is None or step.before is None or step.after is None:
            return None
        if step.event.effect in ("write", "update") or j < left[0]:
            number = step.after  # it comes after all that it depends on
        elif step.event.effect == "add":
            number += step.after - step.before
        else:
            return None
    return number


def _never_holds(turn: Turn, free: list[Step]) -> bool:
    """Tell whether a wait is surely not over without any of several sums."""
    now, added = turn.number(), dict[tuple[int, int, int], list[int]]()
    if now is None:
        return False
    for step in reversed(free):
        is_sum = step.event.effect == "add" and step.event.places == turn.event.places
        if not is_sum or step.before is None or step.after is None:
            return False
        sums = added.setdefault(step.event.who, [0])
        sums.append(sums[-1] + step.after - step.before)
    values = {(now, False)}  # what may be left, and whether anything is left out
    for sums in added.values():
        values = {(v - s, out or k > 0) for v, out in values for k, s in enumerate(sums)}
        if len(values) > MOST_SETS:
            return False
    return not any(out and turn.holds(turn.wrapped(v)) for v, out in values)
