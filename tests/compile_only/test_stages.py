"""The stages of a compilation: each prints, each says why it refuses, none costs unasked."""

import re
from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from tests.compile_only.kernels_of_ops import KERNELS
from tests.compile_only.ladder import plan_of

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from llvmlite import ir

from cute_py.codegen import build, toolchain
from cute_py.codegen.build import PASSES
from cute_py.codegen.ops import RULES
from cute_py.codegen.sass import counted
from cute_py.codegen.storage import I32
from cute_py.codegen.toolchain import FORBIDDEN, assembled
from cute_py.errors import refusal
from cute_py.plan import ops


def refused(code, call):
    with pytest.raises(cute.CuteError) as caught:
        call()
    assert caught.value.code == code
    return str(caught.value)


# -- the name of the kernel


@pytest.mark.parametrize(
    ("name", "is_kept"), [("scale", True), ("add", True), ("größe", False), ("py_shared", False)]
)
def test_a_kernel_has_the_name_that_its_author_gave_it_where_ptx_can_have_it(name, is_kept):
    """`add` alone is reserved there; `cute_py_shared` is the shared memory."""

    def body(x):
        cute.launch(grid=1, block=32)
        cute.smem("f32", 32)[cute.thread_idx()] = 1.0
        x[cute.thread_idx()] = 1.0

    body.__name__ = name
    made = cute.compile(cute.trace(cute.kernel(body), np.zeros(32, np.float32)), "sm_90a")
    assert (made.entry == f"cute_{name}") is is_kept
    assert made.ptx.count(f".entry {made.entry}(") == 1
    assert made.entry.encode() in made.cubin


# -- CUTE_PY_DEBUG


def shown(monkeypatch, capsys, value):
    """Return the titles that a compilation prints, without seconds, and all that it prints."""
    monkeypatch.setenv("CUTE_PY_DEBUG", value)
    cute.compile(plan_of("copy_tiles"), "sm_80")
    output, errors = capsys.readouterr()
    assert output == ""
    return [re.sub(r":.*", "", line) for line in errors.splitlines() if line[:3] == "== "], errors


def test_a_number_says_how_much_is_printed(monkeypatch, capsys):
    def stages(value):
        titles = shown(monkeypatch, capsys, value)[0]
        return [title.removeprefix("== copy_tiles sm_80 ") for title in titles]

    def until(stage):
        last = [each.stage for each in PASSES].index(stage)
        shown = [(x.name, x.stage) if i <= last else (x.name,) for i, x in enumerate(PASSES)]
        return [title for titles in shown for title in titles]

    assert stages("0") == []
    assert stages("1") == [each.name for each in PASSES]
    assert stages("2") == until("source")
    assert stages("3") == until("ptx")
    assert stages("4") == until("sass")
    titles, text = shown(monkeypatch, capsys, "4")
    assert titles[-1] == "== copy_tiles sm_80 sass"
    assert "LDG" in text
    assert "registers=" in text


def test_stages_are_printed_by_name(monkeypatch, capsys):
    titles, text = shown(monkeypatch, capsys, "source, log")
    assert titles == ["== copy_tiles sm_80 source", "== copy_tiles sm_80 log"]
    assert cute.source(plan_of("copy_tiles")) in text
    assert "Used " in text


def test_the_passes_are_optimisations_by_the_words_of_compilers():
    assert [each.name for each in PASSES] == [
        "requirements of the architecture",
        "drop waits for earlier grids",
        "short atomic sums",
        "sums from zero",
        "modulo counters",
        "strength reduction of addresses",
        "print source",
        "PTX",
        "assemble",
        "gates",
    ]


def test_each_rewrite_prints_what_it_changed(monkeypatch, capsys):
    """The pipeline counts its stages and lets addresses walk; there is no wait to be dropped."""
    monkeypatch.setenv("CUTE_PY_DEBUG", "lowered")
    cute.compile(plan_of("gemm_07_multistage"), "sm_80")
    printed = capsys.readouterr().err
    _start, waits, sums, zeros, counters, addresses = re.split(r"(?m)^== ", printed)
    assert waits == "gemm_multistage sm_80 waits\nunchanged\n"
    assert sums == "gemm_multistage sm_80 sums\nunchanged\n"
    assert zeros == "gemm_multistage sm_80 zeros\nunchanged\n"
    assert "= where(3 <= n0+1, 0, n0+1)  # line 68" in counters
    assert "turn1 := n0  # line 68" in counters  # the stage that is filled next
    assert re.search(
        r"^A_at around for k0 .*: from .*, 32 per iteration  # \S+:68$", addresses, re.M
    )
    assert re.search(r"^B_at in cp_async: from .*32\*k0.*  # \S+:59$", addresses, re.M)


