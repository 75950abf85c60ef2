"""The memory in which blocks of a kernel leave sums for each other, and its locks, which are zeros.

Every kernel leaves its locks 0, so they are cleared once. Kernels of one stream run one after the
other, and share memory; each stream has its own, of the library of the operands. What a CUDA graph
captures has memory of the graph's own, cleared in the graph.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from cute_py.codegen.driver import driver
from cute_py.codegen.driver.streams import current_stream, device_of
from cute_py.dtypes.table import s32

if TYPE_CHECKING:
    from cute_py.calls.memo import Answer
    from cute_py.dtypes.table import Dtype
    from cute_py.kernels.splits import Workspace

# by library, GPU, stream and type of the sums
_held: dict[tuple[str, int, int, str], tuple[Any, Any]] = {}


def of_stream(library: Any, x: Any, wanted: Workspace, kind: Dtype) -> tuple[Any, Any]:
    """Return sums (slots, elements) and locks (slots) for kernels on the current stream.

    Args:
        library: of the arrays, a `Library`.
        x: one of them.
        wanted: how many.
        kind: of the sums.

    """
    device = device_of(x)
    stream = current_stream(x, device)()
    if driver().is_capturing(stream):
        return new(library, wanted, kind)
    key = type(library).__name__, device, stream, kind.name
    held = _held.get(key)
    if held is None or held[0].shape[0] < prod(wanted) or held[1].shape[0] < wanted.slots:
        elements, slots = prod(wanted), wanted.slots
        if held is not None:  # no less than before, so that kernels do not replace it by turns
            elements, slots = max(elements, held[0].shape[0]), max(slots, held[1].shape[0])
        held = library.empty((elements,), kind), library.zeros((slots,), s32)
        _held[key] = held
    sums, locks = held
    return sums[: prod(wanted)].reshape(tuple(wanted)), locks[: wanted.slots]


def on_its_stream(answer: Answer, kept: tuple[Any, ...]) -> Answer | None:
    """Return an answer that launches a kernel with a workspace of the current stream, and is asked
    on that stream alone, outside of captures; None while one takes place.
    """
    stream = current_stream(kept[0], device_of(kept[0]))
    here = stream()

    def fits() -> bool:
        return stream() == here and not driver().is_capturing(here)

    def guarded(args: Any, values: Any, _kept: Any = kept) -> Any:
        return answer(args, values) if fits() else None

    return guarded if fits() else None


def new(library: Any, wanted: Workspace, kind: Dtype) -> tuple[Any, Any]:
    """Return the same as new arrays."""
    return library.empty(tuple(wanted), kind), library.zeros((wanted.slots,), s32)


def bytes_of(wanted: Workspace | None, kind: Dtype) -> int:
    """Return how many bytes a workspace takes: the sums, then the locks.

    >>> from cute_py.dtypes.table import f32
    >>> from cute_py.kernels.splits import Workspace
    >>> bytes_of(Workspace(35, 128 * 128), f32), bytes_of(None, f32)
    (2293900, 0)
    """
    if wanted is None:
        return 0
    return _sums_of(wanted, kind) + wanted.slots * s32.bits // 8


def _sums_of(wanted: Workspace, kind: Dtype) -> int:
    """Return how many bytes the sums take, whole words of locks: accumulators have 4 or 8 bytes."""
    return prod(wanted) * kind.bits // 8


def within(library: Any, memory: Any, wanted: Workspace, kind: Dtype) -> tuple[Any, Any]:
    """Return the sums and the locks within the bytes of a caller, of `bytes_of` at least."""
    size, whole = _sums_of(wanted, kind), bytes_of(wanted, kind)
    sums = library.seen_as(memory[:size], kind).reshape(tuple(wanted))
    return sums, library.seen_as(memory[size:whole], s32)
