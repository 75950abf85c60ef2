"""What a kernel prints and shows of its tensors when it is traced: `cute.print(x)`, `cute.show(x)`.

The layer `see` writes it after the trace, with the line: it knows who holds which element.
"""

from __future__ import annotations

from cute_py.atoms.copy import Copy_Atom
from cute_py.atoms.mma import MMA_Atom
from cute_py.errors import kernel_line
from cute_py.layout import Mapped
from cute_py.tiled.tiled_copy import TiledCopy
from cute_py.tiled.tiled_mma import TiledMMA
from cute_py.trace.state import tracing

KINDS = (Mapped, TiledMMA, TiledCopy, MMA_Atom, Copy_Atom)  # Mapped: layouts and tensors


def noted(how: str, values: tuple[object, ...]) -> bool:
    """Note a call, "print" or "show", for after the trace; return whether a kernel is traced."""
    trace = tracing()
    if trace is not None:
        trace.shown.append((kernel_line(), how, values))
    return trace is not None
