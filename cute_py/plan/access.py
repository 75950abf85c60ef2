"""`Access`: the elements of memory that every thread accesses, lowered from a layout once.

The emulator and the code generator both take addresses only from here, so the emulator tests the
addresses that the GPU uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from cute_py.dtypes.table import Dtype
from cute_py.plan.conditions import BITS, MOST, Cond, Scalar, number_problem, runs
from cute_py.plan.op import FIXED, Lack, Node

_LONGEST = 100  # characters of a table that is printed in full
# the cache operators of PTX; PTX ISA, "Cache Operators"
LOAD_CACHES = ("ca", "cg", "cs", "lu", "cv")
STORE_CACHES = ("wb", "cg", "cs", "wt")
# hints that change no value; PTX ISA, "Cache Eviction Priority Hints", createpolicy, ld, st
PRIORITIES = tuple(
    f"L1::{word}"
    for word in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
)
POLICIES = ("L2::evict_normal", "L2::evict_first", "L2::evict_last")
PREFETCHES = ("L2::64B", "L2::128B", "L2::256B")
HINTS = (*PRIORITIES, *POLICIES, *PREFETCHES)


class Hints(NamedTuple):
    """The words of a `cache`: at most one of each kind, "" for none."""

    operator: str = ""
    priority: str = ""
    policy: str = ""
    prefetch: str = ""


def hints_of(cache: str) -> Hints | None:
    """Return the words of a cache operator and hints, joined by dots as in PTX; None if they are
    not known, or if two of them exclude each other.

    >>> hints_of("L1::no_allocate.L2::128B").prefetch, hints_of("cg.cs")
    ('L2::128B', None)
    """
    kinds = ((*LOAD_CACHES, *STORE_CACHES), PRIORITIES, POLICIES, PREFETCHES)
    found = [""] * len(kinds)
    for word in cache.split(".") if cache else ():
        kind = next((i for i, words in enumerate(kinds) if word in words), None)
        if kind is None or found[kind] or (kind < 2 and any(found[:2])):
            return None
        found[kind] = word
    return Hints(*found)


@dataclass(frozen=True, slots=True)
class Bound(Node):
    """A coordinate that the kernel wrote down: `index`, in mode `mode` of a tensor's shape, must be
    at least 0 and less than `extent`, wherever the access is made. Mode () is the whole tensor.
    """

    mode: tuple[int, ...] = field(metadata=FIXED)
    index: Scalar
    extent: Scalar

    def __str__(self) -> str:
        return f"0 <= {self.index} < {self.extent}"


@dataclass(frozen=True, slots=True)
class Access(Node):
    """Vectors of `width` contiguous elements of one storage; all counts are elements of `dtype`.

    Attributes:
        space: gmem or smem.
        storage: the name of a parameter or of a shared storage.
        dtype: the type of the elements.
        bases: offsets that depend on the thread, the block or a loop; added after the swizzle.
        inner: an offset added before the swizzle; 0 for none.
        swizzle: (B, M, S) of `Swizzle`, in elements, or None.
        table: for each vector (index of its base, static offset).
        width: the number of elements of a vector.
        guards: the predicates, each once.
        masks: for each vector the indices of the guards that it requires; (): no vector has any.
        fill: the result of a load whose guard is false; None leaves the registers unchanged.
        cache: the cache operator of PTX (`cg`, `cs`, `lu` ...) and hints (`hints_of`), or "".
        asserted: what must hold of coordinates, where it is not proven. No code is generated for
            it: the emulator tests it, for the threads that take part.
        rank: the rank of the block of the cluster whose shared memory it is; None: the thread's own
            block. Source: PTX ISA, mapa.
        packed: whether elements of global memory that are narrower than a byte are packed; those
            of shared memory always are.

    Law: vector v starts at element bases[b] + swizzle(inner + s), for (b, s) = table[v]. The
    swizzle keeps the `width` elements of a vector together and in order.
    """

    space: str
    storage: str
    dtype: Dtype
    bases: tuple[Scalar, ...]
    table: tuple[tuple[int, int], ...] = field(metadata=FIXED)
    width: int = field(default=1, metadata=FIXED)
    inner: Scalar = 0
    swizzle: tuple[int, int, int] | None = field(default=None, metadata=FIXED)
    guards: tuple[Cond, ...] = ()
    masks: tuple[tuple[int, ...], ...] = field(default=(), metadata=FIXED)
    fill: float | int | None = field(default=0, metadata=FIXED)
    cache: str = ""
    asserted: tuple[Bound, ...] = field(default=(), metadata=FIXED)
    rank: Scalar | None = None
    packed: bool = field(default=False, metadata=FIXED)

    @property
    def count(self) -> int:
        """The number of vectors."""
        return len(self.table)

    def problem(self) -> str:
        """Check for vectors of elements, masks and bases that it has, a fill of its type, and a
        swizzle of offsets.
        """
        if any(not 0 <= b < len(self.bases) or abs(o) > MOST for b, o in self.table):
            return "a table that names a missing base, or an offset beyond 64 bits"
        if self.masks and len(self.masks) != self.count:
            return f"{len(self.masks)} masks for {self.count} vectors"
        if any(not 0 <= g < len(self.guards) for mask in self.masks for g in mask):
            return "a mask that names a missing guard"
        if self.fill is not None and (problem := number_problem(self.fill, self.dtype)):
            return problem
        b, m, s = self.swizzle or (0, 0, 0)
        if min(b, m) < 0 or abs(s) < b or b + m + abs(s) >= BITS:
            return f"the swizzle {self.swizzle}"
        return "" if self.table and 0 < self.width <= MOST else f"vectors of {self.width} elements"

    @property
    def vector_bits(self) -> int:
        """The width of a vector (bits)."""
        return self.width * self.dtype.bits

    def swizzled(self, offset: int) -> int:
        """Return what the swizzle makes of an offset (elements)."""
        if self.swizzle is None:
            return offset
        bits, base, shift = self.swizzle
        active = offset & ((1 << bits) - 1) << (base + max(0, shift))
        return offset ^ (active >> shift if shift >= 0 else active << -shift)

    @property
    def hints(self) -> Hints:
        """The words of `cache`."""
        return hints_of(self.cache) or Hints(operator=self.cache)

    def lack(self, caches: tuple[str, ...] = (), verb: str = "load") -> Lack | None:
        """Return what is missing for an access of threads: bytes that have addresses, or the cache
        operator or a hint among `caches`.
        """
        packed = self.space == "smem" and self.dtype.bits < 8  # in an array, each has a byte
        if packed and self.vector_bits % 8:
            return Lack(
                f"an access to single {self.dtype} elements of {self.storage}, which has several "
                "in a byte",
                "whole bytes",
                "move them in vectors of whole bytes (cute.copy of contiguous elements), or store "
                "each as an element of 8 bits",
            )
        if self.cache and self.rank is not None:
            return Lack(
                f"a {verb} of shared memory of another block with cache={self.cache!r}",
                "shared memory, which is not cached",
                "leave cache out",
            )
        if self.cache and not {*self.hints} <= {*caches, ""}:
            return Lack(
                f"a {verb} with cache={self.cache!r}",
                f"{', '.join(caches)} for a {verb}",
                "use one of them, or leave cache out",
            )
        return None

    def feature(self) -> str | None:
        """Return the instruction or feature that its block or its hints need, by its PTX name, or
        None.
        """
        if self.rank is not None:
            return "mapa"
        if self.hints.policy:
            return "createpolicy"
        return "ld.L2::256B" if self.hints.prefetch == PREFETCHES[-1] else None

    def __str__(self) -> str:
        """Return it as text: storage, bases, swizzle, table, width and guards."""
        bases, table = " | ".join(map(str, self.bases)), self._table_text()
        inner = (
            f"{self.inner} + {table}" if self.inner.__class__ is not int or self.inner else table
        )
        if self.swizzle is not None:
            inner = f"Sw<{','.join(map(str, self.swizzle))}>({inner})"
        wide = f" x{self.width}" if self.width > 1 else ""
        where = "" if not self.guards else " if " + " and ".join(map(str, self.guards))
        cache = f" .{self.cache}" if self.cache else ""
        there = "" if self.rank is None else f"@{self.rank}"
        return f"{self.storage}{there}[{bases} + {inner}]{wide}{cache}{where}"

    def _table_text(self) -> str:
        if len(self.bases) == 1:
            words = runs(tuple([o for _b, o in self.table]))
        else:
            words = ",".join([f"{b}:{o}" for b, o in self.table])
        if len(words) > _LONGEST:
            words = f"{words[:_LONGEST].rpartition(',')[0]},... {self.count} in all"
        return f"[{words}]"
