"""The `cute-py` command.

    cute-py eval "composition((6,2):(8,2), (4,3):(3,1))"     the value of an expression
    cute-py layout "Sw<3,4,3> o 0 o (8,64):(64,1)"           what a layout is, and its offsets
    cute-py functions                                        the functions of the language
    cute-py mma SM70_8x8x4_F32F16F16F32_TN --atoms 2,2       who holds A, B and C, as a picture
    cute-py tv SM70_8x8x4_F32F16F16F32_TN --operand C        one of them
    cute-py copy "UniversalCopy<32>" --thr "(4,8):(8,1)"     who reads and who writes
    cute-py atoms --arch sm_80                               the instructions
    cute-py gemm a.npy b.npy -o d.npy                        a matrix product, on the emulator
    cute-py plan gemm --m 512 --n 512 --k 512                what its kernel does, op by op
    cute-py source gemm --arch sm_90a                        the Numba kernel of a GPU
    cute-py compile gemm --arch sm_80 --sass                 registers, occupancy, SASS
    cute-py doctor                                           what is installed, and what is not
    cute-py cache --clear                                    empty the cache of compiled kernels

A refusal goes to the standard error with exit code 2, without a traceback.
"""

from __future__ import annotations

import os
import sys

from cute_py.cli.compile_commands import add_commands as add_codegen
from cute_py.cli.gemm_command import add_commands as add_gemm
from cute_py.cli.installation_commands import add_commands as add_installation
from cute_py.cli.output import REFUSED, count, refuse
from cute_py.cli.picture_commands import add_commands as add_pictures
from cute_py.errors import CuteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator, Sequence

    from cute_py.layout.types import AnyLayout, Leaf, OffsetMap

