"""coalescing() and vector_width(): against counts of bytes by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout
from cute_py.analysis import Access, coalescing, vector_width
from cute_py.atoms.copy import Copy_Atom
from cute_py.tiled.suggest import suggest_tiled_copy
from cute_py.tiled.tiled_copy import make_tiled_copy
from tests.sampling import fewer


@fewer(2)
@given(
    st.sampled_from(((32, 4), (8, 16), (4, 8), (64, 1))),
    st.sampled_from((1, 2, 8)),
    st.integers(0, 3),
    st.sampled_from((0, 1)),
)
def test_sectors_are_the_distinct_32_byte_blocks_of_each_request(threads, vector, pad, major):
    val = (vector, 1) if major == 0 else (1, vector)
    order = (1, threads[0]) if major == 0 else (threads[1], 1)
    copy = make_tiled_copy(
        Copy_Atom(f"UniversalCopy<{16 * vector}>", "f16"), Layout(threads, order), Layout(val)
    )
    m, n = (2 * extent for extent in copy.tile_shape)
    stride = (m if major == 0 else n) + pad * vector
    layout = Layout((m, n), (1, stride) if major == 0 else (stride, 1))
    parts = [copy.get_slice(t).partition_S(layout) for t in range(copy.size())]
    sectors = asked = 0
    for warp in range(0, copy.size(), 32):
        for i in range(cute.size(parts[0][0]) // vector):
            hit = set()
            for part, offset in parts[warp : warp + 32]:
                start = 2 * (part(vector * i) + offset)
                hit.update(range(start, start + 2 * vector))
            sectors += len({byte // 32 for byte in hit})
            asked += len(hit)
    found = coalescing(copy, layout)
    assert (found.sectors, found.bytes) == (sectors, asked)
    assert found.efficiency == asked / (32 * sectors) <= 1


def test_neighbouring_lanes_share_sectors():
    words = Access(Layout((32, 1)), 32, "f32")
    found = coalescing(words, Layout(32))
    assert (found.sectors, found.ideal, found.efficiency) == (4, 4, 1.0)
    apart = coalescing(words, Layout(32, 8))
    assert (apart.sectors, apart.ideal, apart.efficiency) == (32, 4, 0.125)
    same = coalescing(Access(Layout((32, 1), (0, 0)), 32, "f32"), Layout(32))
    assert (same.sectors, same.bytes) == (1, 4)


def test_suggested_copies_fetch_whole_sectors():
    layout = Layout((128, 64), (4096, 1))
    found = coalescing(suggest_tiled_copy((128, 64), "f16", 256), layout)
    assert (found.requests, found.sectors_per_request, found.efficiency) == (32, 16.0, 1.0)
    across = coalescing(suggest_tiled_copy((128, 64), "f16", 256, "MN", 16), layout)
    assert (across.sectors_per_request, across.efficiency) == (32.0, 2 / 32)
    assert "6% of the bytes used" in str(across)


@given(
    st.sampled_from((4, 6, 8, 16)),
    st.sampled_from((4, 8)),
    st.sampled_from(((1, 16), (1, 24), (1, 18), (8, 1), (12, 1), (2, 64))),
    st.sampled_from(((1, 16), (1, 20), (16, 1))),
)
def test_vectors_lie_side_by_side_aligned_and_in_one_order(m, n, a, b):
    first, second = Layout((m, n), a), Layout((m, n), b)
    bits = vector_width(first, second, dtype="f16")
    count = bits // 16

    def works(size):
        if m * n % size:
            return False
        order = np.argsort([first(i) for i in range(m * n)], kind="stable")
        for run in order.reshape(-1, size):
            for layout in (first, second):
                offsets = [layout(int(i)) for i in run]
                if offsets != list(range(offsets[0], offsets[0] + size)) or offsets[0] % size:
                    return False
        return True

    assert works(count)
    assert bits == 128 or not works(2 * count)


def test_vector_width_of_a_copy_is_that_of_each_thread():
    copy = suggest_tiled_copy((64, 64), "f16", 64, vector_bits=128)
    rows, columns = Layout((64, 64), (64, 1)), Layout((64, 64))
    assert vector_width(copy, rows) == 128
    assert vector_width(copy, rows, rows) == 128
    assert vector_width(copy, rows, columns) == 16
    assert vector_width(copy, Layout((64, 64), (68, 1))) == 64
    swizzled = cute.make_composed_layout(cute.Swizzle(3, 2, 3), 0, rows)
    assert vector_width(copy, rows, swizzled) == 64


def test_auto_vectorising_copies_are_as_wide_as_the_layout_allows():
    copy = make_tiled_copy(
        Copy_Atom("AutoVectorizingCopyWithAssumedAlignment<128>", "f16"),
        Layout((32, 1), (1, 0)),
        Layout((1, 8)),
    )
    assert coalescing(copy, Layout((32, 8), (8, 1))).requests == 1
    assert coalescing(copy, Layout((32, 8), (12, 1))).requests == 2  # 64 bits
    assert coalescing(copy, Layout((32, 8))).requests == 8
