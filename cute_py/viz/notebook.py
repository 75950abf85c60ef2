"""Pictures in a notebook: `%load_ext cute_py.viz` gives IPython a picture for each of our types.

IPython's table of formatters is the registry, so layouts and atoms know nothing of pictures.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Formatter(Protocol):
        """What IPython keeps for one format."""

        def for_type_by_name(self, module: str, name: str, function: Callable[..., Any]) -> object:
            """Use `function` for the type of this name, now or once it is loaded."""

    class DisplayFormatter(Protocol):
        """IPython's formatters, by MIME type."""

        formatters: dict[str, Formatter]

    class Shell(Protocol):
        """The IPython shell."""

        display_formatter: DisplayFormatter


MOST_CELLS = 1 << 14  # a notebook keeps what it shows
TYPES = (
    ("cute_py.layout.layout", "Layout"),
    ("cute_py.layout.composed", "ComposedLayout"),
    ("cute_py.layout.bits.f2_layout", "F2Layout"),
    ("cute_py.layout.bits.swizzle", "Swizzle"),
    ("cute_py.tensor.tensor", "Tensor"),  # of coordinates; the others are shown as text
    ("cute_py.atoms.mma", "MMA_Atom"),
    ("cute_py.atoms.copy", "Copy_Atom"),
    ("cute_py.tiled.tiled_mma", "TiledMMA"),
    ("cute_py.tiled.tiled_copy", "TiledCopy"),
)


def register(shell: Shell) -> None:
    """Tell an IPython shell how to draw layouts, swizzles, atoms and tiled operations."""
    formatter = shell.display_formatter.formatters["image/svg+xml"]
    for module, name in TYPES:
        formatter.for_type_by_name(module, name, _svg)


def _svg(x: object) -> str | None:
    """Return the picture, or None (the text is shown) where there is none or it is too large."""
    from cute_py.errors import CuteError
    from cute_py.viz.build import picture_of
    from cute_py.viz.svg import to_svg

    try:
        drawn = picture_of(x)
    except CuteError:
        return None
    grids = [grid for row in drawn.grids for grid in row if grid]
    small = sum(grid.rows * grid.columns for grid in grids) <= MOST_CELLS
    return to_svg(drawn) if small else None
