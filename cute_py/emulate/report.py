"""`Report`: what a run did, line by line of the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.spans import Cohort
from cute_py.trace import ops

if TYPE_CHECKING:
    from cute_py.emulate.build import Run
    from cute_py.trace.plan import Plan


@dataclass(slots=True)
class Counts:
    """What one line did.

    Attributes:
        instructions: ops that warps executed.
        mma: matrix instructions of warps; for atoms of one thread, of threads.
        requests: accesses of warps to memory.
        wavefronts: of shared memory.
        conflicts: wavefronts beyond the fewest.
        sectors: of 32 bytes, of global memory.
        bytes: moved to or from memory.
    """

    instructions: int = 0
    mma: int = 0
    requests: int = 0
    wavefronts: int = 0
    conflicts: int = 0
    sectors: int = 0
    bytes: int = 0


class Report:
    """Counts by source line, `lines[file, line]`; `str` is a table."""

    def __init__(self, plan: Plan) -> None:
        """Begin with nothing."""
        self.plan = plan
        self.lines: dict[tuple[str, int], Counts] = {}

    @property
    def total(self) -> Counts:
        """The sum of all lines."""
        total = Counts()
        for counts in self.lines.values():
            for name in Counts.__slots__:
                setattr(total, name, getattr(total, name) + getattr(counts, name))
        return total

    def counting(self, op: ops.Op, run: Run) -> Run:
        """Return a compiled op that counts itself."""
        counts = self.lines.setdefault(op.line, Counts())
        matrix = len(op.steps) if isinstance(op, ops.Mma | ops.Wgmma) else 0

        def counted(c: Cohort) -> object:
            if c.mask is None:
                warps = c.span.nB * c.span.nW
            else:
                active = np.broadcast_to(c.mask, c.span.shape)
                warps = int(np.count_nonzero(active.any(-1)))
            counts.instructions += warps
            counts.mma += matrix * warps
            return run(c)

        return counted  # type: ignore[return-value]

    def __str__(self) -> str:
        names = Counts.__slots__
        rows = [["line", *names]]
        for (file, line), counts in sorted(self.lines.items()):
            place = f"{file.rpartition('/')[2]}:{line}"
            rows.append([place, *(str(getattr(counts, name)) for name in names)])
        rows.append(["total", *(str(getattr(self.total, name)) for name in names)])
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        return "\n".join(
            "  ".join(
                cell.ljust(w) if k == 0 else cell.rjust(w)
                for k, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        )
