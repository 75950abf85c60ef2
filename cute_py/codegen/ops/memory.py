"""Loads, stores and copies, one instruction a vector.

In global memory elements narrower than a byte lie in a byte of their own. So NumPy, torch and CuPy
keep a bool (0 or 1), and int8 an s4. In registers and in shared memory they are packed: a load
packs them, a store takes them apart.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.addresses import Addresses, Guards
from cute_py.codegen.emit import emits
from cute_py.codegen.instructions import TABLE
from cute_py.codegen.storage import I8, I16, I32
from cute_py.dtypes.table import u8
from cute_py.plan import ops
from cute_py.plan.conditions import Reg

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.codegen.emit import Emit
    from cute_py.plan.access import Access

# -- loads and stores


@emits(ops.Load)
def load(e: Emit, op: ops.Load) -> None:
    """One ld a vector; guarded ones leave `fill`."""
    x, get, put = _how(e, op.src)
    addresses, guards = Addresses(e, x, e.link), Guards(e, x)
    for v in range(x.count):
        old = None
        if x.fill is None and guards[v] is not None:
            old = get(op.dst, v * x.width, x.width)
        packed = _load_vector(e, x, addresses[v], guards[v], op.order, old)
        put(op.dst, v * x.width, x.width, packed)
    e.reached = addresses.last()


def _how(e: Emit, x: Access) -> tuple[Access, Callable[..., list[Any]], Callable[..., None]]:
    """Return an access, and how its vectors are taken from registers and put there."""
    if is_unpacked(x):
        return as_bytes(e, x), partial(get_bytes, e), partial(put_bytes, e)
    return x, e.words.get_words, e.words.put_words


def _load_vector(
    e: Emit, x: Access, address: tuple[Any, int], guard: Any, order: str, old: list[Any] | None
) -> list[Any]:
    fills: list[Any] = []
    if guard is not None:
        fills = _pieces(e, x, old or e.fill_words(x.dtype, x.fill, max(1, x.vector_bits // 32)))
    found = e.emit("ld", address, guard=guard, old=fills, **_modes(x, order))
    return [e.b.zext(v, I32) if v.type != I32 else v for v in found]


def _modes(x: Access, order: str) -> dict[str, Any]:
    """Return what a load or store of an access chooses."""
    return {"order": order, "space": x.space, "cache": x.cache, "bits": x.vector_bits}


def _pieces(e: Emit, x: Access, words: list[Any]) -> list[Any]:
    """Return words as the registers that a vector has: 16 bits have one of their own kind."""
    return [e.b.trunc(w, I16) for w in words] if x.vector_bits == 16 else words


@emits(ops.Store)
def store(e: Emit, op: ops.Store) -> None:
    """One st a vector; nothing where a guard fails."""
    x, get, _put = _how(e, op.dst)
    addresses, guards = Addresses(e, x, e.link), Guards(e, x)
    for v in range(x.count):
        packed = _pieces(e, x, get(op.src, v * x.width, x.width))
        e.emit("st", addresses[v], packed, guard=guards[v], **_modes(x, op.order))
    e.reached = addresses.last()


# -- matrices and asynchronous copies


@emits(ops.LdMatrix)
def ldmatrix(e: Emit, op: ops.LdMatrix) -> None:
    """One ldmatrix per row address."""
    addresses = Addresses(e, op.src)
    each = op.atom.dst_bits // op.dst.dtype.bits
    for v in range(op.src.count):
        e.words.put_words(op.dst, v * each, each, e.emit(op.atom, addresses[v]))


@emits(ops.StMatrix)
def stmatrix(e: Emit, op: ops.StMatrix) -> None:
    """One stmatrix per row address."""
    addresses = Addresses(e, op.dst)
    each = op.atom.src_bits // op.src.dtype.bits
    for v in range(op.dst.count):
        e.emit(op.atom, addresses[v], e.words.get_words(op.src, v * each, each))


@emits(ops.CpAsync)
def cp_async(e: Emit, op: ops.CpAsync) -> None:
    """One cp.async a vector; with ZFILL a failing guard reads nothing and writes zeros."""
    if is_unpacked(op.src):
        _copy_packed(e, op)
        return
    src, dst = Addresses(e, op.src, e.link), Addresses(e, op.dst)
    guards = Guards(e, op.src)
    full = ir.Constant(I32, op.src.vector_bits // 8)
    for v in range(op.src.count):
        to, out = dst[v], src[v]
        guard = guards[v]
        if "ZFILL" in op.atom.name:
            e.emit(op.atom, to, out, full if guard is None else e.b.mul(guard, full))
        else:
            e.emit(op.atom, to, out, guard=guard)
    e.reached = src.last()


def _copy_packed(e: Emit, op: ops.CpAsync) -> None:
    """Copy elements that are packed on the way, which cp.async cannot: through registers, at once;
    to be done early is what an asynchronous copy is free to. One vector after another: all at once
    would not fit into the registers.
    """
    packs, x = op.src, replace(as_bytes(e, op.src), fill=0)
    held = Reg("packed", packs.dtype, tuple(range(packs.width)))
    src, dst, guards = Addresses(e, x), Addresses(e, op.dst), Guards(e, x)
    each = packs.width // x.width
    for v in range(packs.count):
        e.words.words[held.storage] = [ir.Constant(I32, 0)] * (packs.vector_bits // 32)
        for k in range(each):
            found = _load_vector(e, x, src[v * each + k], guards[v * each], "weak", None)
            put_bytes(e, held, k * x.width, x.width, found)
        guard = None if "ZFILL" in op.atom.name else guards[v * each]
        packed = e.words.get_words(held, 0, packs.width)
        e.emit("st", dst[v], packed, guard=guard, **_modes(op.dst, "weak"))


def _atomic_row(fn: str, x: Access) -> tuple[str, dict[str, Any]]:
    """Return the row of an atomic and what it chooses."""
    kind = x.dtype
    if fn == "add":
        name = "atom.add.noftz.bf16" if kind.name == "bf16" else "atom.add"
        return name, {"space": x.space, "type": kind.ptx}
    if fn in ("min", "max"):
        return "atom.min", {"space": x.space, "fn": fn, "type": kind.ptx}
    return "atom.bits", {"space": x.space, "fn": fn, "type": f"b{kind.bits}"}


@emits(ops.Atomic)
def atomic(e: Emit, op: ops.Atomic) -> None:
    """One atom instruction an element."""
    x = op.dst
    addresses, guards = Addresses(e, x), Guards(e, x)
    name, modes = _atomic_row(op.fn, x)
    if modes["type"] not in TABLE[name].allowed("type"):
        raise e.unsupported(f"atomic {op.fn} of {x.dtype}")
    for v in range(x.count):
        address, value = addresses[v], e.words.get(op.src, v)
        kind = [value.type]  # of exch, too, which PTX has for bits
        kept = [e.words.get(op.old, v)] if op.old is not None and guards[v] is not None else []
        (old,) = e.emit(name, address, value, results=kind, guard=guards[v], old=kept, **modes)
        if op.old is not None:
            e.words.put(op.old, v, old)


@emits(ops.Prefetch)
def prefetch(e: Emit, op: ops.Prefetch) -> None:
    """One prefetch a vector; nothing where a guard fails."""
    addresses, guards = Addresses(e, op.src), Guards(e, op.src)
    for v in range(op.src.count):
        e.emit("prefetch", addresses[v], guard=guards[v])


@emits(ops.CpCommit)
def cp_commit(e: Emit, op: ops.CpCommit) -> None:
    """Close a group of copies."""
    e.emit("cp.async.commit_group")


@emits(ops.CpWait)
def cp_wait(e: Emit, op: ops.CpWait) -> None:
    """Wait for groups of copies."""
    e.emit("cp.async.wait_group", n=op.n)


# -- elements narrower than a byte


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
