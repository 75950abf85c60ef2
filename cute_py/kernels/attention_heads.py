"""new here: the queries of all heads that share one of keys, as the rows of a tile.

Row r of a group of heads is query r // heads of its head r % heads, so the rows of a tile see about
the same keys, and each key is read once for all of them.
"""

from __future__ import annotations

from typing import Any

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import require, require_kind
from cute_py.kernels.attention import Rule, Scores, Sight, require_scaled
from cute_py.kernels.attention_merge import columns_of_part
from cute_py.kernels.paged import copy_of_rows

FEW = "lengths", "table", "more_k", "more_v", "bias", "slopes"  # arrays that may be left out


def load_queries(Q: Any, shared: Any, at: tuple[Any, Any, Any], heads: int, how: Any) -> None:
    """Start to copy rows of Q (B,H,M,D) to shared memory (rows,columns).

    Args:
        Q: the queries.
        shared: where they go; rows and columns that do not exist are zeros.
        at: the sequence, the first head of the group, and the first row.
        heads: how many share one of keys.
        how: threads of the block, and the most bits of a copy.

    """
    tile, (b, head, first) = tuple([cute.size(shared, i) for i in range(2)]), at
    threads, vector = how
    load = copy_of_rows(tile, Q.dtype, threads, vector)
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


def assume_decode(
    name: str, given: dict[str, Any], numbers: tuple[Any, ...], cfg: Any, rule: Rule
) -> Any:
    """State what a kernel of a name needs of its arrays by name, and its numbers; return how many
    keys a sequence may have before others are appended.
    """
    Q, K, V, O, lse = (given[x] for x in ("Q", "K", "V", "O", "lse"))  # noqa: E741
    lengths, table, more_k, more_v, bias, slopes = (given.get(x) for x in FEW)
    caches = "BGND BGNE" if table is None else "PGND PGNE"
    words = f"BHMD {caches} {'SBHMX' if cfg.parts > 1 else 'BHME'}"
    few = "BHM? B? Bt? BGnD? BGnE? BHMN? BH?"
    cute.assume_shapes(
        f"{words} {few}", Q, K, V, O, lse, lengths, table, more_k, more_v, bias, slopes
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
    both = (more_k is None) == (more_v is None)
    require(both, name, "more_k", "one array", "more_k and more_v, or neither")
    paged = (table is None) == (cfg.page == 0)
    require(paged, name, "cfg", cfg, "page: rows of a page with a table, 0 without one")
    require(cfg.parts == 1 or lse is None, name, "lse", "an array", "None, with several parts")
    none = rule.score is None and rule.mask is None
    require(none, name, "rule", rule, "no functions of scores, whose rows have several heads")
    require_scaled(name, rule, bias, slopes, numbers)
    if cfg.parts > 1:
        cute.assume(O.shape[0] == cfg.parts)
        cute.assume(O.shape[4] == columns_of_part(V.shape[3]))
    if table is not None:
        cute.assume(K.shape[2] == cfg.page)
    room = K.shape[2] if table is None else table.shape[1] * cfg.page
    if more_k is None:
        return room
    cute.assume(more_k.shape[2] <= room)
    return room - more_k.shape[2]
