"""Plans become Numba kernels, PTX and cubins, without a GPU."""

import re

import numpy as np
import pytest

import cute_py as cute
from cute_py.codegen.toolchain import tool
from cute_py.kernels.copy import copy_elements
from tests.compile_only.ladder import plan_of, spilling
from tests.fake_kernels import answer

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

ARCHS = ("sm_80", "sm_90a")


@cute.kernel
def axpy(x, y, alpha: cute.f32):
    cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
    i = cute.block_idx() * 128 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        y[i] = x[i] * alpha + y[i]


def axpy_plan():
    x = np.zeros(1000, np.float32)
    return cute.trace(axpy, x, x, 2.0)


def test_source_has_a_line_for_each_op():
    text = cute.source(axpy_plan())
    assert text.startswith('"""axpy: a Numba kernel')
    assert "\ndef axpy(x, x_shape0, y, y_shape0, alpha):\n" in text
    lines = [line.strip() for line in text.splitlines()]
    (branch,) = [line for line in lines if line.startswith("if ")]
    said = r"if holds_0\(bid_x, tid, x_shape0\):  # line \d+  if 128\*bid_x\+tid < x_shape0 .*"
    assert re.fullmatch(said, branch)
    assert sum(" = load_" in line for line in lines) == 2
    assert sum(line.startswith("store_0(") for line in lines) == 1
    compile(text, "axpy", "exec")  # it is Python


def test_source_of_one_plan_is_one_text():
    assert cute.source(axpy_plan()) == cute.source(axpy_plan())


@pytest.mark.parametrize("arch", ARCHS)
def test_compiled_kernel_needs_no_local_memory(arch):
    compiled = cute.compile(axpy_plan(), arch)
    assert f".target {arch}" in compiled.ptx
    assert compiled.resources.stack_bytes == 0
    assert compiled.resources.registers <= 32
    assert compiled.cubin[:4] == b"\x7fELF"


def test_a_product_and_a_sum_are_not_made_one():
    ptx = cute.compile(axpy_plan(), "sm_90a").ptx
    assert "mul.rn.f32" in ptx
    assert "add.rn.f32" in ptx
    assert "fma" not in ptx


def refused(kernel, *args):
    with pytest.raises(cute.CuteError) as caught:
        cute.compile(cute.trace(kernel, *args), "sm_90a")
    assert caught.value.code in ("codegen-op", "kernel-lack")
    return str(caught.value)


def test_what_would_be_wrong_on_a_gpu_is_refused():
    """What the emulator can do, but the instructions of a GPU do otherwise, or not at all."""

    @cute.kernel
    def nibbles(x):
        cute.launch(grid=1, block=32)
        shared = cute.smem("s4", 64)
        shared[0] = x[1]

    @cute.kernel
    def half(x, alpha: cute.f16):
        cute.launch(grid=1, block=32)
        x[0] = alpha.to("f32")

    @cute.kernel
    def maximum(x):
        cute.launch(grid=1, block=32)
        cute.atomic("max", cute.local_tile(x, (1,), (0,)), 1.0)

    x = np.zeros(64, np.float32)
    assert "single s4 elements" in refused(nibbles, cute.typed(np.zeros(64, np.int8), "s4"))
    assert "run-time number of f16" in refused(half, x, 1.0)
    assert "atomic max of f64" in refused(maximum, x.astype(np.float64))


def test_copy_compiles_for_both_majors():
    a = np.zeros((40, 72), np.float32)
    for x in (a, a.T):
        cute.compile(cute.trace(copy_elements, x, x.copy()), "sm_80")


def test_a_missing_tool_is_named():
    with pytest.raises(cute.CuteError) as caught:
        tool("no-such-tool")
    assert caught.value.code == "codegen-missing"


def test_spills_are_refused_unless_they_are_allowed():
    plan = spilling()
    with pytest.raises(cute.CuteError) as caught:
        cute.compile(plan, "sm_80")
    assert caught.value.code == "codegen-spills"
    assert "Used 255 registers" in str(caught.value)
    assert cute.compile(plan, "sm_80", spill_bytes=1 << 16).resources.spill_bytes > 0


def test_an_assertion_compiles_to_a_trap():
    @cute.kernel
    def checked(x):
        cute.launch(grid=1, block=32)
        cute.assert_(cute.thread_idx() < x.shape[0], "too few")  # noqa: PT009
        x[cute.thread_idx()] = 1.0

    ptx = cute.compile(cute.trace(checked, np.zeros(32, np.float32)), "sm_80").ptx
    assert "trap;" in ptx


def test_flags_of_a_matrix_instruction_are_packed():
    """16x8x256: 128 flags of A are 4 words, and not 128."""
    atom = cute.atoms.get("SM80_16x8x256_S32U1U1S32_TN_ANDPOPC")

    @cute.kernel
    def bits(x):
        cute.launch(grid=1, block=32)
        a, b, c = cute.rmem("b1", 128), cute.rmem("b1", 64), cute.rmem("s32", 4)
        a.fill(True)
        b.fill(True)
        c.fill(0)
        cute.gemm(atom, c, a, b)
        cute.copy(c, cute.local_tile(x, (4,), (cute.thread_idx(),)))

    compiled = cute.compile(cute.trace(bits, np.zeros(128, np.int32)), "sm_80")
    assert "undefined(128)" not in compiled.source
    assert compiled.resources.registers < 40


