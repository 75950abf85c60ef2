"""Launch shape, thread and block indices, synchronization, communication and debugging."""

from __future__ import annotations

from cute_py.calls.arguments import number
from cute_py.dtypes.table import b1, f64, s32, s64, u32
from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.integers.polynomial import symbols_of
from cute_py.integers.symbols import terms_of
from cute_py.layout.tuples import wrap
from cute_py.plan import ops
from cute_py.plan.conditions import bounds_of
from cute_py.plan.functions import ATOMICS, REDUCTIONS
from cute_py.plan.launch import MOST_GRID, MOST_THREADS, Launch, require_launch
from cute_py.plan.ops.debug import fields_of
from cute_py.plan.ops.memory import ADDED, MOST_PENDING
from cute_py.plan.ops.registers import REDUX
from cute_py.tensor.tensor import Tensor, require_tensor
from cute_py.trace.arithmetic import (
    apply,
    as_registers,
    condition_register,
    is_register,
    new_registers,
    require_domain,
)
from cute_py.trace.decided import decided
from cute_py.trace.facts import learn, range_of
from cute_py.trace.lower import access, register, require_own, widest_access
from cute_py.trace.memory import element_register
from cute_py.trace.runtime_integers import (
    RUN_TIME,
    Condition,
    Int,
    as_condition,
    bare,
    new_symbol,
)
from cute_py.trace.shown import KINDS, noted
from cute_py.trace.state import current, emit, number_within, require_choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import IntTuple, Leaf
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Scalar, Value


# -- the launch shape


def launch(
    grid: IntTuple,
    block: IntTuple,
    cluster: IntTuple = 1,
    min_blocks: int = 1,
    spill_bytes: int = 0,
    pdl: bool = False,
    fma: bool = False,
    allow_emulated: bool = False,
    resident: bool = False,
) -> None:
    """Set the launch shape, once, before the first use of a thread or block index.

    Args:
        grid: the blocks, an integer or (x, y, z); run-time integers of the arguments are allowed.
            Less than 2^31 along x, and 2^16 along y and z; whole clusters.
        block: the threads per block, static; up to 1024, and 64 along z.
        cluster: the blocks per cluster, static; up to 16, and every device with clusters has 8.
        min_blocks: the resident blocks per multiprocessor, static: like the second argument of
            CUDA's `__launch_bounds__`, it bounds the registers of a thread.
        spill_bytes: the local memory per thread that spills may use, static; it is an error in
            `cute.compile` if a kernel spills more.
        pdl: programmatic dependent launch: blocks start while the preceding kernel drains, and
            wait for it in `griddepcontrol_wait`, which must precede the first use of global memory:
            in each thread, or in one that it synchronises with. Before sm_90, kernels run one after
            another.
        fma: contract products and sums of floating-point registers: where one addition or
            subtraction alone reads a product, both become `cute.fma`, which rounds once. The plan
            is rewritten, so the emulator and a GPU agree.
        allow_emulated: compile matrix instructions also for architectures that replace each by
            several slower ones, such as products of s4 on sm_90. `MMA_Atom.support` names them.
        resident: all blocks run at once, as blocks need that wait for each other in any order: a
            launch of more blocks than the device has room for is an error. Without it, a block may
            wait for those of lower numbers and of its cluster alone.

    """
    trace = current()
    if trace.launch is not None or trace.scope is not trace.root:
        raise refusal_here("kernel-launch-twice", operation="cute.launch")
    blocks = tuple([_blocks(x) for x in _three(grid)])
    threads = [ints.as_int(ints.normalize(x, "cute.launch"), "cute.launch") for x in _three(block)]
    group = [ints.as_int(ints.normalize(x, "cute.launch"), "cute.launch") for x in _three(cluster)]
    least, spills = [
        ints.as_int(ints.normalize(x, "cute.launch"), "cute.launch")
        for x in (min_blocks, spill_bytes)
    ]
    extents: Any = {"grid": blocks, "block": tuple(threads), "cluster": tuple(group)}
    words = {"pdl": pdl, "allow_emulated": allow_emulated, "resident": resident}
    options: Any = {name: bool(given) for name, given in words.items()}
    shape = Launch(**extents, min_blocks=least, spill_bytes=spills, **options)
    require_launch(shape, "cute.launch", refusal_here)
    trace.launch, trace.contract = shape, bool(fma)
    trace.profiles = (_profile(grid), _profile(block))


