"""Copy instructions: CuTe's layouts, what each side covers, the lane maps of the PTX ISA."""

import pickle

import pytest

import cute_py as cute
from cute_py.atoms.copy import Copy_Atom, Copy_Op
from cute_py.atoms.copy_universal import move
from cute_py.atoms.registry import copy_names, copy_rows, get_copy, registered
from tests.notation import golden_cases
from tests.sampling import check_each, each

CASES = golden_cases("copy_atoms")
ROWS = copy_rows()
WARP_ROWS = [op for op in ROWS if op.num_threads == 32]


def case_id(case):
    return case["atom"] + "".join(f"_{bits}" for bits in case["args"])


def table(tv):
    """Return [thread][value] -> bit."""
    return [[tv(t, v) for v in range(cute.size(tv, 1))] for t in range(cute.size(tv, 0))]


# -- CuTe C++


@each(CASES, name=case_id)
def test_bit_layouts_are_cutes(case):
    op = get_copy(case["atom"], *case["args"])
    given = {
        "thr_id": str(op.thr_id),
        "src_layout": str(op.src_tv),
        "dst_layout": str(op.dst_tv),
        "ref_layout": str(op.ref_tv),
    }
    assert given == {key: case[key] for key in given}


@each([c for c in CASES if "value_layouts" in c])
def test_value_layouts_are_cutes(case):
    op = get_copy(case["atom"], *case["args"])
    for expected in case["value_layouts"]:
        bits = expected["value_bits"]
        if expected.get("inadmissible"):
            with pytest.raises(cute.LayoutError, match=rf"values of {bits} bits"):
                Copy_Atom(op, bits)
            continue
        atom = Copy_Atom(op, bits)
        given = {
            "value_bits": bits,
            "thr_id": str(atom.thr_id),
            "val_src": str(atom.src_tv),
            "val_dst": str(atom.dst_tv),
            "val_ref": str(atom.ref_tv),
            "num_val_src": atom.num_val_src,
            "num_val_dst": atom.num_val_dst,
        }
        assert given == expected


def test_golden_data_is_complete():
    assert len(CASES) == 149
    assert sum(len(case.get("value_layouts", [])) for case in CASES) == 220


# -- laws of the rows


def image(tv):
    """Return the offsets that a map reaches, each once; what reaches one twice has stride 0."""
    once = cute.filter(tv)
    offsets = once.offsets().tolist()
    assert len(set(offsets)) == len(offsets)
    return sorted(offsets)


