"""flash-attn's functions for sequences of several lengths, and for caches."""

import pytest

import cute_py as cute

torch = pytest.importorskip("torch")
from cute_py.torch import flash_attn_varlen_func, flash_attn_with_kvcache  # noqa: E402

LENGTHS = (3, 0, 5)


def drawn(*shape, seed=0, kind=torch.float16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(kind)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def test_sequences_are_those_of_attention_alone():
    q, k, v = (drawn(8, h, 8, seed=h, kind=torch.float32) for h in (4, 2, 2))
    starts, slopes = ints(0, 3, 3, 8), torch.rand(4)
    given = q, k, v, starts, starts, 5, 5, 0.0, 0.3, True, (3, -1), 2.0, slopes, True
    found, lse, nothing = flash_attn_varlen_func(*given, return_attn_probs=True)
    named = {"scale": 0.3, "causal": True, "window": (3, -1), "softcap": 2.0}
    for start, end in ((0, 3), (3, 8)):
        one = [x[None, start:end] for x in (q, k, v)]
        wanted, logs = cute.ops.attention(*one, **named, alibi_slopes=slopes, return_lse=True)
        assert torch.allclose(found[start:end], wanted[0], atol=1e-5)
        assert torch.allclose(lse[:, start:end], logs[0], atol=1e-5)
    assert nothing.numel() == 0
    assert torch.equal(flash_attn_varlen_func(*given), found)


@pytest.mark.slow
def test_caches_are_those_of_attention_alone():
    """Keys are written behind those that are there; lengths may be one number, or left out."""
    q, k, v = (drawn(2, 1, h, 8, seed=h) for h in (4, 2, 2))
    caches = [drawn(2, 6, 2, 8, seed=n) for n in (7, 8)]
    before = [x.clone() for x in caches]
    found, lse = flash_attn_with_kvcache(
        q, *caches, k, v, cache_seqlens=ints(3, 4), causal=True, return_softmax_lse=True
    )
    for b, count in enumerate((3, 4)):
        for x, old, new in zip(caches, before, (k, v), strict=True):
            assert torch.equal(x[b, :count], old[b, :count])
            assert torch.equal(x[b, count], new[b, 0])
        one = q[b, None], *[x[b, None, : count + 1] for x in caches]
        wanted, logs = cute.ops.attention(*one, return_lse=True)
        assert torch.allclose(found[b].float(), wanted[0].float(), atol=2e-3)
        assert torch.allclose(lse[b], logs[0], atol=1e-4)


@pytest.mark.slow
def test_lengths_of_caches_may_be_left_out_and_pages_given():
    q, caches = drawn(2, 1, 4, 8, seed=4), [drawn(2, 6, 2, 8, seed=n) for n in (7, 8)]
    whole = cute.ops.attention(q, *caches).float()
    for lengths in ({}, {"cache_seqlens": 6}, {"cache_seqlens": ints(6, 6), "num_splits": 2}):
        assert torch.allclose(
            flash_attn_with_kvcache(q, *caches, **lengths).float(), whole, atol=2e-3
        )
    pages = [x.reshape(4, 3, 2, 8) for x in caches]
    found = flash_attn_with_kvcache(q, *pages, block_table=ints(0, 1, 2, 3).view(2, 2))
    assert torch.allclose(found.float(), whole, atol=2e-3)


@pytest.mark.parametrize("name", ["rotary_cos", "rotary_sin", "cache_batch_idx", "cache_leftpad"])
def test_what_caches_lack_is_an_error(name):
    q, cache = drawn(1, 1, 2, 8), drawn(1, 4, 2, 8)
    with pytest.raises(cute.CuteError, match=rf"kvcache: given {name}=a tensor \(2,\)") as caught:
        flash_attn_with_kvcache(q, cache, cache, **{name: ints(0, 1)})
    assert caught.value.code == "torch-attention-lacks"


def test_what_sequences_lack_is_an_error():
    q, starts = drawn(3, 2, 8), ints(0, 3)
    for named in ({"dropout_p": 0.1}, {"block_table": ints(0)}):
        with pytest.raises(cute.CuteError, match=f"given {next(iter(named))}="):
            flash_attn_varlen_func(q, q, q, starts, starts, 3, 3, **named)
