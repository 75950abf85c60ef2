"""What the launcher asks of `cuda.bindings` is there, and a launch is described to it rightly."""

import re
from inspect import getsource
from types import SimpleNamespace

import numpy as np
import pytest

import cute_py as cute
from cute_py.codegen.driver import driver as drivers
from cute_py.codegen.launch import launcher, limits
from cute_py.codegen.launch.prepared import Prepared

bindings = pytest.importorskip("cuda.bindings.driver", reason="needs the extra `cuda`")


def words(pattern, *modules):
    return sorted({name for m in modules for name in re.findall(pattern, getsource(m))})


def launching():
    """Return a driver that describes launches, and starts none."""
    return SimpleNamespace(raw=bindings, count=1, launch=lambda *_args: None)


@pytest.mark.parametrize("name", words(r'"(cu[A-Z]\w+)"', drivers, launcher, limits))
def test_functions_of_the_driver_exist(name):
    assert callable(getattr(bindings, name))


@pytest.mark.parametrize(
    "name", words(r'limit\(\s*device, f?"(\w+?)_?(?:\{\w+\})?"', drivers, limits)
)
def test_attributes_of_devices_exist(name):
    known = [kind.name for kind in bindings.CUdevice_attribute]
    assert any(kind.startswith(f"CU_DEVICE_ATTRIBUTE_{name}") for kind in known)


@pytest.mark.parametrize("name", words(r'attribute\(function, "(\w+)"', limits))
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
