"""`Bar`: a progress bar on a terminal."""

from __future__ import annotations

import sys
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SOON = 1.0  # seconds: shorter waits need no bar


class Bar:
    """`with Bar(text, unit) as bar: bar.update(done, total)` shows a bar on stderr.

    It appears only on a terminal, and once more than a second is left.
    """

    def __init__(self, text: str, unit: str) -> None:
        self.text, self.unit = text, unit
        self.start = perf_counter()
        self.shown: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self.shown is not None:
            self.shown.stop()

    def update(self, done: int, total: int) -> None:
        """Update how much of the work is done."""
        if self.shown is None:
            spent = perf_counter() - self.start
            if not sys.stderr.isatty() or spent * (total - done) < SOON * done:
                return
            self._show(total)
        left = (perf_counter() - self.start) * (total - done) / max(done, 1)
        self.shown.update(self.task, completed=done, left=f"about {left:.0f} s left")

    def _show(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress

        columns = (
            "{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            self.unit,
            "{task.fields[left]}",
        )
        self.shown = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.shown.add_task(self.text, total=total, left="")
        self.shown.start()
