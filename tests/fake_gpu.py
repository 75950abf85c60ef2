"""A GPU that is none: arrays of a registered library, and a driver that writes down its calls.

With it the launcher runs without a device: each launch is kept as (device, grid, stream, values).
"""

import ctypes
import enum
import threading
from types import SimpleNamespace

import numpy as np

from cute_py.calls import arrays
from cute_py.codegen.build import Compiled, Resources
from cute_py.codegen.driver import Driver

GRAD = ("requires_grad",)


class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_ECC_UNCORRECTABLE = 214
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900


class Names:
    """An enumeration of the driver: each name stands for itself."""

    def __getattr__(self, name):
        return name


LIMITS = {
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "MULTIPROCESSOR_COUNT": 132,
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
}


class Raw:
    """Stands in for `cuda.bindings.driver`."""

    CUresult = Status
    CUdevice_attribute = CUfunction_attribute = CUpointer_attribute = CUlaunchAttributeID = Names()

    def __init__(self):
        self.stack = threading.local()
        self.launches, self.calls = [], []
        self.answers = {}  # of a function: statuses to give, one a call
        self.attributes = {"MAX_THREADS_PER_BLOCK": 1024}
        self.capturing, self.clusters = False, 66
        self.memory = {}  # address -> device
        self.counts = {}  # of each parameter of a kernel, the entries if it is a table, else 0

    def contexts(self):
        if not hasattr(self.stack, "held"):
            self.stack.held = [0]
        return self.stack.held

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args):
            self.calls.append((name, *args))
            left = self.answers.get(name)
            if left and (status := left.pop(0)):
                return (Status(status),)
            done = getattr(self, f"do_{name}", lambda *_args: None)(*args)
            return (Status.CUDA_SUCCESS, done)

        return call

    def do_cuDeviceGetCount(self):
        return 2

    def do_cuDeviceGet(self, n):
        return n

    def do_cuDeviceGetAttribute(self, kind, _device):
        return LIMITS[kind.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def do_cuFuncGetAttribute(self, kind, _function):
        return self.attributes.get(kind.removeprefix("CU_FUNC_ATTRIBUTE_"), 0)

    def do_cuDevicePrimaryCtxRetain(self, device):
        return device

    def do_cuCtxGetDevice(self):
        return self.contexts()[-1]

    def do_cuCtxPushCurrent(self, context):
        self.contexts().append(context)

    def do_cuCtxPopCurrent(self):
        return self.contexts().pop()

    def do_cuCtxSetCurrent(self, context):
        self.contexts()[-1] = context

    def do_cuModuleLoadData(self, cubin):
        return cubin

    def do_cuModuleGetFunction(self, _module, name):
        return name

    def do_cuOccupancyMaxActiveClusters(self, _function, config):
        (cluster,) = [
            a.value.clusterDim for a in config.attrs if a.id.endswith("_CLUSTER_DIMENSION")
        ]
        # as the driver, which answers CUDA_ERROR_INVALID_CLUSTER_SIZE
        assert config.gridDimX > 0
        assert config.gridDimX % cluster.x == 0
        return self.clusters

    def do_cuOccupancyMaxActiveBlocksPerMultiprocessor(self, _function, threads, _smem):
        return 2048 // threads

    def do_cuStreamIsCapturing(self, _stream):
        return int(self.capturing)

    def do_cuPointerGetAttribute(self, _kind, address):
        return self.memory.get(address, -1)

    def CUlaunchConfig(self):
        return SimpleNamespace(hStream=0, attrs=[], numAttrs=0)

    def CUlaunchAttribute(self):
        return SimpleNamespace()

    def CUlaunchAttributeValue(self):
        return SimpleNamespace(clusterDim=SimpleNamespace())

    def cuLaunchKernelEx(self, config, function, address, _extra):
        left = self.answers.get("cuLaunchKernelEx")
        if left and (status := left.pop(0)):
            return (Status(status),)
        sizes = self.counts[function]
        pointers = (ctypes.c_void_p * len(sizes)).from_address(address)
        words = [_read(p, n) for p, n in zip(pointers, sizes, strict=True)]
        grid = config.gridDimX, config.gridDimY, config.gridDimZ
        self.launches.append((self.contexts()[-1], grid, config.hStream, words))
        return (Status.CUDA_SUCCESS,)


def _read(address, entries):
    """Return the value of a parameter, or the entries of a table."""
    read = [ctypes.c_uint64.from_address(address + 8 * i).value for i in range(entries or 1)]
    return read if entries else read[0]


class Launching(Driver):
    """A driver whose launches are calls of `Raw`."""

    def launch(self, config, function, parameters):
        return lambda: int(self.raw.cuLaunchKernelEx(config, function, parameters, 0)[0])

    def encode_map(self, *content):
        """A tensor map begins with the address, and ends with its number."""
        self.raw.calls.append(("encode_map", *content))
        number = len([call for call in self.raw.calls if call[0] == "encode_map"])
        return content[5].to_bytes(8, "little") + number.to_bytes(120, "big")

    @property
    def replace_address(self):
        return self._replace_address

    def _replace_address(self, place, address):
        self.raw.calls.append(("replace_address", address))
        left = self.raw.answers.get("replace_address")
        ctypes.c_uint64.from_address(place).value = address
        return left.pop(0) if left else 0


class Array:
    """A device array of a library that tests register: NumPy's facts, no memory."""

    def __init__(self, shape, dtype=np.float32, strides=None, address=4096, device=0):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.itemsize = self.dtype.itemsize
        plain = np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape).strides
        compact = np.empty(shape, dtype).strides if np.prod(shape) < 10**6 else plain
        self.strides = compact if strides is None else strides
        self.address, self.device = address, device

    is_cuda, requires_grad, is_nested = True, False, False

    def is_neg(self):
        return False


