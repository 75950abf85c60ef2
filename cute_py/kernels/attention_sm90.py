"""new here: scores of the next keys, and of the next block of queries, that are computed during the
softmax of these.

O = softmax(score) V of (batch, heads, rows, dim) arrays of f16 or bf16 on Hopper. One warpgroup
loads Q, K and V by TMA into three rings; the others have 64 queries each, multiply Q by K from
shared memory, and weights by V with the weights in registers. Blocks are persistent. Where queries
see the keys before them alone, a long and a short block of queries follow each other.

Source: J. Shah and others, "FlashAttention-3", arXiv 2407.08608 (the order of products).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypeAlias

import cute_py as cute
from cute_py import _
from cute_py.kernels.attention import FAMILIES, Distance, Rule, Scores, Sight, assume_attention
from cute_py.kernels.configuration import Config, part

WARPGROUP = 128
WARPGROUP_ROWS = 64  # of Q
REGISTERS = (24, 240), (32, 160)  # of a thread that loads, that multiplies; of 2 groups, of 3
Count: TypeAlias = Annotated[cute.s32, cute.s32(min=1, max=2**20)]


@dataclass(frozen=True, slots=True)
class WarpgroupAttention(Config):
    """The tiles of a block.

    Attributes:
        family: the name.
        head_dim: columns of Q and K in shared memory, at least those of the arrays.
        value_dim: the same of V; at most `head_dim`.
        keys: rows of K and V of a step.
        groups: the warpgroups that multiply.
        stages: of K and of V.
        ahead: blocks of queries in shared memory: of 2, one is computed ahead.
        buffers: copies of the weights in registers: of 2, one is written before the products of the
            other are complete.
        turns: whether the warpgroups issue products in turn.
        holds: whether they wait for products of V after the exponentials, not where ptxas would.
        heads: how many heads run together.
        reasons: why; not compared.
    """

    family: str = part("warpgroups", choices=FAMILIES, is_shown=True)
    head_dim: int = part(128)
    value_dim: int = part(128)
    keys: int = part(128)
    groups: int = part(2)
    stages: int = part(2)
    ahead: int = part(2)
    buffers: int = part(1)
    turns: int = part(0)
    holds: int = part(1)
    heads: int = part(1)
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)

    CODE, OPERATION = "config-attention", "config"

    @property
    def queries(self) -> int:
        """Rows of Q of a block."""
        return WARPGROUP_ROWS * self.groups

    def rules(self, has_others: bool) -> Iterable[tuple[str, bool]]:
        """Return what must hold of the parts, and whether it does not."""
        other = has_others or self.family != "warpgroups"
        yield "parts of the family warpgroups alone", other
        dims = self.head_dim, self.value_dim
        yield "dims of 32 to 256, multiples of 32", any(n % 32 or not 32 <= n <= 256 for n in dims)
        yield "value_dim of at most head_dim", self.value_dim > self.head_dim
        yield (
            "keys of 16 to 256, a multiple of 16",
            self.keys % 16 > 0 or not 16 <= self.keys <= 256,
        )
        yield "2 or 3 groups", self.groups not in (2, 3)
        yield "1 to 8 stages", not 1 <= self.stages <= 8
        flags = self.turns, self.holds
        yield "turns and holds of 0 or 1", any(x not in (0, 1) for x in flags)
        yield (
            "ahead and buffers of 1 or 2",
            any(x not in (1, 2) for x in (self.ahead, self.buffers)),
        )
        yield "heads of at least 1", self.heads < 1


class Place(NamedTuple):
    """A block of queries of a head, and the tiles of keys that it reads."""

    b: Any
    head: Any
    block: Any
    tiles: Any


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
    bN, bD, bE, groups = cfg.keys, cfg.head_dim, cfg.value_dim, cfg.groups
    bM, count = cfg.queries, cute.ceil_div(M, cfg.queries)
    cute.launch(grid=blocks, block=(groups + 1) * WARPGROUP)
    tid, kind = cute.thread_idx(), Q.dtype.name.upper()
    sight = Sight(rule, scale, cap, left, right, M, N)
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

    def places() -> Any:
        """Yield each `Place` of the block."""
        pairs = rule.ends and not rule.begins
        across = cute.ceil_div(count, 2) if pairs else count
        for bh, p in cute.tiles(heads * batch, across, group=cfg.heads):
            for which in cute.range(cute.where(2 * p + 1 == count, 1, 2)) if pairs else (1,):
                j = cute.where(which == 0, count - 1 - p, p) if pairs else p  # a long, a short one
                yield Place(bh // heads, bh % heads, j, sight.tiles(j * bM, bM, bN))

    few, many = REGISTERS[groups - 2]
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
            share = scores.shares(lse, head, place.block * bM)
            cute.warpgroup_wait(cfg.ahead - 1)
            ring_v.release()
            sO = cute.local_tile(sQ[_, _, done], (bM, bE), (0, 0))  # its Q has been read
            out = (sums * of_values.spread_C(share, sums)).to(O.dtype)
            cute.copy(stmatrix, mine.retile_S(out), mine.partition_D(sO))
            gO = cute.local_tile(tO[*head, _, _], (64, wide), (place.block * groups + me, _))
            parts = range(bE // wide)
            store.commit(*[(cute.local_tile(sO, (64, wide), (me, p)), gO[_, _, p]) for p in parts])

        with cute.when(me == groups - 1):
            turn(1, "arrive")  # the first one
        one, other = weights[0], weights[-1]
        if cfg.ahead == 2:
            begin()
        for place in places():
            if cfg.ahead == 1:
                begin()
            tiles = place.tiles
            first, low, high, end = tiles.begin, tiles.low, tiles.high, tiles.end
            cute.warpgroup_wait(0)
            ring_k.release()
            sums.fill(0)
            weigh(place, end - 1, rule.hides, first=True)
            one[...] = acc.to(Q.dtype)
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
    with cute.role("load", range(4 * groups, 4 * groups + 4), few), cute.elect("role"):

        def load(ring: Any, tile: Any, shared: Any) -> None:
            ring.load(tile, shared[_, _, ring.acquire()])
            ring.commit()

        for b, head, j, tiles in places():
            gK, gV = (
                cute.local_tile(x[b, head // rule.shared, _, _], (bN, n), (_, 0))
                for x, n in ((tK, bD), (tV, bE))
            )
            load(ring_q, cute.local_tile(tQ[b, head, _, _], (bM, bD), (j, 0)), sQ)
            for k in cute.range(tiles.end - tiles.begin):
                load(ring_k, gK[_, _, tiles.end - 1 - k], sK)
                load(ring_v, gV[_, _, tiles.end - 1 - k], sV)
        if cfg.ahead == 2:
            load(ring_q, cute.local_tile(tQ[0, 0, _, _], (bM, bD), (0, 0)), sQ)
            load(ring_k, cute.local_tile(tK[0, 0, _, _], (bN, bD), (0, 0)), sK)
