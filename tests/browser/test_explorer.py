"""The explorer in a browser: as a widget, whose kernel is this process, and as pages with their own
Python, from a folder and from one file.

The pages need the npm package pyodide: the folder CUTE_PY_PYODIDE, or what npm fetches where
CUTE_PY_EXPLORER is set, as in .ci/browser.
"""

import base64
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

import cute_py as cute
from cute_py.cli.explore_command import Local
from cute_py.cli.main import main
from cute_py.explore import answer, link_of, state_of
from cute_py.explore.controls import PRESETS, controls
from cute_py.explore.pages import PYODIDE, RUNTIME, front_end, own
from cute_py.explore.patterns import PATTERNS
from cute_py.explore.states import PLAIN
from cute_py.viz.html import hashed
from tests.pure.test_explore_pasted import cpp_latex, cpp_table

LINKS = (Path(__file__).parents[1] / "golden/links.txt").read_text().splitlines()
SHA512 = "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
REFUSED = "composition((6,2):(1,7),(3,2):(2,3))"


def value(page):
    return page.locator("output.value").text_content()


def wait_for_value(page, text, timeout=10_000):
    page.locator("output.value", has_text=re.compile(f"^{re.escape(text)}$")).wait_for(
        timeout=timeout
    )


def type_in(page, text):
    page.get_by_label("expression").fill(text)


# -- the front end, answered by this process

HOST = """<!doctype html><div id="host"></div><script type="module">
const handlers = [], model = {
  values: { data: DATA, link: LINK },
  get(name) { return this.values[name]; },
  set(name, value) { this.values[name] = value; },
  save_changes() {},
  on(name, f) { handlers.push(f); },
  off() {},
  send({ id, state }) {
    window.kernel(JSON.stringify(state)).then((text) => {
      for (const f of handlers) f({ id, answer: JSON.parse(text) });
    });
  },
};
window.model = model;
SCRIPT
</script>"""


@pytest.fixture
def widget(browser, tmp_path):
    """Open the widget: widget(link, kernel=answer); return the page and the states asked."""
    pages, errors = [], []

    def opened(link="", kernel=answer):
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.on("pageerror", lambda error: errors.append(str(error)))
        states = []

        def asked(text):
            states.append(json.loads(text))
            return json.dumps(kernel(states[-1]))

        page.expose_function("kernel", asked)
        script = f"{front_end()}\n{own('widget.js')}".replace("export default {", "const made = {")
        data = json.dumps(json.dumps(controls())).replace("<", "\\u003c")
        html = HOST.replace("DATA", data).replace("LINK", json.dumps(link).replace("<", "\\u003c"))
        render = "\nmade.render({ model, el: document.getElementById('host') });"
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(html.replace("SCRIPT", script + render), encoding="utf-8")
        pages.append(page)
        page.goto(path.as_uri())
        return page, states

    yield opened
    for page in pages:
        page.close()
    assert not errors


def test_typing_is_answered_and_the_link_follows(widget):
    page, states = widget()
    type_in(page, "(4,8):(8,1)")
    wait_for_value(page, "(4,8):(8,1)")
    assert page.evaluate("model.values.link") == "#v1&e=(4,8):(8,1)"
    asked = len(states)
    box = page.get_by_label("expression")
    box.focus()
    page.keyboard.type(" o 4:2")
    wait_for_value(page, "(2,2):(16,1)")
    assert len(states) < asked + 4  # a pause of 100 ms, not each key


def test_links_open_as_in_python(widget):
    page, states = widget(LINKS[2])
    wait_for_value(page, answer(state_of(LINKS[2]))["value"])
    assert states[-1] == {**PLAIN, **state_of(LINKS[2])}


@pytest.mark.parametrize("link", ["#v2&e=4:1", "#v1&e=%", "#v1&e=%E4%", "#v1&e=4:1&bits=x", "#x"])
def test_broken_links_are_refused_in_words(widget, link):
    page, _ = widget(link)
    page.locator(".refused dd").first.wait_for()
    assert "required" in page.locator(".refused").inner_text()


@pytest.mark.parametrize("link", ["#v1&e=4:1&bits=-5", "#v1&e=4:1&bits=x", "#v1&e=4:1&bits=0"])
def test_a_bad_link_is_repaired_by_the_next_entry(widget, link):
    page, states = widget(link)
    page.locator(".refused dd").first.wait_for()
    type_in(page, "(4,8):(8,1)")
    wait_for_value(page, "(4,8):(8,1)")
    assert not page.locator(".refused").is_visible()
    assert states[-1] == {**PLAIN, "e": "(4,8):(8,1)"}
    assert page.evaluate("model.values.link") == "#v1&e=(4,8):(8,1)"


