"""SASS, the text of machine code: its instructions counted by name, and by kind in each loop; what
stalls the loops of warpgroup products, in the text, and a faster question to the machine code.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType

from cute_py.records import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = {  # kind -> instructions of SASS, by the beginnings of their names
    "products": ("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "HGMMA", "IGMMA", "BGMMA", "QGMMA"),
    "copies": (
        "LDG", "LDS", "LDSM", "LD", "STG", "STS", "STSM", "ST", "ATOM", "RED", "UBLKCP", "UTMA",
        "LDL", "STL", "CCTL",
    ),
    "waits": (
        "BAR", "DEPBAR", "LDGDEPBAR", "SYNCS", "WARPSYNC", "MEMBAR", "ERRBAR", "NANOSLEEP", "FENCE",
        "WARPGROUP", "ARRIVES", "UCGABAR", "ACQBULK", "CGAERRBAR",
    ),
    "guards": ("ISETP", "UISETP", "PLOP3", "UPLOP3", "FSETP", "HSETP2", "DSETP", "P2R", "R2P"),
    "addresses": (
        "IADD", "UIADD", "IMAD", "UIMAD", "LEA", "ULEA", "LOP3", "ULOP3", "SHF", "USHF", "S2R",
        "S2UR", "SEL", "USEL", "IABS", "VIADD", "IMNMX", "VIMNMX",
    ),
    "constants": ("LDC", "ULDC"),
    "moves": ("MOV", "UMOV", "R2UR", "CS2R", "PRMT", "UPRMT"),
    "branches": ("BRA", "BSSY", "BSYNC", "BREAK", "EXIT", "BRX", "WARPSYNC.COLLECTIVE", "YIELD"),
}  # fmt: skip
_BY_LENGTH = sorted(
    ((name, kind) for kind, names in KINDS.items() for name in names), key=lambda x: -len(x[0])
)
# /*0a10*/  @!P0 LDSM.16.M88.4 R4, [R2] ;
_LINE = re.compile(
    r"^\s*(?P<label>\.L_x_\d+):|/\*(?P<at>[0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?"
    r"(?P<name>[A-Z]\w*)(?P<rest>[^;]*);",
    re.MULTILINE,
)
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
PRODUCTS = ("HGMMA", "IGMMA", "QGMMA")  # of warpgroups
# what stalls the loop of warpgroup products: spills, calls, fences of the whole GPU, operands in
# vector registers
STALLS = re.compile(r"(?:LDL|STL|CALL|R2UR|MEMBAR\.\w+\.(?:GPU|SYS))\b")
# the low 12 bits of instructions of sm_90, as `nvdisasm -hex` shows them: products, of A in shared
# memory and in registers, jumps, and what may stall
OPCODES = {
    0x9F0: "HGMMA", 0xDF0: "HGMMA", 0x9F1: "IGMMA", 0xDF1: "IGMMA", 0x9F3: "QGMMA", 0xDF3: "QGMMA",
    0x947: "BRA", 0x94D: "EXIT", 0x983: "LDL", 0x387: "STL", 0x2CA: "R2UR", 0x992: "MEMBAR",
    **dict.fromkeys((0x343, 0x344, 0x943, 0x944, 0xB43), "CALL"),
}  # fmt: skip
ARITHMETIC = ("MUFU", "FFMA", "FADD", "FMUL", "FMNMX", "F2FP", "I2FP", "IDP")
_PENDING = re.compile(r"\.DEPBAR\.\w+ gsb0, (0x[0-9a-f]+)")
SUSPECTS = ("LDL", "STL", "CALL", "R2UR", "MEMBAR")


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction: its address (bytes), its name before the first dot, what follows, and the
    label that it branches to, "" for none.
    """

    at: int
    name: str
    rest: str
    target: str


def counted(sass: str) -> Mapping[str, int]:
    """Return the number of each instruction by its name before the first dot: HMMA, LDSM, LDGSTS,
    BAR ...; 0 for any other.

    >>> counted("/*0010*/ @P0 LDSM.16.M88.4 R4, [R2] ;")["LDSM"]
    1
    """
    return MappingProxyType(Counter(x.name for x in read(sass)[0]))


