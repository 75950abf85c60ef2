"""`Report`: what a run did, line by line of the kernel.

Shared memory has 32 banks of 4-byte words; a wavefront serves one word of each bank, to any number
of lanes. 64-bit accesses are served by half warps, 128-bit accesses and the rows of ldmatrix by 8
lanes at a time. Global memory moves in sectors of 32 bytes. Source: CUDA C++ Programming Guide,
"Compute Capability 5.x: Shared Memory"; PTX ISA, "ldmatrix"; `cute_py.analysis.banks` says more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from cute_py.atoms.wavefronts import phase_wavefronts, phase_words
from cute_py.emulate.spans import LANES, Array, Span
from cute_py.errors import place_text
from cute_py.plan import ops
from cute_py.records import SWITCH

if TYPE_CHECKING:
    from cute_py.emulate.storages import Place, Vectors
    from cute_py.plan.plan import Plan


@dataclass(slots=True)
class Counts:
    """What one line did.

    Attributes:
        instructions: ops that warps executed; those of several vectors count once.
        mma: matrix instructions that warps executed (of atoms of fewer threads, by all groups).
        requests: accesses of warps to memory, one for each vector.
        wavefronts: of shared memory; not of other blocks of a cluster.
        conflicts: wavefronts beyond the fewest.
        sectors: of 32 bytes, of global memory; an array aligned to 16 bytes begins one.
        bytes: that threads asked for, in both memories, and that TMA moved.
        rewritten: elements of global memory that had been written before.
        equal: those of them that others wrote, in no order, with the same value by the same op.
    """

    instructions: int = 0
    mma: int = 0
    requests: int = 0
    wavefronts: int = 0
    conflicts: int = 0
    sectors: int = 0
    bytes: int = 0
    rewritten: int = 0
    equal: int = 0

    def add(self, other: Counts, times: int = 1) -> None:
        """Add other counts, so many times."""
        for field in fields(self):
            more = times * getattr(other, field.name)
            setattr(self, field.name, getattr(self, field.name) + more)


SECTOR = 32  # bytes
NAMES = tuple(field.name for field in fields(Counts))


class Report:
    """Counts by source line: `report.lines[file, line]`, `report.total`; its text is a table.

    `unwritten`: how many elements of each array that the kernel writes no thread has written.
    `rounded`: the lines that add several floats to one element by atomics: the sum is rounded after
    each of them, so that its last bits depend on the order of threads.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lines: dict[tuple[str, int], Counts] = {op.line: Counts() for op in plan.ops}
        self.unwritten: dict[str, int] = {}
        self.rounded: set[tuple[str, int]] = set()
        # address of memory -> its elements that floats were added to, and the lines that did
        self._sums: dict[int, tuple[Array, set[tuple[str, int]]]] = {}

    @property
    def total(self) -> Counts:
        """The sum of all lines."""
        total = Counts()
        for counts in self.lines.values():
            total.add(counts)
        return total

    def of(self, op: ops.Op) -> Counts:
        """Return the counts of an op's line."""
        return self.lines.setdefault(op.line, Counts())

    # -- counting

    def executed(self, op: ops.Op, span: Span, mask: Array | None) -> None:
        """Count an op that the lanes of a mask execute."""
        warps = span.nB * span.nW
        if mask is not None:
            warps = int(np.count_nonzero(np.broadcast_to(mask, span.shape).any(-1)))
        counts = self.of(op)
        counts.instructions += warps
        counts.mma += op.products * warps

    def access(self, span: Span, vectors: Vectors, place: Place, start: int) -> None:
        """Count the requests of an access to a storage that starts at a byte."""
        found = place.extra.get("counts")
        if found is None:
            found = place.extra["counts"] = _requests(span, vectors, place, start)
        counts, rows = found
        self.of(vectors.op).add(counts, span.nB // rows)

    def moved(self, op: ops.Op, nbytes: int) -> None:
        """Count bytes that an engine moved."""
        self.of(op).bytes += nbytes

    def adds(self, op: ops.Op, memory: Array, index: Array) -> None:
        """Remember that floats were added to elements of memory, one after the other."""
        fresh: tuple[Array, set[tuple[str, int]]] = np.zeros(memory.size, np.bool_), set()
        seen, lines = self._sums.setdefault(memory.ctypes.data, fresh)
        lines.add(op.line)
        if seen[index].any() or len(np.unique(index)) < index.size:
            self.rounded |= lines
        seen[index] = True

    # -- showing

    def _rows(self) -> list[list[str]]:
        rows = [["line", *NAMES]]
        for line, counts in sorted(self.lines.items()):
            rows.append([place_text(line), *(str(getattr(counts, name)) for name in NAMES)])
        total = self.total
        rows.append(["total", *(str(getattr(total, name)) for name in NAMES)])
        return rows

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = []
        for place, *cells in rows:
            right = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            lines.append("  ".join([place.ljust(widths[0]), *right]))
        return "\n".join([*lines, *self._notes()])

    def __repr__(self) -> str:
        return str(self)

    def _notes(self) -> list[str]:
        rows = [(n, name) for name, n in self.unwritten.items() if n]
        notes = [f"never written: {n} element{'s' * (n > 1)} of {name}" for n, name in rows]
        if self.rounded:
            lines = ", ".join(map(place_text, sorted(self.rounded)))
            notes.append(f"order-dependent in their last bits: sums of floats by atomics ({lines})")
        return notes

    def _repr_html_(self) -> str | None:
        """Return the table for notebooks; None, for text, with CUTE_PY_PICTURES=0."""
        if os.environ.get(SWITCH) == "0":
            return None
        rows = self._rows()
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows[1:]
        )
        head = "".join(f"<th>{name}</th>" for name in rows[0])
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return table + "".join(f"<p>{escape(line)}</p>" for line in self._notes())


def _requests(span: Span, vectors: Vectors, place: Place, start: int) -> tuple[Counts, int]:
    """Return the counts of an access, and for how many rows of blocks they are."""
    bits, active = vectors.dtype.bits, place.active
    together = place.offsets.shape[0] == 1 and (active is None or active.shape[0] == 1)
    rows = 1 if together and vectors.smem else span.nB
    shape = rows, span.nW, LANES, vectors.count
    starts = _by_request(start + place.offsets * bits // 8, shape)
    takes = _by_request(np.asarray(True if active is None else active), shape)
    nbytes = max(1, vectors.bits // 8)
    counts = Counts(
        requests=int(np.count_nonzero(takes.any(-1))),
        bytes=int(np.count_nonzero(takes)) * vectors.bits // 8,
    )
    if place.blocks is not None:  # the network between multiprocessors serves them
        return counts, rows
    if vectors.smem:
        counts.wavefronts, fewest = wavefronts(starts, takes, nbytes)
        counts.conflicts = counts.wavefronts - fewest
    else:
        counts.sectors = sectors(starts, takes, nbytes)
    return counts, rows


def _by_request(values: Array, shape: tuple[int, int, int, int]) -> Array:
    """Return [block, warp, lane, vector] as [request, lane]."""
    return np.broadcast_to(values, shape).swapaxes(2, 3).reshape(-1, LANES)


# -- wavefronts and sectors, from arrays of byte addresses


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
    phases = phase_wavefronts(phase_words(np.where(active, starts, -1), nbytes))
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
