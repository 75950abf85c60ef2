"""`cute.copy`: copies between partitions by the instruction of a copy atom."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import copysign

from cute_py.atoms.copy import Copy_Atom
from cute_py.calls.arguments import number
from cute_py.dtypes.table import b1
from cute_py.errors import kernel_line, refusal_here
from cute_py.plan.access import HINTS, LOAD_CACHES, STORE_CACHES, Access, hints_of
from cute_py.plan.conditions import Compare, Reg, Test
from cute_py.plan.op import names_of
from cute_py.plan.ops import CpAsync, LdMatrix, Load, Map, Prefetch, StMatrix, Store
from cute_py.plan.walk import rebuilt
from cute_py.tensor.tensor import Tensor
from cute_py.tiled.tiled_copy import TiledCopy
from cute_py.trace.arithmetic import assign, is_register, new_registers, shapes_match
from cute_py.trace.control import bare_condition, branch
from cute_py.trace.lower import (
    access,
    alignment_of,
    count_of,
    register,
    require_own,
    widest_access,
)
from cute_py.trace.runtime_integers import Condition, as_condition
from cute_py.trace.state import current, emit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cute_py.atoms.copy import Copy_Op
    from cute_py.plan.conditions import Cond
    from cute_py.plan.op import Op

WIDEST = 128  # bits of one load or store


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a copy; see `copy`."""

    cache: str = ""
    fill: float = 0
    pred: Tensor | tuple[bool | Condition, ...] | None = None


def copy(
    *args: Any,  # an atom or nothing, and two tensors
    pred: object = True,
    fill: float = 0,
    cache: str = "",
) -> None:
    """Copy one tensor of a thread to another: `copy(atom, src, dst)` or `copy(src, dst)`.

    Args:
        args: a Copy_Atom or TiledCopy whose instruction moves the elements, then source and
            destination: partitions of one thread, as partition_S and partition_D return them.
            Without an atom, loads and stores are as wide as both sides allow, up to 128 bits.
        pred: a condition on integers for the whole copy of the thread, which branches; or
            predicate registers (b1), such as (CPY_M,CPY_K), or a tuple of conditions, each for the
            same number of consecutive vectors, which replace the predicates of the extents.
        fill: the result of a load that is predicated off; a ZFILL instruction writes zeros there.
        cache: words of PTX for global memory, joined by dots, such as "L1::no_allocate.L2::128B":
            an operator (ca, cg, cs, lu, cv of a load, wb, cg, cs, wt of a store) or a priority in
            L1 (L1::evict_first, evict_last, no_allocate ...); a priority in L2 (L2::evict_first,
            evict_last, evict_normal), also of cp.async; and how much a load or cp.async prefetches
            to L2 (L2::64B, 128B, 256B). They change no values.

    A side that may exceed the extents of a kernel's argument is predicated automatically: loads
    return `fill` there, stores are skipped. Raises LayoutError if sizes, types, contiguity or
    alignment do not fit the instruction.
    """
    atom, src, dst = _arguments(args)
    _require_pair(src, dst)
    fill = _filling(fill, src)
    if hints_of(cache) is None:
        words = (*LOAD_CACHES, *STORE_CACHES, *HINTS)
        known = f"{', '.join(words)}; of each kind one, joined by dots"
        raise refusal_here("kernel-choice", operation="cute.copy", value=cache, choices=known)
    if is_register(pred) and _takes_flags(atom, src, dst, pred):  # type: ignore[arg-type]
        _copy(atom, src, dst, Options(cache, fill, pred))  # type: ignore[arg-type]
        return
    if pred.__class__ is tuple:
        tests = tuple([as_condition(x, "cute.copy") for x in pred])
        _copy(atom, src, dst, Options(cache, fill, tests))
        return
    options = Options(cache, fill)
    truth = as_condition(pred, "cute.copy")
    if truth is False:
        return
    if isinstance(truth, Condition):
        with branch(truth):
            _copy(atom, src, dst, options)
        return
    _copy(atom, src, dst, options)


def _filling(fill: Any, src: Tensor) -> float:
    """Return the number that fills registers; a zero is one of every type."""
    if fill.__class__ in (int, float) and fill == 0:
        return fill if src.dtype.is_float else 0
    return number(fill, src.dtype, "cute.copy")


def _takes_flags(op: Copy_Op | None, src: Tensor, dst: Tensor, pred: Tensor) -> bool:
    """Tell whether flags choose vectors in memory; without any, one flag is for the whole copy."""
    vectors = (src.space, dst.space) != ("rmem", "rmem") and (op is None or op.num_threads == 1)
    return vectors or pred.size() != 1


@contextmanager
def predicated(truth: bool | Condition) -> Iterator[None]:
    """Predicate the accesses to global memory that are recorded inside, without a branch: where
    the condition is false, nothing is stored, and zeros are read.
    """
    ops = current().scope.ops
    start = len(ops)
    yield
    test = _test_of(truth)
    if test is not None:
        ops[start:] = rebuilt(tuple(ops[start:]), lambda op: (_predicated_op(op, test),))


