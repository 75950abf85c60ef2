"""MMA atoms: the rows are what CuTe C++ and the PTX ISA say, and each multiplies matrices."""

import copy
import pickle
import re
import subprocess
import sys
from math import prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cute_py as cute
import cute_py.atoms
from cute_py import Layout
from cute_py.atoms import MMA_Atom, Operand, copy_rows, find, get, registry, rows
from cute_py.atoms.arch import ARCHS, number
from cute_py.atoms.fragments import fragment
from cute_py.atoms.lint import lint
from cute_py.atoms.search import table_rows, table_text
from cute_py.dtypes.table import DTYPES
from cute_py.tiled.coverage import coverage
from tests.notation import golden_cases
from tests.sampling import each

CASES = golden_cases("mma_atoms")
ALL = list(rows())
RUNNABLE = [atom for atom in ALL if atom.runnable]
BF16 = get("SM80_16x8x16_F32BF16BF16F32_TN")

# the C++ names that are not the cutlass_name of a dtype
TYPES = {
    **{row.cutlass_name: row.name for row in DTYPES},
    "float": "f32",
    "uint1b_t": "b1",
    "complex<double>": "c128",
    "GaussComplex": "gc192",
}


# -- tables


@pytest.mark.parametrize("part", range(4))
def test_tables_of_an_atom_are_its_layouts(part):
    for atom in RUNNABLE[part::4]:
        assert atom.threads == tuple(atom.thr_id(t) for t in range(atom.num_threads))
        for operand, values in zip("abc", atom.values, strict=True):
            tv, table = getattr(atom, f"{operand}_tv"), atom.table(operand)
            assert table.shape == (atom.num_threads, values)
            t, v = atom.num_threads - 1, values - 1
            assert (table[t, v], table[0, v], table[t, 0]) == (tv(t, v), tv(0, v), tv(t, 0))


# -- golden: CuTe C++


def described(atom):
    """Return what the golden data says of an atom."""
    return {
        "shape_mnk": f"({','.join(str(extent) for extent in atom.shape_mnk)})",
        "thr_id": str(atom.thr_id),
        **{f"{operand}_layout": str(getattr(atom, f"{operand}_tv")) for operand in "abc"},
        **{f"val_type_{operand}": getattr(atom, f"{operand}_type").name for operand in "abcd"},
        **{f"{name.removesuffix('_tv')}_layout": str(layout) for name, layout in atom.extra},
    }


def departures(case):
    """Return the fields in which the atom differs from CuTe's."""
    arguments = [TYPES.get(each, each) for each in case["args"]]
    ours = described(get(case["atom"])(*arguments))
    skipped = set(case.get("incongruent", ()))  # malformed in C++ itself
    if "SPARSE" in case["atom"]:
        skipped |= {"val_type_a", "val_type_e"}  # sparse_elem<...> is a type of C++ alone
        skipped |= {"stored_layout"}  # CuTe has no name for it
    fields = case.keys() - {"atom", "args", "incongruent"}
    wanted = {key: TYPES.get(case[key], case[key]) for key in fields}
    keys = (wanted.keys() | ours.keys()) - skipped
    return {key for key in keys if wanted.get(key) != ours.get(key)}


@pytest.mark.parametrize("family", sorted({case["atom"].partition("_")[0] for case in CASES}))
def test_golden_atom_is_cutes(family):
    cases = [case for case in CASES if case["atom"].partition("_")[0] == family]
    wrong = {
        f"{case['atom']}{case['args']}": departures(case) for case in cases if departures(case)
    }
    assert not wrong


def test_golden_data_is_complete():
    assert len(CASES) == 513
    assert sum("incongruent" in case for case in CASES) == 2


# -- lint


def test_every_row_is_sound():
    assert {str(atom): lint(atom) for atom in ALL if lint(atom)} == {}
    assert len(ALL) == len(set(registry.names())) == 2274


