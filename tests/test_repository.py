"""Facts about the repository itself: one command, light imports, complete tables, own words."""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
import warnings
from collections import Counter
from itertools import chain
from pathlib import Path
from string import Formatter

import pytest

import cute_py
from cute_py.errors import WORDINGS
from tests.refusals.rows import rows
from tests.sampling import check_each, each

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Rows of the feature inventory by area; docs/coverage.md has one line for each.
ROWS = (19, 11, 20, 13, 14, 31, 15, 20, 20, 15, 34, 13, 27, 19, 24)
AREAS = dict(zip("ABCDEFGHIJKLMNO", ROWS, strict=True))


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def tracked_files():
    """Return the files that belong to the repository, ignored and deleted ones left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


# -- one command


def test_ci_runs_the_test_command_of_the_readme():
    """It installs with the first part of the command, and tests with the last one."""
    commands = re.findall(r"^python3 -m venv .*pytest .*$", read("README.md"), re.MULTILINE)
    assert len(commands) == 1
    script = read(".ci/run")
    taken = script[script.index("command=") : script.index("logs=")]
    done = subprocess.run(
        ["bash", "-ec", taken + 'printf "%s\n" "$install" "$tests"'],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    install, tests = done.stdout.splitlines()
    assert f"{install} && {tests}" == commands[0]
    assert tests.startswith(".venv/bin/python -m pytest ")
    assert 'bash -ec "$install"' in script
    assert 'bash -c "$tests"' in script


def needs_the_installed_package():
    """Skip where cute_py is found by its path alone: what is asked is what pip has kept of it."""
    try:
        importlib.metadata.version("cute-py")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("cute-py is not installed: pip install -e .")


def test_console_script_is_installed():
    needs_the_installed_package()
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="cute-py")
    assert script.value == PROJECT["project"]["scripts"]["cute-py"] == "cute_py.cli.main:main"
    assert callable(script.load())


def test_package_is_typed():
    assert (ROOT / "cute_py" / "py.typed").is_file()


def test_base_install_has_no_platform_bound_dependency():
    names = {re.split(r"[^\w-]", each)[0] for each in PROJECT["project"]["dependencies"]}
    assert names == {"numpy", "ml_dtypes", "sympy", "rich"}
    for requirement in PROJECT["project"]["optional-dependencies"]["cuda"]:
        assert requirement.endswith("; sys_platform == 'linux'")


def test_the_version_is_the_newest_release_of_the_changelog():
    releases = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", read("CHANGELOG.md"), re.MULTILINE)
    assert releases[0][0] == cute_py.__version__
    assert releases == sorted(releases, key=lambda each: each[1], reverse=True)


# -- light imports

LOADED = """
import json, sys
before = set(sys.modules)
{statements}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def modules_loaded_by(statements):
    """Return the modules that `statements` load in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(statements=statements)],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def third_party(modules):
    known = sys.stdlib_module_names | {"cute_py"}
    return sorted({name.partition(".")[0] for name in modules} - known)


def test_import_loads_only_the_standard_library():
    modules = modules_loaded_by(
        "import cute_py\n"
        "cute_py.composition(cute_py.Layout((6, 2), (8, 2)), cute_py.Layout((4, 3), (3, 1)))"
    )
    assert "cute_py.layout" in modules
    assert third_party(modules) == []


def test_import_stays_clear_of_slow_standard_modules():
    modules = modules_loaded_by("import cute_py\ncute_py.Layout((4, 8), (8, 1))")
    slow = {"dataclasses", "inspect", "typing", "ast", "dis", "tokenize", "unittest", "asyncio"}
    assert slow.isdisjoint(modules)


def test_torch_is_not_needed_but_named():
    """Without it the package can be imported, and names say what they need."""
    modules = modules_loaded_by(
        "sys.modules['torch'] = None\n"
        "import cute_py, cute_py.torch, numpy\n"
        "cute_py.ops.gemm(numpy.ones((2, 2), 'f4'), numpy.ones((2, 2), 'f4'))\n"
        "try: cute_py.torch.Linear\n"
        "except AttributeError as error: assert 'pip install' in str(error)\n"
        "else: raise AssertionError"
    )
    assert "cute_py.torch" in modules
    assert not any(name.startswith(("torch.", "cute_py.torch.")) for name in modules)


def modules_below(package):
    """Return the dotted names of all modules of a package of cute_py, or of the one module."""
    single = ROOT / "cute_py" / f"{package}.py"
    files = [single] if single.is_file() else (ROOT / "cute_py" / package).rglob("*.py")
    parts = (file.relative_to(ROOT).with_suffix("").parts for file in files)
    return sorted(".".join(part for part in each if part != "__init__") for each in parts)


@pytest.mark.parametrize(
    "package",
    [
        *(
            "records",
            "lazy",
            "errors",
            "cutlass2",
            "dtypes",
            "integers",
            "layout",
            "tensor",
            "host",
            "atoms",
            "tiled",
        ),
        *("plan", "calls", "trace"),
    ],
)
def test_no_module_of_the_lower_layers_needs_third_parties_to_load(package):
    names = modules_below(package)
    if not names:
        pytest.skip(f"cute_py.{package} is still to come")
    assert third_party(modules_loaded_by("\n".join(f"import {name}" for name in names))) == []


# -- complete tables


def coverage_rows():
    """Return the table cells of docs/coverage.md, one list per row of the inventory."""
    lines = read("docs/coverage.md").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in rows if re.fullmatch(r"[A-O]\d\d", row[0])]


def test_coverage_lists_every_row_of_the_inventory_once():
    expected = [f"{area}{n:02}" for area, count in AREAS.items() for n in range(1, count + 1)]
    assert len(expected) == 295
    assert [row[0] for row in coverage_rows()] == expected


def test_coverage_counts_its_rows():
    states = [row[2] for row in coverage_rows()]
    works, partly, planned = (states.count(state) for state in ("works", "partly", "planned"))
    assert works + partly + planned == 295
    claim = f"Today {works} rows work, {partly} work in part, {planned} are planned."
    assert claim in read("docs/coverage.md")


def test_coverage_names_a_test_for_what_works_and_none_for_what_is_planned():
    wrong = [row[0] for row in coverage_rows() if (row[2] == "planned") != (row[4] == "")]
    assert wrong == []


def test_coverage_says_what_is_missing_where_a_row_does_not_work():
    wrong = [row[0] for row in coverage_rows() if (row[2] == "works") == ("missing: " in row[3])]
    assert wrong == []


@each([row for row in coverage_rows() if row[2] != "planned"], name=lambda row: row[0])
def test_coverage_row_names_what_exists(row):
    _, _, _, where, tested_by = row
    missing = [
        path for path in re.findall(r"`([\w./]+/[\w./]+)`", where) if not (ROOT / path).exists()
    ]
    assert missing == []
    tests = re.findall(r"`(tests/[\w./]+)(?:::(\w+))?`", tested_by)
    assert tests
    for file, test in tests:
        assert f"def {test}" in read(file), f"{file} has no {test}"


def phrases(code):
    """Return every three words in a row that a wording's own text holds."""
    literals = (text for part in WORDINGS[code][1:] for text, *_ in Formatter().parse(part))
    words = (literal.split() for literal in literals)
    return {" ".join(each[i : i + 3]) for each in words for i in range(len(each) - 2)}


