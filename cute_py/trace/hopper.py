"""TMA, mbarriers and warpgroup instructions of Hopper kernels.

A `tma_tensor` is a tensor of coordinates, so each tile of it is a box; shared tiles and registers
are ordinary tensors. Source: PTX ISA, cp.async.bulk.tensor, mbarrier, wgmma; cutlass
include/cute/arch/copy_sm90_tma.hpp, mma_sm90_gmma.hpp.
"""

from __future__ import annotations

from math import prod
from typing import overload

from cute_py.atoms.gmma import make_gmma_desc
from cute_py.dtypes.table import u64
from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.layout.basis import make_basis_like
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import Layout
from cute_py.layout.modes import get
from cute_py.plan import ops
from cute_py.plan.access import POLICIES
from cute_py.plan.conditions import bounds_of
from cute_py.plan.functions import TMA_REDUCTIONS
from cute_py.tensor.tensor import Tensor, derived, require_tensor
from cute_py.tiled.tiled_mma import TiledMMA
from cute_py.trace.boxes import Boxes, is_whole, refuse_part
from cute_py.trace.control import bare_condition
from cute_py.trace.engines import GlobalMemory, Guarded, SharedMemory
from cute_py.trace.lower import access, register, require_own
from cute_py.trace.matrix import extents_of_product
from cute_py.trace.memory import smem
from cute_py.trace.runtime_integers import Condition, as_condition, bare
from cute_py.trace.state import emit, number_within, require_choice
from cute_py.trace.threads import launched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.layout.types import AnyLayout, Leaf
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Scalar

_MODES = {0: "INTER", 1: "SW128", 2: "SW64", 3: "SW32"}  # layout types of a descriptor


# -- mbarriers


class Mbarriers:
    """Mbarriers in shared memory, which threads arrive at and asynchronous copies complete.

    A barrier counts arrivals, and the bytes of copies that it expects. When both are complete, its
    phase ends and the next one begins: parity 0, 1, 0 ... One thread calls `init`; then fence and
    synchronize the block.
    """

    __slots__ = ("count", "rank", "tensor")
    tensor: Tensor
    count: int
    rank: Leaf | None  # of the block in its cluster that has them; None: the thread's own

    def __init__(self, count: int) -> None:
        """Allocate shared memory for `count` barriers."""
        self.count, self.rank = number_within(count, "cute.mbarriers", 1), None
        self.tensor = smem(u64, self.count, alignment=8, name="bar")

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        there = "" if self.rank is None else f"@{bare(self.rank)}"
        return f"mbarriers({self.count}) at {self.tensor.engine}{there}"

    def _at(self, index: Leaf) -> Access:
        engine = self.tensor.engine
        _require_below(index, self.count, "cute.mbarriers")
        one = derived(engine.moved(self.tensor.layout(index)), Layout(1, 0))
        return access(one, 1, "mbarrier")

    def init(self, arrivals: int) -> None:
        """Initialize all barriers for this number of arrivals per phase, 1 to 2^20 - 1; called by
        one thread.
        """
        self._require_own("init")
        arrivals = number_within(arrivals, "cute.mbarriers", 1, ops.MOST_COUNT)
        for i in range(self.count):
            emit(ops.MbarInit, self._at(i), arrivals)

    def inval(self) -> None:
        """End all barriers, so that their memory may be initialized again, or hold something else;
        called by one thread, once nobody uses them.
        """
        self._require_own("inval")
        for i in range(self.count):
            emit(ops.MbarInval, self._at(i))

    def arrive(self, index: Leaf, cluster_rank: Leaf | None = None) -> None:
        """Arrive once; with `cluster_rank`, at the barrier of that block of the cluster."""
        there = self.rank if cluster_rank is None else cluster_rank
        rank = None if there is None else bare(there, "cute.mbarriers")
        emit(ops.MbarArrive, self._at(index), cluster_rank=rank)

    def arrive_expect_tx(self, index: Leaf, bytes: int) -> None:
        """Arrive once, and expect `bytes` from copies, at most 2^20 - 1."""
        bytes = number_within(bytes, "cute.mbarriers", 0, ops.MOST_COUNT)
        there = None if self.rank is None else bare(self.rank)
        emit(ops.MbarArrive, self._at(index), bytes, cluster_rank=there)

    def wait(self, index: Leaf, parity: Leaf) -> None:
        """Wait until the phase of this parity, 0 or 1, has ended. A new barrier is in phase 0, so a
        wait for parity 1 returns immediately.
        """
        self._require_own("wait")
        known = bare(parity, "cute.mbarriers")
        low, high = bounds_of(known)
        if low is None or high is None or low < 0 or high > 1:
            choices = "0, 1: what is known to be one of them, such as (k // stages) % 2"
            facts = {"value": known, "choices": choices}
            raise refusal_here("kernel-choice", operation="cute.mbarriers", **facts)
        emit(ops.MbarWait, self._at(index), known)

    def _require_own(self, what: str) -> None:
        if self.rank is not None:
            raise refusal_here("mapa-own", operation="cute.mapa", what=what)


