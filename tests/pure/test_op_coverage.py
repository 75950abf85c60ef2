"""What each op of the plan and each function of registers has, and what is missing: a list that is
compared exactly, so that a new op shows up in it, and a gap that was filled must leave it.
"""

import re
from pathlib import Path

import pytest

from cute_py.emulate import HANDLERS, numerics
from cute_py.plan import ops
from cute_py.plan.functions import FUNCTIONS
from tests.coverage import covers, marked, refuses
from tests.emulated.test_broken_twins import TWINS
from tests.emulated.test_functions import ROWS
from tests.gpu.harness import DIVISIONS, SHIFTS, TESTS, functions

TESTS_OF = Path(__file__).parents[1]
SOURCES = TESTS_OF / "golden" / "sources"
NAMES = [kind.__name__ for kind in ops.OPS]

EMULATED, BROKEN = marked(covers, "emulated"), marked(refuses, "emulated")
GPU = marked(covers, "gpu")

# op -> what records it in `tests/hopper_kernels.py`, all of which one test runs
IN_HOPPER_KERNELS = {
    "TmaLoad": "tma_load",
    "TmaStore": "tma_store",
    "BulkCommit": "tma_store_commit",
    "BulkWait": "tma_store_wait",
    "MbarInit": "mbarriers",
    "MbarArrive": "mbarriers",
    "MbarWait": "mbarriers",
    "SetMaxNReg": "setmaxnreg",
    "Wgmma": "warpgroup_gemm",
    "WgFence": "warpgroup_fence",
    "WgCommit": "warpgroup_commit",
    "WgWait": "warpgroup_wait",
}

# how ops look in a printed kernel that are no calls by their word
PRINTED = {
    "Loop": r"^ *for \w+ in range\(",
    "While": r"^ *while True:",
    "If": r"^ *if holds_\d",
    "Leave": r"  leave ",
    "Let": r" = var\(",
    "Set": r" := ",
    "MakePtr": r"= pointer_\d",
    "Promise": r"  promise ",
}

MISSING = {
    "Prefetch": {"broken twin"},  # none can be wrong: a prefetch of any address is allowed
}


def missing_of_code(names):
    pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")
    from cute_py.codegen.ops import RULES
    from cute_py.codegen.printer import CONTROL

    return {name for name in names if getattr(ops, name) not in (*RULES, *CONTROL)}


def missing_of_sources(names):
    text = "".join(path.read_text() for path in SOURCES.glob("*.py"))
    words = {name: getattr(ops, name).word for name in names}
    marks = {n: PRINTED.get(n, rf"^    {word}_\*: ") for n, word in words.items()}
    return {name for name, mark in marks.items() if not re.search(mark, text, re.MULTILINE)}


MISSES = {
    "emulation": lambda names: {n for n in names if getattr(ops, n) not in HANDLERS},
    "code": missing_of_code,
    "emulator test": lambda names: set(names) - set(EMULATED),
    "broken twin": lambda names: set(names) - set(BROKEN),
    "golden source": missing_of_sources,
    "GPU test": lambda names: set(names) - set(GPU),
}


@pytest.mark.parametrize("what", MISSES)
def test_what_is_missing_of_ops_is_what_is_listed(what):
    listed = {name for name, missing in MISSING.items() if what in missing}
    assert MISSES[what](NAMES) == listed


def test_what_is_missing_is_of_ops_and_known_by_name():
    assert set(MISSING) | set(EMULATED) | set(BROKEN) | set(GPU) == set(NAMES)
    assert set().union(*MISSING.values()) <= set(MISSES)


def test_a_mark_is_on_a_test():
    twins = [body.__name__ for body, _code in TWINS]
    for table in (EMULATED, BROKEN, GPU):
        for test in set().union(*table.values()):
            assert test.startswith("test_") or test in twins


def test_the_kernels_for_hopper_use_what_their_test_covers():
    kernels = (TESTS_OF / "hopper_kernels.py").read_text(encoding="utf-8")
    test = "test_kernels_give_the_exact_results"
    assert {name for name, tests in GPU.items() if test in tests} == set(IN_HOPPER_KERNELS)
    assert all(f"cute.{by}(" in kernels for by in IN_HOPPER_KERNELS.values())


# -- functions

FUNCTION_MISSING = {}


def has_code(row):
    from cute_py.codegen.ops.registers import functions as code

    floats = row.moves or row.name in code._FLOAT
    integers = row.moves or row.name in code.INTEGER
    return {"float": floats, "int": integers, "word": integers}.get(row.domain, floats and integers)


def test_what_is_missing_of_functions_is_what_is_listed():
    pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")
    gpu = (TESTS_OF / "gpu" / "test_ops_against_the_emulator.py").read_text()
    on_gpu = {
        *functions("int"),
        *functions("float"),
        *functions("word"),
        *TESTS,
        *DIVISIONS,
        *SHIFTS,
    }
    tested = {name for name, _type in ROWS}
    found = {}
    for name, row in FUNCTIONS.items():
        checks = {
            "emulator rule": name in numerics.RULES,
            "code": has_code(row),
            "model test": name in tested or row.name == "copy",
            "GPU test": name in on_gpu or f'"{name}"' in gpu,
        }
        missing = {what for what, there in checks.items() if not there}
        found |= {name: missing} if missing else {}
    assert found == FUNCTION_MISSING


# -- the list itself


def test_an_op_without_anything_shows_up():
    for what in ("emulator test", "broken twin", "GPU test"):
        assert MISSES[what](["Nothing", "Fill"]) == {"Nothing"}
