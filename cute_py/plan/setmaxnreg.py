"""Verify `setmaxnreg`: whole warpgroups execute it, and the registers of the block suffice.

A block gets all of its registers at launch: the 64 K registers of a multiprocessor, divided by its
threads and rounded down to a multiple of 8. A warpgroup can only get more of them after another
warpgroup has released some. Source: PTX ISA, setmaxnreg.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers.code import FUNCTIONS, function, tree
from cute_py.integers.polynomial import symbols_of
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import Compare, Logic, Not
from cute_py.plan.ops import If, Leave, SetMaxNReg
from cute_py.plan.walk import blocks_of, every

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.plan.conditions import Cond, Scalar
    from cute_py.plan.launch import Launch
    from cute_py.plan.ops import Block, Op

REGISTERS = 1 << 16  # of a multiprocessor
MOST = 256  # of a thread
WARPGROUP = 128  # threads

Known = bool | None  # whether a thread reaches an op; None: this depends on run-time values


def registers_at_launch(launch: Launch) -> int:
    """Return the registers of a thread when its block begins.

    >>> from cute_py.plan.launch import Launch
    >>> registers_at_launch(Launch((1, 1, 1), (384, 1, 1)))
    168
    """
    return min(REGISTERS // (launch.threads * launch.min_blocks) // 8 * 8, MOST)


def require_registers(body: Block, launch: Launch) -> None:
    """Refuse a body in which only part of a warpgroup executes `setmaxnreg`, in which it increases
    a number to less or decreases it to more, or in which the warpgroups ask for more registers than
    the block has.
    """
    if any(isinstance(op, SetMaxNReg) for op in every(body)):
        held = _Held(launch)
        held.walk(body, [True] * launch.threads)
        held.require_sum()


class _Held:
    """The numbers of registers that a thread of each warpgroup may end up with."""

    def __init__(self, launch: Launch) -> None:
        self.first = registers_at_launch(launch)
        self.counts = [{self.first} for _ in range(0, launch.threads, WARPGROUP)]
        self.last: Op | None = None

    def walk(self, block: Block, here: list[Known]) -> list[Known]:
        """Follow the ops of a block; `here` says which threads reach it. Return which threads reach
        its end.
        """
        for op in block:
            if isinstance(op, SetMaxNReg):
                self._set(op, here)
            elif isinstance(op, Leave):
                gone = _holds(op.cond, len(here))
                here = [_both(x, _not(g)) for x, g in zip(here, gone, strict=True)]
            elif isinstance(op, If):
                holds = _holds(op.cond, len(here))
                then = [_both(x, h) for x, h in zip(here, holds, strict=True)]
                other = [_both(x, _not(h)) for x, h in zip(here, holds, strict=True)]
                ways = self.walk(op.then, then), self.walk(op.other, other)
                here = [_either(x, y) for x, y in zip(*ways, strict=True)]
            else:
                for inner in blocks_of(op):  # the body of a loop may not run at all
                    self.walk(inner, [x and None for x in here])
        return here

    def _set(self, op: SetMaxNReg, here: list[Known]) -> None:
        """Record the number that an op sets for each warpgroup that reaches it."""
        for group, counts in enumerate(self.counts):
            come = here[group * WARPGROUP : (group + 1) * WARPGROUP]
            come += [False] * (WARPGROUP - len(come))  # threads that the block does not have
            if True in come and False in come:
                warp = (group * WARPGROUP + come.index(False)) // 32
                raise refusal(
                    "plan-setmaxnreg-part",
                    operation="cute.setmaxnreg",
                    group=group,
                    warp=warp,
                    where=op.where,
                )
            if False in come:
                continue
            sides = [op.n < count if op.kind == "inc" else op.n > count for count in counts]
            if all(sides):
                facts = {"kind": op.kind, "count": op.n, "held": min(counts), "group": group}
                raise refusal(
                    "plan-setmaxnreg-kind", operation="cute.setmaxnreg", where=op.where, **facts
                )
            if None not in come:
                counts.clear()
            counts.add(op.n)
        self.last = op

    def require_sum(self) -> None:
        """Refuse warpgroups that hold more registers together than the block got at launch."""
        least = [min(counts) for counts in self.counts]
        if self.last is not None and sum(least) > self.first * len(least):
            raise refusal(
                "plan-setmaxnreg-sum",
                operation="cute.setmaxnreg",
                counts=", ".join(map(str, least)),
                total=sum(least) * WARPGROUP,
                most=self.first * len(least) * WARPGROUP,
                first=self.first,
                where=self.last.where,
            )


# -- three-valued logic for each thread: True, False, or None for unknown


def _not(x: Known) -> Known:
    return None if x is None else not x


def _both(x: Known, y: Known) -> Known:
    return False if x is False or y is False else None if x is None or y is None else True


def _either(x: Known, y: Known) -> Known:
    return _not(_both(_not(x), _not(y)))


def _holds(cond: Cond, threads: int) -> list[Known]:
    """Return the value of a condition for each thread of a block."""
    if isinstance(cond, Not):
        return [_not(x) for x in _holds(cond.term, threads)]
    if isinstance(cond, Logic):
        combine = _both if cond.test == "and" else _either
        total = _holds(cond.terms[0], threads)
        for term in cond.terms[1:]:
            total = [combine(*pair) for pair in zip(total, _holds(term, threads), strict=True)]
        return total
    if not isinstance(cond, Compare) or not _is_of_thread(cond.a, cond.b):
        return [None] * threads
    a, b = _by_thread(cond.a), _by_thread(cond.b)
    return [_TESTS[cond.test](a(t), b(t)) for t in range(threads)]


_TESTS: dict[str, Callable[[int, int], bool]] = {
    "lt": int.__lt__,
    "le": int.__le__,
    "eq": int.__eq__,
    "ne": int.__ne__,
}


def _is_of_thread(*values: Scalar) -> bool:
    """Tell whether values depend on the thread index alone."""
    return all(
        symbol.name == "tid"
        for x in values
        if not isinstance(x, int)
        for symbol in symbols_of(terms_of(x))
    )


def _by_thread(x: Scalar) -> Callable[[int], int]:
    """Return a value as a function of the thread index."""
    return function(["tid"], tree(x), FUNCTIONS)
