"""Synchronization: barriers, mbarriers, fences, and waits for memory or other kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from cute_py.plan.access import Access
from cute_py.plan.conditions import Scalar, bounds_of
from cute_py.plan.functions import FLOATS, WORDS
from cute_py.plan.op import FIXED, MBARRIER, Group, Lack, Op

MOST_COUNT = 2**20 - 1  # arrivals, or bytes, of a phase of an mbarrier
NAMED_IDS = 1, 15  # of named barriers: barrier 0 is the block's
TESTS = ("eq", "ne", "lt", "le", "gt", "ge")


def _mbarrier(bar: Access) -> str:
    whole = bar.space == "smem" and bar.vector_bits == 64 and bar.count == 1
    return "" if whole else "an mbarrier that is not 8 bytes of shared memory"


@dataclass(frozen=True, slots=True)
class Barrier(Op):
    """A barrier of a `block` (id 0), `warp`, `cluster`, or of `threads` threads (`named`, by id).

    kind: sync, arrive or wait.
    known: the least and the greatest id of the threads that come, where the branches around say
        more than the bounds of its symbols.
    """

    scope: str = "block"
    kind: str = "sync"
    id: Scalar = 0
    threads: int = 0
    known: tuple[int | None, int | None] | None = field(default=None, metadata=FIXED)

    word: ClassVar[str] = "barrier"
    call: ClassVar[str] = "a barrier"
    purpose: ClassVar[str] = "bar.sync, of the block, a warp or some warps"
    share: ClassVar[str] = "waits"

    @property
    def waits(self) -> bool:
        """Whether it synchronizes more than one warp."""
        return self.scope != "warp"

    @property
    def group(self) -> Group:
        """The whole block, if it synchronizes that or more; else each warp that comes."""
        return "block" if self.scope in ("block", "cluster") else "warp"

    @property
    def rejoins(self) -> bool:
        """Whether it is a barrier of the warp."""
        return self.scope == "warp"

    @property
    def ids(self) -> tuple[int, int]:
        """The least and the greatest id of a named barrier."""
        low, high = self.known or bounds_of(self.id)
        return max(NAMED_IDS[0], low or 0), NAMED_IDS[1] if high is None else min(
            high, NAMED_IDS[1]
        )

    def problem(self) -> str:
        """Check for a known scope and kind, and for whole warps at a named barrier."""
        known = self.scope in ("block", "named", "warp", "cluster")
        if not known or self.kind not in ("sync", "arrive", "wait"):
            return f"the barrier {self.scope} {self.kind}"
        if self.scope == "named" and (self.threads <= 0 or self.threads % 32):
            return f"a named barrier of {self.threads} threads"
        low, high = NAMED_IDS if self.scope == "named" else (0, 0)
        wrong = isinstance(self.id, int) and not low <= self.id <= high
        return f"the {self.scope} barrier {self.id}" if wrong else ""

    def needs(self) -> str | None:
        """The barrier of clusters, which only newer architectures have."""
        return "barrier.cluster" if self.scope == "cluster" else None


_FENCES = {
    "proxy_async": "fence.proxy.async",
    "mbarrier_init": "fence.mbarrier_init",
    "block": None,
    "gpu": None,
    "system": None,
}


@dataclass(frozen=True, slots=True)
class Fence(Op):
    """`proxy_async`, `mbarrier_init`, `block`, `gpu` or `system`. Source: PTX ISA, fence."""

    kind: str

    word: ClassVar[str] = "fence"
    call: ClassVar[str] = "a fence"
    purpose: ClassVar[str] = "order of memory"
    share: ClassVar[str] = "waits"

    def problem(self) -> str:
        """Check for a known kind."""
        return "" if self.kind in _FENCES else f"the fence {self.kind}"

    def needs(self) -> str | None:
        """A fence that only newer architectures have."""
        return _FENCES.get(self.kind)


@dataclass(frozen=True, slots=True)
class GridDep(Op):
    """`wait` for the preceding kernels, or allow the next one to start (`launch_dependents`).

    Source: PTX ISA, griddepcontrol.
    """

    kind: str

    word: ClassVar[str] = "griddepcontrol"
    call: ClassVar[str] = "a griddepcontrol"
    purpose: ClassVar[str] = "waits for the kernels before, or lets the next one begin"
    share: ClassVar[str] = "waits"

    def problem(self) -> str:
        """Check for a known kind."""
        known = self.kind in ("wait", "launch_dependents")
        return "" if known else "wait or launch_dependents"


@dataclass(frozen=True, slots=True)
class MbarInit(Op):
    """Initialize the 8 bytes of the access as an mbarrier of `count` arrivals."""

    bar: Access = field(metadata=MBARRIER)
    count: int

    word: ClassVar[str] = "mbarrier_init"
    call: ClassVar[str] = "the init of mbarriers"
    purpose: ClassVar[str] = "mbarrier.init"
    share: ClassVar[str] = "waits"
    instruction: ClassVar[str | None] = "mbarrier.init"

    def problem(self) -> str:
        """Check for 8 bytes of shared memory, and a count that it can hold."""
        fits = 1 <= self.count <= MOST_COUNT
        return _mbarrier(self.bar) or ("" if fits else f"{self.count} arrivals at an mbarrier")


@dataclass(frozen=True, slots=True)
class MbarInval(Op):
    """End the mbarrier in the 8 bytes of the access, which may hold something else then."""

    bar: Access = field(metadata=MBARRIER)

    word: ClassVar[str] = "mbarrier_inval"
    call: ClassVar[str] = "the inval of mbarriers"
    purpose: ClassVar[str] = "mbarrier.inval"
    share: ClassVar[str] = "waits"
    instruction: ClassVar[str | None] = "mbarrier.inval"

    def problem(self) -> str:
        """Check for 8 bytes of shared memory."""
        return _mbarrier(self.bar)


@dataclass(frozen=True, slots=True)
class MbarArrive(Op):
    """Arrive at an mbarrier, that of block `cluster_rank` if it is given, and expect `bytes` of
    transactions (0: none).
    """

    bar: Access = field(metadata=MBARRIER)
    bytes: int = 0
    cluster_rank: Scalar | None = None

    word: ClassVar[str] = "mbarrier_arrive"
    call: ClassVar[str] = "an arrival at an mbarrier"
    purpose: ClassVar[str] = "mbarrier.arrive"
    share: ClassVar[str] = "waits"

    def problem(self) -> str:
        """Check for 8 bytes of shared memory, and bytes that it can count."""
        fits = 0 <= self.bytes <= MOST_COUNT
        return _mbarrier(self.bar) or ("" if fits else f"{self.bytes} bytes at an mbarrier")

    def needs(self) -> str:
        """The instruction: a newer one if it expects bytes, or arrives at another block."""
        if self.cluster_rank is None:
            return "mbarrier.arrive.expect_tx" if self.bytes else "mbarrier.arrive"
        return "mbarrier.arrive.expect_tx.cluster" if self.bytes else "mbarrier.arrive.cluster"


@dataclass(frozen=True, slots=True)
class CpArrive(Op):
    """Arrive at an mbarrier once the thread's CpAsyncs are complete. Source:
    cp.async.mbarrier.arrive.noinc.
    """

    bar: Access = field(metadata=MBARRIER)

    word: ClassVar[str] = "cp_async_arrive"
    call: ClassVar[str] = "an arrival of cp.async at an mbarrier"
    purpose: ClassVar[str] = "cp.async.mbarrier.arrive.noinc"
    share: ClassVar[str] = "waits"
    instruction: ClassVar[str | None] = "cp.async.mbarrier.arrive"

    def problem(self) -> str:
        """Check for 8 bytes of shared memory."""
        return _mbarrier(self.bar)


@dataclass(frozen=True, slots=True)
class MbarWait(Op):
    """Wait until the phase of this parity (0 or 1) is complete."""

    bar: Access = field(metadata=MBARRIER)
    phase: Scalar

    word: ClassVar[str] = "mbarrier_wait"
    call: ClassVar[str] = "a wait for an mbarrier"
    purpose: ClassVar[str] = "mbarrier.try_wait.parity"
    share: ClassVar[str] = "waits"
    instruction: ClassVar[str | None] = "mbarrier.try_wait"

    @property
    def waits(self) -> bool:
        """Always."""
        return True

    def problem(self) -> str:
        """Check for 8 bytes of shared memory, and a parity."""
        parity = self.phase.__class__ is not int or self.phase in (0, 1)
        return _mbarrier(self.bar) or ("" if parity else f"the parity {self.phase}")


@dataclass(frozen=True, slots=True)
class WaitUntil(Op):
    """Poll the element of the access, with acquire order, until a comparison (`eq ge ...`) with a
    value is true.
    """

    src: Access
    test: str
    value: Scalar

    word: ClassVar[str] = "wait_until"
    call: ClassVar[str] = "cute.wait_until"
    purpose: ClassVar[str] = "reads with acquire order until the element compares"
    share: ClassVar[str] = "waits"

    @property
    def waits(self) -> bool:
        """Always."""
        return True

    def problem(self) -> str:
        """Check for a known comparison of one element."""
        single = self.src.count == self.src.width == 1
        return "" if self.test in TESTS and single else f"the test {self.test}"

    def lack(self) -> Lack | None:
        """A type that instructions compare."""
        dtype = self.src.dtype
        if dtype.name in (*WORDS, *FLOATS):
            return None
        return Lack(
            f"a wait for an element of {dtype}",
            ", ".join((*WORDS, *FLOATS)),
            "wait for a flag of one of these types, stored after the data (cute.store_release)",
        )


@dataclass(frozen=True, slots=True)
class SetMaxNReg(Op):
    """Release registers, or request more. Source: setmaxnreg."""

    n: int
    kind: str  # inc | dec

    word: ClassVar[str] = "setmaxnreg"
    call: ClassVar[str] = "cute.setmaxnreg"
    purpose: ClassVar[str] = "setmaxnreg"
    share: ClassVar[str] = "waits"
    together: ClassVar[Group] = "warpgroup"
    instruction: ClassVar[str | None] = "setmaxnreg"

    @property
    def waits(self) -> bool:
        """Until others have given back what it asks for."""
        return True

    def problem(self) -> str:
        """Check for a multiple of 8 from 24 to 256, and a known kind."""
        fits = self.n % 8 == 0 and 24 <= self.n <= 256 and self.kind in ("inc", "dec")
        return "" if fits else f"{self.n} registers ({self.kind})"
