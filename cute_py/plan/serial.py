"""Plans as versioned JSON text, one op per line.

    {"cute_py plan": 4, "name": ..., "symbols": {...}, "params": [...], ..., "body": [
      {"op": "Fill", ...},
    ]}

Expressions are strings over the symbols, whose bounds are in the head. Atoms are written by name,
and must be rows of the registry.

A file may come from anybody: reading one runs no code, and imports nothing that it names. Fields
have the types of their annotations (`fields`), names are names, and what remains is `verify`'s.
"""

from __future__ import annotations

import ast
import json
from dataclasses import is_dataclass, replace

from cute_py.atoms.copy import Copy_Op
from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.table import Dtype
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import CuteError, refusal
from cute_py.integers import ints
from cute_py.integers.polynomial import Min, Symbol, numbers_of, symbols_of
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan import access, conditions, launch, ops, params, plan
from cute_py.plan.fields import LEAST, MOST, problem_of, shortened
from cute_py.plan.names import require_names
from cute_py.plan.op import saved_names
from cute_py.plan.ops import matrix, memory, registers
from cute_py.plan.verify import verify
from cute_py.plan.walk import accesses, every, parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.integers.ints import Leaf

VERSION = 6
DEEPEST = 128  # levels of a file: an op in a block, or a condition in another, takes two
LONGEST = 1 << 13  # characters of an expression, as it is written and in normal form
MOST_OPTIONS = 16  # of a minimum
WIDEST = 1 << 256  # the bounds of a symbol: products of numbers of 64 bits
MOST_TERMS = 1 << 10  # of an expression that is multiplied out

_RECORDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *ops.OPS,
        matrix.Tile,
        memory.Box,
        memory.Im2col,
        registers.Emulation,
        access.Access,
        access.Bound,
        conditions.Reg,
        conditions.Compare,
        conditions.Logic,
        conditions.Not,
        conditions.Test,
        params.Members,
        params.TensorParam,
        params.ScalarParam,
        launch.Launch,
        params.Shared,
        params.Registers,
    )
}


# -- writing


def dumps(x: plan.Plan) -> str:
    """Return a plan as text; `loads` restores an equal plan (as far as its NaN equal another)."""
    head = {
        "cute_py plan": VERSION,
        "name": x.name,
        "symbols": _symbols(x),
        "params": _encoded(x.params),
        "launch": _encoded(x.launch),
        "shared": _encoded(x.shared),
        "storages": _encoded(x.storages),
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = ",\n".join(_op_lines(x.body, 1))
    return "{" + "\n".join(lines) + '\n"body": [\n' + body + "\n]}\n"


def _op_lines(block: ops.Block, depth: int) -> list[str]:
    """Return each op as text; an op with blocks spans several lines."""
    return [_op_text(op, depth) for op in block]


def _op_text(op: ops.Op, depth: int) -> str:
    indent = "  " * depth
    parts = [f'"op": {json.dumps(type(op).__name__)}']
    for name in saved_names(type(op)):
        value = getattr(op, name)
        if name in op.blocks:
            inner = ",\n".join(_op_lines(value, depth + 1))
            parts.append(f'"{name}": [\n{inner}\n{indent}]' if inner else f'"{name}": []')
        else:
            parts.append(f'"{name}": {json.dumps(_encoded(value))}')
    return indent + "{" + ", ".join(parts) + "}"


def _encoded(x: Any) -> Any:  # a JSON value
    if isinstance(x, tuple):
        return [_encoded(part) for part in x]
    if isinstance(x, SymInt):
        return {"expr": str(x)}
    if isinstance(x, Dtype):
        return {"dtype": x.name}
    if isinstance(x, MMA_Atom):
        return {"mma": str(x)}
    if isinstance(x, Copy_Op):
        return {"copy": str(x)}
    if is_dataclass(x):
        return {
            "is": type(x).__name__,
            **{name: _encoded(getattr(x, name)) for name in saved_names(type(x))},
        }
    return x


def _symbols(x: plan.Plan) -> dict[str, list[int | None]]:
    """Return (multiple_of, lo, hi) of all symbols of a plan, by name."""
    body = tuple(every(x.body))
    asserted = tuple([bound for op in body for a in accesses(op) for bound in a.asserted])
    every_part = parts((x.params, x.launch, body, asserted))
    found = {
        symbol.name: [symbol.multiple_of, symbol.lo, symbol.hi]
        for part in every_part
        if isinstance(part, SymInt)
        for symbol in symbols_of(terms_of(part))
    }
    return dict(sorted(found.items()))


# -- reading


def loads(text: str) -> plan.Plan:
    """Return the plan that `dumps` wrote; refuse malformed text and other versions."""
    data = _data(text)
    try:
        return _read(data)
    except RecursionError:
        raise _no_plan("it is nested too deeply") from None
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, CuteError):
            raise
        raise _no_plan(f"{type(error).__name__}: {error}") from error


def _no_plan(said: object) -> CuteError:
    return refusal("plan-text", operation="Plan.load", said=said)


