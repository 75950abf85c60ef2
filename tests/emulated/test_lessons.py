"""The lessons in `notebooks` run as plain Python: unanswered, with their solutions, and with wrong
answers, each of which must show its witness; and one of them in Jupyter.

A test that is not slow takes at most 1.5 seconds, so that the 27 runs take less than 41.
"""

import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.samples import sample
from tests.test_site import configuration

FOLDER = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(FOLDER.glob("*.ipynb"))

# what runs cells, as for the site
_spec = spec_from_file_location("lessons", FOLDER.parent / "docs" / "lessons.py")
lessons = module_from_spec(_spec)
_spec.loader.exec_module(lessons)
cells_of, run_cell, shown = lessons.cells_of, lessons.run_cell, lessons.shown


def code_of(lesson):
    return ["".join(cell["source"]) for cell in cells_of(lesson) if cell["cell_type"] == "code"]


def exercise_of(code):
    """Return (before, name, answer, check) of a cell with an exercise, or None."""
    return re.match(r"(?s)(.*?)(?m:^# Exercise (\d\.\d)\n)(.*?)(?m:^)(check\(.*)\Z", code)


def answers_of(lesson):
    """Return exercise -> (right, wrong) of the file of solutions."""
    text = (FOLDER / "solutions" / f"{lesson.stem}.py").read_text(encoding="utf-8")
    parts = re.split(r"(?m)^# -- (\d\.\d)( wrong: .*)?$\n", text)[1:]
    answers = {}
    for name, wrong, answer in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        answers.setdefault(name, {})["wrong" if wrong else "right"] = answer
    assert all(set(each) == {"right", "wrong"} for each in answers.values())
    return {name: (each["right"], each["wrong"]) for name, each in answers.items()}


def run(lesson, kind, answers=None):
    """Run all cells of a lesson; return (verdict, HTML) of its exercises by name, and what all
    cells print.
    """
    names, verdicts, said = {"__name__": "__main__"}, {}, []
    for number, code in enumerate(code_of(lesson)):
        found = exercise_of(code)
        if found and answers:
            code = found[1] + answers[found[2]][kind == "wrong"] + found[4]
        printed, value = run_cell(code, names, f"<cell {number + 1}>")
        said.append(printed)
        if found:
            if kind == "wrong":  # later cells use the right answer
                run_cell("\n".join((found[1], answers[found[2]][0])), names, f"<{found[2]}>")
            text, page = shown(value)
            assert text.startswith(found[2])
            verdicts[found[2]] = value, page
    return verdicts, "".join(said)


by_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)


@pytest.fixture(autouse=True)
def checks(monkeypatch):
    """The module of the folder that the lessons import, without a GPU; none is left behind."""
    with lessons.checks():
        module = import_module("checks")
        monkeypatch.setattr(module, "gpu", lambda: False)
        yield module


@pytest.fixture(scope="module", autouse=True)
def _loaded():
    """Load Numba, which lesson 8 prints source for: most of a second."""
    if find_spec("numba"):
        cute.source(sample("gemm_01", 64, 64, 64))


