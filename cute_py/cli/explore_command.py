"""`cute-py explore`: the explorer as a static site, or as one file."""

from __future__ import annotations

from pathlib import Path

from cute_py.cli.output import Output, write
from cute_py.explore.pages import PYODIDE, single, site

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_explore(command: ArgumentParser) -> None:
    """Add the arguments of `explore`."""
    command.set_defaults(run=_explore)
    command.add_argument(
        "-o", dest="output", metavar="DIR", required=True, help="a folder, or a file page.html"
    )
    command.add_argument(
        "--runtime",
        metavar="DIR",
        type=Path,
        help=f"the folder of the npm package pyodide {PYODIDE}; without it, pages load Pyodide "
        "from its CDN",
    )


def _explore(given: Namespace) -> None:
    if given.output.endswith((".html", ".htm")):
        write(single(given.runtime), given.output)
        return
    folder = Path(given.output)
    for name, content in site(given.runtime):
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Output(str(folder))._refused(error.strerror) from None
        with Output(str(path)) as file:
            file.write(content)