def _blocks(x: object) -> Scalar:
    """Return an extent of the grid; refuse one that the arguments do not determine."""
    extent = bare(x, "cute.launch")
    known = current().taken
    for symbol in () if isinstance(extent, int) else symbols_of(terms_of(extent)):
        if symbol.name not in known:
            name = symbol.name
            raise refusal_here("kernel-grid", operation="cute.launch", grid=extent, name=name)
    return extent


def _three(x: IntTuple) -> tuple[Any, Any, Any]:
    parts = x if isinstance(x, tuple) else (x,)
    if not 1 <= len(parts) <= 3:
        raise refusal_here("kernel-block", operation="cute.launch", block=x)
    padded = (*parts, 1, 1)[:3]
    return padded[0], padded[1], padded[2]


def _profile(x: IntTuple) -> int:
    return len(x) if isinstance(x, tuple) else 0


def launched(operation: str) -> Launch:
    """Return the launch shape; refuse a use of it before `cute.launch`."""
    shape: Launch | None = current().launch
    if shape is None:
        raise refusal_here("kernel-no-launch", operation=operation)
    return shape


def thread_idx() -> Int:
    """Return the thread's index in its block: an integer, or (x, y, ...) if `block` was a tuple."""
    shape, tid = launched("cute.thread_idx"), thread_idx_linear()
    count = current().profiles[1]
    if not count:
        return decided(tid)  # type: ignore[no-any-return]
    x, y, _z = shape.block
    parts = (ints.mod(tid, x), ints.mod(ints.div(tid, x), y), ints.div(tid, x * y))
    return parts[:count]  # type: ignore[return-value]


def thread_idx_linear() -> Leaf:
    """Return the thread's number in its block: x fastest, then y, then z."""
    return _root_symbol("tid", launched("cute.thread_idx").threads, "thread")


def block_idx() -> Int:
    """Return the block's index in the grid: an integer, or (x, y, ...) if `grid` was a tuple."""
    shape = launched("cute.block_idx")
    count = current().profiles[0]
    parts = tuple([_root_symbol(f"bid_{a}", e) for a, e in zip("xyz", shape.grid, strict=True)])
    return parts[:count] if count else decided(parts[0])  # type: ignore[return-value]


def lane_idx() -> Int:
    """Return the thread's index in its warp, 0 to 31."""
    return decided(ints.mod(thread_idx_linear(), 32))  # type: ignore[no-any-return]


def warp_idx() -> Int:
    """Return the warp's index in its block."""
    return decided(ints.div(thread_idx_linear(), 32))  # type: ignore[no-any-return]


def cluster_idx() -> Int:
    """Return the index of the block's cluster in the grid: an integer, or (x, y, ...) if `grid` was
    a tuple. Without `cluster=` in `launch`, each block is a cluster.

    >>> # in a kernel: cute.launch(grid=8, block=32, cluster=2); cute.cluster_idx() is 0 to 3
    """
    cluster = launched("cute.cluster_idx").cluster
    here: Any = block_idx()
    place: Any = [ints.div(x, c) for x, c in zip(wrap(here), cluster, strict=False)]
    return tuple(place) if here.__class__ is tuple else place[0]  # type: ignore[return-value]


def cluster_rank() -> Int:
    """Return the rank of the block in its cluster: x fastest, then y, then z. Source: PTX ISA,
    %cluster_ctarank.

    >>> # in a kernel: cute.launch(grid=8, block=32, cluster=2); cute.cluster_rank() is 0 or 1
    """
    shape = launched("cute.cluster_rank")
    rank: Leaf = 0
    for a, extent, count in reversed([*zip("xyz", shape.grid, shape.cluster, strict=True)]):
        if count > 1:
            here = _root_symbol(f"bid_{a}", extent, "block")
            rank = ints.add(ints.mul(rank, count), ints.mod(here, count))
    return decided(rank)  # type: ignore[no-any-return]


_BLOCKS = dict(zip(("bid_x", "bid_y", "bid_z"), MOST_GRID, strict=True))


