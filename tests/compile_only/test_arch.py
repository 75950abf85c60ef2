"""Architectures: which names there are, and what each lacks is refused by name before ptxas."""

import subprocess

import numpy as np
import pytest

import cute_py as cute
from cute_py.atoms.arch import holds, number
from tests.compile_only.ladder import matrices, plan_of, zeros
from tests.compile_only.programs import tool

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen import arch as arch_of
from cute_py.codegen.arch import TARGETS, capability, require_runnable
from cute_py.kernels.config import choose
from cute_py.kernels.gemm_07_multistage import gemm_multistage


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


@pytest.mark.parametrize(
    "name",
    [name for name, value in vars(arch_of).items() if isinstance(value, arch_of.Need)],
)
def test_ptxas_agrees_where_an_instruction_begins(name, tmp_path):
    """The text assembles for each of the needed architectures, and for no other."""
    need = getattr(arch_of, name)
    text, registers = {
        "CP_ASYNC": ("cp.async.commit_group;", ""),
        "BF16": ("cvt.rn.bf16.f32 h, f;", ".reg .b16 h; .reg .f32 f;"),
        "FP8": ("cvt.rn.satfinite.e4m3x2.f32 h, f, f;", ".reg .b16 h; .reg .f32 f;"),
        "ATOM_BF16": (
            "atom.global.add.noftz.bf16 h, [q], h;",
            ".reg .b16 h; .reg .b64 q;",
        ),
        "TF32": ("cvt.rna.tf32.f32 r, f;", ".reg .b32 r; .reg .f32 f;"),
        "MBARRIER": ("mbarrier.init.shared.b64 [r], 1;", ".reg .b32 r;"),
        "MBARRIER_TX": (
            "mbarrier.arrive.expect_tx.shared::cta.b64 q, [r], 8;",
            ".reg .b32 r; .reg .b64 q;",
        ),
        "TRY_WAIT": (
            "mbarrier.try_wait.parity.shared::cta.b64 p, [r], 0;",
            ".reg .b32 r; .reg .pred p;",
        ),
        "TMA": ("cp.async.bulk.commit_group;", ""),
        "CLUSTER": ("barrier.cluster.arrive.aligned;", ""),
        "CLUSTERS": ("", ""),
        "PROXY": ("fence.proxy.async.shared::cta;", ""),
        "INIT": ("fence.mbarrier_init.release.cluster;", ""),
        "GRIDDEP": ("griddepcontrol.wait;", ""),
        "WGMMA": ("wgmma.fence.sync.aligned;", ""),
        "SETMAXNREG": ("setmaxnreg.dec.sync.aligned.u32 40;", ""),
    }[name]
    head = ".reqnctapercluster 2, 1, 1 .maxntid 128" if name == "CLUSTERS" else ".maxntid 128"
    for arch in TARGETS:
        lines = f".version 9.0\n.target {arch}\n.address_size 64\n.visible .entry k() {head} {{\n"
        (tmp_path / "k.ptx").write_text(f"{lines}{registers}\n{text}\nret;\n}}\n")
        command = [tool("ptxas"), "-arch", arch, str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k")]
        taken = subprocess.run(command, capture_output=True, check=False).returncode == 0
        assert taken == holds(need.archs, arch), (name, arch)


def test_the_op_and_its_line_are_named():
    said = refused(plan_of("gemm_07_multistage"), "sm_75", "codegen-lacks")
    assert "CpAsync for sm_75, which has no cp.async.cg.shared.global" in said
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
    assert "Convert for sm_75, which has no cvt.bf16" in said
    assert "fix: compile for sm_80, or run the kernel on the emulator" in said
    plan = cute.trace(from_fp8, x, zeros(64, kind="e4m3"))
    assert "sm_89 or newer" in refused(plan, "sm_86", "codegen-lacks")
    assert cute.compile(plan, "sm_89").cubin


def test_a_need_is_of_the_first_architecture_on():
    for value in vars(arch_of).values():
        if isinstance(value, arch_of.Need):
            assert all(number(x) >= number(value.first) for x in value.archs)


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
