"""Lanes of one warp that run apart, where they wait for each other: independent thread scheduling.

As a rule the lanes of a warp run in one cohort, one branch after the other. Where that leaves
nobody who can run, the lanes that wait are divided from those that have not had their turn. Each
part is a cohort of one warp. An instruction of the whole warp waits until all of its lanes that
have not returned have come to it, and then they are one cohort again.
Source: CUDA C++ Programming Guide, "Independent Thread Scheduling"; PTX ISA, "bar.warp.sync".
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.cohorts import Cohort, Frame, Step, Wait, joined, split

if TYPE_CHECKING:
    from cute_py.emulate.spans import Array, Value

GROUP = 4  # warps


def running(c: Cohort) -> Array:
    """Return the lanes [block or 1, warp or 1, lane] of a cohort's warps that have not returned."""
    if c.divided:
        return c.batch.alive[_key(c)]
    lanes = c.frames[0].saved
    return c.batch.agents.exist[None, c.span.W] if lanes is None else lanes


def _key(c: Cohort) -> tuple[int, int]:
    return int(c.span.B[0]), int(c.span.W[0])


class LanesWait(Wait):
    """A wait for the other lanes of the warp."""

    reason = False

    def ready(self, c: Cohort) -> bool:
        """Return False: `gather` ends it."""
        return False

    def describe(self, c: Cohort) -> str:
        """Return what is waited for."""
        return "the other lanes of its warp"


class GroupWait(LanesWait):
    """A wait for the other warps of the warpgroup."""

    def describe(self, c: Cohort) -> str:
        """Return what is waited for."""
        return "the other warps of its warpgroup"


def wait_for_others(c: Cohort, step: Step) -> LanesWait | None:
    """Return the wait of a cohort before a step that needs whole warps or warpgroups, or None."""
    if c.forced:
        c.forced = False
        return None
    if c.mask is not None and _must_gather(c, step):
        return LanesWait(step.op)
    return GroupWait(step.op) if _must_group(c, step) else None


def _must_gather(c: Cohort, step: Step) -> bool:
    """Tell whether lanes must wait for others of their warp before a step that needs all of them.

    Lanes that are not divided yet wait at syncwarp alone, and only if those of the other branch
    come to one, too. Anything else that a part of a warp executes is refused at once.
    """
    assert c.mask is not None
    missing = (running(c) & ~c.mask).any(-1) & c.mask.any(-1)  # of warps of which some have come
    if c.divided:
        return bool(missing.any())
    if not step.op.rejoins or not missing.any():
        return False
    return any(
        frame.pending is not None and any(other.op.rejoins for other in frame.other)
        for frame in c.frames
    )


def _must_group(c: Cohort, step: Step) -> bool:
    """Tell whether warps must wait for the others of their warpgroup before a step."""
    if step.op.group != "warpgroup" or are_groups(c.span.W):
        return False
    return c.mask is None or bool(np.broadcast_to(c.mask, c.span.shape).any(-1).all())


