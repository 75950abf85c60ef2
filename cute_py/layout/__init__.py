"""The layout algebra: int tuples, layouts, swizzles, symbols; `cute_py` exports its names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.dtypes.table import Array
    from cute_py.layout.types import Alike, IntTuple, Leaf, Mode


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
            """Return the value that a coordinate is mapped to."""

        def size(self) -> Leaf:
            """Return the number of coordinates."""

        def cosize(self) -> Leaf:
            """Return one more than the largest offset."""


class AbstractComposed(Mapped):
    """The view that queries have of a `ComposedLayout`."""

    __slots__ = ()
    outer: Any
    offset: Any
    inner: Any

    if TYPE_CHECKING:

        def changed(self, change: Callable[[Any], Any], operation: str) -> Alike:
            """Return the layout with `change` made to the inner one."""


class AbstractF2(Mapped):
    """The view that queries have of an `F2Layout`: the images of the index bits and of index 0."""

    __slots__ = ()
    bases: tuple[int, ...]
    offset: int


class AbstractTensor(Mapped):
    """The algebra's view of a tensor: it has a layout, which can be replaced."""

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
            """Return the part that a coordinate with `_` leaves free."""

        def domain_offset(self, coord: IntTuple) -> Alike:
            """Return the tensor with its origin moved."""