def test_a_rewrite_of_ones_own_is_a_line_of_the_list(monkeypatch, capsys):
    """As those for newer architectures will be: from a plan and an architecture to a plan."""

    def without_barriers(plan, arch):
        assert arch == "sm_80"
        kept = tuple(op for op in plan.body if not isinstance(op, ops.Barrier))
        return replace(plan, body=kept)

    mine = build.Pass("no barriers", build.rewriting(without_barriers), "mine", build._rewritten)
    monkeypatch.setattr(build, "PASSES", (PASSES[0], mine, *PASSES[1:]))
    monkeypatch.setattr(build, "STAGES", (*build.STAGES, "mine"))
    monkeypatch.setenv("CUTE_PY_DEBUG", "mine")
    plan = plan_of("transpose_swizzled")
    assert any(isinstance(op, ops.Barrier) for op in plan.body)
    compiled = cute.compile(plan, "sm_80")
    assert "barrier_0()" not in compiled.source
    assert "bar.sync" not in compiled.ptx
    assert compiled.plan == plan
    assert "barrier" not in capsys.readouterr().err


def test_what_is_no_stage_is_refused(monkeypatch):
    for value in ("5", "-1", "sauce", "plan;source"):
        monkeypatch.setenv("CUTE_PY_DEBUG", value)
        said = refused("codegen-debug", lambda: cute.compile(plan_of("copy_tiles"), "sm_80"))
        assert value in said


# -- machine code


def test_instructions_are_counted_only_when_they_are_asked_for(monkeypatch):
    tool = toolchain.tool

    def without(name):
        if name == "nvdisasm":
            raise refusal("codegen-missing", operation="cute.compile", name=name)
        return tool(name)

    toolchain.disassembled.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(toolchain, "tool", without)
        compiled = cute.compile(plan_of("reduce"), "sm_80")
        assert "nvdisasm" in refused("codegen-missing", lambda: compiled.sass)
        assert "nvdisasm" in refused("codegen-missing", lambda: compiled.resources.instructions)
    assert compiled.resources.instructions["BAR"] == compiled.sass.count("BAR.SYNC")
    assert compiled.resources.instructions["HMMA"] == 0
    with pytest.raises(TypeError):
        compiled.resources.instructions["HMMA"] = 1


def test_predicated_instructions_are_counted_too():
    text = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDSM.16.M88.4 R4, [R2] ;
        /*0020*/             @UP1 USEL UR4, UR5, UR6, UP0 ;
        /*0030*/               @P2 BRA `(.L_x_1) ;
.L_x_1:
    """
    assert dict(counted(text)) == {"LDC": 1, "LDSM": 1, "USEL": 1, "BRA": 1}


def test_what_nvdisasm_refuses_is_shown():
    assert "nvdisasm" in refused("codegen-disassembly", lambda: toolchain.disassembled(b"no cubin"))


# -- refusals of the compilers


def test_what_ptxas_refuses_is_shown():
    ptx = cute.compile(plan_of("gemm_07_multistage_s8"), "sm_80").ptx
    old = ptx.replace(".target sm_80", ".target sm_75")
    said = refused("codegen-ptxas", lambda: assembled("gemm", old, "sm_75"))
    assert "requires .target sm_80 or higher" in said


def test_what_ptxas_ignores_is_refused():
    """setmaxnreg needs to know the number of threads: C7508."""
    head = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n"
    text = head + "setmaxnreg.dec.sync.aligned.u32 40;\nret;\n}\n"
    said = refused("codegen-ptxas", lambda: assembled("k", text, "sm_90a"))
    assert FORBIDDEN.search(said)
    assert "setmaxnreg" in said


@pytest.mark.parametrize("name", ["memory", "debug"])
@pytest.mark.parametrize("most", [0, 8])
@pytest.mark.parametrize(("stack", "spilled"), [(0, 0), (8, 0), (0, 8), (8, 16), (16, 8)])
def test_local_memory_is_refused_unless_a_kernel_prints(stack, spilled, most, name):
    """Of a stack without spills too."""
    log = f"    {stack} bytes stack frame, {spilled} bytes spill stores, 9 bytes spill loads\n"
    plan = KERNELS[name]()
    made = build.Build(plan, "sm_80", plan, most, log=log)
    assert (made.resources.stack_bytes, made.resources.spill_bytes) == (stack, spilled)
    if max(stack, spilled) > most and name != "debug":
        assert f"{max(stack, spilled)} bytes" in refused("codegen-spills", lambda: build.gate(made))
    else:
        assert build.gate(made) is made


def test_what_nvvm_refuses_is_shown(monkeypatch):
    """An instruction of one result must not return a structure."""

    def structure_of_one(e, _op):
        kind = ir.FunctionType(ir.LiteralStructType([I32]), [])
        e.b.call(ir.InlineAsm(kind, "mov.b32 $0, 1;", "=r", side_effect=True), [])

    monkeypatch.setitem(RULES, ops.Barrier, structure_of_one)
    monkeypatch.setenv("CUTE_PY_CACHE", "0")  # the kernel of the right rule may be there
    said = refused("codegen-nvvm", lambda: cute.compile(plan_of("reduce"), "sm_80"))
    assert "invalid type for inline asm constraint string" in said
