"""Element-wise arithmetic of register tensors: each function records one `Map` to new registers.

Operands have the same shape, but a mode of extent 1 is repeated as often as that of the other
operand needs; a single element or a number fits any shape, and a number takes the type of the
tensor. Types are not converted implicitly. Assignments write in place.
"""

from __future__ import annotations

from cute_py.calls.arguments import number
from cute_py.dtypes.rounding import rounding_mode
from cute_py.dtypes.table import b1, f32, s32, s64, u64
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal, refusal_here
from cute_py.layout import tuples
from cute_py.layout.layout import Layout
from cute_py.layout.queries import size
from cute_py.plan.conditions import Reg, bounds_of
from cute_py.plan.functions import FUNCTIONS, REDUCTIONS
from cute_py.plan.ops import Convert, Fill, Let, Map, Reduce, Value
from cute_py.tensor.tensor import Tensor, derived, require_tensor
from cute_py.trace.control import branch
from cute_py.trace.engines import Register, allocate_registers
from cute_py.trace.fitting import require_fit
from cute_py.trace.lower import register, sums_of
from cute_py.trace.runtime_integers import Condition, Int, Promised, as_condition, bare
from cute_py.trace.state import current, emit, require_choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.layout.types import IntTuple, Leaf
    from cute_py.plan.conditions import Scalar


def is_register(x: object) -> bool:
    """Return whether x is a tensor in registers of a kernel."""
    return isinstance(getattr(x, "engine", None), Register)


def new_registers(dtype: Dtype, shape: IntTuple, name: str = "r") -> Tensor:
    """Return a new compact register tensor."""
    layout = Layout(shape)
    return derived(allocate_registers(name, dtype, int(layout.size())), layout)


# -- functions


def apply(name: str, *operands: Any) -> Tensor:  # tensors, integers, numbers
    """Record a function of `functions.FUNCTIONS` and return its result in new registers.

    Raises LeafTypeError for operands of two types, and LayoutError for two shapes.
    """
    kind, shape, sources = _operands(name, operands)
    result = new_registers(b1 if FUNCTIONS[name].compares else kind, shape)
    dst = register(result, name)
    emit(Map, name, dst, sources, kind)
    return result


def apply_in_place(name: str, target: Tensor, other: object) -> Tensor:
    """Record target = fn(target, other), element by element, in the registers of the target."""
    kind, shape, sources = _operands(name, (target, other))
    if shape not in (target.shape, 1):
        raise refusal_here("kernel-shapes", operation=name, a=target.shape, b=shape)
    dst = register(target, name)
    emit(Map, name, dst, sources, kind)
    return target


def _operands(name: str, operands: tuple[Any, ...]) -> tuple[Dtype, IntTuple, tuple[Value, ...]]:
    """Return the common type, the shape of the result, and the operands as values of the plan."""
    operands = tuple([_not_in_memory(x) for x in operands])
    selects = name == "where"
    typed = operands[1:] if selects else operands
    kind = common_type(name, typed)
    require_domain(name, kind)
    shape = common_shape(name, operands)
    sources = [_value(x, kind, name, place) for place, x in enumerate(typed)]
    if selects:
        sources.insert(0, _flag(operands[0]))
    pairs = zip(operands, sources, strict=True)
    return kind, shape, tuple([repeated(x, value, shape) for x, value in pairs])


def _not_in_memory(x: object) -> object:
    """Return x; refuse a tensor in global or shared memory."""
    engine = getattr(x, "engine", None)
    if engine is not None and not isinstance(engine, Register):
        raise refusal_here("engine-arithmetic", operation="kernel", engine=engine)
    return x


def common_type(name: str, operands: tuple[Any, ...]) -> Dtype:
    """Return the type that a function computes in; refuse operands of two types."""
    kinds: list[Dtype] = list(dict.fromkeys([x.dtype for x in operands if is_register(x)]))
    if len(kinds) > 1:
        raise refusal_here("kernel-types", operation=name, a=kinds[0], b=kinds[1])
    if kinds:
        return kinds[0]
    if any(isinstance(x, float) for x in operands):
        return f32
    return s32


