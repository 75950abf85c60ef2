"""How `cute.tune` measures, on a driver that keeps memory, graphs and a clock: on cold operands of
its own, and never a call whose result differs from the first's.
"""

import ctypes
from math import inf
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from cute_py.ops import measurement
from cute_py.ops.measurement import COLD, MOST_SETS, is_close, measured
from tests import fake_gpu

M, N, K = 64, 48, 32
ADDRESSES = (1 << 20) + 16, (2 << 20) + 48, 3 << 20


class Memory(fake_gpu.Raw):
    """A driver with memory; a launch takes its time, and does its work at once."""

    def __init__(self):
        super().__init__()
        self.held, self.time, self.events, self.graph, self.rounds = {}, 0.0, {}, None, []
        self.rows = []
        self.most = 1 << 40
        self.CUstreamCaptureMode = self.CUmemorytype = fake_gpu.Names()

    def do_cuStreamCreate(self, _flags):
        return 7

    def cuMemAlloc(self, size):
        if size > self.most:
            return (fake_gpu.Status.CUDA_ERROR_OUT_OF_MEMORY,)
        buffer = ctypes.create_string_buffer(size)
        address = ctypes.addressof(buffer)
        self.held[address] = buffer
        return (fake_gpu.Status.CUDA_SUCCESS, address)

    def do_cuMemFree(self, address):
        del self.held[address]

    def _require(self, address, size):
        assert any(x <= address and address + size <= x + len(b) for x, b in self.held.items())

    def do_cuMemcpyHtoD(self, to, out, size):
        self._require(to, size)
        ctypes.memmove(to, out, size)

    def CUDA_MEMCPY2D(self):
        return SimpleNamespace()

    def do_cuMemcpy2D(self, copy):
        assert copy.srcPitch >= copy.WidthInBytes == copy.dstPitch
        for i in range(copy.Height):
            out = copy.srcDevice + i * copy.srcPitch
            self._require(out, copy.WidthInBytes)
            ctypes.memmove(copy.dstHost + i * copy.dstPitch, out, copy.WidthInBytes)
        self.rows.append(copy.Height)

    def do_cuMemcpyDtoD(self, to, out, size):
        self._require(to, size)
        self._require(out, size)
        ctypes.memmove(to, out, size)

    def do_cuMemsetD8(self, address, value, size):
        self._require(address, size)
        ctypes.memset(address, value, size)

    def do_cuEventCreate(self, _flags):
        self.events[len(self.events)] = 0.0
        return len(self.events) - 1

    def do_cuEventRecord(self, event, _stream):
        self.events[event] = self.time

    def do_cuEventElapsedTime(self, first, last):
        return (self.events[last] - self.events[first]) / 1000

    def do_cuStreamBeginCapture(self, _stream, _mode):
        self.graph = []

    def do_cuStreamEndCapture(self, _stream):
        graph, self.graph = self.graph, None
        return graph

    def do_cuGraphInstantiate(self, graph, _flags):
        return graph

    def do_cuGraphLaunch(self, graph, _stream):
        self.rounds.append(graph)
        self.time += sum(us for us, _values in graph)


