"""Every code block of the README and the docs runs, or is compared with what is printed.

- ```python with `>>>` is a doctest; without, it is executed and must hold an assert. The blocks of
  one page share their names. One that begins with `# name.py` is pasted into a file: where the
  next block is a ```text that begins with the class of an error, it must end in that one.
- ```console lists `$ cute-py ...` commands, each followed by what a terminal shows.
- ```sh is a command to type. A quick one is run; .ci/run runs the two commands of the README.
- ```text is what the command of the ```sh block before it prints, or a picture with a test here.
- ```diff is a kernel with what is new in it; tests/test_write_a_gemm.py compares it with its file.
- ```{names} and ```{picture} are what docs/conf.py fills in; tests/test_site.py reads them.

In what is printed `...` stands for any text, and times and rounding errors for any others; of what
compilers and machines choose (registers, versions), a number for any other.
"""

import doctest
import linecache
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from tests.conftest import compute_capability

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LANGUAGES = ("python", "console", "sh", "text", "toml", "diff", "{names}", "{picture}")

# Pages that must go on showing runnable code, and in which languages.
PROMISED = {
    "README.md": {"python", "sh", "text"},
    "docs/install.md": {"python", "sh", "text"},
    "docs/algebra.md": {"python"},
    "docs/how_to.md": {"python"},
    "docs/epilogues.md": {"python"},
    "docs/index.md": {"python"},
    "docs/command_line.md": {"console"},
    "docs/architecture.md": {"python"},
    "docs/emulator.md": {"python"},
    "docs/glossary.md": {"python"},
    "docs/pictures.md": {"python", "console"},
    "docs/see.md": {"python", "console"},
}


@dataclass(frozen=True)
class Block:
    page: str
    line: int  # of the opening fence, 1-based
    language: str
    text: str

    @property
    def name(self):
        return f"{self.page}:{self.line}"


def blocks_of(path):
    """Return the fenced blocks of a Markdown page in order; an unclosed fence is an error."""
    page = path.relative_to(ROOT).as_posix()
    blocks, opened = [], None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        stripped = line.strip()
        if opened is None and stripped.startswith("```"):
            opened, lines = number, []
            language, indent = stripped[3:].strip(), len(line) - len(line.lstrip())
        elif opened is not None and stripped == "```":
            blocks.append(Block(page, opened, language, "\n".join(lines) + "\n"))
            opened = None
        elif opened is not None:
            lines.append(line[indent:])
    assert opened is None, f"{page}:{opened}: this fence is never closed"
    return blocks


BLOCKS = [block for path in PAGES for block in blocks_of(path)]
PYTHON = [block for block in BLOCKS if block.language == "python"]
CONSOLE = [block for block in BLOCKS if block.language == "console"]


class Page:
    """The names that one page's python blocks have made so far."""

    def __init__(self, name):
        self.names = {"__name__": f"docs:{name}"}
        self.waiting = [block for block in PYTHON if block.page == name]

    def run_through(self, block):
        """Run the page's blocks up to `block`, each once, so that a block can be tested alone."""
        while block in self.waiting:
            run_python(self.waiting.pop(0), self.names)


@pytest.fixture(scope="module")
def pages():
    return {name: Page(name) for name in {block.page for block in PYTHON}}


def run_python(block, names):
    if ">>>" in block.text:
        run_doctest(block, names)
    elif error := error_of(block):
        run_wrong(block, error, names)
    else:
        assert "assert " in block.text, f"{block.name}: a block without >>> must assert something"
        exec(compiled(block), names)


def compiled(block):
    """Return the code of a block: of the file that it names, or at its lines of the page."""
    file = block.text.partition("\n")[0].removeprefix("# ")
    if not file.endswith(".py"):
        return compile("\n" * block.line + block.text, block.page, "exec")
    linecache.cache[file] = (len(block.text), None, block.text.splitlines(True), file)
    return compile(block.text, file, "exec")


def error_of(block):
    """Return the text block with the error that a python block ends in, if it does."""
    following = next((x for x in BLOCKS if x.page == block.page and x.line > block.line), None)
    shown = following is not None and following.language == "text"
    return following if shown and following.text.startswith("cute_py.errors.") else None


def run_wrong(block, error, names):
    """Run a block, which must end in the error, however a page wraps that."""
    with pytest.raises(cute.CuteError) as found:
        exec(compiled(block), names)
    kind = type(found.value)
    said = f"{kind.__module__}.{kind.__name__}: {found.value}"
    assert said.split() == error.text.split(), f"{error.name}: {said}"


class AtAPrompt(doctest.OutputChecker):
    """Compares with what the interpreter's prompt shows, which calls its input <stdin>."""

    def check_output(self, want, got, optionflags):
        return super().check_output(want, re.sub(r"<doctest [^>]*>", "<stdin>", got), optionflags)