INTERRUPTED, BROKEN_PIPE = 130, 141  # as shells count: 128 + the signal's number


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments `argv` (default: those of the process).

    Returns the exit code: 0, or 2 for a refusal or for arguments that do not fit.

    >>> main(["eval", "composition((6,2):(8,2), (4,3):(3,1))"])
    ((2,2),3):((24,2),8)
    0
    """
    try:
        given = _parser().parse_args(argv)
        code = int(given.run(given))
        sys.stdout.flush()
    except SystemExit as stop:  # argparse has written its message
        code = stop.code if isinstance(stop.code, int) else REFUSED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, head for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = BROKEN_PIPE
    return code


def _parser() -> ArgumentParser:
    from argparse import ArgumentParser

    from cute_py import __version__
    from cute_py.layout.notation.grid import COLUMNS, ROWS

    parser = ArgumentParser("cute-py", description="CuTe's layout algebra at the command line.")
    parser.add_argument("--version", action="version", version=f"cute-py {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = commands.add_parser("eval", help="print the value of an expression")
    command.set_defaults(run=_eval)
    command.add_argument("text", metavar="EXPR", help="the expression; - reads it from the input")
    command.add_argument("--why", action="store_true", help="tell how the value comes about")
    _add_symbols(command)

    command = commands.add_parser("layout", help="print what a layout is, and its offsets")
    command.set_defaults(run=_layout)
    command.add_argument(
        "text", metavar="TEXT", help="what a CuTe prints; - reads it from the input"
    )
    command.add_argument("--rows", type=count, default=ROWS, help="at most (%(default)s)")
    command.add_argument("--columns", type=count, default=COLUMNS, help="at most (%(default)s)")
    _add_symbols(command)

    command = commands.add_parser("functions", help="list the functions that eval knows")
    command.set_defaults(run=_functions)

    add_pictures(commands)
    add_gemm(commands)
    add_codegen(commands)
    add_installation(commands)
    return parser


def _add_symbols(command: ArgumentParser) -> None:
    command.add_argument(
        "--symbol",
        action="append",
        default=[],
        metavar="NAME",
        help="declare a symbolic size; M%%8 declares a multiple of 8",
    )


def _symbols(declared: list[str]) -> dict[str, Leaf]:
    from cute_py.expression import evaluate
    from cute_py.integers.symbols import sym

    symbols = {}
    for each in declared:
        name, _, multiple = each.partition("%")
        symbols[name] = sym(name, multiple_of=evaluate(multiple) if multiple else 1)
    return symbols


def _text(given: Namespace) -> str:
    return sys.stdin.read() if given.text == "-" else str(given.text)


# -- eval


def _eval(given: Namespace) -> int:
    from cute_py.expression import evaluate, show

    try:
        value = evaluate(_text(given), _symbols(given.symbol))
        print(_told(value) if given.why else show(value))
    except CuteError as error:
        return refuse(_told(error) if given.why else str(error))
    return 0


def _told(subject: object) -> str:
    """Return the derivation of a layout or of a refusal; other values as they are."""
    from cute_py.expression import show
    from cute_py.layout.algebra.explain import explain
    from cute_py.layout.layout import Layout

    if isinstance(subject, (CuteError, Layout)):
        return explain(subject)
    return show(subject)


def _functions(given: Namespace) -> int:
    from cute_py.expression import functions

    print("\n".join(functions()))
    return 0


# -- layout


def _layout(given: Namespace) -> int:
    from cute_py.layout import Mapped
    from cute_py.layout.notation.grid import text_grid
    from cute_py.layout.notation.parse import parse_layout

    try:
        layout = parse_layout(_text(given), _symbols(given.symbol))
    except CuteError as error:
        return refuse(str(error))
    for label, text in _facts(layout):
        print(f"{label:<10} {text}")
    if isinstance(layout, Mapped):
        print()
        print(_answer(lambda: text_grid(layout, given.rows, given.columns)))
    return 0


def _facts(layout: OffsetMap) -> Iterator[tuple[str, str]]:
    """Yield what there is to say of a layout or of a map of offsets, line by line."""
    from cute_py.layout import Mapped
    from cute_py.layout.bits.swizzle import Swizzle

    if isinstance(layout, Mapped):
        yield from _layout_facts(layout)
        return
    yield "map", str(layout)
    if layout.__class__ is Swizzle:
        yield "reads", f"bits {layout.yyy_msk:#b}"
        yield "changes", f"bits {layout.zzz_msk:#b}"
        yield "period", str(layout.period)


def _layout_facts(layout: AnyLayout) -> Iterator[tuple[str, str]]:
    from cute_py.layout import queries
    from cute_py.layout.algebra.coalesce import coalesce
    from cute_py.layout.bits.f2_layout import F2Layout
    from cute_py.layout.tools import is_bijective, is_injective

    yield "layout", str(layout)
    yield "size", _answer(layout.size)
    yield "cosize", _answer(layout.cosize)
    yield "rank", _answer(lambda: queries.rank(layout.shape))
    yield "depth", _answer(lambda: queries.depth(layout.shape))
    if layout.__class__ is not F2Layout:
        yield "coalesced", _answer(lambda: coalesce(layout))
    if not _is_symbolic(layout):
        yield "injective", _answer(lambda: is_injective(layout))
        yield "bijective", _answer(lambda: is_bijective(layout))
    else:
        from cute_py.layout.algebra.proofs import prove_bijective

        yield "bijective", _answer(lambda: prove_bijective(layout))


def _is_symbolic(layout: AnyLayout) -> bool:
    from cute_py.layout.composed import ComposedLayout
    from cute_py.layout.layout import INTS, SYMBOLS

    while layout.__class__ is ComposedLayout:
        layout = layout.inner
    return getattr(layout, "_kind", INTS) == SYMBOLS


def _answer(question: Callable[[], object]) -> str:
    """Return the answer as text, or why there is none."""
    from cute_py.expression import show

    try:
        answer = question()
    except CuteError as error:
        return f"not known: {error}"
    if answer.__class__ is bool:
        return "yes" if answer else "no"
    return show(answer)
