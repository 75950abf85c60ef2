"""`cute.ops.attention_varlen` on a GPU: random problems over all options, against float64; graphs
whose lengths change; what other sequences hold.
"""

from itertools import accumulate

import numpy as np
import pytest

from cute_py.ops import attention, attention_varlen
from cute_py.ops.attention_sequences import AttentionVarlenLse
from tests.emulated.test_work_queue import dealt
from tests.gpu.harness import require_gpu, torch

require_gpu()

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
BOUND = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 1e-5}
LENGTHS = [0, 1, 7, 63, 64, 65, 127, 128, 129, 200, 517, 1000]


def starts_of(lengths):
    return torch.tensor([0, *accumulate(map(int, lengths))], dtype=torch.int32, device="cuda")


def drawn(rng, *shape, kind="f16"):
    """A tensor inside of a larger one, its rows apart."""
    gap = int(rng.choice([0, 0, 8, 1 if kind == "f16" else 8]))
    whole = torch.from_numpy(rng.normal(0, 1, (*shape[:-1], shape[-1] + gap)))
    return whole.to(TYPES[kind]).cuda()[..., : shape[-1]]


def problem(rng):
    """Random arrays (rows, heads, dim), starts, and options."""
    kind, count = str(rng.choice(["f16", "f16", "bf16", "f32"])), int(rng.choice([1, 2, 5, 40]))
    G, shared = (int(n) for n in rng.integers(1, 4, 2))
    lengths = [rng.choice(LENGTHS[:8] if count == 40 else LENGTHS, count) for _i in range(2)]
    if rng.random() < 0.5:
        lengths[1] = lengths[0]
    lengths[1][0] = max(1, lengths[1][0])
    lengths[0][0] = max(1, lengths[0][0])
    M, N = (int(sum(x)) for x in lengths)
    D, E = (int(n) for n in rng.choice([5, 24, 40, 64, 64, 96, 128, 128, 192, 256], 2))
    D, E = (D, D) if rng.random() < 0.6 else (D, E)
    H = G * shared
    q, k, v = (drawn(rng, *x, kind=kind) for x in ((M, H, D), (N, G, D), (N, G, E)))
    options = {"causal": [False, True, "top_left", "bottom_right"][rng.integers(4)]}
    if rng.random() < 0.3:
        options["window"] = tuple(int(n) for n in rng.integers(-1, 150, 2))
    if rng.random() < 0.3:
        options["softcap"] = 5.0
    if rng.random() < 0.3:
        options["alibi_slopes"] = torch.rand((count, H), device="cuda")
    if rng.random() < 0.2:
        options["scale"] = float(rng.normal())
    return kind, (q, k, v, *map(starts_of, lengths)), options


def host(x):
    if not isinstance(x, torch.Tensor):
        return x
    return x.cpu().numpy() if x.dtype == torch.int32 else x.double().cpu().numpy()


def check(kind, arrays, options, found):
    named = {x: host(y) for x, y in options.items()}
    wanted, logs = AttentionVarlenLse.reference(*map(host, arrays), **named)
    o, lse = map(host, found)
    size = 1 + np.abs(host(arrays[2])).max(initial=0)
    assert np.abs(o - wanted).max(initial=0) <= BOUND[kind] * size / 2, (kind, options)
    seen = logs > -np.inf
    assert ((lse == -np.inf) == ~seen).all()
    near = np.abs(lse[seen] - logs[seen]) <= 1e-4 * np.maximum(1, np.abs(logs[seen]))
    assert near.all()


