"""new here: attention without matrix instructions, a warp for each query.

A lane multiplies the query by a key of its own, 32 keys at a time; for the values, a lane has every
32nd column, and gets the weights of the others by shuffles. It reads any strides, in f32, f16 and
bf16, and computes in f32.
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
    RESULTS,
    Distance,
    Rule,
    Scores,
    Sight,
    assume_attention,
    plain,
    reference,
)
from cute_py.kernels.configuration import Config, part

WARP = 32


@dataclass(frozen=True, slots=True)
class RowsAttention(Config):
    """How many queries a block has.

    Attributes:
        family: the name.
        value_dim: columns of V that a warp has sums of; a multiple of 32.
        warps: of a block, each with a query.
        reasons: why; not compared.
    """

    family: str = part("rows", choices=FAMILIES, is_shown=True)
    value_dim: int = part(256)
    warps: int = part(4)
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)

    CODE, OPERATION = "config-attention", "config"

    @property
    def queries(self) -> int:
        """Rows of Q of a block."""
        return self.warps

    def rules(self, has_others: bool) -> Iterable[tuple[str, bool]]:
        """Return what must hold of the parts, and whether it does not."""
        yield "parts of the family rows alone", has_others or self.family != "rows"
        yield "value_dim of 32, or a multiple of it", self.value_dim < 1 or self.value_dim % 32 > 0
        yield "1 to 32 warps", not 1 <= self.warps <= 32


class Row:
    """A score of a lane as a product's: one row, one column."""

    @staticmethod
    def rows_C(part: cute.Tensor) -> cute.Tensor:
        """Return it as a matrix."""
        return part

    @staticmethod
    def spread_C(x: cute.Tensor, _part: cute.Tensor) -> cute.Tensor:
        """Return a number of the row."""
        return x


@cute.kernel
def attention_rows(
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
    cfg: RowsAttention,
    rule: Rule,
) -> None:
    """O = softmax(score) V; see `flash_attention` for the arrays."""
    arrays = {"Q": Q, "K": K, "V": V, "O": O, "bias": bias, "slopes": slopes, "lse": lse}
    dims = None, cfg.value_dim
    assume_attention("attention_rows", arrays, scale, dims, rule, RESULTS, RESULTS)
    if rule.capped:
        cute.assert_(cap > 0.0, "cap is above 0")  # noqa: PT009
    (batch, heads, M, _d), N = Q.shape, K.shape[2]
    count = cute.ceil_div(M, cfg.warps)
    cute.launch(grid=count * heads * batch, block=WARP * cfg.warps)
    place = cute.block_idx()
    block, head, b = place % count, place // count % heads, place // count // heads
    attend(arrays, Sight(rule, scale, cap, left, right, M, N), (b, head, block), cfg)


def attend(arrays: dict[str, Any], sight: Sight, place: tuple[Any, Any, Any], cfg: Any) -> None:
    """Compute a block of queries, (batch, head, block), of arrays by their names."""
    Q, K, V, O, bias, slopes, lse = arrays.values()  # noqa: E741
    (b, head, block), rule, N = place, sight.rule, sight.keys
    d, e, lane, warp = Q.shape[3], V.shape[3], cute.lane_idx(), cute.warp_idx()
    first = block * cfg.warps
    query, shared = first + warp, head // rule.shared
    cute.return_if(query >= sight.queries)
    acc = cute.rmem("f32", (1, 1))
    at = cute.local_tile(cute.make_identity_tensor((cfg.warps, WARP)), (1, 1), (warp, lane))
    scores = Scores(Row(), acc, at, sight, WARP)
    sums = cute.rmem("f32", cfg.value_dim // WARP)
    sums.fill(0)
    scores.most.fill(-math.inf)
    scores.total.fill(0)
    slope = None if slopes is None else slopes[b, head]
    tiles = sight.tiles(query, 1, WARP)
    for n in cute.range(tiles.begin, tiles.end):
        key = n * WARP + lane
        acc.fill(0)
        with cute.when(key < N):
            for k in cute.range(d):
                x, y = Q[b, head, query, k].to("f32"), K[b, shared, key, k].to("f32")
                acc[0] = cute.fma(x, y, acc[0])
        more = None
        if bias is not None:
            whole = cute.local_tile(bias[b, head, _, _], (1, 1), (query, key))
            more = whole
        scores.finish((b, head), first, n * WARP, more, slope)
        scores.hide(first, n * WARP)
        scores.weigh(first=False, guarded=True)
        sums[...] = sums * scores.change
        for j in cute.range(cute.min_(WARP, N - n * WARP)):
            weight = cute.shuffle(acc[0], j)
            for i in range(cfg.value_dim // WARP):
                column = i * WARP + lane
                with cute.when(column < e):
                    x = V[b, shared, n * WARP + j, column].to("f32")
                    sums[i] = cute.fma(weight, x, sums[i])
    share = scores.shares(lse, (b, head), first)
    for i in range(cfg.value_dim // WARP):
        column = i * WARP + lane
        with cute.when(column < e):
            O[b, head, query, column] = (sums[i] * share).to(O.dtype)


def check() -> None:
    """Compare with NumPy in f64."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(0, 1, (1, 2, n, 20)).astype(np.float32) for n in (10, 40, 40))
    o = np.full_like(q, np.nan)
    attention_rows(*plain(q, k, v, o, 20**-0.5, RowsAttention(value_dim=32), causal=True))
    assert np.abs(o - reference(q, k, v, causal="bottom_right")[0]).max() < 1e-5


if __name__ == "__main__":
    check()
