"""The copy instructions by name; the modules with the rows are loaded when one is asked for."""

from __future__ import annotations

from importlib import import_module

from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from cute_py.atoms.copy import Copy_Op

    Usual: TypeAlias = tuple[tuple[int, ...], ...]  # template arguments, such as copy_rows lists
    Table: TypeAlias = tuple[dict[str, Copy_Op], dict[str, tuple[Callable[..., Copy_Op], Usual]]]

# prefix of the names -> the module with their rows
_HOMES = {
    "SM50_": "copy_sm80",
    "SM75_": "copy_sm80",
    "SM80_": "copy_sm80",
    "SM90_": "copy_sm90",
    "SM100_": "copy_sm100",
}
_UNIVERSAL = "copy_universal"


def get_copy(name: str, *args: int) -> Copy_Op:
    """Return the copy instruction of a name.

    Args:
        name: CuTe's name; the template arguments may follow as in C++, `UniversalCopy<128>`, or as
            bytes, `SM80_CP_ASYNC_CACHEGLOBAL_16B`.
        args: template arguments, in bits, where the name does not hold them.

    Raises LayoutError for an unknown name, and for arguments that the instruction does not have.

    >>> get_copy("UniversalCopy", 128) is get_copy("UniversalCopy<128>")
    True
    >>> print(get_copy("SM80_CP_ASYNC_CACHEGLOBAL_16B"))
    SM80_CP_ASYNC_CACHEGLOBAL<128>
    """
    base, own = _split(name)
    rows, families = _table(_home(base))
    if base in rows and not own + args:
        return rows[base]
    if base in families:
        make, usual = families[base]
        return make(*_arguments(base, own + args, usual))
    raise refusal("copy-unknown", operation="get_copy", name=name, nearest=_nearest(base))


def copy_rows() -> tuple[Copy_Op, ...]:
    """Return all rows, those with template arguments in their usual widths, oldest first.

    >>> [str(op) for op in copy_rows() if op.min_arch == "sm_75"][:3]
    ['SM75_U32x1_LDSM_N', 'SM75_U32x2_LDSM_N', 'SM75_U32x4_LDSM_N']
    """
    found: dict[Copy_Op, None] = {}
    for rows, families in _tables():
        for make, usual in families.values():
            found.update((make(*args), None) for args in usual)
        found.update((row, None) for row in rows.values())
    return tuple(found)


def copy_names() -> tuple[str, ...]:
    """Return the names that `get_copy` knows, without template arguments.

    >>> "SM90_BULK_COPY_G2S" in copy_names()
    True
    """
    return tuple(name for tables in _tables() for table in tables for name in table)


def known(op: Copy_Op) -> bool:
    """Return whether `get_copy` of the text of the row gives the row back."""
    from cute_py.errors import CuteError

    try:
        return get_copy(str(op)) == op
    except CuteError:
        return False


def _split(name: str) -> tuple[str, tuple[int, ...]]:
    """Return the name without its template arguments, and these."""
    if not isinstance(name, str):
        raise refusal("copy-op", operation="get_copy", value=name, type=type(name).__name__)
    base, bracket, inside = name.partition("<")
    parts = inside.removesuffix(">").split(",") if bracket else []
    if all(part.strip().isdecimal() for part in parts):
        own = tuple(int(part) for part in parts)
    else:
        raise refusal("copy-unknown", operation="get_copy", name=name, nearest=_nearest(base))
    head, _, last = base.rpartition("_")
    if head.startswith("SM80_CP_ASYNC") and last[-1:] == "B" and last[:-1].isdecimal():
        return head, (8 * int(last[:-1]),)
    return base, own


def _arguments(name: str, given: tuple[int, ...], usual: Usual) -> tuple[int, ...]:
    """Return the template arguments; those of cp.async.cg, which has one width, may be left out."""
    if not given and len(usual) == 1 and name.startswith("SM80_"):
        return usual[0]
    if len(given) != len(usual[0]):
        example = f"{name}<{','.join(map(str, usual[0]))}>"
        raise refusal(
            "copy-arguments", operation="get_copy", name=name, given=given, example=example
        )
    return given


def _home(name: str) -> str:
    return next((home for prefix, home in _HOMES.items() if name.startswith(prefix)), _UNIVERSAL)


def _table(module: str) -> Table:
    """Return the rows of a module, and its functions of template arguments."""
    home = import_module(f"cute_py.atoms.{module}")
    return getattr(home, "ROWS", {}), getattr(home, "FAMILIES", {})


def _tables() -> list[Table]:
    return [_table(module) for module in dict.fromkeys((_UNIVERSAL, *_HOMES.values()))]


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    return ", ".join(get_close_matches(name, copy_names(), 3, 0.5)) or "copy_rows()"
