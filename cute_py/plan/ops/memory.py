"""Memory: loads, stores and copies by threads, warps and the TMA unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from cute_py.atoms.copy import Copy_Op
from cute_py.atoms.tensor_map import MOST_BOX, MOST_DIMENSIONS
from cute_py.dtypes.packing import PACKED
from cute_py.dtypes.table import Dtype
from cute_py.layout.tuples import show
from cute_py.plan.access import (
    HINTS,
    LOAD_CACHES,
    POLICIES,
    PREFETCHES,
    PRIORITIES,
    STORE_CACHES,
    Access,
)
from cute_py.plan.conditions import Cond, Reg, Scalar
from cute_py.plan.functions import ATOMICS, TMA_REDUCTIONS
from cute_py.plan.op import (
    FIXED,
    LOADED,
    MBARRIER,
    NAMED,
    PREFETCHED,
    STORED,
    WRITTEN,
    Group,
    Lack,
    Node,
    Op,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Groups of copies that a wait may leave pending. PTX states no limit; in SASS (DEPBAR) the number
# has 6 bits, and ptxas 13.0 makes 0 of 256.
MOST_PENDING = 63
ADDED = ("f32", "f16", "bf16")  # the types of which vectors are added atomically


def _elements(x: Access, reg: Reg) -> str:
    moved = x.count * x.width
    return "" if moved == len(reg) else f"{moved} elements in memory for {len(reg)} registers"


def _rows(x: Access, reg: Reg, each: int) -> str:
    """Return what is wrong with the row addresses of matrices with `each` elements per thread."""
    if x.vector_bits != 128 or x.space != "smem":
        return f"rows of {x.vector_bits} bits in {x.space}"
    return "" if x.count * each == len(reg) else f"{x.count} rows for {len(reg)} registers"


def _groups(n: int) -> str:
    return "" if 0 <= n <= MOST_PENDING else f"{n} groups"


@dataclass(frozen=True, slots=True)
class MakePtr(Op):
    """Define the name of global memory at an address (bytes), as the storage of accesses; it is
    live to the end of the block. The address is a multiple of `alignment`.
    """

    name: str = field(metadata=NAMED)
    address: Scalar
    dtype: Dtype
    alignment: int = field(metadata=FIXED)

    word: ClassVar[str] = "pointer"
    call: ClassVar[str] = "cute.make_ptr"
    purpose: ClassVar[str] = "an address that was read from memory or computed"
    share: ClassVar[str] = "waits"

    @property
    def packed(self) -> bool:
        """Whether its elements share bytes."""
        return self.dtype.bits < 8

    def problem(self) -> str:
        """Check for an alignment that is a power of two, and elements that fill bytes."""
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            return f"an alignment of {self.alignment} bytes"
        return "" if self.dtype.bits in (*PACKED, 8, 16, 32, 64) else f"elements of {self.dtype}"

    def __str__(self) -> str:
        return f"{self.name} = pointer to {self.dtype} at {self.address}, {self.alignment} bytes"


@dataclass(frozen=True, slots=True)
class Load(Op):
    """Load vector v of the access into elements v*width ... of dst. Where a guard is false, they
    get `fill` of the access, or keep their values if it is None. `order`: weak, acquire or
    volatile.
    """

    dst: Reg = field(metadata=WRITTEN)
    src: Access
    order: str = "weak"

    word: ClassVar[str] = "load"
    call: ClassVar[str] = "a load"
    purpose: ClassVar[str] = "ld.global or ld.shared, one for each vector"
    share: ClassVar[str] = "copies"
    vectors: ClassVar[str] = "src"
    peers: ClassVar[bool] = True

    @property
    def preserved(self) -> Reg | None:
        """The destination, if there is no fill."""
        return self.dst if self.src.fill is None and self.src.guards else None

    def problem(self) -> str:
        """Check for equally many elements in memory and registers."""
        return _elements(self.src, self.dst)

    def lack(self) -> Lack | None:
        """Whole bytes, or a cache operator of loads."""
        return self.src.lack((*LOAD_CACHES, *HINTS))

    def needs(self) -> str | None:
        """What its hints for the cache need."""
        return self.src.feature()

    def __str__(self) -> str:
        return f"{self.dst} = load {self.src}"


@dataclass(frozen=True, slots=True)
class Store(Op):
    """The inverse of Load; nothing is stored where a guard is false. `order`: weak or release."""

    dst: Access = field(metadata=STORED)
    src: Reg
    order: str = "weak"

    word: ClassVar[str] = "store"
    call: ClassVar[str] = "a store"
    purpose: ClassVar[str] = "st.global or st.shared, one for each vector"
    share: ClassVar[str] = "copies"
    vectors: ClassVar[str] = "dst"
    peers: ClassVar[bool] = True

    def problem(self) -> str:
        """Check for equally many elements in memory and registers."""
        return _elements(self.dst, self.src)

    def lack(self) -> Lack | None:
        """Whole bytes, or a cache operator of stores."""
        return self.dst.lack((*STORE_CACHES, *PRIORITIES, *POLICIES), "store")

    def needs(self) -> str | None:
        """What its hints for the cache need."""
        return self.dst.feature()

    def __str__(self) -> str:
        return f"store {self.dst} = {self.src}"


@dataclass(frozen=True, slots=True)
class CpAsync(Op):
    """Copy vectors of global memory to shared memory, one for one; complete after CpWait. Where a
    guard of `src` is false, zeros are written (ZFILL atoms), or nothing.
    """

    atom: Copy_Op
    dst: Access = field(metadata=STORED)
    src: Access

    word: ClassVar[str] = "cp_async"
    call: ClassVar[str] = "a copy by cp.async"
    purpose: ClassVar[str] = "global to shared memory, one instruction for each vector"
    share: ClassVar[str] = "copies"
    vectors: ClassVar[str] = "src"

    def problem(self) -> str:
        """Check for a copy from global to shared memory by vectors of 4, 8 or 16 bytes."""
        src, dst = self.src, self.dst
        if (src.space, dst.space) != ("gmem", "smem"):
            return f"a copy from {src.space} to {dst.space}"
        if src.vector_bits not in (32, 64, 128) or src.vector_bits != dst.vector_bits:
            return f"vectors of {src.vector_bits} and {dst.vector_bits} bits"
        return "" if src.count == dst.count else f"{src.count} vectors for {dst.count}"

    def lack(self) -> Lack | None:
        """A hint for the L2 cache; the atom is of a cache operator."""
        return self.src.lack((*POLICIES, *PREFETCHES), "copy by cp.async")

    def __str__(self) -> str:
        return f"cp_async {self.dst} = {self.src}"


@dataclass(frozen=True, slots=True)
class CpCommit(Op):
    """Commit a group of the thread's CpAsyncs. Source: cp.async.commit_group."""

    word: ClassVar[str] = "cp_async_commit"
    call: ClassVar[str] = "cute.cp_async_fence"
    purpose: ClassVar[str] = "cp.async.commit_group"
    share: ClassVar[str] = "waits"
    instruction: ClassVar[str | None] = "cp.async.commit_group"


