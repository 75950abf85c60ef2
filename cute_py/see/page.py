"""`see`: a kernel as a page. The source is on the left; a line shows its tensors as pictures, what
it compiles to, and what a run of it did.

`page.js` draws it from one dict of JSON, `Page.data`:

    source         functions: `name`, `file`, `first` line, `lines`, and `at`: for each line the
                   number of its statement, or None
    statements     the numbers of the `rows` that it makes and that it `uses`, `ops` of the plan as
                   (text, how many), and `counts` of the run or None
    rows           of `cute.layouts`: their texts, `bits` of an element, `explore`, the link of the
                   explorer, `picture` (its number, or None, and `reason`), and `storage`, what
                   links its elements, or None
    pictures       packed: the panels of scenes, with `places`, the offset of each cell in the
                   storage, and `at`, what sliders show it: {"stages": 1}
    timeline       packed: a scene; `events`: for each (text, number of the statement)
    first          the number of the statement that is shown first
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
from cute_py.emulate.timeline import Timeline
from cute_py.errors import CuteError, refusal
from cute_py.explore.pages import PAGE, framed
from cute_py.explore.states import link_of
from cute_py.expression import MAX_EXPRESSION
from cute_py.layout import Mapped, tuples
from cute_py.records import Shown
from cute_py.see.numbers import OUTSIDE, places
from cute_py.see.owners import Lineage, Owners
from cute_py.see.rows import rows_of
from cute_py.see.source import Source
from cute_py.see.table import Layouts, layouts
from cute_py.tensor.tensor import Tensor
from cute_py.viz.build import picture_of
from cute_py.viz.html import MOST_CELLS, MOST_GRIDS, elements, hashed, program
from cute_py.viz.picture import RGB
from cute_py.viz.scenes import packed, scene_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.plan.plan import Plan
    from cute_py.see.numbers import Numbers
    from cute_py.see.rows import Row
    from cute_py.trace.kernel import Kernel

NOWHERE = -(1 << 52)  # a place that no element has, as JavaScript counts exactly
TEXTS = ("line", "name", "role", "memory", "dtype", "modes", "made")  # of a row


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
    >>> from cute_py.kernels.gemm_02_shared import gemm_shared
    >>> x, y = np.ones((16, 16), np.float32), np.zeros((16, 16), np.float32)
    >>> page = cute.see(gemm_shared, x, x, y, run=True)
    >>> [row["name"] for row in page.data["rows"]]
    ['A', 'B', 'C', 'gA', 'gB', 'gC', 'sA', 'sB', 'acc']
    >>> sum(each["counts"]["sectors"] for each in page.data["statements"] if each["counts"])
    96
    """
    table = layouts(kernel, *args, **named)
    first = None
    if at is not None:
        first = (table.at(at).rows[0] if isinstance(at, int) else table[at]).place
    plan = kernel.known(rows_of, *args, **named)[0].plan
    ran = _ran(plan, kernel.leaves(*args, **named)) if run else None
    code = kernel.function.__code__
    return _made(table, plan, ran, (code.co_filename, code.co_firstlineno), first, explorer)


def _ran(plan: Plan, leaves: list[Any]) -> Timeline:
    """Return the timeline of a run, after which arrays are as before."""
    with kept(Arguments(plan, tuple(leaves))):
        found = emulate(plan, *leaves, report="timeline")
    assert isinstance(found, Timeline)
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
        title = self.table.title()
        allowed = {"script-src": f"'{hashed(program(*_script()).encode())}'"}
        style = PAGE.replace("1060px", "1600px")
        return framed(title, allowed, style, [f"<h1>{escape(title)}</h1>", self._element()])

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def _element(self) -> str:
        """Return the page as an element: the table, which the script replaces."""
        kind = _script()[0]
        return f'<div class="{kind}">{self.table.to_html()}{elements(self.data, *_script())}</div>'

    def _repr_html_(self) -> str | None:
        return None if self.table._repr_html_() is None else self._element()

    def __str__(self) -> str:
        return str(self.table)

    __repr__ = __str__


def _script() -> tuple[str, str, str]:
    """Return what `program` takes."""
    text = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
    return "cute-see", "cutePySee", text


def _made(
    table: Layouts,
    plan: Plan,
    ran: Timeline | None,
    start: tuple[str, int],
    first: tuple[str, int] | None,
    explorer: str,
) -> Page:
    source = Source([start, *[row.place for row in table], *[op.line for op in plan.ops]])
    made, ops, counts = _by_number(), _by_number(), _by_number()
    for k, row in enumerate(table):
        made[source.number(*row.place)][k] += 1
    for op in plan.ops:
        ops[source.number(*op.line)][str(op)] += 1
    for line, found in ran.lines.items() if ran is not None else ():
        counts[source.number(*line)].update(asdict(found))
    pictures = _Pictures(table)
    rows = [pictures.row(row) for row in table]
    if first is None and rows:  # a partition, the more to look at
        parts = [row.place for row, each in zip(table, rows, strict=True) if each.get("title")]
        first = [*parts, table.rows[0].place][0]
    data = {
        "v": 1,
        "title": table.name,
        "palette": list(RGB),
        "explorer": explorer,
        "source": source.functions,
        "statements": [
            {
                "rows": list(made[k]),
                "uses": source.uses(k, table),
                "ops": list(map(list, ops[k].items())),
                "counts": dict(counts[k]) or None,
            }
            for k in range(len(source.statements))
        ],
        "rows": rows,
        "pictures": list(pictures.known),
        "timeline": None if ran is None else packed(scene_of(picture_of(ran))),
        "events": [
            [f"warps {','.join(map(str, x.warps))}: {x.name}", source.number(*x.line)]
            for x in (ran.events if ran is not None else ())
        ],
        "first": None if first is None else source.number(*first),
    }
    return Page(table, data)


