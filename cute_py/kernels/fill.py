"""new here: random numbers that depend on the number of an element alone, in u64 and f64 registers.

`cute.host.tensor_fill` and its random forms run these for arrays; a host tensor gets the same
values from the same functions by NumPy.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import cute_py as cute
from cute_py.calls.arguments import number
from cute_py.calls.arrays import dtype_of, imported
from cute_py.host.fill import kept_bits
from cute_py.host.random_numbers import RULES, pair

THREADS = 256  # of a block
BY = SimpleNamespace(where=cute.where, sqrt=cute.sqrt, floor=cute.floor)


@cute.kernel
def _fill_value(X: Any, number: cute.f64, integer: cute.s64) -> None:
    """X = number, or integer where X has integers."""
    cute.launch(grid=cute.ceil_div(cute.size(X.layout), THREADS), block=THREADS)
    i = cute.block_idx() * THREADS + cute.thread_idx()
    with cute.when(i < cute.size(X.layout)):
        if X.dtype.is_float:
            X[i] = _register(number, "f64").to(X.dtype, "to_nearest")[0]
        else:  # the host has tested that it fits
            X[i] = integer.to(X.dtype, wrap=True)


@cute.kernel
def _fill_random(
    X: Any,
    operation: str,
    low_word: cute.s64,
    high_word: cute.s64,
    first: cute.f64,
    second: cute.f64,
    bits: int | None,
) -> None:
    """X[i] = the number of element i, counted in colexicographical order, by the rule `operation`.

    Args:
        X: of whole bytes an element.
        operation: of `host.random_numbers.RULES`.
        low_word: of the seed.
        high_word: of the seed.
        first: parameter of the rule: the lower bound, or the mean.
        second: parameter of the rule: the upper bound, or the standard deviation.
        bits: fractional bits; None: all.

    """
    cute.launch(grid=cute.ceil_div(cute.size(X.layout), THREADS), block=THREADS)
    i = cute.block_idx() * THREADS + cute.thread_idx()
    index, low, high = (_register(n) for n in (i, low_word, high_word))
    u, v = pair(index, (low, high), lambda x: x.to("f64"))
    found = RULES[operation](u, v, first, second, bits, BY)
    with cute.when(i < cute.size(X.layout)):
        X[i] = found.to(X.dtype, "to_nearest")[0]


def _register(n: Any, kind: str = "u64") -> cute.Tensor:
    held = cute.rmem(kind, 1)
    held.fill(n)
    return held


def random(
    x: Any, operation: str, words: tuple[int, int], parameters: tuple[float, float], bits: Any
) -> None:
    """Fill an array by a rule; the arguments are those of `host.fill`."""
    array = imported(x)
    kept = kept_bits(dtype_of(array), operation, parameters, bits)
    _fill_random(array, operation, *words, *map(float, parameters), kept)


def filled(x: Any, value: Any) -> None:
    """Fill an array with one value, rounded to its type."""
    array = imported(x)
    kind = dtype_of(array)
    if kind.is_float:
        _fill_value(array, float(value), 0)
    else:
        whole = int(number(value, kind, "tensor_fill"))
        _fill_value(array, 0.0, whole - 2**64 if whole >= 2**63 else whole)


def check() -> None:
    """Fill an array by a kernel, and a host tensor by NumPy."""
    x, tensor = np.zeros((33, 70), np.float32), cute.make_host_tensor((33, 70), "f32")
    for fill in (cute.host.tensor_fill_random_uniform, cute.host.tensor_fill_random_gaussian):
        assert (fill(x, 7) == fill(tensor, 7).to_numpy()).all()


if __name__ == "__main__":
    check()
