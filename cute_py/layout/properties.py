"""Questions about whole layouts: injective, onto, the same function, which offsets they share.

The answer is always exact. Where the strides decide, there are closed forms for any size. Other
layouts are decided by arrays of all offsets, up to the size that `offsets` tabulates, and refused
beyond it.
"""

from __future__ import annotations

from math import gcd

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import AbstractComposed, AbstractF2, Mapped, special
from cute_py.layout.bits import gf2
from cute_py.layout.bits.f2 import F2Map
from cute_py.layout.layout import INTS, Layout, require_layout
from cute_py.layout.offsets import (
    QUESTIONED,
    SMALL,
    components,
    distinct,
    in_arrays,
    marks,
    outer_sums,
    reach,
    require_range,
    sums_of,
    table_of,
    values_at_all,
)
from cute_py.layout.offsets import offsets as offsets  # found here by Layout.offsets
from cute_py.layout.one_to_one import first_gap, steps_of, undecided
from cute_py.layout.tuples import product

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.offsets import Table
    from cute_py.layout.one_to_one import Steps
    from cute_py.layout.types import AnyLayout


# -- injective


def require_mapped(x: object, operation: str) -> None:
    """Refuse anything that is not a layout of some class."""
    if not isinstance(x, Mapped):
        require_layout(x, operation)


def is_injective(layout: AnyLayout) -> bool:
    """Return whether no two coordinates have the same offset.

    Raises LayoutError for symbols, and where neither strides nor 2**21 offsets decide.

    >>> is_injective(Layout((4, 8), (1, 5))), is_injective(Layout((4, 8), (1, 3)))
    (True, False)
    """
    if layout.__class__ is Layout:
        parts = components(layout, "is_injective")
        moving = sum([len(_steps(part)) for part in parts])
        broadcasts = moving < sum([extent > 1 for extent in layout._s])
        return not broadcasts and all(_is_one_to_one(_steps(part), layout) for part in parts)
    if isinstance(layout, AbstractF2):
        return not gf2.eliminate(layout.bases)[1]
    if isinstance(layout, AbstractComposed) and _is_bijection(layout.outer):
        return is_injective(layout.inner)
    table = values_at_all(layout, "is_injective")
    return _count_distinct(table) == len(table)


def _count_distinct(table: Table) -> int:
    return len(set(table)) if table.__class__ is list else len(distinct(table))


def _steps(layout: Layout) -> Steps:
    return steps_of(zip(layout._s, layout._d, strict=True))


def _is_one_to_one(steps: Steps, layout: Layout) -> bool:
    core = undecided(steps)
    if not core:
        return core is not None
    d, s = [list(part) for part in zip(*core, strict=True)]
    table = _tabulated(s, d, layout, "is_injective")
    return _count_distinct(table) == len(table)


def _tabulated(s: list[int], d: list[int], layout: AnyLayout, operation: str) -> Table:
    size = product(tuple(s))
    if size > QUESTIONED:
        raise refusal("tools-size", operation=operation, layout=layout, size=size, limit=QUESTIONED)
    if size < SMALL:
        return sums_of([range(0, n * step, step) for n, step in zip(s, d, strict=True)])
    require_range(layout, reach(s, d) + 1)
    return outer_sums(s, d)


def _is_bijection(outer: object) -> bool:
    """Return whether an outer map is known to be a bijection of all offsets."""
    return isinstance(outer, F2Map) and outer.is_bijective()


# -- onto


