"""The first screen: claims of the README, and the map in docs/index.md and help(cute)."""

import json
import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from benchmarks.gpu import users
from tests.sampling import each
from tests.test_docs import BLOCKS, PYTHON

ROOT = Path(__file__).parents[1]

README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = {  # also in docs/pictures.md
    "layout.svg": lambda: cute.Layout((4, 8), (8, 1)),
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


def test_the_readme_shows_a_layout_first_and_then_an_instruction():
    assert re.findall(r"!\[.*\]\((.*)\)", README) == ["docs/layout.svg", "docs/mma.svg"]


def first_kernel():
    """Return the names of the README's first block, with the barrier that its kernel lacks."""
    first = next(block for block in PYTHON if block.page == "README.md")
    kernel, end = first.text.split("    y[t] = ")
    last, call = end.split("\n\n")
    whole = f"{kernel}    cute.syncthreads()\n    y[t] = {last}\n{call}"
    names = {}
    exec(compile(whole, "reverse.py", "exec"), names)
    return names


def test_the_first_example_fits_a_narrow_terminal_and_can_be_pasted():
    blocks = [block for block in BLOCKS if block.page == "README.md"]
    example, error = blocks[:2]
    assert ">>>" not in example.text
    assert (example.language, error.language) == ("python", "text")
    assert max(map(len, (example.text + error.text).splitlines())) <= 80
    assert error.text.splitlines()[-1].startswith("fix: ")


def test_the_first_kernel_runs_with_the_barrier_that_the_readme_adds():
    names = first_kernel()
    assert np.array_equal(names["y"], names["x"][::-1])


def test_the_speed_in_the_readme_is_that_of_the_table():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"depending on the type: (.*?) \(in burst", README, re.DOTALL)
    ratios = dict(re.findall(r"(?m)^\| gemm \| (\w+) \| 4096\^3 \|.*\| \**([\d.]+)x\** \|$", page))
    shown = dict(each.split() for each in re.split(r",\s+", said))
    assert len(shown) == 6
    assert shown == {kind: ratios[kind] for kind in shown}
    least, most = min(shown.values()), max(shown.values())
    assert f"at {least}x to {most}x the speed of cuBLAS" in README


def test_the_speed_of_attention_is_that_of_the_results():
    found = {case: re.findall(r"[\d.]+", cudnn) for case, _us, cudnn, *_ in users.attention_lines()}
    speeds = sorted(float(x[0]) for case, x in found.items() if x and " keys " not in case)
    words = f"{speeds[0]:.2f}x to {speeds[-1]:.2f}x the speed of cuDNN"
    assert words in " ".join(README.split())


def test_the_comparison_says_what_is_measured_and_cites_the_others():
    start = README.index("## Why not")
    rows = re.findall(r"(?m)^\| .* \|$", README[start : README.index("\n## ", start)])
    assert len(rows) - 2 <= 8  # without the head and the line below it
    assert len({row.count(" |") for row in rows}) == 1
    links = re.findall(r"\]\((\S+?)\)", "".join(rows))
    assert sum(link.startswith("https://") for link in links) == 4  # one for each of the others
    ladder = json.loads((ROOT / "benchmarks/results/ladder.json").read_text(encoding="utf-8"))
    us = {row["kernel"]: row["us"] for row in ladder["rows"] if row["dtype"] == "f16"}
    file = ROOT / "cute_py" / "kernels" / "gemm_11_persistent.py"
    lines = len(file.read_text(encoding="utf-8").splitlines())
    said = f"[{us['torch'] / us['gemm_11']:.2f}x cuBLAS]"
    assert any(said in row and f"a file of {lines} lines" in row for row in rows)


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


# -- names in running text


def names_of(page):
    """Return the names `cute.x.y` in the inline code of a page: what it says that there is here."""
    text = re.sub(r"(?ms)^\s*```.*?^\s*```", "", page.read_text(encoding="utf-8"))
    if page.name == "coming_from.md":  # the first column has the names of others
        text = re.sub(r"(?m)^\| .*? (?<!\\)\| ", "", text)
    code = " ".join(re.findall(r"`([^`\n]+)`", text))
    return {name.rstrip(".") for name in re.findall(r"(?<![\w.-])cute\.([A-Za-z_][\w.]*)", code)}


def is_there(name):
    try:
        attrgetter(name)(cute)
    except AttributeError:
        return False
    return True


@each(sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), name=lambda page: page.name)
def test_names_in_the_text_of_a_page_exist(page):
    assert [name for name in sorted(names_of(page)) if not is_there(name)] == []


def test_other_names_would_be_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("`cute.Layout` and `cute.nothing(x)`\n```\ncute.not_read\n```\n")
    assert [name for name in names_of(page) if not is_there(name)] == ["nothing"]
