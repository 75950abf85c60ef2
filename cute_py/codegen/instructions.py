"""The instruction table: one row per instruction, with text, operands, effects and architecture.

Rows are plain data: a backend fills in register names (`text_of`), and gets the kinds of registers
from `types`. Rows of atoms are in `cute_py.atoms`; `of_atom` converts them to this form. Sections
refer to the PTX ISA 9.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from struct import pack
from typing import TYPE_CHECKING

from cute_py.atoms.copy import Copy_Op, guarded
from cute_py.errors import refusal
from cute_py.plan.access import LOAD_CACHES, POLICIES, PREFETCHES, PRIORITIES, STORE_CACHES
from cute_py.plan.functions import ATOMICS, WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    from cute_py.atoms.mma import MMA_Atom

    Words: TypeAlias = tuple[tuple[str, str], ...]  # (word in a plan, text in PTX)

# targets of NVVM and ptxas 13.0 (ptxas --help); a: that chip only, f: its family
TARGETS = (
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a",
    *(f"sm_{n}{suffix}" for n in (100, 103, 110, 120, 121) for suffix in ("", "a", "f")),
)  # fmt: skip
OLDEST = TARGETS[0]  # rows do not list older ones


@dataclass(frozen=True, slots=True)
class Slot:
    """An operand of a row.

    Attributes:
        name: its field in the template.
        type: its PTX type, which may have fields; `v4.b32` is four registers; `global` and
            `shared` are addresses.
        count: the number of registers, if the type does not say.
        braces: whether a single register has braces too.
    """

    name: str
    type: str
    count: int = 1
    braces: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A family of instructions.

    Attributes:
        name: the key in `TABLE`, used in error messages.
        template: the text, with a field for each operand and each mode; `uid` is a suffix that is
            unique in the function.
        results: the outputs, in order.
        operands: the inputs, in order.
        effects: "none"; "memory" reads or writes memory; "order" must not be reordered either.
        modes: mode -> its choices, as words of plans and their text; () for any integer.
        first: the oldest supported architecture that has it.
        source: the section of the PTX ISA.
    """

    name: str
    template: str
    results: tuple[Slot, ...]
    operands: tuple[Slot, ...]
    effects: str
    modes: tuple[tuple[str, Words], ...]
    first: str
    source: str

    def allowed(self, mode: str) -> tuple[str, ...]:
        """Return the words of a mode, () if it has none.

        >>> TABLE["cvt.bf16.f32"].allowed("rounding")
        ('rn', 'rz')
        """
        return tuple(word for word, _text in dict(self.modes).get(mode, ()))


# -- the text of a row for the chosen modes


def texts(row: Row, chosen: Mapping[str, object]) -> dict[str, str]:
    """Return the text of each mode of a row.

    Raises LayoutError for a word that the row does not have, and for a mode without one.

    >>> texts(TABLE["fence"], {"scope": "block"})
    {'scope': 'cta'}
    """
    found = {}
    for mode, words in row.modes:
        given = chosen.get(mode)
        text = dict(words).get(str(given)) if words else _integer(given)
        if text is None:
            raise _refused(f"{row.name} with {mode} {given!r}")
        found[mode] = text
    if not chosen.keys() <= found.keys():
        raise _refused(f"{row.name} with {', '.join(chosen.keys() - found.keys())}")
    return found


def _integer(given: object) -> str | None:
    return str(given) if isinstance(given, int) else None


def types(slots: Iterable[Slot], modes: Mapping[str, str]) -> list[tuple[Slot, int, str]]:
    """Return each operand with the number and the kind of its registers: b16 b32 b64 f32 f64.

    >>> row = TABLE["ld"]
    >>> chosen = {"order": "weak", "space": "smem", "cache": "", "prefetch": "", "bits": 128}
    >>> [found[1:] for found in types(row.results + row.operands, texts(row, chosen))]
    [(4, 'b32'), (1, 'b32')]
    """
    found = []
    for slot in slots:
        vector, _, kind = slot.type.format(**modes).rpartition(".")
        count = int(vector[1:]) if vector[:1] == "v" else slot.count
        found.append((slot, count, _register(kind)))
    return found


def _register(kind: str) -> str:
    """Return the kind of register for a PTX type; narrow integers use 32 bits."""
    if kind in ("f32", "f64"):
        return kind
    if kind in ("b16", "f16", "bf16", "e4m3x2", "e5m2x2"):
        return "b16"
    return "b64" if kind in ("b64", "s64", "u64", "global") else "b32"


