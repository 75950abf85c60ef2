"""The pages of the explorer, its controls and its widget, without a browser."""

import base64
import gzip
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cute_py as cute
from cute_py.cli.main import main
from cute_py.explore import answer, state_of
from cute_py.explore.answers import FORMS
from cute_py.explore.controls import PRESETS, TILINGS, controls
from cute_py.explore.pages import (
    CDN,
    PYODIDE,
    RUNTIME,
    front_end,
    own,
    single,
    site,
    sources,
)
from cute_py.expression import evaluate, functions
from cute_py.viz.html import hashed, to_html
from tests.pure.test_explore_repairs import REPAIRED
from tests.sampling import each

STATES = [(f"{tab}: {name}", s) for tab, found in PRESETS.items() for name, s in found.items()]


@pytest.fixture(scope="module")
def data():
    return controls()


@pytest.fixture
def runtime(tmp_path):
    folder = tmp_path / "pyodide"
    folder.mkdir()
    for name in RUNTIME:
        (folder / name).write_bytes(f"the file {name}".encode())
    with zipfile.ZipFile(folder / "python_stdlib.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("os.py", "# the standard library")
    return folder


@each(STATES)
def test_presets_are_answered_with_a_picture(name, state):
    found = answer({"v": 1, **state})
    if name.endswith("a refusal"):
        assert found["error"]["repairs"]
    else:
        assert found["scene"]["panels"]


def test_controls_are_json_and_their_choices_have_values(data):
    assert json.loads(json.dumps(data)) == data
    for arch, kinds in data["atoms"].items():
        for kind, names in kinds.items():
            for name in names[:2] if kind == "mma" else names:
                assert evaluate(f"{kind}({name})"), arch
    for tiling in TILINGS["mma"]:
        assert evaluate(f"mma(SM80_16x8x8_F32F16F16F32_TN,{tiling})")
    for tiling in TILINGS["copy"]:
        assert evaluate(f"copy(DefaultCopy,{tiling})")
    assert "composition" in data["names"]
    assert data["slow"]["code"] == "explore-slow"


@pytest.mark.parametrize("form", ["svg", "latex", "python"])
def test_forms_of_a_value_are_texts(form):
    found = answer({"v": 1, "e": "(4,8):(8,1)", "by": "bank", "as": form})
    assert found["text"]
    if form == "python":
        compile(found["text"], "copied", "exec")
        assert "by='bank'" in found["text"]


@pytest.mark.parametrize(
    "state",
    [
        {"e": "4:1", "as": "png"},
        {"e": "4:1", "as": 5},
        {"e": "4:", "as": "svg"},
        {"e": "7", "as": "svg"},
    ],
)
def test_forms_that_do_not_exist_are_refused(state):
    assert answer({"v": 1, **state})["error"]["required"]


# -- pages


def embedded(html, name):
    found = re.search(f'<script type="application/gzip" id="{re.escape(name)}">([^<]*)<', html)
    return gzip.decompress(base64.b64decode(found[1]))


def unpacked(packed):
    archive = zipfile.ZipFile(io.BytesIO(packed))
    return {name: archive.read(name) for name in archive.namelist()}


def test_the_sources_are_a_zip_and_always_the_same():
    made = sources()
    assert made == sources()
    names = unpacked(made)
    assert {"cute_py/__init__.py", "cute_py/explore/answers.py", "cute_py/ops/wordings.py"} <= {
        *names
    }
    assert len(made) < 730_000


def test_the_sources_alone_answer_as_the_package(tmp_path):
    zipfile.ZipFile(io.BytesIO(sources())).extractall(tmp_path)
    links = (Path(__file__).parents[1] / "golden/links.txt").read_text().splitlines()
    asked = [state_of(link) for link in links[::3]]
    asked += [{"v": 1, "e": e} for e, _, _ in REPAIRED[::6]]
    asked += [{"v": 1, "e": f"{name}()"} for name in functions()]
    asked += [{"v": 1, "e": "4:1", "as": form} for form in FORMS]
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\nimport cute_py\n"
        "from cute_py.explore import answer\nassert cute_py.__file__.startswith(sys.argv[1])\n"
        "print(json.dumps([answer(state) for state in json.load(sys.stdin)]))"
    )
    run = [sys.executable, "-I", "-c", program, str(tmp_path)]
    found = subprocess.run(run, input=json.dumps(asked), capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [answer(state) for state in asked]


def test_one_file_has_the_runtime_and_no_address(runtime):
    html = single(runtime)
    for name in RUNTIME:
        given, content = (runtime / name).read_bytes(), embedded(html, name)
        if name.endswith(".zip"):
            given, content = unpacked(given), unpacked(content)
        assert content == given
    assert unpacked(embedded(html, "cute_py.zip")) == unpacked(sources())
    assert not re.search(r"https?://(?!runtime\.invalid/|www\.w3\.org/)", html)
    assert CDN in single(None)


def executed(html):
    """Return the scripts of a page that a browser would run."""
    return re.findall(r"<script>(.*?)</script>", html, re.DOTALL)


def policies(html):
    """Return the directives of a page's policy, which stands before all else that is loaded."""
    (found,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    assert html.index("Content-Security-Policy") < html.index("<title>")
    return dict(rule.split(" ", 1) for rule in found.split("; "))


def test_a_page_runs_its_own_script_alone(runtime):
    for html, more in (
        (single(runtime), ""),
        (single(None), f" {CDN}"),
        (dict(site(runtime))["index.html"].decode(), ""),
    ):
        rules = policies(html)
        (script,) = executed(html)
        assert rules["script-src"] == f"'{hashed(script.encode())}' blob: 'wasm-unsafe-eval'"
        assert rules["connect-src"] == f"'self' data: blob:{more}"
        assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    html = to_html(cute.Layout((4, 8), (8, 1)))
    (script,) = executed(html)
    assert policies(html)["script-src"] == f"'{hashed(script.encode())}'"


def test_each_file_of_the_runtime_has_its_hash(runtime):
    """Of a folder those of its files, from the CDN those of the npm package of this version."""
    for html, files in (
        (dict(site(runtime))["index.html"].decode(), {}),
        (single(None), RUNTIME),
        (dict(site(None))["index.html"].decode(), RUNTIME),
    ):
        (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
        found = json.loads(data)["files"]
        assert found == (files or {name: hashed((runtime / name).read_bytes()) for name in RUNTIME})
    assert all(re.fullmatch(r"sha384-[A-Za-z0-9+/]{64}", x) for x in RUNTIME.values())
    assert f"pyodide@{PYODIDE}/" in CDN


def test_the_site_is_a_folder_of_files(runtime, tmp_path, capsys):
    target = tmp_path / "site"
    assert main(["explore", "-o", str(target), "--runtime", str(runtime)]) == 0
    found = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert found == {"index.html", "cute_py.zip", *(f"pyodide/{name}" for name in RUNTIME)}
    assert (target / "index.html").read_bytes() == dict(site(runtime))["index.html"]
    assert len((target / "index.html").read_bytes()) < 335_000
    assert capsys.readouterr().out == ""


def test_a_folder_without_the_runtime_is_refused(tmp_path, capsys):
    target = tmp_path / "page.html"
    assert main(["explore", "-o", str(target), "--runtime", str(tmp_path)]) == 2
    assert "pyodide.mjs" in capsys.readouterr().err
    assert not target.exists()


def test_a_place_that_cannot_be_written_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["explore", "-o", str(tmp_path / "file" / "site")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_scripts_are_small_and_text_goes_through_text_content():
    sizes = {
        "explorer.js": 17_200,
        "links.js": 3_000,
        "choices.js": 2_800,
        "style.js": 6_500,
        "page.js": 5_000,
    }
    unsafe = r"innerHTML|insertAdjacent|document\.write|eval\(|[a-z]Storage|indexedDB|cookie"
    for name, most in {**sizes, "worker.js": 3_000, "widget.js": 1_000}.items():
        assert len(own(name)) < most
        assert not re.search(unsafe, own(name))
        assert "</script" not in own(name)
    assert "cutePyExplorer" in front_end()


# -- the widget


def test_the_widget_answers_in_the_kernel(monkeypatch):
    pytest.importorskip("anywidget")
    widget = cute.explore("(4,8):(8,1)")
    assert widget.link == "#v1&e=(4,8):(8,1)"
    sent = []
    monkeypatch.setattr(type(widget), "send", lambda self, content: sent.append(content))
    widget._answer(None, {"id": 7, "state": {"v": 1, "e": "4:2"}}, [])
    assert sent == [{"id": 7, "answer": answer({"v": 1, "e": "4:2"})}]


@pytest.mark.parametrize(
    ("x", "e"),
    [
        (cute.Layout((4, 8), (8, 1)), "(4,8):(8,1)"),
        (cute.Swizzle(2, 0, 3), "Sw<2,0,3>"),
        ("mma(SM61_DP4A)", "mma(SM61_DP4A)"),
    ],
)
def test_values_are_explored_by_their_text(x, e):
    from cute_py.explore.states import state_of
    from cute_py.explore.widget import _link

    assert state_of(_link(x))["e"] == e


def test_other_values_are_refused():
    with pytest.raises(cute.LayoutError, match="a layout, an atom"):
        cute.explore(2.5)


def test_a_missing_anywidget_is_refused_by_name(monkeypatch):
    from cute_py.explore import widget

    monkeypatch.setitem(sys.modules, "anywidget", None)
    widget._kind.cache_clear()
    with pytest.raises(cute.CuteError, match="anywidget") as found:
        cute.explore("4:1")
    assert found.value.code == "explore-anywidget"
