"""What a tensor map of TMA can describe: extents, pitches and swizzles, and the box of a tile.

Source: CUDA driver API, `cuTensorMapEncodeTiled`.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_DIMENSIONS = 5
MOST_BOX = 256  # elements of a box along one mode
# Elements along a mode: coordinates are signed numbers of 32 bits. The driver accepts more, but the
# kernel traps.
MOST_EXTENT = (1 << 31) - 1
MOST_PITCH = 1 << 40  # bytes
PITCH_UNIT = 16  # addresses and pitches are multiples of it (bytes)
# B of the byte swizzle -> (mode of the tensor map, its span and the period of its pattern in bytes)
SWIZZLE_MODES = {
    0: ("NONE", 0, 128),
    1: ("32B", 32, 256),
    2: ("64B", 64, 512),
    3: ("128B", 128, 1024),
}


class Step(NamedTuple):
    """Equal steps of a tile through shared memory, along a mode of the tensor that it is cut from.

    Attributes:
        mode: the path of the mode.
        unit: elements of the mode in one step.
        extent: the number of places, one more than there are steps.
        stride: elements of shared memory in one step.
    """

    mode: tuple[int, ...]
    unit: int
    extent: int
    stride: int


def box_of(steps: Iterable[Step], most: int | None = None) -> tuple[list[Step], list[Step]]:
    """Return the steps that one box of a tile takes, in its order, and those from box to box.

    A box fills shared memory without a gap, and walks along each of its modes element by element.

    Args:
        steps: those of the tile, at most one of unit 1 for each mode.
        most: how long a box may be; the largest part of a mode that divides it is taken.

    >>> box, rest = box_of([Step((0,), 1, 8, 64), Step((1,), 1, 64, 1), Step((1,), 64, 2, 512)])
    >>> [step.extent for step in box], [step.extent for step in rest]
    ([64, 8], [2])
    """
    box, rest, filled = [], [], 1
    for step in sorted(steps, key=lambda step: step.stride):
        mode, unit, extent, stride = step
        if unit != 1 or stride != filled:
            rest.append(step)
            continue
        longest = extent if most is None else min(extent, most)
        part = next(n for n in range(longest, 0, -1) if extent % n == 0)
        box.append(Step(mode, 1, part, stride))
        filled *= part
        if part < extent:
            rest.append(Step(mode, part, extent // part, stride * part))
    return box, rest


def unreachable(extents: Sequence[int], pitches: Sequence[int], size: int, address: int) -> str:
    """Return why TMA cannot read an array, in words; "" if it can. The driver accepts a pitch of 0,
    one below a row, and extents of 2^31 and more.

    Args:
        extents: the elements along each dimension, the contiguous one first.
        pitches: the pitches of the others (bytes).
        size: the size of an element (bytes).
        address: the address of the first element.

    >>> unreachable((100, 8), (208,), 2, 4096), unreachable((100, 8), (200,), 2, 4096)
    ('', 'a pitch of 200 bytes, with rows of 200 bytes')
    """
    if address % PITCH_UNIT:
        return f"the address {hex(address)}"
    for extent in extents:
        if not 0 < extent <= MOST_EXTENT:
            return f"{extent} elements along a mode"
    row = extents[0] * size
    for pitch in pitches:
        if pitch % PITCH_UNIT or not row <= pitch < MOST_PITCH:
            return f"a pitch of {pitch} bytes, with rows of {row} bytes"
    return ""
