"""Composition of layouts with coordinate strides or symbols, leaf by leaf through the integer
protocol.

Coordinate strides in A are packed into wide integers, so that the exact integer algorithm serves
them too; coordinate strides in B choose the mode of A that each leaf reads. Symbols follow the
closed form alone: what would need a fit or a carry search is refused with the assumption that would
settle it.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.algebra.coalesce import coalesced_beyond
from cute_py.layout.algebra.exact import Departs
from cute_py.layout.basis import ScaledBasis, sum_steps
from cute_py.layout.layout import BASIS, INTS, Layout
from cute_py.layout.queries import leaf_path
from cute_py.layout.tuples import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.layout.types import IntTuple, Leaf


def compose_leaves(a: Layout, b: Layout) -> Layout:
    """Return composition(a, b) where a or b has coordinate strides or symbols."""
    if any(step.__class__ is ScaledBasis for step in b._d):
        return _by_path(a, b)
    if a._kind == BASIS and b._kind == INTS:
        return _packed(a, b)
    return _symbolic(a, b)


# -- B yields coordinates


def _by_path(a: Layout, b: Layout) -> Layout:
    """Compose each leaf of b with the mode of a that it names; leaves that name the same mode must
    add up there.
    """
    from cute_py.layout.modes import get

    paths: list[tuple[int, ...]] = []
    for step in b._d:
        path = _path(a, b, step)
        if path is not None and path not in paths:
            paths.append(path)
    for path in paths:
        for other in paths:
            if path != other and path == other[: len(path)]:
                raise refusal(
                    "mixed-strides",
                    operation="composition",
                    value=ScaledBasis(1, path),
                    basis=ScaledBasis(1, other),
                )
    leaves = [leaf_path(b.shape, k) for k in range(len(b._s))]
    results: dict[tuple[int, ...], Layout] = {}
    for path in paths:
        # every leaf of other paths is made a broadcast, so that one composition judges the carries
        # of this mode
        values = [step.value if _names(step, path) else 0 for step in b._d]
        results[path] = _compose(get(a, path), _with_strides(b, values))

    def mode(k: int) -> Layout:
        step = b._d[k]
        if step.__class__ is not ScaledBasis:
            return Layout(b._s[k], step)
        return get(results[step.path], leaves[k]) if leaves[k] else results[step.path]

    return _nest(b, [mode(k) for k in range(len(b._s))])


def _names(step: Leaf, path: tuple[int, ...]) -> bool:
    return step.__class__ is ScaledBasis and step.path == path


def _path(a: Layout, b: Layout, step: Leaf) -> tuple[int, ...] | None:
    if step.__class__ is not ScaledBasis:
        if ints.is_zero(step):
            return None
        raise refusal("mixed-strides", operation="composition", value=step, basis=b)
    shape = a.shape
    for index in step.path:
        if shape.__class__ is not tuple or index >= len(shape):
            raise refusal(
                "composition-codomain",
                operation="composition",
                a=a,
                b=b,
                stride=step,
                mode=step.path,
                rank=len(a),
            )
        shape = shape[index]
    return step.path


def _with_strides(b: Layout, values: list[Any]) -> Layout:
    from cute_py.layout.tuples import unflatten

    stride = unflatten(tuple(values), b.shape) if b.shape.__class__ is tuple else values[0]
    return Layout(b.shape, stride)


def _nest(b: Layout, modes: list[Layout]) -> Layout:
    """Return the layout with b's profile whose leaves are the given layouts."""
    rest = iter(modes)

    def visit(part: IntTuple) -> tuple[Any, Any]:
        if part.__class__ is tuple:
            pairs = [visit(mode) for mode in part]
            return tuple([p[0] for p in pairs]), tuple([p[1] for p in pairs])
        mode = next(rest)
        return mode.shape, mode.stride

    return Layout(*visit(b.shape))


def _compose(a: Layout, b: Layout) -> Layout:
    from cute_py.layout.algebra.composition import composition

    return composition(a, b)  # type: ignore[no-any-return]


# -- A yields coordinates, everything else is int