def test_instructions_of_turing_compile_for_turing():
    turing = [a for a in cute.atoms.rows() if a.runnable and a.ptx and a.min_arch == "sm_75"]
    warps = [a for a in turing if a.ptx.startswith("mma.")]
    assert len(warps) > 10

    @cute.kernel
    def products(out):
        cute.launch(grid=1, block=32)
        for i, atom in enumerate(warps):
            a, b, c = (
                cute.rmem(kind, int(cute.size(tv, 1)))
                for kind, tv in (
                    (atom.a_type, atom.a_tv),
                    (atom.b_type, atom.b_tv),
                    (atom.c_type, atom.c_tv),
                )
            )
            for x in (a, b, c):
                x.fill(1)
            cute.gemm(atom, c, a, b)
            out[i, cute.thread_idx()] = cute.reduce("add", c.to("f32"))

    compiled = cute.compile(cute.trace(products, np.zeros((len(warps), 32), np.float32)), "sm_75")
    assert len(re.findall(r"mma\.sync\.aligned", compiled.ptx)) == len(warps)


@cute.kernel
def tuned(x, y, min_blocks, spill_bytes):
    """`hungry`, with its needs stated."""
    cute.launch(grid=1, block=128, min_blocks=min_blocks, spill_bytes=spill_bytes)
    held = cute.rmem("f32", 100)
    tid = cute.thread_idx()
    for i in range(100):
        held[i] = x[tid + i]
    for _k in cute.range(x.shape[0]):
        held += held * 2.0
    y[tid] = cute.reduce("add", held)


@pytest.mark.parametrize(("blocks", "least", "most"), [(1, 100, 255), (4, 0, 128), (8, 0, 64)])
def test_more_blocks_a_multiprocessor_leave_fewer_registers(blocks, least, most):
    """65536 registers of a multiprocessor, for 128 threads of each of 4 and of 8 blocks."""
    x = np.zeros(1000, np.float32)
    found = cute.compile(cute.trace(tuned, x, x, blocks, 1 << 12), "sm_90a").resources
    assert least < found.registers <= most
    assert (found.spill_bytes > 0) == (blocks == 8)


def test_more_blocks_than_a_multiprocessor_has_threads_for_are_refused():
    x = np.zeros(1000, np.float32)
    with pytest.raises(cute.CuteError, match="min_blocks") as caught:
        cute.trace(tuned, x, x, 40, 0)
    assert caught.value.code == "plan-launch"


def test_a_kernel_states_what_may_spill():
    x = np.zeros(1000, np.float32)
    stated = cute.trace(tuned, x, x, 8, 1 << 12)
    assert "spill_bytes 4096" in str(stated)
    assert 0 < cute.compile(stated, "sm_90a").resources.spill_bytes <= 1 << 12
    with pytest.raises(cute.CuteError) as caught:
        cute.compile(cute.trace(tuned, x, x, 8, 0), "sm_90a")
    assert caught.value.code == "codegen-spills"


WITHOUT_ROW_STACK = """
import numpy
vars(numpy).pop("row_stack")
assert not hasattr(numpy, "row_stack")
import cute_py as cute
from tests.fake_kernels import small_plan
print(cute.compile(small_plan(), "sm_80").cubin[1:4].decode())
"""


@pytest.fixture
def compiled_without_row_stack():
    return answer(WITHOUT_ROW_STACK, CUTE_PY_CACHE="0")


def test_numpy_without_what_numba_asks_for(compiled_without_row_stack):
    """NumPy 2.5 has no `row_stack`, which numba-cuda 0.30 needs for each kernel."""
    assert compiled_without_row_stack == "ELF"


def test_what_may_spill_is_a_number():
    x = np.zeros(1000, np.float32)
    with pytest.raises(cute.LeafTypeError, match=r"given '1K' \(str\)"):
        cute.compile(cute.trace(tuned, x, x, 8, 0), "sm_90a", "1K")


@pytest.mark.parametrize("operation", [cute.compile, cute.source])
def test_a_kernel_that_is_not_traced_is_refused(operation):
    with pytest.raises(cute.CuteError, match="given a Kernel; required: a plan") as caught:
        operation(tuned)
    assert caught.value.code == "codegen-plan"


ALONE = """
import sys
import numpy as np
import cute_py as cute
plan = cute.Plan.load(sys.argv[1])
a, b = np.ones((64, 32), np.float16), np.full((64, 32), 2, np.float16)
c = np.zeros((64, 64), np.float32)
cute.emulate(plan, a, b, c)
assert (c == 64).all()
assert "mma.sync" in cute.compile(plan, "sm_80").ptx
print(*sorted(name for name in sys.modules if name.startswith("cute_py.")))
"""
ROWS = """
import sys
from cute_py import atoms
atoms.SM80_16x8x16_F32F16F16F32_TN.table("c")
atoms.copy_rows()
print(*sorted(name for name in sys.modules if name.startswith("cute_py.")))
"""


@pytest.fixture
def loaded(tmp_path):
    """Return the modules of a process that emulates and compiles a saved plan."""
    plan_of("gemm_06_ldmatrix").save(tmp_path / "plan")
    return set(answer(ALONE, str(tmp_path / "plan"), CUTE_PY_CACHE="0").split())


def test_a_saved_plan_needs_no_tracer(loaded):
    """It is loaded, emulated and compiled without what made it: tracer, tensors, tiled operations,
    kernels. Of the layouts there is what the rows of atoms need, and no more.
    """
    floors = {name.split(".")[1] for name in loaded}
    assert {"plan", "emulate", "codegen"} <= floors
    unused = {"trace", "tensor", "tiled", "kernels", "ops", "host", "viz", "analysis"}
    assert not floors & (unused | {"expression", "cli"})
    layouts = {name for name in loaded if name.startswith("cute_py.layout")}
    assert layouts <= set(answer(ROWS).split())
    made_by = {"composition", "complement", "inverse", "divide", "product"}
    assert not layouts & {f"cute_py.layout.algebra.{name}" for name in made_by}
