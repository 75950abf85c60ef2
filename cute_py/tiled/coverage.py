"""`coverage`: proves that a tiled operation touches every element exactly once, or lists the
elements that it misses or touches twice, with the threads.

Everything is enumerated: the proof is the count of every element, not an argument about layouts.
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import tuples
from cute_py.layout.coords import idx2crd
from cute_py.layout.layout import Layout
from cute_py.layout.offsets import offset_grid, offsets
from cute_py.layout.queries import size
from cute_py.tiled.tiled_copy import TiledCopy
from cute_py.tiled.tiled_mma import TiledMMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from cute_py.atoms.copy import Copy_Op
    from cute_py.layout.types import AnyLayout, IntTuple

    Coord: TypeAlias = tuple[int, ...]
    Array: TypeAlias = Any  # a NumPy array

_SHOWN = 4  # elements named in the text
_OPERANDS = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}
_DIGIT = 1 << 20  # above any coordinate
_MEMORIES = ("gmem", "smem", "any")


@dataclass(frozen=True, slots=True)
class OperandCoverage:
    """How often each element of one operand is touched.

    Attributes:
        name: "A", "B" or "C" of an MMA, "S" or "D" of a copy.
        shape: the shape of the tile (elements).
        shared: the number of threads that share each element by design: threads along N share A,
            those along M share B, those along K have partial sums of C, a warpgroup shares an
            operand in shared memory. 1 if each element belongs to one thread.
        missing: coordinates that no thread touches.
        doubled: (coordinate, threads that touch it) of elements that are touched more often than
            `shared` allows; a thread that touches an element twice is listed twice.
        outside: threads that reach outside the tile.
    """

    name: str
    shape: tuple[int, ...]
    shared: int
    missing: tuple[Coord, ...]
    doubled: tuple[tuple[Coord, tuple[int, ...]], ...]
    outside: tuple[int, ...]

    @property
    def exact(self) -> bool:
        """Whether each element is touched by exactly one thread, or one group of `shared`."""
        return not (self.missing or self.doubled or self.outside)

    def __str__(self) -> str:
        whole = f"{self.name} {tuples.show(self.shape)}"
        if self.exact:
            by = "once" if self.shared == 1 else f"once by each group of {self.shared} threads"
            return f"{whole}: every element {by}"
        faults = []
        if self.missing:
            named = ", ".join(tuples.show(c) for c in self.missing[:_SHOWN])
            faults.append(f"{len(self.missing)} missing: {named}{_more(self.missing)}")
        if self.doubled:
            shown = self.doubled[:_SHOWN]
            named = "; ".join(f"{tuples.show(c)} by threads {_list(who)}" for c, who in shown)
            faults.append(f"{len(self.doubled)} doubled: {named}{_more(self.doubled)}")
        if self.outside:
            faults.append(f"threads {_list(self.outside)} outside the tile")
        return f"{whole}: " + "; ".join(faults)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The coverage of each operand of a tiled operation.

    Attributes:
        operands: one entry for A, B and C of an MMA, S and D of a copy.
    """

    operands: tuple[OperandCoverage, ...]

    @property
    def exact(self) -> bool:
        """Whether every operand is covered exactly."""
        return all(operand.exact for operand in self.operands)

    @property
    def missing(self) -> tuple[tuple[str, Coord], ...]:
        """(operand, coordinate) of all elements that no thread touches."""
        return tuple((o.name, coord) for o in self.operands for coord in o.missing)

    @property
    def doubled(self) -> tuple[tuple[str, Coord, tuple[int, ...]], ...]:
        """(operand, coordinate, threads) of all elements that are touched too often."""
        return tuple((o.name, coord, who) for o in self.operands for coord, who in o.doubled)

    def __getitem__(self, name: str) -> OperandCoverage:
        """Return the coverage of one operand: "A", "B", "C", "S" or "D"."""
        for operand in self.operands:
            if operand.name == name:
                return operand
        raise KeyError(name)

    def __str__(self) -> str:
        return "\n".join(str(operand) for operand in self.operands)


