"""new here: sequences of several lengths in one array, whose blocks a warp finds on the device.

O = softmax(score) V of each sequence alone. The kernels are those for arrays (batch, heads, rows,
dim), given the rows of one sequence at a time. For the family of warpgroups a warp finds the next
blocks of queries while the others compute, and hands them on through shared memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cute_py as cute
from cute_py.kernels import attention_rows, attention_sm90, flash_attention
from cute_py.kernels.arrays import require, require_kind
from cute_py.kernels.attention import RESULTS, Distance, Rule, Sight, Tiles, assume_attention
from cute_py.kernels.attention_rows import RowsAttention
from cute_py.kernels.attention_sm90 import WARPGROUP, Count, Place
from cute_py.kernels.config_attention import WarpgroupAttention
from cute_py.kernels.flash_attention import AttentionConfig
from cute_py.kernels.sequences import MOST, Item, Sequences, most_blocks, rows_of


def _assume(
    operation: str, arrays: dict[str, Any], starts: tuple[Any, Any], sight: Sight, cfg: Any
) -> None:
    """State what a kernel needs of its arguments."""
    slopes, of_f32 = arrays["slopes"], isinstance(cfg, RowsAttention)
    kinds = ("f32", "f16", "bf16") if of_f32 else ("f16", "bf16")
    dims = getattr(cfg, "head_dim", None), cfg.value_dim or cfg.head_dim
    outs = None if isinstance(cfg, WarpgroupAttention) else RESULTS
    given, rule = {**arrays, "slopes": None}, sight.rule
    assume_attention(operation, given, sight.scale, dims, rule, kinds, outs)
    require(rule.ragged, operation, "rule", rule, "ragged=True, for lengths that are in memory")
    require_kind(operation, ("s32",), starts_q=starts[0], starts_k=starts[1])
    require_kind(operation, ("f32",), slopes=slopes)
    cute.assume_shapes("S S", *starts)
    cute.assume((arrays["Q"].shape[0] == 1) & (starts[0].shape[0] >= 2))
    if slopes is not None:
        cute.assume(slopes.shape[0] == starts[0].shape[0] - 1)
        cute.assume(slopes.shape[1] == arrays["Q"].shape[1])
    if sight.rule.capped:
        cute.assert_(sight.cap > 0.0, "cap is above 0")  # noqa: PT009


def _of_item(item: Item, arrays: dict[str, Any], count: Any) -> dict[str, Any]:
    """Return the arrays of the sequence of an item."""
    mine, theirs, found = (item.query, item.queries), (item.key, item.keys), dict(arrays)
    sides = {"Q": mine, "K": theirs, "V": theirs, "O": mine, "lse": mine}
    for name, (first, rows) in sides.items():
        if arrays[name] is not None:
            found[name] = rows_of(arrays[name], first, rows, count)
    return found


def _by_number(
    operation: str, attend: Any, arrays: dict[str, Any], starts: Any, sight: Sight, cfg: Any
) -> None:
    """Launch a block of threads for each block of queries that there may be, and compute it."""
    _assume(operation, arrays, starts, sight, cfg)
    heads, rows = arrays["Q"].shape[1], (sight.queries, sight.keys)
    count = most_blocks(rows[0], starts[0].shape[0] - 1, cfg.queries)
    cute.launch(grid=count * heads, block=32 * cfg.warps)
    sequences = Sequences(starts, rows, heads, cfg.queries)
    item = sequences.find(cute.block_idx())
    cute.return_if(item.queries < 1)
    own = replace(sight, queries=item.queries, keys=item.keys)
    attend(_of_item(item, arrays, sequences.count), own, (item.b, item.head, item.block), cfg)


@cute.kernel
def flash_attention_varlen(
    Q: cute.Tensor,
    K: cute.Tensor,
    V: cute.Tensor,
    starts_q: cute.Tensor,
    starts_k: cute.Tensor,
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
    """The family of warps. Q (1,H,M,D), K (1,Hk,N,D), V (1,Hk,N,E), O (1,H,M,E) of all sequences;
    slopes (S,H) and lse (1,H,M) may be None. Sequence s has the rows of starts (S+1) s and s + 1.
    """
    arrays = {"Q": Q, "K": K, "V": V, "O": O, "bias": None, "slopes": slopes, "lse": lse}
    sight = Sight(rule, scale, cap, left, right, Q.shape[2], K.shape[2])
    starts = starts_q, starts_k
    _by_number("flash_attention_varlen", flash_attention.attend, arrays, starts, sight, cfg)


@cute.kernel
def attention_rows_varlen(
    Q: cute.Tensor,
    K: cute.Tensor,
    V: cute.Tensor,
    starts_q: cute.Tensor,
    starts_k: cute.Tensor,
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
    """The family of rows; see `flash_attention_varlen` for the arrays."""
    arrays = {"Q": Q, "K": K, "V": V, "O": O, "bias": None, "slopes": slopes, "lse": lse}
    sight = Sight(rule, scale, cap, left, right, Q.shape[2], K.shape[2])
    starts = starts_q, starts_k
    _by_number("attention_rows_varlen", attention_rows.attend, arrays, starts, sight, cfg)


@cute.kernel
def attention_sm90_varlen(
    Q: cute.Tensor,
    K: cute.Tensor,
    V: cute.Tensor,
    starts_q: cute.Tensor,
    starts_k: cute.Tensor,
    slopes: Any,
    O: cute.Tensor,  # noqa: E741
    lse: Any,
    counter: cute.Tensor,
    scale: cute.f32,
    cap: cute.f32,
    left: Distance,
    right: Distance,
    blocks: Count,
    cfg: WarpgroupAttention,
    rule: Rule,
) -> None:
    """The family of warpgroups; see `flash_attention_varlen` for the arrays. `counter`, s32 (1), is
    0, before and after.
    """
    arrays = {"Q": Q, "K": K, "V": V, "O": O, "bias": None, "slopes": slopes, "lse": lse}
    sight = Sight(rule, scale, cap, left, right, Q.shape[2], K.shape[2])
    starts = starts_q, starts_k
    cute.assume_shapes("C", counter)
    _assume("attention_sm90_varlen", arrays, starts, sight, cfg)
    cute.launch(grid=blocks, block=(cfg.groups + 1) * WARPGROUP)
    sent = ("begin", "low", "high", "end")[0 if rule.begins else 2 :]  # the others are 0
    queue = cute.work_queue(len(Item._fields) + len(sent), cfg.groups * WARPGROUP + 1)
    count = starts_q.shape[0] - 1

    def find() -> None:
        """Hand on the items of the block, and one without queries."""
        sequences = Sequences(starts, (Q.shape[2], K.shape[2]), Q.shape[1], cfg.queries)
        dealer = cute.Dealer(counter)
        for _turn in cute.range(MOST):
            item = sequences.find(dealer.number)
            own = replace(sight, queries=item.queries, keys=item.keys)
            tiles = own.tiles(item.block * cfg.queries, cfg.queries, cfg.keys)
            with cute.elect("warp"):
                queue.put(*item, *[getattr(tiles, x) for x in sent])
            cute.break_if(item.queries < 1)
            dealer.take()
        dealer.end(sequences.seen)

    def places() -> Any:
        """Yield the items of the block."""
        for _turn in cute.range(MOST):
            given = queue.get()
            item, tiles = Item(*given[: -len(sent)]), Tiles(0, 0, *given[-2:])
            if rule.begins:
                tiles = Tiles(*given[-4:])
            cute.break_if(item.queries < 1)
            own = replace(sight, queries=item.queries, keys=item.keys)
            found = _of_item(item, arrays, count)
            more = 0, item.query, item.key, found["O"], found["lse"]
            yield Place(item.b, item.head, item.block, own, tiles, *more)

    attention_sm90.attend(arrays, sight, cfg, places, find)
