"""coverage(): every element of a tile is touched once, or the misses and doubles are named."""

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, atoms
from cute_py.atoms.copy import Copy_Atom
from cute_py.tiled.coverage import coverage
from cute_py.tiled.tiled_copy import (
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_tv,
)
from cute_py.tiled.tiled_mma import make_tiled_mma
from tests.pure.test_tiled_golden import COPIES, tiled_copy_of
from tests.sampling import check_each, each, fewer

BF16 = "SM80_16x8x16_F32BF16BF16F32_TN"
UP_TO_SM90 = [
    atom
    for atom in atoms.rows()
    if atom.runnable and not atom.min_arch.startswith(("sm_1", "sm_12"))
]
ONE_WARP = [atom for atom in UP_TO_SM90 if atom.num_threads <= 32]
OPERANDS = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}


def touched(thread, operand, extents):
    """The indices in the tile that one thread's partition of the identity reaches, with repeats."""
    layout, offset = getattr(thread, f"partition_{operand}")(Layout(extents))
    return [int(layout(i)) + offset for i in range(cute.size(layout))]


def threads_of(mma):
    """The thread indices that take part."""
    return sorted(int(i) for i in cute.image(mma.thr_layout_vmnk))


def test_rows_are_examined():
    assert len(UP_TO_SM90) > 60


def require_exact(atom):
    found = coverage(make_tiled_mma(atom))
    assert found.exact, str(found)
    assert not found.missing
    assert not found.doubled
    for operand, modes in OPERANDS.items():
        assert found[operand].shape == tuple(atom.shape_mnk[i] for i in modes)


@pytest.mark.parametrize("arch", sorted({atom.min_arch for atom in ONE_WARP}))
def test_every_atom_covers_its_tile_once(arch):
    check_each(require_exact, [atom for atom in ONE_WARP if atom.min_arch == arch])


def of_a_warpgroup():
    """Return {types, memory and extras: its rows}; the rows of a kind differ in N alone."""
    kinds = {}
    for atom in set(UP_TO_SM90) - set(ONE_WARP):
        kinds.setdefault(atom.name.split("_", 2)[2], []).append(atom)
    return {kind: sorted(kinds[kind], key=lambda atom: atom.shape_mnk) for kind in sorted(kinds)}


def of_each_kind():
    """Return two rows of each kind, in turn of other N."""
    kinds = of_a_warpgroup().values()
    return [rows[i % len(rows)] for n, rows in enumerate(kinds) for i in (2 * n, 2 * n + 1)]


@pytest.mark.parametrize("sums", [cute.f16, cute.f32, cute.s32], ids=str)
def test_atoms_of_a_warpgroup_cover_their_tile_once(sums):
    check_each(require_exact, [atom for atom in of_each_kind() if atom.c_type is sums])


