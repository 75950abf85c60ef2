"""Atoms: one frozen row for each hardware instruction on tiles.

`get(name)` gives an MMA row, `get_copy(name)` a copy instruction, `cute.atoms.NAME` either;
`find(a=..., b=..., c=..., arch=...)` lists the MMA rows that fit, `table()` prints all rows.
Importing this package loads no rows; a name loads its family's module.

>>> import cute_py.atoms
>>> print(cute_py.atoms.SM75_16x8x8_F32F16F16F32_TN.b_tv)
((4,8),2):((16,1),8)
"""

from __future__ import annotations

from cute_py.lazy import lazy

# module -> the public names that it defines
_HOME = {
    "atoms.copy": "Copy_Atom Copy_Op",
    "atoms.registry": "copy_rows get get_copy names rows",
    "atoms.gmma": (
        "Layout_K_INTER_Atom Layout_K_SW128_Atom Layout_K_SW32_Atom Layout_K_SW64_Atom "
        "Layout_MN_INTER_Atom Layout_MN_SW128_Atom Layout_MN_SW32_Atom Layout_MN_SW64_Atom "
        "gmma_fragment gmma_layout_atom make_gmma_desc"
    ),
    "atoms.mma": "MMA_Atom Operand",
    "atoms.search": "find table",
    "atoms.tma": "make_tma_atom",
}


def _row(name: str) -> object:
    """Return the row of a name, None if there is none."""
    if not name.startswith(("SM", "Universal", "Default", "AutoVectorizing")):
        return None
    from cute_py.atoms.registry import get, get_copy, has
    from cute_py.errors import CuteError

    try:
        return get(name) if has(name) else get_copy(name)
    except CuteError as error:
        raise AttributeError(str(error)) from None


def _rows() -> list[str]:
    """Return the names of all rows, without copies that need template arguments (`get_copy`)."""
    from cute_py.atoms.registry import copy_names, names, needs_arguments

    return [*names(), *(each for each in copy_names() if not needs_arguments(each))]


__getattr__, __dir__ = lazy(__name__, _HOME, _row, _rows)
