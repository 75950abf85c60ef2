"""Global memory at addresses that are known only at run time: pointers, and tables of them."""

from __future__ import annotations

from functools import partial

from cute_py.dtypes.packing import PACKED
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.dtypes.table import s64
from cute_py.errors import kernel_line, refusal_here
from cute_py.integers import ints
from cute_py.layout.layout import Layout
from cute_py.layout.tuples import _
from cute_py.plan.conditions import Reg, uniformity
from cute_py.plan.ops import Let, MakePtr
from cute_py.tensor.tensor import derived
from cute_py.trace.arithmetic import new_registers
from cute_py.trace.copying import copy
from cute_py.trace.engines import GlobalMemory
from cute_py.trace.lower import register
from cute_py.trace.runtime_integers import Int, bare, new_symbol
from cute_py.trace.state import current, emit, tracing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.layout.types import Leaf
    from cute_py.tensor.tensor import Tensor


def memory_at(dtype: DtypeLike, address: Leaf, align: int | None = None) -> GlobalMemory | None:
    """Return the global memory at a run-time address, for `make_ptr`; None for other addresses."""
    if tracing() is None or not isinstance(address, Int):
        return None
    kind = as_dtype(dtype)
    alignment = max(kind.bits // 8, 1) if align is None else ints.as_int(align, "make_ptr")
    fits = kind.bits in (*PACKED, 8, 16, 32, 64)
    if not fits or alignment < kind.bits // 8 or alignment & (alignment - 1):
        raise refusal_here("pointer-type", operation="make_ptr", dtype=kind, align=align)
    return _memory(kind, address, alignment)


def _memory(kind: Dtype, address: Leaf, alignment: int) -> GlobalMemory:
    trace = current()
    name = trace.name_for("ptr")
    op = MakePtr(name, bare(address), kind, alignment, line=kernel_line())
    trace.emit(op)
    trace.pointers[name] = op
    return GlobalMemory(name, kind, alignment, trace.scope, packed=op.packed)


class Tensors:
    """The arrays of a `TensorArray` in a kernel: `arrays[i]` is the tensor of one of them.

    Address, extents and strides are read from the table; threads agree on them where they agree on
    the index. `count` is the number of arrays.
    """

    __slots__ = ("_members", "_table")

    def __init__(self, table: Tensor, members: Any) -> None:  # ArrayFacts
        self._table, self._members = table, members

    @property
    def count(self) -> Leaf:
        """The number of arrays."""
        return self._table.shape[0]

    @property
    def dtype(self) -> Dtype:
        """The type of the elements."""
        kind: Dtype = self._members.dtype
        return kind

    def __len__(self) -> NoReturn:
        self._refuse("len()", "arrays.count")

    def __iter__(self) -> NoReturn:
        self._refuse("iteration", "for i in cute.range(arrays.count): arrays[i]")

    def __getitem__(self, index: Leaf) -> Tensor:
        """Read a row of the table, and return the tensor that it describes."""
        index = ints.normalize(index, "TensorArray")
        facts = self._members
        values = iter(self._values(index))
        address = next(values)(facts.alignment, 0)
        shape = tuple([next(values)(m, 1) if n is None else n for m, n in facts.extents])
        stride = tuple([next(values)(m, 0) if n is None else n for m, n in facts.strides])
        return derived(_memory(facts.dtype, address, facts.alignment), Layout(shape, stride))

    def _values(self, index: Leaf) -> list[Any]:
        """Return for each number of a row a function from its divisor and lower bound to a run-time
        integer.
        """
        row = self._table[index, _]
        held = new_registers(s64, row.shape, "row")
        copy(row, held)
        whole = register(held, "TensorArray")
        scope = uniformity(current().uniform, bare(index))

        def value(i: int, divisor: int, low: int) -> Leaf:
            trace = current()
            name = trace.integer_name()
            emit(Let, name, "reg", (Reg(whole.storage, s64, (whole.index[i],)),))
            return new_symbol(trace, name, divisor, low, None, scope)

        return [partial(value, i) for i in range(len(whole))]

    def _refuse(self, use: str, instead: str) -> NoReturn:
        raise refusal_here(
            "trace-python", operation="kernel", value="arrays", use=use, instead=instead
        )
