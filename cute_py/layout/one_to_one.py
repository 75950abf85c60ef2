"""Whether modes of ints give each offset once, by extents and strides as far as these decide."""

from __future__ import annotations

from itertools import accumulate
from math import gcd, prod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Steps = list[tuple[int, int]]  # (|stride|, extent) of modes that move, the smallest first

NEAR = 16  # modes below a mode that are compared with it
LISTED = 1 << 12  # offsets that are listed to decide


def steps_of(modes: Iterable[tuple[int, int]]) -> Steps:
    """Return the modes (extent, stride) of nonzero stride, made positive: a mode of negative stride
    has the same offsets from its other end.
    """
    return sorted([(abs(d), s) for s, d in modes if s > 1 and d])


def undecided(steps: Steps) -> Steps | None:
    """Return the modes of which only their offsets can tell, and none where all give each offset
    once; None where two indices have one offset.
    """
    core = _illegible(steps)
    if not core:
        return []
    reach = sum([d * (s - 1) for d, s in core])
    more = prod([s for _, s in core]) > reach // gcd(*[d for d, _ in core]) + 1
    return None if more or _two_meet(core) else core


def is_one_to_one(steps: Steps) -> bool:
    """Return whether the modes are known to give each offset once; few offsets are listed."""
    core = undecided(steps)
    if not core:
        return core is not None
    size = prod([s for _, s in core])
    if size > LISTED:
        return False
    offsets = {0}
    for d, s in core:
        offsets = {x + i * d for i in range(s) for x in offsets}
    return len(offsets) == size


def first_gap(steps: Steps, unit: int = 1) -> int:
    """Return the first multiple of `unit` that the modes do not reach: they fill all below it, and
    every later stride exceeds it.
    """
    filled = unit
    for d, s in steps:
        if d > filled:
            break
        filled += d * (s - 1)
    return filled


def window(steps: Steps) -> tuple[int, int]:
    """Return the largest step of which all strides are multiples, and how many offsets the modes
    take up with the steps between: copies that far apart do not overlap.
    """
    step = gcd(*[d for d, _ in steps]) or 1
    return step, step + sum([d * (s - 1) for d, s in steps])


def _illegible(steps: Steps) -> Steps:
    """Return the modes whose indices do not follow from the offset: neither by size, for a stride
    beyond what the other modes reach together, nor by the remainder modulo the other strides. Each
    mode is judged without those that are known already.
    """
    core, before = list(steps), -1
    while len(core) != before:
        before = len(core)
        total = sum([d * (s - 1) for d, s in core])
        while core and core[-1][0] > total - core[-1][0] * (core[-1][1] - 1):
            d, s = core.pop()
            total -= d * (s - 1)
        beyond = list(accumulate([d for d, _ in reversed(core)], gcd, initial=0))[-2::-1]
        core, common, candidates = [], 0, core
        for (d, s), rest in zip(candidates, beyond, strict=True):
            others = gcd(common, rest)
            if others // gcd(others, d) < s:
                core.append((d, s))
                common = gcd(common, d)
    return core


def _two_meet(steps: Steps) -> bool:
    """Return whether two of the modes, sorted by stride, are known to share an offset: of many
    modes, neighbours alone are compared.
    """
    pairs = [(low, high) for k, high in enumerate(steps) for low in steps[max(k - NEAR, 0) : k]]
    return any(_meet(low, high) for low, high in pairs)


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Return whether i steps of mode a are j steps of mode b, for i and j within their extents."""
    common = gcd(a[0], b[0])
    return b[0] // common < a[1] and a[0] // common < b[1]
