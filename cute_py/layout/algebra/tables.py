"""What `fit` accepts as a table of offsets, read into one flat NumPy array and its shape."""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import Mapped, tuples
from cute_py.layout.coords import coordinates
from cute_py.layout.offsets import MOST, offsets
from cute_py.layout.tuples import canonical, leaves, product, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from cute_py.dtypes.table import Array
    from cute_py.layout.types import IntTuple

BOUND = 1 << 61  # entries lie below in magnitude, so that sums of two differences stay in int64


def read_table(table: object, shape: IntTuple, coshape: IntTuple) -> tuple[Array, IntTuple]:
    """Return the entries in colexicographical order (NumPy int64) and the shape; see `fit`.

    Raises LayoutError for empty, ragged and incomplete tables, shapes of another size and entries
    of 2**61 or more; LeafTypeError for entries that are no integers.
    """
    shape, coshape = _extents(shape), _extents(coshape)
    values, own = _read(table, shape, coshape)
    profile = own if shape is None else shape
    if coshape is not None:
        values = _flattened(values, coshape)
    if values.ndim > 1:
        entry = show(tuple(values[0].tolist()))
        raise refusal("fit-coordinates", operation="fit", entry=entry)
    if len(values) != product(profile):
        raise refusal("fit-shape", operation="fit", count=len(values), shape=show(profile))
    _require_bounded(int(values.min()), int(values.max()))
    return values, profile


def _extents(shape: IntTuple) -> IntTuple:
    if shape is None:
        return None
    return tuples.transform_leaf(lambda x: ints.as_int(x, "fit"), canonical(shape, "fit"))


def _read(table: Any, shape: IntTuple, coshape: IntTuple) -> tuple[Array, IntTuple]:  # noqa: ANN401  (what a user has)
    if isinstance(table, Mapped):
        return offsets(table), table.shape
    if hasattr(table, "keys"):
        return _of_mapping(table)
    if callable(table):
        return _of_function(table, shape), shape
    return _of_array(table, coshape)


# -- functions and dicts


def _of_function(function: Callable[..., Any], shape: IntTuple) -> Array:
    """Return the values at all coordinates; the function takes one argument for each mode."""
    if shape is None:
        raise refusal("fit-function", operation="fit", function=function)
    _require_count(product(shape))
    return _entries([function(*tuples.wrap(coord)) for coord in coordinates(shape)])


def _of_mapping(table: Mapping[IntTuple, Any]) -> tuple[Array, IntTuple]:
    """Return the values by coordinate; the largest coordinates give the shape."""
    keys = {canonical(key, "fit"): key for key in table}
    shape = _spanned(list(keys))
    _require_count(product(shape))
    missing = next((coord for coord in coordinates(shape) if coord not in keys), None)
    if missing is not None:
        facts = {"missing": show(missing), "shape": show(shape)}
        raise refusal("fit-incomplete", operation="fit", count=len(keys), **facts)
    return _entries([table[keys[coord]] for coord in coordinates(shape)]), shape


def _spanned(coords: list[IntTuple]) -> IntTuple:
    """Return the smallest shape with these coordinates."""
    if not coords:
        raise refusal("fit-empty", operation="fit")
    shape = tuples.repeat_like(coords[0], 1)
    for coord in coords:
        if not tuples.congruent(coord, shape) or any(c < 0 for c in leaves(coord)):
            raise refusal("fit-key", operation="fit", key=show(coord), first=show(coords[0]))
        shape = tuples.transform_leaf(lambda extent, c: max(extent, c + 1), shape, coord)
    return shape


def _entries(values: list[Any]) -> Array:
    """Return values as an array; coordinates as flat rows."""
    if any(value.__class__ is tuple for value in values):
        values = [list(leaves(value)) for value in values]
    return _integers(values)


# -- arrays


def _of_array(table: object, coshape: IntTuple) -> tuple[Array, IntTuple]:
    """Return an n-d array's entries: its axes are the modes, the first the fastest; coordinates lie
    along one more axis.
    """
    array = _integers(table)
    rows = array.shape[-1:] if coshape is not None and array.ndim > 1 else ()
    axes = array.shape[: array.ndim - len(rows)]
    return array.reshape(-1, *rows, order="F"), axes[0] if len(axes) == 1 else axes


def _integers(table: Any) -> Array:  # noqa: ANN401  (what a user has)
    """Return a NumPy int64 array; refuse all but integers that it holds."""
    import numpy as np

    try:
        array = np.asarray(table)
    except ValueError:
        raise refusal("fit-ragged", operation="fit") from None
    if array.size == 0 or array.ndim == 0:
        raise refusal("fit-empty", operation="fit")
    _require_count(array.size)
    if array is not table:
        _require_no_bool(table)
    if array.dtype.kind not in "iu":
        for entry in np.asarray(table, dtype=object).flat:
            ints.normalize(entry, "fit", ", in tables of one length")
        array = np.asarray(table, dtype=object)
    if array.dtype.kind != "i":
        _require_bounded(int(array.min()), int(array.max()))
    return array.astype(np.int64, copy=False)


def _require_no_bool(table: object) -> None:
    if isinstance(table, (list, tuple)):
        kinds = set(map(type, table))
        if any(kind.__name__ in ("bool", "bool_") for kind in kinds):
            raise refusal("leaf-type", operation="fit", value=table, type="with bools", also="")
        if kinds & {list, tuple}:
            for part in table:
                _require_no_bool(part)


def _flattened(values: Array, coshape: IntTuple) -> Array:
    """Return the colexicographical index in coshape of every row."""
    extents = list(leaves(coshape))
    if values.ndim == 1 or values.shape[1] != len(extents):
        entry = show(tuple(values[0].tolist())) if values.ndim > 1 else int(values[0])
        raise refusal("fit-entry", operation="fit", entry=entry, coshape=show(coshape))
    outside = ((values < 0) | (values >= extents)).any(axis=1)
    if outside.any():
        entry = show(tuple(values[int(outside.argmax())].tolist()))
        raise refusal("fit-entry", operation="fit", entry=entry, coshape=show(coshape))
    _require_bounded(0, product(coshape) - 1)
    steps = list(leaves(tuples.prefix_product(coshape)))
    return (values * steps).sum(axis=1)  # type: ignore[no-any-return]


# -- limits


def _require_count(count: int) -> None:
    if count > MOST:
        raise refusal("fit-size", operation="fit", count=count, limit=MOST)


def _require_bounded(low: int, high: int) -> None:
    if max(-low, high) >= BOUND:
        raise refusal("fit-range", operation="fit", value=high if high >= BOUND else low)
