"""What the emulator refuses: the checks that can be switched, and the errors of what a kernel did,
where, and by which thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.errors import CuteError, refusal, suggestion

if TYPE_CHECKING:
    from cute_py.emulate.spans import Array, Span
    from cute_py.plan.ops import Op
    from cute_py.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Check:
    """What a check refuses.

    Attributes:
        refuses: in words.
        rule: the section of the PTX ISA, or of cute_py's documentation, that says so.
        codes: those of its errors, without `emulate-`.
    """

    refuses: str
    rule: str
    codes: tuple[str, ...]


CHECKS = {
    "shared": Check(
        "accesses to shared memory that nothing orders, and reads of what nothing has written",
        "Memory Consistency Model; cp.async; Async proxy",
        ("race", "lanes", "copy-pending", "async-pending", "proxy-fence", "smem-unwritten"),
    ),
    "global": Check(
        "accesses to global memory that nothing orders, including after the preceding kernels with "
        "pdl=True, and TMA where threads stored",
        "Memory Consistency Model; Async proxy; griddepcontrol",
        ("global-race", "proxy-global", "pdl"),
    ),
    "registers": Check(
        "registers that are read before they are written, or while wgmma uses them",
        "wgmma.fence, wgmma.wait_group",
        ("register-unwritten", "wgmma-pending", "wgmma-fence"),
    ),
    "coordinates": Check(
        "coordinates outside their mode",
        "the shape of the tensor",
        ("mode",),
    ),
    "mbarriers": Check(
        "mbarriers that are used before their init is known, initialised again while they are "
        "valid, or ended while in use; memory of mbarriers that is written; arrivals and waits "
        "that may belong to another phase",
        "mbarrier.init, mbarrier.inval, fence.mbarrier_init, mbarrier.try_wait",
        ("mbarrier-early", "mbarrier-again", "mbarrier-busy", "mbarrier-lost", "mbarrier-phase"),
    ),
    "lifetimes": Check(
        "accesses to shared memory of a block that may not have begun, or ends while it is in use",
        "mapa, cp.async.bulk, barrier.cluster",
        ("block-end", "peer-begin"),
    ),
    "convergence": Check(
        "warp instructions and setmaxnreg by only some of the threads that must execute them, and "
        "arrivals that may count for the previous phase",
        "shfl.sync, vote.sync, bar.warp.sync, barrier, setmaxnreg",
        ("shuffle", "warp-divergent", "barrier-phase", "setmaxnreg"),
    ),
    "promises": Check(
        "integers, conditions and addresses that are not what the kernel promises, and failed "
        "assertions",
        "the kernel's own",
        ("promise", "assume", "uniform", "pointer-alignment", "assert"),
    ),
}
ALL = frozenset(CHECKS)
CLOCKED = ALL - {"coordinates", "promises"}  # those that ask what is ordered


def chosen(checks: bool | str | Iterable[str]) -> frozenset[str]:
    """Return the names of checks: all for True, none for False, else those given.

    Args:
        checks: a bool, names, or text with commas between names.

    Raises LayoutError for a name that is not in `CHECKS`.

    >>> sorted(chosen("shared, global")), chosen(False), chosen(True) == ALL
    (['global', 'shared'], frozenset(), True)
    """
    if isinstance(checks, (bool, np.bool_)):
        return ALL if checks else frozenset()
    if isinstance(checks, str):
        checks = [name.strip() for name in checks.split(",")]
    given: Any = checks
    names: frozenset[str] = frozenset(given if isinstance(given, Iterable) else (given,))
    for name in names - ALL:
        hint = suggestion(str(name), CHECKS)
        raise refusal(
            "emulate-checks",
            operation="emulate",
            name=name,
            known=", ".join(CHECKS),
            hint=hint or "leave it out for all checks",
        )
    return names


# -- errors


def line_of(op: Op) -> str:
    """Return `gemm.py:31` of an op, or what it is."""
    return op.where or op.call


# what a block must do before it ends
_ENDINGS = {
    "wait": "call cute.tma_store_wait(0) before the kernel ends",
    "commit, and wait": "call cute.tma_store_commit() and cute.tma_store_wait(0) before the end",
    "wgmma": "call cute.warpgroup_commit() and cute.warpgroup_wait(0) before the end",
    "load": "wait for its mbarrier before the kernel ends",
    "meet": "call cute.cluster_sync() before the kernel ends, or wait for the phase",
}


class Faults:
    """Makes the errors of a batch: it knows the shape of the grid, and the batch's first block."""

    def __init__(self, plan: Plan, grid: tuple[int, int, int] = (1, 1, 1), first: int = 0) -> None:
        """Keep the plan, the blocks of the grid, and the number of the batch's first block."""
        self.plan, self.grid, self.first = plan, grid, first

    def block(self, b: int) -> tuple[int, int, int]:
        """Return (x, y, z) of a block of the batch."""
        b += self.first
        x, y, _ = self.grid
        return b % x, b // x % y, b // (x * y)

    def fault(self, code: str, op: Op, **facts: object) -> CuteError:
        """Return an error that no one thread causes."""
        return refusal(code, operation=self.plan.name, where=line_of(op), line=op.line, **facts)

    def at(
        self, code: str, op: Op, span: Span, where: tuple[int, ...], **facts: object
    ) -> CuteError:
        """Return the error of the thread at `where`: row of block, of warp, and perhaps lane."""
        block = self.block(int(span.B[where[0]]))
        warp = int(span.W[where[1]])
        facts = {"block": block, "warp": warp, **facts}
        if len(where) > 2:
            facts |= {"lane": where[2], "thread": 32 * warp + where[2]}
            who = f"block {block}, warp {warp}, lane {where[2]} (thread {32 * warp + where[2]})"
        else:
            who = f"block {block}, warp {warp}"
        return self.fault(code, op, who=who, **facts)

    def ending(self, op: Op, b: int, use: str, how: str = "meet") -> CuteError:
        """Return the error of the end of a block whose shared memory is in use."""
        block = self.block(b)
        return self.fault("emulate-block-end", op, block=block, use=use, fix=_ENDINGS[how])


def first(bad: Array, span: Span) -> tuple[int, ...]:
    """Return the indices of the first entry that is set, of an array that broadcasts to threads."""
    shape = np.broadcast_shapes(bad.shape, (*span.shape, *(1,) * (bad.ndim - 3)))
    where = np.unravel_index(int(np.argmax(np.broadcast_to(bad, shape))), shape)
    return tuple(int(i) for i in where)