def text_of(
    row: Row,
    names: Mapping[str, Sequence[str]],
    modes: Mapping[str, str],
    guard: str = "",
    unless: bool = False,
    uid: str = "",
) -> str:
    """Return the instruction with these registers.

    Args:
        row: a row of `TABLE`, or of an atom.
        names: the registers of each operand; an address may be `register+bytes`.
        modes: the result of `texts`.
        guard: a 32-bit register; the instruction is skipped if it is 0. "": no predicate.
        unless: negate the predicate.
        uid: a suffix for labels.

    >>> row = TABLE["st"]
    >>> modes = texts(row, {"order": "weak", "space": "gmem", "cache": "", "bits": 64})
    >>> text_of(row, {"address": ["%rd1+16"], "a": ["%r1", "%r2"]}, modes)
    'st.global.v2.b32 [%rd1+16], {%r1, %r2};'
    """
    fields = {slot.name: _listed(slot, names[slot.name]) for slot in (*row.results, *row.operands)}
    text = row.template.format(**fields, **modes, uid=uid)
    return guarded(text, guard, unless) if guard else text


def _listed(slot: Slot, names: Sequence[str]) -> str:
    return "{" + ", ".join(names) + "}" if slot.braces or len(names) > 1 else names[0]


def _refused(what: str) -> Exception:
    return refusal("codegen-op", operation="cute.compile", name=what)


# -- rows of atoms


def with_hints(row: Row, policy: bool, prefetch: str) -> Row:
    """Return the row of an asynchronous copy with hints for the L2 cache: an operand of a policy,
    and how much a cp.async prefetches.

    >>> from cute_py.atoms import get_copy
    >>> row = with_hints(of_atom(get_copy("SM80_CP_ASYNC_CACHEGLOBAL", 128)), True, "L2::256B")
    >>> row.template
    'cp.async.cg.shared.global.L2::cache_hint.L2::256B [{dst}], [{src}], 16, {policy};'
    """
    template, operands = row.template, row.operands
    if prefetch:
        template = template.replace(".L2::128B", f".{prefetch}")
    if policy:
        hint = ".L2::cache_hint"
        if "bulk" in template:
            template = template.replace(" [", f"{hint} [", 1)
        template = template.replace("shared.global", f"shared.global{hint}")
        template = template.replace(";", ", {policy};")
        operands = (*operands, Slot("policy", "b64"))
    return replace(row, template=template, operands=operands)


def of_atom(atom: MMA_Atom | Copy_Op) -> Row:
    """Return the row of an atom in the form of this table.

    >>> from cute_py.atoms import SM61_DP4A
    >>> row = of_atom(SM61_DP4A)
    >>> text_of(row, {"d": ["d"], "a": ["a"], "b": ["b"], "c": ["c"]}, {})
    'dp4a.s32.s32 d, a, b, c;'
    """
    if atom.ptx is None:
        raise _refused(str(atom))
    if isinstance(atom, Copy_Op):
        named, written, effects = atom.operands, atom.written, "memory"
    else:
        named, written = tuple(zip("dabce", atom.registers, strict=False)), ("d",)
        effects = "none"
    slots = [(name, Slot(name, x.ptx_type, x.count, x.vector)) for name, x in named]
    return Row(
        name=f"{atom.ptx.split()[0]} of {atom}",
        template=atom.ptx,
        results=tuple(slot for name, slot in slots if name in written),
        operands=tuple(slot for name, slot in slots if name not in written),
        effects=effects,
        modes=(("scale_d", (("p", "p"),)),) if "{scale_d}" in atom.ptx else (),
        first=atom.min_arch,
        source=atom.source,
    )


def of_warpgroup(atom: MMA_Atom) -> Row:
    """Return the row of a warpgroup instruction: its accumulators are 32-bit words, which it
    updates in place, and `accumulate` is a 32-bit flag; where it is 0, it does not read them.

    >>> from cute_py.atoms import get
    >>> of_warpgroup(get("SM90_64x8x16_F16F16F16_SS")).template[:58]
    '{{ .reg .pred p; setp.ne.b32 p, {accumulate}, 0; wgmma.mma'
    """
    row, d = of_atom(atom), atom.registers[0]
    body = row.template.replace("{scale_d}", "p")
    named = [slot for slot in row.operands if f"{{{slot.name}}}" in row.template]
    return replace(
        row,
        template=f"{{{{ .reg .pred p; setp.ne.b32 p, {{accumulate}}, 0; {body} }}}}",
        results=(Slot("d", "b32", d.count, d.vector),),
        operands=(*named, Slot("accumulate", "b32")),
        effects="order",
        modes=(),
    )