def require_domain(name: str, kind: Dtype) -> None:
    """Refuse a type that a function of `FUNCTIONS` does not accept."""
    if not FUNCTIONS[name].takes(kind):
        domain = FUNCTIONS[name].domain
        wanted = "s32 or u32" if domain == "word" else domain
        raise refusal_here("kernel-domain", operation=name, dtype=kind, domain=wanted)


def common_shape(name: str, operands: tuple[Any, ...]) -> IntTuple:
    """Return the shape of the result: of single elements 1."""
    shapes = [x.shape for x in operands if is_register(x) and x.size() != 1]
    common: IntTuple = 1
    for shape in shapes:
        wider = _broadcast(common, shape)
        if wider is None:
            raise refusal_here("kernel-shapes", operation=name, a=common, b=shape)
        common = wider
    return common


def _broadcast(a: IntTuple, b: IntTuple) -> IntTuple | None:
    """Return the shape that both repeat to, mode by mode; None if extents or profiles differ."""
    if a == b or size(b) == 1:
        return a
    if size(a) == 1:
        return b
    if tuples.unwrap(a) == tuples.unwrap(b):  # a vector of 2 is one of (2,)
        return a
    if not (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)):
        return None
    modes = [_broadcast(x, y) for x, y in zip(a, b, strict=True)]
    return None if None in modes else tuple([x for x in modes if x is not None])


def repeated(operand: Any, value: Value, shape: IntTuple) -> Value:
    """Return the registers of an operand with its modes of extent 1 repeated up to a shape.

    Law: element c of the result is the element of the operand at c, with 0 in these modes.
    """
    if not isinstance(value, Reg) or len(value) in (1, size(shape)):
        return value
    index = [value.index[k] for k in sums_of(_strides(operand.shape, shape, 1))]
    return Reg(value.storage, value.dtype, tuple(index))


def _strides(shape: IntTuple, wanted: IntTuple, unit: int) -> list[tuple[int, int]]:
    """Return (extent, stride) of the flat modes of `wanted` over the elements of `shape`."""
    if shape == wanted:
        return [(int(size(shape)), unit)]
    if size(shape) == 1:
        return [(int(size(wanted)), 0)]
    found: list[tuple[int, int]] = []
    for each, whole in zip(shape, wanted, strict=True):
        found += _strides(each, whole, unit)
        unit *= int(size(each))
    return found


def shapes_match(a: IntTuple, b: IntTuple) -> bool:
    """Return whether two shapes match element by element: their sizes are equal mode by mode,
    ignoring modes of size 1, or one of them is flat.
    """
    p, q = ([n for n in map(size, x if isinstance(x, tuple) else (x,)) if n != 1] for x in (a, b))
    return p == q or (min(len(p), len(q)) < 2 and size(a) == size(b))


def _assignable(target: IntTuple, shape: IntTuple) -> bool:
    return shapes_match(target, shape) or _broadcast(target, shape) == target


def _value(x: Any, kind: Dtype, name: str, place: int = 0) -> Value:
    """Return an operand as a value of the plan, checked against the type of the others."""
    if is_register(x):
        return register(x, name)
    if isinstance(x, Condition):
        if kind is not b1:
            raise refusal_here("kernel-types", operation=name, a=kind, b=b1)
        return _flag(x)
    if isinstance(x, Int):
        if kind.is_float:
            raise refusal_here("kernel-types", operation=name, a=kind, b="integer")
        value = bare(x)
        require_fit(value, kind, name, place)
        return value
    return number(x, kind, name)


def integer_register(
    value: Leaf,
    dtype: DtypeLike,
    rounding: str | None = None,
    saturate: bool = False,
    wrap: bool = False,
) -> Tensor:
    """Return a run-time integer in a register of a type; see `Int.to`."""
    kind, integer = as_dtype(dtype), bare(value)
    mode = rounding_mode(rounding, "to", s64, kind)
    saturate = saturate or mode == "to_nearest_satfinite"
    converts = kind.is_float or saturate or wrap
    exact = _type_of(integer) if converts else kind
    for wanted in (kind, exact) if not saturate else (exact,):
        if not wrap:
            require_fit(integer, wanted, "to")
    held = new_registers(exact, 1)
    emit(Map, "copy", register(held, "to"), (integer,), exact)
    return convert_registers(held, kind, rounding, saturate, wrap) if converts else held


