"""What every printed kernel calls beside its ops: indices, shared memory, undefined registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

from cute_py.codegen.emit import Emit
from cute_py.codegen.storage import I8, I32, I64

SHARED = "cute_py_shared"  # the name of a block's shared memory
ALIGNMENT = 1024  # of shared memory (bytes): the period of the widest swizzle


def make_runtime(block: tuple[int, int, int]) -> dict[str, Any]:
    """Return the functions by name, for blocks of this shape."""
    return {
        "thread_index": _thread_index(block),
        "block_index": block_index,
        "shared_memory": shared_memory,
        "undefined": undefined,
        "int64": types.int64,
        "range": range,
    }


def _special(b: Any, register: str) -> Any:  # noqa: ANN401
    (found,) = Emit(b, {}, {}, {}).emit("special", register=register)
    return b.zext(found, I64)


def _thread_index(block: tuple[int, int, int]) -> Any:  # noqa: ANN401
    """Return the intrinsic that numbers the threads of a block of this shape."""
    units = (("y", block[1], block[0]), ("z", block[2], block[0] * block[1]))

    def codegen(ctx: Any, b: Any, sig: Any, args: Any) -> Any:  # noqa: ANN401
        total = _special(b, "tid.x")
        for letter, extent, unit in units:
            if extent > 1:
                part = b.mul(_special(b, f"tid.{letter}"), ir.Constant(I64, unit))
                total = b.add(total, part)
        return total

    @intrinsic
    def thread_index(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return types.int64(), codegen

    return thread_index


@intrinsic
def block_index(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Return the three indices of the block."""
    return types.UniTuple(types.int64, 3)(), _block_index


def _block_index(ctx: Any, b: Any, sig: Any, args: Any) -> Any:  # noqa: ANN401
    parts = [_special(b, f"ctaid.{letter}") for letter in "xyz"]
    return ctx.make_tuple(b, sig.return_type, parts)


@intrinsic
def shared_memory(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Return the address of the block's shared memory."""
    return types.uint32(), _shared_memory


def _shared_memory(ctx: Any, b: Any, sig: Any, args: Any) -> Any:  # noqa: ANN401
    memory = b.module.globals.get(SHARED)
    if memory is None:
        memory = ir.GlobalVariable(b.module, ir.ArrayType(I8, 0), SHARED, addrspace=3)
        memory.linkage, memory.align = "external", ALIGNMENT
    return b.ptrtoint(memory, I32)


@intrinsic
def undefined(context, count):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Return a tuple of words that have no value yet; their number is a literal."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    return types.UniTuple(types.uint32, count.literal_value)(count), _undefined


def _undefined(ctx: Any, b: Any, sig: Any, args: Any) -> Any:  # noqa: ANN401
    kind = sig.return_type
    return ctx.make_tuple(b, kind, [ir.Constant(I32, ir.Undefined)] * kind.count)
