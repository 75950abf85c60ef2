"""`cute-py gemm`, the product of two files or of generated data, and `cute-py plan gemm`."""

from __future__ import annotations

import os
import stat
from argparse import SUPPRESS, ArgumentTypeError
from collections import Counter
from math import prod
from time import perf_counter

import numpy as np

from cute_py.calls.arrays import dtype_of
from cute_py.cli.arguments import extent, real, whole
from cute_py.cli.output import Bar, Output
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import CuteError, refusal
from cute_py.kernels.activations import listed as activations
from cute_py.ops.memory import require_arrays
from cute_py.ops.product import GEMM, Product, Request
from cute_py.ops.reference import error_of
from cute_py.plan.ops import Promise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable
    from typing import Any

    from cute_py.dtypes.table import Array, Dtype, DtypeLike
    from cute_py.ops.call import Call
    from cute_py.plan.plan import Plan

WRONG = 1  # the exit code where --check found an error beyond the bound
DOUBLE = 64  # bits: a reference is computed in float64
NUMBERS = "biuf"  # the kinds of NumPy's types that are numbers here
FILES = ("f32", "f64", "f16", "s32", "s8", "u8")  # what plain numpy.load knows
ODD = {  # what is at a path that is neither a plain file nor a folder
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
SHORT = "the file is shorter than its header says"


def add_gemm(command: ArgumentParser) -> None:
    """Add the arguments of `gemm`."""
    command.set_defaults(run=_gemm)
    command.add_argument("a", metavar="A.npy", nargs="?", help="A (..., M, K)")
    command.add_argument("b", metavar="B.npy", nargs="?", help="B (..., K, N)")
    command.add_argument("-o", dest="output", metavar="D.npy", help="write the result, as f32")
    _add_sizes(command)
    seed = whole(0, None)
    command.add_argument(
        "--seed", type=seed, default=0, help="seed of generated data (%(default)s)"
    )
    command.add_argument("--c", metavar="C.npy", help="C (..., M, N)")
    command.add_argument("--bias", metavar="BIAS.npy", help="bias (N), added to each row")
    add_numbers(command)
    _add_backend(command)
    command.add_argument(
        "--check",
        action="store_true",
        help="look for races, and exit with 1 if the error is beyond the bound",
    )
    command.add_argument(
        "--checks",
        metavar="NAMES",
        help="make these checks of the emulator alone: shared,global (see docs/emulator.md)",
    )
    command.add_argument(
        "--report", action="store_true", help="count the instructions of each line of the kernel"
    )


def add_plan(command: ArgumentParser) -> None:
    """Add the arguments of `plan`."""
    kinds = command.add_subparsers(title="kernels", required=True, metavar="KERNEL")
    sentence = "The kernel of the command gemm, with the tile that the emulator uses; on a GPU "
    command = kinds.add_parser(
        "gemm",
        help="the kernel of the command gemm",
        description=f"{sentence}cute.ops.gemm uses another one: cute-py source gemm shows it.",
    )
    command.set_defaults(run=_plan, a=None, b=None)
    add_product(command)
    add_numbers(command)
    _add_backend(command)


def add_product(command: ArgumentParser, size: int | None = None) -> None:
    """Add the options that describe a product; `size` is the default of M, N and K."""
    _add_sizes(command, size)
    command.add_argument(
        "--majors",
        type=majors,
        default=("K", "MN"),
        help="which mode is contiguous in A and in B (default: K,MN)",
    )
    command.add_argument("--bias", action="store_true", help="add a bias of f32 to each row")


def _add_sizes(command: ArgumentParser, size: int | None = None) -> None:
    default = ", of generated data" if size is None else f" ({size})"
    for name, what in (("m", "rows of A"), ("n", "columns of B"), ("k", "columns of A")):
        command.add_argument(f"--{name}", type=extent, default=size, help=f"{what}{default}")


DTYPE = "convert A and B to it (default: theirs; generated: bf16)"


def add_numbers(command: ArgumentParser, dtype: str = DTYPE, result: str | None = "f32") -> None:
    """Add the options of types, factors and configuration.

    Args:
        command: to add them to.
        dtype: the help of --dtype.
        result: its default type; None: the operator's.

    """
    command.add_argument("--dtype", help=dtype)
    default = "as cute.ops.gemm has it by default" if result is None else result
    command.add_argument("--out-dtype", default=result, help=f"type of the result ({default})")
    command.add_argument("--alpha", type=real, default=1.0, help="factor of A B (%(default)s)")
    command.add_argument("--beta", type=real, default=0.0, help="factor of C (%(default)s)")
    command.add_argument("--activation", help=activations())
    command.add_argument(
        "--config", help="changes to the chosen configuration: tile=64x64x32,stages=2"
    )


def _add_backend(command: ArgumentParser) -> None:
    command.add_argument("--backend", default="auto", help=SUPPRESS)


def majors(text: str) -> tuple[str, ...]:
    """Return two of K and MN, the type of an option."""
    words = tuple(text.upper().split(","))
    if len(words) != 2 or not {"K", "MN"}.issuperset(words):
        raise ArgumentTypeError(f"given {text!r}; required: two of K and MN; fix: write K,MN")
    return words


# -- the commands


def _gemm(given: Namespace) -> int:
    if given.output is not None:
        fix = "leave --out-dtype out: the file is f32 then"
        require_file_type(as_dtype(given.out_dtype), "gemm", fix)
    return written(given.output, lambda: _multiplied(given))


def _multiplied(given: Namespace) -> tuple[Array, int]:
    """Return the product, and the exit code; print what it took."""
    call = _call(given)
    result = computed(call, given, "multiplying", report=given.report)
    error = error_of(result, call, judge=given.check)
    print(f"error    {error} against NumPy")
    if given.report and call.report is not None:
        print(call.report)
    return result, WRONG if error.within is False else 0


def written(path: str | None, compute: Callable[[], tuple[Array, int]]) -> int:
    """Write a result to a file, if there is a path; return the exit code that comes with it."""
    if path is None:
        return compute()[1]
    file = Output(path)
    with file.messages():
        with file:
            result, code = compute()
            np.save(file, result, allow_pickle=False)
        print(f"wrote    {path}: {dtype_of(result)} {_sizes(result.shape)}")
    return code


def computed(call: Call, given: Namespace, doing: str, **options: Any) -> Array:
    """Return the result of a call; print how it is computed, and how long that took."""
    config = call.config or "none: there is nothing to choose"
    print(f"config   {config}\nplan     {summary(call)}", flush=True)
    start, checks = perf_counter(), given.checks or given.check
    with Bar(doing, "blocks", lambda s: print(f"left     about {s:.0f} s", flush=True)) as bar:
        result: Array = call.run(progress=bar.update, checks=checks, **options)
    print(f"time     {perf_counter() - start:.3g} s on the emulator")
    return result


def _plan(given: Namespace) -> None:
    call = _planned(given)
    plan = call.plan()
    for line in call.config.explain().splitlines():
        print(f"# {line}")
    print(plan)


def _planned(given: Namespace) -> Call:
    """Return the product to plan: of zeros, since a plan does not depend on values."""
    _require_source(given)
    kind = as_dtype(given.dtype or "bf16")
    shapes = (given.m, given.k), (given.k, given.n)
    _require_memory([*shapes])
    a = np.zeros(shapes[0], kind.numpy, "C" if given.majors[0] == "K" else "F")
    b = np.zeros(shapes[1], kind.numpy, "F" if given.majors[1] == "K" else "C")
    c = np.zeros((given.m, given.n), np.float32) if given.beta else None
    bias = np.zeros(given.n, np.float32) if given.bias else None
    call = _asked(given, [a, b, c, bias], kind)
    require_some(call.inputs.shape, "plan")
    return call


def require_some(shape: tuple[int, ...], command: str) -> None:
    """Refuse to plan an empty product, which has no kernel."""
    if 0 in shape:
        raise refusal("cli-gemm", operation=command, given="an empty product")


def summary(call: Call) -> str:
    """Return a plan in one line: launch shape, memory, registers, ops."""
    if 0 in call.outputs[0].shape:
        return "none: the result is empty"
    plan: Plan = call.plan()
    steps = [op for op in plan.ops if not isinstance(op, Promise)]  # which take no instruction
    counts = Counter(type(op).__name__ for op in steps)
    ops = ", ".join(f"{n} {name}" for name, n in counts.most_common(4))
    launch = f"{call.blocks} blocks of {plan.launch.threads} threads"
    memory = f"{plan.smem_bytes} bytes shared, about {plan.registers} registers"
    return f"{launch}, {memory}, {len(steps)} ops ({ops} ...)"


# -- the operands


def _call(given: Namespace) -> Call:
    """Return the call of the kernel for files, or for generated data."""
    kind = given.dtype or ("bf16" if given.a is None else None)
    return _asked(given, _operands(given), kind)


def _asked(given: Namespace, arrays: list[Any], dtype: DtypeLike | None) -> Call:
    a, b, c, bias = arrays
    request = Request(
        a,
        b,
        c,
        bias,
        alpha=given.alpha,
        beta=given.beta,
        activation=given.activation,
        out_dtype=given.out_dtype,
        backend=given.backend,
        config=given.config,
        dtype=dtype,
    )
    return Product(*GEMM.taken(request)).call()


def _operands(given: Namespace) -> list[Any]:
    """Return A, B, C and bias, from files or generated, if the free memory holds them."""
    _require_source(given)
    names = "a", "b", "c", "bias"
    paths = [getattr(given, name) for name in names]
    shapes = [x if x is None else _shape_of(x, name) for x, name in zip(paths, names, strict=True)]
    if given.a is None:
        shapes[:2] = [(given.m, given.k), (given.k, given.n)]
    _require_memory([s for s in shapes if s is not None])
    arrays = [None if path is None else load(path) for path in paths]
    if given.a is None:
        rng = np.random.default_rng(given.seed)
        is_whole = given.dtype is not None and not as_dtype(given.dtype).is_float
        arrays[:2] = [
            rng.integers(0, 8, s) if is_whole else rng.standard_normal(s) for s in shapes[:2]
        ]
    return arrays


def _shape_of(path: str, name: str) -> tuple[int, ...]:
    """Return the shape of the array in a file; refuse other values than numbers, and an operand
    of fewer than two modes.
    """
    shape, kind = header(path)
    is_operand = name in ("a", "b")
    if kind.kind in NUMBERS and not (is_operand and len(shape) < 2):
        return shape
    found, fix = f"shape {_sizes(shape)}", "save array.reshape(1, -1), which is a row"
    if kind.kind not in NUMBERS:
        found, fix = str(kind), "convert it before it is saved: array.astype('f4')"
    wanted = "a matrix of numbers" if is_operand else "an array of numbers"
    facts = {"path": path, "name": name, "found": found, "wanted": wanted, "fix": fix}
    raise refusal("cli-matrix", operation="gemm", **facts)


def _require_memory(shapes: list[tuple[int, ...]]) -> None:
    """Refuse operands and terms that are too large to be read and compared with a reference."""
    (*batch, m, _k), (*_batch, n) = shapes[:2]
    result = (*batch, m, n)
    parts = [(shape, DOUBLE) for shape in (*shapes, result, result)]
    require_arrays(GEMM.name, *parts, words=GEMM.words)


def _require_source(given: Namespace) -> None:
    sizes = [given.m, given.n, given.k]
    files = given.a is not None and given.b is not None
    if (files and sizes == [None] * 3) or (given.a is None and None not in sizes):
        return
    parts = [f"--{n} {v}" for n, v in zip("mnk", sizes, strict=True) if v is not None]
    parts += [x for x in (given.a, given.b) if x is not None]
    raise refusal("cli-gemm", operation="gemm", given=" ".join(parts) or "no operands")


def require_file_type(kind: Dtype, command: str, fix: str) -> None:
    """Refuse to write results of a type that plain numpy.load does not know."""
    if kind.name not in FILES:
        facts: dict[str, Any] = {"dtype": kind, "known": ", ".join(FILES), "fix": fix}
        raise refusal("cli-out-dtype", operation=command, **facts)


def _sizes(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(map(str, shape)) + ")"


# -- files of arrays, read without unpickling


def header(path: str, command: str = "gemm") -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type of the array in a .npy file that a command is given, without
    reading the array.
    """
    try:
        found = os.stat(path)
    except OSError as error:
        raise _unread(command, path, error.strerror or "cannot be read") from None
    if stat.S_IFMT(found.st_mode) in ODD:
        raise _unread(command, path, f"{ODD[stat.S_IFMT(found.st_mode)]}, no plain file")
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0
            if version > (1, 0):
                read = np.lib.format.read_array_header_2_0
            shape, _fortran, kind = read(file)
            rest = found.st_size - file.tell()
    except OSError as error:
        raise _unread(command, path, error.strerror or "cannot be read") from None
    except Exception:  # the parser of a broken header raises what Python's tokenizer does, and more
        raise _unread(command, path, "not an array file") from None
    if not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise _unread(command, path, "not an array file")
    if kind.hasobject:
        raise _unread(command, path, "an array of Python objects, which is never unpickled")
    if prod(shape) * kind.itemsize > rest:
        raise _unread(command, path, SHORT)
    return shape, kind


def load(path: str, command: str = "gemm") -> Array:
    """Return the array in a .npy file that a command is given."""
    header(path, command)
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except OSError as error:
        raise _unread(command, path, error.strerror or "cannot be read") from None
    except (ValueError, EOFError):
        raise _unread(command, path, SHORT) from None


def _unread(command: str, path: str, reason: str) -> CuteError:
    return refusal("cli-npy", operation=command, path=path, reason=reason)
