"""A kernel that is called again after what it takes from outside has changed gives the result of a
fresh kernel: on the emulator, and at known calls on a GPU.
"""

import logging
import sys
import types
import typing

import numpy as np
import pytest

import cute_py as cute
from cute_py.calls.fingerprint import static_key
from cute_py.calls.fingerprint.dependencies import Dependencies
from cute_py.kernels.samples import SAMPLES
from tests.emulated.captures import LOOKED_AT, WATCHED
from tests.fake_gpu import Array, install
from tests.sampling import each

CASES = {**WATCHED, **LOOKED_AT}
USUAL = (
    "from dataclasses import dataclass, field\nfrom enum import Enum, IntEnum\n"
    "import numpy as np\nimport cute_py as cute\nGIVEN = ()\n"
)
KERNEL = "def function(x, d=1):\n    cute.launch(grid={0}, block=32)\n    x[0] = {0}\n"


@pytest.fixture
def module(monkeypatch):
    """Return a module in which a kernel takes a value from outside, as in a notebook."""
    for name in ("notebook", "config"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    return sys.modules["notebook"]


def started(module, name):
    """Run what is there before; return the kernel, and the change."""
    before, value, change = CASES[name]
    scope = vars(module)
    exec(USUAL + before, scope)
    exec(KERNEL.format(value), scope)
    scope["kernel"] = cute.kernel(scope["function"])
    return scope["kernel"], lambda: exec(change, scope)


def result(kernel, module):
    """Return what a kernel writes on the emulator."""
    x = np.zeros(32, np.int32)
    kernel(x, *module.GIVEN)
    return int(x[0])


@pytest.mark.parametrize("name", CASES)
def test_a_changed_capture_gives_the_result_of_a_fresh_kernel(module, name):
    kernel, change = started(module, name)
    assert [result(kernel, module) for _ in range(3)] == [1, 1, 1]
    assert len(kernel.plans) == 1
    change()
    assert result(cute.kernel(kernel.function), module) == 2
    assert [result(kernel, module) for _ in range(3)] == [2, 2, 2]
    assert len(kernel.plans) == 2


@pytest.mark.parametrize("name", CASES)
def test_a_changed_capture_is_noticed_at_known_calls(module, name, monkeypatch):
    gpu = install(monkeypatch)
    kernel, change = started(module, name)
    x = Array((1000,), np.int32)
    for _ in range(3):
        kernel(x, *module.GIVEN)
    known = sum(len(signature.entries) for signature in kernel.calls().kept.values())
    assert known == (name in WATCHED)
    assert not known or kernel.calls().replay((x, *module.GIVEN))
    change()
    kernel(x, *module.GIVEN)
    kernel(x, *module.GIVEN)
    assert [launch[1][0] for launch in gpu.raw.launches] == [1] * (3 + known) + [2, 2]
    assert len(kernel.plans) == 2


def test_a_changed_cell_of_the_kernel_is_noticed():
    n = 1

    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        x[0] = n

    x = np.zeros(32, np.int32)
    found = []
    for n in (1, 2, 1):  # noqa: B007  (the kernel's cell)
        kernel(x)
        found.append(int(x[0]))
    assert found == [1, 2, 1]
    assert len(kernel.plans) == 2


def test_what_the_code_does_not_name_is_no_part_of_a_plan(module):
    kernel, _change = started(module, "class attribute")
    assert result(kernel, module) == 1
    module.C.other = module.unread = 5
    assert result(kernel, module) == 1
    assert len(kernel.plans) == 1


@pytest.mark.parametrize("name", SAMPLES)
def test_kernels_of_the_library_are_traced_once(name):
    kind, make = SAMPLES[name]
    kernel, arguments = make((128, 128, 128), cute.dtype(kind))
    plan = cute.trace(kernel, *arguments)
    count = len(kernel.plans)
    kernel, arguments = make((128, 128, 128), cute.dtype(kind))  # other objects that are alike
    assert cute.trace(kernel, *arguments) is plan
    assert len(kernel.plans) == count
    assert kernel.dependencies.snapshot().stable


FORMS = (
    "Annotated[cute.s32, cute.s32(min=1)]",
    "Optional[int]",
    "Union[int, str]",
    "Literal[1]",
    "List[int]",
    "Tuple[int, ...]",
    "Callable[[int], int]",
    "ClassVar[int]",
    "Any",
    "list[int]",
    "int | None",
)


@each(FORMS)
def test_types_that_annotate_as_text_are_known(form):
    """Whether it is the text of a type, or the name of one."""
    scope = {name: getattr(typing, name) for name in typing.__all__} | {"cute": cute}
    exec(f"alias = {form}\ndef f(x: 'alias', y: {form!r}): pass", scope)
    seen = Dependencies(scope["f"]).snapshot()
    assert seen.complete
    assert seen.stable


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the `type` statement is of Python 3.12")
@each(("Annotated[cute.s32, cute.s32(min=1)]", "cute.s32", "Other"))
def test_a_type_statement_names_what_annotates(form):
    scope = {"cute": cute, "Annotated": typing.Annotated}
    exec(
        f"type Size = {form}\ntype Other = cute.s32\n"
        "def bare(x, n: Size):\n    cute.launch(grid=1, block=32)\n    x[0] = n\n"
        "def text(x, n: 'Size'):\n    cute.launch(grid=1, block=32)\n    x[0] = n\n",
        scope,
    )
    for name in ("bare", "text"):
        kernel, x = cute.kernel(scope[name]), np.zeros(32, np.int32)
        for n in (3, 5):
            kernel(x, n)
            assert x[0] == n
        assert len(kernel.plans) == 1  # for any number
        seen = kernel.dependencies.snapshot()
        assert seen.stable
        assert seen.complete


def test_a_class_is_watched_through_an_alias(module):
    class C:
        n = 1

    alias = types.GenericAlias(C, int)

    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        x[0] = alias.n

    module.GIVEN = ()
    assert result(kernel, module) == 1
    C.n = 2
    assert result(kernel, module) == 2


def test_what_is_installed_is_no_part_of_what_is_watched(module):
    exec(
        "import numpy as np, math, cute_py as cute\nfrom cute_py import thread_idx\n"
        "def kernel(x):\n"
        "    cute.launch(grid=int(math.sqrt(np.float32(1))), block=32)\n"
        "    x[thread_idx()] = 1\n",
        vars(module),
    )
    seen = Dependencies(module.kernel).snapshot()
    assert {name for _get, name, _value in seen.items} == {
        "cute",
        "int",
        "math",
        "np",
        "thread_idx",
    }
    assert len(seen.functions) == 1
    assert seen.stable


def test_arrays_of_other_libraries_are_told_apart_by_identity():
    x = Array((4,))
    x.__class__.__dlpack__ = None
    try:
        assert static_key(x) == static_key(x) != static_key(Array((4,)))
    finally:
        del x.__class__.__dlpack__
    log = logging.getLogger("cute_py.test")
    assert static_key(log) == static_key(log)