def _data(text: str) -> dict[str, Any]:
    """Return the head and the body of a plan of this version, as JSON has them."""
    try:
        data = json.loads(text, object_pairs_hook=_once)
        version = data["cute_py plan"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _no_plan(str(error)) from None
    if version != VERSION:
        found = shortened(version)
        raise refusal("plan-version", operation="Plan.load", version=found, known=VERSION)
    if _is_deep(data):
        raise _no_plan(f"it is nested more than {DEEPEST} levels deep")
    return data  # type: ignore[no-any-return]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key twice in {shortened(pairs)}")
    return found


def _is_deep(data: Any) -> bool:  # a JSON value
    level = [data]
    for _depth in range(DEEPEST):
        inner = [x.values() if isinstance(x, dict) else x for x in level]
        level = [x for each in inner for x in each if isinstance(x, (dict, list))]
        if not level:
            return False
    return True


def _read(data: dict[str, Any]) -> plan.Plan:
    declared = data.pop("symbols", None)
    del data["cute_py plan"]
    if declared.__class__ is not dict:
        raise _no_plan("no symbols")
    names: dict[str, Leaf] = {name: _symbol(name, bounds) for name, bounds in declared.items()}
    given = {key: _decoded(x, names) for key, x in data.items()}
    read: plan.Plan = replace(_made(plan.Plan, given), foreign=True)
    verify(read)
    require_names(read)
    return read


def _made(kind: type[Any], given: dict[str, Any]) -> Any:  # a record
    problem = problem_of(kind, given)
    if problem:
        raise _no_plan(problem)
    return kind(**given)


def _symbol(name: str, bounds: Any) -> SymInt:
    """Return a symbol from (multiple_of, lo, hi)."""
    fits = bounds.__class__ is list and len(bounds) == 3
    fits = fits and all(x is None or (x.__class__ is int and abs(x) < WIDEST) for x in bounds)
    if not fits or bounds[0] is None or not 1 <= bounds[0] <= MOST:
        raise _no_plan(f"the symbol {shortened(name)}: {shortened(bounds)}")
    multiple_of, low, high = bounds
    if low is not None and high is not None and low > high:
        raise _no_plan(f"the symbol {shortened(name)} from {low} to {high}")
    return SymInt({(Symbol(name, multiple_of, low, high),): multiple_of})


def _mma(name: str) -> MMA_Atom:
    from cute_py.atoms.registry import get

    return get(name)


def _copy(name: str) -> Copy_Op:
    from cute_py.atoms.registry import get_copy

    return get_copy(name)


_TAGS: dict[str, Callable[[str], Any]] = {"dtype": as_dtype, "mma": _mma, "copy": _copy}


def _decoded(x: Any, names: dict[str, Leaf]) -> Any:  # a record
    if isinstance(x, list):
        return tuple([_decoded(part, names) for part in x])
    if isinstance(x, str) and not _is_text(x):
        raise _no_plan(f"the text {shortened(x)}")
    if not isinstance(x, dict):
        return x
    tag, value = next(iter(x.items()), ("", None))
    if value.__class__ is not str:
        raise _no_plan(f"{shortened(tag)}: {shortened(value)}")
    if len(x) == 1 and tag == "expr":
        return _expression(value, names)
    if len(x) == 1 and tag in _TAGS:
        return _TAGS[tag](value)
    kind = _RECORDS.get(value) if tag in ("op", "is") else None
    if kind is None or (tag == "op") is not issubclass(kind, ops.Op):
        raise _no_plan(f"{shortened(tag)}: {shortened(value)}")
    return _made(kind, {k: _decoded(v, names) for k, v in x.items() if k != tag})


def _is_text(x: str) -> bool:
    """Return whether a text can be written to a file: it has no half of a pair of UTF-16."""
    return not any("\ud800" <= letter <= "\udfff" for letter in x)


_BINARY: dict[type[ast.operator], Any] = {
    ast.Add: ints.add,
    ast.Sub: ints.sub,
    ast.Mult: ints.mul,
    ast.FloorDiv: ints.div,
    ast.Mod: ints.mod,
}
_CALLS = {"ceil_div": ints.ceil_div, "min": ints.min_}


def _expression(text: str, names: dict[str, Leaf]) -> Leaf:
    """Return the value of an expression: names, integers, + - * // %, ceil_div and min."""
    try:
        if len(text) > LONGEST:
            raise ValueError(f"{len(text)} characters")
        return _evaluated(ast.parse(text, mode="eval").body, names)
    except (SyntaxError, ValueError, ZeroDivisionError, MemoryError, RecursionError) as error:
        if isinstance(error, CuteError):
            raise
        raise _no_plan(f"the expression {shortened(text)}: {type(error).__name__}") from None


def _evaluated(node: ast.expr, names: dict[str, Leaf]) -> Leaf:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _small(node.value)
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return ints.neg(_evaluated(node.operand, names))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _applied(_BINARY[type(node.op)], node.left, node.right, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _CALLS.get(node.func.id)
        if function is not None and node.args:
            total = _evaluated(node.args[0], names)
            for each in node.args[1:]:
                total = _small(function(total, _evaluated(each, names)))
            return total
    raise _no_plan(f"the expression {shortened(ast.unparse(node))}")


def _applied(rule: Any, left: ast.expr, right: ast.expr, names: dict[str, Leaf]) -> Leaf:
    a, b = _evaluated(left, names), _evaluated(right, names)
    if rule is ints.mul and len(terms_of(a)) * len(terms_of(b)) > MOST_TERMS:
        raise ValueError("too many terms")
    return _small(rule(a, b))


def _small(x: Leaf) -> Leaf:
    """Return a value; refuse numbers in it beyond 64 bits, and normal forms that grow with each
    step, as those of remainders of remainders.
    """
    atoms = [atom for monomial in terms_of(x) for atom in monomial]
    if any(isinstance(atom, Min) and len(atom.options) > MOST_OPTIONS for atom in atoms):
        raise ValueError("too many options")
    if sum(len(atom.key) for atom in atoms) > LONGEST:
        raise ValueError("too long")
    if all(LEAST <= n <= MOST for n in numbers_of(terms_of(x))):
        return x
    raise ValueError("beyond 64 bits")