def _type_of(value: Scalar) -> Dtype:
    """Return a type for all values of an integer: s32, s64, or that of a number that the kernel is
    given.
    """
    low, high = bounds_of(value)
    if low is not None and high is not None and s32.min <= low and high <= s32.max:
        return s32
    given = current().params.get(str(value))
    return u64 if getattr(given, "kind", None) is u64 else s64


def as_registers(x: object, operation: str) -> Tensor:
    """Return a tensor, or a run-time integer in a register of s32; refuse anything else."""
    return integer_register(x, s32) if isinstance(x, Int) else require_tensor(x, operation)


def _flag(x: Any) -> Value:
    """Return a b1 operand: registers, a bool, or a condition stored in a register."""
    if is_register(x):
        if x.dtype is not b1:
            raise refusal_here("kernel-types", operation="where", a=b1, b=x.dtype)
        return register(x, "where")
    truth = as_condition(x, "where")
    return truth if isinstance(truth, bool) else condition_register(truth)


def condition_register(condition: Condition) -> Reg:
    """Return a b1 register that holds a condition."""
    held = new_registers(b1, 1, "p")
    dst = register(held, "where")
    emit(Fill, dst, False)
    with branch(condition):
        emit(Fill, dst, True)
    return dst


def test_register(tensor: Tensor) -> Reg:
    """Return the single b1 element of a register tensor that is used as a condition."""
    if tensor.size() != 1 or tensor.dtype is not b1:
        raise refusal_here(
            "trace-condition",
            operation="cute.when",
            value=tensor,
            type=f"{tensor.dtype} of shape {tensor.shape}",
        )
    return register(tensor, "cute.when")


# -- assignment, conversion, reduction

# of `cute.ROUNDINGS`, in the words of a plan
_ROUNDINGS = {
    "indeterminate": "rn",
    "to_nearest": "rn",
    "to_nearest_satfinite": "rn",
    "toward_zero": "rz",
    "toward_infinity": "ru",
    "toward_neg_infinity": "rd",
    "half_ulp_truncate": "rna",
}


def assign(target: Tensor, value: Any) -> None:
    """Record target[...] = value: a register tensor of the same shape and type, or a number."""
    dst = register(target, "assignment")
    if hasattr(value, "item") or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        emit(Fill, dst, number(value, target.dtype, "assignment"))
        return
    if getattr(value, "engine", None) is not None and not is_register(value):
        value = value.engine.read(0) if value.size() == 1 else value
    if is_register(value) and value.size() != 1 and not _assignable(target.shape, value.shape):
        raise refusal_here("kernel-shapes", operation="assignment", a=target.shape, b=value.shape)
    if is_register(value) and value.dtype is not target.dtype:
        raise refusal_here("kernel-types", operation="assignment", a=target.dtype, b=value.dtype)
    source = _value(_not_in_memory(value), target.dtype, "assignment")
    emit(Map, "copy", dst, (repeated(value, source, target.shape),), target.dtype)


def convert_registers(
    tensor: Tensor,
    dtype: DtypeLike,
    rounding: str | None = None,
    saturate: bool = False,
    wrap: bool = False,
) -> Tensor:
    """Return the tensor's elements in another type, in new registers of the same shape.

    Args:
        tensor: registers.
        dtype: the new type.
        rounding: a name of `cute.ROUNDINGS`, or its name in CUTLASS, PTX or CUDA. None: toward
            zero from floats to integers, else to nearest.
        saturate: clamp to the finite range of the new type; `to_nearest_satfinite` does so too.
        wrap: say that the low bits of integers are meant, which they keep anyway.

    """
    kind = as_dtype(dtype)
    if wrap and (saturate or kind.is_float or tensor.dtype.is_float):
        facts = {"a": tensor.dtype, "b": kind, "more": ", saturate=True" if saturate else ""}
        raise refusal_here("kernel-wrap", operation="to", **facts)
    mode = rounding_mode(rounding, "to", tensor.dtype, kind)
    if mode not in _ROUNDINGS:
        raise refusal_here(
            "kernel-lack",
            operation="to",
            what=f"the rounding {rounding}",
            wanted="one of the other names of cute.ROUNDINGS",
            instead="use half_ulp_truncate (rna), which differs in subnormal results only; or "
            "convert on the host with cute.convert",
        )
    saturate = saturate or mode == "to_nearest_satfinite"
    result = new_registers(kind, tensor.shape)
    src, dst = register(tensor, "convert"), register(result, "convert")
    if kind is tensor.dtype:
        emit(Map, "copy", dst, (src,), kind)
    else:
        emit(Convert, dst, src, _ROUNDINGS[mode], saturate)
    return result