def test_there_are_nine_lessons_with_three_exercises_and_at_most_twenty_cells():
    assert [lesson.name[:2] for lesson in LESSONS] == [f"0{i}" for i in range(1, 10)]
    total, readme = 0, (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    for lesson in LESSONS:
        assert f"(notebooks/{lesson.name})" in readme
        cells = cells_of(lesson)
        assert len(cells) <= 20, lesson.name
        opening = "".join(cells[0]["source"])
        assert opening.startswith(f"# Lesson {int(lesson.name[:2])}: ")
        assert "After this lesson you can\n- " in opening
        assert all("gpu():" in code for code in code_of(lesson) if "import torch" in code)
        found = [match[2] for code in code_of(lesson) if (match := exercise_of(code))]
        assert found == [f"{int(lesson.name[:2])}.{i + 1}" for i in range(len(found))]
        assert len(found) >= 3
        total += len(found)
        assert list(answers_of(lesson)) == found
        assert all(not cell.get("outputs") for cell in cells), f"{lesson.name}: clear its outputs"
        assert all(cell.get("execution_count") is None for cell in cells)
    assert f"{total} exercises" in readme


@by_lesson
def test_lesson_runs_unanswered(lesson):
    verdicts, _ = run(lesson, "unanswered")
    assert not any(verdict.right for verdict, _ in verdicts.values())
    # an exercise without an answer says so; a kernel that is to be changed is refused
    for verdict, _ in verdicts.values():
        assert verdict.right is False or "no answer yet" in verdict.text


@by_lesson
def test_solutions_are_right(lesson):
    verdicts, _ = run(lesson, "right", answers_of(lesson))
    assert [verdict.text for verdict, _ in verdicts.values() if not verdict.right] == []


@by_lesson
def test_a_wrong_answer_shows_its_witness(lesson):
    verdicts, _ = run(lesson, "wrong", answers_of(lesson))
    for name, (verdict, page) in verdicts.items():
        assert verdict.right is False, name
        witness = verdict.text.removeprefix(f"{name}: not yet. ")
        assert re.search(r"\d", witness), verdict.text  # a place or a number, not "wrong" alone
        assert "<pre" in page
        assert not re.match(r"(Type|Attribute|Name|Syntax|Index|Key|Value)Error", witness)
    if lesson.name < "06":  # what is wrong with a layout can be seen
        assert any('<img alt="' in page for _, page in verdicts.values())


SIZE = cute.sym("M")
JUNK = ("x", "", -1, 10**9, 2.5, True, (), (1, "x"), [], [0] * 32, object, print, np.zeros(3))
JUNK += (cute.Layout(1), cute.Layout(10**9), cute.Layout((SIZE, 8)), cute.Layout(((4, 2), 8)))
JUNK += (cute.make_identity_layout((4, 8)), cute.Swizzle(9, 0, 9), cute.Swizzle(0, 0, 0))


@by_lesson
def test_anything_may_be_an_answer(lesson, checks):
    """No answer raises, and none of these is right."""
    for name in answers_of(lesson):
        for junk in JUNK:
            answers = [junk] * len(signature(checks.LAWS[name]).parameters)
            verdict = checks.check(name, *answers)
            assert verdict.right is False, (name, junk)
            assert verdict.text.startswith(f"{name}: not yet. ")
            assert verdict._repr_html_()


def test_an_answer_is_right_in_any_form(checks):
    """Laws compare functions, not how they are written."""
    block, atom = cute.Layout((2, 2)), checks.tiles.ATOM
    copies = cute.Copy_Atom("UniversalCopy<128>", "f16")
    for name, answer in (
        ("1.1", cute.Layout((4, (2, 4)), (1, (4, 8)))),
        ("1.4", cute.blocked_product(block, block)),
        ("2.3", cute.Layout((2, 2), (1, 16))),
        ("2.4", 3),
        ("3.1", [4 * (lane * 5 % 32) for lane in range(32)]),
        ("3.1", range(0, 12 * 32, 12)),
        ("3.1", 12 * np.arange(32)),
        ("3.1", tuple(np.arange(32, dtype=np.int32) * 20)),
        ("3.2", cute.Layout((32, 32), (1, 35))),
        ("4.2", cute.fit(lambda t, v: t // 4 + 8 * (4 * (t % 4) + v), (32, 4))),
        ("4.3", atom.c_tv),
        ("5.1", cute.make_tiled_mma(atom, (2, 2, 1), (64, 16, 16))),
        ("5.4", cute.make_tiled_copy(copies, cute.Layout((32, 4), (4, 1)), cute.Layout((1, 8)))),
    ):
        assert checks.check(name, answer).right, name


def test_natural_mistakes_are_explained(checks):
    """Offsets for numbers, another divide, words for bytes: the verdict says what was meant."""
    a, tiler = cute.Layout((8, 6), (6, 1)), (2, 3)
    for name, answer, says in (
        ("2.1", cute.Layout((4, 6), (12, 1)), "offsets .* in memory.* by their number"),
        ("2.1", cute.Layout((4, (2, 3)), (12, (1, 2))), "offsets .* in memory"),
        ("2.1", cute.Layout((4, 6), (1, 8)), "is at 6, and should be at 12"),
        ("2.2", cute.logical_divide(a, tiler), "logical_divide returns.*sizes \\(8, 6\\)"),
        ("2.2", cute.tiled_divide(a, tiler), "tiled_divide returns.*sizes \\(6, 4, 2\\)"),
        ("2.2", cute.flat_divide(a, tiler), "flat_divide returns"),
        ("2.2", cute.zipped_divide(cute.Layout((8, 6)), tiler), "the number of each element"),
        ("2.2", cute.zipped_divide(a, (4, 2)), "modes of the sizes \\(8, 6\\), not \\(6, 8\\)"),
        ("2.2", cute.zipped_divide(a, tiler)(None, 0), "6 elements, not 48"),
        ("3.1", [3 * lane for lane in range(32)], "one in each bank: a word has 4 bytes"),
        ("3.1", range(32), "address 1 is not a multiple of 4"),
        ("3.1", range(0, 128, 4), "lanes 0 and 1 read neighbouring words"),
        ("3.1", [12.0 * lane for lane in range(32)], "integers in the list"),
        ("3.1", lambda lane: 12 * lane, "required: a list, a range or an array"),
    ):
        verdict = checks.check(name, answer)
        assert verdict.right is False
        assert re.search(says, verdict.text), verdict.text


def test_lesson_7_does_not_say_the_fix_unless_it_is_asked_to(checks):
    lesson = LESSONS[6]
    found = [
        *run(lesson, "unanswered")[0].values(),
        *run(lesson, "wrong", answers_of(lesson))[0].values(),
    ]
    assert len(found) == 10
    for verdict, _page in found:
        assert "required: " in verdict.text
        assert "fix: " not in verdict.text
        assert re.search(
            r"\(<cell \d+>:\d+\)\nFor a fix, write check\(..., hint=True\)", verdict.text
        )
    names = {}
    run_cell(code_of(lesson)[0], names, "<first>")
    broken = exercise_of(code_of(lesson)[2])
    code = broken[3] + broken[4].replace(")", ", hint=True)")
    assert "fix: put cute.syncthreads() between the two" in run_cell(code, names, "<hint>")[1].text


def test_the_site_shows_what_the_cells_of_a_lesson_do():
    """The README's own command for the site needs no run of the tests before."""
    parts = list(configuration().lesson(LESSONS[1]))
    assert any(part.startswith("``````text\n((4,3),(2,4)):") for part in parts)
    assert any("no answer yet" in part for part in parts)
    assert sum('<img alt="' in part for part in parts) >= 3
    code = [f"``````python\n{code}\n``````" for code in code_of(LESSONS[1])]
    assert [part for part in parts if part in code] == code


# -- Jupyter

EXECUTE = """
import sys, nbclient, nbformat
lesson, folder, copy = sys.argv[1:]
notebook = nbformat.read(lesson, as_version=4)
nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": folder}}).execute()
nbformat.write(notebook, copy)
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The second lesson as Jupyter has run it; it has links, a derivation and a refusal."""
    for module in ("nbclient", "ipykernel"):
        if find_spec(module) is None:
            pytest.skip(f"needs {module}: pip install -e .[notebook]")
    copy = tmp_path_factory.mktemp("lessons") / "executed.ipynb"
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent)}
    subprocess.run(
        [sys.executable, "-c", EXECUTE, LESSONS[1], FOLDER, copy], env=environment, check=True
    )
    return copy


def test_jupyter_shows_what_plain_python_does(executed):
    results = {}
    for cell in cells_of(executed):
        for output in cell.get("outputs", ()):
            assert output["output_type"] != "error", "".join(cell["source"])
            if output["output_type"] == "execute_result":
                results["".join(cell["source"])] = output["data"]
    pictures = [data for data in results.values() if "<img alt=" in "".join(data["text/html"])]
    assert len(pictures) >= 3
    answers = [data for code, data in results.items() if exercise_of(code)]
    assert len(answers) == 4
    assert all("no answer yet" in "".join(data["text/plain"]) for data in answers)
