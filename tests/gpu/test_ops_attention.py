"""`cute.ops.attention` on a GPU: random problems over all options, against float64."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.attention import reference
from cute_py.ops import attention
from tests.gpu.harness import require_gpu, torch

require_gpu()

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
BOUND = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 1e-5}


def drawn(rng, *shape, kind="f16"):
    """A tensor inside of a larger one, its rows a multiple of `gap` apart."""
    gap = int(rng.choice([0, 0, 8, 1 if kind == "f16" else 8]))
    whole = torch.from_numpy(rng.normal(0, 1, (*shape[:-1], shape[-1] + gap)))
    return whole.to(TYPES[kind]).cuda()[..., : shape[-1]]


def problem(rng):
    """Random arrays (batch, heads, rows, dim), and options."""
    kind = str(rng.choice(["f16", "f16", "bf16", "f32"]))
    B, G, shared = (int(n) for n in rng.integers(1, 4, 3))
    M, N = (int(n) for n in rng.choice([1, 2, 63, 64, 65, 127, 130, 200, 517], 2))
    D, E = (int(n) for n in rng.choice([5, 24, 40, 64, 64, 96, 128, 128, 192, 256], 2))
    D, E = (D, D) if rng.random() < 0.6 else (D, E)
    H = G * shared
    q, k, v = (drawn(rng, *x, kind=kind) for x in ((B, H, M, D), (B, G, N, D), (B, G, N, E)))
    options = {"causal": [False, False, "top_left", "bottom_right"][rng.integers(4)]}
    if rng.random() < 0.3:
        options["window"] = tuple(int(n) for n in rng.integers(-1, 150, 2))
    if rng.random() < 0.3:
        options["softcap"] = 5.0
    if rng.random() < 0.3:
        options["alibi_slopes"] = torch.rand(H, device="cuda")
    if rng.random() < 0.2:
        options["scale"] = float(rng.normal())
    way = rng.random()
    if way < 0.2:
        options["bias"] = drawn(rng, 1, H, M, N, kind="f32")
    elif way < 0.4:
        options["bias"] = torch.rand((B, 1, M, N), device="cuda") > 0.3
    return kind, (q, k, v), options


def host(x):
    if not isinstance(x, torch.Tensor):
        return x
    return x.cpu().numpy() if x.dtype == torch.bool else x.double().cpu().numpy()


def check(kind, arrays, options, found):
    wanted, logs = reference(*map(host, arrays), **{x: host(y) for x, y in options.items()})
    o, lse = map(host, found)
    size = 1 + np.abs(host(arrays[2])).max()
    seen = logs > -np.inf
    rounding = 2.0**-22 * np.abs(logs[seen]).max(initial=0)  # of f32 scores, as far from 0 as this
    assert np.abs(o - wanted).max() <= max(BOUND[kind], rounding) * size / 2, (kind, options)
    assert ((lse == -np.inf) == ~seen).all()
    near = np.abs(lse[seen] - logs[seen]) <= 1e-4 * np.maximum(1, np.abs(logs[seen]))
    assert near.all()


@pytest.mark.parametrize("seed", range(20))
def test_random_problems(seed):
    """300 in all, by the family that is chosen; half of them exact, or into an array."""
    rng = np.random.default_rng(seed)
    for _ in range(15):
        kind, arrays, options = problem(rng)
        exact, out = bool(rng.integers(2)), None
        if rng.random() < 0.5:
            shape = (*arrays[0].shape[:3], arrays[2].shape[3])
            out = torch.full(shape, float("nan"), dtype=TYPES[kind], device="cuda")
        named = {"layout": "BHMK", "exact": exact, "out": out, "return_lse": True, **options}
        found = attention(*arrays, **named)
        assert out is None or found[0] is out
        check(kind, arrays, options, found)
        again = attention(*arrays, **named)
        assert all(torch.equal(x, y) for x, y in zip(found, again, strict=True))


@pytest.mark.parametrize("dim", [64, 96, 128, 192, 256])
@pytest.mark.parametrize("causal", [False, "bottom_right"])
def test_long_sequences(dim, causal):
    """16k keys for the last 200 queries; and 100 times the same bits."""
    q, k, v = (torch.randn(1, 2, n, dim, device="cuda").half() for n in (200, 16384, 16384))
    found = attention(q, k, v, layout="BHMK", causal=causal, return_lse=True)
    check("f16", (q, k, v), {"causal": causal}, found)
    for _ in range(100):
        assert torch.equal(attention(q, k, v, layout="BHMK", causal=causal), found[0])


def test_a_graph_reads_new_values():
    q, k, v = (torch.randn(2, 300, 4, 64, device="cuda").bfloat16() for _ in range(3))
    attention(q, k, v, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = attention(q, k, v, causal=True)
    for x in (q, k, v):
        x.normal_()
    graph.replay()
    assert torch.equal(o, attention(q, k, v, causal=True))


def test_functions_of_scores():
    q, k, v = (torch.randn(2, 3, n, 64, device="cuda").half() for n in (150, 200, 200))

    def score(s, b, h, i, j):
        return s - (i - j).to("f32") * 0.01

    def mask(b, h, i, j):
        return (i + j) % 3 != 0

    found = attention(q, k, v, layout="BHMK", score=score, mask=mask, return_lse=True)
    held = {"score": lambda s, b, h, i, j: s - (i - j) * 0.01, "mask": mask}
    check("f16", (q, k, v), held, found)


def test_what_is_no_attention_is_an_error_before_a_launch():
    q = torch.zeros(1, 8, 3, 64, device="cuda").half()
    with pytest.raises(cute.CuteError, match="heads"):
        attention(q, q[:, :, :2], q[:, :, :2])
    with pytest.raises(cute.CuteError, match="causal=True"):
        attention(q, q[:, :4], q[:, :4], causal=True)
