"""Tensor maps: the description of an array that TMA reads, one for each kind of box.

A kernel takes its maps by value, after all other parameters. The launcher encodes them. Source:
CUDA driver API, `cuTensorMapEncodeTiled`; PTX ISA, "Tensor Copies" and "Swizzling Modes".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from cute_py.codegen.passes import names_in
from cute_py.plan import ops
from cute_py.plan.walk import every

if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype
    from cute_py.plan.plan import Plan

TmaOp: TypeAlias = ops.TmaLoad | ops.TmaStore


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The static part of a tensor map.

    Attributes:
        tensor: the name of the array's parameter.
        dtype: the type of the elements.
        modes: for each dimension, the innermost first, the mode of the array.
        box: the extents of the box (elements), by dimension.
        swizzle: the number of the swizzle mode in the driver: 0 none, 1 32B, 2 64B, 3 128B.
        im2col: the pixels of an im2col map, whose box is (channels, pixels); None for a tiled map.
    """

    tensor: str
    dtype: Dtype
    modes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    im2col: ops.Im2col | None = None


class TensorMaps:
    """The tensor maps of a plan, and the names of their parameters in order.

    Attributes:
        names: map -> name of its parameter.
    """

    def __init__(self, plan: Plan) -> None:
        """Find the map of each TMA op."""
        self.names: dict[TensorMap, str] = {}
        taken = names_in(plan)
        for op in every(plan.body):
            if isinstance(op, (ops.TmaLoad, ops.TmaStore)):
                found = self.of(op)
                if found not in self.names:
                    self.names[found] = _free(f"{op.tensor}_map", {*taken, *self.names.values()})

    @staticmethod
    def of(op: TmaOp) -> TensorMap:
        """Return the map of an op."""
        box = op.box
        number = {0: 0, 32: 1, 64: 2, 128: 3}[box.swizzle]
        walk = op.im2col if isinstance(op, ops.TmaLoad) else None
        return TensorMap(op.tensor, box.tile.dtype, box.modes, box.extents, number, walk)


def _free(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number, found = number + 1, f"{name}{number}"
    return found
