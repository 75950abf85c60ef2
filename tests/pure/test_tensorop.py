"""TensorOpMultiplicand against its formula, and when it is a Swizzle.

Rows C08 to C14 and mapping P1 of the requirements. `p1` is the formula of
cutlass/layout/tensor_op_multiplicand_sm75.h, partitions and all, on NumPy arrays.
"""

import inspect
import re
from itertools import product

import numpy as np
import pytest

import cute_py as cute
from cute_py.errors import LayoutError, LeafTypeError

# (bits, crosswise): F, the rows that share a line of 128 bytes
PAIRS = {(128 // chunk, 8 * chunk // rows): rows for chunk in (4, 8, 16, 32) for rows in (1, 2, 4)}
each_pair = pytest.mark.parametrize(("bits", "crosswise"), PAIRS)


def p1(bits, crosswise, ld, c, s):
    """Return the offset of (contiguous c, strided s)."""
    chunk = 128 // bits
    rows = 8 * chunk // crosswise
    vc, vs = c // chunk, s // rows
    tile = vc // (8 // rows)
    x = vc % (8 // rows) + (s % rows) * (8 // rows)
    y = vs % max(8 // rows, 4)
    permuted = 4 * ((x // 4) ^ ((y // 4) % 2)) + ((x % 4) ^ (y % 4))
    return (tile * 8 + permuted) * chunk + c % chunk + vs * ld * rows


def linear(bits, crosswise, ld, c, s):
    """Return the offset before the XOR, which a Swizzle would have to start from."""
    chunk = 128 // bits
    rows = 8 * chunk // crosswise
    line = s // rows * ld * rows + c // crosswise * 8 * chunk
    return line + s % rows * crosswise + c % crosswise


def grid(contiguous, strided, step=1):
    c, s = np.meshgrid(np.arange(0, contiguous, step), np.arange(strided), indexing="ij")
    return c.ravel(), s.ravel()


def computes_p1(layout, bits, crosswise, ld, contiguous, strided):
    """Return whether layout(c, s) is p1 for every s, at two elements of every chunk."""
    c, s = grid(contiguous, strided, step=64 // bits)
    expected = p1(bits, crosswise, ld, c, s).tolist()
    return [layout(*coord) for coord in zip(c.tolist(), s.tolist(), strict=True)] == expected


def swizzles(bits):
    """Return every Swizzle that moves offsets of so many bits."""
    return (
        cute.Swizzle(b, m, sign * shift)
        for b, m in product(range(bits + 1), repeat=2)
        for shift in range(b, bits + 1)
        for sign in (1, -1)
    )


# -- C08: the map, and P1's rule


def test_there_are_twelve_pairs_and_the_listed_constants_hold():
    listed = {
        (16, 64): (1, 8),
        (16, 32): (2, 4),
        (8, 128): (1, 8),
        (8, 64): (2, 4),
        (32, 32): (1, 8),
        (32, 16): (2, 4),
        (4, 256): (1, 8),
        (4, 128): (2, 4),
        (4, 64): (4, 4),
    }
    assert len(PAIRS) == 12
    for pair, (rows, tile_rows) in listed.items():
        assert PAIRS[pair] == rows
        assert 2 ** cute.tensor_op_swizzle(*pair).num_bits == tile_rows


@each_pair
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_p1_is_bijective(bits, crosswise, stages):
    rows, ld = PAIRS[bits, crosswise], crosswise * stages
    offsets = p1(bits, crosswise, ld, *grid(ld, 16 * rows))
    assert sorted(offsets.tolist()) == list(range(ld * 16 * rows))


@each_pair
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_p1_is_the_swizzle_where_the_tiles_are_a_power_of_two(bits, crosswise, stages):
    rows, ld, strided = PAIRS[bits, crosswise], crosswise * stages, 16 * PAIRS[bits, crosswise]
    chunk_bits = {32: 2, 16: 3, 8: 4, 4: 5}[bits]
    stage_bits = {1: 0, 2: 1, 4: 2}[stages]
    swizzle = cute.Swizzle(3 if rows == 1 else 2, chunk_bits, 3 + stage_bits)
    assert cute.tensor_op_swizzle(bits, crosswise, stages) == swizzle

    c, s = grid(ld, strided)
    lin = linear(bits, crosswise, ld, c, s)
    assert (swizzle(lin) == p1(bits, crosswise, ld, c, s)).all()

    layout = cute.tensor_op_multiplicand(bits, crosswise, ld, strided)
    assert layout.outer == swizzle
    assert cute.size(layout) == cute.capacity(layout) == strided * ld
    assert computes_p1(layout, bits, crosswise, ld, ld, strided)


@each_pair
def test_no_swizzle_matches_three_stages_side_by_side(bits, crosswise):
    """Try every Swizzle; the same search at two stages finds the one of the rule."""
    found = {}
    for stages in (2, 3):
        ld = crosswise * stages
        c, s = grid(ld, 16 * PAIRS[bits, crosswise], step=128 // bits)
        lin, target = linear(bits, crosswise, ld, c, s), p1(bits, crosswise, ld, c, s)
        probe = np.flatnonzero(lin != target)[:4]  # few offsets rule most of them out
        found[stages] = [
            swizzle
            for swizzle in swizzles(int(lin.max()).bit_length())
            if (swizzle(lin[probe]) == target[probe]).all() and (swizzle(lin) == target).all()
        ]
        assert len(probe) == 4
    assert found == {2: [cute.tensor_op_swizzle(bits, crosswise, 2)], 3: []}
    assert cute.tensor_op_swizzle(bits, crosswise, 3) is None


@pytest.mark.parametrize("tiles", [0, -1, 3, 5, 6, 7, 12])
def test_the_rule_wants_a_power_of_two(tiles):
    assert cute.tensor_op_swizzle(16, 64, tiles) is None


@each_pair
@pytest.mark.parametrize("stages", [1, 3, 5])
def test_swizzle_in_coordinates_is_p1_for_any_number_of_stages(bits, crosswise, stages):
    ld, strided = crosswise * stages, 16 * PAIRS[bits, crosswise]
    layout = cute.tensor_op_multiplicand_in_coordinates(bits, crosswise, ld, strided)
    assert computes_p1(layout, bits, crosswise, ld, ld, strided)
    assert cute.size(layout) == ld * strided


@each_pair
def test_a_stage_mode_outermost_repeats_the_map(bits, crosswise):
    strided = 16 * PAIRS[bits, crosswise]
    layout = cute.tensor_op_multiplicand(bits, crosswise, crosswise, strided, stages=3)
    c, s = grid(crosswise, strided, step=128 // bits)
    first = p1(bits, crosswise, crosswise, c, s)
    for stage in range(3):
        coords = zip(c.tolist(), s.tolist(), strict=True)
        offsets = [layout(*coord, stage) for coord in coords]
        assert offsets == (first + stage * crosswise * strided).tolist()
    assert cute.capacity(layout) == 3 * crosswise * strided


@pytest.mark.parametrize(("contiguous", "ld"), [(32, 128), (64, 128), (64, 64)])
def test_a_padded_tile_keeps_the_map_and_its_capacity_is_strided_times_ld(contiguous, ld):
    for strided in (2, 8):
        layout = cute.tensor_op_multiplicand(16, 32, contiguous, strided, ld)
        assert computes_p1(layout, 16, 32, ld, contiguous, strided)
        assert cute.capacity(layout) == strided * ld


# -- C09 to C14: congruous and crosswise


def test_forms():
    f16_m128 = cute.tensor_op_multiplicand_congruous(16, 64, 128, 32)
    assert str(f16_m128) == "Sw<3,3,4> o 0 o (128,32):(1,128)"
    f16_k32 = cute.tensor_op_multiplicand_crosswise(16, 32, 32, 8)
    assert str(f16_k32) == "Sw<2,3,3> o 0 o (32,8):(1,32)"


def test_congruous_matrices_are_p1_with_rows_or_columns_contiguous():
    by_column = cute.column_major_tensor_op_multiplicand_congruous(16, 64, 128, 32)
    by_row = cute.row_major_tensor_op_multiplicand_congruous(16, 64, 32, 128)
    for c, s in product(range(128), range(32)):
        expected = p1(16, 64, 128, c, s)  # the packed stride is rows, or columns
        assert by_column(c, s) == by_row(s, c) == expected


@pytest.mark.parametrize(("bits", "crosswise"), [(16, 32), (16, 64), (8, 64), (4, 128), (32, 16)])
def test_crosswise_matrices_are_p1_with_rows_or_columns_contiguous(bits, crosswise):
    by_column = cute.column_major_tensor_op_multiplicand_crosswise(bits, crosswise, crosswise, 16)
    by_row = cute.row_major_tensor_op_multiplicand_crosswise(bits, crosswise, 16, crosswise)
    for c, s in product(range(crosswise), range(16)):
        assert by_column(c, s) == by_row(s, c) == p1(bits, crosswise, crosswise, c, s)


def test_crosswise_stages_side_by_side_have_stride_crosswise_times_stages():
    layout = cute.row_major_tensor_op_multiplicand_crosswise(16, 32, 16, 32 * 4)
    flipped = cute.permuted(layout, (1, 0))
    assert computes_p1(flipped, 16, 32, 32 * 4, 32 * 4, 16)
    with pytest.raises(LayoutError, match="no Swizzle fits"):
        cute.row_major_tensor_op_multiplicand_crosswise(16, 32, 16, 32 * 3)


@pytest.mark.parametrize("ld", [32, 64, 128])
def test_congruous_tiles_of_32_bits_have_a_map_of_their_own(ld):
    """The specialization TensorOpMultiplicandCongruous<32, Crosswise>."""
    layout = cute.tensor_op_multiplicand_congruous(32, 32, ld, 8)
    flipped = cute.row_major_tensor_op_multiplicand_congruous(32, 32, 8, ld)
    for c, s in product(range(ld), range(8)):
        chunk = (c % 32 // 4) ^ (2 * (s % 4))
        expected = chunk * 4 + s % 4 * ld + c // 32 * 32 + s // 4 * ld * 4 + c % 4
        assert layout(c, s) == flipped(s, c) == expected


# -- bank conflicts: 32 banks of 4 bytes, and 8 groups of 16 bytes that one phase of ldmatrix reads


def bank_groups(offsets, bits):
    return {offset * bits // 128 % 8 for offset in offsets}


def lane_chunks(variant, i):
    """Return (chunk along contiguous, row) of every lane for pointer i of a congruous tile."""
    lanes = range(32)
    return {
        "k8": [(4 * i + (lane >> 3), lane & 7) for lane in lanes],
        "A": [(2 * i + (lane >> 3 & 1), (lane & 7) + (lane >> 4 << 3)) for lane in lanes],
        "B": [(2 * i + (lane >> 4), lane & 15) for lane in lanes],
    }[variant]


def pointer_chunks(variant, i, stride):
    """Return the addresses (16 bytes) of CUTLASS's congruous tile iterator, mapping P2."""
    addresses = []
    for lane in range(32):
        if variant == "k8":
            pc, ac, row = (lane & 7) >> 2 ^ i, lane >> 3 ^ lane & 3, lane & 7
        else:
            block, row = {
                "A": (lane >> 3 & 1, (lane & 7) + (lane >> 4 << 3)),
                "B": (lane >> 4, lane & 15),
            }[variant]
            pc, ac = (lane & 7) >> 2 ^ i >> 1, block + ((i & 1) << 1) ^ lane & 3
        addresses.append(4 * pc + ac + row * stride)
    return addresses


@pytest.mark.parametrize("variant", ["k8", "A", "B"])
def test_ldmatrix_trans_reads_a_congruous_tile_without_conflicts(variant):
    """32 lanes in 4 phases of 8; the addresses are those of CUTLASS's iterators."""
    layout = cute.tensor_op_multiplicand_congruous(16, 64, 128, 32)
    for i in range(2 if variant == "k8" else 4):
        offsets = [layout(8 * chunk, row) for chunk, row in lane_chunks(variant, i)]
        assert [offset // 8 for offset in offsets] == pointer_chunks(variant, i, 128 // 8)
        for phase in range(4):
            assert len(bank_groups(offsets[8 * phase : 8 * phase + 8], 16)) == 8


@each_pair
@pytest.mark.parametrize("stages", [1, 2])
def test_eight_rows_of_a_chunk_lie_in_eight_bank_groups(bits, crosswise, stages):
    strided = 16 * PAIRS[bits, crosswise]
    tile = cute.tensor_op_multiplicand_crosswise(bits, crosswise, crosswise * stages, strided)
    for c, s in product(range(0, crosswise * stages, 128 // bits), range(0, strided, 8)):
        offsets = [tile(c, s + i) for i in range(8)]
        assert len(bank_groups(offsets, bits)) == 8
        plain = [tile.inner(c, s + i) for i in range(8)]
        assert len(bank_groups(plain, bits)) < 8  # the swizzle is what does it


def test_single_loads_of_32_bits_are_free_of_conflicts_in_the_map_of_32_bits_only():
    """A fragment of mma.m16n8k8: lane l reads element (l // 4, l % 4)."""
    lanes = [(lane // 4, lane % 4) for lane in range(32)]
    congruous = cute.tensor_op_multiplicand_congruous(32, 32, 64, 8)
    general = cute.tensor_op_multiplicand(32, 32, 64, 8)
    assert len({congruous(*lane) % 32 for lane in lanes}) == 32
    assert len({general(*lane) % 32 for lane in lanes}) == 16


# -- what is refused


def test_three_stages_side_by_side_are_refused_with_two_ways_out():
    with pytest.raises(LayoutError) as refused:
        cute.tensor_op_multiplicand(16, 32, 96, 16)
    assert refused.value.code == "tensor-op-tiles"
    assert str(refused.value) == (
        "tensor_op_multiplicand: given 3 tiles of 32 elements side by side; required: a power of "
        "two: at 3 the XOR needs the row, which is not a bit field of the offset, so no Swizzle "
        "fits; fix: put the tiles outermost (contiguous=32, stages=3), or keep these addresses: "
        "tensor_op_multiplicand_in_coordinates"
    )
    outermost = cute.tensor_op_multiplicand(16, 32, contiguous=32, strided=16, stages=3)
    in_coordinates = cute.tensor_op_multiplicand_in_coordinates(16, 32, 96, 16)
    assert cute.size(outermost) == cute.size(in_coordinates) == 96 * 16


REFUSED = {
    "tensor-op-bits": {
        "given elements of 64 bits; required: a power of two of at most 32 bits; fix: f64 and": (
            lambda: cute.tensor_op_swizzle(64, 16)
        ),
        "given elements of 12 bits": lambda: cute.tensor_op_multiplicand(12, 64, 64, 8),
    },
    "tensor-op-crosswise": {
        "given crosswise 48 for elements of 16 bits; required: 64, 32, 16: a line of 128 bytes": (
            lambda: cute.tensor_op_multiplicand(16, 48, 48, 8)
        ),
    },
    "tensor-op-tile": {
        "given 40 x 8 elements with ld 40; required: contiguous and ld multiples of crosswise ": (
            lambda: cute.tensor_op_multiplicand(16, 32, 40, 8)
        ),
        "strided a multiple of the 2 rows in a line, ld >= contiguous; fix: pad the tile": (
            lambda: cute.tensor_op_multiplicand(16, 32, 32, 3)
        ),
        "given 64 x 8 elements with ld 32": (
            lambda: cute.tensor_op_multiplicand(16, 32, 64, 8, ld=32)
        ),
        "given 0 x 8 elements": lambda: cute.tensor_op_multiplicand(16, 32, 0, 8),
    },
    "tensor-op-period": {
        "given strided extent 4; required: a multiple of 8, the rows after which the XOR "
        "pattern repeats, so that stacked tiles have the same swizzle; fix: pad it to 8": (
            lambda: cute.tensor_op_multiplicand(16, 32, 32, 4, stages=2)
        ),
        "in_coordinates: given strided extent 20; required: a multiple of 8": (
            lambda: cute.tensor_op_multiplicand_in_coordinates(16, 64, 192, 20)
        ),
    },
    "tensor-op-tiles": {
        "fix: put the tiles outermost (contiguous=32, stages=3)": (
            lambda: cute.tensor_op_multiplicand_congruous(32, 32, 96, 8)
        ),
    },
    "capacity": {
        "given (64,8,3):(1,192,64) o 0 o Sw<2,3,3> o 0 o ((32,3),(2,8)):((1,512),(32,64))": (
            lambda: cute.capacity(cute.tensor_op_multiplicand_in_coordinates(16, 32, 96, 16))
        ),
    },
}


@pytest.mark.parametrize(
    ("code", "text", "build"),
    [(code, *case) for code, cases in REFUSED.items() for case in cases.items()],
)
def test_refusals_teach(code, text, build):
    with pytest.raises(LayoutError, match=re.escape(text)) as refused:
        build()
    assert refused.value.code == code


def test_arguments_are_integers():
    with pytest.raises(LeafTypeError, match="integers"):
        cute.tensor_op_multiplicand(16, 32, 32.0, 8)
    assert cute.tensor_op_swizzle(np.int64(16), np.int32(64)) == cute.Swizzle(3, 3, 3)


def test_names_are_called_as_they_say():
    """Those that share a signature are made from rows."""
    same = inspect.signature(cute.tensor_op_multiplicand)
    assert inspect.signature(cute.tensor_op_multiplicand_crosswise) == same
    build = cute.row_major_tensor_op_multiplicand_crosswise
    assert list(inspect.signature(build).parameters)[2:4] == ["rows", "columns"]
    assert build(16, 32, columns=32, rows=128) == build(16, 32, 128, 32)
    with pytest.raises(TypeError, match=rf"^{build.__name__}\(\) missing a required .*'columns'$"):
        build(16, 32, 128)
