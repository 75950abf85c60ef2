"""Kernels that the emulator accepts give the same bits on a GPU, in whatever order it ran them.

For each of `MODULES`, a process of its own runs the module's tests and keeps every plan that the
emulator runs to its end with all checks, with the arrays before and after. Then it runs those that
compile on the GPU. A kernel that hangs there ends with its process, after `SECONDS`.
"""

import os
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
import cute_py.emulate as emulator
from cute_py.plan.ops import Fill, TmaLoad
from cute_py.plan.params import TensorParam
from tests.gpu.harness import DRY, SPILLS, assert_same, copied, launched, require_any

require_any()

ROOT = Path(__file__).parents[2]
SECONDS = 300
MODULES = (  # and how many twins there are that compile, at least
    ("test_broken_twins", 10),
    ("test_lanes", 7),
    ("test_lanes_apart", 5),
    ("test_divergence", 6),
    ("test_whole_warps", 15),
    ("test_global_memory", 30),
    ("test_global_order", 5),
    ("test_happens_before", 1),
    ("test_shared_memory", 15),
    ("test_threads", 20),
    ("test_control", 8),
    ("test_bounds_by_mode", 15),
    ("test_predicates", 50),
    ("test_recast", 15),
    ("test_pipelines", 15),
)
RANDOM = ("test_lanes_apart", "test_global_order")  # their slow tests have hundreds
MOST = 200  # twins of a slow one: a second each, to compile
HOPPER = (("test_mbarriers", 15), ("test_roles", 40), ("test_peers", 60), ("test_tma_wgmma", 60))
ALIGN = 16  # bytes: of arrays that are alike on a GPU
NOT_COMPILED = ("codegen-op", "codegen-lacks")  # ops of Hopper


@dataclass
class Twin:
    """A plan that the emulator accepts, its arguments, and what they are after it, by order."""

    plan: object
    before: list
    tests: set = field(default_factory=set)
    after: list = field(default_factory=list)

    @property
    def settled(self):
        """Whether the result is the same in all orders."""
        first = self.after[0]
        return all(map(_alike, self.after, [first] * len(self.after)))


def _alike(some, others):
    pairs = zip(some, others, strict=True)
    return all(not isinstance(x, np.ndarray) or x.tobytes() == y.tobytes() for x, y in pairs)


class Recorder:
    """A plugin of pytest: keeps what the emulator runs in tests."""

    def __init__(self):
        self.twins, self.refused, self.test = {}, set(), ""
        self.emulate, emulator.emulate = emulator.emulate, self.recorded

    def pytest_runtest_logstart(self, nodeid):
        self.test = nodeid

    def recorded(self, plan, *args, **named):
        before = [_held(x) for x in args]
        given = plan, *(x.tobytes() if isinstance(x, np.ndarray) else x for x in before)
        try:
            result = self.emulate(plan, *args, **named)
        except cute.CuteError:  # in one order; a GPU may take it
            self.refused.add(given)
            raise
        arrays = [x for x in args if isinstance(x, np.ndarray)]
        aligned = all(x.ctypes.data % ALIGN == 0 for x in arrays)
        checked = named.get("checks", True) is True
        if not arrays:  # a launch needs an array to know its GPU
            unused = np.zeros(1, np.float32)
            plan, before = with_array(plan), [*before, unused]
            args = *args, unused
        if checked and aligned and not (_overlap(arrays) or _leaves_undefined(plan)):
            twin = self.twins.setdefault(given, Twin(plan, before))
            twin.tests.add(self.test)
            twin.after.append([_held(x) for x in args])
        return result


def _held(x):
    x = x.array if hasattr(x, "array") else x
    return copied(x) if isinstance(x, np.ndarray) else x


def with_array(plan):
    """Return a plan with an array more, which it does not use."""
    size, stride = cute.sym("unused_shape0"), cute.sym("unused_stride0")
    unused = TensorParam("unused", cute.f32, (size,), (stride,), 16)
    return replace(plan, params=(*plan.params, unused))


def _leaves_undefined(plan):
    """Tell whether a plan asks for registers of any value, or copies no boxes that are outside."""
    return any(
        (isinstance(op, Fill) and op.value is None)
        or (isinstance(op, TmaLoad) and op.guard is not None)
        for op in plan.ops
    )


def _overlap(arrays):
    return any(np.may_share_memory(x, y) for k, x in enumerate(arrays) for y in arrays[:k])


def verdict(twin):
    """Return what a GPU says of a twin: same, not compiled, of no order, or a text that fails."""
    try:
        cute.compile(twin.plan, DRY or _arch(), SPILLS)
    except cute.CuteError as error:
        return "not compiled" if error.code in NOT_COMPILED else f"FAILED: {error}"
    if not twin.settled:
        return "depends on the order"
    got = launched(twin.plan, *twin.before)
    for k, (x, wanted) in enumerate(zip(got, twin.after[0], strict=True)):
        if isinstance(wanted, np.ndarray):
            try:
                assert_same(x, wanted, f"argument {k}")
            except pytest.fail.Exception as error:
                return f"FAILED: {error}"
    return "same"


def _arch():
    from tests.gpu.harness import torch

    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" + "a" * (major >= 9)


def main(module, *options):
    """Run the tests of a module, then its twins, at most `MOST`; print a line for each."""
    recorder, said = Recorder(), StringIO()
    path = ROOT / "tests" / "emulated" / f"{module}.py"
    with redirect_stdout(said):
        code = pytest.main([str(path), "-q", "--seconds=0", *options], [recorder])
    emulator.emulate = recorder.emulate
    if code:
        sys.exit(said.getvalue())
    kept = [(x, twin) for x, twin in recorder.twins.items() if x not in recorder.refused]
    for _given, twin in kept[:MOST]:
        print(sorted(twin.tests)[0].rpartition("/")[2], end=": ", flush=True)
        print(verdict(twin), flush=True)


@pytest.mark.parametrize(
    ("module", "least"), MODULES + HOPPER, ids=[name for name, _ in MODULES + HOPPER]
)
def test_what_the_emulator_accepts_gives_its_bits(module, least):
    if (module, least) in HOPPER and not (DRY or _arch()).startswith("sm_90"):
        pytest.skip("needs a Hopper GPU")
    compared(module, least)


@pytest.mark.slow
@pytest.mark.parametrize("module", RANDOM)
def test_what_the_emulator_accepts_of_many_random_kernels_gives_its_bits(module):
    compared(module, 60, "--slow", "-m", "slow", "--hypothesis-profile=hundreds")


def compared(module, least, *options):
    """Compare the twins of a module in a process of its own; at least so many must be the same."""
    command = [sys.executable, "-m", "tests.gpu.test_twins", module, *options]
    named = {"PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=ROOT,
            env={**os.environ, **named},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"hangs: {(error.stdout or b'').decode()[-300:]}")
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    lines = done.stdout.splitlines()
    assert "FAILED" not in done.stdout, "\n".join(x for x in lines if "FAILED" in x)[:3000]
    same = sum(line.endswith(": same") for line in lines)
    print(f"{module}: {same} of {len(lines)} give the same bits")
    assert same >= least, done.stdout[-3000:]


if __name__ == "__main__":
    main(*sys.argv[1:])
