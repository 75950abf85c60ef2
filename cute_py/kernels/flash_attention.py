"""new here: two products in a row, and a softmax that is corrected as keys arrive.

O = softmax(score) V without a matrix of scores. A block keeps its rows of Q, of the sums of O, and
for each row a greatest score and the sum of exponentials; a greater score rescales what was summed
before. Scores become the left operand of the second product in registers. Keys arrive while the
previous values are multiplied, and values while the scores are computed. Where queries see the keys
before them alone, blocks with the most keys come first.

Source: T. Dao, "FlashAttention-2", arXiv 2307.08691, algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import narrowed
from cute_py.kernels.attention import (
    FAMILIES,
    RESULTS,
    Distance,
    Rule,
    Scores,
    Sight,
    assume_attention,
    plain,
    reference,
)
from cute_py.kernels.config import smem_atom
from cute_py.kernels.configuration import Config, part

KEPT = 64  # columns of Q that are read once


@dataclass(frozen=True, slots=True)
class AttentionConfig(Config):
    """The tiles of a block.

    Attributes:
        queries: rows of Q of a block; a multiple of 16 * warps.
        keys: rows of K and V of an iteration; a multiple of 16.
        head_dim: columns of Q and K in a tile, at least those of the arrays; 32, or a multiple of
            64.
        warps: warps of a block; each computes its own rows.
        value_dim: the same of V; 0: `head_dim`.
        vector: the bits of a load or store, of which every row of the arrays is made.
        stages: tiles of K and V in shared memory: all but one are on their way.
        family: the name.
        reasons: why; not compared.
    """

    queries: int = part(128)
    keys: int = part(64)
    head_dim: int = part(64)
    warps: int = part(4)
    value_dim: int = part(0)
    vector: int = part(128)
    stages: int = part(2)
    family: str = part("warps", choices=FAMILIES, is_shown=True)
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)

    CODE, OPERATION = "config-attention", "config"

    def rules(self, has_others: bool) -> Iterable[tuple[str, bool]]:
        """Return what must hold of the parts, and whether it does not."""
        yield "parts of the family warps alone", has_others or self.family != "warps"
        rows = 16 * self.warps
        yield "1 to 32 warps", not 1 <= self.warps <= 32
        yield "queries of 16 a warp, or a multiple", self.queries < 1 or self.queries % rows > 0
        yield "keys of 16, or a multiple of it", self.keys < 1 or self.keys % 16 > 0
        dims = self.head_dim, self.value_dim or 32
        yield "dims of 32, or a multiple of 64", any(n != 32 and (n % 64 or n < 1) for n in dims)
        yield "vectors of 16, 32, 64 or 128 bits", self.vector not in (16, 32, 64, 128)
        yield "2 to 8 stages", not 2 <= self.stages <= 8


@cute.kernel
def flash_attention(
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
    cfg: AttentionConfig,
    rule: Rule,
) -> None:
    """O = softmax(score) V of f16 or bf16.

    Q (B,H,M,D), K (B,Hk,N,D), V (B,Hk,N,E), O (B,H,M,E); bias (B,H,M,N), slopes (B,H) and lse
    (B,H,M) may be None.
    """
    arrays = {"Q": Q, "K": K, "V": V, "O": O, "bias": bias, "slopes": slopes, "lse": lse}
    dims = cfg.head_dim, cfg.value_dim or cfg.head_dim
    assume_attention("flash_attention", arrays, scale, dims, rule, outs=RESULTS)
    if rule.capped:
        cute.assert_(cap > 0.0, "cap is above 0")  # noqa: PT009
    (batch, heads, M, _d), N = Q.shape, K.shape[2]
    count = cute.ceil_div(M, cfg.queries)
    cute.launch(grid=count * heads * batch, block=32 * cfg.warps)
    place = cute.block_idx()
    block, head, b = place % count, place // count % heads, place // count // heads
    if rule.ends:
        block = count - 1 - block
    attend(arrays, Sight(rule, scale, cap, left, right, M, N), (b, head, block), cfg)


def attend(arrays: dict[str, Any], sight: Sight, place: tuple[Any, Any, Any], cfg: Any) -> None:
    """Compute a block of queries, (batch, head, block), of arrays by their names."""
    Q, K, V, O, bias, slopes, lse = arrays.values()  # noqa: E741
    (b, head, block), rule, N = place, sight.rule, sight.keys
    bM, bN, bD, bE = cfg.queries, cfg.keys, cfg.head_dim, cfg.value_dim or cfg.head_dim
    d, e, threads, tid = Q.shape[3], V.shape[3], 32 * cfg.warps, cute.thread_idx()
    gQ = cute.local_tile(Q[b, head, _, _], (bM, bD), (block, 0))  # (BM,BD)
    gK = cute.local_tile(K[b, head // rule.shared, _, _], (bN, bD), (_, 0))  # (BN,BD,n)
    gV = cute.local_tile(V[b, head // rule.shared, _, _], (bN, bE), (_, 0))  # (BN,BE,n)
    gO = cute.local_tile(O[b, head, _, _], (bM, bE), (block, 0))  # (BM,BE)
    wide = max(bD, bE)
    sQ = cute.smem(Q.dtype, cute.tile_to_shape(smem_atom(Q.dtype, 1, wide), (bM, wide)))
    sK, sV = (  # (BN,BD,s), (BN,BE,s)
        cute.smem(Q.dtype, cute.tile_to_shape(smem_atom(Q.dtype, 1, n), (bN, n, cfg.stages)))
        for n in (bD, bE)
    )
    sVt = cute.make_tensor(sV.data, cute.select(sV.layout, (1, 0, 2)))  # (BE,BN,s)
    sO, sQ = (cute.local_tile(sQ, (bM, n), (0, 0)) for n in (bE, bD))

    def copies(dim: int) -> Any:
        """Return the copy of a tile of K or V, and which (row, column) its thread has."""
        bits = narrowed(cfg.vector, (bN, dim), Q.dtype, threads)
        how = "GLOBAL" if bits == 128 else "ALWAYS"
        op = f"SM80_CP_ASYNC_CACHE{how}_ZFILL" if bits > 16 else "UniversalCopy"
        load = cute.suggest_tiled_copy((bN, dim), Q.dtype, threads, "K", bits, op)
        thread = load.get_slice(tid)
        return thread, thread.partition_S(cute.make_identity_tensor((bN, dim)))

    (load_k, own_k), (load_v, own_v) = copies(bD), copies(bE)
    kind = Q.dtype.name.upper()
    atom = f"SM80_16x8x16_F32{kind}{kind}F32_TN"
    mma = cute.make_tiled_mma(atom, (cfg.warps, 1, 1), (16 * cfg.warps, 16, 16))
    thr = mma.get_slice(tid)
    rQ, rK = thr.partition_fragment_A(sQ), thr.partition_fragment_B(sK[_, _, 0])  # (MMA,MMA_M,..)
    rV = thr.partition_fragment_B(sVt[_, _, 0])  # (MMA,MMA_E,MMA_N)
    sums = thr.make_fragment_C(thr.partition_C(gO))  # (MMA,MMA_M,MMA_E), of O
    acc = cute.make_rmem_tensor(mma.partition_shape_C((bM, bN)), "f32")  # (MMA,MMA_M,MMA_N)
    scores = Scores(mma, acc, thr.partition_C(cute.make_identity_tensor((bM, bN))), sight)
    sums.fill(0)
    scores.most.fill(-math.inf)
    scores.total.fill(0)

    rows, columns = (
        cute.Copy_Atom(f"SM75_{op}", Q.dtype) for op in ("U32x4_LDSM_N", "U16x8_LDSM_T")
    )
    read_q = cute.make_tiled_copy_A(rows, mma).get_slice(tid)
    read_k = cute.make_tiled_copy_B(rows, mma).get_slice(tid)
    read_v = cute.make_tiled_copy_B(columns, mma).get_slice(tid)
    slope = None if slopes is None else slopes[b, head]
    guards = bias is not None or rule.score is not None or rule.mask is not None

    def bring(n: Any) -> None:
        """Start to copy tile n of K and V: a compare with one register for each vector."""
        for thread, own, tile, shared, dim in (
            (load_k, own_k, gK, sK, d),
            (load_v, own_v, gV, sV, e),
        ):
            left = (last - n * bN - own[0][0]).to("s32")
            found = cute.rmem("b1", own.shape[1:])  # (CPY_N,CPY_D)
            for i in range(cute.size(own, 1)):
                for j in range(cute.size(own, 2)):
                    row, column = own[0, i, j]
                    found[i, j] = cute.where(column < dim, left, 0) > row - own[0][0]
            target = thread.partition_D(shared[_, _, n % cfg.stages])
            source = thread.partition_S(tile[_, _, n])
            cute.copy(thread.tiled_copy, source, target, pred=found, fill=0)
        cute.cp_async_fence()

    def arrived() -> None:
        """Wait for the oldest tile; all threads have then read the one before it."""
        cute.cp_async_wait(cfg.stages - 2)
        cute.syncthreads()

    def read_queries() -> None:
        cute.copy(rows, read_q.partition_S(sQ), read_q.retile_D(rQ))

    def step(n: Any, hides: bool) -> None:
        """Take in one tile of keys and values."""
        arrived()
        bring(n + cfg.stages - 1)
        acc.fill(0)
        if not keeps:
            read_queries()
        multiply(mma, acc, rQ, rK, read_k, sK[_, _, n % cfg.stages])
        more = None
        if bias is not None:
            more = thr.partition_C(cute.local_tile(bias[b, head, _, _], (bM, bN), (block, n)))
        scores.finish((b, head), block * bM, n * bN, more, slope)
        if hides:
            scores.hide(block * bM, n * bN)
        scores.weigh(first=False, guarded=hides or guards)
        scores.rescale(sums)
        weights = mma.as_A(acc.to(Q.dtype))
        multiply(mma, sums, weights, rV, read_v, sVt[_, _, n % cfg.stages])

    load = load_k.tiled_copy.get_slice(tid)
    cute.copy(load.tiled_copy, load.partition_S(gQ), load.partition_D(sQ))
    tiles = sight.tiles(block * bM, bM, bN)
    last = cute.min_(N, tiles.end * bN)
    for i in range(cfg.stages - 1):
        bring(tiles.begin + i)
    keeps = bD <= KEPT and bM == 16 * cfg.warps  # Q in registers; more would fill them
    if keeps:
        arrived()
        read_queries()
    if rule.begins:
        for n in cute.range(tiles.begin, tiles.low):
            step(n, hides=True)
    for n in cute.range(tiles.low, tiles.high):
        step(n, hides=False)
    for n in cute.range(tiles.high, tiles.end):
        step(n, hides=rule.hides)

    share = scores.shares(lse, (b, head), block * bM)
    out = (sums * mma.spread_C(share, sums)).to(O.dtype)
    if O.dtype != Q.dtype:  # it has no place in shared memory
        cute.copy(out, thr.partition_C(gO))
        return
    cute.cp_async_wait(0)
    cute.syncthreads()  # all have read Q
    cute.copy(out, thr.partition_C(sO))
    cute.syncthreads()
    bits = narrowed(cfg.vector, (bM, bE), O.dtype, threads)
    store = cute.suggest_tiled_copy((bM, bE), O.dtype, threads, "K", bits).get_slice(tid)
    cute.copy(store.partition_S(sO), store.partition_D(gO))


def multiply(mma: Any, acc: Any, a: Any, b: Any, read: Any, tile: Any) -> None:  # tensors
    """Add the product of fragments a and a tile, whose fragments go through b, to acc."""
    source, target = read.partition_S(tile), read.retile_D(b)
    for k in range(cute.size(b, 2)):
        cute.copy(read.tiled_copy, source[_, _, k], target[_, _, k])
        cute.gemm(mma, acc, a[_, _, k], b[_, _, k])


def check() -> None:
    """Compare with NumPy in f64."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(0, 1, (1, 2, n, 64)).astype(np.float16) for n in (100, 130, 130))
    o = np.full_like(q, np.nan)
    for causal in (False, True):
        flash_attention(*plain(q, k, v, o, 0.125, AttentionConfig(64, 64), causal))
        wanted, _lse = reference(q, k, v, causal="bottom_right" if causal else False)
        assert np.abs(o - wanted).max() < 2e-3


if __name__ == "__main__":
    check()
