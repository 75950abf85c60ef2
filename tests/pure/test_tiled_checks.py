"""check_copy and check_gemm: what is refused once both sides of a copy, or all operands of a
product, are known; and that nothing legal is.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, Swizzle, atoms, sym
from cute_py.atoms import Copy_Atom
from cute_py.errors import CuteError, DtypeError, LayoutError, LeafTypeError
from cute_py.tiled.checks import check_copy, check_gemm
from cute_py.tiled.fragments import holds

F16 = atoms.SM80_16x8x16_F32F16F16F32_TN
MMA = cute.make_tiled_mma(F16, (2, 2, 1), (32, 32, 16))
CP_ASYNC = Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL", "f16")
ROWS = cute.make_tiled_copy(CP_ASYNC, Layout((32, 4), (4, 1)), Layout((1, 8)))
COLUMNS = cute.make_tiled_copy(CP_ASYNC, Layout((4, 32)), Layout((8, 1)))
TILE = Layout((32, 32), (32, 1))
LDMATRIX = cute.make_tiled_copy_A(Copy_Atom("SM75_U32x4_LDSM_N", "f16"), MMA)
TRANSPOSED = cute.make_tiled_copy_A(Copy_Atom("SM75_U16x8_LDSM_T", "f16"), MMA)


def memory(layout, space="smem", dtype="f16", name="m"):
    return cute.make_tensor(cute.Memory(name, dtype, space=space), layout)


def parts(copy, src, dst, thread=5):
    """The partitions of one thread: of tensors in gmem and smem where layouts are given."""
    sides = memory(src, "gmem") if isinstance(src, Layout) else src, dst
    dst = memory(dst) if isinstance(dst, Layout) else dst
    one = copy.get_slice(thread)
    return copy, one.partition_S(sides[0]), one.partition_D(dst)


def loaded(copy, tile, dtype="f16"):
    """What copies a tile of shared memory to the fragment of A."""
    one = copy.get_slice(5)
    fragment = MMA.get_slice(5).partition_fragment_A(memory(Layout((32, 16)), dtype=dtype))
    return copy, one.partition_S(memory(tile, dtype=dtype)), one.retile_D(fragment)


def fragments(mma=MMA, shape=(64, 64, 32)):
    m, n, k = shape
    one = mma.get_slice(0)
    return tuple(
        getattr(one, f"partition_fragment_{operand}")(memory(Layout(extents)))
        for operand, extents in (("A", (m, k)), ("B", (n, k)), ("C", (m, n)))
    )


WORD = Copy_Atom("UniversalCopy<32>", "f32")
SHARED = cute.make_tiled_copy_tv(WORD, Layout((32, 2), (1, 1)), (33,))
PADDED = Layout((32, 32), (36, 1))


# -- copies that are legal


SWIZZLED = cute.make_composed_layout(Swizzle(2, 3, 3), 0, Layout((32, 32), (32, 1)))


@pytest.mark.parametrize("thread", [0, 5, 127])
@pytest.mark.parametrize("dst", [TILE, Layout((32, 32), (40, 1)), SWIZZLED], ids=str)
def test_vectors_along_the_contiguous_mode_are_copied(thread, dst):
    dst = memory(dst)
    check_copy(*parts(ROWS, TILE, dst, thread))


def test_columns_are_copied_along_columns():
    check_copy(*parts(COLUMNS, Layout((32, 32)), Layout((32, 32))))
    with pytest.raises(LayoutError, match="is 32 elements"):
        check_copy(*parts(COLUMNS, TILE, TILE))


def test_a_host_array_stands_for_global_memory():
    array = cute.make_tensor(np.zeros((32, 32), np.float16))
    check_copy(*parts(ROWS, array, TILE))
    with pytest.raises(LayoutError, match="starts at element"):
        check_copy(*parts(ROWS, cute.make_tensor(np.zeros((32, 33), np.float16)[:, :32]), TILE))


def test_ldmatrix_reads_rows_and_transposed_columns():
    row_major, column_major = Layout((32, 16), (16, 1)), Layout((32, 16))
    check_copy(*loaded(LDMATRIX, row_major))
    check_copy(*loaded(TRANSPOSED, column_major))
    for copy, tile in ((LDMATRIX, column_major), (TRANSPOSED, row_major)):
        with pytest.raises(LayoutError, match="or the transposed ldmatrix"):
            check_copy(*loaded(copy, tile))


def test_elements_of_another_width_are_partitioned_but_not_copied():
    """Predicates, coordinates and accumulators are partitioned like the data they belong to."""
    one = ROWS.get_slice(5)
    assert one.partition_S(cute.make_identity_tensor((32, 32))).size() == 8
    wide = one.partition_S(memory(TILE, "gmem", "f32"))
    with pytest.raises(DtypeError):
        check_copy(ROWS, wide, one.partition_D(memory(TILE)))
    converting = Copy_Atom("AutoVectorizingCopy", "f16")
    check_copy(converting, wide, memory(Layout(wide.shape), "rmem"))


def test_registers_need_no_order():
    stores = cute.make_tiled_copy_C(Copy_Atom("UniversalCopy<64>", "f32"), MMA)
    c = memory(Layout((32, 32), (32, 1)), "gmem", "f32")
    one = stores.get_slice(3)
    strided = memory(Layout(((2, 4), 1, 1), ((8, 1), 0, 0)), "rmem", "f32")
    check_copy(stores, strided, one.partition_D(c))


def test_a_copy_atom_alone_is_checked_too():
    vector = memory(Layout((8, 4)), "gmem")
    check_copy(CP_ASYNC, vector, memory(Layout((8, 4))))
    with pytest.raises(LeafTypeError, match="copy: given 3"):
        check_copy(3, vector, vector)


def test_a_pointer_must_be_aligned():
    def vector(address):
        return cute.make_tensor(cute.make_ptr("f16", address), Layout((8, 4)))

    check_copy(CP_ASYNC, vector(0x7F00), memory(Layout((8, 4))))
    with pytest.raises(LayoutError, match="starts at element"):
        check_copy(CP_ASYNC, vector(0x7F08), memory(Layout((8, 4))))


# -- symbols


def test_alignment_of_symbols_is_proved_or_its_assumption_named():
    thread = ROWS.get_slice(sym("tid", min=0, max=127))
    dst = thread.partition_D(memory(TILE))

    def source(stride):
        return thread.partition_S(memory(Layout((32, 32), (stride, 1)), "gmem"))

    check_copy(ROWS, source(sym("K", multiple_of=8)), dst)
    with pytest.raises(cute.UndecidedError, match="multiple of 8"):
        check_copy(ROWS, source(sym("K", multiple_of=4)), dst)
    columns = memory(Layout((32, 32), (1, sym("K", min=2, multiple_of=8))), "gmem")
    with pytest.raises(LayoutError, match="is K elements after the first"):
        check_copy(ROWS, thread.partition_S(columns), dst)


def test_a_swizzle_of_symbolic_threads_keeps_vectors_of_its_base():
    thread = ROWS.get_slice(sym("tid", min=0, max=127))
    src = thread.partition_S(memory(TILE, "gmem"))
    check_copy(ROWS, src, thread.partition_D(memory(SWIZZLED)))
    narrow = cute.make_composed_layout(Swizzle(2, 2, 3), 0, Layout((32, 32), (32, 1)))
    with pytest.raises(CuteError):
        check_copy(ROWS, src, thread.partition_D(memory(narrow)))


strides = st.sampled_from([1, 2, 4, 8, 16, 24, 32])


@given(
    st.lists(strides, min_size=4, max_size=4),
    st.integers(0, 24),
    st.sampled_from([16, 32, 64, 128]),
    st.booleans(),
)
def test_exactly_aligned_runs_are_accepted(steps, origin, bits, symbolic):
    """By strides, as for symbols, and by offsets the answer is that of a loop over the accesses."""
    layout = Layout(((2, 4), 2, 3), ((steps[0], steps[1]), steps[2], steps[3]))
    count = bits // 16
    runs = cute.offsets(layout).reshape(-1, count) + origin
    good = (runs == runs[:, :1] + np.arange(count)).all() and (runs[:, 0] % count == 0).all()
    first = sym("first", min=0, multiple_of=128) + origin if symbolic else origin
    atom = Copy_Atom(f"UniversalCopy<{bits}>", "f16")
    fragment = memory(Layout((8, 2, 3)), "rmem")
    if good:
        check_copy(atom, (layout, first), fragment)
    else:
        with pytest.raises(LayoutError):
            check_copy(atom, (layout, first), fragment)


# -- products


def test_fragments_of_one_mma_are_multiplied():
    a, b, c = fragments()
    check_gemm(MMA, a, b, c)
    check_gemm(F16, a, b, c, c)
    check_gemm(MMA, a[cute._, cute._, 0], b[cute._, cute._, 1], c)
    with pytest.raises(LayoutError, match="required: C"):
        check_gemm(MMA, b, a, c)
    with pytest.raises(LayoutError, match="required: C"):
        check_gemm(MMA, memory(Layout((8, 2, 2, 3)), "rmem"), b, c)
    with pytest.raises(DtypeError, match="f16 as operand C"):
        check_gemm(MMA, a, b, memory(c.layout, "rmem", "f16"))
    with pytest.raises(LeafTypeError, match="gemm: given None"):
        check_gemm(None, a, b, c)


def test_descriptors_of_one_mma_are_multiplied():
    mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
    tile = cute.tile_to_shape(atoms.Layout_K_SW128_Atom("f16"), (64, 64))
    one = mma.get_slice(0)
    a, b = one.partition_fragment_A(tile), one.partition_fragment_B(tile)
    check_gemm(mma, a, b, one.partition_fragment_C(Layout((64, 64))))


@pytest.mark.parametrize(
    ("held", "wanted", "good"),
    [
        ("f16", "f16", True),
        ("f32", "tf32", True),
        ("u8", "e4m3", True),
        ("tf32", "f32", False),
        ("bf16", "f16", False),
        ("e5m2", "e4m3", False),
        ("u8", "s8", False),
        ("u16", "f32", False),
    ],
)
def test_an_instruction_takes_its_type_or_its_bits(held, wanted, good):
    assert holds(cute.dtype(held), cute.dtype(wanted)) is good


@pytest.mark.parametrize("swizzle", ["INTER", "SW32", "SW64", "SW128"])
@pytest.mark.parametrize("given_major", ["K", "MN"])
def test_a_tile_of_the_other_major_is_never_described(swizzle, given_major):
    """A descriptor of the wrong major would read other elements, in silence."""
    block = getattr(atoms, f"Layout_{given_major}_{swizzle}_Atom")("f16")
    tile = cute.tile_to_shape(block, (64, 64))
    for major in ("K", "MN"):
        atom = atoms.SM90_64x64x16_F32F16F16_SS(tnspA=major)
        one = cute.make_tiled_mma(atom).get_slice(0)
        if major == given_major:
            assert one.partition_fragment_A(tile)
        else:
            with pytest.raises(LayoutError, match=f"a {major}-major tile") as caught:
                one.partition_fragment_A(tile)
            assert caught.value.code in ("operand-major", "gmma-canonical")
