"""JupyterLab: the image of an untrusted notebook, and the live picture after a run, in two themes.

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
from cute_py.viz.html import fragment

PORT, TOKEN = 18899, "pictures"
SOURCE = "import cute_py as cute\ncute.make_tiled_mma('SM80_16x8x16_F32BF16BF16F32_TN', (2, 2, 1))"

pytestmark = pytest.mark.skipif(
    not os.environ.get("CUTE_PY_JUPYTERLAB"), reason="needs JupyterLab: .ci/browser runs it"
)


def notebook():
    """Return a notebook that has been run elsewhere, so that JupyterLab does not trust it."""
    mma = cute.make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1))
    data = {"text/html": fragment(mma), "text/plain": str(mma)}
    output = {"output_type": "execute_result", "execution_count": 1, "data": data, "metadata": {}}
    cell = {"cell_type": "code", "id": "one", "execution_count": 1, "metadata": {}}
    cell |= {"source": SOURCE, "outputs": [output]}
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


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_an_untrusted_notebook_shows_the_image_and_a_run_the_live_picture(server, browser, theme):
    (server / f"{theme}.ipynb").write_text(notebook())
    (server / "config" / "@jupyterlab" / "apputils-extension").mkdir(parents=True, exist_ok=True)
    chosen = json.dumps({"theme": f"JupyterLab {theme}"})
    (server / "config/@jupyterlab/apputils-extension/themes.jupyterlab-settings").write_text(chosen)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
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
    canvas = page.locator(".jp-OutputArea-output canvas[tabindex]")
    canvas.first.wait_for(timeout=60_000)
    assert page.locator(".jp-OutputArea-output img").count() == 0
    assert not wide(page)
    canvas.first.hover(position={"x": 60, "y": 60})
    status = page.locator(".jp-OutputArea-output [role=status]")
    assert "index" in status.text_content()
    canvas.first.focus()
    before = status.text_content()
    page.keyboard.press("ArrowDown")
    assert status.text_content() != before
    colour = page.locator(".cute-py > div > div").first.evaluate("x => getComputedStyle(x).color")
    assert (sum(map(int, colour[4:-1].split(","))) > 384) == (theme == "Dark")
    page.close()


def wide(page):
    """Return whether an output is wider than its pane."""
    return page.evaluate(
        """[...document.querySelectorAll('.jp-OutputArea-output')].some(
        (x) => x.scrollWidth > x.clientWidth + 1)"""
    )
