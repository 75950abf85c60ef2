"""What a tensor map of TMA can describe: limits of extents, pitches, boxes and swizzles.

Source: CUDA driver API, `cuTensorMapEncodeTiled`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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
