"""Every kernel of the ladder: its source is a golden file, and it compiles without local memory to
the instructions that its plan asks for.
"""

import re
from collections import Counter
from functools import cache

import pytest

import cute_py as cute
from cute_py.kernels import config
from cute_py.kernels.gemm_06_ldmatrix import gemm_ldmatrix
from cute_py.kernels.gemm_09_tma_wgmma import gemm_tma
from cute_py.plan import ops
from tests.compile_only.ladder import (
    LADDER,
    MATRIX,
    loops_of,
    operator,
    plan_of,
    tensor_core,
    wanted,
    zeros,
)
from tests.sampling import quick

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.printer import WORDS


@pytest.mark.parametrize("name", LADDER)
def test_source_is_the_golden_one(name, golden):
    golden(f"sources/{name}.py", cute.source(plan_of(name)))


def scalar_lines(text):
    """Return the lines of a kernel that are no call of an op: indices, integers, conditions and
    addresses that walk.
    """
    words = [word for word in WORDS if word not in ("let", "holds", "value", "begin", "advance")]
    op = re.compile(rf"([\w, ]+ = )?(undefined|({'|'.join(words)})(_\w+)?_\d+)\(")
    lines = [line.strip() for line in text.rpartition('"""')[2].splitlines()[1:]]
    body = lines[next(i for i, line in enumerate(lines) if line.endswith("):")) + 1 :]
    plain = ("else:", "pass", "break", "return", "")
    return [line for line in body if line not in plain and not op.match(line)]


@pytest.fixture
def plan(name):
    return operator() if name == "operator" else plan_of(name)


SCALARS = {"gemm_11_persistent": 90, "gemm_12_ping_pong": 109}  # both roles find their tiles


@pytest.mark.parametrize("name", [*LADDER, "operator"])
def test_few_lines_are_scalars(plan, name):
    """Numba takes 4 to 5 ms for each, and as long for an op of hundreds of instructions."""
    lines = scalar_lines(cute.source(plan))
    assert "tid = thread_index()" in lines
    assert len(lines) <= SCALARS.get(name, 60)


def test_the_operator_has_its_whole_epilogue():
    """What `test_few_lines_are_scalars` looks at: D by way of shared memory, C, bias, relu."""
    lines = Counter(type(op).__name__ for op in operator().ops)
    assert lines["Store"] > 8
    assert lines["Map"] >= 5 * 8
    assert {"C", "bias"} <= {op.src.storage for op in operator().ops if isinstance(op, ops.Load)}


BEFORE = {  # instructions for sm_90a when all integers had 64 bits
    "gemm_01_naive": 145,
    "gemm_02_shared": 170,
    "gemm_03_registers": 1120,
    "gemm_04_double_buffer": 1095,
    "gemm_05_tensor_core": 342,
    "gemm_06_ldmatrix": 339,
    "gemm_07_multistage": 736,
    "gemm_07_multistage_s8": 405,
    "gemm_07_multistage_f64": 596,
    "gemm_08_epilogue": 791,
    "splitk_serial": 586,
    "gemm": 840,
    "reduce": 140,
    "softmax": 358,
    "copy_vectors": 224,
}


LOOPS = {  # instructions of the longest loop then, for sm_80 and sm_90a; of doubles it is today's
    "gemm_01_naive": (37, 37),
    "gemm_02_shared": (78, 77),
    "gemm_03_registers": (705, 703),
    "gemm_04_double_buffer": (593, 592),
    "gemm_05_tensor_core": (91, 92),
    "gemm_06_ldmatrix": (68, 69),
    "gemm_07_multistage": (164, 162),
    "gemm_07_multistage_s8": (82, 83),
    "gemm_07_multistage_f64": (157, 198),
    "gemm_08_epilogue": (80, 79),
    "splitk_serial": (91, 92),
    "gemm": (86, 85),
}


ARCHS = ("sm_90a", "sm_80")
BUILT = [(name, "sm_90a") for name in [*LADDER][::2]]  # of all others the source is golden


@cache
def built(name, arch):
    """Return what a kernel of the ladder compiles to, once."""
    return cute.compile(plan_of(name), arch)


@pytest.mark.parametrize(("name", "arch"), quick(BUILT, LOOPS, ARCHS))
def test_no_loop_has_more_instructions_than_with_integers_of_64_bits(name, arch):
    _names, loops = loops_of(built(name, arch).sass)
    assert max(end - start for start, end in loops) <= LOOPS[name][arch == "sm_90a"]


@pytest.mark.parametrize(("name", "arch"), quick(BUILT, LADDER, ARCHS))
def test_machine_code_is_what_the_plan_asks_for(name, arch):
    plan = plan_of(name)
    if arch == "sm_80" and any(isinstance(op, ops.Wgmma) for op in plan.ops):
        with pytest.raises(cute.CuteError, match="sm_90"):
            cute.compile(plan, arch)
        return
    found = built(name, arch).resources
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)
    assert found.smem_bytes == plan.smem_bytes
    counts = wanted(plan)
    assert {name: found.instructions[name] for name in counts} == counts
    if arch == "sm_90a" and name in BEFORE:
        total = sum(found.instructions.values()) - found.instructions["NOP"]
        assert total <= BEFORE[name]


@pytest.mark.parametrize(
    ("kind", "sums", "atom"),
    [
        ("f16", "f32", "SM75_16x8x8_F32F16F16F32_TN"),
        ("s8", "s32", "SM75_8x8x16_S32S8S8S32_TN"),
    ],
)
def test_turing_has_its_own_instructions(kind, sums, atom, monkeypatch):
    monkeypatch.setitem(config.ATOMS, (kind, kind), atom)
    plan = tensor_core(gemm_ldmatrix, kind, sums, stages=2, asynchronous=False)
    found = cute.compile(plan, "sm_75").resources
    counts = wanted(plan)
    assert counts[MATRIX[kind]] > 0
    assert counts["LDSM"] > 0
    assert {name: found.instructions[name] for name in counts} == counts


def test_the_tma_kernel_is_refused_by_name_before_hopper():
    a, c = zeros(128, 64, kind="f16"), zeros(128, 128)
    plan = cute.trace(gemm_tma, a, a, c)
    assert cute.compile(plan, "sm_90a").resources.instructions["HGMMA"] == 8
    for arch, said in (("sm_80", "mbarrier_init"), ("sm_100a", "wgmma")):
        with pytest.raises(cute.CuteError, match=said) as caught:
            cute.compile(plan, arch)
        assert caught.value.code == "codegen-lacks"
    with pytest.raises(cute.CuteError) as caught:
        cute.compile(plan, "sm_80")
    assert caught.value.code == "codegen-lacks"
    assert "sm_90" in str(caught.value)
