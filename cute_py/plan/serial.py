"""Plans as versioned JSON text, one op per line.

    {"cute_py plan": 4, "name": ..., "symbols": {...}, "params": [...], ..., "body": [
      {"op": "Fill", ...},
    ]}

Expressions are strings over the symbols, whose bounds are in the head. Atoms are written by name,
and must be rows of the registry.
"""

from __future__ import annotations

import ast
import json
from dataclasses import is_dataclass

from cute_py.atoms.copy import Copy_Op
from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.table import Dtype
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.integers.polynomial import Symbol, symbols_of
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan import access, conditions, launch, ops, plan
from cute_py.plan.op import saved_names
from cute_py.plan.ops import matrix, memory, registers
from cute_py.plan.verify import verify
from cute_py.plan.walk import accesses, every, parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.integers.ints import Leaf

VERSION = 4

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
        plan.Members,
        plan.TensorParam,
        plan.ScalarParam,
        launch.Launch,
        plan.Shared,
        plan.Registers,
    )
}


# -- writing


def dumps(x: plan.Plan) -> str:
    """Return a plan as text; `loads` restores an equal plan."""
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
    try:
        data = json.loads(text)
        version = data["cute_py plan"]
    except (ValueError, KeyError, TypeError) as error:
        raise refusal("plan-text", operation="Plan.load", said=str(error)) from None
    if version != VERSION:
        raise refusal("plan-version", operation="Plan.load", version=version, known=VERSION)
    names: dict[str, Leaf] = {
        name: SymInt({(Symbol(name, *bounds),): bounds[0]})
        for name, bounds in data["symbols"].items()
    }
    parts = {
        key: _decoded(data[key], names)
        for key in ("params", "launch", "shared", "storages", "body")
    }
    read = plan.Plan(name=data["name"], **parts)
    verify(read)
    return read


def _decoded(x: Any, names: dict[str, Leaf]) -> Any:  # a record
    if isinstance(x, list):
        return tuple([_decoded(part, names) for part in x])
    if not isinstance(x, dict):
        return x
    if "expr" in x:
        return _evaluated(ast.parse(x["expr"], mode="eval").body, names)
    if "dtype" in x and len(x) == 1:
        return as_dtype(x["dtype"])
    if "mma" in x:
        from cute_py.atoms.registry import get

        return get(x["mma"])
    if "copy" in x:
        from cute_py.atoms.registry import get_copy

        return get_copy(x["copy"])
    kind = _RECORDS[x.get("op") or x["is"]]
    given = {k: _decoded(v, names) for k, v in x.items() if k not in ("op", "is")}
    return kind(**given)


_BINARY: dict[type[ast.operator], Any] = {
    ast.Add: ints.add,
    ast.Sub: ints.sub,
    ast.Mult: ints.mul,
    ast.FloorDiv: ints.div,
    ast.Mod: ints.mod,
}
_CALLS = {"ceil_div": ints.ceil_div, "min": ints.min_}


def _evaluated(node: ast.expr, names: dict[str, Leaf]) -> Leaf:
    """Return the value of an expression: names, integers, + - * // %, ceil_div and min."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return ints.neg(_evaluated(node.operand, names))
    if isinstance(node, ast.BinOp):
        a, b = _evaluated(node.left, names), _evaluated(node.right, names)
        return _BINARY[type(node.op)](a, b)  # type: ignore[no-any-return]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        values = [_evaluated(arg, names) for arg in node.args]
        total = values[0]
        for value in values[1:]:
            total = _CALLS[node.func.id](total, value)
        return total
    raise refusal("plan-text", operation="Plan.load", said=ast.dump(node))
