"""Matrix instructions of threads, warps and warpgroups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from cute_py.atoms.mma import MMA_Atom
from cute_py.plan.access import Access
from cute_py.plan.conditions import Cond, Reg
from cute_py.plan.op import FIXED, UPDATED, Group, Lack, Node, Op
from cute_py.plan.ops.registers import values_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from cute_py.dtypes.table import Dtype

    Held: TypeAlias = tuple[Dtype, int, int]  # a type, the elements, those of a fragment

Steps = tuple[tuple[int, int, int], ...]
# mode of a descriptor -> 16-byte units in a row of its pattern
UNITS = {"INTER": 1, "SW32": 2, "SW64": 4, "SW128": 8}


def _fragments(atom: MMA_Atom, d: Reg, a: Held, b: Held, steps: Steps) -> str:
    """Return what is wrong with the types of d, a and b, or with the fragments that steps name.

    `a`, `b`: (type, the number of elements, those of a fragment).
    """
    if (d.dtype, a[0], b[0]) != (atom.c_type, atom.a_type, atom.b_type):
        return f"{d.dtype} += {a[0]} * {b[0]} by {atom}"
    values = atom.values[2]
    if len(d) % values:
        return f"{len(d)} accumulators in fragments of {values}"
    counts = len(d) // values, a[1] // a[2], b[1] // b[2]
    for step in steps:
        for side, i, count in zip("dab", step, counts, strict=True):
            if not 0 <= i < count:
                return f"a step outside of {side}"
    return ""


@dataclass(frozen=True, slots=True)
class Mma(Op):
    """For each (i, j, k) of `steps`: d[i] = a[j] * b[k] + d[i], by one instruction of the atom.

    d, a and b hold consecutive fragments of the atom: fragment i of d is elements i*n ... i*n+n-1,
    where n is the number of values per thread of the atom.
    """

    atom: MMA_Atom
    d: Reg = field(metadata=UPDATED)
    a: Reg
    b: Reg
    steps: Steps = field(metadata=FIXED)

    word: ClassVar[str] = "mma"
    call: ClassVar[str] = "cute.gemm"
    purpose: ClassVar[str] = "d += a * b, one instruction of the atom for each step"
    share: ClassVar[str] = "products"

    @property
    def group(self) -> Group:
        """The warp, if the atom is of more than one thread."""
        return "warp" if self.atom.num_threads > 1 else "thread"

    def problem(self) -> str:
        """Check for whole fragments of accumulators, steps inside of them, and types."""
        a, b = self.atom.values[:2]
        left, right = (self.a.dtype, len(self.a), a), (self.b.dtype, len(self.b), b)
        return _fragments(self.atom, self.d, left, right, self.steps)

    def lack(self) -> Lack | None:
        """A type with values, for the arithmetic of an atom without an instruction."""
        return values_of(self.d.dtype, "a product") if self.atom.ptx is None else None

    def needs(self) -> MMA_Atom | str | None:
        """The instruction of the atom; without one, that of its multiply-add."""
        if self.atom.ptx is not None:
            return self.atom
        return "fma.bf16" if self.d.dtype.name == "bf16" else None

    def __str__(self) -> str:
        return f"{self.d} += {self.a} * {self.b}  {self.atom} x {len(self.steps)}"


@dataclass(frozen=True, slots=True)
class Tile(Node):
    """An operand of Wgmma in shared memory: fragment i is vectors i*n ... of the access, in the
    colexicographic order of the atom's (M or N, K). `lbo`, `sbo` (bytes) and `mode` are the fields
    of the descriptor. Source: PTX ISA, matrix-descriptor-format.
    """

    access: Access
    lbo: int
    sbo: int
    mode: str

    def __str__(self) -> str:
        return str(self.access)


@dataclass(frozen=True, slots=True)
class Wgmma(Op):
    """Like Mma, but asynchronous and by a warpgroup: d must not be accessed before WgWait. Where
    `accumulate` is false, the first step of each fragment of d starts from zero; all threads of
    the warpgroup agree on it.
    """

    atom: MMA_Atom
    d: Reg = field(metadata=UPDATED)
    a: Reg | Tile
    b: Tile
    steps: Steps = field(metadata=FIXED)
    accumulate: bool | Cond = True

    word: ClassVar[str] = "wgmma"
    call: ClassVar[str] = "cute.warpgroup_gemm"
    purpose: ClassVar[str] = "wgmma.mma_async: d += a * b of a warpgroup"
    share: ClassVar[str] = "products"
    together: ClassVar[Group] = "warpgroup"
    bulk: ClassVar[bool] = True

    @property
    def starts_anew(self) -> bool:
        """Where it starts from zero."""
        return self.accumulate is False

    def problem(self) -> str:
        """Check for whole fragments, steps inside of them, and types."""
        for x in (self.a, self.b):
            if isinstance(x, Tile) and x.mode not in UNITS:
                return f"a descriptor of the mode {x.mode}"
        m, n, k = self.atom.shape_mnk
        left, right = (self._held(x, rows * k) for x, rows in ((self.a, m), (self.b, n)))
        return _fragments(self.atom, self.d, left, right, self.steps)

    def _held(self, x: Reg | Tile, each: int) -> Held:
        if isinstance(x, Reg):
            return x.dtype, len(x), self.atom.values[0]
        return x.access.dtype, x.access.count * x.access.width, each


@dataclass(frozen=True, slots=True)
class WgFence(Op):
    """Order earlier register accesses before later Wgmmas. Source: wgmma.fence."""

    word: ClassVar[str] = "wgmma_fence"
    call: ClassVar[str] = "cute.warpgroup_fence"
    purpose: ClassVar[str] = "wgmma.fence"
    share: ClassVar[str] = "waits"
    together: ClassVar[Group] = "warpgroup"
    instruction: ClassVar[str | None] = "wgmma.fence"


@dataclass(frozen=True, slots=True)
class WgCommit(Op):
    """Commit a group of Wgmmas. Source: wgmma.commit_group."""

    word: ClassVar[str] = "wgmma_commit"
    call: ClassVar[str] = "cute.warpgroup_commit"
    purpose: ClassVar[str] = "wgmma.commit_group"
    share: ClassVar[str] = "waits"
    together: ClassVar[Group] = "warpgroup"
    instruction: ClassVar[str | None] = "wgmma.commit_group"


MOST_GROUPS = 7  # that wgmma.wait_group may leave in flight


@dataclass(frozen=True, slots=True)
class WgWait(Op):
    """Wait until at most n groups are in flight, once the registers `after` have their values: no
    compiler moves it above what computes these. Source: wgmma.wait_group.
    """

    n: int
    after: Reg | None = field(default=None, metadata=UPDATED)  # its values stay as they are

    word: ClassVar[str] = "wgmma_wait"
    call: ClassVar[str] = "cute.warpgroup_wait"
    purpose: ClassVar[str] = "wgmma.wait_group"
    share: ClassVar[str] = "waits"
    together: ClassVar[Group] = "warpgroup"
    instruction: ClassVar[str | None] = "wgmma.wait_group"

    def problem(self) -> str:
        """Check for a number that the instruction has."""
        return "" if 0 <= self.n <= MOST_GROUPS else f"{self.n} groups"
