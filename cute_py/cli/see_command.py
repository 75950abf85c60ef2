"""`cute-py see FILE.py:KERNEL -o kernel.html`: a kernel as a page."""

from __future__ import annotations

from cute_py.cli.kernel_call import add_call, call_of
from cute_py.cli.output import write
from cute_py.see.page import see

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_see(command: ArgumentParser) -> None:
    """Add the arguments of `see`."""
    add_call(command)
    command.add_argument(
        "--run", dest="runs", action="store_true", help="run it, for conflicts and a timeline"
    )
    command.add_argument("--at", metavar="LINE|NAME", help="what is shown first: 42 or tCsA")
    command.add_argument("--explorer", metavar="URL", default="", help="where links of it lead")
    command.add_argument("-o", dest="output", metavar="FILE.html", help="write to a file")
    command.set_defaults(run=_run)


def _run(given: Namespace) -> None:
    kernel, *arguments = call_of(given)
    at = int(given.at) if given.at and given.at.isdecimal() else given.at
    page = see(kernel, *arguments, run=given.runs, at=at, explorer=given.explorer)
    write(page.to_html(), given.output)
