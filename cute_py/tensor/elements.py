"""The elements of a tensor: bounds checks against the memory of its engine, and conversion to and
from NumPy arrays.

The extreme offsets of an all-int layout are sums of its strides; those of a swizzled layout are in
the swizzle periods around them. So the check costs a few additions. Only a layout that may be out
of bounds is enumerated, to name the first coordinate that is.
"""

from __future__ import annotations

from cute_py.dtypes.packing import exact_image
from cute_py.errors import refusal
from cute_py.layout import AbstractTensor, tuples
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.coords import coordinates, idx2crd
from cute_py.layout.layout import BASIS, INTS, Layout
from cute_py.layout.offsets import MOST, offsets
from cute_py.layout.tuples import show
from cute_py.tensor.engine import Coordinates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.dtypes.table import Array, Dtype
    from cute_py.layout.composed import ComposedLayout
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf
    from cute_py.tensor.engine import Engine
    from cute_py.tensor.tensor import Tensor


def require_inside(engine: Engine, layout: AnyLayout, operation: str) -> None:
    """Refuse a layout that is out of bounds, naming the first coordinate that is.

    If the size of the memory or the offsets are not known yet (symbols), nothing is refused here:
    each access is checked instead.
    """
    size, origin = engine.size, engine.offset
    if size.__class__ is not int or origin.__class__ is not int:
        return
    ends = extremes(layout)
    if ends is None or (ends[0] >= -origin and ends[1] < size - origin):
        return
    index = _first_outside(layout, -origin, size - origin)
    if index is not None:
        coord = idx2crd(index, layout.shape)
        refuse_offset(engine, layout, coord, layout(coord), operation)


def require_offset(engine: Engine, layout: AnyLayout, coord: IntTuple, offset: Leaf) -> None:
    """Refuse the offset of one coordinate if it is known to be outside the engine's memory."""
    size, origin = engine.size, engine.offset
    known = size.__class__ is int and origin.__class__ is int and offset.__class__ is int
    if known and not 0 <= origin + offset < size:
        refuse_offset(engine, layout, coord, offset, "Tensor")


def refuse_offset(
    engine: Engine, layout: AnyLayout, coord: IntTuple, offset: Leaf, operation: str
) -> None:
    """Refuse the offset that a coordinate has."""
    raise refusal(
        "tensor-bounds",
        operation=operation,
        layout=layout,
        engine=engine,
        coord=show(coord),
        offset=offset,
        low=-engine.offset,
        high=engine.size - engine.offset - 1,
    )


def extremes(layout: Alike) -> tuple[int, int] | None:
    """Return bounds (low, high) of the offsets, tight for a plain layout; None for symbols or
    coordinates.
    """
    if layout.__class__ is Layout:
        if layout._kind != INTS:
            return None
        return reach(layout)
    inner = extremes(layout.inner)
    if inner is None or layout.offset.__class__ is not int:
        return None
    low, high = inner[0] + layout.offset, inner[1] + layout.offset
    period = getattr(layout.outer, "period", None)
    if low >= 0 and period is not None:
        return low // period * period, (high // period + 1) * period - 1
    return _enumerated(layout)


def reach(layout: Layout) -> tuple[int, int]:
    """Return the least and the greatest offset of a layout of integers.

    >>> reach(Layout((4, 8), (-1, 4)))
    (-3, 28)
    """
    steps = [(s - 1) * d for s, d in zip(layout._s, layout._d, strict=True)]
    return sum([step for step in steps if step < 0]), sum([step for step in steps if step > 0])


def _enumerated(layout: ComposedLayout) -> tuple[int, int]:
    table = layout.offsets()
    return int(table.min()), int(table.max())


def _first_outside(layout: Alike, low: int, high: int) -> int | None:
    """Return the first index whose offset is not in low ... high - 1, or None; of a layout too
    large to enumerate, the index of an extreme offset.
    """
    if layout.__class__ is Layout and layout.size() > MOST:
        highest = extremes(layout)[1] >= high  # type: ignore[index]
        return _corner(layout, 1 if highest else -1)
    table = layout.offsets()
    outside = (table < low) | (table >= high)
    return int(outside.argmax()) if outside.any() else None


def _corner(layout: Layout, sign: int) -> int:
    """Return the index at which every mode with a stride of this sign is at its end."""
    index, size = 0, 1
    for extent, step in zip(layout._s, layout._d, strict=True):
        index += (extent - 1) * size if step * sign > 0 else 0
        size *= extent
    return index


