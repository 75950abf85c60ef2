"""`cute.print` as code: the text is that of the emulator, and vprintf is called with its values."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from tests.kernel_refusals import traced

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from tests.compile_only import host

CORNERS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e6, 999999.5, 1e-5, 1e20, -np.inf, np.nan, -np.nan]


@cute.kernel
def printed(x, n: cute.s64):
    cute.launch(grid=1, block=12)
    t = cute.thread_idx()
    held = cute.rmem(x.dtype, 3)
    for i in range(3):
        held[i] = x[t]
    with cute.when(t % 3 < 2):
        cute.print("{{100% of {}}}: {} {}\t{}", t, x[t], held, t * n - 5)
        cute.print("{} {} {} {}", t < 4, 2.5, -(2**40), True)
    cute.print("")


def text_of(capfd, run):
    capfd.readouterr()
    run()
    ctypes.CDLL(None).fflush(None)
    return capfd.readouterr().out


@pytest.mark.parametrize(
    "kind", ["f64", "f32", "f16", "bf16", "e4m3", "s8", "u8", "s64", "u64", "b1"]
)
def test_the_code_prints_the_text_of_the_emulator(kind, capfd):
    numpy = cute.dtype(kind).numpy
    values = CORNERS if cute.dtype(kind).is_float else [0, 1, 2, 127, -1, -128] * 2
    with np.errstate(all="ignore"):
        x = np.array(values).astype(numpy)
    plan = cute.trace(printed, x, 1 << 40)
    wanted = text_of(capfd, lambda: cute.emulate(plan, x, 1 << 40))
    found = text_of(capfd, lambda: host.run(plan, x, 1 << 40))
    assert len(wanted.splitlines()) == 8 * 2 + 12
    assert sorted(found.splitlines()) == sorted(wanted.splitlines())
    first = {"f32": "0 [0, 0, 0]", "b1": "0 [0, 0, 0]"}.get(kind)
    assert first is None or f"{{100% of 0}}: {first}\t-5" in wanted.splitlines()
    assert f"1 2.5 {-(2**40)} 1" in wanted.splitlines()


def test_vprintf_is_called_and_its_local_memory_is_allowed():
    x = np.zeros(12, ml_dtypes.bfloat16)
    for arch in ("sm_75", "sm_90a"):
        compiled = cute.compile(cute.trace(printed, x, 1), arch)
        assert compiled.ptx.count("vprintf") >= 3
        assert compiled.resources.stack_bytes > 0


def test_more_than_32_values_are_refused():
    def body(f):
        held = cute.rmem("f32", 33)
        held.fill(0)
        cute.print("{}", held)

    plan = traced(body)
    with pytest.raises(cute.LayoutError, match="33 elements") as caught:
        cute.compile(plan, "sm_80")
    assert caught.value.code == "codegen-print"


@pytest.mark.parametrize("text", ["{0}", "{:>4}", "{x}", "{!r}", "{", "}", "{}{}", "", "\0{}", 3])
def test_texts_have_a_plain_field_for_each_value(text):
    with pytest.raises(cute.LayoutError) as caught:
        traced(lambda x: cute.print(text, x[0]))
    assert caught.value.code == "kernel-print"
