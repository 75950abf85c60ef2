"""What a kernel prints and shows of its tensors, written once it has been traced."""

from __future__ import annotations

import sys
from dataclasses import replace

from cute_py.errors import CuteError, place_text
from cute_py.see.rows import Row, row_of, rows_of
from cute_py.see.source import statement_at
from cute_py.see.table import sizes_of
from cute_py.see.watch import Sighting
from cute_py.viz.build import picture_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.calls.arguments import Argument
    from cute_py.trace.kernel import Kernel


def show_all(kernel: Kernel, arguments: tuple[Argument, ...]) -> None:
    """Write what the calls of `cute.print(x)` and `cute.show(x)` of a kernel are about, each once:
    the line, the layout of the value, and who holds which element; a notebook shows pictures.
    """
    seen, rows = rows_of(kernel, arguments)
    sizes, known = sizes_of(arguments), {id(row.value): row for row in reversed(rows)}
    done = set[tuple[object, ...]]()
    for place, how, values in seen.shown:
        file, line = place
        text = statement_at(file, line).text
        for x in values:
            row = known.get(id(x)) or row_of(Sighting(file, line, "", text, x, ""), seen)
            row = replace(row, sizes=sizes)
            key = place, row.name, row.described
            if key not in done:
                done.add(key)
                _write(f"{place_text(place)}: {row.name}", row, how)


def _write(title: str, row: Row, how: str) -> None:
    """Write a value: its layout, and its picture as text, or in a notebook as a picture."""
    memory = " ".join([x for x in (row.memory, row.dtype) if x])
    print(f"{title}: {memory} {row.described}".replace(":  ", ": "))
    try:
        drawn = row.drawn()
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if how == "show" and shell is not None:
            from IPython.display import display

            display(picture_of(drawn))
        else:
            print(drawn if hasattr(drawn, "holders") else picture_of(drawn).__repr__())
    except CuteError as error:
        print(error)
