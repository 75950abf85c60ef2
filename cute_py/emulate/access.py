"""`Access` records, compiled: the elements that every thread names, checked, read and written."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.arguments import LEADS, NOWHERE, slot_of
from cute_py.emulate.bits import from_bytes, item_type, numpy_type, to_bytes
from cute_py.emulate.clocks import THREAD
from cute_py.emulate.faults import first
from cute_py.emulate.registers import flag
from cute_py.emulate.releases import places_of
from cute_py.emulate.resources import ALIKE, PLAIN
from cute_py.emulate.scalars import condition, scalar
from cute_py.emulate.shadow import ATOMIC, READ, WRITE
from cute_py.emulate.storages import Place, Vectors
from cute_py.emulate.values import Values, joined

if TYPE_CHECKING:
    from cute_py.emulate.cohorts import Cohort
    from cute_py.emulate.regions import Touch
    from cute_py.emulate.resources import Resources
    from cute_py.emulate.scalars import Statics
    from cute_py.emulate.spans import Array, Value
    from cute_py.emulate.storages import Global
    from cute_py.errors import CuteError
    from cute_py.plan.access import Access
    from cute_py.plan.ops import Op

KEPT = 64  # address tables that are kept for one access and span
KEPT_SIZE = 1 << 18  # entries of a table that is kept


class Located(Vectors):
    """An access, compiled for one op."""

    def __init__(
        self,
        resources: Resources,
        statics: Statics,
        access: Access,
        op: Op,
        unit: int | None = None,
        counted: bool = True,
    ) -> None:
        """Compile.

        Args:
            resources: of the plan.
            statics: what is compiled already.
            access: what is touched.
            op: the op that does it.
            unit: the alignment that is required (bytes) where it is no vector's.
            counted: whether a report counts its requests.
        """
        super().__init__(access, op, resources.shared)
        self.checks, self.counted = resources.checks, counted
        self.resources, self.statics = resources, statics
        self.unit = unit or self.nbytes
        self.bases = [scalar(statics, base) for base in access.bases]
        self.inner = scalar(statics, access.inner)
        self.rank = None if access.rank is None else scalar(statics, access.rank)
        self.steps = np.array([s for _, s in access.table], np.int64)
        self.which = np.array([b for b, _ in access.table], np.int64)
        test = partial(flag, resources)
        self.guards = [condition(statics, guard, test) for guard in access.guards]
        bounds = access.asserted if "coordinates" in resources.checks else ()
        self.asserted = [(b, scalar(statics, b.index), scalar(statics, b.extent)) for b in bounds]
        names: set[str] | None = set()
        tested = [part for _, *ends in self.asserted for part in ends]
        ranks = [] if self.rank is None else [self.rank]
        for part in [*self.bases, self.inner, *ranks, *self.guards, *tested]:
            names = None if names is None or part.names is None else names | set(part.names)
        self.pointer = access.storage if access.storage in resources.pointers else ""
        if names is not None and self.pointer:
            names |= {self.pointer, slot_of(self.pointer)}
        self.names = None if names is None else tuple(sorted(names))
        self.keeps = self.smem or not self.names
        self.apart = not self.smem and (access.width == 1 or access.dtype.bits < 8)

    def array(self, c: Cohort) -> Global:
        """Return the array of this run, for an access of global memory; of a pointer, the one that
        the threads that take part point into.
        """
        if not self.pointer:
            return c.batch.given.arrays[self.access.storage].as_(self.dtype)
        slot = c.env[slot_of(self.pointer)]
        if slot == NOWHERE:
            return c.batch.given.nowhere
        array = c.batch.given.reachable.arrays[int(slot) // LEADS]
        return array.from_byte(int(slot) % LEADS, self.dtype)

    def _shift(self, c: Cohort) -> Value:
        """Return the element of the array that a pointer points to."""
        if c.env[slot_of(self.pointer)] == NOWHERE:
            return 0
        return (c.env[self.pointer] - self.array(c).address) * 8 // self.dtype.bits

    def storage(self, c: Cohort) -> str:
        """Return the name of the storage, for errors."""
        return self.array(c).name if self.pointer else self.access.storage

    # -- addresses

    def __call__(self, c: Cohort) -> Place:
        """Return the place, checked."""
        place = self._found(c)
        if self.counted and c.batch.report is not None:
            # NumPy aligns to 16 bytes, a GPU's allocations to 256: sectors count from an element 0
            # that is aligned
            start = self.start if self.smem else self.array(c).address % 16
            c.batch.report.access(c.span, self, place, start)
        return place

    def _found(self, c: Cohort) -> Place:
        key = self._key(c)
        if key is not None:
            found = c.span.cache.get(key)
            if found is not None:
                return found  # type: ignore[no-any-return]
        place = self._place(c)
        if key is not None and place.offsets.size <= KEPT_SIZE:
            kept = c.span.cache.setdefault((self, "kept"), [])
            if len(kept) >= KEPT:
                c.span.cache.pop(kept.pop(0), None)
            kept.append(key)
            c.span.cache[key] = place
        return place

    def _key(self, c: Cohort) -> Any:
        if not self.keeps or self.names is None or c.mask is not None:
            return None
        values = tuple(c.env[name] for name in self.names)
        if any(isinstance(value, np.ndarray) for value in values):
            return None
        return self, values

    def _place(self, c: Cohort) -> Place:
        offsets = self._offsets(c)
        guard = self._guard(c)
        active = guard
        if c.mask is not None:
            lanes = c.mask[..., None]
            active = lanes if guard is None else guard & lanes
        place = Place(offsets, guard, active)
        self._check(c, place)
        self._itemize(c, place)
        if self.rank is not None:
            place.blocks = self._blocks(c, place)
        return place

    def _blocks(self, c: Cohort, place: Place) -> Array:
        """Return the block of each thread's rank; refuse ranks that the cluster does not have."""
        assert self.rank is not None
        clusters = c.batch.clusters
        ranks = np.broadcast_to(np.asarray(self.rank(c)), c.span.shape)
        active = c.active() if place.active is None else place.active.any(-1) & c.active()
        bad = active & ((ranks < 0) | (ranks >= clusters.size))
        if bad.any():
            b, w, lane = first(bad, c.span)
            c.peer(self.op, (b, w, lane), int(ranks[b, w, lane]))
        found = np.empty(c.span.shape, np.int64)
        for row, b in enumerate(c.span.B.tolist()):
            members = np.array([clusters.block(b, rank) for rank in range(clusters.size)])
            found[row] = members[np.clip(ranks[row], 0, clusters.size - 1)]
        return found[..., None]

    def _offsets(self, c: Cohort) -> Array:
        bases = [base(c) for base in self.bases]
        base: Value = 0
        if len(bases) == 1:
            base = _spread(bases[0])
        elif bases:
            each = np.broadcast_arrays(*(_spread(value)[..., 0] for value in bases))
            base = np.stack(each, -1)[..., self.which]
        if self.access.swizzle is None:
            inside: Array = self.steps
            inner = self.inner(c)
            if not isinstance(inner, int) or inner:
                base = base + _spread(inner)
        else:
            inside = swizzled(_spread(self.inner(c)) + self.steps, self.access.swizzle)
        if self.pointer:
            base = base + _spread(self._shift(c))
        offsets = np.asarray(inside + base)
        return offsets.reshape((1,) * (4 - offsets.ndim) + offsets.shape)

    def _guard(self, c: Cohort) -> Array | None:
        masks = self.access.masks
        if not masks:
            return None
        holds = [guard(c) for guard in self.guards]
        if all(not isinstance(value, np.ndarray) and value for value in holds):
            return None
        columns = {mask: self._all(holds, mask) for mask in dict.fromkeys(masks)}
        if len(columns) == 1:
            (column,) = columns.values()
            return column[..., None]
        shape = np.broadcast_shapes(*(column.shape for column in columns.values()))
        result = np.empty((*shape, len(masks)), np.bool_)
        for k, mask in enumerate(masks):
            result[..., k] = columns[mask]
        return result

    @staticmethod
    def _all(holds: list[Value], mask: tuple[int, ...]) -> Array:
        result = np.ones((1, 1, 1), np.bool_)
        for k in mask:
            result = result & holds[k]
        return result

    # -- checks

    def _check(self, c: Cohort, place: Place) -> None:
        offsets, active = place.offsets, place.active
        limit = self.limit if self.smem else self.array(c).size
        if active is not None:
            offsets = np.where(active, offsets, 0)
            if not active.any():
                place.offsets = offsets
                return
            place.offsets = offsets
        if self.pointer and c.env[slot_of(self.pointer)] == NOWHERE:
            raise self._lost(c, active)
        top = limit - self.width
        beyond = int(offsets.max()) > top or int(offsets.min()) < 0
        if beyond:
            self._outside(c, offsets, active, limit)
        if self.asserted:
            self._by_mode(c, offsets, active)
        if self.bytewise:
            self._whole_bytes(c, offsets, active)
        if self.bits >= 8 and (self.unit > 1):
            self._aligned(c, offsets, active)
        if not self.smem and self.array(c).inside is not None:
            self._holes(c, offsets, active)

    def _first(
        self, bad: Array, c: Cohort, offsets: Array, active: Array | None
    ) -> tuple[tuple[int, ...], int] | None:
        """Return where the first bad vector of those that are active is, and its offset."""
        bad = bad if active is None else bad & active
        if not bad.any():
            return None
        where = first(bad, c.span)
        return where, int(np.broadcast_to(offsets, (*c.span.shape, self.count))[where])

    def _by_mode(self, c: Cohort, offsets: Array, active: Array | None) -> None:
        """Refuse coordinates outside of their mode, of threads that touch any element."""
        for bound, index, extent in self.asserted:
            x, n = index(c), extent(c)
            bad = np.asarray((x < 0) | (x >= n))
            if not bad.any():
                continue
            bad = bad.reshape(bad.shape if bad.ndim == 3 else (1, 1, 1))[..., None]
            found = self._first(bad, c, offsets, active)
            if found is not None:
                where, offset = found
                raise c.batch.faults.at(
                    "emulate-mode",
                    self.op,
                    c.span,
                    where[:3],
                    entry=_at(x, where, c),
                    mode=_mode(bound.mode),
                    extent=_at(n, where, c),
                    offset=offset,
                    storage=self.access.storage,
                    space=self.access.space,
                )

    def _entry(self, c: Cohort, where: tuple[int, ...]) -> str:
        """Return the coordinate of one thread that is outside of its mode, if any is, in words."""
        for bound, index, extent in self.asserted:
            x, n = _at(index(c), where, c), _at(extent(c), where, c)
            if not 0 <= x < n:
                return f" (entry {x} of {_mode(bound.mode)}, required: 0 <= entry < {n})"
        return ""

    def _lost(self, c: Cohort, active: Array | None) -> CuteError:
        """Return the error of a pointer that points into none of the arrays."""
        bad = c.active()[..., None] if active is None else active
        where = first(bad.any(-1), c.span)
        address = _at(c.env[self.pointer], where, c)
        near = c.batch.given.reachable.nearest(address)
        facts = {"address": f"{address:#x}", "storage": self.pointer, "nearest": near}
        return c.fault("emulate-pointer", self.op, where, **facts)

    def _outside(self, c: Cohort, offsets: Array, active: Array | None, limit: int) -> None:
        bad = (offsets > limit - self.width) | (offsets < 0)
        found = self._first(bad, c, offsets, active)
        if found is None:
            return
        where, offset = found
        last = offset + self.width - 1
        raise c.fault(
            "emulate-bounds",
            self.op,
            where[:3],
            vector=where[3],
            offset=offset,
            elements=f"element {offset}" if self.width == 1 else f"elements {offset} to {last}",
            storage=self.storage(c),
            coordinate=self._entry(c, where),
            space=self.access.space,
            limit=limit,
        )

    def _whole_bytes(self, c: Cohort, offsets: Array, active: Array | None) -> None:
        """Refuse vectors of packed elements that begin or end inside of a byte."""
        bad = (offsets * self.dtype.bits % 8 != 0) | (self.bits % 8 != 0)
        found = self._first(bad, c, offsets, active)
        if found is not None:
            where, offset = found
            raise c.fault(
                "emulate-split-byte",
                self.op,
                where[:3],
                storage=self.access.storage,
                offset=offset,
                width=self.width,
                dtype=self.dtype,
            )

    def _aligned(self, c: Cohort, offsets: Array, active: Array | None) -> None:
        bits = self.dtype.bits
        counts = bits >= 8 or self.bytewise
        start = self.start if self.smem else self.array(c).address * counts
        if bits >= 8 and start % self.unit == 0 and self.unit % (bits // 8) == 0:
            n = self.unit * 8 // bits
            if n <= 1 or not (offsets & (n - 1)).any():
                return
            bad = (offsets & (n - 1)) != 0
        else:
            bad = (start + offsets * bits // 8) % self.unit != 0
        found = self._first(bad, c, offsets, active)
        if found is None:
            return
        where, offset = found
        raise c.fault(
            "emulate-alignment",
            self.op,
            where[:3],
            bytes=self.unit,
            storage=self.storage(c),
            offset=offset,
            address=start + offset * bits // 8,
            remainder=(start + offset * bits // 8) % self.unit,
        )

    def _holes(self, c: Cohort, offsets: Array, active: Array | None) -> None:
        array = self.array(c)
        inside = array.inside
        assert inside is not None
        bad = ~inside[offsets[..., None] + np.arange(self.width)].all(-1)
        found = self._first(bad, c, offsets, active)
        if found is not None:
            where, offset = found
            raise c.fault(
                "emulate-padding",
                self.op,
                where[:3],
                storage=self.storage(c),
                offset=offset,
                shape=array.shape,
                strides=array.strides,
            )

    def _itemize(self, c: Cohort, place: Place) -> None:
        """Set the items: vectors of the array, or of a block's shared memory."""
        offsets = place.items = place.offsets
        if self.bytewise:
            place.items = offsets * self.dtype.bits // 8
        elif not self.smem:
            if not self.apart:
                lead = self.array(c).lead(self.width)
                place.items = (offsets - lead if lead else offsets) // self.width
                if place.active is not None and lead:
                    place.items = np.maximum(place.items, 0)
        elif self.packed:
            place.items = self.start * 8 + offsets * self.dtype.bits  # bits
        else:
            place.items = (self.start + offsets * (self.dtype.bits // 8)) // self.nbytes

    # -- what the clocks say

    def judge_read(
        self, c: Cohort, place: Place, whole: bool = False, kind: int = THREAD
    ) -> Touch | None:
        """Refuse a read that nothing orders after the write, and remember it; `whole`: by the whole
        warp. Return what it touches of global memory, if that is watched.
        """
        if not self.smem:
            touch = self.touch(c, place, kind)
            if touch is not None and c.batch.globals is not None:
                c.batch.globals.access(touch)
            return touch
        if place.blocks is not None:
            self._judge_peers(c, place, READ)
        elif c.batch.shadow is not None:
            c.batch.shadow.read(c.span, self, place, whole)
        return None

    def _judge_peers(self, c: Cohort, place: Place, kind: str) -> None:
        peers = c.batch.peers
        if peers is not None:
            peers.access(c.span, c.active(), self, place, kind)

    def touch(self, c: Cohort, place: Place, kind: int = THREAD) -> Touch | None:
        """Return what threads touch of global memory, if that is watched."""
        watch = c.batch.globals
        return None if watch is None else watch.touch(c.span, self, place, self.array(c), kind)

    def put(self, c: Cohort, place: Place, values: Array) -> None:
        """Write global memory, and refuse what nothing orders before."""
        touch, watch, releases = self.touch(c, place), c.batch.globals, c.batch.releases
        if touch is None or watch is None:
            self.store(c, place, values)
        elif touch.kind in (PLAIN, ALIKE):
            if touch.kind == ALIKE:
                touch.values = self._values_of(c, place, touch)
            watch.store(touch)
            self.store(c, place, values)
        else:
            watch.access(touch)
            self.store(c, place, values)
            if releases is not None:
                releases.release(places_of(touch), releases.clocks.acting(c.span, c.mask))

    @cached_property
    def values(self) -> Values | None:
        """What identifies the values that the op stores; None if they depend on data."""
        resources = self.resources
        stored = (resources if self.smem else resources.traffic).origins.of(self.op)
        return (
            None
            if stored is None
            else Values(self.statics, stored, resources.traffic.numbers.get(id(self.op), 0))
        )

    def _values_of(self, c: Cohort, place: Place, touch: Touch) -> Array:
        """Return for each entry of a touch what identifies the value."""
        assert self.values is not None
        parts = max(1, self.array(c).bits * self.width // 8 // touch.region.granule)
        values = joined(self.values(c), self.count, parts)
        shape = (*c.span.shape, self.count, parts)
        values = np.broadcast_to(values, shape)
        if place.active is None:
            return values.reshape(-1)
        return values[np.broadcast_to(place.active[..., None], shape)]

    def judge_write(
        self,
        c: Cohort,
        place: Place,
        kind: int = THREAD,
        atomic: bool = False,
        whole: bool = False,
    ) -> None:
        """Refuse a write of shared memory, or an atomic, that races: by threads, by their copies,
        or by the whole warp.
        """
        if place.blocks is not None:
            self._judge_peers(c, place, ATOMIC if atomic else WRITE)
        elif self.smem and c.batch.shadow is not None:
            c.batch.shadow.write(c.span, self, place, kind, atomic, whole)

    # -- data

    def load(self, c: Cohort, place: Place) -> Array:
        """Return [block, warp, lane, element]; where inactive, anything."""
        if not self.smem:
            array = self.array(c)
            if not array.size:
                return np.zeros((1, 1, 1, self.count * self.width), numpy_type(self.dtype))
            if self.bytewise:
                octets = array.data.take(place.items[..., None] + np.arange(self.nbytes))
                return from_bytes(octets, self.dtype).reshape(*place.items.shape[:3], -1)
            if self.apart:
                return array.data.take(self._elements(place.items))
            return array.wide(self.width).take(place.items).view(array.data.dtype)
        if self.packed:
            return self._load_packed(c, place)
        return self.take(c, place.items, self.nbytes, place.blocks).view(numpy_type(self.dtype))

    def take(self, c: Cohort, items: Array, nbytes: int, blocks: Array | None = None) -> Array:
        """Return items of shared memory [block, warp, lane, item], of the threads' blocks, or of
        those given.
        """
        whole, span = c.batch.smem.wide(nbytes), c.span
        if blocks is not None:
            return whole[blocks, items]
        if items.shape[0] == 1:
            rows = whole if span.nB == len(whole) else whole[span.key[0] if span.slices else span.B]
            return rows.take(items[0], axis=1)
        return whole[span.B[:, None, None, None], items]

    def writable(self, c: Cohort) -> Global:
        """Return the array of this run, which the kernel may write."""
        array = self.array(c)
        if not array.writable:
            storage = self.storage(c)
            raise c.batch.faults.fault("emulate-read-only", self.op, storage=storage)
        return array

    def _elements(self, starts: Array) -> Array:
        """Return the elements of vectors, one after another."""
        if self.width == 1:
            return starts
        each = starts[..., None] + np.arange(self.width)
        return each.reshape(*starts.shape[:3], -1)

    def _octets(self, values: Array) -> Array:
        """Return the packed bytes of values [..., vector, byte]."""
        vectors = np.ascontiguousarray(values).reshape(*values.shape[:-1], -1, self.width)
        return to_bytes(vectors, self.dtype)

    def _store_bytes(self, c: Cohort, place: Place, values: Array) -> Array:
        """Write packed elements of global memory."""
        octets = self._octets(values)
        index = np.broadcast_to(place.items[..., None] + np.arange(self.nbytes), octets.shape)
        chosen: Any = ...
        if place.active is not None:
            chosen = np.broadcast_to(place.active[..., None], octets.shape)
        self.writable(c).data[index[chosen]] = octets[chosen]
        return values

    def _store_apart(self, c: Cohort, place: Place, values: Array) -> Array:
        """Write elements of global memory one by one."""
        data = self.array(c).data
        index = np.broadcast_to(self._elements(place.items), values.shape)
        if place.active is None:
            data[index] = values
        else:
            active = np.repeat(
                np.broadcast_to(place.active, (*c.span.shape, self.count)), self.width, axis=-1
            )
            data[index[active]] = values[active]
        return values

    def _load_packed(self, c: Cohort, place: Place) -> Array:
        whole, span = c.batch.smem.data, c.span
        shape = (span.nB, *np.broadcast_shapes(place.items.shape, (1, 1, 1, 1))[1:])
        items = np.broadcast_to(place.items, shape)
        bits = items[..., None] + np.arange(self.bits)
        blocks = span.B[:, None, None, None] if place.blocks is None else place.blocks
        data = whole[blocks[..., None], bits >> 3]
        found = (data >> (bits & 7).astype(np.uint8)) & 1
        packed = np.packbits(found, axis=-1, bitorder="little")
        values = from_bytes(packed, self.dtype)[..., : self.width]
        return values.reshape(*shape[:3], -1)

    def store(self, c: Cohort, place: Place, values: Array) -> Array:
        """Write [block, warp, lane, element] where active, and return what was written, as items
        [block, warp, lane, vector].
        """
        span = c.span
        shape = (*span.shape, self.count)
        if self.packed:
            self._store_packed(c, place, values)
            return values
        dtype = numpy_type(self.dtype)
        size = dtype.itemsize * self.width
        values = np.broadcast_to(values, (*span.shape, self.count * self.width))
        if self.bytewise:
            return self._store_bytes(c, place, values)
        held = np.ascontiguousarray(values).view(item_type(size) if self.width > 1 else dtype)
        target: Array
        if not self.smem:
            array = self.writable(c)
            if not array.size:
                return held
            if self.apart:
                return self._store_apart(c, place, values)
            target = array.wide(self.width)
            index: tuple[Array, ...] = (place.items,)
        else:
            target = c.batch.smem.wide(self.nbytes)
            held = held.view(target.dtype)
            blocks = place.blocks
            if blocks is None and len(place.items) == 1 and place.active is None and span.slices:
                rows = target[span.key[0]]
                rows[:, np.broadcast_to(place.items[0], shape[1:])] = held
                return held
            index = (span.B[:, None, None, None] if blocks is None else blocks, place.items)
        if place.active is None:
            target[index if len(index) > 1 else np.broadcast_to(index[0], shape)] = held
            return held
        active = np.broadcast_to(place.active, shape)
        target[tuple(np.broadcast_to(each, shape)[active] for each in index)] = held[active]
        return held

    def _store_packed(self, c: Cohort, place: Place, values: Array) -> None:
        span = c.span
        shape = (*span.shape, self.count)
        values = np.ascontiguousarray(
            np.broadcast_to(values, (*span.shape, self.count * self.width))
        ).reshape(*shape, self.width)
        new = np.unpackbits(to_bytes(values, self.dtype), axis=-1, bitorder="little")
        bits = np.broadcast_to(place.items, shape)[..., None] + np.arange(self.bits)
        blocks = span.B[:, None, None, None] if place.blocks is None else place.blocks
        block = np.broadcast_to(blocks[..., None], bits.shape)
        chosen = np.broadcast_to(
            True if place.active is None else place.active[..., None], bits.shape
        )
        memory = np.unpackbits(c.batch.smem.data, axis=1, bitorder="little")
        memory[block[chosen], bits[chosen]] = new[..., : self.bits][chosen]
        c.batch.smem.data[...] = np.packbits(memory, axis=1, bitorder="little")


def taking_part(c: Cohort, place: Place) -> Array:
    """Return the lanes [block, warp, lane] that execute an op at a place."""
    active = c.active()
    return active if place.guard is None else active & place.guard[..., 0]


def slots_of(located: Located, c: Cohort, place: Place) -> Array:
    """Return the slots [block, warp, lane] of an mbarrier operand."""
    return np.broadcast_to(c.batch.agents.slot(located, place.offsets[..., 0]), c.span.shape)


def _at(value: Value, where: tuple[int, ...], c: Cohort) -> int:
    """Return a value of one thread."""
    return int(np.broadcast_to(np.asarray(value), c.span.shape)[where[:3]])


def _mode(mode: tuple[int, ...]) -> str:
    """Return a mode in words."""
    return f"mode {','.join(map(str, mode))}" if mode else "the whole tensor"


def _spread(value: Value) -> Any:
    """Return a value with an axis for vectors."""
    return value[..., None] if isinstance(value, np.ndarray) else np.full((1, 1, 1, 1), value)


def swizzled(x: Array, swizzle: tuple[int, int, int]) -> Array:
    """Return Swizzle(B, M, S) of offsets."""
    bits, base, shift = swizzle
    chosen = x & (((1 << bits) - 1) << (base + max(0, shift)))
    moved: Array = x ^ (chosen >> shift if shift >= 0 else chosen << -shift)
    return moved
