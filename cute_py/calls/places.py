"""Where the user's code stands: the line of a kernel, or of a call, that a refusal names."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_HERE = __name__.partition(".")[0]


def kernel_line() -> tuple[str, int]:
    """Return (file, line) of the innermost frame outside of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_own(frame):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def is_own(frame: FrameType) -> bool:
    """Tell whether a frame runs code of this package, other than its kernels."""
    module = frame.f_globals.get("__name__", "")
    if module.partition(".")[0] == _HERE:
        return not module.startswith(_HERE + ".kernels")
    return bool(module == "contextlib")


def where() -> str:
    """Return "file:line" of the kernel, for a refusal."""
    return place_text(kernel_line())


def place_text(line: tuple[str, int]) -> str:
    """Return a line as "file:line", without the folder."""
    return f"{line[0].replace(chr(92), '/').rpartition('/')[2]}:{line[1]}"
