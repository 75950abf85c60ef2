"""The words of pages, error texts and module docstrings: plain English, and the field's terms."""

import ast
import re
from pathlib import Path

from tests.refusals.rows import rows
from tests.sampling import each

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cute_py"

# what is refused -> what to write instead
REFUSED = {
    r"mend(?:s|ed|ing)?": "fix",
    r"besides?": "next to, with, during; also",
    r"shall": "must, or the present tense",
    r"likewise": "also, too",
    r"(?:under)?lies?|lain|lying": "is, is stored",
    r"whereas": "but",
    r"pass(?:es)? of (?:a|the|its|this|main)\b[\w ]*\bloops?": "iteration",
    r"second-level cache": "L2 cache",
    r"(?<!/)doors?": "function, entry point",
    r"floors? (?:above|below)": "layer",
    r"kin": "the like, related",
    r"parts? (?:the|its) modes|lines part": "separate",
    r"as buttons": "buttons with",
    r"unasked": "by itself",
    r"in silence": "silently",
    r"of yours": "your own",
    r"products of files": "matrix products",
    r"in mode the whole": "of the whole mode",
    r"(?:checked|explored) by its law": "compared with its law",
    r"instructions as rows": "a menu of instructions",
    r"(?:lists|says) what it can become": "lists the names that begin with it",
    r"the whole of it": "all of this is",
    r"an? nest deeper": "tuples nested deeper",
    r"(?:is|are) still to come": "is missing",
    r"is no (?:name|instruction)": "is not a name, an instruction",
    r"nobody who is left": "no other thread",
    r"past such a multiple": "past a multiple of 16",
    r"stands? in the expression": "is in the expression",
}
WORDS = re.compile(rf"\b(?:{'|'.join(REFUSED)})\b", re.IGNORECASE)

# In the pages for users a mistake is an error: "refuse" is a word of those who work on the library.
REFUSE = re.compile(r"\brefus(?:ed?|es|ing|als?)\b", re.IGNORECASE)
FIRST = (
    "install algebra how_to coming_from explorer pictures gallery command_line index faq operators"
)
FIRST += " see epilogues torch performance kernels write_a_gemm files emulator glossary"
FIRST_PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in FIRST.split())]
FIRST_PAGES += [*ROOT.glob("docs/api/*.md"), *ROOT.glob("notebooks/*.ipynb")]

PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("changelog.d/*.md"),
    *ROOT.glob("notebooks/**/*.ipynb"),
    *ROOT.glob("notebooks/**/*.py"),
    ROOT / "benchmarks" / "README.md",
]
FOLDERS = sorted(path.name for path in PACKAGE.iterdir() if path.name != "__pycache__")
FOLDERS = [name for name in FOLDERS if (PACKAGE / name).is_dir() or name.endswith(".py")]


def found(place, text, words=WORDS):
    """Return each refused word of a text with its line."""
    hits = []
    for number, line in enumerate(text.splitlines(), start=1):
        for match in words.finditer(line):
            hits.append(f"{place}:{number}: {match[0]!r}")
    return hits


def own_text(page):
    """Return a page's text without what is made from the sources, which are read below."""
    text = page.read_text(encoding="utf-8")
    if page.name == "architecture.md":
        return text.partition("## Every file")[0]
    if page.name == "errors.md":
        return "\n".join(line for line in text.splitlines() if not line.startswith("| `"))
    return text


@each(PAGES, name=lambda page: page.name)
def test_page_speaks_plain_english(page):
    assert found(page.name, own_text(page)) == []


@each(FIRST_PAGES, name=lambda page: page.name)
def test_what_users_read_first_speaks_of_errors(page):
    assert found(page.name, page.read_text(encoding="utf-8"), REFUSE) == []


def test_causes_of_refusals_are_told_in_plain_english():
    assert [hit for code, row in rows().items() for hit in found(code, row.when)] == []


def texts_of(file):
    """Return (place, text) of a module's docstring, and of all texts of a table of wordings."""
    tree, place = ast.parse(file.read_text(encoding="utf-8")), file.relative_to(ROOT).as_posix()
    texts = [(place, ast.get_docstring(tree, clean=False) or "")]
    if file.name in ("wordings.py", "expression.py"):
        texts += [
            (f"{place}:{node.lineno}", node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    return texts


def hits_of(folder):
    """Return the refused words in the error texts and module docstrings of a folder."""
    place = PACKAGE / folder
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return [hit for file in files for where, text in texts_of(file) for hit in found(where, text)]


@each(FOLDERS)
def test_folder_speaks_plain_english(folder):
    assert hits_of(folder) == []
