"""new here: scores that go through shared memory, options that are arguments, and sequences whose
lengths are in memory.

O = softmax(scale * Q K^T + bias) V, as the memory-efficient attention of CUTLASS computes it. Warps
share the rows of a block: they find the greatest score of a row by an atomic in shared memory, and
write their weights to shared memory, where all warps read them for the product with V. Sums of O
stay in registers if all columns of V fit in one tile; otherwise they are kept in `accum`.

Source: cutlass examples/41_fused_multi_head_attention/kernel_forward.h (the order of steps).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.errors import refusal
from cute_py.kernels.arrays import facts_of, require, require_kind
from cute_py.kernels.attention import LOG2_E
from cute_py.kernels.config import GemmConfig, Side
from cute_py.kernels.config import choose as choose_product
from cute_py.kernels.flash_attention import multiply

Count: TypeAlias = Annotated[cute.s32, cute.s32(min=1)]
LEAST = -1e38  # in place of -infinity, for rows without keys so far


@dataclass(frozen=True, slots=True)
class Attention:
    """The arrays of the kernel, (batch, heads, rows, dim) of f16 or bf16, and how it computes.

    Attributes:
        q: queries.
        k: keys.
        v: values; their dim may be another than that of q and k.
        o: the result.
        scores: the product Q K^T; its tile is (queries, keys, part of dim).
        values: the product P V; its tile is (queries, columns, keys), with as many columns as keys.
        causal: whether query i sees the keys 0 to i only.
        preload: whether V is copied while the softmax is computed.
        bias: (batch, heads, queries, keys), added to the scores, or of u8: a key is seen where it
            is not 0 (a mask of bool as bytes); strides may be 0.
        lse: f32 (batch, heads, queries): log of the sum of exponentials of each row.
        accum: f32 of the shape of O, needed where V has more columns than a tile has keys.
        starts: where the queries and the keys of each sequence start, two s32 arrays
            (sequences + 1). The batch of q, k, v and o is then 1; their rows are those of all
            sequences, one after the other.
    """

    q: Any
    k: Any
    v: Any
    o: Any
    scores: GemmConfig
    values: GemmConfig
    causal: bool = False
    preload: bool = True
    bias: Any = None
    lse: Any = None
    accum: Any = None
    starts: Any = (None, None)


def choose(q: Any, k: Any, v: Any, o: Any, tile: Any = None, **options: Any) -> Attention:
    """Return a tile (queries, keys) for dims up to 64, or above, and copies as wide as the rows
    allow; `options` are the fields of `Attention`. Raises LayoutError where `accum` is missing.
    """
    m, n = tile or ((64, 64) if max(q.shape[3], v.shape[3]) <= 64 else (32, 128))
    if options.get("accum") is None and v.shape[3] > n:
        raise refusal("attention-accum", operation="fused_attention", dim=v.shape[3], keys=n)
    scores = replace(choose_product(q, k, (m, n), 2, outputs=(o,)), warps=(m // 32, n // 32))
    values = replace(scores, tile=(m, n, n), b=Side("MN", facts_of(v)[2] // 16))
    return Attention(q, k, v, o, scores, values, **options)


@cute.kernel
def fused_attention(x: Attention, scale: cute.f32, longest: Count) -> None:
    """O = softmax(scale * Q K^T + bias) V.

    Args:
        x: what `choose` returns.
        scale: of the scores.
        longest: the most queries of a sequence, or more: blocks look at the lengths, and those
            that have none return. The rows of q are enough where nobody knows.

    """
    _assume_attention(x, longest)
    (bM, bN, bK), across = x.scores.tile, x.scores.warps[1]
    tile, batch = (bM, bN), x.q.shape[0] if x.starts[0] is None else x.starts[0].shape[0] - 1
    cute.launch((cute.ceil_div(longest, bM), x.q.shape[1], batch), x.scores.threads)
    (block, head, b), tid = cute.block_idx(), cute.thread_idx()
    (mQ, queries), (mO, _n) = (rows_of(X, b, head, x.starts[0]) for X in (x.q, x.o))  # (rows,dim)
    (mK, stored), (mV, _n) = (rows_of(X, b, head, x.starts[1]) for X in (x.k, x.v))  # (rows,dim)
    cute.assume(queries <= longest)
    first = block * bM
    cute.return_if(first >= queries)
    keys: Any = cute.min_(stored, first + bM) if x.causal else stored

    mma, (of_q, of_k), (of_p, of_v) = x.scores.tiled_mma(), x.scores.operands(), x.values.operands()
    sQ, sK = (cute.smem(x.q.dtype, of.smem) for of in (of_q, of_k))  # (BM or BN,BK,stages)
    sP, sV = (cute.smem(x.v.dtype, cute.select(of.smem, (0, 1))) for of in (of_p, of_v))
    most, weights = (cute.smem("f32", (bM, n)) for n in (1, across))  # sums of weights by warp
    s2r_q, s2r_k = cute.make_tiled_copy_A(of_q.s2r, mma), cute.make_tiled_copy_B(of_k.s2r, mma)
    q = cute.Operand(cute.local_tile(mQ, (bM, bK), (block, _)), sQ, of_q.g2s, s2r_q)
    mVt = cute.make_tensor(mV.data, cute.select(mV.layout, (1, 0)))  # (dim,rows)
    thr, load = mma.get_slice(tid), of_v.g2s.get_slice(tid)
    shape, reports = mma.partition_shape_C(tile), cute.lane_idx() % 4 == 0
    scores, sums = (cute.make_rmem_tensor(shape, "f32") for _i in range(2))  # (MMA,MMA_M,MMA_N)
    place = thr.partition_C(cute.make_identity_tensor(tile))  # (row, column) of each score
    rows = [place[(0, r), i, 0][0] for i in range(shape[1]) for r in range(2)]  # of the thread
    rP, rV = thr.partition_fragment_A(sP), thr.partition_fragment_B(sV)
    read_p, read_v = s2r_q.get_slice(tid), cute.make_tiled_copy_B(of_v.s2r, mma).get_slice(tid)
    columns = 1 if x.accum is None else cute.ceil_div(x.v.shape[3], bN)

    def bring(n: Any, j: Any) -> None:
        """Start to copy a tile of V."""
        gV = cute.local_tile(mVt, (bN, bN), (j, n))  # (BN,keys)
        cute.copy(of_v.g2s, load.partition_S(gV), load.partition_D(sV), pred=j < columns)
        cute.cp_async_fence()

    def sums_of(j: Any) -> Any:  # a tensor
        """Return the part of `accum` with the sums of a tile of O."""
        mA, _n = rows_of(x.accum, b, head, x.starts[0])
        return thr.partition_C(cute.local_tile(mA, tile, (block, j)))  # (MMA,MMA_M,MMA_N)

    with cute.when(tid < bM):
        most[tid, 0] = -math.inf
        weights[tid, _].fill(0)
    cute.syncthreads()
    sums.fill(0)
    for n in cute.range(cute.ceil_div(keys, bN)):
        gK = cute.local_tile(mK, (bN, bK), (n, _))  # (BN,BK,k)
        before = gather(most, rows)
        scores.fill(0)
        cute.mainloop(mma, scores, q, cute.Operand(gK, sK, of_k.g2s, s2r_k))
        if x.preload:
            bring(n, 0)
        scores[...] = scores * (scale.to("f32") * LOG2_E)
        if x.bias is not None:
            more = cute.make_rmem_tensor(shape, x.bias.dtype)
            gB = cute.local_tile(x.bias[b, head, _, _], tile, (block, n))  # (BM,BN)
            cute.copy(thr.partition_C(gB), more)
            if x.bias.dtype.name == "u8":
                scores[...] = cute.where(more.to("s32") != 0, scores, -math.inf)
            else:
                scores[...] = scores + more.to("f32") * LOG2_E
        with cute.when((n + 1) * bN > (cute.min_(keys, first + 1) if x.causal else keys)):
            mask(scores, place, keys - n * bN, first + 1 - n * bN if x.causal else None)
        found = cute.warp_reduce("max", cute.reduce("max", mma.rows_C(scores), mode=1), width=4)
        with cute.when(reports):
            for i, row in enumerate(rows):
                cute.atomic("max", cute.local_tile(most, (1, 1), (row, 0)), found[i])
        cute.syncthreads()  # the greatest scores are known
        base = cute.maximum(gather(most, rows), LEAST)
        factor = cute.exp2(before - base)
        scores[...] = cute.exp2(scores - mma.spread_C(base, scores))
        added = cute.warp_reduce("add", cute.reduce("add", mma.rows_C(scores), mode=1), width=4)
        with cute.when(reports):
            for i, row in enumerate(rows):
                weights[row, thr.thr_vmnk[2]] = weights[row, thr.thr_vmnk[2]] * factor[i] + added[i]
        cute.copy(scores.to(x.v.dtype), thr.partition_C(sP))
        if not x.preload:
            bring(n, 0)
        for j in cute.range(columns):
            cute.cp_async_wait(0)
            cute.syncthreads()  # the tile of V is there, and P
            cute.copy(s2r_q, read_p.partition_S(sP), read_p.retile_D(rP))
            if x.accum is not None:
                sums.fill(0)
                cute.copy(sums_of(j), sums, pred=n > 0)
            sums[...] = sums * mma.spread_C(factor, sums)
            multiply(mma, sums, rP, rV, read_v, sV)
            if x.accum is not None:
                cute.copy(sums, sums_of(j))
                cute.syncthreads()  # all have read the tile
                bring(n, j + 1)

    store = x.values.store_copy(x.o.dtype).get_slice(tid)
    for j in cute.range(columns):
        cute.syncthreads()  # all have read P, or the tile before
        if x.accum is not None:
            cute.copy(sums_of(j), sums, pred=keys > 0)
        share = cute.rcp(cute.maximum(gather(weights, rows), 1e-30))  # no key: sums are 0
        cute.copy((sums * mma.spread_C(share, sums)).to(x.o.dtype), thr.partition_C(sP))
        cute.syncthreads()
        cute.copy(store.partition_S(sP), store.partition_D(cute.local_tile(mO, tile, (block, j))))
    if x.lse is not None:
        with cute.when((tid < bM) & (first + tid < queries)):
            x.lse[b, head, first + tid] = (
                most[tid, 0] + cute.log2(gather(weights, [tid]))
            ) / LOG2_E


def mask(scores: cute.Tensor, at: cute.Tensor, keys: Any, first: Any | None) -> None:
    """Set scores of keys that do not exist, or that a row does not see, to -infinity."""
    start = at[0][1]  # the other columns of the thread have static distances from it
    for i in range(cute.size(scores)):
        row, column = at[i]
        end = (keys - start).to("s32")
        end = end if first is None else cute.minimum(end, (first + row - start).to("s32"))
        scores[i] = cute.where(end > column - start, scores[i], -math.inf)


def _assume_attention(x: Attention, longest: Any) -> None:
    """State what the arrays have in common."""
    cute.assume_shapes("BHQD BHKD BHKE BHQE BHQE?", x.q, x.k, x.v, x.o, x.accum)
    kinds: tuple[str, ...] = ("f16", "bf16")
    require_kind("fused_attention", kinds, q=x.q)
    require_kind("fused_attention", (x.q.dtype.name,), k=x.k, v=x.v)
    require_kind("fused_attention", (*kinds, "f32"), o=x.o)
    require_kind("fused_attention", (*kinds, "f32", "u8"), bias=x.bias)
    require_kind("fused_attention", ("f32",), lse=x.lse, accum=x.accum)
    queries, keys = x.starts
    require_kind("fused_attention", ("s32",), starts=queries)
    require_kind("fused_attention", ("s32",), starts=keys)
    if x.accum is None:
        cute.assume(x.v.shape[3] <= x.scores.tile[1])
    if queries is None or keys is None:
        require(queries is keys, "fused_attention", "starts", "one array", "both arrays, or none")
        cute.assume_shapes("BHQD BHKD BHQK? BHQ?", x.q, x.k, x.bias, x.lse)
        cute.assume(x.q.shape[2] <= longest)
    else:
        cute.assume_shapes("S S", queries, keys)
        cute.assume(x.q.shape[0] == 1)
        for y in (x.bias, x.lse):
            if y is not None:
                cute.assume((y.shape[0] == queries.shape[0] - 1) & (y.shape[1] == x.q.shape[1]))
                cute.assume(y.shape[2] >= longest)


def rows_of(X: cute.Tensor, b: Any, head: Any, starts: Any) -> tuple[cute.Tensor, Any]:
    """Return the rows (rows,dim) of a sequence, and how many there are."""
    if starts is None:
        return X[b, head, _, _], X.shape[2]
    start, end = (cute.as_int(starts[b + i], 0, uniform="block") for i in range(2))
    x, count = X[0, head, _, _], cute.max_(end - start, 0)
    cute.assume((start <= end) & (end <= x.shape[0]))
    layout = cute.Layout((cute.max_(count, 1), x.shape[1]), x.stride)
    return cute.make_tensor(x.data.moved(start * x.stride[0]), layout), count


def gather(x: cute.Tensor, rows: list[Any]) -> cute.Tensor:
    """Return the sums of x (BM,n) along some rows, in registers."""
    held = cute.rmem(x.dtype, (len(rows), cute.size(x, 1)))
    for i, row in enumerate(rows):
        cute.copy(x[row, _], held[i, _])
    return cute.reduce("add", held, mode=1)


def reference(q: Any, k: Any, v: Any, scale: float, causal: bool = False, bias: Any = 0) -> Any:
    """Return softmax(scale * q k^T + bias) v, and the log of the sum of exponentials, in f64."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scores = scale * q @ k.swapaxes(2, 3) + bias
    if causal:
        queries, keys = scores.shape[2:]
        scores[..., np.arange(keys) > np.arange(queries)[:, None]] = -np.inf
    most = scores.max(-1, keepdims=True, initial=np.finfo(np.float64).min)
    weights = np.exp(scores - most)
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (most + np.log(total))[..., 0]
    return (weights / np.maximum(total, 1e-300)) @ v, lse


def check() -> None:
    """Compare with NumPy in f64."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(0, 1, (1, 2, n, 40)).astype(np.float16) for n in (70, 90, 90))
    o, lse = np.full_like(q, np.nan), np.full((1, 2, 70), np.nan, np.float32)
    fused_attention(choose(q, k, v, o, causal=True, lse=lse), 0.125, 70)
    wanted, logs = reference(q, k, v, 0.125, causal=True)
    assert np.abs(o - wanted).max() < 2e-3
    assert np.abs(lse - logs).max() < 1e-3


if __name__ == "__main__":
    check()
