"""The arguments of a kernel: arrays, run-time numbers and compile-time values.

An array becomes a parameter with run-time sizes and strides. Its unit stride is static. The
divisibility of the other sizes and strides, up to 16 bytes, is read from the array and is part of
the plan's key. A parameter annotated with a dtype is a run-time number. Any other argument is a
compile-time value.
"""

from __future__ import annotations

import builtins
import sys
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from math import gcd, isfinite, lcm, nan
from typing import NamedTuple

from cute_py.calls.arrays import (
    LIBRARIES,
    PLAIN,
    READERS,
    VECTOR_BYTES,
    Table,
    TypedArray,
    address_of,
    dtype_of,
    extents_of,
    imported,
    is_array,
    require_plain_values,
    unit_mode,
    unwrapped,
)
from cute_py.calls.fingerprint import is_plain, static_key
from cute_py.calls.fingerprint.values import arrays_in, is_frozen
from cute_py.calls.torch_tensors import require_no_gradient
from cute_py.dtypes.packing import PACKED
from cute_py.dtypes.table import Dtype, Promised, b1
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal, where
from cute_py.integers import ints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.dtypes.table import DtypeLike


@dataclass(frozen=True, slots=True)
class Spec:
    """What a kernel's annotation promises of an array; see `spec`."""

    divisible_by: int | tuple[int, ...] | None = None
    shape: tuple[int | None, ...] | None = None
    alignment: int | None = None
    large: bool = False
    stride: tuple[int | None, ...] | None = None

    def require_rank(self, name: str, rank: int) -> None:
        """Refuse an array whose number of modes differs from the promise."""
        for given in (self.divisible_by, self.shape, self.stride):
            if isinstance(given, tuple) and len(given) != rank:
                raise refusal("argument-spec", operation="kernel", name=name, rank=rank, spec=given)

    def of_mode(self, mode: int, rank: int) -> tuple[int, int | None]:
        """Return (divisor, fixed extent or None) of a mode."""
        given = self.divisible_by
        divisor = 1 if given is None else given[mode] if isinstance(given, tuple) else given
        fixed = None if self.shape is None else self.shape[mode]
        return divisor, fixed


ANY = Spec()


def spec(
    divisible_by: int | tuple[int, ...] | None = None,
    shape: int | tuple[int | None, ...] | None = None,
    alignment: int | None = None,
    large: bool = False,
    stride: int | tuple[int | None, ...] | None = None,
) -> Spec:
    """Annotate a kernel's parameter with properties that every array passed to it must have.

    Args:
        divisible_by: a divisor of every extent, or one divisor per mode.
        shape: the static extents, None for run-time ones; an integer for an array of one mode.
        alignment: the alignment of the first element (bytes).
        large: whether extents, and what the host computes from them (the grid, numbers of tiles),
            may be 2**31 or more. The kernel then computes with them in 64 bits.
        stride: the static strides (elements), None for run-time ones; an integer for an array of
            one mode. With the static extents the layout of the array is then static.

    Every launch checks them.
    """
    for each in stride if isinstance(stride, tuple) else (stride,):
        if each is not None and ints.less(ints.normalize(each, "cute.spec"), 0):
            raise refusal("argument-stride", operation="cute.spec", name="stride", strides=stride)
    for value in (divisible_by, shape, alignment):
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None and ints.less(ints.normalize(each, "cute.spec"), 1):
                raise refusal("extent-not-positive", operation="cute.spec", value=each, mode=())
    shape, stride = ((x,) if isinstance(x, int) else x for x in (shape, stride))
    return Spec(divisible_by, shape, alignment, large, stride)


