"""The timeline of an emulated kernel as a grid: a column for each event, in order."""

from __future__ import annotations

from itertools import chain

from cute_py.viz.picture import COLOURS, Facts, Grid, Picture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Found = Any  # what the emulator returned: pictures do not import it

Row = list[tuple[str, int | None, str, int]]  # text, colour, note, what a click selects


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
    return Picture(title, ((_grid(labels, rows, count),),), link="offset")


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


def _grid(labels: list[str], rows: list[Row], count: int) -> Grid:
    cells = list(chain.from_iterable(rows))
    facts = Facts(
        tuple([key for *_, key in cells]),
        (count, len(rows)),
        across=True,
        notes=tuple([note for _, _, note, _ in cells]),
    )
    return Grid(
        "",
        tuple([tuple([(text,) for text, *_ in row]) for row in rows]),
        tuple([tuple([colour for _, colour, *_ in row]) for row in rows]),
        tuple(labels),
        tuple(map(str, range(count))),
        facts=facts,
    )