def product_loops(sass: str) -> list[list[Instruction]]:
    """Return the innermost loops that multiply by warpgroups, which are those over K. Products that
    are left over where such a loop was unrolled are in none.
    """
    return _product_loops(*read(sass))


def _product_loops(code: list[Instruction], labels: dict[str, int]) -> list[list[Instruction]]:
    products = [i for i, x in enumerate(code) if x.name in PRODUCTS]
    # waits that repeat are behind the code of their warps, and branch back into loops
    last = products[-1] if products else len(code)
    end = next((i for i in range(last, len(code)) if code[i].name == "EXIT"), len(code))
    loops = [(start, i) for i, x in enumerate(code[:end]) if (start := labels.get(x.target, i)) < i]
    inner = {
        min(around, key=lambda loop: loop[1] - loop[0])
        for at in products
        if (around := [loop for loop in loops if loop[0] <= at < loop[1]])
    }
    inner = {x for x in inner if not any(x[0] <= y[0] and y[1] <= x[1] for y in inner - {x})}
    return [code[start:end] for start, end in sorted(inner)]


def stalls(sass: str) -> Mapping[str, list[int]]:
    """Return the addresses of each instruction of `STALLS` in the loops of warpgroup products.

    >>> loop = "R2UR UR4, R2 ;", "HGMMA.64x8x16.F32 R24, gdesc[UR8], R24 ;", "@P0 BRA `(.L_x_1) ;"
    >>> text = [f"/*{i:04x}*/ {x}" for i, x in enumerate((*loop, "R2UR UR5, R2 ;"))]
    >>> stalls(chr(10).join([".L_x_1:", *text]))
    {'R2UR': [0]}
    """
    found: dict[str, list[int]] = {}
    for x in [x for loop in product_loops(sass) for x in loop]:
        if match := STALLS.match(x.name + x.rest):
            found.setdefault(match[0], []).append(x.at)
    return found


def waited(sass: str) -> list[str]:
    """Return, of each wait for products in the loops of warpgroup products, behind how much of the
    loop's arithmetic it is: ptxas moves a wait up to the instructions that need it to.

    >>> loop = "MUFU.EX2 R1, R1", "WARPGROUP.DEPBAR.LE gsb0, 0x1", "MUFU.EX2 R2, R2", "FADD R3, R2"
    >>> loop = *loop, "HGMMA.64x8x16.F32 R24, gdesc[UR8], R24", "@P0 BRA `(.L_x_1)"
    >>> text = [f"/*{i:04x}*/ {x} ;" for i, x in enumerate(loop)]
    >>> waited(chr(10).join([".L_x_1:", *text]))
    ['wait at 0x0001 for all products but 1: behind 1 of 2 MUFU, 0 of 1 FADD']
    """
    found = []
    for loop in product_loops(sass):
        totals = {name: n for name in ARITHMETIC if (n := sum(x.name == name for x in loop))}
        for i, x in enumerate(loop):
            if x.name == "WARPGROUP" and (wait := _PENDING.match(x.rest)):
                before = Counter(y.name for y in loop[:i])
                parts = [f"{before[name]} of {n} {name}" for name, n in totals.items()]
                behind = ", ".join(parts) or "no arithmetic"
                most = int(wait[1], 16)
                pending = f"all products but {most}" if most else "all products"
                found.append(f"wait at {x.at:#06x} for {pending}: behind {behind}")
    return found


def may_stall(cubin: bytes) -> bool:
    """Return whether `stalls` must read the text of a kernel with warpgroup products: whether its
    machine code has an instruction in question in a loop, or no such loop is found. nvdisasm
    takes 0.2 s for its start alone.
    """
    loops = _product_loops(*decoded(cubin))
    return not loops or any(x.name in SUSPECTS for loop in loops for x in loop)


