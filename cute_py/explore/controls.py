"""What the controls of the explorer offer: presets, names to complete, atoms and tilings."""

from __future__ import annotations

from inspect import getdoc
from re import split

import cute_py
from cute_py import expression
from cute_py.atoms.search import listed
from cute_py.errors import refusal
from cute_py.explore.answers import FORMS, answer, error_of
from cute_py.explore.pasted import copy_operands
from cute_py.explore.patterns import PATTERNS
from cute_py.explore.states import ENTRIES, PLAIN, WIDEST
from cute_py.expression import CONSTANTS, functions
from cute_py.viz.build import BY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


LIMIT = 2000  # milliseconds that a page waits for an answer
ATOM = "SM80_16x8x16_F32BF16BF16F32_TN"

# Tabs of presets. The second has the tabs of CuTe-Layout-Visualizer, the third the views of
# linear-layout-viz, where a selection in one layout lights up in the others of a chain.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "start here": {
        "layout": {"e": "((2,4),8):((1,16),2)"},
        "swizzle": {"e": "composition(Sw<3,0,3>,(8,8):(8,1))", "by": "bank"},
        "bank conflicts": {"e": "composition(Sw<3,2,3>,(8,32):(32,1))", "by": "bank", "bits": 32},
        "MMA": {"e": f"mma({ATOM})", "sel": "T5"},
        "TiledMMA": {"e": f"mma({ATOM},(2,2,1))"},
        "TiledCopy": {"e": "copy(UniversalCopy<128>,(16,2):(2,1),(1,8),bits=16)"},
        "access replay": {
            "e": "bank_conflicts(copy(UniversalCopy<32>,(8,1),(1,1),bits=32),(8,1):(32,1))",
        },
        "solver": {
            "e": "suggest_smem_layout((32,16),16,1,copy(UniversalCopy<16>,(32,1),(1,1),bits=16))",
            "by": "bank",
        },
        "a refusal": {"e": "composition((6,2):(1,7),(3,2):(2,3))"},
    },
    "operations": {
        "layout": {"e": "(4,(2,4)):(2,(1,8))"},
        "TV": {"e": "tv(((4,8),2):((16,1),8),(8,8))"},
        "swizzle": {"e": "Sw<2,1,3>"},
        "composition": {"e": "composition((6,2):(8,2),(4,3):(3,1))"},
        "complement": {"e": "complement((2,2):(1,6),24)"},
        "logical divide": {"e": "logical_divide((8,8):(8,1),(4:1,4:2))"},
        "zipped divide": {"e": "zipped_divide((8,8):(8,1),(4,2))", "by": "tile"},
        "tiled divide": {"e": "tiled_divide((8,8):(8,1),(4,2))"},
        "flat divide": {"e": "flat_divide((8,8):(8,1),(4,4))"},
        "logical product": {"e": "logical_product((2,2):(1,2),(3,4):(4,1))"},
        "blocked product": {"e": "blocked_product((2,4):(4,1),(2,2):(2,1))", "by": "tile"},
        "raked product": {"e": "raked_product((2,4):(4,1),(2,2):(2,1))"},
        "right inverse": {"e": "right_inverse((4,(2,4)):(2,(1,8)))"},
        "left inverse": {"e": "left_inverse((4,2):(1,8))"},
        "coalesce": {"e": "coalesce((2,(1,6)):(1,(6,2)))"},
        "zipped product": {"e": "zipped_product((2,2):(1,2),(3,4):(4,1))"},
        "tiled product": {"e": "tiled_product((2,2):(1,2),(3,4):(4,1))"},
        "flat product": {"e": "flat_product((2,2):(1,2),6:1)"},
        "copy": {"e": "copy(UniversalCopy<128>,(8,4):(4,1),(1,8),bits=16)", "by": "value"},
    },
    "linear layouts": {
        "a chain": {"e": "composition((8,4):(4,1),(4,8):(8,1))", "sel": "O5"},
        "inverse": {"e": "right_inverse((4,8):(8,1))"},
        "invert and compose": {"e": "composition(right_inverse((4,8):(8,1)),(4,8):(1,4))"},
        "before and after a swizzle": {
            "e": "composition(Sw<3,0,3>,(8,8):(8,1))",
            "by": "bank",
            "bits": 32,
        },
        "distributed": {"e": "tv(((4,8),(2,2)):((32,1),(16,8)),(16,8))", "sel": "T5"},
        "A, B and C": {"e": f"mma({ATOM},(1,2,1))", "by": "value", "sel": "T5"},
        "bit matrix": {"e": "(to_f2((4,8):(8,1)),F2Map((8,16,1,2,4)))"},
        "from bases": {"e": "F2Layout((4,8),(9,18,1,2,4))"},
        "a slice": {"e": "slice_((_,_,1),(4,8,2):(8,1,32))"},
        "other axes": {"e": "group_modes(select((4,8,2):(16,2,1),(2,0,1)),0,2)"},
    },
}
TILINGS = {
    "mma": ["(1,2,1)", "(2,1,1)", "(2,2,1)", "(4,1,1)", "(2,4,1)", "(4,2,1)"],
    "copy": ["(32,1),(1,1)", "(8,4):(4,1),(1,8)", "(16,2):(2,1),(1,8)", "(32,4):(4,1),(1,8)"],
}


