"""`check_gemm`: what can only be known once the fragments of D, A, B and C stand side by side."""

from __future__ import annotations

from cute_py.atoms.mma import MMA_Atom
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import tuples
from cute_py.layout.queries import size
from cute_py.tiled.fragments import holds, layout_of
from cute_py.tiled.tiled_mma import TiledMMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.types import AnyLayout, Leaf


def check_gemm(mma: TiledMMA | MMA_Atom, a: AnyLayout, b: AnyLayout, *c: AnyLayout) -> None:
    """Refuse fragments of one thread that the instruction cannot multiply.

    Args:
        mma: a TiledMMA or its atom.
        a: (V,M,K), or (V,M) for one K, or (V): a tensor, a layout, or what `make_fragment_A`
            returns.
        b: (V,N,K) likewise.
        c: (V,M,N) of the accumulator; D and C where they are two.

    Law: nothing is raised where V are the values that a thread gives the instruction, M, N and K
    agree, and the elements are what it computes with. Raises LayoutError and DtypeError.

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
        raise refusal("mma-atom", operation="gemm", value=mma, type=type(mma).__name__)
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
    """Return the extents (V,M,K) of a fragment, 1 for those that it does not have."""
    extents: tuple[Leaf, ...] = tuples.wrap(tuples.product_each(x.shape))
    return (*extents, *(1,) * (3 - len(extents)))
