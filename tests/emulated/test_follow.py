"""`cute.follow`: products are made of what they say, and each move is where the layouts put it."""

import json
from functools import cache

import numpy as np
import pytest

import cute_py as cute
from cute_py.errors import LayoutError
from cute_py.kernels.samples import SAMPLES
from tests.sampling import quick

SMALL = {"gemm_07": (32, 16, 48), "gemm_09": (64, 16, 80), "gemm_11": (32, 16, 80)}


def call(name, sizes):
    """Return a kernel, its arrays of small integers, and the names of A, B and D."""
    kind, make = SAMPLES[name]
    kernel, arguments = make(sizes, cute.dtype(kind))
    rng = np.random.default_rng(0)
    for x in arguments[:2]:
        x[...] = rng.integers(-4, 5, x.shape)
    return kernel, arguments


def products_of(event):
    """Yield what tells the products of an event apart: where it happens, and m, n and k."""
    if "product" in event:
        p = event["product"]
        where = event["step"], *event["block"], event["warp"], p["instruction"]
        yield from ((*where, m, n, k) for m in p["m"] for n in p["n"] for k in p["k"])


def test_dummy():
    for name, sizes in SMALL.items():
        import time
        kernel, arguments = call(name, sizes)
        t = time.time()
        way = cute.follow(kernel, *arguments, element=("A", (0, 0)))
        print(name, time.time() - t)
        t = time.time()
        for _ in range(10):
            w = way.of(("A", (3, 5)))
            w.forwards
        print((time.time() - t)/10)
        out = way.becomes[0][0]
        t = time.time()
        for _ in range(10):
            w = way.of((out, (3, 5)))
            w.backwards
        print((time.time() - t)/10, len(w.made_of))
