"""What identifies the values that threads store: numbers, equal where the values must be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.scalars import scalar

if TYPE_CHECKING:
    from cute_py.emulate.access import Located
    from cute_py.emulate.cohorts import Cohort
    from cute_py.emulate.scalars import Statics
    from cute_py.emulate.spans import Array
    from cute_py.emulate.storages import Place
    from cute_py.plan.origins import Stored

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, about 2**64 / golden ratio
_SHIFT = np.uint64(29)


def mixed(held: Array, more: Array) -> Array:
    """Return numbers of 64 bits that tell pairs apart (with a probability of failure of 2**-64)."""
    found = (held ^ (more.astype(np.uint64) * _FACTOR)) * _FACTOR
    result: Array = found ^ (found >> _SHIFT)
    return result


class Values:
    """The values of an op, compiled: for a cohort, a number for each element of each thread."""

    def __init__(self, statics: Statics, stored: Stored, number: int) -> None:
        """Compile; `number`: of the op."""
        rows = stored.elements
        bases = list(dict.fromkeys(leaf.base for row in rows for leaf in row.leaves))
        most = max(len(row.leaves) for row in rows)
        self.bases = [scalar(statics, base) for base in bases]
        self.which = np.zeros((most, len(rows)), np.int64)
        self.offsets = np.zeros((most, len(rows)), np.int64)
        self.present = np.zeros((most, len(rows)), np.bool_)
        for e, row in enumerate(rows):
            for k, leaf in enumerate(row.leaves):
                self.which[k, e], self.offsets[k, e] = bases.index(leaf.base), leaf.offset
                self.present[k, e] = True
        numbers = np.array([row.number for row in rows], np.uint64)
        self.fixed = mixed(np.full(len(rows), number + 1, np.uint64), numbers)

    def __call__(self, c: Cohort) -> Array:
        """Return [block, warp, lane, element], which broadcasts; none of them is 0."""
        held = self.fixed.reshape(1, 1, 1, -1)
        if self.bases:
            found = [np.asarray(base(c)) for base in self.bases]
            found = [x.reshape(x.shape if x.ndim == 3 else (1, 1, 1)) for x in found]
            each = np.stack(np.broadcast_arrays(*found), -1)
            for which, offsets, present in zip(self.which, self.offsets, self.present, strict=True):
                leaves = each[..., which] + offsets
                held = np.where(present, mixed(held, leaves), held)
        return held.view(np.int64) | 1


def joined(values: Array, count: int, parts: int) -> Array:
    """Return [..., vector, part]: the values of `count` vectors, each in so many equal parts."""
    width = values.shape[-1] // count
    each = values.reshape(*values.shape[:-1], count, width)
    if parts >= width:
        return np.repeat(each, parts // width, axis=-1)
    each = each.reshape(*each.shape[:-1], parts, width // parts).view(np.uint64)
    found = each[..., 0]
    for k in range(1, each.shape[-1]):
        found = mixed(found, each[..., k])
    return found.view(np.int64) | 1


# -- lanes of one warp that store to one place of shared memory in one instruction


def lanes_that_differ(
    c: Cohort, located: Located, place: Place
) -> tuple[tuple[int, ...], int] | None:
    """Return a vector [block, warp, lane, vector] of one lane, and another lane that stores another
    value there, or one of which that is not known; None if there are no two.
    """
    found = place.extra.get("lanes together")
    if found is None:
        found = place.extra["lanes together"] = _together(c, located, place)
    where, starts = found
    if not len(starts):
        return None
    lanes, apart = where[2], np.ones(len(starts), np.bool_)
    if located.values is not None:
        values = joined(located.values(c), located.count, 1)[..., 0]
        values = np.broadcast_to(values, (*c.span.shape, located.count))[where]
        apart = np.minimum.reduceat(values, starts) != np.maximum.reduceat(values, starts)
    if not apart.any():
        return None
    first = int(starts[np.argmax(apart)])
    mine = tuple([int(x[first]) for x in where])
    others = range(first, len(lanes))
    return mine, int(lanes[next(k for k in others if lanes[k] != lanes[first])])


def _together(c: Cohort, located: Located, place: Place) -> tuple[tuple[Array, ...], Array]:
    """Return the vectors that several lanes of a warp store to one place, in runs of those of one
    place, and where the runs start.
    """
    shape = (*c.span.shape, located.count)
    active = np.broadcast_to(True if place.active is None else place.active, shape)
    where = np.nonzero(active)
    b, w, lane, _ = where
    target = b if place.blocks is None else np.broadcast_to(place.blocks, shape)[where]
    keys = np.stack([b, w, target, np.broadcast_to(place.items, shape)[where]])
    order = np.lexsort((lane, *keys[::-1]))
    where, keys, lane = tuple([x[order] for x in where]), keys[:, order], lane[order]
    begins = np.r_[True, (keys[:, 1:] != keys[:, :-1]).any(0)][: len(lane)]
    starts = np.flatnonzero(begins)
    if not len(starts):
        return where, starts
    several = np.minimum.reduceat(lane, starts) != np.maximum.reduceat(lane, starts)
    run = np.cumsum(begins) - 1
    kept = several[run]
    chosen = tuple([x[kept] for x in where])
    return chosen, np.flatnonzero(begins[kept])
