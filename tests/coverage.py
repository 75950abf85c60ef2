"""Marks by which a test says which ops it covers: `@covers(ops.Redux)`.

They are read from the files, as those of the tests on a GPU load only where there is one.
"""

import ast
from pathlib import Path


def covers(*_kinds):
    """Mark a test that shows what ops do, or the body of a kernel that one runs."""
    return lambda test: test


def refuses(*_kinds):
    """Mark a test that refuses a kernel which uses these ops, and is wrong in one place."""
    return lambda test: test


def marked(mark, folder):
    """Return {op: names of the tests that have a mark of it} for a folder of tests."""
    found = {}
    for path in sorted((Path(__file__).parent / folder).glob("test_*.py")):
        for test in ast.parse(path.read_text(encoding="utf-8")).body:
            for call in getattr(test, "decorator_list", []):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == mark.__name__:
                    for kind in call.args:
                        found.setdefault(kind.attr, []).append(test.name)
    return found
