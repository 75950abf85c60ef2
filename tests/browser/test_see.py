"""The page of a kernel in a browser: what a line, a cell, a slider and the keys show."""

import re

import pytest

import cute_py as cute
from cute_py.kernels.samples import SAMPLES
from tests.browser.test_live_pictures import Panel
from tests.emulated.test_see import opened

# a part with threads and the whole of its elements, that the line of the part shows; and a tensor
# with a slider
LINES = {
    "gemm_06": ("tXsA", "sA", "tAgA", "k"),
    "gemm_11": ("acc", "sD", "sA", "stages"),
    "flash_attention": ("rQ", "sQ", "gK", "n"),
}


@pytest.fixture(scope="module", params=LINES)
def made(request):
    """Return a kernel's name and page, small and run on the emulator."""
    kind, call = SAMPLES[request.param]
    kernel, arguments = call((128, 128, 128), cute.dtype(kind))
    return request.param, cute.see(kernel, *arguments, run=True)


def shown(page, made, *names):
    """Click the line that makes the first name, and check the pictures of these names alone."""
    data = made[1].data
    rows = [next(k for k, x in enumerate(data["rows"]) if x["name"] == name) for name in names]
    statement = next(n for n, x in enumerate(data["statements"]) if rows[0] in x["rows"])
    part, at = next((k, x) for k, x in enumerate(data["source"]) if statement in x["at"])
    page.locator(f"#cute-see-1-{part}-{at['first'] + at['at'].index(statement)}").click()
    for box in page.locator(".rows input:enabled").all():
        box.set_checked(box.get_attribute("aria-label").removeprefix("picture of ") in names)
    specs = [panel for k in rows for panel in opened(data["pictures"][data["rows"][k]["picture"]])]
    canvases = page.locator(".detail canvas[tabindex]")
    for _ in range(100):
        labels = [x.get_attribute("aria-label").split()[0] for x in canvases.all()]
        if len(labels) == len(specs) and set(labels) == set(names):
            break
        page.wait_for_timeout(20)
    else:
        pytest.fail(f"{labels} of {len(specs)}")
    return [Panel(page, n, spec) for n, spec in enumerate(specs)]


def framed(panel, at=None):
    """Return the cells with a red edge, without those at and next to the cursor, which is wide."""
    corners = map(panel.corner, range(len(panel.spec["colour"])))
    red = panel.canvas.evaluate(
        """(over, [at, size]) => {
        const r = devicePixelRatio, { width, height } = over;
        const { data } = over.getContext("2d").getImageData(0, 0, width, height);
        const red = (x, y) => { const k = 4 * (Math.floor(y * r) * width + Math.floor(x * r));
          return data[k] > data[k + 1] + 64; };
        return at.flatMap(([x, y], k) => red(x + 1, y) || red(x + size - 1, y) ? [k] : []); }""",
        [[[int(x), int(y + panel.size / 2)] for x, y in corners], panel.size],
    )
    return set(red) - around(panel, at)


def around(panel, at):
    """Return the cells at and next to a cell."""
    rows = panel.spec["rows"]
    return set() if at is None else {at, at - 1, at + 1, at - rows, at + rows}


def test_hovering_lights_the_element_and_the_thread(open_page, made):
    name, held = made
    part, whole, *_ = LINES[name]
    page = open_page(held.to_html(), width=1200)
    first, second = shown(page, made, part, whole)
    k = len(first.spec["colour"]) // 3
    first.point(k)
    place = first.spec["places"][k]
    for panel, at in ((first, k), (second, None)):
        same = {n for n, p in enumerate(panel.spec["places"]) if p == place}
        assert framed(panel, at) == same - around(panel, at)
        assert same
    page.get_by_label("a cell lights").select_option("thread")
    (first,) = shown(page, made, part)
    first.point(k)
    threads = first.spec["thread"]
    same = {n for n, t in enumerate(threads) if t == threads[k]}
    assert framed(first, k) == same - around(first, k) != set()


def test_a_slider_the_keys_and_the_timeline(open_page, made):
    name, held = made
    *_, slides, slider = LINES[name]
    page = open_page(held.to_html(), width=1200)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    panels = shown(page, made, slides)
    for at in range(2):
        page.get_by_label(slider, exact=True).fill(str(at))
        assert [x.canvas.is_visible() for x in panels] == [n == at for n in range(len(panels))]

    source, heading = page.get_by_role("listbox"), page.locator(".detail h2")
    source.focus()
    source.press("Home")
    (chosen,) = page.locator("[role=option][aria-selected=true]").all()
    assert chosen.get_attribute("id") == source.get_attribute("aria-activedescendant")
    before = heading.text_content()
    source.press("ArrowDown")
    assert heading.text_content() != before

    events, said = held.data["events"], page.locator(".play output")
    page.get_by_label("event", exact=True).fill(f"{len(events) - 2}")
    assert said.text_content() == f"event {len(events) - 2}, {events[-2][0]}"
    page.get_by_role("button", name="play").click()
    page.get_by_role("button", name="play").wait_for()  # it was "pause" to the last event
    assert said.text_content() == f"event {len(events) - 1}, {events[-1][0]}"
    lines = [x["lines"][x["at"].index(events[-1][1])] for x in held.data["source"]
             if events[-1][1] in x["at"]]  # fmt: skip
    assert lines[0].strip() in page.locator(".now").first.text_content()


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_it_in_light_and_dark(open_page, made, dark):
    page = open_page(made[1].to_html(), dark=dark, width=390)
    page.locator(".detail canvas").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ink = page.locator(".see").evaluate("x => getComputedStyle(x).color")
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    light = [sum(map(int, re.findall(r"\d+", each)[:3])) > 384 for each in (ink, ground)]
    assert light == [dark, not dark]
