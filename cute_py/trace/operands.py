"""Operands of a main loop: iterators over the tiles of K, and the copies that fill a stage.

Source: cutlass include/cutlass/transform/threadblock/predicated_tile_access_iterator.h (an iterator
with one predicate per vector).
"""

from __future__ import annotations

from types import GeneratorType

from cute_py.atoms.copy import Copy_Atom
from cute_py.errors import refusal_here
from cute_py.layout.algebra.divide import logical_divide
from cute_py.layout.queries import rank, size
from cute_py.layout.tuples import _
from cute_py.tensor.tensor import Tensor, make_rmem_tensor, require_tensor
from cute_py.tiled.tiled_copy import TiledCopy
from cute_py.trace.control import branch
from cute_py.trace.copying import copy, predicated
from cute_py.trace.engines import Guarded
from cute_py.trace.hopper import tma_load
from cute_py.trace.runtime_integers import Condition, compare
from cute_py.trace.threads import thread_idx_linear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cute_py.layout.types import Leaf
    from cute_py.trace.hopper import Mbarriers

COMPLETIONS = ("cp_async", "immediate", "mbarrier")


class Operand:
    """One operand of `mainloop`: its tiles, the stages that they are copied to, and how fragments
    are loaded.

    Args:
        source: its tiles in global memory (BLK_MN, BLK_K, k), or an iterator.
        shared: its stages in shared memory (BLK_MN, BLK_K, stages).
        g2s: the tiled copy from global to shared memory; None for an iterator, which has its own.
            `TmaTiles` is the one of TMA.
        s2r: the tiled copy from shared memory to the fragments (`make_tiled_copy_A`, `_B`), or None
            for plain loads.

    An iterator is an object with these methods and attributes:

    - begin(tile): move to a tile of K, a run-time integer; called on a copy of the object.
    - step(): move to the next tile. State that changes here is kept in a `cute.var` or registers.
      Without this method, and by `TmaPipeline.fill`, `begin` is called for every tile.
    - fill(stage): issue the thread's copies of the current tile to a stage. It may be a generator:
      at each `yield` the loop issues products. Accesses to global memory are predicated off for
      tiles past the last one, and read as zero.
    - completion: how the copies complete: "cp_async", by groups (the default); "immediate", plain
      stores, where `fill` loads, yields once, and stores; or "mbarrier", by bytes on an mbarrier,
      where one thread calls `fill(stage, full)` with the `cute.Mbarriers` of the stages.
    - bytes: the bytes that arrive with a tile, for "mbarrier".
    - count: the number of tiles, unless `mainloop` is given one.
    - bounded: whether `fill` predicates tiles past `count` itself (default False).

    Raises LayoutError for a source that is neither.
    """

    def __init__(
        self,
        source: Any,  # a Tensor, or an iterator
        shared: Tensor,
        g2s: TiledCopy | None = None,
        s2r: TiledCopy | None = None,
    ) -> None:
        is_tensor = source.__class__ is Tensor
        if is_tensor is (g2s is None) or not (is_tensor or _is_iterator(source)):
            raise refusal_here("mainloop-operand", operation="cute.Operand", value=source)
        _require_tiles(shared, "smem", "cute.Operand")
        self.source, self.shared, self.s2r = source, shared, s2r
        self.g2s: Any = g2s

    def iterator(self, thread: Leaf) -> Any:  # an iterator
        """Return an iterator over the tiles, as `thread` copies them."""
        if self.g2s is None:
            return copy_of(self.source)
        return Tiles(self.source, self.shared, self.g2s, thread)


def _require_tiles(x: Any, space: str, operation: str) -> None:
    """Refuse what is no tensor of tiles in global memory, or of stages in shared memory."""
    found = require_tensor(x, operation)
    if rank(found.layout) != 3 or getattr(found.engine, "space", "") != space:
        raise refusal_here("mainloop-tiles", operation=operation, tensor=found)


