"""Wordings: architectures and matrix instructions."""

from __future__ import annotations

from cute_py.errors import LayoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "arch-name": (
        LayoutError,
        "architecture {arch!r}",
        "sm_ and a number, such as sm_80 or sm_90a",
        "compute capability 9.0 is sm_90, its own features are sm_90a",
    ),
    "atom-unknown": (
        LayoutError,
        "{name}",
        "the name of an atom, spelled as in CuTe",
        "{hint}",
    ),
    "atom-parameters": (
        LayoutError,
        "{given}",
        "template parameters of the atom: {parameters}",
        "pass them in this order or by name, or take another atom",
    ),
    "atom-argument": (
        LayoutError,
        "{parameter}={value}",
        "{parameter} of {allowed}",
        "A in registers is K-major, as are all inputs but 16-bit ones; a scale is a sign; "
        "spsel says which lanes give metadata",
    ),
    "atom-no-ptx": (
        LayoutError,
        "{atom}, which has no PTX text",
        "an atom with an instruction of its own",
        "UniversalFMA is arithmetic; rows that are not runnable are data",
    ),
    "atom-operand": (
        LayoutError,
        "{given} registers for an operand of {count}",
        "{count} registers of type {ptx_type}",
        "pass one name for each register, as MMA_Atom.registers counts them",
    ),
}
