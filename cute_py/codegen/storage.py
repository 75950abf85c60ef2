"""Register storages in generated code: tuples of 32-bit words for every element type.

A word holds one 32-bit element, two of 16 bits, four of 8, eight of 4, or half a 64-bit element.
Flags (b1) are packed 32 to a word if their number is a multiple of 32; otherwise each has its own
word, and the storage is `loose`. Which storages one op defines as a whole, and which products may
have in flight, is found from the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.errors import refusal
from cute_py.plan import ops
from cute_py.plan.conditions import Reg
from cute_py.plan.walk import blocks_of, every, reads, writes

if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.params import Registers
    from cute_py.plan.plan import Plan

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
COMPUTED = (ops.Map, ops.Convert)  # ops that write all elements of their result


def is_loose(storage: Registers) -> bool:
    """Return whether each flag of a storage has its own word."""
    return storage.dtype.name == "b1" and storage.count % 32 != 0


def undefined(count: int) -> Any:
    """Return the LLVM array of words that have no value yet."""
    return ir.Constant(ir.ArrayType(I32, count), ir.Undefined)


def word_count(storage: Registers) -> int:
    """Return the number of words of a storage."""
    bits = 32 if is_loose(storage) else storage.dtype.bits
    return max(1, -(-storage.count * bits // 32))


def element_type(dtype: Dtype) -> ir.Type:
    """Return the LLVM type of an element: a float type for f32 and f64, otherwise an integer of
    the same width.
    """
    if dtype.is_float and dtype.bits >= 32:
        return F64 if dtype.bits == 64 else F32
    return ir.IntType(1 if dtype.name == "b1" else dtype.bits)


def place_of(i: int, bits: int) -> tuple[int, int]:
    """Return the word at which element i of a storage begins, and the bit in it."""
    if bits == 64:
        return 2 * i, 0
    if 32 % bits:  # elements of 6 bits would straddle words
        name = f"a register of {bits}-bit elements"
        raise refusal("codegen-op", operation="cute.compile", name=name)
    each = 32 // bits
    return i // each, i % each * bits


class Tuple(Sequence[Any]):
    """The words of one storage: a word is extracted where it is read, and those that change are
    inserted in the end. An op on a few words of many would take long to compile otherwise.
    """

    def __init__(self, b: Any, value: Any, count: int) -> None:
        """Keep the builder, the LLVM array of all words, and their number."""
        self.b, self.value, self.length = b, value, count
        self.known: dict[int, Any] = {}
        self.changed: dict[int, Any] = {}

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: Any) -> Any:
        """Return a word, or the list of those of a slice."""
        found = range(self.length)[i]
        if isinstance(found, range):
            return [self[k] for k in found]
        if found not in self.known:
            self.known[found] = self.b.extract_value(self.value, found)
        return self.known[found]

    def __setitem__(self, i: int | slice, value: Any) -> None:
        """Replace a word, or those of a slice."""
        found = range(self.length)[i]
        places, values = (found, value) if isinstance(found, range) else ((found,), (value,))
        for k, each in zip(places, values, strict=True):
            self.known[k] = self.changed[k] = each

    def packed(self) -> Any:
        """Return the LLVM array of all words."""
        value = self.value
        for i, each in self.changed.items():
            value = self.b.insert_value(value, each, i)
        return value


class Words:
    """The words of the storages that one op reads and writes, as LLVM values."""

    def __init__(self, b: Any, words: dict[str, Any], loose: frozenset[str] = frozenset()) -> None:
        """Keep the builder, the words by storage, and the loose storages."""
        self.b, self.words, self.loose = b, words, loose

    def slot_bits(self, reg: Reg) -> int:
        """Return how many bits of its storage an element takes."""
        return 32 if reg.storage in self.loose else reg.dtype.bits

    def get(self, reg: Reg, k: int) -> Any:
        """Return element k of a register operand, in its `element_type`."""
        bits = self.slot_bits(reg)
        raw = self._bits_at(self.words[reg.storage], place_of(reg.index[k], bits), bits)
        return self._as_element(raw, reg.dtype)

    def _bits_at(self, words: Sequence[Any], place: tuple[int, int], bits: int) -> Any:
        """Return an element that begins at a word and a bit in it, as an integer."""
        b, (word, shift) = self.b, place
        if bits == 64:
            return self.joined(words[word], words[word + 1])
        if bits == 32:
            return words[word]
        return b.trunc(b.lshr(words[word], ir.Constant(I32, shift)), ir.IntType(bits))

    def joined(self, low: Any, high: Any) -> Any:
        """Return two words as an integer of 64 bits."""
        wide = self.b.shl(self.b.zext(high, I64), ir.Constant(I64, 32))
        return self.b.or_(self.b.zext(low, I64), wide)

    def _as_element(self, raw: Any, dtype: Dtype) -> Any:
        kind = element_type(dtype)
        if kind == I1 and raw.type != I1:
            return self.b.icmp_unsigned("!=", raw, ir.Constant(I32, 0))
        return self.b.bitcast(raw, kind) if kind in (F32, F64) else raw

    def put(self, reg: Reg, k: int, value: Any) -> None:
        """Set element k of a register operand."""
        b, bits, words = self.b, self.slot_bits(reg), self.words[reg.storage]
        word, shift = place_of(reg.index[k], bits)
        if value.type == I1 and bits == 32:
            value = b.zext(value, I32)
        value = self._as_bits(value)
        if bits == 64:
            words[word : word + 2] = self.halves(value)
        elif bits == 32:
            words[word] = value
        else:
            mask = (1 << bits) - 1
            kept = b.and_(words[word], ir.Constant(I32, ~(mask << shift) & 0xFFFFFFFF))
            wide = b.and_(value, ir.Constant(I32, mask)) if value.type == I32 else None
            wide = b.zext(value, I32) if wide is None else wide
            words[word] = b.or_(kept, b.shl(wide, ir.Constant(I32, shift)))

    def _as_bits(self, value: Any) -> Any:
        """Return a float as the integer of its bits, and integers as they are."""
        if value.type not in (F32, F64):
            return value
        return self.b.bitcast(value, I32 if value.type == F32 else I64)

    def halves(self, value: Any) -> list[Any]:
        """Return the two words of a 64-bit value."""
        b = self.b
        low = b.trunc(value, I32)
        return [low, b.trunc(b.lshr(value, ir.Constant(I64, 32)), I32)]

    # -- whole words

    def whole(self, reg: Reg, start: int, count: int) -> list[int] | None:
        """Return the numbers of the words that elements start ... start + count - 1 fill exactly,
        None if they do not fill whole words.
        """
        bits = self.slot_bits(reg)
        index = reg.index[start : start + count]
        if reg.storage in self.loose or (count * bits) % 32 or index[0] * bits % 32:
            return None
        if list(index) != list(range(index[0], index[0] + count)):
            return None
        first = index[0] * bits // 32
        return list(range(first, first + count * bits // 32))

    def get_words(self, reg: Reg, start: int, count: int) -> list[Any]:
        """Return `count` elements as 32-bit words, packed."""
        found = self.whole(reg, start, count)
        if found is not None:
            return [self.words[reg.storage][w] for w in found]
        b, bits = self.b, reg.dtype.bits
        packed = [ir.Constant(I32, 0)] * -(-count * bits // 32)
        for k in range(count):
            value = self._as_bits(self.get(reg, start + k))
            if bits == 64:
                packed[2 * k : 2 * k + 2] = self.halves(value)
                continue
            wide = value if value.type == I32 else b.zext(value, I32)
            place = ir.Constant(I32, k * bits % 32)
            packed[k * bits // 32] = b.or_(packed[k * bits // 32], b.shl(wide, place))
        return packed

    def put_words(self, reg: Reg, start: int, count: int, packed: list[Any]) -> None:
        """Set `count` elements from 32-bit words."""
        found = self.whole(reg, start, count)
        if found is not None:
            for w, value in zip(found, packed, strict=True):
                self.words[reg.storage][w] = value
            return
        bits = reg.dtype.bits
        for k in range(count):
            self.put(reg, start + k, self._bits_at(packed, divmod(k * bits, 32), bits))


# -- the storages of a plan


def defined_once(plan: Plan) -> frozenset[str]:
    """Return the names of the storages that are written once and whole, before all reads.

    Such a storage is a variable that is assigned once. It needs no value before, which the compiler
    would have to carry through loops and branches.
    """
    counts = Counter(name for op in every(plan.body) for name in {x.storage for x in writes(op)})
    found = {r.name: r for r in plan.storages if counts[r.name] == 1 and not is_loose(r)}
    early: set[str] = set()
    _defined(plan.body, found, set(), early)
    return frozenset(found) - early


def _defined(block: Block, found: dict[str, Registers], known: set[str], early: set[str]) -> None:
    """Add the storages that are not known where they are used, or are not defined as a whole."""
    for op in block:
        early |= {x.storage for x in reads(op)} - known
        for name in {x.storage for x in writes(op)} & set(found):
            if _is_whole(op, found[name]):
                known.add(name)
            else:
                early.add(name)
        for inner in blocks_of(op):
            _defined(inner, found, set(known), early)


def _is_whole(op: Op, storage: Registers) -> bool:
    if not isinstance(op, COMPUTED):
        return False
    bits = len(set(op.dst.index)) * op.dst.dtype.bits
    return bool(bits == storage.count * storage.dtype.bits)


def in_flight(plan: Plan) -> dict[int, tuple[Reg, ...]]:
    """Return, for each WgWait by its identity, the accumulators and the fragments of A that its
    threads may have in flight: not those of the other branch of an If.
    """
    found: dict[int, tuple[Reg, ...]] = {}
    _waited(plan.body, _uses(plan.body), found)
    return found


def _uses(block: Block) -> Counter[Reg]:
    """Count the uses of each storage by products, as its first element."""
    products = [op for op in every(block) if isinstance(op, ops.Wgmma)]
    regs = [x for op in products for x in (op.d, op.a) if isinstance(x, Reg)]
    return Counter(Reg(x.storage, x.dtype, (0,)) for x in regs)


def _waited(block: Block, uses: Counter[Reg], found: dict[int, tuple[Reg, ...]]) -> None:
    for op in block:
        if isinstance(op, ops.WgWait):
            found[id(op)] = tuple(reg for reg, n in uses.items() if n > 0)
        elif isinstance(op, ops.If):
            _waited(op.then, uses - _uses(op.other), found)
            _waited(op.other, uses - _uses(op.then), found)
        else:
            for inner in blocks_of(op):
                _waited(inner, uses, found)
