"""JupyterLab: the image of an untrusted notebook, and after a run the live picture and the
explorer, in two themes.

Only where CUTE_PY_JUPYTERLAB is set, as in .ci/browser: a server takes half a minute.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

import cute_py as cute
from cute_py.explore import widget
from cute_py.viz.html import fragment

PORT, TOKEN = 18899, "pictures"
SOURCE = "import cute_py as cute\ncute.make_tiled_mma('SM80_16x8x16_F32BF16BF16F32_TN', (2, 2, 1))"

pytestmark = pytest.mark.skipif(
    not os.environ.get("CUTE_PY_JUPYTERLAB"), reason="needs JupyterLab: .ci/browser runs it"
)


EXPLORED = "composition(Sw<3,0,3>,(8,8):(8,1))"


def notebook(source, data):
    """Return a notebook that has been run elsewhere, so that JupyterLab does not trust it."""
    output = {"output_type": "execute_result", "execution_count": 1, "data": data, "metadata": {}}
    cell = {"cell_type": "code", "id": "one", "execution_count": 1, "metadata": {}}
    cell |= {"source": source, "outputs": [output]}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    found = {"cells": [cell], "metadata": {"kernelspec": kernel}}
    return json.dumps({**found, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    settings = {"IdentityProvider.token": TOKEN, "ServerApp.allow_root": True}
    options = [f"--{name}={value}" for name, value in settings.items()]
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        f"--port={PORT}",
        "--port-retries=0",
    ]
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(folder / "config")}
    environment |= {"JUPYTERLAB_SETTINGS_DIR": str(folder / "config"), "HOME": str(folder)}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, *options, f"--notebook-dir={folder}"],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(
                    f"http://127.0.0.1:{PORT}/api?token={TOKEN}", timeout=5
                ).close()
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.5)
        yield folder
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(params=["Light", "Dark"])
def theme(request):
    return request.param


@pytest.fixture
def lab(server, browser, theme):
    """Open a notebook in a theme, untrusted: lab(source, data); then lab.run() runs its cell."""
    settings = server / "config/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True, exist_ok=True)
    chosen = json.dumps({"theme": f"JupyterLab {theme}"})
    (settings / "themes.jupyterlab-settings").write_text(chosen)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    home = (f"http://127.0.0.1:{PORT}/", "data:", "blob:")
    outside = []
    page.on("request", lambda r: r.url.startswith(home) or outside.append(r.url))

    def opened(source, data):
        (server / f"{theme}.ipynb").write_text(notebook(source, data))
        page.goto(f"http://127.0.0.1:{PORT}/doc/tree/{theme}.ipynb?token={TOKEN}&reset")
        image = page.locator(".jp-OutputArea-output img")
        image.wait_for(timeout=60_000)
        assert image.evaluate("x => x.complete && x.naturalWidth > 100")
        assert page.locator(".jp-OutputArea-output canvas").count() == 0
        assert not wide(page)
        started = "/[|] Idle/.test(document.querySelector('#jp-main-statusbar')?.innerText)"
        page.wait_for_function(started, timeout=60_000)
        page.locator(".jp-CodeCell").first.click()
        page.keyboard.press("Shift+Enter")
        page.locator(".jp-OutputArea-output canvas[tabindex]").first.wait_for(timeout=60_000)
        return page

    yield opened
    page.close()
    assert outside == []


def is_light(page, selector):
    """Return whether the text of an element is light."""
    colour = page.locator(selector).first.evaluate("x => getComputedStyle(x).color")
    return sum(map(int, colour[4:-1].split(","))) > 384


def test_an_untrusted_notebook_shows_the_image_and_a_run_the_live_picture(lab, theme):
    mma = cute.make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1))
    page = lab(SOURCE, {"text/html": fragment(mma), "text/plain": str(mma)})
    canvas = page.locator(".jp-OutputArea-output canvas[tabindex]")
    assert page.locator(".jp-OutputArea-output img").count() == 0
    assert not wide(page)
    canvas.first.hover(position={"x": 60, "y": 60})
    status = page.locator(".jp-OutputArea-output [role=status]")
    assert "index" in status.text_content()
    canvas.first.focus()
    before = status.text_content()
    page.keyboard.press("ArrowDown")
    assert status.text_content() != before
    assert is_light(page, ".cute-py > div > div") == (theme == "Dark")


# from a change of the text to the answer's value, with the 100 ms that typing pauses
TYPED = """([text, value]) => new Promise((resolve) => {
  const box = document.querySelector(".explorer textarea");
  const shown = document.querySelector(".explorer output");
  const begun = performance.now();
  new MutationObserver((_, observer) => {
    if (shown.textContent !== value) return;
    observer.disconnect();
    resolve(performance.now() - begun);
  }).observe(shown, { childList: true, characterData: true, subtree: true });
  box.value = text;
  box.dispatchEvent(new Event("input"));
})"""


def test_the_explorer_answers_typing_in_the_kernel(lab, theme):
    source = f"import cute_py as cute\ncute.explore({EXPLORED!r})"
    view = "application/vnd.jupyter.widget-view+json"
    saved = {view: {"version_major": 2, "version_minor": 1, "model_id": "gone"}}
    page = lab(source, {**saved, **widget._image(widget._link(EXPLORED)), "text/plain": "x"})
    assert page.locator(".explorer output").text_content() == str(
        cute.composition(cute.Swizzle(3, 0, 3), cute.Layout((8, 8), (8, 1)))
    )
    times = [
        page.evaluate(TYPED, [f"(4,{n}):({n},1) o 2:2", f"2:{2 * n}"]) for n in (8, 16, 32, 64)
    ]
    assert min(times) < 100 + 200, times
    assert not wide(page)
    assert is_light(page, ".explorer") == (theme == "Dark")
    assert is_light(page, ".explorer .cute-py > div > div") == (theme == "Dark")


def wide(page):
    """Return whether an output is wider than its pane."""
    return page.evaluate(
        """[...document.querySelectorAll('.jp-OutputArea-output')].some(
        (x) => x.scrollWidth > x.clientWidth + 1)"""
    )
