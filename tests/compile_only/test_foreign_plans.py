"""What is executed is a docstring and a function of calls that are ours, whatever a plan says."""

import ast
import copy
import json
import random

import pytest

import cute_py as cute
from cute_py.kernels.samples import SAMPLES
from cute_py.plan.serial import dumps, loads
from tests.compile_only.kernels_of_ops import KERNELS
from tests.compile_only.ladder import plan_of
from tests.plan_mutations import QUOTES, mutated, use
from tests.sampling import check_each

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not [*tmp_path.iterdir()]  # nothing was written by what a plan says


FILES = (
    *(QUOTES, f"{QUOTES}\\", '"""\nopen("PWNED","w")\n"""', "a\nopen('PWNED','w')", "\\", '\\"""'),
    *("a\rb.py", "\0", "\x0c\n", "\u2028", "\\N{x}", "# -*- coding: utf-7 -*-", "x" * 3000, '"'),
)


@pytest.mark.parametrize("places", ["all", "last"])
def test_the_file_of_a_line_is_text_in_the_kernel(places):
    """That of most ops is in the docstring, and others are in comments."""
    plan = plan_of("copy_elements")

    def check(name):
        data = json.loads(dumps(plan))
        for op in data["body"][:: 1 if places == "all" else len(data["body"])]:
            op["line"] = [name, 11]
        read = loads(json.dumps(data))
        tree = ast.parse(cute.source(read))
        assert [type(x) for x in tree.body] == [ast.Expr, ast.FunctionDef]
        assert ast.dump(tree.body[1]) == ast.dump(ast.parse(cute.source(plan)).body[1])

    check_each(check, FILES, ascii)


def test_texts_of_ops_are_text_in_the_kernel():
    """In comments, and as data of the machine code."""
    data = json.loads(dumps(KERNELS["debug"]()))
    for op in data["body"]:
        op |= {"text": QUOTES + "\n\\" + "{}" * len(op.get("values", ()))} if "text" in op else {}
        op["line"] = [QUOTES, 11]
    plan = loads(json.dumps(data))
    assert cute.compile(plan, "sm_80").cubin


def wrong_texts():
    """Edited copies that do more than calling the plan's ops, at once or when Numba reads them."""
    text = cute.source(plan_of("copy_elements"))
    head, body = text.split("\ndef copy_elements(", 1)
    line, start = "\n    tid = ", f"{head}\ndef copy_elements("
    yield "a statement before", text.replace("\ndef ", "\nopen('PWNED', 'w')\ndef ", 1)
    yield "a statement after", text + "\nopen('PWNED', 'w')\n"
    yield "an import", text.replace("\ndef ", "\nimport os\ndef ", 1)
    yield "a second function", text + "\ndef more(): pass\n"
    yield "a decorator", f"{head}\n@open('PWNED', 'w').close\ndef copy_elements({body}"
    yield "a default", start + body.replace("):", "=open('PWNED', 'w')):", 1)
    yield "an annotation", start + body.replace("):", ": open('PWNED', 'w')):", 1)
    yield "a result", start + body.replace("):", ") -> open('PWNED', 'w'):", 1)
    yield "a class", text.replace("\ndef ", "\nclass copy_elements:\n  def ", 1)
    yield "another call", text.replace(line, "\n    open('PWNED', 'w')" + line, 1)
    yield "a method", text.replace(line, "\n    tid.run()" + line, 1)
    yield "a lambda", text.replace(line, "\n    f = lambda: 1" + line, 1)
    yield "a function inside", text.replace(line, "\n    def f(): pass" + line, 1)
    yield "an import inside", text.replace(line, "\n    import os" + line, 1)
    yield "a list", text.replace(line, "\n    x = [1 for _ in A]" + line, 1)
    yield "keywords", text.replace("thread_index()", "thread_index(**A)", 1)
    yield "a NUL", text + "\0"
    yield "parentheses", text + "(" * 5000


@pytest.fixture(scope="module")
def edited():
    return plan_of("copy_elements"), dict(wrong_texts())


def test_a_text_that_does_more_is_refused_before_it_is_executed(edited):
    plan, texts = edited

    def check(name):
        with pytest.raises(cute.CuteError) as caught:
            cute.compile(plan, "sm_80", source=texts[name])
        assert caught.value.code == "codegen-source"

    check_each(check, texts)


# -- of all shipped kernels


def shipped():
    """Return (text, arguments) of the kernels of the package and of `KERNELS`, by name."""
    found = {name: (dumps(KERNELS[name]()), None) for name in KERNELS}
    for name, (kind, call) in SAMPLES.items():
        kernel, arguments = call((128, 128, 64), cute.dtype(kind))
        plan = cute.trace(kernel, *arguments)
        assert loads(dumps(plan)) == plan
        found[name] = dumps(plan), kernel.leaves(*arguments)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("compiles", [(), ("sm_80", "sm_90a")], ids=["printed", "compiled"])
def test_mutated_plans_of_all_kernels_are_used_or_refused(compiles, capsys):
    plans, rng = shipped(), random.Random(len(compiles))

    def check(n):
        text, arguments = plans[rng.choice([*plans])]
        refused = use(mutated(text, rng), copy.deepcopy(arguments), compiles, prints=True)
        assert all(error.code != "plan-foreign" for error in refused), refused

    check_each(check, range(300 if compiles else 2_000))
    capsys.readouterr()


def test_plans_that_would_end_the_process_are_refused():
    """NVVM divides by what a block has, ptxas by more."""
    data = json.loads(dumps(plan_of("copy_elements")))
    for block in ([0, 1, 1], [1, 0, 1], [-1, -1, 1], [1 << 31, 1, 1], [1025, 1, 1], [1, 1, 65]):
        data["launch"]["block"] = block
        with pytest.raises(cute.CuteError) as caught:
            loads(json.dumps(data))
        assert caught.value.code == "plan-launch"


def test_a_plan_by_hand_is_checked_no_less(monkeypatch):
    """One that `Plan.load` did not read has errors of its own."""
    plan = plan_of("copy_elements")
    monkeypatch.setattr("cute_py.codegen.build._through", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        cute.source(plan)
    with pytest.raises(cute.CuteError) as caught:
        cute.source(loads(dumps(plan)))
    assert caught.value.code == "plan-foreign"
