"""`cute.copy`: from a partition to a partition, by the instruction of a copy atom."""

from __future__ import annotations

from dataclasses import replace

from cute_py.atoms.copy import Copy_Atom
from cute_py.errors import refusal
from cute_py.layout.tensor import Tensor
from cute_py.tiled.tiled_copy import TiledCopy
from cute_py.trace.arithmetic import new_registers
from cute_py.trace.integers import Condition, as_condition
from cute_py.trace.lower import access, alignment_of, count_of, register, vector_width
from cute_py.trace.ops import CpAsync, LdMatrix, Load, Map, StMatrix, Store
from cute_py.trace.state import current, kernel_line, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.atoms.copy import Copy_Op
    from cute_py.trace.access import Access

WIDEST = 128  # bits of one load or store


def copy(*args: Any, pred: object = True, cache: str = "") -> None:  # noqa: ANN401
    """Copy a tensor of a thread to another: `copy(atom, src, dst)` or `copy(src, dst)`.

    Args:
        args: a Copy_Atom or TiledCopy whose instruction moves the elements, then source and
            destination: parts of one thread, as partition_S and partition_D make them. Without an
            atom, loads and stores are as wide as both sides allow, up to 128 bits.
        pred: a condition under which the thread copies at all.
        cache: cache operator of PTX for global memory: cg, cs, lu, cv, wb, wt.

    A side that may reach past the extents of a kernel's argument is predicated by itself: loads give
    zero there, stores are left out. Raises LayoutError where sizes, types, neighbours or alignment
    do not fit the instruction.
    """
    atom, src, dst = _arguments(args)
    _require_pair(src, dst)
    truth = as_condition(pred, "cute.copy")
    if truth is False:
        return
    if isinstance(truth, Condition):
        from cute_py.trace.control import branch

        with branch(truth):
            _copy(atom, src, dst, cache)
        return
    _copy(atom, src, dst, cache)


def store_all(target: Tensor, value: object) -> None:
    """Record target[...] = value for a tensor in memory: registers of its size, or one number."""
    from cute_py.trace.arithmetic import assign

    if value.__class__ is Tensor:
        _require_pair(value, target)
        _copy(None, value, target, "")
        return
    held = new_registers(target.dtype, 1)
    assign(held, value)
    reg = register(held, "assignment")
    count = count_of(target.layout, "assignment")
    spread = replace(reg, index=reg.index * count)
    dst = access(target, 1, "assignment")
    current().emit(Store(dst, spread, line=kernel_line()))


def _arguments(args: tuple[Any, ...]) -> tuple[Copy_Op | None, Tensor, Tensor]:
    first = args[0] if len(args) == 3 else None
    op: Copy_Op | None = None
    if isinstance(first, TiledCopy):
        op = first.atom.op
    elif isinstance(first, Copy_Atom):
        op = first.op
    elif first is not None or len(args) not in (2, 3):
        raise refusal("kernel-copy", operation="cute.copy", count=len(args), where=where())
    src, dst = args[-2:]
    for x in (src, dst):
        if x.__class__ is not Tensor:
            raise refusal(
                "not-a-tensor", operation="cute.copy", value=x, type=type(x).__name__, where=where()
            )
    return op, src, dst


def _require_pair(src: Tensor, dst: Tensor) -> None:
    if src.dtype is not dst.dtype:
        raise refusal(
            "kernel-types", operation="cute.copy", a=src.dtype, b=dst.dtype, where=where()
        )


def _copy(op: Copy_Op | None, src: Tensor, dst: Tensor, cache: str) -> None:
    """Choose by the memories and the instruction, and record."""
    spaces = src.space, dst.space
    if op is not None and op.name.endswith(("LDSM_N", "LDSM_T")):
        _ldmatrix(op, src, dst)
    elif op is not None and "STSM" in op.name:
        _stmatrix(op, src, dst)
    elif op is not None and op.completion == "cp_async":
        _cp_async(op, src, dst)
    elif op is not None and op.completion != "immediate":
        raise refusal("kernel-atom", operation="cute.copy", atom=op, where=where())
    elif spaces == ("rmem", "rmem"):
        _require_size(src, dst)
        to, out = register(dst, "cute.copy"), register(src, "cute.copy")
        current().emit(Map("copy", to, (out,), dst.dtype, line=kernel_line()))
    elif spaces[0] == "rmem":
        _require_size(src, dst)
        width = _width(op, dst)
        target = access(dst, width, "cute.copy", cache=cache)
        current().emit(Store(target, register(src, "cute.copy"), line=kernel_line()))
    elif spaces[1] == "rmem":
        _require_size(src, dst)
        width = _width(op, src)
        source = access(src, width, "cute.copy", cache=cache)
        current().emit(Load(register(dst, "cute.copy"), source, line=kernel_line()))
    else:
        _through_registers(op, src, dst, cache)