def controls() -> dict[str, Any]:
    """Return the data of the front end, as JSON; the presets have their answers.

    >>> sorted(controls())[:4]
    ['atoms', 'by', 'entries', 'failed']
    """
    return {
        "plain": PLAIN,
        "presets": [
            {"tab": tab, "name": name, "state": state, "answer": _shown(answer({**PLAIN, **state}))}
            for tab, presets in PRESETS.items()
            for name, state in presets.items()
        ]
        + [
            {"tab": "patterns", "name": name, "state": state}
            for name, (state, _) in PATTERNS.items()
        ],
        "names": sorted([*functions(), *CONSTANTS]),
        "notation": _notation(),
        "functions": [[name, _does(name)] for name in functions()],
        "version": f"cute_py {cute_py.__version__}",
        "entries": list(ENTRIES),
        "widest": WIDEST,
        "atoms": _atoms(),
        "tilings": TILINGS,
        "by": list(BY),
        "forms": {form: title for form, (title, _) in FORMS.items()},
        "limit": LIMIT,
        "slow": error_of(refusal("explore-slow", operation="explore", seconds=LIMIT // 1000)),
        "failed": error_of(refusal("explore-limit", operation="explore", reason="failure")),
        "warm": [{**PLAIN, "e": e} for e in WARM],
    }


# where the language has its own function, what does it in Python
_LIKE = {
    "Copy_Atom": cute_py.Copy_Atom,
    "bank_conflicts": cute_py.analysis.bank_conflicts,
    "copy": cute_py.make_tiled_copy,
    "mma": cute_py.make_tiled_mma,
    "tv": cute_py.viz.picture_tv,
}


def _does(name: str) -> str:
    """Return what a function does, in a sentence."""
    text = getdoc(_LIKE.get(name) or getattr(cute_py, name)) or ""
    return " ".join(text.split("\n\n")[0].split())


def _notation() -> list[list[str]]:
    """Return examples of the notation and what they are, from the page of the language."""
    lines = (expression.__doc__ or "").splitlines()
    rows = [split(r" {3,}", line.strip()) for line in lines if line.startswith("    ")]
    return [[row[0], row[-1]] for row in rows if "..." not in row[0]]


def _shown(found: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without the scene that its operands have, too."""
    return {**found, "scene": None} if found.get("operands") else found


# what the worker imports before it is ready
WARM = (
    "composition((4,8):(8,1),(2,2):(1,2))",
    "composition((6,2):(1,7),(3,2):(2,3))",
    "mma(SM61_DP4A)",
)


def _atoms() -> dict[str, dict[str, list[str]]]:
    """Return the first operands of `mma` and `copy`, by the architecture that brought them."""
    found: dict[str, dict[str, list[str]]] = {}
    both: tuple[Any, Any] = listed()
    for kind, rows in zip(("mma", "copy"), both, strict=True):
        for row in rows:
            of_arch = found.setdefault(row.min_arch, {"mma": [], "copy": []})
            of_arch[kind].append(str(row) if kind == "mma" else copy_operands(row))
    return dict(sorted(found.items(), key=lambda item: (len(item[0].rstrip("af")), item[0])))
