"""`cute.ops.attention_varlen` on the emulator: sequences of many lengths equal single ones; what
others hold; options in pairs; starts that are wrong; planted errors.
"""

import importlib.util
import inspect
import sys
from itertools import accumulate, product

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import attention_sm90, attention_varlen, sequences
from cute_py.kernels.attention import Rule
from cute_py.kernels.attention_rows import RowsAttention
from cute_py.kernels.config_attention import WarpgroupAttention
from cute_py.ops import attention
from cute_py.ops import attention_varlen as varlen
from cute_py.ops.attention_sequences import AttentionVarlenLse
from tests.emulated.test_attention_operator import BOUND, SMALL, scored, seen
from tests.sampling import pairwise

FAMILIES = ("warpgroups", "warps", "rows")
LENGTHS = (0, 1, 7, 64, 130)
OTHERS = (64, 0, 130, 7, 1)


def starts_of(lengths):
    return np.array([0, *accumulate(lengths)], np.int32)


def inputs(queries, keys, heads=2, shared=1, dims=(16, 16), kind="f16", seed=0):
    """Q, K, V, (rows, heads, dim), and where sequences start."""
    rng, (D, E) = np.random.default_rng(seed), dims
    few = heads // shared
    sizes = (sum(queries), heads, D), (sum(keys), few, D), (sum(keys), few, E)
    arrays = [rng.normal(0, 1, x).astype(cute.dtype(kind).numpy) for x in sizes]
    return *arrays, starts_of(queries), starts_of(keys)


def run(arrays, family, more=None, **options):
    """O and lse, by a family, with small tiles."""
    more = SMALL[family] if more is None else more
    named = {"return_lse": True, "config": f"family={family}{more}", **options}
    return varlen(*arrays, **named)


def check(found, arrays, kind="f16", **options):
    """Compare with f64: O by the sizes of values, and lse."""
    wanted, logs = AttentionVarlenLse.reference(*arrays, **options)
    o, lse = found
    size = 1 + np.abs(arrays[2].astype(np.float64)).max(initial=0)
    assert (np.abs(o - wanted) <= BOUND[kind] * size / 2).all()
    visible = logs > -np.inf
    assert ((lse == -np.inf) == ~visible).all()
    near = np.abs(lse - np.where(visible, logs, 0)) <= 1e-5 * np.maximum(1, np.abs(logs))
    assert near[visible].all()


def parts(arrays):
    """The rows of q, k and v that each sequence has."""
    *_qkv, at_q, at_k = arrays
    for i in range(len(at_q) - 1):
        yield slice(*at_q[i : i + 2]), slice(*at_k[i : i + 2])


# -- which block computes what

EACH = [(0, 1, 7, 64, 130), (0,) * 33 + (70, 0, 1), (0,), tuple(range(1, 71))]


@cute.kernel
def finding(
    found: cute.Tensor, at_q: cute.Tensor, at_k: cute.Tensor, rows: cute.s32, tile: int
) -> None:
    """Write the item of each number to found (numbers, 7); the heads are two."""
    cute.launch(grid=found.shape[0], block=32)
    item = sequences.Sequences((at_q, at_k), (rows, rows), 2, tile).find(cute.block_idx())
    with cute.elect():
        for i, x in enumerate(item):
            found[cute.block_idx(), i] = x


