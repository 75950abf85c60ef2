"""The benchmark of the GEMM ladder: its steps are right, and the page shows its result."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import ladder
from benchmarks.gpu.cases import ROWS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "write_a_gemm.md").read_text(encoding="utf-8")
RESULT = ROOT / "benchmarks" / "results" / "ladder.json"


def a_record(kernel, dtype, us):
    return {"kernel": kernel, "dtype": dtype, "us": us, "tflops": 137_439 / us, "call_us": us + 9}


def a_result():
    rows = [a_record("torch", "f32", 3000.0), a_record("gemm_01", "f32", 60_000.0)]
    rows += [a_record("gemm_02", "f32", 4000.0), a_record("torch", "f16", 200.0)]
    rows += [a_record("gemm_08", "f16", 400.0)]
    device, date = {"name": "a GPU"}, "2026-11-22T10:00:00"
    return {"device": device, "date": date, "size": [4096] * 3, "seconds": 41.2, "rows": rows}


def test_the_steps_are_the_files_of_the_ladder():
    found = (ROOT / "cute_py" / "kernels").glob("gemm_[01]?_*.py")
    assert [step.name for step in ladder.STEPS] == sorted(path.stem[:7] for path in found)
    for step in ladder.STEPS:
        assert ladder.row_of(step.dtype) is ROWS[f"{step.dtype}-4096"]
        assert step.kernel.function.__module__.startswith(f"cute_py.kernels.{step.name}_")


@pytest.mark.parametrize("step", ladder.STEPS, ids=lambda step: step.name)
def test_what_is_timed_is_right(step):
    """On the emulator, as `measured` calls it; C is poisoned as the harness does."""
    kind = np.float32 if step.dtype == "f32" else np.float16
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 32)).astype(kind) for n in (40, 72))
    bias = rng.integers(-9, 10, 72).astype(kind)
    c = np.full((40, 72), np.nan, kind)
    ladder.launcher(step, (a, b, c), bias)(a, b, c)
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    wanted = np.maximum(wanted + bias, 0) if step.biased else wanted
    np.testing.assert_array_equal(c, wanted.astype(kind))


def test_the_table_puts_the_kernels_of_a_type_before_cublas():
    lines = ladder.table(a_result()).splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == [
        *("| gemm_01", "| gemm_02", "| cuBLAS", "| gemm_08", "| cuBLAS")
    ]
    assert lines[1] == "| gemm_02 | f32 | 4 ms | 34.4 TFLOP/s | 0.75 | 4.01 ms |"


def test_speeds_are_written_to_the_lines_of_their_steps():
    page = ladder.page_with(PAGE, a_result())
    assert "**Speed:** 34.4 TFLOP/s, 0.75 of cuBLAS; 15 times gemm_01. <!-- gemm_02 -->" in page
    assert "**Speed:** 2.29 TFLOP/s, 0.05 of cuBLAS. <!-- gemm_01 -->" in page
    assert f"{ladder.PENDING} <!-- gemm_03 -->" in page
    assert "a GPU, 2026-11-22, M, N, K = 4096, 4096, 4096; the command took 41 s." in page
    assert ladder.page_with(page, a_result()) == page


def test_the_page_shows_the_result_that_is_kept():
    result = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else None
    assert ladder.page_with(PAGE, result) == PAGE
