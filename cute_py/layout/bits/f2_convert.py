"""To and from F2: layouts as `F2Layout` and as bit matrices, and the composition of F2 layouts.

Where no index bit's image shares a bit with another's, sums are XORs, and a layout of powers of two
is linear over F2. Otherwise it is not: the sum of two numbers that share a bit differs from their
XOR.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout.algebra.coalesce import coalesced
from cute_py.layout.bits import gf2
from cute_py.layout.bits.f2 import TRIED, F2Map, images
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout, composed
from cute_py.layout.coords import check_coordinate, crd2idx, idx2crd
from cute_py.layout.layout import INTS, Layout, of_modes, raw_flat
from cute_py.layout.offsets import xor_table
from cute_py.layout.tuples import leaves, product, show, transform_leaf, wrap, wrong_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from cute_py.dtypes.table import Array
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf


def to_f2(layout: AnyLayout | Swizzle) -> F2Layout:
    """Return the F2Layout that is the same function, of the same shape.

    Args:
        layout: a Layout with extents that are powers of two, a ComposedLayout over one, or an
            F2Layout.

    Law: result(c) == layout(c) for every coordinate c. Raises LayoutError, with the first index
    whose offset is not the XOR of its bits' offsets, if no F2Layout is.

    >>> print(to_f2(Layout((4, 2), (2, 1))))
    (4,2):F2((2,4),(1))
    >>> to_f2(Layout((4, 4), (1, 2)))
    Traceback (most recent call last):
    ...
    cute_py.errors.LayoutError: to_f2: given (4,4):(1,2), whose index 6 has offset 4 ...
    """
    if layout.__class__ is F2Layout:
        return layout
    if layout.__class__ is not ComposedLayout and layout.__class__ is not Layout:
        raise refusal("not-a-layout", operation="to_f2", value=layout, type=type(layout).__name__)
    found = linear_or_reason(layout)
    if found.__class__ is F2Layout:
        return found
    code, facts = found
    raise refusal(code, operation="to_f2", layout=layout, **facts)


def linear_or_reason(layout: Alike) -> Alike:
    """Return the F2Layout that is the same function as a Layout or ComposedLayout, or the reason
    that none exists: the code of the refusal, and its facts.

    offset + sums is affine over F2 exactly if the offset bits that each bit of the index changes
    are disjoint from those of every other: on a shared bit the sum of both differs from their XOR
    by twice that bit.
    """
    bad = _no_power(layout.shape)
    if bad is not None:
        return "f2-extent", {"extent": bad, "shape": show(layout.shape)}
    outer: Any = Swizzle(0, 0, 0)
    offset, inner = 0, layout
    if layout.__class__ is ComposedLayout:
        outer, offset, inner = layout.outer, layout.offset, layout.inner
    if not isinstance(outer, F2Map) or inner.__class__ is not Layout:
        return _tabulated(layout)
    if inner._kind != INTS:
        return "f2-strides", {"stride": show(inner.stride)}
    if offset.__class__ is not int:
        return "tools-symbols", {}
    modes = zip(inner._s, inner._d, strict=True)
    steps = [d << k for s, d in modes for k in range(s.bit_length() - 1)]
    changes = [(offset + step) ^ offset for step in steps]
    negative = [value for value in (offset, *[offset ^ x for x in changes]) if value < 0]
    if negative:
        return "f2-negative", {"value": negative[0]}
    if gf2.disjoint(changes):
        return F2Layout(layout.shape, [outer(change) for change in changes], outer(offset))
    if not outer.is_bijective():
        return _tabulated(layout)
    # the first index whose sum is not the XOR: its top bit is the first that shares a bit with one
    # of those below, and one of them is enough
    pairs = ((high, low) for high in range(len(changes)) for low in range(high))
    index = next(1 << i | 1 << j for i, j in pairs if changes[i] & changes[j])
    got = outer(offset + sum([step for bit, step in enumerate(steps) if index >> bit & 1]))
    fitted = outer(offset ^ gf2.apply(changes, index))
    return "f2-not-linear", {"index": index, "got": got, "fitted": fitted}


def _no_power(shape: IntTuple) -> Leaf:
    """Return the first extent that is not a power of two, None if all are."""
    for extent in leaves(shape):
        if extent.__class__ is not int or extent.bit_count() != 1:
            return extent
    return None


def require_powers(shape: IntTuple, operation: str) -> None:
    """Refuse a shape with an extent that is not a power of two."""
    bad = _no_power(shape)
    if bad is not None:
        raise refusal("f2-extent", operation=operation, shape=show(shape), extent=bad)


def _tabulated(layout: Alike) -> Alike:
    """Do the work of `linear_or_reason` for any outer part: compare all values."""
    size = layout.size()
    if size > TRIED:
        return "tools-size", {"size": size, "limit": TRIED}
    values: list[int] = []
    for i in range(size):
        values.append(layout(i))
        if values[-1].__class__ is not int:
            return "f2-strides", {"stride": "coordinates"}
    if min(values) < 0:
        return "f2-negative", {"value": min(values)}
    misfit = table_misfit(values)
    if misfit is not None:
        return "f2-not-linear", dict(zip(("index", "got", "fitted"), misfit, strict=True))
    origin, bases = table_bases(values)
    return F2Layout(layout.shape, bases, origin)


def table_bases(table: Sequence[int] | Array) -> tuple[int, list[int]]:
    """Return the first of a table of 2**n offsets, and its XOR with those at 1, 2, 4, ..."""
    origin = int(table[0])
    bits = len(table).bit_length() - 1
    return origin, [int(table[1 << bit]) ^ origin for bit in range(bits)]


def table_misfit(table: Alike) -> tuple[int, int, int] | None:
    """Return the first index at which a table of 2**n offsets is not F2-linear, the entry there
    and the entry that linearity requires; None if it is linear.
    """
    if table.__class__ is list:
        origin, bases = table_bases(table)
        linear = [origin]
        for base in bases:
            linear += [base ^ value for value in linear]
        pairs = enumerate(zip(table, linear, strict=True))
        return next(((i, x, y) for i, (x, y) in pairs if x != y), None)
    fitted = xor_table(*table_bases(table))
    wrong = fitted != table
    if not wrong.any():
        return None
    index = int(wrong.argmax())
    return index, int(table[index]), int(fitted[index])


# -- back to layouts


def from_f2(f2: F2Layout) -> Layout | ComposedLayout | F2Layout:
    """Return the simplest layout that is the same function: a Layout, else a ComposedLayout with
    the smallest Swizzle, else the F2Layout itself.

    The shape of the result refines the shape. An offset of index 0 makes it a ComposedLayout, under
    Sw<0,0,0> if no swizzle is needed. "Smallest" is by B, then M, then |S|, S > 0 first.

    >>> print(from_f2(F2Layout(8, (1, 2, 8))), from_f2(F2Layout(8, (1, 3, 4))))
    (4,2):(1,8) Sw<1,0,1> o 0 o 8:1
    """
    if f2.__class__ is not F2Layout:
        kind = type(f2).__name__
        raise refusal("not-a-layout", operation="from_f2", value=f2, type=kind)
    swizzle = _smallest_swizzle(list(f2.bases))
    if swizzle is None:
        return f2
    return _additive(f2.shape, [swizzle(x) for x in f2.bases], swizzle, swizzle(f2.offset))


def _smallest_swizzle(used: list[int]) -> Swizzle | None:
    """Return the smallest swizzle whose images of these offsets share no bit; None if none does.

    A bit that two offsets share must be changed, so the bits that change reach from the lowest to
    the highest of these. To change more would only move bits that are already apart.
    """
    once = twice = 0
    for image in used:
        once, twice = once | image, twice | once & image
    low = (twice & -twice).bit_length() - 1
    bits = twice.bit_length() - low
    if not twice:
        return Swizzle(0, 0, 0)
    for source in range(once.bit_length()):  # in the order of M, then |S|
        if abs(source - low) >= bits:
            swizzle = Swizzle(bits, min(low, source), source - low)
            if gf2.disjoint(map(swizzle, used)):
                return swizzle
    return None


def _additive(shape: IntTuple, bases: list[int], swizzle: Swizzle, offset: int) -> Alike:
    """Return swizzle o offset o layout for disjoint bases: a bit that is set in the offset is
    subtracted.
    """
    steps = iter([(image & ~offset) - (image & offset) for image in bases])

    def modes(extent: int) -> Layout:
        strides = [next(steps) for _ in range(extent.bit_length() - 1)]
        return raw_flat(*coalesced(of_modes([(2, stride) for stride in strides])))

    fitted = transform_leaf(modes, shape)
    layout = Layout(
        transform_leaf(lambda mode: mode.shape, fitted),
        transform_leaf(lambda mode: mode.stride, fitted),
    )
    return composed(swizzle, offset, layout)


# -- composition


def compose_f2(outer: AnyLayout | F2Map, inner: AnyLayout) -> F2Layout:
    """Return the F2Layout R with R(c) == outer(inner(c)), of the shape of `inner`.

    Args:
        outer: F2Layout, Swizzle, F2Map, or a layout that `to_f2` takes. The last mode of a Layout
            is unbounded, as in `composition`.
        inner: F2Layout, or a layout that `to_f2` takes.

    Raises LayoutError where one of them is not linear over F2, or where inner reaches past outer.

    >>> print(compose_f2(F2Layout(8, (1, 3, 6)), Layout((2, 4), (4, 1))))
    (2,4):F2((6),(1,3))
    """
    first = to_f2(inner)
    if isinstance(outer, F2Map):
        return F2Layout(first.shape, [outer(image) for image in first.bases], outer(first.offset))
    reach = first.cosize()
    if outer.__class__ is Layout:
        s, d = outer._s or [1], outer._d or [0]
        while product(tuple(s)) < reach:
            s = [*s[:-1], 2 * s[-1]]
        outer = raw_flat(s, d)
    last = to_f2(outer)
    if reach > last.size():
        raise refusal("f2-reach", operation="compose_f2", a=outer, b=inner, reach=reach)
    bases = [gf2.apply(last.bases, image) for image in first.bases]
    return F2Layout(first.shape, bases, last.offset ^ gf2.apply(last.bases, first.offset))


# -- bit matrices


def f2_matrix(x: AnyLayout | Swizzle | F2Map) -> Array:
    """Return the bit matrix of a layout or map: a NumPy uint8 array, one row for each offset bit
    and one column for each index bit, the lowest first.

    Law: offset bits == matrix @ index bits, modulo 2. Raises what `to_f2` raises, and LayoutError
    where index 0 has an offset other than 0, which no matrix can express.

    >>> f2_matrix(Layout((2, 4), (4, 1))).tolist()
    [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    """
    import numpy as np

    columns = f2_columns(x, "f2_matrix")
    rows = (
        x.bits
        if isinstance(x, F2Map)
        else max([column.bit_length() for column in columns], default=0)
    )
    bits = [[column >> row & 1 for column in columns] for row in range(rows)]
    return np.array(bits, dtype=np.uint8).reshape(rows, len(columns))


def f2_columns(x: AnyLayout | Swizzle | F2Map, operation: str) -> Sequence[int]:
    """Return the columns of the bit matrix of a layout or map, as ints."""
    if isinstance(x, F2Map):
        return x.columns
    f2 = to_f2(x)
    if f2.offset:
        raise refusal("f2-affine", operation=operation, layout=x, offset=f2.offset)
    return f2.bases


def from_f2_matrix(matrix: Array, shape: IntTuple = None) -> Layout | ComposedLayout | F2Layout:
    """Return the layout of a bit matrix: a Layout if there is one, else Swizzle o Layout, else an
    F2Layout.

    Args:
        matrix: rows of 0 and 1 (nested lists or a NumPy array), lowest offset bit first; columns
            are index bits, lowest first.
        shape: an int tuple of 2**columns coordinates; by default the index alone.

    Law: f2_matrix(result) is the matrix, without rows of zeros at its end. Raises LayoutError
    for anything but zeros and ones, and for shapes of another size.

    >>> print(from_f2_matrix([[0, 1, 0], [0, 0, 1], [1, 0, 0]], shape=(2, 4)))
    (2,4):(4,1)
    """
    import numpy as np

    try:
        bits = np.asarray(matrix)
    except ValueError:  # rows of different lengths
        bits = np.zeros(0)
    if bits.ndim != 2 or not np.isin(bits, (0, 1)).all():
        seen = f"an array of {bits.ndim} dimensions"
        if bits.ndim == 2:
            seen = f"entries such as {bits[(bits != 0) & (bits != 1)][0]!r}"
        raise refusal("f2-matrix", operation="from_f2_matrix", value=seen)
    columns = [sum([int(bit) << row for row, bit in enumerate(column)]) for column in bits.T]
    return from_f2(F2Layout(1 << len(columns) if shape is None else shape, columns))


def f2_rank(x: AnyLayout | Swizzle | F2Map) -> int:
    """Return the rank of the bit matrix: a layout reaches 2**rank different offsets.

    >>> f2_rank(Layout((4, 4), (1, 0)))
    2
    """
    return len(gf2.eliminate(_linear_part(x))[0])


def f2_kernel(x: AnyLayout | Swizzle | F2Map) -> list[int]:
    """Return a basis of the index changes that leave every offset the same: layout(i ^ k) ==
    layout(i).

    Their XORs are all such changes, 2**len of them.

    >>> f2_kernel(Layout((4, 4), (1, 0)))
    [4, 8]
    """
    return gf2.eliminate(_linear_part(x))[1]


def _linear_part(x: AnyLayout | Swizzle | F2Map) -> Sequence[int]:
    return f2_columns(x, "f2_kernel") if isinstance(x, F2Map) else to_f2(x).bases


# -- layouts as Triton's linear layouts list them: for every mode the images of 1, 2, 4, ... Source:
# Zhou et al., "Linear Layouts" (arXiv 2505.23819)


def to_linear_bases(
    layout: AnyLayout, names: Sequence[Any] | None = None, coshape: IntTuple = None
) -> dict[Any, list[Any]]:
    """Return, for every top-level mode, the images of its coordinates 1, 2, 4, ..., as Triton's
    linear layouts list them.

    Args:
        layout: what `to_f2` takes.
        names: one key for each mode, e.g. ("lane", "register"); by default the mode's index.
        coshape: powers of two; images are then coordinates in it (colexicographical), not offsets.

    Raises what `f2_matrix` raises; LayoutError for a wrong count of names or offsets past coshape.

    >>> from cute_py import Layout
    >>> to_linear_bases(Layout((4, 2), (2, 1)), names=("lane", "register"))
    {'lane': [2, 4], 'register': [1]}
    """
    f2 = F2Layout(to_f2(layout).shape, f2_columns(layout, "to_linear_bases"))
    keys = range(len(f2)) if names is None else names
    if not isinstance(keys, (tuple, list, range)):
        wanted, remedy = "one key for each mode", 'write ("lane", "register")'
        raise wrong_argument("to_linear_bases", names, wanted, remedy)
    if len(keys) != len(f2):
        raise refusal(
            "f2-names", operation="to_linear_bases", count=len(keys), layout=layout, rank=len(f2)
        )
    if coshape is not None:
        require_powers(coshape, "to_linear_bases")
        if f2.cosize() > product(coshape):
            facts: dict[str, Any] = {
                "layout": f2,
                "offset": f2.cosize() - 1,
                "coshape": show(coshape),
            }
            raise refusal("f2-coshape", operation="to_linear_bases", **facts)

    def split(image: int) -> IntTuple:
        return image if coshape is None else idx2crd(image, coshape)

    return {key: [split(x) for x in mode.bases] for key, mode in zip(keys, f2, strict=True)}


def from_linear_bases(
    bases: Mapping[Any, Iterable[Any]] | Iterable[tuple[Any, Iterable[Any]]],
    coshape: IntTuple = None,
) -> Layout | ComposedLayout | F2Layout:
    """Return the layout of linear-layout bases: one mode for each entry, in the order given.

    Args:
        bases: a dict (or pairs) from names to the images of 1, 2, 4, ...: offsets or coordinates.
        coshape: the shape of the coordinates; by default the smallest powers of two that contain
            them.

    Coordinates become offsets colexicographically: the first entry is the fastest. Returns a Layout
    if there is one, else Swizzle o Layout, else an F2Layout. Raises LayoutError for images that do
    not fit in coshape.

    >>> print(from_linear_bases({"lane": [(1, 0), (2, 0)], "register": [(0, 1)]}))
    (4,2):(1,4)
    """
    try:
        modes = [list(mode) for _, mode in (bases.items() if hasattr(bases, "items") else bases)]
    except (TypeError, ValueError):  # not pairs, or images that are not a list
        wanted, remedy = "a dict from names to images", 'write {"lane": [1, 2]}'
        raise wrong_argument("from_linear_bases", bases, wanted, remedy) from None
    points = [_as_tuple(image) for mode in modes for image in mode]
    if coshape is None and any(point.__class__ is tuple for point in points):
        coshape = _smallest_coshape(points)
    if coshape is not None:
        require_powers(coshape, "from_linear_bases")
    flat = points if coshape is None else [_flattened(point, coshape) for point in points]
    extents = tuple([1 << len(mode) for mode in modes])
    return from_f2(F2Layout(extents[0] if len(extents) == 1 else extents, flat))


def _as_tuple(image: IntTuple) -> IntTuple:
    if isinstance(image, (list, tuple)):
        return tuple([_as_tuple(part) for part in image])
    return images([image], "from_linear_bases")[0]


def _smallest_coshape(points: list[IntTuple]) -> IntTuple:
    ranks = {len(wrap(point)) for point in points}
    if len(ranks) > 1 or any(part.__class__ is tuple for p in points for part in wrap(p)):
        raise refusal("f2-points", operation="from_linear_bases", points=show(tuple(points)))
    return tuple([1 << max(part).bit_length() for part in zip(*map(wrap, points), strict=True)])


def _flattened(point: IntTuple, coshape: IntTuple) -> int:
    index: int = crd2idx(check_coordinate(point, coshape), coshape)
    if index >= product(coshape):
        raise refusal("f2-points", operation="from_linear_bases", points=show(point))
    return index