def _is_iterator(x: object) -> bool:
    methods = (getattr(x, name, None) for name in ("begin", "fill"))
    return all(map(callable, methods)) and completion(x) in COMPLETIONS


def completion(x: object) -> str:
    """Return how the copies of an iterator complete."""
    return str(getattr(x, "completion", "cp_async"))


class Tiles:
    """The iterator over a tensor of tiles: each is copied by a tiled copy.

    `mainloop` makes it of an `Operand`. In a loop of another form, call `begin(tile)`, and exhaust
    the generator `fill(stage)`.

    Args:
        source: tiles in global memory (BLK_MN, BLK_K, k).
        shared: stages in shared memory (BLK_MN, BLK_K, stages).
        g2s: the tiled copy; its instruction says how the copies complete.
        thread: index of the thread in the tiled copy; None: `thread_idx`.
    """

    def __init__(
        self, source: Tensor, shared: Tensor, g2s: TiledCopy, thread: Leaf | None = None
    ) -> None:
        part = g2s.get_slice(thread_idx_linear() if thread is None else thread)
        self.g2s, self.count = g2s, size(source.layout, 2)
        self.source = part.partition_S(source)  # (CPY,CPY_MN,CPY_K,k)
        self.stored = part.partition_D(shared)  # (CPY,CPY_MN,CPY_K,stages)
        self.bounded = isinstance(source.engine, Guarded)  # by the extents of the array
        self.completion = g2s.atom.op.completion
        self.pieces = [(self.source, self.stored)]
        self.held: list[Tensor] = []
        self.tile: Leaf = 0
        self.plain = g2s
        self.zeroed: Leaf | None = None

    def leave(self, first: Leaf) -> None:
        """Fill with zeros only in tiles before `first` and in the last one: of the others all that
        is multiplied with what is stored is inside of the arrays. Refuse cp.async without zeros.
        """
        op = str(self.g2s.atom.op)
        if op.startswith("SM80_CP_ASYNC") and "_ZFILL" not in op:
            raise refusal_here("mainloop-clear", operation="cute.mainloop", atom=op)
        if "_ZFILL" in op:
            atom = Copy_Atom(op.replace("_ZFILL", ""), self.g2s.atom.dtype)
            self.plain, self.zeroed = TiledCopy(atom, self.g2s.layout_tv, self.g2s.tiler_mn), first

    def _move(self, source: Tensor, stored: Tensor) -> None:
        """Copy a piece by cp.async, with zeros outside where this tile has them."""
        inner: bool | Condition = False
        if self.zeroed is not None:
            inner = compare("le", self.zeroed, self.tile) & compare("lt", self.tile + 1, self.count)
        if not isinstance(inner, Condition):
            copy(self.plain if inner else self.g2s, source, stored)
            return
        with branch(inner):
            copy(self.plain, source, stored)
        with branch(~inner):
            copy(self.g2s, source, stored)

    @property
    def vectors(self) -> int:
        """The number of vectors of a tile that the thread copies."""
        return int(size(self.source.layout, 1)) * int(size(self.source.layout, 2))

    def split(self, most: int) -> None:
        """Copy tiles in pieces of at most `most` vectors, or of one row."""
        rows = int(size(self.source.layout, 1))
        wanted = max(1, most * rows // self.vectors)
        each = max(n for n in range(1, wanted + 1) if rows % n == 0)
        source, stored = (logical_divide(x, (_, each)) for x in (self.source, self.stored))
        cut = [(_, (_, i), _, _) for i in range(rows // each)]
        self.pieces = [(source[i], stored[i]) for i in cut]

    def begin(self, tile: Leaf) -> None:
        """Move to a tile."""
        self.tile = tile

    def fill(self, stage: Leaf) -> Iterator[None]:
        """Copy the tile: by cp.async in pieces; by stores after a yield, from registers."""
        if self.completion == "immediate":
            if not self.held:
                shape = self.source[_, _, _, 0].shape
                self.held.append(make_rmem_tensor(shape, self.source.dtype, "tile"))
            copy(self.g2s, self.source[_, _, _, self.tile], self.held[0])
            yield
            copy(self.g2s, self.held[0], self.stored[_, _, _, stage])
            return
        for i, (source, stored) in enumerate(self.pieces):
            if i:
                yield
            self._move(source[_, _, _, self.tile], stored[_, _, _, stage])


class TmaTiles:
    """The iterator over a tensor of tiles: each is one copy by TMA, issued by one thread.

    `mainloop` takes it in an `Operand`, and `TmaPipeline.fill` as it is. Elsewhere, call
    `begin(tile)`, and `fill(stage, full)` with the mbarriers of the stages.

    Args:
        source: tiles of a `tma_tensor` (BLK_MN, BLK_K, k).
        shared: stages in shared memory (BLK_MN, BLK_K, stages).
        part: this block's part of each stage, (BLK_MN, BLK_K, stages) too, where the blocks of a
            cluster load parts for each other; None: the stage. `source` has tiles of its shape.
        multicast: a mask of the blocks of the cluster that get the tile; 0: this block.

    >>> # in a kernel: a = cute.TmaTiles(cute.local_tile(cute.tma_tensor(A), (128, 64), (0, _)), sA)
    """

    completion = "mbarrier"

    def __init__(
        self, source: Tensor, shared: Tensor, part: Tensor | None = None, multicast: Leaf = 0
    ) -> None:
        for x, space in ((source, "gmem"), (shared, "smem")):
            _require_tiles(x, space, "cute.TmaTiles")
        self.source, self.shared, self.multicast = source, shared, multicast
        self.part = shared if part is None else part
        self.count = size(source.layout, 2)
        stage = int(size(shared.layout)) // int(size(shared.layout, 2))
        self.bytes = stage * shared.dtype.bits // 8
        self.tile: Leaf = 0

    def begin(self, tile: Leaf) -> None:
        """Move to a tile."""
        self.tile = tile

    def fill(self, stage: Leaf, full: Mbarriers) -> None:
        """Issue the copy of the tile to a stage; its bytes complete on that barrier of `full`."""
        source, target = self.source[_, _, self.tile], self.part[_, _, stage]
        tma_load(source, target, full, stage, self.multicast)


def iterator_of(x: Any) -> Any:  # an iterator
    """Return the iterator of an operand that TMA copies; refuse other copies."""
    made = copy_of(x.source) if isinstance(x, Operand) and x.g2s is None else x
    if not _is_iterator(made) or completion(made) != "mbarrier":
        raise refusal_here("pipeline-fill", operation="cute.pipeline", kind=completion(made))
    return made


def filled(
    x: Any,
    tile: Leaf,
    stage: Leaf,
    there: bool | Condition,
    *barriers: Mbarriers,
    steps: bool = True,
) -> Iterator[None]:
    """Copy a tile of an iterator to a stage, and move on; yield after each piece of the copies.

    Args:
        x: the iterator.
        tile: its number.
        stage: to fill.
        there: whether the tile exists; if not, global memory is not accessed.
        barriers: those of the stages, for copies that complete on mbarriers.
        steps: whether an iterator that has `step` is at the tile already.

    """
    step = getattr(x, "step", None) if steps else None
    if step is None:
        x = copy_of(x)
        with predicated(there):
            x.begin(tile)
    with predicated(there):
        pieces = x.fill(stage, *barriers)
    last = pieces.__class__ is not GeneratorType
    while not last:
        with predicated(there):
            last = next(pieces, _END) is _END
        if not last:
            yield
    if step is not None:
        with predicated(there):
            step()
    yield


def copy_of(x: Any) -> Any:
    """Return a shallow copy; `copy.copy` would leave a note in the class, as if it had changed."""
    new = object.__new__(type(x))
    for kind in type(x).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(x, name):
                object.__setattr__(new, name, getattr(x, name))
    if hasattr(x, "__dict__"):
        new.__dict__.update(x.__dict__)
    return new


_END = object()
