"""Tiled operations: random tilings partition every tensor, symbols partition in closed form,
products come out right, and what cannot be tiled is refused.
"""

import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, atoms
from cute_py.atoms import Copy_Atom
from cute_py.errors import CoordinateError, LayoutError
from tests.sampling import fewer

F16 = atoms.SM80_16x8x16_F32F16F16F32_TN
WARPS = Layout((2, 2, 1))
CP_ASYNC = Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL", 16)
QUAD_PAIRS = cute.make_tiled_mma("SM70_8x8x4_F32F16F16F32_TN", (3, 1, 1))
OPERANDS = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}  # the modes of (M, N, K) that an operand has

SMALL_ATOMS = [
    F16,
    atoms.SM80_16x8x8_F32TF32TF32F32_TN,
    atoms.SM80_8x8x4_F64F64F64F64_TN,
    atoms.SM80_16x8x32_S32S8S8S32_TN,
    atoms.SM75_16x8x8_F32F16F16F32_TN,
    atoms.get("UniversalFMA")("f32"),
]

atom_layouts = st.tuples(*[st.sampled_from([1, 2, 3])] * 2, st.sampled_from([1, 2])).flatmap(
    lambda shape: st.permutations(range(3)).map(
        lambda order: cute.make_ordered_layout(shape, tuple(order))
    )
)


@st.composite
def tiled_mmas(draw):
    """Draw a TiledMMA: an atom, threads in any order, and tiles of one to three atoms a mode."""
    atom = draw(st.sampled_from(SMALL_ATOMS))
    threads = draw(atom_layouts)
    reach = [a * t for a, t in zip(atom.shape_mnk, threads.shape, strict=True)]
    tiles = [draw(st.sampled_from([cute._, r, 2 * r, 3 * r])) for r in reach]
    for i in range(2):  # a permutation of M or N: two rows of atoms interleaved
        if tiles[i] == 2 * reach[i] and draw(st.booleans()):
            tiles[i] = Layout((reach[i], 2), (2, 1))
    return cute.make_tiled_mma(atom, threads, tuple(tiles))


def problem(mma, counts):
    return tuple(t * c for t, c in zip(mma.tile_shape, counts, strict=True))


def partitions(mma, operand, layout):
    """Yield the (thread, offsets) of every thread's partition, in the order of its values."""
    for thread in range(mma.size()):
        part, offset = getattr(mma.get_slice(thread), f"partition_{operand}")(layout)
        yield thread, offset + cute.offsets(part)


@given(tiled_mmas(), st.tuples(*[st.integers(1, 2)] * 3))
def test_partitions_of_all_threads_cover_every_operand_equally(mma, counts):
    """The thread-fragment view holds every element once; each partition is a slice of it."""
    mnk = problem(mma, counts)
    thread, threads = mma.size() * 2 // 3, mma.thr_layout_vmnk
    for operand, modes in OPERANDS.items():
        tensor = Layout(tuple(mnk[m] for m in modes))
        view = getattr(mma, f"thrfrg_{operand}")(tensor)
        assert sorted(cute.offsets(view).tolist()) == list(range(tensor.size()))
        v, m, n, k = cute.idx2crd(thread, threads.shape, threads.stride)
        one = (v, tuple((m, n, k)[i] for i in modes))
        part, offset = getattr(mma.get_slice(thread), f"partition_{operand}")(tensor)
        assert (cute.offsets(part) + offset == cute.offsets(view[1]) + view(one, 0)).all()


@given(tiled_mmas(), st.tuples(*[st.integers(1, 2)] * 3))
def test_partition_shapes_are_those_of_the_partitions(mma, counts):
    mnk = problem(mma, counts)
    for operand, modes in OPERANDS.items():
        shape = tuple(mnk[m] for m in modes)
        part, _ = getattr(mma.get_slice(0), f"partition_{operand}")(Layout(shape))
        claimed = getattr(mma, f"partition_shape_{operand}")(shape)
        assert cute.product_each(claimed) == cute.product_each(part.shape)
        assert cute.size(claimed) * mma.size() >= cute.size(shape)


@fewer(4)
@given(tiled_mmas(), st.integers(0, 2**32 - 1))
def test_an_emulated_product_of_integers_is_that_of_numpy(mma, seed):
    """Each thread contributes its values; each atom multiplies what the threads hold."""
    m, n, k = mnk = problem(mma, (1, 2, 1))
    assume(m * n * k <= 8_000)
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-8, 8, (m, k)), rng.integers(-8, 8, (n, k))
    c = np.zeros((m, n), dtype=int)
    held = {operand: rows_of_atoms(mma, operand, mnk) for operand in OPERANDS}
    for (i, j), tile_c in held["C"].items():
        for (i2, step), tile_a in held["A"].items():
            if i2 == i:
                tile_b = held["B"][j, step]
                rows, columns = tile_c
                c[np.ix_(rows, columns)] += (
                    a[np.ix_(rows, tile_a[1])] @ b[np.ix_(columns, tile_b[1])].T
                )
                assert (tile_a[0] == rows).all()
                assert (tile_b[0] == columns).all()
                assert (tile_a[1] == tile_b[1]).all()
    assert (c == a @ b.T).all()