def _predicated_op(op: Op, test: Cond) -> Op:
    held = {name: getattr(op, name) for name in names_of(op)}
    changed: Any = {
        name: _with_guard(x, test)
        for name, x in held.items()
        if isinstance(x, Access) and x.space == "gmem"
    }
    if isinstance(op, CpAsync):
        changed["src"] = _filled(op.atom, changed["src"])
    return replace(op, **changed) if changed else op


def store_all(target: Tensor, value: object) -> None:
    """Record target[...] = value for a tensor in memory; the value is registers or a number."""
    if value.__class__ is Tensor:
        _require_pair(value, target)
        _copy(None, value, target, Options())
        return
    held = new_registers(target.dtype, 1)
    assign(held, value)
    reg = register(held, "assignment")
    count = count_of(target.layout, "assignment")
    spread = replace(reg, index=reg.index * count)
    dst = access(target, 1, "assignment")
    emit(Store, dst, spread)


def _arguments(args: tuple[Any, ...]) -> tuple[Copy_Op | None, Tensor, Tensor]:
    first = args[0] if len(args) == 3 else None
    op: Copy_Op | None = None
    if isinstance(first, TiledCopy):
        op = first.atom.op
    elif isinstance(first, Copy_Atom):
        op = first.op
    elif first is not None or len(args) not in (2, 3):
        raise refusal_here("kernel-copy", operation="cute.copy", count=len(args))
    src, dst = args[-2:]
    for x in (src, dst):
        if x.__class__ is not Tensor:
            raise refusal_here("not-a-tensor", operation="cute.copy", value=x)
    return op, src, dst


def _require_pair(src: Tensor, dst: Tensor) -> None:
    if src.dtype is not dst.dtype:
        raise refusal_here("kernel-types", operation="cute.copy", a=src.dtype, b=dst.dtype)


def _copy(op: Copy_Op | None, src: Tensor, dst: Tensor, options: Options) -> None:
    """Record the op for the memory spaces and the instruction."""
    if getattr(dst.engine, "copied", False):
        raise refusal_here("kernel-element", operation="cute.copy")
    spaces = src.space, dst.space
    if op is not None and op.completion not in ("immediate", "cp_async"):
        raise refusal_here("kernel-atom", operation="cute.copy", atom=op)
    if op is not None and op.completion == "cp_async":
        _cp_async(op, src, dst, options)
    elif op is not None and op.num_threads > 1:
        _matrices(op, src, dst, options)
    elif spaces == ("rmem", "rmem"):
        _require_size(src, dst)
        _require_no_pred(options, dst)
        to, out = register(dst, "cute.copy"), register(src, "cute.copy")
        emit(Map, "copy", to, (out,), dst.dtype)
    elif spaces[0] == "rmem":
        _require_size(src, dst)
        target = _memory(op, dst, options)
        emit(Store, target, register(src, "cute.copy"))
    elif spaces[1] == "rmem":
        _require_size(src, dst)
        source = _memory(op, src, options)
        emit(Load, register(dst, "cute.copy"), source)
    else:
        _through_registers(op, src, dst, options)


def _through_registers(op: Copy_Op | None, src: Tensor, dst: Tensor, options: Options) -> None:
    """Load and store; `fill` is stored where the load is predicated off."""
    _require_size(src, dst)
    held = new_registers(src.dtype, count_of(src.layout, "cute.copy"), "t")
    reg = register(held, "cute.copy")
    source, target = _memory(op, src, options), _memory(op, dst, Options())
    emit(Load, reg, source)
    emit(Store, target, reg)


def _memory(op: Copy_Op | None, tensor: Tensor, options: Options) -> Access:
    """Return the access of the side in memory, with the predicates of the options."""
    cache = options.cache if tensor.space == "gmem" else ""
    found = _accessed(op, tensor, "cute.copy", cache=cache, fill=options.fill)
    return found if options.pred is None else _predicated(found, options.pred)


