"""Numbers of the requirements, by their rows: SIMT lanes, epilogue stores, vector widths."""

import pytest

import cute_py as cute
from cute_py import Layout
from cute_py.analysis import Access, bank_conflicts, vector_width
from cute_py.atoms.copy import Copy_Atom
from cute_py.tiled.tiled_copy import make_tiled_copy_C
from cute_py.tiled.tiled_mma import make_tiled_mma

LANES = Layout(((2, 2), 8, 1), ((1, 16), 2, 0))  # 4x8 lanes of a warp, interleaved by two rows


def simt():
    """Return 4x8 lanes with 4x4 elements each."""
    return make_tiled_mma(
        "UniversalFMA", LANES, (Layout((4, 4), (4, 1)), Layout((8, 4), (4, 1)), 1)
    )


def place(lane):
    """Return (row, column) of a lane among 4x8."""
    return lane % 2 + 2 * (lane // 16), lane // 2 % 8


def test_g02_lanes_of_a_simt_warp_are_interleaved():
    assert [place(lane) for lane in range(4)] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    tv, rows = simt().get_layoutC_TV(), simt().tile_size(0)
    for lane in range(32):
        row, column = place(lane)
        assert tv(lane, 0) == 4 * row + rows * 4 * column


def test_g03_a_lane_holds_the_rows_of_its_vectors():
    """Rows 16 i + 4 row + m of A: eight lanes for each."""
    count = [0] * 32
    for lane in range(32):
        part, offset = simt().get_slice(lane).partition_A(Layout((32, 1)))
        row, _ = place(lane)
        found = [part(i) + offset for i in range(cute.size(part))]
        assert sorted(found) == [16 * i + 4 * row + m for i in range(2) for m in range(4)]
        for index in found:
            count[index] += 1
    assert count == [8] * 32


def test_g05_a_simt_warp_covers_32x64_once():
    """Lane (row, column) holds (16 i + 4 row + m, 32 j + 4 column + n), m and n below 4."""
    tile = Layout((32, 64))
    seen = []
    for lane in range(32):
        part, offset = simt().get_slice(lane).partition_C(tile)
        row, column = place(lane)
        own = {
            tile(16 * i + 4 * row + m, 32 * j + 4 * column + n)
            for i in range(2)
            for j in range(2)
            for m in range(4)
            for n in range(4)
        }
        found = [part(i) + offset for i in range(cute.size(part))]
        assert set(found) == own
        seen += found
    assert sorted(seen) == list(range(2048))


@pytest.mark.parametrize(("mode", "vectors"), [(0, (2, 2)), (1, (4, 8))], ids=["rows", "columns"])
def test_h17_a_quarter_warp_reads_two_row_vectors_and_four_column_vectors(mode, vectors):
    """128-bit loads of A and B fragments: 2 and 4 vectors by 8 lanes, 2 and 8 by 16."""
    addresses = [16 * place(lane)[mode] for lane in range(32)]
    for lanes, count in zip((8, 16), vectors, strict=True):
        for first in range(0, 32, lanes):
            assert len(set(addresses[first : first + lanes])) == count
    assert bank_conflicts(addresses, bits=128).conflict_free


@pytest.mark.parametrize("n", [64, 128, 256])
@pytest.mark.parametrize("warps", [1, 2])
def test_k15_accumulators_are_stored_without_conflict_with_8_elements_of_padding(n, warps):
    """64-bit stores of f32: lane l has row l // 4 and columns 2 (l % 4) and the next."""
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (warps, 1, 1))
    copy = make_tiled_copy_C(Copy_Atom("UniversalCopy<64>", "f32"), mma)
    for lane in range(32):
        part, offset = copy.get_slice(lane).partition_D(Layout((16 * warps, n), (n, 1)))
        assert offset + part(0) == n * (lane // 4) + 2 * (lane % 4)
    for padding in (0, 8):
        found = bank_conflicts(copy, Layout((16 * warps, n), (n + padding, 1)))
        assert all(len(pattern.phases) == 2 for pattern in found.patterns)
        assert found.conflict_free == (padding == 8)
        assert found.ways == (1 if padding else 4)


@pytest.mark.parametrize(("size", "width"), [(6, 2), (12, 4), (24, 8), (48, 16), (64, 16)])
def test_k28_an_access_is_the_largest_power_of_two_that_divides_the_bytes(size, width):
    assert vector_width(Layout(size), dtype="u8") == 8 * width


def test_lanes_that_share_a_word_are_served_together():
    """32 lanes read 8 words: one wavefront, whoever shares them."""
    shared = Access(Layout((32, 1), (0, 0)), 32, "f32")
    assert bank_conflicts(shared, Layout(32)).wavefronts == 1
    assert bank_conflicts([4 * (lane % 8) for lane in range(32)], bits=32).wavefronts == 1
