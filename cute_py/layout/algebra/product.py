"""Products: repeat a block over the positions that a tiler gives, and tile_to_shape.

Source: cutlass include/cute/layout.hpp; Cecka, arXiv 2603.02298.
"""

from __future__ import annotations

from cute_py.errors import LayoutError, refusal
from cute_py.layout import AbstractComposed, special, tuples
from cute_py.layout.algebra.complement import apart, hull
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.divide import as_layout, by_mode, halves, side_by_side, zipped
from cute_py.layout.coords import LayoutLeft, compact_order
from cute_py.layout.layout import INTS, Layout, make_layout, operation
from cute_py.layout.modes import append, zip_
from cute_py.layout.queries import cosize
from cute_py.layout.tuples import ceil_div, evenly_divides, product_each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.layout.algebra.divide import Pair
    from cute_py.layout.types import Alike, IntTuple, Kind, Tiler


@operation
def logical_product(block: Kind, tiler: Tiler) -> Kind:
    """Return (block, repetition): (block, composition(complement of block, tiler)).

    Args:
        block: Layout or ComposedLayout.
        tiler: a layout of positions; an integer n (n:1); `_` (leave the mode as it is); or a
            by-mode tiler.

    Law: result(b, t) == block(b) + R(t), where R(t) are the positions of copies of block that do
    not overlap, in the order of tiler. Raises what `complement` and `composition` raise. Source:
    cutlass layout.hpp `logical_product`.

    >>> print(logical_product(Layout((2, 2), (4, 1)), Layout(6)))
    ((2,2),(2,3)):((4,1),(2,8))
    """
    if isinstance(tiler, AbstractComposed):
        return special.product_over(block, tiler)
    return by_mode("logical_product", block, tiler, _repeated)


def _repeated(block: Layout, tiler: Tiler) -> Layout:
    return make_layout(*_block_and_copies(block, tiler))


def _block_and_copies(block: Layout, tiler: Tiler) -> Pair:
    tiler = tiler if tiler.__class__ is Layout else as_layout(tiler, "logical_product")
    return block, composition(hull(block, cosize(tiler)), tiler)


@operation
def zipped_product(block: Kind, tiler: Tiler) -> Kind:
    """Return ((block0, block1, ...), (copies0, copies1, ...)): logical_product, gathered.

    >>> print(zipped_product(Layout((2, 2)), (3, 4)))
    ((2,2),(3,(2,2))):((1,2),(2,(1,4)))
    """
    return _arranged(block, tiler, lambda pair: make_layout(*pair))


def _zipped(block: Layout, tiler: Tiler) -> Pair:
    return zipped("logical_product", block, tiler, _block_and_copies, _as_pair)


def _arranged(
    block: Alike,
    tiler: Tiler,
    arrange: Callable[[Pair], Layout],
    split: Callable[[Layout, Tiler], Pair] = _zipped,
) -> Alike:
    """Return `arrange(blocks, copies)`, under the tiler's swizzle if it has one."""
    if not isinstance(tiler, AbstractComposed):
        return arrange(split(block, tiler))
    product = special.product_over(block, tiler)
    if product.__class__ is Layout:  # the swizzle has no effect there
        return arrange(halves(product))
    return product.changed(lambda inner: arrange(halves(inner)), "logical_product")


def _as_pair(mode: Layout) -> Pair:
    """Return the halves of a mode whose tiler is `_`, as `tile_unzip` reads it; refuse others."""
    if mode.shape.__class__ is not tuple or len(mode.shape) != 2:
        raise tuples.mismatch("tile_unzip", mode.shape, None)
    return halves(mode)


@operation
def tiled_product(block: Kind, tiler: Tiler) -> Kind:
    """Return ((block0, block1, ...), copies0, copies1, ...): zipped_product with the copies side by
    side.

    >>> print(tiled_product(Layout((2, 2)), Layout((3, 4))))
    ((2,2),3,4):((1,2),4,12)
    """
    return _arranged(block, tiler, side_by_side)


@operation
def flat_product(block: Kind, tiler: Tiler) -> Kind:
    """Return (block0, block1, ..., copies0, copies1, ...): zipped_product with everything side by
    side.

    >>> print(flat_product(Layout((2, 2)), Layout((3, 4))))
    (2,2,3,4):(1,2,4,12)
    """
    return _arranged(block, tiler, lambda pair: side_by_side(pair, flat=True))


