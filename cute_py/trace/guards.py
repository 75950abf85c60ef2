"""Lowering of tensors that count in coordinates of a parameter: offsets, and guards where they may
lie outside of its extents.
"""

from __future__ import annotations

from cute_py.calls.places import where
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.integers.polynomial import Symbol
from cute_py.integers.symbols import SymInt
from cute_py.layout.tuples import flatten
from cute_py.plan.conditions import Compare
from cute_py.trace.engines import Guarded
from cute_py.trace.enumeration import base_of, modes_of
from cute_py.trace.runtime_integers import Condition, bare, compare
from cute_py.trace.state import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import AnyLayout, IntTuple, Leaf
    from cute_py.plan.conditions import Cond
    from cute_py.tensor.tensor import Tensor


def by_coordinates(tensor: Tensor, engine: Guarded, width: int, operation: str) -> dict[str, Any]:
    """Return bases, table and guards of a tensor that counts in coordinates of a parameter."""
    layout = tensor.layout
    starts, strides, extents = (
        list(flatten(x)) for x in (engine.offset, engine.stride, engine.shape)
    )
    axis = {path: j for j, path in enumerate(_paths(engine.shape))}
    modes = [(e, *_axis(d, axis, layout, operation)) for e, d in modes_of(layout, operation)]
    entries = [(0,) * len(starts)]
    for extent, j, step in reversed(modes):
        entries = [
            (*c[:j], c[j] + i * step, *c[j + 1 :]) if step else c
            for c in entries
            for i in range(extent)
        ]
    bases: dict[tuple[int, ...], int] = {}
    guards: dict[Any, int] = {}
    known: dict[tuple[int, int], tuple[int, ...]] = {}  # of (axis, coordinate), once each
    table, masks = [], []
    for v in range(0, len(entries), width):
        coord = entries[v]
        _require_neighbours(entries[v : v + width], strides, layout, width, operation)
        moving = tuple(
            [0 if d.__class__ is int else x for x, d in zip(coord, strides, strict=True)]
        )
        static = sum([x * d for x, d in zip(coord, strides, strict=True) if d.__class__ is int])
        table.append((bases.setdefault(moving, len(bases)), static))
        mask: list[int] = []
        for j, x in enumerate(coord):
            if (j, x) not in known:
                start, wide = ints.add(starts[j], x), width if _is_one(strides[j]) else 1
                tests = _guards(start, extents[j], wide, operation)
                known[j, x] = tuple([guards.setdefault(t, len(guards)) for t in tests])
            mask.extend(known[j, x])
        masks.append(tuple(mask))
    origin = engine.memory.offset
    for x, d in zip(starts, strides, strict=True):
        origin = ints.add(origin, ints.mul(x, d))
    first = [(0, 0, d) for d in strides]
    found: dict[str, Any] = {
        "bases": tuple([bare(base_of(origin, digits, first)) for digits in bases]),
        "table": tuple(table),
    }
    if guards:
        found |= {"guards": tuple(guards), "masks": tuple(masks)}
    return found


def _paths(shape: IntTuple, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    if shape.__class__ is tuple:
        return [p for i, s in enumerate(shape) for p in _paths(s, (*path, i))]
    return [path]


def _axis(
    stride: Any,  # noqa: ANN401  (a stride)
    axis: dict[tuple[int, ...], int],
    layout: AnyLayout,
    operation: str,
) -> tuple[int, int]:
    """Return which coordinate a stride moves, and by how much."""
    if stride.__class__ is int and stride == 0:
        return 0, 0
    step = getattr(stride, "value", None)
    if step.__class__ is not int:
        raise refusal("kernel-layout", operation=operation, layout=layout, where=where())
    return axis[stride.path], step


def _require_neighbours(
    coords: list[tuple[int, ...]],
    strides: list[Any],
    layout: AnyLayout,
    width: int,
    operation: str,
) -> None:
    if width == 1:
        return
    first = coords[0]
    units = [j for j, d in enumerate(strides) if d.__class__ is int and d == 1]
    for j in units:
        if coords == [(*first[:j], first[j] + i, *first[j + 1 :]) for i in range(width)]:
            return
    raise refusal(
        "vector-neighbours",
        operation=operation,
        layout=layout,
        width=width,
        offsets=coords,
        where=where(),
    )


def _is_one(stride: object) -> bool:
    return stride.__class__ is int and stride == 1


def _guards(start: Leaf, extent: Leaf, width: int, operation: str) -> list[Cond]:
    """Return what must hold for elements from a coordinate on to lie inside of an extent."""
    if width > 1:
        _require_whole(start, extent, width, operation)
    both = compare("le", 0, start), compare("lt", start, extent)
    open_ = [inside for inside in both if not _surely(inside)]
    return [x.cond if isinstance(x, Condition) else Compare("lt", 1, 0) for x in open_]


def _surely(inside: bool | Condition) -> bool:
    return inside is True or (isinstance(inside, Condition) and _stays_below(inside.cond))


def _stays_below(test: Cond) -> bool:
    """Tell whether a < b holds because of what the symbols of a stay below: the number of blocks of
    the grid, or of iterations of a loop.
    """
    if not isinstance(test, Compare) or test.test != "lt":
        return False
    most: Leaf = test.a
    for name, limit in current().limits.items():
        most = _at_most(most, name, limit)
    return most is not test.a and ints.less(most, test.b) is True


def _at_most(x: Leaf, name: str, limit: Leaf) -> Leaf:
    """Return x with the greatest value of a symbol, where x grows with it and is linear in it."""
    if not isinstance(x, SymInt):
        return x
    alone = [m for m in x._terms if any(s.name == name for atom in m for s in atom.symbols)]
    if len(alone) != 1 or len(alone[0]) != 1 or not isinstance(alone[0][0], Symbol):
        return x
    factor = x._terms[alone[0]]
    if factor < 0:
        return x
    step = ints.sub(ints.sub(limit, 1), SymInt({alone[0]: 1}))
    return ints.add(x, ints.mul(factor, step))


def _require_whole(start: Leaf, extent: Leaf, width: int, operation: str) -> None:
    """Refuse vectors that may lie partly outside of an extent."""
    if ints.divides(width, extent) and ints.divides(width, start):
        return
    last = ints.add(start, width - 1)
    if not (_surely(compare("le", 0, start)) and _surely(compare("lt", last, extent))):
        raise refusal(
            "vector-extent",
            operation=operation,
            extent=extent,
            start=start,
            width=width,
            where=where(),
        )
