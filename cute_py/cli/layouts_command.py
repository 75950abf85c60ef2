"""`cute-py layouts FILE.py:KERNEL`: the tensors of a kernel, and who holds which element."""

from __future__ import annotations

from cute_py.cli.arguments import count
from cute_py.cli.kernel_call import add_call, call_of
from cute_py.cli.output import write
from cute_py.cli.picture_commands import add_drawing, drawn, format_of
from cute_py.errors import refusal
from cute_py.expression import evaluate
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
    command.set_defaults(run=_run)


def _run(given: Namespace) -> None:
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
    if form not in ("text", "html"):
        known = ".txt or .html for a table; --name makes a picture"
        raise refusal("cli-format", operation="-o", path=given.output, known=known)
    page = f'<!doctype html>\n<meta charset="utf-8">\n<title>{table.name}</title>\n'
    write(f"{table}\n" if form == "text" else f"{page}{table.to_html()}\n", given.output)


def _named(table: Layouts, name: str) -> Any:
    """Return the row of a name, or the owners of a slice."""
    root, _, rest = name.partition("[")
    if not rest or name in [row.name for row in table]:
        return table[name]
    return table[root].owners()[evaluate(f"({rest.rstrip(']')},)")]
