"""The site that docs/conf.py makes: the reference has every public name, the sidebar every page."""

import json
import re
from html import unescape
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path

import pytest

import cute_py as cute
from cute_py.explore import answer, state_of
from tests.test_repository import tracked_files

DOCS = Path(__file__).parents[1] / "docs"


def configuration():
    """Return docs/conf.py as a module."""
    pytest.importorskip("sphinx")
    spec = spec_from_file_location("conf", DOCS / "conf.py")
    conf = module_from_spec(spec)
    spec.loader.exec_module(conf)
    return conf


@pytest.fixture(scope="module")
def conf():
    return configuration()


def test_every_public_name_is_on_one_page_of_the_reference(conf):
    homes, shown = conf.homes(), []
    for page in sorted(DOCS.glob("api/*.md")):
        blocks = re.findall(r"(?s)^```{names}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M)
        assert blocks, page
        shown += [name for block in blocks for module in block.split() for name in homes[module]]
    assert len(shown) == len(set(shown))
    values = {id(conf.value_of(name)) for name in shown if not name.startswith("torch.")}
    functions = {each for each in cute._PACKAGES if callable(getattr(cute, each))}
    assert functions <= set(shown)
    for package in (None, *cute._PACKAGES, "analysis.model"):
        names = dir(cute) if package is None else getattr(attrgetter(package)(cute), "__all__", ())
        for name in names:
            if not name.startswith("__") and name not in cute._PACKAGES:
                full = f"{package}.{name}" if package else name
                found = full in shown or id(conf.value_of(full)) in values
                assert found, f"{full} is on no page of docs/api"


def test_every_page_is_in_the_sidebar(conf):
    entries = " ".join(conf.CONTENTS.values()).split()
    listed = [entry.rpartition("<")[2].rstrip(">") for entry in entries]
    found = {path.resolve() for entry in listed for path in DOCS.glob(f"{entry}.*")}
    assert len(listed) == len(set(listed))
    for page in [*DOCS.glob("**/*.md"), *DOCS.parent.glob("*.md")]:
        assert page in found or page.stem == "index", f"{page.name} is not in CONTENTS"


def test_readers_find_their_way_by_what_they_want(conf):
    """The sidebar has the four kinds of pages, and a search for a word finds one heading first."""
    captions = ["Tutorials", "How-to guides", "Explanation", "Reference"]
    assert list(conf.CONTENTS)[:4] == captions
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^## ([\w-]+(?: guides)?),", index) == captions
    words = []
    for name, headings in conf.SOUGHT.items():
        path = DOCS.parent / name
        page = path.with_suffix(".md" if name.startswith("docs/") else ".ipynb")
        text = page.read_text(encoding="utf-8")
        if page.suffix == ".ipynb":
            text = "".join(json.loads(text)["cells"][0]["source"])
        assert conf.sought(name, text).count("```{index} ! ") == len(headings)
        words += [word for each in headings.values() for word in each.split(", ")]
    assert len(words) == len(set(words))
    assert {"install", "quickstart", "softmax", "debug"} <= set(words)


def test_pictures_of_the_gallery_are_live_and_open_in_the_explorer(conf):
    blocks = re.findall(
        r"(?ms)^```{picture}.*?^```$", (DOCS / "gallery.md").read_text(encoding="utf-8")
    )
    assert len(blocks) > 10
    for block in blocks:
        shown = conf.filled(block)
        assert "<img alt=" in shown
        assert '<script type="application/json">' in shown
        (link,) = re.findall(r'href="\.\./explorer/index.html(.*?)"', shown)
        assert answer(state_of(unescape(link)))["scene"] is not None


def test_pages_are_made_by_one_program():
    other = "mk" + "docs"
    texts = {path: path.read_bytes().lower() for path in tracked_files()}
    assert [path.name for path, text in texts.items() if other.encode() in text] == []
