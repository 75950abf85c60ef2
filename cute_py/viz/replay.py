"""Replays: what kernels do as grids. Memory accesses, as `analysis.bank_conflicts` and
`analysis.coalescing` returned them, with a row for each lane; the timeline of an emulated kernel,
with a column for each event; the way of one element, in all memories that it comes to.
"""

from __future__ import annotations

from itertools import chain

from cute_py.viz.cells import spans
from cute_py.viz.picture import COLOURS, Facts, Grid, Picture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Element = dict[str, Any]
    Found = Any  # what the analysis or the emulator returned: pictures do not import it

BANKS, WORD, SECTOR = 32, 4, 32  # bytes of a word and of a sector
MOST_GRIDS, MOST_COLUMNS = 16, 200
HIGH, WIDE, LANES = 16, 64, 32  # rows and columns of a window, and the lanes of a warp
LIT, UNLIT = 1, -1  # what a click selects

Row = list[tuple[str, int | None, str, int]]  # text, colour, note, and what a click selects


def banks(found: Found, by: str, bits: int) -> Picture:
    """Return the phases of each pattern of requests: a row for each lane, a column for each bank.

    A cell shows the row of 32 words that the lane accesses in the bank. Words that one bank must
    serve one after the other have different colours, and frames.
    """
    grids = [
        _phase(f"{pattern.count}x, phase {k + 1} of {len(pattern.phases)}", phase)
        for pattern in found.patterns
        for k, phase in enumerate(pattern.phases)
    ]
    where = f" on {found.layout}" if found.layout else ""
    ways = "no conflicts" if found.ways == 1 else f"{found.ways}-way conflicts"
    title = f"{found.access}{where}: {found.wavefronts} wavefronts (ideal {found.ideal}), {ways}"
    return _steps(title, grids)


