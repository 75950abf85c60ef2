"""`cute.ops.attention_with_kvcache` of tensors: versions, graphs, and what autograd follows."""

import pytest

import cute_py as cute
from cute_py.ops import attention_with_kvcache

torch = pytest.importorskip("torch", reason="needs the extra `torch`")
from cute_py.torch.declared import declare_all  # noqa: E402

declare_all()


def tensors():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 1, h, 16).half() for h in (4, 2, 2))
    caches = [torch.randn(2, 40, 2, 16).half() for _ in range(2)]
    return q, *caches, torch.tensor([3, 20], dtype=torch.int32), k, v


def test_caches_are_written_and_their_versions_rise():
    q, k_cache, v_cache, lengths, k, v = tensors()
    for _ in range(3):  # a known call, too
        before = k_cache._version, v_cache._version
        found = attention_with_kvcache(q, k_cache, v_cache, lengths, None, k, v)
        assert k_cache._version > before[0]
        assert v_cache._version > before[1]
        assert torch.equal(k_cache[1, 20], k[1, 0])
        assert torch.equal(v_cache[0, 3], v[0, 0])
    before = k_cache._version
    again = attention_with_kvcache(q, k_cache, v_cache, lengths + 1)
    assert k_cache._version == before
    assert (found - again).abs().max() < 2e-3


def test_a_graph_writes_caches_before_they_are_read():
    """As the schema says: the operator changes them in place."""
    q, k_cache, v_cache, lengths, k, v = tensors()
    wanted = attention_with_kvcache(q, k_cache.clone(), v_cache.clone(), lengths, None, k, v)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(k_cache, v_cache):
        found = attention_with_kvcache(q, k_cache, v_cache, lengths, None, k, v)
        return found * 2, v_cache[:, 3].clone()

    found, row = step(k_cache, v_cache)
    assert torch.equal(found, wanted * 2)
    assert torch.equal(row[0], v[0, 0])
    assert torch.equal(k_cache[1, 20], k[1, 0])


def test_what_needs_a_gradient_is_an_error():
    q, k_cache, v_cache, lengths, _k, _v = tensors()
    with pytest.raises(cute.CuteError):
        attention_with_kvcache(q.float().requires_grad_().half(), k_cache, v_cache, lengths).sum()


def test_a_batch_of_vmap_is_no_place_to_append_to():
    given = [x[None] for x in tensors()]
    operator = torch.ops.cute_py.attention_with_kvcache
    one = torch.vmap(operator)(*given[:4])
    assert torch.equal(one[0], attention_with_kvcache(*tensors()[:4]))
    with pytest.raises(cute.CuteError) as caught:
        torch.vmap(lambda *x: operator(*x[:4], None, *x[4:]))(*given)
    assert caught.value.code == "torch-vmap"
