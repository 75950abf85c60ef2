"""Names for annotations, imported for type checking only.

Most are Any: the kind of each leaf of a nest is decided by `x.__class__ is ...`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from cute_py.layout import AbstractTensor, Mapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from cute_py.integers.ints import AnyInt as AnyInt
    from cute_py.integers.ints import CuteInt

    # What is returned is of the class of an operand: a Layout of a Layout, a Tensor of a Tensor. An
    # operand that is none of these, a nest, says nothing of the result.
    Kind = TypeVar("Kind", bound=Mapped, default=Any)
    TensorKind = TypeVar("TensorKind", bound=AbstractTensor)
    Number = TypeVar("Number", bound=int | CuteInt, default=Any)
    Same = TypeVar("Same", bound=Any)  # of any class, such as a Swizzle

    Nest: TypeAlias = tuple[Any, ...]  # an int tuple that is no integer

Leaf: TypeAlias = Any  # an int, a symbol, or (in strides) a coordinate stride
# a leaf, or a tuple of int tuples: a shape, stride, coordinate, profile or order
IntTuple: TypeAlias = Any
Mode: TypeAlias = Any  # an index, or a path of indices such as (1, 0)
Tiler: TypeAlias = Any  # a layout, an int, `_`, or a tuple of tilers (one a mode)
AnyLayout: TypeAlias = Mapped  # a layout of any class, or a tensor
LayoutLike: TypeAlias = Any  # a layout, or the shape of a compact one
Alike: TypeAlias = Any  # of the operand's kind: a layout of a layout, a tensor of a tensor
# a Swizzle, an F2Map or a layout, as the outer part of a ComposedLayout
OffsetMap: TypeAlias = Callable[[Any], Any]
