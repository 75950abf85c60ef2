"""The state of objects written in C: for which types it can be read, and how.

Python shows the slots and the `__dict__` of an object, not the fields of a type that is written in
C. So the state of an object is known if each class that adds such fields has a row here: it is
read, or never changes. The state of all others is unknown, of an iterator or a file, say.
"""

from __future__ import annotations

from functools import lru_cache
from types import MemberDescriptorType

from cute_py.calls.fingerprint.names import place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    Items: TypeAlias = list[tuple[Any, Any]]
    Reader: TypeAlias = Callable[[Any], Items | None]

MISSING = object()  # the value of a cell or a name without one
POINTER = object.__basicsize__ // 2  # bytes
CACHED = type(lru_cache(len))  # what functools.cache and lru_cache return
MOST_KEPT = 256  # results of a function, from where on it costs less to trace


def content(cell: Any) -> object:  # a cell
    """Return the content of a closure cell; MISSING before it has a value."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def contents(value: Any) -> Items | None:
    """Return what an object holds by its row, by key: the items of a container, the plain value of
    a subclassed number or text; None if its attributes are all that it has, or it has no row.
    """
    kind: Any = type(value)
    read = READ.get(row_of(kind) or "")
    return None if read is None else read(value)


@lru_cache(maxsize=4096)
def row_of(kind: Any) -> str | None:
    """Return the name of the row of a class, "" if it adds nothing to `object` that Python does not
    show, None if it does, and has no row.
    """
    chain = [(cls, place_of(cls)) for cls in _bases(kind)]
    constant = next((name for _cls, name in chain if is_constant(name)), None)
    if constant is not None:
        return constant
    for cls, name in chain:
        if name in READ:
            return name
        if _adds_fields(cls):
            return None
    return ""


@lru_cache(maxsize=4096)
def is_constant(row: str | None) -> bool:
    """Return whether objects with a row never change."""
    return row is not None and (row in CONSTANT or row.endswith(_FUNCTIONS) or _RECORD in row)


def _bases(kind: type) -> Iterator[type]:
    """Give a class and the bases that its objects have their fields from."""
    base: type | None = kind
    while base is not None:
        yield base
        base = base.__base__


def _adds_fields(kind: type) -> bool:
    """Return whether the objects of a class have more fields than its base and its slots tell. A
    member of a type written in C is no slot: it may be an address.
    """
    base = kind.__base__
    if base is None:
        return False
    has_dict = kind.__dictoffset__ and not base.__dictoffset__
    entries = vars(kind).values() if "__slots__" in vars(kind) else ()
    shown = sum(isinstance(x, MemberDescriptorType) for x in entries)
    shown += kind.__weakrefoffset__ > 0 and not base.__weakrefoffset__
    shown += bool(has_dict) and (kind.__dictoffset__ > 0 or kind.__itemsize__ > 0)
    same = kind.__itemsize__ == base.__itemsize__
    return not same or kind.__basicsize__ > base.__basicsize__ + POINTER * shown


# -- the rows


def _plain(kind: Any) -> Reader:
    return lambda x: [(kind.__name__, kind.__repr__(x))]


def _items_of(kind: Any) -> Reader:
    return lambda x: list(enumerate(kind.__iter__(x)))


def _named(*names: str) -> Reader:
    return lambda x: [(name, getattr(x, name)) for name in names]


def _of_view(x: memoryview) -> Items | None:
    try:
        return [("form", (x.format, x.shape, x.strides)), ("bytes", x.tobytes())]
    except ValueError:  # released
        return None


def _of_lock(x: Any) -> Items:
    return [("text", repr(x))]


def _of_logger(x: Any) -> Items:
    return [("levels", (x.getEffectiveLevel(), x.disabled, x.manager.disable))]


def _of_reference(x: Any) -> Items | None:
    """Return the object of a weak reference, if its content is what is kept of it."""
    found = x()
    return [("object", found)] if found is None or hasattr(found, "__dict__") else None


def _of_decimal(x: Any) -> Items:
    """Return a number, and the context that operations on it use."""
    from decimal import getcontext

    context = getcontext()
    return [("text", str(x)), ("context", (context.prec, context.rounding))]


def _of_type_statement(x: Any) -> Items | None:
    """Return what has a name by a `type` statement, which is evaluated when it is first needed."""
    try:
        return [("value", x.__value__)]
    except Exception:
        return None


def _as_made(x: Any) -> Items:
    return [("made", x.__reduce__())]


def kept_by(cached: Any) -> tuple[Any, Items] | None:
    """Return the function that `functools.cache` or `lru_cache` wraps, and what it has kept: the
    results by their arguments, as the collector of garbage sees them. None if these are many, or
    are elsewhere than in Python 3.10 to 3.13: the class, a link for each result, all by arguments.
    """
    from gc import get_referents

    try:
        count, most = cached.cache_info().currsize, cached.cache_parameters()["maxsize"]
    except AttributeError:  # of a method, which has no place of its own
        return None
    parts = get_referents(cached) if count <= MOST_KEPT else []
    last = 1 if most is None else 1 + 3 * count  # a link is the arguments, the result, its class
    entries = parts[last] if last + 1 < len(parts) else None
    if type(entries) is not dict or len(entries) != count:
        return None
    if most is None:
        return parts[last + 1], list(entries.items())
    pairs = list(zip(parts[1:last:3], parts[2:last:3], strict=True))
    return (parts[last + 1], pairs) if all(x in entries for x, _result in pairs) else None


def _of_ufunc(x: Any) -> Items | None:
    """Return nothing for a function of numbers; one of objects calls a function of its author."""
    return None if set("".join(x.types)) <= set("O->") else []


# those that keep their parts, though these may change themselves
FIXED: dict[str, Reader] = {
    **{f"builtins.{x.__name__}": _plain(x) for x in (int, float, complex, str, bytes)},
    **{f"builtins.{x.__name__}": _items_of(x) for x in (tuple, frozenset)},
    **dict.fromkeys(("builtins.range", "builtins.slice"), _named("start", "stop", "step")),
    **{f"operator.{x}": _as_made for x in ("attrgetter", "itemgetter", "methodcaller")},
    "types.GenericAlias": _named("__origin__", "__args__"),
    **dict.fromkeys(("types.UnionType", "typing.Union"), _named("__args__")),  # one, from 3.14 on
    "typing.TypeAliasType": _of_type_statement,
    "builtins.super": _named("__thisclass__", "__self_class__", "__self__"),
}

# those that may have other parts later; None: their attributes are all that they have
READ: dict[str, Reader | None] = {
    **FIXED,
    **{f"builtins.{x.__name__}": _items_of(x) for x in (list, set)},
    **{f"builtins.dict_{x}": lambda x: list(enumerate(x)) for x in ("keys", "values", "items")},
    **{f"builtins.odict_{x}": lambda x: list(enumerate(x)) for x in ("keys", "values", "items")},
    "builtins.dict": lambda x: list(dict.items(x)),
    "collections.defaultdict": lambda x: list(dict.items(x)),
    "builtins.mappingproxy": lambda x: list(x.items()),
    "builtins.bytearray": lambda x: [("bytes", bytes(x))],
    "builtins.memoryview": _of_view,
    "builtins.cell": lambda x: [("content", content(x))],
    "builtins.BaseException": _named("args"),
    "collections.OrderedDict": lambda x: list(x.items()),
    "collections.deque": lambda x: [("most", x.maxlen), *enumerate(x)],
    "decimal.Decimal": _of_decimal,
    "array.array": lambda x: [("type", x.typecode), ("bytes", x.tobytes())],
    "contextvars.ContextVar": lambda x: [("value", x.get(MISSING))],
    "contextvars.Context": lambda x: list(x.items()),
    "logging.Logger": _of_logger,
    "weakref.ReferenceType": _of_reference,
    "weakref.finalize": lambda x: [("kept", x.peek())],
    "thread.lock": _of_lock,
    "thread.RLock": _of_lock,
    "numpy.ufunc": _of_ufunc,
    **dict.fromkeys(("functools.partial", "types.SimpleNamespace", "thread._local")),
}

# those that never change, by module; what reads one returns None for those of which that is untrue
CONSTANT = frozenset(
    f"{module}.{name}"
    for module, names in {
        "builtins": (
            "builtin_function_or_method classmethod_descriptor code getset_descriptor "
            "member_descriptor method_descriptor wrapper_descriptor PyCapsule"
        ),
        "collections": "_tuplegetter",
        "struct": "Struct",
        "datetime": "date time timedelta timezone",
        "functools": "_lru_cache_wrapper",
        "numpy": "_ArrayFunctionDispatcher dtype ufunc",
        "pathlib": "PurePath",
        "re": "Match Pattern",
        "torch": "device dtype finfo iinfo layout memory_format qscheme",
        "typing": "ParamSpec TypeVar TypeVarTuple",
        "zoneinfo": "ZoneInfo",
    }.items()
    for name in names.split()
)
_FUNCTIONS = (".cython_function_or_method", ".fused_cython_function", ".nb_func", ".nb_method")
_RECORD = "pybind11_detail_function_record"