def quoted():
    """Return the text of all tests, and `said(phrase)`: whether it holds these three words."""
    texts = "".join(read(path) for path in sorted((ROOT / "tests").rglob("test_*.py")))
    words = " ".join(texts.replace("\\", "").split())
    return texts, words.__contains__


def test_every_wording_is_matched_by_a_test():
    """A row has calls that are refused with it; or else a test names the code, or quotes three
    words that no other wording has.
    """
    texts, said = quoted()
    of_code = {code: phrases(code) for code in WORDINGS}
    times = Counter(chain.from_iterable(of_code.values()))

    def check(code):
        own = (phrase for phrase in of_code[code] if times[phrase] == 1)
        assert rows()[code].wrong or f'"{code}"' in texts or any(map(said, own))

    check_each(check, WORDINGS)


# -- words that belong elsewhere

# Absolute paths of one machine, and hosts of package registries; spelled to pass its own test.
FOREIGN = re.compile(
    r"(?<![\w.~])/(?:work|root|tmp|home|farm)/|[p]ypi\.(?:org|nvidia)|files\.[p]ythonhosted"
)


def test_text_files_speak_of_the_project_alone():
    found = []
    for path in tracked_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # compressed golden data
            continue
        found += [
            f"{path.relative_to(ROOT)}:{n}"
            for n, text in enumerate(lines, 1)
            if FOREIGN.search(text)
        ]
    assert found == []


# -- the test groups


