"""Caches of keys and keys in parts on a GPU: random problems, against float64."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.attention import reference
from cute_py.ops import attention, attention_with_kvcache
from tests.gpu.harness import require_gpu, torch

require_gpu()

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
BOUND = {"f16": 2e-3, "bf16": 1.6e-2}


def host(x):
    return x.double().cpu().numpy()


def pooled(cache, table, page):
    """A pool whose pages are NaN but where a table puts the rows of a cache."""
    B, room, *shape = cache.shape
    pool = torch.full((int(table.max()) + 3, page, *shape), float("nan")).to(cache)
    count = room // page
    pool[table[:, :count].reshape(-1).long()] = cache.reshape(B * count, page, *shape)
    return pool


class Style:
    """What a kernel depends on, at random: types, columns, pages, options, parts."""

    def __init__(self, rng):
        self.kind = str(rng.choice(["f16", "bf16"]))
        self.page = int(rng.choice([0, 0, 1, 10, 16, 16, 64, 256]))
        self.M, self.new = int(rng.choice([1, 1, 1, 2, 5])), int(rng.choice([0, 0, 1, 3, 9]))
        self.shared = int(rng.choice([1, 2, 4, 5, 8, 16, 20]))
        D, E = (int(n) for n in rng.choice([8, 24, 40, 64, 64, 100, 128, 128, 192, 256], 2))
        self.D, self.E = (D, D) if rng.random() < 0.7 else (D, E)
        self.parts, self.exact = [1, int(rng.integers(2, 21))][rng.integers(2)], rng.random() < 0.5
        self.options = {"causal": bool(rng.integers(2))}
        if rng.random() < 0.3:
            left, right = (int(n) for n in rng.integers(-1, 150, 2))
            self.options["window"] = left, -1 if self.options["causal"] else right
        if rng.random() < 0.3:
            self.options["softcap"] = 5.0
        if rng.random() < 0.2:
            self.options["scale"] = float(rng.normal())
        self.slopes = rng.random() < 0.3


class Problem:
    """A random problem: caches with NaN behind the keys of each sequence, in pages or not."""

    def __init__(self, rng, style, most=700):
        self.kind, self.page, self.new = style.kind, style.page, style.new
        B, G, M, D, E = *(int(n) for n in rng.integers(2, 5, 2)), style.M, style.D, style.E
        step, heads = max(self.page, 1), G * style.shared
        room = -(-int(rng.integers(self.new + 1, most)) // step) * step

        def drawn(*shape):
            return torch.randn(shape, device="cuda").to(TYPES[self.kind])

        self.q = drawn(B, M, heads, D)
        self.caches = drawn(B, room, G, D), drawn(B, room, G, E)
        self.more = (drawn(B, self.new, G, D), drawn(B, self.new, G, E))
        self.more = self.more if self.new else (None, None)
        self.table, self.keys = None, rng.integers(0, room - self.new + 1, B)
        self.lengths = torch.tensor(self.keys, dtype=torch.int32, device="cuda")
        for b, n in enumerate(self.keys):
            for x in self.caches:
                x[b, n:] = float("nan")
        if self.page:
            count = room // self.page
            order = torch.from_numpy(rng.permutation(B * count + 5)[: B * count].reshape(B, count))
            self.pools = [pooled(x, order, self.page) for x in self.caches]
            self.table = order.int().cuda()
            for b, n in enumerate(self.keys):
                self.table[b, -(-(n + self.new) // self.page) :] = -9
        self.options = dict(style.options)
        if style.slopes:
            self.options["alibi_slopes"] = torch.rand(heads, device="cuda")

    def run(self, **named):
        """O and lse, from copies of the caches, which are then in `written`."""
        self.written = [x.clone() for x in (self.pools if self.page else self.caches)]
        named = {"return_lse": True, **self.options, **named}
        given = self.q, *self.written, self.lengths, self.table, *self.more
        return attention_with_kvcache(*given, **named)

    def check(self, found):
        """Compare with each sequence alone, in float64."""
        named = {**self.options, "causal": "bottom_right" if self.options["causal"] else False}
        if "alibi_slopes" in named:
            named["alibi_slopes"] = host(named["alibi_slopes"])
        for b, n in enumerate(self.keys):
            rows = [x[b, :n] for x in self.caches]
            if self.new:
                rows = [torch.cat([x, y[b]]) for x, y in zip(rows, self.more, strict=True)]
            one = [host(x)[None].swapaxes(1, 2) for x in (self.q[b], *rows)]
            wanted, logs = reference(*one, **named)
            o, lse = host(found[0])[b : b + 1].swapaxes(1, 2), host(found[1])[b : b + 1]
            size = 1 + np.abs(one[2]).max(initial=0)
            assert np.abs(o - wanted).max() <= BOUND[self.kind] * size / 2, (
                self.kind,
                self.options,
            )
            seen = logs > -np.inf
            assert ((lse == -np.inf) == ~seen).all()
            near = np.abs(lse[seen] - logs[seen]) <= 1e-4 * np.maximum(1, np.abs(logs[seen]))
            assert near.all()

    def check_written(self):
        """Require that what is appended is in its place, and the rest of the caches as it was."""
        before = self.pools if self.page else self.caches
        for x, old, more in zip(self.written, before, self.more, strict=True):
            wanted = old.clone()
            for b, n in enumerate(self.keys):
                for i in range(self.new):
                    at = (b, n + i)
                    if self.page:
                        at = int(self.table[b, (n + i) // self.page]), (n + i) % self.page
                    wanted[at] = more[b, i]
            assert torch.equal(x.view(torch.int16), wanted.view(torch.int16))


@pytest.mark.parametrize("seed", range(60))
def test_random_problems(seed):
    """300 in all, of 60 kernels; again with the same bits."""
    rng = np.random.default_rng(seed)
    style = Style(rng)
    for _ in range(5):
        x = Problem(rng, style)
        found = x.run(split_kv=style.parts, exact=style.exact)
        x.check(found)
        x.check_written()
        again = x.run(split_kv=style.parts, exact=style.exact)
        assert all(torch.equal(y, z) for y, z in zip(found, again, strict=True))


@pytest.mark.parametrize("page", [16, 10])
def test_pages_in_any_order_give_the_bits_of_contiguous_keys(page):
    style = Style(np.random.default_rng(0))
    style.page, style.parts = page, 3
    for seed in range(20):
        x = Problem(np.random.default_rng(seed), style)
        found = x.run(split_kv=3)
        x.page, x.table = 0, None
        assert all(torch.equal(y, z) for y, z in zip(found, x.run(split_kv=3), strict=True))


@pytest.mark.parametrize("parts", [None, 1, 7, 32, 256])
def test_long_keys_give_the_same_bits_100_times(parts):
    q, caches = torch.randn(2, 1, 64, 128, device="cuda").half(), []
    caches = [torch.randn(2, 32768, 8, 128, device="cuda").half() for _ in range(2)]
    lengths = torch.tensor([32768, 20001], dtype=torch.int32, device="cuda")
    first = attention_with_kvcache(q, *caches, lengths, split_kv=parts)
    for b, n in enumerate(lengths.tolist()):
        rows = [host(x[b : b + 1, :n]).swapaxes(1, 2) for x in caches]
        wanted, _lse = reference(host(q[b : b + 1]).swapaxes(1, 2), *rows)
        assert np.abs(host(first[b : b + 1]).swapaxes(1, 2) - wanted).max() < 2e-3
    for _ in range(100):
        assert torch.equal(attention_with_kvcache(q, *caches, lengths, split_kv=parts), first)


@pytest.mark.parametrize("page", [0, 16])
@pytest.mark.parametrize("new", [0, 1])
def test_a_graph_reads_new_lengths_and_pages(page, new):
    """And appends to the places that these say; nothing is read on the host."""
    rng = np.random.default_rng(page + new)
    q = torch.randn(3, 1, 16, 64, device="cuda").half()
    shape = (3 * 40, 16, 2, 64) if page else (3, 640, 2, 64)
    caches = [torch.randn(shape, device="cuda").half() for _ in range(2)]
    more = [torch.randn(3, 1, 2, 64, device="cuda").half() if new else None for _ in range(2)]
    lengths = torch.zeros(3, dtype=torch.int32, device="cuda")
    table = torch.zeros(3, 40, dtype=torch.int32, device="cuda") if page else None

    def call():
        return attention_with_kvcache(q, *caches, lengths, table, *more)

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = call()
    for _ in range(10):
        lengths.copy_(torch.from_numpy(rng.integers(0, 640, 3)))
        if page:
            table.copy_(torch.from_numpy(rng.permutation(120).reshape(3, 40)))
        graph.replay()
        assert torch.equal(o, call())


def test_lengths_and_pages_outside_are_clamped():
    """Nothing outside of the caches is read or written: these are the middle of larger arrays."""
    q = torch.randn(2, 1, 4, 64, device="cuda").half()
    whole = [torch.full((12, 16, 2, 64), float("nan"), device="cuda").half() for _ in range(2)]
    caches = [x[4:8] for x in whole]
    for x in caches:
        x.normal_()
    more = [torch.randn(2, 1, 2, 64, device="cuda").half() for _ in range(2)]
    table = torch.tensor([[-5, 9], [2**31 - 1, -(2**31)]], dtype=torch.int32, device="cuda")
    for n in (40, -3, 2**31 - 1, -(2**31)):
        lengths = torch.full((2,), n, dtype=torch.int32, device="cuda")
        o = attention_with_kvcache(q, *caches, lengths, table, *more)
        assert torch.isfinite(o).all()
        assert all(torch.isnan(x[:4]).all() and torch.isnan(x[8:]).all() for x in whole)


def test_known_calls_and_outputs():
    """A call is known by its shapes; `out` is written; versions of caches rise with what is new."""
    style = Style(np.random.default_rng(3))
    style.kind = "f16"
    x = Problem(np.random.default_rng(3), style)
    for _ in range(3):
        o, lse = x.run()
        out = torch.full_like(o, float("nan"))
        assert x.run(out=out)[0] is out
        assert torch.equal(out, o)
        x.check((o, lse))
    cache, lengths = torch.zeros(2, 1, 9, 2, 64).cuda().half(), torch.zeros(1).int().cuda()
    for _ in range(4):  # one key alone has all the weight
        q, k, v = (torch.randn(1, 1, 2, 64, device="cuda").half() for _ in range(3))
        before = cache[0]._version
        assert torch.equal(attention_with_kvcache(q, *cache, lengths, None, k, v), v)
        assert torch.equal(cache[1, :, :1], v)
        assert cache[0]._version > before


@pytest.mark.parametrize("parts", [None, 1, 2, 5, 20])
def test_few_queries_of_attention(parts):
    """The family for few queries, also with a bias, against the others."""
    q, k, v = (
        torch.randn(2, h, n, 128, device="cuda").half() for h, n in ((16, 2), (2, 3000), (2, 3000))
    )
    bias = torch.rand(2, 1, 1, 3000, device="cuda") > 0.3
    for options in ({}, {"bias": bias}, {"causal": "bottom_right", "window": (1000, 0)}):
        named = {"layout": "BHMK", "split_kv": parts, "return_lse": True, **options}
        found = attention(q, k, v, **named)
        one = {x: y for x, y in named.items() if x != "split_kv"}
        wanted = attention(q, k, v, config="family=warps", **one)
        assert (found[0] - wanted[0]).abs().max() < 2e-3
        assert (found[1] - wanted[1]).abs().max() < 1e-4


def test_more_than_two_gigabytes():
    """2^31 elements of a cache and more, in pages."""
    if torch.cuda.get_device_properties(0).total_memory < 30e9:
        pytest.skip("needs 30 GB")
    pages = 2**31 // (64 * 8 * 128) + 16
    pools = [torch.zeros(pages, 64, 8, 128, device="cuda", dtype=torch.float16) for _ in range(2)]
    table = torch.arange(pages - 16, pages, device="cuda", dtype=torch.int32)[None]
    for x in pools:
        x[pages - 16 :].normal_()
    q = torch.randn(1, 1, 64, 128, device="cuda").half()
    n = torch.tensor([1000], dtype=torch.int32, device="cuda")
    found = attention_with_kvcache(q, *pools, n, table)
    small = [x[pages - 16 :].clone() for x in pools]
    wanted = attention_with_kvcache(q, *small, n, table - (pages - 16))
    assert torch.equal(found, wanted)


def test_errors_come_before_a_launch():
    q, cache = (torch.zeros(1, n, 2, 64, device="cuda").half() for n in (1, 8))
    lengths = torch.zeros(1, dtype=torch.int32, device="cuda")
    with pytest.raises(cute.CuteError, match="s32"):
        attention_with_kvcache(q, cache, cache, lengths.long())
    with pytest.raises(cute.CuteError, match="k without v"):
        attention_with_kvcache(q, cache, cache, lengths, k=q)
    with pytest.raises(cute.CuteError, match="share memory"):
        attention_with_kvcache(q, cache, cache, lengths, k=q, v=q)
