"""A browser that is there, and pages of HTML in it. Nothing is downloaded.

After CUTE_PY_BROWSER_SECONDS, if that is set, the tests that are left are skipped: `.ci/run` has
little time for them, and `.ci/browser` runs them all.
"""

import os
import shutil
from time import monotonic

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# no sandbox: tests may run as root; the others keep a browser without a network quiet
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")


def chromium():
    """Return the path of a Chromium, or None; CUTE_PY_CHROMIUM may name one."""
    named = os.environ.get("CUTE_PY_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def started_at():
    return monotonic()


@pytest.fixture(autouse=True)
def _in_time(started_at):
    limit = float(os.environ.get("CUTE_PY_BROWSER_SECONDS", "inf"))
    if monotonic() - started_at > limit:
        pytest.skip(f"the {limit:.0f} s of tests with a browser are over: .ci/browser runs all")


@pytest.fixture(scope="session")
def browser():
    path = chromium()
    if path is None:
        pytest.skip("needs Chromium: .ci/browser installs it")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra `browser`")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open HTML as a file: open_page(html, dark=False, width=960)."""
    pages, errors = [], []

    def opened(html, dark=False, width=960):
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(html, encoding="utf-8")
        scheme = "dark" if dark else "light"
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda r: r.url.startswith(("file:", "data:")) or errors.append(r.url))
        pages.append(page)
        page.goto(path.as_uri())
        return page

    yield opened
    for page in pages:
        page.close()
    assert not errors
