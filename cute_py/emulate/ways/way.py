"""`Way`: where one element of an array goes in a run, and what it was made of, as events: what one
warp did with the marked cells of one op.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice, product
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.spans import Array
from cute_py.errors import place_text
from cute_py.plan.conditions import runs
from cute_py.plan.walk import accesses, arrays
from cute_py.records import Shown

if TYPE_CHECKING:
    from cute_py.emulate.ways.cells import Cells
    from cute_py.emulate.ways.follow import Trail
    from cute_py.emulate.ways.moves import Flow, Seen

Data = dict[str, Any]
Part = tuple["Seen", "Flow", Array, Array]
Element = tuple[str, tuple[int, ...]]

VERSION = 1  # of the JSON
MOST_LINES = 40  # of each direction, in the text
LONGEST = 32  # characters of numbers that the text shows in full


class Way(Shown):
    """The moves of one element in one run, in the emulator's order of ops: an order, not time.

    An event is what one warp did: `as_data` says what is in it. There is none where a value stays
    in its place while others are joined to it, as an accumulator does.

    Attributes:
        element: the array and the coordinate.
        timeline: that of the first block in the same run.
    """

    def __init__(self, trail: Trail, element: Element, start: Array) -> None:
        self.timeline, self.element, self._start = trail, element, start

    @cached_property
    def _on(self) -> Side:
        return self.timeline.walk(self._start, backwards=False)

    @cached_property
    def _back(self) -> Side:
        return self.timeline.walk(self._start, backwards=True)

    @property
    def becomes(self) -> list[Element]:
        """The elements of arrays that hold something of its first value after the run."""
        return self._on.ends

    @property
    def made_of(self) -> list[Element]:
        """The elements of arrays whose first values its last value is made of; none if the kernel
        does not write it, or writes a constant.
        """
        return self._back.ends

    @cached_property
    def forwards(self) -> list[Data]:
        """The events that move its first value, or anything made of it."""
        return list(self._on)

    @cached_property
    def backwards(self) -> list[Data]:
        """The events that move what its last value is made of."""
        return list(self._back)

    def of(self, element: Any) -> Way:
        """Return the way of another element in the same run; see `cute.follow`."""
        return self.timeline.way(element)

    def as_data(self) -> Data:
        """Return the way as JSON: a dict of lists, texts and numbers.

            v          1, the version of this format
            kernel     its name
            element    {"name", "coord"}
            forwards   events, in the order of the run; backwards: the same
            becomes    elements, as `element`; made_of: the same
            storages   name -> what it is: memory, dtype, and the shape of an array, that of the
                       layout and the first byte of a shared tensor, or the number of registers

        An event has `step` (of the run), `event` (of the timeline of the first block, or null),
        `op`, `share` (copies, products, arithmetic ...), `file`, `line`, `loops` (variable ->
        value), `block`, `warp`, `lane` (null if several lanes do it), and `moves`: from which
        elements to which. A matrix instruction also has `product`: its number in the op, the
        operand, and the m, n and k of the instruction: an element of A at (m, k) goes to the sums
        (m, n). An element has `memory`, which says what else it has:

            global     name, coord, byte (of the array)
            shared     name, block, byte (of the block's memory), bank, coord and stage: the third
                       mode of a tensor (BLK_M, BLK_K, PIPE); null if they are not known
            registers  name, block, warp, lane, element, register (32 bits, of the storage)
            integers   name, block, warp, lane
        """
        name, coord = self.element
        ends = [[{"name": n, "coord": list(c)} for n, c in x] for x in (self.becomes, self.made_of)]
        return {
            "v": VERSION,
            "kernel": self.timeline.plan.name,
            "element": {"name": name, "coord": list(coord)},
            "forwards": self.forwards,
            "backwards": self.backwards,
            "becomes": ends[0],
            "made_of": ends[1],
            "storages": self.timeline.cells.storages(),
        }

    def __str__(self) -> str:
        lines = [f"{_named(self.element)} in {self.timeline.plan.name}: order, not time"]
        for title, side, ends in (
            ("becomes", self._on, self.becomes),
            ("was made of", self._back, self.made_of),
        ):
            if ends:
                found = list(islice(_lines(side), MOST_LINES + 1))
                lines += [f"it {title} {_elements(ends)}:", *found[:MOST_LINES]]
                lines += ["  ..."] * (len(found) > MOST_LINES)
        if len(lines) == 1:
            lines.append("no array keeps anything of it, and it is made of no element of one")
        return "\n".join(lines)


def _named(element: Element) -> str:
    name, coord = element
    return f"{name}[{', '.join(map(str, coord))}]"


def _elements(ends: list[Element]) -> str:
    """Return elements in words: by array, with runs in one mode as slices."""
    texts = []
    for name, group in groupby(ends, key=lambda element: element[0]):
        coords = [coord for _, coord in group]
        count = f"{len(coords)} elements " if len(coords) > 1 else ""
        texts.append(f"{count}{name}[{_box(coords)}]")
    return ", ".join(texts)


def _box(coords: list[Any]) -> str:
    """Return coordinates in words: the numbers in each mode, if they are all pairs of these."""
    modes = [sorted(set(numbers)) for numbers in zip(*coords, strict=True)]
    return ", ".join(_cut(runs(tuple(numbers))) for numbers in modes)


def _lines(side: Iterable[Data]) -> Iterator[str]:
    """Yield a line for what each warp did at each step."""
    for _, group in groupby(side, key=lambda e: (e["step"], e["block"], e["warp"], e["lane"])):
        events = list(group)
        first = events[0]
        who = f"block ({','.join(map(str, first['block']))}) warp {first['warp']}"
        who += "" if first["lane"] is None else f" lane {first['lane']}"
        loops = "".join(f" {name}={value}" for name, value in first["loops"].items())
        place = place_text((first["file"], first["line"]))
        products = [e["product"] for e in events if "product" in e]
        used = f", {_products(products)}" if products else ""
        moves = [move for e in events for move in e["moves"]]
        sides = [_cells([x for move in moves for x in move[end]]) for end in ("from", "to")]
        what = f"{first['op']}{used}: {' -> '.join(sides)}"
        yield f"  {first['step']:>5}  {who}, {place}{loops}, {what}"


def _products(products: list[Data]) -> str:
    """Return products in words; A and B of one are told apart."""
    each = {
        (p["instruction"], m, n, k) for p in products for m, n, k in product(p["m"], p["n"], p["k"])
    }
    numbers = runs(tuple(sorted({p["instruction"] for p in products})))
    return f"{len(each)} products of instruction {numbers}"


def _cells(found: list[Data]) -> str:
    """Return elements of memories in words, those of one storage together."""
    texts = []
    for (memory, name), group in groupby(found, key=lambda x: (x["memory"], x["name"])):
        held = list(group)
        if memory == "global":
            texts.append(f"{name}[{_box([x['coord'] for x in held])}]")
        elif memory == "shared":
            where = "" if held[0]["coord"] is None else f"[{_box([x['coord'] for x in held])}]"
            texts.append(f"{name}{where} at {_places(held)}")
        else:
            lanes = runs(tuple(sorted({x["lane"] for x in held})))
            index = _cut(runs(tuple(sorted({x.get("element", 0) for x in held}))))
            texts.append(f"{name}[{index}] of lane {lanes}")
    return ", ".join(dict.fromkeys(texts))


def _places(held: list[Data]) -> str:
    numbers = [_cut(runs(tuple(sorted({x[key] for x in held})))) for key in ("byte", "bank")]
    return "byte {} (bank {})".format(*numbers)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(',')[0]},..."


# -- events


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
        yield from _product_events(cells, seen, flow, src, dst, names)
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


def _product_events(
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