def edited(**changes):
    """Return the bf16 row with some fields replaced."""
    fields = {field: getattr(BF16, field) for field in MMA_Atom.__slots__}
    return cute_py.atoms.mma._restore({**fields, "name": "edited", **changes})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"a_tv": Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 64)))}, "A .* does not reach each"),
        (
            {"b_tv": Layout(((4, 4), (2, 2)), ((16, 1), (8, 64)))},
            "B .* does not have the 32 threads",
        ),
        ({"c_tv": Layout(128)}, "C .* is not \\(thread, value\\)"),
        ({"thr_id": Layout((4, 8), (1, 0))}, "maps two logical threads to one thread"),
        ({"thr_id": Layout(32, 8)}, "is outside the 128 threads"),
        (
            {"registers": (*BF16.registers[:1], Operand(2, "b32"), *BF16.registers[2:])},
            "A has 8 values",
        ),
        ({"registers": (Operand(1, "b64"), *BF16.registers[1:])}, "D is in rmem"),
        ({"registers": ()}, "ptx without registers"),
        ({"ptx": BF16.ptx.replace(", {c}", "")}, "does not have"),
        ({"ptx": BF16.ptx.replace("m16n8k16", "m16n8k8")}, "is not of shape 16x8x16"),
        ({"emulated": ("sm_90",)}, "both native and emulated"),
        ({"native": ("sm_75",)}, "older than sm_80"),
        ({"native": (), "emulated": ()}, "neither native nor emulated"),
    ],
)
def test_lint_names_the_fault(changes, complaint):
    problems = lint(edited(**changes))
    assert any(re.search(complaint, each) for each in problems), problems


def test_lint_refuses_a_descriptor_that_threads_see_differently():
    gmma = get("SM90_64x8x16_F32F16F16_SS")
    fields = {field: getattr(gmma, field) for field in MMA_Atom.__slots__}
    fields["b_tv"] = Layout((128, (8, 16)), (1, (1, 8)))
    problems = lint(cute_py.atoms.mma._restore(fields))
    assert any("but differently by some threads" in each for each in problems)


# -- the PTX ISA, section by section: row and column of register value i of lane

GROUP, IN_GROUP = np.divmod(np.arange(32), 4)  # "groupID", "threadID_in_group"


