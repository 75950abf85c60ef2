"""`check_copy` and `check_gemm`: the checks that need all operands of a copy or a product.

A partition does not say how it will be used: coordinates, predicates and accumulators of another
type are partitioned too. So memories, types, vectors and alignment are checked at the copy or the
product.
"""

from __future__ import annotations

from cute_py.atoms.copy import Copy_Atom
from cute_py.atoms.mma import MMA_Atom
from cute_py.errors import LayoutError, refusal
from cute_py.integers import ints
from cute_py.layout import Mapped, tuples
from cute_py.layout.algebra.coalesce import coalesce
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.divide import logical_divide
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.layout import Layout
from cute_py.layout.modes import get
from cute_py.layout.offsets import offsets
from cute_py.layout.properties import is_injective
from cute_py.layout.queries import is_static, rank, size
from cute_py.tensor.engine import Pointer
from cute_py.tensor.tensor import Tensor
from cute_py.tiled.fragments import holds, layout_of
from cute_py.tiled.tiled_copy import TiledCopy
from cute_py.tiled.tiled_mma import TiledMMA
from cute_py.tiled.tiles import MEMORIES, checked_atom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from cute_py.layout.types import Alike, AnyLayout, Leaf, OffsetMap


def check_copy(copy: TiledCopy | Copy_Atom, src: AnyLayout, dst: AnyLayout) -> None:
    """Refuse a copy of one thread's partitions that the instruction cannot make.

    Args:
        copy: a TiledCopy; or a Copy_Atom, which is not checked for several writers.
        src: (CPY,CPY_M,...) of the source: a tensor, or (layout, offset) of a layout in memory.
        dst: the same of the destination.

    Law: nothing is raised if every access of the thread moves contiguous and aligned values between
    the instruction's memories, as many as arrive. A named memory and a host array count as aligned
    at their origin. Raises LayoutError and DtypeError; UndecidedError, with the assumption that
    would decide it, if alignment depends on a symbol.

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
        if needed != "rmem" and _space(x) not in ("rmem", "coordinates") and not atom.op.adapts:
            require_vectors(atom, side, _layout(x), _origin(x), count)


# -- the operands


def _layout(x: Alike) -> Alike:
    if x.__class__ is tuple and len(x) == 2:
        x = x[0]
    layout = x.layout if isinstance(x, Tensor) else x
    if not isinstance(layout, Mapped):
        raise refusal("not-a-layout", operation="copy", value=x)
    return layout


def _space(x: Alike) -> str | None:
    """Return the memory of a tensor, None for a layout. Host arrays count as global memory."""
    space = getattr(x, "space", None)
    return "gmem" if space == "host" else space


def _origin(x: Alike) -> Leaf:
    """Return the origin of a partition (elements from an aligned address)."""
    if not isinstance(x, Tensor):
        return x[1] if x.__class__ is tuple else 0
    engine = x.engine
    if not isinstance(engine, Pointer) or ints.is_zero(engine.base):
        return engine.offset
    return ints.div(engine.bit_address, engine.dtype.bits)


# -- the requirements


def _require_memory(atom: Copy_Atom, side: str, space: str | None, needed: str) -> None:
    if space is not None and needed != "any" and space != needed:
        raise refusal(
            "copy-memory", operation="copy", atom=atom, side=side, space=space, needed=needed
        )


def _require_width(atom: Copy_Atom, side: str, x: AnyLayout) -> None:
    """Refuse elements of another width, unless the copy goes element by element and converts."""
    held = getattr(x, "dtype", None)
    if held is not None and held.bits != atom.dtype.bits and not atom.op.adapts:
        bits = atom.dtype.bits
        raise refusal("copy-dtype", operation="copy", atom=atom, side=side, dtype=held, bits=bits)


def _require_parts(atom: Copy_Atom, src: AnyLayout, dst: AnyLayout) -> None:
    """Refuse partitions of different modes, and values that are not whole accesses."""
    num_src, num_dst = atom.num_val_src, atom.num_val_dst
    accesses, rest = divmod(ints.as_int(size(src, 0), "copy"), num_src)
    arriving = ints.as_int(size(dst, 0), "copy")
    modes = [tuples.product_each(x.shape)[1:] if rank(x) > 1 else () for x in (src, dst)]
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


# -- products


def check_gemm(mma: TiledMMA | MMA_Atom, a: AnyLayout, b: AnyLayout, *c: AnyLayout) -> None:
    """Refuse fragments of one thread that the instruction cannot multiply.

    Args:
        mma: a TiledMMA or its atom.
        a: (V,M,K), or (V,M) for one K, or (V): a tensor, a layout, or the result of
            `make_fragment_A`.
        b: (V,N,K), in the same forms.
        c: (V,M,N) of the accumulator; or D and C, if they differ.

    Law: nothing is raised if V are the values of a thread for the instruction, if M, N and K agree,
    and if the elements have its types. Raises LayoutError and DtypeError.

    >>> from cute_py.layout.layout import Layout
    >>> from cute_py.tiled.tiled_mma import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1))
    >>> thr = mma.get_slice(0)
    >>> a, b, c = Layout((64, 32)), Layout((32, 32)), Layout((64, 32))
    >>> rA, rB = thr.partition_fragment_A(a), thr.partition_fragment_B(b)
    >>> check_gemm(mma, rA, rB, thr.partition_fragment_C(c))
    """
    atom = mma.atom if mma.__class__ is TiledMMA else mma
    if atom.__class__ is not MMA_Atom:
        raise refusal("mma-atom", operation="gemm", value=mma)
    named = [("A", a), ("B", b), *[("C", x) for x in c]]
    for operand, x in named:
        _require_type(atom, operand, x)
    for x in c:
        _require_shapes(atom, layout_of(a, "gemm"), layout_of(b, "gemm"), layout_of(x, "gemm"))


def _require_type(atom: MMA_Atom, operand: str, x: AnyLayout) -> None:
    held, wanted = getattr(x, "dtype", None), getattr(atom, f"{operand.lower()}_type")
    if held is not None and not holds(held, wanted):
        raise refusal(
            "operand-dtype", operation="gemm", atom=atom, operand=operand, held=held, dtype=wanted
        )


def _require_shapes(atom: MMA_Atom, a: AnyLayout, b: AnyLayout, c: AnyLayout) -> None:
    values = tuple([_values(atom, operand) for operand in "CAB"])
    modes = [_modes(x) for x in (c, a, b)]
    fits = all(len(extents) == 3 for extents in modes)
    if fits:
        (vc, cm, cn), (va, am, ak), (vb, bn, bk) = modes
        pairs = ((cm, am), (cn, bn), (ak, bk))
        fits = (vc, va, vb) == values and all(
            ints.settle(ints.same, x, y, "gemm") for x, y in pairs
        )
    if not fits:
        raise refusal(
            "operand-shape",
            operation="gemm",
            atom=atom,
            c=c,
            a=a,
            b=b,
            values=", ".join(map(str, values)),
        )


def _values(atom: MMA_Atom, operand: str) -> int:
    """Return the mode V of a fragment: values of a thread, or one descriptor."""
    if getattr(atom, f"{operand.lower()}_memory") == "smem":
        return 1
    return int(size(getattr(atom, f"{operand.lower()}_tv"), 1))


def _modes(x: AnyLayout) -> tuple[Leaf, ...]:
    """Return the extents (V,M,K) of a fragment, 1 for a missing mode."""
    extents: tuple[Leaf, ...] = tuples.wrap(tuples.product_each(x.shape))
    return (*extents, *(1,) * (3 - len(extents)))


# -- whether accesses are vectors: contiguous values that start aligned

_OTHER_RULES = ("SM90_BULK", "SM90_TMA", "SM100_TMEM")  # no per-lane address


def require_vectors(atom: Copy_Atom, side: str, layout: Alike, origin: Leaf, count: int) -> None:
    """Refuse a partition whose accesses are not contiguous in memory, or start misaligned.

    Args:
        atom: the Copy_Atom.
        side: "source" or "destination", for the refusal.
        layout: (CPY,CPY_M,...) of that side.
        origin: the origin of the partition (elements from an aligned address).
        count: values of one access.

    Law: nothing is raised exactly if every run of `count` values of the partition is start,
    start + 1, ... with an aligned start. Raises UndecidedError if that depends on a symbol.
    """
    if atom.op.name.startswith(_OTHER_RULES):
        return
    check = _by_offsets if is_static(layout) and ints.is_static(origin) else _by_strides
    check(_Access(atom, side, layout, count), layout, origin)


class _Access:
    """The requirements for an access, and the two refusals."""

    __slots__ = ("align", "atom", "count", "layout", "side")

    def __init__(self, atom: Copy_Atom, side: str, layout: Alike, count: int) -> None:
        self.atom, self.side, self.layout, self.count = atom, side, layout, count
        self.align = max(1, atom.op.alignment_bits // atom.dtype.bits)

    def apart(self, value: int, step: Leaf) -> NoReturn:
        raise refusal(
            "copy-vector",
            operation="copy",
            atom=self.atom,
            side=self.side,
            layout=self.layout,
            count=self.count,
            value=value,
            step=step,
        )

    def misaligned(self, start: Leaf) -> NoReturn:
        raise refusal(
            "copy-aligned",
            operation="copy",
            atom=self.atom,
            side=self.side,
            layout=self.layout,
            start=start,
            count=self.align,
            bits=self.atom.op.alignment_bits,
        )


def _by_offsets(access: _Access, layout: Alike, origin: Leaf) -> None:
    """Check every offset."""
    import numpy as np

    runs = offsets(layout).reshape(-1, access.count) + ints.as_int(origin, "copy")
    steps = runs - runs[:, :1]
    wrong = np.argwhere(steps != np.arange(access.count))
    if len(wrong):
        run, value = (int(i) for i in wrong[0])
        access.apart(value, int(steps[run, value]))
    late = runs[runs[:, 0] % access.align != 0, 0]
    if len(late):
        access.misaligned(int(late[0]))


def _by_strides(access: _Access, layout: Alike, origin: Leaf) -> None:
    """Check the strides: accesses are vectors if values have stride 1 and all other strides are
    multiples of the alignment.
    """
    if layout.__class__ is not Layout:
        _require_kept(access, layout.outer)
        _by_strides(access, layout.inner, layout.offset)
        _require_aligned(access, origin)
        return
    values, count = coalesce(get(layout, 0)), access.count
    run = _run(values, count)
    if count > 1 and run != Layout(count):
        access.apart(1, values(1))
    rests = [get(logical_divide(values, count), 1)] if count < size(values) else []
    rests += [get(layout, k) for k in range(1, len(layout))]
    for rest in rests:
        for extent, stride in zip(rest._s, rest._d, strict=True):
            if extent != 1:
                _require_aligned(access, stride)
    _require_aligned(access, origin)


def _run(values: Layout, count: int) -> Layout | None:
    try:
        run: Layout = coalesce(composition(values, Layout(count)))
    except LayoutError:
        return None
    return run


def _require_aligned(access: _Access, start: Leaf) -> None:
    if not ints.settle(ints.divides, access.align, start, "copy"):
        access.misaligned(start)


def _require_kept(access: _Access, outer: OffsetMap) -> None:
    """Refuse a swizzle that is not known to keep the values of an access together."""
    together = max(access.count, access.align)
    if outer.__class__ is not Swizzle or together > 1 << outer.num_base:
        keeps = f"{outer} keeps {together} elements together"
        ints.require(None, "copy", keeps, f"Swizzle(B, {(together - 1).bit_length()}, S)")
