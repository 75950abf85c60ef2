"""The names in Python code: the globals, attributes and modules that it may read; foreign code.

Code of installed packages, of the standard library and of this package does not change while a
program runs, so its functions, classes and modules compare by identity.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FunctionType
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from dis import Instruction
    from types import ModuleType
    from typing import Any

_READ_AN_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM")
OWN = __name__.partition(".")[0]
HEAP = 1 << 9  # the flag of a class made at run time (Py_TPFLAGS_HEAPTYPE)


# what gives globals or modules whose names are computed, e.g. sys.modules and f.__globals__
BY_TEXT = frozenset(
    {"eval", "exec", "globals", "__globals__", "modules", "import_module", "__import__"}
    | {"_getframe", "currentframe", "f_globals", "f_locals"}
)


# what gives attributes whose names are computed; `getattr` does where its name is no constant
COMPUTED = "__dict__"
_COMPUTE = frozenset(
    {"vars", "dir", "__getattribute__", "attrgetter", "methodcaller", "getmembers"}
    | {"getattr_static"}
)
# what reads all attributes of an object, or its class
WHOLE = frozenset(
    {COMPUTED, "vars", "dir", "copy", "deepcopy", "replace", "asdict", "astuple", "fields", "dumps"}
    | {"getmembers", "__slots__", "__getstate__", "__reduce__", "__reduce_ex__"}
    | {"type", "__class__"}
)


class Names(NamedTuple):
    """The names in code and in the functions nested in it.

    Attributes:
        globals: those that it loads as globals, sorted.
        modules: those that it imports at run time, sorted.
        attributes: those that it names, and every string that could be one: what it may read of a
            module or a class. With `COMPUTED` that is any, with one of `WHOLE` any of an object.
        by_text: whether it may read globals whose names it computes: by eval, globals() and others.
        parts: of the globals that it only reads attributes of, as of a module, these attributes.
    """

    globals: tuple[str, ...]
    modules: tuple[str, ...]
    attributes: frozenset[str]
    by_text: bool
    parts: dict[str, frozenset[str]]


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> Names:
    """Return the names in code."""
    from dis import get_instructions

    steps = [step for x in get_instructions(code) for step in accesses(x)]
    inner = [names_in(x) for x in code.co_consts if isinstance(x, CodeType)]
    loaded = {x for op, x in steps if _loads_a_global(op)}
    attributes = {x for op, x in steps if op in _READ_AN_ATTRIBUTE}
    attributes |= WHOLE & {*code.co_names}
    if not _COMPUTE.isdisjoint(code.co_names) or _computes(steps):
        attributes.add(COMPUTED)
    modules = {x for op, x in steps if op == "IMPORT_NAME"}
    return Names(
        tuple(sorted(loaded.union(*[x.globals for x in inner]))),
        tuple(sorted(modules.union(*[x.modules for x in inner]))),
        frozenset(attributes.union(_texts_in(code.co_consts), *[x.attributes for x in inner])),
        not BY_TEXT.isdisjoint(code.co_names) or any(x.by_text for x in inner),
        _parts_in(steps, inner),
    )


def accesses(x: Instruction) -> list[tuple[str, Any]]:
    """Return what an instruction does, in turn: (operation, argument). Python 3.13 and later have
    some that access two variables, as LOAD_FAST_LOAD_FAST.
    """
    if "FAST" not in x.opname or not isinstance(x.argval, tuple):
        return [(x.opname, x.argval)]
    verbs = [word for word in x.opname.split("_") if word in ("LOAD", "STORE")]
    return [(f"{verb}_FAST", name) for verb, name in zip(verbs, x.argval, strict=True)]


def _loads_a_global(op: str) -> bool:
    return op.startswith("LOAD") and ("GLOBAL" in op or op == "LOAD_NAME")


def _parts_in(steps: list[tuple[str, Any]], inner: list[Names]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    whole = {name for x in inner for name in x.globals if name not in x.parts}
    for (op, name), (after, attribute) in pairwise([*steps, ("", None)]):
        if _loads_a_global(op):
            found.setdefault(name, set()).add(attribute)
            whole |= {name} if after not in _READ_AN_ATTRIBUTE else set()
    for x in inner:
        for name, attributes in x.parts.items():
            found.setdefault(name, set()).update(attributes)
    return {name: frozenset(x) for name, x in found.items() if name not in whole}


def _computes(steps: list[tuple[str, Any]]) -> bool:
    """Return whether code reads attributes by names that are no constants of a single call."""
    for i, (op, name) in enumerate(steps):
        if op == "MATCH_CLASS":  # by `__match_args__`
            return True
        if op.startswith("LOAD") and name in ("getattr", "hasattr"):
            after = [x for x in steps[i + 1 : i + 12] if x[0] not in ("PUSH_NULL", "LOAD_ATTR")]
            after += [("", None)] * 4
            words = [op.partition("_")[0] for op, _name in after[:4]]
            plain = words[:2] == ["LOAD", "LOAD"] and after[1][0] == "LOAD_CONST"
            count = 3 if words[2] == "LOAD" else 2
            if not plain or "CALL" not in after[count][0] or after[count][1] != count:
                return True
    return False


def _texts_in(constants: Iterable[object]) -> Iterator[str]:
    """Return the strings that could be names, also in tuples: a loop over names has them there."""
    for x in constants:
        if isinstance(x, str) and x.isidentifier():
            yield x
        elif isinstance(x, tuple | frozenset):
            yield from _texts_in(x)


# -- foreign code


def is_foreign(value: Any) -> bool:  # a function, class or module
    """Return whether a function, class or module is not the user's own.

    >>> import math
    >>> is_foreign(math), is_foreign(int), is_foreign(is_foreign)
    (True, True, True)
    """
    if isinstance(value, FunctionType):
        name, code = str(value.__globals__.get("__name__", "")), value.__code__
        made = code.co_qualname.startswith("__create_fn__.")  # generated by `dataclasses`
        return made or _is_own(name) or _is_installed(code.co_filename)
    name = str(value.__module__ if isinstance(value, type) else value.__name__)
    if name == "__main__":
        return False
    if name == "builtins" and isinstance(value, type):  # or made by `exec` without a module
        return not value.__flags__ & HEAP
    if _is_own(name) or name in sys.builtin_module_names:
        return True
    module = sys.modules.get(name) if isinstance(value, type) else value
    return _is_installed(_file_of(module))


def place_of(kind: Any) -> str:  # a class
    """Return the module and the name of a class, without what is private of the module's: there
    Python moves its classes from one version to the next.

    >>> from collections import deque
    >>> from pathlib import Path  # pathlib._local.Path in Python 3.13
    >>> place_of(deque), place_of(Path)
    ('collections.deque', 'pathlib.Path')
    """
    first, *parts = str(kind.__module__).split(".")
    public = [x for x in parts if not x.startswith("_")]
    return ".".join([first.lstrip("_"), *public, kind.__qualname__])


def is_own(value: Any) -> bool:  # a function or module
    """Return whether a function or module is of this package."""
    name = value.__module__ if isinstance(value, FunctionType) else value.__name__
    return _is_own(str(name))


def _is_own(name: str) -> bool:
    return name == OWN or name.startswith(OWN + ".")


def _file_of(module: ModuleType | None) -> str:
    found = getattr(module, "__file__", None)
    if found is None:
        found = getattr(getattr(module, "__spec__", None), "origin", None)
    return found if isinstance(found, str) else ""


@lru_cache(maxsize=4096)
def _is_installed(file: str) -> bool:
    import os

    if file.startswith("<frozen") or file in ("frozen", "built-in"):
        return True
    parts = file.replace("\\", "/").split("/")
    library = os.path.dirname(os.__file__)
    return not {"site-packages", "dist-packages"}.isdisjoint(parts) or file.startswith(
        library + os.sep
    )