@pytest.fixture
def small_suite(tmp_path):
    """Return `run(*options)`: pytest's output over a tiny suite with this project's settings."""
    tests = tmp_path / "tests"
    (tests / "gpu").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        read("pyproject.toml").replace('testpaths = ["cute_py", "tests"]', 'testpaths = ["tests"]')
    )
    (tests / "conftest.py").write_text(read("tests/conftest.py"))
    (tests / "gpu" / "test_gpu.py").write_text("def test_needs_gpu():\n    assert False\n")
    (tests / "torch").mkdir()
    (tests / "torch" / "test_torch.py").write_text("def test_torch():\n    assert True\n")
    (tests / "test_long.py").write_text(
        "import subprocess, sys, time\n"
        "TEXT = 'import time\\nwhile time.process_time() < 0.1: pass'\n"
        "def test_long():\n    end = time.process_time() + 0.1\n"
        "    while time.process_time() < end: pass\n"
        "def test_process():\n    subprocess.run([sys.executable, '-c', TEXT], check=True)\n"
        "def test_sleeps():\n    time.sleep(0.1)\n"
    )
    (tests / "test_any.py").write_text(
        "import pytest\n"
        "@pytest.mark.slow\ndef test_slow():\n    assert True\n"
        "def test_golden(golden):\n    golden('a.txt', 'text')\n"
    )

    # with CI set, pytest's summary repeats whole messages
    plain = {name: value for name, value in os.environ.items() if name != "CI"}

    def run(*options):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
            cwd=tmp_path,
            env=plain | {"CUDA_VISIBLE_DEVICES": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            encoding="utf-8",
        )
        return done.stdout + done.stderr

    return run


def test_a_test_of_torch_is_skipped_without_it(small_suite):
    report = small_suite("tests/torch")
    assert ("1 passed" in report) == (importlib.util.find_spec("torch") is not None)
    assert ("needs torch" in report) == (importlib.util.find_spec("torch") is None)


def test_a_test_that_takes_long_fails(small_suite):
    """Of processor time: to sleep takes none, to wait for a process takes that process's."""
    report = small_suite("tests/test_long.py", "--seconds=0.03")
    assert "2 failed, 1 passed" in report
    said = r"took 0\.\d\d s of processor time.*takes at most 0\.03 s: split it"
    assert len(re.findall(said, report)) == 2


def test_a_slow_test_may_take_long(small_suite):
    assert "3 passed" in small_suite("tests/test_long.py", "--seconds=0.03", "--slow")


def test_warnings_are_errors_but_for_those_of_the_compilers():
    def warn(module, kind=DeprecationWarning):
        text = "k: 8 bytes per thread spill to local memory on sm_80"
        warnings.warn_explicit(text, kind, "file.py", 1, module=module)

    for module in ("numba.cuda.np.npdatetime_helpers", "llvmlite.ir", "cuda.bindings.driver"):
        warn(module)
    for module in ("cute_py.layout", "cudax", "numpy", "tests.model"):
        with pytest.raises(DeprecationWarning):
            warn(module)
    with pytest.raises(RuntimeWarning):
        warn("cute_py.codegen.launch.run", RuntimeWarning)


def test_gpu_tests_skip_slow_ones_wait_and_golden_files_are_compared(small_suite):
    report = small_suite("tests/gpu", "tests/test_any.py")
    assert "no NVIDIA GPU on this machine" in report
    assert "pytest --update-golden writes it" in report
    assert "1 failed, 1 skipped, 1 deselected" in report


@pytest.mark.parametrize("option", [(), ("--hangs=0.5",)])
def test_a_gpu_test_that_hangs_ends_its_process(tmp_path, monkeypatch, request, option):
    """After the least of what it says and what the option says."""
    monkeypatch.setenv("CUTE_PY_GPU_DRY", "sm_90a")
    run = request.getfixturevalue("small_suite")
    marker = "" if option else "@pytest.mark.hangs(0.5)\n"
    (tmp_path / "tests" / "gpu" / "test_gpu.py").write_text(
        f"import pytest, time\n{marker}def test_hangs():\n    time.sleep(60)\n"
    )
    report = run("tests/gpu", *option)
    assert "Timeout (0:00:00.500000)!" in report
    assert "in test_hangs" in report
    assert "passed" not in report


def test_slow_tests_run_and_golden_files_are_written_where_that_is_said(small_suite):
    options = ("--slow", "--update-golden", "-m", "pure")
    assert "2 passed, 1 deselected" in small_suite("tests/gpu", "tests/test_any.py", *options)
    assert "1 passed, 1 skipped, 1 deselected" in small_suite("tests/gpu", "tests/test_any.py")
