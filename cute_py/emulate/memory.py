"""Global and shared memory as arrays of elements and of wide items.

An array of the caller is seen through all of its strides as one run of elements from its first one,
so that reads and writes are the caller's. Shared memory holds the packed bytes of every block of a
batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.calls.arrays import TypedArray, require_plain_values, strides_of
from cute_py.calls.numbers import number
from cute_py.dtypes.table import Dtype
from cute_py.emulate.bits import item_type, numpy_type
from cute_py.emulate.spans import Array
from cute_py.errors import refusal
from cute_py.plan.plan import Plan, ScalarParam, Shared, TensorParam, admits

if TYPE_CHECKING:
    from cute_py.plan.conditions import Scalar

ALIGN = 128  # bytes


class Global:
    """An array that the kernel is given."""

    def __init__(self, param: TensorParam, array: Array, plan: Plan) -> None:
        """Check the array against the parameter."""
        self.name, self.dtype = param.name, param.dtype
        self.param = param
        held = numpy_type(param.dtype)
        if not isinstance(array, np.ndarray) or array.dtype != held:
            given = f"{type(array).__name__} of {getattr(array, 'dtype', 'no dtype')}"
            raise self._wrong(plan, given, f"a NumPy array of {held}")
        require_plain_values(array, param.name)
        if array.ndim != len(param.shape):
            raise self._wrong(plan, f"an array of shape {array.shape}", f"{len(param.shape)} modes")
        if not all(map(admits, param.shape, array.shape)):
            wanted = "shape " + _shown(param.shape)
            raise self._wrong(plan, f"an array of shape {array.shape}", wanted)
        steps = zip(array.shape, array.strides, strict=True)
        if any(n > 1 and (s < 0 or s % held.itemsize) for n, s in steps):
            raise self._wrong(
                plan,
                f"strides of {array.strides} bytes",
                "strides of whole elements that are not negative",
            )
        self.shape = array.shape
        self.strides = strides_of(array)
        modes = zip(self.shape, param.stride, self.strides, strict=True)
        if array.size and not all(n == 1 or admits(traced, given) for n, traced, given in modes):
            wanted = "strides " + _shown(param.stride)
            raise self._wrong(plan, f"an array of strides {self.strides}", wanted)
        steps = zip(self.shape, self.strides, strict=True)
        self.size = 1 + sum((n - 1) * s for n, s in steps) if array.size else 0
        self.writable = array.flags.writeable
        run = np.lib.stride_tricks.as_strided(  # it does not know e5m2 by name
            array.view(f"V{held.itemsize}"), (self.size,), (held.itemsize,), writeable=self.writable
        )
        self.data: Array = run.view(held)
        self.address: int = array.__array_interface__["data"][0]
        self.itemsize = held.itemsize
        self.inside = self._inside(array)
        self.items: dict[int, Array] = {}

    def _wrong(self, plan: Plan, given: str, required: str) -> Exception:
        return refusal(
            "emulate-argument",
            operation=f"emulate({plan.name})",
            name=self.name,
            value=given,
            wanted=required,
        )

    def _inside(self, array: Array) -> Array | None:
        """Return which elements of the run belong to the array; None if all do."""
        if self.size <= array.size:
            return None
        inside = np.zeros(self.size, np.bool_)
        np.lib.stride_tricks.as_strided(inside, self.shape, self.strides)[...] = True
        return inside

    def wide(self, width: int) -> Array:
        """Return the run as items of `width` elements, those that are whole."""
        if width not in self.items:
            lead = self.lead(width)
            count = max(0, self.size - lead) // width
            whole = self.data[lead : lead + count * width]
            self.items[width] = whole.view(item_type(self.itemsize * width))
        return self.items[width]

    def lead(self, width: int) -> int:
        """Return the first element at which an aligned vector of `width` elements starts."""
        return -self.address % (self.itemsize * width) // self.itemsize

    def symbols(self) -> dict[str, int]:
        """Return the values of the parameter's symbols."""
        return {
            **{f"{self.name}_shape{k}": n for k, n in enumerate(self.shape)},
            **{f"{self.name}_stride{k}": n for k, n in enumerate(self.strides)},
        }


def _shown(extents: tuple[Scalar, ...]) -> str:
    """Return extents as text; of symbols, what their values are multiples of, and the least."""
    words = [str(x) if isinstance(x, int) else repr(x) for x in extents]
    return f"({','.join(words)})"


class SharedMemory:
    """The bytes of all shared storages, for every block of a batch."""

    def __init__(self, rows: tuple[Shared, ...]) -> None:
        """Lay the storages out as the plan says."""
        self.rows = {row.name: row for row in rows}
        used = max((row.offset + row.bytes for row in rows), default=0)
        self.stride = -(-used // ALIGN) * ALIGN
        self.items: dict[int, Array] = {}

    def allocate(self, blocks: int) -> None:
        """Make the memory of a batch: not yet written."""
        self.data = np.zeros((blocks, self.stride), np.uint8)
        self.items = {}

    def wide(self, nbytes: int) -> Array:
        """Return [block, item] with items of so many bytes."""
        if nbytes not in self.items:
            self.items[nbytes] = self.data.view(item_type(nbytes))
        return self.items[nbytes]


def bind(
    plan: Plan, args: tuple[Any, ...]
) -> tuple[dict[str, Global], dict[str, int], dict[str, tuple[Dtype, Any]]]:
    """Return the arrays by name, the values of symbols, and the scalars with their types."""
    if len(args) != len(plan.params):
        names = ", ".join(param.name for param in plan.params)
        raise refusal(
            "emulate-arguments",
            operation=f"emulate({plan.name})",
            count=len(args),
            wanted=len(plan.params),
            names=names or "none",
        )
    arrays: dict[str, Global] = {}
    symbols: dict[str, int] = {}
    scalars: dict[str, tuple[Dtype, Any]] = {}
    for param, arg in zip(plan.params, args, strict=True):
        if isinstance(param, ScalarParam):
            given = number(arg, param.dtype, param.name)
            scalars[param.name] = param.dtype, given
            if not param.dtype.is_float:
                symbols[param.name] = int(given)
            continue
        array = arg.array if isinstance(arg, TypedArray) else arg
        arrays[param.name] = Global(param, array, plan)
        symbols |= arrays[param.name].symbols()
    plan.require_signed([symbols.get(param.name) for param in plan.params])
    return arrays, symbols, scalars
