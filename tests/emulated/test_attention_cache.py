"""`cute.ops.attention_with_kvcache` and parts of keys on the emulator: laws, and planted errors."""

import importlib
import inspect
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import attention_decode, attention_heads, attention_merge, paged
from cute_py.kernels.attention import Rule, reference
from cute_py.kernels.attention_decode import DecodeAttention
from cute_py.kernels.attention_merge import columns_of_part
from cute_py.ops import attention, attention_cache, attention_with_kvcache
from cute_py.ops.attention_parts import Sizes, parts_of
from tests.sampling import pairwise

BOUND = {"f16": 2e-3, "bf16": 1.6e-2}  # of |O - ref|, as for inputs that are normal
LENGTHS = 0, 1, 7, 64, 130
SMALL = "warps=2,stages=2"


def problem(lengths=LENGTHS, H=4, shared=4, M=1, D=32, E=32, kind="f16", new=0, room=131, seed=0):
    """Queries, caches with NaN behind the keys of each sequence, and what is appended."""
    rng, B, G = np.random.default_rng(seed), len(lengths), H // shared
    dtype = cute.dtype(kind).numpy
    shapes = (B, M, H, D), (B, room, G, D), (B, room, G, E), (B, new, G, D), (B, new, G, E)
    q, k_cache, v_cache, k, v = (rng.normal(0, 1, x).astype(dtype) for x in shapes)
    for b, n in enumerate(lengths):
        k_cache[b, n:] = v_cache[b, n:] = np.nan
    lengths = np.array(lengths, np.int32)
    return SimpleNamespace(q=q, k_cache=k_cache, v_cache=v_cache, lengths=lengths, k=k, v=v)


