"""Architectures: which names there are, and what each lacks is refused by name before ptxas."""

import ast
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.atoms import rows
from cute_py.atoms.arch import holds, number
from tests.compile_only.ladder import matrices, plan_of, zeros
from tests.compile_only.programs import tool
from tests.compile_only.test_instructions import chosen, function

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.arch import NEEDS, capability, need_of, require_runnable
from cute_py.codegen.instructions import TABLE, TARGETS, texts
from cute_py.codegen.printer import (
    MOST_PARAMETERS,
    parameter_bytes,
    parameters,
    require_parameters,
)
from cute_py.kernels.config import choose
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.plan import ops
from cute_py.plan.conditions import Reg
from cute_py.plan.params import ScalarParam


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


TEXTS = {  # what is no row of the table, and the registers that it uses
    "cp.async.bulk.tensor": (
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [q, {r}], [r];",
        ".reg .b32 r; .reg .b64 q;",
    ),
    ".reqnctapercluster": ("", ""),
}


def kernel_of(name):
    """Return a kernel of one instruction."""
    if name in TABLE:
        row = TABLE[name]
        return function(row, texts(row, next(chosen(row))), "k")
    text, registers = TEXTS[name]
    head = ".reqnctapercluster 2, 1, 1 .maxntid 128" if name[0] == "." else ".maxntid 128"
    return f".visible .entry k() {head} {{\n{registers}\n{text}\nret;\n}}\n"


def edges(need):
    """Return the targets at which an instruction begins or ends, and those before them."""
    has = [holds(need.archs, arch) for arch in TARGETS]
    changes = [i for i in range(1, len(TARGETS)) if has[i] != has[i - 1]]
    return [TARGETS[i] for i in sorted({i - n for i in changes for n in (0, 1)})]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NEEDS)