def _root_symbol(name: str, extent: object, uniform: str = "block") -> Leaf:
    trace = current()
    known = trace.symbols.get(name)
    if known is not None:
        return Int(known, trace.root)
    _low, high = bounds_of(extent)  # type: ignore[arg-type]
    if name in _BLOCKS:
        high = _BLOCKS[name] if high is None else min(high, _BLOCKS[name])
    inner, trace.scope = trace.scope, trace.root
    trace.limits[name] = extent
    if isinstance(extent, int):
        trace.every.add(name)
    try:
        return new_symbol(trace, name, 1, 0, None if high is None else high - 1, uniform)
    finally:
        trace.scope = inner


# -- synchronization


def syncthreads() -> None:
    """Wait for all threads of the block; their writes to shared memory are visible afterwards."""
    emit(ops.Barrier)


def syncwarp() -> None:
    """Wait for all lanes of the warp."""
    emit(ops.Barrier, "warp")


def named_barrier(id: int, threads: int, kind: str = "sync") -> None:
    """Synchronize `threads` threads at barrier `id` (1 to 15); `arrive` does not wait."""
    number_of = ints.normalize(id, "cute.named_barrier")
    threads = number_within(threads, "cute.named_barrier", 0, MOST_THREADS)
    inside = ints.less(0, number_of) is not False and ints.less(number_of, 16) is not False
    if threads % 32 or threads < 32 or not inside:
        raise refusal_here("kernel-barrier", operation="cute.named_barrier", id=id, threads=threads)
    require_choice(kind, ("sync", "arrive"), "cute.named_barrier")
    found = bare(number_of)
    here = range_of(found)  # of the threads that come, in a role for example
    emit(ops.Barrier, "named", kind, found, threads, None if here == bounds_of(found) else here)


def cp_async_fence() -> None:
    """Commit a group of asynchronous copies (cp.async.commit_group)."""
    emit(ops.CpCommit)


def cp_async_wait(groups: int) -> None:
    """Wait until at most `groups` groups are pending (cp.async.wait_group)."""
    emit(ops.CpWait, number_within(groups, "cute.cp_async_wait", 0, MOST_PENDING))


def threadfence(scope: str = "gpu") -> None:
    """Order memory accesses as seen by the `block`, `gpu` or `system`."""
    require_choice(scope, ("block", "gpu", "system"), "cute.threadfence")
    emit(ops.Fence, scope)


def griddepcontrol_wait() -> None:
    """Wait until the preceding kernels have ended and their results are visible: to the thread, and
    to those that learn of its wait by a barrier or an mbarrier.

    For `cute.launch(..., pdl=True)`; without it, the wait has no effect. Source: PTX ISA,
    griddepcontrol; cutlass/arch/grid_dependency_control.h.
    """
    emit(ops.GridDep, "wait")


def griddepcontrol_launch_dependents() -> None:
    """Allow the next kernel of the stream to start, if it is launched with `pdl=True`, once all
    blocks have reached this call. It still waits for this kernel's end before it reads. Source: PTX
    ISA, griddepcontrol.
    """
    emit(ops.GridDep, "launch_dependents")


# -- communication between lanes


def shuffle(tensor: Tensor, lane: Leaf, kind: str = "idx", width: int = 32) -> Tensor:
    """Return the elements of another lane of the warp.

    Args:
        tensor: registers.
        lane: the source lane (`idx`), the distance (`up`, `down`), or the XOR mask (`bfly`).
        kind: idx, up, down or bfly. Beyond the group, `up` and `down` return the lane's own value.
        width: the lanes of a group, a power of two.

    Source: PTX ISA, shfl.sync.
    """
    tensor = as_registers(tensor, "cute.shuffle")
    require_choice(kind, ("idx", "up", "down", "bfly"), "cute.shuffle")
    require_choice(width, (1, 2, 4, 8, 16, 32), "cute.shuffle")
    result = new_registers(tensor.dtype, tensor.shape)
    src, dst = register(tensor, "cute.shuffle"), register(result, "cute.shuffle")
    emit(ops.Shuffle, kind, dst, src, bare(lane), width)
    return result