def test_a_shape_is_drawn_and_its_strides_are_offered(widget):
    page, _ = widget("#v1&e=(4,8)")
    wait_for_value(page, "(4,8)")
    page.locator("canvas").first.wait_for()
    page.locator(".hinted").get_by_role("button", name="(4,8):(8,1)").click()
    wait_for_value(page, "(4,8):(8,1)")
    assert not page.locator(".hinted").is_visible()


def test_symbols_get_numbers(widget):
    page, _ = widget("#v1&e=(M,8):(8,1)")
    wait_for_value(page, "(M,8):(8,1)")
    page.locator(".hinted button").first.click()
    wait_for_value(page, "(8,8):(8,1)")
    page.locator("canvas").first.wait_for()


COPY = """() => {
  window.copied = [];
  navigator.clipboard.writeText = async (text) => { window.copied.push(text); };
}"""


def test_a_shared_link_shows_before_there_is_an_answer(widget):
    e = "zipped_divide((12,8):(8,1),(4,2))"  # no preset
    page, _ = widget(link_of({"v": 1, "e": e}))
    made = answer({"v": 1, "e": e})["value"]
    wait_for_value(page, made)
    page.evaluate(COPY)
    page.get_by_role("button", name="copy link").click()
    page.wait_for_function("window.copied.length")
    link = page.evaluate("window.copied[0]")
    assert 100 < len(link) < 8000
    assert state_of(link) == {"v": 1, "e": e}
    other, _ = widget(link, kernel=lambda state: None)
    wait_for_value(other, made)
    other.locator("canvas").nth(1).wait_for()
    assert other.get_by_label("expression").input_value() == e


@pytest.mark.parametrize("data", ["", "zzz", "eJw", "_" * 500, "q1YqVbIyrAUA"])
def test_data_of_a_link_that_is_none_does_no_harm(widget, data):
    page, _ = widget(f"#v1&e=(4,8):(8,1)&d={data}")
    wait_for_value(page, "(4,8):(8,1)")
    assert not page.locator(".refused").is_visible()


def test_python_is_copied_as_calls(widget):
    page, _ = widget("#v1&e=zipped_divide((8,8):(8,1),(4,2))")
    page.evaluate(COPY)
    page.get_by_role("button", name="copy Python").click()
    page.wait_for_function("window.copied.length")
    assert "cute.zipped_divide(cute.Layout((8, 8), (8, 1)), (4, 2))" in page.evaluate("copied[0]")


def test_a_panel_lists_the_notation_the_functions_and_the_version(widget):
    page, _ = widget()
    page.get_by_text("notation, functions, version").click()
    panel = page.locator(".about")
    panel.get_by_text(f"cute_py {cute.__version__}").wait_for()
    rows = panel.locator("dl").nth(1).locator("dt")
    assert rows.count() == len(controls()["functions"])
    page.get_by_label("functions", exact=True).fill("blocked_prod")
    assert rows.all_text_contents() == ["blocked_product"]
    rows.get_by_role("button").click()
    assert page.get_by_label("expression").input_value() == "blocked_product("
    e = controls()["notation"][0][0]
    panel.get_by_role("button", name=e, exact=True).click()
    wait_for_value(page, answer({"v": 1, "e": e})["value"])


# the colour of the middle of the first cell
PIXEL = """() => {
  const canvas = document.querySelector(".cute-py canvas"), c = canvas.getContext("2d");
  return [...c.getImageData(canvas.width / 2 + 3, canvas.height / 2 + 3, 9, 9).data].join();
}"""


@pytest.mark.parametrize("sel", ["zzz", "T5", "O", "E-1", "O99999999999"])
def test_a_selection_that_does_not_exist_selects_nothing(widget, sel):
    page, _ = widget("#v1&e=(4,8):(8,1)")
    wait_for_value(page, "(4,8):(8,1)")
    page.locator("canvas").first.wait_for()
    plain = page.evaluate(PIXEL)
    other, _ = widget(f"#v1&e=(4,8):(8,1)&sel={sel}")
    wait_for_value(other, "(4,8):(8,1)")
    other.locator("canvas").first.wait_for()
    assert other.evaluate(PIXEL) == plain


