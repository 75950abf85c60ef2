"""The errors of cute_py, and the lookup of a wording by its code.

A refusal says four things: what was *given*, what is *required*, how to *fix* it, and *where*. A
module raises with `raise refusal("code", fact=value, ...)`; the wording of a code is in the
`wordings` of the lowest layer that raises it. Each code has an example in the tests, from which
docs/errors.md is made. `WORDINGS` merges all tables; a refusal loads those up to its own.

>>> from cute_py.errors import refusal
>>> print(refusal("basis-path", operation="E", path=(-1,)))
E: given path (-1,); required: mode indices: ints of at least 0; fix: E(1) is mode 1, E(1, 0) is \
mode 0 of mode 1
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import Any

    # class, given, required, fix; the last three are format strings
    Wording = tuple[type["CuteError"], str, str, str]


class CuteError(Exception):
    """Base of every error that cute_py raises on purpose.

    `code` names the wording (a key of `WORDINGS`); `facts` holds the values formatted into it.
    """

    code: str = ""

    def __init__(
        self, message: str, code: str = "", facts: dict[str, object] | None = None
    ) -> None:
        """Keep the finished message, and the code and facts that it was made from."""
        super().__init__(message)
        self.code = code
        self.facts: dict[str, object] = facts or {}

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by message, code and facts."""
        return type(self), (self.args[0], self.code, self.facts)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints: the traceback without frames of this package."""
        from IPython import get_ipython

        shorten(self, IPYTHON_FRAMES)
        shown: list[str] = get_ipython().InteractiveTB.structured_traceback(
            type(self), self, self.__traceback__, tb_offset=0
        )
        return shown

    def inside(self, call: str) -> CuteError:
        """Return this error as raised inside of `call`, the outermost call of the user."""
        said = str(self.facts.get("said", self.args[0]))
        facts = {**self.facts, "said": said, "call": call}
        return _told(type(self)(f"{call}: {said}", self.code, facts))


class LayoutError(CuteError, ValueError):
    """A layout, shape, stride or tiler is malformed, or an operation on layouts has no exact
    result.
    """


class CoordinateError(CuteError, IndexError):
    """A coordinate, index or mode is out of range."""


class LeafTypeError(CuteError, TypeError):
    """A leaf, argument or operand has the wrong type (bool, float, str, ...)."""


class UndecidedError(LayoutError):
    """The bounds of the symbols do not decide the question; `facts["assumption"]` names an
    assumption that would.
    """


class ParseError(CuteError, ValueError):
    """Text could not be read; `facts["position"]` is the offending column (0-based)."""


class DtypeError(CuteError, TypeError):
    """A dtype is unknown, has no NumPy equivalent, or cannot be converted as asked."""


class TraceError(CuteError, TypeError):
    """A kernel uses Python in a way that cannot be traced."""


class EmulationError(CuteError, RuntimeError):
    """On the emulator, a kernel did something that has no defined result on a GPU; `facts` holds
    `line`, `block`, `warp`, `lane` and more.
    """


# called with each refusal; the tracer keeps those of its kernel
listeners: list[Callable[[CuteError], object]] = []


def _told(error: CuteError) -> CuteError:
    for listener in listeners:
        listener(error)
    return error


# -- the tables of wordings

# Their modules: roughly from the lowest layer up, with the slow ones to load at the end.
TABLES = (
    "integers.wordings",
    "layout.wordings",
    "dtypes.wordings",  # not first, as its package loads all of the dtypes
    "tensor.wordings",
    "host.wordings",
    "atoms.wordings",
    "tiled.wordings",
    "plan.wordings",
    "calls.wordings",
    "trace.wordings",
    "viz.wordings",
    "analysis.wordings",
    "see.wordings",
    "kernels.wordings",
    "codegen.wordings",
    "ops.wordings",
    "expression",
    "explore.wordings",
    "cli.wordings",
    "emulate.wordings",  # late, as its package loads NumPy
    "torch.wordings",  # last, as its package loads torch
)


def _table(name: str) -> dict[str, str]:
    from importlib import import_module

    table: dict[str, str] = import_module(f"cute_py.{name}").WORDINGS
    return table


_PART = "\n" + 8 * " "  # a part of a row begins here
_MORE = "\n" + 12 * " "  # a part that is longer than a line goes on here


def _read(row: str) -> Wording:
    """Return the wording of a row: a line each of class, given, required and fix.

    A line after these follows the message on a line of its own.
    """
    kind, given, required, *fix = row.replace(_MORE, " ").split(_PART)
    return globals()[kind], given, required, "\n".join(fix)


def _wording(code: str) -> Wording:
    """Return the wording of a code; only tables up to its own are loaded."""
    for name in TABLES:
        if code in (table := _table(name)):
            return _read(table[code])
    raise KeyError(code)


def __getattr__(name: str) -> dict[str, Wording]:
    """Return `WORDINGS`: all tables merged (PEP 562)."""
    if name != "WORDINGS":
        raise AttributeError(f"module 'cute_py.errors' has no attribute {name!r}")
    return {code: _read(row) for table in TABLES for code, row in _table(table).items()}


def refusal(code: str, *, operation: str, where: str | None = None, **facts: object) -> CuteError:
    """Return the error of `code`, ready to raise.

    Args:
        code: a key of `WORDINGS`.
        operation: the public name that the user called, first in the message.
        where: "file.py:line" in kernels, else None.
        facts: the values that the wording names; `type` defaults to the type of `value`.

    Raises:
        KeyError: the code is not in `WORDINGS`, or a fact that its wording names is missing.

    """
    kind, given, required, fix = _wording(code)
    if "value" in facts and "{type}" in given:
        facts.setdefault("type", type(facts["value"]).__name__)
    shown = {
        key: format_mode(value) if key == "mode" else readable(value)
        for key, value in facts.items()
    }
    parts = (text.format(**shown) for text in (given, required, fix))
    message = "{}: given {}; required: {}; fix: {}".format(operation, *parts)
    _hide_frames()
    if where is not None:
        message += f" ({where})"
    error = kind(message, code, {"operation": operation, **facts})
    return _told(error)


READABLE = 8192  # bits, beyond which Python may refuse to write an integer as decimal


def readable(x: object) -> object:
    """Return an integer that is too long for decimals as hexadecimal text, all else as it is."""
    return hex(x) if x.__class__ is int and x.bit_length() > READABLE else x


def format_mode(path: object) -> str:
    """Return a mode path as text: `(1, 0)` is `1.0`, `()` is `the whole layout`.

    >>> format_mode((1, 0)), format_mode(2), format_mode(())
    ('1.0', '2', 'the whole layout')
    """
    if isinstance(path, tuple):
        return ".".join(str(step) for step in path) if path else "the whole layout"
    return str(path)


COMPLETIONS = 24  # names that a refusal lists


def suggestion(text: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Suggest known names for an unknown one, for the fix of a refusal; "" if nothing is close.

    Args:
        text: the name, or the beginning of one.
        known: the existing names.
        cutoff: the least similarity, from 0 to 1 (equal), as `difflib` measures it.

    >>> suggestion("gem", ["gemm_01", "gemm_02", "copy"])
    'one of the 2 that begin so: gemm_01, gemm_02'
    >>> suggestion("cpoy", ["gemm_01", "gemm_02", "copy"]), suggestion("zzz", ["copy"])
    ('did you mean copy?', '')
    """
    from difflib import get_close_matches

    names = list(known)
    small = {name.lower(): name for name in names}
    begun = completions(text, names)
    close = get_close_matches(text, names, 3, cutoff)
    close = close or [small[x] for x in get_close_matches(text.lower(), small, 3, cutoff)]
    return begun or (f"did you mean {' or '.join(close)}?" if close else "")


