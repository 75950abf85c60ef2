"""Attention by the names and in the argument order of torch and of flash-attn.

They call the operators of `cute.ops`, so autocast, `torch.compile` and fake tensors follow the
rules of these. What our kernels do not compute is an error that names the argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from cute_py.errors import refusal
from cute_py.ops.attention_cache import attention_with_kvcache
from cute_py.ops.attention_sequences import attention_varlen
from cute_py.ops.attentions import attention

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPACE = "cute_py.torch"
NO_DROPOUT = ("dropout_p", 0.0, "dropout")
NO_PAGES = ("block_table", None, "sequences of several queries with keys in pages")
NO_CACHE = (  # arguments of flash_attn_with_kvcache
    ("rotary_cos", None, "rotary embeddings"),
    ("rotary_sin", None, "rotary embeddings"),
    ("cache_batch_idx", None, "caches in another order than queries"),
    ("cache_leftpad", None, "caches that begin later"),
)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:  # a torch.Tensor
    """Return what `torch.nn.functional.scaled_dot_product_attention` does, by `cute.ops.attention`.

    Args:
        query: (..., H, L, D), of f16, bf16 or f32; the modes before L broadcast, as torch's do.
        key: (..., Hk, S, D).
        value: (..., Hk, S, E). D and E are at most 256.
        attn_mask: of bool, True is seen, or floats, which are added to scores; it broadcasts to
            (..., H, L, S).
        dropout_p: 0.
        is_causal: whether query i sees the keys up to i. Not with attn_mask.
        scale: of the products; None: D ** -0.5.
        enable_gqa: whether H / Hk heads of queries may share one of keys.

    A query that sees no key gives 0. Operands that need a gradient are an error, and so is
    dropout; `activate` leaves these to torch instead. Raises CuteError.

    >>> q = torch.ones(1, 2, 3, 8, dtype=torch.float16)
    >>> scaled_dot_product_attention(q, q, q, is_causal=True)[0, 0, 0, :2].tolist()
    [1.0, 1.0]
    """
    operation = f"{SPACE}.scaled_dot_product_attention"
    _lacks(operation, [NO_DROPOUT], {"dropout_p": dropout_p})
    if is_causal and attn_mask is not None:
        raise refusal("torch-attention-masks", operation=operation)
    rank = max(x.dim() for x in (query, key, value))
    q, k, v = (_widened(x, max(rank, 4)) for x in (query, key, value))
    heads, *others = (x.shape[-3] for x in (q, k, v))
    shared = max(others)
    if not enable_gqa and len({heads, *others} - {1}) > 1:
        facts: dict[str, Any] = {"heads": heads, "shared": shared}
        raise refusal("torch-attention-heads", operation=operation, **facts)
    first = torch.broadcast_shapes(*[x.shape[:-3] for x in (q, k, v)])
    q = _spread(q, first, shared if heads == 1 else heads)
    k, v = (_spread(x, first, shared) for x in (k, v))
    bias = attn_mask
    if bias is not None and len(first) > 1:
        bias = _widened(bias, rank)
        bias = _spread(bias, first, bias.shape[-3])
    causal = "top_left" if is_causal else False
    found = attention(q, k, v, bias=bias, causal=causal, scale=scale, layout="BHMK")
    whole = found if len(first) == 1 else found.reshape(*first, *found.shape[1:])
    return whole[(0,) * (4 - rank)] if rank < 4 else whole


def _widened(x: Any, rank: int) -> Any:
    """Return an array with modes of one element before its others."""
    return x if x.dim() >= rank else x[(None,) * (rank - x.dim())]


def _spread(x: Any, first: tuple[int, ...], heads: int) -> Any:
    """Return an array as (batch, heads, rows, dim), of which the modes before heads broadcast to
    `first`; rows are made contiguous.
    """
    whole = x if x.shape[:-2] == (*first, heads) else x.expand(*first, heads, *x.shape[-2:])
    if len(first) > 1:
        whole = whole.flatten(0, -4)
    return whole if whole.stride(-1) == 1 or whole.shape[-1] <= 1 else whole.contiguous()


# -- flash-attn


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:  # a torch.Tensor, or three
    """Return what `flash_attn.flash_attn_func` does, by `cute.ops.attention`.

    Args:
        q: (B, Mq, H, D), of f16 or bf16.
        k: (B, Mk, Hk, D); H is a multiple of Hk.
        v: the same.
        dropout_p: 0.
        softmax_scale: of the products; None: D ** -0.5.
        causal: whether query i sees the keys up to i + Mk - Mq.
        window_size: how many keys before and behind the one next to it a query sees; -1: all.
        softcap: c above 0 makes a score c * tanh(score / c).
        alibi_slopes: (H) or (B, H), f32.
        deterministic: of gradients; all results are.
        return_attn_probs: whether it is (result, lse (B, H, Mq), an empty tensor): there are no
            probabilities without dropout.

    Operands that need a gradient are an error. Raises CuteError.

    >>> q = torch.ones(1, 3, 2, 8, dtype=torch.float16)
    >>> _o, lse, _none = flash_attn_func(q, q, q, softmax_scale=0.0, return_attn_probs=True)
    >>> lse[0, 0]  # the log of three
    tensor([1.0986, 1.0986, 1.0986])
    """
    _lacks(f"{SPACE}.flash_attn_func", [NO_DROPOUT], {"dropout_p": dropout_p})
    found = attention(
        q,
        k,
        v,
        causal="bottom_right" if causal else False,
        window=window_size,
        scale=softmax_scale,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        return_lse=return_attn_probs,
    )
    return (*found, q.new_empty(0)) if return_attn_probs else found


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Any = None,
) -> Any:  # a torch.Tensor, or three
    """Return what `flash_attn.flash_attn_varlen_func` does, by `cute.ops.attention_varlen`.

    q (total_q, H, D), k and v (total_k, Hk, D) hold the rows of all sequences one after the other;
    `cu_seqlens_q` and `cu_seqlens_k`, s32 (sequences + 1), say where each starts and ends. No
    kernel needs `max_seqlen_q` and `max_seqlen_k`; `block_table` is None. The other arguments are
    those of `flash_attn_func`, with slopes (H) or (sequences, H), and lse (H, total_q). Operands
    that need a gradient are an error. Raises CuteError.
    """
    given = {"dropout_p": dropout_p, "block_table": block_table}
    _lacks(f"{SPACE}.flash_attn_varlen_func", (NO_DROPOUT, NO_PAGES), given)
    found = attention_varlen(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        causal=bool(causal),
        window=window_size,
        scale=softmax_scale,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        return_lse=return_attn_probs,
    )
    return (*found, q.new_empty(0)) if return_attn_probs else found


def flash_attn_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any = None,
    v: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    cache_seqlens: Any = None,
    cache_batch_idx: Any = None,
    cache_leftpad: Any = None,
    block_table: Any = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Any = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:  # a torch.Tensor, or two
    """Return what `flash_attn.flash_attn_with_kvcache` does, by `cute.ops.attention_with_kvcache`.

    q (B, Mq, H, D) are the last queries of each sequence, `k_cache` and `v_cache` (B, N, Hk, D),
    or pages (P, page, Hk, D) with `block_table` s32 (B, pages); k and v (B, new, Hk, D) are written
    behind the keys of each sequence, and attended. `cache_seqlens` is s32 (B), a number for all, or
    None: as many keys as the cache has. `rotary_cos`, `rotary_sin`, `cache_batch_idx` and
    `cache_leftpad` are None. `num_splits`: parts of the keys; 0: as shapes suggest. The other
    arguments are those of `flash_attn_func`; lse is (B, H, Mq). Raises CuteError.
    """
    given = {"rotary_cos": rotary_cos, "rotary_sin": rotary_sin}
    given |= {"cache_batch_idx": cache_batch_idx, "cache_leftpad": cache_leftpad}
    _lacks(f"{SPACE}.flash_attn_with_kvcache", NO_CACHE, given)
    if not isinstance(cache_seqlens, torch.Tensor):
        pages = 1 if block_table is None else block_table.shape[1]
        count = pages * k_cache.shape[1] if cache_seqlens is None else cache_seqlens
        cache_seqlens = torch.full((q.shape[0],), count, dtype=torch.int32, device=q.device)
    return attention_with_kvcache(
        q,
        k_cache,
        v_cache,
        cache_seqlens,
        block_table,
        k,
        v,
        causal=bool(causal),
        window=window_size,
        scale=softmax_scale,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        split_kv=num_splits or None,
        return_lse=return_softmax_lse,
    )


def _lacks(operation: str, known: Sequence[tuple[str, Any, str]], given: Mapping[str, Any]) -> None:
    """Refuse arguments of what our kernels do not compute: (name, the only value, what it is)."""
    for name, only, what in known:
        value = given[name]
        if isinstance(value, torch.Tensor) or value != only:
            said = f"a tensor {tuple(value.shape)}" if isinstance(value, torch.Tensor) else value
            facts: dict[str, Any] = {"name": name, "value": said, "only": only, "what": what}
            raise refusal("torch-attention-lacks", operation=operation, **facts)
