"""bank_conflicts() and swizzle_solver(): against a count by hand, and the published cases."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, Swizzle
from cute_py.analysis import Access, bank_conflicts, suggest_smem_layout, swizzle_solver
from cute_py.atoms.copy import Copy_Atom
from cute_py.tiled.suggest import suggest_tiled_copy
from cute_py.tiled.thread_maps import (
    simt_transpose_padding,
    stripmined_thread_map,
    transposed_thread_map,
)
from cute_py.tiled.tiled_copy import (
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
)
from cute_py.tiled.tiled_mma import make_tiled_mma

F16_MMA = "SM80_16x8x16_F32F16F16F32_TN"
LANES_TOGETHER = {8: 32, 16: 32, 32: 32, 64: 16, 128: 8}


def wavefronts_by_hand(addresses, bits):
    """One phase after the other: the most distinct words in one bank."""
    together, total = LANES_TOGETHER[bits], 0
    for first in range(0, 32, together):
        banks = {}
        for address in addresses[first : first + together]:
            if address is not None:
                for byte in range(address, address + bits // 8, 4):
                    banks.setdefault(byte // 4 % 32, set()).add(byte // 4)
        total += max(map(len, banks.values()), default=0)
    return total


def requests_by_hand(copy, side, layout, unit, lanes=32):
    """The byte addresses of each warp and access, from each thread's own partition."""
    parts = [getattr(copy.get_slice(t), f"partition_{side}")(layout) for t in range(copy.size())]
    values = copy.atom.num_val_src if side == "S" else copy.atom.num_val_dst
    found = []
    for warp in range(0, copy.size(), 32):
        for i in range(cute.size(parts[0][0]) // values):
            row = [int(part(values * i)) + offset for part, offset in parts[warp : warp + 32]]
            found.append([x * unit // 8 if k < lanes else None for k, x in enumerate(row)])
    return found


def ldsm(matrices, transposed=False, dtype="f16"):
    name = f"SM75_U16x{2 * matrices}_LDSM_T" if transposed else f"SM75_U32x{matrices}_LDSM_N"
    return Copy_Atom(name, dtype)


def one_warp_ldmatrix():
    """Return the copy that reads K-major tiles of A with ldmatrix x4, by one warp."""
    return make_tiled_copy_A(ldsm(4), make_tiled_mma(F16_MMA))


def row_atom(k, swizzle):
    """The shared-memory layout of requirement N16, repeated to 64 rows."""
    atom = cute.make_composed_layout(swizzle, 0, Layout((8, k), (k, 1)))
    return cute.tile_to_shape(atom, (64, k))


# -- the count


@given(st.sampled_from((8, 32, 64, 128)), st.data())
def test_wavefronts_are_the_most_words_in_a_bank_phase_by_phase(bits, data):
    width = bits // 8
    address = st.one_of(st.none(), st.integers(0, 511).map(lambda i: i * width))
    addresses = data.draw(st.lists(address, min_size=1, max_size=32).filter(any))
    padded = addresses + [None] * (32 - len(addresses))
    found = bank_conflicts(addresses, bits=bits)
    assert found.wavefronts == wavefronts_by_hand(padded, bits)
    together = LANES_TOGETHER[bits]
    phases = sum(
        any(x is not None for x in padded[i : i + together]) for i in range(0, 32, together)
    )
    assert (found.requests, found.ideal) == (1, phases)
    assert found.conflict_free == (found.wavefronts == found.ideal)


@given(st.data())
def test_lanes_in_conflict_want_different_words_of_the_named_banks(data):
    words = data.draw(st.lists(st.integers(0, 255), min_size=32, max_size=32))
    found = bank_conflicts([4 * word for word in words], bits=32)
    named = {
        (bank, lane): k
        for conflict in found.conflicts
        for bank in conflict.banks
        for k, lanes in enumerate(conflict.lanes)
        for lane in lanes
    }
    for a, b in product(range(32), repeat=2):
        if words[a] % 32 == words[b] % 32 and words[a] != words[b]:
            bank = words[a] % 32
            assert named[bank, a] != named[bank, b]
    in_conflict = {bank for bank, _ in named}
    assert in_conflict == {w % 32 for w in words if len({v for v in words if v % 32 == w % 32}) > 1}


@given(
    st.sampled_from((16, 32, 64, 128)),
    st.sampled_from(((8, 4), (4, 8), (32, 1), (2, 32))),
    st.sampled_from((None, Swizzle(3, 3, 3), Swizzle(2, 3, 3), Swizzle(1, 4, 4))),
)
def test_a_tiled_copy_is_counted_from_the_partition_of_each_thread(bits, threads, swizzle):
    vector = bits // 16
    copy = make_tiled_copy(
        Copy_Atom(f"UniversalCopy<{bits}>", "f16"),
        Layout(threads, (threads[1], 1)),
        Layout((1, vector)),
    )
    shape = tuple(2 * n for n in copy.tile_shape)
    plain = Layout(shape, (shape[1], 1))
    layout = plain if swizzle is None else cute.make_composed_layout(swizzle, 0, plain)
    found = bank_conflicts(copy, layout)
    by_hand = requests_by_hand(copy, "D", layout, 16)
    assert found.requests == len(by_hand)
    assert found.wavefronts == sum(wavefronts_by_hand(r, bits) for r in by_hand)


@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize("make", [make_tiled_copy_A, make_tiled_copy_B])
def test_ldmatrix_reads_eight_rows_a_phase(matrices, make):
    mma = make_tiled_mma(F16_MMA, (2, 2, 1), (32, 32, 16))
    copy = make(ldsm(matrices), mma)
    layout = Layout((64, 64), (64, 1))
    found = bank_conflicts(copy, layout)
    by_hand = requests_by_hand(copy, "S", layout, 16, 8 * matrices)
    assert found.ideal == matrices * len(by_hand)
    assert found.wavefronts == sum(wavefronts_by_hand(r, 128) for r in by_hand) == 8 * found.ideal


def test_stmatrix_writes_eight_rows_a_phase():
    mma = make_tiled_mma(F16_MMA, (1, 1, 1), (16, 16, 16))
    copy = make_tiled_copy_C(Copy_Atom("SM90_U32x4_STSM_N", "f16"), mma)
    found = bank_conflicts(copy, Layout((64, 64), (64, 1)))
    assert (found.ideal, found.ways) == (4 * found.requests, 8)
    swizzled = cute.make_composed_layout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
    assert bank_conflicts(copy, swizzled).conflict_free


def test_the_table_names_lanes_and_banks():
    found = bank_conflicts([128 * (lane // 16) + 8 * (lane % 16) for lane in range(32)], bits=32)
    assert str(found).splitlines()[0] == (
        "32-bit addresses: 1 requests, 2 wavefronts (ideal 1), 2-way conflicts"
    )
    assert str(found.conflicts[1]) == "bank 2: lanes 1 | 17"


# -- the published cases


@pytest.mark.parametrize(
    ("k", "swizzle", "ways"),
    [
        (16, Swizzle(3, 3, 3), 1),
        (32, Swizzle(3, 3, 3), 1),
        (64, Swizzle(3, 3, 3), 1),
        (128, Swizzle(3, 3, 3), 2),
        (128, Swizzle(3, 3, 4), 1),
    ],
)
def test_rows_of_eight_swizzled_are_read_by_ldmatrix_without_conflict_up_to_k_64(k, swizzle, ways):
    found = bank_conflicts(one_warp_ldmatrix(), row_atom(k, swizzle))
    assert found.ways == ways


def test_a_quarter_warp_stores_to_eight_bank_groups():
    """128 threads copy a 32x32 f16 tile, thread t to row t // 4, columns 8 (t % 4) on."""
    copy = make_tiled_copy(
        Copy_Atom("UniversalCopy<128>", "f16"), Layout((32, 4), (4, 1)), Layout((1, 8))
    )
    tile = Layout((32, 32), (32, 1))
    for t in range(128):
        part, offset = copy.get_slice(t).partition_D(tile)
        assert [part(i) + offset for i in range(8)] == [
            32 * (t // 4) + 8 * (t % 4) + i for i in range(8)
        ]
    atom = cute.make_composed_layout(Swizzle(3, 3, 3), 0, Layout((8, 32), (32, 1)))
    layout = cute.tile_to_shape(atom, (32, 32))
    assert bank_conflicts(copy, layout).conflict_free
    for first in range(0, 128, 8):
        starts = [copy.get_slice(t).partition_D(layout) for t in range(first, first + 8)]
        groups = {(part(0) + offset) // 8 % 8 for part, offset in starts}
        assert len(groups) == 8


def test_congruous_multiplicand_is_read_by_ldmatrix_trans_without_conflict():
    layout = cute.column_major_tensor_op_multiplicand_congruous(16, 64, 128, 32)
    assert str(layout) == "Sw<3,3,4> o 0 o (128,32):(1,128)"
    mma = make_tiled_mma(F16_MMA, (1, 1, 1), (16, 16, 16))
    for make in (make_tiled_copy_A, make_tiled_copy_B):
        found = bank_conflicts(make(ldsm(4, transposed=True), mma), layout)
        assert found.conflict_free
        assert all(len(pattern.phases) == 4 for pattern in found.patterns)


def test_ldmatrix_lanes_have_the_addresses_of_the_congruous_iterator():
    """A of m16n8k16: chunk 4 pc + ac + as * stride of lane l and pointer i."""
    layout = cute.column_major_tensor_op_multiplicand_congruous(16, 64, 64, 32)
    copy = make_tiled_copy_A(ldsm(4, transposed=True), make_tiled_mma(F16_MMA))
    stride = 64 // 8
    for lane in range(32):
        part, origin = copy.get_slice(lane).partition_S(layout)  # (CPY,CPY_M,CPY_K)
        for i in range(4):
            pc = ((lane & 7) >> 2) ^ (i >> 1)
            ac = (((lane >> 3) & 1) + ((i & 1) << 1)) ^ (lane & 3)
            row = (lane & 7) + ((lane >> 4) << 3)
            assert (part(0, i, 0) + origin) // 8 == 4 * pc + ac + row * stride


def test_crosswise_rows_of_one_chunk_lie_in_eight_bank_groups():
    layout = cute.row_major_tensor_op_multiplicand_crosswise(16, 32, 128, 32)
    for first, chunk in product(range(0, 128, 8), range(4)):
        rows = [layout(first + r, 8 * chunk) for r in range(8)]
        assert len({offset // 8 % 8 for offset in rows}) == 8
    assert bank_conflicts(one_warp_ldmatrix(), layout).conflict_free


@pytest.mark.parametrize("padded", [True, False])
def test_transposed_simt_stores_meet_32_banks_with_padding_and_4_without(padded):
    base = stripmined_thread_map((8, 128), 256)  # K is contiguous
    copy = transposed_thread_map(base).tiled_copy(Copy_Atom("UniversalCopy<32>", "f32"))
    row = 128 + (simt_transpose_padding(8, 32) if padded else 0)
    layout = Layout((128, 8), (1, row))
    found = bank_conflicts(copy, layout)
    assert found.ways == (1 if padded else 8)
    banks = {layout(*transposed_thread_map(base).start(t)) % 32 for t in range(32)}
    assert len(banks) == (32 if padded else 4)


def test_ldmatrix_delivers_the_elements_of_its_rows():
    """Register i of lane l: elements (8i + l // 4, 2 (l % 4) + {0, 1}) of a 32x8 tile."""
    atom = ldsm(4)
    for lane, i, half in product(range(32), range(4), range(2)):
        assert divmod(atom.dst_tv(lane, half + 2 * i), 8) == (
            8 * i + lane // 4,
            2 * (lane % 4) + half,
        )
        assert divmod(atom.src_tv(lane, 0), 8) == (lane, 0)


# -- the solver


def test_solver_finds_the_known_swizzles():
    """The least swizzle for ldmatrix rows: one bit for 32-byte rows, three from 128 bytes on."""
    expected = {16: "Sw<1,3,3>", 32: "Sw<2,3,3>", 64: "Sw<3,3,3>", 128: "Sw<3,3,4>"}
    for k, swizzle in expected.items():
        copies = [one_warp_ldmatrix(), suggest_tiled_copy((64, k), "f16", 64)]
        found = suggest_smem_layout((64, k), "f16", "K", copies)
        assert str(found.layout) == f"{swizzle} o 0 o (64,{k}):({k},1)"
        assert found.kind == "swizzle"
        assert [report.conflict_free for report in found.proof] == [True, True]


def test_solver_lists_every_swizzle_that_a_search_over_all_finds():
    copies = [one_warp_ldmatrix()]
    plain = Layout((32, 64), (64, 1))
    found = {str(x.change) for x in swizzle_solver(copies, plain, ["plain", "swizzle"])}
    expected = set()
    for b, m, s in product(range(1, 6), range(3, 11), range(1, 8)):
        if b <= s and b + m + s <= 11:
            layout = cute.make_composed_layout(Swizzle(b, m, s), 0, plain)
            if bank_conflicts(copies[0], layout).conflict_free:
                expected.add(str(Swizzle(b, m, s)))
    assert found == expected
    assert "Sw<3,3,3>" in found


def test_solutions_come_smallest_first_each_with_its_proof():
    rows = Access(Layout((32, 32), (32, 1)), 32, "f32")
    columns = Access(Layout((32, 32)), 32, "f32")
    found = swizzle_solver([rows, columns], Layout((32, 32)))
    assert [x.kind for x in found][:2] == ["swizzle", "padding"]
    assert found[0].change == Swizzle(5, 0, 5)
    assert [x.change for x in found if x.kind == "padding"][:3] == [1, 3, 5]
    for x in found:
        for access, report in zip((rows, columns), x.proof, strict=True):
            assert report == bank_conflicts(access, x.layout)
            assert report.wavefronts == report.ideal == 32


def test_solver_finds_a_matrix_where_no_swizzle_fits():
    """Phases of 8 lanes whose rows differ in bits 6, 8 and 10: no run of three bits holds these."""
    rows = Access(Layout(((2, 2, 2), 1), ((1, 4, 16), 0)), 128, "f16")  # rows of a (32,64) tile
    plain = Layout((32, 64), (64, 1))
    swizzles = swizzle_solver([rows], plain, ["plain", "swizzle"])
    matrices = swizzle_solver([rows], plain, ["f2"])
    assert not swizzles
    assert matrices
    for x in matrices:
        assert x.kind == "f2"
        assert x.proof[0].conflict_free
        assert cute.is_bijective(x.layout)


def test_plain_layouts_without_conflict_stay_plain():
    store = suggest_tiled_copy((128, 64), "f16", 128)
    found = suggest_smem_layout((128, 64), "f16", "K", [store])
    assert (found.kind, found.change) == ("plain", None)
    assert str(found).startswith("(128,64):(64,1) (plain)\nUniversalCopy<128> on")


def test_m_major_tiles_take_their_swizzle_for_the_transposed_ldmatrix():
    copy = make_tiled_copy_A(ldsm(4, transposed=True), make_tiled_mma(F16_MMA))
    found = suggest_smem_layout((64, 32), "f16", "MN", [copy])
    assert str(found.layout) == "Sw<3,3,3> o 0 o (64,32):(1,64)"


# -- refusals


def test_a_tile_without_any_conflict_free_layout_is_refused():
    """66 words in one row: nothing to pad, and no swizzle permutes 66 offsets."""
    access = Access(Layout((2, 1), (32, 0)), 32, "f32")
    assert bank_conflicts(access, Layout(66)).ways == 2
    assert swizzle_solver([access], Layout(66)) == ()
    with pytest.raises(cute.LayoutError, match=r"given tile \(66,\) of f32 with these accesses"):
        suggest_smem_layout((66,), "f32", "K", [access])
