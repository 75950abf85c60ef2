"""The machine code of attention on Hopper: no spills, and waits where the kernel has them."""

import re

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.attention import Rule
from cute_py.kernels.attention_sm90 import WarpgroupAttention, attention_sm90
from cute_py.ops import attention
from cute_py.ops.without_gpu import Outline, gpu_of, outlined

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")


def outline(*shape, kind="f16"):
    return Outline.compact(shape, cute.dtype(kind))


def call(dim, wide=None, keys=4096, heads=16, shared=1, kind="f16", **named):
    """The call of the operator on an H200, for arrays without memory."""
    q = outline(4, heads, 4096, dim, kind=kind)
    k = outline(4, heads // shared, keys, dim, kind=kind)
    v = outline(4, heads // shared, keys, wide or dim, kind=kind)
    operator, named = attention.operator.requested(q, k, v, layout="BHMK", backend="gpu", **named)
    return outlined(operator, named, gpu_of("sm_90a"))


BIAS = {"bias": outline(1, 1, 4096, 4096)}
SLOPES = {"alibi_slopes": outline(16, kind="f32")}
CASES = [
    (128, {}),
    (64, {}),
    (64, {"causal": "bottom_right"}),
    (128, {"causal": "bottom_right", "return_lse": True, "shared": 4}),
    (128, {"window": (1023, 0), "keys": 4000}),
    (128, {"exact": True, "kind": "bf16"}),
    (128, BIAS),
    (128, {"softcap": 30.0, "causal": "top_left", **SLOPES}),
    (64, BIAS),
    (64, {"softcap": 30.0, **SLOPES}),
    (96, {"causal": "bottom_right"}),
    (96, BIAS),
    (192, {"causal": "bottom_right"}),
    (192, {"wide": 128, "causal": "bottom_right", "return_lse": True}),
    (192, BIAS),
    (256, {"causal": "bottom_right", "return_lse": True}),
    (256, BIAS),
    (80, {"score": lambda s, b, h, i, j: s - (i - j).to("f32"), "mask": lambda b, h, i, j: i >= j}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dim", "named"), CASES, ids=lambda x: str(x) if isinstance(x, int) else "-".join(x) or "plain"
)
def test_no_configuration_spills(dim, named):
    made = call(dim, **named)
    assert isinstance(made.config, WarpgroupAttention)
    found = cute.compile(made.plan(), "sm_90a").resources
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)


@pytest.fixture(scope="module")
def sass():
    """That of head dim 64 with two warpgroups, whose waits are held back."""
    x = np.zeros((1, 1, 256, 64), np.float16)
    cfg, rule = WarpgroupAttention(head_dim=64, value_dim=64), Rule(ragged=False)
    given = x, x, x, None, None, x, None, 0.125, 1.0, 0, 0, 132, cfg, rule
    return cute.compile(cute.trace(attention_sm90, *given), "sm_90a").sass


def test_values_are_waited_for_after_the_exponentials(sass):
    """In the loop over tiles of keys: 64 exponentials and two changes between the two waits."""
    names = re.findall(r"\b(HGMMA|MUFU\.EX2|WARPGROUP\.DEPBAR|F2FP)\b", sass)
    text = " ".join(names)
    loop = re.search(r"(?:HGMMA ){12} ?WARPGROUP\.DEPBAR ((?:MUFU\.EX2 )+)WARPGROUP\.DEPBAR", text)
    assert loop is not None
    assert loop[1].split().count("MUFU.EX2") == 66


def test_families_by_what_they_read():
    """TMA needs rows of 16-byte vectors; other GPUs have no wgmma, and f32 no matrix product."""
    assert call(128).config.family == "warpgroups"
    assert call(60).config.family == "warps"
    assert call(64, kind="f32").config.family == "rows"
    q = outline(1, 2, 64, 64)
    operator, named = attention.operator.requested(q, q, q, layout="BHMK", backend="gpu")
    assert outlined(operator, named, gpu_of("sm_80")).config.family == "warps"
    assert outlined(operator, named, gpu_of("sm_75")).config.family == "rows"
