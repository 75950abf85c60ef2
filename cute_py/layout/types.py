"""`Mapped`, the base of layouts and tensors, and names for annotations.

`Leaf`, `IntTuple`, `Mode` and `Tiler` stand for Any: which of its kinds a nest of leaves holds is
decided by `x.__class__ is ...`, leaf by leaf.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from cute_py.dtypes.table import Array

    Leaf: TypeAlias = Any  # an int, a symbol, or (in strides) a coordinate stride
    # a leaf, or a tuple of int tuples: a shape, stride, coordinate, profile or order
    IntTuple: TypeAlias = Any
    Mode: TypeAlias = Any  # an index, or a path of indices such as (1, 0)
    # a Swizzle, an F2Map or a layout, as the outer part of a ComposedLayout
    OffsetMap: TypeAlias = Callable[[Any], Any]
    Tiler: TypeAlias = Any  # a layout, an int, `_`, or a tuple of tilers (one a mode)


class Mapped:
    """Base of maps from the coordinates of a shape: `Layout`, `ComposedLayout`, `F2Layout` and
    tensors.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> IntTuple:
            """The extents of the coordinates."""

        @property
        def stride(self) -> IntTuple:
            """The steps, which a `ComposedLayout` refuses."""

        def __len__(self) -> int: ...

        def __getitem__(self, mode: Mode) -> Alike: ...

        def __call__(self, *coord: IntTuple) -> IntTuple:
            """Return what a coordinate is mapped to."""

        def size(self) -> Leaf:
            """Return the number of coordinates."""

        def cosize(self) -> Leaf:
            """Return one more than the largest offset."""


class AbstractTensor(Mapped):
    """What the algebra knows of tensors: they have a layout, and can be given another one."""

    __slots__ = ()

    if TYPE_CHECKING:
        layout: Alike

        def to_numpy(self) -> Array:
            """Return a copy of the elements as a NumPy array."""

        def with_layout(self, layout: Mapped, operation: str = "") -> Alike:
            """Return the tensor of the same elements and another layout."""

        def changed(self, change: Callable[[Any], Any], operation: str) -> Alike:
            """Return the tensor with `change` made to its layout."""

        def slice(self, coord: IntTuple) -> Alike:
            """Return what a coordinate with `_` leaves free."""

        def domain_offset(self, coord: IntTuple) -> Alike:
            """Return the tensor with its origin moved."""


if TYPE_CHECKING:
    AnyLayout: TypeAlias = Mapped  # a layout of any class, or a tensor
    LayoutLike: TypeAlias = Any  # a layout, or the shape of a compact one
    Alike: TypeAlias = Any  # of the operand's kind: a layout of a layout, a tensor of a tensor
