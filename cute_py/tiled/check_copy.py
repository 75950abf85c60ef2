"""`check_copy`: what can only be known once source and destination of a copy stand side by side.

A partition says nothing of what is done with it: coordinates, predicates and accumulators of
another type are partitioned too. So memories, types, vectors and alignment are checked where the
copy is made.
"""

from __future__ import annotations

from cute_py.atoms.copy import Copy_Atom
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import Mapped, tuples
from cute_py.layout.queries import size
from cute_py.layout.tools import is_injective
from cute_py.tensor.engine import Pointer
from cute_py.tensor.tensor import Tensor
from cute_py.tiled.copy_maps import MEMORIES, checked_atom
from cute_py.tiled.tiled_copy import TiledCopy
from cute_py.tiled.vectors import require_vectors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.types import Alike, AnyLayout, Leaf


def check_copy(copy: TiledCopy | Copy_Atom, src: AnyLayout, dst: AnyLayout) -> None:
    """Refuse a copy of one thread's partitions that the instruction cannot make.

    Args:
        copy: a TiledCopy; or a Copy_Atom, for which several writers are not looked for.
        src: (CPY,CPY_M,...) of the source: a tensor, or (layout, offset) of a layout in memory.
        dst: the same of the destination.

    Law: nothing is raised where every access of the thread moves values that lie side by side and
    aligned, from and to the instruction's memories, as many as arrive. A named memory and a host
    array count as aligned at their origin. Raises LayoutError and DtypeError; UndecidedError, with
    the assumption that would settle it, where alignment depends on a symbol.

    >>> from cute_py.layout.layout import Layout
    >>> from cute_py.tiled.tiled_copy import make_tiled_copy
    >>> rows = make_tiled_copy(Copy_Atom("UniversalCopy<64>", 16), Layout((8, 4), (4, 1)), (1, 4))
    >>> part = rows.get_slice(5).partition_S(Layout((8, 16), (16, 1)))
    >>> check_copy(rows, part, part)
    """
    atom = copy.atom if copy.__class__ is TiledCopy else checked_atom(copy, "copy")
    sides = (("source", src), ("destination", dst))
    spaces = (atom.op.src_space, atom.op.dst_space)
    for (side, x), needed in zip(sides, spaces, strict=True):
        _require_memory(atom, side, _space(x), needed)
        _require_width(atom, side, x)
    _require_parts(atom, _layout(src), _layout(dst))
    if copy.__class__ is TiledCopy and _space(dst) in MEMORIES and not is_injective(copy.layout_tv):
        raise refusal("copy-writers", operation="copy", atom=atom, tv=copy.layout_tv)
    counts = (atom.num_val_src, atom.num_val_dst)
    for (side, x), needed, count in zip(sides, spaces, counts, strict=True):
        if needed != "rmem" and _space(x) not in ("rmem", "coordinates") and not _adapts(atom):
            require_vectors(atom, side, _layout(x), _origin(x), count)


# -- what is given


def _layout(x: Alike) -> Alike:
    if x.__class__ is tuple and len(x) == 2:
        x = x[0]
    layout = x.layout if isinstance(x, Tensor) else x
    if not isinstance(layout, Mapped):
        raise refusal("not-a-layout", operation="copy", value=x, type=type(x).__name__)
    return layout


def _space(x: Alike) -> str | None:
    """Return the memory of a tensor; None of a layout. Host arrays stand for global memory."""
    space = getattr(x, "space", None)
    return "gmem" if space == "host" else space


def _origin(x: Alike) -> Leaf:
    """Return where a partition begins (elements from an aligned place)."""
    if not isinstance(x, Tensor):
        return x[1] if x.__class__ is tuple else 0
    engine = x.engine
    if not isinstance(engine, Pointer) or ints.is_zero(engine.base):
        return engine.offset
    return ints.div(engine.bit_address, engine.dtype.bits)


def _adapts(atom: Copy_Atom) -> bool:
    """Return whether the copy chooses its width from the tensors (auto-vectorising)."""
    return bool(atom.op.src_tv.stride == (0, 0))


# -- what is required


def _require_memory(atom: Copy_Atom, side: str, space: str | None, needed: str) -> None:
    if space is not None and needed != "any" and space != needed:
        raise refusal(
            "copy-memory", operation="copy", atom=atom, side=side, space=space, needed=needed
        )


def _require_width(atom: Copy_Atom, side: str, x: AnyLayout) -> None:
    """Refuse elements of another width, but where the copy goes element by element and converts."""
    held = getattr(x, "dtype", None)
    if held is not None and held.bits != atom.dtype.bits and not _adapts(atom):
        bits = atom.dtype.bits
        raise refusal("copy-dtype", operation="copy", atom=atom, side=side, dtype=held, bits=bits)


def _require_parts(atom: Copy_Atom, src: AnyLayout, dst: AnyLayout) -> None:
    """Refuse partitions of different modes, and values that are no whole accesses."""
    num_src, num_dst = atom.num_val_src, atom.num_val_dst
    accesses, rest = divmod(ints.as_int(size(src, 0), "copy"), num_src)
    arriving = ints.as_int(size(dst, 0), "copy")
    modes = [tuples.product_each(x.shape)[1:] if len(x) > 1 else () for x in (src, dst)]
    same = len(modes[0]) == len(modes[1]) and all(
        ints.settle(ints.same, a, b, "copy") for a, b in zip(*modes, strict=True)
    )
    if rest or accesses * num_dst != arriving or not same:
        raise refusal(
            "copy-parts",
            operation="copy",
            atom=atom,
            src=src,
            dst=dst,
            num_src=num_src,
            num_dst=num_dst,
        )