@pytest.mark.parametrize("text", ["<script>window.bad=1</script>", "\"&']]>", "(4,8", "x" * 9000])
def test_bad_text_is_refused_in_words(widget, text):
    page, _ = widget()
    type_in(page, text)
    page.locator(".refused dd").first.wait_for()
    assert page.evaluate("window.bad") is None


def test_a_repair_is_a_button(widget):
    page, _ = widget(link_of({"v": 1, "e": REFUSED}))
    button = page.locator(".refused button").first
    repair = button.text_content()
    button.click()
    wait_for_value(page, answer({"v": 1, "e": repair})["value"])
    assert page.get_by_label("expression").input_value() == repair
    assert not page.locator(".refused").is_visible()


def test_names_are_completed(widget):
    page, _ = widget()
    box = page.get_by_label("expression")
    box.fill("")
    box.press_sequentially("blocked_p")
    page.locator("[role=option]").first.wait_for()
    page.keyboard.press("Tab")
    assert box.input_value() == "blocked_product"


def test_sliders_move_integers(widget):
    page, _ = widget("#v1&e=(4,8):(8,1)")
    slider = page.get_by_label("integer 1", exact=True)
    slider.focus()
    page.keyboard.press("ArrowRight")
    wait_for_value(page, "(5,8):(8,1)")
    assert page.locator(".sliders input").count() == 4


def test_swizzles_atoms_and_tilings(widget):
    page, _ = widget("#v1&e=(8,8):(8,1)")
    page.get_by_label("B", exact=True).fill("3")
    page.get_by_label("S", exact=True).fill("3")
    wait_for_value(page, "Sw<3,0,3> o 0 o (8,8):(8,1)")
    page.get_by_label("atoms of").select_option("sm_61")
    page.get_by_label("atom", exact=True).select_option("mma(SM61_DP4A)")
    page.locator("canvas").first.wait_for()
    page.get_by_label("tiling").select_option("(2,2,1)")
    wait_for_value(page, answer({"v": 1, "e": "mma(SM61_DP4A,(2,2,1))"})["value"])
    assert page.get_by_label("atom", exact=True).input_value() == "mma(SM61_DP4A)"
    assert page.get_by_label("tiling").input_value() == "(2,2,1)"


def test_a_click_selects_and_the_link_keeps_it(widget):
    page, _ = widget("#v1&e=mma(SM80_16x8x8_F32F16F16F32_TN)")
    page.locator("canvas[tabindex]").first.click(position={"x": 60, "y": 60})
    page.wait_for_function("/&sel=T\\d/.test(model.values.link)")


def test_operands_are_linked_to_the_result(widget):
    e = "composition((6,2):(8,2),(4,3):(3,1))"
    page, _ = widget(link_of({"v": 1, "e": e}))
    panels = answer({"v": 1, "e": e})["operands"]["panels"]
    canvases = page.locator("canvas[tabindex]")
    canvases.nth(2).wait_for()
    canvases.nth(1).focus()  # cell 0 of b
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    key = panels[1]["keys"][1]
    count = sum(panel["keys"].count(key) for panel in panels)
    said = page.locator(".cute-py [role=status]").text_content()
    assert f"Selected O{key}: {count} cells" in said
    assert f"offset {panels[1]['offset'][1]}," in said
    assert "a = (6,2):(8,2): offset 24" in said
    page.wait_for_function(f"model.values.link.endsWith('&sel=O{key}')")


def test_cells_show_values_indices_or_coordinates(widget):
    page, _ = widget("#v1&e=(2,(2,2)):(4,(1,2))")
    wait_for_value(page, "(2,(2,2)):(4,(1,2))")
    page.evaluate(
        """() => {
        window.texts = new Set();
        const draw = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
          window.texts.add(text);
          return draw.call(this, text, ...place);
        };
      }"""
    )
    for choice, shown in (("index", "7"), ("coordinate", "(1,3)")):
        page.get_by_label("cells show").select_option(choice)
        page.wait_for_function("text => window.texts.has(text)", arg=shown)
        assert page.evaluate("model.values.link").endswith(f"&cells={choice}")


@pytest.mark.parametrize("tab", PRESETS)
def test_presets_are_behind_their_tabs(widget, tab):
    page, _ = widget()
    page.get_by_role("tab", name=tab).click()
    assert page.locator(".chips button").all_text_contents() == [*PRESETS[tab]]
    name, state = [*PRESETS[tab].items()][-2]
    page.get_by_role("button", name=name, exact=True).click()
    wait_for_value(page, answer({"v": 1, **state})["value"])
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")


