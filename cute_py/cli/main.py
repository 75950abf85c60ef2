"""The `cute-py` command: `COMMANDS` names the module of each of its commands.

A module is imported when one of its commands is called. For each command it has a function such as
`add_gemm(command)`, which adds the arguments and sets `run`. That takes the arguments, prints the
result and returns the exit code, None for 0. A refusal goes to the standard error, without a
traceback.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module

from cute_py.cli.arguments import Parser
from cute_py.errors import CuteError, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

REFUSED, INTERRUPTED, BROKEN_PIPE = 2, 130, 141  # the last two as shells count: 128 + the signal

# name -> the module in this package, what the command does, and an example
COMMANDS = {
    "eval": (
        "expression_commands",
        "print the value of an expression",
        'eval "composition((6,2):(8,2), (4,3):(3,1))"',
    ),
    "layout": (
        "layout_command",
        "describe a layout and print its offsets",
        'layout "Sw<3,4,3> o 0 o (8,64):(64,1)"',
    ),
    "show": (
        "picture_commands",
        "draw the value of an expression",
        'show "Sw<2,3,3> o (8,32):(32,1)" --by bank\nshow "mma(SM61_DP4A, (2,2,1))" -o mma.svg',
    ),
    "explore": (
        "explore_command",
        "open the layout explorer in a browser, or write it as pages",
        "explore\nexplore -o site\nexplore -o page.html --runtime node_modules/pyodide",
    ),
    "functions": ("expression_commands", "list the functions that eval knows", "functions"),
    "tv": (
        "picture_commands",
        "draw which threads hold one operand of an MMA atom",
        "tv SM70_8x8x4_F32F16F16F32_TN --operand C",
    ),
    "mma": (
        "picture_commands",
        "draw which threads hold A, B and C of an MMA, tiled or not",
        "mma SM70_8x8x4_F32F16F16F32_TN --atoms 2,2",
    ),
    "copy": (
        "picture_commands",
        "draw which threads read and which write in a copy",
        'copy "UniversalCopy<32>" --thr "(4,8):(8,1)" --bits 32',
    ),
    "atoms": ("picture_commands", "list the instructions of MMAs and copies", "atoms --arch sm_80"),
    "gemm": (
        "gemm_command",
        "multiply matrices on the emulator",
        "gemm a.npy b.npy -o d.npy\ngemm --m 64 --n 64 --k 64 --check",
    ),
    "run": (
        "operator_command",
        "compute any operator of cute.ops on the emulator",
        "run softmax x.npy --dim 0 -o y.npy\nrun reduce 64x1000 --op max --dim 1 --check",
    ),
    "plan": (
        "gemm_command",
        "print the plan of a kernel, op by op",
        "plan gemm --m 512 --n 512 --k 512",
    ),
    "source": (
        "compile_commands",
        "print the Numba source of a kernel",
        "source gemm --arch sm_90a",
    ),
    "compile": (
        "compile_commands",
        "compile a kernel for a GPU, without having one",
        "compile gemm --arch sm_80 --sass",
    ),
    "check-orders": (
        "orders_command",
        "prove a kernel for every order of its threads",
        "check-orders my.py:kernel 1:s32 64x32:f16 3\ncheck-orders my.py:case",
    ),
    "layouts": (
        "kernel_commands",
        "print the tensors of a kernel, and who holds which element",
        'layouts my.py:kernel --args "f16[256,256] f32[256,256]"\n'
        "layouts my.py:case --name tCsA -o tCsA.svg",
    ),
    "follow": (
        "kernel_commands",
        "follow one element of an array through a kernel",
        "follow my.py:kernel 64x64:f16 64x64:f16 64x64:f32 --element A[5,17]\n"
        "follow my.py:case --element D[3,4] -o way.html",
    ),
    "see": (
        "kernel_commands",
        "write a kernel as a page: source and pictures",
        'see my.py:kernel --args "f16[256,256] f32[256,256]" -o kernel.html\n'
        "see my.py:case --run --at tCsA -o kernel.html",
    ),
    "doctor": (
        "installation_commands",
        "show what is installed, and what to install",
        "doctor --quick",
    ),
    "cache": (
        "installation_commands",
        "show what the cache of compiled kernels holds, or empty it",
        "cache",
    ),
    "completion": (
        "installation_commands",
        "print a script that lets a shell complete commands and names",
        "completion bash > ~/.local/share/bash-completion/completions/cute-py",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments `argv` (default: those of the process).

    Returns the exit code: 0; 2 for a refusal or for arguments that do not fit; what the command
    says; 130 after an interrupt and 141 where the reader of the output has left.

    >>> main(["eval", "composition((6,2):(8,2), (4,3):(3,1))"])
    ((2,2),3):((24,2),8)
    0
    """
    if sys.stdout is None:
        return refuse(_no_stream("a standard output that is closed"))
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, head for example, has seen enough
        _drop_output()
        code = BROKEN_PIPE
    except (OSError, UnicodeError) as error:
        _drop_output()
        code = refuse(_no_stream(_reason(error)))
    return code


def _run(words: Sequence[str]) -> int:
    try:
        given = _parser(words).parse_args(words)
    except SystemExit as stop:  # argparse has written its message
        return stop.code if isinstance(stop.code, int) else REFUSED
    except ImportError as error:
        return _missing(error)
    try:
        return int(given.run(given) or 0)
    except ImportError as error:
        return _missing(error)
    except CuteError as error:
        return refuse(error if given.marked else str(error).splitlines()[0])
    except MemoryError:
        what = "a product" if given.command in ("gemm", "plan") else "sizes"
        return refuse(refusal("cli-memory", operation=given.command, what=what))


def _missing(error: ImportError) -> int:
    return refuse(refusal("cli-package", operation="cute-py", reason=error))


def refuse(error: object) -> int:
    """Print a refusal to the standard error; return the exit code."""
    with suppress(OSError):
        if sys.stderr is not None:
            print(error, file=sys.stderr)
    return REFUSED


def _no_stream(reason: str) -> CuteError:
    return refusal("cli-stream", operation="cute-py", reason=reason)


def _reason(error: OSError | UnicodeError) -> str:
    """Return what the input or the output failed with."""
    if isinstance(error, UnicodeDecodeError):
        return f"an input that is not text in {error.encoding}"
    if isinstance(error, UnicodeError):
        return f"text that the output cannot hold: {error}"
    return f"the system error {error.strerror or str(error)!r}"


def _drop_output() -> None:
    """Send an output that fails to the null device: Python would fail to flush it at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):  # a stream of Python, without a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(words: Sequence[str] | None = None) -> ArgumentParser:
    """Return the parser; with `words`, only the command that they name has its arguments."""
    from cute_py import __version__

    parser = Parser("cute-py", description="CuTe's layout algebra at the command line.")
    parser.add_argument("--version", action="version", version=f"cute-py {__version__}")
    parser.set_defaults(run=lambda given: parser.print_help(), marked=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    called = next((word for word in words or () if not word.startswith("-")), None)
    for name, (module, does, example) in COMMANDS.items():
        sentence = f"{does[0].upper()}{does[1:]}."
        examples = "\n  cute-py ".join(["example:", *example.splitlines()])
        command = commands.add_parser(name, help=does, description=sentence, epilog=examples)
        if words is None or name == called:
            getattr(import_module(f"cute_py.cli.{module}"), f"add_{name.replace('-', '_')}")(
                command
            )
    return parser
