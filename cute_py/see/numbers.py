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
    from collections.abc import Callable, Mapping
    from typing import Any

    from cute_py.layout.types import IntTuple
    from cute_py.plan.op import Op
    from cute_py.tensor.tensor import Tensor

THREAD = "tid"
OUTSIDE = -(1 << 60)  # a place that no element has


def changed(x: Any, change: Callable[[SymInt], Any]) -> Any:
    """Return shapes, strides and layouts, or what else x is, with `change` applied to its symbols,
    those behind the integers of a trace, too.
    """
    if x.__class__ is tuple:
        return tuple([changed(each, change) for each in x])
    if x.__class__ is Layout:
        return Layout(changed(x.shape, change), changed(x.stride, change))
    if x.__class__ is ComposedLayout:
        return ComposedLayout(x.outer, changed(x.offset, change), changed(x.inner, change))
    if x.__class__ is ScaledBasis:
        return ScaledBasis(changed(x.value, change), x.path)
    if isinstance(x, Int):
        return change(x.value)
    return change(x) if isinstance(x, SymInt) else x


def bare(x: Any) -> Any:
    """Return shapes, strides and layouts with symbols in place of the integers of a trace."""
    return changed(x, lambda symbol: symbol)


class Numbers:
    """The value of each symbol: sizes, strides and numbers of the arguments, thread, block, and the
    integers that the kernel defines, loop variables at their start.

    Args:
        known: name -> value.
        integers: name -> the op that defines it.
        row: the name of a row, for errors.

    """

    def __init__(self, known: Mapping[str, int], integers: Mapping[str, Op], row: str) -> None:
        self.known, self.integers, self.row = dict(known), integers, row

    def at(self, thread: int) -> Numbers:
        """Return the numbers of a thread."""
        return Numbers({**self.known, THREAD: thread}, self.integers, self.row)

    def of(self, x: Any) -> Any:
        """Return shapes, strides and layouts as numbers."""
        return changed(x, self._value)

    def _value(self, symbol: SymInt) -> int:
        p = terms_of(symbol)
        return evaluate(p, {s.name: self._named(s.name) // s.multiple_of for s in symbols_of(p)})

    def _named(self, name: str) -> int:
        """Return the value of a symbol; refuse one that is known only when the kernel runs."""
        if name not in self.known:
            self.require({name})
            op: Any = self.integers[name]
            self.known[name] = _computed(op, self) if op.__class__ is Let else self.of(op.start)
        return self.known[name]

    def require(self, names: set[str]) -> None:
        """Refuse names whose values are known only when the kernel runs: those that are neither
        known nor computed from others by a function. A loop variable is its start.
        """
        ops: dict[str, Any] = {name: self.integers.get(name) for name in names - self.known.keys()}
        unknown = [
            name
            for name, op in sorted(ops.items())
            if name != THREAD and (op is None or (op.__class__ is Let and op.kind not in OF_TWO))
        ]
        if unknown:
            given = ", ".join([f"{name!r}: 0" for name in unknown])
            facts: dict[str, Any] = {"row": self.row, "names": ", ".join(unknown)}
            raise refusal("see-run-time", operation="owners", given=f"{{{given}}}", **facts)

    def names(self, x: Any) -> set[str]:
        """Return the names of all symbols that shapes, strides or layouts depend on, and those from
        which the kernel computes them.
        """
        terms: list[Any] = []

        def noted(symbol: SymInt) -> SymInt:
            terms.append(terms_of(symbol))
            return symbol

        changed(x, noted)
        found = {symbol.name for symbol in symbols_of(*terms)}
        ops: list[Any] = [self.integers.get(name) for name in found]
        parts = [op.operands if op.__class__ is Let else op.start for op in ops if op is not None]
        return found | self.names(tuple(parts)) if parts else found

    def depends(self, x: Any) -> bool:
        """Return whether shapes, strides or layouts are other ones for other threads."""
        return THREAD in self.names(x)


def _computed(op: Let, numbers: Numbers) -> int:
    """Return the value of an integer that a kernel computes from two."""
    from cute_py.emulate.scalars import BITWISE  # loads the emulator

    return int(BITWISE[op.kind](*map(numbers.of, op.operands)))


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
    found = np.stack([_along(layout, path) + x for path, x in _entries(origin).items()], 1)
    if not linear or not isinstance(engine, Guarded):
        return found
    shape, stride = (
        np.asarray([*_entries(numbers.of(x)).values()]) for x in (engine.shape, engine.stride)
    )
    inside = ((found >= 0) & (found < shape)).all(1)
    return np.where(inside, found @ stride + numbers.of(engine.memory.offset), OUTSIDE)[:, None]


def _entries(coord: IntTuple, path: tuple[int, ...] = ()) -> dict[tuple[int, ...], int]:
    """Return the entries of a coordinate by their paths."""
    if coord.__class__ is tuple:
        pairs = enumerate(coord)
        return {p: x for k, each in pairs for p, x in _entries(each, (*path, k)).items()}
    return {path: coord}


def _along(layout: Layout, path: tuple[int, ...]) -> Any:  # an array
    """Return one entry of the coordinates that a layout yields."""

    def step(d: Any) -> int:
        return int(d.value) if d.__class__ is ScaledBasis and d.path == path else 0

    return np.asarray(offsets(Layout(layout.shape, tuples.transform_leaf(step, layout.stride))))