PASTE = """text => {
  const box = document.querySelector("textarea[aria-label=expression]");
  box.value = text;
  box.dispatchEvent(new InputEvent("input", { inputType: "insertFromPaste" }));
}"""


@pytest.mark.parametrize(
    ("text", "e"),
    [
        ("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)", "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        (cpp_table(cute.Layout((4, 8), (8, 1)), "(_4,_8):(_8,_1)"), "(4,8):(8,1)"),
        (cpp_latex(cute.Layout((4, 8), (8, 1)), ""), "(4,8):(8,1)"),
        ("MMA_Atom<cute::SM80_16x8x8_F32F16F16F32_TN>", "mma(SM80_16x8x8_F32F16F16F32_TN)"),
        ("size((2,3))", "size((2,3))"),
    ],
)
def test_what_is_pasted_becomes_an_expression(widget, text, e):
    page, _ = widget()
    page.evaluate(PASTE, text)
    wait_for_value(page, answer({"v": 1, "e": e})["value"])
    assert page.get_by_label("expression").input_value() == e
    assert state_of(page.evaluate("model.values.link"))["e"] == e


def test_offsets_find_their_layout_or_the_first_that_departs(widget):
    page, _ = widget()
    page.get_by_text("Which layout has these offsets?").click()
    box = page.get_by_label("offsets, a line for each row")
    box.fill("0 4 1 5\n8 12 9 13")
    wait_for_value(page, "(2,(2,2)):(8,(4,1))")
    assert page.get_by_label("expression").input_value() == "(2,(2,2)):(8,(4,1))"
    box.fill("0 1 2 9")
    page.locator(".refused", has_text="up to index 3, where the table has 9").wait_for()
    page.locator(".refused button").first.click()
    wait_for_value(page, answer({"v": 1, "e": "fit((0,1,2,3))"})["value"])


def test_a_tile_shape_is_a_choice(widget):
    page, _ = widget("#v1&e=(8,8):(8,1)")
    wait_for_value(page, "(8,8):(8,1)")
    tile = page.get_by_label("tile", exact=True)
    tile.select_option("(4,2)")
    e = "zipped_divide((8,8):(8,1),(4,2))"
    wait_for_value(page, answer({"v": 1, "e": e})["value"])
    assert page.get_by_label("expression").input_value() == e
    assert tile.input_value() == e
    tile.select_option("(2,2)")  # another tile, not a tile of the tiles
    wait_for_value(page, answer({"v": 1, "e": "zipped_divide((8,8):(8,1),(2,2))"})["value"])
    type_in(page, "size((2,3))")
    wait_for_value(page, "6")
    assert tile.is_disabled()


def test_before_and_after_stay_next_to_each_other(widget):
    page, _ = widget("#v1&e=(4,8):(8,1)")
    wait_for_value(page, "(4,8):(8,1)")
    page.get_by_label("before and after").check()
    page.get_by_label("integer 3", exact=True).focus()
    page.keyboard.press("ArrowLeft")
    wait_for_value(page, "(4,8):(7,1)")
    page.get_by_text("(4,8):(8,1) to (4,8):(7,1): 24 of 32 elements moved").wait_for()
    assert page.locator(".result canvas[tabindex]").count() == 2
    link = page.evaluate("model.values.link")
    assert state_of(link) == {"v": 1, "e": "(4,8):(7,1)", "was": "(4,8):(8,1)"}
    other, _ = widget(link)
    other.get_by_text("24 of 32 elements moved").wait_for()
    assert other.get_by_label("before and after").is_checked()
    other.get_by_label("before and after").uncheck()
    other.wait_for_function("!model.values.link.includes('was=')")


def test_each_pattern_opens_with_its_explanation(widget):
    page, _ = widget()
    page.get_by_role("tab", name="patterns").click()
    assert page.locator(".chips button").all_text_contents() == [*PATTERNS]
    for name in [*PATTERNS][::3]:
        state, says = PATTERNS[name]
        page.get_by_role("button", name=name, exact=True).click()
        wait_for_value(page, answer({"v": 1, **state})["value"])
        assert page.locator(".hinted").inner_text() == says
    type_in(page, "4:1")
    wait_for_value(page, "4:1")
    assert not page.locator(".hinted").is_visible()


def test_what_is_not_drawn_says_why(widget):
    page, _ = widget("#v1&e=(1000,1000)")
    type_in(page, "(1000,1000):(1000,1)")
    page.get_by_text("No picture. Required: at most 32768 cells").wait_for()


@pytest.mark.parametrize("form", ["SVG", "LaTeX", "Python", "link"])
def test_forms_are_copied(widget, form):
    page, _ = widget("#v1&e=(4,8):(8,1)&by=bank")
    page.get_by_role("button", name=f"copy {form}").click()
    page.wait_for_function("/^Copied/.test(document.querySelector('.status').textContent)")


def test_presets_are_there_before_python(widget):
    page, _ = widget(kernel=lambda state: None)
    page.locator("canvas").first.wait_for()
    page.get_by_role("button", name="TiledMMA").click()
    e = PRESETS["start here"]["TiledMMA"]["e"]
    wait_for_value(page, answer({"v": 1, "e": e})["value"])


def test_the_page_of_the_command_is_answered_by_its_process(browser):
    with Local() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda r: r.url.startswith(server.address) or errors.append(r.url))
        page.goto(f"{server.address}#v1&e=(7,3):(3,1)")
        wait_for_value(page, "(7,3):(3,1)", timeout=3_000)
        type_in(page, "size((7,(3,2)))")
        wait_for_value(page, "42")
        type_in(page, "(4,8")
        page.locator(".refused dd").first.wait_for()
        server.shutdown()
        server.server_close()
        type_in(page, "(5,5):(5,1)")
        page.locator(".refused", has_text="start it again").wait_for()
        page.close()
        assert not errors


