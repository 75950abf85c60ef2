"""Fused attention against NumPy in f64, on the emulator with all checks."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.attention import plain, reference
from cute_py.kernels.flash_attention import AttentionConfig, flash_attention
from tests.sampling import pairwise

ORDERS = ("forward", "reversed", 0)
SMALL = AttentionConfig(queries=32, keys=32, warps=2)


def inputs(shape, kind, seed=0):
    """Q, K and V of (batch, heads, queries, keys, head_dim), and a poisoned O."""
    batch, heads, queries, keys, head_dim = shape
    rng, dtype = np.random.default_rng(seed), cute.dtype(kind).numpy
    rows = (queries, keys, keys)
    q, k, v = (rng.normal(0, 1, (batch, heads, n, head_dim)).astype(dtype) for n in rows)
    return q, k, v, np.full(q.shape, np.nan, dtype)


def flashed(q, k, v, o, scale, config, causal=False, order="forward"):
    plan = cute.trace(flash_attention, *plain(q, k, v, o, scale, config, causal))
    cute.emulate(plan, q, k, v, o, scale, 1.0, 0, 0, order=order)


def check(shape, config, causal, kind="f16", order="forward", scale=None):
    q, k, v, o = inputs(shape, kind)
    scale = scale or shape[-1] ** -0.5
    flashed(q, k, v, o, scale, config, causal, order)
    wanted, _lse = reference(q, k, v, scale=scale, causal="bottom_right" if causal else False)
    error = np.abs(o.astype(np.float64) - wanted).max(initial=0)
    assert error < (2e-3 if kind == "f16" else 1.6e-2)
    return o


SHAPES = [  # queries, keys
    (1, 1), (32, 32), (33, 32), (31, 63), (64, 65), (40, 96), (65, 40), (96, 1),
]  # fmt: skip
CASES = pairwise(SHAPES, (32, 64, 40), (False, True), ("f16", "bf16"), ORDERS)


@pytest.mark.parametrize(("rows", "head_dim", "causal", "kind", "order"), CASES)
def test_attention_is_that_of_the_formula(rows, head_dim, causal, kind, order):
    config = AttentionConfig(32, 32, 32 if head_dim == 32 else 64, 2)
    check((1, 2, *rows, head_dim), config, causal, kind, order)


@pytest.mark.parametrize("config", [AttentionConfig(), AttentionConfig(64, 64, 128)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_the_tiles_of_a_gpu(config, causal):
    check((1, 1, 130, 131, config.head_dim), config, causal)


def test_all_orders_give_the_same_bits():
    found = [check((1, 2, 70, 70, 64), SMALL, True, order=order) for order in ORDERS]
    assert all((found[0] == x).all() for x in found)


def test_queries_that_see_no_key_are_zero():
    """Causal, and with fewer keys than queries, the first rows have none; so have all without."""
    assert (check((1, 1, 40, 10, 64), SMALL, causal=True)[0, 0, :30] == 0).all()


def test_large_scores_do_not_overflow():
    """The greatest score is subtracted first: exp of 900 is beyond f32."""
    q, k, v, o = inputs((1, 1, 32, 70, 64), "f16")
    q, k = q * np.float16(20), k * np.float16(20)
    flashed(q, k, v, o, 1.0, SMALL)
    assert np.abs(o - reference(q, k, v, scale=1.0)[0]).max() < 2e-3


def test_arrays_may_have_their_heads_next_to_each_other():
    """(batch, rows, heads, head_dim) in memory, as projections leave them."""
    q, k, v, o = (np.ascontiguousarray(x.swapaxes(1, 2)) for x in inputs((1, 3, 40, 50, 64), "f16"))
    given = [x.swapaxes(1, 2) for x in (q, k, v, o)]
    flashed(*given, 0.125, SMALL)
    assert np.abs(given[3] - reference(*given[:3])[0]).max() < 2e-3


@pytest.mark.slow
def test_four_heads_of_1024_take_at_most_4_seconds():
    from time import perf_counter

    q, k, v, o = inputs((1, 4, 1024, 1024, 64), "f16")
    start = perf_counter()
    flashed(q, k, v, o, 0.125, AttentionConfig())
    assert perf_counter() - start < 4.5
    assert np.abs(o - reference(q, k, v)[0]).max() < 2e-3


@pytest.mark.parametrize("scale", [0.0, -0.5, np.nan])
def test_a_scale_that_turns_scores_around_is_refused(scale):
    """The greatest score is found before it is scaled."""
    arrays = inputs((1, 1, 16, 16, 32), "f16")
    with pytest.raises(cute.EmulationError, match="scale is above 0"):
        flash_attention(*plain(*arrays, scale, AttentionConfig(32, 32, 32, 2)))
