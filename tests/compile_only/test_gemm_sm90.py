"""The GEMMs for Hopper compile through the gates: no spills, no stalls in the loop over K, and the
instructions that their plans ask for.
"""

from dataclasses import replace

import pytest

import cute_py as cute
from cute_py.kernels.epilogue import Epilogue
from cute_py.plan import ops
from tests.hopper_family import CONFIGS, HALVES, arguments, call_of, result_of, row, trace

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.toolchain import FORBIDDEN, stalls

OFTEN = ("128x256", "pp-128x192", "64x32-pdl", "nt", "s8")
FULL = Epilogue(alpha=True, source=True, bias=True, activation="gelu")
# epilogues that need many registers, and the configurations that have room for them
HEAVY = {
    "128x256": FULL,
    "256x128": FULL,
    "128x128": FULL,
    "pp-128x128": FULL,
    "256x160": replace(FULL, source=False),
    "256x192": Epilogue(alpha=True, bias=True),
    "pp-128x192": Epilogue(alpha=True, bias=True),
    "192x192": Epilogue(bias=True),
}


def plan_of(config, result, last=None):
    """Return the plan for arrays of any size whose rows are multiples of 16 bytes."""
    last = last or Epilogue()
    last = replace(last, compute="s32") if "S32" in config.atom else last
    arrays, _exact = arguments(config, (64, 64, 128), result, last)
    return trace(config, *call_of(config, arrays, last))


def require_gates(config, plan):
    """Compile, and fail unless the machine code is as the plan says, without spills or stalls."""
    made = cute.compile(plan, "sm_90a")
    found, every = made.resources.instructions, list(plan.ops)
    assert made.resources.spill_bytes == made.resources.stack_bytes == 0
    assert made.resources.smem_bytes == plan.smem_bytes <= 232448
    assert not stalls(made.sass)
    assert not FORBIDDEN.search(made.log)
    assert found["CALL"] == found["LDL"] == found["STL"] == 0
    steps = sum(len(op.steps) for op in every if isinstance(op, ops.Wgmma))
    products = sum(found[name] for name in ("HGMMA", "IGMMA", "QGMMA"))
    assert products >= steps > 0
    assert products % steps == 0
    loads, stores = (
        sum(isinstance(op, kind) for op in every) for kind in (ops.TmaLoad, ops.TmaStore)
    )
    assert found["UTMALDG"] % loads == 0 < found["UTMALDG"]
    assert (found["UTMASTG"], bool(stores)) == (stores, config.store > 0)
    assert found["USETMAXREG"] == (2 if config.registers[0] else 0)
    matrices = [op for op in every if isinstance(op, ops.StMatrix)]
    assert (found["STSM"] > 0) == bool(matrices)
    return made


def slow_but(often, names):
    return [pytest.param(x, marks=() if x in often else pytest.mark.slow) for x in names]


@pytest.mark.parametrize("name", slow_but(OFTEN, CONFIGS))
def test_configurations_compile_through_the_gates(name):
    config = CONFIGS[name]
    made = require_gates(config, plan_of(config, result_of(name)))
    if config.pdl:
        assert made.resources.instructions["ACQBULK"] == 1
    if config.cluster > 1:
        assert "UTMALDG.2D.MULTICAST" in made.sass


@pytest.mark.parametrize("name", slow_but(("128x128",), HEAVY))
def test_heavy_epilogues_do_not_spill(name):
    require_gates(CONFIGS[name], plan_of(CONFIGS[name], "bf16", HEAVY[name]))


def test_an_epilogue_that_spills_is_refused():
    with pytest.raises(cute.CuteError) as caught:
        cute.compile(plan_of(row("bf16", 256, 208), "bf16", FULL), "sm_90a")
    assert caught.value.code == "codegen-spills"


def test_there_are_at_most_16_configurations_of_16_bit_types():
    assert len(HALVES) <= 16
