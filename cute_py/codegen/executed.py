"""The text that is executed: what strings of a plan may become in it, and what it must be.

A plan may come from a file, and its text from an editor. So strings are escaped where they are
printed; and before the text is executed, it is read: a docstring and a function, which calls the
intrinsics of the plan and nothing else. Executing it defines that function.
"""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

QUOTES = 3 * '"'
# what a function may consist of: assignments, loops, branches, calls, and arithmetic of names
ALLOWED = (
    *(ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.While),
    *(ast.Break, ast.Continue, ast.Return, ast.Pass),
    *(ast.Call, ast.Name, ast.Constant, ast.Tuple, ast.Subscript, ast.Slice),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
)


def docstring(lines: Iterable[str]) -> str:
    r"""Return lines as a docstring, whatever they contain.

    >>> text = 'a \\ b', 3 * '"', "c\nd"
    >>> print(docstring(text).replace('"', "*"))
    ***a \\ b
    \*\*\*
    c\\nd
    ***
    """
    rows = [_in_a_line(row).replace("\\", "\\\\").replace(QUOTES, r"\"\"\"") for row in lines]
    return "\n".join([QUOTES + rows[0], *rows[1:], QUOTES])


def comment(text: str) -> str:
    r"""Return a text as a comment, which ends with its line.

    >>> comment("a\nb\x0cc")
    '# a\\nb\\x0cc'
    """
    return f"# {_in_a_line(text)}"


def _in_a_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        [x if x.isprintable() else x.encode("unicode_escape").decode("ascii") for x in text]
    )


def problem_of(tree: ast.Module, calls: Collection[str]) -> str:
    """Return what else a text is than a docstring and a function that calls these names, "" for
    nothing.
    """
    body = tree.body[ast.get_docstring(tree, clean=False) is not None :]
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        return "no function after a docstring, or more than one"
    function = body[0]
    given = function.args
    more = [given.vararg, given.kwarg, *given.kwonlyargs, *given.defaults, function.returns]
    more += [*function.decorator_list, *[x.annotation for x in (*given.posonlyargs, *given.args)]]
    more += getattr(function, "type_params", [])  # of Python 3.12
    if any(x is not None for x in more):
        return "a function with decorators, annotations, defaults or type parameters"
    for node in (x for statement in function.body for x in ast.walk(statement)):
        if not isinstance(node, ALLOWED):
            return f"{type(node).__name__} in line {getattr(node, 'lineno', '?')}"
        if isinstance(node, ast.Call) and not _is_own(node, calls):
            return f"the call {ast.unparse(node)} in line {node.lineno}"
    return ""


def _is_own(call: ast.Call, calls: Collection[str]) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in calls and not call.keywords
