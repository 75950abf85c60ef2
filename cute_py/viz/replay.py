"""Replays of memory accesses: what `analysis.bank_conflicts` and `analysis.coalescing` returned, as
grids of lanes and banks, or of lanes and sectors.
"""

from __future__ import annotations

from cute_py.viz.cells import spans
from cute_py.viz.picture import COLOURS, Facts, Grid, Picture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Found = Any  # what the analysis returned: pictures do not import it

BANKS, WORD, SECTOR = 32, 4, 32  # bytes of a word and of a sector
MOST_GRIDS = 16


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
    return _grid(f"{title}: {waves}", rows, phase.lanes, [str(bank) for bank in range(BANKS)])


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
    return _grid(title, rows, active, [str(SECTOR * sector) for sector in names])


def _grid(
    title: str,
    rows: list[list[tuple[str, int | None, str, bool]]],
    lanes: Sequence[int],
    columns: list[str],
) -> Grid:
    """Return the grid of rows of (text, colour, note, framed)."""
    cells = [cell for row in rows for cell in row]
    holders = tuple(
        [{0: [t]} if text else {} for t, row in zip(lanes, rows, strict=True) for text, *_ in row]
    )
    facts = Facts(
        holders,
        (len(columns), len(rows)),
        across=True,
        notes=tuple([note for _, _, note, _ in cells]),
        marked=tuple([k for k, cell in enumerate(cells) if cell[3]]),
    )
    return Grid(
        title,
        tuple([tuple([(text,) for text, *_ in row]) for row in rows]),
        tuple([tuple([None if c is None else c % len(COLOURS) for _, c, *_ in r]) for r in rows]),
        tuple([f"T{lane}" for lane in lanes]),
        tuple(columns),
        facts=facts,
    )


def _steps(title: str, grids: list[Grid]) -> Picture:
    more = f"; the first {MOST_GRIDS} of {len(grids)} phases" if len(grids) > MOST_GRIDS else ""
    shown = tuple([(grid,) for grid in grids[:MOST_GRIDS]])
    return Picture(title + more, shown, link="thread", steps=True)
