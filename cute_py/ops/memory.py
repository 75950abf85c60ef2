"""How much memory an operator takes on the host, estimated before any of it is used."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path

from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.ops.libraries import Words

STATE = 64 << 20  # bytes: blocks run in batches whose registers and shared memory fit into it
TEMPORARY = 3  # what the emulator needs on top of the state of a batch, as a multiple of it
CGROUP = Path("/sys/fs/cgroup")


def require_memory(operation: str, arrays: int, blocks: int, block: int, words: Words) -> int:
    """Return how much the state of blocks may take (bytes); refuse what does not fit at all.

    Args:
        operation: the operator, for error messages.
        arrays: size of the arrays still to be written (bytes).
        blocks: in the grid.
        block: about how much the emulator keeps per block (bytes).
        words: of the operator.

    """
    available = available_bytes()
    state = min(blocks * block, max(STATE, block))
    if available is None:
        return state
    _require(operation, arrays, min(block, state) * (1 + TEMPORARY), available, words)
    rest = (available - arrays) // (1 + TEMPORARY)
    return max(min(state, rest), 1)


def require_arrays(operation: str, *parts: tuple[tuple[int, ...], int], words: Words) -> None:
    """Refuse arrays that would not fit, each given as (shape, bits of an element)."""
    available = available_bytes()
    if available is not None:
        _require(operation, bytes_of(*parts), 0, available, words)


def _require(operation: str, arrays: int, state: int, available: int, words: Words) -> None:
    if arrays + state > available:
        raise refusal(
            "ops-memory",
            operation=operation,
            result=words.result,
            parts=words.parts,
            needed=readable(arrays + state),
            arrays=readable(arrays),
            state=readable(state),
            available=readable(available),
        )


def available_bytes() -> int | None:
    """Return how much memory is free for this process (bytes); None where that is unknown."""
    found = [x for x in (_of_system(), _of_group()) if x is not None]
    return min(found, default=None)


def _of_system() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _of_group() -> int | None:
    """Return how much a container has left (cgroup v2)."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
        return None if limit == "max" else max(int(limit) - used, 0)
    except (OSError, ValueError):
        return None


def bytes_of(*parts: tuple[tuple[int, ...], int]) -> int:
    """Return the size of arrays, each given as (shape, bits of an element)."""
    return sum(prod(shape) * bits // 8 for shape, bits in parts)


def readable(count: int) -> str:
    """Return a number of bytes in readable units.

    >>> readable(512), readable(3 << 20), readable(5 << 30)
    ('512 bytes', '3.0 MiB', '5.0 GiB')
    """
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
