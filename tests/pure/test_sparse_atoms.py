"""Sparse rows: the maps of A, of its stored half and of the metadata multiply matrices."""

import re
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
import cute_py.atoms
from cute_py import Layout
from cute_py.atoms import MMA_Atom, Operand, find, get, rows
from cute_py.atoms.lint import lint
from tests.sampling import each

SPARSE = [atom for atom in rows() if atom.sparse]
WARP = [atom for atom in SPARSE if atom.name.startswith("SM80")]
WARPGROUP = [atom for atom in SPARSE if atom.name.startswith("SM90")]
BF16 = get("SM80_SPARSE_16x8x32_F32BF16BF16F32_TN")

# bits of an element -> elements that 4 bits of metadata describe
CHUNK = {32: 2, 16: 4, 8: 4, 4: 8}


def selectors(atom):
    """PTX ISA, Sparse matrix storage: the selectors that an instruction has."""
    bits, k = atom.a_type.bits, atom.shape_mnk[2]
    if atom.num_threads == 32 and bits >= 16 and k * bits == 256:
        return (0, 1, 2, 3)
    return (0,) if bits < 16 and k * bits == 512 else (0, 1)


VARIANTS = [atom(spsel=spsel) for atom in WARP for spsel in selectors(atom)]
VARIANTS += [
    atom(spsel=spsel)
    for atom in WARPGROUP
    if atom.a_memory == "rmem" and atom.shape_mnk[1] in (8, 48)
    for spsel in selectors(atom)
]


# -- 2:4, by NumPy alone


