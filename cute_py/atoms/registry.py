"""The registry of rows: from a name to an MMA row or a copy instruction. The rows of a family load
on first use.

A name may carry template arguments as in C++: `SM90_64x64x16_F32F16F16_SS<K,MN>`.
"""

from __future__ import annotations

from importlib import import_module

from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.table import Dtype
from cute_py.errors import CuteError, completions, refusal, suggestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType
    from typing import TypeAlias

    from cute_py.atoms.copy import Copy_Op
    from cute_py.atoms.mma import Argument

    Usual: TypeAlias = tuple[tuple[int, ...], ...]  # template arguments, such as copy_rows lists
    Table: TypeAlias = tuple[dict[str, Copy_Op], dict[str, tuple[Callable[..., Copy_Op], Usual]]]

# prefix of the names -> the module with their rows (`NAMES`, `parameters`, `row`)
_HOMES = {
    "SM80_SPARSE_": "sparse",
    "SM90_64x": "sm90_gmma",
    "SM90_SPARSE_": "sm90_gmma",
    "SM100_": "sm100",
    "SM120_": "sm100",
}
_LISTED = "mma_rows"  # the module of all other names

_cache: dict[str, MMA_Atom] = {}


def _module(name: str) -> ModuleType:
    return import_module(f"cute_py.atoms.{name}")


def _home(name: str, homes: Mapping[str, str] = _HOMES, other: str = _LISTED) -> str:
    """Return the module that must define a row of this name."""
    return next((home for prefix, home in homes.items() if name.startswith(prefix)), other)


def _names(home: str) -> Iterable[str]:
    found: Iterable[str] = _module(home).NAMES
    return found


def names() -> tuple[str, ...]:
    """Return the names of all MMA rows, templates without arguments, oldest family first.

    >>> len(names()) > 1000, names()[:2]
    (True, ('UniversalFMA', 'SM61_DP4A'))
    """
    homes = dict.fromkeys((_LISTED, *_HOMES.values()))
    return tuple([name for home in homes for name in _names(home)])


def has(name: str) -> bool:
    """Return whether there is an MMA row of this name (without template arguments).

    >>> has("SM61_DP4A"), has("SM75_U32x4_LDSM_N")
    (True, False)
    """
    return name in _names(_home(name))


def get(name: str) -> MMA_Atom:
    """Return the row of a name, with or without template arguments.

    Args:
        name: CuTe's name.

    Raises:
        LayoutError: no row has this name; the message names the nearest ones.

    Law: get(str(atom)) == atom.

    >>> get("SM70_8x8x4_F32F16F16F32_NT").c_tv == get("SM70_8x8x4_F32F16F16F32_TN").c_tv
    True
    >>> get("UniversalFMA<f64>").a_type
    cute.f64
    """
    atom = _cache.get(name)
    if atom is None:
        base, bracket, rest = name.partition("<")
        if bracket and not rest.endswith(">"):
            raise _unknown(name)
        arguments = rest.removesuffix(">").split(",") if bracket else []
        atom = _make(base.strip(), tuple(each.strip() for each in arguments), {})
        atom = _cache[name] = _cache.setdefault(str(atom), atom)
    return atom


def variant(
    name: str, args: tuple[Argument | Dtype, ...], named: Mapping[str, Argument | Dtype]
) -> MMA_Atom:
    """Return the row of a template with these arguments.

    Raises:
        LayoutError: no such template or argument.

    >>> variant("UniversalFMA", ("f32", "bf16"), {}).b_type
    cute.bf16
    """
    atom = _make(name, args, named)
    return _cache.setdefault(str(atom), atom)


def registered(row: MMA_Atom | Copy_Op) -> bool:
    """Return whether the registry has exactly this row, under the row's own name.

    >>> registered(get("SM61_DP4A")), registered(get_copy("SM75_U32x1_LDSM_N"))
    (True, True)
    """
    try:
        return (get if isinstance(row, MMA_Atom) else get_copy)(str(row)) == row
    except CuteError:
        return False


def _make(
    name: str, args: tuple[Argument | Dtype, ...], named: Mapping[str, Argument | Dtype]
) -> MMA_Atom:
    if not has(name):
        raise _unknown(name)
    module = _module(_home(name))
    row: MMA_Atom = module.row(name, **_bind(name, module.parameters(name), args, named))
    return row


def _bind(
    name: str,
    parameters: tuple[str, ...],
    args: tuple[Argument | Dtype, ...],
    named: Mapping[str, Argument | Dtype],
) -> dict[str, Argument | Dtype]:
    """Return parameter -> argument, with numbers in text converted."""
    bound = {**dict(zip(parameters, args, strict=False)), **named}
    if len(bound) < len(args) + len(named) or not set(named) <= set(parameters):
        given = [str(each) for each in args] + [f"{key}={value}" for key, value in named.items()]
        raise refusal(
            "atom-parameters",
            operation=name,
            given=", ".join(given),
            parameters=", ".join(parameters) or "none",
        )
    return {key: _read(value) for key, value in bound.items()}


