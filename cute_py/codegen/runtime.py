"""What every printed kernel calls beside its ops: indices, shared memory, undefined registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

from cute_py.codegen.emit import Emit
from cute_py.codegen.storage import I32, I64


def _special(b: Any, register: str) -> Any:  # noqa: ANN401
    (found,) = Emit(b, {}, {}, {}).emit("special", register=register)
    return b.zext(found, I64)


def make_runtime(block: tuple[int, int, int]) -> dict[str, Any]:
    """Return the functions by name, for blocks of this shape."""

    @intrinsic
    def thread_index(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        def codegen(ctx, b, sig, args):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            total = _special(b, "tid.x")
            for letter, unit in (("y", block[0]), ("z", block[0] * block[1])):
                if block["xyz".index(letter)] > 1:
                    part = _special(b, f"tid.{letter}")
                    total = b.add(total, b.mul(part, ir.Constant(I64, unit)))
            return total

        return types.int64(), codegen

    @intrinsic
    def block_index(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        def codegen(ctx, b, sig, args):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            parts = [_special(b, f"ctaid.{letter}") for letter in "xyz"]
            return ctx.make_tuple(b, sig.return_type, parts)

        return types.UniTuple(types.int64, 3)(), codegen

    @intrinsic
    def shared_memory(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        def codegen(ctx, b, sig, args):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            kind = ir.ArrayType(ir.IntType(8), 0)
            name = "cute_py_shared"
            memory = b.module.globals.get(name)
            if memory is None:
                memory = ir.GlobalVariable(b.module, kind, name, addrspace=3)
                memory.linkage, memory.align = "external", 1024
            return b.ptrtoint(memory, I32)

        return types.uint32(), codegen

    @intrinsic
    def undefined(context, count):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        if not isinstance(count, types.IntegerLiteral):
            return None
        kind = types.UniTuple(types.uint32, count.literal_value)

        def codegen(ctx, b, sig, args):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            words = [ir.Constant(I32, ir.Undefined)] * kind.count
            return ctx.make_tuple(b, kind, words)

        return kind(count), codegen

    return {
        "thread_index": thread_index,
        "block_index": block_index,
        "shared_memory": shared_memory,
        "undefined": undefined,
        "int64": types.int64,
        "range": range,
    }
