"""`cute.mainloop` as a part: ranges of K, named barriers, transforms, and operands that are
iterators: by index, with the rest of K first, through registers, by TMA.
"""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from cute_py.plan.ops import Barrier, CpAsync, If, Loop, Mma

ORDERS = ["forward", "reversed", 0]
TILE, DEPTH, STAGES = 64, 32, 3
ATOM = "SM80_16x8x16_F32F16F16F32_TN"
ASYNC = "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>"


def matrices(m, n, k, seed=0):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    return a, b, np.full((m, n), np.nan, np.float32)


def product(a, b):
    return a.astype(np.float32) @ b.astype(np.float32).T


def vectors(name=ASYNC):
    """A tile of 64x32 f16 by 128 threads, 16 bytes at a time."""
    return cute.make_tiled_copy(
        cute.Copy_Atom(name, "f16"), cute.Layout((32, 4), (4, 1)), cute.Layout((1, 8))
    )


def stages():
    return cute.smem("f16", cute.Layout((TILE, DEPTH, STAGES), (DEPTH, 1, TILE * DEPTH)))


def tiled(warps=(2, 2, 1)):
    return cute.make_tiled_mma(ATOM, warps)


def started(mma, C):
    cute.launch(grid=1, block=mma.size())
    thr = mma.get_slice(cute.thread_idx())
    tCgC = thr.partition_C(cute.local_tile(C, (TILE, TILE), (0, 0)))
    acc = thr.make_fragment_C(tCgC)
    acc.fill(0)
    return acc, tCgC


def tiles_of(x, shared=None, name=ASYNC):
    shared = stages() if shared is None else shared
    return cute.Operand(cute.local_tile(x, (TILE, DEPTH), (0, _)), shared, vectors(name))


def emulated_in_all_orders(kernel, wanted, *arguments, out=2):
    plan = cute.trace(kernel, *arguments)
    arrays = [x for x in arguments if isinstance(x, np.ndarray)]
    for order in ORDERS:
        arguments[out].fill(np.nan)
        cute.emulate(plan, *arrays, order=order)
        np.testing.assert_array_equal(arguments[out], wanted)
    return plan


# -- ranges of K


@cute.kernel
def some_tiles(A, B, C, first: cute.s32, count: cute.s32, name):
    mma = tiled()
    acc, tCgC = started(mma, C)
    cute.mainloop(mma, acc, tiles_of(A, None, name), tiles_of(B, None, name), first, count)
    cute.copy(acc, tCgC)


@pytest.mark.parametrize("name", [ASYNC, ASYNC.replace("_ZFILL", ""), "UniversalCopy<128>"])
@pytest.mark.parametrize(("first", "count"), [(0, 0), (0, 1), (2, 3), (5, 0)])
def test_any_range_of_tiles_is_multiplied(first, count, name):
    a, b, c = matrices(64, 64, 5 * DEPTH)
    some_tiles(a, b, c, first, count, name)
    cut = slice(first * DEPTH, (first + count) * DEPTH)
    np.testing.assert_array_equal(c, product(a[:, cut], b[:, cut]))


def test_tiles_past_the_range_are_not_read():
    """Elements past the range are NaN in every tile that could be prefetched."""
    a, b, c = matrices(64, 64, 5 * DEPTH)
    plan = cute.trace(some_tiles, a, b, c, 1, 2, ASYNC)
    report = cute.emulate(plan, a, b, c, 1, 2, report=True)
    whole = cute.emulate(plan, a, b, c, 0, 5, report=True)
    per_tile = 2 * TILE * DEPTH * 2 // 32
    assert whole.total.sectors - report.total.sectors == 3 * per_tile


def test_a_range_that_surely_has_tiles_is_no_branch():
    a, b, c = matrices(64, 64, 5 * DEPTH)

    @cute.kernel
    def whole(A, B, C):
        mma = tiled()
        acc, tCgC = started(mma, C)
        cute.mainloop(mma, acc, tiles_of(A), tiles_of(B))
        cute.copy(acc, tCgC)

    assert not any(isinstance(op, If) for op in cute.trace(whole, a, b, c).ops)