def reduce(fn: str, tensor: Tensor, mode: int | None = None) -> Tensor:
    """Return the `add`, `mul`, `min`, `max` ... of all elements, or along one mode, left to right.

    Args:
        fn: a row of `functions.REDUCTIONS`.
        tensor: registers.
        mode: the mode to reduce; None reduces all modes to one element.

    In the epilogue of a product it is one of its results, over the rows (mode 0), the columns (1)
    or all elements (None) of each matrix.

    >>> # in a kernel: m = cute.reduce("max", scores, mode=1)   # (rows)
    """
    require_choice(fn, REDUCTIONS, "reduce")
    tensor = as_registers(tensor, "reduce")
    if current().of_all is not None:
        return current().of_all(fn, tensor, mode)  # type: ignore[no-any-return]
    src = register(tensor, "reduce")
    require_domain(fn, tensor.dtype)
    if mode is None:
        result, order = new_registers(tensor.dtype, 1), list(range(len(src.index)))
    else:
        kept, order = _along(tensor, mode)
        result = new_registers(tensor.dtype, kept)
    src = Reg(src.storage, src.dtype, tuple([src.index[i] for i in order]))
    emit(Reduce, fn, register(result, "reduce"), src)
    return result


def _along(tensor: Tensor, mode: int) -> tuple[IntTuple, list[int]]:
    """Return the shape without a mode, and the indices in an order with this mode fastest."""
    shape = tensor.shape if isinstance(tensor.shape, tuple) else (tensor.shape,)
    if not -len(shape) <= mode < len(shape):
        raise refusal("mode-range", operation="reduce", mode=mode, rank=len(shape))
    mode %= len(shape)
    before = int(size(shape[:mode])) if mode else 1
    extent = int(size(shape[mode]))
    after = int(tensor.size()) // (before * extent)
    order = [
        b + before * (k + extent * a)
        for a in range(after)
        for b in range(before)
        for k in range(extent)
    ]
    kept = (*shape[:mode], *shape[mode + 1 :])
    return (kept if kept else 1), order


def as_int(
    tensor: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    multiple_of: int = 1,
    uniform: str = "thread",
) -> Int:
    """Return the single element of an integer register tensor as a run-time integer, for indices.

    The bounds, the divisor and `uniform` are promises, used in proofs; only the emulator checks
    them. They are never inferred from the memory that the element comes from, since two arguments
    may be the same memory.

    Args:
        tensor: one element of an integer type.
        low: a lower bound.
        high: an upper bound.
        multiple_of: a number that divides the value.
        uniform: the threads that have the same value: "grid", "cluster", "block", "warpgroup",
            "warp", or "thread" if they may differ. A barrier under a loop or branch whose bounds
            come from memory needs "block" or wider.

    >>> # in a kernel: for k in cute.range(cute.as_int(sizes[g, 0], 0, uniform="block")):
    """
    if not is_register(tensor) or tensor.size() != 1 or tensor.dtype.is_float:
        raise refusal_here("kernel-as-int", operation="as_int", tensor=tensor)
    promise = Promised("as_int", low, high, multiple_of, uniform)
    name = current().integer_name()
    emit(Let, name, "reg", (register(tensor, "as_int"),))
    return promise.of(name, tensor.dtype)  # type: ignore[return-value]
