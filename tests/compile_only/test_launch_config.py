"""What the launcher asks of `cuda.bindings` is there, and a launch is described to it rightly."""

import ctypes
import re
from inspect import getsource
from types import SimpleNamespace

import numpy as np
import pytest

import cute_py as cute
from cute_py.codegen import driver as drivers
from cute_py.codegen.build import Resources
from cute_py.codegen.launch import launcher
from cute_py.codegen.launch.prepared import Prepared
from cute_py.plan import ops

bindings = pytest.importorskip("cuda.bindings.driver", reason="needs the extra `cuda`")


def words(pattern, *modules):
    return sorted({name for m in modules for name in re.findall(pattern, getsource(m))})


def launching():
    """Return a driver that describes launches, and starts none."""
    return SimpleNamespace(raw=bindings, count=1, launch=lambda *_args: None)


@pytest.mark.parametrize("name", words(r'"(cu[A-Z]\w+)"', drivers, launcher))
def test_functions_of_the_driver_exist(name):
    assert callable(getattr(bindings, name))


@pytest.mark.parametrize(
    "name", words(r'limit\(\s*device, f?"(\w+?)_?(?:\{\w+\})?"', drivers, launcher)
)
def test_attributes_of_devices_exist(name):
    known = [kind.name for kind in bindings.CUdevice_attribute]
    assert any(kind.startswith(f"CU_DEVICE_ATTRIBUTE_{name}") for kind in known)