def yields_coordinates(layout: AnyLayout) -> bool:
    """Return whether the layout yields coordinates instead of offsets."""
    return layout.__class__ is Layout and layout._kind == BASIS


# -- all elements: gather, scatter, conversion to a dtype


def axes(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of the array of all elements: the sizes of the top-level modes."""
    return tuples.product_each(tensor.shape)


def to_numpy(tensor: Tensor) -> Array:
    """Return a copy of the elements, one axis for each top-level mode; see `Tensor.to_numpy`."""
    if isinstance(tensor.engine, Coordinates):
        return _coordinates(tensor)
    require_inside(tensor.engine, tensor.layout, "to_numpy")
    table = tensor.engine.gather(_offsets(tensor))
    return table.reshape(axes(tensor), order="F")


def _offsets(tensor: Tensor) -> Array:
    import numpy as np

    if tensor.shape == ():
        return np.array([tensor.layout(())])
    return offsets(tensor.layout)


def _coordinates(tensor: Tensor) -> Array:
    """Return the coordinates that are the elements; the leaves of a tuple form the last axis."""
    import numpy as np

    rows = [list(tuples.leaves(tensor[c])) for c in coordinates(tensor.shape)]
    table = np.array(rows, dtype=np.int64)
    shape = axes(tensor)
    if tensor.engine.offset.__class__ is not tuple:
        return table.reshape(shape, order="F")
    columns = [column.reshape(shape, order="F") for column in table.T]
    return np.stack(columns, axis=-1)


def as_array(tensor: Tensor, dtype: Any, copy: bool | None) -> Array:
    """Return the elements for NumPy's `__array__`; always a copy, so copy=False is refused."""
    if copy is False:
        raise refusal("tensor-no-view", operation="numpy.asarray", tensor=tensor)
    table = to_numpy(tensor)
    return table if dtype is None else table.astype(dtype)


def stored(values: Any, dtype: Dtype, engine: Engine) -> Array:
    """Return values as an array of the dtype: floats rounded to nearest even, integers unchanged;
    refuse integers out of range and other types.
    """
    import numpy as np

    if dtype is None:
        raise refusal("engine-unreadable", operation="Tensor", engine=engine)
    if dtype.is_float:
        from cute_py.dtypes.conversion import convert

        return np.asarray(convert(values, dtype))
    exact_image(values, dtype, "Tensor")
    return np.asarray(values).astype(dtype.numpy)


def assign(tensor: Tensor, source: Any) -> None:
    """Store all elements; see `Tensor.copy_`."""
    import numpy as np

    given = source.to_numpy() if isinstance(source, AbstractTensor) else source
    values = stored(given, tensor.dtype, tensor.engine)
    shape = axes(tensor)
    if values.ndim and values.shape != shape:
        raise refusal("tensor-shape", operation="copy_", given=values.shape, shape=shape)
    require_inside(tensor.engine, tensor.layout, "copy_")
    places = _offsets(tensor)
    flat = np.broadcast_to(values, shape).reshape(-1, order="F")
    if _surely_injective(tensor.layout):
        tensor.engine.scatter(places, flat)
        return
    distinct, first, cell = np.unique(places, return_index=True, return_inverse=True)
    if len(distinct) < len(places):
        _require_agreement(tensor.layout, places, flat, first[cell.reshape(-1)])
    tensor.engine.scatter(distinct, flat[first])


def _surely_injective(layout: Alike) -> bool:
    """Return whether every stride is larger than the reach of all smaller strides: then no two
    coordinates have the same offset. A swizzle does not matter, since it is a bijection.
    """
    if layout.__class__ is not Layout:
        return layout.outer.__class__ is Swizzle and _surely_injective(layout.inner)
    reach = 0
    leaves = zip(layout._s, layout._d, strict=True)
    for step, extent in sorted([(abs(step), extent) for extent, step in leaves if extent > 1]):
        if step <= reach:
            return False
        reach += (extent - 1) * step
    return True


def _require_agreement(layout: AnyLayout, places: Array, flat: Array, first: Array) -> None:
    """Refuse two values for one offset; `first` is the first index with the offset of each."""
    departs = flat != flat[first]
    if departs.any():
        index = int(departs.argmax())
        raise refusal(
            "tensor-overlap",
            operation="copy_",
            layout=layout,
            a=show(idx2crd(int(first[index]), layout.shape)),
            b=show(idx2crd(index, layout.shape)),
            offset=int(places[index]),
        )