def coverage(tiled: TiledMMA | TiledCopy, shape: IntTuple = None) -> Coverage:
    """Return how often each element of a tile is touched by all threads together.

    Args:
        tiled: a TiledMMA, or a TiledCopy.
        shape: the shape of the tensors: (M, N, K) for an MMA, (M, N) for a copy (elements),
            multiples of the tile. None: the tile.

    Law: `exact` means that the partitions of all threads are a bijection onto the tensor, up to the
    groups that share. Sharing is legal in sources and in registers: in a destination that may be
    memory (gmem, smem, or any), several writers of one element count as doubled. Lanes whose
    address ldmatrix or stmatrix does not read are ignored. Raises LayoutError if the tile does not
    divide `shape`.

    >>> from cute_py.tiled.tiled_mma import make_tiled_mma
    >>> print(coverage(make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1))))
    A (32,16): every element once by each group of 2 threads
    B (16,16): every element once by each group of 2 threads
    C (32,16): every element once
    """
    if tiled.__class__ is TiledMMA:
        if shape is not None and tuples.rank(shape) != 3:
            raise refusal("coverage-shape", operation="coverage", shape=tuples.show(shape))
        return Coverage(tuple(_of_operand(tiled, name, shape) for name in _OPERANDS))
    if tiled.__class__ is TiledCopy:
        return Coverage(tuple(_of_side(tiled, name, shape) for name in "SD"))
    given, kind = type(tiled).__name__, "TiledMMA or a TiledCopy"
    raise refusal("tiled-kind", operation="coverage", value=tiled, type=given, kind=kind)


def _of_operand(mma: TiledMMA, name: str, shape: IntTuple) -> OperandCoverage:
    """Count over ((ThrV,(ThrX,ThrY)),(FrgV,Rest)) of the identity."""
    import numpy as np

    modes = _OPERANDS[name]
    whole = _extents(mma.tile_shape if shape is None else shape)
    extents = tuple(whole[i] for i in modes)
    table = _indices(getattr(mma, f"thrfrg_{name}")(_coordinates(extents)), extents)
    first, other = (offsets(mma.thr_layout_vmnk[i + 1]) for i in modes)
    v = offsets(mma.thr_layout_vmnk[0])
    threads = v[:, None, None] + first[None, :, None] + other[None, None, :]
    (missing_mode,) = {0, 1, 2} - set(modes)
    together = int(size(mma.thr_layout_vmnk, missing_mode + 1))
    own = getattr(mma.atom, f"{name.lower()}_tv")[0]
    count, chosen = _one_of_each(
        own, np.arange(len(v)), getattr(mma.atom, f"{name.lower()}_memory")
    )
    ordered = table.reshape(len(v), -1, table.shape[1], order="F")[chosen]
    numbers = threads.reshape(len(v), -1, order="F")[chosen]
    flat = ordered.reshape(-1, table.shape[1])
    return _judge(name, extents, together * count, flat, numbers.reshape(-1), 1)


def _extents(shape: IntTuple) -> tuple[int, ...]:
    """Return the extents of a shape as numbers, one per mode."""
    return tuple(ints.as_int(size(extent), "coverage") for extent in tuples.wrap(shape))


def _coordinates(extents: tuple[int, ...]) -> Layout:
    """Return a layout whose offsets encode coordinates, including those beyond the tile."""
    return Layout(extents, tuple([_DIGIT**k for k in range(len(extents))]))


def _indices(layout: AnyLayout, extents: tuple[int, ...]) -> Array:
    """Return the index in the tile for each of `_coordinates` in a layout; -1 outside the tile."""
    import numpy as np

    rest, step = offset_grid(layout), 1
    index, inside = np.zeros_like(rest), rest >= 0
    for extent in extents:
        entry, rest = rest % _DIGIT, rest // _DIGIT
        inside, index, step = inside & (entry < extent), index + entry * step, step * extent
    return np.where(inside & (rest == 0), index, -1)


