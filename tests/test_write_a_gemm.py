"""`docs/write_a_gemm.md` shows the kernel of each step as it is in its file, and what is new there.

`pytest --update-golden tests/test_write_a_gemm.py` writes the code.
"""

import ast
import re
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "write_a_gemm.md"
FILES = sorted((ROOT / "cute_py" / "kernels").glob("gemm_[0-9][0-9]_*.py"))


def kernel_of(file):
    """Return (number, line) of the kernel of a file, without its docstring."""
    text = file.read_text(encoding="utf-8")
    (kernel,) = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
        and [ast.unparse(each) for each in node.decorator_list] == ["cute.kernel"]
    ]
    said = kernel.body[0]
    docstring = range(said.lineno, said.end_lineno + 1)
    lines = list(enumerate(text.splitlines(), start=1))[kernel.lineno - 1 : kernel.end_lineno]
    return [(number, line) for number, line in lines if number not in docstring]


def shown(file, before):
    """Return the kernel of a file as the page shows it: `+` where `before` has no such line."""
    lines = kernel_of(file)
    old = [line.strip() for _, line in kernel_of(before)] if before else []
    matcher = SequenceMatcher(None, old, [line.strip() for _, line in lines], autojunk=False)
    kept = {j + i for _, j, size in matcher.get_matching_blocks() for i in range(size)}
    for i, (number, line) in enumerate(lines):
        new = "+" if before and i not in kept and line.strip() else " "
        yield f"{new}{number:3}  {line}".rstrip()


def test_the_page_shows_each_kernel_with_what_is_new(request):
    page = wanted = PAGE.read_text(encoding="utf-8")
    for before, file in zip([None, *FILES], FILES, strict=False):
        step = file.name[:7]
        code = "\n".join(["```diff", *shown(file, before), "```"])
        begin, end = f"<!-- code: {step} -->", "<!-- code: end -->"
        assert page.count(begin) == 1, step
        block = re.compile(rf"(?s)(?<={begin}\n).*?(?=\n{end})")
        wanted = block.sub(lambda _, code=code: code, wanted, count=1)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(wanted, encoding="utf-8", newline="\n")
        page = wanted
    assert page == wanted, "pytest --update-golden tests/test_write_a_gemm.py writes it"
    assert len(FILES) == 12


def test_what_is_new_is_marked():
    marked = list(shown(FILES[6], FILES[5]))
    assert any(line.startswith("+") and "cute.cp_async_wait" in line for line in marked)
    assert not any(line.startswith("+") and "cute.local_tile" in line for line in marked)
    assert not any(line.startswith("+") for line in shown(FILES[0], None))
