"""Events: what one warp did with the marked cells of one op, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.spans import Array
from cute_py.plan.walk import accesses, arrays

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.emulate.ways.cells import Cells
    from cute_py.emulate.ways.moves import Flow, Seen

Data = dict[str, Any]


def events_of(cells: Cells, seen: Seen, flow: Flow, src: Array, dst: Array) -> list[Data]:
    """Return the events of a flow: one for each warp, or for each row of each matrix instruction.

    Args:
        cells: the numbers of cells.
        seen: the op.
        flow: the rows that move anything.
        src, dst: the cells of them that do, 0 for others.
    """
    names = {x.storage for x in accesses(seen.op)} | arrays(seen.op)
    if flow.product is not None:
        return list(_products(cells, seen, flow, src, dst, names))
    warps: dict[tuple[Any, ...], list[int]] = {}
    for row, who in enumerate(flow.who.tolist()):
        warps.setdefault(_warp(cells, who), []).append(row)
    found = []
    for rows in warps.values():
        moves: list[Data] = []
        for row in rows:
            move = {
                "from": cells.elements(src[row], names),
                "to": cells.elements(dst[row], names),
            }
            if move not in moves[-1:]:  # other cells of the same elements
                moves.append(move)
        found.append(_event(cells, seen, flow.who[rows], moves))
    return found


def _warp(cells: Cells, thread: int) -> tuple[Any, ...]:
    where = cells.thread(thread)
    return *where["block"], where["warp"]


def _event(cells: Cells, seen: Seen, who: Array, moves: list[Data]) -> Data:
    op, first = seen.op, cells.thread(int(who[0]))
    alone = op.group == "thread" and bool((who == who[0]).all())
    row = tuple(np.argwhere(seen.threads == who[0])[0])
    loops = {name: int(np.broadcast_to(x, seen.threads.shape)[row]) for name, x in seen.loops.items()}
    return {
        "step": seen.step,
        "event": seen.event if first["block"] == [0, 0, 0] else None,
        "op": op.word,
        "share": op.share,
        "file": op.line[0],
        "line": op.line[1],
        "loops": loops,
        **first,
        "lane": first["lane"] if alone else None,
        "moves": moves,
    }


def _products(
    cells: Cells, seen: Seen, flow: Flow, src: Array, dst: Array, names: set[str]
) -> Iterator[Data]:
    """Yield an event for each row of an operand and each instruction that multiplies it."""
    product = flow.product
    assert product is not None
    wide, across = product.wide[1], product.across
    sums = dst.reshape(len(dst), len(product.steps), across, wide)
    factors = src.reshape(len(src), -1, product.wide[0])
    mine, others = ("m", "n") if product.operand == "a" else ("n", "m")
    for row, instruction in np.argwhere(sums.any((2, 3))).tolist():
        own = sums[row, instruction]
        data: Data = {
            "instruction": product.steps[instruction],
            "operand": product.operand.upper(),
            mine: [int(product.row[row])],
            others: np.flatnonzero(own.any(-1)).tolist(),
            "k": np.flatnonzero(factors[row].any(-1)).tolist(),
        }
        move = {"from": cells.elements(src[row], names), "to": cells.elements(own, names)}
        yield {**_event(cells, seen, flow.who[row : row + 1], [move]), "product": data}
