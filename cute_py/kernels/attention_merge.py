"""new here: results of attention to parts of the keys, merged by their logs in a fixed order.

A part gives its O and the log of the sum of exponentials of its scores; O of all keys is the sum of
theirs, weighed by the share of their exponentials.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import require, require_kind
from cute_py.kernels.attention import LOG2_E
from cute_py.layout.tuples import ceil_div

WARP, WIDTH = 32, 4  # elements that a lane merges at a time
TOGETHER = 16  # parts whose loads are on the way


def columns_of_part(columns: Any) -> Any:
    """Return how many numbers a row of a part has: its columns, in vectors, and one with the log.

    >>> columns_of_part(128), columns_of_part(5)
    (132, 12)
    """
    return (columns + WIDTH - 1) // WIDTH * WIDTH + WIDTH


def weights_of_parts(logs: cute.Tensor, lanes: int = 1) -> tuple[cute.Tensor, cute.Tensor]:
    """Return the share of each part by its log, and the log of all. `lanes`: how many have other
    parts of the same row.
    """
    most = cute.reduce("max", logs)
    most = cute.warp_reduce("max", most, width=lanes) if lanes > 1 else most
    base = cute.where(most == -math.inf, 0.0, most)
    weights = cute.exp2((logs - base) * LOG2_E)
    total = cute.reduce("add", weights)
    total = cute.warp_reduce("add", total, width=lanes) if lanes > 1 else total
    share = cute.where(total == 0.0, 0.0, cute.rcp(total))
    log = cute.fma(cute.log2(total), 1 / LOG2_E, base)
    return weights * share, cute.where(total == 0.0, -math.inf, log)


def merge_warps(
    results: cute.Tensor,
    logs: cute.Tensor,
    outputs: tuple[Any, Any],
    at: tuple[Any, Any, Any, Any],
    sizes: tuple[Any, int],
) -> None:
    """Write results of the warps of a block (rows,columns,warps), merged by logs (rows,warps); some
    threads share a row.

    Args:
        results: in shared memory.
        logs: the same.
        outputs: O (B,H,M,E) and lse (B,H,M) or None; or O (parts,B,H,M,`columns_of_part`).
        at: the sequence, the first head of the group, the first row, and the part or None.
        sizes: M, and how many heads share one of keys.

    """
    (rows, columns, warps), (O, lse), (b, head, first, p) = results.shape, outputs, at  # noqa: E741
    threads = WARP * warps // rows  # of a row
    row, lane = cute.thread_idx() // threads, cute.thread_idx() % threads
    query, h = (first + row) // sizes[1], head + (first + row) % sizes[1]
    held = cute.rmem("f32", warps)
    cute.copy(logs[row, _], held)
    weights, log = weights_of_parts(held)
    out = O[b, h, _, _] if p is None else O[p, b, h, _, _]
    end = out.shape[1] if p is None else out.shape[1] - WIDTH
    for start in range(0, columns, threads * WIDTH):
        vector, total = start // WIDTH + lane, cute.rmem("f32", (1, WIDTH))
        total.fill(0)
        with cute.when((query < sizes[0]) & (vector * WIDTH < end)):
            for w in range(warps):
                x = _part(results[_, _, w], (row, vector))
                total[...] = cute.fma(x, weights[w], total)
            cute.copy(total.to(O.dtype), cute.local_tile(out, (1, WIDTH), (query, vector)))
    with cute.when((query < sizes[0]) & (lane == 0)):
        if p is not None:
            out[query, end] = log
        elif lse is not None:
            lse[b, h, query] = log


@cute.kernel
def attention_merge(X: cute.Tensor, O: cute.Tensor, lse: Any, parts: int) -> None:  # noqa: E741
    """Merge X (parts,B,H,M,`columns_of_part`) of f32 to O (B,H,M,E) and lse (B,H,M), which may be
    None: a warp for each row.
    """
    cute.assume_shapes("PBHMX BHME BHM?", X, O, lse)
    require_kind("attention_merge", ("f32",), X=X, lse=lse)
    require_kind("attention_merge", ("f16", "bf16", "f32"), O=O)
    require(type(parts) is int and parts >= 1, "attention_merge", "parts", parts, "from 1 on")
    cute.assume(X.shape[0] == parts)
    batch, heads, M, e = O.shape
    cute.assume(X.shape[4] == columns_of_part(e))
    cute.launch(grid=M * heads * batch, block=WARP, pdl=True)
    cute.griddepcontrol_wait()  # for the parts
    place, lane = cute.block_idx(), cute.lane_idx()
    query, head, b = place % M, place // M % heads, place // M // heads
    logs = cute.rmem("f32", ceil_div(parts, WARP))
    of_parts = X[_, b, head, query, X.shape[4] - WIDTH]
    for i in range(cute.size(logs)):
        cute.copy(
            cute.local_tile(of_parts, (1,), (lane + WARP * i,)),
            cute.local_tile(logs, (1,), (i,)),
            fill=-math.inf,
        )
    weights, log = weights_of_parts(logs, WARP)
    for i in cute.range(cute.ceil_div(e, WARP * WIDTH)):
        column, total = i * WARP + lane, cute.rmem("f32", (1, WIDTH))
        total.fill(0)
        for first in range(0, parts, TOGETHER):
            ahead = range(first, min(first + TOGETHER, parts))
            for p, x in [(p, _part(X[p, b, head, _, _], (query, column))) for p in ahead]:
                total[...] = cute.fma(x, cute.shuffle(weights[p // WARP], p % WARP), total)
        with cute.when(column * WIDTH < e):
            target = cute.local_tile(O[b, head, _, _], (1, WIDTH), (query, column))
            cute.copy(total.to(O.dtype), target)
    if lse is not None:
        with cute.when(lane == 0):
            lse[b, head, query] = log


def _part(rows: Any, place: Any) -> cute.Tensor:
    """Return a vector of a row of a part, in registers."""
    held = cute.rmem("f32", (1, WIDTH))
    cute.copy(cute.local_tile(rows, (1, WIDTH), place), held)
    return held


def check() -> None:
    """Merge three parts of which one has no keys."""
    rng = np.random.default_rng(0)
    X, o = (
        rng.normal(0, 1, (3, 1, 2, 1, columns_of_part(20))).astype(np.float32),
        np.zeros((1, 2, 1, 20), np.float32),
    )
    X[1, ..., -WIDTH], lse = -np.inf, np.zeros((1, 2, 1), np.float32)
    attention_merge(X, o, lse, 3)
    shares = np.exp(X[..., -WIDTH])[..., None]
    assert np.abs(o - (shares * X[..., :20]).sum(0) / shares.sum(0)).max() < 1e-6
    assert np.abs(lse - np.log(shares.sum(0)[..., 0])).max() < 1e-6


if __name__ == "__main__":
    check()
