"""A compiled plan on a device: loaded once, with a prepared launch per kind of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.calls.arguments import is_small, number
from cute_py.calls.arrays import (
    VECTOR_BYTES,
    Table,
    TypedArray,
    address_of,
    dtype_of,
    extents_of,
    is_read_only,
    on_device,
    require_plain_values,
    unwrapped,
)
from cute_py.calls.torch_tensors import require_no_gradient
from cute_py.codegen.driver import driver
from cute_py.codegen.driver.streams import (
    current_device,
    current_stream,
    device_of,
    own_stream,
    read,
)
from cute_py.codegen.launch.maps import MapOf, encoded
from cute_py.codegen.launch.prepared import EmptyGrid, Ordered, Prepared, fault
from cute_py.codegen.printer import parameters
from cute_py.codegen.tensor_maps import TensorMaps
from cute_py.errors import CuteError, refusal
from cute_py.integers.code import FUNCTIONS, function, together, tree
from cute_py.integers.polynomial import symbols_of
from cute_py.integers.symbols import terms_of
from cute_py.plan.launch import MOST_CLUSTER
from cute_py.plan.params import ScalarParam, TensorParam, admits, limits, multiplier
from cute_py.plan.requirements import Requirements
from cute_py.plan.walk import arrays, every

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from cute_py.calls.backends import Launch
    from cute_py.codegen.build import Compiled
    from cute_py.codegen.driver import Driver
    from cute_py.codegen.launch.prepared import Grid
    from cute_py.plan.conditions import Scalar

    Extents = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides

MOST = 1024  # prepared launches per plan; above this, all are dropped


class Launcher:
    """A compiled plan that is loaded on a device, callable with arrays."""

    def __init__(
        self, compiled: Compiled, device: int | None = None, by: Driver | None = None
    ) -> None:
        """Load the cubin on a device, by default the current one."""
        self.compiled, self.driver = compiled, by or driver()
        self.device = (self.driver.device() or 0) if device is None else device
        self.kept: dict[Hashable, Launch] = {}
        self.is_active = compiled.plan.launch.cluster == (1, 1, 1)  # or a cluster was seen to run
        grid, counts = compiled.plan.launch.grid, compiled.plan.launch.counts
        divisors, tables = compiled.plan.launch.divisors, compiled.plan.launch.tables
        found = (*grid, *counts, *divisors, *[x for row in tables for x in row])
        self.required = Requirements(compiled.plan)
        self.sizes = sorted({s.name for x in found for s in symbols_of(terms_of(x))})
        blocks = together([tree(x) for x in found])
        self.blocks = function(self.sizes, blocks, FUNCTIONS)  # of sizes and run-time numbers
        computed_with = {*self.sizes, *self.required.names}
        self.parameters = parameters(compiled.plan)
        self.kinds = words_of(self.parameters, tables)
        params = compiled.plan.params
        place = {p.name: i for i, p in enumerate(params)}
        self.maps = [(place[x.tensor], x) for x in TensorMaps(compiled.plan).names]
        # run-time numbers that the host computes with, by the index of their value
        self.numbers = {place[p.name]: p.name for p in params
                        if isinstance(p, ScalarParam) and p.name in computed_with}  # fmt: skip
        self.arrays = [(place[p.name], p, list(map(limits, (*p.shape, *p.stride))))
                       for p in params if isinstance(p, TensorParam)]  # fmt: skip
        self.extents = [x for _i, p, _bounds in self.arrays for x in _names(p)]
        # the parameters that are sizes and strides
        known = set(self.extents)
        self.fixed = [(i, x) for i, (x, _kind) in enumerate(self.parameters) if x in known]
        # (alignment of the address in bytes, None) of an array, (0, type) of a number
        self.promised = [
            (p.alignment, None) if isinstance(p, TensorParam) else (0, p.kind) for p in params
        ]
        self.written = frozenset().union(
            *(arrays(op, written=True) for op in every(compiled.plan.body))
        )
        try:
            with self.driver.inside(self.device):
                self.function = self._loaded()
        except CuteError as error:
            if error.code != "launch-status":
                raise
            facts, grid = error.facts, compiled.plan.launch.grid
            status, said = int(str(facts["number"])), str(facts["status"])
            raise fault(status, said, compiled, grid, known=False) from None

    def _loaded(self) -> Any:  # a CUfunction
        call, plan = self.driver.call, self.compiled.plan
        smem = plan.smem_bytes
        self.module = call("cuModuleLoadData", self.compiled.cubin)
        function = call("cuModuleGetFunction", self.module, self.compiled.entry.encode())
        require_fit(self.driver, self.compiled, function, self.device)
        self.room: int | None = None
        if smem > 48 * 1024:
            kinds = self.driver.raw.CUfunction_attribute
            most = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call("cuFuncSetAttribute", function, most, smem)
        if plan.launch.resident:
            name, threads = "cuOccupancyMaxActiveBlocksPerMultiprocessor", plan.launch.threads
            each = call(name, function, threads, smem)
            self.room = each * self.driver.limit(self.device, "MULTIPROCESSOR_COUNT")
        return function

    def __call__(self, *args: Any, stream: int | None = None) -> None:
        """Launch with an array or number for each parameter of the plan.

        Args:
            args: in the order of `plan.params`.
            stream: the number of a CUDA stream; None: the current one of the arrays' library.

        """
        launch, values = self.prepared(args)
        launch(values, stream)

    def prepared(self, args: Sequence[Any]) -> tuple[Launch, list[Any]]:
        """Return the prepared launch for arrays like these, and the values to call it with."""
        params = self.compiled.plan.params
        if len(args) != len(params):
            raise self._wrong("arguments", f"{len(args)} of {len(params)}")
        key: list[Hashable] = []
        values: list[Any] = []
        for p, (promised, kind), arg in zip(params, self.promised, args, strict=True):
            if kind is not None:
                values.append(number(arg, kind, p.name))
                continue
            facts, address = self._read(p.name, arg)
            key.append(facts)
            values.append(address)
            if VECTOR_BYTES % promised:  # facts have the address modulo 16 bytes
                key.append(address % promised)
        found = self.kept.get(tuple(key))
        if found is None:
            if len(self.kept) >= MOST:
                self.kept.clear()
            found = self.kept[tuple(key)] = self._prepare(args)
        return found, values

    def _read(self, name: str, arg: Any) -> tuple[Hashable, int]:
        if not on_device(arg):
            kind, plan = type(unwrapped(arg)).__name__, self.compiled.plan
            raise refusal("launch-host", operation=plan.name, name=name, type=kind)
        require_no_gradient(arg, name, self.compiled.plan.name)
        return read(arg)

    # -- the first launch with arrays like these

    def _prepare(self, args: Sequence[Any]) -> Launch:
        arrays = [(p, args[i]) for i, p, _bounds in self.arrays]
        self._require_one_device([(p.name, unwrapped(arg)) for p, arg in arrays])
        read = {i: self._fitting(p, bounds, args[i]) for i, p, bounds in self.arrays}
        found = [int(n) for extents, _address in read.values() for row in extents for n in row]
        env = dict(zip(self.extents, found, strict=True))
        host, fixed = self._host(env), {i: env[name] for i, name in self.fixed}
        if not self.numbers:
            grid, more = host(())
            if 0 in grid:
                return EmptyGrid()
            count = len(self.kinds) - len(more)
            fixed |= {count + i: x for i, x in enumerate(more)}
        first = unwrapped(arrays[0][1])
        prepared = Prepared(
            self.driver,
            self.compiled,
            self.function,
            self.device,
            host if self.numbers else grid,
            self.kinds,
            fixed,
            current_stream(first, self.device),
            current_device(first),
            self._maps(read),
            tuple(self.numbers),
        )
        if not self.is_active:
            require_active(self.driver, self.compiled, self.function, prepared.config())
            self.is_active = True
        streams = {own_stream(unwrapped(arg)) for _p, arg in arrays} - {None}
        return Ordered(prepared, [s for s in streams if s is not None]) if streams else prepared

    def _maps(self, read: dict[int, tuple[Extents, int]]) -> list[MapOf]:
        """Return the tensor maps of arrays, by their extents and addresses."""
        if not self.maps:
            return []
        operation = self.compiled.plan.name
        with self.driver.inside(self.device):
            return [
                MapOf(i, encoded(self.driver, x, *read[i][0], read[i][1], operation))
                for i, x in self.maps
            ]

    def _host(self, env: dict[str, int]) -> Callable[[Sequence[Any]], tuple[Grid, list[int]]]:
        """Return the function of the values that returns what the host computes: the grid, the
        multipliers of divisors, and the entries of tables.
        """
        plan, count = self.compiled.plan, len(self.compiled.plan.launch.counts)
        rows = count + len(plan.launch.divisors)
        numbers = self.numbers

        def host(values: Sequence[Any]) -> tuple[Grid, list[int]]:
            given = {**env, **{n: int(values[i]) for i, n in numbers.items()}}
            x, y, z, *found = self.blocks(**{name: given[name] for name in self.sizes})
            plan.launch.require_counts(plan.name, found[:count])
            require_grid(self.driver, self.compiled, self.device, (x, y, z))
            self.required.test(given)
            if self.room is not None:
                require_room(self.compiled, x * y * z, self.room)
            computed = [_wrapped(n) for n in found[count:]]
            divisors, entries = computed[: rows - count], computed[rows - count :]
            return (x, y, z), [*map(multiplier, divisors), *entries]

        return host

    # -- refusals

    def _require_one_device(self, arrays: list[tuple[str, Any]]) -> None:
        name, first = arrays[0]
        for other, array in arrays:
            found = device_of(array)
            if found != self.device:
                here = name if found != device_of(first) else "the kernel"
                raise refusal(
                    "launch-device",
                    operation=self.compiled.plan.name,
                    name=other,
                    found=found,
                    other=here,
                    device=self.device,
                )

    def _fitting(
        self, p: TensorParam, bounds: list[tuple[int, float, float]], arg: Any
    ) -> tuple[Extents, int]:
        """Return the extents and the address of an array; refuse one that does not match what the
        plan was traced for.
        """
        array = unwrapped(arg)
        require_plain_values(array, p.name)
        if p.name in self.written and is_read_only(array):
            raise refusal("launch-read-only", operation=self.compiled.plan.name, name=p.name)
        held, packed = dtype_of(arg), isinstance(arg, TypedArray) and arg.packed
        if held is not p.dtype and (packed or held.numpy_name != p.dtype.numpy_name):
            raise self._wrong(p.name, f"{held}, traced for {p.dtype}")
        members = arg.members if isinstance(arg, Table) else None
        if (p.members is None) != (members is None):
            raise self._wrong(p.name, f"{type(arg).__name__}, traced for {p}")
        if p.members is not None and not p.members.admits(members):
            raise self._wrong(p.name, f"arrays of {members}, traced for {p.members}")
        if packed != p.packed:
            kinds = [f"{'packed' if x else 'unpacked'} {p.dtype}" for x in (packed, p.packed)]
            raise self._wrong(p.name, f"{kinds[0]}, traced for {kinds[1]}")
        shape, strides = extents = extents_of(arg)
        if len(shape) != len(p.shape):
            raise self._misfit(p, shape, strides)
        for n, (unit, low, high) in zip((*shape, *strides), bounds, strict=True):
            if n % unit or not low <= n <= high:
                raise self._misfit(p, shape, strides)
        if p.small and not is_small(extents, p.dtype):
            raise self._wrong(p.name, "more than 2 GB, traced for less")
        address = address_of(array)
        self._require_aligned(p, address)
        return extents, address

    def _require_aligned(self, p: TensorParam, address: int) -> None:
        """Refuse an address that is not a multiple of the element, or of the traced alignment."""
        size = max(p.dtype.bits // 8, 1)
        if address % size:
            raise refusal(
                "launch-misaligned",
                operation=self.compiled.plan.name,
                name=p.name,
                address=hex(address),
                size=size,
                dtype=p.dtype,
            )
        if address % p.alignment:
            raise self._wrong(p.name, f"an address that is not a multiple of {p.alignment} bytes")

    def _misfit(
        self, p: TensorParam, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> CuteError:
        word, given, traced = "shape", shape, p.shape
        if len(shape) == len(traced) and all(map(admits, traced, shape)):
            word, given, traced = "stride", strides, p.stride
        return self._wrong(p.name, f"{word} {tuple(given)}, traced for {_shown(traced)}")

    def _wrong(self, name: str, found: str) -> CuteError:
        plan = self.compiled.plan
        return refusal("launch-argument", operation=plan.name, name=name, found=found)


def _names(p: TensorParam) -> list[str]:
    """Return the names of an array's extents and strides."""
    shape = [f"{p.name}_shape{i}" for i in range(len(p.shape))]
    return [*shape, *[f"{p.name}_stride{i}" for i in range(len(p.stride))]]