def decoded(cubin: bytes) -> tuple[list[Instruction], dict[str, int]]:
    """Return the instructions of a cubin for sm_90, those that `OPCODES` lacks without a name, and
    where the labels of its jumps are. An instruction has 128 bits; a jump's distance is counted in
    words of 32 bits from the next one, its low 8 bits at bit 16, the others from bit 34 on.
    """
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for i, (low, high) in enumerate(struct.iter_unpack("<QQ", _machine_code(cubin))):
        name, target = OPCODES.get(low & 0xFFF, ""), ""
        if name == "BRA":
            words = (low >> 16 & 0xFF) | (low >> 34 | (high & 0x3FFFF) << 30) << 8
            words -= (words >> 55) << 56
            to = i + 1 + words // 4
            target = f".L_x_{to}"
            labels[target] = to
        code.append(Instruction(16 * i, name, "", target))
    return code, labels


def _machine_code(cubin: bytes) -> bytes:
    """Return the only section of code of a cubin, b"" if there are several. Source: ELF-64."""
    start, (size, count) = (
        struct.unpack_from("<Q", cubin, 40)[0],
        struct.unpack_from("<2H", cubin, 58),
    )
    rows = [struct.unpack_from("<2I4Q", cubin, start + i * size) for i in range(count)]
    found = [row[4:] for row in rows if row[2] & 4]  # SHF_EXECINSTR
    return b"".join(cubin[at : at + length] for at, length in found) if len(found) == 1 else b""


def kind_of(name: str) -> str:
    """Return the kind of an instruction of SASS; what is none of the table is arithmetic.

    >>> kind_of("LDGSTS"), kind_of("LDC"), kind_of("FFMA")
    ('copies', 'constants', 'arithmetic')
    """
    return next((kind for first, kind in _BY_LENGTH if name.startswith(first)), "arithmetic")


def explained(sass: str) -> Text:
    """Return a line for the code outside loops and one for each loop of SASS: a loop is what a
    branch back encloses, without the loops inside of it. Then those of `waited`.
    """
    code, labels = read(sass)
    loops = set[tuple[int, int]]()
    for i, x in enumerate(code):
        start = labels.get(x.target, len(code))
        if start < i or (start == i and not _is_padding(code, i)):
            loops.add((start, i + 1))
    rows = [_row("outside loops", _alone(range(len(code)), loops), code)]
    for start, end in sorted(loops, key=lambda x: (x[0], -x[1])):
        inner = {x for x in loops if start <= x[0] and x[1] <= end and x != (start, end)}
        title = f"loop at {code[start].at:#06x} to {code[end - 1].at:#06x}"
        rows.append(_row(title, _alone(range(start, end), inner), code))
    return Text("\n".join([*rows, *waited(sass)]))


def read(sass: str) -> tuple[list[Instruction], dict[str, int]]:
    """Return the instructions of SASS, and where its labels are among them."""
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for found in _LINE.finditer(sass):
        if found["label"]:
            labels[found["label"]] = len(code)
            continue
        target = _TARGET.search(found["rest"]) if found["name"].startswith("BRA") else None
        at, name, rest = int(found["at"], 16), found["name"], found["rest"]
        code.append(Instruction(at, name, rest, target[1] if target else ""))
    return code, labels


def _is_padding(code: list[Instruction], i: int) -> bool:
    """Return whether a branch to itself ends the code: it is never reached."""
    return all(x.name in ("BRA", "NOP") for x in code[i:])


def _alone(places: range, loops: set[tuple[int, int]]) -> list[int]:
    return [i for i in places if not any(start <= i < end for start, end in loops)]


def _row(title: str, places: list[int], code: list[Instruction]) -> str:
    names = [code[i].name for i in places if code[i].name != "NOP"]
    kinds = Counter(map(kind_of, names))
    parts = []
    for kind in (*KINDS, "arithmetic"):
        words = Counter(name for name in names if kind_of(name) == kind)
        listed = ", ".join(f"{n} {word}" for word, n in sorted(words.items()))
        parts += [f"{kinds[kind]} {kind} ({listed})"] if words else []
    return f"{title}: {len(names)} instructions: {'; '.join(parts)}"
