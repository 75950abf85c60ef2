"""Names for annotations, imported for type checking only.

They stand for Any: a nest of leaves, and which of the layout classes an operation was given, is
decided by `x.__class__ is ...`, which type checkers do not follow (and which is what keeps the
algebra fast).
"""

from __future__ import annotations

from typing import Any, TypeAlias

Leaf: TypeAlias = Any  # an int, a symbol, or (in strides) a coordinate stride
IntTuple: TypeAlias = (
    Any  # a leaf, or a tuple of int tuples: a shape, stride, coordinate, profile or order
)
Mode: TypeAlias = Any  # an index, or a path of indices such as (1, 0)
AnyLayout: TypeAlias = Any  # Layout, ComposedLayout or Swizzle
Tiler: TypeAlias = Any  # a layout, an int, `_`, or a tuple of tilers (one a mode)