def typed(array: Any, dtype: DtypeLike, packed: bool = False) -> TypedArray:  # any array
    """Return an array whose elements are read as tf32, s4, u4, b1 ..., which NumPy has no type for.

    Args:
        array: an array of the storage type of `dtype` (`dtype.numpy`), one value per element; if
            packed, an array of integers, the words.
        dtype: the type of the elements; if packed, one of 1, 2 or 4 bits.
        packed: whether the words hold their elements without gaps, low element first. Shape and
            strides then count elements: the contiguous mode is longer than that of the words.

    Raises LeafTypeError for another type of array.

    >>> import numpy as np
    >>> typed(np.zeros((4, 8), np.float32), "tf32").dtype
    cute.tf32
    >>> typed(np.zeros((4, 8), np.uint8), "s4", packed=True).packed  # (4, 16) elements
    True
    """
    kind = as_dtype(dtype)
    found = dtype_of(array)
    if packed:
        if kind.bits not in PACKED or not found.is_integer or found.bits < 8:
            raise refusal("argument-packed", operation="typed", dtype=kind, given=found)
        extents_of(words := TypedArray(array, kind, packed=True))
        return words
    if found is not kind and kind.numpy != found.numpy:
        raise refusal("argument-type", operation="typed", dtype=kind, given=found)
    return TypedArray(array, kind)


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """The properties of an array that a kernel is specialized for: part of the plan's key."""

    dtype: Dtype
    extents: tuple[tuple[int, int | None], ...]  # per mode: divisor, fixed extent
    strides: tuple[tuple[int, int | None], ...]  # per mode: divisor (elements), fixed stride
    alignment: int  # bytes
    packed: bool = False
    members: Any = None  # of a table of pointers, the facts that its arrays share
    large: bool = False  # whether extents may be EXTENT or more
    small: bool = False  # whether offsets are at most REACH bytes


REACH = (1 << 31) - 1  # bytes: kernels compute offsets up to here in 32 bits
EXTENT = 1 << 31  # extents are smaller, unless `spec(large=True)` says otherwise


# -- reading arrays


_known_facts: dict[Any, ArrayFacts] = {}  # by the result of the array's reader, and the promise


def array_facts(x: Any, promise: Spec, name: str) -> ArrayFacts:
    """Return the facts of an array, checked against the promise."""
    if unwrapped(x).__class__ not in LIBRARIES or VECTOR_BYTES % (promise.alignment or 1):
        return _array_facts(x, promise, name)
    key = READERS[x.__class__](x)[0], promise
    found = _known_facts.get(key)
    if found is None:
        if len(_known_facts) >= 4096:
            _known_facts.clear()
        found = _known_facts[key] = _array_facts(x, promise, name)
    return found


