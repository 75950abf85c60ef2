"""`cute.inline_ptx` as code: the text as it was given, in each element; what its key contains."""

import numpy as np
import pytest

import cute_py as cute

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.cache.key import key_of


@cute.kernel
def kernel(out, x, text, kind, factor):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    held = cute.rmem(x.dtype, 3)
    for i in range(3):
        held[i] = x[t + i]
    found = cute.inline_ptx(text, kind, held, emulate=lambda x: x * factor)
    for i in range(3):
        out[t, i] = found[i]


def plan_of(text, kind="s32", factor=1):
    held = np.zeros(64, cute.dtype(kind).numpy)
    return cute.trace(kernel, held.reshape(32, 2), held, text, kind, factor)


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("neg.s32 %0, %1; // twice \n neg.s32 %0, %0;", "s32", "neg.s32"),
        ("{ .reg .b32 $x; mov.u32 $x, %%laneid; add.s32 %0, %1, $x; }", "s32", "%laneid"),
        ("neg.f16 %0, %1;", "f16", "neg.f16"),
        ("neg.bf16 %0, %1;", "bf16", "neg.bf16"),
        ("add.rz.f32 %0, %1, 0f3F800000;", "f32", "add.rz.f32"),
        ("add.rp.f64 %0, %1, 1.5;", "f64", "add.rp.f64"),
        ("popc.b64 %0, %1; cvt.u64.u32 %0, %1;", "u64", None),
    ],
)
def test_a_text_is_assembled_for_each_element(text, kind, line):
    plan = plan_of(text, kind)
    if line is None:  # its types do not fit: ptxas says so
        with pytest.raises(cute.CuteError, match="ptxas"):
            cute.compile(plan, "sm_90a")
        return
    assert cute.compile(plan, "sm_90a").ptx.count(line) == 3 * text.count(line)


def test_a_loaded_plan_compiles(tmp_path):
    plan = plan_of("neg.s32 %0, %1;")
    plan.save(tmp_path / "plan")
    loaded = cute.Plan.load(tmp_path / "plan")
    assert cute.compile(loaded, "sm_80").ptx == cute.compile(plan, "sm_80").ptx


def test_text_and_function_are_in_the_key():
    plans = [plan_of("neg.s32 %0, %1;", factor=n) for n in (1, 2, 1)]
    plans.append(plan_of("abs.s32 %0, %1;"))
    keys = [key_of(plan, "sm_80", {}) for plan in plans]
    assert None not in keys
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3
