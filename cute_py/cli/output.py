"""How the commands write: JSON, text or arrays to a file or to the terminal, and a progress bar."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import tempfile
import threading
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from time import perf_counter

from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Any

    from cute_py.errors import CuteError

STOPS = ("SIGTERM", "SIGHUP")  # the signals that end a process at once, unless it handles them


def as_json(data: object) -> str:
    """Return data as one line of JSON; values that JSON lacks become text."""
    return json.dumps(data, default=str) + "\n"


def write(text: str, path: str | None) -> None:
    """Write a text to a file; without a path, or to `-`, to the standard output."""
    if path in (None, "-"):
        sys.stdout.write(text)
        return
    with Output(path) as file:
        file.write(text.encode())


class Output:
    """`with Output(path) as file: file.write(data)` puts a file in place in one step.

    The new file is made next to the old one when the block begins, so that a path that cannot be
    written is refused at once. The block's end puts it in place; it leaves nothing behind where
    nothing was written, after an error, and after a signal that ends the process. A link stays: the
    file that it leads to is replaced, and keeps its permissions. Pipes and devices, and files that
    only allow it, are written in place. `-` is the standard output.
    """

    def __init__(self, path: str, option: str = "-o") -> None:
        self.path, self.option = path, option
        self.stdout = sys.stdout  # `messages` redirects it
        self.target = ""
        self.file: Any = None
        self.temporary: str | None = None

    def __enter__(self) -> Output:
        self.mode = self._mode()
        self.handled = _stopping()
        self.handled.__enter__()
        try:
            if self.mode is not None:
                self._begin()
        except BaseException:
            self._end()
            raise
        return self

    def _mode(self) -> int | None:
        """Return the permissions of the plain file to replace or to make, else None; refuse what
        cannot be written.
        """
        if self.path == "-":
            return None
        if not os.path.basename(self.path) or os.path.isdir(self.path):
            raise self._refused("Is a directory" if self.path else "an empty name")
        try:
            self.target = os.path.realpath(self.path)
            found = os.stat(self.path)
        except FileNotFoundError:
            return 0o666 & ~_umask()
        except (OSError, ValueError) as error:
            raise self._refused(getattr(error, "strerror", None) or str(error)) from None
        if not os.access(self.path, os.W_OK):
            raise self._refused("Permission denied")
        is_mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
        plain = stat.S_ISREG(found.st_mode) and is_mine and not self.is_stdout()
        return stat.S_IMODE(found.st_mode) if plain else None

    def _begin(self) -> None:
        folder = os.path.dirname(self.target)
        try:
            handle, self.temporary = tempfile.mkstemp(prefix=".cute-py.", dir=folder)
            self.file = os.fdopen(handle, "wb")
        except OSError as error:
            if not os.path.exists(self.target):
                raise self._refused(error.strerror) from None
            self.mode = None  # the folder takes no new file, but the file can be written

    def is_stdout(self) -> bool:
        """Return whether the path leads to where the standard output goes, as /dev/stdout does."""
        if self.path == "-":
            return True
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self.stdout.fileno()))
        except (OSError, ValueError, AttributeError):
            return False

    def messages(self) -> AbstractContextManager[Any]:
        """Send what a block prints to the standard error, if the data go to the standard output."""
        return redirect_stdout(sys.stderr) if self.is_stdout() else nullcontext()

    def write(self, data: bytes) -> int:
        """Write some more bytes."""
        try:
            if self.file is None and self.is_stdout():
                self.stdout.flush()
                self.file = os.fdopen(os.dup(self.stdout.fileno()), "wb")
            elif self.file is None:
                self.file = open(self.path, "wb")  # noqa: SIM115
            return int(self.file.write(data))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._refused(error.strerror) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and self.file is not None:
                self._put_in_place()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise self._refused(problem.strerror) from None
        finally:
            self._end()

    def _put_in_place(self) -> None:
        is_empty = self.file.tell() == 0 if self.temporary else False
        self.file.close()
        if self.temporary is not None and not is_empty:
            assert self.mode is not None
            os.chmod(self.temporary, self.mode)
            os.replace(self.temporary, self.target)
            self.temporary = None

    def _end(self) -> None:
        """Close the file, remove what is left, and handle signals as before."""
        try:
            if self.file is not None:
                with suppress(OSError):
                    self.file.close()
            if self.temporary is not None:
                with suppress(OSError):
                    os.unlink(self.temporary)
        finally:
            self.handled.__exit__(None, None, None)

    def _refused(self, reason: str | None) -> CuteError:
        return refusal("cli-output", operation=self.option, path=self.path, reason=reason)


@contextmanager
def _stopping() -> Iterator[None]:
    """Let the signals of `STOPS` raise SystemExit in a block, so that it cleans up."""

    def stop(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in STOPS if hasattr(signal, name)]
        for number in [n for n in numbers if signal.getsignal(n) is signal.SIG_DFL]:
            before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- progress

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
