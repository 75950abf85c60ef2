"""Loads, stores and copies: addresses from `Access` records, one PTX instruction a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.guards import Guards
from cute_py.codegen.scalars import varies
from cute_py.codegen.storage import I32
from cute_py.layout import ints
from cute_py.layout.symbols import terms_of
from cute_py.trace import ops

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit, Link
    from cute_py.dtypes.table import Dtype
    from cute_py.trace.access import Access
    from cute_py.trace.conditions import Scalar

VOID = ir.VoidType()


# -- addresses


class Addresses:
    """The byte addresses of an access; what vectors share is computed once."""

    def __init__(self, e: Emit, x: Access, chain: Link | None = None) -> None:
        """Keep the emitter and the access; `chain` is where an op before has got to."""
        self.e, self.x = e, x
        if x.vector_bits < 8 or (x.dtype.bits < 8 and x.vector_bits % 8):
            raise e.unsupported(f"access to single elements of {x.dtype}")
        self.wide = x.space == "gmem"
        self.bits = x.dtype.bits
        # what varies, and the constant beyond it; elements below a byte need both for whole bytes
        self.parts = [_apart(base) if self.bits >= 8 else (base, 0) for base in x.bases]
        self.bases: dict[int, Any] = {}
        self.inside: dict[int, Any] = {}
        if chain is not None:
            before, self.bases[-1] = chain
            self.parts.append(_apart(before))  # found as number -1

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
                self.bases[number] = e.b.add(self.bases[number - 1], self._bytes(step))
                return self.bases[number]
            address = e.b.add(e.address(x.space, x.storage), self._bytes(self.parts[number][0]))
            if self.wide and varies(x.bases[number]):
                address = e.opaque(address)
            self.bases[number] = address
        return self.bases[number]

    def _bytes(self, offset: Scalar) -> Any:  # noqa: ANN401
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
            offset = e.b.add(e.scalars.narrow(self.x.inner), ir.Constant(I32, static))
            mask = ((1 << bits) - 1) << (base + max(0, shift))
            active = e.b.and_(offset, ir.Constant(I32, mask))
            move = e.b.lshr if shift >= 0 else e.b.shl
            offset = e.b.xor(offset, move(active, ir.Constant(I32, abs(shift))))
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


def _apart(x: Scalar) -> tuple[Scalar, int]:
    """Return a scalar as what varies and a constant, which goes into the instruction: addresses
    that differ by constants then share a register.
    """
    if isinstance(x, int):
        return 0, x
    constant = terms_of(x).get((), 0)
    rest: Any = ints.sub(x, constant)
    return rest, constant


# -- loads and stores

_LETTERS = {"float": "f", "double": "d", "i32": "r", "i64": "l", "i16": "h"}
_SUFFIX = {1: "b32", 2: "v2.b32", 4: "v4.b32"}
_NARROW = {8: ("b8", "r", I32), 16: ("b16", "h", ir.IntType(16))}


def load(e: Emit, op: ops.Load) -> None:
    """ld.global or ld.shared, a vector each; guarded ones leave `fill`."""
    x, dst = op.src, op.dst
    addresses, guards = Addresses(e, x, e.link), Guards(e, x)
    order = {"weak": "", "acquire": ".acquire.gpu", "volatile": ".volatile"}[op.order]
    cache = f".{x.cache}" if x.cache else ""
    for v in range(x.count):
        old = None
        if x.fill is None and guards[v] is not None:
            old = e.words.get_words(dst, v * x.width, x.width)
        packed = _load_vector(e, x, addresses[v], guards[v], (order, cache), old)
        e.words.put_words(dst, v * x.width, x.width, packed)
    e.reached = addresses.last()


def _load_vector(
    e: Emit,
    x: Access,
    address: tuple[Any, int],
    guard: Any,  # noqa: ANN401
    form: tuple[str, str],
    old: list[Any] | None,
) -> list[Any]:
    bits = x.vector_bits
    space, letter = _space(x)
    words = max(1, bits // 32)
    suffix, kind, cons = _form(bits)
    outs = [kind] * words
    values, static = address
    names = ", ".join(f"${i}" for i in range(words))
    target = "{" + names + "}" if words > 1 else names
    order, cache = form
    text = f"ld{order}{space}{cache}.{suffix} {target}, [${words}+{static}];"
    inputs, constraints = [values], [letter]
    if guard is not None:
        inputs.append(guard)
        constraints.append("r")
        fills = old or e.fill_words(x.dtype, x.fill, words)
        fills = [e.b.trunc(f, kind) if kind != I32 else f for f in fills]
        inputs += fills
        constraints += [str(i) for i in range(words)]
        text = f"{{ .reg .pred p; setp.ne.b32 p, ${words + 1}, 0; @p {text} }}"
    found = e.asm(outs, text, [f"={cons}"] * words + constraints, inputs, side=True)
    return [e.b.zext(v, I32) if v.type != I32 else v for v in found]


def _form(bits: int) -> tuple[str, Any, str]:
    """Return the PTX suffix, the LLVM type of a piece and its constraint."""
    if bits >= 32:
        return _SUFFIX[bits // 32], I32, "r"
    suffix, cons, kind = _NARROW[bits]
    return suffix, kind, cons


def _space(x: Access) -> tuple[str, str]:
    return (".global", "l") if x.space == "gmem" else (".shared", "r")


def store(e: Emit, op: ops.Store) -> None:
    """st.global or st.shared, a vector each; nothing where a guard fails."""
    x, src = op.dst, op.src
    addresses, guards = Addresses(e, x), Guards(e, x)
    order = {"weak": "", "release": ".release.gpu"}[op.order]
    cache = f".{x.cache}" if x.cache else ""
    space, letter = _space(x)
    suffix, kind, cons = _form(x.vector_bits)
    words = max(1, x.vector_bits // 32)
    for v in range(x.count):
        packed = e.words.get_words(src, v * x.width, x.width)
        packed = [e.b.trunc(w, kind) if kind != I32 else w for w in packed]
        address, static = addresses[v]
        names = ", ".join(f"${i + 1}" for i in range(words))
        source = "{" + names + "}" if words > 1 else names
        text = f"st{order}{space}{cache}.{suffix} [$0+{static}], {source};"
        _guarded(e, text, [letter] + [cons] * words, [address, *packed], guards[v])


def _guarded(e: Emit, text: str, constraints: list[str], inputs: list[Any], guard: Any) -> None:  # noqa: ANN401
    if guard is not None:
        text = f"{{ .reg .pred p; setp.ne.b32 p, ${len(inputs)}, 0; @p {text} }}"
        constraints, inputs = [*constraints, "r"], [*inputs, guard]
    e.asm([], text, constraints, inputs, side=True)


# -- matrices and asynchronous copies


def ldmatrix(e: Emit, op: ops.LdMatrix) -> None:
    """One ldmatrix per row address."""
    addresses = Addresses(e, op.src)
    each = op.atom.dst_bits // op.dst.dtype.bits
    words = op.atom.dst_bits // 32
    for v in range(op.src.count):
        address, static = addresses[v]
        names = [f"${i}" for i in range(words)]
        text = op.atom.instruction(dst=names, src=[f"${words}+{static}"])
        found = e.asm([I32] * words, text, ["=r"] * words + ["r"], [address], side=True)
        e.words.put_words(op.dst, v * each, each, found)


def stmatrix(e: Emit, op: ops.StMatrix) -> None:
    """One stmatrix per row address."""
    addresses = Addresses(e, op.dst)
    each = op.atom.src_bits // op.src.dtype.bits
    words = op.atom.src_bits // 32
    for v in range(op.dst.count):
        address, static = addresses[v]
        packed = e.words.get_words(op.src, v * each, each)
        names = [f"${i + 1}" for i in range(words)]
        text = op.atom.instruction(dst=[f"$0+{static}"], src=names)
        e.asm([], text, ["r"] + ["r"] * words, [address, *packed], side=True)


def cp_async(e: Emit, op: ops.CpAsync) -> None:
    """One cp.async a vector; with ZFILL a failing guard reads nothing and writes zeros."""
    src, dst = Addresses(e, op.src, e.link), Addresses(e, op.dst)
    guards = Guards(e, op.src)
    zfill = "ZFILL" in op.atom.name
    size = op.src.vector_bits // 8
    for v in range(op.src.count):
        (to, to_static), (out, out_static) = dst[v], src[v]
        named = {"dst": [f"$0+{to_static}"], "src": [f"$1+{out_static}"]}
        guard, inputs, constraints = guards[v], [to, out], ["r", "l"]
        if zfill:
            full = ir.Constant(I32, size)
            taken = full if guard is None else e.b.mul(guard, full)
            named["src_bytes"] = ["$2"]
            inputs, constraints = [to, out, taken], ["r", "l", "r"]
            guard = None
        _guarded(e, op.atom.instruction(**named), constraints, inputs, guard)
    e.reached = src.last()


def _atomic_type(fn: str, dtype: Dtype) -> str:
    """Return the PTX type of an atomic; sums of integers are those of any sign."""
    if fn == "add":
        half = "noftz." if dtype.is_float and dtype.bits == 16 else ""
        return f"{half}{'u64' if dtype.name == 's64' else dtype.ptx}"
    return str(dtype.ptx) if fn in ("min", "max") else f"b{dtype.bits}"


def atomic(e: Emit, op: ops.Atomic) -> None:
    """One atom or red instruction an element."""
    x = op.dst
    addresses, guards = Addresses(e, x), Guards(e, x)
    space, letter = _space(x)
    kind = _atomic_type(op.fn, x.dtype)
    for v in range(x.count):
        address, static = addresses[v]
        value = e.words.get(op.src, v)
        cons = _LETTERS.get(str(value.type), "")
        if not cons or (x.dtype.is_float and op.fn in ("min", "max")):
            raise e.unsupported(f"atomic {op.fn} of {x.dtype}")
        text = f"atom{space}.{op.fn}.{kind} $0, [$1+{static}], $2;"
        if guards[v] is not None:
            text = f"{{ .reg .pred p; setp.ne.b32 p, $3, 0; @p {text} }}"
        inputs = [address, value, *([] if guards[v] is None else [guards[v]])]
        constraints = [f"={cons}", letter, cons, *([] if guards[v] is None else ["r"])]
        (old,) = e.asm([value.type], text, constraints, inputs, side=True)
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
