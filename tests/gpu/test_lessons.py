"""The cells of the lessons that need a GPU, and what the pages say to paste into a file, there."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.calls import backends
from tests.emulated.test_lessons import LESSONS, answers_of, checks, code_of, run
from tests.gpu.harness import DRY, HAS_GPU, launched, require_any, torch
from tests.test_docs import PYTHON, compiled, error_of

require_any()
__all__ = ["checks"]  # the fixture
GUARDED = [lesson for lesson in LESSONS if any("if gpu():" in code for code in code_of(lesson))]


@pytest.mark.skipif(not HAS_GPU, reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("lesson", GUARDED, ids=lambda lesson: lesson.stem)
def test_the_cells_for_a_gpu_run_there(lesson, checks, monkeypatch):
    monkeypatch.setattr(checks, "gpu", lambda: True)
    _verdicts, printed = run(lesson, "right", answers_of(lesson))
    assert f" on {torch.cuda.get_device_name()}\n" in printed


# -- recipes: blocks that are files with a kernel, and check what it has computed


def is_recipe(block):
    return block.text.startswith("# ") and "@cute.kernel" in block.text and not error_of(block)


RECIPES = [block for block in PYTHON if is_recipe(block)]


@pytest.fixture
def plans(monkeypatch):
    """Run each plan of NumPy arrays on copies of them on the GPU, and copy the results back; a
    report is still the emulator's. Return the plans that have run there.
    """
    ran, emulate = [], cute.emulate

    def on_gpu(plan, *arrays):
        for held, found in zip(arrays, launched(plan, *arrays), strict=True):
            if isinstance(held, np.ndarray):
                held[...] = found
        if DRY:
            cute.compile(plan, DRY)
        ran.append(plan)

    def reported(kernel, *arguments, **options):
        if not isinstance(kernel, cute.Kernel):
            return emulate(kernel, *arguments, **options)
        plan = cute.trace(kernel, *arguments)
        report = emulate(plan, *(np.array(x) for x in arguments), **options)
        on_gpu(plan, *arguments)
        return report

    monkeypatch.setattr(backends, "emulator", lambda: on_gpu)
    monkeypatch.setattr(cute, "emulate", reported)
    return ran


@pytest.mark.parametrize("block", RECIPES, ids=lambda block: block.name)
def test_a_recipe_is_right_on_a_gpu(block, plans):
    if HAS_GPU and torch.cuda.get_device_capability() < (9, 0) and "tma_" in block.text:
        pytest.skip("needs Hopper")
    exec(compiled(block), {"__name__": "__main__"})  # ends with its own check
    assert len(plans) == 1


def test_there_are_recipes_for_a_gpu():
    assert len(RECIPES) >= 10
    assert {block.page for block in RECIPES} >= {"docs/how_to.md", "docs/install.md"}
    assert [lesson.stem[:2] for lesson in GUARDED] == ["06", "08", "09"]