@overload
def mapa(shared: Mbarriers, rank: Leaf) -> Mbarriers: ...
@overload
def mapa(shared: Tensor, rank: Leaf) -> Tensor: ...
def mapa(shared: Mbarriers | Tensor, rank: Leaf) -> Mbarriers | Tensor:
    """Return the tensor or mbarriers that another block of the cluster has at the same place.

    Args:
        shared: a tensor in shared memory, or mbarriers, of this block.
        rank: the rank of the other block in the cluster (`cluster_rank`), 0 to its size - 1.

    Law: element c of the result is element c of `shared` in the block of that rank. Threads load,
    store and copy it, by vectors of up to 16 bytes, and combine it atomically. Call `cluster_sync`
    before the first access, between accesses that depend on each other, and before the end. Threads
    may arrive at the mbarriers; a block initializes, and waits at, its own. Raises LayoutError for
    a tensor that is not in shared memory of this block, and for a rank that the cluster lacks;
    ldmatrix, cp.async, TMA and wgmma do not take it.
    Source: PTX ISA, mapa; ld, st, atom (.shared::cluster).

    >>> # in a kernel: total = mine + cute.mapa(sums, 1 - cute.cluster_rank())[0]
    """
    place = _require_below(rank, prod(launched("cute.mapa").cluster), "cute.mapa")
    if isinstance(shared, Mbarriers):
        if shared.rank is not None:
            raise refusal_here("mapa-tensor", operation="cute.mapa", value=shared)
        peer = object.__new__(Mbarriers)
        peer.count, peer.tensor, peer.rank = shared.count, shared.tensor, place
        return peer
    engine = getattr(shared, "engine", None)
    if not isinstance(engine, SharedMemory) or engine.rank is not None:
        raise refusal_here("mapa-tensor", operation="cute.mapa", value=shared)
    return derived(engine.of(place), shared.layout)


def _require_below(x: Leaf, count: int, operation: str) -> Leaf:
    """Return an integer; refuse one that is known not to be below a count."""
    number = ints.normalize(x, operation)
    if number.__class__ is int and not 0 <= number < count:
        choices = ", ".join(map(str, range(count))) if count <= 16 else f"0, 1 ... {count - 1}"
        raise refusal_here("kernel-choice", operation=operation, value=number, choices=choices)
    return number


def mbarriers(count: int) -> Mbarriers:
    """Return `count` mbarriers in shared memory; see `Mbarriers`."""
    return Mbarriers(count)


# -- TMA


def tma_tensor(tensor: Tensor) -> Tensor:
    """Return an argument of a kernel as a tensor of coordinates, whose tiles TMA copies: the whole
    array, perhaps recast to a type of the same width.

    Law: local_tile(tma_tensor(x), ...) has the shape of local_tile(x, ...). Slices of it are
    tensors of coordinates too; a view that the kernel makes of a part of x is an error.
    """
    engine, layout = require_tensor(tensor, "cute.tma_tensor").engine, tensor.layout
    if not isinstance(engine, GlobalMemory) or not is_whole(engine, layout):
        refuse_part(tensor, "cute.tma_tensor")
    if engine.dtype.bits < 8:
        raise refusal_here("tma-bits", operation="cute.tma_tensor", dtype=engine.dtype)
    shape, stride = layout.shape, layout.stride
    if not isinstance(shape, tuple):
        shape, stride = (shape,), (stride,)
    start = (0,) * len(shape)
    coordinates = Layout(shape, make_basis_like(shape))
    return derived(Guarded(engine, shape, stride, start), coordinates)