def is_surjective(layout: AnyLayout, codomain: int | None = None) -> bool:
    """Return whether every offset from 0 to codomain - 1 is reached.

    Args:
        layout: a Layout, ComposedLayout or F2Layout.
        codomain: how many offsets (elements); by default the cosize. A layout that yields
            coordinates must reach every coordinate of its coshape.

    Raises LayoutError for symbols, and where neither strides nor 2**21 offsets decide.

    >>> is_surjective(Layout((4, 8), (8, 1))), is_surjective(Layout((2, 3), (4, 1)))
    (True, False)
    >>> is_surjective(Layout((2, 3), (4, 1)), 3)
    True
    """
    if codomain is None and layout.__class__ is Layout and layout._kind != INTS:
        parts = components(layout, "is_surjective")
        return all(_is_onto(part, part.cosize()) for part in parts)
    count = wanted_count(layout, codomain, "is_surjective")
    if layout.__class__ is Layout:
        return _is_onto(layout, count)
    if isinstance(layout, AbstractF2):
        return _xors_onto(layout, count)
    filled = _filled_aligned(layout)
    if filled:
        return count <= filled
    linear = _linear(layout)
    if linear is not None:
        return _xors_onto(linear, count)
    return _hits_all(table_of(layout, "is_surjective"), 0, count)


def wanted_count(layout: AnyLayout, codomain: int | None, operation: str) -> int:
    """Return how many offsets must be reached: the given codomain, or the cosize."""
    require_mapped(layout, operation)
    if layout.__class__ is Layout and layout._kind != INTS:
        components(layout, operation)  # refuses symbols
        raise refusal("tools-basis", operation=operation, layout=layout)
    if codomain is not None:
        return ints.as_int(ints.normalize(codomain, operation), operation)
    if not isinstance(layout, AbstractComposed):
        return int(layout.cosize())
    filled = _filled_aligned(layout)
    if filled:
        return filled
    linear = _linear(layout)
    return int(linear.cosize() if linear else 1 + max(map(abs, table_of(layout, operation))))


def _is_onto(layout: Layout, count: int) -> bool:
    """Decide whether 0 .. count - 1 are reached. With positive strides the modes reach 0 .. top,
    symmetrically from the top; the original offset 0 is then at `low`.
    """
    steps = _steps(layout)
    low = -sum([d * (s - 1) for s, d in zip(layout._s, layout._d, strict=True) if d < 0])
    top = sum([d * (s - 1) for d, s in steps])
    end = low + count
    if count <= 0 or end > top + 1:
        return count <= 0
    gap = first_gap(steps)
    if gap >= end:
        return True
    if low <= gap or low <= top - gap < end:
        return False
    table = _tabulated([s for _, s in steps], [d for d, _ in steps], layout, "is_surjective")
    return _hits_all(table, low, count)


def _hits_all(table: Table, low: int, count: int) -> bool:
    if table.__class__ is list:
        return count <= len(table) and set(table) >= set(range(low, low + count))
    return count <= len(table) and bool(marks(table, low, max(count, 0)).all())


def _xors_onto(layout: AbstractF2, count: int) -> bool:
    """Decide for an F2Layout: an image closed under XOR is complete if it has 1, 2, 4, ..."""
    if count <= 0:
        return True
    pivots = gf2.eliminate(layout.bases)[0]
    bits = (count - 1).bit_length()
    wanted = [layout.offset, *[1 << bit for bit in range(bits)]]
    return all(gf2.solve(pivots, offset) is not None for offset in wanted)


def _filled_aligned(layout: AnyLayout) -> int:
    """Return the n for which a composed layout reaches exactly 0 .. n - 1, because the inner
    layout does and the outer map permutes aligned runs that make up n; 0 if this is not known.
    """
    if not isinstance(layout, AbstractComposed) or layout.inner.__class__ is not Layout:
        return 0
    inner = layout.inner
    if inner._kind != INTS or layout.offset != 0 or not _is_bijection(layout.outer):
        return 0
    filled = first_gap(_steps(inner))
    whole = filled == inner.cosize() and min(inner._d, default=0) >= 0
    return filled if whole and filled % layout.outer.period == 0 else 0


def _linear(layout: AnyLayout) -> AbstractF2 | None:
    """Return a composed layout as an F2Layout, None if it is not one."""
    if not isinstance(layout, AbstractComposed) or not isinstance(layout.outer, F2Map):
        return None
    found = special.linear_or_reason(layout)
    return found if isinstance(found, AbstractF2) else None