@dataclass(frozen=True, slots=True)
class CpWait(Op):
    """Wait until at most n of the thread's groups are pending. Source: cp.async.wait_group."""

    n: int

    word: ClassVar[str] = "cp_async_wait"
    call: ClassVar[str] = "cute.cp_async_wait"
    purpose: ClassVar[str] = "cp.async.wait_group"
    share: ClassVar[str] = "waits"
    instruction: ClassVar[str | None] = "cp.async.wait_group"

    def problem(self) -> str:
        """Check for a number that the instruction has."""
        return _groups(self.n)

    def __str__(self) -> str:
        return f"cp_async_wait {self.n}"


@dataclass(frozen=True, slots=True)
class LdMatrix(Op):
    """Issue one ldmatrix per vector of the access. Each lane supplies the address of one row of 8
    elements of 16 bits. Instruction i fills elements i*n ... of dst, in the order of the atom's
    dst_tv.
    """

    atom: Copy_Op
    dst: Reg = field(metadata=WRITTEN)
    src: Access

    word: ClassVar[str] = "ldmatrix"
    call: ClassVar[str] = "a copy by ldmatrix"
    purpose: ClassVar[str] = "8x8 matrices from shared memory, one for each row address"
    share: ClassVar[str] = "copies"
    together: ClassVar[Group] = "warp"

    def problem(self) -> str:
        """Check for rows of 16 bytes of shared memory, as many as the registers hold."""
        return _rows(self.src, self.dst, self.atom.dst_bits // self.dst.dtype.bits)

    def __str__(self) -> str:
        return f"{self.dst} = ldmatrix {self.src}  {self.atom}"


@dataclass(frozen=True, slots=True)
class StMatrix(Op):
    """The inverse of LdMatrix."""

    atom: Copy_Op
    dst: Access = field(metadata=STORED)
    src: Reg

    word: ClassVar[str] = "stmatrix"
    call: ClassVar[str] = "a copy by stmatrix"
    purpose: ClassVar[str] = "8x8 matrices to shared memory, one for each row address"
    share: ClassVar[str] = "copies"
    together: ClassVar[Group] = "warp"

    def problem(self) -> str:
        """Check for rows of 16 bytes of shared memory, as many as the registers hold."""
        return _rows(self.dst, self.src, self.atom.src_bits // self.src.dtype.bits)

    def __str__(self) -> str:
        return f"stmatrix {self.dst} = {self.src}  {self.atom}"


@dataclass(frozen=True, slots=True)
class Atomic(Op):
    """Replace each element x by fn(x, src): `add min max exch cas and or xor`. `cas` replaces it by
    src if its bits are those of `compare`. `old` gets x, and is unchanged where a guard is false.
    Each element is replaced atomically, whatever the width of the access.
    """

    fn: str
    dst: Access = field(metadata=STORED)
    src: Reg
    old: Reg | None = field(default=None, metadata=WRITTEN)
    compare: Reg | None = None

    word: ClassVar[str] = "atomic"
    call: ClassVar[str] = "cute.atomic"
    purpose: ClassVar[str] = "atom, or red of vectors; one for each vector"
    share: ClassVar[str] = "copies"
    atomic: ClassVar[bool] = True
    peers: ClassVar[bool] = True

    @property
    def preserved(self) -> Reg | None:
        """The old values of the elements."""
        return self.old if self.dst.guards else None

    def problem(self) -> str:
        """Check for a known function, and equally many elements in memory and registers."""
        if self.fn not in ATOMICS or (self.fn == "cas") != (self.compare is not None):
            return f"the atomic {self.fn}"
        if self.dst.width > 1 and (self.fn != "add" or self.dst.dtype.name not in ADDED):
            return f"an atomic {self.fn} of vectors of {self.dst.dtype}"
        regs = [self.src] if self.compare is None else [self.src, self.compare]
        return next((wrong for reg in regs if (wrong := _elements(self.dst, reg))), "")

    def lack(self) -> Lack | None:
        """An instruction for the type, in shared memory of peers one that is atomic: of 64 bits
        ptxas 13.0 makes a load and a store there, and only sums are right (measured on an H200).
        """
        kinds = ATOMICS[self.fn]
        if self.dst.dtype.name in kinds:
            if self.dst.rank is None or self.fn == "add" or self.dst.dtype.bits < 64:
                return None
            return Lack(
                f"an atomic {self.fn} of 64 bits in shared memory of another block",
                "those of 32 bits, and add",
                "let each block combine in its own shared memory, and add or read the results",
            )
        instead = "combine in registers (cute.warp_reduce), and let one thread store the result"
        if self.fn in ("min", "max") and self.dst.dtype.name == "f64":
            instead += (
                "; numbers of at least 0 have the order of their bits: cute.recast both to s64"
            )
        return Lack(
            f"an atomic {self.fn} of {self.dst.dtype}", f"{', '.join(kinds)} for {self.fn}", instead
        )

    def needs(self) -> str | None:
        """The addition of bf16, or `mapa`, which only newer architectures have."""
        newer = self.fn == "add" and self.dst.dtype.name == "bf16"
        return "atom.add.noftz.bf16" if newer else self.dst.feature()


@dataclass(frozen=True, slots=True)
class Box(Node):
    """A box of a tensor in shared memory, as TMA reads and writes it.

    Attributes:
        tile: the elements of the box: one vector of shared memory.
        modes: the modes of the tensor, the contiguous one first.
        extents: the extent of the box along each of them (elements).
        swizzle: the span of the swizzle (bytes): 32, 64, 128, or 0 for none.

    Law: the elements follow each other, the first of `modes` fastest. A swizzle changes the byte
    address x of an element to x ^ (x // 128 % (swizzle / 16)) * 16. Its rows are as wide as the
    swizzle: narrower ones take its whole width. Source: PTX ISA, "Tensor Copies", "Swizzling
    Modes"; CUDA Programming Guide, "Using TMA to transfer multi-dimensional arrays".
    """

    tile: Access
    modes: tuple[int, ...] = field(metadata=FIXED)
    extents: tuple[int, ...] = field(metadata=FIXED)
    swizzle: int = field(default=0, metadata=FIXED)

    @property
    def period(self) -> int:
        """The bytes of 8 rows of the swizzle: its pattern is the same at each multiple of them. A
        box starts at one; without a swizzle, at a multiple of 128.
        """
        return 8 * self.swizzle or 128

    @property
    def bytes(self) -> int:
        """The size of the box (bytes)."""
        return self.tile.vector_bits // 8

    def order(self) -> Iterator[int]:
        """Yield the place of each element of the box among the elements of the tile."""
        size, units = self.tile.dtype.bits // 8, self.swizzle // 16
        for at in range(0, self.bytes, size):
            yield (at ^ (at // 128 % units * 16 if units else 0)) // size

    def problem(self, coord: tuple[Scalar, ...]) -> str:
        """Return what is wrong with a box at a coordinate, or "": what no tensor map describes."""
        if sorted(self.modes) != list(range(len(coord))) or len(self.extents) != len(coord):
            return f"a box of the modes {self.modes} at {len(coord)} coordinates"
        if (
            len(coord) > MOST_DIMENSIONS
            or not 0 < min(self.extents) <= max(self.extents) <= MOST_BOX
        ):
            return f"a box of {self.extents} elements"
        if (self.tile.space, self.tile.width, self.tile.count) != ("smem", prod(self.extents), 1):
            return f"{self.tile.count} vectors of {self.tile.width} elements for a box"
        row = self.extents[0] * self.tile.dtype.bits // 8
        if self.tile.swizzle is not None or self.swizzle not in (0, 32, 64, 128):
            return f"a box with a swizzle of {self.swizzle} bytes"
        if row % 16 or (self.swizzle and row != self.swizzle):
            return f"rows of {row} bytes with a swizzle of {self.swizzle} bytes"
        return ""

    def __str__(self) -> str:
        swizzle = f" swizzle {self.swizzle}" if self.swizzle else ""
        return f"{self.tile} {show(self.extents)} of modes {show(self.modes)}{swizzle}"


@dataclass(frozen=True, slots=True)
class Im2col(Node):
    """How TMA steps over pixels, by spatial mode, the innermost first: W, H, D.

    The pixels go from `lower` to the last of the tensor plus `upper`, in steps of `step`.
    """

    lower: tuple[int, ...] = field(metadata=FIXED)
    upper: tuple[int, ...] = field(metadata=FIXED)
    step: tuple[int, ...] = field(metadata=FIXED)

    def problem(self, coord: tuple[Scalar, ...], offsets: tuple[Scalar, ...]) -> str:
        """Return what is wrong with the steps at a coordinate."""
        counts = {len(x) for x in (self.lower, self.upper, self.step, offsets)}
        if counts != {len(coord) - 2} or not 3 <= len(coord) <= MOST_DIMENSIONS:
            return f"pixels of {len(self.lower)} spatial modes at {len(coord)} coordinates"
        for low, high, x in zip(self.lower, self.upper, offsets, strict=True):
            if x.__class__ is int and not 0 <= x <= -low - high:
                return f"a pixel moved by {x}, in a bounding box that allows 0 to {-low - high}"
        return "" if 0 < min(self.step) <= max(self.step) <= 8 else f"steps of {self.step}"


@dataclass(frozen=True, slots=True)
class TmaLoad(Op):
    """One thread copies the box at `coord` of a tensor to shared memory, and its bytes complete on
    an mbarrier. Elements outside of the tensor are zero.

    `coord` has an entry for each mode of the tensor. `multicast` is a mask of blocks of the
    cluster: each gets the box at the same offset of its shared memory. `cache` is a policy for L2.
    Where `guard` is false, nothing is copied, but the bytes complete: shared memory is undefined.

    With `im2col`, the box is (channels, pixels, 1 ...): pixels in its order from `coord` on, each
    moved by `offsets` of the spatial modes, the innermost first.
    """

    tensor: str = field(metadata=LOADED)
    coord: tuple[Scalar, ...]
    box: Box = field(metadata=STORED)
    bar: Access = field(metadata=MBARRIER)
    multicast: Scalar = 0
    cache: str = ""
    guard: Cond | None = None
    im2col: Im2col | None = None
    offsets: tuple[Scalar, ...] = ()

    word: ClassVar[str] = "tma_load"
    call: ClassVar[str] = "cute.tma_load"
    purpose: ClassVar[str] = "cp.async.bulk.tensor: a box of a tensor to shared memory"
    share: ClassVar[str] = "copies"
    instruction: ClassVar[str | None] = "cp.async.bulk.tensor"
    bulk: ClassVar[bool] = True

    def problem(self) -> str:
        """Check for a box that TMA can copy."""
        problem = self.box.problem(self.coord) or _policy(self.cache)
        if problem or self.im2col is None:
            return problem
        if max(self.box.extents[2:]) > 1:
            return f"a box of {self.box.extents} elements of pixels"
        return self.im2col.problem(self.coord, self.offsets)


@dataclass(frozen=True, slots=True)
class TmaStore(Op):
    """One thread copies shared memory to the box at `coord`; elements outside of the tensor are
    not written. `reduce` is "" or the operation (add, min, max). `cache` is a policy for L2.
    Where `guard` is false, nothing is copied.
    """

    tensor: str = field(metadata=STORED)
    coord: tuple[Scalar, ...]
    box: Box
    reduce: str = ""
    cache: str = ""
    guard: Cond | None = None

    word: ClassVar[str] = "tma_store"
    call: ClassVar[str] = "cute.tma_store"
    purpose: ClassVar[str] = "cp.async.bulk.tensor: shared memory to a box of a tensor"
    share: ClassVar[str] = "copies"
    instruction: ClassVar[str | None] = "cp.async.bulk.tensor"
    bulk: ClassVar[bool] = True

    def problem(self) -> str:
        """Check for a box that TMA can copy, and types that it can combine."""
        known = ("", *(how for how, kinds in TMA_REDUCTIONS.items() if self._kind in kinds))
        wrong = "" if self.reduce in known else f"{self.reduce} of {self._kind} by TMA"
        return self.box.problem(self.coord) or _policy(self.cache) or wrong

    @property
    def _kind(self) -> str:
        return self.box.tile.dtype.name


def _policy(cache: str) -> str:
    return "" if cache in ("", *POLICIES) else f"the policy {cache!r} for L2"


@dataclass(frozen=True, slots=True)
class BulkCommit(Op):
    """Commit a group of the thread's TmaStores. Source: cp.async.bulk.commit_group."""

    word: ClassVar[str] = "bulk_commit"
    call: ClassVar[str] = "cute.tma_store_commit"
    purpose: ClassVar[str] = "cp.async.bulk.commit_group"
    share: ClassVar[str] = "waits"
    instruction: ClassVar[str | None] = "cp.async.bulk.commit_group"


@dataclass(frozen=True, slots=True)
class BulkWait(Op):
    """Wait until at most n groups of TmaStores are pending, or (`read`) still read their source."""

    n: int
    read: bool = False

    word: ClassVar[str] = "bulk_wait"
    call: ClassVar[str] = "cute.tma_store_wait"
    purpose: ClassVar[str] = "cp.async.bulk.wait_group"
    share: ClassVar[str] = "waits"
    instruction: ClassVar[str | None] = "cp.async.bulk.wait_group"

    def problem(self) -> str:
        """Check for a number that the instruction has."""
        return _groups(self.n)


def _tile(tile: Access, cells: Access) -> str:
    """Return what is wrong with the element with which a tile begins, and with its elements."""
    if (tile.space, cells.space) != ("smem", "smem"):
        return f"a tile in {tile.space}"
    return "" if tile.count * tile.width == 1 else f"a tile that begins with {tile.count} elements"


@dataclass(frozen=True, slots=True)
class WmmaLoad(Op):
    """Load a fragment by wmma.load. PTX gives its elements to threads as it likes: the emulator
    loads those of `cells`, in an order of its own. The instruction starts at `tile`, an element, in
    lines that are `step` elements apart.

    `form`: "a.sync.aligned.row.m16n16k16" and the like: the operand, its major and the shape.
    """

    form: str
    dst: Reg = field(metadata=WRITTEN)
    cells: Access
    tile: Access = field(metadata=PREFETCHED)
    step: Scalar

    word: ClassVar[str] = "wmma_load"
    call: ClassVar[str] = "Wmma.load"
    purpose: ClassVar[str] = "wmma.load: a fragment of a warp"
    share: ClassVar[str] = "copies"
    together: ClassVar[Group] = "warp"

    def problem(self) -> str:
        """Check for a whole tile."""
        return _tile(self.tile, self.cells)

    def __str__(self) -> str:
        return f"{self.dst} = wmma.load.{self.form} {self.tile} by {self.step}"


@dataclass(frozen=True, slots=True)
class WmmaStore(Op):
    """The inverse of WmmaLoad, for a fragment of sums."""

    form: str
    cells: Access = field(metadata=STORED)
    tile: Access = field(metadata=PREFETCHED)
    step: Scalar
    src: Reg

    word: ClassVar[str] = "wmma_store"
    call: ClassVar[str] = "Wmma.store"
    purpose: ClassVar[str] = "wmma.store: a fragment of a warp"
    share: ClassVar[str] = "copies"
    together: ClassVar[Group] = "warp"

    def problem(self) -> str:
        """Check for a whole tile."""
        return _tile(self.tile, self.cells)

    def __str__(self) -> str:
        return f"wmma.store.{self.form} {self.tile} by {self.step} = {self.src}"


@dataclass(frozen=True, slots=True)
class SharedAddress(Op):
    """Set dst to the address of an element in the shared memory of the block (bytes): the first
    byte of the window has address 0. Source: PTX ISA, cvta.to.shared.
    """

    dst: Reg = field(metadata=WRITTEN)
    src: Access = field(metadata=PREFETCHED)

    word: ClassVar[str] = "shared_address"
    call: ClassVar[str] = "cute.smem_address"
    purpose: ClassVar[str] = "the address of an element of shared memory (bytes)"
    share: ClassVar[str] = "registers"

    def problem(self) -> str:
        """Check for one element of shared memory, and a word."""
        src = self.src
        if src.space != "smem" or src.count * src.width != 1:
            return f"the address of {src.count * src.width} elements in {src.space}"
        return (
            ""
            if (self.dst.dtype.name, len(self.dst)) == ("u32", 1)
            else f"an address in {self.dst}"
        )

    def __str__(self) -> str:
        return f"{self.dst} = &{self.src}"


@dataclass(frozen=True, slots=True)
class Prefetch(Op):
    """Prefetch an access of global memory into the L2 cache."""

    src: Access = field(metadata=PREFETCHED)

    word: ClassVar[str] = "prefetch"
    call: ClassVar[str] = "cute.prefetch"
    purpose: ClassVar[str] = "prefetch.global.L2"
    share: ClassVar[str] = "copies"
