"""`formula`: a Python function of registers, traced once to a `Formula`; `replayed` records it.

The function runs on registers of one element, apart from the kernel that is traced, if any; what it
records is read as a graph. So it may use all that arithmetic of registers has, also in place, and
neither memory, branches nor other threads.
"""

from __future__ import annotations

import sys
from inspect import signature

from cute_py.calls.arguments import number
from cute_py.calls.fingerprint import fingerprint
from cute_py.calls.fingerprint.dependencies import note_once
from cute_py.dtypes.table import b1
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import CuteError, refusal, refusal_here
from cute_py.plan.conditions import Reg
from cute_py.plan.formula import CONVERT, FIRST, SECOND, Builder, Formula, Place
from cute_py.plan.functions import FUNCTIONS
from cute_py.plan.ops import Convert, Fill, Map
from cute_py.trace.arithmetic import (
    apply,
    as_registers,
    assign,
    convert_registers,
    is_register,
    new_registers,
    require_domain,
)
from cute_py.trace.kernel import Recorder
from cute_py.trace.lower import register
from cute_py.trace.state import Trace, apart, current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.plan.ops import Op
    from cute_py.tensor.tensor import Tensor

MOST = 4096  # formulas that are kept; when there are more, all are forgotten
_known: dict[Any, Formula] = {}


def formula(
    function: Callable[..., Any], dtype: DtypeLike = "f32", inputs: tuple[str, ...] = ()
) -> Formula:
    """Return a function of registers of a type as a formula; its inputs are the parameters without
    defaults, or those named: the first one, then others by keyword, in any order.

    A function may return a dict of results by name. It is traced again where something has changed
    that it depends on. Raises what the function raises, and LayoutError where it does more than
    arithmetic of registers.

    >>> print(formula(lambda x: x * x + 1))
    (x): f32
    t0: f32 = mul(x, x)
    t1: f32 = add(t0, 1.0)
    return t1
    """
    kind = as_dtype(dtype)
    parts, depends = fingerprint((function,))
    if not depends.complete:
        note_once(getattr(function, "__name__", "a function"), depends.reason)
        return _traced(function, kind, inputs)
    key = parts, kind, inputs
    found = _known.get(key)
    if found is None:
        if len(_known) >= MOST:
            _known.clear()
        found = _known.setdefault(key, _traced(function, kind, inputs))
    return found


def _traced(function: Callable[..., Any], kind: Dtype, inputs: tuple[str, ...]) -> Formula:
    code: Any = getattr(function, "__code__", None)
    line = ("", 0) if code is None else (code.co_filename, code.co_firstlineno)
    state = Trace(getattr(function, "__name__", "formula"), line, Recorder())
    parameters = signature(function).parameters.values()
    names = inputs or tuple([x.name for x in parameters if x.default is x.empty])
    read = _Reader(Builder(names, kind), state)
    with apart(state):
        given = [new_registers(kind, 1, name) for name in names]
        for n, x in enumerate(given):
            read.values[register(x, "formula").storage, 0] = Place(n)
        state.frame, state.of_all = sys._getframe(), OfAll
        try:
            few = 1 if inputs else len(given)
            more = dict(zip(names[few:], given[few:], strict=True))
            result = function(*given[:few], **more)
        except CuteError as error:
            if error.code != "kernel-no-launch":
                raise
            name, _, _said = str(error).partition(":")
            raise refusal("kernel-formula", operation=state.name, op=name) from None
        finally:
            state.forget()
        for op in state.root.ops:
            read.op(op)
        if not isinstance(result, dict) or not result:
            return read.made.formula(read.result(result))
        several = {k: x.tensor if isinstance(x, OfAll) else x for k, x in result.items()}
        places = tuple([read.result(x) for x in several.values()])
    combined = [(k, x.fn, x.mode) for k, x in result.items() if isinstance(x, OfAll)]
    found = read.made.formula(places)
    return Formula(
        found.inputs, found.dtype, found.steps, found.result, tuple(result), tuple(combined)
    )


