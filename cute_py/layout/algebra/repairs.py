"""The refusal of a composition: its witness, and the repairs that were tried and hold."""

from __future__ import annotations

from cute_py.errors import format_mode, refusal
from cute_py.layout.algebra.coalesce import coalesce
from cute_py.layout.algebra.composition import compose_or_none
from cute_py.layout.algebra.exact import ENUMERATED
from cute_py.layout.layout import Layout, raw
from cute_py.layout.queries import leaf_path
from cute_py.layout.tuples import unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from cute_py.layout.algebra.exact import Departs

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
