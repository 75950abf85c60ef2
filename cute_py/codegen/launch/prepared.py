"""A prepared launch: everything is computed except addresses, run-time numbers and the stream.

The driver reads a launch from three pieces of memory: a configuration, the parameter values, and a
table of pointers to them. They are created once; a call writes the values that change and calls the
driver. It does nothing else, so a CUDA graph can capture it. Threads share a prepared launch: each
takes a block of memory from a pool (list operations are atomic) and returns it when the driver has
copied it.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from functools import lru_cache, partial
from operator import itemgetter
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from cute_py.codegen.arch import overlaps
from cute_py.codegen.driver import CAPTURING, INVALID_CONTEXT, MAP_BYTES, STICKY
from cute_py.codegen.launch.maps import writer
from cute_py.errors import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.codegen.build import Compiled
    from cute_py.codegen.driver import Driver
    from cute_py.codegen.launch.maps import MapOf
    from cute_py.errors import CuteError

RECENT: deque[str] = deque(maxlen=8)  # the most recent kernels, the newest last

Grid = tuple[int, int, int]
MOST = 1024  # run-time numbers whose multipliers a launch keeps
WORD = 8  # bytes of a parameter; f32 uses the first four
# the `struct` format of a parameter, eight bytes each
WORDS = {"address": "q", "integer": "q", "entry": "q", "f32": "fxxxx", "f64": "d"}


class Block:
    """The memory of one launch: first the values that a call writes, then sizes and strides; the
    tensor maps.

    `write` writes the values of a call, `launch` launches with them.
    """

    __slots__ = (
        "address",
        "config",
        "counted",
        "launch",
        "maps",
        "pointers",
        "stream",
        "values",
        "write",
    )

    launch: Callable[[], int]

    def __init__(
        self, config: Any, kinds: Sequence[str], fixed: dict[int, int], maps: Sequence[MapOf] = ()
    ) -> None:
        """Allocate it for words of these kinds, and tensor maps after them; `fixed` has values by
        index. An `entry` follows the word before it in one parameter, a table.
        """
        self.config, self.stream = config, 0
        self.counted: object = None  # the run-time numbers that the grid was computed from
        places, packed = _form(tuple(kinds), tuple(fixed))
        values = [0] * (len(kinds) - len(fixed))
        self.values = (ctypes.c_uint64 * len(kinds))(*values, *fixed.values())
        first = ctypes.addressof(self.values)
        pointers = [first + place for place in places]
        self.maps = (ctypes.c_char * (MAP_BYTES * (len(maps) + 1)))()
        start = -(-ctypes.addressof(self.maps) // MAP_BYTES) * MAP_BYTES
        pointers += [start + i * MAP_BYTES for i in range(len(maps))]
        self.pointers = (ctypes.c_void_p * len(pointers))(*pointers)
        self.address = ctypes.addressof(self.pointers)
        self.write: Callable[..., None] = partial(packed.pack_into, self.values, 0)


@lru_cache(maxsize=256)
def _form(kinds: tuple[str, ...], fixed: tuple[int, ...]) -> tuple[list[int], Struct]:
    """Return the offset of each parameter in the memory of its words (bytes), and the `struct` of
    the words that a call writes, which come first.
    """
    written = [i for i in range(len(kinds)) if i not in fixed]
    places = {i: WORD * place for place, i in enumerate((*written, *fixed))}
    offsets = [places[i] for i, kind in enumerate(kinds) if kind != "entry"]
    return offsets, Struct("".join([WORDS[kinds[i]] for i in written]))


class Prepared:
    """A launch for arrays of known shapes on one device; a function of addresses and numbers."""

    __slots__ = (
        "compiled",
        "counts",
        "current",
        "device",
        "driver",
        "fixed",
        "function",
        "go",
        "grid",
        "grid_of",
        "kinds",
        "known",
        "maps",
        "name",
        "pool",
        "stream",
        "waits",
    )

    def __init__(
        self,
        driver: Driver,
        compiled: Compiled,
        function: Any,  # a CUfunction
        device: int,
        grid: Grid | Callable[[Sequence[Any]], tuple[Grid, list[int]]],
        kinds: Sequence[str],
        fixed: dict[int, int],
        stream: Callable[[], int],
        current: Callable[[], int | None],
        maps: Sequence[MapOf] = (),
        counts: Sequence[int] = (),
    ) -> None:
        """Keep what a launch needs.

        Args:
            driver: the driver.
            compiled: the kernel.
            function: the kernel, loaded on the device.
            device: the device of the arrays.
            grid: blocks; if what the host computes depends on run-time numbers, a function of the
                values that returns the blocks, and more values.
            kinds: the kinds of words but tensor maps: address, integer, f32, f64, or entry (of a
                table, after its first).
            fixed: the parameter values that are the same at each call, by index.
            stream: returns the stream to launch on.
            current: returns the number of the current device.
            maps: the tensor maps, which are the last parameters.
            counts: the indices of the values that `grid` depends on.

        """
        self.maps, self.counts = maps, counts
        self.driver, self.compiled, self.function, self.device = driver, compiled, function, device
        self.kinds, self.fixed, self.stream, self.current = kinds, fixed, stream, current
        self.grid_of = grid if callable(grid) else None
        self.grid: Grid = (1, 1, 1) if callable(grid) else grid
        self.name, self.waits = compiled.plan.name, is_synchronous()
        self.pool: list[Block] = []
        # grids and multipliers by run-time numbers, where there are multipliers
        self.known: dict[object, tuple[Grid, list[int]]] = {}
        self.go = self._launcher()

    def __call__(self, values: Sequence[Any], stream: int | None = None) -> None:
        """Launch with an address or number for each array and number of the plan; `go` does the
        same with less overhead if the device is current.
        """
        if stream is None:
            stream = self.stream()
        if self.current() != self.device:
            with self.driver.inside(self.device):
                self.go(values, stream)
        else:
            self.go(values, stream)

    def _launcher(self) -> Callable[..., None]:
        """Return the function that writes into a block and calls the driver, by default on the
        current stream. It is a closure, since attribute look-ups cost a tenth of a launch.
        """
        pool, grid_of, waits, name = self.pool, self.grid_of, self.waits, self.name
        current, current_stream, device = self.current, self.stream, self.device
        alone, recent = self.driver.count == 1, RECENT.append
        counts = itemgetter(*self.counts) if self.counts else len

        def go(values: Sequence[Any], stream: int | None = None) -> None:
            if stream is None:
                if not alone and current() != device:
                    self(values)
                    return
                stream = current_stream()
            try:
                block = pool.pop()
            except IndexError:
                block = self._block()
            try:
                block.write(*values)
            except StructError:  # an unsigned 64-bit number
                self._write_signed(block, values)
            if stream != block.stream:
                block.config.hStream = stream
                block.stream = stream
            if grid_of is not None and block.counted != (numbers := counts(values)):
                block.counted = numbers
                if not self._count(block, values):
                    return
            status = block.launch()
            if status or waits:
                self._handle(status, block)
            recent(name)
            pool.append(block)

        plan = self.compiled.plan.launch
        if grid_of is None or not (plan.divisors or plan.tables):
            return go
        count, host, known = len(self.compiled.plan.params), grid_of, self.known

        def go_on(values: Sequence[Any], stream: int | None = None) -> None:
            values = values[:count]
            numbers = counts(values)
            found = known.get(numbers)
            if found is None:
                if len(known) >= MOST:
                    known.clear()
                found = known[numbers] = host(values)
            go((*values, *found[1]), stream)

        return go_on

    def config(self) -> Any:
        """Return a new launch configuration: a CUlaunchConfig."""
        raw, launch = self.driver.raw, self.compiled.plan.launch
        config = raw.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = self.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
        config.sharedMemBytes = self.compiled.plan.smem_bytes
        pdl = launch.pdl and overlaps(self.compiled.arch)
        attributes = _attributes(raw, launch.cluster, pdl)
        if attributes:
            config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def _block(self) -> Block:
        config = self.config()
        block = Block(config, self.kinds, self.fixed, self.maps)
        if self.maps:
            start = block.pointers[len(block.pointers) - len(self.maps)] or 0
            replace = self.driver.replace_address
            block.write = writer(block.write, self.maps, start, replace, self._replace)
        block.launch = self.driver.launch(config, self.function, block.address)
        return block

    def _write_signed(self, block: Block, values: Sequence[Any]) -> None:
        plan = self.compiled.plan
        plan.require_signed(values[: len(plan.params)])
        block.write(*map(_signed, values))

    def _count(self, block: Block, values: Sequence[Any]) -> bool:
        """Write the grid computed from run-time numbers; return whether it is not empty."""
        assert self.grid_of is not None
        grid, _more = self.known.get(block.counted) or self.grid_of(values)
        config = block.config
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        if 0 in grid:
            block.counted = None
            self.pool.append(block)
        return 0 not in grid

    # -- the slow path

    def _replace(self, place: int, address: int, status: int) -> None:
        """Write an address into a tensor map, if the thread had no context; refuse other faults."""
        if status == INVALID_CONTEXT:
            self.driver.enter(self.device)
            status = self.driver.replace_address(place, address)
        if status:
            operation, name = "cuTensorMapReplaceAddress", self.driver.status(status)
            raise refusal("launch-status", operation=operation, status=name, number=status)

    def _handle(self, status: int, block: Block) -> None:
        """Retry if the thread had no context; wait if CUTE_PY_SYNC is set; refuse faults."""
        raw = self.driver.raw
        if status == INVALID_CONTEXT:
            self.driver.enter(self.device)
            status = block.launch()
        waited = self.waits and not status and not self.driver.is_capturing(block.stream)
        if waited:
            status = int(raw.cuStreamSynchronize(block.stream)[0])
        if status:
            config = block.config
            grid = config.gridDimX, config.gridDimY, config.gridDimZ
            raise fault(status, self.driver.status(status), self.compiled, grid, waited)


class Ordered:
    """A prepared launch whose stream first waits for the streams of its arrays."""

    def __init__(self, launch: Prepared, streams: Sequence[int]) -> None:
        self.launch, self.streams = launch, streams

    def go(self, values: Sequence[Any], stream: int | None = None) -> None:
        """Wait on the GPU, then launch."""
        here = self.launch.stream() if stream is None else stream
        with self.launch.driver.inside(self.launch.device):
            for other in self.streams:
                if other != here:
                    self.launch.driver.wait(here, other)
        self.launch(values, here)

    __call__ = go


class EmptyGrid:
    """The launch of an empty grid: an extent of 0 runs no block, as on the emulator."""

    def go(self, values: Sequence[Any], stream: int | None = None) -> None:
        """Launch nothing."""

    __call__ = go


def _signed(value: Any) -> Any:
    """Return the signed 64-bit number with the same bits."""
    return value - (1 << 64) if isinstance(value, int) and value >> 63 > 0 else value


@lru_cache(maxsize=64)
def _attributes(raw: Any, cluster: Grid, pdl: bool) -> list[Any]:
    """Return the attributes of a launch, which a configuration copies."""
    found = [_cluster(raw, cluster)] if cluster != (1, 1, 1) else []
    return [*found, _pdl(raw)] if pdl else found


def _pdl(raw: Any) -> Any:
    """Return the attribute of programmatic dependent launch."""
    attribute, value = raw.CUlaunchAttribute(), raw.CUlaunchAttributeValue()
    attribute.id = raw.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    value.programmaticStreamSerializationAllowed = 1
    attribute.value = value
    return attribute


def _cluster(raw: Any, cluster: Grid) -> Any:
    attribute, value = raw.CUlaunchAttribute(), raw.CUlaunchAttributeValue()
    attribute.id = raw.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = cluster
    attribute.value = value
    return attribute


# -- faults


def is_synchronous() -> bool:
    """Return whether each launch must wait for its kernel to end: CUTE_PY_SYNC=1."""
    return os.environ.get("CUTE_PY_SYNC", "0") not in ("", "0")


def fault(number: int, status: str, compiled: Compiled, grid: object, known: bool) -> CuteError:
    """Return the refusal for a status of the driver.

    Args:
        number: the number of the status, other than success.
        status: the name of the status.
        compiled: the kernel that was launched.
        grid: blocks.
        known: whether only this kernel can have caused the status.

    """
    name = compiled.plan.name
    if number in CAPTURING:
        return refusal("launch-capture", operation=name)
    if number in STICKY and not known:
        names = ", ".join(RECENT.copy())  # threads add to it
        return refusal("launch-earlier", operation=name, status=status, names=names)
    launch = _launch_text(compiled, grid)
    return refusal("launch-failed", operation=name, status=status, launch=launch)


def _launch_text(compiled: Compiled, grid: object) -> str:
    launch, used = compiled.plan.launch, compiled.resources
    parts = [f"grid {grid}", f"block {launch.block}", f"{used.smem_bytes} bytes of shared memory"]
    if launch.cluster != (1, 1, 1):
        parts.append(f"cluster {launch.cluster}")
    return ", ".join([*parts, f"{compiled.arch}", f"{used.registers} registers"])
