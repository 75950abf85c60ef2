"""Arrays of NumPy that pass for a GPU's, with what `cute.ops.gemm` asks of CuPy and of the driver.

With them the operator goes its whole way on a machine without a GPU; what it would launch is kept.
"""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np

import cute_py as cute
from cute_py.calls import arrays, backends
from cute_py.codegen.driver import streams
from cute_py.dtypes.conversion import strided
from cute_py.kernels.gemm import gemm
from cute_py.kernels.gemm_sm90 import KERNELS
from cute_py.ops import gemm_tiles_sm90, libraries, product
from tests import fake_gpu


class OnGpu(np.ndarray):
    """An array of the host that says of itself to lie on a GPU."""

    is_cuda = True
    device, address = nullcontext(), 4096


def on_gpu(rows, columns, kind, major, host=False):
    """Return zeros (rows, columns), whose columns or rows (K or MN) are contiguous."""
    kind = cute.dtype(kind)
    shape = (rows, columns) if major == "K" else (columns, rows)
    x = np.zeros(shape, kind.numpy).view(np.ndarray if host else OnGpu)
    x = x if major == "K" else x.swapaxes(0, 1)
    return cute.typed(x, kind) if kind.name == "tf32" else x


def _spread(x, shape):
    """Return a view with modes of size 1 repeated; the others keep their strides, as in CuPy."""
    more = len(shape) - x.ndim
    sizes = zip(x.shape, shape[more:], x.strides, strict=True)
    strides = (0,) * more + tuple(step if n == m else 0 for n, m, step in sizes)
    return strided(x, shape, strides).view(type(x))


def small_tiles(monkeypatch):
    """Let the rule for Hopper choose among small tiles, which are traced in less time."""
    monkeypatch.setattr(gemm_tiles_sm90, "ROWS", gemm_tiles_sm90.ROWS[:2])


def install(monkeypatch, gpu):
    """Return the list that plans are added to which kernels launch on a GPU of these facts."""
    fake, launched = fake_gpu.install(monkeypatch), []
    facts, stream = (("dtype",), ("shape",), ("strides",)), fake.library.stream
    library = arrays.Library("fake", ("address",), facts, lambda x: 0, stream, lambda: 0)
    monkeypatch.setitem(arrays.LIBRARIES, OnGpu, library)
    monkeypatch.setitem(arrays.READERS, OnGpu, library.reader())
    cupy = SimpleNamespace(
        empty=lambda shape, kind: np.empty(shape, kind).view(OnGpu),
        broadcast_to=_spread,
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(libraries, "driver", lambda: streams.driver())
    limits = {
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": gpu.smem,
        "MULTIPROCESSOR_COUNT": gpu.multiprocessors,
        "COMPUTE_CAPABILITY_MAJOR": gpu.capability[0],
        "COMPUTE_CAPABILITY_MINOR": gpu.capability[1],
    }
    for name, value in limits.items():
        monkeypatch.setitem(fake_gpu.LIMITS, name, value)

    def prepare(plan, leaves):
        launched.append(plan)
        return fake_gpu.Launched(lambda _values: None), []

    for kernel in (gemm, *KERNELS.values()):
        monkeypatch.setattr(kernel, "_calls", None)  # what was prepared for another test
    product.KNOWN.clear()
    monkeypatch.setattr(backends, "prepare", [prepare])
    return launched