def pruned(rng, shape, bits, low=-3):
    """Return (A, its stored half, 4 bits of metadata for each chunk)."""
    chunk = CHUNK[bits]
    chunks = rng.integers(low, 4, (shape[0], shape[1] // chunk, chunk))
    if bits == 32:
        kept = rng.integers(0, 2, chunks.shape[:2])
        nibbles = np.where(kept, 0b1110, 0b0100)
        places = kept[..., None]
    else:
        choices = np.array(list(combinations(range(4), 2)))
        pairs = choices[rng.integers(0, len(choices), chunks.shape[:2])]
        nibbles = pairs[..., 0] | pairs[..., 1] << 2
        quarter = chunk // 4
        places = (pairs[..., None] * quarter + np.arange(quarter)).reshape(*chunks.shape[:2], -1)
    mask = np.zeros_like(chunks)
    np.put_along_axis(mask, places, 1, axis=2)
    half = np.take_along_axis(chunks, places, axis=2)
    return (chunks * mask).reshape(shape), half.reshape(shape[0], -1), nibbles


# -- as the registers hold it


def extra(atom, name):
    return dict(atom.extra)[name]


def places(tv, rows_):
    """Return the rows and the columns of (thread, value)."""
    offsets = tv.offsets().reshape(cute.size(tv[0]), -1, order="F")
    return offsets % rows_, offsets // rows_


def held(tile, tv):
    """Return what each thread holds of a tile."""
    return tile[places(tv, tile.shape[0])]


def handed_over(tile, tv):
    """Return the tile put together again from what the threads hold."""
    again = np.full(tile.shape, 10**9)
    again[places(tv, tile.shape[0])] = held(tile, tv)
    return again


def metadata_words(atom, nibbles, rng):
    """Return the register E of each lane; that of a lane that the selector passes over is noise."""
    m, chunk = atom.shape_mnk[0], CHUNK[atom.a_type.bits]
    row, column = places(extra(atom, "e_tv"), m)
    fields = nibbles[row[:, ::chunk], column[:, ::chunk] // chunk].astype(np.uint64)
    words = (fields << (4 * np.arange(fields.shape[1], dtype=np.uint64))).sum(axis=1)
    noise = rng.integers(0, 2**32, len(words), dtype=np.uint64)
    return np.where(contributes(atom), words, noise).astype(np.uint32)


def contributes(atom):
    """Return whether each thread is one of the four that the selector names."""
    together = 4 // len(selectors(atom))
    spsel = atom.args[-1] if atom.args else 0
    return np.arange(atom.num_threads) % 4 // together == spsel


# -- what the instruction makes of it


def decoded(atom, words):
    """Return the metadata of each chunk, read from the lanes that give it."""
    m, _, k = atom.shape_mnk
    chunk = CHUNK[atom.a_type.bits]
    row, column = places(extra(atom, "e_tv"), m)
    found = np.full((m, k // chunk), -1)
    shift = 4 * np.arange(row.shape[1] // chunk, dtype=np.uint64)
    for lane in np.flatnonzero(contributes(atom)):
        chunks = row[lane, ::chunk], column[lane, ::chunk] // chunk
        assert (found[chunks] == -1).all(), "two lanes describe a chunk"
        found[chunks] = words[lane].astype(np.uint64) >> shift & np.uint64(15)
    return found


def expanded(atom, registers, nibbles):
    """Return A, each stored value put to one of the places that `a_tv` says it stands for."""
    m, _, k = atom.shape_mnk
    chunk = CHUNK[atom.a_type.bits]
    row, column = places(atom.a_tv, m)
    whole = np.zeros((m, k), int)
    for thread, values in enumerate(registers):
        for i, value in enumerate(values):
            group, j = divmod(i, chunk // 2)
            own_row, first = row[thread, group * chunk], column[thread, group * chunk]
            assert first % chunk == 0
            nibble = int(nibbles[own_row, first // chunk])
            if chunk == 2:
                kept = {0b0100: 0, 0b1110: 1}[nibble]
            else:
                quarter, within = divmod(j, chunk // 4)
                kept = (nibble >> 2 * quarter & 3) * (chunk // 4) + within
            place = group * chunk + kept
            assert row[thread, place] == own_row
            whole[own_row, column[thread, place]] += value
    return whole


@each(VARIANTS)
def test_sparse_product_is_that_of_the_dense_matrix(atom):
    rng = np.random.default_rng(24)
    m, n, k = atom.shape_mnk
    a, half, nibbles = pruned(rng, (m, k), atom.a_type.bits, 0 if atom.a_type.min == 0 else -3)
    b, c = rng.integers(0, 3, (n, k)), rng.integers(-9, 9, (m, n))
    registers = held(half, extra(atom, "stored_tv"))
    words = metadata_words(atom, nibbles, rng)
    whole = expanded(atom, registers, decoded(atom, words))
    d = handed_over(whole @ handed_over(b, atom.b_tv).T + c, atom.c_tv)
    assert np.array_equal(d, np.einsum("mk,nk->mn", a, b) + c)


# -- the PTX ISA and CuTe C++


@each(WARP)
def test_a_register_stands_for_the_columns_that_the_ptx_isa_says(atom):
    """PTX ISA, Matrix Fragments for sparse mma: row, firstcol and lastcol of each register of A."""
    wide = 2 * 32 // atom.a_type.bits
    row, column = places(atom.a_tv, 16)
    for lane in range(32):
        group, within = divmod(lane, 4)
        for register in range(atom.registers[1].count):
            values = slice(register * wide, (register + 1) * wide)
            first = within * wide + register // 2 * 4 * wide
            assert (row[lane, values] == group + 8 * (register % 2)).all()
            assert column[lane, values].tolist() == list(range(first, first + wide))


@pytest.mark.parametrize(
    ("name", "a_tv", "e_tv"),
    [
        (
            "SM90_SPARSE_64x8x32_F16F16F16_RS",
            "((4,8,4),(4,2,2)):((256,1,16),(64,8,1024))",
            "((2,2,8,4),(16,2)):((1024,0,1,16),(64,8))",
        ),
        (
            "SM90_SPARSE_64x8x16_F32TF32TF32_RS_TN",
            "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))",
            "((2,2,8,4),(8,2)):((512,0,1,16),(64,8))",
        ),
        (
            "SM90_SPARSE_64x8x64_S32S8S8_RS_TN",
            "((4,8,4),(8,2,2)):((512,1,16),(64,8,2048))",
            "((2,2,8,4),(32)):((8,2048,1,16),(64))",
        ),
    ],
)
def test_warpgroup_layouts_are_cutes(name, a_tv, e_tv):
    """Of mma_traits_sm90_gmma.hpp (ALayout_*) and mma_traits_sm90_gmma_sparse.hpp (ELayout_*)."""
    atom = get(name)
    assert (str(atom.a_tv), str(extra(atom, "e_tv"))) == (a_tv, e_tv)


def test_warpgroup_names_and_texts_are_those_of_cutes_headers():
    spec = find_spec("cutlass_library")
    if spec is None:
        pytest.skip("no CUTLASS headers: package nvidia-cutlass")
    folder = Path(spec.origin).parent / "source" / "include" / "cute" / "arch"
    headers = sorted(folder.glob("mma_sm90_gmma_sparse*.hpp"))
    assert len(headers) == 2
    text = "".join(header.read_text(encoding="utf-8") for header in headers)
    names = re.findall(r"^struct GMMA_(\w+)", text, re.MULTILINE)
    assert {f"SM90_SPARSE_{name}" for name in names} == {atom.name for atom in WARPGROUP}
    mnemonics = set(re.findall(r'"(wgmma\.mma_async\.sp\S+) ', text))
    assert mnemonics == {atom.ptx.partition(" ")[0] for atom in WARPGROUP}


# -- the rows


def test_there_is_a_row_for_each_instruction():
    assert (
        len(WARP) == 2 * 4 + 2 * 8 * 2
    )  # floats; signs of A and B, 8 and 4 bits, saturating or not
    assert len(WARPGROUP) == 2 * (32 * (4 + 8) + 18 * 4 * 2)  # SS and RS; wrapping and saturating
    assert len(SPARSE) == len(WARP) + len(WARPGROUP) + 1  # SM120


@given(st.sampled_from(SPARSE))
def test_sparse_rows_are_sound_data(atom):
    assert lint(atom) == []
    assert not atom.runnable
    assert atom.min_arch in ("sm_80", "sm_90a", "sm_120a")
    k = atom.shape_mnk[2]
    stored = extra(atom, "stored_tv")[1]
    assert 2 * cute.size(stored) == cute.size(atom.a_tv[1])
    assert cute.cosize(extra(atom, "stored_tv")) == atom.shape_mnk[0] * k // 2


def edited(**changes):
    """Return the bf16 row with some fields replaced."""
    fields = {field: getattr(BF16, field) for field in MMA_Atom.__slots__}
    return cute_py.atoms.mma._restore({**fields, "name": "edited", **changes})


E_TV, STORED_TV = BF16.extra


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"extra": (E_TV, ("stored_tv", BF16.a_tv))}, "stored A .* does not reach each"),
        (
            {"extra": (("e_tv", Layout(((2, 8), 32))), STORED_TV)},
            "E .* does not have the 32 threads",
        ),
        (
            {"extra": (("e_tv", Layout(((2, 2, 8), (16, 2)), ((0, 0, 1), (16, 8)))), STORED_TV)},
            "E .* does not describe each element",
        ),
        ({"registers": BF16.registers[:4]}, "E has 32 bits in a thread, but its operand is"),
        ({"registers": (*BF16.registers[:4], Operand(2, "b32"))}, "E has 32 bits in a thread"),
        ({"ptx": BF16.ptx.replace("{e}", "%r0")}, "does not have .* {e} once each"),
    ],
)
def test_lint_names_the_fault(changes, complaint):
    problems = lint(edited(**changes))
    assert any(re.search(complaint, each) for each in problems), problems


def test_instruction_names_the_metadata_and_its_lanes():
    text = BF16(spsel=1).instruction("dddd", "aaaa", "bbbb", "cccc", e=["%e"])
    assert text == (
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 "
        "{d, d, d, d}, {a, a, a, a}, {b, b, b, b}, {c, c, c, c}, %e, 1;"
    )
    gmma = get("SM90_SPARSE_64x8x32_F16F16F16_SS<K,MN,1,-1,1>")
    assert gmma.instruction("dd", ["%a"], ["%b"], e=["%e"]).endswith(
        "%a, %b, %e, 1, p, 1, -1, 0, 1;"
    )
    with pytest.raises(cute.LayoutError, match="given 0 registers for an operand of 1"):
        BF16.instruction("dddd", "aaaa", "bbbb", "cccc")


@pytest.mark.parametrize(
    ("name", "spsel", "text"),
    [
        ("SM80_SPARSE_16x8x16_F16F16F16F16_TN", 4, "spsel of 0 or 1 or 2 or 3"),
        ("SM80_SPARSE_16x8x32_F16F16F16F16_TN", 2, "spsel of 0 or 1;"),
        ("SM80_SPARSE_16x8x64_S32S8S8S32_TN", 1, "spsel of 0;"),
        ("SM90_SPARSE_64x8x64_S32S8S8_SS_TN", 1, "spsel of 0;"),
        ("SM90_SPARSE_64x8x32_F16F16F16_SS", -1, "spsel of 0 or 1; .* spsel selects the lanes"),
    ],
)
def test_a_selector_that_the_instruction_lacks_is_refused(name, spsel, text):
    with pytest.raises(cute.LayoutError, match=text) as caught:
        get(name)(spsel=spsel)
    assert caught.value.code == "atom-argument"


@pytest.mark.parametrize("name", ["a", "b"])
def test_find_offers_no_sparse_row_for_dense_operands(name):
    for dtype in {getattr(atom, f"{name}_type") for atom in SPARSE}:
        for runnable in (False, True):
            assert not any(atom.sparse for atom in find(a=dtype, runnable=runnable))
    assert not any(atom.sparse for atom in find(runnable=False))


def test_find_offers_sparse_rows_where_they_are_asked_for():
    found = find(a="f16", c="f32", arch="sm_90a", sparse=True, runnable=False)
    assert all(atom.sparse and atom.a_type is cute.f16 for atom in found)
    assert found[0].name == "SM90_SPARSE_64x256x32_F32F16F16_SS"
    assert find(sparse=True) == []  # all of them are data
