"""The registry of MMA rows: from a name to a row, loading the family's module on first use.

A name may carry template arguments as in C++: `SM90_64x64x16_F32F16F16_SS<K,MN>`.
"""

from __future__ import annotations

from importlib import import_module

from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.table import Dtype
from cute_py.errors import CuteError, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import ModuleType

    from cute_py.atoms.mma import Argument

# prefix of the names -> the module that makes their rows (`NAMES`, `parameters`, `row`)
_HOMES = {
    "UniversalFMA": "fma",
    "SM80_SPARSE_": "sm80_sparse",
    "SM90_64x": "sm90_gmma",
    "SM90_SPARSE_": "sm90_gmma",
    "SM100_": "sm100",
    "SM120_": "sm120",
}
_LISTED = "mma_rows"  # which lists all others (`ROWS`)

_cache: dict[str, MMA_Atom] = {}


def _module(name: str) -> ModuleType:
    return import_module(f"cute_py.atoms.{name}")


def _home(name: str) -> str:
    """Return the module that must define a row of this name."""
    return next((home for prefix, home in _HOMES.items() if name.startswith(prefix)), _LISTED)


def _names(home: str) -> Iterable[str]:
    module = _module(home)
    found: Iterable[str] = module.ROWS if home == _LISTED else module.NAMES
    return found


def names() -> tuple[str, ...]:
    """Return the names of all MMA rows, templates without arguments, oldest family first.

    >>> len(names()) > 1000, names()[:2]
    (True, ('UniversalFMA', 'SM61_DP4A'))
    """
    first, *rest = dict.fromkeys(_HOMES.values())
    return tuple([name for home in (first, _LISTED, *rest) for name in _names(home)])


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


def registered(atom: MMA_Atom) -> bool:
    """Return whether the registry has exactly this row.

    >>> registered(get("SM61_DP4A"))
    True
    """
    try:
        return get(str(atom)) == atom
    except CuteError:
        return False


def _make(
    name: str, args: tuple[Argument | Dtype, ...], named: Mapping[str, Argument | Dtype]
) -> MMA_Atom:
    if not has(name):
        raise _unknown(name)
    home = _home(name)
    module = _module(home)
    parameters = () if home == _LISTED else module.parameters(name)
    bound = _bind(name, parameters, args, named)
    row: MMA_Atom = module.ROWS[name] if home == _LISTED else module.row(name, **bound)
    return row


def _bind(
    name: str,
    parameters: tuple[str, ...],
    args: tuple[Argument | Dtype, ...],
    named: Mapping[str, Argument | Dtype],
) -> dict[str, Argument | Dtype]:
    """Return parameter -> argument, numbers in text read as numbers."""
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
    from difflib import get_close_matches

    near = get_close_matches(name, names(), 3, 0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "find(a=..., arch=...) lists what fits"
    return refusal("atom-unknown", operation="atoms.get", name=name, hint=hint)


def rows() -> Iterator[MMA_Atom]:
    """Yield every MMA row, templates with their default arguments.

    >>> sum(1 for row in rows() if row.name.startswith("SM70"))
    8
    """
    return (get(name) for name in names())
