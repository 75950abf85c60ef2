"""What Python code names: the globals, attributes and modules that it may read; and whose it is.

Code of installed packages, of the standard library and of this package does not change while a
program runs; what is in them is told apart by identity.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from types import CodeType, FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

OWN = __name__.partition(".")[0]
HEAP = 1 << 9  # of the flags of a class: made at run time (Py_TPFLAGS_HEAPTYPE)


@lru_cache(maxsize=4096)
def global_names(code: CodeType) -> tuple[str, ...]:
    """Return the names that code loads as globals, and the functions inside of it; sorted."""
    from dis import get_instructions

    own = {
        step.argval
        for step in get_instructions(code)
        if step.opname == "LOAD_NAME"
        or (step.opname.startswith("LOAD") and "GLOBAL" in step.opname)
    }
    return tuple(sorted(own.union(*map(global_names, _inner(code)))))


@lru_cache(maxsize=4096)
def attribute_names(code: CodeType) -> frozenset[str]:
    """Return every name, and every text that could be one, in code and the functions inside of it:
    what it may read of a module or a class.
    """
    texts = [x for x in code.co_consts if isinstance(x, str) and x.isidentifier()]
    return frozenset({*code.co_names, *texts}.union(*map(attribute_names, _inner(code))))


@lru_cache(maxsize=4096)
def imported_names(code: CodeType) -> tuple[str, ...]:
    """Return the modules that code imports when it runs; sorted."""
    from dis import get_instructions

    own = {step.argval for step in get_instructions(code) if step.opname == "IMPORT_NAME"}
    return tuple(sorted(own.union(*map(imported_names, _inner(code)))))


def _inner(code: CodeType) -> list[CodeType]:
    return [x for x in code.co_consts if isinstance(x, CodeType)]


# -- whose it is


def is_foreign(value: Any) -> bool:  # a function, class or module
    """Tell whether a function, class or module is none of the user's.

    >>> import math
    >>> is_foreign(math), is_foreign(int), is_foreign(is_foreign)
    (True, True, True)
    """
    if isinstance(value, FunctionType):
        name, code = str(value.__globals__.get("__name__", "")), value.__code__
        made = code.co_qualname.startswith("__create_fn__.")  # by `dataclasses`, from the class
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
