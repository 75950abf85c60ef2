"""The loops of machine code: the instructions of one iteration, counted by kind."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from cute_py.records import Text

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
_LINE = re.compile(
    r"^\s*(?P<label>\.L_x_\d+):|/\*(?P<at>[0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?"
    r"(?P<name>[A-Z]\w*)(?P<rest>[^;]*);",
    re.MULTILINE,
)
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")


@dataclass(frozen=True)
class _Instruction:
    at: int
    name: str
    target: str


def kind_of(name: str) -> str:
    """Return the kind of an instruction of SASS; what is none of the table is arithmetic.

    >>> kind_of("LDGSTS"), kind_of("LDC"), kind_of("FFMA")
    ('copies', 'constants', 'arithmetic')
    """
    return next((kind for first, kind in _BY_LENGTH if name.startswith(first)), "arithmetic")


def explained(sass: str) -> Text:
    """Return a line for the code outside of loops and one for each loop of SASS: a loop is what a
    branch back encloses, without the loops inside of it.
    """
    code, labels = _read(sass)
    loops = set[tuple[int, int]]()
    for i, x in enumerate(code):
        start = labels.get(x.target, len(code))
        if start < i or (start == i and not _is_padding(code, i)):
            loops.add((start, i + 1))
    rows = [_row("outside of loops", _alone(range(len(code)), loops), code)]
    for start, end in sorted(loops, key=lambda x: (x[0], -x[1])):
        inner = {x for x in loops if start <= x[0] and x[1] <= end and x != (start, end)}
        title = f"loop at {code[start].at:#06x} to {code[end - 1].at:#06x}"
        rows.append(_row(title, _alone(range(start, end), inner), code))
    return Text("\n".join(rows))


def _read(sass: str) -> tuple[list[_Instruction], dict[str, int]]:
    code: list[_Instruction] = []
    labels: dict[str, int] = {}
    for found in _LINE.finditer(sass):
        if found["label"]:
            labels[found["label"]] = len(code)
            continue
        target = _TARGET.search(found["rest"]) if found["name"].startswith("BRA") else None
        code.append(_Instruction(int(found["at"], 16), found["name"], target[1] if target else ""))
    return code, labels


def _is_padding(code: list[_Instruction], i: int) -> bool:
    """Return whether a branch to itself ends the code: it is never reached."""
    return all(x.name in ("BRA", "NOP") for x in code[i:])


def _alone(places: range, loops: set[tuple[int, int]]) -> list[int]:
    return [i for i in places if not any(start <= i < end for start, end in loops)]


def _row(title: str, places: list[int], code: list[_Instruction]) -> str:
    names = [code[i].name for i in places if code[i].name != "NOP"]
    kinds = Counter(map(kind_of, names))
    parts = []
    for kind in (*KINDS, "arithmetic"):
        words = Counter(name for name in names if kind_of(name) == kind)
        listed = ", ".join(f"{n} {word}" for word, n in sorted(words.items()))
        parts += [f"{kinds[kind]} {kind} ({listed})"] if words else []
    return f"{title}: {len(names)} instructions: {'; '.join(parts)}"
