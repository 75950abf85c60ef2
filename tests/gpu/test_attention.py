"""Fused attention on the GPU, against torch in f64 and against the emulator's tiles."""

import pytest

from cute_py.kernels.attention import plain, reference
from cute_py.kernels.flash_attention import AttentionConfig, flash_attention

torch = pytest.importorskip("torch", reason="needs torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

CONFIGS = {
    32: AttentionConfig(64, 64, 32),
    64: AttentionConfig(),
    128: AttentionConfig(64, 64, 128),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("queries", "keys", "head_dim", "tile"),
    [
        (1, 1, 64, 64),
        (300, 517, 64, 64),
        (517, 300, 40, 64),
        (128, 2048, 128, 128),
        (65, 65, 24, 32),
    ],
)
def test_attention(queries, keys, head_dim, tile, kind, causal):
    torch.manual_seed(queries + keys)
    rows = (queries, keys, keys)
    q, k, v = (torch.randn(2, 3, n, head_dim, device="cuda", dtype=kind) for n in rows)
    o = torch.full_like(q, float("nan"))
    scale = head_dim**-0.5
    flash_attention(*plain(q, k, v, o, scale, CONFIGS[tile], causal))
    held, way = (x.double().cpu().numpy() for x in (q, k, v)), "bottom_right" if causal else False
    want, _lse = reference(*held, causal=way)
    error = abs(o.double().cpu().numpy() - want).max()
    assert error < (2e-3 if kind is torch.float16 else 1.6e-2)


def test_repeated_runs_give_the_same_bits():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 8, 1000, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    found = []
    for _run in range(5):
        o = torch.full_like(q, float("nan"))
        flash_attention(*plain(q, k, v, o, 0.125, AttentionConfig(), True))
        found.append(o)
    assert all(torch.equal(found[0], o) for o in found)
