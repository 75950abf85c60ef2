"""`cute.layouts`: rows of a traced kernel, and owners that equal what threads access."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import _
from tests.sampling import fewer

FMA = "UniversalFMA<f32,f32,f32,f32>"


# -- the law: owners are what accesses touch


@st.composite
def tiled_copies(draw):
    """Return a tiled copy of 32-bit elements, as CuTe's make_tiled_copy makes them."""
    m, n = draw(st.sampled_from([(8, 4), (4, 8), (32, 1), (2, 16)]))
    threads = cute.Layout((m, n), draw(st.sampled_from([(1, m), (n, 1)])))
    values = cute.Layout(draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 2)])))
    return cute.make_tiled_copy(cute.Copy_Atom("UniversalCopy<32>", "f32"), threads, values)


@st.composite
def tiled_mmas(draw):
    """Return a tiled MMA whose operands are all of one type."""
    atom = draw(st.sampled_from([FMA, "SM80_8x8x4_F64F64F64F64_TN"]))
    counts = (8, 4) if atom == FMA else draw(st.sampled_from([(1, 1), (2, 1), (1, 2)]))
    m, n = counts
    strides = draw(st.sampled_from([(1, m, m * n), (n, 1, m * n)]))
    atoms = cute.Layout((m, n, 1), strides)
    mma = cute.make_tiled_mma(atom, atoms)
    twice = draw(st.sampled_from([_, 2 * mma.tile_size(1)]))
    return cute.make_tiled_mma(atom, atoms, (_, twice, _))