def _facts(x):
    own = type(x) is Array
    return own and (x.dtype, x.shape, x.strides, x.device, x.is_neg(), x.requires_grad)


class Launched:
    """A prepared launch that is a function of a test."""

    def __init__(self, go):
        self.go = go

    def __call__(self, values, stream=None):
        self.go(values)


class Fake:
    """The machine: its driver, and the stream that is current in the library of `Array`."""

    def __init__(self, guarded=False):
        self.raw, self.stream, self.guards = Raw(), 0, 0
        self.library = arrays.Library(
            "fake",
            ("address",),
            (*[(x,) for x in ("dtype", "shape", "strides", "device")], ("is_neg", "()"), GRAD),
            lambda x: x.device,
            lambda device: lambda: self.stream,
            lambda: self.raw.contexts()[-1],
            self.guard if guarded else None,
            lambda x, shape: Array(shape, np.int64, address=1 << 20, device=x.device),
            lambda x, first, rows: self.written.append((x, first, rows)),
        )
        self.written = []  # rows of tables of pointers: (table, first row, rows)

    def guard(self, given):
        """Stand in for torch's guards; counts those that are made."""
        self.guards += 1
        wanted = [_facts(x) for x in given]
        return lambda *others: [_facts(x) for x in others] == wanted

    def compiled(self, plan, arch="sm_90a", spills=0):
        from cute_py.codegen.printer import parameters

        entry = f"{plan.name}_{len(self.raw.counts)}"
        rows = iter(plan.launch.tables)
        counts = [len(next(rows)) if kind == "table" else 0 for _, kind in parameters(plan)]
        self.raw.counts[entry.encode()] = counts
        return Compiled(plan, arch, entry, "", "", b"", Resources(32, 0, 0, plan.smem_bytes), "")


def install(monkeypatch, guarded=False):
    """Return a machine on which `cute.run` and kernels launch; `guarded`: its library has guards
    that tell whether arrays are alike.
    """
    from cute_py.codegen.driver import streams
    from cute_py.codegen.launch import launcher, run

    fake = Fake(guarded)
    driver = Launching(fake.raw)
    for module in (launcher, streams, run):
        monkeypatch.setattr(module, "driver", lambda: driver)
    monkeypatch.setattr(run, "compile", fake.compiled)
    monkeypatch.setattr(run, "_launchers", {})
    monkeypatch.setattr(run, "_compiled", {})
    monkeypatch.setitem(arrays.LIBRARIES, Array, fake.library)
    monkeypatch.setitem(arrays.READERS, Array, fake.library.reader())
    return fake
