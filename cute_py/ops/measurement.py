"""`tune`: measure the configurations of a call on this GPU, and use the fastest from then on.

Calls of kernels that compute the same are timed, and what they compute is compared.

The calls run on operands of their own, which have the facts of the user's arrays and random
elements. There are as many sets of them as the L2 cache cannot hold: launches use them in turn, so
all of them read memory, as the launches of a program do.
"""

from __future__ import annotations

import random
import time
from functools import lru_cache, partial
from math import ceil, inf
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cute_py.calls.arrays import address_of, dtype_of, on_device, strides_of, unwrapped
from cute_py.calls.backends import gpu
from cute_py.codegen.driver import driver
from cute_py.codegen.driver.streams import device_of
from cute_py.dtypes.conversion import convert
from cute_py.errors import CuteError, refusal
from cute_py.ops.operands import bytes_each, span
from cute_py.ops.operator import REGISTRY
from cute_py.ops.tuned import key_of, store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.calls.backends import Launch
    from cute_py.dtypes.table import Array, Dtype
    from cute_py.kernels.configuration import Config
    from cute_py.ops.call import Call
    from cute_py.ops.operator import Operator
    from cute_py.ops.problem import Problem

COLD, MOST_SETS = 150 << 20, 100  # bytes of all sets together; three times the largest L2 cache
LINES = 256  # bytes: an address keeps its place within them
COMPARED = 16 << 20  # bytes of a result
RANDOM = 1_000_003  # elements, repeated; prime, so rows differ
GRAPH_US, MOST_LAUNCHES = 1000.0, 200  # of a graph
ROUNDS, CLOSE = 9, {1: 1.3, 3: 1.1}  # after so many, those within that of the fastest stay
SUMS = 0.02  # of the root mean square: how far results may differ, besides rounding


class Ready(NamedTuple):
    """A call on operands of its own: how to launch each of its kernels, and the values of these
    launches for each set.
    """

    launches: list[Launch]
    values: list[list[tuple[Any, ...]]]

    def launch(self, i: int, stream: int) -> None:
        """Launch its kernels for a set."""
        for launch, values in zip(self.launches, self.values[i % len(self.values)], strict=True):
            launch(values, stream)


def tune(operator: Any, *args: Any, **named: Any) -> Config:
    """Return the fastest configuration of a call, and let later calls of equal facts use it.

    Args:
        operator: one of cute.ops that takes a configuration.
        args: its arguments, arrays of a GPU among them; their contents do not matter.
        named: the same, by name; without `config`.

    Each configuration that the operator would consider is compiled and measured in CUDA graphs, on
    operands of its own that the L2 cache does not hold (at most 150 MB, or one set); one whose
    result differs from that of the rule's choice cannot win. The result is stored for later
    processes (docs/kernels.md, Cache). `explain()` of the result lists what was measured. Where
    there is one configuration nothing is: the result is the rule's choice.

    Raises CuteError for arguments that `operator` does not take, and for arrays of the host.

    >>> import cute_py as cute
    >>> import numpy as np
    >>> a = np.ones((2, 2), np.float32)
    >>> tune(cute.ops.gemm, a, a)
    Traceback (most recent call last):
    cute_py.errors.CuteError: cute.tune: given operands on the host; required: ...
    """
    found: Operator | None = getattr(operator, "operator", None)
    if found is None or not found.configs:
        known = ", ".join(x.name for x in REGISTRY.values() if x.configs)
        facts: dict[str, Any] = {"name": "operator", "value": operator, "choices": known}
        raise refusal("ops-choice", operation="cute.tune", **facts)
    found, given = found.requested(*args, **named)
    request, library = found.taken(given)
    if library.on_host:
        raise refusal("ops-tune-host", operation="cute.tune")
    if request.config is not None:
        known = "None: the configuration is what is looked for"
        facts = {"name": "config", "value": request.config, "choices": known}
        raise refusal("ops-choice", operation="cute.tune", **facts)
    with library.inside():
        problem = found.problem(request, library)
        problem.require_some("cute.tune")
        if request.out is None:  # one for all
            problem.request = request._replace(out=library.empty(problem.shape, problem.kind))
        best, was_measured = fastest(problem, measured)
        key = key_of(problem.facts())
    if was_measured:
        store(key, best)
        found.known.clear()  # answers by the rule's choices
    return best  # type: ignore[no-any-return]


def fastest(
    problem: Problem, measure: Callable[[Sequence[Call]], Sequence[float]]
) -> tuple[Any, bool]:
    """Return the fastest of the configurations of a problem, by a function that measures calls in
    microseconds, and whether it had to: inf is a wrong result.
    """
    calls, refused = [], []
    candidates = problem.candidates()
    if len(candidates) == 1:
        return candidates[0][0], False
    for choice in candidates:
        try:
            call = problem.call(choice)
            for each in call.chain:
                each.known = each.plan()
            calls.append(call)
        except CuteError as error:  # what this problem cannot have
            refused.append(error)
    if not calls:
        raise refused[0]
    times = measure(calls)
    order = sorted(range(len(calls)), key=times.__getitem__)
    words = [f"{x:.4g} us" if x < inf else "another result" for x in times]
    lines = [f"measured: {words[i]}, {calls[i].config}" for i in order]
    return calls[order[0]].config.because(*lines), True


