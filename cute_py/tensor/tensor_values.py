"""All elements of a tensor at once, as NumPy arrays: gather, scatter, what a dtype can store."""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout import AbstractTensor, tuples
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.coords import coordinates, idx2crd
from cute_py.layout.layout import Layout
from cute_py.layout.offsets import offsets
from cute_py.layout.tuples import show
from cute_py.tensor.bounds import require_inside
from cute_py.tensor.engine import Coordinates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.dtypes.table import Array, Dtype
    from cute_py.layout.types import Alike, AnyLayout
    from cute_py.tensor.engine import Engine
    from cute_py.tensor.tensor import Tensor


def axes(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of the array that holds the elements: the sizes of the top-level modes."""
    return tuples.product_each(tensor.shape)  # type: ignore[no-any-return]


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
    """Return the coordinates that are the elements; a tuple's leaves lie along a last axis."""
    import numpy as np

    rows = [list(tuples.leaves(tensor[c])) for c in coordinates(tensor.shape)]
    table = np.array(rows, dtype=np.int64)
    shape = axes(tensor)
    if tensor.engine.offset.__class__ is not tuple:
        return table.reshape(shape, order="F")
    columns = [column.reshape(shape, order="F") for column in table.T]
    return np.stack(columns, axis=-1)


def as_array(tensor: Tensor, dtype: Any, copy: bool | None) -> Array:  # noqa: ANN401
    """Return the elements for NumPy's `__array__`; always a copy, so copy=False is refused."""
    if copy is False:
        raise refusal("tensor-no-view", operation="numpy.asarray", tensor=tensor)
    table = to_numpy(tensor)
    return table if dtype is None else table.astype(dtype)


def stored(values: Any, dtype: Dtype, engine: Engine) -> Array:  # noqa: ANN401
    """Return values as the array that the dtype stores: floats rounded to nearest even, integers
    in range as they are; refuse others.
    """
    import numpy as np

    if dtype is None:
        raise refusal("engine-unreadable", operation="Tensor", engine=engine)
    if dtype.is_float:
        from cute_py.dtypes.conversion import convert

        return np.asarray(convert(values, dtype))
    from cute_py.dtypes.packing import exact_image

    exact_image(values, dtype, "Tensor")
    return np.asarray(values).astype(dtype.numpy)


def assign(tensor: Tensor, source: Any) -> None:  # noqa: ANN401
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
    """Return whether every stride steps past all that smaller strides reach: then no two
    coordinates have one offset. A swizzle on top changes nothing, it is a bijection.
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
