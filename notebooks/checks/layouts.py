"""The laws of lessons 1 to 3: layouts, their algebra, swizzles and banks."""

from itertools import product

import cute_py as cute

from .laws import (
    Wrong,
    a_layout,
    a_tile,
    agree,
    exercise,
    free_of_conflicts,
    numbers,
    offsets,
    once,
    required,
    sizes,
)

# -- 1 layouts


@exercise("1.1")
def _(layout):
    """Element (i, j) is at i + 4 * j, for all i < 4 and j < 8."""
    agree(layout, (4, 8), lambda i, j: i + 4 * j)


@exercise("1.2")
def _(layout):
    """Element (i, j) is at 36 * i + j, for all i < 8 and j < 32: rows start 36 elements apart."""
    agree(layout, (8, 32), lambda i, j: 36 * i + j)


@exercise("1.3")
def _(layout):
    """Every column of the 8 x 4 layout is the same 8 offsets, 0 to 7: the strides repeat it."""
    agree(layout, (8, 4), lambda i, j: i)


@exercise("1.4")
def _(layout):
    """Element (i, j) is at 4 * (its block) + i % 2 + 2 * (j % 2), blocks counted down columns."""
    agree(layout, (4, 4), lambda i, j: 4 * (i // 2 + 2 * (j // 2)) + i % 2 + 2 * (j % 2))


# -- 2 algebra

TALL = cute.Layout((8, 6), (6, 1))


@exercise("2.1")
def _(b):
    """a(b(i, j)) is the element (2 * i, j) of a, for all i < 4 and j < 6: the even rows."""
    if offsets(b, (4, 6), lambda i, j: TALL(2 * i, j)):
        raise Wrong(
            f"{b} has the offsets of the even rows in memory, such as {b(1, 0)} for row 2. But b "
            "picks elements of a by their number, counted down the columns: row 2 of column 0 is "
            "number 2, row 0 of column 1 is number 8",
            cute.show(TALL, b),
        )
    agree(cute.composition(TALL, a_layout(b)), (4, 6), lambda i, j: TALL(2 * i, j))


@exercise("2.2")
def _(layout):
    """Mode 0 runs over a tile of 2 x 3, mode 1 over the 4 x 2 tiles of the matrix."""

    def law(inside, tile):
        return TALL(inside % 2 + 2 * (tile % 4), inside // 2 + 3 * (tile // 4))

    for function in cute.logical_divide, cute.tiled_divide, cute.flat_divide:
        if layout == function(TALL, (2, 3)):
            raise Wrong(
                f"{layout} is what {function.__name__} returns: the right tiles, in modes of the "
                f"sizes {sizes(layout)}. Mode 0 has to be the tile, and mode 1 all tiles: (6, 8)",
                layout,
            )
    if layout == cute.zipped_divide(cute.Layout((8, 6)), (2, 3)):
        raise Wrong(
            f"{layout} has the tiles of the column-major (8,6):(1,8): it gives the number of each "
            f"element, not its offset in a, {TALL}. Divide a, or compose a with this",
            layout,
        )
    if offsets(layout, (8, 6), lambda tile, inside: law(inside, tile)):
        raise Wrong(
            f"{layout} has the tiles in mode 0 and the elements of a tile in mode 1", layout
        )
    agree(layout, (6, 8), law, "(inside, tile)")


@exercise("2.3")
def _(layout):
    """With 8:2, the answer covers 0 to 31 once: (8:2, answer) is a bijection onto 32 offsets."""
    once(cute.make_layout(cute.Layout(8, 2), a_layout(layout)), 32)


@exercise("2.4")
def _(extent):
    """composition((extent,6):(1,5), 3:3) exists, and is a(b(i)) for every i, with extent > 1."""
    if not 1 < required(extent, int, "an integer") < 7:
        raise Wrong(f"given {extent}; required: an integer from 2 to 6")
    a, b = cute.Layout((extent, 6), (1, 5)), cute.Layout(3, 3)
    agree(cute.composition(a, b), (3,), lambda i: a(b(i)))


# -- 3 swizzles and banks

COLUMN = cute.analysis.Access(cute.Layout((32, 1), (1, 0)), 32, "f32")
ROW = cute.analysis.Access(cute.Layout((32, 1), (32, 0)), 32, "f32")
TILE_F16 = cute.Layout((8, 64), (64, 1))
LDMATRIX = cute.analysis.Access(cute.Layout((8, 8), (1, 64)), 128, "f16")


@exercise("3.1")
def _(lanes):
    """The 32 lanes read words of 32 different banks, and no two of them are next to each other."""
    lanes = numbers(lanes)
    if len(lanes) != 32:
        raise Wrong(f"{len(lanes)} addresses, not 32")
    if off := [x for x in lanes if x % 4]:
        words = sorted(x % 32 for x in lanes) == list(range(32))
        meant = (
            ". These are numbers of words, one in each bank: a word has 4 bytes" if words else ""
        )
        raise Wrong(f"address {off[0]} is not a multiple of 4: addresses count bytes{meant}")
    close = [i for i in range(31) if abs(lanes[i + 1] - lanes[i]) == 4]
    if close:
        raise Wrong(f"lanes {close[0]} and {close[0] + 1} read neighbouring words")
    found = cute.analysis.bank_conflicts(lanes, bits=32)
    banks = {address // 4 % 32 for address in lanes}
    if not found.conflict_free or len(banks) < 32:
        raise Wrong(f"{found}\n{len(banks)} of 32 banks are read", cute.show(found))


@exercise("3.2")
def _(layout):
    """Rows and columns of the 32 x 32 tile of f32 are free of conflicts, with padding alone."""
    if isinstance(layout, cute.ComposedLayout):
        raise Wrong(f"{layout} has a swizzle; required: a padded layout", layout)
    free_of_conflicts(a_tile(layout, (32, 32)), ROW, COLUMN)


@exercise("3.3")
def _(swizzle):
    """Every column of 16-byte vectors of the 8 x 64 tile is in 8 different groups of banks, and
    vectors stay whole.
    """
    layout = cute.composition(required(swizzle, cute.Swizzle, "a Swizzle"), TILE_F16)
    for row, column in product(range(8), range(0, 64, 8)):
        start = layout(row, column)
        if any(layout(row, column + i) != start + i for i in range(8)):
            raise Wrong(f"{layout}: the vector at ({row}, {column}) is torn apart", layout)
    free_of_conflicts(layout, LDMATRIX)


@exercise("3.4")
def _(layout):
    """Both copies have one wavefront per phase, and the tile takes 64 x 32 elements, no more."""
    copy = cute.suggest_tiled_copy((64, 32), "f16", 128, "K")
    mma = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    ldmatrix = cute.make_tiled_copy_A(cute.Copy_Atom("SM75_U32x4_LDSM_N", "f16"), mma)
    if cute.cosize(a_tile(layout, (64, 32))) > 64 * 32:
        raise Wrong(f"{layout} takes {cute.cosize(layout)} elements, more than 2048", layout)
    free_of_conflicts(layout, copy, ldmatrix)
