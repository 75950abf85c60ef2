"""Attention through shared memory on the GPU, against NumPy in f64."""

import pytest

from cute_py.kernels.fused_attention import choose, fused_attention, reference

torch = pytest.importorskip("torch", reason="needs torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


def inputs(shape, kind=torch.float16):
    """Q, K, V and a poisoned O of (batch, heads, queries, keys, dim, dim of V)."""
    b, h, m, n, d, e = shape
    torch.manual_seed(m + n)
    shapes = (b, h, m, d), (b, h, n, d), (b, h, n, e)
    q, k, v = (torch.randn(s, device="cuda", dtype=kind) for s in shapes)
    return q, k, v, torch.full((b, h, m, e), float("nan"), device="cuda", dtype=kind)


def host(*arrays):
    return [x.double().cpu().numpy() for x in arrays]


def check(q, k, v, o, lse, **options):
    wanted, logs = reference(*host(q, k, v), 0.125, **options)
    most = 2e-3 if q.dtype is torch.float16 else 1.6e-2
    assert abs(host(o)[0] - wanted).max() < most
    assert abs(host(lse)[0] - logs).max() < 1e-4


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1, 1, 64, 64),
        (2, 3, 300, 517, 64, 64),
        (2, 3, 517, 300, 40, 24),
        (1, 2, 128, 1000, 128, 128),
        (1, 2, 65, 333, 65, 300),
    ],
    ids=str,
)
def test_attention(shape, kind, causal, preload):
    q, k, v, o = inputs(shape, kind)
    lse = torch.full(q.shape[:3], float("nan"), device="cuda")
    options = {"accum": torch.full(o.shape, float("nan"), device="cuda")} if shape[5] > 128 else {}
    x = choose(q, k, v, o, causal=causal, preload=preload, lse=lse, **options)
    fused_attention(x, 0.125, shape[2])
    check(q, k, v, o, lse, causal=causal)


def test_a_bias_is_shared_by_heads():
    q, k, v, o = inputs((2, 3, 130, 200, 64, 64))
    bias = torch.randn(2, 1, 130, 200, device="cuda").expand(2, 3, 130, 200)
    lse = torch.full(q.shape[:3], float("nan"), device="cuda")
    fused_attention(choose(q, k, v, o, bias=bias, lse=lse), 0.125, 130)
    check(q, k, v, o, lse, bias=host(bias)[0])


def test_sequences_have_lengths_in_memory():
    lengths = torch.tensor([[1, 64], [7, 1], [64, 130], [0, 3], [130, 7]])
    starts = torch.zeros(6, 2, dtype=torch.int32)
    starts[1:] = lengths.cumsum(0)
    m, n = starts[-1].tolist()
    q, k, v, o = inputs((1, 2, m, n, 64, 64))
    lse = torch.full((5, 2, 130), float("nan"), device="cuda")
    given = tuple(starts[:, i].contiguous().cuda() for i in range(2))
    fused_attention(choose(q, k, v, o, starts=given, lse=lse), 0.125, 130)
    for (i, j), (m, n) in zip(starts.tolist(), lengths.tolist(), strict=False):
        parts = q[:, :, i : i + m], k[:, :, j : j + n], v[:, :, j : j + n]
        wanted, _logs = reference(*host(*parts), 0.125)
        assert abs(host(o[:, :, i : i + m])[0] - wanted).max(initial=0) < 2e-3


def test_repeated_runs_give_the_same_bits():
    q, k, v, _o = inputs((1, 8, 1000, 1000, 64, 64), torch.bfloat16)
    found = []
    for _run in range(5):
        o = torch.full_like(q, float("nan"))
        fused_attention(choose(q, k, v, o, causal=True), 0.125, 1000)
        found.append(o)
    assert all(torch.equal(found[0], o) for o in found)
