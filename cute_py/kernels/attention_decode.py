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
from cute_py.kernels.attention import (
    FAMILIES,
    Distance,
    Rule,
    Sight,
    reference,
)
from cute_py.kernels.attention_heads import FEW, Packed, assume_decode, load_queries
from cute_py.kernels.attention_merge import merge_warps
from cute_py.kernels.config import smem_atom
from cute_py.kernels.configuration import Config, part
from cute_py.kernels.flash_attention import multiply
from cute_py.kernels.paged import WARP, Pages, Ring, Tiles

MOST_PARTS = 256


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
        yield (
            "rows and keys of 16, or a multiple",
            any(n < 1 or n % 16 for n in (self.rows, self.keys)),
        )
        dims = self.head_dim, self.value_dim
        yield "dims of 32, or a multiple of 64", any(n != 32 and (n % 64 or n < 1) for n in dims)
        yield "1, 2, 4, 8 or 16 warps", self.warps not in (1, 2, 4, 8, 16)
        yield "threads of whole rows", WARP * self.warps % max(self.rows, 1) > 0
        yield "2 to 16 stages", not 2 <= self.stages <= 16
        yield "pages of at least 1 row, or 0", self.page < 0
        yield f"1 to {MOST_PARTS} parts", not 1 <= self.parts <= MOST_PARTS
        yield "vectors of 16, 32, 64 or 128 bits", self.vector not in (16, 32, 64, 128)


@cute.kernel
def attention_decode(
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
    cfg: DecodeAttention,
    rule: Rule,
) -> None:
    """O = softmax(score) V of f16 or bf16, for few queries; see `flash_attention` for the arrays.

    With several parts of the keys O is (parts,B,H,M,`columns_of_part`) of f32, their results for
    `attention_merge`, and lse is None.
    """
    arrays = {"Q": Q, "K": K, "V": V, "O": O, "bias": bias, "slopes": slopes, "lse": lse}
    _decode("attention_decode", arrays, (scale, cap, left, right), cfg, rule)


@cute.kernel
def attention_cached(
    Q: cute.Tensor,
    K: cute.Tensor,
    V: cute.Tensor,
    lengths: cute.Tensor,
    table: Any,
    more_k: Any,
    more_v: Any,
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
    """Do the same with keys in caches, of which each sequence has some: `lengths` (B) of s32.

    K is (B,Hk,N,D) and V (B,Hk,N,E); or, with a table (B,pages) of s32, (P,Hk,page,D or E): key j
    of a sequence is row j % page of page table[b, j // page]. Behind the keys of each sequence
    more_k (B,Hk,new,D) and more_v (B,Hk,new,E) are written, if given, and attended.
    """
    arrays = {"Q": Q, "K": K, "V": V, "O": O, "slopes": slopes, "lse": lse}
    arrays |= {"lengths": lengths, "table": table, "more_k": more_k, "more_v": more_v}
    _decode("attention_cached", arrays, (scale, cap, left, right), cfg, rule)


def _decode(
    name: str, given: dict[str, Any], numbers: tuple[Any, ...], cfg: DecodeAttention, rule: Rule
) -> None:
    """Do what a kernel of that name does with its arrays, and its numbers before `cfg`."""
    Q, K, V, O, lse = (given[x] for x in ("Q", "K", "V", "O", "lse"))  # noqa: E741
    lengths, table, more_k, more_v, bias, slopes = (given.get(x) for x in FEW)
    room = assume_decode(name, given, numbers, cfg, rule)
    bM, bN, bD, bE = cfg.rows, cfg.keys, cfg.head_dim, cfg.value_dim
    (batch, _h, M, _d), groups, shared = Q.shape, K.shape[1], rule.shared
    count, warps = cute.ceil_div(M * shared, bM), cfg.warps
    cute.launch(grid=count * groups * cfg.parts * batch, block=WARP * warps)
    place, warp = cute.block_idx(), cute.warp_idx()
    first, group, outer = place % count * bM, place // count % groups, place // count // groups
    part, b = outer % cfg.parts, outer // cfg.parts

    old, new = _length(lengths, b, room), 0 if more_k is None else more_k.shape[2]
    scale, cap, left, right = numbers
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
    at, vector = (b, group), cfg.vector
    rings = Ring(K, more_k, at, own[0], vector), Ring(V, more_v, at, own[1], vector)
    pages = None if table is None else Pages(table, b, K.shape[0], cfg.page)
    tiles = Tiles(rings, b, pages, old, (span[0], span[1]), warps, cfg.stages)
    sVt = cute.make_tensor(own[1].data, cute.select(own[1].layout, (1, 0, 2)))  # (BE,BN,stages)

    kind = Q.dtype.name.upper()
    mma = cute.make_tiled_mma(f"SM80_16x8x16_F32{kind}{kind}F32_TN", (1, 1, 1), (16, 16, 16))
    thr = mma.get_slice(cute.lane_idx())
    rQ = thr.partition_fragment_A(sQ)  # (MMA,MMA_M,MMA_D)
    rK, rV = (thr.partition_fragment_B(x[_, _, 0]) for x in (own[0], sVt))  # (MMA,MMA_N,MMA_D), ..
    of_results = thr.partition_C(results[_, _, warp])  # (MMA,MMA_M,MMA_E)
    sums = thr.make_fragment_C(of_results)
    acc = cute.make_rmem_tensor(mma.partition_shape_C((bM, bN)), "f32")  # (MMA,MMA_M,MMA_N)
    own_scores = thr.partition_C(cute.make_identity_tensor((bM, bN)))
    scores = Packed(mma, acc, own_scores, sight, first, group * shared)
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
    load_queries(Q, sQ, (b, group * shared, first), shared, (WARP * warps, cfg.vector))
    for i in range(cfg.stages - 1):
        tiles.fill(ahead[i], i)
    cute.cp_async_wait(cfg.stages - 1)
    cute.syncthreads()  # the queries are there
    if bD <= 128:
        cute.copy(by_rows, read_q.partition_S(sQ), read_q.retile_D(rQ))
    if more_k is not None:
        with cute.when((first == 0) & (part == 0)):
            tiles.append()
    if cfg.parts > 1:
        cute.griddepcontrol_launch_dependents()  # blocks that merge wait for the end
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
    cute.syncthreads()  # the results are there
    rows = b, group * shared, first, part if cfg.parts > 1 else None
    merge_warps(results, logs, (O, lse), rows, (M, shared))


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
    return _uniform(cute.max_(cute.min_(found, room), 0))


def check() -> None:
    """Compare with NumPy in f64: 8 heads that share one, and two sequences in pages of 16 rows."""
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.normal(0, 1, (2, h, n, 64)).astype(np.float16) for h, n in ((8, 1), (1, 96), (1, 96))
    )
    lengths, order, cfg = (
        np.array([90, 17], np.int32),
        rng.permutation(12),
        DecodeAttention(head_dim=64, value_dim=64, warps=2, page=16),
    )
    table = np.argsort(order).astype(np.int32).reshape(2, 6)
    pages = [x.reshape(12, 1, 16, 64)[order] for x in (k, v)]
    o, numbers = np.full_like(q, np.nan), (0.125, 1.0, 0, 0)
    given = q, *pages, lengths, table, None, None, None, o, None
    attention_cached(*given, *numbers, cfg, Rule(shared=8))
    for b, n in enumerate(lengths):
        part = slice(b, b + 1), slice(None), slice(0, n)
        wanted, _lse = reference(q[b : b + 1], k[part], v[part])
        assert np.abs(o[b] - wanted[0]).max() < 2e-3


if __name__ == "__main__":
    check()
