"""Suggested copies and permutations: they exist, cover their tile, and are as wide as can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import atoms
from cute_py.analysis import coalescing
from cute_py.atoms.copy import Copy_Atom
from cute_py.tiled.coverage import coverage
from cute_py.tiled.suggest import suggest_permutation, suggest_tiled_copy
from cute_py.tiled.tiled_copy import make_tiled_copy_A, make_tiled_copy_B
from cute_py.tiled.tiled_mma import make_tiled_mma
from tests.sampling import each

extents = st.sampled_from((8, 16, 24, 32, 64, 96, 128))


def any_arrangement(row, rows, threads, bits):
    """Whether some lanes along the row and down, in some width, divide a tile."""
    return any(
        row % (across * vector) == 0 and rows % (threads // across) == 0
        for vector in (width // bits for width in (128, 64, 32, 16, 8) if width >= bits)
        for across in range(1, threads + 1)
        if threads % across == 0
    )


@given(
    extents,
    extents,
    st.sampled_from(("f16", "f32", "s8", "s4")),
    st.sampled_from((32, 64, 128, 256)),
    st.sampled_from(("K", "MN")),
)
def test_suggested_copies_cover_the_tile_once_by_all_threads(m, k, dtype, threads, major):
    bits = cute.dtype(dtype).bits
    try:
        copy = suggest_tiled_copy((m, k), dtype, threads, major)
    except cute.LayoutError:
        assert not any_arrangement(
            m if major == "MN" else k, m if major == "K" else k, threads, bits
        )
        return
    assert copy.size() == threads
    assert coverage(copy, (m, k)).exact


@given(
    st.sampled_from((16, 32, 64, 128)),
    st.sampled_from((32, 64, 128)),
    st.sampled_from((32, 64, 128)),
)
def test_powers_of_two_always_have_a_copy_of_whole_sectors(m, k, threads):
    copy = suggest_tiled_copy((m, k), "f16", threads)
    stored = cute.Layout((m, k), (k, 1))
    assert coalescing(copy, stored).efficiency == 1.0
    assert copy.atom.num_values * threads <= m * k
    if m * k >= 8 * threads:
        assert copy.atom.op.src_bits == 128


def test_suggestion_for_a_128x32_tile():
    copy = suggest_tiled_copy((128, 32), "f16", 128)
    assert str(copy.layout_tv) == "((4,32),8):((256,1),32)"
    assert [copy.layout_tv(t, 0) for t in (0, 1, 4)] == [0, 256, 1]
    strided = suggest_tiled_copy((128, 32), "f16", 128, "MN")
    assert strided.tile_shape == (128, 8)
    asynchronous = suggest_tiled_copy(
        (128, 32), "f16", 128, op="SM80_CP_ASYNC_CACHEALWAYS", vector_bits=64
    )
    assert str(asynchronous.atom.op) == "SM80_CP_ASYNC_CACHEALWAYS<64>"
    grouped = suggest_tiled_copy((128, 32), "f16", 128, op="SM80_CP_ASYNC_CACHEGLOBAL")
    assert str(grouped.atom.op) == "SM80_CP_ASYNC_CACHEGLOBAL<128>"


@each(
    [
        "SM80_16x8x16_F32BF16BF16F32_TN",
        "SM80_16x8x8_F32F16F16F32_TN",
        "SM80_16x8x32_S32S8S8S32_TN",
        "SM80_16x8x8_F32TF32TF32F32_TN",
        "SM89_16x8x32_F32E4M3E4M3F32_TN",
    ],
    [(1, 1, 1), (2, 2, 1), (4, 1, 1), (1, 4, 1)],
    [1, 2, 4],
)
def test_suggested_permutations_feed_the_widest_ldmatrix(name, layout, matrices):
    atom = atoms.get(name)
    tile = suggest_permutation(make_tiled_mma(atom, layout), matrices)
    mma = make_tiled_mma(atom, layout, tile)
    for make, dtype in ((make_tiled_copy_A, atom.a_type), (make_tiled_copy_B, atom.b_type)):
        copy = make(Copy_Atom(f"SM75_U32x{matrices}_LDSM_N", dtype), mma)
        found = coverage(copy)
        assert found.exact, str(found)


def test_x4_needs_two_atoms_of_n_for_each_warp():
    plain = make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1))
    assert plain.tile_shape == (32, 16, 16)
    assert suggest_permutation(plain) == (32, 32, 16)
    with pytest.raises(cute.LayoutError):
        make_tiled_copy_B(Copy_Atom("SM75_U32x4_LDSM_N", "bf16"), plain)
