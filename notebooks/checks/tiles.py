"""The laws of lessons 4 and 5: atoms, and tiled operations."""

import cute_py as cute

from .laws import Wrong, agree, exact, exercise, required

# -- 4 atoms

ATOM = cute.atoms.get("SM80_16x8x16_F32F16F16F32_TN")


@exercise("4.1")
def _(thread, value):
    """The thread and the value hold the element (9, 3) of C."""
    for i in thread, value:
        required(i, int, "an integer for the thread, and one for the value")
    index = ATOM.c_tv(thread, value)
    if index != 9 + 16 * 3:
        at = (index % 16, index // 16)
        raise Wrong(f"thread {thread} holds element {at} of C as its value {value}", ATOM)


@exercise("4.2")
def _(layout):
    """Value v of thread t is the element (t // 4, 4 * (t % 4) + v) of the 8 x 16 tile."""
    agree(layout, (32, 4), lambda t, v: t // 4 + 8 * (4 * (t % 4) + v), "(thread, value)")


@exercise("4.3")
def _(layout):
    """It is the TV layout of C: row t // 4 + 8 * (v // 2), column 2 * (t % 4) + v % 2."""
    agree(layout, (32, 4), ATOM.c_tv, "(thread, value)")


@exercise("4.4")
def _(layout):
    """Element (m, n) of C is value v of thread t, where the layout gives t + 32 * v."""

    def law(m, n):
        return next(i for i in range(128) if ATOM.c_tv(i) == m + 16 * n)

    agree(layout, (16, 8), law)


# -- 5 tiled operations


@exercise("5.1")
def _(mma):
    """128 threads multiply 64 x 16 x 16, and each element of C has one owner."""
    required(mma, cute.TiledMMA, "a TiledMMA")
    if (mma.size(), mma.tile_shape) != (128, (64, 16, 16)):
        raise Wrong(
            f"{mma.size()} threads multiply {mma.tile_shape}; required: 128 and (64, 16, 16)", mma
        )
    exact(mma, mma.tile_shape)


TILE_C = cute.Layout((32, 32))


def tiled_mma():
    """Return the TiledMMA of lesson 5: 2 x 2 warps on a tile of 32 x 32 x 16."""
    return cute.make_tiled_mma(ATOM, (2, 2, 1), (32, 32, 16))


@exercise("5.2")
def _(shape):
    """It is the shape of a thread's part of C: (MMA, MMA_M, MMA_N)."""
    shape_of_c = tiled_mma().partition_shape_C((128, 64))
    if required(shape, tuple, "a tuple") != shape_of_c:
        held, needed = cute.size(shape), cute.size(shape_of_c)
        where = f"{held} elements for each thread, and C has {needed} for each of 128 threads"
        raise Wrong(f"given {shape}: {where}; the tile is 32 x 32, an atom's values are (2, 2)")


@exercise("5.3")
def _(thread):
    """The element (10, 20) of the 32 x 32 tile is one of the thread's."""
    part, offset = tiled_mma().get_slice(required(thread, int, "an integer")).partition_C(TILE_C)
    held = [divmod(offset + part(i), 32)[::-1] for i in range(cute.size(part))]
    if (10, 20) not in held:
        some = ", ".join(map(str, held[:4]))
        raise Wrong(f"thread {thread} holds {some} and so on", tiled_mma().get_slice(thread))


@exercise("5.4")
def _(copy):
    """128 threads copy a 64 x 32 tile of f16 once, 16 bytes at a time, and use all bytes of every
    sector that they touch.
    """
    exact(required(copy, cute.TiledCopy, "a TiledCopy"), (64, 32))
    rows = cute.Layout((64, 32), (4096, 1))  # a tile of a matrix whose rows are 4096 elements
    found = cute.analysis.coalescing(copy, rows)
    if copy.size() != 128 or "<128>" not in str(copy):
        raise Wrong(f"{copy.size()} threads, not 128, or another width than 128 bits; {found}")
    if found.sectors != found.ideal:
        raise Wrong(f"{found}", cute.show(found))
