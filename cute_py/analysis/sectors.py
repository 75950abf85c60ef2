"""`coalescing`: how many 32-byte sectors of global memory each request touches.

Global memory is fetched in sectors of 32 bytes; a warp instruction asks once for every sector that
one of its lanes touches. Source: CUDA C++ Programming Guide, "Device Memory Accesses"; CUDA C++
Best Practices Guide, "Coalesced Access to Global Memory".
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.analysis.requests import Access, Requests, requests_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from cute_py.layout.types import AnyLayout
    from cute_py.tiled.tiled_copy import TiledCopy

    Array: TypeAlias = Any  # a NumPy array

SECTOR = 32  # bytes


@dataclass(frozen=True, slots=True)
class Coalescing:
    """The sectors of all requests of an access to global memory.

    Attributes:
        access: what makes the requests.
        layout: of global memory, as text.
        patterns: (requests, sectors of each, bytes that each asks for) of requests alike.
    """

    access: str
    layout: str
    patterns: tuple[tuple[int, int, int], ...]

    @property
    def requests(self) -> int:
        """How many warp instructions there are."""
        return sum(count for count, _, _ in self.patterns)

    @property
    def sectors(self) -> int:
        """The sectors of all requests together."""
        return sum(count * sectors for count, sectors, _ in self.patterns)

    @property
    def sectors_per_request(self) -> float:
        """The mean number of sectors of a request."""
        return self.sectors / self.requests

    @property
    def ideal(self) -> int:
        """The sectors, were the bytes of each request side by side and aligned."""
        return sum(count * -(-asked // SECTOR) for count, _, asked in self.patterns)

    @property
    def bytes(self) -> int:
        """The distinct bytes that the requests ask for."""
        return sum(count * asked for count, _, asked in self.patterns)

    @property
    def efficiency(self) -> float:
        """The part of the fetched bytes that was asked for, at most 1."""
        return self.bytes / (self.sectors * SECTOR)

    def __str__(self) -> str:
        head = (
            f"{self.access} on {self.layout}: {self.requests} requests, {self.sectors} sectors "
            f"(ideal {self.ideal}), {self.efficiency:.0%} of the bytes used"
        )
        rows = [f"{n:>7}x  {sectors:>7}  {asked:>5}" for n, sectors, asked in self.patterns]
        return "\n".join([head, "requests  sectors  bytes", *rows])


def coalescing(
    access: TiledCopy | Access, gmem_layout: AnyLayout, *, side: str | None = None
) -> Coalescing:
    """Return the 32-byte sectors that each request of a copy touches in global memory.

    Args:
        access: a TiledCopy, or an `Access`.
        gmem_layout: the tile in global memory, with the strides of the whole tensor (elements), its
            first element at a multiple of 32 bytes.
        side: "S" or "D" of the copy; None: the side that the instruction has in global memory.

    Raises LayoutError where an access does not lie side by side and aligned.

    >>> from cute_py import Layout
    >>> print(coalescing(Access(Layout((32, 1)), 32, "f32"), Layout(32, 2)))
    32-bit accesses of f32 by (32,1):(1,0) on 32:2: 1 requests, 8 sectors (ideal 4), 50% of the \
bytes used
    requests  sectors  bytes
          1x        8    128
    """
    requests = requests_of("coalescing", access, gmem_layout, "gmem", side)
    alike: dict[tuple[int, int], int] = {}
    for key in zip(*_sectors_and_bytes(requests), strict=True):
        alike[key] = alike.get(key, 0) + 1
    patterns = tuple((count, sectors, asked) for (sectors, asked), count in alike.items())
    return Coalescing(requests.name, str(gmem_layout), patterns)


def _sectors_and_bytes(requests: Requests) -> tuple[list[int], list[int]]:
    """Return the distinct sectors and the distinct bytes of each request."""
    import numpy as np

    first = requests.starts * requests.unit // 8
    width = max(1, requests.bits // 8)
    touched = np.where(first[:, :, None] < 0, -1, first[:, :, None] + np.arange(width))
    touched = touched.reshape(len(first), -1)
    return _distinct(touched // SECTOR), _distinct(touched)


def _distinct(table: Array) -> list[int]:
    """Return how many distinct entries of at least 0 each row has."""
    import numpy as np

    rows = np.sort(table, axis=1)
    new = rows >= 0
    new[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    return [int(count) for count in new.sum(axis=1)]