def warp_reduce(fn: str, tensor: Tensor, width: int = 32) -> Tensor:
    """Reduce each element over groups of `width` consecutive lanes; every lane gets the result.

    It is a butterfly reduction: distances width/2, ..., 2, 1. For 32-bit integers, `redux` is one
    instruction instead of five shuffles.
    """
    tensor = as_registers(tensor, "cute.warp_reduce")
    require_choice(fn, REDUCTIONS, "cute.warp_reduce")
    distance = width // 2
    while distance:
        tensor = apply(fn, tensor, shuffle(tensor, distance, "bfly", width))
        distance //= 2
    return tensor


def redux(fn: str, tensor: Tensor) -> Tensor:
    """Reduce each element over all lanes of the warp; every lane gets the result.

    Args:
        fn: add, min, max, and, or, xor.
        tensor: registers of s32 or u32; sums wrap around.

    All lanes that have not exited must reach it. It needs sm_80; use `warp_reduce` for other types,
    for parts of a warp, and for older GPUs. Source: PTX ISA, redux.sync.
    """
    tensor = as_registers(tensor, "cute.redux")
    require_choice(fn, REDUX, "cute.redux")
    kind = tensor.dtype
    if kind not in (s32, u32):
        raise refusal_here("kernel-domain", operation="cute.redux", dtype=kind, domain="s32 or u32")
    result = new_registers(kind, tensor.shape)
    src, dst = register(tensor, "cute.redux"), register(result, "cute.redux")
    emit(ops.Redux, fn, dst, src)
    return result


def vote(kind: str, condition: object) -> Tensor:
    """Return `any` or `all` (b1), or `ballot` (u32), over the lanes of the warp."""
    require_choice(kind, ("any", "all", "ballot"), "cute.vote")
    truth = as_condition(condition, "cute.vote")
    if is_register(condition):
        src = register(condition, "cute.vote")  # type: ignore[arg-type]
    elif isinstance(truth, Condition):
        src = condition_register(truth)
    else:
        src = element_register(truth, b1, "cute.vote")
    result = new_registers(u32 if kind == "ballot" else b1, 1)
    emit(ops.Vote, kind, register(result, "cute.vote"), src)
    return result


# -- atomics, acquire and release


def atomic(
    fn: str, target: Tensor, value: object, old: bool = False, compare: object = None
) -> Tensor | None:
    """Combine elements of memory with registers atomically: add, min, max, exch, cas, and, or, xor.

    Args:
        fn: the operation; min and max of floats are those of `minimum` and `maximum`.
        target: elements of global or shared memory.
        value: registers of the same number of elements, or a number for one element.
        old: whether to return the old elements, 0 for those outside of the array.
        compare: for cas, like `value`: the bits that an element must have to be replaced.

    Each element is combined atomically. Sums of f32, f16 and bf16 take vectors where elements are
    contiguous: pairs of f16 and bf16; without `old`, up to 16 bytes of global memory on sm_90.
    Source: PTX ISA, atom, red.
    """
    require_choice(fn, tuple(ATOMICS), "cute.atomic")
    require_tensor(target, "cute.atomic")
    if fn not in ("exch", "cas"):
        require_domain(fn, target.dtype)
    if (fn == "cas") != (compare is not None):
        raise refusal_here("kernel-compare", operation="cute.atomic", fn=fn)
    dst = _combined(fn, target, old)
    given = [value] if compare is None else [value, compare]
    src, *wanted = [element_register(x, target.dtype, "cute.atomic") for x in given]
    for reg in (src, *wanted):
        if len(reg) != dst.count * dst.width:
            raise refusal_here("kernel-shapes", operation="cute.atomic", a=target.shape, b=len(reg))
    result = new_registers(target.dtype, target.shape) if old else None
    held = None if result is None else register(result, "cute.atomic")
    if held is not None and dst.guards:
        emit(ops.Fill, held, 0)
    emit(ops.Atomic, fn, dst, src, held, *wanted)
    return result


def atomic_cas(target: Tensor, compare: object, value: object) -> Tensor:
    """Replace elements by `value` where their bits are those of `compare`, atomically, and return
    the old elements: the exchange took place where these are equal to `compare`.

    Args:
        target: elements of global or shared memory, of 16, 32 or 64 bits.
        compare: registers of the same number of elements, or a number for one element.
        value: like `compare`.

    Source: PTX ISA, atom.cas.
    """
    found = atomic("cas", target, value, True, compare)
    assert found is not None
    return found