def require_same_bits(op):
    source, destination = image(op.src_tv), image(op.dst_tv)
    assert image(op.ref_tv) in (source, destination)
    if op.name.startswith("SM100_UTCCP_4dp256bit"):  # refreshes 4 of 128 lanes: every 32nd bit
        assert source == destination == list(range(0, 32768, 32))
    elif op.name.startswith(
        ("SM100_UTCCP_4x32dp", "SM100_UTCCP_2x64dp")
    ):  # one source, 2 or 4 targets
        assert destination == list(range(16384))
        assert source == list(range(16384 // int(op.name[12])))
    else:
        assert source == destination == list(range(len(source)))


@pytest.mark.parametrize("part", range(4))
def test_both_sides_name_the_same_bits_once_up_to_broadcast(part):
    check_each(require_same_bits, ROWS[part::4])


@each(WARP_ROWS)
def test_registers_hold_every_bit_once(op):
    """No stride 0 on the side in registers."""
    for tv, space in ((op.src_tv, op.src_space), (op.dst_tv, op.dst_space)):
        if space == "rmem":
            assert cute.is_bijective(tv)


@each([op for op in WARP_ROWS if op.ptx and op.operands])
def test_register_operands_hold_the_bits_of_a_thread(op):
    for side, tv, space in (("src", op.src_tv, op.src_space), ("dst", op.dst_tv, op.dst_space)):
        if space == "rmem":
            bits = sum(operand.bits for name, operand in op.operands if name.startswith(side))
            assert bits == cute.size(tv, 1)


@each(ROWS)
def test_row_is_frozen_hashable_picklable_and_named(op):
    assert pickle.loads(pickle.dumps(op)) == op
    assert hash(pickle.loads(pickle.dumps(op))) == hash(op)
    assert registered(op)
    assert op.source
    assert op.native
    with pytest.raises(AttributeError):
        op.name = "another"


def test_names_are_unique_and_found():
    assert len(set(copy_names())) == len(copy_names())
    assert len({str(op) for op in ROWS}) == len(ROWS)


def test_rows_not_runnable_are_data_of_later_architectures():
    names = [op.name for op in ROWS if not op.runnable and not op.name.startswith("SM100")]
    assert names == ["SM75_U32x1_MOVM_T"]


# -- PTX ISA, figures of ldmatrix and stmatrix: on a ramp of 8-row matrices of 16-bit elements


def ramp(matrices):
    """Return first bit -> (row, column) of each element of stacked 8x8 matrices."""
    return {
        16 * (8 * row + column): (row, column) for row in range(8 * matrices) for column in range(8)
    }


@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize("name", ["SM75_U32x{}_LDSM_N", "SM90_U32x{}_STSM_N"])
def test_f12_matrix_registers_hold_neighbours_of_a_row(name, matrices):
    """Register i of lane l: elements (8i + l // 4, 2(l % 4) + {0, 1})."""
    op = get_copy(name.format(matrices))
    registers = table(op.ref_tv)
    elements = ramp(matrices)
    for lane in range(32):
        for i in range(matrices):
            pair = [elements[registers[lane][32 * i + 16 * h]] for h in range(2)]
            assert pair == [(8 * i + lane // 4, 2 * (lane % 4) + h) for h in range(2)]


@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize("name", ["SM75_U16x{}_LDSM_T", "SM90_U16x{}_STSM_T"])
def test_f13_transposed_matrix_registers_hold_neighbours_of_a_column(name, matrices):
    """Register i of lane l: elements (8i + 2(l % 4) + {0, 1}, l // 4)."""
    op = get_copy(name.format(2 * matrices))
    registers = table(op.ref_tv)
    elements = ramp(matrices)
    for lane in range(32):
        for i in range(matrices):
            pair = [elements[registers[lane][32 * i + 16 * h]] for h in range(2)]
            assert pair == [(8 * i + 2 * (lane % 4) + h, lane // 4) for h in range(2)]


@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize("form", ["SM75_U32x{0}_LDSM_N src_tv", "SM75_U16x{1}_LDSM_T src_tv"])
def test_f12_lane_8i_plus_r_gives_row_r_of_matrix_i(form, matrices):
    name, side = form.format(matrices, 2 * matrices).split()
    rows = table(getattr(get_copy(name), side))
    for lane in range(8 * matrices):
        assert rows[lane] == list(range(128 * lane, 128 * lane + 128))


def test_stmatrix_is_ldmatrix_the_other_way():
    for x in (1, 2, 4):
        for load, store in (("U32x{}_LDSM_N", "U32x{}_STSM_N"), ("U16x{}_LDSM_T", "U16x{}_STSM_T")):
            count = x if "U32" in load else 2 * x
            there, back = (
                get_copy("SM75_" + load.format(count)),
                get_copy("SM90_" + store.format(count)),
            )
            assert (there.src_tv, there.dst_tv) == (back.dst_tv, back.src_tv)


@pytest.mark.parametrize("mask", [1, 4])
def test_shuffle_transposes_the_registers_of_two_lanes(mask):
    """Lane l, register i receives what lane (l with bit `mask` = i) has in register (bit of l)."""
    op = get_copy(f"SM50_Shuffle_U32_2x2Trans_XOR{mask}")
    given, taken = table(op.src_tv), table(op.dst_tv)
    for lane in range(32):
        upper = int(bool(lane & mask))
        for i in range(2):
            partner = (lane & ~mask) | (mask * i)
            assert taken[lane][32 * i] == given[partner][32 * upper]


# -- cp.async


@pytest.mark.parametrize("size", [4, 8, 16])
def test_f14_cp_async_of_4_8_16_bytes(size):
    op = get_copy(f"SM80_CP_ASYNC_CACHEALWAYS_{size}B")
    assert op.instruction(dst=["[s]"], src=["[g]"]) == (
        f"cp.async.ca.shared.global.L2::128B [[s]], [[g]], {size};"
    )
    assert (op.src_space, op.dst_space, op.completion) == ("gmem", "smem", "cp_async")
    assert (op.src_bits, op.alignment_bits) == (8 * size, 8 * size)


def test_f14_cp_async_cg_takes_16_bytes_only():
    assert get_copy("SM80_CP_ASYNC_CACHEGLOBAL") is get_copy("SM80_CP_ASYNC_CACHEGLOBAL", 128)
    with pytest.raises(cute.LayoutError, match="given 64 bits; required: 128 bits"):
        get_copy("SM80_CP_ASYNC_CACHEGLOBAL", 64)


def test_f14_guard_stands_before_the_instruction():
    text = get_copy("SM80_CP_ASYNC_CACHEGLOBAL").instruction(dst=["%s"], src=["%g"], guard=["%p"])
    assert "setp.ne.b32 p, %p, 0; @p cp.async.cg" in text


@pytest.mark.parametrize("name", ["SM80_CP_ASYNC_CACHEALWAYS", "SM80_CP_ASYNC_CACHEGLOBAL"])
def test_f15_zfill_has_the_bytes_to_read_as_fourth_operand(name):
    plain, zfill = get_copy(name, 128), get_copy(f"{name}_ZFILL", 128)
    text = zfill.instruction(dst=["%s"], src=["%g"], src_bytes=["%n"])
    assert text == plain.instruction(dst=["%s"], src=["%g"])[:-1] + ", %n;"


# -- atoms in values


def test_n07_f16_cp_async_moves_8_values():
    atom = Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL", cute.f16)
    assert (atom.num_values, atom.num_threads, str(atom.val_src_tv)) == (8, 1, "(1,8):(0,1)")
    assert (atom.val_dst_tv, atom.val_ref_tv) == (atom.dst_tv, atom.ref_tv)


@pytest.mark.parametrize("bits", [4, 8, 16, 32])
@pytest.mark.parametrize("op", ["SM75_U32x4_LDSM_N", "SM90_U32x2_STSM_N", "UniversalCopy<128>"])
def test_value_layout_is_the_bit_layout_divided(op, bits):
    atom = Copy_Atom(op, bits)
    for values, bit_tv in ((atom.src_tv, atom.op.src_tv), (atom.dst_tv, atom.op.dst_tv)):
        coarse = table(values)
        fine = table(bit_tv)
        for thread in range(atom.num_threads):
            assert coarse[thread] == [bit // bits for bit in fine[thread][::bits]]


def test_copy_atom_is_a_value():
    atom = Copy_Atom("SM75_U32x4_LDSM_N", "bf16")
    assert atom == Copy_Atom(get_copy("SM75_U32x4_LDSM_N"), cute.bf16)
    assert pickle.loads(pickle.dumps(atom)) == atom
    assert len({atom, Copy_Atom("SM75_U32x4_LDSM_N", "bf16"), Copy_Atom("DefaultCopy", "f16")}) == 2
    assert eval(repr(atom), {"Copy_Atom": Copy_Atom, "cute": cute}) == atom


def test_repr_of_a_row_of_ones_own_evaluates():
    op = move(32, "gmem", "rmem")
    scope = {"Copy_Op": Copy_Op, "Layout": cute.Layout}
    from cute_py.atoms.mma import Operand

    assert eval(repr(op), scope | {"Operand": Operand}) == op


# -- refusals


def test_value_wider_than_a_threads_run_is_refused():
    with pytest.raises(
        cute.LayoutError,
        match=r"given SM75_U16x8_LDSM_T with values of 32 bits \(u32\); its destination is .* in "
        r"bits; required: values that stay whole in one thread: at most 16 bits; fix: copy as "
        r"values of 16 bits or less",
    ):
        Copy_Atom("SM75_U16x8_LDSM_T", 32)


def test_value_wider_than_the_access_is_refused_where_it_is_executed():
    atom = Copy_Atom("UniversalCopy<16>", cute.f32)
    assert str(atom.src_tv) == "(1,1):(0,1)"  # as CuTe
    with pytest.raises(
        cute.LayoutError,
        match=r"given UniversalCopy<16>, which moves 16 bits of the source, with values of 32 bits "
        r"\(f32\); required: a whole number of values; fix: use a wider instruction",
    ):
        atom.require_whole_values()


@pytest.mark.parametrize("op", ["DefaultCopy", "AutoVectorizingCopy"])
def test_auto_vectorising_copies_adapt_to_any_value(op):
    atom = Copy_Atom(op, 64)
    atom.require_whole_values()
    assert atom.num_values == 1


def test_atom_of_no_instruction_is_refused():
    with pytest.raises(
        cute.CuteError, match=r"given 3 \(int\); required: a copy instruction: a Copy_Op, or its"
    ):
        Copy_Atom(3, cute.f16)


@pytest.mark.parametrize("name", ["SM75_U32x4_LDSM_M", "UniversalCopy<x>", "SM90_TMA_LOAD"])
def test_unknown_name_is_refused_with_the_nearest(name):
    with pytest.raises(
        cute.LayoutError, match="required: the name of a copy instruction; fix: one"
    ):
        get_copy(name)


def test_nearest_name_is_named():
    with pytest.raises(cute.LayoutError, match="SM75_U32x4_LDSM_N"):
        get_copy("SM75_U32x4_LDSM")


@pytest.mark.parametrize(("name", "args"), [("UniversalCopy", ()), ("UniversalCopy<8>", (8,))])
def test_wrong_number_of_arguments_is_refused(name, args):
    with pytest.raises(
        cute.LayoutError,
        match=r"required: the template arguments of the instruction, in bits; fix: write "
        r"UniversalCopy<8>",
    ):
        get_copy(name, *args)


@pytest.mark.parametrize("bits", [0, 24, 512, True, 16.0])
def test_width_that_no_copy_has_is_refused(bits):
    with pytest.raises(cute.LayoutError, match="required: 1 or 2 or 4 or 8 or 16 or 32") as caught:
        get_copy("UniversalCopy", bits)
    assert caught.value.code == "copy-width"


@pytest.mark.parametrize("bits", [0, 64, 200])
@pytest.mark.parametrize("name", ["SM90_BULK_COPY_G2S", "SM90_TMA_STORE_3D"])
def test_bulk_copy_of_no_multiple_of_16_bytes_is_refused(name, bits):
    with pytest.raises(
        cute.LayoutError, match=rf"given {bits} bits; required: a multiple of 128 bits \(16 bytes\)"
    ):
        get_copy(name, bits)


@pytest.mark.parametrize(("src", "dst"), [("gmem", "smem"), ("rmem", "rmem"), ("tmem", "rmem")])
def test_move_between_other_memories_is_refused(src, dst):
    with pytest.raises(cute.LayoutError, match=f"given a move from {src} to {dst}; required: reg"):
        move(32, src, dst)


def test_copy_without_instruction_is_refused_as_text():
    with pytest.raises(
        cute.LayoutError, match="UniversalCopy<32>, which is not a single instruction"
    ):
        get_copy("UniversalCopy", 32).instruction()


@pytest.mark.parametrize("operands", [{}, {"dst": ["a"]}, {"dst": ["a"] * 3, "src": ["b"]}])
def test_wrong_operands_are_refused(operands):
    with pytest.raises(cute.LayoutError, match="required: dst of 4, src of 1; fix: pass one list"):
        get_copy("SM75_U32x4_LDSM_N").instruction(**operands)
