"""`cute-py follow FILE.py:KERNEL --element A[5,17]`: the way of one element through a kernel."""

from __future__ import annotations

from cute_py.cli.kernel_call import add_call, call_of
from cute_py.cli.output import as_json, write
from cute_py.cli.picture_commands import add_output, drawn, format_of
from cute_py.emulate.ways.follow import follow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from cute_py.emulate.ways.way import Way


def add_follow(command: ArgumentParser) -> None:
    """Add the arguments of `follow`."""
    add_call(command)
    command.add_argument(
        "--element", metavar="A[5,17]", required=True, help="an array and a coordinate"
    )
    add_output(command)
    command.set_defaults(run=_run, value=_way, by=None, bits=16)


def _way(given: Namespace) -> Way:
    kernel, *arguments = call_of(given)
    return follow(kernel, *arguments, element=given.element)


def _run(given: Namespace) -> None:
    form = format_of(given)
    if form not in ("text", "json"):
        drawn(given)
        return
    way = _way(given)
    write(as_json(way.as_data()) if form == "json" else f"{way}\n", given.output)