def holding(row: Row, count: int) -> Row:
    """Return a row whose results are `count` words, which the text does not mention: with their old
    values they stay where they are, and accesses to them stay in order with the instruction.
    """
    return replace(row, results=(Slot("held", "b32", count),))


@cache
def wmma(what: str, form: str, kind: str, count: int) -> Row:
    """Return the row of wmma.load or wmma.store of `count` words.

    >>> wmma("load", "a.sync.aligned.row.m16n16k16", "f16", 8).template
    'wmma.load.a.sync.aligned.row.m16n16k16.{space}.f16 {d}, [{address}], {step};'
    """
    words, line = Slot("d", "b32", count, True), (Slot("address", "{space}"), Slot("step", "b32"))
    loads = what == "load"
    operands = "{d}, [{address}], {step};" if loads else "[{address}], {d}, {step};"
    return Row(
        f"wmma.{what}",
        f"wmma.{what}.{form}.{{space}}.{kind} {operands}",
        (words,) if loads else (),
        line if loads else (*line, words),
        "memory",
        (("space", (("gmem", "global"), ("smem", "shared"))),),
        OLDEST,
        f"Warp-level Matrix {what.title()} Instruction: wmma.{what}",
    )


# -- functions of several instructions: one statement, since compilers take their time by statements


@cache
def polynomial(coefficients: tuple[float, ...]) -> Row:
    """Return the row of a polynomial of f32, by powers from 0 on: one fma a power.

    >>> polynomial((1.0, 2.0)).template
    '{{ .reg .f32 t; mov.f32 t, 0f40000000; fma.rn.f32 t, t, {x}, 0f3F800000; mov.f32 {d}, t; }}'
    """
    return _statement(".reg .f32 t;", _horner(coefficients, "{x}"), "mov.f32 {d}, t;")


@cache
def gelu(tail: tuple[float, ...], far: float, passes_nan: bool) -> Row:
    """Return the row of max(x, 0) - a*2**p(a) of f32, with a = abs(min(x, far)), and p the
    polynomial `tail`; NaN stays NaN. `passes_nan`: whether the target has min.NaN and max.NaN.
    """
    most, zero = _hex(far), _hex(0.0)
    clamped = f"min.NaN.f32 a, {{x}}, {most}; max.NaN.f32 r, {{x}}, {zero};"
    if not passes_nan:
        clamped = f".reg .pred p; setp.gt.f32 p, {{x}}, {most}; selp.f32 a, {most}, {{x}}, p;"
        clamped += f" setp.lt.f32 p, {{x}}, {zero}; selp.f32 r, {zero}, {{x}}, p;"
    power = "abs.f32 a, a;", _horner(tail, "a"), "ex2.approx.ftz.f32 t, t;"
    end = "neg.f32 a, a; fma.rn.f32 {d}, a, t, r;"
    return _statement(".reg .f32 a, r, t;", clamped, *power, end)


def _horner(coefficients: tuple[float, ...], x: str) -> str:
    first, *rest = map(_hex, reversed(coefficients))
    return " ".join([f"mov.f32 t, {first};", *[f"fma.rn.f32 t, t, {x}, {c};" for c in rest]])


def _hex(number: float) -> str:
    return f"0f{pack('>f', number).hex().upper()}"


def _statement(*parts: str) -> Row:
    """Return the row of a function of f32 made of several instructions."""
    text, slots = " ".join(parts), ((Slot("d", "f32"),), (Slot("x", "f32"),))
    return Row("a function", f"{{{{ {text} }}}}", *slots, "none", (), OLDEST, "fma, ex2, min, max")


# -- the table


def _same(*words: str) -> Words:
    return tuple((word, word) for word in words)


def _dotted(*words: str) -> Words:
    """Return words that may be left out, each after a dot."""
    return (("", ""), *((word, f".{word}") for word in words))


def _row(
    name: str,
    template: str,
    slots: str,
    source: str,
    effects: str = "none",
    first: str = OLDEST,
    **modes: Words,
) -> Row:
    """Return a row; `slots` is `d:type d:type < a:type b:type`, results to the left."""
    results, operands = (
        tuple(Slot(*each.partition(":")[::2]) for each in side.split()) for side in slots.split("<")
    )
    return Row(name, template, results, operands, effects, tuple(modes.items()), first, source)


