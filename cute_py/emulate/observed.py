"""Strong operations whose order somebody may see: atomics, releases, acquires and waits for values.

Atomics of one function without old values, such as sums, give the same in all orders (those of
floats but for rounding). At a place where anything else happens, a value that is found, waited for
or left may depend on who comes first. These operations set blocks and warps apart, and `order=`
and `cute.check_orders` choose among them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from cute_py.plan import ops

if TYPE_CHECKING:
    from collections.abc import Container

    from cute_py.plan.access import Access
    from cute_py.plan.plan import Plan

COMMUTING = ("add", "min", "max", "and", "or", "xor")


def target(op: ops.Op) -> Access | None:
    """Return where an operation of threads is strong; None for others."""
    if isinstance(op, ops.Atomic) or (isinstance(op, ops.Store) and op.order != "weak"):
        return op.dst
    if isinstance(op, ops.WaitUntil) or (isinstance(op, ops.Load) and op.order != "weak"):
        return op.src
    return None


def effect(op: ops.Op) -> str:
    """Return what a strong operation does: read, write, update (finds the old value, too), or the
    function and type of an atomic that commutes with others of these.
    """
    if isinstance(op, ops.Atomic):
        commutes = f"{op.fn} {op.dst.dtype}" if op.fn in COMMUTING else "write"
        return "update" if op.old is not None else commutes
    return "write" if isinstance(op, ops.Store) else "read"


def touched(op: ops.Op) -> str | None:
    """Return the storage at which an operation is strong, a reduction by TMA included."""
    if isinstance(op, ops.TmaStore):
        return op.tensor if op.reduce else None
    access = target(op)
    return None if access is None else access.storage


def writes_to(op: ops.Op, storages: Container[str], takes: bool = True) -> bool:
    """Tell whether a strong operation writes to one of these storages; `takes`: count `cas`, which
    takes a lock as a rule, and does not end a loop that waits for it.
    """
    access = target(op)
    if access is None or access.storage not in storages or effect(op) == "read":
        return False
    return takes or not (isinstance(op, ops.Atomic) and op.fn == "cas")


def observed(plan: Plan) -> frozenset[str]:
    """Return the storages at which the order of strong operations may be seen. Those that may share
    memory count as one: arrays, if there are pointers, and overlapping shared storages.
    """
    pointed = any(isinstance(op, ops.MakePtr) for op in plan.ops)
    spans = sorted((row.offset, row.offset + row.bytes) for row in plan.shared)
    overlap = any(start < end for (_, end), (start, _) in pairwise(spans))
    effects: dict[str, set[str]] = {}
    names: dict[str, str] = {}  # of storages -> what they count as
    for op in plan.ops:
        name, access = touched(op), target(op)
        if name is not None:
            space = "gmem" if access is None else access.space
            names[name] = group = space if (overlap if space == "smem" else pointed) else name
            reduced = isinstance(op, ops.TmaStore) and f"{op.reduce} {op.box.tile.dtype}"
            effects.setdefault(group, set()).add(reduced or effect(op))
    alone = {"read", "write", "update"}
    seen = {group for group, each in effects.items() if len(each) > 1 or each & alone}
    return frozenset(name for name, group in names.items() if group in seen)


def rounds(op: ops.Op) -> bool:
    """Tell whether an operation adds floats to memory: a sum of several is rounded after each."""
    if isinstance(op, ops.Atomic):
        return op.fn == "add" and op.dst.dtype.is_float
    return isinstance(op, ops.TmaStore) and op.reduce == "add" and op.box.tile.dtype.is_float
