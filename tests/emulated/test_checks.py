"""Each check of the emulator can be switched, and refuses what its row says."""

from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate.faults import ALL, CHECKS, chosen
from cute_py.emulate.wordings import WORDINGS as OF_EMULATOR
from cute_py.errors import WORDINGS, EmulationError
from tests.emulated.test_broken_kernels import BROKEN, plan_of
from tests.emulated.test_mbarriers import arriving, ends, fence, met, nothing
from tests.emulated.test_setmaxnreg import as_memory_says

PAGE = (Path(__file__).parents[2] / "docs" / "emulator.md").read_text(encoding="utf-8")
# what would leave the memory of the emulator, or has no meaning that could be carried out
ALWAYS = {
    *("op", "bounds", "padding", "alignment", "read-only", "deadlock", "pointer", "split-byte"),
    *("table", "not-resident", "fit", "unsigned", "large"),
    *("mbarrier-unset", "mbarrier-arrivals", "mbarrier-bytes", "cluster-rank"),
    *("inline", "inline-result"),
    *("map", "coordinate", "multicast", "wgmma-start", "wgmma-address"),
    *("barrier-divergent", "barrier-count", "barrier-id"),
}
CHECK_OF = {f"emulate-{code}": name for name, check in CHECKS.items() for code in check.codes}


def promised():
    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        x[cute.as_int(x[5], 0, 3)] = 1

    return kernel, (np.full(32, 7, np.int32),)


def of_lines(kernel, n):
    return kernel, (np.zeros(n, np.float32), np.zeros(n, np.float32))


SOME = (np.array([1] * 3 + [0] * 5, np.int32), np.zeros(8, np.int32))
KERNELS = {  # of the checks for which `BROKEN` has none
    "mbarriers": of_lines(met(fence, nothing), 128),
    "lifetimes": of_lines(arriving(cute.cluster_sync, ends), 128),
    "promises": promised(),
    "setmaxnreg": (as_memory_says, SOME),
}


def code_of(plan, arrays, checks):
    arrays = [x.copy() for x in arrays]
    try:
        cute.emulate(plan, *arrays, checks=checks)
    except cute.CuteError as error:
        return error.code
    return None


def cases():
    """Return (plan, arrays) by name."""
    made = {name: plan_of(name) for name in BROKEN}
    made |= {name: (cute.trace(kernel, *args), args) for name, (kernel, args) in KERNELS.items()}
    return made


def test_a_check_alone_refuses_and_without_it_nothing_does():
    seen = set()
    for name, (plan, arrays) in cases().items():
        code = code_of(plan, arrays, True)
        check = CHECK_OF.get(code)
        if check is None:
            assert code.removeprefix("emulate-") in ALWAYS, name
            assert code_of(plan, arrays, False) == code, name
            continue
        seen.add(check)
        assert code_of(plan, arrays, (check,)) == code, name
        assert CHECK_OF.get(code_of(plan, arrays, ALL - {check})) != check, name
    assert seen == ALL


def test_each_code_is_of_one_check_or_always_refused():
    codes = [code for check in CHECKS.values() for code in check.codes]
    of_kernels = {code for code in OF_EMULATOR if WORDINGS[code][0] is EmulationError}
    assert len(set(codes)) == len(codes)
    assert {f"emulate-{code}" for code in (*codes, *ALWAYS)} == of_kernels


def test_the_page_lists_the_checks():
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    listed = {row[0].strip("| `"): row[1:] for row in rows if row[0].strip("| `") in CHECKS}
    assert list(listed) == list(CHECKS)
    for name, check in CHECKS.items():
        assert listed[name][:2] == [check.refuses, check.rule]


@pytest.mark.parametrize("checks", ["race", "shared;global", ("shared", "sync"), [3], 3, ""])
def test_an_unknown_check_is_refused(checks):
    plan = cute.trace(promised()[0], np.zeros(32, np.int32))
    with pytest.raises(cute.LayoutError, match=r"given the check .*; required: True, False, or"):
        cute.emulate(plan, np.zeros(32, np.int32), checks=checks)


def test_checks_are_named_as_text_or_one_by_one():
    assert chosen("shared,global") == chosen(("global", "shared")) == {"shared", "global"}
    assert chosen(()) == chosen(False) == frozenset()
    assert chosen(True) == ALL


def test_the_operators_and_the_command_take_names(capsys):
    from cute_py.cli.main import main

    a = np.ones((8, 8), np.float32)
    assert (cute.ops.gemm(a, a, checks="shared,global") == 8).all()
    with pytest.raises(
        cute.LeafTypeError, match="checks='sharde'; required: True, False, names among shared, "
    ):
        cute.ops.gemm(a, a, checks="sharde")
    size = ["--m", "8", "--n", "8", "--k", "8"]
    assert main(["gemm", *size, "--checks", "registers"]) == 0
    assert main(["gemm", *size, "--checks", "register"]) == 2
    assert "register" in capsys.readouterr().err