def tma_load(
    source: Tensor,
    target: Tensor,
    bars: Mbarriers,
    index: Leaf,
    multicast: Leaf = 0,
    cache: str = "",
    outside: str = "zero",
) -> None:
    """Copy a tile to shared memory; its bytes complete on a barrier. Called by one thread.

    Args:
        source: a tile of a `tma_tensor`.
        target: shared memory of the same shape, with a TMA swizzle or none.
        bars: the barriers.
        index: the index of the barrier that counts the bytes.
        multicast: a mask of the blocks of the cluster that get the tile; 0: this block. One that is
            computed at run time is not 0.
        cache: a policy for L2: "L2::evict_first", "L2::evict_last", "L2::evict_normal" or "".
        outside: "zero", or "skip": boxes wholly outside of the tensor are not copied, which takes
            longer than a copy. Their bytes are counted, and their shared memory is undefined: for
            rows of A or B that only reach elements of D that are not stored, never along K.

    Elements outside of the tensor are zero, and their bytes are counted. A tile that is wider than
    the swizzle, or longer than 256 elements, is copied by several boxes. Raises LayoutError for a
    tile that boxes do not fill as its layout says, or for `skip` with `multicast`.
    """
    require_policy(cache, "cute.tma_load")
    require_mbarriers(bars, "cute.tma_load")
    found = Boxes(source, target, "cute.tma_load")
    bar, mask = bars._at(index), bare(multicast, "cute.tma_load")
    skips = _skips(outside, mask)
    for coord, box in found.parts():
        guard = found.reaches(coord, box) if skips else None
        emit(ops.TmaLoad, found.engine.name, coord, box, bar, mask, cache, guard)


def tma_store(source: Tensor, target: Tensor, reduce: str = "", cache: str = "") -> None:
    """Copy a tile from shared memory to a tile of a `tma_tensor`. Called by one thread.

    Args:
        source: shared memory, with a TMA swizzle or none.
        target: a tile of a `tma_tensor`; elements outside of the tensor are not written.
        reduce: "" to store, or add, min, max to combine with the old elements: add of 32-bit
            integers, u64, f32, f16 and bf16; min and max of all of these but f32, and of s64.
        cache: a policy for L2, as for `tma_load`.

    Boxes wholly outside of the tensor are not copied. Commit the group with `tma_store_commit`; the
    shared memory may be overwritten after `tma_store_wait(0, read=True)`.
    """
    require_policy(cache, "cute.tma_store")
    found = Boxes(target, source, "cute.tma_store")
    kind = found.engine.dtype
    known = ("", *[name for name, kinds in TMA_REDUCTIONS.items() if kind.name in kinds])
    if reduce.__class__ is not str or reduce not in known:
        words = "; ".join(f"{name} of {', '.join(kinds)}" for name, kinds in TMA_REDUCTIONS.items())
        facts = {"value": f"{reduce} of {kind}", "choices": words}
        raise refusal_here("kernel-choice", operation="cute.tma_store", **facts)
    for coord, box in found.parts():
        emit(ops.TmaStore, found.engine.name, coord, box, reduce, cache, found.reaches(coord, box))


def _skips(outside: str, multicast: Scalar) -> bool:
    known = ("zero", "skip") if multicast.__class__ is int and multicast == 0 else ("zero",)
    if outside.__class__ is not str or outside not in known:
        words = " or ".join(known) + (" with multicast" if len(known) == 1 else "")
        raise refusal_here("kernel-choice", operation="cute.tma_load", value=outside, choices=words)
    return outside == "skip"


def require_mbarriers(bars: object, operation: str) -> None:
    """Refuse what has no barriers."""
    if not isinstance(bars, Mbarriers):
        raise refusal_here("kernel-choice", operation=operation, value=bars, choices="mbarriers")


def require_policy(cache: str, operation: str) -> None:
    """Refuse a policy for L2 that PTX does not have."""
    require_choice(cache, ("", *POLICIES), operation)


def tma_store_commit() -> None:
    """Commit a group of the thread's TMA stores (cp.async.bulk.commit_group)."""
    emit(ops.BulkCommit)


def tma_store_wait(groups: int, read: bool = False) -> None:
    """Wait until at most `groups` groups are pending, or (`read`) still read shared memory."""
    require_choice(read, (False, True), "cute.tma_store_wait")
    emit(
        ops.BulkWait, number_within(groups, "cute.tma_store_wait", 0, ops.MOST_PENDING), bool(read)
    )


# -- warpgroups


def warpgroup_fence() -> None:
    """Order earlier register accesses before later products (wgmma.fence)."""
    emit(ops.WgFence)


def warpgroup_commit() -> None:
    """Commit a group of products (wgmma.commit_group)."""
    emit(ops.WgCommit)


def warpgroup_wait(groups: int, after: Tensor | None = None) -> None:
    """Wait until at most `groups` groups, 0 to 7, are in flight (wgmma.wait_group).

    Args:
        groups: how many may be left in flight.
        after: registers of f32 that have their values before the threads wait. The instruction
            names no register, so ptxas moves it up, as far as the products before it: above
            arithmetic that was meant to take place while they run. One or two sums that depend on
            all of that arithmetic hold it back, for an instruction each and a predicate.

    """
    name = "cute.warpgroup_wait"
    count = number_within(groups, name, 0, ops.MOST_GROUPS)
    if after is not None:
        require_tensor(after, name)
    emit(ops.WgWait, count, None if after is None else register(after, name))


