"""`cute.copy`: from a partition to a partition, by the instruction of a copy atom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import copysign

from cute_py.atoms.copy import Copy_Atom
from cute_py.dtypes.table import b1
from cute_py.errors import kernel_line, refusal_here
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare, Reg, Test
from cute_py.plan.ops import CpAsync, LdMatrix, Load, Map, Prefetch, StMatrix, Store
from cute_py.tensor.tensor import Tensor
from cute_py.tiled.tiled_copy import TiledCopy
from cute_py.trace.arithmetic import assign, is_register, new_registers, shapes_face
from cute_py.trace.control import branch
from cute_py.trace.engines import Guarded
from cute_py.trace.lower import access, alignment_of, count_of, register, vector_width
from cute_py.trace.runtime_integers import Condition, as_condition
from cute_py.trace.state import current, emit, require_choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.atoms.copy import Copy_Op

WIDEST = 128  # bits of one load or store


@dataclass(frozen=True, slots=True)
class How:
    """What a copy does beside moving elements: see `copy`."""

    cache: str = ""
    fill: float = 0
    pred: Tensor | None = None
    also: bool | Condition = True  # a guard of all vectors, beside those of the extents


def copy(
    *args: Any,  # an atom or nothing, and two tensors
    pred: object = True,
    fill: float = 0,
    cache: str = "",
) -> None:
    """Copy a tensor of a thread to another: `copy(atom, src, dst)` or `copy(src, dst)`.

    Args:
        args: a Copy_Atom or TiledCopy whose instruction moves the elements, then source and
            destination: parts of one thread, as partition_S and partition_D make them. Without an
            atom, loads and stores are as wide as both sides allow, up to 128 bits.
        pred: a condition on integers under which the thread copies at all; or registers (b1), one
            or more, each for equally many vectors in order, such as (CPY_M,CPY_K): then these
            decide which vectors are copied, in place of the extents.
        fill: what a load gives where it is predicated off; a ZFILL instruction writes zeros there.
        cache: cache operator of PTX for global memory: cg, cs, lu, cv, wb, wt.

    A side that may reach past the extents of a kernel's argument is predicated by itself: loads
    give `fill` there, stores are left out. Raises LayoutError where sizes, types, neighbours or
    alignment do not fit the instruction.
    """
    atom, src, dst = _arguments(args)
    _require_pair(src, dst)
    if is_register(pred):
        _copy(atom, src, dst, How(cache, fill, pred))  # type: ignore[arg-type]
        return
    require_choice(cache, ("", "ca", "cg", "cs", "lu", "cv", "wb", "wt"), "cute.copy")
    how = How(cache, fill)
    truth = as_condition(pred, "cute.copy")
    if truth is False:
        return
    if isinstance(truth, Condition):
        with branch(truth):
            _copy(atom, src, dst, how)
        return
    _copy(atom, src, dst, how)


def copy_or_zero(copy_with: TiledCopy, src: Tensor, dst: Tensor, there: bool | Condition) -> None:
    """Copy by a ZFILL instruction where `there` holds, and write zeros elsewhere: no branch.

    A source that counts in coordinates knows by itself what lies beyond its extents.
    """
    known = there is True or isinstance(src.engine, Guarded)
    how = How() if known else How(also=there)
    _require_pair(src, dst)
    _cp_async(copy_with.atom.op, src, dst, how)


def store_all(target: Tensor, value: object) -> None:
    """Record target[...] = value for a tensor in memory: registers of its size, or one number."""
    if value.__class__ is Tensor:
        _require_pair(value, target)
        _copy(None, value, target, How())
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


def _copy(op: Copy_Op | None, src: Tensor, dst: Tensor, how: How) -> None:
    """Choose by the memories and the instruction, and record."""
    spaces = src.space, dst.space
    if op is not None and op.completion not in ("immediate", "cp_async"):
        raise refusal_here("kernel-atom", operation="cute.copy", atom=op)
    if op is not None and op.completion == "cp_async":
        _cp_async(op, src, dst, how)
    elif op is not None and op.num_threads > 1:
        _matrices(op, src, dst, how)
    elif spaces == ("rmem", "rmem"):
        _require_size(src, dst)
        _require_no_pred(how, dst)
        to, out = register(dst, "cute.copy"), register(src, "cute.copy")
        emit(Map, "copy", to, (out,), dst.dtype)
    elif spaces[0] == "rmem":
        _require_size(src, dst)
        target = _memory(op, dst, how)
        emit(Store, target, register(src, "cute.copy"))
    elif spaces[1] == "rmem":
        _require_size(src, dst)
        source = _memory(op, src, how)
        emit(Load, register(dst, "cute.copy"), source)
    else:
        _through_registers(op, src, dst, how)


def _through_registers(op: Copy_Op | None, src: Tensor, dst: Tensor, how: How) -> None:
    """Load and store; where a load is predicated off, `fill` is stored."""
    _require_size(src, dst)
    held = new_registers(src.dtype, count_of(src.layout, "cute.copy"), "t")
    reg = register(held, "cute.copy")
    source, target = _memory(op, src, how), _memory(op, dst, How())
    emit(Load, reg, source)
    emit(Store, target, reg)


def _memory(op: Copy_Op | None, tensor: Tensor, how: How) -> Access:
    """Return the access of the side in memory, predicated as asked."""
    cache = how.cache if tensor.space == "gmem" else ""
    found = access(tensor, _width(op, tensor), "cute.copy", cache=cache, fill=how.fill)
    return found if how.pred is None else _predicated(found, how.pred)


def _predicated(x: Access, pred: Tensor) -> Access:
    """Return an access whose vectors are guarded by registers instead of the extents."""
    flags = register(pred, "cute.copy")
    if pred.dtype is not b1 or x.count % len(flags):
        raise refusal_here("kernel-pred", operation="cute.copy", pred=pred, count=x.count)
    guards = tuple([Test(Reg(flags.storage, flags.dtype, (i,))) for i in flags.index])
    each = x.count // len(guards)
    return replace(x, guards=guards, masks=tuple([(v // each,) for v in range(x.count)]))


def _guarded_too(x: Access, also: bool | Condition) -> Access:
    """Return an access whose vectors have one more guard."""
    test = also.cond if isinstance(also, Condition) else Compare("lt", 1, 0)
    masks = x.masks or ((),) * x.count
    number = len(x.guards)
    return replace(x, guards=(*x.guards, test), masks=tuple([(*m, number) for m in masks]))


def prefetch(tensor: Tensor) -> None:
    """Bring a thread's part of global memory into the second-level cache; no value changes.

    Args:
        tensor: a part of one thread, as partition_S makes it; what lies past the extents is left
            out.

    It may stand before `griddepcontrol_wait`: what another kernel still writes is seen by the load
    that follows later. Raises LayoutError for memory of another kind. Source: PTX ISA, prefetch.L2.
    """
    if tensor.space != "gmem":
        raise refusal_here("kernel-space", operation="cute.prefetch", tensor=tensor, wanted="gmem")
    part = access(tensor, _width(None, tensor), "cute.prefetch")
    emit(Prefetch, part)


def _require_no_pred(how: How, tensor: Tensor) -> None:
    if how.pred is not None:
        raise refusal_here("kernel-pred", operation="cute.copy", pred=how.pred, count=0)


def _width(op: Copy_Op | None, memory: Tensor) -> int:
    """Return the elements of a vector: those of the instruction, or as many as fit."""
    bits: int = memory.dtype.bits
    if op is not None and op.name == "UniversalCopy":
        return max(op.src_bits // bits, 1)
    most = WIDEST if op is None else op.alignment_bits
    name = getattr(memory.engine, "name", "")
    aligned = alignment_of(memory.space, name) * 8 if name else bits
    return vector_width(memory, min(most, aligned), "cute.copy")


def _require_size(src: Tensor, dst: Tensor) -> None:
    a, b = count_of(src.layout, "cute.copy"), count_of(dst.layout, "cute.copy")
    if a != b or not shapes_face(src.shape, dst.shape):
        raise refusal_here("kernel-shapes", operation="cute.copy", a=src.shape, b=dst.shape)


# -- instructions with lanes of their own


def _matrices(op: Copy_Op, src: Tensor, dst: Tensor, how: How) -> None:
    """Record ldmatrix or stmatrix: a row of 128 bits a lane on one side, registers on the other."""
    _require_no_pred(how, dst)
    loads = op.dst_space == "rmem"
    _require_spaces(op, src, dst, op.src_space, op.dst_space)
    memory, regs = (src, dst) if loads else (dst, src)
    bits = src.dtype.bits
    rows, held = access(memory, 128 // bits, "cute.copy"), register(regs, "cute.copy")
    each = (op.dst_bits if loads else op.src_bits) // bits
    _require_instances(op, rows.count, len(held), each)
    line = kernel_line()
    current().emit(
        LdMatrix(op, held, rows, line=line) if loads else StMatrix(op, rows, held, line=line)
    )


def _cp_async(op: Copy_Op, src: Tensor, dst: Tensor, how: How) -> None:
    _require_spaces(op, src, dst, "gmem", "smem")
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
    source, target = access(src, width, "cute.copy"), access(dst, width, "cute.copy")
    if how.pred is not None:
        source = _predicated(source, how.pred)
    if how.also is not True:
        source = _guarded_too(source, how.also)
    if how.fill or copysign(1, how.fill) < 0:  # what it fills in is all zero bits
        raise refusal_here("kernel-fill", operation="cute.copy", fill=how.fill)
    emit(CpAsync, op, target, _filled(op, source))


def _filled(op: Copy_Op, source: Access) -> Access:
    """Return the source with what guarded vectors give: zeros, or nothing without ZFILL."""
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