def _read(value: Argument | Dtype) -> Argument | Dtype:
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    return value


def _unknown(name: str) -> CuteError:
    hint = suggestion(name, names()) or "find(a=..., arch=...) lists what fits"
    return refusal("atom-unknown", operation="atoms.get", name=name, hint=hint)


def rows() -> Iterator[MMA_Atom]:
    """Yield every MMA row, templates with their default arguments.

    >>> sum(1 for row in rows() if row.name.startswith("SM70"))
    8
    """
    return (get(name) for name in names())


# -- copy instructions

# prefix of the names -> the module with their rows
_COPY_HOMES = {
    "SM50_": "copy_sm80",
    "SM75_": "copy_sm80",
    "SM80_": "copy_sm80",
    "SM90_": "copy_sm90",
    "SM100_": "copy_sm100",
}
_PLAIN = "copy_universal"


def get_copy(name: str, *args: int) -> Copy_Op:
    """Return the copy instruction of a name.

    Args:
        name: CuTe's name; the template arguments may follow as in C++, `UniversalCopy<128>`, or as
            bytes, `SM80_CP_ASYNC_CACHEGLOBAL_16B`.
        args: template arguments, in bits, if the name does not include them.

    Raises LayoutError for an unknown name, and for arguments that the instruction does not have.

    >>> get_copy("UniversalCopy", 128) is get_copy("UniversalCopy<128>")
    True
    >>> print(get_copy("SM80_CP_ASYNC_CACHEGLOBAL_16B"))
    SM80_CP_ASYNC_CACHEGLOBAL<128>
    """
    base, own = _split(name)
    rows, families = _table(_home(base, _COPY_HOMES, _PLAIN))
    if base in rows and not own + args:
        return rows[base]
    if base in families:
        make, usual = families[base]
        return make(*_arguments(base, own + args, usual))
    raise refusal("copy-unknown", operation="get_copy", name=name, nearest=_nearest(base))


def copy_rows() -> tuple[Copy_Op, ...]:
    """Return all rows, templates in their usual widths, oldest first.

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


def needs_arguments(name: str) -> bool:
    """Return whether a copy instruction of this name is one only with template arguments.

    >>> needs_arguments("UniversalCopy"), needs_arguments("SM75_U32x4_LDSM_N")
    (True, False)
    """
    _, families = _table(_home(name, _COPY_HOMES, _PLAIN))
    return name in families and not _has_default(name, families[name][1])


def _split(name: str) -> tuple[str, tuple[int, ...]]:
    """Split a name into the name without template arguments, and the arguments."""
    if not isinstance(name, str):
        raise refusal("copy-op", operation="get_copy", value=name)
    base, bracket, inside = name.partition("<")
    parts = inside.removesuffix(">").split(",") if bracket else []
    whole = not bracket or inside.endswith(">")
    if whole and all(part.strip().isdecimal() for part in parts):
        own = tuple(int(part) for part in parts)
    else:
        raise refusal(
            "copy-unknown",
            operation="get_copy",
            name=name,
            nearest=_nearest(base if whole else name),
        )
    head, _, last = base.rpartition("_")
    if head.startswith("SM80_CP_ASYNC") and last[-1:] == "B" and last[:-1].isdecimal():
        return head, (8 * int(last[:-1]),)
    return base, own


def _arguments(name: str, given: tuple[int, ...], usual: Usual) -> tuple[int, ...]:
    """Return the template arguments."""
    if not given and _has_default(name, usual):
        return usual[0]
    if len(given) != len(usual[0]):
        example = f"{name}<{','.join(map(str, usual[0]))}>"
        raise refusal(
            "copy-arguments", operation="get_copy", name=name, given=given, example=example
        )
    return given


def _has_default(name: str, usual: Usual) -> bool:
    """Return whether the template arguments may be left out, as of cp.async.cg: one width."""
    return len(usual) == 1 and name.startswith("SM80_")


def _table(module: str) -> Table:
    """Return the rows of a module, and its functions of template arguments."""
    home = _module(module)
    return getattr(home, "ROWS", {}), getattr(home, "FAMILIES", {})


def _tables() -> list[Table]:
    return [_table(module) for module in dict.fromkeys((_PLAIN, *_COPY_HOMES.values()))]


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = ", ".join(get_close_matches(name, copy_names(), 3, 0.5))
    return completions(name, map(str, copy_rows())) or f"one of {near or 'copy_rows()'}"
