"""The ops of a plan: frozen records in nested blocks, each with the source line that made it.

    plan    = params, launch, shared storages, register storages, block
    block   = op*
    scalar  = int | expression over symbols         uniform text: `bid_x*128 + tid//8`
    cond    = Compare(lt|le|eq|ne, scalar, scalar) | Logic(and|or, cond...) | Not(cond) | Test(reg)
    reg     = Reg(storage, dtype, index...)          static element indices of a register storage
    value   = reg | number | scalar                  a reg of one element is given to all
    access  = Access(space, storage, bases, inner, swizzle, table, width, guards)   see `access`

    op = Loop(var, start, stop, step, body) | While(test, cond, body) | If(cond, scope, then, other)
       | Leave(cond, target) | Let(var, kind, operands) | Set(var, scalar)                  control
       | Fill(reg, number) | Map(fn, reg, value...) | Convert(reg, reg, rounding, saturate)
       | Reduce(fn, reg, reg) | Shuffle(kind, reg, reg, scalar, width) | Vote(kind, reg, reg) regs
       | Load(reg, access) | Store(access, reg) | LdMatrix(atom, reg, access)
       | StMatrix(atom, access, reg) | Atomic(fn, access, reg, old)
       | CpAsync(atom, access, access) | CpCommit | CpWait(n) | CpArrive(access)
       | TmaLoad(...) | TmaStore(...) | BulkCommit | BulkWait(n) | Prefetch(access)         memory
       | Mma(atom, d, a, b, c, steps) | Wgmma(atom, d, a, b, accumulate)
       | WgFence | WgCommit | WgWait(n)                                                     matrix
       | Barrier(scope, kind, id, threads) | Fence(kind) | GridDep(kind) | MbarInit(access, count)
       | MbarArrive(access, bytes) | MbarWait(access, phase) | WaitUntil(access, test)
       | SetMaxNReg(n)                                                                       order
       | Print(text, value...) | Assert(cond, text)                                          debug

An op reads all that it reads before it writes. Lines are no part of equality or hash, so that an
edit above a kernel leaves its plan the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from cute_py.atoms.copy import Copy_Op
from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.table import Dtype
from cute_py.plan.access import Access
from cute_py.plan.conditions import Cond, Node, Reg, Scalar

Value: TypeAlias = Reg | Scalar | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Op(Node):
    """What all ops have: the place in the kernel, `(file, line)`, that made it."""

    line: tuple[str, int] = field(default=("", 0), compare=False, repr=False)


Block: TypeAlias = tuple[Op, ...]


# -- control


@dataclass(frozen=True, slots=True)
class Loop(Op):
    """Run the body for var = start, start + step, ... below stop (above it, for a negative step).

    All threads that take part have the same start, stop and step, up to `scope`.
    """

    var: str
    start: Scalar
    stop: Scalar
    step: int
    body: Block
    scope: str = "block"  # block | warpgroup | warp | thread: who shares the trip count


@dataclass(frozen=True, slots=True)
class While(Op):
    """Run `test`; where cond holds, run the body and begin again."""

    test: Block
    cond: Cond
    body: Block
    scope: str


@dataclass(frozen=True, slots=True)
class If(Op):
    """Run `then` where cond holds, and `other` elsewhere. `scope`: the threads that surely agree on
    cond: block, warpgroup, warp or thread.
    """

    cond: Cond
    then: Block
    other: Block
    scope: str


@dataclass(frozen=True, slots=True)
class Leave(Op):
    """Where cond holds, leave the innermost run-time loop, or the kernel."""

    cond: Cond
    target: str  # loop | kernel
    scope: str


@dataclass(frozen=True, slots=True)
class Let(Op):
    """Name an integer that no polynomial describes; it has a value from here to the block's end.

    kind: `xor and or shl shr` of two scalars; `reg`, the integer in a register of one element;
    `var`, the present value of a variable that `Set` made.
    """

    var: str
    kind: str
    operands: tuple[Scalar | Reg | str, ...]


@dataclass(frozen=True, slots=True)
class Set(Op):
    """Give an integer variable a value; every thread has its own."""

    var: str
    value: Scalar


# -- registers


@dataclass(frozen=True, slots=True)
class Fill(Op):
    """Give each element a number; None leaves them undefined, and allows reading them."""

    dst: Reg
    value: int | float | bool | None


@dataclass(frozen=True, slots=True)
class Map(Op):
    """dst[i] = fn(src0[i], src1[i], ...), computed in `dtype`, that of all register sources.

    fn is a row of `functions.FUNCTIONS`. Comparisons write b1.
    """

    fn: str
    dst: Reg
    sources: tuple[Value, ...]
    dtype: Dtype


@dataclass(frozen=True, slots=True)
class Convert(Op):
    """dst[i] = src[i] in the type of dst: rounded (`rn rz rd ru`), clamped where `saturate`."""

    dst: Reg
    src: Reg
    rounding: str = "rn"
    saturate: bool = False


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """dst[i] = fn of the n elements src[i*n] ... src[i*n+n-1], from left to right."""

    fn: str
    dst: Reg
    src: Reg


@dataclass(frozen=True, slots=True)
class Shuffle(Op):
    """dst[i] of a lane is src[i] of another lane of the warp: `idx up down bfly` by `lane`, within
    groups of `width` lanes. Source: PTX ISA, shfl.sync.
    """

    kind: str
    dst: Reg
    src: Reg
    lane: Scalar
    width: int = 32


@dataclass(frozen=True, slots=True)
class Vote(Op):
    """dst = `any`, `all` or `ballot` over the lanes of the warp of src (b1). Source: vote.sync."""

    kind: str
    dst: Reg
    src: Reg


# -- memory


@dataclass(frozen=True, slots=True)
class Load(Op):
    """Vector v of the access goes to elements v*width ... of dst; where a guard fails, `fill` of
    the access does, and None leaves dst as it is. `order`: weak, acquire or volatile.
    """

    dst: Reg
    src: Access
    order: str = "weak"


@dataclass(frozen=True, slots=True)
class Store(Op):
    """The inverse of Load; nothing is stored where a guard fails. `order`: weak or release."""

    dst: Access
    src: Reg
    order: str = "weak"


@dataclass(frozen=True, slots=True)
class LdMatrix(Op):
    """One ldmatrix per vector of the access: each lane gives the address of one row of 8 elements
    of 16 bits; instruction i fills elements i*n ... of dst, in the order of the atom's dst_tv.
    """

    atom: Copy_Op
    dst: Reg
    src: Access


@dataclass(frozen=True, slots=True)
class StMatrix(Op):
    """The inverse of LdMatrix."""

    atom: Copy_Op
    dst: Access
    src: Reg


@dataclass(frozen=True, slots=True)
class Atomic(Op):
    """Replace each element x by fn(x, src): `add min max exch and or xor`; `old` gets x,
    and stays as it is where a guard fails.
    """

    fn: str
    dst: Access
    src: Reg
    old: Reg | None = None


@dataclass(frozen=True, slots=True)
class CpAsync(Op):
    """Copy vectors of global memory to shared memory, one for one; complete after CpWait. Where a
    guard of `src` fails, zeros are written (ZFILL rows), or nothing.
    """

    atom: Copy_Op
    dst: Access
    src: Access


@dataclass(frozen=True, slots=True)
class CpCommit(Op):
    """Close a group of the thread's CpAsyncs. Source: cp.async.commit_group."""


