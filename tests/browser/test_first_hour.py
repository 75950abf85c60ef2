"""The first hour of four readers: a student, a kernel engineer, a user of torch, a researcher. Each
starts at the README on the site, follows its links, searches, copies code and runs it, types
answers into JupyterLab and opens the explorer. Comments say what they meet after how many minutes.

Only where CUTE_PY_JUPYTERLAB is set, as in .ci/browser: the site and a server take half a minute.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

from cute_py.cli.main import main
from cute_py.explore import answer, state_of
from tests.browser.test_explorer import runtime, served
from tests.browser.test_jupyterlab import PORT, TOKEN, server
from tests.emulated.test_lessons import LESSONS, answers_of, code_of, exercise_of

__all__ = ["runtime", "server"]  # fixtures
ROOT = Path(__file__).parents[2]
COMMAND = "sphinx-build -c docs . build/site"

pytestmark = pytest.mark.skipif(
    not os.environ.get("CUTE_PY_JUPYTERLAB"), reason="needs JupyterLab: .ci/browser runs it"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, made by the README's own command."""
    if find_spec("sphinx") is None:
        pytest.skip("needs the extra `docs`")
    assert f"`{COMMAND}`" in (ROOT / "README.md").read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("site")
    command = ["-m", "sphinx", "-q", *COMMAND.split()[1:-1], str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=True)
    return folder


class Reader:
    """Somebody with a browser who reads the site and runs what it says in a folder."""

    def __init__(self, page, base, folder):
        self.page, self.base, self.folder = page, base, folder

    def opens(self, path):
        assert self.page.goto(f"{self.base}/{path}").ok
        return self.page

    def follows(self, name):
        """Click on a link, and return the page's address on the site."""
        self.page.get_by_role("link", name=name, exact=True).first.click()
        self.page.wait_for_load_state()
        return self.page.url.removeprefix(f"{self.base}/")

    def searches(self, words):
        """Search for words, open what is found first, and return its address."""
        self.opens(f"search.html?q={words}")
        self.page.locator("#search-results li a").first.wait_for()
        self.page.wait_for_function("!document.querySelector('#search-progress')?.innerText")
        self.page.locator("#search-results li a").first.click()
        self.page.wait_for_load_state()
        return self.page.url.removeprefix(f"{self.base}/").partition("?")[0]

    def copies(self, start):
        """Copy the first block of code that contains a text, and return what is pasted."""
        block = self.page.locator("div.highlight", has_text=start).first
        block.hover()
        block.get_by_role("button", name="Copy this code").click()
        block.get_by_text("Copied").wait_for()
        return self.page.evaluate("navigator.clipboard.readText()")

    def runs(self, code):
        """Paste code into a file and run it; return its exit status and what it prints."""
        (self.folder / "pasted.py").write_text(code, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "pasted.py"]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, encoding="utf-8"
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def reader(browser, site, tmp_path):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    with served(site) as base:
        yield Reader(page, base.rstrip("/"), tmp_path)
    context.close()
    assert errors == []


class Lab:
    """A lesson in JupyterLab."""

    def __init__(self, page):
        self.page = page

    def runs(self, text, code=None):
        """Run the cell with a text, with other code if it is given; return what it shows."""
        cell = self.page.locator(".jp-CodeCell", has_text=text).first
        cell.scroll_into_view_if_needed()
        cell.locator(".cm-content").click()
        if code is not None:
            self.page.keyboard.press("Control+A")
            self.page.evaluate("code => navigator.clipboard.writeText(code)", code)
            self.page.keyboard.press("Control+V")
        self.page.keyboard.press("Shift+Enter")
        prompt = cell.locator(".jp-InputPrompt")
        done = "x => /^\\[\\d+\\]:$/.test(x.innerText)"
        self.page.wait_for_function(done, arg=prompt.element_handle(), timeout=60_000)
        output = cell.locator(".jp-OutputArea")
        return output.inner_text() if output.count() else ""


