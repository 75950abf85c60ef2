"""Loads, stores and copies, one instruction per vector.

In registers and in shared memory sub-byte elements are packed. In global memory they are packed
where the access says so, and move as they are. Otherwise each takes a byte, as NumPy, torch and
CuPy store a bool (0 or 1), and an s4 as int8: a load packs them, a store unpacks them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.atoms.copy_sm90 import (
    SM90_TMA_LOAD,
    SM90_TMA_LOAD_IM2COL,
    SM90_TMA_LOAD_IM2COL_MULTICAST,
    SM90_TMA_LOAD_MULTICAST,
    SM90_TMA_REDUCE_ADD,
    SM90_TMA_STORE,
)
from cute_py.codegen.addresses import Addresses, Guards
from cute_py.codegen.emit import emits
from cute_py.codegen.instructions import of_atom, with_hints, wmma
from cute_py.codegen.storage import F32, I8, I16, I32
from cute_py.dtypes.packing import PACKED
from cute_py.dtypes.table import u8
from cute_py.plan import ops
from cute_py.plan.conditions import Reg

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.atoms.copy import Copy_Op
    from cute_py.codegen.emit import Emit
    from cute_py.codegen.instructions import Row
    from cute_py.codegen.tensor_maps import TmaOp
    from cute_py.plan.access import Access

# -- loads and stores


@emits(ops.Load)
def load(e: Emit, op: ops.Load) -> None:
    """Emit one ld per vector; where the guard is false, the elements are `fill`."""
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
    """Return an access, and the functions that read and write the registers of a vector."""
    if is_unpacked(x):
        return as_bytes(e, x), partial(get_bytes, e), partial(put_bytes, e)
    return x, e.words.get_words, e.words.put_words


def _load_vector(
    e: Emit, x: Access, address: tuple[Any, int], guard: Any, order: str, old: list[Any] | None
) -> list[Any]:
    fills: list[Any] = []
    if guard is not None:
        fills = _pieces(e, x, old or e.fill_words(x.dtype, x.fill, max(1, x.vector_bits // 32)))
    modes = {**_modes(x, order), "prefetch": x.hints.prefetch}
    name, policy = _with_policy(e, x, "ld", modes)
    if x.dtype.bits == 64:  # ptxas keeps such a register in one pair, without moves
        modes["bits"] = f"{x.width}x64"
        pairs = zip(fills[::2], fills[1::2], strict=True)
        fills = [e.words.joined(*pair) for pair in pairs]
        wide = e.emit(name, address, *policy, guard=guard, old=fills, **modes)
        return [half for v in wide for half in e.words.halves(v)]
    found = e.emit(name, address, *policy, guard=guard, old=fills, **modes)
    return [e.b.zext(v, I32) if v.type != I32 else v for v in found]


def _modes(x: Access, order: str) -> dict[str, Any]:
    """Return the modes of the load or store of an access."""
    cache = x.hints.operator or x.hints.priority
    return {"order": order, "space": x.space, "cache": cache, "bits": x.vector_bits}


def _with_policy(e: Emit, x: Access, name: str, modes: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the row of a load or store, and the operand of its policy, if it has one."""
    if x.rank is not None:
        for mode in ("order", "space", "cache", "prefetch"):
            modes.pop(mode, None)
        return f"{name}.peer", []
    feature = x.feature()
    if feature is None:
        return name, []
    del modes["order"]
    if not x.hints.policy:
        del modes["prefetch"]
        return feature, []
    return f"{name}.policy", e.emit("createpolicy", policy=x.hints.policy)


def _pieces(e: Emit, x: Access, words: list[Any]) -> list[Any]:
    """Return words as the registers of a vector; a 16-bit vector has a 16-bit register."""
    return [e.b.trunc(w, I16) for w in words] if x.vector_bits == 16 else words


@emits(ops.Store)
def store(e: Emit, op: ops.Store) -> None:
    """Emit one st per vector; where the guard is false, nothing is written."""
    x, get, _put = _how(e, op.dst)
    addresses, guards = Addresses(e, x, e.link), Guards(e, x)
    for v in range(x.count):
        packed = _pieces(e, x, get(op.src, v * x.width, x.width))
        modes = _modes(x, op.order)
        name, policy = _with_policy(e, x, "st", modes)
        e.emit(name, addresses[v], packed, *policy, guard=guards[v], **modes)
    e.reached = addresses.last()


# -- matrices and asynchronous copies


