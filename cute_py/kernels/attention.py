"""What kernels of attention share: which keys a query sees, and what scores go through.

A score is s = scale * (q . k). It is capped (`cap * tanh(s / cap)`), a bias is added, the slope of
its head times the distance is subtracted, a function of the user is applied; keys that are not seen
get -infinity. Distances are those of flash-attn: query i is next to key i + keys - queries, so the
last query is next to the last key; with `top_left` next to key i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np

import cute_py as cute
from cute_py.kernels.arrays import require, require_kind

FAMILIES = ("warpgroups", "decode", "warps", "rows")  # of kernels
LOG2_E = math.log2(math.e)
RESULTS = ("f16", "bf16", "f32")  # types of O where it may be another than that of Q
FAR = 8.0  # the default rescales sums only where a maximum grows by more than a factor of 2**FAR

Distance: TypeAlias = Annotated[cute.s32, cute.s32(min=0)]  # of a window, in rows


@dataclass(frozen=True, slots=True)
class Rule:
    """How scores become weights, but for numbers and arrays.

    Attributes:
        begins: whether a query sees no key farther than `left` before it.
        ends: whether a query sees no key farther than `right` behind it.
        top_left: whether query i is next to key i.
        capped: whether scores are capped.
        precise: whether tanh of a cap has the precision of f32; else it is the GPU's approximation,
            with a relative error of at most 2**-11.
        scaled: whether scores are scaled before their maximum is found: for a scale below 0, and
            where more is done to them.
        exact: whether sums are rescaled whenever a maximum grows.
        shared: how many heads of queries share one of keys.
        ragged: whether the last tile of keys may be a part of one.
        score: f(s, b, h, i, j) of registers, and of the numbers of batch and head, or None.
        mask: f(b, h, i, j), whether a key is seen, or None.
    """

    begins: bool = False
    ends: bool = False
    top_left: bool = False
    capped: bool = False
    precise: bool = False
    scaled: bool = False
    exact: bool = False
    shared: int = 1
    ragged: bool = True
    score: Any = None
    mask: Any = None

    @property
    def hides(self) -> bool:
        """Whether there are tiles of keys of which queries do not see all, by their place."""
        return self.begins or self.ends or self.ragged


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of keys that a block of queries reads: from `begin` to below `end`, of which those from
    `low` to below `high` need no mask.
    """

    begin: Any
    low: Any
    high: Any
    end: Any