def warpgroup_gemm(
    mma: TiledMMA | MMA_Atom,
    acc: Tensor,
    a: Tensor,
    b: Tensor,
    accumulate: bool | Condition | Tensor = True,
) -> None:
    """Issue acc += a * b by warpgroup instructions; acc may not be accessed before
    `warpgroup_wait`.

    Args:
        mma: a tiled warpgroup MMA, or its atom.
        acc: accumulators (V,M,N).
        a: the thread's partition (V,M,K) of A in shared memory, as partition_A returns it, or a
            fragment in registers for an atom that reads A from registers.
        b: the partition (V,N,K) of B in shared memory.
        accumulate: False to start from zero: the old sums are not read. Or a condition on which
            all threads of the warpgroup agree, such as k > 0, or a flag (b1): one that is false
            starts from zero.

    Raises LayoutError if shapes or memory spaces do not fit the atom, LeafTypeError for types.
    """
    truth = as_condition(accumulate, "cute.warpgroup_gemm")
    sums = bare_condition(truth).cond if isinstance(truth, Condition) else truth
    atom = mma.atom if isinstance(mma, TiledMMA) else mma
    if [getattr(atom, f"{x}_memory", None) for x in "bc"] != ["smem", "rmem"]:
        choices = "a tiled MMA, or an atom, of a warpgroup: SM90_..._SS or _RS"
        facts = {"value": mma, "choices": choices}
        raise refusal_here("kernel-choice", operation="cute.warpgroup_gemm", **facts)
    m, n, k = extents_of_product(atom, acc, a, b, "cute.warpgroup_gemm")
    steps = tuple(
        (i + m * j, i + m * kk, j + n * kk) for kk in range(k) for j in range(n) for i in range(m)
    )
    left = (
        register(a, "cute.warpgroup_gemm")
        if atom.a_memory == "rmem"
        else _tile(a, atom.major_a, "cute.warpgroup_gemm")
    )
    right = _tile(b, atom.major_b, "cute.warpgroup_gemm")
    d = register(acc, "cute.warpgroup_gemm")
    emit(ops.Wgmma, atom, d, left, right, steps, sums)


def _tile(part: Tensor, major: str, operation: str) -> ops.Tile:
    """Return an operand in shared memory, with the fields of its descriptor."""
    if not isinstance(part.engine, SharedMemory):
        wanted = "shared memory, of which the instruction reads this operand"
        how = "copy it to cute.smem(...), and pass the thread's part of that: thr.partition_B(s)"
        facts = {"tensor": part, "wanted": wanted, "how": how}
        raise refusal_here("kernel-space", operation=operation, **facts)
    require_own(part, operation, "load it to several blocks: cute.tma_load(..., multicast=)")
    descriptor = make_gmma_desc(_at_origin(get(part.layout, 0)), part.dtype, major)
    return ops.Tile(
        access(part, 1, operation),
        descriptor.leading_byte_offset * 16,
        descriptor.stride_byte_offset * 16,
        _MODES[descriptor.layout_type],
    )


def _at_origin(layout: AnyLayout) -> AnyLayout:
    """Return a composed layout without its offset, which is part of the descriptor's address."""
    if layout.__class__ is ComposedLayout:
        return ComposedLayout(layout.outer, 0, layout.inner)
    return layout


def setmaxnreg(count: int, kind: str) -> None:
    """Release registers (`dec`) or request more (`inc`), for all warps of a warpgroup."""
    count = ints.as_int(ints.normalize(count, "cute.setmaxnreg"), "cute.setmaxnreg")
    known = kind.__class__ is str and kind in ("inc", "dec")
    if count % 8 or not 24 <= count <= 256 or not known:
        raise refusal_here("kernel-registers", operation="cute.setmaxnreg", count=count, kind=kind)
    emit(ops.SetMaxNReg, count, kind)


# -- synchronization


def fence_proxy_async() -> None:
    """Make the thread's writes to shared memory visible to TMA and warpgroup instructions."""
    emit(ops.Fence, "proxy_async")


def fence_mbarrier_init() -> None:
    """Make new mbarriers visible to the asynchronous proxy and the cluster."""
    emit(ops.Fence, "mbarrier_init")


def cluster_sync() -> None:
    """Wait for all threads of the cluster."""
    emit(ops.Barrier, "cluster")
