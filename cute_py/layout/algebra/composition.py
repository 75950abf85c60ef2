"""Composition, exact or refused: R(c) == A(B(c)) for every c in B.

With A coalesced, a mode of B walks the mixed-radix digits of A. (1) Where extents and strides
divide, the result is read off mode by mode. (2) A mode that this does not settle is fitted to its
values (`exact.fit_mode`). (3) Modes add up if no digit of A carries; a carry is judged by
`exact.check_carry`, which accepts or names the first coordinate that departs. Source: Cecka, arXiv
2603.02298, section 3.3; cutlass layout.hpp `composition_impl`; architecture.md section 2 for (2)
and (3).
"""

from __future__ import annotations

from cute_py.errors import format_mode, refusal
from cute_py.layout.algebra.coalesce import coalesce, coalesced_beyond
from cute_py.layout.algebra.exact import ENUMERATED, Departs, check_carry, fit_mode, peaks
from cute_py.layout.layout import INTS, Layout, made, make_layout, raw
from cute_py.layout.tuples import is_underscore, unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from cute_py.layout.bits.swizzle import Swizzle
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf, Tiler


def composition(a: AnyLayout | Swizzle, b: Tiler) -> Alike:
    """Return the layout R with R(c) == a(b(c)) for every coordinate c of b.

    R's shape refines b's: every leaf of b stays or becomes nested. b may reach past a, whose last
    mode runs on.

    Args:
        a: Layout, ComposedLayout or Swizzle.
        b: a layout or a Swizzle; an integer n (short for n:1); `_` (all of a); or a by-mode tiler,
            a tuple of these, which composes mode by mode and drops the modes of a beyond it.

    Raises LayoutError, with the first coordinate that departs and both values, exactly when no
    layout whose shape refines b's computes a(b(c)). For a swizzled b there is always one: swizzle o
    offset o layout, or the pair a o 0 o b. Source: cutlass layout.hpp `composition`.

    >>> print(composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))))
    ((2,2),3):((24,2),8)
    >>> composition(Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    cute_py.errors.LayoutError: composition: given a=(6,2):(1,7) and b=(3,2):(2,3): at ...
    """
    if a.__class__ is Layout:
        if b.__class__ is Layout:
            if a._kind == INTS and b._kind == INTS:
                try:
                    return made(compose_ints(a, b), "composition", a, b)
                except Departs as departs:
                    refuse(a, b, departs)
            return made(_compose_leaves(a, b), "composition", a, b)
        if b.__class__ is int:
            return composition(a, Layout(b, 1))
        if b.__class__ is tuple:
            return _by_mode(a, b)
        if is_underscore(b):
            return a
    from cute_py.layout.composed import compose_special

    return compose_special(a, b)


def _by_mode(a: Layout, tiler: tuple[Any, ...]) -> Layout:
    if len(tiler) > len(a):
        raise refusal(
            "tiler-rank", operation="composition", tiler=len(tiler), layout=a, rank=len(a)
        )
    if not tiler:
        return raw((), (), [], [])
    modes = [composition(mode, part) for mode, part in zip(a, tiler, strict=False)]
    return made(make_layout(*modes), "composition", a, tiler)


def compose_or_none(a: Layout, b: Layout) -> Layout | None:
    """Return composition(a, b) of all-int layouts, or None where it does not exist."""
    try:
        return compose_ints(a, b)
    except Departs:
        return None


def compose_ints(a: Layout, b: Layout) -> Layout:
    """Return composition(a, b) of all-int layouts; raise Departs where it does not exist."""
    extents, strides = coalesced_beyond(a)
    if len(extents) == 1:
        return _scaled(b, strides[0])
    s: list[int] = []
    d: list[int] = []
    load = [0] * (len(extents) - 1)  # per digit of a, the largest values of b's modes added up

    def modes(extent: Leaf, step: Leaf) -> tuple[Any, Any]:
        if extent.__class__ is tuple:
            parts = [modes(x, y) for x, y in zip(extent, step)]  # noqa: B905 (hot)
            return tuple([part[0] for part in parts]), tuple([part[1] for part in parts])
        first = len(s)
        if extent == 1 or step <= 0:
            _special_mode(extents, strides, extent, step, s, d, load)
        elif not _walk_digits(extents, strides, extent, step, s, d, load):
            del s[first:], d[first:]
            _fit(extents, strides, extent, step, s, d, load)
        if len(s) == first + 1:
            return s[first], d[first]
        return tuple(s[first:]), tuple(d[first:])

    result = raw(*modes(b.shape, b.stride), s, d)
    for used, size in zip(load, extents):  # noqa: B905 (hot; the last digit is unbounded)
        if used >= size:
            check_carry(b, extents, strides, result)
            break
    return result


def _scaled(b: Layout, factor: int) -> Layout:
    d = [step * factor for step in b._d]
    if b.shape.__class__ is int:
        return raw(b.shape, d[0], b._s, d)
    return raw(b.shape, _renest(b.shape, iter(d)), b._s, d)


def _walk_digits(
    extents: list[int],
    strides: list[int],
    extent: int,
    step: int,
    s: list[int],
    d: list[int],
    load: list[int],
) -> bool:
    """Append the modes of i -> A(i*step), i < extent, if divisibility settles them; add the digits
    used to `load`.

    While step reaches past a digit, all multiples have 0 there if it divides. Else the mode runs
    within the digit, or through all of it and on into the next with step 1.
    """
    last = len(extents) - 1
    for k in range(last):
        size = extents[k]
        if step >= size:
            if step % size:
                return False
            step //= size
            continue
        if (extent - 1) * step < size:
            s.append(extent)
            d.append(step * strides[k])
            load[k] += step * (extent - 1)
            return True
        run = size // step
        if run * step != size or extent % run:
            return False
        s.append(run)
        d.append(step * strides[k])
        load[k] += size - step
        extent //= run
        step = 1
    s.append(extent)
    d.append(step * strides[last])
    return True


