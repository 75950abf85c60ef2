"""new here: two products in a row, and a softmax that is corrected as keys arrive.

O = softmax(scale * Q K^T) V without a matrix of scores. A block keeps its rows of Q, of the sums of
O, and for each row the greatest score so far and the sum of exponentials; a greater score rescales
what was summed before. Scores become the left operand of the second product in registers. Keys
arrive while the previous values are multiplied, and values while the scores are computed.

Source: T. Dao, "FlashAttention-2", arXiv 2307.08691, algorithm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import require_kind
from cute_py.kernels.config import smem_atom

LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class AttentionConfig:
    """The tiles of a block.

    Attributes:
        queries: rows of Q of a block; a multiple of 16 * warps.
        keys: rows of K and V of an iteration; a multiple of 16.
        head_dim: columns, at least those of the arrays; 32, or a multiple of 64.
        warps: warps of a block; each computes its own rows.
    """

    queries: int = 128
    keys: int = 64
    head_dim: int = 64
    warps: int = 4


@cute.kernel
def flash_attention(
    Q: cute.Tensor,
    K: cute.Tensor,
    V: cute.Tensor,
    O: cute.Tensor,  # noqa: E741
    scale: cute.f32,
    cfg: AttentionConfig,
    causal: bool = False,
) -> None:
    """O = softmax(scale * Q K^T) V of (batch, heads, rows, head_dim) arrays of f16 or bf16.

    With `causal`, query i sees the keys up to i + keys - queries, as the last query sees them all.
    `scale` is above 0: the greatest score is found before it is scaled.
    """
    cute.assume_shapes("BHQD BHKD BHKD BHQD", Q, K, V, O)
    require_kind("flash_attention", ("f16", "bf16"), Q=Q)
    require_kind("flash_attention", (Q.dtype.name,), K=K, V=V)
    cute.assume(Q.shape[3] <= cfg.head_dim)
    (batch, heads, queries, d), keys = Q.shape, K.shape[2]
    bM, bN, bD = cfg.queries, cfg.keys, cfg.head_dim
    cute.launch(grid=(cute.ceil_div(queries, bM), heads, batch), block=32 * cfg.warps)
    (block, head, b), tid = cute.block_idx(), cute.thread_idx()
    gQ = cute.local_tile(Q[b, head, _, _], (bM, bD), (block, 0))  # (BM,BD)
    gK = cute.local_tile(K[b, head, _, _], (bN, bD), (_, 0))  # (BN,BD,n)
    gV = cute.local_tile(V[b, head, _, _], (bN, bD), (_, 0))  # (BN,BD,n)
    gO = cute.local_tile(O[b, head, _, _], (bM, bD), (block, 0))  # (BM,BD)
    swizzled = smem_atom(Q.dtype, 1, bD)
    sQ = cute.smem(Q.dtype, cute.tile_to_shape(swizzled, (bM, bD)))  # (BM,BD)
    sK = cute.smem(K.dtype, cute.tile_to_shape(swizzled, (bN, bD)))  # (BN,BD)
    sV = cute.smem(V.dtype, cute.tile_to_shape(swizzled, (bN, bD)))  # (BN,BD)
    sVt = cute.make_tensor(sV.data, cute.select(sV.layout, (1, 0)))  # (BD,BN)

    load = cute.suggest_tiled_copy(
        (bN, bD), Q.dtype, 32 * cfg.warps, "K", 128, "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL"
    )
    thread = load.get_slice(tid)
    tQgQ, tQsQ = thread.partition_S(gQ), thread.partition_D(sQ)  # (CPY,CPY_M,CPY_D)
    tKgK, tKsK = thread.partition_S(gK), thread.partition_D(sK)  # (CPY,CPY_N,CPY_D,n), no n
    tVgV, tVsV = thread.partition_S(gV), thread.partition_D(sV)  # (CPY,CPY_N,CPY_D,n), no n

    own = thread.partition_S(cute.make_identity_tensor((bN, bD)))  # (row, column) of each element
    kind = Q.dtype.name.upper()
    atom = f"SM80_16x8x16_F32{kind}{kind}F32_TN"
    mma = cute.make_tiled_mma(atom, (cfg.warps, 1, 1), (16 * cfg.warps, 16, 16))
    thr = mma.get_slice(tid)
    rQ, rK = thr.partition_fragment_A(sQ), thr.partition_fragment_B(sK)  # (MMA,MMA_M,MMA_D), ..
    rV = thr.partition_fragment_B(sVt)  # (MMA,MMA_D,MMA_N)
    sums = thr.make_fragment_C(thr.partition_C(gO))  # (MMA,MMA_M,MMA_D), of O
    scores = cute.make_rmem_tensor(mma.partition_shape_C((bM, bN)), "f32")  # (MMA,MMA_M,MMA_N)
    most, total = (cute.rmem("f32", by_rows(scores).shape[:1]) for _each in range(2))  # (rows)
    sums.fill(0)
    most.fill(-math.inf)
    total.fill(0)
    at = thr.partition_C(cute.make_identity_tensor((bM, bN)))  # (row, column) of each score

    rows, columns = (
        cute.Copy_Atom(f"SM75_{op}", Q.dtype) for op in ("U32x4_LDSM_N", "U16x8_LDSM_T")
    )
    read_q = cute.make_tiled_copy_A(rows, mma).get_slice(tid)
    read_k = cute.make_tiled_copy_B(rows, mma).get_slice(tid)
    read_v = cute.make_tiled_copy_B(columns, mma).get_slice(tid)
    cute.assert_(scale > 0.0, "scale is above 0")  # noqa: PT009
    factor = scale.to("f32") * LOG2_E
    first = block * bM + keys - queries + 1  # keys that the first row sees
    whole, tiles = keys // bN, cute.ceil_div(keys, bN)  # tiles without a mask, and all
    if causal:
        whole = cute.max_(cute.min_(whole, first // bN), 0)
        tiles = cute.max_(cute.min_(tiles, cute.ceil_div(first + bM - 1, bN)), 0)

    def there(n: Any) -> cute.Tensor:
        """Return which vectors of a tile of keys exist: a compare with one register for each."""
        left = (keys - n * bN - own[0][0]).to("s32")
        found = cute.rmem("b1", own.shape[1:])  # (CPY_N,CPY_D)
        for i in range(cute.size(own, 1)):
            for j in range(cute.size(own, 2)):
                row, column = own[0, i, j]
                found[i, j] = cute.where(column < d, left, 0) > row - own[0][0]
        return found

    def step(n: Any, is_masked: bool) -> None:
        """Take in one tile of keys and values."""
        cute.cp_async_wait(0)
        cute.syncthreads()  # the keys are there, and all have read the values before
        cute.copy(load, tVgV[_, _, _, n], tVsV, pred=there(n))
        cute.cp_async_fence()
        scores.fill(0)
        cute.copy(rows, read_q.partition_S(sQ), read_q.retile_D(rQ))  # it would fill registers
        multiply(mma, scores, rQ, rK, read_k, sK)
        if is_masked:
            mask(scores, at, keys - n * bN, first - n * bN if causal else None)
        cute.cp_async_wait(0)
        cute.syncthreads()  # the values are there, and all have read the keys
        cute.copy(load, tKgK[_, _, _, n + 1], tKsK, pred=there(n + 1))
        cute.cp_async_fence()
        weigh(scores, sums, most, total, factor)
        multiply(mma, sums, as_operand_a(scores.to(Q.dtype)), rV, read_v, sVt)

    cute.copy(load, tQgQ, tQsQ)
    cute.copy(load, tKgK[_, _, _, 0], tKsK)
    cute.cp_async_fence()
    for n in cute.range(whole):
        step(n, is_masked=False)
    for n in cute.range(whole, tiles):
        step(n, is_masked=True)

    total = cute.warp_reduce("add", total, width=4)
    share = cute.where(total == 0.0, 0.0, cute.rcp(total))  # no key: 0
    out = (sums * by_row(share, sums)).to(O.dtype)
    cute.cp_async_wait(0)
    cute.syncthreads()  # Q is there also without keys, and all have read it
    cute.copy(out, thr.partition_C(sQ))
    cute.syncthreads()
    store = cute.suggest_tiled_copy((bN, bD), O.dtype, 32 * cfg.warps, "K", 128).get_slice(tid)
    cute.copy(store.partition_S(sQ), store.partition_D(gO))


def multiply(mma: Any, acc: Any, a: Any, b: Any, read: Any, tile: Any) -> None:  # tensors
    """Add the product of fragments a and a tile, whose fragments go through b, to acc."""
    source, target = read.partition_S(tile), read.retile_D(b)
    for k in range(cute.size(b, 2)):
        cute.copy(read.tiled_copy, source[_, _, k], target[_, _, k])
        cute.gemm(mma, acc, a[_, _, k], b[_, _, k])


def mask(scores: cute.Tensor, at: cute.Tensor, keys: Any, first: Any | None) -> None:
    """Set scores of keys that do not exist, or that a row does not see, to -infinity."""
    start = at[0][1]  # the other columns of the thread have static distances from it
    for i in range(cute.size(scores)):
        row, column = at[i]
        end = (keys - start).to("s32")
        end = end if first is None else cute.minimum(end, (first + row - start).to("s32"))
        scores[i] = cute.where(end > column - start, scores[i], -math.inf)


def weigh(
    scores: cute.Tensor, sums: cute.Tensor, most: cute.Tensor, total: cute.Tensor, factor: Any
) -> None:
    """Turn scores into exp(score - greatest), and rescale what was summed with the old greatest."""
    found = cute.warp_reduce("max", cute.reduce("max", by_rows(scores), mode=1), width=4)
    new = cute.maximum(most, found)
    base = cute.where(new == -math.inf, 0.0, new)  # no key so far: exp2(-inf - 0) is 0
    change = cute.exp2((most - base) * factor)
    scores[...] = cute.exp2(cute.fma(scores, factor, by_row(-base * factor, scores)))
    total[...] = total * change + cute.reduce("add", by_rows(scores), mode=1)
    sums[...] = sums * by_row(change, sums)
    most[...] = new


def by_rows(acc: cute.Tensor) -> cute.Tensor:
    """Return accumulators ((2,2),M,N) as a matrix ((2,M),(2,N)) of rows and columns."""
    (columns, rows), m, n = (acc.layout[i] for i in range(3))
    layout = cute.make_layout(cute.make_layout(rows, m), cute.make_layout(columns, n))
    return cute.make_tensor(acc.data, layout)


def by_row(x: cute.Tensor, acc: cute.Tensor) -> cute.Tensor:
    """Return a number for each row (2,M) in the layout of accumulators ((2,2),M,N)."""
    return cute.make_tensor(x.data, cute.Layout(acc.shape, ((0, 1), 2, 0)))


def as_operand_a(acc: cute.Tensor) -> cute.Tensor:
    """Return accumulators of 16x8 tiles, ((2,2),M,N), as fragments of A of 16x16, ((2,2,2),M,N/2):
    a thread has the same rows and pairs of columns in both.
    """
    halves = cute.logical_divide(acc.layout, (None, None, 2))  # ((2,2),M,(2,N/2))
    (pair, rows), m, (tile, n) = (halves[i] for i in range(3))
    return cute.make_tensor(acc.data, cute.make_layout(cute.make_layout(pair, rows, tile), m, n))


def reference(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:  # arrays
    """Return softmax(scale * q k^T) v in f64; a query that sees no key gives 0."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scores = scale * q @ k.swapaxes(2, 3)
    if causal:
        queries, keys = scores.shape[2:]
        scores[..., ~np.tri(queries, keys, keys - queries, dtype=bool)] = -np.inf
    most = scores.max(-1, keepdims=True, initial=np.finfo(np.float64).min)
    weights = np.exp(scores - most)
    return (weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300)) @ v


def check() -> None:
    """Compare with NumPy in f64."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(0, 1, (1, 2, n, 64)).astype(np.float16) for n in (100, 130, 130))
    o = np.full_like(q, np.nan)
    for causal in (False, True):
        flash_attention(q, k, v, o, 0.125, AttentionConfig(64, 64), causal)
        assert np.abs(o - reference(q, k, v, 0.125, causal)).max() < 2e-3


if __name__ == "__main__":
    check()
