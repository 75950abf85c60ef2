"""Elements narrower than a byte in global memory: each lies in a byte of its own.

So NumPy, torch and CuPy keep a bool (0 or 1), and int8 an s4. In registers and in shared memory
they are packed: a load packs them, a store takes them apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.storage import I8, I32
from cute_py.dtypes.table import u8

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Reg


def is_unpacked(x: Access) -> bool:
    """Tell whether each element of an access lies in a byte of its own, but is narrower."""
    return x.space == "gmem" and x.dtype.bits in (1, 2, 4)


def as_bytes(e: Emit, x: Access) -> Access:
    """Return an access to the same elements as bytes: vector v is its next few vectors.

    A vector begins at a multiple of its packed size, and no more than that is known: so many bytes
    are moved at once.
    """
    sure = max(1, x.vector_bits // 8)
    n = min(16, sure & -sure, x.width & -x.width)
    each = range(0, x.width, n)
    return replace(
        x,
        dtype=u8,
        width=n,
        table=tuple([(base, offset + k) for base, offset in x.table for k in each]),
        masks=tuple([mask for mask in x.masks for _k in each]),
        fill=None if x.fill is None else e.image(x.fill, x.dtype),
    )


def get_bytes(e: Emit, reg: Reg, start: int, count: int) -> list[Any]:
    """Return elements as words of four bytes each, as memory holds them."""
    b, words = e.b, [ir.Constant(I32, 0)] * -(-count // 4)
    for k in range(count):
        widen = b.sext if reg.dtype.kind == "int" else b.zext
        byte = b.zext(widen(e.words.get(reg, start + k), I8), I32)
        words[k // 4] = b.or_(words[k // 4], b.shl(byte, ir.Constant(I32, k % 4 * 8)))
    return words


def put_bytes(e: Emit, reg: Reg, start: int, count: int, words: list[Any]) -> None:
    """Set elements from words of four bytes each; a flag is set by any byte but 0."""
    b = e.b
    for k in range(count):
        byte = b.trunc(b.lshr(words[k // 4], ir.Constant(I32, k % 4 * 8)), I8)
        if reg.dtype.name == "b1":
            value = b.icmp_unsigned("!=", byte, ir.Constant(I8, 0))
        else:
            value = b.trunc(byte, ir.IntType(reg.dtype.bits))
        e.words.put(reg, start + k, value)