# -- two layouts


def below_one_map(a: AnyLayout, b: AnyLayout) -> tuple[AnyLayout, AnyLayout]:
    """Return the layouts below the bijection that both are under."""
    while isinstance(a, AbstractComposed) and isinstance(b, AbstractComposed):
        if a.outer != b.outer or a.offset != b.offset or not _is_bijection(a.outer):
            break
        a, b = a.inner, b.inner
    return a, b


def contains(a: AnyLayout, b: AnyLayout) -> bool:
    """Return whether a reaches every offset that b reaches.

    Raises LayoutError for coordinate strides, symbols, and where 2**21 offsets do not decide.

    >>> contains(Layout((4, 8), (8, 1)), Layout(16, 2)), contains(Layout(16, 2), Layout(4, 1))
    (True, False)
    """
    for layout in (a, b):
        require_mapped(layout, "contains")
    a, b = below_one_map(a, b)
    outer, inner = _bounds(a, "contains"), _bounds(b, "contains")
    if a == b:
        return True
    if outer is not None and inner is not None:
        (low, high, gapless), (least, most, _) = outer, inner
        if not low <= least <= most <= high:
            return False
        if gapless:
            return True
    within, whole = table_of(b, "contains"), table_of(a, "contains")
    if within.__class__ is list and whole.__class__ is list:
        return set(within) <= set(whole)
    import numpy as np

    within, whole = in_arrays(within, whole)
    return bool(np.isin(within, whole).all())


def overlaps(a: AnyLayout, b: AnyLayout, offset: int = 0) -> bool:
    """Return whether a hits an offset that b, moved up by `offset` (elements), hits too.

    Two plain layouts always meet at their index 0 where nothing is moved. Raises LayoutError for
    coordinate strides, symbols, and where 2**21 offsets do not decide.

    >>> overlaps(Layout(4, 2), Layout(4, 2), 1), overlaps(Layout(4, 2), Layout(4, 2), 6)
    (False, True)
    """
    for layout in (a, b):
        require_mapped(layout, "overlaps")
    shift = ints.as_int(ints.normalize(offset, "overlaps"), "overlaps")
    if shift == 0:
        a, b = below_one_map(a, b)
    one, other = _bounds(a, "overlaps"), _bounds(b, "overlaps")
    if shift == 0 and a == b:
        return True
    if one is not None and other is not None:
        (low, high, gapless), (least, most, solid) = one, other
        if high < least + shift or most + shift < low:
            return False
        steps = [d for d, _ in _steps(a) + _steps(b)]  # type: ignore[arg-type]  # bounds are of layouts
        if shift % gcd(*steps) if steps else shift:
            return False
        if shift == 0 or (gapless and solid):
            return True
    moved, still = table_of(b, "overlaps"), table_of(a, "overlaps")
    if moved.__class__ is list and still.__class__ is list:
        return not {x + shift for x in moved}.isdisjoint(still)
    import numpy as np

    moved, still = in_arrays(moved, still)
    require_range(b, abs(shift) + int(abs(moved).max()) + 1)
    return bool(np.isin(moved + shift, still).any())


def _bounds(layout: AnyLayout, operation: str) -> tuple[int, int, bool] | None:
    """Return the least and the largest offset of a Layout, and whether it hits all in between; None
    for other kinds.
    """
    if layout.__class__ is not Layout:
        return None
    if layout._kind != INTS:
        components(layout, operation)  # refuses symbols
        raise refusal("tools-basis", operation=operation, layout=layout)
    steps = _steps(layout)
    span = sum([d * (s - 1) for d, s in steps])
    low = sum([d * (s - 1) for s, d in zip(layout._s, layout._d, strict=True) if d < 0])
    return low, low + span, first_gap(steps) == span + 1
