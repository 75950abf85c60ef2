"""`recast`: the same memory as a tensor of another dtype.

Source: cutlass include/cute/tensor_impl.hpp, pointer_base.hpp.
"""

from __future__ import annotations

from math import gcd

from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.algebra.recast import downcast, upcast
from cute_py.layout.layout import INTS, Layout
from cute_py.layout.modes import unflatten
from cute_py.tensor.tensor import Tensor, derived, require_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import DtypeLike
    from cute_py.layout.types import Alike, AnyLayout, Leaf


def recast(tensor: Tensor, dtype: DtypeLike) -> Tensor:
    """Return the tensor that reads the same memory in elements of `dtype`.

    Args:
        tensor: a Tensor of any engine but coordinates.
        dtype: the new type of the elements; its size may differ, also by less than a byte.

    Law: the bits of element c of the result are the bits of the elements of `tensor` at c // group
    (wider) or c * group (narrower), lowest first. Raises what `upcast` and `downcast` raise, and
    LayoutError for an origin inside of a new element. Source: cutlass tensor_impl.hpp `recast`,
    layout.hpp `recast_layout`.

    >>> import numpy as np
    >>> from cute_py import make_tensor
    >>> words = make_tensor(np.array([0x03020100, 0x07060504], np.uint32))
    >>> print(recast(words, "u8").to_numpy(), recast(words, "u4").layout)
    [0 1 2 3 4 5 6 7] (16):(1)
    """
    require_tensor(tensor, "recast")
    row = as_dtype(dtype)
    if row.kind == "void":
        raise refusal("dtype-void", operation="recast")
    if tensor.dtype is None:
        raise refusal("recast-engine", operation="recast", engine=tensor.engine)
    old, new = tensor.dtype.bits, row.bits
    up, down = new // gcd(old, new), old // gcd(old, new)
    layout, offset = tensor.layout, tensor.engine.offset
    if up > 1:
        offset = _coarser_origin(tensor, layout, offset, up)
        layout = upcast(layout, up)
    if down > 1:
        layout = _one_unit(layout)
        offset = _finer_origin(layout, offset, down)
        layout = downcast(layout, down)
    return derived(tensor.engine.recast(row, offset), layout)


def _coarser_origin(tensor: Tensor, layout: AnyLayout, offset: Leaf, n: int) -> Leaf:
    """Return the origin in elements n times as large. Where a stride runs backwards inside of a
    new element, the old origin is not its first part.
    """
    first = ints.sub(offset, _backwards(layout, n))
    if ints.divides(n, first) is not True:
        raise refusal("recast-origin", operation="recast", tensor=tensor, offset=first, n=n)
    return ints.div(first, n)


def _backwards(layout: Alike, n: int) -> int:
    """Return how far negative strides reach back inside of a new element (old elements)."""
    plain = layout
    while plain.__class__ is not Layout:
        plain = plain.inner
    if plain._kind != INTS:
        return 0
    back = 0
    for extent, step in zip(plain._s, plain._d, strict=True):
        if -n < step < 0:
            back += (min(extent, n // -step) - 1) * -step
    if back and layout is not plain:
        raise refusal("recast-backwards", operation="recast", layout=layout, n=n)
    return back


def _one_unit(layout: AnyLayout) -> Alike:
    """Return the layout with stride 0 for modes of extent 1 that another mode of stride 1 makes
    redundant: `downcast` splits every mode of stride 1.
    """
    if layout.__class__ is not Layout or layout._kind != INTS:
        return layout
    units = [k for k, step in enumerate(layout._d) if abs(step) == 1]
    kept = max(units, key=lambda k: layout._s[k], default=None)
    redundant = [k for k in units if k != kept and layout._s[k] == 1]
    steps = tuple([0 if k in redundant else step for k, step in enumerate(layout._d)])
    return Layout(layout.shape, unflatten(steps, layout.shape)) if redundant else layout


def _finer_origin(layout: AnyLayout, offset: Leaf, n: int) -> Leaf:
    """Return the origin in elements n times as small: the first part of an old element, or the last
    where the mode of stride -1 is split.
    """
    backwards = layout.__class__ is Layout and -1 in layout._d
    return ints.add(ints.mul(offset, n), n - 1 if backwards else 0)