@cute.kernel
def piecewise(A, B, C, synchronized):
    """A tile of K at a time, each by a main loop of its own."""
    mma = tiled()
    acc, tCgC = started(mma, C)
    a, b = tiles_of(A), tiles_of(B)
    for tile in cute.range(cute.ceil_div(A.shape[1], DEPTH)):
        if synchronized:
            cute.syncthreads()
        cute.mainloop(mma, acc, a, b, tile, 1)
    cute.copy(acc, tCgC)


def test_a_main_loop_may_be_part_of_another_loop():
    a, b, c = matrices(64, 64, 4 * DEPTH - 8)
    emulated_in_all_orders(piecewise, product(a, b), a, b, c, True)


def test_stages_that_are_used_again_too_early_are_found():
    a, b, c = matrices(64, 64, 4 * DEPTH)
    with pytest.raises(cute.EmulationError, match="nothing orders"):
        piecewise(a, b, c, False)


# -- parts of a block


@cute.kernel
def halves(A, B, C, wrong):
    """Two groups of four warps have their own half of K, barriers and memory."""
    mma = tiled()
    cute.launch(grid=1, block=256)
    half, thread = cute.thread_idx() // 128, cute.thread_idx() % 128
    shared = cute.smem("f16", cute.Layout((TILE, DEPTH, STAGES, 4), (DEPTH, 1, 2048, 8192)))
    thr = mma.get_slice(thread)
    tCgC = thr.partition_C(cute.local_tile(C, (TILE, TILE), (0, half)))
    acc = thr.make_fragment_C(tCgC)
    acc.fill(0)
    a, b = (tiles_of(x, shared[_, _, _, 2 * half + i]) for i, x in enumerate((A, B)))
    barrier = None if wrong else (1 + half, 128)
    tiles = cute.ceil_div(A.shape[1], DEPTH) // 2
    with cute.when(tiles > half):
        cute.mainloop(mma, acc, a, b, half, tiles, barrier=barrier, thread=thread)
    cute.copy(acc, tCgC)


def test_a_named_barrier_stands_for_syncthreads():
    a, b, _c = matrices(64, 64, 4 * DEPTH)
    c = np.full((64, 128), np.nan, np.float32)
    parts = [slice(0, 2 * DEPTH), slice(DEPTH, 3 * DEPTH)]
    wanted = np.concatenate([product(a[:, cut], b[:, cut]) for cut in parts], 1)
    plan = emulated_in_all_orders(halves, wanted, a, b, c, False)
    kinds = {op.scope for op in plan.ops if isinstance(op, Barrier)}
    assert kinds == {"named"}


def test_syncthreads_in_a_part_of_a_block_is_refused():
    a, b, _c = matrices(64, 64, 4 * DEPTH)
    with pytest.raises(cute.CuteError):
        cute.trace(halves, a, b, np.zeros((64, 128), np.float32), True)


# -- transforms


@cute.kernel
def dequantised(A, B, C, scales):
    """B is s8, with a scale for each tile of K, and becomes f16 between load and product."""
    mma = tiled()
    acc, tCgC = started(mma, C)
    sB = cute.smem("s8", cute.Layout((TILE, DEPTH, STAGES), (DEPTH, 1, TILE * DEPTH)))
    bytes16 = cute.make_tiled_copy(
        cute.Copy_Atom(ASYNC, "s8"), cute.Layout((64, 2), (2, 1)), cute.Layout((1, 16))
    )
    b = cute.Operand(cute.local_tile(B, (TILE, DEPTH), (0, _)), sB, bytes16)

    def transform(a, b, at):
        return a, b.to("f16") * scales[at.tile]

    cute.mainloop(mma, acc, tiles_of(A), b, transform=transform)
    cute.copy(acc, tCgC)


