"""Strong operations whose order somebody may see: atomics, releases, acquires and waits for values.

Atomics of one function without old values, such as sums, give the same in all orders (those of
floats but for rounding). At a place where anything else happens, a value that is found, waited for
or left may depend on who comes first. These operations set blocks and warps apart, and `order=`
and `cute.check_orders` choose among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cute_py.plan import ops

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    function of an atomic that commutes with others of it.
    """
    if isinstance(op, ops.Atomic):
        return "update" if op.old is not None else op.fn if op.fn in COMMUTING else "write"
    return "write" if isinstance(op, ops.Store) else "read"


def observed(plan: Plan) -> frozenset[str]:
    """Return the storages at which the order of strong operations may be seen. Those that may share
    memory are taken together: arrays, if there are pointers, and overlapping shared storages.
    """
    effects: dict[str, set[str]] = {}
    group = _groups(plan)
    for op in plan.ops:
        access = target(op)
        if access is not None:
            effects.setdefault(group(access), set()).add(effect(op))
        elif isinstance(op, ops.TmaStore) and op.reduce:
            effects.setdefault(op.tensor, set()).add(op.reduce)
    seen = {name for name, each in effects.items() if len(each) > 1 or not each <= {*COMMUTING}}
    accesses = [access for op in plan.ops if (access := target(op)) is not None]
    return frozenset(access.storage for access in accesses if group(access) in seen)


def _groups(plan: Plan):  # type: ignore[no-untyped-def]
    """Return a function of an access: the name of its storage, or of all that may overlap."""
    pointed = any(isinstance(op, ops.MakePtr) for op in plan.ops)
    spans = sorted((row.offset, row.offset + row.bytes) for row in plan.shared)
    overlap = any(start < end for (_, end), (start, _) in zip(spans, spans[1:], strict=False))

    def group(access: Access) -> str:
        shared = access.space == "smem"
        return access.space if (overlap if shared else pointed) else access.storage

    return group


def rounds(op: ops.Op) -> bool:
    """Tell whether an operation adds floats to memory: a sum of several is rounded after each."""
    if isinstance(op, ops.Atomic):
        return op.fn == "add" and op.dst.dtype.is_float
    return isinstance(op, ops.TmaStore) and op.reduce == "add" and op.box.tile.dtype.is_float


def lines_that_round(every: Iterable[ops.Op]) -> list[tuple[str, int]]:
    """Return the lines of ops that add floats to memory."""
    return sorted({op.line for op in every if rounds(op)})
