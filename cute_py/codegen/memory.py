"""Loads, stores and copies: addresses from `Access` records, one instruction a vector."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.guards import Guards
from cute_py.codegen.instructions import TABLE
from cute_py.codegen.narrow import as_bytes, get_bytes, is_unpacked, put_bytes
from cute_py.codegen.scalars import apart, varies
from cute_py.codegen.storage import I16, I32
from cute_py.integers import ints
from cute_py.plan import ops
from cute_py.plan.conditions import Reg

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.codegen.chains import Walk
    from cute_py.codegen.emit import Emit, Link
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Scalar

# -- addresses


class Addresses:
    """The byte addresses of an access; what vectors share is computed once."""

    def __init__(self, e: Emit, x: Access, chain: Link | None = None) -> None:
        """Keep the emitter and the access; `chain` is where an op before has got to."""
        self.e, self.x = e, x
        if x.dtype.bits < 8 and x.space == "gmem":
            raise e.unsupported(f"such an access to elements of {x.dtype} in global memory")
        if x.vector_bits < 8 or (x.dtype.bits < 8 and x.vector_bits % 8):
            raise e.unsupported(f"access to single elements of {x.dtype}")
        self.wide = x.space == "gmem"
        self.bits = x.dtype.bits
        # what varies, and the constant beyond it; elements below a byte need both for whole bytes
        self.parts = [apart(base) if self.bits >= 8 else (base, 0) for base in x.bases]
        self.bases: dict[int, Any] = {}
        self.inside: dict[int, Any] = {}
        if chain is not None:
            before, self.bases[-1] = chain
            self.parts.append(apart(before))  # found as number -1

    def last(self) -> Any:  # noqa: ANN401
        """Return the address of the last base."""
        return self.base(len(self.x.bases) - 1)

    def base(self, number: int) -> Any:  # noqa: ANN401
        """Return the address of one base without its constant part: of 64 bits in global, of 32 in
        shared memory.
        """
        if number not in self.bases:
            e, x = self.e, self.x
            step = self._step(number)
            if step is not None:
                self.bases[number] = e.b.add(self.bases[number - 1], self.bytes(step))
                return self.bases[number]
            address = e.b.add(e.address(x.space, x.storage), self.bytes(self.parts[number][0]))
            if self.wide and varies(x.bases[number]):
                address = e.opaque(address)
            self.bases[number] = address
        return self.bases[number]

    def bytes(self, offset: Scalar) -> Any:  # noqa: ANN401
        """Return an offset in bytes, as wide as addresses are."""
        scalars = self.e.scalars
        return self._scaled(scalars.value(offset) if self.wide else scalars.narrow(offset))

    def _scaled(self, elements: Any) -> Any:  # noqa: ANN401
        """Return elements in bytes; vectors of narrow elements begin at whole bytes."""
        b, kind = self.e.b, elements.type
        if self.bits >= 8:
            return b.mul(elements, ir.Constant(kind, self.bits // 8))
        return b.ashr(elements, ir.Constant(kind, (8 // self.bits).bit_length() - 1))

    def _step(self, number: int) -> Scalar | None:
        """Return how far a base is from the one before it, if that does not change in loops.

        A row of addresses that a loop moves then needs two registers and an addition each, in place
        of a register pair each.
        """
        if not self.wide or number - 1 not in self.bases or not varies(self.parts[number][0]):
            return None
        step: Any = ints.sub(self.parts[number][0], self.parts[number - 1][0])
        return None if varies(step) else step

    def swizzled(self, static: int) -> Any:  # noqa: ANN401
        """Return swizzle(inner + static) in bytes, for a static part below the period."""
        if static not in self.inside:
            e = self.e
            bits, base, shift = self.x.swizzle  # type: ignore[misc]
            inner = e.scalars.value(self.x.inner) if self.wide else e.scalars.narrow(self.x.inner)
            kind = inner.type
            offset = e.b.add(inner, ir.Constant(kind, static))
            mask = ((1 << bits) - 1) << (base + max(0, shift))
            active = e.b.and_(offset, ir.Constant(kind, mask))
            move = e.b.lshr if shift >= 0 else e.b.shl
            offset = e.b.xor(offset, move(active, ir.Constant(kind, abs(shift))))
            self.inside[static] = self._scaled(offset)
        return self.inside[static]

    def __getitem__(self, vector: int) -> tuple[Any, int]:
        """Return the address of a vector as (value, static bytes beyond it)."""
        number, static = self.x.table[vector]
        beyond = self.parts[number][1]
        if self.x.swizzle is None:
            return self.base(number), (static + beyond) * self.bits // 8
        bits, base, shift = self.x.swizzle
        period = 1 << (bits + base + abs(shift))
        outside, inside = static // period * period, static % period
        address = self.e.b.add(self.base(number), self.swizzled(inside))
        return address, (outside + beyond) * self.bits // 8


def begin(e: Emit, walk: Walk) -> Any:  # noqa: ANN401
    """Return the address where a walk begins, without its constant part."""
    addresses = Addresses(e, walk.source)
    return e.b.add(e.address("gmem", walk.source.storage), addresses.bytes(walk.begin))


def advance(e: Emit, walk: Walk) -> Any:  # noqa: ANN401
    """Return the address of the next pass. The compiler cannot take it apart: it would hold each
    row's way from the first pass in a register pair of its own.
    """
    assert e.link is not None
    return e.opaque(e.b.add(e.link[1], Addresses(e, walk.source).bytes(walk.step)))


# -- loads and stores


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
    e: Emit,
    x: Access,
    address: tuple[Any, int],
    guard: Any,  # noqa: ANN401
    order: str,
    old: list[Any] | None,
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


def store(e: Emit, op: ops.Store) -> None:
    """One st a vector; nothing where a guard fails."""
    x, get, _put = _how(e, op.dst)
    addresses, guards = Addresses(e, x, e.link), Guards(e, x)
    for v in range(x.count):
        packed = _pieces(e, x, get(op.src, v * x.width, x.width))
        e.emit("st", addresses[v], packed, guard=guards[v], **_modes(x, op.order))
    e.reached = addresses.last()


# -- matrices and asynchronous copies


def ldmatrix(e: Emit, op: ops.LdMatrix) -> None:
    """One ldmatrix per row address."""
    addresses = Addresses(e, op.src)
    each = op.atom.dst_bits // op.dst.dtype.bits
    for v in range(op.src.count):
        e.words.put_words(op.dst, v * each, each, e.emit(op.atom, addresses[v]))


def stmatrix(e: Emit, op: ops.StMatrix) -> None:
    """One stmatrix per row address."""
    addresses = Addresses(e, op.dst)
    each = op.atom.src_bits // op.src.dtype.bits
    for v in range(op.dst.count):
        e.emit(op.atom, addresses[v], e.words.get_words(op.src, v * each, each))


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


EMIT = {
    ops.Load: load,
    ops.Store: store,
    ops.LdMatrix: ldmatrix,
    ops.StMatrix: stmatrix,
    ops.CpAsync: cp_async,
    ops.Atomic: atomic,
}