@st.composite
def cuts(draw):
    """Return (a function of a whole and a thread to the thread's part, the threads, a tile that
    must divide the whole).
    """
    kind = draw(st.sampled_from(["copy", "mma", "local_partition", "local_tile"]))
    if kind == "copy":
        copy, side = draw(tiled_copies()), draw(st.sampled_from("SD"))
        return (
            lambda x, t: getattr(copy.get_slice(t), f"partition_{side}")(x),
            copy.size(),
            copy.tile_shape,
        )
    if kind == "mma":
        mma, operand = draw(tiled_mmas()), draw(st.sampled_from("ABC"))
        tile = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}[operand]
        return (
            lambda x, t: getattr(mma.get_slice(t), f"partition_{operand}")(x),
            mma.size(),
            tuple(mma.tile_size(mode) for mode in tile),
        )
    if kind == "local_partition":
        threads = draw(st.sampled_from([((8, 4), (4, 1)), ((4, 8), (1, 4))]))
        layout = cute.Layout(*threads)
        return lambda x, t: cute.local_partition(x, layout, t), 32, threads[0]
    tile = draw(st.sampled_from([(1, 4), (2, 2)]))
    place = draw(st.sampled_from([lambda t: (t // 4, t % 4), lambda t: (t % 8, t // 8)]))
    return lambda x, t: cute.local_tile(x, tile, place(t)), 32, (tile[0] * 8, tile[1] * 4)


@st.composite
def wholes(draw, tile):
    """Return (shape, strides in memory, layout in shared memory or None) of a whole that the tile
    divides.
    """
    shape = tuple(n * draw(st.sampled_from([1, 2])) for n in tile)
    across = draw(st.booleans())
    pitch = shape[1 if across else 0] + draw(st.sampled_from([0, 3]))
    strides = (pitch, 1) if across else (1, pitch)
    plain = cute.Layout(shape, (shape[1], 1) if across else (1, shape[0]))
    swizzle = cute.Swizzle(*draw(st.sampled_from([(0, 0, 1), (1, 0, 2), (2, 1, 3)])))
    shared = draw(st.sampled_from([None, plain, cute.make_composed_layout(swizzle, 0, plain)]))
    return shape, strides, shared


def numbered(shape, strides, dtype):
    """Return an array of those strides whose elements are their colexicographical indices."""
    size = sum((n - 1) * d for n, d in zip(shape, strides, strict=True)) + 1
    held = np.zeros(size, dtype)
    x = np.lib.stride_tricks.as_strided(held, shape, [d * held.itemsize for d in strides])
    x[...] = np.arange(np.prod(shape)).reshape(shape, order="F")
    return x


@cute.kernel
def read(x: cute.Tensor, out: cute.Tensor, cut, threads, shape, shared):
    """Store what value v of thread t has in out[t, v], for all values."""
    cute.launch(grid=1, block=threads)
    t = cute.thread_idx()
    whole = cute.local_tile(x, shape, (0, 0))
    if shared is not None:
        tile, whole = whole, cute.smem(x.dtype, shared)
        with cute.when(t == 0):
            cute.copy(tile, whole)
        cute.syncthreads()
    part = cut(whole, t)
    held = cute.make_rmem_tensor(cute.size(part), x.dtype)
    cute.copy(part, held)
    cute.copy(held, cute.local_tile(out, (1, cute.size(part)), (t, 0)))


def require_owners(kernel, name, x, *statics, threads, values):
    """Run a kernel that stores what value v of thread t of `name` has, and compare the owners."""
    out = np.full((threads, values), -1, x.dtype)
    kernel(x, out, *statics)
    owners = cute.layouts(kernel, x, out, *statics)[name].owners()
    assert (owners.table == out).all(), (owners.title, out)
    return owners


@fewer(6)
@given(st.data())
def test_owners_are_the_elements_that_a_thread_reads(data):
    cut, threads, tile = data.draw(cuts())
    shape, strides, shared = data.draw(wholes(tile))
    part, _start = cut(cute.Layout(shape), 0)
    x = numbered(shape, strides, np.float32)
    require_owners(
        read, "part", x, cut, threads, shape, shared, threads=threads, values=part.size()
    )


@cute.kernel
def hold(x: cute.Tensor, out: cute.Tensor, mma, copy, shape, form):
    """Store what register v of thread t holds in out[t, v], for a fragment of a form."""
    cute.launch(grid=1, block=mma.size())
    t = cute.thread_idx()
    thr = mma.get_slice(t)
    tile = cute.local_tile(x, shape, (0, 0))
    if form[0] in "AB":
        shared = cute.smem(x.dtype, shape)
        held = getattr(thr, f"partition_fragment_{form}")(shared)
        cute.copy(getattr(thr, f"partition_{form}")(tile), held)
    else:
        part = thr.partition_C(tile)
        held = thr.make_fragment_C(part) if "like" not in form else cute.make_fragment_like(part)
        cute.copy(part, held)
    moved = copy.get_slice(t).retile_S(held) if "retile" in form else held
    kept = moved[_, 0, _] if "slice" in form else moved
    flat = cute.make_rmem_tensor(cute.size(kept), x.dtype)
    for v in range(cute.size(kept)):
        flat[v] = kept[v]
    cute.copy(flat, cute.local_tile(out, (1, cute.size(kept)), (t, 0)))


FORMS = ("A", "B", "C", "C like", "C retile", "C slice", "C retile slice")


@fewer(6)
@given(tiled_mmas(), st.sampled_from(FORMS), st.sampled_from([(1, 1), (2, 1), (2, 2)]))
def test_owners_of_registers_are_what_they_hold(mma, form, times):
    modes = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}[form[0]]
    shape = tuple(mma.tile_size(i) * n for i, n in zip(modes, times, strict=True))
    dtype = np.float32 if mma.atom.c_type is cute.f32 else np.float64
    x, kind = numbered(shape, (1, shape[0]), dtype), cute.from_numpy(dtype)
    copy = cute.make_tiled_copy_C(cute.Copy_Atom(f"UniversalCopy<{kind.bits}>", kind), mma)
    values = cute.size(getattr(mma, f"partition_shape_{form[0]}")(shape))
    if "slice" in form:
        values //= times[0]
    require_owners(hold, "kept", x, mma, copy, shape, form, threads=mma.size(), values=values)
