"""Every code block of the README and the docs runs and prints what the page says.

- ```python with `>>>` is a doctest; without, it is executed and must hold an assert. The blocks of
  one page share their names.
- ```console lists `$ cute-py ...` commands, each followed by what a terminal would show.
- ```sh and ```text are for reading only.
"""

import doctest
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LANGUAGES = ("python", "console", "sh", "text", "toml")

# Pages that must go on showing runnable code, and in which languages.
PROMISED = {
    "README.md": {"python", "console"},
    "docs/index.md": {"python"},
    "docs/command_line.md": {"console"},
    "docs/architecture.md": {"python"},
    "docs/glossary.md": {"python"},
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
    else:
        assert "assert " in block.text, f"{block.name}: a block without >>> must assert something"
        source = "\n" * block.line + block.text  # tracebacks then show the page's own lines
        exec(compile(source, block.page, "exec"), names)


def run_doctest(block, names):
    test = doctest.DocTestParser().get_doctest(
        block.text, names, block.name, block.page, block.line
    )
    report = []
    failed = doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
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


def run_command(command):
    """Return what `cute-py ...` prints on a plain 100-column terminal."""
    program, *arguments = shlex.split(command)
    assert program == "cute-py", (
        f"console blocks hold cute-py commands only; {program!r} is for ```sh"
    )
    start = "import sys; from cute_py.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", start, *arguments],
        cwd=ROOT,
        env=os.environ | {"NO_COLOR": "1", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=60,
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip("\n")


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.name)
def test_python_block_runs(block, pages):
    pages[block.page].run_through(block)
    assert block not in pages[block.page].waiting


@pytest.mark.parametrize("block", CONSOLE, ids=lambda block: block.name)
def test_console_block_prints_what_it_shows(block):
    commands = commands_of(block)
    assert commands, f"{block.name}: no command"
    for command, expected in commands:
        assert run_command(command) == expected, command


@pytest.mark.parametrize("page", PROMISED)
def test_page_shows_the_code_it_promises(page):
    found = {block.language for block in BLOCKS if block.page == page}
    assert found >= PROMISED[page]


def test_every_block_names_a_known_language():
    assert [block.name for block in BLOCKS if block.language not in LANGUAGES] == []
