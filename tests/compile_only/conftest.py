"""The compiler is loaded before the first test, whose seconds are its own."""

import numpy as np
import pytest

import cute_py as cute


@cute.kernel
def one(x):
    cute.launch(grid=1, block=1)
    x[0] = 1.0


@pytest.fixture(scope="session", autouse=True)
def _compiler_is_loaded():
    assert cute.compile(cute.trace(one, np.zeros(1, np.float32)), "sm_80").ptx
