"""The numbers of a traced kernel: what its symbols are for one thread and arguments of some sizes,
and where the elements of a tensor then are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.errors import refusal
from cute_py.integers.polynomial import evaluate, symbols_of
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.layout import tuples
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import Layout
from cute_py.layout.offsets import offsets
from cute_py.plan.ops.control import OF_TWO, Let
from cute_py.trace.engines import Guarded
from cute_py.trace.runtime_integers import Int

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cute_py.layout.types import AnyLayout, IntTuple
    from cute_py.plan.op import Op
    from cute_py.tensor.tensor import Tensor

THREAD = "tid"
OUTSIDE = -(1 << 60)  # a place that no element has


def bare(x: Any) -> Any:
    """Return shapes, strides and layouts with symbols in place of the integers of a trace."""
    if x.__class__ is tuple:
        return tuple([bare(each) for each in x])
    if x.__class__ is Layout:
        return Layout(bare(x.shape), bare(x.stride))
    if x.__class__ is ComposedLayout:
        return ComposedLayout(x.outer, bare(x.offset), bare(x.inner))
    if x.__class__ is ScaledBasis:
        return ScaledBasis(bare(x.value), x.path)
    return x.value if isinstance(x, Int) else x


class Numbers:
    """The value of each symbol: sizes, strides and numbers of the arguments, thread, block, and the
    integers that the kernel defines, loop variables at their start.
    """

    def __init__(self, known: Mapping[str, int], integers: Mapping[str, Op], row: str) -> None:
        self.known, self.integers, self.row = dict(known), integers, row

    def at(self, thread: int) -> Numbers:
        """Return the numbers of a thread."""
        return Numbers({**self.known, THREAD: thread}, self.integers, self.row)

    def of(self, x: Any) -> Any:
        """Return shapes, strides and layouts as numbers."""
        if x.__class__ is tuple:
            return tuple([self.of(each) for each in x])
        if x.__class__ is Layout:
            return Layout(self.of(x.shape), self.of(x.stride))
        if x.__class__ is ComposedLayout:
            return ComposedLayout(x.outer, self.of(x.offset), self.of(x.inner))
        if x.__class__ is ScaledBasis:
            return ScaledBasis(self.of(x.value), x.path)
        if isinstance(x, Int):
            x = x.value
        if x.__class__ is not SymInt:
            return x
        p = terms_of(x)
        return evaluate(p, {s.name: self._named(s.name) // s.multiple_of for s in symbols_of(p)})

    def _named(self, name: str) -> int:
        """Return the value of a symbol; refuse one that is known only when the kernel runs."""
        if name not in self.known:
            op: Any = self.integers.get(name)
            if not _is_computed(op):
                self.require({name})
            self.known[name] = self.of(op.start) if op.__class__ is not Let else self._computed(op)
        return self.known[name]

    def _computed(self, op: Let) -> int:
        """Return the value of an integer that the kernel computes."""
        from cute_py.emulate.scalars import BITWISE  # loads the emulator

        return int(BITWISE[op.kind](*map(self.of, op.operands)))

    def require(self, names: set[str]) -> None:
        """Refuse names whose values are known only when the kernel runs."""
        open_ = names - self.known.keys() - {THREAD}
        unknown = {name for name in open_ if not _is_computed(self.integers.get(name))}
        if unknown:
            given = ", ".join([f"{name!r}: 0" for name in sorted(unknown)])
            facts: dict[str, Any] = {"row": self.row, "names": ", ".join(sorted(unknown))}
            raise refusal("see-run-time", operation="owners", given=f"{{{given}}}", **facts)

    def names(self, x: Any) -> set[str]:
        """Return the names of all symbols that shapes, strides or layouts depend on, those among
        them from which the kernel computes others.
        """
        if x.__class__ is tuple:
            return {name for each in x for name in self.names(each)}
        if x.__class__ is Layout:
            return self.names((x.shape, x.stride))
        if x.__class__ is ComposedLayout:
            return self.names((x.offset, x.inner))
        if x.__class__ is ScaledBasis or isinstance(x, Int):
            return self.names(x.value)
        if x.__class__ is not SymInt:
            return set()
        found = {s.name for s in symbols_of(terms_of(x))}
        ops: list[Any] = [self.integers.get(name) for name in found]
        parts = [op.operands if op.__class__ is Let else op.start for op in ops if op is not None]
        return found | self.names(tuple(parts))

    def depends(self, x: Any) -> bool:
        """Return whether shapes, strides or layouts are other ones for other threads."""
        return THREAD in self.names(x)


def _is_computed(op: Any) -> bool:
    """Return whether an integer of a kernel is computed from others by a function: a loop variable
    is its start.
    """
    return op is not None and (op.__class__ is not Let or op.kind in OF_TWO)


def places(tensor: Tensor, numbers: Numbers, linear: bool) -> Any:  # an array [element, entry]
    """Return where the elements of a tensor in memory are, in colexicographical order.

    Args:
        tensor: a tensor of a kernel, in memory or of coordinates.
        numbers: those of the thread.
        linear: whether a part of an argument is placed by offsets in memory, as the argument
            itself is; else by coordinates in the argument.

    """
    engine, layout = tensor.engine, numbers.of(tensor.layout)
    origin = numbers.of(engine.offset)
    if origin.__class__ is not tuple:
        return np.asarray(offsets(layout)).reshape(-1, 1) + origin
    entries = _entries(origin)
    found = np.stack([np.asarray(offsets(_along(layout, p))) + x for p, x in entries.items()], 1)
    if not linear or not isinstance(engine, Guarded):
        return found
    shape, stride = (
        np.asarray([*_entries(numbers.of(x)).values()]) for x in (engine.shape, engine.stride)
    )
    inside = ((found >= 0) & (found < shape)).all(1)
    return np.where(inside, found @ stride + numbers.of(engine.memory.offset), OUTSIDE)[:, None]


def _entries(origin: IntTuple, path: tuple[int, ...] = ()) -> dict[tuple[int, ...], int]:
    """Return the entries of a coordinate by their paths."""
    if origin.__class__ is tuple:
        pairs = enumerate(origin)
        return {p: x for k, each in pairs for p, x in _entries(each, (*path, k)).items()}
    return {path: origin}


def _along(layout: AnyLayout, path: tuple[int, ...]) -> Layout:
    """Return the layout of one entry of the coordinates that a layout yields."""

    def step(d: Any) -> int:
        return int(d.value) if d.__class__ is ScaledBasis and d.path == path else 0

    return Layout(layout.shape, tuples.transform_leaf(step, layout.stride))
