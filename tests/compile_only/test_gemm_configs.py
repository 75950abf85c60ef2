"""The kernel of `cute.ops.gemm` in the configurations that GPUs get: it compiles without spilling
more than they state, to the instructions that its plan asks for.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.config import choose_config
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm import gemm
from cute_py.ops.combination import compute_type, result_type
from cute_py.ops.gemm_families import changed
from cute_py.ops.gemm_tiles import Asked, for_gpu, shared_bytes
from cute_py.ops.libraries import Gpu
from cute_py.ops.product import TYPES
from tests.compile_only.ladder import HALVES, MATRIX, total, wanted

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

GPUS = {
    "sm_90a": Gpu(232448, 132, (9, 0)),  # H200
    "sm_80": Gpu(166912, 108, (8, 0)),  # A100
}
MAJORS = tuple(product(("K", "MN"), repeat=2))
SIZES = (4096, 1024)
PICKS = [
    (arch, kind, size, *m) for arch in GPUS for kind in TYPES for size in SIZES for m in MAJORS
]
PICKS = [row for row in PICKS if row[:2] not in product(["sm_80"], HALVES)]
# those that are compiled: bytes of all majors, as fragments along M or N are put together of bytes;
# of the others each type, size, architecture and major at least once
COMPILED = [
    *[row for row in PICKS if row[0] == "sm_90a" and row[1] in ("s8", "e4m3") and row[2] == 4096],
    ("sm_90a", "e4m3", 1024, "MN", "MN"),
    ("sm_90a", "s8", 1024, "MN", "K"),
    ("sm_80", "s8", 4096, "MN", "MN"),
    ("sm_80", "s8", 1024, "K", "K"),
    ("sm_90a", "u8", 4096, "K", "MN"),
    ("sm_90a", "e5m2", 4096, "MN", "K"),
    ("sm_90a", "f16", 4096, "K", "K"),
    ("sm_80", "f16", 4096, "MN", "K"),
    ("sm_90a", "bf16", 4096, "K", "MN"),
    ("sm_80", "bf16", 1024, "MN", "K"),
    ("sm_90a", "tf32", 4096, "MN", "MN"),
    ("sm_80", "tf32", 1024, "MN", "K"),
    ("sm_90a", "f32", 4096, "K", "K"),
    ("sm_80", "f32", 1024, "MN", "MN"),
    ("sm_90a", "f64", 4096, "K", "MN"),
    ("sm_80", "f64", 1024, "K", "K"),
]
# few at every run, of those that need most registers; the others in the slow suite
OFTEN = [
    ("sm_90a", "s8", 4096, "MN", "MN"),
    ("sm_90a", "e4m3", 4096, "MN", "MN"),
    ("sm_90a", "bf16", 4096, "K", "MN"),
    ("sm_90a", "f32", 4096, "K", "K"),
    ("sm_90a", "f64", 4096, "K", "MN"),
]
assert set(OFTEN) <= set(COMPILED)


def marked(rows):
    return [pytest.param(*x, marks=[] if x in OFTEN else [pytest.mark.slow]) for x in rows]


SAMPLE = marked(COMPILED)
COUNTED = marked({row[1]: row for row in [*COMPILED[::-1], *OFTEN]}.values())  # one of each type
PLAIN = "tile=64x64x32,warps=2x2,stages=3"
PARTS = ["", "band=4", "store=8,min_blocks=2", "band=8,store=8", "band=4,store=4,min_blocks=3"]


# -- plans


def operand(kind, rows, columns, major):
    """Return zeros (rows, columns) of a type, K or rows contiguous."""
    shape = (rows, columns) if major == "K" else (columns, rows)
    x = np.zeros(shape, cute.dtype(kind).numpy)
    x = x if major == "K" else x.T
    return cute.typed(x, kind) if kind == "tf32" else x


def picked(arch, kind, size, *majors):
    """Return what a GPU gets for a product of three equal sizes."""
    dtype, problem = cute.dtype(kind), (size, size, size, 1)
    chosen = choose_config(size, size, size, kind, majors)
    return for_gpu(Asked(*problem, chosen, dtype, result_type(dtype, None), GPUS[arch]))


def traced(config, kind, majors, out=None, batch=()):
    """Return the plan of a configuration; it is for arrays of any size that is a multiple of 16."""
    dtype = cute.dtype(kind)
    result = result_type(dtype, out)
    a, b = (operand(kind, 256, 256, major) for major in majors)
    d = np.zeros((256, 256, *batch), result.numpy)
    if batch:
        d = np.zeros((*batch, 256, 256), result.numpy).transpose(1, 2, 0)
    compute = compute_type(dtype, (1.0, 0.0), None, not result.is_float)
    last = LinearCombination(compute.name, False, False, False, None)
    return cute.trace(gemm, a, b, None, None, d, 1.0, 0.0, config, last)


@cache
def compiled(config, arch, kind, majors):
    """Return (plan, what it compiles to): many picks are one configuration."""
    plan = traced(config, kind, majors)
    return plan, cute.compile(plan, arch)


def require_resources(config, plan, found):
    """Fail unless registers spill no more than the configuration states."""
    assert max(found.spill_bytes, found.stack_bytes) <= config.spill_bytes
    assert found.smem_bytes == plan.smem_bytes


def require_machine_code(config, plan, found):
    """Fail unless the instructions are as planned; what spills is in local memory."""
    counts = wanted(plan)
    if config.spill_bytes:
        counts = {name: n for name, n in counts.items() if name not in ("LDL", "STL")}
    assert {name: found.instructions[name] for name in counts} == counts


# -- what GPUs get


@pytest.mark.parametrize("arch", GPUS)
def test_picks_fit_the_shared_memory(arch):
    rows = [row for row in PICKS if row[0] == arch]
    assert rows
    for row in rows:
        kind = cute.dtype(row[1])
        assert shared_bytes(picked(*row), kind, result_type(kind, None)) <= GPUS[arch].smem


def test_the_sample_has_every_type_size_and_major_of_the_picks():
    assert set(COMPILED) <= set(PICKS)
    for parts in ((0, 2), (0, 3), (0, 4), (1,)):
        assert {tuple(r[i] for i in parts) for r in COMPILED} == {
            tuple(r[i] for i in parts) for r in PICKS
        }


@pytest.fixture
def pick(arch, kind, size, a, b):
    """Return (the configuration that a GPU gets, its plan, what it compiles to)."""
    config = picked(arch, kind, size, a, b)
    return config, *compiled(config, arch, kind, (a, b))


@pytest.mark.parametrize(("arch", "kind", "size", "a", "b"), SAMPLE)
def test_pick_spills_no_more_than_it_states(pick, arch):
    config, plan, made = pick
    require_resources(config, plan, made.resources)
    assert plan.smem_bytes <= GPUS[arch].smem


@pytest.mark.parametrize(("arch", "kind", "size", "a", "b"), COUNTED)
def test_machine_code_of_a_pick_is_what_its_plan_asks_for(pick, kind):
    config, plan, made = pick
    found = made.resources
    require_machine_code(config, plan, found)
    products = total(plan, "Mma", lambda op: len(op.steps)) * (2 if kind in HALVES else 1)
    assert found.instructions[MATRIX.get(kind, "FFMA")] == products > 0
    assert found.instructions["LDGSTS"] > 0


@pytest.mark.parametrize("kind", ["s8", "f16"])
def test_operands_along_k_come_by_ldmatrix(kind):
    """All others, too, where elements have 2 bytes: its transposing form is for those."""
    for majors in MAJORS:
        plan = traced(picked("sm_90a", kind, 1024, *majors), kind, majors)
        sides = sum(major == "K" or kind == "f16" for major in majors)
        assert (total(plan, "LdMatrix", lambda op: 1) > 0) == (sides > 0)


# -- parts of a configuration


@pytest.mark.parametrize("text", PARTS)
def test_parts_compile_to_what_their_plan_asks_for(text):
    config = changed(choose_config(256, 256, 256, "f16"), f"{PLAIN},{text}" if text else PLAIN)
    plan, made = compiled(config, "sm_80", "f16", ("K", "K"))
    require_resources(config, plan, made.resources)
    require_machine_code(config, plan, made.resources)
    least = f".minnctapersm {config.min_blocks}"
    assert least in made.ptx
    assert made.resources.registers * config.threads * config.min_blocks <= 65536
    m, n, _k = config.tile
    vectors = m * n // config.threads // (config.store or 1)
    assert (made.resources.instructions["STG"] == vectors) == (config.store > 0)


@pytest.mark.parametrize("kind", ["f64", "s8"])
def test_parts_compile_for_other_types(kind):
    majors = ("K", "MN")
    config = picked("sm_80", kind, 1024, *majors)
    config = changed(config, "stages=2,band=8,store=2,min_blocks=1")
    plan, made = compiled(config, "sm_80", kind, majors)
    require_resources(config, plan, made.resources)
    require_machine_code(config, plan, made.resources)


def test_bands_of_a_batch_compile():
    config = changed(choose_config(256, 256, 256, "f16"), f"{PLAIN},band=4,store=8")
    plan = traced(config, "f16", ("K", "K"), batch=(3,))
    found = cute.compile(plan, "sm_80").resources
    require_resources(config, plan, found)
    require_machine_code(config, plan, found)
