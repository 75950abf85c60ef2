"""The GEMMs for Hopper compile through the gates: no spills, no stalls in the loop over K, and the
instructions that their plans ask for.
"""

import re
from dataclasses import replace

import pytest

import cute_py as cute
from cute_py.kernels.config_sm90 import can_load_source
from cute_py.kernels.epilogue import LinearCombination
from cute_py.ops.gemm_tiles_sm90 import ROWS
from cute_py.plan import ops
from tests.hopper_family import CONFIGS, HALVES, arguments, call_of, result_of, row, trace

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.sass import may_stall, product_loops, stalls
from cute_py.codegen.toolchain import FORBIDDEN

FULL = LinearCombination(alpha=True, source=True, bias=True, activation="gelu")
RELU = replace(FULL, activation="relu")
# the fullest epilogues that configurations have registers for
HEAVY = {
    "128x128": FULL,
    "128x256": FULL,
    "256x128": FULL,
    "pp-128x128": FULL,
    "256x160": FULL,
    "256x168": replace(RELU, source=False),
    "256x176": replace(RELU, source=False),
    "pp-128x192": LinearCombination(alpha=True, bias=True),
    "192x192": LinearCombination(bias=True),
}
# the heaviest epilogue of each weight of `Problem`, and how D leaves
WEIGHTS = (
    LinearCombination(),
    replace(RELU, source=False),
    replace(FULL, source=False),
    RELU,
    FULL,
)
WAYS = ("2 bytes", "4 bytes", "direct")


def plan_of(config, result, last=None):
    """Return the plan for arrays of any size whose rows are multiples of 16 bytes."""
    last = last or LinearCombination()
    last = replace(last, compute="s32") if "S32" in config.atom else last
    arrays, _exact = arguments(config, (64, 64, 128), result, last)
    return trace(config, *call_of(config, arrays, last))


def require_gates(config, plan, made):
    """Fail unless the machine code is as the plan says, without spills or stalls."""
    found, every = made.resources.instructions, list(plan.ops)
    assert made.resources.spill_bytes == made.resources.stack_bytes == 0
    assert made.resources.smem_bytes == plan.smem_bytes <= 232448
    assert not stalls(made.sass)
    assert product_loops(made.sass)
    assert not may_stall(made.cubin)  # else nvdisasm runs in every compilation
    assert not FORBIDDEN.search(made.log)
    assert found["CALL"] == found["LDL"] == found["STL"] == 0
    steps = sum(len(op.steps) for op in every if isinstance(op, ops.Wgmma))
    products = sum(found[name] for name in ("HGMMA", "IGMMA", "QGMMA"))
    assert products >= steps > 0
    assert products % steps == 0
    loads, stores = (
        sum(isinstance(op, kind) for op in every) for kind in (ops.TmaLoad, ops.TmaStore)
    )
    assert found["UTMALDG"] >= loads > 0
    assert found["UTMALDG"] % loads == 0 or config.prefetch  # of C in a loop of its own
    assert (found["UTMASTG"], bool(stores)) == (stores, config.store > 0)
    assert found["USETMAXREG"] == (2 if config.registers[0] else 0)
    assert not re.search(r"BAR\.\w+\S* R\d", made.sass)  # ids of named barriers are static
    matrices = [op for op in every if isinstance(op, ops.StMatrix)]
    assert (found["STSM"] > 0) == bool(matrices)


def slow_but(often, names):
    return [pytest.param(x, marks=() if x in often else pytest.mark.slow) for x in names]


@pytest.fixture
def built(name):
    """Return (configuration, plan, what it compiles to)."""
    plan = plan_of(CONFIGS[name], result_of(name))
    return CONFIGS[name], plan, cute.compile(plan, "sm_90a")


# those that are compiled at every run: each schedule, width of type, major, way of D and split
# once, and the tile that takes the most registers
OFTEN = (
    *("128x256", "256x160-cluster", "64x32-pdl", "pp-128x192", "tt"),
    *("tf32-direct", "u8", "e4m3-two-level", "64x128-split"),
)


@pytest.mark.parametrize("name", slow_but(OFTEN, CONFIGS))
def test_configurations_compile_through_the_gates(built):
    require_gates(*built)
    config, _plan, made = built
    if config.pdl:
        assert made.resources.instructions["ACQBULK"] == 1
    if config.cluster > 1:
        assert "UTMALDG.2D.MULTICAST" in made.sass


@pytest.fixture
def heavy(name):
    """Return (configuration, plan, what it compiles to) with the fullest epilogue."""
    plan = plan_of(CONFIGS[name], "bf16", HEAVY[name])
    return CONFIGS[name], plan, cute.compile(plan, "sm_90a")


@pytest.mark.parametrize("name", slow_but(("128x128",), HEAVY))
def test_heavy_epilogues_do_not_spill(heavy):
    require_gates(*heavy)


def chosen():
    """Yield (row, way D leaves, weight): what the rule chooses, with each of its epilogues."""
    for i, found in enumerate(ROWS):
        for way, most in zip(WAYS, found.most, strict=True):
            yield from ((i, way, weight) for weight in range(most + 1))


@pytest.fixture
def variants(i, way, weight):
    """Return (configuration, plan, what it compiles to) of those that take the most registers."""
    found, last = ROWS[i], WEIGHTS[weight]
    result, size = "f32" if way == "4 bytes" else "bf16", 67 if way == "direct" else 64
    parts = {"store": 0} if way == "direct" else {}
    can_share = found.schedule == "cooperative" and found.m % 128 == 0
    asked = [(1, (3,)), (2, ())] if last.source else [(2, (3,))]
    if last.source and found.n == 256 and not found.in_parts:
        asked = [(2, ())]  # no candidate in a batch
    made, asked = [], asked if can_share else [(1, (3,))]
    ways = [(cluster, 1, batch) for cluster, batch in asked]
    for cluster, split, batch in [*ways, *[(1, split, (3,)) for split in found.splits[-1:]]]:
        config = row(
            "bf16",
            *found[:4],
            result=result,
            one_pass=not found.in_parts and split == 1,
            cluster=cluster,
            split=split,
            pdl=1,  # which prefetches
            **parts,
        )
        loads = last.source and way != "direct" and can_load_source(config)
        for one in [config, replace(config, prefetch=1)] if loads else [config]:  # C by TMA
            arrays, _exact = arguments(one, (size, size, 128), result, last, batch=batch)
            plan = trace(one, *call_of(one, arrays, last))
            made.append((one, plan, cute.compile(plan, "sm_90a")))
    return made


@pytest.mark.parametrize(
    ("i", "way", "weight"),
    [
        pytest.param(*x, id=f"{'x'.join(map(str, ROWS[x[0]][:4]))}-{x[1]}-{x[2]}", marks=marks)
        for x in chosen()
        for marks in [() if x in ((0, "2 bytes", 0), (9, "direct", 0)) else pytest.mark.slow]
    ],
)
def test_what_the_rule_chooses_does_not_spill(variants):
    for one in variants:
        require_gates(*one)


@pytest.mark.slow
def test_an_epilogue_that_spills_is_refused():
    with pytest.raises(cute.CuteError) as caught:
        cute.compile(plan_of(row("bf16", 256, 208), "bf16", FULL), "sm_90a")
    assert caught.value.code == "codegen-spills"


def test_there_are_at_most_16_configurations_of_16_bit_types():
    assert len(HALVES) <= 16