def words_of(
    parameters: Sequence[tuple[str, str]], tables: Sequence[Sequence[Scalar]]
) -> list[str]:
    """Return the kinds of the words of a launch, without tensor maps: of each parameter, and of the
    further entries of a table.
    """
    rows, kinds = iter(tables), [kind for _name, kind in parameters if kind != "map"]
    return [w for kind in kinds for w in (["integer", *["entry"] * (len(next(rows)) - 1)]
            if kind == "table" else [kind])]  # fmt: skip


def _wrapped(n: int) -> int:
    """Return the signed 64-bit integer with the same lower bits, as a kernel would compute it."""
    return (n + (1 << 63)) % (1 << 64) - (1 << 63)


def _shown(traced: tuple[Scalar, ...]) -> str:
    return ", ".join(repr(x) for x in traced)


# -- limits of a device: threads, shared memory, clusters, and the size of the grid

GRID = ("MAX_GRID_DIM_X", "MAX_GRID_DIM_Y", "MAX_GRID_DIM_Z")
PORTABLE = 8  # blocks per cluster on every device that has clusters


def require_fit(driver: Driver, compiled: Compiled, function: Any, device: int) -> None:
    """Refuse a kernel whose block or cluster the device cannot run.

    Args:
        driver: the driver.
        compiled: the kernel.
        function: the kernel, loaded on the device.
        device: the number of the device.

    """
    launch = compiled.plan.launch
    static = driver.attribute(function, "SHARED_SIZE_BYTES")
    optin = driver.limit(device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    shared = compiled.plan.smem_bytes + static
    _require(compiled, "bytes of shared memory in a block", shared, optin)
    threads = driver.attribute(function, "MAX_THREADS_PER_BLOCK")
    _require(compiled, "threads in a block", launch.threads, threads)
    for letter, extent in zip("XYZ", launch.block, strict=True):
        most = driver.limit(device, f"MAX_BLOCK_DIM_{letter}")
        _require(compiled, f"threads in {letter.lower()}", extent, most)
    _require_cluster(driver, compiled, function, device)


def _require_cluster(driver: Driver, compiled: Compiled, function: Any, device: int) -> None:
    x, y, z = compiled.plan.launch.cluster
    if (blocks := x * y * z) == 1:
        return
    major = driver.limit(device, "COMPUTE_CAPABILITY_MAJOR")
    _require(compiled, "blocks in a cluster", blocks, MOST_CLUSTER if major >= 9 else 1)
    if blocks > PORTABLE:
        kinds = driver.raw.CUfunction_attribute
        kind = kinds.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        driver.call("cuFuncSetAttribute", function, kind, 1)


def require_active(driver: Driver, compiled: Compiled, function: Any, config: Any) -> None:
    """Refuse a cluster of which the device cannot run even one.

    Args:
        driver: the driver.
        compiled: the kernel.
        function: the kernel, loaded on the device.
        config: the configuration of the launch.

    """
    x, y, z = compiled.plan.launch.cluster
    if x * y * z == 1:
        return
    # the driver refuses a grid without whole clusters, and one of run-time numbers is not known yet
    config.gridDimX, config.gridDimY, config.gridDimZ = x, y, z
    if not driver.call("cuOccupancyMaxActiveClusters", function, config):
        what = "blocks in a cluster, with their threads and shared memory"
        _require(compiled, what, x * y * z, 0)


def _require(compiled: Compiled, what: str, found: int, most: int) -> None:
    if found > most:
        name, arch = compiled.plan.name, compiled.arch
        raise refusal("launch-limit", operation=name, found=found, what=what, most=most, arch=arch)


def require_room(compiled: Compiled, blocks: int, room: int) -> None:
    """Refuse more blocks than run at once."""
    if blocks > room:
        raise refusal("launch-resident", operation=compiled.plan.name, blocks=blocks, room=room)


def require_grid(
    driver: Driver, compiled: Compiled, device: int, grid: tuple[int, int, int]
) -> None:
    """Refuse a grid that is negative, too large, or not a whole number of clusters.

    For a grid that is too large the driver says only CUDA_ERROR_INVALID_VALUE.
    """
    plan, (x, y, z) = compiled.plan, grid
    most = tuple([driver.limit(device, name) for name in GRID])
    if not (0 <= x <= most[0] and 0 <= y <= most[1] and 0 <= z <= most[2]):
        raise refusal("launch-grid", operation=plan.name, grid=grid, most=most)
    a, b, c = plan.launch.cluster
    if x % a or y % b or z % c:
        raise refusal("launch-cluster", operation=plan.name, grid=grid, cluster=(a, b, c))