def completions(text: str, known: Iterable[str]) -> str:
    """Return the names that begin with `text`, ignoring case, for the fix of a refusal; "" if there
    are none. A long list is shortened to the parts up to the next "_".

    >>> completions("co", ["copy", "gemm"]), completions("x", ["copy", "gemm"])
    ('did you mean copy?', '')
    """
    names = [name for name in dict.fromkeys(known) if name.lower().startswith(text.lower())]
    if len(names) < 2 or not text:
        return f"did you mean {names[0]}?" if names and text else ""
    count = len(names)
    if count > COMPLETIONS:
        ends = ((name, name.find("_", len(text)) + 1) for name in names)
        names = list(dict.fromkeys(f"{name[:end]}..." if end else name for name, end in ends))
    more = f" and {len(names) - COMPLETIONS} more" if len(names) > COMPLETIONS else ""
    return f"one of the {count} that begin so: {', '.join(names[:COMPLETIONS])}{more}"


# -- the source line of the user's kernel or call, which a refusal names

_HERE = __name__.partition(".")[0]
PASSED = ("numpy", "IPython", "numba", "llvmlite")  # packages that call this one


def kernel_line() -> tuple[str, int]:
    """Return (file, line) of the innermost frame outside of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_hidden(frame):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def is_own(frame: FrameType) -> bool:
    """Return whether a frame runs code of this package, other than its kernels."""
    module = frame.f_globals.get("__name__", "")
    if module.partition(".")[0] == _HERE:
        return not module.startswith(_HERE + ".kernels")
    return bool(module == "contextlib")


def is_hidden(frame: FrameType) -> bool:
    """Return whether a frame is none of the user's: of this package, of one that calls it, or of
    the standard library, such as a logger that asks for a text.
    """
    name: str = frame.f_globals.get("__name__", "").partition(".")[0]
    return is_own(frame) or name in PASSED or name in sys.stdlib_module_names


# -- tracebacks without the frames of this package

FULL = "CUTE_PY_FULL_TRACEBACK"  # the variable that keeps all frames
FRAMES = 4  # the frames that a refusal shows at most
IPYTHON_FRAMES = 3  # the same, where seven lines are printed for each


def _keeps_frames() -> bool:
    import os

    return bool(os.environ.get(FULL))


def shorten(error: CuteError, most: int = FRAMES) -> None:
    """Cut the frames of this package from the traceback of a refusal, and of a deep recursion the
    middle; and the errors that led to it.

    A public function calls it in `except CuteError`, before a plain `raise`, which adds no frame.
    """
    if _keeps_frames():
        return
    from types import TracebackType

    error.__cause__, error.__suppress_context__ = None, True
    kept, traceback = [], error.__traceback__
    while traceback is not None:
        if not is_hidden(traceback.tb_frame):
            kept.append(traceback)
        traceback = traceback.tb_next
    del kept[most - most // 2 : len(kept) - most // 2]
    for each in reversed(kept):
        traceback = TracebackType(traceback, each.tb_frame, each.tb_lasti, each.tb_lineno)
    error.__traceback__ = traceback


def _hide_frames() -> None:
    """Let pytest leave out the frames of this package that are running, where a refusal passes."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_own(frame):
            frame.f_globals["__tracebackhide__"] = _is_of_refusal
        frame = frame.f_back


