"""`cute.role`: the warps of a block that do one part of a kernel; and `cute.elect`, one thread.

Roles that follow each other are one branch over the index of the warp or warpgroup. Source: PTX
ISA, setmaxnreg, elect.sync; cutlass include/cutlass/arch/reg_reconfig.h.
"""

from __future__ import annotations

from cute_py.errors import kernel_line, refusal_here
from cute_py.integers import ints
from cute_py.plan.conditions import Compare, uniformity
from cute_py.plan.ops import If, WgCommit, WgFence, Wgmma, WgWait
from cute_py.plan.setmaxnreg import registers_at_launch
from cute_py.plan.walk import every
from cute_py.trace.control import BlockStatement, Body, when
from cute_py.trace.facts import learn
from cute_py.trace.hopper import setmaxnreg
from cute_py.trace.rebinding import Rebinding
from cute_py.trace.runtime_integers import Condition, bare, compare
from cute_py.trace.state import current, require_choice
from cute_py.trace.threads import launched, thread_idx_linear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import Leaf
    from cute_py.plan.ops import Op
    from cute_py.trace.state import Scope, Trace

OF_WARPGROUPS = (Wgmma, WgFence, WgCommit, WgWait)
SCOPES = {"warp": 32, "warpgroup": 128}


class role(BlockStatement):
    """`with cute.role("load", warps=range(8, 12), registers=40):` runs a block in some warps.

    Args:
        name: of the role; each role of a kernel has its own.
        warps: the warps of the block that run it, a `range`, or the number of one.
        registers: the registers of a thread in this role, a multiple of 8 from 24 to 256; None:
            those it has when the block begins. The roles share the 64 K registers of a
            multiprocessor: 40 for 4 warps leave 232 for 8 others.

    `with ... as consumers:` gives the role, with its `thread` (the thread's index in the role),
    `threads` and `warps`. Inside, the index of the thread is known to be one of the role. Names
    follow the rules of `cute.when`. A role may be entered again: its registers are set once. Raises
    LayoutError for warps outside of the block, for roles that overlap or contain another one, for
    registers that the block does not have, and for part of a warpgroup that sets registers or
    issues warpgroup products. Source: PTX ISA, setmaxnreg.

    >>> # in a kernel: with cute.role("load", warps=range(8, 12), registers=40): ...
    """

    operation = "cute.role"

    def __init__(self, name: str, warps: range | int, registers: int | None = None) -> None:
        if name.__class__ is not str:
            raise refusal_here(
                "kernel-choice", operation=self.operation, value=name, choices="names, as text"
            )
        self.name, self.registers = name, registers
        if registers is not None:
            self.registers = ints.as_int(ints.normalize(registers, "cute.role"), "cute.role")
        most = -(-launched("cute.role").threads // 32)
        given: Any = ints.normalize(warps, "cute.role") if hasattr(warps, "__index__") else warps
        if given.__class__ is int:
            given = range(given, given + 1)
        fits = given.__class__ is range and given and given.step == 1
        if not fits or given.start < 0 or given.stop > most:
            raise refusal_here("role-warps", operation=self.operation, warps=warps, most=most)
        self.warps: range = given
        self.set_in: list[Scope] = []  # the blocks in which its registers are set

    @property
    def threads(self) -> int:
        """The number of threads of the role."""
        return min(32 * self.warps.stop, launched("cute.role").threads) - 32 * self.warps.start

    @property
    def thread(self) -> Leaf:
        """The thread's index in the role."""
        return ints.sub(thread_idx_linear(), 32 * self.warps.start)

    def __enter__(self) -> role:  # type: ignore[override]
        super().__enter__()
        return self

    def _begin(self) -> None:
        trace = current()
        self._require_apart(trace)
        self.truth = self._condition()
        self.chain = _chain(trace, trace.scope, self.name)  # the roles right before
        self.body = Body(trace, "branch", kernel_line())
        self.body.learn(self.truth)
        self._learn_threads(self.body.inner)
        self.guard = Rebinding(self.operation)
        self.outer_role, trace.role = trace.role, self
        if self.registers is not None:
            self._set_registers()

    def _condition(self) -> bool | Condition:
        """Return whether the thread's warp, or warpgroup, is one of the role."""
        first, stop = self.warps.start, self.warps.stop
        unit = 4 if first % 4 == stop % 4 == 0 else 1
        index, first, stop = ints.div(thread_idx_linear(), 32 * unit), first // unit, stop // unit
        if stop - first == 1:
            return compare("eq", index, first)
        above, below = compare("le", first, index), compare("lt", index, stop)
        return below if above is True else above if below is True else above & below

    def _learn_threads(self, inner: Scope) -> None:
        """Add to the facts of the block which threads run it."""
        tid, first = bare(thread_idx_linear()), 32 * self.warps.start
        if tid.__class__ is not int:
            learn(inner, Compare("le", first, tid))
            learn(inner, Compare("lt", tid, first + self.threads))

    def _require_apart(self, trace: Trace) -> None:
        """Refuse a role that shares warps with another one, or has two meanings."""
        facts: dict[str, Any] = {"operation": self.operation, "name": self.name}
        if trace.role is not None and trace.role.name != self.name:
            raise refusal_here("role-nested", outer=trace.role.name, **facts)
        for other in trace.roles.values():
            mine, theirs = (_span(x.warps) for x in (self, other))
            if other.name == self.name:
                if (self.warps, self.registers) != (other.warps, other.registers):
                    raise refusal_here("role-name", warps=mine, others=theirs, **facts)
                self.set_in = other.set_in
            elif self.warps.start < other.warps.stop and other.warps.start < self.warps.stop:
                raise refusal_here(
                    "role-overlap", warps=mine, other=other.name, others=theirs, **facts
                )
        trace.roles[self.name] = self

    def _set_registers(self) -> None:
        """Ask for the registers of the role, if it does not have them."""
        assert self.registers is not None
        self._require_warpgroups("registers=")
        first, scope = registers_at_launch(launched("cute.role")), self.body.outer
        here: Scope | None = scope
        while here is not None and here not in self.set_in:
            here = here.parent
        if here is None and self.registers != first:
            setmaxnreg(self.registers, "inc" if self.registers > first else "dec")
            self.set_in.append(scope)

    def _require_warpgroups(self, what: str) -> None:
        if self.warps.start % 4 or self.warps.stop % 4:
            facts = {"name": self.name, "warps": _span(self.warps), "what": what}
            raise refusal_here("role-warpgroups", operation=self.operation, **facts)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.body.trace.role = self.outer_role
        super().__exit__(kind, error, traceback)

    def _record(self) -> None:
        body, trace = self.body, self.body.trace
        trace.role, scope = self.outer_role, body.outer
        if any(isinstance(op, OF_WARPGROUPS) for op in every(body.ops)):
            self._require_warpgroups("warpgroup products")
        if self.truth is True:  # all warps of the block
            scope.ops.extend(body.ops)
        elif self.truth is not False:
            if self.chain:
                scope.ops.pop()
            chain = [*self.chain, (self, body.ops)]
            scope.ops.extend(_joined(chain, trace))
            trace.role_chain = scope, len(scope.ops), chain


def _span(warps: range) -> str:
    """Return warps as text.

    >>> _span(range(8, 12)), _span(range(3, 4))
    ('8 to 11', '3')
    """
    return f"{warps[0]} to {warps[-1]}" if len(warps) > 1 else str(warps[0])


Chain = list[tuple[role, "tuple[Op, ...]"]]


def _chain(trace: Trace, scope: Scope, name: str) -> Chain:
    """Return the roles that end just here, with their ops: alternatives of a role of this name,
    none of which it is.
    """
    at, position, chain = trace.role_chain or (None, 0, [])
    follows = at is scope and position == len(scope.ops)
    return chain if follows and all(x.name != name for x, _ops in chain) else []


def _joined(chain: Chain, trace: Trace) -> tuple[Op, ...]:
    """Return roles as one branch: each is the alternative of the one before it, and the last one
    needs no condition where the roles are all warps of the block.
    """
    warps = sum(len(x.warps) for x, _ops in chain)
    rest: tuple[Op, ...] = ()
    for i, (x, ops) in reversed([*enumerate(chain)]):
        if i and i == len(chain) - 1 and warps == -(-launched("cute.role").threads // 32):
            rest = ops
            continue
        assert isinstance(x.truth, Condition)
        scope = uniformity(trace.uniform, x.truth.cond)
        rest = (If(x.truth.cond, ops, rest, scope, line=x.body.line),)
    return rest


# -- one thread


def elect_one(scope: str = "warp") -> Condition | bool:
    """Return the condition that is true in one thread of each warp, the first one.

    Args:
        scope: warp, or the group of which it is the first thread: warpgroup, role or block.

    TMA and mbarriers are for one thread. Where that thread is none of those that come here, such as
    the first one of the block in a role of later warps, the condition is false in all of them.
    Source: PTX ISA, elect.sync; cutlass include/cute/arch/cluster_sm90.hpp (elect_one_sync).

    >>> # in a kernel: with cute.when(cute.elect_one() & (k > 0)): ring.release()
    """
    operation = "cute.elect"
    require_choice(scope, (*SCOPES, "role", "block"), operation)
    tid, here = thread_idx_linear(), current().role
    if scope == "role" and here is None:
        raise refusal_here("role-outside", operation=operation)
    if scope in SCOPES:
        return compare("eq", ints.mod(tid, SCOPES[scope]), 0)
    return compare("eq", tid, 32 * here.warps.start if scope == "role" else 0)


def elect(scope: str = "warp") -> when:
    """`with cute.elect():` runs a block in one thread of each warp, the first one.

    Args:
        scope: warp, or the group of which it is the first thread: warpgroup, role or block.

    >>> # in a kernel: with cute.role("load", warps=4), cute.elect(): ring.load(tile, stage)
    """
    return when(elect_one(scope))
