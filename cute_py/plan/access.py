"""`Access`: the elements of memory that every thread names, lowered from a layout once.

Emulator and code generator take addresses from here alone, so that the emulator tests the addresses
that the GPU will use.
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.dtypes.table import Dtype
from cute_py.plan.conditions import Cond, Node, Scalar


@dataclass(frozen=True, slots=True)
class Access(Node):
    """Vectors of `width` neighbouring elements in one storage; all counts are elements of `dtype`.

    Attributes:
        space: gmem or smem.
        storage: the name of a parameter or of a shared storage.
        dtype: the type of the elements.
        bases: offsets that depend on the thread, the block or a loop; outside of the swizzle.
        inner: an offset inside of the swizzle; 0 where there is none.
        swizzle: (B, M, S) of `Swizzle`, in elements, or None.
        table: for each vector (number of its base, static offset).
        width: elements of a vector.
        guards: conditions, each once.
        masks: for each vector the numbers of the guards that must hold; () : none for any.
        fill: what a load gives where a guard fails; None leaves the registers as they are.
        cache: cache operator of PTX (`cg`, `cs`, `lu` ...), or "".

    Law: vector v starts at element bases[b] + swizzle(inner + s), for (b, s) = table[v]. The
    swizzle keeps the `width` elements of a vector together and in order.
    """

    space: str
    storage: str
    dtype: Dtype
    bases: tuple[Scalar, ...]
    table: tuple[tuple[int, int], ...]
    width: int = 1
    inner: Scalar = 0
    swizzle: tuple[int, int, int] | None = None
    guards: tuple[Cond, ...] = ()
    masks: tuple[tuple[int, ...], ...] = ()
    fill: float | int | None = 0
    cache: str = ""

    @property
    def count(self) -> int:
        """The number of vectors."""
        return len(self.table)

    @property
    def vector_bits(self) -> int:
        """The width of a vector (bits)."""
        return self.width * self.dtype.bits