@dataclass(frozen=True, slots=True)
class CpWait(Op):
    """Wait until at most n of the thread's latest groups are open. Source: cp.async.wait_group."""

    n: int


@dataclass(frozen=True, slots=True)
class CpArrive(Op):
    """Arrive at an mbarrier once the thread's CpAsyncs are complete. Source:
    cp.async.mbarrier.arrive.noinc.
    """

    bar: Access


@dataclass(frozen=True, slots=True)
class TmaLoad(Op):
    """One thread copies the box at `coord` of a tensor to shared memory and adds its bytes to an
    mbarrier; what lies outside of the tensor is zero.

    `dst` has one vector per element of the box, the first mode fastest. With `multicast` it goes to
    the same place in the blocks of the cluster whose bits are set.
    """

    tensor: str
    coord: tuple[Scalar, ...]
    box: tuple[int, ...]
    dst: Access
    bar: Access
    multicast: Scalar = 0


@dataclass(frozen=True, slots=True)
class TmaStore(Op):
    """One thread copies shared memory to the box at `coord`; what lies outside is dropped. `reduce`
    is "" or the operation (add, min, max).
    """

    tensor: str
    coord: tuple[Scalar, ...]
    box: tuple[int, ...]
    src: Access
    reduce: str = ""


@dataclass(frozen=True, slots=True)
class BulkCommit(Op):
    """Close a group of the thread's TmaStores. Source: cp.async.bulk.commit_group."""


