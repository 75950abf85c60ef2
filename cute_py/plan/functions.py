"""The element-wise functions of `Map` and the combining ones of `Reduce` and `Atomic`: one table.

Each backend has one rule per name. A function computes in the dtype of its sources; comparisons and
logic give b1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Function:
    """One function: its name, how many sources, whether it gives b1, and for which types it is:
    "any", "float", "int" or "bool".
    """

    name: str
    arity: int
    domain: str = "any"
    compares: bool = False
    approximate: bool = False  # on a GPU by a special-function unit, within a documented bound


FUNCTIONS: dict[str, Function] = {
    f.name: f
    for f in (
        Function("copy", 1),
        Function("neg", 1),
        Function("abs", 1),
        Function("not", 1, "int"),
        Function("add", 2),
        Function("sub", 2),
        Function("mul", 2),
        Function("div", 2, "float"),
        Function("floordiv", 2, "int"),
        Function("mod", 2, "int"),
        Function("min", 2),
        Function("max", 2),
        Function("and", 2, "int"),
        Function("or", 2, "int"),
        Function("xor", 2, "int"),
        Function("shl", 2, "int"),
        Function("shr", 2, "int"),
        Function("fma", 3),
        *[Function(test, 2, compares=True) for test in ("lt", "le", "gt", "ge", "eq", "ne")],
        Function("where", 3),  # a condition (b1) and two values
        Function("sqrt", 1, "float"),
        *[
            Function(name, 1, "float", approximate=True)
            for name in ("exp2", "exp", "log2", "log", "tanh", "rsqrt", "rcp", "sin", "cos")
        ],
        Function("erf", 1, "float"),
        Function("floor", 1, "float"),
        Function("ceil", 1, "float"),
    )
}

REDUCTIONS = ("add", "mul", "min", "max", "and", "or", "xor")
ATOMICS = ("add", "min", "max", "exch", "and", "or", "xor")