@pytest.mark.parametrize("tile", [pytest.param(4, marks=pytest.mark.slow), 128])
def test_numbers_are_blocks_of_all_sequences_those_with_many_keys_first(tile):
    for queries in EACH:
        keys = queries[::-1]
        at_q, at_k = starts_of(queries), starts_of(keys)
        count = int(sequences.most_blocks(sum(queries), len(queries), tile)) * 2
        found = np.full((count + 1, 7), -1, np.int32)
        finding(found, at_q, at_k, sum(queries), tile)
        wanted = []
        for first in range(0, len(queries), 32):
            some = range(first, min(first + 32, len(queries)))
            for b in sorted(some, key=lambda b: -keys[b]):
                blocks = range(-(-queries[b] // tile))
                places = product((0, 1), reversed(blocks))
                sizes = at_q[b], queries[b], at_k[b], keys[b]
                wanted += [(b, *place, *sizes) for place in places]
        assert found[: len(wanted)].tolist() == [list(map(int, x)) for x in wanted]
        assert (found[len(wanted) :, 4] == 0).all()
        assert len(wanted) <= count


# -- laws


FULL = [pytest.param(x, LENGTHS, range(5), marks=pytest.mark.slow) for x in FAMILIES]
SHORT = (0, 1, 7, 33)


@pytest.mark.parametrize(
    ("family", "lengths", "chosen"),
    [("rows", SHORT, [2]), ("warps", SHORT, [3]), ("warpgroups", SHORT, []), *FULL],
)
def test_sequences_equal_single_ones_to_the_bit(family, lengths, chosen):
    """M22: lengths 0, 1, 7, 64 and 130 in one batch; those that are chosen are also run alone."""
    heads = 2 if lengths is LENGTHS else 1
    kind = "f32" if family == "rows" else "f16"
    arrays = inputs(lengths, lengths, heads, heads, kind=kind)
    o, lse = run(arrays, family, causal=True)
    check((o, lse), arrays, kind, causal=True)
    config, rows = f"family={family}{SMALL[family]}", [*parts(arrays)]
    for mine, theirs in [rows[i] for i in chosen]:
        one = [x[y][None] for x, y in zip(arrays[:3], (mine, theirs, theirs), strict=True)]
        alone = attention(*one, causal=True, return_lse=True, config=config)
        np.testing.assert_array_equal(o[mine], alone[0][0])
        np.testing.assert_array_equal(lse[:, mine], alone[1][0])


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True, "top_left"])
@pytest.mark.parametrize("family", FAMILIES)
def test_queries_and_keys_of_different_lengths(family, causal):
    """Sequences without keys, and without queries; with all checks."""
    kind = "f32" if family == "rows" else "f16"
    arrays = inputs(LENGTHS, OTHERS, dims=(24, 40), kind=kind)
    check(run(arrays, family, causal=causal, checks=True), arrays, kind, causal=causal)


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("warpgroups", None),
        *[
            pytest.param(*x, marks=pytest.mark.slow)
            for x in (
                ("rows", None),
                ("warps", None),
                ("warpgroups", ",keys=32,groups=3,turns=1"),
                ("warpgroups", ",keys=32,ahead=1"),
                ("warpgroups", ",keys=32,buffers=2,stages=1"),
            )
        ],
    ],
)
def test_what_other_sequences_hold_reaches_nothing(family, more):
    """NaN and infinity beyond the ends of each sequence; rows of others are written by theirs."""
    arrays = inputs((3, 20), (33, 5), heads=1, kind="f32" if family == "rows" else "f16")
    wanted, logs = run(arrays, family, more)
    for mine, theirs in parts(arrays):
        held = [np.full_like(x, np.nan) for x in arrays[:3]]
        for x, y, rows in zip(held, arrays, (mine, theirs, theirs), strict=False):
            x[rows] = y[rows]
        o, lse = run((*held, *arrays[3:]), family, more)
        np.testing.assert_array_equal(o[mine], wanted[mine])
        np.testing.assert_array_equal(lse[:, mine], logs[:, mine])


def test_nothing_to_compute_gives_nothing_and_no_keys_give_zero():
    q, k, v, at_q, at_k = inputs((3, 4), (5, 6))
    none = np.zeros(3, np.int32)
    o, lse = varlen(q[:0], k, v, none, at_k, return_lse=True)
    assert (o.shape, lse.shape) == ((0, 2, 16), (2, 0))
    o, lse = varlen(q, k[:0], v[:0], at_q, none, return_lse=True)
    assert (o == 0).all()
    assert (lse == -np.inf).all()
    none = none[:1]
    assert varlen(q[:0], k[:0], v[:0], none, none).shape == (0, 2, 16)


# -- all options

LENGTH_PAIRS = [
    ((1,), (1,)),
    ((0, 5, 40), (3, 0, 70)),
    ((33, 1, 0, 64), (33, 1, 0, 64)),
    ((65, 3), (1, 65)),
    ((2,) * 34, (5,) * 34),
]
ROWS = pairwise(
    FAMILIES,
    LENGTH_PAIRS,
    (False, True, "top_left", "bottom_right"),
    [(-1, -1), (9, -1), (-1, 3), (40, 17), (0, 0)],  # windows
    (0.0, 3.0),  # softcap
    (None, "heads", "sequences"),  # slopes
    (False, True),  # exact
    (1, 2),  # heads that share one of keys
    (None, -0.3, 0.0),  # scale
    [(None, None), (scored, None), (None, seen), (scored, seen)],
    [(64, 64), (24, 40), (40, 8)],  # dims
    ("f16", "bf16"),
)
FEW = (6,)  # of the rows, in a quick run