@pytest.fixture
def lab(server, browser):
    """Open a lesson: lab(number)."""
    context = browser.new_context(viewport={"width": 1280, "height": 1600})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    shutil.copytree(ROOT / "notebooks", server, dirs_exist_ok=True)

    def opened(number):
        page = context.new_page()
        name = LESSONS[number - 1].name
        page.goto(f"http://127.0.0.1:{PORT}/doc/tree/{name}?token={TOKEN}&reset")
        page.locator(".jp-CodeCell").first.wait_for(timeout=60_000)
        started = "/[|] Idle/.test(document.querySelector('#jp-main-statusbar')?.innerText)"
        page.wait_for_function(started, timeout=60_000)
        return Lab(page)

    yield opened
    context.close()


def cell_of(number, step, kind):
    """Return the code of an exercise's cell with the right or the wrong answer."""
    lesson = LESSONS[number - 1]
    found = next(x for x in map(exercise_of, code_of(lesson)) if x and x[2] == step)
    right, wrong = answers_of(lesson)[step]
    return f"{found[1]}# Exercise {step}\n{wrong if kind == 'wrong' else right}{found[4]}"


# -- the readers


def test_a_student_reads_draws_and_answers(reader, lab):
    # 1 minute: what a layout is, in a sentence and a picture
    page = reader.opens("README.html")
    assert "A layout is a function from the coordinates" in page.locator("body").inner_text()
    picture = page.locator("img[alt^='The layout (4,8):(8,1)']")
    assert picture.evaluate("x => x.complete && x.naturalWidth > 100")
    # 5 minutes: the first lesson, with pictures that answer to the pointer
    assert reader.follows("1 layouts") == "notebooks/01_layouts.html"
    canvas = page.locator("canvas[tabindex]")
    assert canvas.count() >= 3
    canvas.first.scroll_into_view_if_needed()
    canvas.first.hover(position={"x": 60, "y": 60})
    assert "offset" in page.locator("[role=status]").first.text_content()
    # 15 minutes: a wrong answer with its witness, then the right one
    lesson = lab(1)
    lesson.runs("from checks import check")
    said = lesson.runs("# Exercise 1.1", cell_of(1, "1.1", "wrong"))
    assert "1.1: not yet." in said
    assert "element (1, 0) is at 8, and should be at 1" in said
    assert "1.1: right." in lesson.runs("# Exercise 1.1", cell_of(1, "1.1", "right"))
    # 60 minutes: a GEMM of one's own, step by step
    lesson = lab(9)
    lesson.runs("from checks import check")
    assert "no answer yet" in lesson.runs("# Exercise 9.1")
    said = lesson.runs("# Exercise 9.1", cell_of(9, "9.1", "wrong"))
    assert "nothing is written to element" in said
    for step in answers_of(LESSONS[8]):
        said = lesson.runs(f"# Exercise {step}", cell_of(9, step, "right"))
        assert f"{step}: right." in said


def test_a_kernel_engineer_installs_writes_and_debugs(reader):
    # 1 minute: a wrong kernel is an error that says how to fix it
    page = reader.opens("README.html")
    code = reader.copies("# reverse.py")
    status, said = reader.runs(code)
    assert status == 1
    assert "fix: put cute.syncthreads() between the two" in said
    fixed = code.replace("    y[t] = ", "    cute.syncthreads()\n    y[t] = ")
    assert reader.runs(fixed)[0] == 0
    # 5 minutes: installed, and a first kernel
    assert reader.searches("install").startswith("docs/install.html")
    assert reader.copies("python3 -m venv").startswith("python3 -m venv .venv && ")
    assert reader.runs(reader.copies("# add.py"))[0] == 0
    # 15 minutes: the names of another DSL, and a recipe with TMA
    assert reader.searches("cutlass").startswith("docs/coming_from.html")
    assert reader.searches("tma").startswith("docs/how_to.html")
    assert reader.runs(reader.copies("# ring.py"))[0] == 0
    assert reader.searches("debug").startswith("docs/how_to.html")
    assert "row 3: 3568" in reader.runs(reader.copies("cute.print"))[1]
    # 60 minutes: the code of each step of a GEMM, what is new in it, and one by hand
    assert reader.searches("gemm").startswith("docs/write_a_gemm.html")
    steps = page.locator(".highlight-diff")
    assert steps.count() == 12
    assert steps.nth(6).locator(".gi").count() > 10
    assert reader.runs(reader.copies("# by_hand.py"))[0] == 0
    kernel = ast.parse(reader.copies("def gemm_multistage")).body[0]
    assert kernel.name == "gemm_multistage"


