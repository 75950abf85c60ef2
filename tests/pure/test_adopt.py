"""Device arrays of other libraries in operations: taken in by torch or CuPy, given back."""

import sys
from types import SimpleNamespace

import pytest

import cute_py as cute
from cute_py.codegen.driver import streams
from cute_py.ops import libraries
from tests.fake_gpu import install
from tests.pure.test_launching import Interface


@pytest.fixture
def gpu(monkeypatch):
    fake = install(monkeypatch)
    monkeypatch.setattr(libraries, "driver", lambda: streams.driver())
    return fake


def test_without_torch_and_cupy_other_arrays_are_refused(gpu, monkeypatch):
    gpu.raw.memory = {4096: 0}
    for name in libraries.LENDERS:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(cute.CuteError) as caught:
        libraries.adopted(Interface(4096), "op")
    assert caught.value.code == "ops-library"
    assert "an array of Interface" in str(caught.value)


def test_other_arrays_are_lent_views_that_wait_for_their_streams(gpu, monkeypatch):
    gpu.raw.memory = {4096: 0}
    view = Interface(4096, 3)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(as_tensor=lambda x: view))
    assert libraries.adopted(Interface(4096, 9), "op") is view
    waits = [call[1] for call in gpu.raw.calls if call[0] == "cuStreamWaitEvent"]
    records = [call[2] for call in gpu.raw.calls if call[0] == "cuEventRecord"]
    assert (waits, records) == ([3], [9])
    assert libraries.adopted(None, "op") is None


def test_results_go_back_to_numba_alone(gpu):
    view = Interface(4096)
    assert libraries.given_back(view, view, "op") is view