def pairs(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values in the columns 2j, and those in the columns 2j + 1, of N columns: both have
    N/2. For the function of an epilogue, `cute.ops.gemm(a, b, epilogue=...)`.

    Args:
        x: registers of N columns: the sums, or what was computed of them.

    What meets the result has N/2 columns, too, and so has a result of the function that is made of
    it: arrays of (M,N/2) or (N/2), and those of (M,1) or (). Raises LayoutError elsewhere.

    >>> import cute_py as cute
    >>> def product(sums):
    ...     gate, up = cute.pairs(sums)
    ...     return gate * up
    >>> cute.ops.gemm([[1.0]], [[2.0, 3.0, 4.0, 5.0]], epilogue=product)
    array([[ 6., 20.]])
    """
    state, given = current(), as_registers(x, "cute.pairs")
    if state.of_all is None:
        raise refusal("formula-pairs", operation="cute.pairs")
    held = new_registers(given.dtype, given.shape)  # x may change later
    assign(held, given)
    both = [new_registers(given.dtype, given.shape) for _fn in (FIRST, SECOND)]
    for fn, made in zip((FIRST, SECOND), both, strict=True):
        state.pairs[register(made, "cute.pairs").storage] = fn, register(held, "cute.pairs")
    return both[0], both[1]


class OfAll:
    """A result that is combined over elements, as `cute.reduce` gives it in a formula; nothing is
    computed from it.
    """

    __slots__ = ("fn", "mode", "tensor")

    def __init__(self, fn: str, tensor: Tensor, mode: int | None) -> None:
        if mode not in (None, 0, 1) or isinstance(mode, bool):
            facts: dict[str, Any] = {"value": mode, "choices": "0 for rows, 1 for columns, None"}
            raise refusal("kernel-choice", operation="cute.reduce", **facts)
        if tensor.dtype is not b1:
            require_domain(fn, tensor.dtype)
        held = new_registers(tensor.dtype, tensor.shape)  # tensor may change later
        assign(held, tensor)
        self.fn, self.tensor, self.mode = fn, held, mode

    def __repr__(self) -> str:
        return f"cute.reduce({self.fn!r}, ...), which is known when all elements are stored"

    def _refuse(self, *_others: object) -> NoReturn:
        raise refusal("formula-combined", operation="cute.reduce", fn=self.fn)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    __hash__ = None  # type: ignore[assignment]
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _refuse
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __rand__ = __ror__ = _refuse
    __rxor__ = __rlshift__ = __rrshift__ = __neg__ = __pos__ = __abs__ = __invert__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __float__ = __int__ = __index__ = _refuse
    __getitem__ = __iter__ = __eq__ = __ne__ = _refuse


class _Reader:
    """Reads the ops that a function has recorded as steps; each element of registers is a value."""

    def __init__(self, made: Builder, state: Trace) -> None:
        self.made, self.state = made, state
        self.values: dict[tuple[str, int], Any] = {}

    def op(self, op: Op) -> None:
        """Read an op; refuse one that is not arithmetic."""
        found: list[Any]
        if isinstance(op, Fill) and op.value is not None:
            found = [op.value] * len(op.dst)
        elif isinstance(op, Convert):
            how = op.rounding, op.saturate
            values = self.elements(op.src)
            found = [self.made.step(CONVERT, op.dst.dtype, (x, *how)) for x in values]
        elif isinstance(op, Map):
            found = self.mapped(op)
        else:
            raise refusal_here("kernel-formula", operation=self.state.name, op=op.call or op.word)
        for i, x in zip(op.dst.index, found, strict=True):
            self.values[op.dst.storage, i] = x

    def result(self, x: Any) -> Any:
        """Return what a function gives back, as a value or a number."""
        if x is None or isinstance(x, (tuple, list, str, dict, OfAll)):
            raise refusal("formula-result", operation=self.state.name, value=x)
        if not is_register(x):
            return number(x, self.made.dtype, self.state.name)
        (found,) = self.elements(register(x, "formula"))
        return found

    def mapped(self, op: Map) -> list[Any]:
        """Return the values that a map computes."""
        count = len(op.dst)
        given = [self.elements(x) if isinstance(x, Reg) else [x] for x in op.sources]
        wide = [x if len(x) == count else x * count for x in given]
        if op.fn == "copy":
            return wide[0]
        kind = b1 if FUNCTIONS[op.fn].compares else op.dtype
        return [self.made.step(op.fn, kind, x) for x in zip(*wide, strict=True)]

    def elements(self, x: Reg) -> list[Any]:
        """Return the values in registers; refuse those that the function has not computed."""
        held = self.state.registers[x.storage]
        if x.storage in self.state.pairs:
            fn, of = self.state.pairs[x.storage]
            for i, value in enumerate(self.elements(of)):
                made = self.made.step(fn, x.dtype, (value,))
                self.values.setdefault((x.storage, i), made)
        found = [self.values.get((x.storage, i)) for i in x.index]
        if held.dtype is not x.dtype or None in found:
            raise refusal_here("kernel-formula", operation=self.state.name, op="other registers")
        return found


def replayed(formula: Formula, *given: Any) -> Any:
    """Record a formula in a kernel for tensors in registers; return its result, of their shape, or
    a tuple of several.
    """
    like = next(x for x in given if is_register(x))

    def rule(fn: str, dtype: Dtype, *values: Any) -> Any:
        if fn == CONVERT:
            return convert_registers(values[0], dtype, *values[1:])
        if not any(map(is_register, values[fn == "where" :])):
            values = (*values[:-1], _filled(like, values[-1]))
        return apply(fn, *values)

    result = formula.replay(rule, *given)
    several = result if result.__class__ is tuple else (result,)
    count = like.size()
    found = [x if is_register(x) and x.size() == count else _filled(like, x) for x in several]
    return tuple(found) if result.__class__ is tuple else found[0]


def _filled(like: Tensor, value: Any) -> Tensor:
    """Return registers of a tensor's shape that hold one element, or a number in its type."""
    made = new_registers(value.dtype if is_register(value) else like.dtype, like.shape)
    assign(made, value)
    return made
