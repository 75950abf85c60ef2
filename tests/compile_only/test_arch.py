"""Architectures: which names there are, and what each lacks is refused by name before ptxas."""

import ast
import subprocess
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.atoms.arch import holds, number
from tests.compile_only.ladder import matrices, plan_of, zeros
from tests.compile_only.programs import tool
from tests.compile_only.test_instructions import chosen, function

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.arch import NEEDS, TARGETS, capability, require_runnable
from cute_py.codegen.instructions import TABLE, texts
from cute_py.kernels.config import choose
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.plan import ops


def refused(plan, arch, code):
    with pytest.raises(cute.CuteError) as caught:
        cute.compile(plan, arch)
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.parametrize("arch", TARGETS)
def test_every_name_compiles(arch):
    compiled = cute.compile(plan_of("copy_tiles"), arch)
    assert f".target {arch}" in compiled.ptx


def test_names_are_those_of_ptxas():
    text = subprocess.run([tool("ptxas"), "--help"], capture_output=True, text=True, check=True)
    allowed = text.stdout.partition("Allowed values")[2].partition("Default value")[0]
    names = {word.strip("'. \n") for word in allowed.replace("\n", "").split(",")}
    assert {name for name in names if name.startswith("sm_")} == set(TARGETS)


def test_an_unknown_architecture_is_refused():
    assert capability("sm_90a") == (9, 0, "a")
    assert capability("sm_120f") == (12, 0, "f")
    for arch in ("90", "sm90", "sm_x", "", "sm_80a", "sm_95", 90):
        with pytest.raises(cute.CuteError) as caught:
            capability(arch)
        assert caught.value.code == "codegen-arch"


@pytest.mark.parametrize("arch", ["sm_61", "sm_70"])
def test_what_cuda_13_dropped_goes_to_the_emulator(arch):
    assert "cute.emulate" in refused(plan_of("copy_tiles"), arch, "codegen-arch-old")


# -- what an architecture lacks


TEXTS = {  # what the table does not have yet, and the registers that it uses
    "cp.async.mbarrier.arrive": ("cp.async.mbarrier.arrive.noinc.shared.b64 [r];", ".reg .b32 r;"),
    "mbarrier": ("mbarrier.init.shared.b64 [r], 1;", ".reg .b32 r;"),
    "mbarrier.arrive.expect_tx": (
        "mbarrier.arrive.expect_tx.shared::cta.b64 q, [r], 8;",
        ".reg .b32 r; .reg .b64 q;",
    ),
    "mbarrier.try_wait": (
        "mbarrier.try_wait.parity.shared::cta.b64 p, [r], 0;",
        ".reg .b32 r; .reg .pred p;",
    ),
    "cp.async.bulk.tensor": (
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [q, {r}], [r];",
        ".reg .b32 r; .reg .b64 q;",
    ),
    "cp.async.bulk.commit_group": ("cp.async.bulk.commit_group;", ""),
    "cp.async.bulk.wait_group": ("cp.async.bulk.wait_group 0;", ""),
    ".reqnctapercluster": ("", ""),
    "wgmma.fence": ("wgmma.fence.sync.aligned;", ""),
    "wgmma.commit_group": ("wgmma.commit_group.sync.aligned;", ""),
    "wgmma.wait_group": ("wgmma.wait_group.sync.aligned 0;", ""),
    "setmaxnreg": ("setmaxnreg.dec.sync.aligned.u32 40;", ""),
}


def kernel_of(name):
    """Return a kernel of one instruction."""
    if name in TABLE:
        row = TABLE[name]
        return function(row, texts(row, next(chosen(row))), "k")
    text, registers = TEXTS[name]
    head = ".reqnctapercluster 2, 1, 1 .maxntid 128" if name[0] == "." else ".maxntid 128"
    return f".visible .entry k() {head} {{\n{registers}\n{text}\nret;\n}}\n"


@pytest.mark.parametrize("name", NEEDS)
def test_ptxas_agrees_where_an_instruction_begins(name, tmp_path):
    """The text assembles for each of the needed architectures, and for no other."""
    need, kernel = NEEDS[name], kernel_of(name)
    for arch in TARGETS:
        lines = f".version 9.0\n.target {arch}\n.address_size 64\n{kernel}"
        (tmp_path / "k.ptx").write_text(lines)
        command = [tool("ptxas"), "-arch", arch, str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k")]
        taken = subprocess.run(command, capture_output=True, check=False).returncode == 0
        assert taken == holds(need.archs, arch), (name, arch)


def test_what_ops_need_is_known():
    """What ops need is in the table, or in that of what it does not have yet."""
    folder = Path(ops.__file__).parent
    needed = {kind.instruction for kind in ops.OPS} - {None}
    assert len(needed) > 10
    for path in folder.glob("*.py"):
        for part in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(part, ast.FunctionDef) and part.name in ("needs", "narrow"):
                body = part.body[1:]  # without the docstring
                needed |= {x.value for line in body for x in ast.walk(line) if is_name(x)}
    assert len(needed) > 15
    assert needed <= set(NEEDS)


def is_name(x):
    return isinstance(x, ast.Constant) and isinstance(x.value, str) and "." in x.value


def test_the_op_and_its_line_are_named():
    said = refused(plan_of("gemm_07_multistage"), "sm_75", "codegen-lacks")
    assert "a copy by cp.async for sm_75, which has no cp.async.cg.shared.global" in said
    assert "required: sm_80 or newer" in said
    assert "gemm_07_multistage.py:" in said


@pytest.mark.parametrize(
    ("kind", "arch", "words"),
    [
        ("f16", "sm_75", "cp.async"),
        ("e4m3", "sm_80", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"),
    ],
)
def test_atoms_say_where_they_are(kind, arch, words):
    a, b, c = matrices(kind)
    plan = cute.trace(gemm_multistage, a, b, c, choose(a, b, (64, 64)))
    assert words in refused(plan, arch, "codegen-lacks")
    require_runnable(plan, "sm_89")


def test_conversions_say_where_they_are():
    @cute.kernel
    def to_bf16(x):
        cute.launch(grid=1, block=32)
        x[0] = x[0].to("bf16").to("f32")

    @cute.kernel
    def from_fp8(x, y):
        cute.launch(grid=1, block=32)
        x[0] = y[0].to("f32")

    x = np.zeros(64, np.float32)
    said = refused(cute.trace(to_bf16, x), "sm_75", "codegen-lacks")
    assert "x.to(dtype) for sm_75, which has no cvt.bf16" in said
    assert "fix: compile for sm_80, or run the kernel on the emulator" in said
    plan = cute.trace(from_fp8, x, zeros(64, kind="e4m3"))
    assert "sm_89 or newer" in refused(plan, "sm_86", "codegen-lacks")
    assert cute.compile(plan, "sm_89").cubin


def test_a_need_is_of_the_first_architecture_on():
    for need in NEEDS.values():
        assert all(number(x) >= number(need.first) for x in need.archs)


def test_shared_memory_beyond_a_block_is_refused():
    @cute.kernel
    def large(x):
        cute.launch(grid=1, block=32)
        tile = cute.smem("f32", 120 * 256)  # 120 KiB
        tile[cute.thread_idx()] = x[0]
        cute.syncthreads()
        x[0] = tile[0]

    plan = cute.trace(large, np.zeros(64, np.float32))
    said = refused(plan, "sm_86", "codegen-smem")
    assert "122880 bytes of shared memory for a block of sm_86" in said
    assert "at most 101376 bytes" in said
    assert cute.compile(plan, "sm_80").resources.smem_bytes == 122880