def measured(calls: Sequence[Call], rest: float = 0.0) -> list[float]:
    """Return the time of each call (microseconds); inf where its result differs from the first's.

    Args:
        calls: of the same arrays; all write the result to the same one.
        rest: seconds without work before each measurement, in which the clock recovers.

    Each call becomes a CUDA graph of many launches. They are replayed by turns, in a random order;
    the median counts. Those that are far from the fastest after the first rounds are left out.
    """
    with driver().inside(device_of(calls[0].result)):
        prepared = [[gpu()(x.plan(), x.leaves()) for x in call.chain] for call in calls]
        operands, stream = Operands(calls), driver().call("cuStreamCreate", 1)
        try:
            ready = [
                Ready(
                    [launch for launch, _values in each],
                    [
                        [
                            operands.values(x, values, i)
                            for x, (_launch, values) in zip(call.chain, each, strict=True)
                        ]
                        for i in range(operands.sets)
                    ],
                )
                for call, each in zip(calls, prepared, strict=True)
            ]
            right = same_results(ready, operands, stream)
            chosen = [x for x, same in zip(ready, right, strict=True) if same]
            times = iter(times_of(chosen, stream, rest))
            return [next(times) if same else inf for same in right]
        finally:
            driver().raw.cuStreamDestroy(stream)
            operands.free()


# -- operands


def _operands(call: Call) -> list[Any]:
    """Return the device arrays of a call, without what its kernels leave for each other."""
    between = {address_of(unwrapped(x)) for part in call.chain for x in part.between}
    given = [x for part in call.chain for x in part.leaves() if on_device(x)]
    return [x for x in given if address_of(unwrapped(x)) not in between]