def test_fragments_are_dequantised_before_the_product():
    a, b, c = matrices(64, 64, 5 * DEPTH - 16)
    scales = np.array([1, 2, 4, 0.5, 1], np.float16)
    wanted = product(a, b * np.repeat(scales, DEPTH)[: b.shape[1]])
    emulated_in_all_orders(dequantised, wanted, a, b.astype(np.int8), c, scales)


class Scaled:
    """Tiles, and one factor per row of a tile: both arrive in a stage."""

    def __init__(self, tiles, scales, factors):
        self.tiles, self.count, self.factors = tiles, tiles.count, factors
        pairs = cute.make_tiled_copy(
            cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<32>", "f16"),
            cute.Layout((32, 4), (1, 32)),
            cute.Layout((2, 1)),
        )
        self.pairs, part = pairs, pairs.get_slice(cute.thread_idx())
        self.source = part.partition_S(cute.local_tile(scales, (TILE, 4), (0, _)))
        self.stored = part.partition_D(factors)

    def begin(self, tile):
        self.tiles.begin(tile)
        self.tile = tile

    def fill(self, stage):
        yield from self.tiles.fill(stage)
        yield
        cute.copy(self.pairs, self.source[_, _, _, self.tile], self.stored[_, _, _, stage])


@cute.kernel
def scaled_in_stages(A, B, C, scales):
    """As above; the scales (N, 4 * tiles) come through shared memory, one for 8 of K."""
    mma = tiled()
    acc, tCgC = started(mma, C)
    sB = cute.smem("s8", cute.Layout((TILE, DEPTH, STAGES), (DEPTH, 1, TILE * DEPTH)))
    factors = cute.smem("f16", cute.Layout((TILE, 4, STAGES), (1, TILE, 4 * TILE)))
    bytes16 = cute.make_tiled_copy(
        cute.Copy_Atom(ASYNC, "s8"), cute.Layout((64, 2), (2, 1)), cute.Layout((1, 16))
    )
    tiles = cute.Tiles(cute.local_tile(B, (TILE, DEPTH), (0, _)), sB, bytes16)
    b = cute.Operand(Scaled(tiles, scales, factors), sB)
    spread = cute.Layout((TILE, (8, 4), STAGES), (1, (0, TILE), 4 * TILE))
    by_thread = mma.get_slice(cute.thread_idx()).partition_B(cute.make_tensor(factors.data, spread))

    def transform(a, b, at):
        own = by_thread[_, _, at.block, at.stage]
        held = cute.make_rmem_tensor(own.shape, "f16")
        cute.copy(own, held)
        return a, b.to("f16") * held

    cute.mainloop(mma, acc, tiles_of(A), b, transform=transform)
    cute.copy(acc, tCgC)


def test_a_transform_may_read_what_arrived_with_the_tile():
    a, b, c = matrices(64, 64, 5 * DEPTH)
    scales = np.random.default_rng(1).integers(-2, 3, (20, 64)).astype(np.float16)
    wanted = product(a, b * np.repeat(scales.T, 8, 1))
    emulated_in_all_orders(scaled_in_stages, wanted, a, b.astype(np.int8), c, scales.T)


# -- iterators


