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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.viz.notebook import Shell

# module -> the public names that it defines
_HOME = {
    "picture": "Cell Grid Picture",
    "build": "picture_of picture_operand",
    "holders": "picture_tv",
    "text": "print_copy print_layout print_mma print_tv to_text",
    "svg": "to_svg",
    "latex": "to_latex",
}
_MODULE = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> object:
    """Import the module that defines `name` and keep the name here (PEP 562)."""
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'cute_py.viz' has no attribute {name!r}")
    value = getattr(__import__(f"cute_py.viz.{module}", fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *_MODULE})


def load_ipython_extension(shell: Shell) -> None:
    """Show layouts, atoms and tiled operations as pictures: `%load_ext cute_py.viz`."""
    from cute_py.viz.notebook import register

    register(shell)
