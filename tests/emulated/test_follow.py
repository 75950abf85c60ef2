"""`cute.follow`: products are made of what they say, and each move is where the layouts put it."""

import json
from itertools import product

import numpy as np
import pytest

import cute_py as cute
from cute_py import viz
from cute_py.errors import LayoutError
from cute_py.kernels.samples import SAMPLES
from tests.kernel_calls import CALLS, KERNELS


def small(name, sizes):
    """Return a kernel, and its arrays of small integers."""
    kind, make = SAMPLES[name]
    kernel, arguments = make(sizes, cute.dtype(kind))
    rng = np.random.default_rng(0)
    for x in arguments[:2]:
        x[...] = rng.integers(-4, 5, x.shape)
    return kernel, arguments


def products_of(events, operand):
    """Yield what tells products of an operand apart: the instruction and its m, n and k."""
    for event in events:
        p = event.get("product", {"operand": ""})
        if p["operand"] == operand:
            where = event["step"], *event["block"], event["warp"], p["instruction"]
            yield from ((*where, *mnk) for mnk in product(p["m"], p["n"], p["k"]))


def require_sums(kernel, arguments, out, rows, columns):
    """Follow the elements of some rows of A and of B forwards, and the elements of D where they
    meet backwards: the products that D's elements name, of what came there, are D's sums.
    """
    A, B, *_, D = [x for x in arguments if isinstance(x, np.ndarray)]
    way = cute.follow(kernel, *arguments, element=(out, (0, 0)))
    values = {"A": {}, "B": {}}
    for i, k in product(rows, range(A.shape[1])):
        one = way.of(("A", (i, k)))
        assert one.becomes == [(out, (i, n)) for n in range(len(B))]
        values["A"] |= dict.fromkeys(products_of(one.forwards, "A"), float(A[i, k]))
    for i, k in product(columns, range(A.shape[1])):
        one = way.of(("B", (i, k)))
        assert one.becomes == [(out, (m, i)) for m in range(len(A))]
        values["B"] |= dict.fromkeys(products_of(one.forwards, "B"), float(B[i, k]))
    cute.emulate(kernel, *arguments)
    for m, n in product(rows, columns):
        one = way.of((out, (m, n)))
        assert one.made_of == [(x, (i, k)) for x, i in zip("AB", (m, n)) for k in range(A.shape[1])]
        keys = set(products_of(one.backwards, "A"))
        assert keys == set(products_of(one.backwards, "B"))
        assert len(keys & values["A"].keys()) == A.shape[1]
        assert sum(values["A"].get(key, 0) * values["B"].get(key, 0) for key in keys) == D[m, n]


def test_x():
    import time
    for name, out, sizes in (("gemm_07", "C", (16, 8, 40)), ("gemm_09", "C", (16, 8, 72)), ("gemm_11", "D", (16, 8, 72))):
        kernel, arguments = small(name, sizes)
        t = time.time()
        require_sums(kernel, arguments, out, range(2), range(2))
        print(name, time.time() - t)