def _array_facts(x: Any, promise: Spec, name: str) -> ArrayFacts:
    dtype = dtype_of(x)
    array = unwrapped(x)
    require_plain_values(array, name)
    shape, strides = extents_of(x)
    address = address_of(array)
    if any(d < 0 for d in strides):
        raise refusal("argument-stride", operation="kernel", name=name, strides=strides)
    if any(s == 0 for s in shape):
        raise refusal("array-empty", operation="kernel", name=name, shape=shape)
    promise.require_rank(name, len(shape))
    _check_promise(promise, name, shape, address)
    fixed_strides = promise.stride or (None,) * len(shape)
    _check_strides(fixed_strides, strides, name)
    alignment = promise.alignment or gcd(address, VECTOR_BYTES) or VECTOR_BYTES
    unit = max(min(alignment, VECTOR_BYTES) * 8 // dtype.bits, 1)  # elements of the widest vector
    contiguous = unit_mode(strides)
    extents = []
    for mode, extent in enumerate(shape):
        divisor, fixed = promise.of_mode(mode, len(shape))
        if mode == contiguous:
            divisor = lcm(divisor, gcd(extent, unit))
        extents.append((divisor, fixed))
    steps: list[tuple[int, int | None]] = []
    for mode, stride in enumerate(strides):
        if mode == contiguous or stride == 0 or fixed_strides[mode] is not None:
            steps.append((1, stride))
        else:
            steps.append((gcd(stride, unit), None))
    packed = isinstance(x, TypedArray) and x.packed
    small = is_small((shape, strides), dtype)
    facts = dtype, tuple(extents), tuple(steps), alignment
    return ArrayFacts(*facts, packed, None, promise.large, small)


def is_small(extents: tuple[tuple[int, ...], tuple[int, ...]], dtype: Dtype) -> bool:
    """Return whether no offset of an array's elements, and no stride, exceeds REACH bytes."""
    shape, strides = extents
    last = sum([(n - 1) * d for n, d in zip(shape, strides, strict=True)])
    return max(last + 1, *strides) * max(dtype.bits // 8, 1) <= REACH


def _check_promise(promise: Spec, name: str, shape: tuple[int, ...], address: int) -> None:
    for mode, extent in enumerate(shape):
        if extent >= EXTENT and not promise.large:
            raise refusal("argument-large", operation="kernel", name=name, extent=extent, mode=mode)
        divisor, fixed = promise.of_mode(mode, len(shape))
        if extent % divisor or (fixed is not None and extent != fixed):
            wanted = f"{fixed}" if fixed is not None else f"a multiple of {divisor}"
            raise refusal(
                "argument-promise",
                operation="kernel",
                name=name,
                extent=extent,
                mode=mode,
                wanted=wanted,
            )
    if promise.alignment and address % promise.alignment:
        wanted = f"aligned to {promise.alignment} bytes"
        raise refusal(
            "argument-promise",
            operation="kernel",
            name=name,
            extent=hex(address),
            mode="address",
            wanted=wanted,
        )


def _check_strides(promised: tuple[int | None, ...], strides: tuple[int, ...], name: str) -> None:
    for mode, (stride, wanted) in enumerate(zip(strides, promised, strict=True)):
        if wanted is not None and stride != wanted:
            raise refusal(
                "argument-promise",
                operation="kernel",
                name=name,
                extent=f"stride {stride}",
                mode=mode,
                wanted=f"stride {wanted}",
            )


# -- the arguments of a call


class Argument(NamedTuple):
    """One argument: an array, a run-time number, or a compile-time value.

    A tuple, list, dict or dataclass that contains arrays is a group: `parts`, by `keys`.
    """

    name: str
    kind: str  # array | number | static | group
    value: Any
    facts: Any = None  # ArrayFacts, or the Dtype of a number
    parts: tuple[Argument, ...] = ()
    keys: tuple[Any, ...] = ()

    @property
    def key(self) -> Any:  # hashable
        """What a plan depends on, in addition to `statics`."""
        if self.kind == "group":
            keys = tuple([static_key(key) for key in self.keys])
            return type(self.value), keys, tuple([part.key for part in self.parts])
        if self.kind == "static":
            return static_key(self.value) if is_plain(self.value) else type(self.value)
        return self.kind, self.facts

    def statics(self) -> list[Any]:
        """Return the compile-time values that refer to others, and the classes of groups."""
        if self.kind == "group":
            kind = [] if type(self.value) in (tuple, list, dict) else [type(self.value)]
            return [*kind, *[x for part in self.parts for x in part.statics()]]
        plain = is_plain(self.value) and type(self.value) is not str  # a name, perhaps
        return [] if self.kind != "static" or plain else [self.value]

    def leaves(self) -> list[Argument]:
        """Return the arrays and run-time numbers, in order."""
        if self.kind == "group":
            return [leaf for part in self.parts for leaf in part.leaves()]
        return [] if self.kind == "static" else [self]


MOST = 4096  # classified records; when there are more, all are evicted
# (identity of a frozen record, name) -> the record, the annotation, and the argument
_STATICS: dict[tuple[int, str], tuple[Any, object, Argument]] = {}


def classify(
    name: str,
    value: Any,
    annotation: object,
    taken: set[str] | None = None,
    outer: tuple[int, ...] = (),
) -> Argument:
    """Classify an argument by its value and the annotation of its parameter.

    Args:
        name: the name of the parameter.
        value: the value that the caller passed.
        annotation: a Spec, the Dtype of a run-time number or of an array's elements, or anything.
        taken: the names already used in the plan; the argument adds its own, which are new.
        outer: ids of the containers that the value is part of.

    """
    taken = set() if taken is None else taken
    known = _STATICS.get((id(value), name))
    if known is not None and known[0] is value and known[1] is annotation:
        return known[2]
    no_array = value.__class__ in PLAIN
    if no_array and not isinstance(annotation, (Dtype, Promised)):
        return Argument(name, "static", value)
    if not no_array and is_array(value := imported(value)):
        promise = annotation if isinstance(annotation, Spec) else ANY
        if isinstance(value, Table):
            return _table(name, value, annotation, taken)
        facts = array_facts(value, promise, name)
        if isinstance(annotation, Promised):
            annotation = annotation.dtype
        if isinstance(annotation, Dtype) and facts.dtype is not annotation:
            raise refusal("argument-type", operation=name, given=facts.dtype, dtype=annotation)
        return Argument(_unused(name, len(facts.extents), taken), "array", value, facts)
    if isinstance(annotation, (Dtype, Promised)):
        held = number(value, annotation, name)
        return Argument(_unused(name, 0, taken), "number", held, annotation)
    if getattr(value, "shape", None) == () and hasattr(value, "__setitem__"):
        raise refusal("argument-modes", operation="kernel", name=name)
    if id(value) in outer:
        raise refusal("argument-recursive", operation=name, type=type(value).__name__)
    outer = (*outer, id(value))
    keys, mine = [], set(taken)
    found = []
    for i, (key, part) in enumerate(_parts(value)):
        word = key if isinstance(key, str) and key.isidentifier() else i
        found.append(classify(f"{name}_{word}", part, _note(value, key, annotation), mine, outer))
        keys.append(key)
    if all(part.kind == "static" for part in found):
        if isinstance(annotation, Spec) and isinstance(value, (list, tuple)):
            raise refusal("argument-list", operation=name, type=type(value).__name__)
        _require_no_arrays(name, value)
        static = Argument(name, "static", value)
        if found and is_frozen(value):  # a record, which may have many parts
            if len(_STATICS) >= MOST:
                _STATICS.clear()
            _STATICS[id(value), name] = value, annotation, static
        return static
    taken |= mine
    return Argument(name, "group", value, None, tuple(found), tuple(keys))


def is_frozen_argument(argument: Argument) -> bool:
    """Return whether an argument is a frozen record that was classified before."""
    known = _STATICS.get((id(argument.value), argument.name))
    return known is not None and known[2] is argument


def _table(name: str, value: Table, annotation: object, taken: set[str]) -> Argument:
    """Return a table of pointers as an argument; an annotation is about its arrays."""
    members, facts = value.members, array_facts(value, Spec(), name)
    if isinstance(annotation, Dtype) and members.dtype is not annotation:
        raise refusal("argument-type", operation=name, given=members.dtype, dtype=annotation)
    if isinstance(annotation, Spec):
        value.require(annotation)
    row = value.array.shape[1]
    shape, strides = ((1, None), (1, row)), ((1, row), (1, 1))
    facts = replace(facts, extents=shape, strides=strides, members=members)
    return Argument(_unused(name, 2, taken), "array", value, facts)


_RESERVED = ("tid", "bid_x", "bid_y", "bid_z")


def _unused(name: str, rank: int, taken: set[str]) -> str:
    """Return the name, with underscores appended until neither it nor the names of its sizes are
    used in the plan, and mark these names as taken.
    """
    while not taken.isdisjoint(_own(name, rank)) or name in _RESERVED:
        name += "_"
    taken |= _own(name, rank)
    return name


@lru_cache(maxsize=4096)
def _own(name: str, rank: int) -> frozenset[str]:
    """Return the names of an array in a plan: its own, and those of its sizes."""
    return frozenset([name, *[f"{name}_{w}{i}" for w in ("shape", "stride") for i in range(rank)]])


def _parts(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, (tuple, list)):
        return list(enumerate(value))
    if isinstance(value, dict):
        return list(value.items())
    if is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in fields(value)]
    return []


def _note(value: object, key: object, annotation: object) -> object:
    """Return the annotation of a part: that of the dataclass field, or else that of the group."""
    if not is_dataclass(value):
        return annotation
    note = _field_note(value.__class__, key)
    return note if isinstance(note, (Dtype, Promised, Spec)) else annotation


@lru_cache(maxsize=1024)  # a dataclass is annotated once, a kernel is called often
def _field_note(cls: Any, key: object) -> object:  # a dataclass
    note = next(f.type for f in fields(cls) if f.name == key)
    if isinstance(note, str):
        note = _evaluated(note, vars(sys.modules.get(cls.__module__, builtins)))
    return _promise(str(key), note)


def _require_no_arrays(name: str, value: object) -> None:
    if next(arrays_in(value, is_array), None) is not None:
        raise refusal("argument-hidden", operation=name, type=type(value).__name__)


def rebuilt(argument: Argument, made: dict[str, object]) -> Any:
    """Return the value passed to the kernel function, with traced leaves."""
    if argument.kind != "group":
        return argument.value if argument.kind == "static" else made[argument.name]
    parts = [rebuilt(part, made) for part in argument.parts]
    cls = type(argument.value)
    if is_dataclass(cls):
        new = copy(argument.value)
        for name, part in zip(argument.keys, parts, strict=True):
            object.__setattr__(new, name, part)
        return new
    if isinstance(argument.value, dict):
        return cls(zip(argument.keys, parts, strict=True))
    return cls(*parts) if hasattr(cls, "_fields") else cls(parts)


def annotations_of(function: Callable[..., Any]) -> dict[str, object]:
    """Return the annotations of a function as values; one that does not evaluate stays text."""
    found: dict[str, object] = {}
    scope = {**function.__globals__, **_closure(function)}
    for name, note in getattr(function, "__annotations__", {}).items():
        found[name] = _promise(name, _evaluated(note, scope) if isinstance(note, str) else note)
    return found


def _promise(name: str, note: Any) -> object:
    """Return what an annotation says of an argument: of `Annotated[type, ...]` the promise that is
    among the rest, or the type. Refuse several promises, and one of another type.
    """
    note = _meant(note)
    if not hasattr(note, "__metadata__"):
        return note
    kind = _meant(note.__origin__)
    found = [x for x in note.__metadata__ if isinstance(x, (Spec, Dtype, Promised))]
    if not found:
        return kind
    other = isinstance(kind, Dtype) and getattr(found[0], "dtype", found[0]) is not kind
    if len(found) > 1 or other:
        shown = ", ".join(map(str, [kind, *found]))
        raise refusal("argument-annotated", operation="kernel", name=name, value=shown)
    return found[0]


def _meant(note: Any, depth: int = 8) -> object:
    """Return what has a name by a `type` statement (Python 3.12), or by some that name each other;
    the name if it cannot be evaluated.
    """
    try:
        return _meant(note.__value__, depth - 1) if depth and hasattr(note, "__value__") else note
    except Exception:
        return note


def _evaluated(text: str, scope: dict[str, Any]) -> object:
    """Return the value of an annotation's text; the text itself if it cannot be evaluated."""
    try:
        return eval(text, scope)
    except Exception:
        return text


def _closure(function: Callable[..., Any]) -> dict[str, object]:
    cells = function.__closure__ or ()
    found = {}
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


# -- numbers


@lru_cache(maxsize=256)
def number_of(kind: Dtype | Promised) -> Callable[[Any], Any]:
    """Return the function that converts a number of Python. It returns None where `number` must
    decide: the number is out of range, or of another library.
    """
    if isinstance(kind, Promised):
        least, greatest = kind.bounds
        unit = kind.multiple_of
        if unit > 1:
            return lambda x: (
                x if x.__class__ is int and least <= x <= greatest and not x % unit else None
            )
        return lambda x: x if x.__class__ is int and least <= x <= greatest else None
    if kind is b1:
        return lambda x: x if x.__class__ is bool else None
    low, most = kind.min, kind.max
    if not kind.is_float:
        return lambda x: x if x.__class__ is int and low <= x <= most else None

    def real(x: Any) -> float | None:
        if x.__class__ is float:
            if x != x:
                return nan  # one object, so that ops with it are equal to each other
            return x if -most <= x <= most or not isfinite(x) else None
        return float(x) if x.__class__ is int and -most <= x <= most else None

    return real


def number(x: object, kind: Dtype | Promised, name: str) -> int | float | bool:
    """Convert a Python or NumPy number to a type; refuse what the type cannot represent, and what
    its promises exclude.
    """
    quick: int | float | bool | None = number_of(kind)(x)
    if quick is not None:
        return quick
    if isinstance(kind, Promised):
        value = number(x, kind.dtype, name)
        if not kind.admits(int(value)):
            low, high = kind.bounds
            wanted = f"from {low} to {high}"
            wanted += f", a multiple of {kind.multiple_of}" if kind.multiple_of > 1 else ""
            raise refusal("argument-number", operation="kernel", name=name, value=value,
                          wanted=wanted, where=where())  # fmt: skip
        return value
    if x.__class__ not in PLAIN:
        if getattr(x, "ndim", 0):
            raise refusal("kernel-number", operation=name, value=x, dtype=kind, where=where())
        require_no_gradient(x, name, "kernel")
        if hasattr(x, "item"):
            x = x.item()
    if kind is b1 and isinstance(x, bool):
        return x
    real = isinstance(x, (int, float)) and not isinstance(x, bool)
    if kind.is_float and real and _fits(x, kind):  # type: ignore[arg-type]
        return float(x)  # type: ignore[arg-type]
    if not kind.is_float and hasattr(x, "__index__") and not isinstance(x, (bool, type)):
        value = int(x)
        if kind.min <= value <= kind.max:
            return value
    raise refusal("kernel-number", operation=name, value=x, dtype=kind, where=where())


def _fits(x: float, kind: Dtype) -> bool:
    """Return whether a number is infinite or NaN, or rounds to a value of the type."""
    if not isinstance(x, int) and not isfinite(x):
        return True
    return abs(x) <= kind.max * (1 + 2**-25)