@dataclass(frozen=True, slots=True)
class BulkWait(Op):
    """Wait until at most n groups of TmaStores are open, or (`read`) still read shared memory."""

    n: int
    read: bool = False


@dataclass(frozen=True, slots=True)
class Prefetch(Op):
    """Bring an access of global memory near; changes no value."""

    src: Access


# -- matrix


@dataclass(frozen=True, slots=True)
class Mma(Op):
    """For each (i, j, k) of `steps`: d[i] = a[j] * b[k] + d[i], by one instruction of the atom.

    d, a and b hold fragments of the atom one after another: fragment i of d is elements
    i*n ... i*n+n-1, n the values per thread of the atom.
    """

    atom: MMA_Atom
    d: Reg
    a: Reg
    b: Reg
    steps: tuple[tuple[int, int, int], ...]


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


@dataclass(frozen=True, slots=True)
class Wgmma(Op):
    """As Mma, by a warpgroup and asynchronous: d must not be touched before WgWait. With
    `accumulate` False the first step of each fragment of d starts from zero.
    """

    atom: MMA_Atom
    d: Reg
    a: Reg | Tile
    b: Tile
    steps: tuple[tuple[int, int, int], ...]
    accumulate: bool = True


@dataclass(frozen=True, slots=True)
class WgFence(Op):
    """Order register accesses before the Wgmmas that follow. Source: wgmma.fence."""


@dataclass(frozen=True, slots=True)
class WgCommit(Op):
    """Close a group of Wgmmas. Source: wgmma.commit_group."""


@dataclass(frozen=True, slots=True)
class WgWait(Op):
    """Wait until at most n groups are in flight. Source: wgmma.wait_group."""

    n: int


# -- order


@dataclass(frozen=True, slots=True)
class Barrier(Op):
    """A barrier of a `block` (id 0), of `threads` threads (`named`, by id), `warp` or `cluster`.

    kind: sync, arrive or wait.
    """

    scope: str = "block"
    kind: str = "sync"
    id: Scalar = 0
    threads: int = 0


@dataclass(frozen=True, slots=True)
class Fence(Op):
    """`proxy_async`, `mbarrier_init`, `block`, `gpu` or `system`. Source: PTX ISA, fence."""

    kind: str


@dataclass(frozen=True, slots=True)
class GridDep(Op):
    """`wait` for the kernels before this one, or let the next one begin (`launch_dependents`).

    Source: PTX ISA, griddepcontrol.
    """

    kind: str


@dataclass(frozen=True, slots=True)
class MbarInit(Op):
    """Make the 8 bytes of the access an mbarrier that `count` arrivals complete."""

    bar: Access
    count: int


@dataclass(frozen=True, slots=True)
class MbarArrive(Op):
    """Arrive, and announce `bytes` of transactions (0: none). `cluster_rank`: at that block's."""

    bar: Access
    bytes: int = 0
    cluster_rank: Scalar | None = None


@dataclass(frozen=True, slots=True)
class MbarWait(Op):
    """Wait until the phase of this parity (0 or 1) is complete."""

    bar: Access
    phase: Scalar


@dataclass(frozen=True, slots=True)
class WaitUntil(Op):
    """Read the one element of the access, with acquire order, until it compares (`eq ge ...`)."""

    src: Access
    test: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class SetMaxNReg(Op):
    """Give registers back, or ask for more. Source: setmaxnreg."""

    n: int
    kind: str  # inc | dec


# -- debug


@dataclass(frozen=True, slots=True)
class Print(Op):
    """Print the text, with each `{}` replaced by a value, for each thread where it runs."""

    text: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Assert(Op):
    """Stop with the text unless cond holds."""

    cond: Cond
    text: str


OPS: tuple[type[Op], ...] = tuple(
    kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Op) and kind is not Op
)