def _packed(a: Layout, b: Layout) -> Layout:
    """Compose through integers: component k of the coordinate becomes the k-th digit, in a radix
    that nothing reaches.
    """
    from cute_py.layout.algebra.composition import compose_ints

    paths = sorted({step.path for step in a._d if step.__class__ is ScaledBasis})
    if any(step.__class__ is not ScaledBasis and step for step in a._d):
        odd = next(step for step in a._d if step.__class__ is not ScaledBasis and step)
        raise refusal("mixed-strides", operation="composition", value=odd, basis=a)
    reach = 1 + sum(s * abs(d) for s, d in zip(b._s, b._d, strict=True))
    largest = max(abs(step.value) for step in a._d if step.__class__ is ScaledBasis)
    radix = 4 * reach * (largest + 1)

    def pack(step: Leaf) -> int:
        return step.value * radix ** paths.index(step.path) if step.__class__ is ScaledBasis else 0

    def coordinate(value: int) -> str:
        parts = _digits(value, radix, len(paths))
        return show(sum_steps([(x, ScaledBasis(1, p)) for x, p in zip(parts, paths, strict=True)]))

    packed = Layout(a.shape, _map_leaves(pack, a.stride))
    try:
        result = compose_ints(packed, b)
    except Departs as departs:
        from cute_py.layout.algebra.composition import refuse

        refuse(packed, b, departs, given=a, shown=coordinate)
    return Layout(result.shape, _map_leaves(lambda x: _unpack(x, radix, paths, a), result.stride))


def _map_leaves(f: Callable[[Any], Any], x: Leaf) -> Leaf:
    return tuple([_map_leaves(f, mode) for mode in x]) if x.__class__ is tuple else f(x)


def _digits(packed: int, radix: int, count: int) -> list[int]:
    """Return the signed digits of `packed`, each between -radix/2 and radix/2."""
    digits = []
    for _ in range(count):
        digit = (packed + radix // 2) % radix - radix // 2
        packed = (packed - digit) // radix
        digits.append(digit)
    return digits


def _unpack(packed: int, radix: int, paths: list[tuple[int, ...]], a: Layout) -> Leaf:
    digits = zip(_digits(packed, radix, len(paths)), paths, strict=True)
    parts = [ScaledBasis(digit, path) for digit, path in digits if digit]
    if len(parts) > 1:
        steps = " + ".join(map(str, parts))
        raise refusal("composition-diagonal", operation="composition", a=a, strides=steps)
    return parts[0] if parts else 0


# -- symbols


def _symbolic(a: Layout, b: Layout) -> Layout:
    extents, strides = coalesced_beyond(a)
    load: list[Any] = [0] * (len(extents) - 1)
    modes = [_walk(extents, strides, s, d, load) for s, d in zip(b._s, b._d, strict=True)]
    for used, size in zip(load, extents, strict=False):
        if not ints.settle(ints.less, used, size, "composition"):
            raise refusal(
                "composition-carry", operation="composition", a=a, b=b, used=used, size=size
            )
    return _nest(b, modes)


def _walk(
    extents: list[Any], strides: list[Any], extent: Leaf, step: Leaf, load: list[Any]
) -> Layout:
    """Return the modes of i -> A(i*step): `composition._walk_digits` with decisions that may be
    undecided.
    """
    if ints.is_zero(step):
        return Layout(extent, 0)
    last = len(extents) - 1
    s: list[Any] = []
    d: list[Any] = []
    for k in range(last):
        size = extents[k]
        if ints.divides(size, step):
            step = ints.div(step, size)
            continue
        reach = ints.mul(ints.sub(extent, 1), step)
        inside = ints.less(reach, size)
        if inside:
            load[k] = ints.add(load[k], reach)
            return _flat([*s, extent], [*d, ints.mul(step, strides[k])])
        if not ints.settle(ints.divides, step, size, "composition"):
            raise refusal("composition-symbols", operation="composition", step=step, size=size)
        run = ints.div(size, step)
        if not ints.settle(ints.divides, run, extent, "composition"):
            raise refusal("composition-symbols", operation="composition", step=run, size=extent)
        s.append(run)
        d.append(ints.mul(step, strides[k]))
        load[k] = ints.add(load[k], ints.sub(size, step))
        extent = ints.div(extent, run)
        step = 1
        if ints.is_one(extent):
            return _flat(s, d)
    return _flat([*s, extent], [*d, ints.mul(step, strides[last])])


def _flat(s: list[Any], d: list[Any]) -> Layout:
    return Layout(s[0], d[0]) if len(s) == 1 else Layout(tuple(s), tuple(d))