def in_pages(x, page, seed=0):
    """The caches of a problem in pages in a random order; entries behind the keys are no pages."""
    rng, (B, room, *_more) = np.random.default_rng(seed), x.k_cache.shape
    count, new = -(-room // page), x.k.shape[1]
    table = rng.permutation(B * count + 3)[: B * count].reshape(B, count).astype(np.int32)
    pools = []
    for cache in (x.k_cache, x.v_cache):
        pool = np.full((B * count + 3, page, *cache.shape[2:]), np.nan, cache.dtype)
        for b, row in enumerate(table):
            for i, number in enumerate(row):
                part = cache[b, i * page : (i + 1) * page]
                pool[number, : len(part)] = part
        pools.append(pool)
    for row, n in zip(table, x.lengths, strict=True):
        row[-(-(n + new) // page) :] = -7
    return SimpleNamespace(**{**vars(x), "k_cache": pools[0], "v_cache": pools[1], "table": table})


def run(x, more=SMALL, checks=True, **named):
    """O and lse of a problem."""
    table, pair = getattr(x, "table", None), (x.k, x.v) if x.k.shape[1] else (None, None)
    named = {"return_lse": True, "checks": checks, "config": more, **named}
    return attention_with_kvcache(x.q, x.k_cache, x.v_cache, x.lengths, table, *pair, **named)


def check(found, x, kind="f16", **options):
    """Compare with each sequence by itself in f64."""
    for b, n in enumerate(x.lengths):
        rows = [
            np.concatenate(y)[None]
            for y in ((x.k_cache[b, :n], x.k[b]), (x.v_cache[b, :n], x.v[b]))
        ]
        one = [y.swapaxes(1, 2) for y in (x.q[b : b + 1], *rows)]
        wanted, logs = reference(*one, **options)
        o, lse = found[0][b : b + 1].swapaxes(1, 2), found[1][b : b + 1]
        assert np.abs(o - wanted).max() <= BOUND[kind] * (1 + np.abs(rows[1]).max(initial=0)) / 2
        seen = logs > -np.inf
        assert ((lse == -np.inf) == ~seen).all()
        near = np.abs(lse[seen] - logs[seen]) <= 1e-5 * np.maximum(1, np.abs(logs[seen]))
        assert near.all()


# -- laws


def test_lengths_of_a_batch_are_those_of_single_calls():
    """And what is behind a length reaches nothing, nor do pages that no sequence has."""
    x = problem()
    found = run(x)
    check(found, x)
    assert (found[0][0] == 0).all()
    some = [4, 1]
    o, lse = run(SimpleNamespace(**{name: y[some] for name, y in vars(x).items()}), checks=False)
    assert (o == found[0][some]).all()
    assert (lse == found[1][some]).all()


@pytest.mark.parametrize(
    ("page", "parts"),
    [
        (16, 1),
        *(
            pytest.param(n, parts, marks=pytest.mark.slow)
            for n in (1, 7, 10, 16, 48, 64, 256)
            for parts in (1, 3)
            if (n, parts) != (16, 1)
        ),
    ],
)
def test_pages_in_any_order_give_the_bits_of_contiguous_keys(page, parts):
    x = problem(room=-(-131 // page) * page)
    whole = run(x, split_kv=parts)
    for seed in range(2):
        found = run(in_pages(x, page, seed), split_kv=parts)
        assert all((y == z).all() for y, z in zip(found, whole, strict=True))


@pytest.mark.parametrize("page", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 16))])
@pytest.mark.parametrize("new", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_what_is_appended_is_attended_and_written_to_its_place(page, new):
    """Equal to attention to the keys one after the other; nothing else is written."""
    x = problem((0, 15, 64, 128), M=3, new=new)
    y = in_pages(x, page) if page else SimpleNamespace(**vars(x))
    y.k_cache, y.v_cache, y.lengths = (z.copy() for z in (y.k_cache, y.v_cache, y.lengths))
    before = [z.copy() for z in (y.k_cache, y.v_cache, y.lengths, y.k, y.v)]
    check(run(y, causal=True), x, causal="bottom_right")
    for b, n in enumerate(x.lengths):
        for i in range(new):
            at = (y.table[b, (n + i) // page], (n + i) % page) if page else (b, n + i)
            for cache, rows, old in ((y.k_cache, y.k, before[0]), (y.v_cache, y.v, before[1])):
                assert (cache[at] == rows[b, i]).all()
                cache[at] = old[at]
    after = y.k_cache, y.v_cache, y.lengths, y.k, y.v
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(
    "parts", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 21))]
)
def test_keys_in_parts_are_merged(parts):
    """Also where parts have no keys; equal calls give equal bits."""
    q, k, v = (
        x.swapaxes(1, 2) for x in vars(problem((131,) * 2)).values() if x.ndim == 4 and x.size
    )
    wanted, logs = reference(q, k, v)
    named = {"layout": "BHMK", "return_lse": True, "split_kv": parts}
    o, lse = attention(q, k, v, checks=True, config=f"family=decode,{SMALL}", **named)
    assert np.abs(o - wanted).max() < 2e-3
    assert np.abs(lse - logs).max() < 1e-5 * np.abs(logs).max()
    again = attention(q, k, v, config=f"family=decode,{SMALL}", **named)
    assert (again[0] == o).all()
    assert (again[1] == lse).all()


def test_parts_are_merged_by_their_logs():
    """M09: two tiles of keys, with sums of exponentials of 1.904837 and 1.904837 * e^0.2; a part
    without keys counts for nothing.
    """
    logs = [np.log(1.904837) + x for x in (0.2, 0.4)]
    X = np.zeros((3, 1, 1, 1, columns_of_part(4)), np.float32)
    X[0, ..., 0], X[1, ..., 1], X[2, ..., :4], X[2, ..., -4] = 1, 1, 9, -np.inf
    X[:2, 0, 0, 0, -4] = logs
    o, lse = np.full((1, 1, 1, 4), np.nan, np.float32), np.full((1, 1, 1), np.nan, np.float32)
    attention_merge.attention_merge(X, o, lse, 3)
    assert round(float(np.exp(lse.item() - 0.4)), 5) == 3.46439
    assert abs(lse.item() - 1.642536) < 2e-6
    shares = np.array([1.559549, 1.904837]) / 3.464386
    assert np.abs(o.ravel()[:2] - shares).max() < 1e-6
    assert (o.ravel()[2:] == 0).all()


# -- options


ROWS = pairwise(
    (0, 7, 16, 64),  # rows of a page
    (1, 2, 5),  # parts
    (1, 2, 9),  # queries
    (1, 4, 5),  # heads that share one of keys
    [(32, 32), (64, 40), (20, 96), (128, 128)],
    (0, 1, 17),  # rows that are appended
    (False, True, "top_left"),
    [(-1, -1), (40, -1), (20, 9)],
    (0.0, 3.0),
    (False, True),  # slopes
    (False, True),  # exact
    (None, -0.3),
    ("f16", "bf16"),
    (1, 4),  # warps
)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_options_in_pairs(row):
    page, parts, M, shared, (D, E), new, causal, window, cap, slopes, exact, scale, kind, warps = (
        row
    )
    x = problem((0, 1, 7, 64, 114), 2 * shared, shared, M, D, E, kind, new)
    options = {"window": (window[0], -1) if causal else window, "softcap": cap, "scale": scale}
    if slopes:
        options["alibi_slopes"] = np.random.default_rng(1).random(2 * shared).astype(np.float32)
    y = in_pages(x, page) if page else SimpleNamespace(**vars(x))
    y.k_cache, y.v_cache = y.k_cache.copy(), y.v_cache.copy()
    found = run(y, f"warps={warps}", causal=causal, split_kv=parts, exact=exact, **options)
    check(found, x, kind, causal="bottom_right" if causal is True else causal, **options)


@pytest.mark.slow
@pytest.mark.parametrize("dims", [(192, 128), (256, 256), (256, 64), (1, 3)])
def test_dims_up_to_256(dims):
    x = problem((131, 30), 8, 8, 1, *dims)
    check(run(x, None), x)


@pytest.mark.slow
@pytest.mark.parametrize("bias", ["float", "bool"])
def test_biases_by_the_family_for_few_queries(bias):
    q, k, v = (np.random.default_rng(n).normal(size=(2, h, m, 40)).astype(np.float16)
               for n, (h, m) in enumerate(((4, 3), (2, 90), (2, 90))))  # fmt: skip
    more = np.random.default_rng(5).normal(size=(2, 4, 3, 90)).astype(np.float32)
    more = more > 0 if bias == "bool" else more
    named = {"layout": "BHMK", "bias": more, "causal": "bottom_right", "split_kv": 2}
    found = attention(q, k, v, checks=True, **named)
    wanted, _lse = reference(q, k, v, bias=more, causal="bottom_right")
    assert np.abs(found - wanted).max() < 3e-3


# -- what depends on what


def test_parts_depend_on_shapes_alone():
    """As a captured graph has them: not on lengths; few blocks share long keys."""
    x = problem()
    named = {"q": x.q, "k_cache": x.k_cache, "v_cache": x.v_cache}
    found = {
        attention_with_kvcache.operator.problem_of(**named, cache_seqlens=n).call().config.parts
        for n in (x.lengths, x.lengths * 0)
    }
    assert len(found) == 1
    for batch, parts in ((1, 32), (4, 8), (64, 1)):
        sizes = Sizes(batch, 64, 8, 1, 32768, 128, 128)
        assert parts_of(sizes, DecodeAttention(), 264) == parts


def test_a_known_call_looks_at_lengths_and_pages_again():
    x = in_pages(problem((5, 30)), 16)
    first = run(x, checks=False)
    for name, wrong, text in (("lengths", 150, "lens[1] = 150"), ("table", 99, "table[1, 0] = 99")):
        held = getattr(x, name)
        kept = held[1].copy()
        held[1] = wrong
        with pytest.raises(cute.LayoutError, match=text.replace("[", r"\[").replace("]", r"\]")):
            run(x, checks=False)
        held[1] = kept
    again = run(x, checks=False)
    assert all((y == z).all() for y, z in zip(first, again, strict=True))


@pytest.mark.parametrize(("name", "value"), [("lengths", 145), ("lengths", -1), ("table", 23)])
def test_the_emulator_finds_lengths_and_pages_outside(name, value, monkeypatch):
    """In the kernel itself, which clamps them."""
    monkeypatch.setattr(attention_cache, "require_values", lambda *_given: None)
    x = in_pages(problem((5, 30)), 16)
    getattr(x, name)[1] = value
    with pytest.raises(cute.EmulationError, match="promise"):
        run(x)


WRONG = {
    "cache_seqlens of int64": ({"lengths": np.zeros(5, np.int64)}, "cache_seqlens of s64"),
    "a length less": ({"lengths": np.zeros(4, np.int32)}, r"cache_seqlens of shape \(4\)"),
    "block_table of int64": ({"table": np.zeros((5, 9), np.int64)}, "block_table of s64"),
    "a table less": ({"table": np.zeros((4, 9), np.int32)}, r"block_table of shape \(4,9\)"),
    "q of f32": ({"q": np.zeros((5, 1, 4, 32), np.float32)}, "q of f32"),
    "other columns": ({"q": np.zeros((5, 1, 4, 40), np.float16)}, "k_cache of shape"),
    "heads that do not divide": ({"q": np.zeros((5, 1, 3, 32), np.float16)}, "3 heads"),
    "k of another batch": ({"k": np.zeros((4, 1, 2, 32), np.float16)}, "k of shape"),
    "columns apart": ({"q": np.zeros((5, 1, 4, 64), np.float16)[..., ::2]}, "q whose last mode"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_that_do_not_fit_are_errors(name):
    """By the name of the argument, before anything is computed or written."""
    changed, text = WRONG[name]
    x = in_pages(problem(H=8, new=1), 16)
    before = [y.copy() for y in (x.k_cache, x.v_cache)]
    with pytest.raises(cute.CuteError, match=text):
        run(SimpleNamespace(**{**vars(x), **changed}))
    for y, z in zip(before, (x.k_cache, x.v_cache), strict=True):
        assert np.array_equal(y, z, equal_nan=True)


# -- planted errors, each of which is refused

PLANTED = {
    "a tile is read before it is there": (
        attention_decode,
        "cute.cp_async_wait(cfg.stages - 2)",
        "cute.cp_async_wait(cfg.stages - 1)",
    ),
    "a stage is filled while other lanes read it": (
        attention_decode,
        "        cute.syncwarp()  # the tile is there, and all lanes have read the one before\n",
        "",
    ),
    "results are written where tiles are read": (
        attention_decode,
        "    cute.cp_async_wait(0)\n    cute.syncthreads()  # all have read their tiles\n",
        "",
    ),
    "results are merged before they are there": (
        attention_decode,
        "    cute.syncthreads()  # the results are there\n",
        "",
    ),
    "queries are read early": (
        attention_decode,
        "    cute.syncthreads()  # the queries are there\n",
        "",
    ),
    "rows behind an end are read": (paged, "pred=self._there(left), fill=0", "fill=0"),
    "what is appended is read where it is written": (
        paged,
        "left = cute.where(is_mine, self.old, 0) - first",
        "left = cute.where(is_mine, self.old + 1, 0) - first",
    ),
    "what is appended goes behind its place": (
        paged,
        "self.b, self.old + i",
        "self.b, self.old + i + 1",
    ),
    "a page of another sequence": (paged, "table[b, _], pool", "table[0, _], pool"),
    "keys of another tile are hidden": (attention_decode, "scores.hide(0, key, last)", "pass"),
    "parts overlap": (attention_decode, "(part + i) // cfg.parts)", "(part + i + i) // cfg.parts)"),
    "a head reads the queries of another": (
        attention_heads,
        "head + (first + row) % heads",
        "head",
    ),
    "results of a warp are left out": (attention_merge, "in range(warps)", "in range(warps - 1)"),
    "a part counts twice": (attention_merge, "in ahead]:", "in [*ahead, 0]]:"),
}


def planted(name, folder, monkeypatch):
    """The modules of the kernels, with an error in one of them."""
    where, old, new = PLANTED[name]
    modules, found = (attention_merge, paged, attention_heads, attention_decode), {}
    monkeypatch.syspath_prepend(folder)
    for module in modules:
        short, text = module.__name__.rpartition(".")[2], inspect.getsource(module)
        if module is where:
            assert old in text
            text = text.replace(old, new)
        for other in found:
            text = text.replace(f"cute_py.kernels.{other} import", f"planted_{other} import")
        (folder / f"planted_{short}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, f"planted_{short}", raising=False)
        found[short] = importlib.import_module(f"planted_{short}")
    return found["attention_decode"], found["attention_merge"]


def compute(decode, merge):
    """Append, attend and merge by the modules of kernels, and compare."""
    x = problem((40, 101), 2, 2, new=1, seed=3)
    y = in_pages(x, 16)
    cfg = decode.DecodeAttention(
        head_dim=32, value_dim=32, warps=2, stages=2, page=16, parts=2, vector=128
    )
    q, k_pool, v_pool, k, v = (z.swapaxes(1, 2) for z in (y.q, y.k_cache, y.v_cache, y.k, y.v))
    X = np.full((2, 2, 2, 1, columns_of_part(32)), np.nan, np.float32)
    o, lse = np.full((2, 2, 1, 32), np.nan, np.float16), np.full((2, 2, 1), np.nan, np.float32)
    given = q, k_pool, v_pool, y.lengths, y.table, k, v, None, X, None
    decode.attention_cached(*given, 32**-0.5, 1.0, 0, 0, cfg, Rule(shared=2))
    merge.attention_merge(X, o, lse, 2)
    check((o.swapaxes(1, 2), lse), x)
    for b, n in enumerate(x.lengths):
        at = y.table[b, n // 16], n % 16
        assert (y.k_cache[at] == y.k[b, 0]).all()
        assert (y.v_cache[at] == y.v[b, 0]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_planted_errors_are_refused(name, tmp_path, monkeypatch):
    """By the emulator, or by a wrong result."""
    with pytest.raises((cute.CuteError, AssertionError)):
        compute(*planted(name, tmp_path, monkeypatch))


@pytest.mark.slow
def test_without_planted_errors_nothing_is_refused():
    compute(attention_decode, attention_merge)
