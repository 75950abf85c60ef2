"""What ptxas says of a kernel, in the lines of the kernel, and what helps.

ptxas counts lines of PTX. `.loc` directives there, and the line table of a cubin, lead to lines of
the printed source, whose comments are the lines of the kernel.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_NOTED = re.compile(r"(?<=around line )\d+")
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_COMMENT = re.compile(r"  # (line \d+|\S+\.py:\d+)")
_AT = re.compile(r'^\s*//## File "[^"]*", line (\d+)|^\s*/\*([0-9a-f]{4,})\*/')
FEWER = (
    "use fewer registers in the loop of products: fewer keys or columns a tile, fewer copies of an "
    "operand, or more warpgroups"
)
# a note of ptxas, or instructions of a loop of products -> what helps
ADVICE = {
    "insufficient register resources": FEWER,
    "C7519": (
        "call cute.warpgroup_fence() right before the products of these lines, behind what writes "
        "their registers and behind waits for stages"
    ),
    "LDL": FEWER,
    "STL": FEWER,
    "CALL": "divide outside of the loop",
    "MEMBAR": "use no fence of the whole GPU in it",
    "R2UR": (
        "compute the offsets of tiles from block indices, loop variables and tid // 32, let a "
        "separate role issue the loads"
    ),
}
SERIALIZED = (
    "put only products between cute.warpgroup_fence and cute.warpgroup_commit, no division and no "
    "fence of the GPU; leave their sums alone until cute.warpgroup_wait; ask for registers that "
    "the launch leaves (see the gates in docs/write_a_gemm.md)"
)


def advice(found: str) -> str:
    """Return what helps against the notes in a log, or against instructions by their names.

    >>> advice("2 R2UR, 1 STL")[:33], advice("(C7514)") == SERIALIZED
    ('use fewer registers in the loop o', True)
    """
    known = dict.fromkeys(text for said, text in ADVICE.items() if said in found)
    others = set(re.findall(r"C7[56]\d\d", found)) - {"C7511", "C7512", "C7519"}
    return "; ".join([SERIALIZED, *known] if others or not known else known)


def in_kernel(log: str, ptx: str, source: str) -> str:
    r"""Return a log of ptxas whose lines of PTX are those of the kernel, where these are known.

    >>> in_kernel("around line 2 by", " .loc 1 1 0\n wgmma", "    x = f()  # line 7  wgmma")
    'around line 7 of the kernel by'
    """
    lines, places = ptx.splitlines(), kernel_lines(source)

    def placed(found: re.Match[str]) -> str:
        for text in reversed(lines[: int(found[0])]):
            if (loc := _LOC.match(text)) and int(loc[1]):
                place = places.get(int(loc[1]), "")
                return _of_kernel(place) or found[0]
        return found[0]

    return _NOTED.sub(placed, log)


def _of_kernel(place: str) -> str:
    return f"{place.removeprefix('line ')} of the kernel" if place else ""


def kernel_lines(source: str) -> dict[int, str]:
    """Return line of a printed source -> the place in the kernel, "line 7" or "other.py:7"."""
    found = ((i, _COMMENT.search(text)) for i, text in enumerate(source.splitlines(), 1))
    return {i: place[1] for i, place in found if place}


def addresses(lined: str, source: str) -> dict[int, str]:
    """Return address of an instruction -> its place in the kernel, of SASS with its line table."""
    places, place, found = kernel_lines(source), "", dict[int, str]()
    for text in lined.splitlines():
        if mark := _AT.match(text):
            if mark[1]:
                place = places.get(int(mark[1]), "")
            elif place:
                found[int(mark[2], 16)] = place
    return found


def listed(places: Iterable[str], most: int = 4) -> str:
    """Return places as text, " (lines 3, 7)"; "" for none.

    >>> listed(["line 7", "line 3", "line 7"]), listed([])
    (' (line 3, line 7)', '')
    """
    each = sorted(set(places), key=lambda x: (len(x), x))
    more = ["..."] if len(each) > most else []
    return f" ({', '.join([*each[:most], *more])})" if each else ""
