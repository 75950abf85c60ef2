"""`cute-py layouts`, `follow` and `see` FILE.py:KERNEL: the tensors of a kernel and who holds which
element, the way of one element through it, and its page.
"""

from __future__ import annotations

from cute_py.cli.arguments import count
from cute_py.cli.kernel_call import add_call, call_of
from cute_py.cli.output import as_json, write
from cute_py.cli.picture_commands import add_drawing, add_output, drawn, format_of
from cute_py.emulate.ways.follow import follow
from cute_py.errors import refusal
from cute_py.expression import evaluate
from cute_py.see.page import see
from cute_py.see.table import Layouts, layouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any


def add_layouts(command: ArgumentParser) -> None:
    """Add the arguments of `layouts`."""
    add_call(command)
    command.add_argument("--line", type=count, metavar="N", help="only what this line makes")
    command.add_argument(
        "--name", help="a picture of who holds which element: of tCsA, or a slice, tCsA[_,_,0]"
    )
    add_drawing(command)
    command.set_defaults(run=_layouts)


def _layouts(given: Namespace) -> None:
    table = layouts(*call_of(given))
    if given.line is not None:
        table = table.at(given.line)
    if given.name is None:
        _write_table(table, given)
        return
    given.value = lambda _given: _named(table, given.name)
    drawn(given)


def _write_table(table: Layouts, given: Namespace) -> None:
    """Write a table as text, or as a page."""
    form = format_of(given)
    drawing = "" if form in ("text", "html") else f"the format {form}"
    drawing = "--by" if given.by else drawing
    if drawing:
        raise refusal("cli-table", operation="layouts", option=drawing)
    page = f'<!doctype html>\n<meta charset="utf-8">\n<title>{table.name}</title>\n'
    write(f"{table}\n" if form == "text" else f"{page}{table.to_html()}\n", given.output)


def _named(table: Layouts, name: str) -> Any:
    """Return the row of a name, or the owners of a slice."""
    root, _, rest = name.partition("[")
    if not rest or name in [row.name for row in table]:
        return table[name]
    return table[root].owners()[evaluate(f"({rest.rstrip(']')},)")]


def add_follow(command: ArgumentParser) -> None:
    """Add the arguments of `follow`."""
    add_call(command)
    command.add_argument(
        "--element", metavar="A[5,17]", required=True, help="an array and a coordinate"
    )
    add_output(command)
    command.set_defaults(run=_follow, by=None, bits=16)


def _follow(given: Namespace) -> None:
    kernel, *arguments = call_of(given)
    way = follow(kernel, *arguments, element=given.element)
    form = format_of(given)
    if form in ("text", "json"):
        write(as_json(way.as_data()) if form == "json" else f"{way}\n", given.output)
        return
    given.value = lambda _given: way
    drawn(given)


def add_see(command: ArgumentParser) -> None:
    """Add the arguments of `see`."""
    add_call(command)
    command.add_argument(
        "--run", dest="runs", action="store_true", help="run it, for conflicts and a timeline"
    )
    command.add_argument("--at", metavar="LINE|NAME", help="what is shown first: 42 or tCsA")
    command.add_argument("--explorer", metavar="URL", default="", help="where links of it lead")
    command.add_argument("-o", dest="output", metavar="FILE.html", help="write to a file")
    command.set_defaults(run=_see)


def _see(given: Namespace) -> None:
    kernel, *arguments = call_of(given)
    at = int(given.at) if given.at and given.at.isdecimal() else given.at
    page = see(kernel, *arguments, run=given.runs, at=at, explorer=given.explorer)
    write(page.to_html(), given.output)
