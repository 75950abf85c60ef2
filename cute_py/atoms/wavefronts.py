"""The wavefronts of shared memory: one counter for the analysis of layouts and for the emulator.

Shared memory has 32 banks of 32-bit words; a wavefront serves one word of each bank, to any number
of lanes. Wide accesses are served in phases of at most 128 bytes. `cute_py.analysis.banks` has the
sources.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Array: TypeAlias = Any  # a NumPy array; lists where there is no NumPy

LANES, BANKS, WORD = 32, 32, 4  # WORD in bytes


def phase_words(first: Array, nbytes: int) -> Array:
    """Return the accessed words [request, phase, lane, word of the lane]; negative for inactive
    lanes.

    Args:
        first: [request, lane] -> the first byte; negative for inactive lanes.
        nbytes: of each access.
    """
    words = max(1, nbytes // WORD)
    together = max(1, LANES // words)
    if first.__class__ is list:
        return [_words_of([byte // WORD for byte in row], words, together) for row in first]
    import numpy as np

    lanes = (first // WORD).reshape(len(first), -1, together, 1)
    return np.where(lanes < 0, -1, lanes + np.arange(words))


def _words_of(first: list[int], words: int, together: int) -> list[list[list[int]]]:
    """Return the words [phase][lane][word] of a request whose lanes start at these words."""
    lanes = [[-1] * words if word < 0 else list(range(word, word + words)) for word in first]
    return [lanes[k : k + together] for k in range(0, len(lanes), together)]


def phase_wavefronts(words: Array) -> Array:
    """Return the wavefronts [request, phase], 0 for a phase without active lanes.

    Law: of each phase, the most distinct words in one bank.

    >>> phase_wavefronts(phase_words([[128 * lane for lane in range(32)]], 4))
    [[32]]
    """
    if words.__class__ is list:
        return [[_wavefronts(phase) for phase in request] for request in words]
    import numpy as np

    rows = np.sort(words.reshape(words.shape[0] * words.shape[1], -1), axis=1)
    distinct = rows >= 0
    distinct[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    cells = np.arange(len(rows))[:, None] * BANKS + rows % BANKS
    counts = np.bincount(cells[distinct], minlength=len(rows) * BANKS)
    return counts.reshape(len(rows), BANKS).max(axis=1).reshape(words.shape[:2])


def _wavefronts(phase: list[list[int]]) -> int:
    counts = [0] * BANKS
    for word in {word for lane in phase for word in lane if word >= 0}:
        counts[word % BANKS] += 1
    return max(counts)
