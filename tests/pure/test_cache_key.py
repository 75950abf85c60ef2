"""The key of a compiled kernel names all that the kernel depends on."""

import shutil
from dataclasses import replace

import pytest

import cute_py as cute
from cute_py.atoms.mma import MMA_Atom
from cute_py.codegen.cache import key as cache_key
from cute_py.codegen.cache.key import canonical, compiler, key_of, tools, version
from cute_py.integers.symbols import sym
from cute_py.plan.walk import every
from tests.fake_kernels import ROOT, answer, small_plan

PLANS = ("multistage", "transpose")


def read(name):
    return cute.Plan.load(ROOT / "tests" / "golden" / "plans" / f"{name}.json")


def key(plan, arch="sm_80", **options):
    return key_of(plan, arch, options)


@pytest.mark.parametrize("name", PLANS)
def test_key_is_one_for_equal_plans(name):
    plan = read(name)
    assert plan is not read(name)
    assert key(plan) == key(read(name))
    assert len(key(plan)) == 64


@pytest.mark.parametrize("name", PLANS)
def test_key_is_one_in_all_processes(name):
    text = (
        "import sys; from cute_py import Plan; from cute_py.codegen.cache.key import key_of\n"
        "print(key_of(Plan.load(sys.argv[1]), 'sm_80', {}))"
    )
    path = ROOT / "tests" / "golden" / "plans" / f"{name}.json"
    seeds = {answer(text, str(path), PYTHONHASHSEED=seed) for seed in "012"}
    assert seeds == {key(read(name))}


def test_key_names_constants_architecture_and_options():
    plan = small_plan(1.0)
    others = [
        key(small_plan(2.0)),
        key(small_plan(-1.0)),
        key(small_plan(1.0), "sm_90a"),
        key(small_plan(1.0), spill_bytes=0),
        key(small_plan(1.0), spill_bytes=8),
        key(replace(plan, name="other")),
        key(replace(plan, launch=replace(plan.launch, block=(64, 1, 1)))),
        key(plan),
    ]
    assert None not in others
    assert len(set(others)) == len(others)


def test_key_names_source_lines():
    """Plans that differ in lines alone are equal; their sources are not."""
    plan = small_plan()
    moved = replace(plan, body=tuple(replace(op, line=("other.py", 1)) for op in plan.body))
    assert moved == plan
    assert key(moved) != key(plan)


def test_canonical_tells_numbers_apart():
    values = (0, 0.0, -0.0, False, "0", None, (0,), ((0,),), (), sym("n"), "n", float("nan"))
    assert len({canonical(value) for value in values}) == len(values)


def test_canonical_tells_the_bounds_of_symbols():
    sizes = [sym("n"), sym("n", min=0), sym("n", max=64), sym("n", multiple_of=2), sym("m")]
    assert len({canonical(each) for each in sizes}) == len(sizes)
    assert canonical(sym("n") * 2 + 1) == canonical(1 + sym("n") + sym("n"))


def test_canonical_names_the_instruction_of_an_atom():
    """A row of the user's own may have the name of another, and other text."""
    (atom, *_) = [op.atom for op in every(read("multistage").body) if hasattr(op, "atom")]
    changed = object.__new__(type(atom))
    names = MMA_Atom.__slots__ if isinstance(atom, MMA_Atom) else type(atom).__slots__
    for name in names:
        object.__setattr__(changed, name, getattr(atom, name))
    assert canonical(changed) == canonical(atom)
    object.__setattr__(changed, "ptx", "trap;")
    assert str(changed) == str(atom)
    assert canonical(changed) != canonical(atom)


def test_a_plan_with_foreign_parts_has_no_key():
    with pytest.raises(TypeError):
        canonical((1, object()))
    assert key(replace(small_plan(), name=["a list"])) is None


# -- the compilers


@pytest.fixture
def fresh_tools():
    tools.cache_clear()
    yield
    tools.cache_clear()


@pytest.mark.parametrize("package", cache_key.PACKAGES)
def test_key_names_versions(monkeypatch, fresh_tools, package):
    before = key(small_plan())
    tools.cache_clear()
    monkeypatch.setattr(cache_key, "version", lambda n: "99" if n == package else version(n))
    assert key(small_plan()) != before


def test_key_names_ptxas_and_nvvm(monkeypatch, fresh_tools, tmp_path):
    """A file of another size or time is another compiler."""
    found = set()
    tool = tmp_path / "tool"
    for which in ("_ptxas", "_nvvm"):
        monkeypatch.setattr(cache_key, which, lambda: [str(tool)])
        for text in ("one", "three"):
            tool.write_text(text)
            tools.cache_clear()
            found.add(key(small_plan()))
    assert len(found) == 4


def test_key_names_settings_of_numba(monkeypatch, fresh_tools):
    before = key(small_plan())
    tools.cache_clear()
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert key(small_plan()) != before


def test_version_is_that_of_the_package(tmp_path, monkeypatch):
    from importlib.metadata import version as installed

    assert version("hypothesis") == installed("hypothesis")
    assert version("no_such_package") == "none"
    (tmp_path / "alone.py").write_text("")
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "__init__.py").write_text("")
    (tmp_path / "packed-1.2.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert version("packed") == "1.2"
    assert str(tmp_path / "alone.py") in version("alone")


# -- cute_py itself


def test_key_names_the_sources_of_the_compiler(tmp_path):
    text = (
        "from pathlib import Path; import cute_py.codegen\n"
        "from cute_py.codegen.cache.key import compiler\n"
        "print(compiler())\n"
        "path = Path(cute_py.codegen.__file__).with_name('build.py')\n"
        "path.write_text(path.read_text() + '# changed while it is used\\n')\n"
        "print(compiler())"
    )
    shutil.copytree(ROOT / "cute_py", tmp_path / "cute_py")
    first, then = answer(text, root=tmp_path).split()
    assert first == compiler()
    assert then == "None"  # which text is loaded cannot be told any more
    assert answer(text, root=tmp_path).split()[0] != first


@pytest.mark.parametrize("folder", ["no_such_folder", "codegen/__pycache__"])
def test_without_sources_there_is_no_key(monkeypatch, folder):
    """A package of compiled modules alone does not tell when it changes."""
    monkeypatch.setattr(cache_key, "ROOT", cache_key.ROOT / folder)
    assert key(small_plan()) is None
    cache_key._loaded.cache_clear()
    assert key(small_plan()) is None


def test_modules_that_changed_after_they_were_loaded_give_no_key(monkeypatch):
    """What runs may then be the old text, whose kernels must not go under the new text's key."""
    assert cache_key.compiler() is not None
    newest = max(changed for _path, _size, changed in cache_key._signature())
    monkeypatch.setattr(cute, "_loaded_at", newest)
    assert cache_key.compiler() is None