def run_doctest(block, names):
    test = doctest.DocTestParser().get_doctest(
        block.text, names, block.name, block.page, block.line
    )
    for example in test.examples:
        if example.exc_msg:  # a terminal breaks the long line of a refusal
            example.options[doctest.NORMALIZE_WHITESPACE] = True
    report = []
    runner = doctest.DocTestRunner(checker=AtAPrompt(), verbose=False)
    failed = runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert test.examples, f"{block.name}: no example found"
    assert failed.failed == 0, "".join(report)


def commands_of(block):
    """Return (command, expected output) pairs of a console block."""
    pairs = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            pairs.append((line[2:], []))
        else:
            assert pairs, f"{block.name}: output before the first `$ ` line"
            pairs[-1][1].append(line.rstrip())
    return [(command, "\n".join(lines).strip("\n")) for command, lines in pairs]


PLAIN = {"NO_COLOR": "1", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)}


def run_command(command, status=None, folder=ROOT):
    """Return what `cute-py ...` prints on a plain 100-column terminal.

    Its exit status must be `status`, if that is given: a page also shows what is refused.
    """
    program, *arguments = shlex.split(command)
    assert Path(program).name == "cute-py", f"{program!r} is no cute-py command"
    start = "import sys; from cute_py.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", start, *arguments],
        cwd=folder,
        env=os.environ | PLAIN,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=60,
    )
    assert status in (None, done.returncode), f"{command}: {done.stdout}"
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip("\n")


# what differs from run to run or machine to machine -> its pattern
VARIES = {
    r"^\.\.\.\n": r"(?:.*\n)*?",
    r" ?\.\.\.(?=\n)": r".*",
    r"\d+(?:\.\d+)? s\b": r"[\d.]+ s",
    r"\d\.\d+e-\d+": r"\d\.?\d*e-\d+",
}


NUMBERS = {r"\d+(?:\.\d+)*": r"\d+(?:\.\d+)*"}
LEFT = re.compile(r"^left     about \d+ s\n", re.MULTILINE)  # printed where a run takes a second
CHOSEN = ("cute-py compile", "cute-py doctor")  # commands whose numbers a machine chooses


def pattern_of(expected, varies):
    """Return the pattern of what a page shows of an output."""
    found = re.compile("|".join(f"({each})" for each in varies), re.MULTILINE)
    pattern, end, text = "", 0, expected + "\n"
    for match in found.finditer(text):
        pattern += re.escape(text[end : match.start()]) + [*varies.values()][match.lastindex - 1]
        end = match.end()
    return pattern + re.escape(text[end:])


def check_printed(command, expected, printed):
    """Compare what a command printed with what a page shows of it."""
    varies = VARIES | (NUMBERS if command.startswith(CHOSEN) else {})
    if "cute-py gemm " in command and not LEFT.search(expected):
        printed = LEFT.sub("", printed)
    if not re.fullmatch(pattern_of(expected, varies), printed + "\n"):
        assert printed == expected, command  # pytest shows where they differ


def require(block):
    """Skip where what a block needs is missing: compilers, or a machine without a GPU."""
    if ("cute.compile" in block.text or "cute-py compile" in block.text) and not find_spec("numba"):
        pytest.skip("needs the extra `cuda`")
    if block.page == "docs/torch.md" and not find_spec("torch"):
        pytest.skip("needs the extra `torch`")
    if "cute-py completion" in block.text and not find_spec("shtab"):
        pytest.skip("needs the extra `completion`")
    if (
        "cute-py doctor" in block.text
        and block.language == "console"
        and (compute_capability() or not find_spec("numba"))
    ):
        pytest.skip("shows what is printed with the extra `cuda` and no GPU")


@pytest.fixture
def failure(request, pages):
    """Return what is wrong with a python block. Some compile, which is not the test's own time."""
    block = request.param
    require(block)
    try:
        pages[block.page].run_through(block)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.fixture
def printed(request):
    """Return the block, and (command, what the page shows, what was printed) of its commands."""
    require(request.param)
    pairs = commands_of(request.param)
    return request.param, [(command, shown, run_command(command)) for command, shown in pairs]


def name_of(block):
    return block.name


@pytest.mark.parametrize("failure", PYTHON, ids=name_of, indirect=True)
def test_python_block_runs(failure):
    assert failure == ""


@pytest.mark.parametrize("printed", CONSOLE, ids=name_of, indirect=True)
def test_console_block_prints_what_it_shows(printed):
    block, outputs = printed
    assert outputs, f"{block.name}: no command"
    for command, expected, output in outputs:
        check_printed(command, expected, output)