def ptx_a(rows, bits):
    """Return (row, k) of value i of A: m16n8kK, or m8n8kK where rows is 8."""
    per_register = max(32 // bits, 1)

    def place(i):
        register, within = divmod(i, per_register)
        row = GROUP + 8 * (register % 2 if rows == 16 else 0)
        block = register // (2 if rows == 16 else 1)
        return row, IN_GROUP * per_register + within + 4 * per_register * block

    return place


def ptx_c(i):
    """Return (row, column) of accumulator i: c0 c1 in row groupID, c2 c3 eight rows below."""
    return GROUP + 8 * (i // 2), IN_GROUP * 2 + i % 2


@each([row for row in RUNNABLE if row.num_threads == 32])
def test_warp_fragments_are_those_of_the_ptx_isa(atom):
    m, n, _ = atom.shape_mnk
    for tv, rows_, bits in ((atom.a_tv, m, atom.a_type.bits), (atom.b_tv, n, atom.b_type.bits)):
        place = ptx_a(rows_, bits)
        for i in range(cute.size(tv[1])):
            row, column = place(i)
            assert (row + rows_ * column).tolist() == [tv(t, i) for t in range(32)]
    for i in range(cute.size(atom.c_tv[1])):
        row, column = ptx_c(i)
        assert (row + m * column).tolist() == [atom.c_tv(t, i) for t in range(32)]


@pytest.mark.parametrize("name", ["SM70_8x8x4_F32F16F16F32_TN", "SM70_8x8x4_F16F16F16F16_NT"])
def test_quad_pair_fragments_are_those_of_the_ptx_isa(name):
    """PTX ISA, Matrix Fragments for mma.m8n8k4 with .f16 floating point type, first quad-pair."""
    atom = get(name)
    for thread in range(8):
        lane = atom.thr_id(thread)
        for i in range(4):
            if name.endswith("TN"):
                row, k = lane % 4 + 4 * (lane >= 16), i
            else:
                row, k = i + 4 * (lane >= 16), lane % 4
            assert atom.a_tv(thread, i) == row + 8 * k
            assert atom.b_tv(thread, i) == row + 8 * k
        for i in range(8):
            if atom.c_type is cute.f16:
                row, column = lane % 4 + 4 * (lane >= 16), i
            else:
                row = (lane & 1) + (i & 2) + 4 * (lane >= 16)
                column = (i & 4) + (lane & 2) + (i & 1)
            assert atom.c_tv(thread, i) == row + 8 * column


@pytest.mark.parametrize("modes", ["21", "12"])
def test_pairs_of_multiply_adds_are_of_one_thread(modes):
    """Source: cute/atom/mma_traits_sm100.hpp, MMA_Traits of the two rows."""
    atom = get(f"SM100_{'x'.join(modes)}x1_F32F32F32F32")
    m, n = map(int, modes)
    assert (atom.shape_mnk, atom.num_threads, atom.values) == ((m, n, 1), 1, (m, n, 2))
    assert {str(kind) for kind in (atom.a_type, atom.b_type, atom.c_type)} == {"f32"}
    pair, one = "(1,2):(0,1)", "(1,1):(0,0)"
    assert [str(tv) for tv in (atom.a_tv, atom.b_tv, atom.c_tv)] == [
        *((pair, one) if m == 2 else (one, pair)),
        pair,
    ]
    assert coverage(cute.make_tiled_mma(atom)).exact
    assert not atom.runnable


def test_warpgroup_accumulators_are_those_of_the_ptx_isa():
    """PTX ISA, Register Fragments for wgmma.mma_async: warp w has rows 16 w to 16 w + 15."""
    atom = get("SM90_64x48x16_F32F16F16_SS")
    warp, lane = np.divmod(np.arange(128), 32)
    for i in range(24):
        row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
        column = 8 * (i // 4) + lane % 4 * 2 + i % 2
        assert (row + 64 * column).tolist() == [atom.c_tv(t, i) for t in range(128)]


# -- multiplication


def random_tile(rng, dtype, shape):
    """Return small integers that the dtype holds exactly, column-major."""
    low = 0 if dtype.min == 0 else -2
    high = 2 if dtype.bits == 1 else 4
    return np.asfortranarray(rng.integers(low, high, shape))


def scatter(fragments, tv, shape):
    """Return the tile that the threads hold; an element that nobody holds stays poisoned."""
    tile = np.full(prod(shape), 10**9)
    tile[tv.offsets()] = fragments
    return tile.reshape(shape, order="F")


def hand_over(tile, tv, memory):
    """Return the tile after threads took their values of it and put them together again."""
    held = tv[1] if memory == "smem" else tv  # a descriptor shows each thread the same
    return scatter(tile.ravel(order="F")[held.offsets()], held, tile.shape)


def emulated(atom, a, b, c):
    """Return D, each operand handed over thread by thread and value by value."""
    a = hand_over(a, atom.a_tv, atom.a_memory)
    b = hand_over(b, atom.b_tv, atom.b_memory)
    c = hand_over(c, atom.c_tv, atom.c_memory)
    if atom.operation == "fma":
        product = a @ b.T
    else:
        combine = np.bitwise_xor if atom.operation == "xor.popc" else np.bitwise_and
        product = combine(a[:, None, :], b[None, :, :]).sum(axis=2)
    return hand_over(product + c, atom.c_tv, atom.c_memory)


@pytest.mark.parametrize("family", sorted({atom.name.partition("_")[0] for atom in RUNNABLE}))
def test_emulated_product_is_numpys(family):
    rng = np.random.default_rng(2603)
    for atom in (row for row in RUNNABLE if row.name.partition("_")[0] == family):
        m, n, k = atom.shape_mnk
        a, b, c = (
            random_tile(rng, dtype, shape)
            for dtype, shape in (
                (atom.a_type, (m, k)),
                (atom.b_type, (n, k)),
                (atom.c_type, (m, n)),
            )
        )
        assert np.array_equal(emulated(atom, a, b, c), c + product(atom, a, b)), atom


def product(atom, a, b):
    """Return what NumPy says, without the atom's layouts; integers are exact in float64."""
    if atom.operation == "fma":
        return np.einsum("mk,nk->mn", a.astype(float), b.astype(float), optimize=True).astype(int)
    meet = {"xor.popc": np.not_equal, "and.popc": np.logical_and}[atom.operation]
    return meet(a[:, None, :], b[None, :, :]).sum(axis=2)


@given(
    st.sampled_from([8, 16, 64]),
    st.integers(1, 8),
    st.sampled_from([1, 2, 4, 8, 32]),
)
def test_fragment_is_a_bijection_of_threads_and_values_onto_the_tile(rows_, blocks, values):
    warps = 4 if rows_ == 64 else 1
    layout = fragment(rows_, 4 * values * blocks, values, warps)
    assert cute.size(layout[0]) == 32 * warps
    assert sorted(layout.offsets().ravel()) == list(range(rows_ * 4 * values * blocks))


# -- names


@given(st.sampled_from(ALL))
@example(get("UniversalFMA<f32>"))
def test_row_survives_repr_and_pickle_and_copy(atom):
    assert eval(repr(atom), {"cute": cute_py}) == atom
    assert pickle.loads(pickle.dumps(atom)) == atom
    assert copy.deepcopy(atom) == atom
    assert get(str(atom)) is atom
    assert {atom: 1}[get(str(atom))] == 1


majors, scales = st.sampled_from(["K", "MN"]), st.sampled_from([1, -1])


@given(majors, majors, scales, scales)
def test_variant_of_a_template_is_what_was_asked(a, b, scale_a, scale_b):
    atom = get("SM90_64x64x16_F32F16F16_SS")(tnspA=a, tnspB=b, scaleA=scale_a, scaleB=scale_b)
    assert (atom.major_a, atom.major_b, atom.scale_a, atom.scale_b) == (a, b, scale_a, scale_b)
    tail = f"{scale_a}, {scale_b}, {int(a == 'MN')}, {int(b == 'MN')};"
    assert atom.ptx.endswith(tail)
    assert get(str(atom)) == atom == pickle.loads(pickle.dumps(atom))


def test_a_row_of_the_users_own_pickles_by_its_fields():
    mine = edited(shape_mnk=(16, 8, 32))
    assert pickle.loads(pickle.dumps(mine)) == mine != BF16


def test_row_is_frozen():
    with pytest.raises(AttributeError, match="frozen"):
        BF16.ptx = ""
    with pytest.raises(AttributeError, match="frozen"):
        del BF16.name
    with pytest.raises(AttributeError, match="frozen"):
        BF16.registers[0].count = 3


def test_template_takes_dtypes_by_place_and_by_name():
    fma = cute_py.atoms.UniversalFMA
    assert fma("f32", cute.f16) == fma(d="f32", a="f16", b="f16", c="f32")
    assert fma("f64").b_type is cute.f64
    assert str(fma("s32", "s8")) == "UniversalFMA<s32,s8,s8,s32>"


def test_pep_562_resolves_rows_and_knows_no_others():
    assert cute_py.atoms.SM61_DP4A is get("SM61_DP4A")
    assert cute_py.atoms.SM75_U32x4_LDSM_N is cute_py.atoms.get_copy("SM75_U32x4_LDSM_N")
    assert {"SM90_64x256x16_F32BF16BF16_SS", "SM75_U32x4_LDSM_N"} <= set(dir(cute_py.atoms))
    with pytest.raises(AttributeError, match="SM80_16x8x16_F32BF16BF16F32_NT"):
        cute_py.atoms.SM80_16x8x16_F32BF16BF16F32_NT  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        cute_py.atoms.nonsense  # noqa: B018


def test_a_name_loads_its_familys_module_alone():
    code = (
        "import sys, cute_py as cute; loaded = lambda: {m.rpartition('.')[2] for m in sys.modules"
        " if m.startswith(('cute_py.atoms.sm', 'cute_py.atoms.mma_rows'))};"
        " cute.atoms.MMA_Atom; assert not loaded();"
        " cute.atoms.SM70_8x8x4_F32F16F16F32_TN; assert loaded() == {'mma_rows'}, loaded();"
        " assert 'numpy' not in sys.modules; print('done')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "done\n", ran.stderr


# -- refusals


# -- search


def test_find_lists_native_before_emulated():
    fp8 = find(a="e4m3", c="f32", arch="sm_90a")
    support = [atom.support("sm_90a") for atom in fp8 if atom.name != "UniversalFMA"]
    assert support == sorted(support, reverse=True)
    assert fp8[0].name == "SM90_64x256x32_F32E4M3E4M3_SS_TN"
    assert {"native", "emulated"} == set(support)
    assert find(a="e4m3", c="f32", arch="sm_89")[0].name.startswith("SM89")


@given(st.sampled_from(ALL), st.sampled_from(ARCHS))
def test_find_finds_every_row_that_runs(atom, arch):
    found = find(a=atom.a_type, b=atom.b_type, c=atom.c_type, arch=arch) if atom.runnable else []
    assert (atom in found) == (atom.runnable and atom.support(arch) != "")


def test_find_takes_mixed_types_and_leaves_data_out():
    assert {atom.b_type for atom in find(a="s8", b="u8")} == {cute.u8}
    assert all(atom.runnable for atom in find())
    assert any(not atom.runnable for atom in find(runnable=False))
    assert find(a="bf16", c="f32", arch="sm_75") == [get("UniversalFMA<f32,bf16,bf16,f32>")]


@given(st.sampled_from(ALL))
def test_support_is_native_or_emulated_from_min_arch_on(atom):
    for arch in ARCHS:
        runs = atom.support(arch) != ""
        alone = not atom.min_arch[-1].isdecimal()
        assert runs == (not alone and number(arch) >= number(atom.min_arch))


def test_table_has_a_line_for_each_row_and_joins_those_that_differ_in_n():
    cells = table_rows(ALL)
    stems = [line[0] for line in cells]
    assert len(stems) == len(set(stems))
    joined = [each for each in stems if "F32BF16BF16_SS" in each]
    assert joined == ["SM90_64xNx16_F32BF16BF16_SS", "SM90_SPARSE_64xNx32_F32BF16BF16_SS"]
    assert "64x(8..256)x16" in table_text("sm_90a")


def test_table_prints_all_mma_and_copy_rows(capsys):
    cute_py.atoms.table()
    mmas, copies = capsys.readouterr().out.split("\n\n")
    stems = {cells[0] for cells in table_rows(ALL)}
    assert {line.split()[0] for line in mmas.splitlines()} == {"atom", *stems}
    names = [line.split("  ")[0] for line in copies.splitlines()]
    assert names == ["copy", *(str(op) for op in copy_rows())]


def test_table_prints_text_where_there_is_no_terminal(capsys):
    cute_py.atoms.table("sm_75")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "atom"
    assert "\x1b" not in "".join(lines)
    assert not any(line.startswith("SM89") for line in lines)
    assert any(line.startswith("SM75_8x8x16_S32S8S8S32_TN ") for line in lines)
