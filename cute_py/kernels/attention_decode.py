"""new here: attention of few queries and long keys, which are in pages, or one after the other.

The queries of all heads that share one of keys are the rows of a tile, so a key is read once for
all of them. Each warp has a ring of tiles of keys of its own, which it alone fills and reads: none
waits for another before the end. Keys are split among warps, and in parts among blocks; each gives
its part of O and the log of its sum of exponentials, by which parts are merged in a fixed order.

Source: T. Dao et al., "Flash-Decoding for long-context inference" (2023).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import narrowed, require, require_kind
from cute_py.kernels.attention import FAMILIES, Distance, Rule, Scores, Sight, reference
from cute_py.kernels.attention_merge import columns_of_part, weights_of_parts
from cute_py.kernels.config import smem_atom
from cute_py.kernels.configuration import Config, part
from cute_py.kernels.flash_attention import multiply
from cute_py.kernels.paged import WARP, Pages, Ring, Tiles

MOST_PARTS = 256
WIDTH = 4  # elements of a row that a thread merges at a time


@dataclass(frozen=True, slots=True)
class DecodeAttention(Config):
    """The tiles of a warp, and how keys are split.

    Attributes:
        rows: queries of the heads that share one of keys, of a block; a multiple of 16.
        keys: of a tile of a warp; a multiple of 16.
        head_dim: columns of Q and K in a tile; 32, or a multiple of 64.
        value_dim: the same of V.
        warps: of a block, each with its own keys.
        stages: tiles of keys that a warp keeps in shared memory.
        page: rows of a page of the caches; 0: they are not in pages.
        parts: of the keys, of which each is computed by blocks of its own.
        vector: the bits of a load, of which every row of the arrays is made.
        family: the name.
        reasons: why; not compared.
    """

    rows: int = part(16)
    keys: int = part(16)
    head_dim: int = part(128)
    value_dim: int = part(128)
    warps: int = part(4)
    stages: int = part(3)
    page: int = part(0)
    parts: int = part(1)
    vector: int = part(128)
    family: str = part("decode", choices=FAMILIES, is_shown=True)
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)

    CODE, OPERATION = "config-attention", "config"

    @property
    def width(self) -> int:
        """Keys of all warps of a block in one step."""
        return self.keys * self.warps

    def rules(self, has_others: bool) -> Iterable[tuple[str, bool]]:
        """Return what must hold of the parts, and whether it does not."""
        yield "parts of the family decode alone", has_others or self.family != "decode"
        yield "rows and keys of 16, or a multiple", any(
            n < 1 or n % 16 for n in (self.rows, self.keys)
        )
        dims = self.head_dim, self.value_dim
        yield "dims of 32, or a multiple of 64", any(n != 32 and (n % 64 or n < 1) for n in dims)
        yield "1, 2, 4, 8 or 16 warps", self.warps not in (1, 2, 4, 8, 16)
        yield "threads of whole rows", WARP * self.warps % max(self.rows, 1) > 0
        yield "2 to 16 stages", not 2 <= self.stages <= 16
        yield "pages of at least 1 row, or 0", self.page < 0
        yield f"1 to {MOST_PARTS} parts", not 1 <= self.parts <= MOST_PARTS
        yield "vectors of 32, 64 or 128 bits", self.vector not in (32, 64, 128)


class Packed(Scores):
    """Scores of rows that are queries of several heads: row r is query r // heads of head
    r % heads.

    Attributes:
        at: the coordinates of the scores, as a matrix of the thread's rows.
        heads: of the rows, among all heads of queries.
    """

    def __init__(self, mma: Any, acc: Any, place: Any, sight: Sight, first: Any, head: Any) -> None:
        """`first`: the first row of the tile; `head`: the first head of the group."""
        super().__init__(mma, acc, place, sight)
        self.at, shared = mma.rows_C(place), sight.rule.shared
        self.heads = [head + (first + row) % shared for row in self.rows]
        self.rows = [(first + row) // shared for row in self.rows]

    def each(self, x: Any, b: Any) -> Any:  # a Tensor
        """Return an element of x (B,H) for each row, in the shape of the scores; None for None."""
        if x is None:
            return None
        found = cute.rmem(x.dtype, self.shape)
        for r, head in enumerate(self.heads):
            found[r] = x[b, head]
        return self.spread(found)

    def elements(self, x: Any, b: Any, key: Any) -> Any:  # a Tensor
        """Return the elements of x (B,H,M,N) for a tile from `key` on; None for None."""
        if x is None:
            return None
        found = cute.make_rmem_tensor(self.acc.shape, x.dtype)
        by_rows = self.mma.rows_C(found)
        for r, (row, head) in enumerate(zip(self.rows, self.heads, strict=True)):
            for c in range(cute.size(by_rows, 1)):
                source = cute.local_tile(x[b, head, _, _], (1, 1), (row, key + self.at[r, c][1]))
                cute.copy(source, cute.local_tile(by_rows, (1, 1), (r, c)))
        return found


@cute.kernel
def attention_decode(
    Q: cute.Tensor,
    K: cute.Tensor,
    V: cute.Tensor,
    lengths: Any,
    table: Any,
    more_k: Any,
    more_v: Any,
    bias: Any,
    slopes: Any,
    O: cute.Tensor,  # noqa: E741
    lse: Any,
    scale: cute.f32,
    cap: cute.f32,
    left: Distance,
    right: Distance,
    cfg: DecodeAttention,
    rule: Rule,
) -> None:
    """O = softmax(score) V of f16 or bf16, for few queries.

    Q (B,H,M,D), K (B,Hk,N,D), V (B,Hk,N,E), O (B,H,M,E). Where there is a table (B,pages) of s32, K
    and V are (P,Hk,page,D or E), and key j of a sequence is row j % page of page
    table[b, j // page]. `lengths` (B) of s32: keys of each sequence; None: all. Behind these keys
    more_k (B,Hk,new,D) and more_v (B,Hk,new,E) are written, and attended. bias (B,H,M,N), slopes
    (B,H) and lse (B,H,M) may be None. With several parts O is (parts,B,H,M,columns) of f32, their
    results for `attention_merge`.
    """
    arrays = {"Q": Q, "K": K, "V": V, "O": O, "bias": bias, "slopes": slopes, "lse": lse}
    arrays |= {"lengths": lengths, "table": table, "more_k": more_k, "more_v": more_v}
    room = _assume_decode(arrays, scale, cap, cfg, rule)
    bM, bN, bD, bE = cfg.rows, cfg.keys, cfg.head_dim, cfg.value_dim
    (batch, _h, M, _d), groups, shared = Q.shape, K.shape[1], rule.shared
    count, warps = cute.ceil_div(M * shared, bM), cfg.warps
    cute.launch(grid=count * groups * cfg.parts * batch, block=WARP * warps)
    place, tid, warp = cute.block_idx(), cute.thread_idx(), cute.warp_idx()
    first, group, outer = place % count * bM, place // count % groups, place // count // groups
    part, b = outer % cfg.parts, outer // cfg.parts

    old, new = _length(lengths, b, room), 0 if more_k is None else more_k.shape[2]
    sight = Sight(rule, scale, cap, left, right, M, old + new)
    seen = sight.tiles(first // shared, (bM + shared - 2) // shared + 1, cfg.width)
    begin, end = seen.begin, seen.end
    if more_k is not None:  # these tiles begin with a key of their own
        end = cute.ceil_div(old, cfg.width) + cute.ceil_div(new, cfg.width)
    span = [_uniform(begin + (end - begin) * (part + i) // cfg.parts) for i in (0, 1)]

    sQ = cute.smem(Q.dtype, cute.tile_to_shape(smem_atom(Q.dtype, 1, bD), (bM, bD)))  # (BM,BD)
    with cute.union():
        with cute.struct():
            sK, sV = (  # (BN,BD or BE,stages of all warps)
                cute.smem(
                    Q.dtype,
                    cute.tile_to_shape(smem_atom(Q.dtype, 1, n), (bN, n, cfg.stages * warps)),
                )
                for n in (bD, bE)
            )
        with cute.struct():
            pitch = bE + 8  # so that neighbouring rows are in other banks
            results = cute.smem("f32", cute.Layout((bM, bE, warps), (pitch, 1, bM * pitch)))
            logs = cute.smem("f32", (bM, warps))
    own = [cute.local_tile(x, (bN, n, cfg.stages), (0, 0, warp)) for x, n in ((sK, bD), (sV, bE))]
    rings = Ring(K, more_k, own[0], cfg.vector), Ring(V, more_v, own[1], cfg.vector)
    pages = None if table is None else Pages(table, b, K.shape[0], cfg.page)
    tiles = Tiles(rings, (b, group), pages, old, (span[0], span[1]), warps, cfg.stages)
    sVt = cute.make_tensor(own[1].data, cute.select(own[1].layout, (1, 0, 2)))  # (BE,BN,stages)

    kind = Q.dtype.name.upper()
    mma = cute.make_tiled_mma(f"SM80_16x8x16_F32{kind}{kind}F32_TN", (1, 1, 1), (16, 16, 16))
    thr = mma.get_slice(cute.lane_idx())
    rQ = thr.partition_fragment_A(sQ)  # (MMA,MMA_M,MMA_D)
    rK, rV = (thr.partition_fragment_B(x[_, _, 0]) for x in (own[0], sVt))  # (MMA,MMA_N,MMA_D), ..
    of_results = thr.partition_C(results[_, _, warp])  # (MMA,MMA_M,MMA_E)
    sums = thr.make_fragment_C(of_results)
    acc = cute.make_rmem_tensor(mma.partition_shape_C((bM, bN)), "f32")  # (MMA,MMA_M,MMA_N)
    at = thr.partition_C(cute.make_identity_tensor((bM, bN)))
    scores = Packed(mma, acc, at, sight, first, group * shared)
    sums.fill(0)
    scores.most.fill(-math.inf)
    scores.total.fill(0)
    by_rows, by_columns = (
        cute.Copy_Atom(f"SM75_{op}", Q.dtype) for op in ("U32x4_LDSM_N", "U16x8_LDSM_T")
    )
    read_q = cute.make_tiled_copy_A(by_rows, mma).get_slice(cute.lane_idx())
    read_k = cute.make_tiled_copy_B(by_rows, mma).get_slice(cute.lane_idx())
    read_v = cute.make_tiled_copy_B(by_columns, mma).get_slice(cute.lane_idx())
    slope = scores.each(slopes, b)

    ahead = [tiles.look_up(i) for i in range(cfg.stages)]
    _load_queries(Q, sQ, (b, group * shared, first), shared, cfg)
    for i in range(cfg.stages - 1):
        tiles.fill(ahead[i], i)
    cute.cp_async_wait(cfg.stages - 1)
    cute.syncthreads()  # the queries are there
    if bD <= 128:
        cute.copy(by_rows, read_q.partition_S(sQ), read_q.retile_D(rQ))
    if more_k is not None:
        with cute.when((first == 0) & (part == 0)):
            tiles.append()
    for i in cute.range(span[1] - span[0]):
        cute.cp_async_wait(cfg.stages - 2)
        cute.syncwarp()  # the tile is there, and all lanes have read the one before
        tiles.fill(ahead[-1], i + cfg.stages - 1)
        tiles.look_up_again(ahead[-1], i + cfg.stages)
        if bD > 128:
            cute.copy(by_rows, read_q.partition_S(sQ), read_q.retile_D(rQ))  # they fill registers
        key, last = tiles.keys(i)
        acc.fill(0)
        multiply(mma, acc, rQ, rK, read_k, own[0][_, _, i % cfg.stages])
        scores.finish((b, None), 0, key, scores.elements(bias, b, key), slope)
        scores.hide(0, key, last)
        scores.weigh(first=False, guarded=True)
        scores.rescale(sums)
        multiply(mma, sums, mma.as_A(acc.to(Q.dtype)), rV, read_v, sVt[_, _, i % cfg.stages])

    share, log = scores.ended()
    cute.cp_async_wait(0)
    cute.syncthreads()  # all have read their tiles
    cute.copy(sums * mma.spread_C(share, sums), of_results)
    for r in range(cute.size(log)):
        with cute.when(cute.lane_idx() % 4 == 0):
            logs[scores.at[r, 0][0], warp] = log[r]
    cute.syncthreads()
    _merge(results, logs, O, lse, (b, group * shared, first, part), (M, shared), cfg)


def _uniform(x: Any) -> Any:
    """Return a number from 0 on that all threads of a block have, in a register."""
    return cute.var(x, 0, 2**31 - 1, uniform="block").get()


def _length(lengths: Any, b: Any, room: Any) -> Any:
    """Return how many keys a sequence has, from 0 to `room`; `room` without lengths."""
    if lengths is None:
        return room
    found = cute.as_int(lengths[b], uniform="block")
    with cute.when(cute.thread_idx() == 0):  # known in this branch alone: the clamp stays
        cute.assume((found >= 0) & (found <= room))
    return cute.max_(cute.min_(found, room), 0)


def _load_queries(Q: Any, shared: Any, at: tuple[Any, Any, Any], heads: int, cfg: Any) -> None:
    """Start to copy the rows of the queries of some heads; at: (sequence, first head, row)."""
    tile, (b, head, first) = (cfg.rows, cfg.head_dim), at
    threads = WARP * cfg.warps
    bits = narrowed(cfg.vector, tile, Q.dtype, threads)
    name = f"SM80_CP_ASYNC_CACHE{'GLOBAL' if bits == 128 else 'ALWAYS'}_ZFILL"
    load = cute.suggest_tiled_copy(
        tile, Q.dtype, threads, "K", bits, name if bits > 16 else "UniversalCopy"
    )
    thread = load.get_slice(cute.thread_idx())
    own = thread.partition_S(cute.make_identity_tensor(tile))  # (CPY,CPY_M,CPY_D)
    target, width = thread.partition_D(shared), cute.size(own, 0)
    for i in range(cute.size(own, 1)):
        for j in range(cute.size(own, 2)):
            row, column = own[0, i, j]
            query, h = (first + row) // heads, head + (first + row) % heads
            source = cute.local_tile(Q[b, h, _, _], (1, width), (query, column // width))
            cute.copy(load, source, target[_, i, j])
    cute.cp_async_fence()


def _merge(results: Any, logs: Any, O: Any, lse: Any, at: Any, sizes: Any, cfg: Any) -> None:  # noqa: E741
    """Write the results of all warps, merged: each row by some threads; at: (sequence, first head,
    row, part).
    """
    (b, head, first, p), (M, heads) = at, sizes
    threads = WARP * cfg.warps // cfg.rows  # of a row
    row, lane = cute.thread_idx() // threads, cute.thread_idx() % threads
    query, h = (first + row) // heads, head + (first + row) % heads
    found = cute.rmem("f32", cfg.warps)
    cute.copy(logs[row, _], found)
    weights, log = weights_of_parts(found)
    out = O[b, h, _, _] if cfg.parts == 1 else O[p, b, h, _, _]
    columns = out.shape[1] if cfg.parts == 1 else out.shape[1] - WIDTH
    for start in range(0, cfg.value_dim, threads * WIDTH):
        column = start + lane * WIDTH
        with cute.when((query < M) & (column < columns)):
            total, held = cute.rmem("f32", (1, WIDTH)), cute.rmem("f32", (1, WIDTH))
            total.fill(0)
            for w in range(cfg.warps):
                place = row, column // WIDTH
                cute.copy(cute.local_tile(results[_, _, w], (1, WIDTH), place), held)
                total[...] = cute.fma(held, weights[w], total)
            cute.copy(total.to(O.dtype), cute.local_tile(out, (1, WIDTH), (query, column // WIDTH)))
    with cute.when((query < M) & (lane == 0)):
        if cfg.parts > 1:
            out[query, columns] = log[0]
        elif lse is not None:
            lse[b, h, query] = log[0]


def _assume_decode(
    arrays: dict[str, Any], scale: Any, cap: Any, cfg: DecodeAttention, rule: Rule
) -> Any:
    """State what the kernel needs of its arrays; return how many keys a sequence may have, without
    those that are appended.
    """
    name, few = "attention_decode", ("lengths", "table", "more_k", "more_v")
    Q, K, V, O, bias, slopes, lse, lengths, table, more_k, more_v = (  # noqa: E741
        arrays[x] for x in ("Q", "K", "V", "O", "bias", "slopes", "lse", *few)
    )
    out = "PBHMX" if cfg.parts > 1 else "BHME"
    caches = "BGND BGNE" if table is None else "pGND pGNE"
    cute.assume_shapes(
        f"BHMD {caches} {out} BHMN? BH? BHM? B? Bt? BGnD? BGnE?",
        *(Q, K, V, O, bias, slopes, lse, lengths, table, more_k, more_v),
    )
    cute.assume(Q.shape[1] == rule.shared * K.shape[1])
    require_kind(name, ("f16", "bf16"), Q=Q)
    require_kind(name, (Q.dtype.name,), K=K, V=V, more_k=more_k, more_v=more_v)
    require_kind(name, ("f32",) if cfg.parts > 1 else (Q.dtype.name,), O=O)
    require_kind(name, ("f16", "bf16", "f32", "u8"), bias=bias)
    require_kind(name, ("f32",), slopes=slopes, lse=lse)
    require_kind(name, ("s32",), lengths=lengths, table=table)
    cute.assume(Q.shape[3] <= cfg.head_dim)
    cute.assume(V.shape[3] <= cfg.value_dim)
    none = rule.score is None and rule.mask is None
    require(none, name, "rule", rule, "no functions of scores, which know one head alone")
    plain = not rule.capped and bias is None and slopes is None
    require(rule.scaled or plain, name, "rule", rule, "scaled=True, where more is done to scores")
    pairs = ((more_k is None) == (more_v is None)) and (more_k is None or lengths is not None)
    require(pairs, name, "more_k", "a part", "more_k, more_v and lengths, or neither of the first")
    paged = (table is None) == (cfg.page == 0)
    require(paged, name, "cfg", cfg, "page: rows of a page with a table, 0 without one")
    if not rule.scaled:
        cute.assert_(scale > 0.0, "scale is above 0")  # noqa: PT009
    if rule.capped:
        cute.assert_(cap > 0.0, "cap is above 0")  # noqa: PT009
    if cfg.parts > 1:
        cute.assume(O.shape[0] == cfg.parts)
        cute.assume(O.shape[4] == columns_of_part(V.shape[3]))
    if table is not None:
        cute.assume(K.shape[2] == cfg.page)
    keys = K.shape[2] if table is None else table.shape[1] * cfg.page
    if more_k is None:
        return keys
    cute.assume(more_k.shape[2] <= keys)
    return keys - more_k.shape[2]


def check() -> None:
    """Compare with NumPy in f64: two parts of the keys, with 8 heads that share one."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(0, 1, (1, h, n, 64)).astype(np.float16) for h, n in ((8, 1), (1, 200), (1, 200)))
    o, lengths = np.full_like(q, np.nan), np.array([150], np.int32)
    cfg = DecodeAttention(head_dim=64, value_dim=64, warps=2)
    given = q, k, v, lengths, None, None, None, None, None, o, None, 0.125, 1.0, 0, 0, cfg
    attention_decode(*given, Rule(shared=8))
    assert np.abs(o - reference(q, k[:, :, :150], v[:, :, :150])[0]).max() < 2e-3


if __name__ == "__main__":
    check()
