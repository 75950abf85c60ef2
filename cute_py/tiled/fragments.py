"""A thread's part of an operand: a slice, registers, or descriptors of shared memory."""

from __future__ import annotations

from cute_py.atoms.gmma import gmma_fragment
from cute_py.errors import LayoutError, UndecidedError, refusal
from cute_py.integers import ints
from cute_py.layout import Mapped, tuples
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.layout import Layout
from cute_py.layout.modes import slice_and_offset
from cute_py.layout.tuples import _, show
from cute_py.tensor.tensor import Tensor, derived, make_fragment_like, make_rmem_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.atoms.mma import MMA_Atom
    from cute_py.dtypes.table import Dtype
    from cute_py.layout.types import Alike, AnyLayout, IntTuple


def on_layout(change: Callable[[AnyLayout], AnyLayout], x: AnyLayout) -> Alike:
    """Apply `change` to a layout, or to the layout of a tensor."""
    return x.with_layout(change(x.layout)) if isinstance(x, Tensor) else change(x)


def part_at(coord: IntTuple, x: AnyLayout) -> Alike:
    """Return the modes that `coord` leaves free: a tensor, or (layout, offset) for a layout."""
    return x[coord] if isinstance(x, Tensor) else slice_and_offset(coord, x)


def whole(rank: int) -> IntTuple:
    """Return the coordinate that leaves all of `rank` modes free: `_` itself for one mode, as
    CuTe's repeat<1>.
    """
    return (_,) * rank if rank > 1 else _


def checked_mode(mode: object, extents: tuple[int, ...], operation: str) -> int:
    """Return the index of a mode of a tile; refuse one that it does not have."""
    index = ints.as_int(ints.normalize(mode, operation), operation)
    if not 0 <= index < len(extents):
        raise refusal(
            "mode-range",
            operation=operation,
            mode=mode,
            layout=f"the tile {show(extents)}",
            rank=len(extents),
            last=len(extents) - 1,
        )
    return index


def make_fragment(atom: MMA_Atom, operand: str, part: AnyLayout) -> Alike:
    """Return the fragment for a part of operand "A", "B" or "C": for a tensor, a tensor of
    registers; for a layout or (layout, offset), their layout; for an operand that the atom reads
    from shared memory, descriptors.
    """
    layout, dtype = layout_of(part, f"make_fragment_{operand}"), _dtype(atom, operand)
    if operand != "C" and getattr(atom, f"{operand.lower()}_memory") == "smem":
        return _descriptors(atom, operand, part, layout)
    unordered = operand == "C" or _is_in_coordinates(layout)
    try:
        compact = Layout(layout.shape) if unordered else make_fragment_like(layout)
    except UndecidedError as error:
        facts = {**error.facts, "operation": f"make_fragment_{operand}"}
        raise refusal(error.code, **facts) from None  # type: ignore[arg-type]
    if not isinstance(part, Tensor):
        return compact
    held = make_rmem_tensor(compact, dtype)
    return derived(held.engine.as_fragment(operand), held.layout)


def holds(held: Dtype, wanted: Dtype) -> bool:
    """Return whether an instruction on `wanted` accepts elements of `held`: the same type, f32 for
    tf32, or the bits of a floating-point number as an unsigned word.

    >>> from cute_py.dtypes import dtype
    >>> holds(dtype("u8"), dtype("e4m3")), holds(dtype("bf16"), dtype("f16"))
    (True, False)
    """
    if held is wanted or (held.name, wanted.name) == ("f32", "tf32"):
        return True
    return held.bits == wanted.bits and held.kind == "uint" and wanted.kind == "float"


def layout_of(part: Alike, operation: str) -> Alike:
    """Return the layout of a part: a tensor, (layout, offset) or (descriptor, layout)."""
    if part.__class__ is tuple and len(part) == 2:
        part = part[1] if isinstance(part[1], Mapped) else part[0]
    layout = part.layout if isinstance(part, Tensor) else part
    if not isinstance(layout, Mapped):
        raise refusal("not-a-layout", operation=operation, value=part)
    return layout


def _is_in_coordinates(layout: AnyLayout) -> bool:
    """Return whether strides are basis elements, as for arrays in a kernel: these have no order."""
    plain = layout.__class__ is Layout
    return plain and any(x.__class__ is ScaledBasis for x in tuples.leaves(layout.stride))


def _dtype(atom: MMA_Atom, operand: str) -> Dtype:
    dtype: Dtype = getattr(atom, f"{operand.lower()}_type")
    return dtype


def _descriptors(atom: MMA_Atom, operand: str, part: AnyLayout, layout: AnyLayout) -> Alike:
    """Return `gmma_fragment`; refuse elements of another width, and name the major if that is the
    only fault.
    """
    dtype, major = _dtype(atom, operand), getattr(atom, f"major_{operand.lower()}")
    facts: Any = {"operation": f"make_fragment_{operand}", "atom": atom, "operand": operand}
    held = getattr(part, "dtype", None)
    if held is not None and not holds(held, dtype):
        raise refusal("operand-dtype", **facts, held=held, dtype=dtype)
    try:
        return gmma_fragment(layout, dtype, major)
    except LayoutError:
        other = "MN" if major == "K" else "K"
        if not _is_canonical(layout, dtype, other):
            raise
    raise refusal("operand-major", **facts, layout=layout, given=other, major=major)


def _is_canonical(layout: AnyLayout, dtype: Dtype, major: str) -> bool:
    try:
        gmma_fragment(layout, dtype, major)
    except LayoutError:
        return False
    return True
