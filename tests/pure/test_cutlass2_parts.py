"""The classical parts of CUTLASS 2.x as data: iterators, output tiles, epilogues, cores, tags.

Numbers are those of CUTLASS 2.x's formulas, written down again here as loops over threads; each
test is named after the row of docs/coverage.md that it checks.
"""

from itertools import product

import pytest

import cute_py as cute
from cute_py import cutlass2
from cute_py.errors import LayoutError
from cute_py.tiled.coverage import coverage
from cute_py.tiled.tiled_mma import make_tiled_mma

# -- C20, J01


def test_c20_a_packed_vector_is_its_own_inverse():
    layout = cutlass2.packed_vector(10)
    assert (layout(7), cutlass2.capacity(layout), cute.stride(layout)) == (7, 10, 1)
    assert cute.right_inverse(layout) == layout


def test_j01_rows_that_do_not_divide_are_rounded_up():
    found = cutlass2.stripmined_thread_map((8, 100), 256)
    assert (found.iterations, found.delta, found.start(255)) == ((1, 4), (1, 32), (7, 31))
    places = [divmod(int(found.layout_tv(t, v)), 8) for t in range(256) for v in range(4)]
    assert len(set(places)) == 1024  # no element twice
    assert {place for place in places if place[0] < 100} == set(product(range(100), range(8)))


# -- J04 to J06, A18


def test_j04_a_row_major_matrix_is_described_as_pitch_linear():
    """A (M, K) row-major, tiles along K: pitch-linear (K, M) with rank 0; columns as they are."""
    threads = cutlass2.warp_raked_thread_map((32, 128), 128, (4, 8), 8)
    plain = cutlass2.tile_access_desc(threads, 16, 0)
    assert cutlass2.tile_access_desc(threads, 16, 1, "row_major") == plain
    assert (plain.advance_rank, plain.shape, plain.element_bits) == (0, (32, 128), 16)
    assert (plain.iterations, plain.delta) == (threads.iterations, threads.delta)
    for rank in (0, 1):
        by_column = cutlass2.tile_access_desc(threads, 16, rank, "column_major")
        assert by_column == cutlass2.tile_access_desc(threads, 16, rank)


def test_j05_increments_of_f16_with_256_elements_to_a_line():
    threads = cutlass2.warp_raked_thread_map((128, 32), 128, (8, 4), 8)
    params = cutlass2.tile_access_desc(threads, 16, 1).params(256)
    assert params[1:] == (2048, 16384, 14336)
    contiguous = cutlass2.tile_access_desc(threads, 16, 0).params(256)
    assert contiguous[1:] == (2048, 256, 256 - 2048)


def test_j06_any_truth_value_sets_one_bit():
    vector = cutlass2.PredicateVector(5).clear()
    assert vector.set(0, 2) == vector.set(0, True)
    assert vector.enable().set(0, 0) == vector.enable().set(0, False)


def test_j05_steps_are_whole_bytes():
    threads = cutlass2.warp_raked_thread_map((64, 32), 32, (1, 32), 64)
    desc = cutlass2.tile_access_desc(threads, 4, 1)
    assert desc.params(254).inc_advance == 32 * 254 // 2
    single = cutlass2.warp_raked_thread_map((256, 1), 32, (32, 1), 8)
    with pytest.raises(LayoutError, match=r"and 1020 .the bits of a step."):
        cutlass2.tile_access_desc(single, 4, 1).params(255)


