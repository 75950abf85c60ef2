"""Several elements of 32-bit words at once: arithmetic of pairs of f16 and bf16, conversions.

The results have the bits that element by element gives. Small integers become the low bits of a
float whose exponent makes their unit 1, and a subtraction takes the rest away, exactly. Source: N.
Juffa's int-to-float by magic numbers; PTX ISA, prmt, add, sub, mul, fma, min, max, cvt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from cute_py.codegen.storage import F32, I16, I32, place_of
from cute_py.plan.conditions import Reg

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.codegen.emit import Emit
    from cute_py.plan import ops

_EXTREMES = ("min", "max", "min_nan", "max_nan")
ONE = {"f16": 0x3C00, "bf16": 0x3F80}
MINUS = 0x8000  # the sign of a 16-bit float, and the image of -0


def _both(image: int) -> Any:
    """Return a 16-bit image twice in a word."""
    return ir.Constant(I32, image << 16 | image)


def _word(value: int) -> Any:
    return ir.Constant(I32, value)


# -- arithmetic


def map_pairs(e: Emit, op: ops.Map) -> dict[int, Any]:
    """Return first element -> word, of the pairs of a Map that are computed at once."""
    kind = op.dtype.name
    if kind not in ONE or op.dst.dtype is not op.dtype or not _has(e, kind, op.fn):
        return {}
    wide = [x for x in op.sources if isinstance(x, Reg) and len(x) > 1]
    found = {}
    for k in range(0, len(op.dst) - 1, 2):
        if e.words.whole(op.dst, k, 2) and all(_is_pair(e, x, k) for x in wide):
            found[k] = _pair(e, kind, op.fn, [_operand(e, x, k, op) for x in op.sources])
    return found


def _is_pair(e: Emit, x: Reg, k: int) -> bool:
    return x.index[k] == x.index[k + 1] or e.words.whole(x, k, 2) is not None


def _has(e: Emit, kind: str, fn: str) -> bool:
    if fn in ("neg", "abs"):
        return True
    if fn in _EXTREMES:
        return e.has(f"min.{kind}x2")
    return fn in ("add", "sub", "mul", "fma") and e.has(f"fma.{kind}x2")


def _operand(e: Emit, x: Any, k: int, op: ops.Map) -> Any:
    """Return a pair of a source; a single element or a number twice."""
    if isinstance(x, Reg):
        first = k if len(x) > 1 else 0
        if len(x) > 1 and x.index[k] != x.index[k + 1]:
            return e.words.get_words(x, k, 2)[0]
        number, bit = place_of(x.index[first], x.dtype.bits)
        word = e.words.words[x.storage][number]
        return _permuted(e, word, word, *[bit // 8, bit // 8 + 1] * 2)
    if isinstance(x, (int, float)):
        return _both(e.image(x, op.dtype))
    raise e.unsupported(f"{op.fn} of {op.dtype} and a run-time number")


def _pair(e: Emit, kind: str, fn: str, values: list[Any]) -> Any:
    """Return a function of pairs. Sums, differences and products are those of fma where there is
    no other instruction: a*1 + b, b*-1 + a, a*b + -0.
    """
    if fn == "neg":
        return e.b.xor(values[0], _both(MINUS))
    if fn == "abs":
        return e.b.and_(values[0], _both(MINUS - 1))
    if fn in _EXTREMES:
        return e.emit(f"min.{kind}x2", *values, fn=fn)[0]
    if fn == "fma":
        return e.emit(f"fma.{kind}x2", *values)[0]
    if e.has(f"add.{kind}x2"):
        return e.emit(f"add.{kind}x2", *values, fn=fn)[0]
    a, b = values
    one = _both(ONE[kind])
    if fn == "mul":
        return e.emit(f"fma.{kind}x2", a, b, _both(MINUS))[0]
    if fn == "add":
        return e.emit(f"fma.{kind}x2", a, one, b)[0]
    return e.emit(f"fma.{kind}x2", b, _both(ONE[kind] | MINUS), a)[0]


# -- conversions


@dataclass(frozen=True)
class Group:
    """A conversion of several elements at once.

    Attributes:
        count: the number of elements.
        rule: from their words to those of the results.
    """

    count: int
    rule: Callable[[Emit, list[Any]], list[Any]]


def convert_groups(e: Emit, op: ops.Convert) -> dict[int, tuple[int, list[Any]]]:
    """Return first element -> (count, words), of the elements of a Convert that go together."""
    group = None if op.saturate and op.src.dtype.is_float else _group(e, op)
    if group is None:
        return {}
    found, n = {}, group.count
    for k in range(0, len(op.src) - n + 1, n):
        if e.words.whole(op.src, k, n) and e.words.whole(op.dst, k, n):
            found[k] = n, group.rule(e, e.words.get_words(op.src, k, n))
    return found


def _group(e: Emit, op: ops.Convert) -> Group | None:
    src, dst = op.src.dtype, op.dst.dtype
    if dst.name not in ONE or not e.has(f"fma.{dst.name}x2"):
        return None
    if src.name == "f32" and op.rounding == "rn" and e.has("cvt.pair.f32"):
        return Group(2, lambda e, w: e.emit("cvt.pair.f32", *_floats(e, w[::-1]), type=dst.name))
    signed = src.kind == "int"
    if src.bits == 4 and src.is_integer:
        return Group(8, lambda e, w: _nibbles(e, w[0], signed, dst.name))
    if src.bits == 8 and src.is_integer:
        rule = _bytes_to_half if dst.name == "f16" else _bytes_to_bf16
        return Group(4, lambda e, w: rule(e, w[0], signed))
    if src.name in ("e4m3", "e5m2") and dst.name == "f16" and e.has("cvt.f16x2.e4m3x2"):
        return Group(4, lambda e, w: _native(e, w[0], src.name))
    if src.name == "e4m3":
        return Group(4, lambda e, w: _from_e4m3(e, w[0], dst.name))
    if src.name == "e5m2" and dst.name == "f16":
        return Group(4, lambda e, w: _upper_bytes(e, w[0]))  # f16 with fewer bits
    return None


def _floats(e: Emit, words: list[Any]) -> list[Any]:
    return [e.b.bitcast(word, F32) for word in words]


def _permuted(e: Emit, a: Any, b: Any, *chosen: int) -> Any:
    """Return a word of four bytes, the lowest first; bytes 0 to 3 are those of a, 4 to 7 of b."""
    selector = sum(n << 4 * i for i, n in enumerate(chosen))
    return e.emit("prmt", a, b, _word(selector))[0]


# images of 2**10 in f16 and of 2**7 in bf16: the last bit of the fraction is 1
_UNIT = {"f16": 0x6400, "bf16": 0x4300}


def _nibbles(e: Emit, word: Any, signed: bool, kind: str) -> list[Any]:
    """Return eight integers of 4 bits; of signed ones the top bit is flipped, which adds 8."""
    odd = e.b.lshr(word, _word(4))
    table, unit = (0x6A, _UNIT[kind] | 8) if signed else (0xEA, _UNIT[kind])  # (a & b) ^ c, .. | c
    found = []
    for i in range(4):
        pair = _permuted(e, word, odd, i, i, 4 + i, 4 + i)
        (placed,) = e.emit("lop3", pair, _both(0xF), _both(unit), table=table)
        found.append(_pair(e, kind, "sub", [placed, _both(unit)]))
    return found


def _flipped(e: Emit, word: Any, signed: bool) -> Any:
    """Return four bytes; of signed ones the top bit is flipped, which adds 128."""
    return e.b.xor(word, _word(0x80808080)) if signed else word


def _bytes_to_half(e: Emit, word: Any, signed: bool) -> list[Any]:
    """Return four integers of 8 bits as f16."""
    word, unit = _flipped(e, word, signed), _UNIT["f16"]
    more = _both(unit | 0x80 if signed else unit)
    placed = [_permuted(e, word, _both(unit), i, 5, i + 1, 5) for i in (0, 2)]
    return [_pair(e, "f16", "sub", [x, more]) for x in placed]


def _bytes_to_bf16(e: Emit, word: Any, signed: bool) -> list[Any]:
    """Return four integers of 8 bits as bf16, by f32: the fraction of bf16 has 7 bits."""
    word, unit = _flipped(e, word, signed), _word(0x4B000000)  # 2**23
    more = ir.Constant(F32, float((1 << 23) + (128 if signed else 0)))
    placed = _floats(e, [_permuted(e, word, unit, i, 4, 4, 7) for i in range(4)])
    exact = [e.b.bitcast(e.emit("sub", x, more, type="f32")[0], I32) for x in placed]
    return [_permuted(e, *exact[i : i + 2], 2, 3, 6, 7) for i in (0, 2)]


def _native(e: Emit, word: Any, kind: str) -> list[Any]:
    halves = [e.b.trunc(x, I16) for x in (word, e.b.lshr(word, _word(16)))]
    return [e.emit("cvt.f16x2.e4m3x2", x, type=kind)[0] for x in halves]


def _upper_bytes(e: Emit, word: Any) -> list[Any]:
    """Return four bytes as the upper bytes of halves of words."""
    return [_permuted(e, word, _word(0), 4, i, 4, i + 1) for i in (0, 2)]


def _from_e4m3(e: Emit, word: Any, kind: str) -> list[Any]:
    """Return four e4m3, without an instruction for it.

    The exponent is placed where that of the result is, and its bias is made up for by a product
    with a power of two, which is exact. The NaN, all ones, carries into the sign when 1 is added.
    """
    b = e.b
    down, scale, top = (1, 0x5C00, 10) if kind == "f16" else (4, 0x7B80, 9)  # 2**8, 2**120
    found = []
    for pair in _upper_bytes(e, word):
        size = b.and_(pair, _both(0x7F00))
        value = _pair(e, kind, "mul", [b.lshr(size, _word(down)), _both(scale)])
        carried = b.and_(b.add(size, _both(0x0100)), _both(MINUS))
        nan = b.sub(carried, b.lshr(carried, _word(top)))
        found.append(b.or_(b.or_(value, nan), b.and_(pair, _both(MINUS))))
    return found