class Gathered:
    """Rows of A by index; begin is called for each tile."""

    def __init__(self, A, rows, shared):
        self.atom = vectors()
        part = self.atom.get_slice(cute.thread_idx())
        self.stored = part.partition_D(shared)  # (CPY,CPY_M,CPY_K,stages)
        here = part.partition_S(cute.make_identity_tensor((TILE, DEPTH)))
        at = [here[0, i, 0] for i in range(2)]
        self.rows = [cute.as_int(rows[row]) for row, _k in at]
        self.column, self.A = at[0][1], A

    def begin(self, tile):
        self.k = tile * DEPTH + self.column

    def fill(self, stage):
        for i, row in enumerate(self.rows):
            source = cute.local_tile(self.A, (1, 8), (row, self.k // 8))
            cute.copy(self.atom, source, self.stored[_, i, _, stage])
            yield


class Stepping(Gathered):
    """The same with a counter that the kernel keeps."""

    def begin(self, tile):
        self.k = cute.var(tile * DEPTH // 8)
        self.k.set(tile * DEPTH // 8 + self.column // 8)

    def step(self):
        self.k.set(self.k.get() + DEPTH // 8)

    def fill(self, stage):
        """Copy without asking how far K goes: the loop predicates tiles past the last one."""
        for i, row in enumerate(self.rows):
            source = cute.local_tile(self.A, (1, 8), (row, self.k.get()))
            cute.copy(self.atom, source, self.stored[_, i, _, stage])


@cute.kernel
def gathered(A, B, C, rows, kind):
    mma = tiled()
    acc, tCgC = started(mma, C)
    shared = stages()
    a, b = cute.Operand(kind(A, rows, shared), shared), tiles_of(B)
    cute.mainloop(mma, acc, a, b)
    cute.copy(acc, tCgC)


@pytest.mark.parametrize("kind", [Gathered, Stepping])
@pytest.mark.parametrize("depth", [8, 32, 136])
def test_rows_are_gathered_by_index(kind, depth):
    a, b, _c = matrices(200, 64, depth)
    c = np.zeros((64, 64), np.float32)
    rows = np.random.default_rng(1).integers(0, 200, 64).astype(np.int32)
    emulated_in_all_orders(gathered, product(a[rows], b), a, b, c, rows, kind)


class ResidueFirst:
    """Tiles whose first one is the rest of K: only that one is predicated."""

    def __init__(self, x, shared):
        self.x, self.atom, self.K = x, vectors(), x.shape[1]
        part = self.atom.get_slice(cute.thread_idx())
        self.stored = part.partition_D(shared)
        here = part.partition_S(cute.make_identity_tensor((TILE, DEPTH)))
        self.row, self.column = here[0, 0, 0]
        self.count = cute.ceil_div(self.K, DEPTH)
        self.rest = self.K - (self.count - 1) * DEPTH

    def begin(self, tile):
        self.at = cute.var(0)
        self.at.set(self.column)
        self.end = cute.var(0)  # of the current tile
        self.end.set(self.rest)

    def step(self):
        self.at.set(self.end.get() + self.column)
        self.end.set(self.end.get() + DEPTH)

    def fill(self, stage):
        k, inside = self.at.get(), self.at.get() < self.end.get()
        flat = cute.make_tensor(self.x.data, cute.Layout((64, 8, 4096), (self.x.stride[0], 1, 8)))
        for i in range(2):
            source = flat[self.row + 32 * i, _, k // 8]
            cute.copy(self.atom, source, self.stored[_, i, 0, stage], pred=(inside,))
            yield


@cute.kernel
def residue_first(A, B, C):
    mma = tiled()
    acc, tCgC = started(mma, C)
    sA, sB = stages(), stages()
    a, b = (cute.Operand(ResidueFirst(x, s), s) for x, s in ((A, sA), (B, sB)))
    cute.mainloop(mma, acc, a, b)
    cute.copy(acc, tCgC)


@pytest.mark.parametrize("depth", [8, 32, 136])
def test_the_rest_of_k_comes_first(depth):
    a, b, c = matrices(64, 64, depth)
    emulated_in_all_orders(residue_first, product(a, b), a, b, c)


class Halved:
    """Copies through registers that change what they store; loads, then stores after the yield."""

    completion = "immediate"

    def __init__(self, tiles, shared):
        self.atom = vectors("UniversalCopy<128>")
        part = self.atom.get_slice(cute.thread_idx())
        self.source, self.stored = part.partition_S(tiles), part.partition_D(shared)
        self.count = cute.size(tiles, 2)
        self.bounded = True

    def begin(self, tile):
        self.tile = tile

    def fill(self, stage):
        held = cute.make_rmem_tensor(self.source[_, _, _, 0].shape, "f16")
        cute.copy(self.atom, self.source[_, _, _, self.tile], held)
        yield
        cute.copy(self.atom, held * 0.5, self.stored[_, _, _, stage])


@cute.kernel
def through_registers(A, B, C, both):
    mma = tiled()
    acc, tCgC = started(mma, C)
    sA, sB = stages(), stages()
    gA, gB = (cute.local_tile(x, (TILE, DEPTH), (0, _)) for x in (A, B))
    a = cute.Operand(Halved(gA, sA), sA)
    b = cute.Operand(Halved(gB, sB), sB) if both else cute.Operand(gB, sB, vectors())
    cute.mainloop(mma, acc, a, b)
    cute.copy(acc, tCgC)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("depth", [8, 136])
def test_an_iterator_may_store_what_it_computed(both, depth):
    a, b, c = matrices(64, 64, depth)
    factor = 0.25 if both else 0.5
    emulated_in_all_orders(through_registers, factor * product(a, b), a, b, c, both)


def test_a_plain_function_issues_all_copies_at_once():
    a, b, c = matrices(200, 64, 136)
    rows = np.arange(64, dtype=np.int32)
    plan = cute.trace(gathered, a, b, c, rows, Stepping)
    (loop,) = [op for op in plan.ops if isinstance(op, Loop)]
    kinds = [type(op) for op in loop.body if isinstance(op, (CpAsync, Mma))]
    assert kinds == [CpAsync] * 3 + [Mma] * 2


# -- mbarriers: one protocol for this loop and for a warp-specialised one


class Boxes:
    """Tiles by TMA."""

    completion = "mbarrier"

    def __init__(self, x, shared):
        self.source = cute.local_tile(cute.tma_tensor(x), (TILE, DEPTH), (0, _))
        self.shared, self.count = shared, cute.size(self.source, 2)
        self.bytes = TILE * DEPTH * 2

    def begin(self, tile):
        self.tile = tile

    def fill(self, stage, full):
        cute.tma_load(self.source[_, _, self.tile], self.shared[_, _, stage], full, stage)


@cute.kernel
def boxes(A, B, C, specialised, count=None):
    mma = tiled()
    cute.launch(grid=1, block=256 if specialised else 128)
    sA, sB = stages(), stages()
    a, b = Boxes(A, sA), Boxes(B, sB)
    ring = cute.pipeline(STAGES, bytes=a.bytes + b.bytes, consumers=128)
    with cute.when(cute.thread_idx() < 128):
        thr = mma.get_slice(cute.thread_idx() % 128)
        tCgC = thr.partition_C(cute.local_tile(C, (TILE, TILE), (0, 0)))
        acc = thr.make_fragment_C(tCgC)
        acc.fill(0)
        if specialised:
            rA, rB = (
                thr.make_fragment_A(thr.partition_A(sA[_, _, 0])),
                thr.make_fragment_B(thr.partition_B(sB[_, _, 0])),
            )
            for _tile in cute.range(a.count):
                stage = ring.wait()
                cute.copy(thr.partition_A(sA)[_, _, _, stage], rA)
                cute.copy(thr.partition_B(sB)[_, _, _, stage], rB)
                cute.gemm(mma, acc, rA, rB)
                ring.release()
        else:
            one, other = cute.Operand(a, sA), cute.Operand(b, sB)
            tid = cute.thread_idx() % 128
            cute.mainloop(mma, acc, one, other, 0, count, thread=tid, ring=ring)
        cute.copy(acc, tCgC)
    if specialised:
        with cute.when(cute.thread_idx() == 128):
            for tile in cute.range(a.count):
                stage = ring.acquire()
                for x in (Boxes(A, sA), Boxes(B, sB)):
                    x.begin(tile)
                    x.fill(stage, ring.full)
                ring.commit()


@pytest.mark.parametrize("specialised", [False, True])
def test_boxes_complete_on_mbarriers(specialised):
    a, b, c = matrices(64, 64, 136)
    emulated_in_all_orders(boxes, product(a, b), a, b, c, specialised)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"ring": 3}, "mainloop-ring"),
        ({"fill": False}, "mainloop-ring"),
        ({"barrier": 1}, "kernel-choice"),
        ({"transform": lambda a, _b, _at: a}, "kernel-choice"),
        ({"first": -1}, "kernel-choice"),
        ({"count": 2.0}, "leaf-type"),
    ],
)
def test_wrong_options_of_the_main_loop_are_refused(wrong, code):
    @cute.kernel
    def kernel(A, B, C):
        mma = tiled()
        acc, _tCgC = started(mma, C)
        cute.mainloop(mma, acc, tiles_of(A), tiles_of(B), **wrong)

    with pytest.raises(cute.CuteError, match=r"test_mainloop\.py:") as caught:
        cute.trace(kernel, *matrices(64, 64, 64))
    assert caught.value.code == code


@pytest.mark.parametrize("count", [0, 1, STAGES - 1, STAGES])
def test_a_static_number_of_boxes_may_be_less_than_the_stages(count):
    a, b, c = matrices(64, 64, 136)
    cut = slice(0, count * DEPTH)
    emulated_in_all_orders(boxes, product(a[:, cut], b[:, cut]), a, b, c, False, count)


class SteppingBoxes(Boxes):
    """Tiles by TMA, whose place is kept in a variable."""

    def __init__(self, x, shared):
        super().__init__(x, shared)
        self.at = cute.var(0, 0, 1000)

    def begin(self, tile):
        self.at.set(tile)

    def step(self):
        self.at.set(self.at.get() + 1)

    def fill(self, stage, full):
        self.tile = self.at.get()
        super().fill(stage, full)


@cute.kernel
def backwards(x, out):
    cute.launch(grid=1, block=64)
    held, lane = stages(), cute.lane_idx()
    tiles, ring = SteppingBoxes(x, held), cute.pipeline(STAGES, tiles=[held], consumers="warp")
    with cute.role("load", warps=1), cute.elect():
        for i in cute.range(tiles.count):
            ring.fill(tiles.count - 1 - i, tiles)
    with cute.role("take", warps=0):
        for i in cute.range(tiles.count):
            out[i, lane] = held[0, lane, ring.wait()]
            cute.syncwarp()
            ring.release()


def test_a_ring_is_filled_with_the_tile_that_is_asked_for():
    """Also by an iterator that steps, which would go on from where it is."""
    x, out = matrices(64, 64, 5 * DEPTH)[0], np.zeros((5, DEPTH), np.float16)
    emulated_in_all_orders(backwards, x[0].reshape(5, DEPTH)[::-1], x, out, out=1)


# -- warps along K


@cute.kernel
def shared_k(A, B, C, warps):
    mma = tiled(warps)
    acc, tCgC = started(mma, C)
    acc.fill(1)  # counts once
    g2s = cute.suggest_tiled_copy((TILE, 64), "f16", mma.size(), "K", 128, ASYNC[:-5])
    a, b = (
        cute.Operand(
            cute.local_tile(x, (TILE, 64), (0, _)),
            cute.smem("f16", cute.Layout((TILE, 64, 2), (64, 1, TILE * 64))),
            g2s,
        )
        for x in (A, B)
    )
    cute.mainloop(mma, acc, a, b)
    with cute.when(mma.get_slice(cute.thread_idx()).thr_vmnk[3] < 1):
        cute.copy(acc, tCgC)


@pytest.mark.parametrize("warps", [(2, 2, 2), (1, 2, 4), (2, 1, 4), (1, 1, 2)])
def test_warps_along_k_add_their_sums(warps):
    a, b, c = matrices(64, 64, 200)
    emulated_in_all_orders(shared_k, product(a, b) + 1, a, b, c, warps)


def test_the_sums_of_warps_along_k_are_added_in_order():
    """Warp s sums the k-blocks s, s + 4, ... of each tile; then the sums are added in turn."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(64, 200)).astype(np.float16) for _ in range(2))
    c = np.full((64, 64), np.nan, np.float32)
    shared_k(a, b, c, (1, 2, 4))
    total = np.zeros_like(c)
    for share in range(4):
        mine = np.where(np.arange(200) // 16 % 4 == share, a, np.float16(0))
        part = np.full_like(c, np.nan)
        shared_k(mine, b, part, (1, 2, 1))
        total = part if not share else total + (part_without_one(mine, b))
    np.testing.assert_array_equal(c, total)


def part_without_one(a, b):
    c = np.full((64, 64), np.nan, np.float32)
    some_tiles(a, b, c, 0, -(-a.shape[1] // DEPTH), ASYNC)
    return c


def with_warps_along_k(kind, activation, config):
    """The operator with all terms of its epilogue."""
    rng = np.random.default_rng(0)
    dtype = cute.dtype(kind).numpy
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((70, 72), (72, 66)))
    c = rng.integers(-4, 5, (70, 66)).astype(np.float32)
    bias = rng.integers(-4, 5, 66).astype(np.float32)
    how = {"c": c, "alpha": 2, "beta": 1, "bias": bias, "activation": activation}
    found = cute.ops.gemm(a, b, **how, out_dtype="f32", config=config, checks=bool(config))
    return found, 2 * product(a, b.T) + c + bias


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("f16", "tile=64x64x64,warps=2x2x2,stages=2"),
        ("f16", "tile=64x64x64,warps=2x1x4,stages=3,store=4"),
        ("s8", "tile=64x64x64,warps=1x2x2,stages=2"),
        ("f32", "tile=64x64x16,warps=8x8x2,stages=2"),
    ],
)
def test_the_operator_takes_warps_along_k(kind, parts):
    found, wanted = with_warps_along_k(kind, "relu", parts)
    np.testing.assert_array_equal(found, np.maximum(wanted, 0))


@pytest.mark.slow
@pytest.mark.parametrize("activation", [None, "gelu", "silu", "tanh", "sigmoid"])
def test_every_epilogue_follows_the_sums_of_warps_along_k(activation):
    plain, _sums = with_warps_along_k("f16", activation, None)
    for store in ("0", "4"):
        parts = f"tile=64x64x64,warps=2x2x2,stages=2,store={store}"
        found, _sums = with_warps_along_k("f16", activation, parts)
        np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("parts", ["tile=64x64x32,warps=2x2x4", "warps=2x2x0", "warps=2"])
def test_warps_along_k_share_whole_k_blocks(parts):
    a = np.zeros((64, 64), np.float16)
    with pytest.raises(cute.CuteError) as caught:
        cute.ops.gemm(a, a, config=parts)
    assert caught.value.code in ("gemm-config", "gemm-config-text")


# -- refusals


def test_what_is_no_operand_is_refused():
    a, b, c = matrices(64, 64, 64)

    @cute.kernel
    def wrong(A, B, C, source, g2s, count):
        mma = tiled()
        acc, _tCgC = started(mma, C)
        shared = stages()
        x = cute.Operand(source(A), shared, g2s() if g2s else None)
        cute.mainloop(mma, acc, x, x, count=count)

    class Endless(Boxes):
        completion = "cp_async"

        def __init__(self, x):
            pass

    class Mbarrier(Endless):
        completion = "mbarrier"

    class Unknown(Endless):
        completion = "tcgen05"

    for source, g2s, count, code in (
        (lambda x: x, None, None, "mainloop-operand"),
        (lambda x: 3, None, None, "mainloop-operand"),
        (Endless, vectors, None, "mainloop-operand"),
        (Unknown, None, None, "mainloop-operand"),
        (Endless, None, None, "mainloop-count"),
        (Mbarrier, None, 1, "mainloop-ring"),
    ):
        with pytest.raises(cute.CuteError) as caught:
            cute.trace(wrong, a, b, c, source, g2s, count)
        assert caught.value.code == code
