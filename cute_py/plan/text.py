"""Temporary names, until the printer asks the ops themselves."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.plan.op import Op


def where_of(op: Op) -> str:
    """Return `op.where`."""
    return op.where


def op_text(op: Op) -> str:
    """Return `str(op)`."""
    return str(op)
