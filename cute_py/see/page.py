"""`see`: a kernel as a page. The source is on the left; a line shows its tensors as pictures, what it
compiles to, and what a run of it did.

The page holds one dict of JSON, `Page.data`:

    title, note    the kernel, and what was run
    source         functions: `name`, `file`, `first` line, `lines`, and `at`: for each line the
                   number of its statement, or None
    statements     `rows` that it makes, rows that it `uses`, `ops` of the plan as (text, how many),
                   and `counts` of the run or None
    rows           of `cute.layouts`: their texts, `bits` of an element, `picture` (its number, or
                   None, and `reason`), `storage` (what links elements; None for nothing), and
                   `explore`, the link of the explorer
    pictures       packed: `panels` as in scenes, each with `places`, the offset in the storage of
                   each cell, and `at`, what sliders show it: {"stages": 1}
    timeline       packed: `panels`, and `events` as (text, number of the statement); or None
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

import numpy as np

from cute_py.emulate import emulate
from cute_py.emulate.arguments import Arguments
from cute_py.emulate.progress import kept
from cute_py.errors import CuteError, refusal
from cute_py.explore.pages import PAGE, framed, own
from cute_py.explore.states import link_of
from cute_py.expression import MAX_EXPRESSION
from cute_py.layout import Mapped, tuples
from cute_py.records import Shown
from cute_py.see.numbers import OUTSIDE, places
from cute_py.see.owners import Lineage, Owners
from cute_py.see.packing import packed
from cute_py.see.rows import rows_of
from cute_py.see.source import Source
from cute_py.see.table import Layouts, layouts
from cute_py.tensor.tensor import Tensor
from cute_py.viz.build import picture_of
from cute_py.viz.html import MOST_CELLS, MOST_GRIDS, hashed, script
from cute_py.viz.scenes import as_json, scene_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.emulate.timeline import Timeline
    from cute_py.plan.plan import Plan
    from cute_py.see.numbers import Numbers
    from cute_py.see.rows import Row
    from cute_py.trace.kernel import Kernel

NOWHERE = -(1 << 52)  # a place that no element has, as JavaScript counts exactly
WINDOW = 200  # events of a timeline that are shown at a time
NOT_RUN = "not run: see(..., run=True) counts bank conflicts and sectors, and has the timeline"


def see(
    kernel: Kernel,
    *args: object,
    run: bool = False,
    at: int | str | None = None,
    explorer: str = "",
    **named: object,
) -> Page:
    """Return a kernel as a page: a notebook shows it, and `save` writes it to one file.

    Args:
        kernel: a function under `@cute.kernel`.
        args: its arguments.
        run: whether to run it on the emulator, for bank conflicts and sectors by line and for the
            timeline. Arrays are as before afterwards.
        at: the line, or the name of a tensor, that is shown first.
        explorer: the address of an explorer, as `cute-py explore -o` writes it, for links to it;
            without it, a button copies the call that opens it in a notebook.
        named: more arguments of the kernel, by name. One that has the name of an option above must
            be given by position.

    A line shows the tensors that it makes or uses, in pictures whose elements are linked: equal
    elements of one memory, or all elements of a thread. Pictures take the sizes of the arguments,
    block 0 and the first iteration; layouts have symbols.

    Law: the rows are those of `cute.layouts`. Raises what `layouts` raises, CoordinateError for an
    `at` that the kernel does not have, and what `cute.emulate` raises.

    >>> import numpy as np
    >>> import cute_py as cute
    >>> @cute.kernel
    ... def twice(x):
    ...     cute.launch(grid=1, block=32)
    ...     x[cute.thread_idx()] *= 2.0
    >>> page = cute.see(twice, np.ones(32, np.float32), run=True)
    >>> page.data["rows"][0]["layout"], page.data["note"]
    ('x_shape0:1', 'run on the emulator')
    """
    table = layouts(kernel, *args, **named)
    if at is not None:
        at = (table.at(at).rows[0] if isinstance(at, int) else table[at]).line
    seen, _rows = kernel.known(rows_of, *args, **named)
    ran = _ran(seen.plan, kernel.leaves(*args, **named)) if run else None
    return Page(table, {**_data(kernel, table, seen.plan, ran), "line": at, "explorer": explorer})


def _ran(plan: Plan, leaves: list[Any]) -> Timeline:
    """Return the timeline of a run, after which arrays are as before."""
    with kept(Arguments(plan, tuple(leaves))):
        found: Any = emulate(plan, *leaves, report="timeline")
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Page(Shown):
    """A kernel as a page.

    Attributes:
        table: its rows.
        data: what the page shows, as JSON; see the module.

    """

    table: Layouts
    data: dict[str, Any]

    def to_html(self) -> str:
        """Return the page, which needs no other file, no network and no Python."""
        allowed = {"script-src": f"'{hashed(_program().encode())}'"}
        title = f"{self.table.title()}: layouts and threads, line by line"
        style = PAGE.replace("1060px", "1600px")
        return framed(
            title, allowed, style, [f"<h1>{escape(self.table.title())}</h1>", self._element()]
        )

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def _element(self) -> str:
        """Return the page as an element: the table, which the script replaces."""
        data = f'<script type="application/json">{as_json(self.data)}</script>'
        table = self.table.to_html()
        return f'<div class="cute-see">{table}{data}<script>{_program()}</script></div>'

    def _repr_html_(self) -> str | None:
        return None if self.table._repr_html_() is None else self._element()

    def __str__(self) -> str:
        return str(self.table)

    __repr__ = __str__


def _program() -> str:
    return f"(() => {{\n{script()}{own('style.js')}{_own('page.js')}}})();"


def _own(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


# -- what the page shows


def _data(kernel: Kernel, table: Layouts, plan: Plan, ran: Timeline | None) -> dict[str, Any]:
    code = kernel.function.__code__
    start = (code.co_filename, code.co_firstlineno)
    source = Source(
        [start, *[(row.file, row.line) for row in table], *[op.line for op in plan.ops]]
    )
    pictures = _Pictures(table)
    rows = [_row(row, pictures) for row in table]
    return {
        "v": 1,
        "title": table.name,
        "note": NOT_RUN if ran is None else "run on the emulator",
        "source": source.functions,
        "statements": _statements(source, table, plan, ran),
        "rows": rows,
        "pictures": list(pictures.known),
        "timeline": None if ran is None else packed(_timeline(ran, source)),
    }


def _statements(
    source: Source, table: Layouts, plan: Plan, ran: Timeline | None
) -> list[dict[str, Any]]:
    """Return what each statement makes, uses, compiles to and did."""
    rows: list[Any] = [(source.number(row.file, row.line), row) for row in table]
    made, ops, counts = _by_number(), _by_number(), _by_number()
    for k, (number, _each) in enumerate(rows):
        made[number][k] += 1
    for op in plan.ops:
        ops[source.number(*op.line)][str(op)] += 1
    for line, found in ran.lines.items() if ran is not None else ():
        counts[source.number(*line)].update(asdict(found))
    return [
        {
            "rows": list(made[k]),
            "uses": source.uses(k, rows),
            "ops": [list(pair) for pair in ops[k].items()],
            "counts": dict(counts[k]) or None,
        }
        for k in range(len(source.statements))
    ]


def _by_number() -> defaultdict[int | None, Counter[Any]]:
    return defaultdict(Counter)


def _row(row: Row, pictures: _Pictures) -> dict[str, Any]:
    """Return the texts of a row, and its picture."""
    names = ("line", "name", "role", "memory", "dtype", "modes", "made", "stages", "function")
    shown = {name: getattr(row, name) for name in names}
    try:
        drawn: dict[str, Any] = pictures.of(row)
    except CuteError as error:
        drawn = {"picture": None, "reason": str(error).partition(": given ")[2] or str(error)}
    bits = row.value.dtype.bits if row.dtype else 16
    return {**shown, "layout": row.described, "bits": bits, **drawn}


# -- pictures


class _Pictures:
    """The pictures of rows, each of them once."""

    def __init__(self, table: Layouts) -> None:
        self.known: dict[str, int] = {}
        self.modes = {row.name: row.modes for row in reversed(table.rows)}
        self.storages: dict[str, int] = {}

    def of(self, row: Row) -> dict[str, Any]:
        """Return the number of a row's picture, what links its elements, and its expression."""
        numbers = row._numbers(None)
        _require_small(row, numbers.of(getattr(row.layout, "shape", ())))
        shown = row.drawn()
        whole = row.value if row.value.__class__ is Tensor else None
        names, title = row.modes, ""
        if isinstance(shown, Owners):
            _require_small(row, shown.shape)
            lineage = Lineage(row.seen, numbers)
            whole = lineage.whole(lineage.part(row.value, numbers.at(shown.threads[0]))[0])
            names, title = self.modes.get(shown.whole, ()), f"of {shown.whole}"
        drawn = scene_of(picture_of(shown))
        found: dict[str, Any] = {"panels": drawn["panels"]}
        if isinstance(shown, Mapped | Owners):
            _set_sliders(drawn, names)
        storage = None if whole is None else self._placed(found["panels"], whole, numbers)
        text = packed(found)
        return {
            "picture": self.known.setdefault(text, len(self.known)),
            "reason": "",
            "title": title,
            "storage": storage,
            "explore": _link(shown, row),
        }

    def _placed(self, panels: list[dict[str, Any]], whole: Tensor, numbers: Numbers) -> int | None:
        """Give each panel the offset in its storage of each of its cells, and return the number of
        the storage; None where it is not known, or for what is not in memory.
        """
        try:
            found = places(whole, numbers.at(0), linear=True)
        except CuteError:  # a tile that the kernel chooses as it runs
            return None
        if whole.space not in ("gmem", "smem") or found.shape[1] != 1:
            return None
        placed = np.where(found == OUTSIDE, NOWHERE, found)[:, 0]
        for panel in panels:
            start = panel["start"]
            panel["places"] = placed[start : start + len(panel["colour"])].tolist()
        return self.storages.setdefault(f"{whole.space} {whole.engine.name}", len(self.storages))