# -- pages with their own Python


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    named = os.environ.get("CUTE_PY_PYODIDE")
    if named:
        return Path(named)
    if not os.environ.get("CUTE_PY_EXPLORER"):
        pytest.skip("needs the npm package pyodide: .ci/browser fetches it")
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    folder = tmp_path_factory.mktemp("pyodide")
    command = ["npm", "pack", f"pyodide@{PYODIDE}", "--silent"]
    try:
        subprocess.run(command, cwd=folder, check=True, timeout=300, capture_output=True)
    except (subprocess.SubprocessError, OSError):
        pytest.skip("the npm package pyodide is out of reach")
    archive = folder / f"pyodide-{PYODIDE}.tgz"
    assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == SHA512
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package"


def test_the_runtime_has_the_hashes_that_pages_ask_for(runtime):
    assert {name: hashed((runtime / name).read_bytes()) for name in RUNTIME} == RUNTIME


@contextmanager
def served(folder):
    """Serve a folder; yield its address."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(quiet, directory=folder)
    ) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session", params=["folder", "file"])
def explorer(request, runtime, tmp_path_factory):
    """Return the address of the explorer, and whether it is one file."""
    folder = tmp_path_factory.mktemp("explorer")
    if request.param == "file":
        target = folder / "page.html"
        assert main(["explore", "-o", str(target), "--runtime", str(runtime)]) == 0
        assert target.stat().st_size < 9_300_000
        yield target.as_uri(), True
        return
    assert main(["explore", "-o", str(folder), "--runtime", str(runtime)]) == 0
    with served(folder) as address:
        yield address, False


@pytest.fixture(scope="session")
def ready(explorer, browser):
    """Open the explorer once; return the page, its address, and all requests."""
    address, is_file = explorer
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    errors, requests = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    page.locator("canvas").first.wait_for(timeout=10_000)  # the preset, before Python
    # a page with a Content-Security-Policy evaluates no text, so wait_for_function cannot look
    page.locator("html[data-python=ready]").wait_for(timeout=120_000)
    yield page, address
    page.close()
    assert not errors
    home = ("file:", "data:", "blob:") if is_file else (address, "data:", "blob:")
    assert [url for url in requests if not url.startswith(home)] == []


def go_to(page, link):
    page.evaluate("link => { location.hash = link; }", link)


def test_every_golden_link_opens_in_the_page(ready):
    page, _ = ready
    for link in LINKS:
        go_to(page, link)
        wait_for_value(page, answer(state_of(link))["value"], timeout=30_000)
        assert not page.locator(".refused").is_visible()


def test_the_page_answers_typing_sliders_and_repairs(ready):
    page, _ = ready
    type_in(page, "offsets((4,8):(8,1))")
    wait_for_value(page, answer({"v": 1, "e": "offsets((4,8):(8,1))"})["value"], timeout=30_000)
    type_in(page, "(4,8):(8,1)")
    wait_for_value(page, "(4,8):(8,1)")
    page.get_by_label("integer 1", exact=True).focus()
    page.keyboard.press("ArrowRight")
    wait_for_value(page, "(5,8):(8,1)")
    type_in(page, REFUSED)
    button = page.locator(".refused button").first
    repair = button.text_content()
    button.click()
    wait_for_value(page, answer({"v": 1, "e": repair})["value"])
    assert state_of("#" + page.url.partition("#")[2])["e"] == repair


def test_the_history_of_the_browser_has_the_steps(ready):
    page, _ = ready
    for e in ("(2,3):(3,1)", "(3,4):(4,1)"):
        page.evaluate("document.querySelector('.explorer textarea').value = ''")
        box = page.get_by_label("expression")
        box.fill(e)
        box.press("Enter")
        wait_for_value(page, e)
    page.go_back()
    wait_for_value(page, "(2,3):(3,1)")
    assert page.get_by_label("expression").input_value() == "(2,3):(3,1)"
    page.go_forward()
    wait_for_value(page, "(3,4):(4,1)")


def processor_seconds():
    """Return the processor time of all processes that this one started, and that still run."""
    times, children = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # has ended
            fields = file.read_text().rpartition(")")[2].split()
            own = int(file.parent.name)
            children.setdefault(int(fields[1]), []).append(own)
            times[own] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    found = [os.getpid()]
    for process in found:
        found += children.get(process, [])
    return sum(times.get(process, 0) for process in found[1:])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads times from /proc")
def test_the_first_answer_takes_seconds(explorer, browser):
    """At most 3 s of two processors: 1.8 s of one thread, and the compiler of the runtime next to
    it. How long that takes depends on what else the machine does.
    """
    address, _ = explorer
    page, before = browser.new_page(), processor_seconds()
    page.goto(f"{address}#v1&e=(7,3):(3,1)")
    wait_for_value(page, "(7,3):(3,1)", timeout=60_000)
    assert processor_seconds() - before < 6
    page.close()


def test_a_slow_expression_ends_the_worker_and_the_next_is_answered(ready):
    page, _ = ready
    page.locator("html[data-spare=ready]").wait_for(timeout=60_000)
    copy = "copy(UniversalCopy<8>,(16,2):(2,1),(1,8),bits=8)"
    type_in(page, f"suggest_smem_layout((128,64),8,1,{copy})")
    page.locator(".refused", has_text="after 2 s").wait_for(timeout=30_000)
    type_in(page, "(3,5):(5,1)")
    wait_for_value(page, "(3,5):(5,1)", timeout=2_000)  # a worker takes 5 s to start


def test_the_file_needs_neither_storage_nor_its_address(explorer, browser, tmp_path):
    address, is_file = explorer
    if not is_file:
        pytest.skip("a frame without an origin may not load other files")
    link = "#v1&e=(7,3):(3,1)"
    (tmp_path / "frame.html").write_text(
        f'<iframe sandbox="allow-scripts" src="{address}{link}"></iframe>'
    )
    page = browser.new_page()
    page.goto((tmp_path / "frame.html").as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("[data-python=ready]").wait_for(timeout=120_000)
    frame.get_by_label("expression").fill("(4,8):(8,1)")
    frame.locator("output.value", has_text="(4,8):(8,1)").wait_for(timeout=10_000)
    page.close()


def test_a_reload_opens_the_same_state(ready):
    page, _ = ready
    go_to(page, "#v1&e=(7,3):(3,1)&by=bank")
    wait_for_value(page, "(7,3):(3,1)")
    page.reload()
    wait_for_value(page, "(7,3):(3,1)", timeout=120_000)
    assert page.get_by_label("colour by").input_value() == "bank"


def test_a_file_of_the_runtime_with_another_hash_is_refused(runtime, browser, tmp_path):
    """As from a CDN that was broken into; and the page runs no script but its own."""
    assert main(["explore", "-o", str(tmp_path), "--runtime", str(runtime)]) == 0
    changed = tmp_path / "pyodide" / "pyodide.mjs"
    changed.write_bytes(changed.read_bytes() + b"\n// changed\n")
    with served(tmp_path) as address:
        page = browser.new_page()
        page.goto(address)
        page.get_by_text("Python did not start").wait_for(timeout=30_000)
        page.evaluate(
            """() => {
            const script = document.createElement("script");
            script.textContent = "window.injected = true";
            document.body.append(script);
        }"""
        )
        assert not page.evaluate("window.injected")
        page.close()