def test_a_user_of_torch_finds_operators_and_gradients(reader):
    # 1 minute: what there is for torch, and how fast
    page = reader.opens("README.html")
    assert "torch.compile" in page.locator("body").inner_text()
    assert reader.follows("torch") == "docs/torch.html"
    assert page.get_by_role("cell", name="torch.compile", exact=True).count() == 1
    # 5 minutes: a softmax that runs
    assert reader.searches("softmax").startswith("docs/how_to.html")
    assert reader.runs(reader.copies("# softmax.py"))[0] == 0
    # 15 minutes: a kernel as an operator with a gradient
    assert reader.searches("gradient").startswith("docs/torch.html")
    code = reader.copies("cute_py.torch.register")
    ast.parse(code)
    if find_spec("torch"):
        start = reader.copies("import cute_py.torch")
        assert reader.runs(f"{start}\n{code}")[0] == 0
    # 60 minutes: all figures, with those where it is slower
    assert reader.searches("benchmark").startswith("docs/performance.html")
    losses = page.locator("td strong")
    assert losses.count() > 5
    assert all(float(x.rstrip("x")) <= 1 for x in losses.all_text_contents())


def test_a_researcher_computes_draws_and_compares(reader, runtime, browser, tmp_path):
    # 1 minute: the algebra, with a counterexample
    page = reader.opens("README.html")
    assert reader.follows("the algebra") == "docs/algebra.html"
    assert "at coordinate number 5" in page.locator("body").inner_text()
    # 5 minutes: pictures of all operations, each with a link to the explorer
    assert reader.follows("gallery").startswith("docs/gallery.html")
    links = page.get_by_role("link", name="Explore it")
    assert links.count() > 10
    addresses = [link.get_attribute("href") for link in links.all()]
    states = [state_of(unescape(address)) for address in addresses]
    answers = [answer(state) for state in states]
    assert all(found["scene"] is not None for found in answers)
    # 15 minutes: the explorer answers what is typed, in the browser
    folder = tmp_path / "explorer"
    assert main(["explore", "-o", str(folder), "--runtime", str(runtime)]) == 0
    link = next(x for x in addresses if "composition" in x).partition("#")[2]
    with served(folder) as base:
        explorer = browser.new_page()
        explorer.goto(f"{base}index.html#{link}")
        value = answers[next(i for i, x in enumerate(addresses) if x.endswith(link))]["value"]
        explorer.wait_for_function(
            "value => document.querySelector('output.value')?.textContent === value",
            arg=value,
            timeout=60_000,
        )
        explorer.close()
    # 60 minutes: where the answers differ from CuTe's, and what each error means
    reader.opens("docs/algebra.html")
    assert reader.follows("differences").startswith("docs/differences.html")
    assert page.locator("tr", has_text="composition-departs").count() > 3
    assert reader.searches("errors").startswith("docs/errors.html")


def test_no_link_of_the_site_is_broken(site):
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    anchors = {path: set(re.findall(r'\sid="([^"]+)"', text)) for path, text in pages.items()}
    broken, checked = [], 0
    for path, text in pages.items():
        for address in re.findall(r'(?:href|src)="([^"]+)"', text):
            target, _, anchor = unescape(address).partition("#")
            if re.match(r"[a-z]+:|//", target) or "explorer/" in str(path):
                continue
            checked += 1
            file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            there = file.is_file() and (
                not anchor
                or file not in anchors
                or "explorer" in file.parts
                or unquote(anchor) in anchors[file]
            )
            if not there:
                broken.append(f"{path.relative_to(site)}: {address}")
    assert checked > 1000
    assert sorted(set(broken)) == []