@operation
def blocked_product(block: Kind, tiler: Tiler) -> Kind:
    """Return the product mode by mode, block inside grid: mode i is (block_i, tiler_i).

    Law: rank is the larger of both ranks; result((b_i, t_i)...) == block(b) + R(t).
    Source: cutlass layout.hpp `blocked_product`.

    >>> print(blocked_product(Layout((2, 2)), Layout((3, 4), (4, 1))))
    ((2,3),(2,4)):((1,16),(2,4))
    """
    return _ranked(block, tiler, zip_)


@operation
def raked_product(block: Kind, tiler: Tiler) -> Kind:
    """Return the product mode by mode, grid inside block: mode i is (tiler_i, block_i), the blocks
    interleaved.

    Source: cutlass layout.hpp `raked_product`.

    >>> print(raked_product(Layout((2, 2)), Layout((3, 4), (4, 1))))
    ((3,2),(4,2)):((16,1),(4,2))
    """
    return _ranked(block, tiler, lambda blocks, copies: zip_(copies, blocks))


def _block_and_copies_apart(block: Layout, tiler: Layout) -> Pair:
    return block, composition(apart(block, cosize(tiler)), tiler)


def _ranked(
    block: Alike,
    tiler: Tiler,
    arrange: Callable[[Layout, Layout], Layout],
    split: Callable[[Layout, Tiler], Pair] = _block_and_copies,
) -> Alike:
    """Return `arrange(block, copies)` of block and tiler padded to the same rank."""
    if not isinstance(tiler, (Layout, AbstractComposed)):
        tiler = as_layout(tiler, "product")
    rank = max(len(block), len(tiler))
    padded = [x if len(x) == rank else append(x, None, rank) for x in (block, tiler)]
    single = any(part.shape.__class__ is not tuple for part in padded)

    def ranked(pair: Pair) -> Layout:
        # integers are one mode each, even if the copies skip gaps of the block and have several
        return arrange(*(map(make_layout, pair) if single else pair))

    return _arranged(padded[0], padded[1], ranked, split)


@operation
def tile_to_shape(block: Kind, shape: IntTuple, order: IntTuple = LayoutLeft) -> Kind:
    """Return the block repeated until it has the size of `shape`, mode by mode.

    Args:
        block: Layout or ComposedLayout, of at most the rank of shape.
        shape: the target shape (elements); its modes must be multiples of the block's.
        order: which mode to repeat along first: a tuple whose smallest entry comes first,
            LayoutLeft or LayoutRight.

    Law: compatible(product_each(shape), result), and each mode of result is (block mode,
    repetition). Copies of the block do not overlap; they fill its gaps where a layout does that,
    and follow each other otherwise. Raises LayoutError where the block does not divide the shape.
    Source: cutlass layout.hpp `tile_to_shape`.

    >>> print(tile_to_shape(Layout((2, 2)), (4, 6)), tile_to_shape(Layout((2, 2)), (4, 6), (2, 1)))
    ((2,2),(2,3)):((1,4),(2,8)) ((2,2),(2,3)):((1,12),(2,4))
    >>> print(tile_to_shape(Layout(5, 2), 20), tile_to_shape(Layout(5, 2), 15))
    ((5,((2,2)))):((2,((1,10)))) ((5,(3))):((2,(10)))
    """
    shape = tuples.read(shape, "tile_to_shape")
    rank = tuples.rank(shape)
    if len(block) > rank:
        raise refusal(
            "rank-target", operation="tile_to_shape", rank=rank, layout=block, has=len(block)
        )
    padded = append(block, None, rank)
    block_shape, target = product_each(padded.shape), product_each(shape)
    if not evenly_divides(target, block_shape):
        rounded = tuples.show(tuples.round_up(target, block_shape))
        raise refusal(
            "tile-to-shape",
            operation="tile_to_shape",
            block=block,
            shape=tuples.show(shape),
            rounded=rounded,
            expressions=(f"tile_to_shape({block}, {rounded})",),
        )
    copies = ceil_div(target, block_shape)
    return _blocked(padded, Layout(copies, compact_order(copies, order)))


def _blocked(block: Alike, positions: Layout) -> Alike:
    """Return blocked_product, or that with copies beyond each other where no layout puts them into
    the gaps of the block.
    """
    try:
        return blocked_product(block, positions)
    except LayoutError as error:
        if error.code != "composition-departs" or block._kind != INTS:
            raise
    return _ranked(block, positions, zip_, _block_and_copies_apart)