def matrix(address, shape, dtype):
    """Return the matrix at an address of the driver's memory."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    held = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(held, dtype).reshape(shape)


class World:
    """Arrays of a product a @ b.T, and calls of it."""

    def __init__(self, monkeypatch, dtype=ml_dtypes.bfloat16):
        self.fake = fake_gpu.install(monkeypatch)
        self.raw, self.dtype = Memory(), np.dtype(dtype)
        self.driver = fake_gpu.Launching(self.raw)
        monkeypatch.setattr(measurement, "driver", lambda: self.driver)
        shapes = (M, K), (N, K), (M, N)
        pairs = zip(shapes, ADDRESSES, strict=True)
        self.arrays = [fake_gpu.Array(s, self.dtype, address=x) for s, x in pairs]
        monkeypatch.setattr(measurement, "gpu", lambda: self.prepare)
        self.launched = []

    def call(self, us, spoil=lambda d: None):
        plan = SimpleNamespace(us=us, spoil=spoil)
        leaves = [*self.arrays, 1.0, 5]
        return self.alone(plan=lambda: plan, leaves=lambda: leaves, result=self.arrays[2])

    @staticmethod
    def alone(**facts):
        """Return a call that no other one is run before."""
        made = SimpleNamespace(**facts, between=())
        made.chain = (made,)
        return made

    def prepare(self, plan, leaves):
        def launch(values):
            assert values[3:] == (1.0, 5)
            self.launched.append(values[:3])
            if self.raw.graph is not None:
                self.raw.graph.append((plan.us, values))
                return
            self.raw.time += plan.us
            wide = np.int32 if self.dtype.kind == "i" else np.float32
            a, b, d = (
                matrix(x, s.shape, self.dtype) for x, s in zip(values, self.arrays, strict=False)
            )
            d[...] = (a.astype(wide) @ b.astype(wide).T).astype(self.dtype)
            plan.spoil(d)

        return fake_gpu.Launched(launch), [*ADDRESSES, 1.0, 5]


def one_wrong(d):
    d[M - 1, N - 1] = d[M - 1, N - 1] * 2 + 1


def one_left_out(d):
    d.view(np.uint16)[3, 5] = 0xFFFF


def test_times_are_those_of_a_launch(monkeypatch):
    world = World(monkeypatch)
    assert measured([world.call(us) for us in (30.0, 20.0, 25.0)]) == pytest.approx([30, 20, 25])
    assert not world.raw.held, "all memory is freed"


@pytest.mark.parametrize("spoil", [one_wrong, one_left_out])
def test_a_wrong_result_has_no_time(monkeypatch, spoil):
    world = World(monkeypatch)
    assert measured([world.call(30.0), world.call(1.0, spoil)]) == [pytest.approx(30), inf]


def test_sums_in_another_order_are_right(monkeypatch):
    def rounded(d):
        d[...] = (d.astype(np.float32) * (1 + 2.0**-8)).astype(d.dtype)

    world = World(monkeypatch)
    assert measured([world.call(30.0), world.call(20.0, rounded)]) == pytest.approx([30, 20])


def test_integers_are_compared_exactly(monkeypatch):
    def off(d):
        d[0, 0] += 1

    world = World(monkeypatch, np.int8)
    times = measured([world.call(30.0), world.call(20.0, off), world.call(25.0)])
    assert times == [pytest.approx(30), inf, pytest.approx(25)]


def test_launches_of_a_graph_use_sets_in_turn(monkeypatch):
    """No set is used again before all others have been; addresses keep their place in a line."""
    world = World(monkeypatch)
    measured([world.call(10.0)])
    used = [values[:3] for _us, values in world.raw.rounds[0]]
    bytes = sum(np.prod(x.shape) * x.dtype.itemsize for x in world.arrays)
    assert len(set(used)) == len(used[:MOST_SETS]) == min(MOST_SETS, -(-COLD // bytes))
    assert used == [used[i % MOST_SETS] for i in range(len(used))]
    for values in used:
        assert [x % 256 for x in values] == [x % 256 for x in ADDRESSES]


def test_operands_are_random_in_every_set(monkeypatch):
    world = World(monkeypatch)
    seen = []

    def look(plan, leaves):
        launch, values = World.prepare(world, plan, leaves)

        def go(values):
            seen.append([matrix(values[i], world.arrays[i].shape, world.dtype) for i in (0, 1)])
            seen[-1] = [x.astype(np.float32) for x in seen[-1]]
            launch.go(values)

        return fake_gpu.Launched(go), values

    monkeypatch.setattr(measurement, "gpu", lambda: look)
    measured([world.call(10.0)])
    for a, b in seen:
        assert 0.8 < a.std() < 1.2 > b.std() > 0.8
        assert len(np.unique(a, axis=0)) == M


def test_those_far_from_the_fastest_are_left_out_early(monkeypatch):
    world = World(monkeypatch)
    times = measured([world.call(us) for us in (10.0, 10.5, 12.0, 50.0)])
    assert times == pytest.approx([10, 10.5, 12, 50])
    replays = [round(graph[0][0], 3) for graph in world.raw.rounds]
    assert [replays.count(us) for us in (10.0, 10.5, 12.0, 50.0)] == [10, 10, 4, 2], (
        "one more to upload"
    )


@pytest.mark.parametrize("first", ["small", "large"])
def test_the_largest_array_at_an_address_has_room(monkeypatch, first):
    """A is the first rows of B, as in `gemm(x[:8], x.T)`."""
    world = World(monkeypatch)
    small, large, d = (
        fake_gpu.Array(shape, world.dtype, address=address)
        for shape, address in (((8, K), 4096), ((N, K), 4096), ((8, N), 1 << 20))
    )
    leaves = [small, large, d] if first == "small" else [large, small, d]
    call = world.alone(leaves=lambda: leaves, result=d)
    operands = measurement.Operands([call])
    begin, end = (operands.offsets[address] for address in (4096, 1 << 20))
    assert end >= begin + 2 * N * K
    assert operands.bytes >= end + 2 * 8 * N
    b = matrix(operands.starts[-1] + begin, (N, K), world.dtype).astype(np.float32)
    assert len(np.unique(b, axis=0)) == N
    operands.free()


def test_short_memory_gives_fewer_sets(monkeypatch):
    world = World(monkeypatch)
    world.raw.most = 200_000
    assert measured([world.call(10.0)]) == pytest.approx([10])
    assert 1 < len({values for _us, values in world.raw.rounds[0]}) < MOST_SETS
    world.raw.most = 100
    with pytest.raises(cute.CuteError) as caught:
        measured([world.call(10.0)])
    assert caught.value.code == "launch-status"
    assert not world.raw.held


def test_some_rows_of_a_large_result_are_compared(monkeypatch):
    """Every so many, an odd number: a tile that is wrong has rows among them."""

    def tile(d):
        d[16:32, 8:] = 0

    world = World(monkeypatch)
    monkeypatch.setattr(measurement, "COMPARED", M * N * 2 // 4)
    assert measured([world.call(30.0), world.call(1.0, tile)]) == [pytest.approx(30), inf]
    assert set(world.raw.rows) == {-(-M // 5)}


def test_infinities_and_equal_bits_agree():
    x = np.array([1.0, np.inf, -np.inf, np.nan], np.float32)
    assert is_close(x, x.copy(), cute.dtype("f32"))
    assert is_close(x[:3], x[:3] * np.float32(1 + 2**-22), cute.dtype("f32"))
    assert not is_close(x, -x, cute.dtype("f32"))


def test_all_kernels_of_a_call_are_timed_with_what_they_leave_for_each_other(monkeypatch):
    """Parts of K, and their sums: the array between them is the call's own in each set."""
    world = World(monkeypatch)
    second = world.call(5.0)
    parts = fake_gpu.Array((M, N), np.float32, address=1 << 40)
    first = world.alone(plan=lambda: SimpleNamespace(us=20.0), leaves=lambda: [parts, 1.0])
    second.chain, second.between = (first, second), (parts,)
    seen = []

    def prepare(plan, leaves):
        if plan.us != 20.0:
            return world.prepare(plan, leaves)

        def launch(values):
            seen.append(values)
            world.raw.time += 20.0
            if world.raw.graph is not None:
                world.raw.graph.append((20.0, values))

        return fake_gpu.Launched(launch), [1 << 40, 1.0]

    monkeypatch.setattr(measurement, "gpu", lambda: prepare)
    assert measured([second, world.call(30.0)]) == pytest.approx([25, 30])
    assert set(seen) == {(1 << 40, 1.0)}
