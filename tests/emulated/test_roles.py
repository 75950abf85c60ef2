"""Roles, elected threads, ranks in clusters, TMA pipelines by warpgroups, stores by TMA."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from cute_py.kernels.gemm_11_persistent import gemm_persistent
from cute_py.plan import ops
from tests.hopper_kernels import integers, ordered, ordered_by_peers, product

ORDERS = ("forward", "reversed", 0, 1)


def arrays(arguments):
    return [x for x in arguments if isinstance(x, np.ndarray)]


def run(kernel, *arguments, **options):
    """Run a kernel in all orders; the arrays are as the last run left them."""
    plan = cute.trace(kernel, *arguments, **options)
    for order in ORDERS:
        cute.emulate(plan, *arrays(arguments), order=order)


def code_of(kernel, *arguments, **options):
    """Return the code of the refusal, which must be the same family in every order."""
    plan = cute.trace(kernel, *arguments, **options)
    codes = set()
    for order in ORDERS:
        with pytest.raises(cute.CuteError) as caught:
            cute.emulate(plan, *arrays(arguments), order=order)
        assert ".py:" in str(caught.value)
        codes.add(caught.value.code)
    return codes


# -- roles


@cute.kernel
def numbered(out, *roles):
    cute.launch(grid=1, block=out.shape[0].cute_value() or 384)
    for i, warps in enumerate(roles):
        with cute.role(f"r{i}", warps=warps) as me:
            out[cute.thread_idx()] = (1000 * (i + 1) + me.thread).to("s32")
            assert me.threads == 32 * len(me.warps)


def branches(plan):
    """Return the conditions of the roles of a plan, and whether they are one branch."""
    (outer,) = [op for op in plan.body if isinstance(op, ops.If)]
    found = []
    while True:
        found.append(str(outer.cond))
        inner = [op for op in outer.other if isinstance(op, ops.If)]
        if not inner:
            return found, bool(outer.other)
        (outer,) = inner


@pytest.mark.parametrize(
    ("roles", "conditions", "last"),
    [
        ((range(8), range(8, 12)), ["tid//128 < 2"], True),
        ((range(8, 12), range(8)), ["tid//128 == 2"], True),
        ((range(4), range(4, 8)), ["tid//128 == 0", "tid//128 == 1"], False),
        ((range(4), range(4, 8), range(8, 12)), ["tid//128 == 0", "tid//128 == 1"], True),
        ((np.int64(3), range(5, 7)), ["tid//32 == 3", "(5 <= tid//32 and tid//32 < 7)"], False),
    ],
)
def test_roles_are_one_branch_over_warps(roles, conditions, last):
    out = np.zeros(384, np.int32)
    plan = cute.trace(numbered, out, *roles)
    assert branches(plan) == (conditions, last)
    run(numbered, out, *roles)
    wanted = np.zeros(384, np.int32)
    for i, warps in enumerate(roles):
        warps = warps if isinstance(warps, range) else range(warps, warps + 1)
        threads = 32 * len(warps)
        wanted[32 * warps.start :][:threads] = 1000 * (i + 1) + np.arange(threads)
    assert (out == wanted).all()


@pytest.mark.parametrize("order", ["aa", "aab", "aba", "abab", "abba", "acbacb"])
@pytest.mark.parametrize("threads", [64, 96])
def test_a_role_is_entered_again(order, threads):
    """Each body runs, in its turn, whatever the roles before it were."""
    warps = dict(zip("abc", range(threads // 32), strict=False))

    @cute.kernel
    def again(out):
        cute.launch(grid=1, block=threads)
        for step, name in enumerate(order):
            if name in warps:
                with cute.role(name, warps=warps[name]):
                    here = out[cute.thread_idx()]
                    out[cute.thread_idx()] = here * 10 + (step + 1)

    out = np.zeros(threads, np.int32)
    plan = cute.trace(again, out)
    for schedule in ORDERS:
        out[:] = 0
        cute.emulate(plan, out, order=schedule)
        for name, warp in warps.items():
            steps = [str(step + 1) for step, x in enumerate(order) if x == name]
            assert (out[32 * warp :][:32] == int("".join(steps) or 0)).all()


def test_registers_of_a_role_are_set_once():
    """A second setmaxnreg would need a barrier of the warpgroup before it. Source: PTX ISA."""

    @cute.kernel
    def again(x):
        cute.launch(grid=1, block=384)
        for value in range(2):
            with cute.role("load", warps=range(8, 12), registers=40):
                x[cute.thread_idx()] = value
            with cute.role("multiply", warps=range(8), registers=232):
                x[cute.thread_idx()] = value

    assert settings(cute.trace(again, np.zeros(384, np.int32))) == [(40, "dec"), (232, "inc")]


def test_a_role_of_all_warps_is_no_branch():
    plan = cute.trace(numbered, np.zeros(384, np.int32), range(12))
    assert not any(isinstance(op, ops.If) for op in plan.ops)


@cute.kernel
def budget(x, loads, multiplies, threads):
    cute.launch(grid=1, block=threads)
    with cute.role("multiply", warps=range(4, threads // 32), registers=multiplies):
        x[cute.thread_idx()] = 1
    with cute.role("load", warps=range(4), registers=loads):
        x[cute.thread_idx()] = 2


def settings(plan):
    return [(op.n, op.kind) for op in plan.ops if isinstance(op, ops.SetMaxNReg)]


def test_registers_are_set_where_they_change():
    x = np.zeros(384, np.int32)
    run(budget, x, 40, 232, 384)
    assert settings(cute.trace(budget, x, 40, 232, 384)) == [(232, "inc"), (40, "dec")]
    assert settings(cute.trace(budget, x, 168, None, 384)) == []  # what each has at the launch
    assert settings(cute.trace(budget, x, 24, 168, 384)) == [(24, "dec")]


@pytest.mark.parametrize(
    ("loads", "multiplies", "code"),
    [
        (40, 240, "plan-setmaxnreg-sum"),
        (None, 232, "plan-setmaxnreg-sum"),
        (44, 232, "kernel-registers"),
        (16, 232, "kernel-registers"),
    ],
)
def test_budgets_are_checked(loads, multiplies, code):
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(budget, np.zeros(384, np.int32), loads, multiplies, 384)
    assert caught.value.code == code
    assert "test_roles.py:" in str(caught.value)


def test_products_need_whole_warpgroups():
    @cute.kernel
    def part(x, warps):
        cute.launch(grid=1, block=256)
        with cute.role("multiply", warps=warps):
            cute.warpgroup_fence()

    x = np.zeros(1, np.int32)
    cute.trace(part, x, range(4, 8))
    for warps in (range(3), range(2, 6)):
        with pytest.raises(cute.CuteError, match="warpgroup products") as caught:
            cute.trace(part, x, warps)
        assert caught.value.code == "role-warpgroups"


def test_names_of_a_role_are_those_of_a_branch():
    @cute.kernel
    def rebound(x):
        cute.launch(grid=1, block=64)
        n = 0
        with cute.role("load", warps=0):
            n = 1
        x[n] = 1

    with pytest.raises(cute.CuteError) as caught:
        cute.trace(rebound, np.zeros(2, np.int32))
    assert caught.value.code == "trace-rebound"


# -- one thread


@cute.kernel
def elected(x, scope):
    cute.launch(grid=1, block=384)
    with cute.role("one", warps=range(4, 12)), cute.elect(scope):
        cute.atomic("add", cute.local_tile(x, (1,), (cute.thread_idx() // 32,)), 1)


@pytest.mark.parametrize(
    ("scope", "warps"),
    [("warp", range(4, 12)), ("warpgroup", (4, 8)), ("role", (4,)), ("block", ())],
)
def test_one_thread_is_elected(scope, warps):
    x = np.zeros(12, np.int32)
    cute.emulate(cute.trace(elected, x, scope), x)
    assert list(np.flatnonzero(x)) == list(warps)
    assert x.max() <= 1


def test_elections_are_of_a_scope_that_exists():
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(elected, np.zeros(12, np.int32), "cluster")
    assert caught.value.code == "kernel-choice"


# -- clusters


@cute.kernel
def ranks(out, grid, cluster):
    cute.launch(grid=grid, block=32, cluster=cluster)
    here = cute.block_idx()
    here = here if isinstance(here, tuple) else (here,)
    index = cute.cluster_idx()
    index = index if isinstance(index, tuple) else (index,)
    with cute.elect("block"):
        for i, number in enumerate((*index, cute.cluster_rank())):
            out[(*here, i)] = number.to("s32") if hasattr(number, "to") else number


@pytest.mark.parametrize(
    ("grid", "cluster"), [(6, 2), (6, 1), ((4, 6), (2, 3)), ((4, 6, 2), (1, 2, 2)), ((4, 2), 4)]
)
def test_a_block_knows_its_cluster_and_its_rank(grid, cluster):
    extents = grid if isinstance(grid, tuple) else (grid,)
    sizes = (*(cluster if isinstance(cluster, tuple) else (cluster,)), 1, 1)[:3]
    out = np.full((*extents, len(extents) + 1), -1, np.int32)
    run(ranks, out, grid, cluster)
    for block in np.ndindex(*extents):
        x, y, z = (n % c for n, c in zip((*block, 0, 0)[:3], sizes, strict=True))
        index = [n // c for n, c in zip(block, sizes, strict=False)]
        assert list(out[block]) == [*index, x + sizes[0] * (y + sizes[1] * z)]


def test_blocks_arrive_at_the_barriers_of_their_peers():
    x = np.zeros(64, np.int32)
    assert code_of(ordered_by_peers, x, "rank") == {"emulate-deadlock"}
    run(ordered_by_peers, x)
    assert (x == 6).all()


@pytest.mark.parametrize("alike", ["y", "z"])
def test_arrivals_at_peers_order_no_arrays_that_the_plan_only_reads_or_writes(alike):
    """The scope is .cta there: two arguments that are one array need `cluster_sync`."""
    x, other = np.zeros(64, np.int32), np.full(64, 5, np.int32)
    given = (x, x, other) if alike == "y" else (x, other, x)
    assert code_of(cute.kernel(ordered), *given) == {"emulate-global-race"}
    run(cute.kernel(ordered), *given, sync=True)
    assert (given[2] == 6).all()
    run(cute.kernel(ordered), x, other, np.zeros(64, np.int32))


@cute.kernel
def there_and_back(x, y, far):
    """Warp 1 reads what warp 0 wrote, after an arrival here, or one at a peer that arrives back."""
    cute.launch(grid=2, block=64, cluster=2)
    bars, rank, tid = cute.mbarriers(1), cute.cluster_rank(), cute.thread_idx()
    held = cute.smem(x.dtype, 32)
    with cute.elect("block"):
        bars.init(1)
        cute.fence_mbarrier_init()
    cute.cluster_sync()
    with cute.when((tid < 32) & (rank == 0)):
        held[tid] = x[tid]
        cute.syncwarp()
        with cute.elect():
            cute.mapa(bars, 1 if far else 0).arrive(0)
    with cute.when((tid == 0) & (rank == 1)):
        if far:
            bars.wait(0, 0)
            cute.mapa(bars, 0).arrive(0)
    with cute.when((tid >= 32) & (rank == 0)):
        bars.wait(0, 0)
        y[tid - 32] = held[tid - 32]
    cute.cluster_sync()


def test_arrivals_at_peers_order_no_shared_memory_of_their_own_block():
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    assert code_of(there_and_back, x, y, True) == {"emulate-race"}
    run(there_and_back, x, y, False)
    assert (x == y).all()


# -- the ring of two roles, right and wrong in one place


@cute.kernel
def multiplied(A, B, D, wrong=""):
    """Two consumer warpgroups, and operands that announce their bytes."""
    cute.launch(grid=1, block=384)
    mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS", (2, 1, 1))
    atom, tid = cute.atoms.Layout_K_SW128_Atom("f16"), cute.thread_idx()
    sA = cute.smem("f16", cute.tile_to_shape(atom, (128, 64, 2)), 1024)
    sB = cute.smem("f16", cute.tile_to_shape(atom, (64, 64, 2)), 1024)
    count = 1 if wrong == "count" else 2
    ring = cute.pipeline(2, tiles=(sA, sB), consumers="warpgroup", count=count)
    assert ring.bytes == (128 + 64) * 64 * 2
    tiles = cute.ceil_div(A.shape[1], 64)
    gA, gB = (
        cute.local_tile(cute.tma_tensor(x), (rows, 64), (0, _)) for x, rows in ((A, 128), (B, 64))
    )
    with cute.role("load", warps=range(8, 12), registers=40), cute.elect("role"):
        operands = cute.TmaTiles(gA, sA), cute.TmaTiles(gB, sB)
        for k in cute.range(tiles - 1 if wrong == "tile" else tiles):
            ring.fill(k, *operands)
        ring.tail()
    with cute.role("multiply", warps=range(8), registers=232):
        thr = mma.get_slice(tid)
        part = thr.partition_C(cute.local_tile(D, (128, 64), (0, 0)))
        acc, tCsA, tCsB = thr.make_fragment_C(part), thr.partition_A(sA), thr.partition_B(sB)
        acc.fill(0)
        for _k in cute.range(tiles):
            stage = ring.wait()
            cute.warpgroup_fence()
            cute.warpgroup_gemm(mma, acc, tCsA[_, _, _, stage], tCsB[_, _, _, stage])
            cute.warpgroup_commit()
            cute.warpgroup_wait(1)
            if wrong == "early":  # the product that is in flight still reads this stage
                ring.release()
            elif wrong == "kept":
                ring.skip(1)
            else:
                ring.release(behind=1)
        if wrong != "drained":
            cute.warpgroup_wait(0)
        if wrong not in ("last", "early", "kept"):
            ring.release_rest()
        cute.copy(acc, part)


@pytest.fixture
def operands():
    a, b = integers((128, 320), "f16"), integers((64, 320), "f16", 1)
    return a, b, np.full((128, 64), np.nan, np.float32)


def test_two_warpgroups_release_the_stage_before(operands):
    a, b, d = operands
    run(multiplied, a, b, d)
    assert (d == product(a, b)).all()


@pytest.mark.parametrize(
    ("wrong", "codes"),
    [
        (
            "early",
            {"emulate-async-pending"},
        ),  # the release comes before the product has read the stage
        ("kept", {"emulate-deadlock"}),  # no stage is released
        ("last", {"emulate-deadlock"}),  # the last one is not, and the producer waits for it
        # two arrive, one is expected: phases end twice
        ("count", {"emulate-deadlock", "emulate-mbarrier-phase"}),
        ("tile", {"emulate-deadlock"}),  # a tile never comes
        ("drained", {"emulate-wgmma-pending"}),  # sums are read in flight
    ],
)
def test_a_ring_that_is_wrong_in_one_place_is_refused(operands, wrong, codes):
    assert code_of(multiplied, *operands, wrong) <= codes


def test_the_main_loop_consumes_what_a_role_loads(operands):
    @cute.kernel
    def looped(A, B, D, short):
        cute.launch(grid=1, block=384)
        mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS", (2, 1, 1))
        atom = cute.atoms.Layout_K_SW128_Atom("f16")
        sA, sB = (cute.smem("f16", cute.tile_to_shape(atom, (n, 64, 3)), 1024) for n in (128, 64))
        a, b = (
            cute.Operand(cute.TmaTiles(cute.local_tile(cute.tma_tensor(x), (n, 64), (0, _)), s), s)
            for x, s, n in ((A, sA, 128), (B, sB, 64))
        )
        ring = cute.pipeline(3, tiles=(a, b), count=2)
        with cute.role("load", warps=range(8, 12), registers=40), cute.elect("role"):
            for k in cute.range(cute.ceil_div(A.shape[1], 64) - short):
                ring.fill(k, a, b)
        with cute.role("multiply", warps=range(8), registers=232) as me:
            thr = mma.get_slice(me.thread)
            part = thr.partition_C(cute.local_tile(D, (128, 64), (0, 0)))
            acc = thr.make_fragment_C(part)
            acc.fill(0)
            cute.mainloop(mma, acc, a, b, thread=me.thread, ring=ring, fill=False)
            cute.copy(acc, part)

    a, b, d = operands
    run(looped, a, b, d, 0)
    assert (d == product(a, b)).all()
    assert code_of(looped, a, b, d, 1) == {"emulate-deadlock"}


# -- consumers that read by loads


@cute.kernel
def read_by_lanes(A, out, consumers, synchronized):
    """Each of four warps sums its column of each stage; the first lane of a group releases it."""
    cute.launch(grid=1, block=160)
    tid, shared = cute.thread_idx(), cute.smem("f32", cute.Layout((128, 2), (1, 128)))
    count = 4 if consumers == "warp" else 1
    ring = cute.pipeline(2, bytes=512, consumers=consumers, count=count)
    gA, tiles = cute.local_tile(cute.tma_tensor(A), (128,), (_,)), A.shape[0] // 128
    with cute.role("load", warps=4), cute.elect():
        for k in cute.range(tiles):
            ring.load(gA[_, k], shared[_, ring.acquire()])
            ring.commit()
    with cute.role("sum", warps=range(4)):
        total = cute.rmem("f32", 1)
        total.fill(0)
        for _k in cute.range(tiles):
            total += shared[127 - tid, ring.wait()]
            if synchronized and consumers == "warp":
                cute.syncwarp()
            elif synchronized:
                cute.named_barrier(1, 128)
            ring.release()
        out[tid] = total


@pytest.mark.parametrize("consumers", ["warp", "warpgroup"])
def test_lanes_that_read_meet_before_one_releases(consumers):
    a, out = integers((128 * 6,), "f32"), np.zeros(128, np.float32)
    run(read_by_lanes, a, out, consumers, True)
    assert (out == a.reshape(6, 128).sum(0)[::-1]).all()
    assert code_of(read_by_lanes, a, out, consumers, False) == {"emulate-race"}


# -- turns


@cute.kernel
def turns(A, out, stages, count, wrong=0, handed=True):
    """Two warpgroups take turns of `count` tiles, and skip those of the other. A turn is handed
    over, since it begins in stages of the other one, phases of which may still be open.
    """
    cute.launch(grid=1, block=288)
    tid, shared = cute.thread_idx(), cute.smem("f32", cute.Layout((128, stages), (1, 128)))
    ring, turn, bars = cute.pipeline(stages, bytes=512), cute.var(0, 0, 1), cute.mbarriers(2)
    with cute.elect("block"):
        bars.init(1)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    gA, tiles = cute.local_tile(cute.tma_tensor(A), (128,), (_,)), A.shape[0] // 128
    with cute.role("load", warps=8), cute.elect():
        for k in cute.range(tiles):
            ring.load(gA[_, k], shared[_, ring.acquire()])
            ring.commit()
    with cute.role("sum", warps=range(8)):
        me, total = tid // 128, cute.rmem("f32", 1)
        total.fill(0)
        with cute.when(me == 1):
            ring.skip(count)
        with cute.when(tid == 0):
            bars.arrive(0)
        for _turn in cute.range(tiles // count // 2):
            if handed:
                bars.wait(me, turn.get())
                turn.set(1 - turn.get())
            for _k in cute.range(count):
                total += shared[tid % 128, ring.wait()]
                cute.named_barrier(1 + me, 128)
                ring.release()
            with cute.elect("warpgroup"):
                bars.arrive(1 - me)
            ring.skip(count + wrong)
        out[tid] = total


@pytest.mark.parametrize(("stages", "count"), [(2, 1), (3, 2), (4, 3)])
def test_warpgroups_skip_the_tiles_of_the_other(stages, count):
    a, out = integers((128 * 4 * count,), "f32"), np.zeros(256, np.float32)
    run(turns, a, out, stages, count)
    assert (out.reshape(2, 128) == a.reshape(2, 2, count, 128).sum((0, 2))).all()


def test_a_wrong_skip_is_refused():
    a, out = integers((128 * 8,), "f32"), np.zeros(256, np.float32)
    wrong = {"emulate-deadlock", "emulate-mbarrier-phase"}
    assert code_of(turns, a, out, 3, 2, 1) <= wrong
    assert code_of(turns, a, out, 3, 2, -1) <= {*wrong, "emulate-race"}
    assert code_of(turns, a, out, 3, 2, 0, False) == {"emulate-mbarrier-phase"}


# -- clusters


@cute.kernel
def shared_by_two(x, out, wrong=""):
    """Each block of a cluster loads halves for both; both add up all tiles."""
    cute.launch(grid=4, block=160, cluster=2)
    tid, rank = cute.thread_idx(), cute.cluster_rank()
    shared = cute.smem("f32", cute.Layout((128, 2), (1, 128)))
    half = cute.local_tile(shared, (64, 2), (rank, 0))
    ring = cute.pipeline(2, tiles=[shared], cluster=1 if wrong == "alone" else 2)
    tiles = x.shape[0] // 256
    source = cute.local_tile(cute.tma_tensor(x), (64,), (_,))
    with cute.role("load", warps=4), cute.elect():
        for k in cute.range(tiles):
            stage = ring.acquire()
            place = 2 * (tiles * cute.cluster_idx() + k) + rank
            ring.load(source[_, place], half[_, stage], multicast=3)
            ring.commit()
        if wrong != "tail":
            ring.tail()
    with cute.role("sum", warps=range(4)):
        total = cute.rmem("f32", 1)
        total.fill(0)
        for _k in cute.range(tiles):
            total += shared[tid, ring.wait()]
            cute.named_barrier(1, 128)
            ring.release()
        out[cute.block_idx(), tid] = total


def test_blocks_of_a_cluster_fill_each_others_stages():
    x, out = integers((2 * 128 * 5,), "f32"), np.zeros((4, 128), np.float32)
    run(shared_by_two, x, out)
    assert (out == np.repeat(x.reshape(2, 5, 128).sum(1), 2, 0)).all()


@pytest.mark.parametrize(
    ("wrong", "code"), [("alone", "emulate-mbarrier-early"), ("tail", "emulate-block-end")]
)
def test_a_cluster_that_does_not_wait_for_its_blocks_is_refused(wrong, code):
    x, out = integers((2 * 128 * 5,), "f32"), np.zeros((4, 128), np.float32)
    assert code_of(shared_by_two, x, out, wrong) == {code}


@cute.kernel
def crossed(x, out):
    """A cluster of 2 by 2: each block loads half of what its row adds up, and of what its column
    does.
    """
    cute.launch(grid=(2, 2), block=160, cluster=(2, 2))
    (bx, by), tid = cute.block_idx(), cute.thread_idx()
    shared = [cute.smem("f32", cute.Layout((128, 2), (1, 128))) for _side in range(2)]
    ring, tiles = cute.pipeline(2, tiles=shared, cluster=4), x.shape[1] // 128
    with cute.role("load", warps=4), cute.elect():
        source = cute.local_tile(cute.tma_tensor(x), (1, 64), (_, _))[0, _, _, _]
        for k in cute.range(tiles):
            stage = ring.acquire()
            for side, row, half, mask in ((0, bx, by, 5 * (bx + 1)), (1, 2 + by, bx, 3 + 9 * by)):
                part = cute.local_tile(shared[side], (64, 2), (half, 0))
                ring.load(source[_, row, 2 * k + half], part[_, stage], multicast=mask)
            ring.commit()
        ring.tail()
    with cute.role("sum", warps=range(4)):
        total = cute.rmem("f32", 1)
        total.fill(0)
        for _k in cute.range(tiles):
            stage = ring.wait()
            total += shared[0][tid, stage] * shared[1][tid, stage]
            cute.named_barrier(1, 128)
            ring.release()
        out[bx, by, tid] = total


def test_rows_and_columns_of_a_cluster_share_tiles():
    x, out = integers((4, 128 * 5), "f32"), np.zeros((2, 2, 128), np.float32)
    run(crossed, x, out)
    a, b = x.reshape(2, 2, 5, 128)
    assert (out == (a[:, None] * b).sum(2)).all()


@pytest.mark.parametrize("block", [32, 96, 100, 128])
def test_a_role_has_the_threads_of_its_warps(block):
    """The last warp of a block may lack some."""
    most = cute.ceil_div(block, 32)
    for first, end in ((i, j) for j in range(1, most + 1) for i in range(j)):
        seen = []

        @cute.kernel
        def kernel(x):
            cute.launch(grid=1, block=block)
            with cute.role("some", warps=range(first, end)) as me:  # noqa: B023
                seen.append(me.threads)  # noqa: B023
                x[cute.thread_idx()] = me.thread + 1

        out = np.zeros(block, np.int32)
        run(kernel, out)
        mine = np.arange(block) // 32
        mine = (first <= mine) & (mine < end)
        assert set(seen) == {mine.sum()}
        assert (out == np.where(mine, np.cumsum(mine), 0)).all()


# -- stores


@cute.kernel
def stored(x, y, stages, wrong=""):
    """Each of two warpgroups copies its tiles of x to y, through buffers that TMA stores."""
    cute.launch(grid=1, block=256)
    tid, me = cute.thread_idx(), cute.warp_idx() // 4
    shared = cute.smem("f32", cute.Layout((128, 2, stages), (1, 128, 256)), 128)
    store = cute.PipelineTmaStore(stages, barrier=1 + me)
    gx, gy = (cute.local_tile(z, (128,), (_,)) for z in (x, cute.tma_tensor(y)))
    for k in cute.range(x.shape[0] // 256):
        buffer = store.stage if wrong == "acquire" else store.acquire()
        shared[tid % 128, me, buffer] = gx[tid % 128, 2 * k + me]
        store.commit((shared[_, me, buffer], gy[_, 2 * k + me]))
    if wrong != "tail":
        store.tail()


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_buffers_are_written_again_when_their_stores_have_read_them(stages):
    x = integers((256 * 5,), "f32")
    y = np.full_like(x, np.nan)
    run(stored, x, y, stages)
    assert (x == y).all()
    for wrong, code in (("acquire", "emulate-async-pending"), ("tail", "emulate-block-end")):
        assert code_of(stored, x, y, stages, wrong) == {code}


def test_a_warpgroup_has_one_buffer_and_the_barrier_1_unless_others_are_given():
    @cute.kernel
    def by_default(y):
        cute.launch(grid=1, block=128)
        shared, store = cute.smem("f32", 128, 128), cute.PipelineTmaStore()
        shared[cute.thread_idx() + 128 * store.acquire()] = 1.0
        store.commit((shared, cute.local_tile(cute.tma_tensor(y), (128,), (0,))))
        store.tail()

    y = np.zeros(128, np.float32)
    run(by_default, y)
    assert y.all()
    barriers = [op for op in cute.trace(by_default, y).ops if isinstance(op, ops.Barrier)]
    assert {(op.scope, op.id, op.threads) for op in barriers} == {("named", 1, 128)}


# -- an epilogue is a function


def relu(x, _at):
    return cute.maximum(x, 0)


def lower(x, at):
    """The elements on and below the diagonal."""
    kept = cute.make_rmem_tensor(x.layout, "f32")
    for i in range(cute.size(x)):
        row, column = at[i]
        kept[i] = cute.where(column <= row, x[i], 0.0)
    return kept


@pytest.mark.parametrize(
    ("epilogue", "meant"), [(relu, lambda x: np.maximum(x, 0)), (lower, np.tril)]
)
def test_an_epilogue_is_a_function_of_sums_and_coordinates(epilogue, meant):
    a, b = integers((130, 72), "f16"), integers((136, 72), "f16", 1)
    d = np.full((130, 136), np.nan, np.float16)
    gemm_persistent(a, b, d, 2, (128, 64, 64), epilogue=epilogue)
    assert (d == meant(product(a, b))).all()