class Operands:
    """Sets of arrays with the facts of those of some calls, and random elements, in memory of the
    current device. What kernels leave for each other stays where it is.

    Attributes:
        sets: how many; at least 1.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        """Allocate and fill them; fewer where the memory is short. The largest array at an address
        decides the type of the elements there.
        """
        found: dict[int, Any] = {}
        for x in (x for call in calls for x in _operands(call)):
            held = found.setdefault(address_of(unwrapped(x)), x)
            if span(unwrapped(held))[1] < span(unwrapped(x))[1]:
                found[address_of(unwrapped(x))] = x
        self.result = calls[0].result
        self.offsets, self.bytes = {}, 0
        for address, x in found.items():
            self.offsets[address] = self.bytes + address % LINES
            self.bytes += ceil((span(unwrapped(x))[1] + LINES) / LINES) * LINES
        self.sets = max(1, min(ceil(COLD / self.bytes), MOST_SETS))
        self.memory = self._allocated()
        first = -(-self.memory // LINES) * LINES
        self.starts = [first + i * self.bytes for i in range(self.sets)]
        for address, x in found.items():
            self._fill(first + self.offsets[address], span(unwrapped(x))[1], dtype_of(x))
        for start in self.starts[1:]:
            driver().call("cuMemcpyDtoD", start, first, self.bytes)
        driver().call("cuCtxSynchronize")

    def _allocated(self) -> int:
        while True:
            try:
                return int(driver().call("cuMemAlloc", self.sets * self.bytes + LINES))
            except CuteError:
                if self.sets == 1:
                    raise
                self.sets //= 2

    @staticmethod
    def _fill(address: int, bytes: int, kind: Dtype) -> None:
        elements = _random(kind)
        done = min(bytes, elements.nbytes)
        driver().call("cuMemcpyHtoD", address, elements.ctypes.data, done)
        while done < bytes:
            more = min(done, bytes - done)
            driver().call("cuMemcpyDtoD", address + done, address, more)
            done += more

    def values(self, call: Call, values: Sequence[Any], i: int) -> tuple[Any, ...]:
        """Return the values of a launch with the addresses of a set."""
        start = self.starts[i]
        return tuple(
            start + self.offsets.get(address_of(unwrapped(x)), value - start)
            if on_device(x)
            else value
            for x, value in zip(call.leaves(), values, strict=True)
        )

    def clear(self, i: int) -> None:
        """Fill the result of a set with bits that are no number of a float."""
        address = self.starts[i] + self.offsets[address_of(self.result)]
        driver().call("cuMemsetD8", address, 0xFF, span(self.result)[1])

    def read(self, i: int) -> Array:
        """Return rows of the result of a set: all, or of more than 16 MB every so many, which are
        an odd number: they are in different rows of the tiles.
        """
        x, size = self.result, bytes_each(self.result)
        width, pitch = (
            x.shape[1] * size,
            (strides_of(x)[0] if x.shape[0] > 1 else x.shape[1]) * size,
        )
        step = -(-span(x)[1] // COMPARED) | 1
        height = (span(x)[1] - width) // (pitch * step) + 1
        held, raw = np.empty((height, width), np.uint8), driver().raw
        copy = raw.CUDA_MEMCPY2D()
        copy.srcMemoryType = raw.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.dstMemoryType = raw.CUmemorytype.CU_MEMORYTYPE_HOST
        copy.srcDevice = self.starts[i] + self.offsets[address_of(x)]
        copy.dstHost = held.ctypes.data
        copy.srcPitch, copy.dstPitch = pitch * step, width
        copy.WidthInBytes, copy.Height = width, height
        driver().call("cuMemcpy2D", copy)
        return held.view(dtype_of(x).numpy)

    def free(self) -> None:
        """Free the memory."""
        driver().raw.cuMemFree(self.memory)


@lru_cache(maxsize=4)
def _random(kind: Dtype) -> Array:
    """Return random elements: normal numbers, or integers of 8 bits."""
    generator = np.random.default_rng(0)
    if kind.is_float:
        return np.asarray(convert(generator.standard_normal(RANDOM, np.float32), kind))
    low, high = (-128, 128) if kind.is_signed else (0, 256)
    return generator.integers(low, high, RANDOM).astype(kind.numpy)


# -- results


def same_results(ready: Sequence[Ready], operands: Operands, stream: Any) -> list[bool]:
    """Return of each call whether its result is that of the first."""

    def result(call: Ready) -> Array:
        operands.clear(0)
        driver().call("cuCtxSynchronize")
        call.launch(0, int(stream))
        driver().call("cuStreamSynchronize", stream)
        return operands.read(0)

    first, kind = result(ready[0]), dtype_of(operands.result)
    return [True, *[is_close(result(call), first, kind) for call in ready[1:]]]


def is_close(x: Array, y: Array, kind: Dtype) -> bool:
    """Tell whether two results agree: integers exactly, floats to their rounding and that of sums
    in another order.
    """
    if np.array_equal(x.view(f"u{x.itemsize}"), y.view(f"u{x.itemsize}")):
        return True
    if not kind.is_float:
        return False
    wide, wanted = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.sqrt(np.mean(wanted[np.isfinite(wanted)] ** 2)) if wanted.size else 0.0
        bound = SUMS * size + 2.0 ** (1 - kind.mantissa_bits) * np.abs(wanted)
        return bool(np.all((wide == wanted) | (np.abs(wide - wanted) <= bound)))


# -- times


def times_of(ready: Sequence[Ready], stream: Any, rest: float = 0.0) -> list[float]:
    """Return the times of calls that compute the same (microseconds): see `measured`."""
    by = driver().call
    events = [by("cuEventCreate", 0) for _ in range(2)]

    def timed(work: Callable[[], object]) -> float:
        by("cuEventRecord", events[0], stream)
        work()
        by("cuEventRecord", events[1], stream)
        by("cuEventSynchronize", events[1])
        return 1000 * float(by("cuEventElapsedTime", *events))

    graphs = [_graph(call, stream, timed) for call in ready]
    times: list[list[float]] = [[] for _ in graphs]
    generator, left = random.Random(0), list(range(len(graphs)))
    for i in range(ROUNDS):
        if i in CLOSE:
            middle = [median(x) for x in times]
            left = [j for j in left if middle[j] <= CLOSE[i] * min(middle)]
        for j in generator.sample(left, len(left)):
            time.sleep(rest)
            _, made, count = graphs[j]
            times[j].append(timed(partial(by, "cuGraphLaunch", made, stream)) / count)
    for graph, made, _count in graphs:
        by("cuGraphExecDestroy", made)
        by("cuGraphDestroy", graph)
    for event in events:
        by("cuEventDestroy", event)
    return [median(x) for x in times]


def _graph(call: Ready, stream: Any, timed: Callable[..., float]) -> tuple[Any, Any, int]:
    """Return a CUDA graph of launches over the sets in turn, it instantiated, and their number."""
    by, raw, number = driver().call, driver().raw, int(stream)

    def launch(count: int) -> None:
        for i in range(count):
            call.launch(i, number)

    launch(1)
    once = min(timed(lambda: launch(1)) for _ in range(2))
    count = max(min(MOST_LAUNCHES, int(GRAPH_US / max(once, 1.0))), 1)
    by("cuStreamBeginCapture", stream, raw.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    launch(count)
    graph = by("cuStreamEndCapture", stream)
    made = by("cuGraphInstantiate", graph, 0)
    by("cuGraphLaunch", made, stream)  # the first launch also uploads it
    return graph, made, count