def are_groups(W: Array) -> bool:
    """Return whether warps, in rising order, are whole warpgroups."""
    groups = W.reshape(-1, GROUP) if len(W) % GROUP == 0 else None
    return groups is not None and bool(
        (groups == groups[:, :1] // GROUP * GROUP + range(GROUP)).all()
    )


# -- dividing


def divided(c: Cohort) -> list[Cohort]:
    """Return the parts of a cohort that can go on without each other; itself if there are none."""
    active = c.active()
    free = None if c.wait is None else c.wait.lanes(c)
    apart: Array = np.broadcast_to(_outside(c, active), c.span.shape).any(-1)
    if free is not None:
        apart = apart | ((free & active).any(-1) & (~free & active).any(-1))
    if not apart.any():
        return [c]
    parts = []
    for b, w in np.ndindex(c.span.nB, c.span.nW):
        one = c.part(np.array([b]), np.array([w]))
        one.divided, one.spun = c.divided, c.spun
        if apart[b, w]:
            parts += _parts(one, None if free is None else free[b, w])
            continue
        if isinstance(one.wait, LanesWait) and not isinstance(one.wait, GroupWait):
            one.wait = None  # all of this warp have come
        parts.append(one)
    return parts


def _outside(c: Cohort, active: Array) -> Array:
    """Return the lanes that run on when a frame of the cohort is left."""
    whole = c.frames[0].saved
    return (c.batch.agents.exist[None, c.span.W] if whole is None else whole) & ~active


def _parts(c: Cohort, free: Array | None) -> list[Cohort]:
    """Return the parts of a cohort of one warp: the lanes whose wait is over (`free`), those that
    still wait, and of each branch or loop those that come to its end, or to the other branch.
    """
    batch, seen = c.batch, c.active()
    if not c.divided:
        batch.alive[_key(c)] = np.array(running(c))
    here = [seen] if free is None else [seen & free, seen & ~free]
    parts = [_lanes(c, lanes, c.frames) for lanes in here if lanes.any()]
    for part in parts:
        part.wait, part.spun = copy(c.wait), c.spun
    for i in range(len(c.frames) - 1, 0, -1):
        frame, seen = c.frames[i], np.array(seen)
        if frame.pending is not None and (frame.pending & ~seen).any():
            other = frame.copy()
            other.steps, other.pc, other.kind, other.pending = frame.other, 0, "other", None
            parts.append(_lanes(c, frame.pending & ~seen, [*c.frames[:i], other]))
            seen |= frame.pending
        saved = batch.agents.exist[None, c.span.W] if frame.saved is None else frame.saved
        if (saved & ~seen).any():
            outer = c.frames[i - 1].copy()
            outer.pc += 1
            parts.append(_lanes(c, saved & ~seen, [*c.frames[: i - 1], outer]))
            seen |= saved
    return parts


def _lanes(c: Cohort, lanes: Array, frames: list[Frame]) -> Cohort:
    """Return some lanes of a cohort of one warp, at a place of the program."""
    held = [frame.copy() for frame in frames]
    for frame in held:
        frame.saved = lanes
        if frame.pending is not None:
            frame.pending = None
    return Cohort(c.batch, c.span, lanes, held, dict(c.env), divided=True, done=c.done + 1)


# -- joining


def merged(a: Cohort, b: Cohort) -> Cohort | None:
    """Return lanes of one warp at one place as one cohort; None if they are at different places."""
    if len(a.frames) != len(b.frames):
        return None
    lanes = a.active()
    whole = lanes | b.active()

    def pick(x: Value, y: Value) -> Value:
        if not isinstance(x, np.ndarray) and not isinstance(y, np.ndarray) and x == y:
            return x
        return np.where(lanes, x, y)

    frames = []
    for f, g in zip(a.frames, b.frames, strict=True):
        if f.steps is not g.steps or f.place != g.place or f.again is not g.again:
            return None
        counted = all(not isinstance(x, np.ndarray) for x in (*f.bounds, *g.bounds))
        if counted and f.bounds != g.bounds:
            return None
        frame = f.copy()
        frame.saved = whole
        frame.bounds = pick(f.bounds[0], g.bounds[0]), pick(f.bounds[1], g.bounds[1])
        frames.append(frame)
    env = {**a.env, **b.env}
    env |= {name: pick(a.env[name], b.env[name]) for name in a.env if name in b.env}
    one = Cohort(a.batch, a.span, whole, frames, env, a.wait, divided=True)
    one.done = max(a.done, b.done) + 1
    if not (running(one) & ~whole).any():
        one.divided = False
        del one.batch.alive[_key(one)]
    return one


def gather(cohorts: list[Cohort]) -> bool:
    """Let warps go on of which all lanes have come to one instruction of the whole warp, or each to
    some syncwarp, and warpgroups of which all warps have; return whether there are any.
    """
    warps: dict[tuple[int, int], list[Cohort]] = {}
    for c in cohorts:
        if isinstance(c.wait, LanesWait) and c.divided:
            warps.setdefault(_key(c), []).append(c)
    gone_on = [_gathered(cohorts, here) for here in warps.values()]
    groups: dict[object, list[Cohort]] = {}
    for c in [c for c in cohorts if isinstance(c.wait, GroupWait)]:
        cohorts.remove(c)
        each = split(c, np.arange(c.span.nB)[:, None])
        cohorts += each
        for one in each:
            groups.setdefault((one.position, int(one.span.B[0])), []).append(one)
    gone_on += [_grouped(cohorts, here) for here in groups.values()]
    return True in gone_on


def _grouped(cohorts: list[Cohort], here: list[Cohort]) -> bool:
    """Let the whole warpgroups go on among parts of a block that wait at one instruction."""
    one: Cohort | None = here[0]
    for c in here[1:]:
        one = None if one is None else joined(one, c)
    if one is None:
        return False
    groups, counts = np.unique(one.span.W // GROUP, return_counts=True)
    whole = np.isin(one.span.W // GROUP, groups[counts == GROUP])
    if not whole.any():
        return False
    for c in here:
        cohorts.remove(c)
    parts = split(one, whole[None])
    for part in parts:
        part.wait = None if are_groups(part.span.W) else here[0].wait
    cohorts += parts
    return True


def _gathered(cohorts: list[Cohort], here: list[Cohort]) -> bool:
    """Let a warp go on if all of its lanes have come; these are its parts that wait for it."""
    lanes = np.logical_or.reduce([c.active() for c in here])
    missing = (running(here[0]) & ~lanes).any()
    one: Cohort | None = here[0]
    for c in here[1:]:
        one = None if one is None else merged(one, c)
    if not missing and one is not None:
        for c in here:
            cohorts.remove(c)
        one.wait = None
        cohorts.append(one)
        return True
    if missing or not all(c.wait is not None and c.wait.op.rejoins for c in here):
        return False
    clocks = here[0].batch.clocks
    if clocks is not None:
        clocks.meet_warps(clocks.acting(here[0].span, lanes))
    for c in here:
        c.wait, c.done = None, c.done + 1
        c.frames[-1].pc += 1
    return True


def force(cohorts: list[Cohort]) -> bool:
    """Let the first lanes go on that wait in vain for others of their warp or warpgroup, so that
    the instruction refuses them; return whether there are any, and nobody waits for anything else.
    """
    waiting = [c for c in cohorts if isinstance(c.wait, LanesWait)]
    groups = [c for c in waiting if isinstance(c.wait, GroupWait)]
    if not waiting or (len(waiting) < len(cohorts) and not groups):
        return False
    first = min(groups or waiting, key=lambda c: c.position)
    first.wait, first.forced = None, True
    return True
