"""`cute.gemm`, the product of fragments by the instruction of an MMA atom."""

from __future__ import annotations

from cute_py.atoms.mma import MMA_Atom
from cute_py.errors import refusal_here
from cute_py.layout.queries import rank, size
from cute_py.plan.ops import Mma
from cute_py.tensor.tensor import Tensor
from cute_py.tiled.tiled_mma import TiledMMA
from cute_py.trace.lower import register
from cute_py.trace.state import emit, require_choice


def gemm(mma: TiledMMA | MMA_Atom, *fragments: Tensor, serpentine: str = "N") -> None:
    """Compute acc += a * b for fragments of a thread: acc (V,M,N), a (V,M) or (V,M,K), b (V,N) or
    (V,N,K).

    Args:
        mma: the tiled MMA, or an atom.
        fragments: acc, a and b. Where all were made as fragments (`make_fragment_A`, _B or _C,
            `partition_fragment_A`, ...), also in the orders of CuTe: A, B and C, as C++ has it; or
            D, A, B and C, for D = A * B + C.
        serpentine: "N" issues the instructions of each M forth and back along N, which reuses the
            fragments of a; "M" those of each N along M, which reuses the fragments of b, as
            CUTLASS does before sm_80. K is outermost.

    Raises LayoutError if shapes, memory spaces or types do not fit the
    atom, and for an order that contradicts what fragments were made for.
    """
    atom = mma.atom if isinstance(mma, TiledMMA) else mma
    if not isinstance(atom, MMA_Atom):
        raise refusal_here(
            "tiled-kind", operation="cute.gemm", value=mma, kind="TiledMMA or an MMA_Atom"
        )
    acc, a, b = _in_order(atom, fragments)
    m, n, k = extents_of_product(atom, acc, a, b, "cute.gemm")
    require_choice(serpentine, ("N", "M"), "cute.gemm")
    places = _serpentine(m, n) if serpentine == "N" else [at[::-1] for at in _serpentine(n, m)]
    steps = tuple((i + m * j, i + m * kk, j + n * kk) for kk in range(k) for i, j in places)
    d, x, y = (register(t, "cute.gemm") for t in (acc, a, b))
    emit(Mma, atom, d, x, y, steps)


def _serpentine(outer: int, inner: int) -> list[tuple[int, int]]:
    """Return all (outer, inner), the inner one forth and back."""
    return [(i, j if i % 2 == 0 else inner - 1 - j) for i in range(outer) for j in range(inner)]


def _in_order(atom: MMA_Atom, fragments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the fragments of sums, A and B, from any order that their roles allow."""
    roles = "".join([_role(atom, x) or "?" for x in fragments])
    if len(roles) == 3 and all(x in (y, "?") for x, y in zip(roles, "CAB", strict=True)):
        return fragments
    if roles == "ABC":
        return fragments[2], fragments[0], fragments[1]
    if roles != "CABC":
        found = ", ".join(roles.replace("?", "-")) or "none"
        raise refusal_here("operand-order", operation="cute.gemm", found=found)
    d, a, b, c = fragments
    if d.engine != c.engine:
        d[...] = c
    elif d.layout != c.layout:
        raise refusal_here("operand-order", operation="cute.gemm", found="D over a part of C")
    return d, a, b


def _role(atom: MMA_Atom, x: Tensor) -> str:
    """Return what a tensor was made for as a fragment, as long as it has the elements of one in its
    first mode; "" for others, such as sums that a new layout turned into an operand.
    """
    role: str = getattr(getattr(x, "engine", None), "role", "")
    if not role or not rank(x.layout):
        return ""
    tv = {"A": atom.a_tv, "B": atom.b_tv, "C": atom.c_tv}[role]
    return role if int(size(x.layout, 0)) == int(size(tv, 1)) else ""


def extents_of_product(
    atom: MMA_Atom, acc: Tensor, a: Tensor, b: Tensor, operation: str
) -> tuple[int, int, int]:
    """Return (M, N, K) in instructions; refuse parts that do not fit together or the atom."""
    shapes = [_extents_of(t, operation) for t in (acc, a, b)]
    (cv, cm, cn, *_c), (av, am, ak, *_a), (bv, bn, bk, *_b) = shapes
    values = [int(size(tv, 1)) for tv in (atom.c_tv, atom.a_tv, atom.b_tv)]
    fits = (cm, cn, ak) == (am, bn, bk) and [cv, av, bv] == values
    if not fits or any(len(shape) > 3 for shape in shapes):
        raise refusal_here(
            "operand-shape",
            operation=operation,
            atom=atom,
            c=acc.layout,
            a=a.layout,
            b=b.layout,
            values=", ".join(map(str, values)),
        )
    types = ("acc", acc, atom.c_type), ("a", a, atom.a_type), ("b", b, atom.b_type)
    for name, tensor, kind in types:
        if tensor.dtype is not kind:
            facts = {"name": name, "dtype": tensor.dtype, "wanted": kind}
            raise refusal_here("kernel-operand-type", operation=operation, atom=atom, **facts)
    return cm, cn, ak


def _extents_of(tensor: Tensor, operation: str) -> list[int]:
    if tensor.__class__ is not Tensor or not rank(tensor.layout):
        raise refusal_here("kernel-fragment", operation=operation, value=tensor)
    modes = [int(size(tensor.layout, i)) for i in range(rank(tensor.layout))]
    return modes + [1] * (3 - len(modes))