@dataclass(frozen=True, slots=True)
class Sight:
    """Which keys a query sees by its place, and the numbers of a rule.

    Attributes:
        rule: of the kernel.
        scale, cap: of the scores, f32.
        left, right: how far before and behind the key next to it a query sees keys, s32.
        queries, keys: how many there are.
    """

    rule: Rule
    scale: Any
    cap: Any
    left: Any
    right: Any
    queries: Any
    keys: Any

    @property
    def shift(self) -> Any:
        """The number of the key next to query 0."""
        return 0 if self.rule.top_left else self.keys - self.queries

    def tiles(self, first: Any, count: int, width: int) -> Tiles:
        """Return the tiles of `width` keys for `count` queries from `first` on; at least one."""
        rule, keys = self.rule, self.keys
        begin, low, high, end = 0, 0, keys, keys
        near = first + self.shift
        if rule.ends:
            high = _within(near + self.right + 1, keys)
            end = _within(near + self.right + count, keys)
        if rule.begins:
            begin = _within(near - self.left, keys)
            low = _within(near - self.left + count - 1, keys)
        last = cute.max_(cute.ceil_div(end, width), 1)
        start = cute.min_(begin // width, last - 1)
        top = cute.max_(cute.min_(high // width, last - 1), start)  # the last one is masked
        return Tiles(start, cute.min_(cute.ceil_div(low, width), top), top, last)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent, with an absolute error of about 2**-23."""
    return 1.0 - cute.rcp(cute.exp2(x * (2 * LOG2_E)) + 1.0) * 2.0


def _within(key: Any, keys: Any) -> Any:
    return cute.max_(cute.min_(key, keys), 0)


def assume_attention(
    operation: str,
    arrays: dict[str, Any],
    scale: Any,
    dims: tuple[int | None, int],
    rule: Rule,
    kinds: tuple[str, ...] = ("f16", "bf16"),
    outs: tuple[str, ...] | None = None,
) -> None:
    """State what a kernel needs of its arrays, by their names.

    Args:
        operation: the kernel.
        arrays: Q, K, V, O, and bias, slopes, lse or None.
        scale: of the scores.
        dims: of a tile of Q, if it has one, and of V.
        rule: of the kernel.
        kinds: types of Q that it takes.
        outs: types of O; None: that of Q.

    """
    Q, K, V, O, bias, slopes, lse = (  # noqa: E741
        arrays[x] for x in ("Q", "K", "V", "O", "bias", "slopes", "lse")
    )
    words = "BHMD BGND BGNE BHME BHMN? BH? BHM?"
    cute.assume_shapes(words, Q, K, V, O, bias, slopes, lse)
    cute.assume(Q.shape[1] == rule.shared * K.shape[1])
    require_kind(operation, kinds, Q=Q)
    require_kind(operation, (Q.dtype.name,), K=K, V=V)
    require_kind(operation, (Q.dtype.name,) if outs is None else outs, O=O)
    require_kind(operation, ("f16", "bf16", "f32", "u8"), bias=bias)
    require_kind(operation, ("f32",), slopes=slopes, lse=lse)
    if dims[0] is not None:
        cute.assume(Q.shape[3] <= dims[0])
    cute.assume(V.shape[3] <= dims[1])
    require_scaled(operation, rule, bias, slopes, (scale,))


def require_scaled(
    operation: str, rule: Rule, bias: Any, slopes: Any, numbers: tuple[Any, ...]
) -> None:
    """Refuse a rule that finds maxima of products where scores are something else; in the kernel, a
    scale, and with `numbers` (scale, cap, ...) a cap that may not be.
    """
    needs = rule.capped or rule.score is not None or bias is not None or slopes is not None
    fits = rule.scaled or not needs
    require(fits, operation, "rule", rule, "scaled=True, where more is done to the scores")
    if not rule.scaled:
        cute.assert_(numbers[0] > 0.0, "scale is above 0")  # noqa: PT009
    if rule.capped and len(numbers) > 1:
        cute.assert_(numbers[1] > 0.0, "cap is above 0")  # noqa: PT009


class Scores:
    """The scores of a tile, in the registers of a thread, and what is done to them.

    Attributes:
        acc: the sums of products, (V,M,N), which all methods change.
        mma: the tiled product that they are of.
        most, total, change: of each row the greatest score, or what the default takes for it, the
            sum of weights, and what earlier sums are multiplied by.
    """

    def __init__(
        self, mma: Any, acc: cute.Tensor, place: cute.Tensor, sight: Sight, lanes: int = 4
    ) -> None:
        """Keep the accumulators; `place`: their coordinates in the tile, in the same shape;
        `lanes`: how many share a row.
        """
        self.lanes = lanes
        self.mma, self.acc, self.sight, self.rule = mma, acc, sight, sight.rule
        rows = mma.rows_C(place)
        self.rows = [rows[i, 0][0] for i in range(cute.size(rows, 0))]
        self.start = place[0][1]  # the other columns of the thread have static distances from it
        self.columns = [place[i][1] - self.start for i in range(cute.size(place))]
        self.shape = rows.shape[:1]
        self.most, self.total, self.change = (cute.rmem("f32", self.shape) for _i in range(3))
        scale = sight.scale.to("f32")
        self.factor = LOG2_E if self.rule.scaled else scale * LOG2_E  # of exponents
        self.scale = 1.0 if self.rule.scaled else scale

    def of_rows(self, kind: str, base: Any) -> cute.Tensor:
        """Return base + the row of the tile for each row of the thread."""
        found = cute.rmem(kind, self.shape)
        first = (base + self.rows[0]).to("s32")  # the others have static distances from it
        for r, row in enumerate(self.rows):
            found[r] = (first + (row - self.rows[0])).to(kind)
        return found

    def spread(self, x: cute.Tensor) -> cute.Tensor:
        """Return numbers of rows in the shape of the scores."""
        found: cute.Tensor = self.mma.spread_C(x, self.acc)
        return found

    def along(self, kind: str) -> cute.Tensor:
        """Return the distance of each score's column from the thread's first one."""
        found = cute.make_rmem_tensor(self.acc.shape, kind)
        for i, column in enumerate(self.columns):
            found[i] = column
        return found

    def finish(
        self, head: tuple[Any, Any], first: Any, key: Any, bias: Any = None, slope: Any = None
    ) -> None:
        """Do all that the rule says but to hide keys by their place.

        Args:
            head: the numbers of batch and head.
            first: the query of the tile's first row.
            key: the key of its first column.
            bias: the thread's part of the bias, or of a mask of bytes.
            slope: of the head, f32.

        """
        acc, rule, sight = self.acc, self.rule, self.sight
        if rule.scaled:
            acc[...] = acc * sight.scale.to("f32")
        if rule.capped:
            cap = sight.cap.to("f32")
            acc[...] = (tanh if rule.precise else cute.tanh)(acc * cute.rcp(cap)) * cap
        if bias is not None:
            more = cute.make_rmem_tensor(acc.shape, bias.dtype)
            cute.copy(bias, more)
            if bias.dtype.name == "u8":
                acc[...] = cute.where(more.to("s32") != 0, acc, -math.inf)
            else:
                acc[...] = acc + more.to("f32")
        begin = key + self.start
        if slope is not None:
            near = self.of_rows("f32", first + sight.shift - begin)
            far = self.along("f32") - self.spread(near)
            acc[...] = acc - cute.maximum(far, -far) * slope
        if rule.score is not None or rule.mask is not None:
            i = self.spread(self.of_rows("s32", first)) + self.along("s32") * 0
            j = self.along("s32") + begin.to("s32")
            if rule.score is not None:
                acc[...] = rule.score(acc, *head, i, j)
            if rule.mask is not None:
                acc[...] = cute.where(rule.mask(*head, i, j), acc, -math.inf)

    def hide(self, first: Any, key: Any, end: Any = None) -> None:
        """Set scores of keys that do not exist, or are not seen by their place, to -infinity. `end`
        of those that the tile may have; None: of all.
        """
        acc, rule, sight = self.acc, self.rule, self.sight
        begin = key + self.start
        near = first + sight.shift - begin
        left = ((sight.keys if end is None else end) - begin).to("s32")
        ends = cute.rmem("s32", self.shape)
        ends[...] = left
        if rule.ends:
            right = self.of_rows("s32", near + sight.right + 1)
            ends[...] = cute.minimum(right, left)
        columns = self.along("s32")
        seen = self.spread(ends) > columns
        if rule.begins:
            begins = self.of_rows("s32", near - sight.left)
            seen = seen & (self.spread(begins) <= columns)
        acc[...] = cute.where(seen, acc, -math.inf)

    def weigh(self, first: bool, guarded: bool) -> None:
        """Turn scores into weights. `first`: no tile was before. `guarded`: there may be rows that
        have seen no key yet; -infinity less itself is no number.
        """
        acc, most, total, factor = self.acc, self.most, self.total, self.factor
        found = cute.reduce("max", self.mma.rows_C(acc), mode=1)
        found = cute.warp_reduce("max", found, width=self.lanes)
        new = found
        if not first and self.rule.exact:
            new = cute.maximum(most, found)
        elif not first:
            new = cute.where((found - most) * factor > FAR, found, most)
        base = cute.where(new == -math.inf, 0.0, new) if guarded else new
        if not first:
            self.change[...] = cute.exp2((most - base) * factor)
        acc[...] = cute.exp2(cute.fma(acc, factor, self.spread(-base * factor)))
        part = cute.reduce("add", self.mma.rows_C(acc), mode=1)
        total[...] = part if first else cute.fma(total, self.change, part)
        most[...] = new

    def rescale(self, sums: cute.Tensor) -> None:
        """Multiply earlier sums by what has changed, if anything has in any row of the warp."""
        changed = self.change != 1.0
        some = changed[0]
        for r in range(1, len(self.rows)):
            some = some | changed[r]
        with cute.when(cute.vote("any", some)):
            sums[...] = sums * self.mma.spread_C(self.change, sums)

    def ended(self) -> tuple[cute.Tensor, cute.Tensor]:
        """Return 1 / the sum of weights of each row, 0 where no key is seen, and the natural log of
        the sum of exponentials of its scores: -infinity there.
        """
        total = cute.warp_reduce("add", self.total, width=self.lanes)
        logs = cute.fma(self.most, self.scale, cute.log2(total) * (1 / LOG2_E))
        logs = cute.where(total == 0.0, -math.inf, logs)
        return cute.where(total == 0.0, 0.0, cute.rcp(total)), logs

    def shares(self, lse: Any, head: tuple[Any, Any], first: Any) -> cute.Tensor:
        """Return the first of these, and write the second to lse (B,H,M), if there is one."""
        share, logs = self.ended()
        if lse is not None:
            for r, row in enumerate(self.rows):
                query = first + row
                leads = cute.lane_idx() % self.lanes == 0
                with cute.when((query < self.sight.queries) & leads):
                    lse[*head, query] = logs[r]
        return share


def plain(
    Q: Any,
    K: Any,
    V: Any,
    O: Any,  # noqa: E741
    scale: float,
    cfg: Any,
    causal: bool = False,
) -> tuple[Any, ...]:
    """Return the arguments of a kernel for arrays alone. With `causal`, query i sees the keys up to
    i + keys - queries.
    """
    return Q, K, V, None, None, O, None, scale, 1.0, 0, 0, cfg, Rule(ends=causal)


# -- what it should be


def reference(
    q: Any,
    k: Any,
    v: Any,
    *,
    bias: Any = None,
    score: Any = None,
    mask: Any = None,
    causal: bool | str = False,
    window: tuple[int, int] = (-1, -1),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: Any = None,
) -> tuple[Any, Any]:  # arrays
    """Return O and the log of the sum of exponentials in f64, of arrays (batch, heads, rows, dim)
    and the options of `cute.ops.attention`. A query that sees no key gives 0 and -infinity.

    >>> ones = np.ones((1, 1, 4, 2))
    >>> reference(np.zeros_like(ones), ones, ones)[1].round(6).tolist()
    [[[1.386294, 1.386294, 1.386294, 1.386294]]]
    """
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = (q.shape[3] ** -0.5 if scale is None else scale) * q @ k.swapaxes(2, 3)
    b, h, i, j = np.ogrid[tuple(slice(n) for n in s.shape)]
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if bias is not None:
        x = np.asarray(bias)
        s = np.where(x, s, -np.inf) if x.dtype == bool else s + x.astype(np.float64)
    near = i if causal == "top_left" else i + s.shape[3] - s.shape[2]
    if alibi_slopes is not None:
        s = s - np.asarray(alibi_slopes, np.float64)[..., None, None] * abs(near - j)
    s = s if score is None else score(s, b, h, i, j)
    left, right = window[0], 0 if causal else window[1]
    seen = np.broadcast_to(True if mask is None else mask(b, h, i, j), s.shape)
    seen = seen & ((right < 0) | (j <= near + right)) & ((left < 0) | (j >= near - left))
    s = np.where(seen, s, -np.inf)
    most = s.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(s - np.where(most == -np.inf, 0, most))
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.where(total == 0, -np.inf, most + np.log(total))
    return weights @ v / np.where(total == 0, 1, total), lse[..., 0]
