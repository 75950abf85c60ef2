"""The self-tests of `cute-py doctor` on a GPU, erf and gelu there; no array library is needed."""

import math

import numpy as np
import pytest

import cute_py as cute
from cute_py.cli.main import main
from cute_py.codegen.device_memory import DeviceArray
from cute_py.codegen.driver import driver
from tests.gpu.harness import DRY

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

pytestmark = pytest.mark.skipif(bool(DRY), reason="needs an NVIDIA GPU, nothing here runs dry")
COUNT = 1 << 20


@cute.kernel
def erf_of(x, y):
    cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
    i = cute.block_idx() * 128 + cute.thread_idx()
    y[i] = cute.erf(x[i])


@cute.kernel
def gelu_of(x, y):
    cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
    i = cute.block_idx() * 128 + cute.thread_idx()
    y[i] = cute.gelu(x[i])


def on_gpu(x, kernel=erf_of):
    y = np.full_like(x, np.nan)
    plan = cute.trace(kernel, x, y)
    with driver().inside(0), DeviceArray(x) as given, DeviceArray(y) as result:
        cute.run(plan, given, result)
        return result.to_host()


def test_doctor_finds_that_the_gpu_works(capsys):
    assert main(["doctor", "--gpu"]) == 0
    output = capsys.readouterr().out
    assert "the GPU path works" in output
    assert "ok" in next(line for line in output.splitlines() if " launch " in line)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erf_is_within_two_ulp(dtype):
    x = np.linspace(-5, 5, COUNT).astype(dtype)
    want = np.frompyfunc(math.erf, 1, 1)(x.astype(np.float64)).astype(np.float64)
    unit = np.spacing(np.abs(want).astype(dtype)).astype(np.float64)
    bound = 2 if dtype is np.float32 else 4  # math.erf itself is rounded
    assert (np.abs(on_gpu(x) - want) / unit).max() <= bound


def test_erf_of_special_numbers():
    x = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -1.0] * 16)
    y = on_gpu(x)[:8]
    assert y[:4].tolist() == [0, 0, 1, -1]
    assert np.signbit(y[:2]).tolist() == [False, True]
    assert np.isnan(y[4])
    assert abs(float(y[5]) - 1.1283791670955126e-40) <= 2 * float(np.spacing(np.float32(1e-40)))
    assert y[6] == 1
    assert abs(y[7] - math.erf(-1)) < 2.0**-23


@pytest.mark.parametrize("sign", [1, -1])
def test_gelu_is_within_its_bound(sign):
    """Of f32: numbers evenly by their bit images, from 2**-30 to 32. All of them were tried once:
    2.23 * 2**-24.
    """
    first, last = (int(np.float32(x).view(np.int32)) for x in (2.0**-30, 32))
    x = sign * np.linspace(first, last, COUNT).astype(np.int32).view(np.float32)
    wide = x.astype(np.float64)
    want = wide * np.frompyfunc(math.erfc, 1, 1)(-wide * 0.5**0.5).astype(np.float64) / 2
    assert (np.abs(on_gpu(x, gelu_of) - want) <= 3 * 2.0**-24 * np.abs(wide)).all()


def test_gelu_of_special_numbers():
    x = np.float32([0.0, np.inf, 3e38, -3e38, -np.inf, np.nan, 1e-40, -1.0] * 16)
    y = on_gpu(x, gelu_of)[:8]
    assert y[:4].tolist() == [0, np.inf, x[2], 0]
    assert np.isnan(y[4:6]).all()
    assert y[6] == x[6] / 2
    assert abs(float(y[7]) + 0.15865525393145707) < 3 * 2.0**-24