def _phase(title: str, phase: Found) -> Grid:
    users: dict[int, list[int]] = {}  # word -> lanes
    for lane, words in zip(phase.lanes, phase.words, strict=True):
        for word in words:
            users.setdefault(word, []).append(lane)
    ranks: dict[int, dict[int, int]] = {}  # bank -> word -> the order of its words
    for word in users:
        ranks.setdefault(word % BANKS, {}).setdefault(word, len(ranks[word % BANKS]))
    rows = []
    for lane, words in zip(phase.lanes, phase.words, strict=True):
        row: list[tuple[str, int | None, str, bool]] = [
            ("", None, f"lane {lane} does not access bank {bank}", False) for bank in range(BANKS)
        ]
        for word in words:
            bank, rank = word % BANKS, ranks[word % BANKS]
            others = sorted({t for w in rank if w != word for t in users[w]})
            note = (
                f"lane {lane}, bank {bank}: word {word}, bytes {WORD * word} to {WORD * word + 3}"
            )
            shared = [t for t in users[word] if t != lane]
            note += f", also of lanes {spans(shared)}" if shared else ""
            note += f", in conflict with lanes {spans(others)}" if others else ", no conflict"
            row[bank] = str(word // BANKS), rank[word], note, bool(others)
        rows.append(row)
    waves = "1 wavefront" if phase.wavefronts == 1 else f"{phase.wavefronts} wavefronts"
    return _by_lane(f"{title}: {waves}", rows, phase.lanes, [str(bank) for bank in range(BANKS)])


def sectors(found: Found, by: str, bits: int) -> Picture:
    """Return the first request of each pattern: a row for each lane, a column for each sector.

    A cell shows the bytes of the sector that the lane accesses. The cells of sectors with bytes
    that no lane accesses have frames.
    """
    grids = [
        _request(f"{count}x: {sectors} sectors", lanes)
        for (count, sectors, _), lanes in zip(found.patterns, found.lanes, strict=True)
    ]
    title = f"{found.access} on {found.layout}: {found.sectors} sectors (ideal {found.ideal}), "
    return _steps(f"{title}{found.efficiency:.0%} of the bytes used", grids)


def _request(title: str, lanes: Sequence[tuple[int, int]]) -> Grid:
    used: dict[int, set[int]] = {}  # sector -> bytes
    for first, width in lanes:
        for byte in range(first, first + width) if first >= 0 else ():
            used.setdefault(byte // SECTOR, set()).add(byte)
    names = sorted(used)
    rows = []
    active = [lane for lane, (first, _) in enumerate(lanes) if first >= 0]
    for lane in active:
        first, width = lanes[lane]
        row = []
        for k, sector in enumerate(names):
            own = set(range(first, first + width)) & used[sector]
            count = len(used[sector])
            note = (
                f"lane {lane}: bytes {first} to {first + width - 1}; sector of bytes "
                f"{SECTOR * sector} to {SECTOR * sector + SECTOR - 1}, of which {count} are used"
            )
            own = {byte for byte in own if byte // SECTOR == sector}
            some = str(len(own)) if own else ""
            row.append(
                (some, k % len(COLOURS) if own else None, note, count < SECTOR and bool(own))
            )
        rows.append(row)
    return _by_lane(title, rows, active, [str(SECTOR * sector) for sector in names])


def _by_lane(
    title: str,
    rows: list[list[tuple[str, int | None, str, bool]]],
    lanes: Sequence[int],
    columns: list[str],
) -> Grid:
    """Return the grid of rows of (text, colour, note, framed), one for each lane."""
    holders = tuple(
        [{0: [t]} if text else {} for t, row in zip(lanes, rows, strict=True) for text, *_ in row]
    )
    framed = [cell[3] for cell in chain.from_iterable(rows)]
    marked = tuple([k for k, has_frame in enumerate(framed) if has_frame])
    return _grid(title, rows, [f"T{lane}" for lane in lanes], columns, holders, marked)


def _grid(
    title: str,
    rows: Sequence[Sequence[tuple[str, int | None, str, int]]],
    labels: list[str],
    columns: list[str],
    linked: tuple[Any, ...],
    marked: tuple[int, ...] = (),
) -> Grid:
    """Return the grid of rows of (text, colour, note, ...); `linked`: what links each cell."""
    notes = tuple([note for _, _, note, _ in chain.from_iterable(rows)])
    facts = Facts(linked, (len(columns), len(rows)), across=True, notes=notes, marked=marked)
    return Grid(
        title,
        tuple([tuple([(text,) for text, *_ in row]) for row in rows]),
        tuple([tuple([None if c is None else c % len(COLOURS) for _, c, *_ in r]) for r in rows]),
        tuple(labels),
        tuple(columns),
        facts=facts,
    )


def _steps(title: str, grids: list[Grid]) -> Picture:
    more = f"; the first {MOST_GRIDS} of {len(grids)} phases" if len(grids) > MOST_GRIDS else ""
    shown = tuple([(grid,) for grid in grids[:MOST_GRIDS]])
    return Picture(title + more, shown, link="thread", steps=True)


# -- timelines


def timeline(found: Found, by: str, bits: int) -> Picture:
    """Return a row for the ops of each role, and below it one for each stage in flight at once.

    A cell of a stage is coloured from the issue of its copies to the wait that needed them. A click
    selects the cells of a stage, or of an op of one line.
    """
    names = sorted({event.name for event in found.events})
    count = len(found.events)
    labels, rows = [], []
    places: dict[str, int] = {}  # op and line -> number
    for role, warps, events in found.rows():
        row: Row = [("", None, f"{role} does nothing here", -1)] * count
        for n in events:
            event = found.events[n]
            place = places.setdefault(f"{event.name} {event.where}", len(places))
            note = f"event {n}, {role}: {event.name} {event.where}"
            row[n] = _initials(event.name), names.index(event.name) % len(COLOURS), note, place
        labels.append(role)
        rows.append(row)
        own = [flight for flight in found.flights if flight.warp == warps[0]]
        for lane, stage in enumerate(_stages(own, role, count)):
            labels.append(f"stage {lane}")
            rows.append(stage)
    first = "" if found.complete else "the first "
    legend = ", ".join(f"{_initials(name)} {name}" for name in names)
    title = f"order, not time: {first}{count} events of block (0,0,0): {legend}"
    grids = []
    for start in range(0, max(count, 1), MOST_COLUMNS):  # a browser has no canvas for all of them
        numbers = list(map(str, range(count)[start : start + MOST_COLUMNS]))
        part = [row[start : start + MOST_COLUMNS] for row in rows]
        linked = tuple([key for *_, key in chain.from_iterable(part)])
        grids.append((_grid("", part, labels, numbers, linked),))
    return Picture(title, tuple(grids), link="offset", steps=len(grids) > 1)


def _initials(name: str) -> str:
    return "".join(word[0] for word in name.split("_"))


def _stages(flights: list[Found], role: str, count: int) -> list[Row]:
    """Return rows of flights; no row has two at once."""
    rows: list[Row] = []
    ends: list[int] = []
    for number, flight in enumerate(sorted(flights, key=lambda each: each.issued)):
        end = count if flight.waited is None else flight.waited
        lane = next((k for k, last in enumerate(ends) if last < flight.issued), len(ends))
        if lane == len(ends):
            ends.append(0)
            rows.append([("", None, f"{role}: no copy", -1)] * count)
        ends[lane] = end
        until = "nothing waited for it" if flight.waited is None else f"awaited by event {end}"
        note = f"{role}: {flight.name} of event {flight.issued}, {until}"
        colour = number % len(COLOURS)
        for n in range(flight.issued, min(end + 1, count)):
            text = {flight.issued: "i", flight.waited: "w"}.get(n, "")
            rows[lane][n] = text, colour, note, -2 - flight.issued
    return rows


# -- ways


def way(found: Found, by: str, bits: int) -> Picture:
    """Return a grid for each array, shared tensor and register storage that the element comes to,
    or that it was made of: the part around the first of its elements, which are lit.

    Shared memory has a row for 128 bytes and a column for each bank, registers have a row for each
    lane of the warp that comes first.
    """
    data = found.as_data()
    events = data["forwards"] or data["backwards"]
    held: dict[str, list[Element]] = {}
    for move in chain.from_iterable(event["moves"] for event in events):
        for element in (*move["from"], *move["to"]):
            held.setdefault(element["name"], []).append(element)
    storages = data["storages"]
    grids = [DRAWN[x[0]["memory"]](name, x, storages.get(name)) for name, x in held.items()]
    shown = tuple([grid for grid in grids if grid is not None])
    title = str(found).partition("\n")[0]
    return Picture(title, tuple([(grid,) for grid in shown]) or ((None,),), link="offset")


def _array(name: str, lit: list[Element], storage: Any) -> Grid:
    """Return the window of the first two modes of an array; the others as in the first element."""
    rest = lit[0]["coord"][2:]
    sizes = (*storage["shape"][:2], 1)[:2]
    places = [(*x["coord"][:2], 0)[:2] for x in lit if x["coord"][2:] == rest]
    titles = [f"{name}({i},{j}{''.join(f',{x}' for x in rest)})" for i, j in places]
    return _window(name, dict(zip(places, titles, strict=True)), sizes, ("mode 0", "mode 1"))


def _shared(name: str, lit: list[Element], storage: Any) -> Grid:
    """Return the window of the words of a block's shared memory, by rows of banks."""
    block = lit[0]["block"]
    words: dict[tuple[int, int], str] = {}
    for x in lit:
        if x["block"] == block:
            place = x["byte"] // (WORD * BANKS), x["bank"]
            coord = "" if x["coord"] is None else f"({','.join(map(str, x['coord']))})"
            words[place] = f"{words.get(place, name)}{coord} byte {x['byte']}"
    rows = -(-(storage["byte"] + storage["bytes"]) // (WORD * BANKS))
    title = f"{name} of block {_tuple(block)}"
    return _window(title, words, (rows, BANKS), ("128 bytes", "bank"))


def _registers(name: str, lit: list[Element], storage: Any) -> Grid:
    """Return the elements of a register storage of all lanes of a warp."""
    block, warp = lit[0]["block"], lit[0]["warp"]
    own = [x for x in lit if (x["block"], x["warp"]) == (block, warp)]
    places = {(x["lane"], x["element"]): f"{name}[{x['element']}] of lane {x['lane']}" for x in own}
    title = f"{name} of block {_tuple(block)} warp {warp}"
    return _window(title, places, (LANES, storage["count"]), ("lane", "element"), LANES)


def _tuple(numbers: list[int]) -> str:
    return f"({','.join(map(str, numbers))})"


def _window(
    title: str,
    lit: dict[tuple[int, int], str],
    sizes: tuple[int, int],
    axes: tuple[str, str],
    high: int = HIGH,
) -> Grid:
    """Return the part of a table around its first lit cell; `lit`: a note for each."""
    first = next(iter(lit))
    top, left = first[0] // high * high, first[1] // WIDE * WIDE
    rows = range(top, min(top + high, sizes[0]))
    columns = range(left, min(left + WIDE, sizes[1]))
    cells = [
        [
            ("x", 1, lit[i, j], LIT) if (i, j) in lit else ("", None, f"{title}: not here", UNLIT)
            for j in columns
        ]
        for i in rows
    ]
    linked = tuple([key for *_, key in chain.from_iterable(cells)])
    shown = sum(key == LIT for key in linked)
    more = f", {shown} of {len(lit)} elements" if shown < len(lit) else ""
    text = f"{title}: {axes[0]} down, {axes[1]} right{more}"
    return _grid(text, cells, list(map(str, rows)), list(map(str, columns)), linked)


DRAWN: dict[str, Any] = {
    "global": _array,
    "shared": _shared,
    "registers": _registers,
    "integers": lambda name, lit, storage: None,
}
