"""Known calls of attention to caches, and in parts: launches with new addresses alone."""

import gc
import weakref

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.attention_decode import attention_cached, attention_decode
from cute_py.kernels.attention_merge import attention_merge
from cute_py.ops import attention, attention_cache
from tests.pure.test_ops_known import Matrix, gpu  # noqa: F401

pytestmark = pytest.mark.parametrize("gpu", [(9, 0)], indirect=True, ids=["sm_90a"])
CACHE = attention_cache.attention_with_kvcache.operator


@pytest.fixture
def fake(gpu, monkeypatch):  # noqa: F811
    """A GPU whose launches are (device, grid, stream, words), and how often requests are read."""
    for kernel in (attention_cached, attention_decode, attention_merge):
        monkeypatch.setattr(kernel, "_calls", None)
    gpu.taken = []
    for operator in (CACHE, attention.operator):
        operator.known.clear()
        real = operator.taken
        noted = lambda given, real=real: (gpu.taken.append(given), real(given))[1]  # noqa: E731
        monkeypatch.setattr(operator, "taken", noted)
    return gpu


def arrays(step=0, pages=True, new=True):
    """Those of a call, at other addresses in each step."""
    rows = (6, 16) if pages else (2, 96)
    shapes = [(2, 1, 4, 32), (*rows, 2, 32), (*rows, 2, 32), (2,)]
    shapes += [(2, 3)] if pages else []
    shapes += [(2, 1, 2, 32)] * 2 if new else []
    kinds = [np.int32 if len(x) < 3 else np.float16 for x in shapes]
    place = [(i + 1) << 22 for i in range(len(shapes))]
    found = [
        Matrix(x, kind, address=at + 4096 * step)
        for x, kind, at in zip(shapes, kinds, place, strict=True)
    ]
    if not pages:
        found.insert(4, None)
    return found


def call(given, **named):
    return cute.ops.attention_with_kvcache(*given, **named)


@pytest.mark.parametrize(("parts", "into"), [(1, False), (2, True)])
def test_a_known_call_launches_with_new_addresses(fake, parts, into):
    for i in range(3):
        given = arrays(i, pages=i < 3)
        out = Matrix((2, 1, 4, 32), address=(1 << 28) + 4096 * i) if into else None
        found = call(given, split_kv=parts, out=out)
        assert out is None or found is out
        first, last = fake.raw.launches[-parts], fake.raw.launches[-1]
        assert all(x.address in first[3] for x in given)
        assert found.address in last[3]
        assert len(fake.raw.launches) == parts * (i + 1)
    assert len(fake.taken) == 1


def test_dense_keys_in_parts_are_known_with_and_without_slopes(fake):
    slopes = Matrix((4,), np.float32, address=1 << 26)
    for named in ({}, {"alibi_slopes": slopes}):
        for i in range(3):
            q, k, v = arrays(i, pages=False, new=False)[:3]
            cute.ops.attention(q, k, v, split_kv=2, **named)
            first, last = (x[3] for x in fake.raw.launches[-2:])
            assert all(x.address in first for x in (q, k, v, *named.values()))
            assert set(first) & set(last)
    assert len(fake.taken) == 2
    assert len(fake.raw.launches) == 12


def test_rows_that_share_memory_with_a_cache_are_noticed_each_time(fake):
    given = arrays()
    for _ in range(2):
        call(given)
    given[5] = Matrix(given[5].shape, address=given[1].address + 256)
    with pytest.raises(cute.LayoutError, match="k_cache and k, which share memory"):
        call(given)
    assert len(fake.raw.launches) == 2


def test_no_array_is_kept_alive(fake):
    given = arrays()
    for _ in range(2):
        call(given)
    held = [weakref.ref(x) for x in given]
    fake.raw.calls.clear()
    fake.taken.clear()
    given.clear()
    gc.collect()
    assert [x() for x in held] == [None] * len(held)
