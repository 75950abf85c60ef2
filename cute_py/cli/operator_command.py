"""`cute-py run OPERATOR`: any operator of `cute.ops` on files or generated data."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from inspect import Parameter, getdoc

import numpy as np

from cute_py.cli.arguments import real, whole
from cute_py.cli.gemm_command import (
    DOUBLE,
    WRONG,
    computed,
    header,
    load,
    require_file_type,
    written,
)
from cute_py.dtypes.conversion import convert
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.dtypes.table import from_numpy
from cute_py.errors import refusal
from cute_py.ops import operators
from cute_py.ops.memory import require_arrays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from cute_py.dtypes.table import Array
    from cute_py.ops.operator import Operator

OURS = ("backend", "checks")  # parameters that are options of all
SHAPE = re.compile(r"\d+(x\d+)*")
WITHIN = (
    16  # units of the last place of the result: what --check takes for the reference's rounding
)


def add_run(command: ArgumentParser) -> None:
    """Add an operator as a command of its own, with its parameters."""
    kinds = command.add_subparsers(title="operators", required=True, metavar="OPERATOR")
    for name, found in operators().items():
        sentence = (getdoc(found.public) or "").partition("\n\n")[0]
        each = kinds.add_parser(name, help=sentence, description=sentence)
        each.set_defaults(run=_run, operator=found)
        _add(each, found)


def _add(command: ArgumentParser, operator: Operator) -> None:
    for name, p in operator.parameters.items():
        if name in operator.outputs or name in OURS:
            continue
        if name in operator.arrays:
            how: dict[str, Any] = {} if p.default is Parameter.empty else {"nargs": "?"}
            command.add_argument(
                name, metavar=name.upper(), help="FILE.npy, or a shape: 64x32", **how
            )
        elif str(p.annotation) == "bool":
            command.add_argument(f"--{name.replace('_', '-')}", dest=name, action="store_true")
        else:
            kind: dict[str, Any] = {"float": real, "int": _modes}
            several = ("int | Sequence[int] | None", "int | tuple[int, int]", "Sequence[int]")
            kind |= dict.fromkeys(several, _modes)
            kind["int | str | tuple[Any, Any]"] = _padding
            command.add_argument(
                f"--{name.replace('_', '-')}",
                dest=name,
                type=kind.get(str(p.annotation), str),
                **_default(p),
            )
    command.add_argument("--type", help="of generated data (f32)")
    command.add_argument("--seed", type=whole(0, None), help="of it (0)")
    command.add_argument("-o", dest="output", metavar="OUT.npy", help="write the result")
    command.add_argument("--check", action="store_true", help="compare with a reference in float64")
    command.add_argument("--checks", metavar="NAMES", help="make these checks of the emulator")


def _default(p: Parameter) -> dict[str, Any]:
    if p.default is Parameter.empty:
        return {"required": True}
    return {"default": p.default, "help": f"({p.default})"}


def _modes(text: str) -> int | tuple[int, ...]:
    try:
        modes = tuple(map(int, text.split(",")))
    except ValueError:
        raise ArgumentTypeError(f"given {text!r}; required: modes; fix: write 0,-1") from None
    return modes[0] if len(modes) == 1 else modes


def _padding(text: str) -> int | str | tuple[int, ...]:
    return text if text.isalpha() else _modes(text)


def _run(given: Namespace) -> int:
    return written(given.output, lambda: _computed(given))


def _computed(given: Namespace) -> tuple[Array, int]:
    """Return the result, and the exit code; print how it is computed and what that took."""
    operator: Operator = given.operator
    arrays = _arrays(given, operator)
    names = [x for x in operator.parameters if x not in (*operator.arrays, *OURS)]
    named = {name: getattr(given, name) for name in names}
    problem = operator.problem_of(**arrays, **named, checks=given.checks or False)
    if given.output is not None:
        require_file_type(problem.kind, "run", "leave -o out, or give operands of another type")
    if problem.is_known:
        result = operator.public(**arrays, **named)
        print(f"plan     none: {problem.explained()}")
    else:
        result = computed(problem.call(), given, "computing")
    return result, _checked(operator, arrays, named, result) if given.check else 0


def _checked(operator: Operator, arrays: Any, named: Any, result: Array) -> int:
    """Compare a result with the reference, where there is one; return the exit code."""
    reference = operator.problem.reference
    if reference is None:
        print("error    not known: this operator has no reference")
        return 0
    kind = from_numpy(result.dtype)
    wide = {name: _wide(x) for name, x in arrays.items()}
    with np.errstate(all="ignore"):
        exact = np.asarray(reference(**wide, **named))
        want = np.asarray(convert(exact, kind, "to_nearest")).astype(np.float64)
        found = result.astype(np.float64)
        far = np.where(
            (found == want) | (np.isnan(found) & np.isnan(want)), 0, np.abs(found - want)
        )
    unit = 2.0**-kind.mantissa_bits if kind.is_float else 0.0
    most = float(far.max(initial=0))
    within = most <= WITHIN * unit * float(np.abs(want).max(initial=0, where=np.isfinite(want)))
    print(
        f"error    max abs {most:.3g}, {'within the bound' if within else 'OUTSIDE OF THE BOUND'}"
    )
    return 0 if within else WRONG


def _wide(x: Array) -> Array:
    kind = from_numpy(x.dtype.newbyteorder("="))
    return x.astype(np.float64 if kind.is_float else np.int64)


def _arrays(given: Namespace, operator: Operator) -> dict[str, Any]:
    """Return the arrays by name, from files or generated, if the free memory holds them."""
    texts = [x for n in operator.arrays if (x := getattr(given, n, None)) is not None]
    for name in ("type", "seed"):
        if getattr(given, name) is not None and not any(map(SHAPE.fullmatch, texts)):
            raise refusal("cli-generated", operation="run", name=name)
    found: dict[str, Any] = {}
    rng, kind = np.random.default_rng(given.seed or 0), as_dtype(given.type or "f32")
    for name in operator.arrays:
        text = getattr(given, name, None)
        if text is None or name in operator.outputs:
            continue
        is_shape = SHAPE.fullmatch(text) is not None
        shape = tuple(map(int, text.split("x"))) if is_shape else header(text, "run")[0]
        require_arrays(operator.name, (shape, DOUBLE), (shape, DOUBLE), words=operator.words)
        if not is_shape:
            found[name] = load(text, "run")
        elif name in operator.problem.indices:
            found[name] = rng.integers(0, 2, shape).astype(np.int32)
        elif kind.is_float:
            found[name] = np.asarray(convert(rng.standard_normal(shape), kind))
        else:
            found[name] = rng.integers(0, 8, shape).astype(kind.numpy)
    return found
