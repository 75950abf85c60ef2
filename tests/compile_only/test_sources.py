"""Printed kernels are files: they name what they come from, and an edited copy compiles."""

import linecache
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.codegen.cache import files
from tests.compile_only.kernels_of_ops import KERNELS
from tests.compile_only.ladder import plan_of, zeros

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", KERNELS)
def test_sources_of_ops_are_the_golden_ones(name, golden):
    plan = KERNELS[name]()
    text = cute.source(plan)
    golden(f"sources/ops_{name}.py", text)
    assert cute.compile(plan, "sm_90a", source=text).cubin


def refused(plan, text):
    with pytest.raises(cute.CuteError) as caught:
        cute.compile(plan, "sm_80", source=text)
    assert caught.value.code == "codegen-source"
    return str(caught.value)


def test_an_edited_copy_compiles_to_other_code():
    plan = plan_of("reduce")
    text = cute.source(plan)
    plain = cute.compile(plan, "sm_80", source=text)
    assert plain.source == text
    assert plain.resources.instructions["BAR"] == 1
    edited = re.sub(r"\n *barrier_\d+\(\).*", "", text, count=1)
    compiled = cute.compile(plan, "sm_80", source=edited)
    assert compiled.source == edited
    assert compiled.resources.instructions["BAR"] == 0


def test_a_copy_that_is_no_such_kernel_is_refused():
    plan = plan_of("copy_elements")
    text = cute.source(plan)
    assert "SyntaxError" in refused(plan, text + "\n)")
    assert "no function copy_elements(A, " in refused(
        plan, text.replace("(A, A_shape0", "(A0, A_shape0")
    )
    assert "no function" in refused(plan, "copy_elements = 1")
    assert "load_7" in refused(plan, text.replace("load_0", "load_7"))


def test_ptx_names_a_real_file_and_its_lines():
    compiled = cute.compile(plan_of("reduce"), "sm_80")
    (path,) = re.findall(r'\.file\s+\d+ "(.*)"', compiled.ptx)
    assert Path(path).read_text() == compiled.source
    lines = compiled.source.splitlines()
    named = {lines[int(n) - 1] for n in re.findall(r"\.loc\s+\d+ (\d+)", compiled.ptx)}
    for call in ("load_0(", "barrier_0(", "store_0("):
        assert any(call in line for line in named)


def test_where_no_file_can_be_written_the_kernel_compiles(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CUTE_PY_CACHE_DIR", str(blocked / "folder"))
    monkeypatch.setattr(files, "_warned", set())
    with pytest.warns(
        RuntimeWarning, match="the cache on disk is not used: .* Not a directory"
    ) as said:
        compiled = cute.compile(plan_of("copy_tiles"), "sm_80")
    assert compiled.cubin[:4] == b"\x7fELF"
    assert len(said) == 1
    (path,) = re.findall(r'\.file\s+\d+ "(.*)"', compiled.ptx)
    assert "".join(linecache.getlines(path)) == compiled.source


def test_names_of_the_kernel_do_not_meet_those_of_the_text():
    """A parameter called smem is not the address of shared memory."""

    @cute.kernel
    def range_(smem, int64, undefined, fill_0):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        tile, held = cute.smem("f32", 32), cute.rmem("f32", 1)
        held.fill(0)
        for _k in cute.range(undefined.shape[0]):
            held += 1.0
        tile[tid] = int64[tid] + held + undefined[0] + fill_0[0]
        smem[tid] = tile[tid]

    x = np.zeros(32, np.float32)
    plan = cute.trace(range_, x, x, x, x)
    text = cute.source(plan)
    assert re.search(r"^    smem_ = shared_memory\(\)", text, re.MULTILINE)
    assert re.search(r"store_\d\(tid, smem, ", text)
    assert re.search(r"store_\d\(tid, smem_, ", text)
    assert cute.compile(plan, "sm_80").resources.stack_bytes == 0


def test_a_name_that_is_none_is_refused():
    plan = plan_of("copy_elements")
    for name in ("x(): pass\n", "for", "", "<lambda>"):
        with pytest.raises(cute.CuteError) as caught:
            cute.source(type(plan)(name, plan.params, plan.launch, (), plan.storages, plan.body))
        assert caught.value.code == "codegen-name"
        assert f"given the name {name!r} in the plan" in str(caught.value)


def test_text_of_an_op_stays_in_its_comment():
    @cute.kernel
    def asserted(x):
        cute.launch(grid=1, block=32)
        cute.assert_(x[0] > 3, "too\nsmall\r!")  # noqa: PT009

    text = cute.source(cute.trace(asserted, zeros(64)))
    (line,) = [line for line in text.splitlines() if line.strip().startswith("assert_0(")]
    assert "too small !" in line


@pytest.mark.parametrize("seed", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_source_and_saved_plan_do_not_depend_on_the_process(tmp_path, seed):
    plan = plan_of("gemm_08_epilogue")
    plan.save(tmp_path / "plan")
    code = "import sys, cute_py; print(cute_py.source(cute_py.Plan.load(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "plan")],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == cute.source(plan) + "\n"
    assert "mma_1(" in done.stdout


def test_every_line_of_a_plan_has_its_place():
    text = cute.source(plan_of("gemm_07_multistage"))
    body = text.rpartition(" = undefined(")[2].splitlines()[1:]
    walks = re.compile(r" +\w+_at = (begin|advance)_\d+\(")
    calls = [line for line in body if line.strip() and not walks.match(line)]
    assert len(calls) == len([line for line in body if line.strip()]) - 4
    for name in ("turn0", "turn1"):
        calls.remove(f"    {name} = int32(0)")  # declared next to the registers
    assert all(re.search(r"  # line \d+", line) for line in calls)
    assert max(map(len, text.splitlines())) <= 120
