"""`Report`: what a run did, line by line of the kernel."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.counting import sectors, wavefronts
from cute_py.emulate.spans import LANES, Array, Cohort
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.emulate.access import Located, Place
    from cute_py.emulate.build import Run
    from cute_py.plan.plan import Plan


@dataclass(slots=True)
class Counts:
    """What one line did.

    Attributes:
        instructions: ops that warps executed; those of several vectors count once.
        mma: matrix instructions that warps executed (of atoms of fewer threads, by all groups).
        requests: accesses of warps to memory, one for each vector.
        wavefronts: of shared memory.
        conflicts: wavefronts beyond the fewest.
        sectors: of 32 bytes, of global memory; an array aligned to 16 bytes begins one.
        bytes: that threads asked for, in both memories, and that TMA moved.
    """

    instructions: int = 0
    mma: int = 0
    requests: int = 0
    wavefronts: int = 0
    conflicts: int = 0
    sectors: int = 0
    bytes: int = 0

    def add(self, other: Counts, times: int = 1) -> None:
        """Add other counts, so many times."""
        for field in fields(self):
            more = times * getattr(other, field.name)
            setattr(self, field.name, getattr(self, field.name) + more)


NAMES = tuple(field.name for field in fields(Counts))


class Report:
    """Counts by source line: `report.lines[file, line]`, `report.total`; `str` is a table."""

    def __init__(self, plan: Plan) -> None:
        """Begin with nothing."""
        self.plan = plan
        self.lines: dict[tuple[str, int], Counts] = {}

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

    def counting(self, op: ops.Op, run: Run) -> Run:
        """Return a compiled op that counts itself."""
        counts = self.of(op)
        matrix = len(op.steps) if isinstance(op, ops.Mma | ops.Wgmma) else 0

        def counted(c: Cohort) -> object:
            warps = c.span.nB * c.span.nW
            if c.mask is not None:
                warps = int(np.count_nonzero(c.active().any(-1)))
            counts.instructions += warps
            counts.mma += matrix * warps
            return run(c)

        return counted  # type: ignore[return-value]

    def access(self, c: Cohort, located: Located, place: Place) -> None:
        """Count the requests of an access."""
        found = place.extra.get("counts")
        if found is None:
            found = place.extra["counts"] = _requests(c, located, place)
        counts, rows = found
        self.of(located.op).add(counts, c.span.nB // rows)

    def moved(self, op: ops.Op, nbytes: int) -> None:
        """Count bytes that an engine moved."""
        self.of(op).bytes += nbytes

    # -- showing

    def _rows(self) -> list[list[str]]:
        rows = [["line", *NAMES]]
        for (file, line), counts in sorted(self.lines.items()):
            place = f"{file.rpartition('/')[2]}:{line}"
            rows.append([place, *(str(getattr(counts, name)) for name in NAMES)])
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
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        rows = self._rows()
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows[1:]
        )
        head = "".join(f"<th>{name}</th>" for name in rows[0])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _requests(c: Cohort, located: Located, place: Place) -> tuple[Counts, int]:
    """Return the counts of an access, and for how many rows of blocks they are."""
    bits, active = located.dtype.bits, place.active
    together = place.offsets.shape[0] == 1 and (active is None or active.shape[0] == 1)
    rows = 1 if together and located.smem else c.span.nB
    shape = rows, c.span.nW, LANES, located.count
    # NumPy aligns to 16 bytes, a GPU's allocations to 256: sectors count from an aligned element 0
    start = located.start if located.smem else located.array.address % 16
    starts = _by_request(start + place.offsets * bits // 8, shape)
    takes = _by_request(np.asarray(True if active is None else active), shape)
    nbytes = max(1, located.bits // 8)
    counts = Counts(
        requests=int(np.count_nonzero(takes.any(-1))),
        bytes=int(np.count_nonzero(takes)) * located.bits // 8,
    )
    if located.smem:
        counts.wavefronts, fewest = wavefronts(starts, takes, nbytes)
        counts.conflicts = counts.wavefronts - fewest
    else:
        counts.sectors = sectors(starts, takes, nbytes)
    return counts, rows


def _by_request(values: Array, shape: tuple[int, int, int, int]) -> Array:
    """Return [block, warp, lane, vector] as [request, lane]."""
    return np.broadcast_to(values, shape).swapaxes(2, 3).reshape(-1, LANES)