_FLOAT, _WORDS = _same("f32", "f64"), _same(*WORDS)
_ROUNDING: Words = (("rn", "rn"), ("rz", "rz"), ("rd", "rm"), ("ru", "rp"))
_SPACE: Words = (("gmem", "global"), ("smem", "shared"))
_VECTOR: Words = (
    ("32", "b32"), ("8", "b8"), ("16", "b16"), ("64", "v2.b32"), ("128", "v4.b32"),
    ("1x64", "b64"), ("2x64", "v2.b64"),
)  # fmt: skip
_F2, _F3 = "d:{type} < a:{type}", "d:{type} < a:{type} b:{type}"
_EXTREMES: Words = (
    *_same("min", "max"), ("min_nan", "min.NaN"), ("max_nan", "max.NaN")
)  # fmt: skip
_APPROX, _B2 = "d:f32 < a:f32", "d:b32 < a:b32 b:b32"

_MEMORY = (
    _row(
        "ld", "ld{order}.{space}{cache}{prefetch}.{bits} {d}, [{address}];",
        "d:{bits} < address:{space}", "ld", "memory",
        order=(("weak", ""), ("acquire", ".acquire.gpu"), ("volatile", ".volatile")),
        space=_SPACE, bits=_VECTOR, cache=_dotted(*LOAD_CACHES, *PRIORITIES),
        prefetch=_dotted(*PREFETCHES[:2]),
    ),
    _row(
        "ld.L2::256B", "ld.{space}{cache}.L2::256B.{bits} {d}, [{address}];",
        "d:{bits} < address:{space}", "ld", "memory", "sm_80",
        space=(("gmem", "global"),), bits=_VECTOR, cache=_dotted(*LOAD_CACHES, *PRIORITIES),
    ),
    _row(
        "ld.policy",
        "ld.{space}{cache}.L2::cache_hint{prefetch}.{bits} {d}, [{address}], {policy};",
        "d:{bits} < address:{space} policy:b64", "ld", "memory", "sm_80",
        space=(("gmem", "global"),), bits=_VECTOR, cache=_dotted(*LOAD_CACHES, *PRIORITIES),
        prefetch=_dotted(*PREFETCHES),
    ),
    _row(
        "st", "st{order}.{space}{cache}.{bits} [{address}], {a};",
        "< address:{space} a:{bits}", "st", "memory",
        order=(("weak", ""), ("release", ".release.gpu")), space=_SPACE, bits=_VECTOR,
        cache=_dotted(*STORE_CACHES, *PRIORITIES),
    ),
    _row(
        "st.policy", "st.{space}{cache}.L2::cache_hint.{bits} [{address}], {a}, {policy};",
        "< address:{space} a:{bits} policy:b64", "st", "memory", "sm_80",
        space=(("gmem", "global"),), bits=_VECTOR, cache=_dotted(*STORE_CACHES, *PRIORITIES),
    ),
    _row(
        "ld.param", "ld.param.{type} {d}, [{address}];", "d:{type} < address:b64", "ld",
        type=_same("b32", "b64"),
    ),
    _row(
        "createpolicy", "createpolicy.fractional{policy}.b64 {d}, 1.0;", "d:b64 <", "createpolicy",
        "none", "sm_80", policy=tuple((word, f".{word}") for word in POLICIES),
    ),
    _row(  # signed and unsigned integer sums have the same bits
        "atom.add", "atom.{space}.add.{type} {d}, [{address}], {a};",
        "d:{type} < address:{space} a:{type}", "atom", "memory", space=_SPACE,
        type=(
            *((kind, {"s64": "u64", "f16": "noftz.f16"}.get(kind, kind))
              for kind in ATOMICS["add"] if kind != "bf16"),
            ("f16x2", "noftz.f16x2"),
        ),
    ),
    *(
        _row(
            f"red.add{noftz}", f"red.global.add{noftz}.{{type}} [{{address}}], {{a}};",
            "< address:global a:{type}", "red", "memory", "sm_90",
            type=tuple((f"{kind}x{n * each}", f"v{n}.{kind}{'x2' * (each - 1)}")
                       for kind in kinds for n in (2, 4)),
        )
        for noftz, kinds, each in (("", ("f32",), 1), (".noftz", ("f16", "bf16"), 2))
    ),
    _row(
        "atom.add.noftz.bf16", "atom.{space}.add.noftz.{type} {d}, [{address}], {a};",
        "d:{type} < address:{space} a:{type}", "atom", "memory", "sm_90", space=_SPACE,
        type=_same("bf16", "bf16x2"),
    ),
    _row(
        "atom.cas", "atom.{space}.cas.{type} {d}, [{address}], {c}, {a};",
        "d:{type} < address:{space} a:{type} c:{type}", "atom", "memory", space=_SPACE,
        type=_same("b16", "b32", "b64"),
    ),
    _row(
        # floats of one sign are ordered as integers: a value without the sign bit is combined as
        # s32, one with it as u32, the other way round. A NaN is no value, so memory stays; one
        # that the integers leave in memory is replaced by cas.
        "atom.min.f32",
        "{{ .reg .pred g, n, p, q, v; .reg .b32 x; setp.ne.b32 g, {flag}, 0; "
        "and.b32 x, {a}, 0x7fffffff; setp.le.and.u32 v, x, 0x7f800000, g; "
        "setp.gt.and.u32 n, x, 0x7f800000, g; "
        "setp.ge.and.s32 q, {a}, 0, v; setp.lt.and.s32 p, {a}, 0, v; "
        "again_{uid}: @q atom.{space}.{fn}.s32 {d}, [{address}], {a}; "
        "@p atom.{space}.{other}.u32 {d}, [{address}], {a}; "
        "@n atom.{space}.or.b32 {d}, [{address}], 0; "
        "setp.gt.and.{nan} v, {d}, {bound}, v; mov.b32 x, {d}; "
        "@v atom.{space}.cas.b32 x, [{address}], {d}, {a}; "
        "setp.ne.b32 v, x, {d}; @v bra again_{uid}; }}",
        "d:b32 < address:{space} a:b32 flag:b32", "atom", "memory", space=_SPACE,
        fn=_same("min", "max"), other=_same("min", "max"), nan=_same("s32", "u32"),
        bound=_same("0x7f800000", "0xff800000"),
    ),
    _row(
        "atom.min", "atom.{space}.{fn}.{type} {d}, [{address}], {a};",
        "d:{type} < address:{space} a:{type}", "atom", "memory", space=_SPACE,
        fn=_same("min", "max"), type=_same(*WORDS),
    ),
    _row(
        "atom.bits", "atom.{space}.{fn}.{type} {d}, [{address}], {a};",
        "d:{type} < address:{space} a:{type}", "atom", "memory", space=_SPACE,
        fn=_same("exch", "and", "or", "xor"), type=_same("b32", "b64"),
    ),
    _row("prefetch", "prefetch.global.L2 [{address}];", "< address:global", "prefetch", "memory"),
    _row(
        "wait_until",
        "{{ .reg .pred p; .reg .{type} x; again_{uid}: ld.acquire.gpu.{space}.{type} x, "
        "[{address}]; setp.{test}.{type} p, x, {a}; @!p bra again_{uid}; }}",
        "< address:{space} a:{type}", "ld, setp, bra", "order", space=_SPACE, type=_WORDS,
        test=_same("eq", "ne", "lt", "le", "gt", "ge"),
    ),
    _row(
        "wait_until.float",
        "{{ .reg .pred p; .reg .{type} x, y; cvt.rn.{type}.s64 y, {a}; again_{uid}: "
        "ld.acquire.gpu.{space}.{type} x, [{address}]; setp.{test}.{type} p, x, y; "
        "@!p bra again_{uid}; }}",
        "< address:{space} a:s64", "ld, setp, bra", "order", space=_SPACE, type=_FLOAT,
        test=(*_same("eq", "lt", "le", "gt", "ge"), ("ne", "neu")),
    ),
)  # fmt: skip