def _is_of_refusal(raised: Any) -> bool:  # pytest's ExceptionInfo
    return isinstance(raised.value, CuteError) and not _keeps_frames()


def refusal_here(code: str, *, operation: str, **facts: object) -> CuteError:
    """Return the error of `code` with the line of the kernel; see `refusal`."""
    return refusal(code, operation=operation, where=where(), **facts)


def where() -> str:
    """Return "file:line" of the kernel, for a refusal."""
    return place_text(kernel_line())


def place_text(line: tuple[str, int]) -> str:
    """Return a line as "file:line", without the folder, or as "cell [3], line 7" of a notebook."""
    name = file_text(line[0])
    return f"{name}, line {line[1]}" if name.startswith("cell [") else f"{name}:{line[1]}"


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as text.

    >>> ranges([0, 1, 2, 3, 8])
    '0-3,8'
    """
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


def file_text(path: str) -> str:
    """Return the name of a file without its folder, or the cell of a notebook with the number of
    its last run.

    >>> file_text("<ipython-input-3-5f8c2b>"), file_text("folder/kernel.py")
    ('cell [3]', 'kernel.py')
    """
    folder, _, name = path.replace("\\", "/").rpartition("/")
    typed = name.removeprefix("<ipython-input-") if name.startswith("<ipython-input-") else ""
    if not typed and not folder.rpartition("/")[2].startswith("ipykernel_"):
        return path if path.startswith("<") else name  # <stdin>, or an example of a page
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return f"cell [{numbers.get(path, typed.partition('-')[0] or '?')}]"
