"""Atoms: one frozen row for each hardware instruction on tiles.

`get(name)` gives an MMA row, `get_copy(name)` a copy instruction, `cute.atoms.NAME` either;
`find(a=..., b=..., c=..., arch=...)` lists the MMA rows that fit, `table()` prints all rows.
Importing this package loads no rows; a name loads its family's module.

>>> import cute_py.atoms
>>> print(cute_py.atoms.SM75_16x8x8_F32F16F16F32_TN.b_tv)
((4,8),2):((16,1),8)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# module -> the public names that it defines
_HOME = {
    "copy": "Copy_Atom Copy_Op",
    "copy_registry": "copy_rows get_copy",
    "gmma_desc": "gmma_fragment make_gmma_desc",
    "gmma_smem": (
        "Layout_K_INTER_Atom Layout_K_SW128_Atom Layout_K_SW32_Atom Layout_K_SW64_Atom "
        "Layout_MN_INTER_Atom Layout_MN_SW128_Atom Layout_MN_SW32_Atom Layout_MN_SW64_Atom "
        "gmma_layout_atom"
    ),
    "mma": "MMA_Atom Operand",
    "registry": "get names rows",
    "search": "find table",
    "tma": "make_tma_atom",
}
_MODULE = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Resolve a public name, or else the row of that name (PEP 562)."""
    module = _MODULE.get(name)
    if module is not None:
        value = getattr(__import__(f"cute_py.atoms.{module}", fromlist=[name]), name)
        globals()[name] = value
        return value
    if not name.startswith(("SM", "Universal")):
        raise AttributeError(f"module 'cute_py.atoms' has no attribute {name!r}")
    from cute_py.atoms.copy_registry import get_copy
    from cute_py.atoms.registry import get, has
    from cute_py.errors import CuteError

    try:
        return get(name) if has(name) else get_copy(name)
    except CuteError as error:
        raise AttributeError(str(error)) from None


def __dir__() -> list[str]:
    """List the public names and those of all rows."""
    from cute_py.atoms.copy_registry import copy_rows
    from cute_py.atoms.registry import names

    return sorted({*globals(), *_MODULE, *names(), *(op.name for op in copy_rows())})
