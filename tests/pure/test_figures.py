"""The figures of docs/figures.md: they are those of the committed results, and true to scale."""

import json
import re
import xml.etree.ElementTree as ET
from functools import cache
from math import log
from pathlib import Path
from statistics import median

import pytest

from benchmarks.gpu import figures
from benchmarks.gpu.users import RESULTS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "figures"
SVG = "{http://www.w3.org/2000/svg}"


@cache
def svg(name):
    return figures.FIGURES[name]()


def read(name):
    return json.loads((RESULTS / name).read_text())


def shapes(name, tag):
    return ET.fromstring(svg(name)).iter(f"{SVG}{tag}")


def drawn(name):
    """Return the bars of a figure: their label, class, begin and end."""
    found = []
    for group in shapes(name, "g"):
        title, label, bar, _ = group
        x, wide = float(bar.get("x")), float(bar.get("width"))
        found.append((label.text, bar.get("class"), x, x + wide, title.text))
    return found


@pytest.mark.parametrize("name", figures.FIGURES)
def test_the_files_are_drawn_from_the_results(name):
    command = "python -m benchmarks.gpu.figures --write docs/figures"
    assert (FOLDER / name).read_text(encoding="utf-8") == svg(name), command
    assert f"figures/{name})" in (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")


def test_there_are_no_other_figures():
    assert {path.name for path in FOLDER.iterdir()} == set(figures.FIGURES)


def ratios(name):
    """Return the ratios that the results give for the rows of a figure, in some order."""
    if name == "operators.svg":
        rows = [x for x in read("operators.json")["rows"] if not x["row"].startswith("host")]
        return [x["torch_us"] / x["ours_us"] for x in rows]
    if name == "attention.svg":
        rows = [x["rows"] for x in read("attention.json")["rows"] if len(x["rows"]) > 1]
        times = [{peer: row["burst us"] for peer, row in x.items()} for x in rows]
        return [min(us[peer] for peer in us if peer != "ours") / us["ours"] for us in times]
    us = {x["case"]: x["us"]["burst"] for x in read("hopper.json")}
    of_cases = {case: x["cuBLAS"] / x["ops.gemm"] for case, x in us.items() if "ops.gemm" in x}
    return [of_cases[case] for case in figures.PRODUCTS if case not in ("f32-1024",)]


@pytest.mark.parametrize("name", ["gemm.svg", "operators.svg", "attention.svg"])
def test_ratios_reach_from_one_on_a_logarithmic_scale(name):
    wanted = sorted(ratios(name) + ([ratios(name)[0]] if name == "gemm.svg" else []))
    found = drawn(name)
    one = {float(line.get("x1")) for line in shapes(name, "line")}
    (zero,) = one
    lengths = sorted(
        end - zero if kind == "win" else begin - zero for _, kind, begin, end, _ in found
    )
    assert len(lengths) == len(wanted)
    unit = (lengths[-1] - lengths[0]) / log(wanted[-1] / wanted[0])
    for length, ratio in zip(lengths, wanted, strict=True):
        assert length == pytest.approx(unit * log(ratio), abs=0.05)


def test_steps_reach_from_zero_in_proportion_to_their_speed():
    rows = read("ladder.json")["rows"]
    for dtype in ("f32", "f16"):
        speeds = {x["kernel"]: x["tflops"] for x in rows if x["dtype"] == dtype}
        most = max(speeds.values())
        bars = {label[:7]: end - begin for label, _, begin, end, _ in drawn("ladder.svg")}
        wide = figures.WIDE - figures.LEFT - figures.RIGHT
        for step, speed in speeds.items():
            if step != "torch":
                assert bars[step] == pytest.approx(wide * speed / most, abs=0.05)


def test_dots_are_the_random_products():
    found = list(shapes("random.svg", "circle"))
    rows = read("random.json")
    assert len(found) == len(rows) == 90
    for dot, row in zip(found, rows, strict=True):
        us = row["us"]["burst"]
        assert dot[0].text.startswith(f"{row['case']}: {us['cuBLAS'] / us['ops.gemm']:.2f}x")
        assert dot.get("class") == ("win" if us["cuBLAS"] >= us["ops.gemm"] else "loss")
    ups = [float(dot.get("cy")) for dot in found]
    speeds = [row["us"]["burst"]["cuBLAS"] / row["us"]["burst"]["ops.gemm"] for row in rows]
    assert sorted(range(90), key=ups.__getitem__) == sorted(range(90), key=lambda k: -speeds[k])


def test_predictions_are_those_that_the_page_speaks_of():
    """docs/model.md: how many random products the model holds for, and the ratios by size."""
    found = figures.judged()
    page = " ".join((ROOT / "docs" / "model.md").read_text(encoding="utf-8").split())
    assert sum("not valid" not in name for name, *_ in found) == 1
    assert "Of the ninety products of random sizes one is large enough" in page
    assert f"the median is {median(speed for *_, speed in found):.2f} of the prediction" in page
    by_size = {bar.label: bar for _, each in figures.modelled()[:1] for bar in each}
    assert by_size["5000^3, measured"].told == "0.74 of it"
    assert round(by_size["8192^3, measured"].value) == 829
    assert "829 TFLOP/s" in page
    gemm_04 = {bar.label: bar.value for _, each in figures.modelled()[1:] for bar in each}
    said, measured = (f"{gemm_04[f'4096^3, {what}']:.1f}" for what in ("predicted", "measured"))
    assert f"says {said} TFLOP/s at 4096^3, and {measured} are measured" in page


@pytest.mark.parametrize("name", figures.FIGURES)
def test_bars_begin_behind_their_labels(name):
    for label, _, begin, _, _ in drawn(name):
        assert begin >= figures.LEFT, label


@pytest.mark.parametrize("name", figures.FIGURES)
def test_nothing_leaves_the_picture(name):
    text = svg(name)
    root = ET.fromstring(text)
    _, _, wide, high = map(float, root.get("viewBox").split())
    for shape in root.iter():
        for key in ("x", "x1", "x2", "cx"):
            assert 0 <= float(shape.get(key, 0)) <= wide
        for key in ("y", "y1", "y2", "cy"):
            assert 0 <= float(shape.get(key, 0)) <= high
        if shape.tag == f"{SVG}text" and "end" in shape.get("class", ""):
            assert float(shape.get("x")) - 6.5 * len(shape.text) > -2, shape.text


@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_colour_has_a_dark_twin(name):
    style = re.search("<style>(.*?)</style>", svg(name), re.DOTALL)[1]
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    colours = r"(--\w+): (#\w+)"
    light, dark = dict(re.findall(colours, light)), dict(re.findall(colours, dark))
    assert light.keys() == dark.keys() == set(re.findall(r"var\((--\w+)\)", style))
    assert not set(light.values()) & set(dark.values())
    assert "#" not in svg(name).replace(style, "")  # no other colours