def _predicated(x: Access, pred: Tensor | tuple[bool | Condition, ...]) -> Access:
    """Return an access whose vectors are guarded by registers, or by conditions, instead of the
    extents.
    """
    if pred.__class__ is tuple:
        tests = [_test_of(truth) for truth in pred]
        right = bool(tests)
    else:
        flags = register(pred, "cute.copy")  # type: ignore[arg-type]
        tests = [Test(Reg(flags.storage, flags.dtype, (i,))) for i in flags.index]
        right = pred.dtype is b1  # type: ignore[union-attr]
    if not right or x.count % len(tests):
        raise refusal_here("kernel-pred", operation="cute.copy", pred=pred, count=x.count)
    guards = tuple(dict.fromkeys(test for test in tests if test is not None))
    each = x.count // len(tests)
    held = [() if test is None else (guards.index(test),) for test in tests]
    masks = tuple([held[v // each] for v in range(x.count)]) if guards else ()
    return replace(x, guards=guards, masks=masks)


def _test_of(truth: bool | Condition) -> Cond | None:
    """Return a condition as the guard of an access; None if it always holds."""
    if isinstance(truth, Condition):
        return bare_condition(truth).cond
    return None if truth else Compare("lt", 1, 0)


def _with_guard(x: Access, test: Cond) -> Access:
    """Return an access with one more guard for all vectors."""
    masks = x.masks or ((),) * x.count
    number = len(x.guards)
    return replace(x, guards=(*x.guards, test), masks=tuple([(*m, number) for m in masks]))


def prefetch(tensor: Tensor) -> None:
    """Prefetch a thread's part of global memory into the L2 cache.

    Args:
        tensor: a partition of one thread, as partition_S returns it; elements outside of the
            extents are skipped.

    It may precede `griddepcontrol_wait`: the later load sees what another kernel writes in the
    meantime. Raises LayoutError for another memory space. Source: PTX ISA, prefetch.L2.
    """
    if tensor.space != "gmem":
        facts = {"tensor": tensor, "wanted": "gmem", "how": "leave shared memory out"}
        raise refusal_here("kernel-space", operation="cute.prefetch", **facts)
    emit(Prefetch, _accessed(None, tensor, "cute.prefetch"))


def _require_no_pred(options: Options, tensor: Tensor) -> None:
    if options.pred is not None:
        raise refusal_here("kernel-pred", operation="cute.copy", pred=options.pred, count=0)


def _accessed(op: Copy_Op | None, memory: Tensor, operation: str, **more: Any) -> Access:
    """Return the access by vectors of the instruction's width, or of the widest that fits."""
    bits: int = memory.dtype.bits
    if op is not None and op.name == "UniversalCopy":
        return access(memory, max(op.src_bits // bits, 1), operation, **more)
    most = WIDEST if op is None else op.alignment_bits
    name = getattr(memory.engine, "name", "")
    aligned = alignment_of(memory.space, name) * 8 if name else bits
    return widest_access(memory, min(most, aligned), operation, **more)


def _require_size(src: Tensor, dst: Tensor) -> None:
    a, b = count_of(src.layout, "cute.copy"), count_of(dst.layout, "cute.copy")
    if a != b or not shapes_match(src.shape, dst.shape):
        raise refusal_here("kernel-shapes", operation="cute.copy", a=src.shape, b=dst.shape)


# -- warp-wide and asynchronous instructions


def _matrices(op: Copy_Op, src: Tensor, dst: Tensor, options: Options) -> None:
    """Record ldmatrix or stmatrix: one row of 128 bits per lane in memory, and registers."""
    _require_no_pred(options, dst)
    loads = op.dst_space == "rmem"
    _require_spaces(op, src, dst, op.src_space, op.dst_space)
    memory, regs = (src, dst) if loads else (dst, src)
    require_own(memory, f"cute.copy by {op}", "copy it to a tile of this block, or by vectors")
    bits = src.dtype.bits
    rows, held = access(memory, 128 // bits, "cute.copy"), register(regs, "cute.copy")
    each = (op.dst_bits if loads else op.src_bits) // bits
    _require_instances(op, rows.count, len(held), each)
    line = kernel_line()
    current().emit(
        LdMatrix(op, held, rows, line=line) if loads else StMatrix(op, rows, held, line=line)
    )


def _cp_async(op: Copy_Op, src: Tensor, dst: Tensor, options: Options) -> None:
    _require_spaces(op, src, dst, "gmem", "smem")
    require_own(dst, f"cute.copy by {op}", "copy without an atom: through registers")
    _require_size(src, dst)
    width = op.src_bits // src.dtype.bits
    if not width:
        raise refusal_here(
            "copy-value-bits",
            operation="cute.copy",
            op=op,
            side="source",
            moved=op.src_bits,
            dtype=src.dtype,
            bits=src.dtype.bits,
        )
    source = access(src, width, "cute.copy", cache=options.cache)
    target = access(dst, width, "cute.copy")
    if options.pred is not None:
        source = _predicated(source, options.pred)
    if options.fill or copysign(1, options.fill) < 0:  # the instruction fills with zero bits
        raise refusal_here("kernel-fill", operation="cute.copy", fill=options.fill)
    emit(CpAsync, op, target, _filled(op, source))


def _filled(op: Copy_Op, source: Access) -> Access:
    """Return the source with its fill: zeros for ZFILL instructions, else no write."""
    return source if "ZFILL" in op.name or not source.guards else replace(source, fill=None)


def _require_spaces(op: Copy_Op, src: Tensor, dst: Tensor, a: str, b: str) -> None:
    for side, tensor, needed in (("source", src, a), ("destination", dst, b)):
        if tensor.space != needed:
            raise refusal_here(
                "copy-memory",
                operation="cute.copy",
                atom=op,
                side=side,
                space=tensor.space,
                needed=needed,
            )


def _require_instances(op: Copy_Op, rows: int, elements: int, each: int) -> None:
    if rows * each != elements:
        raise refusal_here(
            "kernel-matrices",
            operation="cute.copy",
            atom=op,
            rows=rows,
            elements=elements,
            each=each,
        )