def test_what_varies_is_no_excuse():
    """Times may differ, and `...` may stand for text; nothing else may."""
    shown = "time  0.28 s\n...\nhead ...\nend 3"
    check_printed("", shown, "time  12 s\na\nb\nhead of it\nend 3")
    check_printed("", shown, "time  1.5 s\nhead\nend 3")
    for other in ("time  x s\nhead\nend 3", "time  1 s\nhead\nend 4", "time  1 s\nend 3"):
        with pytest.raises(AssertionError):
            check_printed("", shown, other)


def test_a_slow_run_may_say_how_long_it_takes():
    late = "config  x\nleft     about 18 s\ntime     19 s"
    check_printed("cute-py gemm --m 8", "config  x\ntime     0.28 s", late)
    for other in (late.replace("18 s", "much"), late.replace("\nleft", "\nno left")):
        with pytest.raises(AssertionError):
            check_printed("cute-py gemm --m 8", "config  x\ntime     0.28 s", other)


# -- sh and text

# What .ci/run runs, and what takes minutes or a GPU, by its beginning; all else is run.
TWO_COMMANDS = "python3 -m venv .venv && .venv/bin/python -m pip install "
LONG = (TWO_COMMANDS, ".ci/run", "python -m pytest -m gpu", "pip install ")
LONG += CHOSEN  # docs/kernels.md shows what these print
SH = [block for block in BLOCKS if block.language == "sh"]
TEXT = [block for block in BLOCKS if block.language == "text"]
ERRORS = [error for block in PYTHON if (error := error_of(block))]
LAYERS = "records   lazy"  # the last line of the picture of the layers


def typed(block):
    """Return the commands of an sh block, without comments and without the file of their output."""
    lines = (re.split(r"  #| > ", line)[0].strip() for line in block.text.splitlines())
    return [line for line in lines if line]


@pytest.fixture
def answers(request, tmp_path):
    """Return (command, what is printed) of an sh block, None for what is not run here."""
    require(request.param)
    for name, shape in (("a", (32, 48)), ("b", (48, 16))):
        np.save(tmp_path / f"{name}.npy", np.ones(shape, np.float32))
    return [
        (each, None if each.startswith(LONG) else run_command(each, 0, tmp_path))
        for each in typed(request.param)
    ]


@pytest.mark.parametrize("answers", SH, ids=name_of, indirect=True)
def test_sh_block_runs(answers):
    assert answers
    for command, printed in answers:
        assert printed != "", command
        if printed is None:  # what it names is there
            names = [x for x in shlex.split(command) if "/" in x and not x.startswith(".venv/")]
            assert all((ROOT / name).is_file() for name in names), command


def test_ci_runs_the_first_command_of_the_readme():
    shown = [each for block in SH if block.page == "README.md" for each in typed(block)]
    (first, _tests) = [each for each in shown if each.startswith(TWO_COMMANDS)]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    taken = script[script.index("first=") : script.index("command=")]
    taken += 'printf "%s\n" "$first"'
    done = subprocess.run(["bash", "-ec", taken], cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.stdout.strip() == first
    assert 'bash -ec "$first"' in script


@pytest.fixture
def output(request):
    """Return the command whose output a text block shows, the text, and what is printed."""
    block = request.param
    before = [each for each in SH if each.page == block.page and each.line < block.line]
    command = typed(before[-1])[-1].rpartition(" && ")[2]
    return command, block.text.strip("\n"), run_command(command, status=0)


OUTPUT = [x for x in TEXT if x.text.splitlines()[-1] != LAYERS and x not in ERRORS]


@pytest.mark.parametrize("output", OUTPUT, ids=name_of, indirect=True)
def test_text_block_is_what_its_command_prints(output):
    check_printed(*output)


def test_the_picture_of_the_layers_is_the_import_contract():
    (block,) = [each for each in TEXT if each.text.splitlines()[-1] == LAYERS]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {each["id"]: each for each in project["tool"]["importlinter"]["contracts"]}
    shown = [re.sub(r" \{.*\}", "", line).split() for line in block.text.splitlines()]
    assert shown == [line.split(" | ") for line in contracts["layers"]["layers"]]
    (folders,) = re.findall(r"layout \{ (.*) \}", block.text)
    there = {path.parent.name for path in (ROOT / "cute_py" / "layout").glob("*/__init__.py")}
    assert set(folders.split(", ")) == there


@pytest.mark.parametrize("page", PROMISED)
def test_page_shows_the_code_it_promises(page):
    found = {block.language for block in BLOCKS if block.page == page}
    assert found >= PROMISED[page]


def test_every_block_names_a_known_language():
    assert [block.name for block in BLOCKS if block.language.split(" ")[0] not in LANGUAGES] == []
