"""Kernels of Hopper's asynchronous instructions, each with arrays and the exact result.

`python -m tests.hopper_kernels NAME` runs the cases of one name on a GPU, in a process of its own:
a kernel that hangs fails alone. With `CUTE_PY_GPU_DRY=sm_90a` it compiles and emulates them.
"""

import itertools
import sys

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.gemm_09_tma_wgmma import gemm_tma
from cute_py.kernels.gemm_10_warp_specialised import gemm_warp_specialised
from cute_py.kernels.gemm_11_persistent import gemm_persistent
from cute_py.kernels.gemm_12_ping_pong import gemm_ping_pong
from cute_py.plan.functions import ATOMICS

WARPGROUP = 128
POISON = {"f": np.nan, "i": -77, "u": 77}


@cute.kernel
def tma_copy(
    x,
    y,
    tile,
    swizzle="",
    major=cute.LayoutRight,
    atom="K",
    order=cute.LayoutLeft,
    cache="",
    more=0,
    outside="zero",
):
    """y = x by TMA, through shared memory; `more` tiles along each mode are wholly outside."""
    grid = [more + cute.ceil_div(n, extent) for n, extent in zip(x.shape, tile, strict=True)]
    cute.launch(grid=tuple(grid), block=64)
    here, tid = cute.block_idx(), cute.thread_idx()
    here = here if isinstance(here, tuple) else (here,)
    layout = cute.make_layout(tile, major)
    if swizzle:
        rows = getattr(cute.atoms, f"Layout_{atom}_{swizzle}_Atom")(x.dtype)
        layout = cute.tile_to_shape(rows, tile, order)
    shared, bars = cute.smem(x.dtype, layout, 1024), cute.mbarriers(1)
    with cute.when(tid == 32):
        bars.init(1)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    with cute.when(tid == 32):
        bars.arrive_expect_tx(0, cute.size(layout) * x.dtype.bits // 8)
        source = cute.local_tile(cute.tma_tensor(x), tile, here)
        cute.tma_load(source, shared, bars, 0, cache=cache, outside=outside)
    bars.wait(0, 0)
    with cute.when(tid == 0):
        cute.tma_store(shared, cute.local_tile(cute.tma_tensor(y), tile, here), cache=cache)
        cute.tma_store_commit()
        cute.tma_store_wait(0)


@cute.kernel
def tma_add(x, rows, how="add"):
    """Each block adds its index + 1 to the first 32 columns of x, or takes the least or the most of
    both, by TMA.
    """
    cute.launch(grid=4, block=32)
    tid = cute.thread_idx()
    shared = cute.smem(x.dtype, cute.make_layout((rows, 32), cute.LayoutRight), 1024)
    for i in range(rows):
        shared[i, tid] = (cute.block_idx() + 1).to(x.dtype)
    cute.fence_proxy_async()
    cute.syncthreads()
    with cute.when(tid == 0):
        tile = cute.local_tile(cute.tma_tensor(x), (rows, 32), (0, 0))
        cute.tma_store(shared, tile, how)
        cute.tma_store_commit()
        cute.tma_store_wait(0)


@cute.kernel
def one_product(a, b, d, name, shapes, majors=("K", "K"), swizzle="SW128"):
    """d = a * b transposed, by the instructions of one warpgroup."""
    cute.launch(grid=1, block=WARPGROUP)
    tid, mma = cute.thread_idx(), cute.make_tiled_mma(name)
    layouts = [
        cute.tile_to_shape(
            getattr(cute.atoms, f"Layout_{major}_{swizzle}_Atom")(x.dtype), shape, order
        )
        for x, shape, major in zip((a, b), shapes, majors, strict=True)
        for order in [(1, 2) if major == "K" else (2, 1)]
    ]
    sA, sB = (cute.smem(a.dtype, layout, 1024) for layout in layouts)
    bars, bytes = cute.mbarriers(1), sum(map(cute.size, layouts)) * a.dtype.bits // 8
    with cute.when(tid == 0):
        bars.init(1)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    with cute.when(tid == 0):
        bars.arrive_expect_tx(0, bytes)
        for x, shared, shape in zip((a, b), (sA, sB), shapes, strict=True):
            cute.tma_load(cute.local_tile(cute.tma_tensor(x), shape, (0, 0)), shared, bars, 0)
    bars.wait(0, 0)
    thr = mma.get_slice(tid)
    part = thr.partition_C(cute.local_tile(d, (shapes[0][0], shapes[1][0]), (0, 0)))
    acc = thr.make_fragment_C(part)
    cute.warpgroup_fence()
    cute.warpgroup_gemm(mma, acc, thr.partition_A(sA), thr.partition_B(sB), False)
    cute.warpgroup_commit()
    cute.warpgroup_wait(0)
    cute.copy(acc, part)


def by_hand(shared, x):
    """Copy an array to shared memory by the threads of a block, for TMA and wgmma to read."""
    for i in range(0, cute.size(shared), WARPGROUP):
        at = divmod(i + cute.thread_idx(), 64)
        shared[at] = x[at]
    cute.fence_proxy_async()
    cute.syncthreads()


@cute.kernel
def starting(a, b, flags, d, how, filled=False):
    """d = the sum over k of a * b, where `how` says which products start from zero."""
    cute.launch(grid=1, block=WARPGROUP)
    mma = cute.make_tiled_mma("SM90_64x8x16_F32F16F16_SS")
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    sA, sB = (cute.smem("f16", cute.tile_to_shape(atom, (n, 64)), 1024) for n in (64, 8))
    by_hand(sA, a)
    by_hand(sB, b)
    tid = cute.thread_idx()
    thr = mma.get_slice(tid)
    part = thr.partition_C(cute.local_tile(d, (64, 8), (0, 0)))
    acc = thr.make_fragment_C(part)
    if filled:
        acc.fill(np.nan)
    for k in cute.range(flags.shape[0]):
        if how == "flag":
            starts = flags[k] > 0.0
        else:
            starts = {"first": k > 0, "none": False, "threads": tid < 64, "negated": ~(k < 1)}[how]
        cute.warpgroup_fence()
        cute.warpgroup_gemm(mma, acc, thr.partition_A(sA), thr.partition_B(sB), starts)
        cute.warpgroup_commit()
        cute.warpgroup_wait(0)
    cute.copy(acc, part)


@cute.kernel
def persistent(A, B, D, tile=(128, 128, 64), stages=3, blocks=132):
    """D = A * B transposed: one warpgroup loads, two multiply and store by TMA."""
    (M, K), (N, _k), (bM, bN, bK) = A.shape, B.shape, tile
    across, down = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    cute.launch(grid=blocks, block=3 * WARPGROUP)
    bid, tid = cute.block_idx(), cute.thread_idx()
    mma = cute.make_tiled_mma(f"SM90_64x{bN}x16_F32{str(A.dtype).upper() * 2}_SS", (2, 1, 1))
    tA, tB, tD = (cute.tma_tensor(x) for x in (A, B, D))
    atom = cute.atoms.Layout_K_SW128_Atom(A.dtype)
    sA = cute.smem(A.dtype, cute.tile_to_shape(atom, (bM, bK, stages)), 1024)
    sB = cute.smem(B.dtype, cute.tile_to_shape(atom, (bN, bK, stages)), 1024)
    sD = cute.smem(D.dtype, cute.tile_to_shape(atom, (bM, bN)), 1024)
    tiles = cute.ceil_div(K, bK)
    ring = cute.pipeline(stages, bytes=(bM + bN) * bK * 2, consumers=2 * WARPGROUP)
    with cute.when(cute.warp_idx() // 4 == 2):
        cute.setmaxnreg(40, "dec")
        with cute.when(tid == 2 * WARPGROUP):
            for t in cute.range(bid, across * down, blocks):
                gA = cute.local_tile(tA, (bM, bK), (t % across, _))
                gB = cute.local_tile(tB, (bN, bK), (t // across, _))
                for k in cute.range(tiles):
                    stage = ring.acquire()
                    ring.load(gA[_, _, k], sA[_, _, stage])
                    ring.load(gB[_, _, k], sB[_, _, stage])
                    ring.commit()
    with cute.otherwise():
        cute.setmaxnreg(232, "inc")
        group, leader = cute.warp_idx() // 4, tid % WARPGROUP == 0
        mine = tid % (2 * WARPGROUP)
        thr = mma.get_slice(mine)
        tCsA, tCsB = thr.partition_A(sA), thr.partition_B(sB)
        acc = thr.make_fragment_C(thr.partition_C(sD))
        store = cute.make_tiled_copy_C(cute.Copy_Atom("SM90_U32x4_STSM_N", D.dtype), mma)
        out = store.get_slice(mine)
        for t in cute.range(bid, across * down, blocks):
            acc.fill(0)
            for _tile in cute.range(tiles):
                stage = ring.wait()
                cute.warpgroup_fence()
                cute.warpgroup_gemm(mma, acc, tCsA[_, _, _, stage], tCsB[_, _, _, stage])
                cute.warpgroup_commit()
                cute.warpgroup_wait(0)
                ring.release()
            with cute.when(leader):
                cute.tma_store_wait(0, read=True)
            cute.named_barrier(1, 2 * WARPGROUP)
            cute.copy(store, out.retile_S(acc.to(D.dtype)), out.partition_D(sD))
            cute.fence_proxy_async()
            cute.named_barrier(1, 2 * WARPGROUP)
            with cute.when(leader):
                for j in range(bN // 64):
                    place = (2 * (t % across) + group, bN // 64 * (t // across) + j)
                    part = cute.local_tile(sD, (64, 64), (group, j))
                    cute.tma_store(part, cute.local_tile(tD, (64, 64), place))
                cute.tma_store_commit()
        with cute.when(leader):
            cute.tma_store_wait(0)


@cute.kernel
def by_columns(A, B, D, N, widths):
    """D = A * B transposed for K = 64: tiles of N columns leave in parts of these widths."""
    bM, bK = 64, 64
    grid = cute.ceil_div(A.shape[0], bM), cute.ceil_div(B.shape[0], N)
    cute.launch(grid=grid, block=WARPGROUP)
    (bx, by), tid = cute.block_idx(), cute.thread_idx()
    mma = cute.make_tiled_mma(f"SM90_64x{N}x16_F32F16F16_SS")
    atom = cute.atoms.Layout_K_SW128_Atom(A.dtype)
    sA, sB = (cute.smem(A.dtype, cute.tile_to_shape(atom, (n, bK)), 1024) for n in (bM, N))
    bars = cute.mbarriers(1)
    with cute.when(tid == 0):
        bars.init(1)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    with cute.when(tid == 0):
        bars.arrive_expect_tx(0, (bM + N) * bK * 2)
        cute.tma_load(cute.local_tile(cute.tma_tensor(A), (bM, bK), (bx, 0)), sA, bars, 0)
        cute.tma_load(cute.local_tile(cute.tma_tensor(B), (N, bK), (by, 0)), sB, bars, 0)
    bars.wait(0, 0)
    thr = mma.get_slice(tid)
    acc = thr.make_fragment_C(thr.partition_C(cute.local_tile(D, (bM, N), (bx, by))))
    cute.warpgroup_fence()
    cute.warpgroup_gemm(mma, acc, thr.partition_A(sA), thr.partition_B(sB), False)
    cute.warpgroup_commit()
    cute.warpgroup_wait(0)
    first, leaves = 0, []
    for width in widths:
        rows = {8: "INTER", 16: "SW32", 32: "SW64", 64: "SW128"}[width]
        layout = getattr(cute.atoms, f"Layout_K_{rows}_Atom")(D.dtype)
        shared = cute.smem(D.dtype, cute.tile_to_shape(layout, (bM, width)), 1024)
        wide = f"SM90_U32x{4 if width > 8 else 2}_STSM_N"
        store = cute.make_tiled_copy_C_atom(cute.Copy_Atom(wide, D.dtype), mma)
        out, part = store.get_slice(tid), mma.columns_C(acc, first, width)
        cute.copy(store, out.retile_S(part.to(D.dtype)), out.partition_D(shared))
        leaves.append((first, width, shared))
        first += width
    cute.fence_proxy_async()
    cute.syncthreads()
    with cute.when(tid == 0):
        for first, width, shared in leaves:
            tile = cute.domain_offset((bx * bM, by * N + first), cute.tma_tensor(D))
            cute.tma_store(shared, cute.local_tile(tile, (bM, width), (0, 0)))
        cute.tma_store_commit()
        cute.tma_store_wait(0)


@cute.kernel
def im2col(x, y, filter, how, rows, channels, swizzle):
    """y (pixels, taps of the filter, channels) = what each output of a convolution multiplies."""
    source = cute.tma_im2col(x, filter, *how)
    blocks = cute.ceil_div(source.pixels, rows), cute.ceil_div(x.shape[-1], channels)
    cute.launch(grid=blocks, block=32)
    (bx, by), tid = cute.block_idx(), cute.thread_idx()
    atom = getattr(cute.atoms, f"Layout_K_{swizzle}_Atom")(x.dtype)
    shared = cute.smem(x.dtype, cute.tile_to_shape(atom, (rows, channels)), 1024)
    bars = cute.mbarriers(1)
    with cute.when(tid == 0):
        bars.init(1)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    out = cute.local_tile(y, (rows, 1, channels), (bx, _, by))
    for k, tap in enumerate(product_of(filter)):
        with cute.when(tid == 0):
            bars.arrive_expect_tx(0, cute.size(shared) * x.dtype.bits // 8)
            cute.tma_load_im2col(source, shared, bars, 0, bx * rows, tap, by * channels)
        bars.wait(0, k % 2)
        for i in cute.range(0, rows * channels, 32):
            at = (i + tid) // channels, (i + tid) % channels
            out[at[0], 0, at[1], k] = shared[at]
        cute.syncthreads()


def product_of(extents):
    return itertools.product(*map(range, extents))


@cute.kernel
def shared_by_two(x, y, rows):
    """Each block of a cluster loads a half of x for both, and stores all of x in its part of y."""
    cute.launch(grid=4, block=32, cluster=2)
    bid, tid = cute.block_idx(), cute.thread_idx()
    rank = bid % 2
    shared = cute.smem(x.dtype, cute.make_layout((rows, 64), cute.LayoutRight), 1024)
    full, done = cute.mbarriers(1), cute.mbarriers(1)
    with cute.when(tid == 0):
        full.init(1)
        done.init(2)
        cute.fence_mbarrier_init()
    cute.cluster_sync()
    half = (rows // 2, 64)
    with cute.when(tid == 0):
        full.arrive_expect_tx(0, rows * 64 * x.dtype.bits // 8)
        source = cute.local_tile(cute.tma_tensor(x), half, (rank, 0))
        cute.tma_load(source, cute.local_tile(shared, half, (rank, 0)), full, 0, multicast=3)
    full.wait(0, 0)
    with cute.when(tid == 0):
        cute.tma_store(shared, cute.local_tile(cute.tma_tensor(y), (rows, 64), (bid, 0)))
        cute.tma_store_commit()
        cute.tma_store_wait(0)
        for peer in range(2):
            done.arrive(0, cluster_rank=peer)
    done.wait(0, 0)
    cute.cluster_sync()


@cute.kernel
def sum_of_peers(x, y, size, wrong=""):
    """Each block of a cluster has a row of x; y = the sum of the rows, in each of them.

    Block r sums the r-th part of all rows, by vectors, and stores it to all blocks.
    """
    cute.launch(grid=x.shape[0], block=32, cluster=size)
    tid, rank, b = cute.thread_idx(), cute.cluster_rank(), cute.block_idx()
    own, sums = cute.smem(x.dtype, 128 * size), cute.smem(x.dtype, 128 * size)
    for k in range(size):
        part = cute.rmem(x.dtype, 4)
        cute.copy(cute.local_tile(x, (1, 4), (b, k * 32 + tid))[0, _], part)
        cute.copy(part, cute.local_tile(own, (4,), (k * 32 + tid,)))
    if wrong != "begin":
        cute.cluster_sync()
    total, part = cute.rmem(x.dtype, 4), cute.rmem(x.dtype, 4)
    total.fill(0)
    for k in range(size):
        peer = (rank + k) % size if wrong != "rank" else rank + k
        cute.copy(cute.local_tile(cute.mapa(own, peer), (4,), (rank * 32 + tid,)), part)
        total += part
    for k in range(size):
        target = 0 if wrong == "overlap" else rank * 32
        cute.copy(total, cute.local_tile(cute.mapa(sums, k), (4,), (target + tid,)))
    if wrong != "between":
        cute.cluster_sync()
    for k in range(4 * size):
        y[b, k * 32 + tid] = sums[k * 32 + tid]


@cute.kernel
def halo(x, y, wrong=""):
    """y[i] = x[i - 1] + x[i] + x[i + 1], zero outside: neighbours store their ends to each other.

    A cluster of 4 blocks has 256 elements. mbarriers order the exchange; no block ends before the
    stores of its neighbours.
    """
    cute.launch(grid=x.shape[0] // 64, block=64, cluster=4)
    tid, rank, start = cute.thread_idx(), cute.cluster_rank(), 64 * cute.block_idx()
    row, bars = cute.smem(x.dtype, 66), cute.mbarriers(1)
    with cute.when(tid == 0):
        bars.init(2)
        cute.fence_mbarrier_init()
        row[0] = 0
        row[65] = 0
    row[1 + tid] = x[start + tid]
    cute.cluster_sync()
    for end, step, slot in ((0, -1, 65), (63, 1, 0)):
        peer = rank + step
        with cute.when(tid == end):
            with cute.when((peer >= 0) & (peer < 4)):
                cute.mapa(row, peer)[slot] = row[1 + tid]
                if wrong != "arrive":
                    cute.mapa(bars, peer).arrive(0)
            with cute.otherwise():
                bars.arrive(0)
            if wrong == "arrive":
                bars.arrive(0)
    bars.wait(0, 0)
    y[start + tid] = row[tid] + row[1 + tid] + row[2 + tid]


def ordered(x, y, z, wrong="", sync=False):
    """The block of rank 0 writes x, then the one of rank 1 adds y and 1 to z."""
    cute.launch(grid=4, block=32, cluster=2)
    bars, rank, tid = cute.mbarriers(1), cute.cluster_rank(), cute.thread_idx()
    with cute.elect():
        bars.init(1)
        cute.fence_mbarrier_init()
    cute.cluster_sync()
    x, y, z = (cute.local_tile(a, (32,), (cute.cluster_idx(),)) for a in (x, y, z))
    with cute.when(rank == 0):
        x[tid] = 5
        cute.syncwarp()
        with cute.elect():
            cute.mapa(bars, rank if wrong == "rank" else 1).arrive(0)
    if sync:
        cute.cluster_sync()
    with cute.when(rank == 1):
        bars.wait(0, 0)
        z[tid] = y[tid] + 1
    cute.cluster_sync()


@cute.kernel
def ordered_by_peers(x, wrong=""):
    """Mbarriers order an array that the plan both reads and writes."""
    ordered(x, x, x, wrong)


@cute.kernel
def histogram(x, y, wrong=""):
    """Count the values 0 to 63 of a cluster: block r has those from 32 r on."""
    cute.launch(grid=2 * (x.shape[0] // 256), block=128, cluster=2)
    tid, rank = cute.thread_idx(), cute.cluster_rank()
    counts = cute.smem("s32", 32)
    with cute.when(tid < 32):
        counts[tid] = 0
    cute.cluster_sync()
    value = cute.as_int(x[128 * cute.block_idx() + tid])
    there = cute.mapa(counts, value // 32)
    if wrong == "load":
        there[value % 32] = there[value % 32] + 1
    else:
        cute.atomic("add", cute.local_tile(there, (1,), (value % 32,)), 1)
    cute.cluster_sync()
    with cute.when(tid < 32):
        y[cute.cluster_idx(), 32 * rank + tid] = counts[tid]


TURNS = ((1, 0), (0, 0), (1, 2), (2, 0), (1, 1))  # rank and warp
FENCES = (0, 2, 4)  # the turns whose proxy fence counts for TMA of rank 1


@cute.kernel
def fenced(x, flags, y, how, fence, peer=False):
    """A warp stores to shared memory of rank 1, and TMA of rank 1 loads x over it. Warps take turns
    between the two; that of one turn fences. A `peer` stores, or rank 1 itself.
    """
    cute.launch(grid=3, block=96, cluster=3)
    rank, warp, lane = cute.cluster_rank(), cute.warp_idx(), cute.lane_idx()
    shared = cute.smem("f32", cute.make_layout((4, 32), cute.LayoutRight), 128)
    loaded, told = cute.mbarriers(1), cute.mbarriers(len(TURNS))
    with cute.elect("block"):
        loaded.init(1)
        told.init(32)
        cute.fence_mbarrier_init()
    cute.cluster_sync()
    turns = ((2, 1) if peer else TURNS[0], *TURNS[1:])
    for k, (there, by) in enumerate(turns):
        with cute.when((rank == there) & (warp == by)):
            if k == 0:
                for i in range(4):
                    (cute.mapa(shared, 1) if peer else shared)[i, lane] = -1.0
            else:
                _take_turn(told, flags, how, k)
            if k == fence:
                cute.fence_proxy_async()
            if k + 1 < len(turns):
                _tell(told, flags, how, k + 1, turns[k + 1][0])
            else:
                with cute.elect():
                    loaded.arrive_expect_tx(0, 512)
                    source = cute.local_tile(cute.tma_tensor(x), (4, 32), (0, 0))
                    cute.tma_load(source, shared, loaded, 0)
        if how == "cluster":
            cute.cluster_sync()
    with cute.when((rank == 1) & (warp == 0)):
        loaded.wait(0, 0)
        for i in range(4):
            y[i, lane] = shared[i, lane]
    cute.cluster_sync()


def _tell(told, flags, how, turn, rank):
    """Let the warp of the next turn know, in the block of a rank."""
    if how == "mbarrier":
        told.arrive(turn, rank)
    elif how == "flag":
        cute.syncwarp()
        with cute.elect():
            cute.store_release(cute.local_tile(flags, (1,), (turn,)), 1)


def _take_turn(told, flags, how, turn):
    """Wait for the warp of the turn before."""
    if how == "mbarrier":
        told.wait(turn, 0)
    elif how == "flag":
        with cute.elect():
            cute.wait_until(cute.local_tile(flags, (1,), (turn,)), "eq", 1)
            flags[turn] = 0  # for the next launch
        cute.syncwarp()


@cute.kernel
def added(x, y, width):
    """y = the sum of the rows of x, which 4 blocks add to shared memory of rank 2 atomically."""
    cute.launch(grid=4, block=32, cluster=4)
    tid, rank = cute.thread_idx(), cute.cluster_rank()
    sums, part = cute.smem(x.dtype, 32 * width), cute.rmem(x.dtype, width)
    for k in range(width):
        sums[width * tid + k] = 0
        part[k] = x[rank, width * tid + k]
    cute.cluster_sync()
    cute.atomic("add", cute.local_tile(cute.mapa(sums, 2), (width,), (tid,)), part)
    cute.cluster_sync()
    with cute.when(rank == 2):
        for k in range(width):
            y[width * tid + k] = sums[width * tid + k]


@cute.kernel
def combined(x, y, fn, width):
    """y (4 vectors) = the last row of x, with which 4 blocks combine the others 7 times."""
    cute.launch(grid=4, block=32, cluster=4)
    tid, rank = cute.thread_idx(), cute.cluster_rank()
    held, part = cute.smem(x.dtype, 4 * width), cute.rmem(x.dtype, width)
    with cute.when(tid < 4):
        for k in range(width):
            held[width * tid + k] = x[4, width * tid + k]
    cute.cluster_sync()
    for k in range(width):
        part[k] = x[rank, width * tid + k]
    for _time in cute.range(7):
        cute.atomic(fn, cute.local_tile(cute.mapa(held, 2), (width,), (tid % 4,)), part)
    cute.cluster_sync()
    with cute.when((rank == 2) & (tid < 4)):
        for k in range(width):
            y[width * tid + k] = held[width * tid + k]


@cute.kernel
def weights_in_registers(W, X, D, tile=(64, 64, 64), stages=2):
    """D (N,M) = W (N,K) of s8, converted in registers, times X (M,K) transposed."""
    (N, K), (bN, bM, bK) = W.shape, tile
    grid = cute.ceil_div(N, bN), cute.ceil_div(X.shape[0], bM)
    cute.launch(grid=grid, block=2 * WARPGROUP)
    (bx, by), tid = cute.block_idx(), cute.thread_idx()
    mma = cute.make_tiled_mma(f"SM90_64x{bM}x16_F32{str(X.dtype).upper() * 2}_RS")
    gW = cute.local_tile(cute.tma_tensor(W), (bN, bK), (bx, _))  # (BN,BK,k)
    gX = cute.local_tile(cute.tma_tensor(X), (bM, bK), (by, _))  # (BM,BK,k)
    atoms = cute.atoms.Layout_K_SW64_Atom(W.dtype), cute.atoms.Layout_K_SW128_Atom(X.dtype)
    sW = cute.smem(W.dtype, cute.tile_to_shape(atoms[0], (bN, bK, stages)), 1024)
    sX = cute.smem(X.dtype, cute.tile_to_shape(atoms[1], (bM, bK, stages)), 1024)
    ring = cute.pipeline(stages, tiles=(sW, sX), consumers="warpgroup")
    depth = cute.ceil_div(K, bK)
    with cute.role("multiply", warps=range(4)):
        thr = mma.get_slice(tid)
        tCsW, tCsX = thr.partition_A(sW), thr.partition_B(sX)
        part = thr.partition_C(cute.local_tile(D, (bN, bM), (bx, by)))
        acc = thr.make_fragment_C(part)
        for k in cute.range(depth):
            stage = ring.wait()
            held = cute.make_rmem_tensor(tCsW[_, _, _, 0].shape, W.dtype)
            cute.copy(tCsW[_, _, _, stage], held)
            left = held.to(X.dtype)
            cute.warpgroup_fence()
            cute.warpgroup_gemm(mma, acc, left, tCsX[_, _, _, stage], k > 0)
            cute.warpgroup_commit()
            cute.warpgroup_wait(0)
            cute.named_barrier(1, WARPGROUP)  # all have read W by loads
            ring.release()
        cute.copy(acc.to(D.dtype), part)
    with cute.role("load", warps=range(4, 8)), cute.elect("role"):
        for k in cute.range(depth):
            stage = ring.acquire()
            ring.load(gW[_, _, k], sW[_, _, stage])
            ring.load(gX[_, _, k], sX[_, _, stage])
            ring.commit()


@cute.kernel
def kept_in_registers(W, X, D, name):
    """D (64,N) = W (64,64) times X (N,64) transposed: W is converted once, for all tiles of X."""
    cute.launch(grid=1, block=WARPGROUP)
    mma = cute.make_tiled_mma(f"SM90_64x8x{name}")
    swizzle = "SW128" if X.dtype.bits == 16 else "SW64"
    atom = getattr(cute.atoms, f"Layout_K_{swizzle}_Atom")(X.dtype)
    sX = cute.smem(X.dtype, cute.tile_to_shape(atom, (8, 64)), 1024)
    thr = mma.get_slice(cute.thread_idx())
    whole = thr.partition_A(cute.local_tile(W, (64, 64), (0, 0)))
    held = cute.make_rmem_tensor(whole.shape, W.dtype)
    cute.copy(whole, held)
    left = held.to(X.dtype)
    acc = thr.make_fragment_C(thr.partition_C(cute.local_tile(D, (64, 8), (0, 0))))
    for n in cute.range(X.shape[0] // 8):
        by_hand(sX, cute.local_tile(X, (8, 64), (n, 0)))
        cute.warpgroup_fence()
        cute.warpgroup_gemm(mma, acc, left, thr.partition_B(sX), False)
        cute.warpgroup_commit()
        cute.warpgroup_wait(0)
        cute.syncthreads()
        cute.copy(acc, thr.partition_C(cute.local_tile(D, (64, 8), (0, n))))


# -- cases: (kernel, inputs, output as it was before, what it becomes, options)


def peers():
    """Sums over clusters of 2 and 4 blocks, an exchange of halos, a distributed histogram, and
    atomic sums.
    """
    for size, kind in ((2, "f32"), (4, "s32"), (2, "f16")):
        x = integers((2 * size, 128 * size), kind)
        y = np.repeat(x.reshape(2, size, -1).sum(1), size, axis=0).astype(x.dtype)
        yield sum_of_peers, (x,), poisoned(x.shape, kind), y, {"size": size}
    x = integers(512, "f32")
    rows = np.pad(x.reshape(2, 256), ((0, 0), (1, 1)))
    y = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]).reshape(-1)
    yield halo, (x,), poisoned(x.shape, "f32"), y, {}
    x = (np.arange(512) * 37 % 101 % 64).astype(np.int32)
    counts = np.stack([np.bincount(part, minlength=64) for part in x.reshape(2, 256)])
    yield histogram, (x,), poisoned((2, 64), "s32"), counts.astype(np.int32), {}
    for kind, width in (("f32", 1), ("f16", 2), ("f64", 1), ("u64", 1)):
        x = integers((4, 32 * width), kind)
        yield added, (x,), poisoned(32 * width, kind), x.sum(0).astype(x.dtype), {"width": width}


def fences():
    """Stores that a proxy fence of the right thread makes visible to TMA."""
    x, flags = integers((4, 32), "f32"), np.zeros(len(TURNS), np.int32)
    for how, fence, peer in itertools.product(("mbarrier", "cluster", "flag"), FENCES, (1, 0)):
        if not (peer and how == "flag"):  # a flag orders no shared memory of other blocks
            options = {"how": how, "fence": fence, "peer": bool(peer)}
            yield fenced, (x, flags.copy()), poisoned(x.shape, "f32"), x, options


def atomics_of_peers():
    """Each atomic of shared memory on that of a peer, where 128 threads meet in 4 places."""
    ufuncs = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and}
    ufuncs |= {"or": np.bitwise_or, "xor": np.bitwise_xor}
    for fn, ufunc in ufuncs.items():
        kinds = [kind for kind in ATOMICS[fn] if kind not in ("f16", "bf16")]
        kinds = [kind for kind in kinds if fn == "add" or cute.dtype(kind).bits == 32]
        pairs = [(kind, width) for kind in ("f16", "bf16") for width in (1, 2)]
        for kind, width in [(kind, 1) for kind in kinds] + pairs * (fn == "add"):
            x = integers((5, 32 * width), kind, len(fn), -1)
            x[x > 1] = 0  # sums fit bf16
            if fn in ("and", "or", "xor"):  # one bit of each, in both halves
                x = np.array(1, x.dtype) << (np.arange(x.size) * 7 % (8 * x.itemsize)).astype(
                    x.dtype
                )
                x = (~x if fn == "and" else x).reshape(5, -1)
            parts = x[:4].reshape(32, 4 * width)
            parts = parts.astype(np.float32) if x.dtype.itemsize == 2 else parts
            times = 7 if fn == "add" else 1
            y = ufunc(x[4, : 4 * width], times * ufunc.reduce(parts)).astype(x.dtype)
            yield combined, (x,), poisoned(y.shape, kind), y, {"fn": fn, "width": width}


def integers(shape, kind, seed=0, low=-3):
    kind = cute.dtype(kind)
    rng = np.random.default_rng(seed)
    return rng.integers(max(low, 0) if kind.kind == "uint" else low, 4, shape).astype(kind.numpy)


def poisoned(shape, kind):
    kind = np.dtype(cute.dtype(kind).numpy)
    return np.full(shape, POISON.get(kind.kind, np.nan), kind)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64).T


def gemms(kernel, kind, result, sizes, **options):
    for m, n, k in sizes:
        a, b = integers((m, k), kind), integers((n, k), kind, 1)
        exact = product(a, b).astype(cute.dtype(result).numpy)
        yield kernel, (a, b), poisoned((m, n), result), exact, options


def copies():
    for kind, width in (("f16", 64), ("f32", 32), ("u8", 128), ("s32", 32), ("f64", 16)):
        for swizzle in ("", "SW128"):
            x = integers((70, 3 * width), kind)
            named = {"tile": (32, width), "swizzle": swizzle}
            yield tma_copy, (x,), poisoned(x.shape, kind), x, named
    for word in ("first", "last", "normal"):
        x = integers((70, 96), "f16")
        named = {"tile": (32, 32), "cache": f"L2::evict_{word}"}
        yield tma_copy, (x,), poisoned(x.shape, "f16"), x, named
    for swizzle, width in (("SW64", 32), ("SW32", 16)):
        x = integers((70, 96), "bf16")
        named = {"tile": (16, width), "swizzle": swizzle}
        yield tma_copy, (x,), poisoned(x.shape, "bf16"), x, named
    x = integers((5, 20, 64), "f16")
    for tile in ((2, 8, 32), (1, 4, 64), (5, 1, 8)):
        yield tma_copy, (x,), poisoned(x.shape, "f16"), x, {"tile": tile}
    x = integers((1000,), "f32")
    yield tma_copy, (x,), poisoned(x.shape, "f32"), x, {"tile": (256,)}
    columns = integers((40, 96), "f16").T  # the first mode is contiguous
    named = {"tile": (32, 8), "major": cute.LayoutLeft}
    yield tma_copy, (columns,), poisoned((40, 96), "f16").T, columns, named


def several_boxes():
    """Tiles that are wider than the swizzle, or longer than a box may be."""
    for kind, swizzle, tile in (
        ("f16", "SW128", (32, 128)),
        ("u8", "SW128", (16, 256)),
        ("f32", "SW64", (24, 64)),
        ("bf16", "INTER", (16, 32)),
        ("s32", "SW32", (8, 64)),
    ):
        x = integers((70, tile[1] * 5 // 2), kind)
        yield tma_copy, (x,), poisoned(x.shape, kind), x, {"tile": tile, "swizzle": swizzle}
    for outside in ("zero", "skip"):
        x = integers((70, 144), "f16")
        named = {"tile": (16, 128), "swizzle": "SW128", "more": 1, "outside": outside}
        yield tma_copy, (x,), poisoned(x.shape, "f16"), x, named
    x = integers((1000,), "f32")
    yield tma_copy, (x,), poisoned(x.shape, "f32"), x, {"tile": (512,)}
    for tile in ((256, 64), (128, 32), (64, 256)):  # M or N contiguous
        columns = integers((100, 288), "f16").T
        named = {"tile": tile, "swizzle": "SW128", "atom": "MN", "order": (2, 1)}
        yield tma_copy, (columns,), poisoned((100, 288), "f16").T, columns, named


def sums():
    for kind in ("f32", "s32", "f16"):
        x = integers((16, 40), kind)
        expected = x.copy()
        expected[:, :32] += np.array(10, x.dtype)
        yield tma_add, (), x, expected, {"rows": 16}


def activations(x, filter, padding, stride, dilation):
    """What each output pixel of a convolution multiplies by each tap: (pixels, taps, channels)."""
    spatial = range(len(filter))
    padded = np.pad(x, [(0, 0), *[(padding[k],) * 2 for k in spatial], (0, 0)])
    found = []
    for tap in product_of(filter):
        at = [slice(None)]
        for k in spatial:
            first = tap[k] * dilation[k]
            last = padded.shape[k + 1] - (filter[k] - 1) * dilation[k] + first
            at.append(slice(first, last, stride[k]))
        found.append(padded[tuple(at)].reshape(-1, x.shape[-1]))
    return np.stack(found, 1)


def convolutions():
    for kind, shape, filter, how, tile in (
        ("f16", (2, 9, 12, 32), (3, 3), ((1, 1), (1, 1), (1, 1)), (32, 32, "SW64")),
        ("f16", (3, 10, 7, 40), (2, 3), ((0, 2), (1, 2), (2, 1)), (64, 32, "SW64")),
        ("f32", (2, 8, 11, 64), (1, 2), ((2, 1), (3, 1), (1, 2)), (16, 64, "SW128")),
        ("bf16", (2, 30, 24), (3,), ((1,), (2,), (1,)), (16, 16, "INTER")),
        ("u8", (1, 4, 5, 6, 32), (2, 1, 3), ((1, 0, 1), (1, 1, 2), (1, 1, 1)), (48, 32, "SW32")),
    ):
        x = integers(shape, kind)
        exact = activations(x, filter, *how)
        names = dict(zip(("rows", "channels", "swizzle"), tile, strict=True))
        named = {"filter": filter, "how": how, **names}
        yield im2col, (x,), poisoned(exact.shape, kind), exact, named


def products():
    for name, kind, result, k in (
        ("F32BF16BF16_SS", "bf16", "f32", 64),
        ("F32F16F16_SS", "f16", "f32", 64),
        ("F16F16F16_SS", "f16", "f16", 64),
        ("F32TF32TF32_SS_TN", "tf32", "f32", 32),
        ("F32E4M3E4M3_SS_TN", "e4m3", "f32", 128),
        ("F32E5M2E5M2_SS_TN", "e5m2", "f32", 128),
        ("S32S8S8_SS_TN", "s8", "s32", 128),
        ("S32U8U8_SS_TN", "u8", "s32", 128),
    ):
        depth = 256 // cute.dtype(kind).bits
        for m, n in ((128, 8), (128, 48), (64, 256)):
            a, b = integers((m, k), kind), integers((n, k), kind, 1)
            if kind == "tf32":
                a, b = (cute.typed(x, "tf32") for x in (a, b))
            exact = product(*[np.asarray(getattr(x, "array", x)) for x in (a, b)])
            named = {"name": f"SM90_64x{n}x{depth}_{name}", "shapes": ((m, k), (n, k))}
            yield one_product, (a, b), poisoned((m, n), result), exact, named
    for kind in ("f16", "bf16"):
        for majors in (("MN", "K"), ("K", "MN"), ("MN", "MN")):
            sides = [integers((64, 64), kind, i) for i in range(2)]
            a, b = (x.T if major == "MN" else x for x, major in zip(sides, majors, strict=True))
            name = f"SM90_64x64x16_F32{kind.upper() * 2}_SS<{','.join(majors)}>"
            named = {"name": name, "shapes": ((64, 64), (64, 64)), "majors": majors}
            yield one_product, (a, b), poisoned((64, 64), "f32"), product(a, b), named
    for majors in (("K", "K"), ("MN", "K"), ("K", "MN"), ("MN", "MN")):  # several boxes each
        sides = [
            integers(shape[:: 1 if major == "K" else -1], "f16", i)
            for i, (shape, major) in enumerate(zip(((128, 128), (192, 128)), majors, strict=True))
        ]
        a, b = (x.T if major == "MN" else x for x, major in zip(sides, majors, strict=True))
        name = f"SM90_64x192x16_F32F16F16_SS<{','.join(majors)}>"
        named = {"name": name, "shapes": ((128, 128), (192, 128)), "majors": majors}
        yield one_product, (a, b), poisoned((128, 192), "f32"), product(a, b), named
    for name, kind, result, depth in (
        ("F32E4M3E4M3_SS_TN", "e4m3", "f32", 32),
        ("F32TF32TF32_SS_TN", "tf32", "f32", 8),
    ):
        a, b = integers((64, 8 * depth), kind), integers((24, 8 * depth), kind, 1)
        if kind == "tf32":
            a, b = (cute.typed(x, "tf32") for x in (a, b))
        exact = product(*[np.asarray(getattr(x, "array", x)) for x in (a, b)])
        named = {"name": f"SM90_64x24x{depth}_{name}", "shapes": ((64, 8 * depth), (24, 8 * depth))}
        yield one_product, (a, b), poisoned((64, 24), result), exact, named


def swizzles():
    for swizzle in ("INTER", "SW32", "SW64"):
        for majors in itertools.product(("K", "MN"), repeat=2):
            sides = [integers((64, 64), "f16", i) for i in range(2)]
            a, b = (x.T if major == "MN" else x for x, major in zip(sides, majors, strict=True))
            named = {"name": f"SM90_64x64x16_F32F16F16_SS<{','.join(majors)}>", "majors": majors}
            named |= {"shapes": ((64, 64), (64, 64)), "swizzle": swizzle}
            yield one_product, (a, b), poisoned((64, 64), "f32"), product(a, b), named


def starts():
    a, b = integers((64, 64), "f16"), integers((8, 64), "f16", 1)
    for how, flags, times in (
        ("first", [0] * 3, 3),
        ("none", [0] * 3, 1),
        ("flag", [0, 1, 0, 1], 2),
        ("negated", [0] * 2, 2),
    ):
        exact = (times * product(a, b)).astype(np.float32)
        given = a, b, np.array(flags, np.float32)
        yield starting, given, poisoned((64, 8), "f32"), exact, {"how": how}
        yield starting, given, poisoned((64, 8), "f32"), exact, {"how": how, "filled": True}


RAGGED = [(128, 128, 64), (130, 257, 136), (1, 8, 8), (127, 129, 1000), (300, 200, 64)]
WIDE = [(m, -(-n // 8) * 8, k) for m, n, k in RAGGED] + [(1024, 2048, 512)]


def weights():
    for shape in ((64, 64, 64), (72, 100, 208), (8, 130, 1008)):
        M, N, K = shape
        w, x = integers((N, K), "s8"), integers((M, K), "bf16", 1)
        exact = product(w, x).astype(np.float32)
        yield weights_in_registers, (w, x), poisoned((M, N), "f32").T, exact, {}
    for kind, result, name in (
        ("bf16", "f32", "16_F32BF16BF16_RS"),
        ("s8", "s32", "32_S32S8S8_RS_TN"),
        ("e4m3", "f32", "32_F32E4M3E4M3_RS_TN"),
    ):
        w, x = integers((64, 64), "s8"), integers((24, 64), kind, 1)
        exact = product(w, x).astype(cute.dtype(result).numpy)
        yield kept_in_registers, (w, x), poisoned((64, 24), result), exact, {"name": name}


CASES = {
    "weights": weights,
    "tma_copy": copies,
    "several_boxes": several_boxes,
    "tma_add": sums,
    "im2col": convolutions,
    "products": products,
    "swizzles": swizzles,
    "starts": starts,
    "gemm_09": lambda: [
        *gemms(gemm_tma, "f16", "f32", RAGGED),
        *gemms(gemm_tma, "bf16", "f32", RAGGED[1:3], tile=(128, 64, 64), stages=4),
    ],
    "gemm_10": lambda: [
        *gemms(gemm_warp_specialised, "f16", "f32", RAGGED),
        *gemms(gemm_warp_specialised, "bf16", "bf16", RAGGED[1:3], tile=(128, 64, 64), stages=2),
    ],
    "gemm_11": lambda: [
        *gemms(gemm_persistent, "f16", "f16", WIDE, blocks=2),
        *gemms(gemm_persistent, "bf16", "bf16", WIDE[-1:], blocks=32, group=3),
        *gemms(gemm_persistent, "f16", "f16", WIDE[1:3], blocks=3, tile=(128, 64, 64), stages=5),
    ],
    "gemm_12": lambda: [
        *gemms(gemm_ping_pong, "f16", "f16", WIDE[1:2], blocks=2, tile=(64, 192, 64)),
        *gemms(gemm_ping_pong, "f16", "f16", WIDE, blocks=2),
        *gemms(gemm_ping_pong, "bf16", "bf16", WIDE[-1:], blocks=32, group=3),
        *gemms(gemm_ping_pong, "f16", "f16", WIDE[1:3], blocks=3, tile=(64, 64, 64), stages=2),
    ],
    "persistent": lambda: [
        *gemms(persistent, "f16", "f16", WIDE),
        *gemms(persistent, "bf16", "bf16", WIDE[1:3], blocks=3),
        *gemms(persistent, "bf16", "bf16", WIDE[-1:], tile=(128, 256, 64)),
    ],
    "by_columns": lambda: [
        *gemms(by_columns, "f16", "f16", [(70, 160, 64)], N=152, widths=(64, 64, 16, 8)),
        *gemms(by_columns, "f16", "f16", [(64, 96, 64)], N=40, widths=(8, 32)),
    ],
    "peers": lambda: [case for case in peers() if case[0] is not halo],
    "halo": lambda: [case for case in peers() if case[0] is halo],
    "atomics_of_peers": atomics_of_peers,
    "fences": fences,
    "cluster": lambda: (
        [
            (shared_by_two, (x,), poisoned((64 * 4, 64), "f16"), np.vstack([x] * 4), {"rows": 64})
            for x in (integers((64, 64), "f16"), integers((64, 64), "f16", 5))
        ]
        + [(ordered_by_peers, (), np.zeros(64, np.int32), np.full(64, 6, np.int32), {})]
    ),
}


def plan_of(kernel, inputs, output, _expected, options):
    return cute.trace(kernel, *inputs, output, **options)


def run(name):
    """Run the cases of a name, and compare each result exactly."""
    from tests.gpu.harness import DRY, SPILLS, OnGpu

    for case in CASES[name]():
        kernel, inputs, output, expected, options = case
        if DRY:
            plan = plan_of(*case)
            cute.compile(plan, DRY, SPILLS)
            numbers = [options[param.name] for param in plan.params if param.name in options]
            cute.emulate(plan, *inputs, output, *numbers)
            found = output
        else:
            *given, place = (_on_gpu(x, OnGpu) for x in (*inputs, output))
            kernel(*given, place, **options)
            found = place.bytes.cpu().numpy().view(output.dtype)
            found = found.reshape(output.shape, order="CF"[_is_transposed(output)])
        wrong = np.asarray(found, np.float64) != np.asarray(expected, np.float64)
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            said = f"{found[first]} for {expected[first]} at {first}, {wrong.sum()} wrong"
            raise SystemExit(f"{name} {kernel.__name__} {options} {output.shape}: {said}")
        print(f"{name} {kernel.__name__} {options} {output.shape}: right", flush=True)


def _is_transposed(x):
    return not x.flags.c_contiguous


def _on_gpu(x, on_gpu):
    if not isinstance(x, np.ndarray):
        return cute.typed(_on_gpu(x.array, on_gpu), x.dtype)
    if not _is_transposed(x):
        return on_gpu(x)
    made = on_gpu(x.T)
    made.shape, made.strides = x.shape, x.strides
    return made


if __name__ == "__main__":
    for each in sys.argv[1:] or CASES:
        run(each)