def _fit(
    extents: list[int],
    strides: list[int],
    extent: int,
    step: int,
    s: list[int],
    d: list[int],
    load: list[int],
) -> None:
    for run, stride in fit_mode(extents, strides, extent, step):
        s.append(run)
        d.append(stride)
    for k, peak in enumerate(peaks(extent, step, extents[:-1])):
        load[k] += peak


def _special_mode(
    extents: list[int],
    strides: list[int],
    extent: int,
    step: int,
    s: list[int],
    d: list[int],
    load: list[int],
) -> None:
    """Append a mode with stride 0, extent 1 or negative stride.

    The stride of an extent-1 mode says nothing; CuTe divides it down the digits, and so does this.
    A negative stride mirrors the positive one; its load is set so that `check_carry` has the last
    word.
    """
    if step == 0:
        s.append(extent)
        d.append(0)
    elif extent == 1:
        magnitude = abs(step)
        for size in extents[:-1]:
            magnitude = -(-magnitude // size)
        s.append(1)
        d.append((magnitude if step > 0 else -magnitude) * strides[-1])
    else:
        first = len(d)
        if not _walk_digits(extents, strides, extent, -step, s, d, load):
            del s[first:], d[first:]
            _fit(extents, strides, extent, -step, s, d, load)
        d[first:] = [-stride for stride in d[first:]]
        load[0] += extents[0]


def _renest(shape: IntTuple, strides: Iterator[int]) -> IntTuple:
    if shape.__class__ is tuple:
        return tuple([_renest(mode, strides) for mode in shape])
    return next(strides)


def _compose_leaves(a: Layout, b: Layout) -> Layout:
    """Compose layouts with coordinate strides or symbols."""
    from cute_py.layout.algebra.leafwise import compose_leaves

    return compose_leaves(a, b)


# -- the refusal: its witness, and the repairs that were tried and hold

TRIED_REPAIRS = 64


def refuse(
    a: Layout,
    b: Layout,
    departs: Departs,
    given: Layout | None = None,
    shown: Callable[[int], object] = int,
) -> NoReturn:
    """Raise the refusal of composition(a, b), with its witness and the repairs that were tried and
    hold. `given` is what the user passed where a stands for it, `shown` turns a's values back.
    """
    from cute_py.layout.queries import leaf_path  # a refusal alone needs it

    coord, sign = _place(departs, b)
    mode = next((k for k in reversed(range(len(coord))) if coord[k]), 0)
    index = 0
    for c, extent in zip(reversed(coord), reversed(b._s), strict=True):
        index = index * extent + c
    path = leaf_path(b.shape, mode)
    raise refusal(
        "composition-departs",
        operation="composition",
        a=given or a,
        b=b,
        mode=path,
        place=f"mode {format_mode(path)} of b" if path else "b",
        index=index,
        visited=sum(c * d for c, d in zip(coord, b._d, strict=True)),
        got=shown(sign * departs.got),
        fitted=shown(sign * departs.fitted),
        repairs=", or ".join(
            [*_repairs(a, b, mode), f"keep the pair as make_composed_layout({given or a}, 0, {b})"]
        ),
    ) from None


def _place(departs: Departs, b: Layout) -> tuple[list[int], int]:
    """Return the coordinate (leaf by leaf) that departs, and -1 where it lies in a mode of negative
    stride.
    """
    if departs.mode is None:
        return departs.coord or [], 1
    extent, step, index = departs.mode  # of the first leaf of that extent and magnitude
    pairs = [(s, abs(d)) for s, d in zip(b._s, b._d, strict=True)]
    leaf = pairs.index((extent, step))
    coord = [0] * len(pairs)
    coord[leaf] = index
    return coord, 1 if b._d[leaf] > 0 else -1


def _repairs(a: Layout, b: Layout, leaf: int) -> Iterator[str]:
    """Yield changes of one extent, of b's mode or of a coalesced mode of a, with which the
    composition exists.
    """
    from cute_py.layout.queries import leaf_path  # a refusal alone needs it

    path = leaf_path(b.shape, leaf)
    where = f"mode {'.'.join(map(str, path))} of b" if path else "b"
    old = b._s[leaf]
    for sizes, word in ((range(old - 1, 1, -1), "shrink"), (range(old + 1, 2 * old + 1), "pad")):
        for size in sizes[:TRIED_REPAIRS]:
            if _composes(a, _with_extent(b, leaf, size)):
                yield f"{word} {where} from {old} to {size}"
                break
    flat = coalesce(a)
    for k, extent in enumerate(flat._s[:-1]):
        for size in range(extent + 1, 2 * extent + 1)[:TRIED_REPAIRS]:
            if _composes(_with_extent(flat, k, size), b):
                yield f"pad extent {extent} of a to {size}"
                break


def _with_extent(layout: Layout, leaf: int, extent: int) -> Layout:
    s = [*layout._s[:leaf], extent, *layout._s[leaf + 1 :]]
    shape = unflatten(tuple(s), layout.shape) if layout.shape.__class__ is tuple else extent
    return raw(shape, layout.stride, s, layout._d)


def _composes(a: Layout, b: Layout) -> bool:
    """Return whether composition(a, b) exists; for small b only, repairs must be cheap to find."""
    return b.size() <= ENUMERATED and compose_or_none(a, b) is not None
