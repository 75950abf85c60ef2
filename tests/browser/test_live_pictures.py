"""Live pictures in a browser: what the pointer, the keys and a click show equals the layout."""

import json
import random
import re

import pytest

import cute_py as cute
from cute_py import Layout, analysis, viz
from cute_py.atoms.copy import Copy_Atom
from cute_py.viz.html import fragment, script, to_html
from cute_py.viz.picture import COLOURS
from tests.pure.test_viz_html import VALUES
from tests.pure.test_viz_scenes import numbers

ATOM = "SM80_16x8x16_F32BF16BF16F32_TN"
TALL = 16  # pixels above the cells of a panel


class Panel:
    """A panel of the page: where its cells are, and what is drawn there."""

    def __init__(self, page, number, spec):
        self.page, self.spec, self.number = page, spec, number
        self.canvas = page.locator("canvas[tabindex]").nth(number)
        wide, high = (
            float(self.canvas.evaluate(f"x => x.style.{s}")[:-2]) for s in ("width", "height")
        )
        self.size = (high - TALL - 2) / spec["rows"]
        self.left = wide - 2 - self.size * spec["columns"]

    def corner(self, k):
        i, j = (
            divmod(k, self.spec["columns"])
            if self.spec["across"]
            else divmod(k, self.spec["rows"])[::-1]
        )
        return self.left + j * self.size, TALL + i * self.size

    def point(self, k, click=False):
        """Point at the middle of a cell, and return what the page says."""
        x, y = (place + self.size / 2 for place in self.corner(k))
        act = self.canvas.click if click else self.canvas.hover
        act(position={"x": x, "y": y})
        return said(self.page)

    def lit(self):
        """Return the cells that are drawn in their plain colour, not hatched."""
        probes = [
            [round(x + 2), round(y + 2)]
            for x, y in map(self.corner, range(len(self.spec["colour"])))
        ]
        pixels = self.canvas.evaluate(
            """(over, probes) => { const c = over.previousSibling.getContext('2d');
            return probes.map(([x, y]) => [...c.getImageData(x, y, 1, 1).data]); }""",
            probes,
        )
        plain = [[*bytes.fromhex(COLOURS[c][0]), 255] for c in self.spec["colour"]]
        return {k for k, pixel in enumerate(pixels) if pixel == plain[k]}


def said(page):
    return page.locator("[role=status]").first.text_content()


def opened(open_page, x, **options):
    """Open a picture; return the page, and its panels."""
    page = open_page(to_html(x), **options)
    return page, [Panel(page, n, spec) for n, spec in enumerate(viz.scene(x)["panels"])]


# -- every kind of picture


@pytest.mark.parametrize("name", VALUES)
def test_the_live_picture_replaces_the_image(open_page, name):
    page, panels = opened(open_page, VALUES[name])
    assert page.locator(".cute-py > img").count() == 0
    assert page.locator("canvas").count() == 2 * len(panels)
    assert page.evaluate("document.querySelectorAll('*').length") < 60 + 12 * len(panels)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# -- the pointer and the keys