@pytest.mark.parametrize("seed", range(20))
def test_random_problems(seed):
    """200 in all, by the family that is chosen; half of them exact, or into an array."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        kind, arrays, options = problem(rng)
        exact, out = bool(rng.integers(2)), None
        if rng.random() < 0.5:
            shape = (*arrays[0].shape[:2], arrays[2].shape[2])
            out = torch.full(shape, float("nan"), dtype=TYPES[kind], device="cuda")
        named = {"exact": exact, "out": out, "return_lse": True, **options}
        found = attention_varlen(*arrays, **named)
        assert out is None or found[0] is out
        check(kind, arrays, options, found)
        again = attention_varlen(*arrays, **named)
        assert all(torch.equal(x, y) for x, y in zip(found, again, strict=True))


@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_sequences_equal_those_alone_100_times(dim, causal):
    """To the bit: tiles of keys begin at the first key of a sequence, as for one alone."""
    lengths = [0, 1, 2000, 64, 130, 7, 1023]
    starts = starts_of(lengths)
    q, k, v = (torch.randn(int(starts[-1]), 4, dim, device="cuda").bfloat16() for _i in range(3))
    found, lse = attention_varlen(q, k, v, starts, starts, causal=causal, return_lse=True)
    for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        parts = [x[None, a:b] for x in (q, k, v)]
        alone, logs = attention(*parts, causal=causal, return_lse=True)
        assert (alone[0].float() - found[a:b].float()).abs().max().item() < 1e-2 if b > a else True
        assert torch.allclose(logs[0], lse[:, a:b], atol=1e-4)
    for _ in range(100):
        assert torch.equal(attention_varlen(q, k, v, starts, starts, causal=causal), found)


@pytest.mark.parametrize("dim", [60, 64, 128])
def test_a_graph_computes_the_lengths_that_are_there(dim):
    """Also where there are more blocks of queries than when it was captured, or fewer sequences."""
    q, k, v = (torch.randn(2000, 4, dim, device="cuda").half() for _i in range(3))
    starts = starts_of([500, 500, 500, 500])
    attention_varlen(q, k, v, starts, starts, causal=True, return_lse=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, lse = attention_varlen(q, k, v, starts, starts, causal=True, return_lse=True)
    for lengths in ([1, 1, 1, 1997], [0, 2000, 0, 0], [700, 3, 600, 697], [2000, 0, 0, 0]):
        starts.copy_(starts_of(lengths))
        o.fill_(float("nan"))
        graph.replay()
        check("f16", (q, k, v, starts, starts), {"causal": True}, (o, lse))


@pytest.mark.parametrize("dim", [60, 64, 128, 192])
def test_what_other_sequences_hold_reaches_nothing(dim):
    """NaN and infinity in all rows but those of one sequence; and their rows are not overwritten by
    values of others.
    """
    lengths = [40, 130, 1, 300, 64, 77]
    starts = starts_of(lengths)
    q, k, v = (torch.randn(int(starts[-1]), 2, dim, device="cuda").half() for _i in range(3))
    wanted = attention_varlen(q, k, v, starts, starts)
    for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        for poison in (float("nan"), float("inf")):
            held = [torch.full_like(x, poison) for x in (q, k, v)]
            for x, y in zip(held, (q, k, v), strict=True):
                x[a:b] = y[a:b]
            found = attention_varlen(*held, starts, starts)
            assert torch.equal(found[a:b], wanted[a:b])
            assert torch.isfinite(found[a:b]).all()


def test_starts_that_do_not_rise_stay_inside_of_the_arrays():
    """No length is read on the host: they are cut, whatever they are."""
    q, k, v = (torch.randn(100, 2, 64, device="cuda").half() for _i in range(3))
    held = torch.full((300, 2, 64), 7.0, device="cuda").half()
    for given in ([0, 1000, -5, 100], [50, 20, 2**31 - 1, 2**31 - 1], [-(2**31), 7, 3, 5]):
        starts = torch.tensor(given, dtype=torch.int32, device="cuda")
        attention_varlen(q, k, v, starts, starts, out=held[100:200])
        torch.cuda.synchronize()
        assert (held[:100] == 7).all()
        assert (held[200:] == 7).all()


def test_many_sequences():
    """1000, of which most are short: those of 32 at a time are put in order."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, 1000)
    lengths[500] = 2000
    starts = starts_of(lengths)
    q, k, v = (torch.randn(int(starts[-1]), 2, 64, device="cuda").half() for _i in range(3))
    for causal in (False, True):
        found = attention_varlen(q, k, v, starts, starts, causal=causal, return_lse=True)
        check("f16", (q, k, v, starts, starts), {"causal": causal}, found)


@pytest.mark.parametrize(("m", "n", "blocks"), [(0, 5, 2), (1, 1, 300), (40, 50, 132), (3, 5, 1)])
def test_blocks_share_out_every_tile_once(m, n, blocks):
    """`cute.tiles(..., queue=)`, launched 20 times one after the other."""
    counter = torch.zeros(1, dtype=torch.int32, device="cuda")
    found = torch.zeros((max(m, 1), n, 2), dtype=torch.int32, device="cuda")
    for _ in range(20):
        dealt(found, counter, m, n, "grouped", blocks)
    assert (found[:m, :, 0] == 20).all()
    assert counter.item() == 0
