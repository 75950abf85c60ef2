"""Tensor maps: the description of an array that TMA reads, one for each kind of box.

A kernel takes its maps by value, after all other parameters. The launcher encodes them. Source:
CUDA driver API, `cuTensorMapEncodeTiled`; PTX ISA, "Tensor Copies" and "Swizzling Modes".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import TYPE_CHECKING, TypeAlias

from cute_py.codegen.passes import names_in
from cute_py.errors import refusal
from cute_py.integers.symbols import terms_of
from cute_py.plan import ops
from cute_py.plan.plan import TensorParam
from cute_py.plan.walk import every

if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.plan import Plan

TmaOp: TypeAlias = ops.TmaLoad | ops.TmaStore
UNSWIZZLED = 128  # alignment of a box without swizzle (bytes)
# swizzle of bytes (B, M, S) -> (its number in the driver, the period of its pattern in bytes)
_SWIZZLES = {
    None: (0, UNSWIZZLED),
    (0, 4, 3): (0, UNSWIZZLED),
    (1, 4, 3): (1, 256),
    (2, 4, 3): (2, 512),
    (3, 4, 3): (3, 1024),
}


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The static part of a tensor map.

    Attributes:
        tensor: the name of the array's parameter.
        dtype: the type of the elements.
        modes: for each dimension, the innermost first, the mode of the array.
        box: the extents of the box (elements), by dimension.
        swizzle: the number of the swizzle mode in the driver: 0 none, 1 32B, 2 64B, 3 128B.
    """

    tensor: str
    dtype: Dtype
    modes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int


class TensorMaps:
    """The tensor maps of a plan, and the names of their parameters in order.

    Attributes:
        names: map -> name of its parameter.
    """

    def __init__(self, plan: Plan) -> None:
        """Find the map of each TMA op. Raises LayoutError for a box that TMA would not fill as the
        plan says.
        """
        self.params = {p.name: p for p in plan.params if isinstance(p, TensorParam)}
        self.offsets = {s.name: s.offset for s in plan.shared}
        self.names: dict[TensorMap, str] = {}
        taken = names_in(plan)
        for op in every(plan.body):
            if isinstance(op, (ops.TmaLoad, ops.TmaStore)):
                found = self.of(op)
                if found not in self.names:
                    self.names[found] = _free(f"{op.tensor}_map", {*taken, *self.names.values()})

    def of(self, op: TmaOp) -> TensorMap:
        """Return the map of an op."""
        tile = op.dst if isinstance(op, ops.TmaLoad) else op.src
        bytes = tile.dtype.bits // 8
        swizzle = _in_bytes(tile)
        problem = f"a box with the swizzle {tile.swizzle}"
        if bytes and swizzle in _SWIZZLES:
            number, period = _SWIZZLES[swizzle]
            modes = self._modes(op, tile)
            problem = _placed(op.box, modes, tile, period // bytes)
            if self.offsets[tile.storage] % period:
                problem = f"a box in {tile.storage}, which is not at a multiple of {period} bytes"
            if not problem:
                box = tuple([op.box[i] for i in modes])
                return TensorMap(op.tensor, tile.dtype, modes, box, number)
        raise refusal("codegen-op", operation="cute.compile", name=problem, where=op.where)

    def _modes(self, op: TmaOp, tile: Access) -> tuple[int, ...]:
        """Return the modes of the array in the order of the box: the contiguous mode, those with
        several elements by their stride in shared memory, the others.
        """
        stride = self.params[op.tensor].stride
        inner = next(i for i, d in enumerate(stride) if d.__class__ is int and d == 1)
        rest = [i for i in range(len(op.box)) if i != inner]
        first = tile.table[0][1]

        def place(i: int) -> tuple[bool, int, int]:
            step = tile.table[prod(op.box[:i])][1] - first if op.box[i] > 1 else 0
            return op.box[i] == 1, step, -i

        return (inner, *sorted(rest, key=place))


def _free(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number, found = number + 1, f"{name}{number}"
    return found


def _in_bytes(tile: Access) -> tuple[int, int, int] | None:
    """Return the swizzle of a tile in bytes."""
    if tile.swizzle is None:
        return None
    bits, base, shift = tile.swizzle
    return bits, base + (tile.dtype.bits // 8).bit_length() - 1, shift


def _placed(box: tuple[int, ...], modes: tuple[int, ...], tile: Access, period: int) -> str:
    """Return how a tile differs from the box that TMA writes: the elements follow each other, and
    the first one is at a multiple of the period of the swizzle (elements).
    """
    steps, step = [0] * len(box), 1
    for i in modes:
        steps[i], step = step, step * box[i]
    wanted = [0]
    for extent, step in zip(box, steps, strict=True):
        wanted = [at + k * step for k in range(extent) for at in wanted]
    first = tile.table[0][1]
    if len(tile.bases) > 1 or [at - first for _base, at in tile.table] != wanted:
        return f"a box of {box} elements that do not follow each other in {tile.storage}"
    starts = (tile.bases[0], tile.inner, first)
    if any(_unit(x) % period for x in starts):
        return f"a box that does not start at a multiple of {period} elements of {tile.storage}"
    return ""


def _unit(x: Scalar) -> int:
    """Return a divisor of all values of a scalar."""
    if isinstance(x, int):
        return x
    return gcd(*terms_of(x).values())
