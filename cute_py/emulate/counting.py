"""How many wavefronts and sectors the accesses of warps take, from arrays of byte addresses.

Shared memory has 32 banks of 4-byte words; a wavefront serves one word of each bank, to any number
of lanes. 64-bit accesses are served by half warps, 128-bit accesses and the rows of ldmatrix by 8
lanes at a time. Global memory moves in sectors of 32 bytes. Source: CUDA C++ Programming Guide,
"Compute Capability 5.x: Shared Memory"; PTX ISA, "ldmatrix"; `cute_py.analysis.banks` says more.
"""

from __future__ import annotations

import numpy as np

from cute_py.emulate.spans import LANES, Array

BANKS, WORD, SECTOR = 32, 4, 32


def wavefronts(starts: Array, active: Array, nbytes: int) -> tuple[int, int]:
    """Return the wavefronts of all requests, and the fewest that are possible.

    Args:
        starts: byte addresses [request, lane] in shared memory.
        active: which lanes take part.
        nbytes: of each access.

    >>> lanes, all_ = np.arange(32)[None], np.ones((1, 32), np.bool_)
    >>> wavefronts(4 * lanes, all_, 4), wavefronts(128 * lanes, all_, 4)
    ((1, 1), (32, 1))
    """
    words = max(1, nbytes // WORD)
    together = LANES // words if words <= LANES else 1
    first = np.where(active, starts // WORD, -1).reshape(-1, together, 1)
    wanted = np.where(first < 0, -1, first + np.arange(words)).reshape(len(first), -1)
    rows = np.sort(wanted, axis=1)
    distinct = rows >= 0
    distinct[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    cells = np.arange(len(rows))[:, None] * BANKS + rows % BANKS
    counts = np.bincount(cells[distinct], minlength=len(rows) * BANKS)
    phases = counts.reshape(len(rows), BANKS).max(axis=1)
    return int(phases.sum()), int(np.count_nonzero(phases))


def sectors(starts: Array, active: Array, nbytes: int) -> int:
    """Return the sectors of all requests [request, lane] of global memory.

    >>> lanes, all_ = np.arange(32)[None], np.ones((1, 32), np.bool_)
    >>> sectors(4 * lanes, all_, 4), sectors(128 * lanes, all_, 4), sectors(4 * lanes + 4, all_, 4)
    (4, 32, 5)
    """
    pieces = np.arange(0, nbytes, min(nbytes, SECTOR))
    ends = np.concatenate([starts[..., None] + pieces, starts[..., None] + nbytes - 1], axis=-1)
    touched = np.where(active[..., None], ends // SECTOR, -1).reshape(len(starts), -1)
    rows = np.sort(touched, axis=1)
    distinct = rows >= 0
    distinct[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    return int(np.count_nonzero(distinct))
