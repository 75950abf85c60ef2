"""Whether the accesses of a partition are vectors: values side by side that start aligned."""

from __future__ import annotations

from cute_py.errors import LayoutError, refusal
from cute_py.integers import ints
from cute_py.layout.algebra.coalesce import coalesce
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.divide import logical_divide
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.layout import Layout
from cute_py.layout.modes import get
from cute_py.layout.offsets import offsets
from cute_py.layout.queries import is_static, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from cute_py.atoms.copy import Copy_Atom
    from cute_py.layout.types import Alike, Leaf, OffsetMap

_OTHER_RULES = ("SM90_BULK", "SM90_TMA", "SM100_TMEM")  # no address for each lane


def require_vectors(atom: Copy_Atom, side: str, layout: Alike, origin: Leaf, count: int) -> None:
    """Refuse a partition whose accesses are not side by side in memory, or start misaligned.

    Args:
        atom: the Copy_Atom.
        side: "source" or "destination", for the refusal.
        layout: (CPY,CPY_M,...) of that side.
        origin: where the partition begins (elements from an aligned place).
        count: values of one access.

    Law: nothing is raised exactly where every run of `count` values of the partition is start,
    start + 1, ... with a start that is aligned. Raises UndecidedError where that depends on a
    symbol.
    """
    if atom.op.name.startswith(_OTHER_RULES):
        return
    check = _by_offsets if is_static(layout) and ints.is_static(origin) else _by_strides
    check(_Access(atom, side, layout, count), layout, origin)


class _Access:
    """What an access must be, and the two refusals."""

    __slots__ = ("align", "atom", "count", "layout", "side")

    def __init__(self, atom: Copy_Atom, side: str, layout: Alike, count: int) -> None:
        self.atom, self.side, self.layout, self.count = atom, side, layout, count
        self.align = max(1, atom.op.alignment_bits // atom.dtype.bits)

    def apart(self, value: int, step: Leaf) -> NoReturn:
        raise refusal(
            "copy-vector",
            operation="copy",
            atom=self.atom,
            side=self.side,
            layout=self.layout,
            count=self.count,
            value=value,
            step=step,
        )

    def misaligned(self, start: Leaf) -> NoReturn:
        raise refusal(
            "copy-aligned",
            operation="copy",
            atom=self.atom,
            side=self.side,
            layout=self.layout,
            start=start,
            count=self.align,
            bits=self.atom.op.alignment_bits,
        )


def _by_offsets(access: _Access, layout: Alike, origin: Leaf) -> None:
    """Look at every offset."""
    import numpy as np

    runs = offsets(layout).reshape(-1, access.count) + ints.as_int(origin, "copy")
    steps = runs - runs[:, :1]
    wrong = np.argwhere(steps != np.arange(access.count))
    if len(wrong):
        run, value = (int(i) for i in wrong[0])
        access.apart(value, int(steps[run, value]))
    late = runs[runs[:, 0] % access.align != 0, 0]
    if len(late):
        access.misaligned(int(late[0]))


def _by_strides(access: _Access, layout: Alike, origin: Leaf) -> None:
    """Look at the strides: accesses are vectors where values have stride 1 and all else is a
    multiple of the alignment.
    """
    if layout.__class__ is not Layout:
        _require_kept(access, layout.outer)
        _by_strides(access, layout.inner, layout.offset)
        _require_aligned(access, origin)
        return
    values, count = coalesce(get(layout, 0)), access.count
    run = _run(values, count)
    if count > 1 and run != Layout(count):
        access.apart(1, values(1))
    rests = [get(logical_divide(values, count), 1)] if count < size(values) else []
    rests += [get(layout, k) for k in range(1, len(layout))]
    for rest in rests:
        for extent, stride in zip(rest._s, rest._d, strict=True):
            if extent != 1:
                _require_aligned(access, stride)
    _require_aligned(access, origin)


def _run(values: Layout, count: int) -> Layout | None:
    try:
        run: Layout = coalesce(composition(values, Layout(count)))
    except LayoutError:
        return None
    return run


def _require_aligned(access: _Access, start: Leaf) -> None:
    if not ints.settle(ints.divides, access.align, start, "copy"):
        access.misaligned(start)


def _require_kept(access: _Access, outer: OffsetMap) -> None:
    """Refuse a swizzle that is not known to keep the values of an access together."""
    together = max(access.count, access.align)
    if outer.__class__ is not Swizzle or together > 1 << outer.num_base:
        keeps = f"{outer} keeps {together} elements together"
        ints.require(None, "copy", keeps, f"Swizzle(B, {(together - 1).bit_length()}, S)")