_ORDER = (
    _row("bar.block", "bar.sync 0;", "<", "bar", "order"),
    _row("bar.warp", "bar.warp.sync 0xffffffff;", "<", "bar.warp.sync", "order"),
    _row(
        "bar.named", "bar.{kind} {id}, {threads};", "< id:b32", "bar", "order",
        kind=_same("sync", "arrive"), threads=(),
    ),
    _row(
        "barrier.cluster", "barrier.cluster.{kind};", "<", "barrier.cluster", "order", "sm_90",
        kind=(
            ("sync", "arrive.aligned; barrier.cluster.wait.aligned"),
            ("arrive", "arrive.aligned"), ("wait", "wait.aligned"),
        ),
    ),
    _row(
        "cp.async.commit_group", "cp.async.commit_group;", "<", "cp.async.commit_group", "order",
        "sm_80",
    ),
    _row(
        "cp.async.wait_group", "cp.async.wait_group {n};", "<", "cp.async.wait_group", "order",
        "sm_80", n=(),
    ),
    _row(
        "fence", "fence.acq_rel.{scope};", "<", "membar, fence", "order",
        scope=(("block", "cta"), ("gpu", "gpu"), ("system", "sys")),
    ),
    _row(
        "fence.proxy.async", "fence.proxy.async.shared::{scope};", "<", "membar, fence", "order",
        "sm_90", scope=_same("cta", "cluster"),
    ),
    _row(
        "fence.mbarrier_init", "fence.mbarrier_init.release.cluster;", "<", "membar, fence",
        "order", "sm_90",
    ),
    _row(
        "griddepcontrol", "griddepcontrol.{kind};", "<", "griddepcontrol", "order", "sm_90",
        kind=(("wait", "wait"), ("launch_dependents", "launch_dependents")),
    ),
    _row(
        "setmaxnreg", "setmaxnreg.{kind}.sync.aligned.u32 {n};", "<", "setmaxnreg", "order",
        "sm_90a", kind=_same("inc", "dec"), n=(),
    ),
    _row(
        "elect.sync",  # the lowest active lane
        "{{ .reg .pred p; .reg .b32 mask; activemask.b32 mask; elect.sync _|p, mask; "
        "selp.b32 {d}, 1, 0, p; }}",
        "d:b32 <", "elect.sync, activemask", "order", "sm_90",
    ),
    _row("trap", "trap;", "<", "trap", "order"),
    _row(
        "opaque", "", "d:b{bits} <", "none: a value that is opaque to the compiler",
        bits=_same("32", "64"),
    ),
    _row(
        "shfl", "shfl.sync.{kind}.b32 {d}, {a}, {lane}, {clamp}, 0xffffffff;",
        "d:b32 < a:b32 lane:b32", "shfl.sync", "order",
        kind=_same("idx", "up", "down", "bfly"), clamp=(),
    ),
    _row(
        "vote.ballot",
        "{{ .reg .pred p, q; setp.ne.b32 p, {a}, 0; vote.sync.ballot.b32 {d}, p, 0xffffffff; }}",
        "d:b32 < a:b32", "vote.sync", "order",
    ),
    _row(
        "vote",
        "{{ .reg .pred p, q; setp.ne.b32 p, {a}, 0; vote.sync.{kind}.pred q, p, 0xffffffff; "
        "selp.b32 {d}, 1, 0, q; }}",
        "d:b32 < a:b32", "vote.sync", "order", kind=_same("any", "all"),
    ),
    _row(
        "redux.sync", "redux.sync.{op} {d}, {a}, 0xffffffff;", "d:b32 < a:b32", "redux.sync",
        "order", "sm_80",
        op=_same(
            *(f"{fn}.{kind}" for fn in ("add", "min", "max") for kind in ("s32", "u32")),
            *("and.b32", "or.b32", "xor.b32"),
        ),
    ),
    _row(
        "special", "mov.u32 {d}, %{register};", "d:b32 <", "Special Registers",
        register=_same(*(f"{name}.{axis}" for name in ("tid", "ctaid") for axis in "xyz")),
    ),
)  # fmt: skip