def _require_small(row: Row, shape: Any) -> None:
    """Refuse more elements than a picture of the page may have."""
    count, parts = int(tuples.product(shape)), int(tuples.product(tuples.wrap(shape)[2:]))
    if count > MOST_CELLS or parts > MOST_GRIDS:
        rest = tuples.rank(shape) - 2
        part = f"{row.name}[_, _{', 0' * rest}]" if rest > 0 else f"a tile of {row.name}"
        what = f"{count} elements" if count > MOST_CELLS else f"{parts} parts of two modes"
        most = MOST_CELLS if count > MOST_CELLS else MOST_GRIDS
        facts: dict[str, Any] = {"row": row.name, "what": what, "part": part, "most": most}
        raise refusal("see-picture", operation="see", **facts)


def _set_sliders(drawn: dict[str, Any], names: tuple[str, ...]) -> None:
    """Give the panels of a layout's modes 2 and 3 the entries of sliders."""
    sizes = len(drawn["places"]), len(drawn["places"][0])
    labels = [names[k] if k < len(names) else f"mode {k}" for k in (2, 3)]
    for i, row in enumerate(drawn["places"]):
        for j, at in enumerate(row):
            pairs = zip(labels, (i, j), sizes, strict=True)
            drawn["panels"][at]["at"] = {label: k for label, k, size in pairs if size > 1}