def _through_registers(op: Copy_Op | None, src: Tensor, dst: Tensor, cache: str) -> None:
    _require_size(src, dst)
    held = new_registers(src.dtype, count_of(src.layout, "cute.copy"), "t")
    reg = register(held, "cute.copy")
    source = access(src, _width(op, src), "cute.copy", cache=cache)
    target = access(dst, _width(op, dst), "cute.copy")
    current().emit(Load(reg, source, line=kernel_line()))
    current().emit(Store(target, reg, line=kernel_line()))


def _width(op: Copy_Op | None, memory: Tensor) -> int:
    """Return the elements of a vector: those of the instruction, or as many as fit."""
    bits = memory.dtype.bits
    if op is not None and op.name == "UniversalCopy":
        return max(op.src_bits // bits, 1)
    most = WIDEST if op is None else op.alignment_bits
    name = getattr(memory.engine, "name", "")
    aligned = alignment_of(memory.space, name) * 8 if name else bits
    return vector_width(memory, min(most, aligned), "cute.copy")


def _require_size(src: Tensor, dst: Tensor) -> None:
    a, b = count_of(src.layout, "cute.copy"), count_of(dst.layout, "cute.copy")
    if a != b:
        raise refusal(
            "kernel-shapes", operation="cute.copy", a=src.shape, b=dst.shape, where=where()
        )


# -- instructions with lanes of their own


def _ldmatrix(op: Copy_Op, src: Tensor, dst: Tensor) -> None:
    _require_spaces(op, src, dst, "smem", "rmem")
    bits = src.dtype.bits
    source = access(src, 128 // bits, "cute.copy")
    target = register(dst, "cute.copy")
    _require_instances(op, source.count, len(target), op.dst_bits // bits)
    current().emit(LdMatrix(op, target, source, line=kernel_line()))


def _stmatrix(op: Copy_Op, src: Tensor, dst: Tensor) -> None:
    _require_spaces(op, src, dst, "rmem", "smem")
    bits = src.dtype.bits
    target = access(dst, 128 // bits, "cute.copy")
    source = register(src, "cute.copy")
    _require_instances(op, target.count, len(source), op.src_bits // bits)
    current().emit(StMatrix(op, target, source, line=kernel_line()))


def _cp_async(op: Copy_Op, src: Tensor, dst: Tensor) -> None:
    _require_spaces(op, src, dst, "gmem", "smem")
    _require_size(src, dst)
    width = op.src_bits // src.dtype.bits
    if not width:
        raise refusal(
            "copy-value-bits",
            operation="cute.copy",
            op=op,
            side="source",
            moved=op.src_bits,
            dtype=src.dtype,
            bits=src.dtype.bits,
            where=where(),
        )
    source, target = access(src, width, "cute.copy"), access(dst, width, "cute.copy")
    current().emit(CpAsync(op, target, _filled(op, source), line=kernel_line()))


def _filled(op: Copy_Op, source: Access) -> Access:
    """Return the source with what guarded vectors give: zeros, or nothing without ZFILL."""
    return source if "ZFILL" in op.name or not source.guards else replace(source, fill=None)


def _require_spaces(op: Copy_Op, src: Tensor, dst: Tensor, a: str, b: str) -> None:
    if (src.space, dst.space) != (a, b):
        raise refusal(
            "kernel-copy-spaces",
            operation="cute.copy",
            atom=op,
            src=src.space,
            dst=dst.space,
            a=a,
            b=b,
            where=where(),
        )


def _require_instances(op: Copy_Op, rows: int, elements: int, each: int) -> None:
    if rows * each != elements:
        raise refusal(
            "kernel-matrices",
            operation="cute.copy",
            atom=op,
            rows=rows,
            elements=elements,
            each=each,
            where=where(),
        )
