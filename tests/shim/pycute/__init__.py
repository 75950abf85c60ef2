"""cute_py under the names of pycute, so that pycute's own test suite runs against it.

PYTHONPATH=tests/shim:. python -m pytest <cutlass>/test/python/pycute
"""

from abc import ABC

from cute_py import (
    Layout,
    coalesce,
    complement,
    composition,
    inner_product,
    left_inverse,
    prefix_product,
    product,
    right_inverse,
    shape_div,
    size,
)

__all__ = [
    "Integer",
    "Layout",
    "coalesce",
    "complement",
    "composition",
    "inner_product",
    "left_inverse",
    "prefix_product",
    "product",
    "right_inverse",
    "shape_div",
    "size",
]


class Integer(ABC):  # noqa: B024 (as in pycute: a kind to ask about, not to derive from)
    """Python and NumPy integers are instances, bool and float are not."""

    @classmethod
    def __subclasshook__(cls, kind):
        names = {each.__name__ for each in kind.__mro__}
        return not names & {"bool", "bool_", "float"} and bool(names & {"int", "integer"})
