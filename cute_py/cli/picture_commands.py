"""`cute-py show`, `tv`, `mma`, `copy` and `atoms`: pictures, lists of instructions, epilogues."""

from __future__ import annotations

import os
import re
import sys

from cute_py import epilogues
from cute_py.atoms.arch import ARCHS
from cute_py.atoms.copy import Copy_Atom
from cute_py.atoms.search import listed, table_text
from cute_py.cli.arguments import count, module_of
from cute_py.cli.expression_commands import add_symbols, symbols_of, text_of, value_of
from cute_py.cli.output import Output, as_json, write
from cute_py.errors import CuteError, refusal, suggestion
from cute_py.explore.answers import hints
from cute_py.expression import evaluate
from cute_py.layout.layout import Layout
from cute_py.layout.tuples import Underscore, leaves
from cute_py.tiled.tiled_copy import make_tiled_copy
from cute_py.tiled.tiled_mma import make_tiled_mma
from cute_py.viz.build import BY, picture_of, picture_operand
from cute_py.viz.html import to_html
from cute_py.viz.latex import to_latex
from cute_py.viz.svg import FAMILY, FITS, to_svg
from cute_py.viz.text import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable
    from typing import Any

    from cute_py.atoms.copy import Copy_Op
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.layout.notation.parse_tokens import Value
    from cute_py.layout.types import Tiler

ATOM = "its name, or the beginning of it; the command atoms lists them"
RENDERERS: dict[str, Callable[..., str | bytes]] = {
    "text": to_text,
    "svg": to_svg,
    "html": to_html,
    "latex": to_latex,
    "json": lambda x, by, bits: as_json(picture_of(x, by, bits).as_data()),
    "png": lambda x, by, bits: _converted("png", to_svg(x, by=by, bits=bits)),
    "pdf": lambda x, by, bits: _converted("pdf", to_svg(x, by=by, bits=bits)),
}
ENDINGS = {"txt": "text", "tex": "latex", **{x: x for x in ("svg", "html", "json", "png", "pdf")}}
SHARP = 2  # pixels of a PNG for one of the SVG
NAMED = re.compile(r"epilogues\.(\w*)|.+\.py:(\w*)")  # an epilogue


def add_show(command: ArgumentParser) -> None:
    """Add the arguments of `show`."""
    command.set_defaults(run=_show, value=_shown, marked=True)
    command.add_argument(
        "text",
        metavar="EXPR",
        help="the expression; - reads it from the input; or an epilogue, as text: epilogues.NAME, "
        "or FILE.py:FUNCTION",
    )
    command.add_argument(
        "--given", metavar="NAMES", help="parameters of an epilogue that have defaults: c,beta_ptr"
    )
    add_symbols(command)
    add_drawing(command)


def add_tv(command: ArgumentParser) -> None:
    """Add the arguments of `tv`."""
    command.set_defaults(run=drawn, value=_tv, marked=True)
    command.add_argument("text", metavar="ATOM", help=f"{ATOM}; or any expression")
    command.add_argument("tile", metavar="TILE", nargs="?", help="of a thread-value layout")
    command.add_argument("--operand", choices="ABC", default="C", help="(default: %(default)s)")
    add_symbols(command)
    add_drawing(command)


def add_mma(command: ArgumentParser) -> None:
    """Add the arguments of `mma`."""
    command.set_defaults(run=drawn, value=_mma)
    command.add_argument("atom", metavar="ATOM", help=ATOM)
    command.add_argument("--atoms", metavar="LAYOUT", help="number of atoms in M,N,K: 2,2,1")
    command.add_argument("--perm", metavar="TILE", help="the tile in M,N,K: 32,32,16; _ for none")
    add_drawing(command)


def add_copy(command: ArgumentParser) -> None:
    """Add the arguments of `copy`."""
    command.set_defaults(run=drawn, value=_copy)
    command.add_argument("op", metavar="OP", help=f"the instruction: {ATOM}")
    command.add_argument("--thr", metavar="LAYOUT", help="threads over the tile: (32,4):(4,1)")
    command.add_argument("--val", metavar="LAYOUT", help="values of a thread: (1,8)")
    add_drawing(command)


def add_drawing(command: ArgumentParser) -> None:
    """Add the options of a picture: its colours, and where it goes."""
    command.add_argument("--by", choices=BY, help="what the colours tell apart")
    command.add_argument("--bits", type=count, default=16, help="bits of an element (%(default)s)")
    add_output(command)


def add_output(command: ArgumentParser) -> None:
    """Add the options of a format and a file."""
    command.add_argument(
        "--format", choices=RENDERERS, help="(default: by the name of the file, else text)"
    )
    endings = "|".join(ENDINGS)
    command.add_argument("-o", dest="output", metavar="FILE", help=f"write to FILE.{endings}")


def add_atoms(command: ArgumentParser) -> None:
    """Add the arguments of `atoms`."""
    command.set_defaults(run=_atoms)
    command.add_argument(
        "--arch", help="only those that this architecture runs: sm_80, sm_90a, ..."
    )
    command.add_argument("--format", choices=("text", "json"), default="text")
    command.add_argument("-o", dest="output", metavar="FILE", help="write to a file")


