"""`cute-py tv`, `mma`, `copy` and `atoms`: pictures of which threads hold what, and the list of
instructions.
"""

from __future__ import annotations

import os
import sys

from cute_py.atoms.arch import ARCHS
from cute_py.atoms.copy import Copy_Atom
from cute_py.atoms.search import listed, table_text
from cute_py.cli.arguments import count
from cute_py.cli.output import as_json, write
from cute_py.errors import CuteError, refusal, suggestion
from cute_py.expression import evaluate
from cute_py.layout.layout import Layout
from cute_py.layout.tuples import Underscore, leaves
from cute_py.tiled.tiled_copy import make_tiled_copy
from cute_py.tiled.tiled_mma import make_tiled_mma
from cute_py.viz.build import picture_of, picture_operand
from cute_py.viz.latex import to_latex
from cute_py.viz.svg import to_svg
from cute_py.viz.text import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from cute_py.atoms.copy import Copy_Op
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.layout.types import Tiler
    from cute_py.viz.picture import Picture

ATOM = "its name, or the beginning of it; the command atoms lists them"


def add_tv(command: ArgumentParser) -> None:
    """Add the arguments of `tv`."""
    command.set_defaults(run=_drawn, picture=_tv)
    command.add_argument("atom", metavar="ATOM", help=ATOM)
    command.add_argument("--operand", choices="ABC", default="C", help="(default: %(default)s)")
    _add_output(command, "text", "svg", "latex", "json")


def add_mma(command: ArgumentParser) -> None:
    """Add the arguments of `mma`."""
    command.set_defaults(run=_drawn, picture=_mma)
    command.add_argument("atom", metavar="ATOM", help=ATOM)
    command.add_argument("--atoms", metavar="LAYOUT", help="number of atoms in M,N,K: 2,2,1")
    command.add_argument("--perm", metavar="TILE", help="the tile in M,N,K: 32,32,16; _ for none")
    _add_output(command, "text", "svg", "latex", "json")


def add_copy(command: ArgumentParser) -> None:
    """Add the arguments of `copy`."""
    command.set_defaults(run=_drawn, picture=_copy)
    command.add_argument("op", metavar="OP", help=f"the instruction: {ATOM}")
    command.add_argument("--thr", metavar="LAYOUT", help="threads over the tile: (32,4):(4,1)")
    command.add_argument("--val", metavar="LAYOUT", help="values of a thread: (1,8)")
    command.add_argument("--bits", type=count, default=16, help="bits of a value (%(default)s)")
    _add_output(command, "text", "svg", "latex", "json")


def add_atoms(command: ArgumentParser) -> None:
    """Add the arguments of `atoms`."""
    command.set_defaults(run=_atoms)
    command.add_argument(
        "--arch", help="only those that this architecture runs: sm_80, sm_90a, ..."
    )
    _add_output(command, "text", "json")


def _add_output(command: ArgumentParser, *formats: str) -> None:
    command.add_argument("--format", choices=formats, default="text", help="(default: %(default)s)")
    command.add_argument("-o", dest="output", metavar="FILE", help="write to a file")


# -- pictures


def _drawn(given: Namespace) -> None:
    """Write the picture that `given.picture` makes."""
    write(_rendered(given.picture(given), given), given.output)


def _rendered(picture: Picture, given: Namespace) -> str:
    if given.format == "json":
        return as_json(picture.as_data())
    if given.format == "text":
        colours = not given.output and sys.stdout.isatty() and "NO_COLOR" not in os.environ
        return to_text(picture, ansi=colours) + "\n"
    return to_svg(picture) if given.format == "svg" else to_latex(picture)


def _tv(given: Namespace) -> Picture:
    return picture_operand(given.atom, given.operand)


def _mma(given: Namespace) -> Picture:
    atoms = _option("--atoms", given.atoms, (1, 1, 1))
    tile = _option("--perm", given.perm, (None, None, None))
    return picture_of(make_tiled_mma(given.atom, atoms, tile))


def _copy(given: Namespace) -> Picture:
    atom = Copy_Atom(given.op, given.bits)
    if given.thr is None and given.val is None:
        return picture_of(atom)
    threads, values = _option("--thr", given.thr, 1), _option("--val", given.val, 1)
    return picture_of(make_tiled_copy(atom, threads, values))


def _option(name: str, text: str | None, default: Tiler) -> Tiler:
    """Return the layout or tuple that an option's text stands for; brackets may be left out."""
    if text is None:
        return default
    try:
        value = evaluate(f"({text})")
    except CuteError as error:
        raise error.inside(f"{name} ({text})") from None
    parts = list(leaves(value))
    if not parts or any(type(part) not in (int, Layout, Underscore) for part in parts):
        raise refusal("cli-layout", operation=name, text=text)
    return value[0] if len(value) == 1 else value


# -- atoms


def _atoms(given: Namespace) -> None:
    if given.arch is not None:
        _require_arch(given.arch)
    if given.format == "json":
        mmas, copies = listed(given.arch)
        mma, copy = [_fields(row) for row in mmas], [_fields(op) for op in copies]
        text = as_json({"mma": mma, "copy": copy})
    else:
        text = table_text(given.arch) + "\n"
    write(text, given.output)


def _require_arch(arch: str) -> None:
    """Refuse what is no architecture, with or without one suffix."""
    base = arch[:-1] if arch.endswith(("a", "f")) else arch
    if base not in ARCHS:
        hint = suggestion(arch, ARCHS)
        hint = f", or {hint}" if hint else ""
        raise refusal("cli-arch", operation="atoms", arch=arch, known=", ".join(ARCHS), hint=hint)


def _fields(row: MMA_Atom | Copy_Op) -> dict[str, object]:
    return {"atom": str(row), **{key: getattr(row, key) for key in type(row).__slots__}}