def test_j06_a18_bits_of_predicates_are_cutlasss():
    assert cute.predicate_storage(17) == (5, 2)
    vector = cutlass2.PredicateVector(17).clear()
    wanted = [(0, 0), (0, 3), (0, 8), (0, 11), (0, 27), (1, 0)]
    assert [vector.place(i) for i in (0, 3, 4, 7, 15, 16)] == wanted
    for i in range(17):
        words = vector.set(i).words
        assert words == tuple((1 << (i % 16 // 4) * 8 + i % 4) * (i // 16 == w) for w in (0, 1))
        assert vector.set(i).set(i, False) == vector
    assert vector.enable().words == (2**32 - 1,) * 2
    assert vector.enable().clear() == vector
    assert cutlass2.PredicateVector(9, 2, 1).place(8) == (1, 1)


@pytest.mark.parametrize("steady", [False, True])
@pytest.mark.parametrize("rank", [0, 1])
def test_j06_predicates_are_whether_accesses_are_inside(steady, rank):
    """The residue tile is tested in both modes, later ones not along the mode of advance."""
    threads = cutlass2.warp_raked_thread_map((128, 32), 128, (8, 4), 8)
    desc, extent = cutlass2.tile_access_desc(threads, 16, rank), (70, 19)
    for t in range(threads.threads):
        c, s = threads.start(t)
        found = desc.predicates((c, s), extent, steady, vectors=2, elements=4)
        assert found.count == 8
        for i in range(8):
            at = c + i // 2 % 2 * 64 + i % 2 * 4, s + i // 4 * 4
            inside = [x < limit for x, limit in zip(at, extent, strict=True)]
            assert found[i] == (inside[1 - rank] if steady else all(inside))


# -- K16 to K23


def brute(shape, count, threads, elements, bits, compacted=False):
    """Start and iterations by CUTLASS's template arithmetic (OutputTileOptimalThreadMap)."""
    column, row, group, cluster, _tile = shape
    rows, groups = (1, 1) if compacted else (count[1], count[2])
    warps = threads // 32
    of_cluster = warps // cluster
    if group > of_cluster:
        it_group, of_group, remaining = group // of_cluster, 1, 1
        d_group = row * rows * group // it_group
    else:
        it_group, d_group = 1, 1
        of_group = remaining = of_cluster // group
    if row <= remaining:
        width, high, it_row, d_row = 32, 1, 1, 1
        it_col, d_col = column // elements // 32, 32 * elements
    else:
        share, wide = row // remaining, column // elements
        target = 256 // (elements * bits // 8)
        full = 32 // target > share
        width = 32 // share if full else min(wide, 32, target)
        high = share if full else min(row, 32 // width)
        it_row, d_row, it_col, d_col = share // high, high, wide // width, width * elements

    def start(t):
        w, lane = divmod(t, 32)
        ci, rest = divmod(w, of_cluster)
        gi, ri = divmod(rest, of_group)
        down = ci * row * rows * group * groups + gi * row * rows + ri * it_row * high
        return down + lane // width, lane % width * elements

    return start, (it_col, it_row, it_group, 1), (d_col, d_row, d_group, 1)


# block, warp, elements, bits, warps along K: P3's ten configurations of tensor cores
TENSOR_OP = [
    ((128, 128), (64, 64), 4, 32, 1),
    ((128, 128), (64, 64), 8, 16, 1),
    ((128, 256), (64, 64), 4, 32, 1),
    ((256, 128), (64, 64), 8, 16, 1),
    ((128, 64), (64, 32), 8, 16, 1),
    ((64, 64), (32, 32), 4, 32, 1),
    ((64, 256), (64, 64), 8, 16, 1),
    ((128, 128), (32, 64), 16, 8, 1),
    ((64, 64), (64, 64), 4, 32, 2),
    ((64, 128), (32, 64), 4, 32, 4),
]
SIMT = [
    ((128, 128), (32, 64), 1, 32, 1),
    ((128, 64), (64, 32), 1, 32, 1),
    ((64, 64), (32, 32), 1, 32, 2),
    ((128, 64), (64, 32), 1, 64, 4),
]


def maps():
    for *args, parts in TENSOR_OP:
        yield cutlass2.default_thread_map_tensor_op(*args, parts)
    for block, warp, elements, bits, parts in SIMT:
        lanes = (8, 4) if warp[0] > warp[1] else (4, 8)
        yield cutlass2.default_thread_map_simt(block, warp, elements, bits, lanes, 4, parts)


@pytest.mark.parametrize("found", list(maps()), ids=lambda m: f"{m.tile}x{m.threads}")
def test_k16_k18_k19_maps_are_cutlasss_and_cover_each_element_once(found):
    for this in (found, found.compacted()):
        args = this.shape, this.count, this.threads, this.elements, this.bits
        start, iterations, delta = brute(*args, this is not found)
        assert (this.iterations[:4], this.delta[:4]) == (iterations, delta)
        assert all(this.start(t) == start(t) for t in range(0, this.threads, 5))
        offsets = {this.offset(i) for i in range(cute.product(iterations))}
        assert len(offsets) == cute.product(iterations)
        copy = this.tiled_copy(cute.Copy_Atom("UniversalCopy<8>", "u8"))
        assert coverage(copy).exact
        assert cute.size(copy.tile_shape) == cute.size(this.layout)


def test_k16_iterations_unravel_with_the_column_fastest():
    found = cutlass2.default_thread_map_tensor_op((128, 128), (64, 64), 4, 32)
    assert [found.offset(i) for i in range(4)] == [(0, 0), (0, 64), (2, 0), (2, 64)]
    assert cutlass2.OutputTileShape(2, 3, 4).tile == 1


def test_k17_rows_are_arranged_in_one_or_two_dimensions():
    """1-D where each warp has at most a row; 2-D in 256 bytes of a row, less where rows run out."""
    arrange = cutlass2.row_arrangement
    assert arrange(1, 128, 1, 1, 32) == (32, 1, 1, 4, 1, 32)
    assert arrange(8, 128, 2, 4, 32) == (16, 2, 2, 2, 2, 64)
    assert arrange(8, 256, 4, 16, 8) == (16, 2, 1, 1, 2, 256)
    assert arrange(2, 64, 1, 4, 64) == (16, 2, 1, 1, 2, 64)


def test_k18_what_cutlass_does_not_cover_is_refused():
    """More clusters than warps, fewer rows than warps, and columns that lanes do not divide."""
    for shape, threads in (((128, 8, 1, 8), 64), ((128, 2, 1, 1), 128), ((96, 1, 4, 1), 128)):
        with pytest.raises(cute.LayoutError) as caught:
            cutlass2.output_tile_thread_map(shape, (1, 1, 1, 1, 1), threads, 4, 32)
        assert caught.value.code == "thread-map-divides"


def test_k20_simt_128x128_by_warps_of_32x64():
    found = cutlass2.default_thread_map_simt((128, 128), (32, 64), 1, 32)
    assert (found.shape, found.count) == ((128, 1, 4, 4, 1), (1, 4, 2, 1, 8))
    assert (found.iterations[:4], found.delta.group) == ((4, 1, 2, 1), 8)
    assert (found.start(32)[0], found.start(64)[0]) == (4, 32)


def test_k21_tensor_op_128x128_by_warps_of_64x64():
    found = cutlass2.default_thread_map_tensor_op((128, 128), (64, 64), 4, 32)
    assert (found.shape, found.count) == ((128, 8, 2, 1, 1), (1, 8, 1, 1, 8))
    assert (found.iterations[:4], found.delta[:2]) == ((2, 2, 1, 1), (64, 2))
    assert (found.start(32), found.start(127)) == ((4, 0), (69, 60))


def test_k22_a_map_is_described_by_its_numbers():
    """CUTLASS's ThreadMapDesc: threads, elements, shape, count, iterations, delta, as integers."""
    found = cutlass2.default_thread_map_tensor_op((128, 128), (64, 64), 4, 32)
    fields = found.shape, found.count, found.threads, found.elements, found.bits
    assert cutlass2.output_tile_thread_map(*fields) == found
    assert all(type(n) is int for part in (fields[0], fields[1], found.delta) for n in part)


@pytest.mark.parametrize("found", list(maps()), ids=lambda m: f"{m.tile}x{m.threads}")
def test_k23_increments_and_advances_reach_absolute_addresses(found):
    """A pointer that moves by the params alone, as CUTLASS's loops move it, against the layout."""
    stride = 1000
    params, (_column, rows, groups, clusters, _tile) = found.params(stride), found.iterations
    base = 0
    for step in range(found.steps):
        pointer, seen = base, []
        for cluster in range(clusters):
            for group in range(groups):
                for row in range(rows):
                    seen.append(pointer)
                    pointer += params.increment_row if row + 1 < rows else 0
                pointer += params.increment_group if group + 1 < groups else 0
            pointer += params.increment_cluster if cluster + 1 < clusters else 0
        state = found.state(step)
        wanted = [
            int(found.layout(0, (0, 0, row, group, cluster), state[:2])) % found.tile[0]
            for cluster, group, row in product(range(clusters), range(groups), range(rows))
        ]
        assert seen == [stride * row for row in wanted]
        base += params.advance_row
        if state[0] + 1 == found.count.row:
            base += params.advance_group
    cluster = (found.shape.group - 1) * found.shape.row * found.count.row
    assert params.advance_group == stride * cluster


def test_k24_adding_n_steps_is_n_times_one_step():
    """CUTLASS 2.x divides after it has reduced the counter, and loses the carry."""
    found = cutlass2.default_thread_map_simt((128, 128), (32, 64), 1, 32)
    row, group = 0, 0
    for step in range(found.steps):
        assert found.state(step) == (row, group, 0)
        row += 1
        if row == found.count.row:
            row, group = 0, group + 1
    assert found.state(found.steps) == (0, 0, 0)


# -- K10 to K14, K26


def test_k10_k11_k12_simt_of_32x64_with_4x8_lanes():
    found = cutlass2.simt_epilogue((32, 64), (32, 64))
    assert found.iterations == 8
    assert (found.accesses * found.elements, found.accesses, found.elements) == (8, 2, 4)
    assert found.padding == 16
    for step, n, e in product(range(8), range(2), range(4)):
        assert found.fragment((e, n), step) == 4 * (step * 2 + n) + e
    for lane, n, e in product(range(32), range(2), range(4)):
        row, column = lane // 8, lane % 8 * 4 + n * 32 + e
        assert found.layout_tv(lane, (e, n)) == row + 4 * column
    assert found.smem == cute.Layout((4, 64), (80, 1))


def test_k12_lanes_may_be_in_any_order():
    z_order = cutlass2.row_major_interleaved((4, 8), 2)
    found = cutlass2.simt_epilogue((32, 64), (32, 64), z_order)
    for row, column in product(range(4), range(8)):
        assert found.layout_tv(int(z_order(row, column)), 0) == row + 4 * 4 * column


def test_k13_k14_tensor_op_of_64x64_by_16x8():
    found = cutlass2.tensor_op_epilogue((64, 64), (64, 64))
    assert (found.iterations, found.elements, found.column_stride) == (8, 2, 16)
    for step, n, e in product(range(8), range(8), range(2)):
        assert found.fragment((e, n), step) == 2 * (step + n * 8) + e
    for lane, n, e in product(range(32), range(8), range(2)):
        assert found.layout_tv(lane, (e, n)) == lane // 4 + 8 * (2 * (lane % 4) + 8 * n + e)


def test_k13_the_stride_of_columns_is_that_of_the_rows_alone():
    """2 * mCount * (InstM / 8), whether a warp has one instruction along N or several."""
    for rows, m, columns in product((16, 32, 64), (8, 16), (8, 16, 64)):
        found = cutlass2.tensor_op_epilogue((64, 64), (rows, columns), (m, 8))
        assert found.column_stride == 2 * (rows // m) * (m // 8)


def test_k26_padding_is_four_accumulators_for_each_64_bits():
    shape = (128, 128), (64, 64)
    pads = {
        kind: cutlass2.default_epilogue_tensor_op(*shape, kind, "f32", 4).store.padding
        for kind in ("f32", "s32", "f16", "f64")
    }
    assert pads == {"f32": 8, "s32": 8, "f16": 16, "f64": 4}
    stores = [
        cutlass2.default_epilogue_tensor_op(*shape, "f64", kind, 2).cuda_store
        for kind in ("f64", "f32")
    ]
    assert stores == [True, False]
    assert cutlass2.default_epilogue_simt((128, 128), (32, 64), "f32").store.padding == 17


# -- G07, F19, H02, H06 to H09

RESOLVED = {
    ("f16", "f32", (16, 8, 16)): "SM80_16x8x16_F32F16F16F32_TN",
    ("f16", "f16", (16, 8, 16)): "SM80_16x8x16_F16F16F16F16_TN",
    ("f16", "f32", (16, 8, 8)): "SM75_16x8x8_F32F16F16F32_TN",
    ("f16", "f16", (8, 8, 4)): "SM70_8x8x4_F16F16F16F16",
    ("s4", "s32", (8, 8, 32)): "SM75_8x8x32_S32S4S4S32_TN_SATURATE",
}


@pytest.mark.parametrize("row", RESOLVED, ids=str)
def test_g07_types_and_shape_name_the_instruction(row):
    a, c, shape = row
    found = cutlass2.default_instruction(shape, a, a, c)
    assert str(found).startswith(RESOLVED[row])
    assert {atom.shape_mnk for atom in cute.atoms.find(a=a, c=c, shape=shape)} == {shape}


def test_g07_wraps_where_that_is_asked_for():
    found = cutlass2.default_instruction((8, 8, 32), "s4", "s4", "s32", "OpMultiplyAdd")
    assert str(found) == "SM75_8x8x32_S32S4S4S32_TN"


def test_g07_instructions_are_side_by_side_in_the_tile_of_a_warp():
    """OpDelta 1x1, warps with M fastest: warp w has the 64x32 tile (w % 2, w // 2)."""
    block, warp = (128, 64, 32), (64, 32, 32)
    mma = cutlass2.default_mma_tensor_op(block, warp, (16, 8, 16), "f16", "f16", "f32")
    assert (mma.size(), mma.tile_shape) == (128, (128, 64, 16))
    for t in range(0, 128, 3):
        w, (layout, first) = t // 32, mma.get_slice(t).partition_C(cute.Layout((128, 64)))
        places = {divmod(int(first) + int(layout(i)), 128)[::-1] for i in range(cute.size(layout))}
        assert {(m // 64, n // 32) for m, n in places} == {(w % 2, w // 2)}
        assert len(places) == 64


def test_f19_sums_of_narrow_integers_saturate_by_default():
    """The tags choose the row, and the row has the mnemonic."""
    shapes = {"s8": (8, 8, 16), "s4": (8, 8, 32), "f16": (16, 8, 8), "b1": (8, 8, 128)}
    sums = {"f16": "f32"}
    saturates = {}
    for kind, shape in shapes.items():
        atom = cutlass2.default_instruction(shape, kind, kind, sums.get(kind, "s32"))
        saturates[kind] = ".satfinite" in atom.ptx
    assert saturates == {"s8": True, "s4": True, "f16": False, "b1": False}
    popc = cutlass2.default_instruction((8, 8, 128), "b1", "b1", "s32")
    assert "xor.popc" in popc.ptx
    simt = cutlass2.default_instruction((1, 1, 4), "s8", "s8", "s32", op_class="OpClassSimt")
    assert str(simt) == "SM61_DP4A"


def test_h02_a_policy_reads_back_and_pads_shared_memory():
    mma = make_tiled_mma("UniversalFMA<f32>", (16, 16, 1))
    policy = cutlass2.MmaPolicy(mma, (4, 0), (0, 2), 2)
    read = policy.operator, policy.padding_a, policy.padding_b, policy.partitions_k
    assert read == (mma, (4, 0), (0, 2), 2)
    assert policy.shared_shapes((128, 64, 8), 2) == ((132, 16), (16, 66))


def test_h06_simt_128x128x8_by_warps_of_32x64():
    core = cutlass2.default_mma_core_simt((128, 128, 8), (32, 64, 8))
    warp = cutlass2.simt_warp((32, 64))
    assert core.threads == 256
    assert (warp.lanes, warp.thread_tile, warp.lane) == ((4, 8), (8, 8), (4, 4))
    assert warp.layout == cutlass2.row_major_interleaved((4, 8), 2)
    assert cutlass2.simt_warp((64, 32)).lanes == (8, 4)
    plain = cutlass2.simt_warp((16, 32)).layout  # 4x4 elements of a thread are not over 4
    assert [plain(r, c) for r in range(4) for c in range(8)] == list(range(32))
    assert coverage(core.policy.operator).exact
    for t in range(256):
        layout, first = core.policy.operator.get_slice(t).partition_C(cute.Layout((128, 128)))
        w, lane = divmod(t, 32)
        z = next(at for at in product(range(4), range(8)) if warp.layout(at) == lane)
        start = w % 4 * 32 + z[0] * 4, w // 4 * 64 + z[1] * 4
        assert divmod(int(first), 128)[::-1] == start
        rows = {(int(first) + int(layout(0, i, 0))) % 128 for i in range(8)}
        assert rows == {start[0] + i + 16 * j for i in range(4) for j in range(2)}


def test_h06_lanes_in_z_order_read_b_in_two_wavefronts():
    """Half a warp reads 8 vectors of 16 bytes, all 32 banks once; a quarter reads 4, by 2 rows."""
    warp = cutlass2.simt_warp((32, 64))
    order = cute.right_inverse(warp.layout)
    places = [divmod(int(order(lane)), 4) for lane in range(32)]
    halves = [{column for column, _row in places[h : h + 16]} for h in (0, 16)]
    assert halves == [set(range(8))] * 2
    quarters = [list(zip(*places[q : q + 8], strict=True)) for q in range(0, 32, 8)]
    assert {(len(set(rows)), len(set(columns))) for columns, rows in quarters} == {(2, 4)}


def test_h07_padding_is_public():
    assert [cutlass2.simt_transpose_padding(8, bits) for bits in (32, 64, 16, 8)] == [4, 2, 8, 16]
    core = cutlass2.default_mma_core_simt((128, 128, 8), (32, 64, 8))
    assert (core.policy.padding_a, core.policy.padding_b) == ((4, 0), (0, 4))
    assert core.smem_a == cute.Layout((128, 8, 2), (1, 132, 1056))


def test_h07_a_padding_that_would_be_none_is_one_element():
    """CUTLASS has 0 for f64 and K = 32, where 16 lanes would store to one pair of banks."""
    pad = cutlass2.simt_transpose_padding(32, 64)
    assert pad == 1
    for first in (0, 16):  # half a warp stores 8 bytes a lane at once
        lanes = range(first, first + 16)
        assert len({2 * k * (128 + pad) % 32 for k in lanes}) == 16
        assert len({2 * k * 128 % 32 for k in lanes}) == 1


def test_h06_sums_of_narrow_integers_do_not_wrap():
    wanted = {"f32": "f32", "f64": "f64", "s32": "s32", "s8": "s32", "u4": "s32", "f16": "f16"}
    core = cutlass2.default_mma_core_simt
    shape = (64, 64, 8), (32, 32, 8)
    for kind, sums in wanted.items():
        assert str(core(*shape, kind).policy.operator.atom.c_type) == sums
    assert str(core(*shape, "f16", c="f32").policy.operator.atom.c_type) == "f32"


def test_h08_congruous_f16_128x128x32():
    assert cutlass2.raked_arrangement(128, 16, most=8) == (8, 4)
    block, warp = (128, 128, 32), (64, 64, 32)
    core = cutlass2.default_mma_core_tensor_op(block, warp, (16, 8, 8), "f16", "f32", "MN")
    wanted = cutlass2.warp_raked_thread_map((128, 32), 128, (8, 4), 8)
    assert core.map_a == core.map_b == wanted
    congruous = cutlass2.column_major_tensor_op_multiplicand_congruous
    assert core.smem_a == congruous(16, 64, 128, 32, stages=2)


def test_h09_crosswise_s4_128x128x128():
    block, warp = (128, 128, 128), (64, 64, 128)
    core = cutlass2.default_mma_core_tensor_op(block, warp, (8, 8, 32), "s4", "s32")
    assert core.map_a.iterations == (1, 4)
    assert core.map_a == cutlass2.warp_raked_thread_map((128, 128), 128, (4, 8), 32)
    crosswise = cutlass2.row_major_tensor_op_multiplicand_crosswise
    assert core.smem_a == crosswise(4, 128, 128, 128, stages=2)
    assert core.policy.operator.atom.saturate


# -- E02, F02


def test_e02_groups_of_threads():
    found = {name: getattr(cutlass2, name) for name in cutlass2.__all__ if name.startswith("Num")}
    assert found == {
        "NumThreadsPerWarp": 32,
        "NumThreadsPerWarpGroup": 128,
        "NumWarpsPerWarpGroup": 4,
        "NumThreadsPerHalfWarp": 16,
        "NumThreadsPerQuad": 4,
        "NumThreadsPerQuadPair": 8,
    }


def test_f02_tags_name_the_least_compute_capability_and_atoms_refuse_lower_ones():
    wanted = [50, 60, 61, 70, 72, 75, 80, 86, 89, 90]
    assert list(cutlass2.ARCH_TAGS.items()) == [(f"Sm{n}", n) for n in wanted]
    for atom in cute.atoms.find():
        least = int(atom.min_arch.removeprefix("sm_").rstrip("a"))
        for n in wanted:
            if n < least:
                assert not atom.support(f"sm_{n}"), (atom, n)
    assert cute.atoms.SM80_16x8x16_F32F16F16F32_TN.support("sm_80") == "native"
    assert not cute.atoms.SM80_16x8x16_F32F16F16F32_TN.support("sm_50")