_ASYNC = (
    _row(
        "mbarrier.init", "mbarrier.init.shared.b64 [{bar}], {count};", "< bar:shared",
        "mbarrier.init", "order", "sm_80", count=(),
    ),
    _row(
        "mbarrier.inval", "mbarrier.inval.shared.b64 [{bar}];", "< bar:shared",
        "mbarrier.inval", "order", "sm_80",
    ),
    _row(
        "mbarrier.arrive", "mbarrier.arrive.shared.b64 _, [{bar}];", "< bar:shared",
        "mbarrier.arrive", "order", "sm_80",
    ),
    _row(
        "mbarrier.arrive.expect_tx", "mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], {bytes};",
        "< bar:shared", "mbarrier.arrive", "order", "sm_90", bytes=(),
    ),
    _row(
        "mbarrier.complete_tx",
        "mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [{bar}], {bytes};",
        "< bar:shared", "mbarrier.complete_tx", "order", "sm_90", bytes=(),
    ),
    _row("mapa", "mapa.shared::cluster.u32 {d}, {own}, {rank};",
         "d:b32 < own:b32 rank:b32", "mapa", "none", "sm_90"),
    # .release.cluster costs a MEMBAR.ALL.GPU: only at `cluster_barriers` of the plan
    _row(
        "mbarrier.arrive.cluster",
        "{{ .reg .b32 r; mapa.shared::cluster.u32 r, {bar}, {rank}; "
        "mbarrier.arrive{scope}.shared::cluster.b64 _, [r]; }}",
        "< bar:shared rank:b32", "mbarrier.arrive, mapa", "order", "sm_90",
        scope=(("cta", ""), ("cluster", ".release.cluster")),
    ),
    _row(
        "mbarrier.arrive.expect_tx.cluster",
        "{{ .reg .b32 r; mapa.shared::cluster.u32 r, {bar}, {rank}; "
        "mbarrier.arrive.expect_tx{scope}.shared::cluster.b64 _, [r], {bytes}; }}",
        "< bar:shared rank:b32", "mbarrier.arrive, mapa", "order", "sm_90", bytes=(),
        scope=(("cta", ""), ("cluster", ".release.cluster")),
    ),
    _row(
        "mbarrier.try_wait",
        "{{ .reg .pred p; again_{uid}: mbarrier.try_wait.parity{scope}.shared.b64 p, [{bar}], "
        "{parity}; @!p bra again_{uid}; }}",
        "< bar:shared parity:b32", "mbarrier.try_wait", "order", "sm_90",
        scope=(("cta", ""), ("cluster", ".acquire.cluster")),
    ),
    _row(
        "cp.async.mbarrier.arrive", "cp.async.mbarrier.arrive.noinc.shared.b64 [{bar}];",
        "< bar:shared", "cp.async.mbarrier.arrive", "order", "sm_80",
    ),
    _row(
        "cp.async.bulk.commit_group", "cp.async.bulk.commit_group;", "<",
        "cp.async.bulk.commit_group", "order", "sm_90",
    ),
    _row(
        "cp.async.bulk.wait_group", "cp.async.bulk.wait_group{read} {n};", "<",
        "cp.async.bulk.wait_group", "order", "sm_90", read=(("False", ""), ("True", ".read")), n=(),
    ),
    *(_row(f"wgmma.{each}", f"wgmma.{each}.sync.aligned;", "<", f"wgmma.{each}", "order",
           "sm_90a") for each in ("fence", "commit_group")),
    _row(
        "wgmma.wait_group", "wgmma.wait_group.sync.aligned {n};", "<", "wgmma.wait_group", "order",
        "sm_90a", n=(),
    ),
    _row(  # for ptxas, which moves the wait above arithmetic: a sleep stays, here of 0 ns for one x
        "wgmma.after",
        "{{ .reg .pred p; setp.eq.s32 p, {x}, 0x7FFFBEEF; @p nanosleep.u32 0; }}",
        "< x:b32", "nanosleep", "order",
    ),
    _row(  # "order": nobody keeps it for the next iteration
        "descriptor", "add.s64 {d}, {x}, {n};", "d:b64 < x:b64", "add", "order", n=(),
    ),
    _row("held", "", "<", "none: registers of instructions in flight", "order", n=()),
)  # fmt: skip

