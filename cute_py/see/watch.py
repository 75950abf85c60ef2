"""`watched`: a trace during which every tensor is noted that a line of the kernel gives a name.

The interpreter calls back at each line of the user's code (`sys.settrace`): the names that a frame
has bound since the line before are what that line has made. It also calls back where that code
calls this package, so the operation and the operands of each tensor are known. Nothing of this is
there in an ordinary trace.
"""

from __future__ import annotations

import inspect
import sys
from typing import NamedTuple

from cute_py.errors import is_hidden, is_own
from cute_py.plan.ops.control import Let, Loop
from cute_py.plan.walk import every
from cute_py.tensor.tensor import Tensor
from cute_py.trace.kernel import traced
from cute_py.trace.shown import KINDS
from cute_py.trace.state import tracing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType
    from typing import Any

    from cute_py.calls.arguments import Argument
    from cute_py.plan.op import Op
    from cute_py.plan.plan import Plan
    from cute_py.trace.kernel import Kernel

MOST = 64  # entries of a list or tuple that are looked at


class Made(NamedTuple):
    """A call of this package that returned a tensor: the name of the function, and its arguments
    by name.
    """

    name: str
    given: dict[str, Any]

    def operands(self) -> Iterator[Tensor]:
        """Yield the tensors among the arguments."""
        for x in self.given.values():
            for each in x if x.__class__ in (tuple, list) else (x,):
                if each.__class__ is Tensor:
                    yield each


class Sighting(NamedTuple):
    """A value that a line has given a name."""

    file: str
    line: int
    function: str
    name: str
    value: Any
    role: str


class Seen(NamedTuple):
    """What a watched trace has seen.

    Attributes:
        plan: the plan.
        sightings: in the order of the trace.
        made: id of a tensor -> the call that returned it.
        filled: the tensors that calls returned or copied to, so that no id is used again.
        shown: the calls of `cute.print` and `cute.show` with tensors and layouts.
        integers: the names of loop variables and other integers -> the op that defines them.

    """

    plan: Plan
    sightings: list[Sighting]
    made: dict[int, Made]
    filled: list[tuple[Tensor, Made]]
    shown: list[Any]
    integers: dict[str, Op]


def watched(kernel: Kernel, arguments: tuple[Argument, ...]) -> Seen:
    """Trace a kernel, and return what has been seen."""
    watch, before = _Watch(), sys.gettrace()
    shown: list[Any] = []
    sys.settrace(watch.entered)
    try:
        plan = traced(kernel, arguments, shown)
    finally:
        sys.settrace(before)
    defined: dict[str, Op] = {op.var: op for op in every(plan.body) if isinstance(op, (Let, Loop))}
    return Seen(plan, watch.sightings, watch.made, watch.filled, shown, defined)


class _Frame:
    """A frame of the user's code: the line that it is at, and what its names were bound to."""

    __slots__ = ("bound", "line")

    def __init__(self, line: int, bound: dict[str, Any] | None) -> None:
        self.line, self.bound = line, bound


class _Watch:
    """The callbacks of the interpreter."""

    def __init__(self) -> None:
        self.sightings: list[Sighting] = []
        self.made: dict[int, Made] = {}
        self.filled: list[tuple[Tensor, Made]] = []
        self.frames: dict[FrameType, _Frame] = {}
        self.kinds: dict[int, str] = {}  # by the id of the globals: whose code it is

    def entered(self, frame: FrameType, _event: str, _arg: object) -> Any:
        """Look at the lines of the user's code, and at what it calls of this package."""
        kind = self.kinds.get(id(frame.f_globals))
        if kind is None:
            kind = "own" if is_own(frame) else "hidden" if is_hidden(frame) else "user"
            self.kinds[id(frame.f_globals)] = kind
        if kind == "user":
            return self._entered_user(frame)
        if kind == "own" and frame.f_back in self.frames and not _yields(frame.f_code):
            frame.f_trace_lines = False
            made = Made(frame.f_code.co_name, dict(frame.f_locals))
            return lambda _frame, event, value: self._returned(made, event, value)
        return None

    def _entered_user(self, frame: FrameType) -> Any:
        if frame not in self.frames:
            known = dict(frame.f_locals) if self.frames else {}  # what it is given has a name
            passing = frame.f_code.co_name.startswith("<")  # a comprehension, or a lambda
            self.frames[frame] = _Frame(frame.f_lineno, None if passing else known)
        return self._at_line

    def _at_line(self, frame: FrameType, event: str, _value: object) -> Any:
        """Note what the line before has bound; see `sys.settrace`."""
        state = self.frames[frame]
        if state.bound is not None and event in ("line", "return"):
            self._look(frame, state.line, state.bound)
        state.line = frame.f_lineno
        if event == "return" and not _yields(frame.f_code):
            del self.frames[frame]
        return self._at_line

    def _look(self, frame: FrameType, line: int, bound: dict[str, Any]) -> None:
        """Note what the names of a frame are bound to since its last line."""
        role = getattr(getattr(tracing(), "role", None), "name", "")
        where = frame.f_code.co_filename, line, frame.f_code.co_name
        for name, value in frame.f_locals.items():
            held = tuple(value) if value.__class__ is list else value
            if _same(bound.get(name, bound), held):
                continue
            bound[name] = held
            for label, x in _parts(name, held):
                self.sightings.append(Sighting(*where, label, x, role))

    def _returned(self, made: Made, event: str, value: object) -> None:
        """Note what a call of this package has returned, or copied to."""
        if event == "return" and value.__class__ is Tensor:
            self.made.setdefault(id(value), made)
            self.filled.append((value, made))
        elif event == "return" and made.name == "copy" and _is_one_for_one(made.given):
            self.filled.append((made.given["args"][-1], made))


def _is_one_for_one(given: dict[str, Any]) -> bool:
    """Return whether a copy gives each register the element of the same index."""
    *atom, _source, target = given["args"]
    op = getattr(getattr(atom[0], "atom", atom[0]), "op", None) if atom else None
    return target.space == "rmem" and (op is None or op.src_tv == op.dst_tv)


def _yields(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_GENERATOR)


def _same(a: Any, b: Any) -> bool:
    """Return whether two values are one object, or tuples of the same objects."""
    if a is b:
        return True
    return (
        a.__class__ is b.__class__ is tuple
        and len(a) == len(b)
        and all(x is y for x, y in zip(a, b, strict=True))
    )


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of what the table lists: the value, its entries or its attributes."""
    if isinstance(value, KINDS):
        yield name, value
    elif value.__class__ is tuple:
        for k, x in enumerate(value[:MOST]):
            yield from _parts(f"{name}[{k}]", x)
    elif value.__class__ is dict:
        for key, x in [*value.items()][:MOST]:
            yield from _parts(f"{name}[{key!r}]", x)
    elif not _is_ours(value):
        for attribute, x in _attributes(value):
            if isinstance(x, KINDS):
                yield f"{name}.{attribute}", x


def _is_ours(value: object) -> bool:
    """Return whether a value is of Python or of this package: its objects hold what has a name."""
    module: str = type(value).__module__
    ours = module.partition(".")[0] == __name__.partition(".")[0]
    return module == "builtins" or (ours and not module.startswith("cute_py.kernels"))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object, not of its class, without running code of its class."""
    kind = type(value)
    yield from getattr(value, "__dict__", {}).items()
    for name in (s for base in kind.__mro__ for s in getattr(base, "__slots__", ())):
        try:
            yield name, object.__getattribute__(value, name)
        except AttributeError:
            continue
