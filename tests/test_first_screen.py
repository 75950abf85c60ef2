"""The first screen: claims of the README, and the map in docs/index.md and help(cute)."""

import doctest
import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from tests.test_docs import PYTHON

ROOT = Path(__file__).parents[1]

README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = {  # also in docs/pictures.md
    "mma.svg": lambda: cute.make_tiled_mma("SM80_16x8x8_F32F16F16F32_TN"),
    "nested.svg": lambda: cute.Layout(((2, 4), (8, 2)), ((1, 16), (2, 64))),
    "swizzle.svg": lambda: cute.Swizzle(3, 0, 3),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_what_the_library_draws(name, request):
    file, drawn = ROOT / "docs" / name, cute.to_svg(PICTURES[name]())
    if request.config.getoption("--update-golden"):
        file.write_text(drawn, encoding="utf-8", newline="\n")
    assert file.read_text(encoding="utf-8") == drawn, "pytest --update-golden draws it"
    assert f"({name})" in (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")


def test_the_readme_has_one_picture():
    assert re.findall(r"!\[.*\]\((.*)\)", README) == ["docs/mma.svg"]


def first_kernel():
    """Return the names of the README's first block, with the barrier that its kernel lacks."""
    first = next(block for block in PYTHON if block.page == "README.md")
    examples = doctest.DocTestParser().get_examples(first.text)
    lines = [example.source for example in examples if not example.exc_msg]
    (kernel,) = [line for line in lines if "@cute.kernel" in line]
    *head, last = kernel.splitlines(keepends=True)
    assert len(head) == 6
    names, whole = {}, "".join([*head, "    cute.syncthreads()\n", last])
    exec(compile("".join(lines).replace(kernel, whole), "reverse", "exec"), names)
    return names


def test_the_first_kernel_runs_with_the_barrier_that_the_readme_adds():
    names = first_kernel()
    names["reverse"](names["x"], names["y"])
    assert np.array_equal(names["y"], names["x"][::-1])


def test_the_speed_in_the_readme_is_that_of_the_table():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"over that of cuBLAS: (.*?) \(in burst", README, re.DOTALL)
    types = {"int8": "s8", "TF32": "tf32"}
    lines = page.splitlines()
    for each in said.split(", "):
        kind, ratio = each.split()
        name = types.get(kind, kind)
        rows = [x.split(" | ")[4] for x in lines if x.startswith(f"| {name} 4096^3 |")]
        rows = rows or [x.split(" | ")[5] for x in lines if x.startswith(f"| {name}-4096 |")]
        assert [f"{float(x):.2f}" for x in rows] == [ratio], kind
    ratios = [each.split()[1] for each in said.split(", ")]
    assert len(ratios) == 6
    assert f"at {min(ratios)} to {max(ratios)} of the speed of cuBLAS" in README


def test_the_readme_counts_features_as_the_coverage_does():
    (counts,) = re.findall(r"(\d+) work, (\d+) work in part and (\d+) are planned", README)
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    claim = "Today {} rows work, {} work in part, {} are planned."
    assert claim.format(*counts) in page


# -- the map of the names

INDEX = ROOT / "docs" / "index.md"
BEGIN, END = "<!-- map: begin -->\n", "<!-- map: end -->\n"


def linked(match):
    """Return the link to a page by its title."""
    page = (ROOT / match[0]).read_text(encoding="utf-8")
    return f"[{page.splitlines()[0].removeprefix('# ')}]({match[1]})"


def test_the_index_begins_with_the_map_that_help_shows(request):
    head, _, rest = INDEX.read_text(encoding="utf-8").partition(BEGIN)
    wanted = head + BEGIN + re.sub(r"docs/(\w+\.md)", linked, cute.__doc__) + END
    wanted += rest.partition(END)[2]
    if request.config.getoption("--update-golden"):
        INDEX.write_text(wanted, encoding="utf-8", newline="\n")
    assert INDEX.read_text(encoding="utf-8") == wanted, "pytest --update-golden writes it"
    assert head.split() == ["#", "cute_py"]


def test_the_map_names_what_there_is_and_links_each_use():
    uses = cute.__doc__.partition("\n- ")[2].split("\n- ")
    assert [each.split()[0] for each in uses] == ["Explore", "Print", "Write", "Compute"]
    for use in uses:
        names = re.findall(r"`([\w.]+)`", use)
        assert names
        assert all(callable(attrgetter(name)(cute)) for name in names)
        assert re.findall(r"docs/\w+\.md", use)
