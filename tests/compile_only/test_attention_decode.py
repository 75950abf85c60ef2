"""The machine code of attention to caches: no spills, and enough bytes on the way."""

from collections import Counter

import pytest

import cute_py as cute
from cute_py.ops import attention_with_kvcache
from cute_py.ops.without_gpu import Outline, gpu_of, outlined
from tests.compile_only.ladder import loops_of

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")


def call(
    dim=128, wide=None, page=16, batch=64, keys=8192, new=0, M=1, shared=8, arch="sm_90a", **named
):
    """The call of the operator for arrays without memory."""

    def outline(*shape, kind="bf16"):
        return Outline.compact(shape, cute.dtype(kind))

    wide = wide or dim
    rows = (batch * keys // page, page) if page else (batch, keys)
    table = outline(batch, keys // page, kind="s32") if page else None
    more = [outline(batch, new, 8, n) if new else None for n in (dim, wide)]
    given = outline(batch, M, 8 * shared, dim), outline(*rows, 8, dim), outline(*rows, 8, wide)
    lengths = outline(batch, kind="s32")
    operator, request = attention_with_kvcache.operator.requested(
        *given, lengths, table, *more, backend="gpu", **named
    )
    return outlined(operator, request, gpu_of(arch))


CASES = [
    {},
    {"page": 0},
    {"page": 10},
    {"batch": 1, "keys": 32768, "new": 1},
    {"M": 4, "causal": True, "window": (1000, 0)},
    {"dim": 64, "softcap": 30.0, "exact": True},
    {"dim": 256, "new": 4},
    {"dim": 192, "wide": 128, "page": 10},
    {"dim": 128, "arch": "sm_80", "batch": 4, "new": 1},
    {"dim": 128, "arch": "sm_86"},
    {"dim": 64, "arch": "sm_120", "page": 64},
    {"dim": 256, "arch": "sm_86"},
    {"config": "keys=32,stages=2"},
    {"config": "warps=8,stages=2"},
]


@pytest.mark.slow
@pytest.mark.parametrize("named", CASES, ids=str)
def test_no_configuration_spills(named):
    made = call(**named)
    for each in filter(None, (made.first, made)):
        found = cute.compile(each.plan(), named.get("arch", "sm_90a")).resources
        assert (found.spill_bytes, found.stack_bytes) == (0, 0)


def test_bytes_on_the_way_outlast_the_memory():
    """Little's law: 4.8 TB/s for about 0.9 us are 33 KB of each of 132 multiprocessors. All but one
    of the stages of two blocks are on the way.
    """
    for dim, blocks in ((64, 2), (128, 2), (256, 1)):
        config = call(dim).config
        stage = 2 * config.width * (config.head_dim + config.value_dim)
        assert blocks * (config.stages * stage + 2 * config.rows * config.head_dim) <= 227 << 10
        assert blocks * (config.stages - 1) * stage >= 64 << 10


@pytest.mark.slow
def test_the_loop_is_short():
    """A tile of 16 keys of a warp, 8 KB, takes 16 copies, 16 reads and 32 products. All warps of a
    multiprocessor may issue about 1700 instructions in the time of 8 KB, at 19 bytes a cycle.
    """
    sass = cute.compile(call(page=0).plan(), "sm_90a").sass
    names, loops = loops_of(sass)
    (body,) = (found for x in loops if "HMMA" in (found := names[slice(*x)]))
    found = Counter(body)
    assert (found["LDGSTS"], found["LDSM"], found["HMMA"]) == (16, 16, 32)
    assert found.total() < 350


def test_old_gpus_have_no_such_kernel():
    with pytest.raises(cute.CuteError, match="no GPU of sm_80 or later"):
        call(arch="sm_75").plan()
    assert call(arch="sm_80").config.family == "decode"