def test_ptxas_agrees_where_an_instruction_begins(name, every, tmp_path):
    """The text assembles for each of the needed architectures, and for no other."""
    need, kernel = NEEDS[name], kernel_of(name)
    assert edges(need)
    for arch in TARGETS if every else edges(need):
        lines = f".version 9.0\n.target {arch}\n.address_size 64\n{kernel}"
        (tmp_path / "k.ptx").write_text(lines)
        command = [tool("ptxas"), "-arch", arch, str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k")]
        taken = subprocess.run(command, capture_output=True, check=False).returncode == 0
        assert taken == holds(need.archs, arch), (name, arch)


def test_what_ops_need_is_known():
    """What ops need is in the table of instructions, or in that of what it does not have yet."""
    folder = Path(ops.__file__).parent
    needed = {kind.instruction for kind in ops.OPS} - {None}
    assert len(needed) > 10
    for path in folder.glob("*.py"):
        for part in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(part, ast.FunctionDef) and part.name in ("needs", "narrow"):
                body = part.body[1:]  # without the docstring
                needed |= {x.value for line in body for x in ast.walk(line) if is_name(x)}
    assert len(needed) > 15
    assert needed <= {*NEEDS, *(row.name for row in TABLE.values())}


def test_an_instruction_that_every_target_has_is_no_need(monkeypatch):
    monkeypatch.setattr(ops.Redux, "instruction", "vote")
    register = Reg("a", cute.s32, (0,))
    assert need_of(ops.Redux("add", register, register)) is None


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


def test_conversions_compile_for_every_architecture():
    """Where an instruction is missing, by integers; bf16 has no product rounded once on sm_75."""

    @cute.kernel
    def converted(x, y):
        cute.launch(grid=1, block=32)
        x[0] = x[0].to("bf16").to("f32") + y[0].to("f32")
        y[0] = x[0].to("e4m3")

    @cute.kernel
    def product(x):
        cute.launch(grid=1, block=32)
        x[0] = x[0] * x[0]

    x = np.zeros(64, np.float32)
    plan = cute.trace(converted, x, zeros(64, kind="e4m3"))
    native = {"sm_75": (0, 0), "sm_80": (1, 0), "sm_89": (1, 2)}
    for arch, (bf16, fp8) in native.items():
        ptx = cute.compile(plan, arch).ptx
        assert ptx.count("cvt.rn.bf16.f32") == bf16
        assert ptx.count("e4m3x2") == fp8
    said = refused(cute.trace(product, zeros(64, kind="bf16")), "sm_75", "codegen-lacks")
    assert "arithmetic of registers for sm_75, which has no fma.bf16" in said
    assert "fix: compile for sm_80, or run the kernel on the emulator" in said


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


@pytest.mark.parametrize("beyond", [0, 1])
def test_parameters_beyond_a_launch_are_refused(beyond):
    plan = plan_of("copy_tiles")
    room = MOST_PARAMETERS // 8 - len(parameters(plan))
    numbers = [ScalarParam(f"n{i}", cute.s32) for i in range(room + beyond)]
    plan = replace(plan, params=(*plan.params, *numbers))
    assert parameter_bytes(plan) == MOST_PARAMETERS // 8 * 8 + 8 * beyond
    if not beyond:
        require_parameters(plan)
        return
    said = refused(plan, "sm_90a", "codegen-parameters")
    assert "given 32768 bytes of parameters" in said
    assert "at most 32764 bytes" in said


# -- instructions that an architecture replaces by slower ones


@cute.kernel
def product_of_s4(o, allowed):
    cute.launch(grid=1, block=32, allow_emulated=allowed)
    mma = cute.make_tiled_mma("SM80_16x8x64_S32S4S4S32_TN")
    c, a, b = (cute.rmem(kind, (n, 1, 1)) for kind, n in (("s32", 4), ("s4", 32), ("s4", 16)))
    for held in (a, b, c):
        held.fill(1)
    cute.gemm(mma, c, a, b)
    o[cute.thread_idx()] = c[0]


@pytest.fixture(scope="module")
def instructions():
    """Return (arch, allowed) -> the machine instructions of a product of s4."""
    o = np.zeros(32, np.int32)
    return {
        (arch, allowed): cute.compile(
            cute.trace(product_of_s4, o, allowed), arch
        ).resources.instructions
        for arch, allowed in (("sm_80", False), ("sm_90a", True))
    }


def test_products_that_an_architecture_emulates_are_refused_unless_allowed(instructions):
    o = np.zeros(32, np.int32)
    plan = cute.trace(product_of_s4, o, False)
    said = refused(plan, "sm_90a", "codegen-emulated")
    assert "SM80_16x8x64_S32S4S4S32_TN for sm_90a, where ptxas replaces it" in said
    assert "sm_80, sm_86, sm_87, sm_88, sm_89 have this one" in said
    assert "cute.launch(..., allow_emulated=True)" in said
    assert "test_arch.py:" in said
    assert instructions["sm_80", False]["CALL"] == 0
    assert instructions["sm_90a", True]["CALL"] == 1
    allowed = cute.trace(product_of_s4, o, True)
    assert str(allowed).splitlines()[2].endswith(" allow_emulated")
    for each in (plan, allowed):  # the emulator is exact for both
        cute.emulate(each, o)
        assert (o == 65).all()
        o[:] = 0


def test_every_product_is_refused_where_it_is_emulated_and_nowhere_else():
    """Each row of an atom with an instruction, for every target."""
    o = np.zeros(32, np.int32)
    (product,) = (op for op in cute.trace(product_of_s4, o, False).ops if isinstance(op, ops.Mma))
    for atom in (x for x in rows() if x.runnable and x.ptx and x.num_threads == 32):
        body = (replace(product, atom=atom),)
        plan = replace(cute.trace(product_of_s4, o, False), body=body)
        for arch in TARGETS:
            code = {"native": "", "emulated": "codegen-emulated", "": "codegen-lacks"}
            assert _code(plan, arch) == code[atom.support(arch)], (str(atom), arch)


def _code(plan, arch):
    try:
        require_runnable(plan, arch)
    except cute.CuteError as error:
        return error.code
    return ""


def test_the_operator_allows_what_it_chooses_itself():
    """A caller of `ops.gemm` chooses no instruction."""
    a, c = cute.typed(np.zeros((64, 64), np.int8), "s4"), zeros(64, 64, kind="s32")
    plan = cute.trace(gemm_multistage, a, a, c, choose(a, a, (64, 64)))
    assert plan.launch.allow_emulated
    require_runnable(plan, "sm_90a")
    f = matrices("f16")
    assert not cute.trace(gemm_multistage, *f, choose(*f[:2], (64, 64))).launch.allow_emulated
