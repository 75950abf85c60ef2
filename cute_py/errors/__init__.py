"""The errors of cute_py, and every wording that they use.

A refusal says four things: what was *given*, what is *required*, how to *fix* it, and *where*. The
wordings stand in tables, one module an area, keyed by a stable code; a module raises with `raise
refusal("code", fact=value, ...)`. Each code has a test that matches its text and a line in
docs/errors.md. `WORDINGS` is all of the tables; importing this package loads none of them.

>>> from cute_py.errors import refusal
>>> print(refusal("basis-path", operation="E", path=(-1,)))
E: given path (-1,); required: mode indices: ints of at least 0; fix: E(1) is mode 1, E(1, 0) is \
mode 0 of mode 1
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # class, given, required, fix; the last three are format strings
    Wording = tuple[type["CuteError"], str, str, str]


class CuteError(Exception):
    """Base of every error that cute_py raises on purpose.

    `code` names the wording (a key of `WORDINGS`); `facts` holds the values that were put into it.
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

    def inside(self, call: str) -> CuteError:
        """Return this error as it came up inside of `call`, the outermost that the user made."""
        said = str(self.facts.get("said", self.args[0]))
        return type(self)(f"{call}: {said}", self.code, {**self.facts, "said": said, "call": call})


class LayoutError(CuteError, ValueError):
    """A layout, shape, stride or tiler is malformed, or an operation on layouts has no exact
    result.
    """


class CoordinateError(CuteError, IndexError):
    """A coordinate, index or mode lies outside of what it indexes."""


class LeafTypeError(CuteError, TypeError):
    """A leaf, argument or operand has the wrong type (bool, float, str, ...)."""


class UndecidedError(LayoutError):
    """Symbols leave the question open; `facts["assumption"]` names the assumption that would settle
    it.
    """


class ParseError(CuteError, ValueError):
    """Text could not be read; `facts["position"]` is the offending column (0-based)."""


class DtypeError(CuteError, TypeError):
    """A dtype is unknown, has no NumPy equivalent, or cannot be converted as asked."""


class TraceError(CuteError, TypeError):
    """A kernel uses Python in a way that cannot be traced."""


class EmulationError(CuteError, RuntimeError):
    """A kernel did on the emulator what has no defined result on a GPU; `facts` holds `line`,
    `block`, `warp`, `lane` and more.
    """


# -- the tables of wordings, from the lowest layer up

AREAS = (
    "leaves",
    "algebra",
    "tiled",
    "composed",
    "symbols",
    "dtypes",
    "classical",
    "text",
    "tables",
    "atoms",
    "tensors",
    "copies",
    "host",
    "pictures",
    "analysis",
    "tracing",
    "kernels",
    "plans",
    "emulation",
    "ops",
    "codegen",
    "launching",
)


def _table(area: str) -> dict[str, Wording]:
    table: dict[str, Wording] = __import__(f"cute_py.errors.{area}", fromlist=["*"]).WORDINGS
    return table


def _wording(code: str) -> Wording:
    """Return the wording of a code; only tables up to its own are loaded."""
    for area in AREAS:
        if code in (table := _table(area)):
            return table[code]
    raise KeyError(code)


def __getattr__(name: str) -> dict[str, Wording]:
    """Return `WORDINGS`: the tables of all areas in one (PEP 562)."""
    if name != "WORDINGS":
        raise AttributeError(f"module 'cute_py.errors' has no attribute {name!r}")
    return {code: wording for area in AREAS for code, wording in _table(area).items()}


def refusal(code: str, *, operation: str, where: str | None = None, **facts: object) -> CuteError:
    """Return the error of `code`, ready to raise.

    Args:
        code: a key of `WORDINGS`.
        operation: the public name that the user called, first in the message.
        where: "file.py:line" in kernels, else nothing.
        facts: the values that the wording names.

    Raises:
        KeyError: the code is not in `WORDINGS`, or a fact that its wording names is missing.

    """
    kind, given, required, fix = _wording(code)
    shown = {key: format_mode(value) if key == "mode" else value for key, value in facts.items()}
    parts = (text.format(**shown) for text in (given, required, fix))
    message = "{}: given {}; required: {}; fix: {}".format(operation, *parts)
    if where is not None:
        message += f" ({where})"
    return kind(message, code, {"operation": operation, **facts})


def format_mode(path: object) -> str:
    """Return a mode path as text: `(1, 0)` is `1.0`, `()` is `the whole layout`.

    >>> format_mode((1, 0)), format_mode(2), format_mode(())
    ('1.0', '2', 'the whole layout')
    """
    if isinstance(path, tuple):
        return ".".join(str(step) for step in path) if path else "the whole layout"
    return str(path)