def test_the_sample_has_every_kind_and_every_n():
    kinds = of_a_warpgroup()
    assert sum(map(len, kinds.values())) + len(ONE_WARP) == len(UP_TO_SM90)
    assert len(set(of_each_kind())) == 2 * len(kinds) == 80
    assert {atom.shape_mnk[1] for atom in of_each_kind()} == {8 * n for n in range(1, 33)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", of_a_warpgroup())
def test_every_atom_of_a_warpgroup_covers_its_tile_once(kind):
    check_each(require_exact, of_a_warpgroup()[kind])


@st.composite
def tiled_mmas(draw):
    """Draw a TiledMMA: an atom of a warp or less, an atom layout in any order, a permutation."""
    atom = draw(st.sampled_from(ONE_WARP))
    counts = draw(
        st.sampled_from([(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (1, 2, 2), (3, 1, 1)])
    )
    assume(counts[0] != 3 or atom.num_threads != 8)  # three quad pairs: get_slice refuses
    order = draw(st.permutations((0, 1, 2)))
    layout = cute.make_ordered_layout(counts, tuple(order))
    tile = []
    for i in range(3):
        atoms_wide = atom.shape_mnk[i] * counts[i]
        grown = atoms_wide * draw(st.sampled_from((1, 2)))
        interleaved = Layout(
            (atom.shape_mnk[i], grown // atom.shape_mnk[i]), (grown // atom.shape_mnk[i], 1)
        )
        tile.append(draw(st.sampled_from((cute._, grown, interleaved))))
    return make_tiled_mma(atom, layout, tuple(tile))


@fewer(2)
@given(tiled_mmas(), st.tuples(*[st.sampled_from((1, 2))] * 3), st.sampled_from("ABC"))
def test_partitions_of_all_threads_are_a_bijection_onto_the_tensor(mma, repeat, operand):
    shape = tuple(n * r for n, r in zip(mma.tile_shape, repeat, strict=True))
    found = coverage(mma, shape)
    assert found.exact, str(found)
    extents = tuple(shape[i] for i in OPERANDS[operand])
    counts = Counter()
    for t in threads_of(mma):
        counts.update(touched(mma.get_slice(t), operand, extents))
    assert counts == dict.fromkeys(range(extents[0] * extents[1]), found[operand].shared)


@st.composite
def tiled_copies(draw):
    """Draw a TiledCopy of compact thread and value layouts."""
    sizes = st.sampled_from((1, 2, 4))
    layouts = []
    for _ in range(2):
        shape = (draw(sizes), draw(sizes))
        layouts.append(cute.make_ordered_layout(shape, tuple(draw(st.permutations((0, 1))))))
    bits = draw(st.sampled_from((16, 32)))
    assume(cute.size(layouts[1]) * 16 % bits == 0)
    return make_tiled_copy(Copy_Atom(f"UniversalCopy<{bits}>", "f16"), *layouts)


@given(tiled_copies(), st.tuples(*[st.sampled_from((1, 2, 3))] * 2))
def test_a_copy_touches_every_element_once(copy, repeat):
    shape = tuple(n * r for n, r in zip(copy.tile_shape, repeat, strict=True))
    found = coverage(copy, shape)
    assert found.exact, str(found)
    for side in "SD":
        counts = Counter()
        for t in range(copy.size()):
            counts.update(touched(copy.get_slice(t), side, shape))
        assert counts == dict.fromkeys(range(shape[0] * shape[1]), 1)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=2), st.integers(0, 9), st.integers(1, 4))
def test_misses_and_doubles_are_those_of_a_count(thread_strides, value_stride, values):
    tv = Layout(((2, 3), values), (tuple(thread_strides), value_stride))
    assume(max(int(i) for i in cute.offsets(tv)) < 24)
    copy = make_tiled_copy_tv(Copy_Atom("UniversalCopy<16>", "f16"), tv, (4, 6))
    found = coverage(copy)["D"]
    hits = [(tv(t, v), t) for t in range(6) for v in range(values)]
    counts = Counter(index for index, _ in hits)
    at = [(i % 4, i // 4) for i in range(24)]
    assert set(found.missing) == {at[i] for i in range(24) if i not in counts}
    expected = {at[i]: [t for j, t in hits if j == i] for i in counts if counts[i] > 1}
    assert {c: sorted(who) for c, who in found.doubled} == expected
    assert found.outside == ()
    assert found.exact == (sorted(counts) == list(range(24)) and max(counts.values()) == 1)


def test_overlapping_writers_are_named():
    tv = Layout((4, 2), (1, 1))  # thread t has elements t and t + 1
    copy = make_tiled_copy_tv(Copy_Atom("UniversalCopy<16>", "f16"), tv, (6,))
    found = coverage(copy)
    assert not found.exact
    assert found.doubled == tuple((side, (i,), (i - 1, i)) for side in "SD" for i in (1, 2, 3))
    assert found.missing == (("S", (5,)), ("D", (5,)))
    assert str(found["D"]) == (
        "D (6): 1 missing: (5); "
        "3 doubled: (1) by threads 0, 1; (2) by threads 1, 2; (3) by threads 2, 3"
    )


def test_operands_are_shared_along_the_mode_that_they_lack():
    found = coverage(make_tiled_mma(BF16, (2, 4, 1)))
    assert [(o.name, o.shared) for o in found.operands] == [("A", 4), ("B", 2), ("C", 1)]
    split = coverage(make_tiled_mma(BF16, (1, 1, 2)))
    assert [(o.name, o.shared) for o in split.operands] == [("A", 1), ("B", 1), ("C", 2)]


def test_a_warpgroup_shares_what_lies_in_shared_memory():
    found = coverage(make_tiled_mma("SM90_64x64x16_F32F16F16_SS"))
    assert [(o.name, o.shared) for o in found.operands] == [("A", 128), ("B", 128), ("C", 1)]


@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_lanes_whose_address_ldmatrix_does_not_read_count_for_nothing(matrices):
    mma = make_tiled_mma(BF16, (2, 2, 1), (32, 32, 16))
    atom = Copy_Atom(f"SM75_U32x{matrices}_LDSM_N", "bf16")
    for make in (make_tiled_copy_A, make_tiled_copy_B):
        found = coverage(make(atom, mma))
        assert found.exact, str(found)
        assert [o.shared for o in found.operands] == [2, 2]


def test_sharing_is_no_fault_in_registers_but_in_memory():
    mma = make_tiled_mma(BF16, (2, 2, 1), (32, 32, 16))
    loads = coverage(make_tiled_copy_A(Copy_Atom("UniversalCopy<32>", "bf16"), mma))
    assert loads["S"].exact
    assert loads["S"].shared == 2
    assert len(loads["D"].doubled) == 32 * 16  # two writers of each element
    stores = coverage(make_tiled_copy_C(Copy_Atom("UniversalCopy<64>", "f32"), mma))
    assert stores.exact


@each([c for c in COPIES if not c.get("inadmissible")])
def test_sources_of_cutes_own_copies_are_covered(case):
    copy = tiled_copy_of(case)
    found = coverage(copy)["S"]
    assert found.exact, str(found)


def test_a_tensor_that_the_tile_does_not_divide_is_refused():
    with pytest.raises(
        cute.LayoutError, match=r"partition_A: given extent 24 in M for a tile of 16"
    ):
        coverage(make_tiled_mma(BF16), (24, 8, 16))


def test_a_permutation_with_gaps_needs_a_tensor_of_its_period():
    row = atoms.get("SM70_8x8x4_F32F16F16F32_TN")
    mma = make_tiled_mma(row, (2, 1, 1), (Layout((8, 2), (1, 16)), 8, 4))
    with pytest.raises(cute.LayoutError, match=r"for a tile of 32 \(16 of them in"):
        coverage(mma)
    assert coverage(mma, (32, 8, 4)).exact


def test_only_tiled_operations_have_a_coverage():
    with pytest.raises(cute.LeafTypeError, match="a TiledMMA or a TiledCopy"):
        coverage(Layout(4))
    with pytest.raises(KeyError):
        coverage(make_tiled_mma(BF16))["S"]