def _one_of_each(thread_mode: Layout, lanes: Array, memory: str) -> tuple[int, Array]:
    """Return how many threads of an atom share a tile in shared memory, and one thread of each
    group; in registers, each thread is a group.
    """
    if memory == "rmem":
        return 1, lanes
    starts = offsets(thread_mode).tolist()
    seen: dict[int, int] = {}
    for lane, start in enumerate(starts):
        seen.setdefault(start, lane)
    return len(starts) // len(seen), list(seen.values())


def _of_side(copy: TiledCopy, name: str, shape: IntTuple) -> OperandCoverage:
    """Count over (Thr,(FrgV,FrgX),Rest) of the identity."""
    import numpy as np

    if shape is None:
        extents = copy.tile_shape
        table = offset_grid(copy.get_layoutS_TV() if name == "S" else copy.get_layoutD_TV())
    else:
        extents = _extents(shape)
        tidfrg = copy.tidfrg_S if name == "S" else copy.tidfrg_D
        table = _indices(tidfrg(_coordinates(extents)), extents)
        table = table.reshape(len(table), -1)
    numbers = np.arange(len(table))
    op = copy.atom.op
    shared = _broadcast((copy.get_layoutS_TV() if name == "S" else copy.get_layoutD_TV())[0])
    rows = addressing_lanes(op)
    if (op.src_space if name == "S" else op.dst_space) == "smem" and rows < op.num_threads:
        reading = numbers % op.num_threads < rows
        table, numbers, shared = table[reading], numbers[reading], shared * rows // op.num_threads
    if name == "D" and op.dst_space in _MEMORIES:
        shared = 1
    return _judge(name, extents, shared, table, numbers, shared)


def addressing_lanes(op: Copy_Op) -> int:
    """Return how many threads, from the first on, have an address that is used: 8 for each matrix
    of ldmatrix and stmatrix, all threads for other instructions.

    >>> from cute_py.atoms.registry import get_copy
    >>> addressing_lanes(get_copy("SM75_U32x2_LDSM_N"))
    16
    """
    if "_LDSM_" in op.name or "_STSM_" in op.name:
        return op.num_threads * min(op.src_bits, op.dst_bits) // 128
    return op.num_threads


def _broadcast(threads: Layout) -> int:
    """Return how many threads a thread mode maps to one element by stride 0."""
    count = 1
    for extent, stride in zip(
        tuples.leaves(threads.shape), tuples.leaves(threads.stride), strict=True
    ):
        count *= extent if stride == 0 else 1
    return count


def _judge(
    name: str, extents: tuple[int, ...], shared: int, table: Array, numbers: Array, allowed: int
) -> OperandCoverage:
    """Return the coverage from the offsets that each thread (row) touches.

    Args:
        name: the name of the operand.
        extents: the extents of the tile.
        shared: the size of a group that shares, for the report.
        table: [row, value] -> index in the tile.
        numbers: [row] -> thread.
        allowed: how often an element may occur in the table.
    """
    import numpy as np

    total = int(np.prod(extents))
    inside = (table >= 0) & (table < total)
    counts = np.bincount(table[inside], minlength=total)
    missing = tuple(_coord(i, extents) for i in np.flatnonzero(counts == 0))
    doubled = tuple(
        (_coord(i, extents), tuple(int(n) for n in numbers[np.nonzero(table == i)[0]]))
        for i in np.flatnonzero(counts > allowed)
    )
    outside = tuple(int(n) for n in sorted(set(numbers[(~inside).any(axis=1)].tolist())))
    return OperandCoverage(name, extents, shared, missing, doubled, outside)


def _coord(index: Array, extents: tuple[int, ...]) -> Coord:
    coord: AnyLayout = idx2crd(int(index), extents)
    return tuples.wrap(coord)


def _more(items: tuple[object, ...]) -> str:
    return ", ..." if len(items) > _SHOWN else ""


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(str(n) for n in numbers[:8]) + (", ..." if len(numbers) > 8 else "")