@pytest.mark.parametrize(
    "row", [pytest.param(x, marks=[] if i in FEW else pytest.mark.slow) for i, x in enumerate(ROWS)]
)
def test_options_in_pairs(row):
    family, lengths, causal, window, cap, by, exact, shared, scale, functions, dims, kind = row
    kind = "f32" if family == "rows" else kind
    arrays = inputs(*lengths, shared=shared, dims=dims, kind=kind)
    if causal and window[1] > 0:
        window = window[0], -1
    options = {"causal": causal, "window": window, "softcap": cap, "scale": scale}
    options |= {"score": functions[0], "mask": functions[1]}
    if by is not None:
        shape = (2,) if by == "heads" else (len(lengths[0]), 2)
        options["alibi_slopes"] = np.random.default_rng(5).random(shape).astype(np.float32)
    check(run(arrays, family, exact=exact, checks=True, **options), arrays, kind, **options)


def test_functions_are_given_the_number_of_the_sequence():
    arrays = inputs((4, 5, 3), (6, 7, 8), kind="f32")

    def mask(b, h, i, j):
        return (i + j + b) % 2 == 0

    check(run(arrays, "rows", mask=mask), arrays, "f32", mask=mask)


# -- wrong starts


@pytest.mark.parametrize(
    ("at_q", "at_k"),
    [
        ([0, 3, 10], [0, 5, 12]),  # beyond the last row
        ([0, 6, 4, 9], [0, 5, 6, 11]),
        ([1, 3, 9], [0, 5, 11]),
        ([0, 3, 9], [0, 5, 10]),
        ([0, 3, 9], [0, 2**31 - 1, -5]),
    ],
)
def test_the_emulator_reports_starts_that_no_host_has_seen(at_q, at_k):
    """The kernels cut them to the arrays: with no checks, nothing outside of these is read."""
    q, k, v = (np.ones((1, 2, n, 16), np.float32) for n in (9, 11, 11))
    at_q, at_k = (np.array(x, np.int32) for x in (at_q, at_k))
    o, cfg = np.zeros_like(q), RowsAttention(value_dim=32)
    given = q, k, v, at_q, at_k, None, o, None, 0.25, 1.0, 0, 0, cfg, Rule()
    with pytest.raises(cute.EmulationError, match="assume"):
        attention_varlen.attention_rows_varlen(*given)


def test_a_known_call_reads_the_starts_again():
    arrays = inputs((3, 4), (5, 6), kind="f32")
    varlen(*arrays)
    for i in (3, 4):
        wrong = [x.copy() for x in arrays]
        wrong[i][1] += 20
        with pytest.raises(cute.LayoutError, match="rise from 0"):
            varlen(*wrong)


# -- planted errors, each of which is found

PLANTED = {
    "rows of V of others are kept": ("with cute.when(left < bN):", "with cute.when(left < 0):"),
    "rows are cleared without a fence": (
        "            cute.fence_proxy_async()\n            cute.named_barrier(2 * groups",
        "            cute.named_barrier(2 * groups",
    ),
    "rows are cleared without a barrier": (
        "            cute.named_barrier(2 * groups + 1, groups * WARPGROUP)\n",
        "",
    ),
    "a row too few is cleared": ("pred=rows <= place", "pred=rows < place"),
    "rows of others are overwritten": ("fits = find is None or ", "fits = True or "),
    "keys are those of the first sequence": ("head, place.key)", "head, 0)"),
    "queries are those of the first sequence": (
        "place.head, place.query)\n                gK",
        "place.head, 0)\n                gK",
    ),
}
QUICK = ("rows are cleared without a fence",)


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow) for x in PLANTED]
)
def test_planted_errors_are_found(name, tmp_path, monkeypatch):
    text, (old, new) = inspect.getsource(attention_sm90), PLANTED[name]
    assert old in text
    file = tmp_path / "planted.py"
    file.write_text(text.replace(old, new), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("planted", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "planted", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(attention_varlen.attention_sm90, "attend", module.attend)
    arrays = inputs((20, 70), (40, 33), dims=(32, 32))
    arrays[1][40:], arrays[2][40:] = np.nan, np.nan
    q, k, v, at_q, at_k = arrays
    rows = [np.ascontiguousarray(x.swapaxes(0, 1))[None] for x in (q, k, v)]
    o, counter = np.zeros_like(rows[0]), np.zeros(1, np.int32)
    cfg = WarpgroupAttention(head_dim=32, value_dim=32, keys=32)
    given = *rows, at_q, at_k, None, o, None, counter, 0.25, 1.0, 0, 0, 1, cfg, Rule()
    try:
        attention_varlen.attention_sm90_varlen(*given)
    except cute.CuteError:
        return
    wanted, _lse = AttentionVarlenLse.reference(q, k, v, at_q, at_k, scale=0.25)
    assert not np.abs(o[0].swapaxes(0, 1)[:20] - wanted[:20]).max() < 2e-3
