"""Which threads a tiled operation has: the check of `get_slice`."""

from __future__ import annotations

from cute_py.errors import LayoutError, refusal
from cute_py.integers import ints
from cute_py.layout.coords import crd2idx
from cute_py.layout.layout import Layout
from cute_py.layout.queries import cosize, get_flat_coord, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import CuteError
    from cute_py.layout.types import Leaf


def require_thread(thread: Leaf, end: int, layout: Layout) -> Leaf:
    """Return a thread index as a leaf; refuse one that may lie outside of 0 to end - 1.

    Args:
        thread: the index: an integer, or a symbol whose declared bounds settle the question.
        end: one more than the largest thread index.
        layout: of the threads, for the refusal.

    Raises CoordinateError where the thread is outside, UndecidedError with the assumption that
    would settle it where it may be.
    """
    thread = ints.normalize(thread, "get_slice")
    if ints.settle(ints.leq, 0, thread, "get_slice") and ints.settle(
        ints.less, thread, end, "get_slice"
    ):
        return thread
    raise _no_thread(thread, layout)


def thread_vmnk(thread: Leaf, layout: Layout) -> tuple[Leaf, tuple[Leaf, Leaf, Leaf, Leaf]]:
    """Return a thread index as a leaf, and its coordinate in (ThrV,ThrM,ThrN,ThrK).

    Law: layout(coordinate) == thread. Raises CoordinateError, or UndecidedError for a symbol, where
    the thread is outside or falls into a hole of the layout.
    """
    end = cosize(layout)
    thread = require_thread(thread, end, layout)
    try:
        coord = get_flat_coord(layout, thread)
    except LayoutError:
        raise _no_thread(thread, layout) from None
    if size(layout) < end:  # holes: only what comes back is a thread
        back = crd2idx(coord, layout.shape, layout.stride)
        if not ints.settle(ints.same, back, thread, "get_slice"):
            raise _no_thread(thread, layout)
    return thread, coord


def apart(layout: Layout) -> bool:
    """Return whether the modes of a layout of threads step over each other, from 0 up: then every
    thread index gives away its coordinate.

    >>> apart(Layout((32, 2, 2), (1, 64, 32))), apart(Layout((3, 3), (3, 2)))
    (True, False)
    """
    filled = 0  # the greatest index that the modes below reach
    for stride, extent in sorted(zip(layout._d, layout._s, strict=True)):
        if extent > 1:
            if stride <= filled:
                return False
            filled += stride * (extent - 1)
    return True


def _no_thread(thread: Leaf, layout: Layout) -> CuteError:
    return refusal(
        "tiled-thread",
        operation="get_slice",
        thread=thread,
        threads=size(layout),
        layout=layout,
    )