@emits(ops.LdMatrix)
def ldmatrix(e: Emit, op: ops.LdMatrix) -> None:
    """Emit one ldmatrix per row address."""
    addresses = Addresses(e, op.src)
    each = op.atom.dst_bits // op.dst.dtype.bits
    for v in range(op.src.count):
        e.words.put_words(op.dst, v * each, each, e.emit(op.atom, addresses[v]))


@emits(ops.StMatrix)
def stmatrix(e: Emit, op: ops.StMatrix) -> None:
    """Emit one stmatrix per row address."""
    addresses = Addresses(e, op.dst)
    each = op.atom.src_bits // op.src.dtype.bits
    for v in range(op.dst.count):
        e.emit(op.atom, addresses[v], e.words.get_words(op.src, v * each, each))


@emits(ops.CpAsync)
def cp_async(e: Emit, op: ops.CpAsync) -> None:
    """Emit one cp.async per vector; with ZFILL a false guard reads nothing and writes zeros."""
    if is_unpacked(op.src):
        _copy_packed(e, op)
        return
    src, dst = Addresses(e, op.src, e.link), Addresses(e, op.dst)
    guards = Guards(e, op.src)
    full = ir.Constant(I32, op.src.vector_bits // 8)
    row: Copy_Op | Row = op.atom
    hints, policy = op.src.hints, []
    if op.src.cache:
        policy = e.emit("createpolicy", policy=hints.policy) if hints.policy else []
        row = with_hints(of_atom(op.atom), bool(policy), hints.prefetch)
    for v in range(op.src.count):
        to, out = dst[v], src[v]
        guard = guards[v]
        if "ZFILL" in op.atom.name:
            size = full if guard is None else e.b.mul(guard, full)
            e.emit(row, to, out, size, *policy)
        else:
            e.emit(row, to, out, *policy, guard=guard)
    e.reached = src.last()


def _copy_packed(e: Emit, op: ops.CpAsync) -> None:
    """Copy and pack sub-byte elements through registers, since cp.async cannot pack. The copy is
    synchronous, which is allowed: an asynchronous copy may complete early. Vectors are copied one
    by one, to keep register pressure low.
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


# of f32 as integers: the function of values of the other sign, and the NaN that it leaves in memory
_FLOAT_ORDER = {
    "max": {"fn": "max", "other": "min", "nan": "s32", "bound": "0x7f800000"},
    "min": {"fn": "min", "other": "max", "nan": "u32", "bound": "0xff800000"},
}


def _atomic_row(fn: str, x: Access) -> tuple[str, dict[str, Any]]:
    """Return the row of an atomic and its modes."""
    kind = x.dtype
    if x.rank is not None and x.width > 1:
        return "atom.add.pair.peer", {"type": f"{kind.ptx}x2"}
    if x.vector_bits > 32 and x.width > 1:
        name = "red.add" if kind.name == "f32" else "red.add.noftz"
        return name, {"type": f"{kind}x{x.width}"}
    if fn == "add":
        name = "atom.add.noftz.bf16" if kind.name == "bf16" else "atom.add"
        return name, {"space": x.space, "type": kind.ptx + "x2" * (x.width > 1)}
    if fn in ("min", "max") and kind.name == "f32":
        return "atom.min.f32", {"space": x.space, **_FLOAT_ORDER[fn]}
    if fn == "cas":
        return "atom.cas", {"space": x.space, "type": f"b{kind.bits}"}
    if fn in ("min", "max"):
        return "atom.min", {"space": x.space, "fn": fn, "type": kind.ptx}
    return "atom.bits", {"space": x.space, "fn": fn, "type": f"b{kind.bits}"}


@emits(ops.Atomic)
def atomic(e: Emit, op: ops.Atomic) -> None:
    """Emit one atom or red instruction per vector."""
    x = op.dst
    addresses, guards = Addresses(e, x), Guards(e, x)
    name, modes = _atomic_row(op.fn, x)
    ordered = name == "atom.min.f32"
    if x.rank is not None and x.width == 1:
        del modes["space"]
        name = f"{name}.peer"
    if x.width > 1:
        _add_vectors(e, op, name, modes)
        return
    if ordered:
        _order_floats(e, op, name, modes)
        return
    for v in range(x.count):
        address, value = addresses[v], e.words.get(op.src, v)
        kind = [value.type]  # of exch too, which PTX has for untyped bits
        given = [value] if op.compare is None else [value, e.words.get(op.compare, v)]
        kept = [e.words.get(op.old, v)] if op.old is not None and guards[v] is not None else []
        (old,) = e.emit(name, address, *given, results=kind, guard=guards[v], old=kept, **modes)
        if op.old is not None:
            e.words.put(op.old, v, old)


def _order_floats(e: Emit, op: ops.Atomic, name: str, modes: dict[str, Any]) -> None:
    """Emit the minimum or maximum of f32 for each element, by integers."""
    b, addresses, guards = e.b, Addresses(e, op.dst), Guards(e, op.dst)
    for v in range(op.dst.count):
        guard, value = guards[v], b.bitcast(e.words.get(op.src, v), I32)
        kept = []
        if op.old is not None and guard is not None:
            kept = [b.bitcast(e.words.get(op.old, v), I32)]
        flag = ir.Constant(I32, 1) if guard is None else guard
        (old,) = e.emit(name, addresses[v], value, flag, old=kept, **modes)
        if op.old is not None:
            e.words.put(op.old, v, b.bitcast(old, F32))


def _add_vectors(e: Emit, op: ops.Atomic, name: str, modes: dict[str, Any]) -> None:
    """Emit one atom per pair of elements, or one red per longer vector."""
    x, addresses, guards = op.dst, Addresses(e, op.dst), Guards(e, op.dst)
    for v in range(x.count):
        words = e.words.get_words(op.src, v * x.width, x.width)
        kept, guard = [], guards[v]
        if op.old is not None and guard is not None:
            kept = e.words.get_words(op.old, v * x.width, x.width)
        if x.rank is None:
            old = e.emit(name, addresses[v], words, guard=guard, old=kept, **modes)
        else:  # a loop, which takes the guard as an operand
            flag = ir.Constant(I32, 1) if guard is None else guard
            old = e.emit(name, addresses[v], words, flag, old=kept, **modes)
        if op.old is not None:
            e.words.put_words(op.old, v * x.width, x.width, old)


def _wmma(e: Emit, op: ops.WmmaLoad | ops.WmmaStore, what: str, *words: Any, n: int = 0) -> Any:
    """Emit wmma.load or wmma.store of a tile."""
    kind = op.tile.dtype.name
    row = wmma(what, op.form, kind, n or len(words[0]))
    return e.emit(
        row, Addresses(e, op.tile)[0], e.scalars.narrow(op.step), *words, space=op.tile.space
    )


@emits(ops.WmmaLoad)
def wmma_load(e: Emit, op: ops.WmmaLoad) -> None:
    """Emit one wmma.load."""
    n = len(op.dst) * op.dst.dtype.bits // 32
    e.words.put_words(op.dst, 0, len(op.dst), _wmma(e, op, "load", n=n))


@emits(ops.WmmaStore)
def wmma_store(e: Emit, op: ops.WmmaStore) -> None:
    """Emit one wmma.store."""
    _wmma(e, op, "store", e.words.get_words(op.src, 0, len(op.src)))


@emits(ops.SharedAddress)
def shared_address(e: Emit, op: ops.SharedAddress) -> None:
    """Take the address that an access would have."""
    address, beyond = Addresses(e, op.src)[0]
    e.words.put(op.dst, 0, e.b.add(address, ir.Constant(I32, beyond)))


@emits(ops.Prefetch)
def prefetch(e: Emit, op: ops.Prefetch) -> None:
    """Emit one prefetch per vector; none where the guard is false."""
    x = as_bytes(e, op.src) if is_unpacked(op.src) else op.src
    addresses, guards = Addresses(e, x), Guards(e, x)
    for v in range(x.count):
        e.emit("prefetch", addresses[v], guard=guards[v])


@emits(ops.CpCommit)
def cp_commit(e: Emit, op: ops.CpCommit) -> None:
    """Commit a group of copies."""
    e.emit("cp.async.commit_group")


@emits(ops.CpWait)
def cp_wait(e: Emit, op: ops.CpWait) -> None:
    """Wait for groups of copies."""
    e.emit("cp.async.wait_group", n=op.n)


# -- TMA


def _tma(e: Emit, op: TmaOp) -> tuple[Any, list[Any]]:
    """Return the address of the tensor map, and the coordinates of the box, innermost first."""
    assert e.maps is not None
    found = e.maps.of(op)
    coordinates = [e.scalars.narrow(op.coord[mode]) for mode in found.modes]
    return e.address("gmem", e.maps.names[found]), coordinates


def _with_cache(e: Emit, op: TmaOp, row: Row) -> tuple[Row, list[Any]]:
    """Return the row of a copy, and the operand of its policy for the L2 cache, if it has one."""
    if not op.cache:
        return row, []
    return with_hints(row, True, ""), e.emit("createpolicy", policy=op.cache)


def _guard(e: Emit, op: TmaOp) -> Any:
    """Return the predicate of a copy, or None."""
    return None if op.guard is None else e.b.zext(e.scalars.holds(op.guard), I32)


@emits(ops.TmaLoad)
def tma_load(e: Emit, op: ops.TmaLoad) -> None:
    """Emit the load of a box, of several blocks' if there is a mask."""
    place, coordinates = _tma(e, op)
    bits, rank = op.box.tile.vector_bits, len(coordinates)
    given = [Addresses(e, op.box.tile)[0], place, coordinates, Addresses(e, op.bar)[0]]
    several = not isinstance(op.multicast, int) or op.multicast != 0
    if op.im2col is not None:
        atoms = SM90_TMA_LOAD_IM2COL, SM90_TMA_LOAD_IM2COL_MULTICAST
        given.append([e.b.trunc(e.scalars.narrow(x), I16) for x in op.offsets])
    else:
        atoms = SM90_TMA_LOAD, SM90_TMA_LOAD_MULTICAST
    atom = atoms[several](bits, rank)
    if several:
        given.append(e.b.trunc(e.scalars.narrow(op.multicast), I16))
    row, policy = _with_cache(e, op, of_atom(atom))
    guard = _guard(e, op)
    e.emit(row, *given, *policy, guard=guard)
    if guard is not None:
        bytes = op.box.bytes
        e.emit("mbarrier.complete_tx", given[3], guard=guard, unless=True, bytes=bytes)


@emits(ops.TmaStore)
def tma_store(e: Emit, op: ops.TmaStore) -> None:
    """Emit the store of a box, or its reduction with the array."""
    place, coordinates = _tma(e, op)
    bits, rank = op.box.tile.vector_bits, len(coordinates)
    row = of_atom((SM90_TMA_REDUCE_ADD if op.reduce else SM90_TMA_STORE)(bits, rank))
    row = replace(row, template=row.template.replace(".add.", f".{op.reduce}."))
    row, policy = _with_cache(e, op, row)
    given = [place, Addresses(e, op.box.tile)[0], coordinates, *policy]
    e.emit(row, *given, guard=_guard(e, op))


@emits(ops.BulkCommit)
def bulk_commit(e: Emit, op: ops.BulkCommit) -> None:
    """Commit a group of stores."""
    e.emit("cp.async.bulk.commit_group")


@emits(ops.BulkWait)
def bulk_wait(e: Emit, op: ops.BulkWait) -> None:
    """Wait for groups of stores, or for their reads only."""
    e.emit("cp.async.bulk.wait_group", read=op.read, n=op.n)


# -- sub-byte elements


def is_unpacked(x: Access) -> bool:
    """Return whether each element of an access is narrower than a byte, but takes a whole byte."""
    return x.space == "gmem" and x.dtype.bits in PACKED and not x.packed


def as_bytes(e: Emit, x: Access) -> Access:
    """Return an access to the same elements as bytes; each vector becomes several.

    A vector is aligned to its packed size and not more, so a byte vector has that size.
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
    """Return elements as words of four bytes each, as in memory."""
    b, words = e.b, [ir.Constant(I32, 0)] * -(-count // 4)
    for k in range(count):
        widen = b.sext if reg.dtype.kind == "int" else b.zext
        byte = b.zext(widen(e.words.get(reg, start + k), I8), I32)
        words[k // 4] = b.or_(words[k // 4], b.shl(byte, ir.Constant(I32, k % 4 * 8)))
    return words


def put_bytes(e: Emit, reg: Reg, start: int, count: int, words: list[Any]) -> None:
    """Set elements from words of four bytes each; any byte other than 0 sets a flag."""
    b = e.b
    for k in range(count):
        byte = b.trunc(b.lshr(words[k // 4], ir.Constant(I32, k % 4 * 8)), I8)
        if reg.dtype.name == "b1":
            value = b.icmp_unsigned("!=", byte, ir.Constant(I8, 0))
        else:
            value = b.trunc(byte, ir.IntType(reg.dtype.bits))
        e.words.put(reg, start + k, value)