# as PTX with .rn: neither NVVM nor ptxas contracts two of them to an fma
_FLOATS = (
    *(_row(fn, f"{fn}.rn.{{type}} {{d}}, {{a}}, {{b}};", _F3, fn, type=_FLOAT)
      for fn in ("add", "sub", "mul", "div")),
    *(_row(fn, f"{fn}.{{type}} {{d}}, {{a}}, {{b}};", _F3, fn, type=_FLOAT)
      for fn in ("min", "max")),
    _row("abs", "abs.{type} {d}, {a};", _F2, "abs", type=_FLOAT),
    _row("sqrt", "sqrt.rn.{type} {d}, {a};", _F2, "sqrt", type=_FLOAT),
    _row("rcp", "rcp.rn.{type} {d}, {a};", _F2, "rcp", type=_FLOAT),
    _row("floor", "cvt.rmi.{type}.{type} {d}, {a};", _F2, "cvt", type=_FLOAT),
    _row("ceil", "cvt.rpi.{type}.{type} {d}, {a};", _F2, "cvt", type=_FLOAT),
    *(_row(f"{fn}.approx", f"{fn}.approx{ftz}.f32 {{d}}, {{a}};", _APPROX, fn)
      for fn, ftz in (("rsqrt", ".ftz"), ("rcp", ".ftz"), ("ex2", ".ftz"), ("lg2", ".ftz"),
                      ("tanh", ""), ("sin", ".ftz"), ("cos", ".ftz"))),
    _row("fma", "fma.rn.{type} {d}, {a}, {b}, {c};", f"{_F3} c:{{type}}", "fma",
         type=_same("f32", "f64", "f16")),
    _row("fma.bf16", "fma.rn.bf16 {d}, {a}, {b}, {c};", "d:bf16 < a:bf16 b:bf16 c:bf16", "fma",
         first="sm_80"),
    *(_row(f"add.{kind}x2", f"{{fn}}.rn.{kind}x2 {{d}}, {{a}}, {{b}};", _B2, "add, sub, mul",
           first=first, fn=_same("add", "sub", "mul"))
      for kind, first in (("f16", OLDEST), ("bf16", "sm_90"))),
    *(_row(f"fma.{kind}x2", f"fma.rn.{kind}x2 {{d}}, {{a}}, {{b}}, {{c}};", f"{_B2} c:b32", "fma",
           first=first)
      for kind, first in (("f16", OLDEST), ("bf16", "sm_80"))),
    *(_row(f"min.{kind}x2", f"{{fn}}.{kind}x2 {{d}}, {{a}}, {{b}};", _B2, "min, max",
           first="sm_80", fn=_EXTREMES)
      for kind in ("f16", "bf16")),
    _row("min.nan", "{fn}.NaN.f32 {d}, {a}, {b};", "d:f32 < a:f32 b:f32", "min, max",
         first="sm_80", fn=_same("min", "max")),
    _row("lop3", "lop3.b32 {d}, {a}, {b}, {c}, {table};", f"{_B2} c:b32", "lop3", table=()),
    _row("prmt", "prmt.b32 {d}, {a}, {b}, {selector};", f"{_B2} selector:b32", "prmt"),
)  # fmt: skip