def _combined(fn: str, target: Tensor, old: bool) -> Access:
    """Return the access by the elements that one instruction combines: contiguous ones are added
    together.
    """
    if fn != "add" or target.dtype.name not in ADDED:
        return access(target, 1, "cute.atomic")
    return widest_access(target, 32 if old or target.space != "gmem" else 128, "cute.atomic")


_ARRIVE = "store it, then cute.cluster_sync(), or arrive at cute.mapa(bars, rank)"


def load_acquire(element: Tensor) -> Tensor:
    """Load an element of global memory with acquire order: writes before the matching release are
    visible afterwards.
    """
    require_own(require_tensor(element, "cute.load_acquire"), "cute.load_acquire", _ARRIVE)
    held = new_registers(element.dtype, 1, "x")
    src = access(element, 1, "cute.load_acquire")
    dst = register(held, "cute.load_acquire")
    emit(ops.Load, dst, src, "acquire")
    return held


def store_release(element: Tensor, value: object) -> None:
    """Store an element of global memory with release order, after the thread's earlier writes."""
    require_own(require_tensor(element, "cute.store_release"), "cute.store_release", _ARRIVE)
    dst = access(element, 1, "cute.store_release")
    src = element_register(value, element.dtype, "cute.store_release")
    emit(ops.Store, dst, src, "release")


# -- debugging


def print_(text: Any, *values: object) -> None:
    """Print a line from each thread of the kernel; each `{}` of the text is replaced by a value.

    Without a text, `cute.print(x)` of a tensor, layout, tiled operation or atom prints once, when
    the kernel is traced: its layout, and which thread holds which element; see `cute.layouts`.

    Args:
        text: the text; `{{` and `}}` are braces. Or a tensor, layout, tiled operation or atom.
        values: registers, run-time integers, conditions or numbers. Floats are written as by `%g`,
            with 6 digits, flags and conditions as 1 or 0, several elements as [a, b].

    On a GPU the lines appear when it is synchronized, in any order of the threads, and those that
    do not fit its buffer (1 MB) are lost. Values of one call are at most 32 elements there. Source:
    CUDA C++ Programming Guide, formatted output.
    """
    if isinstance(text, KINDS) and noted("print", (text, *values)):
        return
    if fields_of(text) != len(values):
        raise refusal_here("kernel-print", operation="cute.print", text=text, count=len(values))
    if RUN_TIME in text:
        raise refusal_here("trace-text", operation="cute.print", text=text)
    emit(ops.Print, text, tuple(map(_printed, values)))


def _printed(x: Any) -> Value:
    if isinstance(x, Condition):
        return condition_register(x)
    if is_register(x):
        return register(x, "cute.print")
    if x.__class__ is Tensor:
        how = "copy it there first: cute.copy(src, dst); cute.print(x) alone prints its layout"
        facts = {"tensor": x, "wanted": "registers (rmem)", "how": how}
        raise refusal_here("kernel-space", operation="cute.print", **facts)
    if isinstance(x, float):
        return number(x, f64, "cute.print")
    if isinstance(x, int):
        return number(int(x), s64, "cute.print")
    return bare(x, "cute.print")


def assume(condition: object) -> None:
    """State that a condition is true from here to the end of the block, for proofs and checks.

    What is about sizes, strides and run-time integers of arguments alone, at the beginning of a
    kernel (outside of branches and loops, before any `cute.return_if`), every launch tests on the
    host, as it does the grid. Any other promise only the emulator checks: there a false one is
    undefined behaviour on a GPU. `cute.assert_` tests a condition in the kernel.

    Raises TraceError where the condition is false whatever the arguments are.

    >>> # in a kernel: cute.assume(n <= 4096)
    """
    truth = as_condition(condition, "cute.assume")
    if truth is False:
        raise refusal_here("kernel-assert", operation="cute.assume", text="")
    if isinstance(truth, Condition):
        emit(ops.Promise, truth.cond)
        learn(current().scope, truth.cond)


def assert_(condition: object, text: str = "") -> None:
    """Trap with the text in a thread where the condition is false."""
    truth = as_condition(condition, "cute.assert_")
    if truth is True:
        return
    if truth is False:
        raise refusal_here("kernel-assert", operation="cute.assert_", text=text)
    emit(ops.Assert, truth.cond, text)
