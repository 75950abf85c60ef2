"""The thread maps of CUTLASS 2.x: their formulas, their checks, and what they cover."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.atoms.copy import Copy_Atom
from cute_py.tiled.coverage import coverage
from cute_py.tiled.thread_maps import (
    raked_arrangement,
    simt_transpose_padding,
    stripmined_thread_map,
    transposed_thread_map,
    warp_raked_thread_map,
)
from tests.sampling import each, fewer


def accesses(found, thread):
    """The first coordinate of each access of a thread, from layout_tv."""
    (c, _), e = found.shape, found.elements
    indices = [
        found.layout_tv(thread, e * i) for i in range(found.iterations[0] * found.iterations[1])
    ]
    return [(i % c, i // c) for i in indices]


def by_formula(found, start):
    """The coordinates start + delta * iteration, the contiguous iteration first."""
    return [
        (start[0] + i * found.delta[0], start[1] + j * found.delta[1])
        for j in range(found.iterations[1])
        for i in range(found.iterations[0])
    ]


powers = st.sampled_from((1, 2, 4, 8))


@fewer(2)
@given(powers, powers, powers, powers)
def test_stripmined_accesses_are_start_plus_delta_times_iteration(row, rows, threads, elements):
    shape = (row * 8 * elements, rows * 8)
    found = stripmined_thread_map(shape, threads * 8, elements)
    accesses_of_row = shape[0] // elements
    for t in range(found.threads):
        start = (t % accesses_of_row * elements, t // accesses_of_row)
        assert found.start(t) == start
        assert accesses(found, t) == by_formula(found, start)
    copy = found.tiled_copy(Copy_Atom("UniversalCopy<8>", "u8"))
    assert coverage(copy).exact


@fewer(2)
@given(powers, powers, powers, st.sampled_from(((4, 8), (8, 4), (2, 16), (32, 1))), powers)
def test_raked_accesses_are_start_plus_delta_times_iteration(
    row, rows, warps, arrangement, elements
):
    wc, ws = arrangement
    shape = (row * wc * elements, rows * ws)
    if row * rows < warps:
        with pytest.raises(cute.LayoutError):
            warp_raked_thread_map(shape, 32 * warps, arrangement, elements)
        return
    found = warp_raked_thread_map(shape, 32 * warps, arrangement, elements)
    warps_s = min(rows, warps)
    warps_c = warps // warps_s if warps > rows else 1
    ic, is_ = row // warps_c, rows // warps_s
    assert found.iterations == (ic, is_)
    for t in range(found.threads):
        w, lane = divmod(t, 32)
        contiguous = (wc * ic * (w % warps_c) + lane % wc) * elements
        start = (contiguous, ws * is_ * (w // warps_c) + lane // wc)
        assert found.start(t) == start
        assert accesses(found, t) == by_formula(found, start)
    assert coverage(found.tiled_copy(Copy_Atom("UniversalCopy<8>", "u8"))).exact


def test_stripmined_8x128_by_256_threads():
    found = stripmined_thread_map((8, 128), 256)
    assert (found.iterations, found.delta, found.start(255)) == ((1, 4), (1, 32), (7, 31))
    assert coverage(found.tiled_copy(Copy_Atom("UniversalCopy<32>", "f32"))).exact


def test_stripmined_with_fewer_threads_than_a_row_has_accesses():
    found = stripmined_thread_map((128, 4), 8, 4)
    assert (found.iterations, found.delta) == ((4, 4), (32, 1))
    assert [found.start(t) for t in (0, 1, 7)] == [(0, 0), (4, 0), (28, 0)]


def test_transposed_map_swaps_contiguous_and_strided():
    base = stripmined_thread_map((8, 128), 256)
    found = transposed_thread_map(base)
    assert (found.shape, found.iterations, found.delta) == ((128, 8), (4, 1), (32, 1))
    assert found.start(1) == (0, 1)
    assert [found.start(t) for t in range(256)] == [base.start(t)[::-1] for t in range(256)]
    assert coverage(found.tiled_copy(Copy_Atom("UniversalCopy<32>", "f32"))).exact


def test_raked_128x32_by_128_threads():
    found = warp_raked_thread_map((128, 32), 128, (8, 4), 8)
    assert (found.iterations, found.delta) == ((2, 2), (64, 4))
    assert [found.start(t) for t in (8, 31, 32, 127)] == [(0, 1), (56, 3), (0, 8), (56, 27)]
    copy = found.tiled_copy(Copy_Atom("UniversalCopy<128>", "f16"))
    assert coverage(copy).exact
    assert copy.tile_shape == (128, 32)


def test_tensor_op_arrangements():
    """f16 128x128x32 congruous has 8x4 lanes; s4 with K = 128 crosswise has 4x8, and 4 accesses."""
    assert raked_arrangement(128, 16, most=8) == (8, 4)
    assert raked_arrangement(128, 4) == (4, 8)
    found = warp_raked_thread_map((128, 128), 128, raked_arrangement(128, 4), 32)
    assert found.iterations == (1, 4)
    assert coverage(found.tiled_copy(Copy_Atom("UniversalCopy<128>", "s4"))).exact


def test_simt_padding_of_k_8():
    bits = {"f32": 32, "f64": 64, "f16": 16, "s8": 8}
    assert [simt_transpose_padding(8, b) for b in bits.values()] == [4, 2, 8, 16]


@each(
    [
        lambda x: stripmined_thread_map(x, 32),
        lambda x: stripmined_thread_map((8, x), 32),
        lambda x: stripmined_thread_map((8, 8), x),
        lambda x: stripmined_thread_map((8, 8), 8, x),
        lambda x: transposed_thread_map(x),
        lambda x: warp_raked_thread_map((128, 32), 128, x),
        lambda x: raked_arrangement(128, x),
        lambda x: simt_transpose_padding(x, 32),
        lambda x: stripmined_thread_map((8, 8), 8).tiled_copy(x),
    ],
    [None, "8", 1.5, True, object()],
)
def test_wrong_types_are_refused_in_words(make, junk):
    with pytest.raises(cute.CuteError):
        make(junk)


@pytest.mark.parametrize("shape", [(0, 8), (-8, 8), (8, 0), (8, -8), (8,), (8, 8, 8)])
def test_tiles_without_elements_or_of_other_modes_have_no_map(shape):
    with pytest.raises(cute.LayoutError):
        stripmined_thread_map(shape, 8)
    with pytest.raises(cute.LayoutError):
        warp_raked_thread_map(shape, 32, (8, 4))


def test_refusals_of_maps_name_what_is_required():
    with pytest.raises(cute.LayoutError, match=r"given \(8,\); required: two numbers") as caught:
        stripmined_thread_map((8,), 8)
    assert caught.value.code == "thread-map-pair"
    with pytest.raises(cute.LeafTypeError, match=r"given None .* required: a ThreadMap") as caught:
        transposed_thread_map(None)
    assert caught.value.code == "thread-map"


@pytest.mark.parametrize("bits", [0, -8, 24, 48])
def test_padding_is_of_elements_that_divide_an_access(bits):
    with pytest.raises(cute.LayoutError, match="bits of an element"):
        simt_transpose_padding(8, bits)
