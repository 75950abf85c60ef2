"""`cute.ops.attention` on the emulator, with all checks: laws, options in pairs, planted errors."""

import math

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import attention_sm90
from cute_py.kernels.attention import plain, reference
from cute_py.kernels.attention_sm90 import WarpgroupAttention
from cute_py.ops import attention
from tests.planted_attention import WARPGROUPS, loaded
from tests.planted_attention import run as run_edited
from tests.sampling import pairwise

FAMILIES = ("warpgroups", "warps", "rows")
BOUND = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 1e-5}  # of |O - ref|, as for inputs that are normal


def inputs(shape, kind="f16", shared=1, seed=0):
    """Q, K and V, (batch, heads, rows, dim), of (batch, heads, queries, keys, D, E)."""
    B, H, M, N, D, E = shape
    rng, G = np.random.default_rng(seed), H // shared
    shapes = (B, H, M, D), (B, G, N, D), (B, G, N, E)
    return [rng.normal(0, 1, x).astype(cute.dtype(kind).numpy) for x in shapes]


SMALL = {"warpgroups": ",keys=32,turns=0", "warps": ",queries=32,keys=32,warps=2", "rows": ""}


def run(q, k, v, family="warps", checks=True, more=None, **options):
    """O and lse, by a family; `more`: other parts of its configuration, small ones by default."""
    more = SMALL[family] if more is None else more
    named = {"layout": "BHMK", "return_lse": True, "checks": checks, **options}
    return attention(q, k, v, config=f"family={family}{more}", **named)


