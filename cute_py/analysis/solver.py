"""`swizzle_solver` and `suggest_smem_layout`: shared-memory layouts without bank conflicts.

Candidates are applied to the arrays of offsets of the accesses in the plain layout; those without
conflicts go through `bank_conflicts` once more, and that report is the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from cute_py.analysis import plain
from cute_py.analysis.banks import BankConflicts, bank_conflicts, request_words
from cute_py.analysis.requests import Access, Requests, requests_of
from cute_py.atoms.copy import value_type
from cute_py.atoms.wavefronts import BANKS, WORD, phase_wavefronts
from cute_py.errors import LayoutError, refusal
from cute_py.layout.algebra.proofs import is_bijective
from cute_py.layout.bits.f2 import F2Map
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import make_composed_layout
from cute_py.layout.layout import Layout
from cute_py.layout.queries import cosize, size
from cute_py.layout.tuples import transform_leaf, wrap
from cute_py.tiled.suggest import major_mode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeAlias

    from cute_py.dtypes.table import DtypeLike
    from cute_py.layout.types import AnyLayout, IntTuple, OffsetMap
    from cute_py.tiled.tiled_copy import TiledCopy

    Accesses: TypeAlias = Sequence[TiledCopy | Access]

ROW = BANKS * WORD  # bytes in distinct banks
MAX_F2 = 20000  # the most matrices to try
KINDS = ("plain", "swizzle", "f2", "padding")


@dataclass(frozen=True, slots=True)
class SmemSolution:
    """A shared-memory layout without bank conflicts for some accesses, with its proof.

    Attributes:
        kind: "plain", "swizzle", "f2" or "padding".
        layout: the layout (elements).
        change: the change of the plain layout: a Swizzle, an F2Map, or the elements of padding
            after each row; None for the plain layout.
        proof: the report of `bank_conflicts` for each access, all without conflicts.
    """

    kind: str
    layout: AnyLayout
    change: Swizzle | F2Map | int | None
    proof: tuple[BankConflicts, ...]

    def __str__(self) -> str:
        lines = [f"{self.layout} ({self.kind})", *(str(report) for report in self.proof)]
        return "\n".join(lines)


def swizzle_solver(
    accesses: Accesses, layout: Layout, kinds: Sequence[str] = KINDS
) -> tuple[SmemSolution, ...]:
    """Return all changes of a plain layout that serve all accesses without bank conflicts, smallest
    change first.

    Args:
        accesses: TiledCopies to or from shared memory, or values of `Access`.
        layout: the plain layout to start from (elements).
        kinds: the changes to try, of plain, swizzle, f2 and padding.

    Result: the layout itself; every Swizzle(B, M, S) with S > 0 that permutes its offsets, by
    (B, M, S); if there is none, maps over F2 that XOR single bits above a row of 128 bytes onto
    bits inside it, with the fewest bits; the paddings of a row of up to 128 bytes. The tuple is
    empty if none of these works.

    Law: each proof has as many wavefronts as phases. Raises LayoutError if an access is not
    contiguous and aligned in the plain layout.

    >>> from cute_py import Layout
    >>> columns = Access(Layout((32, 32)), 32, "f32")
    >>> rows = Access(Layout((32, 32), (32, 1)), 32, "f32")
    >>> [str(x.layout) for x in swizzle_solver([rows, columns], Layout((32, 32)))[:2]]
    ['Sw<5,0,5> o 0 o (32,32):(1,32)', '(32,32):(1,33)']
    """
    if not accesses:
        raise refusal("solver-accesses", operation="swizzle_solver")
    if layout.__class__ is not Layout:
        raise refusal("solver-layout", operation="swizzle_solver", layout=layout)
    requests = [requests_of("swizzle_solver", x, layout, "smem", None) for x in accesses]
    found: list[SmemSolution] = []
    for kind, candidates in _CANDIDATES.items():
        if kind in kinds and not (kind == "f2" and any(x.kind == "swizzle" for x in found)):
            for change, changed in candidates(requests, layout):
                proof = _proof(accesses, changed)
                if proof is not None:
                    found.append(SmemSolution(kind, changed, change, proof))
    return tuple(found)


def suggest_smem_layout(
    tile: IntTuple, dtype: DtypeLike | int, major: int | str, accesses: Accesses
) -> SmemSolution:
    """Return the smallest change of a compact tile that serves all accesses without bank conflicts.

    Args:
        tile: extents of the tile, (M, K) (elements).
        dtype: the element type, or its width in bits: that of the accesses.
        major: the mode that is contiguous: its index, or "K" for the last and "MN" for the first.
        accesses: TiledCopies to or from it, or values of `Access`.

    Law: the proof of the result has one wavefront per phase. Raises LayoutError if no plain,
    swizzled or padded layout is free of conflicts. See `swizzle_solver`.

    >>> from cute_py.tiled.suggest import suggest_tiled_copy
    >>> store = suggest_tiled_copy((128, 64), "f16", 128, "K")
    >>> print(suggest_smem_layout((128, 64), "f16", "K", [store]).layout)
    (128,64):(64,1)
    """
    tile, unit = wrap(tile), value_type(dtype, "suggest_smem_layout").bits
    mode = major_mode("suggest_smem_layout", tile, major)
    for access in accesses:
        own = access.dtype if access.__class__ is Access else access.atom.dtype  # type: ignore[union-attr]
        if own.bits != unit:
            raise refusal(
                "suggest-dtype",
                operation="suggest_smem_layout",
                access=access,
                own=own,
                dtype=dtype,
            )
    layout = _compact(tile, mode)
    for kind in KINDS:
        found = swizzle_solver(accesses, layout, (kind,))
        if found:
            return found[0]
    raise refusal("suggest-smem", operation="suggest_smem_layout", tile=tile, dtype=dtype)


def _compact(tile: tuple[int, ...], mode: int) -> Layout:
    """Return the compact layout whose `mode` is contiguous, the others in order."""
    strides, step = [0] * len(tile), 1
    for k in sorted(range(len(tile)), key=lambda k: k != mode):
        strides[k], step = step, step * tile[k]
    return Layout(tile, tuple(strides))


def _proof(accesses: Accesses, layout: AnyLayout) -> tuple[BankConflicts, ...] | None:
    """Return the reports if all are free of conflicts, else None."""
    reports = []
    for access in accesses:
        try:
            report = bank_conflicts(access, layout)
        except LayoutError:  # the change splits a vector
            return None
        if not report.conflict_free:
            return None
        reports.append(report)
    return tuple(reports)


# -- candidates: (change, layout) without conflicts on the arrays


def _plain(requests: list[Requests], layout: Layout) -> Iterator[tuple[None, AnyLayout]]:
    if _passes(requests, lambda starts: starts):
        yield None, layout


def _swizzles(requests: list[Requests], layout: Layout) -> Iterator[tuple[Swizzle, AnyLayout]]:
    """Yield swizzles by (B, M, S) that keep vectors whole and permute the offsets."""
    period = cosize(layout) & -cosize(layout)  # offsets fill whole runs of this length
    bits = period.bit_length() - 1 if is_bijective(layout) else 0
    for b, m, s in product(range(1, bits), range(_vector_bits(requests), bits), range(1, bits)):
        if b <= s and b + m + s <= bits:
            swizzle = Swizzle(b, m, s)
            if _passes(requests, swizzle):
                yield swizzle, make_composed_layout(swizzle, 0, layout)


def _f2_maps(requests: list[Requests], layout: Layout) -> Iterator[tuple[F2Map, AnyLayout]]:
    """Yield maps that XOR bits above a row onto bits inside it, with the fewest bits."""
    low = _vector_bits(requests)
    row = (ROW * 8 // requests[0].unit).bit_length() - 1
    period = cosize(layout) & -cosize(layout)
    bits = period.bit_length() - 1 if is_bijective(layout) else 0
    choices = product((None, *range(row, bits)), repeat=max(0, row - low))
    picks = [pick for pick, _ in zip(choices, range(MAX_F2), strict=False)]
    picks.sort(key=lambda pick: sum(source is not None for source in pick))
    fewest = None
    for pick in picks:
        used = sum(source is not None for source in pick)
        if fewest is not None and used > fewest:
            return
        f2 = _map_of(pick, low, bits)
        if _passes(requests, f2):
            fewest = used
            yield f2, make_composed_layout(f2, 0, layout)


def _map_of(pick: tuple[int | None, ...], low: int, bits: int) -> F2Map:
    columns = [1 << bit for bit in range(bits)]
    for target, source in enumerate(pick, low):
        if source is not None:
            columns[source] |= 1 << target
    return F2Map(columns)


def _paddings(requests: list[Requests], layout: Layout) -> Iterator[tuple[int, AnyLayout]]:
    """Yield the layout with up to 128 bytes after each row, whole vectors at a time."""
    row = _row(layout)
    if row is None:
        return
    step = 1 << _vector_bits(requests)
    for extra in range(step, ROW * 8 // requests[0].unit + 1, step):
        yield extra, _padded(layout, row, extra)


def _row(layout: Layout) -> int | None:
    """Return the elements of a row: the size of the contiguous mode; None if there is none."""
    for mode in layout:
        if size(mode) > 1 and size(mode) == cosize(mode) and size(mode) < size(layout):
            return int(size(mode))
    return None


def _padded(layout: Layout, row: int, extra: int) -> Layout:
    """Return the layout with `extra` elements after each `row`."""

    def widen(stride: int) -> int:
        rows, rest = divmod(stride, row)
        return rows * (row + extra) + rest

    return Layout(layout.shape, transform_leaf(widen, layout.stride))


_CANDIDATES: dict[str, Callable[..., Iterator[tuple[Swizzle | F2Map | int | None, AnyLayout]]]] = {
    "plain": _plain,
    "swizzle": _swizzles,
    "f2": _f2_maps,
    "padding": _paddings,
}


def _vector_bits(requests: list[Requests]) -> int:
    """Return the number of low bits of an offset inside a vector (or a word of a bank)."""
    widest = max(max(each.vector, WORD * 8 // each.unit) for each in requests)
    return widest.bit_length() - 1


def _passes(requests: list[Requests], change: OffsetMap) -> bool:
    """Return whether no phase has a conflict once the offsets are changed."""
    for each in requests:
        if each.starts.__class__ is list:
            starts: Any = plain.changed(each.starts, change)
        else:
            import numpy as np

            starts = np.where(each.starts < 0, -1, change(np.maximum(each.starts, 0)))
        for part in (starts[:4], starts):  # most candidates fail early
            found = phase_wavefronts(request_words(each, part))
            if (max(map(max, found)) if found.__class__ is list else found.max()) > 1:
                return False
    return True
