"""`Bar`: a progress bar on a terminal."""

from __future__ import annotations

import sys
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SOON = 1.0  # seconds: shorter waits need no bar
OFTEN = 0.1  # seconds: an iteration is shorter than the bar takes to draw
LONG = 5.0  # seconds: where there is no terminal, shorter waits need no line


class Bar:
    """`with Bar(text, unit) as bar: bar.update(done, total)` shows a bar on stderr.

    It appears only on a terminal, after a second, if more than another is left. Elsewhere `tell` is
    called once with the seconds that are left, if there are many.
    """

    def __init__(self, text: str, unit: str, tell: Callable[[float], None] | None = None) -> None:
        self.text, self.unit, self.tell = text, unit, tell
        self.start = perf_counter()
        self.shown: Any = None
        self.due = 0.0  # seconds from the start

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self.shown is not None:
            self.shown.stop()

    def update(self, done: float, total: int) -> None:
        """Update how much of the work is done, in units."""
        spent = perf_counter() - self.start
        left = spent * (total - done) / done if done else 0.0
        if self.shown is None and not sys.stderr.isatty():
            if self.tell is not None and spent > SOON and left > LONG:
                self.tell(left)
                self.tell = None
            return
        if self.shown is None:
            if min(spent, left) < SOON:
                return
            self._show(total)
        if spent < self.due:
            return
        self.due = spent + OFTEN
        self.shown.update(self.task, completed=done, left=f"about {left:.0f} s left")

    def _show(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn

        columns = (
            "{task.description}",
            BarColumn(),
            TaskProgressColumn(),
            f"of {total} {self.unit}",
            "{task.fields[left]}",
        )
        self.shown = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.shown.add_task(self.text, total=total, left="")
        self.shown.start()