def check(found, q, k, v, kind="f16", **options):
    """Compare with f64: O by the sizes of weights and values, and lse."""
    (o, lse), (wanted, logs) = found, reference(q, k, v, **options)
    size = 1 + np.abs(v.astype(np.float64)).max(2, keepdims=True)
    size = np.repeat(size, q.shape[1] // v.shape[1], 1)
    assert (np.abs(o - wanted) <= BOUND[kind] * size / 2).all()
    seen = logs > -np.inf
    assert ((lse == -np.inf) == ~seen).all()
    near = np.abs(lse - np.where(seen, logs, 0)) <= 1e-5 * np.maximum(1, np.abs(logs))
    assert near[seen].all()


# -- laws of the reference


def test_the_online_softmax_is_that_of_its_source():
    """M09: two tiles of keys, of which the second one has the greater score."""
    scores = np.array([0.1, 0.2, 0.3, 0.4])
    one, two = np.exp(scores[:2] - 0.2).sum(), np.exp(scores[2:] - 0.4).sum()
    assert round(one, 6) == 1.904837
    assert round(one * math.exp(0.2 - 0.4), 6) == 1.559549
    assert round(one * math.exp(0.2 - 0.4) + two, 6) == 3.464386
    q, k = np.ones((1, 1, 1, 1)), scores.reshape(1, 1, 4, 1)
    assert reference(q, k, k)[1].round(6).item() == 1.642536


def test_laws_of_the_reference():
    q, k, v = (x.astype(np.float64) for x in inputs((2, 4, 7, 11, 8, 5), shared=2))
    bias = np.random.default_rng(1).normal(size=(4, 7, 11))
    named = {"softcap": 3.0, "alibi_slopes": np.array([0.1, 0.2, 0.3, 0.4])}
    o, lse = reference(q, k, v, bias=bias, **named)
    moved, more = reference(q, k, v, bias=bias + np.arange(7.0)[:, None], **named)
    np.testing.assert_allclose(moved, o)
    np.testing.assert_allclose(more, lse + np.arange(7.0))
    ones, _lse = reference(q, k, np.ones_like(v), causal="top_left")
    np.testing.assert_allclose(ones, 1)
    order = np.random.default_rng(2).permutation(11)
    np.testing.assert_allclose(
        reference(q, k[:, :, order], v[:, :, order])[0], reference(q, k, v)[0]
    )
    far = reference(q, k, v, window=(2, 3))[0]
    i, j = np.ogrid[:7, :11]
    seen = (j >= i + 4 - 2) & (j <= i + 4 + 3)
    np.testing.assert_allclose(reference(q, k, v, bias=seen)[0], far)


# -- laws of the kernels


@pytest.mark.parametrize(
    "family", ["rows", *(pytest.param(x, marks=pytest.mark.slow) for x in FAMILIES[:2])]
)
def test_keys_in_parts_are_merged_by_their_logs(family):
    """And weights of a row add up to 1; keys in another order, with their values, change little."""
    q, k, v = inputs((1, 2, 9, 50, 16, 8), "f32" if family == "rows" else "f16")
    whole, lse = run(q, k, v, family)
    parts = [run(q, k[:, :, x], v[:, :, x], family) for x in (slice(0, 17), slice(17, 50))]
    logs = np.logaddexp(parts[0][1], parts[1][1])
    np.testing.assert_allclose(logs, lse, atol=1e-5)
    merged = sum(o * np.exp(x - logs)[..., None] for o, x in parts)
    np.testing.assert_allclose(merged, whole, atol=2e-3)
    ones = attention(q, k, np.ones_like(v), layout="BHMK", config=f"family={family}")
    np.testing.assert_allclose(ones, 1, atol=1e-3)
    order = np.random.default_rng(0).permutation(50)
    found, _lse = run(q, k[:, :, order], v[:, :, order], family)
    np.testing.assert_allclose(found, whole, atol=2e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_key_has_all_the_weight(family):
    """M15: with the identity as weights, O is V to the bit; scores of 4096 do not overflow."""
    rng, kind = np.random.default_rng(0), np.float32 if family == "rows" else np.float16
    q, v = np.eye(32, dtype=kind) * 64, rng.integers(-99, 100, (32, 32)).astype(kind)
    chosen = rng.permutation(32)
    o, lse = run(*(x[None, None] for x in (q, q[chosen], v)), family, scale=1.0)
    np.testing.assert_array_equal(o[0, 0][chosen], v)
    np.testing.assert_array_equal(lse, 4096)


# -- all options


def scored(s, b, h, i, j):
    """A bias by distance, and a factor by head."""
    return s * (1.0 + 0.25) - 0.125 + (h - h) * 1


def seen(b, h, i, j):
    """Every third key, from another one on in each row."""
    return (i + 2 * j) % 3 != 0


SIZES = [(1, 1), (7, 63), (65, 1), (64, 65), (130, 127), (70, 130)]  # queries, keys
WINDOWS = [(-1, -1), (9, -1), (-1, 3), (40, 17), (0, 0)]
WAYS = [False, "top_left", "bottom_right"]
BIASES = [None, "float", "bool", "row"]
ROWS = pairwise(
    FAMILIES,
    SIZES,
    WAYS,
    WINDOWS,
    BIASES,
    (0.0, 3.0),  # softcap
    (False, True),  # slopes
    (False, True),  # exact
    (1, 2),  # heads that share one of keys
    (None, -0.3, 0.0),  # scale
    [(None, None), (scored, None), (None, seen), (scored, seen)],
    [(64, 64), (24, 40), (40, 8)],  # dims
    ("f16", "bf16"),
)


def of_row(row):
    """The arrays and the options of a row of `ROWS`."""
    (
        family,
        (M, N),
        causal,
        window,
        added,
        cap,
        slopes,
        exact,
        shared,
        scale,
        functions,
        dims,
        kind,
    ) = row
    kind = "f32" if family == "rows" else kind
    if causal and window[1] > 0:
        window = window[0], -1
    q, k, v = inputs((1, 2, M, N, *dims), kind, shared)
    rng = np.random.default_rng(5)
    options = {"causal": causal, "window": window, "softcap": cap, "scale": scale}
    options |= {"score": functions[0], "mask": functions[1]}
    if added == "float":
        options["bias"] = rng.normal(0, 1, (2, M, N)).astype(np.float32)
    elif added is not None:
        options["bias"] = rng.random((1, 1, M, N) if added == "bool" else (1, N)) > 0.3
    if slopes:
        options["alibi_slopes"] = rng.random(2).astype(np.float32)
    return family, kind, (q, k, v), options, exact


FEW = (0, 4)  # of the rows, in a quick run


@pytest.mark.parametrize(
    "row", [pytest.param(x, marks=[] if i in FEW else pytest.mark.slow) for i, x in enumerate(ROWS)]
)
def test_options_in_pairs(row):
    family, kind, arrays, options, exact = of_row(row)
    check(run(*arrays, family, exact=exact, **options), *arrays, kind, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dims", [(96, 96), (128, 128), (192, 128), (192, 192), (256, 256), (80, 200)]
)
@pytest.mark.parametrize("causal", WAYS)
@pytest.mark.parametrize("family", FAMILIES[:2])
def test_dims_up_to_256(dims, causal, family):
    arrays = inputs((1, 2, 130, 200, *dims))
    check(run(*arrays, family, more="", causal=causal), *arrays, causal=causal)


@pytest.mark.parametrize(
    ("more", "order"),
    [
        ({}, "reversed"),
        *[
            pytest.param(more, order, marks=pytest.mark.slow)
            for more in (
                {},
                {"buffers": 2, "stages": 1},
                {"ahead": 1},
                {"groups": 3, "turns": 1, "holds": 0},
            )
            for order in ("reversed", 0)
        ],
    ],
)
def test_all_orders_of_the_warps_of_a_block_give_the_same_bits(more, order):
    """Of two blocks that compute several blocks of queries, the second one fewer of them."""
    q, k, v = inputs((1, 3, 70, 100, 64, 64) if not more else (1, 3, 200, 140, 64, 64))
    cfg = WarpgroupAttention(head_dim=64, value_dim=64, keys=64, **more)
    found = []
    for way in ("forward", order):
        o = np.full_like(q, np.nan)
        *given, _cfg, rule = plain(q, k, v, o, 0.125, cfg, causal=True)
        plan = cute.trace(attention_sm90.attention_sm90, *given, 2, cfg, rule)
        cute.emulate(plan, q, k, v, o, 0.125, 1.0, 0, 0, 2, order=way)
        found.append(o)
    assert np.abs(found[0] - reference(q, k, v, causal="bottom_right")[0]).max() < 2e-3
    assert (found[0] == found[1]).all()


# -- what is special


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_that_see_nothing_are_zero_and_nan_stays_in_its_row(family):
    q, k, v = inputs((1, 2, 40, 70, 16, 16), "f32" if family == "rows" else "f16")
    q[0, 0, 3, 5], mask = np.nan, np.ones((40, 70), bool)
    mask[7] = False
    o, lse = run(q, k, v, family, bias=mask)
    assert (o[:, :, 7] == 0).all()
    assert (lse[:, :, 7] == -np.inf).all()
    assert np.isnan(o[0, 0, 3]).all()
    o[0, 0, 3], q[0, 0, 3] = 0, 0
    assert np.isfinite(o).all()
    nothing, logs = run(q, k[:, :, :0], v[:, :, :0], family)
    assert (nothing == 0).all()
    assert (logs == -np.inf).all()
    assert nothing.shape == q.shape


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("factor", [100.0, 1e-4])
def test_large_and_small_inputs_stay_finite(family, factor):
    kind = "f32" if family == "rows" else "f16"
    q, k, v = (x * x.dtype.type(factor) for x in inputs((1, 1, 33, 90, 16, 16), kind))
    o, lse = run(q, k, v, family)
    wanted, logs = reference(q, k, v)
    assert np.isfinite(lse).all()
    assert np.abs(lse - logs).max() <= 1e-5 * np.abs(logs).max()
    assert np.abs(o - wanted).max() <= 5e-3 * np.abs(v).max()


@pytest.mark.parametrize(
    ("exact", "family"),
    [
        (False, "warps"),
        *(pytest.param(x, "warpgroups", marks=pytest.mark.slow) for x in (False, True)),
    ],
)
def test_sums_are_rescaled_late_or_exactly(exact, family):
    """Scores that grow by 4 (2^5.8) a tile: weights of up to 2^8 in between."""
    q = np.zeros((1, 1, 64, 16), np.float16)
    q[..., 0] = 1
    k, v = np.zeros((1, 1, 256, 16), np.float16), inputs((1, 1, 1, 256, 16, 16))[2]
    k[..., 0] = np.repeat([0, 4, 8, 12], 64)
    found = run(q, k, v, family, more=",keys=64", exact=exact, scale=1.0)
    check(found, q, k, v, scale=1.0)


@pytest.mark.parametrize("layout", ["BMHK", "BHMK"])
def test_layouts_packed_views_and_outputs(layout):
    """M27, C18: views of one packed array; `out` is written, its neighbours are not."""
    packed = np.random.default_rng(0).normal(size=(2, 33, 3, 2, 24)).astype(np.float16)
    q, k, v = (packed[:, :, i] for i in range(3))
    held = np.full((2, 33, 2, 40), 7, np.float16)
    out = held[..., 8:32]
    wanted, _lse = reference(*(x.swapaxes(1, 2) for x in (q, k, v)))
    if layout == "BHMK":
        q, k, v, out = (x.swapaxes(1, 2) for x in (q, k, v, out))
    assert attention(q, k, v, layout=layout, out=out, checks=True) is out
    assert np.abs(held[..., 8:32].swapaxes(1, 2) - wanted).max() < 2e-3
    assert (held[..., :8] == 7).all()
    assert (held[..., 32:] == 7).all()


@pytest.mark.parametrize(
    ("family", "kind", "out", "dim"),
    [
        ("rows", "f32", "bf16", 8),
        *[
            pytest.param(*x, marks=pytest.mark.slow)
            for x in (
                ("warps", "f16", "f32", 13),
                ("warps", "bf16", "f16", 40),
                ("warps", "f16", "bf16", 64),
                ("rows", "f16", "f32", 8),
            )
        ],
    ],
)
def test_results_of_other_types(family, kind, out, dim):
    q, k, v = inputs((1, 2, 33, 50, dim, dim), kind)
    found = attention(
        q, k, v, layout="BHMK", out_dtype=out, config=f"family={family}{SMALL[family]}", checks=True
    )
    assert found.dtype == cute.dtype(out).numpy
    wanted, _lse = reference(q, k, v)
    assert np.abs(found - wanted).max() < max(BOUND[kind], BOUND[out])
    assert "family=warpgroups" not in str(attention.explain(q, k, v, layout="BHMK", out_dtype=out))
    with pytest.raises(cute.CuteError, match="given family=warpgroups for these arrays"):
        attention(q, k, v, layout="BHMK", out_dtype=out, config="family=warpgroups")


def test_empty_arrays_give_empty_results():
    for shape in ((0, 2, 5, 6, 8, 8), (1, 0, 5, 6, 8, 8), (1, 2, 0, 6, 8, 8)):
        q, k, v = inputs(shape)
        o, lse = attention(q, k, v, layout="BHMK", return_lse=True)
        assert (o.shape, lse.shape) == (q.shape, q.shape[:3])


def test_a_known_call_sees_the_function_that_it_was_made_with():
    q, k, v = inputs((1, 1, 9, 20, 8, 8), "f32")
    for factor in (1.0, 2.0, 1.0):

        def score(s, b, h, i, j, factor=factor):
            return s * factor

        o = attention(q, k, v, layout="BHMK", score=score)
        wanted, _lse = reference(q, k, v, score=lambda s, *_, factor=factor: s * factor)
        assert np.abs(o - wanted).max() < 1e-5


@pytest.mark.parametrize(
    ("kind", "exact", "approximates"),
    [("f32", False, False), ("f16", True, False), ("f16", False, True)],
)
def test_a_cap_of_f32_takes_no_approximation_of_tanh(kind, exact, approximates):
    """The emulator computes `tanh` as NumPy does; a GPU's error is 2^-11 of the cap."""
    q, k, v = inputs((1, 1, 8, 16, 16, 16), kind)
    options = {"layout": "BHMK", "softcap": 3.0, "exact": exact}
    plan = attention.operator.problem_of(q=q, k=k, v=v, **options).call().plan()
    assert ("tanh" in str(plan)) == approximates
    check(run(q, k, v, "rows", softcap=3.0, exact=exact), q, k, v, kind, softcap=3.0)


# -- planted errors: two of those of tests/slow


@pytest.mark.parametrize("name", ["Q is loaded where O has not left", "a turn does not end"])
def test_planted_errors_are_refused(name, tmp_path, monkeypatch):
    made = loaded("attention_sm90", *WARPGROUPS[name], tmp_path, monkeypatch)
    with pytest.raises(cute.CuteError):
        run_edited("attention_sm90", made)