# -- pictures


def _show(given: Namespace) -> None:
    """Write an epilogue as text, or the picture of an expression."""
    text = _text_of_epilogue(given.text, given.given)
    if text is None:
        if given.given is not None:
            raise _no_epilogue(f"--given with {given.text}, which is not a function")
        drawn(given)
        return
    form = format_of(given)
    if form != "text":
        raise _no_epilogue(f"{given.text} as {form}")
    write(f"{text}\n", given.output)


def _no_epilogue(given: str, hint: str = "") -> CuteError:
    return refusal("cli-epilogue", operation="show", given=given, hint=hint and f"; {hint}")


def _text_of_epilogue(text: str, given: str | None) -> str | None:
    """Return what an epilogue computes, as text; None where a text names none.

    Args:
        text: what the command got.
        given: the parameters with defaults that are given, by name, with commas in between.

    """
    found = NAMED.fullmatch(text)
    if found is None:
        return None
    name = found[2] if found[1] is None else found[1]
    held: Any = epilogues
    if found[1] is None:
        held = module_of(text.rpartition(":")[0])
    function = getattr(held, name, None)
    if held is None or not callable(function):
        functions = [x for x in epilogues.__all__ if callable(getattr(epilogues, x))]
        known = suggestion(name, functions) if found[2] is None else ""
        raise _no_epilogue(f"{text}, which is not a function", known)
    from cute_py.ops.epilogues import described

    return str(described(function, tuple(given.split(",")) if given else ()))


def drawn(given: Namespace) -> None:
    """Write the picture of what `given.value`, a function of the arguments, returns."""
    form = format_of(given)
    value = given.value(given)
    options = {"by": given.by, "bits": given.bits}
    if form == "text":
        is_terminal = not given.output and sys.stdout.isatty()
        options["ansi"] = is_terminal and "NO_COLOR" not in os.environ
    made = RENDERERS[form](value, **options)
    if isinstance(made, bytes):
        with Output(given.output or "-") as file:
            file.write(made)
    else:
        write(made if made.endswith("\n") else made + "\n", given.output)
    if getattr(given, "hint", ""):
        print(given.hint, file=sys.stderr)


def _converted(form: str, svg: str) -> bytes:
    """Return a picture as PNG or PDF, on white. The package takes no list of fonts, and no size
    that fits a page.
    """
    try:
        import cairosvg
    except (ImportError, OSError) as error:  # the package, or the library cairo that it needs
        raise refusal("cli-picture", operation="-o", form=form, reason=error) from None
    plain = svg.replace(FAMILY, "monospace").replace(FITS, "")
    made: bytes = getattr(cairosvg, f"svg2{form}")(
        bytestring=plain.encode(), background_color="white", scale=SHARP if form == "png" else 1
    )
    return made


def format_of(given: Namespace) -> str:
    """Return the format that is asked for, or that the name of the file means."""
    if given.format:
        return str(given.format)
    ending = os.path.splitext(given.output or "")[1].removeprefix(".")
    if ending and ending not in ENDINGS:
        known = ", ".join(f".{each}" for each in ENDINGS)
        raise refusal("cli-format", operation="-o", path=given.output, known=known)
    return ENDINGS.get(ending, "text")


def _shown(given: Namespace) -> Value:
    """Return the value of the expression that is given; of a shape a layout, and a hint."""
    text = text_of(given)
    hint, tries, value = hints(text, evaluate(text, symbols_of(given.symbol)))
    given.hint = f"{hint} Write {' or '.join(tries)}." if hint else ""
    return value


def _tv(given: Namespace) -> Value:
    """Return one operand of an MMA, or the picture of a thread-value layout over a tile."""
    if given.tile is not None:
        given.text = f"tv({text_of(given)}, {given.tile})"
    elif given.text.isidentifier() and given.text not in symbols_of(given.symbol):
        return picture_operand(given.text, given.operand, _by_thread(given))
    value = value_of(given)
    if type(value).__name__ in ("MMA_Atom", "TiledMMA"):
        return picture_operand(value, given.operand, _by_thread(given))
    return value


def _by_thread(given: Namespace) -> str:
    """Return by what an operand is coloured; `picture_of` does the rest."""
    by, given.by = given.by, given.by if given.by == "tile" else None
    return "value" if by == "value" else "thread"


def _mma(given: Namespace) -> Value:
    atoms = _option("--atoms", given.atoms, (1, 1, 1))
    tile = _option("--perm", given.perm, (None, None, None))
    return make_tiled_mma(given.atom, atoms, tile)


def _copy(given: Namespace) -> Value:
    atom = Copy_Atom(given.op, given.bits)
    if given.thr is None and given.val is None:
        return atom
    threads, values = _option("--thr", given.thr, 1), _option("--val", given.val, 1)
    return make_tiled_copy(atom, threads, values)


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