LAYOUTS = {
    "nested": Layout((8, (4, 2)), (8, (1, 4))),
    "swizzled": cute.composition(cute.Swizzle(3, 0, 3), Layout((8, 8), (8, 1))),
    "line": Layout(40, 3),
    "slabs": Layout((4, 4, 3), (1, 12, 4)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_pointer_reads_what_the_layout_says(open_page, name):
    layout = LAYOUTS[name]
    _, panels = opened(open_page, layout)
    shuffled = random.Random(20)
    for panel in panels:
        for k in shuffled.sample(range(len(panel.spec["colour"])), 4):
            index = panel.spec["start"] + k
            text = panel.point(k)
            coordinate = cute.idx2crd(index, layout.shape)
            offset = layout(index)
            assert f"{coordinate}".replace(" ", "") in text.replace(
                "(" + str(index) + ")", str(index)
            )
            assert (
                f"index {index}, offset {offset}, byte {2 * offset}, bank {offset // 2 % 32}"
                in text
            )


def test_arrow_keys_move_the_cursor_and_stop_at_the_border(open_page):
    page, (panel,) = opened(open_page, Layout((4, 8), (8, 1)))
    panel.canvas.focus()
    for keys, offset in (
        ("", 0),
        ("ArrowRight ArrowRight ArrowDown", 10),
        ("ArrowUp ArrowUp", 2),
        ("End", 7),
        ("ArrowRight", 7),
        ("Home", 0),
    ):
        for key in keys.split():
            page.keyboard.press(key)
        assert f"offset {offset}," in said(page)


def test_keys_zoom(open_page):
    page, (panel,) = opened(open_page, Layout((4, 8)))
    panel.canvas.focus()
    page.keyboard.press("+")
    assert Panel(page, 0, panel.spec).size > panel.size
    page.keyboard.press("0")
    assert Panel(page, 0, panel.spec).size == panel.size


# -- a click

MMA = cute.make_tiled_mma(ATOM, (2, 2, 1))


@pytest.mark.parametrize("x", [ATOM, MMA], ids=["atom", "tiled"])
@pytest.mark.parametrize("by", ["click", "Enter"])
def test_a_click_lights_the_cells_of_a_thread_in_all_panels(open_page, x, by):
    page, panels = opened(open_page, x)
    mma = x if x is MMA else cute.make_tiled_mma(x)
    chosen = panels[2]  # C
    assert all(len(panel.lit()) == len(panel.spec["colour"]) for panel in panels)
    if by == "click":
        text = chosen.point(37, click=True)
    else:
        chosen.point(37)
        chosen.canvas.focus()
        page.keyboard.press("Enter")
        text = said(page)
    thread = int(re.search(r"Selected T(\d+)", text)[1])
    for panel in panels:
        tv = getattr(mma, f"get_layout{panel.spec['title'][0]}_TV")()
        assert panel.lit() == {tv(thread, v) for v in range(cute.size(tv, 1))}
    page.keyboard.press("Escape")
    assert all(len(panel.lit()) == len(panel.spec["colour"]) for panel in panels)


def test_clicks_on_a_shared_cell_go_from_thread_to_thread(open_page):
    _, panels = opened(open_page, MMA)
    a = panels[1]
    held = numbers(a.spec["threads"][a.spec["thread"][0]])
    assert len(held) > 1
    for thread in held:
        assert f"Selected T{thread}:" in a.point(0, click=True)
    assert "Selected" not in a.point(0, click=True)


def test_linked_pictures_read_the_same_element(open_page):
    a, b = Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))
    r = cute.composition(a, b)
    _, panels = opened(open_page, cute.show(b, r))
    for k in (0, 5, 11):
        assert f"offset {b(k)}," in panels[0].point(k)
        assert f"{r}: offset {r(k)}," in panels[0].point(k)
        panels[1].point(k)


# -- the kinds that are not grids of a layout


def test_why_opens_step_by_step(open_page):
    made = cute.zipped_divide(cute.flatten(Layout((8, (2, 3)))), (4, 2, 1))
    page = open_page(f"<!doctype html>{fragment(made.why())}")
    assert page.locator("canvas[tabindex]:visible").count() == 1
    page.locator("summary").nth(1).click()
    page.wait_for_function("document.querySelectorAll('canvas[tabindex]').length > 1")