def _link(shown: Any, row: Row) -> str:
    """Return the link of the explorer for what a row shows, "" where no expression says it."""
    bits = row.value.dtype.bits if row.dtype else 16
    if isinstance(shown, Owners):
        tv, tile = shown.layout, shown.shape
    elif hasattr(shown, "get_layoutS_TV"):
        tv, tile = shown.get_layoutS_TV(), shown.tiler_mn
    elif hasattr(shown, "atom_layout_mnk"):
        tile = tuples.show(shown.permutation_mnk)
        return _link_of(f"mma({shown.atom}, {shown.atom_layout_mnk}, {tile})", bits)
    elif hasattr(shown, "dst_tv"):
        return _link_of(f"copy({shown.op}, bits={shown.dtype.bits})", bits)
    else:
        return _link_of(str(shown), bits)
    return "" if tv is None else _link_of(f"tv({tv}, {tuples.show(tile)})", bits)


def _link_of(expression: str, bits: int) -> str:
    if len(expression) > MAX_EXPRESSION:
        return ""
    return link_of({"v": 1, "e": expression, "bits": bits})


# -- the timeline


def _timeline(ran: Timeline, source: Source) -> dict[str, Any]:
    """Return the timeline in parts of `WINDOW` events, and the statement of each event."""
    (panel,) = scene_of(picture_of(ran))["panels"]
    count = panel["columns"]
    names = [f"warps {','.join(map(str, event.warps))}: {event.name}" for event in ran.events]
    lines = [source.number(*event.line) for event in ran.events]
    return {
        "panels": [
            _part(panel, start, min(start + WINDOW, count)) for start in range(0, count, WINDOW)
        ],
        "events": [list(pair) for pair in zip(names, lines, strict=True)],
        "complete": ran.complete,
    }


def _part(panel: dict[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Return some columns of a panel whose cells run along its rows."""
    rows, columns = panel["rows"], panel["columns"]
    lists = {
        name: [x for i in range(rows) for x in each[i * columns + start : i * columns + stop]]
        for name, each in panel.items()
        if isinstance(each, list) and len(each) == rows * columns
    }
    labels = [str(n) for n in range(start, stop)]
    sizes = {"columns": stop - start, "column_labels": labels, "shape": [stop - start, rows]}
    return {**panel, **lists, **sizes, "at": {"part": start // WINDOW}}
