"""The machine code of attention of sequences: no spills, on Hopper and on other GPUs."""

import pytest

import cute_py as cute
from cute_py.ops import attention_varlen
from cute_py.ops.without_gpu import Outline, gpu_of, outlined

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")


def outline(*shape, kind="f16"):
    return Outline.compact(shape, cute.dtype(kind))


def call(dim, wide=None, heads=16, shared=1, kind="f16", arch="sm_90a", **named):
    """The call of the operator, for 16 sequences of 30000 rows in all, without memory."""
    few = heads // shared
    q, k, v = (
        outline(30000, n, d, kind=kind) for n, d in ((heads, dim), (few, dim), (few, wide or dim))
    )
    starts = outline(17, kind="s32")
    operator, request = attention_varlen.operator.requested(
        q, k, v, starts, starts, backend="gpu", **named
    )
    return outlined(operator, request, gpu_of(arch))


SLOPES = {"alibi_slopes": outline(16, 16, kind="f32")}
CASES = [
    (128, {}),
    (128, {"causal": True, "return_lse": True, "shared": 4}),
    (128, {"window": (1023, 0)}),
    (128, {"exact": True, "kind": "bf16"}),
    (128, {"softcap": 30.0, "causal": "top_left", **SLOPES}),
    (64, {}),
    (64, {"causal": True}),
    (64, {"softcap": 30.0, **SLOPES}),
    (96, {"causal": True}),
    (192, {"causal": True}),
    (192, {"wide": 128, "causal": True, "return_lse": True}),
    (256, {"causal": True, "return_lse": True}),
    (80, {"score": lambda s, b, h, i, j: s - (i - j).to("f32"), "mask": lambda b, h, i, j: i >= j}),
    *((d, {"causal": True, "arch": "sm_80"}) for d in (64, 128)),
    (64, {"kind": "f32", "arch": "sm_80"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dim", "named"), CASES, ids=lambda x: str(x) if isinstance(x, int) else "-".join(x) or "plain"
)
def test_no_configuration_spills(dim, named):
    arch = named.get("arch", "sm_90a")
    found = cute.compile(call(dim, **named).plan(), arch).resources
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)


def test_families_by_what_they_read():
    assert call(128).config.family == "warpgroups"
    assert call(60).config.family == "warps"
    assert call(64, kind="f32").config.family == "rows"
    assert call(64, arch="sm_80").config.family == "warps"
