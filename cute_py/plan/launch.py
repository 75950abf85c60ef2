"""`Launch`: the launch shape of a plan, and what a GPU can launch at most: one table of limits.

`cute.launch`, the verifier of plans and the emulator ask the same function. Sources: CUDA C++
Programming Guide, "Technical Specifications per Compute Capability" and "Thread Block Clusters".
Numbers that differ from GPU to GPU are the greatest; the launcher asks the driver for those of its
device.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from operator import attrgetter
from typing import NamedTuple

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.plan.conditions import Scalar, bounds_of
from cute_py.plan.op import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from cute_py.errors import CuteError

MOST_GRID = (2**31 - 1, 2**16 - 1, 2**16 - 1)  # blocks
MOST_BLOCK = (1024, 1024, 64)  # threads
MOST_THREADS = 1024  # of a block
MOST_CLUSTER = 16  # blocks, on sm_90
MOST_SHARED = 227 * 1024  # bytes of a block, on sm_90
MOST_RESIDENT = (32, 2048)  # blocks and threads of a multiprocessor
MOST_LOCAL = 512 * 1024  # bytes of a thread


@dataclass(frozen=True, slots=True)
class Launch(Node):
    """The launch shape: blocks, threads per block, and blocks per cluster, in (x, y, z).

    `min_blocks`: the number of resident blocks per multiprocessor, which bounds the registers.
    `spill_bytes`: the local memory per thread above which the kernel is refused.
    `pdl`: blocks may start before the preceding kernel has ended; they wait by a `GridDep` op.
    `allow_emulated`: architectures that replace an instruction by several slower ones are not
    refused.
    `counts`: expressions of parameters, such as numbers of tiles, that a launch requires to be
    below 2**31. `divisors`: expressions of parameters by which the kernel divides: a launch passes
    multipliers for them (`multiplier`). `tables`: rows of such expressions, from which the kernel
    takes one by a run-time index: a launch passes their values (64 bits each), at most
    `MOST_TABLES` bytes in all. `resident`: a launch requires that all blocks run at once.
    `roles`: (name, first warp, end) of those of a block, for messages.
    """

    grid: tuple[Scalar, Scalar, Scalar]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    min_blocks: int = 1
    spill_bytes: int = 0
    pdl: bool = False
    allow_emulated: bool = False
    counts: tuple[Scalar, ...] = ()
    divisors: tuple[Scalar, ...] = ()
    tables: tuple[tuple[Scalar, ...], ...] = ()
    resident: bool = False
    roles: tuple[tuple[str, int, int], ...] = ()

    def role_of(self, first: int, end: int) -> str:
        """Return the name of the role that has some warps of a block, "" if none has all."""
        return next((name for name, a, b in self.roles if a <= first < end <= b), "")

    def require_counts(self, name: str, values: Iterable[int]) -> None:
        """Refuse values of `counts` of 2**31 and more."""
        for count, value in zip(self.counts, values, strict=True):
            if value >= 1 << 31:
                raise refusal("plan-count", operation=name, count=count, value=value)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    def __str__(self) -> str:
        words = [f"launch grid ({listed(self.grid)}) block ({listed(self.block)})"]
        words += [f"cluster ({listed(self.cluster)})"] * (self.cluster != (1, 1, 1))
        words += [f"min_blocks {self.min_blocks}"] * (self.min_blocks > 1)
        words += [f"spill_bytes {self.spill_bytes}"] * (self.spill_bytes > 0)
        words += ["pdl"] * self.pdl + ["allow_emulated"] * self.allow_emulated
        words += ["resident"] * self.resident
        return " ".join(words)


def listed(x: tuple[object, ...]) -> str:
    """Return values as text, with commas."""
    return ",".join(map(str, x))


# -- what a GPU can launch


class Limit(NamedTuple):
    """Something that a launch asks for, in words; the least and the greatest number; what to do."""

    what: str
    of: Callable[[Launch], Scalar]
    least: int
    most: int
    fix: str


def _modes(
    part: str, what: str, least: int, most: tuple[int, int, int], fix: str
) -> tuple[Limit, ...]:
    """Return the limits of the three extents of a part of a launch."""

    def of(k: int) -> Callable[[Launch], Scalar]:
        return lambda launch: getattr(launch, part)[k]

    return tuple([Limit(f"{what} along {'xyz'[k]}", of(k), least, most[k], fix) for k in range(3)])


_LESS, _FEWER = "let each block do more, or map the longest mode to x", "use 128 or 256 threads"
_ROUND_UP = "; round up where sizes are divided: cute.ceil_div(M, 128)"
_PORTABLE = "use a cluster of at most 8 blocks, which every GPU with clusters has"
_RESIDENT = "ask for fewer blocks on a multiprocessor: min_blocks bounds the registers of a thread"

LIMITS = (
    *_modes("grid", "blocks of the grid", 0, MOST_GRID, _LESS + _ROUND_UP),
    *_modes("block", "threads of a block", 1, MOST_BLOCK, _FEWER),
    Limit("threads of a block", attrgetter("threads"), 1, MOST_THREADS, _FEWER),
    *_modes("cluster", "blocks of a cluster", 1, (MOST_CLUSTER,) * 3, _PORTABLE),
    Limit("blocks of a cluster", lambda x: prod(x.cluster), 1, MOST_CLUSTER, _PORTABLE),
    Limit("min_blocks", attrgetter("min_blocks"), 1, MOST_RESIDENT[0], _RESIDENT),
    Limit(
        "threads of min_blocks blocks on a multiprocessor",
        lambda x: x.threads * x.min_blocks,
        1,
        MOST_RESIDENT[1],
        _RESIDENT,
    ),
    Limit(
        "spill_bytes",
        attrgetter("spill_bytes"),
        0,
        MOST_LOCAL,
        "keep less in registers: smaller tiles, or more threads",
    ),
)


def require_launch(
    launch: Launch, operation: str, refuse: Callable[..., CuteError] = refusal
) -> None:
    """Refuse a launch that no GPU makes, whatever the values of the symbols in its grid.

    Args:
        launch: the launch shape; extents of the grid may be symbols.
        operation: what the user called, for the message.
        refuse: makes the error: `refusal_here` where a kernel is traced.

    Raises LayoutError.
    """
    for limit in LIMITS:
        number = limit.of(launch)
        low, high = bounds_of(number)
        if (low is not None and low > limit.most) or (high is not None and high < limit.least):
            facts: dict[str, Any] = {"found": number, "what": limit.what, "fix": limit.fix}
            facts |= {"least": limit.least, "most": limit.most}
            raise refuse("plan-launch", operation=operation, **facts)
    for axis, extent, count in zip("xyz", launch.grid, launch.cluster, strict=True):
        if ints.divides(count, extent) is False:
            facts = {"grid": extent, "axis": axis, "cluster": count}
            raise refuse("plan-clusters", operation=operation, **facts)
