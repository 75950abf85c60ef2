"""Who asks a generator for its values, where it gives them from inside a run-time block.

A block is traced once or twice, whatever number of times it will run. So what is done with a value
must be part of the block, as the body of a `for` statement over the generator is, and that of a
`with` statement over a context manager. `list`, `sum`, `next`, `zip`, unpacking and comprehensions
would count the traces.
"""

from __future__ import annotations

import gc
import inspect
import itertools
from types import GeneratorType

from cute_py.errors import place_text, refusal
from cute_py.trace.liveness import asks_by_statement, delegates, yields_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_TEE: Any = vars(itertools)["_tee_dataobject"]  # what the iterators of a tee share
# iterators that ask whenever they are asked, or give generators away without asking them
_HARMLESS: tuple[Any, ...] = (
    *(enumerate, filter, itertools.chain, itertools.starmap),
    *(type(iter(kind())) for kind in (tuple, list, dict, set)),
)


def require_for(loop: FrameType, first: bool) -> None:
    """Refuse to give the variable of a run-time loop to what is no `for` statement.

    Args:
        loop: the frame of the iterator over the loop's traces.
        first: whether it is asked for the first time.

    """
    _require(_stranger(loop.f_back, iterators=first), "cute.range")


def require_statement(frame: FrameType, entry: int, operation: str) -> None:
    """Refuse a generator that gives values from inside of a branch to what is no statement.

    Args:
        frame: the frame that has entered the branch, and now leaves it.
        entry: the instruction at which it has entered (bytes).
        operation: the branch.

    """
    if _suspends_in(frame, entry):
        held = frame.f_back if _is_held_by_iterator(frame) else None
        _require(held or _stranger(frame.f_back, managed=True, iterators=True), operation)


def _require(stranger: FrameType | None, operation: str) -> None:
    if stranger is not None:
        where = place_text((stranger.f_code.co_filename, stranger.f_lineno))
        raise refusal("trace-asked", operation=operation, where=where)


def _stranger(
    asker: FrameType | None, *, managed: bool = False, iterators: bool
) -> FrameType | None:
    """Return the frame that asks for a value, through any generators, without a `for` statement.

    Args:
        asker: the first frame to look at.
        managed: whether a `with` statement over a context manager may ask.
        iterators: whether to look for those that are written in C, which takes milliseconds.

    """
    while asker is not None:
        if managed and asker.f_globals.get("__name__") == "contextlib":
            return None
        if not (asks_by_statement(asker) or delegates(asker)):
            return asker
        if not _suspends_in(asker, asker.f_lasti):
            return None
        if iterators and _is_held_by_iterator(asker):
            return asker.f_back
        asker = asker.f_back
    return None


def _suspends_in(frame: FrameType, entry: int) -> bool:
    """Tell whether a generator gives values from a block: between an instruction (bytes) and the
    current one; if these are equal, in the loop that begins there.
    """
    suspends = bool(frame.f_code.co_flags & _SUSPENDS)
    return suspends and yields_between(frame.f_code, entry, frame.f_lasti)


def _is_held_by_iterator(frame: FrameType) -> bool:
    """Tell whether an iterator written in C stands between the generator of a frame and who asks
    it, and may ask it more or less often than it is asked itself: zip, islice ... Such an iterator
    has no frame, but the garbage collector knows it. What holds a generator is no older than it.
    """
    objects = gc.get_objects(generation=0)
    if not any(_is_of(x, frame) for x in objects):
        objects = gc.get_objects()
    iterators = (x for x in objects if hasattr(type(x), "__next__") and not _is_generator(x))
    return any(_is_of(x, frame) for iterator in iterators for x in _asked_by(iterator))


def _is_generator(x: object) -> bool:
    return type(x) is GeneratorType


def _is_of(x: Any, frame: FrameType) -> bool:
    return _is_generator(x) and x.gi_frame is frame


def _asked_by(iterator: object) -> list[object]:
    """Return what an iterator asks; nothing for one that asks whenever it is asked."""
    if isinstance(iterator, _HARMLESS):
        return []
    parts = gc.get_referents(iterator)
    if type(iterator) is map:  # of one iterator, it asks whenever it is asked
        parts = [x for x in parts if type(x) is not tuple or len(x) > 1]
    inside = [x for x in parts if isinstance(x, (tuple, _TEE))]
    return [*parts, *gc.get_referents(*inside)]