def rows_of_atoms(mma, operand, mnk):
    """Return {atom coordinate: (its rows, its columns)} as the partitions lay the operand out."""
    modes = OPERANDS[operand]
    shape = tuple(mnk[m] for m in modes)
    threads, rest = mma.thr_layout_vmnk, {}
    for thread, offsets in partitions(mma, operand, Layout(shape)):
        part, _ = getattr(mma.get_slice(thread), f"partition_{operand}")(Layout(shape))
        warp = cute.idx2crd(thread, threads.shape, threads.stride)[1:]
        values = cute.size(part, 0)
        counts = [cute.size(part, 1), cute.size(part, 2)]
        table = offsets.reshape(values, *counts, order="F")
        for first in range(counts[0]):
            for second in range(counts[1]):
                place = (
                    warp[modes[0]] + threads.shape[1 + modes[0]] * first,
                    warp[modes[1]] + threads.shape[1 + modes[1]] * second,
                )
                rest.setdefault(place, []).extend(table[:, first, second].tolist())
    return {
        place: (
            np.unique(np.array(flat) % shape[0]),
            np.unique(np.array(flat) // shape[0]),
        )
        for place, flat in rest.items()
    }


@st.composite
def tiled_copies(draw):
    atom = draw(st.sampled_from([CP_ASYNC, Copy_Atom("UniversalCopy<64>", 16)]))
    rows, columns = draw(st.sampled_from([(8, 4), (32, 4), (16, 2), (6, 5)]))
    threads = Layout((rows, columns), draw(st.sampled_from([(1, rows), (columns, 1)])))
    wide = atom.num_values * draw(st.sampled_from([1, 2]))
    return cute.make_tiled_copy(atom, threads, draw(st.sampled_from([Layout((1, wide))])))


@fewer(2)
@given(tiled_copies(), st.integers(1, 2), st.integers(1, 2))
def test_copies_of_all_threads_are_a_bijection_onto_the_tensor(copy, rows, columns):
    shape = copy.tile_shape[0] * rows, copy.tile_shape[1] * columns
    for side in "SD":
        everyone = np.concatenate(
            [offsets for _, offsets in partitions(copy, side, Layout(shape, (shape[1], 1)))]
        )
        assert sorted(everyone.tolist()) == list(range(cute.size(shape)))


# -- fragments


@given(tiled_mmas(), st.tuples(*[st.integers(1, 2)] * 3))
def test_fragments_are_compact_and_of_the_shape_of_their_part(mma, counts):
    mnk, thread = problem(mma, counts), mma.get_slice(0)
    for operand, modes in OPERANDS.items():
        tensor = Layout(tuple(mnk[m] for m in modes))
        fragment = getattr(thread, f"partition_fragment_{operand}")(tensor)
        part, _ = getattr(thread, f"partition_{operand}")(tensor)
        assert fragment == getattr(thread, f"make_fragment_{operand}")(part)
        assert cute.congruent(fragment.shape, part.shape)
        assert cute.filter_zeros(fragment).cosize() == cute.filter_zeros(fragment).size()


def test_a_fragment_in_shared_memory_is_its_descriptors():
    mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
    tile = cute.tile_to_shape(atoms.Layout_K_SW128_Atom("f16"), (128, 64))
    part, _ = mma.get_slice(0).partition_A(tile)
    descriptor, others = mma.get_slice(0).partition_fragment_A(tile)
    assert (descriptor, others) == atoms.gmma_fragment(part, "f16", "K")
    assert str(others) == "(1,2,4):(0,512,2)"  # 64 rows of 128 bytes apart; 16 columns of 2 bytes
    with pytest.raises(LayoutError, match="of 16-bit elements as K-major tile"):
        mma.get_slice(0).partition_fragment_A(Layout((128, 64), (64, 1)))


# -- symbols


@given(
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2]),
    st.integers(0, 127),
    st.sampled_from("ABC"),
)
def test_a_symbolic_tensor_partitions_as_each_of_its_instances(blocks_m, blocks_k, tid, operand):
    mma = cute.make_tiled_mma(F16, WARPS, (32, 32, 16))
    m, k = cute.sym("M", multiple_of=128), cute.sym("K", multiple_of=64)
    t = cute.sym("tid", min=0, max=127)
    values = {"M": 128 * blocks_m, "K": 64 * blocks_k, "tid": tid}
    part, offset = getattr(mma.get_slice(t), f"partition_{operand}")(Layout((m, k), (k, 1)))
    numbers = values["M"], values["K"]
    expected, at = getattr(mma.get_slice(tid), f"partition_{operand}")(
        Layout(numbers, (numbers[1], 1))
    )
    assert cute.substitute(part, values) == expected
    assert cute.substitute(offset, values) == at


# -- tensors


def test_partitions_of_a_tensor_share_its_memory():
    array = np.zeros((64, 32), dtype=np.float16)
    mma = cute.make_tiled_mma(F16, WARPS, (32, 32, 16))
    for thread in range(mma.size()):
        part = mma.get_slice(thread).partition_A(cute.make_tensor(array))
        part.copy_(part.to_numpy() + 1)
    assert (array == 2).all()  # two warps along N read the same A


def test_the_threads_of_three_quad_pairs_are_those_of_their_lanes():
    named = []
    for thread in range(32):
        try:
            named.append(QUAD_PAIRS.get_slice(thread).thr_idx)
        except CoordinateError:
            continue
    assert named == [*range(12), *range(16, 28)]


# -- values


@pytest.mark.parametrize(
    "tiled",
    [
        cute.make_tiled_mma(F16, WARPS, (32, 32, 16)),
        cute.make_tiled_copy(CP_ASYNC, Layout((32, 4), (4, 1)), Layout((1, 8))),
    ],
    ids=str,
)
def test_tiled_operations_are_values(tiled):
    assert pickle.loads(pickle.dumps(tiled)) == tiled
    assert hash(pickle.loads(pickle.dumps(tiled))) == hash(tiled)
    with pytest.raises(AttributeError):
        tiled.shape_mnk = 1
