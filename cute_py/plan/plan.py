"""`Plan`: what a kernel does, frozen: parameters, launch shape, storages, and the block of ops."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from cute_py.dtypes.table import Dtype
from cute_py.errors import refusal
from cute_py.integers.polynomial import symbols_of
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import Scalar
from cute_py.plan.ops import Block, Op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def admits(declared: Scalar, given: int) -> bool:
    """Tell whether a size or stride is one that a plan was traced for."""
    if isinstance(declared, int):
        return declared == given
    return all(
        given % s.multiple_of == 0 and (s.lo is None or given >= s.lo * s.multiple_of)
        for s in symbols_of(terms_of(declared))
    )


@dataclass(frozen=True, slots=True)
class TensorParam:
    """An array that the kernel is given.

    Sizes and strides (elements) are ints where they are fixed, else symbols, named after the
    parameter: `A_shape0`, `A_stride0`. `alignment` (bytes) holds for the address of the first
    element and of every element whose offset is a multiple of it.
    """

    name: str
    dtype: Dtype
    shape: tuple[Scalar, ...]
    stride: tuple[Scalar, ...]
    alignment: int


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A number that the kernel is given when it is launched; an integer one is a symbol too."""

    name: str
    dtype: Dtype


@dataclass(frozen=True, slots=True)
class Launch:
    """Blocks, threads of a block, and blocks of a cluster, in (x, y, z).

    `min_blocks` is how many blocks shall fit a multiprocessor together: it bounds the registers.
    `spill_bytes` is how much of a thread may go to local memory before the kernel is refused.
    `pdl`: blocks may begin while the kernel before is still at work; they wait by a `GridDep` op.
    """

    grid: tuple[Scalar, Scalar, Scalar]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    min_blocks: int = 1
    spill_bytes: int = 0
    pdl: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(frozen=True, slots=True)
class Shared:
    """A storage in shared memory: `count` elements at `offset` (bytes) of the block's memory.

    Members of a union overlap.
    """

    name: str
    dtype: Dtype
    count: int
    offset: int
    alignment: int

    @property
    def bytes(self) -> int:
        """The size (bytes)."""
        return -(-self.count * self.dtype.bits // 8)


@dataclass(frozen=True, slots=True)
class Registers:
    """A register storage: every thread has `count` elements."""

    name: str
    dtype: Dtype
    count: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A traced kernel; the same for the emulator, the code generator and the printer.

    Equality and hash leave source lines out.
    """

    name: str
    params: tuple[TensorParam | ScalarParam, ...]
    launch: Launch
    shared: tuple[Shared, ...]
    storages: tuple[Registers, ...]
    body: Block

    @property
    def smem_bytes(self) -> int:
        """Shared memory of a block (bytes)."""
        return max((s.offset + s.bytes for s in self.shared), default=0)

    @property
    def ops(self) -> tuple[Op, ...]:
        """All ops, those of nested blocks after the one that holds them."""
        from cute_py.plan.walk import every

        return tuple(every(self.body))

    @property
    def registers(self) -> int:
        """About how many 32-bit registers a thread will need; see `estimate`."""
        from cute_py.plan.estimate import register_estimate

        return register_estimate(self)

    def require_signed(self, values: Iterable[object]) -> None:
        """Refuse numbers of 2**63 and more for parameters that the plan computes with.

        Args:
            values: one for each parameter; those of arrays do not count.

        Raises LayoutError.
        """
        from cute_py.plan.walk import computed_with

        wide = [
            (p.name, v)
            for p, v in zip(self.params, values, strict=True)
            if isinstance(p, ScalarParam) and isinstance(v, int) and v >> 63 > 0
        ]
        used = computed_with(self.body) if wide else set()
        for name, value in wide:
            if name in used:
                raise refusal("plan-unsigned", operation=self.name, name=name, value=value)

    def __str__(self) -> str:
        from cute_py.plan.text import plan_text

        return plan_text(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to a file, as text with a version; see `serial`."""
        from pathlib import Path

        from cute_py.plan.serial import dumps

        Path(path).write_text(dumps(self), encoding="utf-8")

    @staticmethod
    def load(path: str | PathLike[str]) -> Plan:
        """Return the plan that `save` wrote."""
        from pathlib import Path

        from cute_py.plan.serial import loads

        return loads(Path(path).read_text(encoding="utf-8"))
