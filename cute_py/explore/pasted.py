"""What is pasted into the explorer, as an expression: what print functions printed, tables, TikZ,
names of instructions as C++ spells them, and offsets, whose layout is searched.
"""

from __future__ import annotations

from re import DOTALL, fullmatch, sub
from typing import Any

from cute_py.atoms.copy import Copy_Atom, Copy_Op
from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.table import DTYPES
from cute_py.errors import CuteError
from cute_py.explore.operands import value_of
from cute_py.layout import Mapped, tuples
from cute_py.layout.algebra.fit import fit
from cute_py.layout.algebra.proofs import symbols_of_layout
from cute_py.layout.notation.parse import parse_layout
from cute_py.layout.notation.tables import is_table, offsets_of, require_same, table_of

_CHAR = {f"{sign}char": 8 for sign in ("", "signed", "unsigned")}
# the types of C++ by their names, without namespaces and spaces -> bits
_WIDTHS = {row.cutlass_name: row.bits for row in DTYPES} | _CHAR | {"int": 32, "uint1b_t": 1}


def pasted(text: str, offsets: bool = False) -> str:
    """Return the expression that a text stands for.

    Args:
        text: a layout or a table as CuTe or this library print it, TikZ of `print_latex` or
            `to_latex`, the name of an instruction, offsets; or an expression, which stays as it is.
        offsets: whether numbers in parentheses, such as (0,4), are offsets, too, and no shape.

    Law: it has the value of what was printed; for offsets and tables without a title, that of
    `fit`. Raises what `fit` raises where no layout has them.

    >>> pasted("tCsA : Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)")
    'Sw<3,3,3> o 0 o (8,64):(64,1)'
    >>> pasted("MMA_Atom<cute::SM80_16x8x8_F32F16F16F32_TN>"), pasted("0 4 1 5")
    ('mma(SM80_16x8x8_F32F16F16F32_TN)', '(2,2):(4,1)')
    """
    if is_table(text):
        return _of_table(text)
    text = text.strip()
    if offsets:
        return str(fit(text))
    label = fullmatch(r"\w+ *[:=]\s+(.+)", text, DOTALL)
    for read in (_layout, _instruction, _unless_offsets):
        for part in (text, label[1]) if label else (text,):
            try:
                return read(part)
            except CuteError:
                continue
    try:
        offsets_of(text)
    except CuteError:
        return text
    return str(fit(text))


def _layout(text: str) -> str:
    """Return a layout as this library prints it, with the symbols of its text."""
    found = parse_layout(text)
    return text if isinstance(found, Mapped) and symbols_of_layout(found) else str(found)


def _unless_offsets(text: str) -> str:
    """Return an expression as it is; raise CuteError for a tuple of offsets."""
    value = value_of(text)
    if value.__class__ is tuple and (text[0] == "[" or 0 in tuples.leaves(value)):
        return str(fit(text))  # a list, or what is no shape
    return text


def _instruction(text: str) -> str:
    """Return the call that draws an instruction; raise CuteError if the text is none."""
    bare = sub(r"\b(?:struct|class)\s|\w+::|\s|\{\}", "", text)
    bare = sub(r"(?<=<)u?int(\d+)_t\b(?=>)", r"\1", bare)  # the vector of a copy
    held = fullmatch(r"(?:MMA|Copy)_(?:Atom|Traits)<(.+?)(?:,(\w+))?>", bare)
    name, kind = held.groups() if held else (bare, None)
    value = value_of(name)
    if isinstance(value, MMA_Atom):
        return f"mma({name})"
    if not isinstance(value, Copy_Op) or kind not in (None, *_WIDTHS):
        return _unless_offsets(text)
    width = _WIDTHS[kind] if kind else 0
    return f"copy({name},bits={width})" if width else f"copy({copy_operands(value)})"


def copy_operands(op: Copy_Op) -> str:
    """Return the instruction, with the width of its values where that is not 16 bits."""
    for bits in (16, 8, 32, 64, 128, 4, 6):
        try:
            Copy_Atom(op, bits)
        except CuteError:
            continue
        return str(op) if bits == 16 else f"{op},bits={bits}"
    return str(op)


def _of_table(text: str) -> str:
    """Return the layout above a table, else the one that has its offsets; or its threads and values
    over tiles.
    """
    title, grids = table_of(text)
    title = title.partition(": each cell")[0]
    if tile := fullmatch(r"(.+) over (.+)", title):
        return f"tv({tile[1]},{tile[2]})"
    if title:
        require_same(parse_layout(title), text)
        return _layout(title)
    if not all(x.__class__ is tuple for grid in grids for x in grid.values()):
        return str(fit(text))
    found = [_held(grid) for grid in grids]
    return found[0] if len(found) == 1 else f"({','.join(found)})"


def _held(grid: dict[Any, Any]) -> str:
    """Return the thread-value layout of the cells of a tile."""
    rows, columns = (1 + max(each) for each in zip(*grid, strict=True))
    layout = fit({held: m + n * rows for (m, n), held in grid.items()})
    return f"tv({layout},({rows},{columns}))"
