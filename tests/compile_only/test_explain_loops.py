"""`Compiled.explain` counts the machine code of each loop by kind; `Plan.explain` the ops."""

import re

import numpy as np
import pytest

import cute_py as cute

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.sass import explained, kind_of
from cute_py.ops.without_gpu import call_on, gpu_of
from tests.compile_only.ladder import multistage_flagship

NESTED = """
.text.kernel:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDGSTS.E.128 [R2], [R4.64] ;
        /*0020*/                   ISETP.GE.AND P0, PT, R0, R1, PT ;
.L_x_0:
        /*0030*/                   HMMA.16816.F32 R4, R8, R10, R4 ;
        /*0040*/                   FFMA R1, R2, R3, R4 ;
        /*0050*/              @!P0 BRA `(.L_x_0) ;
        /*0060*/                   BAR.SYNC 0x0 ;
        /*0070*/              @P0  BRA `(.L_x_1) ;
        /*0080*/                   EXIT ;
.L_x_2:
        /*0090*/                   BRA `(.L_x_2);
        /*00a0*/                   NOP;
"""


def test_loops_are_what_branches_back_enclose():
    assert explained(NESTED).splitlines() == [
        "outside loops: 3 instructions: 1 moves (1 MOV); 2 branches (1 BRA, 1 EXIT)",
        "loop at 0x0010 to 0x0070: 4 instructions: 1 copies (1 LDGSTS); 1 waits (1 BAR); "
        "1 guards (1 ISETP); 1 branches (1 BRA)",
        "loop at 0x0030 to 0x0050: 3 instructions: 1 products (1 HMMA); 1 branches (1 BRA); "
        "1 arithmetic (1 FFMA)",
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("LDSM", "copies"),
        ("LDGDEPBAR", "waits"),
        ("UTMALDG", "copies"),
        ("HGMMA", "products"),
        ("HMUL2", "arithmetic"),
        ("UIADD3", "addresses"),
        ("BRA", "branches"),
        ("ULDC", "constants"),
    ],
)
def test_kinds_of_instructions(name, kind):
    assert kind_of(name) == kind


@pytest.fixture(scope="module")
def gemm():
    plan = multistage_flagship()
    return plan, cute.compile(plan, "sm_80", 1000)


def test_the_main_loop_of_a_gemm_is_explained(gemm):
    plan, compiled = gemm
    _head, loop = compiled.explain().splitlines()
    assert "64 products (64 HMMA)" in loop
    assert re.search(r"8 LDGSTS.* 16 LDSM", loop)
    assert "1 BAR" in loop
    _head, loop = plan.explain().splitlines()
    assert "gemm_07_multistage.py" in loop
    assert "64 products (64 mma); 24 copies (8 cp_async, 16 ldmatrix)" in loop
    assert "3 waits (1 barrier, 1 cp_async_commit, 1 cp_async_wait)" in loop


def test_every_instruction_is_counted_once(gemm):
    _plan, compiled = gemm
    found = sum(int(n) for n in re.findall(r": (\d+) instructions", compiled.explain()))
    counts = dict(compiled.resources.instructions)
    assert found == sum(counts.values()) - counts.get("NOP", 0)


def test_branches_belong_to_their_loop_and_inner_loops_do_not():
    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        for i in cute.range(x.shape[0]):
            with cute.when(t > i):
                x[i] = x[t] + 1.0
            for _j in cute.range(3):
                cute.syncthreads()

    rows = cute.trace(kernel, np.zeros(64, np.float32)).explain().splitlines()
    assert rows[0] == "kernel, outside its loops: nothing"
    assert "2 copies (1 load, 1 store)" in rows[1]
    assert "waits" not in rows[1]
    assert rows[2].endswith(": 1 waits (1 barrier)")


def test_a_loop_of_multiply_adds_leaves_its_pipe_to_them():
    """IMAD.WIDE, which scales an offset and adds an address, takes turns with FFMA."""
    call = call_on(gpu_of("sm_90a"), (1024, 1024, 1024), "f32", ("K", "K"))
    sass = cute.compile(call.plan(), "sm_90a", call.config.spill_bytes).sass
    loops = re.findall(r"(?s)\n(\.L_x_\d+):(.*?)BRA `\(\1\)", sass)
    (body,) = [body for _label, body in loops if body.count("FFMA") > 500]
    assert body.count("FFMA") == 512
    assert body.count("IMAD") <= 8
