"""Pictures of layouts, thread-value maps, swizzles, MMA and copy atoms, and tiled operations.

Everything is first a `Picture`: grids of cells with labels, side by side. Three renderers draw it,
`to_text` for a terminal, `to_svg` for a notebook and `to_latex` for a paper. In a notebook,
`%load_ext cute_py.viz` shows these objects as pictures.

>>> from cute_py import Layout, viz
>>> viz.print_layout(Layout((2, 3), (3, 1)))
(2,3):(3,1)
    0  1  2
  +---------
0 | 0  1  2
1 | 3  4  5
"""

from __future__ import annotations

from cute_py.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.viz.svg import Shell

# module -> the public names that it defines
_HOME = {
    "viz.picture": "Cell Grid Picture",
    "viz.build": "picture_of picture_operand",
    "viz.cells": "picture_tv",
    "viz.text": "print_copy print_layout print_mma print_tv to_text",
    "viz.svg": "to_svg",
    "viz.latex": "to_latex",
    "viz.scenes": "scene",
    "viz.comparisons": "diff show",
}

__getattr__, __dir__ = lazy(__name__, _HOME)


def load_ipython_extension(shell: Shell) -> None:
    """Show layouts, atoms and tiled operations as pictures: `%load_ext cute_py.viz`."""
    from cute_py.viz.svg import register

    register(shell)
