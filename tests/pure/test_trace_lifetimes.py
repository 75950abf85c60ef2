"""What a trace leaves behind: nothing that holds its caller's arrays until a garbage collection."""

import gc
import weakref

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm import gemm
from cute_py.kernels.gemm_sm90 import KERNELS
from cute_py.ops import product
from tests.hopper_family import HALVES, arguments, call_of
from tests.hopper_family import trace as trace_of


class Held:
    """What a frame of the caller refers to, as it does to arrays."""


def alive_after(call):
    """Return whether what the caller of a call refers to is alive afterwards, uncollected."""

    def caller():
        held = Held()
        found = weakref.ref(held)
        call()
        return found

    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        return caller()() is not None
    finally:
        if enabled:
            gc.enable()


def loop(x):
    cute.launch(grid=1, block=32)
    for i in cute.range(x.shape[0]):
        x[i] = x[i] + 1.0


def branches(x):
    cute.launch(grid=1, block=32)
    with cute.when(cute.thread_idx() < 16):
        x[cute.thread_idx()] = 1.0
    with cute.otherwise():
        x[cute.thread_idx()] = 2.0


def roles(x):
    cute.launch(grid=1, block=64)
    with cute.role("one", warps=0):
        x[cute.thread_idx()] = 1.0
    with cute.role("other", warps=1):
        cute.syncwarp()


def tried_layouts(x):
    """The widest vector is found by trying: the tracer refuses what is too wide."""
    cute.launch(grid=1, block=1)
    part = cute.local_tile(cute.composition(x, cute.make_layout((8, 8), (8, 1))), (2, 4), (0, 0))
    cute.copy(part, cute.make_fragment_like(part))


def refused(x):
    cute.launch(grid=1, block=32)
    if x[0] > 0:
        x[0] = 1.0


@pytest.mark.parametrize("kernel", [loop, branches, roles, tried_layouts])
def test_a_trace_holds_no_frame(kernel):
    assert not alive_after(lambda: cute.trace(cute.kernel(kernel), np.zeros(64, np.float32)))


def test_a_refused_trace_holds_no_frame():
    def call():
        with pytest.raises(cute.CuteError):
            cute.trace(cute.kernel(refused), np.zeros(64, np.float32))

    assert not alive_after(call)


def forget_plans(monkeypatch, kernel):
    """Let the next call trace the kernel, which another test may have called alike."""
    monkeypatch.setattr(kernel, "plans", {})
    monkeypatch.setattr(kernel, "_calls", None)
    product.KNOWN.clear()


def test_the_first_product_of_a_kind_holds_no_operand(monkeypatch):
    """Its kernel is traced in the call."""
    forget_plans(monkeypatch, gemm)
    rng = np.random.default_rng(0)
    a, b = (rng.random((16, 16)).astype(np.float32) for _ in range(2))

    def call():
        cute.ops.gemm(a, b, activation="silu", bias=b[0], alpha=0.5)

    assert not alive_after(call)
    assert gemm.plans


def test_a_kernel_for_hopper_holds_no_frame(monkeypatch):
    forget_plans(monkeypatch, KERNELS["cooperative"])
    config, last = HALVES["64x32-pdl"], LinearCombination()
    arrays, _exact = arguments(config, (64, 32, 64), "bf16", last)
    assert not alive_after(lambda: trace_of(config, *call_of(config, arrays, last)))
