"""Tensors as text: rows of a matrix, or CuTe's tables of up to four modes.

Source: cutlass util/tensor_view_io.h; cute/util/print_tensor.hpp, print.hpp.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout.coords import coordinates
from cute_py.layout.queries import rank
from cute_py.layout.tuples import show
from cute_py.tensor.elements import axes
from cute_py.tensor.tensor import Tensor, require_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    from cute_py.dtypes.table import Array, Dtype

MOST_MODES = 4


def tensor_text(tensor: Tensor) -> str:
    """Return the elements as CUTLASS streams a tensor view: rows of the last mode, `1, 2, 3,`.

    Matrices of higher modes are separated by an empty line. Source: cutlass tensor_view_io.h.

    >>> from cute_py import make_host_tensor
    >>> print(tensor_text(make_host_tensor((2, 3), "s32", [[1, 2, 3], [4, 5, 6]])))
    1, 2, 3,
    4, 5, 6
    """
    import numpy as np

    table = _table(tensor, "tensor_text")
    return _view(np.atleast_1d(table))


def _view(table: Array) -> str:
    if table.ndim == 1:
        return ", ".join([_number(value) for value in table])
    between = ",\n" if table.ndim == 2 else ",\n\n"
    return between.join([_view(part) for part in table])


def _number(value: Any) -> str:
    """Return a number as C++ streams write it: six digits of a float, b1 as 0 or 1."""
    if getattr(value, "dtype", None) is not None and value.dtype.kind in "iub":
        return str(int(value))
    return f"{float(value):g}" if not isinstance(value, tuple) else show(value)


def print_tensor(tensor: Tensor, print_type: bool = True, file: TextIO | None = None) -> None:
    """Print the elements as CuTe's print_tensor does: one row per line, slabs under a rule.

    Args:
        tensor: a tensor of rank 1 to 4, in host memory or of coordinates.
        print_type: whether to print engine and layout first.
        file: the file to print to, by default the standard output.

    Modes 2 and 3 are printed as slabs, after a rule of `-` and `=`. Source: cute print_tensor.hpp.

    >>> from cute_py import make_host_tensor
    >>> print_tensor(make_host_tensor((2, 3), "s32", [[1, 2, 3], [4, 5, 6]]))
    host_ptr[32b](0) o (2,3):(1,2):
        1    2    3
        4    5    6
    """
    head = f"{tensor}:\n" if print_type else ""
    print(head + tensor_table(tensor), file=file)


def tensor_table(tensor: Tensor) -> str:
    """Return the lines of `print_tensor`, without the type.

    >>> from cute_py import make_identity_tensor
    >>> print(tensor_table(make_identity_tensor((2, 2))))
      (0,0)  (0,1)
      (1,0)  (1,1)
    """
    modes = rank(require_tensor(tensor, "print_tensor").layout)
    if not 1 <= modes <= MOST_MODES:
        raise refusal("print-rank", operation="print_tensor", tensor=tensor, most=MOST_MODES)
    return "\n".join(_slabs(_table(tensor, "print_tensor"), tensor.dtype))


def _slabs(table: Array, row: Dtype | None) -> list[str]:
    """Return the lines of a table of 1 to 4 axes; axes 2 and 3 are slabs."""
    if table.ndim == 1:
        return [_cell(value, row) for value in table]
    if table.ndim == 2:
        return ["".join([_cell(value, row) for value in line]) for line in table]
    rule = ("-" if table.ndim == 3 else "=") * (5 * table.shape[1])
    lines = _slabs(table[..., 0], row)
    for k in range(1, table.shape[-1]):
        lines += [rule, *_slabs(table[..., k], row)]
    return lines


def _cell(value: Any, row: Dtype | None) -> str:
    """Return one element in the width of cute's pretty_print."""
    if row is None:
        return f"  {show(value)}"
    if row.kind == "bool":
        return f"{int(value):3d}"
    if not row.is_float:
        return f"{int(value):5d}"
    return f"{float(value):11.3e}" if row.bits == 64 else f"{float(value):10.2e}"


def _table(tensor: Tensor, operation: str) -> Array:
    """Return the elements as an array; coordinates as tuples."""
    import numpy as np

    require_tensor(tensor, operation)
    if tensor.dtype is not None:
        return tensor.to_numpy()  # type: ignore[no-any-return]
    cells = np.empty(tensor.size(), dtype=object)
    for i, coord in enumerate(coordinates(tensor.shape)):
        cells[i] = tensor[coord]
    return cells.reshape(axes(tensor), order="F")