@pytest.mark.parametrize("name", words(r'attribute\(function, "(\w+)"', launcher))
def test_attributes_of_kernels_exist(name):
    assert hasattr(bindings.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")


def test_numbers_of_statuses_are_those_of_the_driver():
    status = bindings.CUresult
    assert int(status.CUDA_ERROR_INVALID_CONTEXT) == drivers.INVALID_CONTEXT
    assert int(status.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) in drivers.CAPTURING
    assert int(status.CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) in drivers.CAPTURING
    lasting = ("ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "LAUNCH_FAILED", "ASSERT")
    assert {int(getattr(status, f"CUDA_ERROR_{name}")) for name in lasting} <= drivers.STICKY


def test_a_launch_is_described_to_the_driver():
    @cute.kernel
    def clustered(x):
        cute.launch(grid=(8, 2, 1), block=(32, 4), cluster=(2, 1, 1))
        tile = cute.smem("f32", 64)
        tile[0] = 1.0

    plan = cute.trace(clustered, np.zeros(8, np.float32))
    prepared = Prepared(
        launching(),
        SimpleNamespace(plan=plan),
        None,
        0,
        (8, 2, 1),
        ["address", "integer"],
        {1: 8},
        lambda: 0,
        lambda: 0,
    )
    config = prepared._block().config
    assert (config.gridDimX, config.gridDimY, config.gridDimZ) == (8, 2, 1)
    assert (config.blockDimX, config.blockDimY, config.blockDimZ) == (32, 4, 1)
    assert config.sharedMemBytes == 256
    (attribute,) = config.attrs
    cluster = attribute.value.clusterDim
    assert (cluster.x, cluster.y, cluster.z) == (2, 1, 1)
    config.hStream = 7
    assert int(config.hStream) == 7


def test_the_driver_is_called_by_its_address_with_what_was_described(monkeypatch):
    """A function in place of the driver's own reads what it is given, by the header's layout."""
    seen = []

    class Config(ctypes.Structure):  # CUlaunchConfig of cuda.h
        _fields_ = [(x, ctypes.c_uint) for x in ("gx", "gy", "gz", "bx", "by", "bz", "smem")]
        _fields_ += [("stream", ctypes.c_void_p), ("attrs", ctypes.c_void_p), ("n", ctypes.c_uint)]

    @ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
    def launched(config, function, parameters, extra):
        held = Config.from_address(config)
        grid = held.gx, held.gy, held.gz
        places = (ctypes.c_void_p * 3).from_address(parameters)
        words = [ctypes.c_int64.from_address(place).value for place in places]
        seen.append((grid, held.bx, held.smem, held.stream, held.n, function, words, extra))
        return 700 if held.stream == 9 else 0

    address = ctypes.cast(launched, ctypes.c_void_p).value
    answers = {"cuInit": (), "cuDeviceGetCount": (1,), "cuGetProcAddress": (address, 0)}
    for name, answer in answers.items():
        monkeypatch.setattr(bindings, name, lambda *_args, answer=answer: (0, *answer))

    @cute.kernel
    def clustered(x):
        cute.launch(grid=(8, 2, 1), block=32, cluster=(2, 1, 1))
        tile = cute.smem("f32", 64)
        tile[0] = 1.0

    plan = cute.trace(clustered, np.zeros(8, np.float32))
    compiled = SimpleNamespace(plan=plan, resources=Resources(32, 0, 0, 256), arch="sm_90a")
    kinds, fixed = ["address", "integer", "integer"], {1: 8, 2: -1}
    driver, function = drivers.Driver(bindings), bindings.CUfunction(0x5000)
    stream, current = (lambda: 7), (lambda: 0)
    prepared = Prepared(driver, compiled, function, 0, (8, 2, 1), kinds, fixed, stream, current)
    prepared.go((4096,))
    prepared([1 << 40], stream=(1 << 33) + 1)
    described = (8, 2, 1), 32, 256
    assert seen == [
        (*described, 7, 1, 0x5000, [4096, 8, -1], None),
        (*described, (1 << 33) + 1, 1, 0x5000, [1 << 40, 8, -1], None),
    ]
    with pytest.raises(cute.CuteError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        prepared([0], stream=9)


def test_an_overlapping_launch_is_described_to_the_driver():
    @cute.kernel
    def overlapping(x):
        cute.launch(grid=8, block=32, pdl=True)
        cute.griddepcontrol_wait()
        cute.griddepcontrol_launch_dependents()
        x[cute.thread_idx()] = 1

    plan = cute.trace(overlapping, np.zeros(32, np.float32))
    compiled = cute.compile(plan, "sm_90a")
    kinds = ["address"]
    prepared = Prepared(launching(), compiled, None, 0, (8, 1, 1), kinds, {}, lambda: 0, lambda: 0)
    (attribute,) = prepared._block().config.attrs
    named = bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    assert attribute.id == named
    assert attribute.value.programmaticStreamSerializationAllowed == 1
    order = [compiled.ptx.index(x) for x in ("griddepcontrol.wait", "launch_dependents", "st.glob")]
    assert order == sorted(order)
    assert "griddepcontrol" not in cute.compile(plan, "sm_89").ptx


def test_maps_are_encoded_and_moved_by_the_addresses_of_the_driver(monkeypatch):
    """By the parameters of cuTensorMapEncodeTiled and cuTensorMapReplaceAddress in cuda.h."""
    seen, pointer, word = [], ctypes.c_void_p, ctypes.c_int

    @ctypes.CFUNCTYPE(word, pointer, word, ctypes.c_uint32, *[pointer] * 5, *[word] * 4)
    def encode(place, kind, rank, address, extents, pitches, box, steps, *modes):
        wide = [(ctypes.c_uint64 * n).from_address(p) for n, p in ((2, extents), (1, pitches))]
        narrow = [(ctypes.c_uint32 * 2).from_address(p) for p in (box, steps)]
        seen.append((place % 64, kind, rank, address, *map(list, (*wide, *narrow)), modes))
        ctypes.memset(place, 7, 128)
        return 0 if kind == 6 else 1

    kinds = [*[pointer] * 4, ctypes.c_uint32, ctypes.c_uint32, pointer, *[word] * 4]

    @ctypes.CFUNCTYPE(word, pointer, word, ctypes.c_uint32, pointer, *kinds)
    def encode_im2col(
        place, kind, rank, address, extents, pitches, lower, upper, channels, pixels, steps, *modes
    ):
        wide = [(ctypes.c_uint64 * n).from_address(p) for n, p in ((4, extents), (3, pitches))]
        corners = [(ctypes.c_int * 2).from_address(p) for p in (lower, upper)]
        each = (ctypes.c_uint32 * 4).from_address(steps)
        seen.append((kind, rank, address, *map(list, (*wide, *corners, each)), channels, pixels))
        seen.append(modes)
        ctypes.memset(place, 9, 128)
        return 0

    @ctypes.CFUNCTYPE(word, pointer, pointer)
    def move(place, address):
        ctypes.c_uint64.from_address(place).value = address
        return 0

    functions = {
        b"cuTensorMapEncodeTiled": encode,
        b"cuTensorMapEncodeIm2col": encode_im2col,
        b"cuTensorMapReplaceAddress": move,
    }

    def address_of(name, _version, _flags):
        return 0, ctypes.cast(functions[name], pointer).value, 0

    monkeypatch.setattr(bindings, "cuInit", lambda _flags: (0,))
    monkeypatch.setattr(bindings, "cuGetProcAddress", address_of)
    driver = drivers.Driver(bindings)
    content = (136, 70), (272,), (64, 32), 3
    assert driver.encode_map(6, *content, 1 << 40) == b"\7" * 128
    assert seen == [(0, 6, 2, 1 << 40, [136, 70], [272], [64, 32], [1, 1], (0, 3, 2, 0))]
    with pytest.raises(cute.CuteError) as caught:
        driver.encode_map(7, *content, 16)
    assert caught.value.code == "launch-status"
    walk = ops.Im2col((-1, -2), (-3, 4), (2, 1))
    content = (32, 12, 9, 2), (64, 768, 6912), (32, 64, 1, 1), 2
    assert driver.encode_map(6, *content, 4096, walk) == b"\11" * 128
    array = [32, 12, 9, 2], [64, 768, 6912]
    corners = [-1, -2], [-3, 4], [1, 2, 1, 1]
    assert seen[-2:] == [(6, 4, 4096, *array, *corners, 32, 64), (0, 2, 2, 0)]
    memory = ctypes.c_uint64(0)
    assert driver.replace_address(ctypes.addressof(memory), (1 << 40) + 16) == 0
    assert memory.value == (1 << 40) + 16