_CONVERSIONS = (
    _row("cvt.f32.f16", "cvt.f32.f16 {d}, {a};", "d:f32 < a:f16", "cvt"),
    _row("cvt.f32.f64", "cvt.{rounding}.f32.f64 {d}, {a};", "d:f32 < a:f64", "cvt",
         rounding=_ROUNDING),
    _row("cvt.f16", "cvt.{rounding}.f16.{src} {d}, {a};", "d:f16 < a:{src}", "cvt",
         rounding=_ROUNDING, src=_FLOAT),
    _row("cvt.bf16.f32", "cvt.{rounding}.bf16.f32 {d}, {a};", "d:bf16 < a:f32", "cvt",
         first="sm_80", rounding=_ROUNDING[:2]),
    _row("cvt.pair.f32", "cvt.rn.{type}x2.f32 {d}, {a}, {b};", "d:b32 < a:f32 b:f32", "cvt",
         first="sm_80", type=_same("f16", "bf16")),
    _row("cvt.rna.tf32.f32", "cvt.rna.tf32.f32 {d}, {a};", "d:tf32 < a:f32", "cvt",
         first="sm_80"),
    _row("cvt.satfinite.e4m3x2.f32", "cvt.rn.satfinite.{type}x2.f32 {d}, {a}, {b};",
         "d:{type}x2 < a:f32 b:f32", "cvt", first="sm_89", type=_same("e4m3", "e5m2")),
    _row("cvt.f16x2.e4m3x2", "cvt.rn.f16x2.{type}x2 {d}, {a};", "d:f16x2 < a:{type}x2", "cvt",
         first="sm_89", type=_same("e4m3", "e5m2")),
    _row("cvt.float.int", "cvt.{rounding}.{dst}.{src} {d}, {a};", "d:{dst} < a:{src}", "cvt",
         rounding=_ROUNDING, dst=_FLOAT, src=_WORDS),
    _row("cvt.int.float", "cvt.{rounding}i.{dst}.{src} {d}, {a};", "d:{dst} < a:{src}", "cvt",
         rounding=_ROUNDING, dst=(*_WORDS, *_same("s8", "u8", "s16", "u16")), src=_FLOAT),
)  # fmt: skip


def _of_peers(row: Row) -> Row:
    """Return a load, store or atomic of the shared memory of other blocks of the cluster."""
    template = row.template.replace("{space}", "shared::cluster")
    for mode in ("order", "cache", "prefetch"):
        template = template.replace(f"{{{mode}}}", "")
    operands = tuple(Slot(x.name, x.type.replace("{space}", "shared")) for x in row.operands)
    modes = tuple((mode, words) for mode, words in row.modes if f"{{{mode}}}" in template)
    name = f"{row.name}.peer"
    return replace(row, name=name, template=template, operands=operands, modes=modes, first="sm_90")


_PAIRS = _row(  # ptxas 13.0 makes `atom.shared::cluster.add` of pairs a load and a store: measured
    "atom.add.pair.peer",
    "{{ .reg .pred g, p; .reg .b32 x, y; setp.ne.b32 g, {flag}, 0; "
    "@g ld.shared::cluster.b32 {d}, [{address}]; again_{uid}: mov.b32 x, {d}; "
    "add.rn.{type} y, x, {a}; @g atom.shared::cluster.cas.b32 {d}, [{address}], x, y; "
    "setp.ne.and.b32 p, {d}, x, g; @p bra again_{uid}; }}",
    "d:b32 < address:shared a:b32 flag:b32", "atom, add", "memory", "sm_90",
    type=_same("f16x2", "bf16x2"),
)  # fmt: skip
_SHARED = [row for row in _MEMORY if row.effects == "memory" and ("space", _SPACE) in row.modes]
_PEERS = (*map(_of_peers, _SHARED), _PAIRS)
TABLE: dict[str, Row] = {
    row.name: row for row in (*_MEMORY, *_PEERS, *_ORDER, *_ASYNC, *_FLOATS, *_CONVERSIONS)
}
