"""The cells of the lessons that need a GPU."""

import pytest

from tests.emulated.test_lessons import LESSONS, answers_of, checks, code_of, run

__all__ = ["checks"]  # the fixture
GUARDED = [lesson for lesson in LESSONS if any("if gpu():" in code for code in code_of(lesson))]


@pytest.mark.parametrize("lesson", GUARDED, ids=lambda lesson: lesson.stem)
def test_the_cells_for_a_gpu_run_there(lesson, checks, monkeypatch):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    monkeypatch.setattr(checks, "gpu", lambda: True)
    _verdicts, printed = run(lesson, "right", answers_of(lesson))
    assert f" on {torch.cuda.get_device_name()}\n" in printed
