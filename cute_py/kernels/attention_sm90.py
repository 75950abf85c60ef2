"""new here: scores of the next keys, and of the next block of queries, that are computed during the
softmax of these.

O = softmax(score) V of (batch, heads, rows, dim) arrays of f16 or bf16 on Hopper. One warpgroup
loads Q, K and V by TMA into three rings; the others have 64 queries each, multiply Q by K from
shared memory, and weights by V with the weights in registers. Blocks are persistent. Where queries
see the keys before them alone, a long and a short block of queries follow each other.

Source: J. Shah and others, "FlashAttention-3", arXiv 2407.08608 (the order of products).
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeAlias

import cute_py as cute
from cute_py import _
from cute_py.kernels.attention import Distance, Rule, Scores, Sight, assume_attention
from cute_py.kernels.config_attention import WarpgroupAttention

WARPGROUP = 128
REGISTERS = (24, 240), (32, 160)  # of a thread that loads, that multiplies; of 2 groups, of 3
FINDING = (40, 232), (56, 152)  # where a warp finds blocks of queries, too
Count: TypeAlias = Annotated[cute.s32, cute.s32(min=1, max=2**20)]


class Place(NamedTuple):
    """A block of queries of a head, what it sees, and the tiles of keys that it reads.

    Attributes:
        at: the first mode of the arrays.
        query, key: the first rows of its queries and keys in the arrays.
        O, lse: where its queries are those from row 0 on.
    """

    b: Any
    head: Any
    block: Any
    sight: Sight
    tiles: Any
    at: Any
    query: Any
    key: Any
    O: Any  # noqa: E741
    lse: Any


@cute.kernel
def attention_sm90(
    Q: cute.Tensor,
    K: cute.Tensor,
    V: cute.Tensor,
    bias: Any,
    slopes: Any,
    O: cute.Tensor,  # noqa: E741
    lse: Any,
    scale: cute.f32,
    cap: cute.f32,
    left: Distance,
    right: Distance,
    blocks: Count,
    cfg: WarpgroupAttention,
    rule: Rule,
) -> None:
    """Q (B,H,M,D), K (B,Hk,N,D), V (B,Hk,N,E), O (B,H,M,E); bias (B,H,M,N), slopes (B,H) and lse
    (B,H,M) may be None. D and E are contiguous.
    """
    arrays = {"Q": Q, "K": K, "V": V, "O": O, "bias": bias, "slopes": slopes, "lse": lse}
    dims = cfg.head_dim, cfg.value_dim
    assume_attention("attention_sm90", arrays, scale, dims, rule)
    if rule.capped:
        cute.assert_(cap > 0.0, "cap is above 0")  # noqa: PT009
    (batch, heads, M, _d), N = Q.shape, K.shape[2]
    if not rule.ragged:
        cute.assume(N % cfg.keys == 0)
    bM, count = cfg.queries, cute.ceil_div(M, cfg.queries)
    cute.launch(grid=blocks, block=(cfg.groups + 1) * WARPGROUP)
    sight = Sight(rule, scale, cap, left, right, M, N)

    def places() -> Any:
        """Yield each `Place` of the block."""
        pairs = rule.ends and not rule.begins
        across = cute.ceil_div(count, 2) if pairs else count
        for bh, p in cute.tiles(heads * batch, across, group=cfg.heads):
            for which in cute.range(cute.where(2 * p + 1 == count, 1, 2)) if pairs else (1,):
                j = cute.where(which == 0, count - 1 - p, p) if pairs else p  # a long, a short one
                b, tiles = bh // heads, sight.tiles(j * bM, bM, cfg.keys)
                yield Place(b, bh % heads, j, sight, tiles, b, 0, 0, O, lse)

    attend(arrays, sight, cfg, places)


def attend(arrays: dict[str, Any], sight: Sight, cfg: Any, places: Any, find: Any = None) -> None:
    """Compute the blocks of queries that `places` yields, the same ones in each role.

    With `find`, which a warp does meanwhile, arrays hold several sequences, and each `Place` has
    one: memory of others is not written, and what is there reaches no result.
    """
    Q, K, V, O, bias, slopes, _lse = arrays.values()  # noqa: E741
    bN, bD, bE, groups, bM = cfg.keys, cfg.head_dim, cfg.value_dim, cfg.groups, cfg.queries
    tid, kind, rule = cute.thread_idx(), Q.dtype.name.upper(), sight.rule
    of_scores = cute.make_tiled_mma(f"SM90_64x{bN}x16_F32{kind}{kind}_SS", (groups, 1, 1))
    atom = getattr(cute.atoms, f"SM90_64x{bE}x16_F32{kind}{kind}_RS")(tnspB="MN")
    of_values = cute.make_tiled_mma(atom, (groups, 1, 1))
    wide = 64 if bD % 64 == bE % 64 == 0 else 32  # elements of a row of a swizzled atom
    rows, columns = (
        getattr(cute.atoms, f"Layout_{mode}_SW{2 * wide}_Atom")(Q.dtype) for mode in ("K", "MN")
    )
    sQ = cute.smem(Q.dtype, cute.tile_to_shape(rows, (bM, bD, cfg.ahead)), 1024)
    sK = cute.smem(Q.dtype, cute.tile_to_shape(rows, (bN, bD, cfg.stages)), 1024)
    sVt = cute.smem(Q.dtype, cute.tile_to_shape(columns, (bE, bN, cfg.stages), (2, 1, 3)), 1024)
    sV = cute.make_tensor(sVt.data, cute.select(sVt.layout, (1, 0, 2)))  # (BN,BE,stages)
    tQ, tK, tV, tO = (cute.tma_tensor(x) for x in (Q, K, V, O))
    ring_q, ring_k, ring_v = (
        cute.pipeline(cute.size(x, 2), tiles=(x,), consumers="warpgroup", count=groups)
        for x in (sQ, sK, sVt)
    )

    def rows_from(x: cute.Tensor, place: Place, head: Any, first: Any) -> cute.Tensor:
        """Return the rows of a head from the first one of a sequence on."""
        found: cute.Tensor = cute.domain_offset((first, 0), x[place.at, head, _, _])
        return found

    few, many = (REGISTERS if find is None else FINDING)[groups - 2]
    with cute.role("multiply", range(4 * groups), many):
        me = cute.warp_idx() // 4
        thr, thr_o = of_scores.get_slice(tid), of_values.get_slice(tid)
        tSsQ, tSsK, tOsV = thr.partition_A(sQ), thr.partition_B(sK), thr_o.partition_B(sVt)
        acc = cute.make_rmem_tensor(of_scores.partition_shape_C((bM, bN)), "f32")  # (MMA,1,1)
        sums = cute.make_rmem_tensor(of_values.partition_shape_C((bM, bE)), "f32")  # (MMA,1,1)
        scores = Scores(of_scores, acc, thr.partition_C(cute.make_identity_tensor((bM, bN))), sight)
        weights = [cute.make_rmem_tensor(acc.shape, Q.dtype) for _b in range(cfg.buffers)]
        of_q = cute.var(0, 0, cfg.ahead - 1)
        stmatrix = cute.make_tiled_copy_C(cute.Copy_Atom("SM90_U32x4_STSM_N", O.dtype), of_values)
        mine = stmatrix.get_slice(tid)
        store = cute.PipelineTmaStore(1, WARPGROUP, 1 + me, tid % WARPGROUP)
        guards = bias is not None or rule.score is not None or rule.mask is not None

        def turn(following: int, how: str) -> None:
            if cfg.turns:
                turn: Any = 1 + groups + (me + following) % groups
                cute.named_barrier(turn, 2 * WARPGROUP, how)

        def issue_scores() -> None:
            stage = ring_k.wait()
            turn(0, "sync")
            cute.warpgroup_fence()
            q, k = tSsQ[_, _, _, of_q.get()], tSsK[_, _, _, stage]
            cute.warpgroup_gemm(of_scores, acc, q, k, False)
            cute.warpgroup_commit()

        def issue_values(weights: cute.Tensor) -> None:
            stage = ring_v.wait()
            cute.warpgroup_fence()
            cute.warpgroup_gemm(of_values, sums, of_values.as_A(weights), tOsV[_, _, _, stage])
            cute.warpgroup_commit()

        def clear(rows: Any) -> None:
            """Set the rows of the first tile of V from this one on to 0: their weights are 0, but 0
            times NaN is NaN.
            """
            copy = cute.suggest_tiled_copy((bN, bE), V.dtype, WARPGROUP, "K")
            part = copy.get_slice(tid % WARPGROUP)
            target = part.partition_D(sV[_, _, ring_v.wait()])  # (CPY,CPY_N,CPY_E)
            place = part.partition_D(cute.make_identity_tensor((bN, bE)))
            zeros = cute.make_fragment_like(target[_, 0, _])
            zeros.fill(0)
            with cute.when(me == 0):
                for i in range(cute.size(target, 1)):
                    cute.copy(zeros, target[_, i, _], pred=rows <= place[0, i, 0][0])
            cute.fence_proxy_async()
            cute.named_barrier(2 * groups + 1, groups * WARPGROUP)

        def weigh(place: Place, n: Any, hides: bool, first: bool = False) -> None:
            """Turn the scores of tile n of keys into weights."""
            query, head, more = place.block * bM, (place.b, place.head), None
            if bias is not None:
                tile = cute.local_tile(bias[*head, _, _], (bM, bN), (place.block, n))
                more = thr.partition_C(tile)
            slope = None if slopes is None else slopes[head]
            scores.finish(head, query, n * bN, more, slope)
            if hides:
                scores.hide(query, n * bN)
            scores.weigh(first, hides or guards)

        def step(place: Place, n: Any, hides: bool, old: cute.Tensor, new: cute.Tensor) -> None:
            """Multiply the weights of one tile while those of the next one, n, are found."""
            issue_scores()
            issue_values(old)
            turn(1, "arrive")
            cute.warpgroup_wait(1)
            ring_k.release()
            weigh(place, n, hides)
            if new is not old:
                new[...] = acc.to(Q.dtype)
            cute.warpgroup_wait(0, after=scores.total if cfg.holds else None)
            ring_v.release()
            scores.rescale(sums)
            if new is old:
                new[...] = acc.to(Q.dtype)

        def begin() -> None:
            """Issue the first product of a block of queries."""
            of_q.set(ring_q.wait())
            issue_scores()
            turn(1, "arrive")

        def finish(place: Place, done: Any) -> None:
            """Store what a block of queries gives, through its place in shared memory."""
            head = place.b, place.head
            share = scores.shares(place.lse, head, place.block * bM)
            cute.warpgroup_wait(cfg.ahead - 1)
            ring_v.release()
            sO = cute.local_tile(sQ[_, _, done], (bM, bE), (0, 0))  # its Q has been read
            out = (sums * of_values.spread_C(share, sums)).to(O.dtype)
            number = place.block * groups + me  # of its 64 rows
            fits = find is None or (number + 1) * 64 <= place.sight.queries
            with cute.when(fits):
                cute.copy(stmatrix, mine.retile_S(out), mine.partition_D(sO))
                gO = rows_from(tO, place, place.head, place.query)
                gO = cute.local_tile(gO, (64, wide), (number, _))
                parts = [(cute.local_tile(sO, (64, wide), (me, p)), p) for p in range(bE // wide)]
                store.commit(*[(x, gO[_, _, p]) for x, p in parts])
            if find is not None:
                with cute.otherwise():
                    tile = cute.local_tile(place.O[*head, _, _], (bM, bE), (place.block, 0))
                    cute.copy(out, thr_o.partition_C(tile))

        with cute.when(me == groups - 1):
            turn(1, "arrive")  # the first one
        one, other = weights[0], weights[-1]
        if cfg.ahead == 2:
            begin()
        for place in places():
            if cfg.ahead == 1:
                begin()
            tiles, scores.sight = place.tiles, place.sight
            first, low, high, end = tiles.begin, tiles.low, tiles.high, tiles.end
            cute.warpgroup_wait(0)
            ring_k.release()
            sums.fill(0)
            weigh(place, end - 1, rule.hides, first=True)
            one[...] = acc.to(Q.dtype)
            if find is not None:
                left = place.sight.keys - (end - 1) * bN
                with cute.when(left < bN):
                    clear(left)
            if cfg.ahead == 2:
                ring_q.release(behind=1, stored=True)
            if rule.hides:
                for k in cute.range(end - 1 - high):
                    step(place, end - 2 - k, True, one, one)
            middle = high - low
            if other is one:
                for k in cute.range(middle):
                    step(place, high - 1 - k, False, one, one)
            else:
                with cute.when(middle % 2 == 1):
                    step(place, high - 1, False, one, one)
                for k in cute.range(middle // 2):
                    n = low + 2 * (middle // 2 - k)
                    step(place, n - 1, False, one, other)
                    step(place, n - 2, False, other, one)
            if rule.begins:
                for k in cute.range(low - first):
                    step(place, low - 1 - k, True, one, one)
            issue_values(one)
            done = of_q.get()
            if cfg.ahead == 2:
                begin()  # the next block of queries; after the last one an extra one
            finish(place, done)
            if cfg.ahead == 1:
                ring_q.release(stored=True)
        cute.warpgroup_wait(0)
        store.tail()
    with cute.role("load", range(4 * groups, 4 * groups + 4), few):
        if find is not None:
            with cute.when(cute.warp_idx() == 4 * groups + 1):
                find()

        def load(ring: Any, tile: Any, shared: Any) -> None:
            ring.load(tile, shared[_, _, ring.acquire()])
            ring.commit()

        with cute.elect("role"):
            for place in places():
                tiles, head = place.tiles, place.head // rule.shared
                gQ = rows_from(tQ, place, place.head, place.query)
                gK, gV = (
                    cute.local_tile(rows_from(x, place, head, place.key), (bN, n), (_, 0))
                    for x, n in ((tK, bD), (tV, bE))
                )
                load(ring_q, cute.local_tile(gQ, (bM, bD), (place.block, 0)), sQ)
                for k in cute.range(tiles.end - tiles.begin):
                    load(ring_k, gK[_, _, tiles.end - 1 - k], sK)
                    load(ring_v, gV[_, _, tiles.end - 1 - k], sV)
            if cfg.ahead == 2:
                load(ring_q, cute.local_tile(tQ[0, 0, _, _], (bM, bD), (0, 0)), sQ)
                load(ring_k, cute.local_tile(tK[0, 0, _, _], (bN, bD), (0, 0)), sK)
