"""What a run is given: arrays, tables of pointers and numbers, as a plan's parameters."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.calls.arguments import number
from cute_py.calls.arrays import (
    Table,
    TypedArray,
    dtype_of,
    extents_of,
    imported,
    on_host,
    unwrapped,
)
from cute_py.dtypes.table import u8
from cute_py.emulate.storages import Global
from cute_py.errors import refusal
from cute_py.plan.params import ScalarParam, TensorParam
from cute_py.plan.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LEADS = 16  # the first byte of an element counts from the array's address modulo its size
NOWHERE = -1


class Arguments:
    """What a plan is given: arrays and numbers by name, and the values of its symbols.

    Attributes:
        plan: what they are given to.
        arrays: the arguments, the arrays of tables, and `more`, that pointers may point into.
        reachable: those that they may point into; nowhere: an array of no elements.
    """

    def __init__(self, plan: Plan, args: tuple[Any, ...], more: Iterable[Any] = ()) -> None:
        if len(args) != len(plan.params):
            names = ", ".join(param.name for param in plan.params)
            raise refusal(
                "emulate-arguments",
                operation=f"emulate({plan.name})",
                count=len(args),
                wanted=len(plan.params),
                names=names or "none",
            )
        self.plan = plan
        self.arrays: dict[str, Global] = {}
        self.symbols: dict[str, int] = {}
        self.numbers: dict[str, Any] = {}
        tables: list[Global] = []
        for param, given in zip(plan.params, map(imported, args), strict=True):
            if isinstance(param, ScalarParam):
                self._take(param, given)
                continue
            arg = on_host(given, param.name, f"emulate({plan.name})")
            held = self.arrays[param.name] = Global(param, arg, plan)
            values = (*held.shape, *held.strides)
            self.symbols |= zip(symbols_of(param), values, strict=True)
            if isinstance(arg, Table) and param.members is not None:
                tables.append(held)
                self.arrays |= {x.name: x for x in _members(param, arg, plan)}
        self.arrays |= {x.name: x for x in _others(map(imported, more), plan)}
        self.nowhere = _nowhere(plan)
        self.reachable = Reachable(x for x in self.arrays.values() if x not in tables)
        self.require_signed()

    def _take(self, param: ScalarParam, given: Any) -> None:
        """Read a number."""
        value = self.numbers[param.name] = number(given, param.kind, param.name)
        if not param.dtype.is_float:
            self.symbols[param.name] = int(value)

    def bare(self) -> Arguments:
        """Return the same without the memory of arrays."""
        found = copy(self)
        found.arrays = {name: x.over(None) for name, x in self.arrays.items()}
        found.reachable = Reachable(())
        return found

    def over(self, args: Sequence[Any]) -> Arguments:
        """Return the same for other numbers, and NumPy's arrays of the same types, shapes, strides
        and flags, which are not read again.
        """
        found = copy(self)
        found.arrays, found.symbols, found.numbers = {}, {**self.symbols}, {}
        for param, given in zip(self.plan.params, args, strict=True):
            if isinstance(param, ScalarParam):
                found._take(param, given)
            else:
                found.arrays[param.name] = self.arrays[param.name].over(given)
        found.reachable = Reachable(found.arrays.values())
        found.require_signed()
        return found

    def require_signed(self) -> None:
        """Refuse numbers of 2**63 or more that the plan computes with."""
        self.plan.require_signed([self.symbols.get(param.name) for param in self.plan.params])


def _members(param: TensorParam, table: Table, plan: Plan) -> list[Global]:
    """Return the arrays of a table of pointers."""
    found = []
    for i, given in enumerate(table.arrays):  # type: ignore[attr-defined]
        x = on_host(given, f"{param.name}[{i}]", "TensorArray")
        packed = isinstance(x, TypedArray) and x.packed
        shape, strides = extents_of(x)
        each = TensorParam(f"{param.name}[{i}]", dtype_of(x), shape, strides, 1, packed)
        found.append(Global(each, x, plan))
    return found


def _others(arrays: Iterable[Any], plan: Plan) -> list[Global]:
    """Return more arrays that pointers may point into: the argument `arrays` of `emulate`."""
    found = []
    for i, given in enumerate(arrays):
        x = on_host(given, f"arrays[{i}]", "emulate")
        if unwrapped(x).size:
            packed = isinstance(x, TypedArray) and x.packed
            each = TensorParam(f"arrays[{i}]", dtype_of(x), *extents_of(x), 1, packed)
            found.append(Global(each, x, plan))
    return found


def _nowhere(plan: Plan) -> Global:
    """Return an array of no elements."""
    return Global(TensorParam("no array", u8, (0,), (1,), 1), np.zeros(0, np.uint8), plan)


def plan_and_leaves(
    kernel: Any, args: tuple[Any, ...], named: dict[str, Any], operation: str
) -> tuple[Plan, Any]:
    """Return the plan of a kernel for its arguments, and the arrays and numbers among them; or a
    plan and what it is given.
    """
    if isinstance(kernel, Plan) and not named:
        return kernel, args
    if isinstance(kernel, Plan) or not hasattr(kernel, "leaves"):
        kind = type(kernel).__name__
        given = f"a {kind} with {', '.join(named)}=" if named else f"a {kind}"
        raise refusal("emulate-plan", operation=operation, given=given)
    return kernel.plan(*args, **named), kernel.leaves(*args, **named)


def symbols_of(param: TensorParam | ScalarParam) -> list[str]:
    """Return the names of a parameter's symbols: sizes and strides of an array, or an integer."""
    if isinstance(param, ScalarParam):
        return [] if param.dtype.is_float else [param.name]
    n = range(len(param.shape))
    return [f"{param.name}_{fact}{k}" for fact in ("shape", "stride") for k in n]


# -- what pointers point into


class Reachable:
    """The arrays that pointers of a run may point into.

    A slot is the number of an array times LEADS, plus where the pointer's elements begin in it
    (bytes, less than an element).
    """

    def __init__(self, arrays: Iterable[Global]) -> None:
        self.arrays = list(arrays)
        self.known: dict[tuple[int, int], int] = {}

    def slot(self, address: int, size: int) -> int:
        """Return the slot of an address, for elements of `size` bytes; NOWHERE if it is in none."""
        found = self.known.get((address, size))
        if found is None:
            held = [
                (array.address == address, array.nbytes - (address - array.address), -k)
                for k, array in enumerate(self.arrays)
                if array.address <= address < array.address + array.nbytes
            ]
            found = NOWHERE
            if held:  # of several, the one that begins there, and of these the longest
                k = -max(held)[2]
                found = k * LEADS + (address - self.arrays[k].address) % size
            self.known[address, size] = found
        return found

    def nearest(self, address: int) -> str:
        """Return the array next to an address, in words."""
        if not self.arrays:
            return "no array"

        def distance(array: Global) -> int:
            end = array.address + array.nbytes
            return max(array.address - address, address - end + 1, 0)

        near = min(self.arrays, key=distance)
        return f"{near.name}, from {near.address:#x} to {near.address + near.nbytes:#x}"


def slot_of(name: str) -> str:
    """Return the name under which a cohort keeps the slots of a pointer."""
    return f"array of {name}"