def _by_number() -> defaultdict[int | None, Counter[Any]]:
    return defaultdict(Counter)


# -- pictures


class _Pictures:
    """The pictures of rows, each of them once."""

    def __init__(self, table: Layouts) -> None:
        self.known: dict[str, int] = {}
        self.modes = {row.name: row.modes for row in reversed(table.rows)}
        self.storages: dict[str, int] = {}

    def row(self, row: Row) -> dict[str, Any]:
        """Return the texts of a row, and its picture."""
        try:
            drawn = self._drawn(row)
        except CuteError as error:
            drawn = {"picture": None, "reason": str(error).partition(": given ")[2] or str(error)}
        texts = {name: getattr(row, name) for name in TEXTS}
        return {**texts, "layout": row.described, "bits": row.bits, **drawn}

    def _drawn(self, row: Row) -> dict[str, Any]:
        """Return the number of a row's picture, what links its elements, and its expression."""
        numbers = row.numbers()
        _require_small(row, numbers.of(getattr(row.layout, "shape", ())))
        shown = row.drawn()
        whole = row.value if row.value.__class__ is Tensor else None
        names, title = row.modes, ""
        if isinstance(shown, Owners):
            _require_small(row, shown.shape)
            lineage = Lineage(row.seen, numbers)
            whole = lineage.whole(lineage.part(row.value, numbers.at(shown.threads[0]))[0])
            names, title = self.modes.get(shown.whole, ()), f"of {shown.whole}"
        scene = scene_of(picture_of(shown))
        if isinstance(shown, Mapped | Owners):
            _set_sliders(scene, names)
        storage = None if whole is None else self._placed(scene["panels"], whole, numbers)
        number = self.known.setdefault(packed(scene["panels"]), len(self.known))
        link = _link(shown, row.bits)
        return {"picture": number, "title": title, "storage": storage, "explore": link}

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
        storage = f"{whole.space} {getattr(whole.engine, 'name', '')}"
        return self.storages.setdefault(storage, len(self.storages))


def _require_small(row: Row, shape: Any) -> None:
    """Refuse more elements than a picture of the page may have."""
    count, parts = int(tuples.product(shape)), int(tuples.product(tuples.wrap(shape)[2:]))
    for n, most, what in (
        (count, MOST_CELLS, "elements"),
        (parts, MOST_GRIDS, "parts of two modes"),
    ):
        if n > most:
            rest = "".join([", 0" for _ in tuples.wrap(shape)[2:]])
            facts: dict[str, Any] = {"row": row.name, "what": f"{n} {what}", "most": most}
            raise refusal("see-picture", operation="see", part=f"{row.name}[_, _{rest}]", **facts)


def _set_sliders(scene: dict[str, Any], names: tuple[str, ...]) -> None:
    """Give the panels of a layout's modes 2 and 3 the entries of sliders."""
    sizes = len(scene["places"]), len(scene["places"][0])
    labels = [names[k] if k < len(names) else f"mode {k}" for k in (2, 3)]
    for i, row in enumerate(scene["places"]):
        for j, at in enumerate(row):
            pairs = zip(labels, (i, j), sizes, strict=True)
            scene["panels"][at]["at"] = {label: k for label, k, size in pairs if size > 1}


def _link(shown: Any, bits: int) -> str:
    """Return the link of the explorer for what a row shows, "" where no expression says it."""
    if isinstance(shown, Owners):
        tv, tile = shown.layout, shown.shape
        text = "" if tv is None else f"tv({tv}, {tuples.show(tile)})"
    elif hasattr(shown, "get_layoutS_TV"):
        text = f"tv({shown.get_layoutS_TV()}, {tuples.show(shown.tiler_mn)})"
    elif hasattr(shown, "atom_layout_mnk"):
        tile = tuples.show(shown.permutation_mnk)
        text = f"mma({shown.atom}, {shown.atom_layout_mnk}, {tile})"
    elif hasattr(shown, "dst_tv"):
        text = f"copy({shown.op}, bits={shown.dtype.bits})"
    else:
        text = str(shown)
    fits = text and len(text) <= MAX_EXPRESSION
    return link_of({"v": 1, "e": text, "bits": bits}) if fits else ""
