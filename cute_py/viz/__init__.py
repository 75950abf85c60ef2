"""Pictures of layouts, tensors, thread-value maps, swizzles, atoms and tiled operations.

Everything is first a `Picture`: grids of cells with labels, side by side. Four renderers draw it,
`to_text` for a terminal, `to_html` for a browser, `to_svg`, and `to_latex` for a paper. A notebook
shows these objects as pictures; CUTE_PY_PICTURES=0 in the environment turns that off.

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
    from cute_py.viz.html import Shell

# module -> the public names that it defines
_HOME = {
    "viz.picture": "Cell Grid Picture",
    "viz.build": "picture_of picture_operand",
    "viz.cells": "picture_tv",
    "viz.text": "print_copy print_layout print_mma print_tv to_text",
    "viz.svg": "to_svg",
    "viz.html": "to_html",
    "viz.latex": "to_latex",
    "viz.scenes": "scene",
    "viz.comparisons": "diff show",
}

__getattr__, __dir__ = lazy(__name__, _HOME)


def load_ipython_extension(shell: Shell) -> None:
    """Show tuples of layouts and the like as pictures too: `%load_ext cute_py.viz`."""
    from cute_py.viz.html import register

    register(shell)