def test_a_replay_goes_phase_by_phase(open_page):
    report = analysis.bank_conflicts([8 * lane for lane in range(32)], bits=64)
    page, panels = opened(open_page, report)
    assert page.locator("canvas[tabindex]:visible").count() == 1
    assert "lane 0, bank 0: word 0" in panels[0].point(0)
    page.locator("input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("output").text_content() == "2 of 2"
    panels[1].canvas.focus()
    assert "lane 16, bank 0: word 32" in said(page)


# -- themes, and bad input


def lightness(page):
    colour = page.locator(".cute-py > div > div").first.evaluate("x => getComputedStyle(x).color")
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


@pytest.mark.parametrize(
    ("body", "scheme", "dark"),
    [
        ("", "light", False),
        ("", "dark", True),
        ('data-jp-theme-light="true"', "dark", False),
        ('data-jp-theme-light="false"', "light", True),
        ('class="vscode-dark"', "light", True),
        ('class="vscode-light"', "dark", False),
        ('class="vscode-high-contrast"', "light", True),
        ('class="vscode-high-contrast-light"', "dark", False),
    ],
)
def test_the_theme_is_the_notebooks_or_else_the_systems(open_page, body, scheme, dark):
    page = open_page(f"<!doctype html><body {body}>{fragment(Layout(4))}", dark=scheme == "dark")
    assert (lightness(page) > 384) == dark


def test_the_theme_may_change(open_page):
    html = f'<!doctype html><body data-jp-theme-light="true">{fragment(Layout(4))}'
    page = open_page(html)
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    page.wait_for_timeout(50)
    assert lightness(page) > 384


@pytest.mark.parametrize(
    "title",
    ["<script>window.bad = 1</script>", "<img src=x onerror='window.bad = 1'>", "\"&']]>-->"],
)
def test_titles_are_text(open_page, title):
    odd = viz.Picture(title, viz.picture_of(Layout(4)).grids)
    page = open_page(to_html(odd))
    assert page.evaluate("window.bad") is None
    assert title in page.locator(".cute-py").first.inner_text()


def test_a_scene_of_a_later_version_says_so(open_page):
    later = json.dumps({**viz.scene(Layout(4)), "v": 2})
    page = open_page(
        f"<!doctype html><div id=host></div><script>{script()}cutePy(host, {later})</script>"
    )
    assert "needs a newer cute_py" in page.locator("#host").inner_text()


def test_wide_pictures_stay_in_the_pane(open_page):
    copy = cute.make_tiled_copy(
        Copy_Atom("UniversalCopy<128>", 16), Layout((16, 8), (8, 1)), Layout((1, 8))
    )
    page, _ = opened(open_page, copy, width=600)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# -- speed


HOVER = """() => {
  const over = document.querySelector('canvas[tabindex]'), box = over.getBoundingClientRect();
  const found = [];
  for (let n = 0; n < 100; n++) {
    const start = performance.now();
    const at = { clientX: box.left + 60 + 5 * n, clientY: box.top + 60 + 4 * n };
    over.dispatchEvent(new PointerEvent('pointermove', at));
    over.getContext('2d').getImageData(0, 0, 1, 1); // what was drawn is there
    found.push(performance.now() - start);
  }
  return found.sort((a, b) => a - b);
}"""


def test_the_pointer_is_answered_within_16_ms_at_128_by_128(open_page):
    page, (panel,) = opened(open_page, Layout((128, 128), (128, 1)))
    panel.point(0)
    milliseconds = page.evaluate(HOVER)
    assert milliseconds[90] <= 16


# -- choices: a picture for each combination


def chosen(open_page, found, **options):
    return open_page(f'<meta charset="utf-8">{found._repr_html_()}', **options)


def test_a_slider_and_a_menu_choose_the_picture(open_page):
    tiles = [(2, 2), (4, 1), (0, 1)]
    found = cute.interact("zipped_divide((4,n):(n,1), tile)", n=range(4, 7, 2), tile=tiles)
    page = chosen(open_page, found)
    page.locator("canvas").first.wait_for()
    assert page.locator("img").count() == 0

    def shown():
        return page.locator("[role=status]").first.text_content()

    assert shown() == "zipped_divide((4,4):(4,1), (2,2))"
    page.get_by_label("n", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert shown() == "zipped_divide((4,6):(6,1), (2,2))"
    page.get_by_label("tile").select_option("(4,1)")
    assert shown() == found.frames[4][0]
    panel = viz.scene(cute.zipped_divide(Layout((4, 6), (6, 1)), (4, 1)))["panels"][0]
    canvas = Panel(page, 0, panel)
    canvas.canvas.hover(position=dict(zip("xy", (z + 4 for z in canvas.corner(5)), strict=True)))
    page.get_by_text(f"index 5, offset {panel['offset'][5]},").wait_for()
    page.get_by_label("tile").select_option("(0,1)")
    page.get_by_text("required: ").wait_for()
    assert page.locator("canvas").count() == 0


def test_a_selection_stays_from_picture_to_picture(open_page):
    page = chosen(open_page, cute.interact("(4,4):(s,1)", s=[4, 5]))
    page.locator("canvas[tabindex]").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Selected O0: 1 cells").wait_for()
    plain = chosen(open_page, cute.interact("(4,4):(s,1)", s=[4, 5]))
    for each in (page, plain):
        each.get_by_label("s", exact=True).focus()
        each.keyboard.press("ArrowRight")
    pixels = [
        each.locator("canvas").first.evaluate(
            "x => [...x.getContext('2d').getImageData(0, 0, x.width, x.height).data].join()"
        )
        for each in (page, plain)
    ]
    assert pixels[0] != pixels[1]  # the other cells are hatched


def test_pictures_with_and_without_choices_share_a_page(open_page):
    """Also where scripts run late, and look for all that is on the page, as in JupyterLab."""
    html = cute.interact("(4,n):(n,1)", n=[4, 5])._repr_html_() + fragment(Layout((2, 2)))
    page = open_page(f'<meta charset="utf-8">{html}')
    page.locator("canvas").nth(3).wait_for()
    late = open_page('<meta charset="utf-8"><div id="host"></div>')
    late.evaluate(
        """html => {
        const host = document.getElementById("host");
        host.innerHTML = html;
        for (const old of host.querySelectorAll("script:not([type])")) {
          const made = document.createElement("script");
          made.type = "module"; // such a script is no document.currentScript
          made.textContent = old.textContent;
          old.replaceWith(made);
        }
      }""",
        html,
    )
    late.locator("canvas").nth(3).wait_for()
    assert late.locator("img").count() == 0


def test_the_image_stays_where_a_browser_unpacks_nothing(browser, tmp_path):
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    (tmp_path / "x.html").write_text(cute.interact("(4,n):(n,1)", n=[4, 5])._repr_html_())
    page.goto((tmp_path / "x.html").as_uri())
    assert page.locator("img").count() == 1
    page.close()
