"""Events: what one warp did with the marked cells of one op, as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.spans import Array
from cute_py.plan.walk import accesses, arrays

if TYPE_CHECKING:
    from cute_py.emulate.ways.cells import Cells
    from cute_py.emulate.ways.moves import Flow, Seen

Data = dict[str, Any]
Part = tuple["Seen", "Flow", Array, Array]


@dataclass(slots=True, eq=False)
class Side:
    """One direction of a way, its events made as they are asked for.

    Attributes:
        cells: the numbers of cells.
        parts: what moved, in the order of the run.
        ends: the elements of arrays that it comes to: array and coordinate.
    """

    cells: Cells
    parts: list[Part]
    ends: list[tuple[str, tuple[int, ...]]]

    def __iter__(self) -> Iterator[Data]:
        for part in self.parts:
            yield from events_of(self.cells, *part)


def events_of(cells: Cells, seen: Seen, flow: Flow, src: Array, dst: Array) -> Iterator[Data]:
    """Yield the events of a flow: one for each warp, or for each row of each matrix instruction;
    none where a value stays in its place while others are joined to it.

    Args:
        cells: the numbers of cells.
        seen: the op.
        flow: the rows that move anything.
        src: the cells of them that do, 0 for others.
        dst: the same of what is made.
    """
    names = frozenset(arrays(seen.op) | {x.storage for x in accesses(seen.op)})
    if flow.product is not None:
        yield from _products(cells, seen, flow, src, dst, names)
        return
    warps: dict[tuple[Any, ...], list[int]] = {}
    stays = (src[:, :, None] == dst[:, None]).any(-1)
    for row in np.flatnonzero((src.astype(np.bool_) & ~stays).any(-1)).tolist():
        warps.setdefault(_warp(cells, int(flow.who[row])), []).append(row)
    for rows in warps.values():
        moves: list[Data] = []
        for row in rows:
            move = {
                "from": cells.elements(src[row], names),
                "to": cells.elements(dst[row], names),
            }
            if move not in moves[-1:]:  # other cells of the same elements
                moves.append(move)
        yield _event(cells, seen, flow.who[rows], moves)


def _warp(cells: Cells, thread: int) -> tuple[Any, ...]:
    where = cells.thread(thread)
    return *where["block"], where["warp"]


def _event(cells: Cells, seen: Seen, who: Array, moves: list[Data]) -> Data:
    op, first = seen.op, cells.thread(int(who[0]))
    alone = op.group == "thread" and bool((who == who[0]).all())
    row = tuple(np.argwhere(seen.threads == who[0])[0])
    loops = {
        name: int(np.broadcast_to(x, seen.threads.shape)[row]) for name, x in seen.loops.items()
    }
    return {
        "step": seen.step,
        "event": seen.event if first["block"] == [0, 0, 0] else None,
        "op": op.stem,
        "share": op.share,
        "file": op.line[0],
        "line": op.line[1],
        "loops": loops,
        **first,
        "lane": first["lane"] if alone else None,
        "moves": moves,
    }


def _products(
    cells: Cells, seen: Seen, flow: Flow, src: Array, dst: Array, names: frozenset[str]
) -> Iterator[Data]:
    """Yield an event for each row of an operand and each instruction that multiplies it."""
    product = flow.product
    assert product is not None
    assert flow.line is not None
    wide, across = product.wide[1], product.across
    sums = dst.reshape(len(dst), len(product.steps), across, wide)
    factors = src.reshape(len(src), -1, product.wide[0])
    mine, others = ("m", "n") if product.operand == "a" else ("n", "m")
    for row, instruction in np.argwhere(sums.any((2, 3))).tolist():
        own = sums[row, instruction]
        data: Data = {
            "instruction": product.steps[instruction],
            "operand": product.operand.upper(),
            mine: [int(flow.line[row])],
            others: np.flatnonzero(own.any(-1)).tolist(),
            "k": np.flatnonzero(factors[row].any(-1)).tolist(),
        }
        move = {"from": cells.elements(src[row], names), "to": cells.elements(own, names)}
        yield {**_event(cells, seen, flow.who[row : row + 1], [move]), "product": data}
